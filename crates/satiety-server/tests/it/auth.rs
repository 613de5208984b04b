//! Authentication and authorization.

use reqwest::Method;
use satiety_engine::tokens::{CreateTokenRequest, Scope};
use satiety_server::auth::Access;
use serde_json::json;

use crate::support::{Answer, Options, Running, start, start_with};

async fn guarded() -> Running {
    start_with(Options {
        access: Access::Tokens,
        ..Options::default()
    })
    .await
}

async fn status(server: &Running, method: Method, path: &str, token: Option<&str>) -> u16 {
    let mut request = server.request(method.clone(), path);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if method == Method::POST {
        request = request.json(&json!({}));
    }
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_health_is_public() {
    let server = guarded().await;
    for path in [
        "/v1/health",
        "/v1/conversations",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/v1/audit",
        "/v1/jobs/x/events",
    ] {
        assert_eq!(status(&server, Method::GET, path, None).await, 401, "{path}");
    }
    assert_eq!(
        status(&server, Method::POST, "/v1/conversations", None).await,
        401
    );
    for path in ["/healthz", "/readyz", "/login"] {
        assert_eq!(status(&server, Method::GET, path, None).await, 200, "{path}");
    }
    let good = server.token(Scope::Admin).await;
    let last = if good.ends_with('0') { "1" } else { "0" };
    let nearly = format!("{}{last}", &good[..good.len() - 1]);
    let other_id = good.replacen(&good[8..24], "0123456789abcdef", 1);
    for bad in [
        "x",
        "",
        nearly.as_str(),
        other_id.as_str(),
        &good[..40],
        "' OR 1=1 --",
    ] {
        assert_eq!(
            status(&server, Method::GET, "/v1/health", Some(bad)).await,
            401,
            "{bad}"
        );
    }
    assert_eq!(status(&server, Method::GET, "/v1/health", Some(&good)).await, 200);
    // Tokens in other places are ignored.
    for path in [
        format!("/v1/health?token={good}"),
        format!("/v1/health?access_token={good}"),
    ] {
        assert_eq!(status(&server, Method::GET, &path, None).await, 401);
    }
    for (name, value) in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("authorization", "Basic eDp5"),
    ] {
        let answer = server
            .request(Method::GET, "/v1/health")
            .header(name, value)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 401, "{name}");
    }
    let challenge = server.get("/v1/health").await;
    assert!(challenge.header("www-authenticate").starts_with("Bearer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_limited_to_their_scope() {
    let server = guarded().await;
    let (read, write, admin) = (
        server.token(Scope::Read).await,
        server.token(Scope::Write).await,
        server.token(Scope::Admin).await,
    );
    for (method, path, expected) in [
        (Method::GET, "/v1/conversations", [200, 200, 200]),
        (Method::POST, "/v1/conversations", [403, 201, 201]),
        (Method::POST, "/v1/harness/cycles", [403, 403, 422]),
        (Method::GET, "/v1/audit", [403, 403, 200]),
    ] {
        for (token, expected) in [&read, &write, &admin].into_iter().zip(expected) {
            assert_eq!(
                status(&server, method.clone(), path, Some(token)).await,
                expected,
                "{method} {path}"
            );
        }
    }
    // Form posts are writes, too; this one is invalid.
    let form = server
        .request(Method::POST, "/retrieval/annotate")
        .bearer_auth(&write);
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let refused = form.body("annotator=").send().await.unwrap().status();
    assert!(refused.is_client_error(), "{refused}");
    let audit = server
        .request(Method::GET, "/v1/audit")
        .bearer_auth(&admin)
        .send()
        .await
        .unwrap();
    let audit = Answer::of(audit).await.ok(200);
    let entries = audit["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 4, "{audit}");
    let noted = |at: usize| {
        let entry = &entries[at];
        (entry["path"].as_str().unwrap(), entry["status"].as_u64().unwrap())
    };
    assert_eq!(noted(0), ("/retrieval/annotate", u64::from(refused.as_u16())));
    assert_eq!(noted(1), ("/v1/harness/cycles", 422));
    assert_eq!(entries[0]["who"], json!(&write[8..24]));
    assert_eq!(entries[3]["who"], json!(&write[8..24]));
    assert!(
        !audit.to_string().contains(&write[25..]),
        "the audit log contains a secret"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_and_revoked_tokens_are_rejected() {
    let server = guarded().await;
    let token = server.token(Scope::Read).await;
    let revoked = server.engine.tokens().revoke(&token[8..24]).await.unwrap();
    assert!(!revoked.valid);
    assert_eq!(
        status(&server, Method::GET, "/v1/health", Some(&token)).await,
        401
    );
    let request = CreateTokenRequest {
        name: "short".into(),
        scope: Scope::Read,
        expires_in_days: Some(0),
    };
    let expired = server.engine.tokens().create(request).await.unwrap();
    assert!(!format!("{expired:?}").contains(&expired.token));
    assert_eq!(
        status(&server, Method::GET, "/v1/health", Some(&expired.token)).await,
        401
    );
    let list = server.engine.tokens().list().await.unwrap();
    assert!(list.tokens.iter().all(|token| !token.valid));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_tokens_are_rejected_on_loopback() {
    let server = start().await;
    assert_eq!(status(&server, Method::GET, "/v1/health", None).await, 200);
    assert_eq!(
        status(&server, Method::GET, "/v1/health", Some("wrong")).await,
        401
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_callers_get_retry_after() {
    let server = start_with(Options {
        access: Access::Tokens,
        rate: Some(1),
        ..Options::default()
    })
    .await;
    let (first, second) = (server.token(Scope::Read).await, server.token(Scope::Write).await);
    let mut last = Vec::new();
    for _ in 0..7 {
        last.push(status(&server, Method::GET, "/v1/health", Some(&first)).await);
    }
    assert_eq!(last[..5], [200; 5]);
    assert_eq!(last[6], 429);
    let answer = server
        .request(Method::GET, "/v1/health")
        .bearer_auth(&first)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.headers()["retry-after"], "1");
    assert_eq!(
        status(&server, Method::GET, "/v1/health", Some(&second)).await,
        200
    );
    // Guessing is rate limited, too.
    let mut guesses = Vec::new();
    for _ in 0..25 {
        guesses.push(status(&server, Method::GET, "/v1/health", Some("guess")).await);
    }
    assert_eq!((guesses[0], guesses[24]), (401, 429));
}

#[tokio::test(flavor = "multi_thread")]
async fn browser_sessions_resist_cross_site_requests() {
    let server = guarded().await;
    let token = server.token(Scope::Write).await;
    let form = |token: &str, next: &str| {
        let body = format!("token={token}&next={next}");
        server
            .request(Method::POST, "/login")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", server.url(""))
            .body(body)
            .send()
    };
    assert_eq!(form("wrong", "/").await.unwrap().status(), 401);
    let answer = Answer::of(form(&token, "//attacker.example").await.unwrap()).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/"));
    let cookie = answer.header("set-cookie").to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap().to_owned();
    let with = |method: Method, path: &str| server.request(method, path).header("cookie", pair.clone());
    assert_eq!(
        with(Method::GET, "/v1/health").send().await.unwrap().status(),
        200
    );
    let write = with(Method::POST, "/v1/conversations").json(&json!({}));
    assert_eq!(write.send().await.unwrap().status(), 201);
    let forged = with(Method::POST, "/v1/conversations")
        .header("origin", "https://attacker.example")
        .json(&json!({}));
    assert_eq!(forged.send().await.unwrap().status(), 403);
    let forged = with(Method::POST, "/v1/conversations")
        .header("sec-fetch-site", "cross-site")
        .json(&json!({}));
    assert_eq!(forged.send().await.unwrap().status(), 403);
}
