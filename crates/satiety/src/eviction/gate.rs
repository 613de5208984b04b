//! No learned scorer goes live without an ablation that shows it does no harm. Reads what an ablation said
//! ([`crate::bench`]) and says whether a version may be put into force; the only other way back is to a version that was in
//! force before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calibration::OnlineSettings;
use super::error::EvictionError;
use super::weights::Weights;
use crate::bench::{AblationReport, AblationVerdict, Direction};

/// What must not get worse, with the names that a suite may give it and which side is good.
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

/// The name of the weights that Satiety starts with, as a control.
pub const BASELINE: &str = "baseline";

/// What a version changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// Nothing: the heuristic without feedback.
    Baseline,
    /// A: weights fitted to feedback.
    Weights,
    /// B: the prompt of the scorer model.
    Prompt,
    /// C: weights that adjust themselves.
    Online,
}

impl Variant {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Weights => "weights",
            Self::Prompt => "prompt",
            Self::Online => "online",
        }
    }
}

/// Everything that a version of the scorer consists of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scorer {
    /// What it changes.
    pub variant: Variant,
    /// Its weights; their version is the scorer's.
    pub weights: Weights,
    /// What the scorer model is told, instead of what is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How it adjusts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<OnlineSettings>,
}

impl Scorer {
    /// The heuristic without feedback.
    pub fn baseline() -> Self {
        Self {
            variant: Variant::Baseline,
            weights: Weights::heuristic(),
            prompt: None,
            online: None,
        }
    }

    /// Refuses what does not fit together.
    pub fn check(&self) -> Result<(), EvictionError> {
        self.weights.check()?;
        let wrong = |reason: &str| Err(EvictionError::Weights(reason.to_owned()));
        match self.variant {
            Variant::Prompt if self.prompt.as_ref().is_none_or(|prompt| prompt.trim().is_empty()) => {
                wrong("the variant `prompt` has no prompt")
            }
            Variant::Online if self.online.is_none() => {
                wrong("the variant `online` has no `online` settings")
            }
            _ => Ok(()),
        }
    }
}

/// Why a version may not be put into force; empty when it may.
///
/// The ablation's control must be what is in force, its variant must carry the version's name, and the variant must be
/// non-inferior in every metric of [`METRICS`] and harmful in none.
pub fn refusals(version: &str, in_force: &str, ablation: &AblationReport) -> Vec<String> {
    let mut reasons = Vec::new();
    let heuristic = in_force == Weights::heuristic().version;
    if ablation.control != in_force && !(heuristic && ablation.control == BASELINE) {
        reasons.push(format!(
            "its control is `{}`, and `{in_force}` is in force",
            ablation.control
        ));
    }
    let Some(variant) = ablation
        .variants
        .iter()
        .find(|variant| variant.variant == version)
    else {
        reasons.push(format!("it has no variant `{version}`"));
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
                reasons.push(format!("it does not measure {what} ({})", names.join(" or ")));
            }
            Some((metric, direction)) if metric.direction != direction => reasons.push(format!(
                "{what}: `{}` was judged as if the other side were good",
                metric.metric
            )),
            Some((metric, _)) if !metric.non_inferior => reasons.push(format!(
                "{what} is not shown to be non-inferior: {:+.4}, and {:.4} worse is not excluded with {} cases",
                metric.difference, metric.margin, metric.cases
            )),
            Some(_) => {}
        }
    }
    if variant.verdict == AblationVerdict::Harmful {
        reasons.push(format!("its verdict is harmful: {}", variant.reasons.join("; ")));
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
        for (version, in_force, report, part) in [
            ("w-2", "heuristic-1", good.clone(), "no variant `w-2`"),
            ("w-1", "w-0", good, "control is `baseline`, and `w-0` is in force"),
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
            let found = refusals(version, in_force, &report).join("\n");
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
