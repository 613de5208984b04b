//! Running a suite: plan it, say what it can show, run it, take up what was interrupted, and judge it by the baseline.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use satiety::bench::{
    BenchmarkResult, BenchmarkRun, BenchmarkSuite, BenchmarkSummary, Design, GatePolicy, PowerStatement,
    SandboxIsolation, SandboxPolicy, SandboxRequirement, Sequential, SequentialSettings, Status, WITH_SKILL,
    WITHOUT_SKILL, leading, noise_of, statement, suite_hash_of, summarize,
};
use satiety::{bench, ids};
use satiety_models::KeyOwner;
use satiety_models::http::ApiKey;
use satiety_store::bench::{BenchRunRow, ResultKey};
use satiety_store::{Store, StoreUrl, now_micros};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cache::target_hash;
use super::comparing::{MACHINE, Override, baseline_of, this_machine};
use super::finishing::{Gating, by_variant, finish, judged, new_gate_id};
use super::judging::Judges;
use super::limits::{Gate, Limits};
use super::plan::{Described, Selection, confine, isolation, jobs, target};
use super::response_cache::StoredResponses;
use super::runner::{self, Job, Listed, Progress, Runner, Stop, Variant};
use super::sandbox::layout::Protected;
use super::sandbox::{SandboxContext, helper};
use super::stored::{each_result, trim};
use super::suites::{LoadedSuite, case_files, load};
use super::target::{Environment, Surroundings, Target};
use crate::{Engine, EngineError};

/// A suite to be run.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, named where it is made"
)]
pub struct RunBenchRequest {
    /// The suite: a file or folder.
    pub suite: PathBuf,
    /// The target: a file, a short form, or nothing where the suite's folder describes it.
    pub target: Option<String>,
    /// How often each case is run; absent for what the suite says.
    pub repeats: Option<u32>,
    /// Only these cases.
    pub cases: Vec<String>,
    /// Only cases with one of these tags.
    pub tags: Vec<String>,
    /// Chat models that judge.
    pub judges: Vec<String>,
    /// Calls at a time, a minute, and so on.
    pub limits: Limits,
    /// How long an answer may take.
    pub timeout_ms: Option<u64>,
    /// What chance starts from.
    pub seed: u64,
    /// Whether the target's processes must be sandboxed; absent for what its description says.
    pub sandbox: Option<SandboxRequirement>,
    /// Whether the caller asked for the sandbox by name: then a target that starts no process is refused.
    pub sandbox_is_explicit: bool,
    /// Whether answers may come from the cache.
    pub cache: bool,
    /// Whether a skill is also run without itself.
    pub without_skill: bool,
    /// Whether working folders stay.
    pub keep_workdirs: bool,
    /// The run to take up: its id, or `latest`.
    pub resume: Option<String>,
    /// Whether to judge the run by the baseline.
    pub gate: Option<GatePolicy>,
    /// Whether to stop repeats as soon as a comparison with the baseline has decided.
    pub sequential: bool,
    /// Who lets a regression through, and why.
    pub accept_regression: Option<Override>,
    /// The variables that descriptions may name.
    pub environment: BTreeMap<String, String>,
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
            return Err(EngineError::Bench {
                message: format!("{} has no baseline to be judged by", self.loaded.suite.suite_id),
                hint: "run it without --gate, look at it, and accept it: satiety bench baseline RUN --reason \"…\"".into(),
            });
        }
        Ok(())
    }
}

/// A suite that was run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BenchRan {
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
    /// Whether whoever should know of a regression was told already.
    #[serde(skip)]
    pub told: bool,
    /// The run it was judged by, for reports that show both.
    #[serde(skip)]
    pub baseline: Option<BenchmarkRun>,
}

/// What stopping early came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SequentialOutcome {
    /// What was decided, or that nothing was.
    pub progress: bench::Progress,
    /// Pairs that were seen.
    pub pairs: u64,
    /// The evidence; 20 decides at the usual error rate.
    pub e_value: f64,
    /// Calls that need not be made.
    pub calls_saved: u64,
}

impl Engine {
    /// Reads the suite and its baseline and says what a run could show, before anything is asked.
    pub async fn bench_plan(&self, mut request: RunBenchRequest) -> Result<BenchPlan, EngineError> {
        let mut loaded = load(&request.suite)?;
        if request.gate.is_some() {
            crate::harness::hold_to_lock(&mut request, &loaded)?;
        }
        crate::harness::confine_harness_run(&mut request, &loaded)?;
        selection(&request).apply(&mut loaded.suite)?;
        let baseline = baseline_of(self, &loaded).await?;
        let power = power(&loaded, request.repeats, baseline.as_ref())?;
        Ok(BenchPlan {
            request,
            loaded,
            baseline,
            power,
        })
    }

    /// Runs what was planned. `progress` is called now and then; `stop` ends it early, and what is stored stays.
    pub async fn bench_run_plan(
        &self,
        plan: BenchPlan,
        stop: &Stop,
        mut progress: impl FnMut(Progress),
    ) -> Result<BenchRan, EngineError> {
        plan.has_what_it_needs()?;
        let BenchPlan {
            request,
            mut loaded,
            baseline,
            power,
        } = plan;
        let store = self.store().await?.clone();
        let mut watcher = match (&baseline, request.sequential) {
            (Some(baseline), true) => Some(Watcher::new(baseline, &loaded, request.repeats)?),
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
        let decided_before = watcher.as_ref().is_some_and(Watcher::decided);
        let todo = if decided_before { Vec::new() } else { todo };
        let runner = Arc::new(prepared.runner);
        let work = Listed::new(runner.clone(), todo, store.clone());
        let running = runner::run(work.clone(), work.at_a_time(), stop, |result| {
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
        let stopped_early = watcher.as_ref().is_some_and(Watcher::decided);
        let complete = results.len() == planned || stopped_early;
        let run = finish(&store, &prepared.row, results, complete).await?;
        let mut ran = BenchRan {
            power,
            resumed: done,
            interrupted: !complete,
            gate: None,
            accepted: None,
            sequential: watcher.as_ref().map(Watcher::outcome),
            variants: by_variant(&run),
            warnings,
            told: false,
            baseline: None,
            run,
        };
        if let (Some(policy), Some(baseline), true) = (&request.gate, &baseline, complete) {
            let gate = Gating {
                gate_id: new_gate_id(),
                policy,
                accept: request.accept_regression.clone(),
            };
            let (report, accepted) = judged(&store, baseline, &ran.run, gate).await?;
            (ran.gate, ran.accepted) = (Some(report), accepted);
        }
        ran.baseline = baseline;
        Ok(ran)
    }

    async fn prepare(
        &self,
        request: &RunBenchRequest,
        loaded: LoadedSuite,
        store: &Store,
    ) -> Result<Prepared, EngineError> {
        let mut outline = outline(request, &loaded)?;
        outline.isolate()?;
        let jobs = jobs(&loaded.suite, request.repeats, outline.variants.len());
        let snapshot = snapshot(request, &loaded, &outline);
        let row = run_row(store, request, &loaded.suite, &outline, &snapshot).await?;
        if let Some(plan) = store.bench().plan(&row.run_id).await?
            && plan.closed_at.is_none()
        {
            return Err(EngineError::Bench {
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
        Ok(Prepared {
            run_id: row.run_id.clone(),
            row,
            runner,
            jobs,
            done,
        })
    }

    /// Opens everything that the jobs of a run need.
    pub(super) fn equip(
        &self,
        run_id: String,
        request: &RunBenchRequest,
        loaded: LoadedSuite,
        outline: Outline,
        store: &Store,
    ) -> Result<Runner, EngineError> {
        let mut variants = Vec::new();
        for (name, skill_dir) in &outline.variants {
            let context = SandboxContext {
                requirement: outline.policy.requirement,
                protected: self.protected(&loaded, request),
                skill: skill_dir.as_ref().map(PathBuf::from),
            };
            variants.push(Variant {
                name: name.clone(),
                target: self.open_target(&outline.described, &loaded.folder, request, context)?,
                target_hash: outline.answer_hash(),
                skill_dir: skill_dir.clone(),
            });
        }
        Ok(Runner {
            run_id,
            hashes: outline.hashes,
            places: runner::places(&loaded.suite),
            suite: loaded.suite,
            folder: loaded.folder,
            variants,
            limits: request.limits.clone(),
            gate: Gate::new(&request.limits),
            judges: Judges::open(&request.judges, self.settings())?,
            cache: request
                .cache
                .then(|| Box::new(StoredResponses(store.clone())) as _),
            seed: request.seed,
            timeout_ms: request.timeout_ms,
        })
    }

    pub(super) fn open_target(
        &self,
        described: &Described,
        suite: &Path,
        request: &RunBenchRequest,
        sandbox: SandboxContext,
    ) -> Result<Target, EngineError> {
        let environment: Environment = request.environment.clone().into_iter().collect();
        let key = |key: &Option<String>, owner| key.as_deref().map(|key| ApiKey::new(key, owner));
        let surroundings = Surroundings {
            base: absolute(&described.base)?.into(),
            suite: absolute(suite)?.into(),
            scratch: std::env::temp_dir(),
            keep_workdirs: request.keep_workdirs,
            environment,
            api_key: key(&self.settings().api_key, KeyOwner::OpenAi),
            anthropic_key: key(&self.settings().anthropic_key, KeyOwner::Anthropic),
            helper: helper::own_path(),
            sandbox,
        };
        Ok(Target::open(&described.spec, &surroundings)?)
    }

    /// What no target of this suite may see.
    pub(super) fn protected(&self, loaded: &LoadedSuite, request: &RunBenchRequest) -> Protected {
        let cases = loaded.folder.join("cases");
        let mut trees = vec![
            loaded.file.clone(),
            loaded.folder.join("baseline.json"),
            self.settings().archive_folder.clone(),
        ];
        // Only the case files: fixtures may lie beside them. A directory that cannot be read was told when the suite was.
        trees.extend(case_files(&cases).unwrap_or_default());
        if let Some(skill) = &loaded.skill {
            trees.extend(["benchmarks", "evals", "evals.json"].map(|name| skill.join(name)));
        }
        if let StoreUrl::Sqlite(store) = &self.settings().store {
            trees.extend(["", "-wal", "-shm", "-journal"].map(|end| {
                let mut path = store.clone().into_os_string();
                path.push(end);
                PathBuf::from(path)
            }));
        }
        let mut wholes = vec![loaded.folder.clone(), cases, std::env::temp_dir()];
        // The history of the repository has every answer, too.
        let folder = std::path::absolute(&loaded.folder).unwrap_or_else(|_| loaded.folder.clone());
        if let Some(repository) = folder.ancestors().find(|above| above.join(".git").exists()) {
            trees.push(repository.join(".git"));
            wholes.push(repository.to_owned());
        }
        if let Some(home) = request.environment.get("HOME").map(PathBuf::from) {
            trees.extend(PRIVATE.map(|name| home.join(name)));
            wholes.push(home);
        }
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let mut protected = Protected {
            trees: trees.into_iter().map(absolute).collect(),
            wholes: wholes.into_iter().map(absolute).collect(),
        };
        // The root contains everything, so that it is refused anyway.
        protected.wholes.retain(|path| path.parent().is_some());
        protected
    }
}

/// What people keep in their home directory that no target needs.
const PRIVATE: [&str; 12] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/satiety",
    ".docker",
    ".git-credentials",
    ".kube",
    ".netrc",
    ".pgpass",
];

/// What a run asks, before anything is opened for it.
pub(super) struct Outline {
    pub(super) described: Described,
    /// What the target is allowed.
    pub(super) policy: SandboxPolicy,
    /// What isolates its processes on this machine, once that was found out.
    pub(super) isolation: Option<SandboxIsolation>,
    pub(super) target_hash: String,
    /// Names of variants, each with the folder of its skill.
    pub(super) variants: Vec<(String, Option<String>)>,
    pub(super) hashes: Vec<String>,
    pub(super) suite_hash: String,
}

/// Finds out what a run asks.
pub(super) fn outline(request: &RunBenchRequest, loaded: &LoadedSuite) -> Result<Outline, EngineError> {
    let mut described = target(request.target.as_deref(), loaded)?;
    if request.sandbox_is_explicit && !described.spec.starts_processes() {
        return Err(EngineError::Bench {
            message: format!(
                "a target of type {} starts no process that could be fenced in",
                described.spec.kind()
            ),
            hint: "--sandbox is for exec, worker and MCP servers that are started as a command".into(),
        });
    }
    let policy = confine(&mut described, request.sandbox);
    let skill = loaded.skill.as_ref().map(|folder| absolute(folder)).transpose()?;
    let variants = match (skill, request.without_skill) {
        (Some(skill), true) => vec![
            (WITH_SKILL.to_owned(), Some(skill)),
            (WITHOUT_SKILL.to_owned(), None),
        ],
        (skill, false) => vec![(String::new(), skill)],
        (None, true) => {
            return Err(EngineError::Bench {
                message: format!("{} is not about a skill", loaded.file.display()),
                hint: "--without-skill is for suites beside a SKILL.md".into(),
            });
        }
    };
    let hashes = runner::hashes(loaded);
    Ok(Outline {
        target_hash: target_hash(&described.spec, &described.base),
        suite_hash: suite_hash_of(&loaded.suite, &hashes),
        described,
        policy,
        isolation: None,
        variants,
        hashes,
    })
}

impl Outline {
    /// Finds out what isolates the target's processes here; an error where that is less than what is required.
    pub(super) fn isolate(&mut self) -> Result<(), EngineError> {
        self.isolation = Some(isolation(&mut self.described, &self.policy)?);
        Ok(())
    }

    /// What cached answers are found by: those that came from behind a weaker isolation are others.
    pub(super) fn answer_hash(&self) -> String {
        match self.isolation {
            Some(isolation) if !isolation.is_full() => format!("{}-{isolation}", self.target_hash),
            _ => self.target_hash.clone(),
        }
    }
}

/// A new run, or the one to take up.
pub(super) async fn run_row(
    store: &Store,
    request: &RunBenchRequest,
    suite: &BenchmarkSuite,
    outline: &Outline,
    snapshot: &Map<String, Value>,
) -> Result<BenchRunRow, EngineError> {
    match &request.resume {
        None => Ok(new_row(suite, outline, snapshot)),
        Some(named) => resumable(store, named, &suite.suite_id, snapshot).await,
    }
}

/// A run that is ready to begin or to go on.
struct Prepared {
    run_id: String,
    row: BenchRunRow,
    runner: Runner,
    jobs: Vec<Job>,
    done: HashSet<ResultKey>,
}

impl Prepared {
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

/// Which result a job will be.
pub(super) fn key_of(suite: &BenchmarkSuite, variants: &[&str], job: Job) -> ResultKey {
    ResultKey {
        case_id: suite.cases[job.case].case_id.clone(),
        variant: variants[job.variant].to_owned(),
        repeat: i64::from(job.repeat),
    }
}

pub(super) fn selection(request: &RunBenchRequest) -> Selection {
    Selection {
        cases: request.cases.clone(),
        tags: request.tags.clone(),
    }
}

fn absolute(path: &Path) -> Result<String, EngineError> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let absolute = std::path::absolute(path).map_err(|cause| EngineError::file("find", path, cause))?;
    Ok(absolute.display().to_string())
}

/// The key of a run's configuration that says how its target was confined.
pub(super) const SANDBOX: &str = "sandbox";

/// How a target was confined, as it is stored with a run. Without an isolation, each worker has its own.
pub(super) fn sandbox_record(policy: &SandboxPolicy, isolation: Option<SandboxIsolation>) -> Value {
    json!({
        "requirement": policy.requirement,
        "isolation": isolation,
        "network": policy.network,
        "read": policy.read,
        "environment": policy.environment,
    })
}

/// What must be the same for two sittings to be one run, and for a run to be repeated.
pub(super) fn snapshot(
    request: &RunBenchRequest,
    loaded: &LoadedSuite,
    outline: &Outline,
) -> Map<String, Value> {
    let names: Vec<&str> = outline.variants.iter().map(|(name, _)| name.as_str()).collect();
    let value = json!({
        "satiety_version": env!("CARGO_PKG_VERSION"),
        "suite_version": loaded.suite.version,
        "suite_hash": outline.suite_hash,
        // As it was named, so that labels can be asked for with the questions beside them.
        "suite_file": loaded.file,
        "target": outline.described.spec,
        "target_hash": outline.target_hash,
        "repeats": request.repeats,
        "seed": request.seed,
        "timeout_ms": request.timeout_ms,
        "judges": request.judges,
        "variants": names,
        "cases": request.cases,
        "tags": request.tags,
        "limits": request.limits,
        SANDBOX: sandbox_record(&outline.policy, outline.isolation),
        MACHINE: this_machine(),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn new_row(suite: &BenchmarkSuite, outline: &Outline, snapshot: &Map<String, Value>) -> BenchRunRow {
    BenchRunRow {
        run_id: ids::prefixed("run", uuid::Uuid::now_v7()),
        suite_id: suite.suite_id.clone(),
        suite_hash: outline.suite_hash.clone(),
        target: outline.described.name.clone(),
        started_at: now_micros(),
        completed_at: None,
        config_snapshot: Value::Object(snapshot.clone()),
        summary: None,
        pass_rate: None,
    }
}

/// The run to take up, if it asked the same of the same.
async fn resumable(
    store: &Store,
    named: &str,
    suite_id: &str,
    snapshot: &Map<String, Value>,
) -> Result<BenchRunRow, EngineError> {
    let row = if named == "latest" {
        store.bench().runs(Some(suite_id), 1).await?.into_iter().next()
    } else {
        store.bench().run(named).await?
    };
    let row = row.ok_or_else(|| EngineError::Bench {
        message: format!("there is no run of {suite_id} to take up"),
        hint: "run it without --resume".into(),
    })?;
    // How many at a time may change; what is asked may not.
    for key in [
        "suite_hash",
        "target_hash",
        "repeats",
        "seed",
        "judges",
        "variants",
        "cases",
        "tags",
        SANDBOX,
    ] {
        // Runs of earlier versions say nothing about a sandbox.
        if key == SANDBOX && row.config_snapshot.get(key).is_none() {
            continue;
        }
        if row.config_snapshot.get(key) != snapshot.get(key) {
            return Err(EngineError::Bench {
                message: format!("run {} cannot be taken up: its `{key}` was another", row.run_id),
                hint: "results of different questions do not make one run; begin a new one without --resume"
                    .into(),
            });
        }
    }
    Ok(row)
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

/// Pairs results with those of the baseline and says when enough was seen.
struct Watcher {
    test: Sequential,
    before: BTreeMap<(String, u32), bool>,
}

impl Watcher {
    fn new(baseline: &BenchmarkRun, loaded: &LoadedSuite, repeats: Option<u32>) -> Result<Self, EngineError> {
        let before: BTreeMap<(String, u32), bool> = baseline
            .results
            .iter()
            .filter_map(|result| Some(((result.case_id.clone(), result.repeat), result.passed()?)))
            .collect();
        let suite = &loaded.suite;
        let most = suite
            .cases
            .iter()
            .map(|case| repeats.unwrap_or_else(|| suite.repeats_of(case)))
            .max();
        let settings = SequentialSettings {
            cases: suite.cases.len() as u64,
            max_repeats: u64::from(most.unwrap_or(1).max(1)),
            alpha: 0.05,
            calls_per_pair: 1,
            futility_margin: None,
        };
        let test = Sequential::new(settings).map_err(|problem| EngineError::Bench {
            message: problem.to_string(),
            hint: "run without --sequential".into(),
        })?;
        Ok(Self { test, before })
    }

    fn see(&mut self, result: &BenchmarkResult) {
        let key = (result.case_id.clone(), result.repeat);
        if let (Some(before), Some(now)) = (self.before.get(&key), result.passed()) {
            // A pair that was seen already counts once, which is what the error says.
            let _ = self.test.observe(&key.0, key.1, *before, now);
        }
    }

    fn decided(&self) -> bool {
        !matches!(self.test.progress(), bench::Progress::Continue)
    }

    fn outcome(&self) -> SequentialOutcome {
        SequentialOutcome {
            progress: self.test.progress(),
            pairs: self.test.pairs(),
            e_value: self.test.e_value(),
            calls_saved: self.test.calls_saved(),
        }
    }
}
