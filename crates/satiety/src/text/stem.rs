//! Words and the terms that they are forms of: stop words, the stemmer, and numbers for terms that are met often.

use std::borrow::Cow;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::{FxHashMap, FxHashSet};

use super::words::{WordRule, without_accents};

/// What the forms of an English word have in common, by Snowball, without accents.
pub(crate) fn stem(word: &str) -> Cow<'_, str> {
    static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
    match without_accents(word) {
        Cow::Borrowed(word) => STEMMER.stem(word),
        Cow::Owned(word) => STEMMER.stem(&word).into_owned().into(),
    }
}

/// Words that do not say what a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopWords {
    /// A short list: in notes, "never" and "must" say something.
    #[default]
    Notes,
    /// Function words.
    Conversation,
    /// Function words, the words of requests ("find articles about"), and single letters, which are list markers.
    Research,
}

impl StopWords {
    /// How texts are cut into the words that may be on the list.
    pub(crate) fn word_rule(self) -> WordRule {
        match self {
            Self::Notes | Self::Conversation => WordRule::Search,
            Self::Research => WordRule::Query,
        }
    }

    /// Whether a word in lower case is on the list.
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

/// Words to numbered terms: each different word is looked up and stemmed once.
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

    /// The list of words that have no term.
    pub(crate) fn stop_words(&self) -> StopWords {
        self.stop_words
    }

    /// How many terms there are: they are numbered from zero in the order in which they are first met.
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Bytes that it takes, about: a word is a short text with its own allocation, its pointer, its number and its place
    /// in a table.
    pub(crate) fn bytes(&self) -> usize {
        48 * (self.words.len() + self.terms.len())
    }

    /// The number of a term that was met.
    pub(crate) fn find(&self, term: &str) -> Option<u32> {
        self.terms.get(term).copied()
    }

    /// The number of a word's term; none for a stop word.
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

    /// The terms of a text in order, repeats included.
    pub(crate) fn read(&mut self, text: &str) -> Vec<u32> {
        self.read_folded(&self.stop_words.word_rule().fold(text))
    }

    /// As [`read`](Self::read), for a text that was folded.
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
        // Memory ends long before the numbers do.
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
