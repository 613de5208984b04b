//! Is another search still worth it? A loop that searches in rounds stops when what comes back is no longer new, reads the
//! pages that matter, and reports what it found with the source of every sentence.
//!
//! Nothing here searches, fetches, asks a model or knows the time: results, vectors, answers of models and what was
//! spent come in as values. [`Research`] is the loop as a state machine; [`Gate`] is its decision on its own, for loops
//! of other people.
//!
//! | question | module |
//! |---|---|
//! | what came back? | [`hit`] |
//! | is it new, by words, claims, meaning, a model? | [`literal`], [`claims`], [`assess`] |
//! | go on? | [`gate`], [`budget`] |
//! | what is known, in few words? | [`compress`] |
//! | what should be asked next? | [`plan`] |
//! | which questions are answered, how much is unseen? | [`coverage`], [`unseen`] |
//! | the same page again? | [`address`], [`merge`] |
//! | which pages are worth reading whole? | [`enrich`] |
//! | what is asked of a model, what does it say? | [`prompts`] |
//! | which documents of a folder fit? | `text::LexicalIndex` |
//! | what was found, and where does each sentence come from? | [`report`] |

pub mod address;
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
pub mod plan;
pub mod prompts;
mod record;
pub mod report;
mod session;
pub mod settings;
mod terms;
pub mod unseen;

pub use address::canonical_url;
pub use assess::{Agreement, Assessor, Novelty};
pub use budget::{Budget, BudgetEnd, Spent};
pub use gate::{Decision, Gate, Reason, RoundInput, Verdict};
pub use hit::Hit;
pub use record::{ModelCalls, RoundOutcome, RoundRecord};
pub use report::{Report, StopReason};
pub use session::{Assessment, Research, Step};
pub use settings::{GateSettings, ResearchSettings, SettingsError, StopThreshold};
pub use terms::terms;
