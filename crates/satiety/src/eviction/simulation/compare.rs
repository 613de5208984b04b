//! Policies side by side on the same sessions. A session is one observation: figures are means over sessions, and
//! differences are paired by session, with bootstrap intervals.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::EvictionError;
use super::policy::Policy;
use super::replay::{Outcome, ReplayOptions, replay};
use super::trace::Session;
use crate::stats::{BootstrapEstimate, BootstrapSettings, bootstrap_paired_mean, mean};

/// How to compare.
#[derive(Debug, Clone)]
pub struct SimulationSettings {
    /// Budget and the rest.
    pub replay: ReplayOptions,
    /// The intervals.
    pub bootstrap: BootstrapSettings,
    /// Those with which each policy is compared.
    pub against: Vec<Policy>,
}

/// What came out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Simulation {
    /// Sessions.
    pub sessions: usize,
    /// Turns of all sessions.
    pub turns: u64,
    /// Uses of all sessions.
    pub uses: u64,
    /// Each policy, in the order given.
    pub policies: Vec<PolicyReport>,
}

/// One policy.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PolicyReport {
    /// Its name.
    pub policy: String,
    /// Uses that found their item in the context.
    pub hit_rate: f64,
    /// The same, by tokens.
    pub token_hit_rate: f64,
    /// Turns for which everything that they used was there.
    pub answers_preserved: f64,
    /// Mean tokens in the context at the end of a turn.
    pub tokens_retained: f64,
    /// Tokens that had to be read again, for each thousand turns.
    pub reread_tokens_per_1000_turns: f64,
    /// Flushes for each thousand turns: each one makes a provider's prompt cache worthless.
    pub flushes_per_1000_turns: f64,
    /// The hit rate as a share of the better of Belady's two; absent where they were not run.
    pub share_of_bound: Option<f64>,
    /// How much of the hit rate is missing to the better of Belady's two.
    pub regret: Option<f64>,
    /// Turns that ended above the budget, because of pins.
    pub over_budget: u64,
    /// Beside others, in hit rate.
    pub against: Vec<Comparison>,
    /// Hit rates by session, in the order of the sessions.
    #[serde(skip)]
    pub by_session: Vec<f64>,
}

/// A difference of hit rates.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Comparison {
    /// Beside whom.
    pub policy: String,
    /// This one's hit rate minus the other's, with its interval.
    #[serde(flatten)]
    pub difference: BootstrapEstimate,
}

/// Replays every session under every policy.
pub fn simulate(
    sessions: &[Session],
    policies: &[Policy],
    settings: &SimulationSettings,
) -> Result<Simulation, EvictionError> {
    let run = |policy: &Policy| -> Result<Vec<Outcome>, EvictionError> {
        sessions
            .iter()
            .map(|session| replay(session, policy, &settings.replay))
            .collect()
    };
    let mut outcomes: Vec<Vec<Outcome>> = Vec::new();
    for policy in policies {
        outcomes.push(run(policy)?);
    }
    let rates =
        |outcomes: &[Outcome]| -> Vec<f64> { outcomes.iter().map(|o| share(o.hits, o.uses)).collect() };
    let bounds: Vec<Vec<f64>> = policies
        .iter()
        .zip(&outcomes)
        .filter(|(policy, _)| policy.is_clairvoyant())
        .map(|(_, outcomes)| rates(outcomes))
        .collect();
    // Neither of the two is always the better one with items of many sizes.
    let bound: Option<Vec<f64>> = bounds
        .into_iter()
        .reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a.max(*b)).collect());
    let mut reports = Vec::new();
    for (policy, found) in policies.iter().zip(&outcomes) {
        let by_session = rates(found);
        let mut against = Vec::new();
        for other in settings.against.iter().filter(|other| *other != policy) {
            let theirs = match policies.iter().position(|policy| policy == other) {
                Some(position) => rates(&outcomes[position]),
                None => rates(&run(other)?),
            };
            if by_session.len() >= 2 {
                against.push(Comparison {
                    policy: other.name(),
                    difference: bootstrap_paired_mean(&by_session, &theirs, &settings.bootstrap)?,
                });
            }
        }
        let limit = bound.as_ref().map(|bound| mean(bound)).transpose()?;
        let hit_rate = mean(&by_session)?;
        reports.push(PolicyReport {
            policy: policy.name(),
            hit_rate,
            token_hit_rate: over(found, |o| share(o.hit_tokens, o.use_tokens))?,
            answers_preserved: over(found, |o| share(o.answers_preserved, o.answers))?,
            tokens_retained: over(found, |o| o.retained_tokens as f64 / o.turns.max(1) as f64)?,
            reread_tokens_per_1000_turns: over(found, |o| {
                (o.use_tokens - o.hit_tokens) as f64 * 1000.0 / o.turns.max(1) as f64
            })?,
            flushes_per_1000_turns: over(found, |o| o.flushes as f64 * 1000.0 / o.turns.max(1) as f64)?,
            share_of_bound: limit.filter(|limit| *limit > 0.0).map(|limit| hit_rate / limit),
            regret: limit.map(|limit| limit - hit_rate),
            over_budget: found.iter().map(|o| o.over_budget).sum(),
            against,
            by_session,
        });
    }
    let first = outcomes.first();
    let total = |of: fn(&Outcome) -> u64| first.map_or(0, |outcomes| outcomes.iter().map(of).sum());
    Ok(Simulation {
        sessions: sessions.len(),
        turns: total(|o| o.turns),
        uses: total(|o| o.uses),
        policies: reports,
    })
}

fn over(outcomes: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> Result<f64, EvictionError> {
    Ok(mean(&outcomes.iter().map(figure).collect::<Vec<_>>())?)
}

/// Nothing used is nothing missed.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        1.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::generate::{GeneratorSettings, generate};
    use super::*;

    #[test]
    fn the_heuristic_beats_lru_and_nobody_beats_the_bound() {
        let sessions = generate(&GeneratorSettings {
            sessions: 8,
            turns: 120,
            seed: 5,
            ..GeneratorSettings::default()
        })
        .unwrap();
        let mut policies: Vec<Policy> = vec!["heuristic".parse().unwrap()];
        policies.extend(Policy::plain());
        let settings = SimulationSettings {
            replay: ReplayOptions {
                budget: super::super::Budget::Share(0.2),
                ..ReplayOptions::default()
            },
            bootstrap: BootstrapSettings::default(),
            against: vec![Policy::Lru, Policy::GreedyDual],
        };
        let found = simulate(&sessions, &policies, &settings).unwrap();
        let ours = &found.policies[0];
        let lru = &ours.against[0];
        assert_eq!(lru.policy, "lru");
        assert!(lru.difference.interval.low > 0.0, "{lru:?}");
        for report in &found.policies {
            assert!(report.regret.unwrap() >= -1e-12, "{}", report.policy);
            assert!((0.0..=1.0).contains(&report.hit_rate) && report.over_budget == 0);
        }
        assert_eq!(found.sessions, 8);
    }
}
