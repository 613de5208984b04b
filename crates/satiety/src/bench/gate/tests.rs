//! Verdicts of the gate and the reasons it reports.

use super::*;
use crate::bench::run::{BenchmarkResult, ErrorOwner, Status};
use Status::{Error, Fail, Pass, Pending, Skipped, Timeout};

pub(super) fn run_of(results: Vec<BenchmarkResult>) -> BenchmarkRun {
    BenchmarkRun {
        run_id: "run".into(),
        suite_id: "suite".into(),
        suite_hash: None,
        target: "agent".into(),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        completed_at: None,
        config_snapshot: std::collections::BTreeMap::new(),
        results,
        summary: None,
    }
}

fn case(id: &str, statuses: &[Status]) -> Vec<BenchmarkResult> {
    (0..)
        .zip(statuses)
        .map(|(repeat, &status)| BenchmarkResult::new(id, repeat, status))
        .collect()
}

/// `count` cases with identical outcomes.
fn stable(count: usize, statuses: &[Status]) -> Vec<BenchmarkResult> {
    (0..count)
        .flat_map(|index| case(&format!("stable-{index:02}"), statuses))
        .collect()
}

fn gate(before: Vec<BenchmarkResult>, now: Vec<BenchmarkResult>) -> GateReport {
    compare(&run_of(before), &run_of(now), &GatePolicy::default()).unwrap()
}

/// One case next to 20 that always pass.
fn with_stable_cases(before: &[Status], now: &[Status]) -> GateReport {
    let repeats = vec![Pass; before.len().max(now.len())];
    let with = |own: &[Status]| [stable(20, &repeats), case("x", own)].concat();
    gate(with(before), with(now))
}

#[test]
fn a_case_that_breaks_in_a_stable_suite() {
    use GateVerdict::{Inconclusive, Regression};
    for (repeats, verdict) in [
        (1, Inconclusive),
        (2, Inconclusive),
        (4, Regression),
        (5, Regression),
    ] {
        let found = with_stable_cases(&vec![Pass; repeats], &vec![Fail; repeats]);
        assert_eq!(found.verdict, verdict, "{repeats} repeats: {:?}", found.reasons);
        assert!(
            found.reasons[0].contains('x') || found.reasons[0].contains("pass rate"),
            "{:?}",
            found.reasons
        );
    }
    assert_eq!(
        with_stable_cases(&[Pass; 5], &[Pass; 5]).verdict,
        GateVerdict::Pass
    );
    assert_eq!(
        with_stable_cases(&[Fail; 5], &[Pass; 5]).verdict,
        GateVerdict::Pass
    );
    assert_eq!(
        with_stable_cases(&[Pass; 5], &[Pass, Pass, Pass, Pass, Fail]).verdict,
        GateVerdict::Pass
    );
}

#[test]
fn deterministic_cases_need_no_repeats() {
    let mut now = [stable(20, &[Pass]), case("x", &[Fail])].concat();
    let before = [stable(20, &[Pass]), case("x", &[Pass])].concat();
    assert_eq!(
        gate(before.clone(), now.clone()).verdict,
        GateVerdict::Inconclusive
    );
    for result in &mut now {
        result.deterministic = true;
    }
    let found = gate(before, now.clone());
    assert_eq!(found.verdict, GateVerdict::Regression);
    assert_eq!(
        found.reasons[0],
        "x is declared deterministic and passed 1 of 1, now 0 of 1"
    );
    // A baseline that contradicts the declaration is treated as flaky.
    let belied = [stable(20, &[Pass]), case("x", &[Pass, Fail])].concat();
    assert_ne!(gate(belied, now).verdict, GateVerdict::Regression);
}

#[test]
fn removed_or_skipped_cases_are_regressions_and_added_or_edited_are_not() {
    let with = |own: Vec<BenchmarkResult>| [stable(5, &[Pass]), own].concat();
    let removed = gate(with(case("x", &[Fail])), stable(5, &[Pass]));
    assert_eq!(
        (removed.verdict, removed.changes[0].kind),
        (GateVerdict::Regression, ChangeKind::Removed)
    );
    let skipped = gate(with(case("x", &[Pass])), with(case("x", &[Skipped])));
    assert_eq!(
        (skipped.verdict, skipped.changes[0].kind),
        (GateVerdict::Regression, ChangeKind::Skipped)
    );
    let added = gate(stable(5, &[Pass]), with(case("x", &[Fail])));
    assert_eq!(
        (added.verdict, added.changes[0].kind),
        (GateVerdict::Pass, ChangeKind::Added)
    );

    let (mut before, mut now) = (with(case("x", &[Pass; 5])), with(case("x", &[Fail; 5])));
    before.last_mut().unwrap().case_hash = Some("a".into());
    now.last_mut().unwrap().case_hash = Some("b".into());
    let edited = gate(before, now);
    assert_eq!(
        (edited.verdict, edited.changes[0].kind),
        (GateVerdict::Pass, ChangeKind::Edited)
    );
    assert_eq!(edited.pass.unwrap().cases, 5);
    assert!(edited.reasons[1].contains("1 cases were edited"));
}

#[test]
fn target_errors_count_as_failures_and_other_errors_are_inconclusive() {
    let owned = |status, owner| {
        let mut now = [stable(4, &[Pass; 5]), case("x", &[status; 5])].concat();
        for result in now.iter_mut().filter(|result| result.case_id == "x") {
            result.error_owner = Some(owner);
        }
        gate([stable(4, &[Pass; 5]), case("x", &[Pass; 5])].concat(), now)
    };
    for status in [Error, Timeout] {
        assert_eq!(
            owned(status, ErrorOwner::Target).verdict,
            GateVerdict::Regression,
            "{status:?}"
        );
        for owner in [ErrorOwner::Infra, ErrorOwner::Judge, ErrorOwner::Harness] {
            assert_eq!(
                owned(status, owner).verdict,
                GateVerdict::Inconclusive,
                "{status:?} {owner:?}"
            );
        }
    }
    let blocked = owned(Error, ErrorOwner::Judge);
    assert_eq!(
        blocked.reasons,
        ["5 of 25 results are missing (5 judge errors): rerun them"]
    );
    assert_eq!(blocked.changes[0].kind, ChangeKind::Lost);
    assert_eq!(
        owned(Pending, ErrorOwner::Target).verdict,
        GateVerdict::Inconclusive
    );
    // One of 21 is within the allowed share of missing results.
    let few = gate(
        [stable(20, &[Pass]), case("x", &[Pass])].concat(),
        [stable(20, &[Pass]), case("x", &[Pending])].concat(),
    );
    assert_eq!((few.verdict, few.missing), (GateVerdict::Pass, 1));
    assert_eq!(
        gate(Vec::new(), case("x", &[Pass])).verdict,
        GateVerdict::Inconclusive
    );
}

fn with_figures(
    cases: usize,
    repeats: u32,
    metric_values: impl Fn(usize, u32) -> (f64, f64),
) -> Vec<BenchmarkResult> {
    (0..cases)
        .flat_map(|index| (0..repeats).map(move |repeat| (index, repeat)))
        .map(|(index, repeat)| {
            let mut result = BenchmarkResult::new(format!("c{index:02}"), repeat, Pass);
            let (latency, score) = metric_values(index, repeat);
            result.latency_ms = latency;
            result.llm_judge_score = Some(score);
            result
        })
        .collect()
}

#[test]
fn slower_cases_need_relative_and_absolute_increase_and_significance() {
    let at = |cases, repeats, base: f64| {
        with_figures(cases, repeats, |index, repeat| {
            (
                base * (1.0 + 0.02 * ((index as f64) + f64::from(repeat) * 3.0)),
                0.8,
            )
        })
    };
    for (cases, repeats, before, now, verdict) in [
        (20, 1, 400.0, 700.0, GateVerdict::Regression),
        (20, 1, 400.0, 560.0, GateVerdict::Pass),
        (20, 1, 40.0, 70.0, GateVerdict::Pass),
        (1, 1, 400.0, 900.0, GateVerdict::Pass),
        (1, 5, 400.0, 4000.0, GateVerdict::Regression),
    ] {
        let found = gate(at(cases, repeats, before), at(cases, repeats, now));
        assert_eq!(
            found.verdict, verdict,
            "{cases} x {repeats}, {before} to {now}: {:?}",
            found.reasons
        );
    }
    // It is reported although the statistics do not confirm it.
    let shown = gate(at(1, 1, 400.0), at(1, 1, 900.0));
    assert_eq!(shown.changes[0].kind, ChangeKind::Slower);
}

#[test]
fn dropped_judge_scores_are_flagged() {
    let at = |cases, repeats, base: f64| {
        with_figures(cases, repeats, |index, repeat| {
            (100.0, base + 0.005 * ((index as f64 + f64::from(repeat)) % 5.0))
        })
    };
    for (cases, repeats, before, now, verdict) in [
        (20, 1, 0.9, 0.7, GateVerdict::Regression),
        (3, 1, 0.9, 0.7, GateVerdict::Pass),
        (3, 5, 0.9, 0.7, GateVerdict::Regression),
        (20, 1, 0.9, 0.9, GateVerdict::Pass),
    ] {
        let found = gate(at(cases, repeats, before), at(cases, repeats, now));
        assert_eq!(
            found.verdict, verdict,
            "{cases} x {repeats}, {before} to {now}: {:?}",
            found.reasons
        );
    }
    // A drop of exactly .1 does not exceed .1, despite the rounding error of .9 − .8.
    let exactly = gate(at(1, 1, 0.9), at(1, 1, 0.8));
    assert!(exactly.changes.is_empty(), "{:?}", exactly.changes);
}

#[test]
fn a_drop_that_may_exceed_the_margin_is_inconclusive() {
    // Four of ten cases pass less often, none significantly; the mean fell by 8 points.
    let before = (0..10)
        .flat_map(|i| case(&format!("c{i}"), &[Pass, Pass, Pass, Pass, Fail]))
        .collect();
    let now = (0..10)
        .flat_map(|i| {
            let statuses = if i < 4 {
                [Pass, Pass, Fail, Fail, Fail]
            } else {
                [Pass, Pass, Pass, Pass, Fail]
            };
            case(&format!("c{i}"), &statuses)
        })
        .collect();
    let found = gate(before, now);
    assert_eq!(found.verdict, GateVerdict::Inconclusive);
    assert!(
        found.reasons[0].contains("a true drop of 10 points cannot be excluded"),
        "{:?}",
        found.reasons
    );
}

#[test]
fn the_report_survives_json() {
    let found = with_stable_cases(&[Pass; 5], &[Fail; 5]);
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<GateReport>(&json).unwrap(), found);
    let nonsense = GatePolicy {
        alpha: 2.0,
        ..GatePolicy::default()
    };
    assert!(compare(&run_of(Vec::new()), &run_of(Vec::new()), &nonsense).is_err());
}
