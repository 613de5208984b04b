//! Contents and health of a store, for `db status` and `doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pool::Backoff;
use crate::sql::{first_column, sql};
use crate::{FleetStatus, SCHEMA_VERSION, Store, StoreError, TABLES, migrate};

/// Rows of a table on PostgreSQL up to which they are counted.
const MAX_COUNTED: i64 = 100_000;

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
    /// Partitions and read replica; only on PostgreSQL, and only where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetStatus>,
}

/// Status of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableStatus {
    /// Name of the table.
    pub name: String,
    /// Number of rows in the table.
    pub rows: i64,
    /// Whether the number is the database's estimate: large tables of PostgreSQL are not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
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
            let (rows, estimated) = self.count_rows(table.name).await?;
            tables.push(TableStatus {
                name: table.name.into(),
                rows,
                estimated,
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
            fleet: None,
        })
    }

    /// Counts the rows of a table, or returns PostgreSQL's estimate if there are many, and whether it is one.
    pub(crate) async fn count_rows(&self, table: &str) -> Result<(i64, bool), StoreError> {
        if !self.pool.is_postgres() {
            let count = format!("SELECT COUNT(*) FROM {table}");
            return Ok((self.pool.one(sql!(count)).await?.get(0)?, false));
        }
        let count = format!(
            "SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT {}) counted",
            MAX_COUNTED + 1
        );
        let counted: i64 = self.pool.one(sql!(count)).await?.get(0)?;
        if counted <= MAX_COUNTED {
            return Ok((counted, false));
        }
        // A table that was never analyzed has -1.
        let estimate = sql!(
            "SELECT CAST(COALESCE(SUM(GREATEST(c.reltuples, 0)), 0) AS BIGINT) FROM pg_class c
             WHERE c.relkind = 'r' AND (c.oid = to_regclass($1)
                 OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass($1)))";
            table
        );
        let estimate: i64 = self.pool.one(estimate).await?.get(0)?;
        Ok((estimate.max(counted), true))
    }

    /// Checks for corruption, and for rows that refer to rows that do not exist. SQLite reads the whole file for
    /// this; PostgreSQL checks its pages whenever it reads them, and reads the tables with references.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        let findings = if self.pool.is_postgres() {
            self.orphans().await?
        } else {
            let pages = self.pool.rows(sql!("PRAGMA integrity_check(5)")).await?;
            let mut findings: Vec<String> = first_column(&pages)?;
            findings.retain(|finding| finding != "ok");
            let select = "SELECT \"table\" || ': ' || COUNT(*) || ' rows refer to missing rows of ' || parent
                 FROM pragma_foreign_key_check GROUP BY \"table\", parent ORDER BY 1";
            findings.extend(first_column::<String>(&self.pool.rows(sql!(select)).await?)?);
            findings
        };
        if findings.is_empty() {
            return Ok(());
        }
        Err(StoreError::Corrupt {
            place: self.place().into(),
            detail: findings.join("; "),
        })
    }

    /// Counts rows that refer to missing rows, for each foreign key. PostgreSQL prevents them, except while triggers
    /// are disabled, as `pg_restore --disable-triggers` does.
    async fn orphans(&self) -> Result<Vec<String>, StoreError> {
        let keys = sql!(
            "SELECT child.oid::regclass::text, parent.oid::regclass::text,
                 string_agg(format('p.%I = c.%I', there.attname, here.attname), ' AND '),
                 string_agg(format('c.%I IS NOT NULL', here.attname), ' AND ')
             FROM pg_constraint k
             JOIN pg_class child ON child.oid = k.conrelid JOIN pg_class parent ON parent.oid = k.confrelid
             CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS pair (own, other)
             JOIN pg_attribute here ON here.attrelid = child.oid AND here.attnum = pair.own
             JOIN pg_attribute there ON there.attrelid = parent.oid AND there.attnum = pair.other
             WHERE k.contype = 'f' AND k.conparentid = 0 AND child.relnamespace = current_schema()::regnamespace
             GROUP BY k.oid, child.oid, parent.oid ORDER BY 1, 2"
        );
        let mut findings = Vec::new();
        for key in self.pool.rows(keys).await? {
            let (child, parent): (String, String) = (key.get(0)?, key.get(1)?);
            let (equal, present): (String, String) = (key.get(2)?, key.get(3)?);
            let count = format!(
                "SELECT COUNT(*) FROM {child} c WHERE {present} AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE {equal})"
            );
            let rows: i64 = self.pool.one(sql!(count)).await?.get(0)?;
            if rows > 0 {
                findings.push(format!("{child}: {rows} rows refer to missing rows of {parent}"));
            }
        }
        Ok(findings)
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
