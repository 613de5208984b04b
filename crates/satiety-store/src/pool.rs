//! Connections to either engine, and what runs statements on them.
//!
//! SQLite has one writer: a pool of one connection that begins every transaction with the write lock in hand, and
//! a pool of readers beside it. Readers never wait for the writer (WAL), other processes wait for the lock.

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
    crate::error::sort,
    crate::sql::postgres_query,
    sqlx::postgres::{PgConnectOptions, PgPoolOptions},
    sqlx::{Connection as _, PgConnection, PgPool},
};

use crate::error::is_busy;
use crate::sql::{BATCH, EngineRow, Fault, Row, Sql, Value, sqlite_query};
use crate::{StoreError, StoreUrl};

/// How long a writer waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long opening may take before the server counts as unreachable.
#[cfg(feature = "postgres")]
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Readers of one process; each is a thread and a file handle.
const SQLITE_READERS: u32 = 4;
#[cfg(feature = "postgres")]
const POSTGRES_CONNECTIONS: u32 = 10;
/// Tries of a transaction that was rolled back for no fault of its own.
const ATTEMPTS: u32 = 8;

/// The connections of one store.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub(crate) engine: Engine,
    pub(crate) place: Arc<str>,
    observer: Observer,
}

#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
    },
    #[cfg(feature = "postgres")]
    Postgres(PgPool),
}

/// What is done with the store, for who measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reading.
    Read,
    /// A write transaction.
    Write,
}

type Observe = Box<dyn Fn(Operation, Duration) + Send + Sync>;

/// Who measures the store, if anybody does. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Observer(Arc<OnceLock<Observe>>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// Runs `$body` in one write transaction, again if the engine rolled it back through no fault of its own. The body
/// must be safe to repeat: a connection that is lost during the commit leaves open whether it took place. A macro and not
/// a function, because a future that borrows from its caller through a closure cannot be sent between threads.
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
                    Err(fault) if backoff.retries(&fault) => backoff.pause().await,
                    other => break other.map_err($crate::StoreError::from),
                }
            }
        };
        let outcome = tracing::Instrument::instrument(work, $crate::pool::Operation::Write.span()).await;
        pool.tell($crate::pool::Operation::Write, started);
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

/// A transaction that is under way; dropping it takes back what was done.
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
    /// Runs a statement; returns how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: Sql<'_>) -> Result<u64, Fault> {
        self.execute_again(&sql).await
    }

    /// The same with a statement that may have to be repeated.
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

    /// Runs an insert of many rows, [`BATCH`] with one statement: `head VALUES (…), (…) tail`.
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

    /// Runs statements of this program that bind nothing, one or many.
    pub(crate) async fn execute_raw(&mut self, text: &str) -> Result<(), Fault> {
        let text = sqlx::raw_sql(sqlx::AssertSqlSafe(text));
        let done = match &mut self.transaction {
            Transaction::Sqlite(transaction) => text.execute(&mut **transaction).await.map(drop),
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => text.execute(&mut **transaction).await.map(drop),
        };
        done.map_err(|error| Fault::new(&self.place, error))
    }

    /// All rows that a statement returns.
    pub(crate) async fn rows(&mut self, sql: Sql<'_>) -> Result<Vec<Row>, Fault> {
        let rows = match &mut self.transaction {
            Transaction::Sqlite(transaction) => sqlite_rows(transaction, &sql).await,
            #[cfg(feature = "postgres")]
            Transaction::Postgres(transaction) => postgres_rows(transaction, &sql).await,
        };
        placed(&self.place, rows)
    }

    /// The first of them.
    pub(crate) async fn row(&mut self, sql: Sql<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.rows(sql).await?.into_iter().next())
    }

    /// The only one: for aggregates and `RETURNING`.
    pub(crate) async fn one(&mut self, sql: Sql<'_>) -> Result<Row, Fault> {
        let row = self.row(sql).await?;
        row.ok_or_else(|| Fault::new(&self.place, sqlx::Error::RowNotFound))
    }

    /// The rows one by one, for what does not fit into memory.
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
    /// Connects, and for SQLite creates the file when `create` says so.
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
            // FULL: in WAL mode NORMAL may forget acknowledged commits when the power fails.
            .synchronous(SqliteSynchronous::Full);
        let write_options = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(BUSY_TIMEOUT);
        let mut backoff = Backoff::default();
        let write = loop {
            match write_options.clone().connect_with(options.clone()).await {
                Ok(pool) => break pool,
                Err(error) => {
                    // While two processes turn a new file to WAL at once, SQLite tells one of them "busy" without waiting.
                    let transient = is_busy(&error);
                    let mut fault = Fault::new(place, error);
                    fault.transient |= transient;
                    if !backoff.retries(&fault) {
                        return Err(explain_refusal(fault.error, path));
                    }
                    backoff.pause().await;
                }
            }
        };
        let read = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS)
            .acquire_timeout(BUSY_TIMEOUT)
            .connect_lazy_with(options.create_if_missing(false));
        Ok(Engine::Sqlite { read, write })
    }

    #[cfg(feature = "postgres")]
    async fn connect_postgres(options: PgConnectOptions, place: &str) -> Result<Engine, StoreError> {
        let options = options.application_name("satiety");
        // One connection by hand first: a pool keeps trying a server that refuses until its time is up, and then says
        // only that.
        let first = tokio::time::timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&options)).await;
        let first = first.unwrap_or_else(|_| {
            let waited = format!("no answer in {} seconds", CONNECT_TIMEOUT.as_secs());
            Err(sqlx::Error::Io(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                waited,
            )))
        });
        let first = first.map_err(|error| sort(place, error))?;
        // It has shown what it should; whether it is closed in good order does not matter.
        let _ = first.close().await;
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS)
            .acquire_timeout(CONNECT_TIMEOUT)
            .connect_lazy_with(options);
        Ok(Engine::Postgres(pool))
    }

    /// Begins a write transaction.
    pub(crate) async fn begin(&self) -> Result<Connection, Fault> {
        self.begin_with("BEGIN IMMEDIATE", "BEGIN").await
    }

    /// Begins a transaction that reads everything as of one moment.
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
                let pool = if sqlite == "BEGIN DEFERRED" { read } else { write };
                pool.begin_with(sqlite).await.map(Transaction::Sqlite)
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(pool) => pool.begin_with(postgres).await.map(Transaction::Postgres),
        };
        let transaction = transaction.map_err(|error| Fault::new(&self.place, error))?;
        Ok(Connection {
            transaction,
            place: Arc::clone(&self.place),
        })
    }

    /// Runs one statement as a write transaction; returns how many rows it changed.
    pub(crate) async fn execute(&self, sql: Sql<'_>) -> Result<u64, StoreError> {
        in_transaction!(self, |connection| connection.execute_again(&sql).await?)
    }

    /// All rows that a statement reads.
    pub(crate) async fn rows(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        let started = Instant::now();
        let work = async {
            let mut backoff = Backoff::default();
            loop {
                match placed(&self.place, self.read(&sql).await) {
                    Err(fault) if backoff.retries(&fault) => backoff.pause().await,
                    other => break other.map_err(StoreError::from),
                }
            }
        };
        let outcome = work.instrument(Operation::Read.span()).await;
        self.tell(Operation::Read, started);
        outcome
    }

    async fn read(&self, sql: &Sql<'_>) -> Result<Vec<EngineRow>, sqlx::Error> {
        match &self.engine {
            Engine::Sqlite { read, .. } => {
                let mut connection = read.acquire().await?;
                sqlite_rows(&mut connection, sql).await
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(pool) => {
                let mut connection = pool.acquire().await?;
                postgres_rows(&mut connection, sql).await
            }
        }
    }

    /// The first of them.
    pub(crate) async fn row(&self, sql: Sql<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql).await?.into_iter().next())
    }

    /// The only one: for aggregates.
    pub(crate) async fn one(&self, sql: Sql<'_>) -> Result<Row, StoreError> {
        let row = self.row(sql).await?;
        row.ok_or_else(|| Fault::new(&self.place, sqlx::Error::RowNotFound).error)
    }

    pub(crate) fn tell(&self, operation: Operation, started: Instant) {
        if let Some(observe) = self.observer.0.get() {
            observe(operation, started.elapsed());
        }
    }

    pub(crate) fn observe(&self, observe: Observe) {
        // The first one stays: measuring twice would count twice.
        let _ = self.observer.0.set(observe);
    }

    pub(crate) fn is_postgres(&self) -> bool {
        !matches!(self.engine, Engine::Sqlite { .. })
    }

    /// The engine's own clock in microseconds, as SQL: the same for all who share the store.
    pub(crate) fn clock(&self) -> &'static str {
        if self.is_postgres() {
            "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
        } else {
            "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)"
        }
    }

    /// What lets two take different rows at once. SQLite has one writer, so there is nothing to lock.
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
            Engine::Postgres(pool) => pool.close().await,
        }
    }
}

/// How often, and after which pauses, to try again: a few seconds in all.
pub(crate) struct Backoff {
    left: u32,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            left: ATTEMPTS - 1,
            next: Duration::from_millis(20),
        }
    }
}

impl Backoff {
    /// Whether to try again after this fault.
    pub(crate) fn retries(&self, fault: &Fault) -> bool {
        self.left > 0 && fault.transient
    }

    pub(crate) async fn pause(&mut self) {
        tracing::debug!(pause = ?self.next, "the engine rolled back or went away, trying again");
        tokio::time::sleep(self.next).await;
        self.left -= 1;
        self.next *= 2;
    }
}

/// SQLite says only "unable to open"; the file system knows why.
fn explain_refusal(error: StoreError, path: &Path) -> StoreError {
    let StoreError::CannotOpen { place, detail } = error else {
        return error;
    };
    // Asks for what SQLite asked for, so the system answers with the reason it gave SQLite.
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
