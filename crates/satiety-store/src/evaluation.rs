//! What retrieval is measured with: queries with what was found, judgments, and the figures of measured runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{QueryBuilder, Row};

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// Rows that go with one statement; both engines allow 65,535 values in one.
const BATCH: usize = 500;

/// A query, and what was found for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalQueryRow {
    /// Its id.
    pub query_id: String,
    /// What was asked.
    pub query: String,
    /// What the asker was after.
    pub intent: Option<String>,
    /// How deep the search went: quick, focused or deep.
    pub mode: Option<String>,
    /// The session it was asked in.
    pub session_id: Option<String>,
    /// The tool that was asked.
    pub tool_name: String,
    /// What was found, best first.
    pub result_ids: Vec<String>,
    /// By channel, what it found.
    pub channel_contributions: Value,
    /// How long it took.
    pub total_latency_ms: Option<f64>,
    /// The weights of the channels.
    pub fusion_weights: Option<Value>,
    /// How well the pipeline seems to have done.
    pub quality_proxy_score: Option<f64>,
    /// What tells its trace from others.
    pub trace_id: Option<String>,
    /// Whether it belongs to the corpus that systems are measured with.
    pub is_eval_corpus: bool,
    /// Its category there.
    pub eval_category: Option<String>,
    /// What else is known about it.
    pub detail: Value,
}

/// A graded document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalJudgmentRow {
    /// The query.
    pub query_id: String,
    /// The document.
    pub memory_id: String,
    /// Where the grade comes from.
    pub source: String,
    /// The grade.
    pub relevance: i64,
    /// Who judged.
    pub annotator: Option<String>,
    /// How sure they were.
    pub confidence: Option<f64>,
}

/// The figures of a measured run, under the names of the specification.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalResultRow {
    /// Its id.
    pub run_id: String,
    /// Why it was measured: `full`, `shadow`, `regression` or `ab_test`.
    pub run_type: String,
    /// The feature that is being tried.
    pub feature_id: Option<String>,
    /// The figures that have columns, by the names of those; see [`FIGURES`].
    pub figures: Vec<(String, f64)>,
    /// By channel, its contribution.
    pub channel_contribution: Option<Value>,
    /// Queries that counted.
    pub query_count: i64,
    /// What it was compared with.
    pub control_run_id: Option<String>,
    /// Whether the difference is significant.
    pub is_significant: Option<bool>,
    /// Every value of every query.
    pub per_query_results: Value,
    /// The whole report.
    pub report: Value,
}

/// The columns of figures, in the order of the table.
pub const FIGURES: [&str; 19] = [
    "mrr_at_5",
    "mrr_at_10",
    "ndcg_at_5",
    "ndcg_at_10",
    "ndcg_at_20",
    "recall_at_5",
    "recall_at_10",
    "constitutional_surfacing_rate",
    "importance_weighted_recall",
    "cold_start_mrr",
    "session_personalization_lift",
    "causal_chain_completeness",
    "avg_latency_ms",
    "result_diversity_score",
    "confidence_interval_lower",
    "confidence_interval_upper",
    "mrr_delta",
    "ndcg_delta",
    "p_value",
];

/// What retrieval is measured with, and the results: [`Store::evaluation`].
#[derive(Debug, Clone, Copy)]
pub struct Evaluation<'s>(pub(crate) &'s Store);

impl Evaluation<'_> {
    /// Writes queries, over those with the same ids, and judgments, over those of the same query, document and source;
    /// all of them or none.
    pub async fn put_corpus(
        self,
        queries: &[EvalQueryRow],
        judgments: &[EvalJudgmentRow],
    ) -> Result<(), StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            for rows in queries.chunks(BATCH) {
                let mut insert = QueryBuilder::new(
                    "INSERT INTO eval_queries (query_id, query, intent, mode, session_id, tool_name, result_ids,
                         result_count, channel_contributions, total_latency_ms, fusion_weights, quality_proxy_score,
                         trace_id, created_at, is_eval_corpus, eval_category, detail) ",
                );
                insert.push_values(rows, |mut values, row| {
                    values
                        .push_bind(storable(&row.query_id))
                        .push_bind(storable(&row.query))
                        .push_bind(row.intent.as_deref().map(storable))
                        .push_bind(row.mode.as_deref().map(storable))
                        .push_bind(row.session_id.as_deref().map(storable))
                        .push_bind(storable(&row.tool_name))
                        .push_bind(storable(&Value::from(row.result_ids.clone()).to_string()).into_owned())
                        .push_bind(i64::try_from(row.result_ids.len()).unwrap_or(i64::MAX))
                        .push_bind(row.channel_contributions.to_string())
                        .push_bind(row.total_latency_ms)
                        .push_bind(row.fusion_weights.as_ref().map(Value::to_string))
                        .push_bind(row.quality_proxy_score)
                        .push_bind(row.trace_id.as_deref().map(storable))
                        .push_bind(now)
                        .push_bind(row.is_eval_corpus)
                        .push_bind(row.eval_category.as_deref().map(storable))
                        .push_bind(row.detail.to_string());
                });
                insert.push(
                    " ON CONFLICT (query_id) DO UPDATE SET query = excluded.query, intent = excluded.intent,
                         mode = excluded.mode, session_id = excluded.session_id, tool_name = excluded.tool_name,
                         result_ids = excluded.result_ids, result_count = excluded.result_count,
                         channel_contributions = excluded.channel_contributions,
                         total_latency_ms = excluded.total_latency_ms, fusion_weights = excluded.fusion_weights,
                         quality_proxy_score = excluded.quality_proxy_score, trace_id = excluded.trace_id,
                         is_eval_corpus = excluded.is_eval_corpus, eval_category = excluded.eval_category,
                         detail = excluded.detail",
                );
                insert.build().execute(&mut *connection).await?;
            }
            for rows in judgments.chunks(BATCH) {
                let mut insert = QueryBuilder::new(
                    "INSERT INTO eval_judgments (query_id, memory_id, source, relevance, annotator, confidence, created_at) ",
                );
                insert.push_values(rows, |mut values, row| {
                    values
                        .push_bind(storable(&row.query_id))
                        .push_bind(storable(&row.memory_id))
                        .push_bind(&row.source)
                        .push_bind(row.relevance)
                        .push_bind(row.annotator.as_deref().map(storable))
                        .push_bind(row.confidence)
                        .push_bind(now);
                });
                insert.push(
                    " ON CONFLICT (query_id, memory_id, source) DO UPDATE SET relevance = excluded.relevance,
                         annotator = excluded.annotator, confidence = excluded.confidence",
                );
                insert.build().execute(&mut *connection).await?;
            }
        })
    }

    /// Queries of the evaluation corpus after an id, in the order of ids, with their judgments; at most `limit`.
    pub async fn corpus(
        self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(EvalQueryRow, Vec<EvalJudgmentRow>)>, StoreError> {
        let rows = self
            .query_page(
                "SELECT query_id, query, intent, mode, session_id, tool_name, result_ids, channel_contributions,
                     total_latency_ms, fusion_weights, quality_proxy_score, trace_id, is_eval_corpus, eval_category,
                     detail, created_at
                 FROM eval_queries WHERE is_eval_corpus AND query_id > $1 ORDER BY query_id LIMIT $2",
                after,
                limit,
            )
            .await?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Ok(Vec::new());
        };
        let (first, last) = (&first.0.query_id, &last.0.query_id);
        let judgments: Vec<JudgmentColumns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT query_id, memory_id, source, relevance, annotator, confidence FROM eval_judgments
                 WHERE query_id >= $1 AND query_id <= $2 ORDER BY query_id, memory_id, source"
        )
        .bind(first)
        .bind(last)
        .fetch_all(connection)
        .await?)?;
        let mut judgments = judgments.into_iter().peekable();
        let mut corpus = Vec::with_capacity(rows.len());
        for (row, _) in rows {
            // Both are in the order of ids; judgments of queries that are not in the corpus lie in between.
            while judgments.next_if(|judgment| judgment.0 < row.query_id).is_some() {}
            let mut own = Vec::new();
            while let Some(judgment) = judgments.next_if(|judgment| judgment.0 == row.query_id) {
                let (query_id, memory_id, source, relevance, annotator, confidence) = judgment;
                own.push(EvalJudgmentRow {
                    query_id,
                    memory_id,
                    source,
                    relevance,
                    annotator,
                    confidence,
                });
            }
            corpus.push((row, own));
        }
        Ok(corpus)
    }

    /// All queries after an id, in the order of ids, with when they were asked: those of the log and of the corpus.
    pub async fn logged_queries(
        self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(EvalQueryRow, i64)>, StoreError> {
        self.query_page(
            "SELECT query_id, query, intent, mode, session_id, tool_name, result_ids, channel_contributions,
                 total_latency_ms, fusion_weights, quality_proxy_score, trace_id, is_eval_corpus, eval_category,
                 detail, created_at
             FROM eval_queries WHERE query_id > $1 ORDER BY query_id LIMIT $2",
            after,
            limit,
        )
        .await
    }

    async fn query_page(
        self,
        select: &'static str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(EvalQueryRow, i64)>, StoreError> {
        self.0.query_log().flush().await;
        let rows: Vec<(QueryColumns, i64)> = reading!(&self.0.pool, |connection| {
            let found = sqlx::query(select)
                .bind(storable(after.unwrap_or_default()))
                .bind(i64::from(limit))
                .fetch_all(connection)
                .await?;
            let mut rows = Vec::with_capacity(found.len());
            for row in &found {
                let columns = QueryColumns {
                    row: EvalQueryRow {
                        query_id: row.try_get(0)?,
                        query: row.try_get(1)?,
                        intent: row.try_get(2)?,
                        mode: row.try_get(3)?,
                        session_id: row.try_get(4)?,
                        tool_name: row.try_get(5)?,
                        result_ids: Vec::new(),
                        channel_contributions: Value::Null,
                        total_latency_ms: row.try_get(8)?,
                        fusion_weights: None,
                        quality_proxy_score: row.try_get(10)?,
                        trace_id: row.try_get(11)?,
                        is_eval_corpus: row.try_get(12)?,
                        eval_category: row.try_get(13)?,
                        detail: Value::Null,
                    },
                    result_ids: row.try_get(6)?,
                    channels: row.try_get(7)?,
                    weights: row.try_get(9)?,
                    detail: row.try_get(14)?,
                };
                rows.push((columns, row.try_get(15)?));
            }
            rows
        })?;
        rows.into_iter()
            .map(|(columns, at)| Ok((self.query_row(columns)?, at)))
            .collect()
    }

    fn query_row(self, columns: QueryColumns) -> Result<EvalQueryRow, StoreError> {
        let QueryColumns {
            row,
            result_ids,
            channels,
            weights,
            detail,
        } = columns;
        let parse = |text: &str, what: &str| {
            self.0
                .parse_json(text, || format!("{what} of evaluation query {}", row.query_id))
        };
        let ids = parse(&result_ids, "the results")?;
        let ids = ids.as_array().into_iter().flatten();
        Ok(EvalQueryRow {
            result_ids: ids.filter_map(|id| id.as_str().map(Into::into)).collect(),
            channel_contributions: parse(&channels, "the channels")?,
            fusion_weights: weights.map(|text| parse(&text, "the weights")).transpose()?,
            detail: parse(&detail, "the detail")?,
            ..row
        })
    }

    /// Writes the figures of a measured run.
    pub async fn put_result(self, row: &EvalResultRow) -> Result<(), StoreError> {
        let now = now_micros();
        let figure = |name: &str| {
            let found = row.figures.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| *value)
        };
        in_transaction!(&self.0.pool, |connection| {
            let mut insert = QueryBuilder::new(format!(
                "INSERT INTO eval_results (run_id, run_type, feature_id, {}, channel_contribution_json, query_count,
                     control_run_id, is_significant, created_at, per_query_results, report) ",
                FIGURES.join(", ")
            ));
            insert.push_values([row], |mut values, row| {
                values
                    .push_bind(storable(&row.run_id))
                    .push_bind(&row.run_type)
                    .push_bind(row.feature_id.as_deref().map(storable));
                for name in FIGURES {
                    values.push_bind(figure(name));
                }
                values
                    .push_bind(row.channel_contribution.as_ref().map(Value::to_string))
                    .push_bind(row.query_count)
                    .push_bind(row.control_run_id.as_deref().map(storable))
                    .push_bind(row.is_significant)
                    .push_bind(now)
                    .push_bind(storable(&row.per_query_results.to_string()).into_owned())
                    .push_bind(storable(&row.report.to_string()).into_owned());
            });
            insert.push(" ON CONFLICT (run_id) DO NOTHING");
            insert.build().execute(&mut *connection).await?;
        })
    }
}

type JudgmentColumns = (String, String, String, i64, Option<String>, Option<f64>);

/// A row before its JSON is read.
struct QueryColumns {
    row: EvalQueryRow,
    result_ids: String,
    channels: String,
    weights: Option<String>,
    detail: String,
}
