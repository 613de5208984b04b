//! Research: runs in the store, and runs as jobs. A request says what to find out and the name of a source; where that name
//! leads is the server's own setting, so that nobody elsewhere can have a folder read, a command run or an address asked.

use std::sync::Arc;

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

/// Runs that a list goes back to.
const RUNS: u32 = 10_000;
/// Letters of a task or a query.
const LETTERS: usize = 2000;
/// Queries to begin with.
const QUERIES: usize = 20;
/// Rounds of a run.
const ROUNDS: u32 = 30;
/// Seconds that a run may take at most, and takes at most unless said otherwise.
const SECONDS: (f64, f64) = (3600.0, 600.0);

pub(super) fn operations() -> Vec<Operation> {
    vec![
        operation(
            "list_sources",
            "List the names of the sources that a run may search; the first is the default",
            (Scope::Read, Effect::Read),
            sources,
        ),
        operation(
            "list_research",
            "List research runs, the newest first",
            (Scope::Read, Effect::Read),
            runs,
        ),
        operation(
            "get_research",
            "Get a research run: its rounds with how new each was, and its report once it has ended",
            (Scope::Read, Effect::Read),
            show,
        ),
        operation(
            "start_research",
            "Research a task as a job: follow it by its events, one for each round",
            (Scope::Admin, Effect::Write),
            start,
        ),
    ]
}

/// What may be searched.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SourceList {
    /// The names.
    sources: Vec<String>,
}

async fn sources(app: Arc<App>, _: NoFields) -> Result<SourceList, Problem> {
    let sources = app.folders.research.sources.names();
    Ok(SourceList {
        sources: sources.map(str::to_owned).collect(),
    })
}

/// Runs on a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ResearchPage {
    /// The newest first.
    runs: Vec<ResearchSummary>,
    /// Where the next page begins; absent on the last one.
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

/// What to find out.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResearchBody {
    /// The task. Left out when a run is taken up again.
    #[serde(default)]
    #[schemars(length(min = 1, max = 2000))]
    task: Option<String>,
    /// The name of the source to search, one of `/v1/research/sources`; the first of them where absent.
    #[serde(default)]
    source: Option<String>,
    /// Queries to begin with; made from the task where there are none.
    #[serde(default)]
    #[schemars(length(max = 20))]
    queries: Vec<String>,
    /// When it is enough; usual settings where absent. At most 30 rounds.
    #[serde(default)]
    gate: Option<GateSettings>,
    /// Results to ask for in each search; 20 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    results: Option<u32>,
    /// Pages to read whole at the end; none where absent. Private addresses are not read.
    #[serde(default)]
    #[schemars(range(max = 10))]
    read_pages: Option<u32>,
    /// Seconds that it may take; 600 where absent.
    #[serde(default)]
    #[schemars(range(min = 1.0, max = 3600.0))]
    max_seconds: Option<f64>,
    /// Tokens of the chat model that it may take.
    #[serde(default)]
    max_tokens: Option<u64>,
    /// Whether the server's chat model helps, where it has one.
    #[serde(default = "yes")]
    use_model: bool,
    /// The run to take up: its id.
    #[serde(default)]
    resume: Option<String>,
}

fn yes() -> bool {
    true
}

async fn start(app: Arc<App>, body: ResearchBody) -> Result<JobView, Problem> {
    let request = match &body.resume {
        Some(run) => taken_up(&app, &body, run).await?,
        None => new(&app, body)?,
    };
    let subject = request.task.clone();
    work::start(app, "research_run", &subject, |app, job| run(app, job, request))
}

/// A source by the name that a request says; nothing else leads anywhere.
fn source<'a>(app: &'a App, name: Option<&str>) -> Result<&'a str, Problem> {
    let sources = &app.folders.research.sources;
    if let Some(spec) = sources.named(name) {
        return Ok(spec);
    }
    let names: Vec<&str> = sources.names().collect();
    if names.is_empty() {
        return Err(Problem::forbidden("this server lets nobody search")
            .hint("whoever runs it lists what may be searched with `--research-sources`"));
    }
    Err(Problem::unprocessable("`source` is no source of this server")
        .hint(format!("it has {}", names.join(", ")))
        .at("source"))
}

fn new(app: &App, body: ResearchBody) -> Result<ResearchRequest, Problem> {
    let task = body.task.unwrap_or_default();
    let spec = source(app, body.source.as_deref())?;
    let long = |text: &str| text.chars().count() > LETTERS;
    if long(&task) {
        return Err(Problem::unprocessable(format!("a task has at most {LETTERS} letters")).at("task"));
    }
    if body.queries.len() > QUERIES || body.queries.iter().any(|query| long(query)) {
        let most = format!("there may be {QUERIES} queries of {LETTERS} letters");
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
            seconds: Some(body.max_seconds.unwrap_or(SECONDS.1)),
            tokens: body.max_tokens,
            money: None,
        },
        ..request.settings
    };
    if request
        .settings
        .budget
        .seconds
        .is_some_and(|seconds| seconds > SECONDS.0)
    {
        return Err(
            Problem::unprocessable(format!("a run takes at most {} seconds", SECONDS.0)).at("max_seconds"),
        );
    }
    within("gate.max_rounds", request.settings.gate.max_rounds, 1, ROUNDS)?;
    // What cannot begin is refused now and not in the background.
    Research::new(&request.task, request.planned.clone(), request.settings.clone())
        .map_err(EngineError::from)?;
    Ok(request)
}

fn within(what: &'static str, value: u32, least: u32, most: u32) -> Result<u32, Problem> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Problem::unprocessable(format!("`{what}` must be from {least} to {most}")).at(what))
}

/// A run that was stopped, or whose server ended. What it searches must be allowed now, whoever began it.
async fn taken_up(app: &App, body: &ResearchBody, run: &str) -> Result<ResearchRequest, Problem> {
    if body.task.is_some() || body.source.is_some() {
        let said = "a run that is taken up has its task and source already";
        return Err(Problem::unprocessable(said).at("resume"));
    }
    let kept = app.engine.research().stored_run(run).await?;
    if !app.folders.research.sources.contains(&kept.source) {
        return Err(
            Problem::forbidden("what this run searches is no source of this server")
                .hint("take it up on the machine where it was begun, with `satiety research --resume`"),
        );
    }
    if kept.report.is_some() {
        return Err(EngineError::ResearchEnded { run: kept.run_id }.into());
    }
    let mut request = ResearchRequest::new(kept.task, kept.source, app.folders.research.reach.clone());
    request.resume = Some(kept.run_id);
    Ok(request)
}

/// How far a research is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ResearchJobProgress {
    /// Its id in the store.
    pub run_id: String,
    /// Rounds that were decided and stored.
    pub done: u32,
    /// Rounds at most; it mostly ends before.
    pub planned: u32,
    /// Of these, how many were new enough to be kept.
    pub accepted: u32,
    /// What is searched for, or was last.
    pub query: String,
    /// How new the last round was: a share from 0 to 1; absent while none has results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novelty: Option<f64>,
    /// The page that is being read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<String>,
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
                ResearchProgress::Reading { url } => far.reading = Some((*url).to_owned()),
            }
            job.progress(JobProgress::Research(far.clone()));
        })
        .await;
    let researched = outcome.map_err(|error| {
        let mut problem = app.discreet(error);
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
