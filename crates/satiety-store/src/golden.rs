//! Golden data: queries of the evaluation corpus, annotations, and answers of systems to which the corpus was
//! replayed. Only storage; decisions are made elsewhere.

use serde_json::Value;

use crate::evaluation::{EvalJudgmentRow, Evaluation, FIGURES};
use crate::memory::{FeedbackRow, feedback};
use crate::partitions::time_of_id;
use crate::pool::{Connection, in_transaction};
use crate::sql::{BATCH, Fault, Row, Sql, columns, sql, values};
use crate::{StoreError, now_micros};

/// Marks a logged query as part of the corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusMark {
    pub query_id: String,
    /// Category in the corpus.
    pub category: String,
    /// New detail of the query.
    pub detail: Value,
}

/// An annotator's judgment of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationRow {
    pub query_id: String,
    pub memory_id: String,
    pub annotator: String,
    /// Relevance grade; `None` if the annotator could not decide.
    pub relevance: Option<i64>,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
}

/// A system's answer to a query of the corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    pub run_id: String,
    pub query_id: String,
    /// System that was queried.
    pub system: String,
    /// Results, best first: `[{"memoryId": …, "channels": {…}}]`.
    pub results: Value,
    pub latency_ms: Option<f64>,
    /// Error message of a failed query.
    pub error: Option<String>,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Further data, such as the results without the session.
    pub detail: Option<Value>,
}

/// A stored measured run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    pub run_id: String,
    /// Type of run: `full`, `shadow`, `regression` or `ab_test`.
    pub run_type: String,
    /// Metrics by column name.
    pub figures: Vec<(String, f64)>,
    /// Number of queries in the metrics.
    pub query_count: i64,
    /// Id of the control run, if it was compared.
    pub control_run_id: Option<String>,
    /// Whether the difference to the control is significant.
    pub is_significant: Option<bool>,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Full report.
    pub report: Value,
}

/// Writes or removes the manual judgment of a result, in the transaction of its annotation.
async fn settle(
    connection: &mut Connection,
    row: &AnnotationRow,
    judgment: Option<&EvalJudgmentRow>,
) -> Result<(), Fault> {
    let statement = match judgment {
        Some(judgment) => sql!(
            "INSERT INTO eval_judgments (query_id, memory_id, source, relevance, annotator, confidence, created_at)
             VALUES ($1, $2, 'manual', $3, $4, $5, $6)
             ON CONFLICT (query_id, memory_id, source) DO UPDATE SET relevance = excluded.relevance,
                 annotator = excluded.annotator, confidence = excluded.confidence";
            &judgment.query_id, &judgment.memory_id, judgment.relevance, &judgment.annotator,
            judgment.confidence, now_micros()
        ),
        None => sql!(
            "DELETE FROM eval_judgments WHERE query_id = $1 AND memory_id = $2 AND source = 'manual'";
            &row.query_id, &row.memory_id
        ),
    };
    connection.execute(statement).await.map(drop)
}

impl Evaluation<'_> {
    /// Marks logged queries as part of the corpus, atomically.
    pub async fn mark_corpus(self, marks: &[CorpusMark]) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            for mark in marks {
                let update = sql!(
                    "UPDATE eval_queries SET is_eval_corpus = TRUE, eval_category = $1, detail = $2, partition_at = 0
                     WHERE query_id = $3 AND partition_at IN (0, $4)";
                    &mark.category, mark.detail.to_string(), &mark.query_id, time_of_id(&mark.query_id)
                );
                connection.execute(update).await?;
            }
        })
    }

    /// Returns the feedback on results of queries, oldest first.
    pub async fn feedback_of_queries(self, ids: &[String]) -> Result<Vec<FeedbackRow>, StoreError> {
        let mut all = Vec::new();
        for batch in ids.chunks(BATCH) {
            let select = Sql::build(
                "SELECT feedback_id, event_type, session_id, query_id, memory_id, rank_in_results, metadata,
                     created_at FROM eval_feedback WHERE query_id IN ",
            );
            let select = select
                .push_list(batch.iter().map(Into::into))
                .push(" ORDER BY created_at, feedback_id");
            let rows = self.0.pool.rows(select).await?;
            all.extend(rows.iter().map(feedback).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// Replaces all judgments of these queries with this source and annotator, atomically. Returns how many of
    /// the earlier ones are gone.
    pub async fn replace_judgments(
        self,
        queries: &[String],
        source: &str,
        annotator: &str,
        judgments: &[EvalJudgmentRow],
    ) -> Result<u64, StoreError> {
        let now = now_micros();
        let rows: Vec<_> = judgments
            .iter()
            .map(|row| {
                values! {
                    &row.query_id, &row.memory_id, &row.source, row.relevance, &row.annotator, row.confidence,
                    now
                }
            })
            .collect();
        in_transaction!(&self.0.pool, |connection| {
            let mut removed = 0;
            for query in queries {
                let delete = sql!(
                    "DELETE FROM eval_judgments WHERE query_id = $1 AND source = $2 AND annotator = $3";
                    query, source, annotator
                );
                removed += connection.execute(delete).await?;
            }
            let head = "INSERT INTO eval_judgments (query_id, memory_id, source, relevance, annotator, confidence, created_at) ";
            let tail =
                " ON CONFLICT (query_id, memory_id, source) DO UPDATE SET relevance = excluded.relevance,
                 annotator = excluded.annotator, confidence = excluded.confidence";
            connection.insert(head, &rows, tail).await?;
            removed.saturating_sub(rows.len() as u64)
        })
    }

    /// Stores an annotation, replacing an earlier one, with the resulting judgment of all annotators.
    pub async fn put_annotation(
        self,
        row: &AnnotationRow,
        judgment: Option<&EvalJudgmentRow>,
    ) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let insert = sql!(
                "INSERT INTO eval_annotations (query_id, memory_id, annotator, relevance, created_at)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (query_id, memory_id, annotator) DO UPDATE SET relevance = excluded.relevance,
                     created_at = excluded.created_at";
                &row.query_id, &row.memory_id, &row.annotator, row.relevance, row.created_at
            );
            connection.execute(insert).await?;
            settle(connection, row, judgment).await?;
        })
    }

    /// Removes an annotation; the judgment is derived from the remaining ones.
    pub async fn remove_annotation(
        self,
        row: &AnnotationRow,
        judgment: Option<&EvalJudgmentRow>,
    ) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let delete = sql!(
                "DELETE FROM eval_annotations WHERE query_id = $1 AND memory_id = $2 AND annotator = $3";
                &row.query_id, &row.memory_id, &row.annotator
            );
            connection.execute(delete).await?;
            settle(connection, row, judgment).await?;
        })
    }

    /// Returns all annotations in chronological order.
    pub async fn annotations(self) -> Result<Vec<AnnotationRow>, StoreError> {
        let select = sql!(
            "SELECT query_id, memory_id, annotator, relevance, created_at FROM eval_annotations
             ORDER BY created_at, query_id, memory_id, annotator"
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            Ok(columns!(row => AnnotationRow { query_id, memory_id, annotator, relevance, created_at }))
        };
        rows.iter().map(row).collect()
    }

    /// Stores an answer, replacing one to the same query in the same run.
    pub async fn put_answer(self, row: &AnswerRow) -> Result<(), StoreError> {
        let results = row.results.to_string();
        let insert = sql!(
            "INSERT INTO eval_answers (run_id, query_id, system, results, latency_ms, error, created_at, detail)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (run_id, query_id) DO UPDATE SET system = excluded.system, results = excluded.results,
                 latency_ms = excluded.latency_ms, error = excluded.error, created_at = excluded.created_at,
                 detail = excluded.detail";
            &row.run_id, &row.query_id, &row.system, &results, row.latency_ms, row.error.as_deref(),
            row.created_at, row.detail.as_ref().map(Value::to_string)
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Returns the answers of a run, ordered by query.
    pub async fn answers(self, run_id: &str) -> Result<Vec<AnswerRow>, StoreError> {
        let select = sql!(
            "SELECT run_id, query_id, system, results, latency_ms, error, created_at, detail FROM eval_answers
             WHERE run_id = $1 ORDER BY query_id";
            run_id
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(answer).collect()
    }

    /// Returns the latest runs with answers, newest first: id, system, number of answers, and whether the run
    /// was measured; one that was not is unfinished.
    pub async fn runs_with_answers(self, limit: u32) -> Result<Vec<(String, String, i64, bool)>, StoreError> {
        let select = sql!(
            "SELECT a.run_id, MIN(a.system), COUNT(*), COUNT(r.run_id) FROM eval_answers a
             LEFT JOIN eval_results r ON r.run_id = a.run_id
             GROUP BY a.run_id ORDER BY MAX(a.created_at) DESC, a.run_id DESC LIMIT $1";
            limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<i64>(3)? > 0));
        rows.iter().map(row).collect()
    }

    /// Returns the latest measured runs, newest first.
    pub async fn results(self, limit: u32) -> Result<Vec<StoredResult>, StoreError> {
        self.stored_results(None, limit).await
    }

    /// Returns a measured run.
    pub async fn result(self, run_id: &str) -> Result<Option<StoredResult>, StoreError> {
        Ok(self.stored_results(Some(run_id), 1).await?.pop())
    }

    /// Returns the values of a measured run by query, if stored.
    pub async fn results_by_query(self, run_id: &str) -> Result<Option<Value>, StoreError> {
        let select = sql!("SELECT per_query_results FROM eval_results WHERE run_id = $1"; run_id);
        let row = self.0.pool.row(select).await?;
        row.map(|row| row.json("per_query_results", format_args!("the queries of run {run_id}")))
            .transpose()
    }

    /// Returns relevant memories (grade above 0) of the judged ones among these queries: query and memory.
    pub async fn relevant_memories(self, queries: &[String]) -> Result<Vec<(String, String)>, StoreError> {
        let mut rows = Vec::new();
        for batch in queries.chunks(BATCH) {
            let select = Sql::build(
                "SELECT query_id, memory_id FROM eval_judgments WHERE relevance > 0 AND query_id IN ",
            )
            .push_list(batch.iter().map(Into::into))
            .push(" GROUP BY query_id, memory_id ORDER BY query_id, memory_id");
            for row in self.0.pool.rows(select).await? {
                rows.push((row.get(0)?, row.get(1)?));
            }
        }
        Ok(rows)
    }

    async fn stored_results(self, run: Option<&str>, limit: u32) -> Result<Vec<StoredResult>, StoreError> {
        let columns = FIGURES.join(", ");
        let mut select = Sql::build(&format!(
            "SELECT run_id, run_type, query_count, control_run_id, is_significant, created_at, report, {columns}
             FROM eval_results"
        ));
        if let Some(run) = run {
            select = select.push(" WHERE run_id = ").push_bind(run);
        }
        let select = select
            .push(" ORDER BY created_at DESC, run_id DESC LIMIT ")
            .push_bind(limit);
        self.0
            .pool
            .rows(select)
            .await?
            .iter()
            .map(stored_result)
            .collect()
    }
}

fn stored_result(row: &Row) -> Result<StoredResult, StoreError> {
    let mut figures = Vec::new();
    for name in FIGURES {
        let value: Option<f64> = row.get(name)?;
        figures.extend(value.map(|value| (name.to_owned(), value)));
    }
    let id: String = row.get("run_id")?;
    let report = row.json("report", format_args!("the report of run {id}"))?;
    Ok(columns!(row => StoredResult {
        run_type, query_count, control_run_id, is_significant, created_at;
        run_id: id, figures, report
    }))
}

fn answer(row: &Row) -> Result<AnswerRow, StoreError> {
    let (run_id, query_id): (String, String) = (row.get("run_id")?, row.get("query_id")?);
    let results = row.json(
        "results",
        format_args!("the answer to {query_id} in run {run_id}"),
    )?;
    let detail = row.optional_json(
        "detail",
        format_args!("the detail of the answer to {query_id} in run {run_id}"),
    )?;
    Ok(
        columns!(row => AnswerRow { system, latency_ms, error, created_at; run_id, query_id, results, detail }),
    )
}
