//! Server-sent events: verdicts as they are made, and nothing lost between two connections.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Running, round, start};

/// Reads events until this many verdicts arrived.
async fn verdicts(response: &mut Response, count: usize) -> Vec<(i64, Value)> {
    let mut text = String::new();
    let mut found = Vec::new();
    while found.len() < count {
        let chunk = tokio::time::timeout(Duration::from_secs(10), response.chunk()).await;
        let chunk = chunk.unwrap().unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        found = text
            .split("\n\n")
            .filter(|event| event.contains("event: verdict") && event.contains("data: "))
            .map(|event| {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                (
                    field("id: ").parse().unwrap(),
                    serde_json::from_str(field("data: ")).unwrap(),
                )
            })
            .collect();
    }
    found
}

async fn add(server: &Running, number: u32) {
    let body = json!({"rounds": [round(number, &["The cache is cold after every deploy."])]});
    server.post("/v1/conversations/c/rounds", &body).await.ok(201);
}

async fn listen(server: &Running, last: Option<i64>) -> Response {
    let mut request = server.request(Method::GET, "/v1/conversations/c/events");
    if let Some(last) = last {
        request = request.header("last-event-id", last.to_string());
    }
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_are_streamed_and_replayed_after_a_reconnect() {
    let server = start().await;
    server
        .post("/v1/conversations", &json!({"conversation_id": "c"}))
        .await
        .ok(201);
    add(&server, 1).await;
    let mut stream = listen(&server, None).await;
    let first = verdicts(&mut stream, 1).await;
    assert_eq!((first[0].0, &first[0].1["signal"]), (1, &json!("CONTINUE")));
    let ((), live) = tokio::join!(add(&server, 2), verdicts(&mut stream, 1));
    assert_eq!(live[0].0, 2);
    drop(stream);
    add(&server, 3).await;
    add(&server, 4).await;
    let mut stream = listen(&server, Some(2)).await;
    let missed: Vec<i64> = verdicts(&mut stream, 2).await.iter().map(|(id, _)| *id).collect();
    assert_eq!(missed, [3, 4]);
    let bad = server
        .request(Method::GET, "/v1/conversations/c/events")
        .header("last-event-id", "x")
        .send();
    assert_eq!(bad.await.unwrap().status(), 400);
}
