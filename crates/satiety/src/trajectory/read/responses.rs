//! Items of the OpenAI Responses API: messages, calls and outputs as separate records, as a list, as `input`
//! and `output` of a request and its response, or as `to_input_list` of openai-agents. Codex CLI records the
//! same items.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::value::{content_text, describe, first_string, string};
use super::{Output, Reader, chat};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether the records contain typed items, or a document with `input` or `output`.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| {
        is_specific_item(record)
            || ["input", "output"].iter().any(|key| {
                record
                    .get(key)
                    .and_then(Value::as_array)
                    .is_some_and(|items| items.iter().take(super::DETECTION_RECORDS).any(is_specific_item))
            })
    })
}

/// Whether a record is an item of this API.
pub(super) fn is_item(value: &Value) -> bool {
    kind_of(inner(value)).is_some_and(|kind| kind != ItemKind::Unknown)
}

/// Whether a record is an item that no other format has: a call, an output, or a message with typed parts.
pub(super) fn is_specific_item(value: &Value) -> bool {
    let item = inner(value);
    match kind_of(item) {
        Some(ItemKind::Call | ItemKind::Output | ItemKind::Ignored) => true,
        Some(ItemKind::Message) => {
            string(item, "type") == Some("message")
                && item
                    .get("content")
                    .and_then(Value::as_array)
                    .is_some_and(|parts| {
                        parts
                            .iter()
                            .any(|part| matches!(string(part, "type"), Some("input_text" | "output_text")))
                    })
        }
        _ => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Message,
    Call,
    Output,
    /// Reasoning, summaries and other records that are neither text nor calls of the agent.
    Ignored,
    Unknown,
}

fn kind_of(item: &Value) -> Option<ItemKind> {
    let Some(kind) = string(item, "type") else {
        return chat::is_message(item).then_some(ItemKind::Message);
    };
    Some(match kind {
        "message" => ItemKind::Message,
        "function_call"
        | "custom_tool_call"
        | "local_shell_call"
        | "shell_call"
        | "apply_patch_call"
        | "computer_call"
        | "web_search_call"
        | "file_search_call"
        | "code_interpreter_call"
        | "image_generation_call"
        | "mcp_call"
        | "tool_search_call"
        | "hosted_tool_call"
        | "program" => ItemKind::Call,
        "function_call_output"
        | "function_call_result"
        | "custom_tool_call_output"
        | "local_shell_call_output"
        | "shell_call_output"
        | "apply_patch_call_output"
        | "computer_call_output"
        | "computer_call_result"
        | "mcp_tool_call_output"
        | "tool_search_output"
        | "program_output" => ItemKind::Output,
        "reasoning"
        | "item_reference"
        | "compaction"
        | "compaction_summary"
        | "compaction_trigger"
        | "context_compaction"
        | "configuration_update"
        | "additional_tools"
        | "ghost_snapshot"
        | "mcp_list_tools"
        | "mcp_approval_request"
        | "mcp_approval_response" => ItemKind::Ignored,
        _ => ItemKind::Unknown,
    })
}

/// The item itself where a run item of openai-agents wraps it.
fn inner(value: &Value) -> &Value {
    value
        .get("raw_item")
        .or_else(|| value.get("rawItem"))
        .filter(|item| item.is_object())
        .unwrap_or(value)
}

/// Reader of items.
pub(super) struct Responses;

impl Reader for Responses {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let input = value.get("input").filter(|_| kind_of(value).is_none());
        let output = value.get("output").and_then(Value::as_array);
        if kind_of(value).is_none() && (input.is_some() || output.is_some()) {
            exchange(value, line, out);
            return;
        }
        item(value, None, line, out);
    }

    fn splits_turns(&self) -> bool {
        true
    }
}

/// Adds a request and its response. A request repeats the dialogue, so only what follows the agent's last
/// item is new, unless the request is the first.
fn exchange(value: &Value, line: usize, out: &mut Output) {
    let input = value.get("input");
    let items = input
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let continues = ["previous_response_id", "conversation"]
        .iter()
        .any(|key| value.get(key).is_some_and(|id| !id.is_null()));
    let last_agent_item = items.iter().rposition(|item| !is_answer(inner(item)));
    if !continues && input.is_some() && last_agent_item.is_none() && !out.builder.is_empty() {
        // A request without history is another dialogue.
        out.end_trajectory();
    }
    out.builder.id(first_string(
        value,
        &["conversation_id", "session_id", "id", "response_id"],
    ));
    if let Some(text) = input.and_then(Value::as_str) {
        out.builder.reply(None, text);
    }
    let begin = match last_agent_item {
        Some(index) if !out.builder.is_empty() => index + 1,
        _ => 0,
    };
    for record in items.iter().skip(begin) {
        item(record, None, line, out);
    }
    let output = value.get("output").and_then(Value::as_array);
    for record in output.into_iter().flatten() {
        item(record, None, line, out);
    }
    if output.is_some_and(|items| !items.is_empty())
        && let Some(tokens) = value.get("usage").and_then(chat::tokens)
    {
        let step = out.builder.turn(None, TurnStart::Continue);
        step.usage.tokens = Some(step.usage.tokens.unwrap_or(0).saturating_add(tokens));
    }
}

/// Whether an item is a message to the agent or a result.
fn is_answer(item: &Value) -> bool {
    match kind_of(item) {
        Some(ItemKind::Message) => !matches!(string(item, "role"), Some("assistant" | "model" | "agent")),
        Some(ItemKind::Output) => true,
        _ => false,
    }
}

/// Adds one item. `time` is the time of the record around it, if the log has one.
pub(super) fn item(value: &Value, time: Option<Timestamp>, line: usize, out: &mut Output) {
    let agent = value
        .get("agent")
        .and_then(|agent| agent.as_str().or_else(|| string(agent, "name")));
    let item = inner(value);
    match kind_of(item) {
        Some(ItemKind::Message) => message(item, agent, time, out),
        Some(ItemKind::Call) => {
            begin_turn(agent, time, out);
            call(item, out);
        }
        Some(ItemKind::Output) => {
            let result = output(item);
            if !out.builder.result(call_id(item), result) {
                out.skip(line, "a result without its call");
            }
        }
        Some(ItemKind::Ignored) => {}
        Some(ItemKind::Unknown) => out.skip(
            line,
            format!("unknown item: {}", string(item, "type").unwrap_or_default()),
        ),
        None => out.skip(line, format!("unknown item: {}", describe(item))),
    }
}

fn begin_turn(agent: Option<&str>, time: Option<Timestamp>, out: &mut Output) {
    let step = out.builder.turn(agent, TurnStart::AfterAnswer);
    step.time = step.time.or(time);
}

fn message(item: &Value, agent: Option<&str>, time: Option<Timestamp>, out: &mut Output) {
    let text = item.get("content").map(content_text).unwrap_or_default();
    match string(item, "role") {
        Some("system" | "developer") => {}
        Some("assistant" | "model" | "agent") => {
            begin_turn(agent, time, out);
            out.builder.text(&text);
            // Chat messages among the items.
            for call in item
                .get("tool_calls")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let function = call.get("function").unwrap_or(call);
                let arguments = function.get("arguments").cloned().unwrap_or_default();
                let tool = string(function, "name").unwrap_or_default();
                out.builder.call(string(call, "id"), tool, arguments);
            }
        }
        Some("tool" | "function") => {
            out.builder.result(
                first_string(item, &["tool_call_id", "id"]),
                CallResult {
                    content: text,
                    ..CallResult::default()
                },
            );
        }
        _ => out.builder.reply(string(item, "name"), &text),
    }
}

fn call_id(item: &Value) -> Option<&str> {
    first_string(item, &["call_id", "callId", "id"])
}

/// Adds a call, with its result if the service ran the tool itself.
fn call(item: &Value, out: &mut Output) {
    let get = |key: &str| item.get(key).cloned().unwrap_or_default();
    let id = call_id(item);
    let name = string(item, "name").unwrap_or_default();
    match string(item, "type").unwrap_or_default() {
        "function_call" => {
            let (tool, arguments) = function(name, get("arguments"));
            out.builder.call(id, tool, arguments);
        }
        "custom_tool_call" => out.builder.call(id, name, get("input")),
        "local_shell_call" => {
            let (tool, arguments) = function("local_shell", get("action"));
            out.builder.call(id, tool, arguments);
        }
        "shell_call" => {
            let commands = item
                .get("action")
                .and_then(|action| action.get("commands"))
                .and_then(Value::as_array);
            let script: Vec<&str> = commands.into_iter().flatten().filter_map(Value::as_str).collect();
            out.builder
                .call(id, "shell", json!({ "command": script.join("\n") }));
        }
        "apply_patch_call" => out.builder.call(
            id,
            "apply_patch",
            patch(item.get("operation").unwrap_or(&Value::Null)),
        ),
        "computer_call" => {
            let action = item
                .get("action")
                .or_else(|| item.get("actions"))
                .cloned()
                .unwrap_or_default();
            out.builder.call(id, "computer", action);
        }
        "web_search_call" => {
            out.builder.call(id, "web_search", get("action"));
            hosted_result(item, id, String::new(), out);
        }
        "file_search_call" => {
            out.builder
                .call(id, "file_search", json!({ "queries": get("queries") }));
            let results = item
                .get("results")
                .filter(|results| !results.is_null())
                .map(Value::to_string);
            hosted_result(item, id, results.unwrap_or_default(), out);
        }
        "code_interpreter_call" => {
            out.builder
                .call(id, "code_interpreter", json!({ "code": get("code") }));
            let logs: Vec<&str> = item
                .get("outputs")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|output| string(output, "logs"))
                .collect();
            hosted_result(item, id, logs.join("\n"), out);
        }
        "image_generation_call" => {
            let prompt = string(item, "revised_prompt").unwrap_or_default();
            out.builder
                .call(id, "image_generation", json!({ "prompt": prompt }));
            hosted_result(item, id, String::new(), out);
        }
        "mcp_call" | "hosted_tool_call" => {
            out.builder.call(id, name, get("arguments"));
            let content = item.get("output").map(content_text).unwrap_or_default();
            hosted_result(item, id, content, out);
        }
        "tool_search_call" => out.builder.call(id, "tool_search", get("arguments")),
        "program" => out.builder.call(id, "program", json!({ "code": get("code") })),
        _ => {}
    }
}

/// Attaches the result of a call that the service ran, unless it is still running.
fn hosted_result(item: &Value, id: Option<&str>, content: String, out: &mut Output) {
    let error = item.get("error").filter(|error| !error.is_null());
    let status = string(item, "status");
    let ended = error.is_some()
        || !content.is_empty()
        || matches!(status, Some("completed" | "failed" | "incomplete"));
    if ended {
        let content = match error {
            Some(error) if content.is_empty() => {
                first_string(error, &["message"]).map_or_else(|| content_text(error), str::to_owned)
            }
            _ => content,
        };
        out.builder.result(
            id,
            CallResult {
                content,
                error: Some(error.is_some() || status == Some("failed")),
                exit_code: None,
            },
        );
    }
}

/// Tool and arguments of a function call: a command that is a list of words becomes a command line.
pub(super) fn function(name: &str, arguments: Value) -> (&str, Value) {
    let mut arguments = match arguments {
        Value::String(text) if text.trim_start().starts_with('{') => {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
        other => other,
    };
    let words: Option<Vec<&str>> = arguments
        .get("command")
        .and_then(Value::as_array)
        .map(|words| words.iter().filter_map(Value::as_str).collect());
    let Some(words) = words else {
        return (name, arguments);
    };
    let command = match words.as_slice() {
        ["apply_patch", patch] => return ("apply_patch", json!({ "input": patch })),
        [shell, flag, script] if is_shell(shell) && matches!(*flag, "-c" | "-lc" | "-Command" | "/c") => {
            (*script).to_owned()
        }
        words => words.join(" "),
    };
    if let Some(object) = arguments.as_object_mut() {
        object.insert("command".to_owned(), Value::String(command));
    }
    (name, arguments)
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    matches!(
        name.trim_end_matches(".exe"),
        "bash" | "sh" | "zsh" | "fish" | "dash" | "powershell" | "pwsh" | "cmd"
    )
}

/// Arguments of a patch operation in the format of the `apply_patch` tool.
fn patch(operation: &Value) -> Value {
    let path = string(operation, "path").unwrap_or_default();
    let action = match string(operation, "type") {
        Some("create_file") => "Add",
        Some("delete_file") => "Delete",
        _ => "Update",
    };
    let diff = string(operation, "diff").unwrap_or_default();
    json!({ "input": format!("*** Begin Patch\n*** {action} File: {path}\n{diff}\n*** End Patch") })
}

/// The result that an output item contains.
fn output(item: &Value) -> CallResult {
    let status = string(item, "status");
    let mut result = match item.get("output").or_else(|| item.get("result")) {
        Some(Value::String(text)) => text_output(text),
        Some(Value::Array(parts)) if parts.iter().any(|part| part.get("stdout").is_some()) => {
            shell_output(parts)
        }
        Some(value @ Value::Object(object)) if object.contains_key("content") => {
            let mut result = match object.get("content") {
                Some(Value::String(text)) => text_output(text),
                content => CallResult {
                    content: content.map(content_text).unwrap_or_default(),
                    ..CallResult::default()
                },
            };
            result.error = value
                .get("success")
                .and_then(Value::as_bool)
                .map(|success| !success);
            result
        }
        Some(Value::Object(object)) if object.contains_key("image_url") || object.contains_key("file_id") => {
            CallResult {
                content: "screenshot".to_owned(),
                ..CallResult::default()
            }
        }
        Some(value @ Value::Array(_)) => text_output(&content_text(value)),
        Some(other) => CallResult {
            content: content_text(other),
            ..CallResult::default()
        },
        None => CallResult::default(),
    };
    if status == Some("failed") {
        result.error = Some(true);
    }
    result
}

/// Output of the shell tool: one part per command.
fn shell_output(parts: &[Value]) -> CallResult {
    let mut content = String::new();
    let mut exit_code = None;
    let mut timeout = false;
    for part in parts {
        for key in ["stdout", "stderr"] {
            if let Some(text) = string(part, key) {
                if !content.is_empty() && !content.ends_with('\n') {
                    content.push('\n');
                }
                content.push_str(text);
            }
        }
        let outcome = part.get("outcome").unwrap_or(&Value::Null);
        timeout |= string(outcome, "type") == Some("timeout");
        // The first command that failed decides, as in a script.
        if exit_code.is_none_or(|code| code == 0) {
            exit_code = outcome.get("exit_code").and_then(Value::as_i64).or(exit_code);
        }
    }
    CallResult {
        content,
        error: timeout.then_some(true),
        exit_code,
    }
}

/// The result in an output text: JSON with `output` and `metadata`, or text below a header with the exit code
/// and times. The header is removed, because its times differ between equal results.
pub(super) fn text_output(text: &str) -> CallResult {
    if text.trim_start().starts_with('{')
        && text.contains("\"output\"")
        && let Ok(value) = serde_json::from_str::<Value>(text)
        && let Some(output) = value.get("output").and_then(Value::as_str)
    {
        let exit_code = value
            .get("metadata")
            .and_then(|metadata| metadata.get("exit_code"))
            .or_else(|| value.get("exit_code"))
            .and_then(Value::as_i64);
        return CallResult {
            content: output.to_owned(),
            error: None,
            exit_code,
        };
    }
    let mut exit_code = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n').take(HEADER_LINES) {
        offset += line.len();
        let line = line.trim();
        if exit_code.is_some() && line == "Output:" {
            return CallResult {
                content: text[offset..].to_owned(),
                error: None,
                exit_code,
            };
        }
        exit_code = exit_code.or_else(|| {
            ["Exit code: ", "Process exited with code ", "Exit code "]
                .iter()
                .find_map(|prefix| line.strip_prefix(prefix)?.trim().parse().ok())
        });
    }
    CallResult {
        content: text.to_owned(),
        error: None,
        exit_code,
    }
}

/// Number of lines at the beginning of an output that may be its header.
const HEADER_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::super::tests::{only_run, read_value};
    use super::*;
    use crate::trajectory::LogFormat;

    #[test]
    fn items_of_one_response_are_one_step() {
        let log = read_value(&json!([
            {"role": "user", "content": "Fix the build"},
            {"type": "reasoning", "id": "rs", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "function_call", "call_id": "a", "name": "shell", "arguments": "{\"command\": [\"bash\", \"-lc\", \"make\"]}"},
            {"type": "function_call", "call_id": "b", "name": "update_plan",
             "arguments": "{\"plan\": [{\"step\": \"build\", \"status\": \"in_progress\"}]}"},
            {"type": "function_call_output", "call_id": "b", "output": "ok"},
            {"type": "function_call_output", "call_id": "a",
             "output": "{\"output\": \"no rule\", \"metadata\": {\"exit_code\": 2, \"duration_seconds\": 0.1}}"},
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "make"}},
            {"type": "apply_patch_call", "call_id": "p", "status": "completed",
             "operation": {"type": "update_file", "path": "Makefile", "diff": "@@\n-all\n+all:\n"}},
            {"type": "apply_patch_call_output", "call_id": "p", "status": "failed", "output": "no match"},
            {"type": "hologram"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
        ]));
        assert_eq!(log.format, LogFormat::Responses);
        let run = only_run(&log);
        assert_eq!(run.task.as_deref(), Some("Fix the build"));
        assert_eq!(run.steps.len(), 4, "{run:#?}");
        let first = &run.steps[0];
        assert_eq!(first.text, "Looking.");
        assert_eq!(first.calls[0].command(), Some("make"));
        let result = first.calls[0].result.as_ref().unwrap();
        assert_eq!((result.content.as_str(), result.exit_code), ("no rule", Some(2)));
        assert!(!first.plan.as_ref().unwrap()[0].done);
        assert_eq!(run.steps[1].calls[0].arguments["query"], "make");
        let patch = &run.steps[2].calls[0];
        assert_eq!(
            (patch.edits[0].path.as_str(), patch.edits[0].added),
            ("Makefile", 1)
        );
        assert_eq!(patch.result.as_ref().unwrap().error, Some(true));
        assert_eq!(run.steps[3].text, "Done.");
        assert_eq!(log.skipped.count, 1);
        assert!(log.skipped.first[0].reason.contains("hologram"));
    }

    #[test]
    fn requests_that_repeat_the_dialogue_are_read_once() {
        let call = json!({"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"});
        let log = read_value(&json!([
            {"id": "resp_1", "input": [{"role": "user", "content": "go"}], "output": [call], "usage": {"total_tokens": 7}},
            {"id": "resp_2", "input": [{"role": "user", "content": "go"}, call,
                {"type": "function_call_output", "call_id": "a", "output": "seen"}],
             "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}]}
        ]));
        let run = only_run(&log);
        assert_eq!(run.steps.len(), 2, "{run:#?}");
        assert_eq!(run.steps[0].usage.tokens, Some(7));
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().content, "seen");
        assert!(run.steps[0].replies.is_empty());
    }

    #[test]
    fn headers_of_outputs_are_parsed() {
        let result =
            text_output("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nboom\n");
        assert_eq!((result.content.as_str(), result.exit_code), ("boom\n", Some(1)));
        assert_eq!(text_output("Exit code: 3\nfailed").exit_code, Some(3));
        assert_eq!(text_output("{\"output\": ").content, "{\"output\": ");
    }
}
