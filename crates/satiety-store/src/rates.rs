//! Rate limits that workers share: a row for each limit, changed in short transactions.
//!
//! Nothing depends on a session, so a pooler in transaction mode may be in between. Permits are time slots of
//! the database's clock ([`satiety::bench::rate`]).

use std::time::Duration;

use satiety::bench::rate::{RateBucket, RateLimit, Reservation};

use crate::bench::micros;
use crate::pool::in_transaction;
use crate::sql::{Row, Sql, Value, columns, sql};
use crate::{Store, StoreError};

/// Time after which an unused limit is removed, in microseconds.
const EXPIRED: i64 = 24 * 60 * 60 * 1_000_000;

/// Calls that need permits.
#[derive(Debug, Clone, Copy)]
pub struct PermitRequest<'a> {
    /// Name of the limit: the same for all processes that call the same target.
    pub name: &'a str,
    pub limit: RateLimit,
    /// Maximum number of permits.
    pub count: usize,
    /// Expected tokens of each call.
    pub tokens: f64,
    /// Tokens that earlier calls used beyond their reservation; negative if they used fewer.
    pub owed_tokens: f64,
}

/// Reserved permits with the time of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedReservation {
    /// Time of the database while it handled the request, in microseconds since the Unix epoch.
    pub now: i64,
    pub reservation: Reservation,
}

/// Shared rate limits: [`Store::rates`].
#[derive(Debug, Clone, Copy)]
pub struct Rates<'s>(pub(crate) &'s Store);

impl Rates<'_> {
    /// Reserves permits. The call is not idempotent: permits that a failed call reserved pass unused.
    pub async fn reserve(self, request: &PermitRequest<'_>) -> Result<TimedReservation, StoreError> {
        let pool = &self.0.pool;
        let (name, clock) = (request.name, pool.clock());
        let select = format!(
            "SELECT requests_at, tokens_at, paused_until, {clock} AS now FROM rate_limits WHERE name = $1 {}",
            pool.for_update()
        );
        in_transaction!(pool, |connection| {
            let row = if let Some(row) = connection.row(sql!(select.clone(); name)).await? {
                row
            } else {
                let insert = sql!(
                    "INSERT INTO rate_limits (name, requests_at, tokens_at, paused_until, used_at)
                     VALUES ($1, 0, 0, 0, 0) ON CONFLICT (name) DO NOTHING";
                    name
                );
                connection.execute(insert).await?;
                connection.one(sql!(select.clone(); name)).await?
            };
            let (mut bucket, now) = (bucket(&row)?, row.get("now")?);
            bucket.correct(request.limit, request.owed_tokens);
            let reservation = bucket.reserve(request.limit, now, request.count, request.tokens);
            let update = sql!(
                "UPDATE rate_limits SET requests_at = $2, tokens_at = $3, used_at = $4 WHERE name = $1";
                name, bucket.requests_at, bucket.tokens_at, now
            );
            connection.execute(update).await?;
            TimedReservation { now, reservation }
        })
    }

    /// Lets no process call the target for this time. The longest pause counts.
    pub async fn pause(self, name: &str, pause: Duration) -> Result<(), StoreError> {
        let clock = self.0.pool.clock();
        let upsert = format!(
            "INSERT INTO rate_limits (name, requests_at, tokens_at, paused_until, used_at)
             VALUES ($1, 0, 0, {clock} + $2, {clock})
             ON CONFLICT (name) DO UPDATE SET used_at = excluded.used_at, paused_until = CASE
                 WHEN rate_limits.paused_until > excluded.paused_until THEN rate_limits.paused_until
                 ELSE excluded.paused_until END"
        );
        self.0.pool.execute(sql!(upsert; name, micros(pause))).await?;
        Ok(())
    }

    /// Returns how much longer each of these targets is paused; targets without a pause are left out.
    pub async fn pauses(self, names: &[&str]) -> Result<Vec<(String, Duration)>, StoreError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let clock = self.0.pool.clock();
        let select = Sql::build(&format!(
            "SELECT name, paused_until - {clock} FROM rate_limits WHERE paused_until > {clock} AND name IN "
        ))
        .push_list(names.iter().map(|name| Value::from(*name)));
        let rows = self.0.pool.rows(select).await?;
        let pause = |row: &Row| {
            let left: i64 = row.get(1)?;
            Ok((
                row.get(0)?,
                Duration::from_micros(u64::try_from(left).unwrap_or(0)),
            ))
        };
        rows.iter().map(pause).collect()
    }

    /// Removes limits that nothing has used for a day.
    pub async fn remove_unused(self) -> Result<(), StoreError> {
        let clock = self.0.pool.clock();
        let delete = format!("DELETE FROM rate_limits WHERE used_at < {clock} - $1");
        self.0.pool.execute(sql!(delete; EXPIRED)).await?;
        Ok(())
    }
}

fn bucket(row: &Row) -> Result<RateBucket, StoreError> {
    Ok(columns!(row => RateBucket { requests_at, tokens_at, paused_until }))
}
