//! Golden data: which logged queries belong to the evaluation corpus, what each annotator said, and what systems answered
//! when the corpus was replayed. What follows from any of it is not decided here.

use serde_json::Value;

use crate::evaluation::{EvalJudgmentRow, Evaluation, FIGURES};
use crate::memory::{FeedbackRow, feedback};
use crate::pool::{Connection, in_transaction};
use crate::sql::{BATCH, Fault, Row, Sql, columns, sql};
use crate::{StoreError, now_micros};

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq)]
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

/// Writes or takes away the manual judgment of a result, in the transaction of the annotation that it follows from.
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
    /// Takes logged queries into the corpus, all of them or none.
    pub async fn mark_corpus(self, marks: &[CorpusMark]) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            for mark in marks {
                let update = sql!(
                    "UPDATE eval_queries SET is_eval_corpus = TRUE, eval_category = $1, detail = $2 WHERE query_id = $3";
                    &mark.category, mark.detail.to_string(), &mark.query_id
                );
                connection.execute(update).await?;
            }
        })
    }

    /// What was done with the results of queries, oldest first.
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

    /// Keeps what an annotator said, over what they said before, with the judgment that follows from what all have said.
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

    /// Takes back what an annotator said; the judgment becomes what follows from what the others have said.
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

    /// Everything that annotators said, in the order in which they said it.
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

    /// Keeps an answer, over the one to the same query in the same run.
    pub async fn put_answer(self, row: &AnswerRow) -> Result<(), StoreError> {
        let results = row.results.to_string();
        let insert = sql!(
            "INSERT INTO eval_answers (run_id, query_id, system, results, latency_ms, error, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (run_id, query_id) DO UPDATE SET system = excluded.system, results = excluded.results,
                 latency_ms = excluded.latency_ms, error = excluded.error, created_at = excluded.created_at";
            &row.run_id, &row.query_id, &row.system, &results, row.latency_ms, row.error.as_deref(),
            row.created_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// The answers of a run, in the order of queries.
    pub async fn answers(self, run_id: &str) -> Result<Vec<AnswerRow>, StoreError> {
        let select = sql!(
            "SELECT run_id, query_id, system, results, latency_ms, error, created_at FROM eval_answers
             WHERE run_id = $1 ORDER BY query_id";
            run_id
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(answer).collect()
    }

    /// The ids of the latest runs that have answers, newest first, with the system, the number of answers, and whether
    /// the run was measured: one that was not is unfinished.
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
        let select = sql!("SELECT per_query_results FROM eval_results WHERE run_id = $1"; run_id);
        let row = self.0.pool.row(select).await?;
        row.map(|row| row.json("per_query_results", format_args!("the queries of run {run_id}")))
            .transpose()
    }

    /// Relevant memories (grade above 0) of those of these queries that somebody judged: query and memory.
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
    Ok(columns!(row => AnswerRow { system, latency_ms, error, created_at; run_id, query_id, results }))
}
