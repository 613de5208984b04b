//! File format of an evaluation corpus: queries with judgments, and documents. Accepts the field names of the
//! specification, of BEIR (`_id`, `text`, `metadata`) and common column names.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::reader::Lines;
use super::tables::{self, cells};
use super::{FileFormat, RetrievalError, RetrievalResult, Tier};

/// A query of an evaluation corpus.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalQuery {
    /// Id of the query.
    #[serde(
        alias = "query_id",
        alias = "_id",
        alias = "query-id",
        deserialize_with = "id"
    )]
    pub query_id: String,
    /// Text of the query.
    #[serde(default, alias = "text", skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Intent of the query, such as `find_decision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Category of the corpus, such as `causal-query`.
    #[serde(default, alias = "eval_category", skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Session in which the query was sent.
    #[serde(default, alias = "session_context", skip_serializing_if = "Option::is_none")]
    pub session_context: Option<SessionContext>,
    /// Graded documents of the query.
    #[serde(default)]
    pub judgments: Vec<EvalJudgment>,
    /// Default source of judgments without a source.
    #[serde(default, alias = "judgment_source", skip_serializing_if = "Option::is_none")]
    pub judgment_source: Option<JudgmentSource>,
    /// Time at which the query was harvested; absent for synthetic queries.
    #[serde(default, alias = "harvested_at")]
    pub harvested_at: Option<String>,
    /// Ids of the memories that together explain a decision.
    #[serde(
        default,
        alias = "causal_chain",
        deserialize_with = "ids",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub causal_chain: Vec<String>,
    /// Unknown keys, preserved without interpretation.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Session context of a query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionContext {
    /// Id of the session.
    #[serde(default, alias = "session_id")]
    pub session_id: Option<String>,
    /// Ids of the memories in the agent's working memory.
    #[serde(default, alias = "working_memory_ids", deserialize_with = "ids")]
    pub working_memory_ids: Vec<String>,
    /// Number of the turn in the session, from 1.
    #[serde(default, alias = "turn_number")]
    pub turn_number: Option<u32>,
}

/// A graded document of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalJudgment {
    /// Id of the document.
    #[serde(alias = "memory_id", alias = "doc_id", deserialize_with = "id")]
    pub memory_id: String,
    /// Grade: 0 not relevant, 1 marginal, 2 relevant, 3 highly relevant; `null` if not yet judged.
    #[serde(deserialize_with = "Option::deserialize")]
    pub relevance: Option<i32>,
    /// Retrieval channels that returned the document.
    #[serde(default, alias = "source_channels", skip_serializing_if = "Vec::is_empty")]
    pub source_channels: Vec<String>,
    /// Source of the grade; defaults to the source of the query's judgments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<JudgmentSource>,
    /// Name of the person or program that judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotator: Option<String>,
    /// Confidence of the judgment, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// Source of a grade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgmentSource {
    /// Judged by a person.
    Manual,
    /// Derived from an agent's use of the result.
    Implicit,
    /// Derived from weak signals by a rule.
    Bootstrapped,
    /// Marked useful or not useful by an agent.
    Validated,
}

impl JudgmentSource {
    /// Name of the source in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Implicit => "implicit",
            Self::Bootstrapped => "bootstrapped",
            Self::Validated => "validated",
        }
    }
}

impl EvalQuery {
    /// Value of a field as text: intent, category, session, or any other key of the line or its `metadata`.
    pub fn field(&self, name: &str) -> Option<String> {
        let known = match name {
            "intent" => self.intent.clone(),
            "category" => self.category.clone(),
            "session" => self.session_context.as_ref()?.session_id.clone(),
            _ => None,
        };
        let metadata = || self.other.get("metadata")?.get(name);
        known.or_else(|| text(self.other.get(name).or_else(metadata)?))
    }

    /// Whether the query is the first of its session or has the category `cold-start`.
    pub fn is_cold_start(&self) -> bool {
        self.category.as_deref() == Some("cold-start")
            || self
                .session_context
                .as_ref()
                .and_then(|session| session.turn_number)
                .is_some_and(|turn| turn <= 1)
    }
}

/// A document of an evaluation corpus.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Id of the document.
    #[serde(
        alias = "_id",
        alias = "memoryId",
        alias = "memory_id",
        alias = "doc_id",
        alias = "corpus-id",
        deserialize_with = "id"
    )]
    pub id: String,
    /// Title of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Content of the document.
    #[serde(default, alias = "content", skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Importance tier of the document.
    #[serde(default, alias = "importanceTier", alias = "importance_tier")]
    pub tier: Option<Tier>,
    /// Folder or namespace; results from one folder count as similar.
    #[serde(default, alias = "specFolder", alias = "spec_folder", alias = "namespace")]
    pub folder: Option<String>,
    /// Equivalence class: documents of one class are interchangeable and count once.
    #[serde(default, alias = "equivalenceClass", alias = "equivalence_class")]
    pub class: Option<String>,
    /// Id of the parent document; a document and its parts form an equivalence class.
    #[serde(
        default,
        alias = "parentId",
        alias = "parent_id",
        deserialize_with = "some_id"
    )]
    pub parent: Option<String>,
}

/// Streaming reader of queries.
pub type QueriesReader = CorpusReader<EvalQuery>;
/// Streaming reader of JSON Lines, or of a table with a header that names the fields.
#[derive(Debug)]
pub struct CorpusReader<T> {
    format: FileFormat,
    lines: Lines,
    header: Option<Vec<String>>,
    each: std::marker::PhantomData<T>,
}

impl<T: for<'a> Deserialize<'a>> CorpusReader<T> {
    /// Creates a reader for a format. `Trec` has no named fields and is treated as JSON Lines.
    pub fn new(format: FileFormat) -> Self {
        let format = match format {
            FileFormat::Trec => FileFormat::JsonLines,
            other => other,
        };
        Self {
            format,
            lines: Lines::new(FileFormat::JsonLines.longest_line(), true),
            header: None,
            each: std::marker::PhantomData,
        }
    }

    /// Reads the next chunk of the file, which may end anywhere, and passes complete records to `each`.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(T)) -> RetrievalResult<()> {
        self.take(Some(bytes), &mut each)
    }

    /// Ends the file and passes a last line without a line end to `each`.
    pub fn finish(mut self, mut each: impl FnMut(T)) -> RetrievalResult<()> {
        self.take(None, &mut each)
    }

    fn take(&mut self, bytes: Option<&[u8]>, each: &mut impl FnMut(T)) -> RetrievalResult<()> {
        let (format, header) = (self.format, &mut self.header);
        self.lines.push(bytes, |lines, block| {
            lines.each(block, |number, line| {
                parse_line(format, header, number, line, each)
            })
        })
    }
}

fn parse_line<T: for<'a> Deserialize<'a>>(
    format: FileFormat,
    header: &mut Option<Vec<String>>,
    number: u64,
    line: &[u8],
    each: &mut impl FnMut(T),
) -> RetrievalResult<()> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    if format == FileFormat::JsonLines {
        each(tables::json(number, line)?);
        return Ok(());
    }
    let cells = cells(
        number,
        std::str::from_utf8(line).unwrap_or_default(),
        if format == FileFormat::Tsv { '\t' } else { ',' },
    )?;
    let Some(names) = header else {
        *header = Some(cells.iter().map(|cell| cell.trim().to_owned()).collect());
        return Ok(());
    };
    if cells.len() != names.len() {
        return Err(RetrievalError::at(
            number,
            format!("expected {} columns, got {}", names.len(), cells.len()),
        ));
    }
    let present = names
        .iter()
        .cloned()
        .zip(cells)
        .filter(|(_, cell)| !cell.is_empty());
    let row: BTreeMap<String, String> = present.collect();
    let row = serde_json::to_vec(&row).map_err(|error| RetrievalError::at(number, error.to_string()))?;
    each(tables::json(number, &row)?);
    Ok(())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        _ => None,
    }
}

fn id<'a, D: Deserializer<'a>>(deserializer: D) -> Result<String, D::Error> {
    tables::Id::deserialize(deserializer).map(tables::Id::text)
}

fn some_id<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<tables::Id>::deserialize(deserializer)?.map(tables::Id::text))
}

fn ids<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<tables::Id>::deserialize(deserializer)?;
    Ok(ids.into_iter().map(tables::Id::text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: for<'a> Deserialize<'a>>(format: FileFormat, text: &str) -> RetrievalResult<Vec<T>> {
        let mut found = Vec::new();
        let mut reader = CorpusReader::new(format);
        // Split in two, so that a line arrives in chunks.
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        reader.push(first, |one| found.push(one))?;
        reader.push(second, |one| found.push(one))?;
        reader.finish(|one| found.push(one))?;
        Ok(found)
    }

    #[test]
    fn a_line_of_the_specification() {
        let line = r#"{"queryId":"q1","query":"why sqlite?","intent":"find_decision","category":"causal-query",
            "sessionContext":{"sessionId":"s","workingMemoryIds":[1,2],"turnNumber":1},
            "judgments":[{"memoryId":7,"relevance":3,"sourceChannels":["vector"],"annotator":"ann","confidence":0.9}],
            "judgmentSource":"manual","harvestedAt":null,"causalChain":[7,8],"team":"storage"}"#
            .replace('\n', " ");
        let found: Vec<EvalQuery> = read(FileFormat::JsonLines, &line).unwrap();
        let query = &found[0];
        assert_eq!(query.judgments[0].memory_id, "7");
        assert_eq!(query.causal_chain, ["7", "8"]);
        assert!(query.is_cold_start());
        let field = |name| query.field(name);
        assert_eq!(field("intent").as_deref(), Some("find_decision"));
        assert_eq!(field("team").as_deref(), Some("storage"));
        assert_eq!(field("colour"), None);
        // Serialization round trip.
        let again = serde_json::to_string(query).unwrap();
        assert_eq!(read::<EvalQuery>(FileFormat::JsonLines, &again).unwrap(), found);
    }

    #[test]
    fn lines_of_beir_and_of_tables() {
        let found: Vec<EvalQuery> = read(
            FileFormat::JsonLines,
            "{\"_id\": \"PLAIN-2\", \"text\": \"statins\", \"metadata\": {\"url\": \"x\", \"topic\": \"heart\"}}\n",
        )
        .unwrap();
        assert_eq!(found[0].query.as_deref(), Some("statins"));
        assert_eq!(found[0].field("topic").as_deref(), Some("heart"));
        let found: Vec<EvalQuery> =
            read(FileFormat::Tsv, "query_id\ttext\tteam\n1\twhat\tred\n2\twhy\t\n").unwrap();
        assert_eq!(found[0].field("team").as_deref(), Some("red"));
        assert_eq!(found[1].field("team"), None);
        let found: Vec<Document> = read(
            FileFormat::Csv,
            "id,tier,folder,class\na,critical,x,\nb,,\"y,z\",same\n",
        )
        .unwrap();
        assert_eq!(found[0].tier, Some(Tier::Critical));
        assert_eq!(
            (found[1].folder.as_deref(), found[1].class.as_deref()),
            (Some("y,z"), Some("same"))
        );
    }

    #[test]
    fn errors_name_line_and_field() {
        for (format, text, expected) in [
            (
                FileFormat::JsonLines,
                "{\"queryId\":\"a\"}\n{\"queryId\":\"b\",\"judgments\":[{\"memoryId\":1}]}",
                "line 2: judgments[0]: missing field `relevance`",
            ),
            (
                FileFormat::JsonLines,
                "{\"queryId\":\"a\",\"judgmentSource\":\"guess\"}",
                "line 1: judgmentSource: unknown variant `guess`",
            ),
            (
                FileFormat::Tsv,
                "query_id\ttext\na\n",
                "line 2: expected 2 columns, got 1",
            ),
            (FileFormat::Csv, "text\nwhat\n", "line 2: missing field `queryId`"),
        ] {
            let error = read::<EvalQuery>(format, text).unwrap_err().to_string();
            assert!(
                error.replace("line 2: .: ", "line 2: ").starts_with(expected),
                "{error}"
            );
        }
    }
}
