//! Dashboard: pages rendered on the server from the engine's use cases, with one small script and no external
//! resources.
//!
//! A page is a function from a use case's response to HTML; this file only calls and passes on. Forms call operations
//! with the scope of the visitor; nothing that needs a signature is an operation, so no page can approve anything.

mod bench;
mod conversations;
mod eviction;
mod experiments;
mod export;
mod forms;
mod harness;
mod harness_cycle;
mod labels;
mod memory;
mod overview;
mod passage;
mod progress;
mod queries;
mod research;
mod retrieval;
mod run_pair;
mod shell;
mod step;
mod table;
mod timeline;
mod usage;

pub use export::{ExportError, ExportedPages, Selection, export};

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Form, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use satiety::dialogue::Round;
use satiety_engine::bench::GateDecision;
use satiety_engine::conversations::{ConversationSummary, ListConversationsRequest};
use satiety_engine::harness::HarnessStatus;
use satiety_engine::lists::{ListFilter, ListOrder, ListSort};
use satiety_engine::memory::{ListRequest, SearchRequest};
use satiety_engine::progress::RunSummary;
use satiety_engine::retrieval::{AnnotateRequest, AnnotationStep, AnnotationVerdict};
use satiety_engine::{Engine, EngineError, ErrorCategory};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::auth::Scope;
use crate::http::{App, Problem};
use forms::Visitor;
use satiety_report::html::paragraph;
use table::Address;

/// Maximum number of rows of a list.
const ROWS: u32 = 100;

/// Routes of the pages and their assets.
pub fn pages() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(overview_page))
        .route("/conversations", get(conversation_list))
        .route("/conversations/{id}", get(conversation))
        .merge(labels::routes())
        .route("/progress", get(agent_run_list))
        .route("/progress/{id}", get(agent_run))
        // Not below `/progress`, where it would be the id of a run.
        .route("/compare/progress", get(agent_run_pair))
        .route("/progress/{id}/steps/{step}", get(agent_step))
        .route("/research", get(research_list))
        .route("/research/{id}", get(research_run))
        .route("/research/{id}/rounds/{round}", get(research_round))
        .route(
            "/research/{id}/rounds/{round}/results/{number}",
            get(research_passage),
        )
        .route("/memory", get(memory_list))
        .route("/memory/search", get(memory_search))
        .route("/memory/queries", get(query_list))
        .route("/memory/queries/{id}", get(query_one))
        .route("/memory/{id}", get(memory_one))
        .merge(bench::routes())
        .route("/eviction", get(eviction_list))
        .route("/eviction/{scope}", get(eviction_scope))
        .route("/eviction/{scope}/proposals/{id}", get(eviction_proposal))
        .route("/harness", get(harness_page))
        .merge(harness_cycle::routes())
        .route("/retrieval", get(retrieval_list))
        .route("/retrieval/runs/{id}", get(retrieval_run))
        .route("/retrieval/annotate", get(annotate_next).post(annotate))
        .route("/ab", get(ab_list))
        .route("/ab/{feature}", get(ab_one))
        .route("/assets/style.css", get(style))
        .route("/assets/dashboard.js", get(script))
        .route("/assets/icon.svg", get(icon))
        // Requested by browsers for pages without an icon, such as the login.
        .route("/favicon.ico", get(icon))
}

type Page = Result<Html<String>, ErrorPage>;

async fn overview_page(State(at): State<Arc<App>>) -> Page {
    let engine = &at.engine;
    let words = |error: EngineError| ErrorPage::from(error).words;
    let latest = ListConversationsRequest {
        before: None,
        limit: 20,
    };
    let (conversations, agent_runs, research, memory, runs, gates, eviction, harness, features, measured) = tokio::join!(
        engine.dialogue().conversations(&latest),
        engine.progress().runs(None, 20),
        engine.research().stored_runs(20),
        engine.memory().health(),
        engine.bench().runs(None, 20),
        engine.bench().gates(None, LATEST_GATES),
        eviction_state(engine),
        overview_harness(&at),
        engine.experiments().list(),
        engine.retrieval().latest_metrics(),
    );
    let (pending, intervals) = match &runs {
        Ok(runs) => tokio::join!(
            async { engine.bench().pending_results(runs).await.unwrap_or_default() },
            async { engine.bench().pass_intervals(runs).await.unwrap_or_default() }
        ),
        Err(_) => Default::default(),
    };
    let latest_gates = gates.as_deref().unwrap_or_default();
    let (escalated, stuck, regressions) = tokio::join!(
        escalated_conversations(engine),
        stuck_agents(engine),
        open_regressions(engine, latest_gates)
    );
    let seen = overview::Overview {
        regressions,
        pending,
        intervals,
        escalated,
        stuck,
        jobs: at.jobs.list(),
        conversations: conversations.map(|found| found.conversations).map_err(words),
        agent_runs: agent_runs.map(|found| found.runs).map_err(words),
        research: research.map_err(words),
        memory: memory.map_err(words),
        runs: runs.map_err(words),
        gates: gates.map_err(words),
        eviction: eviction.map_err(words),
        harness: harness.map(Ok),
        features: features.map_err(words),
        measured: measured.map_err(words),
    };
    let page = overview::page(&seen, Timestamp::now());
    Ok(Html(usage::with_usage(&page, engine)))
}

/// Latest gate decisions that the overview looks at: enough for the latest one of every suite.
const LATEST_GATES: u32 = 500;
/// Maximum number of entries of one kind that need a person.
const NEEDY: u32 = 5;

/// Regressions that are still open, newest first. The latest decision about a suite counts, and a person may have accepted
/// the regression, or the run as the new baseline.
async fn open_regressions(engine: &Engine, newest_first: &[GateDecision]) -> Vec<GateDecision> {
    let mut suites = HashSet::new();
    let mut open = Vec::new();
    for gate in newest_first {
        let is_latest = suites.insert(gate.suite_id.as_str());
        if !is_latest || gate.verdict != "regression" || gate.accepted_by.is_some() {
            continue;
        }
        let baselines = engine.bench().baselines(&gate.suite_id, 1).await;
        let is_accepted = baselines
            .iter()
            .flatten()
            .any(|baseline| baseline.run_id == gate.candidate_run);
        if !is_accepted {
            open.push(gate.clone());
        }
    }
    open
}

/// The contexts that changed last, and how many proposals wait for an answer.
async fn eviction_state(engine: &Engine) -> Result<overview::EvictionState, EngineError> {
    let recent = engine.eviction().find_scopes(None, &None, 20).await?;
    Ok(overview::EvictionState {
        recent: recent.scopes,
        open: engine.eviction().open_proposals(overview::MAX_OPEN).await?,
    })
}

/// The latest conversations that need a person, of all conversations. An error is shown on their card.
async fn escalated_conversations(engine: &Engine) -> Vec<ConversationSummary> {
    let filter = ListFilter {
        signal: Some("ESCALATE".into()),
        ..ListFilter::default()
    };
    let found = engine.dialogue().find_conversations(&filter, &None, NEEDY).await;
    found.map(|found| found.rows).unwrap_or_default()
}

/// The latest agents' runs that should not go on by themselves, of all runs.
async fn stuck_agents(engine: &Engine) -> Vec<RunSummary> {
    let mut stuck = Vec::new();
    for signal in ["STOP", "ESCALATE"] {
        let filter = ListFilter {
            signal: Some(signal.into()),
            ..ListFilter::default()
        };
        let found = engine.progress().find_runs(&filter, &None, NEEDY).await;
        stuck.extend(found.map(|found| found.rows).unwrap_or_default());
    }
    stuck.sort_by_key(|run| std::cmp::Reverse(run.updated_at));
    stuck.truncate(NEEDY as usize);
    stuck
}

/// State of a harness that was measured before.
#[derive(Debug, Clone)]
pub(crate) struct MeasuredHarness {
    at: Instant,
    /// What the state depends on.
    key: String,
    status: HarnessStatus,
}

/// State of the harness for the overview; `None` if the server has none. The state of an earlier visit is shown, and
/// measured again in the background.
async fn overview_harness(at: &Arc<App>) -> Option<HarnessStatus> {
    const FRESH: Duration = Duration::from_secs(15);
    let known = at.harness.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match known {
        None => measured_harness(at).await.ok(),
        Some(known) => {
            if known.at.elapsed() > FRESH {
                let again = MeasuredHarness {
                    at: Instant::now(),
                    ..known.clone()
                };
                // Other visits show this state until the new one is there.
                *at.harness.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
                let at = at.clone();
                tokio::spawn(async move {
                    if measured_harness(&at).await.is_err() {
                        *at.harness.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    }
                });
            }
            Some(known.status)
        }
    }
}

/// Measures the harness, which reads the results of the newest runs of its suites, unless nothing has changed since the
/// last time.
async fn measured_harness(at: &App) -> Result<HarnessStatus, EngineError> {
    let harness = at.engine.harness();
    let key = harness.status_key(&at.folders.harness).await?;
    let known = at.harness.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(known) = known.filter(|known| known.key == key) {
        return Ok(known.status);
    }
    let status = harness.status(&at.folders.harness, at.folders.driver).await?;
    let measured = MeasuredHarness {
        at: Instant::now(),
        key,
        status: status.clone(),
    };
    *at.harness.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
    Ok(status)
}

type Pairs = Query<Vec<(String, String)>>;

/// Filter of a list, as its address states it; `measure` is the name of what it can be sorted by besides the time.
fn list_filter(address: &Address, measure: &str) -> ListFilter {
    ListFilter {
        signal: address.get("signal").map(str::to_owned),
        text: address.get("q").map(str::to_owned),
        order: list_order(address, measure),
    }
}

/// Order of a list, as its address states it: newest first by default.
fn list_order(address: &Address, measure: &str) -> ListOrder {
    let (sort, descending) = match address.sort() {
        Some((name, descending)) if name == measure => (ListSort::Measure, descending),
        Some(("time", descending)) => (ListSort::Time, descending),
        _ => return ListOrder::default(),
    };
    ListOrder {
        sort,
        ascending: !descending,
    }
}

async fn conversation_list(State(at): State<Arc<App>>, Query(pairs): Pairs) -> Page {
    let address = Address::new("/conversations", pairs);
    let filter = list_filter(&address, "score");
    let after = cursor(&address)?;
    let found = at
        .engine
        .dialogue()
        .find_conversations(&filter, &after, ROWS)
        .await?;
    Ok(Html(conversations::list_page(&address, &found, Timestamp::now())))
}

#[derive(Debug, Deserialize)]
struct First {
    /// Number of the first step or round on the page.
    from: Option<usize>,
}

async fn conversation(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    Fields(first): Fields<First>,
    visitor: Visitor,
) -> Page {
    let kept = at.engine.dialogue().conversation(&id).await?;
    let labels = at.engine.dialogue().conversation_labels(&id).await?;
    // A round that this version cannot parse is left out; the curves come from the report.
    let rounds = kept
        .rounds
        .iter()
        .filter_map(|round| serde_json::from_value(round.round.clone()).ok());
    let rounds: Vec<Round> = rounds.collect();
    let labels = labels::conversation(&kept, &labels, visitor.has(Scope::Admin), Timestamp::now());
    Ok(Html(conversations::detail_page(
        &kept, &rounds, first.from, labels,
    )))
}

async fn agent_run_list(State(at): State<Arc<App>>, Query(pairs): Pairs) -> Page {
    let address = Address::new("/progress", pairs);
    let filter = list_filter(&address, "wasted");
    let after = cursor(&address)?;
    let found = at.engine.progress().find_runs(&filter, &after, ROWS).await?;
    Ok(Html(progress::list_page(&address, &found, Timestamp::now())))
}

async fn agent_run(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    Fields(first): Fields<First>,
    visitor: Visitor,
) -> Page {
    let messages = at.engine.progress().run_summary(&id).await?.messages;
    let run = at.engine.progress().run(&id).await?;
    let labels = at.engine.progress().run_labels(&id).await?;
    let events = at.engine.progress().context_events(&run).await?;
    let now = Timestamp::now();
    let labels = labels::agent_run(&run, &labels, visitor.has(Scope::Admin), now);
    Ok(Html(progress::detail_page(
        &run, messages, &events, first.from, labels, now,
    )))
}

async fn agent_run_pair(State(at): State<Arc<App>>, Query(pairs): Pairs) -> Page {
    let address = Address::new("/compare/progress", pairs);
    let chosen: Vec<&str> = address.all("run").collect();
    let [left, right] = chosen.as_slice() else {
        return Err(ErrorPage::invalid_field("select two runs to compare"));
    };
    let progress = at.engine.progress();
    let (left, right) = tokio::try_join!(progress.run(left), progress.run(right))?;
    Ok(Html(run_pair::page(&left, &right)))
}

async fn agent_step(State(at): State<Arc<App>>, Path((id, step)): Path<(String, usize)>) -> Page {
    let run = at.engine.progress().run(&id).await?;
    step::page(&run, step, Timestamp::now())
        .map(Html)
        .ok_or_else(|| ErrorPage {
            status: StatusCode::NOT_FOUND,
            words: format!("run `{id}` has no step {step}"),
            hint: None,
        })
}

async fn research_list(State(at): State<Arc<App>>, Query(pairs): Pairs) -> Page {
    let address = Address::new("/research", pairs);
    let before = cursor(&address)?;
    let research = at.engine.research();
    let mut found = research.find_runs(address.get("q"), &before, ROWS).await?;
    for run in &mut found.runs {
        // The searched directory or address is not shown.
        run.source = at.folders.research.sources.shown(&run.source);
    }
    Ok(Html(research::list_page(&address, &found, Timestamp::now())))
}

async fn research_run(State(at): State<Arc<App>>, Path(id): Path<String>) -> Page {
    let mut run = at.engine.research().stored_run(&id).await?;
    run.source = at.folders.research.sources.shown(&run.source);
    Ok(Html(research::detail_page(&run, Timestamp::now())))
}

async fn research_round(State(at): State<Arc<App>>, Path((id, number)): Path<(String, u32)>) -> Page {
    let run = at.engine.research().stored_run(&id).await?;
    let round = research::round_numbered(&run, number).ok_or_else(|| no_round(&id, number))?;
    Ok(Html(research::round_page(&run, round)))
}

async fn research_passage(
    State(at): State<Arc<App>>,
    Path((id, number, result)): Path<(String, u32, usize)>,
) -> Page {
    let run = at.engine.research().stored_run(&id).await?;
    let round = research::round_numbered(&run, number).ok_or_else(|| no_round(&id, number))?;
    let page = research::passage_page(&run, round, result);
    page.map(Html).ok_or_else(|| ErrorPage {
        status: StatusCode::NOT_FOUND,
        words: format!("round {number} of research `{id}` has no result {result}"),
        hint: Some("choose a result from the round".into()),
    })
}

fn no_round(id: &str, number: u32) -> ErrorPage {
    ErrorPage {
        status: StatusCode::NOT_FOUND,
        words: format!("research `{id}` has no round {number}"),
        hint: Some("choose a round from the run".into()),
    }
}

#[derive(Debug, Deserialize)]
struct AfterCursor {
    #[serde(default)]
    after: i64,
}

async fn memory_list(State(at): State<Arc<App>>, Fields(from): Fields<AfterCursor>) -> Page {
    let request = ListRequest {
        limit: Some(ROWS as usize),
        // The dashboard is for the operator of the server: it shows the memories of all projects.
        scope: Some(satiety::memory::Scope::All),
        ..ListRequest::after(from.after)
    };
    let (health, found) = tokio::join!(at.engine.memory().health(), at.engine.memory().list(&request));
    Ok(Html(memory::list_page(&health?, &found?)))
}

#[derive(Debug, Deserialize)]
struct FormInput {
    q: String,
}

async fn memory_search(State(at): State<Arc<App>>, Fields(asked): Fields<FormInput>) -> Page {
    let found = at
        .engine
        .memory()
        .search(SearchRequest {
            query: asked.q,
            tool: "dashboard",
            scope: Some(satiety::memory::Scope::All),
            ..SearchRequest::default()
        })
        .await?;
    Ok(Html(memory::search(&found)))
}

async fn query_list(State(at): State<Arc<App>>, Query(pairs): Pairs) -> Page {
    let address = Address::new("/memory/queries", pairs);
    let filter = list_filter(&address, "");
    let before = cursor(&address)?;
    let found = at.engine.memory().search_log(&filter, &before, ROWS).await?;
    Ok(Html(queries::list_page(&address, &found, Timestamp::now())))
}

async fn query_one(State(at): State<Arc<App>>, Path(id): Path<String>) -> Page {
    let found = at.engine.memory().logged_search(&id).await?;
    Ok(Html(queries::detail_page(&found, Timestamp::now())))
}

async fn memory_one(State(at): State<Arc<App>>, Path(id): Path<String>) -> Page {
    let found = at
        .engine
        .memory()
        .get(&id, Some(&satiety::memory::Scope::All))
        .await?;
    Ok(Html(memory::detail_page(&found, Timestamp::now())))
}

/// Rejects ids that could be file names: pages show stored runs only.
fn stored_only(id: &str) -> Result<(), ErrorPage> {
    let plain = id
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if plain && !id.is_empty() {
        return Ok(());
    }
    Err(ErrorPage {
        status: StatusCode::NOT_FOUND,
        words: "run not found".into(),
        hint: None,
    })
}

async fn eviction_list(State(at): State<Arc<App>>, Query(pairs): Pairs) -> Page {
    let engine = &at.engine;
    let address = Address::new("/eviction", pairs);
    let before = cursor(&address)?;
    let (scopes, feedback, scorers) = tokio::join!(
        engine.eviction().find_scopes(address.get("q"), &before, ROWS),
        engine.eviction().recent_feedback(),
        engine.eviction().scorers()
    );
    Ok(Html(eviction::list_page(
        &address, &scopes?, &feedback?, &scorers?,
    )))
}

async fn eviction_scope(State(at): State<Arc<App>>, Path(scope): Path<String>) -> Page {
    let timeline = at.engine.eviction().recent_timeline(&scope).await?;
    Ok(Html(eviction::detail_page(&scope, &timeline)))
}

async fn eviction_proposal(State(at): State<Arc<App>>, Path((scope, id)): Path<(String, String)>) -> Page {
    let (proposal, feedback) = at.engine.eviction().stored_proposal(&scope, &id).await?;
    Ok(Html(eviction::proposal_page(
        &proposal,
        feedback.as_ref(),
        Timestamp::now(),
    )))
}

async fn harness_page(State(at): State<Arc<App>>, visitor: Visitor) -> Page {
    let engine = &at.engine;
    let mut status = match measured_harness(&at).await {
        Ok(status) => status,
        Err(error) if error.category().exit_code() == 2 => {
            return Ok(Html(harness::absent(&at.redact(error).detail)));
        }
        Err(error) => return Err(error.into()),
    };
    if !visitor.has(Scope::Admin) {
        // The location is only of interest to the operator of the server.
        status.folder = "harness".into();
    }
    let (history, proposal) = tokio::join!(
        engine.harness().history(&at.folders.harness, 100),
        engine.harness().open_proposal(&at.folders.harness)
    );
    Ok(Html(harness::page(
        &status,
        &history?,
        proposal?.as_ref(),
        Timestamp::now(),
    )))
}

async fn ab_list(State(at): State<Arc<App>>) -> Page {
    Ok(Html(experiments::list_page(
        &at.engine.experiments().list().await?,
    )))
}

async fn ab_one(State(at): State<Arc<App>>, Path(feature): Path<String>) -> Page {
    Ok(Html(experiments::detail_page(
        &at.engine.experiments().status(&feature).await?,
    )))
}

async fn retrieval_list(State(at): State<Arc<App>>) -> Page {
    let (runs, changes) = tokio::join!(
        at.engine.retrieval().measured_runs(ROWS),
        at.engine.retrieval().latest_changes()
    );
    Ok(Html(retrieval::list_page(
        &runs?,
        changes?.as_ref(),
        Timestamp::now(),
    )))
}

async fn retrieval_run(State(at): State<Arc<App>>, Path(id): Path<String>, Query(pairs): Pairs) -> Page {
    let address = Address::new(format!("/retrieval/runs/{}", shell::segment(&id)), pairs);
    let retrieval = at.engine.retrieval();
    let run = retrieval.run_metrics(&id).await?;
    let others = retrieval.measured_runs(ROWS).await?;
    // A run that has no values by query, or none to compare with, is shown with its metrics.
    let changes = retrieval
        .run_changes(&id, address.get("against"), address.get("measure"))
        .await;
    let changes = match changes {
        Err(error) if error.category().exit_code() != 2 => return Err(error.into()),
        other => other.map_err(|error| error.to_string()),
    };
    Ok(Html(retrieval::run_page(
        &run,
        &address,
        &others,
        changes.as_ref(),
        Timestamp::now(),
    )))
}

#[derive(Debug, Deserialize)]
struct Annotator {
    annotator: Option<String>,
    double: Option<f64>,
}

/// What an annotator asks for. Of the results, `double` percent are judged by a second person, so that agreement can be
/// measured.
fn annotate_request(annotator: &str, double: Option<f64>) -> AnnotateRequest {
    let mut request = AnnotateRequest::of(annotator);
    request.settings.double = double.unwrap_or(0.0) / 100.0;
    request
}

/// Judgments decide how good a search is measured to be, so the agent that searches must not give them: its token has a
/// lower scope.
async fn annotate_next(State(at): State<Arc<App>>, visitor: Visitor, Fields(who): Fields<Annotator>) -> Page {
    visitor.require(Scope::Admin)?;
    let Some(annotator) = who.annotator.filter(|name| !name.trim().is_empty()) else {
        return Ok(Html(retrieval::annotator()));
    };
    let request = annotate_request(&annotator, who.double);
    let step = at.engine.retrieval().next_annotation(&request).await?;
    annotation_page(&at, &request, &step).await
}

#[derive(Debug, Deserialize)]
struct JudgedForm {
    annotator: String,
    double: Option<f64>,
    query_id: String,
    memory_id: String,
    grade: String,
}

async fn annotate(
    State(at): State<Arc<App>>,
    visitor: Visitor,
    FormFields(said): FormFields<JudgedForm>,
) -> Page {
    visitor.require(Scope::Admin)?;
    let request = annotate_request(&said.annotator, said.double);
    let step = if said.grade == "undo" {
        at.engine.retrieval().undo_annotation(&request).await?
    } else {
        let verdict = AnnotationVerdict {
            query_id: said.query_id,
            memory_id: said.memory_id,
            // Anything but a number skips the result.
            grade: said.grade.parse().ok(),
        };
        at.engine.retrieval().annotate(&request, &verdict).await?
    };
    annotation_page(&at, &request, &step).await
}

/// Next result to judge, with the agreement of all annotators so far.
async fn annotation_page(at: &App, request: &AnnotateRequest, step: &AnnotationStep) -> Page {
    // Without resamples: an interval would take longer than the page.
    let agreement = at.engine.retrieval().annotation_agreement(0, 0, 0).await?;
    Ok(Html(retrieval::annotate(&request.settings, step, &agreement)))
}

const SCRIPT: &str = include_str!("../assets/dashboard.js");
const ICON: &str = include_str!("../assets/icon.svg");

fn style_text() -> String {
    let style = [
        satiety_report::html::STYLE,
        include_str!("../assets/dashboard.css"),
    ];
    style.concat()
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", style_text())
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

async fn icon() -> Response {
    asset("image/svg+xml", ICON)
}

fn asset(kind: &'static str, text: impl IntoResponse) -> Response {
    (
        [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "max-age=300"),
        ],
        text,
    )
        .into_response()
}

/// Fields of a page's address. Invalid fields are answered with an error page.
struct Fields<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Fields<T> {
    type Rejection = ErrorPage;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorPage> {
        let Query(fields) = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| ErrorPage::invalid(&error))?;
        Ok(Self(fields))
    }
}

/// Fields of a submitted form; like [`Fields`].
struct FormFields<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for FormFields<T> {
    type Rejection = ErrorPage;

    async fn from_request(request: Request, state: &S) -> Result<Self, ErrorPage> {
        let Form(fields) = Form::from_request(request, state)
            .await
            .map_err(|error| ErrorPage::invalid(&error))?;
        Ok(Self(fields))
    }
}

/// Adds the status of the server to the footer of a page: store, workers and queued cases.
pub(crate) async fn add_status(app: &App, response: Response) -> Response {
    let is_page = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !is_page {
        return response;
    }
    let status = status_words(app).await;
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let page = shell::with_status(&String::from_utf8_lossy(&bytes), &status);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, page.into())
}

/// Status of the server in words, at most a few seconds old.
async fn status_words(app: &App) -> String {
    const TTL: Duration = Duration::from_secs(5);
    let known = {
        let status = app.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.clone()
    };
    if let Some((at, words)) = known
        && at.elapsed() < TTL
    {
        return words;
    }
    let database = app.engine.database();
    let (instances, queue) = tokio::join!(database.instances(), app.engine.bench().queue_size());
    let mut words = database.store_kind().to_owned();
    match instances {
        Ok(found) => {
            let workers = match found.workers.len() {
                0 => "no workers".to_owned(),
                many => shell::count(many, "worker", "workers"),
            };
            words = format!("{words}, {workers} connected");
            let draining = found.workers.iter().filter(|worker| worker.draining).count();
            if draining > 0 {
                words = format!("{words} ({draining} draining)");
            }
        }
        Err(_) => words.push_str(" unavailable"),
    }
    if let Ok(queue) = queue
        && queue.waiting + queue.in_progress > 0
    {
        let cases = shell::count(queue.waiting + queue.in_progress, "case", "cases");
        words = format!("{words}, {cases} queued");
    }
    let made = Some((Instant::now(), words.clone()));
    *app.status.lock().unwrap_or_else(PoisonError::into_inner) = made;
    words
}

/// Cursor of a list, as JSON in the address.
fn cursor<T: DeserializeOwned>(address: &Address) -> Result<Option<T>, ErrorPage> {
    let parsed = address.get("after").map(serde_json::from_str).transpose();
    parsed.map_err(|_| ErrorPage::invalid_field("the position in the list is invalid"))
}

/// Page for an address that does not exist.
pub(crate) fn not_found() -> Response {
    ErrorPage {
        status: StatusCode::NOT_FOUND,
        words: "no page has this address".into(),
        hint: Some("choose a page from the menu".into()),
    }
    .into_response()
}

/// Error page.
struct ErrorPage {
    status: StatusCode,
    words: String,
    hint: Option<String>,
}

impl ErrorPage {
    /// Page for a field with an invalid value.
    fn invalid_field(why: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            words: format!("cannot read the request: {why}"),
            hint: Some("change the field and apply the filter again".into()),
        }
    }

    /// Page for fields that cannot be read; their error names the field in its cause.
    fn invalid(error: &dyn std::error::Error) -> Self {
        let cause = std::iter::successors(error.source(), |cause| cause.source()).last();
        let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
        Self {
            status: StatusCode::BAD_REQUEST,
            words: format!("cannot read the request: {cause}"),
            hint: Some("go back and fill in the form again".into()),
        }
    }
}

/// The same status, words and hint as over HTTP: internal details stay in the log.
impl From<EngineError> for ErrorPage {
    fn from(error: EngineError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let mut body = vec![paragraph(&shell::sentence(&self.words))];
        body.extend(self.hint.map(|hint| paragraph(&shell::sentence(&hint))));
        let title = match self.status {
            StatusCode::NOT_FOUND => ErrorCategory::NotFound.title(),
            StatusCode::SERVICE_UNAVAILABLE => ErrorCategory::Unavailable.title(),
            StatusCode::CONFLICT => ErrorCategory::Conflict.title(),
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => ErrorCategory::Forbidden.title(),
            StatusCode::PAYLOAD_TOO_LARGE => ErrorCategory::TooLarge.title(),
            StatusCode::TOO_MANY_REQUESTS => ErrorCategory::RateLimited.title(),
            StatusCode::INSUFFICIENT_STORAGE => ErrorCategory::OutOfStorage.title(),
            StatusCode::INTERNAL_SERVER_ERROR => ErrorCategory::Internal.title(),
            _ => ErrorCategory::Invalid.title(),
        };
        (self.status, Html(shell::frame("", title, &body))).into_response()
    }
}
