//! What is in a store: for `db status` and `doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;

use crate::pool::{Pool, patiently, reading};
use crate::{SCHEMA_VERSION, Store, StoreError, TABLES, migrate};

/// The state of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// `sqlite` or `postgres`.
    pub engine: String,
    /// Where it is, password masked.
    pub place: String,
    /// The version of its schema.
    pub schema_version: i64,
    /// The version this program writes.
    pub latest_schema_version: i64,
    /// The engine's own version.
    pub engine_version: String,
    /// How many bytes it takes up.
    pub bytes: i64,
    /// Its tables.
    pub tables: Vec<TableStatus>,
}

/// The state of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableStatus {
    /// Its name.
    pub name: String,
    /// How many rows it has.
    pub rows: i64,
}

impl Store {
    /// Whether the engine answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let (_one,): (i64,) = reading!(&self.pool, |connection| sqlx::query_as(
            "SELECT CAST(1 AS BIGINT)"
        )
        .fetch_one(connection)
        .await?)?;
        Ok(())
    }

    /// What is in this store. Works on an older schema, too, and changes nothing.
    pub async fn status(&self) -> Result<Status, StoreError> {
        self.query_log().flush().await;
        let schema_version = migrate::version(&self.pool).await?;
        let mut tables = Vec::new();
        for table in TABLES.iter().filter(|table| table.since <= schema_version) {
            let count = format!("SELECT COUNT(*) FROM {}", table.name);
            let (rows,): (i64,) = reading!(&self.pool, |connection| sqlx::query_as(AssertSqlSafe(
                count.as_str()
            ))
            .fetch_one(connection)
            .await?)?;
            tables.push(TableStatus {
                name: table.name.into(),
                rows,
            });
        }
        let ((engine_version,), (bytes,)): ((String,), (i64,)) = match &self.pool {
            Pool::Sqlite { .. } => reading!(&self.pool, |connection| (
                sqlx::query_as("SELECT sqlite_version()")
                    .fetch_one(&mut *connection)
                    .await?,
                sqlx::query_as("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
                    .fetch_one(&mut *connection)
                    .await?
            ))?,
            Pool::Postgres { .. } => reading!(&self.pool, |connection| (
                sqlx::query_as("SELECT current_setting('server_version')")
                    .fetch_one(&mut *connection)
                    .await?,
                sqlx::query_as("SELECT pg_database_size(current_database())")
                    .fetch_one(&mut *connection)
                    .await?
            ))?,
        };
        Ok(Status {
            engine: if matches!(self.pool, Pool::Sqlite { .. }) {
                "sqlite"
            } else {
                "postgres"
            }
            .into(),
            place: self.place().into(),
            schema_version,
            latest_schema_version: SCHEMA_VERSION,
            engine_version,
            bytes,
            tables,
        })
    }

    /// Looks for damage. SQLite reads the whole file for this; PostgreSQL checks its pages whenever it reads them.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        if matches!(self.pool, Pool::Postgres { .. }) {
            return Ok(());
        }
        let findings: Vec<(String,)> = reading!(&self.pool, |connection| sqlx::query_as(
            "PRAGMA integrity_check(5)"
        )
        .fetch_all(connection)
        .await?)?;
        if findings.iter().all(|(finding,)| finding == "ok") {
            return Ok(());
        }
        let detail = findings
            .into_iter()
            .map(|(finding,)| finding)
            .collect::<Vec<_>>()
            .join("; ");
        Err(StoreError::Corrupt {
            place: self.place().into(),
            detail,
        })
    }

    /// Makes sure that a write would succeed, without leaving one.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        match &self.pool {
            Pool::Sqlite { write, place, .. } => {
                patiently!(place, async {
                    let mut transaction = write.begin_with("BEGIN IMMEDIATE").await?;
                    sqlx::query("UPDATE retention_rules SET updated_at = updated_at")
                        .execute(&mut *transaction)
                        .await?;
                    transaction.rollback().await
                })
            }
            Pool::Postgres { pool, place, .. } => {
                patiently!(place, async {
                    let mut transaction = pool.begin().await?;
                    sqlx::query("UPDATE retention_rules SET updated_at = updated_at")
                        .execute(&mut *transaction)
                        .await?;
                    transaction.rollback().await
                })
            }
        }
    }
}
