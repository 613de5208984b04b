//! Literal arithmetic of the specification: novelty as the share of new words, the first summary, and the
//! overlap of a snippet with it. For conformance, and for loops that already depend on it.
//!
//! | rule | where it fails | what the default does |
//! |---|---|---|
//! | new words compared with a summary of at most 1,500 characters | repeated results still score 3 to 8 of 10, so the gate never stops | [`super::claims`]: compares claims with everything accepted |
//! | new words compared with all words so far | unrelated text falls below 3 after about twenty rounds | the same |

use rustc_hash::FxHashSet;

use super::hit::Hit;

/// Characters of results that form the first summary.
pub(crate) const FIRST_SUMMARY_CHARS: usize = 1200;
/// Maximum length of a summary in characters.
pub(crate) const SUMMARY_CHARS: usize = 1500;
/// Characters of the results that a model summarizes.
pub(super) const SUMMARISED_CHARS: usize = 800;
/// A page is not read when more than this share of its snippet's words is known.
pub(crate) const ENRICH_OVERLAP: f64 = 0.6;

/// Share of the results' words that the summary does not contain; 0 for results without words.
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

/// Converts a share to a score from 0 to 10. Halves round to even, as in the specification's language: 0.25
/// is 2.
pub(crate) fn score_of(fraction: f64) -> u8 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=10 above"
    )]
    let score = (fraction * 10.0).round_ties_even().clamp(0.0, 10.0) as u8;
    score
}

/// Summary after the first accepted round: the start of the results' text. Later summaries need a model.
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

/// Share of a snippet's words that the summary contains.
pub fn overlap(snippet: &str, summary: &str) -> f64 {
    let (snippet, summary) = (snippet.to_lowercase(), summary.to_lowercase());
    let snippet: FxHashSet<&str> = words(&snippet).collect();
    let known: FxHashSet<&str> = words(&summary).collect();
    snippet.intersection(&known).count() as f64 / snippet.len().max(1) as f64
}

/// Whitespace-separated words of a lower-case text, punctuation included. The separators U+001C to U+001F are
/// whitespace in the specification's language and not in Unicode.
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
    fn scores_match_the_specification() {
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
    fn halves_round_to_even() {
        let scores: Vec<u8> = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
            .map(score_of)
            .to_vec();
        // [round(x * 10) for x in (.05, .15, ...)] in CPython: the products are the nearest doubles, so is the rounding.
        assert_eq!(scores, [0, 2, 2, 4, 4, 6, 6, 8, 8, 10]);
    }

    #[test]
    fn the_first_summary_is_truncated_at_1200_characters() {
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

    /// Demonstrates the defect of the rule: identical results count as new.
    #[test]
    fn identical_results_of_ordinary_size_score_as_new() {
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
        fn shares_stay_between_zero_and_one(bodies in prop::collection::vec("\\PC{0,30}", 0..5), summary in "\\PC{0,60}") {
            let bodies: Vec<Hit> = bodies.into_iter().map(|body| Hit::new("", "", body)).collect();
            let fraction = novel_fraction(&bodies, &summary);
            prop_assert!((0.0..=1.0).contains(&fraction));
            prop_assert!(score_of(fraction) <= 10);
        }
    }
}
