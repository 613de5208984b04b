//! Queue of benchmark cases for workers: the run's plan, a row for each remaining case, and leases.
//!
//! A worker leases a case and renews the lease with heartbeats. When they stop, the lease expires and the
//! next worker takes the case. `holder` and `takes` identify one attempt; a result is stored, in one
//! transaction with the removal of its row, only while its attempt holds the lease: so each case has one
//! result, however many attempts there were.
//!
//! Leases use the clock of the database engine, never that of a worker machine.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Bench;
use super::runs::{BenchResultRow, BenchRunRow, ResultKey, insert_results, insert_run, result_key};
use crate::pool::{Pool, in_transaction};
use crate::sql::{BATCH, Sql, columns, first_column, sql, values};
use crate::{StoreError, now_micros};

/// Plan of a run for its workers.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    pub run_id: String,
    /// Instructions for the workers.
    pub plan: Value,
    /// Time in microseconds since the Unix epoch.
    pub enqueued_at: i64,
    /// Time when no work was left, in microseconds since the Unix epoch.
    pub closed_at: Option<i64>,
}

/// A run that is not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    pub run_id: String,
    /// Whether cases remain, leased or not.
    pub left: bool,
    /// Whether a case can be leased now.
    pub ready: bool,
}

/// A leased case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Position of the case in the run.
    pub position: i64,
    pub key: ResultKey,
    /// Number of attempts, including this one.
    pub takes: i64,
}

/// Holder of leases.
#[derive(Debug, Clone, Copy)]
pub struct LeaseHolder<'a> {
    /// Unique id; new for each start of a worker.
    pub id: &'a str,
    /// Display name.
    pub name: &'a str,
    /// Duration of a lease without a heartbeat.
    pub lease: Duration,
}

/// A result and the attempt it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredOutcome {
    pub position: i64,
    /// Number of the attempt.
    pub takes: i64,
    pub row: BenchResultRow,
}

/// Outcome of submitting results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOutcome {
    /// Positions of the stored results; the others have been leased by another worker meanwhile.
    pub kept: Vec<i64>,
    /// Whether the run has remaining cases.
    pub left: bool,
}

/// Size of the work queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkDepth {
    /// Number of cases without a lease.
    pub waiting: i64,
    /// Number of leased cases.
    pub taken: i64,
}

impl Bench<'_> {
    /// Starts a run with its plan and its cases, in one transaction; reopens a run that was closed before it
    /// was complete. Returns false if the run is already open, which is then unchanged.
    pub async fn enqueue_run(
        self,
        run: &BenchRunRow,
        plan: &Value,
        cases: &[ResultKey],
    ) -> Result<bool, StoreError> {
        let plan = plan.to_string();
        let now = now_micros();
        let run_id = &run.run_id;
        let cases: Vec<_> = (0_i64..)
            .zip(cases)
            .map(|(position, key)| {
                values! {
                    run_id, position, &key.case_id, &key.variant, key.repeat, 0_i64
                }
            })
            .collect();
        in_transaction!(&self.0.pool, |connection| {
            connection.execute(insert_run(run)).await?;
            let update = sql!(
                "UPDATE bench_plans SET plan = $2, enqueued_at = $3, closed_at = NULL
                 WHERE run_id = $1 AND closed_at IS NOT NULL
                 AND run_id IN (SELECT run_id FROM bench_runs WHERE run_id = $1 AND completed_at IS NULL)";
                run_id, &plan, now
            );
            let reopened = connection.execute(update).await?;
            let insert = sql!(
                "INSERT INTO bench_plans (run_id, plan, enqueued_at) VALUES ($1, $2, $3)
                 ON CONFLICT (run_id) DO NOTHING";
                run_id, &plan, now
            );
            let begun = connection.execute(insert).await?;
            let ours = reopened + begun > 0;
            if ours {
                let head = "INSERT INTO bench_work (run_id, position, case_id, variant, repeat, takes) ";
                connection.insert(head, &cases, "").await?;
            }
            ours
        })
    }

    /// Returns the plan of a distributed run.
    pub async fn plan(self, run_id: &str) -> Result<Option<PlanRow>, StoreError> {
        let select =
            sql!("SELECT run_id, plan, enqueued_at, closed_at FROM bench_plans WHERE run_id = $1"; run_id);
        let row = self.0.pool.row(select).await?;
        row.map(|row| {
            let plan = row.json("plan", format_args!("the plan of run {run_id}"))?;
            Ok(columns!(row => PlanRow { run_id, enqueued_at, closed_at; plan }))
        })
        .transpose()
    }

    /// Lists runs that are not closed, oldest first.
    pub async fn open_runs(self) -> Result<Vec<OpenRun>, StoreError> {
        let select = format!(
            "SELECT p.run_id,
                 CAST(CASE WHEN EXISTS (SELECT 1 FROM bench_work w WHERE w.run_id = p.run_id)
                     THEN 1 ELSE 0 END AS BIGINT),
                 CAST(CASE WHEN EXISTS (SELECT 1 FROM bench_work w WHERE w.run_id = p.run_id AND {free})
                     THEN 1 ELSE 0 END AS BIGINT)
             FROM bench_plans p WHERE p.closed_at IS NULL ORDER BY p.run_id",
            free = free(&self.0.pool)
        );
        let rows = self.0.pool.rows(sql!(select)).await?;
        let open = rows.iter().map(|row| {
            Ok(OpenRun {
                run_id: row.get(0)?,
                left: row.get::<i64>(1)? > 0,
                ready: row.get::<i64>(2)? > 0,
            })
        });
        open.collect()
    }

    /// Counts the remaining cases of a run, with and without a lease.
    pub async fn work_left(self, run_id: &str) -> Result<WorkDepth, StoreError> {
        self.depth("WHERE run_id = $1", run_id).await
    }

    /// Counts the remaining cases of all runs.
    pub async fn work_depth(self) -> Result<WorkDepth, StoreError> {
        self.depth("WHERE $1 = ''", "").await
    }

    async fn depth(self, which: &str, run_id: &str) -> Result<WorkDepth, StoreError> {
        let select = format!(
            "SELECT CAST(COALESCE(SUM(CASE WHEN {free} THEN 1 ELSE 0 END), 0) AS BIGINT), COUNT(*)
             FROM bench_work w {which}",
            free = free(&self.0.pool)
        );
        let row = self.0.pool.one(sql!(select; run_id)).await?;
        let (waiting, all): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(WorkDepth {
            waiting,
            taken: all - waiting,
        })
    }

    /// Leases cases of a run in order; cases with an expired lease come last. Concurrent calls never get the
    /// same case and do not block each other.
    pub async fn take_work(
        self,
        run_id: &str,
        holder: &LeaseHolder<'_>,
        most: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        // MATERIALIZED: otherwise the engine may evaluate the query again for each row and take more than the
        // limit.
        let update = format!(
            "WITH next AS MATERIALIZED (
                 SELECT w.position AS place FROM bench_work w WHERE w.run_id = $1 AND {free}
                 ORDER BY w.takes, w.position LIMIT $2 {lock})
             UPDATE bench_work SET holder = $3, worker = $4, takes = takes + 1, lease_until = {now} + $5
             FROM next WHERE bench_work.run_id = $1 AND bench_work.position = next.place
             RETURNING position, case_id, variant, repeat, takes",
            free = free(&self.0.pool),
            lock = self.0.pool.skip_locked(),
            now = self.0.pool.clock(),
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = in_transaction!(&self.0.pool, |connection| {
            let statement = sql!(update.clone(); run_id, most, holder.id, holder.name, micros(holder.lease));
            connection.rows(statement).await?
        })?;
        let take = rows
            .iter()
            .map(|row| Ok(columns!(row => Lease { position, takes; key: result_key(row)? })));
        let mut taken = take.collect::<Result<Vec<Lease>, StoreError>>()?;
        taken.sort_by_key(|taken| taken.position);
        Ok(taken)
    }

    /// Extends the leases of these cases; returns how many are still held.
    pub async fn extend_work(
        self,
        holder: &LeaseHolder<'_>,
        held: &[(String, i64)],
    ) -> Result<u64, StoreError> {
        let clock = self.0.pool.clock();
        in_transaction!(&self.0.pool, |connection| {
            let mut extended = 0;
            for batch in held.chunks(BATCH) {
                let places = batch
                    .iter()
                    .map(|(run_id, position)| values! { run_id, *position });
                let update = Sql::build(&format!("UPDATE bench_work SET lease_until = {clock} + "))
                    .push_bind(micros(holder.lease))
                    .push(" WHERE holder = ")
                    .push_bind(holder.id)
                    .push(" AND (run_id, position) IN (")
                    .push_values(places)
                    .push(")");
                extended += connection.execute(update).await?;
            }
            extended
        })
    }

    /// Stores results whose lease is still held and removes their cases from the queue, in one transaction.
    pub async fn settle_work(
        self,
        run_id: &str,
        holder: &str,
        results: &[StoredOutcome],
    ) -> Result<StoreOutcome, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let mut kept: Vec<i64> = Vec::with_capacity(results.len());
            for batch in results.chunks(BATCH) {
                let attempts = batch
                    .iter()
                    .map(|settled| values! { settled.position, settled.takes });
                let delete = Sql::build("DELETE FROM bench_work WHERE run_id = ")
                    .push_bind(run_id)
                    .push(" AND holder = ")
                    .push_bind(holder)
                    .push(" AND (position, takes) IN (")
                    .push_values(attempts)
                    .push(") RETURNING position");
                kept.extend(first_column::<i64>(&connection.rows(delete).await?)?);
            }
            kept.sort_unstable();
            let rows: Vec<&BenchResultRow> = results
                .iter()
                .filter(|settled| kept.binary_search(&settled.position).is_ok())
                .map(|settled| &settled.row)
                .collect();
            insert_results(connection, run_id, &rows).await?;
            let select = sql!("SELECT position FROM bench_work WHERE run_id = $1 LIMIT 1"; run_id);
            let left = connection.row(select).await?;
            StoreOutcome {
                kept,
                left: left.is_some(),
            }
        })
    }

    /// Releases all leases of a holder and undoes their attempts; returns how many.
    pub async fn release_work(self, holder: &str) -> Result<u64, StoreError> {
        let update = sql!(
            "UPDATE bench_work SET holder = NULL, worker = NULL, lease_until = NULL, takes = takes - 1
             WHERE holder = $1";
            holder
        );
        self.0.pool.execute(update).await
    }

    /// Completes a distributed run with its metrics, unless another process has.
    pub async fn complete_distributed_run(
        self,
        run_id: &str,
        summary: &(impl Serialize + Sync),
        pass_rate: Option<f64>,
    ) -> Result<(), StoreError> {
        let summary = self.summary_text(run_id, summary)?;
        let now = now_micros();
        let update = sql!(
            "UPDATE bench_runs SET completed_at = $1, summary = $2, pass_rate = $3
             WHERE run_id = $4 AND completed_at IS NULL";
            now, &summary, pass_rate, run_id
        );
        self.0.pool.execute(update).await?;
        Ok(())
    }

    /// Closes a run and drops its remaining cases. Returns the number of dropped cases, or `None` if the run
    /// was already closed.
    pub async fn close_plan(self, run_id: &str) -> Result<Option<u64>, StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            let update = sql!(
                "UPDATE bench_plans SET closed_at = $2 WHERE run_id = $1 AND closed_at IS NULL";
                run_id, now
            );
            let closed = connection.execute(update).await?;
            let dropped = connection
                .execute(sql!("DELETE FROM bench_work WHERE run_id = $1"; run_id))
                .await?;
            (closed > 0).then_some(dropped)
        })
    }
}

/// Condition for rows of `bench_work w` without a valid lease: never leased, released, or expired.
fn free(pool: &Pool) -> String {
    format!("(w.lease_until IS NULL OR w.lease_until < {})", pool.clock())
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
