//! Annotation by several people: the next item, progress, and consensus. The order hides ranks and systems.
//! Progress is derived from the recorded annotations, so that annotators can resume at any time.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::fast_parse::hash;

/// A query with the results to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolEntry {
    /// Id of the query.
    pub query_id: String,
    /// Ids of the results of any system.
    pub memory_ids: BTreeSet<String>,
}

/// An annotation of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Id of the query.
    pub query_id: String,
    /// Id of the result.
    pub memory_id: String,
    /// Name of the annotator.
    pub annotator: String,
    /// Grade; `None` if the annotator skipped the result.
    pub grade: Option<i32>,
}

/// Settings of an annotation session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnnotationSettings {
    /// Name of the annotator.
    pub annotator: String,
    /// Share of queries judged by two annotators, 0 to 1, for measuring agreement.
    pub double: f64,
    /// Seed of the order and of the selection of double judgments; must be the same for all annotators.
    pub seed: u64,
}

/// Next item to annotate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnnotationItem {
    /// Id of the query.
    pub query_id: String,
    /// Id of the result.
    pub memory_id: String,
    /// Position among the results of the query for this annotator, from 1.
    pub position: usize,
    /// Number of results of the query for this annotator.
    pub of: usize,
    /// Whether two annotators judge the query.
    pub double: bool,
}

/// Progress of an annotation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnnotationProgress {
    /// Number of queries with results to judge.
    pub queries: usize,
    /// Number of results to judge.
    pub results: usize,
    /// Number of results with enough judgments.
    pub judged: usize,
    /// Number of results judged by this annotator.
    pub yours: usize,
    /// Number of results skipped by this annotator.
    pub skipped: usize,
    /// Number of results left for this annotator.
    pub waiting: usize,
    /// Number of results to be judged by two annotators.
    pub double: usize,
}

/// Consensus of several annotators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Consensus {
    /// Median grade; the lower one of an even number.
    pub grade: i32,
    /// Share of the annotators that gave this grade, 0 to 1.
    pub confidence: f64,
}

/// Returns the next result for an annotator, query by query, skipping results with enough judgments.
pub fn next_annotation(
    pools: &[PoolEntry],
    annotations: &[Said],
    settings: &AnnotationSettings,
) -> Option<AnnotationItem> {
    let answers = PairAnswers::new(annotations, &settings.annotator);
    let mut order: Vec<&PoolEntry> = pools.iter().collect();
    // Annotators who work in parallel start with different queries.
    let key = |pool: &PoolEntry| random_key(settings.seed, &[&settings.annotator, &pool.query_id]);
    order.sort_by_key(|pool| (!answers.began(&pool.query_id), key(pool), pool.query_id.clone()));
    order.into_iter().find_map(|pool| {
        let double = is_double(&pool.query_id, settings);
        let mut results: Vec<&String> = pool.memory_ids.iter().collect();
        results.sort_by_key(|memory| {
            (
                random_key(settings.seed, &[&pool.query_id, memory]),
                memory.as_str(),
            )
        });
        let asked: Vec<&String> = results
            .into_iter()
            .filter(|memory| {
                let pair = (pool.query_id.as_str(), memory.as_str());
                answers.mine.contains_key(&pair) || answers.is_pending(pair, double)
            })
            .collect();
        let of = asked.len();
        let at = asked
            .iter()
            .position(|memory| answers.is_pending((&pool.query_id, memory), double))?;
        Some(AnnotationItem {
            query_id: pool.query_id.clone(),
            memory_id: (*asked.get(at)?).clone(),
            position: at + 1,
            of,
            double,
        })
    })
}

/// Returns the progress of an annotator and of the corpus.
pub fn annotation_progress(
    pools: &[PoolEntry],
    annotations: &[Said],
    settings: &AnnotationSettings,
) -> AnnotationProgress {
    let answers = PairAnswers::new(annotations, &settings.annotator);
    let mut progress = AnnotationProgress::default();
    for pool in pools.iter().filter(|pool| !pool.memory_ids.is_empty()) {
        let double = is_double(&pool.query_id, settings);
        progress.queries += 1;
        for memory in &pool.memory_ids {
            let pair = (pool.query_id.as_str(), memory.as_str());
            let mine = answers.mine.get(&pair).copied();
            let graded = answers.others.get(&pair).copied().unwrap_or(0) + usize::from(mine == Some(true));
            progress.results += 1;
            progress.double += usize::from(double);
            progress.judged += usize::from(graded > usize::from(double));
            progress.yours += usize::from(mine == Some(true));
            progress.skipped += usize::from(mine == Some(false));
            progress.waiting += usize::from(answers.is_pending(pair, double));
        }
    }
    progress
}

/// Returns the consensus of grades; `None` without grades.
pub fn consensus(grades: &[i32]) -> Option<Consensus> {
    let mut sorted = grades.to_vec();
    sorted.sort_unstable();
    let grade = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    let same = sorted.iter().filter(|other| **other == grade).count();
    Some(Consensus {
        grade,
        confidence: same as f64 / sorted.len() as f64,
    })
}

/// Annotations from the point of view of one annotator.
struct PairAnswers<'a> {
    /// Whether the annotator gave a grade, by query and result.
    mine: BTreeMap<(&'a str, &'a str), bool>,
    /// Number of grades by other annotators.
    others: BTreeMap<(&'a str, &'a str), usize>,
    began: BTreeSet<&'a str>,
}

impl<'a> PairAnswers<'a> {
    fn new(annotations: &'a [Said], annotator: &str) -> Self {
        let mut answers = Self {
            mine: BTreeMap::new(),
            others: BTreeMap::new(),
            began: BTreeSet::new(),
        };
        for annotation in annotations {
            let pair = (annotation.query_id.as_str(), annotation.memory_id.as_str());
            if annotation.annotator == annotator {
                answers.mine.insert(pair, annotation.grade.is_some());
                answers.began.insert(&annotation.query_id);
            } else if annotation.grade.is_some() {
                *answers.others.entry(pair).or_default() += 1;
            }
        }
        answers
    }

    fn began(&self, query: &str) -> bool {
        self.began.contains(query)
    }

    fn is_pending(&self, pair: (&str, &str), double: bool) -> bool {
        let enough = self
            .others
            .get(&pair)
            .is_some_and(|others| *others > usize::from(double));
        !self.mine.contains_key(&pair) && !enough
    }
}

fn is_double(query: &str, settings: &AnnotationSettings) -> bool {
    f64::from(hash(format!("{}/double/{query}", settings.seed).as_bytes()))
        < settings.double * (f64::from(u32::MAX) + 1.0)
}

fn random_key(seed: u64, parts: &[&str]) -> u32 {
    hash(format!("{seed}/{}", parts.join("/")).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(queries: usize, results: usize) -> Vec<PoolEntry> {
        (0..queries)
            .map(|query| PoolEntry {
                query_id: format!("q{query:02}"),
                memory_ids: (0..results).map(|result| format!("m{result:02}")).collect(),
            })
            .collect()
    }

    fn settings(annotator: &str, double: f64) -> AnnotationSettings {
        AnnotationSettings {
            annotator: annotator.into(),
            double,
            seed: 3,
        }
    }

    fn say(item: &AnnotationItem, annotator: &str, grade: Option<i32>) -> Said {
        Said {
            query_id: item.query_id.clone(),
            memory_id: item.memory_id.clone(),
            annotator: annotator.into(),
            grade,
        }
    }

    #[test]
    fn items_come_query_by_query_until_nothing_is_left() {
        let pools = pools(5, 6);
        let ann = settings("ann", 0.0);
        let mut annotations = Vec::new();
        let mut queries: Vec<String> = Vec::new();
        let mut orders: Vec<String> = Vec::new();
        while let Some(item) = next_annotation(&pools, &annotations, &ann) {
            assert_eq!(
                annotation_progress(&pools, &annotations, &ann).waiting,
                30 - annotations.len()
            );
            if queries.last() != Some(&item.query_id) {
                queries.push(item.query_id.clone());
            }
            orders.push(item.memory_id.clone());
            assert_eq!((item.position, item.of), (annotations.len() % 6 + 1, 6));
            annotations.push(say(&item, "ann", Some(1)));
        }
        assert_eq!((annotations.len(), queries.len()), (30, 5));
        // The order is neither that of the queries nor of the results.
        assert!(!queries.is_sorted() && !orders[..6].is_sorted());
        let progress = annotation_progress(&pools, &annotations, &ann);
        assert_eq!((progress.judged, progress.yours, progress.waiting), (30, 30, 0));
    }

    #[test]
    fn two_annotators_share_the_work_and_both_judge_doubles() {
        let pools = pools(40, 2);
        let (ann, bo) = (settings("ann", 0.3), settings("bo", 0.3));
        let double = annotation_progress(&pools, &[], &ann).double;
        assert!((8..=40).contains(&double), "{double}");
        let mut annotations = Vec::new();
        loop {
            let before = annotations.len();
            for who in [&ann, &bo] {
                if let Some(item) = next_annotation(&pools, &annotations, who) {
                    annotations.push(say(&item, &who.annotator, Some(2)));
                }
            }
            if annotations.len() == before {
                break;
            }
        }
        assert_eq!(annotations.len(), 80 + double);
        let progress = annotation_progress(&pools, &annotations, &ann);
        assert_eq!((progress.judged, progress.waiting), (80, 0));
        assert_eq!(
            progress.yours + annotation_progress(&pools, &annotations, &bo).yours,
            80 + double
        );
        // Nothing is left for a third annotator.
        assert_eq!(next_annotation(&pools, &annotations, &settings("cy", 0.3)), None);
    }

    #[test]
    fn a_skipped_result_is_only_shown_to_other_annotators() {
        let pools = pools(1, 1);
        let item = next_annotation(&pools, &[], &settings("ann", 0.0)).unwrap();
        let annotations = [say(&item, "ann", None)];
        assert_eq!(next_annotation(&pools, &annotations, &settings("ann", 0.0)), None);
        assert!(next_annotation(&pools, &annotations, &settings("bo", 0.0)).is_some());
        let progress = annotation_progress(&pools, &annotations, &settings("ann", 0.0));
        assert_eq!((progress.judged, progress.skipped, progress.waiting), (0, 1, 0));
    }

    #[test]
    fn a_started_query_is_finished_first() {
        let pools = pools(20, 3);
        let ann = settings("ann", 0.0);
        for pool in &pools {
            let begun = Said {
                query_id: pool.query_id.clone(),
                memory_id: "m01".into(),
                annotator: "ann".into(),
                grade: Some(3),
            };
            let item = next_annotation(&pools, &[begun], &ann).unwrap();
            assert_eq!(item.query_id, pool.query_id);
        }
    }

    #[test]
    fn consensus_is_the_lower_median() {
        for (grades, expected) in [
            (vec![2], Some((2, 1.0))),
            (vec![1, 3], Some((1, 0.5))),
            (vec![3, 0, 3], Some((3, 2.0 / 3.0))),
            (vec![], None),
        ] {
            let found = consensus(&grades).map(|found| (found.grade, found.confidence));
            assert_eq!(found, expected, "{grades:?}");
        }
    }
}
