//! In-memory index of all memories as an immutable snapshot. It follows the database through change counters,
//! including changes of other processes: changed rows are reloaded into a clone of the index, which replaces
//! the snapshot. A search keeps the snapshot it started with; no lock is held during I/O or computation.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use satiety::memory::{IndexedChunk, IndexedMemory, MemoryIndex, Project, Provenance};
use satiety::retrieval::Tier;
use satiety_store::Store;
use satiety_store::memory::{ChunkTextRow, MemoryHeaderRow, MemoryState, ProvenanceRow};
use tokio::sync::Mutex;

use crate::EngineError;
use crate::retrieval::blocking;

/// Rows per page.
const PAGE: u32 = 5000;

/// The current snapshot of an engine.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Locked only to read or to replace the snapshot.
    snapshot: RwLock<Option<Snapshot>>,
    /// Serializes reloading.
    turn: Mutex<()>,
}

#[derive(Debug, Clone)]
struct Snapshot {
    state: MemoryState,
    index: Arc<MemoryIndex>,
}

/// Configured sentence model: its id and its dimension.
pub(super) type Wanted<'a> = Option<(&'a str, usize)>;

impl Cache {
    /// Returns the index at the current state of the database, with vectors of this embedder, or of any if
    /// none is given.
    pub(super) async fn current(
        &self,
        store: &Store,
        wanted: Wanted<'_>,
    ) -> Result<Arc<MemoryIndex>, EngineError> {
        let state = store.memories().state().await?;
        let covers = |snapshot: &Snapshot| {
            snapshot.state.change >= state.change
                && snapshot.state.deleted == state.deleted
                && wanted.is_none_or(|(name, _)| name == snapshot.index.embedder())
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
        let same = held.as_ref().filter(|held| held.index.embedder() == name);
        let next = match same.filter(|held| !held.index.needs_rebuild()) {
            Some(held) => apply_changes(store, held.clone(), state).await?,
            None => load(store, state, MemoryIndex::new(name, dimension)).await?,
        };
        let index = Arc::clone(&next.index);
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(index)
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let held = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }
}

/// Loads the changes since a snapshot and applies them to a clone.
async fn apply_changes(
    store: &Store,
    held: Snapshot,
    mut state: MemoryState,
) -> Result<Snapshot, EngineError> {
    let mut heads: Vec<MemoryHeaderRow> = Vec::new();
    let mut from = held.state.change;
    loop {
        let rows = store.memories().headers_after(from, PAGE).await?;
        let Some(last) = rows.last() else { break };
        from = last.change;
        heads.extend(rows);
    }
    state.change = state.change.max(from);
    let ids: Vec<String> = heads.iter().map(|head| head.memory_id.clone()).collect();
    let rows = store
        .memories()
        .chunks_of(&ids, !held.index.embedder().is_empty())
        .await?;
    let there = if held.state.deleted == state.deleted {
        None
    } else {
        Some(store.memories().ids().await?)
    };
    blocking(move || {
        let mut index = MemoryIndex::clone(&held.index);
        if let Some(there) = there {
            let there: HashSet<&str> = there.iter().map(String::as_str).collect();
            for id in held.index.ids().filter(|id| !there.contains(id)) {
                index.remove(id);
            }
        }
        let mut chunks: HashMap<String, Vec<ChunkTextRow>> = HashMap::new();
        for row in rows {
            chunks.entry(row.memory_id.clone()).or_default().push(row);
        }
        for head in heads {
            let own = chunks.remove(&head.memory_id).unwrap_or_default();
            index.put(indexed(head));
            set_chunks(&mut index, &own);
        }
        let index = Arc::new(index);
        Ok(Snapshot { state, index })
    })
    .await
}

/// Loads the complete index.
async fn load(
    store: &Store,
    mut state: MemoryState,
    mut index: MemoryIndex,
) -> Result<Snapshot, EngineError> {
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
    state.change = state.change.max(from);
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
    let index = Arc::new(index);
    Ok(Snapshot { state, index })
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
