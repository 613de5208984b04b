//! Pushes the metrics to an OpenTelemetry collector over OTLP/HTTP, periodically and once at shutdown.
//!
//! Everything is read from the registry when it is sent. Values are cumulative, so that an export that fails loses
//! nothing that the next one does not contain: there is no retry and no buffer.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use opentelemetry_proto::tonic::Attributes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, exemplar, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use satiety_engine::http::{Client, HttpPolicy, Url};
use tokio::task::JoinHandle;

use super::exposition::{self, Bucket, HistogramValue, MetricFamily, ParsedExemplar, Point, PointValue};
use crate::http::App;
use crate::traces::{self, TracesError};

/// Standard path of the OTLP metrics endpoint.
const PATH: &str = "/v1/metrics";
/// Interval and timeout of the specification, in milliseconds.
const DEFAULT_INTERVAL_MS: u64 = 60_000;
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// Timeout of the last export, which must not delay the exit.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of a collector's response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// How metrics are pushed.
#[derive(Debug, Clone)]
pub struct ExportSettings {
    url: Url,
    headers: HeaderMap,
    interval: Duration,
    timeout: Duration,
}

impl ExportSettings {
    /// Reads the standard variables of the metrics exporter. Returns `None` if `OTEL_METRICS_EXPORTER` selects
    /// something else than `otlp`.
    pub fn read(
        endpoint: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TracesError> {
        let variable = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        if let Some(exporters) = variable("OTEL_METRICS_EXPORTER")
            && !exporters.split(',').any(|name| name.trim() == "otlp")
        {
            return Ok(None);
        }
        let milliseconds = |name: &str, default: u64| match variable(name) {
            None => Ok(Duration::from_millis(default)),
            Some(text) => match text.trim().parse() {
                Ok(number @ 1..) => Ok(Duration::from_millis(number)),
                _ => Err(TracesError::Start(format!(
                    "invalid {name} `{text}` (expected milliseconds, at least 1)"
                ))),
            },
        };
        let url = traces::signal_url(endpoint, PATH)?;
        let url = Url::parse(&url).map_err(|error| TracesError::Start(error.to_string()))?;
        let headers = variable("OTEL_EXPORTER_OTLP_METRICS_HEADERS")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"))
            .unwrap_or_default();
        Ok(Some(Self {
            url,
            headers: parse_headers(&headers)?,
            interval: milliseconds("OTEL_METRIC_EXPORT_INTERVAL", DEFAULT_INTERVAL_MS)?,
            timeout: milliseconds("OTEL_METRIC_EXPORT_TIMEOUT", DEFAULT_TIMEOUT_MS)?,
        }))
    }
}

/// `name=value` pairs, separated by commas; values are percent-encoded. Errors do not contain values, which may be keys.
fn parse_headers(text: &str) -> Result<HeaderMap, TracesError> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let invalid = || {
            TracesError::Start(format!(
                "invalid header `{}` in OTEL_EXPORTER_OTLP_HEADERS",
                name.trim()
            ))
        };
        let name = HeaderName::try_from(name.trim()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_bytes(&percent_decoded(value.trim())).map_err(|_| invalid())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if let Some(escaped) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            decoded.push(escaped);
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    decoded
}

/// Periodic export of a server's metrics.
#[derive(Debug)]
pub struct MetricsExport {
    exporter: Exporter,
    task: JoinHandle<()>,
}

impl MetricsExport {
    /// Starts pushing the metrics of a server.
    pub fn start(app: Arc<App>, settings: ExportSettings) -> Result<Self, TracesError> {
        let client = Client::new(HttpPolicy {
            max_bytes: MAX_RESPONSE_BYTES,
            ..HttpPolicy::single_attempt(Some(settings.timeout))
        })
        .map_err(|error| TracesError::Start(error.to_string()))?;
        let exporter = Exporter {
            app,
            client,
            settings,
        };
        let task = tokio::spawn(exporter.clone().run());
        Ok(Self { exporter, task })
    }

    /// Stops, and sends the final values.
    pub async fn finish(self) {
        self.task.abort();
        if let Ok(Err(error)) | Err(error) = tokio::time::timeout(LAST_TIMEOUT, self.exporter.push())
            .await
            .map_err(|_| "timeout".to_owned())
        {
            tracing::debug!(error, "cannot export the last metrics");
        }
    }
}

#[derive(Debug, Clone)]
struct Exporter {
    app: Arc<App>,
    client: Client,
    settings: ExportSettings,
}

impl Exporter {
    async fn run(self) {
        let mut ticks = tokio::time::interval(self.settings.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is immediate, and there is nothing to report yet.
        ticks.tick().await;
        let mut is_failing = false;
        loop {
            ticks.tick().await;
            // A database that does not answer must not keep the other metrics from being sent.
            let _ = tokio::time::timeout(self.settings.timeout, super::refresh(&self.app)).await;
            match self.push().await {
                Ok(()) => is_failing = false,
                // Warn once per outage.
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::warn!(error, "cannot export metrics");
                }
                Err(_) => {}
            }
        }
    }

    async fn push(&self) -> Result<(), String> {
        let metrics = &self.app.metrics;
        let body = export_request(
            &exposition::parse(&metrics.text()),
            metrics.started,
            SystemTime::now(),
        );
        let request = self
            .client
            .request(Method::POST, self.settings.url.clone())
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .headers(self.settings.headers.clone())
            .body(body.encode_to_vec());
        let answer = self
            .client
            .send(request)
            .await
            .map_err(|error| error.to_string())?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(format!("the collector answers {}", answer.status))
    }
}

/// Converts the metrics of this process to an OTLP request.
fn export_request(
    families: &[MetricFamily],
    started: SystemTime,
    now: SystemTime,
) -> ExportMetricsServiceRequest {
    let times = Times {
        start: nanoseconds(started),
        now: nanoseconds(now),
    };
    let resource = traces::resource();
    let attributes = resource
        .iter()
        .map(|(key, value)| opentelemetry::KeyValue::new(key.clone(), value.clone()));
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: Attributes::from(attributes).0,
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: traces::SCOPE.to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    ..InstrumentationScope::default()
                }),
                metrics: families
                    .iter()
                    .filter(|family| !family.points.is_empty())
                    .map(|family| metric(family, times))
                    .collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    }
}

/// Start of the process and time of the export, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

fn metric(family: &MetricFamily, times: Times) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match family.kind.as_str() {
        "histogram" => metric::Data::Histogram(Histogram {
            data_points: family
                .points
                .iter()
                .filter_map(|point| match &point.value {
                    PointValue::Histogram(histogram) => Some(histogram_point(point, histogram, times)),
                    _ => None,
                })
                .collect(),
            aggregation_temporality: cumulative,
        }),
        "counter" => metric::Data::Sum(Sum {
            data_points: family
                .points
                .iter()
                .filter_map(|point| number_point(point, times.start, times.now))
                .collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        _ => metric::Data::Gauge(Gauge {
            data_points: family
                .points
                .iter()
                .filter_map(|point| number_point(point, 0, times.now))
                .collect(),
        }),
    };
    // Names end in their unit, by the convention of Prometheus.
    let unit = match family.name.rsplit_once('_') {
        Some((_, "seconds")) => "s",
        Some((_, "bytes")) => "By",
        _ => "",
    };
    Metric {
        name: family.name.clone(),
        description: family.help.clone(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn number_point(point: &Point, start: u64, now: u64) -> Option<NumberDataPoint> {
    let value = match point.value {
        PointValue::Integer(number) => number_data_point::Value::AsInt(number),
        PointValue::Float(number) => number_data_point::Value::AsDouble(number),
        PointValue::Histogram(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(&point.labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn histogram_point(point: &Point, histogram: &HistogramValue, times: Times) -> HistogramDataPoint {
    let mut below = 0;
    let count = |bucket: &Bucket| {
        let own = bucket.cumulative.saturating_sub(below);
        below = bucket.cumulative;
        own
    };
    let bucket_counts: Vec<u64> = histogram.buckets.iter().map(count).collect();
    HistogramDataPoint {
        attributes: attributes(&point.labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: histogram.count,
        sum: Some(histogram.sum),
        bucket_counts,
        explicit_bounds: histogram
            .buckets
            .iter()
            .map(|bucket| bucket.bound)
            .filter(|bound| bound.is_finite())
            .collect(),
        exemplars: histogram
            .buckets
            .iter()
            .filter_map(|bucket| bucket.exemplar.as_ref())
            .map(|found| exemplar_of(found, times.now))
            .collect(),
        ..HistogramDataPoint::default()
    }
}

fn exemplar_of(found: &ParsedExemplar, now: u64) -> Exemplar {
    let id = |name: &str| {
        let label = found.labels.iter().find(|(label, _)| label == name);
        label.map_or_else(Vec::new, |(_, text)| hex_bytes(text))
    };
    Exemplar {
        time_unix_nano: found
            .at
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .map_or(now, |since| u64::try_from(since.as_nanos()).unwrap_or(now)),
        trace_id: id("trace_id"),
        span_id: id("span_id"),
        value: Some(exemplar::Value::AsDouble(found.value)),
        ..Exemplar::default()
    }
}

fn hex_bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| (pair[0] << 4) | pair[1])
        .collect()
}

fn attributes(labels: &[(String, String)]) -> Vec<KeyValue> {
    labels
        .iter()
        .map(|(key, value)| KeyValue {
            key: key.clone(),
            value: Some(AnyValue {
                value: Some(any_value::Value::StringValue(value.clone())),
            }),
            ..KeyValue::default()
        })
        .collect()
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, TraceReference};

    #[test]
    fn every_metric_of_the_registry_is_exported_with_its_kind_and_values() {
        let metrics = Metrics::new();
        metrics.touch_all();
        let trace = TraceReference {
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            span_id: "b7ad6b7169203331".into(),
        };
        metrics.request("GET", "/v1/health", 200, Duration::from_millis(3), Some(trace));
        let families = exposition::parse(&metrics.text());
        let request = export_request(&families, UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(1));
        let exported = &request.resource_metrics[0].scope_metrics[0].metrics;
        let names: Vec<&str> = exported.iter().map(|metric| metric.name.as_str()).collect();
        let registered: Vec<String> = crate::metrics::catalogue()
            .into_iter()
            .map(|metric| metric.name)
            .collect();
        assert_eq!(names, registered);
        let find = |name: &str| {
            let metric = exported.iter().find(|metric| metric.name == name).unwrap();
            metric.data.clone().unwrap()
        };
        let metric::Data::Histogram(histogram) = find("satiety_http_request_duration_seconds") else {
            panic!("not a histogram");
        };
        let point = histogram
            .data_points
            .iter()
            .find(|point| point.attributes == attributes(&[("route".into(), "/v1/health".into())]))
            .unwrap();
        assert_eq!(point.count, 1);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), 1);
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        // 3 ms are in the bucket up to 5 ms.
        let at = point
            .explicit_bounds
            .iter()
            .position(|bound| (bound - 0.005).abs() < 1e-12)
            .unwrap();
        assert_eq!(point.bucket_counts[at], 1);
        assert_eq!(point.exemplars.len(), 1);
        assert_eq!(point.exemplars[0].trace_id.len(), 16);
        assert_eq!(point.exemplars[0].trace_id[..2], [0x0a, 0xf7]);
        let metric::Data::Sum(sum) = find("satiety_http_requests") else {
            panic!("not a sum");
        };
        assert!(sum.is_monotonic);
        assert!(matches!(find("satiety_store_up"), metric::Data::Gauge(_)));
    }

    #[test]
    fn standard_variables_select_and_tune_the_export() {
        let read = |pairs: &'static [(&str, &str)]| {
            ExportSettings::read("http://127.0.0.1:4318", move |name| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let settings = read(&[]).unwrap().unwrap();
        assert_eq!(settings.url.as_str(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(settings.interval, Duration::from_mins(1));
        let settings = read(&[
            ("OTEL_METRICS_EXPORTER", "prometheus,otlp"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "x-key=secret, y=1,authorization=Basic%20eDp5%",
            ),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.interval, Duration::from_millis(250));
        assert_eq!(settings.headers["x-key"], "secret");
        assert_eq!(settings.headers["authorization"], "Basic eDp5%");
        assert!(!format!("{settings:?}").contains("secret"));
        assert!(read(&[("OTEL_METRICS_EXPORTER", "none")]).unwrap().is_none());
        for wrong in ["0", "-1", "1s"] {
            let error = ExportSettings::read("http://127.0.0.1:4318", |name| {
                (name == "OTEL_METRIC_EXPORT_INTERVAL").then(|| wrong.to_owned())
            });
            assert!(error.unwrap_err().to_string().contains(wrong));
        }
        let error = read(&[("OTEL_EXPORTER_OTLP_HEADERS", "a b=secret")]).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
