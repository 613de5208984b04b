//! Server support: health checks, periodic retention and partitions, and idempotency keys.

use crate::handles::DatabaseOperations;
use std::time::Duration;

use satiety_store::fleet::QueueFacts;
use satiety_store::idempotency::{Claim, KeyClaim};
use satiety_store::{LogState, Operation, PoolUsage, now_micros};

use crate::EngineError;

/// How long responses are kept for idempotency keys, in microseconds.
const RESPONSE_TTL: i64 = 24 * 60 * 60 * 1_000_000;
/// Time in microseconds after which an attempt without a response counts as lost with its server.
const ATTEMPT_TIMEOUT: i64 = 120 * 1_000_000;
/// Maximum time between two checks whether retention is due.
const CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// Interval at which servers make partitions ahead; afterwards there are at least five days of them.
pub const PARTITIONS_EVERY: Duration = Duration::from_hours(24);

/// A write with an idempotency key: its caller, key and request hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentWrite {
    caller: String,
    key: String,
    request_hash: String,
    holder: String,
}

/// State of a write with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeated {
    /// The first attempt: execute it, then [`DatabaseOperations::store_response`] or
    /// [`DatabaseOperations::release_key`].
    First,
    /// The first attempt is still in progress.
    InProgress,
    /// The key was used for a different request.
    OtherRequest,
    /// The first attempt has completed with this response.
    Answered {
        /// HTTP status code.
        status: u16,
        /// Response body.
        body: String,
    },
}

impl IdempotentWrite {
    /// Identifies a write of this caller under this key; `request` is the full content of the request.
    pub fn new(caller: &str, key: &str, request: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in request {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self {
            caller: caller.to_owned(),
            key: key.to_owned(),
            request_hash: hasher.finalize().to_hex().to_string(),
            holder: uuid::Uuid::now_v7().to_string(),
        }
    }

    fn claim(&self) -> KeyClaim<'_> {
        let now = now_micros();
        KeyClaim {
            caller: &self.caller,
            key: &self.key,
            request_hash: &self.request_hash,
            holder: &self.holder,
            now,
            forget_before: now - RESPONSE_TTL,
            lost_before: now - ATTEMPT_TIMEOUT,
        }
    }
}

/// State of the store as one process sees it.
#[derive(Debug, Clone)]
pub struct StoreTelemetry {
    pub pools: Vec<PoolUsage>,
    pub query_log: LogState,
    /// Cases for workers; absent if they could not be read.
    pub queue: Option<QueueFacts>,
    /// Lag of each replica in seconds; empty if the user may not read it.
    pub replication_lag: Vec<(String, f64)>,
}

impl DatabaseOperations<'_> {
    /// Applies the retention rules periodically while a server runs, starting immediately if due. Only one of
    /// the servers that share a database does the work.
    pub async fn run_retention(self, every: Duration) {
        let interval = (every / 10).clamp(Duration::from_millis(200), CHECK_INTERVAL);
        loop {
            match self.apply_retention_if_due(every).await {
                Ok(Some(retained)) => {
                    let rows: u64 = retained.outcomes.iter().map(|outcome| outcome.rows).sum();
                    tracing::info!(rows, records = retained.expired_records, "retention applied");
                }
                Ok(None) => {}
                Err(error) => tracing::warn!("cannot apply retention: {error}"),
            }
            tokio::time::sleep(interval).await;
        }
    }

    /// Makes partitions ahead periodically while a server runs, also if it applies no retention rules. Opening the
    /// database has made the first ones. One of the servers that share a database makes them; does nothing on SQLite.
    pub async fn keep_partitions_ahead(self, every: Duration) {
        let mut pause = every;
        loop {
            tokio::time::sleep(pause).await;
            pause = every;
            if let Err(error) = self.make_partitions().await {
                tracing::warn!("cannot make partitions ahead: {error}");
                pause = every / 24;
            }
        }
    }

    async fn make_partitions(self) -> Result<(), EngineError> {
        Ok(self.engine.store().await?.make_partitions().await?)
    }

    /// Opens the database and reports the duration of every operation on it, as `read` or `write`.
    pub async fn observe_store(
        self,
        observe: impl Fn(&'static str, Duration) + Send + Sync + 'static,
    ) -> Result<(), EngineError> {
        self.engine
            .store()
            .await?
            .observe(move |operation, took| match operation {
                Operation::Read => observe("read", took),
                Operation::Write => observe("write", took),
                Operation::SlowStatement => observe("slow_statement", took),
            });
        Ok(())
    }

    /// Reports the number of rows of every transaction of the background writers of the database.
    pub async fn observe_batches(
        self,
        observe: impl Fn(&'static str, usize) + Send + Sync + 'static,
    ) -> Result<(), EngineError> {
        self.engine.store().await?.observe_batches(observe);
        Ok(())
    }

    /// State of the store as this process sees it, for metrics.
    pub async fn store_telemetry(self) -> Result<StoreTelemetry, EngineError> {
        let store = self.engine.store().await?;
        Ok(StoreTelemetry {
            pools: store.pool_usage(),
            query_log: store.query_log().state(),
            queue: store.queue_facts().await.ok(),
            // Replicas are those of the operator's server.
            replication_lag: match self.engine.tenant_name() {
                None => store.replication_lag().await.unwrap_or_default(),
                Some(_) => Vec::new(),
            },
        })
    }

    /// Checks that the database is reachable.
    pub async fn ping(self) -> Result<(), EngineError> {
        Ok(self.engine.store().await?.ping().await?)
    }

    /// Looks up the state of a write with an idempotency key.
    pub async fn repeated(self, write: &IdempotentWrite) -> Result<Repeated, EngineError> {
        Ok(
            match self
                .engine
                .store()
                .await?
                .idempotency()
                .claim(&write.claim())
                .await?
            {
                Claim::Ours => Repeated::First,
                Claim::InProgress => Repeated::InProgress,
                Claim::OtherRequest => Repeated::OtherRequest,
                Claim::Answered { status, body } => Repeated::Answered {
                    status: u16::try_from(status).unwrap_or(500),
                    body,
                },
            },
        )
    }

    /// Stores the response for retries of the same write.
    pub async fn store_response(
        self,
        write: &IdempotentWrite,
        status: u16,
        body: &str,
    ) -> Result<(), EngineError> {
        let store = self.engine.store().await?;
        Ok(store
            .idempotency()
            .settle(&write.claim(), i64::from(status), body)
            .await?)
    }

    /// Releases the key after an attempt that changed nothing, so that the write can be retried.
    pub async fn release_key(self, write: &IdempotentWrite) -> Result<(), EngineError> {
        Ok(self
            .engine
            .store()
            .await?
            .idempotency()
            .release(&write.claim())
            .await?)
    }
}
