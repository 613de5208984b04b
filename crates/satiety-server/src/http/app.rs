//! Application state shared by all requests: engine, authentication, jobs, metrics. No globals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use satiety::dialogue::Signal;
use satiety::harness::Driver;
use satiety::memory::Author;
use satiety_engine::Engine;
use satiety_engine::admission::{AdmissionSettings, Admissions};
use satiety_engine::conversations::AppendedRounds;
use satiety_engine::memory::MemorySearch;
use satiety_engine::operations::{Call, HarnessSettings, Observer, Reach};
use satiety_engine::research::sources::{AllowedSources, SourceSettings, search_policy};
use satiety_engine::root_path::{self, OutsideRoot};
use satiety_engine::tokens::Scope;
use tokio::sync::{Semaphore, watch};

use super::capacity::{McpSessions, Streams};
use super::jobs::Jobs;
use super::live::Live;
use super::problem::Problem;
use super::tenants::Tenants;
use crate::auth::{Auth, Caller};
use crate::metrics::Metrics;

/// Limits of requests and connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a request body in bytes.
    pub body: usize,
    /// Request timeout, from the last header to the response.
    pub request: Duration,
    /// Timeout for receiving the headers.
    pub headers: Duration,
    /// Maximum concurrent requests; further ones wait, then get 503.
    pub concurrent: usize,
    /// Maximum open connections; further ones get 503, except on the health endpoints.
    pub connections: usize,
    /// Maximum open connections per address.
    pub connections_per_address: usize,
    /// Maximum open event streams.
    pub streams: usize,
    /// Maximum open event streams per caller.
    pub streams_per_caller: usize,
    /// Maximum open MCP sessions.
    pub mcp_sessions: usize,
    /// Maximum open MCP sessions per caller.
    pub mcp_sessions_per_caller: usize,
    /// Cost budgets of requests.
    pub cost: AdmissionSettings,
    /// Maximum concurrent jobs.
    pub jobs: usize,
    /// Graceful-shutdown timeout.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 2 << 20,
            request: Duration::from_secs(30),
            headers: Duration::from_secs(10),
            concurrent: 256,
            connections: 2048,
            connections_per_address: 1024,
            streams: 1024,
            streams_per_caller: 256,
            mcp_sessions: 512,
            mcp_sessions_per_caller: 64,
            cost: AdmissionSettings {
                request_units: Some(30_000),
                caller_units_per_minute: Some(default_caller_cost()),
            },
            jobs: 2,
            shutdown: Duration::from_secs(20),
        }
    }
}

/// Default cost budget of one caller per minute: all processors of this machine. Requests are charged their
/// actual time, so that the limit only rejects work that would queue behind a full minute of other work.
pub fn default_caller_cost() -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    60_000 * processors as u64
}

/// Files and sources on this machine that requests may name.
#[derive(Debug, Clone, Default)]
pub struct AllowedRoots {
    /// Directory that paths of suites and notes are confined to; `None` refuses them.
    pub root: Option<PathBuf>,
    /// Directory of the eval harness.
    pub harness: PathBuf,
    /// Score that the harness's cycle window follows.
    pub driver: Driver,
    /// Sources that requests may search.
    pub research: ResearchAccess,
}

/// Sources that research requests may search.
#[derive(Debug, Clone)]
pub struct ResearchAccess {
    /// Sources by the names used in requests.
    pub sources: AllowedSources,
    /// How the sources are reached.
    pub reach: SourceSettings,
}

/// No sources.
impl Default for ResearchAccess {
    fn default() -> Self {
        Self {
            sources: AllowedSources::default(),
            reach: SourceSettings {
                environment: std::iter::empty::<(String, String)>().collect(),
                api: search_policy(),
                scratch: std::env::temp_dir(),
                base_url: None,
            },
        }
    }
}

/// Application state shared by all requests.
pub struct App {
    /// Engine with the use cases.
    pub engine: Arc<Engine>,
    /// Authentication and rate limits, shared with the tenants.
    pub auth: Arc<Auth>,
    /// Metrics of this server.
    pub metrics: Metrics,
    /// Limits of requests and connections.
    pub limits: Limits,
    pub(crate) folders: AllowedRoots,
    pub(crate) jobs: Jobs,
    pub(crate) live: Live,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) admissions: Arc<Admissions>,
    pub(crate) streams: Streams,
    pub(crate) mcp_sessions: McpSessions,
    pub(crate) ending: watch::Receiver<bool>,
    pub(crate) end: watch::Sender<bool>,
    pub(crate) encrypted: bool,
    pub(crate) document: Arc<str>,
    pub(crate) writes: AtomicUsize,
    /// State of the harness as the overview shows it, and when it was measured.
    pub(crate) harness: std::sync::Mutex<Option<crate::dashboard::MeasuredHarness>>,
    /// Status line of the pages, and when it was made.
    pub(crate) status: std::sync::Mutex<Option<(std::time::Instant, String)>>,
    /// Tenants of this server; a tenant has none.
    pub(crate) tenants: Tenants,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Creates an application on this engine.
    pub fn new(
        engine: Arc<Engine>,
        auth: Auth,
        limits: Limits,
        folders: AllowedRoots,
        encrypted: bool,
    ) -> Self {
        let (end, ending) = watch::channel(false);
        Self {
            engine,
            auth: Arc::new(auth),
            metrics: Metrics::new(),
            room: Arc::new(Semaphore::new(limits.concurrent)),
            jobs: Jobs::new(limits.jobs),
            admissions: Admissions::new(limits.cost),
            streams: Streams::new(limits.streams, limits.streams_per_caller),
            mcp_sessions: McpSessions::new(limits.mcp_sessions, limits.mcp_sessions_per_caller),
            limits,
            folders,
            live: Live::default(),
            ending,
            end,
            encrypted,
            document: crate::openapi::document().to_string().into(),
            writes: AtomicUsize::new(0),
            harness: std::sync::Mutex::default(),
            status: std::sync::Mutex::default(),
            tenants: Tenants::default(),
        }
    }

    /// Creates the application of a tenant on its engine. It shares the limits of the process, and has its own jobs,
    /// events, MCP sessions, metrics and files: the directory that the operator gave it, or none.
    pub(crate) fn for_tenant(&self, engine: Arc<Engine>) -> Self {
        let (end, ending) = watch::channel(false);
        let root = engine.tenant_root().cloned();
        let own = root.clone();
        let own = own.unwrap_or_else(|| engine.settings().archive_folder.clone());
        let limits = self.limits.clone();
        Self {
            engine,
            auth: Arc::clone(&self.auth),
            metrics: Metrics::new(),
            room: Arc::clone(&self.room),
            jobs: Jobs::for_tenant(&self.jobs),
            admissions: Arc::clone(&self.admissions),
            streams: self.streams.clone(),
            mcp_sessions: McpSessions::new(limits.mcp_sessions, limits.mcp_sessions_per_caller),
            limits,
            folders: AllowedRoots {
                root,
                harness: own.join("harness"),
                driver: self.folders.driver,
                // Sources are directories, commands and addresses of the operator.
                research: ResearchAccess::default(),
            },
            live: Live::default(),
            ending,
            end,
            encrypted: self.encrypted,
            document: Arc::clone(&self.document),
            writes: AtomicUsize::new(0),
            harness: std::sync::Mutex::default(),
            status: std::sync::Mutex::default(),
            tenants: Tenants::default(),
        }
    }

    /// Directory of the eval harness.
    pub fn harness_folder(&self) -> &Path {
        &self.folders.harness
    }

    /// Opens the store, so that a misconfigured server does not start, and measures its operations.
    pub async fn open(&self) -> Result<(), satiety_engine::EngineError> {
        let database = self.engine.database();
        database.observe_store(self.metrics.store_observer()).await?;
        database.observe_batches(self.metrics.batch_observer()).await
    }

    /// Whether connections use TLS.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Whether the server is shutting down.
    pub fn is_shutting_down(&self) -> bool {
        *self.ending.borrow()
    }

    /// Counts a write in progress until the guard is dropped.
    pub(crate) fn writing(self: &Arc<Self>) -> WriteAccess {
        self.writes.fetch_add(1, Ordering::SeqCst);
        WriteAccess(self.clone())
    }

    /// Builds an operation call for a caller.
    pub(crate) fn call(self: &Arc<Self>, caller: Option<&Caller>) -> Call {
        Call {
            engine: self.engine.clone(),
            scope: caller.map_or(Scope::Read, |caller| caller.scope),
            author: caller.map_or(Author::Agent, Caller::author),
            reach: Reach::Below(self.folders.root.clone()),
            harness: HarnessSettings {
                folder: self.folders.harness.clone(),
                driver: self.folders.driver,
            },
            host: Some(self.clone()),
            observer: Some(self.clone()),
        }
    }

    /// Whether a write is in progress.
    pub(crate) fn is_writing(&self) -> bool {
        self.writes.load(Ordering::SeqCst) > 0
    }

    /// Resolves a path in a request below the root.
    pub(crate) fn below_root(&self, named: &str) -> Result<PathBuf, Problem> {
        let Some(root) = &self.folders.root else {
            return Err(Problem::forbidden("file access is disabled on this server")
                .hint("start the server with `--root DIR` to allow paths below it"));
        };
        below(root, named)
    }

    /// Removes the server's root path from an error, which the caller need not know.
    pub(crate) fn redact(&self, error: satiety_engine::EngineError) -> Problem {
        let mut problem = Problem::from(error);
        if let Some(root) = &self.folders.root {
            problem.detail = root_path::hide_root(root, &problem.detail).into();
        }
        let harness = self.folders.harness.display().to_string();
        if !matches!(&*harness, "" | ".") {
            problem.detail = problem.detail.replace(&harness, "the harness").into();
        }
        problem
    }
}

impl Observer for App {
    fn searched(&self, search: &MemorySearch) {
        self.metrics.search(search);
    }

    fn appended(&self, appended: &AppendedRounds) {
        for verdict in &appended.verdicts {
            self.metrics.verdict(verdict.signal);
        }
        self.live.notify(&appended.conversation_id);
    }

    fn decided(&self, signal: Signal) {
        self.metrics.verdict(signal);
    }
}

/// Guard that counts a write in progress.
pub(crate) struct WriteAccess(Arc<App>);

impl Drop for WriteAccess {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Resolves a path below a directory; rejects links that lead out of it.
fn below(root: &Path, named: &str) -> Result<PathBuf, Problem> {
    root_path::below(root, named).map_err(|problem| match problem {
        OutsideRoot::Outside(_) => Problem::unprocessable(format!("`{named}` is outside the server's root"))
            .hint("use a path relative to the root, without `..`"),
        OutsideRoot::Missing(_) => Problem::not_found(format!("`{named}` not found")),
        OutsideRoot::Root(_) => Problem::internal(problem.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Containment is tested in `root_path`; this tests the statuses.
    #[test]
    fn outside_paths_are_422_and_missing_ones_404() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        assert!(below(&root, ".").is_ok());
        assert_eq!(below(&root, "../secret").unwrap_err().status, 422);
        assert_eq!(below(&root, "nowhere").unwrap_err().status, 404);
    }
}
