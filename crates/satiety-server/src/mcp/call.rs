//! Context of a tool call, and its errors. Tools know this module and the engine, never the protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use satiety::harness::Driver;
use satiety::memory::Author;
use satiety_engine::admission::Admissions;
use satiety_engine::bench::Stop;
use satiety_engine::operations::{self, CallError};
use satiety_engine::{Engine, EngineError, ErrorCategory, root_path};
use serde_json::Value;

use crate::auth::Scope;
use crate::http::{JobPermit, JobPermits};

/// Shared context of all calls: the engine and the server's settings.
#[derive(Debug, Clone)]
pub struct Context {
    /// Engine with the use cases.
    pub engine: Arc<Engine>,
    /// Scoring profile for conversations.
    pub dialogue_profile: String,
    /// Directory of the eval harness.
    pub harness_folder: PathBuf,
    /// Score that the harness's cycle window follows.
    pub harness_driver: Driver,
    /// Environment variables that benchmark targets may use.
    pub environment: BTreeMap<String, String>,
    /// Files and runs that calls may name.
    pub reach: Reach,
    /// Cost and time limits of remote calls; `None` for a local client.
    pub limits: Option<CallLimits>,
}

/// Cost and time limits of remote calls.
#[derive(Debug, Clone)]
pub struct CallLimits {
    /// Cost budgets, shared with the caller's other requests.
    pub admissions: Arc<Admissions>,
    /// Timeout of the computation.
    pub timeout: Duration,
}

/// Files and runs that calls may name.
#[derive(Debug, Clone, Default)]
pub enum Reach {
    /// Anything on this machine, for local callers.
    #[default]
    Machine,
    /// For remote callers: stored runs, and suites below a directory.
    Below {
        /// Root directory; without it no suite can be named.
        root: Option<PathBuf>,
        /// Permits for concurrent runs.
        permits: JobPermits,
    },
}

impl Context {
    /// Creates a context with default settings.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            dialogue_profile: "default".into(),
            harness_folder: ".".into(),
            harness_driver: Driver::Measured,
            environment: BTreeMap::new(),
            reach: Reach::Machine,
            limits: None,
        }
    }

    /// Whether the caller may be remote.
    fn is_remote(&self) -> bool {
        matches!(self.reach, Reach::Below { .. })
    }

    /// Problem without details that the caller must not see; they are logged instead.
    pub(super) fn redact(&self, mut problem: Problem) -> Problem {
        if self.is_remote()
            && let Some(message) = problem.generic.take()
        {
            tracing::error!("{}", problem.what);
            problem.what = message.to_owned();
            problem.hint = Some("try again later; the server's log has the cause".into());
        }
        if let Reach::Below { root: Some(root), .. } = &self.reach {
            problem.what = root_path::hide_root(root, &problem.what);
            problem.hint = problem.hint.map(|hint| root_path::hide_root(root, &hint));
        }
        problem
    }
}

/// Progress callback: done, total, message.
pub(super) type Progress = Arc<dyn Fn(f64, f64, String) + Send + Sync>;

/// Result of a tool call.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Value, Problem>> + Send>>;

/// One tool call.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) context: Arc<Context>,
    /// Session of the connection.
    pub(super) session: Option<String>,
    /// Client name, as reported by the client.
    pub(super) caller: String,
    /// Scope of the caller.
    pub(super) scope: Scope,
    /// Author for actions that only a person may take.
    pub(super) author: Author,
    /// Set when the client cancels the call.
    pub(super) stop: Stop,
    pub(super) progress: Option<Progress>,
}

impl Call {
    pub(super) fn engine(&self) -> &Engine {
        &self.context.engine
    }

    /// Whether the caller may be remote.
    pub(super) fn is_remote(&self) -> bool {
        self.context.is_remote()
    }

    /// Checks a run name: remote callers may not name files.
    pub(super) async fn run_named(&self, name: &str) -> Result<(), Problem> {
        let is_latest = name == "latest" || name.starts_with("latest:");
        if !self.is_remote()
            || (is_latest && !Path::new(name).exists())
            || self.engine().bench().is_stored(name).await?
        {
            return Ok(());
        }
        Err(Problem::new(
            format!("run `{name}` not found"),
            "call bench_status without arguments to list the runs",
        ))
    }

    /// Resolves a suite, with a permit for its run.
    pub(super) async fn suite_named(&self, suite: PathBuf) -> Result<(PathBuf, Option<JobPermit>), Problem> {
        let Reach::Below { root, permits } = &self.context.reach else {
            return Ok((suite, None));
        };
        let Some(root) = root else {
            return Err(Problem::new(
                "file access is disabled on this server",
                "start the server with `--root DIR` to allow suites below it",
            ));
        };
        let suite = root_path::below(root, &suite.to_string_lossy()).map_err(|problem| {
            let what = root_path::hide_root(root, &problem.to_string());
            Problem::new(what, "use a path relative to the server's root, without `..`")
        })?;
        Ok((suite, permits.acquire().await))
    }

    /// Builds an operation call.
    pub(super) fn operation(&self) -> operations::Call {
        operations::Call {
            engine: Arc::clone(&self.context.engine),
            scope: self.scope,
            author: self.author,
            reach: match &self.context.reach {
                Reach::Machine => operations::Reach::Machine,
                Reach::Below { root, .. } => operations::Reach::Below(root.clone()),
            },
            harness: operations::HarnessSettings {
                folder: self.context.harness_folder.clone(),
                driver: self.context.harness_driver,
            },
            host: None,
            observer: None,
        }
    }

    /// Error of an operation, without details that the caller must not see.
    pub(super) fn problem(&self, tool: &str, error: EngineError) -> Problem {
        match error {
            EngineError::Call(CallError::Invalid { place, message }) => {
                Problem::argument(tool, &place, message)
            }
            error => self.redact(error.into()),
        }
    }

    /// Problem without details that the caller must not see; they are logged instead.
    pub(super) fn redact(&self, problem: Problem) -> Problem {
        self.context.redact(problem)
    }

    /// Message instead of that of an error which a remote caller must not see; the error is logged.
    pub(super) fn generic_message(&self, error: &EngineError) -> Option<&'static str> {
        let message = generic_message(error).filter(|_| self.is_remote())?;
        tracing::error!("{error}");
        Some(message)
    }
}

/// Error of a tool call: message, location, hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) place: Option<String>,
    pub(super) hint: Option<String>,
    /// Message for remote callers, if `what` may have details such as the location of the store.
    generic: Option<&'static str>,
}

impl Problem {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            place: None,
            hint: Some(hint.into()),
            generic: None,
        }
    }

    /// Invalid arguments.
    pub(super) fn arguments(tool: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        Self::argument(tool, &error.path().to_string(), error.inner().to_string())
    }

    fn argument(tool: &str, path: &str, what: String) -> Self {
        Self {
            what,
            place: Some(if matches!(path, "" | ".") {
                format!("arguments of {tool}")
            } else {
                format!("arguments of {tool}, {path}")
            }),
            hint: Some("use the arguments of the input schema".into()),
            generic: None,
        }
    }

    pub(super) fn bug(what: &str) -> Self {
        Self::new(
            format!("internal error (a bug in satiety): {what}"),
            "please report it with the call",
        )
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let mut what = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !what.contains(&text) {
                what = format!("{what}: {text}");
            }
            cause = inner.source();
        }
        let hint = error.hint();
        let hint = match (&hint, error.category().exit_code()) {
            (Some(hint), _) => hint.action(),
            (None, 2) => "nothing was changed; correct the arguments and call again",
            (None, 1) => "not allowed without a person's decision",
            (None, _) => "run `satiety doctor` to diagnose the environment",
        };
        Self {
            what,
            place: None,
            hint: Some(hint.into()),
            generic: generic_message(&error),
        }
    }
}

/// Message that replaces that of an error for remote callers, as over HTTP; `None` if it has no internal details.
fn generic_message(error: &EngineError) -> Option<&'static str> {
    match (error.category(), error) {
        (_, EngineError::Overloaded | EngineError::Cancelled) => None,
        (ErrorCategory::Internal, _) => Some("internal server error"),
        (ErrorCategory::Unavailable, _) => {
            Some("the store or a model is unavailable; the request was not acknowledged")
        }
        _ => None,
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        if let Some(place) = &self.place {
            write!(f, "\nwhere: {place}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}
