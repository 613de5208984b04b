//! Leases of queued cases in the shared database: the job source of a worker. The database decides which of
//! the worker's runs is next.
//!
//! A free slot leases one case; slots that become free while a query is in flight are served by the same
//! query, so that a fast target costs few transactions and no worker hoards cases. A heartbeat renews the
//! leases. A result is stored only while its lease is still held.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use satiety::bench::BenchmarkResult;
use satiety_store::Store;
use satiety_store::bench::{LeaseHolder, StoredOutcome};
use tokio::sync::{Notify, watch};

use super::executor::{Done, Runner, Stop, Task, Work};
use super::outage::{Outage, answered};
use super::queue_worker::WorkRequest;
use crate::EngineError;

/// Shortest time that the database gets to answer: it may be busy.
const MIN_ANSWER_TIME: Duration = Duration::from_secs(5);
/// Maximum number of leases of a case. One that never finished may be what crashes its workers.
const MAX_ATTEMPTS: i64 = 5;

/// Attempt at a leased case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    run_id: String,
    position: i64,
    takes: i64,
}

/// Job source of a worker.
#[derive(Debug)]
pub(super) struct Leases {
    store: Store,
    /// Unique id of this process.
    id: String,
    name: String,
    lease: Duration,
    stop: Stop,
    /// Runs that may have cases to lease.
    ready: Mutex<Vec<Arc<Runner>>>,
    /// Number of cases that may still be leased; `None` without a limit.
    budget: Mutex<Option<u64>>,
    /// Notified when cases may be available, and on shutdown.
    offered: watch::Sender<u64>,
    over: AtomicBool,
    /// Cases leased for waiting slots. Locked during the database query.
    taken: tokio::sync::Mutex<VecDeque<Task<Attempt>>>,
    wanting: AtomicUsize,
    /// Leases held, with their attempts.
    held: Mutex<BTreeMap<(String, i64), i64>>,
    /// Notified when the last case of a run was stored.
    pub(super) emptied: Notify,
    kept: AtomicU64,
    lost: AtomicU64,
    returned: AtomicU64,
    failed: Mutex<Option<EngineError>>,
}

impl Leases {
    pub(super) fn new(store: Store, request: &WorkRequest, stop: Stop) -> Arc<Self> {
        Arc::new(Self {
            store,
            id: uuid::Uuid::now_v7().simple().to_string(),
            name: request.name.clone(),
            lease: request.lease,
            stop,
            ready: Mutex::default(),
            budget: Mutex::new(request.max_cases),
            offered: watch::Sender::new(0),
            over: AtomicBool::new(false),
            taken: tokio::sync::Mutex::default(),
            wanting: AtomicUsize::new(0),
            held: Mutex::default(),
            emptied: Notify::new(),
            kept: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            failed: Mutex::default(),
        })
    }

    /// How long a call of the database may take: a third of the lease, as a renewal must come in time.
    pub(super) fn answer_limit(&self) -> Duration {
        (self.lease / 3).max(MIN_ANSWER_TIME)
    }

    fn holder(&self) -> LeaseHolder<'_> {
        LeaseHolder {
            id: &self.id,
            name: &self.name,
            lease: self.lease,
        }
    }

    /// Sets the runs that may have cases to lease.
    pub(super) fn offer(&self, runs: Vec<Arc<Runner>>) {
        let any = !runs.is_empty();
        *lock(&self.ready) = runs;
        if any {
            self.offered.send_modify(|times| *times += 1);
        }
    }

    /// Signals that no more cases will be leased.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.offered.send_modify(|times| *times += 1);
    }

    /// Whether the limit of cases is reached.
    pub(super) fn is_exhausted(&self) -> bool {
        *lock(&self.budget) == Some(0)
    }

    /// Number of leased cases.
    pub(super) fn held_count(&self) -> usize {
        lock(&self.held).len()
    }

    /// Whether no case is leased, and none is being leased.
    pub(super) fn is_idle(&self) -> bool {
        self.taken.try_lock().is_ok_and(|taken| taken.is_empty()) && lock(&self.held).is_empty()
    }

    /// Takes no more cases, and releases those that no slot has started.
    pub(super) async fn drain(&self) -> Result<(), EngineError> {
        self.end();
        let unstarted: Vec<Task<Attempt>> = self.taken.lock().await.drain(..).collect();
        if unstarted.is_empty() {
            return Ok(());
        }
        for task in &unstarted {
            self.forget(&task.ticket);
        }
        let places: Vec<(String, i64)> = unstarted
            .into_iter()
            .map(|task| (task.ticket.run_id, task.ticket.position))
            .collect();
        self.return_cases(Some(&places)).await
    }

    /// Number of results stored, and of results that arrived after their lease was lost.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.kept.load(Ordering::SeqCst), self.lost.load(Ordering::SeqCst))
    }

    /// Permanent error that ended the leasing, if any.
    pub(super) fn failure(&self) -> Option<EngineError> {
        lock(&self.failed).take()
    }

    /// Releases all leases.
    pub(super) async fn release(&self) -> Result<(), EngineError> {
        self.return_cases(None).await
    }

    /// Number of cases returned to the queue.
    pub(super) fn returned_count(&self) -> u64 {
        self.returned.load(Ordering::SeqCst)
    }

    async fn return_cases(&self, only: Option<&[(String, i64)]>) -> Result<(), EngineError> {
        let returned = self.store.bench().release_work(&self.id, only).await?;
        self.returned.fetch_add(returned, Ordering::SeqCst);
        Ok(())
    }

    /// Renews the held leases periodically, three times per lease duration.
    pub(super) async fn pulse(self: Arc<Self>) {
        let mut silent = false;
        loop {
            tokio::time::sleep(self.lease / 3).await;
            let held: Vec<(String, i64)> = lock(&self.held).keys().cloned().collect();
            if held.is_empty() {
                continue;
            }
            let holder = self.holder();
            let renewal = self.store.bench().extend_work(&holder, &held);
            match answered(&self.store, self.answer_limit(), renewal).await {
                Ok(still) => {
                    silent = false;
                    if still < held.len() as u64 {
                        tracing::debug!(held = held.len(), still, "some leases were lost to other workers");
                    }
                }
                // Warn once per outage.
                Err(error) if !silent => {
                    silent = true;
                    tracing::warn!("cannot renew leases: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// Leases a case for a free slot.
    async fn take(&self) -> Result<Option<Task<Attempt>>, EngineError> {
        let wanting = WaitingSlot::new(&self.wanting);
        let mut taken = self.taken.lock().await;
        let mut outage = Outage::default();
        while taken.is_empty() && !self.over.load(Ordering::SeqCst) {
            let runners = lock(&self.ready).clone();
            // Free slots are divided between the runs: the first one does not get all of them.
            let share = wanting.count().div_ceil(runners.len().max(1));
            let most = lock(&self.budget).map_or(share, |left| {
                share.min(usize::try_from(left).unwrap_or(usize::MAX))
            });
            if runners.is_empty() || most == 0 {
                return Ok(None);
            }
            let runs: Vec<&str> = runners.iter().map(|runner| runner.run_id.as_str()).collect();
            let holder = self.holder();
            let taking = self.store.bench().take_work(&runs, &holder, most);
            let cases = match answered(&self.store, self.answer_limit(), taking).await {
                Ok(cases) => cases,
                Err(error) => {
                    outage.outlast(error, &self.stop).await?;
                    continue;
                }
            };
            if let Some(left) = &mut *lock(&self.budget) {
                *left = left.saturating_sub(cases.len() as u64);
            }
            let Some(runner) = runners
                .iter()
                .find(|runner| cases.first().is_some_and(|case| case.run_id == runner.run_id))
            else {
                lock(&self.ready).clear();
                continue;
            };
            for case in cases {
                let Some(job) = runner.job_of(&case.key) else {
                    // The lease expires and the case returns to the queue.
                    tracing::error!(
                        run = runner.run_id,
                        case = case.key.case_id,
                        "leased a case that is not in the suite"
                    );
                    continue;
                };
                let ticket = Attempt {
                    run_id: runner.run_id.clone(),
                    position: case.position,
                    takes: case.takes,
                };
                lock(&self.held).insert((ticket.run_id.clone(), ticket.position), ticket.takes);
                let given_up = (case.takes > MAX_ATTEMPTS).then(|| {
                    format!(
                        "abandoned after {MAX_ATTEMPTS} attempts: no worker finished this case; it may crash the process that runs it"
                    )
                });
                taken.push_back(Task {
                    runner: runner.clone(),
                    job,
                    ticket,
                    given_up,
                });
            }
        }
        Ok(taken.pop_front())
    }

    fn forget(&self, attempt: &Attempt) {
        let mut held = lock(&self.held);
        let key = (attempt.run_id.clone(), attempt.position);
        if held.get(&key) == Some(&attempt.takes) {
            held.remove(&key);
        }
    }
}

impl Work for Leases {
    type Ticket = Attempt;

    async fn next(&self) -> Option<Task<Attempt>> {
        let mut offered = self.offered.subscribe();
        loop {
            match self.take().await {
                Ok(Some(task)) => return Some(task),
                Ok(None) if self.over.load(Ordering::SeqCst) => return None,
                Ok(None) => offered.changed().await.ok()?,
                Err(error) => {
                    lock(&self.failed).get_or_insert(error);
                    self.stop.stop();
                    return None;
                }
            }
        }
    }

    async fn keep(&self, done: Vec<Done<Attempt>>) -> Result<Vec<BenchmarkResult>, EngineError> {
        let mut by_run: BTreeMap<String, Vec<(StoredOutcome, Attempt, BenchmarkResult)>> = BTreeMap::new();
        for done in done {
            let settled = StoredOutcome {
                position: done.ticket.position,
                takes: done.ticket.takes,
                row: done.row?,
            };
            let run = by_run.entry(done.ticket.run_id.clone()).or_default();
            run.push((settled, done.ticket, done.result));
        }
        let mut counted = Vec::new();
        for (run_id, parts) in by_run {
            let (results, seen): (Vec<StoredOutcome>, Vec<(Attempt, BenchmarkResult)>) = parts
                .into_iter()
                .map(|(settled, attempt, result)| (settled, (attempt, result)))
                .unzip();
            let mut outage = Outage::default();
            let settling = loop {
                let settling = self.store.bench().settle_work(&run_id, &self.id, &results);
                match answered(&self.store, self.answer_limit(), settling).await {
                    Ok(settling) => break settling,
                    Err(error) => outage.outlast(error, &self.stop).await?,
                }
            };
            for (attempt, result) in seen {
                self.forget(&attempt);
                if settling.kept.binary_search(&attempt.position).is_ok() {
                    self.kept.fetch_add(1, Ordering::SeqCst);
                    counted.push(result);
                } else {
                    self.lost.fetch_add(1, Ordering::SeqCst);
                    tracing::debug!(
                        run = run_id,
                        case = result.case_id,
                        "result discarded: lease was lost"
                    );
                }
            }
            if !settling.left {
                self.emptied.notify_one();
            }
        }
        Ok(counted)
    }
}

/// Slot that waits for a case or a permit; counted while it waits.
pub(super) struct WaitingSlot<'a>(&'a AtomicUsize);

impl<'a> WaitingSlot<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst).max(1)
    }
}

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
