//! Agreement with `trec_eval`, query by query, on a run made by chance with everything that tools disagree about.
//! `perf/peers/retrieval_oracle.py` says how the fixture was made.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::collections::{BTreeMap, BTreeSet};

use satiety::retrieval::{
    EvaluationOptions, Measure, MissingQueries, NoRelevant, OrderOptions, Qrels, QrelsReader, Run, RunReader,
    Unjudged, evaluate,
};
use satiety::stats::BootstrapSettings;

const QRELS: &str = include_str!("../fixtures/retrieval/qrels.txt");
const RUN: &str = include_str!("../fixtures/retrieval/run.txt");
const LEVEL_1: &str = include_str!("../fixtures/retrieval/level1.tsv");
const LEVEL_2: &str = include_str!("../fixtures/retrieval/level2.tsv");

fn read(qrels: &str, run: &str) -> (Qrels, Run) {
    let (mut qrels_reader, mut run_reader) = (QrelsReader::trec(), RunReader::trec());
    qrels_reader.push(qrels.as_bytes()).unwrap();
    run_reader.push(run.as_bytes()).unwrap();
    (
        qrels_reader.finish(OrderOptions::default()).unwrap(),
        run_reader.finish(OrderOptions::default()).unwrap(),
    )
}

/// Expected values by query and measure.
fn expected(table: &str) -> BTreeMap<(&str, &str), f64> {
    let rows = table.lines().map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        ((fields[0], fields[1]), fields[2].parse().unwrap())
    });
    rows.collect()
}

#[test]
fn every_value_of_every_query_is_that_of_trec_eval() {
    let (qrels, run) = read(QRELS, RUN);
    for (threshold, table) in [(1, LEVEL_1), (2, LEVEL_2)] {
        let expected = expected(table);
        let names: BTreeSet<&str> = expected.keys().map(|key| key.1).collect();
        let measures: Vec<Measure> = names.iter().map(|name| name.parse().unwrap()).collect();
        let options = EvaluationOptions {
            relevance_threshold: threshold,
            ..EvaluationOptions::trec()
        };
        let found = evaluate(&qrels, &run, &measures, &options);
        let mut compared = 0;
        for (position, query) in found.queries().iter().enumerate() {
            for (name, value) in names.iter().zip(found.row(position)) {
                let expected = expected[&(query.as_str(), *name)];
                let value = value.unwrap();
                assert!(
                    (value - expected).abs() < 1e-10,
                    "{query} {name} at {threshold}: {value}, not {expected}"
                );
                compared += 1;
            }
        }
        assert_eq!(compared, expected.len());
        assert_eq!((found.missing, found.unknown), (2, 1));
    }
}

#[test]
fn queries_that_are_missing_or_have_nothing_to_find_are_counted_as_asked() {
    let (qrels, run) = read(
        "a 0 x 2\nb 0 x 2\nc 0 x 1\n",
        "a Q0 x 1 1 t\nc Q0 x 1 1 t\nd Q0 x 1 1 t\n",
    );
    let measures = [
        "recall@5".parse().unwrap(),
        "ndcg@5".parse().unwrap(),
        "judged@5".parse().unwrap(),
    ];
    let means = |options: EvaluationOptions| {
        let found = evaluate(&qrels, &run, &measures, &options);
        assert_eq!((found.missing, found.unknown), (1, 1));
        (0..3)
            .map(|measure| {
                let mean = found.aggregate(measure, &BootstrapSettings::default()).unwrap();
                (mean.mean.unwrap(), mean.queries)
            })
            .collect::<Vec<_>>()
    };
    // Nothing in `c` reaches grade 2; `b` is not answered, so nothing in its list was or was not judged.
    assert_eq!(
        means(EvaluationOptions::default()),
        [(0.5, 2), (2.0 / 3.0, 3), (1.0, 2)]
    );
    let skip = EvaluationOptions {
        missing: MissingQueries::Skip,
        ..EvaluationOptions::default()
    };
    assert_eq!(means(skip), [(1.0, 1), (1.0, 2), (1.0, 2)]);
    let zero = EvaluationOptions {
        no_relevant: NoRelevant::Zero,
        missing: MissingQueries::Skip,
        ..EvaluationOptions::default()
    };
    assert_eq!(means(zero), [(0.5, 2), (1.0, 2), (1.0, 2)]);
}

#[test]
fn a_condensed_list_has_only_what_was_judged() {
    let (qrels, run) = read(
        "q 0 good 2\nq 0 bad 0\n",
        "q Q0 new 1 3 t\nq Q0 bad 2 2 t\nq Q0 good 3 1 t\n",
    );
    let measures = ["mrr".parse().unwrap(), "judged".parse().unwrap()];
    let value = |unjudged| {
        let options = EvaluationOptions {
            unjudged,
            ..EvaluationOptions::default()
        };
        evaluate(&qrels, &run, &measures, &options).row(0).to_vec()
    };
    assert_eq!(value(Unjudged::Irrelevant), [Some(1.0 / 3.0), Some(2.0 / 3.0)]);
    assert_eq!(value(Unjudged::Condensed), [Some(0.5), Some(1.0)]);
}

#[test]
fn intervals_are_there_when_there_is_something_to_resample() {
    let (qrels, run) = read(QRELS, RUN);
    let found = evaluate(
        &qrels,
        &run,
        &["ndcg@10".parse().unwrap()],
        &EvaluationOptions::default(),
    );
    let settings = BootstrapSettings::default();
    let mean = found.aggregate(0, &settings).unwrap();
    let interval = mean.ci.unwrap();
    assert!(interval.contains(mean.mean.unwrap()) && interval.low < interval.high);
    assert_eq!(
        found.aggregate(0, &settings).unwrap(),
        mean,
        "the same seed gives the same interval"
    );
    let none = BootstrapSettings {
        resamples: 0,
        ..settings
    };
    assert_eq!(found.aggregate(0, &none).unwrap().ci, None);
    // All queries alike, and a single one.
    for (qrels, run) in [
        ("a 0 x 2\nb 0 x 2\n", "a Q0 x 1 1 t\nb Q0 x 1 1 t\n"),
        ("a 0 x 2\n", "a Q0 x 1 1 t\n"),
    ] {
        let (qrels, run) = read(qrels, run);
        let found = evaluate(
            &qrels,
            &run,
            &["mrr".parse().unwrap()],
            &EvaluationOptions::default(),
        );
        let mean = found.aggregate(0, &settings).unwrap();
        assert_eq!(mean.mean, Some(1.0));
        assert_eq!(mean.ci.is_some(), mean.queries > 1);
    }
}
