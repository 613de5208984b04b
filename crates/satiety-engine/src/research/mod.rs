//! Research: searching in rounds until it stops being new, reading pages, and the gate on its own for foreign loops.

mod chat_model;
pub mod fetch;
mod history;
mod run;
mod search_gate;
pub mod sources;

pub use chat_model::Prices;
pub use history::{ResearchSummary, StoredResearch};
pub use run::{ResearchProgress, ResearchRequest, ResearchResponse};
pub use search_gate::{GateLine, GateRequest, GateSummary, SearchGateResponse};

/// A seed made of a text, where none is given: the same task always meets the same chance, and two tasks do not share it.
pub fn seed_of(text: &str) -> u64 {
    let hash = blake3::hash(text.as_bytes());
    hash.as_bytes()
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// Who we are to servers.
fn sources_user_agent() -> &'static str {
    concat!("satiety/", env!("CARGO_PKG_VERSION"), " (research; command line)")
}
