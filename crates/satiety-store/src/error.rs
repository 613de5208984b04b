//! Errors of the store, classified so that a user can act on them.
//!
//! Driver errors are classified here, once; no other crate inspects the error codes of a driver.

use std::path::PathBuf;
use std::sync::Arc;

use satiety::Hint;

/// An error of the store. Every variant says where, and [`StoreError::hint`] what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The URL is not a valid store URL.
    #[error("invalid store URL `{url}`: {reason}")]
    InvalidUrl {
        /// URL as given, password masked.
        url: String,
        reason: String,
    },
    /// The URL names an engine that is not compiled in.
    #[error("cannot open {url}: this build has no PostgreSQL support")]
    UnsupportedEngine {
        /// URL as given, password masked.
        url: String,
    },
    /// The file exists but is not a SQLite database.
    #[error("{place} is not a Satiety store: the file is not a SQLite database")]
    NotADatabase { place: String },
    /// The database belongs to another program.
    #[error("{place} is not a Satiety store: it has tables of another program ({tables})")]
    ForeignDatabase { place: String, tables: String },
    /// The engine detected corruption.
    #[error("{place} is damaged: {detail}")]
    Corrupt {
        place: String,
        /// Message of the engine.
        detail: String,
    },
    /// Writing is not permitted.
    #[error("cannot write to {place}: {detail}")]
    ReadOnly {
        place: String,
        /// File or directory, or the message of the engine.
        detail: String,
    },
    /// The disk or the quota is full.
    #[error("cannot write to {place}: no space left (existing data is intact)")]
    DiskFull { place: String },
    /// The file or its directory cannot be opened.
    #[error("cannot open {place}: {detail}")]
    CannotOpen { place: String, detail: String },
    /// The server rejected the user or the password.
    #[error("cannot log in to {place}: {detail}")]
    LoginRefused {
        place: String,
        /// Message of the server.
        detail: String,
    },
    /// The server has no such database.
    #[error("{place} does not exist: {detail}")]
    NoSuchDatabase {
        place: String,
        /// Message of the server.
        detail: String,
    },
    /// The server is unreachable, or the connection was lost.
    #[error("cannot reach {place}: {detail}")]
    Unreachable { place: String, detail: String },
    /// Encrypted transport is required but unavailable.
    #[error("cannot establish a secure connection to {place}: {detail}")]
    Tls { place: String, detail: String },
    /// Another process held the lock for longer than the busy timeout.
    #[error("{place} is locked: another process holds the write lock (timeout)")]
    Busy { place: String },
    /// The schema is newer than this program.
    #[error("{place} has schema version {found}, but this program supports versions up to {known}")]
    NewerSchema {
        place: String,
        /// Schema version of the store.
        found: i64,
        /// Latest version that this program supports.
        known: i64,
    },
    /// The schema is older than required.
    #[error("{place} has schema version {found}, but version {known} is required")]
    OlderSchema {
        place: String,
        /// Schema version of the store.
        found: i64,
        /// Version that this program requires.
        known: i64,
    },
    /// An applied migration differs from the one with the same number in this program.
    #[error("{place}: migration {version} ({name}) differs from the one that was applied")]
    ForeignMigration {
        place: String,
        version: i64,
        /// Name in this program.
        name: String,
    },
    #[error("{what} already exists")]
    AlreadyExists { what: String },
    /// The store does not exist and must not be created.
    #[error("store {place} not found")]
    NoStore { place: String },
    #[error("{what} not found")]
    NotFound { what: String },
    /// A line of an import is invalid; the import was rolled back.
    #[error("cannot import line {line}: {reason}")]
    Import {
        /// Line number, from 1.
        line: u64,
        reason: String,
    },
    /// The import has a constitutional memory without confirmation by a person; it was rolled back.
    #[error("cannot import line {line}: a constitutional memory needs confirmation by a person")]
    ConstitutionalMemory {
        /// Line number, from 1.
        line: u64,
    },
    /// The target of an import is not empty.
    #[error("{place} is not empty: table `{table}` has rows")]
    NotEmpty {
        place: String,
        /// First table with rows.
        table: String,
    },
    /// An archive, export or backup file cannot be written or read.
    #[error("{action} {path}: {cause}", path = path.display())]
    File {
        /// Failed action, such as "cannot write".
        action: &'static str,
        path: PathBuf,
        cause: Arc<std::io::Error>,
    },
    /// A stream of the caller cannot be read or written.
    #[error("cannot {action}: {cause}")]
    Stream {
        /// Failed action, such as "write the export".
        action: &'static str,
        cause: Arc<std::io::Error>,
    },
    /// A stored value cannot be parsed.
    #[error("cannot parse {what} in {place}: {detail}")]
    Unreadable {
        place: String,
        what: String,
        detail: String,
    },
    /// Invalid retention rule.
    #[error("invalid retention rule `{rule}`: {reason}")]
    InvalidRule {
        /// Rule as given.
        rule: String,
        reason: String,
    },
    /// Any other error of the engine.
    #[error("{place}: {cause}")]
    Engine {
        place: String,
        /// Error of the driver.
        cause: Arc<sqlx::Error>,
    },
}

impl StoreError {
    /// Suggested action.
    pub fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::InvalidUrl { .. } => Hint::new(
                "use `sqlite:PATH` for a file or `postgres://user:password@host/database` for a server",
            ),
            Self::UnsupportedEngine { .. } => {
                Hint::new("build with `--features postgres`, or use `sqlite:PATH`")
            }
            Self::NotADatabase { .. } | Self::ForeignDatabase { .. } => {
                Hint::with_command("this file was not changed; use another one", "--db sqlite:PATH")
            }
            Self::Corrupt { .. } => Hint::with_command(
                "restore a backup, or recover readable data",
                "sqlite3 FILE .recover",
            ),
            Self::ReadOnly { .. } => Hint::with_command(
                "make the file and its directory writable, or use another store",
                "--db URL",
            ),
            Self::DiskFull { .. } => Hint::with_command(
                "free disk space or delete expired data, then retry",
                "satiety db retain",
            ),
            Self::CannotOpen { .. } => Hint::with_command(
                "check that the directory exists and is readable and writable, or use another store",
                "--db URL",
            ),
            Self::LoginRefused { .. } => Hint::with_command(
                "check user and password in the store URL (SATIETY_STORE_URL or `store.url`)",
                "--db URL",
            ),
            Self::NoSuchDatabase { .. } => {
                Hint::new("create it with `createdb`, or correct the name at the end of the URL")
            }
            Self::Unreachable { .. } => Hint::new(
                "check host and port in the store URL, and that the server is running and accepts connections from here",
            ),
            Self::Tls { .. } => Hint::new(
                "set `sslmode` and `sslrootcert` in the URL to match the server (disable, require, verify-full)",
            ),
            Self::Busy { .. } => Hint::new("retry; if it stays locked, look for a stuck `satiety` process"),
            Self::NewerSchema { .. } => Hint::with_command(
                "this store was not changed; update satiety, or use another store",
                "--db URL",
            ),
            Self::NoStore { .. } => {
                Hint::with_command("use another store, or create this one", "satiety db migrate")
            }
            Self::OlderSchema { .. } => Hint::with_command("migrate the store", "satiety db migrate"),
            Self::ForeignMigration { .. } => Hint::new(
                "this store was written by a different build; export it with that build and import it with this one",
            ),
            Self::Import { .. } => Hint::new("nothing was imported; correct the file and retry"),
            Self::ConstitutionalMemory { .. } => Hint::new(
                "nothing was imported; import the export as a file from a terminal and confirm it there",
            ),
            Self::NotEmpty { .. } => Hint::with_command("import into a new store", "--db sqlite:NEW.db"),
            Self::InvalidRule { .. } => {
                Hint::new("write SUBJECT=DAYSd:ACTION, for example `journal=90d:archive`, or SUBJECT=keep")
            }
            Self::AlreadyExists { .. }
            | Self::NotFound { .. }
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

/// Classifies a driver error for the user of the store at `place`.
pub(crate) fn classify(place: &str, error: sqlx::Error) -> StoreError {
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
            // Class 08 are connection exceptions: a pooler reports a server that is down as 08P01.
            ("57P01" | "57P02" | "57P03" | "53300" | "08001" | "08003" | "08006" | "08P01", _) => {
                StoreError::Unreachable {
                    place,
                    detail: detail(),
                }
            }
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

/// Returns the message of the cause without the driver's prefix.
fn detail_of(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(database) => database.message().to_owned(),
        sqlx::Error::Io(cause) => cause.to_string(),
        sqlx::Error::Tls(cause) => cause.to_string(),
        sqlx::Error::PoolTimedOut => "timeout while waiting for a connection".into(),
        other => other.to_string(),
    }
}

/// Returns true if retrying the transaction can help: it was rolled back completely, or never arrived.
pub(crate) fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(database) => matches!(
            database.code().as_deref(),
            Some(
                // Serialization failure, deadlock; server shutting down or starting; too many connections;
                // connection lost, also between a pooler and the server.
                "40001" | "40P01" | "57P01" | "57P02" | "57P03" | "53300" | "08006" | "08003" | "08001"
                | "08P01"
                // SQLITE_BUSY_SNAPSHOT and SQLITE_BUSY_RECOVERY, which the engine's busy timeout does not
                // cover.
                | "517" | "261"
            )
        ),
        sqlx::Error::Io(_) => true,
        _ => false,
    }
}

/// Returns true if SQLite reports that another connection holds a lock.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(database) if database.code().as_deref() == Some("5"))
}
