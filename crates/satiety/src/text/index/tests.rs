//! Compares the index with the definition: compare with everything, keep the best.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// All matches by definition, best first, earlier ones first on ties.
fn naive(seen: &[BTreeSet<String>], asked: &BTreeSet<String>, threshold: Threshold) -> Vec<Match> {
    let mut found: Vec<Match> = seen
        .iter()
        .enumerate()
        .filter_map(|(id, set)| {
            let overlap = count(set.intersection(asked).count());
            let union = count(set.union(asked).count());
            let candidate = Match {
                id: count(id),
                overlap,
                union,
            };
            threshold
                .is_reached_by(candidate.overlap, candidate.union)
                .then_some(candidate)
        })
        .collect();
    found.sort_by(|a, b| {
        let (left, right) = (a.overlap * b.union, b.overlap * a.union);
        right.cmp(&left).then(a.id.cmp(&b.id))
    });
    found
}

fn check_stream(texts: &[String], threshold: f64, tokenization: Tokenization) {
    let mut index = JaccardIndex::new(threshold, tokenization).unwrap();
    let mut observed = index.clone();
    let mut seen = Vec::new();
    for (id, text) in texts.iter().enumerate() {
        let set = tokenization.set(text);
        let expected = naive(&seen, &set, index.threshold());
        assert_eq!(
            index.best_match(text),
            expected.first().copied(),
            "{text:?} at {threshold}"
        );
        assert_eq!(index.matches(text), expected, "{text:?} at {threshold}");
        assert_eq!(
            observed.observe(text),
            (expected.first().copied(), count(id)),
            "{text:?} at {threshold}"
        );
        assert_eq!(index.insert(text), count(id));
        seen.push(set);
    }
}

const THRESHOLDS: [f64; 7] = [0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 1.0];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn matches_exhaustive_comparison(
        // Few words, so that every degree of overlap occurs, including ties and exact repeats.
        texts in proptest::collection::vec(proptest::collection::vec("[a-l]", 0..14), 1..30),
        which in 0..THRESHOLDS.len(),
    ) {
        let texts: Vec<String> = texts.iter().map(|words| words.join(" ")).collect();
        check_stream(&texts, THRESHOLDS[which], Tokenization::Words);
    }

    #[test]
    fn any_text_and_any_threshold(
        texts in proptest::collection::vec("\\PC{0,24}", 1..12),
        threshold in 0.01..=1.0_f64,
    ) {
        check_stream(&texts, threshold, Tokenization::Words);
        check_stream(&texts, threshold, Tokenization::Whitespace);
    }

    #[test]
    fn edited_copies_of_long_statements(
        base in proptest::collection::vec("[a-z]{1,2}", 60..90),
        edits in proptest::collection::vec((0..60_usize, "[a-z]{1,2}"), 0..40),
        which in 0..THRESHOLDS.len(),
    ) {
        // 63 words at 0.8 is where ⌈t/(1+t)·n⌉ in floating point is one too high.
        let mut texts = vec![base.join(" ")];
        let mut words = base;
        for (position, word) in edits {
            words[position] = word;
            texts.push(words.join(" "));
        }
        check_stream(&texts, THRESHOLDS[which], Tokenization::Words);
    }
}

#[test]
fn pairs_exactly_on_the_bound_are_found_at_every_size() {
    for (threshold, part, whole) in [
        (0.6, 3, 5),
        (0.8, 4, 5),
        (0.55, 11, 20),
        (0.4, 2, 5),
        (0.7, 7, 10),
    ] {
        for scale in 1..8 {
            let first: Vec<String> = (0..part * scale).map(|n| format!("w{n}")).collect();
            let second: Vec<String> = (0..whole * scale).map(|n| format!("w{n}")).collect();
            for (earlier, later) in [(&first, &second), (&second, &first)] {
                let mut index = JaccardIndex::new(threshold, Tokenization::Words).unwrap();
                index.insert(&earlier.join(" "));
                let found = index
                    .best_match(&later.join(" "))
                    .map(|found| (found.overlap, found.union));
                assert_eq!(found, Some((part * scale, whole * scale)), "{threshold} x{scale}");
            }
        }
    }
}

#[test]
fn the_earliest_of_equal_matches_wins() {
    let mut index = JaccardIndex::new(0.5, Tokenization::Words).unwrap();
    index.insert("a b c d");
    index.insert("a b c e");
    index.insert("a b c d");
    assert_eq!(index.best_match("a b c d").unwrap().id, 0);
    assert_eq!(index.best_match("a b c x").unwrap().id, 0);
    assert_eq!(
        index
            .matches("a b c d")
            .iter()
            .map(|found| found.id)
            .collect::<Vec<_>>(),
        [0, 2, 1]
    );
}

#[test]
fn statements_without_words_match_nothing() {
    let mut index = JaccardIndex::new(0.4, Tokenization::Words).unwrap();
    assert_eq!(index.observe("?!"), (None, 0));
    assert_eq!(index.observe("..."), (None, 1));
    assert_eq!(index.best_match(""), None);
    assert_eq!(index.len(), 2);
}

#[test]
fn statements_longer_than_a_posting_can_count() {
    let words: Vec<String> = (0..70_000).map(|n| format!("w{n}")).collect();
    let mut index = JaccardIndex::new(0.6, Tokenization::Words).unwrap();
    index.insert(&words.join(" "));
    index.insert(&words[..66_000].join(" "));
    let found = index.best_match(&words[3_000..].join(" ")).unwrap();
    assert_eq!((found.id, found.overlap, found.union), (0, 67_000, 70_000));
}
