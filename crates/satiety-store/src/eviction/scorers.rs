//! Versions of the scorer, which was in force when, and opinions of scorer models that need not be paid for twice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Eviction;
use crate::pool::in_transaction;
use crate::sql::{Row, columns, sql};
use crate::{StoreError, now_micros};

/// A version of the scorer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScorerRow {
    /// Its name.
    pub version: String,
    /// `weights`, `prompt` or `online`.
    pub variant: String,
    /// When it was made, in microseconds.
    pub created_at: i64,
    /// All of it, as JSON.
    pub body: String,
    /// How it was fitted, as JSON.
    pub fit: Option<String>,
}

/// A version that was put into force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivationRow {
    /// Its id.
    pub activation_id: String,
    /// The version.
    pub version: String,
    /// What was in force before.
    pub previous: String,
    /// `activate` or `rollback`.
    pub action: String,
    /// The ablation that permits it; a rollback needs none.
    pub ablation_id: Option<String>,
    /// Who did it.
    pub activated_by: String,
    /// Why.
    pub reason: String,
    /// When, in microseconds.
    pub activated_at: i64,
}

impl Eviction<'_> {
    /// Keeps a version of the scorer; says whether it is new. A version never changes.
    pub async fn put_scorer(self, row: &ScorerRow) -> Result<bool, StoreError> {
        let insert = sql!(
            "INSERT INTO eviction_scorers (version, variant, created_at, body, fit) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (version) DO NOTHING";
            &row.version, &row.variant, row.created_at, &row.body, &row.fit
        );
        let made = self.0.pool.execute(insert).await?;
        Ok(made == 1)
    }

    /// Versions of the scorer, the newest first.
    pub async fn scorers(self, limit: u32) -> Result<Vec<ScorerRow>, StoreError> {
        let select = sql!(
            "SELECT version, variant, created_at, body, fit FROM eviction_scorers
             ORDER BY created_at DESC, version DESC LIMIT $1";
            limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(scorer).collect()
    }

    /// A version of the scorer.
    pub async fn scorer(self, version: &str) -> Result<Option<ScorerRow>, StoreError> {
        let select = sql!(
            "SELECT version, variant, created_at, body, fit FROM eviction_scorers WHERE version = $1";
            version
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(scorer).transpose()
    }

    /// Puts a version into force, unless another one than `row.previous` is in force by now; says whether it was done.
    /// `none` is what is in force while there are no activations.
    pub async fn activate_scorer(self, row: &ActivationRow, none: &str) -> Result<bool, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            if self.0.pool.is_postgres() {
                // Two activations at once must not both see the same predecessor; SQLite has one writer anyway.
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

    /// What was put into force, the latest first.
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

    /// Keeps what a scorer model thinks of a content.
    pub async fn put_opinion(self, key: &str, model: &str, relevance: f64) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO eviction_opinions (key, model, relevance, created_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (key) DO NOTHING";
            key, model, relevance, now_micros()
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// What a scorer model thought of a content.
    pub async fn opinion(self, key: &str) -> Result<Option<f64>, StoreError> {
        let select = sql!("SELECT relevance FROM eviction_opinions WHERE key = $1"; key);
        let found = self.0.pool.row(select).await?;
        found.map(|row| row.get(0)).transpose()
    }
}

fn scorer(row: &Row) -> Result<ScorerRow, StoreError> {
    Ok(columns!(row => ScorerRow { version, variant, created_at, body, fit }))
}
