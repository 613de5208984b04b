//! Cached responses of targets, keyed by the hash of the request.

use super::Bench;
use crate::sql::sql;
use crate::{StoreError, now_micros};

impl Bench<'_> {
    /// Returns the response under a key.
    pub async fn response(self, key: &str) -> Result<Option<String>, StoreError> {
        let row = self
            .0
            .pool
            .row(sql!("SELECT body FROM bench_responses WHERE key = $1"; key))
            .await?;
        row.map(|row| row.get(0)).transpose()
    }

    /// Stores a response under a key; an existing one is kept.
    pub async fn put_response(self, key: &str, body: &str) -> Result<(), StoreError> {
        let now = now_micros();
        let insert = sql!(
            "INSERT INTO bench_responses (key, body, created_at) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING";
            key, body, now
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }
}
