//! Proposals free enough tokens at a small loss, and never from pinned items.

use proptest::prelude::*;

use super::super::item::ContextItem;
use super::super::weights::Weights;
use super::*;

pub(crate) fn request(need: Need) -> ProposeRequest {
    ProposeRequest {
        proposal_id: "p".into(),
        scope_id: "s".into(),
        need,
        proposed_at: Timestamp::UNIX_EPOCH,
        timeout_ms: 2000,
        exploration: 0.0,
        seed: 0,
        pricing: None,
    }
}

fn scope(sizes: &[u64]) -> Scope {
    let mut scope = Scope::new(Weights::heuristic()).unwrap();
    for (number, tokens) in sizes.iter().enumerate() {
        scope
            .add(ContextItem::new(format!("i{number}"), "workspace", *tokens))
            .unwrap();
    }
    scope
}

#[test]
fn the_budget_determines_the_need() {
    let scope = scope(&[100, 100, 100]);
    let ids = |need| -> usize { propose(&scope, &request(need)).unwrap().candidates.len() };
    assert_eq!(
        [
            ids(Need::Free(0)),
            ids(Need::Free(1)),
            ids(Need::Free(101)),
            ids(Need::Free(999))
        ],
        [0, 1, 2, 3]
    );
    assert_eq!(
        [
            ids(Need::Budget(300)),
            ids(Need::Budget(299)),
            ids(Need::Budget(0))
        ],
        [0, 1, 3]
    );
}

#[test]
fn a_small_gap_is_not_closed_with_the_largest_item() {
    // By loss per token the large item comes first; alone it would free ten times the required tokens.
    let mut scope = scope(&[10_000]);
    let mut small = ContextItem::new("old", "workspace", 1000);
    small.last_referenced_turn = 0;
    scope.add(small).unwrap();
    let mut fresh = ContextItem::new("fresh", "workspace", 50);
    (fresh.created_turn, fresh.last_referenced_turn) = (90, 90);
    scope.add(fresh).unwrap();
    scope.touch("i0", 90).unwrap();
    scope.advance(90);
    let proposal = propose(&scope, &request(Need::Free(900))).unwrap();
    assert_eq!(
        proposal
            .candidates
            .iter()
            .map(|c| c.ctx_id.as_str())
            .collect::<Vec<_>>(),
        ["old"]
    );
}

#[test]
fn protected_items_are_reported() {
    let mut scope = scope(&[100, 30]);
    let pin = ContextItem {
        pinned: true,
        references: vec!["i0".into()],
        ..ContextItem::new("pin", "system", 7)
    };
    scope.insert(pin).unwrap();
    let proposal = propose(&scope, &request(Need::Budget(10))).unwrap();
    assert_eq!((proposal.need_tokens, proposal.candidate_tokens), (127, 30));
    let shortfall = proposal.shortfall.unwrap();
    assert_eq!((shortfall.missing_tokens, shortfall.held_tokens), (97, 0));
    assert_eq!(
        shortfall
            .pins
            .iter()
            .map(|pin| (pin.ctx_id.as_str(), pin.needed_by.as_deref()))
            .collect::<Vec<_>>(),
        [("i0", Some("pin")), ("pin", None)]
    );
    scope.hold("i1", true).unwrap();
    let proposal = propose(&scope, &request(Need::Free(5))).unwrap();
    assert!(proposal.candidates.is_empty());
    assert_eq!(proposal.shortfall.unwrap().held_tokens, 30);
}

#[test]
fn exploration_is_seeded_and_reports_its_propensity() {
    let scope = scope(&[100; 400]);
    let with = |seed| {
        let request = ProposeRequest {
            exploration: 0.1,
            seed,
            ..request(Need::Free(10_000))
        };
        propose(&scope, &request).unwrap()
    };
    assert_eq!(with(7), with(7));
    assert_ne!(with(7), with(8));
    let extra: usize = (0..50).map(|seed| with(seed).candidates.len() - 100).sum();
    assert!((380..620).contains(&extra), "{extra} of 5000, expected a tenth");
    let explored: Vec<f64> = with(7).candidates[100..]
        .iter()
        .map(|candidate| candidate.propensity)
        .collect();
    assert!(
        explored
            .iter()
            .all(|propensity| (*propensity - 1.0 / 30.0).abs() < 1e-12)
    );
    assert!(
        propose(
            &scope,
            &ProposeRequest {
                exploration: 0.9,
                ..request(Need::Free(1))
            }
        )
        .is_err()
    );
}

/// Returns the least loss of all subsets that cover the need.
fn optimum(items: &[(u64, f64)], need: u64) -> Option<f64> {
    (0..1_u32 << items.len())
        .filter_map(|subset| {
            let chosen = items.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1);
            let (tokens, loss) = chosen.fold((0, 0.0), |(t, l), (_, item)| (t + item.0, l + item.1));
            (tokens >= need).then_some(loss)
        })
        .min_by(f64::total_cmp)
}

proptest! {
    #[test]
    fn covering_loses_at_most_twice_the_optimum(
        items in prop::collection::vec((1_u64..200, 1_u32..1000), 1..12), need in 1_u64..900
    ) {
        let mut items: Vec<(u64, f64)> = items.into_iter().map(|(t, l)| (t, f64::from(l))).collect();
        items.sort_by(|a, b| (a.1 / a.0 as f64).total_cmp(&(b.1 / b.0 as f64)));
        let chosen = cover((0..).zip(&items).map(|(id, (tokens, loss))| (id, *tokens, *loss)), need);
        let tokens: u64 = chosen.iter().map(|id| items[*id as usize].0).sum();
        let loss: f64 = chosen.iter().map(|id| items[*id as usize].1).sum();
        if let Some(best) = optimum(&items, need) {
            prop_assert!(tokens >= need);
            prop_assert!(loss <= 2.0 * best + 1e-9, "loss {} against optimum {}", loss, best);
            // No selected item could have been kept.
            prop_assert!(chosen.iter().all(|id| tokens - items[*id as usize].0 < need));
        } else {
            prop_assert_eq!(chosen.len(), items.len());
        }
    }

    #[test]
    fn a_proposal_frees_what_is_needed_and_spares_pins(
        items in prop::collection::vec((0_u64..300, any::<bool>()), 1..40), need in 0_u64..3000
    ) {
        let mut scope = Scope::new(Weights::heuristic()).unwrap();
        for (number, (tokens, pinned)) in items.iter().enumerate() {
            let pinned = *pinned;
            scope.add(ContextItem { pinned, ..ContextItem::new(format!("i{number}"), "memory", *tokens) }).unwrap();
        }
        let proposal = propose(&scope, &request(Need::Free(need))).unwrap();
        prop_assert!(proposal.candidates.iter().all(|candidate| !scope.item(&candidate.ctx_id).unwrap().pinned));
        let free: u64 = items.iter().filter(|item| !item.1).map(|item| item.0).sum();
        if let Some(shortfall) = &proposal.shortfall {
            prop_assert_eq!(proposal.candidate_tokens, free);
            prop_assert_eq!(shortfall.missing_tokens, need - free);
        } else {
            prop_assert!(proposal.candidate_tokens >= need);
        }
    }
}
