//! Tokens that let programs and people in. Only hashes are kept: who reads the store cannot log in with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, storable};

/// A token, without the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRow {
    /// The part of it that is no secret.
    pub token_id: String,
    /// What its owner calls it.
    pub name: String,
    /// The hash of the secret, in hexadecimal digits.
    pub hash: String,
    /// `read`, `write` or `admin`.
    pub scope: String,
    /// When it was made, in microseconds since 1970.
    pub created_at: i64,
    /// When it ends by itself.
    pub expires_at: Option<i64>,
    /// When it was taken back.
    pub revoked_at: Option<i64>,
    /// When it last let somebody in, to the minute.
    pub last_used_at: Option<i64>,
}

/// The API tokens of the server: [`Store::tokens`].
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'s>(pub(crate) &'s Store);

impl Tokens<'_> {
    /// Keeps a new token.
    pub async fn put(self, token: &TokenRow) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO api_tokens
                     (token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (token_id) DO NOTHING",
            )
            .bind(storable(&token.token_id))
            .bind(storable(&token.name))
            .bind(&token.hash)
            .bind(&token.scope)
            .bind(token.created_at)
            .bind(token.expires_at)
            .bind(token.revoked_at)
            .bind(token.last_used_at)
            .execute(&mut *connection)
            .await?;
        })
    }

    /// The token with this id.
    pub async fn get(self, token_id: &str) -> Result<Option<TokenRow>, StoreError> {
        let row: Option<Columns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at
             FROM api_tokens WHERE token_id = $1"
        )
        .bind(storable(token_id))
        .fetch_optional(connection)
        .await?)?;
        Ok(row.map(token))
    }

    /// All tokens, the newest first.
    pub async fn list(self) -> Result<Vec<TokenRow>, StoreError> {
        let rows: Vec<Columns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at
             FROM api_tokens ORDER BY created_at DESC, token_id DESC"
        )
        .fetch_all(connection)
        .await?)?;
        Ok(rows.into_iter().map(token).collect())
    }

    /// Takes a token back; says whether there was one that was not.
    pub async fn revoke(self, token_id: &str, at: i64) -> Result<bool, StoreError> {
        let changed = in_transaction!(&self.0.pool, |connection| {
            sqlx::query("UPDATE api_tokens SET revoked_at = $2 WHERE token_id = $1 AND revoked_at IS NULL")
                .bind(storable(token_id))
                .bind(at)
                .execute(&mut *connection)
                .await?
                .rows_affected()
        })?;
        Ok(changed > 0)
    }

    /// Notes that a token let somebody in.
    pub async fn touch(self, token_id: &str, at: i64) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query("UPDATE api_tokens SET last_used_at = $2 WHERE token_id = $1")
                .bind(storable(token_id))
                .bind(at)
                .execute(&mut *connection)
                .await?;
        })
    }
}

type Columns = (
    String,
    String,
    String,
    String,
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
);

fn token(columns: Columns) -> TokenRow {
    let (token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at) = columns;
    TokenRow {
        token_id,
        name,
        hash,
        scope,
        created_at,
        expires_at,
        revoked_at,
        last_used_at,
    }
}
