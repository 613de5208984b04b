//! Measures from runs whether a suite still discriminates: how much better a successor could be, whether this
//! suite would detect it, and which cases still carry information.
//!
//! SATURATED means too easy: make it harder. UNDERPOWERED means too few cases: add more of the same kind. The
//! specification's own score is in [`super::signals`]; this module is independent of cycles and actions.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::stats::StatsError;

mod evidence;
mod headroom;
mod items;
mod matrix;
#[cfg(test)]
mod tests;

pub use evidence::{SaturationEvidence, saturation_evidence};
pub use headroom::Headroom;
pub use items::{Discrimination, Items};
pub use matrix::{CaseHistory, Matrix};

/// Settings of the saturation measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MeasureSettings {
    /// Significance level at which an improvement counts as shown.
    pub alpha: f64,
    /// Desired probability that an improvement is detected, from 0 to 1.
    pub power: f64,
    /// Best achievable score given errors of judge and labels, above 0 and at most 1.
    pub noise_ceiling: f64,
    /// Number of recent versions in which dead cases are looked for.
    pub window: usize,
    /// Minimum number of versions for calling a case dead.
    pub minimum_versions: usize,
    /// Share of dead cases from which an insensitive suite is too easy rather than too small.
    pub dead_share: f64,
    /// Probability of missing the headroom from which a suite does not discriminate.
    pub unseen: f64,
    /// Pass rate of the ceiling, used with too few versions to call cases dead.
    pub ceiling: f64,
    /// Number of bootstrap resamples.
    pub resamples: u64,
    /// Random seed of the resamples.
    pub seed: u64,
}

impl Default for MeasureSettings {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            power: 0.8,
            noise_ceiling: 1.0,
            window: 5,
            minimum_versions: 3,
            dead_share: 0.8,
            unseen: 0.5,
            ceiling: 0.95,
            resamples: 2_000,
            seed: 0,
        }
    }
}

/// Whether a suite still discriminates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "SuiteVerdict")]
pub enum Verdict {
    /// The suite would detect an improvement.
    Discriminates,
    /// Too easy: almost no headroom is left.
    Saturated,
    /// Too few cases: headroom is left but would go undetected.
    Underpowered,
}

/// Result of a saturation measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Verdict of the measurement.
    pub verdict: Verdict,
    /// Reasons for the verdict, the decisive one first.
    pub reasons: Vec<String>,
    /// Headroom of the suite, and whether it is detectable.
    pub headroom: Headroom,
    /// Information that each case still carries.
    pub items: Items,
}

/// Reason why a suite cannot be measured.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MeasureError {
    /// There are no runs.
    #[error("no runs found; run the suite first")]
    NoRuns,
    /// The run decided no case.
    #[error("run {run_id} has no decided case; check its errors")]
    NothingDecided {
        /// Id of the run.
        run_id: String,
    },
    /// Regression tests are expected to pass, so they do not measure headroom.
    #[error("cannot measure regression tests only: they are expected to pass")]
    OnlyRegressions,
    /// A single case has no variance.
    #[error("cannot measure a single case; add cases")]
    OneCase,
    /// The run has several variants and is therefore not one version.
    #[error("run {run_id} has several variants; measure one variant at a time")]
    SeveralVariants {
        /// Id of the run.
        run_id: String,
    },
    /// The runs belong to different suites.
    #[error("run {run_id} belongs to suite {suite_id} (expected {expected}); measure one suite at a time")]
    SeveralSuites {
        /// Id of the run.
        run_id: String,
        /// Suite of the run.
        suite_id: String,
        /// Suite of the last run.
        expected: String,
    },
    /// A setting is out of range.
    #[error("{name} is {value} (expected {range})")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Value that was given.
        value: f64,
        /// Permitted range.
        range: &'static str,
    },
    /// A statistic could not be computed.
    #[error(transparent)]
    Stats(#[from] StatsError),
}

/// Measures whether a suite still discriminates.
pub fn measure(matrix: &Matrix, settings: &MeasureSettings) -> Result<Measured, MeasureError> {
    for (name, value) in [
        ("noise_ceiling", settings.noise_ceiling),
        ("dead_share", settings.dead_share),
        ("unseen", settings.unseen),
        ("ceiling", settings.ceiling),
    ] {
        if !(value > 0.0 && value <= 1.0) {
            return Err(MeasureError::Setting {
                name,
                value,
                range: "(0, 1]",
            });
        }
    }
    let headroom = headroom::headroom(matrix, settings)?;
    let items = items::items(matrix, settings);
    let (verdict, reasons) = decide_verdict(&headroom, &items, settings);
    Ok(Measured {
        verdict,
        reasons,
        headroom,
        items,
    })
}

fn decide_verdict(headroom: &Headroom, items: &Items, settings: &MeasureSettings) -> (Verdict, Vec<String>) {
    let mut reasons = Vec::new();
    let can_be_shown = headroom.failing >= headroom.failing_needed;
    let verdict = if can_be_shown && headroom.saturation < settings.unseen {
        reasons.push(format!(
            "closing all headroom ({:.1} points) would go undetected with probability {:.2}",
            100.0 * headroom.headroom,
            headroom.saturation
        ));
        Verdict::Discriminates
    } else {
        reasons.push(if can_be_shown {
            format!(
                "closing all headroom ({:.1} points) would go undetected with probability {:.2}; the smallest detectable gain is {:.1} points",
                100.0 * headroom.headroom,
                headroom.saturation,
                100.0 * headroom.detectable
            )
        } else {
            format!(
                "{} of {} cases fail; showing an improvement at level {} requires at least {} failing cases",
                headroom.failing, headroom.cases, settings.alpha, headroom.failing_needed
            )
        });
        let easy = if let Some(dead) = items.dead_share {
            reasons.push(format!(
                "{:.0} % of the cases run by all of the last {} versions always passed",
                100.0 * dead,
                items.versions
            ));
            dead >= settings.dead_share
        } else {
            reasons.push(format!(
                "too few versions to call cases dead; at most {:.1} % of such cases fail (95 % confidence)",
                100.0 * headroom.upper_bound
            ));
            headroom.upper_bound < 1.0 - settings.ceiling
        };
        if easy {
            Verdict::Saturated
        } else {
            reasons.push(match headroom.cases_needed {
                Some(needed) => format!("about {needed} cases of this kind would detect it"),
                None => "more cases of this kind are needed to observe any failure".to_owned(),
            });
            Verdict::Underpowered
        }
    };
    if !items.never_pass.is_empty() {
        reasons.push(format!(
            "{} case(s) never passed and may be broken; check {}",
            items.never_pass.len(),
            items
                .never_pass
                .iter()
                .take(3)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    let negative: Vec<&str> = items
        .discrimination
        .iter()
        .filter(|case| case.correlation < 0.0)
        .map(|case| case.case_id.as_str())
        .collect();
    if let [first, ..] = negative[..] {
        reasons.push(format!(
            "{} case(s) correlate negatively with the rest, such as {first}",
            negative.len()
        ));
    }
    (verdict, reasons)
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Discriminates => "DISCRIMINATES",
            Self::Saturated => "SATURATED",
            Self::Underpowered => "UNDERPOWERED",
        })
    }
}
