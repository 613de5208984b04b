//! Agents at work, reported message by message.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Running, start};

/// A call and its result as OpenAI messages.
fn call(number: usize, tool: &str, arguments: &Value, result: &str) -> Vec<Value> {
    let id = format!("call-{number}");
    vec![
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}}]}),
        json!({"role": "tool", "tool_call_id": id, "content": result}),
    ]
}

/// Appends calls one by one and returns the signal after each.
async fn signals(server: &Running, run: &str, calls: Vec<Vec<Value>>) -> Vec<String> {
    let mut signals = Vec::new();
    for messages in calls {
        let path = format!("/v1/conversations/{run}/messages");
        let answer = server.post(&path, &json!({"messages": messages})).await.ok(201);
        signals.push(answer["signal"].as_str().unwrap().to_owned());
    }
    signals
}

fn first_stop(signals: &[String]) -> Option<usize> {
    signals
        .iter()
        .position(|signal| signal == "STOP" || signal == "ESCALATE")
        .map(|index| index + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_with_the_same_result_is_stopped() {
    let server = start().await;
    let calls = (0..12).map(|number| call(number, "bash", &json!({"command": "ls"}), "a.py b.py c.py"));
    let signals = signals(&server, "same", calls.collect()).await;
    assert!(first_stop(&signals).is_some_and(|step| step <= 4), "{signals:?}");
    assert!(!signals.contains(&"SHIP".to_owned()));
    let run = server.get("/v1/progress/same").await.ok(200);
    assert_eq!(run["signal_by_step"].as_array().unwrap().len(), 12);
    assert_eq!(run["first_stop_step"], json!(first_stop(&signals)));
    assert_eq!(run["kind"], "work");
    assert_eq!(run["actions"][0]["calls"][0]["tool"], "bash");
    let list = server.get("/v1/progress").await.ok(200);
    assert_eq!(list["runs"][0]["conversation_id"], "same");
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_arguments_with_the_same_result_are_stopped() {
    let server = start().await;
    let calls = (0..20).map(|number| {
        call(
            number,
            "search",
            &json!({"query": format!("attempt {number}")}),
            "No results were found for this query.",
        )
    });
    let signals = signals(&server, "stagnation", calls.collect()).await;
    assert!(first_stop(&signals).is_some_and(|step| step <= 5), "{signals:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_alternating_calls_are_stopped() {
    let server = start().await;
    let calls = (0..16).map(|number| match number % 2 {
        0 => call(
            number,
            "read_file",
            &json!({"path": "a.py"}),
            "def a(): return b()",
        ),
        _ => call(
            number,
            "read_file",
            &json!({"path": "b.py"}),
            "def b(): return a()",
        ),
    });
    let signals = signals(&server, "cycle", calls.collect()).await;
    assert!(first_stop(&signals).is_some_and(|step| step <= 8), "{signals:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_and_productive_work_go_on() {
    let server = start().await;
    let polling = (0..15).map(|number| {
        call(
            number,
            "bash",
            &json!({"command": "gh run view 7"}),
            &format!("{number} of 15 jobs are done"),
        )
    });
    let polling = signals(&server, "polling", polling.collect()).await;
    assert!(polling.iter().all(|signal| signal == "CONTINUE"), "{polling:?}");
    let work = (0..15).map(|number| {
        call(
            number,
            "read_file",
            &json!({"path": format!("src/{number}.rs")}),
            &format!("pub fn f{number}() {{}}"),
        )
    });
    let work = signals(&server, "work", work.collect()).await;
    assert!(work.iter().all(|signal| signal == "CONTINUE"), "{work:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_in_another_process() {
    let server = start().await;
    let same = |number| {
        call(
            number,
            "bash",
            &json!({"command": "make"}),
            "make: *** no rule to make target `x`. Stop.",
        )
    };
    signals(&server, "shared", (0..3).map(same).collect()).await;
    // Another engine on the same database has seen none of the messages.
    let other = crate::support::engine(server.folder.path());
    let request = serde_json::from_value(json!({
        "conversation_id": "shared",
        "messages": (3..6).flat_map(same).collect::<Vec<_>>(),
    }));
    let appended = other.progress().append_messages(request.unwrap()).await.unwrap();
    assert_eq!((appended.steps, appended.messages), (6, 12));
    assert!(appended.signal.stops());
    // The first server notices that its judge is out of date.
    let answer = server
        .post("/v1/conversations/shared/messages", &json!({"messages": same(6)}))
        .await
        .ok(201);
    assert_eq!(answer["steps"], 7);
    assert_eq!(answer["signal"], "ESCALATE");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_messages_are_all_stored() {
    let server = start().await;
    let senders: Vec<_> = (0..12)
        .map(|number| {
            let body =
                json!({"messages": call(number, "bash", &json!({"command": format!("cat {number}")}), "x")});
            let request = server
                .request(Method::POST, "/v1/conversations/c/messages")
                .json(&body);
            tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
        })
        .collect();
    for sender in senders {
        assert_eq!(sender.await.unwrap(), 201);
    }
    let run = server.get("/v1/progress/c").await.ok(200);
    assert_eq!(run["signal_by_step"].as_array().unwrap().len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_shapes_and_odd_messages_are_read() {
    let server = start().await;
    let anthropic = json!({"messages": [
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": [{"type": "text", "text": "Running."},
            {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "make"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": false}]},
        {"unknown": true},
    ]});
    let answer = server
        .post("/v1/conversations/a/messages", &anthropic)
        .await
        .ok(201);
    assert_eq!(
        (&answer["steps"], &answer["skipped"]["count"]),
        (&json!(1), &json!(1)),
        "{answer}"
    );
    let judged = server
        .post("/v1/progress", &json!({"log": anthropic["messages"]}))
        .await
        .ok(200);
    assert_eq!(judged["runs"][0]["kind"], "work");
    for body in [
        json!({"messages": []}),
        json!({"messages": "x"}),
        json!({}),
        json!({"messages": [1]}),
    ] {
        let status = server.post("/v1/conversations/a/messages", &body).await.status;
        assert!(status == 422 || status == 400, "{body}: {status}");
    }
    assert_eq!(server.get("/v1/progress/none").await.status, 404);
    assert_eq!(
        server
            .post("/v1/progress", &json!({"log": {"x": 1}}))
            .await
            .status,
        422
    );
}
