//! Benchmark runs as jobs.

use std::sync::Arc;

use satiety_engine::EngineError;
use satiety_engine::bench::{BenchPlan, DistributedRun, RunBenchRequest, RunBenchResponse};
use satiety_engine::operations::{Effect, IdRequest, NoFields, Operation};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::auth::Scope;
use crate::http::app::App;
use crate::http::jobs::{Job, JobView};
use crate::http::operations::operation;
use crate::http::problem::Problem;
use crate::http::route::{Route, raw};
use crate::http::stream;
use crate::http::work::{self, JobOutcome, Place};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        operation(
            "start_run",
            "Run a suite as a background job; follow its events",
            (Scope::Admin, Effect::Write),
            start,
        ),
        operation(
            "list_jobs",
            "List the jobs of this server, newest first",
            (Scope::Read, Effect::Read),
            jobs,
        ),
        operation("get_job", "Get a job", (Scope::Read, Effect::Read), job),
        operation(
            "stop_job",
            "Stop a job; its stored results remain",
            (Scope::Admin, Effect::Write),
            stop,
        ),
    ]
}

pub(super) fn routes() -> Vec<Route> {
    vec![raw(
        "/v1/jobs/{id}/events",
        "job_events",
        "Stream the events of a job (server-sent events); `Last-Event-ID` resumes the stream",
        "text/event-stream",
        |app, id, headers| Box::pin(async move { stream::job_events(&app, find(&app, &id)?, &headers) }),
    )]
}

/// Only stored runs: a remote name must not become a file path.
async fn stored(app: &App, run_id: &str) -> Result<(), Problem> {
    if app.engine.bench().is_stored(run_id).await? {
        return Ok(());
    }
    Err(Problem::not_found(format!("run `{run_id}` not found")).hint("list the runs to see their ids"))
}

async fn start(app: Arc<App>, mut request: RunBenchRequest) -> Result<JobView, Problem> {
    for run in request.resume.iter().chain(&request.failed_in) {
        stored(&app, run).await?;
    }
    let suite = request.suite.to_string_lossy().into_owned();
    let distributed = request.distributed;
    request.suite = app.below_root(&suite)?;
    request.sandbox = Some(app.engine.sandbox_requirement());
    let run_id = match &request.resume {
        Some(run) => run.clone(),
        None => satiety::ids::prefixed("run", uuid::Uuid::now_v7()),
    };
    request.new_run_id = Some(run_id.clone());
    // Invalid requests are rejected now and not in the background; processes run in a sandbox.
    let plan = app.engine.bench().plan(request).await;
    let plan = plan.map_err(|error| app.redact(error))?;
    let job = work::admit(&app, "bench_run", &suite)?;
    if !distributed {
        job.set_run_id(run_id);
        return Ok(work::begin(app, job, Place::Own, |app, job| run(app, job, plan)));
    }
    // Stored before it is acknowledged: from here on the run does not depend on this server.
    match distribute(&app, plan).await {
        Ok(run) => {
            job.set_run_id(run.summary().run_id);
            // Workers run the cases.
            Ok(work::begin(app, job, Place::None, |app, job| wait(app, job, run)))
        }
        Err(problem) => {
            work::fail(&job, &problem);
            Err(problem)
        }
    }
}

async fn distribute(app: &App, plan: BenchPlan) -> Result<DistributedRun, Problem> {
    let root = app.below_root(".")?;
    let run = app.engine.bench().distribute(plan, &root).await;
    run.map_err(|error| app.redact(error))
}

async fn wait(app: Arc<App>, job: Arc<Job>, run: DistributedRun) -> Result<JobOutcome, Problem> {
    let outcome = app
        .engine
        .bench()
        .wait(run, &job.stop, |progress| job.progress(progress.into()))
        .await;
    ended(&app, outcome)
}

async fn run(app: Arc<App>, job: Arc<Job>, plan: BenchPlan) -> Result<JobOutcome, Problem> {
    let outcome = app
        .engine
        .bench()
        .execute(plan, &job.stop, |progress| job.progress(progress.into()))
        .await;
    ended(&app, outcome)
}

fn ended(app: &App, outcome: Result<RunBenchResponse, EngineError>) -> Result<JobOutcome, Problem> {
    let ran = outcome.map_err(|error| app.redact(error))?;
    ran.post.log();
    Ok(JobOutcome {
        result: json!({"run_id": ran.run.run_id, "summary": ran.run.summary, "gate": ran.gate}),
        stopped: ran.interrupted,
    })
}

/// List of background jobs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct JobList {
    /// Jobs in order, newest first.
    jobs: Vec<JobView>,
}

async fn jobs(app: Arc<App>, _: NoFields) -> Result<JobList, Problem> {
    Ok(JobList {
        jobs: app.jobs.list(),
    })
}

fn find(app: &App, id: &str) -> Result<Arc<Job>, Problem> {
    app.jobs.get(id).ok_or_else(|| {
        Problem::not_found(format!("job `{id}` not found on this server"))
            .hint("jobs are lost when a server restarts; their results are in the store")
    })
}

async fn job(app: Arc<App>, request: IdRequest) -> Result<JobView, Problem> {
    Ok(find(&app, &request.id)?.view())
}

async fn stop(app: Arc<App>, request: IdRequest) -> Result<JobView, Problem> {
    let job = find(&app, &request.id)?;
    job.stop.stop();
    Ok(job.view())
}
