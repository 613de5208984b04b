//! Broad uses: whether the content of an item reappears in what the agent writes.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::text::Tokenization;

/// Rare words and lines of the items so far.
#[derive(Debug)]
pub(super) struct Contents {
    /// Number of shared rare words that count as a use.
    overlap: usize,
    /// Word → items that contain it, at most one more than [`MAX_RARE_ITEMS`].
    words: FxHashMap<String, Vec<usize>>,
    /// Line → latest item that contains it.
    lines: FxHashMap<String, usize>,
}

/// Minimum length of a rare word, in characters; shorter words are mostly grammar.
const MIN_RARE_CHARS: usize = 5;
/// Maximum number of items that contain a rare word.
const MAX_RARE_ITEMS: usize = 3;
/// Minimum length of a line that counts as a quotation, in characters.
const MIN_LINE_CHARS: usize = 24;

impl Contents {
    pub(super) fn new(overlap: usize) -> Self {
        Self {
            overlap,
            words: FxHashMap::default(),
            lines: FxHashMap::default(),
        }
    }

    /// Records the content of an item.
    pub(super) fn add(&mut self, text: &str, item: usize) {
        for word in rare_words(text) {
            let items = self.words.entry(word).or_default();
            if items.len() <= MAX_RARE_ITEMS {
                items.push(item);
            }
        }
        for line in quotable_lines(text) {
            self.lines.insert(line.to_owned(), item);
        }
    }

    /// Returns the items whose content reappears in a text.
    pub(super) fn used_by(&self, text: &str) -> BTreeSet<usize> {
        let mut shared: FxHashMap<usize, usize> = FxHashMap::default();
        for word in rare_words(text) {
            if let Some(items) = self
                .words
                .get(&word)
                .filter(|items| items.len() <= MAX_RARE_ITEMS)
            {
                for item in items {
                    *shared.entry(*item).or_default() += 1;
                }
            }
        }
        let mut found: BTreeSet<usize> = shared
            .into_iter()
            .filter(|(_, count)| *count >= self.overlap)
            .map(|(item, _)| item)
            .collect();
        found.extend(
            quotable_lines(text)
                .into_iter()
                .filter_map(|line| self.lines.get(line)),
        );
        found
    }
}

fn rare_words(text: &str) -> BTreeSet<String> {
    let mut words = Tokenization::Words.set(text);
    words.retain(|word| word.chars().count() >= MIN_RARE_CHARS);
    words
}

fn quotable_lines(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| line.chars().count() >= MIN_LINE_CHARS)
        .collect()
}
