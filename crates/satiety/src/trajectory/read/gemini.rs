//! Sessions of Gemini CLI (`messages` with type `user` and `gemini`, or one message per line), its checkpoints,
//! and `contents` of the Gemini API (`role` and `parts`).

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::value::{content_text, describe, first_string, string, time};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether the records are a session, messages of a session, or contents of the API.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| {
        is_session_header(record)
            || is_session_message(record)
            || is_model_content(record)
            || record
                .get("messages")
                .and_then(Value::as_array)
                .is_some_and(|messages| {
                    messages
                        .iter()
                        .take(super::DETECTION_RECORDS)
                        .any(is_session_message)
                })
            || CONTENT_LISTS.iter().any(|key| {
                record
                    .get(key)
                    .and_then(Value::as_array)
                    .is_some_and(|contents| contents.iter().take(super::DETECTION_RECORDS).any(is_content))
            })
    })
}

/// Keys of lists of contents: requests of the API, checkpoints, and checkpoints before a tool ran.
const CONTENT_LISTS: &[&str] = &["contents", "clientHistory", "history"];

fn is_session_header(record: &Value) -> bool {
    string(record, "sessionId").is_some() && string(record, "projectHash").is_some()
}

fn is_session_message(record: &Value) -> bool {
    string(record, "type") == Some("gemini") && record.get("content").is_some()
}

/// Whether a value is a content of the API: its parts have no `type`.
fn is_content(value: &Value) -> bool {
    matches!(string(value, "role"), Some("user" | "model" | "function"))
        && value
            .get("parts")
            .and_then(Value::as_array)
            .is_some_and(|parts| parts.iter().all(|part| part.get("type").is_none()))
}

/// Whether a content is specific to this API; a user's content alone could be another format's message.
fn is_model_content(value: &Value) -> bool {
    is_content(value)
        && (string(value, "role") == Some("model")
            || value
                .get("parts")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .any(|part| part.get("functionResponse").is_some()))
}

/// Reader of sessions and contents.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    /// Number of steps, and of replies to the last of them, before each message of a session.
    positions: FxHashMap<String, (usize, usize)>,
}

impl Reader for Gemini {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        out.builder.id(string(value, "sessionId"));
        if let Some(messages) = value.get("messages").and_then(Value::as_array) {
            for message in messages {
                self.message(message, line, out);
            }
        } else if let Some(contents) = CONTENT_LISTS
            .iter()
            .filter_map(|key| value.get(key)?.as_array())
            .find(|contents| contents.iter().any(is_content))
        {
            for content in contents {
                api_content(content, line, out);
            }
        } else if let Some(id) = string(value, "$rewindTo") {
            let (steps, replies) = self.positions.get(id).copied().unwrap_or_default();
            out.builder.rewind(steps, replies);
        } else if let Some(change) = value.get("$set") {
            // Usually metadata; a list of messages replaces the history.
            if let Some(messages) = change.get("messages").and_then(Value::as_array) {
                out.builder.rewind(0, 0);
                self.positions.clear();
                for message in messages {
                    self.message(message, line, out);
                }
            }
        } else if is_content(value) {
            api_content(value, line, out);
        } else if !is_session_header(value) {
            self.message(value, line, out);
        }
    }

    /// A session repeats a message when its tools have run.
    fn splits_turns(&self) -> bool {
        !self.positions.is_empty()
    }
}

impl Gemini {
    /// Adds a message of a session. A message with a known id replaces the earlier version.
    fn message(&mut self, message: &Value, line: usize, out: &mut Output) {
        let id = string(message, "id");
        let content = message.get("content").map(content_text).unwrap_or_default();
        match string(message, "type") {
            Some("user") => {
                if self.note_position(id, out).is_none() {
                    out.builder.reply(None, &content);
                }
            }
            Some("gemini") => {
                let known = self.note_position(id, out).map(|(index, _)| index);
                turn(message, known, &content, out);
            }
            Some("info" | "warning" | "error") => {}
            Some(kind) => out.skip(line, format!("unknown message type {kind}")),
            None => out.skip(line, format!("unknown record: {}", describe(message))),
        }
    }

    /// Remembers where a message stands. Returns the position of an earlier version of it.
    fn note_position(&mut self, id: Option<&str>, out: &mut Output) -> Option<(usize, usize)> {
        let id = id?;
        if let Some(position) = self.positions.get(id) {
            return Some(*position);
        }
        let steps = &out.builder.trajectory_mut().steps;
        let position = (steps.len(), steps.last().map_or(0, |step| step.replies.len()));
        self.positions.insert(id.to_owned(), position);
        None
    }
}

/// Adds a content of the API.
fn api_content(content: &Value, line: usize, out: &mut Output) {
    let parts = content.get("parts").and_then(Value::as_array);
    let Some(parts) = parts.filter(|_| is_content(content)) else {
        out.skip(line, format!("unknown content: {}", describe(content)));
        return;
    };
    if string(content, "role") == Some("model") {
        out.builder.turn(None, TurnStart::New);
        for part in parts {
            if let Some(call) = part.get("functionCall") {
                let arguments = call.get("args").cloned().unwrap_or_default();
                let tool = string(call, "name").unwrap_or_default();
                out.builder.call(string(call, "id"), tool, arguments);
            } else if let Some(code) = part.get("executableCode") {
                let code = string(code, "code").unwrap_or_default();
                out.builder
                    .call(None, "code_execution", serde_json::json!({ "code": code }));
            } else if let Some(result) = part.get("codeExecutionResult") {
                let result = CallResult {
                    content: string(result, "output").unwrap_or_default().to_owned(),
                    error: string(result, "outcome").map(|outcome| outcome != "OUTCOME_OK"),
                    exit_code: None,
                };
                out.builder.result(None, result);
            } else if part.get("thought").and_then(Value::as_bool) != Some(true) {
                out.builder.text(string(part, "text").unwrap_or_default());
            }
        }
        return;
    }
    let mut text = String::new();
    for part in parts {
        if let Some(response) = part.get("functionResponse") {
            let result = response_result(response);
            if !answer(response, result, out) {
                out.skip(line, "a result without its call");
            }
        } else if let Some(part) = string(part, "text") {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
        }
    }
    out.builder.reply(None, &text);
}

/// Adds a message of the agent, or replaces the step `known` of its earlier version. A step that a feed has
/// already returned is not changed; calls that it lacks become a step of their own.
fn turn(message: &Value, known: Option<usize>, content: &str, out: &mut Output) {
    let calls = message
        .get("toolCalls")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let replaces = known.is_some_and(|index| out.builder.resume(index).is_some());
    let returned = known.is_some() && !replaces;
    let calls: Vec<&Value> = calls
        .iter()
        .filter(|call| !returned || string(call, "id").is_none_or(|id| out.builder.find_call(id).is_none()))
        .collect();
    if returned && calls.is_empty() {
        return;
    }
    if !replaces {
        out.builder.turn(None, TurnStart::New);
    }
    let index = out.builder.position();
    let mut earlier = Vec::new();
    if let Some(step) = out.builder.resume(index) {
        step.time = step.time.or_else(|| message.get("timestamp").and_then(time));
        step.usage.tokens = message
            .get("tokens")
            .and_then(|tokens| tokens.get("total")?.as_u64())
            .or(step.usage.tokens);
        step.text.clear();
        earlier = std::mem::take(&mut step.calls);
    }
    if !returned {
        out.builder.text(content);
    }
    let ids: FxHashSet<&str> = calls.iter().filter_map(|call| string(call, "id")).collect();
    for call in calls {
        let id = string(call, "id");
        let arguments = call.get("args").cloned().unwrap_or_default();
        out.builder
            .call(id, string(call, "name").unwrap_or_default(), arguments);
        if let Some(result) = recorded_result(call) {
            out.builder.result(id, result);
        }
    }
    earlier.retain(|call| call.id.as_deref().is_some_and(|id| !ids.contains(id)));
    if let Some(step) = out.builder.resume(index) {
        step.calls.append(&mut earlier);
    }
}

/// Attaches a response to its call: by id, or else to the first open call of the function in the last step.
fn answer(response: &Value, result: CallResult, out: &mut Output) -> bool {
    if let Some(id) = string(response, "id") {
        return out.builder.result(Some(id), result);
    }
    let name = string(response, "name").unwrap_or_default();
    out.builder.end_turn();
    let call = out.builder.trajectory_mut().steps.last_mut().and_then(|step| {
        step.calls
            .iter_mut()
            .find(|call| call.tool == name && call.result.is_none())
    });
    match call {
        Some(call) => {
            call.result = Some(result);
            true
        }
        None => out.builder.result(None, result),
    }
}

/// The result of a tool call as a session records it; `None` while the tool is running.
fn recorded_result(call: &Value) -> Option<CallResult> {
    let error = match string(call, "status") {
        Some("error" | "cancelled") => Some(true),
        Some("success") => Some(false),
        _ => None,
    };
    let result = call.get("result").filter(|result| !result.is_null());
    if result.is_none() && error.is_none() {
        return None;
    }
    let response = match result {
        Some(Value::Array(parts)) => parts.iter().find_map(|part| part.get("functionResponse")),
        Some(part) => part.get("functionResponse"),
        None => None,
    };
    let mut recorded = match (response, result) {
        (Some(response), _) => response_result(response),
        (None, Some(result)) => CallResult {
            content: content_text(result),
            ..CallResult::default()
        },
        (None, None) => CallResult {
            content: first_string(call, &["resultDisplay"])
                .unwrap_or_default()
                .to_owned(),
            ..CallResult::default()
        },
    };
    recorded.error = error.or(recorded.error);
    Some(recorded)
}

/// The result in a function response. The shell tool reports the exit code as a line of its text.
fn response_result(response: &Value) -> CallResult {
    let body = response.get("response").unwrap_or(&Value::Null);
    let error = body.get("error").filter(|error| !error.is_null());
    let output = error
        .or_else(|| body.get("output"))
        .or_else(|| body.get("result"));
    let content = match output {
        Some(output) => content_text(output),
        None => content_text(body),
    };
    let exit_code = content
        .lines()
        .rev()
        .take(TRAILER_LINES)
        .find_map(|line| line.strip_prefix("Exit Code: ")?.trim().parse().ok());
    CallResult {
        content,
        error: error.map(|_| true),
        exit_code,
    }
}

/// Number of lines at the end of an output that may name the exit code.
const TRAILER_LINES: usize = 6;

#[cfg(test)]
mod tests {
    use super::super::tests::{feed_values, only_run, read_lines_of, read_value};
    use crate::trajectory::LogFormat;
    use serde_json::{Value, json};

    fn call(status: &str, result: &Value) -> Value {
        json!({"id": "t1", "name": "run_shell_command", "args": {"command": "make"}, "status": status,
            "timestamp": "2026-01-02T03:04:05.678Z", "result": result})
    }

    fn response(output: &str) -> Value {
        json!([{"functionResponse": {"id": "t1", "name": "run_shell_command", "response": {"output": output}}}])
    }

    #[test]
    fn a_session_becomes_steps() {
        let log = read_value(
            &json!({"sessionId": "g", "projectHash": "h", "startTime": "", "messages": [
                {"id": "1", "type": "info", "content": "update available"},
                {"id": "2", "type": "user", "content": [{"text": "Build it"}]},
                {"id": "3", "type": "gemini", "content": "Building.", "thoughts": [], "tokens": {"total": 12},
                 "timestamp": "2026-01-02T03:04:05.678Z", "toolCalls": [call("success", &response("boom\nExit Code: 2"))]},
                {"id": "4", "type": "gemini", "content": "", "toolCalls": [{"id": "t2", "name": "write_todos",
                    "args": {"todos": [{"description": "fix", "status": "completed"}]}, "status": "error",
                    "result": [{"functionResponse": {"id": "t2", "response": {"error": "no"}}}]}]},
                {"id": "5", "type": "hologram", "content": ""},
                {"id": "6", "type": "gemini", "content": "It fails."}
            ]}),
        );
        assert_eq!(log.format, LogFormat::Gemini);
        let run = only_run(&log);
        assert_eq!(run.task.as_deref(), Some("Build it"));
        assert_eq!(run.steps.len(), 3, "{run:#?}");
        assert_eq!(run.steps[0].usage.tokens, Some(12));
        let result = run.steps[0].calls[0].result.as_ref().unwrap();
        assert_eq!((result.error, result.exit_code), (Some(false), Some(2)));
        assert!(run.steps[1].plan.as_ref().unwrap()[0].done);
        assert_eq!(run.steps[1].calls[0].result.as_ref().unwrap().error, Some(true));
        assert_eq!(run.steps[2].text, "It fails.");
        assert_eq!(log.skipped.count, 1);
    }

    #[test]
    fn lines_replace_and_rewind_messages() {
        let records = [
            json!({"sessionId": "g", "projectHash": "h", "startTime": "", "lastUpdated": ""}),
            json!({"id": "1", "type": "user", "content": [{"text": "Build it"}]}),
            json!({"id": "2", "type": "gemini", "content": "Building.", "toolCalls": [call("executing", &json!(null))]}),
            json!({"$set": {"lastUpdated": "now"}}),
            json!({"id": "2", "type": "gemini", "content": "Building.", "toolCalls": [call("success", &response("ok"))]}),
            json!({"id": "3", "type": "user", "content": "Wrong"}),
            json!({"id": "4", "type": "gemini", "content": "Sorry."}),
            json!({"$rewindTo": "3"}),
            json!({"id": "5", "type": "user", "content": "Thanks"}),
            json!({"id": "6", "type": "gemini", "content": "Welcome."}),
        ];
        let log = read_lines_of(&records);
        let run = only_run(&log);
        assert_eq!(run.steps.len(), 2, "{run:#?}");
        assert_eq!(run.steps[0].calls.len(), 1);
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().content, "ok");
        assert_eq!(run.steps[0].replies.len(), 1);
        assert_eq!(run.steps[0].replies[0].text, "Thanks");
        assert_eq!(run.steps[1].text, "Welcome.");
        let (steps, fed) = feed_values(&records);
        assert_eq!(&fed, run);
        assert_eq!(steps.len(), 1, "the last turn may be repeated with calls");
        assert_eq!(steps[0].calls.len(), 1);
    }

    #[test]
    fn a_feed_returns_calls_of_a_message_once() {
        let message = |calls: &[&str]| {
            let calls: Vec<Value> = calls
                .iter()
                .map(|id| json!({"id": id, "name": "glob", "args": {}, "status": "success", "result": null}))
                .collect();
            json!({"id": "m", "type": "gemini", "content": "Look", "toolCalls": calls})
        };
        let (steps, run) = feed_values(&[
            message(&[]),
            message(&["a"]),
            message(&["a"]),
            message(&["a", "b"]),
        ]);
        assert_eq!(run.steps.len(), 2);
        let ids: Vec<_> = steps
            .iter()
            .flat_map(|step| &step.calls)
            .filter_map(|call| call.id.as_deref())
            .collect();
        assert_eq!(ids, ["a", "b"]);
    }

    #[test]
    fn contents_of_the_api() {
        let contents = json!([
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": [{"text": "hm", "thought": true}, {"functionCall": {"name": "weather", "args": {"city": "Bonn"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"error": "offline"}}}]},
            {"role": "model", "parts": [{"text": "I cannot tell."}]},
            {"role": "model"}
        ]);
        for document in [contents.clone(), json!({ "contents": contents })] {
            let log = read_value(&document);
            assert_eq!(log.format, LogFormat::Gemini);
            let run = only_run(&log);
            assert_eq!(run.task.as_deref(), Some("Weather?"));
            assert_eq!(run.steps.len(), 2, "{run:#?}");
            let result = run.steps[0].calls[0].result.as_ref().unwrap();
            assert_eq!((result.content.as_str(), result.error), ("offline", Some(true)));
            assert_eq!(run.steps[1].text, "I cannot tell.");
            assert_eq!(log.skipped.count, 1);
        }
    }
}
