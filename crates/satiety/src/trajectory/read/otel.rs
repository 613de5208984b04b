//! OpenTelemetry spans with the GenAI conventions (`gen_ai.*`) or OpenInference (`llm.*`, `tool.*`): OTLP JSON,
//! JSON Lines of it, or single spans as exporters print them.
//!
//! A span of a model call is a turn; its output messages are the content. Its input messages repeat the
//! dialogue, so only what follows the last message of the agent is new: results and messages of users. Spans
//! of tools complete the calls. Spans are grouped by conversation, or else by trace.

mod span;

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use serde_json::Value;

use self::span::{Span, SpanKind};
use super::value::{content_text, describe, first_string, string};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

pub(super) use self::span::detect;

/// Reader of spans.
#[derive(Debug, Default)]
pub(super) struct Otel {
    /// Spans so far, unless they are processed at once.
    spans: Vec<Span>,
    /// State of the only conversation when spans arrive one at a time.
    stream: Option<Conversation>,
}

impl Reader for Otel {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let begin = self.spans.len();
        if !span::collect(value, &mut self.spans) {
            out.skip(line, format!("not a span: {}", describe(value)));
        }
        if let Some(conversation) = &mut self.stream {
            let mut spans: Vec<Span> = self.spans.drain(begin..).collect();
            // A retried export brings spans a second time.
            spans.retain(|span| span.id.is_empty() || !conversation.parents.contains_key(&span.id));
            spans.sort_by_key(|span| span.start);
            out.builder
                .id(spans.iter().find_map(|span| span.conversation.as_deref()));
            for span in &spans {
                conversation.parents.insert(span.id.clone(), Parent::of(span));
            }
            for span in spans {
                conversation.add(&span, out);
            }
        }
    }

    fn end(&mut self, out: &mut Output) {
        let mut spans = std::mem::take(&mut self.spans);
        // Exporters write spans when they end; a retried export writes them twice.
        let mut seen = FxHashSet::default();
        spans.retain(|span| span.id.is_empty() || seen.insert((span.trace.clone(), span.id.clone())));
        spans.sort_by_key(|span| span.start);
        let mut conversations: FxHashMap<String, String> = FxHashMap::default();
        for span in &spans {
            if let Some(id) = &span.conversation {
                conversations
                    .entry(span.trace.clone())
                    .or_insert_with(|| id.clone());
            }
        }
        let mut groups: Vec<(String, Vec<Span>)> = Vec::new();
        let mut positions: FxHashMap<String, usize> = FxHashMap::default();
        for span in spans {
            let id = span
                .conversation
                .clone()
                .or_else(|| conversations.get(&span.trace).cloned())
                .unwrap_or_else(|| span.trace.clone());
            let index = *positions.entry(id.clone()).or_insert(groups.len());
            match groups.get_mut(index) {
                Some((_, group)) => group.push(span),
                None => groups.push((id, vec![span])),
            }
        }
        for (id, group) in groups {
            out.builder.id(Some(&id));
            let mut conversation = Conversation {
                // Without spans of model calls, those of agents are all there is.
                agents_speak: !group.iter().any(|span| span.kind == SpanKind::Model),
                ..Conversation::default()
            };
            for span in &group {
                conversation.parents.insert(span.id.clone(), Parent::of(span));
            }
            for span in &group {
                conversation.add(span, out);
            }
            out.end_trajectory();
        }
    }

    fn stream(&mut self) {
        self.stream = Some(Conversation::default());
    }
}

/// Spans of one conversation in an export, for receivers that follow many conversations at once.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportedSpans {
    /// Id of the trace.
    pub trace: String,
    /// Id of the conversation or session, if some span of the trace has it.
    pub conversation: Option<String>,
    /// Spans of models, tools and agents in the order in which they began.
    pub spans: Vec<Value>,
}

/// Groups the spans of an OTLP export by conversation. Spans that do not record the work of an agent are left
/// out. Returns `None` if the value is not an export.
pub fn split_export(export: &Value) -> Option<Vec<ExportedSpans>> {
    let mut all: Vec<(Span, &Value)> = Vec::new();
    if !span::visit(export, &mut |value| all.push((Span::new(value), value))) {
        return None;
    }
    all.retain(|(span, _)| span.kind != SpanKind::Other);
    all.sort_by_key(|(span, _)| span.start);
    let mut of_trace: FxHashMap<&str, &str> = FxHashMap::default();
    for (span, _) in &all {
        if let Some(conversation) = &span.conversation {
            of_trace.entry(&span.trace).or_insert(conversation);
        }
    }
    let mut groups: Vec<ExportedSpans> = Vec::new();
    let mut positions: FxHashMap<(&str, Option<&str>), usize> = FxHashMap::default();
    for (span, value) in &all {
        let conversation = span
            .conversation
            .as_deref()
            .or_else(|| of_trace.get(span.trace.as_str()).copied());
        let index = *positions.entry((&span.trace, conversation)).or_insert_with(|| {
            groups.push(ExportedSpans {
                trace: span.trace.clone(),
                conversation: conversation.map(str::to_owned),
                spans: Vec::new(),
            });
            groups.len() - 1
        });
        groups[index].spans.push((*value).clone());
    }
    Some(groups)
}

/// What is needed of a span to interpret the spans below it.
#[derive(Debug)]
struct Parent {
    id: Option<String>,
    kind: SpanKind,
    agent: Option<String>,
}

impl Parent {
    fn of(span: &Span) -> Self {
        Self {
            id: span.parent.clone(),
            kind: span.kind,
            agent: span.agent.clone(),
        }
    }
}

/// Spans of one conversation in the order in which they began.
#[derive(Debug, Default)]
struct Conversation {
    parents: FxHashMap<String, Parent>,
    agents_speak: bool,
    /// Hashes of messages of users so far: parallel and repeated model calls have the same input.
    messages: FxHashSet<u64>,
}

impl Conversation {
    fn add(&mut self, span: &Span, out: &mut Output) {
        match span.kind {
            SpanKind::Model => self.turn(span, out),
            SpanKind::Agent if self.agents_speak => self.turn(span, out),
            SpanKind::Tool => self.tool(span, out),
            SpanKind::Agent => {
                // The agent's input is the task, if it is recorded.
                if out.builder.is_empty() {
                    self.input(&span.input_messages(), out);
                }
            }
            SpanKind::Other => {}
        }
    }

    /// Name of the agent of a span: its own, or that of the nearest span around it.
    fn agent<'a>(&'a self, span: &'a Span) -> Option<&'a str> {
        if span.agent.is_some() {
            return span.agent.as_deref();
        }
        let mut next = span.parent.as_deref();
        for _ in 0..MAX_DEPTH {
            let parent = self.parents.get(next?)?;
            if parent.agent.is_some() {
                return parent.agent.as_deref();
            }
            next = parent.id.as_deref();
        }
        None
    }

    fn turn(&mut self, span: &Span, out: &mut Output) {
        self.input(&span.input_messages(), out);
        let output = span.output_messages();
        if output.is_empty() {
            return;
        }
        let step = out.builder.turn(self.agent(span), TurnStart::New);
        step.time = span.time();
        step.usage = span.usage();
        for message in &output {
            speak(message, out);
        }
    }

    /// Adds what is new in the input of a model call.
    fn input(&mut self, messages: &[Value], out: &mut Output) {
        let begin = match messages.iter().rposition(is_agent_message) {
            Some(index) if !out.builder.is_empty() => index + 1,
            _ => 0,
        };
        for message in &messages[begin..] {
            let role = string(message, "role").unwrap_or_default();
            if matches!(role, "system" | "developer") || is_agent_message(message) {
                continue;
            }
            for (id, result) in results_in(message, role) {
                out.builder.result(id, result);
            }
            if matches!(role, "tool" | "function") {
                continue;
            }
            let text = text_in(message);
            let mut hasher = FxHasher::default();
            text.hash(&mut hasher);
            if self.messages.insert(hasher.finish()) {
                out.builder.reply(string(message, "name"), &text);
            }
        }
    }

    /// Completes the call that a tool's span belongs to, or adds it if no model call recorded it.
    fn tool(&mut self, span: &Span, out: &mut Output) {
        // Clients of tool servers record a call a second time, within the first span.
        let inside_tool = span
            .parent
            .as_ref()
            .and_then(|parent| self.parents.get(parent))
            .is_some_and(|parent| parent.kind == SpanKind::Tool);
        if inside_tool {
            return;
        }
        let tool = span.tool();
        let id = span.call_id();
        let result = CallResult {
            content: span.tool_result(),
            error: span.error.is_some().then_some(true),
            exit_code: None,
        };
        let known = id.is_some_and(|id| out.builder.find_call(id).is_some());
        let call = match id {
            Some(id) if known => out.builder.find_call(id),
            _ => out
                .builder
                .trajectory_mut()
                .steps
                .iter_mut()
                .rev()
                .take(RECENT_STEPS)
                .flat_map(|step| &mut step.calls)
                .take(RECENT_CALLS)
                .find(|call| {
                    call.result.is_none() && call.tool == tool && (id.is_none() || call.id.is_none())
                }),
        };
        if let Some(call) = call {
            if call.arguments.is_null() {
                call.arguments = span.tool_arguments();
            }
            // The span knows more than the message about it: whether the tool failed.
            match &mut call.result {
                Some(known) => known.error = result.error.or(known.error),
                None => call.result = Some(result),
            }
        } else {
            let step = out.builder.turn(self.agent(span), TurnStart::AfterAnswer);
            step.time = step.time.or_else(|| span.time());
            out.builder.call(id, tool, span.tool_arguments());
            let position = out.builder.position();
            if let Some(call) = out
                .builder
                .resume(position)
                .and_then(|step| step.calls.last_mut())
            {
                call.result = Some(result);
            }
        }
        out.builder.end_turn();
    }
}

/// How many spans around a span are searched for the agent's name.
const MAX_DEPTH: usize = 32;

/// Number of steps, counted from the end, among which the call of a tool's span is searched.
const RECENT_STEPS: usize = 64;

/// Number of calls that are looked at in this search.
const RECENT_CALLS: usize = 1024;

fn is_agent_message(message: &Value) -> bool {
    matches!(string(message, "role"), Some("assistant" | "model" | "ai"))
}

/// Adds the content of an agent's message to the current turn.
fn speak(message: &Value, out: &mut Output) {
    out.builder.text(&text_in(message));
    for part in parts(message) {
        if matches!(
            string(part, "type"),
            Some("tool_call" | "tool_use" | "server_tool_call")
        ) {
            let arguments = ["arguments", "input", "args"]
                .iter()
                .find_map(|key| part.get(key))
                .cloned()
                .unwrap_or_default();
            out.builder.call(
                string(part, "id"),
                string(part, "name").unwrap_or_default(),
                arguments,
            );
        }
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
        let arguments = function.get("arguments").cloned().unwrap_or_default();
        out.builder.call(
            string(call, "id"),
            string(function, "name").unwrap_or_default(),
            arguments,
        );
    }
}

/// Parts of a message; `content` is a list of parts in some instrumentations.
fn parts(message: &Value) -> &[Value] {
    ["parts", "content"]
        .iter()
        .find_map(|key| message.get(key)?.as_array())
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The text of a message, without reasoning, calls and results.
fn text_in(message: &Value) -> String {
    if let Some(text) = message.get("content").and_then(Value::as_str) {
        return text.to_owned();
    }
    let mut text = String::new();
    for part in parts(message) {
        let content = match (part, string(part, "type")) {
            (Value::String(content), _) => Some(content.as_str()),
            (_, None | Some("text" | "input_text" | "output_text" | "refusal")) => {
                first_string(part, &["content", "text"])
            }
            _ => None,
        };
        if let Some(content) = content {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(content);
        }
    }
    text
}

/// Results in a message, each with the id of its call.
fn results_in<'a>(message: &'a Value, role: &str) -> Vec<(Option<&'a str>, CallResult)> {
    let result = |content: Option<&Value>, error: Option<bool>| CallResult {
        content: content.map(content_text).unwrap_or_default(),
        error,
        exit_code: None,
    };
    let mut results: Vec<_> = parts(message)
        .iter()
        .filter(|part| {
            matches!(
                string(part, "type"),
                Some("tool_call_response" | "tool_result" | "server_tool_call_response")
            )
        })
        .map(|part| {
            let content = ["response", "result", "content", "output"]
                .iter()
                .find_map(|key| part.get(key));
            let error = part.get("is_error").and_then(Value::as_bool);
            (
                first_string(part, &["id", "tool_use_id", "tool_call_id"]),
                result(content, error),
            )
        })
        .collect();
    if results.is_empty() && matches!(role, "tool" | "function") {
        let content = message.get("content").or_else(|| message.get("parts"));
        results.push((
            first_string(message, &["tool_call_id", "id"]),
            result(content, None),
        ));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::super::tests::{feed_values, only_run, read_lines_of, read_value};
    use crate::trajectory::{LogFormat, Usage};
    use serde_json::{Value, json};

    fn attributes(values: &Value) -> Value {
        let list: Vec<Value> = values
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| match value {
                Value::Number(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
                Value::String(text) => json!({"key": key, "value": {"stringValue": text}}),
                other => json!({"key": key, "value": {"stringValue": other.to_string()}}),
            })
            .collect();
        json!(list)
    }

    fn span(id: &str, parent: &str, start: u32, name: &str, values: &Value) -> Value {
        json!({"traceId": "t", "spanId": id, "parentSpanId": parent, "name": name,
            "startTimeUnixNano": format!("17000000{start:02}000000000"), "attributes": attributes(values), "status": {"code": 1}})
    }

    fn document(spans: &[Value]) -> Value {
        json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]})
    }

    fn spans() -> Vec<Value> {
        let user = json!({"role": "user", "parts": [{"type": "text", "content": "Is it raining?"}]});
        let call = json!({"role": "assistant", "parts": [
            {"type": "reasoning", "content": "hm"},
            {"type": "text", "content": "I check."},
            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Bonn"}},
            {"type": "tool_call", "id": "c2", "name": "write_todos", "arguments": {"todos": [{"content": "a", "status": "done"}]}}],
            "finish_reason": "tool_call"});
        let responses = json!({"role": "tool", "parts": [
            {"type": "tool_call_response", "id": "c1", "response": "unused"},
            {"type": "tool_call_response", "id": "c2", "response": "saved"}]});
        let mut failed = span(
            "3",
            "1",
            12,
            "execute_tool weather",
            &json!({"gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "timeout"}),
        );
        failed["status"] = json!({"code": 2, "message": "deadline"});
        vec![
            span(
                "4",
                "1",
                13,
                "chat m",
                &json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": [user, call, responses],
                "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "I do not know."}]}]}),
            ),
            failed,
            span(
                "2",
                "1",
                11,
                "chat m",
                &json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": [user],
                "gen_ai.output.messages": [call], "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}),
            ),
            span(
                "1",
                "",
                10,
                "invoke_agent helper",
                &json!({"gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "helper", "gen_ai.conversation.id": "conv"}),
            ),
            span("9", "1", 14, "GET", &json!({"http.method": "GET"})),
        ]
    }

    fn check(run: &crate::trajectory::Trajectory) {
        assert_eq!(run.task.as_deref(), Some("Is it raining?"));
        assert_eq!(run.steps.len(), 2, "{run:#?}");
        let first = &run.steps[0];
        assert_eq!(first.text, "I check.");
        assert_eq!(first.calls[0].arguments["city"], "Bonn");
        let result = first.calls[0].result.as_ref().unwrap();
        assert_eq!((result.content.as_str(), result.error), ("timeout", Some(true)));
        assert_eq!(first.calls[1].result.as_ref().unwrap().content, "saved");
        assert!(first.plan.as_ref().unwrap()[0].done);
        assert_eq!(
            first.usage,
            Usage {
                tokens: Some(15),
                cost: None
            }
        );
        assert!(first.time.is_some() && first.replies.is_empty());
        assert_eq!(run.steps[1].text, "I do not know.");
    }

    #[test]
    fn spans_become_steps_in_order_of_time() {
        let log = read_value(&document(&spans()));
        assert_eq!(log.format, LogFormat::Otel);
        let run = only_run(&log);
        assert_eq!(run.id.as_deref(), Some("conv"));
        assert_eq!(run.steps[0].agent.as_deref(), Some("helper"));
        check(run);
    }

    #[test]
    fn lines_and_flat_spans_are_one_log() {
        let mut lines: Vec<Value> = spans()
            .iter()
            .map(|span| document(std::slice::from_ref(span)))
            .collect();
        lines.push(json!({"hologram": 1}));
        let log = read_lines_of(&lines);
        check(only_run(&log));
        assert_eq!(log.skipped.count, 1);
        let log = read_lines_of(&spans());
        assert_eq!(log.format, LogFormat::Otel);
        check(only_run(&log));
    }

    #[test]
    fn a_feed_reads_spans_as_they_end() {
        let mut records = spans();
        records.swap(0, 2);
        let (steps, run) = feed_values(&records);
        check(&run);
        assert_eq!(steps.len(), 2);
    }

    #[test]
    fn open_inference_attributes() {
        let flat = |id: &str, start: &str, status: &str, attributes: Value| {
            json!({"name": "x", "context": {"trace_id": "0xt", "span_id": id}, "parent_id": null, "start_time": start,
                "status": {"status_code": status}, "attributes": attributes, "events": []})
        };
        let log = read_value(&json!([
            flat(
                "b",
                "2026-01-01T00:00:02.000000Z",
                "ERROR",
                json!({"openinference.span.kind": "TOOL", "tool.name": "search",
                "input.value": "{\"q\": \"x\"}", "output.value": "refused", "session.id": "s"})
            ),
            flat(
                "a",
                "2026-01-01T00:00:01.000000Z",
                "OK",
                json!({"openinference.span.kind": "LLM", "llm.token_count.total": 9,
                "llm.cost.total": 0.25, "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Find x",
                "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "Searching",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{\"q\": \"x\"}"})
            ),
            flat(
                "c",
                "2026-01-01T00:00:03.000000Z",
                "OK",
                json!({"openinference": {"span": {"kind": "LLM"}},
                "llm": {"output_messages": [{"message": {"role": "assistant", "content": "Nothing"}}]}})
            ),
        ]));
        assert_eq!(log.format, LogFormat::Otel);
        let run = only_run(&log);
        assert_eq!(run.id.as_deref(), Some("s"));
        assert_eq!(run.task.as_deref(), Some("Find x"));
        assert_eq!(run.steps.len(), 2, "{run:#?}");
        let call = &run.steps[0].calls[0];
        assert_eq!(call.arguments, json!({"q": "x"}));
        assert_eq!(call.result.as_ref().unwrap().error, Some(true));
        assert_eq!(
            run.steps[0].usage,
            Usage {
                tokens: Some(9),
                cost: Some(0.25)
            }
        );
        assert_eq!(run.steps[1].text, "Nothing");
    }

    #[test]
    fn older_conventions() {
        let mut events = span("1", "", 10, "chat m", &json!({"gen_ai.system": "openai"}));
        events["events"] = json!([
            {"name": "gen_ai.user.message", "attributes": attributes(&json!({"content": "Hi"}))},
            {"name": "gen_ai.choice", "attributes": attributes(&json!({"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
                    "function": {"name": "look", "arguments": "{}"}}]}}))}
        ]);
        let indexed = span(
            "2",
            "",
            11,
            "openai.chat",
            &json!({"llm.request.type": "chat", "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "Hi", "gen_ai.prompt.1.role": "assistant", "gen_ai.prompt.1.tool_calls.0.id": "c",
                "gen_ai.prompt.1.tool_calls.0.name": "look", "gen_ai.prompt.2.role": "tool", "gen_ai.prompt.2.content": "seen",
                "gen_ai.prompt.2.tool_call_id": "c", "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "Hello"}),
        );
        let log = read_value(&document(&[events, indexed]));
        let run = only_run(&log);
        assert_eq!(run.id.as_deref(), Some("t"));
        assert_eq!(run.task.as_deref(), Some("Hi"));
        assert_eq!(run.steps.len(), 2, "{run:#?}");
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().content, "seen");
        assert_eq!(run.steps[1].text, "Hello");
    }
}
