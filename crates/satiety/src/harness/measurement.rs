//! Does a suite still discriminate? Measured from runs instead of inferred from rates: how much better a successor could
//! be, whether this suite would show it, and which cases still tell anything.
//!
//! SATURATED means too easy: make it harder. UNDERPOWERED means too few cases: add more of the same kind. The
//! specification's own score is [`super::signals`]; this module knows nothing of cycles or actions.

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

/// How saturation is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MeasureSettings {
    /// The level at which an improvement counts as shown.
    pub alpha: f64,
    /// How probable it should be that an improvement is shown.
    pub power: f64,
    /// The best score that is possible given errors of judge and labels.
    pub noise_ceiling: f64,
    /// How many versions back dead cases are looked for.
    pub window: usize,
    /// With fewer versions nothing is called dead.
    pub minimum_versions: usize,
    /// From this share of dead cases on, a suite that shows nothing is too easy rather than too small.
    pub dead_share: f64,
    /// The probability of seeing nothing from which on a suite does not discriminate.
    pub unseen: f64,
    /// A pass rate above this is the ceiling; used where there are too few versions to call cases dead.
    pub ceiling: f64,
    /// Bootstrap resamples.
    pub resamples: u64,
    /// Their seed.
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
pub enum Verdict {
    /// An improvement would be seen.
    Discriminates,
    /// Too easy: there is next to nothing left to see.
    Saturated,
    /// Too few cases: there is something left, and it would go unseen.
    Underpowered,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// What follows.
    pub verdict: Verdict,
    /// Why, what decided first.
    pub reasons: Vec<String>,
    /// What is left to gain, and whether it would be seen.
    pub headroom: Headroom,
    /// What each case still tells.
    pub items: Items,
}

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MeasureError {
    /// There is nothing to look at.
    #[error("there are no runs; run the suite first")]
    NoRuns,
    /// Not one case was decided.
    #[error("run {run_id} decided no case; see its errors")]
    NothingDecided {
        /// Which.
        run_id: String,
    },
    /// Regression tests are meant to pass; they say nothing about what is left to gain.
    #[error("every case is a regression test; those are meant to pass")]
    OnlyRegressions,
    /// One case has no spread.
    #[error("one case cannot discriminate; add cases")]
    OneCase,
    /// A run with several configurations is not one version.
    #[error("run {run_id} has several variants; measure the results of one")]
    SeveralVariants {
        /// Which.
        run_id: String,
    },
    /// Runs of different suites say nothing about each other.
    #[error("run {run_id} is of suite {suite_id}, not {expected}; measure one suite at a time")]
    SeveralSuites {
        /// Which.
        run_id: String,
        /// Its suite.
        suite_id: String,
        /// The suite of the last run.
        expected: String,
    },
    /// A setting is out of its range.
    #[error("{name} is {value}, outside {range}")]
    Setting {
        /// Which.
        name: &'static str,
        /// What it was.
        value: f64,
        /// What it may be.
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
    let (verdict, reasons) = judge(&headroom, &items, settings);
    Ok(Measured {
        verdict,
        reasons,
        headroom,
        items,
    })
}

fn judge(room: &Headroom, items: &Items, settings: &MeasureSettings) -> (Verdict, Vec<String>) {
    let mut reasons = Vec::new();
    let shown = room.failing >= room.failing_needed;
    let verdict = if shown && room.saturation < settings.unseen {
        reasons.push(format!(
            "closing all headroom ({:.1} points) would go unseen with probability {:.2}",
            100.0 * room.headroom,
            room.saturation
        ));
        Verdict::Discriminates
    } else {
        reasons.push(if shown {
            format!(
                "closing all headroom ({:.1} points) would go unseen with probability {:.2}; {:.1} points are needed",
                100.0 * room.headroom,
                room.saturation,
                100.0 * room.detectable
            )
        } else {
            format!(
                "{} of {} cases fail; no successor can be shown better at level {} with fewer than {}",
                room.failing, room.cases, settings.alpha, room.failing_needed
            )
        });
        let easy = if let Some(dead) = items.dead_share {
            reasons.push(format!(
                "{:.0} % of the cases that the last {} versions were asked passed every time",
                100.0 * dead,
                items.versions
            ));
            dead >= settings.dead_share
        } else {
            reasons.push(format!(
                "too few versions to call cases dead; at most {:.1} % of such cases fail (95 %)",
                100.0 * room.upper_bound
            ));
            room.upper_bound < 1.0 - settings.ceiling
        };
        if easy {
            Verdict::Saturated
        } else {
            reasons.push(match room.cases_needed {
                Some(needed) => format!("about {needed} cases of this kind would show it"),
                None => "more cases of this kind are needed to see any failure".to_owned(),
            });
            Verdict::Underpowered
        }
    };
    if !items.never_pass.is_empty() {
        reasons.push(format!(
            "{} case(s) never passed and may be broken: check {}",
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
    let against: Vec<&str> = items
        .discrimination
        .iter()
        .filter(|case| case.correlation < 0.0)
        .map(|case| case.case_id.as_str())
        .collect();
    if let [first, ..] = against[..] {
        reasons.push(format!(
            "{} case(s) go against the rest, {first} for one",
            against.len()
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
