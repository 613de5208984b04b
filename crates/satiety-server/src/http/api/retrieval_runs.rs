//! Replays of the corpus against the server's memory, as a job. Other systems are replayed on the command
//! line, since a request could only reach them by naming a command or an address.

use std::sync::Arc;
use std::time::Duration;

use satiety::memory::{Mode, Pipeline};
use satiety_engine::operations::{Effect, Operation};
use satiety_engine::retrieval::{ReplayProgress, ReplayRequest, SystemContext, SystemSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::auth::Scope;
use crate::http::app::App;
use crate::http::jobs::{Job, JobProgress, JobView};
use crate::http::operations::operation;
use crate::http::problem::Problem;
use crate::http::work::{self, JobOutcome};

/// Timeout of one search.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn operations() -> Vec<Operation> {
    vec![operation(
        "start_retrieval_run",
        "Replay the evaluation corpus against the server's memory as a background job",
        (Scope::Admin, Effect::Write),
        start,
    )]
}

/// Request to replay the evaluation corpus.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayBody {
    /// Search depth; by default chosen per query.
    #[serde(default)]
    mode: Option<Mode>,
    /// Changed pipeline settings; others keep their defaults.
    #[serde(default)]
    pipeline: Map<String, Value>,
    /// Results to request per query, from 1 to 200; default 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    depth: Option<u32>,
    /// Earlier run to compare with: its id, or `last`.
    #[serde(default)]
    baseline: Option<String>,
    /// Gate: maximum tolerated loss against the baseline, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    fail_if_worse: Option<f64>,
    /// Seed of the resampling and randomization test.
    #[serde(default)]
    seed: u64,
    /// Id of the run to resume.
    #[serde(default)]
    resume: Option<String>,
}

async fn start(app: Arc<App>, body: ReplayBody) -> Result<JobView, Problem> {
    let depth @ 1..=200 = body.depth.unwrap_or(20) else {
        return Err(Problem::unprocessable("`depth` must be from 1 to 200").at("depth"));
    };
    if body.fail_if_worse.is_some() && body.baseline.is_none() {
        let said = "`fail_if_worse` requires `baseline`";
        return Err(Problem::unprocessable(said).at("fail_if_worse"));
    }
    if body
        .fail_if_worse
        .is_some_and(|margin| !(0.0..=1.0).contains(&margin))
    {
        return Err(Problem::unprocessable("`fail_if_worse` must be from 0 to 1").at("fail_if_worse"));
    }
    let pipeline = Pipeline::with(&Value::Object(body.pipeline))
        .map_err(|error| Problem::unprocessable(error.to_string()).at("pipeline"))?;
    let system = SystemSpec::Memory {
        mode: body.mode,
        token_budget: None,
        pipeline: Arc::new(pipeline),
    };
    // The memory is in this process: there is no server to start and no environment to pass.
    let context = SystemContext {
        environment: std::iter::empty::<(String, String)>().collect(),
        scratch: std::env::temp_dir(),
        timeout: SEARCH_TIMEOUT,
    };
    let mut request = ReplayRequest::new(system, context);
    request.depth = depth as usize;
    request.baseline = body.baseline;
    request.fail_if_worse = body.fail_if_worse;
    request.resume = body.resume;
    request.bootstrap.seed = body.seed;
    request.comparison.bootstrap.seed = body.seed;
    work::start(app, "retrieval_run", "the server's memory", |app, job| {
        run(app, job, request)
    })
}

/// Progress of a corpus replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetrievalJobProgress {
    /// Number of queries asked so far.
    pub done: usize,
    /// Number of queries in the corpus.
    pub planned: usize,
    /// Number of queries that failed.
    pub failed: usize,
}

impl From<ReplayProgress> for RetrievalJobProgress {
    fn from(progress: ReplayProgress) -> Self {
        Self {
            done: progress.done,
            planned: progress.planned,
            failed: progress.failed,
        }
    }
}

async fn run(app: Arc<App>, job: Arc<Job>, request: ReplayRequest) -> Result<JobOutcome, Problem> {
    let seen = |progress: ReplayProgress| job.progress(JobProgress::Retrieval(progress.into()));
    let replayed = app
        .engine
        .retrieval()
        .replay_corpus(request, &job.stop, seen)
        .await?;
    let compared = replayed.comparison.as_ref();
    let gate = compared.and_then(|compared| compared.comparisons.first()?.gate);
    Ok(JobOutcome {
        result: json!({"run_id": replayed.run_id, "queries": replayed.queries, "answered": replayed.answered,
            "failed": replayed.failed.len(), "measured": replayed.report.is_some(), "gate": gate}),
        stopped: replayed.interrupted,
    })
}
