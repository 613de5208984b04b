//! Both wire formats against local servers: successes, retries, and the error of each kind of failure.
use std::time::{Duration, Instant};

use satiety_models::http::{ApiKey, HttpEmbedder, HttpPolicy, HttpSettings, TransportError, Wire};
use satiety_models::{AddressOrigin, KeyOwner};
use satiety_models::{EmbedError, Embedder as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wiremock::matchers::{body_partial_json, header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

fn settings() -> HttpSettings {
    HttpSettings {
        address_origin: AddressOrigin::Given,
        policy: HttpPolicy {
            retries: 2,
            first_pause: Duration::from_millis(5),
            timeout: Some(Duration::from_secs(5)),
            ..HttpPolicy::default()
        },
        batch: 2,
        ..HttpSettings::default()
    }
}

/// Answers every text with `[its length, 4]`, in reverse order with indexes, as the protocol allows.
fn openai_answer(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let texts = body["input"].as_array().unwrap();
    let data = texts.iter().enumerate().rev();
    let data: Vec<Value> = data
        .map(|(index, text)| json!({"index": index, "embedding": [text.as_str().unwrap().len(), 4]}))
        .collect();
    ResponseTemplate::new(200).set_body_json(json!({"object": "list", "data": data}))
}

async fn server(answer: impl wiremock::Respond + 'static) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v1/embeddings"))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

async fn connect(server: &MockServer) -> Result<HttpEmbedder, EmbedError> {
    HttpEmbedder::connect(Wire::OpenAi, "some-model", &server.uri(), settings()).await
}

async fn failure(answer: impl wiremock::Respond + 'static) -> EmbedError {
    connect(&server(answer).await).await.unwrap_err()
}

#[tokio::test]
async fn openai_vectors_are_ordered_normalized_and_batched() {
    let server = server(openai_answer).await;
    let embedder = connect(&server).await.unwrap();
    assert_eq!(embedder.dimension(), 2);
    assert_eq!(embedder.id().model(), "some-model");
    assert_eq!(embedder.id().pooling(), "remote");
    let vectors = embedder.embed(&["abc", "", "abcdefghijkl"]).await.unwrap();
    // (3, 4)/5; the empty text is sent as one space: (1, 4)/sqrt(17); (12, 4)/sqrt(160).
    let expected = [[0.6, 0.8], [0.24253563, 0.9701425], [0.9486833, 0.31622777]];
    for (vector, expected) in vectors.iter().zip(expected) {
        assert!(
            vector.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6),
            "{vector:?} {expected:?}"
        );
    }
    assert_eq!(vectors.len(), 3);
    let requests = server.received_requests().await.unwrap();
    let sizes: Vec<usize> = requests
        .iter()
        .map(|request| {
            request.body_json::<Value>().unwrap()["input"]
                .as_array()
                .unwrap()
                .len()
        })
        .collect();
    assert_eq!(sizes, [1, 2, 1]);
    assert!(embedder.embed(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_v1_suffix_is_not_duplicated() {
    let server = server(openai_answer).await;
    let url = format!("{}/v1/", server.uri());
    HttpEmbedder::connect(Wire::OpenAi, "m", &url, settings())
        .await
        .unwrap();
}

#[tokio::test]
async fn the_key_is_sent_and_never_displayed() {
    let server = MockServer::start().await;
    Mock::given(header("authorization", "Bearer sk-secret"))
        .and(body_partial_json(
            json!({"model": "m", "encoding_format": "float"}),
        ))
        .respond_with(openai_answer)
        .mount(&server)
        .await;
    let with_key = HttpSettings {
        api_key: Some(ApiKey::new(" sk-secret\n", KeyOwner::OpenAi)),
        ..settings()
    };
    let embedder = HttpEmbedder::connect(Wire::OpenAi, "m", &server.uri(), with_key.clone())
        .await
        .unwrap();
    assert!(!format!("{embedder:?} {with_key:?}").contains("secret"));
    server.reset().await;
    let error = embedder.embed(&["a"]).await.unwrap_err();
    assert!(!format!("{error:?} {error}").contains("secret"));
}

async fn ollama(
    tags: ResponseTemplate,
    embed: ResponseTemplate,
) -> (MockServer, Result<HttpEmbedder, EmbedError>) {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/api/tags"))
        .respond_with(tags)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .and(path("/api/embed"))
        .respond_with(embed)
        .mount(&server)
        .await;
    let embedder = HttpEmbedder::connect(Wire::Ollama, "nomic", &server.uri(), settings()).await;
    (server, embedder)
}

fn tags(digest: &str) -> ResponseTemplate {
    let models =
        json!([{"name": "other:latest", "digest": "00"}, {"name": "nomic:latest", "digest": digest}]);
    ResponseTemplate::new(200).set_body_json(json!({"models": models}))
}

#[tokio::test]
async fn the_ollama_digest_is_part_of_the_id() {
    let embed = || {
        ResponseTemplate::new(200).set_body_json(json!({"model": "nomic", "embeddings": [[3.0, 0.0, 4.0]]}))
    };
    let (_one, first) = ollama(tags("aa"), embed()).await;
    let (_two, same) = ollama(tags("aa"), embed()).await;
    let (_three, other) = ollama(tags("bb"), embed()).await;
    let first = first.unwrap();
    assert_eq!(first.embed(&["x"]).await.unwrap(), [[0.6, 0.0, 0.8]]);
    assert_eq!(first.id(), same.unwrap().id());
    assert_ne!(first.id(), other.unwrap().id());
}

#[tokio::test]
async fn a_missing_ollama_model_has_a_hint() {
    let none = ResponseTemplate::new(200).set_body_json(json!({"models": []}));
    let (_server, result) = ollama(none, ResponseTemplate::new(200)).await;
    let message = result.unwrap_err().to_string();
    assert!(message.contains("ollama pull nomic"), "{message}");
    let missing = ResponseTemplate::new(404).set_body_json(json!({"error": "model \"nomic\" not found"}));
    let (_server, result) = ollama(ResponseTemplate::new(404), missing).await;
    let message = result.unwrap_err().to_string();
    assert!(
        message.contains("ollama pull nomic") && message.contains("not found"),
        "{message}"
    );
}

#[tokio::test]
async fn too_many_requests_waits_for_retry_after() {
    let server = MockServer::start().await;
    let busy = ResponseTemplate::new(429).insert_header("retry-after", "1");
    Mock::given(method("POST"))
        .respond_with(busy)
        .up_to_n_times(1)
        .with_priority(1)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .respond_with(openai_answer)
        .mount(&server)
        .await;
    let begin = Instant::now();
    connect(&server).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_too_long_retry_after_is_an_error() {
    let begin = Instant::now();
    let error = failure(ResponseTemplate::new(429).insert_header("retry-after", "3600")).await;
    assert!(
        matches!(error, EmbedError::Transport(TransportError::Status { status: 429, retry_after: Some(asked), .. }) if asked.as_secs() == 3600)
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn server_errors_are_retried_and_then_reported() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(500))
        .up_to_n_times(2)
        .with_priority(1)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .respond_with(openai_answer)
        .mount(&server)
        .await;
    connect(&server).await.unwrap();

    let server = self::server(ResponseTemplate::new(503).set_body_string("over\n loaded")).await;
    let error = connect(&server).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}/v1/embeddings answered 503: over loaded", server.uri())
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 3);
}

#[tokio::test]
async fn client_errors_are_not_retried() {
    for status in [400, 401, 404] {
        let server = server(ResponseTemplate::new(status)).await;
        connect(&server).await.unwrap_err();
        assert_eq!(server.received_requests().await.unwrap().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_slow_server_times_out() {
    let server = server(ResponseTemplate::new(200).set_delay(Duration::from_secs(30))).await;
    let impatient = HttpSettings {
        policy: HttpPolicy {
            timeout: Some(Duration::from_millis(100)),
            retries: 1,
            ..settings().policy
        },
        ..settings()
    };
    let begin = Instant::now();
    let error = HttpEmbedder::connect(Wire::OpenAi, "m", &server.uri(), impatient)
        .await
        .unwrap_err();
    assert!(
        matches!(error, EmbedError::Transport(TransportError::Timeout { .. })),
        "{error}"
    );
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn invalid_vectors_are_reported() {
    let body = |text: &str| ResponseTemplate::new(200).set_body_string(text);
    let cases = [
        (
            r#"{"data": [{"index": 0, "embedding": [1, 2"#,
            "EOF while parsing",
        ),
        (r"<html>not found</html>", "<html>not found</html>"),
        (r#"{"error": "none"}"#, "missing field `data`"),
        (r#"{"data": []}"#, "0 vectors for 1 texts"),
        (
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}"#,
            "2 vectors for 1 texts",
        ),
        (
            r#"{"data": [{"index": 1, "embedding": [1, 2]}]}"#,
            "indexes are not consecutive",
        ),
        (
            r#"{"data": [{"index": 0, "embedding": []}]}"#,
            "vector without components",
        ),
        (
            r#"{"data": [{"index": 0, "embedding": [1, null]}]}"#,
            "invalid type: null",
        ),
    ];
    for (answer, expected) in cases {
        let error = failure(body(answer)).await;
        assert!(
            matches!(error, EmbedError::Transport(TransportError::BadAnswer { .. })),
            "{error}"
        );
        assert!(error.to_string().contains(expected), "{error} lacks {expected}");
    }
}

#[tokio::test]
async fn zero_vectors_and_changed_dimensions_are_refused() {
    let cases = [
        (json!([1, 2, 3]), "3 components, expected 2"),
        (json!([0, 0]), "length 0"),
        (json!([1e39, 1]), "number out of range"),
    ];
    for (vector, expected) in cases {
        let server = server(openai_answer).await;
        let embedder = connect(&server).await.unwrap();
        server.reset().await;
        let answer = json!({"data": [{"index": 0, "embedding": vector}]});
        Mock::given(method("POST"))
            .respond_with(ResponseTemplate::new(200).set_body_json(answer))
            .mount(&server)
            .await;
        let error = embedder.embed(&["x"]).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn truncated_bodies_are_retried_and_then_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let read = stream.read(&mut [0; 4096]).await.unwrap();
            assert!(read > 0);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"data\": [";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let error = HttpEmbedder::connect(Wire::OpenAi, "m", &url, settings())
        .await
        .unwrap_err();
    assert!(
        matches!(error, EmbedError::Transport(TransportError::Unreachable { .. })),
        "{error:?}"
    );
    accepting.await.unwrap();
}

#[tokio::test]
async fn an_invalid_key_is_refused_without_displaying_it() {
    let server = server(openai_answer).await;
    let two_lines = HttpSettings {
        api_key: Some(ApiKey::new("sk-secret\nsecond", KeyOwner::OpenAi)),
        ..settings()
    };
    let error = HttpEmbedder::connect(Wire::OpenAi, "m", &server.uri(), two_lines)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("check that the API key is one line"),
        "{error}"
    );
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn connection_refused_is_unreachable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = HttpEmbedder::connect(Wire::OpenAi, "m", &format!("http://{free}"), settings())
        .await
        .unwrap_err();
    assert!(
        matches!(error, EmbedError::Transport(TransportError::Unreachable { .. })),
        "{error}"
    );
}
