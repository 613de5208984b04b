//! What a text is about: its words without function words, stemmed, in order.

use std::collections::BTreeSet;

use crate::text::StopWords;
use crate::text::stem::stem;
use crate::text::words::WordRule;

/// The stemmed content words of a text, repeats included.
///
/// ```
/// assert_eq!(satiety::research::terms("What are the wings of heated aircraft?"), ["wing", "heat", "aircraft"]);
/// ```
pub fn terms(text: &str) -> Vec<String> {
    words_and_terms(text).into_iter().map(|(_, term)| term).collect()
}

/// The same beside the words they come from, lowercased.
fn words_and_terms(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    WordRule::Query.for_each(text, |word| {
        if !StopWords::Research.contains(word) {
            found.push((word.to_owned(), stem(word).into_owned()));
        }
    });
    found
}

/// The different terms of a text, in order of first appearance, with the word each was first written as.
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
    fn questions_lose_what_every_question_has() {
        assert_eq!(
            terms("Please find articles about the compiler's code-generation (2024)"),
            ["compil", "code", "generat", "2024"]
        );
        assert!(terms("What is it?").is_empty());
        assert_eq!(terms("naïve Übung 東京"), ["naiv", "ubung", "東京"]);
    }

    #[test]
    fn a_term_comes_once() {
        let distinct: Vec<String> = distinct("test tests Testing")
            .into_iter()
            .map(|pair| pair.0)
            .collect();
        assert_eq!(distinct, ["test"]);
    }
}
