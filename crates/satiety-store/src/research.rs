//! Research runs, their rounds, and searches that were made lately. A round is written once, before it counts, so that a
//! run that was killed can be taken up where it was.

use serde_json::Value;

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct ResearchRunRow {
    /// Its id.
    pub run_id: String,
    /// What was asked.
    pub task: String,
    /// Where was searched.
    pub source: String,
    /// When it began, in microseconds.
    pub started_at: i64,
    /// When it ended.
    pub completed_at: Option<i64>,
    /// Everything that is needed to take it up again.
    pub settings: Value,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// What was found.
    pub report: Option<Value>,
}

/// A round.
#[derive(Debug, Clone, PartialEq)]
pub struct ResearchRoundRow {
    /// Its number.
    pub round: i64,
    /// What was asked.
    pub query: String,
    /// Why it was decided as it was.
    pub reason: String,
    /// Whether its results were kept.
    pub accepted: bool,
    /// The share that was new.
    pub novelty: Option<f64>,
    /// All of it, as JSON.
    pub body: String,
}

type RunColumns = (
    String,
    String,
    String,
    i64,
    Option<i64>,
    String,
    Option<String>,
    Option<String>,
);

/// Research runs and cached searches: [`Store::research`].
#[derive(Debug, Clone, Copy)]
pub struct Research<'s>(pub(crate) &'s Store);

impl Research<'_> {
    /// Begins a run, or does nothing when it has begun.
    pub async fn begin(self, run: &ResearchRunRow) -> Result<(), StoreError> {
        let settings = run.settings.to_string();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO research_runs (run_id, task, source, started_at, settings)
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run_id) DO NOTHING",
            )
            .bind(storable(&run.run_id))
            .bind(storable(&run.task))
            .bind(storable(&run.source))
            .bind(run.started_at)
            .bind(storable(&settings))
            .execute(&mut *connection)
            .await?;
        })
    }

    /// Writes a round; one that is there already stays as it is.
    pub async fn put_round(self, run_id: &str, round: &ResearchRoundRow) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO research_rounds (run_id, round, query, reason, accepted, novelty, body)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (run_id, round) DO NOTHING",
            )
            .bind(storable(run_id))
            .bind(round.round)
            .bind(storable(&round.query))
            .bind(&round.reason)
            .bind(round.accepted)
            .bind(round.novelty)
            .bind(storable(&round.body))
            .execute(&mut *connection)
            .await?;
        })
    }

    /// Ends a run with its report.
    pub async fn complete(
        self,
        run_id: &str,
        completed_at: i64,
        stop_reason: &str,
        report: &Value,
    ) -> Result<(), StoreError> {
        let report = report.to_string();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "UPDATE research_runs SET completed_at = $1, stop_reason = $2, report = $3 WHERE run_id = $4",
            )
            .bind(completed_at)
            .bind(stop_reason)
            .bind(storable(&report))
            .bind(storable(run_id))
            .execute(&mut *connection)
            .await?;
        })
    }

    /// A run by its id.
    pub async fn run(self, run_id: &str) -> Result<Option<ResearchRunRow>, StoreError> {
        let row: Option<RunColumns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT run_id, task, source, started_at, completed_at, settings, stop_reason, report
             FROM research_runs WHERE run_id = $1"
        )
        .bind(storable(run_id))
        .fetch_optional(connection)
        .await?)?;
        row.map(|row| self.research_row(row)).transpose()
    }

    /// Runs, newest first, each with the number of its rounds; without their reports, which are long.
    pub async fn runs(self, limit: u32) -> Result<Vec<(ResearchRunRow, i64)>, StoreError> {
        type Columns = (String, String, String, i64, Option<i64>, Option<String>, i64);
        let rows: Vec<Columns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT run_id, task, source, started_at, completed_at, stop_reason,
                    (SELECT COUNT(*) FROM research_rounds WHERE research_rounds.run_id = research_runs.run_id)
             FROM research_runs ORDER BY started_at DESC, run_id DESC LIMIT $1"
        )
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?)?;
        let row = |(run_id, task, source, started_at, completed_at, stop_reason, rounds): Columns| {
            let run = ResearchRunRow {
                run_id,
                task,
                source,
                started_at,
                completed_at,
                settings: Value::Null,
                stop_reason,
                report: None,
            };
            (run, rounds)
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// The newest run that has not ended.
    pub async fn unfinished(self) -> Result<Option<ResearchRunRow>, StoreError> {
        let row: Option<RunColumns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT run_id, task, source, started_at, completed_at, settings, stop_reason, report
             FROM research_runs WHERE completed_at IS NULL ORDER BY started_at DESC, run_id DESC LIMIT 1"
        )
        .fetch_optional(connection)
        .await?)?;
        row.map(|row| self.research_row(row)).transpose()
    }

    /// The rounds of a run, in order.
    pub async fn rounds(self, run_id: &str) -> Result<Vec<ResearchRoundRow>, StoreError> {
        let rows: Vec<(i64, String, String, bool, Option<f64>, String)> =
            reading!(&self.0.pool, |connection| sqlx::query_as(
                "SELECT round, query, reason, accepted, novelty, body
                 FROM research_rounds WHERE run_id = $1 ORDER BY round"
            )
            .bind(storable(run_id))
            .fetch_all(connection)
            .await?)?;
        let row = |(round, query, reason, accepted, novelty, body)| ResearchRoundRow {
            round,
            query,
            reason,
            accepted,
            novelty,
            body,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// What a search brought, if it was made since `not_before`.
    pub async fn cached_search(self, key: &str, not_before: i64) -> Result<Option<String>, StoreError> {
        let row: Option<(String,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT body FROM research_searches WHERE key = $1 AND created_at >= $2"
        )
        .bind(key)
        .bind(not_before)
        .fetch_optional(connection)
        .await?)?;
        Ok(row.map(|(body,)| body))
    }

    /// Keeps what a search brought, over what was kept before.
    pub async fn cache_search(
        self,
        key: &str,
        source: &str,
        query: &str,
        body: &str,
    ) -> Result<(), StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO research_searches (key, source, query, body, created_at) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (key) DO UPDATE SET body = excluded.body, created_at = excluded.created_at",
            )
            .bind(key)
            .bind(storable(source))
            .bind(storable(query))
            .bind(storable(body))
            .bind(now)
            .execute(&mut *connection)
            .await?;
        })
    }

    fn research_row(self, columns: RunColumns) -> Result<ResearchRunRow, StoreError> {
        let (run_id, task, source, started_at, completed_at, settings, stop_reason, report) = columns;
        let settings = self
            .0
            .parse_json(&settings, || format!("the settings of research {run_id}"))?;
        let report = report
            .map(|report| {
                self.0
                    .parse_json(&report, || format!("the report of research {run_id}"))
            })
            .transpose()?;
        Ok(ResearchRunRow {
            run_id,
            task,
            source,
            started_at,
            completed_at,
            settings,
            stop_reason,
            report,
        })
    }
}
