//! What is known about queries and documents besides judgments, read from the files that say it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::retrieval::{
    CorpusReader, Document, EvalQuery, Facts, FileFormat, QueriesReader, RetrievalError,
};

use super::{format, pieces, wrong};
use crate::EngineError;

/// Queries by id, and facts for measures.
#[derive(Debug, Default)]
pub(super) struct QueryFacts {
    pub(super) queries: BTreeMap<String, EvalQuery>,
    pub(super) facts: Facts,
}

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct FactFiles {
    /// Queries with intents, categories, sessions, chains; without it, the judgments themselves where they have such
    /// fields, or `queries.jsonl` of a BEIR folder.
    pub queries: Option<PathBuf>,
    /// Documents with tiers, folders, classes; without it, `corpus.jsonl` of a BEIR folder, where a measure needs it.
    pub corpus: Option<PathBuf>,
}

impl QueryFacts {
    /// Reads what there is; `documents` says whether a measure needs them.
    pub(super) fn read(files: &FactFiles, qrels: &Path, documents: bool) -> Result<Self, EngineError> {
        let mut known = Self::default();
        let queries = files.queries.clone().or_else(|| queries_beside(qrels));
        if let Some(path) = queries {
            each_query(&path, |mut query| {
                known.facts.add_query(&query);
                // Judgments are read from the judgments.
                query.judgments = Vec::new();
                known.queries.insert(query.query_id.clone(), query);
            })?;
        }
        let beside = || documents.then(|| beside(qrels, "corpus.jsonl")).flatten();
        if let Some(path) = files.corpus.clone().or_else(beside) {
            each_document(&path, |document| known.facts.add_document(document))?;
        }
        Ok(known)
    }

    /// A field of a query.
    pub(super) fn field(&self, query: &str, name: &str) -> Option<String> {
        self.queries.get(query)?.field(name)
    }

    /// Refuses fields that no query has, instead of answering with nothing.
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

/// Reads queries one by one.
pub(super) fn each_query(path: &Path, each: impl FnMut(EvalQuery)) -> Result<(), EngineError> {
    read(QueriesReader::new(format(path)), path, each)
}

/// Reads documents one by one.
pub(super) fn each_document(path: &Path, each: impl FnMut(Document)) -> Result<(), EngineError> {
    read(CorpusReader::new(format(path)), path, each)
}

fn read<T: for<'a> serde::Deserialize<'a>>(
    mut reader: CorpusReader<T>,
    path: &Path,
    mut each: impl FnMut(T),
) -> Result<(), EngineError> {
    pieces(path, |piece| reader.push(piece, &mut each))?;
    let problem: Result<(), RetrievalError> = reader.finish(each);
    problem.map_err(|problem| wrong(path, problem))
}

/// The queries that belong to judgments: themselves, where each line is a query, or those of their BEIR folder.
pub(super) fn queries_beside(qrels: &Path) -> Option<PathBuf> {
    if format(qrels) == FileFormat::JsonLines && qrels != Path::new("-") {
        return Some(qrels.into());
    }
    beside(qrels, "queries.jsonl")
}

/// A file of the folder that judgments are, or are in: BEIR's, or one with everything side by side.
pub(super) fn beside(qrels: &Path, name: &str) -> Option<PathBuf> {
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
        // A file that is the judgments is not also the documents.
        .find(|path| path.is_file() && path != qrels)
}
