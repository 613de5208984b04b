//! Command failures and their display: one line with the error and its location, then a hint.

use std::fmt::Write;
use std::io;

use owo_colors::OwoColorize;
use satiety_engine::EngineError;

use crate::exit::Exit;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Invalid usage, configuration or input.
    #[error("{message}")]
    BadInput { message: String, hint: Option<String> },
    /// Error from an engine operation.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The reader closed our output, as `head` does; not an error.
    #[error("output closed by the reader")]
    BrokenPipe,
    /// File system, terminal or network failure.
    #[error("{message}")]
    Environment { message: String, hint: Option<String> },
}

impl Failure {
    pub(crate) fn bad_input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::BadInput {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    pub(crate) fn environment(message: impl Into<String>, hint: Option<String>) -> Self {
        Self::Environment {
            message: message.into(),
            hint,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::BadInput { .. } => Exit::BadInput,
            Self::Engine(error) => match error.category().exit_code() {
                1 => Exit::CheckFailed,
                2 => Exit::BadInput,
                _ => Exit::Environment,
            },
            Self::BrokenPipe => Exit::Done,
            Self::Environment { .. } => Exit::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::BadInput { hint, .. } | Self::Environment { hint, .. } => hint.clone(),
            Self::Engine(error) => error.hint().map(|hint| hint.to_string()),
            Self::BrokenPipe => None,
        }
    }

    /// Prints `error: …` and the hint to stderr.
    pub(crate) fn report(&self) {
        let mut text = format!("{} {self}", "error:".red().bold());
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let _ = write!(text, "\n  cause: {error}");
            cause = error.source();
        }
        if let Some(hint) = self.hint() {
            let _ = write!(text, "\n\n{} {hint}", "hint:".cyan().bold());
        }
        to_stderr(&text);
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::environment(format!("cannot write the answer: {error}"), None),
        }
    }
}

/// Prints clap's message: help and version count as success, everything else as a usage error.
pub(crate) fn usage(error: &clap::Error) -> Exit {
    // Nothing can be done if this stream fails, too.
    let _ = error.print();
    if let Some(value) = export_format(error) {
        to_stderr(&format!(
            "\n{} --format is the format of the printed result; choose the format of an export with `--to {value}`",
            "hint:".cyan().bold()
        ));
    }
    if error.use_stderr() {
        Exit::BadInput
    } else {
        Exit::Done
    }
}

/// The value of `--format`, if it is a format of exports.
fn export_format(error: &clap::Error) -> Option<&str> {
    use clap::error::{ContextKind, ContextValue};
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let value = text(ContextKind::InvalidValue)
        .filter(|value| ["parquet", "jsonl", "junit", "inspect"].contains(value))?;
    text(ContextKind::InvalidArg)?
        .starts_with("--format")
        .then_some(value)
}

/// Reports an internal error after a panic, whose message is already on stderr.
pub(crate) fn report_bug() {
    let version = env!("CARGO_PKG_VERSION");
    to_stderr(&format!(
        "\n{} this is a bug in satiety {version}; please report it with the message above and the command you ran",
        "error:".red().bold()
    ));
}

/// Prints a warning that does not stop the command.
pub(crate) fn warn(text: &str) {
    to_stderr(&format!("{} {text}", "warning:".yellow().bold()));
}

/// Prints several warnings.
pub(crate) fn warn_all(texts: impl IntoIterator<Item = impl AsRef<str>>) {
    for text in texts {
        warn(text.as_ref());
    }
}

pub(crate) fn to_stderr(text: &str) {
    use std::io::Write as _;
    // A closed stderr must not turn a result into a failure.
    let _ = writeln!(anstream::stderr(), "{text}");
}
