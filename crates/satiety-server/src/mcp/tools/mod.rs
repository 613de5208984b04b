//! Tool definitions, one file per capability. Doc comments on arguments are sent to the model, and every
//! token of them is paid for in every request.

mod bench;
mod dialogue;
mod eviction;
mod harness;
mod memory;
mod progress;
mod tasks;

use super::registry::Tool;

/// All tools, in listing order.
pub(super) fn all() -> Vec<Tool> {
    let plain = |tools: Vec<Tool>| tools.into_iter().map(Some).collect();
    let groups: [Vec<Option<Tool>>; 7] = [
        plain(progress::tools()),
        plain(dialogue::tools()),
        memory::tools(),
        tasks::tools(),
        plain(eviction::tools()),
        plain(bench::tools()),
        harness::tools(),
    ];
    groups.into_iter().flatten().flatten().collect()
}
