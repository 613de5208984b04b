//! Idempotency keys: a repeated write with the same key and request gets the first response.

use crate::pool::in_transaction;
use crate::sql::sql;
use crate::{Store, StoreError};

/// State of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Claimed by this call: do the work, then [`Idempotency::settle`] or [`Idempotency::release`].
    Ours,
    /// Another attempt is in progress.
    InProgress,
    /// The key was used for a different request.
    OtherRequest,
    /// The first attempt has completed with this response.
    Answered { status: i64, body: String },
}

/// A claim to an idempotency key.
#[derive(Debug, Clone, Copy)]
pub struct KeyClaim<'a> {
    /// Caller that owns the key: two callers may choose the same one.
    pub caller: &'a str,
    pub key: &'a str,
    pub request_hash: &'a str,
    /// Unique id of the attempt.
    pub holder: &'a str,
    /// Current time in microseconds since the Unix epoch.
    pub now: i64,
    /// Keys older than this are deleted.
    pub forget_before: i64,
    /// Attempts without a response that started before this are considered lost.
    pub lost_before: i64,
}

/// The idempotency keys of the server: [`Store::idempotency`].
#[derive(Debug, Clone, Copy)]
pub struct Idempotency<'s>(pub(crate) &'s Store);

impl Idempotency<'_> {
    /// Claims a key, or returns its state.
    pub async fn claim(self, claim: &KeyClaim<'_>) -> Result<Claim, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let delete = sql!(
                "DELETE FROM idempotency_keys WHERE caller = $1 AND key = $2
                 AND (created_at < $3 OR (status IS NULL AND created_at < $4))";
                claim.caller, claim.key, claim.forget_before, claim.lost_before
            );
            connection.execute(delete).await?;
            let insert = sql!(
                "INSERT INTO idempotency_keys (caller, key, request_hash, holder, status, body, created_at)
                 VALUES ($1, $2, $3, $4, NULL, NULL, $5) ON CONFLICT (caller, key) DO NOTHING";
                claim.caller, claim.key, claim.request_hash, claim.holder, claim.now
            );
            connection.execute(insert).await?;
        })?;
        let select = sql!(
            "SELECT request_hash, holder, status, body FROM idempotency_keys WHERE caller = $1 AND key = $2";
            claim.caller, claim.key
        );
        let found = self.0.pool.row(select).await?;
        // The previous holder has just released the key; the next attempt will get it.
        let Some(row) = found else {
            return Ok(Claim::InProgress);
        };
        let (hash, holder, status): (String, String, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(match status {
            None if holder == claim.holder => Claim::Ours,
            _ if hash != claim.request_hash => Claim::OtherRequest,
            Some(status) => Claim::Answered {
                status,
                body: row.get::<Option<String>>(3)?.unwrap_or_default(),
            },
            None => Claim::InProgress,
        })
    }

    /// Stores the response under the key.
    pub async fn settle(self, claim: &KeyClaim<'_>, status: i64, body: &str) -> Result<(), StoreError> {
        let update = sql!(
            "UPDATE idempotency_keys SET status = $4, body = $5 WHERE caller = $1 AND key = $2 AND holder = $3";
            claim.caller, claim.key, claim.holder, status, body
        );
        self.0.pool.execute(update).await?;
        Ok(())
    }

    /// Releases the key after an attempt that changed nothing, so that the request can be retried.
    pub async fn release(self, claim: &KeyClaim<'_>) -> Result<(), StoreError> {
        let delete = sql!(
            "DELETE FROM idempotency_keys WHERE caller = $1 AND key = $2 AND holder = $3";
            claim.caller, claim.key, claim.holder
        );
        self.0.pool.execute(delete).await?;
        Ok(())
    }
}
