//! Contents and health of a store, for `db status` and `doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pool::Backoff;
use crate::sql::{first_column, sql};
use crate::{SCHEMA_VERSION, Store, StoreError, TABLES, migrate};

/// Status of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StoreStatus")]
pub struct Status {
    /// Database engine: `sqlite` or `postgres`.
    pub engine: String,
    /// Location of the store, password masked.
    pub place: String,
    /// Schema version of the store.
    pub schema_version: i64,
    /// Schema version that this program writes.
    pub latest_schema_version: i64,
    /// Version of the database engine.
    pub engine_version: String,
    /// Size on disk in bytes.
    pub bytes: i64,
    /// Tables with their row counts.
    pub tables: Vec<TableStatus>,
}

/// Status of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableStatus {
    /// Name of the table.
    pub name: String,
    /// Number of rows in the table.
    pub rows: i64,
}

impl Store {
    /// Checks that the engine responds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.pool.one(sql!("SELECT CAST(1 AS BIGINT)")).await?;
        Ok(())
    }

    /// Returns the status of this store. Also works on an older schema, and changes nothing.
    pub async fn status(&self) -> Result<Status, StoreError> {
        self.query_log().flush().await;
        let schema_version = migrate::version(&self.pool).await?;
        let mut tables = Vec::new();
        for table in TABLES.iter().filter(|table| table.since <= schema_version) {
            let count = format!("SELECT COUNT(*) FROM {}", table.name);
            let rows = self.pool.one(sql!(count)).await?.get(0)?;
            tables.push(TableStatus {
                name: table.name.into(),
                rows,
            });
        }
        let (engine, version, bytes) = if self.pool.is_postgres() {
            (
                "postgres",
                "SELECT current_setting('server_version')",
                "SELECT pg_database_size(current_database())",
            )
        } else {
            (
                "sqlite",
                "SELECT sqlite_version()",
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
            )
        };
        Ok(Status {
            engine: engine.into(),
            place: self.place().into(),
            schema_version,
            latest_schema_version: SCHEMA_VERSION,
            engine_version: self.pool.one(sql!(version)).await?.get(0)?,
            bytes: self.pool.one(sql!(bytes)).await?.get(0)?,
            tables,
        })
    }

    /// Checks for corruption. SQLite reads the whole file for this; PostgreSQL checks its pages whenever it
    /// reads them.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        if self.pool.is_postgres() {
            return Ok(());
        }
        let findings: Vec<String> = first_column(&self.pool.rows(sql!("PRAGMA integrity_check(5)")).await?)?;
        if findings.iter().all(|finding| finding == "ok") {
            return Ok(());
        }
        Err(StoreError::Corrupt {
            place: self.place().into(),
            detail: findings.join("; "),
        })
    }

    /// Checks that a write would succeed, without leaving one.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let mut backoff = Backoff::default();
        loop {
            let attempt = async {
                let mut transaction = self.pool.begin().await?;
                let update = sql!("UPDATE retention_rules SET updated_at = updated_at");
                transaction.execute(update).await?;
                transaction.rollback().await
            };
            match attempt.await {
                Err(fault) if backoff.retries(&fault) => backoff.pause().await,
                other => return other.map_err(StoreError::from),
            }
        }
    }
}
