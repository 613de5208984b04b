//! Words and phrases: cutting text into words and finding phrases of whole words in it.
//! What the phrases mean is the business of the modules that own the lists.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

/// Words too frequent to say what a text is about; left out of terms.
static FUNCTION_WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    include_str!("words/function_words.txt")
        .split_whitespace()
        .collect()
});

/// The words of a text, lowercased, apostrophes and inner hyphens kept.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for character in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let character = if character == '\u{2019}' { '\'' } else { character };
        if character.is_alphanumeric() || matches!(character, '\'' | '-') {
            word.push(character);
        } else if !word.is_empty() {
            let trimmed = word.trim_matches(|edge| matches!(edge, '\'' | '-'));
            if !trimmed.is_empty() {
                words.push(trimmed.to_owned());
            }
            word.clear();
        }
    }
    words
}

/// Where `phrase` stands in `words` as whole words: the index of its first word, for each place.
pub(super) fn find_phrase(words: &[String], phrase: &[String]) -> Vec<usize> {
    if phrase.is_empty() {
        return Vec::new();
    }
    words
        .windows(phrase.len())
        .enumerate()
        .filter(|(_, window)| *window == phrase)
        .map(|(at, _)| at)
        .collect()
}

/// A list of phrases, cut into words once.
#[derive(Debug, Clone, Default)]
pub(super) struct Phrases(Vec<Vec<String>>);

impl Phrases {
    pub(super) fn new(list: &[String]) -> Self {
        let mut phrases: Vec<_> = list
            .iter()
            .map(|phrase| words(phrase))
            .filter(|phrase| !phrase.is_empty())
            .collect();
        // Longest first, so that what is reported is the most telling phrase.
        phrases.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        phrases.dedup();
        Self(phrases)
    }

    /// Whether the text opens with one of the phrases.
    pub(super) fn open(&self, words: &[String]) -> bool {
        self.0.iter().any(|phrase| words.starts_with(phrase))
    }

    /// The first phrase found anywhere.
    pub(super) fn found_in(&self, words: &[String]) -> Option<String> {
        self.0
            .iter()
            .find(|phrase| !find_phrase(words, phrase).is_empty())
            .map(|phrase| phrase.join(" "))
    }

    /// Whether the phrase is on the list.
    pub(super) fn contains(&self, phrase: &[String]) -> bool {
        self.0.iter().any(|own| own == phrase)
    }

    /// Every phrase with every place where it stands, longest phrases first.
    pub(super) fn places<'a>(&'a self, words: &'a [String]) -> impl Iterator<Item = (&'a [String], usize)> {
        self.0.iter().flat_map(move |phrase| {
            find_phrase(words, phrase)
                .into_iter()
                .map(move |at| (phrase.as_slice(), at))
        })
    }
}

/// What a text is about: its words without function words, stemmed.
pub(super) fn terms(text: &str) -> BTreeSet<String> {
    let stemmer = Stemmer::create(Algorithm::English);
    words(text)
        .iter()
        .flat_map(|word| word.split('-'))
        .filter(|word| !word.is_empty() && !FUNCTION_WORDS.contains(word))
        .map(|word| stemmer.stem(word).into_owned())
        .collect()
}

/// The share of `part` that `whole` takes up; none where there is nothing to take up.
pub(super) fn containment(part: &BTreeSet<String>, whole: &BTreeSet<String>) -> f64 {
    if part.is_empty() {
        0.0
    } else {
        part.intersection(whole).count() as f64 / part.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_apostrophes_and_hyphens_and_drop_the_rest() {
        assert_eq!(
            words("Can\u{2019}t proceed -- re-run `x.py`, 'now'!"),
            ["can't", "proceed", "re-run", "x", "py", "now"]
        );
        assert!(words(" ... ").is_empty());
    }

    #[test]
    fn phrases_are_whole_words() {
        let phrases = Phrases::new(&["blocked".to_owned(), "blocked on".to_owned()]);
        assert_eq!(
            phrases.found_in(&words("We are blocked on legal")).as_deref(),
            Some("blocked on")
        );
        assert_eq!(phrases.found_in(&words("It was unblocked")), None);
        assert!(phrases.open(&words("Blocked: keys")));
    }

    #[test]
    fn terms_ignore_form_and_function_words() {
        assert_eq!(terms("The caches are caching"), terms("cached cache"));
        assert!(terms("of the and to").is_empty());
        assert!(
            (containment(
                &terms("which cache backend"),
                &terms("The cache backend is Redis")
            ) - 1.0)
                .abs()
                < 1e-12
        );
    }
}
