//! The figures of a run. Rates are over what was decided, errors that the target owns included; what was not decided is
//! counted beside them. Repeats of a case are not independent, so every uncertainty is clustered by case.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Interval, clustered_mean_interval, mean, pass_at_k, pass_hat_k, quantile, wilson};

use super::judge::agreement_of;
use super::run::{BenchmarkResult, ErrorOwner, Status};

/// Aggregate figures of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkSummary {
    /// Passes over decided results; absent when nothing was decided.
    pub pass_rate: Option<f64>,
    /// Standard error of the pass rate, clustered by case; absent below two cases.
    pub pass_rate_standard_error: Option<f64>,
    /// Its 95 % interval: clustered by case, and Wilson's where results do not vary or there is one case.
    pub pass_rate_interval: Option<Interval>,
    /// Mean time of the results that were answered.
    pub mean_latency_ms: Option<f64>,
    /// Their 95th percentile, by linear interpolation.
    pub p95_latency_ms: Option<f64>,
    /// Tokens of everything, errors too.
    pub total_token_cost: u64,
    /// Dollars of everything, where reported.
    pub total_cost_usd: Option<f64>,
    /// Mean judge score, where there is one.
    pub mean_quality_score: Option<f64>,
    /// Krippendorff's alpha of the judges' scores, where several judged and their answers vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_agreement: Option<f64>,
    /// Mean score, where there is one; an error that the target owns scores 0.
    pub mean_score: Option<f64>,
    /// What sort of failure → how many.
    pub failure_categories: BTreeMap<String, u64>,
    /// Results by how they came out.
    pub counts: StatusCounts,
    /// Errors by who owns them.
    pub errors_by_owner: BTreeMap<ErrorOwner, u64>,
    /// Cases with any result.
    pub cases: u64,
    /// pass@k and pass^k over cases with enough decided repeats.
    pub reliability: Vec<Reliability>,
    /// Cases whose repeats disagree.
    pub flaky: Vec<String>,
    /// Each case, by id.
    pub per_case: Vec<CaseSummary>,
}

/// Results by how they came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusCounts {
    /// Passed.
    pub pass: u64,
    /// Failed.
    pub fail: u64,
    /// Broke.
    pub error: u64,
    /// Ran out of time.
    pub timeout: u64,
    /// Was not run.
    pub skipped: u64,
    /// Waits for a person or a judge.
    pub pending: u64,
}

/// How reliably cases pass within `k` tries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reliability {
    /// Tries.
    pub k: u64,
    /// Mean probability that at least one of `k` passes.
    pub pass_at_k: f64,
    /// Mean probability that all of `k` pass.
    pub pass_hat_k: f64,
    /// Cases that had `k` decided repeats.
    pub cases: u64,
}

/// One case over its repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseSummary {
    /// The case.
    pub case_id: String,
    /// Passes over decided repeats; absent when none was.
    pub pass_rate: Option<f64>,
    /// Repeats that passed.
    pub passes: u64,
    /// Repeats that were decided.
    pub decided: u64,
    /// All repeats.
    pub repeats: u64,
    /// Mean score, where there is one.
    pub mean_score: Option<f64>,
    /// Mean time of what was answered.
    pub mean_latency_ms: Option<f64>,
}

/// Results grouped by case, in the order of their ids.
pub fn by_case<'a>(
    results: impl IntoIterator<Item = &'a BenchmarkResult>,
) -> BTreeMap<&'a str, Vec<&'a BenchmarkResult>> {
    let mut groups: BTreeMap<&str, Vec<&BenchmarkResult>> = BTreeMap::new();
    for result in results {
        groups.entry(result.case_id.as_str()).or_default().push(result);
    }
    groups
}

/// The results that a run is about. A run of several variants is about the one with the skill, or about the first by
/// name: variants are different systems, and counting them as repeats of one would call it flaky.
pub fn leading(results: &[BenchmarkResult]) -> Vec<&BenchmarkResult> {
    let variants: std::collections::BTreeSet<Option<&str>> =
        results.iter().map(|result| result.variant.as_deref()).collect();
    let with_skill = Some(super::skill::WITH_SKILL);
    let chosen = variants.get(&with_skill).or(variants.first());
    let of_chosen = |result: &&BenchmarkResult| Some(&result.variant.as_deref()) == chosen;
    results.iter().filter(of_chosen).collect()
}

/// The figures of some results: those of a run, or of one variant of it.
pub fn summarize<'a>(results: impl IntoIterator<Item = &'a BenchmarkResult>) -> BenchmarkSummary {
    let results: Vec<&BenchmarkResult> = results.into_iter().collect();
    let groups = by_case(results.iter().copied());
    let mut summary = BenchmarkSummary {
        cases: groups.len() as u64,
        ..BenchmarkSummary::default()
    };
    for result in &results {
        summary.counts.add(result.status);
        summary.total_token_cost = summary.total_token_cost.saturating_add(result.token_cost);
        if let Some(category) = failure_category(result) {
            *summary.failure_categories.entry(category).or_default() += 1;
        }
        if let Some(owner) = error_owner(result) {
            *summary.errors_by_owner.entry(owner).or_default() += 1;
        }
    }
    let costs: Vec<f64> = results.iter().filter_map(|result| result.cost_usd).collect();
    summary.total_cost_usd = (!costs.is_empty()).then(|| crate::stats::descriptive::sum(&costs));
    summary.mean_quality_score = mean_of(results.iter().filter_map(|result| result.llm_judge_score));
    summary.judge_agreement = agreement_of(results.iter().map(|result| result.judges.as_slice()));
    summary.mean_score = mean_of(results.iter().filter_map(|result| result.counted_score()));
    let latencies: Vec<f64> = results
        .iter()
        .filter(|result| answered(result))
        .map(|result| result.latency_ms)
        .collect();
    summary.mean_latency_ms = mean(&latencies).ok();
    summary.p95_latency_ms = quantile(&latencies, 0.95).ok();
    summary.per_case = groups
        .iter()
        .map(|(id, results)| case_summary(id, results))
        .collect();
    summary.flaky = summary
        .per_case
        .iter()
        .filter(|case| case.passes > 0 && case.passes < case.decided)
        .map(|case| case.case_id.clone())
        .collect();
    pass_rate(&mut summary, &groups);
    summary.reliability = reliability(&summary.per_case);
    summary
}

fn pass_rate(summary: &mut BenchmarkSummary, groups: &BTreeMap<&str, Vec<&BenchmarkResult>>) {
    let (mut values, mut clusters) = (Vec::new(), Vec::new());
    for (cluster, results) in groups.values().enumerate() {
        for passed in results.iter().filter_map(|result| result.passed()) {
            values.push(f64::from(u8::from(passed)));
            clusters.push(cluster);
        }
    }
    summary.pass_rate = mean(&values).ok();
    let clustered = clustered_mean_interval(&values, &clusters, 0.95).ok();
    summary.pass_rate_standard_error = clustered.map(|estimate| estimate.standard_error);
    let passes = values.iter().filter(|&&value| value == 1.0).count() as u64;
    summary.pass_rate_interval = clustered
        // Results that do not vary say "no error" by that formula, which nobody should believe.
        .filter(|estimate| estimate.standard_error > 0.0)
        .map(|estimate| Interval {
            low: estimate.interval.low.max(0.0),
            high: estimate.interval.high.min(1.0),
            ..estimate.interval
        })
        .or_else(|| {
            // Repeats that all agree are worth one observation a case.
            let cases = clusters.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
            let agreeing = if passes == 0 { 0 } else { cases };
            let unanimous = passes == 0 || passes == values.len() as u64;
            if unanimous {
                wilson(agreeing, cases, 0.95).ok()
            } else {
                wilson(passes, values.len() as u64, 0.95).ok()
            }
        });
}

fn reliability(cases: &[CaseSummary]) -> Vec<Reliability> {
    let most = cases.iter().map(|case| case.decided).max().unwrap_or(0);
    let mut ks: Vec<u64> = [1, 2, 3, 5, 10, 20, 50, 100]
        .into_iter()
        .filter(|&k| k <= most)
        .collect();
    if most > 1 && !ks.contains(&most) {
        ks.push(most);
    }
    ks.into_iter()
        .filter_map(|k| {
            let enough: Vec<&CaseSummary> = cases.iter().filter(|case| case.decided >= k).collect();
            let at: Vec<f64> = enough
                .iter()
                .filter_map(|case| pass_at_k(case.decided, case.passes, k).ok())
                .collect();
            let hat: Vec<f64> = enough
                .iter()
                .filter_map(|case| pass_hat_k(case.decided, case.passes, k).ok())
                .collect();
            Some(Reliability {
                k,
                pass_at_k: mean(&at).ok()?,
                pass_hat_k: mean(&hat).ok()?,
                cases: enough.len() as u64,
            })
        })
        .collect()
}

fn case_summary(case_id: &str, results: &[&BenchmarkResult]) -> CaseSummary {
    let decided: Vec<bool> = results.iter().filter_map(|result| result.passed()).collect();
    let passes = decided.iter().filter(|&&passed| passed).count() as u64;
    CaseSummary {
        case_id: case_id.to_owned(),
        pass_rate: (!decided.is_empty()).then(|| passes as f64 / decided.len() as f64),
        passes,
        decided: decided.len() as u64,
        repeats: results.len() as u64,
        mean_score: mean_of(results.iter().filter_map(|result| result.counted_score())),
        mean_latency_ms: mean_of(
            results
                .iter()
                .filter(|result| answered(result))
                .map(|result| result.latency_ms),
        ),
    }
}

/// Whether the target answered, so that its time means something.
pub(super) fn answered(result: &BenchmarkResult) -> bool {
    matches!(result.status, Status::Pass | Status::Fail | Status::Pending)
}

fn error_owner(result: &BenchmarkResult) -> Option<ErrorOwner> {
    matches!(result.status, Status::Error | Status::Timeout).then(|| result.owner())
}

fn failure_category(result: &BenchmarkResult) -> Option<String> {
    let default = match result.status {
        Status::Fail => "wrong answer",
        Status::Error => "error",
        Status::Timeout => "timeout",
        Status::Pass | Status::Skipped | Status::Pending => return None,
    };
    Some(result.error_kind.clone().unwrap_or_else(|| default.to_owned()))
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    mean(&values.collect::<Vec<_>>()).ok()
}

impl StatusCounts {
    fn add(&mut self, status: Status) {
        let count = match status {
            Status::Pass => &mut self.pass,
            Status::Fail => &mut self.fail,
            Status::Error => &mut self.error,
            Status::Timeout => &mut self.timeout,
            Status::Skipped => &mut self.skipped,
            Status::Pending => &mut self.pending,
        };
        *count += 1;
    }

    /// All results.
    pub fn total(&self) -> u64 {
        self.pass + self.fail + self.error + self.timeout + self.skipped + self.pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(rows: &[(&str, &[Status])]) -> Vec<BenchmarkResult> {
        rows.iter()
            .flat_map(|(id, statuses)| {
                (0..)
                    .zip(*statuses)
                    .map(move |(repeat, &status)| BenchmarkResult::new(*id, repeat, status))
            })
            .collect()
    }

    #[test]
    fn variants_are_not_repeats() {
        let result = |variant: Option<&str>, status| BenchmarkResult {
            variant: variant.map(Into::into),
            ..BenchmarkResult::new("a", 0, status)
        };
        let both = [
            result(Some("without_skill"), Status::Fail),
            result(Some("with_skill"), Status::Pass),
        ];
        let summary = summarize(leading(&both));
        assert_eq!(
            (summary.pass_rate, summary.flaky.len(), summary.cases),
            (Some(1.0), 0, 1)
        );
        let named = [result(Some("b"), Status::Pass), result(Some("a"), Status::Fail)];
        assert_eq!(summarize(leading(&named)).pass_rate, Some(0.0));
        assert_eq!(leading(&[result(None, Status::Pass)]).len(), 1);
        assert!(leading(&[]).is_empty());
    }

    #[test]
    fn only_what_was_decided_counts() {
        use Status::{Error, Fail, Pass, Pending, Skipped, Timeout};
        let mut all = results(&[
            ("a", &[Pass, Pass]),
            ("b", &[Pass, Fail]),
            ("c", &[Error, Timeout]),
            ("d", &[Skipped]),
            ("e", &[Pending]),
        ]);
        all[4].error_owner = Some(ErrorOwner::Infra);
        all[4].error_kind = Some("rate_limit".into());
        let summary = summarize(&all);
        // Three of a, a, b, b and the timeout that the target owns.
        assert_eq!(summary.pass_rate, Some(0.6));
        assert_eq!(summary.counts.total(), 8);
        assert_eq!(
            (
                summary.counts.skipped,
                summary.counts.pending,
                summary.counts.error
            ),
            (1, 1, 1)
        );
        assert_eq!(summary.flaky, ["b"]);
        assert_eq!(
            summary.failure_categories,
            BTreeMap::from([
                ("rate_limit".into(), 1),
                ("timeout".into(), 1),
                ("wrong answer".into(), 1)
            ])
        );
        assert_eq!(
            summary.errors_by_owner,
            BTreeMap::from([(ErrorOwner::Target, 1), (ErrorOwner::Infra, 1)])
        );
        assert_eq!(summarize(&[]).pass_rate, None);
    }

    /// Position .95 · 3 = 2.85 between 30 and 40: 38.5. Clustered standard error by hand: residual sums by case are
    /// 2(1 − .5) = 1 and 2(0 − .5) = −1, so sqrt(2/(2−1) · 2) / 4 = 0.5.
    #[test]
    fn percentiles_and_clusters() {
        let mut all = results(&[
            ("a", &[Status::Pass, Status::Pass]),
            ("b", &[Status::Fail, Status::Fail]),
        ]);
        for (result, latency) in all.iter_mut().zip([10.0, 20.0, 30.0, 40.0]) {
            result.latency_ms = latency;
            result.token_cost = 5;
        }
        let summary = summarize(&all);
        assert!((summary.p95_latency_ms.unwrap() - 38.5).abs() < 1e-12);
        assert_eq!(summary.mean_latency_ms, Some(25.0));
        assert_eq!(summary.total_token_cost, 20);
        assert!((summary.pass_rate_standard_error.unwrap() - 0.5).abs() < 1e-12);
        let at_two = summary.reliability.iter().find(|entry| entry.k == 2).unwrap();
        assert_eq!((at_two.pass_at_k, at_two.pass_hat_k), (0.5, 0.5));
    }

    #[test]
    fn a_perfect_run_is_not_certain() {
        let all = results(&[("a", &[Status::Pass; 5]), ("b", &[Status::Pass; 5])]);
        let interval = summarize(&all).pass_rate_interval.unwrap();
        // With all of n passing, Wilson's lower bound is n / (n + z²) = 2 / (2 + 1.959964²).
        assert!((interval.low - 0.342380227506653).abs() < 1e-9);
    }
}
