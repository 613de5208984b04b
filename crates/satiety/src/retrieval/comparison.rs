//! Is one system really better than another on the same queries? Paired differences, two tests, an interval, and a
//! verdict that also says what so few queries could not have shown.

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

/// What a comparison needs besides the values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonSettings {
    /// The error rate of the whole comparison.
    pub alpha: f64,
    /// The intervals.
    pub bootstrap: BootstrapSettings,
    /// Random sign patterns of the randomisation test, where there are too many to count.
    pub permutations: u64,
    /// How many of the worst regressions are listed.
    pub regressions: usize,
    /// When lists count as different.
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

/// What can be said about the treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is better.
    Better,
    /// It is worse.
    Worse,
    /// Neither was shown.
    NoEvidence,
}

/// Two systems, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The verdict of the first measure.
    pub verdict: Verdict,
    /// Queries that both were measured on.
    pub queries: usize,
    /// Each measure; the first decides.
    pub measures: Vec<MeasureComparison>,
    /// Where the treatment lost most by the first measure.
    pub regressions: Vec<QueryChange>,
    /// How many queries are answered how differently.
    pub differences: DifferenceCounts,
}

/// Two systems by one measure; differences are treatment − control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureComparison {
    /// The measure.
    pub measure: Measure,
    /// Queries for which it says something about both.
    pub queries: usize,
    /// The control's mean over them.
    pub control: f64,
    /// The treatment's mean over them.
    pub treatment: f64,
    /// The mean difference.
    pub difference: f64,
    /// Its bootstrap interval, resampling queries; absent below two queries.
    pub ci: Option<Interval>,
    /// The sign-flip randomisation test, two-sided.
    pub p_randomization: f64,
    /// The paired t-test, two-sided; absent when all differences are the same.
    pub p_t: Option<f64>,
    /// The randomisation test after Holm, over all measures of this comparison.
    pub p_holm: f64,
    /// Mean difference in standard deviations of the differences; absent when they do not vary.
    pub effect_size: Option<f64>,
    /// Queries for which the treatment is better.
    pub wins: usize,
    /// Queries for which it is worse.
    pub losses: usize,
    /// Queries for which nothing changed.
    pub ties: usize,
    /// The smallest true difference that so many queries would have shown four times in five; absent when the
    /// differences do not vary.
    pub detectable: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// A query that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryChange {
    /// The query.
    pub query: String,
    /// The control's value.
    pub control: f64,
    /// The treatment's.
    pub treatment: f64,
    /// Treatment − control.
    pub difference: f64,
}

/// Queries by how differently they are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DifferenceCounts {
    /// The same.
    pub identical: usize,
    /// A little.
    pub minor: usize,
    /// Much.
    pub major: usize,
    /// Altogether.
    pub incompatible: usize,
}

/// Why two systems cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ComparisonError {
    /// There is nothing to compare on.
    #[error(transparent)]
    Retrieval(#[from] RetrievalError),
    /// A setting that statistics cannot work with.
    #[error(transparent)]
    Statistics(#[from] StatsError),
    /// The comparison was cancelled before it had an answer.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Compares two systems that were measured with the same measures on the same judgments. Queries that count for only
/// one of them are left out.
pub fn compare(
    control: (&Run, &Evaluation),
    treatment: (&Run, &Evaluation),
    settings: &ComparisonSettings,
) -> Result<Comparison, ComparisonError> {
    compare_until(control, treatment, settings, &Cancellation::default())
}

/// As [`compare`], and ends with [`ComparisonError::Cancelled`] between two measures once the flag is set.
pub fn compare_until(
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

/// Queries of one kind, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupComparison {
    /// The value that they have in common.
    pub value: String,
    /// The first measure over them; its Holm correction is over all groups.
    pub comparison: MeasureComparison,
}

/// Compares two systems by the first measure within groups of queries, which a field tells apart. What is found in a
/// group is a hint where to look: the verdict is that of all queries together.
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

/// One measure over the pairs for which it says something about both; nothing when there are none.
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

/// Corrects for having looked more than once, and says what follows.
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

/// The differences of the first measure by query, worst first.
pub fn query_changes(control: &Evaluation, treatment: &Evaluation) -> Vec<QueryChange> {
    let pairs = shared_rows(control, treatment);
    let first = (0..control.measures().len()).find(|index| {
        pairs
            .iter()
            .any(|&(a, b)| control.row(a)[*index].is_some() && treatment.row(b)[*index].is_some())
    });
    changes(control, treatment, &pairs, first.unwrap_or(0))
}

/// Rows of the same query.
fn shared_rows(control: &Evaluation, treatment: &Evaluation) -> Vec<(usize, usize)> {
    // Both follow the order of the judgments, so that one walk finds all pairs.
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

/// What a gate says that lets the treatment be worse by at most a margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// A loss beyond the margin can be excluded.
    Pass,
    /// Some measure is worse, by more than the margin.
    Fail,
    /// A loss beyond the margin by the first measure can be neither shown nor excluded.
    Inconclusive,
}

impl Comparison {
    /// Judges the comparison by a margin: fails when any measure is worse (after Holm) by more than it, passes when the
    /// interval of the first measure lies above −margin, and cannot say otherwise.
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
