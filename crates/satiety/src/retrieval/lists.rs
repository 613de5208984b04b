//! Documents by query, compact: ids lie one after the other in a buffer, and a document is a position in it. What is
//! kept of a run of ten million lines is smaller than its file. Files are read in parts; each has its own buffers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use super::index::Index;
use super::index::{Queries, text};

/// Judgments: a grade for each judged document of a query.
#[derive(Debug, Clone, Default)]
pub struct Qrels(pub(super) Lists<i32>);

/// A system's answer: documents by query, best first.
#[derive(Debug, Clone, Default)]
pub struct Run(pub(super) Lists<Scored>);

/// What orders a run besides the score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// Equal scores by document id, descending, as `trec_eval` does.
    #[default]
    Trec,
    /// Equal scores by the rank that the run states.
    Rank,
}

/// What to do with a document that comes twice for one query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dedup {
    /// Refuse: it would be counted twice.
    #[default]
    Refuse,
    /// Keep the first: the best-ranked of a run, the first line of judgments.
    First,
}

/// How lines become lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderOptions {
    /// What orders equal scores.
    pub ties: Ties,
    /// What to do with documents that come twice.
    pub dedup: Dedup,
}

/// What a run says about a document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scored {
    /// `trec_eval` keeps scores as 32-bit floats; what is equal there is a tie.
    pub(super) score: f32,
    pub(super) rank: u32,
}

impl Qrels {
    /// How many queries are judged.
    pub fn queries(&self) -> usize {
        self.0.ranges.len()
    }

    /// How many judgments there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is judged.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The id of a query, by its position.
    pub fn query(&self, position: usize) -> &str {
        self.0.queries.name(position)
    }

    /// The grade of a document, absent when it was not judged.
    pub fn grade(&self, query: &str, document: &str) -> Option<i32> {
        let list = self.0.list(self.0.queries.position(query.as_bytes())?);
        let found = list.iter().find(|item| self.0.id(item) == document.as_bytes());
        found.map(|item| item.value)
    }

    /// The judged documents of a query with their grades, in the order of the file.
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
    /// How many queries it answers.
    pub fn queries(&self) -> usize {
        self.0.ranges.len()
    }

    /// The queries that it answers, in the order of the file.
    pub fn query_ids(&self) -> impl Iterator<Item = &str> {
        (0..self.queries()).map(|position| self.0.queries.name(position))
    }

    /// How many documents it returns, over all queries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it returns nothing at all.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The documents for a query, best first; nothing for a query that it does not answer.
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
    /// In the order of the file; what had to be brought together from several places comes last.
    pub(super) parts: Vec<Part<T>>,
    pub(super) ranges: Vec<Place>,
}

/// Documents that were read together, and their ids.
#[derive(Debug, Clone)]
pub(super) struct Part<T> {
    pub(super) ids: Vec<u8>,
    pub(super) items: Vec<Item<T>>,
}

/// Where the list of a query is.
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
    /// The documents of a query.
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

    /// How many documents there are, over all queries.
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
    /// Whose ids it is among.
    pub(super) part: u16,
    pub(super) value: T,
}

impl<T> Item<T> {
    #[inline]
    pub(super) fn id<'a>(&self, ids: &'a [u8]) -> &'a [u8] {
        &ids[self.offset as usize..self.offset as usize + usize::from(self.length)]
    }
}
