//! Benchmarks: suites, asking the systems under test, what came of it, and what is said about that.

mod ablation;
pub mod ask;
pub mod cache;
mod comparing;
mod judging;
pub mod limits;
mod plan;
mod response_cache;
mod runner;
mod running;
pub mod sandbox;
mod stored;
pub mod suites;
pub mod target;

pub use ablation::{Ablated, AblationRequest};
pub use comparing::{AcceptRequest, Accepted, CompareRunsRequest, ComparedRuns, Override};
pub use plan::named_target;
pub use runner::{Progress, Stop};
pub use running::{BenchPlan, BenchRan, RunBenchRequest, SequentialOutcome};
pub use stored::{ListedRun, RunFigures};
