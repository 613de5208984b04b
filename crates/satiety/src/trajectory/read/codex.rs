//! Rollouts of Codex CLI: `session_meta`, `response_item`, `event_msg` and others, each with a `payload`; items
//! without an envelope in older versions; and the events of `codex exec --json`.

use jiff::Timestamp;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::value::{content_text, describe, first_string, string, time};
use super::{Output, Reader, chat, responses};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::{CallResult, PlanItem, RunOutcome};

/// Whether a record is an envelope, an event of `codex exec`, or the header of an older rollout.
pub(super) fn detect(first: &[&Value]) -> bool {
    let envelope = first.iter().any(|record| match string(record, "type") {
        Some("session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted") => {
            record.get("payload").is_some_and(Value::is_object)
        }
        Some("thread.started" | "turn.started") => true,
        Some("item.started" | "item.completed") => record.get("item").is_some_and(Value::is_object),
        _ => false,
    });
    envelope || {
        let header = first
            .iter()
            .any(|record| is_header(record) || string(record, "record_type") == Some("state"));
        header && first.iter().any(|record| responses::is_specific_item(record))
    }
}

/// The first line of an older rollout.
fn is_header(record: &Value) -> bool {
    ["id", "timestamp"]
        .iter()
        .all(|key| string(record, key).is_some())
        && ["type", "role"].iter().all(|key| record.get(key).is_none())
        && ["instructions", "git", "cwd"]
            .iter()
            .any(|key| record.get(key).is_some())
}

/// Beginnings of user messages that the program writes itself.
const CONTEXT_MESSAGES: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<skill>",
    "<skills_instructions>",
    "<turn_aborted>",
    "<subagent_notification>",
];

/// Reader of rollouts.
#[derive(Debug, Default)]
pub(super) struct Codex {
    /// Exit codes of commands whose output has not arrived yet, by call.
    exit_codes: FxHashMap<String, i64>,
    /// Total tokens of the session at the last count; counts are repeated.
    total_tokens: Option<u64>,
    /// Whether the last turn ended with an answer.
    ended: bool,
}

impl Reader for Codex {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let at = value.get("timestamp").and_then(time);
        let payload = value.get("payload").filter(|payload| payload.is_object());
        match (string(value, "type"), payload) {
            (Some("session_meta"), Some(payload)) => {
                out.builder.id(first_string(payload, &["id", "session_id"]));
            }
            (Some("response_item"), Some(payload)) => self.item(payload, at, line, out),
            (Some("event_msg"), Some(payload)) => self.event(payload, out),
            (Some("compacted"), _) => out.builder.compacted(),
            (
                Some(
                    "turn_context"
                    | "world_state"
                    | "session_state"
                    | "inter_agent_message"
                    | "turn.started"
                    | "error",
                ),
                _,
            ) => {}
            (Some("thread.started"), _) => out.builder.id(string(value, "thread_id")),
            (Some("item.started" | "item.updated" | "item.completed"), None) => {
                self.exec_item(value, line, out);
            }
            (Some("turn.completed"), None) => {
                out.builder.end_turn();
                self.ended = true;
                if !out.builder.is_empty()
                    && let Some(tokens) = value.get("usage").and_then(chat::tokens)
                    && let Some(step) = out.builder.trajectory_mut().steps.last_mut()
                {
                    step.usage.tokens = Some(tokens);
                }
            }
            (Some("turn.failed"), None) => {
                out.builder.end_turn();
                set_exit(out, "failed");
            }
            (_, None) if is_header(value) => out.builder.id(string(value, "id")),
            (None, None) if value.get("record_type").is_some() => {}
            (_, None) if responses::is_item(value) => self.item(value, at, line, out),
            (Some(kind), _) => out.skip(line, format!("unknown record type {kind}")),
            (None, _) => out.skip(line, format!("unknown record: {}", describe(value))),
        }
    }

    fn end(&mut self, out: &mut Output) {
        if self.ended
            && let Some(last) = out.builder.trajectory_mut().steps.last_mut()
        {
            last.finish |= last.calls.is_empty();
        }
    }

    fn splits_turns(&self) -> bool {
        true
    }
}

impl Codex {
    fn item(&mut self, item: &Value, at: Option<Timestamp>, line: usize, out: &mut Output) {
        self.ended = false;
        if string(item, "role") == Some("user") {
            let text = item.get("content").map(content_text).unwrap_or_default();
            let text = text.trim_start();
            if !CONTEXT_MESSAGES.iter().any(|begin| text.starts_with(begin)) {
                out.builder.reply(None, text);
            }
            return;
        }
        responses::item(item, at, line, out);
        if let Some(call) = string(item, "call_id")
            && let Some(code) = self.exit_codes.remove(call)
        {
            set_exit_code(out, call, code);
        }
    }

    /// Adds an event: tokens, exit codes and ends of turns. The others repeat items or describe progress.
    fn event(&mut self, event: &Value, out: &mut Output) {
        match string(event, "type") {
            Some("token_count") => {
                let info = event.get("info").unwrap_or(&Value::Null);
                let total = info.get("total_token_usage").and_then(chat::tokens);
                let last = info.get("last_token_usage").and_then(chat::tokens);
                if (total.is_none() || total != self.total_tokens)
                    && let Some(tokens) = last
                    && let Some(step) = out.builder.trajectory_mut().steps.last_mut()
                {
                    step.usage.tokens = Some(step.usage.tokens.unwrap_or(0).saturating_add(tokens));
                }
                self.total_tokens = total.or(self.total_tokens);
            }
            // Repeats an item, except in rollouts of some versions without it.
            Some("user_message") if out.builder.is_empty() => {
                out.builder.task(string(event, "message").unwrap_or_default());
            }
            Some("exec_command_end") => {
                if let Some(call) = string(event, "call_id")
                    && let Some(code) = event.get("exit_code").and_then(Value::as_i64)
                    && !set_exit_code(out, call, code)
                {
                    self.exit_codes.insert(call.to_owned(), code);
                }
            }
            Some("task_complete" | "turn_complete") => {
                self.ended = true;
                out.builder.end_turn();
            }
            Some("turn_aborted") => {
                out.builder.end_turn();
                set_exit(out, string(event, "reason").unwrap_or("interrupted"));
            }
            _ => {}
        }
    }

    /// Adds an item of `codex exec --json`, which is repeated when it changes.
    fn exec_item(&mut self, event: &Value, line: usize, out: &mut Output) {
        let item = event.get("item").unwrap_or(&Value::Null);
        let completed = string(event, "type") == Some("item.completed");
        let id = string(item, "id");
        let get = |key: &str| item.get(key).cloned().unwrap_or_default();
        self.ended = false;
        match string(item, "type").or_else(|| string(item, "item_type")) {
            Some("agent_message" | "assistant_message") => {
                if completed {
                    out.builder.turn(None, TurnStart::AfterAnswer);
                    out.builder.text(string(item, "text").unwrap_or_default());
                }
            }
            Some("command_execution") => {
                begin_call(out, id, "shell", || json!({ "command": get("command") }));
                if completed {
                    let result = CallResult {
                        content: string(item, "aggregated_output").unwrap_or_default().to_owned(),
                        error: Some(string(item, "status") == Some("failed")),
                        exit_code: item.get("exit_code").and_then(Value::as_i64),
                    };
                    out.builder.result(id, result);
                }
            }
            Some("file_change") => {
                begin_call(out, id, "apply_patch", || patch(item));
                if completed {
                    let result = CallResult {
                        error: Some(string(item, "status") == Some("failed")),
                        ..CallResult::default()
                    };
                    out.builder.result(id, result);
                }
            }
            Some("mcp_tool_call") => {
                begin_call(out, id, string(item, "tool").unwrap_or_default(), || {
                    get("arguments")
                });
                if completed {
                    let error = item.get("error").filter(|error| !error.is_null());
                    let content = error
                        .and_then(|error| error.get("message"))
                        .or_else(|| item.get("result")?.get("content"));
                    let result = CallResult {
                        content: content.map(content_text).unwrap_or_default(),
                        error: Some(error.is_some()),
                        exit_code: None,
                    };
                    out.builder.result(id, result);
                }
            }
            Some("web_search") => {
                begin_call(out, id, "web_search", || json!({ "query": get("query") }));
                if completed {
                    out.builder.result(id, CallResult::default());
                }
            }
            Some("todo_list") => {
                let items = item.get("items").and_then(Value::as_array).into_iter().flatten();
                let plan: Vec<PlanItem> = items
                    .filter_map(|item| {
                        Some(PlanItem {
                            text: string(item, "text")?.to_owned(),
                            done: item.get("completed").and_then(Value::as_bool) == Some(true),
                        })
                    })
                    .collect();
                out.builder.turn(None, TurnStart::AfterAnswer);
                out.builder.plan(plan);
            }
            Some("reasoning" | "error") => {}
            Some(kind) => out.skip(line, format!("unknown item type {kind}")),
            None => out.skip(line, format!("unknown item: {}", describe(item))),
        }
    }
}

/// Adds a call, unless an earlier event has already begun it.
fn begin_call(out: &mut Output, id: Option<&str>, tool: &str, arguments: impl FnOnce() -> Value) {
    let begun = id.is_some_and(|id| out.builder.find_call(id).is_some());
    if !begun {
        out.builder.turn(None, TurnStart::AfterAnswer);
        out.builder.call(id, tool, arguments());
    }
}

/// Sets the exit code of a call that has a result. Returns whether there is one.
fn set_exit_code(out: &mut Output, id: &str, code: i64) -> bool {
    let result = out.builder.find_call(id).and_then(|call| call.result.as_mut());
    match result {
        Some(result) => {
            result.exit_code = result.exit_code.or(Some(code));
            true
        }
        None => false,
    }
}

fn set_exit(out: &mut Output, exit: &str) {
    out.builder.trajectory_mut().outcome = Some(RunOutcome {
        exit: Some(exit.to_owned()),
        ..RunOutcome::default()
    });
}

/// The files of a change in the format of the `apply_patch` tool; their content is not recorded.
fn patch(item: &Value) -> Value {
    let mut text = "*** Begin Patch\n".to_owned();
    for change in item
        .get("changes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let action = match string(change, "kind") {
            Some("add") => "Add",
            Some("delete") => "Delete",
            _ => "Update",
        };
        let path = string(change, "path").unwrap_or_default();
        for part in ["*** ", action, " File: ", path, "\n"] {
            text.push_str(part);
        }
    }
    text.push_str("*** End Patch");
    json!({ "input": text })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{feed_values, only_run, read_lines_of};
    use super::*;
    use crate::trajectory::LogFormat;

    fn item(payload: &Value) -> Value {
        json!({"timestamp": "2026-01-02T03:04:05.678Z", "type": "response_item", "payload": payload})
    }

    fn event(payload: &Value) -> Value {
        json!({"timestamp": "2026-01-02T03:04:05.678Z", "type": "event_msg", "payload": payload})
    }

    fn user(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    fn rollout() -> Vec<Value> {
        let tokens = event(&json!({"type": "token_count", "info": {
            "last_token_usage": {"total_tokens": 50}, "total_token_usage": {"total_tokens": 50}}}));
        vec![
            json!({"timestamp": "2026-01-02T03:04:05Z", "type": "session_meta", "payload": {"id": "c1", "cwd": "/r"}}),
            item(&user("<environment_context>\n</environment_context>")),
            item(&user("Fix it")),
            event(&json!({"type": "user_message", "message": "Fix it"})),
            json!({"type": "turn_context", "payload": {"model": "m"}}),
            item(&json!({"type": "reasoning", "summary": [], "encrypted_content": "x"})),
            item(
                &json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "First, tests."}]}),
            ),
            event(&json!({"type": "agent_message", "message": "First, tests."})),
            item(
                &json!({"type": "function_call", "name": "exec_command", "call_id": "c1",
                "arguments": "{\"cmd\": \"cargo test\"}"}),
            ),
            tokens.clone(),
            tokens,
            item(&json!({"type": "function_call_output", "call_id": "c1",
                "output": "Wall time: 1.0 seconds\nProcess exited with code 101\nOutput:\nfailed"})),
            item(
                &json!({"type": "function_call", "name": "update_plan", "call_id": "c2",
                "arguments": "{\"plan\": [{\"step\": \"fix\", \"status\": \"completed\"}]}"}),
            ),
            item(&json!({"type": "function_call_output", "call_id": "c2", "output": "Plan updated"})),
            item(
                &json!({"type": "custom_tool_call", "name": "apply_patch", "call_id": "c3", "status": "completed",
                "input": "*** Begin Patch\n*** Update File: a.rs\n@@\n-1\n+2\n*** End Patch"}),
            ),
            item(&json!({"type": "custom_tool_call_output", "call_id": "c3",
                "output": "{\"output\": \"Success\", \"metadata\": {\"exit_code\": 0}}"})),
            item(
                &json!({"type": "local_shell_call", "call_id": "c4", "status": "completed",
                "action": {"type": "exec", "command": ["ls", "-l"]}}),
            ),
            event(&json!({"type": "exec_command_end", "call_id": "c4", "exit_code": 2})),
            item(&json!({"type": "function_call_output", "call_id": "c4", "output": "no such file"})),
            json!({"type": "hologram", "payload": {}}),
            item(
                &json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Fixed."}]}),
            ),
            event(&json!({"type": "task_complete"})),
        ]
    }

    #[test]
    fn a_rollout_becomes_steps() {
        let log = read_lines_of(&rollout());
        assert_eq!(log.format, LogFormat::Codex);
        let run = only_run(&log);
        assert_eq!(run.id.as_deref(), Some("c1"));
        assert_eq!(run.task.as_deref(), Some("Fix it"));
        assert_eq!(run.steps.len(), 5, "{run:#?}");
        let first = &run.steps[0];
        assert_eq!(first.text, "First, tests.");
        assert_eq!(first.usage.tokens, Some(50));
        let result = first.calls[0].result.as_ref().unwrap();
        assert_eq!((result.content.as_str(), result.exit_code), ("failed", Some(101)));
        assert!(run.steps[1].plan.as_ref().unwrap()[0].done);
        assert_eq!(run.steps[2].calls[0].edits[0].path, "a.rs");
        assert_eq!(run.steps[2].calls[0].result.as_ref().unwrap().content, "Success");
        assert_eq!(run.steps[3].calls[0].command(), Some("ls -l"));
        assert_eq!(run.steps[3].calls[0].result.as_ref().unwrap().exit_code, Some(2));
        assert!(run.steps[4].finish);
        assert_eq!(log.skipped.count, 1);
    }

    #[test]
    fn a_feed_starts_with_the_header() {
        let (steps, run) = feed_values(&rollout());
        assert_eq!(steps.len(), 5);
        assert_eq!(steps[0].text, "First, tests.");
        assert_eq!(run.steps.len(), 5);
    }

    #[test]
    fn older_rollouts_have_bare_items() {
        let log = read_lines_of(&[
            json!({"id": "old", "timestamp": "2025-05-01T00:00:00Z", "instructions": null}),
            json!({"record_type": "state"}),
            user("Hi"),
            json!({"type": "function_call", "name": "shell", "call_id": "a",
                "arguments": "{\"command\": [\"bash\", \"-lc\", \"ls\"]}"}),
            json!({"type": "function_call_output", "call_id": "a",
                "output": "{\"output\": \"a.rs\", \"metadata\": {\"exit_code\": 0, \"duration_seconds\": 0.0}}"}),
        ]);
        assert_eq!(log.format, LogFormat::Codex);
        let run = only_run(&log);
        assert_eq!(run.id.as_deref(), Some("old"));
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().content, "a.rs");
        assert_eq!(log.skipped.count, 0, "{:?}", log.skipped);
    }

    #[test]
    fn events_of_codex_exec() {
        let command = |kind: &str, status: &str| {
            json!({"type": kind, "item": {"id": "item_1", "type": "command_execution", "command": "bash -lc make",
                "aggregated_output": "boom", "exit_code": 2, "status": status}})
        };
        let log = read_lines_of(&[
            json!({"type": "thread.started", "thread_id": "t"}),
            json!({"type": "turn.started"}),
            json!({"type": "item.started", "item": {"id": "item_0", "type": "todo_list",
                "items": [{"text": "build", "completed": false}]}}),
            command("item.started", "in_progress"),
            command("item.completed", "failed"),
            json!({"type": "item.completed", "item": {"id": "item_2", "type": "file_change", "status": "completed",
                "changes": [{"path": "a", "kind": "add"}]}}),
            json!({"type": "item.completed", "item": {"id": "item_3", "type": "agent_message", "text": "Done"}}),
            json!({"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 2}}),
        ]);
        let run = only_run(&log);
        assert_eq!(run.steps.len(), 3, "{run:#?}");
        assert_eq!(run.steps[0].calls.len(), 1);
        assert!(run.steps[0].plan.is_some());
        let result = run.steps[0].calls[0].result.as_ref().unwrap();
        assert_eq!((result.error, result.exit_code), (Some(true), Some(2)));
        assert_eq!(run.steps[1].calls[0].edits[0].path, "a");
        assert_eq!(run.steps[2].usage.tokens, Some(7));
        assert!(run.steps[2].finish);
    }
}
