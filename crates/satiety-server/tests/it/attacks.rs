//! What should not work: foreign names, foreign pages, paths out of the root, too much, too deep, too slow.

use std::time::{Duration, Instant};

use reqwest::Method;
use satiety_server::http::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Answer, Options, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn foreign_names_and_pages_get_nothing() {
    let server = start_with(Options {
        names: vec!["satiety.example".into()],
        ..Options::default()
    })
    .await;
    for (host, expected) in [
        ("localhost", "200"),
        ("satiety.example", "200"),
        ("attacker.example", "421"),
        ("127.0.0.1.nip.io", "421"),
    ] {
        let request = format!("GET /v1/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = server.raw(request.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected}")),
            "{host}: {answer}"
        );
    }
    let write = |origin: &str, site: &str| {
        server
            .request(Method::POST, "/v1/conversations")
            .header("origin", origin.to_owned())
            .header("sec-fetch-site", site.to_owned())
            .json(&json!({}))
            .send()
    };
    let own = server.url("");
    assert_eq!(write(&own, "same-origin").await.unwrap().status(), 201);
    assert_eq!(
        write("https://attacker.example", "cross-site")
            .await
            .unwrap()
            .status(),
        403
    );
    assert_eq!(write("null", "cross-site").await.unwrap().status(), 403);
    assert_eq!(write(&own, "cross-site").await.unwrap().status(), 403);
    // A form of another page cannot send JSON, and what it can send is refused.
    let form = server
        .request(Method::POST, "/v1/conversations")
        .header("content-type", "text/plain")
        .body("{}")
        .send();
    assert_eq!(form.await.unwrap().status(), 415);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_lead_nowhere_outside_of_the_root() {
    let root = tempfile::tempdir().unwrap();
    let server = start_with(Options {
        root: Some(root.path().join(".")),
        ..Options::default()
    })
    .await;
    for suite in ["../x", "/etc/passwd", "a/../../b", "..", "\u{0}", ""] {
        let answer = server.post("/v1/bench/runs", &json!({"suite": suite})).await;
        assert_eq!(answer.status, 422, "{suite:?}: {}", answer.text);
        let answer = server.post("/v1/memory/index", &json!({"folder": suite})).await;
        assert_eq!(answer.status, 422, "{suite:?}: {}", answer.text);
    }
    let closed = start().await;
    assert_eq!(
        closed.post("/v1/bench/runs", &json!({"suite": "a"})).await.status,
        403
    );
    // Names of runs and profiles are not paths either.
    for path in [
        "/v1/bench/runs/..%2F..%2Fetc%2Fpasswd",
        "/v1/bench/runs/%2Fetc%2Fpasswd",
        "/docs/../../etc/passwd",
        "/docs/%2e%2e/%2e%2e/etc/passwd",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
        assert!(!answer.text.contains("root:"), "{path}");
    }
    let body = json!({"conversation": {"rounds": [{"round": 1}]}, "profile": "/etc/passwd"});
    assert_eq!(server.post("/v1/score", &body).await.status, 422);
    let body = json!({"profile": "../../etc/passwd"});
    assert_eq!(server.post("/v1/conversations", &body).await.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_and_too_deep_is_refused() {
    let server = start_with(Options {
        limits: Limits {
            body: 10_000,
            ..Options::default().limits
        },
        ..Options::default()
    })
    .await;
    let large = json!({"topic": "x".repeat(20_000)});
    assert_eq!(server.post("/v1/conversations", &large).await.status, 413);
    let send = |body: String| {
        let request = server
            .request(Method::POST, "/v1/score")
            .header("content-type", "application/json")
            .body(body);
        async { Answer::of(request.send().await.unwrap()).await }
    };
    let deep = format!("{{\"conversation\": {}{}}}", "[".repeat(4000), "]".repeat(4000));
    let answer = send(deep).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text.contains("nested"), "{}", answer.text);
    for broken in ["{", "", "nonsense", "{\"conversation\": 1} x", "\u{feff}{}"] {
        assert_eq!(send(broken.into()).await.status, 400, "{broken}");
    }
    assert_eq!(
        send("{\"conversation\": [], \"unknown\": 1}".into()).await.status,
        422
    );
    let headers: Vec<String> = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let headers = headers.concat();
    let answer = server
        .raw(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_dawdles_is_cut_off_and_nobody_else_waits() {
    let server = start_with(Options {
        limits: Limits {
            headers: Duration::from_millis(600),
            ..Options::default().limits
        },
        ..Options::default()
    })
    .await;
    let started = Instant::now();
    // One says nothing at all, one sends headers drop by drop, one sends half a body.
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc")
        .await
        .unwrap();
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(
        b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
    )
    .await
    .unwrap();
    assert_eq!(server.get("/healthz").await.status, 200);
    for stream in [&mut silent, &mut slow] {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "a connection that says nothing stays open");
    }
    let mut answer = [0; 64];
    let read = tokio::time::timeout(Duration::from_secs(5), half.read(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(String::from_utf8_lossy(&answer[..read]).starts_with("HTTP/1.1 408"));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_marked_so_that_browsers_are_careful() {
    let server = start().await;
    for path in ["/docs", "/v1/health", "/nowhere", "/login"] {
        let answer = server.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{path}: {policy}"
        );
        assert!(!answer.header("cache-control").is_empty(), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
    }
    // What somebody says is never a page.
    let script = json!({"conversation_id": "s", "topic": "<script>alert(1)</script>"});
    server.post("/v1/conversations", &script).await.ok(201);
    let shown = server.get("/v1/conversations/s").await;
    assert_eq!(shown.header("content-type"), "application/json");
}
