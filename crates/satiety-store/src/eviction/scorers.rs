//! Versions of the scorer, which was in force when, and opinions of scorer models that need not be paid for twice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Eviction;
use crate::pool::{in_transaction, reading};
use crate::{StoreError, now_micros, storable};

/// A version of the scorer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

type ActivationColumns = (
    String,
    String,
    String,
    String,
    Option<String>,
    String,
    String,
    i64,
);

impl Eviction<'_> {
    /// Keeps a version of the scorer; says whether it is new. A version never changes.
    pub async fn put_scorer(self, row: &ScorerRow) -> Result<bool, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let made = sqlx::query(
                "INSERT INTO eviction_scorers (version, variant, created_at, body, fit) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (version) DO NOTHING",
            )
            .bind(storable(&row.version))
            .bind(&row.variant)
            .bind(row.created_at)
            .bind(storable(&row.body))
            .bind(row.fit.as_deref().map(storable))
            .execute(&mut *connection)
            .await?;
            made.rows_affected() == 1
        })
    }

    /// Versions of the scorer, the newest first.
    pub async fn scorers(self, limit: u32) -> Result<Vec<ScorerRow>, StoreError> {
        let rows: Vec<(String, String, i64, String, Option<String>)> =
            reading!(&self.0.pool, |connection| sqlx::query_as(
                "SELECT version, variant, created_at, body, fit FROM eviction_scorers
                 ORDER BY created_at DESC, version DESC LIMIT $1"
            )
            .bind(i64::from(limit))
            .fetch_all(connection)
            .await?)?;
        Ok(rows.into_iter().map(scorer).collect())
    }

    /// A version of the scorer.
    pub async fn scorer(self, version: &str) -> Result<Option<ScorerRow>, StoreError> {
        let row: Option<(String, String, i64, String, Option<String>)> =
            reading!(&self.0.pool, |connection| sqlx::query_as(
                "SELECT version, variant, created_at, body, fit FROM eviction_scorers WHERE version = $1"
            )
            .bind(storable(version))
            .fetch_optional(connection)
            .await?)?;
        Ok(row.map(scorer))
    }

    /// Puts a version into force, unless another one than `row.previous` is in force by now; says whether it was done.
    /// `none` is what is in force while there are no activations.
    pub async fn activate_scorer(self, row: &ActivationRow, none: &str) -> Result<bool, StoreError> {
        let postgres = matches!(self.0.pool, crate::pool::Pool::Postgres { .. });
        in_transaction!(&self.0.pool, |connection| {
            if postgres {
                // Two activations at once must not both see the same predecessor; SQLite has one writer anyway.
                sqlx::raw_sql("LOCK TABLE eviction_activations IN SHARE ROW EXCLUSIVE MODE")
                    .execute(&mut *connection)
                    .await?;
            }
            let last: Option<(String, String)> = sqlx::query_as(
                "SELECT activation_id, version FROM eviction_activations
                 ORDER BY activated_at DESC, activation_id DESC LIMIT 1",
            )
            .fetch_optional(&mut *connection)
            .await?;
            let (id, version) = last.unwrap_or_else(|| (String::new(), none.to_owned()));
            if id == row.activation_id {
                true
            } else if version == row.previous {
                sqlx::query(
                    "INSERT INTO eviction_activations (activation_id, version, previous, action, ablation_id, activated_by,
                         reason, activated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                )
                .bind(&row.activation_id)
                .bind(storable(&row.version))
                .bind(storable(&row.previous))
                .bind(&row.action)
                .bind(&row.ablation_id)
                .bind(storable(&row.activated_by))
                .bind(storable(&row.reason))
                .bind(row.activated_at)
                .execute(&mut *connection)
                .await?;
                true
            } else {
                false
            }
        })
    }

    /// What was put into force, the latest first.
    pub async fn activations(self, limit: u32) -> Result<Vec<ActivationRow>, StoreError> {
        let rows: Vec<ActivationColumns> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT activation_id, version, previous, action, ablation_id, activated_by, reason, activated_at
             FROM eviction_activations ORDER BY activated_at DESC, activation_id DESC LIMIT $1"
        )
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?
        })?;
        let row =
            |(activation_id, version, previous, action, ablation_id, by, reason, at): ActivationColumns| {
                ActivationRow {
                    activation_id,
                    version,
                    previous,
                    action,
                    ablation_id,
                    activated_by: by,
                    reason,
                    activated_at: at,
                }
            };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Keeps what a scorer model thinks of a content.
    pub async fn put_opinion(self, key: &str, model: &str, relevance: f64) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO eviction_opinions (key, model, relevance, created_at) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (key) DO NOTHING",
            )
            .bind(key)
            .bind(storable(model))
            .bind(relevance)
            .bind(now_micros())
            .execute(&mut *connection)
            .await?;
        })
    }

    /// What a scorer model thought of a content.
    pub async fn opinion(self, key: &str) -> Result<Option<f64>, StoreError> {
        let found: Option<(f64,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT relevance FROM eviction_opinions WHERE key = $1"
        )
        .bind(key)
        .fetch_optional(connection)
        .await?)?;
        Ok(found.map(|(relevance,)| relevance))
    }
}

fn scorer(
    (version, variant, created_at, body, fit): (String, String, i64, String, Option<String>),
) -> ScorerRow {
    ScorerRow {
        version,
        variant,
        created_at,
        body,
        fit,
    }
}
