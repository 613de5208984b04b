//! Queries for people who look into runs: cases as they ran, outcomes by case with filters and keyset paging, and
//! single results. They read narrow columns through indexes; only a single result reads its body.

use super::Bench;
use super::runs::{BenchRunRow, ResultKey, result_key};
use crate::pool::in_transaction;
use crate::sql::{Row, Sql, Value, columns, first_column, sql, values};
use crate::{StoreError, now_micros};

/// A case of a run, as it was when it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCaseRow {
    pub case_id: String,
    /// Content hash of the case and its files.
    pub case_hash: String,
    /// One line that says what the case asks.
    pub title: String,
    pub tags: Vec<String>,
    /// Complete case as JSON; `None` in lists.
    pub body: Option<String>,
}

/// Note of a person on a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteRow {
    pub note_id: String,
    pub run_id: String,
    pub author: String,
    pub note: String,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
}

/// Outcome of a case over its repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseOutcomeRow {
    pub case_id: String,
    /// Variant; empty if there is only one.
    pub variant: String,
    pub results: i64,
    pub passes: i64,
    /// Results that failed or timed out.
    pub failures: i64,
    pub errors: i64,
    /// Mean score of the scored results.
    pub score: Option<f64>,
    /// Mean latency in milliseconds.
    pub latency_ms: f64,
    /// Total tokens.
    pub token_cost: i64,
}

/// Outcome of one repeat, without its body.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultOutcomeRow {
    pub key: ResultKey,
    pub status: String,
    pub score: Option<f64>,
    pub latency_ms: f64,
    pub token_cost: i64,
}

/// Which cases of a run to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaseFilter {
    /// `pass` (every result), `not_pass` (any other result), or a status that at least one result has.
    pub status: Option<String>,
    /// Text that the id or the title contains, in any letter case.
    pub text: Option<String>,
    pub tag: Option<String>,
    pub min_score: Option<f64>,
    pub max_score: Option<f64>,
    /// Whether repeats must disagree.
    pub flaky: bool,
    /// List only cases whose share of passed results differs from that of this run.
    pub changed_from: Option<String>,
}

/// Order of listed cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CaseSort {
    #[default]
    Case,
    Passed,
    Score,
    Latency,
    Tokens,
}

impl CaseSort {
    /// Expression that the rows are sorted by; `None` for the key itself.
    fn expression(self) -> Option<&'static str> {
        match self {
            Self::Case => None,
            Self::Passed => Some(PASS_SHARE),
            // Cases without a score come first in ascending order.
            Self::Score => Some("COALESCE(AVG(r.score), -1.0)"),
            Self::Latency => Some("AVG(r.latency_ms)"),
            Self::Tokens => Some("CAST(SUM(r.token_cost) AS DOUBLE PRECISION)"),
        }
    }

    /// Value of a row that continues the list after it.
    fn value(self, row: &CaseOutcomeRow) -> f64 {
        match self {
            Self::Case => 0.0,
            Self::Passed => row.passes as f64 / row.results as f64,
            Self::Score => row.score.unwrap_or(-1.0),
            Self::Latency => row.latency_ms,
            Self::Tokens => row.token_cost as f64,
        }
    }
}

/// Place in a list of cases: the sort value and the key of the last row.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseCursor {
    pub value: f64,
    pub case_id: String,
    pub variant: String,
}

/// Share of passed results of a case.
const PASS_SHARE: &str =
    "CAST(SUM(CASE WHEN r.status = 'pass' THEN 1 ELSE 0 END) AS DOUBLE PRECISION) / COUNT(*)";

const OUTCOME: &str = "SELECT r.case_id, r.variant, COUNT(*) AS results,
    SUM(CASE WHEN r.status = 'pass' THEN 1 ELSE 0 END) AS passes,
    SUM(CASE WHEN r.status IN ('fail', 'timeout') THEN 1 ELSE 0 END) AS failures,
    SUM(CASE WHEN r.status = 'error' THEN 1 ELSE 0 END) AS errors,
    AVG(r.score) AS score, AVG(r.latency_ms) AS latency_ms,
    CAST(SUM(r.token_cost) AS BIGINT) AS token_cost
    FROM bench_results r WHERE r.run_id = ";

impl Bench<'_> {
    /// Stores the cases of a run. A case with the same content is stored once for all runs.
    pub async fn put_run_cases(self, run_id: &str, cases: &[RunCaseRow]) -> Result<(), StoreError> {
        let now = now_micros();
        let tags: Vec<String> = cases.iter().map(|case| tag_list(&case.tags)).collect();
        let rows: Vec<_> = cases
            .iter()
            .zip(&tags)
            .map(|(case, tags)| values! { run_id, &case.case_id, &case.case_hash, &case.title, tags })
            .collect();
        // One statement must not write a row twice.
        let mut seen = std::collections::HashSet::new();
        let bodies: Vec<_> = cases
            .iter()
            .filter(|case| seen.insert(case.case_hash.as_str()))
            .filter_map(|case| Some(values! { &case.case_hash, case.body.as_deref()?, now }))
            .collect();
        in_transaction!(&self.0.pool, |connection| {
            let tail = " ON CONFLICT (case_hash) DO UPDATE SET used_at = excluded.used_at";
            connection
                .insert(
                    "INSERT INTO bench_cases (case_hash, body, used_at) ",
                    &bodies,
                    tail,
                )
                .await?;
            let head = "INSERT INTO bench_run_cases (run_id, case_id, case_hash, title, tags) ";
            let tail = " ON CONFLICT (run_id, case_id) DO NOTHING";
            connection.insert(head, &rows, tail).await?;
        })
    }

    /// Returns a case of a run with its content.
    pub async fn run_case(self, run_id: &str, case_id: &str) -> Result<Option<RunCaseRow>, StoreError> {
        let select = sql!(
            "SELECT c.case_id, c.case_hash, c.title, c.tags, b.body FROM bench_run_cases c
             LEFT JOIN bench_cases b ON b.case_hash = c.case_hash WHERE c.run_id = $1 AND c.case_id = $2";
            run_id, case_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref()
            .map(|row| run_case(row, row.get("body")?))
            .transpose()
    }

    /// Returns all cases of a run with their content, as JSON.
    pub async fn run_case_bodies(self, run_id: &str) -> Result<Vec<String>, StoreError> {
        let select = sql!(
            "SELECT b.body FROM bench_run_cases c JOIN bench_cases b ON b.case_hash = c.case_hash
             WHERE c.run_id = $1 ORDER BY c.case_id";
            run_id
        );
        first_column(&self.0.pool.rows(select).await?)
    }

    /// Returns the content of named cases of a run, as JSON.
    pub async fn case_bodies(self, run_id: &str, case_ids: &[&str]) -> Result<Vec<String>, StoreError> {
        if case_ids.is_empty() {
            return Ok(Vec::new());
        }
        let select = Sql::build(
            "SELECT b.body FROM bench_run_cases c JOIN bench_cases b ON b.case_hash = c.case_hash WHERE c.run_id = ",
        )
        .push_bind(run_id)
        .push(" AND c.case_id IN ")
        .push_list(case_ids.iter().map(|id| Value::from(*id)));
        first_column(&self.0.pool.rows(select).await?)
    }

    /// Returns the number of results of a run that a person labelled.
    pub async fn label_count(self, run_id: &str) -> Result<i64, StoreError> {
        let select = sql!(
            "SELECT COUNT(*) FROM bench_results WHERE run_id = $1 AND human_label IS NOT NULL
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)";
            run_id
        );
        self.0.pool.one(select).await?.get(0)
    }

    /// Returns complete results that a person labelled, as JSON, in order of their keys.
    pub async fn labelled_results(self, run_id: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let select = sql!(
            "SELECT body FROM bench_results WHERE run_id = $1 AND human_label IS NOT NULL
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)
             ORDER BY case_id, variant, repeat LIMIT $2";
            run_id, limit
        );
        first_column(&self.0.pool.rows(select).await?)
    }

    /// Returns complete results without a label after a key, as JSON, in order of their keys: pending ones, or all that
    /// may have a response.
    pub async fn unlabelled_results(
        self,
        run_id: &str,
        all: bool,
        after: Option<&ResultKey>,
        skip: u32,
        limit: u32,
    ) -> Result<Vec<(ResultKey, String)>, StoreError> {
        // The status is part of the text, so that the index of pending results is used.
        let status = if all {
            " AND status IN ('pass', 'fail', 'pending', 'error')"
        } else {
            " AND status = 'pending'"
        };
        let mut select =
            Sql::build("SELECT case_id, variant, repeat, body FROM bench_results WHERE run_id = ")
                .push_bind(run_id)
                .push(" AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = ")
                .push_bind(run_id)
                .push(") AND human_label IS NULL")
                .push(status);
        if let Some(after) = after {
            select = select
                .push(" AND (case_id, variant, repeat) > ")
                .push_list(values! { &after.case_id, &after.variant, after.repeat });
        }
        let select = select
            .push(" ORDER BY case_id, variant, repeat LIMIT ")
            .push_bind(limit)
            .push(" OFFSET ")
            .push_bind(skip);
        let rows = self.0.pool.rows(select).await?;
        rows.iter()
            .map(|row| Ok((result_key(row)?, row.get("body")?)))
            .collect()
    }

    /// Returns the ids of cases with at least one result that did not pass, in order.
    pub async fn failed_cases(self, run_id: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let select = sql!(
            "SELECT DISTINCT case_id FROM bench_results WHERE run_id = $1 AND status IN ('fail', 'error', 'timeout')
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)
             ORDER BY case_id LIMIT $2";
            run_id, limit
        );
        first_column(&self.0.pool.rows(select).await?)
    }

    /// Returns recent runs that have results pending for a person or a judge, with the number of such results.
    pub async fn pending_runs(self, runs: &[&str]) -> Result<Vec<(String, i64)>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        // Counted for each run, so that only its partition is read.
        let select = Sql::build(
            "SELECT run_id, (SELECT COUNT(*) FROM bench_results r WHERE r.run_id = bench_runs.run_id
                 AND r.partition_at = bench_runs.partition_at AND r.status = 'pending') AS pending
             FROM bench_runs WHERE run_id IN ",
        )
        .push_list(runs.iter().map(|id| Value::from(*id)))
        .push(" ORDER BY run_id DESC");
        let rows = self.0.pool.rows(select).await?;
        let mut pending = Vec::new();
        for row in &rows {
            let results: i64 = row.get(1)?;
            if results > 0 {
                pending.push((row.get(0)?, results));
            }
        }
        Ok(pending)
    }

    /// Returns the ids of the suites that have runs, in order.
    pub async fn suite_ids(self, limit: u32) -> Result<Vec<String>, StoreError> {
        // Jumps from suite to suite through the index; `DISTINCT` would read every run.
        let select = sql!(
            "WITH RECURSIVE suites (suite_id) AS (
                 SELECT MIN(suite_id) FROM bench_runs
                 UNION ALL
                 SELECT (SELECT MIN(r.suite_id) FROM bench_runs r WHERE r.suite_id > s.suite_id)
                 FROM suites s WHERE s.suite_id IS NOT NULL
             )
             SELECT suite_id FROM suites WHERE suite_id IS NOT NULL LIMIT $1";
            limit
        );
        first_column(&self.0.pool.rows(select).await?)
    }

    /// Returns which of these runs are stored.
    pub async fn existing_runs(self, runs: &[&str]) -> Result<Vec<String>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let select = Sql::build("SELECT run_id FROM bench_runs WHERE run_id IN ")
            .push_list(runs.iter().map(|id| Value::from(*id)));
        first_column(&self.0.pool.rows(select).await?)
    }

    /// Returns the intervals of the pass rates of runs, where known: id, lower and upper bound.
    pub async fn pass_intervals(self, runs: &[&str]) -> Result<Vec<(String, f64, f64)>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let select = Sql::build("SELECT run_id, pass_low, pass_high FROM bench_runs WHERE run_id IN ")
            .push_list(runs.iter().map(|id| Value::from(*id)))
            .push(" AND pass_low IS NOT NULL AND pass_high IS NOT NULL");
        let rows = self.0.pool.rows(select).await?;
        rows.iter()
            .map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .collect()
    }

    /// Adds a note of a person to a run.
    pub async fn put_note(self, note: &NoteRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO bench_notes (note_id, run_id, author, note, created_at) VALUES ($1, $2, $3, $4, $5)";
            &note.note_id, &note.run_id, &note.author, &note.note, note.created_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Returns the notes on a run, oldest first.
    pub async fn notes(self, run_id: &str, limit: u32) -> Result<Vec<NoteRow>, StoreError> {
        let select = sql!(
            "SELECT note_id, run_id, author, note, created_at FROM bench_notes WHERE run_id = $1
             ORDER BY created_at, note_id LIMIT $2";
            run_id, limit
        );
        let rows = self.0.pool.rows(select).await?;
        let note = |row: &Row| Ok(columns!(row => NoteRow { note_id, run_id, author, note, created_at }));
        rows.iter().map(note).collect()
    }

    /// Returns the named cases of a run without their content.
    pub async fn run_cases(self, run_id: &str, case_ids: &[&str]) -> Result<Vec<RunCaseRow>, StoreError> {
        if case_ids.is_empty() {
            return Ok(Vec::new());
        }
        let select =
            Sql::build("SELECT case_id, case_hash, title, tags FROM bench_run_cases WHERE run_id = ")
                .push_bind(run_id)
                .push(" AND case_id IN ")
                .push_list(case_ids.iter().map(|id| Value::from(*id)));
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(|row| run_case(row, None)).collect()
    }

    /// Lists cases of a run with their outcomes, after a cursor.
    pub async fn case_outcomes(
        self,
        run_id: &str,
        filter: &CaseFilter,
        (sort, descending): (CaseSort, bool),
        after: Option<&CaseCursor>,
        limit: u32,
    ) -> Result<Vec<CaseOutcomeRow>, StoreError> {
        let mut select = outcomes(run_id);
        let beyond = if descending { " < " } else { " > " };
        if let (None, Some(after)) = (sort.expression(), after) {
            // In key order the scan starts at the cursor.
            select = select
                .push(" AND (r.case_id, r.variant)")
                .push(beyond)
                .push_list(values! { &after.case_id, &after.variant });
        }
        select = filter_rows(select, filter, run_id).push(" GROUP BY r.case_id, r.variant");
        select = filter_groups(select, filter);
        if let (Some(expression), Some(after)) = (sort.expression(), after) {
            select = select
                .push(" AND (")
                .push(expression)
                .push(", r.case_id, r.variant)")
                .push(beyond)
                .push_list(values! { after.value, &after.case_id, &after.variant });
        }
        let direction = if descending { " DESC" } else { "" };
        select = select.push(" ORDER BY ");
        if let Some(expression) = sort.expression() {
            select = select.push(expression).push(direction).push(", ");
        }
        select = select
            .push("r.case_id")
            .push(direction)
            .push(", r.variant")
            .push(direction);
        let select = select.push(" LIMIT ").push_bind(limit);
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(case_outcome).collect()
    }

    /// Returns the outcomes of named cases of a run.
    pub async fn outcomes_of(
        self,
        run_id: &str,
        case_ids: &[&str],
    ) -> Result<Vec<CaseOutcomeRow>, StoreError> {
        if case_ids.is_empty() {
            return Ok(Vec::new());
        }
        let select = outcomes(run_id)
            .push(" AND r.case_id IN ")
            .push_list(case_ids.iter().map(|id| Value::from(*id)))
            .push(" GROUP BY r.case_id, r.variant ORDER BY r.case_id, r.variant");
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(case_outcome).collect()
    }

    /// Lists the results of a case, in order of variant and repeat.
    pub async fn case_results(
        self,
        run_id: &str,
        case_id: &str,
        limit: u32,
    ) -> Result<Vec<ResultOutcomeRow>, StoreError> {
        let select = sql!(
            "SELECT case_id, variant, repeat, status, score, latency_ms, token_cost FROM bench_results
             WHERE run_id = $1 AND case_id = $2
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)
             ORDER BY variant, repeat LIMIT $3";
            run_id, case_id, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter()
            .map(|row| {
                Ok(columns!(row => ResultOutcomeRow { status, score, latency_ms, token_cost; key: result_key(row)? }))
            })
            .collect()
    }

    /// Returns the complete result under a key, as JSON.
    pub async fn result_body(self, run_id: &str, key: &ResultKey) -> Result<Option<String>, StoreError> {
        let select = sql!(
            "SELECT body FROM bench_results WHERE run_id = $1 AND case_id = $2 AND variant = $3 AND repeat = $4
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)";
            run_id, &key.case_id, &key.variant, key.repeat
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| row.get(0)).transpose()
    }

    /// Returns the ids of the cases before and after a case, in order of their ids.
    pub async fn neighbor_cases(
        self,
        run_id: &str,
        case_id: &str,
    ) -> Result<(Option<String>, Option<String>), StoreError> {
        let before = sql!(
            "SELECT case_id FROM bench_results WHERE run_id = $1 AND case_id < $2
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)
             ORDER BY case_id DESC LIMIT 1";
            run_id, case_id
        );
        let after = sql!(
            "SELECT case_id FROM bench_results WHERE run_id = $1 AND case_id > $2
             AND partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = $1)
             ORDER BY case_id LIMIT 1";
            run_id, case_id
        );
        let before = self.0.pool.row(before).await?;
        let after = self.0.pool.row(after).await?;
        Ok((
            before.map(|row| row.get(0)).transpose()?,
            after.map(|row| row.get(0)).transpose()?,
        ))
    }

    /// Returns the latest gate decision about a run: its id, the id of the baseline run and the verdict.
    pub async fn gate_about(
        self,
        candidate_run: &str,
    ) -> Result<Option<(String, String, String)>, StoreError> {
        let select = sql!(
            "SELECT gate_id, baseline_run, verdict FROM bench_gates WHERE candidate_run = $1
             ORDER BY decided_at DESC, gate_id DESC LIMIT 1";
            candidate_run
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .transpose()
    }

    /// Returns the id of the latest complete run of a suite that started before a time. Ablations have no pass rate
    /// and are left out.
    pub async fn previous_run(self, suite_id: &str, before: i64) -> Result<Option<String>, StoreError> {
        let select = sql!(
            "SELECT run_id FROM bench_runs WHERE suite_id = $1 AND started_at < $2 AND pass_rate IS NOT NULL
             ORDER BY started_at DESC, run_id DESC LIMIT 1";
            suite_id, before
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| row.get(0)).transpose()
    }

    /// Returns the summary of a run as JSON text, which may be large.
    pub async fn summary_json(self, run_id: &str) -> Result<Option<String>, StoreError> {
        let select = sql!("SELECT summary FROM bench_runs WHERE run_id = $1"; run_id);
        let row = self.0.pool.row(select).await?;
        row.map_or(Ok(None), |row| row.get(0))
    }

    /// Returns a run without its summary.
    pub async fn run_head(self, run_id: &str) -> Result<Option<BenchRunRow>, StoreError> {
        let select = sql!(
            "SELECT run_id, suite_id, suite_hash, target, started_at, completed_at, config_snapshot, pass_rate
             FROM bench_runs WHERE run_id = $1";
            run_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(run_head).transpose()
    }

    /// Lists runs of a suite, or of all suites, without their summaries, newest first, after a cursor (start time, id).
    pub async fn run_heads(
        self,
        suite_id: Option<&str>,
        before: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<Vec<BenchRunRow>, StoreError> {
        let (at, id) = before.unwrap_or((i64::MAX, "\u{10FFFF}"));
        let mut select = Sql::build(
            "SELECT run_id, suite_id, suite_hash, target, started_at, completed_at, config_snapshot, pass_rate
             FROM bench_runs WHERE (started_at, run_id) < ",
        )
        .push_list(values! { at, id });
        if let Some(suite) = suite_id {
            select = select.push(" AND suite_id = ").push_bind(suite);
        }
        let select = select
            .push(" ORDER BY started_at DESC, run_id DESC LIMIT ")
            .push_bind(limit);
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(run_head).collect()
    }
}

/// Which runs to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFilter {
    pub suite_id: Option<String>,
    /// Text that the suite, the target or the id contains, in any letter case.
    pub text: Option<String>,
    pub complete: Option<bool>,
    /// List only runs with at most this pass rate, from 0 to 1.
    pub max_pass_rate: Option<f64>,
}

/// Starts a query for the outcomes of a run's cases, which reads only the run's partition.
fn outcomes(run_id: &str) -> Sql<'_> {
    Sql::build(OUTCOME)
        .push_bind(run_id)
        .push(" AND r.partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = ")
        .push_bind(run_id)
        .push(")")
}

/// Cursor after the last row of a list.
pub fn case_cursor(sort: CaseSort, row: &CaseOutcomeRow) -> CaseCursor {
    CaseCursor {
        value: sort.value(row),
        case_id: row.case_id.clone(),
        variant: row.variant.clone(),
    }
}

/// Conditions on cases, which a scan checks before it groups.
fn filter_rows<'a>(mut select: Sql<'a>, filter: &'a CaseFilter, run_id: &'a str) -> Sql<'a> {
    const CASE: &str = "SELECT 1 FROM bench_run_cases c WHERE c.case_id = r.case_id AND c.run_id = ";
    if let Some(text) = &filter.text {
        let pattern = like_pattern(text);
        select = select
            .push(" AND (LOWER(r.case_id) LIKE ")
            .push_bind(pattern.clone())
            .push(" ESCAPE '!' OR EXISTS (")
            .push(CASE)
            .push_bind(run_id)
            .push(" AND LOWER(c.title) LIKE ")
            .push_bind(pattern)
            .push(" ESCAPE '!'))");
    }
    if let Some(tag) = &filter.tag {
        let quoted = serde_json::Value::from(tag.as_str()).to_string();
        select = select
            .push(" AND EXISTS (")
            .push(CASE)
            .push_bind(run_id)
            .push(" AND c.tags LIKE ")
            .push_bind(format!("%{}%", escape_like(&quoted)))
            .push(" ESCAPE '!')");
    }
    select
}

/// Conditions on outcomes over all repeats.
fn filter_groups<'a>(select: Sql<'a>, filter: &'a CaseFilter) -> Sql<'a> {
    const PASSES: &str = "SUM(CASE WHEN r.status = 'pass' THEN 1 ELSE 0 END)";
    let mut select = select.push(" HAVING COUNT(*) > 0");
    match filter.status.as_deref() {
        None => {}
        Some("pass") => select = select.push(" AND ").push(PASSES).push(" = COUNT(*)"),
        Some("not_pass") => select = select.push(" AND ").push(PASSES).push(" < COUNT(*)"),
        Some(status) => {
            select = select
                .push(" AND SUM(CASE WHEN r.status = ")
                .push_bind(status)
                .push(" THEN 1 ELSE 0 END) > 0");
        }
    }
    if let Some(min) = filter.min_score {
        select = select.push(" AND AVG(r.score) >= ").push_bind(min);
    }
    if let Some(max) = filter.max_score {
        select = select.push(" AND AVG(r.score) <= ").push_bind(max);
    }
    if filter.flaky {
        select = select
            .push(" AND ")
            .push(PASSES)
            .push(" > 0 AND SUM(CASE WHEN r.status IN ('fail', 'timeout') THEN 1 ELSE 0 END) > 0");
    }
    if let Some(run) = &filter.changed_from {
        select = select
            .push(
                " AND (SELECT CAST(SUM(CASE WHEN o.status = 'pass' THEN 1 ELSE 0 END) AS DOUBLE PRECISION) / COUNT(*)
                 FROM bench_results o WHERE o.case_id = r.case_id AND o.variant = r.variant AND o.run_id = ",
            )
            .push_bind(run.as_str())
            .push(" AND o.partition_at = (SELECT partition_at FROM bench_runs WHERE run_id = ")
            .push_bind(run.as_str())
            .push(")) IS DISTINCT FROM ")
            .push(PASS_SHARE);
    }
    select
}

fn tag_list(tags: &[String]) -> String {
    serde_json::Value::from(tags.to_vec()).to_string()
}

/// Pattern for texts that contain `text`, in lower case.
pub(crate) fn like_pattern(text: &str) -> String {
    format!("%{}%", escape_like(&text.to_lowercase()))
}

fn escape_like(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '!') {
            escaped.push('!');
        }
        escaped.push(letter);
    }
    escaped
}

fn case_outcome(row: &Row) -> Result<CaseOutcomeRow, StoreError> {
    Ok(columns!(row => CaseOutcomeRow {
        case_id, variant, results, passes, failures, errors, score, latency_ms, token_cost
    }))
}

fn run_case(row: &Row, body: Option<String>) -> Result<RunCaseRow, StoreError> {
    let case_id: String = row.get("case_id")?;
    let tags = row.list("tags", format_args!("the tags of case {case_id}"))?;
    Ok(columns!(row => RunCaseRow { case_hash, title; case_id, tags, body }))
}

pub(crate) fn run_head(row: &Row) -> Result<BenchRunRow, StoreError> {
    let id: String = row.get("run_id")?;
    let config_snapshot = row.json("config_snapshot", format_args!("the configuration of run {id}"))?;
    Ok(columns!(row => BenchRunRow {
        suite_id, suite_hash, target, started_at, completed_at, pass_rate;
        run_id: id, config_snapshot, summary: None
    }))
}
