//! Operations on benchmark suites, runs and baselines. Runs themselves are jobs of a server.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::PageRequest;
use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::EngineError;
use crate::bench::suites::SuiteList;
use crate::bench::{BaselineSummary, CompareRunsRequest, ComparedRuns, RunSummary};
use crate::tokens::Scope;

/// Runs that a list goes back to.
const RUNS: u32 = 10_000;
/// Baselines that are listed.
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
            "List the accepted runs of a suite, the newest first",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move {
                let baselines = call.engine.bench().baselines(&request.id, BASELINES).await?;
                Ok(Baselines { baselines })
            },
        ),
        Operation::new(
            "list_runs",
            "List runs, the newest first",
            Scope::Read,
            Effect::Read,
            runs,
        ),
        Operation::new(
            "get_run",
            "Get a run with its results",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move {
                stored(&call, &request.id).await?;
                call.engine.bench().run(&request.id).await
            },
        ),
        Operation::new(
            "compare_runs",
            "Compare two runs of a suite, case by case",
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

/// Accepted runs.
#[derive(Debug, Serialize, JsonSchema)]
struct Baselines {
    /// The newest first.
    baselines: Vec<BaselineSummary>,
}

/// Which runs to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunPageRequest {
    /// Only of this suite.
    #[serde(default)]
    suite: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,9}\\.[!-~]{1,256}$"))]
    cursor: Option<String>,
    /// Runs on a page; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

/// Runs on a page.
#[derive(Debug, Serialize, JsonSchema)]
struct RunPage {
    /// The newest first.
    runs: Vec<RunSummary>,
    /// Where the next page begins; absent on the last one.
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

/// Refuses what is not in the store: a name from elsewhere must not become the path of a file.
async fn stored(call: &Call, run_id: &str) -> Result<(), EngineError> {
    if call.engine.bench().is_stored(run_id).await? {
        return Ok(());
    }
    Err(EngineError::NotThere {
        what: format!("run `{run_id}`"),
        hint: "list the runs to see their ids".into(),
    })
}

async fn compare(call: Call, request: CompareRunsRequest) -> Result<ComparedRuns, EngineError> {
    stored(&call, &request.baseline).await?;
    stored(&call, &request.candidate).await?;
    call.engine.bench().compare(request).await
}
