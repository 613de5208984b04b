//! Restrictions of clients: no rules without an admin token, no other projects by default, limited query length.

use reqwest::Method;
use satiety_engine::tokens::Scope;
use satiety_server::auth::Access;
use serde_json::{Value, json};

use crate::support::{Answer, Options, Running, start, start_with};

async fn send(server: &Running, method: Method, path: &str, token: Option<&str>, body: Value) -> Answer {
    let mut request = server.request(method, path).json(&body);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    Answer::of(request.send().await.unwrap()).await
}

fn rule() -> Value {
    json!({"title": "Rule", "content": "Never force push.", "tier": "constitutional"})
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_need_an_admin_token() {
    let server = start_with(Options {
        access: Access::Tokens,
        ..Options::default()
    })
    .await;
    let (write, admin) = (server.token(Scope::Write).await, server.token(Scope::Admin).await);
    let (write, admin) = (Some(write.as_str()), Some(admin.as_str()));
    let plain = json!({"title": "Plain", "content": "Some text."});
    let plain = send(&server, Method::POST, "/v1/memories", write, plain)
        .await
        .ok(201);
    let plain = format!("/v1/memories/{}", plain["memory"]["id"].as_str().unwrap());
    let refused = send(&server, Method::POST, "/v1/memories", write, rule()).await;
    assert!((400..500).contains(&refused.status), "{}", refused.status);
    assert!(
        refused
            .text
            .contains("only a person may make a memory constitutional"),
        "{}",
        refused.text
    );
    let tier = json!({"tier": "constitutional"});
    assert!(
        send(&server, Method::PATCH, &plain, write, tier.clone())
            .await
            .status
            >= 400
    );
    let wide = json!({"title": "Wide", "content": "For all.", "project": "global"});
    let refused = send(&server, Method::POST, "/v1/memories", write, wide.clone()).await;
    assert!(
        refused.text.contains("only a person may make a memory global"),
        "{}",
        refused.text
    );

    let made = send(&server, Method::POST, "/v1/memories", admin, rule())
        .await
        .ok(201);
    let path = format!("/v1/memories/{}", made["memory"]["id"].as_str().unwrap());
    for (method, body) in [
        (Method::PATCH, json!({"content": "Always force push."})),
        (Method::PATCH, json!({"tier": "temporary"})),
        (Method::DELETE, json!({})),
    ] {
        let refused = send(&server, method, &path, write, body).await;
        assert!(
            refused.text.contains("only a person may change or forget"),
            "{}",
            refused.text
        );
    }
    let shown = send(&server, Method::GET, &path, write, json!({})).await.ok(200);
    assert_eq!(shown["content"], "Never force push.");
    send(&server, Method::PATCH, &plain, admin, tier).await.ok(200);
    send(&server, Method::POST, "/v1/memories", admin, wide)
        .await
        .ok(201);
    send(&server, Method::DELETE, &path, admin, json!({}))
        .await
        .ok(200);
}

/// Without tokens callers are unknown, so none of them is a person.
#[tokio::test(flavor = "multi_thread")]
async fn loopback_without_a_token_cannot_create_rules() {
    let server = start().await;
    let refused = server.post("/v1/memories", &rule()).await;
    assert!(
        refused
            .text
            .contains("only a person may make a memory constitutional"),
        "{}",
        refused.text
    );
    let admin = server.token(Scope::Admin).await;
    send(&server, Method::POST, "/v1/memories", Some(&admin), rule())
        .await
        .ok(201);
    let write = server.token(Scope::Write).await;
    assert!(
        send(&server, Method::POST, "/v1/memories", Some(&write), rule())
            .await
            .status
            >= 400
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn projects_are_isolated() {
    let server = start().await;
    let body =
        json!({"title": "Queue", "content": "swordfish", "triggers": ["queue password"], "project": "a"});
    let saved = server.post("/v1/memories", &body).await.ok(201);
    assert_eq!(saved["memory"]["project"]["label"], "a");
    let path = format!("/v1/memories/{}", saved["memory"]["id"].as_str().unwrap());
    let other = json!({"title": "Other", "content": "else", "project": "b"});
    let other = server.post("/v1/memories", &other).await.ok(201)["memory"]["id"].clone();
    let found = |project: &str| json!({"query": "swordfish", "project": project});
    let results = |answer: &Value| answer["results"].as_array().unwrap().len();
    assert_eq!(
        results(&server.post("/v1/memory/search", &found("b")).await.ok(200)),
        0
    );
    let own = server.post("/v1/memory/search", &found("a")).await.ok(200);
    assert_eq!(
        (results(&own), &own["results"][0]["project"]["label"]),
        (1, &json!("a"))
    );
    assert_eq!(
        results(&server.post("/v1/memory/search", &found("all")).await.ok(200)),
        1
    );
    let id = own["results"][0]["project"]["id"].as_str().unwrap();
    assert_eq!(
        results(&server.post("/v1/memory/search", &found(id)).await.ok(200)),
        1
    );
    let text = json!({"text": "queue password", "project": "b"});
    assert_eq!(
        server.post("/v1/memory/match", &text).await.ok(200)["matches"],
        json!([])
    );
    let listed = server.get("/v1/memories?project=b").await.ok(200);
    assert_eq!(listed["memories"].as_array().unwrap().len(), 1);
    let inside = format!("{path}?project=b");
    assert_eq!(server.get(&inside).await.status, 404);
    assert_eq!(server.get(&format!("{path}?project=a")).await.status, 200);
    for (method, path, body) in [
        (Method::PATCH, inside.clone(), json!({"content": "overwritten"})),
        (Method::DELETE, inside, json!({})),
        (
            Method::POST,
            format!("{path}/validate?project=b"),
            json!({"useful": true}),
        ),
        (
            Method::POST,
            "/v1/memory/links".into(),
            json!({"from": other, "kind": "caused",
            "to": saved["memory"]["id"], "project": "b"}),
        ),
    ] {
        let refused = send(&server, method, &path, None, body).await;
        assert_eq!(refused.status, 404, "{}", refused.text);
    }
    assert_eq!(server.get(&path).await.ok(200)["content"], "swordfish");
    for bad in ["", " ", &"x".repeat(400)] {
        assert_eq!(server.post("/v1/memory/search", &found(bad)).await.status, 422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn query_length_is_limited() {
    let server = start().await;
    let huge = "lorem ".repeat(300_000);
    for (path, body) in [
        ("/v1/memory/search", json!({"query": huge})),
        ("/v1/memory/search", json!({"query": "x", "session": huge})),
        ("/v1/memory/search", json!({"query": "x", "folder": huge})),
        ("/v1/memory/match", json!({"text": huge})),
    ] {
        let refused = server.post(path, &body).await;
        assert!((400..500).contains(&refused.status), "{path}: {}", refused.status);
        assert!(
            refused.text.contains("too long") && refused.text.len() < 2000,
            "{path}: {}",
            refused.text.len()
        );
    }
}
