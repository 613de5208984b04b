//! Lists that people browse: filters, orders, and pages that follow each other without gaps.

use satiety_store::Store;
use satiety_store::agent_runs::AgentRunRow;
use satiety_store::bench::{
    BenchResultRow, CaseFilter, CaseOutcomeRow, CaseSort, NoteRow, ResultKey, RunCaseRow, RunFilter,
    case_cursor,
};
use satiety_store::instances::InstanceRow;
use satiety_store::labels::{AgentRunLabelRow, ConversationLabelRow};
use satiety_store::lists::{ListFilter, ListOrder, ListSort, SortValue};
use satiety_store::research::ResearchRunRow;

use crate::conformance::{bench_result, bench_run, conversation};
use crate::support::on_both_engines;

fn result(case: &str, repeat: i64, status: &str, score: Option<f64>) -> BenchResultRow {
    BenchResultRow {
        status: status.into(),
        score,
        latency_ms: 10.0 * (repeat + 1) as f64,
        body: format!("{{\"status\": \"{status}\"}}"),
        ..bench_result(case, repeat)
    }
}

pub(crate) fn run_case(case: &str, title: &str, tags: &[&str]) -> RunCaseRow {
    RunCaseRow {
        case_id: case.into(),
        case_hash: format!("hash of {case}"),
        title: title.into(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        body: Some(format!("{{\"case_id\": \"{case}\"}}")),
    }
}

/// Two runs of four cases: `a` passes, `b` is flaky, `c` fails, `d_x` has errors; `c` passed before.
async fn fill(store: &Store) {
    for (run, c) in [("run-1", "pass"), ("run-2", "fail")] {
        store.bench().begin_run(&bench_run(run)).await.unwrap();
        let results = [
            result("a", 0, "pass", Some(1.0)),
            result("a", 1, "pass", Some(1.0)),
            result("b", 0, "pass", Some(1.0)),
            result("b", 1, "fail", Some(0.0)),
            result("c", 0, c, Some(0.25)),
            result("d_x", 0, "error", None),
        ];
        store.bench().put_results(run, &results).await.unwrap();
        let cases = [
            run_case("a", "Greet in French", &["polite", "easy"]),
            run_case("b", "Find the 100% late train", &["travel"]),
            run_case("c", "Remember an allergy", &["memory", "travel"]),
            run_case("d_x", "Divide \"by\" zero", &[]),
        ];
        store.bench().put_run_cases(run, &cases).await.unwrap();
        // Writing them again changes nothing.
        store.bench().put_run_cases(run, &cases).await.unwrap();
    }
}

async fn listed(store: &Store, filter: CaseFilter) -> Vec<String> {
    let rows = store
        .bench()
        .case_outcomes("run-2", &filter, (CaseSort::Case, false), None, 10)
        .await
        .unwrap();
    rows.into_iter().map(|row| row.case_id).collect()
}

on_both_engines! {
    async fn cases_are_filtered_by_outcome_text_and_tag(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let any = CaseFilter::default();
        assert_eq!(listed(&store, any.clone()).await, ["a", "b", "c", "d_x"]);
        for (status, expected) in [
            ("pass", vec!["a"]),
            ("not_pass", vec!["b", "c", "d_x"]),
            ("fail", vec!["b", "c"]),
            ("error", vec!["d_x"]),
            ("timeout", vec![]),
        ] {
            let filter = CaseFilter { status: Some(status.into()), ..any.clone() };
            assert_eq!(listed(&store, filter).await, expected, "{status}");
        }
        for (text, expected) in [("FRENCH", vec!["a"]), ("100%", vec!["b"]), ("_", vec!["d_x"]), ("!", vec![]), ("\"by\"", vec!["d_x"])] {
            let filter = CaseFilter { text: Some(text.into()), ..any.clone() };
            assert_eq!(listed(&store, filter).await, expected, "{text}");
        }
        for (tag, expected) in [("travel", vec!["b", "c"]), ("easy", vec!["a"]), ("eas", vec![])] {
            let filter = CaseFilter { tag: Some(tag.into()), ..any.clone() };
            assert_eq!(listed(&store, filter).await, expected, "{tag}");
        }
        assert_eq!(listed(&store, CaseFilter { flaky: true, ..any.clone() }).await, ["b"]);
        let between = CaseFilter { min_score: Some(0.2), max_score: Some(0.6), ..any.clone() };
        assert_eq!(listed(&store, between).await, ["b", "c"]);
        let changed = CaseFilter { changed_from: Some("run-1".into()), ..any.clone() };
        assert_eq!(listed(&store, changed).await, ["c"]);
        let new = CaseFilter { changed_from: Some("missing".into()), ..any };
        assert_eq!(listed(&store, new).await.len(), 4);
    }
}

on_both_engines! {
    async fn results_to_label_are_found_in_order_of_their_keys(fixture: Fixture) {
        let store = fixture.open().await;
        let bench = store.bench();
        bench.begin_run(&bench_run("run-1")).await.unwrap();
        let unlabelled = |case: &str, repeat, status: &str| BenchResultRow { human_label: None, ..result(case, repeat, status, None) };
        let labelled = BenchResultRow { human_label: Some("pass".into()), ..result("a", 0, "pass", Some(1.0)) };
        let results = [
            labelled.clone(),
            unlabelled("b", 0, "pending"),
            unlabelled("b", 1, "pending"),
            unlabelled("c", 0, "fail"),
            unlabelled("d", 0, "pending"),
            unlabelled("e", 0, "skipped"),
            unlabelled("f", 0, "error"),
        ];
        bench.put_results("run-1", &results).await.unwrap();
        bench.put_run_cases("run-1", &[run_case("a", "A", &[]), run_case("b", "B", &[])]).await.unwrap();
        let keys = |found: Vec<(ResultKey, String)>| -> Vec<String> {
            found.into_iter().map(|(key, _)| format!("{}{}", key.case_id, key.repeat)).collect()
        };
        assert_eq!(keys(bench.unlabelled_results("run-1", false, None, 0, 10).await.unwrap()), ["b0", "b1", "d0"]);
        assert_eq!(keys(bench.unlabelled_results("run-1", false, None, 2, 1).await.unwrap()), ["d0"]);
        let after = ResultKey { case_id: "b".into(), variant: results[1].key.variant.clone(), repeat: 1 };
        let rest = bench.unlabelled_results("run-1", true, Some(&after), 0, 10).await.unwrap();
        assert_eq!(keys(rest), ["c0", "d0", "f0"]);
        assert_eq!(bench.label_count("run-1").await.unwrap(), 1);
        assert_eq!(bench.labelled_results("run-1", 10).await.unwrap(), [labelled.body]);
        assert_eq!(bench.label_count("missing").await.unwrap(), 0);
        assert_eq!(bench.case_bodies("run-1", &["b", "missing"]).await.unwrap(), ["{\"case_id\": \"b\"}"]);
        assert!(bench.case_bodies("run-1", &[]).await.unwrap().is_empty());
    }
}

on_both_engines! {
    async fn pages_of_cases_follow_each_other_in_every_order(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        for sort in [CaseSort::Case, CaseSort::Passed, CaseSort::Score, CaseSort::Latency, CaseSort::Tokens] {
            for descending in [false, true] {
                let filter = CaseFilter::default();
                let all = store.bench().case_outcomes("run-2", &filter, (sort, descending), None, 10).await.unwrap();
                assert_eq!(all.len(), 4);
                let mut paged: Vec<CaseOutcomeRow> = Vec::new();
                loop {
                    let after = paged.last().map(|row| case_cursor(sort, row));
                    let page = store
                        .bench()
                        .case_outcomes("run-2", &filter, (sort, descending), after.as_ref(), 1)
                        .await
                        .unwrap();
                    if page.is_empty() {
                        break;
                    }
                    paged.extend(page);
                }
                assert_eq!(paged, all, "{sort:?} {descending}");
            }
        }
        let order = (CaseSort::Score, false);
        let by_score = store.bench().case_outcomes("run-2", &CaseFilter::default(), order, None, 10).await.unwrap();
        let ids: Vec<&str> = by_score.iter().map(|row| row.case_id.as_str()).collect();
        assert_eq!(ids, ["d_x", "c", "b", "a"]);
        let b = &by_score[2];
        assert_eq!((b.results, b.passes, b.failures, b.errors, b.token_cost), (2, 1, 1, 0, 6));
        assert_eq!((b.score, b.latency_ms), (Some(0.5), 15.0));
    }
}

on_both_engines! {
    async fn one_case_has_its_content_results_and_neighbors(fixture: Fixture) {
        let store = fixture.open().await;
        fill(&store).await;
        let bench = store.bench();
        let case = bench.run_case("run-2", "b").await.unwrap().unwrap();
        assert_eq!(case, run_case("b", "Find the 100% late train", &["travel"]));
        assert_eq!(bench.run_case("run-2", "z").await.unwrap(), None);
        assert_eq!(bench.run_cases("run-2", &["c", "z"]).await.unwrap().len(), 1);
        let results = bench.case_results("run-2", "b", 10).await.unwrap();
        let found: Vec<(i64, &str)> = results.iter().map(|row| (row.key.repeat, row.status.as_str())).collect();
        assert_eq!(found, [(0, "pass"), (1, "fail")]);
        let key = ResultKey { case_id: "b".into(), variant: String::new(), repeat: 1 };
        assert_eq!(bench.result_body("run-2", &key).await.unwrap().as_deref(), Some("{\"status\": \"fail\"}"));
        let around = bench.neighbor_cases("run-2", "b").await.unwrap();
        assert_eq!(around, (Some("a".into()), Some("c".into())));
        assert_eq!(bench.neighbor_cases("run-2", "a").await.unwrap().0, None);
        let before = bench.outcomes_of("run-1", &["c"]).await.unwrap();
        assert_eq!((before.len(), before[0].passes), (1, 1));
    }
}

on_both_engines! {
    async fn runs_are_listed_page_by_page_without_their_summaries(fixture: Fixture) {
        let store = fixture.open().await;
        for (number, suite) in ["s", "s", "Other_Suite"].into_iter().enumerate() {
            let mut run = bench_run(&format!("run-{number}"));
            run.suite_id = suite.into();
            run.started_at = i64::try_from(number).unwrap();
            store.bench().begin_run(&run).await.unwrap();
        }
        store.bench().complete_run("run-0", 9, &serde_json::json!({"x": 1}), Some(0.5)).await.unwrap();
        let ids = |rows: &[satiety_store::bench::BenchRunRow]| -> Vec<String> {
            rows.iter().map(|row| row.run_id.clone()).collect()
        };
        let all = store.bench().run_heads(None, None, 2).await.unwrap();
        assert_eq!(ids(&all), ["run-2", "run-1"]);
        let rest = store.bench().run_heads(None, Some((1, "run-1")), 2).await.unwrap();
        assert_eq!(ids(&rest), ["run-0"]);
        assert_eq!(ids(&store.bench().run_heads(Some("s"), None, 9).await.unwrap()), ["run-1", "run-0"]);
        for (filter, expected) in [
            (RunFilter { suite_id: Some("s".into()), ..RunFilter::default() }, vec!["run-1", "run-0"]),
            (RunFilter { text: Some("other_".into()), ..RunFilter::default() }, vec!["run-2"]),
            (RunFilter { complete: Some(true), ..RunFilter::default() }, vec!["run-0"]),
            (RunFilter { complete: Some(false), ..RunFilter::default() }, vec!["run-2", "run-1"]),
            (RunFilter { max_pass_rate: Some(0.5), ..RunFilter::default() }, vec!["run-0"]),
        ] {
            let page = store.bench().list_runs(&filter, ListOrder::default(), None, 9).await.unwrap();
            assert_eq!(ids(&page.rows), expected, "{filter:?}");
            assert_eq!(page.next, None);
        }
        assert_eq!(store.bench().suite_ids(9).await.unwrap(), ["Other_Suite", "s"]);
        assert_eq!(store.bench().suite_ids(1).await.unwrap(), ["Other_Suite"]);
        assert_eq!(store.bench().previous_run("s", 1).await.unwrap().as_deref(), Some("run-0"));
        assert_eq!(store.bench().summary_json("run-0").await.unwrap().as_deref(), Some("{\"x\":1}"));
    }
}

/// Reads all pages of a list.
macro_rules! paged {
    ($after:ident => $page:expr) => {{
        let mut rows = Vec::new();
        let mut next: Option<(SortValue, String)> = None;
        loop {
            let $after = next.as_ref().map(|(value, id)| (*value, id.as_str()));
            let page = $page.await.unwrap();
            rows.extend(page.rows);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        rows
    }};
}

on_both_engines! {
    async fn pages_of_sorted_lists_follow_each_other_in_every_order(fixture: Fixture) {
        let store = fixture.open().await;
        // Equal and missing values are sorted by id.
        let measures = [Some(0.5), None, Some(1.0), Some(0.5), None];
        for (number, measure) in (0_i64..).zip(measures) {
            let (mut row, rounds) = conversation(&format!("c{number}"), 1);
            (row.score, row.signal) = (measure, "STOP".into());
            store.conversations().put(&row, &rounds).await.unwrap();
            let run = AgentRunRow {
                id: format!("a{number}"),
                kind: "work".into(),
                signal: "STOP".into(),
                reason: "again".into(),
                messages: 0,
                steps: 9,
                wasted_steps: [2, 0, 5, 2, 0][usize::try_from(number).unwrap()],
                first_nudge_step: None,
                first_stop_step: None,
                created_at: number,
                updated_at: number,
            };
            store.agent_runs().append(&run, 0, &[serde_json::json!({})]).await.unwrap();
            let mut run = bench_run(&format!("r{number}"));
            run.started_at = number;
            store.bench().begin_run(&run).await.unwrap();
            if measure.is_some() {
                store.bench().complete_run(&run.run_id, number, &serde_json::json!({}), measure).await.unwrap();
            }
        }
        let highest_first = [2, 3, 0, 4, 1];
        for (sort, expected) in [(ListSort::Measure, highest_first), (ListSort::Time, [4, 3, 2, 1, 0])] {
            for ascending in [false, true] {
                let mut expected = expected.to_vec();
                if ascending {
                    expected.reverse();
                }
                let order = ListOrder { sort, ascending };
                let names = |prefix: &str| -> Vec<String> { expected.iter().map(|number| format!("{prefix}{number}")).collect() };
                for (signal, text) in [(None, None), (Some("STOP"), None), (Some("STOP"), Some("")), (None, Some(""))] {
                    let filter = ListFilter { signal: signal.map(Into::into), text: text.map(Into::into), order };
                    let found = paged!(after => store.conversations().list(&filter, after, 1));
                    assert_eq!(found.into_iter().map(|row| row.id).collect::<Vec<_>>(), names("c"), "{filter:?}");
                    let found = paged!(after => store.agent_runs().list(&filter, after, 1));
                    assert_eq!(found.into_iter().map(|row| row.id).collect::<Vec<_>>(), names("a"), "{filter:?}");
                }
                for filter in [
                    RunFilter::default(),
                    RunFilter { suite_id: Some(bench_run("").suite_id), ..RunFilter::default() },
                    RunFilter { text: Some("R".into()), ..RunFilter::default() },
                ] {
                    let found = paged!(after => store.bench().list_runs(&filter, order, after, 1));
                    assert_eq!(found.into_iter().map(|row| row.run_id).collect::<Vec<_>>(), names("r"), "{filter:?} {order:?}");
                }
            }
        }
        let order = ListOrder { sort: ListSort::Measure, ascending: true };
        let complete = RunFilter { complete: Some(true), max_pass_rate: Some(0.5), ..RunFilter::default() };
        let found = paged!(after => store.bench().list_runs(&complete, order, after, 1));
        assert_eq!(found.into_iter().map(|row| row.run_id).collect::<Vec<_>>(), ["r0", "r3"]);
    }
}

on_both_engines! {
    async fn research_runs_are_searched_and_listed_page_by_page(fixture: Fixture) {
        let store = fixture.open().await;
        assert!(store.bench().suite_ids(9).await.unwrap().is_empty());
        for (number, task) in ["Heat pumps", "Queues", "heat loss"].into_iter().enumerate() {
            let run = ResearchRunRow {
                run_id: format!("research-{number}"),
                task: task.into(),
                source: "notes".into(),
                started_at: i64::try_from(number).unwrap(),
                completed_at: None,
                settings: serde_json::json!({}),
                stop_reason: None,
                report: None,
            };
            store.research().begin(&run).await.unwrap();
        }
        let first = store.research().find_runs(None, None, 2).await.unwrap();
        let ids: Vec<&str> = first.rows.iter().map(|(row, _)| row.run_id.as_str()).collect();
        assert_eq!(ids, ["research-2", "research-1"]);
        let (at, id) = first.next.unwrap();
        let rest = store.research().find_runs(None, Some((at, &id)), 2).await.unwrap();
        assert_eq!((rest.rows[0].0.run_id.as_str(), rest.rows[0].1, rest.next), ("research-0", 0, None));
        let heat = store.research().find_runs(Some("HEAT"), None, 9).await.unwrap();
        assert_eq!(heat.rows.len(), 2);
    }
}

on_both_engines! {
    async fn conversations_and_agent_runs_are_searched_by_text_and_signal(fixture: Fixture) {
        let store = fixture.open().await;
        for (id, topic, signal) in [("c1", "Which queue?", "STOP"), ("c2", "Which cache?", "SHIP"), ("c3", "Queues again", "STOP")] {
            let (mut row, rounds) = conversation(id, 2);
            (row.topic, row.signal) = (topic.into(), signal.into());
            store.conversations().put(&row, &rounds).await.unwrap();
        }
        let filter = |signal: Option<&str>, text: Option<&str>| ListFilter {
            signal: signal.map(Into::into),
            text: text.map(Into::into),
            order: ListOrder::default(),
        };
        for (signal, text, expected) in [
            (None, None, vec!["c3", "c2", "c1"]),
            (Some("STOP"), None, vec!["c3", "c1"]),
            (None, Some("QUEUE"), vec!["c3", "c1"]),
            (Some("STOP"), Some("again"), vec!["c3"]),
            (Some("ESCALATE"), None, vec![]),
        ] {
            let page = store.conversations().list(&filter(signal, text), None, 10).await.unwrap();
            let ids: Vec<&str> = page.rows.iter().map(|row| row.id.as_str()).collect();
            assert_eq!((ids, page.next), (expected, None), "{signal:?} {text:?}");
        }
        let first = store.conversations().list(&filter(None, Some("queue")), None, 1).await.unwrap();
        assert_eq!((first.rows[0].id.as_str(), first.rows[0].rounds), ("c3", 2));
        let (at, id) = first.next.unwrap();
        let second = store.conversations().list(&filter(None, Some("queue")), Some((at, &id)), 1).await.unwrap();
        assert_eq!((second.rows[0].id.as_str(), second.next), ("c1", None));
        let run = AgentRunRow {
            id: "fix".into(),
            kind: "work".into(),
            signal: "STOP".into(),
            reason: "same test again".into(),
            messages: 0,
            steps: 1,
            wasted_steps: 0,
            first_nudge_step: None,
            first_stop_step: Some(1),
            created_at: 0,
            updated_at: 0,
        };
        store.agent_runs().append(&run, 0, &[serde_json::json!({})]).await.unwrap();
        let found = store.agent_runs().list(&filter(Some("STOP"), Some("TEST")), None, 5).await.unwrap();
        assert_eq!(found.rows.len(), 1);
        assert!(store.agent_runs().list(&filter(Some("SHIP"), None), None, 5).await.unwrap().rows.is_empty());
        assert_eq!(store.labels().agent_run_label_count().await.unwrap(), 0);
        let label = AgentRunLabelRow { run_id: "fix".into(), annotator: "ada".into(), solved: true, loop_step: None, created_at: 7 };
        store.labels().put_agent_run_label(&label).await.unwrap();
        assert_eq!(store.labels().agent_run_label_count().await.unwrap(), 1);
    }
}

on_both_engines! {
    async fn labels_and_notes_belong_to_what_they_are_about(fixture: Fixture) {
        let store = fixture.open().await;
        let conversation = satiety_store::conversations::ConversationRow {
            id: "queue".into(), topic: String::new(), profile: "default".into(), embedder: None,
            signal: "STOP".into(), score: None, report: serde_json::Value::Null,
        };
        assert!(store.conversations().begin(&conversation).await.unwrap());
        let label = |annotator: &str, signal: &str| ConversationLabelRow {
            conversation_id: "queue".into(), annotator: annotator.into(), signal: signal.into(),
            stop_round: Some(2), created_at: 7,
        };
        for (annotator, signal) in [("ada", "STOP"), ("bo", "SHIP"), ("bo", "CONTINUE")] {
            store.labels().put_conversation_label(&label(annotator, signal)).await.unwrap();
        }
        // The second label of a person replaces the first.
        assert_eq!(store.labels().agreement().await.unwrap(), (2, 1));
        assert!(store.labels().remove_conversation_label("queue", "bo").await.unwrap());
        assert_eq!(
            store.labels().conversation_labels(None, 10).await.unwrap(),
            [label("ada", "STOP")]
        );
        let missing = ConversationLabelRow { conversation_id: "none".into(), ..label("ada", "STOP") };
        assert!(store.labels().put_conversation_label(&missing).await.is_err());
        let note = NoteRow {
            note_id: "note-1".into(), run_id: "none".into(), author: "ada".into(), note: "x".into(), created_at: 1,
        };
        assert!(store.bench().put_note(&note).await.is_err());
    }
}

on_both_engines! {
    async fn instances_are_listed_while_their_heartbeat_is_recent(fixture: Fixture) {
        let store = fixture.open().await;
        let instance = InstanceRow {
            instance_id: "server-1".into(), kind: "server".into(), name: "server".into(),
            url: Some("http://127.0.0.1:8787".into()), version: "0".into(), started_at: 1, seen_at: 0,
            schema_version: None, clock_offset: None, draining_at: None,
        };
        store.instances().announce(&instance).await.unwrap();
        store.instances().announce(&instance).await.unwrap();
        let minute = 60_000_000;
        let seen = store.instances().seen_within(minute).await.unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].url, instance.url);
        assert_eq!(seen[0].schema_version, Some(satiety_store::SCHEMA_VERSION));
        // One machine, one clock: what remains is the time of the statement.
        assert!(seen[0].clock_offset.unwrap().abs() < 5_000_000, "{seen:?}");
        assert!(store.instances().seen_within(-minute).await.unwrap().is_empty());
        store.instances().remove("server-1").await.unwrap();
        assert!(store.instances().seen_within(minute).await.unwrap().is_empty());
    }
}
