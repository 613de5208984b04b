//! Coverage: splits a task into questions, measures how much of each the accepted results cover, and scores
//! relevance.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hit::Hit;
use super::terms::{distinct, terms};
use crate::text::stem::stem;
use crate::text::words::WordRule;

/// A question is covered by a result that contains this share of its terms.
pub(crate) const COVERED: f64 = 0.6;

/// A parsed research task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Original text of the task.
    pub text: String,
    /// Distinct terms in order, each with its original word: (word, term).
    pub terms: Vec<(String, String)>,
    /// Questions that the task consists of; the whole task when it cannot be split.
    pub questions: Vec<String>,
}

impl Task {
    /// Parses a task. Its questions are its sentences and the parts separated by semicolons.
    pub fn new(text: &str) -> Self {
        let mut questions: Vec<String> = crate::text::sentences(text)
            .into_iter()
            .flat_map(|sentence| sentence.text.split(';'))
            .map(str::trim)
            .filter(|part| !terms(part).is_empty())
            .map(str::to_owned)
            .collect();
        questions.dedup();
        if questions.is_empty() && !text.trim().is_empty() {
            questions.push(text.trim().to_owned());
        }
        Self {
            text: text.trim().to_owned(),
            terms: distinct(text),
            questions,
        }
    }

    /// Whether the task has no text to ask about.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// For each term of the task, whether the result contains it.
    pub(crate) fn terms_in(&self, hit: &Hit) -> Vec<bool> {
        let mut found = vec![false; self.terms.len()];
        for text in [&hit.title, &hit.snippet] {
            WordRule::Query.for_each(text, |word| {
                // Stemming dominates the cost, and most words cannot become any of the terms.
                if !self.terms.iter().any(|(_, term)| may_become(word, term)) {
                    return;
                }
                let stemmed = stem(word);
                for ((_, term), found) in self.terms.iter().zip(&mut found) {
                    *found |= *term == stemmed;
                }
            });
        }
        found
    }
}

/// Whether a word's stem can be this term. The stemmer keeps the first letter, and changes the second only
/// from y to i ("lying", "lie"). Beyond ASCII it also removes accents.
fn may_become(word: &str, term: &str) -> bool {
    let (word, term) = (word.as_bytes(), term.as_bytes());
    let alike = |a: Option<&u8>, b: Option<&u8>| a == b || matches!((a, b), (Some(b'y'), Some(b'i')));
    !word.is_ascii() || word.first() == term.first() && (term.len() < 2 || alike(word.get(1), term.get(1)))
}

/// Coverage of one question by the accepted results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionCoverage {
    /// Text of the question.
    pub question: String,
    /// Largest share of the question's terms found in one accepted result, from 0 to 1.
    pub share: f64,
    /// Number of accepted results that contain at least 60 % of its terms.
    pub results: usize,
    /// Words of the question that no accepted result contains.
    pub missing: Vec<String>,
}

impl QuestionCoverage {
    /// Whether no accepted result covers the question.
    pub fn is_open(&self) -> bool {
        self.results == 0
    }
}

/// Computes the coverage of each question by accepted results.
pub fn coverage(task: &Task, results: &[&Hit]) -> Vec<QuestionCoverage> {
    let sets: Vec<BTreeSet<String>> = results.iter().map(|hit| term_set(hit)).collect();
    task.questions
        .iter()
        .map(|question| {
            let wanted = distinct(question);
            let shares: Vec<f64> = sets
                .iter()
                .map(|set| {
                    let found = wanted.iter().filter(|(_, term)| set.contains(term)).count();
                    found as f64 / wanted.len().max(1) as f64
                })
                .collect();
            QuestionCoverage {
                question: question.clone(),
                share: shares.iter().copied().fold(0.0, f64::max),
                results: shares.iter().filter(|share| **share >= COVERED).count(),
                missing: wanted
                    .iter()
                    .filter(|(_, term)| !sets.iter().any(|set| set.contains(term)))
                    .map(|(word, _)| word.clone())
                    .collect(),
            }
        })
        .collect()
}

/// Set of terms in a result.
pub(crate) fn term_set(hit: &Hit) -> BTreeSet<String> {
    terms(&hit.title).into_iter().chain(terms(&hit.snippet)).collect()
}

/// Relevance of each result to the task: the squared share of the task's terms that it contains, with rare
/// terms weighted higher. `seen` counts, for each term, the earlier results that contain it, out of `total`.
/// Without a task every result has relevance 1.
pub fn relevance(has: &[Vec<bool>], seen: &[usize], total: usize) -> Vec<f64> {
    let total = total.max(1) as f64;
    let weights: Vec<f64> = seen
        .iter()
        // Inverse document frequency as in BM25, kept above zero.
        .map(|with| {
            (1.0 + (total - *with as f64 + 0.5) / (*with as f64 + 0.5))
                .ln()
                .max(0.05)
        })
        .collect();
    let whole: f64 = weights.iter().sum();
    has.iter()
        .map(|has| {
            if whole <= 0.0 {
                return 1.0;
            }
            let have: f64 = has
                .iter()
                .zip(&weights)
                .filter(|(has, _)| **has)
                .map(|(_, weight)| weight)
                .sum();
            (have / whole) * (have / whole)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_task_are_questions() {
        let task =
            Task::new("How do wings bend when heated? Which alloys resist creep; and what do they cost");
        assert_eq!(
            task.questions,
            [
                "How do wings bend when heated?",
                "Which alloys resist creep",
                "and what do they cost"
            ]
        );
        let words: Vec<&str> = task.terms.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(
            words,
            ["wings", "bend", "heated", "alloys", "resist", "creep", "cost"]
        );
        assert!(Task::new("  ").is_empty());
    }

    #[test]
    fn open_questions_list_missing_words() {
        let task = Task::new("How do wings bend when heated? Which alloys resist creep?");
        let hit = Hit::new("Heated wings", "u", "They bend.");
        let found = coverage(&task, &[&hit]);
        assert!(!found[0].is_open());
        assert!((found[0].share - 1.0).abs() < 1e-12);
        assert!(found[1].is_open());
        assert_eq!(found[1].missing, ["alloys", "resist", "creep"]);
    }

    #[test]
    fn the_stem_filter_has_no_false_negatives() {
        for word in [
            "lying", "dying", "tying", "skies", "flying", "wings", "ties", "études", "东京", "3d", "early",
            "only", "using",
        ] {
            assert!(may_become(word, &stem(word)), "{word}");
        }
        assert!(!may_become("pancake", "wing"));
    }

    #[test]
    fn relevance_is_the_squared_share_of_terms() {
        let task = Task::new("wings heated");
        let has: Vec<Vec<bool>> = ["A wing, heating", "wings", "pancakes"]
            .iter()
            .map(|title| task.terms_in(&Hit::new(*title, "", "")))
            .collect();
        assert_eq!(has, [[true, true], [true, false], [false, false]]);
        let found = relevance(&has, &[0, 0], 0);
        assert!((found[0] - 1.0).abs() < 1e-12);
        assert!((found[1] - 0.25).abs() < 1e-12);
        assert!(found[2].abs() < 1e-12);
        assert_eq!(relevance(&[vec![], vec![]], &[], 0), [1.0, 1.0]);
    }
}
