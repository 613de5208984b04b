//! Calibration of the similarity threshold of an embedding model on labelled pairs of texts. Models differ in
//! the range of their cosine similarities, so a threshold is only valid for the model that it was fitted for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{StatsError, auc};

/// Cosine similarity of a pair of texts, with its label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredPair {
    /// Cosine similarity; pass a value below every threshold if the guard rejects the match.
    pub cosine: f64,
    /// Whether both texts have the same meaning.
    pub same: bool,
}

/// A fitted threshold and its performance on the calibration pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Minimum cosine similarity at which two texts count as the same.
    pub threshold: f64,
    /// Share of the pairs with the same meaning at or above the threshold.
    pub recall: f64,
    /// Share of the pairs with different meanings at or above the threshold.
    pub false_positives: f64,
    /// Area under the ROC curve: 1 is perfect, 0.5 is chance.
    pub auc: f64,
    /// Number of pairs with the same meaning.
    pub same: usize,
    /// Number of pairs with different meanings.
    pub different: usize,
}

/// Fits the lowest threshold with a false-positive rate of at most `max_false_positives`. It lies halfway
/// between the two cosine similarities that it separates.
pub fn fit_threshold(pairs: &[ScoredPair], max_false_positives: f64) -> Result<Fit, StatsError> {
    let scores: Vec<f64> = pairs.iter().map(|pair| pair.cosine).collect();
    let outcomes: Vec<bool> = pairs.iter().map(|pair| pair.same).collect();
    let auc = auc(&scores, &outcomes)?;
    let same = outcomes.iter().filter(|same| **same).count();
    let different = outcomes.len() - same;
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| b.cosine.total_cmp(&a.cosine));
    let (mut found, mut wrong) = (0_usize, 0_usize);
    let mut best = Fit {
        threshold: 1.0,
        recall: 0.0,
        false_positives: 0.0,
        auc,
        same,
        different,
    };
    let mut position = 0;
    while position < sorted.len() {
        let cosine = sorted[position].cosine;
        // Accept pairs with equal similarity together.
        while position < sorted.len() && sorted[position].cosine >= cosine {
            found += usize::from(sorted[position].same);
            wrong += usize::from(!sorted[position].same);
            position += 1;
        }
        let false_positives = wrong as f64 / different as f64;
        if false_positives > max_false_positives {
            break;
        }
        let next = sorted.get(position).map_or(cosine, |pair| pair.cosine);
        best = Fit {
            threshold: f64::midpoint(cosine, next),
            recall: found as f64 / same as f64,
            false_positives,
            ..best
        };
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(same: &[f64], different: &[f64]) -> Vec<ScoredPair> {
        let labelled = |cosines: &[f64], same| {
            cosines
                .iter()
                .map(move |cosine| ScoredPair {
                    cosine: *cosine,
                    same,
                })
                .collect::<Vec<_>>()
        };
        [labelled(same, true), labelled(different, false)].concat()
    }

    #[test]
    fn the_threshold_lies_between_the_pairs_that_it_separates() {
        let fit = fit_threshold(&pairs(&[0.9, 0.8, 0.7], &[0.6, 0.5]), 0.0).unwrap();
        assert_eq!((fit.recall, fit.false_positives, fit.auc), (1.0, 0.0, 1.0));
        assert!((fit.threshold - 0.65).abs() < 1e-12, "{}", fit.threshold);
    }

    /// By hand: accepting .9 .8 (same) .75 (different) .7 (same) costs 1 of 4 different pairs, .6 would cost
    /// 2 of 4.
    #[test]
    fn a_share_of_false_positives_buys_recall() {
        let all = pairs(&[0.9, 0.8, 0.7, 0.4], &[0.75, 0.6, 0.3, 0.2]);
        let strict = fit_threshold(&all, 0.1).unwrap();
        assert_eq!((strict.recall, strict.false_positives), (0.5, 0.0));
        assert!((strict.threshold - 0.775).abs() < 1e-12);
        let loose = fit_threshold(&all, 0.25).unwrap();
        assert_eq!((loose.recall, loose.false_positives), (0.75, 0.25));
        assert!((loose.threshold - 0.65).abs() < 1e-12);
    }

    #[test]
    fn pairs_with_one_cosine_are_not_split() {
        let fit = fit_threshold(&pairs(&[0.9, 0.5], &[0.5, 0.1]), 0.0).unwrap();
        assert_eq!((fit.recall, fit.false_positives), (0.5, 0.0));
    }

    #[test]
    fn pairs_of_one_kind_are_rejected() {
        assert!(fit_threshold(&pairs(&[0.9], &[]), 0.1).is_err());
        assert!(fit_threshold(&[], 0.1).is_err());
        assert!(fit_threshold(&pairs(&[f64::NAN], &[0.1]), 0.1).is_err());
    }
}
