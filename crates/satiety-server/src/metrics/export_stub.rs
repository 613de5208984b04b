//! Stub for builds without the cargo feature `otel`.

use std::sync::Arc;

use crate::http::App;
use crate::traces::TracesError;

/// Never instantiated in this build.
#[derive(Debug, Clone)]
pub enum ExportSettings {}

impl ExportSettings {
    /// Always fails in this build.
    pub fn read(
        _endpoint: &str,
        _variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TracesError> {
        Err(TracesError)
    }
}

/// Never instantiated in this build.
#[derive(Debug)]
pub enum MetricsExport {}

impl MetricsExport {
    /// Cannot be called in this build.
    pub fn start(_app: Arc<App>, settings: ExportSettings) -> Result<Self, TracesError> {
        match settings {}
    }

    /// Cannot be called in this build.
    pub async fn finish(self) {
        match self {}
    }
}
