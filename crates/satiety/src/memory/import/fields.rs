//! Records with the fields of a memory, from JSON objects or lines of a table.

use serde_json::{Map, Value};

use super::{ImportRecord, hashed_key, time_of, title_of};
use crate::memory::{Draft, parse_tier};
use crate::retrieval::Tier;

/// Names of each field in common exports; the first one present counts.
const CONTENT: &[&str] = &[
    "content",
    "text",
    "body",
    "memory",
    "note",
    "value",
    "description",
];
const TITLE: &[&str] = &["title", "name", "subject", "summary"];
const KEY: &[&str] = &["id", "key", "uuid", "_id"];
const KIND: &[&str] = &["kind", "type", "category"];
const FOLDER: &[&str] = &["folder", "path", "namespace"];
const TIER: &[&str] = &["tier", "importance_tier", "importance"];
const TRIGGERS: &[&str] = &["triggers", "trigger_phrases", "tags", "keywords"];
const TIME: &[&str] = &["created_at", "timestamp", "date", "time", "updated_at"];

pub(super) fn has_content(record: &Value) -> bool {
    record
        .as_object()
        .is_some_and(|fields| text(fields, CONTENT).is_some())
}

/// Reads an object with the fields of a memory; only the text is required.
pub(super) fn record(record: &Value) -> Result<ImportRecord, String> {
    let fields = record.as_object().ok_or("expected an object")?;
    let content = text(fields, CONTENT).ok_or_else(|| {
        format!(
            "missing text (expected one of the fields: {})",
            CONTENT.join(", ")
        )
    })?;
    let tier = match text(fields, TIER) {
        // Other systems have importance as a number, which has no fixed meaning.
        Some(name) if name.parse::<f64>().is_err() => parse_tier(&name).map_err(|error| error.to_string())?,
        _ => Tier::Normal,
    };
    let draft = Draft {
        title: text(fields, TITLE).unwrap_or_else(|| title_of(&content)),
        content,
        tier,
        triggers: list(first(fields, TRIGGERS)),
        folder: text(fields, FOLDER).unwrap_or_default(),
        kind: text(fields, KIND).unwrap_or_default(),
    };
    let draft = draft.checked().map_err(|error| error.to_string())?;
    Ok(ImportRecord {
        key: text(fields, KEY).unwrap_or_else(|| hashed_key(&draft)),
        at: time_of(first(fields, TIME)),
        draft,
        link: None,
    })
}

fn first<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    let is_set = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    names.iter().find_map(|name| fields.get(*name).filter(is_set))
}

pub(super) fn text(fields: &Map<String, Value>, names: &[&str]) -> Option<String> {
    match first(fields, names)? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        _ => None,
    }
}

/// Phrases as a list, or as one text with separators.
fn list(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(values)) => {
            let texts = values.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        }
        Some(Value::String(text)) => {
            let separators: &[char] = if text.contains([';', '|']) {
                &[';', '|']
            } else {
                &[',']
            };
            let phrases = text
                .split(separators)
                .map(str::trim)
                .filter(|phrase| !phrase.is_empty());
            phrases.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Reads a table with a header line, one record at a time, and passes each on with its line: a memory, or what
/// is wrong. Stops when `each` returns false. An error means that the table has no usable header.
#[cfg(feature = "imports")]
pub fn csv_records(
    input: impl std::io::Read,
    delimiter: u8,
    mut each: impl FnMut(u64, Result<ImportRecord, String>) -> bool,
) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(input);
    let header = reader
        .headers()
        .map_err(|error| format!("cannot read the header: {error}"))?;
    let names: Vec<String> = header
        .iter()
        .map(|name| name.trim().trim_start_matches('\u{feff}').to_lowercase())
        .collect();
    if !names.iter().any(|name| CONTENT.contains(&name.as_str())) {
        return Err(format!(
            "no column with text (expected one of: {}; found: {})",
            CONTENT.join(", "),
            names.join(", ")
        ));
    }
    for row in reader.into_byte_records() {
        let (line, read) = match row {
            Ok(row) => {
                let line = row.position().map_or(0, csv::Position::line);
                (line, csv_record(&names, &row))
            }
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                let fatal = error.is_io_error();
                if !each(line, Err(error.to_string())) || fatal {
                    return Ok(());
                }
                continue;
            }
        };
        if !each(line, read) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(feature = "imports")]
fn csv_record(names: &[String], row: &csv::ByteRecord) -> Result<ImportRecord, String> {
    let mut fields = Map::new();
    for (name, value) in names.iter().zip(row) {
        let value = std::str::from_utf8(value).map_err(|_| format!("column `{name}` is not valid UTF-8"))?;
        fields.insert(name.clone(), value.into());
    }
    record(&Value::Object(fields))
}
