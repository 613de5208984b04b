//! Does a change ship? A control and one or more variants, run on the same cases with repeats. Everything is paired by
//! case: a case's mean over its repeats in the variant minus that in the control is one observation, so repeats of a
//! case are never mistaken for independent evidence.
//!
//! *Ships* needs every metric to be non-inferior: the lower bound of its interval is above a stated margin. (Asking all
//! of them to hold needs no correction; each is one more way to fail.) *Harmful* needs a metric that is significantly
//! worse, after Holm over all variants and metrics, and not non-inferior. Everything else is inconclusive, and the
//! report says how many cases it would take. "Non-negative impact" would fail half of all neutral changes.
//!
//! Numbers in, verdicts out; reports are made elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{
    Alternative, Interval, StatsError, differences_needed, holm, mean, mean_interval, paired_t_pairs,
    sign_flip, smallest_p, standard_deviation,
};

use super::expected::Direction;
use super::matching::default_direction;
use super::run::BenchmarkResult;
use super::summary::by_case;

/// Random sign patterns where there are too many to count, and their seed, so that a verdict can be repeated.
const PERMUTATIONS: u64 = 9_999;
const SEED: u64 = 20;

/// How much worse a metric may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Margin {
    /// By so much.
    Absolute(f64),
    /// By this share of the control's mean.
    Relative(f64),
}

/// What is measured and how sure it must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AblationSettings {
    /// The error rate of the whole study.
    pub alpha: f64,
    /// How probable finding a difference of the margin should be, for the number of cases needed.
    pub power: f64,
    /// Metric → margin; `pass`, `score`, `llm_judge_score`, `latency_ms`, `token_cost`, `cost_usd`, or any reported one.
    pub metrics: BTreeMap<String, Margin>,
    /// Which side is good, for metrics whose name does not tell.
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

/// What follows for a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AblationVerdict {
    /// Non-inferior in every metric.
    Ships,
    /// Worse in some.
    Harmful,
    /// It cannot be said.
    Inconclusive,
}

/// A study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AblationReport {
    /// The control's name.
    pub control: String,
    /// Mean and spread of the control's metrics.
    pub control_metrics: BTreeMap<String, MetricSummary>,
    /// Each variant, in the order given.
    pub variants: Vec<VariantReport>,
    /// The error rate.
    pub alpha: f64,
}

/// A variant beside the control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantReport {
    /// Its name.
    pub variant: String,
    /// What follows.
    pub verdict: AblationVerdict,
    /// Why.
    pub reasons: Vec<String>,
    /// Each metric.
    pub metrics: Vec<MetricReport>,
}

/// Mean ± sd of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSummary {
    /// Mean over cases of the cases' means.
    pub mean: f64,
    /// Standard deviation between repeats of the whole suite; absent below two repeats.
    pub standard_deviation: Option<f64>,
}

/// One metric of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricReport {
    /// The metric.
    pub metric: String,
    /// Which side is good.
    pub direction: Direction,
    /// The variant's mean ± sd.
    pub summary: MetricSummary,
    /// Cases that both have.
    pub cases: usize,
    /// Variant − control.
    pub difference: f64,
    /// Its interval, two-sided at 1 − 2 alpha, so that each bound holds at 1 − alpha; absent below two cases.
    pub interval: Option<Interval>,
    /// The sign-flip test over cases, two-sided.
    pub p_value: f64,
    /// After Holm over all variants and metrics.
    pub p_holm: f64,
    /// The smallest p-value that so many cases can reach.
    pub smallest_p: f64,
    /// How much worse it may be, in the metric's unit.
    pub margin: f64,
    /// Whether being worse by the margin is excluded.
    pub non_inferior: bool,
    /// Cases needed to exclude it with the wanted power when there is no difference; absent when they do not vary.
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
    let fewest =
        usize::try_from(differences_needed(settings.alpha, Alternative::Greater)?).unwrap_or(usize::MAX);
    let mut found: Vec<(String, Vec<MetricReport>)> = Vec::new();
    for (name, results) in variants {
        let mut metrics = Vec::new();
        for (metric, margin) in &settings.metrics {
            metrics.extend(compare_metric(
                control.1, results, metric, *margin, settings, fewest,
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
            judge(variant, metrics, settings.alpha, fewest)
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

/// Absent when the two have no case with this metric in common.
fn compare_metric(
    control: &[BenchmarkResult],
    variant: &[BenchmarkResult],
    metric: &str,
    margin: Margin,
    settings: &AblationSettings,
    fewest: usize,
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
    let non_inferior = differences.len() >= fewest
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
        cases_needed: cases_needed.map(|cases| cases.max(fewest as u64)),
    }))
}

fn judge(variant: String, metrics: Vec<MetricReport>, alpha: f64, fewest: usize) -> VariantReport {
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
            "{} is worse by {:.4} (p = {:.4} after Holm)",
            metric.metric,
            metric.difference.abs(),
            metric.p_holm
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
                || format!("at least {fewest} cases are needed"),
                |cases| format!("{cases} cases would show it"),
            );
            format!(
                "{}: being worse by {:.4} is not excluded with {} cases; {needed}",
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

/// The mean of each case over its repeats.
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

/// Figures of results that were not answered say nothing about the target.
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
