//! Features under test: counted once, by one counter at a time.

use satiety_store::Store;
use satiety_store::experiment::{ExperimentRow, GradedRun, ShadowRunRow, UseRow};
use satiety_store::memory::FeedbackRow;
use serde_json::json;

use crate::support::on_both_engines;

fn test(feature: &str) -> ExperimentRow {
    ExperimentRow {
        feature_id: feature.into(),
        status: "running".into(),
        log_likelihood_ratio: 0.1 + 0.2,
        upper_bound: 3.0,
        lower_bound: -3.0,
        sample_count: 0,
        control_mrr_sum: 0.0,
        treatment_mrr_sum: 0.0,
        control_ndcg_sum: 0.0,
        treatment_ndcg_sum: 0.0,
        min_samples: 100,
        graduation_threshold: 0.03,
        started_at: 1,
        updated_at: 2,
        graduated_at: None,
        decision: "continue".into(),
        reason: Some("a \0 reason".into()),
        feature: json!({"feature_id": feature}),
        state: json!({"wealth": 0.1 + 0.2}),
        checklist: None,
        version: 0,
    }
}

fn run(id: &str, query: &str, feature: &str, created_at: i64) -> ShadowRunRow {
    ShadowRunRow {
        run_id: id.into(),
        query_id: query.into(),
        feature_id: feature.into(),
        shown: "control".into(),
        control_result_ids: vec!["a".into(), "b".into()],
        treatment_result_ids: vec!["b".into()],
        rank_correlation: Some(0.1 + 0.2),
        set_overlap: Some(0.5),
        top_result_changed: Some(true),
        order_differences: Some(2),
        mrr_delta: None,
        ndcg_delta: None,
        control_latency_ms: Some(1.5),
        treatment_latency_ms: Some(2.5),
        outcome: "open".into(),
        graded_by: None,
        failure: None,
        difference: json!({"class": "major", "query": "why"}),
        created_at,
    }
}

/// Adds a row to every table.
pub(crate) async fn fill(store: &Store) {
    assert!(store.experiments().start(&test("rrf")).await.unwrap());
    assert!(
        store
            .experiments()
            .put_shadow_run(&run("shadow-1", "q", "rrf", 5))
            .await
            .unwrap()
    );
}

on_both_engines! {
    async fn a_test_round_trips_and_is_started_once(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        assert!(!store.experiments().start(&ExperimentRow { status: "paused".into(), ..test("rrf") }).await.unwrap());
        assert!(store.experiments().start(&ExperimentRow { started_at: 0, ..test("older") }).await.unwrap());
        let expected = |row: ExperimentRow| ExperimentRow { reason: Some("a \u{FFFD} reason".into()), ..row };
        assert_eq!(store.experiments().get("rrf").await.unwrap(), Some(expected(test("rrf"))));
        assert_eq!(store.experiments().get("none").await.unwrap(), None);
        let all: Vec<String> = store.experiments().list().await.unwrap().into_iter().map(|row| row.feature_id).collect();
        assert_eq!(all, ["older", "rrf"]);
    }
}

on_both_engines! {
    async fn stale_updates_change_nothing(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let graded = |mrr_delta| [GradedRun { run_id: "shadow-1".into(), mrr_delta, ndcg_delta: 0.25, graded_by: "use".into() }];
        let before = store.experiments().state().await.unwrap();
        let first = ExperimentRow { sample_count: 1, state: json!(1), ..test("rrf") };
        assert!(store.experiments().change(&first, &graded(0.5)).await.unwrap());
        // Read at the same version, written later: refused, with all grades.
        let second = ExperimentRow { sample_count: 7, status: "rejected".into(), ..test("rrf") };
        assert!(!store.experiments().change(&second, &graded(-0.5)).await.unwrap());
        let now = store.experiments().get("rrf").await.unwrap().unwrap();
        assert_eq!((now.sample_count, now.version, now.status.as_str(), now.state), (1, 1, "running", json!(1)));
        assert!(now.updated_at > 2);
        assert_ne!(store.experiments().state().await.unwrap(), before);
        let [counted] = &store.experiments().shadow_runs("rrf", 10).await.unwrap()[..] else { panic!("one run") };
        assert_eq!((counted.mrr_delta, counted.outcome.as_str()), (Some(0.5), "counted"));
        assert_eq!(counted.graded_by.as_deref(), Some("use"));
        assert_eq!(store.experiments().count_shadow_runs("rrf").await.unwrap(), [0, 1, 0]);
    }
}

on_both_engines! {
    async fn shadow_runs_are_unique_per_query_and_feature(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        assert!(!store.experiments().put_shadow_run(&run("shadow-2", "q", "rrf", 6)).await.unwrap());
        assert!(store.experiments().put_shadow_run(&run("shadow-3", "q", "other", 7)).await.unwrap());
        assert!(store.experiments().put_shadow_run(&run("shadow-4", "q2", "rrf", 3)).await.unwrap());
        let failed = ShadowRunRow { outcome: "failed".into(), failure: Some("too slow".into()), ..run("shadow-5", "q3", "rrf", 9) };
        assert!(store.experiments().put_shadow_run(&failed).await.unwrap());
        let ids = |rows: Vec<ShadowRunRow>| rows.into_iter().map(|row| row.run_id).collect::<Vec<_>>();
        assert_eq!(ids(store.experiments().shadow_runs("rrf", 10).await.unwrap()), ["shadow-5", "shadow-1", "shadow-4"]);
        assert_eq!(ids(store.experiments().open_shadow_runs("rrf", 10).await.unwrap()), ["shadow-1", "shadow-4"]);
        assert_eq!(store.experiments().shadow_runs("rrf", 1).await.unwrap(), [failed]);
        assert_eq!(store.experiments().shadow_runs("rrf", 1).await.unwrap().len(), 1);
        assert_eq!(store.experiments().count_shadow_runs("rrf").await.unwrap(), [2, 0, 1]);
    }
}

on_both_engines! {
    /// Twenty concurrent counters, each retrying until its increment succeeds: nothing is lost, nothing counts twice.
    async fn concurrent_counters_lose_nothing(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let counters: Vec<_> = (0..20)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    loop {
                        let mut row = store.experiments().get("rrf").await.unwrap().unwrap();
                        row.sample_count += 1;
                        if store.experiments().change(&row, &[]).await.unwrap() {
                            break;
                        }
                    }
                })
            })
            .collect();
        for counter in counters {
            counter.await.unwrap();
        }
        let row = store.experiments().get("rrf").await.unwrap().unwrap();
        assert_eq!((row.sample_count, row.version), (20, 20));
    }
}

on_both_engines! {
    async fn uses_are_grouped_by_query_in_order(fixture: Fixture) {
        let store = fixture.open().await;
        let event = |id: &str, query: &str, memory: Option<&str>, kind: &str, created_at| FeedbackRow {
            feedback_id: id.into(),
            event_type: kind.into(),
            session_id: "s".into(),
            query_id: Some(query.into()),
            memory_id: memory.map(Into::into),
            rank_in_results: None,
            metadata: json!({}),
            created_at,
        };
        store.memories().put_feedback(&[
            event("1", "q", Some("a"), "validate_useful", 9),
            event("2", "q", Some("a"), "validate_not_useful", 3),
            event("3", "q", None, "re_search", 4),
            event("4", "other", Some("b"), "reference", 5),
            event("5", "third", Some("b"), "reference", 5),
        ]).await.unwrap();
        for (query, at) in [("q", 5), ("third", 6), ("unused", 7)] {
            assert!(store.experiments().put_shadow_run(&run(&format!("shadow-{query}"), query, "rrf", at)).await.unwrap());
        }
        for (before, expected) in [(5, &[][..]), (6, &["shadow-q"]), (100, &["shadow-third", "shadow-q"])] {
            let used = store.experiments().used_shadow_runs("rrf", before, 10).await.unwrap();
            assert_eq!(used.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), expected);
        }
        let found = store.experiments().use_of_queries(&["q".into(), "other".into()]).await.unwrap();
        let row = |query: &str, kind: &str, memory: &str| UseRow { query_id: query.into(), event_type: kind.into(), memory_id: memory.into() };
        assert_eq!(found, [row("q", "validate_not_useful", "a"), row("other", "reference", "b"), row("q", "validate_useful", "a")]);
        assert_eq!(store.experiments().use_of_queries(&[]).await.unwrap(), []);
    }
}
