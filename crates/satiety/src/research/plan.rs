//! What to ask next, without a model: the task, then each half of it and at last the whole again, each time with words that
//! the best results have and no query had; when there are no such words, what results speak of least.

use std::collections::{BTreeMap, BTreeSet};

use super::coverage::{Task, term_set};
use super::hit::Hit;
use super::terms::words_and_terms;
use crate::text::normalize;

/// Words of results that go into a query.
const FEEDBACK_WORDS: usize = 3;
/// Results that lend their words.
const FEEDBACK_RESULTS: usize = 10;
/// A task with fewer terms is asked whole.
const FEWEST_TO_HALVE: usize = 4;

/// The next query, or none when nothing is left to ask that was not asked. `asked` are all queries so far.
pub fn gap_query(task: &Task, accepted: &[&Hit], asked: &[String]) -> Option<String> {
    let used: BTreeSet<String> = asked
        .iter()
        .flat_map(|query| words_and_terms(query))
        .map(|(_, term)| term)
        .collect();
    let fresh = feedback(task, accepted, &used);
    let halves = halves(task);
    let turn = asked.len().saturating_sub(1);
    let whole: Vec<&str> = task.terms.iter().map(|(word, _)| word.as_str()).collect();
    let core: Vec<&str> = match (halves, turn) {
        (Some((first, _)), 0) => first,
        (Some((_, last)), 1) => last,
        _ => whole,
    };
    let words = core.iter().copied().chain(fresh.iter().map(String::as_str));
    let query = words.collect::<Vec<_>>().join(" ");
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
fn least_covered<'a>(task: &'a Task, accepted: &[&Hit]) -> Vec<&'a str> {
    let sets: Vec<BTreeSet<String>> = accepted.iter().map(|hit| term_set(hit)).collect();
    let covered = |term: &String| sets.iter().filter(|set| set.contains(term)).count();
    let mut words: Vec<(usize, usize, &str)> = task
        .terms
        .iter()
        .enumerate()
        .map(|(at, (word, term))| (covered(term), at, word.as_str()))
        .collect();
    words.sort_unstable();
    words.into_iter().map(|(_, _, word)| word).collect()
}

/// Words of the results nearest to the task that several results have, few of the others, and no query had.
fn feedback(task: &Task, accepted: &[&Hit], used: &BTreeSet<String>) -> Vec<String> {
    let sets: Vec<BTreeSet<String>> = accepted.iter().map(|hit| term_set(hit)).collect();
    let mut having: BTreeMap<&str, usize> = BTreeMap::new();
    for set in &sets {
        for term in set {
            *having.entry(term).or_default() += 1;
        }
    }
    let on_task = |set: &BTreeSet<String>| {
        let found = task.terms.iter().filter(|(_, term)| set.contains(term)).count();
        found as f64 / task.terms.len().max(1) as f64
    };
    let mut nearest: Vec<(usize, f64)> = sets.iter().map(on_task).enumerate().collect();
    nearest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut scores: BTreeMap<String, (f64, String)> = BTreeMap::new();
    for (at, share) in nearest.into_iter().take(FEEDBACK_RESULTS) {
        let Some(hit) = accepted.get(at) else { continue };
        let mut counts: BTreeMap<String, (u32, String)> = BTreeMap::new();
        for (word, term) in words_and_terms(&hit.whole()) {
            counts.entry(term).or_insert((0, word)).0 += 1;
        }
        for (term, (count, word)) in counts {
            let having = having.get(term.as_str()).copied().unwrap_or(0);
            // Once is chance; a number by itself says nothing about the subject.
            if having < 2 || used.contains(&term) || word.chars().all(|c| c.is_ascii_digit()) {
                continue;
            }
            let rarity = (1.0 + sets.len() as f64 / having as f64).ln();
            let entry = scores.entry(term).or_insert((0.0, word));
            entry.0 += share * f64::from(count).ln_1p() * rarity;
        }
    }
    let mut scores: Vec<(f64, String)> = scores.into_values().collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
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

    fn hit(text: &str) -> Hit {
        Hit::new("", "", text)
    }

    #[test]
    fn halves_are_asked_for_and_then_what_is_least_covered() {
        let task = Task::new("wings heated flutter damping speed");
        let accepted = [hit("Heated wings at speed."), hit("Wings and speed, heated.")];
        let accepted: Vec<&Hit> = accepted.iter().collect();
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
        let accepted = [
            hit("Heated wings buckle near the spar."),
            hit("Heated wings: spar and ribs buckle."),
            hit("Bread."),
        ];
        let accepted: Vec<&Hit> = accepted.iter().collect();
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
        while let Some(query) = gap_query(&task, &[], &asked) {
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
