//! Measures for agent memories with importance tiers and causal chains. All functions take the results of one
//! query, best first.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::{Link, LinkKind};

/// Maximum number of memories of a causal chain: more than a result list has.
const MAX_CHAIN: usize = 50;

/// Importance tier of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Only of temporary interest; weight 0.5.
    Temporary,
    /// Default importance; weight 1.
    Normal,
    /// Above default importance; weight 2.
    Important,
    /// Must not be missed; weight 3.
    Critical,
    /// Must always be returned; weight 4.
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

    /// Name of the tier in files and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::Normal => "normal",
            Self::Important => "important",
            Self::Critical => "critical",
            Self::Constitutional => "constitutional",
        }
    }

    /// Weight of the tier in importance-weighted recall.
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

/// Recall at `k`, with each relevant document weighted by its tier; `None` without relevant documents.
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

/// Share of the constitutional memories among the first `k` results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Surfacing {
    /// Whether all constitutional memories were returned.
    pub strict: bool,
    /// Share of the constitutional memories returned, 0 to 1.
    pub fraction: f64,
}

/// Constitutional surfacing, strict and as a fraction; `None` without constitutional memories.
pub fn constitutional_surfacing(results: &[&str], constitutional: &[&str], k: usize) -> Option<Surfacing> {
    let fraction = share_found(results, constitutional, k)?;
    Some(Surfacing {
        strict: fraction >= 1.0,
        fraction,
    })
}

/// Causal chain of relevant memories: everything that they caused or enabled and that caused or enabled them,
/// directly or through others, nearest first. Empty if no relevant memory has such a link.
pub fn causal_chain(relevant: &[String], links: &[Link]) -> Vec<String> {
    let mut neighbours: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let causal = |link: &&Link| matches!(link.kind, LinkKind::Caused | LinkKind::Enabled);
    for link in links.iter().filter(causal) {
        neighbours.entry(&link.from).or_default().push(&link.to);
        neighbours.entry(&link.to).or_default().push(&link.from);
    }
    let linked = relevant.iter().filter(|id| neighbours.contains_key(id.as_str()));
    let mut chain: Vec<&str> = linked.map(String::as_str).collect();
    chain.sort_unstable();
    chain.dedup();
    let mut seen: BTreeSet<&str> = chain.iter().copied().collect();
    let mut at = 0;
    while let Some(id) = chain.get(at).copied() {
        at += 1;
        for next in neighbours.get(id).into_iter().flatten() {
            if chain.len() < MAX_CHAIN && seen.insert(next) {
                chain.push(next);
            }
        }
    }
    chain.into_iter().map(str::to_owned).collect()
}

/// Share of a causal chain among the first `k` results; `None` for an empty chain.
pub(crate) fn causal_chain_completeness(results: &[&str], chain: &[&str], k: usize) -> Option<f64> {
    share_found(results, chain, k)
}

/// Precision at `k` among the results of each tier, lowest tier first; tiers without results are omitted.
pub(crate) fn tier_precision(results: &[(&str, Tier)], relevant: &[&str], k: usize) -> Vec<(Tier, f64)> {
    let top = &results[..results.len().min(k)];
    let precision = |tier| {
        let of_tier = || top.iter().filter(move |(_, other)| *other == tier);
        let found = of_tier()
            .filter(|(document, _)| relevant.contains(document))
            .count();
        let all = of_tier().count();
        (all > 0).then(|| (tier, found as f64 / all as f64))
    };
    Tier::ALL.into_iter().filter_map(precision).collect()
}

/// Similarity of the first `k` results by group (folder): 1 − groups / results; `None` without results.
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
        let at = |k| constitutional_surfacing(&RESULTS, &["b", "d"], k).unwrap();
        assert_eq!((at(1).strict, at(1).fraction), (false, 0.0));
        assert_eq!((at(3).strict, at(3).fraction), (false, 0.5));
        assert_eq!((at(4).strict, at(4).fraction), (true, 1.0));
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

    #[test]
    fn a_causal_chain_follows_causes_in_both_directions() {
        let link = |from: &str, kind, to: &str| Link {
            from: from.into(),
            to: to.into(),
            kind,
        };
        let links = [
            link("a", LinkKind::Caused, "b"),
            link("b", LinkKind::Enabled, "c"),
            link("d", LinkKind::Caused, "c"),
            link("c", LinkKind::Supersedes, "x"),
            link("y", LinkKind::Caused, "z"),
        ];
        assert_eq!(causal_chain(&["b".into()], &links), ["b", "a", "c", "d"]);
        assert_eq!(causal_chain(&["x".into(), "q".into()], &links), [] as [String; 0]);
        assert_eq!(causal_chain(&["z".into(), "a".into()], &links).len(), 6);
        let circle = [link("a", LinkKind::Caused, "b"), link("b", LinkKind::Caused, "a")];
        assert_eq!(causal_chain(&["a".into()], &circle), ["a", "b"]);
    }
}
