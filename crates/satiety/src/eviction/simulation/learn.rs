//! Collects training labels: replays sessions with a simulated agent that excludes items, and gathers its
//! answers.

use super::super::error::EvictionError;
use super::super::resolve::Label;
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
