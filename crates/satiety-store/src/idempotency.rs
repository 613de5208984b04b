//! Writes that may be sent again: who sends the same key and the same request gets the first answer.

use crate::pool::in_transaction;
use crate::sql::sql;
use crate::{Store, StoreError};

/// What is known about a key when somebody comes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is ours: do the work and call [`Idempotency::settle`] or [`Idempotency::release`].
    Ours,
    /// Somebody is at it.
    UnderWay,
    /// It was used for another request.
    OtherRequest,
    /// This was the answer.
    Answered {
        /// The status.
        status: i64,
        /// The body.
        body: String,
    },
}

/// A key that is about to be used.
#[derive(Debug, Clone, Copy)]
pub struct KeyClaim<'a> {
    /// Whose key it is: two callers may choose the same one.
    pub caller: &'a str,
    /// The key.
    pub key: &'a str,
    /// The hash of the request.
    pub request_hash: &'a str,
    /// Who does the work; different for each attempt.
    pub holder: &'a str,
    /// The present moment.
    pub now: i64,
    /// Keys older than this are forgotten.
    pub forget_before: i64,
    /// Work that began before this and has no answer is taken to be lost.
    pub lost_before: i64,
}

/// The idempotency keys of the server: [`Store::idempotency`].
#[derive(Debug, Clone, Copy)]
pub struct Idempotency<'s>(pub(crate) &'s Store);

impl Idempotency<'_> {
    /// Takes a key, or says what became of it.
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
        // The one who held it failed and gave it back just now; who comes again will get it.
        let Some(row) = found else {
            return Ok(Claim::UnderWay);
        };
        let (hash, holder, status): (String, String, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(match status {
            None if holder == claim.holder => Claim::Ours,
            _ if hash != claim.request_hash => Claim::OtherRequest,
            Some(status) => Claim::Answered {
                status,
                body: row.get::<Option<String>>(3)?.unwrap_or_default(),
            },
            None => Claim::UnderWay,
        })
    }

    /// Keeps the answer under the key.
    pub async fn settle(self, claim: &KeyClaim<'_>, status: i64, body: &str) -> Result<(), StoreError> {
        let update = sql!(
            "UPDATE idempotency_keys SET status = $4, body = $5 WHERE caller = $1 AND key = $2 AND holder = $3";
            claim.caller, claim.key, claim.holder, status, body
        );
        self.0.pool.execute(update).await?;
        Ok(())
    }

    /// Gives the key back: nothing was done, so the request may be tried again.
    pub async fn release(self, claim: &KeyClaim<'_>) -> Result<(), StoreError> {
        let delete = sql!(
            "DELETE FROM idempotency_keys WHERE caller = $1 AND key = $2 AND holder = $3";
            claim.caller, claim.key, claim.holder
        );
        self.0.pool.execute(delete).await?;
        Ok(())
    }
}
