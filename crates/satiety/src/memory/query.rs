//! Extracts search terms from a query. Natural questions share few words with their answers, so terms are
//! alternatives, never all required, and stop words are dropped.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::text::language::Language;
use crate::text::words::WordRule;
use crate::text::{StopWords, Term};

/// Maximum number of terms of a query.
const MAX_TERMS: usize = 64;

/// Search terms of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// Distinct words of the query in lower case, in order.
    pub terms: Vec<String>,
    /// Number of occurrences of each term in the query.
    pub times: Vec<u32>,
    /// Synonyms of the terms.
    pub expansions: Vec<String>,
}

impl QueryTerms {
    /// Iterates over terms and expansions.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().chain(&self.expansions).map(String::as_str)
    }

    /// Terms and expansions with weights: a term by its number of occurrences, a synonym by `expansion`.
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

/// Extracts the terms of a query; with `expand`, also their synonyms.
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
    let language = Language::detect(query);
    let is_stop_word = |word: &str| match language {
        Language::English => StopWords::Notes.contains(word),
        other => other.is_function_word(word),
    };
    // "What is it?" consists of stop words only; then they are better than no terms.
    if words.iter().any(|(word, _)| !is_stop_word(word)) {
        words.retain(|(word, _)| !is_stop_word(word));
    }
    words.truncate(MAX_TERMS);
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

/// Maximum number of characters of a query in the log.
const MAX_LOGGED_CHARS: usize = 512;

/// Query text as logged: its first 512 characters, followed by `…` if truncated.
///
/// ```
/// use satiety::memory::truncate_query;
/// assert_eq!(truncate_query("why sqlite"), "why sqlite");
/// assert_eq!(truncate_query(&"ü".repeat(600)).chars().count(), 513);
/// ```
pub fn truncate_query(query: &str) -> std::borrow::Cow<'_, str> {
    match query.char_indices().nth(MAX_LOGGED_CHARS) {
        None => query.into(),
        Some((end, _)) => format!("{}…", &query[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn queries_become_significant_words() {
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
    fn synonym_lines_have_two_or_more_distinct_words() {
        let mut seen = BTreeSet::new();
        for line in SYNONYMS.iter() {
            assert!(line.len() > 1, "{line:?}");
            for word in line {
                assert!(seen.insert(*word), "{word} stands twice");
            }
        }
    }

    #[test]
    fn a_word_counts_by_its_occurrences() {
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
    fn a_long_query_is_truncated() {
        let long: Vec<String> = (0..500).map(|number| format!("word{number}")).collect();
        assert_eq!(query_terms(&long.join(" "), false).terms.len(), MAX_TERMS);
    }
}
