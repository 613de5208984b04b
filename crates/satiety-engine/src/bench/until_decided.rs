//! Runs a suite in rounds until the gate decides: after each round of repeats the run is compared with the
//! baseline, cases that seem to be broken are repeated alone, and the budget ends what cannot be decided.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use satiety::Hint;
use satiety::bench::{
    BenchmarkCase, BenchmarkResult, BenchmarkRun, BenchmarkSuite, GatePolicy, GateReport, GateVerdict,
    SequentialDesign, SequentialGate, estimate_noise, leading, summarize,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::executor::Job;
use super::run::RunBenchRequest;
use crate::EngineError;

/// Variant of the baseline's target, when it is repeated beside the candidate.
pub(super) const BASELINE_VARIANT: &str = "baseline";
/// Number of repeats of a suspected case between two looks.
const SUSPECT_REPEATS: u32 = 5;
/// Probability of a verdict below which a larger baseline is advised.
const WANTED_PROBABILITY: f64 = 0.95;

/// Limits of a run that is repeated until the gate decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UntilDecided {
    /// Largest number of repeats, as a multiple of those that the suite or the request specifies.
    #[schemars(range(min = 1, max = 100))]
    pub times: u32,
    /// Target of the baseline, to be repeated beside the candidate; absent if only recorded results are used. Remote
    /// callers cannot name targets.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    pub baseline_target: Option<String>,
    /// Largest number of calls of targets.
    pub max_calls: Option<u64>,
    /// Largest number of tokens that targets report.
    pub max_tokens: Option<u64>,
    /// Largest cost in US dollars that targets report.
    pub max_cost_usd: Option<f64>,
}

impl Default for UntilDecided {
    fn default() -> Self {
        Self {
            times: 4,
            baseline_target: None,
            max_calls: None,
            max_tokens: None,
            max_cost_usd: None,
        }
    }
}

/// Budget of a run that is repeated until the gate decides, stated before the first call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RunBudget")]
pub struct Budget {
    /// Number of calls of the design without further repeats.
    pub planned_calls: u64,
    /// Largest number of calls.
    pub max_calls: u64,
    /// Tokens of that many calls, estimated from the baseline or as limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Cost of that many calls in US dollars, estimated from the baseline or as limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Probability that an unchanged system passes within the budget.
    pub pass_probability: f64,
    /// Budget as a human-readable sentence.
    pub text: String,
}

/// Plan of a run in rounds.
#[derive(Debug)]
pub(super) struct Rounds {
    gate: SequentialGate,
    count: u32,
    /// Planned repeats of each case, in the order of the suite.
    planned: Vec<u32>,
    /// Largest number of repeats of each case in complete rounds.
    most: Vec<u32>,
    case_ids: Vec<String>,
    /// Number of recorded repeats from which on the baseline is repeated; `None` if it is not.
    baseline_from: Option<u32>,
    limits: UntilDecided,
    pub(super) budget: Budget,
}

impl Rounds {
    pub(super) fn new(
        request: &RunBenchRequest,
        limits: &UntilDecided,
        suite: &BenchmarkSuite,
        baseline: &BenchmarkRun,
        policy: GatePolicy,
    ) -> Result<Self, EngineError> {
        check(limits, request)?;
        let repeats = |case: &BenchmarkCase| request.repeats.unwrap_or_else(|| suite.repeats_of(case)).max(1);
        let planned: Vec<u32> = suite.cases.iter().map(repeats).collect();
        let times = limits.times.max(1);
        let most: Vec<u32> = suite
            .cases
            .iter()
            .zip(&planned)
            .map(|(case, &repeats)| {
                if suite.is_deterministic(case) {
                    repeats
                } else {
                    repeats.saturating_mul(times)
                }
            })
            .collect();
        let recorded = leading(&baseline.results);
        let cases: HashSet<&str> = recorded.iter().map(|result| result.case_id.as_str()).collect();
        let decided = recorded.iter().filter(|result| result.passed().is_some()).count();
        let baseline_repeats = decided as f64 / cases.len().max(1) as f64;
        if decided == 0 {
            return Err(EngineError::Invalid {
                message: format!("the baseline {} has no decided result", baseline.run_id),
                hint: Hint::with_command(
                    "run the suite and accept a run with results",
                    "satiety bench baseline RUN --reason TEXT",
                ),
            });
        }
        let both = limits.baseline_target.is_some();
        let sides: u64 = if both { 2 } else { 1 };
        let planned_calls: u64 = planned.iter().copied().map(u64::from).sum();
        let all_calls: u64 = most.iter().copied().map(u64::from).sum::<u64>() * sides;
        let max_calls = limits.max_calls.map_or(all_calls, |limit| limit.min(all_calls));
        if max_calls < suite.cases.len() as u64 {
            return Err(EngineError::Invalid {
                message: format!(
                    "a budget of {max_calls} calls is too small for a round of {} cases",
                    suite.cases.len()
                ),
                hint: "raise the budget, or select cases".into(),
            });
        }
        let rounds = rounds_within(&most, sides, max_calls);
        let design = SequentialDesign {
            baseline_repeats,
            rounds,
            repeats_baseline: both,
        };
        let noise = estimate_noise(&summarize(recorded.iter().copied()).per_case).unwrap_or(0.25);
        let pass_probability = design.pass_probability(suite.cases.len() as u64, noise, &policy);
        let needed = SequentialDesign::baseline_repeats_needed(
            suite.cases.len() as u64,
            times,
            noise,
            WANTED_PROBABILITY,
            &policy,
        );
        let mean = |value: &dyn Fn(&BenchmarkResult) -> f64| {
            recorded.iter().map(|result| value(result)).sum::<f64>() / recorded.len() as f64
        };
        let tokens = mean(&|result| result.token_cost as f64) * max_calls as f64;
        let cost = mean(&|result| result.cost_usd.unwrap_or(0.0)) * max_calls as f64;
        let mut budget = Budget {
            planned_calls,
            max_calls,
            max_tokens: limits.max_tokens.or(whole(tokens)),
            max_cost_usd: limits.max_cost_usd.or((cost > 0.0).then_some(cost)),
            pass_probability,
            text: String::new(),
        };
        budget.text = budget.describe(&design, needed);
        let gate = SequentialGate::new(design, policy).map_err(EngineError::Figures)?;
        let most_recorded = recorded.iter().map(|result| result.repeat + 1).max().unwrap_or(0);
        Ok(Self {
            gate,
            count: rounds,
            planned,
            most,
            case_ids: suite.cases.iter().map(|case| case.case_id.clone()).collect(),
            baseline_from: both.then_some(most_recorded),
            limits: limits.clone(),
            budget,
        })
    }

    /// Number of rounds, at most.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Jobs of a round, from 1.
    pub(super) fn jobs(&self, round: u32) -> Vec<Job> {
        let repeat = round - 1;
        let mut jobs = Vec::new();
        for case in (0..self.most.len()).filter(|&case| repeat < self.most[case]) {
            jobs.push(Job {
                case,
                variant: 0,
                repeat,
            });
            if self.baseline_from.is_some_and(|from| repeat >= from) && self.planned[case] < self.most[case] {
                jobs.push(Job {
                    case,
                    variant: 1,
                    repeat,
                });
            }
        }
        jobs
    }

    /// Jobs that repeat suspected cases.
    pub(super) fn suspect_jobs(&self, suspects: &[String], results: &[BenchmarkResult]) -> Vec<Job> {
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for result in results.iter().filter(|result| !is_of_baseline(result)) {
            let next = seen.entry(result.case_id.as_str()).or_default();
            *next = (*next).max(result.repeat + 1);
        }
        let mut jobs = Vec::new();
        for suspect in suspects {
            let Some(case) = self.case_ids.iter().position(|id| id == suspect) else {
                continue;
            };
            let from = seen.get(suspect.as_str()).copied().unwrap_or(0);
            let until = (from + SUSPECT_REPEATS).min(self.gate.case_tries());
            jobs.extend((from..until).map(|repeat| Job {
                case,
                variant: 0,
                repeat,
            }));
        }
        jobs
    }

    /// Why more calls would exceed the budget, if they would.
    pub(super) fn exceeded(&self, results: &[BenchmarkResult], more: usize) -> Option<String> {
        let (calls, more) = (results.len() as u64, more as u64);
        if calls + more > self.budget.max_calls {
            return Some(format!(
                "the budget of {} calls is used up: {calls} were made",
                self.budget.max_calls
            ));
        }
        let share = 1.0 + more as f64 / calls.max(1) as f64;
        let tokens: u64 = results.iter().map(|result| result.token_cost).sum();
        if let Some(limit) = self.limits.max_tokens
            && tokens as f64 * share > limit as f64
        {
            return Some(format!(
                "the budget of {limit} tokens is used up: {tokens} were used by {calls} calls"
            ));
        }
        let cost: f64 = results.iter().filter_map(|result| result.cost_usd).sum();
        if let Some(limit) = self.limits.max_cost_usd
            && cost * share > limit
        {
            return Some(format!(
                "the budget of ${limit} is used up: ${cost:.2} were spent on {calls} calls"
            ));
        }
        None
    }

    /// Asks the gate after a complete round. Returns the report and the cases to repeat.
    pub(super) fn look(
        &self,
        baseline: &BenchmarkRun,
        candidate: &BenchmarkRun,
        round: u32,
    ) -> Result<(GateReport, Vec<String>), EngineError> {
        let (repeated, own): (Vec<_>, Vec<_>) = candidate.results.iter().cloned().partition(is_of_baseline);
        let candidate = BenchmarkRun {
            results: own,
            ..candidate.clone()
        };
        let lead = leading(&baseline.results)
            .first()
            .and_then(|result| result.variant.clone());
        let mut baseline = baseline.clone();
        baseline.results.extend(repeated.into_iter().map(|mut result| {
            result.variant.clone_from(&lead);
            result
        }));
        let found = self
            .gate
            .look(&baseline, &candidate, round)
            .map_err(EngineError::Figures)?;
        let open = found.report.verdict == GateVerdict::Inconclusive;
        Ok((found.report, if open { found.suspects } else { Vec::new() }))
    }
}

impl Budget {
    fn describe(&self, design: &SequentialDesign, needed: u32) -> String {
        // Writing to a string cannot fail.
        let mut text = format!(
            "up to {} calls ({} rounds; the planned run has {})",
            self.max_calls, design.rounds, self.planned_calls
        );
        if let Some(tokens) = self.max_tokens {
            let _ = write!(text, ", {tokens} tokens");
        }
        if let Some(cost) = self.max_cost_usd {
            let _ = write!(text, ", ${cost:.2}");
        }
        let _ = write!(
            text,
            "; an unchanged system passes in {:.0} % of such runs",
            (100.0 * self.pass_probability).floor()
        );
        if self.pass_probability < WANTED_PROBABILITY && !design.repeats_baseline {
            if needed < u32::MAX {
                let _ = write!(
                    text,
                    " (95 % with a baseline of {needed} repeats, or with --baseline-target)"
                );
            } else {
                text.push_str(" (more with --baseline-target)");
            }
        }
        text
    }
}

/// Whether a result comes from the baseline's target.
pub(super) fn is_of_baseline(result: &BenchmarkResult) -> bool {
    result.variant.as_deref() == Some(BASELINE_VARIANT)
}

/// Number of complete rounds within a number of calls, at least 1.
fn rounds_within(most: &[u32], sides: u64, max_calls: u64) -> u32 {
    let rounds = most.iter().copied().max().unwrap_or(1).max(1);
    let mut calls = 0;
    for round in 1..=rounds {
        calls += most.iter().filter(|&&repeats| round <= repeats).count() as u64 * sides;
        if calls > max_calls {
            return (round - 1).max(1);
        }
    }
    rounds
}

fn whole(value: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive estimate; the cast saturates"
    )]
    (value >= 1.0).then_some(value.ceil() as u64)
}

fn check(limits: &UntilDecided, request: &RunBenchRequest) -> Result<(), EngineError> {
    let invalid = |message: &str, hint: &'static str| {
        Err(EngineError::Invalid {
            message: message.to_owned(),
            hint: hint.into(),
        })
    };
    if limits.times == 0 || limits.times > 100 {
        return invalid(
            "the multiple of the planned repeats must be from 1 to 100",
            "the default is 4",
        );
    }
    if limits
        .max_cost_usd
        .is_some_and(|cost| cost.is_nan() || cost <= 0.0)
    {
        return invalid(
            "the budget in dollars must be above 0",
            "leave it out for no limit",
        );
    }
    if request.without_skill {
        return invalid(
            "cannot run without the skill until the gate decides",
            "run the two variants in one fixed run, without rounds",
        );
    }
    if request.distributed || request.sequential {
        return invalid(
            "cannot combine rounds until the gate decides with workers or the sequential test",
            "run the rounds in this process",
        );
    }
    Ok(())
}
