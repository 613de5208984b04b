//! Words and phrases: cutting text into words and finding phrases of whole words in it.
//! What the phrases mean is the business of the modules that own the lists.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::{FxHashMap, FxHashSet};

/// Words too frequent to say what a text is about; left out of terms.
static FUNCTION_WORDS: LazyLock<FxHashSet<&str>> = LazyLock::new(|| {
    include_str!("words/function_words.txt")
        .split_whitespace()
        .collect()
});

/// The words of a text, lowercased, apostrophes and inner hyphens kept.
pub(super) fn words(text: &str) -> Vec<String> {
    if text.is_ascii() {
        return text
            .split(|character: char| !character.is_ascii_alphanumeric() && !is_joint(character))
            .map(|word| word.trim_matches(is_joint))
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
    }
    let mut words = Vec::new();
    let mut word = String::new();
    for character in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let character = if character == '\u{2019}' { '\'' } else { character };
        if character.is_alphanumeric() || is_joint(character) {
            word.push(character);
        } else if !word.is_empty() {
            let trimmed = word.trim_matches(is_joint);
            if !trimmed.is_empty() {
                words.push(trimmed.to_owned());
            }
            word.clear();
        }
    }
    words
}

/// What may stand inside a word and not at its ends.
fn is_joint(character: char) -> bool {
    matches!(character, '\'' | '-')
}

/// A list of phrases, cut into words once. Copies share it: every conversation has the same few hundred phrases.
#[derive(Debug, Clone, Default)]
pub(super) struct Phrases(Arc<Listed>);

#[derive(Debug, Default)]
struct Listed {
    /// Longest first, so that what is reported is the most telling phrase.
    phrases: Vec<Vec<String>>,
    /// Numbers of the phrases that begin with a word, ascending.
    by_first: FxHashMap<String, Vec<usize>>,
}

impl Phrases {
    pub(super) fn new(list: &[String]) -> Self {
        let mut phrases: Vec<_> = list
            .iter()
            .map(|phrase| words(phrase))
            .filter(|phrase| !phrase.is_empty())
            .collect();
        phrases.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        phrases.dedup();
        let mut by_first: FxHashMap<String, Vec<usize>> = FxHashMap::default();
        for (number, phrase) in phrases.iter().enumerate() {
            if let Some(first) = phrase.first() {
                by_first.entry(first.clone()).or_default().push(number);
            }
        }
        Self(Arc::new(Listed { phrases, by_first }))
    }

    /// Numbers and words of the phrases that these words open with, longest phrases first.
    fn opening<'a>(&'a self, words: &'a [String]) -> impl Iterator<Item = (usize, &'a [String])> {
        let numbers = words.first().and_then(|first| self.0.by_first.get(first));
        numbers
            .into_iter()
            .flatten()
            .map(|number| (*number, self.0.phrases[*number].as_slice()))
            .filter(|(_, phrase)| words.starts_with(phrase))
    }

    /// Whether the text opens with one of the phrases.
    pub(super) fn open(&self, words: &[String]) -> bool {
        self.opening(words).next().is_some()
    }

    /// The first phrase found anywhere.
    pub(super) fn found_in(&self, words: &[String]) -> Option<String> {
        let found = (0..words.len()).filter_map(|at| self.opening(&words[at..]).next());
        found
            .min_by_key(|(number, _)| *number)
            .map(|(_, phrase)| phrase.join(" "))
    }

    /// Whether the phrase is on the list.
    pub(super) fn contains(&self, phrase: &[String]) -> bool {
        self.opening(phrase).any(|(_, own)| own.len() == phrase.len())
    }

    /// Every phrase with every place where it stands, longest phrases first.
    pub(super) fn places<'a>(&'a self, words: &'a [String]) -> impl Iterator<Item = (&'a [String], usize)> {
        let mut found: Vec<(usize, usize)> = (0..words.len())
            .flat_map(|at| self.opening(&words[at..]).map(move |(number, _)| (number, at)))
            .collect();
        found.sort_unstable();
        found
            .into_iter()
            .map(|(number, at)| (self.0.phrases[number].as_slice(), at))
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

/// The stems of words met before: a conversation has few words and says them often.
#[derive(Debug, Clone, Default)]
pub(super) struct Stems(FxHashMap<String, String>);

impl Stems {
    /// As [`terms`], each as often as it stands there.
    pub(super) fn terms(&mut self, text: &str) -> Vec<String> {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut terms = Vec::new();
        for word in words(text) {
            for word in word.split('-') {
                if word.is_empty() || FUNCTION_WORDS.contains(word) {
                    continue;
                }
                if let Some(stem) = self.0.get(word) {
                    terms.push(stem.clone());
                } else {
                    let stem = stemmer.stem(word).into_owned();
                    self.0.insert(word.to_owned(), stem.clone());
                    terms.push(stem);
                }
            }
        }
        terms
    }
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

    proptest::proptest! {
        /// The short way for ASCII finds what the long way finds: a letter of another script, as a word of its own, takes it.
        #[test]
        fn ascii_is_cut_as_everything_is(text in "[ -~]{0,40}") {
            let mut long = words(&format!("{text} \u{e9}"));
            let last = long.pop();
            proptest::prop_assert_eq!(last.as_deref(), Some("\u{e9}"));
            proptest::prop_assert_eq!(words(&text), long);
        }
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
        assert!(phrases.contains(&words("blocked on")) && !phrases.contains(&words("blocked on legal")));
        assert!(!phrases.contains(&[]) && !phrases.open(&[]));
    }

    #[test]
    fn places_are_told_longest_phrase_first_then_in_order() {
        let phrases = Phrases::new(&["on".to_owned(), "blocked on".to_owned(), "blocked".to_owned()]);
        let text = words("Blocked on keys, blocked on legal");
        let found: Vec<(String, usize)> = phrases
            .places(&text)
            .map(|(phrase, at)| (phrase.join(" "), at))
            .collect();
        let expected = [
            ("blocked on", 0),
            ("blocked on", 3),
            ("blocked", 0),
            ("blocked", 3),
            ("on", 1),
            ("on", 4),
        ];
        assert_eq!(found, expected.map(|(phrase, at)| (phrase.to_owned(), at)));
    }

    #[test]
    fn terms_ignore_form_and_function_words() {
        assert_eq!(terms("The caches are caching"), terms("cached cache"));
        assert!(terms("of the and to").is_empty());
        let mut stems = Stems::default();
        for text in [
            "The caches are caching",
            "re-run the cached cache",
            "of the and to",
        ] {
            let found: BTreeSet<String> = stems.terms(text).into_iter().collect();
            assert_eq!(found, terms(text), "{text}");
        }
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
