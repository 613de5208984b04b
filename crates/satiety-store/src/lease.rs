//! Leases on named jobs: rows with an expiry that the holder renews while it works.
//!
//! Rows instead of session locks, because a connection pooler gives a session to another process after each
//! transaction. Times use the clock of the database engine. A holder that is killed loses the job after the
//! expiry at the latest.

use std::time::Duration;

use crate::StoreError;
use crate::pool::Pool;
use crate::sql::sql;

/// A held lease. Dropping it releases it in the background without marking the job as done.
#[derive(Debug)]
pub(crate) struct JobLease {
    pool: Pool,
    name: String,
    holder: String,
    heartbeat: tokio::task::JoinHandle<()>,
    released: bool,
}

impl JobLease {
    /// Takes the lease, unless another process holds it or the job was done within `every`. It expires
    /// `expiry` after the last heartbeat.
    pub(crate) async fn take(
        pool: &Pool,
        name: &str,
        every: Duration,
        expiry: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let holder = uuid::Uuid::now_v7().simple().to_string();
        let clock = pool.clock();
        // The holder's own row counts as free: an attempt whose connection was lost may have taken the lease.
        let take = format!(
            "INSERT INTO chores (name, holder, held_until) VALUES ($1, $2, {clock} + $3)
             ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
             WHERE (chores.held_until IS NULL OR chores.held_until < {clock} OR chores.holder = excluded.holder)
             AND (chores.done_at IS NULL OR chores.done_at + $4 <= {clock})"
        );
        let taken = pool
            .execute(sql!(take; name, &holder, micros(expiry), micros(every)))
            .await?;
        if taken == 0 {
            return Ok(None);
        }
        let heartbeat = tokio::spawn(renew(pool.clone(), name.to_owned(), holder.clone(), expiry));
        Ok(Some(Self {
            pool: pool.clone(),
            name: name.to_owned(),
            holder,
            heartbeat,
            released: false,
        }))
    }

    /// Marks the job as done and releases the lease.
    pub(crate) async fn done(mut self) -> Result<(), StoreError> {
        self.heartbeat.abort();
        let note = format!(
            "INSERT INTO chores (name, done_at) VALUES ($1, {clock})
             ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at, holder = NULL, held_until = NULL
             WHERE chores.holder IS NULL OR chores.holder = $2",
            clock = self.pool.clock()
        );
        self.pool.execute(sql!(note; &self.name, &self.holder)).await?;
        self.released = true;
        Ok(())
    }

    /// Releases the lease without marking the job as done.
    pub(crate) async fn release(mut self) -> Result<(), StoreError> {
        self.heartbeat.abort();
        release(&self.pool, &self.name, &self.holder).await?;
        self.released = true;
        Ok(())
    }
}

impl Drop for JobLease {
    fn drop(&mut self) {
        self.heartbeat.abort();
        let runtime = tokio::runtime::Handle::try_current();
        if let (false, Ok(runtime)) = (self.released, runtime) {
            let (pool, name, holder) = (self.pool.clone(), self.name.clone(), self.holder.clone());
            runtime.spawn(async move {
                // If it fails, the lease expires.
                let _ = release(&pool, &name, &holder).await;
            });
        }
    }
}

async fn release(pool: &Pool, name: &str, holder: &str) -> Result<(), StoreError> {
    // A job that was never done leaves no row.
    let delete = sql!(
        "DELETE FROM chores WHERE name = $1 AND holder = $2 AND done_at IS NULL";
        name, holder
    );
    if pool.execute(delete).await? == 0 {
        let update = sql!(
            "UPDATE chores SET holder = NULL, held_until = NULL WHERE name = $1 AND holder = $2";
            name, holder
        );
        pool.execute(update).await?;
    }
    Ok(())
}

/// Extends the lease until the task is aborted or the lease is lost.
async fn renew(pool: Pool, name: String, holder: String, expiry: Duration) {
    let extend = format!(
        "UPDATE chores SET held_until = {clock} + $3 WHERE name = $1 AND holder = $2",
        clock = pool.clock()
    );
    loop {
        tokio::time::sleep(expiry / 3).await;
        match pool
            .execute(sql!(extend.clone(); &name, &holder, micros(expiry)))
            .await
        {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(job = name, "cannot renew the lease: {error}"),
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
