//! The evaluation corpus and measured runs in the database.

use crate::handles::RetrievalOperations;
use std::collections::BTreeMap;
use std::path::PathBuf;

use satiety::ids;
use satiety::retrieval::{Aggregate, EvalJudgment, EvalQuery, FileFormat, JudgmentSource};
use satiety_store::evaluation::{EvalJudgmentRow, EvalQueryRow, EvalResultRow};
use satiety_store::journal::Event;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;

use super::corpus::queries_with_judgments;
use super::replay::JudgmentFilter;
use super::{RunReport, blocking, format, name};
use crate::EngineError;

/// Queries per page when reading from the database.
const PAGE: u32 = 500;
/// Tool name of imported queries.
const IMPORTED: &str = "import";

/// Request to import a corpus.
#[derive(Debug, Clone)]
pub struct ImportCorpusRequest {
    /// Queries with their judgments, judgments alone, or a BEIR directory.
    pub corpus: PathBuf,
    /// File with the queries, if the corpus has judgments only.
    pub queries: Option<PathBuf>,
    /// Default source of judgments.
    pub source: JudgmentSource,
}

/// Request to export the corpus.
#[derive(Debug, Clone)]
pub struct ExportCorpusRequest {
    /// Output file: `.jsonl` with everything, any other in `trec_eval` format.
    pub output: PathBuf,
    /// Judgments to write.
    pub judgments: JudgmentFilter,
}

/// Result of an import or export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CorpusTransfer {
    /// File or directory of the corpus.
    pub file: String,
    /// Number of transferred queries.
    pub queries: usize,
    /// Number of transferred judgments.
    pub judgments: usize,
    /// Documents without a grade, which were skipped.
    pub pending: usize,
}

impl RetrievalOperations<'_> {
    /// Imports an evaluation corpus atomically.
    pub async fn import_corpus(self, request: ImportCorpusRequest) -> Result<CorpusTransfer, EngineError> {
        let source = request.source;
        let file = name(&request.corpus);
        let queries =
            blocking(move || queries_with_judgments(&request.corpus, request.queries.as_deref())).await?;
        let (mut rows, mut judgments, mut pending) = (Vec::new(), Vec::new(), 0);
        for query in queries {
            for judgment in &query.judgments {
                match judgment.relevance {
                    Some(grade) => judgments.push(judgment_row(&query, judgment, grade, source)),
                    None => pending += 1,
                }
            }
            rows.push(query_row(query)?);
        }
        let moved = CorpusTransfer {
            file,
            queries: rows.len(),
            judgments: judgments.len(),
            pending,
        };
        let store = self.engine.store().await?;
        store.evaluation().put_corpus(&rows, &judgments).await?;
        let body = json!({"queries": moved.queries, "judgments": moved.judgments});
        store
            .journal()
            .append(Event::now("retrieval.imported", &moved.file, body))
            .await?;
        Ok(moved)
    }

    /// Exports the evaluation corpus to a file, which appears only when complete.
    pub async fn export_corpus(self, request: ExportCorpusRequest) -> Result<CorpusTransfer, EngineError> {
        let path = &request.output;
        let failed = |cause| EngineError::file("write", path, cause);
        let as_json = format(path) == FileFormat::JsonLines;
        let partial = path.with_added_extension("partial");
        let mut file =
            tokio::io::BufWriter::new(fs_err::tokio::File::create(&partial).await.map_err(failed)?);
        let mut moved = CorpusTransfer {
            file: name(path),
            queries: 0,
            judgments: 0,
            pending: 0,
        };
        let store = self.engine.store().await?;
        let mut after: Option<String> = None;
        loop {
            let page = store.evaluation().corpus(after.as_deref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.query_id.clone());
            for (row, mut judgments) in page {
                judgments.retain(|judgment| request.judgments.takes(judgment));
                moved.queries += 1;
                moved.judgments += judgments.len();
                let text = if as_json {
                    format!("{}\n", serde_json::to_string(&query_line(row, judgments)?)?)
                } else {
                    trec_lines(&judgments)
                };
                file.write_all(text.as_bytes()).await.map_err(failed)?;
            }
        }
        file.flush().await.map_err(failed)?;
        fs_err::tokio::rename(&partial, path).await.map_err(failed)?;
        Ok(moved)
    }

    /// Stores the metrics of a measured run, and sets their id in the report.
    pub(super) async fn record_evaluation(self, report: &mut RunReport) -> Result<(), EngineError> {
        let run_id = ids::prefixed("eval", uuid::Uuid::now_v7());
        report.run_id = Some(run_id.clone());
        let row = result_row(run_id, report)?;
        Ok(self.engine.store().await?.evaluation().put_result(&row).await?)
    }
}

fn judgment_row(
    query: &EvalQuery,
    judgment: &EvalJudgment,
    grade: i32,
    otherwise: JudgmentSource,
) -> EvalJudgmentRow {
    let source = judgment.source.or(query.judgment_source).unwrap_or(otherwise);
    EvalJudgmentRow {
        query_id: query.query_id.clone(),
        memory_id: judgment.memory_id.clone(),
        source: source.name().into(),
        relevance: grade.into(),
        annotator: judgment.annotator.clone(),
        confidence: judgment.confidence,
    }
}

/// Fields without a column go into the detail, so that an export is lossless.
fn query_row(mut query: EvalQuery) -> Result<EvalQueryRow, EngineError> {
    query.judgments = Vec::new();
    let row = EvalQueryRow {
        query_id: query.query_id.clone(),
        query: query.query.clone().unwrap_or_default(),
        intent: query.intent.clone(),
        mode: None,
        session_id: query
            .session_context
            .as_ref()
            .and_then(|session| session.session_id.clone()),
        tool_name: IMPORTED.into(),
        result_ids: Vec::new(),
        channel_contributions: Value::Object(Map::new()),
        total_latency_ms: None,
        fusion_weights: None,
        quality_proxy_score: None,
        trace_id: None,
        is_eval_corpus: true,
        eval_category: query.category.clone(),
        detail: serde_json::to_value(&query)?,
    };
    Ok(row)
}

pub(super) fn query_line(
    row: EvalQueryRow,
    judgments: Vec<EvalJudgmentRow>,
) -> Result<EvalQuery, EngineError> {
    // A query that was harvested from the log has a different detail.
    let known: EvalQuery = serde_json::from_value(row.detail).unwrap_or_default();
    let judgments = judgments
        .into_iter()
        .map(|judgment| {
            Ok(EvalJudgment {
                memory_id: judgment.memory_id,
                relevance: i32::try_from(judgment.relevance).ok(),
                source_channels: Vec::new(),
                source: serde_json::from_value(judgment.source.into())?,
                annotator: judgment.annotator,
                confidence: judgment.confidence,
            })
        })
        .collect::<Result<_, EngineError>>()?;
    Ok(EvalQuery {
        query_id: row.query_id,
        query: Some(row.query).filter(|query| !query.is_empty()),
        intent: row.intent,
        category: row.eval_category,
        judgments,
        ..known
    })
}

/// Picks one grade per document: a person's before any other.
pub(super) fn trusted(judgments: &[EvalJudgmentRow]) -> impl Iterator<Item = &EvalJudgmentRow> {
    const BY_TRUST: [&str; 4] = ["manual", "validated", "implicit", "bootstrapped"];
    let trust = |source: &str| BY_TRUST.iter().position(|known| *known == source);
    let mut best: BTreeMap<&str, &EvalJudgmentRow> = BTreeMap::new();
    for judgment in judgments {
        let known = best.entry(&judgment.memory_id).or_insert(judgment);
        if trust(&judgment.source) < trust(&known.source) {
            *known = judgment;
        }
    }
    best.into_values()
}

fn trec_lines(judgments: &[EvalJudgmentRow]) -> String {
    let lines = trusted(judgments).map(|judgment| {
        format!(
            "{} 0 {} {}\n",
            judgment.query_id, judgment.memory_id, judgment.relevance
        )
    });
    lines.collect::<Vec<_>>().concat()
}

pub(super) fn result_row(run_id: String, report: &RunReport) -> Result<EvalResultRow, EngineError> {
    let mean = |name: &str| {
        let found = report.metrics.0.iter().find(|(known, _)| known == name);
        found.and_then(|(_, aggregate)| aggregate.mean)
    };
    let mut figures = Vec::new();
    let mut put =
        |column: &str, value: Option<f64>| figures.extend(value.map(|value| (column.to_owned(), value)));
    for (column, measure) in [
        ("mrr_at_5", "mrr@5"),
        ("mrr_at_10", "mrr@10"),
        ("ndcg_at_5", "ndcg@5"),
        ("ndcg_at_10", "ndcg@10"),
        ("ndcg_at_20", "ndcg@20"),
        ("recall_at_5", "recall@5"),
        ("recall_at_10", "recall@10"),
        ("constitutional_surfacing_rate", "constitutional@5"),
        ("importance_weighted_recall", "importance_recall@10"),
        ("causal_chain_completeness", "chain@10"),
        ("result_diversity_score", "ils@10"),
    ] {
        put(column, mean(measure));
    }
    let of = |aggregate: Option<Aggregate>| aggregate.and_then(|aggregate| aggregate.mean);
    put("cold_start_mrr", of(report.cold_start.map(|found| found.cold)));
    put("session_personalization_lift", of(report.personalization_lift));
    let pipeline = report.pipeline.as_ref();
    put(
        "avg_latency_ms",
        pipeline.and_then(|found| Some(found.latency_ms.get("total")?.mean)),
    );
    // Confidence interval of the default decisive metric.
    let interval = report
        .metrics
        .0
        .iter()
        .find(|(name, _)| name == "mrr@5")
        .and_then(|(_, found)| found.ci);
    put("confidence_interval_lower", interval.map(|interval| interval.low));
    put(
        "confidence_interval_upper",
        interval.map(|interval| interval.high),
    );
    Ok(EvalResultRow {
        run_id,
        run_type: "full".into(),
        figures,
        channel_contribution: pipeline
            .map(|found| serde_json::to_value(&found.channels))
            .transpose()?,
        query_count: i64::try_from(report.queries).unwrap_or(i64::MAX),
        per_query_results: serde_json::to_value(&report.per_query)?,
        report: serde_json::to_value(report)?,
        ..EvalResultRow::default()
    })
}
