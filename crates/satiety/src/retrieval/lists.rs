//! Compact lists of documents by query: ids are stored in one buffer per part of the file, and documents
//! refer to it by position. A run of ten million lines takes less memory than its file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use super::index::Index;
use super::index::{Queries, text};

/// Relevance judgments: a grade for each judged document of a query.
#[derive(Debug, Clone, Default)]
pub struct Qrels(pub(super) Lists<i32>);

/// A run: the ranked documents that a system returned for each query.
#[derive(Debug, Clone, Default)]
pub struct Run(pub(super) Lists<Scored>);

/// Order of documents with equal scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// By document id, descending, like `trec_eval`.
    #[default]
    Trec,
    /// By the rank given in the run.
    Rank,
}

/// Handling of duplicate documents of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dedup {
    /// Reject the file, because the document would count twice.
    #[default]
    Refuse,
    /// Keep the first occurrence: the best-ranked of a run, the first line of judgments.
    First,
}

/// Options for ordering and deduplicating documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderOptions {
    /// Order of documents with equal scores.
    pub ties: Ties,
    /// Handling of duplicate documents of a query.
    pub dedup: Dedup,
}

/// Score and rank of a document in a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scored {
    /// 32-bit like in `trec_eval`, which determines ties.
    pub(super) score: f32,
    pub(super) rank: u32,
}

impl Qrels {
    /// Number of judged queries.
    pub fn queries(&self) -> usize {
        self.0.ranges.len()
    }

    /// Number of judgments over all queries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no judgments.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Id of the query at a position.
    pub fn query(&self, position: usize) -> &str {
        self.0.queries.name(position)
    }

    /// Grade of a document; `None` if it was not judged.
    pub fn grade(&self, query: &str, document: &str) -> Option<i32> {
        let list = self.0.list(self.0.queries.position(query.as_bytes())?);
        let found = list.iter().find(|item| self.0.id(item) == document.as_bytes());
        found.map(|item| item.value)
    }

    /// Judged documents of a query with their grades, in file order.
    pub fn judgments(&self, query: usize) -> impl Iterator<Item = (&str, i32)> {
        self.0
            .list(query)
            .iter()
            .map(|item| (self.0.text(item), item.value))
    }

    pub(super) fn lists(&self) -> &Lists<i32> {
        &self.0
    }
}

impl Run {
    /// Number of queries with results.
    pub fn queries(&self) -> usize {
        self.0.ranges.len()
    }

    /// Ids of the queries with results, in file order.
    pub fn query_ids(&self) -> impl Iterator<Item = &str> {
        (0..self.queries()).map(|position| self.0.queries.name(position))
    }

    /// Number of documents over all queries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the run contains no documents.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Documents of a query, best first; empty for a query without results.
    pub fn documents(&self, query: &str) -> impl Iterator<Item = &str> {
        let position = self.0.queries.position(query.as_bytes());
        let list = position.map_or(&[][..], |position| self.0.list(position));
        list.iter().map(|item| self.0.text(item))
    }

    pub(super) fn lists(&self) -> &Lists<Scored> {
        &self.0
    }
}

/// Lists of documents by query.
#[derive(Debug, Clone)]
pub(super) struct Lists<T> {
    pub(super) queries: Queries,
    /// In file order; the last part holds merged lists of queries whose lines were not contiguous.
    pub(super) parts: Vec<Part<T>>,
    pub(super) ranges: Vec<Place>,
}

/// Documents of one part of a file, and their ids.
#[derive(Debug, Clone)]
pub(super) struct Part<T> {
    pub(super) ids: Vec<u8>,
    pub(super) items: Vec<Item<T>>,
}

/// Location of the list of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) part: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            items: Vec::new(),
        }
    }
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self {
            queries: Queries::default(),
            parts: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

impl<T> Lists<T> {
    /// Documents of a query.
    pub(super) fn list(&self, query: usize) -> &[Item<T>] {
        self.ranges.get(query).map_or(&[], |place| {
            &self.parts[place.part as usize].items[place.start as usize..place.end as usize]
        })
    }

    #[inline]
    pub(super) fn id(&self, item: &Item<T>) -> &[u8] {
        item.id(&self.parts[usize::from(item.part)].ids)
    }

    pub(super) fn text(&self, item: &Item<T>) -> &str {
        text(self.id(item))
    }

    /// Number of documents over all queries.
    fn len(&self) -> usize {
        self.ranges
            .iter()
            .map(|place| (place.end - place.start) as usize)
            .sum()
    }
}

/// A document of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<T> {
    pub(super) offset: u32,
    pub(super) hash: u32,
    pub(super) length: u16,
    /// Index of the part that holds its id.
    pub(super) part: u16,
    pub(super) value: T,
}

impl<T> Item<T> {
    #[inline]
    pub(super) fn id<'a>(&self, ids: &'a [u8]) -> &'a [u8] {
        &ids[self.offset as usize..self.offset as usize + usize::from(self.length)]
    }
}
