//! Depth-k pooling for annotation, as at TREC: combines the top results of several systems, so that the
//! judgments do not favor one of them.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::random::stream;

use super::{Qrels, Run};

/// A query with documents to judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PooledQuery {
    /// Id of the query.
    pub query_id: String,
    /// Documents to judge, in random order to hide their ranks.
    pub documents: Vec<PooledDocument>,
    /// Number of documents of the pool that are already judged.
    pub judged: usize,
}

/// A document to judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PooledDocument {
    /// Id of the document.
    pub memory_id: String,
    /// Indexes of the runs with the document in their top results.
    pub runs: Vec<usize>,
    /// Best rank in any of these runs, from 1.
    pub best_rank: usize,
}

/// Pools the first `depth` documents of every run by query. Documents judged in `judged` are only counted.
/// Documents of a query are shuffled with the seed, so that annotators cannot infer ranks.
pub fn pool(runs: &[&Run], judged: Option<&Qrels>, depth: usize, seed: u64) -> Vec<PooledQuery> {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut pools = Vec::new();
    for query in runs.iter().flat_map(|run| run.query_ids()) {
        if !seen.insert(query) {
            continue;
        }
        let mut documents: BTreeMap<&str, PooledDocument> = BTreeMap::new();
        for (position, run) in runs.iter().enumerate() {
            for (rank, document) in (1..).zip(run.documents(query).take(depth)) {
                let pooled = documents.entry(document).or_insert_with(|| PooledDocument {
                    memory_id: document.into(),
                    runs: Vec::new(),
                    best_rank: rank,
                });
                pooled.runs.push(position);
                pooled.best_rank = pooled.best_rank.min(rank);
            }
        }
        let all = documents.len();
        let mut documents: Vec<PooledDocument> = documents
            .into_values()
            .filter(|document| judged.is_none_or(|judged| judged.grade(query, &document.memory_id).is_none()))
            .collect();
        documents.shuffle(&mut stream(seed, pools.len() as u64));
        pools.push(PooledQuery {
            query_id: query.into(),
            judged: all - documents.len(),
            documents,
        });
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::{OrderOptions, QrelsReader, RunReader};

    fn run(text: &str) -> Run {
        let mut reader = RunReader::trec();
        reader.push(text.as_bytes()).unwrap();
        reader.finish(OrderOptions::default()).unwrap()
    }

    #[test]
    fn top_results_are_pooled_once_without_judged_documents() {
        let a = run("q1 0 a 1 3 x\nq1 0 b 2 2 x\nq1 0 c 3 1 x\nq2 0 z 1 1 x\n");
        let b = run("q1 0 b 1 3 y\nq1 0 d 2 2 y\nq3 0 w 1 1 y\n");
        let mut reader = QrelsReader::trec();
        reader.push(b"q1 0 a 2\nq1 0 c 1\n").unwrap();
        let judged = reader.finish(OrderOptions::default()).unwrap();
        let pools = pool(&[&a, &b], Some(&judged), 2, 7);
        let ids: Vec<&str> = pools.iter().map(|pool| pool.query_id.as_str()).collect();
        assert_eq!(ids, ["q1", "q2", "q3"]);
        assert_eq!(pools[0].judged, 1);
        let mut documents = pools[0].documents.clone();
        documents.sort_by(|a, b| a.memory_id.cmp(&b.memory_id));
        let pooled: Vec<_> = documents
            .iter()
            .map(|found| (found.memory_id.as_str(), found.runs.clone(), found.best_rank))
            .collect();
        assert_eq!(pooled, [("b", vec![0, 1], 1), ("d", vec![1], 2)]);
    }

    #[test]
    fn the_order_depends_on_the_seed_and_on_nothing_else() {
        let lines: Vec<String> = (0..50).map(|n| format!("q 0 d{n} {n} {} x", 100 - n)).collect();
        let lines = lines.join("\n");
        let order = |seed| {
            let pools = pool(&[&run(&lines)], None, 50, seed);
            let documents = pools[0].documents.iter();
            documents.map(|found| found.memory_id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut ranked: Vec<String> = (0..50).map(|n| format!("d{n}")).collect();
        assert_ne!(order(1), ranked);
        ranked.sort();
        assert_ne!(order(1), ranked);
    }
}
