//! What the store knows about the harness: the log, verified from its beginning, and the values that it vouches for.
//! Whatever is read beside the log is held against a hash in it, so an edit of the store is found before it is believed.

use crate::handles::HarnessOperations;
use std::collections::BTreeSet;
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
use super::directory::Folder;
use super::identity::RepositoryMarks;
use crate::EngineError;

/// Entries that are read at a time.
const PAGE: u32 = 1000;
/// Where the whole state of an expansion lies in its record, beside what the specification puts there.
const STATE: &str = "state";

/// The log and the store behind it.
#[derive(Debug)]
pub(super) struct State {
    store: Store,
    /// The harness; empty as long as it has no identity.
    pub(super) harness_id: String,
    /// What the repository says about it.
    pub(super) marks: RepositoryMarks,
    pub(super) entries: Vec<Entry>,
}

/// What is written together.
#[derive(Debug, Default)]
pub(super) struct Writing {
    events: Vec<Event>,
    records: Vec<RecordChange>,
    versions: Vec<VersionRow>,
}

impl HarnessOperations<'_> {
    /// The log of the harness in a directory, whether it is whole or not.
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

    /// The log, verified by itself, for whoever only looks.
    pub(super) async fn state(self, root: &Path) -> Result<State, EngineError> {
        let state = self.log(root).await?;
        ledger::verify_chain(&state.entries).map_err(HarnessError::from)?;
        Ok(state)
    }

    /// The log, verified by itself and against what the repository knows, for whoever goes on with it.
    pub(super) async fn history_of(self, folder: &Folder) -> Result<State, EngineError> {
        let state = self.state(&folder.root).await?;
        state.check_history()?;
        state.check_branch(folder).await?;
        state.check_identity(folder).await?;
        Ok(state)
    }
}

/// The version in force at the end of a log.
pub(super) fn version_in_force(entries: &[Entry]) -> Option<&str> {
    entries.iter().rev().find_map(|entry| match entry.kind.as_str() {
        "adopted" => entry.body["version"].as_str(),
        "committed" => entry.body["detail"]["version"].as_str(),
        "restored" => entry.body["detail"]["exemption"]["to_version"].as_str(),
        _ => None,
    })
}

/// Every entry of a harness, as it is stored.
pub(super) async fn entries(store: &Store, harness_id: &str) -> Result<Vec<Entry>, EngineError> {
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
            .map_err(|_| tampered(format!("an entry of the log has number {number}")))?,
        prev: row.prev,
        at: row
            .at
            .parse()
            .map_err(|_| tampered(format!("entry {number} of the log has no time")))?,
        kind: row.kind,
        body: serde_json::from_str(&row.body)
            .map_err(|_| tampered(format!("entry {number} of the log is no JSON")))?,
        hash: row.hash,
    })
}

impl State {
    /// The time, never before the last entry's.
    pub(super) fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        self.entries.last().map_or(now, |last| now.max(last.at))
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The version in force.
    pub(super) fn version(&self) -> Option<&str> {
        version_in_force(&self.entries)
    }

    /// A record of this harness by the specification's key.
    pub(super) async fn record(&self, key: &str) -> Result<Option<Value>, EngineError> {
        let key = harness_record_key(&self.harness_id, key);
        Ok(self.store.records().get(&key).await?.map(|record| record.body))
    }

    /// A version's manifest, which must be what its name says.
    pub(super) async fn manifest(&self, version: &str) -> Result<Manifest, EngineError> {
        let tampered = |what: &str| HarnessError::Tampered {
            what: format!("the manifest of version {} {what}", short(version)),
        };
        let row = self
            .store
            .harness()
            .version(&self.harness_id, version)
            .await?
            .ok_or_else(|| tampered("is gone"))?;
        let manifest: Manifest = serde_json::from_value(row.manifest).map_err(|_| tampered("is none"))?;
        if manifest.version() != version {
            return Err(tampered("was edited").into());
        }
        Ok(manifest)
    }

    /// The lock of the recorded version: what the log last recorded, or, before a lock was ever recorded, the version's
    /// manifest with everything else as the tree has it.
    pub(super) async fn lock(&self, version: &str, tree: &Lock) -> Result<Lock, EngineError> {
        let manifest = self.manifest(version).await?;
        let told = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| entry.body["lock"].as_str());
        let Some(hash) = told else {
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
            .ok_or_else(|| tampered("is gone"))?;
        let lock: Lock = serde_json::from_value(row.manifest).map_err(|_| tampered("cannot be read"))?;
        if lock.hash() != hash {
            return Err(tampered("was edited").into());
        }
        Ok(Lock { manifest, ..lock })
    }

    /// The rolling window, as it was when the log last spoke of it.
    pub(super) async fn aggregate(&self) -> Result<Option<Aggregate>, EngineError> {
        let told = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| entry.body["aggregate"].as_str());
        let record = self.record(AGGREGATE_KEY).await?;
        // A record that the log knows nothing of is not believed.
        let Some(told) = told else {
            return Ok(None);
        };
        let Some(record) = record else {
            return Err(self.differs("the rolling window is gone").await);
        };
        match serde_json::from_value::<Aggregate>(record) {
            Ok(aggregate) if content_hash(&aggregate) == told => Ok(Some(aggregate)),
            _ => Err(self.differs("the rolling window was edited").await),
        }
    }

    /// A cycle's record, while it is kept.
    pub(super) async fn cycle(&self, id: &str) -> Result<Option<CycleSnapshot>, EngineError> {
        let key = satiety::harness::cycles::cycle_key(id).map_err(HarnessError::from)?;
        let record = self.record(&key).await?;
        Ok(record.and_then(|record| serde_json::from_value(record).ok()))
    }

    /// What was read beside the log does not fit it: somebody wrote both meanwhile, or somebody tampered.
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

    /// An expansion, as it was when the log last spoke of it.
    pub(super) async fn expansion(&self, id: &str) -> Result<Expansion, EngineError> {
        let key = satiety::harness::cycles::expansion_key(id).map_err(HarnessError::from)?;
        let told = self.entries.iter().rev().find_map(|entry| {
            (entry.body["expansion_id"] == *id)
                .then(|| entry.body[STATE].as_str())
                .flatten()
        });
        let Some(told) = told else {
            return Err(HarnessError::NoSuchExpansion(id.to_owned()).into());
        };
        let mut body = self.record(&key).await?.unwrap_or_default();
        let state = body.get_mut(STATE).map(Value::take).unwrap_or_default();
        match serde_json::from_value::<Expansion>(state) {
            Ok(expansion) if content_hash(&expansion) == told => Ok(expansion),
            _ => Err(self
                .differs(&format!("expansion {id} is gone or was edited"))
                .await),
        }
    }

    /// The expansion that was named, or the one that is open.
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

    /// Approvals that were used.
    pub(super) fn spent(&self) -> BTreeSet<String> {
        self.entries
            .iter()
            .filter(|entry| entry.kind == "approved")
            .filter_map(|entry| entry.body["detail"]["approval_id"].as_str())
            .map(str::to_owned)
            .collect()
    }

    /// Whether the log knows this approval as given to this expansion.
    pub(super) fn knows_approval(&self, expansion: &str, approval: &Approval) -> bool {
        let id = approval.id();
        self.entries.iter().any(|entry| {
            entry.kind == "approved"
                && entry.body["expansion_id"] == *expansion
                && entry.body["detail"]["approval_id"] == *id
        })
    }

    /// The keys that the log knows.
    pub(super) fn known_keys(&self) -> Option<KeyRing> {
        let entry = self.entries.iter().rev().find(|entry| entry.kind == "keys")?;
        serde_json::from_value(entry.body["keys"].clone()).ok()
    }

    /// Writes what belongs together, or nothing.
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
    /// An event of its own.
    pub(super) fn event(mut self, kind: &str, body: Value) -> Self {
        self.events.push(Event {
            kind: kind.to_owned(),
            body,
        });
        self
    }

    /// An event of an expansion, with the state that it leads to.
    pub(super) fn expansion(mut self, mut event: Event, expansion: &Expansion) -> Result<Self, EngineError> {
        event.body[STATE] = json!(content_hash(expansion));
        self.events.push(event);
        let record = expansion.record().map_err(HarnessError::from)?;
        let mut change = record_change(record);
        change.body[STATE] = serde_json::to_value(expansion)?;
        self.records.push(change);
        Ok(self)
    }

    /// The window; the last event vouches for it.
    pub(super) fn aggregate(mut self, aggregate: &Aggregate) -> Self {
        if let Some(event) = self.events.last_mut() {
            event.body["aggregate"] = json!(content_hash(aggregate));
        }
        self.records.push(record_change(Record::aggregate(aggregate)));
        self
    }

    /// A record of a cycle.
    pub(super) fn record(mut self, record: Record) -> Self {
        self.records.push(record_change(record));
        self
    }

    /// A version, with its files where it is archived.
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
    /// A lock, under its hash.
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

/// The beginning of a hash, as people say it.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
