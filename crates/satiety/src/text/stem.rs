//! Stop words, stemming, and a vocabulary that numbers terms.

use std::borrow::Cow;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::{FxHashMap, FxHashSet};

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
#[derive(Debug, Clone, Default)]
pub(crate) struct Vocabulary {
    stop_words: StopWords,
    /// [`STOP`] for stop words.
    words: FxHashMap<Box<str>, u32>,
    terms: FxHashMap<Box<str>, u32>,
}

const STOP: u32 = u32::MAX;

impl Vocabulary {
    pub(crate) fn new(stop_words: StopWords) -> Self {
        Self {
            stop_words,
            ..Self::default()
        }
    }

    /// Stop words of this vocabulary.
    pub(crate) fn stop_words(&self) -> StopWords {
        self.stop_words
    }

    /// Number of terms, which are numbered from zero in order of first occurrence.
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Approximate heap size: a word has its own allocation, a pointer, a number and an entry in a table.
    pub(crate) fn bytes(&self) -> usize {
        48 * (self.words.len() + self.terms.len())
    }

    /// Number of a known term.
    pub(crate) fn find(&self, term: &str) -> Option<u32> {
        self.terms.get(term).copied()
    }

    /// Number of a word's term; `None` for a stop word.
    pub(crate) fn number(&mut self, word: &str) -> Option<u32> {
        let known = self.words.get(word).copied();
        let number = known.unwrap_or_else(|| {
            let number = if self.stop_words.contains(word) {
                STOP
            } else {
                self.number_term(&stem(word))
            };
            self.words.insert(word.into(), number);
            number
        });
        (number != STOP).then_some(number)
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
        if let Some(number) = self.terms.get(term) {
            return *number;
        }
        // Memory is exhausted long before the numbers are.
        let number = u32::try_from(self.terms.len()).unwrap_or(STOP);
        self.terms.insert(term.into(), number);
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
}
