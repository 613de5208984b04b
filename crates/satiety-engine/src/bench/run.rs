//! Running a suite: plan it, say what it can show, run it, take up what was interrupted, and judge it by the baseline.

use crate::handles::BenchOperations;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use satiety::bench::{
    self, BenchmarkResult, BenchmarkRun, BenchmarkSummary, Design, GatePolicy, PowerStatement,
    SandboxRequirement, Status, leading, noise_of, statement, summarize,
};
use satiety_store::Store;
use satiety_store::bench::{BenchRunRow, ResultKey};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::baseline::{Override, baseline_of};
use super::executor::{self, Job, Lead, LocalJobs, Progress, Runner, Stop};
use super::finalize::{GateContext, GateOutcome, PostRun, by_variant, finish, new_gate_id};
use super::history::{each_result, trim};
use super::limits::Limits;
use super::outline::{key_of, outline, run_row, snapshot};
use super::plan::{Selection, jobs};
use super::sequential::{SequentialOutcome, SequentialWatch};
use super::suites::{LoadedSuite, load};
use crate::EngineError;

/// A suite to run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RunBody")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, named where it is made"
)]
pub struct RunBenchRequest {
    /// The suite: a file or folder on this machine; over HTTP one below the server's root.
    pub suite: PathBuf,
    /// What to run: a file or a short form; what the suite's folder describes by default.
    #[serde(default)]
    pub target: Option<String>,
    /// How often each case is run; what the suite says by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub repeats: Option<u32>,
    /// Only these cases.
    #[serde(default)]
    pub cases: Vec<String>,
    /// Only cases with one of these tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Chat models that judge.
    #[serde(skip)]
    pub judges: Vec<String>,
    /// Calls at a time, a minute, and so on.
    #[serde(skip)]
    pub limits: Limits,
    /// How long an answer may take.
    #[serde(skip)]
    pub timeout_ms: Option<u64>,
    /// The seed of what is random.
    #[serde(default)]
    pub seed: u64,
    /// Whether the target's processes must be sandboxed; absent for what its description says.
    #[serde(skip)]
    pub sandbox: Option<SandboxRequirement>,
    /// Whether the caller asked for the sandbox by name: then a target that starts no process is refused.
    #[serde(skip)]
    pub sandbox_is_explicit: bool,
    /// Whether answers may come from the cache.
    #[serde(skip)]
    pub cache: bool,
    /// Whether a skill is also run without itself.
    #[serde(skip)]
    pub without_skill: bool,
    /// Whether working folders stay.
    #[serde(skip)]
    pub keep_workdirs: bool,
    /// The run to resume: its id.
    #[serde(default)]
    pub resume: Option<String>,
    /// Judge the run by the suite's baseline.
    #[serde(default, deserialize_with = "default_gate")]
    #[schemars(with = "bool", extend("default" = false))]
    pub gate: Option<GatePolicy>,
    /// Give the cases to workers (`satiety worker`) on the same store; the job waits for them.
    #[serde(default)]
    pub distributed: bool,
    /// Whether to stop repeats as soon as a comparison with the baseline has decided.
    #[serde(skip)]
    pub sequential: bool,
    /// Who lets a regression through, and why.
    #[serde(skip)]
    pub accept_regression: Option<Override>,
    /// The variables that descriptions may name.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    /// Whether further suites of the same evaluation follow: the harness cycle is recorded after the last one.
    #[serde(skip)]
    pub more_follow: bool,
}

/// A client says whether to judge a run; the policy is the default one.
fn default_gate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<GatePolicy>, D::Error> {
    Ok(bool::deserialize(deserializer)?.then(GatePolicy::default))
}

/// A suite that is ready to be run.
#[derive(Debug)]
pub struct BenchPlan {
    pub(super) request: RunBenchRequest,
    pub(super) loaded: LoadedSuite,
    pub(super) baseline: Option<BenchmarkRun>,
    pub(super) power: PowerStatement,
}

impl BenchPlan {
    /// The suite that will be run, as it was read.
    pub(crate) fn suite(&self) -> &LoadedSuite {
        &self.loaded
    }

    /// What the run can show.
    pub fn power(&self) -> &PowerStatement {
        &self.power
    }

    /// Refuses to judge by a baseline that is not there.
    pub(super) fn has_what_it_needs(&self) -> Result<(), EngineError> {
        let request = &self.request;
        if (request.gate.is_some() || request.sequential)
            && self.baseline.is_none()
            && request.accept_regression.is_none()
        {
            return Err(EngineError::Invalid {
                message: format!("{} has no baseline to be judged by", self.loaded.suite.suite_id),
                hint: "run it without --gate, look at it, and accept it: satiety bench baseline RUN --reason \"…\"".into(),
            });
        }
        Ok(())
    }
}

/// A suite that was run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunBenchResponse {
    /// The run, its results without outputs; `bench report` has everything.
    #[serde(flatten)]
    pub run: BenchmarkRun,
    /// What the design can show.
    pub power: PowerStatement,
    /// Results that were there from an earlier sitting.
    pub resumed: usize,
    /// Whether it was ended before everything was run.
    pub interrupted: bool,
    /// What the gate says, when there is one and a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<bench::GateReport>,
    /// Who let a regression through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Override>,
    /// What stopping early came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential: Option<SequentialOutcome>,
    /// By variant, its figures, where there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, BenchmarkSummary>,
    /// What was unusual about the suite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What followed the gate: alerts, and the harness cycle.
    #[serde(skip)]
    pub post: PostRun,
    /// The run it was judged by, for reports that show both.
    #[serde(skip)]
    pub baseline: Option<BenchmarkRun>,
}

impl RunBenchResponse {
    /// A run that was not gated, or not yet.
    pub(super) fn new(
        run: BenchmarkRun,
        power: PowerStatement,
        resumed: usize,
        complete: bool,
        warnings: Vec<String>,
        baseline: Option<BenchmarkRun>,
    ) -> Self {
        Self {
            power,
            resumed,
            interrupted: !complete,
            gate: None,
            accepted: None,
            sequential: None,
            variants: by_variant(&run),
            warnings,
            post: PostRun::default(),
            baseline,
            run,
        }
    }

    pub(super) fn conclude(&mut self, gated: GateOutcome) {
        (self.gate, self.accepted, self.post) = (gated.report, gated.accepted, gated.post);
    }
}

impl BenchOperations<'_> {
    /// Reads the suite and its baseline and says what a run could show, before anything is asked.
    pub async fn plan(self, mut request: RunBenchRequest) -> Result<BenchPlan, EngineError> {
        let mut loaded = load(&request.suite)?;
        if request.gate.is_some() {
            crate::harness::hold_to_lock(&mut request, &loaded)?;
        }
        crate::harness::confine_harness_run(&mut request, &loaded)?;
        selection(&request).apply(&mut loaded.suite)?;
        let baseline = baseline_of(self.engine, &loaded).await?;
        let power = power(&loaded, request.repeats, baseline.as_ref())?;
        Ok(BenchPlan {
            request,
            loaded,
            baseline,
            power,
        })
    }

    /// Runs what was planned. `progress` is called now and then; `stop` ends it early, and what is stored stays.
    pub async fn execute(
        self,
        plan: BenchPlan,
        stop: &Stop,
        mut progress: impl FnMut(Progress),
    ) -> Result<RunBenchResponse, EngineError> {
        plan.has_what_it_needs()?;
        let BenchPlan {
            request,
            mut loaded,
            baseline,
            power,
        } = plan;
        let store = self.engine.store().await?.clone();
        let mut watcher = match (&baseline, request.sequential) {
            (Some(baseline), true) => Some(SequentialWatch::new(baseline, &loaded, request.repeats)?),
            _ => None,
        };
        let warnings = std::mem::take(&mut loaded.warnings);
        let prepared = Box::pin(self.prepare(&request, loaded, &store)).await?;
        let done = prepared.done.len();
        let planned = prepared.jobs.len();
        let todo: Vec<Job> = prepared.todo();
        let mut tally = Tally::new(planned);
        let mut results: Vec<BenchmarkResult> = Vec::with_capacity(planned);
        if done > 0 {
            each_result(&store, &prepared.run_id, |mut result| {
                trim(&mut result);
                tally.add(&result);
                if let Some(watcher) = &mut watcher {
                    watcher.see(&result);
                }
                results.push(result);
            })
            .await?;
        }
        progress(tally.progress());
        let decided_before = watcher.as_ref().is_some_and(SequentialWatch::decided);
        let todo = if decided_before { Vec::new() } else { todo };
        let runner = Arc::new(prepared.runner);
        let work = LocalJobs::new(runner.clone(), todo, store.clone());
        let lead = if watcher.is_some() {
            Lead::Narrow
        } else {
            Lead::Wide
        };
        let running = executor::run(work.clone(), work.at_a_time(), lead, stop, |result| {
            tally.add(&result);
            let mut go_on = true;
            if let Some(watcher) = &mut watcher {
                watcher.see(&result);
                go_on = !watcher.decided();
            }
            results.push(result);
            progress(tally.progress());
            go_on
        });
        Box::pin(running).await?;
        for variant in &runner.variants {
            variant.target.close().await;
        }
        // The cases are not needed any more, and reports need room.
        drop((work, runner));
        // The order of a run does not depend on who answered first.
        results.sort_by(|a, b| (&a.case_id, &a.variant, a.repeat).cmp(&(&b.case_id, &b.variant, b.repeat)));
        let stopped_early = watcher.as_ref().is_some_and(SequentialWatch::decided);
        let complete = results.len() == planned || stopped_early;
        let run = finish(&store, &prepared.row, results, complete).await?;
        let mut ran = RunBenchResponse {
            sequential: watcher.as_ref().map(SequentialWatch::outcome),
            ..RunBenchResponse::new(run, power, done, complete, warnings, baseline)
        };
        if let (Some(policy), true) = (&request.gate, complete) {
            let gating = GateContext {
                gate_id: new_gate_id(),
                policy,
                accept: request.accept_regression.clone(),
                records_cycle: !request.more_follow,
                shared: false,
            };
            let gated = self.gate_run(&ran.run, ran.baseline.as_ref(), gating);
            let gated = Box::pin(gated).await?;
            ran.conclude(gated);
        }
        Ok(ran)
    }

    async fn prepare(
        self,
        request: &RunBenchRequest,
        loaded: LoadedSuite,
        store: &Store,
    ) -> Result<PreparedRun, EngineError> {
        let mut outline = outline(request, &loaded)?;
        outline.isolate()?;
        let jobs = jobs(&loaded.suite, request.repeats, outline.variants.len());
        let snapshot = snapshot(request, &loaded, &outline);
        let row = run_row(store, request, &loaded.suite, &outline, &snapshot).await?;
        if let Some(plan) = store.bench().plan(&row.run_id).await?
            && plan.closed_at.is_none()
        {
            return Err(EngineError::Invalid {
                message: format!("the cases of run {} are with workers", row.run_id),
                hint:
                    "wait for it with --distributed --resume, or take it back first: satiety bench cancel RUN"
                        .into(),
            });
        }
        store.bench().begin_run(&row).await?;
        let done = if request.resume.is_some() {
            store
                .bench()
                .result_keys(&row.run_id)
                .await?
                .into_iter()
                .collect()
        } else {
            HashSet::new()
        };
        let runner = self.equip(row.run_id.clone(), request, loaded, outline, store)?;
        Ok(PreparedRun {
            run_id: row.run_id.clone(),
            row,
            runner,
            jobs,
            done,
        })
    }
}

/// A run that is ready to begin or to go on.
struct PreparedRun {
    run_id: String,
    row: BenchRunRow,
    runner: Runner,
    jobs: Vec<Job>,
    done: HashSet<ResultKey>,
}

impl PreparedRun {
    /// What is left to do.
    fn todo(&self) -> Vec<Job> {
        let variants: Vec<&str> = self
            .runner
            .variants
            .iter()
            .map(|variant| variant.name.as_str())
            .collect();
        let left = self.jobs.iter().filter(|job| {
            self.done.is_empty() || !self.done.contains(&key_of(&self.runner.suite, &variants, **job))
        });
        left.copied().collect()
    }
}

pub(super) fn selection(request: &RunBenchRequest) -> Selection {
    Selection {
        cases: request.cases.clone(),
        tags: request.tags.clone(),
    }
}

fn power(
    loaded: &LoadedSuite,
    repeats: Option<u32>,
    baseline: Option<&BenchmarkRun>,
) -> Result<PowerStatement, EngineError> {
    let suite = &loaded.suite;
    let cases = suite.cases.len() as u64;
    let of = |case| u64::from(repeats.unwrap_or_else(|| suite.repeats_of(case)).max(1));
    let total: u64 = suite.cases.iter().map(of).sum();
    let mut design = Design::new(cases, (total / cases.max(1)).max(1));
    let known = baseline.and_then(|run| noise_of(&summarize(leading(&run.results)).per_case));
    if let Some(noise) = known {
        design.noise = noise;
    }
    statement(design).map_err(EngineError::Figures)
}

pub(super) struct Tally(Progress);

impl Tally {
    pub(super) fn new(planned: usize) -> Self {
        Self(Progress {
            done: 0,
            planned,
            passed: 0,
            failed: 0,
            undecided: 0,
        })
    }

    fn add(&mut self, result: &BenchmarkResult) {
        self.count(result.status, 1);
    }

    pub(super) fn count(&mut self, status: Status, results: usize) {
        self.0.done += results;
        match status {
            Status::Pass => self.0.passed += results,
            Status::Fail | Status::Timeout => self.0.failed += results,
            _ => self.0.undecided += results,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        self.0
    }
}
