//! Eval harness: whether it is still hard enough, how it may change, and who approved. The decisions are made
//! in `satiety::harness`; this module reads and writes suites and stores every event.

mod apply;
mod apply_steps;
mod approval;
mod check;
mod cycle;
mod cycle_cases;
mod directory;
mod disk;
mod document;
mod dry_run;
mod error;
mod evidence;
mod expansion;
mod findings;
mod gate_lock;
mod git;
mod identity;
mod keys;
mod measurement;
mod model_proposal;
mod state;
mod status;
mod tree;
mod verification;

pub use apply::{AppliedExpansion, ApplyRequest};
pub use approval::{ApprovalDecision, Keys, Pending};
pub use check::{
    CaseSides, CheckHarnessRequest, Coverage, HarnessCheck, LockHarnessRequest, LockState, LockedHarness,
    PendingTransition, SignedTransition,
};
pub use cycle::{RecordCycleRequest, RecordedCycle};
pub use cycle_cases::{CycleDetail, CycleHead, CycleSuite};
pub use document::changes;
pub use error::HarnessError;
pub use expansion::{ExpandRequest, ProposeExpansionResponse, ProposeRequest};
pub(crate) use gate_lock::{confine_harness_run, hold_to_lock, is_locked_suite};
pub use keys::KeyFile;
pub use measurement::{SuiteState, ThresholdState};
pub use satiety_store::harness::AuditRow;
pub(crate) use state::entries as ledger_entries;
pub use status::{AuditRequest, HarnessStatus, History, OpenExpansion};
pub use verification::VerifyResponse;
