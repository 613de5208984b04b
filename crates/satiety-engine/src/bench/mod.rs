//! Benchmarks: suites, asking the systems under test, what came of it, and what is said about that.

mod ablation;
mod alerts;
pub mod ask;
pub mod cache;
mod comparing;
mod decided;
mod import;
mod judging;
mod labelling;
pub mod limits;
mod organic;
mod plan;
mod response_cache;
mod runner;
mod running;
pub mod sandbox;
pub(crate) mod stored;
pub mod suites;
pub mod target;

pub use ablation::{Ablated, AblationRequest};
pub(crate) use comparing::judge;
pub use comparing::{AcceptRequest, Accepted, CompareRunsRequest, ComparedRuns, Override};
pub use decided::{GateDecision, KeptAblation};
pub use import::{ImportRequest, Imported, ImportedRun, ImportedSuite};
pub use labelling::{Label, Labelled, Labelling, ToLabel, read_labels};
pub use organic::{FailureCase, FromFailureRequest, ScrubFilesRequest, Scrubbed};
pub use plan::named_target;
pub use runner::{Progress, Stop};
pub use running::{BenchPlan, BenchRan, RunBenchRequest, SequentialOutcome};
pub use stored::{ListedBaseline, ListedRun, RunFigures};
