//! The figures of a window of cycles: average, trend and the two trailing runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::harness::signals::{Level, slope};
use crate::stats::mean;

/// Figures of the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RollingMetrics {
    /// Mean score; 0 for an empty window.
    pub avg_saturation_score: f64,
    /// Where the score is going.
    pub saturation_trend: Trend,
    /// Trailing cycles that are HIGH or CRITICAL.
    pub consecutive_high_count: u32,
    /// Trailing cycles that are CRITICAL.
    pub consecutive_critical_count: u32,
}

/// Where the score is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// Up by more than 0.01 a cycle.
    Increasing,
    /// Down by more than 0.01 a cycle.
    Decreasing,
    /// Neither.
    Stable,
}

/// One cycle of the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Which.
    pub cycle_id: String,
    /// The score that the window follows.
    pub score: f64,
    /// Its level.
    pub level: Level,
    /// What the last accepted change gained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// Whether somebody stated it, without runs behind it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

impl RollingMetrics {
    pub(super) fn of(history: &[HistoryEntry]) -> Self {
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

    /// Of each figure the one that is nearer to an alarm.
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

/// Two independent trailing runs: of levels that are HIGH or CRITICAL, and of CRITICAL alone.
pub fn trailing_runs(levels: impl IntoIterator<Item = Level>) -> (u32, u32) {
    let (mut high, mut critical) = (0, 0);
    for level in levels {
        high = if level >= Level::High { high + 1 } else { 0 };
        critical = if level == Level::Critical { critical + 1 } else { 0 };
    }
    (high, critical)
}
