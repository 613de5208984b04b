//! Asynchronous query log: searches enqueue a row; one writer batches the commits.
//!
//! The queue is bounded: when the writer falls behind, searches wait for capacity rather than lose rows.
//! Sessions can already read queued rows, and [`QueryLog::flush`] writes them at once; everything that reads
//! the tables calls it first. A killed process loses at most the rows of the last [`LINGER`] and the commit
//! in progress.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::evaluation::{EvalQueryRow, QUERY_COLUMNS, query_values};
use crate::memory::{FeedbackRow, feedback_values, insert_feedback};
use crate::partitions::{DAY, time_of_id};
use crate::pool::{Pool, in_transaction};
use crate::sql::{columns, sql};
use crate::{Store, StoreError};

/// Maximum number of queued searches; more wait until there is capacity.
const MAX_QUEUED: usize = 4096;
/// Maximum searches per transaction, so that other writers get their turn.
const BATCH: usize = 500;
/// How long the writer collects searches, unless a reader flushes.
const LINGER: Duration = Duration::from_millis(20);

/// A search to be logged.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedQuery {
    pub row: EvalQueryRow,
    /// Time in microseconds since the Unix epoch.
    pub at: i64,
    /// Feedback events on earlier results.
    pub events: Vec<FeedbackRow>,
}

/// State of the query log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogState {
    /// Number of searches written by this process.
    pub written: u64,
    /// Number of searches in the queue.
    pub waiting: u64,
    /// Number of searches that could not be written.
    pub lost: u64,
    /// Error of the last failed write, if any.
    pub problem: Option<String>,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<VecDeque<Arc<LoggedQuery>>>,
    /// Signals a new row or a flush.
    wake: Notify,
    /// Number of enqueued searches, and of those that the writer has processed.
    handed: AtomicU64,
    done: watch::Sender<u64>,
    flush_requested: AtomicBool,
    closed: AtomicBool,
    lost: AtomicU64,
    problem: Mutex<Option<String>>,
}

/// Handle of the writer task, which ends when the last handle is dropped and the queue is empty.
#[derive(Debug)]
pub(crate) struct LogWriter(Arc<Shared>);

impl LogWriter {
    pub(crate) fn start(pool: Pool) -> Arc<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            wake: Notify::new(),
            handed: AtomicU64::new(0),
            done: watch::Sender::new(0),
            flush_requested: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            problem: Mutex::default(),
        });
        tokio::spawn(write_until_closed(pool, Arc::clone(&shared)));
        Arc::new(Self(shared))
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.wake.notify_one();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<LoggedQuery>>> {
        // No code under this lock can panic halfway.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the writer has processed the first `target` searches.
    async fn until(&self, target: u64) {
        let mut done = self.done.subscribe();
        // The sender lives as long as `self`.
        let _ = done.wait_for(|count| *count >= target).await;
    }
}

/// The asynchronous query log: [`Store::query_log`].
#[derive(Debug, Clone, Copy)]
pub struct QueryLog<'s>(pub(crate) &'s Store);

impl QueryLog<'_> {
    /// Enqueues a search. Returns immediately unless the queue is full.
    pub async fn append(self, query: LoggedQuery) {
        let shared = &self.0.log.0;
        let query = Arc::new(query);
        loop {
            let full = {
                let mut waiting = shared.waiting();
                if waiting.len() < MAX_QUEUED {
                    waiting.push_back(Arc::clone(&query));
                    shared.handed.fetch_add(1, Ordering::SeqCst);
                    None
                } else {
                    Some(shared.handed.load(Ordering::SeqCst) - waiting.len() as u64)
                }
            };
            shared.wake.notify_one();
            match full {
                None => return,
                Some(done) => {
                    shared.flush_requested.store(true, Ordering::SeqCst);
                    shared.until(done + 1).await;
                }
            }
        }
    }

    /// Returns when everything logged before is written, or has failed permanently.
    pub async fn flush(self) {
        let shared = &self.0.log.0;
        let target = shared.handed.load(Ordering::SeqCst);
        if *shared.done.borrow() >= target {
            return;
        }
        shared.flush_requested.store(true, Ordering::SeqCst);
        shared.wake.notify_one();
        shared.until(target).await;
    }

    /// Returns the state of the log.
    pub fn state(self) -> LogState {
        let shared = &self.0.log.0;
        let lost = shared.lost.load(Ordering::SeqCst);
        let problem = shared.problem.lock().unwrap_or_else(PoisonError::into_inner);
        LogState {
            written: shared.done.borrow().saturating_sub(lost),
            waiting: shared.waiting().len() as u64,
            lost,
            problem: problem.clone(),
        }
    }

    /// Returns the queries of a session with their results, newest first, including those not yet written.
    pub async fn queries_of_session(
        self,
        session: &str,
        limit: u32,
    ) -> Result<Vec<SessionQueryRow>, StoreError> {
        let waiting = self.waiting_queries(session);
        let written = self.written_queries(session, limit).await?;
        Ok(newest_queries(written, &waiting, limit as usize))
    }

    /// A session whose id has a time has no queries before it: partitions before that time are not read.
    async fn written_queries(self, session: &str, limit: u32) -> Result<Vec<SessionQueryRow>, StoreError> {
        let select = sql!(
            "SELECT created_at, query_id, query, intent, result_ids, detail FROM eval_queries WHERE session_id = $1
             AND (partition_at = 0 OR partition_at >= $3) ORDER BY created_at DESC, query_id DESC LIMIT $2";
            session, limit, time_of_id(session).saturating_sub(DAY)
        );
        let rows = self.0.pool.rows(select).await?;
        let written = rows.iter().map(|row| {
            let id: String = row.get("query_id")?;
            let result_ids = row.list("result_ids", format_args!("query {id}"))?;
            let detail = row.json("detail", format_args!("query {id}"))?;
            Ok(columns!(row => SessionQueryRow { query, intent, created_at; query_id: id, result_ids, detail }))
        });
        written.collect()
    }

    /// Returns the queued searches of a session, oldest first.
    pub(crate) fn waiting_queries(self, session: &str) -> Vec<Arc<LoggedQuery>> {
        let waiting = self.0.log.0.waiting();
        let own = waiting
            .iter()
            .filter(|query| query.row.session_id.as_deref() == Some(session));
        own.cloned().collect()
    }
}

/// A logged query of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionQueryRow {
    pub query_id: String,
    pub query: String,
    /// Classified intent of the query.
    pub intent: Option<String>,
    /// Ids of the results, best first.
    pub result_ids: Vec<String>,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Further data.
    pub detail: Value,
}

/// Merges queued and written queries, newest first. A queued one may have been written since the queue was
/// read, and may be newer or older than the written ones.
fn newest_queries(
    written: Vec<SessionQueryRow>,
    waiting: &[Arc<LoggedQuery>],
    limit: usize,
) -> Vec<SessionQueryRow> {
    let known: HashSet<String> = written.iter().map(|row| row.query_id.clone()).collect();
    let unknown = waiting
        .iter()
        .filter(|query| !known.contains(&query.row.query_id));
    let unknown = unknown.map(|query| SessionQueryRow {
        query_id: query.row.query_id.clone(),
        query: query.row.query.clone(),
        intent: query.row.intent.clone(),
        result_ids: query.row.result_ids.clone(),
        created_at: query.at,
        detail: query.row.detail.clone(),
    });
    let mut rows: Vec<_> = written.into_iter().chain(unknown).collect();
    rows.sort_by(|a, b| (b.created_at, &b.query_id).cmp(&(a.created_at, &a.query_id)));
    rows.truncate(limit);
    rows
}

async fn write_until_closed(pool: Pool, shared: Arc<Shared>) {
    loop {
        let empty = shared.waiting().is_empty();
        if empty {
            if shared.closed.load(Ordering::SeqCst) {
                return;
            }
            shared.flush_requested.store(false, Ordering::SeqCst);
            // A notification since `empty` was read is not lost.
            shared.wake.notified().await;
            continue;
        }
        let flush_requested =
            || shared.flush_requested.load(Ordering::SeqCst) || shared.closed.load(Ordering::SeqCst);
        let gathering = tokio::time::Instant::now() + LINGER;
        while !flush_requested() && shared.waiting().len() < BATCH {
            if tokio::time::timeout_at(gathering, shared.wake.notified())
                .await
                .is_err()
            {
                break;
            }
        }
        let batch: Vec<Arc<LoggedQuery>> = shared.waiting().iter().take(BATCH).cloned().collect();
        if let Err(error) = insert(&pool, &batch).await {
            tracing::warn!(%error, queries = batch.len(), "cannot write to the query log");
            shared.lost.fetch_add(batch.len() as u64, Ordering::SeqCst);
            *shared.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        } else {
            pool.batches.report("query_log", batch.len());
        }
        shared.waiting().drain(..batch.len());
        shared.done.send_modify(|done| *done += batch.len() as u64);
    }
}

/// Writes searches with their events in one transaction. Skips existing ids: they were sent again after a
/// connection was lost during a commit.
async fn insert(pool: &Pool, batch: &[Arc<LoggedQuery>]) -> Result<(), StoreError> {
    let queries: Vec<_> = batch
        .iter()
        .map(|query| query_values(&query.row, query.at))
        .collect();
    let events: Vec<_> = batch
        .iter()
        .flat_map(|query| &query.events)
        .map(feedback_values)
        .collect();
    let mut attempts = 0;
    in_transaction!(pool, |connection| {
        attempts += 1;
        connection
            .append("eval_queries", QUERY_COLUMNS, &queries, attempts)
            .await?;
        insert_feedback(connection, &events).await?;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffered_and_stored_queries_merge_in_order() {
        let id = |number: i64| format!("eq-{number}");
        let waiting: Vec<_> = (0..4)
            .map(|number| {
                let row = EvalQueryRow {
                    query_id: id(number),
                    query: String::new(),
                    intent: None,
                    mode: None,
                    session_id: None,
                    tool_name: String::new(),
                    result_ids: Vec::new(),
                    channel_contributions: Value::Null,
                    total_latency_ms: None,
                    fusion_weights: None,
                    quality_proxy_score: None,
                    trace_id: None,
                    is_eval_corpus: false,
                    eval_category: None,
                    detail: Value::Null,
                };
                Arc::new(LoggedQuery {
                    row,
                    at: number,
                    events: Vec::new(),
                })
            })
            .collect();
        let read = |numbers: &[i64]| {
            numbers
                .iter()
                .map(|number| SessionQueryRow {
                    query_id: id(*number),
                    query: String::new(),
                    intent: None,
                    result_ids: Vec::new(),
                    created_at: *number,
                    detail: Value::Null,
                })
                .collect()
        };
        // All had been written when the two newest were read; all but the newest; none.
        for written in [&[3, 2][..], &[2, 1], &[]] {
            let found = newest_queries(read(written), &waiting, 2);
            let found: Vec<_> = found.into_iter().map(|row| row.query_id).collect();
            assert_eq!(found, [id(3), id(2)], "{written:?}");
        }
    }
}
