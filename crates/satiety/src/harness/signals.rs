//! The specification's saturation score: five signals, each normalized to [0, 1] and weighted. The trend and
//! regression terms are corrected so that true saturation scores high and a broken system scores low.
//!
//! [`super::literal`] lists the corrections and keeps the specification's own arithmetic. [`super::sources`]
//! collects the signals; [`super::cycles`] evaluates scores over time.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::stats::{least_squares, mean};

/// Signals of one cycle. A signal that was not measured is absent and contributes nothing to the score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalMetrics {
    /// Share of benchmarks that score above 95 %, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark_ceiling_rate: Option<f64>,
    /// Share of regression tests that pass, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression_pass_rate: Option<f64>,
    /// Gain of the last accepted change, from -1 to 1; its history comes from the stored cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub improvement_delta: Option<f64>,
    /// Share of proposals that pass the gate, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_pass_rate: Option<f64>,
    /// Share of cycles in which all auditors agreed, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auditor_unanimous_rate: Option<f64>,
}

/// Reason why metrics were rejected; nothing is recorded.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SignalError {
    /// A rate or delta is out of range.
    #[error(
        "{name} is {value} (expected {range}); nothing was recorded; use a share such as 0.82, not a percentage"
    )]
    OutOfRange {
        /// Name of the metric.
        name: String,
        /// Value that was given.
        value: f64,
        /// Permitted range.
        range: &'static str,
    },
}

/// Saturation level of a harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "SaturationLevel")]
pub enum Level {
    /// The harness still discriminates.
    Normal,
    /// First signs of saturation.
    Elevated,
    /// Saturated enough to flag for review.
    High,
    /// Saturated enough to trigger research for an expansion.
    Critical,
}

/// Parameters of the score; the defaults are the specification's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignalSettings {
    /// Weights of ceiling, regression, trend, proposals and auditors, in this order.
    pub weights: [f64; 5],
    /// Ceiling rate that contributes its full weight.
    pub full_ceiling_rate: f64,
    /// Proposal pass rate that contributes its full weight.
    pub full_proposal_rate: f64,
    /// Rate of unanimous auditors that contributes its full weight.
    pub full_auditor_rate: f64,
    /// Slope of the deltas per cycle below which they count as declining.
    pub declining_slope: f64,
    /// Mean delta from which changes are still meaningful.
    pub meaningful_delta: f64,
    /// Number of deltas that a trend needs, and number of recent ones that indicate a stall.
    pub trend_cycles: usize,
    /// Lower bounds of ELEVATED, HIGH and CRITICAL, each inclusive.
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

/// Contribution of one signal to the score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalPart {
    /// Name of the signal in the specification.
    pub name: String,
    /// Measured value; for the trend, the mean of the recent deltas.
    pub raw: Option<f64>,
    /// Normalized value, from 0 to 1.
    pub normalised: f64,
    /// Weight of the signal in the score.
    pub weight: f64,
    /// Explanation of the normalized value.
    pub reason: String,
}

/// Saturation score of one cycle by the specification's signals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalScore {
    /// Saturation from 0 to 1; higher is more saturated.
    pub score: f64,
    /// Saturation level of the score.
    pub level: Level,
    /// Contributions of the signals, in the specification's order.
    pub parts: Vec<SignalPart>,
}

/// Scores the signals of a cycle. `deltas` are the improvement deltas of this harness version, oldest first,
/// including this cycle.
pub fn score(
    metrics: &SignalMetrics,
    deltas: &[f64],
    settings: &SignalSettings,
) -> Result<SignalScore, SignalError> {
    check(metrics, deltas)?;
    let [ceiling, regression, trend, proposals, auditors] = settings.weights;
    let parts = vec![
        rate_part(
            "benchmark_ceiling_rate",
            metrics.benchmark_ceiling_rate,
            settings.full_ceiling_rate,
            ceiling,
        ),
        regression_part(metrics.regression_pass_rate, regression),
        trend_part(deltas, settings, trend),
        rate_part(
            "proposal_pass_rate",
            metrics.proposal_pass_rate,
            settings.full_proposal_rate,
            proposals,
        ),
        rate_part(
            "auditor_unanimous_rate",
            metrics.auditor_unanimous_rate,
            settings.full_auditor_rate,
            auditors,
        ),
    ];
    let sum: f64 = parts.iter().map(|part| part.normalised * part.weight).sum();
    // The weights are not binary fractions: without rounding, .25 + .2 + .15 + .1 may fall short of .7.
    let score = ((sum * 1e12).round() / 1e12).clamp(0.0, 1.0);
    Ok(SignalScore {
        score,
        level: Level::of(score, settings.levels),
        parts,
    })
}

/// Checks that all metrics are in range.
pub fn check(metrics: &SignalMetrics, deltas: &[f64]) -> Result<(), SignalError> {
    let rates = [
        ("benchmark_ceiling_rate", metrics.benchmark_ceiling_rate),
        ("regression_pass_rate", metrics.regression_pass_rate),
        ("proposal_pass_rate", metrics.proposal_pass_rate),
        ("auditor_unanimous_rate", metrics.auditor_unanimous_rate),
    ];
    for (name, value) in rates {
        check_range(name, value, 0.0, "[0, 1]")?;
    }
    check_range("improvement_delta", metrics.improvement_delta, -1.0, "[-1, 1]")?;
    for (index, &delta) in deltas.iter().enumerate() {
        check_range(
            &format!("improvement delta {index} in the history"),
            Some(delta),
            -1.0,
            "[-1, 1]",
        )?;
    }
    Ok(())
}

fn check_range(name: &str, value: Option<f64>, low: f64, range: &'static str) -> Result<(), SignalError> {
    match value {
        // NaN is in no range.
        Some(value) if !(low..=1.0).contains(&value) => Err(SignalError::OutOfRange {
            name: name.to_owned(),
            value,
            range,
        }),
        _ => Ok(()),
    }
}

fn rate_part(name: &str, raw: Option<f64>, full: f64, weight: f64) -> SignalPart {
    let (normalised, reason) = match raw {
        None => (0.0, "not measured".to_owned()),
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
        None => (0.0, "not measured".to_owned()),
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

/// Computes the trend: the larger of decline (deltas still fall) and stall (they have reached zero).
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
            format!("{} of {needed} deltas required for a trend", deltas.len()),
        ),
        Some(mean) => {
            let (decline, stall) = (
                decline(deltas, settings.declining_slope),
                stall(mean, settings.meaningful_delta),
            );
            let reason = if stall >= decline {
                format!(
                    "mean gain of the last {needed} changes is {mean:.4} (meaningful from {})",
                    settings.meaningful_delta
                )
            } else {
                "gains are declining from cycle to cycle".to_owned()
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

/// Applies the specification's rule: ten times the slope if it is below the cut.
pub(super) fn decline(deltas: &[f64], cut: f64) -> f64 {
    match slope(deltas) {
        Some(slope) if slope < cut => (slope.abs() * 10.0).min(1.0),
        _ => 0.0,
    }
}

/// Returns 1 if changes no longer gain anything, 0 from the meaningful delta on.
fn stall(mean: f64, meaningful: f64) -> f64 {
    1.0 - (mean / meaningful.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

/// Returns the change per cycle by least squares; `None` for fewer than three values.
pub(in crate::harness) fn slope(values: &[f64]) -> Option<f64> {
    let time: Vec<f64> = (0..values.len()).map(|index| index as f64).collect();
    least_squares(&time, values, 0.95).ok().map(|fit| fit.slope)
}

impl Level {
    /// Returns the level of a score between 0 and 1; bounds are inclusive.
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

    /// Returns the name used in files.
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
