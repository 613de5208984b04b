//! Evaluation data of retrieval: queries with results, judgments, and metrics of measured runs.

use serde_json::Value;

use crate::partitions::time_of_id;
use crate::pool::in_transaction;
use crate::sql::{BATCH, Row, Sql, Value as Bound, columns, sql, values};
use crate::{Store, StoreError, now_micros};

/// A query and its results.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalQueryRow {
    pub query_id: String,
    pub query: String,
    /// Classified intent of the query.
    pub intent: Option<String>,
    /// Search depth: quick, focused or deep.
    pub mode: Option<String>,
    pub session_id: Option<String>,
    /// Tool that was called.
    pub tool_name: String,
    /// Ids of the results, best first.
    pub result_ids: Vec<String>,
    /// Results by channel.
    pub channel_contributions: Value,
    pub total_latency_ms: Option<f64>,
    /// Weights of the channels.
    pub fusion_weights: Option<Value>,
    /// Estimated quality of the search.
    pub quality_proxy_score: Option<f64>,
    pub trace_id: Option<String>,
    /// Whether it belongs to the evaluation corpus.
    pub is_eval_corpus: bool,
    /// Category in the corpus.
    pub eval_category: Option<String>,
    /// Further data.
    pub detail: Value,
}

/// A relevance judgment.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalJudgmentRow {
    pub query_id: String,
    pub memory_id: String,
    /// Source of the grade, such as `manual`.
    pub source: String,
    /// Relevance grade.
    pub relevance: i64,
    pub annotator: Option<String>,
    /// Confidence of the judgment, 0 to 1.
    pub confidence: Option<f64>,
}

/// Metrics of a measured run, named as in the specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EvalResultRow {
    pub run_id: String,
    /// Type of run: `full`, `shadow`, `regression` or `ab_test`.
    pub run_type: String,
    /// Feature under test, if any.
    pub feature_id: Option<String>,
    /// Metrics that have columns, by column name; see [`FIGURES`].
    pub figures: Vec<(String, f64)>,
    /// Contribution by channel.
    pub channel_contribution: Option<Value>,
    /// Number of queries in the metrics.
    pub query_count: i64,
    /// Id of the control run, if it was compared.
    pub control_run_id: Option<String>,
    /// Whether the difference to the control is significant.
    pub is_significant: Option<bool>,
    /// Value of each measure by query.
    pub per_query_results: Value,
    /// Full report.
    pub report: Value,
}

/// Metric columns, in the order of the table.
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

/// Evaluation corpus and measured runs: [`Store::evaluation`].
#[derive(Debug, Clone, Copy)]
pub struct Evaluation<'s>(pub(crate) &'s Store);

impl Evaluation<'_> {
    /// Writes queries (replacing those with the same id) and judgments (replacing those of the same query,
    /// document and source), atomically.
    pub async fn put_corpus(
        self,
        queries: &[EvalQueryRow],
        judgments: &[EvalJudgmentRow],
    ) -> Result<(), StoreError> {
        let now = now_micros();
        // A query has one row, in the partition of its id or, for those of the query set, in the first one.
        let (key, moved): (&str, Vec<(&str, i64)>) = if self.0.pool.is_postgres() {
            let moved = queries.iter().filter_map(|row| {
                let time = Some(time_of_id(&row.query_id)).filter(|time| *time != 0)?;
                Some((row.query_id.as_str(), if row.is_eval_corpus { time } else { 0 }))
            });
            ("query_id, partition_at", moved.collect())
        } else {
            ("query_id", Vec::new())
        };
        let queries: Vec<_> = queries.iter().map(|row| query_values(row, now)).collect();
        let judgments: Vec<_> = judgments
            .iter()
            .map(|row| {
                values! {
                    &row.query_id, &row.memory_id, &row.source, row.relevance, &row.annotator, row.confidence,
                    now
                }
            })
            .collect();
        in_transaction!(&self.0.pool, |connection| {
            for ids in moved.chunks(BATCH) {
                // The same query in the log becomes this one.
                let delete = Sql::build("DELETE FROM eval_queries WHERE (query_id, partition_at) IN (")
                    .push_values(ids.iter().map(|(id, place)| values! { *id, *place }))
                    .push(")");
                connection.execute(delete).await?;
            }
            let tail = format!(
                " ON CONFLICT ({key}) DO UPDATE SET query = excluded.query, intent = excluded.intent,
                 mode = excluded.mode, session_id = excluded.session_id, tool_name = excluded.tool_name,
                 result_ids = excluded.result_ids, result_count = excluded.result_count,
                 channel_contributions = excluded.channel_contributions,
                 total_latency_ms = excluded.total_latency_ms, fusion_weights = excluded.fusion_weights,
                 quality_proxy_score = excluded.quality_proxy_score, trace_id = excluded.trace_id,
                 is_eval_corpus = excluded.is_eval_corpus, eval_category = excluded.eval_category,
                 detail = excluded.detail, partition_at = excluded.partition_at"
            );
            let head = format!("INSERT INTO eval_queries ({QUERY_COLUMNS}) ");
            connection.insert(&head, &queries, &tail).await?;
            let head = "INSERT INTO eval_judgments (query_id, memory_id, source, relevance, annotator, confidence, created_at) ";
            let tail =
                " ON CONFLICT (query_id, memory_id, source) DO UPDATE SET relevance = excluded.relevance,
                 annotator = excluded.annotator, confidence = excluded.confidence";
            connection.insert(head, &judgments, tail).await?;
        })
    }

    /// Returns at most `limit` queries of the evaluation corpus after an id, ordered by id, with their
    /// judgments.
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
                 FROM eval_queries WHERE is_eval_corpus AND partition_at = 0 AND query_id > $1 ORDER BY query_id LIMIT $2",
                after,
                limit,
            )
            .await?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Ok(Vec::new());
        };
        let (first, last) = (&first.0.query_id, &last.0.query_id);
        let select = sql!(
            "SELECT query_id, memory_id, source, relevance, annotator, confidence FROM eval_judgments
             WHERE query_id >= $1 AND query_id <= $2 ORDER BY query_id, memory_id, source";
            first, last
        );
        let judgments = self.0.pool.rows(select).await?;
        let judgment = |row: &Row| {
            Ok(columns!(row => EvalJudgmentRow {
                query_id, memory_id, source, relevance, annotator, confidence
            }))
        };
        let judgments = judgments
            .iter()
            .map(judgment)
            .collect::<Result<Vec<_>, StoreError>>()?;
        let mut judgments = judgments.into_iter().peekable();
        let mut corpus = Vec::with_capacity(rows.len());
        for (row, _) in rows {
            // Both are ordered by id; judgments of queries outside the corpus lie in between.
            while judgments
                .next_if(|judgment| judgment.query_id < row.query_id)
                .is_some()
            {}
            let mut own = Vec::new();
            while let Some(judgment) = judgments.next_if(|judgment| judgment.query_id == row.query_id) {
                own.push(judgment);
            }
            corpus.push((row, own));
        }
        Ok(corpus)
    }

    /// Returns all queries after an id, ordered by id, with their time: those of the log and of the corpus.
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
        let rows = self
            .0
            .pool
            .rows(sql!(select; after.unwrap_or_default(), limit))
            .await?;
        rows.iter()
            .map(|row| Ok((query(row)?, row.get("created_at")?)))
            .collect()
    }

    /// Stores the metrics of a measured run.
    pub async fn put_result(self, row: &EvalResultRow) -> Result<(), StoreError> {
        let now = now_micros();
        let figure = |name: &str| {
            let found = row.figures.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| *value)
        };
        let mut values: Vec<Bound<'_>> = values! { &row.run_id, &row.run_type, &row.feature_id };
        values.extend(FIGURES.map(|name| Bound::from(figure(name))));
        values.extend(values! {
            row.channel_contribution.as_ref().map(Value::to_string), row.query_count, &row.control_run_id,
            row.is_significant, now, row.per_query_results.to_string(), row.report.to_string()
        });
        let head = format!(
            "INSERT INTO eval_results (run_id, run_type, feature_id, {}, channel_contribution_json, query_count,
                 control_run_id, is_significant, created_at, per_query_results, report) ",
            FIGURES.join(", ")
        );
        self.0
            .pool
            .execute(
                Sql::build(&head)
                    .push_values([values])
                    .push(" ON CONFLICT (run_id) DO NOTHING"),
            )
            .await?;
        Ok(())
    }
}

/// Columns of a query, in the order of [`query_values`].
pub(crate) const QUERY_COLUMNS: &str = "query_id, query, intent, mode, session_id, tool_name, result_ids, result_count,
     channel_contributions, total_latency_ms, fusion_weights, quality_proxy_score, trace_id, created_at, is_eval_corpus,
     eval_category, detail, partition_at";

/// Time that assigns a query to a partition: 0 for those of the query set, which stay.
fn query_place(row: &EvalQueryRow) -> i64 {
    if row.is_eval_corpus {
        0
    } else {
        time_of_id(&row.query_id)
    }
}

/// Values of [`QUERY_COLUMNS`] for a query made at `at`.
pub(crate) fn query_values(row: &EvalQueryRow, at: i64) -> Vec<Bound<'_>> {
    let count = i64::try_from(row.result_ids.len()).unwrap_or(i64::MAX);
    values! {
        &row.query_id, &row.query, &row.intent, &row.mode, &row.session_id, &row.tool_name,
        Value::from(row.result_ids.clone()).to_string(), count, row.channel_contributions.to_string(),
        row.total_latency_ms, row.fusion_weights.as_ref().map(Value::to_string), row.quality_proxy_score,
        &row.trace_id, at, row.is_eval_corpus, &row.eval_category, row.detail.to_string(), query_place(row)
    }
}

pub(crate) fn query(row: &Row) -> Result<EvalQueryRow, StoreError> {
    let id: String = row.get("query_id")?;
    let result_ids = row.list("result_ids", format_args!("the results of evaluation query {id}"))?;
    let channels = row.json(
        "channel_contributions",
        format_args!("the channels of evaluation query {id}"),
    )?;
    let weights = row.optional_json(
        "fusion_weights",
        format_args!("the weights of evaluation query {id}"),
    )?;
    let detail = row.json("detail", format_args!("the detail of evaluation query {id}"))?;
    Ok(columns!(row => EvalQueryRow {
        query, intent, mode, session_id, tool_name, total_latency_ms, quality_proxy_score, trace_id,
        is_eval_corpus, eval_category;
        query_id: id, result_ids, channel_contributions: channels, fusion_weights: weights, detail
    }))
}
