//! Session logs of Claude Code: one record per line with `type` and `message`. A turn is split into one record
//! per content block, all with the same `message.id`. The output of `--output-format stream-json` has the same
//! records with other names around them.

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::value::{content_text, describe, first_string, string, time};
use super::{Output, Reader, chat};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::{CallResult, RunOutcome};

/// Whether a record is a message in an envelope, or a header that only this format has.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| match string(record, "type") {
        Some("user" | "assistant") => record.get("message").is_some_and(Value::is_object),
        Some("file-history-snapshot") => true,
        Some("summary") => record.get("leafUuid").is_some(),
        Some("system") => record.get("sessionId").is_some() || string(record, "subtype") == Some("init"),
        _ => false,
    })
}

/// Records without a turn, a result or a message: state of the program, notifications, copies.
const IGNORED: &[&str] = &[
    "summary",
    "file-history-snapshot",
    "progress",
    "queue-operation",
    "last-prompt",
    "custom-title",
    "ai-title",
    "agent-name",
    "agent-color",
    "agent-setting",
    "task-summary",
    "tag",
    "mode",
    "permission-mode",
    "pr-link",
    "worktree-state",
    "content-replacement",
    "attribution-snapshot",
    "speculation-accept",
    "bridge-session",
    "saved_hook_context",
    "stream_event",
    "rate_limit_event",
    "tool_progress",
    "tool_use_summary",
    "auth_status",
    "prompt_suggestion",
    "active_goal",
    "conversation_reset",
    "keep_alive",
    "control_request",
    "control_response",
];

/// Slash commands that change the program and say nothing to the agent.
const LOCAL_COMMANDS: &[&str] = &[
    "/clear",
    "/exit",
    "/quit",
    "/model",
    "/login",
    "/logout",
    "/config",
    "/cost",
    "/usage",
    "/help",
    "/compact",
    "/context",
    "/resume",
    "/status",
    "/mcp",
    "/ide",
    "/doctor",
    "/agents",
    "/hooks",
    "/permissions",
    "/rewind",
    "/rename",
    "/theme",
    "/vim",
    "/effort",
    "/fast",
];

/// Reader of session records.
#[derive(Debug, Default)]
pub(super) struct ClaudeCode {
    /// Id and step of the last message of each agent; the main agent has an empty name.
    turns: FxHashMap<String, (String, usize)>,
    /// Whether the last turn of the main agent ended with an answer.
    ended: bool,
}

impl Reader for ClaudeCode {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        out.builder.id(first_string(value, &["sessionId", "session_id"]));
        let message = value.get("message").filter(|message| message.is_object());
        match (string(value, "type"), message) {
            (Some("user"), Some(message)) => self.user(value, message, line, out),
            (Some("assistant"), Some(message)) => self.assistant(value, message, out),
            (Some("attachment"), _) => {
                // A message that the user wrote while the agent was working.
                if let Some(attachment) = value.get("attachment")
                    && string(attachment, "type") == Some("queued_command")
                    && let Some(prompt) = attachment.get("prompt")
                {
                    out.builder.reply(None, &content_text(prompt));
                }
            }
            (Some("system"), _) => {
                if matches!(
                    string(value, "subtype"),
                    Some("turn_duration" | "stop_hook_summary")
                ) {
                    out.builder.end_turn();
                }
            }
            (Some("result"), _) => self.outcome(value, out),
            (Some(kind), _) if IGNORED.contains(&kind) => {}
            (Some(kind @ ("user" | "assistant")), None) => {
                out.skip(line, format!("a record of type {kind} without a message"));
            }
            (Some(kind), _) => out.skip(line, format!("unknown record type {kind}")),
            (None, _) => out.skip(line, format!("unknown record: {}", describe(value))),
        }
    }

    fn end(&mut self, out: &mut Output) {
        if self.ended
            && let Some(last) = out.builder.trajectory_mut().steps.last_mut()
        {
            last.finish = true;
        }
    }

    fn splits_turns(&self) -> bool {
        true
    }
}

impl ClaudeCode {
    fn assistant(&mut self, record: &Value, message: &Value, out: &mut Output) {
        // Error messages of the program in the name of the model.
        if string(message, "model") == Some("<synthetic>") || flag(record, "isApiErrorMessage") {
            return;
        }
        let agent = agent_of(record);
        let key = agent.unwrap_or_default();
        let id = first_string(message, &["id"]).or_else(|| string(record, "requestId"));
        let known = self
            .turns
            .get(key)
            .filter(|(known, _)| id == Some(known.as_str()))
            .map(|(_, index)| *index);
        let resumed = known.is_some_and(|index| out.builder.resume(index).is_some());
        if !resumed {
            let start = if id.is_some() {
                TurnStart::New
            } else {
                TurnStart::AfterAnswer
            };
            out.builder.turn(agent, start);
        }
        let index = out.builder.position();
        if let Some(id) = id {
            match self.turns.get_mut(key) {
                Some(turn) if turn.0 == id => turn.1 = index,
                Some(turn) => *turn = (id.to_owned(), index),
                None => {
                    self.turns.insert(key.to_owned(), (id.to_owned(), index));
                }
            }
        }
        if let Some(step) = out.builder.resume(index) {
            step.time = step.time.or_else(|| record.get("timestamp").and_then(time));
            step.usage.tokens = message.get("usage").and_then(chat::tokens).or(step.usage.tokens);
        }
        self.ended = agent.is_none() && string(message, "stop_reason") == Some("end_turn");
        match message.get("content") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    block(part, out);
                }
            }
            Some(content) => out.builder.text(&content_text(content)),
            None => {}
        }
    }

    fn user(&mut self, record: &Value, message: &Value, line: usize, out: &mut Output) {
        if flag(record, "isCompactSummary") {
            out.builder.compacted();
        }
        if ["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"]
            .iter()
            .any(|key| flag(record, key))
        {
            return;
        }
        let content = message.get("content").unwrap_or(&Value::Null);
        let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let results = || {
            parts
                .iter()
                .filter(|part| string(part, "type") == Some("tool_result"))
        };
        let details = ["toolUseResult", "tool_use_result"]
            .iter()
            .find_map(|key| record.get(key));
        if details.is_some() && content.is_string() {
            let result = CallResult {
                content: content_text(content),
                ..CallResult::default()
            };
            out.builder.result(None, result);
            return;
        }
        // The detailed result belongs to the record; with several results it cannot be assigned.
        let details = details.filter(|_| results().count() == 1);
        for part in results() {
            let result = tool_result(part, details);
            if !out.builder.result(string(part, "tool_use_id"), result) {
                out.skip(line, "a result without its call");
            }
        }
        // The prompt of a sub-agent repeats the arguments of the call that started it.
        if agent_of(record).is_some() && !out.builder.is_empty() {
            return;
        }
        let text = match content {
            Value::Array(parts) => {
                let mut text = String::new();
                for part in parts {
                    if string(part, "type") == Some("text")
                        && let Some(part) = string(part, "text")
                    {
                        if !text.is_empty() {
                            text.push('\n');
                        }
                        text.push_str(part);
                    }
                }
                text
            }
            other => content_text(other),
        };
        if let Some(text) = said_to_agent(&text) {
            self.ended = false;
            out.builder.reply(None, &text);
        }
    }

    /// Adds the last record of a stream: how the run ended and what it cost.
    fn outcome(&mut self, record: &Value, out: &mut Output) {
        out.builder.end_turn();
        self.ended = record.get("is_error").and_then(Value::as_bool) != Some(true);
        let cost = record.get("total_cost_usd").and_then(Value::as_f64);
        let trajectory = out.builder.trajectory_mut();
        trajectory.outcome = string(record, "subtype").map(|exit| RunOutcome {
            exit: Some(exit.to_owned()),
            ..RunOutcome::default()
        });
        // Only the total is known; it is added to the last step.
        if let Some(step) = trajectory.steps.last_mut() {
            step.usage.cost = cost.or(step.usage.cost);
        }
    }
}

/// The sub-agent that a record belongs to.
fn agent_of(record: &Value) -> Option<&str> {
    if let Some(call) = string(record, "parent_tool_use_id") {
        return Some(call);
    }
    flag(record, "isSidechain").then(|| first_string(record, &["agentId"]).unwrap_or("sidechain"))
}

fn flag(record: &Value, key: &str) -> bool {
    record.get(key).and_then(Value::as_bool) == Some(true)
}

/// Adds a content block of an agent to the current step.
fn block(part: &Value, out: &mut Output) {
    match string(part, "type") {
        Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
            let id = string(part, "id");
            // A resumed session may contain a block twice.
            let repeated = id.is_some_and(|id| out.builder.find_call(id).is_some());
            if !repeated {
                let arguments = part.get("input").cloned().unwrap_or_default();
                out.builder
                    .call(id, string(part, "name").unwrap_or_default(), arguments);
            }
        }
        Some(kind) if kind.ends_with("tool_result") => chat::tool_result(part, out),
        Some("thinking" | "redacted_thinking") => {}
        _ => out.builder.text(&content_text(part)),
    }
}

/// A result with what the program recorded about it.
fn tool_result(part: &Value, details: Option<&Value>) -> CallResult {
    let content = part.get("content").map(content_text).unwrap_or_default();
    let mut error = part.get("is_error").and_then(Value::as_bool);
    let mut exit_code = details.and_then(|details| {
        ["exitCode", "exit_code", "code", "returnCode"]
            .iter()
            .find_map(|key| details.get(key)?.as_i64())
    });
    if exit_code.is_none() && error == Some(true) {
        exit_code = exit_code_in(&content);
    }
    if details.is_some_and(|details| flag(details, "interrupted")) {
        error = Some(true);
    }
    CallResult {
        content,
        error,
        exit_code,
    }
}

/// The code in `Exit code 1`, with which the output of a failed command begins.
fn exit_code_in(content: &str) -> Option<i64> {
    let text = content.trim_start();
    let text = text.strip_prefix("Error: ").unwrap_or(text);
    let line = text.lines().next()?.strip_prefix("Exit code ")?;
    line.trim().parse().ok()
}

/// What a user's message says to the agent: the text, or a slash command with its arguments. Returns `None`
/// for output of commands that the program ran itself.
fn said_to_agent(text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed.starts_with("<local-command-") || trimmed.starts_with("<bash-stdout>") {
        return None;
    }
    if !trimmed.starts_with("<command-") {
        return Some(text.to_owned());
    }
    let name = tagged(trimmed, "command-name").unwrap_or_default().trim();
    let arguments = tagged(trimmed, "command-args").unwrap_or_default().trim();
    if name.is_empty() || LOCAL_COMMANDS.contains(&name) {
        return None;
    }
    Some(format!("{name} {arguments}").trim_end().to_owned())
}

/// The text between `<tag>` and `</tag>`.
fn tagged<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let rest = text.split_once(&format!("<{tag}>"))?.1;
    rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{feed_values, only_run, read_lines_of};
    use crate::trajectory::{LogFormat, Usage};
    use serde_json::{Value, json};

    fn assistant(id: &str, content: &Value) -> Value {
        json!({"type": "assistant", "sessionId": "s1", "timestamp": "2026-01-02T03:04:05.678Z", "isSidechain": false,
            "message": {"id": id, "role": "assistant", "model": "m", "content": [content], "stop_reason": null,
                "usage": {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 7}}})
    }

    fn result(id: &str, content: &str, error: bool, details: &Value) -> Value {
        json!({"type": "user", "sessionId": "s1", "toolUseResult": details, "message": {"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error}]}})
    }

    fn session() -> Vec<Value> {
        let mut last = assistant("m3", &json!({"type": "text", "text": "All tests pass."}));
        last["message"]["stop_reason"] = json!("end_turn");
        vec![
            json!({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}),
            json!({"type": "user", "sessionId": "s1", "isMeta": true,
                "message": {"role": "user", "content": "Caveat: local commands"}}),
            json!({"type": "user", "message": {"role": "user",
                "content": "<command-name>/clear</command-name>\n<command-args></command-args>"}}),
            json!({"type": "user", "message": {"role": "user", "content": "Make the tests pass"}}),
            assistant("m1", &json!({"type": "thinking", "thinking": "hm"})),
            assistant("m1", &json!({"type": "text", "text": "Running them."})),
            assistant(
                "m1",
                &json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cargo test"}}),
            ),
            result(
                "t1",
                "Exit code 101\n1 failed",
                true,
                &json!("Error: Exit code 101"),
            ),
            assistant(
                "m1",
                &json!({"type": "tool_use", "id": "t2", "name": "TodoWrite",
                "input": {"todos": [{"content": "fix", "status": "in_progress", "activeForm": "fixing"}]}}),
            ),
            result("t2", "ok", false, &json!({"oldTodos": []})),
            assistant(
                "m2",
                &json!({"type": "tool_use", "id": "t3", "name": "Edit",
                "input": {"file_path": "a.rs", "old_string": "1", "new_string": "2"}}),
            ),
            result("t3", "edited", false, &json!({"filePath": "a.rs"})),
            json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "hurry"}}),
            json!({"type": "hologram", "sessionId": "s1"}),
            json!({"type": "user", "message": "not an object"}),
            last,
        ]
    }

    #[test]
    fn a_session_becomes_steps() {
        let log = read_lines_of(&session());
        assert_eq!(log.format, LogFormat::ClaudeCode);
        let run = only_run(&log);
        assert_eq!(run.id.as_deref(), Some("s1"));
        assert_eq!(run.task.as_deref(), Some("Make the tests pass"));
        assert_eq!(run.steps.len(), 3, "{run:#?}");
        let first = &run.steps[0];
        assert_eq!(first.text, "Running them.");
        assert_eq!(first.calls.len(), 2);
        let test = first.calls[0].result.as_ref().unwrap();
        assert_eq!((test.error, test.exit_code), (Some(true), Some(101)));
        assert_eq!(first.plan.as_ref().unwrap().len(), 1);
        assert_eq!(
            first.usage,
            Usage {
                tokens: Some(110),
                cost: None
            }
        );
        assert!(first.time.is_some());
        assert_eq!(run.steps[1].calls[0].edits[0].path, "a.rs");
        assert_eq!(run.steps[1].replies[0].text, "hurry");
        assert_eq!(run.steps[2].text, "All tests pass.");
        assert!(run.steps[2].finish);
        assert_eq!(log.skipped.count, 2, "{:?}", log.skipped);
        assert_eq!(log.skipped.first[0].line, 14);
    }

    #[test]
    fn agents_in_parallel_keep_their_turns() {
        let mut sub = assistant(
            "s",
            &json!({"type": "tool_use", "id": "u1", "name": "Grep", "input": {"pattern": "x"}}),
        );
        sub["isSidechain"] = json!(true);
        sub["agentId"] = json!("a7");
        let mut prompt = json!({"type": "user", "isSidechain": true, "agentId": "a7",
            "message": {"role": "user", "content": "Search for x"}});
        prompt["sessionId"] = json!("s1");
        let log = read_lines_of(&[
            json!({"type": "user", "message": {"role": "user", "content": "Look"}}),
            assistant(
                "m",
                &json!({"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Search for x"}}),
            ),
            prompt,
            sub,
            assistant(
                "m",
                &json!({"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "b"}}),
            ),
            result("t2", "content", false, &json!({"interrupted": true})),
        ]);
        let run = only_run(&log);
        assert_eq!(run.steps.len(), 2, "{run:#?}");
        assert_eq!(run.steps[0].calls.len(), 2);
        assert_eq!(run.steps[0].agent, None);
        assert_eq!(run.steps[0].calls[1].result.as_ref().unwrap().error, Some(true));
        assert!(run.steps[0].replies.is_empty());
        assert_eq!(run.steps[1].agent.as_deref(), Some("a7"));
    }

    #[test]
    fn a_feed_returns_every_call_once() {
        let (steps, run) = feed_values(&session());
        assert_eq!(run.steps.len(), 4, "the rest of a turn that was taken is a step");
        let calls: Vec<&str> = steps
            .iter()
            .flat_map(|step| &step.calls)
            .map(|call| call.tool.as_str())
            .collect();
        assert_eq!(calls, ["Bash", "TodoWrite", "Edit"]);
        assert_eq!(steps[0].text, "Running them.");
    }

    #[test]
    fn a_stream_ends_with_its_outcome() {
        let log = read_lines_of(&[
            json!({"type": "system", "subtype": "init", "session_id": "z", "tools": []}),
            json!({"type": "assistant", "session_id": "z", "parent_tool_use_id": null,
                "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Hello"}]}}),
            json!({"type": "result", "subtype": "success", "is_error": false, "result": "Hello", "total_cost_usd": 0.5}),
        ]);
        let run = only_run(&log);
        assert_eq!(run.outcome.as_ref().unwrap().exit.as_deref(), Some("success"));
        assert_eq!(run.steps[0].usage.cost, Some(0.5));
        assert!(run.steps[0].finish);
    }
}
