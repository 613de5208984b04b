//! Is the conversation still producing anything, and what to do about it?
//!
//! [`Conversation`] takes rounds one at a time and answers CONTINUE, SHIP, STOP or ESCALATE after each, with reasons.
//! Novelty ([`Profile::novelty`]) asks whether claims were made before, by form, words and meaning; readiness whether
//! there is something to carry out; the decider looks at both and at the course so far. Values in, verdict out:
//! meaning comes in as vectors ([`RoundVectors`]), files and models are somebody else's business.

mod agreement;
mod blockers;
mod calibrate;
mod conversation;
mod decide;
mod explain;
pub mod input;
mod lexicon;
mod novelty;
mod profile;
mod questions;
mod readiness;
mod report;
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
    QuestionRules, ReadinessRules, Rule, WarningRules,
};
pub use report::{
    AnsweredQuestion, Components, Evidence, Level, ReadinessDetail, Report, Restatement, RoundNovelty,
    RoundReadiness, RoundSignal, RoundUnseen, Signal, StopRecommendation, Unseen, Verdict, Warning,
    WarningKind,
};
pub use sweep::{Cell, Confusion, Grid, Labelled, Outcome, SweepReport, sweep};
pub use vectors::{RoundVectors, VectorError, prototype_texts, texts_to_embed};
pub use wire::{Claim, Inputs, Outputs, Round, Telemetry, Transcript};
