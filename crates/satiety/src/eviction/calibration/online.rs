//! Online adjustment of the weights while the agent works. Each label moves the weights by a bounded step
//! towards a better prediction, and decay pulls all weights back to their start. A lasting increase of the
//! log loss raises an alarm.
//!
//! The result is a candidate that must be activated through the gate like every other version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::resolve::Label;
use super::super::weights::Weights;
use super::space::Space;
use crate::stats::{LogisticModel, PageHinkley};

/// Settings of the online adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OnlineSettings {
    /// Learning rate, above 0 and at most 1.
    pub rate: f64,
    /// Maximum change of one weight by one label, above 0 and at most 1.
    pub max_step: f64,
    /// Share of the distance to its start that a weight returns with each label, from 0 to below 1.
    pub decay: f64,
    /// Increase of the log loss that is not counted as drift.
    pub drift_tolerance: f64,
    /// Accumulated increase of the log loss that raises an alarm.
    pub drift_threshold: f64,
}

impl Default for OnlineSettings {
    fn default() -> Self {
        Self {
            rate: 0.02,
            max_step: 0.02,
            decay: 1e-4,
            drift_tolerance: 0.05,
            drift_threshold: 30.0,
        }
    }
}

/// Minimum number of labels before the first alarm.
const MIN_LABELS_FOR_ALARM: u64 = 100;

/// Scorer that adjusts its weights online.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Online {
    start: Weights,
    first: LogisticModel,
    model: LogisticModel,
    space: Space,
    settings: OnlineSettings,
    drift: PageHinkley,
    labels: u64,
    alarms: u64,
}

impl Online {
    /// Starts from weights, for the zones and kinds that appear in `seen`.
    pub fn new(start: &Weights, seen: &[Label], settings: OnlineSettings) -> Result<Self, EvictionError> {
        start.check()?;
        let wrong = |what, value, range| Err(EvictionError::Setting { what, value, range });
        if !(settings.rate > 0.0 && settings.rate <= 1.0) {
            return wrong("rate", settings.rate, "(0, 1]");
        }
        if !(settings.max_step > 0.0 && settings.max_step <= 1.0) {
            return wrong("max_step", settings.max_step, "(0, 1]");
        }
        if !(0.0..1.0).contains(&settings.decay) {
            return wrong("decay", settings.decay, "[0, 1)");
        }
        let space = Space::from_labels(seen);
        let first = space.model(start);
        Ok(Self {
            start: start.clone(),
            model: first.clone(),
            first,
            space,
            drift: PageHinkley::new(
                settings.drift_tolerance,
                settings.drift_threshold,
                MIN_LABELS_FOR_ALARM,
            )?,
            settings,
            labels: 0,
            alarms: 0,
        })
    }

    /// Learns from a label; returns whether it raised the drift alarm.
    pub fn observe(&mut self, label: &Label) -> Result<bool, EvictionError> {
        let row = self.space.row(label);
        let p = self.model.predict(&row)?;
        let surprise = f64::from(u8::from(label.kept_back)) - p;
        let OnlineSettings {
            rate,
            max_step,
            decay,
            ..
        } = self.settings;
        let step = |weight: &mut f64, first: f64, x: f64| {
            *weight += (rate * surprise * x).clamp(-max_step, max_step);
            *weight += decay * (first - *weight);
        };
        step(&mut self.model.intercept, self.first.intercept, 1.0);
        for ((weight, first), x) in self.model.weights.iter_mut().zip(&self.first.weights).zip(row) {
            step(weight, *first, x);
        }
        self.labels += 1;
        let happened = if label.kept_back { p } else { 1.0 - p };
        let alarm = self.drift.observe(-happened.max(1e-9).ln())?;
        self.alarms += u64::from(alarm);
        Ok(alarm)
    }

    /// Returns the current weights under a new version.
    pub fn weights(&self, version: &str) -> Weights {
        self.space.weights(&self.model, &self.start, version)
    }

    /// Returns the number of labels and the number of alarms.
    pub fn counts(&self) -> (u64, u64) {
        (self.labels, self.alarms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::label;
    use super::*;

    fn labels(kept_zone: &str, from: usize) -> Vec<Label> {
        (from..from + 600)
            .map(|number| {
                let zone = if number % 2 == 0 { "memory" } else { "chronicle" };
                label(number / 5, number, zone, 3, 0.5, zone == kept_zone)
            })
            .collect()
    }

    #[test]
    fn steps_are_bounded_and_go_the_right_way() {
        let labels = labels("memory", 0);
        let mut online = Online::new(&Weights::heuristic(), &labels, OnlineSettings::default()).unwrap();
        let mut before = online.weights("v");
        for label in &labels {
            online.observe(label).unwrap();
            let after = online.weights("v");
            let moved = (after.zone("memory").offset - before.zone("memory").offset).abs();
            assert!(moved <= 0.02 + 1e-3, "{moved}");
            before = after;
        }
        let start = Weights::heuristic();
        assert!(before.zone("memory").offset > start.zone("memory").offset + 0.5);
        assert!(before.zone("chronicle").offset < start.zone("chronicle").offset - 0.5);
        assert_eq!(online.counts(), (600, 0));
    }

    #[test]
    fn a_change_of_taste_raises_the_alarm() {
        let (first, second) = (labels("memory", 0), labels("chronicle", 600));
        let mut online = Online::new(&Weights::heuristic(), &first, OnlineSettings::default()).unwrap();
        for label in &first {
            assert!(!online.observe(label).unwrap());
        }
        assert!(second.iter().any(|label| online.observe(label).unwrap()));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        for settings in [
            OnlineSettings {
                rate: 0.0,
                ..OnlineSettings::default()
            },
            OnlineSettings {
                max_step: f64::NAN,
                ..OnlineSettings::default()
            },
            OnlineSettings {
                decay: 1.0,
                ..OnlineSettings::default()
            },
            OnlineSettings {
                drift_threshold: 0.0,
                ..OnlineSettings::default()
            },
        ] {
            assert!(Online::new(&Weights::heuristic(), &[], settings).is_err());
        }
    }
}
