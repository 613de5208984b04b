//! Statements as sets of words, and how much two sets share.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::normalize;
use super::words::WordRule;

/// How a statement is cut into the words that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tokenization {
    /// The normal form split at white space: "cache," and "cache" are different words.
    Whitespace,
    /// Words by the Unicode rules (UAX 29), lowercased and without accents: punctuation never makes a difference, while
    /// "3.5", "config.yaml" and "don't" stay whole.
    #[default]
    Words,
}

impl Tokenization {
    /// Calls `each` for every word of `text`, repeats included.
    pub(super) fn for_each(self, text: &str, each: impl FnMut(&str)) {
        self.for_each_of_normal(&normalize(text), each);
    }

    /// As [`for_each`](Self::for_each), for a text in its normal form.
    pub(super) fn for_each_of_normal(self, normal: &str, each: impl FnMut(&str)) {
        match self {
            Self::Whitespace => normal.split(' ').filter(|word| !word.is_empty()).for_each(each),
            Self::Words if normal.is_ascii() => WordRule::Compare.for_each_folded(normal, each),
            Self::Words => WordRule::Compare.for_each(normal, each),
        }
    }

    /// The set of words of `text`.
    pub fn set(self, text: &str) -> BTreeSet<String> {
        let mut words = BTreeSet::new();
        self.for_each(text, |word| {
            words.insert(word.to_owned());
        });
        words
    }
}

/// The Jaccard similarity |a ∩ b| / |a ∪ b|; two empty sets share nothing.
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
