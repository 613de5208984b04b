//! What a tool is given and what can be wrong with a call. Tools know this and the engine, never the protocol.

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
use satiety_engine::{Engine, EngineError, root_path};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::Scope;

/// What all calls have in common: the engine and the settings of the surface.
#[derive(Debug, Clone)]
pub struct Context {
    /// The use cases.
    pub engine: Arc<Engine>,
    /// The profile that conversations are judged by.
    pub dialogue_profile: String,
    /// The folder of the eval harness.
    pub harness_folder: PathBuf,
    /// Which score the harness' window follows.
    pub harness_driver: Driver,
    /// Variables that targets of benchmarks may name.
    pub environment: BTreeMap<String, String>,
    /// What calls may name and start.
    pub reach: Reach,
    /// What calls from elsewhere may cost and how long they may compute; none for a client on this machine.
    pub limits: Option<CallLimits>,
}

/// What calls from elsewhere may cost.
#[derive(Debug, Clone)]
pub struct CallLimits {
    /// The budgets, shared with the other requests of the same callers.
    pub admissions: Arc<Admissions>,
    /// How long a call may compute.
    pub timeout: Duration,
}

/// What calls may name and start.
#[derive(Debug, Clone, Default)]
pub enum Reach {
    /// Whatever is on this machine: the caller is on it, too.
    #[default]
    Machine,
    /// For callers elsewhere: runs of the store, and suites below a folder.
    Below {
        /// The folder; without it no suite can be named.
        root: Option<PathBuf>,
        /// Places of runs that go on at the same time.
        room: Arc<Semaphore>,
    },
}

impl Context {
    /// An engine with everything else as it is without settings.
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
}

/// Tells how far a call is: done, of how many, and in words.
pub(super) type Progress = Arc<dyn Fn(f64, f64, String) + Send + Sync>;

/// What a tool makes of a call.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Value, Problem>> + Send>>;

/// One call.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) context: Arc<Context>,
    /// The connection's session.
    pub(super) session: Option<String>,
    /// Who calls, as the client names itself.
    pub(super) caller: String,
    /// What the caller may do.
    pub(super) scope: Scope,
    /// Who the caller is for what only a person may decide.
    pub(super) author: Author,
    /// Asked when the client takes the call back.
    pub(super) stop: Stop,
    pub(super) progress: Option<Progress>,
}

impl Call {
    pub(super) fn engine(&self) -> &Engine {
        &self.context.engine
    }

    /// Whether the caller need not be on this machine.
    pub(super) fn is_from_elsewhere(&self) -> bool {
        matches!(self.context.reach, Reach::Below { .. })
    }

    /// A run that may be named: who is elsewhere names none that is a file.
    pub(super) async fn run_named(&self, name: &str) -> Result<(), Problem> {
        let is_latest = name == "latest" || name.starts_with("latest:");
        if !self.is_from_elsewhere()
            || (is_latest && !Path::new(name).exists())
            || self.engine().bench().is_stored(name).await?
        {
            return Ok(());
        }
        Err(Problem::new(
            format!("there is no run `{name}`"),
            "bench_status without arguments lists the runs",
        ))
    }

    /// The suite that is named, and the place that its run takes.
    pub(super) async fn suite_named(
        &self,
        suite: PathBuf,
    ) -> Result<(PathBuf, Option<OwnedSemaphorePermit>), Problem> {
        let Reach::Below { root, room } = &self.context.reach else {
            return Ok((suite, None));
        };
        let Some(root) = root else {
            return Err(Problem::new(
                "this server lets nobody name files",
                "it is started with `--root FOLDER` to let callers name suites below it",
            ));
        };
        let suite = root_path::below(root, &suite.to_string_lossy()).map_err(|problem| {
            let what = root_path::without_place(root, &problem.to_string());
            Problem::new(what, "name the suite relative to the server's root, without `..`")
        })?;
        Ok((suite, room.clone().acquire_owned().await.ok()))
    }

    /// The call of an operation.
    pub(super) fn operation(&self) -> operations::Call {
        operations::Call {
            engine: Arc::clone(&self.context.engine),
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

    /// Why an operation failed, as the caller may see it.
    pub(super) fn problem(&self, tool: &str, error: EngineError) -> Problem {
        match error {
            EngineError::Call(CallError::Invalid { place, message }) => {
                Problem::argument(tool, &place, message)
            }
            error => self.discreet(error.into()),
        }
    }

    /// A problem as the caller may see it.
    pub(super) fn discreet(&self, mut problem: Problem) -> Problem {
        if let Reach::Below { root: Some(root), .. } = &self.context.reach {
            problem.what = root_path::without_place(root, &problem.what);
            problem.hint = problem.hint.map(|hint| root_path::without_place(root, &hint));
        }
        problem
    }
}

/// Why a call has no answer: what is wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) place: Option<String>,
    pub(super) hint: Option<String>,
}

impl Problem {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            place: None,
            hint: Some(hint.into()),
        }
    }

    /// Arguments that are not understood.
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
            hint: Some("call it again with the arguments that its input schema names".into()),
        }
    }

    pub(super) fn bug(what: &str) -> Self {
        Self::new(
            format!("this is a bug in satiety: {what}"),
            "please report it with the call that led to it",
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
        let hint = error.hint_without_flags().unwrap_or_else(|| {
            let otherwise = match error.category().exit_code() {
                2 => "nothing was changed; mend the arguments and call it again",
                1 => "it is not allowed as it stands; a person must decide",
                _ => "it is not the call's fault; `satiety doctor` says what is missing",
            };
            otherwise.into()
        });
        Self {
            what,
            place: None,
            hint: Some(hint),
        }
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
