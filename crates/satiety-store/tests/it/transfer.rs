//! Export, import and backup: complete and atomic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use satiety_store::bench::{AblationRow, BaselineRow, GateRow, NoteRow};
use satiety_store::conversations::ConversationRow;
use satiety_store::evaluation::EvalResultRow;
use satiety_store::instances::InstanceRow;
use satiety_store::journal::Event;
use satiety_store::labels::{AgentRunLabelRow, ConversationLabelRow};
use satiety_store::partitioned::{DAY_MICROS, DayCount, RowSink};
use satiety_store::retention::Rule;
use satiety_store::transfer::BackupKind;
use satiety_store::{Store, StoreError, TABLES, Table};
use serde_json::json;

use crate::conformance::{
    bench_result, bench_run, conversation, eval_judgment, eval_query, research_round, research_run,
};
use crate::support::{Fixture, on_both_engines};

/// Adds rows to every table, with values that are easily damaged in transfer.
async fn populate(store: &Store) {
    let awkward = json!({"text": "a \" b \\ c \n d \u{2028} \u{1F9A8} \0", "float": 0.1 + 0.2, "tiny": 5e-324,
        "big": 9_007_199_254_740_993_i64, "nested": {"null": null, "list": [1, 2.5, "x", false]}});
    for number in 0..1203 {
        store
            .journal()
            .append(Event::now(
                "test.event",
                format!("subject {number}"),
                awkward.clone(),
            ))
            .await
            .unwrap();
    }
    store.records().put("a/b", "2.1.0", &awkward, None).await.unwrap();
    store
        .records()
        .put("a/c", "1", &json!(null), Some(i64::MAX))
        .await
        .unwrap();
    store
        .retention()
        .set_rule(&"journal=30d:delete".parse::<Rule>().unwrap())
        .await
        .unwrap();
    for number in 0..3 {
        let (mut conversation, rounds) = conversation(&format!("c-{number}"), 4);
        conversation.score = [Some(f64::MIN_POSITIVE), None, Some(f64::INFINITY)][number];
        conversation.embedder = (number == 1).then(|| "minilm".to_owned());
        store
            .conversations()
            .put(
                &ConversationRow {
                    report: awkward.clone(),
                    ..conversation
                },
                &rounds,
            )
            .await
            .unwrap();
    }
    fill_evaluation(store).await;
    fill_bench(store).await;
    crate::harness::fill(store).await;
    crate::eviction::fill(store).await;
    fill_research(store).await;
    crate::memory::fill(store).await;
    crate::golden::fill(store).await;
    crate::server::fill(store).await;
    crate::experiment::fill(store).await;
    crate::work::fill(store).await;
    crate::rates::fill(store).await;
    crate::tenants::fill(store).await;
    fill_agent_runs(store).await;
    fill_annotations(store).await;
    crate::hook_sessions::fill(store).await;
}

async fn fill_agent_runs(store: &Store) {
    let run = satiety_store::agent_runs::AgentRunRow {
        id: "agent-1".into(),
        kind: "work".into(),
        signal: "NUDGE".into(),
        reason: "repeats \0".into(),
        messages: 0,
        steps: 2,
        wasted_steps: 1,
        first_nudge_step: Some(2),
        first_stop_step: None,
        created_at: 0,
        updated_at: 0,
    };
    let messages = [
        json!({"role": "assistant", "content": "a \0 b"}),
        json!({"role": "user"}),
    ];
    assert!(store.agent_runs().append(&run, 0, &messages).await.unwrap());
}

/// What people say about a run, a conversation and an agent's run, and a server that is running.
async fn fill_annotations(store: &Store) {
    let note = NoteRow {
        note_id: "note-1".into(),
        run_id: "run-1".into(),
        author: "me".into(),
        note: "slow \0 disk".into(),
        created_at: 1,
    };
    store.bench().put_note(&note).await.unwrap();
    let label = ConversationLabelRow {
        conversation_id: "c-1".into(),
        annotator: "me".into(),
        signal: "STOP".into(),
        stop_round: None,
        created_at: 2,
    };
    store.labels().put_conversation_label(&label).await.unwrap();
    let label = AgentRunLabelRow {
        run_id: "agent-1".into(),
        annotator: "me".into(),
        solved: true,
        loop_step: Some(2),
        created_at: 3,
    };
    store.labels().put_agent_run_label(&label).await.unwrap();
    let instance = InstanceRow {
        instance_id: "server-1".into(),
        kind: "server".into(),
        name: "server".into(),
        url: None,
        version: "0".into(),
        started_at: 1,
        seen_at: 0,
        schema_version: None,
        clock_offset: None,
        draining_at: Some(5),
    };
    store.instances().announce(&instance).await.unwrap();
}

async fn fill_evaluation(store: &Store) {
    let queries = [eval_query("q1", true), eval_query("q2", false)];
    let judgments = [eval_judgment("q1", "m1", 3), eval_judgment("q1", "m2", -1)];
    store.evaluation().put_corpus(&queries, &judgments).await.unwrap();
    let result = EvalResultRow {
        run_id: "eval-1".into(),
        run_type: "full".into(),
        figures: vec![("mrr_at_5".into(), 0.1 + 0.2)],
        is_significant: Some(false),
        ..EvalResultRow::default()
    };
    store.evaluation().put_result(&result).await.unwrap();
}

async fn fill_research(store: &Store) {
    store.research().begin(&research_run("research-1")).await.unwrap();
    let round = research_round(1);
    store.research().put_round("research-1", &round).await.unwrap();
    let report = json!({"unseen": 0.1 + 0.2, "task": "a \0 b"});
    store
        .research()
        .complete("research-1", 9, "saturated", &report)
        .await
        .unwrap();
    store
        .research()
        .cache_search("key", "local:docs", "wings \0", "[]")
        .await
        .unwrap();
}

async fn fill_bench(store: &Store) {
    let run = bench_run("run-1");
    store.bench().begin_run(&run).await.unwrap();
    let results = [bench_result("a", 0), bench_result("a", 1), bench_result("b\0", 0)];
    store.bench().put_results("run-1", &results).await.unwrap();
    let cases = [crate::browse::run_case("a", "Greet \0", &["polite"])];
    store.bench().put_run_cases("run-1", &cases).await.unwrap();
    store
        .bench()
        .complete_run("run-1", 7, &json!({"pass_rate": 0.1 + 0.2}), Some(0.1 + 0.2))
        .await
        .unwrap();
    let baseline = BaselineRow {
        baseline_id: "baseline-1".into(),
        suite_id: "s".into(),
        run_id: "run-1".into(),
        accepted_by: "me".into(),
        reason: "first".into(),
        accepted_at: 3,
    };
    store.bench().put_baseline(&baseline).await.unwrap();
    let gate = GateRow {
        gate_id: "gate-1".into(),
        suite_id: "s".into(),
        baseline_run: "run-0".into(),
        candidate_run: "run-1".into(),
        verdict: "regression".into(),
        accepted_by: Some("me".into()),
        accepted_why: None,
        decided_at: 4,
        report: json!({"reasons": ["x"]}),
    };
    store.bench().put_gate(&gate).await.unwrap();
    let ablation = AblationRow {
        ablation_id: "ablation-1".into(),
        tag: "eviction".into(),
        decided_at: 5,
        report: json!({}),
    };
    store.bench().put_ablation(&ablation).await.unwrap();
    store.bench().put_response("key", "{}").await.unwrap();
}

async fn export(store: &Store) -> String {
    let mut bytes = Vec::new();
    store.export(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

async fn import(store: &Store, text: &str) -> Result<u64, StoreError> {
    store.import(&mut text.as_bytes()).await.map(|moved| moved.rows)
}

/// Only the rows: the first and the last line contain times and hashes.
fn rows(export: &str) -> Vec<&str> {
    export
        .lines()
        .filter(|line| line.contains("\"table\":"))
        .collect()
}

#[tokio::test]
async fn a_database_moves_between_engines_and_back_without_loss() {
    let first = Fixture::sqlite();
    let store = first.open().await;
    populate(&store).await;
    let original = export(&store).await;
    for table in TABLES {
        assert!(
            original.contains(&format!("\"table\":\"{}\"", table.name)),
            "no row in `{}`: populate it",
            table.name
        );
    }
    let mut current = original.clone();
    for hop in [
        Fixture::postgres().await,
        Some(Fixture::sqlite()),
        Fixture::postgres().await,
    ]
    .into_iter()
    .flatten()
    {
        let next = hop.open().await;
        assert_eq!(
            import(&next, &current).await.unwrap(),
            rows(&original).len() as u64
        );
        current = export(&next).await;
        assert_eq!(rows(&current), rows(&original), "after {}", next.place());
    }
}

on_both_engines! {
    async fn a_failed_import_leaves_nothing_behind(fixture: Fixture) {
        let source = Fixture::sqlite();
        let store = source.open().await;
        populate(&store).await;
        let good = export(&store).await;
        let lines: Vec<&str> = good.lines().collect();
        let cut_off = lines[..lines.len() - 1].join("\n");
        let changed = good.replacen("subject 7\"", "subject 8\"", 1);
        let doubled = [&lines[..2], &lines[1..]].concat().join("\n");
        let (parents, others): (Vec<&str>, Vec<&str>) =
            lines.iter().partition(|line| line.contains("\"table\":\"conversations\""));
        let (end, others) = others.split_last().unwrap();
        let orphan = [others, &parents, &[end]].concat().join("\n");
        let target = fixture.open().await;
        let before = export(&target).await;
        for (what, text, reason) in [
            ("nothing", String::new(), "empty file"),
            ("another file", "hello".into(), "cannot import line 1: invalid JSON"),
            ("other JSON", "{}".into(), "not a Satiety export"),
            ("from the future", r#"{"satiety_export":1,"schema_version":99}"#.into(), "schema version 99"),
            ("newer format", r#"{"satiety_export":2,"schema_version":1}"#.into(), "export format 2"),
            ("cut off", cut_off, "truncated file"),
            ("changed", changed, "the file was changed"),
            ("a row twice", doubled, "constraint violation"),
            ("a child without its parent", orphan, "constraint violation"),
            ("a wrong type", good.replacen("\"at\":", "\"at\":\"x\",\"_\":", 1), "unknown column `_`"),
            ("a wrong value", good.replacen("\"kind\":\"test.event\"", "\"kind\":7", 1), "column `kind` must be text, got 7"),
            ("an unknown table", good.replacen("\"table\":\"journal\"", "\"table\":\"diary\"", 1), "unknown table `diary`"),
            ("more after the end", format!("{good}{{}}"), "unexpected data after the last line"),
        ] {
            let error = import(&target, &text).await.expect_err(what);
            assert!(error.to_string().contains(reason), "{what}: {error}");
            assert_eq!(rows(&export(&target).await), rows(&before), "{what}");
        }
        assert!(import(&target, &good).await.is_ok());
        let error = import(&target, &good).await.unwrap_err();
        assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
    }
}

on_both_engines! {
    async fn an_export_from_before_runs_shared_workers_is_imported(fixture: Fixture) {
        let source = Fixture::sqlite();
        let store = source.open().await;
        populate(&store).await;
        let text = export(&store).await;
        let mut lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut end = lines.pop().unwrap();
        let mut old = String::new();
        for mut line in lines {
            let is_plan = line["table"] == "bench_plans";
            if let Some(row) = line.get_mut("row").and_then(serde_json::Value::as_object_mut) {
                row.remove("partition_at");
                for column in ["weight", "turn", "served", "waiting"].iter().filter(|_| is_plan) {
                    row.remove(*column).unwrap();
                }
            }
            old += &line.to_string();
            old.push('\n');
        }
        end["end"]["blake3"] = blake3::hash(old.as_bytes()).to_hex().to_string().into();
        old += &end.to_string();
        let target = fixture.open().await;
        import(&target, &old).await.unwrap();
        let queued = target.bench().queued_runs(9).await.unwrap();
        assert_eq!(queued.iter().map(|run| (run.weight, run.waiting, run.taken)).collect::<Vec<_>>(), [(4, 2, 1)]);
        assert_eq!(target.bench().work_depth().await.unwrap(), store.bench().work_depth().await.unwrap());
    }
}

on_both_engines! {
    async fn a_backup_can_be_opened_or_imported(fixture: Fixture) {
        let store = fixture.open().await;
        populate(&store).await;
        let path = fixture.folder.path().join("backup");
        let restored_in = Fixture::sqlite();
        let restored = match store.backup(&path).await.unwrap() {
            BackupKind::SqliteFile => Store::open(&satiety_store::StoreUrl::sqlite(&path)).await.unwrap(),
            BackupKind::Export => {
                let restored = restored_in.open().await;
                import(&restored, &fs_err::read_to_string(&path).unwrap()).await.unwrap();
                restored
            }
        };
        assert_eq!(rows(&export(&restored).await), rows(&export(&store).await));
        let error = store.backup(Path::new(&path)).await.unwrap_err();
        assert!(error.to_string().contains("the file already exists"), "{error}");
    }
}

/// Rows by table and day, and the days that were offered.
#[derive(Default)]
struct ByDay {
    rows: BTreeMap<&'static str, Vec<(Option<i64>, serde_json::Value)>>,
    days: BTreeMap<&'static str, Vec<DayCount>>,
    skip: Option<(&'static str, i64)>,
}

impl RowSink for ByDay {
    type Error = StoreError;

    fn begin_table(
        &mut self,
        table: &'static Table,
        days: &[DayCount],
    ) -> Result<BTreeSet<Option<i64>>, StoreError> {
        self.days.insert(table.name, days.to_vec());
        Ok(self
            .skip
            .iter()
            .filter(|(name, _)| *name == table.name)
            .map(|(_, day)| Some(*day))
            .collect())
    }

    fn row(
        &mut self,
        table: &'static Table,
        day: Option<i64>,
        row: serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), StoreError> {
        self.rows.entry(table.name).or_default().push((day, row.into()));
        Ok(())
    }
}

on_both_engines! {
    async fn rows_by_day_are_all_rows_once(fixture: Fixture) {
        let store = fixture.open().await;
        populate(&store).await;
        let mut late = bench_run("late");
        late.started_at = 3 * DAY_MICROS + 7;
        store.bench().begin_run(&late).await.unwrap();
        store.bench().put_results("late", &[bench_result("a", 0), bench_result("b", 0)]).await.unwrap();
        let mut early = bench_run("early");
        early.started_at = -1;
        store.bench().begin_run(&early).await.unwrap();
        let mut found = ByDay::default();
        store.rows_by_day(&mut found).await.unwrap();
        let status = store.status().await.unwrap();
        for table in &status.tables {
            let rows = found.rows.get(table.name.as_str()).map_or(&[][..], Vec::as_slice);
            assert_eq!(i64::try_from(rows.len()), Ok(table.rows), "{}", table.name);
            let counted: u64 = found.days[table.name.as_str()].iter().map(|(_, rows)| rows).sum();
            assert_eq!(i64::try_from(counted), Ok(table.rows), "{}", table.name);
            let days: Vec<Option<i64>> = rows.iter().map(|(day, _)| *day).collect();
            assert!(days.is_sorted(), "{} is in order of days", table.name);
        }
        let days: Vec<Option<i64>> = found.days["bench_runs"].iter().map(|(day, _)| *day).collect();
        assert_eq!(days, [Some(-1), Some(0), Some(3)]);
        // Results have the day of their run, and a day that is skipped is not read.
        let results = |found: &ByDay| found.rows["bench_results"].iter().filter(|(day, _)| *day == Some(3)).count();
        assert_eq!(results(&found), 2);
        let mut found = ByDay { skip: Some(("bench_results", 3)), ..ByDay::default() };
        store.rows_by_day(&mut found).await.unwrap();
        assert_eq!(results(&found), 0);
        assert!(!found.rows["bench_results"].is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn imports_never_panic(lines in prop::collection::vec(any_line(), 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::sqlite();
            let store = fixture.open().await;
            let _ = import(&store, &lines.join("\n")).await;
        });
    }
}

fn any_line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#"{"satiety_export":1,"schema_version":1}"#.to_owned()),
        Just(r#"{"end":{"rows":0}}"#.to_owned()),
        Just(r#"{"table":"journal","row":{"id":"x","at":1e400,"kind":null}}"#.to_owned()),
        (".{0,20}", ".{0,20}")
            .prop_map(|(table, value)| json!({"table": table, "row": {"id": value}}).to_string()),
        "\\PC{0,40}",
    ]
}
