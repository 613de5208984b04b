//! Saturation of an eval harness, and controlled changes to it: the specification's saturation score, a
//! measured one, the history of cycles, the ratchet that forbids weakening, and the expansion protocol with
//! human approval.
//!
//! All functions take their inputs, times and ids as arguments. Nothing here opens a file, calls a model or
//! holds a private key.
//!
//! | question | module |
//! |---|---|
//! | how saturated is it, by the specification's five signals? | [`signals`], [`literal`] (specification verbatim) |
//! | how are the signals collected? | [`sources`] |
//! | how saturated is it, measured from runs? | [`measurement`] |
//! | is saturation consistent, and which action follows? | [`cycles`] |
//! | what does the harness contain, and is a new version at least as rigorous? | [`manifest`] |
//! | what else affects results, and may one harness succeed another? | [`lock`], [`transition`] |
//! | what does it require in addition to its cases? | [`rules`], [`thresholds`] |
//! | what does research receive, and what can be tightened by rule? | [`brief`], [`variants`] |
//! | how does it change, and who approved? | [`expansion`], [`proposal`], [`mod@amend`], [`approval`] |
//! | what happened, and is the record intact? | [`ledger`], [`archive`] |

#![expect(
    clippy::float_cmp,
    reason = "rates of exactly 0 or 1 and unchanged thresholds are special cases"
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
