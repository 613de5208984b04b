//! Small hash tables: positions of queries by id, and an index of the documents of one query.

use super::{RetrievalError, RetrievalResult, fast_parse};

/// Ids of queries in one buffer, with an index of their positions.
#[derive(Debug, Clone, Default)]
pub(super) struct Queries {
    ids: Vec<u8>,
    ends: Vec<u32>,
    index: Index,
}

impl Queries {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn position(&self, name: &[u8]) -> Option<usize> {
        if self.ends.is_empty() {
            return None;
        }
        self.index
            .find(fast_parse::hash(name), |position| self.bytes(position) == name)
    }

    pub(super) fn name(&self, position: usize) -> &str {
        text(self.bytes(position))
    }

    pub(super) fn bytes(&self, position: usize) -> &[u8] {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ids[start as usize..self.ends[position] as usize]
    }

    pub(super) fn intern(&mut self, name: &[u8]) -> RetrievalResult<u32> {
        let next = position(self.ends.len())?;
        if self.index.is_full(self.ends.len()) {
            self.index.clear(2 * self.ends.len());
            for position in 0..self.ends.len() {
                let hash = fast_parse::hash(self.bytes(position));
                self.index.find_or_add(hash, position, |_| false);
            }
        }
        let (ids, ends) = (&self.ids, &self.ends);
        let same = |other: usize| {
            let start = other.checked_sub(1).map_or(0, |before| ends[before]);
            &ids[start as usize..ends[other] as usize] == name
        };
        if let Some(found) = self
            .index
            .find_or_add(fast_parse::hash(name), self.ends.len(), same)
        {
            return position(found);
        }
        self.ids.extend_from_slice(name);
        self.ends.push(position(self.ids.len())?);
        Ok(next)
    }
}

/// A small open-addressing hash index that is reused for each query without reallocation.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// Hash and position + 1; position 0 marks a free slot.
    slots: Vec<(u32, u32)>,
    mask: usize,
}

impl Index {
    /// Clears the index and reserves capacity for `capacity` entries.
    pub(super) fn clear(&mut self, capacity: usize) {
        // At most a quarter full, so that most lookups of absent entries end at the first slot.
        let size = (4 * capacity).next_power_of_two().max(8);
        self.slots.clear();
        self.slots.resize(size, (0, 0));
        self.mask = size - 1;
    }

    /// Whether adding another entry to `count` entries exceeds the load limit.
    fn is_full(&self, count: usize) -> bool {
        2 * (count + 1) > self.slots.len()
    }

    /// Position of an equal entry.
    #[inline]
    pub(super) fn find(&self, hash: u32, same: impl Fn(usize) -> bool) -> Option<usize> {
        self.probe(hash, same).ok()
    }

    /// Position of an equal entry; otherwise adds this one and returns `None`.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "positions of items fit in 32 bits"
    )]
    pub(super) fn find_or_add(
        &mut self,
        hash: u32,
        position: usize,
        same: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match self.probe(hash, same) {
            Ok(found) => Some(found),
            Err(slot) => {
                self.slots[slot] = (hash, position as u32 + 1);
                None
            }
        }
    }

    /// Position of an equal entry, or the first free slot as the error.
    #[inline]
    fn probe(&self, hash: u32, same: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let mut slot = hash as usize & self.mask;
        loop {
            let (other, position) = self.slots[slot];
            if position == 0 {
                return Err(slot);
            }
            if other == hash && same(position as usize - 1) {
                return Ok(position as usize - 1);
            }
            slot = (slot + 1) & self.mask;
        }
    }
}

pub(super) fn position(value: usize) -> RetrievalResult<u32> {
    // The maximum is excluded, because the index stores position + 1.
    match u32::try_from(value) {
        Ok(value) if value < u32::MAX => Ok(value),
        _ => Err(RetrievalError::TooLarge),
    }
}

/// Ids are valid UTF-8, because readers reject other bytes.
pub(super) fn text(id: &[u8]) -> &str {
    std::str::from_utf8(id).unwrap_or_default()
}
