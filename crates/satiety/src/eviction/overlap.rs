//! Word overlap of an item with the goal and with other items. Words are compared by a 32-bit hash, which
//! costs four bytes per word and confuses about two words in a billion.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::text::{JaccardIndex, Tokenization};

/// Similarity from which one item covers another.
const COVERED: f64 = 0.8;
/// Minimum length of a keyword, in characters; shorter words are mostly grammar.
const MIN_KEYWORD_CHARS: usize = 4;

/// Sorted set of word hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words(Box<[u32]>);

impl Words {
    /// Returns the keywords of a text.
    pub(super) fn from_text(text: &str) -> Self {
        let mut words: Vec<u32> = Tokenization::Words
            .set(text)
            .iter()
            .filter(|word| {
                word.chars().count() >= MIN_KEYWORD_CHARS || word.bytes().any(|byte| byte.is_ascii_digit())
            })
            .map(|word| hash(word))
            .collect();
        words.sort_unstable();
        words.dedup();
        Self(words.into())
    }

    /// Returns the share of these words that occur in `other`; `None` if this set is empty.
    pub(super) fn share_in(&self, other: &Self) -> Option<f64> {
        if self.0.is_empty() {
            return None;
        }
        let common = self
            .0
            .iter()
            .filter(|word| other.0.binary_search(word).is_ok())
            .count();
        Some(common as f64 / self.0.len() as f64)
    }
}

/// Returns the upper half of the hash, which is mixed better.
fn hash(word: &str) -> u32 {
    (FxBuildHasher.hash_one(word) >> 32) as u32
}

/// Index of items with nearly the same content.
#[derive(Debug)]
pub(super) struct Overlaps {
    index: Option<JaccardIndex>,
    /// Entry of each id in the index; `None` after its removal.
    entries: Vec<Option<u32>>,
    numbers: FxHashMap<u32, u32>,
}

impl Overlaps {
    pub(super) fn new() -> Self {
        Self {
            index: JaccardIndex::new(COVERED, Tokenization::Words).ok(),
            entries: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    /// Adds an item and returns the most similar one, with its similarity.
    pub(super) fn insert(&mut self, entry: u32, text: &str) -> Option<(u32, f64)> {
        let index = self.index.as_mut()?;
        let twin = index
            .matches(text)
            .into_iter()
            .filter_map(|found| Some((self.entries.get(found.id as usize).copied()??, found.similarity())))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let number = index.insert(text);
        self.entries.resize(number as usize + 1, None);
        if let Some(place) = self.entries.get_mut(number as usize) {
            *place = Some(entry);
        }
        self.numbers.insert(entry, number);
        twin
    }

    /// Removes an item. The index keeps its words until it is rebuilt; see [`Overlaps::is_stale`].
    pub(super) fn remove(&mut self, entry: u32) {
        if let Some(number) = self.numbers.remove(&entry)
            && let Some(place) = self.entries.get_mut(number as usize)
        {
            *place = None;
        }
    }

    /// Whether most of the index belongs to removed items.
    pub(super) fn is_stale(&self) -> bool {
        self.entries.len() > 64 && self.numbers.len() * 2 < self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_shared_by_meaning_of_words_not_by_grammar() {
        let goal = Words::from_text("Migrate the billing tables to PostgreSQL 16");
        assert_eq!(
            goal.share_in(&Words::from_text("The billing tables, and of the rest nothing")),
            Some(0.4)
        );
        assert_eq!(goal.share_in(&Words::from_text("")), Some(0.0));
        assert_eq!(Words::from_text("a of to").share_in(&goal), None);
    }

    #[test]
    fn a_twin_is_found_until_it_is_gone() {
        let mut twins = Overlaps::new();
        let text = "the queue drains every five seconds under load in production";
        assert_eq!(twins.insert(0, text), None);
        assert_eq!(
            twins.insert(1, "something else entirely was said about the weather"),
            None
        );
        assert_eq!(twins.insert(2, text), Some((0, 1.0)));
        twins.remove(0);
        twins.remove(2);
        assert_eq!(twins.insert(3, text), None);
    }
}
