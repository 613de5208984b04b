//! Connection pools of both engines, and execution of statements.
//!
//! SQLite has a single writer: a pool of one connection that starts every transaction with the write lock,
//! and a separate pool of readers. Readers never wait for the writer (WAL); other processes wait for the
//! lock.

#[cfg(feature = "postgres")]
mod copy;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod warm;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tracing::Instrument as _;
#[cfg(feature = "postgres")]
use {crate::sql::postgres_query, postgres::Postgres, sqlx::PgConnection};

use crate::error::is_busy;
use crate::sql::{BATCH, EngineRow, Fault, Row, Sql, Value, sqlite_query};
use crate::telemetry::BatchObserver;
use crate::{StoreError, StoreUrl};
use warm::WarmConnections;

/// How long a writer waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Reader connections per process; each is a thread and a file handle.
const SQLITE_READERS: u32 = 4;
/// Readers that keep their connection; snapshots take one from the pool.
const SQLITE_WARM: usize = 3;
/// Rows from which copying is faster than a statement with values.
const MIN_COPIED: usize = 16;
/// Attempts for a transaction that was rolled back by a transient error.
const MAX_ATTEMPTS: u32 = 8;

/// Limits and further connections of a store; they change how it is reached, never what it contains.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Maximum number of connections to PostgreSQL, at least 2.
    pub max_connections: u32,
    /// Time after which PostgreSQL cancels a statement; `None` for the server's own limit.
    pub statement_timeout: Option<Duration>,
    /// Time from which a statement is logged as slow; `None` to log none.
    pub slow_query: Option<Duration>,
    /// Read replica for lists, pages and exports.
    pub read_url: Option<StoreUrl>,
    /// Lag of the read replica above which the primary is read instead.
    pub max_replica_lag: Duration,
}

/// Connections of a tenant's store, of which a server has many open.
const TENANT_CONNECTIONS: u32 = 4;

impl StoreOptions {
    /// Options for the store of a tenant: fewer connections, and no replica, because the configured one has the rows of
    /// the main store.
    #[must_use]
    pub fn for_tenant(&self) -> Self {
        Self {
            max_connections: self.max_connections.min(TENANT_CONNECTIONS),
            read_url: None,
            ..self.clone()
        }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            max_connections: 10,
            statement_timeout: None,
            slow_query: Some(Duration::from_secs(1)),
            read_url: None,
            max_replica_lag: Duration::from_mins(1),
        }
    }
}

/// Connections of one store.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub(crate) engine: Engine,
    pub(crate) place: Arc<str>,
    observer: Observer,
    pub(crate) batches: BatchObserver,
    slow_query: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Sqlite {
        read: WarmConnections<sqlx::Sqlite>,
        write: SqlitePool,
    },
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
}

/// Kind of operation, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A read.
    Read,
    /// A write transaction.
    Write,
    /// A statement that took longer than `store.slow_query_ms`; also part of a read or a write.
    SlowStatement,
}

type Observe = Box<dyn Fn(Operation, Duration) + Send + Sync>;

/// Optional observer of operations, shared by all clones.
#[derive(Clone, Default)]
pub(crate) struct Observer(Arc<OnceLock<Observe>>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// Runs `$body` in one write transaction, and retries it on transient errors. The body must be idempotent:
/// after a connection loss during the commit it is unknown whether it took place. A macro instead of a
/// function, because a future that borrows from its caller through a closure is not `Send`.
macro_rules! in_transaction {
    ($pool:expr, |$connection:ident| $body:expr) => {{
        let pool: &$crate::pool::Pool = $pool;
        let started = std::time::Instant::now();
        let work = async {
            let mut backoff = $crate::pool::Backoff::default();
            loop {
                let attempt = async {
                    let mut transaction = pool.begin().await?;
                    let answer = {
                        let $connection = &mut transaction;
                        $body
                    };
                    transaction.commit().await?;
                    Ok::<_, $crate::sql::Fault>(answer)
                };
                match attempt.await {
                    Err(fault) if backoff.retries(&fault) => {
                        pool.suspect();
                        backoff.pause().await;
                    }
                    other => break other.map_err($crate::StoreError::from),
                }
            }
        };
        let outcome = tracing::Instrument::instrument(work, $crate::pool::Operation::Write.span()).await;
        pool.report_duration($crate::pool::Operation::Write, started);
        outcome
    }};
}
pub(crate) use in_transaction;

impl Operation {
    pub(crate) fn span(self) -> tracing::Span {
        let name = match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::SlowStatement => "SlowStatement",
        };
        tracing::info_span!("store", operation = name)
    }
}

/// A transaction in progress; dropping it rolls it back.
#[derive(Debug)]
pub(crate) struct Connection {
    transaction: Transaction,
    place: Arc<str>,
    watch: SlowQueryLog,
    /// Whether statements may be prepared under a name.
    #[cfg(feature = "postgres")]
    persistent: bool,
}

/// Logs statements that take long, without their values.
#[derive(Debug, Clone)]
struct SlowQueryLog {
    limit: Option<Duration>,
    observer: Observer,
}

impl SlowQueryLog {
    fn note(&self, sql: &Sql<'_>, started: Instant, rows: u64) {
        let took = started.elapsed();
        if self.limit.is_none_or(|limit| took < limit) {
            return;
        }
        let statement = sql.summary();
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(statement, duration_ms, rows, "slow statement");
        if let Some(observe) = self.observer.0.get() {
            observe(Operation::SlowStatement, took);
        }
    }
}

#[derive(Debug)]
enum Transaction {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl Connection {
    /// Executes a statement; returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: Sql<'_>) -> Result<u64, Fault> {
        self.execute_again(&sql).await
    }

    /// Executes a statement that may have to be repeated.
    async fn execute_again(&mut self, sql: &Sql<'_>) -> Result<u64, Fault> {
        let started = Instant::now();
        let changed = match &mut self.transaction {
            Transaction::Sqlite(transaction) => match sqlite_query(sql) {
                Ok(query) => query
                    .execute(&mut **transaction)
                    .await
                    .map(|done| done.rows_affected()),
                Err(error) => Err(error),
            },
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => match postgres_query(sql) {
                Ok(query) => query
                    .persistent(self.persistent)
                    .execute(&mut **transaction)
                    .await
                    .map(|done| done.rows_affected()),
                Err(error) => Err(error),
            },
        };
        self.watch.note(sql, started, *changed.as_ref().unwrap_or(&0));
        changed.map_err(|error| Fault::new(&self.place, error))
    }

    /// Inserts many rows, [`BATCH`] per statement: `head VALUES (…), (…) tail`.
    pub(crate) async fn insert(
        &mut self,
        head: &str,
        rows: &[Vec<Value<'_>>],
        tail: &str,
    ) -> Result<(), Fault> {
        for rows in rows.chunks(BATCH) {
            self.execute(
                Sql::build(head)
                    .push_values(rows.iter().map(|row| row.iter().map(Value::borrowed).collect()))
                    .push(tail),
            )
            .await?;
        }
        Ok(())
    }

    /// Inserts many rows as fast as the engine can; a row with an existing key is an error.
    pub(crate) async fn copy(
        &mut self,
        table: &str,
        columns: &str,
        rows: &[Vec<Value<'_>>],
    ) -> Result<(), Fault> {
        match &mut self.transaction {
            Transaction::Sqlite(_) => {
                self.insert(&format!("INSERT INTO {table} ({columns}) "), rows, "")
                    .await
            }
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => {
                let started = Instant::now();
                let statement = format!("COPY {table} ({columns}) FROM STDIN");
                let sent = copy_rows(transaction, &statement, rows).await;
                self.watch
                    .note(&Sql::build(&statement), started, rows.len() as u64);
                sent.map_err(|error| Fault::new(&self.place, error))
            }
        }
    }

    /// Appends many rows with new keys. A repeated attempt skips rows that an earlier one may have written before
    /// its connection was lost, as does a short batch: for it, copying is not faster. If a row that is copied exists,
    /// because its caller sends it again, the fault is transient: the next attempt skips it.
    pub(crate) async fn append(
        &mut self,
        table: &str,
        columns: &str,
        rows: &[Vec<Value<'_>>],
        attempts: u32,
    ) -> Result<(), Fault> {
        if attempts == 1 && rows.len() >= MIN_COPIED {
            return self.copy(table, columns, rows).await.map_err(|mut fault| {
                fault.transient |= is_unique_violation(&fault.error);
                fault
            });
        }
        let head = format!("INSERT INTO {table} ({columns}) ");
        self.insert(&head, rows, " ON CONFLICT DO NOTHING").await
    }

    /// Executes one or more constant statements without parameters.
    pub(crate) async fn execute_raw(&mut self, text: &str) -> Result<(), Fault> {
        let text = sqlx::raw_sql(sqlx::AssertSqlSafe(text));
        let done = match &mut self.transaction {
            Transaction::Sqlite(transaction) => text.execute(&mut **transaction).await.map(drop),
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => text.execute(&mut **transaction).await.map(drop),
        };
        done.map_err(|error| Fault::new(&self.place, error))
    }

    /// Returns all rows of a statement.
    pub(crate) async fn rows(&mut self, sql: Sql<'_>) -> Result<Vec<Row>, Fault> {
        let started = Instant::now();
        let rows = match &mut self.transaction {
            Transaction::Sqlite(transaction) => sqlite_rows(transaction, &sql).await,
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => postgres_rows(transaction, &sql, self.persistent).await,
        };
        self.watch
            .note(&sql, started, rows.as_ref().map_or(0, |rows| rows.len() as u64));
        placed(&self.place, rows)
    }

    /// Returns the first row of a statement.
    pub(crate) async fn row(&mut self, sql: Sql<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.rows(sql).await?.into_iter().next())
    }

    /// Returns the only row of a statement: for aggregates and `RETURNING`.
    pub(crate) async fn one(&mut self, sql: Sql<'_>) -> Result<Row, Fault> {
        let row = self.row(sql).await?;
        row.ok_or_else(|| Fault::new(&self.place, sqlx::Error::RowNotFound))
    }

    /// Streams the rows, for results that do not fit into memory.
    pub(crate) fn stream<'c>(
        &'c mut self,
        sql: &Sql<'_>,
    ) -> Result<BoxStream<'c, Result<Row, Fault>>, Fault> {
        let place = &self.place;
        let failed = |error| Fault::new(place, error);
        let row = move |row| Row {
            row,
            place: Arc::clone(place),
        };
        Ok(match &mut self.transaction {
            Transaction::Sqlite(transaction) => sqlite_query(sql)
                .map_err(failed)?
                .fetch(&mut **transaction)
                .map(move |found| found.map(|found| row(EngineRow::Sqlite(found))).map_err(failed))
                .boxed(),
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => postgres_query(sql)
                .map_err(failed)?
                .persistent(self.persistent)
                .fetch(&mut **transaction)
                .map(move |found| found.map(|found| row(EngineRow::Postgres(found))).map_err(failed))
                .boxed(),
        })
    }

    pub(crate) async fn rollback(self) -> Result<(), Fault> {
        let done = match self.transaction {
            Transaction::Sqlite(transaction) => transaction.rollback().await,
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => transaction.rollback().await,
        };
        done.map_err(|error| Fault::new(&self.place, error))
    }

    pub(crate) async fn commit(self) -> Result<(), Fault> {
        let done = match self.transaction {
            Transaction::Sqlite(transaction) => transaction.commit().await,
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => transaction.commit().await,
        };
        done.map_err(|error| Fault::new(&self.place, error))
    }
}

fn is_unique_violation(error: &StoreError) -> bool {
    matches!(error, StoreError::Engine { cause, .. }
        if cause.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation))
}

async fn sqlite_rows(
    connection: &mut sqlx::SqliteConnection,
    sql: &Sql<'_>,
) -> Result<Vec<EngineRow>, sqlx::Error> {
    let rows = sqlite_query(sql)?.fetch_all(connection).await?;
    Ok(rows.into_iter().map(EngineRow::Sqlite).collect())
}

#[cfg(feature = "postgres")]
async fn postgres_rows(
    connection: &mut PgConnection,
    sql: &Sql<'_>,
    persistent: bool,
) -> Result<Vec<EngineRow>, sqlx::Error> {
    let query = postgres_query(sql)?.persistent(persistent);
    let rows = query.fetch_all(connection).await?;
    Ok(rows.into_iter().map(EngineRow::Postgres).collect())
}

#[cfg(feature = "postgres")]
async fn copy_rows(
    connection: &mut PgConnection,
    statement: &str,
    rows: &[Vec<Value<'_>>],
) -> Result<(), sqlx::Error> {
    let mut sink = connection.copy_in_raw(statement).await?;
    let mut part = String::with_capacity(copy::CHUNK + 4096);
    for row in rows {
        copy::push_row(&mut part, row);
        if part.len() >= copy::CHUNK {
            sink.send(part.as_bytes()).await?;
            part.clear();
        }
    }
    sink.send(part.as_bytes()).await?;
    sink.finish().await.map(drop)
}

fn placed(place: &Arc<str>, rows: Result<Vec<EngineRow>, sqlx::Error>) -> Result<Vec<Row>, Fault> {
    let rows = rows.map_err(|error| Fault::new(place, error))?;
    let row = |row| Row {
        row,
        place: Arc::clone(place),
    };
    Ok(rows.into_iter().map(row).collect())
}

impl Pool {
    /// Connects; creates the SQLite file if `create` is set.
    pub(crate) async fn connect(
        url: &StoreUrl,
        create: bool,
        settings: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let place: Arc<str> = url.to_string().into();
        let engine = match url {
            StoreUrl::Sqlite(path) => Self::connect_sqlite(path, create, &place).await?,
            #[cfg(feature = "postgres")]
            StoreUrl::Postgres { options, pooling, .. } => {
                let options = options.as_ref().clone();
                Engine::Postgres(Postgres::connect(options, *pooling, &place, settings).await?)
            }
        };
        Ok(Self {
            engine,
            place,
            observer: Observer::default(),
            batches: BatchObserver::default(),
            slow_query: settings.slow_query.filter(|limit| !limit.is_zero()),
        })
    }

    /// Returns a handle whose reads may be answered by the read replica, if there is one.
    pub(crate) fn reading_replica(&self) -> Self {
        #[cfg_attr(
            not(feature = "postgres"),
            expect(unused_mut, reason = "only PostgreSQL has replicas")
        )]
        let mut pool = self.clone();
        #[cfg(feature = "postgres")]
        if let Engine::Postgres(postgres) = &mut pool.engine {
            postgres.reads_replica = true;
        }
        pool
    }

    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unused_async, reason = "only PostgreSQL has replicas")
    )]
    pub(crate) async fn replica_status(&self) -> Option<crate::partitions::ReplicaStatus> {
        match &self.engine {
            Engine::Sqlite { .. } => None,
            #[cfg(feature = "postgres")]
            Engine::Postgres(postgres) => postgres.replica_status().await,
        }
    }

    pub(crate) fn uses_transaction_pooling(&self) -> bool {
        match &self.engine {
            Engine::Sqlite { .. } => false,
            #[cfg(feature = "postgres")]
            Engine::Postgres(postgres) => postgres.primary.transaction_pooling,
        }
    }

    async fn connect_sqlite(path: &Path, create: bool, place: &Arc<str>) -> Result<Engine, StoreError> {
        if create && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs_err::create_dir_all(folder).map_err(|cause| StoreError::CannotOpen {
                place: place.to_string(),
                detail: cause.to_string(),
            })?;
        }
        if !create && !path.exists() {
            return Err(StoreError::NoStore {
                place: place.to_string(),
            });
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(create)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            // FULL: in WAL mode NORMAL may lose acknowledged commits on power failure.
            .synchronous(SqliteSynchronous::Full);
        // An open file does not disconnect, so that a check before each use would only cost time.
        let write_options = SqlitePoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .acquire_timeout(BUSY_TIMEOUT);
        let mut backoff = Backoff::default();
        let write = loop {
            match write_options.clone().connect_with(options.clone()).await {
                Ok(pool) => break pool,
                Err(error) => {
                    // When two processes switch a new file to WAL at once, SQLite reports "busy" to one of
                    // them without waiting.
                    let transient = is_busy(&error);
                    let mut fault = Fault::new(place, error);
                    fault.transient |= transient;
                    if !backoff.retries(&fault) {
                        return Err(explain_open_error(fault.error, path));
                    }
                    backoff.pause().await;
                }
            }
        };

        let read = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS)
            .test_before_acquire(false)
            .acquire_timeout(BUSY_TIMEOUT)
            .connect_lazy_with(options.create_if_missing(false));
        let read = WarmConnections::new(read, SQLITE_WARM);
        Ok(Engine::Sqlite { read, write })
    }

    /// Starts a write transaction.
    pub(crate) async fn begin(&self) -> Result<Connection, Fault> {
        self.begin_with("BEGIN IMMEDIATE", "BEGIN").await
    }

    /// Starts a read transaction on a consistent snapshot.
    pub(crate) async fn begin_snapshot(&self) -> Result<Connection, Fault> {
        self.begin_with(
            "BEGIN DEFERRED",
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        )
        .await
    }

    #[cfg_attr(
        not(feature = "postgres"),
        expect(unused_variables, reason = "one statement for each engine")
    )]
    async fn begin_with(&self, sqlite: &'static str, postgres: &'static str) -> Result<Connection, Fault> {
        let snapshot = sqlite == "BEGIN DEFERRED";
        #[cfg(feature = "postgres")]
        let mut persistent = true;
        let transaction = match &self.engine {
            Engine::Sqlite { read, write } => {
                let pool = if snapshot { read.pool() } else { write };
                pool.begin_with(sqlite).await.map(Transaction::Sqlite)
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(connections) => {
                persistent = !connections.primary.transaction_pooling;
                let replica = if snapshot {
                    connections.usable_replica().await
                } else {
                    None
                };
                let begun = match replica {
                    Some(replica) => match replica.begin(postgres).await {
                        Ok(begun) => {
                            persistent = false;
                            Some(begun)
                        }
                        Err(error) => {
                            replica.fail(&error);
                            None
                        }
                    },
                    None => None,
                };
                match begun {
                    Some(begun) => Ok(Transaction::Postgres(begun)),
                    None => connections
                        .primary
                        .begin(postgres)
                        .await
                        .map(Transaction::Postgres),
                }
            }
        };
        let transaction = transaction.map_err(|error| Fault::new(&self.place, error))?;
        Ok(Connection {
            transaction,
            place: Arc::clone(&self.place),
            watch: self.slow_query_log(),
            #[cfg(feature = "postgres")]
            persistent,
        })
    }

    fn slow_query_log(&self) -> SlowQueryLog {
        SlowQueryLog {
            limit: self.slow_query,
            observer: self.observer.clone(),
        }
    }

    /// Executes a statement that PostgreSQL does not allow in a transaction, however long it takes.
    #[cfg(feature = "postgres")]
    pub(crate) async fn execute_outside_transaction(&self, statement: &str) -> Result<(), StoreError> {
        let Engine::Postgres(postgres) = &self.engine else {
            return Ok(());
        };
        let done = async {
            let mut connection = postgres.primary.connections.pool().acquire().await?;
            // With a pooler, only transactions have a timeout, and a setting of the session would reach other clients.
            if !postgres.primary.transaction_pooling {
                connection.close_on_drop();
                sqlx::raw_sql("SET statement_timeout = 0")
                    .execute(&mut *connection)
                    .await?;
            }
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
                .execute(&mut *connection)
                .await
        };
        done.await
            .map(drop)
            .map_err(|error| Fault::new(&self.place, error).error)
    }

    /// Executes one statement as a write transaction; returns the number of changed rows.
    pub(crate) async fn execute(&self, sql: Sql<'_>) -> Result<u64, StoreError> {
        in_transaction!(self, |connection| connection.execute_again(&sql).await?)
    }

    /// Returns all rows of a query.
    pub(crate) async fn rows(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        let started = Instant::now();
        let work = async {
            let mut backoff = Backoff::default();
            loop {
                let begun = Instant::now();
                let rows = self.read(&sql).await;
                let count = rows.as_ref().map_or(0, |rows| rows.len() as u64);
                self.slow_query_log().note(&sql, begun, count);
                match placed(&self.place, rows) {
                    Err(fault) if backoff.retries(&fault) => {
                        self.suspect();
                        backoff.pause().await;
                    }
                    other => break other.map_err(StoreError::from),
                }
            }
        };
        let outcome = work.instrument(Operation::Read.span()).await;
        self.report_duration(Operation::Read, started);
        outcome
    }

    async fn read(&self, sql: &Sql<'_>) -> Result<Vec<EngineRow>, sqlx::Error> {
        match &self.engine {
            Engine::Sqlite { read, .. } => {
                let mut warm = read.take().await?;
                let rows = sqlite_rows(&mut warm.connection, sql).await?;
                read.keep(warm);
                Ok(rows)
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(postgres) => {
                let rows = postgres.read(sql).await?;
                Ok(rows.into_iter().map(EngineRow::Postgres).collect())
            }
        }
    }

    /// Returns the first row of a query.
    pub(crate) async fn row(&self, sql: Sql<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql).await?.into_iter().next())
    }

    /// Returns the only row of a query: for aggregates.
    pub(crate) async fn one(&self, sql: Sql<'_>) -> Result<Row, StoreError> {
        let row = self.row(sql).await?;
        row.ok_or_else(|| Fault::new(&self.place, sqlx::Error::RowNotFound).error)
    }

    pub(crate) fn report_duration(&self, operation: Operation, started: Instant) {
        if let Some(observe) = self.observer.0.get() {
            observe(operation, started.elapsed());
        }
    }

    pub(crate) fn observe(&self, observe: Observe) {
        // The first observer is kept: a second one would count twice.
        let _ = self.observer.0.set(observe);
    }

    /// Notes a transient error: for a while, connections are tested before they are used.
    pub(crate) fn suspect(&self) {
        match &self.engine {
            Engine::Sqlite { .. } => {}
            #[cfg(feature = "postgres")]
            Engine::Postgres(postgres) => postgres.primary.connections.suspect(),
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        !matches!(self.engine, Engine::Sqlite { .. })
    }

    /// SQL expression for the engine's clock in microseconds: the same for all processes that share the
    /// store.
    pub(crate) fn clock(&self) -> &'static str {
        if self.is_postgres() {
            "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
        } else {
            "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)"
        }
    }

    /// SQL clause that lets one process at a time read and change a row. SQLite has a single writer, so it
    /// needs no lock.
    pub(crate) fn for_update(&self) -> &'static str {
        if self.is_postgres() { "FOR UPDATE" } else { "" }
    }

    /// SQL clause that lets two processes take different rows concurrently. SQLite has a single writer, so it
    /// needs no lock.
    pub(crate) fn skip_locked(&self) -> &'static str {
        if self.is_postgres() {
            "FOR UPDATE SKIP LOCKED"
        } else {
            ""
        }
    }

    pub(crate) async fn close(&self) {
        match &self.engine {
            Engine::Sqlite { read, write } => {
                read.close().await;
                write.close().await;
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(postgres) => postgres.close().await,
        }
    }
}

/// Retry policy with exponential backoff: a few seconds in total.
pub(crate) struct Backoff {
    left: u32,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            left: MAX_ATTEMPTS - 1,
            next: Duration::from_millis(20),
        }
    }
}

impl Backoff {
    /// Returns true if this fault should be retried.
    pub(crate) fn retries(&self, fault: &Fault) -> bool {
        self.left > 0 && fault.transient
    }

    pub(crate) async fn pause(&mut self) {
        tracing::debug!(pause = ?self.next, "transient database error, retrying");
        tokio::time::sleep(self.next).await;
        self.left -= 1;
        self.next *= 2;
    }
}

/// SQLite only reports "unable to open"; the file system knows the reason.
fn explain_open_error(error: StoreError, path: &Path) -> StoreError {
    let StoreError::CannotOpen { place, detail } = error else {
        return error;
    };
    // Open the file like SQLite does, to get the reason from the operating system.
    let detail = match fs_err::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
    {
        Err(cause) => cause.to_string(),
        Ok(_) => detail,
    };
    StoreError::CannotOpen { place, detail }
}
