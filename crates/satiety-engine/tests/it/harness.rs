//! Expansion by a model: a local server speaks the model's protocol and proposes valid and invalid items.

use std::path::Path;

use satiety::harness::Driver;
use satiety_engine::bench::{RunBenchRequest, Stop};
use satiety_engine::harness::{ExpandRequest, RecordCycleRequest};
use satiety_engine::{Engine, Settings, StoreUrl};
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

fn engine(folder: &Path) -> Engine {
    Engine::new(Settings {
        store: StoreUrl::sqlite(folder.join("s.db")),
        archive_folder: folder.join("archive"),
        embedder: "none".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    })
}

fn write_suite(root: &Path) {
    let case =
        |id: &str| json!({"case_id": id, "input": {"goal": id}, "expected": {"mode": "exact", "value": id}});
    let suite = json!({"suite_id": "echoes", "cases": [case("a"), case("b"), case("c")]});
    fs_err::create_dir_all(root.join("echoes")).unwrap();
    fs_err::write(root.join("echoes/suite.json"), suite.to_string()).unwrap();
    let rules = "[thresholds]\n\"echoes/pass_rate\" = { value = 0.9, direction = \"higher\" }\n";
    fs_err::write(root.join("harness.toml"), rules).unwrap();
}

async fn run(engine: &Engine, root: &Path, times: usize) {
    for _ in 0..times {
        let request = RunBenchRequest {
            suite: root.join("echoes"),
            target: Some("echo".into()),
            ..RunBenchRequest::default()
        };
        let plan = engine.bench().plan(request).await.unwrap();
        engine
            .bench()
            .execute(plan, &Stop::default(), |_| {})
            .await
            .unwrap();
    }
}

async fn model(proposes: Value) -> MockServer {
    let server = MockServer::start().await;
    let answer = move |request: &Request| {
        let asked: Value = request.body_json().unwrap();
        // The request contains the brief and the answer schema.
        let prompt = asked["messages"][1]["content"].as_str().unwrap();
        assert!(prompt.contains("### Ceiling cases\n- echoes/a"), "{prompt}");
        assert!(
            asked["format"]["properties"]["new_edge_cases"].is_object(),
            "{asked}"
        );
        ResponseTemplate::new(200).set_body_json(json!({
            "model": "m", "message": {"role": "assistant", "content": proposes.to_string()}, "done": true,
            "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5,
        }))
    };
    Mock::given(method("POST"))
        .and(path("/api/chat"))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn valid_items_of_a_model_proposal_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("suites");
    write_suite(&root);
    let engine = engine(folder.path());
    run(&engine, &root, 5).await;
    let record = RecordCycleRequest {
        folder: root.clone(),
        driver: Driver::Measured,
        ..RecordCycleRequest::default()
    };
    engine.harness().record(record).await.unwrap();
    let packed = |id: &str, expected: Value| {
        json!({"case_id": id, "input": {"goal": id}, "expected": expected}).to_string()
    };
    let exact = |value: &str| json!({"mode": "exact", "value": value});
    let edge = |category: &str, suite: &str, case: String| json!({"category": category, "description": "d", "expected_failure_mode": "f", "suite": suite, "case_json": case});
    let server = model(json!({
        // The rule already proposes this threshold, and this one is lower.
        "threshold_increases": [
            {"benchmark": "echoes/pass_rate", "current": 0.9, "proposed": 0.1, "rationale": "easier"},
            {"benchmark": "echoes/beauty", "current": 0.9, "proposed": 0.95, "rationale": "r"},
        ],
        "new_benchmarks": [{"id": "../../evil", "name": "n", "purpose": "p", "expected_difficulty": "h",
            "cases_json": format!("[{}]", packed("x", exact("x")))}],
        "new_edge_cases": [
            edge("good", "echoes", packed("hard", exact("something the echo does not say"))),
            edge("taken", "echoes", packed("a", exact("a"))),
            edge("nowhere", "nothing", packed("z", exact("z"))),
            edge("broken", "echoes", packed("re", json!({"mode": "regex", "value": "("}))),
            edge("an idea", "", String::new()),
        ],
    }))
    .await;
    let request = |dry_run: bool| ExpandRequest {
        folder: root.clone(),
        model: Some(format!("ollama:m@{}", server.uri())),
        dry_run,
        by: "anna".into(),
        ..ExpandRequest::default()
    };
    let proposed = engine.harness().expand(request(true)).await.unwrap();
    assert!(proposed.expansion_id.is_none() && proposed.diff.admissible);
    let proposed = engine.harness().expand(request(false)).await.unwrap();
    let content = &proposed.expansion_proposals;
    // The rule's threshold stays, because it is higher.
    assert_eq!(content.threshold_increases.len(), 1);
    assert!(content.threshold_increases[0].proposed > 0.9);
    let cases: Vec<&str> = content
        .new_edge_cases
        .iter()
        .filter_map(|edge| edge.case.as_ref())
        .map(|case| case.case_id.as_str())
        .collect();
    assert_eq!(cases, ["hard"]);
    assert!(content.new_benchmarks.is_empty());
    assert_eq!(proposed.ideas, ["an idea: d"]);
    assert_eq!(proposed.refused.len(), 5, "{:#?}", proposed.refused);
    for (refused, says) in proposed.refused.iter().zip([
        "unknown threshold `echoes/beauty`",
        "invalid file name",
        "`a` already exists",
        "unknown suite `nothing`",
        "case of broken",
    ]) {
        assert!(refused.contains(says), "{refused} has no {says}");
    }
    // No file changed, and none will before a person has signed.
    assert!(!root.join("echoes/cases").exists());
    let status = engine.harness().status(&root, Driver::Measured).await.unwrap();
    assert_eq!(
        status.next,
        "a person must review and sign the proposal: `satiety harness approve --key FILE`"
    );
    engine.close().await;
}

#[tokio::test]
async fn invalid_model_answers_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("suites");
    write_suite(&root);
    let engine = engine(folder.path());
    run(&engine, &root, 3).await;
    let server =
        model(json!({"threshold_increases": "all of them", "new_benchmarks": [], "new_edge_cases": []}))
            .await;
    let request = ExpandRequest {
        folder: root.clone(),
        model: Some(format!("ollama:m@{}", server.uri())),
        by: "anna".into(),
        ..ExpandRequest::default()
    };
    let error = engine.harness().expand(request).await.unwrap_err().to_string();
    assert!(error.contains("threshold_increases"), "{error}");
    assert!(
        engine
            .harness()
            .history(&root, 10)
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    engine.close().await;
}
