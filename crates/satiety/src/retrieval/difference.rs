//! How differently two systems answer one query, in four classes that need no judgments (but look at them when there
//! are some).

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::kendall_tau;

/// How differently two lists answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceClass {
    /// The same to anybody who reads them.
    Identical,
    /// Some results changed places or a few were replaced; the first stays, and what it is worth too.
    Minor,
    /// A reader meets something else.
    Major,
    /// Nothing in common, or an order no more alike than chance.
    Incompatible,
}

/// From where on a difference counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DifferenceThresholds {
    /// How many results of each list are looked at.
    pub depth: usize,
    /// Rank correlation of lists that are identical.
    pub identical_correlation: f64,
    /// Overlap of lists that are identical.
    pub identical_overlap: f64,
    /// Rank correlation below which a difference is major.
    pub major_correlation: f64,
    /// Overlap below which a difference is major.
    pub major_overlap: f64,
    /// Change of the reciprocal rank above which a difference is major.
    pub major_mrr: f64,
}

impl Default for DifferenceThresholds {
    fn default() -> Self {
        Self {
            depth: 10,
            identical_correlation: 0.99,
            identical_overlap: 0.95,
            major_correlation: 0.85,
            major_overlap: 0.70,
            major_mrr: 0.03,
        }
    }
}

/// How two lists differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Kendall's tau-b over everything that either list has; what a list lacks comes after all that it has. Absent when
    /// there are fewer than two documents or no order among them.
    pub rank_correlation: Option<f64>,
    /// Shared documents over all documents.
    pub overlap: f64,
    /// Whether another document comes first.
    pub top_changed: bool,
    /// The class.
    pub class: DifferenceClass,
}

/// Compares the tops of two lists; `mrr_delta` is the change of the reciprocal rank, where judgments tell.
pub fn difference(
    control: &[&str],
    treatment: &[&str],
    mrr_delta: Option<f64>,
    thresholds: &DifferenceThresholds,
) -> Difference {
    let control = &control[..control.len().min(thresholds.depth)];
    let treatment = &treatment[..treatment.len().min(thresholds.depth)];
    let after_all = thresholds.depth as f64;
    let mut ranks: FxHashMap<&str, usize> = FxHashMap::default();
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (rank, document) in control.iter().enumerate() {
        ranks.insert(document, x.len());
        x.push(rank as f64);
        y.push(after_all);
    }
    let mut shared = 0;
    for (rank, document) in treatment.iter().enumerate() {
        if let Some(&at) = ranks.get(document) {
            y[at] = rank as f64;
            shared += 1;
        } else {
            x.push(after_all);
            y.push(rank as f64);
        }
    }
    let overlap = if x.is_empty() {
        1.0
    } else {
        f64::from(shared) / x.len() as f64
    };
    let rank_correlation = kendall_tau(&x, &y).ok();
    let top_changed = control.first() != treatment.first();
    let same = control == treatment;
    // Lists too short to have an order are judged by what they have in common.
    let correlation = rank_correlation.unwrap_or(if same { 1.0 } else { overlap });
    let class = if same
        || (correlation >= thresholds.identical_correlation
            && overlap >= thresholds.identical_overlap
            && !top_changed)
    {
        DifferenceClass::Identical
    } else if shared == 0 || correlation <= 0.0 {
        DifferenceClass::Incompatible
    } else if correlation < thresholds.major_correlation
        || overlap < thresholds.major_overlap
        || top_changed
        || mrr_delta.is_some_and(|delta| delta.abs() > thresholds.major_mrr)
    {
        DifferenceClass::Major
    } else {
        DifferenceClass::Minor
    };
    Difference {
        rank_correlation,
        overlap,
        top_changed,
        class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(control: &str, treatment: &str) -> DifferenceClass {
        let control: Vec<&str> = control.split_whitespace().collect();
        let treatment: Vec<&str> = treatment.split_whitespace().collect();
        difference(&control, &treatment, None, &DifferenceThresholds::default()).class
    }

    #[test]
    fn the_four_classes() {
        use DifferenceClass::{Identical, Incompatible, Major, Minor};
        for (control, treatment, expected) in [
            ("a b c d e f g h i j", "a b c d e f g h i j", Identical),
            // Only what is beyond the depth differs.
            ("a b c d e f g h i j k", "a b c d e f g h i j l", Identical),
            ("", "", Identical),
            ("a", "a", Identical),
            // One neighbouring pair of 45: tau 1 - 2/45 = .956.
            ("a b c d e f g h i j", "a c b d e f g h i j", Minor),
            // The last is replaced: 9 of 11 shared.
            ("a b c d e f g h i j", "a b c d e f g h i k", Minor),
            ("a b c d e f g h i j", "b a c d e f g h i j", Major),
            ("a b c d e f g h i j", "a b c d e f g k l m", Major),
            ("a b c d e f g h i j", "k l m n o p q r s t", Incompatible),
            ("a b c d e f g h i j", "j i h g f e d c b a", Incompatible),
            ("a b", "", Incompatible),
            ("a", "b", Incompatible),
        ] {
            assert_eq!(class(control, treatment), expected, "{control} | {treatment}");
        }
    }

    #[test]
    fn a_change_of_what_the_first_find_is_worth_is_major() {
        let lists = (["a", "b", "c", "d", "e", "f"], ["a", "c", "b", "d", "e", "f"]);
        let of = |delta| difference(&lists.0, &lists.1, delta, &DifferenceThresholds::default());
        // scipy.stats.kendalltau([0,1,2,3,4,5], [0,2,1,3,4,5]): 0.8666666666666666
        assert!((of(None).rank_correlation.unwrap() - 0.8666666666666666).abs() < 1e-12);
        assert_eq!(of(None).class, DifferenceClass::Minor);
        assert_eq!(of(Some(0.01)).class, DifferenceClass::Minor);
        assert_eq!(of(Some(-0.5)).class, DifferenceClass::Major);
    }

    /// What one list lacks is tied after its end.
    /// `scipy.stats.kendalltau([0,1,2,10], [0,1,10,2])`: 0.6666666666666669
    #[test]
    fn the_union_is_ranked() {
        let found = difference(
            &["a", "b", "c"],
            &["a", "b", "d"],
            None,
            &DifferenceThresholds::default(),
        );
        assert!((found.rank_correlation.unwrap() - 0.6666666666666669).abs() < 1e-12);
        assert!((found.overlap - 0.5).abs() < 1e-12);
        assert!(!found.top_changed);
    }
}
