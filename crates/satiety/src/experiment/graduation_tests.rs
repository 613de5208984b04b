//! Tests of individual graduation conditions.

use super::*;
use crate::experiment::{Bounds, Method};

fn change(verdict: Verdict, difference: f64) -> MeasuredChange {
    MeasuredChange {
        measure: "mrr@5".into(),
        control: 0.5,
        treatment: 0.5 + difference,
        difference,
        interval: None,
        p_value: 0.01,
        verdict,
    }
}

fn good() -> GraduationEvidence {
    GraduationEvidence {
        standing: Standing {
            method: Method::Betting,
            decision: Decision::AcceptTreatment,
            samples: 120,
            min_samples: 100,
            log_likelihood_ratio: Some(4.0),
            lower_bound: -3.69,
            upper_bound: 3.69,
            e_value: Some(27.0),
            p_value: Some(0.03),
            mrr_delta: Some(0.05),
            interval: Some(Bounds {
                low: 0.01,
                high: 0.09,
            }),
            control_mrr: Some(0.5),
            treatment_mrr: Some(0.55),
            ndcg_delta: Some(0.04),
            history: Vec::new(),
        },
        corpus: Some(CorpusEvidence {
            queries: 40,
            measures: vec![change(Verdict::Better, 0.1), change(Verdict::NoEvidence, 0.0)],
            control_surfacing: Some(1.0),
            treatment_surfacing: Some(1.0),
            control_p95_ms: 10.0,
            treatment_p95_ms: 11.9,
            slower_p_value: 1.0,
            latency: Some(LatencyComparison {
                queries: 40,
                repetitions: 5,
                control_p95_ms: 10.0,
                treatment_p95_ms: 11.9,
                median_increase: 0.1,
                slower_queries: 0,
                slower_p_value: 1.0,
                within_p_value: 0.001,
            }),
        }),
        shadow: ShadowCounts {
            runs: 130,
            failed: 6,
            open: 0,
        },
    }
}

#[test]
fn every_condition_must_pass() {
    type Change = fn(&mut GraduationEvidence);
    fn corpus(evidence: &mut GraduationEvidence) -> &mut CorpusEvidence {
        evidence.corpus.as_mut().unwrap()
    }
    assert_eq!(
        check_graduation(&good(), &GraduationLimits::default()).verdict,
        GraduationVerdict::Graduate
    );
    let cases: [(&str, Check, Change); 20] = [
        ("corpus_improvement", Check::Undecided, |e| e.corpus = None),
        ("corpus_improvement", Check::Undecided, |e| {
            corpus(e).measures.clear();
        }),
        ("corpus_improvement", Check::Undecided, |e| {
            corpus(e).measures[0].verdict = Verdict::NoEvidence;
        }),
        ("corpus_improvement", Check::Fail, |e| {
            corpus(e).measures[0].verdict = Verdict::Worse;
        }),
        ("corpus_improvement", Check::Fail, |e| {
            corpus(e).measures[1].verdict = Verdict::Worse;
        }),
        ("sequential_test", Check::Undecided, |e| {
            e.standing.decision = Decision::Continue;
        }),
        ("sequential_test", Check::Fail, |e| {
            e.standing.decision = Decision::AcceptControl;
        }),
        ("minimum_samples", Check::Undecided, |e| e.standing.samples = 99),
        ("graduation_threshold", Check::Fail, |e| {
            e.standing.mrr_delta = Some(0.029);
        }),
        ("graduation_threshold", Check::Undecided, |e| {
            e.standing.mrr_delta = None;
        }),
        // Small and precise: it will not reach the threshold, but the trial is undecided.
        ("graduation_threshold", Check::Undecided, |e| {
            e.standing.decision = Decision::Continue;
            e.standing.interval = Some(Bounds { low: 0.0, high: 0.02 });
        }),
        ("constitutional_surfacing", Check::Fail, |e| {
            corpus(e).treatment_surfacing = Some(0.99);
        }),
        ("constitutional_surfacing", Check::Pass, |e| {
            (corpus(e).control_surfacing, corpus(e).treatment_surfacing) = (None, None);
        }),
        ("latency_p95", Check::Fail, |e| {
            let latency = corpus(e).latency.as_mut().unwrap();
            (latency.slower_queries, latency.slower_p_value) = (10, 1e-6);
        }),
        // Too few slow queries for chance to be excluded.
        ("latency_p95", Check::Undecided, |e| {
            let latency = corpus(e).latency.as_mut().unwrap();
            (latency.slower_queries, latency.slower_p_value) = (3, 0.13);
        }),
        ("latency_p95", Check::Undecided, |e| {
            corpus(e).latency.as_mut().unwrap().within_p_value = 0.2;
        }),
        // A 95th percentile alone proves nothing.
        ("latency_p95", Check::Pass, |e| {
            corpus(e).latency.as_mut().unwrap().treatment_p95_ms = 50.0;
        }),
        ("latency_p95", Check::Undecided, |e| corpus(e).latency = None),
        ("treatment_answers", Check::Fail, |e| e.shadow.failed = 7),
        ("treatment_answers", Check::Undecided, |e| {
            e.shadow = ShadowCounts::default();
        }),
    ];
    for (name, expected, change) in cases {
        let mut evidence = good();
        change(&mut evidence);
        let list = check_graduation(&evidence, &GraduationLimits::default());
        let found = list.checks.iter().find(|one| one.name == name).unwrap();
        assert_eq!(found.check, expected, "{found:?}");
        let any = |wanted| list.checks.iter().any(|one| one.check == wanted);
        let verdict = match (any(Check::Fail), any(Check::Undecided)) {
            (true, _) => GraduationVerdict::Refuse,
            (false, true) => GraduationVerdict::Undecided,
            (false, false) => GraduationVerdict::Graduate,
        };
        assert_eq!(list.verdict, verdict, "{name}");
        assert!(found.reason.len() > 10);
    }
}

#[test]
fn a_failed_condition_outweighs_an_undecided_one() {
    let mut evidence = good();
    evidence.corpus = None;
    evidence.standing.decision = Decision::AcceptControl;
    let list = check_graduation(&evidence, &GraduationLimits::default());
    assert_eq!(list.verdict, GraduationVerdict::Refuse);
    assert!(list.checks.iter().any(|one| one.check == Check::Undecided));
}
