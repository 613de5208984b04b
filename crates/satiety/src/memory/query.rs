//! A question as words to look for. Natural questions name few of the words of their answer: terms are alternatives,
//! never all required, and words that say nothing are left out.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::text::Tokenization;

/// Most words of a question that are looked for.
const MOST_TERMS: usize = 64;

/// What to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// The question's own words, lowercased, in order, once each.
    pub terms: Vec<String>,
    /// Words that are said for them.
    pub expansions: Vec<String>,
}

impl QueryTerms {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().chain(&self.expansions).map(String::as_str)
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
    let mut seen = BTreeSet::new();
    let words: Vec<String> = query
        .split_whitespace()
        .flat_map(|part| Tokenization::Words.set(part))
        .flat_map(|word| pieces(&word))
        .filter(|word| seen.insert(word.clone()))
        .collect();
    let telling: Vec<String> = words
        .iter()
        .filter(|word| !STOPWORDS.contains(word.as_str()))
        .take(MOST_TERMS)
        .cloned()
        .collect();
    // "What is it?" has no telling word; then its own words are better than nothing.
    let terms = if telling.is_empty() {
        words.into_iter().take(MOST_TERMS).collect()
    } else {
        telling
    };
    let mut expansions = Vec::new();
    if expand {
        for line in SYNONYMS.iter() {
            if line.iter().any(|word| terms.iter().any(|term| term == word)) {
                let others = line.iter().filter(|word| !terms.iter().any(|term| term == *word));
                expansions.extend(others.map(|word| (*word).to_owned()));
            }
        }
    }
    QueryTerms { terms, expansions }
}

/// Both engines index `config.yaml` and `don't` in pieces, so that is how they are asked for.
fn pieces(word: &str) -> Vec<String> {
    word.split(|character: char| !character.is_alphanumeric())
        .filter(|piece| !piece.is_empty())
        .map(str::to_owned)
        .collect()
}

static STOPWORDS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| include_str!("data/stopwords.txt").split_whitespace().collect());

static SYNONYMS: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| {
    include_str!("data/synonyms.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect())
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_become_telling_words() {
        for (query, expected) in [
            ("How do I speed up the database?", vec!["speed", "database"]),
            ("what is it", vec!["what", "is", "it"]),
            (
                "edit config.yaml, don't guess",
                vec!["edit", "config", "yaml", "t", "guess"],
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
    fn a_long_question_is_cut() {
        let long: Vec<String> = (0..500).map(|number| format!("word{number}")).collect();
        assert_eq!(query_terms(&long.join(" "), false).terms.len(), MOST_TERMS);
    }
}
