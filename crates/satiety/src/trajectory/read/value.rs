//! Access to JSON values of foreign logs.

use jiff::Timestamp;
use serde_json::Value;

/// The string at `key`, if it is a string that is not empty.
pub(super) fn string<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// The first of `keys` with a string that is not empty.
pub(super) fn first_string<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| string(value, key))
}

/// A time: RFC 3339, or seconds or milliseconds since 1970.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => {
            let text = text.trim();
            text.parse()
                .or_else(|_| format!("{}Z", text.replacen(' ', "T", 1)).parse())
                .ok()
                .or_else(|| seconds(text.parse().ok()?))
        }
        Value::Number(number) => seconds(number.as_f64()?),
        _ => None,
    }
}

fn seconds(number: f64) -> Option<Timestamp> {
    // Later than the year 5138 in seconds means milliseconds, micro- or nanoseconds.
    let mut number = number;
    while number.abs() > 1e11 {
        number /= 1000.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "bounded by 1e14")]
    let milliseconds = (number * 1000.0) as i64;
    Timestamp::from_millisecond(milliseconds).ok()
}

/// The text of a content value: a string, the text of parts, or JSON of anything else.
pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let mut text = String::new();
            for part in parts {
                let part = match part {
                    Value::String(part) => part.clone(),
                    Value::Object(_) => part_text(part),
                    other => other.to_string(),
                };
                if !part.is_empty() {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&part);
                }
            }
            text
        }
        Value::Object(_) => part_text(content),
        other => other.to_string(),
    }
}

fn part_text(part: &Value) -> String {
    if let Some(text) = first_string(part, &["text", "output_text", "refusal"]) {
        return text.to_owned();
    }
    match part.get("content") {
        Some(inner @ (Value::String(_) | Value::Array(_))) => content_text(inner),
        _ if part.get("type").is_some() || part.get("text").is_some() => String::new(),
        _ => part.to_string(),
    }
}

/// A short description of a record for messages: its type and keys.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let keys: Vec<&str> = object.keys().take(6).map(String::as_str).collect();
            let more = if object.len() > keys.len() { ", …" } else { "" };
            format!("an object with {}{more}", keys.join(", "))
        }
        Value::Array(array) => match array.first() {
            Some(first @ Value::Object(_)) => {
                format!("a list of {} records, the first {}", array.len(), describe(first))
            }
            Some(_) => format!("a list of {} values", array.len()),
            None => "an empty list".to_owned(),
        },
        Value::String(_) => "a string".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Null => "null".to_owned(),
    }
}
