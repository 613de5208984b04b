//! The eval harness, each by its identity: its chained log, its versions with archived files, what auditors said. Everything that one event
//! changes is written with it in one transaction, and only if nobody else wrote an event meanwhile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pool::in_transaction;
use crate::sql::{Row, columns, first_column, sql};
use crate::{Store, StoreError, now_micros};

/// Any constant will do, as long as every Satiety uses the same one.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7214058331103)";

/// An entry of the log, as it was hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The harness whose log it is; empty for what was written before harnesses had identities.
    pub harness_id: String,
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
    /// The harness; empty for what was written before harnesses had identities.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub harness_id: String,
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

/// The key of a record of one harness, from the specification's key: those of one that has no identity yet are the same.
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
    /// Writes everything of an event, or nothing: false when somebody else wrote an entry with the first one's number.
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
                // SQLite has one writer at a time anyway.
                connection.execute_raw(LOCK).await?;
            }
            let select = sql!(
                "SELECT hash FROM harness_ledger WHERE harness_id = $1 AND seq >= $2 ORDER BY seq LIMIT 100";
                &change.harness_id, first
            );
            let there = connection.rows(select).await?;
            let there: Vec<String> = first_column(&there)?;
            // Our own entries are there when a connection was lost after the commit; somebody else's otherwise.
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

    /// Gives the log, versions, audits and records that have no identity yet to a harness, all together. Changes nothing
    /// where the harness has a log already, so doing it twice does no harm.
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
                    // As `harness_record_key` has it.
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

    /// The harnesses that have a log in this store; empty names what has no identity yet.
    pub async fn ids(self) -> Result<Vec<String>, StoreError> {
        let select = sql!("SELECT DISTINCT harness_id FROM harness_ledger ORDER BY harness_id");
        let rows = self.0.pool.rows(select).await?;
        first_column(&rows)
    }

    /// Entries of a harness's log from a number on, a page at a time.
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

    /// A version of a harness by its hash.
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

    /// Keeps what an auditor said.
    pub async fn put_audit(self, row: &AuditRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO harness_audits (audit_id, cycle_id, auditor, accepts, note, at, harness_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (audit_id) DO NOTHING";
            &row.audit_id, &row.cycle_id, &row.auditor, row.accepts, &row.note, row.at, &row.harness_id
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// What auditors said about a harness, newest first.
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
