//! Differences between two result lists for one query, without relevance judgments.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::{DifferenceClass, DifferenceThresholds, difference};

/// An entry of a result list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// Id of the memory.
    pub id: String,
    /// Relevance score assigned by the pipeline that found it.
    pub score: f64,
}

/// Differences between the first ten entries of two lists.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListDifference {
    /// Kendall's tau-b over the union of both lists, with ties: entries missing from a list are tied after
    /// its end, so that disjoint lists do not look similar. Absent when there is no order to compare.
    pub rank_correlation: Option<f64>,
    /// Jaccard similarity: shared memories divided by all memories of both lists, as in the specification; 1
    /// for two empty lists.
    pub set_overlap: f64,
    /// Shared memories divided by the length of the longer list.
    pub overlap_at_k: f64,
    /// Whether the first result differs.
    pub top_result_changed: bool,
    /// Number of memories with different positions in the two lists.
    pub order_differences: usize,
    /// Mean absolute rank change of shared memories.
    pub mean_rank_delta: Option<f64>,
    /// Maximum absolute rank change of shared memories.
    pub max_rank_delta: Option<usize>,
    /// Mean score change of shared memories, treatment minus control.
    pub mean_score_delta: Option<f64>,
    /// Class of the difference: `identical`, `minor`, `major` or `incompatible`.
    #[schemars(with = "String")]
    pub class: DifferenceClass,
}

/// Compares two lists, best first. `mrr_delta` is the change of the reciprocal rank, if grades are known.
pub fn compare_lists(control: &[Listed], treatment: &[Listed], mrr_delta: Option<f64>) -> ListDifference {
    let thresholds = DifferenceThresholds::default();
    let control = &control[..control.len().min(thresholds.depth)];
    let treatment = &treatment[..treatment.len().min(thresholds.depth)];
    let ids = |list: &'_ [Listed]| -> Vec<String> { list.iter().map(|one| one.id.clone()).collect() };
    let (old, new) = (ids(control), ids(treatment));
    let (old, new): (Vec<&str>, Vec<&str>) = (
        old.iter().map(String::as_str).collect(),
        new.iter().map(String::as_str).collect(),
    );
    let found = difference(&old, &new, mrr_delta, &thresholds);
    let places: BTreeMap<&str, (usize, f64)> = treatment
        .iter()
        .enumerate()
        .map(|(place, one)| (one.id.as_str(), (place, one.score)))
        .collect();
    let shared: Vec<(usize, f64)> = control
        .iter()
        .enumerate()
        .filter_map(|(place, one)| {
            let (other, score) = places.get(one.id.as_str())?;
            Some((place.abs_diff(*other), score - one.score))
        })
        .collect();
    let unmoved = shared.iter().filter(|(moved, _)| *moved == 0).count();
    let count = shared.len() as f64;
    let longer = control.len().max(treatment.len());
    ListDifference {
        rank_correlation: found.rank_correlation,
        set_overlap: found.overlap,
        overlap_at_k: if longer == 0 { 1.0 } else { count / longer as f64 },
        top_result_changed: found.top_changed,
        order_differences: control.len() + treatment.len() - shared.len() - unmoved,
        mean_rank_delta: (!shared.is_empty())
            .then(|| shared.iter().map(|(moved, _)| *moved as f64).sum::<f64>() / count),
        max_rank_delta: shared.iter().map(|(moved, _)| *moved).max(),
        mean_score_delta: (!shared.is_empty())
            .then(|| shared.iter().map(|(_, delta)| delta).sum::<f64>() / count),
        class: found.class,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(ids: &str) -> Vec<Listed> {
        let ids = ids.split_whitespace().enumerate();
        ids.map(|(rank, id)| Listed {
            id: id.into(),
            score: 1.0 - 0.1 * rank as f64,
        })
        .collect()
    }

    /// `scipy.stats.kendalltau([0,1,2,10], [1,0,10,2])`: 0.33333333333333337; a and b are swapped, c and d
    /// are not shared.
    #[test]
    fn differences_match_manual_computation() {
        let found = compare_lists(&list("a b c"), &list("b a d"), None);
        assert!(
            (found.rank_correlation.unwrap() - 1.0 / 3.0).abs() < 1e-12,
            "{found:?}"
        );
        assert_eq!((found.set_overlap, found.overlap_at_k), (0.5, 2.0 / 3.0));
        assert_eq!((found.top_result_changed, found.order_differences), (true, 4));
        assert_eq!(
            (found.mean_rank_delta, found.max_rank_delta),
            (Some(1.0), Some(1))
        );
        assert!(found.mean_score_delta.unwrap().abs() < 1e-12);
    }

    #[test]
    fn disjoint_and_empty_lists() {
        let found = compare_lists(&list("a b"), &list("c d"), None);
        assert_eq!(
            (found.set_overlap, found.order_differences, found.class),
            (0.0, 4, DifferenceClass::Incompatible)
        );
        assert_eq!((found.mean_rank_delta, found.mean_score_delta), (None, None));
        let found = compare_lists(&[], &[], None);
        assert_eq!(
            (found.overlap_at_k, found.class, found.rank_correlation),
            (1.0, DifferenceClass::Identical, None)
        );
    }

    proptest! {
        #[test]
        fn differences_are_reflexive_and_symmetric(
            one in proptest::sample::subsequence(vec!["a", "b", "c", "d", "e", "f", "g"], 0..7).prop_shuffle(),
            other in proptest::sample::subsequence(vec!["a", "b", "c", "d", "e", "f", "g"], 0..7).prop_shuffle(),
        ) {
            let (one, other) = (list(&one.join(" ")), list(&other.join(" ")));
            let same = compare_lists(&one, &one, None);
            prop_assert_eq!((same.order_differences, same.top_result_changed, same.set_overlap), (0, false, 1.0));
            let (there, back) = (compare_lists(&one, &other, None), compare_lists(&other, &one, None));
            prop_assert_eq!(there.order_differences, back.order_differences);
            let (tau, again) = (there.rank_correlation.unwrap_or(2.0), back.rank_correlation.unwrap_or(2.0));
            prop_assert!((tau - again).abs() < 1e-12);
            prop_assert_eq!(there.class, back.class);
            prop_assert_eq!(there.mean_rank_delta, back.mean_rank_delta);
        }
    }
}
