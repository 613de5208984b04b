//! Research: searching in rounds until it stops being new, reading pages, and the gate on its own for foreign loops.

mod asking;
pub mod fetch;
mod gating;
mod running;
pub mod sources;

pub use asking::Prices;
pub use gating::{GateLine, GateRequest, GateSummary, Gated};
pub use running::{ResearchProgress, ResearchRequest, Researched};

/// Who we are to servers.
fn sources_user_agent() -> &'static str {
    concat!("satiety/", env!("CARGO_PKG_VERSION"), " (research; command line)")
}
