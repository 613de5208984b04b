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
        let posted: usize = self.postings.iter().map(Vec::capacity).sum();
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

    /// Like [`matches`](Self::matches).
    pub(crate) fn matches_of(&self, words: &WordSet) -> Vec<Match> {
        self.search_all(&Query {
            unknown: 0,
            signature: signature(&words.0),
            known: words.0.clone(),
        })
    }

    /// Like [`insert`](Self::insert).
    pub(crate) fn insert_words(&mut self, words: &WordSet) -> u32 {
        self.insert_set(&words.0)
    }

    fn search_all(&self, query: &Query) -> Vec<Match> {
        let mut found = Vec::new();
        self.search(query, |candidate| {
            found.push(candidate);
            None
        });
        found.sort_unstable_by_key(|found| found.id);
        found.dedup();
        // Stable sort: equal similarities keep their order by id.
        found.sort_by_key(|found| std::cmp::Reverse(Share(found.overlap, found.union)));
        found
    }

    /// Inserts `text` and returns its number, starting at zero.
    pub fn insert(&mut self, text: &str) -> u32 {
        let set = self.intern(&normalize(text));
        self.insert_set(&set)
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
        (found, self.insert_set(&set))
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

    fn insert_set(&mut self, set: &[u32]) -> u32 {
        let id = count(self.ends.len());
        self.arena.extend_from_slice(set);
        self.ends.push(self.arena.len());
        self.postings.resize_with(self.words.len(), Vec::new);
        let signature = signature(set);
        let length = u16::try_from(set.len()).unwrap_or(u16::MAX);
        for (position, &word) in set[..self.prefix_length(set.len())].iter().enumerate() {
            let position = u16::try_from(position).unwrap_or(u16::MAX);
            self.postings[word as usize].push(Posting {
                signature,
                id,
                length,
                position,
            });
        }
        if !set.is_empty() {
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
        self.search(query, |candidate| {
            if best.is_none_or(|best| candidate.is_better_than(&best)) {
                best = Some(candidate);
            }
            best
        });
        best
    }

    /// Calls `found` for every statement that reaches the threshold, possibly more than once. The returned
    /// match raises the bound for the rest of the search: only statements at least as similar are still
    /// considered.
    fn search(&self, query: &Query, mut found: impl FnMut(Match) -> Option<Match>) {
        let size = query.known.len() as u64 + u64::from(query.unknown);
        let mut bound = Bound::new(self.threshold.fraction(), size);
        for (rank, &word) in query.known.iter().enumerate() {
            if rank + query.unknown as usize >= bound.prefix {
                break;
            }
            let remaining = count(query.known.len() - rank);
            // A numbered word that no statement contains yet has no list.
            let postings = self.postings.get(word as usize).map_or(&[][..], Vec::as_slice);
            for posting in postings {
                let length = match posting.length {
                    u16::MAX => count(self.set(posting.id).len()),
                    length => u32::from(length),
                };
                let Some(needed) = bound.needed_overlap(length) else {
                    continue;
                };
                // |A ∩ B| is at most the rest of either set from this word on ...
                if remaining.min(length - u32::from(posting.position)) < needed {
                    continue;
                }
                // ... and at most (|A| + |B| − |A Δ B|) / 2, where the signatures differ in at most |A Δ B| bits.
                let different = (query.signature ^ posting.signature).count_ones() + query.unknown;
                if (bound.size + length).saturating_sub(different) / 2 < needed {
                    continue;
                }
                let Some(overlap) = overlap(&query.known, self.set(posting.id), needed) else {
                    continue;
                };
                let candidate = Match {
                    id: posting.id,
                    overlap,
                    union: bound.size + length - overlap,
                };
                if let Some(best) = found(candidate) {
                    bound = Bound::new((u64::from(best.overlap), u64::from(best.union)), size);
                }
            }
        }
    }
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
    /// overlap/union ≥ numerator/denominator, for a query of `size` words.
    fn new((numerator, denominator): (u64, u64), size: u64) -> Self {
        let shortest = (numerator * size).div_ceil(denominator);
        let longest = denominator * size / numerator;
        // overlap ≥ t·union with union = |A| + |B| − overlap, so ⌈numerator·(|A| + |B|) / (denominator +
        // numerator)⌉, carried from one length to the next instead of dividing again.
        let divisor = denominator + numerator;
        let (mut quotient, mut rest) = (
            numerator * (size + shortest) / divisor,
            numerator * (size + shortest) % divisor,
        );
        let needed = (shortest..=longest)
            .map(|_| {
                let needed = narrow(quotient + u64::from(rest > 0));
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
            prefix: prefix_length(size, numerator, denominator),
            shortest: narrow(shortest),
            needed,
        }
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
