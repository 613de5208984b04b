//! Research: searching in rounds until it stops being new, reading pages, and the gate on its own for foreign loops.

mod asking;
pub mod fetch;
mod gating;
mod running;
pub mod sources;
mod stored;

pub use asking::Prices;
pub use gating::{GateLine, GateRequest, GateSummary, Gated};
pub use running::{ResearchProgress, ResearchRequest, Researched};
pub use stored::{KeptResearch, ListedResearch};

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
