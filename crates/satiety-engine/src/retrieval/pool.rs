//! Pools for annotation from several runs, written as a file that can be judged and imported again.

use crate::handles::RetrievalOperations;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use satiety::retrieval::{
    Document, EvalJudgment, EvalQuery, FileFormat, OrderOptions, PooledQuery, Run, pool,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::query_facts::{each_document, each_query};
use super::{blocking, format, name, read_qrels, read_run};
use crate::EngineError;

/// Request to pool runs.
#[derive(Debug, Clone)]
pub struct PoolRequest {
    pub runs: Vec<PathBuf>,
    /// Number of results taken from each run.
    pub depth: usize,
    /// Existing judgments.
    pub qrels: Option<PathBuf>,
    /// File with the text of the queries.
    pub queries: Option<PathBuf>,
    /// File with the text of the documents.
    pub corpus: Option<PathBuf>,
    /// Random seed of the order.
    pub seed: u64,
    /// Output file for the documents without a judgment.
    pub output: Option<PathBuf>,
}

/// Pool of documents to judge.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PoolResponse {
    /// Number of pooled queries.
    pub queries: usize,
    /// Number of documents without a judgment.
    pub documents: usize,
    /// Number of pooled documents with a judgment.
    pub judged: usize,
    /// Number of results taken from each run.
    pub depth: usize,
    /// Number of unjudged documents that only one run found, by run.
    pub only_in: Vec<OnlyIn>,
    /// Output file, if one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The pool itself, if not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Vec<PooledQuery>>,
}

/// Documents found by only one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OnlyIn {
    /// File name of the run.
    pub run: String,
    /// Number of documents only this run found.
    pub documents: usize,
}

impl RetrievalOperations<'_> {
    /// Builds a pool from the top results of several runs.
    pub async fn pool(self, request: PoolRequest) -> Result<PoolResponse, EngineError> {
        blocking(move || {
            let order = OrderOptions::default();
            let runs: Vec<Run> = request
                .runs
                .iter()
                .map(|path| Ok(read_run(path, order)?.run))
                .collect::<Result<_, EngineError>>()?;
            let judged = request
                .qrels
                .as_ref()
                .map(|path| read_qrels(path, order))
                .transpose()?;
            let pools = pool(
                &runs.iter().collect::<Vec<_>>(),
                judged.as_ref(),
                request.depth,
                request.seed,
            );
            let waiting = || pools.iter().flat_map(|pool| &pool.documents);
            let only_in = request.runs.iter().enumerate().map(|(position, path)| OnlyIn {
                run: name(path),
                documents: waiting().filter(|found| found.runs == [position]).count(),
            });
            let mut pooled = PoolResponse {
                queries: pools.len(),
                documents: waiting().count(),
                judged: pools.iter().map(|pool| pool.judged).sum(),
                depth: request.depth,
                only_in: only_in.collect(),
                output: None,
                pool: None,
            };
            match &request.output {
                Some(path) => {
                    let words = Words::read(&request, &pools)?;
                    let text = words.sheet(path, &pools)?;
                    fs_err::write(path, text).map_err(|cause| EngineError::file("write", path, cause))?;
                    pooled.output = Some(name(path));
                }
                None => pooled.pool = Some(pools),
            }
            Ok(pooled)
        })
        .await
    }
}

/// Text shown to annotators.
#[derive(Default)]
struct Words {
    queries: BTreeMap<String, EvalQuery>,
    documents: BTreeMap<String, Document>,
}

impl Words {
    fn read(request: &PoolRequest, pools: &[PooledQuery]) -> Result<Self, EngineError> {
        let mut words = Self::default();
        if let Some(path) = &request.queries {
            each_query(path, |query| {
                words.queries.insert(query.query_id.clone(), query);
            })?;
        }
        if let Some(path) = &request.corpus {
            let wanted: std::collections::BTreeSet<&str> = pools
                .iter()
                .flat_map(|pool| &pool.documents)
                .map(|found| found.memory_id.as_str())
                .collect();
            each_document(path, |document| {
                if wanted.contains(document.id.as_str()) {
                    words.documents.insert(document.id.clone(), document);
                }
            })?;
        }
        Ok(words)
    }

    /// Formats a spreadsheet table or JSON Lines, depending on the file name.
    fn sheet(&self, path: &Path, pools: &[PooledQuery]) -> Result<String, EngineError> {
        let mut text = String::new();
        match format(path) {
            FileFormat::Csv => {
                text.push_str("query_id,query,doc_id,title,text,grade\n");
                for (pool, found) in pools
                    .iter()
                    .flat_map(|pool| pool.documents.iter().map(move |found| (pool, found)))
                {
                    let query = self
                        .queries
                        .get(&pool.query_id)
                        .and_then(|query| query.query.as_deref());
                    let document = self.documents.get(&found.memory_id);
                    let title = document.and_then(|document| document.title.as_deref());
                    let content = document.and_then(|document| document.text.as_deref());
                    let cells = [
                        Some(pool.query_id.as_str()),
                        query,
                        Some(&found.memory_id),
                        title,
                        content,
                    ];
                    for cell in cells {
                        let _ = write!(
                            text,
                            "\"{}\",",
                            one_line(cell.unwrap_or_default()).replace('"', "\"\"")
                        );
                    }
                    text.push('\n');
                }
            }
            FileFormat::JsonLines => {
                for pool in pools {
                    let known = self.queries.get(&pool.query_id).cloned().unwrap_or_default();
                    let line = EvalQuery {
                        query_id: pool.query_id.clone(),
                        judgments: pool
                            .documents
                            .iter()
                            .map(|found| waiting(&found.memory_id))
                            .collect(),
                        ..known
                    };
                    text.push_str(&serde_json::to_string(&line)?);
                    text.push('\n');
                }
            }
            FileFormat::Trec | FileFormat::Tsv => {
                return Err(EngineError::PoolFormat { path: name(path) });
            }
        }
        Ok(text)
    }
}

fn waiting(document: &str) -> EvalJudgment {
    EvalJudgment {
        memory_id: document.into(),
        relevance: None,
        source_channels: Vec::new(),
        source: None,
        annotator: None,
        confidence: None,
    }
}

/// Replaces line breaks, which would end a table row.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
