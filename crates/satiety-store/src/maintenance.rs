//! Coordination of processes that share a store: periodic jobs (retention) that one of them runs, and notices
//! that are sent once.
//!
//! A turn is a lease that its holder renews; a killed holder loses it after the expiry. The time of the last
//! completion is stored as well, so that the next process does not repeat the job at once.

use std::time::Duration;

use crate::lease::JobLease;
use crate::pool::in_transaction;
use crate::sql::{sql, storable};
use crate::{Store, StoreError, now_micros};

/// A turn at a job. Dropping it releases it without marking the job as done.
#[derive(Debug)]
#[must_use = "dropping a turn releases it"]
pub struct Turn(JobLease);

/// Work that one process does for all that share a store: [`Store::maintenance`].
#[derive(Debug, Clone, Copy)]
pub struct Maintenance<'s>(pub(crate) &'s Store);

impl Maintenance<'_> {
    /// Takes the turn at a job, unless another process has it or the job was done within `every`. If the
    /// holder stops renewing it, it expires after `expiry`.
    pub async fn acquire_turn(
        self,
        name: &str,
        every: Duration,
        expiry: Duration,
    ) -> Result<Option<Turn>, StoreError> {
        let lease = JobLease::take(&self.0.pool, name, every, expiry).await?;
        Ok(lease.map(Turn))
    }

    /// Returns true for the first caller that claims the notice about a subject; only that caller sends it.
    /// Claim before sending: of two callers one sends, and if that one crashes in between, the notice is
    /// lost.
    pub async fn claim_notice(self, subject: &str, teller: &str) -> Result<bool, StoreError> {
        let now = now_micros();
        let first = in_transaction!(&self.0.pool, |connection| {
            let insert = sql!(
                "INSERT INTO notices (subject, teller, told_at) VALUES ($1, $2, $3)
                 ON CONFLICT (subject) DO NOTHING";
                subject, teller, now
            );
            connection.execute(insert).await?;
            connection
                .row(sql!("SELECT teller FROM notices WHERE subject = $1"; subject))
                .await?
        })?;
        match first {
            Some(row) => Ok(row.get::<String>(0)? == storable(teller.into())),
            None => Ok(false),
        }
    }
}

impl Turn {
    /// Marks the job as done and releases the turn.
    pub async fn done(self) -> Result<(), StoreError> {
        self.0.done().await
    }

    /// Releases the turn without marking the job as done, so that another process can take it.
    pub async fn let_go(self) -> Result<(), StoreError> {
        self.0.release().await
    }
}
