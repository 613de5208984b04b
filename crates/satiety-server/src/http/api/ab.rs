//! Changes of the memory's search that are being tried. Nothing here is a way around the checklist: a feature graduates when
//! all of it holds, measured at that moment, whoever asks.

use axum::http::Method;
use satiety::experiment::Feature;
use satiety_engine::ab::{AbChanged, AbChecked, AbFeatures, AbStatus, StartRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use super::ById;
use crate::auth::Scope;
use crate::http::body::{Json, NoBody};
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Route, change, get};

pub(super) fn routes() -> Vec<Route> {
    let mut routes = vec![
        get(
            "/v1/ab",
            "list_features",
            "All features, and the pipeline that answers",
            list,
        ),
        get(
            "/v1/ab/{id}",
            "get_feature",
            "Where a feature stands: its test, its shadow runs, the checklist",
            show,
        ),
    ];
    let changes = [
        change(
            Method::POST,
            "/v1/ab",
            "start_feature",
            "Starts trying a change of the search",
            start,
        )
        .status(201),
        change(
            Method::POST,
            "/v1/ab/{id}/rollout",
            "rollout_feature",
            "Changes who gets it for real, and how many queries are run in the shadow",
            rollout,
        ),
        change(
            Method::POST,
            "/v1/ab/{id}/pause",
            "pause_feature",
            "Stops dealing and comparing, until it is resumed",
            pause,
        ),
        change(
            Method::POST,
            "/v1/ab/{id}/resume",
            "resume_feature",
            "Goes on where the test stood",
            resume,
        ),
        change(
            Method::POST,
            "/v1/ab/{id}/check",
            "check_feature",
            "Measures both pipelines on the stored corpus, and goes through the checklist",
            check,
        ),
        change(
            Method::POST,
            "/v1/ab/{id}/graduate",
            "graduate_feature",
            "Makes it the default of all searches, if the whole checklist allows it; the answer says whether it did",
            graduate,
        ),
        change(
            Method::POST,
            "/v1/ab/{id}/rollback",
            "rollback_feature",
            "Takes back one that had graduated; its record stays and it can be resumed",
            rollback,
        ),
        change(
            Method::POST,
            "/v1/ab/{id}/reject",
            "reject_feature",
            "Ends it for good; one that had graduated is taken back",
            reject,
        ),
    ];
    // What is changed here changes the answers that everybody gets.
    routes.extend(changes.map(|route| route.scope(Scope::Admin)));
    routes
}

async fn list(call: Call<Nothing, Nothing, NoBody>) -> Result<AbFeatures, Problem> {
    Ok(call.app.engine.ab_list().await?)
}

async fn show(call: Call<ById, Nothing, NoBody>) -> Result<AbStatus, Problem> {
    Ok(call.app.engine.ab_status(&call.path.id).await?)
}

async fn start(call: Call<Nothing, Nothing, Json<Feature>>) -> Result<AbChanged, Problem> {
    let Json(feature) = call.body;
    Ok(call.app.engine.ab_start(StartRequest { feature }).await?)
}

/// Who gets a feature from now on.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RolloutBody {
    /// Percent of sessions that get it for real; as before where absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 100.0))]
    rollout_percent: Option<f64>,
    /// Percent of queries that are run in the shadow; as before where absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 100.0))]
    shadow_percent: Option<f64>,
}

async fn rollout(call: Call<ById, Nothing, Json<RolloutBody>>) -> Result<AbChanged, Problem> {
    let Json(body) = call.body;
    let engine = &call.app.engine;
    Ok(engine
        .ab_rollout(&call.path.id, body.rollout_percent, body.shadow_percent)
        .await?)
}

/// Why something is done.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Why {
    /// For the record.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    reason: Option<String>,
}

impl Why {
    fn reason(self) -> Result<Option<String>, Problem> {
        if self
            .reason
            .as_ref()
            .is_some_and(|reason| reason.chars().count() > 1000)
        {
            return Err(Problem::unprocessable("a reason has at most 1000 letters").at("reason"));
        }
        Ok(self.reason)
    }
}

async fn pause(call: Call<ById, Nothing, Json<Why>>) -> Result<AbChanged, Problem> {
    let reason = call.body.0.reason()?;
    Ok(call.app.engine.ab_pause(&call.path.id, reason).await?)
}

async fn resume(call: Call<ById, Nothing, Json<Why>>) -> Result<AbChanged, Problem> {
    let reason = call.body.0.reason()?;
    Ok(call.app.engine.ab_resume(&call.path.id, reason).await?)
}

async fn check(call: Call<ById, Nothing, NoBody>) -> Result<AbChecked, Problem> {
    Ok(call.app.engine.ab_check(&call.path.id).await?)
}

async fn graduate(call: Call<ById, Nothing, Json<Why>>) -> Result<AbChecked, Problem> {
    let reason = call.body.0.reason()?;
    Ok(call.app.engine.ab_graduate(&call.path.id, reason).await?)
}

async fn rollback(call: Call<ById, Nothing, Json<Why>>) -> Result<AbChanged, Problem> {
    let reason = call.body.0.reason()?;
    Ok(call.app.engine.ab_rollback(&call.path.id, reason).await?)
}

async fn reject(call: Call<ById, Nothing, Json<Why>>) -> Result<AbChanged, Problem> {
    let reason = call.body.0.reason()?;
    Ok(call.app.engine.ab_reject(&call.path.id, reason).await?)
}
