//! API tokens. Only hashes are stored: a copy of the store does not grant access.

use crate::sql::{Row, columns, sql};
use crate::{Store, StoreError};

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Public id, the non-secret part of the token.
    pub token_id: String,
    /// Descriptive name chosen by the owner.
    pub name: String,
    /// Hash of the secret in hexadecimal.
    pub hash: String,
    /// `read`, `write` or `admin`.
    pub scope: String,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    pub expires_at: Option<i64>,
    pub revoked_at: Option<i64>,
    /// Time of the last authenticated request, to the minute.
    pub last_used_at: Option<i64>,
    /// Tenant whose store the token gives access to; `None` for the main store.
    pub tenant: Option<String>,
}

/// The API tokens of the server: [`Store::tokens`].
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'s>(pub(crate) &'s Store);

impl Tokens<'_> {
    /// Stores a new token.
    pub async fn put(self, token: &TokenRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO api_tokens
                 (token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at, tenant)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (token_id) DO NOTHING";
            &token.token_id, &token.name, &token.hash, &token.scope, token.created_at, token.expires_at,
            token.revoked_at, token.last_used_at, &token.tenant
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Returns a token by id.
    pub async fn get(self, token_id: &str) -> Result<Option<TokenRow>, StoreError> {
        let select = sql!(
            "SELECT token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at, tenant
             FROM api_tokens WHERE token_id = $1";
            token_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(token).transpose()
    }

    /// Returns a token by id, unless its tenant is disabled or no longer registered.
    pub async fn get_enabled(self, token_id: &str) -> Result<Option<TokenRow>, StoreError> {
        let select = sql!(
            "SELECT token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at, tenant
             FROM api_tokens WHERE token_id = $1 AND (tenant IS NULL OR EXISTS (
                 SELECT 1 FROM tenants WHERE tenants.name = api_tokens.tenant AND tenants.disabled_at IS NULL))";
            token_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(token).transpose()
    }

    /// Lists all tokens, newest first.
    pub async fn list(self) -> Result<Vec<TokenRow>, StoreError> {
        let select = sql!(
            "SELECT token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at, tenant
             FROM api_tokens ORDER BY created_at DESC, token_id DESC"
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(token).collect()
    }

    /// Revokes a token; returns false if it does not exist or was already revoked.
    pub async fn revoke(self, token_id: &str, at: i64) -> Result<bool, StoreError> {
        let update = sql!(
            "UPDATE api_tokens SET revoked_at = $2 WHERE token_id = $1 AND revoked_at IS NULL";
            token_id, at
        );
        let changed = self.0.pool.execute(update).await?;
        Ok(changed > 0)
    }

    /// Records the use of a token.
    pub async fn touch(self, token_id: &str, at: i64) -> Result<(), StoreError> {
        let update = sql!("UPDATE api_tokens SET last_used_at = $2 WHERE token_id = $1"; token_id, at);
        self.0.pool.execute(update).await?;
        Ok(())
    }
}

fn token(row: &Row) -> Result<TokenRow, StoreError> {
    Ok(columns!(row => TokenRow {
        token_id, name, hash, scope, created_at, expires_at, revoked_at, last_used_at, tenant
    }))
}
