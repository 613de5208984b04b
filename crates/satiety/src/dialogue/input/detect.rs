//! Detection of the input format from the first complete JSON value.

use serde_json::Value;

use super::json::kind_of;
use super::{InputError, InputFormat, json};

/// Number of lines to inspect: session logs may begin with lines of other types.
const MAX_LINES: usize = 50;

pub(super) fn format(text: &str) -> Result<InputFormat, InputError> {
    let first_line = text.trim_start().lines().next().unwrap_or_default();
    let is_line_wise = serde_json::from_str::<Value>(first_line).is_ok_and(|value| value.is_object());
    if !is_line_wise {
        let value: Value = json::typed(text, 1)?;
        return of_document(&value).ok_or_else(|| unknown(&value));
    }
    let mut seen = None;
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .take(MAX_LINES)
    {
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if let Some(format) = of_line(&value).or_else(|| of_document(&value)) {
            return Ok(format);
        }
        seen.get_or_insert(value);
    }
    Err(unknown(&seen.unwrap_or_default()))
}

fn of_document(value: &Value) -> Option<InputFormat> {
    match value {
        Value::Object(object) if object.contains_key("rounds") => Some(InputFormat::Transcript),
        Value::Object(object) if object.contains_key("messages") => Some(InputFormat::Chat),
        Value::Array(elements) if elements.iter().any(|element| element.get("role").is_some()) => {
            Some(InputFormat::Chat)
        }
        _ => None,
    }
}

fn of_line(value: &Value) -> Option<InputFormat> {
    let kind = value.get("type").and_then(Value::as_str);
    match kind {
        Some("transcript_header") => Some(InputFormat::Trace),
        Some("round") if value.get("round").is_some() || value.get("outputs").is_some() => {
            Some(InputFormat::Trace)
        }
        Some("user" | "assistant") if value.get("message").is_some() => Some(InputFormat::AgentLog),
        Some("session_meta" | "response_item" | "event_msg" | "turn_context")
            if value.get("payload").is_some() =>
        {
            Some(InputFormat::AgentLog)
        }
        _ if value.get("role").is_some() => Some(InputFormat::Chat),
        _ => None,
    }
}

fn unknown(value: &Value) -> InputError {
    let found = match value {
        Value::Object(object) if object.is_empty() => "an empty object".to_owned(),
        Value::Object(object) => {
            let keys: Vec<String> = object.keys().take(5).map(|key| format!("`{key}`")).collect();
            format!("an object with {}", keys.join(", "))
        }
        Value::Array(elements) if elements.is_empty() => "an empty list".to_owned(),
        Value::Array(elements) => format!("a list that begins with {}", kind_of(&elements[0])),
        other => kind_of(other).to_owned(),
    };
    InputError::UnknownShape { found }
}
