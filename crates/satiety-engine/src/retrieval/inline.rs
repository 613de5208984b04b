//! Judgments and runs in the body of a request instead of files. They are written to a temporary directory
//! for the request, so that there is only one implementation of reading and counting.

use crate::handles::RetrievalOperations;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use satiety::admission::{ModelCost, Workload};
use satiety::retrieval::{ComparisonSettings, EvaluationOptions, Measure, OrderOptions, default_measures};
use satiety::stats::BootstrapSettings;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{CompareRequest, CompareResponse, EvaluateRequest, EvaluateResponse, FactFiles, Rankings};
use crate::{EngineError, admission};

/// Number of results per query for the pipeline metrics.
const DEPTH: usize = 10;

/// Judgments and runs in the request body.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineRankings {
    /// Relevance judgments, grouped by query.
    #[schemars(length(min = 1))]
    pub judgments: Vec<InlineJudgments>,
    /// Runs to evaluate; for a comparison the first is the control.
    #[schemars(length(min = 1, max = 10))]
    pub runs: Vec<InlineRun>,
    /// Measures to compute, such as `ndcg@10`; the defaults if empty.
    #[serde(default)]
    #[schemars(inner(regex(pattern = crate::operations::MEASURE)))]
    pub measures: Vec<String>,
    /// Minimum grade of a relevant document; 2 if absent.
    #[serde(default)]
    pub relevance_threshold: Option<i32>,
    /// Significance level of a comparison, 0 to 1; 0.05 if absent.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub alpha: Option<f64>,
}

/// Relevance judgments of a query.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineJudgments {
    /// Id of the query.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub query_id: String,
    /// Judged documents with their grades.
    #[schemars(length(min = 1))]
    pub judgments: Vec<InlineGrade>,
}

/// Relevance grade of a document.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineGrade {
    /// Id of the document.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub doc_id: String,
    /// Relevance grade; higher is more relevant.
    pub relevance: i32,
}

/// A ranked run of a system.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineRun {
    /// Name of the run in reports.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub name: String,
    /// Ranked results of each query.
    #[schemars(length(min = 1))]
    pub queries: Vec<InlineAnswers>,
}

/// Ranked results of a query.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineAnswers {
    /// Id of the query.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub query_id: String,
    /// Ids of documents, best first.
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub results: Vec<String>,
}

impl RetrievalOperations<'_> {
    /// Evaluates the runs of a request.
    pub async fn evaluate_inline(self, request: &InlineRankings) -> Result<EvaluateResponse, EngineError> {
        let bootstrap = BootstrapSettings::default();
        Self::admit_rankings(request, bootstrap.resamples)?;
        let (directory, rankings) = write_files(request)?;
        let evaluated = self
            .evaluate(EvaluateRequest {
                rankings,
                bootstrap,
                per_query: false,
                depth: DEPTH,
                record: false,
            })
            .await;
        let mut evaluated = evaluated.map_err(|error| hide_path(error, directory.path()))?;
        let reports = match &mut evaluated {
            EvaluateResponse::One(report) => std::slice::from_mut(&mut **report),
            EvaluateResponse::Several { runs } => runs.as_mut_slice(),
        };
        for (report, run) in reports.iter_mut().zip(&request.runs) {
            report.run.clone_from(&run.name);
        }
        Ok(evaluated)
    }

    /// Compares the runs of a request with the first of them.
    pub async fn compare_inline(self, request: &InlineRankings) -> Result<CompareResponse, EngineError> {
        let defaults = ComparisonSettings::default();
        Self::admit_rankings(request, defaults.permutations + defaults.bootstrap.resamples)?;
        let (directory, rankings) = write_files(request)?;
        let compared = self
            .compare(CompareRequest {
                rankings,
                settings: ComparisonSettings {
                    alpha: request.alpha.unwrap_or(defaults.alpha),
                    ..defaults
                },
                fail_if_worse: None,
                per_query: false,
            })
            .await;
        let mut compared = compared.map_err(|error| hide_path(error, directory.path()))?;
        let mut names = request.runs.iter().map(|run| &run.name);
        if let Some(control) = names.next() {
            compared.control.clone_from(control);
        }
        for (comparison, name) in compared.comparisons.iter_mut().zip(names) {
            comparison.treatment.clone_from(name);
        }
        Ok(compared)
    }
}

impl RetrievalOperations<'_> {
    /// Admits the cost of evaluating these rankings with this many resamples per measure.
    fn admit_rankings(request: &InlineRankings, resamples: u64) -> Result<(), EngineError> {
        let measures = match request.measures.len() {
            0 => default_measures().len(),
            some => some,
        } as u64;
        let judged = request
            .judgments
            .iter()
            .map(|query| query.judgments.len() as u64 + 1);
        let answers = request.runs.iter().flat_map(|run| &run.queries);
        let (queries, results) = answers.fold((0_u64, 0_u64), |(queries, results), answer| {
            (queries + 1, results + answer.results.len() as u64)
        });
        let work = Workload {
            texts: judged.sum::<u64>().saturating_add(results),
            steps: queries
                .saturating_mul(resamples)
                .saturating_add(results)
                .saturating_mul(measures),
            output_bytes: measures
                .saturating_mul(request.runs.len() as u64)
                .saturating_mul(512),
            ..Workload::default()
        };
        admission::admit("measuring these rankings", &work, ModelCost::None)
    }
}

/// Writes the request to a temporary directory and returns it with the file names.
fn write_files(request: &InlineRankings) -> Result<(tempfile::TempDir, Rankings), EngineError> {
    let measures = if request.measures.is_empty() {
        default_measures()
    } else {
        let wrong = |problem| EngineError::Ranking {
            name: "measures".into(),
            problem,
        };
        request
            .measures
            .iter()
            .map(|name| name.parse::<Measure>())
            .collect::<Result<_, _>>()
            .map_err(wrong)?
    };
    let failed = |cause| EngineError::file("write", Path::new("a temporary file"), cause);
    let directory = tempfile::tempdir().map_err(failed)?;
    let write = |name: String, lines: Vec<serde_json::Value>| -> Result<PathBuf, EngineError> {
        let path = directory.path().join(name);
        let mut file = std::io::BufWriter::new(fs_err::File::create(&path).map_err(failed)?);
        for line in lines {
            writeln!(file, "{line}").map_err(failed)?;
        }
        file.flush().map_err(failed)?;
        Ok(path)
    };
    let judged = request.judgments.iter().map(|query| {
        let grades = query.judgments.iter();
        let grades: Vec<_> = grades
            .map(|grade| json!({"doc_id": grade.doc_id, "relevance": grade.relevance}))
            .collect();
        json!({"query_id": query.query_id, "judgments": grades})
    });
    let qrels = write("judgments.jsonl".into(), judged.collect())?;
    let mut runs = Vec::with_capacity(request.runs.len());
    for (number, run) in request.runs.iter().enumerate() {
        let answers = run.queries.iter();
        let answers = answers.map(|query| json!({"query_id": query.query_id, "results": query.results}));
        runs.push(write(format!("run{number}.jsonl"), answers.collect())?);
    }
    let defaults = EvaluationOptions::default();
    let rankings = Rankings {
        qrels,
        runs,
        order: OrderOptions::default(),
        options: EvaluationOptions {
            relevance_threshold: request
                .relevance_threshold
                .unwrap_or(defaults.relevance_threshold),
            ..defaults
        },
        measures,
        known: FactFiles::default(),
        by: Vec::new(),
    };
    Ok((directory, rankings))
}

/// Removes temporary paths from errors: the caller named no files.
fn hide_path(error: EngineError, directory: &Path) -> EngineError {
    let place = format!("{}/", directory.display());
    match error {
        EngineError::Ranking { name, problem } => EngineError::Ranking {
            name: name.replace(&place, ""),
            problem,
        },
        other => other,
    }
}
