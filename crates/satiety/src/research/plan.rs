//! Query planning without a model: first the task, then each half of it, then the whole task again, each time
//! with words that the best results contain and no earlier query used; when no such words are left, the least
//! covered words. Queries are questions that a person can read.

use std::collections::{BTreeMap, BTreeSet};

use super::coverage::Task;
use super::hit::Hit;
use super::terms::terms;
use crate::text::StopWords;
use crate::text::stem::Vocabulary;
use crate::text::words::WordRule;

/// Words from results added to a query.
const FEEDBACK_WORDS: usize = 3;
/// Results from which these words are taken.
const FEEDBACK_RESULTS: usize = 10;
/// Tasks with fewer terms are not split.
const FEWEST_TO_HALVE: usize = 4;

/// Term statistics of accepted results, from which queries are built.
#[derive(Debug, Clone)]
pub struct TermStatistics {
    vocabulary: Vocabulary,
    /// For each term, the word it was first written as.
    words: Vec<String>,
    /// For each result, its terms (ascending) with their counts.
    results: Vec<Vec<(u32, u32)>>,
    /// For each term, the number of results that contain it.
    having: Vec<u32>,
}

impl Default for TermStatistics {
    fn default() -> Self {
        Self {
            vocabulary: Vocabulary::new(StopWords::Research),
            words: Vec::new(),
            results: Vec::new(),
            having: Vec::new(),
        }
    }
}

impl TermStatistics {
    /// Adds the terms of a result.
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

/// Next query, or `None` when every query was already asked. `asked` lists all earlier queries.
pub(crate) fn gap_query(task: &Task, accepted: &TermStatistics, asked: &[String]) -> Option<String> {
    let fresh = feedback(task, accepted, asked);
    let turn = asked.len().saturating_sub(1);
    let whole: Vec<&str> = task.terms.iter().map(|(word, _)| word.as_str()).collect();
    let core: Vec<&str> = match (halves(task), turn) {
        (Some((first, _)), 0) => first,
        (Some((_, last)), 1) => last,
        _ => whole,
    };
    let query = in_words(task, &core, &fresh);
    // Queries with the same terms find the same, in whatever words they are asked.
    let set = |query: &str| -> BTreeSet<String> { terms(query).into_iter().collect() };
    let is_new = |query: &String| {
        let new = set(query);
        !new.is_empty() && !asked.iter().any(|old| set(old) == new)
    };
    Some(query).filter(is_new).or_else(|| {
        // No new words: ask for words of the task that were never asked for alone, least covered first.
        let words = least_covered(task, accepted).into_iter();
        words.map(|word| in_words(task, &[word], &[])).find(is_new)
    })
}

/// A question about the part of the task that has these words, and about new ones. The added words are stop
/// words, which no search counts.
fn in_words(task: &Task, core: &[&str], fresh: &[&str]) -> String {
    let subject = passage(&task.text, core).unwrap_or_else(|| parts(task, core));
    let more = match fresh {
        [] => String::new(),
        [one] => format!(", and {one}"),
        [all @ .., last] => format!(", and {} and {last}", all.join(", ")),
    };
    format!("What about {subject}{more}?")
}

/// The part of the task from the first to the last of these words, if that has no sentence end inside.
fn passage(text: &str, words: &[&str]) -> Option<String> {
    let lower = text.to_lowercase();
    if lower.len() != text.len() {
        return None;
    }
    let starts_word = |at: &usize| !lower[..*at].ends_with(char::is_alphanumeric);
    let first = words.first()?;
    let begin = lower.match_indices(first).map(|(at, _)| at).find(starts_word)?;
    let last = words.last()?;
    let mut places = lower.match_indices(last).map(|(at, _)| at);
    let end = places.find(|at| *at >= begin && starts_word(at))? + last.len();
    // A word may continue behind the letters that were searched for.
    let rest = text.get(end..)?;
    let end = end + rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    let part = text.get(begin..end)?;
    // A full stop inside of a word, such as "Node.js", does not end a sentence.
    let mut words = part.split_whitespace().rev().skip(1);
    let has_end = part.contains([';', '\n']) || words.any(|word| word.ends_with(['.', '?', '!']));
    (!has_end).then(|| part.to_owned())
}

/// The parts of the task's questions that have these words, which are in the order of the task.
fn parts(task: &Task, words: &[&str]) -> String {
    let mut parts = Vec::new();
    let mut rest = words;
    for question in &task.questions {
        let lower = question.to_lowercase();
        let count = rest.iter().take_while(|word| lower.contains(**word)).count();
        let (own, behind) = rest.split_at(count);
        if !own.is_empty() {
            parts.push(passage(question, own).unwrap_or_else(|| own.join(" ")));
        }
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(rest.join(" "));
    }
    parts.join(", ")
}

/// Splits the task's words into a first and a second half, because adjacent words belong together. `None` for
/// a short task.
fn halves(task: &Task) -> Option<(Vec<&str>, Vec<&str>)> {
    if task.terms.len() < FEWEST_TO_HALVE {
        return None;
    }
    let words: Vec<&str> = task.terms.iter().map(|(word, _)| word.as_str()).collect();
    let (first, last) = words.split_at_checked(words.len().div_ceil(2))?;
    Some((first.to_vec(), last.to_vec()))
}

/// Words of the task, ordered by the number of accepted results that contain them.
fn least_covered<'a>(task: &'a Task, accepted: &TermStatistics) -> Vec<&'a str> {
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

/// Words of the most relevant results that several results contain, few others do, and no query used.
fn feedback<'a>(task: &Task, accepted: &'a TermStatistics, asked: &[String]) -> Vec<&'a str> {
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
    // Stable sort: ties keep their order.
    nearest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
    for (share, result) in nearest.into_iter().take(FEEDBACK_RESULTS) {
        for (term, count) in result {
            let having = accepted.having(*term);
            // A word that only one result contains is noise.
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
        // A number alone does not describe the subject.
        .filter(|(_, word)| !word.chars().all(|c| c.is_ascii_digit()))
        .collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scores
        .into_iter()
        .take(FEEDBACK_WORDS)
        .map(|(_, word)| word)
        .collect()
}

/// Initial queries: the task, followed by each of its questions when there are several.
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

    fn readings(texts: &[&str]) -> TermStatistics {
        let mut readings = TermStatistics::default();
        for text in texts {
            readings.add(&Hit::new("", "", *text));
        }
        readings
    }

    #[test]
    fn halves_come_first_then_the_least_covered_words() {
        let task = Task::new("wings heated flutter damping speed");
        let accepted = readings(&["Heated wings at speed."]);
        let mut asked = vec![task.text.clone()];
        for expected in [
            "What about wings heated flutter?",
            "What about damping speed?",
            "What about flutter?",
            "What about damping?",
        ] {
            let query = gap_query(&task, &accepted, &asked).unwrap();
            assert_eq!(query, expected);
            asked.push(query);
        }
    }

    #[test]
    fn queries_add_new_words_from_results() {
        let task = Task::new("heated wings");
        let accepted = readings(&[
            "Heated wings buckle near the spar.",
            "Heated wings: spar and ribs buckle.",
            "Bread.",
        ]);
        let query = gap_query(&task, &accepted, std::slice::from_ref(&task.text)).unwrap();
        assert!(
            query.starts_with("What about heated wings, and ")
                && query.contains("spar")
                && query.contains("buckle"),
            "{query}"
        );
        let words: BTreeSet<String> = terms(&query).into_iter().collect();
        assert!(!words.contains("about") && !words.contains("what"), "{words:?}");
    }

    #[test]
    fn a_half_of_a_question_keeps_its_own_words() {
        let task = Task::new("How do heated wings of an aircraft bend under heavy load?");
        let query = gap_query(
            &task,
            &TermStatistics::default(),
            std::slice::from_ref(&task.text),
        )
        .unwrap();
        assert_eq!(query, "What about heated wings of an aircraft?");
    }

    #[test]
    fn several_questions_and_names_with_full_stops_stay_readable() {
        let task = Task::new("How do wings bend? Which alloys of the spar creep?");
        assert_eq!(
            in_words(&task, &["wings", "bend", "alloys", "spar", "creep"], &["ribs"]),
            "What about wings bend, alloys of the spar creep, and ribs?"
        );
        assert_eq!(
            in_words(&task, &["alloys", "spar"], &[]),
            "What about alloys of the spar?"
        );
        assert_eq!(
            passage("How do I install Node.js 22.1 on Debian?", &["install", "debian"]).as_deref(),
            Some("install Node.js 22.1 on Debian")
        );
    }

    #[test]
    fn queries_never_repeat_and_end() {
        let task = Task::new("alpha beta gamma delta");
        let mut asked = vec![task.text.clone()];
        while let Some(query) = gap_query(&task, &TermStatistics::default(), &asked) {
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
