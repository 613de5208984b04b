//! Checks of a database: `db status --check` reads everything, including the logs of harnesses.

use satiety::harness::ledger;
use satiety_engine::{Engine, Settings, StoreUrl};
use satiety_store::Store;
use satiety_store::harness::{HarnessChange, LedgerRow};
use serde_json::json;

#[tokio::test]
async fn a_changed_entry_in_the_log_of_a_harness_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let url = StoreUrl::sqlite(folder.path().join("s.db"));
    let engine = Engine::new(Settings {
        store: url.clone(),
        archive_folder: folder.path().join("archive"),
        embedder: "none".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    });
    let store = Store::open(&url).await.unwrap();
    let mut entries = Vec::new();
    for number in 0..4 {
        let entry = ledger::append(
            entries.last(),
            jiff::Timestamp::UNIX_EPOCH,
            "cycle",
            json!({"number": number}),
        );
        entries.push(entry);
    }
    for (number, entry) in entries.iter().enumerate() {
        // The last entry says something else than what was hashed.
        let body = if number == 3 {
            json!({"number": 99}).to_string()
        } else {
            entry.body.to_string()
        };
        let row = LedgerRow {
            seq: i64::try_from(entry.seq).unwrap(),
            prev: entry.prev.clone(),
            at: entry.at.to_string(),
            kind: entry.kind.clone(),
            body,
            hash: entry.hash.clone(),
        };
        let change = HarnessChange {
            harness_id: "harness-1".into(),
            entries: vec![row],
            ..HarnessChange::default()
        };
        assert!(store.harness().commit(&change).await.unwrap());
        let checked = engine.database().status(true).await;
        if number < 3 {
            checked.unwrap();
        } else {
            let error = checked.unwrap_err().to_string();
            assert!(error.contains("entry 3") && error.contains("content"), "{error}");
            engine.database().status(false).await.unwrap();
        }
    }
    store.close().await;
}
