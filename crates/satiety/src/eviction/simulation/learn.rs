//! Collects training labels: replays sessions with a simulated agent that excludes items, and gathers its
//! answers.

use jiff::Timestamp;
use rustc_hash::FxHashMap;

use super::super::error::EvictionError;
use super::super::resolve::Label;
use super::super::scope::Scope;
use super::super::weights::Weights;
use super::policy::Policy;
use super::replay::{ReplayOptions, replay};
use super::trace::Session;

/// Settings for gathering labels.
#[derive(Debug, Clone, PartialEq)]
pub struct LearningSettings {
    /// Settings of the replay: budget, agent and exploration.
    pub replay: ReplayOptions,
    /// Maximum number of proposals; unlimited if absent.
    pub proposals: Option<usize>,
}

/// Replays sessions in order and gathers labels until the maximum number of proposals is reached.
pub fn gather(
    sessions: &[Session],
    weights: &Weights,
    settings: &LearningSettings,
) -> Result<Vec<Label>, EvictionError> {
    let policy = Policy::Ours(Box::new(weights.clone()));
    let mut labels: Vec<Label> = Vec::new();
    let mut proposals = 0;
    for session in sessions {
        for label in replay(session, &policy, &settings.replay)?.labels {
            if labels
                .last()
                .is_none_or(|last| last.proposal_id != label.proposal_id)
            {
                if settings.proposals == Some(proposals) {
                    return Ok(labels);
                }
                proposals += 1;
            }
            labels.push(label);
        }
    }
    Ok(labels)
}

/// Labels every item of a session in every `every`-th turn by what happened: whether a later turn used it. Nothing
/// is evicted, so the labels do not depend on a policy. Pinned items and items of the same turn have none.
pub fn observed_needs(
    sessions: &[Session],
    weights: &Weights,
    every: u64,
) -> Result<Vec<Label>, EvictionError> {
    let mut labels = Vec::new();
    for session in sessions {
        let mut last_use: FxHashMap<&str, u64> = FxHashMap::default();
        for turn in &session.turns {
            for id in &turn.uses {
                last_use.insert(id, turn.turn);
            }
        }
        let last_turn = session.turns.last().map_or(0, |turn| turn.turn);
        let mut scope = Scope::new(weights.clone())?;
        for turn in &session.turns {
            if let Some(goal) = &turn.goal {
                scope.set_goal(goal);
            }
            scope.advance(turn.turn);
            for item in &turn.add {
                scope.add(item.clone())?;
            }
            for id in &turn.uses {
                scope.touch(id, turn.turn)?;
            }
            if turn.turn % every.max(1) != 0 || turn.turn == last_turn {
                continue;
            }
            for item in scope.items() {
                if item.pinned || item.created_turn == turn.turn {
                    continue;
                }
                let (Some(score), Some(features)) = (scope.score(&item.ctx_id), scope.features(&item.ctx_id))
                else {
                    continue;
                };
                labels.push(Label {
                    proposal_id: format!("{}/{}", session.id, turn.turn),
                    scope_id: session.id.clone(),
                    ctx_id: item.ctx_id.clone(),
                    zone: features.zone,
                    kind: features.kind,
                    age_turns: scope.age(item),
                    token_count: item.token_count,
                    relevance_score: score.relevance_score,
                    propensity: 1.0,
                    features: features.values,
                    kept_back: last_use
                        .get(item.ctx_id.as_str())
                        .is_some_and(|last| *last > turn.turn),
                    exclude_reason: None,
                    resolved_at: Timestamp::UNIX_EPOCH,
                });
            }
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::super::generate::{GeneratorSettings, generate};
    use super::super::replay::{Agent, Budget};
    use super::*;

    #[test]
    fn the_number_of_proposals_is_limited() {
        let sessions = generate(&GeneratorSettings {
            sessions: 3,
            turns: 80,
            ..GeneratorSettings::default()
        })
        .unwrap();
        let replay = ReplayOptions {
            budget: Budget::Tokens(8_000),
            agent: Some(Agent::Noise { rate: 0.2 }),
            ..ReplayOptions::default()
        };
        let count = |proposals| {
            let settings = LearningSettings {
                replay: replay.clone(),
                proposals,
            };
            let labels = gather(&sessions, &Weights::heuristic(), &settings).unwrap();
            let ids: std::collections::BTreeSet<&str> =
                labels.iter().map(|label| label.proposal_id.as_str()).collect();
            ids.len()
        };
        assert_eq!(count(Some(7)), 7);
        assert!(count(None) > 20);
    }
}
