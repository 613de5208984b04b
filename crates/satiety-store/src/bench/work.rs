//! Cases of a run that wait for whoever takes them: the run's plan, a row for each case that is left, and leases.
//!
//! A case is taken for a while and the taker says now and then that it lives. One that stops saying so loses the case to
//! the next. `holder` and `takes` name one attempt at a case, and a result is kept, in one transaction with the end of its
//! row, only while its attempt is the one in force: so there is one result a case, however many tried.
//!
//! Leases are told by the engine's clock and by no machine's own.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Bench;
use super::runs::{BenchResultRow, BenchRunRow, ResultKey, insert_results, insert_run, result_key};
use crate::pool::{Pool, in_transaction};
use crate::sql::{BATCH, Sql, columns, first_column, sql, values};
use crate::{StoreError, now_micros};

/// What workers must know of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    /// The run.
    pub run_id: String,
    /// How to run it.
    pub plan: Value,
    /// When it was put here, in microseconds.
    pub enqueued_at: i64,
    /// When nothing was left to do for it.
    pub closed_at: Option<i64>,
}

/// A run that is not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    /// Its id.
    pub run_id: String,
    /// Whether a case of it is left, taken or not.
    pub left: bool,
    /// Whether a case of it can be taken now.
    pub ready: bool,
}

/// A case that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its place in the run.
    pub position: i64,
    /// Which result it will be.
    pub key: ResultKey,
    /// How often it was taken, with this time.
    pub takes: i64,
}

/// Who takes cases.
#[derive(Debug, Clone, Copy)]
pub struct LeaseHolder<'a> {
    /// What no other has: new with each start.
    pub id: &'a str,
    /// What people call it.
    pub name: &'a str,
    /// For how long it holds a case without a word.
    pub lease: Duration,
}

/// A result, and the attempt it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredOutcome {
    /// The place of the case.
    pub position: i64,
    /// Which attempt.
    pub takes: i64,
    /// The result.
    pub row: BenchResultRow,
}

/// What became of results that were handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOutcome {
    /// The places of those that were kept; the others belong to somebody else by now.
    pub kept: Vec<i64>,
    /// Whether the run has cases left.
    pub left: bool,
}

/// How much waits for workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkDepth {
    /// Cases that nobody has.
    pub waiting: i64,
    /// Cases that somebody has.
    pub taken: i64,
}

impl Bench<'_> {
    /// Begins a run with its plan and its cases, in one transaction; opens it again where it was closed before it was
    /// complete. Says whether it did: a run that is open already stays as it is.
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

    /// The plan of a run that is spread over workers.
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

    /// Runs that are not closed, oldest first.
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

    /// Whether a case of a run is left, and whether somebody has one.
    pub async fn work_left(self, run_id: &str) -> Result<WorkDepth, StoreError> {
        self.depth("WHERE run_id = $1", run_id).await
    }

    /// How much waits for workers, over all runs.
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

    /// Takes cases of a run that nobody has, in the run's order, those that were lost before behind all others. Two who take
    /// at once never get the same, and neither waits for the other.
    pub async fn take_work(
        self,
        run_id: &str,
        holder: &LeaseHolder<'_>,
        most: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        // MATERIALIZED: once, or the engine may look again for each row and take more than was asked for.
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

    /// Says that whoever holds these cases lives; says how many it still holds.
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

    /// Keeps the results of a run whose cases this one still holds, and takes these cases off the list, in one transaction.
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

    /// Gives back everything that this one holds, as if it had not been taken; says how many.
    pub async fn release_work(self, holder: &str) -> Result<u64, StoreError> {
        let update = sql!(
            "UPDATE bench_work SET holder = NULL, worker = NULL, lease_until = NULL, takes = takes - 1
             WHERE holder = $1";
            holder
        );
        self.0.pool.execute(update).await
    }

    /// Ends a run that was spread with its figures, unless somebody has.
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

    /// Nothing is left to do for this run; what was not taken is dropped. Says how many cases that were, or nothing where
    /// the run was closed already.
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

/// Which rows of `bench_work w` nobody has: never taken, given back, or held by one who fell silent.
fn free(pool: &Pool) -> String {
    format!("(w.lease_until IS NULL OR w.lease_until < {})", pool.clock())
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
