//! Records of other systems as memories: chat exports, notes in JSON Lines or CSV, knowledge graphs of MCP
//! servers, and exports of mem0. Readers are pure: the caller reads files and stores the drafts.
//!
//! Every record has a key that is stable between imports of the same source, so that an import can be repeated
//! or resumed without creating anything twice.

mod chat;
mod fields;
mod graph;
mod stream;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Draft, LinkKind};

#[cfg(feature = "imports")]
pub use fields::csv_records;
pub use stream::{JsonRecord, JsonRecords};

/// Formats that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImportFormat {
    /// JSON Lines, or a JSON list, of objects with `content` and optional fields of a memory.
    Jsonl,
    /// CSV or TSV with a header line of the same field names.
    Csv,
    /// `conversations.json` of a ChatGPT data export.
    Chatgpt,
    /// `conversations.json` of a Claude data export.
    Claude,
    /// Messages with `role` and `content`, as in the APIs of OpenAI and Anthropic.
    Messages,
    /// The JSON Lines file of the MCP server `@modelcontextprotocol/server-memory`.
    ServerMemory,
    /// Memories of mem0, as `get_all` and its exports return them.
    Mem0,
    /// A directory of Markdown files, each a memory.
    Markdown,
    /// Another Satiety database.
    Satiety,
}

impl ImportFormat {
    /// All formats.
    pub const ALL: [Self; 9] = [
        Self::Jsonl,
        Self::Csv,
        Self::Chatgpt,
        Self::Claude,
        Self::Messages,
        Self::ServerMemory,
        Self::Mem0,
        Self::Markdown,
        Self::Satiety,
    ];

    /// Name of the format in commands and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Chatgpt => "chatgpt",
            Self::Claude => "claude",
            Self::Messages => "messages",
            Self::ServerMemory => "server-memory",
            Self::Mem0 => "mem0",
            Self::Markdown => "markdown",
            Self::Satiety => "satiety",
        }
    }

    /// Format of a JSON record by its fields; `None` if it has none that is known.
    pub fn detect(record: &Value) -> Option<Self> {
        let has = |key: &str| record.get(key).is_some_and(|value| !value.is_null());
        let kind = record.get("type").and_then(Value::as_str);
        if has("mapping") && record["mapping"].is_object() {
            Some(Self::Chatgpt)
        } else if has("chat_messages") {
            Some(Self::Claude)
        } else if has("messages") || (has("role") && has("content")) {
            Some(Self::Messages)
        } else if (kind == Some("entity") && has("name")) || (kind == Some("relation") && has("from")) {
            Some(Self::ServerMemory)
        } else if record.get("memory").is_some_and(Value::is_string) {
            Some(Self::Mem0)
        } else if fields::has_content(record) {
            Some(Self::Jsonl)
        } else {
            None
        }
    }
}

impl fmt::Display for ImportFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ImportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("unknown format `{name}` (expected one of: {})", names.join(", "))
        })
    }
}

/// A memory from another system.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportRecord {
    /// Identifies the record within its source.
    pub key: String,
    /// Memory to store.
    pub draft: Draft,
    /// Time of the record in its source, in microseconds since 1970.
    pub at: Option<i64>,
    /// Link between two other records of the source, by their keys.
    pub link: Option<(String, LinkKind, String)>,
}

/// Returns the memories in one JSON record of a source: several for a conversation, none for one without
/// text. The error says what is wrong with the record.
pub fn import_records(format: ImportFormat, record: &Value) -> Result<Vec<ImportRecord>, String> {
    match format {
        ImportFormat::Chatgpt | ImportFormat::Claude | ImportFormat::Messages => {
            chat::exchanges(format, record)
        }
        ImportFormat::ServerMemory => graph::record(record).map(|record| vec![record]),
        ImportFormat::Mem0 => graph::mem0(record).map(|record| vec![record]),
        ImportFormat::Jsonl => fields::record(record).map(|record| vec![record]),
        ImportFormat::Csv | ImportFormat::Markdown | ImportFormat::Satiety => {
            Err(format!("the format `{format}` has no JSON records"))
        }
    }
}

/// First line of a text as a title, at most 80 characters.
fn title_of(text: &str) -> String {
    const MOST: usize = 80;
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let line = line.trim_start_matches('#').trim();
    let mut title: String = line.chars().take(MOST).collect();
    if line.chars().nth(MOST).is_some() {
        // Cut at a word, unless the text has no spaces.
        if let Some((whole, _)) = title.rsplit_once(' ') {
            title = whole.to_owned();
        }
        title.push('…');
    }
    title
}

/// Key of a record without an id: a hash of its text.
fn hashed_key(draft: &Draft) -> String {
    super::content_hash(&draft.title, &draft.content)
}

/// Time as number of seconds since 1970 or as RFC 3339, in microseconds.
fn time_of(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Number(seconds) => {
            let seconds = seconds.as_f64().filter(|seconds| seconds.abs() < 1e13)?;
            // Exports with milliseconds are recognised by their size.
            let seconds = if seconds.abs() > 1e11 {
                seconds / 1e3
            } else {
                seconds
            };
            #[expect(clippy::cast_possible_truncation, reason = "below 1e17")]
            let micros = (seconds * 1e6) as i64;
            Some(micros)
        }
        Value::String(text) => {
            let text = text.trim();
            let stamp = text.parse::<jiff::Timestamp>().ok();
            // Times without a zone are taken as UTC.
            let civil = || {
                let civil: jiff::civil::DateTime = text.parse().ok()?;
                civil
                    .to_zoned(jiff::tz::TimeZone::UTC)
                    .ok()
                    .map(|zoned| zoned.timestamp())
            };
            stamp.or_else(civil).map(jiff::Timestamp::as_microsecond)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
