//! Records: JSON documents under namespaced keys, such as `eval-harness/saturation/aggregate`.
//!
//! For state that is read whole by its key. What is searched or joined has tables of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// A document and what is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Its key: segments joined by `/`.
    pub key: String,
    /// The version of the document's shape (`x-schema-version`).
    pub schema_version: String,
    /// The document.
    pub body: Value,
    /// When it was first written, in microseconds since 1970.
    pub created_at: i64,
    /// When it was last written.
    pub updated_at: i64,
    /// When it stops being there, if ever.
    pub expires_at: Option<i64>,
}

/// JSON documents by key: [`Store::records`].
#[derive(Debug, Clone, Copy)]
pub struct Records<'s>(pub(crate) &'s Store);

impl Records<'_> {
    /// Writes a document, over the one that has this key.
    pub async fn put(
        self,
        key: &str,
        schema_version: &str,
        body: &Value,
        expires_at: Option<i64>,
    ) -> Result<(), StoreError> {
        let now = now_micros();
        let body = body.to_string();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO records (key, schema_version, body, created_at, updated_at, expires_at)
                 VALUES ($1, $2, $3, $4, $4, $5)
                 ON CONFLICT (key) DO UPDATE SET schema_version = excluded.schema_version, body = excluded.body,
                     updated_at = excluded.updated_at, expires_at = excluded.expires_at",
            )
            .bind(storable(key))
            .bind(storable(schema_version))
            .bind(&body)
            .bind(now)
            .bind(expires_at)
            .execute(&mut *connection)
            .await?;
        })
    }

    /// The document with this key, unless it has expired.
    pub async fn get(self, key: &str) -> Result<Option<Record>, StoreError> {
        let row: Option<RecordRow> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT key, schema_version, body, created_at, updated_at, expires_at FROM records
             WHERE key = $1 AND (expires_at IS NULL OR expires_at > $2)"
        )
        .bind(storable(key))
        .bind(now_micros())
        .fetch_optional(connection)
        .await?)?;
        row.map(|row| self.read_record(row)).transpose()
    }

    /// The documents whose keys begin with `prefix`, by key, a page at a time: at most `limit` after key `after`.
    pub async fn list_under(self, prefix: &str, after: &str, limit: i64) -> Result<Vec<Record>, StoreError> {
        // A range instead of LIKE: no escaping, and both engines use the index.
        let end = format!("{prefix}\u{10FFFF}");
        let rows: Vec<RecordRow> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT key, schema_version, body, created_at, updated_at, expires_at FROM records
             WHERE key >= $1 AND key < $2 AND key > $3 AND (expires_at IS NULL OR expires_at > $4)
             ORDER BY key LIMIT $5"
        )
        .bind(storable(prefix))
        .bind(storable(&end))
        .bind(storable(after))
        .bind(now_micros())
        .bind(limit)
        .fetch_all(connection)
        .await?)?;
        rows.into_iter().map(|row| self.read_record(row)).collect()
    }

    /// Removes a document; says whether it was there.
    pub async fn remove(self, key: &str) -> Result<bool, StoreError> {
        let removed = in_transaction!(&self.0.pool, |connection| {
            sqlx::query("DELETE FROM records WHERE key = $1")
                .bind(storable(key))
                .execute(&mut *connection)
                .await?
                .rows_affected()
        })?;
        Ok(removed > 0)
    }

    fn read_record(self, row: RecordRow) -> Result<Record, StoreError> {
        let (key, schema_version, body, created_at, updated_at, expires_at) = row;
        let body = self.0.parse_json(&body, || format!("record {key}"))?;
        Ok(Record {
            key,
            schema_version,
            body,
            created_at,
            updated_at,
            expires_at,
        })
    }
}

type RecordRow = (String, String, String, i64, i64, Option<i64>);
