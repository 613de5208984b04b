//! Operations on agents at work: is the next step still worth it?

use satiety::trajectory::LogFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::page::no_cursor;
use super::{Call, Effect, IdRequest, Operation};
use crate::EngineError;
use crate::annotations::LabelAgentRunRequest;
use crate::progress::{AppendMessagesRequest, JudgeLogRequest, JudgedLog, ReceiveTracesRequest, RunSummary};
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "judge_progress",
            "Judge the runs of an agent's log without storing it: CONTINUE, NUDGE, SHIP, STOP or ESCALATE for each step",
            Scope::Read,
            Effect::Compute,
            judge,
        ),
        Operation::new(
            "append_messages",
            "Append messages of an agent to a run and return the verdict: is the next step worth it?",
            Scope::Write,
            Effect::Write,
            |call: Call, request: AppendMessagesRequest| async move {
                call.engine.progress().append_messages(request).await
            },
        ),
        Operation::new(
            "receive_traces",
            "Receive OpenTelemetry spans (OTLP) and append those of agents to the runs of their conversations",
            Scope::Write,
            Effect::Write,
            |call: Call, request: ReceiveTracesRequest| async move {
                call.engine.progress().receive_traces(request).await
            },
        ),
        Operation::new(
            "list_agent_runs",
            "List stored runs of agents, latest first",
            Scope::Read,
            Effect::Read,
            list,
        ),
        Operation::new(
            "get_agent_run",
            "Get a stored run of an agent with the verdict after each step",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.progress().run(&request.id).await },
        ),
        Operation::new(
            "list_agent_run_labels",
            "List the labels of people on a run of an agent",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.progress().run_labels(&request.id).await },
        ),
        Operation::new(
            "label_agent_run",
            "Label whether an agent solved its task and where it looped, or remove the label",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: LabelAgentRunRequest| async move {
                call.engine.progress().label_run(request).await
            },
        ),
    ]
}

/// Log of an agent to judge without storing it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProgressBody")]
struct JudgeProgressRequest {
    /// Messages with tool calls and results in order, or a whole log in one of the supported formats.
    #[schemars(with = "LogShape")]
    log: Value,
    /// Format of the log; detected if absent.
    #[serde(default)]
    format: Option<LogFormat>,
}

/// Shapes of a log: a list of records, or one document.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum LogShape {
    /// Messages, events or steps in order.
    Records(#[schemars(length(min = 1))] Vec<serde_json::Map<String, Value>>),
    /// A document of an agent or framework.
    Document(serde_json::Map<String, Value>),
}

async fn judge(call: Call, request: JudgeProgressRequest) -> Result<JudgedLog, EngineError> {
    call.engine
        .progress()
        .judge_log(JudgeLogRequest {
            name: "log".into(),
            bytes: request.log.to_string().into_bytes(),
            format: request.format,
            profile: None,
        })
        .await
}

/// Page of a list of runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AgentRunPageRequest {
    /// `next_cursor` of the previous page.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,18}\\.[A-Za-z0-9_.:-]{1,128}$"))]
    cursor: Option<String>,
    /// Maximum number of runs per page; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

/// Page of stored runs.
#[derive(Debug, Serialize, JsonSchema)]
struct AgentRunPage {
    /// Stored runs, latest first.
    runs: Vec<RunSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn list(call: Call, request: AgentRunPageRequest) -> Result<AgentRunPage, EngineError> {
    let before = match &request.cursor {
        None => None,
        Some(cursor) => {
            let (at, id) = cursor.split_once('.').ok_or_else(no_cursor)?;
            Some((at.parse().map_err(|_| no_cursor())?, id.to_owned()))
        }
    };
    let list = call
        .engine
        .progress()
        .runs(before, request.limit.unwrap_or(50))
        .await?;
    Ok(AgentRunPage {
        runs: list.runs,
        next_cursor: list.next.map(|(at, id)| format!("{at}.{id}")),
    })
}
