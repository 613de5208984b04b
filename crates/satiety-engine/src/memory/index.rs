//! In-memory index of all memories as an immutable snapshot. It follows the database through the log of
//! changes, including changes of other processes: changed rows are reloaded into a clone of the index, which
//! replaces the snapshot. A search keeps the snapshot it started with; no lock is held during I/O or
//! computation.
//!
//! The first snapshot comes from a file if one fits the database ([`super::index_file`]), otherwise from the
//! database.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use satiety::memory::{IndexedChunk, IndexedMemory, MemoryIndex, Project, Provenance};
use satiety::retrieval::Tier;
use satiety_store::Store;
use satiety_store::memory::{ChangeAction, ChunkTextRow, MemoryHeaderRow, ProvenanceRow};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;

use super::embedding::EmbeddingQueue;
use super::index_file::{self, FileKey};
use crate::EngineError;
use crate::retrieval::blocking;

/// Rows per page.
const PAGE: u32 = 5000;
/// Number of memories below which no file is written: loading them takes less than a tenth of a second.
const MIN_MEMORIES_FOR_FILE: usize = 2000;
/// Number of changes after which the file is written again, at least, and as a share of the memories.
const MIN_CHANGES_FOR_FILE: i64 = 2000;
const CHANGES_PER_FILE: i64 = 50;
/// Time between two writes of the file.
const FILE_INTERVAL: Duration = Duration::from_mins(1);

/// The current snapshot of an engine.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Locked only to read or to replace the snapshot.
    snapshot: RwLock<Option<Snapshot>>,
    /// Serializes reloading.
    turn: Mutex<()>,
    file: Arc<FileState>,
    activity: StdMutex<IndexActivity>,
    pub(super) embedding: EmbeddingQueue,
}

#[derive(Debug, Clone)]
struct Snapshot {
    /// Number of the last change that the index contains.
    change: i64,
    index: Arc<MemoryIndex>,
}

/// State of the index file.
#[derive(Debug, Default)]
struct FileState {
    writing: AtomicBool,
    /// Change of the last file, and when it was written.
    last: StdMutex<Option<(i64, Instant)>>,
    problem: StdMutex<Option<String>>,
}

/// Where this process got its index from, and how it followed the database.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct IndexActivity {
    /// Number of times that the complete index was read from the database.
    pub loads_from_database: u64,
    /// Number of times that the index was read from its file.
    pub loads_from_file: u64,
    /// Duration of the last complete load, in milliseconds.
    pub load_ms: f64,
    /// Number of changed, deleted or newly embedded memories that were applied to the index.
    pub changes_applied: u64,
    /// Reason why the index file could not be read or written; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_problem: Option<String>,
}

/// Configured sentence model: its id and its dimension.
pub(super) type Wanted<'a> = Option<(&'a str, usize)>;

/// Place of the index files of an engine.
pub(super) struct FilePlace {
    pub(super) store: satiety_store::StoreUrl,
    pub(super) cache: Option<PathBuf>,
}

impl Cache {
    /// Returns the index at the current state of the database, with vectors of this embedder, or of any if
    /// none is given.
    pub(super) async fn current(
        &self,
        store: &Store,
        place: &FilePlace,
        wanted: Wanted<'_>,
    ) -> Result<Arc<MemoryIndex>, EngineError> {
        let change = store.memories().state().await?.change;
        let covers = |snapshot: &Snapshot| {
            snapshot.change >= change && wanted.is_none_or(|(name, _)| name == snapshot.index.embedder())
        };
        if let Some(snapshot) = self.snapshot().filter(covers) {
            return Ok(snapshot.index);
        }
        let _turn = self.turn.lock().await;
        let held = self.snapshot();
        if let Some(snapshot) = held.clone().filter(covers) {
            return Ok(snapshot.index);
        }
        let (name, dimension) = match (wanted, &held) {
            (Some(wanted), _) => wanted,
            (None, Some(held)) => (held.index.embedder(), held.index.dimension()),
            (None, None) => ("", 0),
        };
        let path = index_file::path(&place.store, place.cache.as_deref(), name);
        let same = held.clone().filter(|held| held.index.embedder() == name);
        let known = match same {
            Some(held) => Some(held),
            None => {
                self.read_file(store, path.as_ref(), name, dimension, change)
                    .await?
            }
        };
        let known = known.filter(|known| !known.index.needs_rebuild());
        let followed = match known {
            Some(known) => self.apply_changes(store, known, change).await?,
            None => None,
        };
        let next = match followed {
            Some(next) => next,
            None => {
                self.load(store, change, MemoryIndex::new(name, dimension))
                    .await?
            }
        };
        let index = Arc::clone(&next.index);
        if let Some(path) = path {
            self.write_file(store, path, &next).await;
        }
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(index)
    }

    /// What this process did to get its index.
    pub(super) fn activity(&self) -> IndexActivity {
        let mut activity = self
            .activity
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let problem = self.file.problem.lock().unwrap_or_else(PoisonError::into_inner);
        activity.file_problem.clone_from(&problem);
        activity
    }

    fn note(&self, change: impl FnOnce(&mut IndexActivity)) {
        change(&mut self.activity.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let held = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Reads the index from its file; `None` if there is none that fits the database.
    async fn read_file(
        &self,
        store: &Store,
        path: Option<&PathBuf>,
        embedder: &str,
        dimension: usize,
        change: i64,
    ) -> Result<Option<Snapshot>, EngineError> {
        let Some(path) = path.cloned() else {
            return Ok(None);
        };
        let began = Instant::now();
        let opened = blocking(move || Ok(index_file::open(&path))).await?;
        let file = match opened {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.file.note_problem(&error);
                return Ok(None);
            }
        };
        let key = file.key.clone();
        let fits = key.fingerprint == MemoryIndex::image_fingerprint()
            && (key.embedder.as_str(), key.dimension) == (embedder, dimension)
            && key.change <= change
            && store.memories().history_mark(key.change).await? == Some(key.mark);
        if !fits {
            tracing::debug!("the index file belongs to another state of the database or program");
            return Ok(None);
        }
        match blocking(move || Ok(file.index())).await? {
            Ok(index) => {
                *self.file.last.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((key.change, Instant::now()));
                self.note(|activity| {
                    activity.loads_from_file += 1;
                    activity.load_ms = began.elapsed().as_secs_f64() * 1e3;
                });
                let index = Arc::new(index);
                Ok(Some(Snapshot {
                    change: key.change,
                    index,
                }))
            }
            Err(error) => {
                self.file.note_problem(&error);
                Ok(None)
            }
        }
    }

    /// Writes the index file in the background if there is none or it is far behind.
    async fn write_file(&self, store: &Store, path: PathBuf, next: &Snapshot) {
        let memories = i64::try_from(next.index.len()).unwrap_or(i64::MAX);
        let enough = (memories / CHANGES_PER_FILE).max(MIN_CHANGES_FOR_FILE);
        let last = *self.file.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due =
            last.is_none_or(|(change, at)| next.change - change >= enough && at.elapsed() >= FILE_INTERVAL);
        if next.index.len() < MIN_MEMORIES_FOR_FILE || !due || self.file.writing.swap(true, Ordering::SeqCst)
        {
            return;
        }
        let mark = store.memories().history_mark(next.change).await;
        let (Ok(Some(mark)), snapshot, file) = (mark, next.clone(), Arc::clone(&self.file)) else {
            self.file.writing.store(false, Ordering::SeqCst);
            return;
        };
        *self.file.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((next.change, Instant::now()));
        tokio::task::spawn_blocking(move || {
            let key = FileKey {
                fingerprint: MemoryIndex::image_fingerprint(),
                embedder: snapshot.index.embedder().to_owned(),
                dimension: snapshot.index.dimension(),
                change: snapshot.change,
                mark,
            };
            if let Err(error) = index_file::write(&path, &key, &snapshot.index) {
                file.note_problem(&error);
            }
            file.writing.store(false, Ordering::SeqCst);
        });
    }

    /// Loads the changes since a snapshot, page by page, and applies them to a clone. `None` if the log of
    /// changes does not reach back so far.
    async fn apply_changes(
        &self,
        store: &Store,
        held: Snapshot,
        change: i64,
    ) -> Result<Option<Snapshot>, EngineError> {
        let mut index = MemoryIndex::clone(&held.index);
        let mut applied = 0;
        let mut from = held.change;
        loop {
            let rows = store.memories().headers_after(from, PAGE).await?;
            let Some(last) = rows.last() else { break };
            from = last.change;
            let is_last = rows.len() < PAGE as usize;
            applied += rows.len();
            index = reload(store, index, rows).await?;
            if is_last {
                break;
            }
        }
        // Read after the rows: a memory that was deleted in between is removed.
        let mut from = held.change;
        loop {
            let Some(rows) = store.memories().changes_after(from, PAGE).await? else {
                return Ok(None);
            };
            let Some(last) = rows.last() else { break };
            from = last.change;
            let is_last = rows.len() < PAGE as usize;
            applied += rows.len();
            let mut deleted: BTreeSet<String> = BTreeSet::new();
            let mut embedded = Vec::new();
            for row in rows {
                match row.action {
                    ChangeAction::Deleted => drop(deleted.insert(row.memory_id)),
                    ChangeAction::Embedded => embedded.push(row.memory_id),
                }
            }
            // A memory with this id may exist again.
            let ids: Vec<String> = deleted.iter().cloned().collect();
            for row in store.memories().by_id(&ids).await? {
                deleted.remove(&row.memory_id);
            }
            let chunks = store
                .memories()
                .chunks_of(&embedded, !index.embedder().is_empty())
                .await?;
            index = blocking(move || {
                for id in &deleted {
                    index.remove(id);
                }
                for own in chunks.chunk_by(|a, b| a.memory_id == b.memory_id) {
                    set_chunks(&mut index, own);
                }
                Ok(index)
            })
            .await?;
            if is_last {
                break;
            }
        }
        self.note(|activity| activity.changes_applied += applied as u64);
        // What was committed after `change` was read is applied again with the next search.
        let index = Arc::new(index);
        Ok(Some(Snapshot { change, index }))
    }

    /// Loads the complete index.
    async fn load(
        &self,
        store: &Store,
        change: i64,
        mut index: MemoryIndex,
    ) -> Result<Snapshot, EngineError> {
        let began = Instant::now();
        let with_vectors = !index.embedder().is_empty();
        let mut from = 0;
        loop {
            let rows = store.memories().headers_after(from, PAGE).await?;
            let Some(last) = rows.last() else { break };
            from = last.change;
            index = blocking(move || {
                for row in rows {
                    index.put(indexed(row));
                }
                Ok(index)
            })
            .await?;
        }
        let mut after = 0;
        // The chunks of a memory were written together, so they are consecutive; a page may end between them.
        let mut own: Vec<ChunkTextRow> = Vec::new();
        loop {
            let rows = store.memories().chunks_after(after, PAGE, with_vectors).await?;
            let Some(last) = rows.last() else { break };
            after = last.doc;
            (index, own) = blocking(move || {
                for row in rows {
                    if own.last().is_some_and(|last| last.memory_id != row.memory_id) {
                        set_chunks(&mut index, &std::mem::take(&mut own));
                    }
                    own.push(row);
                }
                Ok((index, own))
            })
            .await?;
        }
        set_chunks(&mut index, &own);
        self.note(|activity| {
            activity.loads_from_database += 1;
            activity.load_ms = began.elapsed().as_secs_f64() * 1e3;
        });
        // Changes since the start are applied with the next search: some of them may be missing here.
        let index = Arc::new(index);
        Ok(Snapshot { change, index })
    }
}

impl FileState {
    fn note_problem(&self, problem: &index_file::FileError) {
        tracing::debug!("index file: {problem}");
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem.to_string());
    }
}

/// Reads the chunks of changed memories and puts both into the index.
async fn reload(
    store: &Store,
    mut index: MemoryIndex,
    heads: Vec<MemoryHeaderRow>,
) -> Result<MemoryIndex, EngineError> {
    let ids: Vec<String> = heads.iter().map(|head| head.memory_id.clone()).collect();
    let rows = store
        .memories()
        .chunks_of(&ids, !index.embedder().is_empty())
        .await?;
    blocking(move || {
        let mut chunks: HashMap<String, Vec<ChunkTextRow>> = HashMap::new();
        for row in rows {
            chunks.entry(row.memory_id.clone()).or_default().push(row);
        }
        for head in heads {
            let own = chunks.remove(&head.memory_id).unwrap_or_default();
            index.put(indexed(head));
            set_chunks(&mut index, &own);
        }
        Ok(index)
    })
    .await
}

fn indexed(row: MemoryHeaderRow) -> IndexedMemory {
    IndexedMemory {
        tier: tier(&row.tier),
        id: row.memory_id,
        title: row.title,
        kind: row.kind,
        confidence: row.confidence,
        expires_at: row.expires_at,
        bytes: usize::try_from(row.bytes).unwrap_or(0),
        folder: row.folder,
        project: row.project.map(|id| Project {
            label: row.project_label.unwrap_or_else(|| id.clone()),
            id,
        }),
        phrases: row.phrases,
        provenance: provenance(row.provenance, row.created_at),
    }
}

/// Provenance of a row that was recorded at a time.
pub(super) fn provenance(row: ProvenanceRow, recorded_at: i64) -> Provenance {
    Provenance {
        author: row.author,
        tags: row.tags,
        recorded_at,
        observed_at: row.observed_at,
        valid_from: row.valid_from,
        valid_until: row.valid_until,
    }
}

fn set_chunks(index: &mut MemoryIndex, rows: &[ChunkTextRow]) {
    let Some(first) = rows.first() else { return };
    let chunks = rows.iter().map(|row| IndexedChunk {
        doc: row.doc,
        title: &row.title,
        phrases: &row.phrases,
        body: &row.body,
        vector: row
            .vector
            .as_ref()
            .map(|(model, text)| (model.as_str(), text.as_str())),
    });
    index.set_chunks(&first.memory_id, &chunks.collect::<Vec<_>>());
}

/// Parses a tier from the database; an unknown one counts as normal.
pub(super) fn tier(name: &str) -> Tier {
    satiety::memory::parse_tier(name).unwrap_or(Tier::Normal)
}
