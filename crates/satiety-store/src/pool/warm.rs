//! Connections that readers keep between two queries instead of returning them to the pool.
//!
//! The pool asks the database whether a connection still works when it is taken and again when it is returned,
//! so that every query costs three round trips. A kept connection costs one. It is kept only after a query has
//! succeeded, so that one whose query failed or was cancelled goes through the pool's checks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Database, Pool};

/// Time without use after which a connection is tested before it is used.
const MAX_UNTESTED_IDLE: Duration = Duration::from_secs(10);
/// Time after which a connection goes back to the pool, which replaces old ones.
const MAX_KEPT: Duration = Duration::from_mins(10);

/// Connections for readers.
#[derive(Debug)]
pub(crate) struct WarmConnections<DB: Database> {
    pool: Pool<DB>,
    /// Number of connections that may be kept; fewer than the pool has, because others wait for the pool.
    most: usize,
    state: Arc<Mutex<State<DB>>>,
}

impl<DB: Database> Clone for WarmConnections<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            most: self.most,
            state: Arc::clone(&self.state),
        }
    }
}

#[derive(Debug)]
struct State<DB: Database> {
    kept: Vec<Warm<DB>>,
    /// Number of readers that wait for the pool: a connection that becomes free goes there.
    waiting: usize,
    closed: bool,
    /// Time of the last error that a lost connection may have caused: a server that restarts breaks all
    /// connections at once.
    suspected: Option<Instant>,
}

impl<DB: Database> Drop for State<DB> {
    fn drop(&mut self) {
        // A store that is dropped without being closed may be outside of the runtime, which the pool needs to
        // take a connection back.
        for warm in self.kept.drain(..) {
            drop(warm.connection.detach());
        }
    }
}

/// A connection in use or kept.
#[derive(Debug)]
pub(crate) struct Warm<DB: Database> {
    pub(crate) connection: PoolConnection<DB>,
    since: Instant,
    used: Instant,
}

/// Counts a reader that waits for the pool, also if it gives up.
struct Waiting<'w, DB: Database>(&'w WarmConnections<DB>);

impl<DB: Database> Drop for Waiting<'_, DB> {
    fn drop(&mut self) {
        self.0.with(|state| state.waiting -= 1);
    }
}

impl<DB: Database> WarmConnections<DB> {
    pub(crate) fn new(pool: Pool<DB>, most: usize) -> Self {
        let state = State {
            kept: Vec::new(),
            waiting: 0,
            closed: false,
            suspected: None,
        };
        Self {
            pool,
            most,
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// Number of connections that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.with(|state| state.kept.len())
    }

    fn with<T>(&self, change: impl FnOnce(&mut State<DB>) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a kept connection, or one of the pool.
    pub(crate) async fn take(&self) -> Result<Warm<DB>, sqlx::Error> {
        // Looking and registering is one step: a connection that becomes free after it goes to the pool.
        let (kept, is_suspected) = self.with(|state| {
            let kept = state.kept.pop();
            state.waiting += usize::from(kept.is_none());
            let suspected = state.suspected.is_some_and(|at| at.elapsed() < MAX_UNTESTED_IDLE);
            (kept, suspected)
        });
        if let Some(mut warm) = kept {
            if !is_suspected && warm.used.elapsed() < MAX_UNTESTED_IDLE {
                return Ok(warm);
            }
            if Box::pin(warm.connection.ping()).await.is_ok() {
                return Ok(warm);
            }
            // The pool finds out that it is broken.
            drop(warm);
            self.with(|state| state.waiting += 1);
        }
        let waiting = Waiting(self);
        // On the heap, because it is rare and would make the future of every query large.
        let connection = Box::pin(self.pool.acquire()).await?;
        drop(waiting);
        let now = Instant::now();
        Ok(Warm {
            connection,
            since: now,
            used: now,
        })
    }

    /// Keeps a connection after a successful query; returns it to the pool if it is old or a reader waits.
    pub(crate) fn keep(&self, mut warm: Warm<DB>) {
        warm.used = Instant::now();
        let rest = self.with(|state| {
            let wanted = !state.closed && state.waiting == 0 && state.kept.len() < self.most;
            if wanted && warm.since.elapsed() < MAX_KEPT {
                state.kept.push(warm);
                return None;
            }
            Some(warm)
        });
        // Outside the lock: returning it starts a task.
        drop(rest);
    }

    /// Notes a transient error: for a while, kept connections are tested before they are used.
    pub(crate) fn suspect(&self) {
        self.with(|state| state.suspected = Some(Instant::now()));
    }

    /// Returns all kept connections to the pool and closes it.
    pub(crate) async fn close(&self) {
        let kept = self.with(|state| {
            state.closed = true;
            std::mem::take(&mut state.kept)
        });
        drop(kept);
        self.pool.close().await;
    }
}
