//! What is known, in few words and without a model: the sentences that say most about the task and repeat least, as
//! bullets under a limit of characters.

use std::collections::BTreeSet;

use super::coverage::Task;
use super::hit::Hit;
use super::terms::terms;
use crate::text::{SentenceKind, jaccard, normalize, sentences};

/// Bullets in a summary: the specification asks a model for five to eight, and short facts leave room for more.
const MOST_BULLETS: usize = 12;
/// Sentences that share more of their terms than this say the same.
const SAME: f64 = 0.6;
/// Shorter sentences are headings and fragments.
const FEWEST_TERMS: usize = 3;

struct Candidate<'a> {
    text: &'a str,
    terms: BTreeSet<String>,
    on_task: f64,
    order: usize,
}

/// The next summary: the sentences of the last one and of new results, the most informative and least redundant first to
/// be chosen, in the order in which they came, one a line, at most `max_chars` characters.
pub fn extract(task: &Task, summary: &str, results: &[Hit], max_chars: usize) -> String {
    let wanted: BTreeSet<&str> = task.terms.iter().map(|(_, term)| term.as_str()).collect();
    let mut seen = BTreeSet::new();
    let mut candidates = Vec::new();
    let old = sentences(summary).into_iter();
    let new = results.iter().flat_map(|hit| sentences(&hit.snippet));
    for sentence in old.chain(new) {
        if matches!(sentence.kind, SentenceKind::Code | SentenceKind::Heading) {
            continue;
        }
        let terms: BTreeSet<String> = terms(sentence.text).into_iter().collect();
        if terms.len() < FEWEST_TERMS || !seen.insert(normalize(sentence.text)) {
            continue;
        }
        let on_task = terms.iter().filter(|term| wanted.contains(term.as_str())).count();
        candidates.push(Candidate {
            text: sentence.text,
            on_task: on_task as f64 / wanted.len().max(1) as f64,
            terms,
            order: candidates.len(),
        });
    }
    let chosen = choose(candidates, max_chars);
    let lines: Vec<String> = chosen.iter().map(|candidate| bullet(candidate.text)).collect();
    lines.join("\n")
}

/// Greedy: what brings the most terms that nothing chosen has, those of the task counting several times, for its length.
fn choose(mut candidates: Vec<Candidate<'_>>, max_chars: usize) -> Vec<Candidate<'_>> {
    let mut covered: BTreeSet<String> = BTreeSet::new();
    let mut chosen: Vec<Candidate<'_>> = Vec::new();
    let mut room = max_chars;
    while chosen.len() < MOST_BULLETS {
        let gain = |candidate: &Candidate<'_>| {
            let fresh = candidate
                .terms
                .iter()
                .filter(|term| !covered.contains(*term))
                .count() as f64;
            let length = candidate.text.chars().count().max(40) as f64;
            (1.0 + 8.0 * candidate.on_task) * fresh / length.sqrt()
        };
        let best = candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| bullet(candidate.text).chars().count() < room)
            .map(|(at, candidate)| (at, gain(candidate)))
            .filter(|(_, gain)| *gain > 0.0)
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((at, _)) = best else { break };
        let next = candidates.remove(at);
        if chosen
            .iter()
            .any(|other| jaccard(&other.terms, &next.terms) > SAME)
        {
            continue;
        }
        room -= bullet(next.text).chars().count() + 1;
        covered.extend(next.terms.iter().cloned());
        chosen.push(next);
    }
    chosen.sort_by_key(|candidate| candidate.order);
    chosen
}

fn bullet(text: &str) -> String {
    format!("- {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_on_the_task_and_new_is_kept() {
        let task = Task::new("how do heated wings bend");
        let results = [
            Hit::new(
                "",
                "",
                "Pancakes are popular on Sundays in several towns. Heated wings bend upwards at the tip.",
            ),
            Hit::new(
                "",
                "",
                "Heated wings bend up at their tip. Wing ribs of steel bend less than those of light alloys.",
            ),
        ];
        let summary = extract(&task, "", &results, 140);
        assert!(
            summary.contains("- Heated wings bend upwards at the tip."),
            "{summary}"
        );
        assert!(summary.contains("ribs of steel"), "{summary}");
        assert!(!summary.contains("their tip"), "says the same again: {summary}");
        assert!(!summary.contains("Pancakes"), "{summary}");
        let next = extract(
            &task,
            &summary,
            &[Hit::new("", "", "Titanium wings bend only above 400 degrees.")],
            400,
        );
        assert!(next.contains("Titanium") && next.contains("upwards"), "{next}");
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_every_bullet_was_said(
            bodies in prop::collection::vec("([a-zä]{2,9} ){4,12}[a-z]{3}\\. ([A-Z][a-z]{2,9} ){4,9}end\\.", 0..6),
            limit in 0_usize..400,
        ) {
            let results: Vec<Hit> = bodies.iter().map(|body| Hit::new("", "", body.as_str())).collect();
            let summary = extract(&Task::new("some task"), "", &results, limit);
            prop_assert!(summary.chars().count() <= limit);
            for line in summary.lines() {
                let sentence = line.strip_prefix("- ").unwrap();
                prop_assert!(bodies.iter().any(|body| body.contains(sentence)), "{sentence}");
            }
        }
    }
}
