//! What people do on the pages: label results, conversations and agents' runs, write notes, accept a baseline, repeat
//! failed cases and stop a job; and what a token of a lower scope may not do or see.

use reqwest::Method;
use satiety_engine::tokens::Scope;
use satiety_server::auth::Access;
use serde_json::{Value, json};

use crate::support::{Answer, Options, Running, round, start, start_with};

/// A suite with a case for a person, one that passes and one that fails.
const SUITE: &str = r#"{"suite_id": "desk", "cases": [
    {"case_id": "polite", "input": {"goal": "be polite"}, "expected": {"mode": "human", "value": "is it polite?"}},
    {"case_id": "echo", "input": {"goal": "say hi"}, "expected": {"mode": "contains", "value": "hi"}},
    {"case_id": "secret", "input": {"goal": "name it"}, "expected": {"mode": "contains", "value": "xyzzy"}}]}"#;

struct Desk {
    server: Running,
    run: String,
    _root: tempfile::TempDir,
}

/// A server with a suite below its root, and one run of it.
async fn desk(access: Access) -> Desk {
    let root = tempfile::tempdir().unwrap();
    let suite = root.path().join("desk");
    fs_err::create_dir_all(&suite).unwrap();
    fs_err::write(suite.join("suite.json"), SUITE).unwrap();
    fs_err::write(suite.join("target.toml"), "type = \"echo\"\n").unwrap();
    let options = Options {
        access,
        root: Some(root.path().to_owned()),
        ..Options::default()
    };
    let server = start_with(options).await;
    let admin = server.token(Scope::Admin).await;
    let job = send(&server, &admin, "/v1/bench/runs", &json!({"suite": "desk"}))
        .await
        .ok(202);
    let run = job["run_id"].as_str().unwrap().to_owned();
    finished(&server, &admin, job["job_id"].as_str().unwrap()).await;
    Desk {
        server,
        run,
        _root: root,
    }
}

async fn send(server: &Running, token: &str, path: &str, body: &Value) -> Answer {
    let request = server.request(Method::POST, path).bearer_auth(token).json(body);
    Answer::of(request.send().await.unwrap()).await
}

async fn get(server: &Running, token: &str, path: &str) -> Answer {
    let request = server.request(Method::GET, path).bearer_auth(token);
    Answer::of(request.send().await.unwrap()).await
}

/// Submits a form as the page of this server does.
async fn submit(server: &Running, token: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let body = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", value.replace(' ', "+")))
        .collect::<Vec<_>>()
        .join("&");
    let request = server
        .request(Method::POST, path)
        .bearer_auth(token)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body);
    Answer::of(request.send().await.unwrap()).await
}

async fn finished(server: &Running, token: &str, job: &str) -> Value {
    for _ in 0..400 {
        let view = get(server, token, &format!("/v1/jobs/{job}")).await.ok(200);
        if view["ended_at"].is_string() {
            return view;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("job {job} does not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_labels_results_and_takes_a_label_back() {
    let desk = desk(Access::Tokens).await;
    let (server, run) = (&desk.server, &desk.run);
    let admin = server.token(Scope::Admin).await;
    let page = get(server, &admin, &format!("/bench/runs/{run}/label")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    for part in ["be polite", "is it polite?", "data-key=\"p\"", "left to label"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let queue = format!("/v1/bench/runs/{run}/labels");
    for (query, case, left) in [
        ("", "polite", 1),
        ("?all=true", "echo", 3),
        ("?all=true&skip=2", "secret", 3),
    ] {
        let step = get(server, &admin, &format!("{queue}{query}")).await.ok(200);
        assert_eq!(
            (&step["next"]["case_id"], &step["left"]),
            (&json!(case), &json!(left))
        );
        assert_eq!((&step["pending"], &step["pass_rate"]), (&json!(1), &json!(0.5)));
    }
    let beyond = get(server, &admin, &format!("{queue}?skip=1")).await.ok(200);
    assert_eq!((&beyond["next"], &beyond["left"]), (&Value::Null, &json!(1)));
    let label = [
        ("case_id", "polite"),
        ("repeat", "0"),
        ("variant", ""),
        ("verdict", "pass"),
    ];
    let done = submit(server, &admin, &format!("/bench/runs/{run}/label"), &label).await;
    assert!(done.text.contains("No result is left to label."), "{}", done.text);
    let statuses = |answer: &Value| -> Vec<String> {
        let results = answer["results"].as_array().unwrap();
        let status = |result: &Value| result["status"].as_str().unwrap().to_owned();
        results.iter().map(status).collect()
    };
    let stored = get(server, &admin, &format!("/v1/bench/runs/{run}"))
        .await
        .ok(200);
    assert_eq!(statuses(&stored), ["pass", "pass", "fail"]);
    // The label is taken back, and the result waits for a person again.
    let last = "%5B%22polite%22%2C0%2Cnull%5D";
    let undo = [("verdict", "undo"), ("last", last)];
    let undone = submit(server, &admin, &format!("/bench/runs/{run}/label"), &undo).await;
    assert!(undone.text.contains("be polite"), "{}", undone.text);
    let stored = get(server, &admin, &format!("/v1/bench/runs/{run}"))
        .await
        .ok(200);
    assert_eq!(statuses(&stored), ["pass", "pending", "fail"]);
    // A label never overrides a check.
    let wrong = json!({"case_id": "secret", "pass": true});
    let step = send(server, &admin, &format!("/v1/bench/runs/{run}/labels"), &wrong)
        .await
        .ok(200);
    assert_eq!(step["labels"], 1);
    assert_eq!((&step["labelled"], &step["left"]), (&json!(1), &json!(2)));
    let stored = get(server, &admin, &format!("/v1/bench/runs/{run}"))
        .await
        .ok(200);
    assert_eq!(statuses(&stored), ["pass", "pending", "fail"]);
    let missing = json!({"case_id": "nowhere", "pass": true});
    let refused = send(server, &admin, &format!("/v1/bench/runs/{run}/labels"), &missing).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn lower_scopes_cannot_decide_about_their_own_results() {
    let desk = desk(Access::Tokens).await;
    let (server, run) = (&desk.server, &desk.run);
    for scope in [Scope::Read, Scope::Write] {
        let token = server.token(scope).await;
        let label = [("case_id", "polite"), ("verdict", "pass")];
        for (path, fields) in [
            ("label", &label[..]),
            ("baseline", &[("by", "me"), ("reason", "good")]),
            ("rerun", &[]),
        ] {
            let answer = submit(server, &token, &format!("/bench/runs/{run}/{path}"), fields).await;
            assert_eq!(answer.status, 403, "{scope} {path}: {}", answer.text);
        }
        let page = get(server, &token, &format!("/bench/runs/{run}")).await;
        assert!(!page.text.contains("Accept this run"), "{scope}");
        let page = get(server, &token, &format!("/bench/runs/{run}/label")).await;
        assert_eq!(page.status, 403, "{scope}");
        // An agent must not judge what it retrieved.
        let grade = [
            ("annotator", "me"),
            ("query_id", "q"),
            ("memory_id", "m"),
            ("grade", "3"),
        ];
        let judged = submit(server, &token, "/retrieval/annotate", &grade).await;
        assert_eq!(judged.status, 403, "{scope}: {}", judged.text);
        let page = get(server, &token, "/retrieval/annotate?annotator=me").await;
        assert_eq!(page.status, 403, "{scope}");
    }
    let admin = server.token(Scope::Admin).await;
    let page = get(server, &admin, "/retrieval/annotate").await;
    assert_eq!(page.status, 200, "{}", page.text);
    // Another site cannot submit a form in the browser of a person.
    let request = server
        .request(Method::POST, &format!("/bench/runs/{run}/notes"))
        .header("origin", "https://elsewhere.example")
        .header("content-type", "application/x-www-form-urlencoded")
        .body("author=x&note=y");
    let answer = Answer::of(request.send().await.unwrap()).await;
    assert!((401..=403).contains(&answer.status), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_baselines_and_reruns_are_made_on_the_page() {
    let desk = desk(Access::Tokens).await;
    let (server, run) = (&desk.server, &desk.run);
    let admin = server.token(Scope::Admin).await;
    let note = [("author", "mira"), ("note", "new prompt <b>")];
    let answer = submit(server, &admin, &format!("/bench/runs/{run}/notes"), &note).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    let page = get(server, &admin, &format!("/bench/runs/{run}")).await;
    for part in [
        "new prompt &lt;b&gt;",
        "mira",
        "Run failed cases again",
        "Accept this run",
        "SQLite, no workers",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let accept = [("by", "mira"), ("reason", "first run")];
    let answer = submit(server, &admin, &format!("/bench/runs/{run}/baseline"), &accept).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    let baselines = get(server, &admin, "/v1/bench/suites/desk/baselines")
        .await
        .ok(200);
    assert_eq!(baselines["baselines"][0]["run_id"], **run);
    let answer = submit(server, &admin, &format!("/bench/runs/{run}/rerun"), &[]).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    let job = answer.header("location").rsplit('/').next().unwrap().to_owned();
    let page = get(server, &admin, &format!("/bench/jobs/{job}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let view = finished(server, &admin, &job).await;
    assert_eq!(view["state"], "done", "{view}");
    let again = view["run_id"].as_str().unwrap();
    let stored = get(server, &admin, &format!("/v1/bench/runs/{again}"))
        .await
        .ok(200);
    let cases: Vec<&Value> = stored["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["case_id"])
        .collect();
    assert_eq!(cases, [&json!("secret")]);
    let stopped = submit(server, &admin, &format!("/bench/jobs/{job}/stop"), &[]).await;
    assert_eq!(stopped.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_suite_hides_its_expectations_and_keeps_its_baseline() {
    let desk = desk(Access::Tokens).await;
    let (server, run) = (&desk.server, &desk.run);
    let admin = server.token(Scope::Admin).await;
    let read = server.token(Scope::Read).await;
    let path = format!("/bench/runs/{run}/cases/secret");
    assert!(get(server, &read, &path).await.text.contains("xyzzy"));
    // A lock that cannot be read protects every suite.
    let harness = server.folder.path().join("harness");
    fs_err::create_dir_all(&harness).unwrap();
    fs_err::write(harness.join("harness.lock"), "broken").unwrap();
    let page = get(server, &read, &path).await;
    assert_eq!(page.status, 200);
    assert!(!page.text.contains("xyzzy"), "{}", page.text);
    let stored = get(server, &read, &format!("/v1/bench/runs/{run}")).await;
    assert!(!stored.text.contains("xyzzy"), "{}", stored.text);
    assert!(get(server, &admin, &path).await.text.contains("xyzzy"));
    let accept = [("by", "mira"), ("reason", "first run")];
    let refused = submit(server, &admin, &format!("/bench/runs/{run}/baseline"), &accept).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let page = get(server, &admin, &format!("/bench/runs/{run}")).await;
    assert!(page.text.contains("needs a signature"), "{}", page.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_and_agent_runs_are_labelled_for_calibration() {
    let server = start().await;
    let rounds = [
        round(1, &["the queue is durable"]),
        round(2, &["the queue is durable"]),
    ];
    let begin = json!({"conversation_id": "queue", "rounds": rounds});
    server.post("/v1/conversations", &begin).await.ok(201);
    let label = json!({"annotator": "mira", "signal": "STOP", "stop_round": 2});
    let labels = server
        .post("/v1/conversations/queue/labels", &label)
        .await
        .ok(200);
    assert_eq!(labels["labels"][0]["signal"], "STOP");
    assert_eq!(labels["labelled"], 1);
    let page = server.get("/conversations/queue").await.text;
    assert!(page.contains("STOP, stop after round 2, mira"), "{page}");
    let beyond = json!({"annotator": "mira", "signal": "STOP", "stop_round": 9});
    assert_eq!(
        server
            .post("/v1/conversations/queue/labels", &beyond)
            .await
            .status,
        422
    );
    let missing = server.post("/v1/conversations/nowhere/labels", &label).await;
    assert_eq!(missing.status, 404);
    let swept = server
        .engine
        .dialogue()
        .sweep(&satiety_engine::sweep::SweepRequest {
            folder: None,
            profile: "default".into(),
            grid: satiety::dialogue::Grid::default(),
        })
        .await
        .unwrap();
    assert_eq!(swept.report.outcomes.len(), 1);
    let remove = json!({"annotator": "mira", "signal": null});
    let labels = server
        .post("/v1/conversations/queue/labels", &remove)
        .await
        .ok(200);
    assert_eq!(labels["labelled"], 0);

    let call = json!({"calls": [{"tool": "bash", "arguments": {"command": "make"}, "result": {"content": "ok", "exit_code": 0}}]});
    let messages = json!({"messages": [call, call]});
    server
        .post("/v1/conversations/build/messages", &messages)
        .await
        .ok(201);
    let label = json!({"annotator": "mira", "solved": true});
    let labels = server.post("/v1/progress/build/labels", &label).await.ok(200);
    assert_eq!(labels["labels"][0]["solved"], true);
    let page = server.get("/progress/build").await.text;
    assert!(
        page.contains("solved, mira") && page.contains("data-live"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_run_open_as_files() {
    let desk = desk(Access::Tokens).await;
    let folder = tempfile::tempdir().unwrap();
    let selection = satiety_server::dashboard::Selection::Run(desk.run.clone());
    let exported = satiety_server::dashboard::export(&desk.server.engine, &selection, folder.path())
        .await
        .unwrap();
    // The run and a page for each case.
    assert_eq!(exported.pages, 4);
    for entry in fs_err::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "html") {
            continue;
        }
        let page = fs_err::read_to_string(&path).unwrap();
        assert!(!page.contains("=\"/") && !page.contains("<form"), "{page}");
        for link in page.split("href=\"").skip(1) {
            let file = link.split(['"', '#']).next().unwrap();
            assert!(file.is_empty() || folder.path().join(file).is_file(), "{file}");
        }
    }
    let index = fs_err::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(
        index.contains("secret") && index.contains("assets/style.css"),
        "{index}"
    );
}
