//! Starting a job: finds room for it, lets it wait its turn, carries it out, and keeps how it ended. What it does is the
//! caller's business; that it has an end is this module's, also when it panics.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value;

use super::app::App;
use super::jobs::{Job, JobState, JobView};
use super::problem::Problem;

/// Letters of a subject that are shown.
const SUBJECT: usize = 200;

/// What came of a job that did not fail.
pub(crate) struct JobOutcome {
    /// What it found, or where that is.
    pub(crate) result: Value,
    /// Whether somebody stopped it before it was done.
    pub(crate) stopped: bool,
}

/// Whether a job takes one of the places of those that run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It waits for one.
    Own,
    /// It only waits for others.
    None,
}

/// Starts a job, or says why that cannot be done now. What is wrong with a request should be said before.
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

/// A job that is known and not begun, or why there is no room for it.
pub(crate) fn admit(app: &App, kind: &'static str, subject: &str) -> Result<Arc<Job>, Problem> {
    if app.is_ending() {
        return Err(
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is about to end").retry_after(5),
        );
    }
    let subject: String = subject.chars().take(SUBJECT).collect();
    app.jobs.add(kind, &subject).ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many jobs wait already").retry_after(30)
    })
}

/// Begins a job that was admitted.
pub(crate) fn begin<W, Fut>(app: Arc<App>, job: Arc<Job>, place: Place, work: W) -> JobView
where
    W: FnOnce(Arc<App>, Arc<Job>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<JobOutcome, Problem>> + Send + 'static,
{
    let view = job.view();
    tokio::spawn(carry_out(app, job, place, work));
    view
}

/// Ends a job that failed.
pub(crate) fn fail(job: &Job, problem: &Problem) {
    let hint = problem
        .hint
        .as_ref()
        .map_or_else(String::new, |hint| format!(" ({hint})"));
    job.change(JobState::Failed, None, Some(format!("{}{hint}", problem.detail)));
}

async fn carry_out<W, Fut>(app: Arc<App>, job: Arc<Job>, place: Place, work: W)
where
    W: FnOnce(Arc<App>, Arc<Job>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<JobOutcome, Problem>> + Send + 'static,
{
    let _room = match place {
        Place::None => None,
        Place::Own => {
            let room = app.jobs.room.clone().acquire_owned().await;
            if job.stop.is_asked() || room.is_err() {
                return job.change(JobState::Stopped, None, None);
            }
            room.ok()
        }
    };
    job.change(JobState::Running, None, None);
    // In a task of its own, so that a panic ends the work and not the job's record.
    let outcome = tokio::spawn(work(app, job.clone())).await;
    let outcome = outcome.unwrap_or_else(|error| Err(Problem::inside(format!("a job ended early: {error}"))));
    match outcome {
        Ok(ended) if ended.stopped => job.change(JobState::Stopped, Some(ended.result), None),
        Ok(ended) => job.change(JobState::Done, Some(ended.result), None),
        Err(problem) => {
            if let Some(inside) = &problem.inside {
                tracing::error!(job = job.view().job_id, "{inside}");
            }
            fail(&job, &problem);
        }
    }
}
