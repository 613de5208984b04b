//! Cases that are taken from the store, where other processes take theirs from: the source of a worker's jobs.
//!
//! A slot that is free takes one case; slots that become free while another asks the store are served with it, so that a
//! fast target costs few transactions and nobody hoards. While cases are held, a pulse tells the store so. What comes of a
//! case is kept only while it is still held.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use satiety::bench::BenchmarkResult;
use satiety_store::Store;
use satiety_store::bench::{LeaseHolder, StoredOutcome};
use tokio::sync::{Notify, watch};

use super::executor::{Done, Runner, Stop, Task, Work};
use super::outage::Outage;
use crate::EngineError;

/// How often a case is tried. One that was taken so often and never finished may be what ends its workers.
const TRIES: i64 = 5;

/// An attempt at a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    run_id: String,
    position: i64,
    takes: i64,
}

/// Where a worker's jobs come from.
#[derive(Debug)]
pub(super) struct Leases {
    store: Store,
    /// What no other has.
    id: String,
    name: String,
    lease: Duration,
    stop: Stop,
    /// Runs that may have a case to take, oldest first.
    ready: Mutex<VecDeque<Arc<Runner>>>,
    /// Told when there may be something to take, and at the end.
    offered: watch::Sender<u64>,
    over: AtomicBool,
    /// Cases that were taken for slots that wait for one. Its lock is held while the store is asked.
    taken: tokio::sync::Mutex<VecDeque<Task<Attempt>>>,
    wanting: AtomicUsize,
    /// What is held, with the attempt.
    held: Mutex<BTreeMap<(String, i64), i64>>,
    /// Told when the last case of a run was kept.
    pub(super) emptied: Notify,
    kept: AtomicU64,
    lost: AtomicU64,
    failed: Mutex<Option<EngineError>>,
}

impl Leases {
    pub(super) fn new(store: Store, name: String, lease: Duration, stop: Stop) -> Arc<Self> {
        Arc::new(Self {
            store,
            id: uuid::Uuid::now_v7().simple().to_string(),
            name,
            lease,
            stop,
            ready: Mutex::default(),
            offered: watch::Sender::new(0),
            over: AtomicBool::new(false),
            taken: tokio::sync::Mutex::default(),
            wanting: AtomicUsize::new(0),
            held: Mutex::default(),
            emptied: Notify::new(),
            kept: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            failed: Mutex::default(),
        })
    }

    fn holder(&self) -> LeaseHolder<'_> {
        LeaseHolder {
            id: &self.id,
            name: &self.name,
            lease: self.lease,
        }
    }

    /// Says which runs may have a case to take.
    pub(super) fn offer(&self, runs: VecDeque<Arc<Runner>>) {
        let any = !runs.is_empty();
        *lock(&self.ready) = runs;
        if any {
            self.offered.send_modify(|times| *times += 1);
        }
    }

    /// There will be nothing more to take.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.offered.send_modify(|times| *times += 1);
    }

    /// Results that were kept, and those that came after the case had gone to somebody else.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.kept.load(Ordering::SeqCst), self.lost.load(Ordering::SeqCst))
    }

    /// Why nothing could be taken any more, where something went wrong for good.
    pub(super) fn failure(&self) -> Option<EngineError> {
        lock(&self.failed).take()
    }

    /// Gives back what is held.
    pub(super) async fn release(&self) -> Result<u64, EngineError> {
        Ok(self.store.bench().release_work(&self.id).await?)
    }

    /// Tells the store again and again what is held, three times a lease.
    pub(super) async fn pulse(self: Arc<Self>) {
        let mut silent = false;
        loop {
            tokio::time::sleep(self.lease / 3).await;
            let held: Vec<(String, i64)> = lock(&self.held).keys().cloned().collect();
            if held.is_empty() {
                continue;
            }
            match self.store.bench().extend_work(&self.holder(), &held).await {
                Ok(still) => {
                    silent = false;
                    if still < held.len() as u64 {
                        tracing::debug!(held = held.len(), still, "some cases went to others");
                    }
                }
                // Once for each time that it is away.
                Err(error) if !silent => {
                    silent = true;
                    tracing::warn!("the store could not be told what is held: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// A case, for a slot that is free.
    async fn take(&self) -> Result<Option<Task<Attempt>>, EngineError> {
        let wanting = WaitingSlot::new(&self.wanting);
        let mut taken = self.taken.lock().await;
        let mut setback = Outage::default();
        while taken.is_empty() {
            let Some(runner) = lock(&self.ready).front().cloned() else {
                return Ok(None);
            };
            let most = wanting.count();
            let cases = match self
                .store
                .bench()
                .take_work(&runner.run_id, &self.holder(), most)
                .await
            {
                Ok(cases) => cases,
                Err(error) => {
                    setback.outlast(error, &self.stop).await?;
                    continue;
                }
            };
            if cases.len() < most {
                lock(&self.ready).retain(|ready| ready.run_id != runner.run_id);
            }
            for case in cases {
                let Some(job) = runner.job_of(&case.key) else {
                    // It falls back to the others when its time is up.
                    tracing::error!(
                        run = runner.run_id,
                        case = case.key.case_id,
                        "a case that the suite does not have"
                    );
                    continue;
                };
                let ticket = Attempt {
                    run_id: runner.run_id.clone(),
                    position: case.position,
                    takes: case.takes,
                };
                lock(&self.held).insert((ticket.run_id.clone(), ticket.position), ticket.takes);
                let given_up = (case.takes > TRIES).then(|| {
                    format!(
                        "{TRIES} workers took this case and none of them finished it: it may end the process that runs it"
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

    fn let_go(&self, attempt: &Attempt) {
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
            let mut setback = Outage::default();
            let settling = loop {
                match self.store.bench().settle_work(&run_id, &self.id, &results).await {
                    Ok(settling) => break settling,
                    Err(error) => setback.outlast(error, &self.stop).await?,
                }
            };
            for (attempt, result) in seen {
                self.let_go(&attempt);
                if settling.kept.binary_search(&attempt.position).is_ok() {
                    self.kept.fetch_add(1, Ordering::SeqCst);
                    counted.push(result);
                } else {
                    self.lost.fetch_add(1, Ordering::SeqCst);
                    tracing::debug!(run = run_id, case = result.case_id, "a result that came too late");
                }
            }
            if !settling.left {
                self.emptied.notify_one();
            }
        }
        Ok(counted)
    }
}

/// A slot that waits for a case, counted until it has one.
struct WaitingSlot<'a>(&'a AtomicUsize);

impl<'a> WaitingSlot<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }

    fn count(&self) -> usize {
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
