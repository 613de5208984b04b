//! From candidates to the list that is returned: importance and the session's boost, diversity, the constitutional
//! memories in their places, what the session has already, and the token budget.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::Tier;

/// How much a result's likeness to better ones counts against it (maximal marginal relevance, Carbonell and Goldstein
/// 1998). Likeness below the floor counts as none and then rises to all, so that only near-repeats give way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct Diversity {
    /// How much relevance counts; likeness counts the rest. 1 turns it off.
    pub lambda: f64,
    /// Likeness of meaning from which on two results repeat each other.
    pub floor: f64,
    /// The same for likeness of words, which is compared where there are no vectors.
    pub word_floor: f64,
}

impl Diversity {
    /// How much two results repeat each other, from 0 to 1, by the cosine of their vectors.
    pub fn by_meaning(self, cosine: f64) -> f64 {
        over(cosine, self.floor)
    }

    /// How much two results repeat each other, from 0 to 1, by the share of their words that is common.
    pub fn by_words(self, share: f64) -> f64 {
        over(share, self.word_floor)
    }
}

fn over(likeness: f64, floor: f64) -> f64 {
    ((likeness - floor) / (1.0 - floor).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

/// How a list is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankSettings {
    /// Results at most.
    pub limit: usize,
    /// Tokens that the results may have in all.
    pub token_budget: usize,
    /// Constitutional memories are among so many first results.
    pub constitutional_within: usize,
    /// How much the session's attention may raise a score: 0.2 is a fifth.
    pub session_boost: f64,
    /// Diversity.
    pub diversity: Diversity,
    /// How much a tier moves a score.
    pub tiers: TierFactors,
    /// How much confidence moves a score.
    pub confidence: ConfidenceFactors,
}

impl Default for RankSettings {
    /// As the default pipeline has it in focused mode.
    fn default() -> Self {
        let pipeline = super::Pipeline::default();
        pipeline.rank_settings(pipeline.modes.focused.limit, pipeline.modes.focused.token_budget)
    }
}

/// How much a tier moves a score: important things first among equals, not instead of what fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct TierFactors {
    /// For the moment.
    pub temporary: f64,
    /// As most are.
    pub normal: f64,
    /// More than most.
    pub important: f64,
    /// Not to be missed.
    pub critical: f64,
    /// Always to be shown.
    pub constitutional: f64,
}

impl TierFactors {
    /// The factor of a tier.
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

/// How much confidence moves a score: a line between two factors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct ConfidenceFactors {
    /// At confidence 0.
    pub lowest: f64,
    /// At confidence 1.
    pub highest: f64,
}

impl ConfidenceFactors {
    /// The factor at a confidence.
    pub fn of(self, confidence: f64) -> f64 {
        self.lowest + (self.highest - self.lowest) * confidence.clamp(0.0, 1.0)
    }
}

/// Something that may be returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which memory.
    pub id: String,
    /// Its fused score; 0 for a constitutional memory that no channel found.
    pub score: f64,
    /// How important it is.
    pub tier: Tier,
    /// How much it has proved itself, from 0 to 1; 0.5 says nothing.
    pub confidence: f64,
    /// The session's attention to it, from 0 to 1.
    pub attention: f64,
    /// Tokens that it would cost.
    pub tokens: usize,
    /// Whether the session has it already.
    pub already_shown: bool,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Chosen {
    /// Which candidate, by its position in the input.
    pub candidate: usize,
    /// Its score after importance and boost.
    pub score: f64,
    /// Whether it is here only because it is constitutional.
    pub lifted: bool,
}

/// The list, and what is not in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Ranked {
    /// Best first.
    pub chosen: Vec<Chosen>,
    /// Candidates that the session has already, best first.
    pub already_shown: Vec<usize>,
    /// Candidates that the budget had no room for, best first.
    pub over_budget: Vec<usize>,
    /// How much attention changed the mean score of the results.
    pub boost_delta: f64,
}

/// Makes the list. `repeats` says how much two candidates, by position, repeat each other, from 0 to 1; see
/// [`Diversity`].
///
/// Constitutional memories are always among the first `constitutional_within`, as far as they are not more: those that
/// did not get there by themselves take the last of these places. Neither session nor budget keeps them away.
pub fn rank(
    candidates: &[Candidate],
    settings: &RankSettings,
    repeats: impl Fn(usize, usize) -> f64,
) -> Ranked {
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

    let mut ranked = Ranked {
        already_shown,
        ..Ranked::default()
    };
    // What must be there is paid for first.
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
        // Nothing was found that fits: one result that is too long beats none.
        let only = ranked.chosen.is_empty() && must == 0;
        if !free && tokens > left && !only {
            ranked.over_budget.push(position);
            continue;
        }
        if !free {
            left = left.saturating_sub(tokens);
        }
        ranked.chosen.push(Chosen {
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

/// Takes the best again and again, counting likeness to what was taken. Only the head of the list: what is far below
/// the limit cannot come up.
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
    // The greatest likeness of each to what was taken so far.
    let mut waiting: Vec<(usize, f64)> = order[..head].iter().map(|position| (*position, 0.0)).collect();
    let mut taken = Vec::with_capacity(order.len());
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
        taken.push(next);
    }
    taken.extend(&order[head..]);
    taken
}

/// Brings constitutional memories that are too far down to the last of the first places, in their order.
fn lift(
    order: &[usize],
    within: usize,
    is_constitutional: impl Fn(&usize) -> bool,
) -> (Vec<usize>, BTreeSet<usize>) {
    let (head, tail) = order.split_at(order.len().min(within));
    let room = head
        .iter()
        .filter(|position| !is_constitutional(position))
        .count();
    let below = tail
        .iter()
        .copied()
        .filter(|position| is_constitutional(position));
    let lifted: Vec<usize> = below.take(room).collect();
    let mut kept = Vec::with_capacity(order.len());
    let mut displaced = Vec::new();
    let mut leave = room - lifted.len();
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

/// What a session pays attention to: memories it used, most recent first, each turn back counting `decay` as much.
pub fn session_attention<'a>(
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

    fn ids(candidates: &[Candidate], ranked: &Ranked) -> Vec<String> {
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
    fn a_near_repeat_gives_way_and_others_stay() {
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
    fn the_budget_is_kept_and_told() {
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
    fn what_the_session_has_is_held_back_unless_it_is_constitutional() {
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
    fn attention_fades_with_turns_and_adds_up() {
        let attention = session_attention([("a", 0), ("b", 2), ("b", 3), ("a", 1)], 0.5);
        let expected = [("a".to_owned(), 1.0), ("b".to_owned(), 0.375)];
        assert_eq!(attention, BTreeMap::from(expected));
    }

    proptest! {
        /// The promise of the specification: all of up to five constitutional memories are among the first five.
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
            // Others never take more than the budget, unless the very first is longer than that.
            let spent: Vec<usize> = ranked.chosen.iter().map(|chosen| &candidates[chosen.candidate])
                .filter(|one| one.tier == Tier::Normal).map(|one| one.tokens).collect();
            prop_assert!(spent.iter().sum::<usize>() <= budget.max(spent.first().copied().unwrap_or(0)));
        }
    }
}
