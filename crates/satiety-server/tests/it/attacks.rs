//! Rejected requests: foreign hosts, foreign origins, paths outside the root, too large, too deep, too slow.

use std::time::{Duration, Instant};

use reqwest::Method;
use satiety_engine::tokens::Scope;
use satiety_server::auth::Access;
use satiety_server::http::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Answer, Options, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_are_rejected() {
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
    // A cross-origin form cannot send JSON, and other content types are refused.
    let form = server
        .request(Method::POST, "/v1/conversations")
        .header("content-type", "text/plain")
        .body("{}")
        .send();
    assert_eq!(form.await.unwrap().status(), 415);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_stay_below_the_root() {
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
async fn large_and_deep_bodies_are_refused() {
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
async fn slow_clients_are_disconnected_without_blocking_others() {
    let server = start_with(Options {
        limits: Limits {
            headers: Duration::from_millis(600),
            ..Options::default().limits
        },
        ..Options::default()
    })
    .await;
    let started = Instant::now();
    // One sends nothing, one trickles headers, one sends half a body.
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
        assert!(closed.is_ok(), "a silent connection stays open");
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
async fn responses_have_security_headers() {
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
    // Request content is never returned as HTML.
    let script = json!({"conversation_id": "s", "topic": "<script>alert(1)</script>"});
    server.post("/v1/conversations", &script).await.ok(201);
    let shown = server.get("/v1/conversations/s").await;
    assert_eq!(shown.header("content-type"), "application/json");
}

/// Headers and bodies that arrive byte by byte, each byte in time, exceed the total timeout.
#[tokio::test(flavor = "multi_thread")]
async fn trickling_clients_are_disconnected() {
    let server = start_with(Options {
        limits: Limits {
            headers: Duration::from_millis(600),
            ..Options::default().limits
        },
        ..Options::default()
    })
    .await;
    let body = "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n";
    let chunked = "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (begin, drop) in [
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "X-a: b\r\n"),
        (body, " "),
        (chunked, "1\r\n \r\n"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begin.as_bytes()).await.unwrap();
        let began = Instant::now();
        let mut answer = [0; 256];
        let mut response = String::new();
        loop {
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "{begin:?} is not disconnected"
            );
            // Writing to a closed connection fails, which also ends the test.
            if stream.write_all(drop.as_bytes()).await.is_err() {
                break;
            }
            match tokio::time::timeout(Duration::from_millis(100), stream.read(&mut answer)).await {
                Err(_) => {}
                Ok(Ok(0) | Err(_)) => break,
                Ok(Ok(count)) => response.push_str(&String::from_utf8_lossy(&answer[..count])),
            }
        }
        assert!(!response.starts_with("HTTP/1.1 2"), "{begin:?}: {response}");
        // A new connection: a kept-alive one may just have been closed as idle.
        let well = server
            .raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await;
        assert!(well.starts_with("HTTP/1.1 200"), "{well}");
    }
}

/// No content of a request replaces a token.
#[tokio::test(flavor = "multi_thread")]
async fn request_content_never_replaces_a_token() {
    let server = start_with(Options {
        access: Access::Tokens,
        ..Options::default()
    })
    .await;
    let token = server.token(Scope::Admin).await;
    let (name, _) = token.rsplit_once('_').unwrap();
    let headers = [
        ("x-forwarded-for", "127.0.0.1".to_owned()),
        ("forwarded", "for=127.0.0.1;host=localhost".into()),
        ("x-real-ip", "::1".into()),
        ("x-original-url", "/healthz".into()),
        ("x-rewrite-url", "/healthz".into()),
        ("x-http-method-override", "GET".into()),
        ("x-forwarded-host", "localhost".into()),
        ("authorization", format!("Basic {token}")),
        ("authorization", "Bearer".into()),
        ("authorization", format!("Bearer {name}")),
        ("authorization", format!("Bearer {name}_")),
        ("authorization", format!("Bearer {name}_{}", "0".repeat(64))),
        ("authorization", format!("Bearer {token}0")),
        ("authorization", "Bearer ' OR 1=1 --".into()),
        ("cookie", format!("token={token}")),
        ("cookie", "satiety=admin".into()),
    ];
    for (header, value) in &headers {
        let paths = [
            (Method::POST, "/v1/memories"),
            (Method::GET, "/v1/memories"),
            (Method::GET, "/metrics"),
        ];
        // Invalid tokens are counted: too many give 429.
        let tried = if *header == "authorization" {
            1
        } else {
            paths.len()
        };
        for (method, path) in paths.into_iter().take(tried) {
            let body = json!({"title": "t", "content": "c"});
            let answer = server.request(method, path).header(*header, value).json(&body);
            let status = answer.send().await.unwrap().status().as_u16();
            assert!(matches!(status, 400 | 401), "{header}: {value}: {path}: {status}");
        }
    }
    for path in [
        format!("/v1/memories?token={token}"),
        format!("/v1/memories?access_token={token}"),
        "//v1/memories".into(),
        "/v1//memories".into(),
        "/./v1/memories".into(),
        "/healthz/../v1/memories".into(),
        "/healthz%2f..%2fv1%2fmemories".into(),
        "/V1/MEMORIES".into(),
        "/v1/memories/".into(),
        "/v1/memories;x=/healthz".into(),
        "/v1/memories%00".into(),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = server.raw(request.as_bytes()).await;
        let status = answer.get(9..12).unwrap_or_default();
        assert!(matches!(status, "400" | "401" | "404"), "{path}: {answer}");
        assert!(!answer.contains("\"memories\""), "{path}: {answer}");
    }
    // Request smuggling: two requests that a careless server takes for one, and the reverse.
    let smuggled = "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/memories HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = server.raw(smuggled.as_bytes()).await;
    assert!(!answer.contains("HTTP/1.1 2"), "{answer}");
    let kept = server
        .request(Method::GET, "/v1/memories")
        .bearer_auth(&token)
        .send()
        .await
        .unwrap();
    assert_eq!(
        kept.json::<serde_json::Value>().await.unwrap()["memories"],
        json!([])
    );
}
