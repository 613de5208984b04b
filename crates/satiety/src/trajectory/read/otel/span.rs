//! Spans in the representations of exporters, and their attributes by convention.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::super::value::{content_text, first_string, string, time};
use crate::trajectory::step::Usage;

/// Whether the records are spans or contain them.
pub(in super::super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| {
        let mut any = false;
        visit(record, &mut |_| any = true) && any
    })
}

/// What a span records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanKind {
    Model,
    Tool,
    Agent,
    Other,
}

/// A span with the attributes that matter for trajectories.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) kind: SpanKind,
    /// Name of the agent, if the span has it.
    pub(super) agent: Option<String>,
    /// Id of the conversation or session.
    pub(super) conversation: Option<String>,
    /// Begin in nanoseconds since 1970.
    pub(super) start: i128,
    /// Message of the error with which the span ended.
    pub(super) error: Option<String>,
    name: String,
    attributes: Attributes,
}

type Attributes = BTreeMap<String, Value>;

/// Adds the spans in a record to `spans`. Returns whether the record is a span or contains a list of spans.
pub(super) fn collect(value: &Value, spans: &mut Vec<Span>) -> bool {
    visit(value, &mut |span| spans.push(Span::new(span)))
}

/// Calls `action` with every span in a record. Returns whether the record has the form of spans.
pub(super) fn visit<'a>(value: &'a Value, action: &mut dyn FnMut(&'a Value)) -> bool {
    for key in ["resourceSpans", "resource_spans", "batches"] {
        if let Some(resources) = value.get(key).and_then(Value::as_array) {
            for resource in resources {
                visit(resource, action);
            }
            return true;
        }
    }
    for key in ["scopeSpans", "scope_spans", "instrumentationLibrarySpans"] {
        if let Some(scopes) = value.get(key).and_then(Value::as_array) {
            for span in scopes.iter().flat_map(|scope| array(scope, "spans")) {
                action(span);
            }
            return true;
        }
    }
    let spans = array(value, "spans");
    if spans.iter().any(is_span) {
        for span in spans {
            action(span);
        }
        return true;
    }
    if is_span(value) {
        action(value);
        return true;
    }
    false
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Whether a value is a single span.
fn is_span(value: &Value) -> bool {
    string(value, "name").is_some() && id_of(value, SPAN_ID).is_some() && id_of(value, TRACE_ID).is_some()
}

/// Spellings of ids in exporters.
const SPAN_ID: &[&str] = &["spanId", "span_id", "context.span_id", "id"];
const TRACE_ID: &[&str] = &["traceId", "trace_id", "context.trace_id"];
const PARENT_ID: &[&str] = &["parentSpanId", "parent_span_id", "parent_id", "parentId"];

/// Spellings of attributes in conventions and instrumentations.
const AGENT_NAMES: &[&str] = &["gen_ai.agent.name", "agent.name"];
const CONVERSATIONS: &[&str] = &["gen_ai.conversation.id", "session.id"];
const TOOL_NAMES: &[&str] = &["gen_ai.tool.name", "tool.name", "traceloop.entity.name"];
const CALL_IDS: &[&str] = &["gen_ai.tool.call.id", "tool_call.id", "tool.id"];
const ARGUMENTS: &[&str] = &[
    "gen_ai.tool.call.arguments",
    "input.value",
    "traceloop.entity.input",
];
const RESULTS: &[&str] = &[
    "gen_ai.tool.call.result",
    "output.value",
    "traceloop.entity.output",
];

/// An id in a span or in its context.
fn id_of<'a>(span: &'a Value, keys: &[&str]) -> Option<&'a str> {
    first_string(span, keys).or_else(|| {
        ["context", "spanContext"]
            .iter()
            .find_map(|context| first_string(span.get(context)?, keys))
    })
}

impl Span {
    pub(super) fn new(value: &Value) -> Self {
        let mut attributes = attributes_of(value);
        let kind = kind_of(value, &attributes);
        if kind == SpanKind::Model || kind == SpanKind::Agent {
            for event in array(value, "events") {
                add_event(event, &mut attributes);
            }
        }
        let text = |keys: &[&str]| {
            keys.iter()
                .find_map(|key| attributes.get(*key)?.as_str())
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        Self {
            trace: id_of(value, TRACE_ID).unwrap_or_default().to_owned(),
            id: id_of(value, SPAN_ID).unwrap_or_default().to_owned(),
            parent: id_of(value, PARENT_ID).map(str::to_owned),
            kind,
            agent: text(AGENT_NAMES),
            conversation: text(CONVERSATIONS),
            start: start_of(value),
            error: error_of(value),
            name: string(value, "name").unwrap_or_default().to_owned(),
            attributes,
        }
    }

    fn get(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter()
            .find_map(|key| self.attributes.get(*key))
            .filter(|value| !value.is_null())
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        Timestamp::from_nanosecond(self.start)
            .ok()
            .filter(|_| self.start > 0)
    }

    /// Name of the tool, from the attributes or the name of the span.
    pub(super) fn tool(&self) -> &str {
        self.get(TOOL_NAMES)
            .and_then(Value::as_str)
            .unwrap_or_else(|| self.name.strip_prefix("execute_tool ").unwrap_or(&self.name))
    }

    pub(super) fn call_id(&self) -> Option<&str> {
        self.get(CALL_IDS)
            .and_then(Value::as_str)
            .filter(|id| !id.is_empty())
    }

    pub(super) fn tool_arguments(&self) -> Value {
        match self.get(ARGUMENTS) {
            Some(Value::String(text)) if text.trim_start().starts_with('{') => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            Some(arguments) => arguments.clone(),
            None => Value::Null,
        }
    }

    /// Output of a tool, or the message of the error if there is none.
    pub(super) fn tool_result(&self) -> String {
        match self.get(RESULTS) {
            Some(result) => content_text(result),
            None => self.error.clone().unwrap_or_default(),
        }
    }

    /// Tokens and cost of a model call.
    pub(super) fn usage(&self) -> Usage {
        let number = |keys: &[&str]| -> Option<u64> {
            let value = self.get(keys)?;
            value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
        };
        let total = number(&[
            "llm.token_count.total",
            "gen_ai.usage.total_tokens",
            "llm.usage.total_tokens",
        ]);
        let input = number(&[
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "llm.token_count.prompt",
        ]);
        let output = number(&[
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
        ]);
        let sum = || Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0)));
        Usage {
            tokens: total.or_else(|| sum().filter(|_| input.is_some() || output.is_some())),
            cost: self
                .get(&["llm.cost.total", "gen_ai.usage.cost"])
                .and_then(Value::as_f64),
        }
    }

    /// Messages that the model received, oldest first.
    pub(super) fn input_messages(&self) -> Vec<Value> {
        self.messages(
            &["gen_ai.input.messages", "gen_ai.prompt", EVENT_INPUT],
            &["llm.input_messages", "gen_ai.prompt"],
            "user",
        )
    }

    /// Messages that the model produced.
    pub(super) fn output_messages(&self) -> Vec<Value> {
        self.messages(
            &["gen_ai.output.messages", "gen_ai.completion", EVENT_OUTPUT],
            &["llm.output_messages", "gen_ai.completion"],
            "assistant",
        )
    }

    /// Messages in an attribute with a list, or else in numbered attributes. A text that is not a list is a
    /// message of `role`.
    fn messages(&self, lists: &[&str], prefixes: &[&str], role: &str) -> Vec<Value> {
        for key in lists {
            let parsed = match self.attributes.get(*key) {
                Some(Value::String(text)) => {
                    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
                }
                Some(value) => value.clone(),
                None => continue,
            };
            match parsed {
                Value::Array(messages) if !messages.is_empty() => return messages,
                Value::Object(mut object) => {
                    return match object.remove("messages") {
                        Some(Value::Array(messages)) => messages,
                        _ => vec![Value::Object(object)],
                    };
                }
                Value::String(text) if !text.is_empty() => {
                    return vec![serde_json::json!({ "role": role, "content": text })];
                }
                _ => {}
            }
        }
        prefixes
            .iter()
            .map(|prefix| self.numbered_messages(prefix, role))
            .find(|messages| !messages.is_empty())
            .unwrap_or_default()
    }

    /// Messages in attributes such as `llm.input_messages.0.message.role`.
    fn numbered_messages(&self, prefix: &str, role: &str) -> Vec<Value> {
        let prefix = format!("{prefix}.");
        let mut messages: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
        let mut calls: BTreeMap<(u64, u64), Map<String, Value>> = BTreeMap::new();
        let numbered = self
            .attributes
            .range(prefix.clone()..)
            .take_while(|(key, _)| key.starts_with(&prefix));
        for (key, value) in numbered {
            let Some((index, field)) = key[prefix.len()..].split_once('.') else {
                continue;
            };
            let Ok(index) = index.parse::<u64>() else {
                continue;
            };
            let message = messages.entry(index).or_default();
            let field = field.strip_prefix("message.").unwrap_or(field);
            if let Some(call) = field.strip_prefix("tool_calls.") {
                let Some((number, field)) = call.split_once('.') else {
                    continue;
                };
                if let Ok(number) = number.parse::<u64>() {
                    let field = field.strip_prefix("tool_call.").unwrap_or(field);
                    let field = field.strip_prefix("function.").unwrap_or(field);
                    calls
                        .entry((index, number))
                        .or_default()
                        .insert(field.to_owned(), value.clone());
                }
            } else if field.starts_with("contents.") {
                // Attributes are sorted, so parts after the tenth are out of order; their text is kept.
                if let (true, Some(text)) = (field.ends_with(".message_content.text"), value.as_str())
                    && let Value::Array(parts) =
                        message.entry("parts").or_insert_with(|| Value::Array(Vec::new()))
                {
                    parts.push(Value::String(text.to_owned()));
                }
            } else {
                message.insert(field.to_owned(), value.clone());
            }
        }
        for ((index, _), call) in calls {
            if let Some(message) = messages.get_mut(&index)
                && let Value::Array(calls) = message
                    .entry("tool_calls")
                    .or_insert_with(|| Value::Array(Vec::new()))
            {
                calls.push(Value::Object(call));
            }
        }
        messages
            .into_values()
            .map(|mut message| {
                message
                    .entry("role")
                    .or_insert_with(|| Value::String(role.to_owned()));
                Value::Object(message)
            })
            .collect()
    }
}

/// Attributes for messages in events, as the conventions of 2024 had them.
const EVENT_INPUT: &str = "events.input";
const EVENT_OUTPUT: &str = "events.output";

/// Adds a message in an event to the attributes.
fn add_event(event: &Value, attributes: &mut Attributes) {
    let Some(name) = string(event, "name") else {
        return;
    };
    let mut fields = attributes_of(event);
    let (list, role) = match name {
        "gen_ai.client.inference.operation.details"
        | "gen_ai.content.prompt"
        | "gen_ai.content.completion" => {
            attributes.append(&mut fields);
            return;
        }
        "gen_ai.user.message" => (EVENT_INPUT, "user"),
        "gen_ai.system.message" => (EVENT_INPUT, "system"),
        "gen_ai.assistant.message" => (EVENT_INPUT, "assistant"),
        "gen_ai.tool.message" => (EVENT_INPUT, "tool"),
        "gen_ai.choice" => (EVENT_OUTPUT, "assistant"),
        _ => return,
    };
    // Structured fields are JSON in texts where attributes must be flat.
    for (key, value) in &mut fields {
        if matches!(key.as_str(), "message" | "tool_calls" | "gen_ai.event.content")
            && let Some(parsed) = value
                .as_str()
                .and_then(|text| serde_json::from_str::<Value>(text).ok())
        {
            *value = parsed;
        }
    }
    let mut message = match fields
        .remove("message")
        .or_else(|| fields.remove("gen_ai.event.content"))
    {
        Some(Value::Object(mut content)) => match content.remove("message") {
            Some(Value::Object(inner)) => inner,
            Some(other) => Map::from_iter([("content".to_owned(), other)]),
            None => content,
        },
        Some(content) => Map::from_iter([("content".to_owned(), content)]),
        None => fields.into_iter().collect(),
    };
    message
        .entry("role")
        .or_insert_with(|| Value::String(role.to_owned()));
    if let Value::Array(messages) = attributes
        .entry(list.to_owned())
        .or_insert_with(|| Value::Array(Vec::new()))
    {
        messages.push(Value::Object(message));
    }
}

/// Attributes of a span or event: a list of typed values, an object, or fields `attributes.…`. Only those of
/// the conventions are kept, with objects flattened to names with dots.
fn attributes_of(value: &Value) -> Attributes {
    let mut attributes = Attributes::new();
    match value.get("attributes") {
        Some(Value::Array(list)) => {
            for attribute in list {
                if let Some(key) = string(attribute, "key")
                    && is_relevant(key)
                {
                    let value = attribute.get("value").map(any_value).unwrap_or_default();
                    attributes.insert(key.to_owned(), value);
                }
            }
        }
        Some(Value::Object(object)) => {
            for (key, value) in object {
                if is_relevant(key) {
                    flatten(key.clone(), value, &mut attributes, 0);
                }
            }
        }
        _ => {
            for (key, value) in value.as_object().into_iter().flatten() {
                if let Some(key) = key.strip_prefix("attributes.")
                    && is_relevant(key)
                {
                    flatten(key.to_owned(), value, &mut attributes, 0);
                }
            }
        }
    }
    attributes
}

/// Whether an attribute belongs to one of the conventions; others may be large.
fn is_relevant(key: &str) -> bool {
    let root = key.split_once('.').map_or(key, |(root, _)| root);
    matches!(
        root,
        "gen_ai"
            | "llm"
            | "openinference"
            | "tool"
            | "tool_call"
            | "input"
            | "output"
            | "session"
            | "agent"
            | "traceloop"
            // Fields of events with messages.
            | "role"
            | "content"
            | "message"
            | "tool_calls"
            | "id"
            | "name"
    )
}

/// Flattens objects, and the lists of messages of OpenInference, to names with dots.
fn flatten(key: String, value: &Value, attributes: &mut Attributes, depth: usize) {
    if depth > MAX_FLATTENED || key.starts_with("gen_ai.") && depth == 0 {
        attributes.insert(key, value.clone());
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                flatten(format!("{key}.{name}"), value, attributes, depth + 1);
            }
        }
        Value::Array(list) if key.starts_with("llm.") => {
            for (index, value) in list.iter().enumerate() {
                flatten(format!("{key}.{index}"), value, attributes, depth + 1);
            }
        }
        other => {
            attributes.insert(key, other.clone());
        }
    }
}

/// How deep nested attributes are flattened.
const MAX_FLATTENED: usize = 12;

/// The value of a typed value of OTLP.
fn any_value(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|object| object.iter().next()) else {
        return value.clone();
    };
    match kind.as_str() {
        "intValue" | "int_value" => match inner.as_str().and_then(|text| text.parse::<i64>().ok()) {
            Some(number) => Value::from(number),
            None => inner.clone(),
        },
        "arrayValue" | "array_value" => Value::Array(array(inner, "values").iter().map(any_value).collect()),
        "kvlistValue" | "kvlist_value" => Value::Object(
            array(inner, "values")
                .iter()
                .filter_map(|entry| {
                    let key = string(entry, "key")?.to_owned();
                    Some((key, entry.get("value").map(any_value).unwrap_or_default()))
                })
                .collect(),
        ),
        _ => inner.clone(),
    }
}

/// What a span records, by operation, by kind, or by the attributes that it has.
fn kind_of(value: &Value, attributes: &Attributes) -> SpanKind {
    let text = |key: &str| attributes.get(key).and_then(Value::as_str);
    match text("gen_ai.operation.name") {
        Some("chat" | "text_completion" | "generate_content" | "completion") => return SpanKind::Model,
        Some("execute_tool") => return SpanKind::Tool,
        Some("invoke_agent" | "create_agent" | "invoke_workflow") => return SpanKind::Agent,
        Some("embeddings" | "retrieval") => return SpanKind::Other,
        _ => {}
    }
    let kind = text("openinference.span.kind")
        .or_else(|| text("traceloop.span.kind"))
        .or_else(|| string(value, "span_kind"))
        .unwrap_or_default()
        .to_ascii_lowercase();
    match kind.as_str() {
        "llm" => return SpanKind::Model,
        "tool" | "retriever" => return SpanKind::Tool,
        "agent" => return SpanKind::Agent,
        "chain" | "workflow" | "task" | "embedding" | "reranker" | "guardrail" | "evaluator" | "prompt" => {
            return SpanKind::Other;
        }
        _ => {}
    }
    let has = |prefix: &str| {
        attributes
            .range(prefix.to_owned()..)
            .next()
            .is_some_and(|(key, _)| key.starts_with(prefix))
    };
    let has_choice = array(value, "events")
        .iter()
        .any(|event| string(event, "name") == Some("gen_ai.choice"));
    if has("gen_ai.output.messages")
        || has("gen_ai.completion")
        || has("llm.output_messages")
        || text("llm.request.type") == Some("chat")
        || has_choice
    {
        SpanKind::Model
    } else if has("gen_ai.tool.name") || has("tool.name") {
        SpanKind::Tool
    } else {
        SpanKind::Other
    }
}

/// Begin of a span in nanoseconds; 0 if it is unknown.
fn start_of(value: &Value) -> i128 {
    let nanoseconds = ["startTimeUnixNano", "start_time_unix_nano"]
        .iter()
        .find_map(|key| value.get(key));
    if let Some(nanoseconds) = nanoseconds {
        return match nanoseconds {
            Value::String(text) => text.trim().parse().unwrap_or(0),
            other => other.as_u64().map_or(0, i128::from),
        };
    }
    ["start_time", "startTime", "timestamp"]
        .iter()
        .find_map(|key| match value.get(key)? {
            // Seconds and nanoseconds, as the JavaScript SDK prints them.
            Value::Array(pair) => {
                let part = |index: usize| pair.get(index).and_then(Value::as_i64).map(i128::from);
                part(0)?.checked_mul(1_000_000_000)?.checked_add(part(1)?)
            }
            other => time(other).map(Timestamp::as_nanosecond),
        })
        .unwrap_or(0)
}

/// The message of the error with which a span ended, possibly empty; `None` if it did not fail.
fn error_of(value: &Value) -> Option<String> {
    let status = value.get("status").unwrap_or(&Value::Null);
    let code = ["code", "status_code"].iter().find_map(|key| status.get(key));
    let failed = match code.or_else(|| value.get("status_code")).unwrap_or(status) {
        Value::Number(number) => number.as_u64() == Some(2),
        Value::String(text) => matches!(
            text.as_str(),
            "STATUS_CODE_ERROR" | "ERROR" | "StatusCode.ERROR" | "2"
        ),
        _ => false,
    };
    if !failed {
        return None;
    }
    let message = first_string(status, &["message", "description"])
        .or_else(|| string(value, "status_message"))
        .map(str::to_owned);
    let exception = || {
        array(value, "events").iter().find_map(|event| {
            let list = event.get("attributes")?;
            let typed = list
                .as_array()
                .into_iter()
                .flatten()
                .find(|attribute| string(attribute, "key") == Some("exception.message"))
                .and_then(|attribute| Some(any_value(attribute.get("value")?)));
            let value = typed.or_else(|| list.get("exception.message").cloned())?;
            value.as_str().map(str::to_owned)
        })
    };
    Some(message.or_else(exception).unwrap_or_default())
}
