//! CPU time of this process. Wall time says more about the neighbours than about the program.

use std::time::Duration;

use cpu_time::ProcessTime;

/// Runs `work` and gives its result with the CPU time it took.
pub fn cpu_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = ProcessTime::now();
    let result = work();
    (result, start.elapsed())
}
