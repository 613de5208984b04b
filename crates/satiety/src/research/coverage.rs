//! What the task asks, how much of it the accepted results speak of, and how far a result is on the task.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hit::Hit;
use super::terms::{distinct, terms};
use crate::text::stem::stem;
use crate::text::words::WordRule;

/// A question counts as covered when one result has this share of its terms.
pub(crate) const COVERED: f64 = 0.6;

/// The task, read once.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// As it was given.
    pub text: String,
    /// Its different terms in order, each with the word it was written as: (word, term).
    pub terms: Vec<(String, String)>,
    /// Its parts that are questions of their own; the whole where it has no parts.
    pub questions: Vec<String>,
}

impl Task {
    /// Reads a task. Questions are its sentences and what stands between semicolons.
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

    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// By term of the task: whether a result has it.
    pub(crate) fn terms_in(&self, hit: &Hit) -> Vec<bool> {
        let mut found = vec![false; self.terms.len()];
        for text in [&hit.title, &hit.snippet] {
            WordRule::Query.for_each(text, |word| {
                // Stemming is what this costs, and most words cannot become any of the terms.
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

/// Whether a word's stem can be this term: the stemmer leaves the first letter as it is, and of the second changes only a
/// y to an i ("lying", "lie"). Beyond ASCII it takes accents away as well.
fn may_become(word: &str, term: &str) -> bool {
    let (word, term) = (word.as_bytes(), term.as_bytes());
    let alike = |a: Option<&u8>, b: Option<&u8>| a == b || matches!((a, b), (Some(b'y'), Some(b'i')));
    !word.is_ascii() || word.first() == term.first() && (term.len() < 2 || alike(word.get(1), term.get(1)))
}

/// How well one question is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionCoverage {
    /// The question.
    pub question: String,
    /// The largest share of its terms that one accepted result has.
    pub share: f64,
    /// Accepted results that have at least `COVERED` of its terms.
    pub results: usize,
    /// Its words that no accepted result has.
    pub missing: Vec<String>,
}

impl QuestionCoverage {
    /// Whether nothing that was accepted speaks of it.
    pub fn is_open(&self) -> bool {
        self.results == 0
    }
}

/// The coverage of each question by accepted results.
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

/// The terms of a result.
pub(crate) fn term_set(hit: &Hit) -> BTreeSet<String> {
    terms(&hit.title).into_iter().chain(terms(&hit.snippet)).collect()
}

/// How far results are on the task: for each, given which terms of the task it has, the squared share of them, rare ones
/// weighing more. `seen` counts, by term, the results so far that have it, out of `total`. Without a task everything is on
/// it.
pub fn relevance(has: &[Vec<bool>], seen: &[usize], total: usize) -> Vec<f64> {
    let total = total.max(1) as f64;
    let weights: Vec<f64> = seen
        .iter()
        // The inverse document frequency of BM25, kept above zero.
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
    fn open_questions_are_named_with_what_is_missing() {
        let task = Task::new("How do wings bend when heated? Which alloys resist creep?");
        let hit = Hit::new("Heated wings", "u", "They bend.");
        let found = coverage(&task, &[&hit]);
        assert!(!found[0].is_open());
        assert!((found[0].share - 1.0).abs() < 1e-12);
        assert!(found[1].is_open());
        assert_eq!(found[1].missing, ["alloys", "resist", "creep"]);
    }

    #[test]
    fn the_short_cut_misses_no_stem() {
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
