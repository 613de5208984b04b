//! What waits to be run in the shadow: a bounded line that nobody ever waits to join, and the rule that the asker comes
//! first.

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

/// How long a shadow run waits for a moment without searches before it looks whether it is still wanted.
const PAUSE: Duration = Duration::from_millis(20);
/// So many pauses, and a shadow run gives way to the next.
const PAUSES: u32 = 250;

/// A question to be asked of both pipelines.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) query_id: String,
    pub(super) request: SearchRequest,
    pub(super) feature_id: String,
    pub(super) control: Arc<ValidPipeline>,
    pub(super) treatment: Arc<ValidPipeline>,
    pub(super) shown: Arm,
}

/// How shadow runs of this process went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShadowTally {
    /// Questions that were put into the line.
    pub queued: u64,
    /// Runs that were recorded, failed ones included.
    pub recorded: u64,
    /// Questions for which there was no room, or no quiet moment.
    pub dropped: u64,
    /// Runs that could not be recorded.
    pub lost: u64,
}

/// The line.
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

/// A search that is under way, as long as this lives.
#[derive(Debug)]
pub(crate) struct SearchInProgress<'a>(&'a Queue);

impl Drop for SearchInProgress<'_> {
    fn drop(&mut self) {
        self.0.searching.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queue {
    /// Notes that somebody waits for an answer.
    pub(super) fn searching(&self) -> SearchInProgress<'_> {
        self.searching.fetch_add(1, Ordering::Relaxed);
        SearchInProgress(self)
    }

    /// Puts a question into the line, or drops it when the line is full. Never waits.
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

    /// The next question, if one waits.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }

    /// The next question, as soon as there is one and nobody waits for an answer. Where somebody always does, questions
    /// are dropped rather than searches slowed.
    pub(super) async fn next(&self) -> Job {
        loop {
            let Some(job) = self.pop() else {
                self.wake.notified().await;
                continue;
            };
            for _ in 0..PAUSES {
                if self.searching.load(Ordering::Relaxed) == 0 {
                    return job;
                }
                tokio::time::sleep(PAUSE).await;
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
    fn the_line_is_bounded_and_what_has_no_room_is_counted() {
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
    async fn the_asker_comes_first() {
        let queue = Queue::default();
        queue.push(job("a"), 2);
        let searching = queue.searching();
        let early = tokio::time::timeout(Duration::from_millis(80), queue.next()).await;
        assert!(early.is_err(), "a shadow run began while somebody waited");
        // The cut-off wait had taken the question out of the line; it is asked again here.
        queue.push(job("b"), 2);
        drop(searching);
        let next = tokio::time::timeout(Duration::from_secs(5), queue.next())
            .await
            .unwrap();
        assert_eq!(next.query_id, "b");
    }
}
