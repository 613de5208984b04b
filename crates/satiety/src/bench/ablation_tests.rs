//! Ablations from results to verdicts.

use super::ablation::AblationVerdict;
use crate::bench::ablation::{AblationSettings, Margin, ablation};
use crate::bench::run::{BenchmarkResult, Status};
use AblationVerdict::{Harmful, Inconclusive, Ships};
use std::collections::BTreeMap;

/// `passes` of each case among `repeats`, with a latency.
fn results(passes: &[u32], repeats: u32, latency: f64) -> Vec<BenchmarkResult> {
    passes
        .iter()
        .enumerate()
        .flat_map(|(case, &passes)| (0..repeats).map(move |repeat| (case, passes, repeat)))
        .map(|(case, passes, repeat)| {
            let status = if repeat < passes {
                Status::Pass
            } else {
                Status::Fail
            };
            let mut result = BenchmarkResult::new(format!("c{case}"), repeat, status);
            result.latency_ms = latency + f64::from(repeat) + case as f64;
            result
        })
        .collect()
}

fn settings() -> AblationSettings {
    AblationSettings {
        metrics: BTreeMap::from([
            ("pass".to_owned(), Margin::Absolute(0.05)),
            ("latency_ms".to_owned(), Margin::Relative(0.2)),
        ]),
        ..AblationSettings::default()
    }
}

#[test]
fn a_study_reaches_each_of_the_three_verdicts() {
    let control = results(&[5; 12], 5, 400.0);
    let same = results(&[5; 12], 5, 404.0);
    let worse = results(&[2; 12], 5, 404.0);
    let slower = results(&[5; 12], 5, 800.0);
    let mut mixed = [5; 12];
    mixed[0] = 3;
    let unclear = results(&mixed, 5, 404.0);
    let variants: Vec<(&str, &[BenchmarkResult])> = vec![
        ("same", &same),
        ("worse", &worse),
        ("slower", &slower),
        ("unclear", &unclear),
    ];
    let report = ablation(("control", &control), &variants, &settings()).unwrap();
    let verdicts: Vec<AblationVerdict> = report.variants.iter().map(|variant| variant.verdict).collect();
    assert_eq!(verdicts, [Ships, Harmful, Harmful, Inconclusive], "{report:#?}");
    assert!(
        report.variants[3].reasons[0].contains("cases are required"),
        "{:?}",
        report.variants[3].reasons
    );
    // All twelve differ: 2 / 2^12, times eight comparisons.
    let pass = report.variants[1]
        .metrics
        .iter()
        .find(|metric| metric.metric == "pass")
        .unwrap();
    assert!((pass.p_value - 2.0 / 4096.0).abs() < 1e-12);
    assert!((pass.p_holm - 8.0 * 2.0 / 4096.0).abs() < 1e-12);
}

#[test]
fn few_cases_are_inconclusive_with_a_reason() {
    let control = results(&[5; 3], 5, 400.0);
    let report = ablation(("control", &control), &[("same", &control)], &settings()).unwrap();
    assert_eq!(report.variants[0].verdict, AblationVerdict::Inconclusive);
    assert!(
        report.variants[0].reasons[0].contains("at least 5 cases are required"),
        "{report:?}"
    );
    let nothing = ablation(("control", &control), &[("none", &[])], &settings()).unwrap();
    assert_eq!(nothing.variants[0].verdict, AblationVerdict::Inconclusive);
}
