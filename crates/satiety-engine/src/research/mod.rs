//! Research: searches in rounds until results stop being new, fetches pages, and applies the search gate to
//! external loops.

mod chat_model;
pub mod fetch;
mod history;
mod run;
mod search_gate;
pub mod sources;
mod stop_advice;

pub use chat_model::Prices;
pub use history::{ResearchSummary, StoredResearch};
pub use run::{ResearchProgress, ResearchRequest, ResearchResponse};
pub use search_gate::{GateLine, GateRequest, GateSummary, SearchGateResponse};

/// Derives a random seed from a text: the same task always gets the same seed, different tasks get different
/// ones.
pub fn derive_seed(text: &str) -> u64 {
    let hash = blake3::hash(text.as_bytes());
    hash.as_bytes()
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// User agent of requests.
fn sources_user_agent() -> &'static str {
    concat!("satiety/", env!("CARGO_PKG_VERSION"), " (research; command line)")
}
