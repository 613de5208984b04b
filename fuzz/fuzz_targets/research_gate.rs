//! Arbitrary search results: every run ends within the maximum of rounds, shares stay between 0 and 1, summaries respect
//! their limit, and canonicalizing an address is idempotent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::research::{Decision, Gate, GateSettings, Hit, RoundInput, canonical_url};

fuzz_target!(|text: &str| {
    let mut rounds = text.split('\u{1}');
    let task = rounds.next().unwrap_or_default();
    let once = canonical_url(task);
    assert_eq!(canonical_url(&once), once);
    let mut gate = Gate::new(GateSettings::default(), task).expect("the defaults are valid");
    for (number, round) in (1_u32..).zip(rounds) {
        let results: Vec<Hit> = round
            .split('\u{2}')
            .map(|body| Hit::new("", format!("https://example.org/{number}"), body))
            .collect();
        let input = RoundInput {
            results: &results,
            ..RoundInput::default()
        };
        let (verdict, novelty) = gate.observe(&input);
        for share in [verdict.novelty, novelty.seed, novelty.claims, novelty.task_yield].into_iter().flatten() {
            assert!((0.0..=1.0).contains(&share), "{share}");
        }
        assert!(gate.summary().chars().count() <= 1500);
        if verdict.decision == Decision::Stop {
            return;
        }
        assert!(number < 5);
    }
});
