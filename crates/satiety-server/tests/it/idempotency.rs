//! Repeated writes, and unchanged responses.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Running, start};

async fn save(server: &Running, key: &str, title: &str) -> Answer {
    let request = server
        .request(Method::POST, "/v1/memories")
        .header("idempotency-key", key)
        .json(&json!({"title": title, "content": "something"}));
    Answer::of(request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_write_returns_the_first_response() {
    let server = start().await;
    let first = save(&server, "k1", "one").await;
    let again = save(&server, "k1", "one").await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.text, again.text);
    assert_eq!(again.header("idempotency-replayed"), "true");
    let other = save(&server, "k1", "two").await;
    assert_eq!(other.status, 422, "{}", other.text);
    assert_eq!(save(&server, "k2", "one").await.status, 201);
    assert_eq!(
        server.get("/v1/memories").await.ok(200)["memories"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // A refused request does not use up the key.
    assert_eq!(save(&server, "k3", "").await.status, 422);
    assert_eq!(save(&server, "k3", "three").await.status, 201);
    for bad in ["", &"x".repeat(300)] {
        assert_eq!(save(&server, bad, "x").await.status, 400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_duplicates_one_is_executed() {
    let server = start().await;
    let senders: Vec<_> = (0..16)
        .map(|_| {
            let request = server
                .request(Method::POST, "/v1/memories")
                .header("idempotency-key", "same")
                .json(&json!({"title": "once", "content": "something"}));
            tokio::spawn(async move { Answer::of(request.send().await.unwrap()).await })
        })
        .collect();
    let mut answers = Vec::new();
    for sender in senders {
        answers.push(sender.await.unwrap());
    }
    assert!(answers.iter().all(|answer| [201, 409].contains(&answer.status)));
    let done: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert!(!done.is_empty() && done.iter().all(|answer| answer.text == done[0].text));
    assert_eq!(
        server.get("/v1/memories").await.ok(200)["memories"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_responses_are_304() {
    let server = start().await;
    server
        .post("/v1/conversations", &json!({"conversation_id": "c"}))
        .await
        .ok(201);
    let first = server.get("/v1/conversations/c").await;
    let tag = first.header("etag").to_owned();
    assert!(tag.len() > 10, "{tag}");
    let ask = |tag: &str| {
        server
            .request(Method::GET, "/v1/conversations/c")
            .header("if-none-match", tag.to_owned())
            .send()
    };
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".into()] {
        let answer = Answer::of(ask(&known).await.unwrap()).await;
        assert_eq!((answer.status, answer.text.as_str()), (304, ""), "{known}");
        assert_eq!(answer.header("etag"), tag);
    }
    let body = json!({"rounds": [{"round": 1, "outputs": {"claims": ["x is y"]}}]});
    server.post("/v1/conversations/c/rounds", &body).await.ok(201);
    assert_eq!(ask(&tag).await.unwrap().status(), 200);
}
