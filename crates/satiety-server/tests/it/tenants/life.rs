//! Tenants from creation to deletion: tokens, the same ids in two stores, the registry, open stores.

use std::time::{Duration, Instant};

use reqwest::Method;
use satiety_engine::Engine;
use satiety_engine::tenants::{CreateTenantRequest, UpdateTenantRequest};
use satiety_engine::tokens::Scope;
use satiety_server::http::{Limits, TenantSettings};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{guarded, postgres};
use crate::support::{Answer, Options, Running, engine_on, round, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn the_same_ids_in_two_tenants_are_different_rows() {
    let server = start_with(guarded()).await;
    let mut tokens = Vec::new();
    for name in ["one", "two"] {
        server.tenant(name).await;
        tokens.push((name, server.tenant_token(name, Scope::Write).await));
    }
    let begin = |name: &str| {
        json!({"conversation_id": "same", "topic": format!("topic of {name}"),
            "rounds": [round(1, &[&format!("{name} claims something")])]})
    };
    let requests = tokens.iter().flat_map(|(name, token)| {
        let server = &server;
        let body = begin(name);
        (0..8).map(move |attempt| {
            let request = server
                .request(Method::POST, "/v1/conversations")
                .bearer_auth(token)
                .header("idempotency-key", "the-same-key")
                .json(&body);
            async move { (attempt, Answer::of(request.send().await.unwrap()).await) }
        })
    });
    for (_, answer) in futures_util::future::join_all(requests).await {
        assert!([201, 409].contains(&answer.status), "{}", answer.text);
    }
    for (name, token) in &tokens {
        let found = server.get_as(token, "/v1/conversations/same").await.ok(200);
        assert!(found.to_string().contains(&format!("topic of {name}")), "{found}");
        let again = server
            .request(Method::POST, "/v1/conversations")
            .bearer_auth(token)
            .header("idempotency-key", "the-same-key")
            .json(&begin(name))
            .send()
            .await
            .unwrap();
        let again = Answer::of(again).await;
        assert_eq!(again.header("idempotency-replayed"), "true", "{}", again.text);
        let audit = server.get_as(token, "/v1/audit").await;
        assert_eq!(audit.status, 403, "a write token reads no audit log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_tenant_is_refused_within_the_cache_time() {
    let server = start_with(guarded()).await;
    server.tenant("acme").await;
    let token = server.tenant_token("acme", Scope::Read).await;
    server.get_as(&token, "/v1/health").await.ok(200);
    let change = |enabled| UpdateTenantRequest {
        id: "acme".into(),
        enabled: Some(enabled),
        ..UpdateTenantRequest::default()
    };
    server.engine.tenants().update(change(false)).await.unwrap();
    let began = Instant::now();
    while server.get_as(&token, "/v1/health").await.status != 401 {
        assert!(began.elapsed() < Duration::from_secs(8), "still accepted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    server.engine.tenants().update(change(true)).await.unwrap();
    server.get_as(&token, "/v1/health").await.ok(200);
    server.engine.tenants().delete("acme", true).await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(server.get_as(&token, "/v1/health").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_registry_is_for_admins_of_the_main_store() {
    let server = start_with(guarded()).await;
    let admin = server.token(Scope::Admin).await;
    let create = json!({"name": "acme", "quotas": {"requests_per_day": 1000}});
    let created = server.post_as(&admin, "/v1/tenants", &create).await.ok(201);
    assert_eq!(created["quotas"]["requests_per_day"], json!(1000));
    assert_eq!(server.post_as(&admin, "/v1/tenants", &create).await.status, 409);
    for bad in ["../x", "A", "a_b", ""] {
        let answer = server.post_as(&admin, "/v1/tenants", &json!({"name": bad})).await;
        assert_eq!(answer.status, 422, "{bad}: {}", answer.text);
    }
    let elsewhere = json!({"name": "b", "store_url": "sqlite:/tmp/b.db"});
    assert_eq!(
        server.post_as(&admin, "/v1/tenants", &elsewhere).await.status,
        422
    );
    let of_tenant = server.tenant_token("acme", Scope::Admin).await;
    for (method, path) in [
        (Method::GET, "/v1/tenants"),
        (Method::POST, "/v1/tenants"),
        (Method::PATCH, "/v1/tenants/acme"),
        (Method::DELETE, "/v1/tenants/acme"),
        (Method::GET, "/metrics/tenants"),
        (Method::GET, "/v1/fleet"),
        (Method::GET, "/v1/tenants/other"),
    ] {
        let body = (method == Method::POST || method == Method::PATCH).then(|| json!({"name": "x"}));
        let body = if method == Method::PATCH {
            Some(json!({"enabled": true}))
        } else {
            body
        };
        let answer = server
            .send_as(&of_tenant, method.clone(), path, body.as_ref())
            .await;
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text);
    }
    // It sees itself, and administers its own tokens.
    let seen = server.get_as(&of_tenant, "/v1/tenants/acme").await.ok(200);
    assert_eq!(seen["store"], json!(""), "the location is the operator's");
    let new = json!({"name": "ci", "scope": "write"});
    let key = |token: &str| {
        server
            .request(Method::POST, "/v1/tokens")
            .bearer_auth(token)
            .header("idempotency-key", "k")
            .json(&new)
            .send()
    };
    let first = Answer::of(key(&of_tenant).await.unwrap()).await.ok(201);
    let second = Answer::of(key(&of_tenant).await.unwrap()).await.ok(201);
    assert_ne!(
        first["token"], second["token"],
        "a secret is never stored for replays"
    );
    assert_eq!(first["tenant"], json!("acme"));
    let listed = server.get_as(&of_tenant, "/v1/tokens").await.ok(200);
    let tokens = listed["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 3, "{listed}");
    let all = server.get_as(&admin, "/v1/tokens").await.ok(200);
    let mut main = all["tokens"].as_array().unwrap().iter();
    let main = main.rfind(|token| token.get("tenant").is_none()).unwrap();
    let path = format!("/v1/tokens/{}", main["token_id"].as_str().unwrap());
    let refused = server.send_as(&of_tenant, Method::DELETE, &path, None).await;
    assert_eq!(refused.status, 404, "{}", refused.text);
    let metrics = server.get_as(&admin, "/metrics/tenants").await;
    assert!(
        metrics
            .text
            .contains("satiety_tenant_requests_per_day_quota{tenant=\"acme\"} 1000"),
        "{}",
        metrics.text
    );
    let of_main = server.get_as(&admin, "/metrics").await.text;
    assert!(!of_main.contains("acme"), "labels of tenants are for admins only");
}

/// A caller on loopback without a token may be any program on the machine.
#[tokio::test(flavor = "multi_thread")]
async fn creating_tenants_or_tokens_requires_a_token() {
    let server = start().await;
    let answer = server.post("/v1/tenants", &json!({"name": "acme"})).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    let answer = server
        .post("/v1/tokens", &json!({"name": "x", "scope": "admin"}))
        .await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    // A token of a tenant leads to the tenant, also where none is required.
    server.tenant("acme").await;
    let token = server.tenant_token("acme", Scope::Write).await;
    let memory = json!({"title": "of acme", "content": "only there"});
    server.post_as(&token, "/v1/memories", &memory).await.ok(201);
    assert!(!server.get("/v1/memories").await.text.contains("of acme"));
    assert!(
        server
            .get_as(&token, "/v1/memories")
            .await
            .text
            .contains("of acme")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_a_directory_names_no_files() {
    let root = tempfile::tempdir().unwrap();
    fs_err::write(root.path().join("secret.md"), "the launch code").unwrap();
    let server = start_with(Options {
        root: Some(root.path().to_owned()),
        research: format!("notes=local:{}", root.path().display()),
        ..guarded()
    })
    .await;
    server.tenant("acme").await;
    let token = server.tenant_token("acme", Scope::Admin).await;
    let index = server
        .post_as(&token, "/v1/memory/index", &json!({"folder": "."}))
        .await;
    assert_eq!(index.status, 403, "{}", index.text);
    let run = server
        .post_as(&token, "/v1/bench/runs", &json!({"suite": "echo"}))
        .await;
    assert_eq!(run.status, 403, "{}", run.text);
    let sources = server.get_as(&token, "/v1/research/sources").await.ok(200);
    assert_eq!(sources["sources"], json!([]));
}

async fn open_stores(store: Option<String>) {
    let server = start_with(Options {
        store,
        tenants: TenantSettings {
            max_open: 2,
            idle: Duration::from_millis(1),
            ..TenantSettings::default()
        },
        ..guarded()
    })
    .await;
    let mut tokens = Vec::new();
    for number in 0..5 {
        let name = format!("t{number}");
        server.tenant(&name).await;
        tokens.push(server.tenant_token(&name, Scope::Write).await);
    }
    for turn in 0..3 {
        for (number, token) in tokens.iter().enumerate() {
            let memory = json!({"title": format!("{turn} of t{number}"), "content": format!("turn {turn}")});
            server.post_as(token, "/v1/memories", &memory).await.ok(201);
        }
        // Closes the idle ones.
        tokio::time::sleep(Duration::from_millis(5)).await;
        server.app.synchronize_tenants().await;
    }
    for (number, token) in tokens.iter().enumerate() {
        let listed = server.get_as(token, "/v1/memories").await.ok(200);
        let memories = listed["memories"].as_array().unwrap();
        assert_eq!(memories.len(), 3, "{listed}");
        let own = format!("of t{number}");
        assert!(
            memories
                .iter()
                .all(|memory| memory["title"].as_str().unwrap().ends_with(&own))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_tenants_than_open_stores() {
    open_stores(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_tenants_than_open_stores_on_postgres() {
    if let Some(store) = postgres().await {
        open_stores(Some(store)).await;
    }
}

/// A store belongs to one tenant, whatever the registry says.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_of_another_is_refused() {
    let server = start_with(guarded()).await;
    server.tenant("one").await;
    server.tenant("two").await;
    let url = |server: &Running, file: &str| format!("sqlite:{}", server.folder.path().join(file).display());
    for file in ["store_t_one.db", "store.db"] {
        let moved = UpdateTenantRequest {
            id: "two".into(),
            store_url: Some(url(&server, file)),
            ..UpdateTenantRequest::default()
        };
        let error = server.engine.tenants().update(moved).await.unwrap_err();
        assert_eq!(error.category().http_status(), 409, "{error}");
        let taken = CreateTenantRequest {
            name: "three".into(),
            store_url: Some(url(&server, file)),
            existing: true,
            ..CreateTenantRequest::default()
        };
        let error = server.engine.tenants().create(taken).await.unwrap_err();
        assert_eq!(error.category().http_status(), 409, "{error}");
    }
    assert_eq!(server.engine.tenants().list().await.unwrap().tenants.len(), 2);
    // A kept store can be registered again, also under another name.
    server.engine.tenants().delete("one", false).await.unwrap();
    let without = CreateTenantRequest {
        name: "one".into(),
        ..CreateTenantRequest::default()
    };
    assert!(
        server.engine.tenants().create(without).await.is_err(),
        "not silently"
    );
    let again = CreateTenantRequest {
        name: "renamed".into(),
        store_url: Some(url(&server, "store_t_one.db")),
        existing: true,
        ..CreateTenantRequest::default()
    };
    server.engine.tenants().create(again).await.unwrap();
    let token = server.tenant_token("renamed", Scope::Read).await;
    server.get_as(&token, "/v1/memories").await.ok(200);
}

/// A server that has a tenant open notices that its store is elsewhere, and that it is another tenant with the name.
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_tenant_is_opened_again() {
    let server = start_with(guarded()).await;
    server.tenant("acme").await;
    let token = server.tenant_token("acme", Scope::Write).await;
    let memory = |title: &str| json!({"title": title, "content": title});
    let save = async |token: &str, title: &str| {
        server
            .post_as(token, "/v1/memories", &memory(title))
            .await
            .ok(201);
    };
    save(&token, "before the move").await;
    let place = |file: &str| server.folder.path().join(file);
    let moved = |file: &str| UpdateTenantRequest {
        id: "acme".into(),
        store_url: Some(format!("sqlite:{}", place(file).display())),
        ..UpdateTenantRequest::default()
    };
    let error = server
        .engine
        .tenants()
        .update(moved("typo.db"))
        .await
        .unwrap_err();
    assert_eq!(error.category().http_status(), 409, "{error}");
    assert!(!place("typo.db").exists());
    let url = moved("elsewhere.db").store_url.unwrap();
    let elsewhere = engine_on(&url, server.folder.path());
    elsewhere.database().ping().await.unwrap();
    elsewhere.close().await;
    server
        .engine
        .tenants()
        .update(moved("elsewhere.db"))
        .await
        .unwrap();
    server.app.synchronize_tenants().await;
    let listed = server.get_as(&token, "/v1/memories").await;
    assert!(!listed.text.contains("before the move"), "{}", listed.text);
    save(&token, "after the move").await;
    // Deleted, and created again with the store that it had at first.
    server.engine.tenants().delete("acme", false).await.unwrap();
    server
        .create_tenant(CreateTenantRequest {
            name: "acme".into(),
            existing: true,
            ..CreateTenantRequest::default()
        })
        .await;
    let token = server.tenant_token("acme", Scope::Read).await;
    server.app.synchronize_tenants().await;
    let listed = server.get_as(&token, "/v1/memories").await;
    assert!(listed.text.contains("before the move"), "{}", listed.text);
    assert!(!listed.text.contains("after the move"), "{}", listed.text);
}

/// Requests of one tenant cannot take all permits, whatever they wait for.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_leaves_permits_to_the_others() {
    let server = start_with(Options {
        limits: Limits {
            concurrent: 4,
            headers: Duration::from_secs(20),
            shutdown: Duration::from_secs(5),
            ..Limits::default()
        },
        ..guarded()
    })
    .await;
    server.tenant("slow").await;
    let token = server.tenant_token("slow", Scope::Write).await;
    let main = server.token(Scope::Read).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        // The rest of the body does not arrive.
        let request = format!(
            "POST /v1/memories HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
            server.address
        );
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        held.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.get_as(&main, "/v1/health").await.ok(200);
    drop(held);
}

/// Servers apply the rules of each tenant, also of those without requests.
#[tokio::test(flavor = "multi_thread")]
async fn retention_rules_of_a_tenant_are_applied() {
    const LIMIT: Duration = Duration::from_secs(10);
    let server = start_with(Options {
        tenants: TenantSettings {
            retain_every: Some(Duration::from_millis(200)),
            ..TenantSettings::default()
        },
        ..guarded()
    })
    .await;
    for name in ["one", "two"] {
        server.tenant(name).await;
        let token = server.tenant_token(name, Scope::Read).await;
        let search = json!({"query": "retained words"});
        server.post_as(&token, "/v1/memory/search", &search).await.ok(200);
    }
    let one = server.engine.tenant("one").await.unwrap();
    let two = server.engine.tenant("two").await.unwrap();
    let is_logged = async |engine: &Engine| {
        let mut export = Vec::new();
        engine.database().export(&mut export).await.unwrap();
        String::from_utf8(export).unwrap().contains("retained words")
    };
    // The log is written in the background.
    let began = Instant::now();
    while !is_logged(&one).await || !is_logged(&two).await {
        assert!(began.elapsed() < LIMIT, "not logged");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let rule = "eval_queries=0d".parse().unwrap();
    one.database().set_retention_rules(&[rule]).await.unwrap();
    let began = Instant::now();
    while is_logged(&one).await {
        assert!(began.elapsed() < LIMIT, "still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_logged(&two).await, "the rule is that of another tenant");
    one.close().await;
    two.close().await;
}
