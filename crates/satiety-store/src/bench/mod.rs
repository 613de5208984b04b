//! What benchmarks leave behind: runs with every result as it happens, accepted baselines, what gates and ablations
//! said, and answers that need not be paid for twice.

mod decisions;
mod responses;
mod runs;

pub use decisions::{AblationRow, BaselineRow, GateRow};
pub use runs::{BenchResultRow, BenchRunRow, ResultKey};
