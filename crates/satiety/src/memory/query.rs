//! A question as words to look for. Natural questions name few of the words of their answer: terms are alternatives,
//! never all required, and words that say nothing are left out.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::text::words::WordRule;
use crate::text::{StopWords, Term};

/// Most words of a question that are looked for.
const MOST_TERMS: usize = 64;

/// What to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// The question's own words, lowercased, in order, once each.
    pub terms: Vec<String>,
    /// How often the question says each of them.
    pub times: Vec<u32>,
    /// Words that are said for them.
    pub expansions: Vec<String>,
}

impl QueryTerms {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().chain(&self.expansions).map(String::as_str)
    }

    /// All of them with how much each counts: a word of the question as often as it is said, another `expansion`.
    pub fn weighed(&self, expansion: f64) -> Vec<Term> {
        let own = self.terms.iter().zip(&self.times);
        let own = own.map(|(word, times)| (word, f64::from(*times)));
        let others = self.expansions.iter().map(|word| (word, expansion));
        let all = own.chain(others).map(|(word, weight)| Term {
            word: word.clone(),
            weight,
        });
        all.collect()
    }
}

/// The words of a question; with `expand`, also those that are said for them.
///
/// ```
/// use satiety::memory::query_terms;
/// assert_eq!(query_terms("Why is the DB locked?", false).terms, ["db", "locked"]);
/// assert_eq!(query_terms("Why is the DB locked?", true).expansions, ["database"]);
/// ```
pub fn query_terms(query: &str, expand: bool) -> QueryTerms {
    let mut words: Vec<(String, u32)> = Vec::new();
    let mut places: FxHashMap<String, usize> = FxHashMap::default();
    WordRule::Search.for_each(query, |word| {
        if let Some((_, times)) = places.get(word).and_then(|at| words.get_mut(*at)) {
            *times += 1;
        } else {
            places.insert(word.to_owned(), words.len());
            words.push((word.to_owned(), 1));
        }
    });
    // "What is it?" has no telling word; then its own words are better than nothing.
    if words.iter().any(|(word, _)| !StopWords::Notes.contains(word)) {
        words.retain(|(word, _)| !StopWords::Notes.contains(word));
    }
    words.truncate(MOST_TERMS);
    let (terms, times): (Vec<String>, Vec<u32>) = words.into_iter().unzip();
    let mut expansions = Vec::new();
    if expand {
        for line in SYNONYMS.iter() {
            if line.iter().any(|word| terms.iter().any(|term| term == word)) {
                let others = line.iter().filter(|word| !terms.iter().any(|term| term == *word));
                expansions.extend(others.map(|word| (*word).to_owned()));
            }
        }
    }
    QueryTerms {
        terms,
        times,
        expansions,
    }
}

static SYNONYMS: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| {
    include_str!("data/synonyms.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect())
        .collect()
});

/// Characters of a question that are logged.
const LOGGED_CHARACTERS: usize = 512;

/// A question as it is logged: its first 512 characters, with `…` where there is more.
///
/// ```
/// use satiety::memory::excerpt_of_query;
/// assert_eq!(excerpt_of_query("why sqlite"), "why sqlite");
/// assert_eq!(excerpt_of_query(&"ü".repeat(600)).chars().count(), 513);
/// ```
pub fn excerpt_of_query(query: &str) -> std::borrow::Cow<'_, str> {
    match query.char_indices().nth(LOGGED_CHARACTERS) {
        None => query.into(),
        Some((end, _)) => format!("{}…", &query[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn questions_become_telling_words() {
        for (query, expected) in [
            ("How do I speed up the database?", vec!["speed", "database"]),
            ("what is it", vec!["what", "is", "it"]),
            (
                "edit config.yaml, don't guess",
                vec!["edit", "config", "yaml", "guess"],
            ),
            ("Straße Straße", vec!["straße"]),
            ("\" OR title:x* NEAR(", vec!["title", "x", "near"]),
            ("", vec![]),
        ] {
            assert_eq!(query_terms(query, false).terms, expected, "{query}");
        }
    }

    #[test]
    fn synonyms_are_lines_of_at_least_two_words_in_one_line_each() {
        let mut seen = BTreeSet::new();
        for line in SYNONYMS.iter() {
            assert!(line.len() > 1, "{line:?}");
            for word in line {
                assert!(seen.insert(*word), "{word} stands twice");
            }
        }
    }

    #[test]
    fn a_word_counts_as_often_as_it_is_said() {
        let terms = query_terms("cache or cache, the login", true);
        let weighed: Vec<(String, f64)> = terms
            .weighed(0.5)
            .into_iter()
            .map(|term| (term.word, term.weight))
            .collect();
        let expected = [
            ("cache", 2.0),
            ("login", 1.0),
            ("auth", 0.5),
            ("authentication", 0.5),
            ("signin", 0.5),
        ];
        let expected = expected.map(|(word, weight)| (word.to_owned(), weight));
        assert_eq!(weighed.len(), 7, "caching and memoize, too: {weighed:?}");
        assert!(expected.iter().all(|one| weighed.contains(one)), "{weighed:?}");
    }

    #[test]
    fn a_long_question_is_cut() {
        let long: Vec<String> = (0..500).map(|number| format!("word{number}")).collect();
        assert_eq!(query_terms(&long.join(" "), false).terms.len(), MOST_TERMS);
    }
}
