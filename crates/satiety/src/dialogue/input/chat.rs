//! Chat logs in the message formats of the OpenAI and Anthropic APIs: `role`, `content` as a string or as
//! parts, tool calls next to or within the parts, and several speakers by `name`.

use serde_json::Value;

use super::json::{self, Cursor};
use super::{InputError, Message, MessageLog, PlanItem, Role};

/// Parses a document (a list, or an object with `messages`) or JSON Lines. Also returns the number of an
/// incomplete last line.
pub(super) fn messages(text: &str, growing: bool) -> Result<(MessageLog, Option<usize>), InputError> {
    // JSON Lines have one message per line; otherwise the text is one document.
    let first_line = text.trim_start().lines().next().unwrap_or_default();
    let is_json_lines =
        serde_json::from_str::<Value>(first_line).is_ok_and(|value| value.get("role").is_some());
    if is_json_lines {
        let lines = json::lines(text, growing)?;
        let mut log = MessageLog::default();
        for line in &lines.values {
            log.messages.push(message(Cursor::new(&line.value, line.number))?);
        }
        return Ok((log, lines.incomplete));
    }
    let value: Value = json::typed(text, 1)?;
    let root = Cursor::new(&value, 1);
    let mut log = MessageLog::default();
    if value.is_object() {
        log.conversation_id = ["conversation_id", "id"]
            .iter()
            .find_map(|key| owned(root.string_if_present(key)));
        log.topic = ["topic", "title"]
            .iter()
            .find_map(|key| owned(root.string_if_present(key)));
        if let Some(system) = root.get("system") {
            let text = content_text(system, &mut Message::default())?;
            log.messages.push(Message {
                role: Role::System,
                text,
                ..Message::default()
            });
        }
    }
    let list = if value.is_array() {
        Some(root)
    } else {
        root.get("messages")
    };
    let Some(list) = list else {
        return Err(root.expected("a list of messages, or an object with `messages`"));
    };
    list.for_each(|element| {
        log.messages.push(message(element)?);
        Ok(())
    })?;
    Ok((log, None))
}

/// Parses one message. `content` may be absent if there are only tool calls.
pub(super) fn message(cursor: Cursor<'_>) -> Result<Message, InputError> {
    if !cursor.value.is_object() {
        return Err(cursor.expected("a message with `role` and `content`"));
    }
    let role = cursor.optional_string("role")?;
    let mut message = Message {
        role: Role::named(role.unwrap_or("assistant")),
        name: owned(cursor.optional_string("name")?),
        timestamp: ["timestamp", "created_at"]
            .iter()
            .find_map(|key| owned(cursor.string_if_present(key))),
        ..Message::default()
    };
    // An unknown role is the name of a speaker.
    if let Some(role) = role
        && message.role == Role::Assistant
        && !matches!(role, "assistant" | "model" | "ai" | "bot")
    {
        message.name.get_or_insert_with(|| role.to_owned());
    }
    if let Some(content) = cursor.get("content") {
        message.text = content_text(content, &mut message)?;
    }
    if let Some(calls) = cursor.get("tool_calls") {
        calls.for_each(|call| {
            let function = call.get("function");
            let named = function.as_ref().unwrap_or(&call);
            note_tool(
                &mut message,
                named.string_if_present("name"),
                named.value.get("arguments"),
            );
            Ok(())
        })?;
    }
    Ok(message)
}

/// Text of a `content` value: a string, or the text parts of a list. Tool calls are added to `message`.
pub(super) fn content_text(content: Cursor<'_>, message: &mut Message) -> Result<String, InputError> {
    if let Some(text) = content.value.as_str() {
        return Ok(text.to_owned());
    }
    if content.value.is_object() {
        return part_text(content, message);
    }
    if !content.value.is_array() {
        return Err(content.expected("a string or a list of parts"));
    }
    let mut texts: Vec<String> = Vec::new();
    content.for_each(|part| {
        let text = match part.value {
            Value::String(text) => text.clone(),
            Value::Object(_) => part_text(part, message)?,
            _ => return Err(part.expected("a part: a string or an object with `type`")),
        };
        if !text.is_empty() {
            texts.push(text);
        }
        Ok(())
    })?;
    Ok(texts.join("\n\n"))
}

fn part_text(part: Cursor<'_>, message: &mut Message) -> Result<String, InputError> {
    match part.optional_string("type")? {
        Some("text" | "input_text" | "output_text") | None => {
            Ok(part.optional_string("text")?.unwrap_or_default().to_owned())
        }
        Some("refusal") => Ok(part.optional_string("refusal")?.unwrap_or_default().to_owned()),
        Some("tool_use") => {
            note_tool(message, part.string_if_present("name"), part.value.get("input"));
            Ok(String::new())
        }
        Some("tool_result") => {
            message.role = Role::Tool;
            Ok(String::new())
        }
        // Images, audio, files and hidden reasoning contain no message text.
        Some(_) => Ok(String::new()),
    }
}

/// Records a tool call, and its plan if it has one: a list of objects in `todos` or `plan`, each with a text
/// and a status.
pub(super) fn note_tool(message: &mut Message, name: Option<&str>, arguments: Option<&Value>) {
    message.tool_calls.extend(name.map(str::to_owned));
    let parsed;
    let arguments = match arguments {
        Some(Value::String(text)) => {
            parsed = serde_json::from_str::<Value>(text).unwrap_or_default();
            &parsed
        }
        Some(value) => value,
        None => return,
    };
    for item in ["todos", "plan"]
        .iter()
        .filter_map(|key| arguments.get(key)?.as_array())
        .flatten()
    {
        let text = ["content", "step", "text"]
            .iter()
            .find_map(|key| item.get(key)?.as_str());
        let status = item.get("status").and_then(Value::as_str).unwrap_or_default();
        if let Some(text) = text {
            let done = matches!(status, "completed" | "done" | "cancelled");
            message.plan.push(PlanItem {
                text: text.to_owned(),
                done,
            });
        }
    }
}

pub(super) fn owned(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}
