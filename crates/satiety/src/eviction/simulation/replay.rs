//! One session under one policy: each turn brings items, uses some, and when the context is over its budget at the end of
//! the turn, items go until it is a bit below. A use of something that went is a miss: it is read again and comes back,
//! with its history.

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::features::Features;
use super::super::item::ContextItem;
use super::super::propose::{EvictionCandidate, Need, ProposeRequest, propose};
use super::super::resolve::{Exclude, Label, QUOTA, Resolution, ResolvedBy, labels, resolve, settle};
use super::super::scope::Scope;
use super::super::score::score;
use super::super::weights::Weights;
use super::policy::{Policy, Resident};
use super::trace::Session;

/// How big the context is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// So many tokens.
    Tokens(u64),
    /// This share of all tokens of the session.
    Share(f64),
}

/// How a replay goes.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// How big the context is.
    pub budget: Budget,
    /// The share of the budget that a flush leaves free, so that not every turn flushes.
    pub headroom: f64,
    /// Who answers proposals, for policies that make some; nobody keeps anything back where absent.
    pub agent: Option<Agent>,
    /// How many items are proposed only to learn about them, as a share of those that must go.
    pub exploration: f64,
    /// Seed of the agent, of exploration and of chance.
    pub seed: u64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            budget: Budget::Tokens(24_000),
            headroom: 0.1,
            agent: None,
            exploration: 0.0,
            seed: 1,
        }
    }
}

/// A simulated agent that keeps items back.
#[derive(Debug, Clone, PartialEq)]
pub enum Agent {
    /// Knows what it will use soon, with errors.
    Foresight {
        /// How many turns ahead.
        horizon: u64,
        /// The probability of keeping back what it will use.
        recall: f64,
        /// The probability of keeping back what it will not.
        false_positive: f64,
    },
    /// Keeps back by a taste of its own: what scores above one half by these weights, and errs at the rate given.
    Taste {
        /// What it values.
        weights: Box<Weights>,
        /// How often it errs.
        error: f64,
    },
    /// Keeps back at random: nothing can be learned from it.
    Noise {
        /// The probability.
        rate: f64,
    },
}

/// What happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Uses of items that had come in an earlier turn.
    pub uses: u64,
    /// Those of items that were there.
    pub hits: u64,
    /// Tokens of the uses.
    pub use_tokens: u64,
    /// Tokens of the hits.
    pub hit_tokens: u64,
    /// Turns that used something.
    pub answers: u64,
    /// Those for which everything was there.
    pub answers_preserved: u64,
    /// Times that items had to go.
    pub flushes: u64,
    /// Items that went.
    pub evicted: u64,
    /// Turns.
    pub turns: u64,
    /// Sum over turns of the tokens in the context at the end of the turn.
    pub retained_tokens: u64,
    /// Turns that ended above the budget, because of pins.
    pub over_budget: u64,
    /// What the agent's answers taught.
    pub labels: Vec<Label>,
}

/// Replays a session.
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
        Budget::Share(share) if (0.0..=1.0).contains(&share) => part(session.tokens(), share),
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
    Ok(replay.outcome)
}

struct Replay<'a> {
    session: &'a Session,
    policy: &'a Policy,
    options: &'a ReplayOptions,
    budget: u64,
    random: ChaCha8Rng,
    /// Our scorer's view.
    scope: Option<Scope>,
    /// Everyone's view: resident items.
    resident: FxHashMap<&'a str, Resident>,
    tokens: u64,
    /// Everything that ever came, with its counters.
    known: FxHashMap<&'a str, ContextItem>,
    uses: FxHashMap<&'a str, Vec<u64>>,
    inflation: f64,
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
        let scope = match policy {
            Policy::Ours(weights) => Some(Scope::new(weights.as_ref().clone())?),
            _ => None,
        };
        let chance = if let Policy::Random(seed) = policy {
            *seed
        } else {
            0
        };
        // Sessions differ in their chance, whatever their order.
        let name = session.id.bytes().fold(0_u64, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        let mut random = ChaCha8Rng::seed_from_u64(options.seed ^ chance.rotate_left(17));
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
            outcome: Outcome::default(),
        })
    }

    fn turn(&mut self, position: usize) -> Result<(), EvictionError> {
        let session = self.session;
        let Some(turn) = session.turns.get(position) else {
            return Ok(());
        };
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
            let there = self.resident.contains_key(id.as_str());
            let tokens = self.known.get(id.as_str()).map_or(0, |item| item.token_count);
            if !new.contains(id.as_str()) {
                used = true;
                self.outcome.uses += 1;
                self.outcome.use_tokens += tokens;
                if there {
                    self.outcome.hits += 1;
                    self.outcome.hit_tokens += tokens;
                } else {
                    missed = true;
                }
            }
            self.use_item(id, turn.turn, there)?;
        }
        self.outcome.answers += u64::from(used);
        self.outcome.answers_preserved += u64::from(used && !missed);
        self.outcome.turns += 1;
        if self.tokens > self.budget {
            self.outcome.flushes += 1;
            let target = self.budget - part(self.budget, self.options.headroom);
            if self.scope.is_some() {
                self.flush_ours(turn.turn, target)?;
            } else {
                self.flush_plain(turn.turn, target);
            }
        }
        self.outcome.over_budget += u64::from(self.tokens > self.budget);
        self.outcome.retained_tokens += self.tokens;
        Ok(())
    }

    fn enter(&mut self, id: &'a str, turn: u64) {
        let Some(item) = self.known.get(id) else { return };
        let resident = Resident {
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
    }

    fn use_item(&mut self, id: &'a str, turn: u64, there: bool) -> Result<(), EvictionError> {
        if let Some(item) = self.known.get_mut(id) {
            item.touch(turn);
        }
        if !there {
            self.enter(id, turn);
        }
        if let Some(resident) = self.resident.get_mut(id) {
            resident.last_use = turn;
            resident.uses += u64::from(there);
            resident.value = self.inflation + (1.0 + resident.uses as f64) / resident.tokens.max(1) as f64;
        }
        if let (Some(scope), Some(item)) = (&mut self.scope, self.known.get(id)) {
            if there {
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

    fn flush_ours(&mut self, turn: u64, target: u64) -> Result<(), EvictionError> {
        let Some(mut scope) = self.scope.take() else {
            return Ok(());
        };
        let request = ProposeRequest {
            proposal_id: format!("{}/{turn}", self.session.id),
            scope_id: self.session.id.clone(),
            need: Need::Budget(target),
            proposed_at: Timestamp::UNIX_EPOCH,
            timeout_ms: 0,
            exploration: self.options.exploration,
            seed: self.random.next_u64(),
        };
        let proposal = propose(&scope, &request)?;
        for candidate in &proposal.candidates {
            scope.hold(&candidate.ctx_id, true)?;
        }
        let mut exclude = Vec::new();
        for candidate in &proposal.candidates {
            if self.keeps_back(candidate, turn) {
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
        settle(&mut scope, &proposal, &feedback);
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

    fn keeps_back(&mut self, candidate: &EvictionCandidate, turn: u64) -> bool {
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

fn part(whole: u64, share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share from 0 to 1 of a number of tokens"
    )]
    let part = (whole as f64 * share).round() as u64;
    part
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
