//! Ablation study: decides whether a change can ship, by comparing one or more variants with a control on the
//! same cases with repeats. All comparisons are paired by case: the difference between the means of a case in
//! variant and control is one observation, so repeats of a case never count as independent evidence.
//!
//! *Ships* requires every metric to be non-inferior: the lower bound of its interval lies above a given
//! margin. (Requiring all of them needs no multiplicity correction; each is one more way to fail.) *Harmful*
//! requires a metric that is significantly worse, after Holm's correction over all variants and metrics, and
//! not non-inferior. All else is inconclusive, and the report states the required number of cases. Requiring
//! a "non-negative impact" instead would reject half of all neutral changes.
//!
//! This module computes verdicts only; other modules format reports.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{
    Alternative, Interval, PValue, StatsError, differences_needed, holm, mean, mean_interval, paired_t_pairs,
    sign_flip, smallest_p, standard_deviation,
};

use super::expected::Direction;
use super::matching::default_direction;
use super::run::BenchmarkResult;
use super::summary::by_case;

/// Number of random sign patterns when there are too many to enumerate, and their seed, for reproducible
/// verdicts.
const PERMUTATIONS: u64 = 9_999;
const SEED: u64 = 20;

/// Largest acceptable degradation of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Margin {
    /// Degradation in the unit of the metric.
    Absolute(f64),
    /// Degradation as a fraction of the control's mean.
    Relative(f64),
}

/// Metrics, margins and error level of an ablation study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AblationSettings {
    /// Family-wise error rate of the study, between 0 and 0.5.
    pub alpha: f64,
    /// Probability of detecting a difference of the margin; used to compute the required number of cases.
    pub power: f64,
    /// Margin per metric: `pass`, `score`, `llm_judge_score`, `latency_ms`, `token_cost`, `cost_usd`, or any
    /// reported metric.
    pub metrics: BTreeMap<String, Margin>,
    /// Direction per metric; required only when the name does not imply it.
    pub directions: BTreeMap<String, Direction>,
}

impl Default for AblationSettings {
    fn default() -> Self {
        let metrics = [
            ("pass", Margin::Absolute(0.05)),
            ("latency_ms", Margin::Relative(0.2)),
            ("token_cost", Margin::Relative(0.2)),
        ];
        Self {
            alpha: 0.05,
            power: 0.8,
            metrics: metrics.map(|(name, margin)| (name.to_owned(), margin)).into(),
            directions: BTreeMap::new(),
        }
    }
}

/// Verdict about one variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AblationVerdict {
    /// Non-inferior to the control in every metric.
    Ships,
    /// Significantly worse than the control in some metric.
    Harmful,
    /// The data do not allow a decision.
    Inconclusive,
}

/// Result of an ablation study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AblationReport {
    /// Name of the control variant.
    pub control: String,
    /// Mean and standard deviation of the control's metrics.
    pub control_metrics: BTreeMap<String, MetricSummary>,
    /// Report of each variant, in the order given.
    pub variants: Vec<VariantReport>,
    /// Family-wise error rate of the study.
    pub alpha: f64,
}

/// Comparison of one variant with the control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantReport {
    /// Name of the variant.
    pub variant: String,
    /// Verdict about the variant.
    pub verdict: AblationVerdict,
    /// Reasons for the verdict.
    pub reasons: Vec<String>,
    /// Comparison of each metric with the control.
    pub metrics: Vec<MetricReport>,
}

/// Mean and standard deviation of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSummary {
    /// Mean over cases of the case means.
    pub mean: f64,
    /// Standard deviation between repeats of the whole suite; absent with fewer than two repeats.
    pub standard_deviation: Option<f64>,
}

/// Comparison of one metric of one variant with the control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricReport {
    /// Name of the metric.
    pub metric: String,
    /// Whether lower or higher values are better.
    pub direction: Direction,
    /// Mean and standard deviation of the variant.
    pub summary: MetricSummary,
    /// Number of cases that have the metric in both variant and control.
    pub cases: usize,
    /// Variant mean minus control mean, paired by case.
    pub difference: f64,
    /// Two-sided confidence interval of the difference at 1 − 2 alpha, so that each bound holds at 1 − alpha;
    /// absent with fewer than two cases.
    pub interval: Option<Interval>,
    /// P-value of the two-sided sign-flip test over cases.
    pub p_value: f64,
    /// P-value after Holm's correction over all variants and metrics.
    pub p_holm: f64,
    /// Smallest p-value attainable with this number of cases.
    pub smallest_p: f64,
    /// Largest acceptable degradation, in the unit of the metric.
    pub margin: f64,
    /// Whether a degradation by the margin is excluded.
    pub non_inferior: bool,
    /// Cases required to exclude the margin with the required power if there is no difference; absent when
    /// the cases do not vary.
    pub cases_needed: Option<u64>,
}

/// Compares variants with a control.
pub fn ablation(
    control: (&str, &[BenchmarkResult]),
    variants: &[(&str, &[BenchmarkResult])],
    settings: &AblationSettings,
) -> Result<AblationReport, StatsError> {
    if !(settings.alpha > 0.0 && settings.alpha < 0.5) {
        return Err(StatsError::OutOfRange {
            what: "alpha",
            value: settings.alpha,
            range: "(0, 0.5)",
        });
    }
    let min_cases =
        usize::try_from(differences_needed(settings.alpha, Alternative::Greater)?).unwrap_or(usize::MAX);
    let mut found: Vec<(String, Vec<MetricReport>)> = Vec::new();
    for (name, results) in variants {
        let mut metrics = Vec::new();
        for (metric, margin) in &settings.metrics {
            metrics.extend(compare_metric(
                control.1, results, metric, *margin, settings, min_cases,
            )?);
        }
        found.push(((*name).to_owned(), metrics));
    }
    let p_values: Vec<f64> = found
        .iter()
        .flat_map(|(_, metrics)| metrics.iter().map(|metric| metric.p_value))
        .collect();
    let mut adjusted = holm(&p_values)?.into_iter();
    let variants = found
        .into_iter()
        .map(|(variant, mut metrics)| {
            for metric in &mut metrics {
                metric.p_holm = adjusted.next().unwrap_or(1.0);
            }
            decide_verdict(variant, metrics, settings.alpha, min_cases)
        })
        .collect();
    let control_metrics = settings
        .metrics
        .keys()
        .filter_map(|metric| Some((metric.clone(), summarize(control.1, metric)?)))
        .collect();
    Ok(AblationReport {
        control: control.0.to_owned(),
        control_metrics,
        variants,
        alpha: settings.alpha,
    })
}

/// Returns `None` when no case has this metric in both.
fn compare_metric(
    control: &[BenchmarkResult],
    variant: &[BenchmarkResult],
    metric: &str,
    margin: Margin,
    settings: &AblationSettings,
    min_cases: usize,
) -> Result<Option<MetricReport>, StatsError> {
    let (before, now) = (case_means(control, metric), case_means(variant, metric));
    let shared: Vec<(f64, f64)> = before
        .iter()
        .filter_map(|(case, before)| Some((*before, *now.get(case)?)))
        .collect();
    let differences: Vec<f64> = shared.iter().map(|(before, now)| now - before).collect();
    let (Ok(difference), Some(summary)) = (mean(&differences), summarize(variant, metric)) else {
        return Ok(None);
    };
    let direction = settings
        .directions
        .get(metric)
        .copied()
        .unwrap_or_else(|| default_direction(metric));
    let margin = match margin {
        Margin::Absolute(margin) => margin,
        Margin::Relative(share) => {
            share * mean(&shared.iter().map(|(before, _)| *before).collect::<Vec<_>>())?.abs()
        }
    };
    let interval = mean_interval(&differences, 1.0 - 2.0 * settings.alpha)
        .ok()
        .map(|estimate| estimate.interval);
    let non_inferior = differences.len() >= min_cases
        && interval.is_some_and(|interval| match direction {
            Direction::Higher => interval.low > -margin,
            Direction::Lower => interval.high < margin,
        });
    let cases_needed = standard_deviation(&differences)
        .ok()
        .filter(|deviation| *deviation > 0.0 && margin > 0.0)
        .and_then(|deviation| {
            paired_t_pairs(
                margin / deviation,
                settings.power,
                settings.alpha,
                Alternative::Greater,
            )
            .ok()
        });
    Ok(Some(MetricReport {
        metric: metric.to_owned(),
        direction,
        summary,
        cases: differences.len(),
        difference,
        interval,
        p_value: sign_flip(&differences, Alternative::TwoSided, PERMUTATIONS, SEED)?.p_value,
        p_holm: 1.0,
        smallest_p: smallest_p(differences.len() as u64, Alternative::TwoSided),
        margin,
        non_inferior,
        cases_needed: cases_needed.map(|cases| cases.max(min_cases as u64)),
    }))
}

fn decide_verdict(
    variant: String,
    metrics: Vec<MetricReport>,
    alpha: f64,
    min_cases: usize,
) -> VariantReport {
    let worse = |metric: &&MetricReport| match metric.direction {
        Direction::Higher => metric.difference < 0.0,
        Direction::Lower => metric.difference > 0.0,
    };
    let mut reasons: Vec<String> = Vec::new();
    let harmful: Vec<&MetricReport> = metrics
        .iter()
        .filter(|metric| worse(metric) && metric.p_holm <= alpha && !metric.non_inferior)
        .collect();
    reasons.extend(harmful.iter().map(|metric| {
        format!(
            "{} is worse by {:.4} ({} after Holm's correction)",
            metric.metric,
            metric.difference.abs(),
            PValue(metric.p_holm)
        )
    }));
    let open: Vec<&MetricReport> = metrics.iter().filter(|metric| !metric.non_inferior).collect();
    let verdict = if !harmful.is_empty() {
        AblationVerdict::Harmful
    } else if metrics.is_empty() {
        reasons.push("no case has a metric in both the control and this variant".to_owned());
        AblationVerdict::Inconclusive
    } else if open.is_empty() {
        reasons.push("non-inferior in every metric".to_owned());
        AblationVerdict::Ships
    } else {
        reasons.extend(open.iter().map(|metric| {
            let needed = metric.cases_needed.map_or_else(
                || format!("at least {min_cases} cases are required"),
                |cases| format!("about {cases} cases are required"),
            );
            format!(
                "{}: a degradation by {:.4} cannot be excluded with {} cases; {needed}",
                metric.metric, metric.margin, metric.cases
            )
        }));
        AblationVerdict::Inconclusive
    };
    VariantReport {
        variant,
        verdict,
        reasons,
        metrics,
    }
}

/// Mean of each case over its repeats.
fn case_means<'a>(results: &'a [BenchmarkResult], metric: &str) -> BTreeMap<&'a str, f64> {
    by_case(results)
        .into_iter()
        .filter_map(|(case, results)| {
            let values: Vec<f64> = results
                .iter()
                .filter_map(|result| value_of(result, metric))
                .collect();
            Some((case, mean(&values).ok()?))
        })
        .collect()
}

/// Metrics of unanswered results say nothing about the target.
fn value_of(result: &BenchmarkResult, metric: &str) -> Option<f64> {
    let value = result.metric(metric).filter(|value| value.is_finite())?;
    (metric == "pass" || super::summary::answered(result)).then_some(value)
}

fn summarize(results: &[BenchmarkResult], metric: &str) -> Option<MetricSummary> {
    let means: Vec<f64> = case_means(results, metric).into_values().collect();
    let repeats: BTreeSet<u32> = results.iter().map(|result| result.repeat).collect();
    let of_repeats: Vec<f64> = repeats
        .into_iter()
        .filter_map(|repeat| {
            let values: Vec<f64> = results
                .iter()
                .filter(|result| result.repeat == repeat)
                .filter_map(|result| value_of(result, metric))
                .collect();
            mean(&values).ok()
        })
        .collect();
    Some(MetricSummary {
        mean: mean(&means).ok()?,
        standard_deviation: standard_deviation(&of_repeats).ok(),
    })
}
