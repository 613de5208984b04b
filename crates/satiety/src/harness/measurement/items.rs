//! Item analysis: how much information each case carries about the versions, and all cases together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MeasureSettings;
use super::matrix::{Matrix, rate};
use crate::stats::{clustered_mean_interval, mean};

/// Item analysis of the cases of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Items {
    /// Number of recent versions considered for "always" and "never".
    pub versions: usize,
    /// Ids of cases that always passed and carry no information.
    pub always_pass: Vec<String>,
    /// Ids of cases that never passed: too hard, or broken.
    pub never_pass: Vec<String>,
    /// Ids of cases that pass only sometimes within one version.
    pub flaky: Vec<String>,
    /// Share of cases that always passed; absent with too few versions.
    pub dead_share: Option<f64>,
    /// Mean of `4 p̄(1 − p̄)` over cases: 1 if every case splits the versions in half.
    pub information: f64,
    /// KR-20 (Cronbach's alpha with repeats) over versions; absent if the totals do not vary.
    pub reliability: Option<f64>,
    /// Correlation of each varying case with the rest; a negative value is suspicious.
    pub discrimination: Vec<Discrimination>,
    /// Published saturation index `exp(−R²)` of the five best versions, with `n_eff = √n`.
    pub s_index: Option<f64>,
    /// Saturation index with the standard error of paired differences.
    pub s_index_paired: Option<f64>,
    /// Range of the versions' means divided by the noise of repeating a run; absent without repeats or noise.
    pub signal_to_noise: Option<f64>,
}

/// Correlation of a case with the rest of the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Discrimination {
    /// Id of the case.
    pub case_id: String,
    /// Corrected item-total correlation, from -1 to 1.
    pub correlation: f64,
}

pub(super) fn items(matrix: &Matrix, settings: &MeasureSettings) -> Items {
    let window = settings.window.min(matrix.versions).max(1);
    let (mut always, mut never, mut flaky, mut rates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut judged = 0_usize;
    for case in &matrix.cases {
        let recent: Vec<_> = case.tallies.iter().rev().take(window).flatten().collect();
        // A case that is new in the window cannot be dead yet.
        if recent.len() == window {
            judged += 1;
            if recent.iter().all(|tally| tally.passes == tally.tries) {
                always.push(case.case_id.clone());
            } else if recent.iter().all(|tally| tally.passes == 0) {
                never.push(case.case_id.clone());
            }
        }
        if let Some(now) = case.tallies.last().copied().flatten()
            && now.tries >= 5
            && rate(now) > 0.2
            && rate(now) < 0.8
        {
            flaky.push(case.case_id.clone());
        }
        let known: Vec<f64> = case.tallies.iter().flatten().map(|tally| rate(*tally)).collect();
        rates.extend(mean(&known).ok());
    }
    let enough = window >= settings.minimum_versions && judged > 0;
    let rows = matrix.complete();
    let totals = column_means(&rows);
    Items {
        versions: window,
        dead_share: enough.then(|| always.len() as f64 / judged as f64),
        always_pass: always,
        never_pass: never,
        flaky,
        information: mean(&rates.iter().map(|p| 4.0 * p * (1.0 - p)).collect::<Vec<_>>()).unwrap_or(0.0),
        reliability: reliability(&rows),
        discrimination: discrimination(matrix, &totals, rows.len()),
        s_index: s_index(&rows, &totals),
        s_index_paired: s_index_paired(&rows, &totals),
        signal_to_noise: signal_to_noise(matrix, &totals),
    }
}

/// Returns the mean of each version over the cases that all versions decided.
fn column_means(rows: &[Vec<f64>]) -> Vec<f64> {
    let versions = rows.first().map_or(0, Vec::len);
    (0..versions)
        .filter_map(|version| mean(&column(rows, version)).ok())
        .collect()
}

fn column(rows: &[Vec<f64>], version: usize) -> Vec<f64> {
    rows.iter().filter_map(|row| row.get(version).copied()).collect()
}

fn population_variance(values: &[f64]) -> Option<f64> {
    let center = mean(values).ok()?;
    mean(
        &values
            .iter()
            .map(|value| (value - center).powi(2))
            .collect::<Vec<_>>(),
    )
    .ok()
}

fn reliability(rows: &[Vec<f64>]) -> Option<f64> {
    let n = rows.len() as f64;
    let versions = rows.first()?.len();
    if versions < 2 || rows.len() < 2 {
        return None;
    }
    let totals: Vec<f64> = (0..versions)
        .map(|version| column(rows, version).iter().sum())
        .collect();
    let spread = population_variance(&totals).filter(|&spread| spread > 1e-12)?;
    let single: f64 = rows.iter().filter_map(|row| population_variance(row)).sum();
    Some(n / (n - 1.0) * (1.0 - single / spread))
}

fn discrimination(matrix: &Matrix, totals: &[f64], cases: usize) -> Vec<Discrimination> {
    let n = cases as f64;
    matrix
        .cases
        .iter()
        .filter_map(|case| {
            let row: Vec<f64> = case
                .tallies
                .iter()
                .map(|tally| tally.map(rate))
                .collect::<Option<_>>()?;
            let rest: Vec<f64> = totals
                .iter()
                .zip(&row)
                .map(|(total, own)| total * n - own)
                .collect();
            let correlation = correlation(&row, &rest)?;
            Some(Discrimination {
                case_id: case.case_id.clone(),
                correlation,
            })
        })
        .collect()
}

/// Pearson correlation; `None` if one side does not vary, or with fewer than three versions, where it is
/// always ±1.
pub(super) fn correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() < 3 {
        return None;
    }
    let (center_x, center_y) = (mean(x).ok()?, mean(y).ok()?);
    let products: Vec<f64> = x
        .iter()
        .zip(y)
        .map(|(x, y)| (x - center_x) * (y - center_y))
        .collect();
    let spread = (population_variance(x)? * population_variance(y)?).sqrt();
    (spread > 1e-12).then(|| (mean(&products).unwrap_or(0.0) / spread).clamp(-1.0, 1.0))
}

/// Returns the best and the fifth-best version.
fn first_and_fifth(totals: &[f64]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..totals.len()).collect();
    order.sort_by(|&a, &b| {
        totals
            .get(b)
            .partial_cmp(&totals.get(a))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    Some((*order.first()?, *order.get(4)?))
}

fn index_of(difference: f64, standard_error: f64) -> f64 {
    if difference.abs() < 1e-12 {
        1.0
    } else if standard_error <= 0.0 {
        0.0
    } else {
        (-(difference / standard_error).powi(2)).exp()
    }
}

fn s_index(rows: &[Vec<f64>], totals: &[f64]) -> Option<f64> {
    let (first, fifth) = first_and_fifth(totals)?;
    let (best, other) = (*totals.get(first)?, *totals.get(fifth)?);
    let effective = (rows.len() as f64).sqrt();
    let error = ((best * (1.0 - best) + other * (1.0 - other)) / effective).sqrt();
    Some(index_of(best - other, error))
}

fn s_index_paired(rows: &[Vec<f64>], totals: &[f64]) -> Option<f64> {
    let (first, fifth) = first_and_fifth(totals)?;
    let differences: Vec<f64> = column(rows, first)
        .iter()
        .zip(column(rows, fifth))
        .map(|(best, other)| best - other)
        .collect();
    let clusters: Vec<usize> = (0..differences.len()).collect();
    let estimate = clustered_mean_interval(&differences, &clusters, 0.95).ok()?;
    Some(index_of(mean(&differences).ok()?, estimate.standard_error))
}

fn signal_to_noise(matrix: &Matrix, totals: &[f64]) -> Option<f64> {
    if totals.len() < 2 {
        return None;
    }
    let variances: Vec<f64> = (0..matrix.versions)
        .filter_map(|version| {
            // Variance of one repeat of the whole suite: the mean of n independent results.
            let single: Vec<f64> = matrix
                .cases
                .iter()
                .filter_map(|case| case.tallies.get(version).copied().flatten())
                .filter(|tally| tally.tries >= 2)
                .map(|tally| {
                    let (passes, tries) = (tally.passes as f64, tally.tries as f64);
                    passes * (tries - passes) / (tries * (tries - 1.0))
                })
                .collect();
            mean(&single).ok().map(|mean| mean / single.len() as f64)
        })
        .collect();
    let noise = mean(&variances).ok()?.sqrt();
    let low = totals.iter().copied().fold(f64::INFINITY, f64::min);
    let high = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (noise > 0.0).then(|| (high - low) / noise)
}
