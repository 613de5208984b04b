//! Messages and events of AutoGen AgentChat 0.4 and later: a list, lines, a task result with `messages`, or a
//! saved `message_thread`.

use serde_json::Value;

use super::autogen::{executed_code, is_user};
use super::chat::{tokens, tool_result};
use super::value::{content_text, describe, string, time};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::{CallResult, Step};

/// Whether the records are messages of AgentChat, or documents with them.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| match messages_of(record) {
        Some(messages) => messages.iter().take(super::DETECTION_RECORDS).any(is_message),
        None => is_message(record),
    })
}

fn messages_of(value: &Value) -> Option<&Vec<Value>> {
    ["messages", "message_thread"]
        .iter()
        .find_map(|key| value.get(key)?.as_array())
}

fn is_message(value: &Value) -> bool {
    value.get("content").is_some()
        && string(value, "type").is_some_and(|kind| {
            matches!(
                kind,
                "TextMessage"
                    | "MultiModalMessage"
                    | "StopMessage"
                    | "HandoffMessage"
                    | "ToolCallRequestEvent"
                    | "ToolCallExecutionEvent"
                    | "ToolCallSummaryMessage"
                    | "ThoughtEvent"
                    | "CodeGenerationEvent"
                    | "FunctionExecutionResultMessage"
            )
        })
}

/// Reader of AgentChat messages.
pub(super) struct Agentchat;

impl Reader for Agentchat {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        match messages_of(value) {
            Some(messages) => {
                out.builder.id(string(value, "id"));
                for value in messages {
                    message(value, line, out);
                }
            }
            None if value.get("type").is_some() => message(value, line, out),
            // The last element of a stream is the task result, whose messages came before.
            None if value.get("stop_reason").is_some() => {}
            None => out.skip(line, format!("unknown message: {}", describe(value))),
        }
        out.outcome(None, string(value, "stop_reason"));
    }
}

fn message(message: &Value, line: usize, out: &mut Output) {
    let kind = string(message, "type").unwrap_or_default();
    let source = string(message, "source").unwrap_or_default();
    let list = |key: &str| message.get(key).and_then(Value::as_array).into_iter().flatten();
    let text = || message.get("content").map(content_text).unwrap_or_default();
    match kind {
        "ToolCallRequestEvent" => {
            begin(source, message, out);
            list("content").for_each(|call| add_call(call, out));
        }
        "ToolCallExecutionEvent" | "FunctionExecutionResultMessage" => {
            list("content").for_each(|result| tool_result(result, out));
        }
        // Both repeat what the call and its result said, unless those events were not recorded.
        "ToolCallSummaryMessage" | "HandoffMessage" if is_continued(source, out) => {}
        "ToolCallSummaryMessage" if list("tool_calls").next().is_some() => {
            begin(source, message, out);
            list("tool_calls").for_each(|call| add_call(call, out));
            list("results").for_each(|result| tool_result(result, out));
        }
        "CodeGenerationEvent" => {
            begin(source, message, out);
            out.builder.text(&text());
            for block in list("code_blocks") {
                let tool = string(block, "language").unwrap_or("python");
                out.builder
                    .call(None, tool, block.get("code").cloned().unwrap_or_default());
            }
        }
        "CodeExecutionEvent" => {
            let result = message.get("result").unwrap_or(&Value::Null);
            let exit_code = result.get("exit_code").and_then(Value::as_i64);
            let result = CallResult {
                content: result.get("output").map(content_text).unwrap_or_default(),
                error: exit_code.map(|code| code != 0),
                exit_code,
            };
            out.builder.result(None, result);
        }
        "StopMessage" if !has_spoken(source, out) => out.outcome(None, Some(&text())),
        "AssistantMessage" if message.get("content").is_some_and(Value::is_array) => {
            begin(source, message, out);
            list("content").for_each(|call| add_call(call, out));
        }
        "TextMessage"
        | "MultiModalMessage"
        | "StructuredMessage"
        | "StopMessage"
        | "HandoffMessage"
        | "ToolCallSummaryMessage"
        | "AssistantMessage" => {
            let text = text();
            if is_user(source) {
                out.builder.reply(None, &text);
            } else if !executed_code(source, &text, out) {
                begin(source, message, out);
                out.builder.text(&text);
                let step = out.builder.turn(None, TurnStart::Continue);
                step.finish |= kind == "StopMessage" || text.trim_end().ends_with("TERMINATE");
            }
        }
        "UserMessage" => out.builder.reply(Some(source), &text()),
        "ThoughtEvent"
        | "SystemMessage"
        | "UserInputRequestedEvent"
        | "MemoryQueryEvent"
        | "ModelClientStreamingChunkEvent"
        | "SelectSpeakerEvent"
        | "SelectorEvent"
        | "GroupChatStart"
        | "GroupChatReset" => {}
        // Structured messages of applications have their own type names.
        _ if message.get("content").is_some()
            && !source.is_empty()
            && kind.starts_with("StructuredMessage") =>
        {
            begin(source, message, out);
            out.builder.text(&text());
        }
        _ => out.skip(line, format!("unknown message: {}", describe(message))),
    }
}

fn begin(source: &str, message: &Value, out: &mut Output) {
    let step = out.builder.turn(Some(source), TurnStart::New);
    step.time = step.time.or_else(|| time(message.get("created_at")?));
    step.usage.tokens = message.get("models_usage").and_then(tokens);
}

fn add_call(call: &Value, out: &mut Output) {
    let arguments = call.get("arguments").cloned().unwrap_or_default();
    let tool = string(call, "name").unwrap_or_default();
    out.builder.call(string(call, "id"), tool, arguments);
}

/// Whether the latest step is one of `source` that called tools.
fn is_continued(source: &str, out: &mut Output) -> bool {
    let steps = &out.builder.trajectory_mut().steps;
    steps
        .last()
        .is_some_and(|step| step.has_calls() && is_by(step, source))
}

/// Whether one of the latest steps is by `source`: termination conditions send messages, too.
fn has_spoken(source: &str, out: &mut Output) -> bool {
    let steps = &out.builder.trajectory_mut().steps;
    steps.iter().rev().take(SPEAKERS).any(|step| is_by(step, source))
}

fn is_by(step: &Step, source: &str) -> bool {
    step.agent.as_deref() == Some(source)
}

/// Number of steps among which a speaker is searched.
const SPEAKERS: usize = 32;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::trajectory::{Log, LogFormat, ReadOptions, read};

    fn read(file: &Value) -> Log {
        let log = read::read(file.to_string().as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::AutogenAgentchat);
        log
    }

    #[test]
    fn a_task_result_has_calls_with_results() {
        let log = read(&json!({"stop_reason": "Text 'TERMINATE' mentioned", "messages": [
            {"type": "TextMessage", "source": "user", "content": "Find the price."},
            {"type": "SelectSpeakerEvent", "source": "manager", "content": ["buyer"]},
            {"type": "ToolCallRequestEvent", "source": "buyer", "content": [
                {"id": "c1", "name": "search", "arguments": "{\"q\": \"price\"}"}],
             "models_usage": {"prompt_tokens": 3, "completion_tokens": 4}, "created_at": "2025-06-01T10:00:00Z"},
            {"type": "ToolCallExecutionEvent", "source": "buyer", "content": [
                {"call_id": "c1", "name": "search", "content": "not found", "is_error": true}]},
            {"type": "ToolCallSummaryMessage", "source": "buyer", "content": "not found"},
            {"type": "NewMessage", "odd": true},
            {"type": "ToolCallSummaryMessage", "source": "seller", "content": "9", "tool_calls": [
                {"id": "c2", "name": "price", "arguments": "{}"}], "results": [{"call_id": "c2", "name": "price", "content": "9"}]},
            {"type": "TextMessage", "source": "buyer", "content": "It is 9. TERMINATE"}
        ]}));
        assert_eq!(log.skipped.count, 1);
        let run = &log.trajectories[0];
        assert_eq!(run.task.as_deref(), Some("Find the price."));
        assert_eq!(run.steps.len(), 3);
        assert_eq!(run.steps[0].agent.as_deref(), Some("buyer"));
        assert_eq!(run.steps[0].usage.tokens, Some(7));
        assert!(run.steps[0].time.is_some());
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().error, Some(true));
        assert_eq!(run.steps[1].calls[0].result.as_ref().unwrap().content, "9");
        assert!(run.steps[2].finish);
        assert!(
            run.outcome
                .as_ref()
                .unwrap()
                .exit
                .as_deref()
                .unwrap()
                .contains("TERMINATE")
        );
    }

    #[test]
    fn generated_code_has_the_result_of_its_execution() {
        let log = read(&json!([
            {"type": "TextMessage", "source": "user", "content": "Compute."},
            {"type": "CodeGenerationEvent", "source": "coder", "retry_attempt": 0, "content": "Run this.",
             "code_blocks": [{"code": "print(1/0)", "language": "python"}]},
            {"type": "CodeExecutionEvent", "source": "coder", "retry_attempt": 0, "result": {"exit_code": 1, "output": "ZeroDivisionError"}},
            {"type": "StopMessage", "source": "MaxMessageTermination", "content": "Maximum number of messages 3 reached"}
        ]));
        let run = &log.trajectories[0];
        assert_eq!(run.steps.len(), 1);
        let result = run.steps[0].calls[0].result.as_ref().unwrap();
        assert_eq!((result.exit_code, result.error), (Some(1), Some(true)));
        assert!(
            run.outcome
                .as_ref()
                .unwrap()
                .exit
                .as_deref()
                .unwrap()
                .starts_with("Maximum")
        );
    }
}
