//! Fits a scorer to labels so that it cannot be worse than the old one on unseen sessions.
//!
//! The fit starts from the old scorer's log-odds `z` and rescales them freely: `a + b·z`, with neither `a` nor
//! `b` shrunk. Features are added as a correction, `a + b·z + β·x`, with a ridge penalty on `β` alone, from the
//! largest penalty on and only as far as each step lowers the log loss on held-out sessions by more than its
//! standard error. The correction ships only if the chance of losing to the rescaled score on as many sessions
//! again is below 1 in 1,000; otherwise the rescaled score ships. The same holds for the isotonic mapping. A
//! score is therefore a probability of being needed, calibrated on held-out sessions.
//!
//! A confidence interval of the gain is not enough for that promise: it says where the mean gain lies over all
//! sessions there are, and the next sessions are another sample. The difference between two samples of the same
//! size has twice the variance, so the bar is `√2` times as far from zero.
//!
//! Only proposed items have labels, so each label is weighted by the inverse of its propensity.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::resolve::Label;
use super::super::score::probability;
use super::super::weights::Weights;
use super::report::{Prediction, prediction};
use super::space::Space;
use crate::stats::{
    BootstrapEstimate, BootstrapSettings, Isotonic, LogisticModel, StatsError, bootstrap_clustered_mean,
    clustered_mean_interval, distribution::student_sf, fit_logistic_penalized, isotonic,
};

/// Settings of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FitSettings {
    /// Smallest penalty on the correction by features; cross-validation chooses between it and multiples of
    /// it, up to ten thousand times.
    pub ridge: f64,
    /// Number of cross-validation folds over sessions, at least 2.
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

/// What a fit changes in the old scorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FittedModel {
    /// The old score with its log-odds rescaled: the features showed no gain beyond that.
    Rescaled,
    /// The rescaled score, corrected by features.
    Features,
}

/// Fitted weights, and whether they predict need better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fitted {
    /// Weights resulting from the fit.
    pub weights: Weights,
    /// What the weights change.
    pub model: FittedModel,
    /// Number of labels used for the fit.
    pub labels: usize,
    /// Number of proposals from which the labels come.
    pub proposals: usize,
    /// Number of groups of labels that cross-validation keeps together: sessions, or proposals if there are
    /// fewer sessions than folds.
    pub groups: usize,
    /// Factor of the old log-odds.
    pub slope: f64,
    /// Constant added to the rescaled log-odds.
    pub intercept: f64,
    /// Prediction quality of the old scorer.
    pub before: Prediction,
    /// Prediction quality on unseen groups of the old scorer with its log-odds rescaled.
    pub rescaled: Prediction,
    /// Prediction quality on unseen groups with the correction by features.
    pub features: Prediction,
    /// Prediction quality on unseen groups of the weights that resulted.
    pub after: Prediction,
    /// Improvement by rescaling over the old scorer.
    pub rescaling: Gain,
    /// Improvement by features over the rescaled scorer.
    pub gain: Gain,
}

impl Fitted {
    /// Whether the weights predict unseen groups better than the old scorer.
    pub fn is_better(&self) -> bool {
        self.gain.shown || self.rescaling.shown
    }
}

/// Improvement of one scorer over another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Reduction of the log loss on unseen groups.
    pub log_loss: BootstrapEstimate,
    /// Chance that the new scorer has the higher log loss on as many unseen groups again, for each candidate
    /// that was tried added up (at most 1).
    pub risk: f64,
    /// Whether the improvement counts: for rescaling, whether the whole interval is above zero; for features,
    /// whether the risk is below 0.001.
    pub shown: bool,
}

/// Largest accepted chance that what ships has a higher log loss than the rescaled score on as many unseen groups.
const MAX_RISK: f64 = 0.001;
/// Factors of [`FitSettings::ridge`] that cross-validation chooses from, the most cautious first.
const RIDGES: [f64; 5] = [10_000.0, 1000.0, 100.0, 10.0, 1.0];
/// Penalties of the slope towards 1: the first that gives a solution. All but the first are for labels that the old
/// score separates perfectly, where the best slope is infinite.
const SLOPE_PENALTIES: [f64; 4] = [1e-6, 1e-4, 1e-2, 1.0];
const CONFIDENCE: f64 = 0.95;

/// Fits a correction without one fold: the number of the fold, and the labels of the others.
type FoldFit<'f> = dyn FnMut(usize, &[usize]) -> Result<Correction, EvictionError> + 'f;

/// Fits weights to labels and names them `version`.
pub fn fit(
    labels: &[Label],
    prior: &Weights,
    version: &str,
    settings: &FitSettings,
) -> Result<Fitted, EvictionError> {
    prior.check()?;
    let proposals = numbered(labels, |label| &label.proposal_id);
    let sessions = numbered(labels, |label| &label.scope_id);
    let count = |numbers: &[usize]| numbers.iter().max().map_or(0, |last| last + 1);
    let by_session = count(&sessions) >= settings.folds;
    let groups = if by_session { &sessions } else { &proposals };
    if settings.folds < 2 || count(groups) < settings.folds {
        return Err(StatsError::TooFew {
            needed: settings.folds.max(2),
            got: count(groups),
        }
        .into());
    }
    let data = Data::new(labels, prior, settings.most_importance)?;
    let all: Vec<usize> = (0..labels.len()).collect();
    let fold = |i: usize| groups[i] % settings.folds;
    let held_out = |of: &mut FoldFit<'_>| {
        let mut predicted = vec![0.0; labels.len()];
        for number in 0..settings.folds {
            let (test, train): (Vec<usize>, Vec<usize>) = all.iter().partition(|i| fold(**i) == number);
            let correction = match of(number, &train) {
                // Too few labels of one outcome for this fold: the old score stays.
                Err(EvictionError::Fit(StatsError::NoVariation { what: "outcomes" })) => {
                    Correction::UNCHANGED
                }
                other => other?,
            };
            for i in test {
                predicted[i] = correction.predict(&data, i);
            }
        }
        Ok::<_, EvictionError>(predicted)
    };
    let gains = |old: &[f64], new: &[f64]| -> Vec<f64> {
        (0..labels.len())
            .map(|i| data.share[i] * (loss(old[i], data.outcomes[i]) - loss(new[i], data.outcomes[i])))
            .collect()
    };
    let judge = |old: &[f64], new: &[f64], tried: usize| -> Result<Gain, EvictionError> {
        let gains = gains(old, new);
        let bootstrap = BootstrapSettings {
            seed: settings.seed,
            confidence: CONFIDENCE,
            ..BootstrapSettings::default()
        };
        let gain = bootstrap_clustered_mean(&gains, groups, &bootstrap)?;
        Ok(Gain {
            shown: gain.interval.low > 0.0,
            log_loss: gain,
            risk: (risk(&gains, groups)? * tried as f64).min(1.0),
        })
    };
    let before: Vec<f64> = data.odds.iter().map(|z| probability(prior, *z)).collect();
    let rescaled = held_out(&mut |_, train| data.rescale(train))?;
    // The candidate so far: its penalty and its predictions.
    let mut chosen: Option<(f64, Vec<f64>)> = None;
    let mut tried = 0;
    // The solution of each fold for one penalty is the starting point for the next.
    let mut solutions: Vec<Option<LogisticModel>> = vec![None; settings.folds];
    for factor in RIDGES {
        let ridge = settings.ridge * factor;
        let fitted = held_out(&mut |fold, train| data.correct(train, ridge, &mut solutions[fold]));
        if has_no_solution(&fitted) {
            break;
        }
        let predicted = fitted?;
        tried += 1;
        let Some((_, current)) = &chosen else {
            chosen = Some((ridge, predicted));
            continue;
        };
        let step = clustered_mean_interval(&gains(current, &predicted), groups, CONFIDENCE)?;
        if step.mean <= step.standard_error {
            break;
        }
        chosen = Some((ridge, predicted));
    }
    // Without a solution there is no correction, and no gain over the rescaled score.
    let (ridge, corrected) = chosen.unwrap_or_else(|| (settings.ridge, rescaled.clone()));
    let rescaling = judge(&before, &rescaled, 1)?;
    let mut gain = judge(&rescaled, &corrected, tried.max(1))?;
    gain.shown = gain.risk < MAX_RISK;
    let mut features = None;
    if gain.shown {
        let fitted = data.correct(&all, ridge, &mut solutions.first().cloned().flatten());
        gain.shown = !has_no_solution(&fitted);
        features = gain.shown.then_some(fitted).transpose()?;
    }
    let (model, correction, mut after) = match features {
        Some(correction) => (FittedModel::Features, correction, corrected.clone()),
        None => (FittedModel::Rescaled, data.rescale(&all)?, rescaled.clone()),
    };
    let mut weights = correction.weights(&data, prior, version);
    weights.floor = floor(&after, &data.importance);
    if labels.len() >= settings.isotonic_from {
        let mapped = cross_fitted_mapping(&after, &data, settings.folds, &fold)?;
        if risk(&gains(&after, &mapped), groups)? < MAX_RISK {
            weights.isotonic = Some(mapping(&after, &data, &all)?);
            after = mapped;
        }
    }
    let measured = |predicted: &[f64]| {
        prediction(predicted, &data.outcomes)?.ok_or_else(|| {
            EvictionError::from(StatsError::NoVariation {
                what: "the exclusions",
            })
        })
    };
    Ok(Fitted {
        weights,
        model,
        labels: labels.len(),
        proposals: count(&proposals),
        groups: count(groups),
        slope: correction.slope,
        intercept: correction.intercept,
        before: measured(&before)?,
        rescaled: measured(&rescaled)?,
        features: measured(&corrected)?,
        after: measured(&after)?,
        rescaling,
        gain,
    })
}

/// Rescales the log-odds of the prior weights to the labels and changes nothing else: what [`fit`] ships if features
/// do not help, and what they are compared with.
pub fn rescale(
    labels: &[Label],
    prior: &Weights,
    version: &str,
    settings: &FitSettings,
) -> Result<Weights, EvictionError> {
    prior.check()?;
    let data = Data::new(labels, prior, settings.most_importance)?;
    let all: Vec<usize> = (0..labels.len()).collect();
    Ok(data.rescale(&all)?.weights(&data, prior, version))
}

/// Whether a regression failed because no solution was reached, and not because of its input.
fn has_no_solution<T>(fitted: &Result<T, EvictionError>) -> bool {
    matches!(
        fitted,
        Err(EvictionError::Fit(
            StatsError::NotConverged { .. } | StatsError::NoVariation { what: "features" }
        ))
    )
}

/// Chance that the mean of these gains is negative in another sample of as many groups.
fn risk(gains: &[f64], groups: &[usize]) -> Result<f64, EvictionError> {
    let found = clustered_mean_interval(gains, groups, CONFIDENCE)?;
    if found.standard_error <= 0.0 {
        return Ok(if found.mean > 0.0 { 0.0 } else { 1.0 });
    }
    let spread = found.standard_error * std::f64::consts::SQRT_2;
    Ok(student_sf(found.mean / spread, found.degrees_of_freedom))
}

/// Labels as the regression needs them.
struct Data {
    space: Space,
    /// Log-odds of the old scorer.
    odds: Vec<f64>,
    /// Standardized features.
    rows: Vec<Vec<f64>>,
    /// Mean and standard deviation of each feature.
    scales: Vec<(f64, f64)>,
    outcomes: Vec<bool>,
    importance: Vec<f64>,
    /// Importance, with a mean of 1.
    share: Vec<f64>,
}

/// `intercept + slope · old log-odds + weights · standardized features`.
struct Correction {
    intercept: f64,
    slope: f64,
    /// Empty if the score is only rescaled.
    weights: Vec<f64>,
}

impl Data {
    fn new(labels: &[Label], prior: &Weights, most_importance: f64) -> Result<Self, EvictionError> {
        let space = Space::from_labels(labels);
        let mut rows: Vec<Vec<f64>> = labels.iter().map(|label| space.row(label)).collect();
        let start = space.model(prior);
        let odds: Vec<f64> = rows
            .iter()
            .map(|row| start.intercept + row.iter().zip(&start.weights).map(|(x, w)| x * w).sum::<f64>())
            .collect();
        if odds.iter().any(|z| !z.is_finite()) {
            return Err(EvictionError::Weights(
                "the features of a label are not finite".into(),
            ));
        }
        let importance = importance(labels, most_importance);
        let total: f64 = importance.iter().sum();
        let mean = |of: &dyn Fn(&[f64]) -> f64| {
            let sum: f64 = rows.iter().zip(&importance).map(|(row, w)| w * of(row)).sum();
            sum / total
        };
        let scales: Vec<(f64, f64)> = (0..start.weights.len())
            .map(|j| {
                let center = mean(&|row| row[j]);
                let spread = mean(&|row| (row[j] - center).powi(2)).sqrt();
                (center, if spread > 1e-12 { spread } else { 1.0 })
            })
            .collect();
        for row in &mut rows {
            for (x, (center, spread)) in row.iter_mut().zip(&scales) {
                *x = (*x - center) / spread;
            }
        }
        let count = labels.len() as f64;
        Ok(Self {
            space,
            odds,
            rows,
            scales,
            outcomes: labels.iter().map(|label| label.kept_back).collect(),
            share: importance.iter().map(|w| w * count / total).collect(),
            importance,
        })
    }

    /// Fits slope and intercept alone.
    fn rescale(&self, train: &[usize]) -> Result<Correction, EvictionError> {
        let rows: Vec<[f64; 1]> = train.iter().map(|&i| [self.odds[i]]).collect();
        let model = self.regress(train, &rows, &[0.0], None)?;
        Ok(Correction {
            intercept: model.intercept,
            slope: model.weights.first().copied().unwrap_or(1.0),
            weights: Vec::new(),
        })
    }

    /// Fits slope, intercept and features, with a penalty on the features. `solution` is a starting point and
    /// receives the result.
    fn correct(
        &self,
        train: &[usize],
        ridge: f64,
        solution: &mut Option<LogisticModel>,
    ) -> Result<Correction, EvictionError> {
        let rows: Vec<Vec<f64>> = train
            .iter()
            .map(|&i| {
                std::iter::once(self.odds[i])
                    .chain(self.rows[i].iter().copied())
                    .collect()
            })
            .collect();
        let penalties = vec![ridge; self.scales.len() + 1];
        let model = self.regress(train, &rows, &penalties, solution.as_ref())?;
        *solution = Some(model.clone());
        let mut weights = model.weights.into_iter();
        Ok(Correction {
            intercept: model.intercept,
            slope: weights.next().unwrap_or(1.0),
            weights: weights.collect(),
        })
    }

    /// Fits with these penalties, apart from the first, which is the slope's.
    fn regress<R: AsRef<[f64]>>(
        &self,
        train: &[usize],
        rows: &[R],
        penalties: &[f64],
        start: Option<&LogisticModel>,
    ) -> Result<LogisticModel, EvictionError> {
        let outcomes: Vec<bool> = train.iter().map(|&i| self.outcomes[i]).collect();
        let importance: Vec<f64> = train.iter().map(|&i| self.importance[i]).collect();
        let mut prior = LogisticModel {
            intercept: 0.0,
            weights: vec![0.0; penalties.len()],
        };
        if let Some(slope) = prior.weights.first_mut() {
            *slope = 1.0;
        }
        let mut penalties = penalties.to_vec();
        let mut fitted = Err(StatsError::NotConverged { iterations: 0 });
        for penalty in SLOPE_PENALTIES {
            if let Some(slope) = penalties.first_mut() {
                *slope = penalty;
            }
            let start = start.unwrap_or(&prior);
            fitted = fit_logistic_penalized(rows, &outcomes, &importance, &prior, &penalties, start);
            if !matches!(
                fitted,
                Err(StatsError::NotConverged { .. } | StatsError::NoVariation { what: "features" })
            ) {
                break;
            }
        }
        Ok(fitted?)
    }
}

impl Correction {
    /// The old score.
    const UNCHANGED: Self = Self {
        intercept: 0.0,
        slope: 1.0,
        weights: Vec::new(),
    };

    fn predict(&self, data: &Data, i: usize) -> f64 {
        let more: f64 = self.weights.iter().zip(&data.rows[i]).map(|(w, x)| w * x).sum();
        sigmoid(self.intercept + self.slope * data.odds[i] + more)
    }

    fn weights(&self, data: &Data, prior: &Weights, version: &str) -> Weights {
        let mut intercept = self.intercept;
        let mut weights = vec![0.0; data.scales.len()];
        for ((weight, (center, spread)), w) in weights.iter_mut().zip(&data.scales).zip(&self.weights) {
            *weight = w / spread;
            intercept -= w * center / spread;
        }
        let correction = LogisticModel { intercept, weights };
        data.space.corrected(prior, self.slope, &correction, version)
    }
}

/// Mapping from probabilities of unseen groups to observed frequencies: those of seen groups are overconfident.
fn mapping(predicted: &[f64], data: &Data, train: &[usize]) -> Result<Isotonic, EvictionError> {
    let pick = |of: &dyn Fn(usize) -> f64| train.iter().map(|&i| of(i)).collect::<Vec<f64>>();
    let observed = pick(&|i| f64::from(u8::from(data.outcomes[i])));
    Ok(isotonic(
        &pick(&|i| predicted[i]),
        &observed,
        &pick(&|i| data.importance[i]),
    )?)
}

fn cross_fitted_mapping(
    predicted: &[f64],
    data: &Data,
    folds: usize,
    fold: &dyn Fn(usize) -> usize,
) -> Result<Vec<f64>, EvictionError> {
    let mut mapped = predicted.to_vec();
    for number in 0..folds {
        let (test, train): (Vec<usize>, Vec<usize>) = (0..predicted.len()).partition(|i| fold(*i) == number);
        let mapping = mapping(predicted, data, &train)?;
        for i in test {
            mapped[i] = mapping.predict(predicted[i]);
        }
    }
    Ok(mapped)
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

/// Numbers groups of labels in order of appearance.
fn numbered(labels: &[Label], group: impl Fn(&Label) -> &String) -> Vec<usize> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    labels
        .iter()
        .map(|label| {
            let next = numbers.len();
            *numbers.entry(group(label)).or_insert(next)
        })
        .collect()
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

fn loss(p: f64, outcome: bool) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    -(if outcome { p } else { 1.0 - p }).ln()
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
