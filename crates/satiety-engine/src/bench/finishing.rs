//! The end of a run: its figures, what the gate says, and who is told. A run of this process and one that was spread over
//! workers end alike; of the latter, everything may be done by several at once and comes out once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::bench::{
    BenchmarkResult, BenchmarkRun, BenchmarkSummary, GatePolicy, GateReport, GateVerdict, leading, summarize,
};
use satiety::harness::Driver;
use satiety::ids;
use satiety_store::bench::{BenchRunRow, GateRow};
use satiety_store::{Store, now_micros};
use serde_json::Value;

use super::comparing::{MACHINE, Override, baseline_file, judge, keep_gate};
use super::spreading::SpreadPlan;
use super::stored::{Detail, from_file, load as load_run, time};
use super::suites::load;
use crate::harness::RecordCycleRequest;
use crate::rooted::below;
use crate::{Alert, Engine, EngineError};

/// What is done once a run that was spread has ended.
#[derive(Debug, Clone, Default)]
pub struct Afterwards {
    /// Whom to tell about a regression.
    pub alert: Alert,
    /// The harness whose next cycle is recorded after a gate, where one is.
    pub cycle: Option<CycleAfter>,
}

/// A cycle of a harness that follows a gate.
#[derive(Debug, Clone)]
pub struct CycleAfter {
    /// The harness.
    pub folder: PathBuf,
    /// Which score its window follows.
    pub driver: Driver,
    /// Whom to tell when it asks for a person.
    pub notify: Alert,
}

/// How a run is judged.
pub(super) struct Gating<'a> {
    /// What the verdict is kept under: the first one of an id stays.
    pub(super) gate_id: String,
    pub(super) policy: &'a GatePolicy,
    pub(super) accept: Option<Override>,
}

/// A run that was spread and has ended.
pub(super) struct Ended {
    pub(super) run: BenchmarkRun,
    pub(super) gate: Option<GateReport>,
    pub(super) accepted: Option<Override>,
    pub(super) baseline: Option<BenchmarkRun>,
    /// What could not be told or recorded.
    pub(super) warnings: Vec<String>,
}

pub(super) fn new_gate_id() -> String {
    ids::prefixed("gate", uuid::Uuid::now_v7())
}

/// Judges a run and keeps what was said.
pub(super) async fn judged(
    store: &Store,
    baseline: &BenchmarkRun,
    run: &BenchmarkRun,
    gating: Gating<'_>,
) -> Result<(GateReport, Option<Override>), EngineError> {
    let report = judge(baseline, run, gating.policy)?;
    let accepted = keep_gate(store, gating.gate_id, &run.suite_id, &report, gating.accept).await?;
    Ok((report, accepted))
}

impl Engine {
    /// Ends a run of which every case has its result. Whoever comes second finds it ended and changes nothing.
    pub(super) async fn end_spread(
        &self,
        run_id: &str,
        plan: &SpreadPlan,
        root: &Path,
        after: &Afterwards,
    ) -> Result<Ended, EngineError> {
        let store = self.store().await?;
        let row = stored_row(store, run_id).await?;
        let mut run = load_run(store, row, Detail::Figures).await?;
        let summary = summarize(leading(&run.results));
        store
            .bench()
            .complete_distributed_run(run_id, &summary, summary.pass_rate)
            .await?;
        run.completed_at = stored_row(store, run_id).await?.completed_at.map(time);
        run.summary = Some(summary);
        // Also of a run that was begun on one machine: times of several are those of none, and are not judged.
        run.config_snapshot.insert(MACHINE.into(), Value::Null);
        let mut ended = Ended {
            run,
            gate: None,
            accepted: None,
            baseline: None,
            warnings: Vec::new(),
        };
        if let (Some(policy), Some(named)) = (&plan.gate, &plan.baseline) {
            let baseline = self.baseline_named(named, plan, root).await?;
            let gate_id = format!("gate-of-{run_id}");
            let (report, accepted) = if let Some(kept) = store.bench().gate(&gate_id).await? {
                said_before(kept)?
            } else {
                let accept = plan.accept_regression.clone();
                let gating = Gating {
                    gate_id,
                    policy,
                    accept,
                };
                judged(store, &baseline, &ended.run, gating).await?
            };
            if accepted.is_none() {
                self.tell_once(&mut ended, &report, &after.alert).await?;
            }
            (ended.gate, ended.accepted) = (Some(report), accepted);
            ended.baseline = Some(baseline);
            if let Some(cycle) = &after.cycle {
                self.cycle_once(&mut ended, cycle).await?;
            }
        }
        store.bench().close_plan(run_id).await?;
        Ok(ended)
    }

    /// Tells about a regression, if nobody has. Who has nobody to tell leaves it to others.
    async fn tell_once(
        &self,
        ended: &mut Ended,
        report: &GateReport,
        alert: &Alert,
    ) -> Result<(), EngineError> {
        if report.verdict != GateVerdict::Regression || alert.is_empty() {
            return Ok(());
        }
        if self.is_first("bench.alert", &ended.run.run_id).await? {
            let warnings = self.bench_alert(alert, &ended.run.suite_id, report).await;
            ended.warnings.extend(warnings);
        }
        Ok(())
    }

    /// Records the harness's next cycle, if nobody has for this run.
    async fn cycle_once(&self, ended: &mut Ended, cycle: &CycleAfter) -> Result<(), EngineError> {
        if !self.is_first("harness.record", &ended.run.run_id).await? {
            return Ok(());
        }
        let request = RecordCycleRequest {
            folder: cycle.folder.clone(),
            driver: cycle.driver,
            ..RecordCycleRequest::default()
        };
        match self.harness_record(request).await {
            Ok(recorded) => ended
                .warnings
                .extend(self.harness_alert(&cycle.notify, &recorded).await),
            // The run is judged all the same; what hinders the cycle is told.
            Err(problem) => ended
                .warnings
                .push(format!("the harness's cycle was not recorded: {problem}")),
        }
        Ok(())
    }

    async fn is_first(&self, what: &str, run_id: &str) -> Result<bool, EngineError> {
        let me = uuid::Uuid::now_v7().simple().to_string();
        let store = self.store().await?;
        Ok(store
            .maintenance()
            .claim_notice(&format!("{what}/{run_id}"), &me)
            .await?)
    }

    /// The baseline that a plan names: in the suite's folder here, or in the store.
    async fn baseline_named(
        &self,
        named: &str,
        plan: &SpreadPlan,
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
        let store = self.store().await?;
        match store.bench().run(named).await? {
            Some(row) => load_run(store, row, Detail::Figures).await,
            None => Err(EngineError::Bench {
                message: format!("the baseline {named} is neither beside the suite here nor in the store"),
                hint: "bring this checkout to the commit that the run was started from".into(),
            }),
        }
    }
}

async fn stored_row(store: &Store, run_id: &str) -> Result<BenchRunRow, EngineError> {
    store
        .bench()
        .run(run_id)
        .await?
        .ok_or_else(|| EngineError::NotThere {
            what: format!("run `{run_id}` in the store"),
            hint: "`satiety bench list --runs` shows the runs".into(),
        })
}

fn said_before(kept: GateRow) -> Result<(GateReport, Option<Override>), EngineError> {
    let accepted = kept.accepted_by.map(|by| Override {
        by,
        reason: kept.accepted_why.unwrap_or_default(),
    });
    Ok((serde_json::from_value(kept.report)?, accepted))
}

/// The figures of a run of this process, kept where it is complete.
pub(super) async fn finish(
    store: &Store,
    row: &BenchRunRow,
    results: Vec<BenchmarkResult>,
    complete: bool,
) -> Result<BenchmarkRun, EngineError> {
    let summary = summarize(leading(&results));
    let completed_at = now_micros();
    if complete {
        store
            .bench()
            .complete_run(&row.run_id, completed_at, &summary, summary.pass_rate)
            .await?;
    }
    let snapshot = row.config_snapshot.as_object().cloned().unwrap_or_default();
    Ok(BenchmarkRun {
        run_id: row.run_id.clone(),
        suite_id: row.suite_id.clone(),
        suite_hash: Some(row.suite_hash.clone()),
        target: row.target.clone(),
        started_at: time(row.started_at),
        completed_at: complete.then(|| time(completed_at)),
        config_snapshot: snapshot.into_iter().collect(),
        results,
        summary: Some(summary),
    })
}

/// The figures by variant, where there are several.
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
        .map(|(name, results)| (name.to_owned(), summarize(results)))
        .collect()
}
