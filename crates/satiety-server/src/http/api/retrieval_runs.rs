//! The corpus replayed against the server's own memory, as a job. Other systems are replayed at a terminal: a request could only reach them by naming a command or
//! an address.

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

/// How long a search may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn operations() -> Vec<Operation> {
    vec![operation(
        "start_retrieval_run",
        "Ask the server's memory every query of the evaluation corpus, as a job",
        (Scope::Admin, Effect::Write),
        start,
    )]
}

/// How the memory is searched, and what to compare with.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayBody {
    /// How deep the memory is searched; chosen by question where absent.
    #[serde(default)]
    mode: Option<Mode>,
    /// What to change about the search: knobs of its pipeline, all others as they are by default.
    #[serde(default)]
    pipeline: Map<String, Value>,
    /// How many results are asked for; 20 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    depth: Option<u32>,
    /// Compare with an earlier run: its id, or `last`.
    #[serde(default)]
    baseline: Option<String>,
    /// A gate: how much worse than the baseline it may be.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    fail_if_worse: Option<f64>,
    /// What chance starts from.
    #[serde(default)]
    seed: u64,
    /// The run to take up: its id.
    #[serde(default)]
    resume: Option<String>,
}

async fn start(app: Arc<App>, body: ReplayBody) -> Result<JobView, Problem> {
    let depth @ 1..=200 = body.depth.unwrap_or(20) else {
        return Err(Problem::unprocessable("`depth` must be from 1 to 200").at("depth"));
    };
    if body.fail_if_worse.is_some() && body.baseline.is_none() {
        let said = "`fail_if_worse` needs a `baseline` to be worse than";
        return Err(Problem::unprocessable(said).at("fail_if_worse"));
    }
    if body
        .fail_if_worse
        .is_some_and(|margin| !(0.0..=1.0).contains(&margin))
    {
        return Err(Problem::unprocessable("a margin is from 0 to 1").at("fail_if_worse"));
    }
    let pipeline = Pipeline::with(&Value::Object(body.pipeline))
        .map_err(|error| Problem::unprocessable(error.to_string()).at("pipeline"))?;
    let system = SystemSpec::Memory {
        mode: body.mode,
        token_budget: None,
        pipeline: Arc::new(pipeline),
    };
    // The memory is this process: there is nothing to start, and nothing of the environment to see.
    let context = SystemContext {
        environment: std::iter::empty::<(String, String)>().collect(),
        scratch: std::env::temp_dir(),
        timeout: PATIENCE,
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

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetrievalJobProgress {
    /// Queries that were asked.
    pub done: usize,
    /// Queries of the corpus.
    pub planned: usize,
    /// Queries without an answer.
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
