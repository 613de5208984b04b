//! Golden data: which logged queries belong to the evaluation corpus, what each annotator said, and what systems answered
//! when the corpus was replayed. What follows from any of it is not decided here.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{QueryBuilder, Row};

use crate::evaluation::{EvalJudgmentRow, Evaluation, FIGURES};
use crate::memory::FeedbackRow;
use crate::pool::{in_transaction, reading};
use crate::{StoreError, now_micros, storable};

/// Rows that go with one statement.
const BATCH: usize = 500;

/// A logged query that is taken into the corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusMark {
    /// Which one.
    pub query_id: String,
    /// Its category there.
    pub category: String,
    /// What is known about it from now on.
    pub detail: Value,
}

/// What an annotator said about a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnotationRow {
    /// The query.
    pub query_id: String,
    /// The document.
    pub memory_id: String,
    /// Who.
    pub annotator: String,
    /// The grade; absent where they could not say.
    pub relevance: Option<i64>,
    /// When, in microseconds since 1970.
    pub created_at: i64,
}

/// What a system answered to a query of the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// The run.
    pub run_id: String,
    /// The query.
    pub query_id: String,
    /// Which system, as it was asked.
    pub system: String,
    /// The results, best first: `[{"memoryId": …, "channels": {…}}]`.
    pub results: Value,
    /// How long it took.
    pub latency_ms: Option<f64>,
    /// Why there is no answer.
    pub error: Option<String>,
    /// When, in microseconds since 1970.
    pub created_at: i64,
}

/// A measured run, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    /// Its id.
    pub run_id: String,
    /// Why it was measured.
    pub run_type: String,
    /// The figures that it has, by the names of their columns.
    pub figures: Vec<(String, f64)>,
    /// Queries that counted.
    pub query_count: i64,
    /// What it was compared with.
    pub control_run_id: Option<String>,
    /// Whether the difference is significant.
    pub is_significant: Option<bool>,
    /// When, in microseconds since 1970.
    pub created_at: i64,
    /// The whole report.
    pub report: Value,
}

type FeedbackColumns = (
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    Option<i64>,
    String,
    i64,
);
type AnswerColumns = (String, String, String, String, Option<f64>, Option<String>, i64);

/// Writes or takes away the manual judgment of a result, in the transaction of the annotation that it follows from.
macro_rules! settle {
    ($connection:expr, $row:expr, $judgment:expr) => {
        match $judgment {
            Some(judgment) => {
                sqlx::query(
                    "INSERT INTO eval_judgments
                         (query_id, memory_id, source, relevance, annotator, confidence, created_at)
                     VALUES ($1, $2, 'manual', $3, $4, $5, $6)
                     ON CONFLICT (query_id, memory_id, source) DO UPDATE SET relevance = excluded.relevance,
                         annotator = excluded.annotator, confidence = excluded.confidence",
                )
                .bind(storable(&judgment.query_id))
                .bind(storable(&judgment.memory_id))
                .bind(judgment.relevance)
                .bind(judgment.annotator.as_deref().map(storable))
                .bind(judgment.confidence)
                .bind(now_micros())
                .execute(&mut *$connection)
                .await?;
            }
            None => {
                sqlx::query(
                    "DELETE FROM eval_judgments WHERE query_id = $1 AND memory_id = $2 AND source = 'manual'",
                )
                .bind(storable(&$row.query_id))
                .bind(storable(&$row.memory_id))
                .execute(&mut *$connection)
                .await?;
            }
        }
    };
}

impl Evaluation<'_> {
    /// Takes logged queries into the corpus, all of them or none.
    pub async fn mark_corpus(self, marks: &[CorpusMark]) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            for mark in marks {
                sqlx::query(
                    "UPDATE eval_queries SET is_eval_corpus = TRUE, eval_category = $1, detail = $2 WHERE query_id = $3",
                )
                .bind(storable(&mark.category))
                .bind(storable(&mark.detail.to_string()).into_owned())
                .bind(storable(&mark.query_id))
                .execute(&mut *connection)
                .await?;
            }
        })
    }

    /// What was done with the results of queries, oldest first.
    pub async fn feedback_of_queries(self, ids: &[String]) -> Result<Vec<FeedbackRow>, StoreError> {
        let mut rows: Vec<FeedbackColumns> = Vec::new();
        for batch in ids.chunks(BATCH) {
            let found: Vec<FeedbackColumns> = reading!(&self.0.pool, |connection| {
                let mut select = QueryBuilder::new(
                    "SELECT feedback_id, event_type, session_id, query_id, memory_id, rank_in_results, metadata,
                         created_at FROM eval_feedback WHERE query_id IN (",
                );
                let mut list = select.separated(", ");
                for id in batch {
                    list.push_bind(storable(id));
                }
                select.push(") ORDER BY created_at, feedback_id");
                select.build_query_as().fetch_all(connection).await?
            })?;
            rows.extend(found);
        }
        rows.into_iter()
            .map(
                |(feedback_id, event_type, session_id, query_id, memory_id, rank, metadata, created_at)| {
                    Ok(FeedbackRow {
                        metadata: self
                            .0
                            .parse_json(&metadata, || format!("feedback {feedback_id}"))?,
                        feedback_id,
                        event_type,
                        session_id,
                        query_id,
                        memory_id,
                        rank_in_results: rank,
                        created_at,
                    })
                },
            )
            .collect()
    }

    /// Keeps what an annotator said, over what they said before, with the judgment that follows from what all have said.
    pub async fn put_annotation(
        self,
        row: &AnnotationRow,
        judgment: Option<&EvalJudgmentRow>,
    ) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO eval_annotations (query_id, memory_id, annotator, relevance, created_at)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (query_id, memory_id, annotator) DO UPDATE SET relevance = excluded.relevance,
                     created_at = excluded.created_at",
            )
            .bind(storable(&row.query_id))
            .bind(storable(&row.memory_id))
            .bind(storable(&row.annotator))
            .bind(row.relevance)
            .bind(row.created_at)
            .execute(&mut *connection)
            .await?;
            settle!(connection, row, judgment);
        })
    }

    /// Takes back what an annotator said; the judgment becomes what follows from what the others have said.
    pub async fn remove_annotation(
        self,
        row: &AnnotationRow,
        judgment: Option<&EvalJudgmentRow>,
    ) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "DELETE FROM eval_annotations WHERE query_id = $1 AND memory_id = $2 AND annotator = $3",
            )
            .bind(storable(&row.query_id))
            .bind(storable(&row.memory_id))
            .bind(storable(&row.annotator))
            .execute(&mut *connection)
            .await?;
            settle!(connection, row, judgment);
        })
    }

    /// Everything that annotators said, in the order in which they said it.
    pub async fn annotations(self) -> Result<Vec<AnnotationRow>, StoreError> {
        let rows: Vec<(String, String, String, Option<i64>, i64)> =
            reading!(&self.0.pool, |connection| sqlx::query_as(
                "SELECT query_id, memory_id, annotator, relevance, created_at FROM eval_annotations
                 ORDER BY created_at, query_id, memory_id, annotator"
            )
            .fetch_all(connection)
            .await?)?;
        let row = |(query_id, memory_id, annotator, relevance, created_at)| AnnotationRow {
            query_id,
            memory_id,
            annotator,
            relevance,
            created_at,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Keeps an answer, over the one to the same query in the same run.
    pub async fn put_answer(self, row: &AnswerRow) -> Result<(), StoreError> {
        let results = row.results.to_string();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO eval_answers (run_id, query_id, system, results, latency_ms, error, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)
                 ON CONFLICT (run_id, query_id) DO UPDATE SET system = excluded.system, results = excluded.results,
                     latency_ms = excluded.latency_ms, error = excluded.error, created_at = excluded.created_at",
            )
            .bind(storable(&row.run_id))
            .bind(storable(&row.query_id))
            .bind(storable(&row.system))
            .bind(storable(&results))
            .bind(row.latency_ms)
            .bind(row.error.as_deref().map(storable))
            .bind(row.created_at)
            .execute(&mut *connection)
            .await?;
        })
    }

    /// The answers of a run, in the order of queries.
    pub async fn answers(self, run_id: &str) -> Result<Vec<AnswerRow>, StoreError> {
        let rows: Vec<AnswerColumns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT run_id, query_id, system, results, latency_ms, error, created_at FROM eval_answers
             WHERE run_id = $1 ORDER BY query_id"
        )
        .bind(storable(run_id))
        .fetch_all(connection)
        .await?)?;
        rows.into_iter().map(|row| self.answer_row(row)).collect()
    }

    /// The ids of the latest runs that have answers, newest first, with the system, the number of answers, and whether
    /// the run was measured: one that was not is unfinished.
    pub async fn runs_with_answers(self, limit: u32) -> Result<Vec<(String, String, i64, bool)>, StoreError> {
        let rows: Vec<(String, String, i64, i64)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT a.run_id, MIN(a.system), COUNT(*), COUNT(r.run_id) FROM eval_answers a
             LEFT JOIN eval_results r ON r.run_id = a.run_id
             GROUP BY a.run_id ORDER BY MAX(a.created_at) DESC, a.run_id DESC LIMIT $1"
        )
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?)?;
        let row = |(run, system, answers, measured): (String, String, i64, i64)| {
            (run, system, answers, measured > 0)
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// The latest measured runs, newest first.
    pub async fn results(self, limit: u32) -> Result<Vec<StoredResult>, StoreError> {
        self.stored_results(None, limit).await
    }

    /// A measured run.
    pub async fn result(self, run_id: &str) -> Result<Option<StoredResult>, StoreError> {
        Ok(self.stored_results(Some(run_id), 1).await?.pop())
    }

    /// What a measured run got for each query, where that was kept.
    pub async fn results_by_query(self, run_id: &str) -> Result<Option<Value>, StoreError> {
        let row: Option<(String,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT per_query_results FROM eval_results WHERE run_id = $1"
        )
        .bind(storable(run_id))
        .fetch_optional(connection)
        .await?)?;
        row.map(|(text,)| {
            self.0
                .parse_json(&text, || format!("the queries of run {run_id}"))
        })
        .transpose()
    }

    /// Relevant memories (grade above 0) of those of these queries that somebody judged: query and memory.
    pub async fn relevant_memories(self, queries: &[String]) -> Result<Vec<(String, String)>, StoreError> {
        let mut rows = Vec::new();
        for batch in queries.chunks(BATCH) {
            let found: Vec<(String, String)> = reading!(&self.0.pool, |connection| {
                let mut select = QueryBuilder::new(
                    "SELECT query_id, memory_id FROM eval_judgments WHERE relevance > 0 AND query_id IN (",
                );
                let mut list = select.separated(", ");
                for id in batch {
                    list.push_bind(storable(id));
                }
                select.push(") GROUP BY query_id, memory_id ORDER BY query_id, memory_id");
                select.build_query_as().fetch_all(connection).await?
            })?;
            rows.extend(found);
        }
        Ok(rows)
    }

    async fn stored_results(self, run: Option<&str>, limit: u32) -> Result<Vec<StoredResult>, StoreError> {
        let columns = FIGURES.join(", ");
        let rows: Vec<(StoredResult, String)> = reading!(&self.0.pool, |connection| {
            let mut select = QueryBuilder::new(format!(
                "SELECT run_id, run_type, query_count, control_run_id, is_significant, created_at, report, {columns}
                 FROM eval_results"
            ));
            if let Some(run) = run {
                select.push(" WHERE run_id = ").push_bind(storable(run));
            }
            select.push(" ORDER BY created_at DESC, run_id DESC LIMIT ");
            select.push_bind(i64::from(limit));
            let found = select.build().fetch_all(connection).await?;
            let mut rows = Vec::with_capacity(found.len());
            for row in &found {
                let mut figures = Vec::new();
                for (at, name) in FIGURES.iter().enumerate() {
                    let value: Option<f64> = row.try_get(7 + at)?;
                    figures.extend(value.map(|value| ((*name).to_owned(), value)));
                }
                let result = StoredResult {
                    run_id: row.try_get(0)?,
                    run_type: row.try_get(1)?,
                    figures,
                    query_count: row.try_get(2)?,
                    control_run_id: row.try_get(3)?,
                    is_significant: row.try_get(4)?,
                    created_at: row.try_get(5)?,
                    report: Value::Null,
                };
                rows.push((result, row.try_get::<String, _>(6)?));
            }
            rows
        })?;
        rows.into_iter()
            .map(|(result, report)| {
                Ok(StoredResult {
                    report: self
                        .0
                        .parse_json(&report, || format!("the report of run {}", result.run_id))?,
                    ..result
                })
            })
            .collect()
    }

    fn answer_row(self, columns: AnswerColumns) -> Result<AnswerRow, StoreError> {
        let (run_id, query_id, system, results, latency_ms, error, created_at) = columns;
        Ok(AnswerRow {
            results: self
                .0
                .parse_json(&results, || format!("the answer to {query_id} in run {run_id}"))?,
            run_id,
            query_id,
            system,
            latency_ms,
            error,
            created_at,
        })
    }
}
