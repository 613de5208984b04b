//! Outcome of a result list, graded by judgments or by how the caller used the results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::FeedbackKind;

/// Minimum grade of a relevant memory.
pub const RELEVANT: i32 = 2;
/// Number of results considered by the reciprocal rank, about as many as an agent reads.
const MRR_DEPTH: usize = 5;
/// Number of results considered by the nDCG.
const NDCG_DEPTH: usize = 10;

/// Quality of a result list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Reciprocal rank of the first relevant result among the first five; 0 without one.
    pub mrr: f64,
    /// Normalized discounted cumulative gain of the first ten results, with gain 2^grade − 1.
    pub ndcg: f64,
}

/// A feedback event about a result; events are ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used<'a> {
    /// Id of the memory.
    pub memory_id: &'a str,
    /// Kind of feedback that was given.
    pub kind: FeedbackKind,
}

/// Derives grades from usage, as in the specification: 3 for memories marked useful, 2 for memories that were
/// read or quoted, 0 for memories marked useless; the last of several judgments counts. Memories that were
/// skipped or ignored get no grade, and neither does a repeated query, because it does not name the memory
/// that should have been found.
pub fn grades_from_usage<'a>(events: impl IntoIterator<Item = Used<'a>>) -> BTreeMap<String, i32> {
    let mut validated: BTreeMap<&str, i32> = BTreeMap::new();
    let mut used: BTreeMap<String, i32> = BTreeMap::new();
    for event in events {
        match event.kind {
            FeedbackKind::ValidateUseful => {
                validated.insert(event.memory_id, 3);
            }
            FeedbackKind::ValidateNotUseful => {
                validated.insert(event.memory_id, 0);
            }
            FeedbackKind::ReadAfterSearch | FeedbackKind::Reference => {
                used.insert(event.memory_id.to_owned(), 2);
            }
            FeedbackKind::ScrollPast | FeedbackKind::ReSearch => {}
        }
    }
    used.extend(validated.into_iter().map(|(id, grade)| (id.to_owned(), grade)));
    used
}

/// Computes the outcome of a list from grades. Returns `None` when no memory is relevant, because then no
/// list could be better than another.
pub fn outcome<S: AsRef<str>>(results: &[S], grades: &BTreeMap<String, i32>) -> Option<Outcome> {
    if !grades.values().any(|grade| *grade >= RELEVANT) {
        return None;
    }
    let grade = |id: &S| grades.get(id.as_ref()).copied().unwrap_or(0);
    let first = results
        .iter()
        .take(MRR_DEPTH)
        .position(|id| grade(id) >= RELEVANT);
    let mut ideal: Vec<i32> = grades.values().copied().collect();
    ideal.sort_unstable_by(|a, b| b.cmp(a));
    let found = gain(results.iter().take(NDCG_DEPTH).map(grade));
    let best = gain(ideal.into_iter().take(NDCG_DEPTH));
    Some(Outcome {
        mrr: first.map_or(0.0, |position| 1.0 / (position + 1) as f64),
        // The ideal gain is positive, because a memory is relevant; rounding must not lift the ratio above 1.
        ndcg: (found / best).min(1.0),
    })
}

fn gain(grades: impl Iterator<Item = i32>) -> f64 {
    let ranked = grades.enumerate();
    ranked
        .map(|(position, grade)| {
            (f64::from(grade.clamp(0, 60)).exp2() - 1.0) / (position as f64 + 2.0).log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::retrieval::{EvaluationOptions, Measure, OrderOptions, QrelsReader, RunReader, evaluate};

    #[test]
    fn usage_is_graded_as_specified() {
        use FeedbackKind::{
            ReSearch, ReadAfterSearch, Reference, ScrollPast, ValidateNotUseful, ValidateUseful,
        };
        let events = [
            ("read", ReadAfterSearch),
            ("said", Reference),
            ("useful", ValidateUseful),
            ("useless", ValidateNotUseful),
            ("read-but-useless", ReadAfterSearch),
            ("read-but-useless", ValidateNotUseful),
            ("changed", ValidateNotUseful),
            ("changed", ValidateUseful),
            ("useful", ReadAfterSearch),
            ("passed", ScrollPast),
            ("asked-again", ReSearch),
        ];
        let grades = grades_from_usage(events.map(|(memory_id, kind)| Used { memory_id, kind }));
        let expected = [
            ("changed", 3),
            ("read", 2),
            ("read-but-useless", 0),
            ("said", 2),
            ("useful", 3),
            ("useless", 0),
        ];
        assert_eq!(grades, expected.map(|(id, grade)| (id.to_owned(), grade)).into());
    }

    #[test]
    fn without_relevant_memories_there_is_no_outcome() {
        let nothing = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 0)]);
        assert_eq!(outcome(&["a", "b"], &nothing), None);
        let one = BTreeMap::from([("a".to_owned(), 2)]);
        assert!(outcome(&["x", "y", "z", "u", "v", "a"], &one).unwrap().mrr.abs() < 1e-12);
        assert_eq!(outcome::<&str>(&[], &one), Some(Outcome { mrr: 0.0, ndcg: 0.0 }));
        assert_eq!(outcome(&["a"], &one), Some(Outcome { mrr: 1.0, ndcg: 1.0 }));
    }

    proptest! {
        /// The outcome agrees with the offline evaluation of files.
        #[test]
        fn agrees_with_the_evaluation(
            grades in proptest::collection::btree_map(0u8..20, 0i32..=3, 1..15),
            order in proptest::collection::vec(0u8..20, 1..20),
        ) {
            let mut seen = std::collections::BTreeSet::new();
            let list: Vec<String> = order.into_iter().filter(|id| seen.insert(*id)).map(|id| format!("m{id}")).collect();
            let grades: BTreeMap<String, i32> = grades.into_iter().map(|(id, grade)| (format!("m{id}"), grade)).collect();
            let mut qrels = QrelsReader::trec();
            for (id, grade) in &grades {
                qrels.push(format!("q 0 {id} {grade}\n").as_bytes()).unwrap();
            }
            let mut run = RunReader::trec();
            for (rank, id) in list.iter().enumerate() {
                run.push(format!("q Q0 {id} {} {} t\n", rank + 1, 100 - rank).as_bytes()).unwrap();
            }
            let order = OrderOptions::default();
            let measures: Vec<Measure> = ["mrr@5", "ndcg@10"].iter().map(|name| name.parse().unwrap()).collect();
            let found = evaluate(
                &qrels.finish(order).unwrap(), &run.finish(order).unwrap(), &measures, &EvaluationOptions::default(),
            );
            let row = found.row(0);
            if let Some(outcome) = outcome(&list, &grades) {
                prop_assert!((outcome.mrr - row[0].unwrap()).abs() < 1e-12);
                prop_assert!((outcome.ndcg - row[1].unwrap()).abs() < 1e-9);
            } else {
                prop_assert_eq!(row[0], None);
            }
        }
    }
}
