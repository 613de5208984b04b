//! Ranking: turns candidates into the returned list by tier factors and session boost, diversity, placement
//! of constitutional memories, removal of already shown results, and the token budget.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::Tier;

/// Diversity by maximal marginal relevance (Carbonell and Goldstein 1998). Similarity below the floor counts
/// as 0 and then rises linearly to 1, so that only near-duplicates are demoted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct Diversity {
    /// Weight of relevance; similarity has the remaining weight. 1 disables diversity.
    pub lambda: f64,
    /// Cosine similarity above which two results count as near-duplicates.
    pub floor: f64,
    /// Word similarity above which two results count as near-duplicates; used without vectors.
    pub word_floor: f64,
}

impl Diversity {
    /// Redundancy of two results from 0 to 1, by the cosine similarity of their vectors.
    pub(crate) fn by_meaning(self, cosine: f64) -> f64 {
        rescale(cosine, self.floor)
    }

    /// Redundancy of two results from 0 to 1, by the fraction of common words.
    pub(crate) fn by_words(self, share: f64) -> f64 {
        rescale(share, self.word_floor)
    }
}

fn rescale(similarity: f64, floor: f64) -> f64 {
    ((similarity - floor) / (1.0 - floor).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

/// Limits and factors of the ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankSettings {
    /// Maximum number of results.
    pub limit: usize,
    /// Maximum number of tokens of all results.
    pub token_budget: usize,
    /// Constitutional memories appear within this many first results.
    pub constitutional_within: usize,
    /// Maximum score increase by session attention, as a fraction: 0.2 is 20 %.
    pub session_boost: f64,
    /// How near-duplicates are demoted.
    pub diversity: Diversity,
    /// Score factor of each tier.
    pub tiers: TierFactors,
    /// Score factors by confidence.
    pub confidence: ConfidenceFactors,
}

impl Default for RankSettings {
    /// Settings of the default pipeline in focused mode.
    fn default() -> Self {
        let pipeline = super::Pipeline::default();
        pipeline.rank_settings(pipeline.modes.focused.limit, pipeline.modes.focused.token_budget)
    }
}

/// Score factor of each tier. Factors near 1 break ties by importance without overriding relevance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct TierFactors {
    /// Score factor of temporary memories.
    pub temporary: f64,
    /// Score factor of normal memories.
    pub normal: f64,
    /// Score factor of important memories.
    pub important: f64,
    /// Score factor of critical memories.
    pub critical: f64,
    /// Score factor of constitutional memories.
    pub constitutional: f64,
}

impl TierFactors {
    /// Score factor of a tier.
    pub fn of(self, tier: Tier) -> f64 {
        match tier {
            Tier::Temporary => self.temporary,
            Tier::Normal => self.normal,
            Tier::Important => self.important,
            Tier::Critical => self.critical,
            Tier::Constitutional => self.constitutional,
        }
    }
}

/// Score factors by confidence, interpolated linearly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct ConfidenceFactors {
    /// Score factor at confidence 0.
    pub lowest: f64,
    /// Score factor at confidence 1.
    pub highest: f64,
}

impl ConfidenceFactors {
    /// Score factor at the given confidence.
    pub fn of(self, confidence: f64) -> f64 {
        self.lowest + (self.highest - self.lowest) * confidence.clamp(0.0, 1.0)
    }
}

/// A candidate for the result list.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Id of the memory.
    pub id: String,
    /// Fused score; 0 for a constitutional memory that no channel found.
    pub score: f64,
    /// Importance tier of the memory.
    pub tier: Tier,
    /// Confidence in the memory from 0 to 1; 0.5 is neutral.
    pub confidence: f64,
    /// Attention of the session to the memory, from 0 to 1.
    pub attention: f64,
    /// Number of tokens of the candidate.
    pub tokens: usize,
    /// Whether the session has already received it.
    pub already_shown: bool,
}

/// An entry of the result list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RankedCandidate {
    /// Position of the candidate in the input.
    pub candidate: usize,
    /// Score after tier, confidence and session factors.
    pub score: f64,
    /// Whether it is included only because it is constitutional.
    pub lifted: bool,
}

/// The result list and the excluded candidates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Ranking {
    /// Selected candidates, best first.
    pub chosen: Vec<RankedCandidate>,
    /// Candidates that the session has already received, best first.
    pub already_shown: Vec<usize>,
    /// Candidates that exceed the token budget, best first.
    pub over_budget: Vec<usize>,
    /// Change of the mean score of the results by session attention.
    pub boost_delta: f64,
}

/// Ranks candidates. `repeats` returns the redundancy of two candidates, by position, from 0 to 1; see
/// [`Diversity`].
///
/// All constitutional memories appear within the first `constitutional_within` results, up to that number.
/// Those that did not rank there are moved to the last of these positions. Neither session nor token budget
/// excludes them.
pub fn rank(
    candidates: &[Candidate],
    settings: &RankSettings,
    repeats: impl Fn(usize, usize) -> f64,
) -> Ranking {
    let plain = |candidate: &Candidate| {
        candidate.score * settings.tiers.of(candidate.tier) * settings.confidence.of(candidate.confidence)
    };
    let scores: Vec<f64> = candidates
        .iter()
        .map(|candidate| {
            plain(candidate) * (1.0 + settings.session_boost * candidate.attention.clamp(0.0, 1.0))
        })
        .collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let by_score = |a: &usize, b: &usize| {
        let (one, other) = (&candidates[*a], &candidates[*b]);
        scores[*b]
            .total_cmp(&scores[*a])
            .then_with(|| one.id.cmp(&other.id))
    };
    order.sort_by(by_score);
    let is_constitutional = |position: &usize| candidates[*position].tier == Tier::Constitutional;
    let (already_shown, order): (Vec<usize>, Vec<usize>) = order
        .into_iter()
        .partition(|position| candidates[*position].already_shown && !is_constitutional(position));

    let order = diversify(&order, &scores, settings, repeats);
    let (order, lifted) = lift(
        &order,
        settings.constitutional_within.min(settings.limit),
        is_constitutional,
    );

    let mut ranked = Ranking {
        already_shown,
        ..Ranking::default()
    };
    // Mandatory results are charged to the budget first.
    let must: usize = order
        .iter()
        .take(settings.constitutional_within)
        .filter(|position| is_constitutional(position))
        .map(|position| candidates[*position].tokens)
        .sum();
    let mut left = settings.token_budget.saturating_sub(must);
    for (place, position) in order.into_iter().enumerate() {
        let free = is_constitutional(&position) && place < settings.constitutional_within;
        let tokens = candidates[position].tokens;
        if ranked.chosen.len() >= settings.limit {
            break;
        }
        // No result fits the budget: one that is too long is better than none.
        let only = ranked.chosen.is_empty() && must == 0;
        if !free && tokens > left && !only {
            ranked.over_budget.push(position);
            continue;
        }
        if !free {
            left = left.saturating_sub(tokens);
        }
        ranked.chosen.push(RankedCandidate {
            candidate: position,
            score: scores[position],
            lifted: lifted.contains(&position),
        });
    }
    let raised = ranked
        .chosen
        .iter()
        .map(|chosen| chosen.score - plain(&candidates[chosen.candidate]));
    ranked.boost_delta = raised.sum::<f64>() / ranked.chosen.len().max(1) as f64;
    ranked
}

/// Selects the best candidate repeatedly, penalizing similarity to those selected before. Only the head of
/// the list is considered, because candidates far below the limit cannot move up.
fn diversify(
    order: &[usize],
    scores: &[f64],
    settings: &RankSettings,
    repeats: impl Fn(usize, usize) -> f64,
) -> Vec<usize> {
    let Diversity { lambda, .. } = settings.diversity;
    let head = order.len().min(2 * settings.limit);
    if lambda >= 1.0 || head < 2 {
        return order.to_vec();
    }
    let top = order
        .first()
        .map_or(1.0, |first| scores[*first])
        .max(f64::MIN_POSITIVE);
    // Maximum similarity of each candidate to the selected ones.
    let mut waiting: Vec<(usize, f64)> = order[..head].iter().map(|position| (*position, 0.0)).collect();
    let mut selected = Vec::with_capacity(order.len());
    while !waiting.is_empty() {
        let worth =
            |(position, like): &(usize, f64)| lambda * scores[*position] / top - (1.0 - lambda) * like;
        let mut best = 0;
        for (at, one) in waiting.iter().enumerate() {
            if worth(one) > worth(&waiting[best]) {
                best = at;
            }
        }
        let (next, _) = waiting.remove(best);
        for (position, like) in &mut waiting {
            *like = like.max(repeats(next, *position).clamp(0.0, 1.0));
        }
        selected.push(next);
    }
    selected.extend(&order[head..]);
    selected
}

/// Moves constitutional memories that rank too low to the last of the first positions, in their order.
fn lift(
    order: &[usize],
    within: usize,
    is_constitutional: impl Fn(&usize) -> bool,
) -> (Vec<usize>, BTreeSet<usize>) {
    let (head, tail) = order.split_at(order.len().min(within));
    let capacity = head
        .iter()
        .filter(|position| !is_constitutional(position))
        .count();
    let below = tail
        .iter()
        .copied()
        .filter(|position| is_constitutional(position));
    let lifted: Vec<usize> = below.take(capacity).collect();
    let mut kept = Vec::with_capacity(order.len());
    let mut displaced = Vec::new();
    let mut leave = capacity - lifted.len();
    for position in head {
        if is_constitutional(position) {
            kept.push(*position);
        } else if leave > 0 {
            kept.push(*position);
            leave -= 1;
        } else {
            displaced.push(*position);
        }
    }
    let lifted_set: BTreeSet<usize> = lifted.iter().copied().collect();
    kept.extend(lifted);
    kept.extend(displaced);
    kept.extend(tail.iter().filter(|position| !lifted_set.contains(position)));
    (kept, lifted_set)
}

/// Attention of a session to memories it used, most recent first; each query back multiplies the weight by
/// `decay`.
pub(crate) fn session_attention<'a>(
    used: impl IntoIterator<Item = (&'a str, u32)>,
    decay: f64,
) -> BTreeMap<String, f64> {
    let mut attention: BTreeMap<String, f64> = BTreeMap::new();
    for (id, turns_ago) in used {
        let value = decay.powi(i32::try_from(turns_ago).unwrap_or(i32::MAX));
        let entry = attention.entry(id.to_owned()).or_default();
        *entry = (*entry + value).min(1.0);
    }
    attention
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(id: &str, score: f64, tier: Tier) -> Candidate {
        Candidate {
            id: id.into(),
            score,
            tier,
            confidence: 0.5,
            attention: 0.0,
            tokens: 10,
            already_shown: false,
        }
    }

    fn ids(candidates: &[Candidate], ranked: &Ranking) -> Vec<String> {
        let ids = ranked
            .chosen
            .iter()
            .map(|chosen| candidates[chosen.candidate].id.clone());
        ids.collect()
    }

    #[test]
    fn importance_confidence_and_attention_move_scores_a_little() {
        let mut candidates = vec![
            candidate("plain", 0.50, Tier::Normal),
            candidate("critical", 0.47, Tier::Critical),
            candidate("proved", 0.46, Tier::Normal),
            candidate("attended", 0.43, Tier::Normal),
            candidate("far", 0.30, Tier::Critical),
        ];
        candidates[2].confidence = 1.0;
        candidates[3].attention = 1.0;
        let ranked = rank(&candidates, &RankSettings::default(), |_, _| 0.0);
        // .47 · 1.1 = .517, .43 · 1.2 = .516, .46 · 1.1 = .506.
        assert_eq!(
            ids(&candidates, &ranked),
            ["critical", "attended", "proved", "plain", "far"]
        );
        assert!((ranked.boost_delta - 0.43 * 0.2 / 5.0).abs() < 1e-12);
    }

    #[test]
    fn a_near_duplicate_is_demoted() {
        let candidates: Vec<Candidate> = [("a", 1.0), ("a2", 0.99), ("b", 0.9), ("c", 0.5)]
            .map(|(id, score)| candidate(id, score, Tier::Normal))
            .into();
        let like = |one: usize, other: usize| if one + other == 1 { 1.0 } else { 0.8 };
        let settings = RankSettings::default();
        // a2: .7 · .99 − .3 · 1 = .393; b .63; c .35.
        let ranked = rank(&candidates, &settings, |one, other| {
            settings.diversity.by_words(like(one, other))
        });
        assert_eq!(ids(&candidates, &ranked), ["a", "b", "a2", "c"]);
    }

    #[test]
    fn the_budget_is_respected_and_reported() {
        let mut candidates: Vec<Candidate> = [("a", 0.9), ("b", 0.8), ("c", 0.7)]
            .map(|(id, score)| candidate(id, score, Tier::Normal))
            .into();
        candidates[1].tokens = 95;
        let settings = RankSettings {
            token_budget: 100,
            ..RankSettings::default()
        };
        let ranked = rank(&candidates, &settings, |_, _| 0.0);
        assert_eq!(
            (ids(&candidates, &ranked), ranked.over_budget),
            (vec!["a".into(), "c".into()], vec![1])
        );
        candidates.truncate(1);
        candidates[0].tokens = 5000;
        assert_eq!(rank(&candidates, &settings, |_, _| 0.0).chosen.len(), 1);
    }

    #[test]
    fn already_shown_results_are_excluded_unless_constitutional() {
        let mut candidates = vec![
            candidate("a", 0.9, Tier::Normal),
            candidate("rule", 0.0, Tier::Constitutional),
        ];
        for one in &mut candidates {
            one.already_shown = true;
        }
        let ranked = rank(&candidates, &RankSettings::default(), |_, _| 0.0);
        assert_eq!(
            (ids(&candidates, &ranked), ranked.already_shown),
            (vec!["rule".into()], vec![0])
        );
    }

    #[test]
    fn attention_decays_by_query_and_adds_up() {
        let attention = session_attention([("a", 0), ("b", 2), ("b", 3), ("a", 1)], 0.5);
        let expected = [("a".to_owned(), 1.0), ("b".to_owned(), 0.375)];
        assert_eq!(attention, BTreeMap::from(expected));
    }

    proptest! {
        /// Guarantee of the specification: up to five constitutional memories are among the first five
        /// results.
        #[test]
        fn constitutional_memories_always_surface(
            others in proptest::collection::vec((0.0..1.0f64, 0usize..3000, any::<bool>()), 0..60),
            rules in proptest::collection::vec((0.0..1.0f64, 0usize..3000, any::<bool>()), 0..=5),
            budget in 0usize..3000, limit in 5usize..20, alike in 0.0..1.0f64,
        ) {
            let make = |(index, (score, tokens, shown)): (usize, &(f64, usize, bool)), tier: Tier| Candidate {
                tokens: *tokens,
                already_shown: *shown,
                ..candidate(&format!("{}{index}", tier.name()), *score, tier)
            };
            let candidates: Vec<Candidate> = others.iter().enumerate().map(|one| make(one, Tier::Normal))
                .chain(rules.iter().enumerate().map(|one| make(one, Tier::Constitutional)))
                .collect();
            let settings = RankSettings { limit, token_budget: budget, ..RankSettings::default() };
            let ranked = rank(&candidates, &settings, |_, _| alike);
            let surfaced = ranked.chosen.iter().take(5)
                .filter(|chosen| candidates[chosen.candidate].tier == Tier::Constitutional).count();
            prop_assert_eq!(surfaced, rules.len());
            prop_assert!(ranked.chosen.len() <= limit);
            let distinct: BTreeSet<usize> = ranked.chosen.iter().map(|chosen| chosen.candidate).collect();
            prop_assert_eq!(distinct.len(), ranked.chosen.len());
            // Other results never exceed the budget, unless the first one alone does.
            let spent: Vec<usize> = ranked.chosen.iter().map(|chosen| &candidates[chosen.candidate])
                .filter(|one| one.tier == Tier::Normal).map(|one| one.tokens).collect();
            prop_assert!(spent.iter().sum::<usize>() <= budget.max(spent.first().copied().unwrap_or(0)));
        }
    }
}
