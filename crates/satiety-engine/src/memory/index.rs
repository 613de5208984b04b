//! What is held in memory: tiers, folders and trigger phrases of all memories, and their vectors. It follows the store
//! by its counters: new rows are added, and after a deletion everything is read again.

use std::collections::HashMap;
use std::sync::Arc;

use satiety::memory::{VectorIndex, decode_vector};
use satiety::retrieval::Tier;
use satiety_store::Store;
use satiety_store::memory::{MemoryRow, MemoryState};
use tokio::sync::Mutex;

use crate::EngineError;

/// Rows that are read at once.
const PAGE: u32 = 5000;

/// The one index of an engine.
pub(crate) type Cache = Mutex<Option<Arc<Index>>>;

/// What is known about a memory without asking the store.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) tier: Tier,
    pub(super) folder: String,
    pub(super) phrases: Vec<String>,
    pub(super) expires_at: Option<i64>,
}

/// Everything that is held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    state: MemoryState,
    embedder: String,
    pub(super) known: Vec<Known>,
    positions: HashMap<String, u32>,
    pub(super) vectors: VectorIndex,
    /// Which memory and which piece each vector is of.
    pub(super) pieces: Vec<(u32, i64)>,
    /// Vectors of other models, which cannot be compared.
    pub(super) other_vectors: usize,
}

impl Index {
    /// The index as the store has it now, for vectors of this embedder.
    pub(super) async fn current(
        cache: &Cache,
        store: &Store,
        embedder: Option<(&str, usize)>,
    ) -> Result<Arc<Self>, EngineError> {
        let mut held = cache.lock().await;
        let state = store.memory_state().await?;
        let (name, dimension) = embedder.unwrap_or_default();
        let usable = |index: &&Arc<Self>| index.state.deleted == state.deleted && index.embedder == name;
        if let Some(index) = held.as_ref().filter(usable) {
            if index.state == state {
                return Ok(Arc::clone(index));
            }
            let mut next = held.take().map(Arc::unwrap_or_clone).unwrap_or_default();
            next.read_on(store, state).await?;
            return Ok(Arc::clone(held.insert(Arc::new(next))));
        }
        let mut next = Self {
            embedder: name.to_owned(),
            vectors: VectorIndex::new(dimension),
            ..Self::default()
        };
        next.state.deleted = state.deleted;
        next.read_on(store, state).await?;
        Ok(Arc::clone(held.insert(Arc::new(next))))
    }

    async fn read_on(&mut self, store: &Store, state: MemoryState) -> Result<(), EngineError> {
        self.read_memories(store).await?;
        loop {
            let rows = store.memory_vectors_after(self.state.doc, PAGE).await?;
            let Some(last) = rows.last() else { break };
            self.state.doc = last.doc;
            // Somebody may have written a memory with its pieces since we read memories.
            if rows
                .iter()
                .any(|row| !self.positions.contains_key(&row.memory_id))
            {
                self.read_memories(store).await?;
            }
            for row in rows {
                // Still unknown: deleted meanwhile, and then everything is read again the next time.
                let Some(&owner) = self.positions.get(&row.memory_id) else {
                    continue;
                };
                let vector = decode_vector(&row.vector).unwrap_or_default();
                let piece = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
                if row.embedder == self.embedder && self.vectors.push(piece, &vector) {
                    self.pieces.push((owner, row.doc));
                } else {
                    self.other_vectors += 1;
                }
            }
        }
        // Pieces without vectors are not among those that were read.
        self.state = MemoryState {
            doc: self.state.doc.max(state.doc),
            change: self.state.change.max(state.change),
            ..state
        };
        Ok(())
    }

    async fn read_memories(&mut self, store: &Store) -> Result<(), EngineError> {
        loop {
            let rows = store.memories_after(self.state.change, PAGE).await?;
            let Some(last) = rows.last() else { break };
            self.state.change = last.change;
            for row in rows {
                self.know(row);
            }
        }
        Ok(())
    }

    fn know(&mut self, row: MemoryRow) {
        let known = Known {
            tier: tier(&row.tier),
            folder: row.folder,
            phrases: row.triggers.into_iter().chain(row.learnt).collect(),
            expires_at: row.expires_at,
            id: row.memory_id,
        };
        if let Some(at) = self.positions.get(&known.id) {
            if let Some(place) = self.known.get_mut(*at as usize) {
                *place = known;
            }
        } else {
            let at = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
            self.positions.insert(known.id.clone(), at);
            self.known.push(known);
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Known> {
        self.known.get(*self.positions.get(id)? as usize)
    }
}

/// A tier as the store has it; one that nobody knows counts as normal.
pub(super) fn tier(name: &str) -> Tier {
    satiety::memory::tier_named(name).unwrap_or(Tier::Normal)
}
