//! In-memory vector index for chunks: 8-bit vectors for a fast scan, 16-bit vectors for exact ranking of the
//! best.
//!
//! A scan over all vectors is bound by memory bandwidth, so size matters: 8 bits per component find the best
//! few dozen, and 16 bits rank them.

mod image;

use std::sync::Arc;

use super::cpu;

/// Number of candidates beyond the requested ones that are rescored with 16-bit vectors.
const RESCORE_EXTRA: usize = 50;
/// Number of vectors per block; each block is scanned before its best are selected.
const BLOCK: usize = 1024;

/// Vectors of one embedding model, each with the number of its owner.
#[derive(Debug, Clone, Default)]
pub struct VectorIndex {
    dimension: usize,
    /// [`BLOCK`] vectors each; clones share blocks, and a change copies the last one.
    blocks: Vec<Arc<Block>>,
    /// One per block; apart from it, because removing a vector changes only this.
    slots: Vec<Arc<Slots>>,
    len: usize,
    gone: usize,
}

/// Owners of the vectors of a block.
#[derive(Debug, Clone, Default)]
struct Slots {
    /// Quantization step of each 8-bit vector, up to a common factor.
    steps: Vec<f32>,
    owners: Vec<Option<u32>>,
}

#[derive(Debug, Clone, Default)]
struct Block {
    coarse: Vec<i8>,
    fine: Vec<i16>,
}

impl VectorIndex {
    /// Creates an empty index for vectors with the given number of components.
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension,
            ..Self::default()
        }
    }

    /// Number of components of each vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of vectors in the index.
    pub fn len(&self) -> usize {
        self.len - self.gone
    }

    /// Number of vectors including removed ones; their numbers are below it.
    pub(super) fn slots(&self) -> usize {
        self.len
    }

    /// Whether the index has no vectors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of removed vectors that still use memory.
    pub fn gone(&self) -> usize {
        self.gone
    }

    /// Memory used by the vectors, in bytes.
    pub fn bytes(&self) -> usize {
        let blocks = self.blocks.iter();
        let components: usize = blocks
            .map(|block| block.coarse.capacity() + 2 * block.fine.capacity())
            .sum();
        let owners: usize = self.slots.iter().map(|slots| slots.owners.capacity()).sum();
        components + 12 * owners
    }

    /// Adds a vector and returns its number, or `None` without adding it if the dimension does not match.
    pub fn push(&mut self, owner: u32, vector: &[i16]) -> Option<u32> {
        if vector.len() != self.dimension || self.dimension == 0 {
            return None;
        }
        let number = u32::try_from(self.len).ok()?;
        // The largest component of the vector determines the step, so that small vectors do not become zero.
        let largest = vector
            .iter()
            .map(|value| i32::from(*value).abs())
            .max()
            .unwrap_or(0)
            .max(1);
        #[expect(clippy::cast_possible_truncation, reason = "at most 127 by division")]
        let coarse = vector
            .iter()
            .map(|value| (i32::from(*value) * 127 / largest) as i8);
        if self.len.is_multiple_of(BLOCK) {
            self.blocks.push(Arc::default());
            self.slots.push(Arc::default());
        }
        let block = Arc::make_mut(self.blocks.last_mut()?);
        block.coarse.extend(coarse);
        block.fine.extend_from_slice(vector);
        let slots = Arc::make_mut(self.slots.last_mut()?);
        #[expect(clippy::cast_precision_loss, reason = "at most 32768")]
        slots.steps.push(largest as f32);
        slots.owners.push(Some(owner));
        self.len += 1;
        Some(number)
    }

    /// Removes a vector. Its memory is not reclaimed; rebuild the index when too many are removed.
    pub fn remove(&mut self, number: u32) {
        let (block, at) = (number as usize / BLOCK, number as usize % BLOCK);
        let Some(slots) = self.slots.get_mut(block) else {
            return;
        };
        // A block without the vector is not copied.
        if slots.owners.get(at).is_some_and(Option::is_some)
            && let Some(owner) = Arc::make_mut(slots).owners.get_mut(at)
        {
            *owner = None;
            self.gone += 1;
        }
    }

    fn owner(&self, number: u32) -> Option<u32> {
        let slots = self.slots.get(number as usize / BLOCK)?;
        slots.owners.get(number as usize % BLOCK).copied().flatten()
    }

    /// Cosine similarity of two vectors, by their numbers.
    pub fn similarity(&self, one: u32, other: u32) -> Option<f64> {
        let sum: i64 = self
            .fine_vector(one)?
            .iter()
            .zip(self.fine_vector(other)?)
            .map(|(a, b)| i64::from(i32::from(*a) * i32::from(*b)))
            .sum();
        Some(sum as f64 / (f64::from(i16::MAX) * f64::from(i16::MAX)))
    }

    /// Cosine similarity of a stored vector, by its number, and another one of the same dimension.
    pub fn cosine(&self, number: u32, other: &[f32]) -> Option<f64> {
        (other.len() == self.dimension).then_some(())?;
        Some(cosine(self.fine_vector(number)?, other))
    }

    fn fine_vector(&self, number: u32) -> Option<&[i16]> {
        let block = self.blocks.get(number as usize / BLOCK)?;
        let start = number as usize % BLOCK * self.dimension;
        block.fine.get(start..start + self.dimension)
    }

    /// Owners of the nearest vectors with their cosine similarities, nearest first; one entry per vector.
    pub fn nearest(&self, query: &[f32], most: usize, wanted: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
        if query.len() != self.dimension || most == 0 || self.dimension == 0 {
            return Vec::new();
        }
        let coarse_query = quantise(query);
        let kept = most + RESCORE_EXTRA;
        // Candidates below the worst of the best so far are dropped early.
        let mut found: Vec<(f32, u32)> = Vec::with_capacity(2 * kept);
        let mut bar = f32::NEG_INFINITY;
        let mut products = Vec::with_capacity(BLOCK);
        let blocks = self.blocks.iter().zip(&self.slots);
        for ((block, slots), first) in blocks.zip((0..).step_by(BLOCK)) {
            cpu::products(&block.coarse, &coarse_query, &mut products);
            let about = slots.steps.iter().zip(&slots.owners);
            for ((at, product), (step, owner)) in (first..).zip(&products).zip(about) {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the error is far below that of the bytes"
                )]
                let score = *product as f32 * step;
                if score > bar && owner.is_some_and(&wanted) {
                    found.push((score, u32::try_from(at).unwrap_or(u32::MAX)));
                    if found.len() == 2 * kept {
                        bar = best_of(&mut found, kept);
                    }
                }
            }
        }
        best_of(&mut found, kept);
        let mut best: Vec<(u32, f64)> = found
            .into_iter()
            .filter_map(|(_, at)| {
                let owner = self.owner(at)?;
                Some((owner, cosine(self.fine_vector(at)?, query)))
            })
            .collect();
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        best.truncate(most);
        best
    }
}

/// Keeps the best `kept` entries, in any order, and returns the score of the worst of them.
fn best_of(found: &mut Vec<(f32, u32)>, kept: usize) -> f32 {
    if found.len() <= kept {
        return f32::NEG_INFINITY;
    }
    let better = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    found.select_nth_unstable_by(kept - 1, better);
    found.truncate(kept);
    found.last().map_or(f32::NEG_INFINITY, |(score, _)| *score)
}

fn cosine(fine: &[i16], query: &[f32]) -> f64 {
    let dot: f64 = fine
        .iter()
        .zip(query)
        .map(|(a, b)| f64::from(*a) * f64::from(*b))
        .sum();
    dot / f64::from(i16::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "at most 127 by division")]
fn quantise(query: &[f32]) -> Vec<i8> {
    let largest = query
        .iter()
        .fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    query
        .iter()
        .map(|value| (value / largest * 127.0).round() as i8)
        .collect()
}

/// Encodes a vector of length 1 as text: 16 bits per component, little-endian, in base64. The error of a
/// component is at most 1.6e-5.
pub fn encode_vector(vector: &[f32]) -> String {
    use base64::Engine;
    let bytes: Vec<u8> = vector
        .iter()
        .flat_map(|value| component(*value).to_le_bytes())
        .collect();
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes)
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range before")]
fn component(value: f32) -> i16 {
    (value.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16
}

/// Decodes the components written by [`encode_vector`]; returns `None` for any other text.
pub(crate) fn decode_vector(text: &str) -> Option<Vec<i16>> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(text)
        .ok()?;
    let (pairs, rest) = bytes.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|pair| i16::from_le_bytes(*pair)).collect())
}

/// Reads a vector written by [`encode_vector`]; returns `None` for any other text.
pub fn read_vector(text: &str) -> Option<Vec<f32>> {
    let unit = f32::from(i16::MAX);
    let components = decode_vector(text)?.into_iter();
    Some(components.map(|value| f32::from(value) / unit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unit(values: &[f32]) -> Vec<f32> {
        let length = values
            .iter()
            .map(|value| value * value)
            .sum::<f32>()
            .sqrt()
            .max(1e-9);
        values.iter().map(|value| value / length).collect()
    }

    #[test]
    fn a_vector_round_trips_and_damage_is_detected() {
        let text = encode_vector(&[1.0, -1.0, 0.5, 0.0]);
        // Little-endian: ff7f 0180 0040 0000.
        assert_eq!(text, "/38BgABAAAA");
        assert_eq!(decode_vector(&text), Some(vec![32767, -32767, 16384, 0]));
        assert_eq!(decode_vector("/38B"), None);
        assert_eq!(decode_vector("no base64!"), None);
    }

    #[test]
    fn vectors_of_another_dimension_are_ignored_and_owners_can_be_removed() {
        let mut index = VectorIndex::new(2);
        assert_eq!(index.push(9, &[1, 2, 3]), None);
        assert_eq!(
            [index.push(0, &[32767, 0]), index.push(1, &[0, 32767])],
            [Some(0), Some(1)]
        );
        assert_eq!(
            [
                index.similarity(0, 0),
                index.similarity(0, 1),
                index.similarity(0, 2)
            ],
            [Some(1.0), Some(0.0), None]
        );
        assert_eq!(index.nearest(&[1.0, 0.0, 0.0], 5, |_| true), []);
        assert_eq!(index.nearest(&[0.0, 1.0], 5, |owner| owner == 0), [(0, 0.0)]);
        index.remove(1);
        index.remove(1);
        assert_eq!(
            (index.len(), index.nearest(&[0.0, 1.0], 1, |_| true)),
            (1, vec![(0, 0.0)])
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Oracle: exhaustive search over all vectors in full precision.
        #[test]
        fn the_nearest_match_an_exhaustive_search(seed in any::<u64>()) {
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((state >> 40) as f32 / (1u64 << 24) as f32) - 0.5
            };
            let vectors: Vec<Vec<f32>> = (0..400).map(|_| unit(&(0..32).map(|_| next()).collect::<Vec<_>>())).collect();
            let query = unit(&(0..32).map(|_| next()).collect::<Vec<_>>());
            let mut index = VectorIndex::new(32);
            for (owner, vector) in (0..).zip(&vectors) {
                prop_assert_eq!(index.push(owner, &decode_vector(&encode_vector(vector)).unwrap()), Some(owner));
            }
            let mut plain: Vec<f64> = vectors.iter()
                .map(|vector| vector.iter().zip(&query).map(|(a, b)| f64::from(a * b)).sum())
                .collect();
            let found = index.nearest(&query, 10, |_| true);
            for (owner, cosine) in &found {
                prop_assert!((plain[*owner as usize] - cosine).abs() < 2e-4);
            }
            plain.sort_by(|a, b| b.total_cmp(a));
            for ((_, cosine), expected) in found.iter().zip(&plain) {
                prop_assert!((cosine - expected).abs() < 2e-4, "{cosine} {expected}");
            }
        }
    }
}
