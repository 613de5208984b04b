//! Agreement with `trec_eval`, query by query, on a random run with all cases on which tools disagree.
//! `perf/peers/retrieval_oracle.py` generated the fixture.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use satiety::retrieval::{
    Comparison, ComparisonSettings, EvaluationOptions, Gate, Measure, MissingQueries, NoRelevant,
    OrderOptions, Qrels, QrelsReader, Run, RunReader, Unjudged, Verdict, compare, evaluate,
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
fn every_value_matches_trec_eval() {
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
fn missing_and_empty_queries_are_counted_as_configured() {
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
    // No document of `c` reaches grade 2; `b` is not answered, so its list has no judged share.
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
fn condensed_lists_contain_only_judged_documents() {
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
fn intervals_need_varying_values() {
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
    // All queries equal, and a single query.
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

/// One relevant document per query, at these ranks.
fn ranked(ranks: &[usize]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for (query, rank) in ranks.iter().enumerate() {
        for at in 1..=6 {
            let document = if at == *rank {
                "good".into()
            } else {
                format!("d{at}")
            };
            let _ = writeln!(text, "q{query} Q0 {document} {at} {} t", 10 - at);
        }
    }
    text
}

fn compared(control: &[usize], treatment: &[usize], measures: &[&str]) -> Comparison {
    let qrels: Vec<String> = (0..control.len())
        .map(|query| format!("q{query} 0 good 2\n"))
        .collect();
    let (qrels, control) = read(&qrels.concat(), &ranked(control));
    let (_, treatment) = read("q 0 d 1", &ranked(treatment));
    let measures: Vec<Measure> = measures.iter().map(|name| name.parse().unwrap()).collect();
    let of = |run: &Run| evaluate(&qrels, run, &measures, &EvaluationOptions::default());
    compare(
        (&control, &of(&control)),
        (&treatment, &of(&treatment)),
        &ComparisonSettings::default(),
    )
    .unwrap()
}

const CONTROL: [usize; 10] = [1, 2, 3, 4, 1, 2, 5, 4, 3, 2];
const TREATMENT: [usize; 10] = [1, 1, 1, 2, 1, 1, 2, 2, 1, 3];

/// scipy 1.17, statsmodels 0.15, with a and b one over the ranks above and d = b - a:
/// `ttest_rel(b, a).pvalue`; `permutation_test((b, a), mean of differences, permutation_type='samples',
/// n_resamples=inf).pvalue`; `d.mean() / d.std(ddof=1)`; `brentq(lambda e: TTestPower().power(e, 10, .05) - .8, .1, 1.5, xtol=1e-14) *
/// d.std(ddof=1)`.
#[test]
fn comparisons_match_scipy() {
    let found = compared(&CONTROL, &TREATMENT, &["mrr@10", "judged@10"]);
    let mrr = &found.measures[0];
    let close =
        |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    close(mrr.control, 0.48666666666666664);
    close(mrr.treatment, 0.7833333333333333);
    close(mrr.difference, 0.29666666666666675);
    close(mrr.p_t.unwrap(), 0.010054230660178794);
    close(mrr.p_randomization, 0.015625);
    close(mrr.p_holm, 2.0 * 0.015625);
    close(mrr.effect_size.unwrap(), 1.0266193882939545);
    close(mrr.detectable.unwrap(), 0.28781884526469653);
    assert_eq!((mrr.wins, mrr.losses, mrr.ties), (7, 1, 2));
    let interval = mrr.ci.unwrap();
    assert!(interval.contains(mrr.difference) && interval.low > 0.0);
    assert_eq!((mrr.verdict, found.verdict), (Verdict::Better, Verdict::Better));
    assert_eq!(found.measures[1].verdict, Verdict::NoEvidence);
    assert_eq!(found.measures[1].p_t, None);
    let worst: Vec<&str> = found
        .regressions
        .iter()
        .map(|change| change.query.as_str())
        .collect();
    assert_eq!(worst, ["q9"]);
    assert_eq!(found.differences.identical, 2);
    assert_eq!(found.gate(0.0), Gate::Pass);
}

#[test]
fn the_gate_fails_on_losses_and_is_inconclusive_without_power() {
    let worse = compared(&TREATMENT, &CONTROL, &["mrr@10"]);
    assert_eq!(worse.verdict, Verdict::Worse);
    assert_eq!(worse.gate(0.01), Gate::Fail);
    assert_eq!(worse.gate(0.9), Gate::Pass);
    let same = compared(&CONTROL, &CONTROL, &["mrr@10"]);
    assert_eq!((same.verdict, same.gate(0.01)), (Verdict::NoEvidence, Gate::Pass));
    assert_eq!(
        (same.measures[0].detectable, same.measures[0].p_randomization),
        (None, 1.0)
    );
    let mixed = compared(&[1, 2, 1, 2, 1, 3], &[2, 1, 2, 1, 2, 2], &["mrr@10"]);
    assert_eq!(
        (mixed.verdict, mixed.gate(0.01)),
        (Verdict::NoEvidence, Gate::Inconclusive)
    );
    assert!(mixed.measures[0].detectable.unwrap() > 0.3);
    let one = compared(&[2], &[1], &["mrr@10"]);
    assert_eq!(
        (one.verdict, one.gate(0.01)),
        (Verdict::NoEvidence, Gate::Inconclusive)
    );
}

#[test]
fn runs_are_compared_on_shared_queries() {
    let qrels = "a 0 x 2\nb 0 x 2\nc 0 x 2\nd 0 x 2\n";
    let (qrels, control) = read(qrels, "a Q0 x 1 1 t\nc Q0 y 1 2 t\nc Q0 x 1 1 t\nd Q0 x 1 1 t\n");
    let (_, treatment) = read("q 0 d 1", "b Q0 x 1 1 t\nc Q0 x 1 2 t\nd Q0 x 1 1 t\n");
    let measures = ["mrr".parse().unwrap()];
    let of = |run: &Run, missing| {
        let options = EvaluationOptions {
            missing,
            ..EvaluationOptions::default()
        };
        evaluate(&qrels, run, &measures, &options)
    };
    let with = |missing| {
        let (old, new) = (of(&control, missing), of(&treatment, missing));
        let found = compare(
            (&control, &old),
            (&treatment, &new),
            &ComparisonSettings::default(),
        )
        .unwrap();
        (found.queries, found.measures[0].difference)
    };
    assert_eq!(with(MissingQueries::Skip), (2, 0.25));
    assert_eq!(with(MissingQueries::Zero), (4, 0.125));
}
