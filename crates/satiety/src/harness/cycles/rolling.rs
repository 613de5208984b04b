//! Rolling metrics of a window of cycles: average, trend and the two trailing runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::harness::signals::{Level, slope};
use crate::stats::mean;

/// Metrics computed over a window of cycles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RollingMetrics {
    /// Mean score of the window; 0 if it is empty.
    pub avg_saturation_score: f64,
    /// Trend of the score.
    pub saturation_trend: Trend,
    /// Number of trailing cycles that are HIGH or CRITICAL.
    pub consecutive_high_count: u32,
    /// Number of trailing cycles that are CRITICAL.
    pub consecutive_critical_count: u32,
}

/// Trend of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// Rising by more than 0.01 per cycle.
    Increasing,
    /// Falling by more than 0.01 per cycle.
    Decreasing,
    /// Neither rising nor falling.
    Stable,
}

/// Cycle in the history of a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Id of the cycle.
    pub cycle_id: String,
    /// Score that drives the window.
    pub score: f64,
    /// Saturation level of the score.
    pub level: Level,
    /// Gain of the last accepted change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// Whether the cycle was stated without runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

impl RollingMetrics {
    pub(super) fn from_history(history: &[HistoryEntry]) -> Self {
        let scores: Vec<f64> = history.iter().map(|entry| entry.score).collect();
        let (high, critical) = trailing_runs(history.iter().map(|entry| entry.level));
        Self {
            avg_saturation_score: mean(&scores).unwrap_or(0.0),
            saturation_trend: match slope(&scores) {
                Some(slope) if slope > 0.01 => Trend::Increasing,
                Some(slope) if slope < -0.01 => Trend::Decreasing,
                _ => Trend::Stable,
            },
            consecutive_high_count: high,
            consecutive_critical_count: critical,
        }
    }

    /// Combines two sets of metrics, taking the value closer to an alarm for each.
    pub(super) fn or_higher(&self, other: &Self) -> Self {
        let rising = |trend| match trend {
            Trend::Decreasing => 0,
            Trend::Stable => 1,
            Trend::Increasing => 2,
        };
        Self {
            avg_saturation_score: self.avg_saturation_score.max(other.avg_saturation_score),
            saturation_trend: if rising(other.saturation_trend) > rising(self.saturation_trend) {
                other.saturation_trend
            } else {
                self.saturation_trend
            },
            consecutive_high_count: self.consecutive_high_count.max(other.consecutive_high_count),
            consecutive_critical_count: self
                .consecutive_critical_count
                .max(other.consecutive_critical_count),
        }
    }
}

/// Counts two independent trailing runs: levels that are HIGH or CRITICAL, and CRITICAL alone.
pub(crate) fn trailing_runs(levels: impl IntoIterator<Item = Level>) -> (u32, u32) {
    let (mut high, mut critical) = (0, 0);
    for level in levels {
        high = if level >= Level::High { high + 1 } else { 0 };
        critical = if level == Level::Critical { critical + 1 } else { 0 };
    }
    (high, critical)
}
