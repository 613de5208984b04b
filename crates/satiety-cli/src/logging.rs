//! Logging to stderr as text or JSON lines, and trace export to an OpenTelemetry collector.

use std::io::IsTerminal;

use satiety_server::traces::Traces;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt};

use crate::failure::Failure;
use crate::settings::{LogFormat, Settings};

/// Starts logging as configured, and trace export for long-running commands. A second call has no effect.
/// Hold the returned guard until exit: dropping it flushes the last traces.
pub(crate) fn start(settings: &Settings, runs_long: bool) -> Result<Option<Traces>, Failure> {
    let filter = EnvFilter::new(format!(
        "warn,satiety={level},satiety_cli={level},satiety_engine={level},satiety_store={level},satiety_models={level},satiety_server={level}",
        level = settings.log_level
    ));
    let filter = filter.and(filter_fn(is_line));
    let traces = match &settings.traces {
        Some(endpoint) if runs_long => Some(Traces::start(endpoint).map_err(|error| {
            Failure::bad_input(
                error.to_string(),
                "set `server.traces` to an OTLP/HTTP collector, such as http://127.0.0.1:4318, or `none`",
            )
        })?),
        _ => None,
    };
    let lines = fmt::layer::<Registry>().with_writer(std::io::stderr);
    let lines = match settings.log_format {
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .compact()
            .with_target(false)
            .with_filter(filter)
            .boxed(),
    };
    let _ = Registry::default()
        .with(lines)
        .with(traces.as_ref().map(Traces::layer))
        .try_init();
    Ok(traces)
}

/// Only events become log lines; spans are for traces.
fn is_line(metadata: &tracing::Metadata<'_>) -> bool {
    metadata.is_event()
}
