//! Traces for OpenTelemetry: what a request spends its time on, sent to a collector that somebody names.
//!
//! Spans are made everywhere with `tracing`; this is the one place that knows where they go. Nothing is sent, and spans
//! cost next to nothing, where no collector is named.

use std::time::Duration;

use axum::http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use satiety_engine::http::{Client, HttpPolicy, Url};
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Where collectors expect traces.
const PATH: &str = "/v1/traces";
/// How long a delivery may take, also the last one when the program ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a collector may answer; more is not read.
const ANSWER: usize = 64 * 1024;

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The address is none.
    #[error("`{endpoint}` is not the address of a collector: {reason}")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The sender could not be started.
    #[error("cannot start sending traces: {0}")]
    Start(String),
}

/// Traces on their way to a collector. When it is dropped, what is left is sent.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    // Dropped after the provider, whose last delivery it makes.
    _runtime: tokio::runtime::Runtime,
}

impl Traces {
    /// Starts to send to a collector that speaks OTLP over HTTP: `http://127.0.0.1:4318`, or the full address of its traces.
    pub fn start(endpoint: &str) -> Result<Self, TracesError> {
        let address = address(endpoint)?;
        let cannot = |error: &dyn std::fmt::Display| TracesError::Start(error.to_string());
        // The exporter has a thread of its own without a runtime, and outlives the command's.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()
            .map_err(|error| cannot(&error))?;
        let client = Client::new(HttpPolicy {
            max_bytes: ANSWER,
            ..HttpPolicy::single_attempt(Some(PATIENCE))
        })
        .map_err(|error| cannot(&error))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender {
                client,
                runtime: runtime.handle().clone(),
            })
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address)
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| cannot(&error))?;
        // The builder reads `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`; what they say stands.
        let named = Resource::builder()
            .build()
            .get(&opentelemetry::Key::new("service.name"));
        let mut resource = Resource::builder();
        if named.is_none_or(|name| name.as_str().starts_with("unknown_service")) {
            resource = resource.with_service_name("satiety");
        }
        let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.with_attribute(version).build())
            .build();
        Ok(Self {
            provider,
            _runtime: runtime,
        })
    }

    /// What a subscriber needs to hand spans over.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("satiety"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_told))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // Who ends a program does not wait for a collector that is away.
        if let Err(error) = self.provider.shutdown_with_timeout(PATIENCE) {
            tracing::debug!(%error, "the last traces were not delivered");
        }
    }
}

/// Our spans, and what went wrong inside them; nothing of the libraries below.
fn is_told(metadata: &Metadata<'_>) -> bool {
    let least = if metadata.is_span() {
        Level::INFO
    } else {
        Level::WARN
    };
    metadata.target().starts_with("satiety") && *metadata.level() <= least
}

/// Makes a request's span part of the caller's trace, where it has one (`traceparent`).
pub(crate) fn continued(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() || !headers.contains_key("traceparent") {
        return;
    }
    let caller = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // Fails only where nobody listens to spans.
    let _ = span.set_parent(caller);
}

fn address(endpoint: &str) -> Result<String, TracesError> {
    let wrong = |reason: &str| TracesError::Endpoint {
        endpoint: endpoint.to_owned(),
        reason: reason.to_owned(),
    };
    let url = Url::parse(endpoint).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("it begins with http:// or https:// and a host"));
    }
    let text = url.as_str().trim_end_matches('/');
    Ok(if text.ends_with(PATH) {
        text.to_owned()
    } else {
        format!("{text}{PATH}")
    })
}

/// Sends with the program's one client, whatever thread asks.
#[derive(Debug)]
struct Sender {
    client: Client,
    runtime: tokio::runtime::Handle,
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(
        &self,
        request: axum::http::Request<Bytes>,
    ) -> Result<axum::http::Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request.try_into()?).await?;
            Ok::<_, HttpError>(answer)
        });
        let answer = sent.await??;
        let mut response = axum::http::Response::new(Bytes::from(answer.body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_with_or_without_the_path() {
        for (given, meant) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://c.example/v1/traces", "https://c.example/v1/traces"),
            ("https://c.example/otlp", "https://c.example/otlp/v1/traces"),
        ] {
            assert_eq!(address(given).unwrap(), meant);
        }
        for wrong in [
            "",
            "4318",
            "127.0.0.1:4318",
            "file:///etc/passwd",
            "grpc://x:4317",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
