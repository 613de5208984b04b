//! Scopes have one change at a time from any process, and versions are activated one after the other.

use satiety_store::Store;
use satiety_store::eviction::{ActivationRow, ProposalRow, ScopeChange, ScopeItemRow, ScorerRow};

use crate::support::on_both_engines;

fn item(ctx_id: &str) -> ScopeItemRow {
    ScopeItemRow {
        ctx_id: ctx_id.into(),
        body: "{\"a\": \"\u{1F98A}\"}".into(),
        ..ScopeItemRow::default()
    }
}

fn proposal(id: &str, at: i64) -> ProposalRow {
    ProposalRow {
        proposal_id: id.into(),
        scope_id: "s".into(),
        turn_number: 3,
        proposed_at: at,
        deadline_at: at + 2,
        scorer_model: "heuristic-1".into(),
        body: "{}".into(),
        ..ProposalRow::default()
    }
}

fn change(seen: i64, id: &str) -> ScopeChange {
    ScopeChange {
        scope_id: "s".into(),
        change_id: id.into(),
        seen,
        turn: 3,
        ..ScopeChange::default()
    }
}

fn activation(id: &str, version: &str, previous: &str) -> ActivationRow {
    ActivationRow {
        activation_id: id.into(),
        version: version.into(),
        previous: previous.into(),
        action: "activate".into(),
        ablation_id: Some("ablation-1".into()),
        activated_by: "me".into(),
        reason: "better".into(),
        activated_at: 9,
    }
}

/// Adds rows to every table of eviction.
pub(crate) async fn fill(store: &Store) {
    let mut first = change(0, "c1");
    first.items = vec![
        item("a"),
        ScopeItemRow {
            held_by: Some("p1".into()),
            ..item("b\0")
        },
    ];
    first.propose = vec![proposal("p1", 5), proposal("p2", 6)];
    assert!(store.eviction().change_scope(&first).await.unwrap());
    let mut second = change(1, "c2");
    second.goal = Some("finish".into());
    second.items = vec![ScopeItemRow {
        evicted_at: Some(7),
        ..item("a")
    }];
    second.resolve = vec![ProposalRow {
        resolved_at: Some(7),
        resolved_by: Some("llm".into()),
        feedback: Some("{\"evicted\": []}".into()),
        ..proposal("p1", 5)
    }];
    assert!(store.eviction().change_scope(&second).await.unwrap());
    let scorer = ScorerRow {
        version: "w-1".into(),
        variant: "weights".into(),
        created_at: 8,
        body: "{}".into(),
        fit: None,
    };
    assert!(store.eviction().put_scorer(&scorer).await.unwrap());
    assert!(
        store
            .eviction()
            .activate_scorer(&activation("a1", "w-1", "heuristic-1"), "heuristic-1")
            .await
            .unwrap()
    );
    store.eviction().put_opinion("k", "m", 0.1 + 0.2).await.unwrap();
}

on_both_engines! {
    async fn scope_changes_are_read_back(fixture: Fixture) {
        let store = fixture.open().await;
        assert_eq!(store.eviction().scope("s").await.unwrap().revision, 0);
        fill(&store).await;
        let scope = store.eviction().scope("s").await.unwrap();
        assert_eq!((scope.revision, scope.turn, scope.goal.as_deref()), (2, 3, Some("finish")));
        assert_eq!(store.eviction().revision("s").await.unwrap(), 2);
        assert_eq!(scope.items.iter().map(|item| (item.ctx_id.as_str(), item.held_by.as_deref())).collect::<Vec<_>>(), [("b\u{FFFD}", Some("p1"))]);
        assert_eq!(scope.open.iter().map(|open| open.proposal_id.as_str()).collect::<Vec<_>>(), ["p2"]);
        assert_eq!(store.eviction().item("s", "a").await.unwrap().unwrap().evicted_at, Some(7));
        let all = store.eviction().proposals(None, None, 10).await.unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].resolved_by.as_deref(), Some("llm"));
        let rest = store.eviction().proposals(Some("s"), Some((5, "p1")), 10).await.unwrap();
        assert_eq!(rest[0].proposal_id, "p2");
        assert_eq!(store.eviction().proposal("p1").await.unwrap().unwrap().feedback.as_deref(), Some("{\"evicted\": []}"));
        let summary = store.eviction().scope_summary("s").await.unwrap().unwrap();
        assert_eq!((summary.items, summary.open_proposals), (1, 1));
        assert_eq!(store.eviction().scope_summary("no").await.unwrap(), None);
        assert_eq!(store.eviction().scopes(None, 10).await.unwrap(), [summary]);
        assert_eq!(store.eviction().opinion("k").await.unwrap(), Some(0.1 + 0.2));
        let mut forget = change(2, "c3");
        forget.forget = vec!["a".into()];
        assert!(store.eviction().change_scope(&forget).await.unwrap());
        assert_eq!(store.eviction().item("s", "a").await.unwrap(), None);
    }
}

on_both_engines! {
    async fn pages_list_the_scopes_and_proposals_that_changed_last(fixture: Fixture) {
        let store = fixture.open().await;
        let eviction = store.eviction();
        assert_eq!(eviction.open_proposals(10).await.unwrap(), 0);
        fill(&store).await;
        for name in ["t", "u"] {
            let other = ScopeChange { scope_id: name.into(), ..change(0, name) };
            assert!(eviction.change_scope(&other).await.unwrap());
        }
        let first = eviction.find_scopes(None, None, 2).await.unwrap();
        let names: Vec<&str> = first.rows.iter().map(|row| row.scope_id.as_str()).collect();
        assert_eq!(names, ["u", "t"]);
        let (at, id) = first.next.unwrap();
        let rest = eviction.find_scopes(None, Some((at, &id)), 2).await.unwrap();
        assert_eq!(rest.next, None);
        let row = &rest.rows[0];
        assert_eq!((row.scope_id.as_str(), row.items, row.open_proposals), ("s", 1, 1));
        let by_id = eviction.scopes(None, 2).await.unwrap();
        assert_eq!(by_id.iter().map(|row| row.scope_id.as_str()).collect::<Vec<_>>(), ["s", "t"]);
        let rest = eviction.scopes(Some("t"), 2).await.unwrap();
        assert_eq!(rest.iter().map(|row| row.scope_id.as_str()).collect::<Vec<_>>(), ["u"]);
        let by_goal = eviction.find_scopes(Some("FINISH"), None, 2).await.unwrap();
        assert_eq!(by_goal.rows.len(), 1);
        assert_eq!(eviction.open_proposals(10).await.unwrap(), 1);
        let latest = eviction.latest_proposals(None, 1).await.unwrap();
        assert_eq!(latest[0].proposal_id, "p2");
        let all = eviction.latest_proposals(Some("s"), 10).await.unwrap();
        assert_eq!(all.iter().map(|one| one.proposal_id.as_str()).collect::<Vec<_>>(), ["p1", "p2"]);
    }
}

on_both_engines! {
    async fn stale_changes_are_refused_and_repeated_ones_are_recognized(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let mut stale = change(1, "late");
        stale.items = vec![item("new")];
        assert!(!store.eviction().change_scope(&stale).await.unwrap());
        assert!(!store.eviction().change_scope(&change(0, "late")).await.unwrap());
        assert_eq!(store.eviction().item("s", "new").await.unwrap(), None);
        assert!(store.eviction().change_scope(&change(1, "c2")).await.unwrap(), "a repeat of the last change");
        assert_eq!(store.eviction().scope("s").await.unwrap().revision, 2);
    }
}

on_both_engines! {
    async fn of_eight_concurrent_changes_one_wins_each_round(fixture: Fixture) {
        let store = fixture.open().await;
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let store = store.clone();
                tokio::spawn(async move {
                    for number in 0..10 {
                        loop {
                            let seen = store.eviction().revision("s").await.unwrap();
                            let mut mine = change(seen, &format!("{task}/{number}"));
                            mine.items = vec![item(&format!("{task}/{number}"))];
                            if store.eviction().change_scope(&mine).await.unwrap() {
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let scope = store.eviction().scope("s").await.unwrap();
        assert_eq!((scope.revision, scope.items.len()), (80, 80));
    }
}

on_both_engines! {
    async fn versions_are_immutable_and_activated_in_order(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let again = ScorerRow { version: "w-1".into(), variant: "online".into(), created_at: 0, body: "x".into(), fit: None };
        assert!(!store.eviction().put_scorer(&again).await.unwrap());
        assert_eq!(store.eviction().scorer("w-1").await.unwrap().unwrap().variant, "weights");
        assert_eq!(store.eviction().scorers(5).await.unwrap().len(), 1);
        // A caller that still assumes that the heuristic is active.
        assert!(!store.eviction().activate_scorer(&activation("a2", "w-2", "heuristic-1"), "heuristic-1").await.unwrap());
        assert!(store.eviction().activate_scorer(&activation("a1", "w-1", "heuristic-1"), "heuristic-1").await.unwrap(), "sent again");
        assert!(store.eviction().activate_scorer(&activation("a3", "w-3", "w-1"), "heuristic-1").await.unwrap());
        let log: Vec<String> = store.eviction().activations(9).await.unwrap().into_iter().map(|row| row.version).collect();
        assert_eq!(log, ["w-3", "w-1"]);
    }
}
