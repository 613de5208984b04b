//! Conversion of search tool answers to rankings. Answers may be structured, JSON inside text, JSON Lines or
//! prose. Results are identified by id, or by text similarity to a known document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::Tokenization;

/// Minimum share of common words, relative to the shorter text.
const MIN_OVERLAP: f64 = 0.8;
/// Minimum number of common words, unless the document has fewer.
const MIN_COMMON_WORDS: usize = 3;
/// Common keys of result lists.
const LISTS: [&str; 9] = [
    "results",
    "items",
    "hits",
    "data",
    "memories",
    "nodes",
    "facts",
    "entities",
    "documents",
];
/// Common keys of ids.
const IDS: [&str; 8] = [
    "id",
    "memory_id",
    "memoryId",
    "uuid",
    "permalink",
    "doc_id",
    "key",
    "name",
];
/// Common keys of texts.
const TEXTS: [&str; 9] = [
    "content",
    "text",
    "memory",
    "excerpt",
    "snippet",
    "summary",
    "fact",
    "observations",
    "title",
];

/// Paths of ids and texts in an answer: JSON Pointers in which `*` matches every element of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerPaths {
    /// Path of the ids, such as `/results/*/id`.
    pub id_path: Option<String>,
    /// Path of the texts, such as `/results/*/content`.
    pub text_path: Option<String>,
}

/// Settings for calling a well-known memory server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerPreset {
    /// Name of the preset.
    pub name: String,
    /// Description of the server.
    pub about: String,
    /// Name of the search tool.
    pub tool: String,
    /// Argument for the query.
    pub query_arg: String,
    /// Argument for the maximum number of results.
    pub limit_arg: Option<String>,
    /// Path of the ids in the answer.
    pub id_path: Option<String>,
    /// Path of the texts in the answer.
    pub text_path: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Presets {
    preset: Vec<AnswerPreset>,
}

/// Built-in presets of memory servers.
#[expect(
    clippy::expect_used,
    reason = "a file of the program, read by the tests below"
)]
pub static PRESETS: LazyLock<Vec<AnswerPreset>> = LazyLock::new(|| {
    toml::from_str::<Presets>(include_str!("data/presets.toml"))
        .expect("presets.toml can be read")
        .preset
});

/// One result of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerResult {
    /// Id assigned by the tool.
    pub id: Option<String>,
    /// Text of the result.
    pub text: Option<String>,
}

/// Results parsed from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Results, best first.
    pub results: Vec<AnswerResult>,
    /// Whether the answer was prose, split into paragraphs.
    pub prose: bool,
}

/// Parses an answer: a value, JSON inside text, JSON Lines, or prose. An empty answer has no results.
pub fn read_answer(output: &Value, paths: &AnswerPaths) -> Result<Answered, String> {
    let found = |results| Answered {
        results,
        prose: false,
    };
    match output {
        Value::Null => Ok(found(Vec::new())),
        Value::String(text) => {
            let text = text.trim();
            if let Ok(inside @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text) {
                return read_answer(&inside, paths);
            }
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let values: Result<Vec<Value>, _> = lines
                .iter()
                .map(|line| serde_json::from_str::<Value>(line))
                .collect();
            match values {
                Ok(values) if !values.is_empty() && values.iter().all(Value::is_object) => {
                    read_answer(&Value::Array(values), &AnswerPaths::default())
                }
                _ => Ok(Answered {
                    results: paragraphs(text),
                    prose: true,
                }),
            }
        }
        Value::Array(_) | Value::Object(_) if *paths != AnswerPaths::default() => {
            by_paths(output, paths).map(found)
        }
        Value::Array(items) => Ok(found(items.iter().map(guess_result).collect())),
        Value::Object(object) => {
            let list = LISTS.iter().find_map(|name| object.get(*name));
            match list {
                Some(list @ (Value::Array(_) | Value::Object(_) | Value::String(_))) => {
                    read_answer(list, paths)
                }
                Some(_) => Ok(found(Vec::new())),
                // Some tools wrap the answer in `result` or `output`.
                None => match object.get("result").or_else(|| object.get("output")) {
                    Some(inside) => read_answer(inside, paths),
                    None if object.is_empty() => Ok(found(Vec::new())),
                    None => Ok(found(vec![guess_result(output)])),
                },
            }
        }
        other => Err(format!("expected a list of results, found `{other}`")),
    }
}

fn by_paths(output: &Value, paths: &AnswerPaths) -> Result<Vec<AnswerResult>, String> {
    let column = |path: &Option<String>| -> Result<Option<Vec<Option<String>>>, String> {
        let Some(path) = path else { return Ok(None) };
        let (list, rest) = path.split_once("/*").unwrap_or((path, ""));
        let at = output.pointer(list);
        // Some servers wrap the answer in `result`.
        let at = at.or_else(|| output.get("result")?.pointer(list));
        match at {
            Some(Value::Array(items)) => Ok(Some(
                items
                    .iter()
                    .map(|item| item.pointer(rest).and_then(plain))
                    .collect(),
            )),
            Some(Value::Null) => Ok(Some(Vec::new())),
            Some(_) => Err(format!("the value at `{list}` is not a list")),
            None => Err(format!("the answer has no value at `{list}`")),
        }
    };
    let (ids, texts) = (column(&paths.id_path)?, column(&paths.text_path)?);
    let count = ids.as_ref().or(texts.as_ref()).map_or(0, Vec::len);
    let cell = |column: &Option<Vec<Option<String>>>, at: usize| column.as_ref()?.get(at)?.clone();
    Ok((0..count)
        .map(|at| AnswerResult {
            id: cell(&ids, at),
            text: cell(&texts, at),
        })
        .collect())
}

fn guess_result(item: &Value) -> AnswerResult {
    let named = |names: &[&str]| names.iter().find_map(|name| plain(item.get(*name)?));
    match item {
        Value::String(text) => AnswerResult {
            id: None,
            text: Some(text.clone()),
        },
        _ => AnswerResult {
            id: named(&IDS),
            text: named(&TEXTS),
        },
    }
}

/// A scalar as text; a list is joined with line ends.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().filter_map(plain).collect();
            (!parts.is_empty()).then(|| parts.join("\n"))
        }
        _ => None,
    }
}

/// Splits prose at list items and paragraphs.
fn paragraphs(text: &str) -> Vec<AnswerResult> {
    let mut parts: Vec<String> = Vec::new();
    let mut fresh = true;
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() {
            fresh = true;
            continue;
        }
        match parts.last_mut() {
            Some(part) if !fresh && !begins_item(bare) => {
                part.push('\n');
                part.push_str(bare);
            }
            _ => parts.push(bare.to_owned()),
        }
        fresh = false;
    }
    let result = |text| AnswerResult {
        id: None,
        text: Some(text),
    };
    parts.into_iter().map(result).collect()
}

fn begins_item(line: &str) -> bool {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let after = line.get(digits..).unwrap_or_default();
    line.starts_with("- ")
        || line.starts_with("* ")
        || line.starts_with("• ")
        || (digits > 0 && after.starts_with(['.', ')']))
}

/// Known documents, for identifying results by id or text.
#[derive(Debug, Clone, Default)]
pub struct DocumentMatcher {
    ids: Vec<String>,
    positions: BTreeMap<String, usize>,
    sizes: Vec<usize>,
    words: BTreeMap<String, Vec<usize>>,
}

impl DocumentMatcher {
    /// Adds a document. Without text it can only be identified by id.
    pub fn add(&mut self, id: &str, text: &str) {
        if self.positions.contains_key(id) {
            return;
        }
        let at = self.ids.len();
        let words = Tokenization::Words.set(text);
        self.positions.insert(id.into(), at);
        self.ids.push(id.into());
        self.sizes.push(words.len());
        for word in words {
            self.words.entry(word).or_default().push(at);
        }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Converts results to a ranking of distinct ids: a known id is kept, another result is replaced by the
    /// document with matching text, and an unknown result keeps its own id or a placeholder, so that the
    /// ranks are preserved.
    pub fn ranking(&self, results: &[AnswerResult]) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let names = results
            .iter()
            .enumerate()
            .map(|(at, result)| self.name(result, at));
        names.filter(|name| seen.insert(name.clone())).collect()
    }

    fn name(&self, result: &AnswerResult, at: usize) -> String {
        let known = result.id.as_ref().filter(|id| self.positions.contains_key(*id));
        let by_text = || result.text.as_deref().and_then(|text| self.find_by_text(text));
        known
            .cloned()
            .or_else(|| by_text().map(ToOwned::to_owned))
            .or_else(|| result.id.clone())
            .unwrap_or_else(|| format!("unknown-{}", at + 1))
    }

    /// The document whose text equals, contains or is part of `text`.
    fn find_by_text(&self, text: &str) -> Option<&str> {
        let words = Tokenization::Words.set(text);
        let mut common: BTreeMap<usize, usize> = BTreeMap::new();
        for word in &words {
            for at in self.words.get(word).into_iter().flatten() {
                *common.entry(*at).or_default() += 1;
            }
        }
        let mut best: Option<(f64, usize)> = None;
        for (at, overlap) in common {
            let size = self.sizes.get(at).copied().unwrap_or(0);
            let smaller = size.min(words.len());
            let coincidence = overlap < MIN_COMMON_WORDS && overlap < size;
            if coincidence || (overlap as f64) < MIN_OVERLAP * smaller as f64 {
                continue;
            }
            let similarity = overlap as f64 / (size + words.len() - overlap) as f64;
            if best.is_none_or(|(so_far, _)| similarity > so_far) {
                best = Some((similarity, at));
            }
        }
        self.ids.get(best?.1).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ids(output: &Value, paths: &AnswerPaths) -> Vec<String> {
        let found = read_answer(output, paths).unwrap();
        found
            .results
            .into_iter()
            .map(|result| result.id.unwrap_or_default())
            .collect()
    }

    fn preset(name: &str) -> AnswerPaths {
        let preset = PRESETS.iter().find(|preset| preset.name == name).unwrap();
        AnswerPaths {
            id_path: preset.id_path.clone(),
            text_path: preset.text_path.clone(),
        }
    }

    #[test]
    fn answers_come_in_many_shapes() {
        let list = json!([{"id": "a", "content": "x"}, {"id": 7, "content": "y"}]);
        for output in [
            list.clone(),
            json!({"results": list}),
            json!({"query": "q", "memories": list}),
            json!({"result": {"items": list}}),
            json!(list.to_string()),
            json!({"result": list.to_string()}),
            json!("{\"id\": \"a\"}\n{\"id\": 7}\n"),
        ] {
            assert_eq!(ids(&output, &AnswerPaths::default()), ["a", "7"], "{output}");
        }
        for nothing in [
            json!(null),
            json!(""),
            json!([]),
            json!({}),
            json!({"results": []}),
            json!({"results": null}),
        ] {
            assert!(
                read_answer(&nothing, &AnswerPaths::default())
                    .unwrap()
                    .results
                    .is_empty(),
                "{nothing}"
            );
        }
        assert!(read_answer(&json!(7), &AnswerPaths::default()).is_err());
    }

    #[test]
    fn preset_paths_match_the_answers_of_their_servers() {
        let graph = json!({"entities": [{"name": "wal", "entityType": "note", "observations": ["one", "two"]}], "relations": []});
        for output in [graph.clone(), json!(graph.to_string())] {
            let found = read_answer(&output, &preset("server-memory")).unwrap();
            assert_eq!(
                found.results,
                [AnswerResult {
                    id: Some("wal".into()),
                    text: Some("one\ntwo".into())
                }]
            );
        }
        assert_eq!(
            ids(
                &json!({"entities": [], "relations": []}),
                &preset("server-memory")
            ),
            [] as [&str; 0]
        );
        let wrapped = json!({"result": {"results": [{"id": "x", "memory": "m"}]}});
        assert_eq!(ids(&wrapped, &preset("mem0")), ["x"]);
        // An answer of another format is an error of that query, not an empty ranking.
        let error = read_answer(&json!({"error": "quota"}), &preset("mem0")).unwrap_err();
        assert_eq!(error, "the answer has no value at `/results`");
        let mut names: Vec<&str> = PRESETS.iter().map(|preset| preset.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PRESETS.len());
        for path in PRESETS
            .iter()
            .flat_map(|preset| preset.id_path.iter().chain(&preset.text_path))
        {
            assert!(path.starts_with('/') && path.matches("/*").count() == 1, "{path}");
        }
    }

    #[test]
    fn prose_is_identified_by_text() {
        let mut known = DocumentMatcher::default();
        known.add(
            "m1",
            "Readers never wait for the writer because the log is separate.",
        );
        known.add("m2", "Rotate signing keys every ninety days, at night.");
        known.add("m3", "Pool size is twice the number of cores.");
        known.add("bare", "");
        let text = "I found two memories:\n\n1. Rotate signing keys every ninety days, at night. (score 0.91)\n2. READERS never wait \
                    for the writer, because the log\n   is separate.\n\nNothing else fits the question.";
        let found = read_answer(&json!(text), &AnswerPaths::default()).unwrap();
        assert!(found.prose);
        let ranking = known.ranking(&found.results);
        assert_eq!(ranking, ["unknown-1", "m2", "m1", "unknown-4"]);
        // Known ids are kept; a part of a document counts as that document; each document occurs once.
        let result = |id: Option<&str>, text: &str| AnswerResult {
            id: id.map(Into::into),
            text: Some(text.into()),
        };
        let results = [
            result(Some("m3"), "readers never wait for the writer"),
            result(Some("x9"), "readers never wait for the writer"),
            result(None, "the log is separate"),
            result(Some("y"), "of the"),
            result(Some("bare"), ""),
        ];
        assert_eq!(known.ranking(&results), ["m3", "m1", "y", "bare"]);
    }
}
