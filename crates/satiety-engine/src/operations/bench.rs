//! Operations on benchmark suites, runs and baselines. Starting a run is a server job, not an operation.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::PageRequest;
use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::EngineError;
use crate::bench::suites::SuiteList;
use crate::bench::{BaselineSummary, CompareRunsRequest, ComparedRuns, RunSummary};
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
                require_stored(&call, &request.id).await?;
                call.engine.bench().run(&request.id).await
            },
        ),
        Operation::new(
            "compare_runs",
            "Compare two runs of a suite case by case",
            Scope::Read,
            Effect::Compute,
            compare,
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

/// Returns an error unless the run is in the database: a remote name must never be opened as a file path.
async fn require_stored(call: &Call, run_id: &str) -> Result<(), EngineError> {
    if call.engine.bench().is_stored(run_id).await? {
        return Ok(());
    }
    Err(EngineError::NotFound {
        what: format!("run `{run_id}`"),
        hint: "list the runs to see their ids".into(),
    })
}

async fn compare(call: Call, request: CompareRunsRequest) -> Result<ComparedRuns, EngineError> {
    require_stored(&call, &request.baseline).await?;
    require_stored(&call, &request.candidate).await?;
    call.engine.bench().compare(request).await
}
