//! What to ask next, without a model: the task, then each half of it and at last the whole again, each time with words that
//! the best results have and no query had; when there are no such words, what results speak of least.

use std::collections::{BTreeMap, BTreeSet};

use super::coverage::Task;
use super::hit::Hit;
use super::terms::terms;
use crate::text::stem::Vocabulary;
use crate::text::words::WordRule;
use crate::text::{StopWords, normalize};

/// Words of results that go into a query.
const FEEDBACK_WORDS: usize = 3;
/// Results that lend their words.
const FEEDBACK_RESULTS: usize = 10;
/// A task with fewer terms is asked whole.
const FEWEST_TO_HALVE: usize = 4;

/// Accepted results as queries are made from them: which terms each has, read once.
#[derive(Debug, Clone)]
pub struct Readings {
    vocabulary: Vocabulary,
    /// By term: the word that it was first written as.
    words: Vec<String>,
    /// By result: its terms, ascending, with how often each stands in it.
    results: Vec<Vec<(u32, u32)>>,
    /// By term: the results that have it.
    having: Vec<u32>,
}

impl Default for Readings {
    fn default() -> Self {
        Self {
            vocabulary: Vocabulary::new(StopWords::Research),
            words: Vec::new(),
            results: Vec::new(),
            having: Vec::new(),
        }
    }
}

impl Readings {
    /// Reads a result.
    pub fn add(&mut self, hit: &Hit) {
        let mut terms = Vec::new();
        for text in [&hit.title, &hit.snippet] {
            WordRule::Query.for_each(text, |word| {
                let term = self.vocabulary.number(word);
                if self.words.len() < self.vocabulary.len() {
                    self.words.push(word.to_owned());
                }
                terms.extend(term);
            });
        }
        terms.sort_unstable();
        let mut counts: Vec<(u32, u32)> = Vec::new();
        for term in terms {
            match counts.last_mut() {
                Some((last, count)) if *last == term => *count += 1,
                _ => counts.push((term, 1)),
            }
        }
        self.having.resize(self.vocabulary.len(), 0);
        for (term, _) in &counts {
            if let Some(having) = self.having.get_mut(*term as usize) {
                *having += 1;
            }
        }
        self.results.push(counts);
    }

    fn having(&self, term: u32) -> u32 {
        self.having.get(term as usize).copied().unwrap_or(0)
    }
}

/// The next query, or none when nothing is left to ask that was not asked. `asked` are all queries so far.
pub(crate) fn gap_query(task: &Task, accepted: &Readings, asked: &[String]) -> Option<String> {
    let fresh = feedback(task, accepted, asked);
    let turn = asked.len().saturating_sub(1);
    let whole: Vec<&str> = task.terms.iter().map(|(word, _)| word.as_str()).collect();
    let core: Vec<&str> = match (halves(task), turn) {
        (Some((first, _)), 0) => first,
        (Some((_, last)), 1) => last,
        _ => whole,
    };
    let query = core.into_iter().chain(fresh).collect::<Vec<_>>().join(" ");
    let is_new = |query: &String| {
        let normal = normalize(query);
        !normal.is_empty() && !asked.iter().any(|old| normalize(old) == normal)
    };
    Some(query).filter(is_new).or_else(|| {
        // Nothing fresh: words of the task that were never asked for by themselves, least covered first.
        let mut words = least_covered(task, accepted).into_iter().map(str::to_owned);
        words.find(is_new)
    })
}

/// The task's words in two halves, first and last: words that stand together belong together. None for a short task.
fn halves(task: &Task) -> Option<(Vec<&str>, Vec<&str>)> {
    if task.terms.len() < FEWEST_TO_HALVE {
        return None;
    }
    let words: Vec<&str> = task.terms.iter().map(|(word, _)| word.as_str()).collect();
    let (first, last) = words.split_at_checked(words.len().div_ceil(2))?;
    Some((first.to_vec(), last.to_vec()))
}

/// The task's words, those first that the fewest accepted results speak of.
fn least_covered<'a>(task: &'a Task, accepted: &Readings) -> Vec<&'a str> {
    let covered = |term: &str| {
        accepted
            .vocabulary
            .find(term)
            .map_or(0, |term| accepted.having(term))
    };
    let mut words: Vec<(u32, usize, &str)> = task
        .terms
        .iter()
        .enumerate()
        .map(|(at, (word, term))| (covered(term), at, word.as_str()))
        .collect();
    words.sort_unstable();
    words.into_iter().map(|(_, _, word)| word).collect()
}

/// Words of the results nearest to the task that several results have, few of the others, and no query had.
fn feedback<'a>(task: &Task, accepted: &'a Readings, asked: &[String]) -> Vec<&'a str> {
    let find = |term: &str| accepted.vocabulary.find(term);
    let wanted: Vec<u32> = task.terms.iter().filter_map(|(_, term)| find(term)).collect();
    let used: BTreeSet<u32> = asked
        .iter()
        .flat_map(|query| terms(query))
        .filter_map(|term| find(&term))
        .collect();
    let on_task = |result: &Vec<(u32, u32)>| {
        let has = |term: &u32| result.binary_search_by_key(term, |(term, _)| *term).is_ok();
        wanted.iter().filter(|term| has(term)).count() as f64 / task.terms.len().max(1) as f64
    };
    let mut nearest: Vec<(f64, &Vec<(u32, u32)>)> = accepted
        .results
        .iter()
        .map(|result| (on_task(result), result))
        .collect();
    // Stable, so that of equals the earlier one comes first.
    nearest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
    for (share, result) in nearest.into_iter().take(FEEDBACK_RESULTS) {
        for (term, count) in result {
            let having = accepted.having(*term);
            // Once is chance.
            if having >= 2 && !used.contains(term) {
                let rarity = (1.0 + accepted.results.len() as f64 / f64::from(having)).ln();
                *scores.entry(*term).or_default() += share * f64::from(*count).ln_1p() * rarity;
            }
        }
    }
    let mut scores: Vec<(f64, &str)> = scores
        .into_iter()
        .map(|(term, score)| {
            (
                score,
                accepted.words.get(term as usize).map_or("", String::as_str),
            )
        })
        // A number by itself says nothing about the subject.
        .filter(|(_, word)| !word.chars().all(|c| c.is_ascii_digit()))
        .collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scores
        .into_iter()
        .take(FEEDBACK_WORDS)
        .map(|(_, word)| word)
        .collect()
}

/// The queries to begin with: the task itself, then each of its questions where there are several.
pub fn planned(task: &Task) -> Vec<String> {
    let mut queries = vec![task.text.clone()];
    if task.questions.len() > 1 {
        queries.extend(task.questions.iter().cloned());
    }
    queries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(texts: &[&str]) -> Readings {
        let mut readings = Readings::default();
        for text in texts {
            readings.add(&Hit::new("", "", *text));
        }
        readings
    }

    #[test]
    fn halves_are_asked_for_and_then_what_is_least_covered() {
        let task = Task::new("wings heated flutter damping speed");
        let accepted = readings(&["Heated wings at speed."]);
        let mut asked = vec![task.text.clone()];
        for expected in ["wings heated flutter", "damping speed", "flutter", "damping"] {
            let query = gap_query(&task, &accepted, &asked).unwrap();
            assert_eq!(query, expected);
            asked.push(query);
        }
    }

    #[test]
    fn results_lend_words_that_no_query_had() {
        let task = Task::new("heated wings");
        let accepted = readings(&[
            "Heated wings buckle near the spar.",
            "Heated wings: spar and ribs buckle.",
            "Bread.",
        ]);
        let query = gap_query(&task, &accepted, std::slice::from_ref(&task.text)).unwrap();
        assert!(
            query.starts_with("heated wings") && query.contains("spar") && query.contains("buckle"),
            "{query}"
        );
    }

    #[test]
    fn nothing_is_asked_twice_and_at_last_nothing_is_left() {
        let task = Task::new("alpha beta gamma delta");
        let mut asked = vec![task.text.clone()];
        while let Some(query) = gap_query(&task, &Readings::default(), &asked) {
            assert!(asked.len() < 20);
            assert!(!asked.contains(&query), "{query}");
            asked.push(query);
        }
    }

    #[test]
    fn a_task_of_several_questions_plans_one_query_each() {
        let queries = planned(&Task::new("How do wings bend? Which alloys creep?"));
        assert_eq!(queries.len(), 3);
        assert_eq!(planned(&Task::new("How do wings bend?")).len(), 1);
    }
}
