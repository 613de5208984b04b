//! Replays one session under one policy. Each turn adds and uses items; if the context exceeds its budget at
//! the end of a turn, items are evicted until it is slightly below. A use of an evicted item is a miss: the
//! item is read again and returns with its history.

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::features::Features;
use super::super::item::ContextItem;
use super::super::price::{PriceList, Pricing, SessionState};
use super::super::propose::{EvictionCandidate, Need, ProposeRequest, propose};
use super::super::resolve::{
    Exclude, Label, QUOTA, Resolution, ResolvedBy, apply_resolution, labels, resolve,
};
use super::super::scope::Scope;
use super::super::score::score;
use super::super::weights::Weights;
use super::billing::Bill;
use super::policy::{Policy, Resident};
use super::trace::Session;

/// Size of the context.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Size of the context in tokens.
    Tokens(u64),
    /// Share of all tokens of the session, from 0 to 1.
    Share(f64),
}

/// Options of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// Size of the context.
    pub budget: Budget,
    /// Share of the budget that a flush leaves free, from 0 to below 1, so that not every turn flushes.
    pub headroom: f64,
    /// Simulated agent that answers proposals; without one, nothing is excluded.
    pub agent: Option<Agent>,
    /// Expected number of exploration items, as a share of the selected items, from 0 to 0.5.
    pub exploration: f64,
    /// Random seed of the agent and of the exploration.
    pub seed: u64,
    /// Prices of the bill, and of policies that consider them.
    pub prices: PriceList,
    /// Provider whose prices apply.
    pub provider: String,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            budget: Budget::Tokens(24_000),
            headroom: 0.1,
            agent: None,
            exploration: 0.0,
            seed: 1,
            prices: PriceList::built_in(),
            provider: "anthropic".to_owned(),
        }
    }
}

/// Simulated agent that excludes candidates.
#[derive(Debug, Clone, PartialEq)]
pub enum Agent {
    /// Excludes items that it will use soon, with errors.
    Foresight {
        /// Number of turns it looks ahead.
        horizon: u64,
        /// Probability of excluding an item that it will use.
        recall: f64,
        /// Probability of excluding an item that it will not use.
        false_positive: f64,
    },
    /// Excludes items that score above 0.5 by its own weights, with errors.
    Taste {
        /// Weights that define its preference.
        weights: Box<Weights>,
        /// Error rate, from 0 to 1.
        error: f64,
    },
    /// Excludes at random: nothing can be learned from it.
    Noise {
        /// Probability of excluding an item.
        rate: f64,
    },
}

/// Counters of a replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Number of uses of items added in an earlier turn.
    pub uses: u64,
    /// Number of uses whose item was in the context.
    pub hits: u64,
    /// Number of tokens of all uses.
    pub use_tokens: u64,
    /// Number of tokens of all hits.
    pub hit_tokens: u64,
    /// Number of turns that used at least one item.
    pub answers: u64,
    /// Number of turns for which every used item was in the context.
    pub answers_preserved: u64,
    /// Number of times that items had to be evicted.
    pub flushes: u64,
    /// Number of evicted items.
    pub evicted: u64,
    /// Number of turns in the session.
    pub turns: u64,
    /// Sum over turns of the tokens in the context at the end of the turn.
    pub retained_tokens: u64,
    /// Number of turns that ended above the budget because of pins.
    pub over_budget: u64,
    /// Price of all requests, in tokens at the price of an uncached input token.
    pub billed: f64,
    /// Number of tokens that were sent before and written to the cache again.
    pub rewritten_tokens: u64,
    /// Training labels from the answers of the agent.
    pub labels: Vec<Label>,
}

/// Replays a session under a policy.
pub fn replay(session: &Session, policy: &Policy, options: &ReplayOptions) -> Result<Outcome, EvictionError> {
    if !(0.0..1.0).contains(&options.headroom) {
        return Err(EvictionError::Setting {
            what: "headroom",
            value: options.headroom,
            range: "[0, 1)",
        });
    }
    let budget = match options.budget {
        Budget::Tokens(tokens) => tokens,
        Budget::Share(share) if (0.0..=1.0).contains(&share) => fraction(session.tokens(), share),
        Budget::Share(share) => {
            return Err(EvictionError::Setting {
                what: "budget",
                value: share,
                range: "0 to 1",
            });
        }
    };
    let mut replay = Replay::new(session, policy, options, budget)?;
    for position in 0..session.turns.len() {
        replay.turn(position)?;
    }
    replay.outcome.billed = replay.bill.total;
    replay.outcome.rewritten_tokens = replay.bill.rewritten_tokens;
    Ok(replay.outcome)
}

struct Replay<'a> {
    session: &'a Session,
    policy: &'a Policy,
    options: &'a ReplayOptions,
    budget: u64,
    random: ChaCha8Rng,
    /// Ranking of the scorer; only for [`Policy::Ours`].
    scope: Option<Scope>,
    /// Resident items, maintained for every policy.
    resident: FxHashMap<&'a str, Resident>,
    tokens: u64,
    /// Every item that was added so far, with its counters.
    known: FxHashMap<&'a str, ContextItem>,
    uses: FxHashMap<&'a str, Vec<u64>>,
    inflation: f64,
    /// Resident items in the order of the context, with those that left since the last request.
    order: Vec<(&'a str, u64)>,
    arrivals: u64,
    bill: Bill,
    outcome: Outcome,
}

impl<'a> Replay<'a> {
    fn new(
        session: &'a Session,
        policy: &'a Policy,
        options: &'a ReplayOptions,
        budget: u64,
    ) -> Result<Self, EvictionError> {
        let mut uses: FxHashMap<&str, Vec<u64>> = FxHashMap::default();
        for turn in &session.turns {
            for id in &turn.uses {
                uses.entry(id).or_default().push(turn.turn);
            }
        }
        let scope = policy.weights().cloned().map(Scope::new).transpose()?;
        let prices = options.prices.find(&options.provider)?.clone();
        let policy_seed = if let Policy::Random(seed) = policy {
            *seed
        } else {
            0
        };
        // Give each session its own random stream, independent of its position.
        let name = session.id.bytes().fold(0_u64, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        let mut random = ChaCha8Rng::seed_from_u64(options.seed ^ policy_seed.rotate_left(17));
        random.set_stream(name);
        Ok(Self {
            session,
            policy,
            options,
            budget,
            random,
            scope,
            resident: FxHashMap::default(),
            tokens: 0,
            known: FxHashMap::default(),
            uses,
            inflation: 0.0,
            order: Vec::new(),
            arrivals: 0,
            bill: Bill::new(prices, options.prices.reread_call_tokens),
            outcome: Outcome::default(),
        })
    }

    fn turn(&mut self, position: usize) -> Result<(), EvictionError> {
        let session = self.session;
        let Some(turn) = session.turns.get(position) else {
            return Ok(());
        };
        self.bill_request();
        if let (Some(scope), Some(goal)) = (&mut self.scope, &turn.goal) {
            scope.set_goal(goal);
        }
        if let Some(scope) = &mut self.scope {
            scope.advance(turn.turn);
        }
        let new: FxHashSet<&str> = turn.add.iter().map(|item| item.ctx_id.as_str()).collect();
        for item in &turn.add {
            self.known.insert(&item.ctx_id, item.clone());
            if let Some(scope) = &mut self.scope {
                scope.add(item.clone())?;
            }
            self.enter(&item.ctx_id, turn.turn);
        }
        let (mut used, mut missed) = (false, false);
        for id in &turn.uses {
            let resident_before = self.resident.contains_key(id.as_str());
            let tokens = self.known.get(id.as_str()).map_or(0, |item| item.token_count);
            if !new.contains(id.as_str()) {
                used = true;
                self.outcome.uses += 1;
                self.outcome.use_tokens += tokens;
                if resident_before {
                    self.outcome.hits += 1;
                    self.outcome.hit_tokens += tokens;
                } else {
                    missed = true;
                    self.bill.reread(self.tokens);
                }
            }
            self.use_item(id, turn.turn, resident_before)?;
        }
        self.outcome.answers += u64::from(used);
        self.outcome.answers_preserved += u64::from(used && !missed);
        self.outcome.turns += 1;
        let evicted = self.outcome.evicted;
        let target = self.budget - fraction(self.budget, self.options.headroom);
        match self.policy {
            Policy::None => {}
            Policy::Priced(_) if self.tokens <= self.budget => self.flush_ours(turn.turn, Need::Pays)?,
            _ if self.tokens <= self.budget => {}
            Policy::Ours(_) | Policy::Priced(_) => self.flush_ours(turn.turn, Need::Budget(target))?,
            _ => self.flush_plain(turn.turn, target),
        }
        self.outcome.flushes += u64::from(self.outcome.evicted > evicted);
        self.outcome.over_budget += u64::from(self.tokens > self.budget);
        self.outcome.retained_tokens += self.tokens;
        Ok(())
    }

    /// Charges the request of a turn: the context as it is when the turn begins.
    fn bill_request(&mut self) {
        let resident = &self.resident;
        // An item that left and returned has another place.
        self.order
            .retain(|(id, place)| resident.get(id).is_some_and(|item| item.place == *place));
        let items = self
            .order
            .iter()
            .map(|(id, place)| (*place, resident.get(id).map_or(0, |item| item.tokens)));
        self.bill.request(items.collect());
    }

    fn enter(&mut self, id: &'a str, turn: u64) {
        let Some(item) = self.known.get(id) else { return };
        let resident = Resident {
            place: self.arrivals,
            tokens: item.token_count,
            arrived: turn,
            last_use: turn,
            uses: item.reference_count,
            value: self.inflation + (1.0 + item.reference_count as f64) / item.token_count.max(1) as f64,
            next_use: None,
        };
        if self.resident.insert(id, resident).is_none() {
            self.tokens += item.token_count;
        }
        self.order.push((id, self.arrivals));
        self.arrivals += 1;
    }

    fn use_item(&mut self, id: &'a str, turn: u64, resident_before: bool) -> Result<(), EvictionError> {
        if let Some(item) = self.known.get_mut(id) {
            item.touch(turn);
        }
        if !resident_before {
            self.enter(id, turn);
        }
        if let Some(resident) = self.resident.get_mut(id) {
            resident.last_use = turn;
            resident.uses += u64::from(resident_before);
            resident.value = self.inflation + (1.0 + resident.uses as f64) / resident.tokens.max(1) as f64;
        }
        if let (Some(scope), Some(item)) = (&mut self.scope, self.known.get(id)) {
            if resident_before {
                scope.touch(id, turn)?;
            } else {
                scope.insert(item.clone())?;
            }
        }
        Ok(())
    }

    fn next_use(&self, id: &str, turn: u64) -> Option<u64> {
        let uses = self.uses.get(id)?;
        uses.get(uses.partition_point(|used| *used <= turn)).copied()
    }

    fn leave(&mut self, id: &str) {
        if let Some(resident) = self.resident.remove(id) {
            self.tokens -= resident.tokens;
            self.inflation = self.inflation.max(resident.value);
            self.outcome.evicted += 1;
        }
    }

    fn flush_plain(&mut self, turn: u64, target: u64) {
        let mut ids: Vec<&str> = self.resident.keys().copied().collect();
        ids.sort_unstable();
        let mut ranked: Vec<(f64, &str)> = Vec::with_capacity(ids.len());
        for id in ids {
            if self.known.get(id).is_some_and(|item| item.pinned) {
                continue;
            }
            if let Some(resident) = self.resident.get(id) {
                let next_use = if self.policy.is_clairvoyant() {
                    self.next_use(id, turn)
                } else {
                    None
                };
                let known = Resident {
                    next_use,
                    ..*resident
                };
                ranked.push((self.policy.rank(&known, turn, &mut self.random), id));
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, id) in ranked {
            if self.tokens <= target {
                break;
            }
            self.leave(id);
        }
    }

    fn flush_ours(&mut self, turn: u64, need: Need) -> Result<(), EvictionError> {
        let Some(mut scope) = self.scope.take() else {
            return Ok(());
        };
        let request = ProposeRequest {
            proposal_id: format!("{}/{turn}", self.session.id),
            scope_id: self.session.id.clone(),
            need,
            proposed_at: Timestamp::UNIX_EPOCH,
            timeout_ms: 0,
            exploration: self.options.exploration,
            seed: self.random.next_u64(),
            pricing: self.pricing(turn)?,
        };
        let proposal = propose(&scope, &request)?;
        for candidate in &proposal.candidates {
            scope.hold(&candidate.ctx_id, true)?;
        }
        let mut exclude = Vec::new();
        for candidate in &proposal.candidates {
            if self.excludes(candidate, turn) {
                exclude.push(Exclude {
                    ctx_id: candidate.ctx_id.clone(),
                    exclude_reason: None,
                });
            }
        }
        let resolution = Resolution {
            resolved_by: if exclude.is_empty() {
                ResolvedBy::AutoAccepted
            } else {
                ResolvedBy::Llm
            },
            exclude,
            resolved_at: Timestamp::UNIX_EPOCH,
            quota: QUOTA,
        };
        let feedback = resolve(&scope, &proposal, &resolution)?;
        apply_resolution(&mut scope, &proposal, &feedback);
        if self.options.agent.is_some() {
            self.outcome.labels.extend(labels(&proposal, &feedback));
        }
        let second = feedback.second_pass.iter().map(|item| &item.ctx_id);
        for id in feedback.evicted.iter().chain(second) {
            self.leave(id);
        }
        self.scope = Some(scope);
        Ok(())
    }

    /// Prices for policies that consider them.
    fn pricing(&self, turn: u64) -> Result<Option<Pricing>, EvictionError> {
        if !matches!(self.policy, Policy::Priced(_)) {
            return Ok(None);
        }
        let session = SessionState {
            turn,
            window_tokens: Some(self.budget),
            ..SessionState::default()
        };
        let options = self.options;
        Ok(Some(options.prices.pricing(&options.provider, &session)?))
    }

    fn excludes(&mut self, candidate: &EvictionCandidate, turn: u64) -> bool {
        let options = self.options;
        let Some(agent) = &options.agent else {
            return false;
        };
        let drawn = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        match agent {
            Agent::Foresight {
                horizon,
                recall,
                false_positive,
            } => {
                let soon = self
                    .next_use(&candidate.ctx_id, turn)
                    .is_some_and(|next| next <= turn + horizon);
                drawn < if soon { *recall } else { *false_positive }
            }
            Agent::Taste { weights, error } => {
                let features = Features {
                    zone: candidate.zone.clone(),
                    kind: candidate.kind.clone(),
                    values: candidate.features,
                };
                let likes = score(weights, &features, 1.0, candidate.token_count).relevance_score > 0.5;
                likes != (drawn < *error)
            }
            Agent::Noise { rate } => drawn < *rate,
        }
    }
}

fn fraction(whole: u64, share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share from 0 to 1 of a number of tokens"
    )]
    let fraction = (whole as f64 * share).round() as u64;
    fraction
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
