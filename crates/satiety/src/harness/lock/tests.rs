use proptest::prelude::*;

use super::*;
use crate::harness::approval::ApproverKey;
use crate::harness::manifest::laws::random::{Dice, harness};
use crate::harness::manifest::laws::weaker::WEAKER;

/// Returns a lock with content in every part, around a random harness.
pub(in crate::harness) fn lock(seed: u64) -> Lock {
    let manifest = harness(&mut Dice::new(seed));
    let mut lock = Lock::from_manifest(manifest);
    lock.id = Some("harness-1".into());
    for (suite, cases) in &lock.manifest.suites {
        lock.targets.insert(suite.clone(), format!("target of {suite}"));
        let entry = BaselineEntry {
            run_id: format!("run-{suite}"),
            cases: cases
                .iter()
                .map(|(id, case)| {
                    let case = BaselineCase {
                        hash: Some(case.hash.clone()),
                        passed: 3,
                        total: 4,
                        deterministic: case.deterministic,
                    };
                    (id.clone(), case)
                })
                .collect(),
            mean_score: Some(0.75),
        };
        lock.baselines.insert(suite.clone(), entry);
    }
    lock.keys = KeyRing {
        approvers: vec![ApproverKey {
            name: "Ada".into(),
            public_key: "ab".repeat(32),
        }],
        agent_keys: vec!["cd".repeat(32)],
    };
    lock.judge_prompt = Some("prompt".into());
    lock.transitions = ["transition-0".to_owned()].into();
    lock
}

/// Name and edit of one part that requires approval; the edit returns whether it changed anything.
pub(in crate::harness) type LockEdit = (&'static str, fn(&mut Lock, &mut Dice) -> bool);

fn baseline<'a>(lock: &'a mut Lock, dice: &mut Dice) -> Option<&'a mut BaselineEntry> {
    let suites: Vec<String> = lock.baselines.keys().cloned().collect();
    lock.baselines.get_mut(&dice.pick(&suites)?)
}

fn baseline_case<'a>(lock: &'a mut Lock, dice: &mut Dice) -> Option<&'a mut BaselineCase> {
    let run: Vec<(String, String)> = lock
        .manifest
        .cases()
        .filter(|(_, _, case)| case.enabled)
        .map(|(suite, id, _)| (suite.to_owned(), id.to_owned()))
        .collect();
    let (suite, id) = dice.pick(&run)?;
    lock.baselines.get_mut(&suite)?.cases.get_mut(&id)
}

pub(in crate::harness) const WEAKER_LOCKS: &[LockEdit] = &[
    ("identity changed", |lock, _| {
        lock.id = Some("harness-2".into());
        true
    }),
    ("identity dropped", |lock, _| lock.id.take().is_some()),
    ("target changed", |lock, dice| {
        let suites: Vec<String> = lock.targets.keys().cloned().collect();
        dice.pick(&suites)
            .and_then(|suite| lock.targets.insert(suite, "another".into()))
            .is_some()
    }),
    ("target dropped", |lock, dice| {
        let suites: Vec<String> = lock.targets.keys().cloned().collect();
        dice.pick(&suites)
            .and_then(|suite| lock.targets.remove(&suite))
            .is_some()
    }),
    ("baseline dropped", |lock, dice| {
        let suites: Vec<String> = lock.baselines.keys().cloned().collect();
        dice.pick(&suites)
            .and_then(|suite| lock.baselines.remove(&suite))
            .is_some()
    }),
    ("baseline passes lowered", |lock, dice| {
        baseline_case(lock, dice).map(|case| case.passed -= 1).is_some()
    }),
    ("baseline diluted", |lock, dice| {
        baseline_case(lock, dice).map(|case| case.total += 1).is_some()
    }),
    ("baseline of another content", |lock, dice| {
        baseline_case(lock, dice)
            .map(|case| case.hash = Some("forged".into()))
            .is_some()
    }),
    ("baseline without contents", |lock, dice| {
        baseline_case(lock, dice).map(|case| case.hash = None).is_some()
    }),
    ("case dropped from the baseline", |lock, dice| {
        let run: Vec<(String, String)> = lock
            .manifest
            .cases()
            .filter(|(_, _, case)| case.enabled)
            .map(|(suite, id, _)| (suite.to_owned(), id.to_owned()))
            .collect();
        dice.pick(&run)
            .and_then(|(suite, id)| lock.baselines.get_mut(&suite)?.cases.remove(&id))
            .is_some()
    }),
    ("baseline scores lowered", |lock, dice| {
        baseline(lock, dice)
            .map(|entry| entry.mean_score = Some(0.7))
            .is_some()
    }),
    ("baseline scores not a number", |lock, dice| {
        baseline(lock, dice)
            .map(|entry| entry.mean_score = Some(f64::NAN))
            .is_some()
    }),
    ("baseline scores dropped", |lock, dice| {
        baseline(lock, dice)
            .map(|entry| entry.mean_score = None)
            .is_some()
    }),
    ("key added", |lock, _| {
        lock.keys.approvers.push(ApproverKey {
            name: "Eve".into(),
            public_key: "ef".repeat(32),
        });
        true
    }),
    ("key replaced", |lock, _| {
        lock.keys.approvers[0].public_key = "ef".repeat(32);
        true
    }),
    ("keys dropped", |lock, _| {
        lock.keys.approvers.clear();
        true
    }),
    ("agent key no longer marked", |lock, _| {
        lock.keys.agent_keys.clear();
        true
    }),
    ("sandbox preferred only", |lock, _| {
        lock.sandbox = SandboxRequirement::Prefer;
        true
    }),
    ("sandbox off", |lock, _| {
        lock.sandbox = SandboxRequirement::Off;
        true
    }),
    ("judge prompt changed", |lock, _| {
        lock.judge_prompt = Some("be kind".into());
        true
    }),
    ("transition record removed", |lock, _| {
        lock.transitions.clear();
        true
    }),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_lock_that_is_weaker_in_any_part_needs_approval(seed in any::<u64>()) {
        let old = lock(seed);
        prop_assert!(compare_locks(&old, &old).unwrap().changes.is_empty());
        for (index, (name, edit)) in WEAKER_LOCKS.iter().enumerate() {
            let mut new = old.clone();
            if edit(&mut new, &mut Dice::new(seed ^ (index as u64 + 1))) {
                let diff = compare_locks(&old, &new).unwrap();
                prop_assert!(!diff.is_free(), "{}: {:?}", name, diff.changes);
            }
        }
        for (index, (name, edit)) in WEAKER.iter().enumerate() {
            let mut new = old.clone();
            if edit(&mut new.manifest, &mut Dice::new(seed ^ (index as u64 + 1))) {
                prop_assert!(!compare_locks(&old, &new).unwrap().is_free(), "{}", name);
            }
        }
    }

    #[test]
    fn lock_files_round_trip_to_the_byte(seed in any::<u64>()) {
        let lock = lock(seed);
        let text = lock.render();
        let read = Lock::parse(&text).unwrap();
        prop_assert_eq!(&read, &lock);
        prop_assert_eq!(read.hash(), lock.hash());
        prop_assert_eq!(read.render(), text);
    }

    #[test]
    fn an_edited_lock_file_is_rejected(seed in any::<u64>(), place in any::<prop::sample::Index>(), digit in 0_u8..10) {
        let text = lock(seed).render();
        let digits: Vec<usize> = text.char_indices().filter(|(_, letter)| letter.is_ascii_digit()).map(|(at, _)| at).collect();
        let at = digits[place.index(digits.len())];
        let mut edited = text.clone().into_bytes();
        edited[at] = b'0' + digit;
        let edited = String::from_utf8(edited).unwrap();
        // A different digit may give the same number: 0.50 and 0.5.
        let same = serde_json::from_str::<serde_json::Value>(&edited).ok() == serde_json::from_str(&text).ok();
        prop_assert!(same || Lock::parse(&edited).is_err());
    }
}

#[test]
fn stricter_locks_need_no_approval() {
    let old = lock(7);
    let mut new = old.clone();
    for entry in new.baselines.values_mut() {
        for case in entry.cases.values_mut() {
            case.passed += 1;
        }
        entry.mean_score = Some(0.8);
    }
    new.keys.agent_keys.push("ee".repeat(32));
    let diff = compare_locks(&old, &new).unwrap();
    assert!(diff.is_free(), "{:?}", diff.changes);
    assert!(diff.count(Rigor::Harder) > 0);
    let mut preferred = old.clone();
    preferred.sandbox = SandboxRequirement::Prefer;
    assert!(compare_locks(&preferred, &old).unwrap().is_free());
}

#[test]
fn the_first_key_is_reported_as_such() {
    let new = lock(7);
    let mut old = new.clone();
    old.keys.approvers.clear();
    let diff = compare_locks(&old, &new).unwrap();
    assert!(diff.admissible && !diff.is_free());
    assert!(
        diff.needing_approval()
            .any(|change| change.reason.starts_with("first approver key: Ada"))
    );
}

#[test]
fn invalid_lock_files_are_rejected_with_the_field() {
    for (text, says) in [
        ("", "EOF"),
        ("{}", "missing field"),
        (
            "{\"//\": \"\", \"hash\": \"\", \"lock\": {\"format\": 1, \"manifest\": 3}}",
            "lock.manifest",
        ),
    ] {
        let error = Lock::parse(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let mut other = lock(1);
    other.format = 9;
    assert_eq!(Lock::parse(&other.render()), Err(LockError::Format(9)));
}
