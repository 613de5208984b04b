//! Evaluation and comparison of rankings in files: judgments and runs, plain or compressed.

mod annotation;
mod corpus;
mod exported;
mod feedback_judgments;
mod files;
mod golden_error;
mod harvest;
mod history;
mod inline;
mod pool;
mod query_facts;
mod replay;
mod runs;
mod systems;

use crate::handles::RetrievalOperations;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::cancel::Cancellation;
use satiety::retrieval::{
    Aggregate, ColdStart, Comparison, ComparisonError, ComparisonSettings, EvalQuery, Evaluation,
    EvaluationOptions, Gate, GroupComparison, Kind, Measure, OrderOptions, Pipeline, Qrels, QueryChange,
    RetrievalError, Run, Trace, cold_start, compare_groups, compare_with_cancellation, evaluate,
    evaluate_graded_run, evaluate_with, personalization_lift, pipeline, query_changes,
};
use satiety::stats::BootstrapSettings;
use schemars::JsonSchema;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

pub use annotation::{AnnotateRequest, AnnotationQuestion, AnnotationStep, AnnotationVerdict};
pub use corpus::{CorpusCheck, CorpusRequest};
pub use feedback_judgments::{
    FeedbackJudgment, FeedbackOutcome, HumanAgreement, JudgeFeedbackRequest, JudgedCorpus,
};
pub use golden_error::GoldenError;
pub use harvest::{HarvestRequest, HarvestResponse};
pub use history::{CorpusTransfer, ExportCorpusRequest, ImportCorpusRequest};
pub use inline::{InlineAnswers, InlineGrade, InlineJudgments, InlineRankings, InlineRun};
pub use pool::{PoolRequest, PoolResponse};
pub use query_facts::FactFiles;
pub use replay::{FailedQuery, JudgmentFilter, ReplayProgress, ReplayRequest, ReplayResponse};
pub use runs::{MeasuredRun, MeasuredRunDetail, MeasuredRuns, QueryDelta, RunChanges, UnfinishedRun};
pub use systems::{SystemContext, SystemSpec, ToolCall};

use crate::EngineError;
use files::{
    Answers, are_regular_files, format, name, read, read_chunks, read_graded, read_qrels, read_run, wrong,
};
use query_facts::QueryFacts;

/// Judgments and runs, and how to read and evaluate them.
#[derive(Debug, Clone)]
pub struct Rankings {
    /// File or directory with the judgments.
    pub qrels: PathBuf,
    /// Run files.
    pub runs: Vec<PathBuf>,
    /// How lines become ranked lists.
    pub order: OrderOptions,
    /// Evaluation options, such as the relevance threshold.
    pub options: EvaluationOptions,
    /// Measures to compute.
    pub measures: Vec<Measure>,
    /// Files with more facts about queries and documents.
    pub known: FactFiles,
    /// Fields of queries to break the metrics down by.
    pub by: Vec<String>,
}

/// Request to evaluate runs.
#[derive(Debug, Clone)]
pub struct EvaluateRequest {
    pub rankings: Rankings,
    /// Bootstrap of the confidence intervals.
    pub bootstrap: BootstrapSettings,
    /// Whether to return the value of every query.
    pub per_query: bool,
    /// Number of results per query for the pipeline metrics.
    pub depth: usize,
    /// Whether to store the metrics.
    pub record: bool,
}

/// Cost estimate that makes file requests run on a separate thread, whatever their size.
const FILE_UNITS: u64 = 1000;

/// Evaluated runs: a single one, or a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum EvaluateResponse {
    /// Result for a single run.
    One(Box<RunReport>),
    /// Several runs, in the order of the request.
    Several {
        /// Results in the order of the request.
        runs: Vec<RunReport>,
    },
}

impl EvaluateResponse {
    /// Returns all runs.
    pub fn runs(&self) -> &[RunReport] {
        match self {
            Self::One(run) => std::slice::from_ref(run),
            Self::Several { runs } => runs,
        }
    }
}

/// Metrics of an evaluated run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunReport {
    /// File name of the run.
    pub run: String,
    /// Mean of each measure with its confidence interval.
    pub metrics: Named<Aggregate>,
    /// Number of queries in the means.
    pub queries: usize,
    /// Judged queries for which the run has no results.
    pub missing_queries: usize,
    /// Queries of the run without judgments, which were skipped.
    pub unjudged_queries: usize,
    /// Queries without a document at or above the relevance threshold.
    pub queries_without_relevant: usize,
    /// Evaluation options that were applied.
    pub options: EvaluationOptions,
    /// Bootstrap settings of the confidence intervals.
    pub bootstrap: BootstrapSettings,
    /// Value of every query and measure, if requested; undefined values are omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_query: Option<Named<Named<f64>>>,
    /// Means by field and value, if requested.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, BTreeMap<String, GroupReport>>,
    /// Reciprocal rank of the first queries of sessions, if the queries have sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
    /// Effect of the session boost on the reciprocal rank, if the run has results without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personalization_lift: Option<Aggregate>,
    /// Pipeline metrics, if the run has traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// Id of the stored metrics, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// Metrics of the queries that share a value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GroupReport {
    /// Number of queries in the group.
    pub queries: usize,
    /// Mean of each measure with its confidence interval.
    pub metrics: Named<Aggregate>,
}

/// Values by name, in a meaningful order.
#[derive(Debug, Clone, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Request to compare runs with the first of them.
#[derive(Debug, Clone)]
pub struct CompareRequest {
    /// Files to compare; the first run is the control.
    pub rankings: Rankings,
    pub settings: ComparisonSettings,
    /// Accepted loss of the gate, if there is one.
    pub fail_if_worse: Option<f64>,
    /// Whether to return the difference of every query.
    pub per_query: bool,
}

/// Comparison of runs with the control.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CompareResponse {
    /// File name of the control run.
    pub control: String,
    /// One comparison per treatment.
    pub comparisons: Vec<RunComparison>,
    /// Accepted loss of the gate; absent without a gate.
    pub fail_if_worse: Option<f64>,
    /// Evaluation options that were applied.
    pub options: EvaluationOptions,
    /// Settings of the comparison, such as alpha.
    pub settings: ComparisonSettings,
}

/// A run compared with the control.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunComparison {
    /// File name of the treatment run.
    pub treatment: String,
    /// Differences with intervals and p-values.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Decision of the gate; absent without one.
    pub gate: Option<Gate>,
    /// Share of judged documents in the top results; unjudged ones count as irrelevant.
    pub judged: JudgedShare,
    /// Comparison of the first measure by field and value, if requested.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, Vec<GroupComparison>>,
    /// Changes of the first measure by query, largest loss first, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_query: Option<Vec<ChangedQuery>>,
}

/// Change of a query between two systems.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChangedQuery {
    /// Values of both systems and their difference.
    #[serde(flatten)]
    pub change: QueryChange,
    /// Text of the query, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Value of the first breakdown field, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Share of judged documents in the top results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct JudgedShare {
    /// Number of top results considered per query.
    pub depth: usize,
    /// Share for the control, 0 to 1.
    pub control: Option<f64>,
    /// Share for the treatment, 0 to 1.
    pub treatment: Option<f64>,
}

impl RetrievalOperations<'_> {
    /// Evaluates runs against judgments.
    pub async fn evaluate(self, request: EvaluateRequest) -> Result<EvaluateResponse, EngineError> {
        let record = request.record;
        let mut reports = self
            .engine
            .compute(FILE_UNITS, move |cancellation| {
                if let Some(reports) = graded_reports(&request, cancellation)? {
                    return Ok(reports);
                }
                let (qrels, runs) = read(&request.rankings)?;
                let known = request.rankings.known()?;
                let mut reports = Vec::with_capacity(runs.len());
                for (path, run) in request.rankings.runs.iter().zip(&runs) {
                    cancellation.check()?;
                    let found = report(path, &qrels, run, &known, &request)?;
                    check_shared_queries(path, &qrels, &found)?;
                    reports.push(found);
                }
                Ok(reports)
            })
            .await?;
        if record {
            for report in &mut reports {
                self.record_evaluation(report).await?;
            }
        }
        Ok(match <[RunReport; 1]>::try_from(reports) {
            Ok([only]) => EvaluateResponse::One(Box::new(only)),
            Err(runs) => EvaluateResponse::Several { runs },
        })
    }

    /// Compares runs with the first of them.
    pub async fn compare(self, request: CompareRequest) -> Result<CompareResponse, EngineError> {
        self.engine
            .compute(FILE_UNITS, move |cancellation| {
                let rankings = &request.rankings;
                let (qrels, runs) = read(rankings)?;
                let known = rankings.known()?;
                let ([control, treatments @ ..], [control_path, paths @ ..]) =
                    (&runs[..], &rankings.runs[..])
                else {
                    return Err(EngineError::NothingToCompare);
                };
                if treatments.is_empty() {
                    return Err(EngineError::NothingToCompare);
                }
                // Several treatments share one error rate: each gets an equal part, and Holm divides that
                // among the measures.
                let settings = ComparisonSettings {
                    alpha: request.settings.alpha / treatments.len() as f64,
                    ..request.settings
                };
                let measured = rankings.measure(&qrels, &control.run, &known, control_path)?;
                let mut comparisons = Vec::with_capacity(treatments.len());
                for (path, treatment) in paths.iter().zip(treatments) {
                    let other = rankings.measure(&qrels, &treatment.run, &known, path)?;
                    let refused = |problem| refused(path, problem);
                    let control = (&control.run, &measured);
                    let treatment = (&treatment.run, &other);
                    let comparison = compare_with_cancellation(control, treatment, &settings, cancellation)
                        .map_err(refused)?;
                    let mut by = BTreeMap::new();
                    for name in &rankings.by {
                        let field = |query: &str| known.field(query, name);
                        let groups =
                            compare_groups(control.1, treatment.1, field, &settings).map_err(refused)?;
                        by.insert(name.clone(), groups);
                    }
                    let depth = settings.thresholds.depth;
                    comparisons.push(RunComparison {
                        treatment: name(path),
                        gate: request.fail_if_worse.map(|margin| comparison.gate(margin)),
                        comparison,
                        judged: JudgedShare {
                            depth,
                            control: judged_share(&qrels, control.0, depth, rankings.options)?,
                            treatment: judged_share(&qrels, treatment.0, depth, rankings.options)?,
                        },
                        by,
                        per_query: request
                            .per_query
                            .then(|| changed(&query_changes(control.1, treatment.1), &known, &rankings.by)),
                    });
                }
                Ok(CompareResponse {
                    control: name(control_path),
                    comparisons,
                    fail_if_worse: request.fail_if_worse,
                    options: rankings.options,
                    settings,
                })
            })
            .await
    }
}

impl Rankings {
    /// Loads further facts if a measure or a breakdown needs them.
    fn known(&self) -> Result<QueryFacts, EngineError> {
        let documents = self.measures.iter().any(|measure| measure.kind.needs_facts());
        let known = QueryFacts::read(&self.known, &self.qrels, documents)?;
        known.check_fields(&self.by)?;
        Ok(known)
    }

    fn measure(
        &self,
        qrels: &Qrels,
        run: &Run,
        known: &QueryFacts,
        path: &Path,
    ) -> Result<Evaluation, EngineError> {
        evaluate_with(qrels, run, &self.measures, &self.options, &known.facts)
            .map_err(|problem| wrong(path, problem))
    }
}

fn refused(path: &Path, problem: ComparisonError) -> EngineError {
    match problem {
        ComparisonError::Retrieval(problem) => wrong(path, problem),
        ComparisonError::Statistics(problem) => EngineError::Figures(problem),
        ComparisonError::Cancelled(_) => EngineError::Cancelled,
        _ => EngineError::NothingToCompare,
    }
}

fn changed(changes: &[QueryChange], known: &QueryFacts, by: &[String]) -> Vec<ChangedQuery> {
    let with_words = |change: &QueryChange| ChangedQuery {
        text: known
            .queries
            .get(&change.query)
            .and_then(|query| query.query.clone()),
        group: by.first().and_then(|name| known.field(&change.query, name)),
        change: change.clone(),
    };
    changes.iter().map(with_words).collect()
}

/// Reports of runs that are graded while they are read; `None` if the results are needed with their documents,
/// or if a file has to be read as a whole.
fn graded_reports(
    request: &EvaluateRequest,
    cancellation: &Cancellation,
) -> Result<Option<Vec<RunReport>>, EngineError> {
    let rankings = &request.rankings;
    let needs_facts = rankings.measures.iter().any(|measure| measure.kind.needs_facts());
    if needs_facts || !are_regular_files(rankings) {
        return Ok(None);
    }
    // Errors of the files are reported in their order by reading them as a whole.
    let Ok(known) = rankings.known() else {
        return Ok(None);
    };
    if known.facts.has_classes() || known.queries.values().any(EvalQuery::is_cold_start) {
        return Ok(None);
    }
    let Some((qrels, runs)) = read_graded(rankings) else {
        return Ok(None);
    };
    let mut reports = Vec::with_capacity(runs.len());
    for (path, run) in rankings.runs.iter().zip(&runs) {
        cancellation.check()?;
        let found = evaluate_graded_run(&qrels, run, &rankings.measures, &rankings.options);
        let found = report_values(path, &qrels, &found, &[], &known, request)?;
        check_shared_queries(path, &qrels, &found)?;
        reports.push(found);
    }
    Ok(Some(reports))
}

/// Rejects a file of other queries, which is a mistake and not a system that found nothing.
fn check_shared_queries(path: &Path, qrels: &Qrels, found: &RunReport) -> Result<(), EngineError> {
    if found.queries == 0 || found.missing_queries == qrels.queries() {
        return Err(wrong(path, RetrievalError::NoSharedQueries));
    }
    Ok(())
}

fn report(
    path: &Path,
    qrels: &Qrels,
    answers: &Answers,
    known: &QueryFacts,
    request: &EvaluateRequest,
) -> Result<RunReport, EngineError> {
    let found = request.rankings.measure(qrels, &answers.run, known, path)?;
    Ok(RunReport {
        cold_start: first_queries(qrels, &answers.run, known, request)?,
        ..report_values(path, qrels, &found, &answers.traces, known, request)?
    })
}

/// The report of a run without its cold start.
fn report_values(
    path: &Path,
    qrels: &Qrels,
    found: &Evaluation,
    traces: &[Trace],
    known: &QueryFacts,
    request: &EvaluateRequest,
) -> Result<RunReport, EngineError> {
    let options = request.rankings.options;
    let mut by = BTreeMap::new();
    for name in &request.rankings.by {
        let mut groups = BTreeMap::new();
        for (value, rows) in found.groups(|query| known.field(query, name)) {
            let group = GroupReport {
                queries: rows.len(),
                metrics: metrics(&found.subset(&rows), &request.bootstrap)?,
            };
            groups.insert(value, group);
        }
        by.insert(name.clone(), groups);
    }
    let has_session_lift = |trace: &Trace| trace.without_session.is_some();
    let statistics_error = EngineError::Figures;
    let lift = || {
        personalization_lift(
            traces,
            qrels,
            options.relevance_threshold,
            request.depth,
            &request.bootstrap,
        )
    };
    Ok(RunReport {
        run: name(path),
        metrics: metrics(found, &request.bootstrap)?,
        queries: found.queries().len(),
        missing_queries: found.missing,
        unjudged_queries: found.unknown,
        queries_without_relevant: found.without_relevant,
        options,
        bootstrap: request.bootstrap,
        per_query: request.per_query.then(|| per_query(found)),
        by,
        cold_start: None,
        personalization_lift: traces
            .iter()
            .any(has_session_lift)
            .then(lift)
            .transpose()
            .map_err(statistics_error)?,
        pipeline: (!traces.is_empty())
            .then(|| pipeline(traces, request.depth, &request.bootstrap))
            .transpose()
            .map_err(statistics_error)?,
        run_id: None,
    })
}

fn metrics(found: &Evaluation, bootstrap: &BootstrapSettings) -> Result<Named<Aggregate>, EngineError> {
    let mut metrics = Vec::with_capacity(found.measures().len());
    for (index, measure) in found.measures().iter().enumerate() {
        let mean = found.aggregate(index, bootstrap).map_err(EngineError::Figures)?;
        metrics.push((measure.to_string(), mean));
    }
    Ok(Named(metrics))
}

/// Compares the reciprocal rank of first queries with the others; `None` if no query is a first one.
fn first_queries(
    qrels: &Qrels,
    run: &Run,
    known: &QueryFacts,
    request: &EvaluateRequest,
) -> Result<Option<ColdStart>, EngineError> {
    let is_cold = |query: &str| known.queries.get(query).is_some_and(EvalQuery::is_cold_start);
    if !known.queries.keys().any(|query| is_cold(query)) {
        return Ok(None);
    }
    let measure = Measure {
        kind: Kind::Mrr,
        cutoff: std::num::NonZeroUsize::new(request.depth),
    };
    let found = evaluate(qrels, run, &[measure], &request.rankings.options);
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for (query, value) in found.queries().iter().zip(found.column(0)) {
        if let Some(value) = value {
            if is_cold(query) {
                cold.push(value);
            } else {
                warm.push(value);
            }
        }
    }
    cold_start(&cold, &warm, &request.bootstrap)
        .map(Some)
        .map_err(EngineError::Figures)
}

fn per_query(found: &Evaluation) -> Named<Named<f64>> {
    let names: Vec<String> = found.measures().iter().map(ToString::to_string).collect();
    let rows = found.queries().iter().enumerate().map(|(position, query)| {
        let values = names.iter().zip(found.row(position));
        let values = values.filter_map(|(name, value)| Some((name.clone(), (*value)?)));
        (query.clone(), Named(values.collect()))
    });
    Named(rows.collect())
}

fn judged_share(
    qrels: &Qrels,
    run: &Run,
    depth: usize,
    options: EvaluationOptions,
) -> Result<Option<f64>, EngineError> {
    let measure = Measure {
        kind: Kind::Judged,
        cutoff: std::num::NonZeroUsize::new(depth),
    };
    let no_interval = BootstrapSettings {
        resamples: 0,
        ..BootstrapSettings::default()
    };
    let found = evaluate(qrels, run, &[measure], &options);
    Ok(found
        .aggregate(0, &no_interval)
        .map_err(EngineError::Figures)?
        .mean)
}

/// Runs work on a separate thread, for local use cases; remote requests use `Engine::compute`.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
