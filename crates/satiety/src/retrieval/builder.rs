//! Builds lists line by line and joins the parts of a file: lines of a query that are not contiguous are
//! merged, sorted and checked for duplicate documents. The result does not depend on the number of parts.

use std::cmp::Ordering;

use super::index::{Index, Queries, position};
use super::lists::{Dedup, Item, Lists, OrderOptions, Part, Place, Qrels, Run, Scored, Ties};
use super::{RetrievalError, RetrievalResult, fast_parse};

/// Lists under construction.
#[derive(Debug)]
pub(super) struct Builder<T> {
    queries: Queries,
    part: Part<T>,
    /// Zero-based number of the part of the file.
    number: u16,
    /// First item and query of each run of lines with the same query.
    begins: Vec<(u32, u32)>,
    marks: Vec<Mark>,
    /// The line number that needs no new mark.
    next_line: u64,
}

/// Maps items to line numbers from an item on. A file without gaps needs only one mark.
#[derive(Debug, Clone, Copy)]
struct Mark {
    item: u32,
    line: u64,
    /// Whether each item is on a separate line.
    each: bool,
}

/// Contiguous lines of a query, sorted.
#[derive(Debug, Clone, Copy)]
struct Segment {
    query: u32,
    start: u32,
    end: u32,
    /// Whether it contains a duplicate document that must be reported.
    clash: bool,
}

/// A part of a file with sorted segments.
#[derive(Debug)]
pub(super) struct ArrangedRuns<T> {
    queries: Queries,
    part: Part<T>,
    segments: Vec<Segment>,
    marks: Vec<Mark>,
    options: OrderOptions,
    /// Number of lines of the part.
    pub(super) lines: u64,
}

/// Value of an item, and how items are sorted.
pub(super) trait Value: Copy {
    fn sort<'a>(list: &mut [Item<Self>], id: impl Fn(&Item<Self>) -> &'a [u8], ties: Ties);
}

impl Value for i32 {
    fn sort<'a>(_: &mut [Item<Self>], _: impl Fn(&Item<Self>) -> &'a [u8], _: Ties) {}
}

impl Value for Scored {
    fn sort<'a>(list: &mut [Item<Self>], id: impl Fn(&Item<Self>) -> &'a [u8], ties: Ties) {
        // Most runs are already sorted.
        if list.is_sorted_by(|a, b| a.value.score > b.value.score) {
            return;
        }
        // A stable sort keeps equal ranks in file order.
        list.sort_by(|a, b| {
            let by_score = b.value.score.partial_cmp(&a.value.score);
            by_score.unwrap_or(Ordering::Equal).then_with(|| match ties {
                Ties::Trec => id(b).cmp(id(a)),
                Ties::Rank => a.value.rank.cmp(&b.value.rank),
            })
        });
    }
}

impl<T: Value> Builder<T> {
    /// Creates a builder for a part of a file.
    pub(super) fn new(number: u16) -> Self {
        Self {
            queries: Queries::default(),
            part: Part::default(),
            number,
            begins: Vec::new(),
            marks: Vec::new(),
            next_line: 0,
        }
    }

    /// Sets the query of the next document, which may be the current one.
    #[inline]
    pub(super) fn select_query(&mut self, query: &[u8]) -> RetrievalResult<()> {
        let current = self.begins.last();
        if current.is_some_and(|&(_, current)| self.queries.bytes(current as usize) == query) {
            return Ok(());
        }
        self.begin_query(query)
    }

    /// Starts a new segment of this query.
    pub(super) fn begin_query(&mut self, query: &[u8]) -> RetrievalResult<()> {
        let query = self.queries.intern(query)?;
        self.begins.push((position(self.part.items.len())?, query));
        Ok(())
    }

    /// Sets the line of the next document.
    #[inline]
    pub(super) fn set_line(&mut self, line: u64) -> RetrievalResult<()> {
        if line != self.next_line {
            self.mark(line, true)?;
        }
        self.next_line = line + 1;
        Ok(())
    }

    /// Sets the line of all following documents.
    pub(super) fn set_shared_line(&mut self, line: u64) -> RetrievalResult<()> {
        self.next_line = 0;
        self.mark(line, false)
    }

    #[cold]
    fn mark(&mut self, line: u64, each: bool) -> RetrievalResult<()> {
        let item = position(self.part.items.len())?;
        self.marks.push(Mark { item, line, each });
        Ok(())
    }

    /// Adds a document to the current query. The id must be shorter than 64 KiB.
    pub(super) fn add(&mut self, document: &[u8], value: T) -> RetrievalResult<()> {
        let offset = position(self.part.ids.len())?;
        self.part.ids.extend_from_slice(document);
        self.push(offset, fast_parse::hash(document), document.len(), value)
    }

    /// Adds the document whose id is `block[start..end]` to the current query.
    #[inline]
    pub(super) fn add_within(
        &mut self,
        block: &[u8],
        start: usize,
        end: usize,
        value: T,
    ) -> RetrievalResult<()> {
        let length = end - start;
        let wide: Option<&[u8; 16]> = block.get(start..).and_then(<[u8]>::first_chunk);
        let Some(wide) = wide.filter(|_| length <= 16) else {
            return self.add(&block[start..end], value);
        };
        // A fixed-size copy of 16 bytes is faster than a copy of variable length.
        let offset = position(self.part.ids.len())?;
        self.part.ids.extend_from_slice(wide);
        self.part.ids.truncate(offset as usize + length);
        let head = fast_parse::first(fast_parse::word(wide, 0), length);
        let next = fast_parse::first(fast_parse::word(wide, 8), length.saturating_sub(8));
        self.push(offset, fast_parse::hash_short(head, next, length), length, value)
    }

    #[inline]
    fn push(&mut self, offset: u32, hash: u32, length: usize, value: T) -> RetrievalResult<()> {
        self.part.items.push(Item {
            offset,
            hash,
            length: u16::try_from(length).map_err(|_| RetrievalError::TooLarge)?,
            part: self.number,
            value,
        });
        Ok(())
    }

    /// Sorts each segment and removes or flags its duplicate documents.
    pub(super) fn arrange(mut self, lines: u64, options: OrderOptions) -> RetrievalResult<ArrangedRuns<T>> {
        let end = position(self.part.items.len())?;
        let ends = self.begins.iter().skip(1).map(|begin| begin.0).chain([end]);
        let mut index = Index::default();
        let mut segments = Vec::with_capacity(self.begins.len());
        for (&(start, query), end) in self.begins.iter().zip(ends) {
            let Part { ids, items } = &mut self.part;
            let list = &mut items[start as usize..end as usize];
            T::sort(list, |item| item.id(ids), options.ties);
            let kept = distinct(list, |item| item.id(ids), &mut index, options.dedup);
            segments.push(Segment {
                query,
                start,
                end: kept.map_or(end, |kept| start + kept),
                clash: kept.is_err(),
            });
        }
        Ok(ArrangedRuns {
            queries: self.queries,
            part: self.part,
            segments,
            marks: self.marks,
            options,
            lines,
        })
    }
}

impl Builder<Scored> {
    /// Sorts the queries that are complete, except the first, passes each with its name, results and ids to
    /// `each`, and removes them. `None` if `each` returns it, or if a query has a duplicate that must be
    /// reported; the builder is unusable then.
    pub(super) fn take_complete(
        &mut self,
        options: OrderOptions,
        index: &mut Index,
        mut each: impl FnMut(&[u8], &[Item<Scored>], &[u8]) -> Option<()>,
    ) -> Option<()> {
        let [first, complete @ .., last] = &self.begins[..] else {
            return Some(());
        };
        let Some(second) = complete.first() else {
            return Some(());
        };
        let Part { ids, items } = &mut self.part;
        // Sorting changes the order of the items, so that the ends of their ids are noted before.
        let kept_ids = items.get(second.0 as usize)?.offset;
        let last_ids = items.get(last.0 as usize)?.offset;
        let ends = complete.iter().skip(1).map(|begin| begin.0).chain([last.0]);
        for (&(start, query), end) in complete.iter().zip(ends) {
            let list = &mut items[start as usize..end as usize];
            Scored::sort(list, |item| item.id(ids), options.ties);
            let kept = distinct(list, |item| item.id(ids), index, options.dedup).ok()?;
            each(self.queries.bytes(query as usize), &list[..kept as usize], ids)?;
        }
        let removed = last_ids - kept_ids;
        items.drain(second.0 as usize..last.0 as usize);
        for item in &mut items[second.0 as usize..] {
            item.offset -= removed;
        }
        ids.drain(kept_ids as usize..last_ids as usize);
        self.begins = vec![*first, (second.0, last.1)];
        Some(())
    }
}

/// Positions of a duplicate document in a list.
#[derive(Clone, Copy)]
struct Clash(usize, usize);

/// Removes duplicates or returns the first one, depending on `dedup`. Returns the number of documents left.
fn distinct<'a, T: Copy>(
    list: &mut [Item<T>],
    id: impl Fn(&Item<T>) -> &'a [u8],
    index: &mut Index,
    dedup: Dedup,
) -> Result<u32, Clash> {
    index.clear(list.len());
    let mut kept = 0;
    for at in 0..list.len() {
        let item = list[at];
        let same = |other: usize| id(&list[other]) == id(&item);
        match (index.find_or_add(item.hash, kept, same), dedup) {
            (None, _) => {
                list[kept] = item;
                kept += 1;
            }
            (Some(_), Dedup::First) => {}
            (Some(twin), Dedup::Refuse) => return Err(Clash(twin, at)),
        }
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "positions of items fit in 32 bits"
    )]
    let kept = kept as u32;
    Ok(kept)
}

/// Joins the parts of a file of judgments, in file order.
pub(super) fn qrels(parts: Vec<ArrangedRuns<i32>>) -> RetrievalResult<Qrels> {
    join(parts).map(Qrels)
}

/// Joins the parts of a run, in file order.
pub(super) fn run(parts: Vec<ArrangedRuns<Scored>>) -> RetrievalResult<Run> {
    join(parts).map(Run)
}

fn join<T: Value>(mut parts: Vec<ArrangedRuns<T>>) -> RetrievalResult<Lists<T>> {
    let options = parts.first().map(|part| part.options).unwrap_or_default();
    let queries = merge_queries(&mut parts)?;
    let mut counts = vec![0_u32; queries.len()];
    for segment in parts.iter().flat_map(|part| &part.segments) {
        counts[segment.query as usize] += 1;
    }
    let empty = Place {
        part: 0,
        start: 0,
        end: 0,
    };
    let mut ranges = vec![empty; queries.len()];
    let mut clashes: Vec<(u32, Place)> = Vec::new();
    let mut split: Vec<(u32, Place)> = Vec::new();
    for (number, part) in (0_u32..).zip(&parts) {
        for segment in &part.segments {
            let place = Place {
                part: number,
                start: segment.start,
                end: segment.end,
            };
            if counts[segment.query as usize] > 1 {
                split.push((segment.query, place));
                continue;
            }
            ranges[segment.query as usize] = place;
            if segment.clash {
                clashes.push((segment.query, place));
            }
        }
    }
    let mut notes = Vec::with_capacity(parts.len());
    let mut lists = Lists {
        queries,
        parts: Vec::with_capacity(parts.len() + 1),
        ranges,
    };
    let mut lines = 0;
    for (number, mut part) in (0_u16..).zip(parts) {
        if part.part.items.first().is_some_and(|item| item.part != number) {
            part.part.items.iter_mut().for_each(|item| item.part = number);
        }
        notes.push((lines, part.marks));
        lines += part.lines;
        lists.parts.push(part.part);
    }
    if lists.parts.iter().all(|part| part.items.is_empty()) {
        return Err(RetrievalError::Empty);
    }
    clashes.extend(merge_split_queries(&mut lists, split, options)?);
    match clashes.iter().min_by_key(|clash| clash.0) {
        Some(&(query, place)) => Err(lists.duplicate_error(query, place, &notes)),
        None => Ok(lists),
    }
}

/// Merges the query tables of all parts and updates the segments to the merged positions.
fn merge_queries<T>(parts: &mut [ArrangedRuns<T>]) -> RetrievalResult<Queries> {
    let Some((first, others)) = parts.split_first_mut() else {
        return Ok(Queries::default());
    };
    let mut queries = std::mem::take(&mut first.queries);
    for part in others {
        let names = std::mem::take(&mut part.queries);
        let positions: Vec<u32> = (0..names.len())
            .map(|position| queries.intern(names.bytes(position)))
            .collect::<RetrievalResult<_>>()?;
        for segment in &mut part.segments {
            segment.query = positions[segment.query as usize];
        }
    }
    Ok(queries)
}

/// Copies the segments of each query with several segments into a last part. Returns the lists with
/// duplicates.
fn merge_split_queries<T: Value>(
    lists: &mut Lists<T>,
    mut split: Vec<(u32, Place)>,
    options: OrderOptions,
) -> RetrievalResult<Vec<(u32, Place)>> {
    // A stable sort keeps the first line of a document first.
    split.sort_by_key(|segment| segment.0);
    let number = position(lists.parts.len())?;
    let mut merged: Vec<Item<T>> = Vec::new();
    let mut clashes = Vec::new();
    let mut index = Index::default();
    for segments in split.chunk_by(|a, b| a.0 == b.0) {
        let start = merged.len();
        for (_, place) in segments {
            let items = &lists.parts[place.part as usize].items;
            merged.extend_from_slice(&items[place.start as usize..place.end as usize]);
        }
        let list = &mut merged[start..];
        T::sort(list, |item| lists.id(item), options.ties);
        let kept = distinct(list, |item| lists.id(item), &mut index, options.dedup);
        if let Ok(kept) = kept {
            merged.truncate(start + kept as usize);
        }
        let place = Place {
            part: number,
            start: position(start)?,
            end: position(merged.len())?,
        };
        for (query, _) in &segments[..1] {
            lists.ranges[*query as usize] = place;
            if kept.is_err() {
                clashes.push((*query, place));
            }
        }
    }
    if !merged.is_empty() {
        lists.parts.push(Part {
            ids: Vec::new(),
            items: merged,
        });
    }
    Ok(clashes)
}

impl<T: Value> Lists<T> {
    /// Builds the error for a list with a duplicate. For each part, `notes` has the number of lines before it
    /// and its marks.
    fn duplicate_error(&self, query: u32, place: Place, notes: &[(u64, Vec<Mark>)]) -> RetrievalError {
        let mut list =
            self.parts[place.part as usize].items[place.start as usize..place.end as usize].to_vec();
        let clash = distinct(
            &mut list,
            |item| self.id(item),
            &mut Index::default(),
            Dedup::Refuse,
        );
        let second = clash.err().map(|Clash(one, other)| {
            let (one, other) = (list[one], list[other]);
            if (one.part, one.offset) > (other.part, other.offset) {
                one
            } else {
                other
            }
        });
        RetrievalError::Duplicate {
            query: self.queries.name(query as usize).into(),
            document: second
                .as_ref()
                .map(|item| self.text(item).into())
                .unwrap_or_default(),
            line: second.and_then(|item| self.line(&item, notes)),
        }
    }

    /// Line number of an item. Items are sorted by now, but their ids are still in file order.
    fn line(&self, item: &Item<T>, notes: &[(u64, Vec<Mark>)]) -> Option<u64> {
        let (before, marks) = notes.get(usize::from(item.part))?;
        let items = &self.parts[usize::from(item.part)].items;
        let earlier = items.iter().filter(|other| other.offset < item.offset).count() as u64;
        let mark = marks.iter().rfind(|mark| u64::from(mark.item) <= earlier)?;
        let further = if mark.each {
            earlier - u64::from(mark.item)
        } else {
            0
        };
        Some(before + mark.line + further)
    }
}
