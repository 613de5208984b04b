//! The specification's own arithmetic, to the letter: novelty as the share of new words, the first summary, the overlap
//! of a snippet with it. For conformance, and for loops that have always worked so.
//!
//! | rule | where it fails | what the default does |
//! |---|---|---|
//! | new words against a summary of at most 1,500 characters | the same results again score 3 to 8 of 10: the gate cannot close | [`super::claims`]: claims against everything accepted |
//! | against all words ever seen instead | unrelated text falls below 3 after some twenty rounds | the same |

use rustc_hash::FxHashSet;

use super::hit::Hit;

/// Characters of results that become the first summary.
pub(crate) const FIRST_SUMMARY_CHARS: usize = 1200;
/// The longest summary.
pub(crate) const SUMMARY_CHARS: usize = 1500;
/// A page is not read when more than this share of its snippet's words is known.
pub(crate) const ENRICH_OVERLAP: f64 = 0.6;

/// The share of the results' words that the summary does not have; 0 for results without words.
pub(crate) fn novel_fraction(results: &[Hit], summary: &str) -> f64 {
    let texts: Vec<String> = results.iter().map(|hit| hit.snippet.to_lowercase()).collect();
    let new: FxHashSet<&str> = texts.iter().flat_map(|text| words(text)).collect();
    if new.is_empty() {
        return 0.0;
    }
    let summary = summary.to_lowercase();
    let known: FxHashSet<&str> = words(&summary).collect();
    new.difference(&known).count() as f64 / new.len() as f64
}

/// A share as a score from 0 to 10. Halves go to the even number, as the specification's language rounds: 0.25 is 2.
pub(crate) fn score_of(fraction: f64) -> u8 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=10 before"
    )]
    let score = (fraction * 10.0).round_ties_even().clamp(0.0, 10.0) as u8;
    score
}

/// The summary after the first accepted round: the results' words as they come, cut. Later summaries need a model.
pub(crate) fn first_summary(results: &[Hit], max_chars: usize) -> String {
    let mut bodies = String::new();
    for (number, hit) in results.iter().enumerate() {
        if number > 0 {
            bodies.push(' ');
        }
        bodies.push_str(&hit.snippet);
    }
    bodies.chars().take(FIRST_SUMMARY_CHARS.min(max_chars)).collect()
}

/// The share of a snippet's words that the summary has.
pub fn overlap(snippet: &str, summary: &str) -> f64 {
    let (snippet, summary) = (snippet.to_lowercase(), summary.to_lowercase());
    let snippet: FxHashSet<&str> = words(&snippet).collect();
    let known: FxHashSet<&str> = words(&summary).collect();
    snippet.intersection(&known).count() as f64 / snippet.len().max(1) as f64
}

/// Words between white space of a text in lower case, punctuation included. The four separators U+001C to U+001F count
/// as white space in the specification's language and not in Unicode.
fn words(lower: &str) -> impl Iterator<Item = &str> {
    lower
        .split(|c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn results(bodies: &[&str]) -> Vec<Hit> {
        bodies.iter().map(|body| Hit::new("", "", *body)).collect()
    }

    // Oracle: the specification's `assess_novelty_heuristic` run with CPython 3.11 on the same arguments.
    #[test]
    fn scores_are_those_of_the_specification() {
        for (bodies, summary, fraction, score) in [
            (vec!["a b c d"], "", 1.0, 10),
            (vec!["a b c d"], "a b c d", 0.0, 0),
            (vec!["A b, c d"], "a B c", 0.5, 5),
            (vec!["a b c d"], "a b c", 0.25, 2),
            (vec!["a b c d"], "a", 0.75, 8),
            (vec!["a b", "b c d"], "c", 0.75, 8),
            (
                vec!["a b c d e f g h i j k l m n o p q r s t"],
                "a b c d e f g h i j k l m n o",
                0.25,
                2,
            ),
            (
                vec!["a b c d e f g h i j k l m n o p q r s t"],
                "a b c d e f g h i j k l m",
                0.35,
                4,
            ),
            (
                vec!["a b c d e f g h i j k l m n o p q r s t"],
                "a b c d e f g h i",
                0.55,
                6,
            ),
            (
                vec!["a b c d e f g h i j k l m n o p q r s t"],
                "a b c d e f g",
                0.65,
                6,
            ),
            (vec![], "a", 0.0, 0),
            (vec!["", " \n"], "a", 0.0, 0),
            (vec!["x\u{1c}y"], "x", 0.5, 5),
            (vec!["ΟΔΟΣ"], "οδος", 0.0, 0),
        ] {
            let found = novel_fraction(&results(&bodies), summary);
            assert!((found - fraction).abs() < 1e-12, "{bodies:?} {summary}: {found}");
            assert_eq!(score_of(found), score, "{bodies:?} {summary}");
        }
    }

    #[test]
    fn halves_go_to_the_even_number() {
        let scores: Vec<u8> = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
            .map(score_of)
            .to_vec();
        // [round(x * 10) for x in (.05, .15, ...)] in CPython: the products are the nearest doubles, so is the rounding.
        assert_eq!(scores, [0, 2, 2, 4, 4, 6, 6, 8, 8, 10]);
    }

    #[test]
    fn the_first_summary_is_cut_at_1200_characters() {
        let long = "ä".repeat(900);
        let summary = first_summary(&results(&[&long, &long]), SUMMARY_CHARS);
        assert_eq!(summary.chars().count(), 1200);
        assert!(summary.contains("ä ä"));
        assert_eq!(
            first_summary(&results(&[&long]), 100).chars().count(),
            100,
            "a smaller cap counts"
        );
    }

    /// What is wrong with the rule, measured: the identical results are called new.
    #[test]
    fn identical_results_of_ordinary_size_never_look_old() {
        let body = |result: usize| {
            (0..120)
                .map(|word| format!("w{}", result * 120 + word))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let again: Vec<Hit> = (0..5).map(|result| Hit::new("", "", body(result))).collect();
        let summary = first_summary(&again, SUMMARY_CHARS);
        assert!(score_of(novel_fraction(&again, &summary)) >= 3);
    }

    proptest! {
        #[test]
        fn a_share_stays_a_share(bodies in prop::collection::vec("\\PC{0,30}", 0..5), summary in "\\PC{0,60}") {
            let bodies: Vec<Hit> = bodies.into_iter().map(|body| Hit::new("", "", body)).collect();
            let fraction = novel_fraction(&bodies, &summary);
            prop_assert!((0.0..=1.0).contains(&fraction));
            prop_assert!(score_of(fraction) <= 10);
        }
    }
}
