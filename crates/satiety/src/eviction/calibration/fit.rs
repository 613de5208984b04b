//! Fits weights to labels by ridge logistic regression that shrinks towards the prior weights, so that
//! nothing changes without evidence. Only proposed items have labels, so each label is weighted by the
//! inverse of its propensity.
//!
//! A gain is reported only if it holds on proposals that the fit has not seen, compared with the old scorer
//! rescaled on the same evidence. Noisy feedback therefore yields no gain.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::features::Term;
use super::super::resolve::Label;
use super::super::weights::{Weights, ZoneWeights};
use super::report::{Prediction, prediction};
use crate::stats::{
    BootstrapEstimate, BootstrapSettings, LogisticModel, StatsError, bootstrap_clustered_mean, fit_logistic,
    fit_logistic_towards, isotonic,
};

/// Settings of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FitSettings {
    /// Strength of the pull towards the old weights.
    pub ridge: f64,
    /// Number of cross-validation folds over proposals, at least 2.
    pub folds: usize,
    /// Maximum inverse propensity of a label.
    pub most_importance: f64,
    /// Minimum number of labels for mapping probabilities to observed frequencies.
    pub isotonic_from: usize,
    /// Random seed of the bootstrap intervals.
    pub seed: u64,
}

impl Default for FitSettings {
    fn default() -> Self {
        Self {
            ridge: 10.0,
            folds: 5,
            most_importance: 200.0,
            isotonic_from: 1000,
            seed: 1,
        }
    }
}

/// Fitted weights, and whether they predict exclusions better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fitted {
    /// Weights resulting from the fit.
    pub weights: Weights,
    /// Number of labels used for the fit.
    pub labels: usize,
    /// Number of proposals from which the labels come.
    pub proposals: usize,
    /// Prediction quality of the old scorer.
    pub before: Prediction,
    /// Prediction quality of the old scorer with its log-odds rescaled on the other folds: the effect of
    /// calibration alone.
    pub rescaled: Prediction,
    /// Prediction quality of the fit on unseen proposals.
    pub after: Prediction,
    /// Improvement of the fit over the rescaled old scorer.
    pub gain: Gain,
}

/// Improvement of fitted weights over the rescaled old scorer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Reduction of the log loss on unseen proposals, compared with the rescaled old scorer.
    pub log_loss: BootstrapEstimate,
    /// Whether the whole interval is above zero.
    pub shown: bool,
}

/// Fits weights to labels and names them `version`.
pub fn fit(
    labels: &[Label],
    prior: &Weights,
    version: &str,
    settings: &FitSettings,
) -> Result<Fitted, EvictionError> {
    prior.check()?;
    let clusters = clusters(labels);
    let proposals = clusters.iter().max().map_or(0, |last| last + 1);
    if settings.folds < 2 || proposals < settings.folds {
        return Err(StatsError::TooFew {
            needed: settings.folds.max(2),
            got: proposals,
        }
        .into());
    }
    let space = Space::from_labels(labels);
    let rows: Vec<Vec<f64>> = labels.iter().map(|label| space.row(label)).collect();
    let outcomes: Vec<bool> = labels.iter().map(|label| label.kept_back).collect();
    let importance = importance(labels, settings.most_importance);
    let start = space.model(prior);
    let model = fit_logistic_towards(&rows, &outcomes, &importance, &start, settings.ridge)?;
    let before: Vec<f64> = rows
        .iter()
        .map(|row| start.predict(row))
        .collect::<Result<_, _>>()?;
    let (mut rescaled, mut after) = (before.clone(), before.clone());
    for fold in 0..settings.folds {
        let inside = |i: &usize| clusters[*i] % settings.folds == fold;
        let (test, train): (Vec<usize>, Vec<usize>) = (0..labels.len()).partition(inside);
        let pick = |from: &[bool]| -> Vec<bool> { train.iter().map(|&i| from[i]).collect() };
        let train_rows: Vec<&[f64]> = train.iter().map(|&i| rows[i].as_slice()).collect();
        let counts: Vec<f64> = train.iter().map(|&i| importance[i]).collect();
        let scale: Vec<[f64; 1]> = train.iter().map(|&i| [log_odds(before[i])]).collect();
        let fitted = fit_logistic_towards(&train_rows, &pick(&outcomes), &counts, &start, settings.ridge)?;
        let platt = fit_logistic(&scale, &pick(&outcomes), settings.ridge)?;
        for i in test {
            after[i] = fitted.predict(&rows[i])?;
            rescaled[i] = platt.predict(&[log_odds(before[i])])?;
        }
    }
    let gain: Vec<f64> = (0..labels.len())
        .map(|i| loss(rescaled[i], outcomes[i]) - loss(after[i], outcomes[i]))
        .collect();
    let bootstrap = BootstrapSettings {
        seed: settings.seed,
        ..BootstrapSettings::default()
    };
    let gain = bootstrap_clustered_mean(&gain, &clusters, &bootstrap)?;
    let mut weights = space.weights(&model, prior, version);
    weights.floor = floor(&after, &importance);
    if labels.len() >= settings.isotonic_from {
        let observed: Vec<f64> = outcomes.iter().map(|kept| f64::from(u8::from(*kept))).collect();
        // Use predictions of unseen proposals: those of seen ones are overconfident.
        weights.isotonic = Some(isotonic(&after, &observed, &importance)?);
    }
    let varied = |found: Option<Prediction>| {
        found.ok_or(StatsError::NoVariation {
            what: "the exclusions",
        })
    };
    Ok(Fitted {
        weights,
        labels: labels.len(),
        proposals,
        before: varied(prediction(&before, &outcomes)?)?,
        rescaled: varied(prediction(&rescaled, &outcomes)?)?,
        after: varied(prediction(&after, &outcomes)?)?,
        gain: Gain {
            shown: gain.interval.low > 0.0,
            log_loss: gain,
        },
    })
}

/// Input of the regression: the terms of the scorer, an offset and an ageing for each zone, and an offset for
/// each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Space {
    zones: Vec<String>,
    kinds: Vec<String>,
}

impl Space {
    pub(super) fn from_labels(labels: &[Label]) -> Self {
        let distinct = |field: fn(&Label) -> &String| -> Vec<String> {
            labels
                .iter()
                .map(field)
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .cloned()
                .collect()
        };
        Self {
            zones: distinct(|label| &label.zone),
            kinds: distinct(|label| &label.kind),
        }
    }

    pub(super) fn row(&self, label: &Label) -> Vec<f64> {
        let mut row = label.features.to_vec();
        let recency = label.features[Term::Recency as usize];
        for zone in &self.zones {
            let here = f64::from(u8::from(*zone == label.zone));
            row.extend([here, here * recency]);
        }
        row.extend(
            self.kinds
                .iter()
                .map(|kind| f64::from(u8::from(*kind == label.kind))),
        );
        row
    }

    pub(super) fn model(&self, weights: &Weights) -> LogisticModel {
        let mut values: Vec<f64> = Term::ALL.iter().map(|term| weights.term(term.name())).collect();
        for zone in &self.zones {
            let zone = weights.zone(zone);
            values.extend([zone.offset, zone.ageing]);
        }
        values.extend(
            self.kinds
                .iter()
                .map(|kind| weights.kinds.get(kind).copied().unwrap_or(0.0)),
        );
        LogisticModel {
            intercept: weights.term("bias"),
            weights: values,
        }
    }

    /// Converts the model to weights; zones and kinds without labels keep their prior weights.
    pub(super) fn weights(&self, model: &LogisticModel, prior: &Weights, version: &str) -> Weights {
        let mut values = model.weights.iter().copied();
        let mut next = || values.next().unwrap_or(0.0);
        let mut weights = prior.clone();
        version.clone_into(&mut weights.version);
        weights.isotonic = None;
        weights.floor = 0.0;
        weights.terms.insert("bias".to_owned(), model.intercept);
        for term in Term::ALL {
            weights.terms.insert(term.name().to_owned(), next());
        }
        for zone in &self.zones {
            let (offset, ageing) = (next(), next());
            weights.zones.insert(zone.clone(), ZoneWeights { offset, ageing });
        }
        for kind in &self.kinds {
            weights.kinds.insert(kind.clone(), next());
        }
        weights
    }
}

/// Returns inverse propensities, scaled to their effective sample size (Kish 1965): a few heavy labels are
/// little evidence, and the prior weights should then dominate.
fn importance(labels: &[Label], most: f64) -> Vec<f64> {
    let raw: Vec<f64> = labels
        .iter()
        .map(|label| (1.0 / label.propensity.max(1e-9)).clamp(1.0, most))
        .collect();
    let (sum, squares) = raw
        .iter()
        .fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    raw.into_iter().map(|w| w * sum / squares).collect()
}

/// Estimates the rate of unneeded exclusions: the prediction at the lowest tenth of all items.
fn floor(predicted: &[f64], importance: &[f64]) -> f64 {
    let mut sorted: Vec<(f64, f64)> = predicted
        .iter()
        .copied()
        .zip(importance.iter().copied())
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tenth = importance.iter().sum::<f64>() * 0.1;
    let mut cumulative = 0.0;
    let found = sorted.iter().find(|(_, weight)| {
        cumulative += weight;
        cumulative >= tenth
    });
    found.map_or(0.0, |(p, _)| p.clamp(0.0, 0.9))
}

/// Numbers the proposals of labels in order of appearance.
fn clusters(labels: &[Label]) -> Vec<usize> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    labels
        .iter()
        .map(|label| {
            let next = numbers.len();
            *numbers.entry(&label.proposal_id).or_insert(next)
        })
        .collect()
}

fn log_odds(p: f64) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    (p / (1.0 - p)).ln()
}

fn loss(p: f64, outcome: bool) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    -(if outcome { p } else { 1.0 - p }).ln()
}

#[cfg(test)]
mod tests {
    use super::super::super::simulation::{
        Agent, Budget, GeneratorSettings, LearningSettings, ReplayOptions, gather, generate,
    };
    use super::*;

    fn labels(agent: Agent, proposals: usize) -> Vec<Label> {
        let sessions = generate(&GeneratorSettings {
            sessions: 12,
            turns: 150,
            seed: 3,
            ..GeneratorSettings::default()
        })
        .unwrap();
        let replay = ReplayOptions {
            budget: Budget::Tokens(12_000),
            agent: Some(agent),
            exploration: 0.05,
            ..ReplayOptions::default()
        };
        let settings = LearningSettings {
            replay,
            proposals: Some(proposals),
        };
        gather(&sessions, &Weights::heuristic(), &settings).unwrap()
    }

    #[test]
    fn a_taste_is_learned_and_noise_is_not() {
        let taste = Weights::from_toml(
            "version = 't'\n[terms]\nbias = -0.5\nrecency = 0.3\nsize = -0.3\n[zones]\nmemory = { offset = 3.0 }\nchronicle = { offset = 2.0 }\n[kinds]\nfile = 1.0",
        )
        .unwrap();
        let learned = fit(
            &labels(
                Agent::Taste {
                    weights: Box::new(taste),
                    error: 0.05,
                },
                150,
            ),
            &Weights::heuristic(),
            "w",
            &FitSettings::default(),
        )
        .unwrap();
        assert!(
            learned.gain.shown && learned.after.auc > learned.before.auc + 0.1,
            "{:?}",
            learned.gain
        );
        assert_eq!(learned.weights.version, "w");
        assert!(learned.weights.check().is_ok());
        let noise = fit(
            &labels(Agent::Noise { rate: 0.2 }, 150),
            &Weights::heuristic(),
            "n",
            &FitSettings::default(),
        )
        .unwrap();
        assert!(!noise.gain.shown && noise.after.auc < 0.6, "{:?}", noise.gain);
    }

    #[test]
    fn without_evidence_the_old_weights_stay() {
        let labels = labels(Agent::Noise { rate: 0.2 }, 20);
        let strong = FitSettings {
            ridge: 1e9,
            ..FitSettings::default()
        };
        let fitted = fit(&labels, &Weights::heuristic(), "w", &strong).unwrap();
        for term in Term::ALL {
            let (old, new) = (
                Weights::heuristic().term(term.name()),
                fitted.weights.term(term.name()),
            );
            assert!((old - new).abs() < 1e-4, "{}: {old} {new}", term.name());
        }
    }

    #[test]
    fn too_few_labels_are_rejected() {
        let few = labels(Agent::Noise { rate: 0.2 }, 3);
        assert!(matches!(
            fit(&few, &Weights::heuristic(), "w", &FitSettings::default()),
            Err(EvictionError::Fit(StatsError::TooFew { needed: 5, got: 3 }))
        ));
        let never = labels(Agent::Noise { rate: 0.0 }, 20);
        assert!(fit(&never, &Weights::heuristic(), "w", &FitSettings::default()).is_err());
    }
}
