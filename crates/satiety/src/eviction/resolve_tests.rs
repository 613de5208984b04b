//! Exclusions count up to the quota; invalid answers change nothing.

use proptest::prelude::*;

use super::super::item::ContextItem;
use super::super::propose::{Need, ProposeRequest, propose};
use super::super::weights::Weights;
use super::*;

fn scope(sizes: &[u64]) -> Scope {
    let mut scope = Scope::new(Weights::heuristic()).unwrap();
    for (number, tokens) in sizes.iter().enumerate() {
        scope
            .add(ContextItem::new(format!("i{number}"), "workspace", *tokens))
            .unwrap();
    }
    scope
}

fn proposed(scope: &mut Scope, need: u64) -> EvictionProposal {
    let request = ProposeRequest {
        proposal_id: "p".into(),
        scope_id: "s".into(),
        need: Need::Free(need),
        proposed_at: Timestamp::UNIX_EPOCH,
        timeout_ms: 2000,
        exploration: 0.0,
        seed: 0,
        pricing: None,
    };
    let proposal = propose(scope, &request).unwrap();
    for candidate in &proposal.candidates {
        scope.hold(&candidate.ctx_id, true).unwrap();
    }
    proposal
}

fn answer(resolved_by: ResolvedBy, exclude: &[&str], at_ms: i64) -> Resolution {
    Resolution {
        resolved_by,
        exclude: exclude
            .iter()
            .map(|id| Exclude {
                ctx_id: (*id).to_owned(),
                exclude_reason: Some("still needed".into()),
            })
            .collect(),
        resolved_at: Timestamp::from_millisecond(at_ms).unwrap(),
        quota: QUOTA,
    }
}

#[test]
fn a_second_pass_compensates_for_exclusions() {
    let mut scope = scope(&[100; 12]);
    let proposal = proposed(&mut scope, 1000);
    let first = proposal.candidates[0].ctx_id.clone();
    let feedback = resolve(&scope, &proposal, &answer(ResolvedBy::Llm, &[&first], 5)).unwrap();
    assert_eq!(
        (
            feedback.evicted.len(),
            feedback.excluded.len(),
            feedback.second_pass.len()
        ),
        (9, 1, 1)
    );
    assert_eq!((feedback.freed_tokens, feedback.quota_tokens), (1000, 300));
    assert_eq!(
        feedback.excluded[0].exclude_reason.as_deref(),
        Some("still needed")
    );
    apply_resolution(&mut scope, &proposal, &feedback);
    assert_eq!((scope.len(), scope.ranked().count()), (2, 2));
    assert!(scope.item(&first).is_some());
    let labels = labels(&proposal, &feedback);
    assert_eq!(
        (
            labels.len(),
            labels.iter().filter(|label| label.kept_back).count()
        ),
        (10, 1)
    );
}

#[test]
fn excluding_everything_still_frees_enough() {
    let mut scope = scope(&[100; 10]);
    let proposal = proposed(&mut scope, 1000);
    let all: Vec<&str> = proposal
        .candidates
        .iter()
        .map(|candidate| candidate.ctx_id.as_str())
        .collect();
    let feedback = resolve(&scope, &proposal, &answer(ResolvedBy::User, &all, 5)).unwrap();
    // Three fit into the quota, but no other items are left.
    assert_eq!(
        (
            feedback.excluded.len(),
            feedback.overruled.len(),
            feedback.evicted.len()
        ),
        (0, 10, 10)
    );
    assert_eq!((feedback.freed_tokens, feedback.shortfall.clone()), (1000, None));
    // A requested exclusion is a label, whether or not it was granted.
    assert!(labels(&proposal, &feedback).iter().all(|label| label.kept_back));
}

#[test]
fn items_pinned_after_the_proposal_stay() {
    let mut scope = scope(&[100; 2]);
    let proposal = proposed(&mut scope, 200);
    scope.pin("i0", true).unwrap();
    let feedback = resolve(&scope, &proposal, &answer(ResolvedBy::AutoAccepted, &[], 5)).unwrap();
    assert_eq!(
        (feedback.evicted.as_slice(), feedback.pinned_since.as_slice()),
        (&["i1".to_owned()][..], &["i0".to_owned()][..])
    );
    let shortfall = feedback.shortfall.unwrap();
    assert_eq!(
        (shortfall.missing_tokens, shortfall.pins[0].ctx_id.as_str()),
        (100, "i0")
    );
}

#[test]
fn a_timeout_evicts_and_gives_no_labels() {
    let mut scope = scope(&[100; 3]);
    let proposal = proposed(&mut scope, 200);
    let feedback = resolve(&scope, &proposal, &answer(ResolvedBy::Timeout, &[], 90_000)).unwrap();
    assert_eq!(feedback.evicted.len(), 2);
    assert!(labels(&proposal, &feedback).is_empty());
}

#[test]
fn invalid_answers_are_rejected() {
    let mut scope = scope(&[100; 3]);
    let proposal = proposed(&mut scope, 200);
    let (first, other) = (proposal.candidates[0].ctx_id.as_str(), "i9");
    for (resolution, part) in [
        (answer(ResolvedBy::Llm, &[other], 5), "no candidate `i9`"),
        (answer(ResolvedBy::Llm, &[first, first], 5), "duplicate ids"),
        (answer(ResolvedBy::Llm, &[], 2001), "timed out 1 ms ago"),
        (
            answer(ResolvedBy::AutoAccepted, &[first], 5),
            "cannot have exclusions",
        ),
        (answer(ResolvedBy::Timeout, &[first], 5), "cannot have exclusions"),
        (
            Resolution {
                quota: 1.5,
                ..answer(ResolvedBy::Llm, &[], 5)
            },
            "expected 0 to 1",
        ),
    ] {
        let error = resolve(&scope, &proposal, &resolution).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(!error.hint().action().is_empty());
    }
    assert!(
        resolve(&scope, &proposal, &answer(ResolvedBy::Llm, &[], 2000)).is_ok(),
        "in time to the millisecond"
    );
}

proptest! {
    #[test]
    fn a_flush_meets_its_budget_or_reports_the_pins(
        items in prop::collection::vec((1_u64..300, any::<bool>()), 1..25), need in 1_u64..3000,
        keep in prop::collection::vec(any::<bool>(), 25), quota in 0.0_f64..=1.0
    ) {
        let mut scope = Scope::new(Weights::heuristic()).unwrap();
        for (number, (tokens, pinned)) in items.iter().enumerate() {
            let pinned = *pinned && number % 3 == 0;
            scope.add(ContextItem { pinned, ..ContextItem::new(format!("i{number}"), "memory", *tokens) }).unwrap();
        }
        let before = scope.tokens();
        let proposal = proposed(&mut scope, need);
        let ids: Vec<&str> = proposal.candidates.iter().zip(&keep).filter(|(_, keep)| **keep)
            .map(|(candidate, _)| candidate.ctx_id.as_str()).collect();
        let resolution = Resolution { quota, ..answer(ResolvedBy::Llm, &ids, 5) };
        let feedback = resolve(&scope, &proposal, &resolution).unwrap();
        apply_resolution(&mut scope, &proposal, &feedback);
        prop_assert_eq!(before - scope.tokens(), feedback.freed_tokens);
        let pinned: u64 = scope.items().filter(|item| item.pinned).map(|item| item.token_count).sum();
        match &feedback.shortfall {
            None => prop_assert!(feedback.freed_tokens >= need),
            Some(shortfall) => {
                prop_assert_eq!(scope.tokens(), pinned);
                prop_assert_eq!(shortfall.missing_tokens, need - feedback.freed_tokens);
                prop_assert_eq!(shortfall.pins.iter().map(|pin| pin.token_count).sum::<u64>(), pinned);
            }
        }
        let kept: u64 = feedback.excluded.iter().map(|kept| scope.item(&kept.ctx_id).unwrap().token_count).sum();
        prop_assert!(kept <= feedback.quota_tokens);
        // Each candidate has exactly one outcome.
        prop_assert_eq!(feedback.evicted.len() + feedback.excluded.len(), proposal.candidates.len());
    }
}
