//! Baselines and regression gates: accepted runs, who accepted them and why, and whether a run is worse.

use crate::handles::BenchOperations;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::Hint;
use satiety::bench::result_file::OWN_FORMAT;
use satiety::bench::{
    self, BenchmarkRun, GatePolicy, GateReport, GateVerdict, ResultFile, ResultOptions, summarize_run,
};
use satiety::ids;
use satiety_store::bench::{BaselineRow, GateRow};
use satiety_store::{Store, now_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ablation::ABLATION;
use super::executor::enum_name;
use super::exported::exported_run;
use super::finalize::new_gate_id;
use super::history::{Detail, from_file, time, trim};
use super::import::results::{is_file, read_results};
use super::outline::SANDBOX;
use super::suites::{LoadedSuite, load};
use crate::database::stored_export::ExportedName;
use crate::{Engine, EngineError};

/// File of the accepted run in the suite's directory.
const BASELINE_FILE: &str = "baseline.json";

/// Two benchmark runs to compare.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CompareBody")]
pub struct CompareRunsRequest {
    /// Accepted run to compare with: an id, `latest`, or a file.
    pub baseline: String,
    /// Run to judge: an id, `latest`, or a file.
    pub candidate: String,
    /// Gate policy; the default policy when absent.
    #[serde(default)]
    pub policy: GatePolicy,
    /// Whether to store the verdict of the gate.
    #[serde(skip)]
    pub record: bool,
    /// Override that accepts a regression: who accepts it, and why.
    #[serde(skip)]
    pub accept_regression: Option<VerdictOverride>,
}

/// Comparison of two benchmark runs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ComparedRuns {
    /// Report of the regression gate.
    #[serde(flatten)]
    pub report: GateReport,
    /// Override that accepted a regression, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<VerdictOverride>,
    /// Both runs, for reports that show them.
    #[serde(skip)]
    pub runs: (BenchmarkRun, BenchmarkRun),
    /// Errors of hooks that failed, and parts of result files that were lost.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// One side of a comparison of files.
struct Side {
    run: BenchmarkRun,
    is_file: bool,
    /// Whether the suite's id is more than the name of the file.
    names_suite: bool,
    notes: Vec<String>,
}

/// Override of a verdict: who decided, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictOverride {
    /// Name of the person or service that decided.
    pub by: String,
    /// Reason for the decision.
    pub reason: String,
}

/// Run to accept as the baseline.
#[derive(Debug, Clone)]
pub struct AcceptRequest {
    /// Run id, `latest`, or a file.
    pub run: String,
    /// Directory of the suite to write `baseline.json` to; `None` stores the baseline in the database only.
    pub suite: Option<PathBuf>,
    pub accepted: VerdictOverride,
    /// How to read a result file.
    pub options: ResultOptions,
}

/// Run that was accepted as the baseline of its suite.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AcceptResponse {
    /// Id of the suite.
    pub suite_id: String,
    /// Id of the accepted run.
    pub run_id: String,
    /// Share of cases that passed, from 0 to 1.
    pub pass_rate: Option<f64>,
    /// Who accepted the run, and why.
    #[serde(flatten)]
    pub accepted: VerdictOverride,
    /// Time of the acceptance.
    pub accepted_at: jiff::Timestamp,
    /// File that the baseline was written to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Id of the baseline that this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Parts of a result file that were lost, and how its columns were read.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl BenchOperations<'_> {
    /// Compares two runs. A stored verdict counts as one of the gate: a regression triggers the alert.
    pub async fn compare(self, request: CompareRunsRequest) -> Result<ComparedRuns, EngineError> {
        let baseline = self.find_run(&request.baseline, Detail::Metrics).await?;
        let candidate = self.find_run(&request.candidate, Detail::Metrics).await?;
        self.compare_loaded(baseline, candidate, request, Vec::new())
            .await
    }

    /// Compares two runs, each of which may be a result file of another tool. A comparison of two files uses no
    /// database, unless it accepts a regression. A separate operation, because callers of a server must not
    /// read its files.
    pub async fn compare_files(
        self,
        mut request: CompareRunsRequest,
        options: &ResultOptions,
    ) -> Result<ComparedRuns, EngineError> {
        let mut baseline = self.find_side(&request.baseline, options).await?;
        let mut candidate = self.find_side(&request.candidate, options).await?;
        // The name of a file is not a suite: `before.csv` and `after.csv` are comparable.
        if !baseline.names_suite {
            baseline.run.suite_id.clone_from(&candidate.run.suite_id);
        } else if !candidate.names_suite {
            candidate.run.suite_id.clone_from(&baseline.run.suite_id);
        }
        let decides = |side: &Side| Some(side.run.config_snapshot.get("deciding_score")?["name"].clone());
        if let (Some(before), Some(now)) = (decides(&baseline), decides(&candidate))
            && before != now
        {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot compare {} with {}: {now} decides in one and {before} in the other",
                    request.candidate, request.baseline
                ),
                hint: Hint::with_command("name the scorer that decides in both", "--scorer NAME"),
            });
        }
        if baseline.is_file && candidate.is_file {
            request.record &= request.accept_regression.is_some();
        }
        let notes = [baseline.notes, candidate.notes].concat();
        self.compare_loaded(baseline.run, candidate.run, request, notes)
            .await
    }

    /// Loads a run, or reads one from a result file of any known tool, with notes on what the file lost and how
    /// its columns were read. A separate operation, because callers of a server must not read its files.
    pub async fn run_or_file(
        self,
        named: &str,
        options: &ResultOptions,
    ) -> Result<(BenchmarkRun, Vec<String>), EngineError> {
        if let Some(exported) = ExportedName::parse(named) {
            return Ok((exported_run(&exported, Detail::Full)?, Vec::new()));
        }
        let path = Path::new(named);
        if !is_file(path) {
            return Ok((self.find_run(named, Detail::Full).await?, Vec::new()));
        }
        let found = read_results(path, options)?;
        let notes = notes_of(named, &found);
        let mut run = found.import.run;
        run.summary = Some(summarize_run(&run.results, &run.config_snapshot));
        Ok((run, notes))
    }

    /// Loads one side of a comparison. The run of another tool's file is named by the file.
    async fn find_side(self, named: &str, options: &ResultOptions) -> Result<Side, EngineError> {
        if let Some(exported) = ExportedName::parse(named) {
            return Ok(Side {
                run: exported_run(&exported, Detail::Metrics)?,
                is_file: true,
                names_suite: true,
                notes: Vec::new(),
            });
        }
        let path = Path::new(named);
        if !is_file(path) {
            return Ok(Side {
                run: self.find_run(named, Detail::Metrics).await?,
                is_file: false,
                names_suite: true,
                notes: Vec::new(),
            });
        }
        let found = read_results(path, options)?;
        let notes = notes_of(named, &found);
        let mut run = found.import.run;
        if found.tool != OWN_FORMAT {
            named.clone_into(&mut run.run_id);
        }
        run.results.iter_mut().for_each(trim);
        Ok(Side {
            run,
            is_file: true,
            names_suite: found.names_suite,
            notes,
        })
    }

    async fn compare_loaded(
        self,
        baseline: BenchmarkRun,
        candidate: BenchmarkRun,
        request: CompareRunsRequest,
        mut warnings: Vec<String>,
    ) -> Result<ComparedRuns, EngineError> {
        if baseline.suite_id != candidate.suite_id {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot compare a run of {} with a run of {}",
                    candidate.suite_id, baseline.suite_id
                ),
                hint: Hint::with_command(
                    "compare runs of one suite; to compare variants, run an ablation",
                    "satiety bench ablation",
                ),
            });
        }
        let report = judge(&baseline, &candidate, &request.policy)?;
        let mut accepted = None;
        if request.record {
            let (store, suite_id) = (self.engine.store().await?, &candidate.suite_id);
            let kept = keep_gate(store, new_gate_id(), suite_id, &report, request.accept_regression);
            accepted = kept.await?;
            if accepted.is_none() {
                warnings.extend(self.alert_regression(suite_id, &report, None).await?);
            }
        }
        Ok(ComparedRuns {
            report,
            accepted,
            runs: (baseline, candidate),
            warnings,
        })
    }

    /// Accepts a run as the baseline of its suite, in the database and in the suite's directory. A run in a
    /// result file is stored first.
    pub async fn accept(self, request: AcceptRequest) -> Result<AcceptResponse, EngineError> {
        if ExportedName::parse(&request.run).is_some() {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot accept {}: a run in a Parquet export is not stored here",
                    request.run
                ),
                hint: "accept it in the database that was exported".into(),
            });
        }
        let path = Path::new(&request.run);
        let file = is_file(path)
            .then(|| read_results(path, &request.options))
            .transpose()?;
        let mut run = match &file {
            Some(found) => found.import.run.clone(),
            None => self.find_run(&request.run, Detail::Metrics).await?,
        };
        if run.completed_at.is_none() {
            return Err(EngineError::Invalid {
                message: format!("cannot accept run {}: it is not complete", run.run_id),
                hint: Hint::with_command("resume and finish it first", "--resume"),
            });
        }
        if run.config_snapshot.get(ABLATION).and_then(Value::as_bool) == Some(true) {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot accept run {}: it is an ablation of several targets ({})",
                    run.run_id, run.target
                ),
                hint: Hint::with_command(
                    "run the target that you chose, and accept that run",
                    "satiety bench run SUITE --target TARGET",
                ),
            });
        }
        run.results.iter_mut().for_each(trim);
        let mut warnings = Vec::new();
        let mut result_file = file;
        let file = match &request.suite {
            Some(suite) => {
                let loaded = load(suite)?;
                if let Some(found) = result_file.as_mut().filter(|found| !found.names_suite) {
                    // The name of a file is not a suite.
                    found.import.run.suite_id.clone_from(&loaded.suite.suite_id);
                    run.suite_id.clone_from(&loaded.suite.suite_id);
                }
                if loaded.suite.suite_id != run.suite_id {
                    return Err(EngineError::Invalid {
                        message: format!(
                            "cannot accept run {}: it is a run of {}, not of {}",
                            run.run_id, run.suite_id, loaded.suite.suite_id
                        ),
                        hint: "pass the directory of the suite that was run".into(),
                    });
                }
                let path = baseline_file(&loaded);
                write(&path, &run)?;
                Some(path.display().to_string())
            }
            None => None,
        };
        let store = self.engine.store().await?;
        if let Some(found) = result_file {
            warnings = notes_of(&request.run, &found);
            if store.bench().run(&run.run_id).await?.is_none() {
                self.keep_import(path, found).await?;
            }
        }
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
            warnings,
        })
    }
}

/// What a result file lost that decides, and how its columns were read.
fn notes_of(named: &str, found: &ResultFile) -> Vec<String> {
    let lost = found.import.losses.iter().filter(|loss| loss.decides);
    let mut notes: Vec<String> = lost.map(|loss| format!("{named}: {loss}")).collect();
    if found.columns.iter().any(|column| column.guessed) {
        let columns: Vec<String> = found.columns.iter().map(ToString::to_string).collect();
        notes.push(format!("{named}: columns read as {}", columns.join(",")));
    }
    notes
}

/// Finds the baseline of a suite: the file in its directory, versioned with its cases, has precedence over
/// the database.
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
        .find_run(&row.run_id, Detail::Metrics)
        .await
        .map(Some)
}

/// Reads the accepted run in the suite's directory, if there is one.
pub(crate) fn stored_baseline(loaded: &LoadedSuite) -> Result<Option<BenchmarkRun>, EngineError> {
    let path = baseline_file(loaded);
    if path.is_file() {
        return from_file(&path).map(Some);
    }
    Ok(None)
}

/// Compares a run with a baseline.
pub(crate) fn judge(
    baseline: &BenchmarkRun,
    candidate: &BenchmarkRun,
    policy: &GatePolicy,
) -> Result<GateReport, EngineError> {
    let conditions = Conditions::new(&baseline.config_snapshot, &candidate.config_snapshot, policy);
    let mut report = bench::compare(baseline, candidate, &conditions.policy).map_err(EngineError::Figures)?;
    conditions.annotate(&mut report);
    Ok(report)
}

/// Conditions of a comparison. Latencies from another machine or another sandbox say nothing about a target
/// that computes there, so they are not compared unless the policy asks for it.
pub(super) struct Conditions {
    pub(super) policy: GatePolicy,
    /// Why latencies are not compared.
    without_latency: Option<&'static str>,
}

type Snapshot = BTreeMap<String, Value>;

impl Conditions {
    pub(super) fn new(baseline: &Snapshot, candidate: &Snapshot, policy: &GatePolicy) -> Self {
        let machine = |run: &Snapshot| run.get(MACHINE).cloned().filter(|id| !id.is_null());
        // Starting processes in a sandbox takes some milliseconds; runs of earlier versions were not sandboxed.
        let isolation = |run: &Snapshot| {
            run.get(SANDBOX)
                .and_then(|sandbox| sandbox.get("isolation"))
                .and_then(|isolation| isolation.as_str().map(str::to_owned))
                .filter(|isolation| !matches!(isolation.as_str(), "none" | "not_applicable"))
        };
        let same_machine = machine(baseline).is_some() && machine(baseline) == machine(candidate);
        let without_latency = if policy.latency_across_machines {
            None
        } else if !same_machine {
            Some("latencies are not compared: they were measured on another machine")
        } else if isolation(baseline) != isolation(candidate) {
            Some("latencies are not compared: they were measured in another sandbox")
        } else {
            None
        };
        let mut policy = policy.clone();
        if without_latency.is_some() {
            policy.latency_increase = f64::INFINITY;
        }
        Self {
            policy,
            without_latency,
        }
    }

    /// Says that latencies are not compared, if there are any.
    pub(super) fn annotate(&self, report: &mut GateReport) {
        if let Some(reason) = self.without_latency
            && report.latency.take().is_some()
        {
            report.reasons.push(reason.to_owned());
        }
    }
}

/// Configuration key of the machine id. Its value is a hash, because a baseline is committed and read by
/// others.
pub(super) const MACHINE: &str = "machine";

/// Id of this machine; `None` if it cannot be determined.
pub(super) fn this_machine() -> Option<String> {
    let id = fs_err::read_to_string("/etc/machine-id").ok()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let hash = blake3::hash(format!("satiety machine {} {cores}", id.trim()).as_bytes());
    Some(hash.to_hex().chars().take(16).collect())
}

/// Stores a gate verdict under its id, with the override if the verdict needed one.
pub(super) async fn keep_gate(
    store: &Store,
    gate_id: String,
    suite_id: &str,
    report: &GateReport,
    accept: Option<VerdictOverride>,
) -> Result<Option<VerdictOverride>, EngineError> {
    let accepted = accept.filter(|_| report.verdict == GateVerdict::Regression);
    let row = GateRow {
        gate_id,
        suite_id: suite_id.into(),
        baseline_run: report.baseline_run.clone(),
        candidate_run: report.candidate_run.clone(),
        verdict: enum_name(&report.verdict),
        accepted_by: accepted.as_ref().map(|accepted| accepted.by.clone()),
        accepted_why: accepted.as_ref().map(|accepted| accepted.reason.clone()),
        decided_at: now_micros(),
        report: serde_json::to_value(report)?,
    };
    store.bench().put_gate(&row).await?;
    Ok(accepted)
}

pub(crate) fn baseline_file(loaded: &LoadedSuite) -> PathBuf {
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
