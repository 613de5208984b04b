//! What a text is about: its words without function words, stemmed, in order.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

/// Words too frequent to say what a text is about.
static FUNCTION_WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    include_str!("../dialogue/words/function_words.txt")
        .split_whitespace()
        .chain(include_str!("words/request_words.txt").split_whitespace())
        .collect()
});

/// The stemmed content words of a text, repeats included.
///
/// ```
/// assert_eq!(satiety::research::terms("What are the wings of heated aircraft?"), ["wing", "heat", "aircraft"]);
/// ```
pub fn terms(text: &str) -> Vec<String> {
    words_and_terms(text).into_iter().map(|(_, term)| term).collect()
}

/// The same beside the words they come from, lowercased.
pub(super) fn words_and_terms(text: &str) -> Vec<(String, String)> {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut found = Vec::new();
    let lower = text.to_lowercase();
    for word in lower.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '\u{2019}') {
        let word = word.trim_matches(|c| c == '\'' || c == '\u{2019}');
        let word = word
            .strip_suffix("'s")
            .or_else(|| word.strip_suffix("\u{2019}s"))
            .unwrap_or(word);
        if word.is_empty() || FUNCTION_WORDS.contains(word) {
            continue;
        }
        // A single letter is a list marker or half an abbreviation; a single digit or ideograph says something.
        if word.len() == 1 && word.as_bytes()[0].is_ascii_alphabetic() {
            continue;
        }
        found.push((word.to_owned(), stemmer.stem(word).into_owned()));
    }
    found
}

/// The different terms of a text, in order of first appearance, with the word each was first written as.
pub(super) fn distinct(text: &str) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    words_and_terms(text)
        .into_iter()
        .filter(|(_, term)| seen.insert(term.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_lose_what_every_question_has() {
        assert_eq!(
            terms("Please find articles about the compiler's code-generation (2024)"),
            ["compil", "code", "generat", "2024"]
        );
        assert!(terms("What is it?").is_empty());
        assert_eq!(terms("naïve Übung 東京"), ["naïv", "übung", "東京"]);
    }

    #[test]
    fn a_term_comes_once() {
        let distinct: Vec<String> = distinct("test tests Testing")
            .into_iter()
            .map(|pair| pair.0)
            .collect();
        assert_eq!(distinct, ["test"]);
    }
}
