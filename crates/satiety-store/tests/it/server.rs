//! Tokens, idempotent writes and growing conversations, on both engines.

use satiety_store::conversations::ConversationRow;
use satiety_store::idempotency::{Claim, KeyClaim};
use satiety_store::journal::Event;
use satiety_store::tokens::TokenRow;
use satiety_store::{Operation, Store};
use serde_json::json;

use crate::conformance::conversation;
use crate::support::on_both_engines;

fn token(id: &str, at: i64) -> TokenRow {
    TokenRow {
        token_id: id.into(),
        name: "ci \0 \u{1F9A8}".into(),
        hash: "00ff".into(),
        scope: "write".into(),
        created_at: at,
        expires_at: Some(i64::MAX),
        revoked_at: None,
        last_used_at: None,
        tenant: None,
    }
}

fn claim<'a>(holder: &'a str, hash: &'a str, now: i64) -> KeyClaim<'a> {
    KeyClaim {
        caller: "me",
        key: "k",
        request_hash: hash,
        holder,
        now,
        forget_before: now - 1000,
        lost_before: now - 100,
    }
}

/// Adds rows to the tables of the server.
pub(crate) async fn fill(store: &Store) {
    store.tokens().put(&token("t1", 1)).await.unwrap();
    store
        .tokens()
        .put(&TokenRow {
            scope: "read".into(),
            expires_at: None,
            ..token("t2", 2)
        })
        .await
        .unwrap();
    store.idempotency().claim(&claim("a", "x", 5)).await.unwrap();
    store
        .idempotency()
        .settle(&claim("a", "x", 5), 201, "{\"a\": \"\\u0000\"}")
        .await
        .unwrap();
}

on_both_engines! {
    async fn tokens_are_stored_used_and_revoked(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let ids: Vec<String> = store.tokens().list().await.unwrap().into_iter().map(|token| token.token_id).collect();
        assert_eq!(ids, ["t2", "t1"]);
        store.tokens().touch("t1", 77).await.unwrap();
        assert!(store.tokens().revoke("t1", 88).await.unwrap());
        assert!(!store.tokens().revoke("t1", 99).await.unwrap(), "the first time counts");
        let found = store.tokens().get("t1").await.unwrap().unwrap();
        assert_eq!((found.last_used_at, found.revoked_at), (Some(77), Some(88)));
        assert_eq!(found.name, "ci \u{FFFD} \u{1F9A8}");
        assert_eq!(store.tokens().get("t3").await.unwrap(), None);
    }
}

on_both_engines! {
    async fn idempotency_keys_store_the_first_response(fixture: Fixture) {
        let store = fixture.open().await;
        assert_eq!(store.idempotency().claim(&claim("a", "x", 1000)).await.unwrap(), Claim::Ours);
        assert_eq!(store.idempotency().claim(&claim("b", "x", 1001)).await.unwrap(), Claim::InProgress);
        assert_eq!(store.idempotency().claim(&claim("b", "y", 1001)).await.unwrap(), Claim::OtherRequest);
        // Other holders can neither answer nor release it.
        store.idempotency().settle(&claim("b", "x", 1002), 500, "no").await.unwrap();
        store.idempotency().release(&claim("b", "x", 1002)).await.unwrap();
        assert_eq!(store.idempotency().claim(&claim("b", "x", 1003)).await.unwrap(), Claim::InProgress);
        store.idempotency().settle(&claim("a", "x", 1004), 201, "yes").await.unwrap();
        let answered = Claim::Answered { status: 201, body: "yes".into() };
        assert_eq!(store.idempotency().claim(&claim("b", "x", 1500)).await.unwrap(), answered);
        // A day later the key is free again.
        assert_eq!(store.idempotency().claim(&claim("c", "z", 2500)).await.unwrap(), Claim::Ours);
        // Work without an answer was lost, and another caller may do it.
        assert_eq!(store.idempotency().claim(&claim("d", "z", 2550)).await.unwrap(), Claim::InProgress);
        assert_eq!(store.idempotency().claim(&claim("d", "z", 2650)).await.unwrap(), Claim::Ours);
        store.idempotency().release(&claim("d", "z", 2651)).await.unwrap();
        assert_eq!(store.idempotency().claim(&claim("e", "w", 2652)).await.unwrap(), Claim::Ours);
    }
}

on_both_engines! {
    async fn one_of_many_concurrent_callers_gets_the_key(fixture: Fixture) {
        let store = fixture.open().await;
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let holder = format!("h{number}");
                    store.idempotency().claim(&claim(&holder, "x", 1000)).await.unwrap()
                })
            })
            .collect();
        let mut ours = 0;
        for task in tasks {
            match task.await.unwrap() {
                Claim::Ours => ours += 1,
                other => assert_eq!(other, Claim::InProgress),
            }
        }
        assert_eq!(ours, 1);
    }
}

on_both_engines! {
    async fn rounds_are_appended_only_at_the_expected_position(fixture: Fixture) {
        let store = fixture.open().await;
        let (row, rounds) = conversation("c", 4);
        let empty = ConversationRow { signal: "CONTINUE".into(), score: None, report: json!(null), ..row.clone() };
        assert!(store.conversations().begin(&empty).await.unwrap());
        assert!(!store.conversations().begin(&empty).await.unwrap());
        let first = store.conversations().extend(&row, 0, &rounds[..2]).await.unwrap().unwrap();
        assert_eq!(store.conversations().state("c").await.unwrap(), Some((first, 2)));
        // A caller with a stale position changes nothing.
        let changed = ConversationRow { signal: "SHIP".into(), ..row.clone() };
        assert_eq!(store.conversations().extend(&changed, 0, &rounds[..1]).await.unwrap(), None);
        assert_eq!(store.conversations().state("c").await.unwrap(), Some((first, 2)));
        assert_ne!(store.conversations().get("c").await.unwrap().unwrap().0.signal, "SHIP");
        store.conversations().extend(&changed, 2, &rounds[2..]).await.unwrap().unwrap();
        let (found, kept) = store.conversations().get("c").await.unwrap().unwrap();
        assert_eq!((found.signal.as_str(), kept), ("SHIP", rounds.clone()));
        assert_eq!(store.conversations().rounds_after("c", 3, 10).await.unwrap(), rounds[3..]);
        assert_eq!(store.conversations().extend(&ConversationRow { id: "none".into(), ..row }, 0, &[]).await.unwrap(), None);
        assert_eq!(store.conversations().state("none").await.unwrap(), None);
    }
}

on_both_engines! {
    async fn conversations_are_listed_latest_first(fixture: Fixture) {
        let store = fixture.open().await;
        for id in ["a", "b", "c"] {
            let (row, rounds) = conversation(id, 2);
            store.conversations().put(&row, &rounds).await.unwrap();
        }
        let first = store.conversations().list_before(None, 2).await.unwrap();
        assert_eq!(first.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!(first[0].rounds, 2);
        let rest = store.conversations().list_before(Some((first[1].updated_at, "b")), 2).await.unwrap();
        assert_eq!(rest.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a"]);
    }
}

on_both_engines! {
    async fn events_of_a_kind_are_listed_latest_first(fixture: Fixture) {
        let store = fixture.open().await;
        for number in 0..4 {
            store.journal().append(Event::now("server.write", "me", json!(number))).await.unwrap();
            store.journal().append(Event::now("other", "me", json!(number))).await.unwrap();
        }
        let events = store.journal().latest("server.write", 2).await.unwrap();
        assert_eq!(events.iter().map(|event| event.body.clone()).collect::<Vec<_>>(), [json!(3), json!(2)]);
        store.ping().await.unwrap();
    }
}

on_both_engines! {
    async fn observers_see_reads_and_writes(fixture: Fixture) {
        let store = fixture.open().await;
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = seen.clone();
        store.observe(move |operation, _| told.lock().unwrap().push(operation));
        store.ping().await.unwrap();
        store.records().put("k", "1", &json!(1), None).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [Operation::Read, Operation::Write]);
    }
}
