//! Compares `satiety retrieval eval --compat trec` with `pytrec_eval`, query by query, on random files: ties, scores
//! that differ only beyond 32 bits, negative grades, queries missing on one side, unjudged documents, interleaved lines.
//! Runs if `SATIETY_TEST_PYTREC` names a Python interpreter with `pytrec_eval`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, json_of};

const MEASURES: &str =
    "map,mrr,ndcg_linear,bpref,ndcg_linear@5,ndcg_linear@10,p@5,recall@5,recall@100,success@5,map@10";

#[test]
fn values_match_trec_eval() {
    let Some(python) = std::env::var_os("SATIETY_TEST_PYTREC") else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../perf/peers/retrieval_values.py");
    for seed in 1..=6 {
        let place = Place::new();
        let (qrels, run) = files(seed);
        place.write("qrels.txt", &qrels);
        place.write("run.txt", &run);
        for level in ["1", "2"] {
            let output = Command::new(&python)
                .arg(&script)
                .args([place.path("qrels.txt"), place.path("run.txt")])
                .arg(level)
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            let expected: Value = serde_json::from_slice(&output.stdout).unwrap();
            let files = ["retrieval", "eval", "--qrels", "qrels.txt", "--run", "run.txt"];
            let asked = [
                "--metrics",
                MEASURES,
                "--compat",
                "trec",
                "--relevance-threshold",
                level,
            ];
            let shape = ["--per-query", "--resamples", "0", "--format", "json"];
            let found = json_of(&place, &[&files[..], &asked, &shape].concat());
            let (expected, found) = (
                expected.as_object().unwrap(),
                found["per_query"].as_object().unwrap(),
            );
            assert_eq!(found.len(), expected.len(), "seed {seed}");
            assert!(expected.len() > 100);
            for (query, expected) in expected {
                for (measure, expected) in expected.as_object().unwrap() {
                    let (value, expected) = (
                        found[query][measure].as_f64().unwrap(),
                        expected.as_f64().unwrap(),
                    );
                    assert!(
                        (value - expected).abs() < 1e-9,
                        "seed {seed}, level {level}, {query}, {measure}: {value}, expected {expected}"
                    );
                }
            }
        }
    }
}

/// Judgments and a run.
fn files(seed: u64) -> (String, String) {
    let mut state = seed;
    let mut below = move |bound: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let (mut qrels, mut results) = (String::new(), Vec::new());
    for query in 0..150 {
        let offset = below(50);
        let judged = if query % 13 == 0 { 0 } else { 1 + below(30) };
        for document in 0..judged {
            let grade = below(6).saturating_sub(2).cast_signed() - i64::from(below(20) == 0);
            let grade = if query % 17 == 0 { 0 } else { grade };
            let _ = writeln!(qrels, "q{query} 0 d{} {grade}", (offset + document * 3) % 97);
        }
        let found = if query % 11 == 0 { 0 } else { 1 + below(60) };
        for rank in 0..found {
            let score = match below(3) {
                0 => format!("{}", below(9) as f64 / 4.0 - 1.0),
                1 => format!("1.{:09}", below(4) * 10),
                _ => format!("{:e}", below(1_000_000) as f64 / 7e5),
            };
            let document = (offset + 10 + rank * 5) % 97;
            results.push(format!(
                "q{query} Q0 d{document} {} {score} by-chance\n",
                rank + 1
            ));
        }
    }
    if seed.is_multiple_of(2) {
        // Lines of a query are not contiguous.
        for at in (1..results.len()).rev() {
            results.swap(at, usize::try_from(below(at as u64 + 1)).unwrap());
        }
    }
    (qrels, results.concat())
}
