//! Queue of benchmark cases for workers: the run's plan, a row for each remaining case, and leases.
//!
//! A worker leases a case and renews the lease with heartbeats. When they stop, the lease expires and the
//! next worker takes the case. Runs take turns by their priority ([`satiety::bench::queue`]). `holder` and
//! `takes` identify one attempt; a result is stored, in one transaction with the removal of its row, only while
//! its attempt holds the lease: so each case has one result, however many attempts there were.
//!
//! Every transaction changes cases first and plans last, so that two of them cannot wait for each other.
//!
//! Leases use the clock of the database engine, never that of a worker machine.

use std::collections::BTreeMap;
use std::time::Duration;

use satiety::bench::queue::{FULL_ROUND, Priority};
use serde::Serialize;
use serde_json::Value;

use super::Bench;
use super::runs::{
    BenchResultRow, BenchRunRow, ResultKey, insert_results, insert_run, pass_interval, result_key,
};
use crate::pool::{Connection, in_transaction};
use crate::sql::{BATCH, Fault, Row, Sql, columns, first_column, sql, values};
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

/// A leased case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub run_id: String,
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

impl Bench<'_> {
    /// Starts a run with its plan and its cases, in one transaction; reopens a run that was closed before it
    /// was complete. Returns false if the run is already open, which then keeps its plan and its cases. A
    /// priority changes that of an open run, too.
    pub async fn enqueue_run(
        self,
        run: &BenchRunRow,
        plan: &Value,
        cases: &[ResultKey],
        priority: Option<Priority>,
    ) -> Result<bool, StoreError> {
        let plan = plan.to_string();
        let run_id = &run.run_id;
        let waiting = i64::try_from(cases.len()).unwrap_or(i64::MAX);
        let cases: Vec<_> = (0_i64..)
            .zip(cases)
            .map(|(position, key)| {
                values! {
                    run_id, position, &key.case_id, &key.variant, key.repeat, 0_i64
                }
            })
            .collect();
        let weight = priority.map(|priority| i64::from(priority.weight()));
        // A new run starts where the others are now, and keeps that place if they are closed before it is served.
        let (now, clock) = (virtual_now(), self.0.pool.clock());
        let reopen = format!(
            "UPDATE bench_plans SET plan = $2, enqueued_at = {clock}, closed_at = NULL, waiting = $3,
                 weight = COALESCE($4, weight), turn = {now}, served = {now}
             WHERE run_id = $1 AND closed_at IS NOT NULL
             AND run_id IN (SELECT run_id FROM bench_runs WHERE run_id = $1 AND completed_at IS NULL)"
        );
        let begin = format!(
            "INSERT INTO bench_plans (run_id, plan, enqueued_at, waiting, weight, turn, served)
             VALUES ($1, $2, {clock}, $3, $4, {now}, {now}) ON CONFLICT (run_id) DO NOTHING"
        );
        in_transaction!(&self.0.pool, |connection| {
            connection.execute(insert_run(run)).await?;
            let reopened = connection
                .execute(sql!(reopen.clone(); run_id, &plan, waiting, weight))
                .await?;
            let new_weight = i64::from(priority.unwrap_or_default().weight());
            let begun = connection
                .execute(sql!(begin.clone(); run_id, &plan, waiting, new_weight))
                .await?;
            let ours = reopened + begun > 0;
            if ours {
                let head = "INSERT INTO bench_work (run_id, position, case_id, variant, repeat, takes) ";
                connection.insert(head, &cases, "").await?;
            } else if let Some(weight) = weight {
                let update = sql!(
                    "UPDATE bench_plans SET weight = $2 WHERE run_id = $1 AND closed_at IS NULL";
                    run_id, weight
                );
                connection.execute(update).await?;
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

    /// Leases cases of the run whose turn it is, in order; cases that were leased before come last.
    /// Concurrent calls never get the same case and do not block each other. Returns no case if none of the
    /// runs has a waiting one.
    pub async fn take_work(
        self,
        runs: &[&str],
        holder: &LeaseHolder<'_>,
        most: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let taken = self.take_waiting(runs, holder, most).await?;
        // Cases whose worker died may be the only ones left.
        if taken.is_empty() && self.expire_leases().await? > 0 {
            return self.take_waiting(runs, holder, most).await;
        }
        Ok(taken)
    }

    async fn take_waiting(
        self,
        runs: &[&str],
        holder: &LeaseHolder<'_>,
        most: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        let taken = self.take_next(runs, holder, most).await?;
        // SQLite has no rows that another process has locked.
        if !taken.is_empty() || runs.len() < 2 || !self.0.pool.is_postgres() {
            return Ok(taken);
        }
        // Others are taking all cases that the next run has; the run after it may have more.
        for run in self.waiting_runs(runs).await? {
            let taken = self.take_next(&[run.as_str()], holder, most).await?;
            if !taken.is_empty() {
                return Ok(taken);
            }
        }
        Ok(Vec::new())
    }

    /// Lists the runs with waiting cases, in their order.
    async fn waiting_runs(self, runs: &[&str]) -> Result<Vec<String>, StoreError> {
        let select = Sql::build(&format!("{WITH_WAITING_CASES} AND p.run_id IN "))
            .push_list(runs.iter().map(|run| crate::sql::Value::from(*run)))
            .push(" ORDER BY p.turn, p.run_id");
        first_column(&self.0.pool.rows(select).await?)
    }

    /// Leases cases of the first run with waiting ones, without those that other transactions have locked.
    async fn take_next(
        self,
        runs: &[&str],
        holder: &LeaseHolder<'_>,
        most: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        let pool = &self.0.pool;
        // MATERIALIZED: otherwise the engine may evaluate the query again for each row and take more than the
        // limit.
        let lock = pool.skip_locked();
        let renew = format!(
            "UPDATE bench_work SET holder = ?, worker = ?, takes = takes + 1, lease_until = {} + ? ",
            pool.clock()
        );
        let now = virtual_now();
        let charge = format!(
            "UPDATE bench_plans SET waiting = waiting - $2,
                 served = CASE WHEN turn > {now} THEN turn ELSE {now} END,
                 turn = CASE WHEN turn > {now} THEN turn ELSE {now} END + $2 * ($3 / weight)
             WHERE run_id = $1"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = in_transaction!(pool, |connection| {
            if pool.is_postgres() {
                // A lease that a crash of the server undoes was not lost: its results are refused.
                connection
                    .execute_raw("SET LOCAL synchronous_commit TO OFF")
                    .await?;
            }
            let update = Sql::build(&format!(
                "WITH chosen AS MATERIALIZED ({WITH_WAITING_CASES} AND p.run_id IN "
            ))
            .push_list(runs.iter().map(|run| crate::sql::Value::from(*run)))
            .push(
                " ORDER BY p.turn, p.run_id LIMIT 1),
                 next AS MATERIALIZED (
                     SELECT w.run_id AS run, w.position AS place FROM bench_work w
                     WHERE w.run_id = (SELECT chosen.run_id FROM chosen) AND w.lease_until IS NULL
                     ORDER BY w.takes, w.position LIMIT ",
            )
            .push_bind(most)
            .push(&format!(" {lock}) {renew}"))
            .bind(holder.id)
            .bind(holder.name)
            .bind(micros(holder.lease))
            .push(
                "FROM next WHERE bench_work.run_id = next.run AND bench_work.position = next.place
                 RETURNING run_id, position, case_id, variant, repeat, takes",
            );
            let rows = connection.rows(update).await?;
            if let Some(first) = rows.first() {
                let run_id: String = first.get("run_id")?;
                let taken = i64::try_from(rows.len()).unwrap_or(i64::MAX);
                let charge = sql!(charge.clone(); run_id, taken, i64::from(FULL_ROUND));
                connection.execute(charge).await?;
            }
            rows
        })?;
        let take = rows
            .iter()
            .map(|row| Ok(columns!(row => Lease { run_id, position, takes; key: result_key(row)? })));
        let mut taken = take.collect::<Result<Vec<Lease>, StoreError>>()?;
        taken.sort_by_key(|taken| taken.position);
        Ok(taken)
    }

    /// Extends the leases of these cases, also those that expired and that no other worker has taken;
    /// returns how many are held.
    pub async fn extend_work(
        self,
        holder: &LeaseHolder<'_>,
        held: &[(String, i64)],
    ) -> Result<u64, StoreError> {
        let clock = self.0.pool.clock();
        in_transaction!(&self.0.pool, |connection| {
            let mut extended = 0;
            let mut renewed: Vec<Row> = Vec::new();
            let renew = format!("UPDATE bench_work SET lease_until = {clock} + ");
            for batch in held.chunks(BATCH) {
                let extend = |condition: &str| {
                    Sql::build(&renew)
                        .push_bind(micros(holder.lease))
                        .push(" WHERE holder = ")
                        .push_bind(holder.id)
                        .push(condition)
                        .push(" AND (run_id, position) IN (")
                        .push_values(places(batch))
                        .push(")")
                };
                extended += connection.execute(extend(" AND lease_until IS NOT NULL")).await?;
                // Expired ones second: a lease that another process ends in between is one of them, so that
                // the number of waiting cases stays exact.
                let expired = extend(" AND lease_until IS NULL").push(" RETURNING run_id");
                renewed.extend(connection.rows(expired).await?);
            }
            change_waiting(connection, &renewed, -1).await?;
            extended + renewed.len() as u64
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
            let mut expired: Vec<Row> = Vec::new();
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
                    .push(") RETURNING position, run_id, lease_until");
                let rows = connection.rows(delete).await?;
                kept.extend(first_column::<i64>(&rows)?);
                // Cases whose lease had expired were waiting again.
                for row in rows {
                    if row.get::<Option<i64>>("lease_until")?.is_none() {
                        expired.push(row);
                    }
                }
            }
            change_waiting(connection, &expired, -1).await?;
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

    /// Releases all leases of a holder, or only those of some cases, and undoes their attempts; returns how
    /// many.
    pub async fn release_work(self, holder: &str, only: Option<&[(String, i64)]>) -> Result<u64, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let mut ended: Vec<Row> = Vec::new();
            let mut expired = 0;
            for batch in only.map_or_else(|| vec![None], |all| all.chunks(BATCH).map(Some).collect()) {
                let release = |condition: &str| {
                    let mut update = Sql::build(
                        "UPDATE bench_work SET holder = NULL, worker = NULL, lease_until = NULL,
                             takes = takes - 1 WHERE holder = ",
                    )
                    .push_bind(holder)
                    .push(condition);
                    if let Some(batch) = batch {
                        update = update
                            .push(" AND (run_id, position) IN (")
                            .push_values(places(batch))
                            .push(")");
                    }
                    update.push(" RETURNING run_id")
                };
                ended.extend(connection.rows(release(" AND lease_until IS NOT NULL")).await?);
                // Cases whose lease had expired were waiting already.
                expired += connection.rows(release(" AND lease_until IS NULL")).await?.len();
            }
            change_waiting(connection, &ended, 1).await?;
            (ended.len() + expired) as u64
        })
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
        let (low, high) = pass_interval(&summary);
        let update = sql!(
            "UPDATE bench_runs SET completed_at = $1, summary = $2, pass_rate = $3, pass_low = $4, pass_high = $5
             WHERE run_id = $6 AND completed_at IS NULL";
            now, &summary, pass_rate, low, high, run_id
        );
        self.0.pool.execute(update).await?;
        Ok(())
    }

    /// Closes a run and drops its remaining cases. Returns the number of dropped cases, or `None` if the run
    /// was already closed.
    pub async fn close_plan(self, run_id: &str) -> Result<Option<u64>, StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            // Cases before the plan, as all other transactions lock them.
            let dropped = connection
                .execute(sql!("DELETE FROM bench_work WHERE run_id = $1"; run_id))
                .await?;
            let update = sql!(
                "UPDATE bench_plans SET closed_at = $2, waiting = 0 WHERE run_id = $1 AND closed_at IS NULL";
                run_id, now
            );
            let closed = connection.execute(update).await?;
            (closed > 0).then_some(dropped)
        })
    }
}

/// Selects open runs with waiting cases. Not EXISTS: SQLite would join all waiting cases before it sorts the runs.
const WITH_WAITING_CASES: &str = "SELECT p.run_id FROM bench_plans p WHERE p.closed_at IS NULL
    AND (SELECT 1 FROM bench_work w WHERE w.run_id = p.run_id AND w.lease_until IS NULL LIMIT 1) IS NOT NULL";

/// SQL expression for the position of the run that was served last, on the virtual time line of all runs.
fn virtual_now() -> &'static str {
    "(SELECT COALESCE(MAX(o.served), 0) FROM bench_plans o WHERE o.closed_at IS NULL)"
}

fn places(cases: &[(String, i64)]) -> impl Iterator<Item = Vec<crate::sql::Value<'_>>> {
    cases
        .iter()
        .map(|(run_id, position)| values! { run_id, *position })
}

/// Adds `by` to the number of waiting cases of a run, for each of its rows. In the order of the runs, so that
/// two processes cannot wait for each other.
pub(super) async fn change_waiting(connection: &mut Connection, rows: &[Row], by: i64) -> Result<(), Fault> {
    let mut changes: BTreeMap<String, i64> = BTreeMap::new();
    for row in rows {
        *changes.entry(row.get("run_id")?).or_default() += by;
    }
    for (run_id, change) in changes {
        let update = sql!("UPDATE bench_plans SET waiting = waiting + $2 WHERE run_id = $1"; run_id, change);
        connection.execute(update).await?;
    }
    Ok(())
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
