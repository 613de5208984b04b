//! Measures for an agent's memory, where documents have tiers: what must never be missed, what weighs more, whether a
//! chain of decisions is complete. They take one query's results, best first; tiers and chains come from the caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How important a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// For the moment.
    Temporary,
    /// As most are.
    Normal,
    /// More than most.
    Important,
    /// Not to be missed.
    Critical,
    /// Always to be shown.
    Constitutional,
}

impl Tier {
    /// All tiers, lowest first.
    pub const ALL: [Self; 5] = [
        Self::Temporary,
        Self::Normal,
        Self::Important,
        Self::Critical,
        Self::Constitutional,
    ];

    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::Normal => "normal",
            Self::Important => "important",
            Self::Critical => "critical",
            Self::Constitutional => "constitutional",
        }
    }

    /// What a memory of this tier weighs in recall.
    pub fn weight(self) -> f64 {
        match self {
            Self::Temporary => 0.5,
            Self::Normal => 1.0,
            Self::Important => 2.0,
            Self::Critical => 3.0,
            Self::Constitutional => 4.0,
        }
    }
}

/// Recall at `k`, each relevant document weighted by its tier; absent without relevant documents.
///
/// ```
/// use satiety::retrieval::{Tier, importance_weighted_recall};
/// let relevant = [("rule", Tier::Constitutional), ("note", Tier::Normal)];
/// assert_eq!(importance_weighted_recall(&["rule", "x"], &relevant, 5), Some(0.8));
/// ```
pub fn importance_weighted_recall(results: &[&str], relevant: &[(&str, Tier)], k: usize) -> Option<f64> {
    let top = top(results, k);
    let weight = |found: &dyn Fn(&str) -> bool| -> f64 {
        let counted = relevant.iter().filter(|(document, _)| found(document));
        counted.map(|(_, tier)| tier.weight()).sum()
    };
    let all = weight(&|_| true);
    (all > 0.0).then(|| weight(&|document| top.contains(&document)) / all)
}

/// How many of the constitutional memories are among the first `k`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Surfacing {
    /// Whether all of them are.
    pub strict: bool,
    /// Which share of them is.
    pub fraction: f64,
}

/// Constitutional surfacing, strict and as a fraction; absent when there are no constitutional memories.
pub fn constitutional_surfacing(results: &[&str], constitutional: &[&str], k: usize) -> Option<Surfacing> {
    let fraction = share_found(results, constitutional, k)?;
    Some(Surfacing {
        strict: fraction >= 1.0,
        fraction,
    })
}

/// Which share of a causal chain is among the first `k`; absent for an empty chain.
pub(crate) fn causal_chain_completeness(results: &[&str], chain: &[&str], k: usize) -> Option<f64> {
    share_found(results, chain, k)
}

/// Precision at `k` among the results of each tier, lowest tier first; tiers without a result are left out.
pub(crate) fn tier_precision(results: &[(&str, Tier)], relevant: &[&str], k: usize) -> Vec<(Tier, f64)> {
    let top = &results[..results.len().min(k)];
    let of = |tier| {
        let of_tier = || top.iter().filter(move |(_, other)| *other == tier);
        let found = of_tier()
            .filter(|(document, _)| relevant.contains(document))
            .count();
        let all = of_tier().count();
        (all > 0).then(|| (tier, found as f64 / all as f64))
    };
    Tier::ALL.into_iter().filter_map(of).collect()
}

/// How alike the first `k` results are by the groups (folders) they come from: 1 − groups / results; absent without results.
pub(crate) fn intra_list_similarity(groups: &[&str], k: usize) -> Option<f64> {
    let top = top(groups, k);
    let distinct: std::collections::BTreeSet<&&str> = top.iter().collect();
    (!top.is_empty()).then(|| 1.0 - distinct.len() as f64 / top.len() as f64)
}

fn share_found(results: &[&str], wanted: &[&str], k: usize) -> Option<f64> {
    let top = top(results, k);
    let found = wanted.iter().filter(|document| top.contains(document)).count();
    (!wanted.is_empty()).then(|| found as f64 / wanted.len() as f64)
}

fn top<'a, 'b>(results: &'a [&'b str], k: usize) -> &'a [&'b str] {
    &results[..results.len().min(k)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: [&str; 5] = ["a", "b", "c", "d", "e"];

    /// Found: a (4) and c (.5); missed within 3: e (3), z (2). 4.5 of 9.5.
    #[test]
    fn recall_weighs_tiers() {
        let relevant = [
            ("a", Tier::Constitutional),
            ("c", Tier::Temporary),
            ("e", Tier::Critical),
            ("z", Tier::Important),
        ];
        assert_eq!(
            importance_weighted_recall(&RESULTS, &relevant, 3),
            Some(4.5 / 9.5)
        );
        assert_eq!(
            importance_weighted_recall(&RESULTS, &relevant, 50),
            Some(7.5 / 9.5)
        );
        assert_eq!(importance_weighted_recall(&RESULTS, &[], 3), None);
    }

    #[test]
    fn surfacing_is_strict_or_a_share() {
        let of = |k| constitutional_surfacing(&RESULTS, &["b", "d"], k).unwrap();
        assert_eq!((of(1).strict, of(1).fraction), (false, 0.0));
        assert_eq!((of(3).strict, of(3).fraction), (false, 0.5));
        assert_eq!((of(4).strict, of(4).fraction), (true, 1.0));
        assert_eq!(constitutional_surfacing(&RESULTS, &[], 5), None);
        assert_eq!(
            causal_chain_completeness(&RESULTS, &["a", "e", "q", "c"], 5),
            Some(0.75)
        );
    }

    #[test]
    fn precision_by_tier_and_similarity_by_group() {
        let results = [
            ("a", Tier::Critical),
            ("b", Tier::Normal),
            ("c", Tier::Critical),
            ("d", Tier::Normal),
        ];
        assert_eq!(
            tier_precision(&results, &["a", "c", "d"], 4),
            [(Tier::Normal, 0.5), (Tier::Critical, 1.0)]
        );
        assert_eq!(tier_precision(&results, &["a"], 1), [(Tier::Critical, 1.0)]);
        assert_eq!(intra_list_similarity(&["x", "x", "y", "x"], 4), Some(0.5));
        assert_eq!(intra_list_similarity(&["x", "y"], 10), Some(0.0));
        assert_eq!(intra_list_similarity(&[], 10), None);
    }
}
