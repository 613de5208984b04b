//! OpenTelemetry trace export over OTLP/HTTP.
//!
//! Spans are created everywhere with `tracing`; this module exports them. Without a collector nothing is
//! sent, and spans cost almost nothing.

use std::time::Duration;

use axum::http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
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

use crate::metrics::TraceReference;

/// Standard path of the OTLP traces endpoint.
const PATH: &str = "/v1/traces";
/// Tracer and meter that everything belongs to.
pub(crate) const SCOPE: &str = "satiety";
/// Timeout of an export, including the last one at exit.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a collector's response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Reasons why traces or metrics cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is not a valid URL.
    #[error("invalid collector address `{endpoint}`: {reason}")]
    Endpoint {
        /// Endpoint as configured.
        endpoint: String,
        /// Reason why it is invalid.
        reason: String,
    },
    /// The exporter could not be started.
    #[error("cannot start the OpenTelemetry exporter: {0}")]
    Start(String),
}

/// Trace exporter. Dropping it flushes pending spans.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    // Dropped after the provider, which needs it for the last export.
    _runtime: tokio::runtime::Runtime,
}

impl Traces {
    /// Starts exporting to an OTLP/HTTP collector: `http://127.0.0.1:4318`, or the full URL of its traces
    /// endpoint.
    pub fn start(endpoint: &str) -> Result<Self, TracesError> {
        let traces_url = signal_url(endpoint, PATH)?;
        let cannot = |error: &dyn std::fmt::Display| TracesError::Start(error.to_string());
        // The exporter runs on a separate thread and outlives the command's runtime.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()
            .map_err(|error| cannot(&error))?;
        let client = Client::new(HttpPolicy {
            max_bytes: MAX_RESPONSE_BYTES,
            ..HttpPolicy::single_attempt(Some(EXPORT_TIMEOUT))
        })
        .map_err(|error| cannot(&error))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender {
                client,
                runtime: runtime.handle().clone(),
            })
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(traces_url)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| cannot(&error))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource())
            .build();
        Ok(Self {
            provider,
            _runtime: runtime,
        })
    }

    /// Subscriber layer that passes spans to the exporter.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SCOPE))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_exported))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // An unreachable collector must not delay the exit.
        if let Err(error) = self.provider.shutdown_with_timeout(EXPORT_TIMEOUT) {
            tracing::debug!(%error, "cannot export the last traces");
        }
    }
}

/// Exports our own spans and errors, not those of libraries.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    let least = if metadata.is_span() {
        Level::INFO
    } else {
        Level::WARN
    };
    metadata.target().starts_with("satiety") && *metadata.level() <= least
}

/// Continues the caller's trace, if the request has one (`traceparent`).
pub(crate) fn continue_trace(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() || !headers.contains_key("traceparent") {
        return;
    }
    let caller = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // Fails only without a subscriber.
    let _ = span.set_parent(caller);
}

/// Trace and span of an observation, if its trace is sampled: what an exemplar refers to.
pub(crate) fn sampled_trace(span: &Span) -> Option<TraceReference> {
    let context = span.context();
    let span = context.span();
    let reference = span.span_context();
    (reference.is_valid() && reference.is_sampled()).then(|| TraceReference {
        trace_id: reference.trace_id().to_string(),
        span_id: reference.span_id().to_string(),
    })
}

/// Attributes of this process, for traces and metrics.
pub(crate) fn resource() -> Resource {
    // The builder reads `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, which take precedence.
    let named = Resource::builder()
        .build()
        .get(&opentelemetry::Key::new("service.name"));
    let mut resource = Resource::builder();
    if named.is_none_or(|name| name.as_str().starts_with("unknown_service")) {
        resource = resource.with_service_name("satiety");
    }
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    resource.with_attribute(version).build()
}

/// Address of a signal at a collector: the endpoint itself if it ends in the signal's path.
pub(crate) fn signal_url(endpoint: &str, path: &str) -> Result<String, TracesError> {
    let wrong = |reason: &str| TracesError::Endpoint {
        endpoint: endpoint.to_owned(),
        reason: reason.to_owned(),
    };
    let url = Url::parse(endpoint).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("it must start with http:// or https:// and a host"));
    }
    let text = url.as_str().trim_end_matches('/');
    Ok(if text.ends_with(path) {
        text.to_owned()
    } else {
        format!("{text}{path}")
    })
}

/// Sends with the program's shared HTTP client, from any thread.
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
    fn collector_urls_work_with_and_without_the_path() {
        for (given, meant) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://c.example/v1/traces", "https://c.example/v1/traces"),
            ("https://c.example/otlp", "https://c.example/otlp/v1/traces"),
        ] {
            assert_eq!(signal_url(given, PATH).unwrap(), meant);
        }
        for wrong in [
            "",
            "4318",
            "127.0.0.1:4318",
            "file:///etc/passwd",
            "grpc://x:4317",
        ] {
            assert!(signal_url(wrong, PATH).is_err(), "{wrong}");
        }
    }
}
