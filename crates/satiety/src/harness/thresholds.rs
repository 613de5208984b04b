//! Checks whether a run meets a threshold, on the assumption that a target may hide its failures.
//!
//! Omitting data never helps a target. An error owned by the target counts as failed, scores 0 and took its
//! whole deadline; an unreported cost or token count is taken as unbounded. Results that are missing for
//! another reason (a judge, this program) leave the verdict open, unless it would be the same either way.

use crate::bench::expected::Direction;
use crate::bench::run::{BenchmarkResult, ErrorOwner, Status};
use crate::stats::{mean, quantile};

use super::manifest::Threshold;

/// Default deadline in milliseconds, if neither the case nor the run sets one.
pub(crate) const DEFAULT_DEADLINE_MS: u64 = 120_000;

/// Metrics reported by the target itself, which cannot be verified.
pub const REPORTED_BY_TARGET: [&str; 2] = ["total_token_cost", "total_cost_usd"];

/// Value of a metric over a run, with its uncertainty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricValue {
    /// Value over the known results; absent if there are none.
    pub found: Option<f64>,
    /// Lowest and highest value that the unknown results permit.
    pub bounds: Option<(f64, f64)>,
    /// Description of the missing data.
    pub note: Option<String>,
}

/// Computes one of the [`METRICS`](super::rules::METRICS) over the results of a run, without skipped cases.
pub fn metric_value(results: &[&BenchmarkResult], name: &str) -> MetricValue {
    let results: Vec<&BenchmarkResult> = results
        .iter()
        .copied()
        .filter(|result| result.status != Status::Skipped)
        .collect();
    match name {
        "pass_rate" => mean_of_shares(&results, |result| {
            result.passed().map(|passed| f64::from(u8::from(passed)))
        }),
        "mean_score" => mean_of_shares(&results, |result| {
            // A pass without a score counts as 1.
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
                return MetricValue::default();
            }
            mean_of_shares(&judged, |result| result.llm_judge_score)
        }
        "mean_latency_ms" => latency_metric(&results, |times| mean(times).ok()),
        "p95_latency_ms" => latency_metric(&results, |times| quantile(times, 0.95).ok()),
        "total_token_cost" => reported_total(&results, "tokens", |result| {
            let reported = result.token_cost > 0 || result.tokens_in.is_some() || result.tokens_out.is_some();
            reported.then_some(result.token_cost as f64)
        }),
        "total_cost_usd" => reported_total(&results, "a cost", |result| result.cost_usd),
        _ => MetricValue::default(),
    }
}

/// Whether the threshold is met; `None` without results, or if the unknown results decide.
pub fn is_met(value: &MetricValue, threshold: Threshold) -> Option<bool> {
    let (low, high) = value.bounds.or(value.found.map(|found| (found, found)))?;
    // The same rounding tolerance as for all scores.
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

/// Mean of values between 0 and 1, some of which may be unknown.
fn mean_of_shares(
    results: &[&BenchmarkResult],
    value: impl Fn(&BenchmarkResult) -> Option<f64>,
) -> MetricValue {
    let known: Vec<f64> = results.iter().filter_map(|result| value(result)).collect();
    let unknown = results.len() - known.len();
    let sum: f64 = known.iter().sum();
    let all = results.len() as f64;
    if results.is_empty() {
        return MetricValue::default();
    }
    MetricValue {
        found: mean(&known).ok(),
        bounds: Some((sum / all, (sum + unknown as f64) / all)),
        note: (unknown > 0).then(|| format!("{unknown} of {} results are undecided", results.len())),
    }
}

/// Latency of the target: measured times, and the whole deadline for results without a timed answer.
fn latency_metric(results: &[&BenchmarkResult], statistic: impl Fn(&[f64]) -> Option<f64>) -> MetricValue {
    let (mut times, mut assumed, mut undecided) = (Vec::new(), 0_usize, 0_usize);
    for result in results {
        let limit = result.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS) as f64;
        let measured = result.latency_ms.max(0.0);
        match (result.status, result.owner()) {
            (Status::Error | Status::Timeout, ErrorOwner::Harness | ErrorOwner::Infra) => undecided += 1,
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
            "{assumed} results have no measured latency and count as their deadline"
        ));
    }
    let found = statistic(&times);
    let bounds = found.map(|found| {
        if undecided > 0 {
            notes.push(format!("{undecided} of {} results are undecided", results.len()));
            let mut worst = times.clone();
            worst.extend(std::iter::repeat_n(DEFAULT_DEADLINE_MS as f64, undecided));
            (
                found.min(statistic(&worst).unwrap_or(found)),
                found.max(statistic(&worst).unwrap_or(found)),
            )
        } else {
            (found, found)
        }
    });
    MetricValue {
        found,
        bounds,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

/// Sum of values reported by the target; unbounded if any result reports none.
fn reported_total(
    results: &[&BenchmarkResult],
    what: &str,
    value: impl Fn(&BenchmarkResult) -> Option<f64>,
) -> MetricValue {
    if results.is_empty() {
        return MetricValue::default();
    }
    let known: Vec<f64> = results.iter().filter_map(|result| value(result)).collect();
    let unreported = results.len() - known.len();
    let sum: f64 = known.iter().sum();
    if unreported == 0 {
        return MetricValue {
            found: Some(sum),
            bounds: Some((sum, sum)),
            note: None,
        };
    }
    MetricValue {
        found: (!known.is_empty()).then_some(sum),
        bounds: Some((f64::INFINITY, f64::INFINITY)),
        note: Some(format!(
            "{unreported} of {} results report no {}",
            results.len(),
            what.trim_start_matches("a ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rules::METRICS;
    use super::*;

    fn result(id: u32, status: Status, owner: Option<ErrorOwner>) -> BenchmarkResult {
        let mut result = BenchmarkResult::new(format!("c{id}"), 0, status);
        result.error_owner = owner;
        result
    }

    /// A result with an answer and every reported value.
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
        /// Failing instead of answering never turns a missed threshold into a met one.
        #[test]
        fn failing_instead_of_answering_never_helps(
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
                // The score that a runner with judges records for a broken answer.
                broken.llm_judge_score = Some(0.0);
                all[at] = broken;
                all
            };
            for name in METRICS {
                let value = if better(name) == Direction::Higher { bound / 500.0 } else { bound };
                let threshold = Threshold { value, direction: better(name) };
                let met = |results: &[BenchmarkResult]| {
                    is_met(&metric_value(&results.iter().collect::<Vec<_>>(), name), threshold)
                };
                prop_assert!(
                    met(&broken) != Some(true) || met(&answers) == Some(true),
                    "{} {:?}: {:?} from {:?}", name, threshold, met(&broken), met(&answers)
                );
            }
        }
    }

    #[test]
    fn missing_results_of_others_leave_the_verdict_open() {
        let mut all: Vec<BenchmarkResult> = (0..8).map(|id| result(id, Status::Pass, None)).collect();
        all.push(result(8, Status::Error, Some(ErrorOwner::Judge)));
        all.push(result(9, Status::Pending, None));
        let found = metric_value(&all.iter().collect::<Vec<_>>(), "pass_rate");
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
        assert_eq!(metric_value(&all.iter().collect::<Vec<_>>(), "pass_rate"), found);
        assert_eq!(metric_value(&[], "pass_rate"), MetricValue::default());
        assert_eq!(
            metric_value(&all.iter().collect::<Vec<_>>(), "beauty"),
            MetricValue::default()
        );
    }
}
