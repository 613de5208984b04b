//! Connections to either engine, and the two macros that run one text of SQL on both.
//!
//! SQLite has one writer: a pool of one connection that begins every transaction with the write lock in hand, and
//! a pool of readers beside it. Readers never wait for the writer (WAL), other processes wait for the lock.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, PgConnection, PgPool, SqlitePool};

use crate::error::{is_busy, is_transient, sort};
use crate::{StoreError, StoreUrl};

/// How long a writer waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long opening may take before the server counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Readers of one process; each is a thread and a file handle.
const SQLITE_READERS: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 10;
/// Tries of a transaction that was rolled back for no fault of its own.
const ATTEMPTS: u32 = 8;

/// The connections of one store.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
        place: Arc<str>,
        observer: Observer,
    },
    Postgres {
        pool: PgPool,
        place: Arc<str>,
        observer: Observer,
    },
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

impl Observer {
    pub(crate) fn set(&self, observe: Observe) {
        // The first one stays: measuring twice would count twice.
        let _ = self.0.set(observe);
    }

    pub(crate) fn tell(&self, operation: Operation, started: Instant) {
        if let Some(observe) = self.0.get() {
            observe(operation, started.elapsed());
        }
    }
}

/// Repeats `$attempt`, an async block, while it fails for a passing reason. A macro and not a function because a
/// future that borrows from its caller through a closure cannot be sent between threads.
macro_rules! patiently {
    ($place:expr, $attempt:expr) => {
        $crate::pool::patiently!($place, $crate::pool::Patience::default(), $attempt)
    };
    ($place:expr, $patience:expr, $attempt:expr) => {{
        let mut patience = $patience;
        loop {
            let outcome: Result<_, sqlx::Error> = $attempt.await;
            match outcome {
                Err(error) if patience.lasts(&error) => patience.pause().await,
                other => break other.map_err(|error| $crate::error::sort($place, error)),
            }
        }
    }};
}

/// Runs `$body` with `$executor` bound to a connection that can read, on whichever engine this is.
macro_rules! reading {
    ($pool:expr, |$executor:ident| $body:expr) => {
        $crate::pool::measured!(
            $pool,
            Read,
            match $pool {
                $crate::pool::Pool::Sqlite { read, place, .. } => $crate::pool::patiently!(place, async {
                    let mut connection = read.acquire().await?;
                    let $executor = &mut *connection;
                    Ok($body)
                }),
                $crate::pool::Pool::Postgres { pool, place, .. } => $crate::pool::patiently!(place, async {
                    let mut connection = pool.acquire().await?;
                    let $executor = &mut *connection;
                    Ok($body)
                }),
            }
        )
    };
}

/// Runs `$body` in one write transaction, again if the engine rolled it back through no fault of its own. The body
/// must be safe to repeat: a connection that is lost during the commit leaves open whether it took place.
macro_rules! in_transaction {
    ($pool:expr, |$executor:ident| $body:expr) => {
        $crate::pool::measured!(
            $pool,
            Write,
            match $pool {
                $crate::pool::Pool::Sqlite { write, place, .. } => $crate::pool::patiently!(place, async {
                    let mut transaction = write.begin_with("BEGIN IMMEDIATE").await?;
                    let answer = {
                        let $executor = &mut *transaction;
                        $body
                    };
                    transaction.commit().await?;
                    Ok(answer)
                }),
                $crate::pool::Pool::Postgres { pool, place, .. } => $crate::pool::patiently!(place, async {
                    let mut transaction = pool.begin().await?;
                    let answer = {
                        let $executor = &mut *transaction;
                        $body
                    };
                    transaction.commit().await?;
                    Ok(answer)
                }),
            }
        )
    };
}

/// Tells who measures how long this took, with waiting and repeating.
macro_rules! measured {
    ($pool:expr, $operation:ident, $work:expr) => {{
        let started = std::time::Instant::now();
        let span = tracing::info_span!("store", operation = stringify!($operation));
        let outcome = tracing::Instrument::instrument(async { $work }, span).await;
        $pool
            .observer()
            .tell($crate::pool::Operation::$operation, started);
        outcome
    }};
}
pub(crate) use {in_transaction, measured, patiently, reading};

impl Pool {
    /// Connects, and for SQLite creates the file when `create` says so.
    pub(crate) async fn connect(url: &StoreUrl, create: bool) -> Result<Self, StoreError> {
        let place: Arc<str> = url.to_string().into();
        match url {
            StoreUrl::Sqlite(path) => Self::connect_sqlite(path, create, place).await,
            StoreUrl::Postgres { options, .. } => {
                Self::connect_postgres(options.as_ref().clone(), place).await
            }
        }
    }

    async fn connect_sqlite(path: &Path, create: bool, place: Arc<str>) -> Result<Self, StoreError> {
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
        let write: Result<SqlitePool, StoreError> = patiently!(&place, Patience::when_opening(), async {
            write_options.clone().connect_with(options.clone()).await
        });
        let write = write.map_err(|error| explain_refusal(error, path))?;
        let read = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS)
            .acquire_timeout(BUSY_TIMEOUT)
            .connect_lazy_with(options.create_if_missing(false));
        Ok(Self::Sqlite {
            read,
            write,
            place,
            observer: Observer::default(),
        })
    }

    async fn connect_postgres(options: PgConnectOptions, place: Arc<str>) -> Result<Self, StoreError> {
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
        let first = first.map_err(|error| sort(&place, error))?;
        // It has shown what it should; whether it is closed in good order does not matter.
        let _ = first.close().await;
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS)
            .acquire_timeout(CONNECT_TIMEOUT)
            .connect_lazy_with(options);
        Ok(Self::Postgres {
            pool,
            place,
            observer: Observer::default(),
        })
    }

    pub(crate) fn observer(&self) -> &Observer {
        match self {
            Self::Sqlite { observer, .. } | Self::Postgres { observer, .. } => observer,
        }
    }

    pub(crate) fn place(&self) -> &str {
        match self {
            Self::Sqlite { place, .. } | Self::Postgres { place, .. } => place,
        }
    }

    /// The engine's own clock in microseconds, as SQL: the same for all who share the store.
    pub(crate) fn clock(&self) -> &'static str {
        match self {
            Self::Sqlite { .. } => "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)",
            Self::Postgres { .. } => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
        }
    }

    /// What lets two take different rows at once. SQLite has one writer, so there is nothing to lock.
    pub(crate) fn skip_locked(&self) -> &'static str {
        match self {
            Self::Sqlite { .. } => "",
            Self::Postgres { .. } => "FOR UPDATE SKIP LOCKED",
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite { read, write, .. } => {
                read.close().await;
                write.close().await;
            }
            Self::Postgres { pool, .. } => pool.close().await,
        }
    }
}

/// How often, and after which pauses, to try again: a few seconds in all.
pub(crate) struct Patience {
    left: u32,
    opening: bool,
    next: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            left: ATTEMPTS - 1,
            opening: false,
            next: Duration::from_millis(20),
        }
    }
}

impl Patience {
    /// While two processes turn a new file to WAL at once, SQLite tells one of them "busy" without waiting.
    fn when_opening() -> Self {
        Self {
            opening: true,
            ..Self::default()
        }
    }

    /// Whether to try again after this error.
    pub(crate) fn lasts(&self, error: &sqlx::Error) -> bool {
        self.left > 0 && (is_transient(error) || (self.opening && is_busy(error)))
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
