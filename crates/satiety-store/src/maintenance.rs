//! Coordination of processes that share a store: periodic jobs (retention) that one of them runs, and notices
//! that are sent once.
//!
//! A turn ends with its holder. On PostgreSQL it is an advisory lock of a separate connection, which the
//! server releases as soon as that connection is gone; on SQLite, where all processes are on one machine, it
//! is a row with an expiry. The time of the last completion is stored as well, so that the next process does
//! not repeat the job at once.

use std::time::Duration;

#[cfg(feature = "postgres")]
use sqlx::{Connection as _, PgConnection};

use crate::pool::{Engine, in_transaction};
use crate::sql::{sql, storable};
use crate::{Store, StoreError, now_micros};

/// A turn at a job. Dropping it releases it without marking the job as done.
#[derive(Debug)]
#[must_use = "dropping a turn releases it"]
pub struct Turn {
    store: Store,
    name: String,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    /// Connection that holds the lock.
    #[cfg(feature = "postgres")]
    Lock(Box<PgConnection>),
    /// Holder id in the row.
    Row(String),
}

/// Work that one process does for all that share a store: [`Store::maintenance`].
#[derive(Debug, Clone, Copy)]
pub struct Maintenance<'s>(pub(crate) &'s Store);

impl Maintenance<'_> {
    /// Takes the turn at a job, unless another process has it or the job was done within `every`. On SQLite a
    /// turn expires after `expiry`.
    pub async fn acquire_turn(
        self,
        name: &str,
        every: Duration,
        expiry: Duration,
    ) -> Result<Option<Turn>, StoreError> {
        let hold = match &self.0.pool.engine {
            #[cfg(feature = "postgres")]
            Engine::Postgres(warm) => {
                let classify = |error| crate::error::classify(self.0.place(), error);
                let mut connection = warm.pool().acquire().await.map_err(classify)?;
                if was_done(&mut connection, name, every).await.map_err(classify)? {
                    return Ok(None);
                }
                // Detach the connection first: a locked one must not return to the pool.
                lock(connection.detach(), name, every)
                    .await
                    .map_err(classify)?
                    .map(|connection| Hold::Lock(Box::new(connection)))
            }
            Engine::Sqlite { .. } => {
                let holder = uuid::Uuid::now_v7().simple().to_string();
                self.take_row(name, every, expiry, &holder)
                    .await?
                    .then_some(Hold::Row(holder))
            }
        };
        Ok(hold.map(|hold| Turn {
            store: self.0.clone(),
            name: name.to_owned(),
            hold,
        }))
    }

    async fn take_row(
        self,
        name: &str,
        every: Duration,
        expiry: Duration,
        holder: &str,
    ) -> Result<bool, StoreError> {
        let clock = self.0.pool.clock();
        let take = format!(
            "INSERT INTO chores (name, holder, held_until) VALUES ($1, $2, {clock} + $3)
             ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
             WHERE (chores.held_until IS NULL OR chores.held_until < {clock})
             AND (chores.done_at IS NULL OR chores.done_at + $4 <= {clock})"
        );
        let taken = self
            .0
            .pool
            .execute(sql!(take; name, holder, micros(expiry), micros(every)))
            .await?;
        Ok(taken > 0)
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
        let note = format!(
            "INSERT INTO chores (name, done_at) VALUES ($1, {clock})
             ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at, holder = NULL, held_until = NULL
             WHERE chores.holder IS NULL OR chores.holder = $2",
            clock = self.store.pool.clock()
        );
        let holder = match &self.hold {
            Hold::Row(holder) => holder.as_str(),
            #[cfg(feature = "postgres")]
            Hold::Lock(_) => "",
        };
        self.store.pool.execute(sql!(note; &self.name, holder)).await?;
        self.let_go().await
    }

    /// Releases the turn without marking the job as done, so that another process can take it.
    pub async fn let_go(self) -> Result<(), StoreError> {
        match self.hold {
            // The server releases the lock when the connection ends, cleanly or not.
            #[cfg(feature = "postgres")]
            Hold::Lock(connection) => drop(connection.close().await),
            Hold::Row(holder) => {
                let update = sql!(
                    "UPDATE chores SET holder = NULL, held_until = NULL WHERE name = $1 AND holder = $2";
                    &self.name, &holder
                );
                self.store.pool.execute(update).await?;
            }
        }
        Ok(())
    }
}

/// Takes the lock if it is free and the job is due. The key includes the schema: a database may have several
/// stores.
#[cfg(feature = "postgres")]
async fn lock(
    mut connection: PgConnection,
    name: &str,
    every: Duration,
) -> Result<Option<PgConnection>, sqlx::Error> {
    let locked: bool = sqlx::query_scalar(
        "SELECT pg_try_advisory_lock(hashtextextended('satiety/' || current_schema() || '/' || $1, 0))",
    )
    .bind(storable(name.into()))
    .fetch_one(&mut connection)
    .await?;
    // Check again while holding the lock: the previous holder has recorded its completion by now.
    if locked && !was_done(&mut connection, name, every).await? {
        return Ok(Some(connection));
    }
    connection.close().await?;
    Ok(None)
}

/// Returns true if a job was done within `every`.
#[cfg(feature = "postgres")]
async fn was_done(connection: &mut PgConnection, name: &str, every: Duration) -> Result<bool, sqlx::Error> {
    let lately: Option<i64> = sqlx::query_scalar(
        "SELECT done_at FROM chores WHERE name = $1
         AND done_at + $2 > CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
    )
    .bind(storable(name.into()))
    .bind(micros(every))
    .fetch_optional(connection)
    .await?;
    Ok(lately.is_some())
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
