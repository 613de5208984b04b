//! Headroom of a suite: how much better a successor could be, and whether this suite would detect it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, rate};
use super::{MeasureError, MeasureSettings};
use crate::stats::bootstrap::replicates;
use crate::stats::power::{differences_needed, effective_sample_size, normal_detectable, smallest_p};
use crate::stats::{Alternative, mean, variance, wilson};

/// Headroom of a suite, and whether it is detectable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headroom {
    /// Number of cases in the suite.
    pub cases: u64,
    /// Number of cases that the accepted version does not always pass.
    pub failing: u64,
    /// Mean distance of the cases to the ceiling, as a share.
    pub headroom: f64,
    /// 95 % upper bound of the failure rate: `1 − 0.05^(1/n)` without failures, Wilson's bound otherwise.
    pub upper_bound: f64,
    /// Smallest one-sided p-value that a successor without failures could reach: `2^−failing`.
    pub p_floor: f64,
    /// Minimum number of failing cases with which an improvement can be shown.
    pub failing_needed: u64,
    /// Smallest improvement that is detected with the desired power.
    pub detectable: f64,
    /// Headroom divided by `detectable`; absent if any improvement would be detected. Below 1, closing all
    /// headroom goes undetected.
    pub detectability: Option<f64>,
    /// Effective number of independent cases.
    pub effective_cases: f64,
    /// Probability, over resampled clusters of cases, that closing all headroom would go undetected.
    pub saturation: f64,
    /// Number of cases of this kind that would make the headroom detectable; absent without headroom.
    pub cases_needed: Option<u64>,
}

/// Sums over the cases of a cluster.
#[derive(Clone, Copy, Default)]
struct Sums {
    cases: f64,
    gaps: f64,
    squares: f64,
    noise: f64,
}

pub(super) fn headroom(matrix: &Matrix, settings: &MeasureSettings) -> Result<Headroom, MeasureError> {
    let ceiling = settings.noise_ceiling;
    let (mut gaps, mut noises, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let decided = matrix
        .cases
        .iter()
        .filter_map(|case| Some((case, case.tallies.last().copied().flatten()?)));
    for (case, tally) in decided {
        gaps.push(ceiling - rate(tally));
        // Unbiased estimate of p(1 − p)/R, the noise of the successor's repeats. The noise of the accepted
        // version is already in the spread of the gaps.
        let (passes, tries) = (tally.passes as f64, tally.tries as f64);
        noises.push(if tally.tries < 2 {
            0.0
        } else {
            passes * (tries - passes) / (tries * tries * (tries - 1.0))
        });
        names.push(case.cluster.as_deref());
    }
    let clusters = cluster_numbers(&names);
    let cases = gaps.len() as u64;
    let failing = gaps.iter().filter(|&&gap| gap > 0.0).count() as u64;
    let mean_gap = mean(&gaps)?.max(0.0);
    let design = design_effect(&gaps, &clusters)?;
    let sums = cluster_sums(&gaps, &noises, &clusters);
    // Detectable difference for unit spread and one case; everything else is proportional.
    let unit = normal_detectable(1.0, 1.0, settings.power, settings.alpha, Alternative::Greater)?;
    let whole = detect(sums.iter(), design, unit)?;
    let picks: Vec<f64> = (0..sums.len()).map(|index| index as f64).collect();
    let undetected = replicates(
        &picks,
        |drawn| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the values are the indices created above"
            )]
            let drawn = drawn.iter().filter_map(|&pick| sums.get(pick as usize));
            match detect(drawn, design, unit) {
                Ok(found) => f64::from(u8::from(found.ratio.is_some_and(|ratio| ratio < 1.0))),
                // Too few cases: any headroom would go undetected.
                Err(_) => 1.0,
            }
        },
        settings.seed,
        0..settings.resamples,
    )?;
    Ok(Headroom {
        cases,
        failing,
        headroom: mean_gap,
        upper_bound: if failing == 0 {
            1.0 - 0.05_f64.powf(1.0 / cases as f64)
        } else {
            // One-sided 95 %.
            wilson(failing, cases, 0.90)?.high
        },
        p_floor: smallest_p(failing, Alternative::Greater),
        failing_needed: differences_needed(settings.alpha, Alternative::Greater)?,
        detectable: whole.detectable,
        detectability: whole.ratio,
        effective_cases: cases as f64 / design,
        saturation: mean(&undetected)?,
        cases_needed: cases_needed(cases, whole.ratio),
    })
}

/// Number of cases needed: the detectable difference shrinks with the square root of the number of cases.
fn cases_needed(cases: u64, ratio: Option<f64>) -> Option<u64> {
    match ratio {
        None => Some(cases),
        Some(ratio) if ratio > 0.0 => {
            let needed = cases as f64 / (ratio * ratio);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be a small positive number"
            )]
            (needed < 1e15).then(|| needed.ceil() as u64)
        }
        Some(_) => None,
    }
}

struct Detection {
    detectable: f64,
    ratio: Option<f64>,
}

fn detect<'a>(
    clusters: impl Iterator<Item = &'a Sums>,
    design: f64,
    unit: f64,
) -> Result<Detection, MeasureError> {
    let mut all = Sums::default();
    for sums in clusters {
        all.cases += sums.cases;
        all.gaps += sums.gaps;
        all.squares += sums.squares;
        all.noise += sums.noise;
    }
    if all.cases < 2.0 {
        return Err(MeasureError::OneCase);
    }
    let mean = all.gaps / all.cases;
    // Gaps are in [−1, 1], so computing the variance from sums loses no precision.
    let spread = ((all.squares - all.cases * mean * mean) / (all.cases - 1.0)).max(0.0);
    // Remove the rounding error that remains if all gaps are equal.
    let spread = if spread < 1e-12 { 0.0 } else { spread };
    let deviation = (spread + all.noise / all.cases).sqrt();
    let effective = (all.cases / design).max(1.0);
    let detectable = unit * deviation / effective.sqrt();
    let ratio = if mean <= 1e-12 {
        Some(0.0)
    } else if detectable <= 0.0 {
        None
    } else {
        Some(mean / detectable)
    };
    Ok(Detection { detectable, ratio })
}

/// Numbers the clusters; a case without one is its own cluster.
fn cluster_numbers(names: &[Option<&str>]) -> Vec<usize> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut next = 0;
    let mut fresh = || {
        next += 1;
        next - 1
    };
    names
        .iter()
        .map(|name| match name {
            None => fresh(),
            Some(name) => *known.entry(name).or_insert_with(&mut fresh),
        })
        .collect()
}

fn cluster_sums(gaps: &[f64], noises: &[f64], clusters: &[usize]) -> Vec<Sums> {
    let mut sums: BTreeMap<usize, Sums> = BTreeMap::new();
    for ((gap, noise), cluster) in gaps.iter().zip(noises).zip(clusters) {
        let entry = sums.entry(*cluster).or_default();
        entry.cases += 1.0;
        entry.gaps += gap;
        entry.squares += gap * gap;
        entry.noise += noise;
    }
    sums.into_values().collect()
}

/// `1 + (m − 1) ρ` with the intra-class correlation from the analysis of variance, at least 1.
fn design_effect(gaps: &[f64], clusters: &[usize]) -> Result<f64, MeasureError> {
    let mut groups: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (gap, cluster) in gaps.iter().zip(clusters) {
        groups.entry(*cluster).or_default().push(*gap);
    }
    let (n, k) = (gaps.len() as f64, groups.len() as f64);
    if groups.len() == gaps.len() || groups.len() < 2 {
        return Ok(1.0);
    }
    let grand = mean(gaps)?;
    let (mut between, mut within, mut squares) = (0.0, 0.0, 0.0);
    for group in groups.values() {
        let (size, average) = (group.len() as f64, mean(group)?);
        between += size * (average - grand).powi(2);
        within += (size - 1.0) * variance(group).unwrap_or(0.0);
        squares += size * size;
    }
    let (between, within) = (between / (k - 1.0), within / (n - k));
    let typical = (n - squares / n) / (k - 1.0);
    let total = between + (typical - 1.0) * within;
    let correlation = if total > 0.0 {
        ((between - within) / total).clamp(0.0, 1.0)
    } else {
        0.0
    };
    Ok(n / effective_sample_size(n, (n / k).max(1.0), correlation)?)
}
