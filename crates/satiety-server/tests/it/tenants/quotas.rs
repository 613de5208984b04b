//! Quotas: what is refused, what still works, and how several servers add up.

use std::time::{Duration, Instant};

use reqwest::Method;
use satiety::quota::Quotas;
use satiety_engine::tenants::{CreateTenantRequest, UpdateTenantRequest};
use satiety_engine::tokens::Scope;
use serde_json::json;

use super::{guarded, postgres};
use crate::support::{Options, Running, start_with};

async fn limited(quotas: Quotas, store: Option<String>) -> (Running, String) {
    let server = start_with(Options { store, ..guarded() }).await;
    server
        .create_tenant(CreateTenantRequest {
            name: "acme".into(),
            quotas,
            ..CreateTenantRequest::default()
        })
        .await;
    let token = server.tenant_token("acme", Scope::Admin).await;
    (server, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_limited_per_minute_and_per_day() {
    let quotas = Quotas {
        requests_per_minute: Some(3),
        ..Quotas::default()
    };
    let (server, token) = limited(quotas, None).await;
    for _ in 0..3 {
        server.get_as(&token, "/v1/health").await.ok(200);
    }
    let refused = server.get_as(&token, "/v1/health").await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    assert!(refused.text.contains("requests_per_minute"), "{}", refused.text);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // The main store and other tenants have their own quotas.
    let main = server.token(Scope::Read).await;
    server.get_as(&main, "/v1/health").await.ok(200);
    let quotas = Quotas {
        requests_per_day: Some(4),
        ..Quotas::default()
    };
    change(&server, quotas).await;
    server.get_as(&token, "/v1/health").await.ok(200);
    let refused = server.get_as(&token, "/v1/health").await;
    assert_eq!(refused.status, 429);
    assert!(refused.text.contains("requests_per_day"), "{}", refused.text);
    server.app.synchronize_tenants().await;
    let report = server.engine.tenants().report("acme").await.unwrap();
    assert_eq!(report.tenant.usage.requests, 4, "refused requests do not count");
    assert_eq!(report.days.len(), 1);
}

async fn two_servers(store: String) {
    let quotas = Quotas {
        requests_per_day: Some(6),
        ..Quotas::default()
    };
    let (first, token) = limited(quotas, Some(store.clone())).await;
    let second = start_with(Options {
        store: Some(store),
        ..guarded()
    })
    .await;
    for _ in 0..3 {
        first.get_as(&token, "/v1/health").await.ok(200);
    }
    first.app.synchronize_tenants().await;
    for _ in 0..3 {
        second.get_as(&token, "/v1/health").await.ok(200);
    }
    assert_eq!(second.get_as(&token, "/v1/health").await.status, 429);
    second.app.synchronize_tenants().await;
    first.app.synchronize_tenants().await;
    assert_eq!(first.get_as(&token, "/v1/health").await.status, 429);
    let report = first.engine.tenants().report("acme").await.unwrap();
    assert_eq!(report.tenant.usage.requests, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_add_up() {
    let folder = tempfile::tempdir().unwrap();
    two_servers(format!("sqlite:{}", folder.path().join("main.db").display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_add_up_on_postgres() {
    if let Some(store) = postgres().await {
        two_servers(store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("main.db").display());
    let (mut server, token) = limited(Quotas::default(), Some(store.clone())).await;
    for _ in 0..5 {
        server.get_as(&token, "/v1/health").await.ok(200);
    }
    // The shutdown sends what was counted since the last synchronization.
    assert!(server.end().await.unwrap());
    server.engine.close().await;
    let server = start_with(Options {
        store: Some(store),
        ..guarded()
    })
    .await;
    let usage = server.get_as(&token, "/v1/usage").await.ok(200);
    assert_eq!(usage["usage"]["requests"], json!(5), "{usage}");
}

/// Changes the quotas of the tenant.
async fn change(server: &Running, quotas: Quotas) {
    let change = UpdateTenantRequest {
        id: "acme".into(),
        quotas: Some(quotas),
        ..UpdateTenantRequest::default()
    };
    server.engine.tenants().update(change).await.unwrap();
    server.app.synchronize_tenants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn model_work_needs_model_tokens() {
    let quotas = Quotas {
        model_tokens_per_day: Some(0),
        ..Quotas::default()
    };
    let (server, token) = limited(quotas, None).await;
    let messages = json!([{"role": "user", "content": "Is the release ready?"},
        {"role": "assistant", "content": "The release is ready."}]);
    let sorted = json!({"conversation": messages, "extract": "model"});
    let refused = server.post_as(&token, "/v1/score", &sorted).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    assert!(refused.text.contains("model_tokens_per_day"), "{}", refused.text);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    // Without a model, scoring works.
    let ruled = json!({"conversation": messages});
    server.post_as(&token, "/v1/score", &ruled).await.ok(200);
    change(&server, Quotas::default()).await;
    let admitted = server.post_as(&token, "/v1/score", &sorted).await;
    assert_eq!(
        admitted.status, 409,
        "this server has no chat model: {}",
        admitted.text
    );
}

async fn storage(store: Option<String>) {
    let quotas = Quotas {
        storage_bytes: Some(1),
        ..Quotas::default()
    };
    let (server, token) = limited(Quotas::default(), store).await;
    let memory = json!({"title": "kept", "content": "before the quota"});
    let saved = server.post_as(&token, "/v1/memories", &memory).await.ok(201);
    change(&server, quotas).await;
    let refused = server.post_as(&token, "/v1/memories", &memory).await;
    assert_eq!(refused.status, 507, "{}", refused.text);
    assert!(refused.text.contains("storage_bytes"), "{}", refused.text);
    assert_eq!(
        refused.json()["type"],
        json!("urn:satiety:problem:out_of_storage")
    );
    // Reading, searching and deleting work.
    let id = saved["memory"]["id"].as_str().unwrap();
    let path = format!("/v1/memories/{id}");
    server.get_as(&token, &path).await.ok(200);
    server
        .post_as(&token, "/v1/memory/search", &json!({"query": "quota reached"}))
        .await
        .ok(200);
    server.send_as(&token, Method::DELETE, &path, None).await.ok(200);
    let form = server.post_as(&token, "/retrieval/annotate", &json!({})).await;
    assert_eq!(form.status, 507, "{}", form.text);
    // Tokens are in the registry.
    let created = json!({"name": "spare", "scope": "read"});
    let created = server.post_as(&token, "/v1/tokens", &created).await.ok(201);
    let spare = format!("/v1/tokens/{}", created["token_id"].as_str().unwrap());
    server.send_as(&token, Method::DELETE, &spare, None).await.ok(200);
    // A search of the full store was not logged. The log is written in order: a later search is the evidence.
    change(&server, Quotas::default()).await;
    server
        .post_as(&token, "/v1/memory/search", &json!({"query": "quota lifted"}))
        .await
        .ok(200);
    let tenant = server.engine.tenant("acme").await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let rows = loop {
        let mut export = Vec::new();
        tenant.database().export(&mut export).await.unwrap();
        let rows = String::from_utf8(export).unwrap();
        if rows.contains("quota lifted") {
            break rows;
        }
        assert!(Instant::now() < deadline, "the query log was not written");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(!rows.contains("quota reached"), "{rows}");
    tenant.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_can_be_read_and_emptied() {
    storage(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_can_be_read_and_emptied_on_postgres() {
    if let Some(store) = postgres().await {
        storage(Some(store)).await;
    }
}
