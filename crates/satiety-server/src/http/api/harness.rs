//! The eval harness: where it stands, its cycles, its history. Approving is for a person with a key, at a terminal.

use axum::http::Method;
use satiety_engine::harness::{HarnessStatus, History, RecordCycleRequest, RecordedCycle};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::auth::Scope;
use crate::http::app::App;
use crate::http::body::{Json, NoBody};
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Parameters, Route, change, get};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/harness",
            "harness_status",
            "Where the eval harness stands",
            status,
        ),
        get(
            "/v1/harness/history",
            "harness_history",
            "What happened to it, oldest first",
            history,
        ),
        change(
            Method::POST,
            "/v1/harness/cycles",
            "record_cycle",
            "Records a cycle from the runs in the store; weaker files are refused",
            record,
        )
        .status(201)
        .scope(Scope::Admin),
    ]
}

fn discreet(app: &App, error: satiety_engine::EngineError) -> Problem {
    let mut problem = app.discreet(error);
    let folder = app.folders.harness.display().to_string();
    if !folder.is_empty() && folder != "." {
        problem.detail = problem.detail.replace(&folder, "the harness").into();
    }
    problem
}

async fn status(call: Call<Nothing, Nothing, NoBody>) -> Result<HarnessStatus, Problem> {
    let folders = &call.app.folders;
    let status = call
        .app
        .engine
        .harness_status(&folders.harness, folders.driver)
        .await;
    let mut status = status.map_err(|error| discreet(&call.app, error))?;
    // Where it is concerns who runs the server.
    status.folder = "harness".into();
    Ok(status)
}

/// How far back.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct HowMany {
    /// How many at most; 50 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

impl Parameters for HowMany {}

async fn history(call: Call<Nothing, HowMany, NoBody>) -> Result<History, Problem> {
    let limit = usize::try_from(super::limit(call.query.limit)?).unwrap_or(usize::MAX);
    Ok(call
        .app
        .engine
        .harness_history(&call.app.folders.harness, limit)
        .await?)
}

/// A cycle to be recorded.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CycleBody {
    /// Its name; made where none is given.
    #[serde(default)]
    cycle_id: Option<String>,
}

async fn record(call: Call<Nothing, Nothing, Json<CycleBody>>) -> Result<RecordedCycle, Problem> {
    let Json(body) = call.body;
    let folders = &call.app.folders;
    let request = RecordCycleRequest {
        folder: folders.harness.clone(),
        metrics: None,
        cycle_id: body.cycle_id,
        driver: folders.driver,
        new_history: None,
    };
    let recorded = call.app.engine.harness_record(request).await;
    let recorded = recorded.map_err(|error| discreet(&call.app, error))?;
    recorded.log_warnings();
    Ok(recorded)
}
