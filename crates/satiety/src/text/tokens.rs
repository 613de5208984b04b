//! Tokenization of statements into word sets, and their Jaccard similarity.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::normalize;
use super::words::WordRule;

/// How a statement is split into words for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tokenization {
    /// Splits the normal form at whitespace: "cache," and "cache" are different words.
    Whitespace,
    /// Splits into words by the Unicode rules (UAX 29), lower-cased and without accents: punctuation is
    /// ignored, while "3.5", "config.yaml" and "don't" stay whole.
    #[default]
    Words,
}

impl Tokenization {
    /// Calls `each` for every word of `text`, including repeats.
    pub(super) fn for_each(self, text: &str, each: impl FnMut(&str)) {
        self.for_each_of_normal(&normalize(text), each);
    }

    /// Like [`for_each`](Self::for_each), for a normalized text.
    pub(super) fn for_each_of_normal(self, normal: &str, each: impl FnMut(&str)) {
        match self {
            Self::Whitespace => normal.split(' ').filter(|word| !word.is_empty()).for_each(each),
            Self::Words if normal.is_ascii() => WordRule::Compare.for_each_folded(normal, each),
            Self::Words => WordRule::Compare.for_each(normal, each),
        }
    }

    /// Set of words in `text`.
    pub fn set(self, text: &str) -> BTreeSet<String> {
        let mut words = BTreeSet::new();
        self.for_each(text, |word| {
            words.insert(word.to_owned());
        });
        words
    }
}

/// Jaccard similarity |a ∩ b| / |a ∪ b|; 0 for two empty sets.
pub fn jaccard(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let overlap = a.intersection(b).count();
    let union = a.len() + b.len() - overlap;
    if union == 0 {
        0.0
    } else {
        overlap as f64 / union as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(tokenization: Tokenization, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        tokenization.for_each(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn whitespace_keeps_punctuation_and_words_do_not() {
        let text = "The cache, (v1.2) isn't warm; see config.yaml!";
        assert_eq!(
            words(Tokenization::Whitespace, text),
            ["the", "cache,", "(v1.2)", "isn't", "warm;", "see", "config.yaml"]
        );
        assert_eq!(
            words(Tokenization::Words, text),
            ["the", "cache", "v1.2", "isn't", "warm", "see", "config.yaml"]
        );
    }

    #[test]
    fn similarity_of_hand_counted_sets() {
        let similarity = |a: &str, b: &str| jaccard(&Tokenization::Words.set(a), &Tokenization::Words.set(b));
        assert!((similarity("a b c", "b c d") - 0.5).abs() < 1e-12);
        assert!((similarity("a a b", "b a") - 1.0).abs() < 1e-12);
        assert!(similarity("", "").abs() < 1e-12);
    }
}
