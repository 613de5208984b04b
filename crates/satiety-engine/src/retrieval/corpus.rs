//! Validation of an evaluation corpus: its queries, their judgments, and the variance of its runs.

use crate::handles::RetrievalOperations;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use satiety::retrieval::{
    CorpusReport, CorpusSettings, EvalJudgment, EvalQuery, EvaluationOptions, FileFormat, Kind, Measure,
    OrderOptions, Qrels, Run, check_corpus, evaluate, query_changes,
};
use satiety::stats::standard_deviation;
use schemars::JsonSchema;
use serde::Serialize;

use super::query_facts::{each_document, each_query, sibling_file, sibling_queries};
use super::{blocking, format, name, read_qrels, read_run};
use crate::EngineError;

/// Request to check a corpus.
#[derive(Debug, Clone)]
pub struct CorpusRequest {
    /// Queries with their judgments, judgments alone, or a BEIR directory.
    pub corpus: PathBuf,
    /// File with the queries, if the corpus has judgments only.
    pub queries: Option<PathBuf>,
    /// File with the documents.
    pub documents: Option<PathBuf>,
    /// Two runs to estimate the variance of differences; or none.
    pub runs: Vec<PathBuf>,
    pub settings: CorpusSettings,
}

/// Result of checking a corpus.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CorpusCheck {
    /// Checked file or directory.
    pub corpus: String,
    /// Whether the standard deviation of differences was measured from runs, or assumed.
    pub sigma_measured: bool,
    /// Findings and statistics of the corpus.
    #[serde(flatten)]
    pub report: CorpusReport,
}

impl RetrievalOperations<'_> {
    /// Checks an evaluation corpus.
    pub async fn check_corpus(self, request: CorpusRequest) -> Result<CorpusCheck, EngineError> {
        blocking(move || {
            let queries = queries_with_judgments(&request.corpus, request.queries.as_deref())?;
            let documents = request
                .documents
                .clone()
                .or_else(|| sibling_file(&request.corpus, "corpus.jsonl"));
            let mut ids = None;
            if let Some(path) = documents {
                let ids = ids.insert(BTreeSet::new());
                each_document(&path, |document| {
                    ids.insert(document.id);
                })?;
            }
            let mut settings = request.settings;
            let measured = match &request.runs[..] {
                [first, second] => {
                    let qrels = read_qrels(&request.corpus, OrderOptions::default())?;
                    let first = read_run(first, OrderOptions::default())?.run;
                    let second = read_run(second, OrderOptions::default())?.run;
                    let sigma = spread(&qrels, &first, &second, settings.relevance_threshold)?;
                    settings.sigma = sigma;
                    true
                }
                _ => false,
            };
            Ok(CorpusCheck {
                corpus: name(&request.corpus),
                sigma_measured: measured,
                report: check_corpus(&queries, ids.as_ref(), &settings)?,
            })
        })
        .await
    }
}

/// Reads queries and judgments, from one file or from separate files.
pub(super) fn queries_with_judgments(
    corpus: &Path,
    queries: Option<&Path>,
) -> Result<Vec<EvalQuery>, EngineError> {
    let path = queries.map(Into::into).or_else(|| sibling_queries(corpus));
    let mut queries = Vec::new();
    if let Some(path) = &path {
        each_query(path, |query| queries.push(query))?;
    }
    if format(corpus) == FileFormat::JsonLines && !corpus.is_dir() {
        return Ok(queries);
    }
    let qrels = read_qrels(corpus, OrderOptions::default())?;
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for (position, query) in queries.iter().enumerate() {
        positions.insert(query.query_id.clone(), position);
    }
    for position in 0..qrels.queries() {
        let id = qrels.query(position);
        let at = *positions.entry(id.into()).or_insert_with(|| {
            queries.push(EvalQuery {
                query_id: id.into(),
                ..EvalQuery::default()
            });
            queries.len() - 1
        });
        queries[at].judgments = judgments(&qrels, position);
    }
    Ok(queries)
}

fn judgments(qrels: &Qrels, query: usize) -> Vec<EvalJudgment> {
    let judged = qrels.judgments(query);
    judged
        .map(|(document, grade)| EvalJudgment {
            memory_id: document.into(),
            relevance: Some(grade),
            source_channels: Vec::new(),
            source: None,
            annotator: None,
            confidence: None,
        })
        .collect()
}

/// Returns the standard deviation of the differences of mrr@10 between two runs.
fn spread(qrels: &Qrels, first: &Run, second: &Run, relevance_threshold: i32) -> Result<f64, EngineError> {
    let measure = Measure {
        kind: Kind::Mrr,
        cutoff: std::num::NonZeroUsize::new(10),
    };
    let options = EvaluationOptions {
        relevance_threshold,
        ..EvaluationOptions::default()
    };
    let values = |run| evaluate(qrels, run, &[measure], &options);
    let changes = query_changes(&values(first), &values(second));
    let differences: Vec<f64> = changes.iter().map(|change| change.difference).collect();
    let sigma = standard_deviation(&differences).map_err(EngineError::Figures)?;
    if sigma > 0.0 {
        Ok(sigma)
    } else {
        Err(EngineError::NoVariance)
    }
}
