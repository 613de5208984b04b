//! The harness log: events are atomic, and one of concurrent writers wins, on both engines.

use satiety_store::Store;
use satiety_store::harness::{
    AuditRow, HarnessChange, LedgerRow, RecordChange, VersionRow, harness_record_key,
};
use serde_json::json;

use crate::support::on_both_engines;

fn entry(seq: i64, hash: &str) -> LedgerRow {
    LedgerRow {
        seq,
        prev: format!("before {seq}"),
        at: "2026-01-02T03:04:05.123456789Z".into(),
        kind: "cycle".into(),
        body: r#"{"score":0.30000000000000004,"text":"a \u0000 in it"}"#.into(),
        hash: hash.into(),
    }
}

fn change(entries: &[(i64, &str)], value: u32) -> HarnessChange {
    HarnessChange {
        harness_id: String::new(),
        entries: entries.iter().map(|(seq, hash)| entry(*seq, hash)).collect(),
        records: vec![RecordChange {
            key: "eval-harness/saturation/aggregate".into(),
            schema_version: "1.0".into(),
            body: json!({"value": value}),
            expires_at: None,
        }],
        versions: Vec::new(),
    }
}

/// Adds a row to every table.
pub(crate) async fn fill(store: &Store) {
    let mut first = change(&[(0, "a"), (1, "b")], 1);
    first.versions.push(VersionRow {
        version: "v1".into(),
        manifest: json!({"alpha": 0.1 + 0.2}),
        files: None,
    });
    assert!(store.harness().commit(&first).await.unwrap());
    let audit = AuditRow {
        audit_id: "audit-1".into(),
        harness_id: String::new(),
        cycle_id: "cycle-1".into(),
        auditor: "anna".into(),
        accepts: true,
        note: "fine\0".into(),
        at: 7,
    };
    store.harness().put_audit(&audit).await.unwrap();
}

on_both_engines! {
    async fn events_are_written_atomically(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let seen = async || {
            let aggregate = store.records().get("eval-harness/saturation/aggregate").await.unwrap().unwrap();
            (store.harness().ledger("", 0, 100).await.unwrap().len(), aggregate.body["value"].as_u64().unwrap())
        };
        // Another writer wrote entry 1 meanwhile: nothing of this is written, not even entry 2.
        assert!(!store.harness().commit(&change(&[(1, "x"), (2, "y")], 2)).await.unwrap());
        assert_eq!(seen().await, (2, 1));
        // Repeating the same write, as after a lost connection, is not a conflict and writes no entry twice.
        assert!(store.harness().commit(&change(&[(0, "a"), (1, "b")], 3)).await.unwrap());
        assert_eq!(seen().await, (2, 3));
        assert!(store.harness().commit(&change(&[(2, "c")], 4)).await.unwrap());
        assert_eq!(seen().await, (3, 4));
        assert_eq!(store.harness().ledger("", 1, 1).await.unwrap(), [entry(1, "b")]);
    }
}

on_both_engines! {
    async fn one_of_many_concurrent_writers_wins(fixture: Fixture) {
        let stores = [fixture.open().await, fixture.open().await, fixture.open().await, fixture.open().await];
        let tasks: Vec<_> = (0..16u32)
            .map(|task| {
                let store = stores[task as usize % 4].clone();
                tokio::spawn(async move {
                    store.harness().commit(&change(&[(0, &format!("h{task}"))], task)).await.unwrap()
                })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            won += u32::from(task.await.unwrap());
        }
        assert_eq!(won, 1);
        let [only] = &stores[0].harness().ledger("", 0, 100).await.unwrap()[..] else { panic!("one entry") };
        let kept = stores[0].records().get("eval-harness/saturation/aggregate").await.unwrap().unwrap();
        assert_eq!(only.hash, format!("h{}", kept.body["value"]));
    }
}

on_both_engines! {
    async fn versions_are_immutable_and_get_their_files_once(fixture: Fixture) {
        let store = fixture.open().await;
        let put = async |seq: i64, manifest: serde_json::Value, files: Option<serde_json::Value>| {
            let mut change = change(&[(seq, &format!("h{seq}"))], 0);
            change.versions.push(VersionRow { version: "v".into(), manifest, files });
            assert!(store.harness().commit(&change).await.unwrap());
            store.harness().version("", "v").await.unwrap().unwrap()
        };
        assert_eq!(put(0, json!({"a": 1}), None).await.files, None);
        assert_eq!(put(1, json!({"a": 2}), Some(json!({"f": "1"}))).await.files, Some(json!({"f": "1"})));
        let last = put(2, json!({"a": 3}), Some(json!({"f": "2"}))).await;
        assert_eq!((last.manifest, last.files), (json!({"a": 1}), Some(json!({"f": "1"}))));
        assert_eq!(store.harness().version("", "w").await.unwrap(), None);
    }
}

on_both_engines! {
    async fn harnesses_have_separate_logs_and_the_first_adopts_existing_entries(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let cycle = "eval-harness/saturation/cycles/cycle-1";
        let expansion = "eval-harness/saturation/expansions/exp-1";
        for key in [cycle, expansion] {
            store.records().put(key, "1.0", &json!({"key": key}), None).await.unwrap();
        }
        store.harness().claim("harness-a").await.unwrap();
        // A second adoption finds nothing, and neither does another harness.
        store.harness().claim("harness-a").await.unwrap();
        store.harness().claim("harness-b").await.unwrap();
        assert_eq!(store.harness().ids().await.unwrap(), ["harness-a"]);
        assert_eq!(store.harness().ledger("harness-a", 0, 10).await.unwrap().len(), 2);
        assert_eq!(store.harness().ledger("", 0, 10).await.unwrap(), []);
        assert!(store.harness().version("harness-a", "v1").await.unwrap().is_some());
        assert_eq!(store.harness().audits("harness-a", 10).await.unwrap().len(), 1);
        for key in [cycle, expansion] {
            let kept = store.records().get(&harness_record_key("harness-a", key)).await.unwrap().unwrap();
            assert_eq!(kept.body, json!({"key": key}));
            assert!(store.records().get(key).await.unwrap().is_none());
        }
        assert!(store.records().get(&harness_record_key("harness-a", "eval-harness/saturation/aggregate")).await.unwrap().is_some());
        let other = HarnessChange { harness_id: "harness-b".into(), records: Vec::new(), ..change(&[(0, "x")], 1) };
        assert!(store.harness().commit(&other).await.unwrap());
        assert_eq!(store.harness().ledger("harness-b", 0, 10).await.unwrap(), [entry(0, "x")]);
        assert_eq!(store.harness().version("harness-b", "v1").await.unwrap(), None);
        assert_eq!(store.harness().audits("harness-b", 10).await.unwrap(), []);
        assert_eq!(store.harness().ids().await.unwrap(), ["harness-a", "harness-b"]);
    }
}
