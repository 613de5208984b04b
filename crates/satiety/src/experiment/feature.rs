//! Feature definitions: a named change of the search pipeline, its rollout, and the conditions for
//! graduation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::TrialSettings;
use super::trial::Method;

/// A feature, with the fields of the specification's `EvalFeatureFlag` (camel-case names are also accepted).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Id of the feature: letters, digits, `.`, `_` and `-`.
    #[serde(alias = "flag_name", alias = "flagName", alias = "featureId")]
    pub feature_id: String,
    /// Human-readable description of the feature.
    #[serde(default)]
    pub description: String,
    /// Whether the feature takes part in experiments.
    #[serde(default = "default_true")]
    pub enabled: bool,
    /// Percentage of sessions that get the feature, from 0 to 100.
    #[serde(default, alias = "rolloutPercent")]
    pub rollout_percent: f64,
    /// Whether the other pipeline is run as a shadow.
    #[serde(default = "default_true", alias = "shadowEnabled")]
    pub shadow_enabled: bool,
    /// Percentage of queries with a shadow run, from 0 to 100.
    #[serde(default = "default_shadow_percent", alias = "shadowPercent")]
    pub shadow_percent: f64,
    /// Minimum number of compared queries before a decision.
    #[serde(default = "default_min_samples", alias = "minSamples")]
    pub min_samples: u64,
    /// Minimum improvement of the reciprocal rank that justifies graduation.
    #[serde(default = "default_graduation_threshold", alias = "graduationThreshold")]
    pub graduation_threshold: f64,
    /// Overrides of the active pipeline; keys that are not named keep their values.
    pub pipeline: Map<String, Value>,
    /// Sequential test that decides: `betting` or `sprt`.
    #[serde(default)]
    pub method: Method,
    /// Probability of wrongly accepting either pipeline.
    #[serde(default = "default_alpha")]
    pub alpha: f64,
    /// Only for `sprt`: probability of missing an effect of size `effect`.
    #[serde(default = "default_beta")]
    pub beta: f64,
    /// Only for `sprt`: size of the effect to detect.
    #[serde(default = "default_effect")]
    pub effect: f64,
}

fn default_true() -> bool {
    true
}
fn default_shadow_percent() -> f64 {
    10.0
}
fn default_min_samples() -> u64 {
    100
}
fn default_graduation_threshold() -> f64 {
    0.03
}
fn default_alpha() -> f64 {
    0.05
}
fn default_beta() -> f64 {
    0.2
}
fn default_effect() -> f64 {
    0.05
}

/// Reason why a feature is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureError {
    /// The feature id is not valid.
    #[error("invalid feature id `{0}` (expected 1 to 64 letters, digits, `.`, `_` or `-`)")]
    Name(String),
    /// A number is out of range.
    #[error("`{what}` of feature `{feature}` must be {range}, got {value}")]
    OutOfRange {
        /// Id of the feature.
        feature: String,
        /// Name of the field.
        what: &'static str,
        /// Valid range in words.
        range: &'static str,
        /// Value that was given.
        value: f64,
    },
}

impl Feature {
    /// Creates a feature with the defaults of the specification: no rollout, shadow runs for 10 % of queries,
    /// and graduation from 100 compared queries and an improvement of 0.03 in reciprocal rank.
    pub fn new(feature_id: impl Into<String>, pipeline: Map<String, Value>) -> Self {
        Self {
            feature_id: feature_id.into(),
            description: String::new(),
            enabled: true,
            rollout_percent: 0.0,
            shadow_enabled: true,
            shadow_percent: default_shadow_percent(),
            min_samples: default_min_samples(),
            graduation_threshold: default_graduation_threshold(),
            pipeline,
            method: Method::default(),
            alpha: default_alpha(),
            beta: default_beta(),
            effect: default_effect(),
        }
    }

    /// Checks the fields. The pipeline overrides are checked where the pipeline is defined.
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
                "rollout_percent",
                self.rollout_percent,
                percent,
                within(self.rollout_percent, 0.0, 100.0),
            ),
            (
                "shadow_percent",
                self.shadow_percent,
                percent,
                within(self.shadow_percent, 0.0, 100.0),
            ),
            (
                "min_samples",
                samples,
                "from 1 to 1,000,000",
                within(samples, 1.0, 1e6),
            ),
            (
                "graduation_threshold",
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
                "effect",
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

    /// Settings of the feature's trial.
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
    fn minimal_features_and_the_specification_format_are_read() {
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
    fn invalid_fields_are_rejected_by_name() {
        let good = || Feature::new("rrf", Map::new());
        let refused = |change: &dyn Fn(&mut Feature)| {
            let mut feature = good();
            change(&mut feature);
            feature.check().unwrap_err().to_string()
        };
        good().check().unwrap();
        for (message, expected) in [
            (
                refused(&|f| f.feature_id = "a b".into()),
                "invalid feature id `a b`",
            ),
            (
                refused(&|f| f.feature_id = String::new()),
                "invalid feature id ``",
            ),
            (refused(&|f| f.feature_id = "x".repeat(65)), "invalid feature id"),
            (
                refused(&|f| f.rollout_percent = 101.0),
                "`rollout_percent` of feature `rrf` must be from 0 to 100, got 101",
            ),
            (refused(&|f| f.shadow_percent = f64::NAN), "`shadow_percent`"),
            (refused(&|f| f.min_samples = 0), "`min_samples`"),
            (
                refused(&|f| f.graduation_threshold = -0.1),
                "`graduation_threshold`",
            ),
            (refused(&|f| f.alpha = 0.0), "alpha"),
            (refused(&|f| (f.alpha, f.beta) = (0.5, 0.5)), "beta"),
            (refused(&|f| f.effect = 0.0), "`effect`"),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }
}
