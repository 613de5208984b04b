//! Connection pools of both engines, and execution of statements.
//!
//! SQLite has a single writer: a pool of one connection that starts every transaction with the write lock,
//! and a separate pool of readers. Readers never wait for the writer (WAL); other processes wait for the
//! lock.

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
use {
    crate::error::classify,
    crate::sql::postgres_query,
    sqlx::postgres::{PgConnectOptions, PgPoolOptions},
    sqlx::{Connection as _, PgConnection},
};

use crate::error::is_busy;
use crate::sql::{BATCH, EngineRow, Fault, Row, Sql, Value, sqlite_query};
use crate::{StoreError, StoreUrl};
use warm::WarmConnections;

/// How long a writer waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for opening a connection.
#[cfg(feature = "postgres")]
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Reader connections per process; each is a thread and a file handle.
const SQLITE_READERS: u32 = 4;
/// Readers that keep their connection; snapshots take one from the pool.
const SQLITE_WARM: usize = 3;
#[cfg(feature = "postgres")]
const POSTGRES_CONNECTIONS: u32 = 10;
/// Connections that readers keep; the others are for transactions.
#[cfg(feature = "postgres")]
const POSTGRES_WARM: usize = 6;
/// Attempts for a transaction that was rolled back by a transient error.
const MAX_ATTEMPTS: u32 = 8;

/// Connections of one store.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub(crate) engine: Engine,
    pub(crate) place: Arc<str>,
    observer: Observer,
}

#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Sqlite {
        read: WarmConnections<sqlx::Sqlite>,
        write: SqlitePool,
    },
    #[cfg(feature = "postgres")]
    Postgres(WarmConnections<sqlx::Postgres>),
}

/// Kind of operation, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A read.
    Read,
    /// A write transaction.
    Write,
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
        };
        tracing::info_span!("store", operation = name)
    }
}

/// A transaction in progress; dropping it rolls it back.
#[derive(Debug)]
pub(crate) struct Connection {
    transaction: Transaction,
    place: Arc<str>,
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
                    .execute(&mut **transaction)
                    .await
                    .map(|done| done.rows_affected()),
                Err(error) => Err(error),
            },
        };
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
        let rows = match &mut self.transaction {
            Transaction::Sqlite(transaction) => sqlite_rows(transaction, &sql).await,
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => postgres_rows(transaction, &sql).await,
        };
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

async fn sqlite_rows(
    connection: &mut sqlx::SqliteConnection,
    sql: &Sql<'_>,
) -> Result<Vec<EngineRow>, sqlx::Error> {
    let rows = sqlite_query(sql)?.fetch_all(connection).await?;
    Ok(rows.into_iter().map(EngineRow::Sqlite).collect())
}

#[cfg(feature = "postgres")]
async fn postgres_rows(connection: &mut PgConnection, sql: &Sql<'_>) -> Result<Vec<EngineRow>, sqlx::Error> {
    let rows = postgres_query(sql)?.fetch_all(connection).await?;
    Ok(rows.into_iter().map(EngineRow::Postgres).collect())
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
    pub(crate) async fn connect(url: &StoreUrl, create: bool) -> Result<Self, StoreError> {
        let place: Arc<str> = url.to_string().into();
        let engine = match url {
            StoreUrl::Sqlite(path) => Self::connect_sqlite(path, create, &place).await?,
            #[cfg(feature = "postgres")]
            StoreUrl::Postgres { options, .. } => {
                Self::connect_postgres(options.as_ref().clone(), &place).await?
            }
        };
        Ok(Self {
            engine,
            place,
            observer: Observer::default(),
        })
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

    #[cfg(feature = "postgres")]
    async fn connect_postgres(options: PgConnectOptions, place: &str) -> Result<Engine, StoreError> {
        let options = options.application_name("satiety");
        // Open a single connection first: a pool retries a server that refuses until the timeout, and then
        // reports only the timeout.
        let first = tokio::time::timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&options)).await;
        let first = first.unwrap_or_else(|_| {
            let waited = format!("connection timed out after {} seconds", CONNECT_TIMEOUT.as_secs());
            Err(sqlx::Error::Io(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                waited,
            )))
        });
        let first = first.map_err(|error| classify(place, error))?;
        // The connection has served its purpose; errors on closing do not matter.
        let _ = first.close().await;
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS)
            .acquire_timeout(CONNECT_TIMEOUT)
            .connect_lazy_with(options);
        Ok(Engine::Postgres(WarmConnections::new(pool, POSTGRES_WARM)))
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
        let transaction = match &self.engine {
            Engine::Sqlite { read, write } => {
                let pool = if sqlite == "BEGIN DEFERRED" {
                    read.pool()
                } else {
                    write
                };
                pool.begin_with(sqlite).await.map(Transaction::Sqlite)
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(warm) => warm.pool().begin_with(postgres).await.map(Transaction::Postgres),
        };
        let transaction = transaction.map_err(|error| Fault::new(&self.place, error))?;
        Ok(Connection {
            transaction,
            place: Arc::clone(&self.place),
        })
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
                match placed(&self.place, self.read(&sql).await) {
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
            Engine::Postgres(readers) => {
                let mut warm = readers.take().await?;
                let rows = postgres_rows(&mut warm.connection, sql).await?;
                readers.keep(warm);
                Ok(rows)
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
            Engine::Postgres(readers) => readers.suspect(),
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
            Engine::Postgres(readers) => readers.close().await,
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
