//! CPU time and memory of this process. Wall time says more about the neighbours than about the program.

use std::time::Duration;

use cpu_time::ProcessTime;

/// Runs `work` and gives its result with the CPU time it took.
pub fn cpu_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = ProcessTime::now();
    let result = work();
    (result, start.elapsed())
}

/// Resident memory in megabytes, where the system tells it.
pub fn resident_megabytes() -> Option<f64> {
    let statm = fs_err::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = statm.split(' ').nth(1)?.parse().ok()?;
    // The page size of every system that has this file and runs these programs.
    Some(pages * 4096.0 / 1e6)
}
