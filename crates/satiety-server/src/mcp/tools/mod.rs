//! The tools, a file a capability. An argument's comment is what an agent reads about it; every word is paid for in every
//! request.

mod bench;
mod dialogue;
mod eviction;
mod harness;
mod memory;
mod tasks;

use super::registry::Tool;

/// Every tool, in the order in which they are listed.
pub(super) fn all() -> Vec<Tool> {
    let bound = [memory::tools(), tasks::tools()];
    let mut tools: Vec<Tool> = bound.into_iter().flatten().flatten().collect();
    let others = [
        dialogue::tools(),
        eviction::tools(),
        bench::tools(),
        harness::tools(),
    ];
    tools.extend(others.into_iter().flatten());
    tools
}
