//! Research runs, their rounds, and cached searches. A round is written once, before it counts, so that an
//! interrupted run can be resumed.

use serde_json::Value;

use crate::sql::{Row, columns, sql};
use crate::{Store, StoreError, now_micros};

/// A research run.
#[derive(Debug, Clone, PartialEq)]
pub struct ResearchRunRow {
    pub run_id: String,
    pub task: String,
    pub source: String,
    /// Time in microseconds since the Unix epoch.
    pub started_at: i64,
    pub completed_at: Option<i64>,
    /// Everything needed to resume the run.
    pub settings: Value,
    pub stop_reason: Option<String>,
    pub report: Option<Value>,
}

/// A round of a research run.
#[derive(Debug, Clone, PartialEq)]
pub struct ResearchRoundRow {
    pub round: i64,
    pub query: String,
    /// Reason for the decision.
    pub reason: String,
    /// Whether its results were accepted.
    pub accepted: bool,
    /// Share of new content, 0 to 1.
    pub novelty: Option<f64>,
    /// Complete round as JSON.
    pub body: String,
}

/// Research runs and cached searches: [`Store::research`].
#[derive(Debug, Clone, Copy)]
pub struct Research<'s>(pub(crate) &'s Store);

impl Research<'_> {
    /// Starts a run; does nothing if it exists.
    pub async fn begin(self, run: &ResearchRunRow) -> Result<(), StoreError> {
        let settings = run.settings.to_string();
        let insert = sql!(
            "INSERT INTO research_runs (run_id, task, source, started_at, settings)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run_id) DO NOTHING";
            &run.run_id, &run.task, &run.source, run.started_at, &settings
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Writes a round; an existing one is kept.
    pub async fn put_round(self, run_id: &str, round: &ResearchRoundRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO research_rounds (run_id, round, query, reason, accepted, novelty, body)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (run_id, round) DO NOTHING";
            run_id, round.round, &round.query, &round.reason, round.accepted, round.novelty, &round.body
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Completes a run with its report.
    pub async fn complete(
        self,
        run_id: &str,
        completed_at: i64,
        stop_reason: &str,
        report: &Value,
    ) -> Result<(), StoreError> {
        let report = report.to_string();
        let update = sql!(
            "UPDATE research_runs SET completed_at = $1, stop_reason = $2, report = $3 WHERE run_id = $4";
            completed_at, stop_reason, &report, run_id
        );
        self.0.pool.execute(update).await?;
        Ok(())
    }

    /// Returns a run by id.
    pub async fn run(self, run_id: &str) -> Result<Option<ResearchRunRow>, StoreError> {
        let select = sql!(
            "SELECT run_id, task, source, started_at, completed_at, settings, stop_reason, report
             FROM research_runs WHERE run_id = $1";
            run_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(run).transpose()
    }

    /// Lists runs, newest first, with the number of their rounds; without their reports, which are long.
    pub async fn runs(self, limit: u32) -> Result<Vec<(ResearchRunRow, i64)>, StoreError> {
        let select = sql!(
            "SELECT run_id, task, source, started_at, completed_at, stop_reason,
                    (SELECT COUNT(*) FROM research_rounds WHERE research_rounds.run_id = research_runs.run_id) AS rounds
             FROM research_runs ORDER BY started_at DESC, run_id DESC LIMIT $1";
            limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            let run = columns!(row => ResearchRunRow {
                run_id, task, source, started_at, completed_at, stop_reason;
                settings: Value::Null, report: None
            });
            Ok((run, row.get("rounds")?))
        };
        rows.iter().map(row).collect()
    }

    /// Returns the newest run that is not complete.
    pub async fn unfinished(self) -> Result<Option<ResearchRunRow>, StoreError> {
        let select = sql!(
            "SELECT run_id, task, source, started_at, completed_at, settings, stop_reason, report
             FROM research_runs WHERE completed_at IS NULL ORDER BY started_at DESC, run_id DESC LIMIT 1"
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(run).transpose()
    }

    /// Returns the rounds of a run, in order.
    pub async fn rounds(self, run_id: &str) -> Result<Vec<ResearchRoundRow>, StoreError> {
        let select = sql!(
            "SELECT round, query, reason, accepted, novelty, body
             FROM research_rounds WHERE run_id = $1 ORDER BY round";
            run_id
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            Ok(columns!(row => ResearchRoundRow { round, query, reason, accepted, novelty, body }))
        };
        rows.iter().map(row).collect()
    }

    /// Returns the cached results of a search made since `not_before`.
    pub async fn cached_search(self, key: &str, not_before: i64) -> Result<Option<String>, StoreError> {
        let select = sql!(
            "SELECT body FROM research_searches WHERE key = $1 AND created_at >= $2";
            key, not_before
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| row.get(0)).transpose()
    }

    /// Caches the results of a search, replacing earlier ones.
    pub async fn cache_search(
        self,
        key: &str,
        source: &str,
        query: &str,
        body: &str,
    ) -> Result<(), StoreError> {
        let now = now_micros();
        let insert = sql!(
            "INSERT INTO research_searches (key, source, query, body, created_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (key) DO UPDATE SET body = excluded.body, created_at = excluded.created_at";
            key, source, query, body, now
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }
}

fn run(row: &Row) -> Result<ResearchRunRow, StoreError> {
    let id: String = row.get("run_id")?;
    let settings = row.json("settings", format_args!("the settings of research {id}"))?;
    let report = row.optional_json("report", format_args!("the report of research {id}"))?;
    Ok(columns!(row => ResearchRunRow {
        task, source, started_at, completed_at, stop_reason;
        run_id: id, settings, report
    }))
}
