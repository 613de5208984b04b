//! Prompts that a user can choose in a client: recall before a task, and close it afterwards. Memory texts
//! come as an embedded resource, separate from the instructions. Both end in a call of `task_postflight`, so they
//! are offered only with that tool.

use rmcp::ErrorData;
use rmcp::model::{GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use satiety_engine::memory::PreflightRequest;

use super::call::Call;
use super::registry::Registry;

const RECALL: &str = include_str!("prompts/recall_before_task.md");
const CLOSE: &str = include_str!("prompts/close_task.md");

/// Tool that both prompts tell the model to call.
const CLOSING_TOOL: &str = "task_postflight";

pub(super) fn list(registry: &Registry) -> Vec<Prompt> {
    if registry.get(CLOSING_TOOL).is_none() {
        return Vec::new();
    }
    vec![
        Prompt::new(
            "recall_before_task",
            Some("Start a task with what memory knows about it"),
            Some(vec![
                PromptArgument::new("task")
                    .with_description("Description of the task")
                    .with_required(true),
                PromptArgument::new("folder")
                    .with_description("Folder of the task")
                    .with_required(false),
            ]),
        )
        .with_title("Recall before a task"),
        Prompt::new(
            "close_task",
            Some("Close the task: record what helped and what was learned"),
            Some(vec![
                PromptArgument::new("outcome")
                    .with_description("Outcome: success, partial, failure or abandoned")
                    .with_required(false),
            ]),
        )
        .with_title("Close a task"),
    ]
}

pub(super) async fn get(
    call: &Call,
    registry: &Registry,
    request: &GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    if registry.get(CLOSING_TOOL).is_none() {
        return Err(ErrorData::invalid_params(
            format!(
                "unknown prompt `{}` (prompts need the tool `{CLOSING_TOOL}`, which profile `memory` offers)",
                request.name
            ),
            None,
        ));
    }
    let argument = |name: &str| {
        let value = request
            .arguments
            .as_ref()
            .and_then(|arguments| arguments.get(name));
        value
            .and_then(|value| value.as_str())
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    match request.name.as_str() {
        "recall_before_task" => {
            let task = argument("task").ok_or_else(|| {
                ErrorData::invalid_params("missing argument `task` of prompt `recall_before_task`", None)
            })?;
            let begun = call
                .engine()
                .memory()
                .task_preflight(PreflightRequest {
                    task: task.to_owned(),
                    folder: argument("folder").map(str::to_owned),
                    session: call.session.clone(),
                    ..PreflightRequest::default()
                })
                .await
                .map_err(|error| ErrorData::internal_error(call.redact(error.into()).to_string(), None))?;
            let known = serde_json::to_string_pretty(&begun.context.results)
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            let text = RECALL
                .trim()
                .replace("{task}", task)
                .replace("{task_id}", &begun.task_id);
            Ok(GetPromptResult::new(vec![
                PromptMessage::new_text(Role::User, text),
                PromptMessage::new_resource(
                    Role::User,
                    format!("satiety://sessions/{}", begun.session_id),
                    Some("application/json".into()),
                    Some(known),
                    None,
                    None,
                    None,
                ),
            ]))
        }
        "close_task" => {
            let outcome = argument("outcome").unwrap_or("as it went");
            let text = CLOSE.trim().replace("{outcome}", outcome);
            Ok(GetPromptResult::new(vec![PromptMessage::new_text(
                Role::User,
                text,
            )]))
        }
        other => Err(ErrorData::invalid_params(
            format!("unknown prompt `{other}` (expected one of: recall_before_task, close_task)"),
            None,
        )),
    }
}
