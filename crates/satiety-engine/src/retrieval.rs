//! Measuring and comparing rankings that are in files: judgments and runs, plain or compressed.

mod annotation;
mod corpus;
mod feedback_judgments;
mod files;
mod golden_error;
mod harvest;
mod history;
mod inline;
mod measured_runs;
mod pool;
mod query_facts;
mod replay;
mod systems;

use crate::handles::RetrievalOperations;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::retrieval::{
    Aggregate, ColdStart, Comparison, ComparisonError, ComparisonSettings, Evaluation, EvaluationOptions,
    Gate, GroupComparison, Kind, Measure, OrderOptions, Pipeline, Qrels, QueryChange, RetrievalError, Run,
    Trace, cold_start, compare_groups, compare_until, evaluate, evaluate_with, personalization_lift,
    pipeline, query_changes,
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
pub use measured_runs::{MeasuredRun, MeasuredRuns, QueryDelta, RunChanges, UnfinishedRun, WholeRun};
pub use pool::{PoolRequest, PoolResponse};
pub use query_facts::FactFiles;
pub use replay::{FailedQuery, JudgmentFilter, ReplayProgress, ReplayRequest, ReplayResponse};
pub use systems::{SystemContext, SystemSpec, ToolCall};

use crate::EngineError;
use files::{Answers, format, name, pieces, read, read_qrels, read_run, wrong};
use query_facts::QueryFacts;

/// Judgments, runs, and how to read and count them.
#[derive(Debug, Clone)]
pub struct Rankings {
    /// The judgments.
    pub qrels: PathBuf,
    /// The runs.
    pub runs: Vec<PathBuf>,
    /// How lines become lists.
    pub order: OrderOptions,
    /// What counts how much.
    pub options: EvaluationOptions,
    /// What to compute.
    pub measures: Vec<Measure>,
    /// What else is known about queries and documents.
    pub known: FactFiles,
    /// Fields of queries to break the figures down by.
    pub by: Vec<String>,
}

/// Runs to be measured.
#[derive(Debug, Clone)]
pub struct EvaluateRequest {
    /// The files.
    pub rankings: Rankings,
    /// The intervals of the means.
    pub bootstrap: BootstrapSettings,
    /// Whether to give the value of every query.
    pub per_query: bool,
    /// How many results of each query the pipeline's figures look at.
    pub depth: usize,
    /// Whether to keep the figures in the store.
    pub record: bool,
}

/// Files are read and resampled on a thread of their own, however small they are.
const ON_A_THREAD: u64 = 1000;

/// Measured runs: one by itself, or a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum EvaluateResponse {
    /// The only run.
    One(Box<RunReport>),
    /// Several runs, in the order of the request.
    Several {
        /// The runs.
        runs: Vec<RunReport>,
    },
}

impl EvaluateResponse {
    /// All of them.
    pub fn runs(&self) -> &[RunReport] {
        match self {
            Self::One(run) => std::slice::from_ref(run),
            Self::Several { runs } => runs,
        }
    }
}

/// A measured run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunReport {
    /// The run's file.
    pub run: String,
    /// The mean of each measure.
    pub metrics: Named<Aggregate>,
    /// Queries that count.
    pub queries: usize,
    /// Judged queries for which the run returns nothing.
    pub missing_queries: usize,
    /// Queries of the run that are not judged, which were not measured.
    pub unjudged_queries: usize,
    /// Queries without a document at or above the threshold.
    pub queries_without_relevant: usize,
    /// What counted how much.
    pub options: EvaluationOptions,
    /// Where the intervals come from.
    pub bootstrap: BootstrapSettings,
    /// The value of every query and measure, when asked for; what cannot be said is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_query: Option<Named<Named<f64>>>,
    /// The means by field and value, when asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, BTreeMap<String, GroupReport>>,
    /// How first queries of a session fare, when queries tell which they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
    /// What the session's boost does to the reciprocal rank, when the run tells results without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personalization_lift: Option<Aggregate>,
    /// What happened inside the searches, when the run tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// The id under which the figures are in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// The queries that share a value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GroupReport {
    /// How many they are.
    pub queries: usize,
    /// The mean of each measure.
    pub metrics: Named<Aggregate>,
}

/// Values by name, in an order that means something.
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

/// Runs to be compared with the first of them.
#[derive(Debug, Clone)]
pub struct CompareRequest {
    /// The files; the first run is the control.
    pub rankings: Rankings,
    /// How to compare.
    pub settings: ComparisonSettings,
    /// How much worse the others may be, when there is a gate.
    pub fail_if_worse: Option<f64>,
    /// Whether to give the difference of every query.
    pub per_query: bool,
}

/// Runs compared with the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CompareResponse {
    /// The control's file.
    pub control: String,
    /// The others.
    pub comparisons: Vec<RunComparison>,
    /// How much worse they may be, when there is a gate.
    pub fail_if_worse: Option<f64>,
    /// What counted how much.
    pub options: EvaluationOptions,
    /// How it was compared.
    pub settings: ComparisonSettings,
}

/// A run compared with the control.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunComparison {
    /// The treatment's file.
    pub treatment: String,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// What the gate says, when there is one.
    pub gate: Option<Gate>,
    /// How much of the top results was judged at all: an unjudged result counts as irrelevant.
    pub judged: JudgedShare,
    /// The first measure by field and value, when asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, Vec<GroupComparison>>,
    /// The first measure by query, worst change first, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_query: Option<Vec<ChangedQuery>>,
}

/// A query that both systems answered.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChangedQuery {
    /// The change.
    #[serde(flatten)]
    pub change: QueryChange,
    /// What was asked, when it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The value of the first field that figures are broken down by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// How much of the top results was judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct JudgedShare {
    /// Among how many.
    pub depth: usize,
    /// Of the control.
    pub control: Option<f64>,
    /// Of the treatment.
    pub treatment: Option<f64>,
}

impl RetrievalOperations<'_> {
    /// Measures runs against judgments.
    pub async fn evaluate(self, request: EvaluateRequest) -> Result<EvaluateResponse, EngineError> {
        let record = request.record;
        let mut reports = self
            .engine
            .compute(ON_A_THREAD, move |cancellation| {
                let (qrels, runs) = read(&request.rankings)?;
                let known = request.rankings.known()?;
                let mut reports = Vec::with_capacity(runs.len());
                for (path, run) in request.rankings.runs.iter().zip(&runs) {
                    cancellation.check()?;
                    reports.push(report(path, &qrels, run, &known, &request)?);
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
            .compute(ON_A_THREAD, move |cancellation| {
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
                // Several treatments share one error rate: each gets its part, and Holm divides that among the measures.
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
                    let comparison =
                        compare_until(control, treatment, &settings, cancellation).map_err(refused)?;
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
    /// What else is known, where something asks for it.
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

fn report(
    path: &Path,
    qrels: &Qrels,
    answers: &Answers,
    known: &QueryFacts,
    request: &EvaluateRequest,
) -> Result<RunReport, EngineError> {
    let options = request.rankings.options;
    let found = request.rankings.measure(qrels, &answers.run, known, path)?;
    if found.queries().is_empty() || found.missing == qrels.queries() {
        return Err(wrong(path, RetrievalError::NoSharedQueries));
    }
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
    let traces = &answers.traces;
    let told = |trace: &Trace| trace.without_session.is_some();
    let figures = EngineError::Figures;
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
        metrics: metrics(&found, &request.bootstrap)?,
        queries: found.queries().len(),
        missing_queries: found.missing,
        unjudged_queries: found.unknown,
        queries_without_relevant: found.without_relevant,
        options,
        bootstrap: request.bootstrap,
        per_query: request.per_query.then(|| per_query(&found)),
        by,
        cold_start: first_queries(qrels, &answers.run, known, request)?,
        personalization_lift: traces.iter().any(told).then(lift).transpose().map_err(figures)?,
        pipeline: (!traces.is_empty())
            .then(|| pipeline(traces, request.depth, &request.bootstrap))
            .transpose()
            .map_err(figures)?,
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

/// The reciprocal rank of first queries beside that of all others; nothing when no query is a first one.
fn first_queries(
    qrels: &Qrels,
    run: &Run,
    known: &QueryFacts,
    request: &EvaluateRequest,
) -> Result<Option<ColdStart>, EngineError> {
    let is_cold = |query: &str| {
        known
            .queries
            .get(query)
            .is_some_and(satiety::retrieval::EvalQuery::is_cold_start)
    };
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

/// Runs work on a thread of its own, for use cases of this machine; requests from elsewhere use `Engine::compute`.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
