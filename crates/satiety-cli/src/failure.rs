//! Why a command failed, and how that is told: one line with what and where, then what to do about it.

use std::fmt::Write;
use std::io;

use owo_colors::OwoColorize;
use satiety_engine::EngineError;

use crate::exit::Exit;

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request itself: usage, configuration, input.
    #[error("{message}")]
    BadInput { message: String, hint: Option<String> },
    /// A use case.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The reader of our output went away, which is its right.
    #[error("nobody reads the output any more")]
    BrokenPipe,
    /// Something of the system.
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
                1 => Exit::GateSaysNo,
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
            Self::Engine(error) => error.hint(),
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

/// Prints what clap has to say: help and version are answers, the rest is wrong usage.
pub(crate) fn usage(error: &clap::Error) -> Exit {
    // Nothing can be done about a stream that refuses even this.
    let _ = error.print();
    if error.use_stderr() {
        Exit::BadInput
    } else {
        Exit::Done
    }
}

/// After a panic, whose message is on stderr already.
pub(crate) fn report_bug() {
    let version = env!("CARGO_PKG_VERSION");
    to_stderr(&format!(
        "\n{} this is a bug in satiety {version}; please report it with the message above and the command you ran",
        "error:".red().bold()
    ));
}

/// A warning about something that was done all the same.
pub(crate) fn warn(text: &str) {
    to_stderr(&format!("{} {text}", "warning:".yellow().bold()));
}

/// The same for several.
pub(crate) fn warn_all(texts: impl IntoIterator<Item = impl AsRef<str>>) {
    for text in texts {
        warn(text.as_ref());
    }
}

pub(crate) fn to_stderr(text: &str) {
    use std::io::Write as _;
    // A stderr that is gone must not turn an answer into a failure.
    let _ = writeln!(anstream::stderr(), "{text}");
}
