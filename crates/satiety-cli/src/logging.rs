//! Logs go to stderr: a few words a line, or JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::settings::{LogFormat, Settings};

/// Starts logging as the settings say. A second call changes nothing.
pub(crate) fn start(settings: &Settings) {
    let filter = EnvFilter::new(format!(
        "warn,satiety={level},satiety_cli={level},satiety_engine={level},satiety_store={level},satiety_models={level},satiety_server={level}",
        level = settings.log_level
    ));
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match settings.log_format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .compact()
            .with_target(false)
            .try_init(),
    };
}
