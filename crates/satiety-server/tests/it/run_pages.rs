//! Dashboard pages of agents' runs.

use serde_json::{Value, json};

use crate::support::start;

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
    assert_eq!(server.get("/progress/missing").await.status, 404);
    let overview = server.get("/").await.text;
    assert!(
        overview.contains("stuck") && overview.contains("Agent runs"),
        "{overview}"
    );
}
