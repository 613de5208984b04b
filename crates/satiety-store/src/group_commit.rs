//! One writer for many callers: everything that is waiting when a commit ends goes into the next one.
//!
//! A durable commit costs a wait for the disk. Callers that write at the same time share that wait, and each is
//! answered only after the commit that holds its rows. A caller alone pays one commit, as it would without this.

use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::journal::{Event, insert_events};
use crate::pool::Pool;

/// Rows in one transaction at most, so that a flood does not hold the write lock for seconds.
const MAX_ROWS: usize = 20_000;
/// Callers that may wait; more are held back until there is room.
const QUEUE: usize = 1024;

type Answer = oneshot::Sender<Result<(), StoreError>>;

/// The way to the writer task. The task ends when the last of these is dropped.
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
        for answer in answers {
            // A caller that stopped waiting has lost nothing: its rows are written or not, like anyone's.
            let _ = answer.send(outcome.clone());
        }
    }
}
