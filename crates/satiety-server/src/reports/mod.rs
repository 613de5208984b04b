//! Reports as pages: one file a capability, each a function from the use case's answer to a page.

mod bench;
mod eviction;
mod retrieval;

pub use bench::{RunPage, bench_ablation, bench_comparison, bench_run};
pub(crate) use bench::{ablation_parts, comparison as comparison_part, run_section as run_part};
pub use eviction::{eviction_feedback, eviction_simulation, eviction_timeline};
pub(crate) use eviction::{feedback_parts, timeline_parts};
pub use retrieval::{retrieval_comparison, retrieval_evaluation};
