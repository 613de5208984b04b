//! The same tools over streamable HTTP: accepted clients, and shared sessions.

use std::fmt::Write as _;
use std::time::Duration;

use satiety_server::http::JobPermits;
use satiety_server::mcp::{Context, Profile, Reach, Registry, http_service};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

struct Server {
    _folder: tempfile::TempDir,
    /// The service ends when this is dropped.
    _running: tokio::sync::watch::Sender<bool>,
    port: u16,
}

impl Server {
    async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Reach::Machine).await
    }

    async fn start_in(folder: tempfile::TempDir, reach: Reach) -> Self {
        let mut context = Context::new(crate::engine(folder.path()));
        context.reach = reach;
        let (running, ending) = tokio::sync::watch::channel(false);
        let service = http_service(context, Registry::from_profile(Profile::Memory), &[], ending);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = axum::Router::new().nest_service("/mcp", service);
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            _folder: folder,
            _running: running,
            port,
        }
    }

    /// Posts a message with additional headers, and reads until its response arrives or the server rejects it.
    async fn post(&self, headers: &[(&str, &str)], message: &Value) -> String {
        let body = message.to_string();
        let mut request = String::from("POST /mcp HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str("Host: 127.0.0.1\r\n");
        }
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        let _ = write!(
            request,
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let mut part = vec![0; 65536];
        let read = async {
            loop {
                let count = stream.read(&mut part).await.unwrap();
                answer.extend_from_slice(&part[..count]);
                let text = String::from_utf8_lossy(&answer);
                let whole = text.contains("\"jsonrpc\"") || !text.starts_with("HTTP/1.1 200");
                if count == 0 || (whole && text.contains("\r\n\r\n")) {
                    break;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), read).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Opens a session.
    async fn session(&self) -> String {
        let answer = self.post(&[], &hello()).await;
        let session = answer
            .lines()
            .find_map(|line| {
                line.to_lowercase()
                    .starts_with("mcp-session-id:")
                    .then(|| line[15..].trim().to_owned())
            })
            .unwrap();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(&[("Mcp-Session-Id", &session)], &ready).await;
        session
    }

    async fn call(&self, session: &str, id: u32, tool: &str, arguments: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let text = self.post(&[("Mcp-Session-Id", session)], &message).await;
        let start = text.find("{\"jsonrpc\"").unwrap_or_else(|| panic!("{text}"));
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        values.next().unwrap().unwrap()["result"]["structuredContent"].clone()
    }
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}})
}

#[tokio::test]
async fn only_loopback_clients_are_accepted() {
    let server = Server::start().await;
    for (headers, status) in [
        (vec![], 200),
        (vec![("Host", "localhost:8080")], 200),
        (vec![("Host", "[::1]:8080")], 200),
        (vec![("Origin", "http://localhost:5173")], 200),
        (vec![("Host", "evil.example")], 403),
        (vec![("Host", "127.0.0.1.evil.example")], 403),
        (vec![("Origin", "https://evil.example")], 403),
        (vec![("Origin", "null")], 403),
    ] {
        let answer = server.post(&headers, &hello()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{headers:?}: {answer}"
        );
    }
}

/// Errors of the store have its location, which only a local caller may see.
#[tokio::test]
async fn remote_callers_do_not_see_the_location_of_the_store() {
    let remote = Reach::Below {
        root: None,
        permits: JobPermits::new(1),
    };
    for (reach, is_shown) in [(remote, false), (Reach::Machine, true)] {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("t.db"), "not a database ".repeat(500)).unwrap();
        let server = Server::start_in(folder, reach).await;
        let session = server.session().await;
        for (method, params) in [
            (
                "tools/call",
                json!({"name": "memory_search", "arguments": {"query": "x"}}),
            ),
            ("resources/list", json!({})),
            ("resources/read", json!({"uri": "satiety://memory/mem-1"})),
            (
                "prompts/get",
                json!({"name": "recall_before_task", "arguments": {"task": "x"}}),
            ),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
            let text = server.post(&[("Mcp-Session-Id", &session)], &message).await;
            assert_eq!(text.contains("t.db"), is_shown, "{method}: {text}");
            assert_eq!(
                text.contains("internal server error"),
                !is_shown,
                "{method}: {text}"
            );
        }
    }
}

/// A read is attributed to the session's search.
#[tokio::test]
async fn http_requests_share_a_session() {
    let server = Server::start().await;
    let session = server.session().await;
    let text = json!({"title": "Use WAL", "content": "Readers never wait for the writer."});
    let saved = server.call(&session, 2, "memory_save", text).await;
    let found = server
        .call(&session, 3, "memory_search", json!({"query": "do readers wait"}))
        .await;
    let read = server
        .call(&session, 4, "memory_read", json!({"id": saved["memory"]["id"]}))
        .await;
    assert_eq!(
        (&read["query_id"], &read["rank_in_results"]),
        (&found["query_id"], &json!(1))
    );
}
