//! Tools that tell an agent at work whether its next step is worth it.

use satiety::progress::ProgressSignal;
use satiety_engine::progress::{AppendMessagesRequest, AppendedMessages};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            Spec {
                name: "report_step",
                title: "Report a step",
                about: "Report a tool call with its result and learn whether you make progress: CONTINUE, NUDGE (follow the sentence in `nudge`), STOP or ESCALATE (end, or ask a person). Call it after calls that fail or repeat, not after every read.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &["reason", "nudge"],
            },
            |call: Call, asked: StepArgs| async move { report(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "append_messages",
                title: "Append messages",
                about: "Append messages with tool calls and results (OpenAI, Anthropic or LangChain shape) to a run and learn whether its next step is worth it. For hosts that have the messages; agents use report_step.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &["reason", "nudge"],
            },
            |call: Call, asked: MessagesArgs| async move { append(&call, asked).await },
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepArgs {
    /// Id of your run, the same for all its steps.
    run_id: String,
    /// Name of the tool.
    tool: String,
    /// Arguments of the call.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Output of the tool; the last 2,000 characters are enough.
    result: String,
    /// Whether the call failed.
    error: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MessagesArgs {
    /// Id of the run, the same for all its messages.
    run_id: String,
    /// New messages in order.
    messages: Vec<Map<String, Value>>,
}

/// Verdict after the last complete step.
#[derive(Serialize, JsonSchema)]
struct ProgressView {
    signal: ProgressSignal,
    /// Reason in one sentence.
    reason: String,
    /// What to do differently.
    #[serde(skip_serializing_if = "Option::is_none")]
    nudge: Option<String>,
    /// Expected further steps without a new result.
    expected_waste: f64,
    /// Steps judged so far.
    steps: usize,
    /// Messages that were not understood.
    #[serde(skip_serializing_if = "is_zero")]
    skipped: usize,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde expects"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

async fn report(call: &Call, asked: StepArgs) -> Result<ProgressView, Problem> {
    let step = json!({"calls": [{
        "tool": asked.tool,
        "arguments": asked.arguments,
        "result": {"content": asked.result, "error": asked.error},
    }]});
    submit(call, asked.run_id, vec![step]).await
}

async fn append(call: &Call, asked: MessagesArgs) -> Result<ProgressView, Problem> {
    if asked.messages.is_empty() {
        return Err(Problem::new("`messages` is empty", "pass at least one message"));
    }
    let messages = asked.messages.into_iter().map(Value::Object).collect();
    submit(call, asked.run_id, messages).await
}

async fn submit(call: &Call, run_id: String, messages: Vec<Value>) -> Result<ProgressView, Problem> {
    let request = AppendMessagesRequest {
        conversation_id: run_id,
        messages,
    };
    let appended: AppendedMessages = call.engine().progress().append_messages(request).await?;
    Ok(ProgressView {
        signal: appended.signal,
        reason: appended.reason,
        nudge: appended.nudge,
        expected_waste: appended.expected_waste.steps,
        steps: appended.steps,
        skipped: appended.skipped.count,
    })
}
