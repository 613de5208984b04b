//! Benchmarks: suites, execution against systems under test, stored runs, gates and reports.

mod ablation;
pub mod attempts;
mod baseline;
mod browse;
pub mod cache;
mod code_host;
mod computed;
mod decisions;
mod distributed;
mod environment;
mod executor;
mod export;
mod exported;
mod finalize;
mod findings;
pub(crate) mod history;
mod import;
mod labels;
mod leases;
pub mod limits;
mod llm_judge;
mod notes;
mod outage;
mod outline;
mod plan;
mod production_cases;
mod provider_targets;
mod queue_status;
mod queue_worker;
mod response_cache;
mod run;
pub mod sandbox;
mod sequential;
mod shared_limits;
pub mod suites;
pub mod target;
mod until_decided;

pub use ablation::{AblationRequest, AblationResponse};
pub use baseline::{AcceptRequest, AcceptResponse, CompareRunsRequest, ComparedRuns, VerdictOverride};
pub(crate) use baseline::{baseline_file, judge, stored_baseline};
pub use browse::{
    CaseDetail, CaseLine, CaseListRequest, CasePage, CaseVersion, ComparedWith, MatrixCell, MatrixRequest,
    MatrixRow, ResultOutcome, RunHead, RunListRequest, RunMatrix, RunPage, RunStatistics,
};
pub use decisions::{AblationRecord, GateDecision};
pub use distributed::{Cancelled, DistributedRun, DistributedRunSummary};
pub use executor::{Progress, Stop};
pub use export::{ExportFormat, ExportRequest, ExportedRun};
pub use finalize::PostRun;
pub use history::{BaselineSummary, RunSummary};
pub use import::{ImportRequest, ImportResponse, ImportedRun, ImportedSuite, ResultOptions};
pub use labels::{
    Label, LabelResponse, LabelResultRequest, LabelSession, LabelStep, NextLabelRequest, UnlabelledCase,
    read_labels,
};
pub use notes::{AcceptStoredRequest, AddNoteRequest, RunNote};
pub use plan::named_target;
pub(crate) use plan::{described_target, describes_target, target_file};
pub use production_cases::{FailureCase, FromFailureRequest, ScrubFilesRequest, ScrubResponse};
pub use queue_status::{DrainedWorkers, QueueStatus, QueuedRun};
pub use queue_worker::{WorkEnd, WorkEvent, WorkRequest, WorkResponse, WorkerStop};
pub use run::{BenchPlan, FileAccess, RunBenchRequest, RunBenchResponse};
pub use satiety_store::bench::{CaseCursor, CaseFilter, CaseOutcomeRow as CaseOutcome, CaseSort, RunFilter};
pub use sequential::SequentialOutcome;
pub use until_decided::{Budget, UntilDecided};
