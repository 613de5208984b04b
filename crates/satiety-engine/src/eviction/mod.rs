//! Which context to drop: scopes that are kept between calls, proposals and answers, learning from them, versions of the
//! scorer and the gate before them, and the simulator.

mod activation;
mod breaker;
mod calibration;
mod proposal;
mod relevance;
mod scopes;
mod simulation;
mod tokens;

pub use activation::{ActivateRequest, ActivateResponse, RollbackRequest, ScorerSummary, Scorers};
pub use breaker::Breaker;
pub use calibration::{
    CalibrateRequest, CalibrateWith, Calibrated, ExportFeedbackRequest, ExportedFeedback, Feedback,
};
pub use proposal::{CandidateView, ProposeResponse, ProposeScopeRequest, ResolveRequest};
pub use relevance::RefreshResponse;
pub use scopes::{ItemSummary, ScopeListing, ScopeSummary, ScopeUpdated, UpdateScopeRequest};
pub use simulation::{
    ConvertRequest, SimulateRequest, SimulateResponse, TargetAnswer, Variants, target_answer,
};
pub use tokens::count_tokens;

/// What the engine remembers of eviction between calls.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    scopes: std::sync::Mutex<std::collections::BTreeMap<String, scopes::LoadedScope>>,
    breaker: std::sync::Mutex<Breaker>,
}
