//! What an agent's answers teach: sessions are replayed with an agent that keeps items back, and its answers are gathered
//! as labels.

use super::super::error::EvictionError;
use super::super::resolve::Label;
use super::super::weights::Weights;
use super::policy::Policy;
use super::replay::{ReplayOptions, replay};
use super::trace::Session;

/// How labels are gathered.
#[derive(Debug, Clone, PartialEq)]
pub struct LearningSettings {
    /// Budget, agent and exploration.
    pub replay: ReplayOptions,
    /// At most so many proposals; all where absent.
    pub proposals: Option<usize>,
}

/// Replays sessions one after the other and gathers labels until there are enough proposals.
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

#[cfg(test)]
mod tests {
    use super::super::generate::{GeneratorSettings, generate};
    use super::super::replay::{Agent, Budget};
    use super::*;

    #[test]
    fn as_many_proposals_as_asked_for() {
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
