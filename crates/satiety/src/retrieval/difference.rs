//! Classification of the difference between two rankings of one query. Judgments are optional.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::kendall_tau;

/// Class of the difference between two rankings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceClass {
    /// Same results in practically the same order.
    Identical,
    /// Some results moved or were replaced, but the first result and the reciprocal rank are stable.
    Minor,
    /// Different first result, low overlap or correlation, or changed reciprocal rank.
    Major,
    /// No results in common, or no positive rank correlation.
    Incompatible,
}

/// Thresholds of the difference classes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DifferenceThresholds {
    /// Number of results of each list to compare.
    pub depth: usize,
    /// Minimum rank correlation of identical lists.
    pub identical_correlation: f64,
    /// Minimum overlap of identical lists, 0 to 1.
    pub identical_overlap: f64,
    /// Rank correlation below which a difference is major.
    pub major_correlation: f64,
    /// Overlap below which a difference is major, 0 to 1.
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

/// Difference between two rankings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Kendall's tau-b over the union of both lists; documents missing from a list are tied at its end.
    /// Absent with fewer than two documents or without an order.
    pub rank_correlation: Option<f64>,
    /// Number of shared documents divided by the size of the union.
    pub overlap: f64,
    /// Whether the first result differs.
    pub top_changed: bool,
    /// Class of the difference.
    pub class: DifferenceClass,
}

/// Compares the top results of two lists. `mrr_delta` is the change of the reciprocal rank, if judgments are
/// available.
pub fn difference(
    control: &[&str],
    treatment: &[&str],
    mrr_delta: Option<f64>,
    thresholds: &DifferenceThresholds,
) -> Difference {
    let control = &control[..control.len().min(thresholds.depth)];
    let treatment = &treatment[..treatment.len().min(thresholds.depth)];
    let end = thresholds.depth as f64;
    let mut ranks: FxHashMap<&str, usize> = FxHashMap::default();
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (rank, document) in control.iter().enumerate() {
        ranks.insert(document, x.len());
        x.push(rank as f64);
        y.push(end);
    }
    let mut shared = 0;
    for (rank, document) in treatment.iter().enumerate() {
        if let Some(&at) = ranks.get(document) {
            y[at] = rank as f64;
            shared += 1;
        } else {
            x.push(end);
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
    // For lists too short to have an order, use the overlap.
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
            // Differs only beyond the depth.
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
    fn a_change_of_the_reciprocal_rank_is_major() {
        let lists = (["a", "b", "c", "d", "e", "f"], ["a", "c", "b", "d", "e", "f"]);
        let of = |delta| difference(&lists.0, &lists.1, delta, &DifferenceThresholds::default());
        // scipy.stats.kendalltau([0,1,2,3,4,5], [0,2,1,3,4,5]): 0.8666666666666666
        assert!((of(None).rank_correlation.unwrap() - 0.8666666666666666).abs() < 1e-12);
        assert_eq!(of(None).class, DifferenceClass::Minor);
        assert_eq!(of(Some(0.01)).class, DifferenceClass::Minor);
        assert_eq!(of(Some(-0.5)).class, DifferenceClass::Major);
    }

    /// Missing documents are tied at the end of a list.
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
