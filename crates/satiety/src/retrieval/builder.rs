//! Lists that grow line by line, and how the parts of a file become one: lines of a query that stand apart are brought
//! together, sorted, and checked for documents that come twice. In how many parts a file was read changes nothing.

use std::cmp::Ordering;

use super::index::{Index, Queries, position};
use super::lists::{Dedup, Item, Lists, OrderOptions, Part, Place, Qrels, Run, Scored, Ties};
use super::{RetrievalError, RetrievalResult, fast_parse};

/// Lists that are still growing.
#[derive(Debug)]
pub(super) struct Builder<T> {
    queries: Queries,
    part: Part<T>,
    /// Which part of the file this is, from zero on.
    number: u16,
    /// Where lines of another query begin: first item, query.
    begins: Vec<(u32, u32)>,
    marks: Vec<Mark>,
    /// The line that needs no mark.
    next_line: u64,
}

/// From this item on, lines are counted from here. Files without gaps have one mark.
#[derive(Debug, Clone, Copy)]
struct Mark {
    item: u32,
    line: u64,
    /// Whether each item has a line of its own.
    each: bool,
}

/// The lines of a query that stand together, sorted.
#[derive(Debug, Clone, Copy)]
struct Segment {
    query: u32,
    start: u32,
    end: u32,
    /// Whether a document comes twice that must not.
    clash: bool,
}

/// A part of a file whose segments are in order.
#[derive(Debug)]
pub(super) struct ArrangedRuns<T> {
    queries: Queries,
    part: Part<T>,
    segments: Vec<Segment>,
    marks: Vec<Mark>,
    options: OrderOptions,
    /// How many lines it had.
    pub(super) lines: u64,
}

/// What stands in a list, and how it is put in order.
pub(super) trait Value: Copy {
    fn sort<'a>(list: &mut [Item<Self>], id: impl Fn(&Item<Self>) -> &'a [u8], ties: Ties);
}

impl Value for i32 {
    fn sort<'a>(_: &mut [Item<Self>], _: impl Fn(&Item<Self>) -> &'a [u8], _: Ties) {}
}

impl Value for Scored {
    fn sort<'a>(list: &mut [Item<Self>], id: impl Fn(&Item<Self>) -> &'a [u8], ties: Ties) {
        // Most runs are written best first.
        if list.is_sorted_by(|a, b| a.value.score > b.value.score) {
            return;
        }
        // Stable, so that equal ranks keep the order of the file.
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
    /// For a part of a file.
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

    /// The next document belongs to this query, like the last one or not.
    #[inline]
    pub(super) fn belong_to(&mut self, query: &[u8]) -> RetrievalResult<()> {
        let current = self.begins.last();
        if current.is_some_and(|&(_, current)| self.queries.bytes(current as usize) == query) {
            return Ok(());
        }
        self.begin(query)
    }

    /// From here on, documents belong to this query.
    pub(super) fn begin(&mut self, query: &[u8]) -> RetrievalResult<()> {
        let query = self.queries.intern(query)?;
        self.begins.push((position(self.part.items.len())?, query));
        Ok(())
    }

    /// The next document is on this line.
    #[inline]
    pub(super) fn on_line(&mut self, line: u64) -> RetrievalResult<()> {
        if line != self.next_line {
            self.mark(line, true)?;
        }
        self.next_line = line + 1;
        Ok(())
    }

    /// All documents from here on are on this line.
    pub(super) fn all_on_line(&mut self, line: u64) -> RetrievalResult<()> {
        self.next_line = 0;
        self.mark(line, false)
    }

    #[cold]
    fn mark(&mut self, line: u64, each: bool) -> RetrievalResult<()> {
        let item = position(self.part.items.len())?;
        self.marks.push(Mark { item, line, each });
        Ok(())
    }

    /// Adds a document to the current query. Ids are at most as long as a line, which is below 64 KiB except in JSON.
    pub(super) fn add(&mut self, document: &[u8], value: T) -> RetrievalResult<()> {
        let offset = position(self.part.ids.len())?;
        self.part.ids.extend_from_slice(document);
        self.push(offset, fast_parse::hash(document), document.len(), value)
    }

    /// Adds the document between two positions of a block to the current query.
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
        // Sixteen bytes are copied faster than as many as there are.
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

    /// Sorts what stands together and looks for documents that come twice there.
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

/// The same document twice: positions in a list.
#[derive(Clone, Copy)]
struct Clash(usize, usize);

/// Removes documents that come twice, or tells the first; gives how many are left.
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

/// Qrels from the parts of a file, in their order.
pub(super) fn qrels(parts: Vec<ArrangedRuns<i32>>) -> RetrievalResult<Qrels> {
    join(parts).map(Qrels)
}

/// A run from the parts of a file, in their order.
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
    let nowhere = Place {
        part: 0,
        start: 0,
        end: 0,
    };
    let mut ranges = vec![nowhere; queries.len()];
    let mut clashes: Vec<(u32, Place)> = Vec::new();
    let mut apart: Vec<(u32, Place)> = Vec::new();
    for (number, part) in (0_u32..).zip(&parts) {
        for segment in &part.segments {
            let place = Place {
                part: number,
                start: segment.start,
                end: segment.end,
            };
            if counts[segment.query as usize] > 1 {
                apart.push((segment.query, place));
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
    clashes.extend(bring_together(&mut lists, apart, options)?);
    match clashes.iter().min_by_key(|clash| clash.0) {
        Some(&(query, place)) => Err(lists.twice(query, place, &notes)),
        None => Ok(lists),
    }
}

/// One table of queries, to whose positions the segments refer afterwards.
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

/// Copies the segments of each query that has several into a last part; gives the lists with a document twice.
fn bring_together<T: Value>(
    lists: &mut Lists<T>,
    mut apart: Vec<(u32, Place)>,
    options: OrderOptions,
) -> RetrievalResult<Vec<(u32, Place)>> {
    // Stable, so that the first line of a document stays the first.
    apart.sort_by_key(|segment| segment.0);
    let number = position(lists.parts.len())?;
    let mut together: Vec<Item<T>> = Vec::new();
    let mut clashes = Vec::new();
    let mut index = Index::default();
    for segments in apart.chunk_by(|a, b| a.0 == b.0) {
        let start = together.len();
        for (_, place) in segments {
            let items = &lists.parts[place.part as usize].items;
            together.extend_from_slice(&items[place.start as usize..place.end as usize]);
        }
        let list = &mut together[start..];
        T::sort(list, |item| lists.id(item), options.ties);
        let kept = distinct(list, |item| lists.id(item), &mut index, options.dedup);
        if let Ok(kept) = kept {
            together.truncate(start + kept as usize);
        }
        let place = Place {
            part: number,
            start: position(start)?,
            end: position(together.len())?,
        };
        for (query, _) in &segments[..1] {
            lists.ranges[*query as usize] = place;
            if kept.is_err() {
                clashes.push((*query, place));
            }
        }
    }
    if !together.is_empty() {
        lists.parts.push(Part {
            ids: Vec::new(),
            items: together,
        });
    }
    Ok(clashes)
}

impl<T: Value> Lists<T> {
    /// What is wrong with a list in which a document comes twice; for each part, `notes` has the lines before it and
    /// its marks.
    fn twice(&self, query: u32, place: Place, notes: &[(u64, Vec<Mark>)]) -> RetrievalError {
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

    /// Items are sorted by now, but their ids still lie in the order of the file.
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
