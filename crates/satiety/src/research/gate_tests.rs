use super::*;
use crate::research::Assessor;
use proptest::prelude::*;

fn hits(bodies: &[&str]) -> Vec<Hit> {
    bodies
        .iter()
        .enumerate()
        .map(|(number, body)| Hit::new("", format!("https://example.org/{number}"), *body))
        .collect()
}

fn literal_gate(epsilon: f64) -> Gate {
    let settings = GateSettings {
        epsilon,
        ..GateSettings::literal()
    };
    Gate::new(settings, "").unwrap()
}

fn observe(gate: &mut Gate, bodies: &[&str], summary: &str) -> Verdict {
    let results = hits(bodies);
    let input = RoundInput {
        results: &results,
        summary: Some(summary),
        ..RoundInput::default()
    };
    gate.observe(&input).0
}

/// The specification's loop, round by round: (new words out of ten, round) and the expected decision.
#[test]
fn decisions_match_the_specification() {
    let known = "a b c d e f g h i j";
    let ten = |new: usize| {
        (0..10)
            .map(|at| {
                if at < new {
                    format!("n{at}")
                } else {
                    known.split(' ').nth(at).unwrap().to_owned()
                }
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (scores, stops_at, accepted) in [
        (vec![10, 9, 8, 7, 6], 5, 5),
        (vec![0, 0, 2, 9, 9], 3, 2),
        (vec![0, 0, 3, 2, 9], 4, 3),
        (vec![10, 10, 3, 3, 2], 5, 4),
        (vec![10, 10, 3, 3, 3], 5, 5),
    ] {
        let mut gate = literal_gate(0.0);
        let mut kept = 0;
        let mut stopped = None;
        for (round, new) in (1..).zip(&scores) {
            let verdict = observe(&mut gate, &[&ten(*new)], known);
            assert_eq!(usize::from(verdict.score.unwrap()), *new);
            kept += u32::from(verdict.accepted);
            if verdict.decision == Decision::Stop {
                stopped = Some(round);
                break;
            }
        }
        assert_eq!((stopped, kept), (Some(stops_at), accepted), "{scores:?}");
    }
}

#[test]
fn a_quarter_new_rounds_down_to_two_and_stops() {
    let mut gate = literal_gate(0.0);
    for _ in 0..2 {
        assert_eq!(observe(&mut gate, &["x"], "x").reason, Reason::FirstRounds);
    }
    let verdict = observe(&mut gate, &["a b c n"], "a b c");
    assert_eq!((verdict.score, verdict.reason), (Some(2), Reason::Saturated));
    assert!((verdict.novelty.unwrap() - 0.25).abs() < 1e-12);
}

#[test]
fn the_first_round_has_no_summary_to_compare_with() {
    let mut gate = literal_gate(0.0);
    let results = hits(&["alpha beta", "gamma"]);
    let input = RoundInput {
        results: &results,
        ..RoundInput::default()
    };
    let (verdict, novelty) = gate.observe(&input);
    assert_eq!((verdict.score, novelty.seed), (Some(10), Some(1.0)));
    assert_eq!(gate.summary(), "alpha beta gamma");
}

#[test]
fn epsilon_is_drawn_only_below_the_threshold_and_recorded() {
    let settings = GateSettings::literal();
    let above = decide(&settings, 3, 0.9, None, None, 0.0);
    assert_eq!((above.draw, above.reason), (None, Reason::Novel));
    assert!((above.propensity - 1.0).abs() < 1e-12);
    let passed = decide(&settings, 3, 0.1, None, None, 0.1499);
    assert_eq!(
        (passed.decision, passed.accepted, passed.reason),
        (Decision::Continue, true, Reason::PassedThrough)
    );
    assert!((passed.propensity - 0.15).abs() < 1e-12);
    let stopped = decide(&settings, 3, 0.1, None, None, 0.15);
    assert_eq!((stopped.decision, stopped.accepted), (Decision::Stop, false));
    assert!((stopped.propensity - 0.85).abs() < 1e-12);
    // A pass resets nothing: the next round meets the same threshold, and the cap still applies.
    assert_eq!(
        decide(&settings, 4, 0.1, None, None, 0.9).decision,
        Decision::Stop
    );
    let last = decide(&settings, 5, 0.1, None, None, 0.0);
    assert_eq!(
        (last.decision, last.accepted, last.reason),
        (Decision::Stop, true, Reason::PassedThrough)
    );
}

#[test]
fn epsilon_matches_the_observed_rate() {
    let passed = (0..4000).filter(|seed| draw(*seed, 3) < 0.15).count();
    assert!((540..660).contains(&passed), "{passed}");
    assert!((draw(1, 3) - draw(1, 3)).abs() < f64::EPSILON);
    assert!((draw(1, 3) - draw(1, 4)).abs() > f64::EPSILON);
}

#[test]
fn empty_and_failed_searches_are_not_saturation() {
    let mut gate = literal_gate(0.0);
    for _ in 0..2 {
        observe(&mut gate, &["x y z"], "");
    }
    let empty = gate.observe(&RoundInput::default()).0;
    assert_eq!(
        (empty.decision, empty.accepted, empty.reason),
        (Decision::Continue, false, Reason::Empty)
    );
    let failed = RoundInput {
        failed: true,
        ..RoundInput::default()
    };
    assert_eq!(gate.observe(&failed).0.decision, Decision::Continue);
    let capped = gate.observe(&failed).0;
    assert_eq!(
        (capped.round, capped.decision),
        (5, Decision::Stop),
        "the cap holds for failures too"
    );
}

#[test]
fn identical_results_stop_the_default_gate_but_not_the_literal_one() {
    let body = |result: usize| {
        (0..8)
            .map(|sentence| {
                let words: Vec<String> = (0..15)
                    .map(|word| format!("w{result}x{sentence}x{word}"))
                    .collect();
                format!("{}.", words.join(" "))
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let results: Vec<Hit> = (0..5).map(|result| Hit::new("", "", body(result))).collect();
    let input = RoundInput {
        results: &results,
        ..RoundInput::default()
    };
    let run = |mut gate: Gate| (0..3).map(|_| gate.observe(&input)).last().unwrap();
    let (verdict, novelty) = run(Gate::new(
        GateSettings {
            epsilon: 0.0,
            ..GateSettings::default()
        },
        "",
    )
    .unwrap());
    assert_eq!(verdict.reason, Reason::Saturated);
    assert!(novelty.claims.unwrap().abs() < 1e-12);
    assert!(
        novelty.seed.unwrap() > 0.3,
        "the word bag calls the same results new: {novelty:?}"
    );
    assert_eq!(run(literal_gate(0.0)).0.decision, Decision::Continue);
}

#[test]
fn continuing_after_a_stop_accepts_the_round() {
    let settings = GateSettings {
        epsilon: 0.0,
        look_ahead: None,
        ..GateSettings::default()
    };
    let mut gate = Gate::new(settings, "").unwrap();
    let mut go = |bodies: &[&str]| {
        let results = hits(bodies);
        gate.observe(&RoundInput {
            results: &results,
            ..RoundInput::default()
        })
        .0
    };
    go(&["One thing is said here."]);
    go(&["One thing is said here."]);
    let mixed = [
        "One thing is said here.",
        "One thing is said here. Fresh news arrive today.",
    ];
    let many: Vec<&str> = mixed.into_iter().collect();
    assert_eq!(go(&many).decision, Decision::Continue, "half is new");
    assert_eq!(go(&["One thing is said here."]).decision, Decision::Stop);
    let again = go(&["Fresh news arrive today."]);
    assert!(again.novelty.unwrap().abs() < 1e-12);
}

#[test]
fn look_ahead_stops_after_an_accepted_round() {
    let settings = GateSettings::default();
    let verdict = decide(&settings, 3, 0.8, Some(0.01), None, 0.5);
    assert_eq!(
        (verdict.decision, verdict.accepted, verdict.reason),
        (Decision::Stop, true, Reason::Outlook)
    );
    assert_eq!(
        decide(&settings, 2, 0.8, Some(0.01), None, 0.5).decision,
        Decision::Continue
    );
    assert_eq!(
        decide(&settings, 3, 0.8, Some(0.9), None, 0.5).decision,
        Decision::Continue
    );
    assert_eq!(
        decide(&GateSettings::literal(), 3, 0.8, Some(0.01), None, 0.5).decision,
        Decision::Continue
    );
}

#[test]
fn every_assessor_can_decide() {
    let settings = GateSettings {
        assessor: Assessor::Model,
        epsilon: 0.0,
        min_rounds: 0,
        look_ahead: None,
        ..GateSettings::default()
    };
    let mut gate = Gate::new(settings, "").unwrap();
    let results = hits(&["Everything here is new to us."]);
    let input = RoundInput {
        results: &results,
        model: Some(crate::research::assess::model_score("1")),
        ..RoundInput::default()
    };
    assert_eq!(gate.observe(&input).0.reason, Reason::Saturated);
}

proptest! {
    /// Property: runs never exceed the cap, the first rounds are never gated, and nothing panics.
    #[test]
    fn every_run_ends(rounds in prop::collection::vec(prop::collection::vec("\\PC{0,40}", 0..4), 1..12), seed: u64) {
        let mut gate = Gate::new(GateSettings { seed, ..GateSettings::default() }, "a task of words").unwrap();
        for (number, bodies) in (1_u32..).zip(&rounds) {
            let results: Vec<Hit> = bodies.iter().map(|body| Hit::new("", "", body.as_str())).collect();
            let verdict = gate.observe(&RoundInput { results: &results, ..RoundInput::default() }).0;
            prop_assert_eq!(verdict.round, number);
            prop_assert!(verdict.novelty.is_none_or(|share| (0.0..=1.0).contains(&share)));
            if number <= 2 {
                prop_assert_eq!(verdict.decision, Decision::Continue);
            }
            if verdict.decision == Decision::Stop {
                prop_assert!(number <= 5);
                break;
            }
            prop_assert!(number < 5);
        }
    }
}

#[test]
fn the_missed_rule_stops_at_its_target_and_keeps_every_round() {
    let settings = GateSettings {
        stop: StopRule::Missed,
        max_missed: 0.1,
        ..GateSettings::default()
    };
    let estimate = |share| Some(Missed { share, bound: 0.3 });
    let at = |round, share| {
        let verdict = decide(&settings, round, 0.0, Some(0.0), estimate(share), 0.99);
        assert!(verdict.accepted && verdict.draw.is_none(), "{verdict:?}");
        (verdict.decision, verdict.reason)
    };
    assert_eq!(at(1, 0.0), (Decision::Continue, Reason::FirstRounds));
    assert_eq!(at(2, 0.1), (Decision::Stop, Reason::FewMissed));
    assert_eq!(at(2, 0.101), (Decision::Continue, Reason::ManyMissed));
    assert_eq!(at(5, 0.5), (Decision::Stop, Reason::Cap));
    let without = decide(&settings, 3, 0.0, None, None, 0.0);
    assert_eq!(
        without.reason,
        Reason::ManyMissed,
        "no estimate is not a reason to stop"
    );
    let words = decide(&settings, 2, 0.0, None, estimate(0.08), 0.0).words();
    assert!(
        words.starts_with("an estimated 8 %") && words.ends_with(": stop"),
        "{words}"
    );
    let capped = decide(&settings, 5, 0.5, None, estimate(0.2), 0.0).words();
    assert!(
        capped.contains("maximum number of rounds reached; an estimated 20 %"),
        "{capped}"
    );
}

#[test]
fn a_fixed_number_of_rounds_ignores_novelty() {
    let settings = GateSettings {
        stop: StopRule::Fixed,
        min_rounds: 1,
        max_rounds: 3,
        ..GateSettings::default()
    };
    let reasons: Vec<(Decision, Reason)> = (1..=3)
        .map(|round| {
            let verdict = decide(&settings, round, 0.0, Some(0.0), None, 0.99);
            (verdict.decision, verdict.reason)
        })
        .collect();
    assert_eq!(
        reasons,
        [
            (Decision::Continue, Reason::FixedRounds),
            (Decision::Continue, Reason::FixedRounds),
            (Decision::Stop, Reason::Cap)
        ]
    );
}

#[test]
fn repeated_results_leave_little_to_miss_and_different_ones_much() {
    let settings = GateSettings {
        stop: StopRule::Missed,
        max_rounds: 10,
        ..GateSettings::default()
    };
    let stops_at = |page: &dyn Fn(u32, u32) -> u32| {
        let mut gate = Gate::new(settings, "how do wings bend").unwrap();
        (1_u32..=10).find(|round| {
            let results: Vec<Hit> = (0..5)
                .map(|place| {
                    let page = page(*round, place);
                    Hit::new(
                        "",
                        format!("https://example.org/{page}"),
                        format!("Wing {page} bends."),
                    )
                })
                .collect();
            let input = RoundInput {
                results: &results,
                ..RoundInput::default()
            };
            gate.observe(&input).0.decision == Decision::Stop
        })
    };
    let same = stops_at(&|_, place| place);
    let different = stops_at(&|round, place| 5 * round + place);
    assert!(same < different, "{same:?} {different:?}");
    assert!(same <= Some(4), "{same:?}");
}

proptest! {
    /// A smaller tolerance never stops earlier, and no rule passes its maximum.
    #[test]
    fn a_smaller_tolerance_never_stops_earlier(
        shares in proptest::collection::vec(0.0_f64..0.6, 1..12),
        strict in 0.0_f64..0.5,
        more in 0.0_f64..0.5,
        max_rounds in 2_u32..12,
    ) {
        let stop_at = |max_missed: f64| {
            let settings = GateSettings { stop: StopRule::Missed, max_missed, max_rounds, ..GateSettings::default() };
            (1_u32..).zip(&shares).find_map(|(round, share)| {
                let missed = Some(Missed { share: *share, bound: 0.5 });
                (decide(&settings, round, 1.0, None, missed, 0.5).decision == Decision::Stop).then_some(round)
            })
        };
        let (late, early) = (stop_at(strict), stop_at(strict + more));
        prop_assert!(early.unwrap_or(u32::MAX) <= late.unwrap_or(u32::MAX));
        prop_assert!(late.is_none_or(|round| round <= max_rounds));
    }
}
