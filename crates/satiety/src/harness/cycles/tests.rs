use super::*;
use crate::harness::signals::SignalSettings;

fn at(cycle: i64) -> Timestamp {
    Timestamp::from_second(1_767_106_800 + cycle * 3600).unwrap()
}

fn snapshot(cycle: i64, version: &str, score: f64) -> CycleSnapshot {
    CycleSnapshot {
        cycle_id: format!("cycle-{cycle}"),
        timestamp: at(cycle),
        harness_version: version.to_owned(),
        metrics: SignalMetrics {
            improvement_delta: Some(0.01),
            ..SignalMetrics::default()
        },
        saturation_score: score,
        saturation_level: Level::of(score, SignalSettings::default().levels),
        measured: None,
        unverified: false,
        schema_version: SCHEMA_VERSION.to_owned(),
    }
}

fn window(scores: &[f64]) -> Aggregate {
    let mut window = Aggregate::new("v1", Driver::default());
    for (cycle, &score) in (0..).zip(scores) {
        window.record(&snapshot(cycle, "v1", score)).unwrap();
    }
    window
}

fn decide(scores: &[f64]) -> (Action, Urgency, Option<String>) {
    let result = window(scores).decide(&ConsistencyThresholds::default());
    (result.action, result.urgency, result.reason)
}

#[test]
fn the_specifications_rules_in_its_order() {
    let nine_high_then_critical: Vec<f64> = [vec![0.75; 9], vec![0.9]].concat();
    let rising: Vec<f64> = (0..12).map(|cycle| 0.6 + 0.02 * f64::from(cycle)).collect();
    for (name, scores, action, urgency, reason) in [
        (
            "nine critical are too few cycles",
            vec![0.95; 9],
            Action::Continue,
            Urgency::Low,
            Some("Insufficient data: 9 cycles"),
        ),
        (
            "ten high",
            vec![0.75; 10],
            Action::TriggerExpansionResearch,
            Urgency::High,
            Some("10 consecutive HIGH"),
        ),
        (
            "getting worse does not reset",
            nine_high_then_critical,
            Action::TriggerExpansionResearch,
            Urgency::High,
            Some("10 consecutive HIGH"),
        ),
        (
            "five critical",
            [vec![0.1; 5], vec![0.9; 5]].concat(),
            Action::TriggerExpansionResearch,
            Urgency::Critical,
            Some("URGENT: 5 consecutive CRITICAL"),
        ),
        (
            "critical is over",
            [vec![0.1; 5], vec![0.9; 5], vec![0.75]].concat(),
            Action::Continue,
            Urgency::Low,
            None,
        ),
        (
            "rising average",
            rising,
            Action::FlagForReview,
            Urgency::Medium,
            Some("Rolling avg 0.71 with increasing trend"),
        ),
        ("normal", vec![0.3; 20], Action::Continue, Urgency::Low, None),
    ] {
        assert_eq!(
            decide(&scores),
            (action, urgency, reason.map(str::to_owned)),
            "{name}"
        );
    }
}

#[test]
fn the_window_rolls_and_belongs_to_a_version() {
    let mut window = window(&[0.75; 25]);
    assert_eq!((window.cycles_tracked, window.history.len()), (20, 20));
    assert_eq!(window.oldest_cycle.as_deref(), Some("cycle-5"));
    assert_eq!(window.newest_cycle.as_deref(), Some("cycle-24"));
    assert_eq!(window.deltas().len(), 20);
    window.latch("exp-1").unwrap();
    window.record(&snapshot(25, "v2", 0.2)).unwrap();
    assert_eq!(
        (window.cycles_tracked, window.harness_version.as_str()),
        (1, "v2")
    );
    assert_eq!(window.open_expansion, None);
}

#[test]
fn one_expansion_is_open_at_a_time() {
    let thresholds = ConsistencyThresholds::default();
    let mut window = window(&[0.9; 12]);
    assert_eq!(
        window.decide(&thresholds).action,
        Action::TriggerExpansionResearch
    );
    window.latch("exp-1").unwrap();
    window.latch("exp-1").unwrap();
    assert!(matches!(window.latch("exp-2"), Err(CycleError::Latched { .. })));
    let held = window.decide(&thresholds);
    assert_eq!((held.action, held.is_consistent), (Action::Continue, true));
    assert!(held.reason.unwrap().contains("exp-1"));
    window.release("exp-1", &thresholds);
    for cycle in 12..22 {
        assert_eq!(window.decide(&thresholds).action, Action::Continue, "{cycle}");
        window.record(&snapshot(cycle, "v1", 0.9)).unwrap();
    }
    assert_eq!(
        window.decide(&thresholds).action,
        Action::TriggerExpansionResearch
    );
}

#[test]
fn cycles_are_neither_rewritten_nor_back_dated() {
    let mut window = window(&[0.5; 3]);
    let before = window.clone();
    window.record(&snapshot(2, "v1", 0.5)).unwrap();
    assert_eq!(window, before);
    assert!(matches!(
        window.record(&snapshot(2, "v1", 0.1)),
        Err(CycleError::Rewritten { .. })
    ));
    let mut late = snapshot(7, "v1", 0.5);
    late.timestamp = at(1);
    assert!(matches!(window.record(&late), Err(CycleError::OutOfOrder { .. })));
    late.cycle_id = "../aggregate".into();
    assert!(matches!(window.record(&late), Err(CycleError::BadId { .. })));
    assert_eq!(window, before);
}

#[test]
fn the_measured_score_drives_if_present() {
    let mut marked = snapshot(0, "v1", 0.9);
    marked.measured = Some(MeasuredSaturation {
        probability: 0.1,
        verdict: Verdict::Discriminates,
        level: Level::Normal,
    });
    assert_eq!(marked.driving(Driver::Measured), (0.1, Level::Normal));
    assert_eq!(marked.driving(Driver::Signals), (0.9, Level::Critical));
}

#[test]
fn records_have_the_specifications_shape() {
    let record = snapshot(1, "v1", 0.78).record().unwrap();
    assert_eq!(record.key, "eval-harness/saturation/cycles/cycle-1");
    assert_eq!(record.value["saturation_level"], "HIGH");
    assert_eq!(record.value["x-schema-version"], "1.0");
    assert_eq!(record.value["metrics"]["improvement_delta"], 0.01);
    assert_eq!(record.tags["x-level"], "HIGH");
    let back: CycleSnapshot = serde_json::from_value(record.value).unwrap();
    assert_eq!(back, snapshot(1, "v1", 0.78));
    let aggregate = Record::aggregate(&window(&[0.75; 12]));
    assert_eq!(aggregate.key, AGGREGATE_KEY);
    assert_eq!(aggregate.value["rolling_metrics"]["saturation_trend"], "stable");
    assert_eq!(aggregate.value["rolling_metrics"]["consecutive_high_count"], 12);
    assert_eq!(retention_days(&record.key), Some(90));
    assert_eq!(retention_days(AGGREGATE_KEY), None);
    assert_eq!(retention_days(&expansion_key("exp-1").unwrap()), None);
}

fn stated(cycle: i64, score: f64) -> CycleSnapshot {
    CycleSnapshot {
        unverified: true,
        ..snapshot(cycle, "v1", score)
    }
}

/// Returns the action and urgency as an ordered value.
fn alarm_level(window: &Aggregate) -> (u8, Urgency) {
    let decided = window.decide(&ConsistencyThresholds::default());
    let action = match decided.action {
        Action::Continue => 0,
        Action::FlagForReview => 1,
        Action::TriggerExpansionResearch => 2,
    };
    (action, decided.urgency)
}

proptest::proptest! {
    /// Stated metrics raise an alarm or leave it, immediately and for every following cycle.
    #[test]
    fn stated_metrics_never_lower_an_alarm(
        cycles in proptest::collection::vec((proptest::prelude::any::<bool>(), 0..=20_u32), 1..60)
    ) {
        let mut all = Aggregate::new("v1", Driver::default());
        let mut proven = Aggregate::new("v1", Driver::default());
        for (number, (unverified, score)) in (0..).zip(cycles) {
            let score = f64::from(score) / 20.0;
            let before = all.clone();
            if unverified {
                all.record(&stated(number, score)).unwrap();
                proptest::prop_assert!(alarm_level(&all) >= alarm_level(&before));
                let (is, was) = (&all.rolling_metrics, &before.rolling_metrics);
                proptest::prop_assert!(is.avg_saturation_score >= was.avg_saturation_score);
                proptest::prop_assert!(is.consecutive_high_count >= was.consecutive_high_count);
                proptest::prop_assert!(is.consecutive_critical_count >= was.consecutive_critical_count);
            } else {
                let cycle = snapshot(number, "v1", score);
                all.record(&cycle).unwrap();
                proven.record(&cycle).unwrap();
            }
            proptest::prop_assert!(alarm_level(&all) >= alarm_level(&proven));
            proptest::prop_assert_eq!(all.evidence_until(), proven.evidence_until());
            proptest::prop_assert_eq!(all.deltas(), proven.deltas());
            // A window survives serialization.
            let back: Aggregate = serde_json::from_value(json(&all)).unwrap();
            proptest::prop_assert_eq!(&back, &all);
        }
    }
}
