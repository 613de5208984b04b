//! Do the evals still tell good from better, and how may they change? A saturation score as the specification has it, a
//! measured one beside it, the record of cycles, the ratchet that only turns one way, and the protocol of an expansion
//! with the person who must agree to it.
//!
//! Everything takes values that somebody else read, times and ids that somebody else made. Nothing here opens a file,
//! asks a model or holds a private key.
//!
//! | question | module |
//! |---|---|
//! | how saturated, by the specification's five signals? | [`signals`], [`literal`] (to the letter) |
//! | where do the signals come from? | [`sources`] |
//! | how saturated, measured? | [`measured`] |
//! | is it consistent, what follows? | [`cycles`] |
//! | what is the harness, is a new one at least as rigorous? | [`manifest`] |
//! | what else decides, and may one harness follow another? | [`lock`], [`transition`] |
//! | what does it demand beside its cases? | [`rules`], [`thresholds`] |
//! | what is research told, what can be tightened by rule? | [`brief`], [`harder`] |
//! | how does it change, who agreed? | [`expansion`], [`proposal`], [`mod@amend`], [`approval`] |
//! | what happened, and is the record whole? | [`ledger`], [`archive`] |

#![expect(
    clippy::float_cmp,
    reason = "rates of exactly 0 or 1 and unchanged thresholds mean something of their own"
)]

pub mod amend;
pub mod approval;
pub mod archive;
pub mod brief;
pub mod cycles;
pub mod expansion;
pub mod ledger;
pub mod literal;
pub mod lock;
pub mod manifest;
pub mod measurement;
pub mod proposal;
#[cfg(test)]
mod reading_tests;
pub mod rules;
pub mod signals;
#[cfg(test)]
mod simulation_tests;
pub mod sources;
pub mod thresholds;
pub mod transition;
pub mod variants;

pub use amend::{AmendError, Amended, amend};
pub use approval::{Approval, ApprovalError, ApproverKey, KeyRing, Statement};
pub use cycles::{
    Action, Aggregate, Consistency, ConsistencyThresholds, CycleError, CycleSnapshot, Driver, Urgency,
};
pub use expansion::{Expansion, ExpansionError, Observation, Phase, Step};
pub use ledger::{Anchor, BrokenAt, Entry, verify_anchored, verify_chain};
pub use lock::{BaselineEntry, Lock, LockError, compare_locks};
pub use manifest::{Change, Manifest, ManifestError, Rigor, RigorDiff, compare};
pub use measurement::{Matrix, MeasureError, MeasureSettings, Measured, Verdict, measure};
pub use proposal::{Author, CaseRef, ExpansionProposals, Proposal, ProposalError};
pub use rules::{FileHashes, Rules};
pub use signals::{Level, SignalError, SignalMetrics, SignalScore, SignalSettings, score};
pub use transition::{
    AppliedProposal, Authority, SignedStep, Succession, Transition, TransitionStatement, succession,
};
