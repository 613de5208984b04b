//! The eval harness: is it still hard enough, how may it change, who agreed? What is decided is decided in
//! `satiety::harness`; here suites are read and written, and every event is stored.

mod applying;
mod approving;
mod by_model;
mod carrying_out;
mod disk;
mod error;
mod evidence;
mod expanding;
mod folder;
mod identity;
mod keys;
mod measuring;
mod recording;
mod state;
mod status;
mod trying;
mod verifying;

pub use applying::{AppliedExpansion, ApplyRequest};
pub use approving::{Decided, Keys, Pending};
pub use error::HarnessError;
pub use expanding::{ExpandRequest, ProposeRequest, Proposed};
pub use keys::KeyFile;
pub use measuring::{SuiteState, ThresholdState};
pub use recording::{RecordCycleRequest, RecordedCycle};
pub use satiety_store::harness::AuditRow;
pub use status::{AuditRequest, HarnessStatus, History, OpenExpansion};
pub use verifying::{CheckedHarness, Verified};
