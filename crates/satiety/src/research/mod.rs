//! Research: decides whether another search is still worth it. A loop that searches in rounds stops when
//! results are no longer new, reads the pages that matter, and reports findings with the source of every
//! sentence.
//!
//! This module does no I/O: results, vectors, model answers and spending are passed in as values.
//! [`Research`] is the loop as a state machine; [`Gate`] is its decision alone, for existing loops.
//!
//! | question | module |
//! |---|---|
//! | what does a search return? | [`hit`] |
//! | is it new by words, claims, meaning or a model's score? | [`literal`], [`claims`], [`assess`] |
//! | continue? | [`gate`], [`budget`] |
//! | what is known so far? | [`compress`] |
//! | what should be asked next? | [`plan`] |
//! | which questions are answered, how much is unseen, and how much is missed? | [`coverage`], [`unseen`], [`missed`] |
//! | is it a duplicate? | [`address`], [`merge`] |
//! | which pages are worth reading in full? | [`enrich`] |
//! | what are models asked? | [`prompts`] |
//! | which documents of a directory match? | `text::LexicalIndex` |
//! | what does a document consist of? | `text::document` |
//! | what does a question ask for, and which text has it? | [`question`], `answer` |
//! | does a passage support a sentence that a model wrote? | `written` |
//! | which stop rule pays on recorded loops? | [`recommend`] |
//! | what was found, and where does each sentence come from? | [`report`] |

pub mod address;
mod answer;
pub mod assess;
pub mod budget;
pub mod claims;
pub mod compress;
pub mod coverage;
pub mod enrich;
pub mod gate;
pub mod hit;
pub mod literal;
pub mod merge;
pub mod missed;
pub mod plan;
pub mod prompts;
pub mod question;
pub mod recommend;
mod record;
pub mod report;
mod session;
pub mod settings;
mod terms;
pub mod unseen;
mod written;

pub use address::canonical_url;
pub use answer::AnswerState;
pub use assess::{Agreement, Assessor, Novelty};
pub use budget::{Budget, BudgetLimit, Spent};
pub use gate::{Decision, Gate, Reason, RoundInput, Verdict};
pub use hit::Hit;
pub use missed::Missed;
pub use question::QuestionKind;
pub use record::{ModelCalls, RoundOutcome, RoundRecord};
pub use report::{Report, StopReason};
pub use session::{Assessment, Research, Step};
pub use settings::{GateSettings, ResearchSettings, SettingsError, StopRule, StopThreshold};
pub use terms::terms;
pub use written::{AnswerDraft, AnswerTask, CitablePassage, RemovedSentence, WrittenAnswer, WrittenSentence};
