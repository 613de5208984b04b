//! Statistical comparison of two systems on the same queries: paired differences, two significance tests, a
//! confidence interval, the smallest detectable difference, and a verdict.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cancel::{Cancellation, Cancelled};
use crate::stats::{
    Alternative, BootstrapSettings, Interval, StatsError, bootstrap_mean, differences, holm, one_sample_t,
    paired_t_detectable, sign_flip, standard_deviation,
};

use super::difference::{DifferenceClass, DifferenceThresholds, difference};
use super::{Evaluation, Kind, Measure, RetrievalError, Run};

/// Settings of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonSettings {
    /// Family-wise significance level of the comparison.
    pub alpha: f64,
    /// Settings of the bootstrap intervals.
    pub bootstrap: BootstrapSettings,
    /// Number of random sign patterns of the randomization test, if there are too many to enumerate.
    pub permutations: u64,
    /// Number of the worst regressions to list.
    pub regressions: usize,
    /// Thresholds of the difference classes.
    pub thresholds: DifferenceThresholds,
}

impl Default for ComparisonSettings {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            bootstrap: BootstrapSettings::default(),
            permutations: 9_999,
            regressions: 5,
            thresholds: DifferenceThresholds::default(),
        }
    }
}

/// Verdict about the treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ComparisonVerdict")]
pub enum Verdict {
    /// Significantly better than the control.
    Better,
    /// Significantly worse than the control.
    Worse,
    /// No significant difference was found.
    NoEvidence,
}

/// Comparison of two systems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Verdict of the first measure.
    pub verdict: Verdict,
    /// Number of queries evaluated for both systems.
    pub queries: usize,
    /// Results by measure; the first one decides the verdict.
    pub measures: Vec<MeasureComparison>,
    /// Queries with the largest losses by the first measure.
    pub regressions: Vec<QueryChange>,
    /// Number of queries by difference class.
    pub differences: DifferenceCounts,
}

/// Comparison by one measure; differences are treatment − control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureComparison {
    /// Measure that is compared.
    pub measure: Measure,
    /// Number of queries with a value for both systems.
    pub queries: usize,
    /// Mean of the control over these queries.
    pub control: f64,
    /// Mean of the treatment over these queries.
    pub treatment: f64,
    /// Mean difference, treatment − control.
    pub difference: f64,
    /// Bootstrap interval of the mean difference; absent with fewer than two queries.
    pub ci: Option<Interval>,
    /// Two-sided p-value of the sign-flip randomization test.
    pub p_randomization: f64,
    /// Two-sided p-value of the paired t-test; absent if all differences are equal.
    pub p_t: Option<f64>,
    /// p-value of the randomization test after Holm correction over all measures.
    pub p_holm: f64,
    /// Mean difference divided by the standard deviation of the differences; absent if they do not vary.
    pub effect_size: Option<f64>,
    /// Number of queries for which the treatment is better.
    pub wins: usize,
    /// Number of queries for which the treatment is worse.
    pub losses: usize,
    /// Number of queries without a difference.
    pub ties: usize,
    /// Smallest true difference detectable with a power of 80 %; absent if the differences do not vary.
    pub detectable: Option<f64>,
    /// Verdict of this measure after correction.
    pub verdict: Verdict,
}

/// Change of one query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryChange {
    /// Id of the query.
    pub query: String,
    /// Value of the control.
    pub control: f64,
    /// Value of the treatment.
    pub treatment: f64,
    /// Difference, treatment − control.
    pub difference: f64,
}

/// Number of queries by difference class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DifferenceCounts {
    /// Queries with identical results.
    pub identical: usize,
    /// Queries with minor differences.
    pub minor: usize,
    /// Queries with major differences.
    pub major: usize,
    /// Queries with incompatible results.
    pub incompatible: usize,
}

/// Errors of a comparison.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ComparisonError {
    /// The systems share no usable query.
    #[error(transparent)]
    Retrieval(#[from] RetrievalError),
    /// A setting is invalid for the statistical tests.
    #[error(transparent)]
    Statistics(#[from] StatsError),
    /// The comparison was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Compares two systems evaluated with the same measures and judgments. Queries evaluated for only one of
/// them are ignored.
pub fn compare(
    control: (&Run, &Evaluation),
    treatment: (&Run, &Evaluation),
    settings: &ComparisonSettings,
) -> Result<Comparison, ComparisonError> {
    compare_with_cancellation(control, treatment, settings, &Cancellation::default())
}

/// Like [`compare`], but fails with [`ComparisonError::Cancelled`] once the flag is set. Checked before each
/// measure.
pub fn compare_with_cancellation(
    control: (&Run, &Evaluation),
    treatment: (&Run, &Evaluation),
    settings: &ComparisonSettings,
    cancellation: &Cancellation,
) -> Result<Comparison, ComparisonError> {
    let pairs = shared_rows(control.1, treatment.1);
    let mut measures = Vec::new();
    for index in 0..control.1.measures().len() {
        cancellation.check()?;
        measures.extend(compare_measure(control.1, treatment.1, &pairs, index, settings)?);
    }
    if measures.is_empty() {
        return Err(RetrievalError::NoSharedQueries.into());
    }
    decide(measures.iter_mut(), settings.alpha)?;
    let first = control
        .1
        .measures()
        .iter()
        .position(|measure| *measure == measures[0].measure);
    Ok(Comparison {
        verdict: measures[0].verdict,
        queries: pairs.len(),
        regressions: changes(control.1, treatment.1, &pairs, first.unwrap_or(0))
            .into_iter()
            .take_while(|change| change.difference < 0.0)
            .take(settings.regressions)
            .collect(),
        differences: count_differences(control, treatment, &pairs, &settings.thresholds),
        measures,
    })
}

/// Comparison within a group of queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupComparison {
    /// Field value that the queries of the group share.
    pub value: String,
    /// Comparison by the first measure, with Holm correction over all groups.
    pub comparison: MeasureComparison,
}

/// Compares two systems by the first measure within groups of queries with the same field value. Group
/// results are exploratory; the verdict is based on all queries.
pub fn compare_groups(
    control: &Evaluation,
    treatment: &Evaluation,
    field: impl Fn(&str) -> Option<String>,
    settings: &ComparisonSettings,
) -> Result<Vec<GroupComparison>, ComparisonError> {
    let mut groups: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    for pair in shared_rows(control, treatment) {
        if let Some(value) = field(&control.queries()[pair.0]) {
            groups.entry(value).or_default().push(pair);
        }
    }
    let mut found = Vec::new();
    for (value, pairs) in groups {
        let comparison = compare_measure(control, treatment, &pairs, 0, settings)?;
        found.extend(comparison.map(|comparison| GroupComparison { value, comparison }));
    }
    decide(
        found.iter_mut().map(|group| &mut group.comparison),
        settings.alpha,
    )?;
    Ok(found)
}

/// Compares one measure over the pairs with both values; `None` if there are none.
fn compare_measure(
    control: &Evaluation,
    treatment: &Evaluation,
    pairs: &[(usize, usize)],
    index: usize,
    settings: &ComparisonSettings,
) -> Result<Option<MeasureComparison>, StatsError> {
    let (old, new): (Vec<f64>, Vec<f64>) = pairs
        .iter()
        .filter_map(|&(a, b)| Some((control.row(a)[index]?, treatment.row(b)[index]?)))
        .unzip();
    if old.is_empty() {
        return Ok(None);
    }
    compare_values(control.measures()[index], &old, &new, settings).map(Some)
}

/// Applies the Holm correction and sets the verdicts.
fn decide<'a>(found: impl Iterator<Item = &'a mut MeasureComparison>, alpha: f64) -> Result<(), StatsError> {
    let found: Vec<&mut MeasureComparison> = found.collect();
    if found.is_empty() {
        return Ok(());
    }
    let adjusted = holm(
        &found
            .iter()
            .map(|found| found.p_randomization)
            .collect::<Vec<_>>(),
    )?;
    for (found, p) in found.into_iter().zip(adjusted) {
        found.p_holm = p;
        found.verdict = match found.difference {
            difference if p <= alpha && difference > 0.0 => Verdict::Better,
            difference if p <= alpha && difference < 0.0 => Verdict::Worse,
            _ => Verdict::NoEvidence,
        };
    }
    Ok(())
}

/// Differences of the first measure by query, largest loss first.
pub fn query_changes(control: &Evaluation, treatment: &Evaluation) -> Vec<QueryChange> {
    let pairs = shared_rows(control, treatment);
    let first = (0..control.measures().len()).find(|index| {
        pairs
            .iter()
            .any(|&(a, b)| control.row(a)[*index].is_some() && treatment.row(b)[*index].is_some())
    });
    changes(control, treatment, &pairs, first.unwrap_or(0))
}

/// Pairs of rows with the same query.
fn shared_rows(control: &Evaluation, treatment: &Evaluation) -> Vec<(usize, usize)> {
    // Both are in the order of the judgments, so one pass finds all pairs.
    let mut pairs = Vec::new();
    let mut others = treatment.queries().iter().enumerate().peekable();
    let wanted: rustc_hash::FxHashSet<&str> = control.queries().iter().map(String::as_str).collect();
    for (row, query) in control.queries().iter().enumerate() {
        while others
            .next_if(|(_, other)| !wanted.contains(other.as_str()))
            .is_some()
        {}
        if let Some((other, _)) = others.next_if(|(_, other)| *other == query) {
            pairs.push((row, other));
        }
    }
    pairs
}

fn compare_values(
    measure: Measure,
    control: &[f64],
    treatment: &[f64],
    settings: &ComparisonSettings,
) -> Result<MeasureComparison, StatsError> {
    let changes = differences(treatment, control)?;
    let n = changes.len();
    let mean = |values: &[f64]| crate::stats::mean(values);
    let flipped = sign_flip(
        &changes,
        Alternative::TwoSided,
        settings.permutations,
        settings.bootstrap.seed,
    )?;
    let deviation = if n > 1 { standard_deviation(&changes)? } else { 0.0 };
    let (mut t, mut detectable) = (None, None);
    if deviation > 0.0 {
        t = Some(one_sample_t(
            &changes,
            Alternative::TwoSided,
            1.0 - settings.alpha,
        )?);
        detectable =
            Some(paired_t_detectable(n as u64, 0.8, settings.alpha, Alternative::TwoSided)? * deviation);
    }
    Ok(MeasureComparison {
        measure,
        queries: n,
        control: mean(control)?,
        treatment: mean(treatment)?,
        difference: mean(&changes)?,
        ci: if n > 1 {
            Some(bootstrap_mean(&changes, &settings.bootstrap)?.interval)
        } else {
            None
        },
        p_randomization: flipped.p_value,
        p_t: t.map(|test| test.p_value),
        p_holm: 1.0,
        effect_size: t.map(|test| test.effect_size),
        wins: changes.iter().filter(|change| **change > 0.0).count(),
        losses: changes.iter().filter(|change| **change < 0.0).count(),
        ties: changes.iter().filter(|change| **change == 0.0).count(),
        detectable,
        verdict: Verdict::NoEvidence,
    })
}

fn changes(
    control: &Evaluation,
    treatment: &Evaluation,
    pairs: &[(usize, usize)],
    measure: usize,
) -> Vec<QueryChange> {
    let mut changes: Vec<QueryChange> = pairs
        .iter()
        .filter_map(|&(a, b)| {
            let (old, new) = (control.row(a)[measure]?, treatment.row(b)[measure]?);
            Some(QueryChange {
                query: control.queries()[a].clone(),
                control: old,
                treatment: new,
                difference: new - old,
            })
        })
        .collect();
    changes.sort_by(|a, b| a.difference.total_cmp(&b.difference));
    changes
}

fn count_differences(
    control: (&Run, &Evaluation),
    treatment: (&Run, &Evaluation),
    pairs: &[(usize, usize)],
    thresholds: &DifferenceThresholds,
) -> DifferenceCounts {
    let mrr = control
        .1
        .measures()
        .iter()
        .position(|measure| measure.kind == Kind::Mrr);
    let mut counts = DifferenceCounts::default();
    for &(a, b) in pairs {
        let query = &control.1.queries()[a];
        let old: Vec<&str> = control.0.documents(query).take(thresholds.depth).collect();
        let new: Vec<&str> = treatment.0.documents(query).take(thresholds.depth).collect();
        let delta = mrr.and_then(|at| Some(treatment.1.row(b)[at]? - control.1.row(a)[at]?));
        match difference(&old, &new, delta, thresholds).class {
            DifferenceClass::Identical => counts.identical += 1,
            DifferenceClass::Minor => counts.minor += 1,
            DifferenceClass::Major => counts.major += 1,
            DifferenceClass::Incompatible => counts.incompatible += 1,
        }
    }
    counts
}

/// Result of a non-inferiority gate with a margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// A loss beyond the margin is ruled out.
    Pass,
    /// A measure is significantly worse, by more than the margin.
    Fail,
    /// A loss beyond the margin is neither shown nor ruled out.
    Inconclusive,
}

impl Comparison {
    /// Applies a non-inferiority margin: fails if any measure is worse (after Holm) by more than the margin,
    /// passes if the interval of the first measure is above −margin, and is inconclusive otherwise.
    pub fn gate(&self, margin: f64) -> Gate {
        let worse = |found: &MeasureComparison| found.verdict == Verdict::Worse && found.difference < -margin;
        if self.measures.iter().any(worse) {
            return Gate::Fail;
        }
        let low = self
            .measures
            .first()
            .and_then(|found| found.ci)
            .map(|interval| interval.low);
        match low {
            Some(low) if low >= -margin => Gate::Pass,
            _ => Gate::Inconclusive,
        }
    }
}
