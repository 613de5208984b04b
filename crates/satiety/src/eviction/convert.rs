//! Converts agent logs (chat logs, session logs of coding agents) to traces. Every message is a turn;
//! messages, tool calls and tool results become items. Logs do not record which items a turn used, so uses
//! are inferred by two rules:
//!
//! 1. **reference**: the turn names the path of an item, or answers its tool call;
//! 2. **overlap**: the turn shares enough words with an item that are rare in the session so far, such as
//!    identifiers.
//!
//! Both rules miss items that an agent used without naming them. A converted trace is suitable for comparing
//! policies, not for measuring how much an agent really needed. Tool results keep their text unless `content`
//! is off.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::error::EvictionError;
use super::item::ContextItem;
use super::simulation::{Session, TraceTurn};
use crate::text::Tokenization;

/// Options of the conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertOptions {
    /// Name of the session.
    pub session: String,
    /// Number of shared rare words that count as a use.
    pub overlap: usize,
    /// Whether items keep their text.
    pub content: bool,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            session: "session".to_owned(),
            overlap: 3,
            content: true,
        }
    }
}

/// Minimum length of a rare word, in characters; shorter words are mostly grammar.
const MIN_RARE_CHARS: usize = 5;
/// Maximum number of items that contain a rare word.
const MAX_RARE_ITEMS: usize = 3;

/// Part of a log message that becomes an item.
#[derive(Debug, PartialEq)]
struct LogItem {
    zone: &'static str,
    kind: &'static str,
    text: String,
    /// Path that it refers to.
    path: Option<String>,
    /// Id of the tool call that it is or answers.
    call: Option<String>,
    /// Whether the agent wrote it and may therefore use other items.
    by_agent: bool,
}

/// Converts a log: a JSON array of messages, an object with `messages`, or JSON Lines. `count` counts tokens.
pub fn convert(
    text: &str,
    options: &ConvertOptions,
    count: &dyn Fn(&str) -> u64,
) -> Result<Session, EvictionError> {
    let mut turns = Vec::new();
    let mut items: Vec<KnownItem> = Vec::new();
    let mut appearances: BTreeMap<String, usize> = BTreeMap::new();
    for (number, message) in messages(text)? {
        let log_items = log_items(&message);
        if log_items.is_empty() {
            continue;
        }
        let turn = turns.len() as u64;
        let mut add = Vec::new();
        let mut uses: BTreeSet<usize> = BTreeSet::new();
        let before = items.len();
        for log_item in log_items {
            let words = rare_words(&log_item.text);
            if log_item.by_agent || log_item.call.is_some() {
                uses.extend(used_items(
                    &items[..before],
                    &log_item,
                    &words,
                    &appearances,
                    options.overlap,
                ));
            }
            for word in &words {
                *appearances.entry(word.clone()).or_default() += 1;
            }
            let mut item = ContextItem::new(
                format!("{}-{}", log_item.kind, items.len()),
                log_item.zone,
                count(&log_item.text),
            );
            log_item.kind.clone_into(&mut item.kind);
            item.pinned = log_item.zone == "system";
            (item.created_turn, item.last_referenced_turn) = (turn, turn);
            item.content = options.content.then(|| log_item.text.clone());
            item.check().map_err(|error| EvictionError::Trace {
                line: number,
                reason: error.to_string(),
            })?;
            items.push(KnownItem {
                id: item.ctx_id.clone(),
                words,
                path: log_item.path,
                call: log_item.call,
            });
            add.push(item);
        }
        turns.push(TraceTurn {
            session: options.session.clone(),
            turn,
            goal: None,
            add,
            uses: uses.into_iter().map(|i| items[i].id.clone()).collect(),
        });
    }
    if turns.is_empty() {
        return Err(EvictionError::Trace {
            line: 1,
            reason: "no message with text found".into(),
        });
    }
    Ok(Session {
        id: options.session.clone(),
        turns,
    })
}

struct KnownItem {
    id: String,
    words: BTreeSet<String>,
    path: Option<String>,
    call: Option<String>,
}

fn used_items(
    items: &[KnownItem],
    log_item: &LogItem,
    words: &BTreeSet<String>,
    appearances: &BTreeMap<String, usize>,
    overlap: usize,
) -> Vec<usize> {
    let rare: Vec<&String> = words
        .iter()
        .filter(|word| (1..=MAX_RARE_ITEMS).contains(&appearances.get(*word).copied().unwrap_or(0)))
        .collect();
    let names = |path: &String| log_item.path.as_ref() == Some(path) || log_item.text.contains(path.as_str());
    let is_used = |item: &KnownItem| {
        item.path.as_ref().is_some_and(names)
            || (item.call.is_some() && item.call == log_item.call)
            || rare.iter().filter(|word| item.words.contains(**word)).count() >= overlap
    };
    items
        .iter()
        .enumerate()
        .filter(|(_, item)| is_used(item))
        .map(|(i, _)| i)
        .collect()
}

fn rare_words(text: &str) -> BTreeSet<String> {
    let mut words = Tokenization::Words.set(text);
    words.retain(|word| word.chars().count() >= MIN_RARE_CHARS);
    words
}

/// Returns the messages of a log, each with its line number.
fn messages(text: &str) -> Result<Vec<(usize, Value)>, EvictionError> {
    let wrong = |line: usize, reason: String| EvictionError::Trace { line, reason };
    let list = |value: &Value| -> Option<Vec<(usize, Value)>> {
        let array = value.as_array().or_else(|| value.get("messages")?.as_array())?;
        Some(array.iter().map(|message| (1, message.clone())).collect())
    };
    if let Ok(value) = serde_json::from_str::<Value>(text)
        && let Some(found) = list(&value)
    {
        return Ok(found);
    }
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if !line.trim().is_empty() {
            let value: Value =
                serde_json::from_str(line).map_err(|error| wrong(number, error.to_string()))?;
            found.push((number, value));
        }
    }
    Ok(found)
}

/// Returns the items of a log line; none for lines of other types (snapshots, accounting).
fn log_items(line: &Value) -> Vec<LogItem> {
    // Claude Code wraps messages in `message`, Codex in `payload`; chat logs do not wrap.
    let inner = line
        .get("message")
        .or_else(|| line.get("payload"))
        .unwrap_or(line);
    let text_of = |key: &str| inner.get(key).and_then(Value::as_str).map(str::to_owned);
    match inner.get("type").and_then(Value::as_str) {
        Some("function_call" | "custom_tool_call") => {
            let arguments = text_of("arguments")
                .or_else(|| text_of("input"))
                .unwrap_or_default();
            let input = serde_json::from_str(&arguments).unwrap_or(Value::Null);
            return vec![call(
                &text_of("name").unwrap_or_default(),
                &input,
                &arguments,
                text_of("call_id"),
            )];
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            return result(inner.get("output"), text_of("call_id"))
                .into_iter()
                .collect();
        }
        _ => {}
    }
    let role = inner.get("role").and_then(Value::as_str).unwrap_or_default();
    let mut found = Vec::new();
    match inner.get("content") {
        Some(Value::String(text)) => found.extend(message_item(role, text, text_of("tool_call_id"))),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                let field = |key: &str| block.get(key).and_then(Value::as_str);
                match field("type") {
                    Some("tool_use") => {
                        let input = block.get("input").cloned().unwrap_or(Value::Null);
                        let arguments = input.to_string();
                        found.push(call(
                            field("name").unwrap_or_default(),
                            &input,
                            &arguments,
                            field("id").map(str::to_owned),
                        ));
                    }
                    Some("tool_result") => {
                        found.extend(result(
                            block.get("content"),
                            field("tool_use_id").map(str::to_owned),
                        ));
                    }
                    _ => found.extend(field("text").and_then(|text| message_item(role, text, None))),
                }
            }
        }
        _ => {}
    }
    for tool in inner
        .get("tool_calls")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let arguments = tool
            .pointer("/function/arguments")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = tool
            .pointer("/function/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let input = serde_json::from_str(arguments).unwrap_or(Value::Null);
        found.push(call(
            name,
            &input,
            arguments,
            tool.get("id").and_then(Value::as_str).map(str::to_owned),
        ));
    }
    found
}

fn message_item(role: &str, text: &str, call: Option<String>) -> Option<LogItem> {
    if text.trim().is_empty() {
        return None;
    }
    let (zone, kind, by_agent) = match role {
        "system" | "developer" => ("system", "instruction", false),
        "tool" | "function" => ("workspace", "tool_result", false),
        "user" | "human" => ("chronicle", "message", false),
        _ => ("chronicle", "message", true),
    };
    Some(LogItem {
        zone,
        kind,
        text: text.to_owned(),
        path: None,
        call,
        by_agent,
    })
}

fn call(name: &str, input: &Value, arguments: &str, call: Option<String>) -> LogItem {
    let path = ["file_path", "path", "notebook_path", "filename"]
        .iter()
        .find_map(|key| input.get(key).and_then(Value::as_str))
        .map(str::to_owned);
    LogItem {
        zone: "chronicle",
        kind: "tool_call",
        text: format!("{name} {arguments}"),
        path,
        call,
        by_agent: true,
    }
}

fn result(content: Option<&Value>, call: Option<String>) -> Option<LogItem> {
    let text = match content? {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks
                .iter()
                .filter_map(|block| block.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    };
    (!text.trim().is_empty()).then_some(LogItem {
        zone: "workspace",
        kind: "tool_result",
        text,
        path: None,
        call,
        by_agent: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::simulation::{read_trace, write_trace};
    use super::*;

    fn count(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    fn uses(text: &str) -> Vec<Vec<String>> {
        let session = convert(text, &ConvertOptions::default(), &count).unwrap();
        assert_eq!(
            read_trace(&write_trace(std::slice::from_ref(&session))).unwrap(),
            std::slice::from_ref(&session)
        );
        session.turns.into_iter().map(|turn| turn.uses).collect()
    }

    #[test]
    fn a_chat_uses_what_it_repeats() {
        let text = r#"[{"role":"system","content":"Be brief."},
            {"role":"user","content":"The invoice exporter crashes with OverflowError in quarterly reports"},
            {"role":"assistant","content":"Let me look at something else first."},
            {"role":"assistant","content":"The OverflowError in the invoice exporter comes from the quarterly sum."}]"#;
        assert_eq!(uses(text), [vec![], vec![], vec![], vec!["message-1".to_owned()]]);
        let session = convert(
            text,
            &ConvertOptions {
                content: false,
                ..ConvertOptions::default()
            },
            &count,
        )
        .unwrap();
        assert!(session.turns[0].add[0].pinned && session.turns[0].add[0].content.is_none());
    }

    #[test]
    fn a_session_log_uses_what_it_names() {
        let text = concat!(
            r#"{"type":"user","message":{"role":"user","content":"Fix it"}}"#,
            "\n",
            r#"{"type":"file-history-snapshot","snapshot":{}}"#,
            "\n",
            r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/src/a.rs"}}]}}"#,
            "\n",
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"fn main() {}"}]}]}}"#,
            "\n",
            r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Now I change /src/a.rs."}]}}"#,
            "\n",
        );
        assert_eq!(
            uses(text),
            [
                vec![],
                vec![],
                vec!["tool_call-1".to_owned()],
                vec!["tool_call-1".to_owned()]
            ]
        );
    }

    #[test]
    fn codex_and_openai_shapes_are_read() {
        let codex = concat!(
            r#"{"type":"session_meta","payload":{"id":"x"}}"#,
            "\n",
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it"}]}}"#,
            "\n",
            r#"{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"path\":\"b.rs\"}","call_id":"c"}}"#,
            "\n",
            r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"done"}}"#,
            "\n",
        );
        assert_eq!(uses(codex), [vec![], vec![], vec!["tool_call-1".to_owned()]]);
        let openai = r#"{"messages":[{"role":"user","content":"Go"},{"role":"assistant","content":null,
            "tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]}"#;
        assert_eq!(uses(openai), [vec![], vec![], vec!["tool_call-1".to_owned()]]);
    }

    #[test]
    fn a_log_without_messages_is_rejected() {
        for text in ["", "[]", "{\"type\":\"other\"}", "not json"] {
            assert!(
                convert(text, &ConvertOptions::default(), &count).is_err(),
                "{text}"
            );
        }
    }
}
