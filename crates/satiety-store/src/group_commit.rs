//! Group commit: one writer serves many callers, and everything queued during a commit goes into the next
//! one.
//!
//! A durable commit waits for the disk. Concurrent callers share that wait, and each returns only after the
//! commit with its rows. A single caller pays for one commit, as it would without this.

use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::journal::{Event, insert_events};
use crate::pool::Pool;

/// Maximum rows per transaction, so that a burst does not hold the write lock for seconds.
const MAX_ROWS: usize = 20_000;
/// Maximum number of queued callers; more wait until there is capacity.
const QUEUE: usize = 1024;

type Answer = oneshot::Sender<Result<(), StoreError>>;

/// Handle of the writer task, which ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub(crate) struct GroupCommit {
    queue: mpsc::Sender<(Vec<Event>, Answer)>,
}

impl GroupCommit {
    pub(crate) fn start(pool: Pool) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(write_until_closed(pool, waiting));
        Self { queue }
    }

    /// Returns when the events are durable.
    pub(crate) async fn append(&self, pool: &Pool, events: Vec<Event>) -> Result<(), StoreError> {
        let (answer, outcome) = oneshot::channel();
        let stopped = || StoreError::Unreachable {
            place: pool.place.to_string(),
            detail: "the writer has stopped because the program is shutting down".into(),
        };
        self.queue.send((events, answer)).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }
}

async fn write_until_closed(pool: Pool, mut waiting: mpsc::Receiver<(Vec<Event>, Answer)>) {
    while let Some((mut events, answer)) = waiting.recv().await {
        let mut answers = vec![answer];
        while events.len() < MAX_ROWS
            && let Ok((more, answer)) = waiting.try_recv()
        {
            events.extend(more);
            answers.push(answer);
        }
        let outcome = insert_events(&pool, &events).await;
        if outcome.is_ok() {
            pool.batches.report("journal", events.len());
        }
        for answer in answers {
            // The caller may have stopped waiting; that does not affect its rows.
            let _ = answer.send(outcome.clone());
        }
    }
}
