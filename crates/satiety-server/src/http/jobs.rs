//! Work that outlives its request: it is started, told about, stopped, and its end is kept for a while.
//!
//! What a job does is durable by itself (a benchmark run stores each result before it counts, a research each round); the job is only the way to
//! follow it. A server that ends stops its jobs, and a run that was stopped can be taken up again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use satiety_engine::bench::{Progress, Stop};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use super::api::{ResearchJobProgress, RetrievalJobProgress};

/// Jobs that are remembered after their end.
const REMEMBERED: usize = 200;
/// Jobs that may wait.
const WAITING: usize = 50;
/// Jobs that may run: more than have room here, because those that only wait for workers take none.
const RUNNING: usize = 100;
/// Events of a job that can be read again.
const EVENTS: usize = 1000;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for others to end.
    Waiting,
    /// It runs.
    Running,
    /// It is done.
    Done,
    /// It could not be done.
    Failed,
    /// It was stopped; what it has stored stays.
    Stopped,
}

impl JobState {
    pub(crate) fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// A job as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobView {
    /// Its id.
    pub job_id: String,
    /// What it does: `bench_run`, `research_run` or `retrieval_run`.
    pub kind: String,
    /// What it is about: the suite, the task, the system.
    pub subject: String,
    /// The run, where it is known before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Where it stands.
    pub state: JobState,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<JobProgress>,
    /// What came of it, once it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a job is. `done` and `planned` are there for every kind; the rest depends on what is done.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobProgress {
    /// Of a benchmark run.
    Bench(BenchJobProgress),
    /// Of a research.
    Research(ResearchJobProgress),
    /// Of a corpus that is replayed.
    Retrieval(RetrievalJobProgress),
}

/// How far a benchmark run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BenchJobProgress {
    /// Results that are stored.
    pub done: usize,
    /// All that there will be.
    pub planned: usize,
    /// How many passed.
    pub passed: usize,
    /// How many failed or ran out of time.
    pub failed: usize,
    /// How many could not be decided.
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

/// An event of a job, to be sent with its number.
#[derive(Debug, Clone)]
pub(crate) struct JobEvent {
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) data: Value,
}

/// A job.
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

    /// Says which run it is.
    pub(crate) fn is_run(&self, run_id: String) {
        lock(&self.view).run_id = Some(run_id);
    }

    /// Tells how far it is.
    pub(crate) fn progress(&self, progress: JobProgress) {
        let told = json!(progress);
        lock(&self.view).progress = Some(progress);
        self.tell("progress", told);
    }

    /// Changes its state.
    pub(crate) fn change(&self, state: JobState, result: Option<Value>, error: Option<String>) {
        {
            let mut view = lock(&self.view);
            view.state = state;
            view.result = result;
            view.error = error;
            if state.is_over() {
                view.ended_at = Some(Timestamp::now());
            }
        }
        let view = self.view();
        self.tell("state", json!(view));
    }

    fn tell(&self, name: &'static str, data: Value) {
        let mut events = lock(&self.events);
        let number = events.back().map_or(0, |event| event.number) + 1;
        events.push_back(JobEvent { number, name, data });
        if events.len() > EVENTS {
            events.pop_front();
        }
        drop(events);
        self.number.send_replace(number);
    }

    /// The events behind this one.
    pub(crate) fn after(&self, number: u64) -> Vec<JobEvent> {
        lock(&self.events)
            .iter()
            .filter(|event| event.number > number)
            .cloned()
            .collect()
    }

    /// Tells when there is another event.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }
}

/// All jobs of this server.
#[derive(Debug)]
pub(crate) struct Jobs {
    all: Mutex<BTreeMap<String, Arc<Job>>>,
    pub(crate) room: Arc<Semaphore>,
}

impl Jobs {
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self {
            all: Mutex::default(),
            room: Arc::new(Semaphore::new(at_a_time)),
        }
    }

    /// A new job; none when too many wait already.
    pub(crate) fn add(&self, kind: &str, subject: &str) -> Option<Arc<Job>> {
        let mut all = lock(&self.all);
        let count = |state| all.values().filter(|job| job.view().state == state).count();
        if count(JobState::Waiting) >= WAITING || count(JobState::Running) >= RUNNING {
            return None;
        }
        let over: Vec<String> = all
            .iter()
            .filter(|(_, job)| job.view().state.is_over())
            .map(|(id, _)| id.clone())
            .collect();
        // Ids are ordered by time, so the first are the oldest.
        for id in over.iter().take(over.len().saturating_sub(REMEMBERED)) {
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

    /// All jobs, the newest first.
    pub(crate) fn list(&self) -> Vec<JobView> {
        lock(&self.all).values().rev().map(|job| job.view()).collect()
    }

    /// Jobs that wait and jobs that run.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let states: Vec<JobState> = lock(&self.all).values().map(|job| job.view().state).collect();
        let count = |wanted| states.iter().filter(|state| **state == wanted).count();
        (count(JobState::Waiting), count(JobState::Running))
    }

    /// Asks all jobs to end.
    pub(crate) fn stop_all(&self) {
        for job in lock(&self.all).values() {
            job.stop.stop();
        }
    }

    /// Whether nothing runs or waits any more.
    pub(crate) fn are_over(&self) -> bool {
        self.depth() == (0, 0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
