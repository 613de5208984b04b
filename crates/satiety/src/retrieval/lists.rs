//! Documents by query, compact: ids lie one after the other in one buffer, and a document is a position in it. What is
//! kept of a run of ten million lines is smaller than its file.

use std::cmp::Ordering;
use std::hash::Hasher;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};

use super::{RetrievalError, RetrievalResult};

/// Judgments: a grade for each judged document of a query.
#[derive(Debug, Clone, Default)]
pub struct Qrels(Lists<i32>);

/// A system's answer: documents by query, best first.
#[derive(Debug, Clone, Default)]
pub struct Run(Lists<Scored>);

/// What orders a run besides the score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// Equal scores by document id, descending, as `trec_eval` does.
    #[default]
    Trec,
    /// Equal scores by the rank that the run states.
    Rank,
}

/// What to do with a document that comes twice for one query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dedup {
    /// Refuse: it would be counted twice.
    #[default]
    Refuse,
    /// Keep the first: the best-ranked of a run, the first line of judgments.
    First,
}

/// How lines become lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        self.0.items.len()
    }

    /// Whether nothing is judged.
    pub fn is_empty(&self) -> bool {
        self.0.items.is_empty()
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
        self.0.items.len()
    }

    /// Whether it returns nothing at all.
    pub fn is_empty(&self) -> bool {
        self.0.items.is_empty()
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

/// Lists that are still growing.
#[derive(Debug, Clone)]
pub(super) struct Builder<T> {
    lists: Lists<T>,
    /// Where lines of another query begin: first item, query.
    segments: Vec<(u32, u32)>,
}

impl<T> Default for Builder<T> {
    fn default() -> Self {
        Self {
            lists: Lists::default(),
            segments: Vec::new(),
        }
    }
}

impl<T: Copy> Builder<T> {
    /// The next document belongs to this query, like the last one or not.
    #[inline]
    pub(super) fn belong_to(&mut self, query: &[u8]) -> RetrievalResult<()> {
        if query == self.current() {
            return Ok(());
        }
        self.begin(query)
    }

    /// The id of the query that the last document was added to.
    #[inline]
    pub(super) fn current(&self) -> &[u8] {
        self.segments
            .last()
            .map_or(&[], |&(_, query)| self.lists.queries.bytes(query as usize))
    }

    /// From here on, documents belong to this query.
    pub(super) fn begin(&mut self, query: &[u8]) -> RetrievalResult<()> {
        let query = self.lists.queries.intern(query)?;
        self.segments.push((position(self.lists.items.len())?, query));
        Ok(())
    }

    /// Adds a document to the current query. Ids are at most as long as a line, which is far below 64 KiB.
    #[inline]
    pub(super) fn add(&mut self, document: &[u8], value: T) -> RetrievalResult<()> {
        let offset = position(self.lists.ids.len())?;
        self.lists.ids.extend_from_slice(document);
        self.lists.items.push(Item {
            offset,
            hash: hash(document),
            length: u16::try_from(document.len()).map_err(|_| RetrievalError::TooLarge)?,
            value,
        });
        Ok(())
    }

    /// Brings the lines of each query together, in the order of the file.
    fn gather(mut self) -> RetrievalResult<Lists<T>> {
        if self.lists.items.is_empty() {
            return Err(RetrievalError::Empty);
        }
        let end = position(self.lists.items.len())?;
        let ends = self.segments.iter().skip(1).map(|segment| segment.0).chain([end]);
        let mut segments: Vec<(u32, Range<u32>)> = self
            .segments
            .iter()
            .zip(ends)
            .map(|(&(start, query), end)| (query, start..end))
            .collect();
        let in_place = segments.len() == self.lists.queries.len();
        if !in_place {
            // A stable sort, so that the first line of a document stays the first.
            segments.sort_by_key(|segment| segment.0);
            let mut items = Vec::with_capacity(self.lists.items.len());
            let mut gathered: Vec<(u32, Range<u32>)> = Vec::with_capacity(self.lists.queries.len());
            for (query, range) in segments {
                let start = position(items.len())?;
                items.extend_from_slice(&self.lists.items[range.start as usize..range.end as usize]);
                let end = position(items.len())?;
                match gathered.last_mut() {
                    Some(last) if last.0 == query => last.1.end = end,
                    _ => gathered.push((query, start..end)),
                }
            }
            self.lists.items = items;
            segments = gathered;
        }
        self.lists.ranges = segments.into_iter().map(|(_, range)| range).collect();
        Ok(self.lists)
    }
}

impl Builder<i32> {
    pub(super) fn finish(self, dedup: Dedup) -> RetrievalResult<Qrels> {
        let mut lists = self.gather()?;
        lists.distinct(dedup)?;
        Ok(Qrels(lists))
    }
}

impl Builder<Scored> {
    pub(super) fn finish(self, options: OrderOptions) -> RetrievalResult<Run> {
        let mut lists = self.gather()?;
        let Lists {
            items, ids, ranges, ..
        } = &mut lists;
        for range in ranges.iter() {
            let list = &mut items[range.start as usize..range.end as usize];
            // Stable, so that equal ranks keep the order of the file.
            list.sort_by(|a, b| {
                let by_score = b
                    .value
                    .score
                    .partial_cmp(&a.value.score)
                    .unwrap_or(Ordering::Equal);
                by_score.then_with(|| match options.ties {
                    Ties::Trec => b.id(ids).cmp(a.id(ids)),
                    Ties::Rank => a.value.rank.cmp(&b.value.rank),
                })
            });
        }
        lists.distinct(options.dedup)?;
        Ok(Run(lists))
    }
}

/// Lists of documents by query.
#[derive(Debug, Clone)]
pub(super) struct Lists<T> {
    pub(super) queries: Queries,
    ids: Vec<u8>,
    items: Vec<Item<T>>,
    ranges: Vec<Range<u32>>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self {
            queries: Queries::default(),
            ids: Vec::new(),
            items: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

impl<T: Copy> Lists<T> {
    /// The documents of a query.
    pub(super) fn list(&self, query: usize) -> &[Item<T>] {
        self.ranges
            .get(query)
            .map_or(&[], |range| &self.items[range.start as usize..range.end as usize])
    }

    pub(super) fn id(&self, item: &Item<T>) -> &[u8] {
        item.id(&self.ids)
    }

    pub(super) fn text(&self, item: &Item<T>) -> &str {
        text(self.id(item))
    }

    /// Refuses or removes documents that come twice for a query.
    fn distinct(&mut self, dedup: Dedup) -> RetrievalResult<()> {
        let mut index = Index::default();
        for query in 0..self.ranges.len() {
            let range = self.ranges[query].start as usize..self.ranges[query].end as usize;
            index.clear(range.len());
            let mut kept = range.start;
            for at in range {
                let item = self.items[at];
                let id = item.id(&self.ids);
                let twin = index.find_or_add(item.hash, kept, |other| self.items[other].id(&self.ids) == id);
                match (twin, dedup) {
                    (None, _) => {
                        self.items[kept] = item;
                        kept += 1;
                    }
                    (Some(_), Dedup::First) => {}
                    (Some(_), Dedup::Refuse) => {
                        return Err(RetrievalError::Duplicate {
                            query: self.queries.name(query).into(),
                            document: text(id).into(),
                        });
                    }
                }
            }
            self.ranges[query].end = position(kept)?;
        }
        Ok(())
    }
}

/// A document of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<T> {
    offset: u32,
    pub(super) hash: u32,
    length: u16,
    pub(super) value: T,
}

impl<T> Item<T> {
    fn id<'a>(&self, ids: &'a [u8]) -> &'a [u8] {
        &ids[self.offset as usize..self.offset as usize + usize::from(self.length)]
    }
}

/// The ids of queries and their positions.
#[derive(Debug, Clone, Default)]
pub(super) struct Queries {
    names: Vec<Box<[u8]>>,
    positions: FxHashMap<Box<[u8]>, u32>,
}

impl Queries {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn position(&self, name: &[u8]) -> Option<usize> {
        self.positions.get(name).map(|position| *position as usize)
    }

    pub(super) fn name(&self, position: usize) -> &str {
        text(&self.names[position])
    }

    fn bytes(&self, position: usize) -> &[u8] {
        &self.names[position]
    }

    fn intern(&mut self, name: &[u8]) -> RetrievalResult<u32> {
        if let Some(position) = self.positions.get(name) {
            return Ok(*position);
        }
        let next = position(self.names.len())?;
        self.names.push(name.into());
        self.positions.insert(name.into(), next);
        Ok(next)
    }
}

/// A small hash index that is used again for the next query without giving memory back.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Position + 1, or 0 where nothing is.
    slots: Vec<(u32, u32)>,
    mask: usize,
}

impl Index {
    /// Empties it, with room for so many.
    pub(super) fn clear(&mut self, room: usize) {
        let size = (2 * room).next_power_of_two().max(8);
        self.slots.clear();
        self.slots.resize(size, (0, 0));
        self.mask = size - 1;
    }

    /// Where an equal one is.
    #[inline]
    pub(super) fn find(&self, hash: u32, same: impl Fn(usize) -> bool) -> Option<usize> {
        self.probe(hash, same).ok()
    }

    /// Where an equal one is; when there is none, remembers this one.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "positions of items fit in 32 bits"
    )]
    pub(super) fn find_or_add(
        &mut self,
        hash: u32,
        position: usize,
        same: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match self.probe(hash, same) {
            Ok(found) => Some(found),
            Err(slot) => {
                self.slots[slot] = (hash, position as u32 + 1);
                None
            }
        }
    }

    /// The equal one, or the free slot.
    #[inline]
    fn probe(&self, hash: u32, same: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let mut slot = hash as usize & self.mask;
        loop {
            let (other, position) = self.slots[slot];
            if position == 0 {
                return Err(slot);
            }
            if other == hash && same(position as usize - 1) {
                return Ok(position as usize - 1);
            }
            slot = (slot + 1) & self.mask;
        }
    }
}

fn position(value: usize) -> RetrievalResult<u32> {
    // One below the end, because an index keeps position + 1.
    match u32::try_from(value) {
        Ok(value) if value < u32::MAX => Ok(value),
        _ => Err(RetrievalError::TooLarge),
    }
}

#[inline]
fn hash(id: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(id);
    let wide = hasher.finish();
    #[expect(clippy::cast_possible_truncation, reason = "folded")]
    let folded = (wide ^ (wide >> 32)) as u32;
    folded
}

/// Readers only let UTF-8 in.
fn text(id: &[u8]) -> &str {
    std::str::from_utf8(id).unwrap_or_default()
}
