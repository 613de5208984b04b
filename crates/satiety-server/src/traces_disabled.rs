//! What stands in for traces in a build without the cargo feature `otel`.

use axum::http::HeaderMap;
use tracing::{Span, Subscriber};
use tracing_subscriber::layer::{Identity, Layer};

/// Traces cannot be sent by this build.
#[derive(Debug, thiserror::Error)]
#[error("{}", satiety_engine::left_out("traces", "otel"))]
pub struct TracesError;

/// Never exists in this build.
#[derive(Debug)]
pub enum Traces {}

impl Traces {
    /// Says that this build has no traces.
    pub fn start(_endpoint: &str) -> Result<Self, TracesError> {
        Err(TracesError)
    }

    /// A layer that does nothing.
    pub fn layer<S: Subscriber>(&self) -> impl Layer<S> + Send + Sync + use<S> {
        Identity::new()
    }
}

pub(crate) fn continued(_span: &Span, _headers: &HeaderMap) {}
