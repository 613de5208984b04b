//! Decides whether saturation is consistent enough to act, from a rolling window of cycle snapshots.
//!
//! A window belongs to one harness version; a new version starts an empty window. Only one expansion may be
//! open for a version at a time (the latch). After an expansion that was rejected or rolled back, new cycles
//! are required before the next.
//!
//! Metrics that were stated without runs are *unverified*: such a cycle can raise an alarm but never lower
//! one. It does not interrupt a series of HIGH or CRITICAL cycles, does not lower the average, and does not
//! displace a verified cycle.
//!
//! Scores come from [`super::signals`] and [`super::measurement`]; nothing here stores anything.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::measurement::Verdict;
use super::signals::{Level, SignalMetrics};

mod records;
mod rolling;
pub use records::{AGGREGATE_KEY, Record, cycle_key, expansion_key, retention_days};
#[cfg(test)]
pub(crate) use rolling::trailing_runs;
pub use rolling::{HistoryEntry, RollingMetrics, Trend};

/// Schema version of the records.
pub const SCHEMA_VERSION: &str = "1.0";

/// Snapshot of one cycle in the specification's format, extended by the harness version and the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CycleSnapshot {
    /// Id of the cycle, `cycle-…`.
    pub cycle_id: String,
    /// Time at which the cycle was recorded.
    pub timestamp: Timestamp,
    /// Version of the harness: the hash of its manifest.
    pub harness_version: String,
    /// The five saturation signals.
    pub metrics: SignalMetrics,
    /// Saturation score of the signals, from 0 to 1.
    pub saturation_score: f64,
    /// Saturation level of the score.
    pub saturation_level: Level,
    /// Measured saturation; absent without suitable runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredSaturation>,
    /// Whether the metrics were stated by the caller instead of derived from stored runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// Schema version of the record: [`SCHEMA_VERSION`].
    #[serde(rename = "x-schema-version")]
    pub schema_version: String,
}

/// Measured saturation of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredSaturation {
    /// Probability that closing all headroom would go undetected, from 0 to 1.
    pub probability: f64,
    /// Verdict of the measurement.
    pub verdict: Verdict,
    /// Saturation level of the probability.
    pub level: Level,
}

/// Score that drives the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// The measured probability, or the score of the signals for cycles without one.
    #[default]
    Measured,
    /// Always the score of the signals.
    Signals,
}

/// Thresholds at which the window calls for action; the defaults are the specification's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConsistencyThresholds {
    /// Number of consecutive HIGH cycles that triggers research.
    pub consecutive_high_for_research: u32,
    /// Number of consecutive CRITICAL cycles that makes it urgent.
    pub consecutive_critical_for_urgent: u32,
    /// Rolling average from which saturation is sustained.
    pub rolling_avg_high_threshold: f64,
    /// Minimum number of cycles for any decision.
    pub minimum_cycles_for_detection: u32,
}

impl Default for ConsistencyThresholds {
    fn default() -> Self {
        Self {
            consecutive_high_for_research: 10,
            consecutive_critical_for_urgent: 5,
            rolling_avg_high_threshold: 0.70,
            minimum_cycles_for_detection: 10,
        }
    }
}

/// Rolling window of cycles of one harness version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// Maximum number of cycles in the window.
    pub window_size: u32,
    /// Current number of cycles in the window.
    pub cycles_tracked: u32,
    /// Harness version of the cycles.
    pub harness_version: String,
    /// Id of the oldest cycle in the window.
    pub oldest_cycle: Option<String>,
    /// Id of the newest cycle in the window.
    pub newest_cycle: Option<String>,
    /// Score that drives the window.
    #[serde(default)]
    pub driver: Driver,
    /// Metrics computed over the window.
    pub rolling_metrics: RollingMetrics,
    /// Cycles in the window, oldest first.
    pub history: Vec<HistoryEntry>,
    /// Verified cycles, oldest first, if the window has unverified ones; unverified cycles do not displace
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<HistoryEntry>,
    /// Time of the newest verified cycle, after which runs are not yet recorded; absent if the newest cycle
    /// is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verified: Option<Timestamp>,
    /// Id of the open expansion for this version.
    #[serde(default)]
    pub open_expansion: Option<String>,
    /// Number of cycles required before another expansion may be triggered.
    #[serde(default)]
    pub quiet_cycles: u32,
    /// Time at which the newest cycle was recorded.
    pub last_updated: Option<Timestamp>,
    /// Schema version of the record: [`SCHEMA_VERSION`].
    #[serde(rename = "x-schema-version")]
    pub schema_version: String,
}

/// Action that follows from the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// No action is needed.
    Continue,
    /// A person should review the harness.
    FlagForReview,
    /// Research for an expansion should start.
    TriggerExpansionResearch,
}

/// Urgency of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Urgency {
    /// Not urgent; no deadline.
    Low,
    /// To be done when there is time.
    Medium,
    /// To be done soon.
    High,
    /// To be done immediately.
    Critical,
}

/// Whether saturation is consistent, and the action that follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consistency {
    /// Whether the harness is consistently saturated.
    pub is_consistent: bool,
    /// Action that follows from the window.
    pub action: Action,
    /// Reason for the decision, if any.
    pub reason: Option<String>,
    /// Urgency of the action.
    pub urgency: Urgency,
}

/// Reason why a cycle was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CycleError {
    /// The id cannot be part of a key.
    #[error("invalid id `{id}` (expected 1 to 128 letters, digits, `-`, `_`, `.` or `:`)")]
    BadId {
        /// Id that was given.
        id: String,
    },
    /// The cycle is already recorded with different values.
    #[error("cycle {id} is already recorded with different values; record a new cycle")]
    Rewritten {
        /// Id of the cycle.
        id: String,
    },
    /// The cycle is older than the newest one.
    #[error("cycle {id} at {at} is older than the newest cycle at {newest}; check the clock")]
    OutOfOrder {
        /// Id of the cycle.
        id: String,
        /// Time of the cycle.
        at: Timestamp,
        /// Time of the newest cycle.
        newest: Timestamp,
    },
    /// Another expansion is open.
    #[error("cannot open expansion {refused}: expansion {open} is still open for this harness version")]
    Latched {
        /// Id of the open expansion.
        open: String,
        /// Id of the expansion that was rejected.
        refused: String,
    },
}

impl Aggregate {
    /// Creates an empty window of the specification's 20 cycles.
    pub fn new(harness_version: impl Into<String>, driver: Driver) -> Self {
        Self {
            window_size: 20,
            cycles_tracked: 0,
            harness_version: harness_version.into(),
            oldest_cycle: None,
            newest_cycle: None,
            driver,
            rolling_metrics: RollingMetrics::from_history(&[]),
            history: Vec::new(),
            verified: Vec::new(),
            last_verified: None,
            open_expansion: None,
            quiet_cycles: 0,
            last_updated: None,
            schema_version: SCHEMA_VERSION.to_owned(),
        }
    }

    /// Records a cycle. Recording the same cycle again has no effect; a cycle of another version starts an
    /// empty window.
    pub fn record(&mut self, snapshot: &CycleSnapshot) -> Result<(), CycleError> {
        records::check_id(&snapshot.cycle_id)?;
        let (score, level) = snapshot.driving(self.driver);
        let entry = HistoryEntry {
            cycle_id: snapshot.cycle_id.clone(),
            score,
            level,
            delta: snapshot.metrics.improvement_delta,
            unverified: snapshot.unverified,
        };
        if let Some(known) = self.history.iter().find(|known| known.cycle_id == entry.cycle_id) {
            if *known == entry && snapshot.harness_version == self.harness_version {
                return Ok(());
            }
            return Err(CycleError::Rewritten { id: entry.cycle_id });
        }
        if let Some(newest) = self.last_updated.filter(|newest| snapshot.timestamp < *newest) {
            return Err(CycleError::OutOfOrder {
                id: entry.cycle_id,
                at: snapshot.timestamp,
                newest,
            });
        }
        if snapshot.harness_version != self.harness_version {
            *self = Self {
                window_size: self.window_size,
                ..Self::new(snapshot.harness_version.clone(), self.driver)
            };
        }
        let only_verified = |history: &[HistoryEntry]| -> Vec<HistoryEntry> {
            history
                .iter()
                .filter(|entry| !entry.unverified)
                .cloned()
                .collect()
        };
        if snapshot.unverified {
            if self.verified.is_empty() {
                self.verified = only_verified(&self.history);
            }
            if self.history.last().is_some_and(|newest| !newest.unverified) {
                self.last_verified = self.last_updated;
            }
        } else {
            self.last_verified = None;
            if !self.verified.is_empty() {
                self.verified.push(entry.clone());
                self.trim(|window| &mut window.verified);
            }
        }
        let unverified = snapshot.unverified;
        self.history.push(entry);
        self.trim(|window| &mut window.history);
        if self.history.iter().all(|entry| !entry.unverified) {
            self.verified.clear();
        }
        self.cycles_tracked = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        self.oldest_cycle = self.history.first().map(|entry| entry.cycle_id.clone());
        self.newest_cycle = self.history.last().map(|entry| entry.cycle_id.clone());
        let verified = if self.verified.is_empty() {
            only_verified(&self.history)
        } else {
            self.verified.clone()
        };
        let all =
            RollingMetrics::from_history(&self.history).or_higher(&RollingMetrics::from_history(&verified));
        self.rolling_metrics = if unverified {
            // Reached values stay until verified cycles lower them.
            all.or_higher(&self.rolling_metrics)
        } else {
            all
        };
        self.quiet_cycles = self.quiet_cycles.saturating_sub(1);
        self.last_updated = Some(snapshot.timestamp);
        Ok(())
    }

    /// Removes the oldest cycles beyond the window size.
    fn trim(&mut self, cycles: impl Fn(&mut Self) -> &mut Vec<HistoryEntry>) {
        let most = self.window_size.max(1) as usize;
        let cycles = cycles(self);
        cycles.drain(..cycles.len().saturating_sub(most));
    }

    /// Returns the verified improvement deltas of this version, oldest first.
    pub fn deltas(&self) -> Vec<f64> {
        let verified = if self.verified.is_empty() {
            &self.history
        } else {
            &self.verified
        };
        verified
            .iter()
            .filter(|entry| !entry.unverified)
            .filter_map(|entry| entry.delta)
            .collect()
    }

    /// Returns the time of the newest verified cycle; only later runs are new evidence.
    pub fn evidence_until(&self) -> Option<Timestamp> {
        match self.last_verified {
            Some(at) => Some(at),
            None if self.history.iter().all(|entry| entry.unverified) => None,
            None => self.last_updated,
        }
    }

    /// Marks an expansion as open, which prevents another one for this version.
    pub fn latch(&mut self, expansion_id: &str) -> Result<(), CycleError> {
        records::check_id(expansion_id)?;
        match &self.open_expansion {
            Some(open) if open != expansion_id => Err(CycleError::Latched {
                open: open.clone(),
                refused: expansion_id.to_owned(),
            }),
            _ => {
                self.open_expansion = Some(expansion_id.to_owned());
                Ok(())
            }
        }
    }

    /// Releases the latch of an expansion that was rejected or rolled back; new cycles are required before
    /// the next.
    pub fn release(&mut self, expansion_id: &str, thresholds: &ConsistencyThresholds) {
        if self.open_expansion.as_deref() == Some(expansion_id) {
            self.open_expansion = None;
            self.quiet_cycles = thresholds.minimum_cycles_for_detection;
        }
    }

    /// Returns the action that follows from the window. The rules apply in the specification's order: too few
    /// cycles delay even an urgent action.
    pub fn decide(&self, thresholds: &ConsistencyThresholds) -> Consistency {
        let metrics = &self.rolling_metrics;
        if self.cycles_tracked < thresholds.minimum_cycles_for_detection {
            return Consistency::no_action(Some(format!(
                "Insufficient data: {} cycles",
                self.cycles_tracked
            )));
        }
        let critical = metrics.consecutive_critical_count;
        if critical >= thresholds.consecutive_critical_for_urgent {
            return self.trigger(
                Urgency::Critical,
                format!("URGENT: {critical} consecutive CRITICAL"),
            );
        }
        let high = metrics.consecutive_high_count;
        if high >= thresholds.consecutive_high_for_research {
            return self.trigger(Urgency::High, format!("{high} consecutive HIGH"));
        }
        let average = metrics.avg_saturation_score;
        if average >= thresholds.rolling_avg_high_threshold && metrics.saturation_trend == Trend::Increasing {
            return Consistency {
                is_consistent: true,
                action: Action::FlagForReview,
                reason: Some(format!("Rolling avg {average:.2} with increasing trend")),
                urgency: Urgency::Medium,
            };
        }
        Consistency::no_action(None)
    }

    fn trigger(&self, urgency: Urgency, reason: String) -> Consistency {
        let blocked = match (&self.open_expansion, self.quiet_cycles) {
            (Some(open), _) => Some(format!(
                "{reason}; expansion {open} is already open for this version"
            )),
            (None, 0) => None,
            (None, quiet) => Some(format!(
                "{reason}; the last expansion was not applied, the next needs {quiet} more cycles"
            )),
        };
        Consistency {
            is_consistent: true,
            action: if blocked.is_some() {
                Action::Continue
            } else {
                Action::TriggerExpansionResearch
            },
            reason: Some(blocked.unwrap_or(reason)),
            urgency,
        }
    }
}

impl Consistency {
    fn no_action(reason: Option<String>) -> Self {
        Self {
            is_consistent: false,
            action: Action::Continue,
            reason,
            urgency: Urgency::Low,
        }
    }
}

impl CycleSnapshot {
    /// Returns the score and level that drive a window.
    pub fn driving(&self, driver: Driver) -> (f64, Level) {
        match (driver, self.measured) {
            (Driver::Measured, Some(mark)) => (mark.probability, mark.level),
            _ => (self.saturation_score, self.saturation_level),
        }
    }

    /// Converts the snapshot to a record under its key.
    pub fn record(&self) -> Result<Record, CycleError> {
        Record::cycle(self)
    }
}

/// Converts a record to JSON; all keys of these types are strings.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests;
