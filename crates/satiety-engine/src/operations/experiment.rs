//! Operations on features of the memory's search that are being tried. None goes around the checklist: a feature graduates
//! when all of it holds, measured at that moment, whoever asks.

use satiety::experiment::Feature;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::experiment::StartRequest;
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    // What is changed here changes the answers that every caller gets.
    let change = (Scope::Admin, Effect::Write);
    vec![
        Operation::new(
            "list_features",
            "List all features, and the pipeline that answers",
            Scope::Read,
            Effect::Read,
            |call: Call, _: NoFields| async move { call.engine.experiments().list().await },
        ),
        Operation::new(
            "get_feature",
            "Get a feature's test, shadow runs and checklist",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.experiments().status(&request.id).await },
        ),
        Operation::new(
            "start_feature",
            "Start trying a change of the search",
            change.0,
            change.1,
            |call: Call, feature: Feature| async move {
                call.engine.experiments().start(StartRequest { feature }).await
            },
        ),
        Operation::new(
            "rollout_feature",
            "Change who gets a feature, and how many queries run in the shadow",
            change.0,
            change.1,
            |call: Call, request: RolloutRequest| async move {
                let (rollout, shadow) = (request.rollout_percent, request.shadow_percent);
                call.engine
                    .experiments()
                    .rollout(&request.id, rollout, shadow)
                    .await
            },
        ),
        Operation::new(
            "pause_feature",
            "Stop assigning and comparing until the feature is resumed",
            change.0,
            change.1,
            |call: Call, request: DecisionRequest| async move {
                call.engine.experiments().pause(&request.id, request.reason).await
            },
        ),
        Operation::new(
            "resume_feature",
            "Continue a paused test where it stopped",
            change.0,
            change.1,
            |call: Call, request: DecisionRequest| async move {
                call.engine
                    .experiments()
                    .resume(&request.id, request.reason)
                    .await
            },
        ),
        Operation::new(
            "check_feature",
            "Measure both pipelines on the stored corpus and go through the checklist",
            change.0,
            change.1,
            |call: Call, request: IdRequest| async move { call.engine.experiments().check(&request.id).await },
        ),
        Operation::new(
            "graduate_feature",
            "Make a feature the default of all searches if the whole checklist allows it; the answer says whether it did",
            change.0,
            change.1,
            |call: Call, request: DecisionRequest| async move {
                call.engine
                    .experiments()
                    .graduate(&request.id, request.reason)
                    .await
            },
        ),
        Operation::new(
            "rollback_feature",
            "Take back a feature that had graduated; its record stays and it can be resumed",
            change.0,
            change.1,
            |call: Call, request: DecisionRequest| async move {
                call.engine
                    .experiments()
                    .rollback(&request.id, request.reason)
                    .await
            },
        ),
        Operation::new(
            "reject_feature",
            "End a feature for good; one that had graduated is taken back",
            change.0,
            change.1,
            |call: Call, request: DecisionRequest| async move {
                call.engine
                    .experiments()
                    .reject(&request.id, request.reason)
                    .await
            },
        ),
    ]
}

/// Who gets a feature from now on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RolloutBody")]
struct RolloutRequest {
    /// The feature's id.
    #[schemars(length(min = 1, max = 256))]
    id: String,
    /// Percent of sessions that get it; unchanged where absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 100.0))]
    rollout_percent: Option<f64>,
    /// Percent of queries that run in the shadow; unchanged where absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 100.0))]
    shadow_percent: Option<f64>,
}

/// A decision about a feature, with its reason.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Why")]
struct DecisionRequest {
    /// The feature's id.
    #[schemars(length(min = 1, max = 256))]
    id: String,
    /// For the record.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    reason: Option<String>,
}
