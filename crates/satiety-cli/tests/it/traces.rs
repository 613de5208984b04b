//! Traces and metrics as received by a collector: the real server, the real protocol, a collector on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::serve::{end, get, get_accepting, start, start_with};
use crate::support::Place;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Answers every export and forwards its path and body.
fn collector() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    collector_answering("200 OK")
}

fn collector_answering(status: &'static str) -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
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
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
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

/// Metrics that have arrived, the latest export last.
fn exports(deliveries: &mpsc::Receiver<(String, Vec<u8>)>, wait: Duration) -> Vec<Vec<Metric>> {
    let mut exports = Vec::new();
    while let Ok((path, body)) = deliveries.recv_timeout(wait) {
        if path != "/v1/metrics" {
            continue;
        }
        let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
        for resource in request.resource_metrics {
            let attributes = resource.resource.unwrap().attributes;
            assert_eq!(text(&attributes, "service.name").as_deref(), Some("satiety"));
            exports.push(
                resource
                    .scope_metrics
                    .into_iter()
                    .flat_map(|scope| scope.metrics)
                    .collect(),
            );
        }
    }
    exports
}

#[test]
fn metrics_are_pushed_with_buckets_and_exemplars() {
    let (collector, deliveries) = collector();
    let place = Place::new();
    let settings = format!("[server]\ntraces = \"{collector}\"\nmetrics = \"{collector}\"\n");
    place.write("satiety.toml", &settings);
    place.run(&["trust"]);
    let server = start_with(&place, &[], &[("OTEL_METRIC_EXPORT_INTERVAL", "100")]);
    let answer = post(
        &server.address,
        "/v1/memories",
        r#"{"title": "Queue", "content": "It grows by night."}"#,
    );
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let first = deliveries.iter().find(|(path, _)| path == "/v1/metrics");
    assert!(first.is_some());
    // A scraper that asks for OpenMetrics gets the trace of the request, others do not.
    let plain = get(&server.address, "/metrics", None);
    assert!(
        !plain.contains(TRACE) && plain.contains("satiety_http_requests_total{"),
        "{plain}"
    );
    let open = get_accepting(&server.address, "/metrics", "application/openmetrics-text");
    let bucket = open.lines().find(|line| {
        line.contains("duration_seconds_bucket") && line.contains("/v1/memories") && line.contains('#')
    });
    assert!(
        bucket.is_some_and(|line| line.contains(&format!("trace_id=\"{TRACE}\""))),
        "{open}"
    );
    assert_eq!(end(server), Some(0));
    let exports = exports(&deliveries, Duration::from_secs(1));
    let last = exports.last().unwrap();
    let find = |name: &str| {
        let metric = last.iter().find(|metric| metric.name == name);
        metric.unwrap_or_else(|| panic!("{name} is missing")).clone()
    };
    let durations = find("satiety_http_request_duration_seconds");
    assert_eq!(durations.unit, "s");
    let Some(metric::Data::Histogram(histogram)) = durations.data else {
        panic!("not a histogram");
    };
    let point = histogram
        .data_points
        .iter()
        .find(|point| text(&point.attributes, "route").as_deref() == Some("/v1/memories"))
        .unwrap();
    assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (1, 1));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!(hex(&point.exemplars[0].trace_id), TRACE);
    let Some(metric::Data::Sum(sum)) = find("satiety_http_requests").data else {
        panic!("not a sum");
    };
    assert!(sum.is_monotonic && sum.data_points[0].start_time_unix_nano > 0);
    // Everything that is scraped is pushed.
    for line in open.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        let has_series = open.lines().any(|line| line.starts_with(name));
        assert!(
            !has_series || last.iter().any(|metric| metric.name == name),
            "{name} is missing"
        );
    }
}

#[test]
fn a_failing_collector_does_not_disturb_the_server() {
    let (collector, deliveries) = collector_answering("503 Service Unavailable");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for endpoint in [collector, format!("http://{free}")] {
        let place = Place::new();
        let variables = [
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint.as_str()),
            ("OTEL_METRIC_EXPORT_INTERVAL", "50"),
        ];
        let server = start_with(&place, &[], &variables);
        std::thread::sleep(Duration::from_millis(400));
        assert!(get(&server.address, "/v1/health", None).starts_with("HTTP/1.1 200"));
        assert_eq!(end(server), Some(0));
    }
    assert!(exports(&deliveries, Duration::from_millis(200)).len() > 1);
    let place = Place::new();
    for (name, value) in [
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
        ("SATIETY_SERVER_METRICS", "4318"),
    ] {
        let wrong = place.show(
            place
                .command(&["serve", "--listen", "127.0.0.1:0"])
                .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("http://{free}"))
                .env(name, value),
        );
        assert!(
            wrong.starts_with("exit 2\n") && wrong.contains(value) && wrong.contains("hint:"),
            "{wrong}"
        );
    }
}
