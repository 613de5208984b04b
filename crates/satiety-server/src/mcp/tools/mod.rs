//! The tools, a file a capability. An argument's comment is what an agent reads about it; every word is paid for in every
//! request.

mod bench;
mod dialogue;
mod eviction;
mod harness;
mod memory;
mod tasks;

pub(super) use memory::{cursor, read_cursor};

use super::registry::Tool;

/// Every tool, in the order in which they are listed.
pub(super) fn all() -> Vec<Tool> {
    [
        memory::tools(),
        tasks::tools(),
        dialogue::tools(),
        eviction::tools(),
        bench::tools(),
        harness::tools(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
