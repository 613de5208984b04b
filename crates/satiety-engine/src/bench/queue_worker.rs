//! Queue worker: leases cases of distributed runs whose files match the local checkout, runs them, and
//! finalises runs with all results. It works until it is stopped, or until there is nothing left to do.

use crate::handles::BenchOperations;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::Hint;
use satiety::bench::SandboxRequirement;
use satiety_store::Store;
use satiety_store::bench::PlanRow;
use schemars::JsonSchema;
use serde::Serialize;

use super::distributed::{DistributedPlan, parse_plan, run_not_found, stays_inside};
use super::executor::{self, Lead, Runner, Stop};
use super::leases::Leases;
use super::outage::{Outage, answered};
use super::outline::outline;
use super::run::{FileAccess, selection};
use crate::EngineError;
use crate::instances::{Announcement, InstanceKind};

/// Polling interval of an idle worker.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time after which a declined run is checked again: the local files may have changed.
const RECHECK_AFTER: Duration = Duration::from_secs(30);
/// Interval at which a draining worker checks whether its cases have ended.
const DRAIN_POLL: Duration = Duration::from_millis(50);
/// Interval at which the database is asked whether this worker should drain.
const DRAIN_CHECK: Duration = Duration::from_secs(2);
/// Timeout for each step of the shutdown that needs the database; leases also expire by themselves.
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
    /// When to exit by itself.
    pub end: WorkEnd,
    /// Run to take cases of; all runs by default.
    pub run: Option<String>,
    /// Maximum number of cases to take.
    pub max_cases: Option<u64>,
    /// How long a draining worker lets its cases run before it returns them.
    pub grace: Duration,
    /// Judges with a custom address that runs may use.
    pub judges: Vec<String>,
    /// Environment variables that target descriptions may refer to.
    pub environment: BTreeMap<String, String>,
}

/// When a worker exits by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkEnd {
    /// When it has taken the maximum number of cases; without one it waits for more runs.
    #[default]
    Never,
    /// When it can take no case: none is waiting, or the maximum is reached.
    NothingToTake,
    /// When no case is left in the runs that it joined, also none that another worker runs.
    NothingLeft,
}

/// Stops a worker in two steps.
#[derive(Debug, Clone, Default)]
pub struct WorkerStop {
    /// Takes no more cases, and lets those that run finish within the grace period.
    pub drain: Stop,
    /// Ends the cases that run and returns them to the queue.
    pub now: Stop,
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
    /// The worker takes no more cases, and finishes those that it runs.
    Draining { cases: usize },
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
    /// Whether the worker was stopped before it was done.
    pub interrupted: bool,
}

/// Decision of this worker on a run.
enum Stance {
    Joined(Arc<Runner>),
    Declined { reason: String, at: Instant },
}

/// Result of polling for runs.
#[derive(Default)]
struct AvailableRuns {
    /// Runs that may have cases to lease.
    runs: Vec<Arc<Runner>>,
    /// Whether a joined run has cases left.
    busy: bool,
}

/// A worker at work.
struct Shift<'a> {
    request: &'a WorkRequest,
    store: &'a Store,
    leases: &'a Leases,
    stop: &'a WorkerStop,
    announcement: &'a Announcement,
}

impl BenchOperations<'_> {
    /// Leases and runs cases until there is nothing left to do or `stop` is requested, then releases the
    /// unfinished ones.
    pub async fn work(
        self,
        request: WorkRequest,
        stop: &WorkerStop,
        mut on_event: impl FnMut(WorkEvent),
    ) -> Result<WorkResponse, EngineError> {
        if !request.root.is_dir() {
            return Err(EngineError::Invalid {
                message: format!("{} is not a directory", request.root.display()),
                hint: Hint::with_command("use the checkout that contains the suites", "--root DIR"),
            });
        }
        let store = self.engine.store().await?.clone();
        if let Some(run_id) = &request.run {
            let plan = store.bench().plan(run_id).await?;
            plan.ok_or_else(|| run_not_found(run_id))?;
        }
        store.rates().remove_unused().await?;
        let leases = Leases::new(store.clone(), &request, stop.now.clone());
        let pulse = tokio::spawn(leases.clone().pulse());
        let announcement = self
            .engine
            .database()
            .announce(InstanceKind::Worker, &request.name)
            .await?;
        let mut runs = BTreeMap::new();
        let outcome = {
            let at_a_time = request.concurrency.max(1) as usize;
            let running = executor::run(leases.clone(), at_a_time, Lead::Wide, &stop.now, |_| true);
            let shift = Shift {
                request: &request,
                store: &store,
                leases: &leases,
                stop,
                announcement: &announcement,
            };
            let looking = async {
                let looked = self.look_for_work(&shift, &mut runs, &mut on_event).await;
                leases.end();
                looked
            };
            tokio::pin!(running, looking);
            tokio::select! {
                ran = &mut running => match ran {
                    // The last case of a draining worker has ended: it may complete its run.
                    Ok(()) if !stop.now.is_requested() => looking.await,
                    ran => ran.map(|()| true),
                },
                looked = &mut looking => match looked {
                    Ok(interrupted) => running.await.map(|()| interrupted),
                    Err(error) => {
                        stop.now.stop();
                        running.await.and(Err(error))
                    }
                },
            }
        };
        pulse.abort();
        // An entry that remains expires by itself.
        let _ = tokio::time::timeout(RELEASE_TIMEOUT, announcement.withdraw()).await;
        for stance in runs.values() {
            close(stance).await;
        }
        // Leases that cannot be released expire.
        if let Ok(Err(error)) = tokio::time::timeout(RELEASE_TIMEOUT, leases.release()).await {
            tracing::warn!("cannot return cases to the queue: {error}");
        }
        let interrupted = outcome?;
        if let Some(error) = leases.failure() {
            return Err(error);
        }
        let (kept, late) = leases.counts();
        Ok(WorkResponse {
            name: request.name,
            kept,
            late,
            given_back: leases.returned_count(),
            interrupted,
        })
    }

    /// Polls for runs, joins those that match the local files and finalises those that are done. Returns
    /// whether the worker was stopped.
    async fn look_for_work(
        self,
        shift: &Shift<'_>,
        runs: &mut BTreeMap<String, Stance>,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<bool, EngineError> {
        let Shift {
            request,
            leases,
            stop,
            ..
        } = *shift;
        let mut outage = Outage::default();
        let mut asked = Instant::now();
        while !stop.now.is_requested() {
            if asked.elapsed() >= DRAIN_CHECK {
                asked = Instant::now();
                let draining = shift.announcement.is_draining();
                if tokio::time::timeout(leases.answer_limit(), draining)
                    .await
                    .unwrap_or(false)
                {
                    stop.drain.stop();
                }
            }
            if stop.drain.is_requested() {
                self.drain(shift, runs, on_event).await?;
                return Ok(true);
            }
            let (idle, stored) = (leases.is_idle(), leases.counts());
            let ready = match self.look(shift, runs, true, on_event).await {
                Ok(ready) => ready,
                Err(EngineError::Store(error)) => {
                    outage.outlast(error, &stop.now).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            outage = Outage::default();
            let nothing_to_take = ready.runs.is_empty() || leases.is_exhausted();
            leases.offer(ready.runs);
            let done = match request.end {
                WorkEnd::Never => idle && leases.is_exhausted(),
                WorkEnd::NothingToTake => idle && nothing_to_take,
                WorkEnd::NothingLeft => idle && (!ready.busy || leases.is_exhausted()),
            };
            // A slot may have taken a case meanwhile, whose result may complete a run.
            if done && leases.is_idle() && leases.counts() == stored {
                return Ok(false);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = leases.emptied.notified() => {}
                () = stop.drain.asked() => {}
                () = stop.now.asked() => {}
            }
        }
        Ok(true)
    }

    /// Lets the cases that run finish within the grace period; then they are stopped and returned.
    async fn drain(
        self,
        shift: &Shift<'_>,
        runs: &mut BTreeMap<String, Stance>,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<(), EngineError> {
        let Shift {
            request,
            leases,
            stop,
            ..
        } = *shift;
        let deadline = tokio::time::Instant::now() + request.grace;
        // Neither may take longer than the grace period. Leases that cannot be released now are released at the
        // end, or expire.
        if let Ok(Err(error)) = tokio::time::timeout_at(deadline, leases.drain()).await {
            tracing::warn!("cannot return cases to the queue: {error}");
        }
        let _ = tokio::time::timeout_at(deadline, shift.announcement.set_draining()).await;
        on_event(WorkEvent::Draining {
            cases: leases.held_count(),
        });
        while !leases.is_idle() && !stop.now.is_requested() {
            tokio::select! {
                () = tokio::time::sleep(DRAIN_POLL) => {}
                () = leases.emptied.notified() => {}
                () = stop.now.asked() => {}
                () = tokio::time::sleep_until(deadline) => {
                    stop.now.stop();
                    return Ok(());
                }
            }
        }
        // The last results may have completed a run.
        if stop.now.is_requested() {
            return Ok(());
        }
        match self.look(shift, runs, false, on_event).await {
            // The results are stored: another worker, or the caller that waits, completes the run.
            Err(EngineError::Store(error)) => {
                tracing::warn!("cannot look for runs to complete: {error}");
                Ok(())
            }
            looked => looked.map(drop),
        }
    }

    async fn look(
        self,
        shift: &Shift<'_>,
        runs: &mut BTreeMap<String, Stance>,
        joins: bool,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<AvailableRuns, EngineError> {
        let Shift { request, store, .. } = *shift;
        let limit = shift.leases.answer_limit();
        let mut open = answered(store, limit, store.bench().open_runs()).await?;
        if let Some(only) = &request.run {
            open.retain(|run| run.run_id == *only);
        }
        pause(store, runs, limit).await?;
        let mut ready = AvailableRuns::default();
        for run in &open {
            let joined = match runs.get(&run.run_id) {
                Some(Stance::Joined(runner)) => Some(runner.clone()),
                // Already reported; check again later, because the local files may change.
                Some(Stance::Declined { at, .. }) if at.elapsed() < RECHECK_AFTER => continue,
                _ => None,
            };
            let found = match joined {
                _ if !run.left => self.end_here(shift, &run.run_id, on_event).await?.map(|()| None),
                Some(runner) => Ok(Some(runner)),
                None if !joins => continue,
                None => {
                    let plan = answered(store, limit, store.bench().plan(&run.run_id)).await?;
                    self.join(request, store, &run.run_id, plan, on_event).map(Some)
                }
            };
            match found {
                Ok(Some(runner)) => {
                    ready.busy = true;
                    if run.ready {
                        ready.runs.push(runner.clone());
                    }
                    runs.insert(run.run_id.clone(), Stance::Joined(runner));
                }
                // Finalised; its targets are closed below, once it is no longer listed as open.
                Ok(None) => {}
                Err(reason) if request.run.is_some() => {
                    return Err(EngineError::Invalid {
                        message: format!("cannot run cases of {}: {reason}", run.run_id),
                        hint: Hint::with_command(
                            "check out the commit that the run was started from",
                            "--root DIR",
                        ),
                    });
                }
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

    /// Joins a run if this worker can run it; otherwise the error gives the reason.
    fn join(
        self,
        request: &WorkRequest,
        store: &Store,
        run_id: &str,
        row: Option<PlanRow>,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<Arc<Runner>, String> {
        let row = row.ok_or("its plan was deleted")?;
        let plan = parse_plan(run_id, row.plan).map_err(|problem| problem.to_string())?;
        let runner = self.open(request, store, run_id, &plan)?;
        on_event(WorkEvent::Joined {
            run_id: run_id.into(),
            suite_id: runner.suite.suite_id.clone(),
        });
        Ok(Arc::new(runner))
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
        asked.files = FileAccess::Below(request.root.clone());
        let mut loaded = self.load_suite(&asked).map_err(text)?;
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
        shift: &Shift<'_>,
        run_id: &str,
        on_event: &mut impl FnMut(WorkEvent),
    ) -> Result<Result<(), String>, EngineError> {
        let Shift { request, store, .. } = *shift;
        let limit = shift.leases.answer_limit();
        let Some(row) = answered(store, limit, store.bench().plan(run_id)).await? else {
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

/// Applies the pauses that targets asked other workers for.
async fn pause(store: &Store, runs: &BTreeMap<String, Stance>, limit: Duration) -> Result<(), EngineError> {
    let joined = || {
        runs.values().filter_map(|stance| match stance {
            Stance::Joined(runner) => Some((runner.gate.shared_name()?, &runner.gate)),
            Stance::Declined { .. } => None,
        })
    };
    let names: Vec<&str> = joined().map(|(name, _)| name).collect();
    for (name, left) in answered(store, limit, store.rates().pauses(&names)).await? {
        for (_, gate) in joined().filter(|(joined, _)| *joined == name) {
            gate.pause(left);
        }
    }
    Ok(())
}

async fn close(stance: &Stance) {
    if let Stance::Joined(runner) = stance {
        runner.close().await;
    }
}
