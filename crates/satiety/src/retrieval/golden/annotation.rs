//! What a person is asked next, how far they are, and what several of them say together. The order tells nothing about
//! ranks or systems; where somebody stopped follows from what they said.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::fast_parse::hash;

/// A query with the results that may be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolEntry {
    /// The query.
    pub query_id: String,
    /// Results of any system, in any order.
    pub memory_ids: BTreeSet<String>,
}

/// What somebody said about a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The query.
    pub query_id: String,
    /// The result.
    pub memory_id: String,
    /// Who.
    pub annotator: String,
    /// The grade; absent where they could not say.
    pub grade: Option<i32>,
}

/// Who is asked, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnnotationSettings {
    /// Who is asked.
    pub annotator: String,
    /// The share of queries that two people judge, so that their agreement can be told.
    pub double: f64,
    /// The seed of the order, and of what is judged twice. All annotators of a corpus should have the same one.
    pub seed: u64,
}

/// What is asked next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnnotationItem {
    /// The query.
    pub query_id: String,
    /// The result.
    pub memory_id: String,
    /// Which of the query's results this is for the one who is asked, from 1.
    pub position: usize,
    /// Of how many.
    pub of: usize,
    /// Whether two people judge it.
    pub double: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnnotationProgress {
    /// Queries with results to judge.
    pub queries: usize,
    /// Results to judge.
    pub results: usize,
    /// Results that enough people have judged.
    pub judged: usize,
    /// Results that you judged.
    pub yours: usize,
    /// Results about which you could not say.
    pub skipped: usize,
    /// Results that wait for you.
    pub waiting: usize,
    /// Results that two people judge.
    pub double: usize,
}

/// What several people say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Consensus {
    /// The median grade, the lower of two in the middle.
    pub grade: i32,
    /// The share of them that gave it.
    pub confidence: f64,
}

/// The next result for an annotator: query by query, and none that enough others have judged.
pub fn next_annotation(
    pools: &[PoolEntry],
    said: &[Said],
    settings: &AnnotationSettings,
) -> Option<AnnotationItem> {
    let heard = PairAnswers::new(said, &settings.annotator);
    let mut order: Vec<&PoolEntry> = pools.iter().collect();
    // Annotators who work at the same time begin with different queries.
    let key = |pool: &PoolEntry| lot(settings.seed, &[&settings.annotator, &pool.query_id]);
    order.sort_by_key(|pool| (!heard.began(&pool.query_id), key(pool), pool.query_id.clone()));
    order.into_iter().find_map(|pool| {
        let double = is_double(&pool.query_id, settings);
        let mut results: Vec<&String> = pool.memory_ids.iter().collect();
        results.sort_by_key(|memory| (lot(settings.seed, &[&pool.query_id, memory]), memory.as_str()));
        let asked: Vec<&String> = results
            .into_iter()
            .filter(|memory| {
                let pair = (pool.query_id.as_str(), memory.as_str());
                heard.mine.contains_key(&pair) || heard.waits(pair, double)
            })
            .collect();
        let of = asked.len();
        let at = asked
            .iter()
            .position(|memory| heard.waits((&pool.query_id, memory), double))?;
        Some(AnnotationItem {
            query_id: pool.query_id.clone(),
            memory_id: (*asked.get(at)?).clone(),
            position: at + 1,
            of,
            double,
        })
    })
}

/// How far an annotator and the corpus are.
pub fn annotation_progress(
    pools: &[PoolEntry],
    said: &[Said],
    settings: &AnnotationSettings,
) -> AnnotationProgress {
    let heard = PairAnswers::new(said, &settings.annotator);
    let mut progress = AnnotationProgress::default();
    for pool in pools.iter().filter(|pool| !pool.memory_ids.is_empty()) {
        let double = is_double(&pool.query_id, settings);
        progress.queries += 1;
        for memory in &pool.memory_ids {
            let pair = (pool.query_id.as_str(), memory.as_str());
            let mine = heard.mine.get(&pair).copied();
            let graded = heard.others.get(&pair).copied().unwrap_or(0) + usize::from(mine == Some(true));
            progress.results += 1;
            progress.double += usize::from(double);
            progress.judged += usize::from(graded > usize::from(double));
            progress.yours += usize::from(mine == Some(true));
            progress.skipped += usize::from(mine == Some(false));
            progress.waiting += usize::from(heard.waits(pair, double));
        }
    }
    progress
}

/// What grades say together; nothing when there are none.
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

/// What was said, from the point of view of one annotator.
struct PairAnswers<'a> {
    /// Whether they gave a grade.
    mine: BTreeMap<(&'a str, &'a str), bool>,
    /// How many others gave one.
    others: BTreeMap<(&'a str, &'a str), usize>,
    began: BTreeSet<&'a str>,
}

impl<'a> PairAnswers<'a> {
    fn new(said: &'a [Said], annotator: &str) -> Self {
        let mut heard = Self {
            mine: BTreeMap::new(),
            others: BTreeMap::new(),
            began: BTreeSet::new(),
        };
        for one in said {
            let pair = (one.query_id.as_str(), one.memory_id.as_str());
            if one.annotator == annotator {
                heard.mine.insert(pair, one.grade.is_some());
                heard.began.insert(&one.query_id);
            } else if one.grade.is_some() {
                *heard.others.entry(pair).or_default() += 1;
            }
        }
        heard
    }

    fn began(&self, query: &str) -> bool {
        self.began.contains(query)
    }

    fn waits(&self, pair: (&str, &str), double: bool) -> bool {
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

fn lot(seed: u64, parts: &[&str]) -> u32 {
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
    fn one_by_one_query_by_query_until_nothing_waits() {
        let pools = pools(5, 6);
        let ann = settings("ann", 0.0);
        let mut said = Vec::new();
        let mut queries: Vec<String> = Vec::new();
        let mut orders: Vec<String> = Vec::new();
        while let Some(item) = next_annotation(&pools, &said, &ann) {
            assert_eq!(annotation_progress(&pools, &said, &ann).waiting, 30 - said.len());
            if queries.last() != Some(&item.query_id) {
                queries.push(item.query_id.clone());
            }
            orders.push(item.memory_id.clone());
            assert_eq!((item.position, item.of), (said.len() % 6 + 1, 6));
            said.push(say(&item, "ann", Some(1)));
        }
        assert_eq!((said.len(), queries.len()), (30, 5));
        // The order is neither that of the queries nor of the results.
        assert!(!queries.is_sorted() && !orders[..6].is_sorted());
        let progress = annotation_progress(&pools, &said, &ann);
        assert_eq!((progress.judged, progress.yours, progress.waiting), (30, 30, 0));
    }

    #[test]
    fn two_people_share_the_work_and_both_judge_what_is_double() {
        let pools = pools(40, 2);
        let (ann, bo) = (settings("ann", 0.3), settings("bo", 0.3));
        let double = annotation_progress(&pools, &[], &ann).double;
        assert!((8..=40).contains(&double), "{double}");
        let mut said = Vec::new();
        loop {
            let before = said.len();
            for who in [&ann, &bo] {
                if let Some(item) = next_annotation(&pools, &said, who) {
                    said.push(say(&item, &who.annotator, Some(2)));
                }
            }
            if said.len() == before {
                break;
            }
        }
        assert_eq!(said.len(), 80 + double);
        let progress = annotation_progress(&pools, &said, &ann);
        assert_eq!((progress.judged, progress.waiting), (80, 0));
        assert_eq!(
            progress.yours + annotation_progress(&pools, &said, &bo).yours,
            80 + double
        );
        // A third one has nothing to do.
        assert_eq!(next_annotation(&pools, &said, &settings("cy", 0.3)), None);
    }

    #[test]
    fn who_could_not_say_is_not_asked_again_and_others_are() {
        let pools = pools(1, 1);
        let item = next_annotation(&pools, &[], &settings("ann", 0.0)).unwrap();
        let said = [say(&item, "ann", None)];
        assert_eq!(next_annotation(&pools, &said, &settings("ann", 0.0)), None);
        assert!(next_annotation(&pools, &said, &settings("bo", 0.0)).is_some());
        let progress = annotation_progress(&pools, &said, &settings("ann", 0.0));
        assert_eq!((progress.judged, progress.skipped, progress.waiting), (0, 1, 0));
    }

    #[test]
    fn a_query_that_was_begun_is_finished_first() {
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
    fn grades_of_several_people() {
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
