//! Statements as sets of words, and how much two sets share.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

use super::normalize;

/// How a statement is cut into the words that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tokenization {
    /// The normal form split at white space: "cache," and "cache" are different words.
    Whitespace,
    /// Words by the Unicode rules (UAX 29), lowercased: punctuation never makes a difference, while "3.5",
    /// "config.yaml" and "don't" stay whole.
    #[default]
    Words,
}

impl Tokenization {
    /// Calls `each` for every word of `text`, repeats included.
    pub(super) fn for_each(self, text: &str, each: impl FnMut(&str)) {
        self.for_each_of_normal(&normalize(text), each);
    }

    /// As [`for_each`](Self::for_each), for a text in its normal form.
    pub(super) fn for_each_of_normal(self, normal: &str, mut each: impl FnMut(&str)) {
        match self {
            Self::Whitespace => normal.split(' ').filter(|word| !word.is_empty()).for_each(each),
            Self::Words if normal.is_ascii() => for_each_ascii_word(normal, each),
            // A combining mark after a space would make the space part of a word.
            Self::Words => normal
                .split(' ')
                .flat_map(UnicodeSegmentation::unicode_words)
                .for_each(&mut each),
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

/// UAX 29 words of ASCII text (rules `WB5` to `WB13b`) without the table lookups, which cost more than everything else
/// that happens to a statement.
fn for_each_ascii_word(text: &str, mut each: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word_byte(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        let mut has_alphanumeric = false;
        while at < bytes.len() {
            let byte = bytes[at];
            if is_word_byte(byte) {
                has_alphanumeric |= byte.is_ascii_alphanumeric();
                at += 1;
            } else if joins(byte, bytes[at - 1], bytes.get(at + 1).copied()) {
                at += 2;
                has_alphanumeric = true;
            } else {
                break;
            }
        }
        if has_alphanumeric {
            each(&text[start..at]);
        }
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a punctuation mark holds the characters on its two sides together: letters by `.`, `'` and `:`, digits by
/// `.`, `'`, `,` and `;`.
fn joins(mark: u8, before: u8, after: Option<u8>) -> bool {
    let Some(after) = after else { return false };
    match mark {
        b'.' | b'\'' => {
            (before.is_ascii_alphabetic() && after.is_ascii_alphabetic())
                || (before.is_ascii_digit() && after.is_ascii_digit())
        }
        b':' => before.is_ascii_alphabetic() && after.is_ascii_alphabetic(),
        b',' | b';' => before.is_ascii_digit() && after.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn ascii_words_are_the_unicode_words(text in "[a-zA-Z0-9_.,:;'\" !?/()-]{0,40}") {
            let normal = normalize(&text);
            let expected: Vec<&str> = normal.unicode_words().collect();
            prop_assert_eq!(words(Tokenization::Words, &text), expected);
        }

        #[test]
        fn any_text_gives_words_without_white_space(text in "\\PC{0,60}") {
            for word in words(Tokenization::Words, &text) {
                prop_assert!(!word.chars().any(char::is_whitespace));
            }
        }
    }
}
