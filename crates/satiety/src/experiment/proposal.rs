//! Proposes channel weights from judged queries. Every candidate is scored on every query; the gain is estimated by
//! cross-validation, on queries that were not used to choose the weights. A proposal is not a decision: it becomes a
//! feature, and the sequential test and the checklist decide about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::trial::Bounds;
use crate::memory::{IntentWeights, Weights};
use crate::stats::{mean, mean_interval};

/// Factors by which the ratio of lexical to vector weight is multiplied; the first is the active pipeline.
pub const WEIGHT_RATIOS: [f64; 7] = [1.0, 0.125, 0.25, 0.5, 2.0, 4.0, 8.0];
/// Minimum number of judged queries; fewer say little about seven candidates.
pub const MIN_PROPOSAL_QUERIES: usize = 30;
/// Number of parts of the cross-validation.
const FOLDS: usize = 5;
/// Smallest cross-validated gain in nDCG@10 that is worth an experiment.
const MIN_GAIN: f64 = 0.005;

/// Result of the search for better channel weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProposalVerdict {
    /// Other weights are better on queries that were not used to choose them.
    Propose,
    /// No other weights are better.
    Keep,
    /// Too few judged queries.
    NotEnoughEvidence,
}

/// Weights that suit the judged queries of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProposedWeights {
    /// Whether other weights are worth an experiment.
    pub verdict: ProposalVerdict,
    /// Number of judged queries.
    pub queries: usize,
    /// Factor of the ratio of lexical to vector weight that is best on all queries.
    pub ratio: f64,
    /// Mean nDCG@10 of each factor.
    pub candidates: Vec<WeightCandidate>,
    /// Cross-validated change of nDCG@10; absent with too few queries.
    pub gain: Option<f64>,
    /// 95 % interval of the gain.
    pub interval: Option<Bounds>,
}

/// Mean quality with one ratio of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WeightCandidate {
    /// Factor of the ratio of lexical to vector weight; 1 is the active pipeline.
    pub ratio: f64,
    /// Mean nDCG@10 over all judged queries.
    pub ndcg: f64,
}

/// Chooses among [`WEIGHT_RATIOS`]. `scores` has the nDCG@10 of every query for each ratio, in the order of the ratios
/// and of the queries.
///
/// ```
/// use satiety::experiment::{ProposalVerdict, WEIGHT_RATIOS, propose_weights};
/// // With twice the ratio, every query improves.
/// let scores = WEIGHT_RATIOS.map(|ratio| vec![if ratio == 2.0 { 0.8 } else { 0.6 }; 40]);
/// let proposed = propose_weights(&scores);
/// assert_eq!((proposed.verdict, proposed.ratio), (ProposalVerdict::Propose, 2.0));
/// ```
pub fn propose_weights(scores: &[Vec<f64>; WEIGHT_RATIOS.len()]) -> ProposedWeights {
    let queries = scores.iter().map(Vec::len).min().unwrap_or(0);
    let mean_without = |candidate: &[f64], fold: Option<usize>| {
        let kept = candidate.iter().take(queries).enumerate();
        let kept: Vec<f64> = kept
            .filter(|(query, _)| fold.is_none_or(|fold| query % FOLDS != fold))
            .map(|(_, score)| *score)
            .collect();
        mean(&kept).unwrap_or(0.0)
    };
    // Ties keep the active pipeline, which is the first.
    let best_without = |fold: Option<usize>| {
        let means = scores.iter().map(|candidate| mean_without(candidate, fold));
        let mut best = (0, f64::NEG_INFINITY);
        for (candidate, mean) in means.enumerate() {
            if mean > best.1 + 1e-12 {
                best = (candidate, mean);
            }
        }
        best.0
    };
    let chosen = best_without(None);
    let by_fold: Vec<usize> = (0..FOLDS).map(|fold| best_without(Some(fold))).collect();
    let score = |candidate: usize, query: usize| scores.get(candidate)?.get(query).copied();
    let gains: Vec<f64> = (0..queries)
        .filter_map(|query| {
            let candidate = *by_fold.get(query % FOLDS)?;
            Some(score(candidate, query)? - score(0, query)?)
        })
        .collect();
    let enough = queries >= MIN_PROPOSAL_QUERIES;
    let gain = mean(&gains).ok().filter(|_| enough);
    let interval = mean_interval(&gains, 0.95).ok().filter(|_| enough);
    let verdict = match gain {
        None => ProposalVerdict::NotEnoughEvidence,
        Some(gain) if chosen != 0 && gain >= MIN_GAIN => ProposalVerdict::Propose,
        Some(_) => ProposalVerdict::Keep,
    };
    let candidates = WEIGHT_RATIOS.iter().zip(scores);
    ProposedWeights {
        verdict,
        queries,
        ratio: WEIGHT_RATIOS.get(chosen).copied().unwrap_or(1.0),
        candidates: candidates
            .map(|(ratio, scores)| WeightCandidate {
                ratio: *ratio,
                ndcg: mean_without(scores, None),
            })
            .collect(),
        gain,
        interval: interval.map(|estimate| Bounds {
            low: estimate.interval.low,
            high: estimate.interval.high,
        }),
    }
}

/// Change of the pipeline that multiplies the ratio of lexical to vector weight of every intent, and keeps their sum.
pub fn weight_change(weights: &IntentWeights, ratio: f64) -> Map<String, Value> {
    let IntentWeights {
        general,
        add_feature,
        fix_bug,
        refactor,
        security_audit,
        understand,
        find_spec,
        find_decision,
    } = weights;
    let change = |weights: &Weights| {
        let (lexical, vector) = (weights.lexical * ratio, weights.vector);
        let scale = (weights.lexical + weights.vector) / (lexical + vector).max(f64::MIN_POSITIVE);
        let rounded = |weight: f64| (weight * scale * 1e4).round() / 1e4;
        json!({"lexical": rounded(lexical), "vector": rounded(vector)})
    };
    let changes = json!({
        "general": change(general),
        "add_feature": change(add_feature),
        "fix_bug": change(fix_bug),
        "refactor": change(refactor),
        "security_audit": change(security_audit),
        "understand": change(understand),
        "find_spec": change(find_spec),
        "find_decision": change(find_decision),
    });
    Map::from_iter([("weights".to_owned(), changes)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pipeline;

    fn scores(of: impl Fn(f64, usize) -> f64, queries: usize) -> [Vec<f64>; WEIGHT_RATIOS.len()] {
        WEIGHT_RATIOS.map(|ratio| (0..queries).map(|query| of(ratio, query)).collect())
    }

    #[test]
    fn a_gain_that_does_not_hold_on_other_queries_is_not_proposed() {
        // Each ratio is best on the queries of one fold only: the choice of four folds is worse on the fifth.
        let lucky = scores(
            |ratio, query| {
                let at = WEIGHT_RATIOS
                    .iter()
                    .position(|known| (known - ratio).abs() < 1e-9)
                    .unwrap();
                match at {
                    0 => 0.5,
                    at if query % FOLDS == at - 1 => 1.0,
                    _ => 0.4,
                }
            },
            100,
        );
        let proposed = propose_weights(&lucky);
        assert_eq!(proposed.verdict, ProposalVerdict::Keep);
        assert!(proposed.gain.unwrap() < 0.0, "{proposed:?}");
    }

    #[test]
    fn equal_weights_keep_the_active_pipeline_and_few_queries_decide_nothing() {
        let equal = propose_weights(&scores(|_, _| 0.7, 50));
        assert_eq!((equal.verdict, equal.ratio), (ProposalVerdict::Keep, 1.0));
        let few = propose_weights(&scores(|ratio, _| ratio / 8.0, MIN_PROPOSAL_QUERIES - 1));
        assert_eq!(few.verdict, ProposalVerdict::NotEnoughEvidence);
        assert_eq!((few.gain, few.interval), (None, None));
        assert_eq!(
            propose_weights(&Default::default()).verdict,
            ProposalVerdict::NotEnoughEvidence
        );
    }

    #[test]
    fn a_change_keeps_the_sum_and_multiplies_the_ratio_of_every_intent() {
        let weights = Pipeline::default().weights;
        let change = Value::Object(weight_change(&weights, 4.0));
        let changed = Pipeline::with(&change).unwrap().weights;
        for (old, new) in [
            (weights.general, changed.general),
            (weights.fix_bug, changed.fix_bug),
        ] {
            assert!((new.lexical + new.vector - old.lexical - old.vector).abs() < 1e-3);
            assert!((new.lexical / new.vector - 4.0 * old.lexical / old.vector).abs() < 0.01);
            assert_eq!((new.trigger, new.graph), (old.trigger, old.graph));
        }
    }
}
