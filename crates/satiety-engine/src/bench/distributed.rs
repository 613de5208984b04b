//! Distributed runs: writes the plan and the queued cases to the database and waits for workers to finish
//! them.
//!
//! Workers trust only their own checkout, so the stored plan names paths below a root and contains no
//! command, address or secret. Files are verified by hash: they must be identical on the worker and on the
//! machine that started the run.

use crate::handles::BenchOperations;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use satiety::Hint;
use satiety::bench::contract::TargetSpec;
use satiety::bench::{BenchmarkRun, GatePolicy, PowerStatement, SandboxRequirement, Status};
use satiety_store::StoreError;
use satiety_store::bench::{ResultKey, WorkDepth};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::baseline::{MACHINE, VerdictOverride};
use super::browse::keep_cases;
use super::executor::{Progress, Stop};
use super::finalize::{GateContext, new_gate_id};
use super::history::{Detail, load as load_run};
use super::limits::Limits;
use super::outage::Outage;
use super::outline::{Outline, key_of, outline, run_row, snapshot};
use super::plan::jobs;
use super::run::{BenchPlan, RunBenchRequest, RunBenchResponse, Tally};
use super::suites::LoadedSuite;
use crate::EngineError;
use crate::root_path::{OutsideRoot, below, relative_name};

/// Configuration key that marks a distributed run.
pub(super) const DISTRIBUTED: &str = "distributed";
/// Time without a leased case after which the waiting caller is warned.
const NO_WORKER_WARNING: Duration = Duration::from_secs(10);
/// Shortest and longest polling interval.
const MIN_POLL: Duration = Duration::from_millis(100);
const MAX_POLL: Duration = Duration::from_secs(1);

/// Plan of a distributed run, as stored for workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DistributedPlan {
    /// Path of the suite, relative to the root.
    pub(super) suite: String,
    /// Target: a file relative to the root, `echo`, or `None` if the suite's directory describes it.
    pub(super) target: Option<String>,
    pub(super) suite_hash: String,
    pub(super) target_hash: String,
    pub(super) cases: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) judges: Vec<String>,
    pub(super) limits: Limits,
    pub(super) timeout_ms: Option<u64>,
    pub(super) seed: u64,
    pub(super) sandbox: SandboxRequirement,
    pub(super) cache: bool,
    pub(super) without_skill: bool,
    pub(super) gate: Option<GatePolicy>,
    pub(super) accept_regression: Option<VerdictOverride>,
    /// Id of the baseline run to compare with.
    pub(super) baseline: Option<String>,
}

/// Run whose cases are in the work queue.
#[derive(Debug)]
pub struct DistributedRun {
    run_id: String,
    suite_id: String,
    planned: usize,
    resumed: usize,
    request: RunBenchRequest,
    plan: DistributedPlan,
    root: PathBuf,
    baseline: Option<BenchmarkRun>,
    power: PowerStatement,
    warnings: Vec<String>,
}

/// Distributed run in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DistributedRunSummary {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Id of the suite.
    pub suite_id: String,
    /// Number of results when complete.
    pub planned: usize,
    /// Number of results so far.
    pub done: usize,
}

/// Distributed run that was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cancelled {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Number of queued cases that were removed.
    pub dropped: u64,
}

impl DistributedRun {
    /// Summary for reports.
    pub fn summary(&self) -> DistributedRunSummary {
        DistributedRunSummary {
            run_id: self.run_id.clone(),
            suite_id: self.suite_id.clone(),
            planned: self.planned,
            done: self.resumed,
        }
    }
}

impl BenchOperations<'_> {
    /// Enqueues the cases of a plan for workers that have the same files below their roots. Resumes an
    /// existing run.
    pub async fn distribute(self, plan: BenchPlan, root: &Path) -> Result<DistributedRun, EngineError> {
        refuse_local(&plan.request)?;
        plan.require_baseline()?;
        let BenchPlan {
            request,
            mut loaded,
            baseline,
            power,
            ..
        } = plan;
        let outline = outline(&request, &loaded)?;
        let spread = portable_plan(&request, &loaded, &outline, baseline.as_ref(), root)?;
        let mut snapshot = snapshot(&request, &loaded, &outline);
        // Latencies from several machines are not comparable.
        snapshot.insert(MACHINE.into(), Value::Null);
        snapshot.insert(DISTRIBUTED.into(), true.into());
        let store = self.engine.store().await?;
        let row = run_row(store, &request, &loaded.suite, &outline, &snapshot).await?;
        let names: Vec<&str> = outline.variants.iter().map(|(name, _)| name.as_str()).collect();
        let mut jobs = jobs(&loaded.suite, request.repeats, names.len());
        outline.retain_jobs(&loaded.suite, &mut jobs);
        let done = store.bench().result_keys(&row.run_id).await?;
        let resumed = done.len();
        let done: HashSet<ResultKey> = done.into_iter().collect();
        let todo: Vec<ResultKey> = jobs
            .iter()
            .map(|job| key_of(&loaded.suite, &names, *job))
            .filter(|key| !done.contains(key))
            .collect();
        if row.completed_at.is_none() {
            let value = serde_json::to_value(&spread)?;
            let bench = store.bench();
            bench.enqueue_run(&row, &value, &todo, request.priority).await?;
            keep_cases(store, &row.run_id, &loaded.suite, &outline.hashes).await?;
        }
        // An existing run keeps its original plan.
        let spread = match store.bench().plan(&row.run_id).await? {
            Some(kept) => parse_plan(&row.run_id, kept.plan)?,
            None => spread,
        };
        Ok(DistributedRun {
            run_id: row.run_id,
            suite_id: row.suite_id,
            planned: jobs.len(),
            resumed,
            request,
            plan: spread,
            root: root.to_owned(),
            baseline,
            power,
            warnings: std::mem::take(&mut loaded.warnings),
        })
    }

    /// Waits until workers have finished all cases, and finalises the run if no worker has. `stop` ends the
    /// wait, not the run.
    pub async fn wait(
        self,
        spread: DistributedRun,
        stop: &Stop,
        mut progress: impl FnMut(Progress),
    ) -> Result<RunBenchResponse, EngineError> {
        let store = self.engine.store().await?.clone();
        let (began, mut pause, mut outage) = (Instant::now(), MIN_POLL, Outage::default());
        let (mut warned, mut seen) = (false, None);
        let complete = loop {
            let looked = async {
                // Count the remaining work first: once it is zero, every result is stored.
                let left = store.bench().work_left(&spread.run_id).await?;
                Ok::<_, StoreError>((store.bench().result_counts(&spread.run_id).await?, left))
            };
            let (counts, left) = match looked.await {
                Ok(looked) => {
                    outage = Outage::default();
                    looked
                }
                Err(error) => {
                    outage.outlast(error, stop).await?;
                    continue;
                }
            };
            let mut tally = Tally::new(spread.planned);
            for (status, results) in counts {
                let status: Status = serde_json::from_value(Value::String(status))?;
                tally.count(status, usize::try_from(results).unwrap_or(0));
            }
            let now = tally.progress();
            if seen.replace(now) != Some(now) {
                pause = MIN_POLL;
                progress(now);
            }
            if left == WorkDepth::default() {
                break true;
            }
            if stop.is_requested() {
                break false;
            }
            if !warned && left.taken == 0 && now.done == spread.resumed && began.elapsed() > NO_WORKER_WARNING
            {
                warned = true;
                tracing::warn!(
                    "no worker has leased a case of {}: is a `satiety worker` running on this database, with a \
                     root that has the same suite?",
                    spread.run_id
                );
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 3 / 2).min(MAX_POLL),
                () = stop.asked() => {}
            }
        };
        self.waited(spread, complete).await
    }

    async fn waited(self, spread: DistributedRun, complete: bool) -> Result<RunBenchResponse, EngineError> {
        let store = self.engine.store().await?;
        let row = store.bench().run(&spread.run_id).await?;
        let row = row.ok_or_else(|| run_not_found(&spread.run_id))?;
        let closed = store
            .bench()
            .plan(&spread.run_id)
            .await?
            .is_some_and(|plan| plan.closed_at.is_some());
        if complete && closed && row.completed_at.is_none() {
            return Err(EngineError::Invalid {
                message: format!("run {} was cancelled", spread.run_id),
                hint: Hint::with_command(
                    "stored results are kept; resume the run to enqueue the rest again",
                    "--distributed --resume RUN",
                ),
            });
        }
        let (power, resumed, warnings) = (spread.power, spread.resumed, spread.warnings);
        if !complete {
            let run = load_run(store, row, Detail::Metrics).await?;
            return Ok(RunBenchResponse::new(
                run,
                power,
                resumed,
                false,
                warnings,
                spread.baseline,
            ));
        }
        let ending = self.finalize_distributed(&spread.run_id, &spread.plan, &spread.root);
        let ended = Box::pin(ending).await?;
        let mut ran = RunBenchResponse::new(ended.run, power, resumed, true, warnings, spread.baseline);
        let mut gated = ended.gated;
        let asked = (&spread.request.gate, &spread.request.accept_regression);
        match asked.0 {
            Some(policy) if asked != (&spread.plan.gate, &spread.plan.accept_regression) => {
                // A caller with gate settings other than those of the run gets a separate verdict.
                let gating = GateContext {
                    gate_id: new_gate_id(),
                    policy,
                    report: None,
                    accept: asked.1.clone(),
                    records_cycle: false,
                    shared: false,
                };
                let failed: Vec<String> = gated.post.failures().collect();
                gated = Box::pin(self.gate_run(&ran.run, ran.baseline.as_ref(), gating)).await?;
                gated.post.warnings.extend(failed);
            }
            _ => ran.baseline = ended.baseline.or(ran.baseline),
        }
        ran.conclude(gated, &spread.request.suite);
        Ok(ran)
    }

    /// Cancels a distributed run: stored results are kept, queued cases are removed.
    pub async fn cancel(self, run_id: &str) -> Result<Cancelled, EngineError> {
        match self.engine.store().await?.bench().close_plan(run_id).await? {
            Some(dropped) => Ok(Cancelled {
                run_id: run_id.into(),
                dropped,
            }),
            None => Err(EngineError::NotFound {
                what: format!("distributed run `{run_id}`"),
                hint: Hint::with_command("list the runs to see their ids", "satiety bench list --runs"),
            }),
        }
    }
}

/// Returns an error for options that only work within one process.
fn refuse_local(request: &RunBenchRequest) -> Result<(), EngineError> {
    let (option, why) = if request.sequential {
        ("--sequential", "evaluates each result as it arrives")
    } else if request.keep_workdirs {
        ("--keep-workdirs", "applies to directories on this machine")
    } else {
        return Ok(());
    };
    Err(EngineError::Invalid {
        message: format!("cannot combine {option} with --distributed: it {why}"),
        hint: "remove one of the two".into(),
    })
}

/// Makes the plan portable to other machines; an error if it depends on this one.
fn portable_plan(
    request: &RunBenchRequest,
    loaded: &LoadedSuite,
    outline: &Outline,
    baseline: Option<&BenchmarkRun>,
    root: &Path,
) -> Result<DistributedPlan, EngineError> {
    let target = match request.target.as_deref() {
        None | Some("echo") => request.target.clone(),
        Some(file) if Path::new(file).is_file() => {
            Some(relative_name(root, Path::new(file)).map_err(|problem| outside_root(&problem))?)
        }
        Some(other) => {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot distribute target `{other}`: workers do not accept commands or addresses from the database"
                ),
                hint: Hint::with_command("describe the target in a file below the root", "--target FILE"),
            });
        }
    };
    stays_inside(root, loaded, outline).map_err(|problem| outside_root(&problem))?;
    for judge in request.judges.iter().filter(|judge| judge.contains('@')) {
        tracing::warn!("only workers started with `--judge {judge}` will process this run");
    }
    Ok(DistributedPlan {
        suite: relative_name(root, &loaded.file).map_err(|problem| outside_root(&problem))?,
        target,
        suite_hash: outline.suite_hash.clone(),
        target_hash: outline.target_hash.clone(),
        cases: request.cases.clone(),
        tags: request.tags.clone(),
        judges: request.judges.clone(),
        limits: request.limits.clone(),
        timeout_ms: request.timeout_ms,
        seed: request.seed,
        sandbox: outline.policy.requirement,
        cache: request.cache,
        without_skill: request.without_skill,
        gate: request.gate.clone(),
        accept_regression: request.accept_regression.clone(),
        baseline: baseline.map(|run| run.run_id.clone()),
    })
}

/// Checks that files which the suite refers to (its target's description, its skill) are below the root, too.
pub(super) fn stays_inside(root: &Path, loaded: &LoadedSuite, outline: &Outline) -> Result<(), OutsideRoot> {
    // The echo target needs no description.
    if !matches!(outline.described.spec, TargetSpec::Echo(_)) {
        relative_name(root, &outline.described.base)?;
    }
    if let Some(skill) = &loaded.skill {
        relative_name(root, skill)?;
    }
    Ok(())
}

impl DistributedPlan {
    /// Builds the run request on a worker. The plan is untrusted: paths must be below the root, and judges
    /// with an address, which would receive a key, must be allowed on this worker.
    pub(super) fn request(&self, root: &Path, judges: &[String]) -> Result<RunBenchRequest, String> {
        let place = |named: &str| below(root, named).map_err(|problem| problem.to_string());
        let target = match self.target.as_deref() {
            None => None,
            Some("echo") => Some("echo".to_owned()),
            Some(file) => {
                let file = place(file)?;
                let file = file.to_str().filter(|_| file.is_file());
                Some(file.ok_or("its target is not a file")?.to_owned())
            }
        };
        if let Some(judge) = self
            .judges
            .iter()
            .find(|judge| judge.contains('@') && !judges.contains(judge))
        {
            return Err(format!(
                "it requires the judge {judge}, which is not allowed on this worker (--judge {judge})"
            ));
        }
        Ok(RunBenchRequest {
            suite: place(&self.suite)?,
            target,
            cases: self.cases.clone(),
            tags: self.tags.clone(),
            judges: self.judges.clone(),
            limits: self.limits.clone(),
            timeout_ms: self.timeout_ms,
            seed: self.seed,
            sandbox: Some(self.sandbox),
            cache: self.cache,
            without_skill: self.without_skill,
            distributed: true,
            ..RunBenchRequest::default()
        })
    }
}

/// Parses a stored plan.
pub(super) fn parse_plan(run_id: &str, plan: Value) -> Result<DistributedPlan, EngineError> {
    serde_json::from_value(plan).map_err(|error| EngineError::Invalid {
        message: format!("cannot read the plan of run {run_id}: {error}"),
        hint: "it was written by another version of satiety; use the same version on all machines".into(),
    })
}

fn outside_root(problem: &OutsideRoot) -> EngineError {
    EngineError::Invalid {
        message: problem.to_string(),
        hint: Hint::with_command(
            "use suites and targets below the root (default: the current directory), because workers resolve paths below their own root",
            "--root DIR",
        ),
    }
}

pub(super) fn run_not_found(run_id: &str) -> EngineError {
    EngineError::NotFound {
        what: format!("run `{run_id}`"),
        hint: Hint::with_command("list the runs to see their ids", "satiety bench list --runs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> DistributedPlan {
        DistributedPlan {
            suite: "suites/a".into(),
            target: None,
            suite_hash: "s".into(),
            target_hash: "t".into(),
            cases: Vec::new(),
            tags: Vec::new(),
            judges: Vec::new(),
            limits: Limits::default(),
            timeout_ms: None,
            seed: 1,
            sandbox: SandboxRequirement::Require,
            cache: false,
            without_skill: false,
            gate: None,
            accept_regression: None,
            baseline: None,
        }
    }

    #[test]
    fn plans_have_no_outside_paths_and_no_commands() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs_err::create_dir_all(root.join("suites/a")).unwrap();
        fs_err::write(root.join("target.toml"), "type = 'echo'").unwrap();
        fs_err::write(folder.path().join("target.toml"), "type = 'echo'").unwrap();
        std::os::unix::fs::symlink(folder.path().join("target.toml"), root.join("link.toml")).unwrap();
        assert!(plan().request(&root, &[]).is_ok());
        for target in ["echo", "target.toml"] {
            let plan = DistributedPlan {
                target: Some(target.into()),
                ..plan()
            };
            assert!(plan.request(&root, &[]).is_ok(), "{target}");
        }
        for target in [
            "../target.toml",
            "link.toml",
            "exec:touch /tmp/x",
            "worker:sh",
            "http://127.0.0.1/",
            "chat:openai:x@http://127.0.0.1/",
            "/etc/passwd",
            "suites",
        ] {
            let plan = DistributedPlan {
                target: Some(target.into()),
                ..plan()
            };
            assert!(plan.request(&root, &[]).is_err(), "{target}");
        }
        for suite in ["../root", "/", "suites/../../root", "none"] {
            let plan = DistributedPlan {
                suite: suite.into(),
                ..plan()
            };
            assert!(plan.request(&root, &[]).is_err(), "{suite}");
        }
    }

    #[test]
    fn judges_with_an_address_must_be_configured_locally() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(folder.path().join("suites/a")).unwrap();
        let judge = "openai:x@http://127.0.0.1/".to_owned();
        let plan = DistributedPlan {
            judges: vec!["ollama:llama3.2".into(), judge.clone()],
            ..plan()
        };
        assert!(
            plan.request(folder.path(), &[])
                .unwrap_err()
                .contains("--judge openai")
        );
        assert!(plan.request(folder.path(), &[judge]).is_ok());
    }

    #[test]
    fn plans_of_other_versions_are_rejected() {
        let mut value = serde_json::to_value(plan()).unwrap();
        assert_eq!(parse_plan("r", value.clone()).unwrap(), plan());
        value["new"] = true.into();
        assert!(parse_plan("r", value).is_err());
    }
}
