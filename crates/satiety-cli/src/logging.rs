//! Logs go to stderr: a few words a line, or JSON for machines. Traces go to a collector where one is named.

use std::io::IsTerminal;

use satiety_server::traces::Traces;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt};

use crate::failure::Failure;
use crate::settings::{LogFormat, Settings};

/// Starts logging as the settings say, and for what runs for long also tracing. A second call changes nothing. What
/// comes back must be held until the end: it sends the last traces.
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
                "name a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318, or `none`",
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

/// Spans are for traces; a line of the log says what it has to say itself.
fn is_line(metadata: &tracing::Metadata<'_>) -> bool {
    metadata.is_event()
}
