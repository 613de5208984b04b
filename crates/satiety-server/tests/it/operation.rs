//! Health, metrics, TLS and shutdown.

use std::time::{Duration, Instant};

use reqwest::Method;
use satiety_server::http::Tls;
use serde_json::json;

use crate::support::{Answer, Options, round, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_are_served() {
    let server = start().await;
    assert_eq!(server.get("/healthz").await.ok(200)["status"], json!("ok"));
    assert_eq!(server.get("/readyz").await.ok(200)["status"], json!("ok"));
    let health = server.get("/v1/health").await.ok(200);
    assert_eq!(
        (&health["store"], &health["embedder"]),
        (&json!("sqlite"), &json!("none"))
    );
    let figures = server.get("/metrics").await;
    assert!(
        figures
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    assert!(
        figures
            .text
            .contains("# TYPE satiety_http_requests_total counter")
    );
    let request = server.request(Method::GET, "/metrics").header(
        "Accept",
        "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
    );
    let open = Answer::of(request.send().await.unwrap()).await;
    assert!(
        open.header("content-type")
            .starts_with("application/openmetrics-text")
    );
    assert!(open.text.contains("# TYPE satiety_http_requests counter"));
    assert!(open.text.ends_with("# EOF\n"));
    for line in [
        "satiety_http_requests_total{method=\"GET\",route=\"/v1/health\",status=\"200\"} 1",
        "satiety_store_up 1",
        "satiety_store_duration_seconds_count{operation=\"read\"}",
        "satiety_queue_depth{queue=\"jobs_running\"} 0",
        "satiety_store_connections{pool=\"write\",state=\"max\"} 1",
        "satiety_query_log_waiting 0",
        "satiety_query_log_lost_total 0",
        "satiety_work_leases{state=\"expired\"} 0",
    ] {
        assert!(
            figures.text.contains(line),
            "{line} is missing in\n{}",
            figures.text
        );
    }
    // An unknown path does not get its own label.
    server.get("/secret-path-of-somebody").await;
    assert!(!server.get("/metrics").await.text.contains("secret-path"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_assets_are_compressed_for_clients_that_accept_it() {
    let server = start().await;
    let fetch = async |path: &str, headers: &[(&'static str, &'static str)]| {
        let mut request = server.request(Method::GET, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let coding = response.headers().get("content-encoding");
        let coding = coding.map(|value| value.to_str().unwrap().to_owned());
        (coding, response.bytes().await.unwrap())
    };
    let gzip = ("accept-encoding", "gzip, br");
    for path in ["/bench", "/assets/style.css", "/assets/dashboard.js"] {
        let (coding, packed) = fetch(path, &[gzip]).await;
        assert_eq!(coding.as_deref(), Some("gzip"), "{path}");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text).unwrap();
        let (coding, plain) = fetch(path, &[]).await;
        assert_eq!(coding, None, "{path}");
        assert_eq!(text.as_bytes(), &plain[..], "{path}");
        // The page of an empty list is short.
        let least = if path == "/bench" { 1 } else { 2 };
        assert!(packed.len() * least < plain.len(), "{path}: {}", packed.len());
        // Another site must not learn content from sizes.
        let (coding, _) = fetch(path, &[gzip, ("sec-fetch-site", "cross-site")]).await;
        assert_eq!(coding, None, "{path}");
    }
    for path in ["/metrics", "/v1/health", "/openapi.json"] {
        assert_eq!(fetch(path, &[gzip]).await.0, None, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_running_requests() {
    let mut server = start().await;
    let url = server.url("");
    // A slow request that takes much less than the shutdown timeout, even on a busy machine.
    let rounds: Vec<_> = (0..20)
        .map(|number| {
            let claims: Vec<String> = (0..8)
                .map(|claim| format!("Claim {claim} of round {number} about part {}", claim * number))
                .collect();
            let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
            round(number, &claims)
        })
        .collect();
    let request = server
        .request(Method::POST, "/v1/conversations")
        .json(&json!({"conversation_id": "long", "rounds": rounds}));
    let writing = tokio::spawn(async move { Answer::of(request.send().await.unwrap()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let client = server.client.clone();
    let engine = server.engine.clone();
    let ended = server.end();
    let answer = writing.await.unwrap();
    answer.ok(201);
    assert!(ended.await.unwrap(), "requests were aborted");
    let refused = client.get(format!("{url}/healthz")).send().await;
    assert!(refused.is_err(), "the port is still open");
    assert_eq!(
        engine.dialogue().conversation("long").await.unwrap().rounds.len(),
        20
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_do_not_delay_shutdown() {
    let mut server = start().await;
    server
        .post("/v1/conversations", &json!({"conversation_id": "c"}))
        .await
        .ok(201);
    let stream = server
        .request(Method::GET, "/v1/conversations/c/events")
        .send()
        .await
        .unwrap();
    let started = Instant::now();
    assert!(server.end().await.unwrap());
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    // The client sees the end of the stream instead of an error, and reconnects.
    assert!(stream.text().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_enables_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs_err::write(&cert, made.cert.pem()).unwrap();
    fs_err::write(&key, made.signing_key.serialize_pem()).unwrap();
    assert!(Tls::read(&key, &cert).is_err(), "swapped files");
    assert!(Tls::read(&folder.path().join("none.pem"), &key).is_err());
    let server = start_with(Options {
        tls: Some(Tls::read(&cert, &key).unwrap()),
        ..Options::default()
    })
    .await;
    let trusting = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap()])
        .build()
        .unwrap();
    let url = format!("https://localhost:{}/v1/health", server.address.port());
    let answer = trusting.get(&url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.version(), reqwest::Version::HTTP_2);
    assert!(answer.headers().contains_key("strict-transport-security"));
    assert!(
        trusting.get(url.replace("https", "http")).send().await.is_err(),
        "an unencrypted request was answered"
    );
    // Clients that do not trust the certificate cannot connect.
    assert!(server.request(Method::GET, "/healthz").send().await.is_err());
}
