//! Facts about queries and documents besides judgments, read from files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::retrieval::{
    CorpusReader, Document, EvalQuery, Facts, FileFormat, QueriesReader, RetrievalError,
};

use super::{format, read_chunks, wrong};
use crate::EngineError;

/// Queries by id, and facts for measures.
#[derive(Debug, Default)]
pub(super) struct QueryFacts {
    pub(super) queries: BTreeMap<String, EvalQuery>,
    pub(super) facts: Facts,
}

/// Files to read facts from.
#[derive(Debug, Clone, Default)]
pub struct FactFiles {
    /// Queries with intents, categories, sessions, chains; by default the judgments file if it has such
    /// fields, or `queries.jsonl` of a BEIR directory.
    pub queries: Option<PathBuf>,
    /// Documents with tiers, folders, classes; by default `corpus.jsonl` of a BEIR directory, if a measure
    /// needs it.
    pub corpus: Option<PathBuf>,
}

impl QueryFacts {
    /// Reads the available facts; `documents` says whether a measure needs documents.
    pub(super) fn read(files: &FactFiles, qrels: &Path, documents: bool) -> Result<Self, EngineError> {
        let mut known = Self::default();
        let queries = files.queries.clone().or_else(|| sibling_queries(qrels));
        if let Some(path) = queries {
            each_query(&path, |mut query| {
                known.facts.add_query(&query);
                // Judgments are read separately.
                query.judgments = Vec::new();
                known.queries.insert(query.query_id.clone(), query);
            })?;
        }
        let sibling_file = || documents.then(|| sibling_file(qrels, "corpus.jsonl")).flatten();
        if let Some(path) = files.corpus.clone().or_else(sibling_file) {
            each_document(&path, |document| known.facts.add_document(document))?;
        }
        Ok(known)
    }

    /// Returns a field of a query.
    pub(super) fn field(&self, query: &str, name: &str) -> Option<String> {
        self.queries.get(query)?.field(name)
    }

    /// Rejects fields that no query has, instead of returning empty groups.
    pub(super) fn check_fields(&self, fields: &[String]) -> Result<(), EngineError> {
        for name in fields {
            let mut queries = self.queries.values();
            if !queries.any(|query| query.field(name).is_some()) {
                return Err(EngineError::NoField {
                    field: name.clone(),
                    queries: self.queries.len(),
                });
            }
        }
        Ok(())
    }
}

pub(super) fn each_query(path: &Path, each: impl FnMut(EvalQuery)) -> Result<(), EngineError> {
    read(QueriesReader::new(format(path)), path, each)
}

pub(super) fn each_document(path: &Path, each: impl FnMut(Document)) -> Result<(), EngineError> {
    read(CorpusReader::new(format(path)), path, each)
}

fn read<T: for<'a> serde::Deserialize<'a>>(
    mut reader: CorpusReader<T>,
    path: &Path,
    mut each: impl FnMut(T),
) -> Result<(), EngineError> {
    read_chunks(path, |chunk| reader.push(chunk, &mut each))?;
    let problem: Result<(), RetrievalError> = reader.finish(each);
    problem.map_err(|problem| wrong(path, problem))
}

/// Finds the queries of judgments: the same file if each line is a query, or those of its BEIR directory.
pub(super) fn sibling_queries(qrels: &Path) -> Option<PathBuf> {
    if format(qrels) == FileFormat::JsonLines && qrels != Path::new("-") {
        return Some(qrels.into());
    }
    sibling_file(qrels, "queries.jsonl")
}

/// Finds a file in the directory of the judgments: BEIR's layout, or a flat one.
pub(super) fn sibling_file(qrels: &Path, name: &str) -> Option<PathBuf> {
    let folder = if qrels.is_dir() {
        qrels
    } else {
        let folder = qrels.parent()?;
        if folder.file_name().is_some_and(|name| name == "qrels") {
            folder.parent()?
        } else {
            folder
        }
    };
    [name.to_owned(), format!("{name}.gz"), format!("{name}.zst")]
        .iter()
        .map(|name| folder.join(name))
        // The judgments file itself is not the documents file.
        .find(|path| path.is_file() && path != qrels)
}
