//! Is saturation consistent enough to act? Snapshots of cycles in a rolling window, and the action that follows.
//!
//! A window belongs to one harness version: with a new one it starts anew. One expansion may be open for a version at
//! a time (the latch), and after one that came to nothing fresh cycles are needed before the next.
//! Numbers that somebody states without runs behind them are *unverified*: such a cycle can raise an alarm, and never lowers
//! one. It breaks no run of HIGH or CRITICAL, does not lower the average, and takes no verified cycle's place.
//! How a score comes about is told by [`super::signals`] and [`super::measurement`]; nothing here stores anything.

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
pub use rolling::{HistoryEntry, RollingMetrics, Trend, trailing_runs};

/// The schema of the records.
pub const SCHEMA_VERSION: &str = "1.0";

/// One cycle, as the specification stores it, with the harness version and what was measured beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CycleSnapshot {
    /// `cycle-…`.
    pub cycle_id: String,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The hash of the harness's manifest.
    pub harness_version: String,
    /// The five signals.
    pub metrics: SignalMetrics,
    /// The score of the signals.
    pub saturation_score: f64,
    /// Its level.
    pub saturation_level: Level,
    /// What was measured, where runs allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredMark>,
    /// Whether the metrics were stated by somebody instead of taken from runs in the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// [`SCHEMA_VERSION`].
    #[serde(rename = "x-schema-version")]
    pub schema_version: String,
}

/// The measured saturation of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredMark {
    /// The probability that closing all headroom would go unseen.
    pub probability: f64,
    /// What kind of trouble it is.
    pub verdict: Verdict,
    /// The probability's level.
    pub level: Level,
}

/// Which score the window follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// The measured probability, and the score of the signals for cycles without one.
    #[default]
    Measured,
    /// Always the score of the signals.
    Signals,
}

/// When the window calls for action; the defaults are the specification's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConsistencyThresholds {
    /// So many consecutive HIGH cycles trigger research.
    pub consecutive_high_for_research: u32,
    /// So many consecutive CRITICAL ones make it urgent.
    pub consecutive_critical_for_urgent: u32,
    /// A rolling average from here on is sustained saturation.
    pub rolling_avg_high_threshold: f64,
    /// Below this many cycles nothing is decided.
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

/// The rolling window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// How many cycles it holds at most.
    pub window_size: u32,
    /// How many it holds.
    pub cycles_tracked: u32,
    /// The version that its cycles belong to.
    pub harness_version: String,
    /// The oldest cycle in it.
    pub oldest_cycle: Option<String>,
    /// The newest.
    pub newest_cycle: Option<String>,
    /// Which score it follows.
    #[serde(default)]
    pub driver: Driver,
    /// Figures of the window.
    pub rolling_metrics: RollingMetrics,
    /// The cycles, oldest first.
    pub history: Vec<HistoryEntry>,
    /// The verified cycles, oldest first, where unverified ones are in the window: those push none of these out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<HistoryEntry>,
    /// When the newest verified cycle was recorded: runs after it are still to be recorded. Absent where all are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verified: Option<Timestamp>,
    /// The expansion that is open for this version.
    #[serde(default)]
    pub open_expansion: Option<String>,
    /// Cycles that must pass before another expansion may be triggered.
    #[serde(default)]
    pub quiet_cycles: u32,
    /// When the newest cycle was recorded.
    pub last_updated: Option<Timestamp>,
    /// [`SCHEMA_VERSION`].
    #[serde(rename = "x-schema-version")]
    pub schema_version: String,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// Nothing.
    Continue,
    /// A person should look.
    FlagForReview,
    /// Prepare an expansion.
    TriggerExpansionResearch,
}

/// How soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Urgency {
    /// No hurry.
    Low,
    /// When there is time.
    Medium,
    /// Soon.
    High,
    /// Now.
    Critical,
}

/// Whether saturation is consistent, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consistency {
    /// Whether it is.
    pub is_consistent: bool,
    /// What follows.
    pub action: Action,
    /// Why; absent when there is nothing to say.
    pub reason: Option<String>,
    /// How soon.
    pub urgency: Urgency,
}

/// Why a cycle was not taken into the window.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CycleError {
    /// An id that would not make a key.
    #[error(
        "the id `{id}` cannot be part of a key; use letters, digits, `-`, `_`, `.` and `:`, at most 128 of them"
    )]
    BadId {
        /// The id.
        id: String,
    },
    /// The cycle is in the window with other figures.
    #[error(
        "cycle {id} is recorded already with other figures; a cycle is never rewritten, record a new one"
    )]
    Rewritten {
        /// The cycle.
        id: String,
    },
    /// The cycle is older than the newest.
    #[error("cycle {id} is of {at}, before the newest cycle's {newest}; check the clock")]
    OutOfOrder {
        /// The cycle.
        id: String,
        /// Its time.
        at: Timestamp,
        /// The newest cycle's.
        newest: Timestamp,
    },
    /// Another expansion is open.
    #[error("expansion {open} is open for this harness version; finish it before {refused}")]
    Latched {
        /// The open one.
        open: String,
        /// The one that was to be opened.
        refused: String,
    },
}

impl Aggregate {
    /// An empty window of the specification's 20 cycles.
    pub fn new(harness_version: impl Into<String>, driver: Driver) -> Self {
        Self {
            window_size: 20,
            cycles_tracked: 0,
            harness_version: harness_version.into(),
            oldest_cycle: None,
            newest_cycle: None,
            driver,
            rolling_metrics: RollingMetrics::of(&[]),
            history: Vec::new(),
            verified: Vec::new(),
            last_verified: None,
            open_expansion: None,
            quiet_cycles: 0,
            last_updated: None,
            schema_version: SCHEMA_VERSION.to_owned(),
        }
    }

    /// Takes a cycle in. The same cycle again changes nothing; one of another version starts the window anew.
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
                self.roll(|window| &mut window.verified);
            }
        }
        let unverified = snapshot.unverified;
        self.history.push(entry);
        self.roll(|window| &mut window.history);
        if self.history.iter().all(|entry| !entry.unverified) {
            self.verified.clear();
        }
        self.cycles_tracked = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        self.oldest_cycle = self.history.first().map(|entry| entry.cycle_id.clone());
        self.newest_cycle = self.history.last().map(|entry| entry.cycle_id.clone());
        let proven = if self.verified.is_empty() {
            only_verified(&self.history)
        } else {
            self.verified.clone()
        };
        let all = RollingMetrics::of(&self.history).or_higher(&RollingMetrics::of(&proven));
        self.rolling_metrics = if unverified {
            // What was reached stays until runs say otherwise.
            all.or_higher(&self.rolling_metrics)
        } else {
            all
        };
        self.quiet_cycles = self.quiet_cycles.saturating_sub(1);
        self.last_updated = Some(snapshot.timestamp);
        Ok(())
    }

    /// Drops the oldest cycles beyond the window.
    fn roll(&mut self, cycles: impl Fn(&mut Self) -> &mut Vec<HistoryEntry>) {
        let most = self.window_size.max(1) as usize;
        let cycles = cycles(self);
        cycles.drain(..cycles.len().saturating_sub(most));
    }

    /// The improvement deltas of this version that runs have shown, oldest first.
    pub fn deltas(&self) -> Vec<f64> {
        let proven = if self.verified.is_empty() {
            &self.history
        } else {
            &self.verified
        };
        proven
            .iter()
            .filter(|entry| !entry.unverified)
            .filter_map(|entry| entry.delta)
            .collect()
    }

    /// When the newest cycle with runs behind it was recorded: only later runs are new evidence.
    pub fn evidence_until(&self) -> Option<Timestamp> {
        match self.last_verified {
            Some(at) => Some(at),
            None if self.history.iter().all(|entry| entry.unverified) => None,
            None => self.last_updated,
        }
    }

    /// Marks an expansion as open: no other is triggered for this version.
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

    /// The expansion came to nothing (rejected or rolled back): fresh cycles are needed before the next.
    pub fn release(&mut self, expansion_id: &str, thresholds: &ConsistencyThresholds) {
        if self.open_expansion.as_deref() == Some(expansion_id) {
            self.open_expansion = None;
            self.quiet_cycles = thresholds.minimum_cycles_for_detection;
        }
    }

    /// What follows from the window. The order of the rules is the specification's: too few cycles delay even what
    /// would be urgent.
    pub fn decide(&self, thresholds: &ConsistencyThresholds) -> Consistency {
        let figures = &self.rolling_metrics;
        if self.cycles_tracked < thresholds.minimum_cycles_for_detection {
            return Consistency::calm(Some(format!("Insufficient data: {} cycles", self.cycles_tracked)));
        }
        let critical = figures.consecutive_critical_count;
        if critical >= thresholds.consecutive_critical_for_urgent {
            return self.trigger(
                Urgency::Critical,
                format!("URGENT: {critical} consecutive CRITICAL"),
            );
        }
        let high = figures.consecutive_high_count;
        if high >= thresholds.consecutive_high_for_research {
            return self.trigger(Urgency::High, format!("{high} consecutive HIGH"));
        }
        let average = figures.avg_saturation_score;
        if average >= thresholds.rolling_avg_high_threshold && figures.saturation_trend == Trend::Increasing {
            return Consistency {
                is_consistent: true,
                action: Action::FlagForReview,
                reason: Some(format!("Rolling avg {average:.2} with increasing trend")),
                urgency: Urgency::Medium,
            };
        }
        Consistency::calm(None)
    }

    fn trigger(&self, urgency: Urgency, reason: String) -> Consistency {
        let held = match (&self.open_expansion, self.quiet_cycles) {
            (Some(open), _) => Some(format!(
                "{reason}; expansion {open} is open for this version already"
            )),
            (None, 0) => None,
            (None, quiet) => Some(format!(
                "{reason}; the last expansion came to nothing, {quiet} more cycles before the next"
            )),
        };
        Consistency {
            is_consistent: true,
            action: if held.is_some() {
                Action::Continue
            } else {
                Action::TriggerExpansionResearch
            },
            reason: Some(held.unwrap_or(reason)),
            urgency,
        }
    }
}

impl Consistency {
    fn calm(reason: Option<String>) -> Self {
        Self {
            is_consistent: false,
            action: Action::Continue,
            reason,
            urgency: Urgency::Low,
        }
    }
}

impl CycleSnapshot {
    /// The score and level that a window follows.
    pub fn driving(&self, driver: Driver) -> (f64, Level) {
        match (driver, self.measured) {
            (Driver::Measured, Some(mark)) => (mark.probability, mark.level),
            _ => (self.saturation_score, self.saturation_level),
        }
    }

    /// As a record under its key.
    pub fn record(&self) -> Result<Record, CycleError> {
        Record::cycle(self)
    }
}

/// A JSON value of a record; the types here have only keys that are texts.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests;
