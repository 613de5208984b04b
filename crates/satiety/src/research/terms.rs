//! What a text is about: its words without function words, stemmed, in order.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::FxHashMap;

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
    for_each_word(&text.to_lowercase(), |word| {
        if says_something(word) {
            found.push((word.to_owned(), stemmer.stem(word).into_owned()));
        }
    });
    found
}

/// The words of a text in lower case, without the possessive.
pub(super) fn for_each_word(lower: &str, mut each: impl FnMut(&str)) {
    for word in lower.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '\u{2019}') {
        let word = word.trim_matches(|c| c == '\'' || c == '\u{2019}');
        let word = word
            .strip_suffix("'s")
            .or_else(|| word.strip_suffix("\u{2019}s"))
            .unwrap_or(word);
        if !word.is_empty() {
            each(word);
        }
    }
}

/// A single letter is a list marker or half an abbreviation; a single digit or ideograph says something.
fn says_something(word: &str) -> bool {
    let letter = word.len() == 1 && word.as_bytes()[0].is_ascii_alphabetic();
    !letter && !FUNCTION_WORDS.contains(word)
}

/// Words to numbered terms, each word stemmed once.
#[derive(Debug, Clone, Default)]
pub(super) struct Stems {
    words: FxHashMap<String, Option<u32>>,
    numbers: FxHashMap<String, u32>,
    /// By term: the word it was first written as.
    first_words: Vec<String>,
}

impl Stems {
    /// The terms of a text in order, repeats included.
    pub(super) fn read(&mut self, text: &str) -> Vec<u32> {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut found = Vec::new();
        for_each_word(&text.to_lowercase(), |word| {
            if let Some(known) = self.words.get(word) {
                found.extend(*known);
                return;
            }
            let number = says_something(word).then(|| self.number(&stemmer.stem(word), word));
            self.words.insert(word.to_owned(), number);
            found.extend(number);
        });
        found
    }

    /// The number of a term, if it was read.
    pub(super) fn find(&self, term: &str) -> Option<u32> {
        self.numbers.get(term).copied()
    }

    /// The word that a term was first written as.
    pub(super) fn word(&self, term: u32) -> &str {
        self.first_words.get(term as usize).map_or("", String::as_str)
    }

    /// How many terms there are.
    pub(super) fn len(&self) -> usize {
        self.first_words.len()
    }

    fn number(&mut self, term: &str, word: &str) -> u32 {
        if let Some(number) = self.numbers.get(term) {
            return *number;
        }
        // As many terms as memory holds words.
        let number = u32::try_from(self.first_words.len()).unwrap_or(u32::MAX);
        self.numbers.insert(term.to_owned(), number);
        self.first_words.push(word.to_owned());
        number
    }
}

/// Stems one word, where only a few are of interest.
pub(super) fn stem(word: &str) -> String {
    Stemmer::create(Algorithm::English).stem(word).into_owned()
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
