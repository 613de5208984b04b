//! Stopping decisions for conversations: CONTINUE, SHIP, STOP or ESCALATE after each round.
//!
//! [`Conversation`] takes rounds one at a time and returns a signal with reasons after each. Novelty
//! ([`Profile::novelty`]) measures which claims are new, by normal form, words and embedding; readiness
//! measures whether there is something to execute; the decision rule combines both with the history of the
//! conversation. The module does no I/O: callers pass embeddings as [`RoundVectors`] and read files
//! themselves.

mod agreement;
mod blockers;
mod calibrate;
mod conversation;
mod decide;
mod explain;
pub mod input;
mod lexicon;
mod named;
mod novelty;
mod profile;
mod questions;
mod readiness;
mod report;
mod review;
mod sweep;
#[cfg(test)]
mod tests;
mod unseen;
mod vectors;
mod warnings;
pub mod wire;

pub use calibrate::{Fit, ScoredPair, fit_threshold};
pub use conversation::{Conversation, ConversationError};
pub use profile::{
    ActionRules, AgreementRules, BlockerRules, DecisionRules, NoveltyRules, Profile, ProfileError,
    QuestionRules, ReadinessRules, ReviewRules, Rule, WarningRules,
};
pub use report::{
    AnsweredQuestion, Components, Evidence, Level, ReadinessDetail, Report, Restatement, Review,
    RoundNovelty, RoundReadiness, RoundSignal, RoundUnseen, RoundYield, Signal, StopRecommendation, Unseen,
    Verdict, Warning, WarningKind,
};
pub use sweep::{Cell, Confusion, Grid, Labelled, Outcome, SweepReport, sweep};
pub use vectors::{RoundVectors, VectorError, prototype_texts, texts_to_embed};
pub use wire::{Claim, Inputs, Outputs, Round, Telemetry, Transcript};
