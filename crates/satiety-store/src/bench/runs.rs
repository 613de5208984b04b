//! Runs and their results. A result is written once: writing it again changes nothing, so that a run that was killed
//! can be taken up where it was.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Bench;
use crate::pool::{in_transaction, reading};
use crate::{StoreError, storable};

/// Rows that go with one statement. Few sizes, so that each statement is prepared once and a store of small batches does
/// not keep hundreds of large ones; the largest stays below SQLite's 32,766 values.
pub(super) const BATCHES: [usize; 4] = [500, 60, 8, 1];

/// Begins a run in a transaction, or does nothing when it has begun. Macros, because a transaction's type differs by engine.
macro_rules! insert_run {
    ($connection:ident, $run:ident, $snapshot:ident) => {{
        sqlx::query(
            "INSERT INTO bench_runs (run_id, suite_id, suite_hash, target, started_at, config_snapshot)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run_id) DO NOTHING",
        )
        .bind($crate::storable(&$run.run_id))
        .bind($crate::storable(&$run.suite_id))
        .bind(&$run.suite_hash)
        .bind($crate::storable(&$run.target))
        .bind($run.started_at)
        .bind($crate::storable(&$snapshot))
        .execute(&mut *$connection)
        .await?;
    }};
}

/// Writes results in a transaction; those that are there already stay as they are.
macro_rules! insert_results {
    ($connection:ident, $run_id:ident, $rows:ident) => {{
        let mut left: &[&$crate::bench::BenchResultRow] = &$rows;
        for size in $crate::bench::runs::BATCHES {
            let whole = left.len() - left.len() % size;
            let (now, later) = left.split_at(whole);
            for rows in now.chunks_exact(size) {
                let mut insert = sqlx::QueryBuilder::new(
                    "INSERT INTO bench_results (run_id, case_id, variant, repeat, status, score, latency_ms,
                         token_cost, human_label, body) ",
                );
                insert.push_values(rows, |mut values, row| {
                    values
                        .push_bind(&$run_id)
                        .push_bind($crate::storable(&row.key.case_id))
                        .push_bind($crate::storable(&row.key.variant))
                        .push_bind(row.key.repeat)
                        .push_bind(&row.status)
                        .push_bind(row.score)
                        .push_bind(row.latency_ms)
                        .push_bind(row.token_cost)
                        .push_bind(row.human_label.as_deref().map($crate::storable))
                        .push_bind($crate::storable(&row.body));
                });
                insert.push(" ON CONFLICT (run_id, case_id, variant, repeat) DO NOTHING");
                insert.build().execute(&mut *$connection).await?;
            }
            left = later;
        }
    }};
}
pub(super) use {insert_results, insert_run};

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchRunRow {
    /// Its id.
    pub run_id: String,
    /// The suite.
    pub suite_id: String,
    /// The hash of the suite's content.
    pub suite_hash: String,
    /// What was run.
    pub target: String,
    /// When it began, in microseconds.
    pub started_at: i64,
    /// When it was complete.
    pub completed_at: Option<i64>,
    /// Everything that is needed to run it again.
    pub config_snapshot: Value,
    /// Its figures, once it is complete.
    pub summary: Option<Value>,
    /// The share of passes, once it is complete.
    pub pass_rate: Option<f64>,
}

/// What tells a result from the others of its run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultKey {
    /// The case.
    pub case_id: String,
    /// The variant; empty where there is one only.
    pub variant: String,
    /// The repeat, from 0.
    pub repeat: i64,
}

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchResultRow {
    /// Which one.
    pub key: ResultKey,
    /// How it came out.
    pub status: String,
    /// How right it was.
    pub score: Option<f64>,
    /// How long it took.
    pub latency_ms: f64,
    /// What it cost in tokens.
    pub token_cost: i64,
    /// What a person said.
    pub human_label: Option<String>,
    /// All of it, as JSON.
    pub body: String,
}

impl Bench<'_> {
    /// Begins a run, or does nothing when it has begun.
    pub async fn begin_run(self, run: &BenchRunRow) -> Result<(), StoreError> {
        let snapshot = run.config_snapshot.to_string();
        in_transaction!(&self.0.pool, |connection| insert_run!(connection, run, snapshot))
    }

    /// Writes results of a run; those that are there already stay as they are.
    pub async fn put_results(self, run_id: &str, results: &[BenchResultRow]) -> Result<(), StoreError> {
        let run_id = storable(run_id);
        let rows: Vec<&BenchResultRow> = results.iter().collect();
        in_transaction!(&self.0.pool, |connection| insert_results!(
            connection, run_id, rows
        ))
    }

    /// Writes one result over what is there: a label, or a judge's second opinion.
    pub async fn replace_result(self, run_id: &str, row: &BenchResultRow) -> Result<bool, StoreError> {
        let run_id = storable(run_id);
        in_transaction!(&self.0.pool, |connection| {
            let done = sqlx::query(
                "UPDATE bench_results SET status = $1, score = $2, human_label = $3, body = $4
                 WHERE run_id = $5 AND case_id = $6 AND variant = $7 AND repeat = $8",
            )
            .bind(&row.status)
            .bind(row.score)
            .bind(row.human_label.as_deref().map(storable))
            .bind(storable(&row.body))
            .bind(&run_id)
            .bind(storable(&row.key.case_id))
            .bind(storable(&row.key.variant))
            .bind(row.key.repeat)
            .execute(&mut *connection)
            .await?;
            done.rows_affected() > 0
        })
    }

    /// Ends a run with its figures.
    pub async fn complete_run(
        self,
        run_id: &str,
        completed_at: i64,
        summary: &(impl Serialize + Sync),
        pass_rate: Option<f64>,
    ) -> Result<(), StoreError> {
        // Straight to text: as a value, the summary of a large run would be many times its size.
        let summary = serde_json::to_string(summary).map_err(|cause| StoreError::Unreadable {
            place: self.0.place().into(),
            what: format!("the summary of run {run_id}"),
            detail: cause.to_string(),
        })?;
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "UPDATE bench_runs SET completed_at = $1, summary = $2, pass_rate = $3 WHERE run_id = $4",
            )
            .bind(completed_at)
            .bind(storable(&summary))
            .bind(pass_rate)
            .bind(storable(run_id))
            .execute(&mut *connection)
            .await?;
        })
    }

    /// A run by its id.
    pub async fn run(self, run_id: &str) -> Result<Option<BenchRunRow>, StoreError> {
        let row: Option<RunColumns> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT run_id, suite_id, suite_hash, target, started_at, completed_at, config_snapshot, summary, pass_rate
             FROM bench_runs WHERE run_id = $1"
        )
        .bind(storable(run_id))
        .fetch_optional(connection)
        .await?
        })?;
        row.map(|row| self.bench_run_row(row)).transpose()
    }

    /// Runs of a suite, or of all where none is named, newest first.
    pub async fn runs(self, suite_id: Option<&str>, limit: u32) -> Result<Vec<BenchRunRow>, StoreError> {
        let rows: Vec<RunColumns> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT run_id, suite_id, suite_hash, target, started_at, completed_at, config_snapshot, summary, pass_rate
             FROM bench_runs WHERE $1 = '' OR suite_id = $1 ORDER BY started_at DESC, run_id DESC LIMIT $2"
        )
        .bind(storable(suite_id.unwrap_or_default()))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?
        })?;
        rows.into_iter().map(|row| self.bench_run_row(row)).collect()
    }

    /// Which results of a run are there.
    pub async fn result_keys(self, run_id: &str) -> Result<Vec<ResultKey>, StoreError> {
        let rows: Vec<(String, String, i64)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT case_id, variant, repeat FROM bench_results WHERE run_id = $1"
        )
        .bind(storable(run_id))
        .fetch_all(connection)
        .await?)?;
        let key = |(case_id, variant, repeat)| ResultKey {
            case_id,
            variant,
            repeat,
        };
        Ok(rows.into_iter().map(key).collect())
    }

    /// How many results of a run came out how.
    pub async fn result_counts(self, run_id: &str) -> Result<Vec<(String, i64)>, StoreError> {
        reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT status, COUNT(*) FROM bench_results WHERE run_id = $1 GROUP BY status ORDER BY status"
        )
        .bind(storable(run_id))
        .fetch_all(connection)
        .await?)
    }

    /// The bodies of results after a key, in the order of keys; at most `limit`.
    pub async fn result_bodies(
        self,
        run_id: &str,
        after: Option<&ResultKey>,
        limit: u32,
    ) -> Result<Vec<(ResultKey, String)>, StoreError> {
        let start = ResultKey {
            case_id: String::new(),
            variant: String::new(),
            repeat: -1,
        };
        let after = after.unwrap_or(&start);
        let rows: Vec<(String, String, i64, String)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT case_id, variant, repeat, body FROM bench_results
             WHERE run_id = $1 AND (case_id, variant, repeat) > ($2, $3, $4)
             ORDER BY case_id, variant, repeat LIMIT $5"
        )
        .bind(storable(run_id))
        .bind(storable(&after.case_id))
        .bind(storable(&after.variant))
        .bind(after.repeat)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?)?;
        let row = |(case_id, variant, repeat, body)| {
            let key = ResultKey {
                case_id,
                variant,
                repeat,
            };
            (key, body)
        };
        Ok(rows.into_iter().map(row).collect())
    }

    fn bench_run_row(self, columns: RunColumns) -> Result<BenchRunRow, StoreError> {
        let (run_id, suite_id, suite_hash, target, started_at, completed_at, snapshot, summary, pass_rate) =
            columns;
        let parse = |text: &str, what: &str| self.0.parse_json(text, || format!("{what} of run {run_id}"));
        Ok(BenchRunRow {
            config_snapshot: parse(&snapshot, "the configuration")?,
            summary: summary.map(|text| parse(&text, "the summary")).transpose()?,
            run_id,
            suite_id,
            suite_hash,
            target,
            started_at,
            completed_at,
            pass_rate,
        })
    }
}

type RunColumns = (
    String,
    String,
    String,
    String,
    i64,
    Option<i64>,
    String,
    Option<String>,
    Option<f64>,
);
