//! Rows of every kind for a tenant. All texts contain a word of their own, so that it shows up wherever they do.

use serde_json::{Value, json};

use crate::support::{Running, round};

const SUITE: &str = r#"{"suite_id": "echo", "name": "WORD", "target": "echo", "version": "1.0.0", "cases": [
    {"case_id": "a", "input": {"goal": "hello WORD"}, "expected": {"mode": "contains", "value": "WORD"},
     "tags": ["smoke"], "difficulty": "easy", "source": "synthetic"}]}"#;

/// Writes a suite below the root of a tenant.
pub(super) fn write_suite(root: &std::path::Path, word: &str) {
    fs_err::create_dir_all(root.join("echo")).unwrap();
    fs_err::write(root.join("echo/suite.json"), SUITE.replace("WORD", word)).unwrap();
    fs_err::write(root.join("echo/target.toml"), "type = \"echo\"\n").unwrap();
}

fn text(answer: &Value, field: &str) -> String {
    let found = answer[field].as_str();
    found
        .unwrap_or_else(|| panic!("no {field} in {answer}"))
        .to_owned()
}

/// Seeds the tenant of an admin token; returns the ids of its rows. `root` says whether it has a suite.
pub(super) async fn seed(server: &Running, token: &str, word: &str, root: bool) -> Vec<String> {
    let prefix = word.to_lowercase();
    let mut ids = Vec::new();
    let conversation = format!("talk-{prefix}");
    let body = json!({"conversation_id": conversation, "topic": word,
        "rounds": [round(1, &[&format!("{word} is the claim")])]});
    server.post_as(token, "/v1/conversations", &body).await.ok(201);
    let label = json!({"annotator": word, "signal": "SHIP"});
    let path = format!("/v1/conversations/{conversation}/labels");
    server.post_as(token, &path, &label).await;
    ids.push(conversation);
    let run = format!("agent-{prefix}");
    let messages = json!({"messages": [
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": format!("{{\"command\": \"{word}\"}}")}}]},
        {"role": "tool", "tool_call_id": "c1", "content": word}]});
    let path = format!("/v1/conversations/{run}/messages");
    server.post_as(token, &path, &messages).await.ok(201);
    ids.push(run);
    for title in ["first", "second"] {
        let memory =
            json!({"title": format!("{title} {word}"), "content": format!("{word} in the {title} memory")});
        let saved = server.post_as(token, "/v1/memories", &memory).await.ok(201);
        ids.push(text(&saved["memory"], "id"));
    }
    let searched = json!({"query": format!("what is {word}"), "session": format!("session-{prefix}")});
    let found = server
        .post_as(token, "/v1/memory/search", &searched)
        .await
        .ok(200);
    assert!(found.to_string().contains(word), "{found}");
    ids.push(text(&found, "query_id"));
    ids.push(format!("session-{prefix}"));
    ids.extend(eviction(server, token, word, &prefix).await);
    let feature = json!({"feature_id": format!("feature-{prefix}"), "description": word, "shadow_percent": 100.0,
        "pipeline": {"fusion": {"reciprocal_rank": {"k": 10}}}});
    server.post_as(token, "/v1/ab", &feature).await.ok(201);
    ids.push(format!("feature-{prefix}"));
    let job = server
        .post_as(token, "/v1/retrieval/runs", &json!({}))
        .await
        .ok(202);
    let job = text(&job, "job_id");
    // The event stream ends when the job does.
    server.get_as(token, &format!("/v1/jobs/{job}/events")).await;
    ids.push(job);
    let created = json!({"name": format!("spare {word}"), "scope": "read"});
    let created = server.post_as(token, "/v1/tokens", &created).await.ok(201);
    ids.push(text(&created, "token_id"));
    if root {
        ids.extend(bench(server, token, word).await);
    }
    ids
}

async fn eviction(server: &Running, token: &str, word: &str, prefix: &str) -> Vec<String> {
    let scope = format!("context-{prefix}");
    let add: Vec<Value> = (0..6)
        .map(|number| {
            json!({"ctx_id": format!("{prefix}-{number}"), "zone": "workspace", "kind": "tool_result",
                "content": format!("{word} ").repeat(50), "token_count": 100})
        })
        .collect();
    let update = json!({"scope_id": scope, "turn": 1, "goal": word, "add": add});
    server
        .post_as(token, "/v1/eviction/scopes", &update)
        .await
        .ok(200);
    let propose =
        json!({"scope_id": scope, "free_tokens": 200, "seed": 1, "exploration": 0.0, "timeout_ms": 60000});
    let proposed = server
        .post_as(token, "/v1/eviction/propose", &propose)
        .await
        .ok(200);
    vec![scope, text(&proposed, "proposal_id")]
}

async fn bench(server: &Running, token: &str, word: &str) -> Vec<String> {
    let started = json!({"suite": "echo"});
    let started = server.post_as(token, "/v1/bench/runs", &started).await.ok(202);
    let job = text(&started, "job_id");
    // The event stream ends when the job does.
    server.get_as(token, &format!("/v1/jobs/{job}/events")).await;
    let done = server.get_as(token, &format!("/v1/jobs/{job}")).await.ok(200);
    assert_eq!(done["state"], json!("done"), "{done}");
    let run = text(&done["result"], "run_id");
    let note = json!({"author": word, "note": format!("{word} was here")});
    let path = format!("/v1/bench/runs/{run}/notes");
    server.post_as(token, &path, &note).await.ok(201);
    vec![job, run, "echo".into()]
}
