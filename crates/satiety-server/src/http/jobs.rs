//! Background jobs: started by a request, followed by events, stoppable, and listed for a while after they
//! end.
//!
//! The work itself is durable (a benchmark run stores each result, a research run each round); the job only
//! reports progress. A server that shuts down stops its jobs, and stopped runs can be resumed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use satiety_engine::bench::{Progress, Stop};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::api::{ResearchJobProgress, RetrievalJobProgress};

/// Number of finished jobs that are kept.
const MAX_FINISHED: usize = 200;
/// Maximum number of queued jobs.
const MAX_QUEUED: usize = 50;
/// Maximum number of running jobs: more than run concurrently, since jobs that wait for workers take no
/// permit.
const MAX_RUNNING: usize = 100;
/// Number of events of a job that can be replayed.
const MAX_EVENTS: usize = 1000;

/// State of a background job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Queued behind other jobs.
    Waiting,
    /// The job is running now.
    Running,
    /// The job finished without error.
    Done,
    /// The job ended with an error.
    Failed,
    /// The job was stopped; its stored results remain.
    Stopped,
}

impl JobState {
    pub(crate) fn is_finished(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// Background job of this server.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobView {
    /// Id of the job.
    pub job_id: String,
    /// Kind of job: `bench_run`, `research_run` or `retrieval_run`.
    pub kind: String,
    /// Subject of the job: the suite, the task or the system.
    pub subject: String,
    /// Id of the run, if known before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Current state of the job.
    pub state: JobState,
    /// Time when the job was requested.
    pub created_at: Timestamp,
    /// Time when the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Progress of the job so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<JobProgress>,
    /// Result of a finished job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Error message of a failed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Progress of a job. Every kind has `done` and `planned`; other fields depend on the kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobProgress {
    /// Progress of a benchmark run.
    Bench(BenchJobProgress),
    /// Progress of a research run.
    Research(ResearchJobProgress),
    /// Progress of a corpus replay.
    Retrieval(RetrievalJobProgress),
}

/// Progress of a benchmark run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BenchJobProgress {
    /// Number of stored results.
    pub done: usize,
    /// Total number of planned results.
    pub planned: usize,
    /// Number of passed results.
    pub passed: usize,
    /// Number of failed and timed-out results.
    pub failed: usize,
    /// Number of undecided results.
    pub undecided: usize,
}

impl From<Progress> for JobProgress {
    fn from(progress: Progress) -> Self {
        Self::Bench(BenchJobProgress {
            done: progress.done,
            planned: progress.planned,
            passed: progress.passed,
            failed: progress.failed,
            undecided: progress.undecided,
        })
    }
}

/// Numbered event of a job.
#[derive(Debug, Clone)]
pub(crate) struct JobEvent {
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) data: Value,
}

#[derive(Debug)]
pub(crate) struct Job {
    view: Mutex<JobView>,
    events: Mutex<VecDeque<JobEvent>>,
    number: watch::Sender<u64>,
    pub(crate) stop: Stop,
}

impl Job {
    pub(crate) fn view(&self) -> JobView {
        lock(&self.view).clone()
    }

    /// Sets the id of the run.
    pub(crate) fn set_run_id(&self, run_id: String) {
        lock(&self.view).run_id = Some(run_id);
    }

    /// Publishes progress.
    pub(crate) fn progress(&self, progress: JobProgress) {
        let told = json!(progress);
        lock(&self.view).progress = Some(progress);
        self.publish("progress", told);
    }

    /// Publishes a state change.
    pub(crate) fn change(&self, state: JobState, result: Option<Value>, error: Option<String>) {
        {
            let mut view = lock(&self.view);
            view.state = state;
            view.result = result;
            view.error = error;
            if state.is_finished() {
                view.ended_at = Some(Timestamp::now());
            }
        }
        let view = self.view();
        self.publish("state", json!(view));
    }

    fn publish(&self, name: &'static str, data: Value) {
        let mut events = lock(&self.events);
        let number = events.back().map_or(0, |event| event.number) + 1;
        events.push_back(JobEvent { number, name, data });
        if events.len() > MAX_EVENTS {
            events.pop_front();
        }
        drop(events);
        self.number.send_replace(number);
    }

    /// Events after the given number.
    pub(crate) fn after(&self, number: u64) -> Vec<JobEvent> {
        lock(&self.events)
            .iter()
            .filter(|event| event.number > number)
            .cloned()
            .collect()
    }

    /// Number of the latest event.
    pub(crate) fn last_number(&self) -> u64 {
        *self.number.borrow()
    }

    /// Receiver that is notified of new events.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }
}

/// Permits for concurrent jobs.
#[derive(Debug, Clone)]
pub struct JobPermits {
    /// Number of permits of the server.
    count: usize,
    all: Arc<Semaphore>,
    /// Those that a tenant may hold at a time.
    own: Option<Arc<Semaphore>>,
}

/// Permit of a running job, returned on drop.
#[derive(Debug)]
pub struct JobPermit {
    _all: OwnedSemaphorePermit,
    _own: Option<OwnedSemaphorePermit>,
}

impl JobPermits {
    /// Creates the permits of a server.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            all: Arc::new(Semaphore::new(count)),
            own: None,
        }
    }

    /// Permits of a tenant, of those of the server: all except one, so that its long runs do not block the others.
    pub(crate) fn for_tenant(&self) -> Self {
        let own = self.count.saturating_sub(1).max(1);
        Self {
            own: Some(Arc::new(Semaphore::new(own))),
            ..self.clone()
        }
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self) -> Option<JobPermit> {
        // First that of the tenant: a tenant that waits for itself takes nothing from the others.
        let own = match &self.own {
            Some(own) => Some(Arc::clone(own).acquire_owned().await.ok()?),
            None => None,
        };
        Some(JobPermit {
            _all: Arc::clone(&self.all).acquire_owned().await.ok()?,
            _own: own,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Jobs {
    all: Mutex<BTreeMap<String, Arc<Job>>>,
    pub(crate) permits: JobPermits,
}

impl Jobs {
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self {
            all: Mutex::default(),
            permits: JobPermits::new(at_a_time),
        }
    }

    /// Creates the list of a tenant's jobs, which share the permits of the main store's.
    pub(crate) fn for_tenant(main: &Self) -> Self {
        Self {
            all: Mutex::default(),
            permits: main.permits.for_tenant(),
        }
    }

    /// Adds a job; `None` when too many are queued.
    pub(crate) fn add(&self, kind: &str, subject: &str) -> Option<Arc<Job>> {
        let mut all = lock(&self.all);
        let count = |state| all.values().filter(|job| job.view().state == state).count();
        if count(JobState::Waiting) >= MAX_QUEUED || count(JobState::Running) >= MAX_RUNNING {
            return None;
        }
        let over: Vec<String> = all
            .iter()
            .filter(|(_, job)| job.view().state.is_finished())
            .map(|(id, _)| id.clone())
            .collect();
        // Ids are ordered by time, so the first are the oldest.
        for id in over.iter().take(over.len().saturating_sub(MAX_FINISHED)) {
            all.remove(id);
        }
        let job_id = satiety::ids::prefixed("job", uuid::Uuid::now_v7());
        let job = Arc::new(Job {
            view: Mutex::new(JobView {
                job_id: job_id.clone(),
                kind: kind.into(),
                subject: subject.into(),
                run_id: None,
                state: JobState::Waiting,
                created_at: Timestamp::now(),
                ended_at: None,
                progress: None,
                result: None,
                error: None,
            }),
            events: Mutex::default(),
            number: watch::Sender::new(0),
            stop: Stop::default(),
        });
        all.insert(job_id, job.clone());
        Some(job)
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Job>> {
        lock(&self.all).get(id).cloned()
    }

    /// All jobs, newest first.
    pub(crate) fn list(&self) -> Vec<JobView> {
        lock(&self.all).values().rev().map(|job| job.view()).collect()
    }

    /// Number of queued and of running jobs.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let states: Vec<JobState> = lock(&self.all).values().map(|job| job.view().state).collect();
        let count = |wanted| states.iter().filter(|state| **state == wanted).count();
        (count(JobState::Waiting), count(JobState::Running))
    }

    /// Stops all jobs.
    pub(crate) fn stop_all(&self) {
        for job in lock(&self.all).values() {
            job.stop.stop();
        }
    }

    /// Whether no job is queued or running.
    pub(crate) fn all_finished(&self) -> bool {
        self.depth() == (0, 0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn try_acquire(permits: &JobPermits) -> Option<JobPermit> {
        permits.acquire().now_or_never().flatten()
    }

    #[test]
    fn a_tenant_leaves_a_permit_to_the_others() {
        let main = JobPermits::new(2);
        let (acme, umbrella) = (main.for_tenant(), main.for_tenant());
        let first = try_acquire(&acme);
        assert!(first.is_some());
        assert!(try_acquire(&acme).is_none(), "one of two");
        let second = try_acquire(&umbrella);
        assert!(second.is_some());
        assert!(try_acquire(&main).is_none(), "both are in use");
        drop(first);
        assert!(try_acquire(&acme).is_some());
        // The main store may use all.
        drop(second);
        let both = [try_acquire(&main), try_acquire(&main)];
        assert!(both.iter().all(Option::is_some));
        drop(both);
        let only = JobPermits::new(1).for_tenant();
        assert!(try_acquire(&only).is_some(), "at least one");
    }
}
