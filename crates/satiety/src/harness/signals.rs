//! The specification's saturation score: five signals, each normalised to [0, 1] and weighted, with the trend and the
//! regression term corrected so that true saturation scores high and a broken system scores low.
//!
//! What is corrected, and why, is told by [`super::literal`], which keeps the specification's own arithmetic. Where the
//! signals come from is [`super::sources`]' business; what follows from scores over time is [`super::cycles`]'.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::stats::{least_squares, mean};

/// The signals of one cycle. A signal that was not measured is absent and adds nothing: no evidence of saturation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalMetrics {
    /// Share of benchmarks that score above 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark_ceiling_rate: Option<f64>,
    /// Share of regression tests that pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression_pass_rate: Option<f64>,
    /// What the last accepted change gained; the history of it is assembled from the stored cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub improvement_delta: Option<f64>,
    /// Share of proposals that pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_pass_rate: Option<f64>,
    /// Share of cycles in which all auditors agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auditor_unanimous_rate: Option<f64>,
}

/// Why metrics were refused. Nothing is recorded from them.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SignalError {
    /// A rate or delta that is no number of its range.
    #[error(
        "{name} is {value}, outside {range}; nothing was recorded. Give a share such as 0.82, not a percentage"
    )]
    OutOfRange {
        /// Which metric.
        name: String,
        /// What it was.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
}

/// How saturated a harness is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Level {
    /// It discriminates.
    Normal,
    /// First signs.
    Elevated,
    /// Flag for review.
    High,
    /// Trigger research for an expansion.
    Critical,
}

/// The numbers of the score; the defaults are the specification's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignalSettings {
    /// Weights of ceiling, regression, trend, proposals and auditors.
    pub weights: [f64; 5],
    /// The ceiling rate that counts in full.
    pub full_ceiling_rate: f64,
    /// The proposal pass rate that counts in full.
    pub full_proposal_rate: f64,
    /// The rate of unanimous auditors that counts in full.
    pub full_auditor_rate: f64,
    /// A steeper fall of the deltas per cycle counts as declining.
    pub declining_slope: f64,
    /// A mean delta of this size or more is still worth having.
    pub meaningful_delta: f64,
    /// How many deltas a trend needs, and how many recent ones tell a stall.
    pub trend_cycles: usize,
    /// Where ELEVATED, HIGH and CRITICAL begin; each border belongs to the upper level.
    pub levels: [f64; 3],
}

impl Default for SignalSettings {
    fn default() -> Self {
        Self {
            weights: [0.30, 0.25, 0.20, 0.15, 0.10],
            full_ceiling_rate: 0.80,
            full_proposal_rate: 0.85,
            full_auditor_rate: 0.90,
            declining_slope: -0.01,
            meaningful_delta: 0.01,
            trend_cycles: 5,
            levels: [0.5, 0.7, 0.85],
        }
    }
}

/// One signal's share of the score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalPart {
    /// Its name in the specification.
    pub name: String,
    /// What was measured; for the trend the mean of the recent deltas.
    pub raw: Option<f64>,
    /// Between 0 and 1.
    pub normalised: f64,
    /// How much it counts.
    pub weight: f64,
    /// Why it is what it is.
    pub reason: String,
}

/// The specification's score of one cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalScore {
    /// Between 0 and 1; higher is more saturated.
    pub score: f64,
    /// Its level.
    pub level: Level,
    /// What it consists of, in the specification's order.
    pub parts: Vec<SignalPart>,
}

/// Scores the signals of a cycle. `deltas` are the improvement deltas of this harness version, oldest first, this
/// cycle's included.
pub fn score(
    metrics: &SignalMetrics,
    deltas: &[f64],
    settings: &SignalSettings,
) -> Result<SignalScore, SignalError> {
    check(metrics, deltas)?;
    let [ceiling, regression, trend, proposals, auditors] = settings.weights;
    let parts = vec![
        share(
            "benchmark_ceiling_rate",
            metrics.benchmark_ceiling_rate,
            settings.full_ceiling_rate,
            ceiling,
        ),
        regression_part(metrics.regression_pass_rate, regression),
        trend_part(deltas, settings, trend),
        share(
            "proposal_pass_rate",
            metrics.proposal_pass_rate,
            settings.full_proposal_rate,
            proposals,
        ),
        share(
            "auditor_unanimous_rate",
            metrics.auditor_unanimous_rate,
            settings.full_auditor_rate,
            auditors,
        ),
    ];
    let sum: f64 = parts.iter().map(|part| part.normalised * part.weight).sum();
    // The weights are no binary fractions: without rounding .25 + .2 + .15 + .1 may fall short of .7.
    let score = ((sum * 1e12).round() / 1e12).clamp(0.0, 1.0);
    Ok(SignalScore {
        score,
        level: Level::of(score, settings.levels),
        parts,
    })
}

/// Refuses metrics that are no numbers of their range.
pub fn check(metrics: &SignalMetrics, deltas: &[f64]) -> Result<(), SignalError> {
    let rates = [
        ("benchmark_ceiling_rate", metrics.benchmark_ceiling_rate),
        ("regression_pass_rate", metrics.regression_pass_rate),
        ("proposal_pass_rate", metrics.proposal_pass_rate),
        ("auditor_unanimous_rate", metrics.auditor_unanimous_rate),
    ];
    for (name, value) in rates {
        within(name, value, 0.0, "[0, 1]")?;
    }
    within("improvement_delta", metrics.improvement_delta, -1.0, "[-1, 1]")?;
    for (index, &delta) in deltas.iter().enumerate() {
        within(
            &format!("improvement delta {index} of the history"),
            Some(delta),
            -1.0,
            "[-1, 1]",
        )?;
    }
    Ok(())
}

fn within(name: &str, value: Option<f64>, low: f64, range: &'static str) -> Result<(), SignalError> {
    match value {
        // NaN lies in no range.
        Some(value) if !(low..=1.0).contains(&value) => Err(SignalError::OutOfRange {
            name: name.to_owned(),
            value,
            range,
        }),
        _ => Ok(()),
    }
}

fn share(name: &str, raw: Option<f64>, full: f64, weight: f64) -> SignalPart {
    let (normalised, reason) = match raw {
        None => (0.0, "not measured, so no evidence of saturation".to_owned()),
        Some(value) if value >= full => (1.0, format!("{value:.3} reaches {full}")),
        Some(value) => (value / full, format!("{value:.3} of {full}")),
    };
    SignalPart {
        name: name.to_owned(),
        raw,
        normalised,
        weight,
        reason,
    }
}

fn regression_part(raw: Option<f64>, weight: f64) -> SignalPart {
    let (normalised, reason) = match raw {
        None => (0.0, "not measured, so no evidence of saturation".to_owned()),
        Some(1.0) => (1.0, "all regression tests pass".to_owned()),
        Some(rate) => (
            0.5 * rate,
            format!("{:.1} % of the regression tests fail", 100.0 * (1.0 - rate)),
        ),
    };
    SignalPart {
        name: "regression_pass_rate".to_owned(),
        raw,
        normalised,
        weight,
        reason,
    }
}

/// The larger of decline (deltas still fall) and stall (they have fallen to nothing).
fn trend_part(deltas: &[f64], settings: &SignalSettings, weight: f64) -> SignalPart {
    let needed = settings.trend_cycles.max(1);
    let recent = deltas
        .len()
        .checked_sub(needed)
        .and_then(|from| deltas.get(from..));
    let (raw, normalised, reason) = match recent.and_then(|recent| mean(recent).ok()) {
        None => (
            None,
            0.0,
            format!("{} of the {needed} deltas that a trend needs", deltas.len()),
        ),
        Some(mean) => {
            let (decline, stall) = (
                decline(deltas, settings.declining_slope),
                stall(mean, settings.meaningful_delta),
            );
            let reason = if stall >= decline {
                format!(
                    "the last {needed} changes gained {mean:.4} on average (worth having: {})",
                    settings.meaningful_delta
                )
            } else {
                "what changes gain is falling from cycle to cycle".to_owned()
            };
            (Some(mean), decline.max(stall), reason)
        }
    };
    SignalPart {
        name: "improvement_delta_trend".to_owned(),
        raw,
        normalised,
        weight,
        reason,
    }
}

/// The specification's rule: ten times the slope when it falls by more than the cut.
pub(super) fn decline(deltas: &[f64], cut: f64) -> f64 {
    match slope(deltas) {
        Some(slope) if slope < cut => (slope.abs() * 10.0).min(1.0),
        _ => 0.0,
    }
}

/// 1 when nothing is gained any more, 0 from the meaningful delta on.
fn stall(mean: f64, meaningful: f64) -> f64 {
    1.0 - (mean / meaningful.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

/// Change per cycle by least squares; absent below three values.
pub(in crate::harness) fn slope(values: &[f64]) -> Option<f64> {
    let time: Vec<f64> = (0..values.len()).map(|index| index as f64).collect();
    least_squares(&time, values, 0.95).ok().map(|fit| fit.slope)
}

impl Level {
    /// The level of a score between 0 and 1; a border belongs to the upper level.
    pub fn of(score: f64, [elevated, high, critical]: [f64; 3]) -> Self {
        if score >= critical {
            Self::Critical
        } else if score >= high {
            Self::High
        } else if score >= elevated {
            Self::Elevated
        } else {
            Self::Normal
        }
    }

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Elevated => "ELEVATED",
            Self::High => "HIGH",
            Self::Critical => "CRITICAL",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
