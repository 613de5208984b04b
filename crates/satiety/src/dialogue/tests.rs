//! Complete conversations: the seed's appendices, the JSON format, every warning, and properties of any
//! input.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

fn outputs(claims: &[&str], questions: &[&str], actions: &[&str]) -> Outputs {
    Outputs {
        claims: claims.iter().map(|&text| text.into()).collect(),
        open_questions: strings(questions),
        next_actions: strings(actions),
        ..Outputs::default()
    }
}

static PROFILES: LazyLock<[Profile; 2]> =
    LazyLock::new(|| Profile::built_in_names().map(|name| Profile::built_in(name).unwrap()));

fn score(profile: &str, rounds: Vec<Outputs>) -> Report {
    let profile = PROFILES.iter().find(|own| own.name == profile).unwrap();
    let mut conversation = Conversation::new(profile.clone()).unwrap();
    for (number, outputs) in (1..).zip(rounds) {
        conversation.observe(&Round::new(number, outputs), None).unwrap();
    }
    conversation.report().unwrap()
}

fn kinds(report: &Report) -> Vec<WarningKind> {
    report.warnings.iter().map(|warning| warning.kind).collect()
}

/// A meeting with the numbers of claims, new claims, questions and actions of the seed's appendix A.
fn meeting() -> Vec<Outputs> {
    let purpose = "A meeting needs a purpose that everybody can repeat";
    let timebox = "A timebox forces the group to choose";
    let loops = "Loops show when the same point comes up three times";
    let ending = "A clean ending names a decision and a next action";
    let owner = "Somebody must own the clock";
    let parking = "Side topics go to a parking lot";
    let rule = "Stop when the purpose is met, the timebox is over or nothing new is said";
    vec![
        outputs(
            &[purpose, timebox, loops, ending],
            &["When is a meeting over?"],
            &["Think about stop rules."],
        ),
        outputs(
            &[timebox, loops, owner],
            &["Who watches the clock?"],
            &["Consider a rule for the clock."],
        ),
        outputs(
            &[owner, ending, parking],
            &["What about side topics?"],
            &["Consider a parking lot."],
        ),
        outputs(
            &[parking, ending, rule],
            &[],
            &["Convert this into a 1-page facilitation checklist."],
        ),
        outputs(&[rule], &[], &["End."]),
        outputs(&[rule, ending], &[], &["End."]),
    ]
}

#[test]
fn appendix_a_and_b_of_the_seed_hold_under_spec() {
    let report = score("spec", meeting());
    let rates: Vec<f64> = report
        .novelty_by_round
        .iter()
        .map(|round| round.novelty_rate_l0)
        .collect();
    assert_eq!(rates, [1.0, 0.25, 0.25, 0.25, 0.0, 0.0]);
    let fourth = &report.readiness_by_round[3];
    assert_eq!(
        (fourth.action_readiness, fourth.classification),
        (0.85, Level::High)
    );
    assert_eq!(report.novelty_by_round[3].classification, Level::Medium);
    let sixth = &report.readiness_by_round[5];
    assert_eq!(
        (sixth.action_readiness, sixth.classification),
        (0.65, Level::Medium)
    );
    // The appendix says that k = 2 is met in round 5; round 5 is the first low one, so it is met in round 6.
    let signals: Vec<Signal> = report.signal_by_round.iter().map(|round| round.signal).collect();
    assert_eq!(signals[..5], [Signal::Continue; 5]);
    let stop = &report.stop_recommendation;
    assert_eq!((stop.signal, stop.k_consecutive_low_novelty), (Signal::Ship, 2));
    assert_eq!(
        (stop.novelty_classification, stop.readiness_classification),
        (Level::Low, Level::Medium)
    );
    assert!(stop.caveat.is_some());
    assert_eq!(report.first_stop_round, Some(6));
}

#[test]
fn the_default_profile_stops_where_the_seed_says_a_person_would() {
    let report = score("default", meeting());
    assert_eq!(report.first_stop_round, Some(4));
    assert_eq!(report.stop_recommendation.signal, Signal::Ship);
}

#[test]
fn the_json_has_the_keys_of_the_seed_and_ours() {
    let report = serde_json::to_value(score("default", meeting())).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let has = |value: &Value, expected: &[&str]| {
        for key in expected {
            assert!(
                keys(value).iter().any(|own| own == key),
                "{key} is missing from {:?}",
                keys(value)
            );
        }
    };
    has(
        &report,
        &[
            "score",
            "components",
            "novelty_by_round",
            "stop_recommendation",
            "hint",
        ],
    );
    has(
        &report,
        &[
            "readiness_by_round",
            "signal_by_round",
            "first_stop_round",
            "warnings",
            "unseen",
            "profile",
            "scoring_version",
            "embedder",
            "reasons",
        ],
    );
    let components = &report["components"];
    has(
        components,
        &[
            "novelty_rate",
            "novelty_rate_L0",
            "novelty_rate_L1",
            "novelty_rate_L2",
            "action_readiness",
        ],
    );
    has(
        components,
        &[
            "action_readiness_detail",
            "semantic_similarity",
            "structural_agreement",
        ],
    );
    assert_eq!(components["novelty_rate_L2"], Value::Null);
    assert_eq!(components["semantic_similarity"], Value::Null);
    has(
        &components["action_readiness_detail"],
        &["next_actions_score", "open_questions_score", "blocker_score"],
    );
    has(
        &report["stop_recommendation"],
        &[
            "signal",
            "novelty_classification",
            "readiness_classification",
            "k_consecutive_low_novelty",
            "rationale",
        ],
    );
    assert_eq!(report["levels"], serde_json::json!(["L0", "L1"]));
    assert_eq!(report["reasons"].as_array().unwrap().len(), 3);
    let back: Report = serde_json::from_value(report.clone()).unwrap();
    assert_eq!(serde_json::to_value(back).unwrap(), report);
}

#[test]
fn numbers_and_negation_make_another_claim_at_every_level() {
    for (one, other) in [
        (
            "3 of the nodes in the eastern cluster failed during the night",
            "5 of the nodes in the eastern cluster failed during the night",
        ),
        (
            "Replaying the payment queue is safe for all of our customers",
            "Replaying the payment queue is not safe for all of our customers",
        ),
    ] {
        for profile in Profile::built_in_names() {
            for with_vectors in [false, true] {
                let mut conversation = Conversation::new(Profile::built_in(profile).unwrap()).unwrap();
                for (number, claim) in [(1, one), (2, other)] {
                    let round = Round::new(number, outputs(&[claim], &[], &[]));
                    // The same vector for both: a sentence model at its worst.
                    let vectors =
                        with_vectors.then(|| RoundVectors::new("m", &round, vec![vec![1.0, 0.0]]).unwrap());
                    conversation.observe(&round, vectors.as_ref()).unwrap();
                }
                let report = conversation.report().unwrap();
                assert_eq!(report.novelty_by_round[1].new_claims, 1, "{profile}: {other}");
                assert!((report.components.novelty_rate_l1 - 1.0).abs() < 1e-12);
                assert_eq!(report.components.novelty_rate_l2, with_vectors.then_some(1.0));
            }
        }
    }
}

#[test]
fn meaning_finds_what_words_do_not_and_the_border_zone_is_reported() {
    let at = |cosine: f32| vec![cosine, (1.0 - cosine * cosine).sqrt()];
    let mut conversation = Conversation::new(Profile::default()).unwrap();
    let mut observe = |number, claim: &str, vector: Vec<f32>| {
        let round = Round::new(number, outputs(&[claim], &[], &[]));
        let vectors = RoundVectors::new("m", &round, vec![vector]).unwrap();
        conversation.observe(&round, Some(&vectors)).unwrap()
    };
    observe(1, "Warm the cache", at(1.0));
    let near = observe(2, "Fill the store beforehand", at(0.7));
    assert_eq!(
        (near.novelty.new_claims, near.novelty.possible_restatements.len()),
        (1, 1)
    );
    assert_eq!(near.novelty.semantic_similarity, Some(0.7));
    let same = observe(3, "Preload everything", at(0.99));
    assert_eq!(same.novelty.new_claims, 0);
    assert_eq!(
        (
            same.novelty.restatements[0].level.as_str(),
            same.novelty.restatements[0].of_round
        ),
        ("L2", 1)
    );
    assert_eq!(same.novelty.structural_agreement, Some(1.0));
}

#[test]
fn near_duplicates_within_a_round_count_once() {
    let claims = [
        "The lift stops at floor three at night",
        "At night the lift stops at floor three",
    ];
    let report = score("default", vec![outputs(&claims, &[], &[])]);
    assert_eq!(report.novelty_by_round[0].new_claims, 1);
    let spec = score("spec", vec![outputs(&["Ship it now.", "ship  it NOW"], &[], &[])]);
    assert_eq!(
        (
            spec.novelty_by_round[0].claims,
            spec.novelty_by_round[0].new_claims
        ),
        (1, 1)
    );
}

#[test]
fn every_failure_mode_is_warned_of_with_evidence() {
    let first = [
        "The importer drops empty lines",
        "Dates before 1970 turn negative",
        "Logs grow without any limit",
    ];
    let shuffled = [
        "Empty lines the importer drops",
        "Negative turn dates before 1970",
        "Without any limit logs grow",
    ];
    let new = [
        "Backups were never restored",
        "The spare disk is full",
        "Nobody holds the pager on Sundays",
    ];
    let cases: Vec<(WarningKind, Vec<Outputs>)> = vec![
        (
            WarningKind::ParaphraseGaming,
            vec![outputs(&first, &[], &[]), outputs(&shuffled, &[], &[])],
        ),
        (
            WarningKind::ClaimInflation,
            vec![
                outputs(&[first, new].concat(), &[], &[]),
                outputs(&[first, new].concat(), &[], &[]),
            ],
        ),
        (
            WarningKind::FakeReadiness,
            vec![
                outputs(&first, &[], &[]),
                outputs(&new, &[], &["Implement the solution"]),
            ],
        ),
        (
            WarningKind::QuestionSuppression,
            vec![
                outputs(&first, &["Who signs the contract?"], &[]),
                outputs(&new, &[], &[]),
            ],
        ),
        (
            WarningKind::QuestionSuppression,
            vec![outputs(&["Should we shard the table first?"], &[], &[])],
        ),
        (
            WarningKind::StaleReadiness,
            vec![
                outputs(&first, &[], &["Write the importer test"]),
                outputs(&new, &["Who pays?"], &[]),
            ],
        ),
        (
            WarningKind::RepeatedRound,
            vec![outputs(&first, &[], &[]), outputs(&first, &[], &[])],
        ),
        (
            WarningKind::Alternation,
            vec![
                outputs(&first, &[], &[]),
                outputs(&new, &[], &[]),
                outputs(&first, &[], &[]),
                outputs(&new, &[], &[]),
            ],
        ),
        (
            WarningKind::Contradiction,
            vec![
                outputs(&["Replaying the payment queue is safe for customers"], &[], &[]),
                outputs(
                    &["Replaying the payment queue is not safe for customers"],
                    &[],
                    &[],
                ),
            ],
        ),
        (
            WarningKind::EmptyRound,
            vec![outputs(&first, &[], &[]), Outputs::default()],
        ),
    ];
    for (kind, rounds) in cases {
        let report = score("default", rounds);
        let warning = report.warnings.iter().find(|warning| warning.kind == kind);
        let warning = warning.unwrap_or_else(|| panic!("{kind:?} is not among {:?}", kinds(&report)));
        assert!(
            kind == WarningKind::EmptyRound || !warning.evidence.is_empty(),
            "{kind:?} has no evidence"
        );
    }
}

#[test]
fn an_ordinary_conversation_is_not_warned_of() {
    assert_eq!(kinds(&score("default", meeting()[..4].to_vec())), []);
}

/// Speakers of both rounds, then the claims of one of them again: (role, agent, claims).
fn discussion(rounds: &[(Option<&str>, &str, &[&str])]) -> Vec<Signal> {
    let mut conversation = Conversation::new(Profile::default()).unwrap();
    let verdicts = (1..).zip(rounds).map(|(number, (role, agent, claims))| {
        let mut round = Round {
            agent: Some((*agent).to_owned()),
            ..Round::new(number, outputs(claims, &[], &[]))
        };
        if let Some(role) = role {
            round.extra.insert("role".to_owned(), Value::from(*role));
        }
        conversation.observe(&round, None).unwrap().signal
    });
    verdicts.collect()
}

#[test]
fn the_silence_of_a_user_does_not_count() {
    let (found, asked) = (
        [
            "The importer drops empty lines",
            "Dates before 1970 turn negative",
        ],
        ["Logs grow without any limit"],
    );
    for (role, agent, expected) in [
        (None, "critic", Signal::Continue),
        (Some("user"), "ana", Signal::Stop),
        (None, "Customer", Signal::Stop),
    ] {
        let signals = discussion(&[
            (None, "writer", &found),
            (role, agent, &asked),
            (None, "writer", &found),
        ]);
        assert_eq!(signals, [Signal::Continue, Signal::Continue, expected], "{agent}");
    }
}

#[test]
fn a_debate_that_ends_in_thanks_stops() {
    let log = r#"[{"role":"user","name":"host","content":"Is remote work better?"},
        {"role":"assistant","name":"Agent_Pro","content":"Remote work saves commuting time. It widens the hiring pool."},
        {"role":"user","name":"Agent_Con","content":"Remote work weakens mentoring. New hires learn slower from home."},
        {"role":"assistant","name":"Agent_Pro","content":"Mentoring can be scheduled. Commuting is the larger cost."},
        {"role":"user","name":"Agent_Con","content":"Thank you for the great debate!"},
        {"role":"assistant","name":"Agent_Pro","content":"Thank you as well, it was a pleasure debating with you!"}]"#;
    let read = input::parse(log.as_bytes(), input::ReadOptions::default()).unwrap();
    let mut conversation = Conversation::new(Profile::default()).unwrap();
    for round in &read.content.rounds {
        conversation.follow(round, None).unwrap();
    }
    let report = conversation.report().unwrap();
    assert_eq!(
        report.signal_by_round.len(),
        5,
        "the question of the host is an input"
    );
    assert_eq!(
        (report.stop_recommendation.signal, report.first_stop_round),
        (Signal::Stop, Some(5))
    );
    assert_eq!(kinds(&report), []);
}

#[test]
fn a_review_is_judged_by_what_it_still_finds() {
    let rounds = vec![
        outputs(
            &[
                "[P1] The lock is held across the await",
                "[P2] Retries have no limit",
            ],
            &[],
            &[],
        ),
        outputs(
            &["critical: the migration drops an index", "nit: a stale comment"],
            &[],
            &[],
        ),
        outputs(
            &["nit: prefer a slice here", "minor: the error lacks a file name"],
            &[],
            &[],
        ),
        outputs(
            &["nit: two blank lines in the module", "nit: rename the counter"],
            &[],
            &[],
        ),
    ];
    let report = score("default", rounds.clone());
    let signals: Vec<Signal> = report.signal_by_round.iter().map(|round| round.signal).collect();
    assert_eq!(
        signals,
        [Signal::Continue, Signal::Continue, Signal::Continue, Signal::Stop]
    );
    let review = report.review.unwrap();
    let curve: Vec<f64> = review
        .yield_by_round
        .iter()
        .map(|round| round.weighted_yield)
        .collect();
    assert_eq!(curve, [6.0, 8.25, 1.25, 0.5]);
    assert!(review.below_bar && review.unseen_share.is_none());
    assert_eq!(review.yield_by_round[1].worst.as_deref(), Some("critical"));
    assert!(
        report.reasons[0].contains("below your bar"),
        "{:?}",
        report.reasons
    );
    assert_eq!(score("spec", rounds).stop_recommendation.signal, Signal::Continue);
    assert_eq!(score("default", meeting()).review, None);
}

#[test]
fn healthy_loops_are_not_warned_of_readiness() {
    // Every round of a research loop has findings and a next step, and some have no step.
    let round = |topic: &str, action: &[&str]| {
        let claims = [format!("{topic} is measured"), format!("No team owns {topic}")];
        outputs(&[&claims[0], &claims[1]], &[], action)
    };
    let rounds = vec![
        round("latency", &["Write the latency test"]),
        round("throughput", &["Write the throughput test"]),
        round("memory", &[]),
        round("startup", &["Write the startup test"]),
    ];
    let found = kinds(&score("default", rounds));
    assert!(
        !found.contains(&WarningKind::FakeReadiness) && !found.contains(&WarningKind::StaleReadiness),
        "{found:?}"
    );
}

#[test]
fn an_agent_that_repeats_itself_does_not_confirm_a_claim() {
    let claims = [
        "The importer drops empty lines",
        "Dates before 1970 turn negative",
    ];
    let observe = |agents: [Option<&str>; 3]| {
        let mut conversation = Conversation::new(Profile::default()).unwrap();
        for (number, agent) in (1..).zip(agents) {
            let round = Round {
                agent: agent.map(str::to_owned),
                ..Round::new(number, outputs(&claims, &[], &[]))
            };
            conversation.observe(&round, None).unwrap();
        }
        conversation.report().unwrap().unseen.by_round[2].claims
    };
    assert_eq!(observe([Some("ada"); 3]), 2);
    assert_eq!(observe([Some("ada"), Some("bob"), Some("cyd")]), 6);
    assert_eq!(observe([None; 3]), 6, "without named speakers, once per round");
}

#[test]
fn vectors_of_another_model_or_round_are_refused() {
    let mut conversation = Conversation::new(Profile::default()).unwrap();
    let round = |number, claim: &str| Round::new(number, outputs(&[claim], &[], &[]));
    let vectors = |model: &str, of: &Round| RoundVectors::new(model, of, vec![vec![1.0]]).unwrap();
    let first = round(1, "a");
    conversation.observe(&first, Some(&vectors("m", &first))).unwrap();
    let error = conversation
        .observe(&round(2, "b"), Some(&vectors("other", &first)))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("earlier rounds use `m`, this round uses `other`"),
        "{error}"
    );
    let two = Round::new(2, outputs(&["b", "c"], &[], &[]));
    assert!(conversation.observe(&two, Some(&vectors("m", &first))).is_err());
    assert!(conversation.with_blocker_prototypes(vec![vec![1.0]]).is_err());
    assert_eq!(
        Conversation::new(Profile::default())
            .unwrap()
            .report()
            .unwrap_err(),
        ConversationError::NoRounds
    );
}

#[test]
fn a_round_without_vectors_disables_l2_permanently() {
    let mut conversation = Conversation::new(Profile::default()).unwrap();
    let round = |number| Round::new(number, outputs(&["a claim of some length"], &[], &[]));
    let vectors = |of: &Round| RoundVectors::new("m", of, vec![vec![1.0]]).unwrap();
    conversation
        .observe(&round(1), Some(&vectors(&round(1))))
        .unwrap();
    assert_eq!(conversation.report().unwrap().embedder.as_deref(), Some("m"));
    conversation.observe(&round(2), None).unwrap();
    let last = conversation
        .observe(&round(3), Some(&vectors(&round(3))))
        .unwrap();
    assert_eq!(last.novelty.novelty_rate_l2, None);
    assert_eq!(conversation.report().unwrap().embedder, None);
}

#[test]
fn the_sweep_counts_right_early_and_late() {
    let labelled = |name: &str, stop_round| Labelled {
        name: name.to_owned(),
        expected: Some(Signal::Ship),
        stop_round: Some(stop_round),
        rounds: (1..)
            .zip(meeting())
            .map(|(number, outputs)| (Round::new(number, outputs), None))
            .collect(),
    };
    let set = [labelled("right", 4), labelled("early", 5), labelled("late", 3)];
    let grid = Grid {
        k: vec![1, 2, 3],
        ..Grid::default()
    };
    let report = sweep(&set, &Profile::default(), None, &grid).unwrap();
    let base = report.base;
    assert_eq!((base.signals_right, base.signals_labelled), (3, 3));
    assert_eq!(
        (
            base.stop_rounds_right,
            base.stop_rounds_early,
            base.stop_rounds_late
        ),
        (1, 1, 1)
    );
    assert_eq!(report.confusion.counts[&Signal::Ship][&Signal::Ship], 3);
    assert_eq!(
        report.cells.iter().map(|cell| cell.k).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    let spec = sweep(&set, &Profile::built_in("spec").unwrap(), None, &grid).unwrap();
    assert_eq!(spec.outcomes[0].first_stop_round, Some(6));
    assert_eq!(
        (spec.cells[0].stop_rounds_right, spec.cells[0].k),
        (1, 1),
        "with k = 1 it stops at round 5"
    );
}

#[test]
fn a_blocked_plan_without_claims_is_not_shipped() {
    let actions = [
        "Write the migration",
        "Send https://example.com/plan to the team",
        "Blocked: waiting on the vendor",
    ];
    let signals = |rounds| score("default", rounds).signal_by_round.last().unwrap().signal;
    let begin = || outputs(&["The spare disk is nearly full"], &[], &[]);
    let plan = outputs(&[], &[], &actions[..2]);
    assert_eq!(signals(vec![begin(), plan]), Signal::Ship);
    assert_eq!(
        signals(vec![begin(), outputs(&[], &[], &actions)]),
        Signal::Escalate
    );
}

#[test]
fn structural_agreement_counts_stances_on_earlier_rounds() {
    let first = outputs(
        &[
            "Replaying the payment queue is safe for customers",
            "The spare disk is nearly full",
        ],
        &[],
        &[],
    );
    let second = outputs(
        &[
            "Replaying the payment queue is not safe for customers",
            "The spare disk is nearly full.",
            "Nobody holds the pager on Sundays",
            "A hedge would hide the pump",
        ],
        &[],
        &[],
    );
    let report = score("default", vec![first, second]);
    assert_eq!(report.novelty_by_round[0].structural_agreement, None);
    assert_eq!(report.components.structural_agreement, Some(0.5));
}

fn any_outputs() -> impl Strategy<Value = Outputs> {
    let text = prop_oneof![
        "[a-c]{1,2}( [a-c]{1,2}){0,4}[.?]?",
        "\\PC{0,20}",
        Just("Blocked: waiting on the vendor".to_owned()),
        Just("Write the migration".to_owned()),
    ];
    let texts = proptest::collection::vec(text, 0..4);
    (texts.clone(), texts.clone(), texts.clone(), texts).prop_map(
        |(claims, decisions, questions, actions)| Outputs {
            claims: claims.into_iter().map(Claim::from).collect(),
            decisions,
            open_questions: questions,
            next_actions: actions,
            ..Outputs::default()
        },
    )
}

proptest! {
    #[test]
    fn any_conversation_gets_an_answer_within_its_bounds(
        rounds in proptest::collection::vec(any_outputs(), 1..6),
        profile in prop_oneof![Just("default"), Just("spec")],
    ) {
        let report = score(profile, rounds.clone());
        let unit = 0.0..=1.0;
        for round in &report.novelty_by_round {
            prop_assert!(unit.contains(&round.novelty_rate) && unit.contains(&round.novelty.unwrap_or(0.0)));
            prop_assert!(round.novelty_rate <= round.novelty_rate_l0 && round.novelty_rate <= round.novelty_rate_l1);
            prop_assert!(round.new_claims <= round.claims);
        }
        for round in &report.readiness_by_round {
            prop_assert!(unit.contains(&round.action_readiness));
            if !round.blockers.is_empty() {
                let signal = report.signal_by_round.iter().find(|other| other.round == round.round).unwrap().signal;
                prop_assert!(signal != Signal::Ship && signal != Signal::Stop);
            }
        }
        prop_assert!((report.score - (1.0 - report.components.novelty_rate)).abs() < 1e-9);
        let first = report.signal_by_round.iter().find(|round| round.signal != Signal::Continue);
        prop_assert_eq!(report.first_stop_round, first.map(|round| round.round));
        prop_assert!(profile == "default" || report.signal_by_round.iter().all(|round| round.signal != Signal::Stop));
    }

    #[test]
    fn rounds_one_at_a_time_give_what_the_prefix_gives(rounds in proptest::collection::vec(any_outputs(), 2..5)) {
        let whole = score("default", rounds.clone());
        let part = score("default", rounds[..rounds.len() - 1].to_vec());
        prop_assert_eq!(&whole.signal_by_round[..rounds.len() - 1], &part.signal_by_round[..]);
        prop_assert_eq!(&whole.novelty_by_round[..rounds.len() - 1], &part.novelty_by_round[..]);
    }

    #[test]
    fn a_round_said_again_has_no_novelty(outputs in any_outputs()) {
        let report = score("default", vec![outputs.clone(), outputs]);
        prop_assert_eq!(report.novelty_by_round[1].new_claims, 0);
        prop_assert!(report.components.novelty_rate.abs() < 1e-12);
    }
}

/// A threshold set by hand to something impossible used to panic (`satiety sweep --jaccard 2`).
#[test]
fn a_profile_changed_into_nonsense_is_refused() {
    for threshold in [0.0, -1.0, 2.0, f64::NAN] {
        let mut profile = Profile::default();
        profile.novelty.jaccard_threshold = threshold;
        assert!(Conversation::new(profile).is_err(), "{threshold}");
    }
    let mut profile = Profile::default();
    profile.decision.k = 0;
    assert!(Conversation::new(profile).is_err());
}

/// Setting the flag ends a round of any size, including one in progress.
#[test]
fn a_cancelled_conversation_has_no_verdict() {
    let claims: Vec<crate::dialogue::Claim> = (0..5000)
        .map(|number| {
            format!("zorb{number} quix{number} fenn{number} is a blarg.")
                .as_str()
                .into()
        })
        .collect();
    let outputs = Outputs {
        claims,
        ..Outputs::default()
    };
    let mut conversation = Conversation::new(Profile::default()).unwrap();
    let cancellation = crate::cancel::Cancellation::default();
    conversation.set_cancellation(cancellation.clone());
    cancellation.cancel();
    let outcome = conversation.observe(&Round::new(1, outputs), None);
    assert!(matches!(outcome, Err(ConversationError::Cancelled(_))));
}
