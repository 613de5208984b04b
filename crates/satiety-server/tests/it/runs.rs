//! Runs that outlive a request, in addition to benchmarks: research, replays of the corpus, and experiments.

use satiety::retrieval::JudgmentSource;
use satiety_engine::retrieval::ImportCorpusRequest;
use satiety_engine::tokens::Scope;
use satiety_server::auth::Access;
use serde_json::{Value, json};

use crate::support::{Answer, Options, Running, start, start_with};

fn heat_pumps() -> String {
    format!(
        "{}/../../examples/research/heat-pumps",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// Waits for the end of a job: its event stream ends when it does.
async fn ended(server: &Running, started: &Value) -> (Value, String) {
    let job = started["job_id"].as_str().unwrap();
    let events = server.get(&format!("/v1/jobs/{job}/events")).await.text;
    (server.get(&format!("/v1/jobs/{job}")).await.ok(200), events)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_research_is_a_job_with_an_event_for_each_round() {
    let server = start_with(Options {
        research: format!("notes=local:{}, arxiv", heat_pumps()),
        ..Options::default()
    })
    .await;
    let names = server.get("/v1/research/sources").await.ok(200);
    assert_eq!(names["sources"], json!(["notes", "arxiv"]));
    let body = json!({"task": "how do heat pumps cope with cold climates", "source": "notes"});
    let started = server.post("/v1/research/runs", &body).await.ok(202);
    assert_eq!(started["kind"], json!("research_run"));
    let (done, events) = ended(&server, &started).await;
    assert_eq!(done["state"], json!("done"), "{done}");
    let progress = &done["progress"];
    assert_eq!(progress["kind"], json!("research"));
    assert_eq!(progress["run_id"], done["result"]["run_id"]);
    let rounds = progress["done"].as_u64().unwrap();
    assert!(
        rounds >= 2 && events.matches("event: progress").count() as u64 > rounds,
        "{events}"
    );
    let run = done["result"]["run_id"].as_str().unwrap();
    let kept = server.get(&format!("/v1/research/runs/{run}")).await.ok(200);
    assert_eq!(kept["rounds"].as_array().unwrap().len() as u64, rounds);
    assert!(!kept["report"]["sources"].as_array().unwrap().is_empty());
    assert!(
        kept["rounds"][0]["verdict"]["novelty"].is_number(),
        "{}",
        kept["rounds"][0]
    );
    // Local paths are visible only to the operator of the server.
    let listed = server.get("/v1/research/runs?limit=1").await;
    assert_eq!(listed.json()["runs"][0]["source"], json!("notes"));
    for text in [listed.text, kept.to_string(), done.to_string(), events] {
        assert!(!text.contains(&heat_pumps()), "{text}");
    }
    // It has ended, so it cannot be resumed.
    let again = server.post("/v1/research/runs", &json!({"resume": run})).await;
    assert_eq!(again.status, 409, "{}", again.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn research_uses_only_listed_sources() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("secret.md"), "the launch code is 0000").unwrap();
    let secret = folder.path().display().to_string();
    let server = start_with(Options {
        research: format!("notes=local:{}", heat_pumps()),
        ..Options::default()
    })
    .await;
    for source in [
        secret.clone(),
        format!("local:{secret}"),
        "local:.".into(),
        format!("local:{}", heat_pumps()),
        "/etc".into(),
        "command:/bin/sh".into(),
        "mcp:/etc/passwd".into(),
        format!("replay:{secret}/secret.md"),
        "searxng:http://127.0.0.1:1/".into(),
        "searxng:http://169.254.169.254/latest/meta-data".into(),
        "arxiv".into(),
        String::new(),
    ] {
        let body = json!({"task": "what is the launch code", "source": source});
        let answer = server.post("/v1/research/runs", &body).await;
        assert_eq!(answer.status, 422, "{source}: {}", answer.text);
        assert_eq!(answer.json()["hint"], json!("use one of: notes"), "{source}");
        assert!(!answer.text.contains(&heat_pumps()), "{}", answer.text);
    }
    // A run from a terminal, which uses an unlisted source, cannot be resumed either.
    let request = satiety_engine::research::ResearchRequest::new(
        "what is the launch code",
        format!("local:{secret}"),
        satiety_server::http::ResearchAccess::default().reach,
    );
    let stop = satiety_engine::bench::Stop::default();
    stop.stop();
    let begun = server
        .engine
        .research()
        .run(request, &stop, |_| {})
        .await
        .unwrap();
    let body = json!({"resume": begun.report.run_id});
    let answer = server.post("/v1/research/runs", &body).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    assert!(!answer.text.contains(&secret), "{}", answer.text);
    let shown = server
        .get(&format!("/v1/research/runs/{}", begun.report.run_id))
        .await;
    assert_eq!(shown.json()["source"], json!("local"));
    assert!(!shown.text.contains(&secret), "{}", shown.text);
    for body in [
        json!({}),
        json!({"task": "  "}),
        json!({"task": "x".repeat(2001)}),
        json!({"task": "x", "results": 1000}),
        json!({"task": "x", "read_pages": 11}),
        json!({"task": "x", "max_seconds": 1e9}),
        json!({"task": "x", "max_seconds": -1.0}),
        json!({"task": "x", "resume": begun.report.run_id}),
        json!({"task": "x", "allow_private": true}),
        json!({"task": "x", "record": "/tmp/x"}),
    ] {
        let answer = server.post("/v1/research/runs", &body).await;
        assert_eq!(answer.status, 422, "{body}: {}", answer.text);
    }
    let missing = server.post("/v1/research/runs", &json!({"resume": "last"})).await;
    assert_eq!(missing.status, 404, "{}", missing.text);
    // Without a list no source is allowed.
    let closed = start().await;
    let answer = closed.post("/v1/research/runs", &json!({"task": "x"})).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
}

/// A memory with two notes and a corpus of two judged queries.
async fn with_corpus() -> Running {
    let server = start().await;
    let mut lines = Vec::new();
    for (query, title, content) in [
        (
            "why do readers never wait",
            "WAL",
            "Readers never wait for the writer because the log is separate.",
        ),
        (
            "how often do keys rotate",
            "Keys",
            "Signing keys of the gateway rotate every ninety days.",
        ),
    ] {
        let body = json!({"title": title, "content": content});
        let saved = server.post("/v1/memories", &body).await;
        assert!(saved.status < 300, "{}", saved.text);
        let id = saved.json()["memory"]["id"].clone();
        lines.push(
            json!({"queryId": title, "query": query, "judgments": [{"memoryId": id, "relevance": 3}]})
                .to_string(),
        );
    }
    let corpus = server.folder.path().join("corpus.jsonl");
    fs_err::write(&corpus, lines.join("\n")).unwrap();
    let request = ImportCorpusRequest {
        corpus,
        queries: None,
        source: JudgmentSource::Manual,
    };
    server.engine.retrieval().import_corpus(request).await.unwrap();
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn the_corpus_is_replayed_and_runs_are_compared_query_by_query() {
    let empty = start().await;
    let started = empty.post("/v1/retrieval/runs", &json!({})).await.ok(202);
    let (failed, _) = ended(&empty, &started).await;
    assert_eq!(failed["state"], json!("failed"));
    assert!(
        failed["error"].as_str().unwrap().contains("no queries"),
        "{failed}"
    );

    let server = with_corpus().await;
    let mut runs = Vec::new();
    for body in [
        json!({}),
        json!({"baseline": "last", "fail_if_worse": 0.5, "depth": 5, "mode": "quick",
            "pipeline": {"fusion": {"reciprocal_rank": {"k": 10}}}}),
    ] {
        let started = server.post("/v1/retrieval/runs", &body).await.ok(202);
        assert_eq!(started["kind"], json!("retrieval_run"));
        let (done, events) = ended(&server, &started).await;
        assert_eq!(done["state"], json!("done"), "{done}");
        assert_eq!(
            done["progress"],
            json!({"kind": "retrieval", "done": 2, "planned": 2, "failed": 0})
        );
        assert!(events.contains("event: progress"), "{events}");
        runs.push(done["result"]["run_id"].as_str().unwrap().to_owned());
    }
    let listed = server.get("/v1/retrieval/runs?limit=1").await.ok(200);
    assert_eq!(listed["runs"][0]["run_id"], json!(runs[1]));
    assert_eq!(listed["runs"][0]["control_run_id"], json!(runs[0]));
    let cursor = listed["next_cursor"].as_str().unwrap();
    let rest = server
        .get(&format!("/v1/retrieval/runs?limit=1&cursor={cursor}"))
        .await
        .ok(200);
    assert_eq!(rest["runs"][0]["run_id"], json!(runs[0]));
    let whole = server
        .get(&format!("/v1/retrieval/runs/{}", runs[0]))
        .await
        .ok(200);
    assert_eq!(whole["by_query"]["WAL"]["mrr@10"], json!(1.0), "{whole}");
    assert_eq!(
        whole["report"]["metrics"]["ndcg@10"]["mean"],
        json!(1.0),
        "{whole}"
    );
    let path = format!("/v1/retrieval/runs/{}/changes", runs[1]);
    for query in ["", "?measure=mrr@10", &format!("?against={}", runs[0])] {
        let changes = server.get(&format!("{path}{query}")).await.ok(200);
        assert_eq!(
            (&changes["before"], &changes["now"]),
            (&json!(runs[0]), &json!(runs[1]))
        );
        assert_eq!(
            changes["queries"][1]["query"],
            json!("why do readers never wait"),
            "{changes}"
        );
    }
    for (path, status) in [
        (format!("{path}?measure=beauty"), 422),
        (format!("{path}?against=none"), 404),
        (format!("/v1/retrieval/runs/{}/changes", runs[0]), 404),
        ("/v1/retrieval/runs/none".into(), 404),
        ("/v1/retrieval/runs?cursor=none".into(), 422),
    ] {
        let answer = server.get(&path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
    // Remote callers can only evaluate the memory.
    for body in [
        json!({"http": "http://127.0.0.1:1/"}),
        json!({"mcp": "sh -c true"}),
        json!({"documents": "/etc/passwd"}),
        json!({"depth": 0}),
        json!({"fail_if_worse": 0.1}),
        json!({"pipeline": {"nonsense": 1}}),
    ] {
        let answer = server.post("/v1/retrieval/runs", &body).await;
        assert_eq!(answer.status, 422, "{body}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_is_started_monitored_and_ended() {
    let server = with_corpus().await;
    let feature = json!({"feature_id": "rrf", "description": "another way to fuse", "shadow_percent": 100.0,
        "pipeline": {"fusion": {"reciprocal_rank": {"k": 10}}}});
    let started = server.post("/v1/ab", &feature).await.ok(201);
    assert_eq!(started["status"], json!("running"));
    assert_eq!(server.post("/v1/ab", &feature).await.status, 409);
    let listed = server.get("/v1/ab").await.ok(200);
    assert_eq!(listed["features"][0]["feature_id"], json!("rrf"));
    // Too few judged queries for a proposal: nothing is started.
    let proposed = server
        .post("/v1/ab-proposals", &json!({"start": "learnt"}))
        .await
        .ok(200);
    assert_eq!(
        (&proposed["verdict"], &proposed["started"]),
        (&json!("not_enough_evidence"), &Value::Null)
    );
    assert_eq!(
        server
            .post("/v1/ab-proposals", &json!({"begin": "x"}))
            .await
            .status,
        422
    );
    let post = async |path: &str, body: Value| server.post(&format!("/v1/ab/rrf/{path}"), &body).await;
    let rolled = post("rollout", json!({"rollout_percent": 20.0})).await.ok(200);
    assert_eq!(rolled["feature"]["rollout_percent"], json!(20.0));
    assert_eq!(
        post("rollout", json!({"rollout_percent": 200.0})).await.status,
        422
    );
    assert_eq!(
        post("pause", json!({"reason": "release week"})).await.ok(200)["status"],
        json!("paused")
    );
    assert_eq!(post("pause", json!({})).await.status, 409);
    assert_eq!(
        post("resume", json!({})).await.ok(200)["status"],
        json!("running")
    );
    // The checklist has not passed, so it does not graduate for any caller, and no option overrides that.
    let checked = post("graduate", json!({"reason": "I want it"})).await.ok(200);
    assert_eq!(checked["graduated"], json!(false), "{checked}");
    assert_eq!(checked["status"], json!("running"), "{checked}");
    assert_eq!(post("graduate", json!({"force": true})).await.status, 422);
    let checked = Answer::of(
        server
            .request(reqwest::Method::POST, "/v1/ab/rrf/check")
            .send()
            .await
            .unwrap(),
    )
    .await
    .ok(200);
    assert!(checked["corpus"].is_object(), "{checked}");
    let status = server.get("/v1/ab/rrf").await.ok(200);
    assert_eq!(status["checklist"]["verdict"], checked["checklist"]["verdict"]);
    assert!(status["test"]["upper_bound"].is_number(), "{status}");
    assert_eq!(post("rollback", json!({})).await.status, 409);
    assert_eq!(
        post("reject", json!({"reason": "no"})).await.ok(200)["status"],
        json!("rejected")
    );
    assert_eq!(server.get("/v1/ab/none").await.status, 404);
    for bad in [
        json!({"feature_id": "a b", "pipeline": {}}),
        json!({"feature_id": "x", "pipeline": {"nonsense": 1}}),
        json!({"feature_id": "x", "pipeline": "/etc/passwd"}),
        json!({"feature_id": "x", "pipeline": {}, "alpha": 7.0}),
    ] {
        let answer = server.post("/v1/ab", &bad).await;
        assert_eq!(answer.status, 422, "{bad}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn read_and_write_scopes_start_no_runs() {
    let server = start_with(Options {
        access: Access::Tokens,
        research: format!("notes=local:{}", heat_pumps()),
        ..Options::default()
    })
    .await;
    let feature = json!({"feature_id": "x", "pipeline": {"fusion": {"reciprocal_rank": {"k": 10}}}});
    let bodies = [
        ("/v1/research/runs", json!({"task": "heat pumps"}), 202),
        ("/v1/retrieval/runs", json!({}), 202),
        ("/v1/ab", feature, 201),
        ("/v1/ab/x/pause", json!({}), 200),
        ("/v1/ab/x/graduate", json!({}), 200),
    ];
    for (scope, look, started) in [
        (Scope::Read, 200, None),
        (Scope::Write, 200, None),
        (Scope::Admin, 200, Some(())),
    ] {
        let token = server.token(scope).await;
        for path in [
            "/v1/research/runs",
            "/v1/research/sources",
            "/v1/retrieval/runs",
            "/v1/ab",
        ] {
            let answer = server.request(reqwest::Method::GET, path).bearer_auth(&token);
            assert_eq!(answer.send().await.unwrap().status(), look, "{path}");
        }
        for (path, body, fine) in &bodies {
            let answer = server
                .request(reqwest::Method::POST, path)
                .bearer_auth(&token)
                .json(body);
            let status = answer.send().await.unwrap().status().as_u16();
            // The corpus is empty, so the checklist cannot be measured.
            let expected = if started.is_none() { 403 } else { *fine };
            assert!(
                status == expected || (path.ends_with("graduate") && started.is_some() && status == 422),
                "{path}: {status}"
            );
        }
    }
    let answer = server.get("/v1/ab").await;
    assert_eq!(answer.status, 401);
}

/// Cancelled between two rounds, it keeps its rounds and resumes after them.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn research_is_cancelled_and_resumed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("slow.sh");
    let script = "#!/bin/sh\nread -r query\nsleep 0.3\n\
        echo \"[{\\\"title\\\": \\\"$query\\\", \\\"url\\\": \\\"https://a.example/$$\\\", \\\"snippet\\\": \\\"What $query says is new.\\\"}]\"\n";
    fs_err::write(&program, script).unwrap();
    fs_err::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let server = start_with(Options {
        research: format!("slow=command:{}", program.display()),
        ..Options::default()
    })
    .await;
    let gate = json!({"assessor": "claims", "min_rounds": 6, "max_rounds": 6, "threshold": {"score": 3}, "epsilon": 0.0,
        "seed": 1, "look_ahead": null, "grey_zone": 0.1});
    let queries = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];
    let body = json!({"task": "which letters are there", "source": "slow", "queries": queries, "gate": gate});
    let started = server.post("/v1/research/runs", &body).await.ok(202);
    let job = format!("/v1/jobs/{}", started["job_id"].as_str().unwrap());
    let began = std::time::Instant::now();
    while server.get(&job).await.ok(200)["progress"]["done"].as_u64() < Some(2) {
        assert!(began.elapsed().as_secs() < 20, "{}", server.get(&job).await.text);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let stop = server.request(reqwest::Method::POST, &format!("{job}/stop"));
    assert_eq!(stop.send().await.unwrap().status(), 200);
    let (stopped, _) = ended(&server, &started).await;
    assert_eq!(stopped["state"], json!("stopped"), "{stopped}");
    let run = stopped["result"]["run_id"].as_str().unwrap();
    let kept = server.get(&format!("/v1/research/runs/{run}")).await.ok(200);
    let rounds = kept["rounds"].as_array().unwrap().len();
    assert!((2..6).contains(&rounds) && kept["report"].is_null(), "{kept}");
    let again = server
        .post("/v1/research/runs", &json!({"resume": run}))
        .await
        .ok(202);
    let (done, _) = ended(&server, &again).await;
    assert_eq!(done["state"], json!("done"), "{done}");
    assert_eq!(done["result"]["run_id"], json!(run));
    let whole = server.get(&format!("/v1/research/runs/{run}")).await.ok(200);
    assert_eq!(whole["rounds"].as_array().unwrap().len(), 6, "{whole}");
    assert!(whole["report"].is_object());
    assert!(
        !whole.to_string().contains(&folder.path().display().to_string()),
        "{whole}"
    );
}
