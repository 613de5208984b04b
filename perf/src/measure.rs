//! CPU time of this process, which depends less on other processes than wall time does.

use std::time::Duration;

use cpu_time::ProcessTime;

/// Runs `work` and returns its result with the CPU time used.
pub fn cpu_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = ProcessTime::now();
    let result = work();
    (result, start.elapsed())
}
