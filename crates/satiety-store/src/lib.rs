//! Storage of Satiety: one typed [`Store`] over two engines, SQLite and PostgreSQL.
//!
//! The URL selects the engine (`sqlite:PATH` or `postgres://…`), and no other crate depends on which one it
//! is. An acknowledged write is durable on both. This crate knows tables and transactions; it makes no
//! decisions.
//!
//! | module | contents |
//! |---|---|
//! | [`journal`] | append-only log of events, written by group commit |
//! | [`records`] | JSON documents under namespaced keys |
//! | [`agent_runs`] | runs of agents at work, their messages and latest verdicts |
//! | [`conversations`] | conversations, their rounds and verdicts |
//! | [`evaluation`] | queries, judgments and metrics of retrieval |
//! | [`golden`] | annotations, and replays of the evaluation corpus |
//! | [`mod@bench`] | benchmark runs, baselines, gates, ablations, cases queued for workers |
//! | [`hook_sessions`] | sessions of command-line agents that call hooks |
//! | [`mod@harness`] | hash-chained log, versions and audits of harnesses |
//! | [`eviction`] | scopes, proposals and feedback, scorer versions |
//! | [`research`] | research runs, their rounds, cached searches |
//! | [`mod@memory`] | an agent's memories, their vectors and links, and feedback on results |
//! | [`memory_tasks`] | tasks and sessions of agents |
//! | [`tenants`] | the registry of tenants, their usage, and their databases |
//! | [`tokens`], [`idempotency`] | API tokens and idempotency keys of the server |
//! | [`maintenance`] | leader election for periodic jobs, and one-time notices |
//! | [`experiment`] | features of the memory search under test, and their shadow runs |
//! | [`retention`] | retention rules |
//! | [`fleet`] | facts about the database and the processes on it, for diagnostics |
//! | [`transfer`] | export and import as JSON Lines |
//! | [`partitioned`] | rows by table and day, for exports that are analyzed |

pub mod agent_runs;
pub mod bench;
pub mod conversations;
mod error;
pub mod evaluation;
pub mod eviction;
pub mod experiment;
pub mod fleet;
pub mod golden;
mod group_commit;
pub mod harness;
pub mod hook_sessions;
pub mod idempotency;
pub mod instances;
pub mod journal;
pub mod labels;
mod lease;
pub mod lists;
pub mod maintenance;
pub mod memory;
pub mod memory_tasks;
mod migrate;
pub mod partitioned;
mod partitions;
mod pool;
mod query_log;
pub mod rates;
pub mod records;
pub mod research;
pub mod retention;
mod sql;
mod status;
mod tables;
mod telemetry;
pub mod tenants;
pub mod tokens;
pub mod transfer;
mod url;

pub use error::StoreError;
pub use migrate::{Migration, SCHEMA_VERSION, migrations};
pub use partitions::{FleetStatus, PartitionStatus, ReplicaStatus};
#[cfg(feature = "postgres")]
pub use pool::postgres::Pooling;
pub use pool::{Operation, StoreOptions};
pub use query_log::{LogState, LoggedQuery, QueryLog, SessionQueryRow};
pub use status::{Status, TableStatus};
pub use tables::{Column, Kind, TABLES, Table};
pub use telemetry::PoolUsage;
pub use url::StoreUrl;

use group_commit::GroupCommit;
use pool::Pool;
use query_log::LogWriter;

/// An open store: cheap to clone, safe to share between tasks.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Pool,
    journal: GroupCommit,
    log: std::sync::Arc<LogWriter>,
}

/// Migration policy for opening a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Migrate {
    /// Migrate to the latest version: the default of all commands.
    #[default]
    ToLatest,
    /// Leave the schema unchanged, as long as it is not newer than this program: for `db status`, which must
    /// not change anything.
    Never,
    /// Stop at this version: for tests of the migrations themselves.
    UpTo(i64),
}

impl Store {
    /// Opens the store at `url`, creates it if it is a SQLite file that does not exist, and migrates its
    /// schema. A schema newer than this program is refused and left unchanged.
    pub async fn open(url: &StoreUrl) -> Result<Self, StoreError> {
        Self::open_with(url, Migrate::ToLatest).await
    }

    /// Opens the store with an explicit migration policy.
    pub async fn open_with(url: &StoreUrl, migrate: Migrate) -> Result<Self, StoreError> {
        Self::open_configured(url, migrate, &StoreOptions::default()).await
    }

    /// Opens the store with limits and a read replica.
    pub async fn open_configured(
        url: &StoreUrl,
        migrate: Migrate,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let pool = Pool::connect(url, migrate != Migrate::Never, options).await?;
        match migrate {
            Migrate::ToLatest => migrate::run(&pool, SCHEMA_VERSION).await?,
            Migrate::UpTo(version) => migrate::run(&pool, version).await?,
            Migrate::Never => migrate::refuse_newer(&pool).await?,
        }
        let journal = GroupCommit::start(pool.clone());
        let log = LogWriter::start(pool.clone());
        Ok(Self { pool, journal, log })
    }

    /// Returns a handle for lists, pages and exports: its reads go to the read replica, if one is configured and
    /// answers, and may be some seconds old. Its writes, and reads within them, go to the primary.
    #[must_use]
    pub fn for_reading(&self) -> Self {
        Self {
            pool: self.pool.reading_replica(),
            journal: self.journal.clone(),
            log: std::sync::Arc::clone(&self.log),
        }
    }

    /// Location of this store with the password masked, for messages and logs.
    pub fn place(&self) -> &str {
        &self.pool.place
    }

    /// Reports the duration of every operation, including waits and retries; the first observer is kept.
    pub fn observe(&self, observe: impl Fn(Operation, std::time::Duration) + Send + Sync + 'static) {
        self.pool.observe(Box::new(observe));
    }

    /// Closes all connections after pending operations and log writes have finished.
    pub async fn close(&self) {
        self.query_log().flush().await;
        self.pool.close().await;
    }
}

/// Capability handles: each is a borrowed store with the methods of one capability.
impl Store {
    /// Memories, their chunks and links, and the feedback on results.
    pub fn memories(&self) -> memory::Memories<'_> {
        memory::Memories(self)
    }

    /// Tasks of agents, and their sessions.
    pub fn tasks(&self) -> memory_tasks::Tasks<'_> {
        memory_tasks::Tasks(self)
    }

    /// The asynchronous log of searches.
    pub fn query_log(&self) -> QueryLog<'_> {
        QueryLog(self)
    }

    /// The evaluation corpus, judgments, annotations and measured runs.
    pub fn evaluation(&self) -> evaluation::Evaluation<'_> {
        evaluation::Evaluation(self)
    }

    /// Features under test and their shadow runs.
    pub fn experiments(&self) -> experiment::Experiments<'_> {
        experiment::Experiments(self)
    }

    /// Runs of agents at work.
    pub fn agent_runs(&self) -> agent_runs::AgentRuns<'_> {
        agent_runs::AgentRuns(self)
    }

    /// Sessions of command-line agents that call hooks.
    pub fn hook_sessions(&self) -> hook_sessions::HookSessions<'_> {
        hook_sessions::HookSessions(self)
    }

    /// Labels of people on conversations and on agents' runs.
    pub fn labels(&self) -> labels::Labels<'_> {
        labels::Labels(self)
    }

    /// Servers and workers that are connected.
    pub fn instances(&self) -> instances::Instances<'_> {
        instances::Instances(self)
    }

    /// Rate limits that workers share.
    pub fn rates(&self) -> rates::Rates<'_> {
        rates::Rates(self)
    }

    /// Scored conversations.
    pub fn conversations(&self) -> conversations::Conversations<'_> {
        conversations::Conversations(self)
    }

    /// Research runs and cached searches.
    pub fn research(&self) -> research::Research<'_> {
        research::Research(self)
    }

    /// Benchmark runs, baselines, gates, ablations and queued cases.
    pub fn bench(&self) -> bench::Bench<'_> {
        bench::Bench(self)
    }

    /// Logs, versions and audits of harnesses.
    pub fn harness(&self) -> harness::Harness<'_> {
        harness::Harness(self)
    }

    /// Contexts, eviction proposals and scorers.
    pub fn eviction(&self) -> eviction::Eviction<'_> {
        eviction::Eviction(self)
    }

    /// JSON documents by key.
    pub fn records(&self) -> records::Records<'_> {
        records::Records(self)
    }

    /// The append-only journal.
    pub fn journal(&self) -> journal::Journal<'_> {
        journal::Journal(self)
    }

    /// Retention rules.
    pub fn retention(&self) -> retention::Retention<'_> {
        retention::Retention(self)
    }

    /// Work that one process does for all that share the store.
    pub fn maintenance(&self) -> maintenance::Maintenance<'_> {
        maintenance::Maintenance(self)
    }

    /// The registry of tenants and their usage.
    pub fn tenants(&self) -> tenants::Tenants<'_> {
        tenants::Tenants(self)
    }

    /// API tokens.
    pub fn tokens(&self) -> tokens::Tokens<'_> {
        tokens::Tokens(self)
    }

    /// Idempotency keys.
    pub fn idempotency(&self) -> idempotency::Idempotency<'_> {
        idempotency::Idempotency(self)
    }
}

/// Returns the current time as stored: microseconds since the Unix epoch, UTC.
pub fn now_micros() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}
