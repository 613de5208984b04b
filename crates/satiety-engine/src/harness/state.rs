//! Stored state of the harness: the log, verified from its beginning, and the values whose hashes it
//! contains. Every value read from the database is compared with its hash in the log, so that a modified
//! database is detected.

use crate::handles::HarnessOperations;
use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;

use jiff::Timestamp;
use satiety::bench::content_hash;
use satiety::harness::cycles::{AGGREGATE_KEY, Record, retention_days};
use satiety::harness::expansion::Event;
use satiety::harness::{
    Aggregate, Approval, CycleSnapshot, Entry, Expansion, KeyRing, Lock, Manifest, ledger,
};
use satiety_store::harness::{HarnessChange, LedgerRow, RecordChange, VersionRow, harness_record_key};
use satiety_store::{Store, now_micros};
use serde_json::{Value, json};

use super::HarnessError;
use super::directory::HarnessDirectory;
use super::identity::RepositoryMarks;
use crate::EngineError;

/// Number of entries read per query.
const PAGE: u32 = 1000;
/// Key of the complete state in the record of an expansion, next to the specification's fields.
const STATE: &str = "state";

/// The verified log and its database.
#[derive(Debug)]
pub(super) struct State {
    store: Store,
    /// Id of the harness; empty until it has one.
    pub(super) harness_id: String,
    /// Identity and anchor in the repository.
    pub(super) marks: RepositoryMarks,
    pub(super) entries: Vec<Entry>,
}

/// Changes that are written in one transaction.
#[derive(Debug, Default)]
pub(super) struct Writing {
    events: Vec<Event>,
    records: Vec<RecordChange>,
    versions: Vec<VersionRow>,
}

impl HarnessOperations<'_> {
    /// Loads the log of the harness in a directory, without verifying it.
    pub(super) async fn log(self, root: &Path) -> Result<State, EngineError> {
        let store = self.engine.store().await?.clone();
        let marks = RepositoryMarks::read(root)?;
        let harness_id = marks.id.clone().unwrap_or_default();
        let entries = entries(&store, &harness_id).await?;
        Ok(State {
            store,
            harness_id,
            marks,
            entries,
        })
    }

    /// Loads the log and verifies its chain, for read-only use.
    pub(super) async fn state(self, root: &Path) -> Result<State, EngineError> {
        let state = self.log(root).await?;
        ledger::verify_chain(&state.entries).map_err(HarnessError::from)?;
        Ok(state)
    }

    /// Loads the log and verifies its chain and its anchor, for appending to it.
    pub(super) async fn history_of(self, folder: &HarnessDirectory) -> Result<State, EngineError> {
        let state = self.state(&folder.root).await?;
        state.check_history()?;
        state.check_branch(folder).await?;
        state.check_identity(folder).await?;
        Ok(state)
    }
}

/// Active version at the end of a log.
pub(super) fn active_version(entries: &[Entry]) -> Option<&str> {
    entries.iter().rev().find_map(|entry| match entry.kind.as_str() {
        "adopted" => entry.body["version"].as_str(),
        "committed" => entry.body["detail"]["version"].as_str(),
        "restored" => entry.body["detail"]["exemption"]["to_version"].as_str(),
        _ => None,
    })
}

/// Loads every log entry of a harness.
pub(crate) async fn entries(store: &Store, harness_id: &str) -> Result<Vec<Entry>, EngineError> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let from = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        let page = store.harness().ledger(harness_id, from, PAGE).await?;
        let full = page.len() == PAGE as usize;
        for row in page {
            entries.push(entry(row)?);
        }
        if !full {
            return Ok(entries);
        }
    }
}

fn entry(row: LedgerRow) -> Result<Entry, EngineError> {
    let tampered = |what: String| EngineError::from(HarnessError::Tampered { what });
    let number = row.seq;
    Ok(Entry {
        seq: u64::try_from(row.seq)
            .map_err(|_| tampered(format!("log entry has invalid number {number}")))?,
        prev: row.prev,
        at: row
            .at
            .parse()
            .map_err(|_| tampered(format!("log entry {number} has no valid time")))?,
        kind: row.kind,
        body: serde_json::from_str(&row.body)
            .map_err(|_| tampered(format!("log entry {number} is not valid JSON")))?,
        hash: row.hash,
    })
}

impl State {
    /// The current time, but never before the last entry.
    pub(super) fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        self.entries.last().map_or(now, |last| now.max(last.at))
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The active version.
    pub(super) fn version(&self) -> Option<&str> {
        active_version(&self.entries)
    }

    /// Loads a record of this harness by the specification's key.
    pub(super) async fn record(&self, key: &str) -> Result<Option<Value>, EngineError> {
        let key = harness_record_key(&self.harness_id, key);
        Ok(self.store.records().get(&key).await?.map(|record| record.body))
    }

    /// Loads the manifest of a version and verifies its hash.
    pub(super) async fn manifest(&self, version: &str) -> Result<Manifest, EngineError> {
        let tampered = |what: &str| HarnessError::Tampered {
            what: format!("the manifest of version {} {what}", short(version)),
        };
        let row = self
            .store
            .harness()
            .version(&self.harness_id, version)
            .await?
            .ok_or_else(|| tampered("is missing"))?;
        let manifest: Manifest = serde_json::from_value(row.manifest).map_err(|_| tampered("is invalid"))?;
        if manifest.version() != version {
            return Err(tampered("was modified").into());
        }
        Ok(manifest)
    }

    /// Lock of the recorded version: the last one in the log or, before any lock was recorded, the version's
    /// manifest with everything else as in the tree.
    pub(super) async fn lock(&self, version: &str, tree: &Lock) -> Result<Lock, EngineError> {
        let manifest = self.manifest(version).await?;
        let recorded = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| entry.body["lock"].as_str());
        let Some(hash) = recorded else {
            return Ok(Lock {
                manifest,
                ..tree.clone()
            });
        };
        let tampered = |what: &str| HarnessError::Tampered {
            what: format!("the lock {} {what}", short(hash)),
        };
        let row = self
            .store
            .harness()
            .version(&self.harness_id, hash)
            .await?
            .ok_or_else(|| tampered("is missing"))?;
        let lock: Lock = serde_json::from_value(row.manifest).map_err(|_| tampered("cannot be read"))?;
        if lock.hash() != hash {
            return Err(tampered("was modified").into());
        }
        Ok(Lock { manifest, ..lock })
    }

    /// Loads the rolling window and verifies it against the log.
    pub(super) async fn aggregate(&self) -> Result<Option<Aggregate>, EngineError> {
        let recorded = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| entry.body["aggregate"].as_str());
        let record = self.record(AGGREGATE_KEY).await?;
        // A record that is not in the log is ignored.
        let Some(recorded) = recorded else {
            return Ok(None);
        };
        let Some(record) = record else {
            return Err(self.differs("the rolling window is missing").await);
        };
        match serde_json::from_value::<Aggregate>(record) {
            Ok(aggregate) if content_hash(&aggregate) == recorded => Ok(Some(aggregate)),
            _ => Err(self.differs("the rolling window was modified").await),
        }
    }

    /// Loads the record of a cycle, if it is still retained.
    pub(super) async fn cycle(&self, id: &str) -> Result<Option<CycleSnapshot>, EngineError> {
        let key = satiety::harness::cycles::cycle_key(id).map_err(HarnessError::from)?;
        let record = self.record(&key).await?;
        Ok(record.and_then(|record| serde_json::from_value(record).ok()))
    }

    /// Error for a value that does not match the log: either both were written concurrently, or the value was
    /// tampered with.
    async fn differs(&self, what: &str) -> EngineError {
        let from = i64::try_from(self.entries.len()).unwrap_or(i64::MAX);
        match self.store.harness().ledger(&self.harness_id, from, 1).await {
            Ok(newer) if newer.is_empty() => HarnessError::Tampered {
                what: what.to_owned(),
            }
            .into(),
            Ok(_) => HarnessError::Conflict.into(),
            Err(error) => error.into(),
        }
    }

    /// Loads an expansion and verifies it against the log.
    pub(super) async fn expansion(&self, id: &str) -> Result<Expansion, EngineError> {
        let key = satiety::harness::cycles::expansion_key(id).map_err(HarnessError::from)?;
        let recorded = self.entries.iter().rev().find_map(|entry| {
            (entry.body["expansion_id"] == *id)
                .then(|| entry.body[STATE].as_str())
                .flatten()
        });
        let Some(recorded) = recorded else {
            return Err(HarnessError::NoSuchExpansion(id.to_owned()).into());
        };
        let mut body = self.record(&key).await?.unwrap_or_default();
        let state = body.get_mut(STATE).map(Value::take).unwrap_or_default();
        match serde_json::from_value::<Expansion>(state) {
            Ok(expansion) if content_hash(&expansion) == recorded => Ok(expansion),
            _ => Err(self
                .differs(&format!("expansion {id} is missing or was modified"))
                .await),
        }
    }

    /// Loads the named expansion, or the open one.
    pub(super) async fn open_expansion(&self, named: Option<&str>) -> Result<Expansion, EngineError> {
        if let Some(id) = named {
            return self.expansion(id).await;
        }
        let open = self
            .aggregate()
            .await?
            .and_then(|aggregate| aggregate.open_expansion);
        let Some(id) = open else {
            return Err(HarnessError::NoExpansion.into());
        };
        let expansion = self.expansion(&id).await?;
        if expansion.is_over() {
            return Err(HarnessError::NoExpansion.into());
        }
        Ok(expansion)
    }

    /// Ids of used approvals.
    pub(super) fn spent(&self) -> BTreeSet<String> {
        self.entries
            .iter()
            .filter(|entry| entry.kind == "approved")
            .filter_map(|entry| entry.body["detail"]["approval_id"].as_str())
            .map(str::to_owned)
            .collect()
    }

    /// Whether the log contains this approval for this expansion.
    pub(super) fn knows_approval(&self, expansion: &str, approval: &Approval) -> bool {
        let id = approval.id();
        self.entries.iter().any(|entry| {
            entry.kind == "approved"
                && entry.body["expansion_id"] == *expansion
                && entry.body["detail"]["approval_id"] == *id
        })
    }

    /// Keys recorded in the log.
    pub(super) fn known_keys(&self) -> Option<KeyRing> {
        let entry = self.entries.iter().rev().find(|entry| entry.kind == "keys")?;
        serde_json::from_value(entry.body["keys"].clone()).ok()
    }

    /// Writes all changes in one transaction.
    pub(super) async fn write(&mut self, writing: Writing) -> Result<(), EngineError> {
        let mut entries: Vec<Entry> = Vec::new();
        for Event { kind, body } in writing.events {
            let last = entries.last().or(self.entries.last());
            entries.push(ledger::append(last, Timestamp::now(), kind, body));
        }
        let mut records = writing.records;
        for record in &mut records {
            record.key = harness_record_key(&self.harness_id, &record.key);
        }
        let change = HarnessChange {
            harness_id: self.harness_id.clone(),
            entries: entries.iter().map(row).collect(),
            records,
            versions: writing.versions,
        };
        if !self.store.harness().commit(&change).await? {
            return Err(HarnessError::Conflict.into());
        }
        self.entries.extend(entries);
        Ok(())
    }
}

fn row(entry: &Entry) -> LedgerRow {
    LedgerRow {
        seq: i64::try_from(entry.seq).unwrap_or(i64::MAX),
        prev: entry.prev.clone(),
        at: entry.at.to_string(),
        kind: entry.kind.clone(),
        body: entry.body.to_string(),
        hash: entry.hash.clone(),
    }
}

impl Writing {
    /// Adds an event.
    pub(super) fn event(mut self, kind: &str, body: Value) -> Self {
        self.events.push(Event {
            kind: kind.to_owned(),
            body,
        });
        self
    }

    /// Adds an event of an expansion, with the resulting state.
    pub(super) fn expansion(mut self, mut event: Event, expansion: &Expansion) -> Result<Self, EngineError> {
        event.body[STATE] = json!(content_hash(expansion));
        self.events.push(event);
        let record = expansion.record().map_err(HarnessError::from)?;
        let mut change = record_change(record);
        change.body[STATE] = serde_json::to_value(expansion)?;
        self.records.push(change);
        Ok(self)
    }

    /// Adds the window; its hash is stored in the last event.
    pub(super) fn aggregate(mut self, aggregate: &Aggregate) -> Self {
        if let Some(event) = self.events.last_mut() {
            event.body["aggregate"] = json!(content_hash(aggregate));
        }
        self.records.push(record_change(Record::aggregate(aggregate)));
        self
    }

    /// Adds a record of a cycle.
    pub(super) fn record(mut self, record: Record) -> Self {
        self.records.push(record_change(record));
        self
    }

    /// Adds a version, with its files if it is archived.
    pub(super) fn version(mut self, manifest: &Manifest, files: Option<Value>) -> Result<Self, EngineError> {
        self.versions.push(VersionRow {
            version: manifest.version(),
            manifest: serde_json::to_value(manifest)?,
            files,
        });
        Ok(self)
    }
}

impl Writing {
    /// Adds a lock under its hash.
    pub(super) fn lock(mut self, lock: &Lock) -> Result<Self, EngineError> {
        self.versions.push(VersionRow {
            version: lock.hash(),
            manifest: serde_json::to_value(lock)?,
            files: None,
        });
        Ok(self)
    }
}

fn record_change(record: Record) -> RecordChange {
    const DAY: i64 = 86_400_000_000;
    let mut body = record.value;
    if let Some(fields) = body.as_object_mut() {
        for (name, value) in record.tags {
            fields.entry(name).or_insert(Value::String(value));
        }
    }
    RecordChange {
        expires_at: retention_days(&record.key).map(|days| now_micros() + i64::from(days) * DAY),
        schema_version: satiety::harness::cycles::SCHEMA_VERSION.to_owned(),
        key: record.key,
        body,
    }
}

/// Maximum number of repetitions when other processes change the harness at the same time.
const ATTEMPTS: u32 = 12;

/// Repeats work that found the harness changed concurrently.
pub(super) async fn retry_conflicts<T, F>(mut work: impl FnMut() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut left = ATTEMPTS;
    loop {
        match work().await {
            Err(EngineError::Harness(HarnessError::Conflict)) if left > 0 => left -= 1,
            outcome => return outcome,
        }
    }
}

/// Abbreviates a hash for display.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
