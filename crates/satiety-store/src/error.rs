//! What can go wrong with a store, told so that a user can act on it.
//!
//! Driver errors are sorted here, once, into what they mean for the user. Nothing above this crate looks at a
//! driver's error codes.

use std::path::PathBuf;
use std::sync::Arc;

/// A store that could not do what was asked. Every variant says where, and [`StoreError::hint`] what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The URL names no store.
    #[error("`{url}` is not a store URL: {reason}")]
    InvalidUrl {
        /// What was given, password masked.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The URL names an engine that this build leaves out.
    #[error("cannot open {url}: this build has no PostgreSQL support")]
    UnsupportedEngine {
        /// What was given, password masked.
        url: String,
    },
    /// There is a file, and it holds something else.
    #[error("{place} is not a Satiety store: the file is not a SQLite database")]
    NotADatabase {
        /// The store.
        place: String,
    },
    /// A database of another program.
    #[error("{place} is not a Satiety store: it holds tables of another program ({tables})")]
    ForeignDatabase {
        /// The store.
        place: String,
        /// Some of its tables.
        tables: String,
    },
    /// The engine found damage.
    #[error("{place} is damaged: {detail}")]
    Corrupt {
        /// The store.
        place: String,
        /// The engine's words.
        detail: String,
    },
    /// Writing is not permitted.
    #[error("cannot write to {place}: {detail}")]
    ReadOnly {
        /// The store.
        place: String,
        /// Which file or folder, or the engine's words.
        detail: String,
    },
    /// The disk or the quota is full.
    #[error("no space left for {place}; nothing was lost, but this write was not made")]
    DiskFull {
        /// The store.
        place: String,
    },
    /// The file or its folder cannot be opened.
    #[error("cannot open {place}: {detail}")]
    CannotOpen {
        /// The store.
        place: String,
        /// Why.
        detail: String,
    },
    /// The server said no to the user or the password.
    #[error("{place} refused the login: {detail}")]
    LoginRefused {
        /// The store.
        place: String,
        /// The server's words.
        detail: String,
    },
    /// The server answers, and has no such database.
    #[error("{place} does not exist: {detail}")]
    NoSuchDatabase {
        /// The store.
        place: String,
        /// The server's words.
        detail: String,
    },
    /// No server answers there, or it went away.
    #[error("cannot reach {place}: {detail}")]
    Unreachable {
        /// The store.
        place: String,
        /// The cause.
        detail: String,
    },
    /// Encrypted transport was asked for and could not be made.
    #[error("no secure connection to {place}: {detail}")]
    Tls {
        /// The store.
        place: String,
        /// The cause.
        detail: String,
    },
    /// Another process held the lock for longer than the store waits.
    #[error("{place} is busy: another process has been writing for too long")]
    Busy {
        /// The store.
        place: String,
    },
    /// Written by a newer program.
    #[error("{place} has schema version {found}, and this program knows versions up to {known}")]
    NewerSchema {
        /// The store.
        place: String,
        /// The store's version.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// The schema is older than what was asked of it.
    #[error("{place} has schema version {found}, and version {known} is needed")]
    OlderSchema {
        /// The store.
        place: String,
        /// The store's version.
        found: i64,
        /// The version this program needs.
        known: i64,
    },
    /// A migration that was applied is not the one this program has under that number.
    #[error("{place}: migration {version} ({name}) is not the one that was applied there")]
    ForeignMigration {
        /// The store.
        place: String,
        /// Its number.
        version: i64,
        /// Its name in this program.
        name: String,
    },
    /// Something with this identity is already there.
    #[error("{what} is already in the store")]
    AlreadyThere {
        /// What it is.
        what: String,
    },
    /// There is no store at that place, and it was not to be created.
    #[error("there is no store at {place}")]
    NoStore {
        /// The store.
        place: String,
    },
    /// What was asked for is not there.
    #[error("{what} is not in the store")]
    NotThere {
        /// What it is.
        what: String,
    },
    /// A line of an import is not usable. Nothing of the import was kept.
    #[error("line {line} of the import: {reason}")]
    Import {
        /// 1-based line.
        line: u64,
        /// What is wrong there.
        reason: String,
    },
    /// An import brings a constitutional memory, and nobody said that it may. Nothing of the import was kept.
    #[error("line {line} of the import is a constitutional memory, which only a person may import")]
    ConstitutionalMemory {
        /// 1-based line.
        line: u64,
    },
    /// An import into a store that already holds something.
    #[error("{place} is not empty: table `{table}` has rows")]
    NotEmpty {
        /// The store.
        place: String,
        /// The first table with rows.
        table: String,
    },
    /// A file beside the store (an archive, an export, a backup) could not be written or read.
    #[error("{action} {path}: {cause}", path = path.display())]
    File {
        /// What was being done: "cannot write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: Arc<std::io::Error>,
    },
    /// A stream given by the caller could not be read or written.
    #[error("cannot {action}: {cause}")]
    Stream {
        /// What was being done.
        action: &'static str,
        /// The system's words.
        cause: Arc<std::io::Error>,
    },
    /// A value that the store holds cannot be read back as what it should be.
    #[error("{place}: {what} holds a value that cannot be read: {detail}")]
    Unreadable {
        /// The store.
        place: String,
        /// Which value.
        what: String,
        /// Why.
        detail: String,
    },
    /// A retention rule that makes no sense.
    #[error("retention rule `{rule}`: {reason}")]
    InvalidRule {
        /// The rule as given.
        rule: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else the engine said.
    #[error("{place}: {cause}")]
    Engine {
        /// The store.
        place: String,
        /// The driver's error.
        cause: Arc<sqlx::Error>,
    },
}

impl StoreError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::InvalidUrl { .. } => {
                "use `sqlite:PATH` for a file or `postgres://user:password@host/database` for a server".into()
            }
            Self::UnsupportedEngine { .. } => "build with `--features postgres`, or use `sqlite:PATH`".into(),
            Self::NotADatabase { .. } | Self::ForeignDatabase { .. } => {
                "name another file with `--db sqlite:PATH`; this one was not changed".into()
            }
            Self::Corrupt { .. } => {
                "restore a backup (`satiety db backup` makes them), or save what can be read with `sqlite3 FILE .recover`"
                    .into()
            }
            Self::ReadOnly { .. } => "make the file and its folder writable, or name another store with `--db`".into(),
            Self::DiskFull { .. } => {
                "free some space, or let `satiety db retain` drop what is past its time, and try again".into()
            }
            Self::CannotOpen { .. } => {
                "check that the folder exists and that you may read and write there, or name another store with `--db`"
                    .into()
            }
            Self::LoginRefused { .. } => {
                "check user and password in the store URL (`--db`, SATIETY_STORE_URL or `store.url`)".into()
            }
            Self::NoSuchDatabase { .. } => "create it with `createdb`, or correct the name at the end of the URL".into(),
            Self::Unreachable { .. } => {
                "check host and port in the store URL, and that the server is running and accepts connections from here"
                    .into()
            }
            Self::Tls { .. } => {
                "set `sslmode` and `sslrootcert` in the URL to what the server offers (disable, require, verify-full)".into()
            }
            Self::Busy { .. } => "try again; if it stays busy, look for a stuck `satiety` process".into(),
            Self::NewerSchema { .. } => {
                "update satiety, or name another store with `--db`; this one was not changed".into()
            }
            Self::NoStore { .. } => {
                "the first command that writes creates it, and so does `satiety db migrate`; or name another with `--db`".into()
            }
            Self::OlderSchema { .. } => "run `satiety db migrate`".into(),
            Self::ForeignMigration { .. } => {
                "this store was written by a different build; export it with that build and import it with this one".into()
            }
            Self::Import { .. } => "nothing was imported; correct the file and import it again".into(),
            Self::ConstitutionalMemory { .. } => {
                "nothing was imported; give the export as a file at a terminal and confirm it there".into()
            }
            Self::NotEmpty { .. } => "import into a new store: `--db sqlite:NEW.db`".into(),
            Self::InvalidRule { .. } => {
                "write SUBJECT=DAYSd:ACTION, for example `journal=90d:archive`, or SUBJECT=keep".into()
            }
            Self::AlreadyThere { .. }
            | Self::NotThere { .. }
            | Self::File { .. }
            | Self::Stream { .. }
            | Self::Unreadable { .. }
            | Self::Engine { .. } => return None,
        })
    }

    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, cause: std::io::Error) -> Self {
        Self::File {
            action,
            path: path.into(),
            cause: Arc::new(cause),
        }
    }

    pub(crate) fn stream(action: &'static str, cause: std::io::Error) -> Self {
        Self::Stream {
            action,
            cause: Arc::new(cause),
        }
    }
}

/// Says what a driver's error means for the user of the store at `place`.
pub(crate) fn sort(place: &str, error: sqlx::Error) -> StoreError {
    let place = place.to_owned();
    let detail = || detail_of(&error);
    match &error {
        sqlx::Error::Database(database) => match (
            database.code().as_deref().unwrap_or(""),
            place.starts_with("sqlite:"),
        ) {
            (code, true) => match code.parse::<i32>().map(|code| code & 0xff) {
                Ok(5 | 6) => StoreError::Busy { place },
                Ok(8) => StoreError::ReadOnly {
                    place,
                    detail: detail(),
                },
                Ok(11) => StoreError::Corrupt {
                    place,
                    detail: detail(),
                },
                Ok(13) => StoreError::DiskFull { place },
                Ok(14) => StoreError::CannotOpen {
                    place,
                    detail: detail(),
                },
                Ok(26) => StoreError::NotADatabase { place },
                _ => StoreError::Engine {
                    place,
                    cause: Arc::new(error),
                },
            },
            ("28P01" | "28000", _) => StoreError::LoginRefused {
                place,
                detail: detail(),
            },
            ("3D000", _) => StoreError::NoSuchDatabase {
                place,
                detail: detail(),
            },
            ("25006" | "42501", _) => StoreError::ReadOnly {
                place,
                detail: detail(),
            },
            ("53100", _) => StoreError::DiskFull { place },
            ("57P01" | "57P02" | "57P03" | "53300", _) => StoreError::Unreachable {
                place,
                detail: detail(),
            },
            ("55P03", _) => StoreError::Busy { place },
            ("XX001" | "XX002", _) => StoreError::Corrupt {
                place,
                detail: detail(),
            },
            _ => StoreError::Engine {
                place,
                cause: Arc::new(error),
            },
        },
        sqlx::Error::Tls(_) => StoreError::Tls {
            place,
            detail: detail(),
        },
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => StoreError::Unreachable {
            place,
            detail: detail(),
        },
        _ => StoreError::Engine {
            place,
            cause: Arc::new(error),
        },
    }
}

/// The words of the cause, without the driver's own preamble.
fn detail_of(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(database) => database.message().to_owned(),
        sqlx::Error::Io(cause) => cause.to_string(),
        sqlx::Error::Tls(cause) => cause.to_string(),
        sqlx::Error::PoolTimedOut => "no connection became free in time".into(),
        other => other.to_string(),
    }
}

/// Whether trying the same transaction again can help: it was rolled back whole, or never arrived.
pub(crate) fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(database) => matches!(
            database.code().as_deref(),
            Some(
                // Serialization failure, deadlock; the server going away or coming up; too many connections.
                "40001" | "40P01" | "57P01" | "57P02" | "57P03" | "53300" | "08006" | "08003" | "08001"
                // SQLITE_BUSY_SNAPSHOT and SQLITE_BUSY_RECOVERY, which the engine's own waiting does not cover.
                | "517" | "261"
            )
        ),
        sqlx::Error::Io(_) => true,
        _ => false,
    }
}

/// Whether SQLite said that another connection holds a lock.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(database) if database.code().as_deref() == Some("5"))
}
