//! Session logs of coding agents as JSON Lines, in two common formats: `{type: user|assistant, message:
//! {role, content}, uuid, timestamp, isSidechain}` (Claude Code) and `{type:
//! response_item|event_msg|session_meta, payload: {...}, timestamp}` (Codex). Lines of other types, such as
//! snapshots, progress and accounting, are ignored.

use serde_json::Value;

use super::chat::{self, note_tool, owned};
use super::json::{Cursor, Line};
use super::{InputError, Message, MessageLog};

pub(super) fn messages(lines: &[Line<'_>]) -> Result<MessageLog, InputError> {
    let mut log = MessageLog::default();
    // Codex logs contain each message twice, as an item and as an event; only the items are complete.
    let has_items = lines.iter().any(|line| {
        line.value.get("type").and_then(Value::as_str) == Some("response_item")
            && line.value.pointer("/payload/type").and_then(Value::as_str) == Some("message")
    });
    let mut previous_id = None;
    for line in lines {
        let cursor = Cursor::new(&line.value, line.number);
        if !line.value.is_object() {
            return Err(cursor.expected("an object"));
        }
        let timestamp = owned(cursor.string_if_present("timestamp"));
        match cursor.optional_string("type")? {
            Some("user" | "assistant") => {
                log.conversation_id = log
                    .conversation_id
                    .or_else(|| owned(cursor.string_if_present("sessionId")));
                // Notes that the program inserted into the conversation.
                if line.value.get("isMeta") == Some(&Value::Bool(true)) {
                    continue;
                }
                let Some(body) = cursor.get("message") else {
                    continue;
                };
                let mut message = chat::message(body)?;
                message.timestamp = timestamp;
                if line.value.get("isSidechain") == Some(&Value::Bool(true)) {
                    let agent = cursor.string_if_present("agentId").unwrap_or("sidechain");
                    message.name = Some(agent.to_owned());
                }
                // One response of the model may span several lines with the same id, one per content block.
                let id = body.string_if_present("id").map(str::to_owned);
                match log.messages.last_mut() {
                    Some(last) if id.is_some() && id == previous_id => join(last, message),
                    _ => log.messages.push(message),
                }
                previous_id = id;
            }
            Some("summary") => {
                log.topic = log.topic.or_else(|| owned(cursor.string_if_present("summary")));
            }
            Some("session_meta") => {
                let payload = cursor.get("payload");
                let id = payload
                    .as_ref()
                    .and_then(|payload| payload.string_if_present("id"));
                log.conversation_id = log.conversation_id.or_else(|| owned(id));
            }
            Some("response_item") => {
                if let Some(payload) = cursor.get("payload") {
                    item(payload, timestamp, &mut log)?;
                }
            }
            Some("event_msg") if !has_items => {
                if let Some(payload) = cursor.get("payload") {
                    log.messages.extend(event(payload, timestamp)?);
                }
            }
            _ => {}
        }
    }
    Ok(log)
}

fn join(last: &mut Message, more: Message) {
    if !more.text.is_empty() {
        if !last.text.is_empty() {
            last.text.push_str("\n\n");
        }
        last.text.push_str(&more.text);
    }
    last.plan.extend(more.plan);
    last.tool_calls.extend(more.tool_calls);
}

fn item(payload: Cursor<'_>, timestamp: Option<String>, log: &mut MessageLog) -> Result<(), InputError> {
    match payload.optional_string("type")? {
        Some("message") => {
            let mut message = chat::message(payload)?;
            message.timestamp = timestamp;
            // Context that the program passes to the model is not part of the conversation.
            if !message.text.trim_start().starts_with(['<', '#']) || message.role != super::Role::User {
                log.messages.push(message);
            }
        }
        Some("function_call" | "custom_tool_call" | "local_shell_call") => {
            let mut message = Message {
                timestamp,
                ..Message::default()
            };
            let name = payload.string_if_present("name").unwrap_or("shell");
            note_tool(&mut message, Some(name), payload.value.get("arguments"));
            log.messages.push(message);
        }
        _ => {}
    }
    Ok(())
}

fn event(payload: Cursor<'_>, timestamp: Option<String>) -> Result<Option<Message>, InputError> {
    let role = match payload.optional_string("type")? {
        Some("user_message") => super::Role::User,
        Some("agent_message") => super::Role::Assistant,
        _ => return Ok(None),
    };
    let text = payload.optional_string("message")?.unwrap_or_default().to_owned();
    Ok(Some(Message {
        role,
        text,
        timestamp,
        ..Message::default()
    }))
}
