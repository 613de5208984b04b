//! Parsing of table rows (CSV, TSV, the `qrels/*.tsv` of BEIR) and of JSON Lines with one query per line.

use serde::Deserialize;

use super::{RetrievalError, RetrievalResult, score};

const QUERY: &[&str] = &["query-id", "query_id", "queryid", "qid", "query"];
const DOCUMENT: &[&str] = &[
    "corpus-id",
    "corpus_id",
    "doc-id",
    "doc_id",
    "docid",
    "docno",
    "document",
    "memory_id",
    "memoryid",
    "id",
];
const GRADE: &[&str] = &["relevance", "grade", "rel", "label", "score"];
const SCORE: &[&str] = &["score", "sim", "similarity"];
const RANK: &[&str] = &["rank", "position"];

/// Positions of the columns of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    query: usize,
    document: usize,
    value: usize,
    rank: Option<usize>,
}

impl Columns {
    /// Parses the header of judgments.
    pub(super) fn of_judgments(number: u64, header: &str, separator: char) -> RetrievalResult<Self> {
        Self::of(number, header, separator, ("the grade", GRADE))
    }

    /// Parses the header of a run.
    pub(super) fn of_run(number: u64, header: &str, separator: char) -> RetrievalResult<Self> {
        Self::of(number, header, separator, ("the score", SCORE))
    }

    fn of(number: u64, header: &str, separator: char, value: (&str, &[&str])) -> RetrievalResult<Self> {
        let cells: Vec<String> = cells(number, header, separator)?
            .iter()
            .map(|cell| cell.trim().to_lowercase())
            .collect();
        let find = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| cells.iter().position(|cell| cell == name))
        };
        let need = |what: &str, names: &[&str]| {
            find(names).ok_or_else(|| {
                RetrievalError::at(
                    number,
                    format!(
                        "missing column for {what} (expected one of: {})",
                        names.join(", ")
                    ),
                )
            })
        };
        Ok(Self {
            query: need("the query", QUERY)?,
            document: need("the document", DOCUMENT)?,
            value: need(value.0, value.1)?,
            rank: find(RANK),
        })
    }

    /// Parses query, document, value and rank of a row.
    pub(super) fn row(&self, number: u64, line: &str, separator: char) -> RetrievalResult<Row> {
        let mut cells = cells(number, line, separator)?;
        let count = cells.len();
        let mut take = |column: usize| match cells.get_mut(column) {
            Some(cell) => Ok(std::mem::take(cell)),
            None => Err(RetrievalError::at(
                number,
                format!("expected at least {} columns, got {count}", column + 1),
            )),
        };
        let row = Row {
            query: take(self.query)?,
            document: take(self.document)?,
            value: take(self.value)?,
            rank: self.rank.map(&mut take).transpose()?,
        };
        if row.query.is_empty() || row.document.is_empty() {
            return Err(RetrievalError::at(number, "query or document is empty"));
        }
        Ok(row)
    }
}

/// Values of a row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) query: String,
    pub(super) document: String,
    value: String,
    rank: Option<String>,
}

impl Row {
    pub(super) fn grade(&self, number: u64) -> RetrievalResult<i32> {
        let text = self.value.trim();
        text.parse()
            .map_err(|_| RetrievalError::at(number, format!("grade `{text}` is not an integer")))
    }

    pub(super) fn score(&self, number: u64) -> RetrievalResult<f64> {
        let text = self.value.trim();
        score::parse(text.as_bytes())
            .filter(|score| !score.is_nan())
            .ok_or_else(|| RetrievalError::at(number, format!("score `{text}` is not a number")))
    }

    pub(super) fn rank(&self) -> Option<u32> {
        self.rank.as_ref()?.trim().parse().ok()
    }
}

/// Cells of a line. Quoted cells of CSV may contain the separator and doubled quotation marks.
pub(super) fn cells(number: u64, line: &str, separator: char) -> RetrievalResult<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = line.trim_end_matches('\r');
    loop {
        if separator == ',' && rest.starts_with('"') {
            let mut cell = String::new();
            let mut inside = &rest[1..];
            loop {
                let Some(end) = inside.find('"') else {
                    return Err(RetrievalError::at(number, "unterminated quotation mark"));
                };
                cell.push_str(&inside[..end]);
                inside = &inside[end + 1..];
                match inside.strip_prefix('"') {
                    Some(after) => {
                        cell.push('"');
                        inside = after;
                    }
                    None => break,
                }
            }
            cells.push(cell);
            rest = inside;
        } else {
            let end = rest.find(separator).unwrap_or(rest.len());
            cells.push(rest[..end].into());
            rest = &rest[end..];
        }
        match rest.strip_prefix(separator) {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(cells),
            None => {
                return Err(RetrievalError::at(
                    number,
                    "unexpected text after a closing quotation mark",
                ));
            }
        }
    }
}

/// A query with its judgments; other keys are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct JudgedQuery {
    #[serde(rename = "queryId", alias = "query_id")]
    pub(super) query: Id,
    pub(super) judgments: Vec<Judgment>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Judgment {
    #[serde(rename = "memoryId", alias = "memory_id", alias = "doc_id")]
    pub(super) document: Id,
    /// `null` for documents not yet judged; a missing key is an error.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(super) relevance: Option<i32>,
}

/// A query with its results; best first if they have no scores.
#[derive(Debug, Deserialize)]
pub(super) struct AnsweredQuery {
    #[serde(rename = "queryId", alias = "query_id")]
    pub(super) query: Id,
    pub(super) results: Vec<Found>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Found {
    Scored {
        #[serde(rename = "memoryId", alias = "memory_id", alias = "doc_id")]
        document: Id,
        score: Option<f64>,
    },
    Listed(Id),
}

/// An id: a string or an integer.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    pub(super) fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// Deserializes a line of JSON.
pub(super) fn json<'a, T: Deserialize<'a>>(number: u64, line: &'a [u8]) -> RetrievalResult<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let (place, cause) = (error.path().to_string(), error.inner().to_string());
        // serde_json always reports line 1, because it parses a single line.
        let cause = cause.replace("line 1 ", "");
        RetrievalError::at(number, format!("{place}: {cause}"))
    })
}
