//! Conversations as memories: each exchange, a request with the answers to it, is one memory, so that a
//! question and its answer are found together.

use serde_json::Value;

use super::{ImportFormat, ImportRecord, time_of, title_of};
use crate::memory::Draft;
use crate::retrieval::Tier;

/// Folder of imported conversations.
const FOLDER: &str = "chats";
/// Maximum bytes of an exchange; the rest of a longer one is left out, and the text says so.
const MAX_EXCHANGE_BYTES: usize = 1 << 20;

struct Conversation {
    id: String,
    title: String,
    messages: Vec<Message>,
}

struct Message {
    /// Identifies the message in its conversation, if the export has ids.
    id: Option<String>,
    speaker: String,
    is_request: bool,
    text: String,
    at: Option<i64>,
}

/// Returns the exchanges of a conversation.
pub(super) fn exchanges(format: ImportFormat, record: &Value) -> Result<Vec<ImportRecord>, String> {
    let conversation = match format {
        ImportFormat::Chatgpt => chatgpt(record)?,
        ImportFormat::Claude => claude(record)?,
        _ => messages(record)?,
    };
    let mut records = Vec::new();
    let mut start = 0;
    let all = &conversation.messages;
    for end in 1..=all.len() {
        // An exchange begins with a request after something else.
        let begins = |at: usize| {
            all.get(at).is_none_or(|message| message.is_request)
                && !all.get(at - 1).is_some_and(|before| before.is_request)
        };
        if end < all.len() && !begins(end) {
            continue;
        }
        records.extend(exchange(&conversation, start, &all[start..end])?);
        start = end;
    }
    Ok(records)
}

fn exchange(
    conversation: &Conversation,
    number: usize,
    messages: &[Message],
) -> Result<Option<ImportRecord>, String> {
    let Some(first) = messages.first() else {
        return Ok(None);
    };
    let mut content = String::new();
    for message in messages {
        let at = message
            .at
            .and_then(|at| jiff::Timestamp::from_microsecond(at).ok());
        let at = at.map(|at| at.strftime(" (%Y-%m-%d %H:%M UTC)").to_string());
        let part = format!(
            "{}{}: {}\n\n",
            message.speaker,
            at.unwrap_or_default(),
            message.text.trim()
        );
        if content.len() + part.len() > MAX_EXCHANGE_BYTES {
            content.push_str("(The rest of this exchange was not imported.)\n");
            break;
        }
        content.push_str(&part);
    }
    if content.trim().is_empty() {
        return Ok(None);
    }
    let request = title_of(&first.text);
    let title = match (conversation.title.trim(), request.as_str()) {
        ("", request) => request.to_owned(),
        (title, "") => title.to_owned(),
        (title, request) => format!("{}: {request}", title.chars().take(150).collect::<String>()),
    };
    let draft = Draft {
        title: if title.is_empty() {
            "Conversation".to_owned()
        } else {
            title
        },
        content,
        tier: Tier::Normal,
        triggers: Vec::new(),
        folder: FOLDER.to_owned(),
        kind: "conversation".to_owned(),
    };
    let place = first.id.clone().unwrap_or_else(|| number.to_string());
    Ok(Some(ImportRecord {
        key: format!("{}/{place}", conversation.id),
        draft: draft.checked().map_err(|error| error.to_string())?,
        at: first.at,
        link: None,
    }))
}

fn string(value: &Value, keys: &[&str]) -> String {
    let found = keys.iter().find_map(|key| value.get(key)?.as_str());
    found.unwrap_or_default().to_owned()
}

/// ChatGPT keeps a tree of messages, because they can be edited: the branch that ends at `current_node` is the
/// conversation.
fn chatgpt(record: &Value) -> Result<Conversation, String> {
    let nodes = record
        .get("mapping")
        .and_then(Value::as_object)
        .ok_or("missing `mapping`")?;
    let leaf = |(_, node): &(&String, &Value)| {
        node.get("children")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
    };
    let current = record
        .get("current_node")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let mut at = current.or_else(|| nodes.iter().rfind(leaf).map(|(id, _)| id.clone()));
    let mut branch = Vec::new();
    // A damaged export may have a cycle.
    let mut visited = std::collections::BTreeSet::new();
    while let Some(id) = at.take()
        && let Some(node) = nodes.get(&id)
        && visited.insert(id)
    {
        branch.push(node);
        at = node.get("parent").and_then(Value::as_str).map(str::to_owned);
    }
    let messages = branch.into_iter().rev().filter_map(|node| {
        let message = node.get("message").filter(|message| message.is_object())?;
        let role = message.pointer("/author/role").and_then(Value::as_str)?;
        let hidden = message.pointer("/metadata/is_visually_hidden_from_conversation");
        if !matches!(role, "user" | "assistant") || hidden.and_then(Value::as_bool) == Some(true) {
            return None;
        }
        // Calls of tools and hidden reasoning are not addressed to all.
        let recipient = message.get("recipient").and_then(Value::as_str).unwrap_or("all");
        let kind = message
            .pointer("/content/content_type")
            .and_then(Value::as_str)
            .unwrap_or("text");
        if recipient != "all" || !matches!(kind, "text" | "multimodal_text") {
            return None;
        }
        let parts = message.pointer("/content/parts").and_then(Value::as_array)?;
        let texts: Vec<&str> = parts
            .iter()
            .filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()))
            .collect();
        Message {
            id: message.get("id").and_then(Value::as_str).map(str::to_owned),
            speaker: speaker(role).to_owned(),
            is_request: role == "user",
            text: texts.join("\n\n"),
            at: time_of(message.get("create_time")),
        }
        .with_text()
    });
    Ok(Conversation {
        id: identified(record, &["conversation_id", "id"])?,
        title: string(record, &["title"]),
        messages: messages.collect(),
    })
}

fn claude(record: &Value) -> Result<Conversation, String> {
    let list = record
        .get("chat_messages")
        .and_then(Value::as_array)
        .ok_or("missing `chat_messages`")?;
    let messages = list.iter().filter_map(|message| {
        let sender = string(message, &["sender"]);
        // `content` has the visible blocks; older exports have only `text`.
        let blocks = text_of(message.get("content").unwrap_or(&Value::Null));
        let text = if blocks.trim().is_empty() {
            string(message, &["text"])
        } else {
            blocks
        };
        Message {
            id: message.get("uuid").and_then(Value::as_str).map(str::to_owned),
            is_request: matches!(sender.as_str(), "human" | "user"),
            speaker: speaker(&sender).to_owned(),
            text,
            at: time_of(message.get("created_at")),
        }
        .with_text()
    });
    Ok(Conversation {
        id: identified(record, &["uuid", "id"])?,
        title: string(record, &["name", "title"]),
        messages: messages.collect(),
    })
}

/// Messages of the APIs, as a list under `messages` or as a single message.
fn messages(record: &Value) -> Result<Conversation, String> {
    let single = [record.clone()];
    let list = match record.get("messages") {
        Some(list) => list.as_array().ok_or("`messages` is not a list")?.as_slice(),
        None if record.get("role").is_some() => &single,
        None => return Err("missing `messages`".to_owned()),
    };
    let messages = list.iter().filter_map(|message| {
        let role = string(message, &["role"]);
        if !matches!(role.as_str(), "user" | "human" | "assistant" | "model" | "ai") {
            return None;
        }
        let is_request = matches!(role.as_str(), "user" | "human");
        let name = string(message, &["name"]);
        Message {
            id: message.get("id").and_then(Value::as_str).map(str::to_owned),
            speaker: if name.is_empty() {
                speaker(&role).to_owned()
            } else {
                name
            },
            is_request,
            text: text_of(message.get("content").unwrap_or(&Value::Null)),
            at: ["timestamp", "created_at", "created"]
                .iter()
                .find_map(|key| time_of(message.get(key))),
        }
        .with_text()
    });
    let messages: Vec<Message> = messages.collect();
    // Without an id the text identifies the conversation, by its beginning: it may grow.
    let id = identified(record, &["conversation_id", "id", "uuid"]).unwrap_or_else(|_| {
        let first = messages.first().map_or("", |message| message.text.as_str());
        crate::memory::content_hash("conversation", first)
    });
    Ok(Conversation {
        id,
        title: string(record, &["title", "topic", "name"]),
        messages,
    })
}

impl Message {
    fn with_text(self) -> Option<Self> {
        (!self.text.trim().is_empty()).then_some(self)
    }
}

fn identified(record: &Value, keys: &[&str]) -> Result<String, String> {
    let id = string(record, keys);
    if id.is_empty() {
        return Err(format!("missing `{}`", keys.join("` or `")));
    }
    Ok(id)
}

fn speaker(role: &str) -> &str {
    match role {
        "user" | "human" => "User",
        "assistant" | "model" | "ai" => "Assistant",
        other => other,
    }
}

/// Text of a string, or of the text blocks of a list.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| match block {
                Value::String(text) => Some(text.as_str()),
                block => {
                    let kind = block.get("type").and_then(Value::as_str).unwrap_or("text");
                    let is_text = matches!(kind, "text" | "input_text" | "output_text");
                    block.get("text").and_then(Value::as_str).filter(|_| is_text)
                }
            });
            texts.collect::<Vec<_>>().join("\n\n")
        }
        _ => String::new(),
    }
}
