use proptest::prelude::*;

use super::*;
use crate::harness::approval::tests::{at, key, ring};
use crate::harness::approval::to_hex;
use crate::harness::lock::tests::{WEAKER_LOCKS, lock};
use crate::harness::manifest::laws::random::Dice;
use ed25519_dalek::{Signer, SigningKey};

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn base(seed: u64) -> Lock {
    Lock {
        keys: ring(),
        ..lock(seed)
    }
}

fn sign(from: &Lock, to: &Lock, id: &str, key: &SigningKey) -> Transition {
    let mut to = to.clone();
    to.transitions.insert(id.to_owned());
    let statement = TransitionStatement::about((from, &to), id, "broken", "Ada", (at(0), DAY)).unwrap();
    let signature = to_hex(&key.sign(&statement.signed_bytes()).to_bytes());
    Transition {
        statement,
        signature,
        from: from.clone(),
        to,
    }
}

fn check(old: &Lock, new: &Lock, steps: &[Transition], hours: i64) -> Succession {
    let none = BTreeSet::new();
    let steps: Vec<SignedStep> = steps
        .iter()
        .map(|step| SignedStep::Transition(Box::new(step.clone())))
        .collect();
    let authority = Authority {
        keys: &old.keys,
        now: at(hours),
        accept_first_keys: false,
        justified: &none,
    };
    succession(old, new, &steps, &authority).unwrap()
}

/// Removes one case.
fn without_a_case(lock: &Lock) -> Lock {
    let mut new = lock.clone();
    let (suite, id) = lock
        .manifest
        .cases()
        .find(|(_, _, case)| case.enabled)
        .map(|(suite, id, _)| (suite.to_owned(), id.to_owned()))
        .unwrap();
    new.manifest.suites.get_mut(&suite).unwrap().remove(&id);
    new
}

#[test]
fn exactly_the_signed_step_is_allowed() {
    let old = base(3);
    let weaker = without_a_case(&old);
    assert!(!check(&old, &weaker, &[], 1).allowed);
    let step = sign(&old, &weaker, "t1", &key(1));
    let allowed = check(&old, &step.to, std::slice::from_ref(&step), 1);
    assert!(allowed.allowed && allowed.used == ["t1"], "{:?}", allowed.unused);

    // Another weakening under the same signature, a modified statement, another key, an agent key.
    let mut other = step.to.clone();
    other.manifest.alpha = 0.9;
    assert!(!check(&old, &other, std::slice::from_ref(&step), 1).allowed);
    let mut edited = step.clone();
    edited.to = other.clone();
    assert!(!check(&old, &other, &[edited], 1).allowed);
    let mut restated = step.clone();
    restated.statement.to = other.hash();
    restated.to = other.clone();
    assert!(!check(&old, &other, &[restated], 1).allowed);
    assert!(!check(&old, &step.to, &[sign(&old, &weaker, "t1", &key(2))], 1).allowed);
    assert!(!check(&old, &step.to, &[sign(&old, &weaker, "t1", &key(9))], 1).allowed);
    // After expiry.
    let late = check(&old, &step.to, std::slice::from_ref(&step), 25);
    assert!(
        !late.allowed && late.unused[0].1.contains("expired at"),
        "{:?}",
        late.unused
    );
    assert!(!check(&old, &step.to, std::slice::from_ref(&step), -2).allowed);
}

#[test]
fn keys_of_the_new_side_are_never_trusted() {
    let old = base(3);
    let mut new = without_a_case(&old);
    new.keys.approvers[0].public_key = to_hex(key(2).verifying_key().as_bytes());
    let step = sign(&old, &new, "t1", &key(2));
    assert!(!check(&old, &step.to, std::slice::from_ref(&step), 1).allowed);
}

#[test]
fn a_signed_step_is_used_once() {
    let old = base(3);
    let step = sign(&old, &without_a_case(&old), "t1", &key(1));
    let used = step.to.clone();
    // The case is restored, and removed again under the same signature.
    let mut back = old.clone();
    back.transitions = used.transitions.clone();
    assert!(check(&used, &back, &[], 1).allowed, "adding a case is free");
    assert!(!check(&back, &used, std::slice::from_ref(&step), 1).allowed);
    // Removing the record of its use is rejected too.
    assert!(!check(&back, &old, std::slice::from_ref(&step), 1).allowed);
}

#[test]
fn a_stale_signature_cannot_undo_later_additions() {
    let old = base(3);
    let step = sign(&old, &without_a_case(&old), "t1", &key(1));
    let mut since = old.clone();
    since.manifest.alpha /= 2.0;
    assert!(check(&old, &since, &[], 1).allowed);
    let answer = check(&since, &step.to, std::slice::from_ref(&step), 1);
    assert!(!answer.allowed, "{:?}", answer.used);
    // Later additions stay, and the step does not apply.
    let mut both = step.to.clone();
    both.manifest.alpha = since.manifest.alpha;
    assert!(!check(&since, &both, std::slice::from_ref(&step), 1).allowed);
}

#[test]
fn admissible_changes_may_surround_a_signed_step() {
    let old = base(3);
    let mut before = old.clone();
    before.manifest.alpha = 0.04;
    let step = sign(&before, &without_a_case(&before), "t1", &key(1));
    let mut after = step.to.clone();
    after.manifest.alpha = 0.03;
    let answer = check(&old, &after, std::slice::from_ref(&step), 1);
    assert!(answer.allowed, "{:?} {:?}", answer.diff.changes, answer.unused);
    // Two steps, in any order of files.
    let second = sign(&after, &without_a_case(&after), "t0", &key(1));
    let answer = check(&old, &second.to, &[second.clone(), step.clone()], 1);
    assert!(
        answer.allowed && answer.used == ["t1", "t0"],
        "{:?}",
        answer.unused
    );
    // Without the first step the second does not apply.
    assert!(!check(&old, &second.to, std::slice::from_ref(&second), 1).allowed);
}

#[test]
fn first_keys_are_trusted_only_on_request() {
    let new = base(3);
    let mut old = new.clone();
    old.keys.approvers.clear();
    let none = BTreeSet::new();
    for accept_first_keys in [false, true] {
        let authority = Authority {
            keys: &old.keys,
            now: at(1),
            accept_first_keys,
            justified: &none,
        };
        assert_eq!(
            succession(&old, &new, &[], &authority).unwrap().allowed,
            accept_first_keys
        );
        // A second key is not the first one.
        let mut more = new.clone();
        more.keys.approvers[0].name = "Eve".into();
        assert!(!succession(&new, &more, &[], &authority).unwrap().allowed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any weakening is rejected without a signature, with a signature by another key, and with one for
    /// another step; it is allowed with exactly its own.
    #[test]
    fn no_weakening_is_allowed_without_its_own_signature(seed in any::<u64>()) {
        let old = base(seed);
        let elsewhere = sign(&old, &Lock { judge_prompt: Some("other".into()), ..old.clone() }, "t9", &key(1));
        for (index, (name, edit)) in WEAKER_LOCKS.iter().enumerate() {
            let mut new = old.clone();
            if !edit(&mut new, &mut Dice::new(seed ^ (index as u64 + 1))) || *name == "baseline scores not a number" {
                continue;
            }
            prop_assert!(!check(&old, &new, &[], 1).allowed, "{}", name);
            prop_assert!(!check(&old, &new, std::slice::from_ref(&elsewhere), 1).allowed, "{}", name);
            let forged = sign(&old, &new, "t1", &key(2));
            prop_assert!(!check(&old, &forged.to, std::slice::from_ref(&forged), 1).allowed, "{}", name);
            let signed = sign(&old, &new, "t1", &key(1));
            prop_assert!(check(&old, &signed.to, std::slice::from_ref(&signed), 1).allowed, "{}", name);
        }
    }
}
