use super::*;

fn metrics(ceiling: f64, regression: f64, proposals: f64, auditors: f64) -> SignalMetrics {
    SignalMetrics {
        benchmark_ceiling_rate: Some(ceiling),
        regression_pass_rate: Some(regression),
        improvement_delta: None,
        proposal_pass_rate: Some(proposals),
        auditor_unanimous_rate: Some(auditors),
    }
}

fn score_of(metrics: &SignalMetrics, deltas: &[f64]) -> (f64, Level) {
    let result = score(metrics, deltas, &SignalSettings::default()).unwrap();
    (result.score, result.level)
}

/// Computed by hand from the weights: the specification's worked example, then the archetypes.
#[test]
fn archetypes() {
    let saturated = metrics(1.0, 1.0, 1.0, 1.0);
    let falling: Vec<f64> = (0..20).map(|cycle| 0.03 * f64::from(19 - cycle) / 19.0).collect();
    for (name, metrics, deltas, expected, level) in [
        // The document prints 0.78; its formula gives .30 + .25 + .15 + .10.
        (
            "worked example",
            metrics(0.82, 1.0, 0.88, 0.92),
            vec![0.03],
            0.80,
            Level::High,
        ),
        (
            "saturated, flat deltas",
            saturated,
            vec![0.0; 6],
            1.0,
            Level::Critical,
        ),
        // The last five mean .03 * 2 / 19 = .003158: stall .684, .8 + .2 * .684.
        (
            "saturated, deltas .03 to 0",
            saturated,
            falling,
            0.936842105263,
            Level::Critical,
        ),
        (
            "fresh, healthy",
            metrics(0.0, 1.0, 0.85, 0.9),
            vec![0.05; 6],
            0.50,
            Level::Elevated,
        ),
        (
            "all zero",
            metrics(0.0, 0.0, 0.0, 0.0),
            vec![],
            0.0,
            Level::Normal,
        ),
        // .25 * .25 + .15 + .10: the specification's own formula gives .375.
        (
            "half the regression tests fail",
            metrics(0.0, 0.5, 1.0, 1.0),
            vec![],
            0.3125,
            Level::Normal,
        ),
        (
            "deltas .5 to 0 in 6 cycles",
            metrics(0.0, 1.0, 1.0, 1.0),
            vec![0.5, 0.4, 0.3, 0.2, 0.1, 0.0],
            0.70,
            Level::High,
        ),
    ] {
        let (score, got) = score_of(&metrics, &deltas);
        assert!((score - expected).abs() < 1e-9, "{name}: {score}");
        assert_eq!(got, level, "{name}");
    }
}

#[test]
fn level_bounds_are_inclusive() {
    let levels = SignalSettings::default().levels;
    for (score, level) in [
        (0.4999, Level::Normal),
        (0.5, Level::Elevated),
        (0.7, Level::High),
        (0.85, Level::Critical),
        (1.0, Level::Critical),
    ] {
        assert_eq!(Level::of(score, levels), level, "{score}");
    }
}

#[test]
fn metrics_out_of_range_are_rejected() {
    let good = metrics(0.5, 0.5, 0.5, 0.5);
    for value in [f64::NAN, f64::INFINITY, -0.01, 1.01, 82.0] {
        for field in 0..4 {
            let mut bad = good;
            match field {
                0 => bad.benchmark_ceiling_rate = Some(value),
                1 => bad.regression_pass_rate = Some(value),
                2 => bad.proposal_pass_rate = Some(value),
                _ => bad.auditor_unanimous_rate = Some(value),
            }
            assert!(
                score(&bad, &[], &SignalSettings::default()).is_err(),
                "{field} {value}"
            );
        }
    }
    assert!(score(&good, &[0.1, f64::NAN], &SignalSettings::default()).is_err());
    let error = check(&metrics(82.0, 1.0, 1.0, 1.0), &[]).unwrap_err().to_string();
    assert!(
        error.contains("benchmark_ceiling_rate is 82") && error.contains("percentage"),
        "{error}"
    );
}

#[test]
fn an_unmeasured_signal_contributes_nothing() {
    let mut partial = metrics(1.0, 1.0, 1.0, 1.0);
    partial.auditor_unanimous_rate = None;
    let settings = SignalSettings::default();
    let result = score(&partial, &[0.0; 5], &settings).unwrap();
    assert!((result.score - 0.9).abs() < 1e-12);
}
