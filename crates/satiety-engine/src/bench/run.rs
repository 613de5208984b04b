//! Runs a suite: plans it, states its statistical power, executes or resumes it, and compares it with the
//! baseline.

use crate::handles::BenchOperations;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use satiety::Hint;
use satiety::bench::{
    self, BenchmarkResult, BenchmarkRun, BenchmarkSummary, Design, GatePolicy, GateReport, GateVerdict,
    PowerStatement, SandboxRequirement, Status, baseline_of_target, estimate_noise, leading, statement,
    summarize,
};
use satiety_report::Finding;
use satiety_store::Store;
use satiety_store::bench::{BenchRunRow, ResultKey};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::baseline::{Conditions, VerdictOverride, baseline_of};
use super::browse::keep_cases;
use super::executor::{self, Job, Lead, LocalJobs, Progress, Runner, Stop};
use super::finalize::{
    GateContext, GateOutcome, PostRun, by_variant, finish, new_gate_id, run_of, snapshot_of,
};
use super::findings::findings;
use super::history::{each_result, trim};
use super::limits::Limits;
use super::outline::{key_of, outline, run_row, snapshot};
use super::plan::{Selection, chosen_target, jobs};
use super::provider_targets::{provider_targets, unused_settings};
use super::sequential::{SequentialOutcome, SequentialWatch};
use super::suites::{LoadedSuite, load};
use super::until_decided::{Budget, Rounds, UntilDecided};
use crate::EngineError;

/// Benchmark suite to run, and how.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RunBody")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags are independent, and callers set them by name"
)]
pub struct RunBenchRequest {
    /// Path of the suite's file or directory; over HTTP, below the server's root.
    pub suite: PathBuf,
    /// Target to run: a file or a short form; by default the one described in the suite's directory.
    #[serde(default)]
    pub target: Option<String>,
    /// Repeats of each case; by default as the suite specifies.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub repeats: Option<u32>,
    /// Run only cases with these ids.
    #[serde(default)]
    pub cases: Vec<String>,
    /// Run only cases with one of these tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Chat models to use as judges.
    #[serde(skip)]
    pub judges: Vec<String>,
    /// Concurrency, rate limits and retries.
    #[serde(skip)]
    pub limits: Limits,
    /// Timeout of a response in milliseconds.
    #[serde(skip)]
    pub timeout_ms: Option<u64>,
    /// Seed of the random choices.
    #[serde(default)]
    pub seed: u64,
    /// Whether to sandbox the target's processes; by default as its description specifies.
    #[serde(skip)]
    pub sandbox: Option<SandboxRequirement>,
    /// Whether the caller requested the sandbox explicitly: then a target without a process is an error.
    #[serde(skip)]
    pub sandbox_is_explicit: bool,
    /// Whether to use cached responses.
    #[serde(skip)]
    pub cache: bool,
    /// Whether to run a skill's suite also without the skill.
    #[serde(skip)]
    pub without_skill: bool,
    /// Whether to keep working directories.
    #[serde(skip)]
    pub keep_workdirs: bool,
    /// Id of the run to resume.
    #[serde(default)]
    pub resume: Option<String>,
    /// Whether to compare the run with the suite's baseline.
    #[serde(default, deserialize_with = "default_gate")]
    #[schemars(with = "bool", extend("default" = false))]
    pub gate: Option<GatePolicy>,
    /// Enqueue the cases for workers (`satiety worker`) on the same database; the job waits for them.
    #[serde(default)]
    pub distributed: bool,
    /// Whether to stop early once a sequential test against the baseline has decided.
    #[serde(skip)]
    pub sequential: bool,
    /// Repeat the suite in rounds until the gate decides, within these limits. Implies the gate.
    #[serde(default)]
    pub until_decided: Option<UntilDecided>,
    /// Whether the caller lets an inconclusive gate pass; a locked harness refuses it.
    #[serde(skip)]
    pub inconclusive_passes: bool,
    /// Override that accepts a regression: who accepts it, and why.
    #[serde(skip)]
    pub accept_regression: Option<VerdictOverride>,
    /// Environment variables that target descriptions may refer to.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    /// Whether more suites of the same evaluation follow: the harness cycle is recorded after the last one.
    #[serde(skip)]
    pub more_follow: bool,
}

/// Clients only choose whether to gate a run; the default policy applies.
fn default_gate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<GatePolicy>, D::Error> {
    Ok(bool::deserialize(deserializer)?.then(GatePolicy::default))
}

/// Suite that is ready to run.
#[derive(Debug)]
pub struct BenchPlan {
    pub(super) request: RunBenchRequest,
    pub(super) loaded: LoadedSuite,
    pub(super) baseline: Option<BenchmarkRun>,
    pub(super) power: PowerStatement,
    pub(super) budget: Option<Budget>,
}

impl BenchPlan {
    pub(crate) fn suite(&self) -> &LoadedSuite {
        &self.loaded
    }

    /// Statistical power of the run.
    pub fn power(&self) -> &PowerStatement {
        &self.power
    }

    /// Budget of a run that is repeated until the gate decides.
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// Returns an error if the run is gated but its suite has no baseline.
    pub(super) fn require_baseline(&self) -> Result<(), EngineError> {
        let request = &self.request;
        if (request.gate.is_some() || request.sequential)
            && self.baseline.is_none()
            && request.accept_regression.is_none()
        {
            return Err(EngineError::Invalid {
                message: format!("cannot gate {}: it has no baseline", self.loaded.suite.suite_id),
                hint: Hint::with_command(
                    "run it without the gate and accept the run",
                    "satiety bench baseline RUN --reason TEXT",
                ),
            });
        }
        Ok(())
    }
}

/// Result of running a suite.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunBenchResponse {
    /// The run with its results, without outputs; `bench report` has everything.
    #[serde(flatten)]
    pub run: BenchmarkRun,
    /// Statistical power of the design.
    pub power: PowerStatement,
    /// Number of results from before the run was resumed.
    pub resumed: usize,
    /// Whether the run was stopped before all cases were run.
    pub interrupted: bool,
    /// Report of the regression gate, if the run was gated and a baseline exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<bench::GateReport>,
    /// Override that accepted a regression, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<VerdictOverride>,
    /// Budget of a run that was repeated until the gate decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Outcome of the sequential test, if enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential: Option<SequentialOutcome>,
    /// Summaries by variant; empty if there is only one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, BenchmarkSummary>,
    /// Warnings about the suite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether the suite decides less than the file it was imported from.
    #[serde(skip)]
    pub loses_verdicts: bool,
    /// Actions after the gate: alerts, and the harness cycle.
    #[serde(skip)]
    pub post: PostRun,
    /// The baseline run, for reports that show both.
    #[serde(skip)]
    pub baseline: Option<BenchmarkRun>,
    /// Cases that the gate objects to, at their lines; empty if it passed or the regression was accepted.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

impl RunBenchResponse {
    /// Response for a run that has not been gated.
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
            budget: None,
            sequential: None,
            variants: by_variant(&run),
            warnings,
            loses_verdicts: false,
            post: PostRun::default(),
            baseline,
            findings: Vec::new(),
            run,
        }
    }

    pub(super) fn conclude(&mut self, gated: GateOutcome, suite: &Path) {
        (self.gate, self.accepted, self.post) = (gated.report, gated.accepted, gated.post);
        if let (Some(report), None) = (&self.gate, &self.accepted) {
            self.findings = findings(report, &self.run.suite_id, suite);
        }
    }
}

impl BenchOperations<'_> {
    /// Loads the suite and its baseline and computes the statistical power, before any call is made.
    pub async fn plan(self, mut request: RunBenchRequest) -> Result<BenchPlan, EngineError> {
        let mut loaded = load(&request.suite)?;
        if request.until_decided.is_some() {
            request.gate.get_or_insert_default();
        }
        if request.gate.is_some() {
            crate::harness::hold_to_lock(&mut request, &loaded)?;
        }
        crate::harness::confine_harness_run(&mut request, &loaded)?;
        selection(&request).apply(&mut loaded.suite)?;
        if chosen_target(request.target.as_deref(), &loaded)?.is_none() {
            let (_, missing) = provider_targets(&loaded, &request.environment);
            loaded.loses_verdicts |= !missing.is_empty();
            loaded.warnings.extend(missing);
            let unused = unused_settings(&loaded, &request.environment);
            loaded.warnings.extend(unused);
        }
        let mut baseline = baseline_of(self.engine, &loaded).await?;
        if request.until_decided.is_some() || request.sequential {
            baseline = baseline
                .map(|baseline| one_system(&baseline, &request, &loaded))
                .transpose()?;
        }
        let power = power(&loaded, request.repeats, baseline.as_ref())?;
        let budget = match (&request.until_decided, &baseline, &request.gate) {
            (Some(until), Some(baseline), Some(policy)) => {
                Some(Rounds::new(&request, until, &loaded.suite, baseline, policy.clone())?.budget)
            }
            _ => None,
        };
        Ok(BenchPlan {
            request,
            loaded,
            baseline,
            power,
            budget,
        })
    }

    /// Runs a plan. Calls `progress` periodically; `stop` ends the run early and keeps stored results.
    pub async fn execute(
        self,
        plan: BenchPlan,
        stop: &Stop,
        mut progress: impl FnMut(Progress),
    ) -> Result<RunBenchResponse, EngineError> {
        plan.require_baseline()?;
        let BenchPlan {
            request,
            mut loaded,
            baseline,
            power,
            budget,
        } = plan;
        let store = self.engine.store().await?.clone();
        let watcher = match (&baseline, request.sequential) {
            (Some(baseline), true) => Some(SequentialWatch::new(baseline, &loaded, request.repeats)?),
            _ => None,
        };
        let warnings = std::mem::take(&mut loaded.warnings);
        let loses_verdicts = loaded.loses_verdicts;
        let prepared = Box::pin(self.prepare(&request, loaded, &store)).await?;
        let row = prepared.row.clone();
        let planned = budget.as_ref().map_or(prepared.jobs.len(), |budget| {
            usize::try_from(budget.max_calls).unwrap_or(usize::MAX)
        });
        let done = prepared.done.len();
        let mut session = Session {
            jobs: prepared.jobs,
            runner: Arc::new(prepared.runner),
            store: store.clone(),
            stop,
            watcher,
            results: Vec::new(),
            tally: Tally::new(planned),
            progress: &mut progress,
        };
        if done > 0 {
            session.reload(&row.run_id).await?;
        }
        let mut report = None;
        let complete = if let (Some(until), Some(baseline), Some(policy)) =
            (&request.until_decided, &baseline, &request.gate)
        {
            let snapshot = snapshot_of(&row);
            let conditions = Conditions::new(&baseline.config_snapshot, &snapshot, policy);
            let suite = &session.runner.suite;
            let rounds = Rounds::new(&request, until, suite, baseline, conditions.policy.clone())?;
            let found = Box::pin(session.run_rounds(&rounds, baseline, &row)).await?;
            report = found.map(|mut found| {
                conditions.annotate(&mut found);
                found
            });
            report.is_some()
        } else {
            let jobs = std::mem::take(&mut session.jobs);
            Box::pin(session.run(jobs)).await? || session.is_decided()
        };
        session.runner.close().await;
        // Free the cases before the report is built.
        let Session {
            watcher, mut results, ..
        } = session;
        // The order of results does not depend on which call finished first.
        results.sort_by(|a, b| (&a.case_id, &a.variant, a.repeat).cmp(&(&b.case_id, &b.variant, b.repeat)));
        let run = finish(&store, &row, results, complete).await?;
        let mut ran = RunBenchResponse {
            budget,
            sequential: watcher.as_ref().map(SequentialWatch::outcome),
            loses_verdicts,
            ..RunBenchResponse::new(run, power, done, complete, warnings, baseline)
        };
        if let (Some(policy), true) = (&request.gate, complete) {
            let gating = GateContext {
                gate_id: new_gate_id(),
                policy,
                report,
                accept: request.accept_regression.clone(),
                records_cycle: !request.more_follow,
                shared: false,
            };
            let gated = self.gate_run(&ran.run, ran.baseline.as_ref(), gating);
            let gated = Box::pin(gated).await?;
            ran.conclude(gated, &request.suite);
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
        let mut jobs = jobs(&loaded.suite, request.repeats, outline.variants.len());
        outline.retain_jobs(&loaded.suite, &mut jobs);
        let snapshot = snapshot(request, &loaded, &outline);
        let row = run_row(store, request, &loaded.suite, &outline, &snapshot).await?;
        if let Some(plan) = store.bench().plan(&row.run_id).await?
            && plan.closed_at.is_none()
        {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot resume run {} here: its cases are queued for workers",
                    row.run_id
                ),
                hint: Hint::with_command(
                    "wait for its workers, or cancel it first",
                    "satiety bench cancel RUN",
                ),
            });
        }
        store.bench().begin_run(&row).await?;
        keep_cases(store, &row.run_id, &loaded.suite, &outline.hashes).await?;
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
            row,
            runner,
            jobs,
            done,
        })
    }
}

/// Run that is ready to start or resume.
struct PreparedRun {
    row: BenchRunRow,
    runner: Runner,
    jobs: Vec<Job>,
    /// Jobs with a result from before a resume.
    done: HashSet<ResultKey>,
}

/// Run while it is made.
struct Session<'a, P> {
    jobs: Vec<Job>,
    runner: Arc<Runner>,
    store: Store,
    stop: &'a Stop,
    watcher: Option<SequentialWatch>,
    results: Vec<BenchmarkResult>,
    tally: Tally,
    progress: P,
}

impl<P: FnMut(Progress)> Session<'_, P> {
    /// Adds the results from before a resume.
    async fn reload(&mut self, run_id: &str) -> Result<(), EngineError> {
        let store = self.store.clone();
        each_result(&store, run_id, |mut result| {
            trim(&mut result);
            self.add(result);
        })
        .await
    }

    fn add(&mut self, result: BenchmarkResult) {
        self.tally.add(&result);
        if let Some(watcher) = &mut self.watcher {
            watcher.see(&result);
        }
        self.results.push(result);
    }

    /// Whether the sequential test has decided.
    fn is_decided(&self) -> bool {
        self.watcher.as_ref().is_some_and(SequentialWatch::decided)
    }

    /// Jobs that have no result yet.
    fn open(&self, jobs: Vec<Job>) -> Vec<Job> {
        if self.results.is_empty() {
            return jobs;
        }
        let names: Vec<&str> = self
            .runner
            .variants
            .iter()
            .map(|variant| variant.name.as_str())
            .collect();
        let done: HashSet<ResultKey> = self
            .results
            .iter()
            .map(|result| ResultKey {
                case_id: result.case_id.clone(),
                variant: result.variant.clone().unwrap_or_default(),
                repeat: i64::from(result.repeat),
            })
            .collect();
        jobs.into_iter()
            .filter(|job| !done.contains(&key_of(&self.runner.suite, &names, *job)))
            .collect()
    }

    /// Runs the jobs that have no result yet. Returns whether all of them have one now.
    async fn run(&mut self, jobs: Vec<Job>) -> Result<bool, EngineError> {
        (self.progress)(self.tally.progress());
        let todo = if self.is_decided() {
            Vec::new()
        } else {
            self.open(jobs)
        };
        let expected = self.results.len() + todo.len();
        let work = LocalJobs::new(self.runner.clone(), todo, self.store.clone());
        let lead = if self.watcher.is_some() {
            Lead::Narrow
        } else {
            Lead::Wide
        };
        let stop = self.stop;
        let running = executor::run(work.clone(), work.at_a_time(), lead, stop, |result| {
            self.add(result);
            (self.progress)(self.tally.progress());
            !self.is_decided()
        });
        Box::pin(running).await?;
        Ok(self.results.len() == expected)
    }

    /// Runs rounds until the gate decides or the budget is used up; `None` if the run was stopped before.
    async fn run_rounds(
        &mut self,
        rounds: &Rounds,
        baseline: &BenchmarkRun,
        row: &BenchRunRow,
    ) -> Result<Option<GateReport>, EngineError> {
        let mut last = None;
        let mut exceeded = None;
        for round in 1..=rounds.count() {
            let jobs = self.open(rounds.jobs(round));
            exceeded = rounds.exceeded(&self.results, jobs.len());
            if exceeded.is_some() {
                break;
            }
            if !self.run(jobs).await? {
                return Ok(None);
            }
            loop {
                let candidate = run_of(row, self.results.clone());
                let (report, suspects) = rounds.look(baseline, &candidate, round)?;
                if report.verdict != GateVerdict::Inconclusive {
                    return Ok(Some(report));
                }
                last = Some(report);
                let jobs = self.open(rounds.suspect_jobs(&suspects, &self.results));
                if jobs.is_empty() || rounds.exceeded(&self.results, jobs.len()).is_some() {
                    break;
                }
                if !self.run(jobs).await? {
                    return Ok(None);
                }
            }
        }
        Ok(last.map(|mut report| {
            report.reasons.extend(exceeded);
            report
        }))
    }
}

/// The part of a baseline that a run of one target is compared with, if the baseline has several targets.
fn one_system(
    baseline: &BenchmarkRun,
    request: &RunBenchRequest,
    loaded: &LoadedSuite,
) -> Result<BenchmarkRun, EngineError> {
    let target = if let Some(chosen) = chosen_target(request.target.as_deref(), loaded)? {
        chosen.name
    } else {
        let (found, _) = provider_targets(loaded, &request.environment);
        let names: Vec<String> = found.into_iter().map(|provider| provider.name).collect();
        names.join(", ")
    };
    baseline_of_target(baseline, &target).map_err(|names| EngineError::Invalid {
        message: format!(
            "cannot stop early: the baseline {} has several targets ({}), none of which is {target}",
            baseline.run_id,
            names.join(", ")
        ),
        hint: Hint::with_command(
            "run the target alone and accept that run",
            "satiety bench baseline RUN --reason TEXT",
        ),
    })
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
    let planned_repeats = |case| u64::from(repeats.unwrap_or_else(|| suite.repeats_of(case)).max(1));
    let total: u64 = suite.cases.iter().map(planned_repeats).sum();
    let mut design = Design::new(cases, (total / cases.max(1)).max(1));
    let known = baseline.and_then(|run| estimate_noise(&summarize(leading(&run.results)).per_case));
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
