//! What a server needs of the store beside the use cases: whether it is there, and writes that may be sent again.

use crate::handles::DatabaseOperations;
use std::time::Duration;

use satiety_store::idempotency::{Claim, KeyClaim};
use satiety_store::{Operation, now_micros};

use crate::EngineError;

/// How long an answer is kept for who sends the same write again.
const KEPT: i64 = 24 * 60 * 60 * 1_000_000;
/// Work without an answer for so long was lost with its server.
const LOST: i64 = 120 * 1_000_000;
/// How long a server waits at most before it looks again whether a chore is due.
const LOOK: Duration = Duration::from_mins(5);

/// A write that may be sent again: whose it is, its key, and what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeatable {
    caller: String,
    key: String,
    request_hash: String,
    holder: String,
}

/// What is known about a write that comes with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeated {
    /// It is the first: carry it out, then [`DatabaseOperations::keep_answer`] or [`DatabaseOperations::forget_attempt`].
    First,
    /// The first is still being carried out.
    UnderWay,
    /// The key was used for another request.
    OtherRequest,
    /// This was the answer.
    Answered {
        /// Its status.
        status: u16,
        /// Its body.
        body: String,
    },
}

impl Repeatable {
    /// A write of this caller under this key; `request` is everything that it asks for.
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
            forget_before: now - KEPT,
            lost_before: now - LOST,
        }
    }
}

impl DatabaseOperations<'_> {
    /// Carries out the retention rules every so often, for as long as a server runs: now, if it is due, and whenever it is.
    /// Of all servers on a store one does it.
    pub async fn serve_retention(self, every: Duration) {
        let look = (every / 10).clamp(Duration::from_millis(200), LOOK);
        loop {
            match self.retain_in_turn(every).await {
                Ok(Some(retained)) => {
                    let rows: u64 = retained.outcomes.iter().map(|outcome| outcome.rows).sum();
                    tracing::info!(
                        rows,
                        records = retained.expired_records,
                        "retention was carried out"
                    );
                }
                Ok(None) => {}
                Err(error) => tracing::warn!("retention could not be carried out: {error}"),
            }
            tokio::time::sleep(look).await;
        }
    }

    /// Opens the store and has everything that is done with it measured: `read` or `write`, and how long it took.
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
            });
        Ok(())
    }

    /// Whether the store answers.
    pub async fn ping(self) -> Result<(), EngineError> {
        Ok(self.engine.store().await?.ping().await?)
    }

    /// What is known about a write that comes with a key.
    pub async fn repeated(self, write: &Repeatable) -> Result<Repeated, EngineError> {
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
                Claim::UnderWay => Repeated::UnderWay,
                Claim::OtherRequest => Repeated::OtherRequest,
                Claim::Answered { status, body } => Repeated::Answered {
                    status: u16::try_from(status).unwrap_or(500),
                    body,
                },
            },
        )
    }

    /// Keeps the answer for who asks again.
    pub async fn keep_answer(self, write: &Repeatable, status: u16, body: &str) -> Result<(), EngineError> {
        let store = self.engine.store().await?;
        Ok(store
            .idempotency()
            .settle(&write.claim(), i64::from(status), body)
            .await?)
    }

    /// Nothing was done, so the write may be tried again.
    pub async fn forget_attempt(self, write: &Repeatable) -> Result<(), EngineError> {
        Ok(self
            .engine
            .store()
            .await?
            .idempotency()
            .release(&write.claim())
            .await?)
    }
}
