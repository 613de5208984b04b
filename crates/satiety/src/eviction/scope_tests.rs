//! The incrementally maintained ranking equals one computed from scratch.

use proptest::prelude::*;

use super::*;

fn item(id: &str, tokens: u64) -> ContextItem {
    ContextItem::new(id, "workspace", tokens)
}

fn scope() -> Scope {
    Scope::new(Weights::heuristic()).unwrap()
}

#[test]
fn unused_and_large_items_are_evicted_first() {
    let mut scope = scope();
    scope.add(item("large", 1000)).unwrap();
    scope.add(item("small", 10)).unwrap();
    scope.add(item("used", 1000)).unwrap();
    scope.touch("used", 3).unwrap();
    assert_eq!(scope.ranked().collect::<Vec<_>>(), ["large", "used", "small"]);
    assert_eq!((scope.len(), scope.tokens(), scope.turn()), (3, 2010, 3));
    assert!(scope.touch("gone", 4).is_err());
}

#[test]
fn pins_protect_their_dependencies_transitively() {
    let mut scope = scope();
    scope
        .insert(ContextItem {
            pinned: true,
            references: vec!["a".into(), "late".into()],
            ..item("pin", 5)
        })
        .unwrap();
    scope
        .insert(ContextItem {
            references: vec!["b".into()],
            ..item("a", 5)
        })
        .unwrap();
    scope.insert(item("b", 5)).unwrap();
    scope.insert(item("c", 5)).unwrap();
    assert_eq!(scope.ranked().collect::<Vec<_>>(), ["c"]);
    assert_eq!(scope.kept_by_pin("b"), Some("pin"));
    scope.insert(item("late", 5)).unwrap();
    assert_eq!(scope.ranked().collect::<Vec<_>>(), ["c"]);
    scope.pin("pin", false).unwrap();
    assert_eq!(scope.ranked().count(), 5);
    scope.pin("pin", true).unwrap();
    scope.remove("pin");
    assert_eq!(scope.ranked().count(), 4);
    assert_eq!(scope.kept_by_pin("b"), None);
}

#[test]
fn a_covered_item_is_worth_less_until_the_other_is_removed() {
    let mut scope = scope();
    let text = "the deploy script reads its secrets from the vault and never from the environment";
    scope
        .add(ContextItem {
            content: Some(text.into()),
            ..item("old", 20)
        })
        .unwrap();
    let alone = scope.score("old").unwrap().relevance_score;
    scope
        .add(ContextItem {
            content: Some(text.to_uppercase()),
            ..item("new", 20)
        })
        .unwrap();
    assert_eq!(scope.item("old").unwrap().signals.redundancy, Some(1.0));
    assert!(scope.score("old").unwrap().relevance_score < alone);
    assert_eq!(scope.item("new").unwrap().signals.redundancy, None);
    scope.remove("new");
    assert!((scope.score("old").unwrap().relevance_score - alone).abs() < 1e-12);
}

#[test]
fn the_goal_raises_related_items() {
    let mut scope = scope();
    for (id, text) in [
        ("a", "notes about the billing migration"),
        ("b", "notes about the office party"),
    ] {
        scope
            .add(ContextItem {
                content: Some(text.into()),
                ..item(id, 20)
            })
            .unwrap();
    }
    scope.set_goal("finish the billing migration");
    assert_eq!(scope.ranked().collect::<Vec<_>>(), ["b", "a"]);
    let score = scope.score("a").unwrap();
    assert!(
        score
            .terms
            .iter()
            .any(|term| term.name == "goal_overlap" && term.contribution > 0.0)
    );
    scope.set_goal("plan the office party");
    assert_eq!(scope.ranked().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_new_item_uses_its_references() {
    let mut scope = scope();
    scope.add(item("a", 5)).unwrap();
    scope
        .add(ContextItem {
            created_turn: 7,
            last_referenced_turn: 7,
            references: vec!["a".into()],
            ..item("b", 5)
        })
        .unwrap();
    let used = scope.item("a").unwrap();
    assert_eq!((used.reference_count, used.last_referenced_turn), (1, 7));
    assert!(scope.features("a").unwrap().values[9] > 0.0);
    scope.remove("b");
    assert!(scope.features("a").unwrap().values[9] <= 0.0);
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8, u16, bool, Option<u8>),
    Touch(u8),
    Remove(u8),
    Pin(u8, bool),
    Hold(u8, bool),
    Wait(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = 0_u8..12;
    let step = prop_oneof![
        (id.clone(), 0_u16..500, any::<bool>(), prop::option::of(0_u8..12)).prop_map(
            |(id, tokens, pinned, refers)| Step::Add(id, tokens, pinned && tokens % 3 == 0, refers)
        ),
        id.clone().prop_map(Step::Touch),
        id.clone().prop_map(Step::Remove),
        (id.clone(), any::<bool>()).prop_map(|(id, pinned)| Step::Pin(id, pinned)),
        (id, any::<bool>()).prop_map(|(id, held)| Step::Hold(id, held)),
        (1_u8..40).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn the_incremental_ranking_equals_one_computed_from_scratch(steps in steps()) {
        let mut scope = scope();
        let mut turn = 0;
        for step in steps {
            match step {
                Step::Add(id, tokens, pinned, refers) => {
                    let references = refers.map(|id| format!("i{id}")).into_iter().collect();
                    let new = ContextItem {
                        created_turn: turn, last_referenced_turn: turn, pinned, references, ..item(&format!("i{id}"), tokens.into())
                    };
                    scope.add(new).unwrap();
                }
                Step::Touch(id) => drop(scope.touch(&format!("i{id}"), turn)),
                Step::Remove(id) => drop(scope.remove(&format!("i{id}"))),
                Step::Pin(id, pinned) => drop(scope.pin(&format!("i{id}"), pinned)),
                Step::Hold(id, held) => drop(scope.hold(&format!("i{id}"), held)),
                Step::Wait(turns) => {
                    turn += u64::from(turns);
                    scope.advance(turn);
                }
            }
            let mut fresh = Scope::new(Weights::heuristic()).unwrap();
            for item in scope.items() {
                fresh.insert(item.clone()).unwrap();
            }
            for item in scope.items() {
                fresh.hold(&item.ctx_id, scope.is_held(&item.ctx_id)).unwrap();
            }
            fresh.set_weights(Weights::heuristic()).unwrap();
            fresh.advance(turn);
            fresh.turn = fresh.turn.max(scope.turn);
            // Entries are numbered differently, so ties may be ordered differently.
            let by_density = |scope: &Scope| {
                let mut ids: Vec<(u64, String)> = scope
                    .ranking()
                    .map(|(_, entry)| (entry.key.unwrap(), entry.item.ctx_id.clone()))
                    .collect();
                ids.sort();
                ids
            };
            prop_assert_eq!(by_density(&scope), by_density(&fresh));
            prop_assert_eq!(scope.tokens(), scope.items().map(|item| item.token_count).sum::<u64>());
        }
    }
}
