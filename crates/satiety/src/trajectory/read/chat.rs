//! Messages with `role` and `content`, as in the OpenAI and Anthropic APIs: text or parts, tool calls next to
//! or within the parts, results as messages or parts.

use serde_json::Value;

use super::value::{content_text, first_string, string, time};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether the records are messages, or a document with `messages`.
pub(super) fn detect(first: &[&Value]) -> bool {
    match first {
        [document] if document.get("messages").is_some_and(Value::is_array) => true,
        // Other keys, such as a header line, may come first.
        records => records.iter().filter(|record| is_message(record)).count() * 2 > records.len(),
    }
}

/// Whether a record is a message of this format.
pub(super) fn is_message(value: &Value) -> bool {
    string(value, "role").is_some()
        && ["content", "tool_calls", "parts", "function_call", "tool_call_id"]
            .iter()
            .any(|key| value.get(key).is_some())
}

/// Reader of chat messages.
#[derive(Debug, Default)]
pub(super) struct Chat {
    /// Id of the last assistant message, for logs that split one message into several records.
    last_id: Option<String>,
}

impl Reader for Chat {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        if let Some(messages) = value.get("messages").and_then(Value::as_array) {
            out.builder.id(first_string(
                value,
                &["conversation_id", "session_id", "id", "instance_id", "task_id"],
            ));
            for message in messages {
                self.message(message, line, out);
            }
            return;
        }
        self.message(value, line, out);
    }
}

impl Chat {
    /// Adds one message.
    pub(super) fn message(&mut self, message: &Value, line: usize, out: &mut Output) {
        let Some(role) = string(message, "role") else {
            // Lists that mix messages with items of the Responses API.
            if super::responses::is_item(message) {
                super::responses::item(message, None, line, out);
                return;
            }
            out.skip(
                line,
                format!("a message without a role: {}", super::value::describe(message)),
            );
            return;
        };
        let name = string(message, "name");
        match role {
            "system" | "developer" => {}
            "user" | "human" => self.user(message, name, out),
            "tool" | "function" | "tool_result" | "ipython" | "environment" => self.tool(message, out),
            "assistant" | "ai" | "model" | "bot" | "agent" => self.assistant(message, name, out),
            speaker => self.assistant(message, name.or(Some(speaker)), out),
        }
    }

    fn user(&mut self, message: &Value, name: Option<&str>, out: &mut Output) {
        let mut text = String::new();
        match message.get("content") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    if string(part, "type") == Some("tool_result") {
                        tool_result(part, out);
                    } else {
                        let part = content_text(std::slice::from_ref(part).first().unwrap_or(&Value::Null));
                        if !text.is_empty() && !part.is_empty() {
                            text.push('\n');
                        }
                        text.push_str(&part);
                    }
                }
            }
            Some(content) => text = content_text(content),
            None => {}
        }
        out.builder.reply(name, &text);
    }

    /// Adds a message with the result of a tool.
    pub(super) fn tool(&mut self, message: &Value, out: &mut Output) {
        let parts = message.get("content").and_then(Value::as_array);
        let results: Vec<&Value> = parts
            .into_iter()
            .flatten()
            .filter(|part| string(part, "type") == Some("tool_result"))
            .collect();
        if results.is_empty() {
            let mut content = message.get("content").map(content_text).unwrap_or_default();
            if content.is_empty() {
                let error = message.get("error").and_then(|error| string(error, "message"));
                content = error.unwrap_or_default().to_owned();
            }
            let result = CallResult {
                content,
                error: error_flag(message),
                exit_code: message.get("exit_code").and_then(Value::as_i64),
            };
            out.builder.result(
                first_string(message, &["tool_call_id", "tool_use_id", "id"]),
                result,
            );
        }
        for part in results {
            tool_result(part, out);
        }
    }

    /// Adds a message of an agent with its tool calls.
    pub(super) fn assistant(&mut self, message: &Value, name: Option<&str>, out: &mut Output) {
        let id = string(message, "id");
        let start = if id.is_some() && id == self.last_id.as_deref() {
            TurnStart::Continue
        } else {
            TurnStart::New
        };
        self.last_id = id.map(str::to_owned);
        let step = out.builder.turn(name, start);
        step.time = step.time.or_else(|| {
            ["timestamp", "created_at", "time"]
                .iter()
                .find_map(|key| time(message.get(key)?))
        });
        if let Some(usage) = message.get("usage") {
            step.usage.tokens = tokens(usage).or(step.usage.tokens);
        }
        step.usage.cost = message.get("cost").and_then(Value::as_f64).or(step.usage.cost);
        match message.get("content") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    match string(part, "type") {
                        Some("tool_use" | "server_tool_use" | "tool-call" | "tool_call") => {
                            let tool = first_string(part, &["name", "toolName"]).unwrap_or_default();
                            let arguments = ["input", "args", "arguments"]
                                .iter()
                                .find_map(|key| part.get(key))
                                .cloned()
                                .unwrap_or_default();
                            out.builder
                                .call(first_string(part, &["id", "toolCallId"]), tool, arguments);
                        }
                        Some("tool_result" | "tool-result" | "web_search_tool_result") => {
                            tool_result(part, out)
                        }
                        Some("thinking" | "redacted_thinking" | "reasoning") => {}
                        _ => out.builder.text(&content_text(part)),
                    }
                }
            }
            Some(content) => out.builder.text(&content_text(content)),
            None => {}
        }
        for call in message
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let function = call
                .get("function")
                .filter(|function| function.is_object())
                .unwrap_or(call);
            let arguments = ["arguments", "args", "input"]
                .iter()
                .find_map(|key| function.get(key))
                .cloned()
                .unwrap_or_default();
            let tool = first_string(function, &["name", "function"]).unwrap_or_default();
            out.builder.call(string(call, "id"), tool, arguments);
        }
        if let Some(function) = message
            .get("function_call")
            .filter(|function| function.is_object())
        {
            let arguments = function.get("arguments").cloned().unwrap_or_default();
            out.builder
                .call(None, string(function, "name").unwrap_or_default(), arguments);
        }
    }
}

/// Attaches a result part to its call.
pub(super) fn tool_result(part: &Value, out: &mut Output) {
    let content = ["content", "output", "result"]
        .iter()
        .find_map(|key| part.get(key));
    let result = CallResult {
        content: content.map(content_text).unwrap_or_default(),
        error: error_flag(part),
        exit_code: part.get("exit_code").and_then(Value::as_i64),
    };
    out.builder.result(
        first_string(part, &["tool_use_id", "toolCallId", "tool_call_id", "call_id"]),
        result,
    );
}

fn error_flag(value: &Value) -> Option<bool> {
    match value.get("is_error").or_else(|| value.get("isError")) {
        Some(flag) => flag.as_bool(),
        None => match string(value, "status") {
            Some("error") => Some(true),
            Some("success") => Some(false),
            _ => value
                .get("error")
                .filter(|error| !error.is_null())
                .map(|error| error != &Value::Bool(false)),
        },
    }
}

/// Total tokens of a usage object of common APIs.
pub(super) fn tokens(usage: &Value) -> Option<u64> {
    let number = |key: &str| usage.get(key).and_then(Value::as_u64);
    number("total_tokens").or_else(|| {
        let parts: Vec<u64> = [
            "input_tokens",
            "output_tokens",
            "prompt_tokens",
            "completion_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ]
        .iter()
        .filter_map(|key| number(key))
        .collect();
        (!parts.is_empty()).then(|| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part)))
    })
}
