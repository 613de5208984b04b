//! Reads tests from separate files: CSV with `__expected` columns, JSON Lines, JSON and YAML.

use serde_json::{Map, Value};

use crate::bench::reader::{Named, parse};

/// File extension in lower case.
pub(super) fn file_extension(name: &str) -> String {
    name.rsplit_once('.')
        .map_or(String::new(), |(_, extension)| extension.to_ascii_lowercase())
}

/// Reads the tests of a file.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let extension = file_extension(name);
    if extension == "csv" {
        return read_csv(text);
    }
    if extension == "jsonl" {
        return text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(index, line)| {
                serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))
            })
            .collect();
    }
    let parsed = match parse(Named { file: name, text }).map_err(|error| error.to_string())? {
        // A file may also be a configuration with the key `tests`.
        Value::Object(mut fields) if fields.get("tests").is_some_and(Value::is_array) => {
            fields.remove("tests").unwrap_or_default()
        }
        parsed => parsed,
    };
    match parsed {
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::Object(test) => Ok(test),
                other => Err(format!("test is not an object: {other}")),
            })
            .collect(),
        Value::Object(test) => Ok(vec![test]),
        _ => Err("contains no tests".to_owned()),
    }
}

#[cfg(not(feature = "imports"))]
fn read_csv(_: &str) -> Result<Vec<Map<String, Value>>, String> {
    Err("cannot read CSV: not in this build (cargo feature `imports`)".to_owned())
}

#[cfg(feature = "imports")]
fn read_csv(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut tests = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let (mut vars, mut asserts, mut notes) = (Map::new(), Vec::new(), Map::new());
        let (mut test, mut options, mut metric) = (Map::new(), Map::new(), None);
        for (header, field) in headers.iter().map(str::trim).zip(&record) {
            if header.starts_with("__expected") {
                asserts.extend(assertion(field));
            } else if header == "__description" && !field.is_empty() {
                test.insert("description".to_owned(), serde_json::json!(field));
            } else if header == "__threshold" {
                if let Ok(threshold) = field.trim().parse::<f64>() {
                    test.insert("threshold".to_owned(), serde_json::json!(threshold));
                }
            } else if let Some(key @ ("prefix" | "suffix")) = header.strip_prefix("__") {
                if !field.is_empty() {
                    options.insert(key.to_owned(), serde_json::json!(field));
                }
            } else if header == "__metric" {
                metric = Some(field).filter(|metric| !metric.is_empty());
            } else if let Some(key) = header.strip_prefix("__metadata:") {
                notes.insert(key.to_owned(), serde_json::json!(field));
            } else if header.starts_with("__") {
                // An unknown key, so that it is reported as one.
                test.insert(header.to_owned(), serde_json::json!(field));
            } else {
                vars.insert(header.to_owned(), serde_json::json!(field));
            }
        }
        for assertion in asserts.iter_mut().filter_map(Value::as_object_mut) {
            assertion.extend(metric.map(|metric| ("metric".to_owned(), serde_json::json!(metric))));
        }
        test.insert("options".to_owned(), Value::Object(options));
        test.insert("vars".to_owned(), Value::Object(vars));
        test.insert("assert".to_owned(), Value::Array(asserts));
        test.insert("metadata".to_owned(), Value::Object(notes));
        tests.push(test);
    }
    Ok(tests)
}

/// Prompts of a CSV file: the column `prompt`, or the only column.
#[cfg(feature = "imports")]
pub(super) fn prompt_column(text: &str) -> Result<Vec<String>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let column = headers
        .iter()
        .position(|header| header.trim() == "prompt")
        .or((headers.len() == 1).then_some(0))
        .ok_or("has no column `prompt`")?;
    let mut prompts = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        prompts.extend(record.get(column).map(str::to_owned));
    }
    Ok(prompts)
}

#[cfg(not(feature = "imports"))]
pub(super) fn prompt_column(_: &str) -> Result<Vec<String>, String> {
    Err("cannot read CSV: not in this build (cargo feature `imports`)".to_owned())
}

/// Assertion types that a cell may start with.
#[cfg(feature = "imports")]
const KNOWN: [&str; 25] = [
    "equals",
    "contains",
    "icontains",
    "contains-any",
    "contains-all",
    "icontains-any",
    "icontains-all",
    "starts-with",
    "regex",
    "is-json",
    "contains-json",
    "latency",
    "cost",
    "llm-rubric",
    "model-graded-closedqa",
    "similar",
    "javascript",
    "python",
    "levenshtein",
    "rouge-n",
    "word-count",
    "factuality",
    "is-refusal",
    "g-eval",
    "answer-relevance",
];

/// Parses `contains: x`, `similar(0.8): x` or `is-json`; any other text is compared for equality.
#[cfg(feature = "imports")]
fn assertion(field: &str) -> Option<Value> {
    let field = field.trim();
    if field.is_empty() {
        return None;
    }
    let (head, value) = field
        .split_once(':')
        .map_or((field, None), |(head, value)| (head, Some(value.trim())));
    let (kind, threshold) = match head.split_once('(') {
        Some((kind, rest)) => (
            kind,
            rest.strip_suffix(')')
                .and_then(|number| number.trim().parse::<f64>().ok()),
        ),
        None => (head, None),
    };
    let kind = match kind {
        "grade" => "llm-rubric",
        "fn" | "eval" => "javascript",
        kind => kind,
    };
    if !KNOWN.contains(&kind.strip_prefix("not-").unwrap_or(kind)) {
        return Some(serde_json::json!({"type": "equals", "value": field}));
    }
    let mut item = Map::from_iter([("type".to_owned(), serde_json::json!(kind))]);
    item.extend(
        value
            .filter(|value| !value.is_empty())
            .map(|value| ("value".to_owned(), serde_json::json!(value))),
    );
    item.extend(threshold.map(|threshold| ("threshold".to_owned(), serde_json::json!(threshold))));
    Some(Value::Object(item))
}
