//! Texts in memory, found by their words and ranked by BM25 (Robertson and Zaragoza 2009, with Lucene's weight of rare
//! words, which is never negative).
//!
//! A text is scored whole, however many chunks it was cut into: a long note is no better for having its words in one
//! chunk. Which chunk fits best is a question of its own, for the excerpt.

use std::sync::Arc;

use super::stem::{StopWords, Vocabulary, stem};
use crate::memory::shared::SharedVec;

/// How words are weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25 {
    /// How soon another occurrence stops counting.
    pub k1: f64,
    /// How much long texts are held back, from 0 to 1.
    pub b: f64,
    /// How much an occurrence in a title counts beside one in the text.
    pub title: f64,
}

impl Default for Bm25 {
    fn default() -> Self {
        Self {
            k1: 1.2,
            b: 0.75,
            title: 1.0,
        }
    }
}

/// A word of a question, and how much it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The word.
    pub word: String,
    /// How often it is said, or less for one that is only said for another.
    pub weight: f64,
}

/// Where a word occurs.
#[derive(Debug, Clone, Copy)]
struct Posting {
    piece: u32,
    title: u16,
    body: u16,
}

/// The pieces of a memory: they stand in a row.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    first: u32,
    pieces: u32,
    /// Telling words of all pieces.
    length: u32,
}

/// All words of all memories.
#[derive(Debug, Clone, Default)]
pub struct LexicalIndex {
    vocabulary: Vocabulary,
    /// By term.
    postings: SharedVec<Arc<Vec<Posting>>>,
    /// The memory that each piece belongs to; [`GONE`] when it was taken away.
    owners: Vec<u32>,
    spans: Vec<Span>,
    memories: usize,
    total_length: u64,
    gone: usize,
}

const GONE: u32 = u32::MAX;

impl LexicalIndex {
    /// An empty index that leaves these words out.
    pub fn new(stop_words: StopWords) -> Self {
        Self {
            vocabulary: Vocabulary::new(stop_words),
            ..Self::default()
        }
    }

    /// How many pieces there are, with those that were taken away.
    pub fn pieces(&self) -> usize {
        self.owners.len()
    }

    /// How many pieces were taken away and still take room.
    pub fn gone(&self) -> usize {
        self.gone
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let postings: usize = self.postings.iter().map(|list| 24 + 8 * list.capacity()).sum();
        postings + self.vocabulary.bytes() + 4 * self.owners.capacity() + 12 * self.spans.capacity()
    }

    /// Adds a memory's pieces, each with its title or heading and its text. Numbers of pieces count up from
    /// [`LexicalIndex::pieces`]. What the memory had before is taken away.
    pub fn put<'a>(&mut self, memory: u32, pieces: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.remove(memory);
        let first = u32::try_from(self.owners.len()).unwrap_or(GONE);
        let rule = self.vocabulary.stop_words().word_rule();
        let mut length = 0;
        let mut counted: Vec<(u32, bool)> = Vec::new();
        for (title, body) in pieces {
            let piece = u32::try_from(self.owners.len()).unwrap_or(GONE);
            self.owners.push(memory);
            counted.clear();
            for (text, is_title) in [(title, true), (body, false)] {
                rule.for_each(text, |word| {
                    counted.extend(self.vocabulary.number(word).map(|term| (term, is_title)));
                });
            }
            while self.postings.len() < self.vocabulary.len() {
                self.postings.push(Arc::default());
            }
            length += u32::try_from(counted.len()).unwrap_or(u32::MAX);
            counted.sort_unstable();
            for same in counted.chunk_by(|a, b| a.0 == b.0) {
                let Some((term, _)) = same.first() else { continue };
                let in_title = same.iter().filter(|(_, is_title)| *is_title).count();
                let small = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
                let posting = Posting {
                    piece,
                    title: small(in_title),
                    body: small(same.len() - in_title),
                };
                if let Some(list) = self.postings.get_mut(*term as usize) {
                    Arc::make_mut(list).push(posting);
                }
            }
        }
        let pieces = u32::try_from(self.owners.len()).unwrap_or(GONE) - first;
        let at = memory as usize;
        if self.spans.len() <= at {
            self.spans.resize(at + 1, Span::default());
        }
        if let Some(span) = self.spans.get_mut(at).filter(|_| pieces > 0) {
            *span = Span {
                first,
                pieces,
                length,
            };
            self.memories += 1;
            self.total_length += u64::from(length);
        }
    }

    /// Takes a memory away. Its room is not given back: whoever keeps the index builds it anew when too much is gone.
    pub fn remove(&mut self, memory: u32) {
        let Some(span) = self.spans.get_mut(memory as usize).filter(|span| span.pieces > 0) else {
            return;
        };
        let gone = std::mem::take(span);
        let pieces = gone.first as usize..(gone.first + gone.pieces) as usize;
        if let Some(owners) = self.owners.get_mut(pieces) {
            owners.fill(GONE);
        }
        self.gone += gone.pieces as usize;
        self.memories -= 1;
        self.total_length -= u64::from(gone.length);
    }

    /// A question to this index, with the words that are there; forms of one word add up.
    pub fn question(&self, terms: &[Term]) -> Question<'_> {
        let mut wanted: Vec<(u32, f64)> = Vec::new();
        for term in terms {
            let Some(number) = self.vocabulary.find(&stem(&term.word)) else {
                continue;
            };
            match wanted.iter_mut().find(|(known, _)| *known == number) {
                Some((_, weight)) => *weight += term.weight,
                None => wanted.push((number, term.weight)),
            }
        }
        self.weighed(wanted)
    }

    /// The best texts for the different words of a query, each counting once, with their scores, best first.
    pub fn search(&self, query: &str, most: usize) -> Vec<(u32, f64)> {
        let stop_words = self.vocabulary.stop_words();
        let mut wanted: Vec<(u32, f64)> = Vec::new();
        stop_words.word_rule().for_each(query, |word| {
            let number = self
                .vocabulary
                .find(&stem(word))
                .filter(|_| !stop_words.contains(word));
            wanted.extend(number.map(|number| (number, 1.0)));
        });
        wanted.sort_unstable_by_key(|(number, _)| *number);
        wanted.dedup_by_key(|(number, _)| *number);
        self.weighed(wanted).search(Bm25::default(), most, |_| true)
    }

    fn weighed(&self, wanted: Vec<(u32, f64)>) -> Question<'_> {
        let lists = wanted.into_iter().filter_map(|(number, weight)| {
            let list = self.postings.get(number as usize)?.as_slice();
            let mut having = 0_usize;
            let mut last = GONE;
            for posting in list {
                let owner = self.owner(posting.piece);
                having += usize::from(owner != GONE && owner != last);
                last = owner;
            }
            let (having, all) = (having as f64, self.memories as f64);
            let rare = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
            (having > 0.0).then_some((list, weight * rare))
        });
        Question {
            index: self,
            lists: lists.collect(),
        }
    }

    fn owner(&self, piece: u32) -> u32 {
        self.owners.get(piece as usize).copied().unwrap_or(GONE)
    }
}

/// A question, ready to be asked.
#[derive(Debug)]
pub struct Question<'a> {
    index: &'a LexicalIndex,
    /// Where each word occurs, and what an occurrence is worth.
    lists: Vec<(&'a [Posting], f64)>,
}

impl Question<'_> {
    /// Memories that have any of the words, best first, at most so many, of those that are `wanted`.
    pub fn search(
        &self,
        settings: impl Into<Bm25>,
        most: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f64)> {
        let index = self.index;
        let mean = (index.total_length as f64 / index.memories.max(1) as f64).max(1.0);
        let settings = settings.into();
        let Bm25 { k1, b, .. } = settings;
        let mut scores = vec![0.0_f64; index.spans.len()];
        let mut touched: Vec<u32> = Vec::new();
        for (list, worth) in &self.lists {
            // Pieces of a memory stand in a row, and so do its postings.
            for same in list.chunk_by(|a, b| index.owner(a.piece) == index.owner(b.piece)) {
                let Some(owner) = same.first().map(|posting| index.owner(posting.piece)) else {
                    continue;
                };
                let (Some(span), Some(score)) =
                    (index.spans.get(owner as usize), scores.get_mut(owner as usize))
                else {
                    continue;
                };
                let times: f64 = same.iter().map(|posting| occurrences(*posting, settings)).sum();
                let long = 1.0 - b + b * f64::from(span.length) / mean;
                if *score <= 0.0 {
                    touched.push(owner);
                }
                *score += worth * times * (k1 + 1.0) / (times + k1 * long).max(f64::MIN_POSITIVE);
            }
        }
        let mut found: Vec<(u32, f64)> = touched
            .into_iter()
            .filter_map(|owner| Some((owner, *scores.get(owner as usize)?)))
            .filter(|(owner, score)| *score > 0.0 && wanted(*owner))
            .collect();
        let better = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if most < found.len() {
            found.select_nth_unstable_by(most, better);
            found.truncate(most);
        }
        found.sort_unstable_by(better);
        found
    }

    /// The piece of a memory that has most of the words, by its place among the memory's pieces; the first of equals.
    pub fn best_piece(&self, settings: impl Into<Bm25>, memory: u32) -> Option<u32> {
        let settings = settings.into();
        let span = self
            .index
            .spans
            .get(memory as usize)
            .filter(|span| span.pieces > 0)?;
        if span.pieces == 1 {
            return Some(0);
        }
        let mut scores = vec![0.0_f64; span.pieces as usize];
        for (list, worth) in &self.lists {
            let from = list.partition_point(|posting| posting.piece < span.first);
            let own = list
                .iter()
                .skip(from)
                .take_while(|posting| posting.piece < span.first + span.pieces);
            for posting in own {
                let times = occurrences(*posting, settings);
                if let Some(score) = scores.get_mut((posting.piece - span.first) as usize) {
                    *score += worth * times / (times + settings.k1).max(f64::MIN_POSITIVE);
                }
            }
        }
        let mut best = (0_u32, 0.0_f64);
        for (at, score) in (0_u32..).zip(scores) {
            if score > best.1 {
                best = (at, score);
            }
        }
        Some(best.0)
    }
}

fn occurrences(posting: Posting, settings: Bm25) -> f64 {
    f64::from(posting.body) + settings.title * f64::from(posting.title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn terms(words: &[&str]) -> Vec<Term> {
        words
            .iter()
            .map(|word| Term {
                word: (*word).to_owned(),
                weight: 1.0,
            })
            .collect()
    }

    /// From `bm25s` 0.3 (k1 1.2, b .75, method "lucene", no stemmer, no stop words), times 2.2, which it leaves out:
    /// `r.index(bm25s.tokenize(["cat sat mat", "dog cat cat house garden", "bird tree"], stopwords=None))`, then
    /// `r.get_scores(["cat", "tree"])`.
    #[test]
    fn scores_are_those_of_a_known_program() {
        let mut index = LexicalIndex::default();
        for (memory, text) in (0..).zip(["cat sat mat", "dog cat cat house garden", "bird tree"]) {
            index.put(memory, [("", text)]);
        }
        let found = index
            .question(&terms(&["cat", "tree"]))
            .search(Bm25::default(), 10, |_| true);
        let expected = [(2, 1.172_730), (1, 0.566_580), (0, 0.490_051)];
        assert_eq!(found.len(), 3);
        for ((owner, score), (memory, known)) in found.iter().zip(expected) {
            assert_eq!(*owner, memory);
            assert!((score - known).abs() < 1e-5, "{found:?}");
        }
    }

    #[test]
    fn forms_of_a_word_are_one_and_repeats_in_the_question_count() {
        let mut index = LexicalIndex::default();
        index.put(0, [("Locks", "the database was locked")]);
        index.put(1, [("Caches", "caching and caching again")]);
        let found = |words: &[&str]| -> Vec<u32> {
            let found = index
                .question(&terms(words))
                .search(Bm25::default(), 10, |_| true);
            found.into_iter().map(|(memory, _)| memory).collect()
        };
        assert_eq!(found(&["lock"]), [0]);
        assert_eq!(found(&["database", "cached"]), [1, 0]);
        assert_eq!(found(&["database", "database", "database", "cached"]), [0, 1]);
        assert_eq!(found(&["the"]), [0; 0]);
    }

    #[test]
    fn a_query_has_each_word_once_and_ties_go_to_the_earlier_text() {
        let mut index = LexicalIndex::new(StopWords::Research);
        for (number, text) in (0..).zip(["same words", "other things entirely", "same words"]) {
            index.put(number, [("", text)]);
        }
        let found = |query: &str, most| -> Vec<u32> {
            let found = index.search(query, most).into_iter();
            found.map(|(number, _)| number).collect()
        };
        assert_eq!(found("same word, the same words", 10), [0, 2]);
        assert_eq!(index.search("same same", 1), index.search("same", 1));
        assert_eq!(found("same words", 1), [0]);
        assert_eq!(found("the of and find articles", 10), [0; 0]);
        assert!(LexicalIndex::default().search("x", 3).is_empty());
    }

    #[test]
    fn the_best_piece_is_the_one_with_the_words() {
        let mut index = LexicalIndex::default();
        index.put(
            7,
            [
                ("Notes", "about cats"),
                ("", "nothing"),
                ("Dogs", "dogs and dogs"),
            ],
        );
        assert_eq!(
            index.question(&terms(&["dog"])).best_piece(Bm25::default(), 7),
            Some(2)
        );
        assert_eq!(
            index.question(&terms(&["bird"])).best_piece(Bm25::default(), 7),
            Some(0)
        );
        assert_eq!(
            index.question(&terms(&["dog"])).best_piece(Bm25::default(), 3),
            None
        );
    }

    /// The definition, straight from the formula, over whole texts.
    fn plain(texts: &BTreeMap<u32, Vec<String>>, words: &[&str]) -> Vec<(u32, f64)> {
        let tokens = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let whole: BTreeMap<u32, Vec<String>> = texts
            .iter()
            .map(|(id, pieces)| (*id, tokens(&pieces.join(" "))))
            .collect();
        let mean = whole.values().map(Vec::len).sum::<usize>() as f64 / whole.len().max(1) as f64;
        let mut found: Vec<(u32, f64)> = Vec::new();
        for (id, tokens) in &whole {
            let mut score = 0.0;
            for word in words {
                let times = tokens.iter().filter(|token| token == word).count() as f64;
                let having = whole
                    .values()
                    .filter(|tokens| tokens.iter().any(|token| token == word))
                    .count() as f64;
                let rare = (1.0 + (whole.len() as f64 - having + 0.5) / (having + 0.5)).ln();
                score += rare * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * tokens.len() as f64 / mean));
            }
            if score > 0.0 {
                found.push((*id, score));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found
    }

    proptest! {
        /// After any changes the index says what the formula says about what is there now.
        #[test]
        fn changes_leave_what_the_formula_says(
            changes in proptest::collection::vec(
                (0u32..12, proptest::collection::vec(proptest::collection::vec(0usize..6, 1..8), 0..4)), 1..40),
        ) {
            const WORDS: [&str; 6] = ["cat", "dog", "bird", "fish", "cow", "pig"];
            let mut index = LexicalIndex::default();
            let mut texts: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for (memory, pieces) in changes {
                let pieces: Vec<String> = pieces.iter()
                    .map(|words| words.iter().map(|word| WORDS[*word]).collect::<Vec<_>>().join(" ")).collect();
                index.put(memory, pieces.iter().map(|piece| ("", piece.as_str())));
                if pieces.is_empty() { texts.remove(&memory); } else { texts.insert(memory, pieces); }
            }
            let found = index.question(&terms(&["cat", "fish"])).search(Bm25::default(), 100, |_| true);
            let expected = plain(&texts, &["cat", "fish"]);
            prop_assert_eq!(found.len(), expected.len());
            for (one, other) in found.iter().zip(&expected) {
                prop_assert!((one.1 - other.1).abs() < 1e-9, "{:?} {:?}", found, expected);
            }
            let few = index.question(&terms(&["cat", "fish"])).search(Bm25::default(), 3, |memory| memory % 2 == 0);
            let even: Vec<(u32, f64)> = found.into_iter().filter(|(memory, _)| memory % 2 == 0).take(3).collect();
            prop_assert_eq!(few, even);
        }
    }
}
