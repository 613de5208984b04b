//! Research runs, stored and as jobs. A request names a source; the server's configuration defines what it
//! is, so that a remote caller cannot have a directory read, a command run or an address contacted.

use std::sync::Arc;

use satiety::research::report::Answer;
use satiety::research::{Budget, GateSettings, Research, ResearchSettings};
use satiety_engine::EngineError;
use satiety_engine::operations::{Effect, IdRequest, NoFields, Operation, PageRequest};
use satiety_engine::research::{ResearchProgress, ResearchRequest, ResearchSummary, StoredResearch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::auth::Scope;
use crate::http::app::App;
use crate::http::jobs::{Job, JobProgress, JobView};
use crate::http::operations::operation;
use crate::http::problem::Problem;
use crate::http::work::{self, JobOutcome};

/// Maximum number of runs that a list covers.
const RUNS: u32 = 10_000;
/// Maximum length of a task or a query in characters.
const MAX_CHARACTERS: usize = 2000;
/// Maximum number of initial queries.
const MAX_QUERIES: usize = 20;
/// Maximum number of rounds of a run.
const MAX_ROUNDS: u32 = 30;
/// Maximum and default duration of a run in seconds.
const SECONDS: (f64, f64) = (3600.0, 600.0);

pub(super) fn operations() -> Vec<Operation> {
    vec![
        operation(
            "list_sources",
            "List the sources that a run may search; the first is the default",
            (Scope::Read, Effect::Read),
            sources,
        ),
        operation(
            "list_research",
            "List research runs, newest first",
            (Scope::Read, Effect::Read),
            runs,
        ),
        operation(
            "get_research",
            "Get a research run: its rounds with their novelty, and its report once finished",
            (Scope::Read, Effect::Read),
            show,
        ),
        operation(
            "start_research",
            "Research a task as a background job; follow its events, one per round",
            (Scope::Admin, Effect::Write),
            start,
        ),
    ]
}

/// Sources that research may search.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SourceList {
    /// Names of the sources; the first is the default.
    sources: Vec<String>,
}

async fn sources(app: Arc<App>, _: NoFields) -> Result<SourceList, Problem> {
    let sources = app.folders.research.sources.names();
    Ok(SourceList {
        sources: sources.map(str::to_owned).collect(),
    })
}

/// Page of research runs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ResearchPage {
    /// Runs in order, newest first.
    runs: Vec<ResearchSummary>,
    /// Cursor of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn runs(app: Arc<App>, page: PageRequest) -> Result<ResearchPage, Problem> {
    let all = app.engine.research().stored_runs(page.needed(RUNS)).await?;
    let (mut runs, next_cursor) = page.cut(all, |run| &run.run_id)?;
    for run in &mut runs {
        run.source = app.folders.research.sources.shown(&run.source);
    }
    Ok(ResearchPage { runs, next_cursor })
}

async fn show(app: Arc<App>, request: IdRequest) -> Result<StoredResearch, Problem> {
    let sources = &app.folders.research.sources;
    let mut run = app.engine.research().stored_run(&request.id).await?;
    run.source = sources.shown(&run.source);
    if let Some(report) = &mut run.report {
        report.source = sources.shown(&report.source);
    }
    Ok(run)
}

/// Request to start or resume a research run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResearchBody {
    /// Question or task to research; omit it to resume a run.
    #[serde(default)]
    #[schemars(length(min = 1, max = 2000))]
    task: Option<String>,
    /// Name of the source, from `/v1/research/sources`; default the first one.
    #[serde(default)]
    source: Option<String>,
    /// First queries; by default derived from the task.
    #[serde(default)]
    #[schemars(length(max = 20))]
    queries: Vec<String>,
    /// Settings of the search gate; at most 30 rounds.
    #[serde(default)]
    gate: Option<GateSettings>,
    /// Results to request per search, from 1 to 50; default 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    results: Option<u32>,
    /// Pages to read in full at the end; default 0. Private addresses are refused.
    #[serde(default)]
    #[schemars(range(max = 10))]
    read_pages: Option<u32>,
    /// Time limit in seconds; default 600.
    #[serde(default)]
    #[schemars(range(min = 1.0, max = 3600.0))]
    max_seconds: Option<f64>,
    /// Token limit for the chat model; default none.
    #[serde(default)]
    max_tokens: Option<u64>,
    /// Whether to use the server's chat model, if configured.
    #[serde(default = "yes")]
    use_model: bool,
    /// Id of the run to resume.
    #[serde(default)]
    resume: Option<String>,
}

fn yes() -> bool {
    true
}

async fn start(app: Arc<App>, body: ResearchBody) -> Result<JobView, Problem> {
    let request = match &body.resume {
        Some(run) => resume(&app, &body, run).await?,
        None => new(&app, body)?,
    };
    let subject = request.task.clone();
    work::start(app, "research_run", &subject, |app, job| run(app, job, request))
}

/// Resolves a source by its configured name.
fn source<'a>(app: &'a App, name: Option<&str>) -> Result<&'a str, Problem> {
    let sources = &app.folders.research.sources;
    if let Some(spec) = sources.named(name) {
        return Ok(spec);
    }
    let names: Vec<&str> = sources.names().collect();
    if names.is_empty() {
        return Err(Problem::forbidden("research is disabled on this server")
            .hint("start the server with `--research-sources` to enable it"));
    }
    Err(Problem::unprocessable("unknown `source`")
        .hint(format!("use one of: {}", names.join(", ")))
        .at("source"))
}

fn new(app: &App, body: ResearchBody) -> Result<ResearchRequest, Problem> {
    let task = body.task.unwrap_or_default();
    let spec = source(app, body.source.as_deref())?;
    let long = |text: &str| text.chars().count() > MAX_CHARACTERS;
    if long(&task) {
        return Err(
            Problem::unprocessable(format!("`task` must have at most {MAX_CHARACTERS} characters"))
                .at("task"),
        );
    }
    if body.queries.len() > MAX_QUERIES || body.queries.iter().any(|query| long(query)) {
        let most =
            format!("`queries` must have at most {MAX_QUERIES} entries of {MAX_CHARACTERS} characters");
        return Err(Problem::unprocessable(most).at("queries"));
    }
    let mut request = ResearchRequest::new(task, spec, app.folders.research.reach.clone());
    request.planned = body.queries;
    request.use_model = body.use_model;
    request.settings = ResearchSettings {
        gate: body.gate.unwrap_or(request.settings.gate),
        results_per_search: within("results", body.results.unwrap_or(20), 1, 50)?,
        enrich_pages: within("read_pages", body.read_pages.unwrap_or(0), 0, 10)?,
        budget: Budget {
            seconds: Some(within(
                "max_seconds",
                body.max_seconds.unwrap_or(SECONDS.1),
                1.0,
                SECONDS.0,
            )?),
            tokens: body.max_tokens,
            money: None,
        },
        ..request.settings
    };
    within("gate.max_rounds", request.settings.gate.max_rounds, 1, MAX_ROUNDS)?;
    // Invalid requests are rejected now and not in the background.
    Research::new(&request.task, request.planned.clone(), request.settings.clone())
        .map_err(EngineError::from)?;
    Ok(request)
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    what: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<T, Problem> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Problem::unprocessable(format!("`{what}` must be from {least} to {most}")).at(what))
}

/// Resumes a stopped or interrupted run. Its source must still be allowed.
async fn resume(app: &App, body: &ResearchBody, run: &str) -> Result<ResearchRequest, Problem> {
    if body.task.is_some() || body.source.is_some() {
        let said = "`task` and `source` are not allowed when resuming a run";
        return Err(Problem::unprocessable(said).at("resume"));
    }
    let kept = app.engine.research().stored_run(run).await?;
    if !app.folders.research.sources.contains(&kept.source) {
        return Err(
            Problem::forbidden("the source of this run is not allowed on this server")
                .hint("resume it where it was started, with `satiety research --resume`"),
        );
    }
    if kept.report.is_some() {
        return Err(EngineError::ResearchEnded { run: kept.run_id }.into());
    }
    let mut request = ResearchRequest::new(kept.task, kept.source, app.folders.research.reach.clone());
    request.resume = Some(kept.run_id);
    Ok(request)
}

/// Progress of a research run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ResearchJobProgress {
    /// Id of the run in the store.
    pub run_id: String,
    /// Number of decided and stored rounds.
    pub done: u32,
    /// Maximum number of rounds; most runs stop earlier.
    pub planned: u32,
    /// Number of rounds that were new enough to be accepted.
    pub accepted: u32,
    /// Current or latest search query.
    pub query: String,
    /// Novelty of the last round from 0 to 1; absent before the first results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novelty: Option<f64>,
    /// URL of the page being read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<String>,
    /// Answers so far, in the order of the questions; those of a chat model arrive one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
}

async fn run(app: Arc<App>, job: Arc<Job>, request: ResearchRequest) -> Result<JobOutcome, Problem> {
    let mut far = ResearchJobProgress {
        planned: request.settings.gate.max_rounds,
        ..ResearchJobProgress::default()
    };
    let outcome = app
        .engine
        .research()
        .run(request, &job.stop, |seen| {
            match seen {
                ResearchProgress::Begun { run_id } => (*run_id).clone_into(&mut far.run_id),
                ResearchProgress::Searching { query, .. } => (*query).clone_into(&mut far.query),
                ResearchProgress::Decided(record) => {
                    far.done = record.round;
                    far.accepted += u32::from(record.verdict.accepted);
                    far.novelty = record.verdict.novelty;
                }
                ResearchProgress::Answered(answer) => far.answers.push((*answer).clone()),
                ResearchProgress::Reading { url } => far.reading = Some((*url).to_owned()),
            }
            job.progress(JobProgress::Research(far.clone()));
        })
        .await;
    let researched = outcome.map_err(|error| {
        let mut problem = app.redact(error);
        problem.detail = app.folders.research.sources.discreet(&problem.detail).into();
        problem
    })?;
    let report = researched.report;
    Ok(JobOutcome {
        result: json!({"run_id": report.run_id, "stop": report.stop, "searches": report.searches,
            "rounds_accepted": report.rounds_accepted, "sources": report.sources.len()}),
        stopped: researched.interrupted,
    })
}
