//! The systems under test, by what carries the request to them.
//!
//! [`Target::open`] makes a target of its description, [`Target::call`] asks it once. An attempt never fails to return:
//! what went wrong is its outcome, with a kind that says whose failure it was. Retries, limits and caches are in
//! [`super::limits`]; scoring knows nothing of any of this.

mod chat;
mod exec;
mod http;
#[cfg_attr(not(feature = "mcp"), path = "mcp_disabled.rs")]
mod mcp;
mod persistent;
mod pipes;
mod process;
mod program;
mod replay;
mod template;
mod workdir;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use satiety::bench::contract::{Exit, Request, Response, TargetError, TargetSpec};
use satiety_models::http::ApiKey;

use super::sandbox::SandboxContext;

pub(crate) use self::http::address as post_address;
pub use self::workdir::Workdir;

/// What a target needs to know of the world; nothing is read from the environment here.
#[derive(Debug, Clone)]
pub struct TargetContext {
    /// The folder of the target's description: what its relative paths start from.
    pub base: PathBuf,
    /// The folder that the files of cases are relative to.
    pub suite: PathBuf,
    /// Where working folders are made.
    pub scratch: PathBuf,
    /// Whether working folders stay for a look at them.
    pub keep_workdirs: bool,
    /// This program's own path, where it can be started again to supervise and sandbox a process.
    pub helper: Option<PathBuf>,
    /// What sandboxed processes must not see, and whether a degraded sandbox is acceptable.
    pub sandbox: SandboxContext,
    /// The variables that descriptions may name.
    pub environment: Environment,
    /// The key for OpenAI-compatible endpoints, of the settings.
    pub api_key: Option<ApiKey>,
    /// The key for Anthropic's endpoints, of the settings.
    pub anthropic_key: Option<ApiKey>,
}

/// Environment variables; never shown, since some are secrets.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

/// Why a target cannot be opened as it is described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A key of the description that cannot be used.
    #[error("`{key}` of the target: {reason}")]
    Description {
        /// Which key.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A sandbox that this machine cannot provide. The target is not run without it.
    #[error("cannot sandbox the target: {reason}")]
    Sandbox {
        /// Why.
        reason: String,
    },
}

impl OpenError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Sandbox { .. } => Some(
                "install bubblewrap, or allow user namespaces; `satiety doctor --sandbox` tells what is missing; to accept a degraded sandbox set `bench.sandbox` to \"prefer\", and to run without one use --no-sandbox, which the result says",
            ),
            Self::Description { .. } => None,
        }
    }

    pub(super) fn sandbox(reason: impl Into<String>) -> Self {
        Self::Sandbox {
            reason: reason.into(),
        }
    }

    pub(super) fn description(key: &'static str, reason: impl Into<String>) -> Self {
        Self::Description {
            key,
            reason: reason.into(),
        }
    }
}

/// One call and what came of it.
#[derive(Debug)]
pub struct Attempt {
    /// The answer, or why there is none.
    pub outcome: Result<Response, TargetError>,
    /// From handing over the request to the end of the answer, by a monotonic clock.
    pub latency: Duration,
    /// The end of what was written to stderr, at most 64 KB; bytes that are no text are replaced.
    pub stderr: String,
    /// How the process ended, where there was one and it did.
    pub exit: Option<Exit>,
    /// The working folder, for a look at what was written there; it goes when this is dropped.
    pub workdir: Option<Workdir>,
}

impl Attempt {
    fn bare(outcome: Result<Response, TargetError>, latency: Duration) -> Self {
        Self {
            outcome,
            latency,
            stderr: String::new(),
            exit: None,
            workdir: None,
        }
    }
}

/// A system under test.
#[derive(Debug)]
pub enum Target {
    /// A process for each case.
    Exec(exec::Exec),
    /// Long-lived processes.
    Worker(persistent::Pool),
    /// An address that takes requests.
    Http(http::Http),
    /// A chat model.
    Chat(chat::ChatTarget),
    /// A tool of an MCP server.
    Mcp(Box<mcp::Mcp>),
    /// Recorded answers.
    Replay(replay::Replay),
    /// The goal comes back.
    Echo,
}

impl Target {
    /// Makes a target of its description. Starts nothing that a first call would not start again.
    pub fn open(spec: &TargetSpec, context: &TargetContext) -> Result<Self, OpenError> {
        Ok(match spec {
            TargetSpec::Exec(spec) => Self::Exec(exec::Exec::open(spec, context)?),
            TargetSpec::Worker(spec) => Self::Worker(persistent::Pool::open(spec, context)?),
            TargetSpec::Http(spec) => Self::Http(http::Http::open(spec, context)?),
            TargetSpec::Chat(spec) => Self::Chat(chat::ChatTarget::open(spec, context)?),
            TargetSpec::Mcp(spec) => Self::Mcp(Box::new(mcp::Mcp::open(spec, context)?)),
            TargetSpec::Replay(spec) => Self::Replay(replay::Replay::open(spec, context)?),
            TargetSpec::Echo(_) => Self::Echo,
        })
    }

    /// Asks once, for at most the request's `deadline_ms`.
    pub async fn call(&self, request: &Request) -> Attempt {
        match self {
            Self::Exec(target) => target.call(request).await,
            Self::Worker(target) => target.call(request).await,
            Self::Http(target) => target.call(request).await,
            Self::Chat(target) => target.call(request).await,
            Self::Mcp(target) => target.call(request).await,
            Self::Replay(target) => target.call(request),
            Self::Echo => Attempt::bare(Ok(Response::text(request.input.goal.as_str())), Duration::ZERO),
        }
    }

    /// Ends what was started for it. Dropping a target does the same, without the time to end in good order.
    pub async fn close(&self) {
        match self {
            Self::Worker(target) => target.close().await,
            Self::Mcp(target) => target.close().await,
            Self::Exec(_) | Self::Http(_) | Self::Chat(_) | Self::Replay(_) | Self::Echo => {}
        }
    }
}
