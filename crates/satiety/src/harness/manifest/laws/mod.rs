//! Properties of the ratchet on random harnesses: every single weakening is found, every strengthening
//! passes, and after any series of accepted changes the last harness is at least as rigorous as each one
//! before it, both by the order itself and by an independent oracle that tries answers.

pub(in crate::harness) mod edits;
pub(in crate::harness) mod random;
mod stronger;
pub(in crate::harness) mod weaker;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use self::random::{Dice, harness};
use self::stronger::{NEUTRAL, STRONGER};
use self::weaker::WEAKER;
use super::*;
use crate::bench::matching::{Answers, Observed, assess};
use crate::bench::run::Status;

/// Returns, for each input, the answers that some enabled case rejects.
fn rejected_answers(manifest: &Manifest) -> BTreeMap<&str, BTreeSet<(usize, usize)>> {
    let answers = ["", "w0", "w1", "w0 w1", "w1 w2", "w0 w1 w2", "5", "5.3"];
    let mut wrong: BTreeMap<&str, BTreeSet<(usize, usize)>> = BTreeMap::new();
    for (_, _, case) in manifest.cases().filter(|(_, _, case)| case.enabled) {
        let entry = wrong.entry(&case.input_hash).or_default();
        for (index, answer) in answers.iter().enumerate() {
            for (world, (latency, judged)) in [(80.0, 0.65), (95.0, 0.75), (120.0, 0.95)]
                .into_iter()
                .enumerate()
            {
                let observed = Observed {
                    output: json!(answer),
                    metrics: [("latency_ms".to_owned(), latency)].into(),
                };
                let answers = Answers {
                    judged: ["", "0", "1", "0.0", "1.0", "0.1", "1.1"]
                        .map(|place| (place.to_owned(), judged))
                        .into(),
                    ..Answers::default()
                };
                if assess(&case.expected, &observed, &answers).status == Status::Fail {
                    entry.insert((index, world));
                }
            }
        }
    }
    wrong
}

/// Returns the objections of the oracle: fewer cases, or an answer that is no longer rejected, except for
/// inputs whose case was retired.
fn objections(old: &Manifest, new: &Manifest) -> Vec<String> {
    let run = |manifest: &Manifest| manifest.cases().filter(|(_, _, case)| case.enabled).count();
    let mut objections = Vec::new();
    if run(new) < run(old) {
        objections.push(format!("{} cases are enabled, {} before", run(new), run(old)));
    }
    let retired: BTreeSet<&str> = new
        .retired
        .values()
        .map(|record| record.input_hash.as_str())
        .collect();
    let now = rejected_answers(new);
    for (input, wrong) in rejected_answers(old) {
        if !retired.contains(input) && !now.get(input).is_some_and(|now| wrong.is_subset(now)) {
            objections.push(format!("{input} rejects fewer answers"));
        }
    }
    objections
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_single_weakening_of_a_random_harness_is_found(seed in any::<u64>()) {
        let old = harness(&mut Dice::new(seed));
        prop_assert!(compare(&old, &old).unwrap().admissible);
        for (index, (name, edit)) in WEAKER.iter().enumerate() {
            let mut new = old.clone();
            if edit(&mut new, &mut Dice::new(seed ^ (index as u64 + 1))) {
                let diff = compare(&old, &new).unwrap();
                prop_assert!(!diff.admissible, "{}: {:?}", name, diff.changes);
                prop_assert!(diff.objections().count() > 0);
            }
        }
    }

    #[test]
    fn every_strengthening_of_a_random_harness_passes(seed in any::<u64>()) {
        let old = harness(&mut Dice::new(seed));
        for (index, (name, edit)) in STRONGER.iter().chain(NEUTRAL).enumerate() {
            let mut new = old.clone();
            if edit(&mut new, &mut Dice::new(seed ^ (index as u64 + 1))) {
                let diff = compare(&old, &new).unwrap();
                prop_assert!(diff.admissible, "{}: {:?}", name, diff.objections().collect::<Vec<_>>());
                prop_assert_eq!(objections(&old, &new), Vec::<String>::new(), "{}", name);
                if index < STRONGER.len() {
                    prop_assert!(diff.count(Rigor::Harder) > 0, "{}: {:?}", name, diff.changes);
                    prop_assert!(!compare(&new, &old).unwrap().admissible, "{} can be undone", name);
                }
            }
        }
    }

    /// Steps of one to three random edits of any kind, in any order; accepted steps are applied. Every
    /// harness of the series must be at least as rigorous as every earlier one: the order is transitive.
    #[test]
    fn no_series_of_accepted_changes_weakens_a_random_harness(
        seed in any::<u64>(),
        steps in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..4), 1..14),
    ) {
        let edits: Vec<_> = STRONGER.iter().chain(NEUTRAL).chain(NEUTRAL).chain(WEAKER).collect();
        let mut series = vec![harness(&mut Dice::new(seed))];
        for step in steps {
            let current = series.last().unwrap();
            let mut next = current.clone();
            for (edit, seed) in step {
                (edits[edit.index(edits.len())].1)(&mut next, &mut Dice::new(seed));
            }
            if !compare(current, &next).unwrap().admissible {
                continue;
            }
            for earlier in &series {
                let whole = compare(earlier, &next).unwrap();
                prop_assert!(whole.admissible, "{:?}", whole.objections().collect::<Vec<_>>());
                prop_assert_eq!(objections(earlier, &next), Vec::<String>::new());
            }
            series.push(next);
        }
    }
}

/// The edits apply to most random harnesses, so that the properties above are not vacuous.
#[test]
fn every_edit_applies_somewhere() {
    for (name, edit) in WEAKER.iter().chain(STRONGER).chain(NEUTRAL) {
        let applied = (0..60)
            .filter(|&seed| {
                let mut manifest = harness(&mut Dice::new(seed));
                edit(&mut manifest, &mut Dice::new(seed + 1_000))
            })
            .count();
        assert!(applied >= 5, "{name} applies to {applied} of 60");
    }
}
