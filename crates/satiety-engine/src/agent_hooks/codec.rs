//! The JSON of each host: from a payload to a [`Notification`], from a [`Decision`] to an answer.
//!
//! Payloads are read leniently: fields may have snake case or camel case, and a missing field is absent, not
//! an error. Answers contain only what the host documents for the event; a decision that a host cannot
//! express becomes an empty answer, which every host accepts.

use satiety::trajectory::CallResult;
use serde_json::{Map, Value, json};

use super::event::{Decision, Event, EventKind, FinishedCall, Host, MARK, Notification};

/// Bytes of a tool's output that are judged, at the beginning and at the end each.
const JUDGED_BYTES: usize = 64 << 10;
/// Maximum number of calls of one turn that are judged.
const MAX_CALLS: usize = 64;
/// Maximum bytes of a session id or agent id that are used as they are; longer ones are hashed.
const MAX_ID_BYTES: usize = 100;

/// Reads a payload. `event` is the name given on the command line, for payloads that do not name their event.
/// Returns `None` for events that need no answer.
pub fn read(payload: &Value, event: &str, host: Option<Host>) -> Option<Notification> {
    let fields = Fields(payload.as_object()?);
    let name = fields.text("hook_event_name", "hookEventName").unwrap_or(event);
    let kind = kind_of(name).or_else(|| kind_of(event))?;
    let host = host.unwrap_or_else(|| detect(&fields, name));
    let event = match kind {
        EventKind::ToolFinished | EventKind::ToolFailed => Event::Tools(vec![finished_call(&fields)?]),
        EventKind::ToolsFinished => {
            let calls = fields.get("tool_calls", "toolCalls")?.as_array()?;
            let calls = calls.iter().take(MAX_CALLS);
            Event::Tools(
                calls
                    .filter_map(|call| finished_call(&Fields(call.as_object()?)))
                    .collect(),
            )
        }
        EventKind::Stopping | EventKind::SubagentStopping => Event::Stopping {
            message: fields
                .text("last_assistant_message", "lastAssistantMessage")
                .or_else(|| fields.text("prompt_response", "promptResponse"))
                .map(|text| middle_out(text).into_owned()),
            kept_working: fields.flag("stop_hook_active", "stopHookActive"),
            waits: fields.has_items("background_tasks", "backgroundTasks")
                || fields.has_items("session_crons", "sessionCrons"),
        },
        EventKind::CompactionStarting => Event::CompactionStarting {
            trigger: match fields.text("trigger", "trigger") {
                Some("manual") => "manual".into(),
                _ => "auto".into(),
            },
        },
        EventKind::CompactionFinished => Event::CompactionFinished {
            summary: fields
                .text("compact_summary", "compactSummary")
                .map(str::to_owned),
        },
        EventKind::PromptSubmitted => {
            let text = fields.text("prompt", "prompt").unwrap_or_default();
            let is_generated = matches!(
                fields.text("source", "source"),
                Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event")
            );
            Event::Prompt {
                // Some hosts submit the reason for which a hook keeps the agent working as a prompt.
                by_person: !is_generated && !text.starts_with(MARK),
                text: middle_out(text).into_owned(),
            }
        }
        EventKind::SessionStarted => Event::SessionStarted {
            source: fields.text("source", "source").unwrap_or("startup").to_owned(),
            prompt: fields
                .text("initial_prompt", "initialPrompt")
                .map(|text| middle_out(text).into_owned()),
        },
        EventKind::SessionEnded => Event::SessionEnded,
    };
    Some(Notification {
        host,
        kind,
        session: session_key(&fields, host),
        event,
    })
}

/// Writes an answer for standard output. Empty if there is nothing to say, or no way to say it.
pub fn write(host: Host, kind: EventKind, decision: &Decision) -> String {
    let answer = match (host, decision) {
        // Claude Code adds the plain text of this hook to the instructions of the compaction.
        (Host::Claude, Decision::Keep(text)) if kind == EventKind::CompactionStarting => {
            return text.clone();
        }
        (_, Decision::Pass | Decision::Keep(_)) | (Host::Copilot, Decision::Notify(_)) => None,
        (Host::Copilot, Decision::AddContext(text) | Decision::EndTurn { advice: text, .. }) => {
            takes_context(host, kind).then(|| json!({ "additionalContext": text }))
        }
        (_, Decision::AddContext(text)) => takes_context(host, kind).then(|| {
            let name = name_of(host, kind);
            json!({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})
        }),
        (_, Decision::EndTurn { reason, .. }) => {
            is_about_tools(kind).then(|| json!({"continue": false, "stopReason": reason}))
        }
        (_, Decision::KeepWorking(reason)) => {
            is_about_stopping(kind).then(|| json!({"decision": "block", "reason": reason}))
        }
        (_, Decision::Notify(text)) => Some(json!({ "systemMessage": text })),
    };
    answer.map(|answer| answer.to_string()).unwrap_or_default()
}

/// Name of an event in a host; `None` if the host does not have it.
pub fn name_of(host: Host, kind: EventKind) -> Option<&'static str> {
    let [claude, codex, gemini, copilot] = names(kind);
    let name = match host {
        Host::Claude => claude,
        Host::Codex => codex,
        Host::Gemini => gemini,
        Host::Copilot => copilot,
    };
    (!name.is_empty()).then_some(name)
}

/// Names of an event in each host, in the order of [`Host::ALL`]; empty if a host does not have it.
fn names(kind: EventKind) -> [&'static str; 4] {
    match kind {
        EventKind::ToolFinished => ["PostToolUse", "PostToolUse", "AfterTool", "postToolUse"],
        EventKind::ToolFailed => ["PostToolUseFailure", "", "", "postToolUseFailure"],
        EventKind::ToolsFinished => ["PostToolBatch", "", "", ""],
        EventKind::Stopping => ["Stop", "Stop", "AfterAgent", "agentStop"],
        EventKind::SubagentStopping => ["SubagentStop", "SubagentStop", "", "subagentStop"],
        EventKind::CompactionStarting => ["PreCompact", "PreCompact", "PreCompress", "preCompact"],
        EventKind::CompactionFinished => ["PostCompact", "PostCompact", "", ""],
        EventKind::PromptSubmitted => [
            "UserPromptSubmit",
            "UserPromptSubmit",
            "BeforeAgent",
            "userPromptSubmitted",
        ],
        EventKind::SessionStarted => ["SessionStart", "SessionStart", "SessionStart", "sessionStart"],
        EventKind::SessionEnded => ["SessionEnd", "SessionEnd", "SessionEnd", "sessionEnd"],
    }
}

const KINDS: [EventKind; 10] = [
    EventKind::ToolFinished,
    EventKind::ToolFailed,
    EventKind::ToolsFinished,
    EventKind::Stopping,
    EventKind::SubagentStopping,
    EventKind::CompactionStarting,
    EventKind::CompactionFinished,
    EventKind::PromptSubmitted,
    EventKind::SessionStarted,
    EventKind::SessionEnded,
];

/// Kind of an event by its name in any host, without regard to case.
fn kind_of(name: &str) -> Option<EventKind> {
    KINDS.into_iter().find(|kind| {
        names(*kind)
            .iter()
            .any(|known| !known.is_empty() && known.eq_ignore_ascii_case(name))
    })
}

fn is_about_tools(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ToolFinished | EventKind::ToolFailed | EventKind::ToolsFinished
    )
}

fn is_about_stopping(kind: EventKind) -> bool {
    matches!(kind, EventKind::Stopping | EventKind::SubagentStopping)
}

/// Whether an event of a host takes text for the context. Stop events do in Claude Code, but that keeps the
/// agent working.
pub(super) fn takes_context(host: Host, kind: EventKind) -> bool {
    name_of(host, kind).is_some()
        && (is_about_tools(kind) || matches!(kind, EventKind::PromptSubmitted | EventKind::SessionStarted))
}

/// Guesses the host from the shape of its payload.
fn detect(fields: &Fields<'_>, name: &str) -> Host {
    if matches!(name, "AfterTool" | "AfterAgent" | "BeforeAgent" | "PreCompress") {
        Host::Gemini
    } else if fields.0.contains_key("sessionId") || fields.0.contains_key("toolName") {
        Host::Copilot
    } else if fields.0.contains_key("turn_id") {
        Host::Codex
    } else {
        Host::Claude
    }
}

fn session_key(fields: &Fields<'_>, host: Host) -> Option<String> {
    let session = fields
        .text("session_id", "sessionId")
        .filter(|id| !id.is_empty())?;
    let mut key = format!("{}:{}", host.name(), safe_id(session));
    if let Some(agent) = fields.text("agent_id", "agentId").filter(|id| !id.is_empty()) {
        key.push(':');
        key.push_str(&safe_id(agent));
    }
    Some(key)
}

/// An id that is safe as a key and in messages.
fn safe_id(id: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if id.len() <= MAX_ID_BYTES && id.bytes().all(is_safe) {
        id.to_owned()
    } else {
        blake3::hash(id.as_bytes()).to_hex().to_string()
    }
}

fn finished_call(fields: &Fields<'_>) -> Option<FinishedCall> {
    let arguments = fields.get("tool_input", "toolArgs").cloned().unwrap_or_default();
    let failure = fields.text("error", "error");
    let result = match failure {
        Some(error) => CallResult {
            content: middle_out(error).into_owned(),
            error: Some(true),
            exit_code: None,
        },
        None => fields
            .get("tool_response", "toolResult")
            .map(read_result)
            .unwrap_or_default(),
    };
    Some(FinishedCall {
        id: fields.text("tool_use_id", "toolCallId").map(safe_id),
        tool: fields.text("tool_name", "toolName")?.chars().take(200).collect(),
        arguments,
        result,
    })
}

/// The output of a tool as text, from the shapes that hosts use for their own tools and for MCP.
fn read_result(response: &Value) -> CallResult {
    let Value::Object(object) = response else {
        return CallResult {
            content: middle_out(&text_of(response)).into_owned(),
            ..CallResult::default()
        };
    };
    let fields = Fields(object);
    let streams: Vec<&str> = [fields.text("stdout", "stdout"), fields.text("stderr", "stderr")]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect();
    let content = if streams.is_empty() && !object.contains_key("stdout") {
        ["llmContent", "textResultForLlm", "content", "output", "text"]
            .iter()
            .find_map(|key| object.get(*key).filter(|value| !value.is_null()))
            .map_or_else(|| text_of(response), text_of)
    } else {
        streams.join("\n")
    };
    let flag = ["is_error", "isError"]
        .iter()
        .find_map(|key| object.get(*key)?.as_bool());
    let outcome = match fields.text("resultType", "resultType") {
        Some("success") => Some(false),
        Some(_) => Some(true),
        None => object.get("error").filter(|error| !error.is_null()).map(|_| true),
    };
    CallResult {
        content: middle_out(&content).into_owned(),
        error: flag.or(outcome),
        exit_code: ["exit_code", "exitCode"]
            .iter()
            .find_map(|key| object.get(*key)?.as_i64()),
    }
}

/// Text of a value: strings as they are, lists of content blocks joined, everything else as JSON. The former
/// content of an edited file, which Claude Code repeats, is left out.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(blocks)
            if blocks
                .iter()
                .all(|block| block.get("text").is_some_and(Value::is_string)) =>
        {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        Value::Object(object) if object.contains_key("originalFile") => {
            let shown: Map<String, Value> = object
                .iter()
                .filter(|(key, _)| *key != "originalFile")
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            Value::Object(shown).to_string()
        }
        other => other.to_string(),
    }
}

/// The beginning and the end of a long text.
fn middle_out(text: &str) -> std::borrow::Cow<'_, str> {
    if text.len() <= 2 * JUDGED_BYTES {
        return text.into();
    }
    let mut head = JUDGED_BYTES;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - JUDGED_BYTES;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n{}", &text[..head], &text[tail..]).into()
}

/// Fields of a payload in snake case or camel case.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get(&self, snake: &str, camel: &str) -> Option<&'a Value> {
        self.0.get(snake).or_else(|| self.0.get(camel))
    }

    fn text(&self, snake: &str, camel: &str) -> Option<&'a str> {
        self.get(snake, camel)?.as_str()
    }

    fn flag(&self, snake: &str, camel: &str) -> bool {
        self.get(snake, camel).and_then(Value::as_bool).unwrap_or(false)
    }

    fn has_items(&self, snake: &str, camel: &str) -> bool {
        self.get(snake, camel)
            .and_then(Value::as_array)
            .is_some_and(|items| !items.is_empty())
    }
}
