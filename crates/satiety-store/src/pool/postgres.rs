//! Connections to PostgreSQL: direct or through a pooler, and to a read replica.
//!
//! A pooler in transaction mode gives a connection to the server to another client after each transaction. A
//! prepared statement of one client can then be executed by another under the same name, so statements have no
//! names there, and each read is a transaction of its own. A direct connection is recognized by a parameter that
//! only the server itself knows after it was sent with the connection request.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::{Connection as _, PgConnection};

use super::StoreOptions;
use super::warm::WarmConnections;
use crate::error::classify;
use crate::partitions::ReplicaStatus;
use crate::sql::{Sql, postgres_query};
use crate::{StoreError, StoreUrl};

/// Timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a connection to the replica, so that readers soon use the primary instead.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for an answer of the replica: a connection whose network was cut does not report it for many minutes.
const REPLICA_ANSWER: Duration = Duration::from_secs(10);
/// Time after a failure for which the replica is not tried.
const REPLICA_PAUSE: Duration = Duration::from_secs(10);
/// Longest interval at which a reader measures how far the replica is behind.
const LAG_CHECK: Duration = Duration::from_secs(10);

/// How connections are pooled between this process and the server: `pooling` in the URL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pooling {
    /// Find out when connecting.
    #[default]
    Auto,
    /// Each connection has a server session of its own, directly or through a pooler in session mode.
    Session,
    /// A pooler assigns server connections to transactions.
    Transaction,
}

impl FromStr for Pooling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "session" => Ok(Self::Session),
            "transaction" => Ok(Self::Transaction),
            other => Err(format!(
                "unknown value `{other}` of `pooling` (expected one of: auto, session, transaction)"
            )),
        }
    }
}

/// Connections to one server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) connections: WarmConnections<sqlx::Postgres>,
    /// Whether a pooler assigns server connections to transactions.
    pub(crate) transaction_pooling: bool,
    /// Statement timeout that each transaction sets, if the session cannot.
    timeout: Option<Duration>,
}

/// A read replica.
#[derive(Debug)]
pub(crate) struct Replica {
    server: Server,
    place: String,
    /// Time until which the primary is used instead.
    failed_until: std::sync::Mutex<Option<(Instant, String)>>,
    /// Lag above which the primary is used instead.
    max_lag: Duration,
    lag: std::sync::Mutex<MeasuredLag>,
    warned: AtomicBool,
}

/// How far a replica was behind when a reader last asked.
#[derive(Debug, Default)]
struct MeasuredLag {
    asked: Option<Instant>,
    /// Time of the last answer, and whether the lag was within the limit.
    answer: Option<(Instant, bool)>,
}

/// Connections to PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct Postgres {
    pub(crate) primary: Server,
    pub(crate) replica: Option<Arc<Replica>>,
    /// Whether reads of this handle may be answered by the replica.
    pub(crate) reads_replica: bool,
}

impl Postgres {
    pub(super) async fn connect(
        options: PgConnectOptions,
        pooling: Pooling,
        place: &str,
        settings: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let primary = Server::connect(options, pooling, place, settings).await?;
        let replica = match &settings.read_url {
            Some(StoreUrl::Postgres {
                options,
                pooling,
                shown,
            }) => Some(Arc::new(Replica::open(options, *pooling, shown, settings))),
            Some(StoreUrl::Sqlite(_)) => {
                return Err(StoreError::InvalidUrl {
                    url: settings
                        .read_url
                        .as_ref()
                        .map(ToString::to_string)
                        .unwrap_or_default(),
                    reason: "a read replica of a PostgreSQL database must be a PostgreSQL database".into(),
                });
            }
            None => None,
        };
        Ok(Self {
            primary,
            replica,
            reads_replica: false,
        })
    }

    /// Reads from the replica if this handle may and it answers, otherwise from the primary.
    pub(super) async fn read(&self, sql: &Sql<'_>) -> Result<Vec<PgRow>, sqlx::Error> {
        if let Some(replica) = self.usable_replica().await {
            match replica.read(sql).await {
                Ok(rows) => return Ok(rows),
                Err(error) => replica.fail(&error),
            }
        }
        self.primary.read(sql).await
    }

    /// The replica, if this handle may use it, it has not failed lately and is not far behind.
    pub(super) async fn usable_replica(&self) -> Option<&Replica> {
        let replica = self.replica.as_deref().filter(|_| self.reads_replica)?;
        let is_usable = replica.problem().is_none() && replica.is_recent().await;
        is_usable.then_some(replica)
    }

    pub(super) async fn replica_status(&self) -> Option<ReplicaStatus> {
        let replica = self.replica.as_ref()?;
        let (lag_seconds, problem) = match replica.measure_lag().await {
            Ok((true, lag)) => (lag, lag.and_then(|lag| replica.too_far_behind(lag))),
            Ok((false, _)) => (None, Some("the server is not a replica".to_owned())),
            Err(error) => (None, Some(classify(&replica.place, error).to_string())),
        };
        Some(ReplicaStatus {
            place: replica.place.clone(),
            lag_seconds,
            problem,
        })
    }

    pub(super) async fn close(&self) {
        self.primary.connections.close().await;
        if let Some(replica) = &self.replica {
            replica.server.connections.close().await;
        }
    }
}

impl Replica {
    /// Connections are opened when they are needed: a replica that is down must not stop a server.
    fn open(options: &PgConnectOptions, pooling: Pooling, place: &str, settings: &StoreOptions) -> Self {
        // Without a connection to ask, a pooler is assumed: that works with and without one.
        let transaction_pooling = pooling != Pooling::Session;
        let server = Server::open(options.clone(), transaction_pooling, settings, REPLICA_TIMEOUT);
        Self {
            server,
            place: place.to_owned(),
            failed_until: std::sync::Mutex::new(None),
            max_lag: settings.max_replica_lag,
            lag: std::sync::Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// Whether the server is a replica, and the seconds that it is behind if it says.
    async fn measure_lag(&self) -> Result<(bool, Option<f64>), sqlx::Error> {
        // A replica that has lost the primary has applied all that it received, too; it has no receiver.
        let lag = "SELECT pg_is_in_recovery(),
            CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()
                     AND EXISTS (SELECT 1 FROM pg_stat_wal_receiver) THEN 0
                 ELSE EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END::double precision";
        let rows = self.read(&crate::sql::sql!(lag)).await?;
        Ok(match rows.first() {
            Some(row) if sqlx::Row::try_get::<bool, _>(row, 0).unwrap_or(false) => {
                (true, sqlx::Row::try_get(row, 1).ok())
            }
            _ => (false, None),
        })
    }

    /// Why a replica with this lag is not used.
    fn too_far_behind(&self, lag: f64) -> Option<String> {
        let most = self.max_lag.as_secs_f64();
        (lag > most).then(|| format!("it is {lag:.0} s behind, more than {most:.0} s"))
    }

    /// Whether the replica is not too far behind. One reader at a time asks it, every few seconds; the others use its
    /// last answer, or the primary if there is none.
    async fn is_recent(&self) -> bool {
        {
            let mut lag = self.lag();
            let every = LAG_CHECK.min(self.max_lag / 6);
            if lag.asked.is_some_and(|asked| asked.elapsed() < every) {
                let answer = lag.answer.filter(|(at, _)| at.elapsed() < self.max_lag);
                return answer.is_some_and(|(_, is_recent)| is_recent);
            }
            lag.asked = Some(Instant::now());
        }
        let problem = match self.measure_lag().await {
            Ok((_, lag)) => lag.and_then(|lag| self.too_far_behind(lag)),
            // A server that cannot say how far it is behind is used, as one that is not a replica.
            Err(sqlx::Error::Database(_)) => None,
            Err(error) => {
                self.fail(&error);
                return false;
            }
        };
        self.lag().answer = Some((Instant::now(), problem.is_none()));
        if let Some(problem) = &problem {
            self.warn(problem);
        }
        problem.is_none()
    }

    fn lag(&self) -> std::sync::MutexGuard<'_, MeasuredLag> {
        self.lag.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) async fn begin(
        &self,
        begin: &str,
    ) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, sqlx::Error> {
        self.server.begin(begin).await
    }

    async fn read(&self, sql: &Sql<'_>) -> Result<Vec<PgRow>, sqlx::Error> {
        let answer = tokio::time::timeout(REPLICA_ANSWER, self.server.read(sql)).await;
        answer.unwrap_or_else(|_| Err(timed_out("no answer", REPLICA_ANSWER)))
    }

    fn problem(&self) -> Option<String> {
        let failed = self
            .failed_until
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        failed
            .as_ref()
            .filter(|(until, _)| Instant::now() < *until)
            .map(|(_, problem)| problem.clone())
    }

    /// Uses the primary for a while.
    pub(super) fn fail(&self, error: &sqlx::Error) {
        let until = Instant::now() + REPLICA_PAUSE;
        *self
            .failed_until
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some((until, error.to_string()));
        self.warn(&error.to_string());
    }

    /// Warns once, because the reason usually stays for a while.
    fn warn(&self, error: &str) {
        if self.warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(
                replica = self.place,
                error,
                "read replica failed, reading from the primary"
            );
        } else {
            tracing::warn!(
                replica = self.place,
                error,
                "read replica failed, reading from the primary"
            );
        }
    }
}

impl Server {
    async fn connect(
        options: PgConnectOptions,
        pooling: Pooling,
        place: &str,
        settings: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let options = basic(options);
        let probed = probe(&options).await.map_err(|error| classify(place, error))?;
        let transaction_pooling = match pooling {
            Pooling::Auto => !probed,
            Pooling::Session => false,
            Pooling::Transaction => true,
        };
        if transaction_pooling {
            tracing::debug!("a pooler is between this process and the server: no prepared statements");
        }
        Ok(Self::open(
            options,
            transaction_pooling,
            settings,
            CONNECT_TIMEOUT,
        ))
    }

    fn open(
        options: PgConnectOptions,
        transaction_pooling: bool,
        settings: &StoreOptions,
        acquire: Duration,
    ) -> Self {
        let mut options = basic(options);
        let timeout = settings.statement_timeout.filter(|timeout| !timeout.is_zero());
        if let (Some(timeout), false) = (timeout, transaction_pooling) {
            options = options.options([("statement_timeout", timeout.as_millis().to_string())]);
        }
        let most = settings.max_connections.max(2);
        let pool = PgPoolOptions::new()
            .max_connections(most)
            .acquire_timeout(acquire)
            .connect_lazy_with(options);
        // The others are for transactions.
        let warm = (most as usize * 3 / 5).max(1);
        Self {
            connections: WarmConnections::new(pool, warm),
            transaction_pooling,
            timeout: timeout.filter(|_| transaction_pooling),
        }
    }

    /// Starts a transaction.
    pub(super) async fn begin(
        &self,
        begin: &str,
    ) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, sqlx::Error> {
        let text = self.begin_text(begin);
        self.connections
            .pool()
            .begin_with(sqlx::AssertSqlSafe(text))
            .await
    }

    fn begin_text(&self, begin: &str) -> String {
        match self.timeout {
            Some(timeout) => format!("{begin}; SET LOCAL statement_timeout = {}", timeout.as_millis()),
            None => begin.to_owned(),
        }
    }

    async fn read(&self, sql: &Sql<'_>) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut warm = self.connections.take().await?;
        let rows = if self.transaction_pooling {
            let begin = sqlx::AssertSqlSafe(self.begin_text("BEGIN READ ONLY"));
            let mut transaction = warm.connection.begin_with(begin).await?;
            let query = postgres_query(sql)?.persistent(false);
            let rows = query.fetch_all(&mut *transaction).await?;
            transaction.commit().await?;
            rows
        } else {
            postgres_query(sql)?.fetch_all(&mut *warm.connection).await?
        };
        self.connections.keep(warm);
        Ok(rows)
    }
}

/// Options of every connection. `extra_float_digits` is for values as text, which are not read, and a pooler
/// refuses it.
fn basic(options: PgConnectOptions) -> PgConnectOptions {
    options.application_name("satiety").extra_float_digits(None)
}

/// Opens a connection and returns true if it leads to the server itself. A pool retries a server that refuses
/// until the timeout and then reports only the timeout; a single connection reports the reason.
async fn probe(options: &PgConnectOptions) -> Result<bool, sqlx::Error> {
    let marked = options.clone().options([("satiety.direct", "yes")]);
    let mut connection = match open_one(&marked).await {
        // A pooler that does not know the parameter: 08P01 is a violation of the protocol.
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("08P01") => {
            let connection = open_one(options).await?;
            let _ = connection.close().await;
            return Ok(false);
        }
        other => other?,
    };
    // As a transaction without a named statement: the connection may lead to a pooler.
    let mut transaction = connection.begin().await?;
    let mark: Option<String> = sqlx::query_scalar("SELECT current_setting('satiety.direct', true)")
        .persistent(false)
        .fetch_one(&mut *transaction)
        .await?;
    transaction.rollback().await?;
    // The connection has served its purpose; errors on closing do not matter.
    let _ = connection.close().await;
    Ok(mark.as_deref() == Some("yes"))
}

async fn open_one(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, PgConnection::connect_with(options)).await;
    opened.unwrap_or_else(|_| Err(timed_out("connection timed out", CONNECT_TIMEOUT)))
}

fn timed_out(what: &str, after: Duration) -> sqlx::Error {
    let text = format!("{what} after {} seconds", after.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}
