//! The words of a text, as they are indexed and asked for: the same function for both, or nothing would be found.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// What is left of "it's", "don't", "I'm", "they'd", "we'll", "you're" and "I've" behind the apostrophe.
const CONTRACTED: [&str; 7] = ["s", "t", "m", "d", "ll", "re", "ve"];

/// Calls `each` for every word, lowercased and without accents, in order. Whatever is neither letter nor digit parts
/// words, so `config.yaml` and `get_user` are two words each.
pub(super) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut contracted = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let bytes = rest.as_bytes();
        let plain = bytes
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        let length = match bytes.get(plain) {
            // Beyond ASCII letters may be written in more than one way.
            Some(byte) if !byte.is_ascii() => strange_word(rest, &mut word),
            _ if bytes.iter().take(plain).any(u8::is_ascii_uppercase) => {
                word.push_str(&rest[..plain]);
                word.make_ascii_lowercase();
                plain
            }
            _ => plain,
        };
        if length == 0 {
            let apostrophe = matches!(first, '\'' | '\u{2019}');
            contracted = apostrophe && text[..text.len() - rest.len()].ends_with(char::is_alphanumeric);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let found = if word.is_empty() { &rest[..length] } else { &word };
        if !(contracted && CONTRACTED.contains(&found)) {
            each(found);
        }
        word.clear();
        contracted = false;
        rest = &rest[length..];
    }
}

/// Puts the word that a text begins with into `word`; gives its length in the text.
fn strange_word(text: &str, word: &mut String) -> usize {
    // A mark belongs to the letter before it, and a word does not begin with one.
    let inside = |(at, character): &(usize, char)| {
        let mark = is_combining_mark(*character);
        (character.is_alphanumeric() && !mark) || (mark && *at > 0)
    };
    let last = text.char_indices().take_while(inside).last();
    let length = last.map_or(0, |(at, character)| at + character.len_utf8());
    // Accents of Latin, Greek and Cyrillic letters only: elsewhere marks make other letters.
    let accent = |character: &char| ('\u{300}'..='\u{36f}').contains(character);
    let lower = text[..length].to_lowercase();
    word.extend(lower.nfd().filter(|character| !accent(character)).nfc());
    length
}

/// Whether a word says nothing about what a text is about.
pub(super) fn is_stopword(word: &str) -> bool {
    STOPWORDS.contains(word)
}

/// What words of one kind have in common.
pub(super) fn stem(word: &str) -> std::borrow::Cow<'_, str> {
    STEMMER.stem(word)
}

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

static STOPWORDS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| include_str!("data/stopwords.txt").split_whitespace().collect());

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        each_word(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_are_letters_and_digits_without_case_accents_and_endings_of_contractions() {
        for (text, expected) in [
            (
                "edit config.yaml, don't guess",
                vec!["edit", "config", "yaml", "don", "guess"],
            ),
            (
                "the user's get_user(ID)",
                vec!["the", "user", "get", "user", "id"],
            ),
            ("I\u{2019}m we'll 's t", vec!["i", "we", "s", "t"]),
            ("Café NAÏVE Straße", vec!["cafe", "naive", "straße"]),
            ("cafe\u{301}", vec!["cafe"]),
            ("日本語 ドア", vec!["日本語", "ドア"]),
            ("rock 'n' roll it's", vec!["rock", "n", "roll", "it"]),
            ("?!", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn words_of_words_are_those_words(text in "\\PC{0,60}") {
            let once = words(&text);
            prop_assert!(once.iter().all(|word| !word.is_empty()));
            prop_assert_eq!(words(&once.join(" ")), once);
        }
    }
}
