//! Which context to drop: scopes that are kept between calls, proposals and answers, learning from them, versions of the
//! scorer and the gate before them, and the simulator.

mod activating;
mod breaker;
mod learning;
mod opinions;
mod proposing;
mod scopes;
mod simulating;
mod tokens;

pub use activating::{ActivateRequest, Activated, ListedScorer, RollbackRequest, Scorers};
pub use breaker::Breaker;
pub use learning::{
    CalibrateRequest, CalibrateWith, Calibrated, ExportFeedbackRequest, ExportedFeedback, Feedback,
};
pub use opinions::Refreshed;
pub use proposing::{CandidateView, ProposeScopeRequest, Proposed, ResolveRequest};
pub use scopes::{ListedItem, ListedScope, ScopeListing, ScopeUpdated, UpdateScopeRequest};
pub use simulating::{ConvertRequest, SimulateRequest, Simulated, TargetAnswer, Variants, target_answer};
pub use tokens::count_tokens;

/// What the engine remembers of eviction between calls.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    scopes: std::sync::Mutex<std::collections::BTreeMap<String, scopes::Loaded>>,
    breaker: std::sync::Mutex<Breaker>,
}
