use std::collections::BTreeMap;

use jiff::Timestamp;

use super::*;
use crate::bench::gate::Tally;
use crate::bench::run::{BenchmarkResult, BenchmarkRun, Status};

fn single(cases: usize, failing: usize) -> Matrix {
    rows(
        (0..cases).map(|case| vec![u64::from(case >= failing)]).collect(),
        1,
    )
}

/// Rows of passes out of `tries` for each version.
pub(super) fn rows(rows: Vec<Vec<u64>>, tries: u64) -> Matrix {
    Matrix {
        versions: rows.first().map_or(0, Vec::len),
        cases: rows
            .into_iter()
            .enumerate()
            .map(|(index, passes)| CaseHistory {
                case_id: format!("c{index}"),
                cluster: None,
                tallies: passes
                    .into_iter()
                    .map(|passes| Some(Tally { passes, tries }))
                    .collect(),
            })
            .collect(),
    }
}

/// `sat` is the binomial probability of a resample with q < 1, that is, with few enough failures:
/// `scipy.stats.binom.cdf(k, n, f/n)` with k = 4, 5, 5, 5, 6, 34 (h/(1−h) < (1.64485+0.84162)²/(n−1)).
#[test]
fn worked_values() {
    for (cases, failing, floor, headroom, detectable, ratio, saturation) in [
        (20, 2, 0.25, 0.100, 0.171, 0.58, 0.957),
        (100, 0, 1.0, 0.0, 0.0, 0.0, 1.0),
        (100, 4, 0.0625, 0.040, 0.049, 0.82, 0.788),
        (100, 6, 0.015625, 0.060, 0.059, 1.01, 0.441),
        (100, 10, 0.0009765625, 0.100, 0.075, 1.33, 0.058),
        (1000, 5, 0.03125, 0.005, 0.0055, 0.90, 0.763),
        (1000, 50, 0.0, 0.050, 0.017, 2.92, 0.0),
    ] {
        let name = format!("{failing} of {cases}");
        let found = measure(&single(cases, failing), &MeasureSettings::default())
            .unwrap()
            .headroom;
        assert_eq!(found.failing, failing as u64, "{name}");
        assert!((found.p_floor - floor).abs() < 1e-9, "{name}: {}", found.p_floor);
        assert!(
            (found.headroom - headroom).abs() < 1e-12,
            "{name}: {}",
            found.headroom
        );
        assert!(
            (found.detectable - detectable).abs() < 6e-4,
            "{name}: {}",
            found.detectable
        );
        assert!(
            (found.detectability.unwrap() - ratio).abs() < 6e-3,
            "{name}: {:?}",
            found.detectability
        );
        // 2,000 resamples: three standard errors.
        assert!(
            (found.saturation - saturation).abs() < 0.035,
            "{name}: {}",
            found.saturation
        );
        assert_eq!(found.failing_needed, 5);
    }
}

#[test]
fn too_easy_is_not_too_small() {
    let settings = MeasureSettings::default();
    let of = |matrix: &Matrix| measure(matrix, &settings).unwrap().verdict;
    // One version: decided by the upper bound of the failure rate.
    assert_eq!(of(&single(20, 2)), Verdict::Underpowered);
    assert_eq!(of(&single(20, 0)), Verdict::Underpowered);
    assert_eq!(of(&single(100, 0)), Verdict::Saturated);
    assert_eq!(of(&single(1000, 5)), Verdict::Saturated);
    assert_eq!(of(&single(100, 10)), Verdict::Discriminates);
    // All zero: an improvement would be detected, and every case may be broken.
    let broken = measure(&single(30, 30), &settings).unwrap();
    assert_eq!(
        (broken.verdict, broken.headroom.detectability),
        (Verdict::Discriminates, None)
    );
    assert!(
        broken
            .reasons
            .iter()
            .any(|reason| reason.contains("30 case(s) never passed"))
    );
    // Three versions: 18 of 20 always passed, or only 10 of 20 did.
    let easy = rows((0..20).map(|case| vec![u64::from(case >= 2); 3]).collect(), 1);
    assert_eq!(of(&easy), Verdict::Saturated);
    let varied = rows(
        (0..20)
            .map(|case| vec![u64::from(case >= 10), 1, u64::from(case >= 2)])
            .collect(),
        1,
    );
    let varied = measure(&varied, &settings).unwrap();
    assert_eq!(
        (varied.verdict, varied.items.dead_share),
        (Verdict::Underpowered, Some(0.5))
    );
    // 20 / .584² = 58.6 cases of this kind.
    assert_eq!(varied.headroom.cases_needed, Some(59));
}

/// By hand, 4 cases × 3 versions: rows 000, 001, 011, 111. Totals 1, 2, 3; p̄ = 0, 1/3, 2/3, 1. Population variance of
/// the totals 2/3, of the items 0, 2/9, 2/9, 0: KR-20 = 4/3 · (1 − (4/9)/(2/3)) = 4/9. Information 4 · (2/9 + 2/9)/4.
/// Corrected item-total of case 1: (0,0,1) with (1,2,2): r = .5; of case 2: (0,1,1) with (1,1,2): r = .5.
#[test]
fn items_by_hand() {
    let items = measure(
        &rows(
            vec![vec![0, 0, 0], vec![0, 0, 1], vec![0, 1, 1], vec![1, 1, 1]],
            1,
        ),
        &MeasureSettings::default(),
    )
    .unwrap()
    .items;
    assert!((items.reliability.unwrap() - 4.0 / 9.0).abs() < 1e-12);
    assert!((items.information - 4.0 / 9.0).abs() < 1e-12);
    assert_eq!(
        (items.always_pass.as_slice(), items.never_pass.as_slice()),
        (["c3".to_owned()].as_slice(), ["c0".to_owned()].as_slice())
    );
    assert_eq!(items.dead_share, Some(0.25));
    let correlations: Vec<(&str, f64)> = items
        .discrimination
        .iter()
        .map(|case| (case.case_id.as_str(), case.correlation))
        .collect();
    assert_eq!(correlations.len(), 2);
    for (case, expected) in correlations.iter().zip([("c1", 0.5), ("c2", 0.5)]) {
        assert!(
            case.0 == expected.0 && (case.1 - expected.1).abs() < 1e-12,
            "{case:?}"
        );
    }
    assert_eq!((items.s_index, items.signal_to_noise), (None, None));
}

/// Five versions of 100 cases at .95 and .90 in the extremes: SE² = (.0475 + .09)/10, R² = .0025/.01375 = .181818.
#[test]
fn the_published_index_and_noise() {
    let scores = [90, 92, 93, 94, 95];
    let matrix = rows(
        (0..100)
            .map(|case| scores.iter().map(|&passes| u64::from(case < passes)).collect())
            .collect(),
        1,
    );
    let items = measure(&matrix, &MeasureSettings::default()).unwrap().items;
    assert!((items.s_index.unwrap() - (-0.181818_f64).exp()).abs() < 1e-5);
    // Paired: five cases of 100 differ, mean .05, sample variance .0475 · 100/99, SE² = .0475/99, R² = 5.2105.
    assert!(
        (items.s_index_paired.unwrap() - (-5.2105_f64).exp()).abs() < 1e-4,
        "{:?}",
        items.s_index_paired
    );
    // Two versions, ten cases, five repeats: all 5/5 against all 3/5; one repeat's variance .3/10, over versions .015.
    let repeated = rows(vec![vec![3, 5]; 10], 5);
    let items = measure(&repeated, &MeasureSettings::default()).unwrap().items;
    assert!((items.signal_to_noise.unwrap() - 0.4 / 0.015_f64.sqrt()).abs() < 1e-9);
    let flaky = measure(
        &rows(vec![vec![3], vec![5], vec![1]], 5),
        &MeasureSettings::default(),
    )
    .unwrap();
    assert_eq!(flaky.items.flaky, ["c0"]);
}

#[test]
fn correlated_cases_count_less() {
    let mut matrix = single(100, 10);
    let alone = measure(&matrix, &MeasureSettings::default()).unwrap().headroom;
    for (index, case) in matrix.cases.iter_mut().enumerate() {
        case.cluster = Some(format!("template-{}", index / 10));
    }
    let together = measure(&matrix, &MeasureSettings::default()).unwrap().headroom;
    // One template fails completely: the hundred cases count as ten.
    assert!(
        (together.effective_cases - 10.0).abs() < 1e-9,
        "{}",
        together.effective_cases
    );
    assert!(together.saturation > 0.8 && alone.saturation < 0.1);
    assert!((together.detectable / alone.detectable - 10.0_f64.sqrt()).abs() < 1e-9);
}

fn run(id: &str, results: Vec<BenchmarkResult>) -> BenchmarkRun {
    BenchmarkRun {
        run_id: id.into(),
        suite_id: "s".into(),
        suite_hash: None,
        target: String::new(),
        started_at: Timestamp::UNIX_EPOCH,
        completed_at: None,
        config_snapshot: BTreeMap::new(),
        results,
        summary: None,
    }
}

#[test]
fn runs_become_a_matrix_of_unchanged_cases() {
    let result = |id: &str, hash: &str, status| {
        let mut result = BenchmarkResult::new(id, 0, status);
        result.case_hash = Some(hash.into());
        result
    };
    let old = run(
        "old",
        vec![
            result("a", "1", Status::Pass),
            result("b", "1", Status::Fail),
            result("gone", "1", Status::Pass),
        ],
    );
    let new = run(
        "new",
        vec![
            result("a", "1", Status::Fail),
            result("b", "2", Status::Pass),
            result("e", "1", Status::Error),
            result("j", "1", Status::Error),
        ],
    );
    // The judge failed on one case; the target failed on the other, which still counts.
    let mut new = new;
    new.results[3].error_owner = Some(crate::bench::run::ErrorOwner::Judge);
    let matrix = Matrix::from_runs(&[&old, &new], &BTreeMap::new()).unwrap();
    let tally = |passes| Some(Tally { passes, tries: 1 });
    assert_eq!(matrix.cases.len(), 3);
    assert_eq!(matrix.cases[2].tallies, [None, tally(0)]);
    assert_eq!(matrix.cases[0].tallies, [tally(1), tally(0)]);
    assert_eq!(matrix.cases[1].tallies, [None, tally(1)]);

    let mut mixed = new.clone();
    mixed.results[0].variant = Some("with".into());
    assert!(matches!(
        Matrix::from_runs(&[&mixed], &BTreeMap::new()),
        Err(MeasureError::SeveralVariants { .. })
    ));
    let mut other = old.clone();
    other.suite_id = "t".into();
    assert!(matches!(
        Matrix::from_runs(&[&other, &new], &BTreeMap::new()),
        Err(MeasureError::SeveralSuites { .. })
    ));
    assert_eq!(
        Matrix::from_runs(&[], &BTreeMap::new()),
        Err(MeasureError::NoRuns)
    );
    assert!(matches!(
        Matrix::from_runs(&[&run("x", vec![])], &BTreeMap::new()),
        Err(MeasureError::NothingDecided { .. })
    ));
    assert_eq!(
        measure(&single(1, 1), &MeasureSettings::default()).unwrap_err(),
        MeasureError::OneCase
    );
}

/// A matrix from an external source may lack the accepted version's result of a case.
#[test]
fn a_case_that_the_accepted_version_did_not_decide_does_not_shift_the_clusters() {
    let clustered = |matrix: &mut Matrix| {
        for (index, case) in matrix.cases.iter_mut().enumerate() {
            case.cluster = Some(format!("template-{}", index / 10));
        }
    };
    let mut with_hole = single(110, 0);
    clustered(&mut with_hole);
    for (index, case) in with_hole.cases.iter_mut().enumerate() {
        let passes = u64::from(!(20..30).contains(&index));
        case.tallies = vec![(index != 5).then_some(Tally { passes, tries: 1 })];
    }
    let mut without = with_hole.clone();
    without.cases.remove(5);
    let settings = MeasureSettings::default();
    assert_eq!(
        measure(&with_hole, &settings).unwrap().headroom,
        measure(&without, &settings).unwrap().headroom
    );
}

#[test]
fn invalid_settings_are_rejected_and_seeds_are_reproducible() {
    for change in [
        |settings: &mut MeasureSettings| settings.alpha = 1.5,
        |settings: &mut MeasureSettings| settings.power = f64::NAN,
        |settings: &mut MeasureSettings| settings.noise_ceiling = 0.0,
        |settings: &mut MeasureSettings| settings.resamples = 0,
    ] {
        let mut settings = MeasureSettings::default();
        change(&mut settings);
        assert!(measure(&single(20, 6), &settings).is_err(), "{settings:?}");
    }
    let settings = MeasureSettings {
        seed: 7,
        ..MeasureSettings::default()
    };
    let first = measure(&single(60, 4), &settings).unwrap();
    assert_eq!(first, measure(&single(60, 4), &settings).unwrap());
    assert_eq!(first.verdict, Verdict::Underpowered);
    assert_eq!((first.headroom.failing, first.headroom.failing_needed), (4, 5));
}
