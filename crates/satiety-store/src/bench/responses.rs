//! Answers of targets under the hash of what was asked.

use super::Bench;
use crate::pool::{in_transaction, reading};
use crate::{StoreError, now_micros, storable};

impl Bench<'_> {
    /// The answer under a key.
    pub async fn response(self, key: &str) -> Result<Option<String>, StoreError> {
        let row: Option<(String,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT body FROM bench_responses WHERE key = $1"
        )
        .bind(key)
        .fetch_optional(connection)
        .await?)?;
        Ok(row.map(|(body,)| body))
    }

    /// Keeps an answer under a key; the first one stays.
    pub async fn put_response(self, key: &str, body: &str) -> Result<(), StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO bench_responses (key, body, created_at) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING",
            )
            .bind(key)
            .bind(storable(body))
            .bind(now)
            .execute(&mut *connection)
            .await?;
        })
    }
}
