//! Provenance, filters, duplicates and validity over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Running, start};

async fn send(server: &Running, method: Method, path: &str, body: Value) -> Answer {
    Answer::of(server.request(method, path).json(&body).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_and_marks_are_part_of_the_api() {
    let server = start().await;
    let memory = |title: &str, content: &str, more: Value| {
        let mut body = json!({"title": title, "content": content});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let save = |body: Value| send(&server, Method::POST, "/v1/memories", body);
    let old = memory(
        "Lock",
        "The lock timeout is 10 seconds.",
        json!({"tags": ["db"], "observed_at": "2020-01-01"}),
    );
    let old = save(old).await.ok(201);
    let new = memory(
        "Lock",
        "The lock timeout is 30 seconds.",
        json!({"author": "Ada"}),
    );
    let new = save(new).await.ok(201);
    assert_eq!(new["conflicts"][0]["id"], old["memory"]["id"], "{new}");
    assert_eq!(new["conflicts"][0]["suggested_link"], "supersedes");
    let link = json!({"from": new["memory"]["id"], "kind": "supersedes", "to": old["memory"]["id"]});
    send(&server, Method::POST, "/v1/memory/links", link)
        .await
        .ok(200);
    let search = |filter: Value, as_of: Value| {
        let body = json!({"query": "lock timeout", "filter": filter, "as_of": as_of});
        send(&server, Method::POST, "/v1/memory/search", body)
    };
    let found = search(json!({}), Value::Null).await.ok(200);
    assert_eq!(found["results"][0]["id"], new["memory"]["id"], "{found}");
    assert_eq!(
        found["results"][1]["superseded_by"], new["memory"]["id"],
        "{found}"
    );
    let found = search(json!({}), json!("2021-06-01")).await.ok(200);
    assert_eq!(
        found["results"][0]["id"], old["memory"]["id"],
        "the successor was observed later: {found}"
    );
    assert_eq!(found["results"][1]["validity"], "future");
    let found = search(
        json!({"tags": ["db"], "observed_until": "2021-01-01"}),
        Value::Null,
    )
    .await
    .ok(200);
    assert_eq!(found["results"].as_array().unwrap().len(), 1);
    for wrong in [
        json!({"tag": ["db"]}),
        json!({"tiers": ["gold"]}),
        json!({"recorded_from": "soon"}),
    ] {
        assert_eq!(search(wrong.clone(), Value::Null).await.status, 422, "{wrong}");
    }
    let listed = send(
        &server,
        Method::GET,
        "/v1/memories?author=ada&recorded_from=2026-01-01",
        json!({}),
    )
    .await;
    assert_eq!(listed.ok(200)["memories"].as_array().unwrap().len(), 1);
    let twice = memory(
        "Lock",
        "The lock timeout is 30 seconds.",
        json!({"on_duplicate": "reject"}),
    );
    assert_eq!(save(twice).await.status, 409);
    let judged = send(
        &server,
        Method::POST,
        "/v1/retrieval/judgments",
        json!({"rederive": true, "dry_run": true}),
    )
    .await;
    assert!(
        judged.status == 200 || judged.text.contains("harvest"),
        "{}",
        judged.text
    );
}
