//! LangChain messages in their three forms (`dumps`, `messages_to_dict`, plain), LangGraph states, updates
//! and checkpoints, and LangSmith runs.

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::chat::{Chat, tokens, tool_result};
use super::value::{content_text, describe, first_string, string, time};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether the records are LangChain messages, states with messages, or LangSmith runs.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| {
        is_run(record)
            || is_typical(record)
            || message_lists(record)
                .iter()
                .any(|(_, messages)| messages.iter().take(super::DETECTION_RECORDS).any(is_typical))
    })
}

/// Whether a record is a message in a shape that only LangChain has.
fn is_typical(value: &Value) -> bool {
    let is_lc = value.get("lc").is_some() && string(value, "type") == Some("constructor");
    is_lc && Message::of(value).is_some()
        || (value.get("content").is_some() || value.get("data").is_some_and(Value::is_object))
            && value.get("role").is_none()
            && string(value, "type").is_some_and(|kind| {
                matches!(
                    kind,
                    "human" | "ai" | "HumanMessage" | "AIMessage" | "AIMessageChunk" | "ToolMessage"
                )
            })
}

fn is_run(value: &Value) -> bool {
    string(value, "run_type").is_some() && (value.get("inputs").is_some() || value.get("outputs").is_some())
}

/// The lists of messages in a record: in a state, or in the updates of nodes, with the node's name.
fn message_lists(value: &Value) -> Vec<(Option<&str>, &Vec<Value>)> {
    let list = |value: &'_ Value| value.get("messages").is_some_and(Value::is_array);
    let states = [
        Some(value),
        value.get("values"),
        value.get("channel_values"),
        value.pointer("/checkpoint/channel_values"),
        value.get("output"),
        value.get("state"),
    ];
    let state = states.into_iter().flatten().find(|state| list(state));
    if let Some(messages) = state.and_then(|state| state.get("messages")?.as_array()) {
        return vec![(None, messages)];
    }
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(node, update)| Some((Some(node.as_str()), update.get("messages")?.as_array()?)))
        .collect()
}

/// A message of any form: its kind, and the object with its fields.
struct Message<'a> {
    kind: Kind,
    fields: &'a Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Human,
    Ai,
    Tool,
    System,
    Removal,
}

impl<'a> Message<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        let (name, fields) = if value.get("lc").is_some() {
            let class = value.get("id")?.as_array()?.last()?.as_str()?;
            (class, value.get("kwargs")?)
        } else {
            let name = first_string(value, &["type", "role"])?;
            (
                name,
                value.get("data").filter(|data| data.is_object()).unwrap_or(value),
            )
        };
        let name = name.trim_end_matches("Chunk");
        let kind = match name {
            "human" | "HumanMessage" | "user" => Kind::Human,
            "ai" | "AIMessage" | "assistant" => Kind::Ai,
            "tool" | "ToolMessage" | "function" | "FunctionMessage" => Kind::Tool,
            "system" | "SystemMessage" | "developer" => Kind::System,
            "remove" | "RemoveMessage" => Kind::Removal,
            // A `ChatMessage` names its role in a field.
            "chat" | "ChatMessage" => match string(fields, "role")? {
                "user" | "human" => Kind::Human,
                "system" => Kind::System,
                _ => Kind::Ai,
            },
            _ => return None,
        };
        Some(Self { kind, fields })
    }
}

/// Reader of LangChain messages, states and runs.
#[derive(Debug, Default)]
pub(super) struct Langchain {
    chat: Chat,
    /// Ids of messages that were read: every state of a graph repeats the earlier ones.
    seen: FxHashSet<String>,
    /// Number of messages of the longest state so far, for messages without ids.
    longest: usize,
    /// LangSmith runs with the key of their order.
    runs: Vec<(String, Value)>,
}

impl Reader for Langchain {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        if is_run(value) {
            self.collect_run(value, out);
            return;
        }
        let lists = message_lists(value);
        if lists.is_empty() && Message::of(value).is_none() {
            let is_state = ["values", "channel_values", "checkpoint", "__interrupt__"]
                .iter()
                .any(|key| value.get(key).is_some());
            // States and updates without messages are the rule for other channels of a graph.
            if !is_state {
                out.skip(line, format!("unknown message: {}", describe(value)));
            }
        } else if lists.is_empty() {
            self.message(None, value, line, out);
        }
        let config = value.pointer("/config/configurable").unwrap_or(&Value::Null);
        out.builder
            .id(first_string(value, &["thread_id", "run_id"]).or_else(|| string(config, "thread_id")));
        for (node, messages) in lists {
            let is_state = node.is_none();
            for (index, message) in messages.iter().enumerate() {
                let is_known = match message_id(message) {
                    Some(id) => !self.seen.insert(id.to_owned()),
                    None => is_state && index < self.longest,
                };
                if !is_known {
                    self.message(node, message, line, out);
                }
            }
            if is_state {
                self.longest = self.longest.max(messages.len());
            }
        }
    }

    fn end(&mut self, out: &mut Output) {
        self.runs.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (_, run) in std::mem::take(&mut self.runs) {
            self.run(&run, out);
        }
    }
}

fn message_id(message: &Value) -> Option<&str> {
    string(Message::of(message)?.fields, "id")
}

impl Langchain {
    fn message(&mut self, node: Option<&str>, value: &Value, line: usize, out: &mut Output) {
        let Some(message) = Message::of(value) else {
            out.skip(line, format!("unknown message: {}", describe(value)));
            return;
        };
        let fields = message.fields;
        match message.kind {
            Kind::System | Kind::Removal => {}
            Kind::Human => {
                let content = fields.get("content").map(content_text).unwrap_or_default();
                out.builder.reply(string(fields, "name"), &content);
            }
            Kind::Tool => self.chat.tool(fields, out),
            Kind::Ai => self.agent(string(fields, "name").or(node), fields, out),
        }
    }

    fn agent(&mut self, name: Option<&str>, fields: &Value, out: &mut Output) {
        let calls = |key: &str| {
            fields
                .get(key)
                .and_then(Value::as_array)
                .filter(|list| !list.is_empty())
        };
        let has_calls = calls("tool_calls").is_some();
        // The content of some providers repeats the calls.
        let mut message = fields.clone();
        if let (true, Some(Value::Array(parts))) = (has_calls, message.get_mut("content")) {
            parts.retain(|part| {
                !matches!(
                    string(part, "type"),
                    Some("tool_use" | "tool_call" | "function_call")
                )
            });
        }
        self.chat.assistant(&message, name, out);
        if !has_calls {
            let original = fields.get("additional_kwargs").unwrap_or(&Value::Null);
            for call in original
                .get("tool_calls")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let function = call.get("function").unwrap_or(call);
                add_call(string(call, "id"), function, out);
            }
            if let Some(function) = original.get("function_call") {
                add_call(None, function, out);
            }
        }
        for call in calls("invalid_tool_calls").into_iter().flatten() {
            add_call(string(call, "id"), call, out);
        }
        let step = out.builder.turn(None, TurnStart::Continue);
        let usage = fields
            .get("usage_metadata")
            .filter(|usage| usage.is_object())
            .or_else(|| fields.pointer("/response_metadata/token_usage"));
        step.usage.tokens = usage.and_then(tokens).or(step.usage.tokens);
    }

    /// Keeps a run and its children until the end: files list them in any order.
    fn collect_run(&mut self, run: &Value, out: &mut Output) {
        let mut open = vec![run];
        while let Some(run) = open.pop() {
            match string(run, "run_type") {
                Some("llm" | "tool") => {
                    let key = first_string(run, &["dotted_order", "start_time"]).unwrap_or_default();
                    self.runs.push((key.to_owned(), without_children(run)));
                }
                _ => out.builder.id(first_string(run, &["trace_id", "id"])),
            }
            if let Some(children) = run.get("child_runs").and_then(Value::as_array) {
                open.extend(children.iter().rev());
            }
        }
    }

    fn run(&mut self, run: &Value, out: &mut Output) {
        let null = Value::Null;
        let outputs = run.get("outputs").unwrap_or(&null);
        if string(run, "run_type") == Some("llm") {
            self.add_request(run, out);
            let message = outputs
                .pointer("/generations/0/0/message")
                .or_else(|| outputs.pointer("/generations/0/message"))
                .or_else(|| outputs.get("output"))
                .and_then(Message::of)
                .filter(|message| message.kind == Kind::Ai);
            match message {
                Some(message) => self.agent(string(message.fields, "name"), message.fields, out),
                None => {
                    let text = outputs
                        .pointer("/generations/0/0/text")
                        .or_else(|| outputs.pointer("/choices/0/message/content"));
                    out.builder.turn(None, TurnStart::New);
                    out.builder.text(&text.map(content_text).unwrap_or_default());
                }
            }
            let step = out.builder.turn(None, TurnStart::Continue);
            step.time = step.time.or_else(|| time(run.get("start_time")?));
            return;
        }
        let output = outputs.get("output").unwrap_or(outputs);
        let fields = Message::of(output).map_or(output, |message| message.fields);
        let id = string(fields, "tool_call_id");
        if !out.builder.awaits_result() {
            let tool = string(run, "name").unwrap_or_default();
            let inputs = run.get("inputs").unwrap_or(&null);
            out.builder
                .call(id, tool, inputs.get("input").unwrap_or(inputs).clone());
        }
        match string(run, "error") {
            Some(error) => {
                let result = CallResult {
                    content: error.to_owned(),
                    error: Some(true),
                    exit_code: None,
                };
                out.builder.result(id, result);
            }
            None if fields.get("content").is_some() => tool_result(fields, out),
            None => {
                let result = CallResult {
                    content: content_text(fields),
                    ..CallResult::default()
                };
                out.builder.result(id, result);
            }
        }
    }

    /// The request of the user, from the messages that the first model call received.
    fn add_request(&mut self, run: &Value, out: &mut Output) {
        if !out.builder.is_empty() {
            return;
        }
        let inputs = run.get("inputs").unwrap_or(&Value::Null);
        let messages = match inputs
            .get("messages")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            Some([Value::Array(messages), ..]) => messages,
            Some(messages) => messages,
            None => return,
        };
        let request = messages
            .iter()
            .filter_map(Message::of)
            .find(|message| message.kind == Kind::Human);
        if let Some(content) = request.and_then(|message| message.fields.get("content")) {
            out.builder.task(&content_text(content));
        }
    }
}

fn add_call(id: Option<&str>, function: &Value, out: &mut Output) {
    let arguments = ["arguments", "args"].iter().find_map(|key| function.get(key));
    let tool = string(function, "name").unwrap_or_default();
    out.builder.call(id, tool, arguments.cloned().unwrap_or_default());
}

fn without_children(run: &Value) -> Value {
    let Some(object) = run.as_object() else {
        return Value::Null;
    };
    object
        .iter()
        .filter(|(key, _)| {
            matches!(
                key.as_str(),
                "run_type" | "name" | "inputs" | "outputs" | "error" | "start_time"
            )
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::trajectory::{Log, LogFormat, ReadOptions, Trajectory, read};

    fn read_text(text: &str) -> Log {
        let log = read::read(text.as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::Langchain);
        assert_eq!(log.trajectories.len(), 1);
        log
    }

    fn assert_run(run: &Trajectory) {
        assert_eq!(run.task.as_deref(), Some("Weather?"));
        assert_eq!(run.steps.len(), 2);
        let call = &run.steps[0].calls[0];
        assert_eq!(run.steps[0].calls.len(), 1);
        assert_eq!(
            (call.tool.as_str(), &call.arguments),
            ("weather", &json!({"city": "Bonn"}))
        );
        let result = call.result.as_ref().unwrap();
        assert_eq!(
            (result.content.as_str(), result.error),
            ("unknown city", Some(true))
        );
        assert_eq!(run.steps[1].text, "I do not know.");
    }

    fn plain() -> Vec<Value> {
        vec![
            json!({"type": "system", "content": "rules", "id": "0"}),
            json!({"type": "human", "content": "Weather?", "id": "1"}),
            json!({"type": "ai", "id": "2", "content": [{"type": "text", "text": "Looking."}, {"type": "tool_use", "id": "c", "name": "weather", "input": {}}],
                   "tool_calls": [{"name": "weather", "args": {"city": "Bonn"}, "id": "c", "type": "tool_call"}],
                   "usage_metadata": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}),
            json!({"type": "tool", "content": "unknown city", "tool_call_id": "c", "status": "error", "id": "3"}),
            json!({"type": "ai", "content": "I do not know.", "id": "4", "tool_calls": []}),
        ]
    }

    #[test]
    fn all_forms_of_messages_are_read() {
        let list = Value::Array(plain());
        let log = read_text(&list.to_string());
        assert_run(&log.trajectories[0]);
        assert_eq!(log.trajectories[0].steps[0].usage.tokens, Some(5));
        let mut wrapped: Vec<Value> = plain()
            .into_iter()
            .map(|message| json!({"type": message["type"], "data": message}))
            .collect();
        wrapped.push(json!({"odd": 1}));
        let log = read_text(&json!({"messages": wrapped}).to_string());
        assert_eq!(log.skipped.count, 1);
        assert_run(&log.trajectories[0]);
        let dumped: Vec<Value> = plain()
            .into_iter()
            .map(|message| {
                let class = match message["type"].as_str().unwrap() {
                    "human" => "HumanMessage",
                    "ai" => "AIMessage",
                    "tool" => "ToolMessage",
                    _ => "SystemMessage",
                };
                json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", class], "kwargs": message})
            })
            .collect();
        assert_run(&read_text(&Value::Array(dumped).to_string()).trajectories[0]);
    }

    #[test]
    fn states_repeat_messages_and_updates_do_not() {
        let messages = plain();
        let states: Vec<String> = (1..=messages.len())
            .map(|count| json!({"values": {"messages": messages[..count]}, "next": []}).to_string())
            .collect();
        assert_run(&read_text(&states.join("\n")).trajectories[0]);
        let without_ids: Vec<Value> = messages
            .iter()
            .cloned()
            .map(|mut message| {
                message.as_object_mut().unwrap().remove("id");
                message
            })
            .collect();
        let states: Vec<String> = (2..=messages.len())
            .map(|count| json!({"channel_values": {"messages": without_ids[..count]}}).to_string())
            .collect();
        assert_run(&read_text(&states.join("\n")).trajectories[0]);
        let updates = [
            json!({"__start__": {"messages": [messages[1]]}}).to_string(),
            json!({"agent": {"messages": [messages[2]]}}).to_string(),
            json!({"tools": {"messages": [messages[3]]}}).to_string(),
            json!({"agent": {"messages": [messages[4]]}}).to_string(),
        ];
        let log = read_text(&updates.join("\n"));
        assert_run(&log.trajectories[0]);
        assert_eq!(log.trajectories[0].steps[0].agent.as_deref(), Some("agent"));
    }

    #[test]
    fn runs_of_langsmith_are_put_in_order() {
        let messages = plain();
        let model = |at: &str, message: &Value| {
            json!({"id": at, "run_type": "llm", "name": "model", "start_time": at, "inputs": {"messages": [[messages[1]]]},
                   "outputs": {"generations": [[{"text": "", "message": {"type": "ai", "data": message}}]]}})
        };
        let root = json!({"id": "root", "run_type": "chain", "inputs": {}, "outputs": {}, "child_runs": [
            model("2025-06-01T10:00:03", &messages[4]),
            {"id": "t", "run_type": "tool", "name": "weather", "start_time": "2025-06-01T10:00:02", "inputs": {"input": "{'city': 'Bonn'}"},
             "outputs": {"output": messages[3]}},
            model("2025-06-01T10:00:01", &messages[2]),
        ]});
        let log = read_text(&root.to_string());
        assert_run(&log.trajectories[0]);
        assert_eq!(log.trajectories[0].id.as_deref(), Some("root"));
        assert!(log.trajectories[0].steps[0].time.is_some());
    }
}
