//! Terms of a text: its stemmed content words in order.

use std::collections::BTreeSet;

use crate::text::StopWords;
use crate::text::stem::stem;
use crate::text::words::WordRule;

/// Stemmed content words of a text, including repeats.
///
/// ```
/// assert_eq!(satiety::research::terms("What are the wings of heated aircraft?"), ["wing", "heat", "aircraft"]);
/// ```
pub fn terms(text: &str) -> Vec<String> {
    words_and_terms(text).into_iter().map(|(_, term)| term).collect()
}

/// Lower-cased words with their terms.
fn words_and_terms(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    WordRule::Query.for_each(text, |word| {
        if !StopWords::Research.contains(word) {
            found.push((word.to_owned(), stem(word).into_owned()));
        }
    });
    found
}

/// Distinct terms of a text in order of first appearance, each with the word it was first written as.
pub(super) fn distinct(text: &str) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    words_and_terms(text)
        .into_iter()
        .filter(|(_, term)| seen.insert(term.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_omit_question_words() {
        assert_eq!(
            terms("Please find articles about the compiler's code-generation (2024)"),
            ["compil", "code", "generat", "2024"]
        );
        assert!(terms("What is it?").is_empty());
        assert_eq!(terms("naïve Übung 東京"), ["naiv", "ubung", "東京"]);
    }

    #[test]
    fn terms_are_distinct() {
        let distinct: Vec<String> = distinct("test tests Testing")
            .into_iter()
            .map(|pair| pair.0)
            .collect();
        assert_eq!(distinct, ["test"]);
    }
}
