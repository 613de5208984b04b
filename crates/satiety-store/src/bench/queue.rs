//! State of the work queue: open runs, waiting and leased cases, and leases that expired.
//!
//! Every query reads a row per run and the leased cases, never all waiting ones: their number is kept with
//! the plan of each run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Bench;
use super::work::change_waiting;
use crate::StoreError;
use crate::pool::in_transaction;
use crate::sql::{Row, columns, sql};

/// Maximum number of expired leases per transaction.
const EXPIRED_BATCH: i64 = 10_000;

/// A run that is not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    pub run_id: String,
    /// Whether cases remain, leased or not.
    pub left: bool,
    /// Whether a case can be leased now.
    pub ready: bool,
}

/// Size of the work queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkDepth {
    /// Number of cases without a lease.
    pub waiting: i64,
    /// Number of leased cases.
    pub taken: i64,
}

/// A queued run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRunRow {
    pub run_id: String,
    pub suite_id: String,
    /// Weight of its priority.
    pub weight: i64,
    /// Number of cases without a lease.
    pub waiting: i64,
    /// Number of leased cases.
    pub taken: i64,
    /// Time since it was queued, in microseconds.
    pub age: i64,
}

impl Bench<'_> {
    /// Lists runs that are not closed, oldest first. Cases with an expired lease wait again.
    pub async fn open_runs(self) -> Result<Vec<OpenRun>, StoreError> {
        let (open, expired) = self.look().await?;
        if !expired || self.expire_leases().await? == 0 {
            return Ok(open);
        }
        Ok(self.look().await?.0)
    }

    /// Reads the open runs, and whether a lease has expired.
    async fn look(self) -> Result<(Vec<OpenRun>, bool), StoreError> {
        let flag = |from: &str| {
            format!(
                "CAST(CASE WHEN EXISTS (SELECT 1 FROM bench_work w WHERE {from}) THEN 1 ELSE 0 END AS BIGINT)"
            )
        };
        let select = format!(
            "SELECT p.run_id, {}, {}, {} FROM bench_plans p WHERE p.closed_at IS NULL ORDER BY p.run_id",
            flag("w.run_id = p.run_id"),
            flag("w.run_id = p.run_id AND w.lease_until IS NULL"),
            flag(&format!("w.lease_until < {}", self.0.pool.clock())),
        );
        let rows = self.0.pool.rows(sql!(select)).await?;
        let mut expired = false;
        let mut open = Vec::with_capacity(rows.len());
        for row in &rows {
            let is_set = |column: usize| Ok::<_, StoreError>(row.get::<i64>(column)? > 0);
            expired |= is_set(3)?;
            open.push(OpenRun {
                run_id: row.get(0)?,
                left: is_set(1)?,
                ready: is_set(2)?,
            });
        }
        Ok((open, expired))
    }

    /// Ends leases that expired. The case keeps its holder until another worker takes it: a late result is
    /// stored if no other worker has begun. Returns the number of cases that wait again.
    pub(super) async fn expire_leases(self) -> Result<usize, StoreError> {
        let pool = &self.0.pool;
        let update = format!(
            "WITH expired AS MATERIALIZED (
                 SELECT w.run_id AS run, w.position AS place FROM bench_work w WHERE w.lease_until < {}
                 ORDER BY w.lease_until LIMIT $1 {})
             UPDATE bench_work SET lease_until = NULL FROM expired
             WHERE bench_work.run_id = expired.run AND bench_work.position = expired.place RETURNING run_id",
            pool.clock(),
            pool.skip_locked()
        );
        in_transaction!(pool, |connection| {
            let rows = connection.rows(sql!(update.clone(); EXPIRED_BATCH)).await?;
            change_waiting(connection, &rows, 1).await?;
            rows.len()
        })
    }

    /// Counts the remaining cases of a run, with and without a lease.
    pub async fn work_left(self, run_id: &str) -> Result<WorkDepth, StoreError> {
        self.depth("AND p.run_id = $1", "AND w.run_id = $1", run_id).await
    }

    /// Counts the remaining cases of all runs.
    pub async fn work_depth(self) -> Result<WorkDepth, StoreError> {
        self.depth("AND $1 = ''", "", "").await
    }

    async fn depth(self, plans: &str, cases: &str, run_id: &str) -> Result<WorkDepth, StoreError> {
        let clock = self.0.pool.clock();
        // Cases with an expired lease wait, although no worker has noticed yet. Each lease is compared with the clock
        // once: PostgreSQL's runs on during a statement, and a lease that ends meanwhile must be counted once.
        let select = format!(
            "SELECT (SELECT CAST(COALESCE(SUM(p.waiting), 0) AS BIGINT) FROM bench_plans p
                     WHERE p.closed_at IS NULL {plans}),
                 CAST(COALESCE(SUM(CASE WHEN w.lease_until < {clock} THEN 1 ELSE 0 END), 0) AS BIGINT), COUNT(*)
             FROM bench_work w WHERE w.lease_until IS NOT NULL {cases}"
        );
        let row = self.0.pool.one(sql!(select; run_id)).await?;
        let (waiting, expired, leased): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(WorkDepth {
            waiting: waiting + expired,
            taken: leased - expired,
        })
    }

    /// Lists the queued runs with remaining cases, the one that is served next first.
    pub async fn queued_runs(self, limit: u32) -> Result<Vec<QueuedRunRow>, StoreError> {
        let clock = self.0.pool.clock();
        let select = format!(
            "SELECT p.run_id, r.suite_id, p.weight,
                 p.waiting + COALESCE(l.expired, 0) AS waiting,
                 COALESCE(l.leased, 0) - COALESCE(l.expired, 0) AS taken,
                 {clock} - p.enqueued_at AS age
             FROM bench_plans p JOIN bench_runs r ON r.run_id = p.run_id
             LEFT JOIN (SELECT w.run_id,
                     CAST(SUM(CASE WHEN w.lease_until < {clock} THEN 1 ELSE 0 END) AS BIGINT) AS expired,
                     COUNT(*) AS leased
                 FROM bench_work w WHERE w.lease_until IS NOT NULL GROUP BY w.run_id) l ON l.run_id = p.run_id
             WHERE p.closed_at IS NULL AND (p.waiting > 0 OR l.run_id IS NOT NULL)
             ORDER BY p.turn, p.run_id LIMIT $1"
        );
        let rows = self.0.pool.rows(sql!(select; limit)).await?;
        let queued =
            |row: &Row| Ok(columns!(row => QueuedRunRow { run_id, suite_id, weight, waiting, taken, age }));
        rows.iter().map(queued).collect()
    }

    /// Returns the time in microseconds since the oldest run with a waiting case was queued.
    pub async fn oldest_waiting(self) -> Result<Option<i64>, StoreError> {
        let clock = self.0.pool.clock();
        let select = format!(
            "SELECT {clock} - MIN(p.enqueued_at) FROM bench_plans p WHERE p.closed_at IS NULL AND (p.waiting > 0
                 OR p.run_id IN (SELECT w.run_id FROM bench_work w WHERE w.lease_until < {clock}))"
        );
        self.0.pool.one(sql!(select)).await?.get(0)
    }
}
