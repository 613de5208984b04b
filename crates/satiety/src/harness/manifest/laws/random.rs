//! Random harnesses. Inputs and words come from small pools, so that cases share inputs and sometimes imply
//! each other.

use serde_json::json;

use super::*;
use crate::bench::expected::Mode;
use crate::stats::random::{stream, uniform};

/// Seeded source of random choices.
pub(in crate::harness) struct Dice(rand_chacha::ChaCha8Rng);

impl Dice {
    pub(in crate::harness) fn new(seed: u64) -> Self {
        Self(stream(seed, 3))
    }

    /// Returns a number below `sides`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small number in a test"
    )]
    pub(in crate::harness) fn roll(&mut self, sides: usize) -> usize {
        (uniform(&mut self.0) * sides as f64) as usize
    }

    pub(in crate::harness) fn chance(&mut self, probability: f64) -> bool {
        uniform(&mut self.0) < probability
    }

    pub(in crate::harness) fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        if items.is_empty() {
            return None;
        }
        items.get(self.roll(items.len())).cloned()
    }
}

/// Returns a random expectation, nested at most once.
pub(super) fn expectation(dice: &mut Dice, nested: bool) -> BenchmarkExpected {
    let word = |dice: &mut Dice| format!("w{}", dice.roll(3));
    match dice.roll(if nested { 8 } else { 6 }) {
        0 => BenchmarkExpected::with_value(Mode::Contains, word(dice)),
        1 => BenchmarkExpected::with_value(Mode::Contains, json!([word(dice), word(dice)])),
        2 => BenchmarkExpected {
            tolerance: Some(0.1),
            ..BenchmarkExpected::with_value(Mode::Numeric, 5)
        },
        3 => BenchmarkExpected {
            threshold: Some(0.7),
            ..BenchmarkExpected::with_value(Mode::LlmJudge, "good?")
        },
        4 => BenchmarkExpected {
            metric_thresholds: Some([("latency_ms".to_owned(), 100.0)].into()),
            ..BenchmarkExpected::of(Mode::MetricThreshold)
        },
        5 => BenchmarkExpected::with_value(Mode::Exact, format!("{} {}", word(dice), word(dice))),
        roll => BenchmarkExpected {
            parts: vec![expectation(dice, false), expectation(dice, false)],
            threshold: dice.chance(0.3).then_some(0.6),
            ..BenchmarkExpected::of(if roll == 6 { Mode::All } else { Mode::Any })
        },
    }
}

pub(super) fn case(dice: &mut Dice, tier: Tier) -> CaseEntry {
    let input_hash = format!("input-{}", dice.roll(8));
    let expected = expectation(dice, true);
    CaseEntry {
        hash: content_hash(&(&input_hash, &expected)),
        input_hash,
        expected,
        tier,
        enabled: dice.chance(0.85),
        repeats: u32::try_from(1 + dice.roll(4)).unwrap(),
        deterministic: dice.chance(0.4),
        timeout_ms: dice.chance(0.6).then_some(1_000),
    }
}

/// Returns a harness with two capability suites, one regression suite, and some rules of every kind.
pub(in crate::harness) fn harness(dice: &mut Dice) -> Manifest {
    let mut manifest = Manifest::from_suites(&[], &BTreeMap::new()).unwrap();
    for (suite, tier) in [
        ("one", Tier::Capability),
        ("two", Tier::Capability),
        ("guard", Tier::Regression),
    ] {
        let cases = (0..=dice.roll(4))
            .map(|index| (format!("{suite}-{index}"), case(dice, tier)))
            .collect();
        manifest.suites.insert(suite.into(), cases);
    }
    for (name, value, direction) in [
        ("one/pass", 0.7, Direction::Higher),
        ("one/latency_ms", 900.0, Direction::Lower),
        ("two/score", 0.5, Direction::Higher),
    ] {
        if dice.chance(0.7) {
            manifest
                .thresholds
                .insert(name.into(), Threshold { value, direction });
        }
    }
    for name in ["release", "nightly"] {
        if dice.chance(0.6) {
            manifest.gates.insert(name.into(), GatePolicy::default());
        }
    }
    for name in ["main", "second"] {
        if dice.chance(0.6) {
            let votes = u32::try_from(1 + dice.roll(4)).unwrap();
            let lineage = if dice.chance(0.4) {
                vec![Succession {
                    from: "first".into(),
                    to: "now".into(),
                    agreement: 0.99,
                    rescored: 50,
                    evidence: "e".into(),
                }]
            } else {
                vec![]
            };
            manifest.judges.insert(
                name.into(),
                JudgeEntry {
                    fingerprint: "now".into(),
                    votes,
                    lineage,
                },
            );
        }
    }
    if dice.chance(0.5)
        && let Some((id, _)) = manifest.suites["one"].iter().find(|(_, case)| case.enabled)
    {
        let retired = Retirement {
            suite: "one".into(),
            case_id: "long-gone".into(),
            input_hash: "input-long-gone".into(),
            reason: "the answer key was wrong".into(),
            audited_by: "Ada".into(),
            replacement: id.clone(),
        };
        manifest.retired.insert("hash-long-gone".into(), retired);
    }
    manifest
}
