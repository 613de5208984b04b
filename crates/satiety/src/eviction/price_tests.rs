//! Prices are data, selections are optimal for one edit, and what does not pay is not proposed.

use proptest::prelude::*;

use super::super::item::ContextItem;
use super::super::propose::{Need, ProposeRequest, propose};
use super::super::scope::Scope;
use super::super::weights::Weights;
use super::*;

fn pricing(provider: &str, turns: f64) -> Pricing {
    let session = SessionState {
        remaining_turns: Some(turns),
        ..SessionState::default()
    };
    PriceList::built_in().pricing(provider, &session).unwrap()
}

fn item(tokens: u64, needed: f64) -> PricedItem {
    PricedItem {
        slot: 0,
        tokens,
        movable: true,
        sent: true,
        needed,
        loss: 1.0,
    }
}

#[test]
fn the_built_in_prices_have_sources() {
    let list = PriceList::from_toml(BUILT_IN).unwrap();
    for name in ["anthropic", "openai", "gemini", "uncached"] {
        let prices = list.find(name).unwrap();
        assert!(!prices.source.is_empty() && prices.as_of.len() == 10, "{name}");
    }
    let error = list.find("acme").unwrap_err().to_string();
    assert!(
        error.contains("unknown provider `acme` (expected one of: anthropic"),
        "{error}"
    );
}

#[test]
fn invalid_prices_are_rejected() {
    let list = |prices: &str| {
        format!(
            "min_remaining_turns = 1\nreread_call_tokens = 0\n[[provider]]\nname = 'x'\noutput = 1.0\nlifetime_seconds = 1\nsource = 's'\nas_of = 'd'\n{prices}"
        )
    };
    assert!(PriceList::from_toml(&list("write = 1.0\nread = 0.5")).is_ok());
    for (prices, part) in [
        ("write = 0.1\nread = 0.5", "never dearer"),
        ("write = nan\nread = 0.5", "0 or more"),
        ("write = 1.0", "missing field `read`"),
    ] {
        let error = PriceList::from_toml(&list(prices)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// By hand: 1,000 tokens behind 4,000 kept ones would be read 20 times at 0.1; 4,000 tokens are written again at
/// 1.25 instead of read at 0.1.
#[test]
fn the_cost_is_what_the_provider_bills() {
    let pricing = pricing("anthropic", 20.0);
    let items = [item(1000, 0.0), item(4000, 1.0)];
    let cost = pricing.cost(&items, &[0], 5000, false);
    assert_eq!(cost.rebilled_tokens, 4000);
    assert!((cost.rebilling - 4000.0 * 1.15).abs() < 1e-9);
    assert!((cost.saving - 1000.0 * 0.1 * 20.0).abs() < 1e-9);
    assert_eq!(cost.decision, CostDecision::BelowBreakEven);
    // 4,600 / 100 a turn.
    assert!((cost.break_even_turns.unwrap() - 46.0).abs() < 1e-9);
    // At the end of the context nothing is billed again.
    let last = pricing.cost(&items, &[1], 5000, false);
    assert_eq!(last.rebilled_tokens, 0);
    // Needed for certain: 4,000 tokens and a call are written again, one more request reads 5,000.
    assert!((last.rereading - (4000.0 * 1.25 + 5000.0 * 0.1 + 60.0 * 5.0)).abs() < 1e-9);
}

#[test]
fn an_expired_cache_makes_an_edit_free() {
    let session = SessionState {
        remaining_turns: Some(5.0),
        idle_seconds: 301,
        ..SessionState::default()
    };
    let cold = PriceList::built_in().pricing("anthropic", &session).unwrap();
    let items = [item(1000, 0.0), item(4000, 1.0)];
    assert_eq!(cold.best(&items, 5000), [0]);
    assert!(cold.cost(&items, &[0], 5000, false).rebilling.abs() < 1e-12);
    assert!(pricing("anthropic", 5.0).best(&items, 5000).is_empty());
}

fn request(need: Need, pricing: Pricing) -> ProposeRequest {
    ProposeRequest {
        proposal_id: "p".into(),
        scope_id: "s".into(),
        need,
        proposed_at: jiff::Timestamp::UNIX_EPOCH,
        timeout_ms: 0,
        exploration: 0.0,
        seed: 0,
        pricing: Some(pricing),
    }
}

fn scope() -> Scope {
    let mut scope = Scope::new(Weights::heuristic()).unwrap();
    for number in 0..10 {
        scope
            .add(ContextItem::new(format!("i{number}"), "workspace", 1000))
            .unwrap();
    }
    let pinned = ContextItem {
        pinned: true,
        ..ContextItem::new("pinned", "workspace", 8000)
    };
    scope.add(pinned).unwrap();
    scope.advance(100);
    scope
}

#[test]
fn below_break_even_nothing_is_proposed_and_the_cost_is_stated() {
    let scope = scope();
    let few = propose(&scope, &request(Need::Pays, pricing("anthropic", 1.0))).unwrap();
    assert!(few.candidates.is_empty() && few.shortfall.is_none());
    let cost = few.cost.unwrap();
    assert_eq!(cost.decision, CostDecision::BelowBreakEven);
    assert!(cost.net < 0.0 && cost.break_even_turns.is_some());
    let many = propose(&scope, &request(Need::Pays, pricing("anthropic", 500.0))).unwrap();
    assert!(!many.candidates.is_empty());
    assert_eq!(many.cost.unwrap().decision, CostDecision::Pays);
    // Within the window a budget can wait; beyond it, it cannot.
    for (window, decision) in [
        (Some(20_000), CostDecision::BelowBreakEven),
        (Some(9_000), CostDecision::Required),
        (None, CostDecision::Required),
    ] {
        let pricing = Pricing {
            window_tokens: window,
            ..pricing("anthropic", 1.0)
        };
        let found = propose(&scope, &request(Need::Free(2000), pricing)).unwrap();
        let waits = decision == CostDecision::BelowBreakEven;
        assert_eq!(found.candidates.is_empty(), waits, "{window:?}");
        assert!(waits || found.candidate_tokens >= 2000);
        assert_eq!(found.cost.unwrap().decision, decision);
        assert!(found.shortfall.is_none());
    }
    let mut without = request(Need::Pays, pricing("anthropic", 1.0));
    without.pricing = None;
    assert!(propose(&scope, &without).is_err());
}

fn net(pricing: &Pricing, items: &[PricedItem], chosen: &[usize], context: u64) -> f64 {
    pricing.cost(items, chosen, context, false).net
}

proptest! {
    /// Against all subsets: the free selection is optimal, the required one covers the need without a superfluous
    /// item, and neither takes an item that must stay.
    #[test]
    fn selections_agree_with_brute_force(
        sizes in prop::collection::vec((1_u64..3000, 0.0_f64..1.0, any::<bool>(), any::<bool>()), 1..9),
        turns in 0.0_f64..80.0,
        need in 1_u64..6000,
        provider in prop::sample::select(vec!["anthropic", "openai", "uncached"]),
    ) {
        let pricing = pricing(provider, turns);
        let items: Vec<PricedItem> = sizes
            .iter()
            .map(|(tokens, needed, movable, sent)| PricedItem { movable: *movable, sent: *sent, ..item(*tokens, *needed) })
            .collect();
        let context: u64 = items.iter().map(|item| item.tokens).sum();
        let subsets: Vec<Vec<usize>> = (0..1_u32 << items.len())
            .map(|bits| (0..items.len()).filter(|i| bits >> i & 1 == 1).collect::<Vec<_>>())
            .filter(|chosen: &Vec<usize>| chosen.iter().all(|i| items[*i].movable))
            .collect();
        let best = subsets.iter().map(|chosen| net(&pricing, &items, chosen, context)).fold(0.0, f64::max);
        let free = pricing.best(&items, context);
        prop_assert!(free.iter().all(|i| items[*i].movable));
        prop_assert!((net(&pricing, &items, &free, context) - best).abs() < 1e-6);
        let tokens = |chosen: &[usize]| chosen.iter().map(|i| items[*i].tokens).sum::<u64>();
        let required = pricing.cheapest(&items, need, context);
        let covering: Vec<&Vec<usize>> = subsets.iter().filter(|chosen| tokens(chosen) >= need).collect();
        prop_assert!(required.iter().all(|i| items[*i].movable));
        if covering.is_empty() {
            prop_assert_eq!(required.len(), items.iter().filter(|item| item.movable).count());
        } else {
            prop_assert!(tokens(&required) >= need);
            // No item is superfluous.
            prop_assert!(required.iter().all(|i| tokens(&required) - items[*i].tokens < need));
        }
    }
}

#[test]
fn own_prices_are_added_to_the_built_in_ones() {
    let own = "[[provider]]\nname = 'ours'\nwrite = 2.0\nread = 0.5\noutput = 3.0\nlifetime_seconds = 60\nsource = 's'\nas_of = '2026-11-01'\n";
    let list = PriceList::built_in().overridden(own).unwrap();
    assert!(list.find("ours").is_ok() && list.find("anthropic").is_ok());
    assert!((list.min_remaining_turns - PriceList::built_in().min_remaining_turns).abs() < 1e-12);
    let list = PriceList::built_in()
        .overridden(&own.replace("ours", "openai"))
        .unwrap();
    assert_eq!(
        list.provider
            .iter()
            .filter(|prices| prices.name == "openai")
            .count(),
        1
    );
    assert!((list.find("openai").unwrap().write - 2.0).abs() < 1e-12);
    let list = PriceList::built_in()
        .overridden("min_remaining_turns = 3\n")
        .unwrap();
    assert!(
        (list.min_remaining_turns - 3.0).abs() < 1e-12
            && list.provider.len() == PriceList::built_in().provider.len()
    );
    for wrong in [
        "min_remaining_turns = 0",
        "what = 1",
        &own.replace("write = 2.0", "write = 0.1"),
    ] {
        assert!(PriceList::built_in().overridden(wrong).is_err(), "{wrong}");
    }
}
