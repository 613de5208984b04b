//! The eval harness: is it still hard enough, how may it change, who agreed? What is decided is decided in
//! `satiety::harness`; here suites are read and written, and every event is stored.

mod applying;
mod approving;
mod by_model;
mod carrying_out;
mod check;
mod disk;
mod document;
mod error;
mod evidence;
mod expanding;
mod folder;
mod git;
mod identity;
mod keys;
mod locked_gate;
mod measuring;
mod recording;
mod state;
mod status;
mod tree;
mod trying;
mod verifying;

pub use applying::{AppliedExpansion, ApplyRequest};
pub use approving::{Decided, Keys, Pending};
pub use check::{
    CaseSides, CheckHarnessRequest, CheckedHarness, Coverage, LockHarnessRequest, LockState, LockedHarness,
    PendingTransition, SignedTransition,
};
pub use document::changes;
pub use error::HarnessError;
pub use expanding::{ExpandRequest, ProposeRequest, Proposed};
pub use keys::KeyFile;
pub(crate) use locked_gate::{confine_harness_run, hold_to_lock};
pub use measuring::{SuiteState, ThresholdState};
pub use recording::{RecordCycleRequest, RecordedCycle};
pub use satiety_store::harness::AuditRow;
pub use status::{AuditRequest, HarnessStatus, History, OpenExpansion};
pub use verifying::Verified;
