//! Pools for annotation from several runs, written as a file that can be judged and read back.

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

/// Runs to be pooled.
#[derive(Debug, Clone)]
pub struct PoolRequest {
    /// The runs.
    pub runs: Vec<PathBuf>,
    /// How many results of each run are taken.
    pub depth: usize,
    /// Judgments that exist already.
    pub qrels: Option<PathBuf>,
    /// What the queries ask.
    pub queries: Option<PathBuf>,
    /// What the documents say.
    pub corpus: Option<PathBuf>,
    /// The seed of the order.
    pub seed: u64,
    /// Where to write what waits for a judgment.
    pub output: Option<PathBuf>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PoolResponse {
    /// Queries.
    pub queries: usize,
    /// Documents that wait for a judgment.
    pub documents: usize,
    /// Documents of the pool that have one.
    pub judged: usize,
    /// How many results of each run were taken.
    pub depth: usize,
    /// For each run, how many of the waiting documents only it found.
    pub only_in: Vec<OnlyIn>,
    /// Where it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The pool itself, when it was not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Vec<PooledQuery>>,
}

/// What only one run found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OnlyIn {
    /// The run.
    pub run: String,
    /// Documents.
    pub documents: usize,
}

impl RetrievalOperations<'_> {
    /// Builds a pool of what several runs put first.
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

/// What annotators read.
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

    /// A table for a spreadsheet, or JSON Lines, as the name of the file says.
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

/// Lines of a table end with the line.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
