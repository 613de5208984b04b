//! Benchmark runs and their results. Writing a result is idempotent, so an interrupted run can be resumed.

use serde::Serialize;
use serde_json::Value;

use super::Bench;
use crate::StoreError;
use crate::pool::{Connection, in_transaction};
use crate::sql::{Fault, Row, Sql, columns, sql, values};

/// Rows per insert statement. Few sizes, so that each statement is prepared once and small batches do not
/// fill the statement cache with large ones; the largest stays below SQLite's limit of 32,766 values.
const BATCHES: [usize; 4] = [500, 60, 8, 1];

/// Builds the statement that starts a run; it does nothing if the run exists.
pub(super) fn insert_run(run: &BenchRunRow) -> Sql<'_> {
    sql!(
        "INSERT INTO bench_runs (run_id, suite_id, suite_hash, target, started_at, config_snapshot, partition_at)
         VALUES ($1, $2, $3, $4, $5, $6, $5) ON CONFLICT (run_id) DO NOTHING";
        &run.run_id, &run.suite_id, &run.suite_hash, &run.target, run.started_at,
        run.config_snapshot.to_string()
    )
}

/// Writes results in a transaction; existing results are kept.
pub(super) async fn insert_results(
    connection: &mut Connection,
    run_id: &str,
    results: &[&BenchResultRow],
) -> Result<(), Fault> {
    let select = sql!("SELECT partition_at FROM bench_runs WHERE run_id = $1"; run_id);
    // Without a run, the foreign key reports it.
    let place: i64 = connection.row(select).await?.map_or(Ok(0), |row| row.get(0))?;
    let mut left = results;
    for size in BATCHES {
        let (now, later) = left.split_at(left.len() - left.len() % size);
        for rows in now.chunks_exact(size) {
            let rows = rows.iter().map(|row| {
                values! {
                    run_id, &row.key.case_id, &row.key.variant, row.key.repeat, &row.status, row.score,
                    row.latency_ms, row.token_cost, &row.human_label, &row.body, place
                }
            });
            let insert = Sql::build(
                "INSERT INTO bench_results (run_id, case_id, variant, repeat, status, score, latency_ms,
                     token_cost, human_label, body, partition_at) ",
            )
            .push_values(rows);
            connection.execute(insert.push(" ON CONFLICT DO NOTHING")).await?;
        }
        left = later;
    }
    Ok(())
}

/// A benchmark run.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchRunRow {
    pub run_id: String,
    pub suite_id: String,
    /// Content hash of the suite.
    pub suite_hash: String,
    pub target: String,
    /// Time in microseconds since the Unix epoch.
    pub started_at: i64,
    /// Time in microseconds since the Unix epoch; `None` while it is running.
    pub completed_at: Option<i64>,
    /// Everything needed to repeat the run.
    pub config_snapshot: Value,
    /// Metrics, once the run is complete.
    pub summary: Option<Value>,
    /// Share of passed results, once the run is complete.
    pub pass_rate: Option<f64>,
}

/// Key of a result within its run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultKey {
    pub case_id: String,
    /// Variant; empty if there is only one.
    pub variant: String,
    /// Repetition, from 0.
    pub repeat: i64,
}

/// Result of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchResultRow {
    pub key: ResultKey,
    pub status: String,
    pub score: Option<f64>,
    pub latency_ms: f64,
    /// Number of tokens used.
    pub token_cost: i64,
    /// Label set by a person.
    pub human_label: Option<String>,
    /// Complete result as JSON.
    pub body: String,
}

impl Bench<'_> {
    /// Starts a run; does nothing if it exists.
    pub async fn begin_run(self, run: &BenchRunRow) -> Result<(), StoreError> {
        self.0.pool.execute(insert_run(run)).await?;
        Ok(())
    }

    /// Writes results of a run; existing results are kept.
    pub async fn put_results(self, run_id: &str, results: &[BenchResultRow]) -> Result<(), StoreError> {
        let rows: Vec<&BenchResultRow> = results.iter().collect();
        in_transaction!(&self.0.pool, |connection| insert_results(
            connection, run_id, &rows
        )
        .await?)
    }

    /// Replaces an existing result: with a label, or a judge's second opinion.
    pub async fn replace_result(self, run_id: &str, row: &BenchResultRow) -> Result<bool, StoreError> {
        let update = sql!(
            "UPDATE bench_results SET status = $1, score = $2, human_label = $3, body = $4
             WHERE run_id = $5 AND case_id = $6 AND variant = $7 AND repeat = $8
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $5)";
            &row.status, row.score, &row.human_label, &row.body, run_id, &row.key.case_id, &row.key.variant,
            row.key.repeat
        );
        let done = self.0.pool.execute(update).await?;
        Ok(done > 0)
    }

    /// Completes a run with its metrics.
    pub async fn complete_run(
        self,
        run_id: &str,
        completed_at: i64,
        summary: &(impl Serialize + Sync),
        pass_rate: Option<f64>,
    ) -> Result<(), StoreError> {
        let summary = self.summary_text(run_id, summary)?;
        let (low, high) = pass_interval(&summary);
        let update = sql!(
            "UPDATE bench_runs SET completed_at = $1, summary = $2, pass_rate = $3, pass_low = $4, pass_high = $5
             WHERE run_id = $6";
            completed_at, &summary, pass_rate, low, high, run_id
        );
        self.0.pool.execute(update).await?;
        Ok(())
    }

    pub(super) fn summary_text(self, run_id: &str, summary: &impl Serialize) -> Result<String, StoreError> {
        // Serialize directly: as a `Value`, the summary of a large run would be many times its size.
        serde_json::to_string(summary).map_err(|cause| StoreError::Unreadable {
            place: self.0.place().into(),
            what: format!("the summary of run {run_id}"),
            detail: cause.to_string(),
        })
    }

    /// Returns a run by id.
    pub async fn run(self, run_id: &str) -> Result<Option<BenchRunRow>, StoreError> {
        let select = sql!(
            "SELECT run_id, suite_id, suite_hash, target, started_at, completed_at, config_snapshot, summary, pass_rate
             FROM bench_runs WHERE run_id = $1";
            run_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(run).transpose()
    }

    /// Lists runs of a suite, or of all suites for `None`, newest first.
    pub async fn runs(self, suite_id: Option<&str>, limit: u32) -> Result<Vec<BenchRunRow>, StoreError> {
        let select = Sql::build(
            "SELECT run_id, suite_id, suite_hash, target, started_at, completed_at, config_snapshot, summary, pass_rate
             FROM bench_runs",
        );
        let select = newest_first(
            select,
            "suite_id",
            suite_id,
            "started_at DESC, run_id DESC",
            limit,
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(run).collect()
    }

    /// Returns the keys of the results that a run has.
    pub async fn result_keys(self, run_id: &str) -> Result<Vec<ResultKey>, StoreError> {
        let select = sql!(
            "SELECT case_id, variant, repeat FROM bench_results WHERE run_id = $1
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)";
            run_id
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(result_key).collect()
    }

    /// Counts the results of a run by status.
    pub async fn result_counts(self, run_id: &str) -> Result<Vec<(String, i64)>, StoreError> {
        let select = sql!(
            "SELECT status, COUNT(*) FROM bench_results WHERE run_id = $1
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)
             GROUP BY status ORDER BY status";
            run_id
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns at most `limit` result bodies after a key, in key order.
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
        let select = sql!(
            "SELECT case_id, variant, repeat, body FROM bench_results
             WHERE run_id = $1 AND (case_id, variant, repeat) > ($2, $3, $4)
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)
             ORDER BY case_id, variant, repeat LIMIT $5";
            run_id, &after.case_id, &after.variant, after.repeat, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter()
            .map(|row| Ok((result_key(row)?, row.get("body")?)))
            .collect()
    }
}

/// Adds an optional condition, the order and the limit of a list. A condition like `$1 = '' OR column = $1` instead would
/// keep the index of the column from being used.
pub(super) fn newest_first<'a>(
    select: Sql<'a>,
    column: &str,
    value: Option<&'a str>,
    order: &str,
    limit: u32,
) -> Sql<'a> {
    let select = match value {
        Some(value) => select.push(&format!(" WHERE {column} = ")).push_bind(value),
        None => select,
    };
    select.push(&format!(" ORDER BY {order} LIMIT ")).push_bind(limit)
}

/// Interval of the pass rate in a summary, as two bounds.
pub(super) fn pass_interval(summary: &str) -> (Option<f64>, Option<f64>) {
    #[derive(serde::Deserialize)]
    struct Rate {
        pass_rate_interval: Option<Bounds>,
    }
    #[derive(serde::Deserialize)]
    struct Bounds {
        low: f64,
        high: f64,
    }
    let rate: Option<Rate> = serde_json::from_str(summary).ok();
    let bounds = rate.and_then(|rate| rate.pass_rate_interval);
    bounds.map_or((None, None), |bounds| (Some(bounds.low), Some(bounds.high)))
}

pub(super) fn result_key(row: &Row) -> Result<ResultKey, StoreError> {
    Ok(columns!(row => ResultKey { case_id, variant, repeat }))
}

fn run(row: &Row) -> Result<BenchRunRow, StoreError> {
    let id: String = row.get("run_id")?;
    let config_snapshot = row.json("config_snapshot", format_args!("the configuration of run {id}"))?;
    let summary = row.optional_json("summary", format_args!("the summary of run {id}"))?;
    Ok(columns!(row => BenchRunRow {
        suite_id, suite_hash, target, started_at, completed_at, pass_rate;
        run_id: id, config_snapshot, summary
    }))
}
