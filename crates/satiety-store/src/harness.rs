//! The eval harness: its chained log, its versions with archived files, what auditors said. Everything that one event
//! changes is written with it in one transaction, and only if nobody else wrote an event meanwhile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pool::{Pool, in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// Any constant will do, as long as every Satiety uses the same one.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7214058331103)";

/// An entry of the log, as it was hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerRow {
    /// From 0, without gaps.
    pub seq: i64,
    /// The hash of the entry before.
    pub prev: String,
    /// When, as text: what is hashed must not be rounded.
    pub at: String,
    /// What kind of event.
    pub kind: String,
    /// What happened, as JSON.
    pub body: String,
    /// Its hash.
    pub hash: String,
}

/// A record that changes with an event.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordChange {
    /// Its key.
    pub key: String,
    /// The version of its shape.
    pub schema_version: String,
    /// The document.
    pub body: Value,
    /// When it stops being there, if ever, in microseconds.
    pub expires_at: Option<i64>,
}

/// A version of the harness.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionRow {
    /// Its hash.
    pub version: String,
    /// What it is.
    pub manifest: Value,
    /// Its files, once it is archived.
    pub files: Option<Value>,
}

/// Everything that an event changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HarnessChange {
    /// New entries; the first one follows the last that there is.
    pub entries: Vec<LedgerRow>,
    /// Records that are written.
    pub records: Vec<RecordChange>,
    /// Versions that are written; one that is there keeps its manifest, and its files once it has them.
    pub versions: Vec<VersionRow>,
}

/// What an auditor said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRow {
    /// Its id.
    pub audit_id: String,
    /// The cycle.
    pub cycle_id: String,
    /// Who.
    pub auditor: String,
    /// Whether the auditor accepts.
    pub accepts: bool,
    /// Why.
    pub note: String,
    /// When, in microseconds.
    pub at: i64,
}

impl Store {
    /// Writes everything of an event, or nothing: false when somebody else wrote an entry with the first one's number.
    pub async fn commit_harness(&self, change: &HarnessChange) -> Result<bool, StoreError> {
        let now = now_micros();
        let records: Vec<String> = change
            .records
            .iter()
            .map(|record| record.body.to_string())
            .collect();
        let versions: Vec<(String, Option<String>)> = change
            .versions
            .iter()
            .map(|row| {
                (
                    row.manifest.to_string(),
                    row.files.as_ref().map(ToString::to_string),
                )
            })
            .collect();
        let first = change.entries.first().map_or(0, |row| row.seq);
        let ours: Vec<&str> = change.entries.iter().map(|row| row.hash.as_str()).collect();
        let postgres = matches!(self.pool, Pool::Postgres { .. });
        in_transaction!(&self.pool, |connection| {
            if postgres {
                // SQLite has one writer at a time anyway.
                sqlx::raw_sql(LOCK).execute(&mut *connection).await?;
            }
            let there: Vec<(String,)> =
                sqlx::query_as("SELECT hash FROM harness_ledger WHERE seq >= $1 ORDER BY seq LIMIT 100")
                    .bind(first)
                    .fetch_all(&mut *connection)
                    .await?;
            // Our own entries are there when a connection was lost after the commit; somebody else's otherwise.
            let mine = there.iter().map(|(hash,)| hash.as_str()).eq(ours.iter().copied());
            let written = there.is_empty() || mine;
            if there.is_empty() {
                for row in &change.entries {
                    sqlx::query(
                        "INSERT INTO harness_ledger (seq, prev, at, kind, body, hash) VALUES ($1, $2, $3, $4, $5, $6)",
                    )
                    .bind(row.seq)
                    .bind(&row.prev)
                    .bind(&row.at)
                    .bind(storable(&row.kind))
                    .bind(storable(&row.body))
                    .bind(&row.hash)
                    .execute(&mut *connection)
                    .await?;
                }
            }
            if written {
                for (record, body) in change.records.iter().zip(&records) {
                    sqlx::query(
                        "INSERT INTO records (key, schema_version, body, created_at, updated_at, expires_at)
                         VALUES ($1, $2, $3, $4, $4, $5)
                         ON CONFLICT (key) DO UPDATE SET schema_version = excluded.schema_version,
                             body = excluded.body, updated_at = excluded.updated_at, expires_at = excluded.expires_at",
                    )
                    .bind(storable(&record.key))
                    .bind(&record.schema_version)
                    .bind(storable(body))
                    .bind(now)
                    .bind(record.expires_at)
                    .execute(&mut *connection)
                    .await?;
                }
                for (row, (manifest, files)) in change.versions.iter().zip(&versions) {
                    sqlx::query(
                        "INSERT INTO harness_versions (version, manifest, files, created_at) VALUES ($1, $2, $3, $4)
                         ON CONFLICT (version) DO UPDATE SET files = COALESCE(harness_versions.files, excluded.files)",
                    )
                    .bind(&row.version)
                    .bind(storable(manifest))
                    .bind(files.as_deref().map(storable))
                    .bind(now)
                    .execute(&mut *connection)
                    .await?;
                }
            }
            written
        })
    }

    /// Entries of the log from a number on, a page at a time.
    pub async fn harness_ledger(&self, from: i64, limit: u32) -> Result<Vec<LedgerRow>, StoreError> {
        let rows: Vec<(i64, String, String, String, String, String)> = reading!(&self.pool, |connection| {
            sqlx::query_as(
                "SELECT seq, prev, at, kind, body, hash FROM harness_ledger WHERE seq >= $1 ORDER BY seq LIMIT $2"
            )
            .bind(from)
            .bind(i64::from(limit))
            .fetch_all(connection)
            .await?
        })?;
        let row = |(seq, prev, at, kind, body, hash)| LedgerRow {
            seq,
            prev,
            at,
            kind,
            body,
            hash,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// A version by its hash.
    pub async fn harness_version(&self, version: &str) -> Result<Option<VersionRow>, StoreError> {
        let row: Option<(String, String, Option<String>)> =
            reading!(&self.pool, |connection| sqlx::query_as(
                "SELECT version, manifest, files FROM harness_versions WHERE version = $1"
            )
            .bind(storable(version))
            .fetch_optional(connection)
            .await?)?;
        row.map(|(version, manifest, files)| {
            let what = || format!("harness version {version}");
            Ok(VersionRow {
                manifest: self.parse_json(&manifest, what)?,
                files: files.map(|files| self.parse_json(&files, what)).transpose()?,
                version,
            })
        })
        .transpose()
    }

    /// Keeps what an auditor said.
    pub async fn put_harness_audit(&self, row: &AuditRow) -> Result<(), StoreError> {
        in_transaction!(&self.pool, |connection| {
            sqlx::query(
                "INSERT INTO harness_audits (audit_id, cycle_id, auditor, accepts, note, at)
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (audit_id) DO NOTHING",
            )
            .bind(&row.audit_id)
            .bind(storable(&row.cycle_id))
            .bind(storable(&row.auditor))
            .bind(row.accepts)
            .bind(storable(&row.note))
            .bind(row.at)
            .execute(&mut *connection)
            .await?;
        })
    }

    /// What auditors said, newest first.
    pub async fn harness_audits(&self, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        let rows: Vec<(String, String, String, bool, String, i64)> =
            reading!(&self.pool, |connection| sqlx::query_as(
                "SELECT audit_id, cycle_id, auditor, accepts, note, at FROM harness_audits
                 ORDER BY at DESC, audit_id DESC LIMIT $1"
            )
            .bind(i64::from(limit))
            .fetch_all(connection)
            .await?)?;
        let row = |(audit_id, cycle_id, auditor, accepts, note, at)| AuditRow {
            audit_id,
            cycle_id,
            auditor,
            accepts,
            note,
            at,
        };
        Ok(rows.into_iter().map(row).collect())
    }
}
