//! Job execution: admission, queueing, running and recording the outcome. Every job ends, even if its work
//! panics.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value;

use super::app::App;
use super::jobs::{Job, JobState, JobView};
use super::problem::Problem;

/// Maximum number of characters of a subject.
const SUBJECT: usize = 200;

/// Result of a job that did not fail.
pub(crate) struct JobOutcome {
    /// Result value, or its location.
    pub(crate) result: Value,
    /// Whether it was stopped before it finished.
    pub(crate) stopped: bool,
}

/// Whether a job needs a permit to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It waits for a permit.
    Own,
    /// It only waits for workers.
    None,
}

/// Starts a job, or fails at capacity. Requests should be validated before.
pub(crate) fn start<W, Fut>(
    app: Arc<App>,
    kind: &'static str,
    subject: &str,
    work: W,
) -> Result<JobView, Problem>
where
    W: FnOnce(Arc<App>, Arc<Job>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<JobOutcome, Problem>> + Send + 'static,
{
    let job = admit(&app, kind, subject)?;
    Ok(begin(app, job, Place::Own, work))
}

/// Registers a job without starting it, or fails at capacity.
pub(crate) fn admit(app: &App, kind: &'static str, subject: &str) -> Result<Arc<Job>, Problem> {
    if app.is_shutting_down() {
        return Err(
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down").retry_after(5),
        );
    }
    let subject: String = subject.chars().take(SUBJECT).collect();
    app.jobs
        .add(kind, &subject)
        .ok_or_else(|| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many queued jobs").retry_after(30))
}

/// Starts a registered job.
pub(crate) fn begin<W, Fut>(app: Arc<App>, job: Arc<Job>, place: Place, work: W) -> JobView
where
    W: FnOnce(Arc<App>, Arc<Job>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<JobOutcome, Problem>> + Send + 'static,
{
    let view = job.view();
    tokio::spawn(run_job(app, job, place, work));
    view
}

/// Marks a job as failed.
pub(crate) fn fail(job: &Job, problem: &Problem) {
    let hint = problem
        .hint
        .as_ref()
        .map_or_else(String::new, |hint| format!(" ({hint})"));
    job.change(JobState::Failed, None, Some(format!("{}{hint}", problem.detail)));
}

async fn run_job<W, Fut>(app: Arc<App>, job: Arc<Job>, place: Place, work: W)
where
    W: FnOnce(Arc<App>, Arc<Job>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<JobOutcome, Problem>> + Send + 'static,
{
    let _permit = match place {
        Place::None => None,
        Place::Own => {
            let permit = app.jobs.permits.acquire().await;
            if job.stop.is_requested() || permit.is_none() {
                return job.change(JobState::Stopped, None, None);
            }
            permit
        }
    };
    job.change(JobState::Running, None, None);
    // In a separate task, so that a panic does not lose the job's record.
    let outcome = tokio::spawn(work(app, job.clone())).await;
    let outcome =
        outcome.unwrap_or_else(|error| Err(Problem::internal(format!("a job was aborted: {error}"))));
    match outcome {
        Ok(ended) if ended.stopped => job.change(JobState::Stopped, Some(ended.result), None),
        Ok(ended) => job.change(JobState::Done, Some(ended.result), None),
        Err(problem) => {
            if let Some(internal) = &problem.internal {
                tracing::error!(job = job.view().job_id, "{internal}");
            }
            fail(&job, &problem);
        }
    }
}
