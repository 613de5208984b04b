//! Queue worker: leases cases of distributed runs whose files match the local checkout, runs them, and
//! finalises runs with all results.

use crate::handles::BenchOperations;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::Hint;
use satiety::bench::SandboxRequirement;
use satiety_store::Store;
use schemars::JsonSchema;
use serde::Serialize;

use super::distributed::{DistributedPlan, parse_plan, stays_inside};
use super::executor::{self, Lead, Runner, Stop};
use super::leases::Leases;
use super::outage::Outage;
use super::outline::outline;
use super::run::selection;
use super::suites::load;
use crate::EngineError;
use crate::instances::InstanceKind;

/// Polling interval of an idle worker.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time after which a declined run is checked again: the local files may have changed.
const RECHECK_AFTER: Duration = Duration::from_secs(30);
/// Timeout for releasing leases on shutdown; they also expire by themselves.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of a worker.
#[derive(Debug, Clone, Default)]
pub struct WorkRequest {
    /// Root directory to find suites in: a checkout of the repository that runs are started from.
    pub root: PathBuf,
    /// Maximum number of concurrent cases.
    pub concurrency: u32,
    /// Lease duration of a case, after which a silent worker loses it.
    pub lease: Duration,
    /// Display name of this worker.
    pub name: String,
    /// Whether to exit when no case is left in the runs that it joined.
    pub until_idle: bool,
    /// Judges with a custom address that runs may use.
    pub judges: Vec<String>,
    /// Environment variables that target descriptions may refer to.
    pub environment: BTreeMap<String, String>,
}

/// Events of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkEvent {
    /// The worker joined a run.
    Joined { run_id: String, suite_id: String },
    /// The worker declined a run.
    Declined { run_id: String, reason: String },
    /// The worker finalised a run with all results.
    Ended { run_id: String },
    /// An alert or a record failed when a run was finalised.
    Warning(String),
}

/// Summary of the work that a worker did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkResponse {
    /// Display name of the worker.
    pub name: String,
    /// Number of stored results.
    pub kept: u64,
    /// Number of results discarded because the lease was lost.
    pub late: u64,
    /// Number of leases released on shutdown.
    pub given_back: u64,
}

/// Decision of this worker on a run.
enum Stance {
    Joined(Arc<Runner>),
    Declined { reason: String, at: Instant },
}

/// Result of polling for runs.
#[derive(Default)]
struct AvailableRuns {
    /// Runs that may have cases to lease, oldest first.
    runs: VecDeque<Arc<Runner>>,
    /// Whether a joined run has cases left.
    busy: bool,
}

impl BenchOperations<'_> {
    /// Leases and runs cases until `stop` is requested, then releases the unfinished ones.
    pub async fn work(
        self,
        request: WorkRequest,
        stop: &Stop,
        mut on_event: impl FnMut(WorkEvent),
    ) -> Result<WorkResponse, EngineError> {
        if !request.root.is_dir() {
            return Err(EngineError::Invalid {
                message: format!("{} is not a directory", request.root.display()),
                hint: Hint::with_command("use the checkout that contains the suites", "--root DIR"),
            });
        }
        let store = self.engine.store().await?.clone();
        let leases = Leases::new(store.clone(), request.name.clone(), request.lease, stop.clone());
        let pulse = tokio::spawn(leases.clone().pulse());
        let announcement = self
            .engine
            .database()
            .announce(InstanceKind::Worker, &request.name)
            .await?;
        let mut runs = BTreeMap::new();
        let outcome = {
            let at_a_time = request.concurrency.max(1) as usize;
            let running = executor::run(leases.clone(), at_a_time, Lead::Wide, stop, |_| true);
            let looking = async {
                let looked = self
                    .look_for_work(&request, &store, &leases, &mut runs, stop, &mut on_event)
                    .await;
                leases.end();
                looked
            };
            tokio::pin!(running, looking);
            tokio::select! {
                ran = &mut running => ran,
                looked = &mut looking => match looked {
                    Ok(()) => running.await,
                    Err(error) => {
                        stop.stop();
                        running.await.and(Err(error))
                    }
                },
            }
        };
        pulse.abort();
        announcement.withdraw().await;
        for stance in runs.values() {
            close(stance).await;
        }
        let given_back = tokio::time::timeout(RELEASE_TIMEOUT, leases.release()).await;
        outcome?;
        if let Some(error) = leases.failure() {
            return Err(error);
        }
        let (kept, late) = leases.counts();
        Ok(WorkResponse {
            name: request.name,
            kept,
            late,
            given_back: given_back.map_or(Ok(0), |given_back| given_back)?,
        })
    }

    /// Polls for runs, joins those that match the local files and finalises those that are done.
    async fn look_for_work(
        self,
        request: &WorkRequest,
        store: &Store,
        leases: &Leases,
        runs: &mut BTreeMap<String, Stance>,
        stop: &Stop,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<(), EngineError> {
        let mut outage = Outage::default();
        while !stop.is_requested() {
            let ready = match self.look(request, store, runs, on_event).await {
                Ok(ready) => ready,
                Err(EngineError::Store(error)) => {
                    outage.outlast(error, stop).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            outage = Outage::default();
            leases.offer(ready.runs);
            if request.until_idle && !ready.busy {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = leases.emptied.notified() => {}
                () = stop.asked() => {}
            }
        }
        Ok(())
    }

    async fn look(
        self,
        request: &WorkRequest,
        store: &Store,
        runs: &mut BTreeMap<String, Stance>,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<AvailableRuns, EngineError> {
        let open = store.bench().open_runs().await?;
        let mut ready = AvailableRuns::default();
        for run in &open {
            let joined = match runs.get(&run.run_id) {
                Some(Stance::Joined(runner)) => Some(runner.clone()),
                // Already reported; check again later, because the local files may change.
                Some(Stance::Declined { at, .. }) if at.elapsed() < RECHECK_AFTER => continue,
                _ => None,
            };
            let found = match joined {
                _ if !run.left => self
                    .end_here(request, store, &run.run_id, on_event)
                    .await?
                    .map(|()| None),
                Some(runner) => Ok(Some(runner)),
                None => self.join(request, store, &run.run_id, on_event).await?.map(Some),
            };
            match found {
                Ok(Some(runner)) => {
                    ready.busy = true;
                    if run.ready {
                        ready.runs.push_back(runner.clone());
                    }
                    runs.insert(run.run_id.clone(), Stance::Joined(runner));
                }
                // Finalised; its targets are closed below, once it is no longer listed as open.
                Ok(None) => {}
                Err(reason) => decline(runs, &run.run_id, reason, on_event).await,
            }
        }
        let is_open = |id: &String| open.iter().any(|run| run.run_id == *id);
        let gone: Vec<String> = runs.keys().filter(|id| !is_open(id)).cloned().collect();
        for id in gone {
            if let Some(stance) = runs.remove(&id) {
                close(&stance).await;
            }
        }
        Ok(ready)
    }

    /// Joins a run if this worker can run it; otherwise the inner error gives the reason.
    async fn join(
        self,
        request: &WorkRequest,
        store: &Store,
        run_id: &str,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<Result<Arc<Runner>, String>, EngineError> {
        let Some(row) = store.bench().plan(run_id).await? else {
            return Ok(Err("its plan was deleted".into()));
        };
        let joined = parse_plan(run_id, row.plan)
            .map_err(|problem| problem.to_string())
            .and_then(|plan| self.open(request, store, run_id, &plan));
        if let Ok(runner) = &joined {
            on_event(WorkEvent::Joined {
                run_id: run_id.into(),
                suite_id: runner.suite.suite_id.clone(),
            });
        }
        Ok(joined.map(Arc::new))
    }

    /// Opens the environment of a run if the local files match it.
    fn open(
        self,
        request: &WorkRequest,
        store: &Store,
        run_id: &str,
        plan: &DistributedPlan,
    ) -> Result<Runner, String> {
        let text = |problem: EngineError| problem.to_string();
        let mut asked = plan.request(&request.root, &request.judges)?;
        let own = self.engine.sandbox_requirement();
        if plan.sandbox == SandboxRequirement::Off && own != SandboxRequirement::Off {
            return Err(format!(
                "it disables the sandbox, but `bench.sandbox` of this worker is `{own}`"
            ));
        }
        // The plan is untrusted: it may require more isolation than this worker's setting, never less.
        asked.sandbox = Some(plan.sandbox.max(own));
        asked.limits.concurrency = request.concurrency.max(1);
        asked.environment = request.environment.clone();
        let mut loaded = load(&asked.suite).map_err(text)?;
        selection(&asked).apply(&mut loaded.suite).map_err(text)?;
        let mut outline = outline(&asked, &loaded).map_err(text)?;
        outline.isolate().map_err(text)?;
        stays_inside(&request.root, &loaded, &outline).map_err(|problem| problem.to_string())?;
        for (what, here, there) in [
            ("suite", &outline.suite_hash, &plan.suite_hash),
            ("target", &outline.target_hash, &plan.target_hash),
        ] {
            if here != there {
                return Err(format!(
                    "the {what} of {} differs from the one the run was started with",
                    plan.suite.escape_debug()
                ));
            }
        }
        self.equip(run_id.into(), &asked, loaded, outline, store)
            .map_err(text)
    }

    /// Finalises a run with all results. The inner error is a problem of this worker only.
    async fn end_here(
        self,
        request: &WorkRequest,
        store: &Store,
        run_id: &str,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<Result<(), String>, EngineError> {
        let Some(row) = store.bench().plan(run_id).await? else {
            return Ok(Ok(()));
        };
        let plan = parse_plan(run_id, row.plan)?;
        let ending = self.finalize_distributed(run_id, &plan, &request.root);
        match Box::pin(ending).await {
            Ok(ended) => {
                for warning in ended.gated.post.failures() {
                    on_event(WorkEvent::Warning(warning));
                }
                on_event(WorkEvent::Ended {
                    run_id: run_id.into(),
                });
                Ok(Ok(()))
            }
            Err(EngineError::Store(error)) => Err(error.into()),
            Err(problem) => Ok(Err(format!("this worker cannot finalise it: {problem}"))),
        }
    }
}

/// Declines a run; reported once per reason.
async fn decline(
    runs: &mut BTreeMap<String, Stance>,
    run_id: &str,
    reason: String,
    on_event: &mut impl FnMut(WorkEvent),
) {
    let before = runs.remove(run_id);
    if let Some(before) = &before {
        close(before).await;
    }
    if !matches!(&before, Some(Stance::Declined { reason: said, .. }) if *said == reason) {
        on_event(WorkEvent::Declined {
            run_id: run_id.into(),
            reason: reason.clone(),
        });
    }
    let at = Instant::now();
    runs.insert(run_id.into(), Stance::Declined { reason, at });
}

async fn close(stance: &Stance) {
    if let Stance::Joined(runner) = stance {
        runner.close().await;
    }
}
