//! Words and phrases: cutting text into words and finding phrases of whole words in it.
//! What the phrases mean is the business of the modules that own the lists.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::{FxHashMap, FxHashSet};

use super::wire::Round;

/// Words too frequent to say what a text is about; left out of terms.
static FUNCTION_WORDS: LazyLock<FxHashSet<&str>> = LazyLock::new(|| {
    include_str!("words/function_words.txt")
        .split_whitespace()
        .collect()
});

/// A text as its words are compared: lowercase, with plain apostrophes.
pub(super) fn lowered(text: &str) -> Cow<'_, str> {
    if !text.is_ascii() {
        let plain = |character| if character == '\u{2019}' { '\'' } else { character };
        return text.chars().flat_map(char::to_lowercase).map(plain).collect();
    }
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text.into()
    }
}

/// The words of a text in lower case, apostrophes and inner hyphens kept.
pub(super) fn words(lowered: &str) -> Vec<&str> {
    lowered
        .split(|character: char| !character.is_alphanumeric() && !is_joint(character))
        .map(|word| word.trim_matches(is_joint))
        .filter(|word| !word.is_empty())
        .collect()
}

/// The texts of a round that several parts read, as their words are compared.
pub(super) struct RoundTexts<'a> {
    claims: Vec<Cow<'a, str>>,
    actions: Vec<Cow<'a, str>>,
    questions: Vec<Cow<'a, str>>,
}

/// The words of these texts, cut once for all who read them; each list in the order of the round's.
pub(super) struct RoundWords<'a> {
    pub(super) claims: Vec<Vec<&'a str>>,
    pub(super) actions: Vec<Vec<&'a str>>,
    pub(super) questions: Vec<Vec<&'a str>>,
    /// What each claim is about: see [`terms`].
    pub(super) claim_terms: Vec<Vec<Arc<str>>>,
}

impl<'a> RoundTexts<'a> {
    pub(super) fn of(round: &'a Round) -> Self {
        let outputs = &round.outputs;
        let list = |texts: &'a [String]| texts.iter().map(|text| lowered(text)).collect();
        Self {
            claims: outputs.claims.iter().map(|claim| lowered(&claim.text)).collect(),
            actions: list(&outputs.next_actions),
            questions: list(&outputs.open_questions),
        }
    }

    pub(super) fn words(&self, stems: &mut Stems) -> RoundWords<'_> {
        fn list<'t>(texts: &'t [Cow<'_, str>]) -> Vec<Vec<&'t str>> {
            texts.iter().map(|text| words(text)).collect()
        }
        let claims = list(&self.claims);
        RoundWords {
            claim_terms: claims.iter().map(|words| stems.terms(words)).collect(),
            claims,
            actions: list(&self.actions),
            questions: list(&self.questions),
        }
    }
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
            .map(|phrase| words(&lowered(phrase)).into_iter().map(str::to_owned).collect())
            .filter(|phrase: &Vec<String>| !phrase.is_empty())
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
    fn opening<'a, W: AsRef<str>>(&'a self, words: &'a [W]) -> impl Iterator<Item = (usize, &'a [String])> {
        let numbers = words
            .first()
            .and_then(|first| self.0.by_first.get(first.as_ref()));
        numbers
            .into_iter()
            .flatten()
            .map(|number| (*number, self.0.phrases[*number].as_slice()))
            .filter(move |(_, phrase)| {
                let same = phrase
                    .iter()
                    .zip(words)
                    .take_while(|(own, word)| *own == word.as_ref());
                same.count() == phrase.len()
            })
    }

    /// Whether the text opens with one of the phrases.
    pub(super) fn open(&self, words: &[&str]) -> bool {
        self.opening(words).next().is_some()
    }

    /// The first phrase found anywhere.
    pub(super) fn found_in(&self, words: &[&str]) -> Option<String> {
        let found = (0..words.len()).filter_map(|at| self.opening(&words[at..]).next());
        found
            .min_by_key(|(number, _)| *number)
            .map(|(_, phrase)| phrase.join(" "))
    }

    /// Whether the phrase is on the list.
    pub(super) fn contains<W: AsRef<str>>(&self, phrase: &[W]) -> bool {
        self.opening(phrase).any(|(_, own)| own.len() == phrase.len())
    }

    /// Every phrase with every place where it stands, longest phrases first.
    pub(super) fn places<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = (&'a [String], usize)> {
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
pub(super) fn terms(text: &str) -> BTreeSet<Arc<str>> {
    Stems::default()
        .terms(&words(&lowered(text)))
        .into_iter()
        .collect()
}

/// The stems of words met before: a conversation has few words and says them often. A word that is left out has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Stems(FxHashMap<Box<str>, Option<Arc<str>>>);

impl Stems {
    /// As [`terms`], each as often as it stands there.
    fn terms(&mut self, words: &[&str]) -> Vec<Arc<str>> {
        let parts = words.iter().flat_map(|word| word.split('-'));
        parts.filter_map(|word| self.stem(word)).collect()
    }

    fn stem(&mut self, word: &str) -> Option<Arc<str>> {
        if let Some(known) = self.0.get(word) {
            return known.clone();
        }
        let says_something = !word.is_empty() && !FUNCTION_WORDS.contains(word);
        let stem = says_something.then(|| Stemmer::create(Algorithm::English).stem(word).into());
        self.0.insert(word.into(), stem.clone());
        stem
    }
}

/// The share of `part` that `whole` takes up; none where there is nothing to take up.
pub(super) fn containment(part: &BTreeSet<Arc<str>>, whole: &BTreeSet<Arc<str>>) -> f64 {
    if part.is_empty() {
        0.0
    } else {
        part.intersection(whole).count() as f64 / part.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        words(&lowered(text)).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn words_keep_apostrophes_and_hyphens_and_drop_the_rest() {
        assert_eq!(
            cut("Can\u{2019}t proceed -- re-run `x.py`, 'now'!"),
            ["can't", "proceed", "re-run", "x", "py", "now"]
        );
        assert!(cut(" ... ").is_empty());
    }

    proptest::proptest! {
        /// The short way for ASCII finds what the long way finds: a letter of another script, as a word of its own, takes it.
        #[test]
        fn ascii_is_cut_as_everything_is(text in "[ -~]{0,40}") {
            let mut long = cut(&format!("{text} \u{e9}"));
            let last = long.pop();
            proptest::prop_assert_eq!(last.as_deref(), Some("\u{e9}"));
            proptest::prop_assert_eq!(cut(&text), long);
        }
    }

    #[test]
    fn phrases_are_whole_words() {
        let phrases = Phrases::new(&["blocked".to_owned(), "blocked on".to_owned()]);
        assert_eq!(
            phrases
                .found_in(&words(&lowered("We are blocked on legal")))
                .as_deref(),
            Some("blocked on")
        );
        assert_eq!(phrases.found_in(&words(&lowered("It was unblocked"))), None);
        assert!(phrases.open(&words(&lowered("Blocked: keys"))));
        assert!(
            phrases.contains(&words(&lowered("blocked on")))
                && !phrases.contains(&words(&lowered("blocked on legal")))
        );
        assert!(!phrases.contains::<&str>(&[]) && !phrases.open(&[]));
    }

    #[test]
    fn places_are_told_longest_phrase_first_then_in_order() {
        let phrases = Phrases::new(&["on".to_owned(), "blocked on".to_owned(), "blocked".to_owned()]);
        let lower = lowered("Blocked on keys, blocked on legal");
        let text = words(&lower);
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
            let found: BTreeSet<_> = stems.terms(&words(&lowered(text))).into_iter().collect();
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
