//! Records: JSON documents under namespaced keys, such as `eval-harness/saturation/aggregate`.
//!
//! For state that is read as a whole by key. Data that is searched or joined has separate tables.

use serde_json::Value;

use crate::sql::{Row, columns, sql};
use crate::{Store, StoreError, now_micros};

/// A document with its metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Key: segments joined by `/`.
    pub key: String,
    /// Version of the document format (`x-schema-version`).
    pub schema_version: String,
    pub body: Value,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    pub updated_at: i64,
    pub expires_at: Option<i64>,
}

/// JSON documents by key: [`Store::records`].
#[derive(Debug, Clone, Copy)]
pub struct Records<'s>(pub(crate) &'s Store);

impl Records<'_> {
    /// Writes a document, replacing the one with this key.
    pub async fn put(
        self,
        key: &str,
        schema_version: &str,
        body: &Value,
        expires_at: Option<i64>,
    ) -> Result<(), StoreError> {
        let now = now_micros();
        let body = body.to_string();
        let insert = sql!(
            "INSERT INTO records (key, schema_version, body, created_at, updated_at, expires_at)
             VALUES ($1, $2, $3, $4, $4, $5)
             ON CONFLICT (key) DO UPDATE SET schema_version = excluded.schema_version, body = excluded.body,
                 updated_at = excluded.updated_at, expires_at = excluded.expires_at";
            key, schema_version, &body, now, expires_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Returns the document with this key, unless it has expired.
    pub async fn get(self, key: &str) -> Result<Option<Record>, StoreError> {
        let select = sql!(
            "SELECT key, schema_version, body, created_at, updated_at, expires_at FROM records
             WHERE key = $1 AND (expires_at IS NULL OR expires_at > $2)";
            key, now_micros()
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(record).transpose()
    }
}

fn record(row: &Row) -> Result<Record, StoreError> {
    let key: String = row.get("key")?;
    let body = row.json("body", format_args!("record {key}"))?;
    Ok(columns!(row => Record { schema_version, created_at, updated_at, expires_at; key, body }))
}
