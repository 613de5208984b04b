//! Golden data: which logged queries make a corpus, what feedback says about relevance, what a person is asked next, how
//! far people agree, and how the answers of any system become a ranking.
//!
//! Everything is a function of what it is given; chance comes in as a seed. Nothing here knows about stores, terminals or
//! protocols.

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
pub use answers::{AnswerPaths, AnswerPreset, Answered, FoundResult, KnownTexts, PRESETS, read_answer};
pub use categories::{LoggedQuery, categories_of};
pub use harvest::{Harvest, HarvestSettings, HarvestedQuery, SkipReason, SkippedQuery, Stratum, harvest};
pub use signals::{FeedbackSignal, JudgedFromFeedback, SignalRules, judge_from_feedback, signal_rules};
