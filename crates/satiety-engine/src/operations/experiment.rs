//! Operations on experimental features of the memory search. None bypasses the checklist: a feature graduates
//! only when every check passes at that moment, regardless of the caller.

use satiety::experiment::Feature;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::experiment::{ProposeRequest, StartRequest};
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    // These changes affect the search results of every caller.
    let change = (Scope::Admin, Effect::Write);
    vec![
        Operation::new(
            "list_features",
            "List all features and the active search pipeline",
            Scope::Read,
            Effect::Read,
            |call: Call, _: NoFields| async move { call.engine.experiments().list().await },
        ),
        Operation::new(
            "get_feature",
            "Get the test, shadow runs and checklist of a feature",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.experiments().status(&request.id).await },
        ),
        Operation::new(
            "start_feature",
            "Start an experiment with a change to the search",
            change.0,
            change.1,
            |call: Call, feature: Feature| async move {
                call.engine.experiments().start(StartRequest { feature }).await
            },
        ),
        Operation::new(
            "propose_weights",
            "Propose channel weights from judged queries, and start them as a feature if a name is given",
            change.0,
            change.1,
            |call: Call, request: ProposeRequest| async move { call.engine.experiments().propose(request).await },
        ),
        Operation::new(
            "rollout_feature",
            "Change the rollout and shadow percentages of a feature",
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
            "Pause a feature: stop assignment and comparison until it is resumed",
            change.0,
            change.1,
            |call: Call, request: DecisionRequest| async move {
                call.engine.experiments().pause(&request.id, request.reason).await
            },
        ),
        Operation::new(
            "resume_feature",
            "Resume a paused feature",
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
            "Measure both pipelines on the stored corpus and evaluate the checklist",
            change.0,
            change.1,
            |call: Call, request: IdRequest| async move { call.engine.experiments().check(&request.id).await },
        ),
        Operation::new(
            "graduate_feature",
            "Make a feature the default of all searches if the checklist passes; the response says whether it did",
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
            "Roll back a graduated feature; its record is kept and it can be resumed",
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
            "Reject a feature permanently; a graduated feature is rolled back",
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

/// Rollout of a feature from now on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RolloutBody")]
struct RolloutRequest {
    /// Id of the feature.
    #[schemars(length(min = 1, max = 256))]
    id: String,
    /// Percentage of sessions that get the feature; unchanged when absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 100.0))]
    rollout_percent: Option<f64>,
    /// Percentage of queries that also run in shadow mode; unchanged when absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 100.0))]
    shadow_percent: Option<f64>,
}

/// Decision on a feature, with its reason.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Why")]
struct DecisionRequest {
    /// Id of the feature.
    #[schemars(length(min = 1, max = 256))]
    id: String,
    /// Reason to keep in the record.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    reason: Option<String>,
}
