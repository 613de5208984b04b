//! Stop words, stemming, and a vocabulary that numbers terms.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::{FxHashMap, FxHashSet};

use super::language::Language;
use super::words::{WordRule, without_accents};

/// Stem of an English word by Snowball, without accents.
pub(crate) fn stem(word: &str) -> Cow<'_, str> {
    static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
    match without_accents(word) {
        Cow::Borrowed(word) => STEMMER.stem(word),
        Cow::Owned(word) => STEMMER.stem(&word).into_owned().into(),
    }
}

/// Stop-word lists, for words that do not indicate the topic of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopWords {
    /// A short list: in notes, "never" and "must" are meaningful.
    #[default]
    Notes,
    /// Function words.
    Conversation,
    /// Function words, words of requests ("find articles about"), and single letters, which are list markers.
    Research,
}

impl StopWords {
    /// Tokenization that matches the list.
    pub(crate) fn word_rule(self) -> WordRule {
        match self {
            Self::Notes | Self::Conversation => WordRule::Search,
            Self::Research => WordRule::Query,
        }
    }

    /// Whether a lower-case word is on the list.
    pub(crate) fn contains(self, word: &str) -> bool {
        type Words = LazyLock<FxHashSet<&'static str>>;
        static NOTES: Words = LazyLock::new(|| read(include_str!("data/stopwords_notes.txt")));
        static FUNCTION: Words = LazyLock::new(|| read(include_str!("data/stopwords.txt")));
        static REQUEST: Words = LazyLock::new(|| read(include_str!("data/stopwords_research.txt")));
        match self {
            Self::Notes => NOTES.contains(word),
            Self::Conversation => FUNCTION.contains(word),
            Self::Research => {
                let letter = word.len() == 1 && word.as_bytes()[0].is_ascii_alphabetic();
                letter || FUNCTION.contains(word) || REQUEST.contains(word)
            }
        }
    }
}

fn read(list: &'static str) -> FxHashSet<&'static str> {
    list.split_whitespace().collect()
}

/// Maps words to numbered terms: each distinct word is stemmed once.
///
/// A clone copies only the entries since the last [`consolidate`](Self::consolidate) and shares the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vocabulary {
    stop_words: StopWords,
    shared: Arc<Entries>,
    recent: Entries,
}

#[derive(Debug, Clone, Default)]
struct Entries {
    /// Number of the term of each word; [`STOP`] for stop words.
    words: FxHashMap<Box<str>, u32>,
    terms: FxHashMap<Box<str>, u32>,
}

/// Number of recent words that are always cheap enough to copy.
const RECENT_WORDS: usize = 1024;

const STOP: u32 = u32::MAX;

impl Vocabulary {
    pub(crate) fn new(stop_words: StopWords) -> Self {
        Self {
            stop_words,
            ..Self::default()
        }
    }

    /// Creates a vocabulary with these terms, numbered in order; `None` if a term occurs twice.
    pub(crate) fn with_terms(stop_words: StopWords, terms: Vec<Box<str>>) -> Option<Self> {
        let count = terms.len();
        let terms: FxHashMap<Box<str>, u32> = terms.into_iter().zip(0..STOP).collect();
        (terms.len() == count).then(|| Self {
            stop_words,
            shared: Arc::new(Entries {
                words: FxHashMap::default(),
                terms,
            }),
            recent: Entries::default(),
        })
    }

    /// All terms in the order of their numbers.
    pub(crate) fn terms(&self) -> Vec<Box<str>> {
        let mut terms: Vec<(&Box<str>, &u32)> = self.shared.terms.iter().chain(&self.recent.terms).collect();
        terms.sort_unstable_by_key(|(_, number)| **number);
        terms.into_iter().map(|(term, _)| term.clone()).collect()
    }

    /// Stop words of this vocabulary.
    pub(crate) fn stop_words(&self) -> StopWords {
        self.stop_words
    }

    /// Number of terms, which are numbered from zero in order of first occurrence.
    pub(crate) fn len(&self) -> usize {
        self.shared.terms.len() + self.recent.terms.len()
    }

    /// Moves recent entries to the shared ones when a clone would copy many of them. The cost is linear, so that a
    /// number of words that grows with the square root makes the sum of both smallest.
    pub(crate) fn consolidate(&mut self) {
        if self.recent.words.len() < RECENT_WORDS.max(3 * self.shared.words.len().isqrt()) {
            return;
        }
        let shared = Arc::make_mut(&mut self.shared);
        shared.words.extend(self.recent.words.drain());
        shared.terms.extend(self.recent.terms.drain());
    }

    /// Approximate heap size: a word has its own allocation, a pointer, a number and an entry in a table.
    pub(crate) fn bytes(&self) -> usize {
        48 * (self.len() + self.shared.words.len() + self.recent.words.len())
    }

    /// Number of a known term.
    pub(crate) fn find(&self, term: &str) -> Option<u32> {
        let found = self
            .recent
            .terms
            .get(term)
            .or_else(|| self.shared.terms.get(term));
        found.copied()
    }

    /// Number of a word's term; `None` for a stop word.
    pub(crate) fn number(&mut self, word: &str) -> Option<u32> {
        let known = self
            .shared
            .words
            .get(word)
            .or_else(|| self.recent.words.get(word));
        let number = known.copied().unwrap_or_else(|| {
            let number = if self.stop_words.contains(word) {
                STOP
            } else {
                self.number_term(&stem(word))
            };
            self.recent.words.insert(word.into(), number);
            number
        });
        (number != STOP).then_some(number)
    }

    /// Number of the term of a word in a text of this language; `None` for a stop word of the language. Words of
    /// languages other than English are stemmed each time, because the same letters have another stem in English.
    pub(crate) fn number_in(&mut self, language: Language, word: &str) -> Option<u32> {
        if language == Language::English {
            return self.number(word);
        }
        let plain = without_accents(word);
        (!language.is_function_word(&plain)).then(|| self.number_term(&language.stem(&plain)))
    }

    /// Terms of a text in order, including repeats.
    pub(crate) fn read(&mut self, text: &str) -> Vec<u32> {
        self.read_folded(&self.stop_words.word_rule().fold(text))
    }

    /// Like [`read`](Self::read), for a folded text.
    pub(crate) fn read_folded(&mut self, folded: &str) -> Vec<u32> {
        let mut terms = Vec::new();
        let rule = self.stop_words.word_rule();
        rule.for_each_folded(folded, |word| terms.extend(self.number(word)));
        terms
    }

    fn number_term(&mut self, term: &str) -> u32 {
        if let Some(number) = self.find(term) {
            return number;
        }
        // Memory is exhausted long before the numbers are.
        let number = u32::try_from(self.len()).unwrap_or(STOP);
        self.recent.terms.insert(term.into(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_ignore_form_accents_and_stop_words() {
        let mut vocabulary = Vocabulary::new(StopWords::Conversation);
        let terms = vocabulary.read("The caches are caching");
        assert_eq!(terms, [0, 0]);
        assert_eq!(
            vocabulary.read("cached Café, CAFÉS re-cache don't"),
            [0, 1, 1, 2, 0]
        );
        assert_eq!(
            (vocabulary.len(), vocabulary.find("cach"), vocabulary.find("the")),
            (3, Some(0), None)
        );
    }

    #[test]
    fn consolidating_changes_no_number() {
        let mut plain = Vocabulary::new(StopWords::Conversation);
        let mut consolidated = plain.clone();
        for index in 0..3 * RECENT_WORDS {
            let word = format!("word{index}");
            assert_eq!(plain.number(&word), consolidated.number(&word));
            consolidated.consolidate();
        }
        assert!(consolidated.recent.words.len() < RECENT_WORDS);
        assert_eq!(consolidated.number("word7"), plain.number("word7"));
        assert_eq!(
            (consolidated.len(), consolidated.bytes()),
            (plain.len(), plain.bytes())
        );
    }
}
