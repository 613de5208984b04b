//! Writes that may be sent again: who sends the same key and the same request gets the first answer.

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, storable};

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
            sqlx::query(
                "DELETE FROM idempotency_keys WHERE caller = $1 AND key = $2
                 AND (created_at < $3 OR (status IS NULL AND created_at < $4))",
            )
            .bind(storable(claim.caller))
            .bind(storable(claim.key))
            .bind(claim.forget_before)
            .bind(claim.lost_before)
            .execute(&mut *connection)
            .await?;
            sqlx::query(
                "INSERT INTO idempotency_keys (caller, key, request_hash, holder, status, body, created_at)
                 VALUES ($1, $2, $3, $4, NULL, NULL, $5) ON CONFLICT (caller, key) DO NOTHING",
            )
            .bind(storable(claim.caller))
            .bind(storable(claim.key))
            .bind(claim.request_hash)
            .bind(claim.holder)
            .bind(claim.now)
            .execute(&mut *connection)
            .await?;
        })?;
        let found: Option<(String, String, Option<i64>, Option<String>)> = reading!(
            &self.0.pool,
            |connection| {
                sqlx::query_as(
                "SELECT request_hash, holder, status, body FROM idempotency_keys WHERE caller = $1 AND key = $2"
            )
            .bind(storable(claim.caller))
            .bind(storable(claim.key))
            .fetch_optional(connection)
            .await?
            }
        )?;
        Ok(match found {
            Some((_, holder, None, _)) if holder == claim.holder => Claim::Ours,
            Some((hash, ..)) if hash != claim.request_hash => Claim::OtherRequest,
            Some((_, _, Some(status), body)) => Claim::Answered {
                status,
                body: body.unwrap_or_default(),
            },
            // None: the one who held it failed and gave it back just now; who comes again will get it.
            Some(_) | None => Claim::UnderWay,
        })
    }

    /// Keeps the answer under the key.
    pub async fn settle(self, claim: &KeyClaim<'_>, status: i64, body: &str) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "UPDATE idempotency_keys SET status = $4, body = $5 WHERE caller = $1 AND key = $2 AND holder = $3",
            )
            .bind(storable(claim.caller))
            .bind(storable(claim.key))
            .bind(claim.holder)
            .bind(status)
            .bind(storable(body))
            .execute(&mut *connection)
            .await?;
        })
    }

    /// Gives the key back: nothing was done, so the request may be tried again.
    pub async fn release(self, claim: &KeyClaim<'_>) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query("DELETE FROM idempotency_keys WHERE caller = $1 AND key = $2 AND holder = $3")
                .bind(storable(claim.caller))
                .bind(storable(claim.key))
                .bind(claim.holder)
                .execute(&mut *connection)
                .await?;
        })
    }
}
