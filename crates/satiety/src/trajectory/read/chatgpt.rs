//! ChatGPT data exports: conversations whose messages form a tree in `mapping`. The branch that ends at
//! `current_node` is read. An assistant message with a `recipient` other than `all` is a call of that tool.

use serde_json::Value;

use super::value::{describe, first_string, string, time};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether a record is a conversation with a tree of messages.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| {
        record
            .get("mapping")
            .and_then(Value::as_object)
            .is_some_and(|nodes| {
                nodes
                    .values()
                    .take(super::DETECTION_RECORDS)
                    .any(|node| node.get("parent").is_some() || node.get("children").is_some())
            })
    })
}

/// Reader of conversations.
pub(super) struct ChatGpt;

impl Reader for ChatGpt {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        if value.get("mapping").is_none_or(|nodes| !nodes.is_object()) {
            out.skip(
                line,
                format!("a conversation without `mapping`: {}", describe(value)),
            );
            return;
        }
        out.builder.id(first_string(value, &["conversation_id", "id"]));
        let mut ended = false;
        for message in branch(value) {
            ended = message.get("end_turn").and_then(Value::as_bool) == Some(true);
            add(message, line, out);
        }
        if ended && let Some(last) = out.builder.trajectory_mut().steps.last_mut() {
            last.finish |= last.calls.is_empty();
        }
    }
}

/// Messages from the root to the current node.
fn branch(conversation: &Value) -> Vec<&Value> {
    let Some(nodes) = conversation.get("mapping").and_then(Value::as_object) else {
        return Vec::new();
    };
    let leaf = string(conversation, "current_node")
        .filter(|id| nodes.contains_key(*id))
        .or_else(|| latest_leaf(nodes));
    let mut messages = Vec::new();
    let mut next = leaf;
    // A node is visited at most once in a tree; a cycle ends after as many steps as there are nodes.
    for _ in 0..nodes.len() {
        let Some(node) = next.and_then(|id| nodes.get(id)) else {
            break;
        };
        messages.extend(node.get("message").filter(|message| message.is_object()));
        next = string(node, "parent");
    }
    messages.reverse();
    messages
}

/// The leaf with the latest message, for conversations without a current node.
fn latest_leaf(nodes: &serde_json::Map<String, Value>) -> Option<&str> {
    let created = |node: &Value| {
        node.get("message")
            .and_then(|message| message.get("create_time"))
            .and_then(Value::as_f64)
            .unwrap_or(0.0)
    };
    nodes
        .iter()
        .filter(|(_, node)| {
            node.get("children")
                .and_then(Value::as_array)
                .is_none_or(Vec::is_empty)
        })
        .max_by(|(_, first), (_, second)| created(first).total_cmp(&created(second)))
        .map(|(id, _)| id.as_str())
}

fn add(message: &Value, line: usize, out: &mut Output) {
    let author = message.get("author").unwrap_or(&Value::Null);
    let content = message.get("content").unwrap_or(&Value::Null);
    let metadata = message.get("metadata").unwrap_or(&Value::Null);
    let kind = string(content, "content_type").unwrap_or_default();
    match string(author, "role") {
        Some("system" | "developer" | "critic") => {}
        Some("user") => {
            if kind != "user_editable_context" {
                out.builder.reply(None, &text_of(content));
            }
        }
        Some("assistant") => {
            if matches!(kind, "thoughts" | "reasoning_recap" | "model_editable_context") {
                return;
            }
            let step = out.builder.turn(None, TurnStart::AfterAnswer);
            step.time = step.time.or_else(|| message.get("create_time").and_then(time));
            let text = text_of(content);
            match string(message, "recipient") {
                None | Some("all") => out.builder.text(&text),
                Some(tool) => out.builder.call(None, tool, Value::String(text)),
            }
        }
        Some("tool") => {
            let status = metadata
                .get("aggregate_result")
                .and_then(|result| string(result, "status"));
            let error = match (kind, status) {
                ("system_error", _) => Some(true),
                (_, Some(status)) => Some(status != "success"),
                _ => None,
            };
            let result = CallResult {
                content: text_of(content),
                error,
                exit_code: None,
            };
            tool_message(result, line, out);
        }
        _ => out.skip(
            line,
            format!("a message without a known author: {}", describe(author)),
        ),
    }
}

/// Attaches a message of a tool to its call; further messages of the same call are appended.
fn tool_message(result: CallResult, line: usize, out: &mut Output) {
    let last = out.builder.trajectory_mut().steps.last_mut();
    let call = last.and_then(|step| {
        let recent = step.calls.len().saturating_sub(RECENT_CALLS);
        let calls = step.calls.get_mut(recent..)?;
        let open = calls.iter().position(|call| call.result.is_none());
        let index = open.or_else(|| calls.len().checked_sub(1))?;
        calls.get_mut(index)
    });
    match call {
        Some(call) => match &mut call.result {
            Some(earlier) => {
                if !earlier.content.is_empty() && !result.content.is_empty() {
                    earlier.content.push_str("\n\n");
                }
                earlier.content.push_str(&result.content);
                earlier.error = result.error.or(earlier.error);
            }
            None => call.result = Some(result),
        },
        None => out.skip(line, "a result without its call"),
    }
    out.builder.end_turn();
}

/// Number of calls of a step, counted from the end, among which the call of a result is searched.
const RECENT_CALLS: usize = 64;

/// The text of a content object: its parts, or the field that its type has.
fn text_of(content: &Value) -> String {
    if let Some(parts) = content.get("parts").and_then(Value::as_array) {
        let texts: Vec<&str> = parts
            .iter()
            .filter_map(|part| part.as_str().or_else(|| string(part, "text")))
            .filter(|text| !text.is_empty())
            .collect();
        return texts.join("\n");
    }
    first_string(content, &["text", "result", "content"])
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{only_run, read_value};
    use crate::trajectory::LogFormat;
    use serde_json::{Value, json};

    fn node(parent: &str, message: &Value) -> Value {
        json!({"parent": parent, "children": [], "message": message})
    }

    #[test]
    fn the_current_branch_is_read() {
        let log = read_value(&json!([
            {"title": "Sums", "conversation_id": "g1", "current_node": "6", "mapping": {
                "0": {"parent": null, "children": ["1"], "message": null},
                "1": node("0", &json!({"author": {"role": "system"}, "content": {"content_type": "text", "parts": [""]}})),
                "2": node("1", &json!({"author": {"role": "user"}, "content": {"content_type": "multimodal_text",
                    "parts": [{"content_type": "image_asset_pointer"}, "Add the column"]}})),
                "3": node("2", &json!({"author": {"role": "assistant"}, "recipient": "python", "create_time": 1700000000.5,
                    "content": {"content_type": "code", "language": "python", "text": "print(df.sum())"}})),
                "x": node("2", &json!({"author": {"role": "assistant"}, "recipient": "all",
                    "content": {"content_type": "text", "parts": ["another branch"]}})),
                "4": node("3", &json!({"author": {"role": "tool", "name": "python"}, "recipient": "all",
                    "content": {"content_type": "execution_output", "text": "NameError: df"},
                    "metadata": {"aggregate_result": {"status": "failed_with_in_kernel_exception"}}})),
                "5": node("4", &json!({"author": {"role": "ghost"}, "content": {}})),
                "6": node("5", &json!({"author": {"role": "assistant"}, "recipient": "all", "end_turn": true,
                    "content": {"content_type": "text", "parts": ["There is no table."]}}))
            }},
            {"title": "Empty", "id": "g2", "mapping": {"a": {"parent": "b", "children": []}, "b": {"parent": "a", "children": []}}},
            "odd"
        ]));
        assert_eq!(log.format, LogFormat::ChatGpt);
        let run = only_run(&log);
        assert_eq!(run.id.as_deref(), Some("g1"));
        assert_eq!(run.task.as_deref(), Some("Add the column"));
        assert_eq!(run.steps.len(), 2, "{run:#?}");
        let call = &run.steps[0].calls[0];
        assert_eq!(
            (call.tool.as_str(), call.command()),
            ("python", Some("print(df.sum())"))
        );
        assert_eq!(call.result.as_ref().unwrap().error, Some(true));
        assert!(run.steps[0].time.is_some());
        assert_eq!(run.steps[1].text, "There is no table.");
        assert!(run.steps[1].finish);
        assert_eq!(log.skipped.count, 2, "{:?}", log.skipped);
    }
}
