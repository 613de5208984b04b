//! A feature: a named change of the search's pipeline, who gets it, and what it takes to become the default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::TrialSettings;
use super::trial::Method;

/// A feature, with the fields of the specification's `EvalFeatureFlag` (its camel-case names are read, too).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Its name: letters, digits, `.`, `_` and `-`.
    #[serde(alias = "flag_name", alias = "flagName", alias = "featureId")]
    pub feature_id: String,
    /// What it is about, for people.
    #[serde(default)]
    pub description: String,
    /// Whether it takes part at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Who gets it for real, in percent of sessions.
    #[serde(default, alias = "rolloutPercent")]
    pub rollout_percent: f64,
    /// Whether the other pipeline is run in the shadow.
    #[serde(default = "yes", alias = "shadowEnabled")]
    pub shadow_enabled: bool,
    /// How many of the queries, in percent.
    #[serde(default = "a_tenth", alias = "shadowPercent")]
    pub shadow_percent: f64,
    /// No decision before so many compared queries.
    #[serde(default = "hundred", alias = "minSamples")]
    pub min_samples: u64,
    /// The improvement of the reciprocal rank from which on it is worth having.
    #[serde(default = "three_hundredths", alias = "graduationThreshold")]
    pub graduation_threshold: f64,
    /// What differs from the pipeline in force; what is not named stays.
    pub pipeline: Map<String, Value>,
    /// Which sequential test decides: `betting` or `sprt`.
    #[serde(default)]
    pub method: Method,
    /// The probability of accepting either pipeline wrongly.
    #[serde(default = "twentieth")]
    pub alpha: f64,
    /// `sprt` alone: the probability of missing an effect of the size below.
    #[serde(default = "fifth")]
    pub beta: f64,
    /// `sprt` alone: the effect that it looks for.
    #[serde(default = "twentieth")]
    pub effect: f64,
}

fn yes() -> bool {
    true
}
fn a_tenth() -> f64 {
    10.0
}
fn hundred() -> u64 {
    100
}
fn three_hundredths() -> f64 {
    0.03
}
fn twentieth() -> f64 {
    0.05
}
fn fifth() -> f64 {
    0.2
}

/// Why a feature cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureError {
    /// A name that could be mistaken.
    #[error("`{0}` is no name for a feature: 1 to 64 letters, digits, `.`, `_` and `-`")]
    Name(String),
    /// A number that is out of range.
    #[error("{what} of `{feature}` must be {range}, and it is {value}")]
    OutOfRange {
        /// The feature.
        feature: String,
        /// Which number.
        what: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        value: f64,
    },
}

impl Feature {
    /// A feature with the defaults of the specification: nobody gets it, a tenth of the queries is run in the shadow,
    /// and it takes 100 of them and 0.03 of the reciprocal rank to graduate.
    pub fn new(feature_id: impl Into<String>, pipeline: Map<String, Value>) -> Self {
        Self {
            feature_id: feature_id.into(),
            description: String::new(),
            enabled: true,
            rollout_percent: 0.0,
            shadow_enabled: true,
            shadow_percent: a_tenth(),
            min_samples: hundred(),
            graduation_threshold: three_hundredths(),
            pipeline,
            method: Method::default(),
            alpha: twentieth(),
            beta: fifth(),
            effect: twentieth(),
        }
    }

    /// Whether its fields can be used; the pipeline is checked where it is known what a pipeline has.
    pub fn check(&self) -> Result<(), FeatureError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let length = self.feature_id.len();
        if !(1..=64).contains(&length) || !self.feature_id.chars().all(plain) {
            return Err(FeatureError::Name(self.feature_id.clone()));
        }
        let percent = "from 0 to 100";
        let within = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
        let samples = self.min_samples as f64;
        for (what, value, range, fine) in [
            (
                "the rollout",
                self.rollout_percent,
                percent,
                within(self.rollout_percent, 0.0, 100.0),
            ),
            (
                "the share of shadow runs",
                self.shadow_percent,
                percent,
                within(self.shadow_percent, 0.0, 100.0),
            ),
            (
                "the number of samples",
                samples,
                "from 1 to 1,000,000",
                within(samples, 1.0, 1e6),
            ),
            (
                "the graduation threshold",
                self.graduation_threshold,
                "from 0 up to 1",
                within(self.graduation_threshold, 0.0, 0.999),
            ),
            (
                "alpha",
                self.alpha,
                "from 0.0001 to 0.5",
                within(self.alpha, 1e-4, 0.5),
            ),
            (
                "beta",
                self.beta,
                "from 0.0001 to 0.5, and less than 1 − alpha",
                within(self.beta, 1e-4, 0.5) && self.alpha + self.beta < 1.0,
            ),
            (
                "the effect",
                self.effect,
                "from 0.001 to 1",
                within(self.effect, 0.001, 1.0),
            ),
        ] {
            if !fine {
                let feature = self.feature_id.clone();
                return Err(FeatureError::OutOfRange {
                    feature,
                    what,
                    range,
                    value,
                });
            }
        }
        Ok(())
    }

    /// How its trial decides.
    pub fn trial(&self) -> TrialSettings {
        TrialSettings {
            method: self.method,
            alpha: self.alpha,
            beta: self.beta,
            effect: self.effect,
            min_samples: self.min_samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn little_must_be_said_and_the_specification_is_read() {
        let found: Feature =
            serde_json::from_value(json!({"feature_id": "rrf", "pipeline": {"a": 1}})).unwrap();
        let Value::Object(pipeline) = json!({"a": 1}) else {
            panic!()
        };
        assert_eq!(found, Feature::new("rrf", pipeline));
        let found: Feature = serde_json::from_value(json!({
            "flagName": "SPECKIT_GRAPH_SCORING", "rolloutPercent": 0, "shadowEnabled": true, "minSamples": 100,
            "graduationThreshold": 0.02, "pipeline": {},
        }))
        .unwrap();
        assert_eq!(
            (found.graduation_threshold, found.feature_id.as_str()),
            (0.02, "SPECKIT_GRAPH_SCORING")
        );
        found.check().unwrap();
        assert!(
            serde_json::from_value::<Feature>(json!({"feature_id": "x", "pipeline": {}, "rolout": 1}))
                .is_err()
        );
        let toml = "feature_id = 'rrf'\nshadow_percent = 50\n[pipeline]\na = 1\n";
        let found: Feature = toml::from_str(toml).unwrap();
        assert!((found.shadow_percent - 50.0).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let good = || Feature::new("rrf", Map::new());
        let refused = |change: &dyn Fn(&mut Feature)| {
            let mut feature = good();
            change(&mut feature);
            feature.check().unwrap_err().to_string()
        };
        good().check().unwrap();
        for (message, expected) in [
            (refused(&|f| f.feature_id = "a b".into()), "`a b` is no name"),
            (refused(&|f| f.feature_id = String::new()), "`` is no name"),
            (refused(&|f| f.feature_id = "x".repeat(65)), "is no name"),
            (
                refused(&|f| f.rollout_percent = 101.0),
                "the rollout of `rrf` must be from 0 to 100, and it is 101",
            ),
            (
                refused(&|f| f.shadow_percent = f64::NAN),
                "the share of shadow runs",
            ),
            (refused(&|f| f.min_samples = 0), "the number of samples"),
            (
                refused(&|f| f.graduation_threshold = -0.1),
                "the graduation threshold",
            ),
            (refused(&|f| f.alpha = 0.0), "alpha"),
            (refused(&|f| (f.alpha, f.beta) = (0.5, 0.5)), "beta"),
            (refused(&|f| f.effect = 0.0), "the effect"),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }
}
