//! Judgments and runs as tables with a header (CSV, TSV, the `qrels/*.tsv` of BEIR) and as JSON Lines, one query a line.
//! Nothing here knows how lines are cut or what lists are for.

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

/// Where the columns of a table are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    query: usize,
    document: usize,
    value: usize,
    rank: Option<usize>,
}

impl Columns {
    /// From the header of judgments.
    pub(super) fn of_judgments(number: u64, header: &str, separator: char) -> RetrievalResult<Self> {
        Self::of(number, header, separator, ("a grade", GRADE))
    }

    /// From the header of a run.
    pub(super) fn of_run(number: u64, header: &str, separator: char) -> RetrievalResult<Self> {
        Self::of(number, header, separator, ("a score", SCORE))
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
                    format!("the header names no column for {what} ({})", names.join(", ")),
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

    /// Query, document, value and rank of a row.
    pub(super) fn row(&self, number: u64, line: &str, separator: char) -> RetrievalResult<Row> {
        let mut cells = cells(number, line, separator)?;
        let count = cells.len();
        let mut take = |column: usize| match cells.get_mut(column) {
            Some(cell) => Ok(std::mem::take(cell)),
            None => Err(RetrievalError::at(
                number,
                format!("{count} columns, and the header has at least {}", column + 1),
            )),
        };
        let row = Row {
            query: take(self.query)?,
            document: take(self.document)?,
            value: take(self.value)?,
            rank: self.rank.map(&mut take).transpose()?,
        };
        if row.query.is_empty() || row.document.is_empty() {
            return Err(RetrievalError::at(number, "the query or the document is empty"));
        }
        Ok(row)
    }
}

/// What a row says.
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
            .map_err(|_| RetrievalError::at(number, format!("the grade `{text}` is no whole number")))
    }

    pub(super) fn score(&self, number: u64) -> RetrievalResult<f64> {
        let text = self.value.trim();
        score::parse(text.as_bytes())
            .filter(|score| !score.is_nan())
            .ok_or_else(|| RetrievalError::at(number, format!("the score `{text}` is no number")))
    }

    pub(super) fn rank(&self) -> Option<u32> {
        self.rank.as_ref()?.trim().parse().ok()
    }
}

/// Cells of a line: quoted ones may contain the separator, and quotes twice.
pub(super) fn cells(number: u64, line: &str, separator: char) -> RetrievalResult<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = line.trim_end_matches('\r');
    loop {
        if separator == ',' && rest.starts_with('"') {
            let mut cell = String::new();
            let mut inside = &rest[1..];
            loop {
                let Some(end) = inside.find('"') else {
                    return Err(RetrievalError::at(number, "a quotation mark is never closed"));
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
                    "text follows a closing quotation mark",
                ));
            }
        }
    }
}

/// A query with its judgments; what else is known about it is left alone.
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
    /// `null` while nobody has judged it; a key that is missing is a mistake.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(super) relevance: Option<i32>,
}

/// A query with its results, best first where they have no scores.
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

/// Ids are texts or whole numbers.
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

/// A line of JSON.
pub(super) fn json<'a, T: Deserialize<'a>>(number: u64, line: &'a [u8]) -> RetrievalResult<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let (place, cause) = (error.path().to_string(), error.inner().to_string());
        // The position in the line is told, but it is always line 1 there.
        let cause = cause.replace("line 1 ", "");
        RetrievalError::at(number, format!("{place}: {cause}"))
    })
}
