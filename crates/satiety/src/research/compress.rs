//! Extractive summary without a model: selects the sentences that say most about the task with the least
//! redundancy, as bullets within a character limit.

use rustc_hash::FxHashSet;

use super::coverage::Task;
use crate::text::stem::Vocabulary;
use crate::text::{SentenceKind, StopWords, sentences};

/// Maximum number of bullets. The specification asks a model for five to eight; short facts leave space for
/// more.
const MOST_BULLETS: usize = 12;
/// Sentences with a term overlap above this say the same.
const SAME: f64 = 0.6;
/// Shorter sentences are treated as headings or fragments.
const FEWEST_TERMS: usize = 3;

struct Candidate<'a> {
    text: &'a str,
    /// Term ids, ascending.
    terms: Vec<u32>,
    on_task: f64,
    length: usize,
    order: usize,
}

/// Builds the next summary from the previous one and new sentences: the most informative, least redundant
/// sentences in their original order, one per line, at most `max_chars` characters.
pub fn extract<'a>(
    task: &Task,
    summary: &'a str,
    new: impl Iterator<Item = &'a str>,
    max_chars: usize,
) -> String {
    let mut vocabulary = Vocabulary::new(StopWords::Research);
    let wanted: FxHashSet<u32> = vocabulary.read(&task.text).into_iter().collect();
    let mut seen = FxHashSet::default();
    let mut candidates: Vec<Candidate<'a>> = Vec::new();
    let old = sentences(summary)
        .into_iter()
        .filter(|sentence| !matches!(sentence.kind, SentenceKind::Code | SentenceKind::Heading))
        .map(|sentence| sentence.text);
    for text in old.chain(new) {
        let mut terms = vocabulary.read(text);
        terms.sort_unstable();
        terms.dedup();
        if terms.len() < FEWEST_TERMS || !seen.insert(terms.clone()) {
            continue;
        }
        let on_task = terms.iter().filter(|term| wanted.contains(term)).count();
        candidates.push(Candidate {
            text,
            on_task: on_task as f64 / wanted.len().max(1) as f64,
            terms,
            length: bullet(text).chars().count(),
            order: candidates.len(),
        });
    }
    let chosen = choose(candidates, vocabulary.len(), max_chars);
    let lines: Vec<String> = chosen.iter().map(|candidate| bullet(candidate.text)).collect();
    lines.join("\n")
}

/// Greedy selection by the number of terms not covered yet, relative to length. Terms of the task have a
/// higher weight.
fn choose(mut candidates: Vec<Candidate<'_>>, terms: usize, max_chars: usize) -> Vec<Candidate<'_>> {
    let mut covered = vec![false; terms];
    let mut chosen: Vec<Candidate<'_>> = Vec::new();
    let mut remaining = max_chars;
    while chosen.len() < MOST_BULLETS {
        let is_covered = |term: &u32| covered.get(*term as usize).copied().unwrap_or(false);
        let gain = |candidate: &Candidate<'_>| {
            let fresh = candidate.terms.iter().filter(|term| !is_covered(term)).count() as f64;
            (1.0 + 8.0 * candidate.on_task) * fresh / (candidate.length.max(40) as f64).sqrt()
        };
        let best = candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| candidate.length < remaining)
            .map(|(at, candidate)| (at, gain(candidate), candidate.order))
            .filter(|(_, gain, _)| *gain > 0.0)
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.2.cmp(&a.2)));
        let Some((at, ..)) = best else { break };
        let next = candidates.swap_remove(at);
        if chosen.iter().any(|other| alike(&other.terms, &next.terms)) {
            continue;
        }
        remaining -= next.length + 1;
        for term in &next.terms {
            if let Some(covered) = covered.get_mut(*term as usize) {
                *covered = true;
            }
        }
        chosen.push(next);
    }
    chosen.sort_by_key(|candidate| candidate.order);
    chosen
}

/// Whether the overlap of two ascending lists exceeds [`SAME`].
fn alike(a: &[u32], b: &[u32]) -> bool {
    let common = a.iter().filter(|term| b.binary_search(term).is_ok()).count();
    common as f64 > SAME * (a.len() + b.len() - common) as f64
}

fn bullet(text: &str) -> String {
    format!("- {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn relevant_new_sentences_are_kept() {
        let task = Task::new("how do heated wings bend");
        let new = [
            "Pancakes are popular on Sundays in several towns.",
            "Heated wings bend upwards at the tip.",
            "Heated wings bend up at their tip.",
            "Wing ribs of steel bend less than those of light alloys.",
        ];
        let summary = extract(&task, "", new.into_iter(), 140);
        assert!(
            summary.contains("- Heated wings bend upwards at the tip."),
            "{summary}"
        );
        assert!(summary.contains("ribs of steel"), "{summary}");
        assert!(!summary.contains("their tip"), "says the same again: {summary}");
        assert!(!summary.contains("Pancakes"), "{summary}");
        let more = ["Titanium wings bend only above 400 degrees."];
        let next = extract(&task, &summary, more.into_iter(), 400);
        assert!(next.contains("Titanium") && next.contains("upwards"), "{next}");
    }

    proptest! {
        #[test]
        fn summaries_respect_the_limit_and_quote_sentences(
            bodies in prop::collection::vec("([a-zä]{2,9} ){4,12}[a-z]{3}\\. ([A-Z][a-z]{2,9} ){4,9}end\\.", 0..6),
            limit in 0_usize..400,
        ) {
            let task = Task::new("some task");
            let summary = extract(&task, "", bodies.iter().map(String::as_str), limit);
            prop_assert!(summary.chars().count() <= limit);
            for line in summary.lines() {
                let sentence = line.strip_prefix("- ").unwrap();
                prop_assert!(bodies.iter().any(|body| body.contains(sentence)), "{sentence}");
            }
        }
    }
}
