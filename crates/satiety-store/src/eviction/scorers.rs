//! Scorer versions, their activation log, and cached ratings of scorer models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Eviction;
use crate::pool::in_transaction;
use crate::sql::{Row, columns, sql};
use crate::{StoreError, now_micros};

/// A scorer version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScorerRow {
    pub version: String,
    /// `weights`, `prompt` or `online`.
    pub variant: String,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Complete scorer as JSON.
    pub body: String,
    /// Fit statistics as JSON.
    pub fit: Option<String>,
}

/// Log entry of an activation or rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivationRow {
    /// Id of the activation.
    pub activation_id: String,
    /// Version that became active.
    pub version: String,
    /// Version that was active before.
    pub previous: String,
    /// Either `activate` or `rollback`.
    pub action: String,
    /// Id of the ablation that permits it; absent for a rollback.
    pub ablation_id: Option<String>,
    /// Name of the person who did it.
    pub activated_by: String,
    /// Reason given for the change.
    pub reason: String,
    /// Time in microseconds since the Unix epoch.
    pub activated_at: i64,
}

impl Eviction<'_> {
    /// Stores a scorer version; returns whether it is new. A version never changes.
    pub async fn put_scorer(self, row: &ScorerRow) -> Result<bool, StoreError> {
        let insert = sql!(
            "INSERT INTO eviction_scorers (version, variant, created_at, body, fit) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (version) DO NOTHING";
            &row.version, &row.variant, row.created_at, &row.body, &row.fit
        );
        let made = self.0.pool.execute(insert).await?;
        Ok(made == 1)
    }

    /// Lists scorer versions, newest first.
    pub async fn scorers(self, limit: u32) -> Result<Vec<ScorerRow>, StoreError> {
        let select = sql!(
            "SELECT version, variant, created_at, body, fit FROM eviction_scorers
             ORDER BY created_at DESC, version DESC LIMIT $1";
            limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(scorer).collect()
    }

    /// Returns a scorer version.
    pub async fn scorer(self, version: &str) -> Result<Option<ScorerRow>, StoreError> {
        let select = sql!(
            "SELECT version, variant, created_at, body, fit FROM eviction_scorers WHERE version = $1";
            version
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(scorer).transpose()
    }

    /// Activates a version; returns false if the active version is no longer `row.previous`. `none` is the
    /// active version while there are no activations.
    pub async fn activate_scorer(self, row: &ActivationRow, none: &str) -> Result<bool, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            if self.0.pool.is_postgres() {
                // Two concurrent activations must not see the same predecessor; SQLite has a single writer
                // anyway.
                connection
                    .execute_raw("LOCK TABLE eviction_activations IN SHARE ROW EXCLUSIVE MODE")
                    .await?;
            }
            let select = sql!(
                "SELECT activation_id, version FROM eviction_activations
                 ORDER BY activated_at DESC, activation_id DESC LIMIT 1"
            );
            let last = connection.row(select).await?;
            let (id, version) = match last {
                Some(row) => (row.get(0)?, row.get(1)?),
                None => (String::new(), none.to_owned()),
            };
            if id == row.activation_id {
                true
            } else if version == row.previous {
                let insert = sql!(
                    "INSERT INTO eviction_activations (activation_id, version, previous, action, ablation_id, activated_by,
                     reason, activated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
                    &row.activation_id, &row.version, &row.previous, &row.action, &row.ablation_id,
                    &row.activated_by, &row.reason, row.activated_at
                );
                connection.execute(insert).await?;
                true
            } else {
                false
            }
        })
    }

    /// Returns the activation log, most recent first.
    pub async fn activations(self, limit: u32) -> Result<Vec<ActivationRow>, StoreError> {
        let select = sql!(
            "SELECT activation_id, version, previous, action, ablation_id, activated_by, reason, activated_at
             FROM eviction_activations ORDER BY activated_at DESC, activation_id DESC LIMIT $1";
            limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            Ok(columns!(row => ActivationRow {
                activation_id, version, previous, action, ablation_id, activated_by, reason, activated_at
            }))
        };
        rows.iter().map(row).collect()
    }

    /// Caches a scorer model's rating of a content.
    pub async fn put_opinion(self, key: &str, model: &str, relevance: f64) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO eviction_opinions (key, model, relevance, created_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (key) DO NOTHING";
            key, model, relevance, now_micros()
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Returns a cached rating of a content.
    pub async fn opinion(self, key: &str) -> Result<Option<f64>, StoreError> {
        let select = sql!("SELECT relevance FROM eviction_opinions WHERE key = $1"; key);
        let found = self.0.pool.row(select).await?;
        found.map(|row| row.get(0)).transpose()
    }
}

fn scorer(row: &Row) -> Result<ScorerRow, StoreError> {
    Ok(columns!(row => ScorerRow { version, variant, created_at, body, fit }))
}
