//! Compares policies on the same sessions. A session is one observation: metrics are means over sessions, and
//! differences are paired by session, with bootstrap intervals.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::EvictionError;
use super::policy::Policy;
use super::replay::{Outcome, ReplayOptions, replay};
use super::trace::Session;
use crate::stats::{BootstrapEstimate, BootstrapSettings, bootstrap_paired_mean, mean};

/// Settings of a policy comparison.
#[derive(Debug, Clone)]
pub struct SimulationSettings {
    /// Settings of the replay, including the budget.
    pub replay: ReplayOptions,
    /// Settings of the bootstrap intervals.
    pub bootstrap: BootstrapSettings,
    /// Policies with which each policy is compared.
    pub against: Vec<Policy>,
}

/// Result of a simulation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Simulation {
    /// Number of sessions that were replayed.
    pub sessions: usize,
    /// Number of turns in all sessions.
    pub turns: u64,
    /// Number of uses in all sessions.
    pub uses: u64,
    /// Results of each policy, in the order given.
    pub policies: Vec<PolicyReport>,
}

/// Results of one policy, as means over sessions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PolicyReport {
    /// Name of the policy.
    pub policy: String,
    /// Share of uses whose item was in the context.
    pub hit_rate: f64,
    /// Share of used tokens that were in the context.
    pub token_hit_rate: f64,
    /// Share of turns for which every used item was in the context.
    pub answers_preserved: f64,
    /// Mean number of tokens in the context at the end of a turn.
    pub tokens_retained: f64,
    /// Number of tokens read again per 1000 turns.
    pub reread_tokens_per_1000_turns: f64,
    /// Number of uses whose item had to be read again, per session.
    pub rereads: f64,
    /// Price of all requests of a session, in tokens at the price of an uncached input token.
    pub billed_tokens: f64,
    /// Number of flushes per 1000 turns; each flush invalidates a provider's prompt cache.
    pub flushes_per_1000_turns: f64,
    /// Hit rate as a share of the better of Belady's two policies; absent if neither was run.
    pub share_of_bound: Option<f64>,
    /// Difference between the better of Belady's two hit rates and this one; absent if neither was run.
    pub regret: Option<f64>,
    /// Number of turns that ended above the budget because of pins.
    pub over_budget: u64,
    /// Differences in hit rate from other policies.
    pub against: Vec<Comparison>,
    /// Hit rate of each session, in the order of the sessions.
    #[serde(skip)]
    pub by_session: Vec<f64>,
    /// Price of each session, in the order of the sessions.
    #[serde(skip)]
    pub billed_by_session: Vec<f64>,
}

/// Difference in hit rate between two policies.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "PolicyComparison")]
pub struct Comparison {
    /// Name of the other policy.
    pub policy: String,
    /// Hit rate of this policy minus that of the other, with its interval.
    #[serde(flatten)]
    pub difference: BootstrapEstimate,
}

/// Replays every session under every policy and compares the results.
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
        |outcomes: &[Outcome]| -> Vec<f64> { outcomes.iter().map(|o| ratio(o.hits, o.uses)).collect() };
    let bounds: Vec<Vec<f64>> = policies
        .iter()
        .zip(&outcomes)
        .filter(|(policy, _)| policy.is_clairvoyant())
        .map(|(_, outcomes)| rates(outcomes))
        .collect();
    // With items of different sizes, either of Belady's two may be the better one.
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
            token_hit_rate: mean_over_sessions(found, |o| ratio(o.hit_tokens, o.use_tokens))?,
            answers_preserved: mean_over_sessions(found, |o| ratio(o.answers_preserved, o.answers))?,
            tokens_retained: mean_over_sessions(found, |o| o.retained_tokens as f64 / o.turns.max(1) as f64)?,
            reread_tokens_per_1000_turns: mean_over_sessions(found, |o| {
                (o.use_tokens - o.hit_tokens) as f64 * 1000.0 / o.turns.max(1) as f64
            })?,
            rereads: mean_over_sessions(found, |o| (o.uses - o.hits) as f64)?,
            billed_tokens: mean_over_sessions(found, |o| o.billed)?,
            billed_by_session: found.iter().map(|o| o.billed).collect(),
            flushes_per_1000_turns: mean_over_sessions(found, |o| {
                o.flushes as f64 * 1000.0 / o.turns.max(1) as f64
            })?,
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

fn mean_over_sessions(outcomes: &[Outcome], metric: impl Fn(&Outcome) -> f64) -> Result<f64, EvictionError> {
    Ok(mean(&outcomes.iter().map(metric).collect::<Vec<_>>())?)
}

/// Returns `part / whole`; 1 if `whole` is 0, because nothing used is nothing missed.
fn ratio(part: u64, whole: u64) -> f64 {
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
    fn the_heuristic_beats_lru_and_no_policy_beats_the_bound() {
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
