//! Copy-on-write collections: clones share unchanged parts, so that an index can be cloned, changed and
//! published while searches still read the previous version.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Number of values per block of a [`SharedVec`].
const BLOCK: usize = 256;
/// Number of shards of a [`SharedMap`].
const SHARDS: usize = 256;

/// A vector in blocks. A change copies the affected block if it is shared.
#[derive(Debug, Clone)]
pub(crate) struct SharedVec<T> {
    blocks: Vec<Arc<Vec<T>>>,
}

impl<T> Default for SharedVec<T> {
    fn default() -> Self {
        Self { blocks: Vec::new() }
    }
}

impl<T: Clone> SharedVec<T> {
    pub(crate) fn len(&self) -> usize {
        // All blocks except the last are full.
        let full = self.blocks.len().saturating_sub(1) * BLOCK;
        full + self.blocks.last().map_or(0, |block| block.len())
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.blocks.get(at / BLOCK)?.get(at % BLOCK)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        Arc::make_mut(self.blocks.get_mut(at / BLOCK)?).get_mut(at % BLOCK)
    }

    pub(crate) fn push(&mut self, value: T) {
        match self.blocks.last_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => Arc::make_mut(block).push(value),
            None => self.blocks.push(Arc::new(vec![value])),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flat_map(|block| block.iter())
    }
}

/// A hash map in shards. A change copies the affected shard if it is shared.
#[derive(Debug, Clone)]
pub(crate) struct SharedMap<K, V> {
    shards: Vec<Arc<FxHashMap<K, V>>>,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { shards: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> SharedMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.shards.get(shard_of(key))?.get(key)
    }

    /// Mutable value of a key; a missing one is inserted first.
    pub(crate) fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.shard(&key).entry(key).or_default()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.shard(&key).insert(key, value);
    }

    /// Mutable shard of a key. An empty map has no shards yet.
    fn shard(&mut self, key: &K) -> &mut FxHashMap<K, V> {
        if self.shards.is_empty() {
            self.shards = vec![Arc::default(); SHARDS];
        }
        Arc::make_mut(&mut self.shards[shard_of(key)])
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let shard = self.shards.get_mut(shard_of(key))?;
        // A shard without the key is not copied.
        shard.get(key)?;
        Arc::make_mut(shard).remove(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.shards.iter().flat_map(|shard| shard.keys())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }
}

/// Uses bits from the middle, because the table of a shard uses the lowest and the highest ones.
fn shard_of<Q: Hash + ?Sized>(key: &Q) -> usize {
    usize::try_from(FxBuildHasher.hash_one(key) >> 40).unwrap_or(0) % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Oracle: the standard collection. A clone taken in between is unaffected by later changes.
        #[test]
        fn shared_collections_match_standard_ones_and_clones_do_not_change(
            changes in proptest::collection::vec((0..600_u32, any::<bool>()), 0..900), cut in 0..900_usize,
        ) {
            let (mut vec, mut plain_vec) = (SharedVec::default(), Vec::new());
            let (mut map, mut plain_map) = (SharedMap::default(), HashMap::new());
            let mut kept = None;
            for (step, (number, grows)) in changes.iter().enumerate() {
                if step == cut {
                    kept = Some((vec.clone(), plain_vec.clone(), map.clone(), plain_map.clone()));
                }
                if *grows {
                    vec.push(*number);
                    plain_vec.push(*number);
                    map.insert(*number, step);
                    plain_map.insert(*number, step);
                } else {
                    if let Some(place) = vec.get_mut(*number as usize) { *place += 1; }
                    if let Some(place) = plain_vec.get_mut(*number as usize) { *place += 1; }
                    prop_assert_eq!(map.remove(number), plain_map.remove(number));
                    *map.entry(*number / 2) += 1;
                    *plain_map.entry(*number / 2).or_default() += 1;
                }
            }
            for (vec, plain_vec, map, plain_map) in kept.into_iter().chain([(vec, plain_vec, map, plain_map)]) {
                prop_assert_eq!(vec.len(), plain_vec.len());
                prop_assert!(vec.iter().eq(&plain_vec));
                prop_assert!((0..plain_vec.len()).all(|at| vec.get(at) == plain_vec.get(at)));
                prop_assert_eq!(map.len(), plain_map.len());
                prop_assert!(plain_map.iter().all(|(key, value)| map.get(key) == Some(value)));
                prop_assert_eq!(map.keys().count(), map.values().count());
            }
        }
    }
}
