//! Bounded shadow queue: enqueueing never blocks, overflow is dropped, and live searches have priority.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use satiety::experiment::Arm;
use satiety::memory::ValidPipeline;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Notify;

use crate::memory::SearchRequest;

/// How long a shadow run waits for a moment without live searches before it checks again.
const IDLE_WAIT: Duration = Duration::from_millis(20);
/// Number of such waits after which a shadow run is dropped.
const MAX_IDLE_WAITS: u32 = 250;

/// A query to run on both pipelines.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) query_id: String,
    pub(super) request: SearchRequest,
    pub(super) feature_id: String,
    pub(super) control: Arc<ValidPipeline>,
    pub(super) treatment: Arc<ValidPipeline>,
    pub(super) shown: Arm,
}

/// Counters of the shadow runs of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShadowTally {
    /// Queries that were enqueued for shadow runs.
    pub queued: u64,
    /// Runs that were recorded, including failed ones.
    pub recorded: u64,
    /// Queries dropped because the queue was full or live searches never paused.
    pub dropped: u64,
    /// Runs that could not be recorded.
    pub lost: u64,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<VecDeque<Job>>,
    wake: Notify,
    searching: AtomicUsize,
    queued: AtomicU64,
    recorded: AtomicU64,
    dropped: AtomicU64,
    lost: AtomicU64,
}

/// Guard of a live search in progress.
#[derive(Debug)]
pub(crate) struct SearchInProgress<'a>(&'a Queue);

impl Drop for SearchInProgress<'_> {
    fn drop(&mut self) {
        self.0.searching.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queue {
    /// Registers a live search.
    pub(super) fn searching(&self) -> SearchInProgress<'_> {
        self.searching.fetch_add(1, Ordering::Relaxed);
        SearchInProgress(self)
    }

    /// Enqueues a query, or drops it if the queue is full. Never blocks.
    pub(super) fn push(&self, job: Job, most: usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= most {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(job);
        self.queued.fetch_add(1, Ordering::Relaxed);
        drop(waiting);
        self.wake.notify_one();
    }

    /// Dequeues the next query, if there is one.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }

    /// Waits for the next query and for a moment without live searches. Under constant load queries are
    /// dropped rather than searches slowed down.
    pub(super) async fn next(&self) -> Job {
        loop {
            let Some(job) = self.pop() else {
                self.wake.notified().await;
                continue;
            };
            for _ in 0..MAX_IDLE_WAITS {
                if self.searching.load(Ordering::Relaxed) == 0 {
                    return job;
                }
                tokio::time::sleep(IDLE_WAIT).await;
            }
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn recorded(&self) {
        self.recorded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tally(&self) -> ShadowTally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShadowTally {
            queued: read(&self.queued),
            recorded: read(&self.recorded),
            dropped: read(&self.dropped),
            lost: read(&self.lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str) -> Job {
        Job {
            query_id: id.into(),
            request: SearchRequest::default(),
            feature_id: "f".into(),
            control: Arc::default(),
            treatment: Arc::default(),
            shown: Arm::Control,
        }
    }

    #[test]
    fn the_queue_is_bounded_and_drops_are_counted() {
        let queue = Queue::default();
        for id in ["a", "b", "c", "d"] {
            queue.push(job(id), 2);
        }
        assert_eq!(
            queue.tally(),
            ShadowTally {
                queued: 2,
                dropped: 2,
                ..ShadowTally::default()
            }
        );
        let ids: Vec<String> = std::iter::from_fn(|| queue.pop())
            .map(|job| job.query_id)
            .collect();
        assert_eq!(ids, ["a", "b"]);
    }

    #[tokio::test]
    async fn live_searches_have_priority() {
        let queue = Queue::default();
        queue.push(job("a"), 2);
        let searching = queue.searching();
        let early = tokio::time::timeout(Duration::from_millis(80), queue.next()).await;
        assert!(early.is_err(), "a shadow run started during a live search");
        // The cancelled wait had already dequeued the query; enqueue another one.
        queue.push(job("b"), 2);
        drop(searching);
        let next = tokio::time::timeout(Duration::from_secs(5), queue.next())
            .await
            .unwrap();
        assert_eq!(next.query_id, "b");
    }
}
