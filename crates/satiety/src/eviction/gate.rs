//! Activation gate for scorers: a learned scorer goes live only with an ablation that shows that it does no
//! harm.
//!
//! Reads the report of an ablation ([`crate::bench`]) and decides whether a version may be activated. Without
//! an ablation, only a version that was active before can be restored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calibration::OnlineSettings;
use super::error::EvictionError;
use super::weights::Weights;
use crate::bench::{AblationReport, AblationVerdict, Direction};

/// Metrics that must not get worse: label, names that a suite may use, and the direction that is better.
pub const METRICS: [(&str, &[(&str, Direction)]); 3] = [
    ("retained relevance", &[("retained_relevance", Direction::Higher)]),
    (
        "token efficiency",
        &[
            ("tokens_per_use", Direction::Lower),
            ("token_efficiency", Direction::Higher),
        ],
    ),
    (
        "task results",
        &[("task_results", Direction::Higher), ("pass", Direction::Higher)],
    ),
];

/// Name of the built-in weights as the control of an ablation.
pub const BASELINE: &str = "baseline";

/// What a scorer version changes compared with the heuristic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// Baseline: the heuristic without feedback.
    Baseline,
    /// Variant A: weights fitted to feedback.
    Weights,
    /// Variant B: the prompt of the scorer model.
    Prompt,
    /// Variant C: weights that adjust themselves online.
    Online,
}

impl Variant {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Weights => "weights",
            Self::Prompt => "prompt",
            Self::Online => "online",
        }
    }
}

/// Complete definition of a scorer version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scorer {
    /// What the version changes compared with the heuristic.
    pub variant: Variant,
    /// Weights of the scorer; their version is the version of the scorer.
    pub weights: Weights,
    /// Prompt of the scorer model; the built-in prompt if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Settings of the online adjustment; required by the variant `online`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<OnlineSettings>,
}

impl Scorer {
    /// Returns the heuristic without feedback.
    pub fn baseline() -> Self {
        Self {
            variant: Variant::Baseline,
            weights: Weights::heuristic(),
            prompt: None,
            online: None,
        }
    }

    /// Checks that the variant has the settings it requires.
    pub fn check(&self) -> Result<(), EvictionError> {
        self.weights.check()?;
        let wrong = |reason: &str| Err(EvictionError::Weights(reason.to_owned()));
        match self.variant {
            Variant::Prompt if self.prompt.as_ref().is_none_or(|prompt| prompt.trim().is_empty()) => {
                wrong("variant `prompt` requires `prompt`")
            }
            Variant::Online if self.online.is_none() => wrong("variant `online` requires `online`"),
            _ => Ok(()),
        }
    }
}

/// Returns the reasons why a version must not be activated; empty if it may be.
///
/// The control of the ablation must be the active version, a variant must carry the name of the new version,
/// and that variant must be non-inferior in every metric of [`METRICS`] and must not be harmful.
pub fn refusals(version: &str, active: &str, ablation: &AblationReport) -> Vec<String> {
    let mut reasons = Vec::new();
    let heuristic = active == Weights::heuristic().version;
    if ablation.control != active && !(heuristic && ablation.control == BASELINE) {
        reasons.push(format!(
            "the control is `{}`, but the active version is `{active}`",
            ablation.control
        ));
    }
    let Some(variant) = ablation
        .variants
        .iter()
        .find(|variant| variant.variant == version)
    else {
        reasons.push(format!("the ablation has no variant `{version}`"));
        return reasons;
    };
    for (what, names) in METRICS {
        let named =
            |(name, _): &&(&str, Direction)| variant.metrics.iter().any(|metric| metric.metric == *name);
        let found = names.iter().find(named).and_then(|(name, direction)| {
            let metric = variant.metrics.iter().find(|metric| metric.metric == *name)?;
            Some((metric, *direction))
        });
        match found {
            None => {
                let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                reasons.push(format!("the ablation does not measure {what} ({})", names.join(" or ")));
            }
            Some((metric, direction)) if metric.direction != direction => reasons.push(format!(
                "{what}: `{}` was compared in the wrong direction",
                metric.metric
            )),
            Some((metric, _)) if !metric.non_inferior => reasons.push(format!(
                "{what} is not shown to be non-inferior: {:+.4}, a loss of {:.4} cannot be ruled out with {} cases",
                metric.difference, metric.margin, metric.cases
            )),
            Some(_) => {}
        }
    }
    if variant.verdict == AblationVerdict::Harmful {
        reasons.push(format!("the verdict is harmful: {}", variant.reasons.join("; ")));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::{AblationSettings, BenchmarkResult, Margin, Status, ablation};

    fn results(relevance: f64, metrics: &[&str]) -> Vec<BenchmarkResult> {
        (0..20)
            .map(|case| {
                let mut result = BenchmarkResult::new(format!("c{case}"), 0, Status::Pass);
                for metric in metrics {
                    let value = if *metric == "retained_relevance" {
                        relevance
                    } else {
                        0.5
                    };
                    result
                        .metrics
                        .insert((*metric).to_owned(), value + f64::from(case % 5) * 0.001);
                }
                result
            })
            .collect()
    }

    fn study(control: &str, relevance: f64, metrics: &[&str]) -> AblationReport {
        let margins: BTreeMap<String, Margin> = metrics
            .iter()
            .map(|metric| ((*metric).to_owned(), Margin::Absolute(0.02)))
            .collect();
        let settings = AblationSettings {
            metrics: margins,
            ..AblationSettings::default()
        };
        let (before, now) = (results(0.8, metrics), results(relevance, metrics));
        ablation((control, &before), &[("w-1", &now)], &settings).unwrap()
    }

    const ALL: [&str; 3] = ["retained_relevance", "tokens_per_use", "pass"];

    #[test]
    fn only_a_harmless_version_may_go_live() {
        let good = study("baseline", 0.8, &ALL);
        assert_eq!(refusals("w-1", "heuristic-1", &good), Vec::<String>::new());
        for (version, active, report, part) in [
            ("w-2", "heuristic-1", good.clone(), "no variant `w-2`"),
            (
                "w-1",
                "w-0",
                good,
                "control is `baseline`, but the active version is `w-0`",
            ),
            (
                "w-1",
                "heuristic-1",
                study("baseline", 0.7, &ALL),
                "retained relevance is not shown",
            ),
            ("w-1", "heuristic-1", study("baseline", 0.7, &ALL), "harmful"),
            (
                "w-1",
                "heuristic-1",
                study("baseline", 0.8, &ALL[..2]),
                "does not measure task results",
            ),
        ] {
            let found = refusals(version, active, &report).join("\n");
            assert!(found.contains(part), "{found}");
        }
        assert!(refusals("w-1", "w-0", &study("w-0", 0.8, &ALL)).is_empty());
    }

    #[test]
    fn a_scorer_has_what_its_variant_needs() {
        let scorer = |variant| Scorer {
            variant,
            ..Scorer::baseline()
        };
        assert!(scorer(Variant::Weights).check().is_ok());
        assert!(scorer(Variant::Prompt).check().is_err());
        assert!(scorer(Variant::Online).check().is_err());
        assert!(
            Scorer {
                online: Some(OnlineSettings::default()),
                ..scorer(Variant::Online)
            }
            .check()
            .is_ok()
        );
    }
}
