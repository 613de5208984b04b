//! What all requests share: the engine, who may ask, the jobs, the figures. No globals.

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
use tokio::sync::{Semaphore, watch};

use super::capacity::{McpSessions, Streams};
use super::jobs::Jobs;
use super::live::Live;
use super::problem::Problem;
use crate::auth::{Auth, Caller};
use crate::metrics::Metrics;

/// Limits of what one request may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body.
    pub body: usize,
    /// Time from the last header to the answer.
    pub request: Duration,
    /// Time for the headers to arrive.
    pub headers: Duration,
    /// Requests that are worked on at a time; more wait, and then are told to come again.
    pub concurrent: usize,
    /// Connections that are served; further ones are told to come again, and only the health endpoints answer them.
    pub connections: usize,
    /// Connections from one address.
    pub connections_per_address: usize,
    /// Event streams.
    pub streams: usize,
    /// Event streams of one caller.
    pub streams_per_caller: usize,
    /// MCP sessions.
    pub mcp_sessions: usize,
    /// MCP sessions of one caller.
    pub mcp_sessions_per_caller: usize,
    /// What requests may cost.
    pub cost: AdmissionSettings,
    /// Jobs that run at a time.
    pub jobs: usize,
    /// Time that a shutdown waits for what is under way.
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
                caller_units_per_minute: Some(default_caller_units()),
            },
            jobs: 2,
            shutdown: Duration::from_secs(20),
        }
    }
}

/// What one caller may spend a minute: all processors of this machine. Work is settled by the time it took, so that the limit
/// refuses only what would queue up behind a whole minute of work.
pub fn default_caller_units() -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    60_000 * processors as u64
}

/// What requests may name on this machine.
#[derive(Debug, Clone, Default)]
pub struct AllowedRoots {
    /// The folder below which suites and notes may be named; nothing without it.
    pub root: Option<PathBuf>,
    /// The eval harness.
    pub harness: PathBuf,
    /// Which score its window follows.
    pub driver: Driver,
    /// What may be searched.
    pub research: ResearchAccess,
}

/// What requests may have searched.
#[derive(Debug, Clone)]
pub struct ResearchAccess {
    /// The sources, by the names that requests say.
    pub sources: AllowedSources,
    /// How they are reached.
    pub reach: SourceSettings,
}

/// Nothing may be searched.
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

/// What all requests share.
pub struct App {
    /// The use cases.
    pub engine: Arc<Engine>,
    /// Who may ask.
    pub auth: Auth,
    /// What was counted and measured.
    pub metrics: Metrics,
    /// The limits.
    pub limits: Limits,
    pub(crate) folders: AllowedRoots,
    pub(crate) jobs: Jobs,
    pub(crate) live: Live,
    pub(crate) room: Semaphore,
    pub(crate) admissions: Arc<Admissions>,
    pub(crate) streams: Streams,
    pub(crate) mcp_sessions: McpSessions,
    pub(crate) ending: watch::Receiver<bool>,
    pub(crate) end: watch::Sender<bool>,
    pub(crate) encrypted: bool,
    pub(crate) document: String,
    pub(crate) writes: AtomicUsize,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl App {
    /// An application over this engine.
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
            auth,
            metrics: Metrics::new(),
            room: Semaphore::new(limits.concurrent),
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
            document: crate::openapi::document().to_string(),
            writes: AtomicUsize::new(0),
        }
    }

    /// Opens the store, so that a server that cannot work does not start, and has it measured.
    pub async fn open(&self) -> Result<(), satiety_engine::EngineError> {
        self.engine
            .database()
            .observe_store(self.metrics.store_observer())
            .await
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Whether the server is about to end.
    pub fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Counts a write until it is dropped.
    pub(crate) fn writing(self: &Arc<Self>) -> WriteAccess {
        self.writes.fetch_add(1, Ordering::SeqCst);
        WriteAccess(self.clone())
    }

    /// A call of an operation by whoever sent a request.
    pub(crate) fn call(self: &Arc<Self>, caller: Option<&Caller>) -> Call {
        Call {
            engine: self.engine.clone(),
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

    /// Whether a write is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.writes.load(Ordering::SeqCst) > 0
    }

    /// A place below the root that a request names, and nothing else.
    pub(crate) fn below_root(&self, named: &str) -> Result<PathBuf, Problem> {
        let Some(root) = &self.folders.root else {
            return Err(Problem::forbidden("this server lets nobody name files")
                .hint("start it with `--root FOLDER` to let requests name what is below it"));
        };
        below(root, named)
    }

    /// An error without the place of the root: a caller knows what it has named, and need not know more.
    pub(crate) fn discreet(&self, error: satiety_engine::EngineError) -> Problem {
        let mut problem = Problem::from(error);
        if let Some(root) = &self.folders.root {
            problem.detail = root_path::without_place(root, &problem.detail).into();
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
        self.live.grown(&appended.conversation_id);
    }

    fn decided(&self, signal: Signal) {
        self.metrics.verdict(signal);
    }
}

/// A write that is under way.
pub(crate) struct WriteAccess(Arc<App>);

impl Drop for WriteAccess {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Resolves a name below a folder; links that lead out of it are refused, too.
fn below(root: &Path, named: &str) -> Result<PathBuf, Problem> {
    root_path::below(root, named).map_err(|problem| match problem {
        OutsideRoot::Outside(_) => {
            Problem::unprocessable(format!("`{named}` is not a place below the server's root"))
                .hint("name it relative to the root, without `..`")
        }
        OutsideRoot::Missing(_) => Problem::not_found(format!("there is nothing at `{named}`")),
        OutsideRoot::Root(_) => Problem::inside(problem.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is outside is decided by [`rooted`]; this is how it is told.
    #[test]
    fn what_cannot_be_named_has_a_status_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        assert!(below(&root, ".").is_ok());
        assert_eq!(below(&root, "../secret").unwrap_err().status, 422);
        assert_eq!(below(&root, "nowhere").unwrap_err().status, 404);
    }
}
