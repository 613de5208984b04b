//! Golden data: marks, annotations with the resulting judgments, answers of replays, stored metrics.

use satiety_store::Store;
use satiety_store::evaluation::{EvalJudgmentRow, EvalResultRow};
use satiety_store::golden::{AnnotationRow, AnswerRow, CorpusMark};
use serde_json::json;

use crate::conformance::eval_query;
use crate::support::on_both_engines;

fn annotation(memory: &str, annotator: &str, relevance: Option<i64>, at: i64) -> AnnotationRow {
    AnnotationRow {
        query_id: "q1".into(),
        memory_id: memory.into(),
        annotator: annotator.into(),
        relevance,
        created_at: at,
    }
}

fn manual(memory: &str, relevance: i64) -> EvalJudgmentRow {
    EvalJudgmentRow {
        query_id: "q1".into(),
        memory_id: memory.into(),
        source: "manual".into(),
        relevance,
        annotator: Some("ann".into()),
        confidence: Some(1.0),
    }
}

fn answer(run: &str, query: &str, error: Option<&str>) -> AnswerRow {
    AnswerRow {
        run_id: run.into(),
        query_id: query.into(),
        system: "memory \0".into(),
        results: json!([{"memoryId": "a", "channels": {"lexical": 1}}]),
        latency_ms: error.is_none().then_some(0.1 + 0.2),
        error: error.map(Into::into),
        created_at: 7,
        detail: None,
    }
}

/// Adds a row to every table.
pub(crate) async fn fill(store: &Store) {
    let said = annotation("m \0", "ann", None, 3);
    store.evaluation().put_annotation(&said, None).await.unwrap();
    store
        .evaluation()
        .put_answer(&answer("eval-9", "q1", None))
        .await
        .unwrap();
}

on_both_engines! {
    async fn a_harvested_query_keeps_its_fields(fixture: Fixture) {
        let store = fixture.open().await;
        store.evaluation().put_corpus(&[eval_query("q1", false), eval_query("q2", false)], &[]).await.unwrap();
        assert!(store.evaluation().corpus(None, 10).await.unwrap().is_empty());
        let mark = CorpusMark { query_id: "q2".into(), category: "edge-case".into(), detail: json!({"because": "x"}) };
        store.evaluation().mark_corpus(&[mark]).await.unwrap();
        let corpus = store.evaluation().corpus(None, 10).await.unwrap();
        assert_eq!(corpus.len(), 1);
        let (row, _) = &corpus[0];
        assert_eq!((row.query_id.as_str(), row.eval_category.as_deref()), ("q2", Some("edge-case")));
        assert_eq!(row.query, eval_query("q2", false).query);
        assert_eq!(row.detail, json!({"because": "x"}));
        let log = store.evaluation().logged_queries(None, 10).await.unwrap();
        assert_eq!(log.len(), 2);
        assert!(log.iter().all(|(_, at)| *at > 0));
        assert_eq!(store.evaluation().logged_queries(Some("q1"), 10).await.unwrap().len(), 1);
    }
}

on_both_engines! {
    async fn annotations_and_judgments_change_together(fixture: Fixture) {
        let store = fixture.open().await;
        store.evaluation().put_corpus(&[eval_query("q1", true)], &[]).await.unwrap();
        store.evaluation().put_annotation(&annotation("a", "ann", Some(3), 1), Some(&manual("a", 3))).await.unwrap();
        store.evaluation().put_annotation(&annotation("a", "bo", Some(1), 2), Some(&manual("a", 1))).await.unwrap();
        store.evaluation().put_annotation(&annotation("b", "ann", None, 3), None).await.unwrap();
        // A second annotation replaces the first.
        store.evaluation().put_annotation(&annotation("a", "ann", Some(2), 4), Some(&manual("a", 1))).await.unwrap();
        let said = store.evaluation().annotations().await.unwrap();
        let told: Vec<_> = said.iter().map(|row| (row.memory_id.as_str(), row.annotator.as_str(), row.relevance)).collect();
        assert_eq!(told, [("a", "bo", Some(1)), ("b", "ann", None), ("a", "ann", Some(2))]);
        let judgments = &store.evaluation().corpus(None, 10).await.unwrap()[0].1;
        assert_eq!(judgments.len(), 1);
        assert_eq!(judgments[0].relevance, 1);
        store.evaluation().remove_annotation(&annotation("a", "bo", None, 0), Some(&manual("a", 2))).await.unwrap();
        store.evaluation().remove_annotation(&annotation("a", "ann", None, 0), None).await.unwrap();
        assert_eq!(store.evaluation().annotations().await.unwrap().len(), 1);
        assert!(store.evaluation().corpus(None, 10).await.unwrap()[0].1.is_empty());
    }
}

on_both_engines! {
    async fn answers_are_stored_one_by_one_and_runs_have_a_status(fixture: Fixture) {
        let store = fixture.open().await;
        store.evaluation().put_answer(&answer("eval-1", "q2", None)).await.unwrap();
        store.evaluation().put_answer(&answer("eval-1", "q1", Some("no \0"))).await.unwrap();
        store.evaluation().put_answer(&AnswerRow { created_at: 9, ..answer("eval-2", "q1", None) }).await.unwrap();
        let result = EvalResultRow {
            run_id: "eval-1".into(),
            run_type: "full".into(),
            figures: vec![("ndcg_at_10".into(), 0.1 + 0.2)],
            query_count: 2,
            report: json!({"system": "memory"}),
            ..EvalResultRow::default()
        };
        store.evaluation().put_result(&result).await.unwrap();
        let answers = store.evaluation().answers("eval-1").await.unwrap();
        assert_eq!(answers[0].error.as_deref(), Some("no \u{FFFD}"));
        assert_eq!(answers[1].latency_ms, Some(0.1 + 0.2));
        assert_eq!(answers[1].results, json!([{"memoryId": "a", "channels": {"lexical": 1}}]));
        let runs = store.evaluation().runs_with_answers(10).await.unwrap();
        let told: Vec<_> = runs.iter().map(|(run, _, answers, ended)| (run.as_str(), *answers, *ended)).collect();
        assert_eq!(told, [("eval-2", 1, false), ("eval-1", 2, true)]);
        let found = store.evaluation().result("eval-1").await.unwrap().unwrap();
        assert_eq!(found.figures, [("ndcg_at_10".to_owned(), 0.1 + 0.2)]);
        assert_eq!((found.query_count, &found.report), (2, &json!({"system": "memory"})));
        assert!(store.evaluation().result("eval-7").await.unwrap().is_none());
        assert_eq!(store.evaluation().results(10).await.unwrap().len(), 1);
    }
}

on_both_engines! {
    async fn golden_queries_outlive_the_log(fixture: Fixture) {
        let store = fixture.open().await;
        store.evaluation().put_corpus(&[eval_query("q1", true)], &[manual("a", 3)]).await.unwrap();
        crate::memory::fill(&store).await;
        fill(&store).await;
        let day = 24 * 60 * 60 * 1_000_000;
        store.retention().apply(satiety_store::now_micros() + 400 * day, fixture.folder.path(), false).await.unwrap();
        assert_eq!(store.evaluation().corpus(None, 10).await.unwrap()[0].1.len(), 1);
        assert_eq!(store.evaluation().annotations().await.unwrap().len(), 1);
        assert_eq!(store.evaluation().answers("eval-9").await.unwrap().len(), 1);
        assert!(store.evaluation().feedback_of_queries(&["q".into()]).await.unwrap().is_empty());
    }
}
