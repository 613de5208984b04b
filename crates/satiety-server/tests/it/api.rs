//! Each route once, with success and with missing resources.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Options, round, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_grows_until_it_should_ship() {
    let server = start().await;
    let begun = server
        .post(
            "/v1/conversations",
            &json!({"conversation_id": "queue", "topic": "Which queue?"}),
        )
        .await;
    let begun = begun.ok(201);
    assert_eq!(
        (&begun["conversation_id"], &begun["signal"]),
        (&json!("queue"), &json!("CONTINUE"))
    );
    let claims = [
        "PostgreSQL is enough for 200 jobs a second.",
        "LISTEN and NOTIFY wake the workers.",
    ];
    let mut signals = Vec::new();
    for number in 1..=5 {
        let body = json!({"rounds": [round(number, &claims)]});
        let answer = server.post("/v1/conversations/queue/rounds", &body).await.ok(201);
        assert_eq!(answer["rounds"], json!(number));
        assert_eq!(answer["verdicts"][0]["round"], json!(number));
        signals.push(answer["signal"].as_str().unwrap().to_owned());
    }
    assert_eq!(signals[0], "CONTINUE");
    assert_ne!(signals[4], "CONTINUE", "{signals:?}");
    let kept = server.get("/v1/conversations/queue").await.ok(200);
    assert_eq!(kept["rounds"].as_array().unwrap().len(), 5);
    assert_eq!(kept["report"]["stop_recommendation"]["signal"], json!(signals[4]));
    // Rounds added one by one give the same result as scoring at once.
    let rounds: Vec<_> = (1..=5).map(|number| round(number, &claims)).collect();
    let scored = server
        .post("/v1/score", &json!({"conversation": {"rounds": rounds}}))
        .await
        .ok(200);
    assert_eq!(
        scored["stop_recommendation"],
        kept["report"]["stop_recommendation"]
    );
    assert_eq!(scored["novelty_by_round"], kept["report"]["novelty_by_round"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_rounds_are_all_stored() {
    let server = start().await;
    server
        .post("/v1/conversations", &json!({"conversation_id": "c"}))
        .await
        .ok(201);
    let senders: Vec<_> = (0..12)
        .map(|number| {
            let body =
                json!({"rounds": [round(number, &[&format!("Claim number {number} stands for itself.")])]});
            let request = server
                .request(Method::POST, "/v1/conversations/c/rounds")
                .json(&body);
            tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
        })
        .collect();
    for sender in senders {
        assert_eq!(sender.await.unwrap(), 201);
    }
    let kept = server.get("/v1/conversations/c").await.ok(200);
    let positions: Vec<i64> = kept["rounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|round| round["position"].as_i64().unwrap())
        .collect();
    assert_eq!(positions, (1..=12).collect::<Vec<_>>());
    assert_eq!(kept["report"]["novelty_by_round"].as_array().unwrap().len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paginated() {
    let server = start().await;
    for number in 0..7 {
        server
            .post(
                "/v1/conversations",
                &json!({"conversation_id": format!("c{number}")}),
            )
            .await
            .ok(201);
    }
    let mut seen = Vec::new();
    let mut path = "/v1/conversations?limit=3".to_owned();
    loop {
        let page = server.get(&path).await.ok(200);
        for item in page["conversations"].as_array().unwrap() {
            seen.push(item["conversation_id"].as_str().unwrap().to_owned());
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/conversations?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ["c6", "c5", "c4", "c3", "c2", "c1", "c0"]);
    assert_eq!(server.get("/v1/conversations?cursor=x").await.status, 422);
    assert_eq!(server.get("/v1/conversations?limit=0").await.status, 422);
    assert_eq!(server.get("/v1/conversations?limit=x").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_stops_a_saturated_search() {
    let server = start().await;
    let result =
        json!({"title": "Queues", "url": "https://example.org/q", "snippet": "PostgreSQL can be a queue."});
    let rounds: Vec<_> = (1..=6)
        .map(|number| json!({"round": number, "query": "queues", "results": [result]}))
        .collect();
    let answer = server
        .post("/v1/gate", &json!({"task": "queues", "rounds": rounds}))
        .await
        .ok(200);
    assert_eq!(answer["decisions"].as_array().unwrap().len(), 6);
    assert!(answer["summary"]["after_stop"].as_u64().unwrap() > 0, "{answer}");
    let bad = server
        .post("/v1/gate", &json!({"rounds": [{"query": "x"}]}))
        .await;
    assert_eq!(bad.status, 422, "{}", bad.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_is_saved_found_changed_and_deleted() {
    let server = start().await;
    let body = json!({"title": "Queue", "content": "We chose PostgreSQL as the job queue.", "tier": "important",
        "triggers": ["job queue"]});
    let id = server.post("/v1/memories", &body).await.ok(201)["memory"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = json!({"title": "Cache", "content": "The cache is Redis."});
    let other = server.post("/v1/memories", &other).await.ok(201)["memory"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let found = server
        .post(
            "/v1/memory/search",
            &json!({"query": "which job queue did we choose"}),
        )
        .await
        .ok(200);
    assert_eq!(found["results"][0]["id"], json!(id));
    let matched = server
        .post("/v1/memory/match", &json!({"text": "about the job queue"}))
        .await
        .ok(200);
    assert_eq!(matched["matches"][0]["id"], json!(id));
    let link = json!({"from": id, "kind": "supports", "to": other});
    assert_eq!(
        server.post("/v1/memory/links", &link).await.ok(200)["linked"],
        json!(true)
    );
    let valid = server
        .post(&format!("/v1/memories/{id}/validate"), &json!({"useful": true}))
        .await
        .ok(200);
    assert!(valid["validations"].as_i64().unwrap() == 1);
    let request = server
        .request(Method::PATCH, &format!("/v1/memories/{id}"))
        .json(&json!({"title": "Job queue"}));
    let changed = Answer::of(request.send().await.unwrap()).await.ok(200);
    assert_eq!(changed["memory"]["title"], json!("Job queue"));
    assert_eq!(
        server.get("/v1/memories").await.ok(200)["memories"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        server.get("/v1/memory/health").await.ok(200)["memories"],
        json!(2)
    );
    let gone = server
        .request(Method::DELETE, &format!("/v1/memories/{id}"))
        .send()
        .await
        .unwrap();
    assert_eq!(gone.status(), 200);
    assert_eq!(server.get(&format!("/v1/memories/{id}")).await.status, 404);
    assert!(
        server
            .get("/metrics")
            .await
            .text
            .contains("satiety_memory_searches_total 1")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_flushed_without_excluded_items() {
    let server = start().await;
    let add: Vec<_> = (0..6)
        .map(|number| json!({"ctx_id": format!("i{number}"), "zone": "workspace", "kind": "tool_result", "content": "words ".repeat(50),
            "token_count": 100}))
        .collect();
    let updated = server
        .post(
            "/v1/eviction/scopes",
            &json!({"scope_id": "s", "turn": 1, "add": add}),
        )
        .await;
    assert_eq!(updated.ok(200)["items"], json!(6), "{}", updated.text);
    let asked =
        json!({"scope_id": "s", "free_tokens": 200, "seed": 1, "exploration": 0.0, "timeout_ms": 60000});
    let proposed = server.post("/v1/eviction/propose", &asked).await.ok(200);
    let proposal = proposed["proposal_id"].as_str().unwrap();
    let candidates = proposed["view"].as_array().unwrap();
    assert!(candidates.len() >= 2, "{proposed}");
    let answer = json!({"proposal_id": proposal, "exclude_ctx_ids": []});
    server.post("/v1/eviction/resolve", &answer).await.ok(200);
    // An answer counts once.
    assert_eq!(server.post("/v1/eviction/resolve", &answer).await.status, 409);
    let left = server.get("/v1/eviction/scopes/s").await.ok(200);
    assert!(left["items"].as_array().unwrap().len() <= 4, "{left}");
    assert_eq!(
        server.get("/v1/eviction/scopes").await.ok(200)["scopes"][0]["scope_id"],
        json!("s")
    );
    server.get("/v1/eviction/scopes/s/timeline").await.ok(200);
    assert_eq!(
        server.get("/v1/eviction/feedback").await.ok(200)["answered"],
        json!(1)
    );
    assert_eq!(server.get("/v1/eviction/scorers").await.ok(200)["log"], json!([]));
    // Without a size, only what pays is proposed, and the cost is stated.
    let pays = json!({"scope_id": "s", "remaining_turns": 0.0, "window_tokens": 100_000});
    let waits = server.post("/v1/eviction/propose", &pays).await.ok(200);
    assert_eq!(waits["candidates"], json!([]), "{waits}");
    let both = json!({"scope_id": "s", "free_tokens": 1, "budget_tokens": 1});
    assert_eq!(server.post("/v1/eviction/propose", &both).await.status, 422);
    let made = json!({"prompt": "Answer with JSON."});
    let made = server.post("/v1/eviction/scorers", &made).await.ok(201);
    assert_eq!(made["variant"], "prompt");
    let version = made["version"].as_str().unwrap();
    let trace = r#"{"session":"mine","turn":0,"add":[{"ctx_id":"a","zone":"memory","token_count":5}]}"#;
    let asked = json!({"version": version, "trace": trace});
    let files = server.post("/v1/eviction/scorers/variants", &asked).await.ok(200);
    assert_eq!(files["sessions"], 1);
    let names: Vec<&str> = files["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| f["name"].as_str())
        .collect();
    assert!(
        names.contains(&"suite.json") && names.contains(&"trace.jsonl"),
        "{names:?}"
    );
    assert_eq!(server.get("/v1/eviction/scopes/none").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn rankings_are_evaluated_and_compared() {
    let server = start().await;
    let queries: Vec<String> = (0..12).map(|number| format!("q{number}")).collect();
    let judgments: Vec<_> = queries
        .iter()
        .map(|query| json!({"query_id": query, "judgments": [{"doc_id": "good", "relevance": 3}]}))
        .collect();
    let run = |name: &str, results: &[&str]| {
        let answers: Vec<_> = queries
            .iter()
            .map(|query| json!({"query_id": query, "results": results}))
            .collect();
        json!({"name": name, "queries": answers})
    };
    let body = json!({"judgments": judgments, "measures": ["mrr@10"],
        "runs": [run("old", &["bad", "worse", "good"]), run("new", &["good", "bad"])]});
    let measured = server.post("/v1/retrieval/evaluate", &body).await.ok(200);
    assert_eq!(measured["runs"][1]["run"], json!("new"));
    assert_eq!(
        measured["runs"][1]["metrics"]["mrr@10"]["mean"],
        json!(1.0),
        "{measured}"
    );
    let compared = server.post("/v1/retrieval/compare", &body).await.ok(200);
    assert_eq!(compared["control"], json!("old"));
    assert_eq!(compared["comparisons"][0]["treatment"], json!("new"));
    let mut unknown = body.clone();
    unknown["measures"] = json!(["beauty@3"]);
    let refused = server.post("/v1/retrieval/evaluate", &unknown).await;
    assert_eq!(refused.status, 422);
    assert!(!refused.text.contains("/tmp"), "{}", refused.text);
}

const SUITE: &str = r#"{"suite_id": "echo", "name": "Echo", "target": "echo", "version": "1.0.0", "cases": [
    {"case_id": "a", "input": {"goal": "hello"}, "expected": {"mode": "contains", "value": "hello"},
     "tags": ["smoke"], "difficulty": "easy", "source": "synthetic"},
    {"case_id": "b", "input": {"goal": "world"}, "expected": {"mode": "contains", "value": "nothing of the kind"},
     "tags": ["smoke"], "difficulty": "easy", "source": "synthetic"}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_suite_is_run_as_a_job_and_its_runs_compared() {
    let root = tempfile::tempdir().unwrap();
    fs_err::create_dir(root.path().join("echo")).unwrap();
    fs_err::write(root.path().join("echo/suite.json"), SUITE).unwrap();
    fs_err::write(root.path().join("echo/target.toml"), "type = \"echo\"\n").unwrap();
    let server = start_with(Options {
        root: Some(root.path().to_owned()),
        ..Options::default()
    })
    .await;
    let suites = server.get("/v1/bench/suites").await.ok(200);
    assert_eq!(suites["suites"][0]["suite_id"], json!("echo"), "{suites}");
    assert!(!suites.to_string().contains(root.path().to_str().unwrap()));
    let mut runs = Vec::new();
    for _ in 0..2 {
        let started = server
            .post("/v1/bench/runs", &json!({"suite": "echo", "repeats": 2}))
            .await
            .ok(202);
        let job = started["job_id"].as_str().unwrap().to_owned();
        // The event stream ends when the job does.
        let events = server.get(&format!("/v1/jobs/{job}/events")).await;
        assert_eq!(events.header("content-type"), "text/event-stream");
        assert!(events.text.contains("event: progress"), "{}", events.text);
        let done = server.get(&format!("/v1/jobs/{job}")).await.ok(200);
        assert_eq!(done["state"], json!("done"), "{done}");
        runs.push(done["result"]["run_id"].as_str().unwrap().to_owned());
    }
    let run = server.get(&format!("/v1/bench/runs/{}", runs[0])).await.ok(200);
    assert_eq!(run["results"].as_array().unwrap().len(), 4);
    let listed = server.get("/v1/bench/runs?suite=echo&limit=1").await.ok(200);
    assert_eq!(listed["runs"][0]["run_id"], json!(runs[1]));
    let cursor = listed["next_cursor"].as_str().unwrap();
    let rest = server
        .get(&format!("/v1/bench/runs?suite=echo&limit=1&cursor={cursor}"))
        .await
        .ok(200);
    assert_eq!(rest["runs"][0]["run_id"], json!(runs[0]));
    assert_eq!(rest.get("next_cursor"), None);
    let compared = server
        .post(
            "/v1/bench/compare",
            &json!({"baseline": runs[0], "candidate": runs[1]}),
        )
        .await
        .ok(200);
    assert_ne!(compared["verdict"], json!("regression"), "{compared}");
    assert_eq!(
        server.get("/v1/bench/suites/echo/baselines").await.ok(200)["baselines"],
        json!([])
    );
    assert_eq!(
        server.get("/v1/jobs").await.ok(200)["jobs"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert!(
        server
            .get("/metrics")
            .await
            .text
            .contains("satiety_bench_pass_rate{suite=\"echo\"} 0.5")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_harness_is_read_only() {
    let server = start().await;
    let status = server.get("/v1/harness").await;
    assert_eq!(status.status, 422, "{}", status.text);
    assert!(
        !status.text.contains(server.folder.path().to_str().unwrap()),
        "{}",
        status.text
    );
    assert_eq!(
        server.get("/v1/harness/history").await.ok(200)["entries"],
        json!([])
    );
    for path in [
        "/v1/harness/approve",
        "/v1/harness/apply",
        "/v1/harness/expansions",
    ] {
        assert_eq!(server.post(path, &json!({})).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_resources_have_a_hint() {
    let server = start().await;
    for path in [
        "/v1/conversations/none",
        "/v1/conversations/none/events",
        "/v1/memories/none",
        "/v1/bench/runs/none",
        "/v1/jobs/none",
        "/nowhere",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
        assert_eq!(
            answer.header("content-type"),
            "application/problem+json",
            "{path}"
        );
        let problem = answer.json();
        assert_eq!(problem["type"], json!("urn:satiety:problem:not_there"));
        assert_eq!(
            problem["request_id"],
            json!(answer.header("x-request-id")),
            "{path}"
        );
        assert!(problem["hint"].is_string(), "{problem}");
    }
    let answer = server
        .post(
            "/v1/conversations/none/rounds",
            &json!({"rounds": [round(1, &["x"])]}),
        )
        .await;
    assert_eq!(answer.status, 404);
    let taken = json!({"conversation_id": "twice"});
    server.post("/v1/conversations", &taken).await.ok(201);
    assert_eq!(server.post("/v1/conversations", &taken).await.status, 409);
    let method = server
        .request(Method::PUT, "/v1/conversations")
        .send()
        .await
        .unwrap();
    assert_eq!(method.status(), 405);
}
