//! Golden datasets: harvesting queries from logs, judgments from feedback, annotation order, inter-annotator
//! agreement, and conversion of tool answers to rankings.
//!
//! All functions are pure and deterministic for a given seed.

mod agreement;
mod annotation;
mod answers;
mod categories;
mod harvest;
mod signals;

pub use agreement::{Agreement, AnnotatorPair, Disagreement, Rating, agreement, weighted_kappa};
pub use annotation::{
    AnnotationItem, AnnotationProgress, AnnotationSettings, Consensus, PoolEntry, Said, annotation_progress,
    consensus, next_annotation,
};
pub use answers::{AnswerPaths, AnswerPreset, AnswerResult, Answered, DocumentMatcher, PRESETS, read_answer};
pub use categories::{LoggedQuery, categories_of};
pub use harvest::{Harvest, HarvestSettings, HarvestedQuery, SkipReason, SkippedQuery, Stratum, harvest};
pub use signals::{FeedbackSignal, JudgedFromFeedback, SignalRules, judge_from_feedback, signal_rules};
