//! Operations on benchmark suites, runs and baselines. Starting a run is a server job, not an operation.

use std::path::Path;

use satiety::bench::BenchmarkResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::PageRequest;
use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::EngineError;
use crate::bench::suites::SuiteList;
use crate::bench::{
    AcceptStoredRequest, AddNoteRequest, BaselineSummary, CompareRunsRequest, ComparedRuns,
    LabelResultRequest, NextLabelRequest, RunNote, RunSummary,
};
use crate::tokens::Scope;

/// Maximum number of recent runs that a list covers.
const RUNS: u32 = 10_000;
/// Maximum number of baselines in a list.
const BASELINES: u32 = 100;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_suites",
            "List suites below the server's root",
            Scope::Read,
            Effect::Read,
            suites,
        ),
        Operation::new(
            "list_baselines",
            "List the accepted runs of a suite, newest first",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move {
                let baselines = call.engine.bench().baselines(&request.id, BASELINES).await?;
                Ok(Baselines { baselines })
            },
        ),
        Operation::new(
            "list_runs",
            "List benchmark runs, newest first",
            Scope::Read,
            Effect::Read,
            runs,
        ),
        Operation::new(
            "get_run",
            "Get a benchmark run with its results",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move {
                let bench = call.engine.bench();
                bench.require_stored(&request.id).await?;
                let mut run = bench.run(&request.id).await?;
                if call.hides_expectations(&run.suite_id) {
                    run.results.iter_mut().for_each(hide_expectation);
                }
                Ok(run)
            },
        ),
        Operation::new(
            "next_label",
            "Get the next result of a run that a person should label, and the agreement of the judge with people",
            Scope::Admin,
            Effect::Read,
            |call: Call, request: NextLabelRequest| async move { call.engine.bench().next_label(&request).await },
        ),
        Operation::new(
            "label_result",
            "Label a result of a run as right or wrong, or remove the label",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: LabelResultRequest| async move {
                call.engine.bench().label_result(&request).await
            },
        ),
        Operation::new(
            "accept_baseline",
            "Accept a stored run as the baseline of its suite, with a reason; refused for a locked harness",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: AcceptStoredRequest| async move {
                call.engine
                    .bench()
                    .accept_stored(request, &call.harness.folder)
                    .await
            },
        ),
        Operation::new(
            "list_notes",
            "List the notes of people on a run, oldest first",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move {
                call.engine.bench().require_stored(&request.id).await?;
                let notes = call.engine.bench().notes(&request.id).await?;
                Ok(RunNotes { notes })
            },
        ),
        Operation::new(
            "add_note",
            "Add a note to a run",
            Scope::Write,
            Effect::Write,
            |call: Call, request: AddNoteRequest| async move {
                let notes = call.engine.bench().add_note(request).await?;
                Ok(RunNotes { notes })
            },
        ),
        Operation::new(
            "compare_runs",
            "Compare two runs of a suite case by case",
            Scope::Read,
            Effect::Compute,
            compare,
        ),
        Operation::new(
            "get_queue",
            "Get the cases that wait for workers and those in progress, by run, and the connected workers",
            Scope::Read,
            Effect::Read,
            |call: Call, _: NoFields| async move { call.engine.bench().queue().await },
        ),
        Operation::new(
            "drain_workers",
            "Ask the workers with this name to finish their cases and to exit",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: IdRequest| async move { call.engine.bench().drain_workers(&request.id).await },
        ),
    ]
}

async fn suites(call: Call, _: NoFields) -> Result<SuiteList, EngineError> {
    let root = call.path(Path::new("."))?;
    let mut list = call.engine.bench().list(&root)?;
    let prefix = format!("{}/", root.display());
    let files = list.suites.iter_mut().map(|suite| &mut suite.file);
    for path in files.chain(&mut list.skills_without_benchmarks) {
        *path = path.replace(&prefix, "");
    }
    Ok(list)
}

/// Notes on a run.
#[derive(Debug, Serialize, JsonSchema)]
struct RunNotes {
    /// Notes in order, oldest first.
    notes: Vec<RunNote>,
}

/// Removes from a result what tells the expected answer: an evaluated agent may hold a token, too.
fn hide_expectation(result: &mut BenchmarkResult) {
    result.reasons.clear();
    result.judges.clear();
    for score in &mut result.scores {
        score.reason = None;
    }
}

/// Accepted runs of a suite.
#[derive(Debug, Serialize, JsonSchema)]
struct Baselines {
    /// Accepted runs, newest first.
    baselines: Vec<BaselineSummary>,
}

/// Filter and page of a list of benchmark runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunPageRequest {
    /// Return only runs of this suite.
    #[serde(default)]
    suite: Option<String>,
    /// `next_cursor` of the previous page.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,9}\\.[!-~]{1,256}$"))]
    cursor: Option<String>,
    /// Maximum number of runs per page; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

/// Page of benchmark runs.
#[derive(Debug, Serialize, JsonSchema)]
struct RunPage {
    /// Benchmark runs, newest first.
    runs: Vec<RunSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn runs(call: Call, request: RunPageRequest) -> Result<RunPage, EngineError> {
    let page = PageRequest {
        cursor: request.cursor,
        limit: request.limit,
    };
    let all = call
        .engine
        .bench()
        .runs(request.suite.as_deref(), page.needed(RUNS))
        .await?;
    let (runs, next_cursor) = page.cut(all, |run| &run.run_id)?;
    Ok(RunPage { runs, next_cursor })
}

async fn compare(call: Call, request: CompareRunsRequest) -> Result<ComparedRuns, EngineError> {
    let bench = call.engine.bench();
    bench.require_stored(&request.baseline).await?;
    bench.require_stored(&request.candidate).await?;
    bench.compare(request).await
}
