//! Whether a run meets a threshold, seen from the side of a target that would rather not show what it cannot do.
//!
//! Nothing that a target leaves out may help it. An error that it owns is not passed, scores 0, and took as long as it was
//! allowed to; a cost or a number of tokens that it does not report counts as too much. Results that are missing through no
//! doing of the target (a judge, this program) leave the answer open, unless it would be the same either way.

use crate::bench::expected::Direction;
use crate::bench::run::{BenchmarkResult, ErrorOwner, Status};
use crate::stats::{mean, quantile};

use super::manifest::Threshold;

/// How long an answer may take where neither the case nor the run says, in milliseconds.
pub(crate) const DEFAULT_DEADLINE_MS: u64 = 120_000;

/// Metrics that only the target knows: it could say anything.
pub const REPORTED_BY_TARGET: [&str; 2] = ["total_token_cost", "total_cost_usd"];

/// A metric of a run, with what is not known about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// The value over the results that are known; absent without any.
    pub found: Option<f64>,
    /// The lowest and highest value that the unknown results leave possible.
    pub bounds: Option<(f64, f64)>,
    /// What is missing, in words.
    pub note: Option<String>,
}

/// The value of one of the [`FIGURES`](super::rules::FIGURES) over the results of a run. Skipped cases do not count.
pub fn figure(results: &[&BenchmarkResult], name: &str) -> Figure {
    let results: Vec<&BenchmarkResult> = results
        .iter()
        .copied()
        .filter(|result| result.status != Status::Skipped)
        .collect();
    match name {
        "pass_rate" => share(&results, |result| {
            result.passed().map(|passed| f64::from(u8::from(passed)))
        }),
        "mean_score" => share(&results, |result| {
            // A pass that was never scored is right.
            result
                .counted_score()
                .or_else(|| (result.passed() == Some(true)).then_some(1.0))
        }),
        "mean_quality_score" => {
            let judged: Vec<&BenchmarkResult> = results
                .into_iter()
                .filter(|result| {
                    result.llm_judge_score.is_some()
                        || result.status == Status::Pending
                        || (result.status == Status::Error && result.owner() == ErrorOwner::Judge)
                })
                .collect();
            if judged.iter().all(|result| result.llm_judge_score.is_none()) {
                return Figure::default();
            }
            share(&judged, |result| result.llm_judge_score)
        }
        "mean_latency_ms" => latency(&results, |times| mean(times).ok()),
        "p95_latency_ms" => latency(&results, |times| quantile(times, 0.95).ok()),
        "total_token_cost" => total(&results, "tokens", |result| {
            let told = result.token_cost > 0 || result.tokens_in.is_some() || result.tokens_out.is_some();
            told.then_some(result.token_cost as f64)
        }),
        "total_cost_usd" => total(&results, "a cost", |result| result.cost_usd),
        _ => Figure::default(),
    }
}

/// Whether the threshold holds; `None` without a result, and where what is not known decides.
pub fn is_met(figure: &Figure, threshold: Threshold) -> Option<bool> {
    let (low, high) = figure.bounds.or(figure.found.map(|found| (found, found)))?;
    // A tolerance of rounding, as for scores everywhere.
    let holds = |value: f64| match threshold.direction {
        Direction::Higher => value >= threshold.value - 1e-9,
        Direction::Lower => value <= threshold.value + 1e-9,
    };
    match (holds(low), holds(high)) {
        (true, true) => Some(true),
        (false, false) => Some(false),
        _ => None,
    }
}

/// The mean of values between 0 and 1, some of which may be unknown.
fn share(results: &[&BenchmarkResult], value: impl Fn(&BenchmarkResult) -> Option<f64>) -> Figure {
    let known: Vec<f64> = results.iter().filter_map(|result| value(result)).collect();
    let unknown = results.len() - known.len();
    let sum: f64 = known.iter().sum();
    let all = results.len() as f64;
    if results.is_empty() {
        return Figure::default();
    }
    Figure {
        found: mean(&known).ok(),
        bounds: Some((sum / all, (sum + unknown as f64) / all)),
        note: (unknown > 0).then(|| format!("{unknown} of {} results are undecided", results.len())),
    }
}

/// Times of the target: measured ones, and the whole deadline where it gave no answer that was timed.
fn latency(results: &[&BenchmarkResult], of: impl Fn(&[f64]) -> Option<f64>) -> Figure {
    let (mut times, mut assumed, mut ours) = (Vec::new(), 0_usize, 0_usize);
    for result in results {
        let limit = result.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS) as f64;
        let measured = result.latency_ms.max(0.0);
        match (result.status, result.owner()) {
            (Status::Error | Status::Timeout, ErrorOwner::Harness | ErrorOwner::Infra) => ours += 1,
            (Status::Error, ErrorOwner::Target) => {
                assumed += 1;
                times.push(limit.max(measured));
            }
            _ if result.cached => {
                assumed += 1;
                times.push(limit.max(measured));
            }
            _ => times.push(measured),
        }
    }
    let mut notes = Vec::new();
    if assumed > 0 {
        notes.push(format!(
            "{assumed} results have no measured time and count with their deadline"
        ));
    }
    let found = of(&times);
    let bounds = found.map(|found| {
        if ours > 0 {
            notes.push(format!("{ours} of {} results are undecided", results.len()));
            let mut worst = times.clone();
            worst.extend(std::iter::repeat_n(DEFAULT_DEADLINE_MS as f64, ours));
            (
                found.min(of(&worst).unwrap_or(found)),
                found.max(of(&worst).unwrap_or(found)),
            )
        } else {
            (found, found)
        }
    });
    Figure {
        found,
        bounds,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

/// A sum of what the target reports; unbounded as soon as one result reports nothing.
fn total(
    results: &[&BenchmarkResult],
    what: &str,
    value: impl Fn(&BenchmarkResult) -> Option<f64>,
) -> Figure {
    if results.is_empty() {
        return Figure::default();
    }
    let known: Vec<f64> = results.iter().filter_map(|result| value(result)).collect();
    let silent = results.len() - known.len();
    let sum: f64 = known.iter().sum();
    if silent == 0 {
        return Figure {
            found: Some(sum),
            bounds: Some((sum, sum)),
            note: None,
        };
    }
    Figure {
        found: (!known.is_empty()).then_some(sum),
        bounds: Some((f64::INFINITY, f64::INFINITY)),
        note: Some(format!(
            "{silent} of {} results report no {}",
            results.len(),
            what.trim_start_matches("a ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rules::FIGURES;
    use super::*;

    fn result(id: u32, status: Status, owner: Option<ErrorOwner>) -> BenchmarkResult {
        let mut result = BenchmarkResult::new(format!("c{id}"), 0, status);
        result.error_owner = owner;
        result
    }

    /// A result that was answered, with everything that can be reported.
    fn answered() -> impl Strategy<Value = BenchmarkResult> {
        (any::<bool>(), 0..100_u64, 1.0..1000.0_f64).prop_map(|(passed, tokens, latency)| {
            let mut result = result(0, if passed { Status::Pass } else { Status::Fail }, None);
            result.score = Some(f64::from(u8::from(passed)));
            result.llm_judge_score = result.score;
            result.token_cost = tokens;
            result.tokens_in = Some(tokens);
            result.cost_usd = Some(tokens as f64 / 100.0);
            result.latency_ms = latency;
            result
        })
    }

    fn better(name: &str) -> Direction {
        if name.contains("cost") || name.contains("latency") {
            Direction::Lower
        } else {
            Direction::Higher
        }
    }

    proptest! {
        /// The law: whatever a target answers or reports, breaking instead never turns a missed threshold into a met one.
        #[test]
        fn failing_in_another_way_never_helps(
            answers in prop::collection::vec(answered(), 1..12),
            which in any::<prop::sample::Index>(),
            timeout in any::<bool>(),
            bound in 0.0..500.0_f64,
        ) {
            let broken = {
                let mut all = answers.clone();
                let at = which.index(all.len());
                let mut broken = result(0, if timeout { Status::Timeout } else { Status::Error }, Some(ErrorOwner::Target));
                broken.deadline_ms = Some(1000);
                broken.latency_ms = if timeout { 1000.0 } else { 0.1 };
                // What a runner with judges writes down for it.
                broken.llm_judge_score = Some(0.0);
                all[at] = broken;
                all
            };
            for name in FIGURES {
                let value = if better(name) == Direction::Higher { bound / 500.0 } else { bound };
                let threshold = Threshold { value, direction: better(name) };
                let met = |results: &[BenchmarkResult]| {
                    is_met(&figure(&results.iter().collect::<Vec<_>>(), name), threshold)
                };
                prop_assert!(
                    met(&broken) != Some(true) || met(&answers) == Some(true),
                    "{} {:?}: {:?} from {:?}", name, threshold, met(&broken), met(&answers)
                );
            }
        }
    }

    #[test]
    fn what_is_not_the_targets_doing_leaves_it_open() {
        let mut all: Vec<BenchmarkResult> = (0..8).map(|id| result(id, Status::Pass, None)).collect();
        all.push(result(8, Status::Error, Some(ErrorOwner::Judge)));
        all.push(result(9, Status::Pending, None));
        let found = figure(&all.iter().collect::<Vec<_>>(), "pass_rate");
        assert_eq!((found.found, found.bounds), (Some(1.0), Some((0.8, 1.0))));
        assert_eq!(found.note.as_deref(), Some("2 of 10 results are undecided"));
        let at = |value| {
            is_met(
                &found,
                Threshold {
                    value,
                    direction: Direction::Higher,
                },
            )
        };
        assert_eq!((at(0.8), at(0.9)), (Some(true), None));
        all.push(result(10, Status::Skipped, None));
        assert_eq!(figure(&all.iter().collect::<Vec<_>>(), "pass_rate"), found);
        assert_eq!(figure(&[], "pass_rate"), Figure::default());
        assert_eq!(
            figure(&all.iter().collect::<Vec<_>>(), "beauty"),
            Figure::default()
        );
    }
}
