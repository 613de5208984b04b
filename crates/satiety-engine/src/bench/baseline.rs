//! Baselines and gates: what was accepted, by whom and why, and whether a run is worse.

use crate::handles::BenchOperations;
use std::path::{Path, PathBuf};

use satiety::bench::{self, BenchmarkRun, GatePolicy, GateReport, GateVerdict};
use satiety::ids;
use satiety_store::bench::{BaselineRow, GateRow};
use satiety_store::{Store, now_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::executor::word;
use super::finalize::new_gate_id;
use super::history::{Detail, from_file, time, trim};
use super::outline::SANDBOX;
use super::suites::{LoadedSuite, load};
use crate::{Engine, EngineError};

/// The accepted run in a suite's folder.
const BASELINE_FILE: &str = "baseline.json";

/// Two runs to be compared.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CompareBody")]
pub struct CompareRunsRequest {
    /// The run that was accepted: an id, `latest`, or a file.
    pub baseline: String,
    /// The run that is judged.
    pub candidate: String,
    /// What counts; the default policy where absent.
    #[serde(default)]
    pub policy: GatePolicy,
    /// Whether to keep the answer in the store.
    #[serde(skip)]
    pub record: bool,
    /// Who lets a regression through, and why.
    #[serde(skip)]
    pub accept_regression: Option<Override>,
}

/// Two runs, compared.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ComparedRuns {
    /// What the gate says.
    #[serde(flatten)]
    pub report: GateReport,
    /// Who let a regression through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Override>,
    /// The runs, for reports that show both.
    #[serde(skip)]
    pub runs: (BenchmarkRun, BenchmarkRun),
    /// Hooks that failed.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Who lets something through, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A run to be accepted as the baseline.
#[derive(Debug, Clone)]
pub struct AcceptRequest {
    /// The run.
    pub run: String,
    /// The suite's folder, where `baseline.json` is written; none for the store alone.
    pub suite: Option<PathBuf>,
    /// Who accepts it, and why.
    pub accepted: Override,
}

/// A run that was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AcceptResponse {
    /// The suite.
    pub suite_id: String,
    /// The run.
    pub run_id: String,
    /// Its share of passes.
    pub pass_rate: Option<f64>,
    /// Who accepted it, and why.
    #[serde(flatten)]
    pub accepted: Override,
    /// When.
    pub accepted_at: jiff::Timestamp,
    /// The file it was written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The baseline before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
}

impl BenchOperations<'_> {
    /// Compares two runs. A verdict that is kept is one of the gate: it tells about a regression.
    pub async fn compare(self, request: CompareRunsRequest) -> Result<ComparedRuns, EngineError> {
        let baseline = self.find_run(&request.baseline, Detail::Figures).await?;
        let candidate = self.find_run(&request.candidate, Detail::Figures).await?;
        if baseline.suite_id != candidate.suite_id {
            return Err(EngineError::Invalid {
                message: format!(
                    "a run of {} cannot be compared with one of {}",
                    candidate.suite_id, baseline.suite_id
                ),
                hint: "compare runs of one suite; `satiety bench ablation` compares variants".into(),
            });
        }
        let report = judge(&baseline, &candidate, &request.policy)?;
        let (mut accepted, mut warnings) = (None, Vec::new());
        if request.record {
            let (store, suite_id) = (self.engine.store().await?, &candidate.suite_id);
            let kept = keep_gate(store, new_gate_id(), suite_id, &report, request.accept_regression);
            accepted = kept.await?;
            if accepted.is_none() {
                warnings = self.alert_regression(suite_id, &report, None).await?;
            }
        }
        Ok(ComparedRuns {
            report,
            accepted,
            runs: (baseline, candidate),
            warnings,
        })
    }

    /// Accepts a run as the baseline of its suite: in the store, and in the suite's folder.
    pub async fn accept(self, request: AcceptRequest) -> Result<AcceptResponse, EngineError> {
        let mut run = self.find_run(&request.run, Detail::Figures).await?;
        if run.completed_at.is_none() {
            return Err(EngineError::Invalid {
                message: format!("run {} is not complete", run.run_id),
                hint: "finish it with --resume before it is accepted".into(),
            });
        }
        run.results.iter_mut().for_each(trim);
        let file = match &request.suite {
            Some(suite) => {
                let loaded = load(suite)?;
                if loaded.suite.suite_id != run.suite_id {
                    return Err(EngineError::Invalid {
                        message: format!(
                            "run {} is of {}, not of {}",
                            run.run_id, run.suite_id, loaded.suite.suite_id
                        ),
                        hint: "name the folder of the suite that was run".into(),
                    });
                }
                let path = baseline_file(&loaded);
                write(&path, &run)?;
                Some(path.display().to_string())
            }
            None => None,
        };
        let store = self.engine.store().await?;
        let replaces = store
            .bench()
            .baselines(&run.suite_id, 1)
            .await?
            .into_iter()
            .next();
        let row = BaselineRow {
            baseline_id: ids::prefixed("baseline", uuid::Uuid::now_v7()),
            suite_id: run.suite_id.clone(),
            run_id: run.run_id.clone(),
            accepted_by: request.accepted.by.clone(),
            reason: request.accepted.reason.clone(),
            accepted_at: now_micros(),
        };
        store.bench().put_baseline(&row).await?;
        Ok(AcceptResponse {
            suite_id: run.suite_id,
            run_id: run.run_id,
            pass_rate: run.summary.and_then(|summary| summary.pass_rate),
            accepted: request.accepted,
            accepted_at: time(row.accepted_at),
            file,
            replaces: replaces.map(|row| row.run_id),
        })
    }
}

/// The baseline of a suite: what lies in its folder, under version control with its cases, before what the store has.
pub(super) async fn baseline_of(
    engine: &Engine,
    loaded: &LoadedSuite,
) -> Result<Option<BenchmarkRun>, EngineError> {
    if let Some(run) = stored_baseline(loaded)? {
        return Ok(Some(run));
    }
    let store = engine.store().await?;
    let Some(row) = store
        .bench()
        .baselines(&loaded.suite.suite_id, 1)
        .await?
        .into_iter()
        .next()
    else {
        return Ok(None);
    };
    engine
        .bench()
        .find_run(&row.run_id, Detail::Figures)
        .await
        .map(Some)
}

/// The accepted run in the suite's directory, where there is one.
pub(crate) fn stored_baseline(loaded: &LoadedSuite) -> Result<Option<BenchmarkRun>, EngineError> {
    let path = baseline_file(loaded);
    if path.is_file() {
        return from_file(&path).map(Some);
    }
    Ok(None)
}

/// Compares a run with a baseline. Times of another machine, or of another sandbox around the processes, say nothing about the
/// target, so they are left out.
pub(crate) fn judge(
    baseline: &BenchmarkRun,
    candidate: &BenchmarkRun,
    policy: &GatePolicy,
) -> Result<GateReport, EngineError> {
    let machine = |run: &BenchmarkRun| {
        run.config_snapshot
            .get(MACHINE)
            .cloned()
            .filter(|id| !id.is_null())
    };
    // Starting processes in a sandbox takes some milliseconds; runs of earlier versions had none.
    let isolation = |run: &BenchmarkRun| {
        run.config_snapshot
            .get(SANDBOX)
            .and_then(|sandbox| sandbox.get("isolation"))
            .and_then(|isolation| isolation.as_str().map(str::to_owned))
            .filter(|isolation| !matches!(isolation.as_str(), "none" | "not_applicable"))
    };
    let same_machine = machine(baseline).is_some() && machine(baseline) == machine(candidate);
    let same = same_machine && isolation(baseline) == isolation(candidate);
    let mut policy = policy.clone();
    if !same {
        policy.latency_increase = f64::INFINITY;
    }
    let mut report = bench::compare(baseline, candidate, &policy).map_err(EngineError::Figures)?;
    if !same && report.latency.take().is_some() {
        report.reasons.push(if same_machine {
            "times were measured in another sandbox and are not compared".into()
        } else {
            "times were measured on other machines and are not compared".into()
        });
    }
    Ok(report)
}

/// What tells machines apart in a run's configuration: a hash, because a baseline is committed and read by others.
pub(super) const MACHINE: &str = "machine";

/// This machine, where it can be told from others.
pub(super) fn this_machine() -> Option<String> {
    let id = fs_err::read_to_string("/etc/machine-id").ok()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let hash = blake3::hash(format!("satiety machine {} {cores}", id.trim()).as_bytes());
    Some(hash.to_hex().chars().take(16).collect())
}

/// Keeps what a gate said under its id; an override is kept with it when there was something to override.
pub(super) async fn keep_gate(
    store: &Store,
    gate_id: String,
    suite_id: &str,
    report: &GateReport,
    accept: Option<Override>,
) -> Result<Option<Override>, EngineError> {
    let accepted = accept.filter(|_| report.verdict == GateVerdict::Regression);
    let row = GateRow {
        gate_id,
        suite_id: suite_id.into(),
        baseline_run: report.baseline_run.clone(),
        candidate_run: report.candidate_run.clone(),
        verdict: word(&report.verdict),
        accepted_by: accepted.as_ref().map(|accepted| accepted.by.clone()),
        accepted_why: accepted.as_ref().map(|accepted| accepted.reason.clone()),
        decided_at: now_micros(),
        report: serde_json::to_value(report)?,
    };
    store.bench().put_gate(&row).await?;
    Ok(accepted)
}

pub(super) fn baseline_file(loaded: &LoadedSuite) -> PathBuf {
    loaded.file.with_file_name(BASELINE_FILE)
}

fn write(path: &Path, run: &BenchmarkRun) -> Result<(), EngineError> {
    let failed = |cause| EngineError::file("write", path, cause);
    let partial = path.with_added_extension("partial");
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    fs_err::write(&partial, text).map_err(failed)?;
    fs_err::rename(&partial, path).map_err(failed)
}
