//! Exact set-similarity search over a growing list of statements: finds the earlier statement with the
//! largest word overlap. Every filter only discards statements that are provably below the bound, so the
//! result equals that of comparing with all of them.
//!
//! Prefix and positional filters: Chaudhuri et al. 2006; Xiao et al. 2008 (`PPJoin`). Words are ordered by
//! first occurrence, latest first: a late word is probably rare, and unlike a frequency order this one never
//! changes.

use rustc_hash::{FxBuildHasher, FxHashMap};
use schemars::JsonSchema;
use serde::Serialize;
use std::hash::BuildHasher;

use super::{Threshold, ThresholdError, Tokenization, normalize};

/// Earlier statement and its word overlap with the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Match {
    /// Number that [`JaccardIndex::insert`] returned for the earlier statement.
    pub id: u32,
    /// Number of words in both statements.
    pub overlap: u32,
    /// Number of distinct words in either statement.
    pub union: u32,
}

impl Match {
    /// Jaccard similarity from 0 to 1.
    pub fn similarity(&self) -> f64 {
        f64::from(self.overlap) / f64::from(self.union)
    }

    /// Higher similarity first, then the earlier statement.
    fn is_better_than(&self, other: &Self) -> bool {
        let this = u64::from(self.overlap) * u64::from(other.union);
        let that = u64::from(other.overlap) * u64::from(self.union);
        this > that || (this == that && self.id < other.id)
    }
}

/// Index of statements, searchable by word overlap.
///
/// ```
/// use satiety::text::{JaccardIndex, Tokenization};
/// let mut seen = JaccardIndex::new(0.6, Tokenization::Words)?;
/// seen.insert("The cache must be warm before the first request");
/// let found = seen.best_match("The cache must be warm before any request.").expect("7 of 9 words");
/// assert_eq!((found.id, found.overlap, found.union), (0, 7, 9));
/// # Ok::<(), satiety::text::ThresholdError>(())
/// ```
#[derive(Debug, Clone)]
pub struct JaccardIndex {
    threshold: Threshold,
    tokenization: Tokenization,
    /// Number of each word, in order of first appearance.
    words: FxHashMap<Box<str>, u32>,
    /// Word numbers of all statements, descending within each; statement `i` is `ends[i-1]..ends[i]`.
    arena: Vec<u32>,
    ends: Vec<usize>,
    /// For each word, the statements that have it in their prefix.
    postings: Vec<Vec<Posting>>,
    /// Statements that are listed by group, so that a search can skip a group as a whole.
    grouped: GroupedPostings,
    /// Hash of a word set to the first statement that has it; a collision only disables the shortcut.
    by_set: FxHashMap<u64, u32>,
}

/// Statement listed under one of its prefix words, with the data for the filters, so that most candidates are
/// discarded without reading them.
#[derive(Debug, Clone, Copy)]
struct Posting {
    signature: u64,
    id: u32,
    /// Number of words, or [`u16::MAX`] for "at least that many, look it up".
    length: u16,
    /// Position of the word in the statement; a value that is too small only weakens the filter.
    position: u16,
}

/// Posting lists of statements that belong to groups.
#[derive(Debug, Clone, Default)]
struct GroupedPostings {
    /// Groups that have a list for a word, in order of first appearance.
    groups: FxHashMap<u32, Vec<u32>>,
    /// List of a word and a group.
    lists: FxHashMap<(u32, u32), GroupList>,
}

#[derive(Debug, Clone)]
struct GroupList {
    postings: Vec<Posting>,
    /// Smallest and largest length of the statements.
    shortest: u16,
    longest: u16,
}

impl GroupedPostings {
    fn push(&mut self, word: u32, group: u32, posting: Posting) {
        let groups = &mut self.groups;
        self.lists
            .entry((word, group))
            .or_insert_with(|| {
                groups.entry(word).or_default().push(group);
                GroupList {
                    postings: Vec::new(),
                    shortest: u16::MAX,
                    longest: 0,
                }
            })
            .push(posting);
    }

    fn lists_of(&self, word: u32) -> impl Iterator<Item = (u32, PostingList<'_>)> {
        let groups = self.groups.get(&word).map_or(&[][..], Vec::as_slice);
        groups.iter().filter_map(move |group| {
            let list = self.lists.get(&(word, *group))?;
            let found = PostingList {
                postings: &list.postings,
                shortest: u32::from(list.shortest),
                longest: if list.longest == u16::MAX {
                    u32::MAX
                } else {
                    u32::from(list.longest)
                },
            };
            Some((*group, found))
        })
    }
}

impl GroupList {
    fn push(&mut self, posting: Posting) {
        self.shortest = self.shortest.min(posting.length);
        self.longest = self.longest.max(posting.length);
        self.postings.push(posting);
    }
}

/// Postings of a word, ascending by id.
struct PostingList<'a> {
    postings: &'a [Posting],
    /// No statement has fewer or more words.
    shortest: u32,
    longest: u32,
}

/// Words of a statement as numbered by one index; only valid with that index.
#[derive(Debug, Clone)]
pub(crate) struct WordSet(Vec<u32>);

/// Statement prepared for a search. Words that no earlier statement contains cannot match and are only
/// counted.
struct Query {
    unknown: u32,
    /// Known words, descending.
    known: Vec<u32>,
    signature: u64,
}

impl JaccardIndex {
    /// Creates an empty index that finds matches of at least `threshold`. A lower threshold costs more per
    /// search; matches can be compared with a higher one by their similarity, so pass the lowest threshold
    /// of interest.
    pub fn new(threshold: f64, tokenization: Tokenization) -> Result<Self, ThresholdError> {
        Ok(Self {
            threshold: Threshold::new(threshold)?,
            tokenization,
            words: FxHashMap::default(),
            arena: Vec::new(),
            ends: Vec::new(),
            postings: Vec::new(),
            grouped: GroupedPostings::default(),
            by_set: FxHashMap::default(),
        })
    }

    /// Number of statements inserted.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no statement was inserted.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Lowest similarity that is found.
    pub fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// Bytes of heap memory, computed from capacities.
    pub fn heap_bytes(&self) -> usize {
        let grouped = self.grouped.lists.values().map(|list| &list.postings);
        let lists = self.postings.iter().chain(grouped);
        let posted: usize = lists.map(Vec::capacity).sum();
        let spelled: usize = self.words.keys().map(|word| word.len()).sum();
        // A hash map stores its entries plus one control byte each.
        let words = self.words.capacity() * (size_of::<(Box<str>, u32)>() + 1) + spelled;
        let sets = self.by_set.capacity() * (size_of::<(u64, u32)>() + 1);
        words
            + sets
            + self.arena.capacity() * size_of::<u32>()
            + self.ends.capacity() * size_of::<usize>()
            + self.postings.capacity() * size_of::<Vec<Posting>>()
            + posted * size_of::<Posting>()
    }

    /// Earlier statement most similar to `text`, if any reaches the threshold; the earliest one on ties.
    pub fn best_match(&self, text: &str) -> Option<Match> {
        self.search_best(&self.query(text))
    }

    /// Every earlier statement that reaches the threshold, most similar first, earlier ones first on ties.
    pub fn matches(&self, text: &str) -> Vec<Match> {
        self.search_all(&self.query(text))
    }

    /// Numbered words of a normalized text, for [`matches_of`](Self::matches_of) and
    /// [`insert_words`](Self::insert_words), so that a text that is searched and inserted is tokenized once.
    pub(crate) fn words_of_normal(&mut self, normal: &str) -> WordSet {
        WordSet(self.intern(normal))
    }

    /// Like [`matches`](Self::matches), without the statements of groups.
    pub(crate) fn matches_of(&self, words: &WordSet) -> Vec<Match> {
        self.search_all(&self.query_of(words))
    }

    /// Statements of groups that reach the threshold, in any order; `skips` excludes whole groups.
    pub(crate) fn matches_in_groups(
        &self,
        words: &WordSet,
        mut skips: impl FnMut(u32) -> bool,
    ) -> Vec<Match> {
        let mut found = Vec::new();
        let lists = |word: u32, scan: &mut dyn FnMut(PostingList<'_>) -> bool| {
            for (group, list) in self.grouped.lists_of(word) {
                if !skips(group) && !scan(list) {
                    break;
                }
            }
        };
        self.search(&self.query_of(words), lists, |candidate| {
            found.push(candidate);
            None
        });
        found
    }

    /// Most similar statement of all groups, the earliest one on ties.
    pub(crate) fn best_in_groups(&self, words: &WordSet) -> Option<Match> {
        let lists = |word: u32, scan: &mut dyn FnMut(PostingList<'_>) -> bool| {
            for (_, list) in self.grouped.lists_of(word) {
                if !scan(list) {
                    break;
                }
            }
        };
        let mut best: Option<Match> = None;
        self.search(&self.query_of(words), lists, |candidate| {
            keep_better(&mut best, candidate);
            best
        });
        best
    }

    /// Similarity to one statement, if it reaches the threshold.
    pub(crate) fn match_with(&self, words: &WordSet, id: u32) -> Option<Match> {
        let other = self.set(id);
        let overlap = overlap(&words.0, other, 1)?;
        let union = count(words.0.len() + other.len()) - overlap;
        self.threshold
            .is_reached_by(overlap, union)
            .then_some(Match { id, overlap, union })
    }

    /// Like [`insert`](Self::insert). A statement of a group is only found by the searches in groups.
    pub(crate) fn insert_words(&mut self, words: &WordSet, group: Option<u32>) -> u32 {
        self.insert_set(&words.0, group)
    }

    fn search_all(&self, query: &Query) -> Vec<Match> {
        let mut found = Vec::new();
        self.search_main(query, |candidate| {
            found.push(candidate);
            None
        });
        sort_matches(&mut found);
        found
    }

    /// Inserts `text` and returns its number, starting at zero.
    pub fn insert(&mut self, text: &str) -> u32 {
        let set = self.intern(&normalize(text));
        self.insert_set(&set, None)
    }

    /// [`best_match`](Self::best_match) followed by [`insert`](Self::insert), tokenizing the text only once.
    pub fn observe(&mut self, text: &str) -> (Option<Match>, u32) {
        let first_new = self.word_count();
        let set = self.intern(&normalize(text));
        let unknown = set.partition_point(|&word| word >= first_new);
        let known = set[unknown..].to_vec();
        let query = Query {
            unknown: count(unknown),
            signature: signature(&known),
            known,
        };
        let found = self.search_best(&query);
        (found, self.insert_set(&set, None))
    }

    fn word_count(&self) -> u32 {
        count(self.words.len())
    }

    /// Word numbers of a normalized text, descending and deduplicated; numbers new words.
    fn intern(&mut self, normal: &str) -> Vec<u32> {
        let mut set = Vec::with_capacity(32);
        let words = &mut self.words;
        self.tokenization.for_each_of_normal(normal, |word| {
            let number = words.get(word).copied().unwrap_or_else(|| {
                let number = count(words.len());
                words.insert(word.into(), number);
                number
            });
            set.push(number);
        });
        set.sort_unstable_by(|a, b| b.cmp(a));
        set.dedup();
        set
    }

    fn query(&self, text: &str) -> Query {
        let mut known = Vec::with_capacity(32);
        let mut unknown: Vec<Box<str>> = Vec::new();
        self.tokenization
            .for_each(text, |word| match self.words.get(word) {
                Some(&number) => known.push(number),
                None => unknown.push(word.into()),
            });
        known.sort_unstable_by(|a, b| b.cmp(a));
        known.dedup();
        unknown.sort_unstable();
        unknown.dedup();
        Query {
            unknown: count(unknown.len()),
            signature: signature(&known),
            known,
        }
    }

    fn insert_set(&mut self, set: &[u32], group: Option<u32>) -> u32 {
        let id = count(self.ends.len());
        self.arena.extend_from_slice(set);
        self.ends.push(self.arena.len());
        self.postings.resize_with(self.words.len(), Vec::new);
        let signature = signature(set);
        let length = u16::try_from(set.len()).unwrap_or(u16::MAX);
        for (position, &word) in set[..self.prefix_length(set.len())].iter().enumerate() {
            let position = u16::try_from(position).unwrap_or(u16::MAX);
            let posting = Posting {
                signature,
                id,
                length,
                position,
            };
            match group {
                Some(group) => self.grouped.push(word, group, posting),
                None => self.postings[word as usize].push(posting),
            }
        }
        if !set.is_empty() && group.is_none() {
            self.by_set.entry(hash_set(set)).or_insert(id);
        }
        id
    }

    /// Of `length` words in a common order, two sets that reach the threshold share one among the first
    /// `length − ⌈threshold·length⌉ + 1`.
    fn prefix_length(&self, length: usize) -> usize {
        let (numerator, denominator) = self.threshold.fraction();
        prefix_length(length as u64, numerator, denominator)
    }

    fn set(&self, id: u32) -> &[u32] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.arena[start..self.ends[id]]
    }

    fn search_best(&self, query: &Query) -> Option<Match> {
        if query.unknown == 0
            && !query.known.is_empty()
            && let Some(&id) = self.by_set.get(&hash_set(&query.known))
            && self.set(id) == query.known
        {
            let size = count(query.known.len());
            return Some(Match {
                id,
                overlap: size,
                union: size,
            });
        }
        let mut best: Option<Match> = None;
        self.search_main(query, |candidate| {
            keep_better(&mut best, candidate);
            best
        });
        best
    }

    /// [`search`](Self::search) among the statements without a group.
    fn search_main(&self, query: &Query, found: impl FnMut(Match) -> Option<Match>) {
        let lists = |word: u32, scan: &mut dyn FnMut(PostingList<'_>) -> bool| {
            // A numbered word that no statement contains yet has no list.
            let postings = self.postings.get(word as usize).map_or(&[][..], Vec::as_slice);
            scan(PostingList {
                postings,
                shortest: 0,
                longest: u32::MAX,
            });
        };
        self.search(query, lists, found);
    }

    /// A query of numbered words.
    fn query_of(&self, words: &WordSet) -> Query {
        // Words that were numbered after the last insertion are in no statement.
        let unknown = words
            .0
            .partition_point(|&word| word as usize >= self.postings.len());
        let known = words.0[unknown..].to_vec();
        Query {
            unknown: count(unknown),
            signature: signature(&known),
            known,
        }
    }

    /// Calls `found` for every statement of the lists that reaches the threshold, possibly more than once. The
    /// returned match raises the bound for the rest of the search: later statements must be more similar,
    /// earlier ones at least as similar. `lists` passes every posting list of a word, each ascending by id, until
    /// the scan returns `false`.
    fn search(
        &self,
        query: &Query,
        mut lists: impl FnMut(u32, &mut dyn FnMut(PostingList<'_>) -> bool),
        mut found: impl FnMut(Match) -> Option<Match>,
    ) {
        let size = query.known.len() as u64 + u64::from(query.unknown);
        let mut bound = Bound::new(self.threshold.fraction(), size, Side::AtLeast);
        // The best match so far, and the bound for statements that come after it.
        let mut best: Option<(Match, Bound)> = None;
        for (rank, &word) in query.known.iter().enumerate() {
            let position = rank + query.unknown as usize;
            if position >= bound.prefix {
                break;
            }
            let remaining = count(query.known.len() - rank);
            lists(word, &mut |list| {
                // Before a scan, whether later statements can qualify at all.
                let is_possible = |bound: &Bound| bound.is_possible(remaining, list.shortest, list.longest);
                let mut can_exceed = best.as_ref().is_none_or(|(_, above)| is_possible(above));
                for posting in list.postings {
                    let mut bound_here = &bound;
                    if let Some((best, above)) = &best
                        && posting.id > best.id
                    {
                        // Ids ascend, so that no later posting of the list can qualify either.
                        if position >= above.prefix || !can_exceed {
                            break;
                        }
                        bound_here = above;
                    }
                    let Some(candidate) = self.candidate(query, posting, remaining, bound_here) else {
                        continue;
                    };
                    if let Some(next) = found(candidate) {
                        let fraction = (u64::from(next.overlap), u64::from(next.union));
                        let above = Bound::new(fraction, size, Side::Above);
                        bound = Bound::new(fraction, size, Side::AtLeast);
                        can_exceed = is_possible(&above);
                        best = Some((next, above));
                    }
                }
                position < bound.prefix
            });
        }
    }

    /// The statement of a posting as a match, if it satisfies the bound.
    fn candidate(&self, query: &Query, posting: &Posting, remaining: u32, bound: &Bound) -> Option<Match> {
        let length = match posting.length {
            u16::MAX => count(self.set(posting.id).len()),
            length => u32::from(length),
        };
        let needed = bound.needed_overlap(length)?;
        // |A ∩ B| is at most the rest of either set from this word on ...
        if remaining.min(length - u32::from(posting.position)) < needed {
            return None;
        }
        // ... and at most (|A| + |B| − |A Δ B|) / 2, where the signatures differ in at most |A Δ B| bits.
        let different = (query.signature ^ posting.signature).count_ones() + query.unknown;
        if (bound.size + length).saturating_sub(different) / 2 < needed {
            return None;
        }
        let overlap = overlap(&query.known, self.set(posting.id), needed)?;
        Some(Match {
            id: posting.id,
            overlap,
            union: bound.size + length - overlap,
        })
    }
}

/// Sorts the most similar first, earlier ones first on ties, and removes duplicates.
pub(crate) fn sort_matches(found: &mut Vec<Match>) {
    found.sort_unstable_by_key(|found| found.id);
    found.dedup();
    // Stable sort: equal similarities keep their order by id.
    found.sort_by_key(|found| std::cmp::Reverse(Share(found.overlap, found.union)));
}

fn keep_better(best: &mut Option<Match>, candidate: Match) {
    if best.is_none_or(|best| candidate.is_better_than(&best)) {
        *best = Some(candidate);
    }
}

/// Whether a similarity equal to the bound satisfies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    AtLeast,
    Above,
}

/// Requirements for a statement to be as similar to the query as a given fraction, computed once per query so
/// that the innermost loop only compares.
struct Bound {
    /// Number of words of the query.
    size: u32,
    /// Number of leading words of the query to look up.
    prefix: usize,
    /// Smallest number of words of a sufficiently similar statement.
    shortest: u32,
    /// Smallest sufficient overlap for each number of words from `shortest` on.
    needed: Vec<u32>,
}

impl Bound {
    /// overlap/union ≥ numerator/denominator, or above it, for a query of `size` words.
    fn new((numerator, denominator): (u64, u64), size: u64, side: Side) -> Self {
        // The smallest integer that satisfies the bound, from a quotient and its rest.
        let least = |quotient: u64, rest: u64| match side {
            Side::AtLeast => quotient + u64::from(rest > 0),
            Side::Above => quotient + 1,
        };
        // |A ∩ B| ≥ t·|A ∪ B| ≥ t·|A|, which also bounds |B| from below, and |B| ≤ |A ∪ B| ≤ |A|/t.
        let shortest = least(numerator * size / denominator, numerator * size % denominator);
        let longest = match side {
            Side::AtLeast => denominator * size / numerator,
            Side::Above => (denominator * size).div_ceil(numerator).saturating_sub(1),
        };
        // overlap ≥ t·union with union = |A| + |B| − overlap, so ⌈numerator·(|A| + |B|) / (denominator +
        // numerator)⌉, carried from one length to the next instead of dividing again.
        let divisor = denominator + numerator;
        let (mut quotient, mut rest) = (
            numerator * (size + shortest) / divisor,
            numerator * (size + shortest) % divisor,
        );
        let needed = (shortest..=longest)
            .map(|_| {
                let needed = narrow(least(quotient, rest));
                rest += numerator;
                if rest >= divisor {
                    rest -= divisor;
                    quotient += 1;
                }
                needed
            })
            .collect();
        Self {
            size: narrow(size),
            prefix: narrow((size + u64::from(size > 0)).saturating_sub(shortest)) as usize,
            shortest: narrow(shortest),
            needed,
        }
    }

    /// Whether a statement whose length is in a range can have the needed overlap, of at most `most` words.
    fn is_possible(&self, most: u32, shortest: u32, longest: u32) -> bool {
        // The needed overlap grows with the length, so that the shortest statement needs least.
        let least = shortest.max(self.shortest);
        least <= longest && self.needed_overlap(least).is_some_and(|needed| needed <= most)
    }

    /// `None` for a length at which no statement is similar enough.
    fn needed_overlap(&self, length: u32) -> Option<u32> {
        self.needed
            .get(length.checked_sub(self.shortest)? as usize)
            .copied()
    }
}

/// Fraction ordered by its value.
#[derive(PartialEq, Eq)]
struct Share(u32, u32);

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (u64::from(self.0) * u64::from(other.1)).cmp(&(u64::from(other.0) * u64::from(self.1)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "never longer than the set it is a prefix of"
)]
fn prefix_length(length: u64, numerator: u64, denominator: u64) -> usize {
    if length == 0 {
        0
    } else {
        (length - (numerator * length).div_ceil(denominator) + 1) as usize
    }
}

/// Number of common elements of two descending lists, if it is at least `needed`.
fn overlap(a: &[u32], b: &[u32], needed: u32) -> Option<u32> {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        if common as usize + (a.len() - i).min(b.len() - j) < needed as usize {
            return None;
        }
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
            std::cmp::Ordering::Greater => i += 1,
            std::cmp::Ordering::Less => j += 1,
        }
    }
    (common >= needed).then_some(common)
}

/// Toggles one bit per word: sets that differ in few words have signatures that differ in few bits.
fn signature(set: &[u32]) -> u64 {
    // Fibonacci hashing: the upper six bits of the product by 2^64/φ.
    set.iter().fold(0, |bits, &word| {
        bits ^ (1 << (u64::from(word).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58))
    })
}

fn hash_set(set: &[u32]) -> u64 {
    FxBuildHasher.hash_one(set)
}

#[expect(
    clippy::expect_used,
    reason = "four billion statements or words do not fit in memory as text"
)]
fn count(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 statements and words")
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a sum of two set sizes, each the length of a list in memory"
)]
fn narrow(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests;
