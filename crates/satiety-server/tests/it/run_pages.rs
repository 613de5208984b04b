//! Dashboard pages of agents' runs and conversations.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::support::{round, start};

/// An agent that reads a file and then runs the same failing test again and again.
fn looping_run() -> Value {
    let call = |tool: &str, arguments: Value, result: &str, exit_code: i64| json!({"tool": tool, "arguments": arguments, "result": {"content": result, "exit_code": exit_code}});
    let mut steps = vec![
        json!({"text": "I read the module first.", "calls": [call("read_file", json!({"path": "src/app.py"}), "import parser", 0)]}),
    ];
    for round in 0..7 {
        let test = call(
            "bash",
            json!({"command": "pytest tests/test_app.py"}),
            "E   ImportError: <parser>",
            1,
        );
        steps.push(json!({"calls": [test], "usage": {"tokens": 2000 + 100 * round}}));
    }
    json!({ "messages": steps })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_run_has_pages() {
    let server = start().await;
    let empty = server.get("/progress").await;
    assert_eq!(empty.status, 200);
    assert!(empty.text.contains("No agent runs yet."), "{}", empty.text);
    server
        .post("/v1/conversations/fix-import/messages", &looping_run())
        .await
        .ok(201);
    let list = server.get("/progress").await;
    for part in [
        "<a href=\"/progress/fix-import\">fix-import</a>",
        "ESCALATE",
        "just now",
    ] {
        assert!(list.text.contains(part), "{part}: {}", list.text);
    }
    let run = server.get("/progress/fix-import").await;
    assert_eq!(run.status, 200);
    for part in [
        "ESCALATE.",
        "Level by step",
        "Tokens by step",
        "<tr id=\"step-8\">",
        "same action and outcome as <a href=\"#step-",
        "exit 1: E   ImportError: &lt;parser&gt;",
    ] {
        assert!(run.text.contains(part), "{part}: {}", run.text);
    }
    assert_eq!(server.get("/progress/fix-import?from=4").await.status, 200);
    assert_eq!(server.get("/progress/fix-import?from=x").await.status, 400);
    for missing in [
        "/progress/missing",
        "/memory/missing",
        "/ab/missing",
        "/research/missing",
    ] {
        let page = server.get(missing).await;
        assert_eq!(page.status, 404, "{missing}: {}", page.text);
        assert!(
            page.text.contains("<h1>Not found</h1>"),
            "{missing}: {}",
            page.text
        );
    }
    let overview = server.get("/").await.text;
    assert!(
        overview.contains("stuck") && overview.contains("Agent runs"),
        "{overview}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn long_conversations_are_shown_in_parts() {
    let server = start().await;
    let rounds = |numbers: RangeInclusive<u32>| -> Vec<Value> {
        numbers
            .map(|number| round(number, &["the queue is durable"]))
            .collect()
    };
    let begin = json!({"conversation_id": "long", "rounds": rounds(1..=100)});
    server.post("/v1/conversations", &begin).await.ok(201);
    let more = json!({"rounds": rounds(101..=200)});
    server.post("/v1/conversations/long/rounds", &more).await.ok(201);
    let all = server.get("/conversations/long").await.text;
    assert!(!all.contains("Earlier rounds"), "{all}");
    let more = json!({"rounds": rounds(201..=205)});
    server.post("/v1/conversations/long/rounds", &more).await.ok(201);
    let last = server.get("/conversations/long").await.text;
    for part in [
        "Rounds 6 to 205 of 205.",
        "/conversations/long?from=1\">Earlier rounds",
        "Round 205,",
    ] {
        assert!(last.contains(part), "{part}: {last}");
    }
    assert!(!last.contains("Round 5,"), "{last}");
    let first = server.get("/conversations/long?from=1").await.text;
    for part in [
        "Rounds 1 to 200 of 205.",
        "/conversations/long?from=201\">Later rounds",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
}
