//! A worker: takes cases of runs that were spread, as long as its own files are those that a run is about, and ends runs of
//! which every case has its result.

use crate::handles::BenchOperations;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::bench::SandboxRequirement;
use satiety_store::Store;
use schemars::JsonSchema;
use serde::Serialize;

use super::distributed::{DistributedPlan, stays_inside, understood};
use super::executor::{self, Lead, Runner, Stop};
use super::leases::Leases;
use super::outage::Outage;
use super::outline::outline;
use super::run::selection;
use super::suites::load;
use crate::EngineError;

/// How often an idle worker looks for work.
const LOOK: Duration = Duration::from_millis(250);
/// After how long a run that was left to others is looked at again: the files here may have changed.
const AGAIN: Duration = Duration::from_secs(30);
/// How long giving cases back may take at the end; they come back by themselves, too.
const PARTING: Duration = Duration::from_secs(5);

/// What a worker goes by.
#[derive(Debug, Clone, Default)]
pub struct WorkRequest {
    /// The folder below which suites are looked for: a checkout of what runs are started from.
    pub root: PathBuf,
    /// Cases at a time.
    pub concurrency: u32,
    /// For how long a case stays with a worker that falls silent.
    pub lease: Duration,
    /// What people call this worker.
    pub name: String,
    /// Whether to end when nothing is left of the runs it takes part in.
    pub until_idle: bool,
    /// Judges with an address of their own that runs may name.
    pub judges: Vec<String>,
    /// The variables that descriptions of targets may name.
    pub environment: BTreeMap<String, String>,
}

/// What a worker tells while it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkEvent {
    /// It takes cases of a run.
    Joined {
        /// The run.
        run_id: String,
        /// Its suite.
        suite_id: String,
    },
    /// It leaves a run to others.
    Declined {
        /// The run.
        run_id: String,
        /// Why.
        reason: String,
    },
    /// It has ended a run whose results are all there.
    Ended {
        /// The run.
        run_id: String,
    },
    /// Something that was not told or recorded at the end of a run.
    Warning(String),
}

/// What a worker did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkResponse {
    /// Its name.
    pub name: String,
    /// Results that were kept.
    pub kept: u64,
    /// Results that came after the case had gone to somebody else.
    pub late: u64,
    /// Cases that were given back at the end.
    pub given_back: u64,
}

/// What this worker makes of a run.
enum Stance {
    Joined(Arc<Runner>),
    Declined { reason: String, at: Instant },
}

/// What a look found.
#[derive(Default)]
struct AvailableRuns {
    /// Runs that may have a case to take, oldest first.
    runs: VecDeque<Arc<Runner>>,
    /// Whether a run that it takes part in has cases left.
    busy: bool,
}

impl BenchOperations<'_> {
    /// Takes cases and runs them until `stop`, which gives back what is not finished.
    pub async fn work(
        self,
        request: WorkRequest,
        stop: &Stop,
        mut told: impl FnMut(WorkEvent),
    ) -> Result<WorkResponse, EngineError> {
        if !request.root.is_dir() {
            return Err(EngineError::Invalid {
                message: format!("{} is not a folder", request.root.display()),
                hint: "--root names the checkout below which suites are looked for".into(),
            });
        }
        let store = self.engine.store().await?.clone();
        let claims = Leases::new(store.clone(), request.name.clone(), request.lease, stop.clone());
        let pulse = tokio::spawn(claims.clone().pulse());
        let mut runs = BTreeMap::new();
        let outcome = {
            let at_a_time = request.concurrency.max(1) as usize;
            let running = executor::run(claims.clone(), at_a_time, Lead::Wide, stop, |_| true);
            let looking = async {
                let looked = self
                    .look_for_work(&request, &store, &claims, &mut runs, stop, &mut told)
                    .await;
                claims.end();
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
        for stance in runs.values() {
            close(stance).await;
        }
        let given_back = tokio::time::timeout(PARTING, claims.release()).await;
        outcome?;
        if let Some(error) = claims.failure() {
            return Err(error);
        }
        let (kept, late) = claims.counts();
        Ok(WorkResponse {
            name: request.name,
            kept,
            late,
            given_back: given_back.map_or(Ok(0), |given_back| given_back)?,
        })
    }

    /// Looks again and again which runs there are, joins those that it can and ends those that are done.
    async fn look_for_work(
        self,
        request: &WorkRequest,
        store: &Store,
        claims: &Leases,
        runs: &mut BTreeMap<String, Stance>,
        stop: &Stop,
        told: &mut impl FnMut(WorkEvent),
    ) -> Result<(), EngineError> {
        let mut setback = Outage::default();
        while !stop.is_asked() {
            let ready = match self.look(request, store, runs, told).await {
                Ok(ready) => ready,
                Err(EngineError::Store(error)) => {
                    setback.outlast(error, stop).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            setback = Outage::default();
            claims.offer(ready.runs);
            if request.until_idle && !ready.busy {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = claims.emptied.notified() => {}
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
        told: &mut impl FnMut(WorkEvent),
    ) -> Result<AvailableRuns, EngineError> {
        let open = store.bench().open_runs().await?;
        let mut ready = AvailableRuns::default();
        for run in &open {
            let joined = match runs.get(&run.run_id) {
                Some(Stance::Joined(runner)) => Some(runner.clone()),
                // Said before; the files here may be others after a while.
                Some(Stance::Declined { at, .. }) if at.elapsed() < AGAIN => continue,
                _ => None,
            };
            let found = match joined {
                _ if !run.left => self
                    .end_here(request, store, &run.run_id, told)
                    .await?
                    .map(|()| None),
                Some(runner) => Ok(Some(runner)),
                None => self.join(request, store, &run.run_id, told).await?.map(Some),
            };
            match found {
                Ok(Some(runner)) => {
                    ready.busy = true;
                    if run.ready {
                        ready.runs.push_back(runner.clone());
                    }
                    runs.insert(run.run_id.clone(), Stance::Joined(runner));
                }
                // Ended; its targets are closed below, when it is not open any more.
                Ok(None) => {}
                Err(reason) => decline(runs, &run.run_id, reason, told).await,
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

    /// Joins a run, if this worker can run what it asks; otherwise the inner error says why not.
    async fn join(
        self,
        request: &WorkRequest,
        store: &Store,
        run_id: &str,
        told: &mut impl FnMut(WorkEvent),
    ) -> Result<Result<Arc<Runner>, String>, EngineError> {
        let Some(row) = store.bench().plan(run_id).await? else {
            return Ok(Err("its plan is gone".into()));
        };
        let joined = understood(run_id, row.plan)
            .map_err(|problem| problem.to_string())
            .and_then(|plan| self.open(request, store, run_id, &plan));
        if let Ok(runner) = &joined {
            told(WorkEvent::Joined {
                run_id: run_id.into(),
                suite_id: runner.suite.suite_id.clone(),
            });
        }
        Ok(joined.map(Arc::new))
    }

    /// Opens what a run needs, if the files here are those that it is about.
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
                "it is to be run without a sandbox, and this worker's `bench.sandbox` is `{own}`"
            ));
        }
        // The store is not believed: it can ask for more than this worker does, and not for less.
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
                    "the {what} of {} is another one here than where the run was started",
                    plan.suite.escape_debug()
                ));
            }
        }
        self.equip(run_id.into(), &asked, loaded, outline, store)
            .map_err(text)
    }

    /// Ends a run whose results are all there. What hinders only this worker is the inner error.
    async fn end_here(
        self,
        request: &WorkRequest,
        store: &Store,
        run_id: &str,
        told: &mut impl FnMut(WorkEvent),
    ) -> Result<Result<(), String>, EngineError> {
        let Some(row) = store.bench().plan(run_id).await? else {
            return Ok(Ok(()));
        };
        let plan = understood(run_id, row.plan)?;
        let ending = self.end_spread(run_id, &plan, &request.root);
        match Box::pin(ending).await {
            Ok(ended) => {
                for warning in ended.gated.post.failures() {
                    told(WorkEvent::Warning(warning));
                }
                told(WorkEvent::Ended {
                    run_id: run_id.into(),
                });
                Ok(Ok(()))
            }
            Err(EngineError::Store(error)) => Err(error.into()),
            Err(problem) => Ok(Err(format!("it could not be ended here: {problem}"))),
        }
    }
}

/// Leaves a run to others; said once for each reason.
async fn decline(
    runs: &mut BTreeMap<String, Stance>,
    run_id: &str,
    reason: String,
    told: &mut impl FnMut(WorkEvent),
) {
    let before = runs.remove(run_id);
    if let Some(before) = &before {
        close(before).await;
    }
    if !matches!(&before, Some(Stance::Declined { reason: said, .. }) if *said == reason) {
        told(WorkEvent::Declined {
            run_id: run_id.into(),
            reason: reason.clone(),
        });
    }
    let at = Instant::now();
    runs.insert(run_id.into(), Stance::Declined { reason, at });
}

async fn close(stance: &Stance) {
    if let Stance::Joined(runner) = stance {
        for variant in &runner.variants {
            variant.target.close().await;
        }
    }
}
