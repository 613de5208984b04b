//! Harness data by harness id: hash-chained log, versions with archived files, and audits. Everything that an
//! event changes is written in one transaction, unless another event was written concurrently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pool::in_transaction;
use crate::sql::{Row, columns, first_column, sql};
use crate::{Store, StoreError, now_micros};

/// Arbitrary constant; it must be the same in all versions of Satiety.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7214058331103)";

/// An entry of the log, exactly as hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// Sequence number, from 0, without gaps.
    pub seq: i64,
    /// Hash of the previous entry.
    pub prev: String,
    /// Time as text: hashed values must not be rounded.
    pub at: String,
    pub kind: String,
    /// Event data as JSON.
    pub body: String,
    pub hash: String,
}

/// A record that changes with an event.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordChange {
    pub key: String,
    /// Version of the document format.
    pub schema_version: String,
    pub body: Value,
    /// Expiry in microseconds since the Unix epoch, if any.
    pub expires_at: Option<i64>,
}

/// A version of the harness.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionRow {
    /// Hash of the version.
    pub version: String,
    pub manifest: Value,
    /// Files, once archived.
    pub files: Option<Value>,
}

/// All changes of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HarnessChange {
    /// Harness id; empty for data written before harnesses had ids.
    pub harness_id: String,
    /// New entries; the first one follows the last existing one.
    pub entries: Vec<LedgerRow>,
    pub records: Vec<RecordChange>,
    /// Versions to write; an existing one keeps its manifest, and its files once archived.
    pub versions: Vec<VersionRow>,
}

/// Verdict of an auditor on a cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRow {
    /// Id of the audit.
    pub audit_id: String,
    /// Harness id; empty for data written before harnesses had ids.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub harness_id: String,
    /// Id of the audited cycle.
    pub cycle_id: String,
    /// Name of the auditor.
    pub auditor: String,
    /// Whether the auditor accepts the cycle.
    pub accepts: bool,
    /// Reason given by the auditor.
    pub note: String,
    /// Time in microseconds since the Unix epoch.
    pub at: i64,
}

/// Returns the key of a harness's record, derived from the specification's key; identical to it for an empty
/// id.
pub fn harness_record_key(harness_id: &str, key: &str) -> String {
    const SPACE: &str = "eval-harness/saturation/";
    let Some(rest) = key.strip_prefix(SPACE).filter(|_| !harness_id.is_empty()) else {
        return key.to_owned();
    };
    match rest.split_once('/') {
        Some((kind, id)) => format!("{SPACE}{kind}/{harness_id}/{id}"),
        None => format!("{SPACE}{harness_id}/{rest}"),
    }
}

/// The logs, versions and audits of harnesses: [`Store::harness`].
#[derive(Debug, Clone, Copy)]
pub struct Harness<'s>(pub(crate) &'s Store);

impl Harness<'_> {
    /// Writes an event with all its changes, atomically; returns false if an entry with the first one's
    /// number already exists.
    pub async fn commit(self, change: &HarnessChange) -> Result<bool, StoreError> {
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
        let ours: Vec<&String> = change.entries.iter().map(|row| &row.hash).collect();
        in_transaction!(&self.0.pool, |connection| {
            if self.0.pool.is_postgres() {
                // SQLite has a single writer anyway.
                connection.execute_raw(LOCK).await?;
            }
            let select = sql!(
                "SELECT hash FROM harness_ledger WHERE harness_id = $1 AND seq >= $2 ORDER BY seq LIMIT 100";
                &change.harness_id, first
            );
            let there = connection.rows(select).await?;
            let there: Vec<String> = first_column(&there)?;
            // Our own entries are there if the connection was lost after the commit.
            let mine = there.iter().eq(ours.iter().copied());
            let written = there.is_empty() || mine;
            if there.is_empty() {
                for row in &change.entries {
                    let insert = sql!(
                        "INSERT INTO harness_ledger (seq, prev, at, kind, body, hash, harness_id)
                         VALUES ($1, $2, $3, $4, $5, $6, $7)";
                        row.seq, &row.prev, &row.at, &row.kind, &row.body, &row.hash, &change.harness_id
                    );
                    connection.execute(insert).await?;
                }
            }
            if written {
                for (record, body) in change.records.iter().zip(&records) {
                    let insert = sql!(
                        "INSERT INTO records (key, schema_version, body, created_at, updated_at, expires_at)
                         VALUES ($1, $2, $3, $4, $4, $5)
                         ON CONFLICT (key) DO UPDATE SET schema_version = excluded.schema_version,
                             body = excluded.body, updated_at = excluded.updated_at, expires_at = excluded.expires_at";
                        &record.key, &record.schema_version, body, now, record.expires_at
                    );
                    connection.execute(insert).await?;
                }
                for (row, (manifest, files)) in change.versions.iter().zip(&versions) {
                    let insert = sql!(
                        "INSERT INTO harness_versions (version, manifest, files, created_at, harness_id) VALUES ($1, $2, $3, $4, $5)
                         ON CONFLICT (harness_id, version) DO UPDATE SET files = COALESCE(harness_versions.files, excluded.files)";
                        &row.version, manifest, files.as_deref(), now, &change.harness_id
                    );
                    connection.execute(insert).await?;
                }
            }
            written
        })
    }

    /// Assigns the log, versions, audits and records without an id to a harness, atomically. Does nothing if
    /// the harness already has a log, so it is idempotent.
    pub async fn claim(self, harness_id: &str) -> Result<(), StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            if self.0.pool.is_postgres() {
                connection.execute_raw(LOCK).await?;
            }
            let select = sql!("SELECT seq FROM harness_ledger WHERE harness_id = $1 LIMIT 1"; harness_id);
            let known = connection.row(select).await?;
            if known.is_none() {
                for statement in [
                    "UPDATE harness_ledger SET harness_id = $1 WHERE harness_id = ''",
                    "UPDATE harness_versions SET harness_id = $1 WHERE harness_id = ''",
                    "UPDATE harness_audits SET harness_id = $1 WHERE harness_id = ''",
                    // Must match `harness_record_key`.
                    "UPDATE records SET key = 'eval-harness/saturation/' || $1 || '/aggregate'
                     WHERE key = 'eval-harness/saturation/aggregate'",
                    "UPDATE records SET key = 'eval-harness/saturation/cycles/' || $1 || '/' || substr(key, 32)
                     WHERE key LIKE 'eval-harness/saturation/cycles/%' AND key NOT LIKE 'eval-harness/saturation/cycles/%/%'",
                    "UPDATE records SET key = 'eval-harness/saturation/expansions/' || $1 || '/' || substr(key, 36)
                     WHERE key LIKE 'eval-harness/saturation/expansions/%' AND key NOT LIKE 'eval-harness/saturation/expansions/%/%'",
                ] {
                    connection.execute(sql!(statement; harness_id)).await?;
                }
            }
        })
    }

    /// Lists the harnesses that have a log in this store; an empty id stands for data without an id.
    pub async fn ids(self) -> Result<Vec<String>, StoreError> {
        let select = sql!("SELECT DISTINCT harness_id FROM harness_ledger ORDER BY harness_id");
        let rows = self.0.pool.rows(select).await?;
        first_column(&rows)
    }

    /// Returns entries of a harness's log from a sequence number on, one page at a time.
    pub async fn ledger(self, harness_id: &str, from: i64, limit: u32) -> Result<Vec<LedgerRow>, StoreError> {
        let select = sql!(
            "SELECT seq, prev, at, kind, body, hash FROM harness_ledger
             WHERE harness_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3";
            harness_id, from, limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| Ok(columns!(row => LedgerRow { seq, prev, at, kind, body, hash }));
        rows.iter().map(row).collect()
    }

    /// Returns a version of a harness by its hash.
    pub async fn version(self, harness_id: &str, version: &str) -> Result<Option<VersionRow>, StoreError> {
        let select = sql!(
            "SELECT version, manifest, files FROM harness_versions WHERE harness_id = $1 AND version = $2";
            harness_id, version
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| {
            let version: String = row.get("version")?;
            let (manifest, files) = (
                row.json("manifest", format_args!("harness version {version}"))?,
                row.optional_json("files", format_args!("harness version {version}"))?,
            );
            Ok(VersionRow {
                version,
                manifest,
                files,
            })
        })
        .transpose()
    }

    /// Stores the verdict of an auditor.
    pub async fn put_audit(self, row: &AuditRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO harness_audits (audit_id, cycle_id, auditor, accepts, note, at, harness_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (audit_id) DO NOTHING";
            &row.audit_id, &row.cycle_id, &row.auditor, row.accepts, &row.note, row.at, &row.harness_id
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Lists audits of a harness, newest first.
    pub async fn audits(self, harness_id: &str, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        let select = sql!(
            "SELECT audit_id, cycle_id, auditor, accepts, note, at FROM harness_audits
             WHERE harness_id = $1 ORDER BY at DESC, audit_id DESC LIMIT $2";
            harness_id, limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            Ok(columns!(row => AuditRow {
                audit_id, cycle_id, auditor, accepts, note, at;
                harness_id: harness_id.to_owned()
            }))
        };
        rows.iter().map(row).collect()
    }
}
