//! Sessions that call hooks.

use satiety_store::Store;
use satiety_store::hook_sessions::{HookCall, HookSessionRow};

use crate::support::on_both_engines;

fn call(decision: &str, micros: i64) -> HookCall {
    HookCall {
        event: "PostToolUse".into(),
        decision: decision.into(),
        reason: "repeats \0".into(),
        micros,
    }
}

pub(crate) async fn fill(store: &Store) {
    let session = HookSessionRow {
        id: "claude:1".into(),
        host: "claude".into(),
        state: "{\"goal\": \"a \0 b\"}".into(),
        judge: String::new(),
        ..HookSessionRow::default()
    };
    assert!(
        store
            .hook_sessions()
            .put(&session, &call("nudge", 5))
            .await
            .unwrap()
    );
}

on_both_engines! {
    async fn a_session_is_written_by_one_process_at_a_time(fixture: Fixture) {
        let store = fixture.open().await;
        let sessions = store.hook_sessions();
        let mut session = HookSessionRow {
            id: "codex:1".into(),
            host: "codex".into(),
            state: "{}".into(),
            judge: "a".into(),
            ..HookSessionRow::default()
        };
        assert_eq!(sessions.get("codex:1").await.unwrap(), None);
        assert!(sessions.put(&session, &call("pass", 10)).await.unwrap());
        // The second process started from the same state.
        assert!(!sessions.put(&session, &call("pass", 10)).await.unwrap());
        session.revision = 1;
        session.judge = "b".into();
        assert!(sessions.put(&session, &call("pass", 30)).await.unwrap());
        session.judge = "c".into();
        assert!(!sessions.put(&session, &call("pass", 30)).await.unwrap());
        let stored = sessions.get("codex:1").await.unwrap().unwrap();
        assert_eq!((stored.judge.as_str(), stored.revision), ("b", 2));
        let calls = sessions.calls(10).await.unwrap();
        assert_eq!(calls.len(), 1);
        assert_eq!((calls[0].calls, calls[0].total_micros, calls[0].max_micros), (2, 40, 30));
        assert_eq!(sessions.list(10).await.unwrap(), [stored]);
    }
}
