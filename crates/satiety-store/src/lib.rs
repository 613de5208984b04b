//! What Satiety remembers: one typed [`Store`] over two engines, SQLite and PostgreSQL.
//!
//! The engine is chosen by URL (`sqlite:PATH` or `postgres://…`) and nothing above this crate can tell which
//! one it talks to. A write that was acknowledged is durable on both. This crate knows tables and transactions;
//! it does not know what a verdict means, and it never decides anything.
//!
//! | module | what it keeps |
//! |---|---|
//! | [`journal`] | what happened, append-only, written by group commit |
//! | [`records`] | JSON documents under namespaced keys |
//! | [`conversations`] | conversations, their rounds and verdicts |
//! | [`evaluation`] | queries, judgments and figures of retrieval |
//! | [`golden`] | annotations of people, and replays of the evaluation corpus |
//! | [`mod@bench`] | benchmark runs, baselines, gates, ablations, cases that wait for workers |
//! | [`mod@harness`] | the harness's chained log, versions and audits |
//! | [`eviction`] | contexts, proposals and what came of them, versions of the scorer |
//! | [`research`] | research runs, their rounds, searches made lately |
//! | [`mod@memory`] | an agent's memories, their vectors and links, and what was done with results |
//! | [`memory_tasks`] | tasks that an agent began and closed, and its sessions as a whole |
//! | [`tokens`], [`idempotency`] | who may ask the server, and writes that may be sent again |
//! | [`maintenance`] | what one process does for all that share the store |
//! | [`ab`] | features of the memory's search under test, and their shadow runs |
//! | [`retention`] | the rules that say how long each of these is kept |
//! | [`transfer`] | the whole store as JSON Lines, out and in |

pub mod bench;
pub mod conversations;
mod error;
pub mod evaluation;
pub mod eviction;
pub mod experiment;
pub mod golden;
mod group_commit;
pub mod harness;
pub mod idempotency;
pub mod journal;
pub mod maintenance;
pub mod memory;
pub mod memory_tasks;
mod migrate;
mod pool;
mod query_log;
pub mod records;
pub mod research;
pub mod retention;
mod sql;
mod status;
mod tables;
pub mod tokens;
pub mod transfer;
mod url;

pub use error::StoreError;
pub use migrate::{Migration, SCHEMA_VERSION, migrations};
pub use pool::Operation;
pub use query_log::{LogState, LoggedQuery, QueryLog};
pub use status::{Status, TableStatus};
pub use tables::{Column, Kind, TABLES, Table};
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

/// How to open a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Migrate {
    /// Bring the schema up to date first: what every command does.
    #[default]
    ToLatest,
    /// Leave the schema alone, whatever its version, as long as it is not newer than this program: for
    /// `db status`, which must be able to look without changing anything.
    Never,
    /// Stop at this version: for tests of the migrations themselves.
    UpTo(i64),
}

impl Store {
    /// Opens the store that `url` names, creates it when it is a SQLite file that is not there yet, and brings
    /// its schema up to date. A schema from the future is refused and not touched.
    pub async fn open(url: &StoreUrl) -> Result<Self, StoreError> {
        Self::open_with(url, Migrate::ToLatest).await
    }

    /// Opens the store with an explicit choice about migrations.
    pub async fn open_with(url: &StoreUrl, migrate: Migrate) -> Result<Self, StoreError> {
        let pool = Pool::connect(url, migrate != Migrate::Never).await?;
        match migrate {
            Migrate::ToLatest => migrate::run(&pool, SCHEMA_VERSION).await?,
            Migrate::UpTo(version) => migrate::run(&pool, version).await?,
            Migrate::Never => migrate::refuse_newer(&pool).await?,
        }
        let journal = GroupCommit::start(pool.clone());
        let log = LogWriter::start(pool.clone());
        Ok(Self { pool, journal, log })
    }

    /// Where this store is, with any password masked: what messages and logs may show.
    pub fn place(&self) -> &str {
        &self.pool.place
    }

    /// Has everything that is done with this store measured, with waiting and repeating; the first observer stays.
    pub fn observe(&self, observe: impl Fn(Operation, std::time::Duration) + Send + Sync + 'static) {
        self.pool.observe(Box::new(observe));
    }

    /// Closes all connections, after what was under way has finished and what was logged is written.
    pub async fn close(&self) {
        self.query_log().flush().await;
        self.pool.close().await;
    }
}

/// The capabilities. Each handle is a borrowed store with the methods of one capability.
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

    /// API tokens.
    pub fn tokens(&self) -> tokens::Tokens<'_> {
        tokens::Tokens(self)
    }

    /// Idempotency keys.
    pub fn idempotency(&self) -> idempotency::Idempotency<'_> {
        idempotency::Idempotency(self)
    }
}

/// The present moment as the store keeps it: microseconds since 1970, UTC.
pub fn now_micros() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}
