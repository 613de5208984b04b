//! Stub for builds without the cargo feature `otel`.

use axum::http::HeaderMap;
use tracing::{Span, Subscriber};
use tracing_subscriber::layer::{Identity, Layer};

/// Trace export is not compiled into this build.
#[derive(Debug, thiserror::Error)]
#[error("{}", satiety_engine::feature_disabled("traces", "otel"))]
pub struct TracesError;

/// Never instantiated in this build.
#[derive(Debug)]
pub enum Traces {}

impl Traces {
    /// Always fails in this build.
    pub fn start(_endpoint: &str) -> Result<Self, TracesError> {
        Err(TracesError)
    }

    /// Layer that does nothing.
    pub fn layer<S: Subscriber>(&self) -> impl Layer<S> + Send + Sync + use<S> {
        Identity::new()
    }
}

pub(crate) fn continue_trace(_span: &Span, _headers: &HeaderMap) {}

pub(crate) fn sampled_trace(_span: &Span) -> Option<crate::metrics::TraceReference> {
    None
}
