//! Traces as received by a collector: the real server, the real protocol, a collector on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::serve::{end, start};
use crate::support::Place;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Answers every export and forwards its path and body.
fn collector() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, deliveries) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(50) {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length:")?
                    .trim()
                    .parse()
                    .ok()
            });
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).unwrap();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if sender.send((path, body)).is_err() {
                return;
            }
        }
    });
    (address, deliveries)
}

fn post(address: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         traceparent: 00-{TRACE}-{CALLER}-01\r\nX-Api-Key: secret-of-somebody\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

#[test]
fn spans_join_the_trace_of_the_caller() {
    let (collector, deliveries) = collector();
    let place = Place::new();
    place.write("satiety.toml", &format!("[server]\ntraces = \"{collector}\"\n"));
    place.run(&["trust"]);
    let server = start(&place, &["--embedder", "builtin"]);
    let answer = post(
        &server.address,
        "/v1/score",
        r#"{"conversation": {"rounds": [{"round": 1, "outputs": {"claims": ["The queue is full of private words."]}}]}}"#,
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = post(
        &server.address,
        "/v1/memories",
        r#"{"title": "Queue", "content": "It grows by night."}"#,
    );
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    // The last spans are exported on shutdown.
    assert_eq!(end(server), Some(0));
    let (mut spans, mut raw, mut names) = (Vec::<Span>::new(), Vec::new(), Vec::new());
    while let Ok((path, body)) = deliveries.recv_timeout(Duration::from_secs(1)) {
        assert_eq!(path, "/v1/traces");
        for resource in ExportTraceServiceRequest::decode(body.as_slice())
            .unwrap()
            .resource_spans
        {
            names.extend(text(&resource.resource.unwrap().attributes, "service.name"));
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        raw.extend(body);
    }
    assert!(
        names.iter().all(|name| name == "satiety") && !names.is_empty(),
        "{names:?}"
    );
    let request = spans.iter().find(|span| span.name == "POST /v1/score").unwrap();
    assert_eq!(hex(&request.trace_id), TRACE);
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(
        text(&request.attributes, "http.response.status_code").unwrap(),
        "200"
    );
    let child = |parent: &Span, name: &str| {
        spans
            .iter()
            .find(|span| span.name == name && span.parent_span_id == parent.span_id)
            .unwrap_or_else(|| panic!("{name} is not below {}: {spans:#?}", parent.name))
            .clone()
    };
    let scoring = child(request, "score");
    child(&scoring, "embed");
    let saving = spans
        .iter()
        .find(|span| span.name == "POST /v1/memories")
        .unwrap();
    assert_eq!(hex(&saving.trace_id), TRACE);
    let inside: Vec<&str> = spans
        .iter()
        .filter(|span| span.trace_id == saving.trace_id)
        .map(|span| span.name.as_str())
        .collect();
    assert!(
        inside.contains(&"store") && inside.contains(&"save memory"),
        "{inside:?}"
    );
    // Spans contain neither content nor credentials.
    let raw = String::from_utf8_lossy(&raw);
    for private in ["private words", "grows by night", "secret-of-somebody"] {
        assert!(!raw.contains(private), "{private}");
    }
}

#[test]
fn an_unreachable_or_invalid_collector_is_reported_and_harmless() {
    let place = Place::new();
    let wrong = place.show(
        place
            .command(&["serve", "--listen", "127.0.0.1:0"])
            .env("SATIETY_SERVER_TRACES", "4318"),
    );
    assert!(
        wrong.starts_with("exit 2\n") && wrong.contains("hint:"),
        "{wrong}"
    );
    // A port without a listener.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    place.write("satiety.toml", &format!("[server]\ntraces = \"http://{free}\"\n"));
    place.run(&["trust"]);
    let server = start(&place, &[]);
    let answer = post(
        &server.address,
        "/v1/score",
        r#"{"conversation": {"rounds": []}}"#,
    );
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    assert_eq!(end(server), Some(0));
    // A short command exports nothing and does not wait.
    let began = std::time::Instant::now();
    place.show(
        place
            .command(&["db", "status"])
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{free}")),
    );
    assert!(began.elapsed() < Duration::from_secs(5));
}
