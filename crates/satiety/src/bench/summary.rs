//! Summary statistics of a run. Rates are over decided results, including errors owned by the target;
//! undecided results are counted separately. Repeats of a case are not independent, so all standard errors
//! are clustered by case.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stats::{Interval, clustered_mean_interval, mean, pass_at_k, pass_hat_k, quantile, wilson};

use super::derived::{DerivedMetric, DerivedMetrics};
use super::judge::agreement_of;
use super::run::{BenchmarkResult, BenchmarkRun, ErrorOwner, NamedScore, Status};

/// Aggregate metrics of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkSummary {
    /// Passed results divided by decided results; absent when none was decided.
    pub pass_rate: Option<f64>,
    /// Standard error of the pass rate, clustered by case; absent with fewer than two cases.
    pub pass_rate_standard_error: Option<f64>,
    /// 95 % confidence interval of the pass rate: clustered by case, or Wilson's when results do not vary or
    /// there is only one case.
    pub pass_rate_interval: Option<Interval>,
    /// Mean latency of answered results in milliseconds.
    pub mean_latency_ms: Option<f64>,
    /// 95th percentile of the latency of answered results in milliseconds, by linear interpolation.
    pub p95_latency_ms: Option<f64>,
    /// Total tokens of all results, including errors.
    pub total_token_cost: u64,
    /// Total cost of all results in US dollars, if reported.
    pub total_cost_usd: Option<f64>,
    /// Mean judge score between 0 and 1, if any result was judged.
    pub mean_quality_score: Option<f64>,
    /// Krippendorff's alpha of the judge scores, if several judges scored and their scores vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_agreement: Option<f64>,
    /// Mean score between 0 and 1, if any; an error owned by the target scores 0.
    pub mean_score: Option<f64>,
    /// Number of failures by category.
    pub failure_categories: BTreeMap<String, u64>,
    /// Number of results by status.
    pub counts: StatusCounts,
    /// Number of errors by owner.
    pub errors_by_owner: BTreeMap<ErrorOwner, u64>,
    /// Number of cases with at least one result.
    pub cases: u64,
    /// pass@k and pass^k over cases with enough decided repeats.
    pub reliability: Vec<Reliability>,
    /// Ids of cases whose repeats disagree.
    pub flaky: Vec<String>,
    /// Summary of each case, ordered by id.
    pub per_case: Vec<CaseSummary>,
    /// Summary of each scorer, metric and criterion by name, in the order of the first result that has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreSummary>,
    /// Metrics that the suite derives from the named scores, such as promptfoo's `derivedMetrics`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<DerivedMetric>,
}

/// Summary of one named score over a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreSummary {
    /// Name of the scorer or metric, or text of the criterion.
    pub name: String,
    /// Mean over cases of the mean over repeats, on the scorer's own scale; absent without numbers.
    pub mean: Option<f64>,
    /// Smallest value, if any.
    pub min: Option<f64>,
    /// Largest value, if any.
    pub max: Option<f64>,
    /// Share of results that pass by this score alone; absent when it has no threshold.
    pub pass_rate: Option<f64>,
    /// Number of results with a value.
    pub scored: u64,
    /// Number of results that name the score without a value.
    pub unscored: u64,
    /// Whether the status of results depends on this score.
    pub decides: bool,
}

/// Number of results by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusCounts {
    /// Results that met the expectation.
    pub pass: u64,
    /// Results that did not meet the expectation.
    pub fail: u64,
    /// Results that ended with an error.
    pub error: u64,
    /// Results that exceeded the timeout.
    pub timeout: u64,
    /// Results of cases that were not run.
    pub skipped: u64,
    /// Results that await a person or a judge.
    pub pending: u64,
}

/// How reliably cases pass within `k` tries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reliability {
    /// Number of tries, `k`.
    pub k: u64,
    /// Mean probability that at least one of `k` tries passes.
    pub pass_at_k: f64,
    /// Mean probability that all `k` tries pass.
    pub pass_hat_k: f64,
    /// Number of cases with at least `k` decided repeats.
    pub cases: u64,
}

/// Summary of one case over its repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseSummary {
    /// Id of the benchmark case.
    pub case_id: String,
    /// Passed repeats divided by decided repeats; absent when none was decided.
    pub pass_rate: Option<f64>,
    /// Number of repeats that passed.
    pub passes: u64,
    /// Number of repeats that were decided.
    pub decided: u64,
    /// Number of repeats, decided or not.
    pub repeats: u64,
    /// Mean score between 0 and 1, if any.
    pub mean_score: Option<f64>,
    /// Mean latency of answered repeats in milliseconds.
    pub mean_latency_ms: Option<f64>,
}

/// Groups results by case, ordered by case id.
pub fn by_case<'a>(
    results: impl IntoIterator<Item = &'a BenchmarkResult>,
) -> BTreeMap<&'a str, Vec<&'a BenchmarkResult>> {
    let mut groups: BTreeMap<&str, Vec<&BenchmarkResult>> = BTreeMap::new();
    for result in results {
        groups.entry(result.case_id.as_str()).or_default().push(result);
    }
    groups
}

/// Returns the results of the primary variant of a run: the one with the skill, or the first by name.
/// Variants are different systems; counting them as repeats of one would make it look flaky.
pub fn leading(results: &[BenchmarkResult]) -> Vec<&BenchmarkResult> {
    let variants: std::collections::BTreeSet<Option<&str>> =
        results.iter().map(|result| result.variant.as_deref()).collect();
    let with_skill = Some(super::skill::WITH_SKILL);
    let chosen = variants.get(&with_skill).or(variants.first());
    let of_chosen = |result: &&BenchmarkResult| Some(&result.variant.as_deref()) == chosen;
    results.iter().filter(of_chosen).collect()
}

/// Returns the systems that a run is about, with their results: the primary variant, named by the target, or each
/// variant if all of them have names, as the providers of a promptfoo configuration.
pub fn systems(run: &BenchmarkRun) -> Vec<(String, Vec<&BenchmarkResult>)> {
    let mut groups: BTreeMap<Option<&str>, Vec<&BenchmarkResult>> = BTreeMap::new();
    for result in &run.results {
        groups.entry(result.variant.as_deref()).or_default().push(result);
    }
    let has_primary = groups.contains_key(&None) || groups.contains_key(&Some(super::skill::WITH_SKILL));
    if groups.len() < 2 || has_primary {
        return vec![(run.target.clone(), leading(&run.results))];
    }
    let named = groups.into_iter();
    named
        .map(|(name, results)| (name.unwrap_or_default().to_owned(), results))
        .collect()
}

/// Summarizes the primary variant of a run, with the metrics that its suite derives.
pub fn summarize_run(results: &[BenchmarkResult], snapshot: &BTreeMap<String, Value>) -> BenchmarkSummary {
    summarize_system(leading(results), snapshot)
}

/// Summarizes the results of one variant of a run, with the metrics that its suite derives.
pub fn summarize_system(
    results: Vec<&BenchmarkResult>,
    snapshot: &BTreeMap<String, Value>,
) -> BenchmarkSummary {
    let derived = DerivedMetrics::of_snapshot(snapshot);
    BenchmarkSummary {
        derived: derived.map_or_else(Vec::new, |derived| derived.compute(results.iter().copied())),
        ..summarize(results)
    }
}

/// Summarizes the results of a run, or of one variant of it.
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
    summary.scores = score_summaries(results.iter().copied());
    summary
}

/// Summarizes the named scores of results, in the order in which they first appear.
pub(super) fn score_summaries<'a>(
    results: impl IntoIterator<Item = &'a BenchmarkResult>,
) -> Vec<ScoreSummary> {
    let mut order: Vec<&str> = Vec::new();
    let mut found: BTreeMap<&str, Vec<(&str, &NamedScore)>> = BTreeMap::new();
    for result in results {
        for score in &result.scores {
            let list = found.entry(&score.name).or_insert_with(|| {
                order.push(&score.name);
                Vec::new()
            });
            list.push((&result.case_id, score));
        }
    }
    let summarize = |name: &&str| {
        let scores = found.get(name).map_or(&[][..], Vec::as_slice);
        let mut cases: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (case, score) in scores {
            if let Some(value) = score.value {
                cases.entry(case).or_default().push(value);
            }
        }
        let values = || cases.values().flatten().copied();
        let passes = scores.iter().filter_map(|(_, score)| score.passed);
        let scored = values().count() as u64;
        ScoreSummary {
            name: (*name).to_owned(),
            mean: mean_of(cases.values().filter_map(|values| mean(values).ok())),
            min: values().reduce(f64::min),
            max: values().reduce(f64::max),
            pass_rate: mean_of(passes.map(|passed| f64::from(u8::from(passed)))),
            scored,
            unscored: scores.len() as u64 - scored,
            decides: scores.iter().any(|(_, score)| score.decides),
        }
    };
    order.iter().map(summarize).collect()
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
        // Results that do not vary have a standard error of zero by that formula, which is not credible.
        .filter(|estimate| estimate.standard_error > 0.0)
        .map(|estimate| Interval {
            low: estimate.interval.low.max(0.0),
            high: estimate.interval.high.min(1.0),
            ..estimate.interval
        })
        .or_else(|| {
            // Repeats that all agree count as one observation per case.
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

/// Whether the target answered, so that its latency is meaningful.
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

    /// Total number of results.
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
    fn only_decided_results_count() {
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
        // Three of a, a, b, b and the timeout owned by the target.
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
