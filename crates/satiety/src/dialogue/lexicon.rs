//! Tokenized texts of a round, and search for phrases of whole words.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::wire::Round;
use crate::text::stem::Vocabulary;
use crate::text::words::WordRule;

/// Case-folds a text for comparison by words.
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    WordRule::Phrase.fold(text)
}

/// Words of a folded text, including apostrophes and inner hyphens.
pub(super) fn words(folded: &str) -> Vec<&str> {
    WordRule::Phrase.words(folded)
}

/// Folded texts of a round.
pub(super) struct RoundTexts<'a> {
    claims: Vec<Cow<'a, str>>,
    decisions: Vec<Cow<'a, str>>,
    actions: Vec<Cow<'a, str>>,
    questions: Vec<Cow<'a, str>>,
}

/// Words of [`RoundTexts`], computed once and shared; each list keeps the order of the round.
pub(super) struct RoundWords<'a> {
    pub(super) claims: Vec<Vec<&'a str>>,
    pub(super) actions: Vec<Vec<&'a str>>,
    pub(super) questions: Vec<Vec<&'a str>>,
    /// Terms of each text, with repetitions.
    pub(super) claim_terms: Vec<Vec<u32>>,
    pub(super) decision_terms: Vec<Vec<u32>>,
    pub(super) question_terms: Vec<Vec<u32>>,
}

impl<'a> RoundTexts<'a> {
    pub(super) fn of(round: &'a Round) -> Self {
        let outputs = &round.outputs;
        let list = |texts: &'a [String]| texts.iter().map(|text| folded(text)).collect();
        Self {
            claims: outputs.claims.iter().map(|claim| folded(&claim.text)).collect(),
            decisions: list(&outputs.decisions),
            actions: list(&outputs.next_actions),
            questions: list(&outputs.open_questions),
        }
    }

    pub(super) fn words(&self, vocabulary: &mut Vocabulary) -> RoundWords<'_> {
        fn list<'t>(texts: &'t [Cow<'_, str>]) -> Vec<Vec<&'t str>> {
            texts.iter().map(|text| words(text)).collect()
        }
        let mut terms =
            |texts: &[Cow<'_, str>]| texts.iter().map(|text| vocabulary.read_folded(text)).collect();
        RoundWords {
            claim_terms: terms(&self.claims),
            decision_terms: terms(&self.decisions),
            question_terms: terms(&self.questions),
            claims: list(&self.claims),
            actions: list(&self.actions),
            questions: list(&self.questions),
        }
    }
}

/// A list of phrases, split into words once. Clones share the list.
#[derive(Debug, Clone, Default)]
pub(super) struct Phrases(Arc<PhraseIndex>);

#[derive(Debug, Default)]
struct PhraseIndex {
    /// Longest first, so that the most specific phrase is reported.
    phrases: Vec<Vec<String>>,
    /// Indexes of the phrases that begin with a word, ascending.
    by_first: FxHashMap<String, Vec<usize>>,
}

impl Phrases {
    pub(super) fn new(list: &[String]) -> Self {
        let mut phrases: Vec<_> = list
            .iter()
            .map(|phrase| words(&folded(phrase)).into_iter().map(str::to_owned).collect())
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
        Self(Arc::new(PhraseIndex { phrases, by_first }))
    }

    /// Indexes and words of the phrases that `words` starts with, longest first.
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

    /// Whether `words` starts with one of the phrases.
    pub(super) fn match_start(&self, words: &[&str]) -> bool {
        self.opening(words).next().is_some()
    }

    /// The longest phrase found anywhere in `words`.
    pub(super) fn found_in(&self, words: &[&str]) -> Option<String> {
        let found = (0..words.len()).filter_map(|at| self.opening(&words[at..]).next());
        found
            .min_by_key(|(number, _)| *number)
            .map(|(_, phrase)| phrase.join(" "))
    }

    /// Whether the list contains the phrase.
    pub(super) fn contains<W: AsRef<str>>(&self, phrase: &[W]) -> bool {
        self.opening(phrase).any(|(_, own)| own.len() == phrase.len())
    }

    /// All occurrences of all phrases with their positions, longest phrases first.
    pub(super) fn occurrences<'a>(
        &'a self,
        words: &'a [&str],
    ) -> impl Iterator<Item = (&'a [String], usize)> {
        let mut found: Vec<(usize, usize)> = (0..words.len())
            .flat_map(|at| self.opening(&words[at..]).map(move |(number, _)| (number, at)))
            .collect();
        found.sort_unstable();
        found
            .into_iter()
            .map(|(number, at)| (self.0.phrases[number].as_slice(), at))
    }
}

/// Share of the terms of `part` that `whole` contains; both must be sorted and distinct.
pub(super) fn containment(part: &[u32], whole: &[u32]) -> f64 {
    let common = part
        .iter()
        .filter(|term| whole.binary_search(term).is_ok())
        .count();
    common as f64 / part.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_whole_words() {
        let phrases = Phrases::new(&["blocked".to_owned(), "blocked on".to_owned()]);
        assert_eq!(
            phrases
                .found_in(&words(&folded("We are blocked on legal")))
                .as_deref(),
            Some("blocked on")
        );
        assert_eq!(phrases.found_in(&words(&folded("It was unblocked"))), None);
        assert!(phrases.match_start(&words(&folded("Blocked: keys"))));
        assert!(
            phrases.contains(&words(&folded("blocked on")))
                && !phrases.contains(&words(&folded("blocked on legal")))
        );
        assert!(!phrases.contains::<&str>(&[]) && !phrases.match_start(&[]));
    }

    #[test]
    fn occurrences_are_sorted_by_phrase_length_then_position() {
        let phrases = Phrases::new(&["on".to_owned(), "blocked on".to_owned(), "blocked".to_owned()]);
        let lower = folded("Blocked on keys, blocked on legal");
        let text = words(&lower);
        let found: Vec<(String, usize)> = phrases
            .occurrences(&text)
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
    fn containment_is_a_share_of_the_first() {
        assert!((containment(&[1, 3, 5], &[2, 3, 4, 5]) - 2.0 / 3.0).abs() < 1e-12);
        assert!(containment(&[], &[1]).abs() < 1e-12);
    }
}
