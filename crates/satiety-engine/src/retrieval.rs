//! Measuring and comparing rankings that are in files: judgments and runs, plain or compressed.

use std::path::{Path, PathBuf};

use satiety::retrieval::{
    Aggregate, Comparison, ComparisonError, ComparisonSettings, Evaluation, EvaluationOptions, Gate, Kind,
    Measure, OrderOptions, Qrels, RetrievalError, Run, compare, evaluate,
};
use satiety::stats::BootstrapSettings;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::ranking_files::{name, read, wrong};
use crate::{Engine, EngineError};

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
}

/// Measured runs: one by itself, or a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Evaluated {
    /// The only run.
    One(Box<RunReport>),
    /// Several runs, in the order of the request.
    Several {
        /// The runs.
        runs: Vec<RunReport>,
    },
}

impl Evaluated {
    /// All of them.
    pub fn runs(&self) -> &[RunReport] {
        match self {
            Self::One(run) => std::slice::from_ref(run),
            Self::Several { runs } => runs,
        }
    }
}

/// A measured run.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
}

/// Values by name, in an order that means something.
#[derive(Debug, Clone, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

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
}

/// Runs compared with the first of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
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
#[derive(Debug, Clone, PartialEq, Serialize)]
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
}

/// How much of the top results was judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct JudgedShare {
    /// Among how many.
    pub depth: usize,
    /// Of the control.
    pub control: Option<f64>,
    /// Of the treatment.
    pub treatment: Option<f64>,
}

impl Engine {
    /// Measures runs against judgments.
    pub async fn evaluate_retrieval(&self, request: EvaluateRequest) -> Result<Evaluated, EngineError> {
        blocking(move || {
            let (qrels, runs) = read(&request.rankings)?;
            let mut reports = Vec::with_capacity(runs.len());
            for (path, run) in request.rankings.runs.iter().zip(&runs) {
                reports.push(report(path, &qrels, run, &request)?);
            }
            Ok(match <[RunReport; 1]>::try_from(reports) {
                Ok([only]) => Evaluated::One(Box::new(only)),
                Err(runs) => Evaluated::Several { runs },
            })
        })
        .await
    }

    /// Compares runs with the first of them.
    pub async fn compare_retrieval(&self, request: CompareRequest) -> Result<Compared, EngineError> {
        blocking(move || {
            let rankings = &request.rankings;
            let (qrels, runs) = read(rankings)?;
            let ([control, treatments @ ..], [control_path, paths @ ..]) = (&runs[..], &rankings.runs[..])
            else {
                return Err(EngineError::NothingToCompare);
            };
            if treatments.is_empty() {
                return Err(EngineError::NothingToCompare);
            }
            let measure = |run| evaluate(&qrels, run, &rankings.measures, &rankings.options);
            // Several treatments share one error rate: each gets its part, and Holm divides that among the measures.
            let settings = ComparisonSettings {
                alpha: request.settings.alpha / treatments.len() as f64,
                ..request.settings
            };
            let measured = measure(control);
            let depth = settings.thresholds.depth;
            let mut comparisons = Vec::with_capacity(treatments.len());
            for (path, treatment) in paths.iter().zip(treatments) {
                let comparison = compare((control, &measured), (treatment, &measure(treatment)), &settings)
                    .map_err(|problem| match problem {
                    ComparisonError::Retrieval(problem) => wrong(path, problem),
                    ComparisonError::Statistics(problem) => EngineError::Figures(problem),
                    _ => EngineError::NothingToCompare,
                })?;
                comparisons.push(RunComparison {
                    treatment: name(path),
                    gate: request.fail_if_worse.map(|margin| comparison.gate(margin)),
                    comparison,
                    judged: JudgedShare {
                        depth,
                        control: judged_share(&qrels, control, depth, rankings.options)?,
                        treatment: judged_share(&qrels, treatment, depth, rankings.options)?,
                    },
                });
            }
            Ok(Compared {
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

fn report(
    path: &Path,
    qrels: &Qrels,
    run: &Run,
    request: &EvaluateRequest,
) -> Result<RunReport, EngineError> {
    let options = request.rankings.options;
    let found = evaluate(qrels, run, &request.rankings.measures, &options);
    if found.queries().is_empty() || found.missing == qrels.queries() {
        return Err(wrong(path, RetrievalError::NoSharedQueries));
    }
    let mut metrics = Vec::with_capacity(found.measures().len());
    for (index, measure) in found.measures().iter().enumerate() {
        let mean = found
            .aggregate(index, &request.bootstrap)
            .map_err(EngineError::Figures)?;
        metrics.push((measure.to_string(), mean));
    }
    Ok(RunReport {
        run: name(path),
        metrics: Named(metrics),
        queries: found.queries().len(),
        missing_queries: found.missing,
        unjudged_queries: found.unknown,
        queries_without_relevant: found.without_relevant,
        options,
        bootstrap: request.bootstrap,
        per_query: request.per_query.then(|| per_query(&found)),
    })
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

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
