//! Judgments and runs that come with the request instead of as files. They are put into a folder of their own for the time
//! of the request, so that there is one way of reading and counting and not two.

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

/// How many results of each query the pipeline's figures look at.
const DEPTH: usize = 10;

/// Judgments and runs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineRankings {
    /// The judgments, by query.
    #[schemars(length(min = 1))]
    pub judgments: Vec<InlineJudgments>,
    /// The runs; for a comparison the first is the control.
    #[schemars(length(min = 1, max = 10))]
    pub runs: Vec<InlineRun>,
    /// What to compute, such as `ndcg@10`; the usual measures where empty.
    #[serde(default)]
    #[schemars(inner(regex(pattern = crate::operations::MEASURE)))]
    pub measures: Vec<String>,
    /// The grade from which a document is relevant; 2 where absent.
    #[serde(default)]
    pub relevance_threshold: Option<i32>,
    /// The probability of a false claim in a comparison; 0.05 where absent.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub alpha: Option<f64>,
}

/// What was judged about a query.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineJudgments {
    /// The query.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub query_id: String,
    /// Documents with their grades.
    #[schemars(length(min = 1))]
    pub judgments: Vec<InlineGrade>,
}

/// The grade of a document.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineGrade {
    /// The document.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub doc_id: String,
    /// Its grade.
    pub relevance: i32,
}

/// A system's answers.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineRun {
    /// What the run is called.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub name: String,
    /// Query by query.
    #[schemars(length(min = 1))]
    pub queries: Vec<InlineAnswers>,
}

/// What a system answered to a query.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineAnswers {
    /// The query.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub query_id: String,
    /// Documents, best first.
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub results: Vec<String>,
}

impl RetrievalOperations<'_> {
    /// Measures runs that come with the request.
    pub async fn evaluate_inline(self, request: &InlineRankings) -> Result<EvaluateResponse, EngineError> {
        let bootstrap = BootstrapSettings::default();
        Self::admit_rankings(request, bootstrap.resamples)?;
        let (folder, rankings) = put_down(request)?;
        let evaluated = self
            .evaluate(EvaluateRequest {
                rankings,
                bootstrap,
                per_query: false,
                depth: DEPTH,
                record: false,
            })
            .await;
        let mut evaluated = evaluated.map_err(|error| without_place(error, folder.path()))?;
        let reports = match &mut evaluated {
            EvaluateResponse::One(report) => std::slice::from_mut(&mut **report),
            EvaluateResponse::Several { runs } => runs.as_mut_slice(),
        };
        for (report, run) in reports.iter_mut().zip(&request.runs) {
            report.run.clone_from(&run.name);
        }
        Ok(evaluated)
    }

    /// Compares runs that come with the request with the first of them.
    pub async fn compare_inline(self, request: &InlineRankings) -> Result<CompareResponse, EngineError> {
        let defaults = ComparisonSettings::default();
        Self::admit_rankings(request, defaults.permutations + defaults.bootstrap.resamples)?;
        let (folder, rankings) = put_down(request)?;
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
        let mut compared = compared.map_err(|error| without_place(error, folder.path()))?;
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
    /// Admits the cost of measuring these rankings with so many resamples of each measure.
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

/// Writes the request down and says where.
fn put_down(request: &InlineRankings) -> Result<(tempfile::TempDir, Rankings), EngineError> {
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
    let folder = tempfile::tempdir().map_err(failed)?;
    let write = |name: String, lines: Vec<serde_json::Value>| -> Result<PathBuf, EngineError> {
        let path = folder.path().join(name);
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
    Ok((folder, rankings))
}

/// The asker has named no files and is told of none.
fn without_place(error: EngineError, folder: &Path) -> EngineError {
    let place = format!("{}/", folder.display());
    match error {
        EngineError::Ranking { name, problem } => EngineError::Ranking {
            name: name.replace(&place, ""),
            problem,
        },
        other => other,
    }
}
