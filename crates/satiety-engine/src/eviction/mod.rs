//! Eviction of context items: persistent scopes, proposals and answers, learning from them, scorer versions
//! with their activation gate, and the simulator.

mod activation;
mod breaker;
mod calibration;
mod logs;
mod prices;
mod proposal;
mod relevance;
mod scopes;
mod simulation;
mod tokens;

pub use activation::{ActivateRequest, ActivateResponse, RollbackRequest, ScorerSummary, Scorers};
pub use breaker::Breaker;
pub use calibration::{
    CalibrateRequest, CalibrateScorerRequest, CalibrateWith, Calibrated, ExportFeedbackRequest,
    ExportedFeedback, Feedback, RECENT_PROPOSALS,
};
pub use logs::{ConvertRequest, Converted, ConvertedUses};
pub use prices::EvictionSettings;
pub use proposal::{CandidateView, ProposeResponse, ProposeScopeRequest, ResolveRequest};
pub use relevance::RefreshResponse;
pub(crate) use scopes::scope_summary;
pub use scopes::{ItemSummary, ScopeListing, ScopeSummary, ScopeUpdated, UpdateScopeRequest};
pub use simulation::{
    ScorerFile, SimulateRequest, SimulateResponse, TargetAnswer, Variants, VariantsRequest, target_answer,
};
pub use tokens::count_tokens;

/// In-memory eviction state between calls.
#[derive(Debug, Default)]
pub(crate) struct EvictionState {
    scopes: std::sync::Mutex<std::collections::BTreeMap<String, scopes::LoadedScope>>,
    breaker: std::sync::Mutex<Breaker>,
    pub(crate) settings: EvictionSettings,
}
