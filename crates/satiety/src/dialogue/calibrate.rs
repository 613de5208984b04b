//! The threshold at which a sentence model's cosine means "said before", fitted from pairs of texts whose answer is
//! known. Another model has other cosines, so a threshold belongs to the model it was fitted for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{StatsError, auc};

/// Cosine of a pair and whether the two texts say the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredPair {
    /// Cosine of the two vectors; use a value below every threshold where the guard objects to the match.
    pub cosine: f64,
    /// Whether they say the same.
    pub same: bool,
}

/// A fitted threshold and what it does on the pairs it was fitted with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// At or above this cosine, two texts count as the same.
    pub threshold: f64,
    /// Share of the same pairs that it finds.
    pub recall: f64,
    /// Share of the different pairs that it takes for the same.
    pub false_positives: f64,
    /// How well cosines order the pairs at all: 1 is perfect, 0.5 chance.
    pub auc: f64,
    /// Pairs that say the same.
    pub same: usize,
    /// Pairs that do not.
    pub different: usize,
}

/// The lowest threshold that takes at most `max_false_positives` of the different pairs for the same. It lies half way
/// between the pairs it separates, so that it does not hang on the last digit of one of them.
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
        // Pairs with one cosine are accepted together or not at all.
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
        let of = |cosines: &[f64], same| {
            cosines
                .iter()
                .map(move |cosine| ScoredPair {
                    cosine: *cosine,
                    same,
                })
                .collect::<Vec<_>>()
        };
        [of(same, true), of(different, false)].concat()
    }

    #[test]
    fn the_threshold_lies_between_the_pairs_that_it_separates() {
        let fit = fit_threshold(&pairs(&[0.9, 0.8, 0.7], &[0.6, 0.5]), 0.0).unwrap();
        assert_eq!((fit.recall, fit.false_positives, fit.auc), (1.0, 0.0, 1.0));
        assert!((fit.threshold - 0.65).abs() < 1e-12, "{}", fit.threshold);
    }

    /// By hand: accepting .9 .8 (same) .75 (different) .7 (same) costs 1 of 4 different pairs, .6 would cost 2 of 4.
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
    fn one_kind_of_pairs_is_no_evidence() {
        assert!(fit_threshold(&pairs(&[0.9], &[]), 0.1).is_err());
        assert!(fit_threshold(&[], 0.1).is_err());
        assert!(fit_threshold(&pairs(&[f64::NAN], &[0.1]), 0.1).is_err());
    }
}
