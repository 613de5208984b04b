//! Memories: stored completely, found by words on both engines, and removed by deletion.

use std::time::Duration;

use satiety_store::evaluation::EvalQueryRow;
use satiety_store::memory::{
    ChangeAction, ChunkRow, FeedbackRow, LinkRow, MemoryRow, ProvenanceRow, VectorRow,
};
use satiety_store::memory_tasks::TaskRow;
use satiety_store::{LoggedQuery, SessionQueryRow, Store};
use serde_json::json;

use crate::support::on_both_engines;

fn memory(id: &str, title: &str, content: &str) -> MemoryRow {
    MemoryRow {
        memory_id: id.into(),
        title: title.into(),
        content: content.into(),
        tier: "normal".into(),
        triggers: vec!["a \"phrase\"".into()],
        learnt: Vec::new(),
        folder: "store/sqlite".into(),
        kind: "note".into(),
        origin: None,
        content_hash: "h".into(),
        confidence: 0.1 + 0.2,
        validations: 0,
        created_at: 1,
        updated_at: 2,
        expires_at: None,
        change: 0,
        project: None,
        project_label: None,
        provenance: ProvenanceRow::default(),
    }
}

fn chunk(title: &str, body: &str) -> ChunkRow {
    ChunkRow {
        title: title.into(),
        body: body.into(),
        phrases: String::new(),
        vector: Some(("model:00000000:mean".into(), "AAAA".into())),
    }
}

async fn put(store: &Store, id: &str, title: &str, body: &str) {
    store
        .memories()
        .put(&memory(id, title, body), Some(&[chunk(title, body)]))
        .await
        .unwrap();
}

fn feedback(id: &str, session: &str) -> FeedbackRow {
    FeedbackRow {
        feedback_id: id.into(),
        event_type: "validate_useful".into(),
        session_id: session.into(),
        query_id: Some("q".into()),
        memory_id: Some("a".into()),
        rank_in_results: None,
        metadata: json!({"x": 1}),
        created_at: 7,
    }
}

/// Adds a row to every table.
pub(crate) async fn fill(store: &Store) {
    put(store, "a", "zero \0 title", "body").await;
    put(store, "b", "other", "body").await;
    let link = LinkRow {
        from_id: "a".into(),
        to_id: "b".into(),
        kind: "caused".into(),
    };
    assert!(store.memories().link(&link).await.unwrap());
    store
        .memories()
        .put_feedback(&[feedback("fb-1", "s")])
        .await
        .unwrap();
    assert!(store.tasks().put(&task("task-1", None)).await.unwrap());
    assert!(store.tasks().put(&task("task-2", Some(9))).await.unwrap());
    let docs: Vec<i64> = (0..10).collect();
    let minute = Duration::from_mins(1);
    let claimed = store
        .memories()
        .claim_chunks(&docs, "model", "holder", minute)
        .await;
    assert_eq!(claimed.unwrap().len(), 2);
}

on_both_engines! {
    async fn a_chunk_is_claimed_by_one_process_until_it_is_embedded(fixture: Fixture) {
        let store = fixture.open().await;
        put(&store, "a", "title", "body").await;
        put(&store, "b", "title", "body").await;
        let docs: Vec<i64> = (0..10).collect();
        let claim = async |holder: &str, lease| {
            let mut claimed = store.memories().claim_chunks(&docs, "model", holder, lease).await.unwrap();
            claimed.sort_unstable();
            claimed
        };
        let minute = Duration::from_mins(1);
        let first = claim("one", minute).await;
        assert_eq!(first.len(), 2);
        assert!(claim("two", minute).await.is_empty());
        // Another model is other work.
        let other = store.memories().claim_chunks(&docs, "other", "two", minute).await.unwrap();
        assert_eq!(other.len(), 2);
        // Releasing the claims of another process does nothing.
        store.memories().release_chunks(&first, "model", "two").await.unwrap();
        assert!(claim("two", minute).await.is_empty());
        store.memories().release_chunks(&first, "model", "one").await.unwrap();
        assert_eq!(claim("two", Duration::ZERO).await, first);
        tokio::time::sleep(Duration::from_millis(5)).await;
        // The claim of a process that was killed has expired.
        assert_eq!(claim("three", minute).await, first);
        store.memories().release_chunks(&first, "model", "three").await.unwrap();
        // A chunk with a vector is not claimed again, whatever the caller's index says.
        let row = VectorRow { doc: first[0], memory_id: "a".into(), vector: "AAAA".into() };
        store.memories().put_vectors("model", &[row]).await.unwrap();
        assert_eq!(claim("one", minute).await, first[1..]);
    }
}

fn task(id: &str, closed_at: Option<i64>) -> TaskRow {
    TaskRow {
        task_id: id.into(),
        session_id: "s".into(),
        folder: "store".into(),
        task: "mend \0 it".into(),
        query_id: closed_at.map(|_| "q".into()),
        preflight: json!({"knowledge": 40.5}),
        outcome: closed_at.map(|_| "success".into()),
        postflight: closed_at.map(|_| json!({"knowledge": 80})),
        learning_index: closed_at.map(|_| 0.1 + 0.2),
        summary: closed_at.map(|at| json!({"at": at})),
        opened_at: 3,
        closed_at,
    }
}

on_both_engines! {
    async fn open_tasks_are_overwritten_and_closed_ones_stay(fixture: Fixture) {
        let store = fixture.open().await;
        assert!(store.tasks().put(&task("t", None)).await.unwrap());
        assert!(store.tasks().put(&task("t", Some(9))).await.unwrap());
        assert!(!store.tasks().put(&task("t", None)).await.unwrap());
        let mut kept = store.tasks().get("t").await.unwrap().unwrap();
        assert!(kept.task.starts_with("mend "));
        kept.task = "mend \0 it".into();
        assert_eq!(kept, task("t", Some(9)));
        assert_eq!(store.tasks().get("other").await.unwrap(), None);
        store.tasks().put(&TaskRow { session_id: "other".into(), opened_at: 4, ..task("u", None) }).await.unwrap();
        let ids = |rows: Vec<TaskRow>| rows.into_iter().map(|row| row.task_id).collect::<Vec<_>>();
        assert_eq!(ids(store.tasks().list(None, 9).await.unwrap()), ["u", "t"]);
        assert_eq!(ids(store.tasks().list(Some("s"), 9).await.unwrap()), ["t"]);
    }
}

on_both_engines! {
    async fn sessions_are_listed_with_their_queries(fixture: Fixture) {
        let store = fixture.open().await;
        let mut first = crate::conformance::eval_query("q1", true);
        first.session_id = Some("asked".into());
        store
            .evaluation().put_corpus(&[first], &[crate::conformance::eval_judgment("q1", "m1", 2),
                crate::conformance::eval_judgment("q1", "m2", 0)])
            .await
            .unwrap();
        store.tasks().put(&task("t", None)).await.unwrap();
        let sessions = store.tasks().sessions(9).await.unwrap();
        let found: Vec<_> = sessions.iter().map(|one| (one.session_id.as_str(), one.queries)).collect();
        assert_eq!(found, [("asked", 1), ("s", 0)]);
        let [query] = &store.query_log().queries_of_session("asked", 9).await.unwrap()[..] else { panic!("one") };
        assert_eq!(query.query_id, "q1");
        let relevant = store.evaluation().relevant_memories(&["q1".into(), "q2".into()]).await.unwrap();
        assert_eq!(relevant, [("q1".to_owned(), "m1".to_owned())]);
    }
}

async fn bodies(store: &Store) -> Vec<(String, String)> {
    let rows = store.memories().chunks_after(0, 100, false).await.unwrap();
    rows.into_iter().map(|row| (row.memory_id, row.body)).collect()
}

on_both_engines! {
    async fn changes_replace_chunks_and_deletions_remove_everything(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let before = store.memories().state().await.unwrap();
        put(&store, "a", "new", "giraffe").await;
        let after = store.memories().state().await.unwrap();
        assert!(after.doc > before.doc && after.change > before.change);
        let pair = |id: &str, body: &str| (id.to_owned(), body.to_owned());
        assert_eq!(bodies(&store).await, [pair("b", "body"), pair("a", "giraffe")]);
        assert_eq!(store.memories().changes_after(before.change, 10).await.unwrap(), Some(Vec::new()));
        let pieces = store.memories().chunks_after(before.doc, 10, true).await.unwrap();
        assert_eq!(pieces.iter().map(|row| row.memory_id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(store.memories().chunks_of(&["a".into(), "zzz".into()], true).await.unwrap(), pieces);
        assert!(pieces[0].vector.is_some() && pieces[0].body == "giraffe");
        assert_eq!(store.memories().chunks_after(before.doc, 10, false).await.unwrap()[0].vector, None);
        let heads = store.memories().headers_after(before.change, 10).await.unwrap();
        let [head] = &heads[..] else { panic!("one changed") };
        assert_eq!((head.memory_id.as_str(), head.title.as_str(), head.change), ("a", "new", after.change));
        assert_eq!(store.memories().ids().await.unwrap(), ["a", "b"]);
        // Without chunks the indexed text stays unchanged.
        let mut row = store.memories().by_id(&["a".into()]).await.unwrap().remove(0);
        row.confidence = 0.9;
        store.memories().put(&row, None).await.unwrap();
        assert_eq!(bodies(&store).await.len(), 2);
        let [kept] = &store.memories().by_id(&["a".into(), "zzz".into()]).await.unwrap()[..] else { panic!("one") };
        assert_eq!((kept.confidence, kept.triggers.as_slice(), kept.created_at), (0.9, &["a \"phrase\"".to_owned()][..], 1));
        let before = store.memories().state().await.unwrap();
        assert_eq!(store.memories().remove(&["a".into(), "zzz".into()]).await.unwrap(), 1);
        assert_eq!(bodies(&store).await, [pair("b", "body")]);
        let changes = store.memories().changes_after(before.change, 10).await.unwrap().unwrap();
        assert_eq!((changes[0].memory_id.as_str(), changes[0].action), ("a", ChangeAction::Deleted));
        assert_eq!(store.memories().links(&["b".into()]).await.unwrap(), []);
        assert_eq!(store.memories().count_chunks("model:00000000:mean").await.unwrap(), (1, 1));
        store.check_integrity().await.unwrap();
    }
}

on_both_engines! {
    async fn vectors_arrive_later_and_the_log_of_changes_shows_them(fixture: Fixture) {
        let store = fixture.open().await;
        let bare = ChunkRow { vector: None, ..chunk("t", "text") };
        store.memories().put(&memory("a", "t", "text"), Some(&[bare.clone(), bare])).await.unwrap();
        let chunks = store.memories().chunks_after(0, 10, true).await.unwrap();
        assert!(chunks.iter().all(|chunk| chunk.vector.is_none()));
        let before = store.memories().state().await.unwrap();
        let vector = |doc: i64| VectorRow { doc, memory_id: "a".into(), vector: format!("v{doc}") };
        let rows = [vector(chunks[0].doc), vector(chunks[1].doc), vector(999)];
        store.memories().put_vectors("m", &rows).await.unwrap();
        let after = store.memories().chunks_after(0, 10, true).await.unwrap();
        let text = format!("v{}", after[1].doc);
        assert_eq!(after[1].vector, Some(("m".to_owned(), text)));
        let changes = store.memories().changes_after(before.change, 10).await.unwrap().unwrap();
        assert_eq!(changes.len(), 1, "one change for the memory");
        assert_eq!((changes[0].memory_id.as_str(), changes[0].action), ("a", ChangeAction::Embedded));
        // The row of the memory is unchanged, so that lists keep their order.
        assert!(store.memories().headers_after(before.change, 10).await.unwrap().is_empty());
        let mark = store.memories().history_mark(before.change).await.unwrap().unwrap();
        assert_eq!(mark.0, before.change);
        assert_eq!(store.memories().history_mark(before.change).await.unwrap(), Some(mark));
        assert_ne!(store.memories().history_mark(changes[0].change).await.unwrap().unwrap().1, mark.1);
    }
}

on_both_engines! {
    async fn a_batch_may_have_a_memory_twice_and_more_rows_than_a_statement(fixture: Fixture) {
        let store = fixture.open().await;
        let mut rows: Vec<_> = (0..450)
            .map(|number| {
                let id = format!("m{number:04}");
                (memory(&id, "t", "text"), Some(vec![chunk("t", &id)]))
            })
            .collect();
        rows.push((memory("m0003", "last", "text"), Some(vec![chunk("last", "last")])));
        store.memories().put_all(&rows).await.unwrap();
        let state = store.memories().state().await.unwrap();
        assert_eq!(state.change, 451);
        let heads = store.memories().headers_after(0, 1000).await.unwrap();
        assert_eq!(heads.len(), 450);
        let last = heads.last().unwrap();
        assert_eq!((last.memory_id.as_str(), last.title.as_str(), last.change), ("m0003", "last", 451));
        let changes: std::collections::BTreeSet<i64> = heads.iter().map(|head| head.change).collect();
        assert_eq!(changes.len(), 450, "every memory has its own change");
        assert_eq!(bodies(&store).await.len(), 100);
        assert_eq!(store.memories().by_origins(&["nowhere"]).await.unwrap(), []);
    }
}

on_both_engines! {
    async fn links_need_both_ends_and_feedback_is_read_by_session(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let mut link = LinkRow { from_id: "b".into(), to_id: "zzz".into(), kind: "supports".into() };
        assert!(!store.memories().link(&link).await.unwrap());
        link.to_id = "a".into();
        assert!(store.memories().link(&link).await.unwrap() && store.memories().link(&link).await.unwrap());
        assert_eq!(store.memories().links(&["a".into(), "b".into()]).await.unwrap().len(), 2);
        assert!(store.memories().unlink(&link).await.unwrap() && !store.memories().unlink(&link).await.unwrap());
        store.memories().put_feedback(&[feedback("fb-1", "s"), feedback("fb-2", "other")]).await.unwrap();
        assert_eq!(store.memories().feedback_of_session("s", 10).await.unwrap(), [feedback("fb-1", "s")]);
        let mut temporary = memory("t", "t", "t");
        (temporary.expires_at, temporary.origin) = (Some(5), Some("notes/t.md".into()));
        store.memories().put(&temporary, None).await.unwrap();
        assert_eq!(store.memories().expired(4).await.unwrap(), [] as [String; 0]);
        assert_eq!(store.memories().expired(5).await.unwrap(), ["t"]);
        assert_eq!(store.memories().by_origin("notes/t.md").await.unwrap().unwrap().memory_id, "t");
    }
}

fn logged(number: i64, session: &str) -> LoggedQuery {
    LoggedQuery {
        row: EvalQueryRow {
            query_id: format!("eq-{number:05}"),
            query: format!("question {number}"),
            intent: None,
            mode: Some("focused".into()),
            session_id: Some(session.into()),
            tool_name: "memory_search".into(),
            result_ids: vec!["a".into(), "b".into()],
            channel_contributions: json!({"lexical": ["a"]}),
            total_latency_ms: Some(1.5),
            fusion_weights: Some(json!({"lexical": 0.5})),
            quality_proxy_score: Some(0.5),
            trace_id: None,
            is_eval_corpus: true,
            eval_category: None,
            detail: json!({}),
        },
        at: 1_000_000 + number,
        events: vec![FeedbackRow {
            event_type: "re_search".into(),
            created_at: number,
            ..feedback(&format!("fb-{number:05}"), session)
        }],
    }
}

on_both_engines! {
    async fn logged_queries_are_readable_at_once_and_flushed_on_close(fixture: Fixture) {
        let store = fixture.open().await;
        for number in 0..3 {
            store.query_log().append(logged(number, "s")).await;
        }
        let ids = |rows: Vec<SessionQueryRow>| rows.into_iter().map(|row| row.query_id).collect::<Vec<_>>();
        let newest_first = ["eq-00002", "eq-00001", "eq-00000"];
        assert_eq!(ids(store.query_log().queries_of_session("s", 10).await.unwrap()), newest_first);
        assert_eq!(ids(store.query_log().queries_of_session("s", 2).await.unwrap()), newest_first[..2]);
        assert_eq!(store.memories().feedback_of_session("s", 10).await.unwrap().len(), 3);
        assert_eq!(store.query_log().queries_of_session("other", 10).await.unwrap(), []);
        store.query_log().flush().await;
        let state = store.query_log().state();
        assert_eq!((state.written, state.waiting, state.lost, state.problem), (3, 0, 0, None));
        assert_eq!(ids(store.query_log().queries_of_session("s", 10).await.unwrap()), newest_first);
        assert_eq!(store.memories().feedback_of_session("s", 10).await.unwrap()[0].feedback_id, "fb-00002");
        // Readers of the table see just-logged queries; another process sees them after a close.
        store.query_log().append(logged(3, "s")).await;
        assert_eq!(store.evaluation().corpus(None, 100).await.unwrap().len(), 4);
        store.query_log().append(logged(4, "s")).await;
        store.close().await;
        let store = fixture.open().await;
        assert_eq!(store.query_log().queries_of_session("s", 10).await.unwrap().len(), 5);
        assert_eq!(store.query_log().state().written, 0);
    }
}

on_both_engines! {
    async fn backpressure_loses_nothing(fixture: Fixture) {
        let store = fixture.open().await;
        let floods = (0..4).map(|flood| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..2500 {
                    store.query_log().append(logged(flood * 10_000 + number, "s")).await;
                    assert!(store.query_log().state().waiting <= 4096);
                }
            })
        });
        for flood in floods.collect::<Vec<_>>() {
            flood.await.unwrap();
        }
        store.query_log().flush().await;
        let state = store.query_log().state();
        assert_eq!((state.written, state.waiting, state.lost), (10_000, 0, 0));
    }
}

on_both_engines! {
    async fn a_memory_keeps_its_project(fixture: Fixture) {
        let store = fixture.open().await;
        let row = MemoryRow {
            project: Some("project-0123456789abcdef".into()),
            project_label: Some("shop".into()),
            ..memory("m", "Title", "Text.")
        };
        store.memories().put(&row, Some(&[chunk("Title", "Text.")])).await.unwrap();
        let read = store.memories().by_id(&["m".to_owned()]).await.unwrap();
        assert_eq!((&read[0].project, &read[0].project_label), (&row.project, &row.project_label));
        let heads = store.memories().headers_after(0, 10).await.unwrap();
        assert_eq!((&heads[0].project, &heads[0].project_label), (&row.project, &row.project_label));
        store.memories().put(&memory("m", "Title", "Text."), None).await.unwrap();
        assert_eq!(store.memories().by_id(&["m".to_owned()]).await.unwrap()[0].project, None);
    }
}

on_both_engines! {
    async fn migrated_memories_have_no_project(fixture: Fixture) {
        let old = Store::open_with(&fixture.url, satiety_store::Migrate::UpTo(13)).await.unwrap();
        old.close().await;
        let insert = "INSERT INTO memories (memory_id, title, content, tier, triggers, learnt, folder, kind, origin,
            content_hash, confidence, validations, created_at, updated_at, expires_at, change)
            VALUES ('m', 'Old', 'Text.', 'constitutional', '[]', '[]', '', 'note', NULL, 'h', 0.5, 0, 1, 1, NULL, 1)";
        crate::migrations::raw(&fixture.url_text, insert).await;
        let store = fixture.open().await;
        let read = store.memories().by_id(&["m".to_owned()]).await.unwrap();
        assert_eq!((read[0].tier.as_str(), &read[0].project), ("constitutional", &None));
    }
}

on_both_engines! {
    async fn an_import_can_omit_rules(fixture: Fixture) {
        let source = crate::support::Fixture::sqlite();
        let first = source.open().await;
        let store = fixture.open().await;
        for tier in ["constitutional", " Constitutional"] {
            let rule = MemoryRow { tier: tier.into(), ..memory("r", "Rule", "Text.") };
            first.memories().put(&rule, None).await.unwrap();
            let mut export = Vec::new();
            first.export(&mut export).await.unwrap();
            let error = store.import_without_rules(&mut export.as_slice()).await.unwrap_err();
            assert!(matches!(error, satiety_store::StoreError::ConstitutionalMemory { .. }), "{error}");
            assert_eq!(store.memories().ids().await.unwrap(), Vec::<String>::new());
        }
        first.memories().put(&memory("r", "Rule", "Text."), None).await.unwrap();
        let mut export = Vec::new();
        first.export(&mut export).await.unwrap();
        // An export from before projects lacks the columns.
        let text = String::from_utf8(export).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut older = lines[..lines.len() - 1].join("\n");
        for columns in [
            ",\"project\":null,\"project_label\":null",
            "\"author\":null,",
            ",\"tags\":\"[]\"",
            ",\"observed_at\":null",
            ",\"valid_from\":null,\"valid_until\":null",
        ] {
            assert!(older.contains(columns), "{columns}");
            older = older.replace(columns, "");
        }
        let older = format!("{older}\n");
        let end = lines[lines.len() - 1];
        let hash = blake3::hash(older.as_bytes()).to_hex().to_string();
        let mut end: serde_json::Value = serde_json::from_str(end).unwrap();
        end["end"]["blake3"] = hash.into();
        let older = format!("{older}{end}\n");
        store.import_without_rules(&mut older.as_bytes()).await.unwrap();
        assert_eq!(store.memories().ids().await.unwrap(), ["r"]);
    }
}

on_both_engines! {
    async fn a_memory_keeps_its_provenance_and_is_found_by_its_hash(fixture: Fixture) {
        let store = fixture.open().await;
        let provenance = ProvenanceRow {
            author: Some("Ada".into()),
            tags: vec!["billing".into(), "a \"tag\"".into()],
            observed_at: Some(-5),
            valid_from: Some(1),
            valid_until: Some(i64::MAX),
        };
        let row = MemoryRow { provenance: provenance.clone(), ..memory("m", "Title", "Text.") };
        store.memories().put(&row, Some(&[chunk("Title", "Text.")])).await.unwrap();
        assert_eq!(store.memories().by_id(&["m".to_owned()]).await.unwrap()[0].provenance, provenance);
        let heads = store.memories().headers_after(0, 10).await.unwrap();
        assert_eq!((&heads[0].provenance, heads[0].created_at), (&provenance, 1));
        let other = MemoryRow { content_hash: "other".into(), ..memory("n", "Title", "Text.") };
        store.memories().put(&other, None).await.unwrap();
        store.memories().put(&memory("o", "Title", "Text."), None).await.unwrap();
        let same: Vec<String> =
            store.memories().by_hash("h", 10).await.unwrap().into_iter().map(|row| row.memory_id).collect();
        assert_eq!(same, ["m", "o"]);
        assert_eq!(store.memories().by_hash("h", 1).await.unwrap().len(), 1);
        assert_eq!(store.memories().by_hash("unknown", 1).await.unwrap(), []);
    }
}

on_both_engines! {
    async fn memories_of_an_older_schema_have_no_provenance(fixture: Fixture) {
        let old = Store::open_with(&fixture.url, satiety_store::Migrate::UpTo(17)).await.unwrap();
        old.close().await;
        let insert = "INSERT INTO memories (memory_id, title, content, tier, triggers, learnt, folder, kind, origin,
            content_hash, confidence, validations, created_at, updated_at, expires_at, change)
            VALUES ('m', 'Old', 'Text.', 'normal', '[]', '[]', '', 'note', NULL, 'h', 0.5, 0, 1, 1, NULL, 1)";
        crate::migrations::raw(&fixture.url_text, insert).await;
        let store = fixture.open().await;
        let read = store.memories().by_id(&["m".to_owned()]).await.unwrap();
        assert_eq!(read[0].provenance, ProvenanceRow::default());
    }
}

on_both_engines! {
    async fn all_links_are_read_page_by_page(fixture: Fixture) {
        let store = fixture.open().await;
        for id in ["a", "b", "c"] {
            put(&store, id, "Title", "Text.").await;
        }
        let mut links = Vec::new();
        for (from, to, kind) in [("a", "b", "caused"), ("a", "b", "supports"), ("a", "c", "caused"), ("b", "a", "caused")] {
            let link = LinkRow { from_id: from.into(), to_id: to.into(), kind: kind.into() };
            store.memories().link(&link).await.unwrap();
            links.push(link);
        }
        let mut read: Vec<LinkRow> = Vec::new();
        loop {
            let page = store.memories().links_after(read.last(), 1).await.unwrap();
            if page.is_empty() {
                break;
            }
            read.extend(page);
        }
        assert_eq!(read, links);
    }
}
