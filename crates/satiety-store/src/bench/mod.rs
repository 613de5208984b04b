//! Benchmark data: runs with their results, accepted baselines, decisions of gates and ablations, cached
//! responses, and cases queued for workers.

mod browse;
mod decisions;
mod queue;
mod responses;
mod runs;
mod work;

pub use browse::{
    CaseCursor, CaseFilter, CaseOutcomeRow, CaseSort, NoteRow, ResultOutcomeRow, RunCaseRow, RunFilter,
    case_cursor,
};
pub(crate) use browse::{like_pattern, run_head};
pub use decisions::{AblationRow, BaselineRow, GateRow};
pub use queue::{OpenRun, QueuedRunRow, WorkDepth};
pub use runs::{BenchResultRow, BenchRunRow, ResultKey};
pub(crate) use work::micros;
pub use work::{Lease, LeaseHolder, PlanRow, StoreOutcome, StoredOutcome};

/// Benchmark runs, decisions and queued cases: [`crate::Store::bench`].
#[derive(Debug, Clone, Copy)]
pub struct Bench<'s>(pub(crate) &'s crate::Store);
