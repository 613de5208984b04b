//! Behavior that every engine must share.

use std::collections::BTreeMap;

use satiety_store::bench::{BaselineRow, BenchResultRow, BenchRunRow, ResultKey};
use satiety_store::conversations::{ConversationRow, RoundRow};
use satiety_store::evaluation::{EvalJudgmentRow, EvalQueryRow, EvalResultRow};
use satiety_store::journal::Event;
use satiety_store::research::{ResearchRoundRow, ResearchRunRow};
use satiety_store::{Kind, TABLES, now_micros};
use serde_json::{Value, json};

use crate::support::on_both_engines;

on_both_engines! {
    async fn events_come_back_newest_first(fixture: Fixture) {
        let store = fixture.open().await;
        for number in 0..25 {
            store.journal().append(Event::now("test.event", format!("s{}", number % 2), json!({"number": number}))).await.unwrap();
        }
        store.journal().append(Event::now("test.other", "s0", json!({"number": 25}))).await.unwrap();
        let events = store.journal().latest("test.event", 20).await.unwrap();
        let seen: Vec<i64> = events.iter().map(|event| event.body["number"].as_i64().unwrap()).collect();
        assert_eq!(seen, (5..25).rev().collect::<Vec<_>>());
        assert_eq!(events[0].subject, "s0");
    }
}

on_both_engines! {
    async fn duplicate_events_are_stored_once(fixture: Fixture) {
        let store = fixture.open().await;
        let event = Event::now("test.event", "s", json!({"text": "quoted \" and \u{1F98A} and \0"}));
        store.journal().append_all(vec![event.clone(), event.clone()]).await.unwrap();
        store.journal().append(event.clone()).await.unwrap();
        assert_eq!(store.journal().latest("test.event", 10).await.unwrap(), [event]);
        // Batches that are long enough to be copied, too.
        let many: Vec<Event> = (0..40).map(|number| Event::now("test.many", "s", json!(number))).collect();
        for _ in 0..2 {
            store.journal().append_all(many.clone()).await.unwrap();
        }
        assert_eq!(store.journal().latest("test.many", 99).await.unwrap().len(), 40);
    }
}

on_both_engines! {
    async fn concurrent_callers_share_commits_and_lose_nothing(fixture: Fixture) {
        let store = fixture.open().await;
        let tasks: Vec<_> = (0..50)
            .map(|task| {
                let store = store.clone();
                tokio::spawn(async move {
                    for number in 0..20 {
                        store.journal().append(Event::now("test.event", format!("t{task}"), json!(number))).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(store.journal().latest("test.event", 2000).await.unwrap().len(), 1000);
    }
}

on_both_engines! {
    async fn records_are_replaced_and_expire(fixture: Fixture) {
        let store = fixture.open().await;
        for key in ["a/2", "A/2"] {
            store.records().put(key, "1.0.0", &json!({"key": key}), None).await.unwrap();
        }
        store.records().put("a/2", "1.1.0", &json!({"key": "new"}), None).await.unwrap();
        store.records().put("a/gone", "1", &json!(1), Some(satiety_store::now_micros() - 1)).await.unwrap();
        let second = store.records().get("a/2").await.unwrap().unwrap();
        assert_eq!((second.schema_version.as_str(), &second.body), ("1.1.0", &json!({"key": "new"})));
        assert!(second.created_at <= second.updated_at);
        assert!(store.records().get("a/gone").await.unwrap().is_none());
        assert_eq!(store.records().get("A/2").await.unwrap().unwrap().body, json!({"key": "A/2"}));
        assert!(store.records().get("a/1").await.unwrap().is_none());
    }
}

on_both_engines! {
    async fn a_conversation_is_replaced_completely(fixture: Fixture) {
        let store = fixture.open().await;
        let (conversation, rounds) = conversation("c-1", 3);
        store.conversations().put(&conversation, &rounds).await.unwrap();
        let shorter = ConversationRow { signal: "SHIP".into(), score: None, ..conversation };
        store.conversations().put(&shorter, &rounds[..2]).await.unwrap();
        assert_eq!(store.conversations().get("c-1").await.unwrap(), Some((shorter, rounds[..2].to_vec())));
        assert_eq!(store.conversations().get("other").await.unwrap(), None);
    }
}

on_both_engines! {
    async fn text_is_sanitized_for_both_engines(fixture: Fixture) {
        let store = fixture.open().await;
        let (mut conversation, rounds) = conversation("c\0d", 1);
        conversation.topic = "zero \0 byte".into();
        store.conversations().put(&conversation, &rounds).await.unwrap();
        let (back, _) = store.conversations().get("c\0d").await.unwrap().unwrap();
        assert_eq!((back.id.as_str(), back.topic.as_str()), ("c\u{FFFD}d", "zero \u{FFFD} byte"));
        store.records().put("k\0", "1", &json!("\0"), None).await.unwrap();
        assert_eq!(store.records().get("k\0").await.unwrap().unwrap().body, json!("\0"));
        store.journal().append(Event::now("k\0", "s\0", json!({"\0": 1}))).await.unwrap();
        assert_eq!(store.journal().latest("k\0", 9).await.unwrap().len(), 1);
    }
}

on_both_engines! {
    async fn the_catalogue_lists_every_table_and_column(fixture: Fixture) {
        fixture.open().await.close().await;
        let mut listed: BTreeMap<(String, String), (Kind, bool)> = BTreeMap::new();
        for table in TABLES {
            for column in table.columns {
                listed.insert((table.name.into(), column.name.into()), (column.kind, column.optional));
            }
        }
        assert_eq!(columns_in_engine(&fixture.url_text).await, listed);
    }
}

/// Queries the engine through a connection that does not use the store.
async fn columns_in_engine(url: &str) -> BTreeMap<(String, String), (Kind, bool)> {
    let rows: Vec<(String, String, String, bool)> = if let Some(path) = url.strip_prefix("sqlite:") {
        let pool = sqlx::SqlitePool::connect(&format!("sqlite:{path}"))
            .await
            .unwrap();
        sqlx::query_as(
            "SELECT m.name, c.name, lower(c.type), c.\"notnull\" = 0 FROM sqlite_master m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
        )
        .fetch_all(&pool)
        .await
        .unwrap()
    } else {
        let pool = sqlx::PgPool::connect(url).await.unwrap();
        sqlx::query_as(
            "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES'
             FROM information_schema.columns WHERE table_schema = current_schema()
             AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition)",
        )
        .fetch_all(&pool)
        .await
        .unwrap()
    };
    rows.into_iter()
        .filter(|(table, ..)| !table.starts_with("satiety_"))
        .map(|(table, column, kind, optional)| {
            let kind = match kind.as_str() {
                "text" => Kind::Text,
                "bigint" => Kind::Integer,
                "double precision" => Kind::Float,
                "boolean" => Kind::Boolean,
                other => {
                    panic!("{table}.{column} has type {other}, which does not mean the same on both engines")
                }
            };
            ((table, column), (kind, optional))
        })
        .collect()
}

on_both_engines! {
    async fn a_corpus_round_trips_with_its_judgments(fixture: Fixture) {
        let store = fixture.open().await;
        let queries: Vec<_> = ["b", "a", "c", "log-1"].map(|id| eval_query(id, !id.starts_with("log"))).into();
        let judgments: Vec<_> = [("a", "m2", 3), ("a", "m1", 0), ("c", "m1", 1), ("log-1", "m9", 2), ("aa", "m1", 2)]
            .map(|(query, memory, grade)| eval_judgment(query, memory, grade))
            .into();
        store.evaluation().put_corpus(&queries, &judgments).await.unwrap();
        // Saving again changes only the grade that differs.
        let again = eval_judgment("c", "m1", 2);
        store.evaluation().put_corpus(&queries, std::slice::from_ref(&again)).await.unwrap();
        let first = store.evaluation().corpus(None, 2).await.unwrap();
        assert_eq!(first.iter().map(|(query, _)| query.query_id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(first[0].0, queries[1]);
        assert_eq!(first[0].1, [judgments[1].clone(), judgments[0].clone()]);
        assert!(first[1].1.is_empty());
        // Queries that were only logged are not in the corpus.
        let rest = store.evaluation().corpus(Some("b"), 10).await.unwrap();
        assert_eq!(rest, [(queries[2].clone(), vec![again])]);
    }
}

on_both_engines! {
    async fn metrics_of_a_run_are_stored_once(fixture: Fixture) {
        let store = fixture.open().await;
        let row = EvalResultRow {
            run_id: "eval-1".into(),
            run_type: "full".into(),
            figures: vec![("mrr_at_5".into(), 0.25), ("p_value".into(), 0.04)],
            query_count: 7,
            is_significant: Some(true),
            ..EvalResultRow::default()
        };
        store.evaluation().put_result(&row).await.unwrap();
        store.evaluation().put_result(&row).await.unwrap();
        let mut bytes = Vec::new();
        store.export(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("\"table\":\"eval_results\"")).collect();
        assert_eq!(lines.len(), 1);
        for part in ["\"mrr_at_5\":0.25", "\"p_value\":0.04", "\"mrr_at_10\":null", "\"is_significant\":true"] {
            assert!(lines[0].contains(part), "{}", lines[0]);
        }
    }
}

on_both_engines! {
    async fn results_of_a_run_are_written_once_and_read_in_order(fixture: Fixture) {
        let store = fixture.open().await;
        let run = bench_run("run-1");
        store.bench().begin_run(&run).await.unwrap();
        // Starting a resumed run again changes nothing.
        store.bench().begin_run(&BenchRunRow { target: "other".into(), ..run.clone() }).await.unwrap();
        assert_eq!(store.bench().run("run-1").await.unwrap(), Some(run.clone()));
        let results: Vec<_> = [("b", 0), ("a", 10), ("a", 2), ("B", 0)].map(|(case, repeat)| bench_result(case, repeat)).into();
        store.bench().put_results("run-1", &results).await.unwrap();
        let again = BenchResultRow { status: "fail".into(), body: "{}".into(), ..results[0].clone() };
        store.bench().put_results("run-1", std::slice::from_ref(&again)).await.unwrap();
        let first = store.bench().result_bodies("run-1", None, 3).await.unwrap();
        let places = |rows: &[(ResultKey, String)]| -> Vec<(String, i64)> {
            rows.iter().map(|(key, _)| (key.case_id.clone(), key.repeat)).collect()
        };
        assert_eq!(places(&first), [("B".into(), 0), ("a".into(), 2), ("a".into(), 10)]);
        let rest = store.bench().result_bodies("run-1", Some(&first[2].0), 3).await.unwrap();
        assert_eq!((places(&rest), rest[0].1.as_str()), (vec![("b".into(), 0)], results[0].body.as_str()));
        assert!(store.bench().replace_result("run-1", &again).await.unwrap());
        assert!(!store.bench().replace_result("run-2", &again).await.unwrap());
        assert_eq!(store.bench().result_bodies("run-1", Some(&first[2].0), 3).await.unwrap()[0].1, "{}");
        assert_eq!(store.bench().result_keys("run-1").await.unwrap().len(), 4);
        store.bench().complete_run("run-1", 9, &json!({"x": 1}), Some(0.5)).await.unwrap();
        let done = store.bench().runs(Some("s"), 10).await.unwrap();
        assert_eq!((done[0].completed_at, done[0].pass_rate, done[0].summary.clone()), (Some(9), Some(0.5), Some(json!({"x": 1}))));
        assert!(store.bench().runs(Some("other"), 10).await.unwrap().is_empty());
        assert_eq!(store.bench().runs(None, 10).await.unwrap().len(), 1);
        // A summary without an interval has none; labels complete a run again.
        assert!(store.bench().pass_intervals(&["run-1", "run-2"]).await.unwrap().is_empty());
        let summary = json!({"pass_rate_interval": {"low": 0.25, "high": 0.75, "confidence": 0.95}});
        store.bench().complete_run("run-1", 9, &summary, Some(0.5)).await.unwrap();
        let intervals = store.bench().pass_intervals(&["run-1", "run-2"]).await.unwrap();
        assert_eq!(intervals, [("run-1".to_owned(), 0.25, 0.75)]);
        assert_eq!(store.bench().existing_runs(&["run-2", "run-1"]).await.unwrap(), ["run-1"]);
        assert!(store.bench().existing_runs(&[]).await.unwrap().is_empty());
    }
}

on_both_engines! {
    async fn the_latest_baseline_is_active_and_the_first_answer_stays(fixture: Fixture) {
        let store = fixture.open().await;
        for (id, at) in [("baseline-1", 1), ("baseline-2", 2)] {
            let row = BaselineRow {
                baseline_id: id.into(),
                suite_id: "s".into(),
                run_id: format!("run of {id}"),
                accepted_by: "me".into(),
                reason: "why".into(),
                accepted_at: at,
            };
            store.bench().put_baseline(&row).await.unwrap();
        }
        let found = store.bench().baselines("s", 10).await.unwrap();
        assert_eq!(found.iter().map(|row| row.run_id.as_str()).collect::<Vec<_>>(), ["run of baseline-2", "run of baseline-1"]);
        store.bench().put_response("k", "first").await.unwrap();
        store.bench().put_response("k", "second").await.unwrap();
        assert_eq!(store.bench().response("k").await.unwrap().as_deref(), Some("first"));
        assert_eq!(store.bench().response("other").await.unwrap(), None);
    }
}

pub(crate) fn research_run(id: &str) -> ResearchRunRow {
    ResearchRunRow {
        run_id: id.into(),
        task: "how do heated wings bend \0".into(),
        source: "local:docs".into(),
        started_at: 5,
        completed_at: None,
        settings: json!({"epsilon": 0.15}),
        stop_reason: None,
        report: None,
    }
}

pub(crate) fn research_round(round: i64) -> ResearchRoundRow {
    ResearchRoundRow {
        round,
        query: "heated wings".into(),
        reason: "novel".into(),
        accepted: true,
        novelty: Some(0.1 + 0.2),
        body: "{}".into(),
    }
}

on_both_engines! {
    async fn research_rounds_are_stored_once_and_in_order(fixture: Fixture) {
        let store = fixture.open().await;
        let run = research_run("r");
        store.research().begin(&run).await.unwrap();
        store.research().begin(&ResearchRunRow { task: "other".into(), ..run.clone() }).await.unwrap();
        for round in [2, 1, 3] {
            store.research().put_round("r", &research_round(round)).await.unwrap();
        }
        let changed = ResearchRoundRow { accepted: false, ..research_round(2) };
        store.research().put_round("r", &changed).await.unwrap();
        let rounds = store.research().rounds("r").await.unwrap();
        assert_eq!(rounds, [research_round(1), research_round(2), research_round(3)]);
        assert_eq!(store.research().unfinished().await.unwrap().unwrap().run_id, "r");
        store.research().complete("r", 9, "cap", &json!({"a": 1})).await.unwrap();
        assert!(store.research().unfinished().await.unwrap().is_none());
        let found = store.research().run("r").await.unwrap().unwrap();
        assert_eq!(found.stop_reason.as_deref(), Some("cap"));
        assert_eq!(found.task, "how do heated wings bend \u{FFFD}");
        assert!(store.research().run("missing").await.unwrap().is_none());
    }
}

on_both_engines! {
    async fn searches_are_cached_until_they_expire(fixture: Fixture) {
        let store = fixture.open().await;
        store.research().cache_search("k", "s", "q", "one").await.unwrap();
        store.research().cache_search("k", "s", "q", "two").await.unwrap();
        let now = now_micros();
        assert_eq!(store.research().cached_search("k", now - 60_000_000).await.unwrap().as_deref(), Some("two"));
        assert_eq!(store.research().cached_search("k", now + 60_000_000).await.unwrap(), None);
        assert_eq!(store.research().cached_search("other", 0).await.unwrap(), None);
    }
}

pub(crate) fn bench_run(id: &str) -> BenchRunRow {
    BenchRunRow {
        run_id: id.into(),
        suite_id: "s".into(),
        suite_hash: "h".into(),
        target: "t".into(),
        started_at: 5,
        completed_at: None,
        config_snapshot: json!({"seed": 1}),
        summary: None,
        pass_rate: None,
    }
}

pub(crate) fn bench_result(case: &str, repeat: i64) -> BenchResultRow {
    BenchResultRow {
        key: ResultKey {
            case_id: case.into(),
            variant: String::new(),
            repeat,
        },
        status: "pass".into(),
        score: Some(1.0),
        latency_ms: 0.1 + 0.2,
        token_cost: 3,
        human_label: None,
        body: format!("{{\"case_id\": \"{case}\"}}"),
    }
}

pub(crate) fn eval_query(id: &str, in_corpus: bool) -> EvalQueryRow {
    EvalQueryRow {
        query_id: id.into(),
        query: format!("what about {id}?"),
        intent: Some("understand".into()),
        mode: None,
        session_id: Some("s-1".into()),
        tool_name: "memory_search".into(),
        result_ids: vec!["m1".into(), "m2".into()],
        channel_contributions: json!({"vector": ["m1"]}),
        total_latency_ms: Some(1.5),
        fusion_weights: Some(json!({"vector": 0.5})),
        quality_proxy_score: None,
        trace_id: None,
        is_eval_corpus: in_corpus,
        eval_category: in_corpus.then(|| "semantic-search".into()),
        detail: json!({"turn": 3}),
    }
}

pub(crate) fn eval_judgment(query: &str, memory: &str, relevance: i64) -> EvalJudgmentRow {
    EvalJudgmentRow {
        query_id: query.into(),
        memory_id: memory.into(),
        source: "manual".into(),
        relevance,
        annotator: Some("ann".into()),
        confidence: Some(0.9),
    }
}

pub(crate) fn conversation(id: &str, rounds: i64) -> (ConversationRow, Vec<RoundRow>) {
    let conversation = ConversationRow {
        id: id.into(),
        topic: "Which queue?".into(),
        profile: "default".into(),
        embedder: None,
        signal: "CONTINUE".into(),
        score: Some(0.1 + 0.2),
        report: json!({"score": 0.1 + 0.2, "rounds": rounds}),
    };
    let rounds = (1..=rounds)
        .map(|position| RoundRow {
            position,
            agent: (position % 2 == 0).then(|| "planner".into()),
            signal: "CONTINUE".into(),
            novelty: Some(1.0 / position as f64),
            readiness: None,
            body: json!({"claims": [format!("claim {position}"), Value::Null]}),
        })
        .collect();
    (conversation, rounds)
}
