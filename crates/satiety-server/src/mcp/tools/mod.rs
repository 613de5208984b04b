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
    let plain = |tools: Vec<Tool>| tools.into_iter().map(Some).collect();
    let groups: [Vec<Option<Tool>>; 6] = [
        memory::tools(),
        tasks::tools(),
        plain(dialogue::tools()),
        plain(eviction::tools()),
        plain(bench::tools()),
        harness::tools(),
    ];
    groups.into_iter().flatten().flatten().collect()
}
