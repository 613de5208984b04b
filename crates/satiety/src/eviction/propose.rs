//! Eviction proposals: selects items that free enough tokens at the least expected loss, a covering knapsack.
//!
//! The greedy algorithm takes items by rising loss per token and tries each item that could close the gap
//! alone as the last one; items that the last one made unnecessary are removed again. Its loss is at most
//! twice the optimum (Csirik, Frenk, Labbé and Zhang 1991).
//!
//! With prices ([`super::price`]), the items are selected by what their eviction costs and saves instead, in one
//! edit of the context; below break-even nothing is proposed unless the context must shrink.
//!
//! Pinned items, their dependencies and items held by another open proposal are never proposed.

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;
use super::features::Term;
use super::price::{CostDecision, EvictionCost, PricedItem, Pricing};
use super::scope::Scope;

/// Maximum number of items examined after the first solution, in search of a better last one.
const MAX_LOOKAHEAD: usize = 10_000;
/// Number of items, from the end of the context, among which the one closest to break-even is searched.
const MAX_WAITING_ITEMS: usize = 64;
/// Maximum probability with which an item that was not selected is proposed for exploration.
const MAX_EXPLORATION: f64 = 0.5;

/// Request for an eviction proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposeRequest {
    /// Id of the new proposal.
    pub proposal_id: String,
    /// Id of the scope.
    pub scope_id: String,
    /// Tokens to free.
    pub need: Need,
    /// Time of the request.
    pub proposed_at: Timestamp,
    /// Time the agent has to answer, in milliseconds.
    pub timeout_ms: u64,
    /// Expected number of exploration items, as a share of the selected items, from 0 to 0.5.
    pub exploration: f64,
    /// Seed of the random exploration.
    pub seed: u64,
    /// Prices of the provider's cache; without them the items are selected by their expected loss alone.
    pub pricing: Option<Pricing>,
}

/// Number of tokens to free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Free this many tokens.
    Free(u64),
    /// Free as many tokens as the scope holds above this budget.
    Budget(u64),
    /// Free what pays for itself; nothing if nothing does. Requires prices.
    Pays,
}

/// Proposal to evict items from a scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionProposal {
    /// Id of the proposal.
    pub proposal_id: String,
    /// Id of the scope.
    pub scope_id: String,
    /// Turn in which the proposal was made.
    pub turn_number: u64,
    /// Time at which the proposal was made.
    pub proposed_at: Timestamp,
    /// Version of the weights that scored the items.
    pub scorer_model: String,
    /// Items to evict, the least valuable first.
    pub candidates: Vec<EvictionCandidate>,
    /// Number of tokens that must be freed.
    pub need_tokens: u64,
    /// Number of tokens that evicting all candidates frees.
    pub candidate_tokens: u64,
    /// Time the agent has to answer, in milliseconds.
    pub timeout_ms: u64,
    /// Expected number of exploration items, as a share of the selected items.
    pub exploration: f64,
    /// Seed of the random exploration.
    pub seed: u64,
    /// Reason why the candidates free too few tokens; absent if they free enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
    /// Expected cost and saving; absent without prices, or if nothing could be dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<EvictionCost>,
}

/// Item that a proposal would evict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionCandidate {
    /// Id of the item.
    pub ctx_id: String,
    /// Zone of the item.
    pub zone: String,
    /// Kind of the item.
    pub kind: String,
    /// Probability that the item will be needed again: 0 irrelevant, 1 critical.
    pub relevance_score: f64,
    /// Number of turns since the last use.
    pub age_turns: u64,
    /// Size of the item in tokens.
    pub token_count: u64,
    /// One-line summary of the item.
    pub snippet: String,
    /// Probability with which the item was included in the proposal.
    pub propensity: f64,
    /// Feature values at scoring time, one for each of [`Term::ALL`].
    pub features: [f64; Term::ALL.len()],
}

/// Reason why a proposal cannot free enough tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shortfall {
    /// Number of tokens still missing.
    pub missing_tokens: u64,
    /// Items that cannot be evicted because of pins, the largest first.
    pub pins: Vec<PinnedItem>,
    /// Number of tokens held by other open proposals.
    pub held_tokens: u64,
}

/// Item protected from eviction by a pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinnedItem {
    /// Id of the item.
    pub ctx_id: String,
    /// Size of the item in tokens.
    pub token_count: u64,
    /// Id of the pinned item that depends on it; absent if the item itself is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_by: Option<String>,
}

/// Creates a proposal without changing the scope; [`Scope::hold`] keeps its candidates out of other
/// proposals.
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
        Need::Pays => 0,
    };
    let (chosen, cost) = match &request.pricing {
        Some(pricing) => priced(scope, pricing, request.need, need),
        None if request.need == Need::Pays => return Err(EvictionError::NoPrices),
        None => {
            let ranked = scope
                .ranking()
                .map(|(slot, entry)| (slot, entry.item.token_count, entry.loss));
            (cover(ranked, need), None)
        }
    };
    let waits = cost
        .as_ref()
        .is_some_and(|cost| cost.decision == CostDecision::BelowBreakEven);
    let mut candidates: Vec<EvictionCandidate> = chosen
        .iter()
        .filter_map(|slot| candidate(scope, *slot, 1.0))
        .collect();
    if request.pricing.is_some() {
        candidates.sort_by(|a, b| a.relevance_score.total_cmp(&b.relevance_score));
    }
    if request.exploration > 0.0 && !candidates.is_empty() {
        candidates.extend(exploration_candidates(scope, &chosen, request));
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
        shortfall: (candidate_tokens < need && !waits).then(|| shortfall(scope, need - candidate_tokens)),
        cost,
    })
}

/// Selects items by price, and returns the cost of dropping them. Nothing is selected below break-even, unless
/// the context must shrink: it exceeds the window, or the request names tokens and no window is known.
fn priced(scope: &Scope, pricing: &Pricing, asked: Need, need: u64) -> (Vec<u32>, Option<EvictionCost>) {
    let items = scope.priced_items();
    let tokens = scope.tokens();
    let slots = |chosen: &[usize]| chosen.iter().map(|&i| items[i].slot).collect::<Vec<u32>>();
    if asked == Need::Pays {
        let chosen = pricing.best(&items, tokens);
        let cost = if chosen.is_empty() {
            least_loss(pricing, &items, tokens)
        } else {
            Some(pricing.cost(&items, &chosen, tokens, false))
        };
        return (slots(&chosen), cost);
    }
    if need == 0 {
        return (Vec::new(), None);
    }
    let required = pricing.window_tokens.is_none_or(|window| tokens > window);
    let chosen = pricing.cheapest(&items, need, tokens);
    if chosen.is_empty() {
        return (Vec::new(), None);
    }
    let cost = pricing.cost(&items, &chosen, tokens, required);
    if cost.decision != CostDecision::BelowBreakEven {
        return (slots(&chosen), Some(cost));
    }
    let smaller = pricing.best(&items, tokens);
    if smaller.is_empty() {
        return (Vec::new(), Some(cost));
    }
    let cost = pricing.cost(&items, &smaller, tokens, false);
    (slots(&smaller), Some(cost))
}

/// Cost of the single item whose eviction would lose least, to say how far from break-even the context is.
fn least_loss(pricing: &Pricing, items: &[PricedItem], tokens: u64) -> Option<EvictionCost> {
    let mut rebilled: Vec<usize> = (0..items.len()).filter(|i| items[*i].movable).collect();
    // The latest items cost least; a few suffice for the message.
    rebilled.reverse();
    rebilled
        .into_iter()
        .take(MAX_WAITING_ITEMS)
        .map(|i| pricing.cost(items, &[i], tokens, false))
        .max_by(|a, b| a.net.total_cmp(&b.net))
}

/// Draws exploration items from all items that were not selected, each with the same probability: on average
/// as many as the requested share of the selected ones. Without them, a scorer would get feedback only on
/// items that it already ranks low.
fn exploration_candidates(scope: &Scope, chosen: &[u32], request: &ProposeRequest) -> Vec<EvictionCandidate> {
    let selected: rustc_hash::FxHashSet<u32> = chosen.iter().copied().collect();
    let position = |slot: u32| scope.at(slot).and_then(|entry| entry.item.position);
    // Dropping an earlier item than the selected ones would invalidate more of the cache.
    let earliest = request
        .pricing
        .as_ref()
        .and_then(|_| chosen.iter().filter_map(|slot| position(*slot)).min());
    let rest: Vec<u32> = scope
        .ranking()
        .map(|(slot, _)| slot)
        .filter(|slot| !selected.contains(slot) && position(*slot) >= earliest)
        .collect();
    let propensity =
        (request.exploration * chosen.len() as f64 / rest.len().max(1) as f64).min(MAX_EXPLORATION);
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

/// Selects from (id, tokens, loss), sorted by rising loss per token, items whose tokens cover `need` at a
/// small loss; all of them if they do not suffice.
pub(super) fn cover(ranked: impl Iterator<Item = (u32, u64, f64)>, need: u64) -> Vec<u32> {
    if need == 0 {
        return Vec::new();
    }
    let mut prefix: Vec<(u32, u64, f64)> = Vec::new();
    let (mut freed, mut lost) = (0_u64, 0.0_f64);
    let mut best: Option<(f64, usize, (u32, u64, f64))> = None;
    let mut examined = 0;
    for (id, tokens, loss) in ranked {
        let rest = need - freed;
        if let Some((least, ..)) = best {
            examined += 1;
            // Every later item loses at least this much per token.
            if lost + loss / tokens as f64 * rest as f64 >= least || examined > MAX_LOOKAHEAD {
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

/// Explains why `missing_tokens` cannot be freed.
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
