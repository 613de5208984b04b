//! Systems under test, by transport.
//!
//! [`Target::open`] creates a target from its description, [`Target::call`] makes a single call. An attempt
//! always returns: an error is its outcome, with a kind that tells whose failure it is. Retries, limits and
//! caches are in [`super::limits`]; scoring is independent of all this.

mod chat;
mod exec;
mod http;
#[cfg_attr(not(feature = "mcp"), path = "mcp_stub.rs")]
mod mcp;
mod persistent;
pub(super) mod pipes;
mod process;
pub(super) mod program;
mod replay;
mod template;
mod workdir;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use satiety::Hint;
use satiety::bench::contract::{Exit, Request, Response, TargetError, TargetSpec};
use satiety_models::http::ApiKey;

use super::sandbox::SandboxContext;
use crate::tenants::TenantMeter;

pub(crate) use self::http::address as post_address;
pub use self::workdir::Workdir;

/// Environment of a target; nothing is read from the process environment here.
#[derive(Debug, Clone)]
pub struct TargetContext {
    /// Directory of the target's description, for its relative paths.
    pub base: PathBuf,
    /// Directory that the files of cases are relative to.
    pub suite: PathBuf,
    /// Parent of the working directories.
    pub scratch: PathBuf,
    /// Whether to keep working directories for inspection.
    pub keep_workdirs: bool,
    /// Path of this program if it can be started again to supervise and sandbox a process.
    pub helper: Option<PathBuf>,
    /// Paths hidden from sandboxed processes, and whether a degraded sandbox is acceptable.
    pub sandbox: SandboxContext,
    /// Variables that descriptions may refer to.
    pub environment: Environment,
    /// Key for OpenAI-compatible endpoints, from the settings.
    pub api_key: Option<ApiKey>,
    /// Key for Anthropic's endpoints, from the settings.
    pub anthropic_key: Option<ApiKey>,
}

/// Environment variables; omitted from debug output, since some are secrets.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
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

/// Error of opening a target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An invalid key in the description.
    #[error("invalid `{key}` of the target: {reason}")]
    Description { key: &'static str, reason: String },
    /// A required sandbox that this machine cannot provide. The target is not run without it.
    #[error("cannot sandbox the target: {reason}")]
    Sandbox { reason: String },
    /// A file that the run of a tenant may not read.
    #[error("cannot read {path}: outside of the tenant's directory")]
    Outside { path: String },
}

impl OpenError {
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Sandbox { .. } => Some(Hint::with_command(
                "install bubblewrap, or allow user namespaces; to accept a degraded sandbox set `bench.sandbox` to \"prefer\", to run without one set it to \"off\", which is recorded in the result; to see what is missing",
                "satiety doctor --sandbox",
            )),
            Self::Outside { .. } => {
                Some("use files in the tenant's directory, and programs of the system's directories".into())
            }
            Self::Description { .. } => None,
        }
    }

    pub(super) fn sandbox(reason: impl Into<String>) -> Self {
        Self::Sandbox {
            reason: reason.into(),
        }
    }

    pub(super) fn outside(path: &Path) -> Self {
        Self::Outside {
            path: path.display().to_string(),
        }
    }

    pub(super) fn description(key: &'static str, reason: impl Into<String>) -> Self {
        Self::Description {
            key,
            reason: reason.into(),
        }
    }
}

/// Single call and its outcome.
#[derive(Debug)]
pub struct Attempt {
    pub outcome: Result<Response, TargetError>,
    /// Time from sending the request to the end of the response, by a monotonic clock.
    pub latency: Duration,
    /// The last 64 KB of stderr; invalid UTF-8 is replaced.
    pub stderr: String,
    /// Exit status of the process, if there was one and it ended.
    pub exit: Option<Exit>,
    /// Working directory, for inspection; deleted on drop.
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

/// System under test.
#[derive(Debug)]
pub enum Target {
    /// A process per case.
    Exec(exec::Exec),
    /// Persistent processes.
    Worker(persistent::Pool),
    /// An HTTP endpoint.
    Http(http::Http),
    Chat(chat::ChatTarget),
    Mcp(Box<mcp::Mcp>),
    /// Recorded responses.
    Replay(replay::Replay),
    /// Returns the goal.
    Echo,
}

impl Target {
    /// Opens a target. Starts no process that the first call would not start anyway.
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

    /// Counts the tokens of a chat model for a tenant. Programs and endpoints are not model work of this process.
    pub(super) fn count_for(self, meter: Option<&Arc<TenantMeter>>) -> Self {
        match (self, meter) {
            (Self::Chat(target), Some(meter)) => Self::Chat(target.count_for(meter)),
            (target, _) => target,
        }
    }

    /// Makes one call, limited by the request's `deadline_ms`.
    pub async fn call(&self, request: &Request) -> Attempt {
        match self {
            Self::Exec(target) => target.call(request).await,
            Self::Worker(target) => target.call(request).await,
            Self::Http(target) => target.call(request).await,
            Self::Chat(target) => target.call(request).await,
            Self::Mcp(target) => target.call(request).await,
            Self::Replay(target) => target.call(request),
            Self::Echo => {
                let response = Response {
                    cost_usd: Some(0.0),
                    ..Response::text(request.input.goal.as_str())
                };
                Attempt::bare(Ok(response), Duration::ZERO)
            }
        }
    }

    /// Shuts the target down gracefully. Dropping it kills its processes without a grace period.
    pub async fn close(&self) {
        match self {
            Self::Worker(target) => target.close().await,
            Self::Mcp(target) => target.close().await,
            Self::Exec(_) | Self::Http(_) | Self::Chat(_) | Self::Replay(_) | Self::Echo => {}
        }
    }
}
