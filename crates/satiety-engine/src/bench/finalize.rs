//! Finalises a run: computes its summary and the gate's verdict, and triggers alerts and the harness cycle.
//! Local and distributed runs share this code. Several processes may finalise a distributed run concurrently;
//! its verdict, alert and harness cycle are produced once.

use crate::handles::BenchOperations;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use satiety::Hint;
use satiety::bench::{
    BenchmarkResult, BenchmarkRun, BenchmarkSummary, GatePolicy, GateReport, GateVerdict, summarize_run,
    summarize_system,
};
use satiety::ids;
use satiety_store::bench::{BenchRunRow, GateRow};
use satiety_store::{Store, now_micros};
use serde_json::{Value, json};

use super::baseline::{MACHINE, VerdictOverride, baseline_file, judge, keep_gate};
use super::distributed::DistributedPlan;
use super::history::{Detail, from_file, load as load_run, time};
use super::outage::answered;
use super::suites::load;
use crate::EngineError;
use crate::harness::{RecordCycleRequest, RecordedCycle};
use crate::root_path::below;

/// How long each call of the database may take while a distributed run is finalised; some read all of its results. A
/// connection that was cut must not stop a worker. Each call is limited by itself: an alert that was claimed is sent.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);

/// Actions after a gated run.
#[derive(Debug, Default)]
pub struct PostRun {
    /// Errors of hooks that failed.
    pub warnings: Vec<String>,
    /// Harness cycle recorded by this process, or the error that prevented it.
    pub cycle: Option<Result<Box<RecordedCycle>, EngineError>>,
}

impl PostRun {
    /// All failures; they do not affect the verdict of the run.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        let cycle = self.cycle.as_ref().and_then(|cycle| cycle.as_ref().err());
        let cycle = cycle.map(|problem| format!("cannot record the harness cycle: {problem}"));
        self.warnings.iter().cloned().chain(cycle)
    }

    /// Logs all failures, for a remote caller.
    pub fn log(&self) {
        for warning in self.failures() {
            tracing::warn!("{warning}");
        }
    }
}

/// How a complete run is judged, and the actions that follow.
pub(super) struct GateContext<'a> {
    /// Id to store the verdict under; the first verdict of an id wins.
    pub(super) gate_id: String,
    pub(super) policy: &'a GatePolicy,
    /// Report of a gate that was asked while the run was made; `None` compares the complete run.
    pub(super) report: Option<GateReport>,
    pub(super) accept: Option<VerdictOverride>,
    /// Whether to record the next harness cycle.
    pub(super) records_cycle: bool,
    /// Whether other processes may finalise the same run: the first one's verdict, alert and cycle count.
    pub(super) shared: bool,
}

/// Verdict of a run; there is no report without a baseline.
#[derive(Default)]
pub(super) struct GateOutcome {
    pub(super) report: Option<GateReport>,
    pub(super) accepted: Option<VerdictOverride>,
    pub(super) post: PostRun,
}

/// Finalised distributed run.
pub(super) struct FinalizedRun {
    pub(super) run: BenchmarkRun,
    pub(super) baseline: Option<BenchmarkRun>,
    pub(super) gated: GateOutcome,
}

pub(super) fn new_gate_id() -> String {
    ids::prefixed("gate", uuid::Uuid::now_v7())
}

impl BenchOperations<'_> {
    /// Compares a complete run with its baseline, stores the verdict, alerts on a regression and records the
    /// harness cycle.
    pub(super) async fn gate_run(
        self,
        run: &BenchmarkRun,
        baseline: Option<&BenchmarkRun>,
        gating: GateContext<'_>,
    ) -> Result<GateOutcome, EngineError> {
        let store = self.engine.store().await?;
        let mut gated = GateOutcome::default();
        let once = gating.shared.then_some(run.run_id.as_str());
        if let Some(baseline) = baseline {
            let earlier = match once {
                Some(_) => answered(store, ANSWER_LIMIT, store.bench().gate(&gating.gate_id)).await?,
                None => None,
            };
            let (report, accepted) = if let Some(kept) = earlier {
                stored_verdict(kept)?
            } else {
                let report = match gating.report {
                    Some(report) => report,
                    None => judge(baseline, run, gating.policy)?,
                };
                let kept = keep_gate(store, gating.gate_id, &run.suite_id, &report, gating.accept);
                let accepted = answered(store, ANSWER_LIMIT, kept).await?;
                (report, accepted)
            };
            if accepted.is_none() {
                gated.post.warnings = self.alert_regression(&run.suite_id, &report, once).await?;
            }
            (gated.report, gated.accepted) = (Some(report), accepted);
        }
        if gating.records_cycle {
            self.record_cycle_after(&mut gated.post, once).await?;
        }
        Ok(gated)
    }

    /// Sends an alert if the verdict is a regression. `once` names the run if several processes may alert for
    /// it; a process without alert hooks leaves it to the others. Returns the errors of failed hooks.
    pub(super) async fn alert_regression(
        self,
        suite_id: &str,
        report: &GateReport,
        once: Option<&str>,
    ) -> Result<Vec<String>, EngineError> {
        let alert = &self.engine.hooks.regression;
        if report.verdict != GateVerdict::Regression
            || alert.is_empty()
            || !self.is_first("bench.alert", once).await?
        {
            return Ok(Vec::new());
        }
        let mut body = serde_json::to_value(report)?;
        if let Some(fields) = body.as_object_mut() {
            fields.insert("event".into(), json!("bench_regression"));
            fields.insert("suite_id".into(), json!(suite_id));
        }
        Ok(alert.send("bench.alert", &body).await)
    }

    async fn record_cycle_after(self, post: &mut PostRun, once: Option<&str>) -> Result<(), EngineError> {
        let Some(cycle) = &self.engine.hooks.cycle else {
            return Ok(());
        };
        if !self.is_first("harness.record", once).await? {
            return Ok(());
        }
        let request = RecordCycleRequest {
            folder: cycle.folder.clone(),
            driver: cycle.driver,
            ..RecordCycleRequest::default()
        };
        let recorded = Box::pin(self.engine.harness().record(request)).await;
        post.cycle = Some(recorded.map(|mut recorded| {
            post.warnings.append(&mut recorded.warnings);
            Box::new(recorded)
        }));
        Ok(())
    }

    /// Finalises a distributed run with all results. Idempotent: a second process finds it finalised and
    /// changes nothing.
    pub(super) async fn finalize_distributed(
        self,
        run_id: &str,
        plan: &DistributedPlan,
        root: &Path,
    ) -> Result<FinalizedRun, EngineError> {
        let store = self.engine.store().await?;
        let row = stored_row(store, run_id).await?;
        let mut run = answered(store, ANSWER_LIMIT, load_run(store, row, Detail::Metrics)).await?;
        let summary = summarize_run(&run.results, &run.config_snapshot);
        let bench = store.bench();
        let completing = bench.complete_distributed_run(run_id, &summary, summary.pass_rate);
        answered(store, ANSWER_LIMIT, completing).await?;
        run.completed_at = stored_row(store, run_id).await?.completed_at.map(time);
        run.summary = Some(summary);
        // Latencies from several machines are not comparable, even if the run started on one; the gate
        // ignores them.
        run.config_snapshot.insert(MACHINE.into(), Value::Null);
        let baseline = match (&plan.gate, &plan.baseline) {
            (Some(_), Some(named)) => Some(self.baseline_named(named, plan, root).await?),
            _ => None,
        };
        let mut gated = GateOutcome::default();
        if let Some(policy) = &plan.gate {
            let gating = GateContext {
                gate_id: format!("gate-of-{run_id}"),
                policy,
                report: None,
                accept: plan.accept_regression.clone(),
                records_cycle: true,
                shared: true,
            };
            gated = Box::pin(self.gate_run(&run, baseline.as_ref(), gating)).await?;
        }
        answered(store, ANSWER_LIMIT, bench.close_plan(run_id)).await?;
        Ok(FinalizedRun { run, baseline, gated })
    }

    /// Whether this process is the first to act on a run that several may finalise; always true if `once` is
    /// `None`.
    async fn is_first(self, what: &str, once: Option<&str>) -> Result<bool, EngineError> {
        let Some(run_id) = once else {
            return Ok(true);
        };
        let me = uuid::Uuid::now_v7().simple().to_string();
        let store = self.engine.store().await?;
        let subject = format!("{what}/{run_id}");
        let claiming = store.maintenance().claim_notice(&subject, &me);
        Ok(answered(store, ANSWER_LIMIT, claiming).await?)
    }

    /// Loads the baseline that a plan names, from the suite's directory here or from the database.
    async fn baseline_named(
        self,
        named: &str,
        plan: &DistributedPlan,
        root: &Path,
    ) -> Result<BenchmarkRun, EngineError> {
        if let Ok(place) = below(root, &plan.suite)
            && let Ok(loaded) = load(&place)
        {
            let file = baseline_file(&loaded);
            if file.is_file() {
                let run = from_file(&file)?;
                if run.run_id == named {
                    return Ok(run);
                }
            }
        }
        let store = self.engine.store().await?;
        match answered(store, ANSWER_LIMIT, store.bench().run(named)).await? {
            Some(row) => answered(store, ANSWER_LIMIT, load_run(store, row, Detail::Metrics)).await,
            None => Err(EngineError::Invalid {
                message: format!(
                    "baseline {named} not found, neither in the suite's directory nor in the database"
                ),
                hint: "check out the commit that the run was started from".into(),
            }),
        }
    }
}

async fn stored_row(store: &Store, run_id: &str) -> Result<BenchRunRow, EngineError> {
    let row = answered(store, ANSWER_LIMIT, store.bench().run(run_id)).await?;
    row.ok_or_else(|| EngineError::NotFound {
        what: format!("run `{run_id}`"),
        hint: Hint::with_command("list the runs to see their ids", "satiety bench list --runs"),
    })
}

fn stored_verdict(kept: GateRow) -> Result<(GateReport, Option<VerdictOverride>), EngineError> {
    let accepted = kept.accepted_by.map(|by| VerdictOverride {
        by,
        reason: kept.accepted_why.unwrap_or_default(),
    });
    Ok((serde_json::from_value(kept.report)?, accepted))
}

/// Computes the summary of a run of this process, and stores it if the run is complete.
pub(super) async fn finish(
    store: &Store,
    row: &BenchRunRow,
    results: Vec<BenchmarkResult>,
    complete: bool,
) -> Result<BenchmarkRun, EngineError> {
    let summary = summarize_run(&results, &snapshot_of(row));
    let completed_at = now_micros();
    if complete {
        store
            .bench()
            .complete_run(&row.run_id, completed_at, &summary, summary.pass_rate)
            .await?;
    }
    Ok(BenchmarkRun {
        completed_at: complete.then(|| time(completed_at)),
        summary: Some(summary),
        ..run_of(row, results)
    })
}

/// Configuration of a run.
pub(super) fn snapshot_of(row: &BenchRunRow) -> BTreeMap<String, Value> {
    let snapshot = row.config_snapshot.as_object().cloned().unwrap_or_default();
    snapshot.into_iter().collect()
}

/// Run with the results so far.
pub(super) fn run_of(row: &BenchRunRow, results: Vec<BenchmarkResult>) -> BenchmarkRun {
    BenchmarkRun {
        run_id: row.run_id.clone(),
        suite_id: row.suite_id.clone(),
        suite_hash: Some(row.suite_hash.clone()),
        target: row.target.clone(),
        started_at: time(row.started_at),
        completed_at: None,
        config_snapshot: snapshot_of(row),
        results,
        summary: None,
    }
}

/// Summaries by variant; empty if there is only one.
pub(super) fn by_variant(run: &BenchmarkRun) -> BTreeMap<String, BenchmarkSummary> {
    let mut groups: BTreeMap<&str, Vec<&BenchmarkResult>> = BTreeMap::new();
    for result in &run.results {
        groups
            .entry(result.variant.as_deref().unwrap_or_default())
            .or_default()
            .push(result);
    }
    if groups.len() < 2 {
        return BTreeMap::new();
    }
    groups
        .into_iter()
        .map(|(name, results)| {
            let summary = summarize_system(results, &run.config_snapshot);
            (name.to_owned(), summary)
        })
        .collect()
}
