//! The lines that describe an evaluation corpus: queries with what is known about them and their judgments, and
//! documents with what is known about them. Names are those of the specification, of BEIR (`_id`, `text`, `metadata`),
//! and the usual spellings of tables.
//!
//! Nothing here knows where the lines come from or what they are used for.

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
    /// Its id.
    #[serde(
        alias = "query_id",
        alias = "_id",
        alias = "query-id",
        deserialize_with = "id"
    )]
    pub query_id: String,
    /// What was asked.
    #[serde(default, alias = "text", skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// What the asker was after: `find_decision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Which part of the corpus it belongs to: `causal-query`.
    #[serde(default, alias = "eval_category", skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The session it was asked in.
    #[serde(default, alias = "session_context", skip_serializing_if = "Option::is_none")]
    pub session_context: Option<SessionContext>,
    /// Graded documents.
    #[serde(default)]
    pub judgments: Vec<EvalJudgment>,
    /// Where judgments come from that do not say so themselves.
    #[serde(default, alias = "judgment_source", skip_serializing_if = "Option::is_none")]
    pub judgment_source: Option<JudgmentSource>,
    /// When it was harvested; absent for one that was made up.
    #[serde(default, alias = "harvested_at")]
    pub harvested_at: Option<String>,
    /// The memories that together answer why something was decided.
    #[serde(
        default,
        alias = "causal_chain",
        deserialize_with = "ids",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub causal_chain: Vec<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The session that a query was asked in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionContext {
    /// Its id.
    #[serde(default, alias = "session_id")]
    pub session_id: Option<String>,
    /// What was in the agent's working memory.
    #[serde(default, alias = "working_memory_ids", deserialize_with = "ids")]
    pub working_memory_ids: Vec<String>,
    /// Which turn of the session it was, from 1.
    #[serde(default, alias = "turn_number")]
    pub turn_number: Option<u32>,
}

/// A graded document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalJudgment {
    /// The document.
    #[serde(alias = "memory_id", alias = "doc_id", deserialize_with = "id")]
    pub memory_id: String,
    /// 0 not relevant, 1 marginal, 2 relevant, 3 highly relevant; `null` while nobody has judged it.
    #[serde(deserialize_with = "Option::deserialize")]
    pub relevance: Option<i32>,
    /// Which channels surfaced it.
    #[serde(default, alias = "source_channels", skip_serializing_if = "Vec::is_empty")]
    pub source_channels: Vec<String>,
    /// Where the grade comes from, if not from where the query's judgments do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<JudgmentSource>,
    /// Who or what judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotator: Option<String>,
    /// How sure they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// Where a grade comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgmentSource {
    /// A person looked.
    Manual,
    /// What an agent did with the result.
    Implicit,
    /// A rule made it from weak signals.
    Bootstrapped,
    /// An agent said that the result was useful, or not.
    Validated,
}

impl JudgmentSource {
    /// Its name, as it is written.
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
    /// A field by its name, as text: intent, category, or any other that the line had, at its top or in `metadata`.
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

    /// Whether it is the first of its session, or in the corpus as one that is.
    pub fn is_cold_start(&self) -> bool {
        self.category.as_deref() == Some("cold-start")
            || self
                .session_context
                .as_ref()
                .and_then(|session| session.turn_number)
                .is_some_and(|turn| turn <= 1)
    }
}

/// What is known about a document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Its id.
    #[serde(
        alias = "_id",
        alias = "memoryId",
        alias = "memory_id",
        alias = "doc_id",
        alias = "corpus-id",
        deserialize_with = "id"
    )]
    pub id: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its content.
    #[serde(default, alias = "content", skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How important it is.
    #[serde(default, alias = "importanceTier", alias = "importance_tier")]
    pub tier: Option<Tier>,
    /// Where it lies: results of one folder say much the same.
    #[serde(default, alias = "specFolder", alias = "spec_folder", alias = "namespace")]
    pub folder: Option<String>,
    /// Documents of one class are as good as each other: any of them counts, once.
    #[serde(default, alias = "equivalenceClass", alias = "equivalence_class")]
    pub class: Option<String>,
    /// The document that it is a part of; parts and whole are of one class.
    #[serde(
        default,
        alias = "parentId",
        alias = "parent_id",
        deserialize_with = "some_id"
    )]
    pub parent: Option<String>,
}

/// Reads lines of queries.
pub type QueriesReader = CorpusReader<EvalQuery>;
/// Reads JSON Lines, or a table with a header whose columns are the fields.
#[derive(Debug)]
pub struct CorpusReader<T> {
    format: FileFormat,
    lines: Lines,
    header: Option<Vec<String>>,
    each: std::marker::PhantomData<T>,
}

impl<T: for<'a> Deserialize<'a>> CorpusReader<T> {
    /// For files of a format; what `trec_eval` reads has no fields, so that form is taken for JSON Lines.
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

    /// Takes the next piece of the file, cut anywhere, and gives out what is complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(T)) -> RetrievalResult<()> {
        self.take(Some(bytes), &mut each)
    }

    /// Gives out a last line without an end.
    pub fn finish(mut self, mut each: impl FnMut(T)) -> RetrievalResult<()> {
        self.take(None, &mut each)
    }

    fn take(&mut self, bytes: Option<&[u8]>, each: &mut impl FnMut(T)) -> RetrievalResult<()> {
        let (format, header) = (self.format, &mut self.header);
        self.lines.push(bytes, |lines, block| {
            lines.each(block, |number, line| one(format, header, number, line, each))
        })
    }
}

fn one<T: for<'a> Deserialize<'a>>(
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
            format!("{} columns, and the header has {}", cells.len(), names.len()),
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
        // Cut in two, so that a line arrives in pieces.
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
        // What is written can be read again.
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
    fn what_is_wrong_is_told_with_its_place() {
        for (format, text, told) in [
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
                "line 2: 1 columns, and the header has 2",
            ),
            (FileFormat::Csv, "text\nwhat\n", "line 2: missing field `queryId`"),
        ] {
            let error = read::<EvalQuery>(format, text).unwrap_err().to_string();
            assert!(
                error.replace("line 2: .: ", "line 2: ").starts_with(told),
                "{error}"
            );
        }
    }
}
