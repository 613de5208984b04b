//! Which items to drop so that enough tokens come free at the least expected loss: a covering knapsack. Greedy by loss a
//! token, where each item that could close the gap alone is tried as the last one, loses at most twice the optimum
//! (Csirik, Frenk, Labbé and Zhang 1991); what the last one made superfluous is taken back.
//!
//! Pinned items and what they need are never proposed, nor what another open proposal holds.

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;
use super::features::Term;
use super::scope::Scope;

/// Items looked at after the first solution, for a better last one.
const LOOK_FURTHER: usize = 10_000;
/// The largest probability with which an item that was not chosen is proposed.
const MOST_EXPLORED: f64 = 0.5;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposeRequest {
    /// The id that the proposal shall have.
    pub proposal_id: String,
    /// The scope.
    pub scope_id: String,
    /// How much must come free.
    pub need: Need,
    /// When.
    pub proposed_at: Timestamp,
    /// How long the agent may take to answer.
    pub timeout_ms: u64,
    /// How many items are proposed only to learn about them, as a share of those that must go.
    pub exploration: f64,
    /// The seed of that chance.
    pub seed: u64,
}

/// How much must come free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// So many tokens.
    Free(u64),
    /// As many as are above so many.
    Budget(u64),
}

/// Items that would be dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionProposal {
    /// Its id.
    pub proposal_id: String,
    /// The scope.
    pub scope_id: String,
    /// The turn it was made in.
    pub turn_number: u64,
    /// When it was made.
    pub proposed_at: Timestamp,
    /// Who scored: the version of the weights.
    pub scorer_model: String,
    /// What would go, the least valuable first.
    pub candidates: Vec<EvictionCandidate>,
    /// Tokens that must come free.
    pub need_tokens: u64,
    /// Tokens that would come free.
    pub candidate_tokens: u64,
    /// How long the agent may take to answer.
    pub timeout_ms: u64,
    /// The share of items that were added only to learn about them.
    pub exploration: f64,
    /// Seed of the exploration.
    pub seed: u64,
    /// Why too little would come free, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
}

/// One item that would be dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionCandidate {
    /// The item.
    pub ctx_id: String,
    /// Its zone.
    pub zone: String,
    /// Its kind.
    pub kind: String,
    /// The probability that it will be needed again: 0 irrelevant, 1 critical.
    pub relevance_score: f64,
    /// Turns since its last use.
    pub age_turns: u64,
    /// Its size.
    pub token_count: u64,
    /// One line that shows what it is.
    pub snippet: String,
    /// The probability with which it came into the proposal.
    pub propensity: f64,
    /// What the scorer saw, one value for each of [`Term::ALL`].
    pub features: [f64; Term::ALL.len()],
}

/// Why a budget is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shortfall {
    /// Tokens that are missing.
    pub missing_tokens: u64,
    /// What may not go because of pins, largest first.
    pub pins: Vec<PinnedItem>,
    /// Tokens that other open proposals hold.
    pub held_tokens: u64,
}

/// An item that a pin keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinnedItem {
    /// The item.
    pub ctx_id: String,
    /// Its size.
    pub token_count: u64,
    /// The pinned item that needs it; absent where it is pinned itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_by: Option<String>,
}

/// Proposes. The scope is not changed; hold the candidates to keep them out of other proposals.
pub fn propose(scope: &Scope, request: &ProposeRequest) -> Result<EvictionProposal, EvictionError> {
    if !(0.0..=0.5).contains(&request.exploration) {
        return Err(EvictionError::Setting {
            what: "exploration",
            value: request.exploration,
            range: "0 to 0.5",
        });
    }
    let need = match request.need {
        Need::Free(tokens) => tokens,
        Need::Budget(budget) => scope.tokens().saturating_sub(budget),
    };
    let chosen = cover(
        scope
            .ranking()
            .map(|(slot, entry)| (slot, entry.item.token_count, entry.loss)),
        need,
    );
    let mut candidates: Vec<EvictionCandidate> = chosen
        .iter()
        .filter_map(|slot| candidate(scope, *slot, 1.0))
        .collect();
    if request.exploration > 0.0 && !candidates.is_empty() {
        candidates.extend(explored(scope, &chosen, request));
    }
    let candidate_tokens = candidates.iter().map(|candidate| candidate.token_count).sum();
    Ok(EvictionProposal {
        proposal_id: request.proposal_id.clone(),
        scope_id: request.scope_id.clone(),
        turn_number: scope.turn(),
        proposed_at: request.proposed_at,
        scorer_model: scope.weights().version.clone(),
        candidates,
        need_tokens: need,
        candidate_tokens,
        timeout_ms: request.timeout_ms,
        exploration: request.exploration,
        seed: request.seed,
        shortfall: (candidate_tokens < need).then(|| shortfall(scope, need - candidate_tokens)),
    })
}

/// Some of the items that were not chosen, wherever they stand, each with the same probability: as many as the share asked
/// for of those chosen, on average. Drawn from all of them, because a scorer that only ever hears about the items it
/// despises learns nothing about the others.
fn explored(scope: &Scope, chosen: &[u32], request: &ProposeRequest) -> Vec<EvictionCandidate> {
    let taken: rustc_hash::FxHashSet<u32> = chosen.iter().copied().collect();
    let rest: Vec<u32> = scope
        .ranking()
        .map(|(slot, _)| slot)
        .filter(|slot| !taken.contains(slot))
        .collect();
    let propensity =
        (request.exploration * chosen.len() as f64 / rest.len().max(1) as f64).min(MOST_EXPLORED);
    let mut random = ChaCha8Rng::seed_from_u64(request.seed);
    let mut drawn = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    rest.into_iter()
        .filter(|_| drawn() < propensity)
        .filter_map(|slot| candidate(scope, slot, propensity))
        .collect()
}

fn candidate(scope: &Scope, slot: u32, propensity: f64) -> Option<EvictionCandidate> {
    let item = &scope.at(slot)?.item;
    let score = scope.score(&item.ctx_id)?;
    Some(EvictionCandidate {
        ctx_id: item.ctx_id.clone(),
        zone: item.zone.clone(),
        kind: item.kind.clone(),
        relevance_score: score.relevance_score,
        age_turns: scope.age(item),
        token_count: item.token_count,
        snippet: item.line(),
        propensity,
        features: scope.features(&item.ctx_id)?.values,
    })
}

/// Chooses from (id, tokens, loss), given by rising loss a token, so that the tokens cover the need at little loss; all of
/// them where they do not.
pub(super) fn cover(ranked: impl Iterator<Item = (u32, u64, f64)>, need: u64) -> Vec<u32> {
    if need == 0 {
        return Vec::new();
    }
    let mut prefix: Vec<(u32, u64, f64)> = Vec::new();
    let (mut freed, mut lost) = (0_u64, 0.0_f64);
    let mut best: Option<(f64, usize, (u32, u64, f64))> = None;
    let mut looked = 0;
    for (id, tokens, loss) in ranked {
        let rest = need - freed;
        if let Some((least, ..)) = best {
            looked += 1;
            // Whatever comes next loses at least this much a token.
            if lost + loss / tokens as f64 * rest as f64 >= least || looked > LOOK_FURTHER {
                break;
            }
        }
        if tokens >= rest {
            if best.is_none_or(|(least, ..)| lost + loss < least) {
                best = Some((lost + loss, prefix.len(), (id, tokens, loss)));
            }
        } else {
            prefix.push((id, tokens, loss));
            freed += tokens;
            lost += loss;
        }
    }
    if let Some((_, kept, last)) = best {
        prefix.truncate(kept);
        prefix.push(last);
    }
    let mut spare = prefix
        .iter()
        .map(|(_, tokens, _)| tokens)
        .sum::<u64>()
        .saturating_sub(need);
    let mut by_loss: Vec<usize> = (0..prefix.len()).collect();
    by_loss.sort_by(|&a, &b| prefix[b].2.total_cmp(&prefix[a].2));
    let mut superfluous = vec![false; prefix.len()];
    if best.is_some() {
        for i in by_loss {
            if prefix[i].1 <= spare {
                spare -= prefix[i].1;
                superfluous[i] = true;
            }
        }
    }
    let kept = prefix
        .iter()
        .zip(superfluous)
        .filter(|(_, superfluous)| !superfluous);
    kept.map(|((id, ..), _)| *id).collect()
}

/// Why so many tokens cannot come free.
pub(super) fn shortfall(scope: &Scope, missing_tokens: u64) -> Shortfall {
    let mut pins: Vec<PinnedItem> = scope
        .items()
        .filter(|item| item.token_count > 0)
        .filter_map(|item| {
            let pin = scope.kept_by_pin(&item.ctx_id)?;
            let needed_by = (pin != item.ctx_id).then(|| pin.to_owned());
            Some(PinnedItem {
                ctx_id: item.ctx_id.clone(),
                token_count: item.token_count,
                needed_by,
            })
        })
        .collect();
    pins.sort_by(|a, b| {
        b.token_count
            .cmp(&a.token_count)
            .then_with(|| a.ctx_id.cmp(&b.ctx_id))
    });
    let held = scope.items().filter(|item| scope.is_held(&item.ctx_id));
    Shortfall {
        missing_tokens,
        pins,
        held_tokens: held.map(|item| item.token_count).sum(),
    }
}

#[cfg(test)]
#[path = "propose_tests.rs"]
mod tests;
