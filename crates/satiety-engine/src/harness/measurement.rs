//! Measures a harness from stored runs: metrics of each suite and of all together, and the five signals.

use std::collections::BTreeMap;

use satiety::bench::contract::TargetSpec;
use satiety::bench::{
    BenchmarkRun, BenchmarkSuite, Direction, GateVerdict, SandboxIsolation, SandboxRequirement, leading,
    summarize,
};
use satiety::harness::measurement::{
    CaseHistory, Matrix, MeasureSettings, Measured, SaturationEvidence, measure, saturation_evidence,
};
use satiety::harness::sources::{AuditVerdict, Evidence, collect, regression_cases};
use satiety::harness::thresholds::{MetricValue, REPORTED_BY_TARGET, is_met, metric_value};
use satiety::harness::{MeasureError, SignalMetrics};
use satiety_store::Store;
use satiety_store::bench::{BaselineRow, BenchRunRow};
use schemars::JsonSchema;
use serde::Serialize;

use super::HarnessError;
use super::directory::HarnessDirectory;
use super::state::State;
use crate::EngineError;
use crate::bench::described_target;
use crate::bench::history::{Detail, load};
use crate::bench::suites::LoadedSuite;

/// Number of versions considered per suite.
pub(super) const VERSIONS: u32 = 8;
/// Number of recent gate and audit verdicts considered; the number of cycles in the window.
pub(super) const RECENT_VERDICTS: u32 = 20;

/// Measurement of a harness.
#[derive(Debug)]
pub(super) struct Measurement {
    /// Each suite with a run.
    pub(super) suites: Vec<SuiteState>,
    /// Ids of the runs considered, oldest first, by suite id.
    pub(super) runs: BTreeMap<String, Vec<String>>,
    /// The newest run of each suite, by suite id.
    pub(super) newest: BTreeMap<String, BenchmarkRun>,
    /// All suites together, or the reason why they cannot be measured.
    pub(super) overall: Result<Measured, String>,
    /// Evidence over all versions that so few cases fail that no improvement could be detected.
    pub(super) evidence: Option<SaturationEvidence>,
    pub(super) metrics: SignalMetrics,
    /// Thresholds, and whether they are met.
    pub(super) thresholds: Vec<ThresholdState>,
    /// Recent values of each threshold's metric, oldest first.
    pub(super) metric_values: BTreeMap<String, Vec<f64>>,
}

impl Measurement {
    /// Whether any suite was run after this time, in microseconds.
    pub(super) fn newer_than(&self, since: i64) -> bool {
        let ended = |run: &BenchmarkRun| run.completed_at.is_some_and(|at| at.as_microsecond() > since);
        self.newest.values().any(ended)
    }
}

/// Suite with its measurement.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SuiteState {
    /// Id of the suite.
    pub suite_id: String,
    /// Number of cases in the suite.
    pub cases: usize,
    /// Number of regression tests, which are expected to pass and do not distinguish versions.
    pub regression_cases: usize,
    /// Number of versions (runs) considered.
    pub versions: usize,
    /// Pass rate of the newest run, from 0 to 1.
    pub pass_rate: Option<f64>,
    /// Saturation measurement of the suite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Reason why the suite was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// Threshold and its current value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ThresholdState {
    /// Name of the threshold, as `suite/metric`.
    pub name: String,
    /// Bound that the metric must meet.
    pub value: f64,
    /// Direction in which the metric is better.
    pub direction: Direction,
    /// Value of the metric in the newest run.
    pub found: Option<f64>,
    /// Whether it is met; absent without a result, or while undecided results could change it.
    pub met: Option<bool>,
    /// Whether the target reports the metric itself, so that it is not verified.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reported_by_target: bool,
    /// Note on a missing or undecided result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ThresholdState {
    pub(super) fn new(
        name: &str,
        threshold: satiety::harness::manifest::Threshold,
        value: &MetricValue,
    ) -> Self {
        Self {
            name: name.to_owned(),
            value: threshold.value,
            direction: threshold.direction,
            found: value.found,
            met: is_met(value, threshold),
            reported_by_target: name
                .rsplit_once('/')
                .is_some_and(|(_, metric)| REPORTED_BY_TARGET.contains(&metric)),
            note: value.note.clone(),
        }
    }
}

/// Measures the harness from stored runs. Baselines count as improvements only if accepted after `since`.
pub(super) async fn take(
    state: &State,
    folder: &HarnessDirectory,
    since: Option<i64>,
) -> Result<Measurement, EngineError> {
    let store = state.store();
    let mut suites = Vec::new();
    let mut newest = BTreeMap::new();
    let mut pooled: Vec<(usize, CaseHistory)> = Vec::new();
    let mut all_runs: BTreeMap<String, Vec<BenchmarkRun>> = BTreeMap::new();
    let mut most = 0;
    for loaded in &folder.suites {
        let suite = &loaded.suite;
        let mut runs = complete_runs(store, folder, loaded, VERSIONS).await?;
        let regression = regression_cases(suite);
        let mut state = SuiteState {
            suite_id: suite.suite_id.clone(),
            cases: suite.cases.len(),
            regression_cases: regression.len(),
            versions: runs.len(),
            // By today's rules, whatever summary was stored with the run.
            pass_rate: runs.last().and_then(|run| summarize(&run.results).pass_rate),
            measured: None,
            not_measured: None,
        };
        match matrix(&runs, |id| !regression.contains(id)) {
            Ok(matrix) => {
                most = most.max(matrix.versions);
                let of_suite = |mut case: CaseHistory| {
                    case.cluster = case
                        .cluster
                        .map(|cluster| format!("{}/{cluster}", suite.suite_id));
                    case.case_id = format!("{}/{}", suite.suite_id, case.case_id);
                    (matrix.versions, case)
                };
                pooled.extend(matrix.cases.iter().cloned().map(of_suite));
                match measure(&matrix, &settings(folder)) {
                    Ok(measured) => state.measured = Some(measured),
                    Err(why) => state.not_measured = Some(why.to_string()),
                }
            }
            Err(why) => state.not_measured = Some(why.to_string()),
        }
        suites.push(state);
        all_runs.insert(suite.suite_id.clone(), runs.clone());
        if let Some(last) = runs.pop() {
            newest.insert(suite.suite_id.clone(), last);
        }
    }
    // The reason why suites cannot be measured is more specific than the one for all together.
    let first = suites
        .iter()
        .find_map(|state: &SuiteState| state.not_measured.clone());
    let pooled = pool(pooled, most);
    let evidence = pooled
        .as_ref()
        .ok()
        .and_then(|matrix| saturation_evidence(matrix, &settings(folder)).ok()?);
    let overall = pooled
        .and_then(|matrix| measure(&matrix, &settings(folder)))
        .map_err(|why| first.unwrap_or_else(|| why.to_string()));
    let metrics = signals(state, folder, &newest, since).await?;
    let (thresholds, metric_values) = thresholds(folder, &all_runs);
    let ids = |runs: Vec<BenchmarkRun>| runs.into_iter().map(|run| run.run_id).collect();
    let runs = all_runs
        .into_iter()
        .map(|(suite, runs)| (suite, ids(runs)))
        .collect();
    Ok(Measurement {
        suites,
        runs,
        newest,
        overall,
        evidence,
        metrics,
        thresholds,
        metric_values,
    })
}

/// Settings at the level that the harness requires.
pub(super) fn settings(folder: &HarnessDirectory) -> MeasureSettings {
    MeasureSettings {
        alpha: folder.rules.alpha,
        ..MeasureSettings::default()
    }
}

/// The newest complete runs of a whole suite, oldest first, at most `most`. Not evidence: runs of selected
/// cases, with fewer repeats or a longer timeout than the suite specifies, of another target than the
/// described one, with a weaker sandbox than the harness requires, stopped early, or imported.
pub(super) async fn complete_runs(
    store: &Store,
    folder: &HarnessDirectory,
    loaded: &LoadedSuite,
    most: u32,
) -> Result<Vec<BenchmarkRun>, EngineError> {
    let (suite, hash) = (&loaded.suite, &loaded.hash());
    let mut runs = Vec::new();
    for row in counted_rows(store, folder, loaded, most, None).await? {
        let same_suite = row.suite_hash == *hash;
        let mut run = load(store, row, Detail::Metrics).await?;
        // A skill that is run with and without itself is measured with it.
        run.results = leading(&run.results).into_iter().cloned().collect();
        if same_suite && !has_every_result(&run, suite) {
            continue;
        }
        runs.push(run);
        if runs.len() == most as usize {
            break;
        }
    }
    runs.reverse();
    Ok(runs)
}

/// Rows of the newest runs that may count as evidence, newest first, by what is known without their results. With `until`,
/// a time in microseconds, those that had completed by then.
pub(super) async fn counted_rows(
    store: &Store,
    folder: &HarnessDirectory,
    loaded: &LoadedSuite,
    most: u32,
    until: Option<i64>,
) -> Result<Vec<BenchRunRow>, EngineError> {
    let suite = &loaded.suite;
    let described = described_target(loaded, None)?;
    let before = until.map(|until| (until.saturating_add(1), ""));
    let mut rows = store
        .bench()
        .run_heads(Some(&suite.suite_id), before, 4 * most)
        .await?;
    rows.retain(|row| {
        is_whole(row, suite)
            && is_of_target(row, described.as_ref())
            && is_confined(row, folder.rules.sandbox)
            && until.is_none_or(|until| row.completed_at.is_some_and(|at| at <= until))
    });
    Ok(rows)
}

/// Whether a run covered its whole suite, with at least the repeats and limits that the suite specifies.
fn is_whole(row: &BenchRunRow, suite: &BenchmarkSuite) -> bool {
    let option = |name: &str| row.config_snapshot.get(name);
    let all = |name: &str| {
        option(name)
            .and_then(|value| value.as_array())
            .is_none_or(Vec::is_empty)
    };
    let number = |name: &str| option(name).and_then(serde_json::Value::as_u64);
    let enough_repeats = number("repeats").is_none_or(|repeats| {
        let required = |case| u64::from(suite.repeats_of(case));
        suite.cases.iter().all(|case| repeats >= required(case))
    });
    let enough_haste = match (number("timeout_ms"), suite.timeout_ms) {
        (Some(given), Some(declared)) => given <= declared,
        _ => true,
    };
    row.completed_at.is_some()
        && all("cases")
        && all("tags")
        && enough_repeats
        && enough_haste
        && option("imported_from").is_none()
}

/// Whether a run used the target described in the suite's directory; the sandbox is checked separately.
fn is_of_target(row: &BenchRunRow, described: Option<&TargetSpec>) -> bool {
    let Some(described) = described else {
        return true;
    };
    let unconfined = |mut spec: TargetSpec| {
        if let Some(sandbox) = spec.sandbox_mut() {
            *sandbox = None;
        }
        spec
    };
    // Runs of the first version did not store their target.
    row.config_snapshot.get("target").is_none_or(|target| {
        serde_json::from_value(target.clone())
            .is_ok_and(|spec| unconfined(spec) == unconfined(described.clone()))
    })
}

/// Whether a run had the sandbox that the harness requires. Runs of the first version do not record it.
fn is_confined(row: &BenchRunRow, required: SandboxRequirement) -> bool {
    let isolation = row
        .config_snapshot
        .get("sandbox")
        .and_then(|sandbox| sandbox.get("isolation"))
        .and_then(|isolation| serde_json::from_value::<SandboxIsolation>(isolation.clone()).ok());
    required != SandboxRequirement::Require || isolation.is_none_or(SandboxIsolation::is_full)
}

/// Whether every enabled case has all of its repeats.
fn has_every_result(run: &BenchmarkRun, suite: &BenchmarkSuite) -> bool {
    let grouped = satiety::bench::by_case(&run.results);
    suite.cases.iter().filter(|case| case.skip.is_none()).all(|case| {
        grouped
            .get(case.case_id.as_str())
            .is_some_and(|results| results.len() >= suite.repeats_of(case) as usize)
    })
}

fn matrix(runs: &[BenchmarkRun], counts: impl Fn(&str) -> bool) -> Result<Matrix, MeasureError> {
    let mut matrix = Matrix::from_runs(&runs.iter().collect::<Vec<_>>(), &BTreeMap::new())?;
    let all = matrix.cases.len();
    matrix.cases.retain(|case| counts(&case.case_id));
    if matrix.cases.is_empty() && all > 0 {
        return Err(MeasureError::OnlyRegressions);
    }
    Ok(matrix)
}

/// Pools all suites into one matrix: the newest runs are aligned, and a suite with a shorter history starts
/// later.
fn pool(cases: Vec<(usize, CaseHistory)>, versions: usize) -> Result<Matrix, MeasureError> {
    if cases.is_empty() {
        return Err(MeasureError::NoRuns);
    }
    let cases = cases
        .into_iter()
        .map(|(known, mut case)| {
            let missing = versions.saturating_sub(known);
            case.tallies.splice(0..0, std::iter::repeat_n(None, missing));
            case
        })
        .collect();
    Ok(Matrix { versions, cases })
}

async fn signals(
    state: &State,
    folder: &HarnessDirectory,
    newest: &BTreeMap<String, BenchmarkRun>,
    since: Option<i64>,
) -> Result<SignalMetrics, EngineError> {
    let store = state.store();
    let runs: Vec<_> = folder
        .suites
        .iter()
        .filter_map(|loaded| Some((&loaded.suite, newest.get(&loaded.suite.suite_id)?)))
        .collect();
    let baselines = newest_improvement(store, folder, since).await?;
    let mut gates = Vec::new();
    for row in store.bench().gates(None, RECENT_VERDICTS).await? {
        if folder.suite(&row.suite_id).is_some() {
            gates.push(match row.verdict.as_str() {
                "pass" => GateVerdict::Pass,
                "regression" => GateVerdict::Regression,
                _ => GateVerdict::Inconclusive,
            });
        }
    }
    let mut audits: Vec<AuditVerdict> = store
        .harness()
        .audits(&state.harness_id, 10 * RECENT_VERDICTS)
        .await?
        .into_iter()
        .map(|row| AuditVerdict {
            cycle_id: row.cycle_id,
            auditor: row.auditor,
            accepts: row.accepts,
            note: row.note,
        })
        .collect();
    // Of several verdicts by one auditor the last counts.
    audits.reverse();
    Ok(collect(&Evidence {
        runs: &runs,
        baselines: &baselines.iter().collect::<Vec<_>>(),
        gates: &gates,
        audits: &audits,
    }))
}

/// The newest accepted baseline with the previous one, if accepted after `since`.
async fn newest_improvement(
    store: &Store,
    folder: &HarnessDirectory,
    since: Option<i64>,
) -> Result<Vec<BenchmarkRun>, EngineError> {
    let mut newest: Option<Vec<BaselineRow>> = None;
    for loaded in &folder.suites {
        let rows = store.bench().baselines(&loaded.suite.suite_id, 2).await?;
        let at = |rows: &Vec<BaselineRow>| rows.first().map(|row| row.accepted_at);
        if at(&rows) > newest.as_ref().and_then(at) {
            newest = Some(rows);
        }
    }
    let Some(rows) = newest.filter(|rows| rows.first().map(|row| row.accepted_at) > since) else {
        return Ok(Vec::new());
    };
    let mut runs = Vec::new();
    for row in rows.into_iter().rev() {
        if let Some(run) = store.bench().run(&row.run_id).await? {
            runs.push(load(store, run, Detail::Metrics).await?);
        }
    }
    Ok(runs)
}

fn thresholds(
    folder: &HarnessDirectory,
    runs: &BTreeMap<String, Vec<BenchmarkRun>>,
) -> (Vec<ThresholdState>, BTreeMap<String, Vec<f64>>) {
    let mut states = Vec::new();
    let mut metric_values = BTreeMap::new();
    for (name, threshold) in &folder.rules.thresholds {
        // Suite names may contain slashes; metric names cannot.
        let values: Vec<MetricValue> = name
            .rsplit_once('/')
            .and_then(|(suite, metric)| Some((runs.get(suite)?, metric)))
            .map(|(runs, metric)| {
                let value_in =
                    |run: &BenchmarkRun| metric_value(&run.results.iter().collect::<Vec<_>>(), metric);
                runs.iter().map(value_in).collect()
            })
            .unwrap_or_default();
        let newest = values.last().cloned().unwrap_or_default();
        states.push(ThresholdState::new(name, *threshold, &newest));
        let found = values.iter().filter_map(|value| value.found);
        metric_values.insert(name.clone(), found.collect());
    }
    (states, metric_values)
}

/// Returns an error for thresholds that match no suite and metric.
pub(super) fn unknown_metrics(folder: &HarnessDirectory) -> Result<(), HarnessError> {
    for name in folder.rules.thresholds.keys() {
        let known = name.rsplit_once('/').is_some_and(|(suite, metric)| {
            folder.suite(suite).is_some() && satiety::harness::rules::METRICS.contains(&metric)
        });
        if !known {
            return Err(HarnessError::BadFile {
                file: super::directory::display_path(&folder.root.join(super::directory::RULES_FILE)),
                reason: format!(
                    "unknown threshold \"{name}\" (expected SUITE/METRIC with one of: {})",
                    satiety::harness::rules::METRICS.join(", ")
                ),
            });
        }
    }
    Ok(())
}
