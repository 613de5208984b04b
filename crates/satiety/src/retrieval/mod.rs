//! Evaluation of rankings: relevance judgments and runs in the formats of `trec_eval`, the standard measures,
//! and statistical comparison of two systems.
//!
//! The module does no I/O: readers take bytes, everything else takes values.
//!
//! ```
//! use satiety::retrieval::{EvaluationOptions, Measure, OrderOptions, QrelsReader, RunReader, evaluate};
//!
//! let mut qrels = QrelsReader::trec();
//! qrels.push(b"q1 0 a 3\nq1 0 b 0\nq1 0 c 2\n")?;
//! let mut run = RunReader::trec();
//! run.push(b"q1 Q0 b 1 9.5 mine\nq1 Q0 a 2 9.0 mine\n")?;
//! let (qrels, run) = (qrels.finish(OrderOptions::default())?, run.finish(OrderOptions::default())?);
//!
//! let measures: Vec<Measure> = ["mrr@10", "recall@5"].iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
//! let found = evaluate(&qrels, &run, &measures, &EvaluationOptions::default());
//! assert_eq!(found.row(0), [Some(0.5), Some(0.5)]);
//! # Ok::<(), satiety::retrieval::RetrievalError>(())
//! ```

mod builder;
mod comparison;
mod corpus;
mod corpus_wire;
mod difference;
mod error;
mod evaluation;
mod facts;
mod fast_parse;
mod golden;
mod graded;
mod index;
mod lists;
mod measure;
mod memory;
mod pipeline;
mod pool;
mod reader;
mod score;
mod tables;
mod values;

pub use comparison::{
    Comparison, ComparisonError, ComparisonSettings, DifferenceCounts, Gate, GroupComparison,
    MeasureComparison, QueryChange, Verdict, compare, compare_groups, compare_with_cancellation,
    query_changes,
};
pub(crate) use corpus::{CATEGORY_TARGETS, INTENTS};
pub use corpus::{
    CategoryReport, CategoryTarget, CorpusError, CorpusReport, CorpusSettings, Coverage, NearDuplicate,
    Power, check_corpus,
};
pub use corpus_wire::{
    CorpusReader, Document, EvalJudgment, EvalQuery, JudgmentSource, QueriesReader, SessionContext,
};
pub use difference::{Difference, DifferenceClass, DifferenceThresholds, difference};
pub use error::{RetrievalError, RetrievalResult};
pub use evaluation::{
    Aggregate, Evaluation, EvaluationOptions, GradedQuery, MissingQueries, NoRelevant, Unjudged, evaluate,
    evaluate_graded, evaluate_graded_run, evaluate_with,
};
pub use facts::Facts;
pub use golden::{
    Agreement, AnnotationItem, AnnotationProgress, AnnotationSettings, AnnotatorPair, AnswerPaths,
    AnswerPreset, AnswerResult, Answered, Consensus, Disagreement, DocumentMatcher, FeedbackSignal, Harvest,
    HarvestSettings, HarvestedQuery, JudgedFromFeedback, LoggedQuery, PRESETS, PoolEntry, Rating, Said,
    SignalRules, SkipReason, SkippedQuery, Stratum, agreement, annotation_progress, categories_of, consensus,
    harvest, judge_from_feedback, next_annotation, read_answer, signal_rules, weighted_kappa,
};
pub use graded::{GradedRun, GradedRunPart};
pub use lists::{Dedup, OrderOptions, Qrels, Run, Ties};
pub use measure::{Kind, Measure, decisive_measures, default_measures};
pub use memory::{Surfacing, Tier, causal_chain, constitutional_surfacing, importance_weighted_recall};
pub use pipeline::{
    Channel, ColdStart, Latency, Pipeline, TokenSavings, Trace, TraceReader, TracedResult, cold_start,
    personalization_lift, pipeline,
};
pub use pool::{PooledDocument, PooledQuery, pool};
pub use reader::{FileFormat, GradingReader, QrelsPart, QrelsReader, RunPart, RunReader};
pub use values::{QrelsBuilder, RunBuilder};
