//! Retention rules delete exactly the matching rows, and archives contain them.

use satiety_store::journal::Event;
use satiety_store::retention::Rule;
use satiety_store::{Store, now_micros};
use serde_json::{Value, json};

use crate::conformance::{conversation, eval_query};
use crate::support::on_both_engines;

const DAY: i64 = 86_400_000_000;

async fn append_aged(store: &Store, days: i64, subject: &str) {
    let mut event = Event::now("test.event", subject, json!({"days": days}));
    event.at -= days * DAY;
    store.journal().append(event).await.unwrap();
}

on_both_engines! {
    async fn old_events_are_archived_and_then_deleted(fixture: Fixture) {
        let store = fixture.open().await;
        let mut old = Vec::new();
        for number in 0..2500 {
            let mut event = Event::now("test.event", "old", json!(number));
            event.at -= 91 * DAY;
            old.push(event);
        }
        store.journal().append_all(old).await.unwrap();
        append_aged(&store, 89, "young").await;
        store.retention().set_rule(&"journal=90d:archive".parse::<Rule>().unwrap()).await.unwrap();
        let folder = fixture.folder.path().join("archive");

        let dry = store.retention().apply(now_micros(), &folder, true).await.unwrap();
        assert_eq!(dry.outcomes.iter().find(|o| o.rule.subject == "journal").unwrap().rows, 2500);
        assert_eq!(store.journal().latest("test.event", 9999).await.unwrap().len(), 2501);
        assert!(!folder.exists());

        let done = store.retention().apply(now_micros(), &folder, false).await.unwrap();
        let outcome = done.outcomes.iter().find(|o| o.rule.subject == "journal").unwrap();
        assert_eq!(outcome.rows, 2500);
        let archive = fs_err::read_to_string(outcome.archive.as_ref().unwrap()).unwrap();
        let numbers: std::collections::BTreeSet<i64> = archive
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["row"]["body"].as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(numbers, (0..2500).collect());
        // The recent event, and the one that retention recorded.
        assert_eq!(store.journal().latest("test.event", 9).await.unwrap().len(), 1);
        assert_eq!(store.journal().latest("store.retained", 9).await.unwrap().len(), 1);
        let status = store.status().await.unwrap();
        assert_eq!(status.tables.iter().find(|table| table.name == "journal").unwrap().rows, 2);
    }
}

on_both_engines! {
    async fn a_prefix_rule_keeps_other_records(fixture: Fixture) {
        let store = fixture.open().await;
        for key in ["x/1", "x/2", "x0", "w/9"] {
            store.records().put(key, "1", &json!(1), None).await.unwrap();
        }
        store.records().put("short", "1", &json!(1), Some(now_micros() + DAY)).await.unwrap();
        store.retention().set_rule(&"records:x/=1d:delete".parse::<Rule>().unwrap()).await.unwrap();
        let in_two_days = now_micros() + 2 * DAY;
        let done = store.retention().apply(in_two_days, fixture.folder.path(), false).await.unwrap();
        assert_eq!(done.expired_records, 1);
        let rows: u64 = done.outcomes.iter().map(|outcome| outcome.rows).sum();
        assert_eq!(rows, 2);
        for (key, kept) in [("x/1", false), ("x/2", false), ("x0", true), ("w/9", true), ("short", false)] {
            assert_eq!(store.records().get(key).await.unwrap().is_some(), kept, "{key}");
        }
        let status = store.status().await.unwrap();
        assert_eq!(status.tables.iter().find(|table| table.name == "records").unwrap().rows, 2);
    }
}

on_both_engines! {
    async fn conversations_are_archived_with_their_rounds(fixture: Fixture) {
        let store = fixture.open().await;
        let (row, rounds) = conversation("c", 3);
        store.conversations().put(&row, &rounds).await.unwrap();
        store.retention().set_rule(&"conversations=1d:archive".parse::<Rule>().unwrap()).await.unwrap();
        let done = store.retention().apply(now_micros() + 2 * DAY, fixture.folder.path(), false).await.unwrap();
        let outcome = done.outcomes.iter().find(|o| o.rule.subject == "conversations").unwrap();
        let archive = fs_err::read_to_string(outcome.archive.as_ref().unwrap()).unwrap();
        let tables: Vec<&str> =
            archive.lines().map(|line| if line.contains("\"table\":\"rounds\"") { "rounds" } else { "conversations" }).collect();
        assert_eq!(tables, ["conversations", "rounds", "rounds", "rounds"]);
        assert!(store.conversations().get("c").await.unwrap().is_none());
        assert!(store.status().await.unwrap().tables.iter().all(|table| table.name != "rounds" || table.rows == 0));
    }
}

on_both_engines! {
    async fn logged_queries_are_deleted_and_corpus_queries_stay(fixture: Fixture) {
        let store = fixture.open().await;
        let queries = [eval_query("golden", true), eval_query("logged", false)];
        store.evaluation().put_corpus(&queries, &[]).await.unwrap();
        let done = store.retention().apply(now_micros() + 91 * DAY, fixture.folder.path(), false).await.unwrap();
        let outcome = done.outcomes.iter().find(|outcome| outcome.rule.subject == "eval_queries").unwrap();
        assert_eq!(outcome.rows, 1);
        let archive = fs_err::read_to_string(outcome.archive.as_ref().unwrap()).unwrap();
        assert!(archive.contains("logged") && !archive.contains("golden"), "{archive}");
        assert_eq!(store.evaluation().corpus(None, 10).await.unwrap().len(), 1);
    }
}
