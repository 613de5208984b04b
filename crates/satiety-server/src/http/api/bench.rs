//! Benchmarks: suites below the root, runs and baselines in the store, and runs as jobs.

use std::sync::Arc;

use axum::http::Method;
use satiety::bench::{BenchmarkRun, GatePolicy};
use satiety_engine::EngineError;
use satiety_engine::bench::suites::SuiteList;
use satiety_engine::bench::{
    BenchPlan, BenchRan, CompareRunsRequest, ComparedRuns, ListedBaseline, ListedRun, RunBenchRequest, Spread,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ById, page_of};
use crate::auth::Scope;
use crate::http::app::App;
use crate::http::body::{Json, NoBody};
use crate::http::jobs::{Job, JobView};
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Parameters, Route, ask, change, get, raw};
use crate::http::stream;
use crate::http::work::{self, Ended, Place};

/// Runs that a list goes back to.
const RUNS: u32 = 10_000;
/// Repeats of a case in a run that is asked for from far away.
const REPEATS: u32 = 100;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/bench/suites",
            "list_suites",
            "Suites below the server's root",
            suites,
        ),
        get(
            "/v1/bench/suites/{id}/baselines",
            "list_baselines",
            "What was accepted, the newest first",
            baselines,
        ),
        get("/v1/bench/runs", "list_runs", "Runs, the newest first", runs),
        get("/v1/bench/runs/{id}", "get_run", "A run with its results", show),
        ask(
            "/v1/bench/compare",
            "compare_runs",
            "Compares two runs of a suite, case by case",
            compare,
        ),
        change(
            Method::POST,
            "/v1/bench/runs",
            "start_run",
            "Runs a suite as a job: follow it by its events",
            start,
        )
        .status(202)
        .scope(Scope::Admin),
        get(
            "/v1/jobs",
            "list_jobs",
            "Jobs of this server, the newest first",
            jobs,
        ),
        get("/v1/jobs/{id}", "get_job", "A job", job),
        change(
            Method::POST,
            "/v1/jobs/{id}/stop",
            "stop_job",
            "Asks a job to end; what it has stored stays",
            stop,
        )
        .scope(Scope::Admin),
        raw(
            "/v1/jobs/{id}/events",
            "job_events",
            "The course of a job as server-sent events; `Last-Event-ID` takes up where it broke off",
            "text/event-stream",
            async |app: Arc<App>, path: ById, headers| {
                let job = find(&app, &path.id)?;
                stream::of_job(&app, job, &headers)
            },
        ),
    ]
}

async fn suites(call: Call<Nothing, Nothing, NoBody>) -> Result<SuiteList, Problem> {
    let root = call.app.below_root(".")?;
    let listed = call.app.engine.bench_list(&root);
    let mut list = listed.map_err(|error| call.app.discreet(error))?;
    let prefix = format!("{}/", root.display());
    for suite in &mut list.suites {
        suite.file = suite.file.replace(&prefix, "");
    }
    for path in &mut list.skills_without_benchmarks {
        *path = path.replace(&prefix, "");
    }
    Ok(list)
}

/// What was accepted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Baselines {
    /// The newest first.
    baselines: Vec<ListedBaseline>,
}

async fn baselines(call: Call<ById, Nothing, NoBody>) -> Result<Baselines, Problem> {
    let baselines = call.app.engine.bench_baselines(&call.path.id, 100).await?;
    Ok(Baselines { baselines })
}

/// Which runs to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct RunQuery {
    /// Only of this suite.
    #[serde(default)]
    suite: Option<String>,
    /// Where the page begins: `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,9}\\.[!-~]{1,256}$"))]
    cursor: Option<String>,
    /// How many at most; 50 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

impl Parameters for RunQuery {}

/// Runs on a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RunPage {
    /// The newest first.
    runs: Vec<ListedRun>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn runs(call: Call<Nothing, RunQuery, NoBody>) -> Result<RunPage, Problem> {
    let query = call.query;
    let limit = super::limit(query.limit)?;
    // Without a cursor the beginning is enough.
    let wanted = if query.cursor.is_some() { RUNS } else { limit + 1 };
    let all = call.app.engine.bench_runs(query.suite.as_deref(), wanted).await?;
    let (runs, next_cursor) = page_of(all, |run| &run.run_id, query.cursor.as_deref(), limit)?;
    Ok(RunPage { runs, next_cursor })
}

/// Only what is in the store: a name from far away must not become the path of a file.
async fn stored(app: &App, run_id: &str) -> Result<(), Problem> {
    if app.engine.bench_is_stored(run_id).await? {
        return Ok(());
    }
    Err(Problem::not_found(format!("there is no run `{run_id}`")).hint("list the runs to see their ids"))
}

async fn show(call: Call<ById, Nothing, NoBody>) -> Result<BenchmarkRun, Problem> {
    stored(&call.app, &call.path.id).await?;
    Ok(call.app.engine.bench_run(&call.path.id).await?)
}

/// Two runs to be compared.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareBody {
    /// The run that was accepted.
    baseline: String,
    /// The run that is judged.
    candidate: String,
    /// What counts; usual values where absent.
    #[serde(default)]
    policy: GatePolicy,
}

async fn compare(call: Call<Nothing, Nothing, Json<CompareBody>>) -> Result<ComparedRuns, Problem> {
    let Json(body) = call.body;
    stored(&call.app, &body.baseline).await?;
    stored(&call.app, &body.candidate).await?;
    let request = CompareRunsRequest {
        baseline: body.baseline,
        candidate: body.candidate,
        policy: body.policy,
        record: false,
        accept_regression: None,
    };
    Ok(call.app.engine.bench_compare(request).await?)
}

/// A suite to be run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBody {
    /// The suite, below the server's root. It is run against the target that its own folder describes.
    suite: String,
    /// How often each case is run; what the suite says where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    repeats: Option<u32>,
    /// Only these cases.
    #[serde(default)]
    cases: Vec<String>,
    /// Only cases with one of these tags.
    #[serde(default)]
    tags: Vec<String>,
    /// What chance starts from.
    #[serde(default)]
    seed: u64,
    /// The run to take up: its id.
    #[serde(default)]
    resume: Option<String>,
    /// Judge the run by the baseline.
    #[serde(default)]
    gate: bool,
    /// Give the cases to workers (`satiety worker`) on the same store; the job waits for them.
    #[serde(default)]
    distributed: bool,
}

async fn start(call: Call<Nothing, Nothing, Json<RunBody>>) -> Result<JobView, Problem> {
    let Json(body) = call.body;
    let app = call.app;
    if body
        .repeats
        .is_some_and(|repeats| !(1..=REPEATS).contains(&repeats))
    {
        return Err(Problem::unprocessable(format!("repeats are from 1 to {REPEATS}")).at("repeats"));
    }
    if let Some(run) = &body.resume {
        stored(&app, run).await?;
    }
    let request = RunBenchRequest {
        suite: app.below_root(&body.suite)?,
        repeats: body.repeats,
        cases: body.cases,
        tags: body.tags,
        seed: body.seed,
        resume: body.resume,
        gate: body.gate.then(GatePolicy::default),
        sandbox: Some(app.engine.sandbox_requirement()),
        ..RunBenchRequest::default()
    };
    // What cannot be run is refused now and not in the background; what starts processes is sandboxed.
    let plan = app.engine.bench_plan(request).await;
    let plan = plan.map_err(|error| app.discreet(error))?;
    let job = work::admit(&app, "bench_run", &body.suite)?;
    if !body.distributed {
        return Ok(work::begin(app, job, Place::Own, |app, job| run(app, job, plan)));
    }
    // In the store before it is acknowledged: from here on the run does not need this server any more.
    match spread(&app, plan).await {
        Ok(spread) => {
            job.is_run(spread.told().run_id);
            // Workers do the work.
            Ok(work::begin(app, job, Place::None, |app, job| {
                wait(app, job, spread)
            }))
        }
        Err(problem) => {
            work::fail(&job, &problem);
            Err(problem)
        }
    }
}

async fn spread(app: &App, plan: BenchPlan) -> Result<Spread, Problem> {
    let root = app.below_root(".")?;
    let spread = app.engine.bench_spread(plan, &root).await;
    spread.map_err(|error| app.discreet(error))
}

async fn wait(app: Arc<App>, job: Arc<Job>, spread: Spread) -> Result<Ended, Problem> {
    let outcome = app
        .engine
        .bench_wait(spread, &job.stop, |progress| job.progress(progress.into()))
        .await;
    ended(&app, outcome)
}

async fn run(app: Arc<App>, job: Arc<Job>, plan: BenchPlan) -> Result<Ended, Problem> {
    let outcome = app
        .engine
        .bench_run_plan(plan, &job.stop, |progress| job.progress(progress.into()))
        .await;
    ended(&app, outcome)
}

fn ended(app: &App, outcome: Result<BenchRan, EngineError>) -> Result<Ended, Problem> {
    let ran = outcome.map_err(|error| app.discreet(error))?;
    ran.post.log();
    Ok(Ended {
        result: json!({"run_id": ran.run.run_id, "summary": ran.run.summary, "gate": ran.gate}),
        stopped: ran.interrupted,
    })
}

/// Jobs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct JobList {
    /// The newest first.
    jobs: Vec<JobView>,
}

async fn jobs(call: Call<Nothing, Nothing, NoBody>) -> Result<JobList, Problem> {
    Ok(JobList {
        jobs: call.app.jobs.list(),
    })
}

fn find(app: &App, id: &str) -> Result<Arc<Job>, Problem> {
    app.jobs.get(id).ok_or_else(|| {
        Problem::not_found(format!("there is no job `{id}` on this server"))
            .hint("jobs are forgotten when a server ends; what they stored is in the store")
    })
}

async fn job(call: Call<ById, Nothing, NoBody>) -> Result<JobView, Problem> {
    Ok(find(&call.app, &call.path.id)?.view())
}

async fn stop(call: Call<ById, Nothing, NoBody>) -> Result<JobView, Problem> {
    let job = find(&call.app, &call.path.id)?;
    job.stop.stop();
    Ok(job.view())
}
