//! Vectors of pieces of text, in memory: bytes to look through quickly, finer numbers to rank the best exactly.
//!
//! Looking through all vectors is bound by memory bandwidth, so bytes are what counts: eight bits a component find the
//! best few dozen, and sixteen bits put those in order.

/// Candidates for each result that are ranked again with finer numbers.
const AGAIN: usize = 50;

/// Vectors of one embedder, each with the position of what it belongs to.
#[derive(Debug, Clone, Default)]
pub struct VectorIndex {
    dimension: usize,
    coarse: Vec<i8>,
    /// What one step of each coarse vector is worth, up to a factor that is the same for all.
    steps: Vec<f32>,
    fine: Vec<i16>,
    owners: Vec<Option<u32>>,
}

impl VectorIndex {
    /// No vectors yet, of so many components.
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension,
            ..Self::default()
        }
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        self.owners.iter().flatten().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the vectors take.
    pub fn bytes(&self) -> usize {
        self.coarse.len() + 2 * self.fine.len() + 12 * self.owners.len()
    }

    /// Adds a vector; false when it has another number of components, and then it is left out.
    pub fn push(&mut self, owner: u32, vector: &[i16]) -> bool {
        if vector.len() != self.dimension || self.dimension == 0 {
            return false;
        }
        // The largest component of this vector decides the step, so that small ones are not all zero.
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
        self.coarse.extend(coarse);
        #[expect(clippy::cast_precision_loss, reason = "at most 32768")]
        self.steps.push(largest as f32);
        self.fine.extend_from_slice(vector);
        self.owners.push(Some(owner));
        true
    }

    /// Forgets the vectors of those for which `gone` is true. Their room is taken up when the index is built anew.
    pub fn forget(&mut self, gone: impl Fn(u32) -> bool) {
        for owner in &mut self.owners {
            if owner.is_some_and(&gone) {
                *owner = None;
            }
        }
    }

    /// The owners of the nearest vectors with their cosines, nearest first; each vector by itself.
    pub fn nearest(&self, query: &[f32], most: usize, wanted: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
        if query.len() != self.dimension || most == 0 || self.dimension == 0 {
            return Vec::new();
        }
        let coarse_query = quantise(query);
        let rows = self.coarse.chunks_exact(self.dimension);
        let mut found: Vec<(f32, usize)> = rows
            .zip(&self.steps)
            .zip(&self.owners)
            .enumerate()
            .filter(|(_, (_, owner))| owner.is_some_and(&wanted))
            .map(|(at, ((row, step), _))| (dot(row, &coarse_query) as f32 * step, at))
            .collect();
        let kept = (most + AGAIN).min(found.len());
        if kept < found.len() {
            found.select_nth_unstable_by(kept, |a, b| b.0.total_cmp(&a.0));
            found.truncate(kept);
        }
        let mut best: Vec<(u32, f64)> = found
            .into_iter()
            .filter_map(|(_, at)| {
                let start = at * self.dimension;
                let fine = self.fine.get(start..start + self.dimension)?;
                let owner = self.owners.get(at).copied().flatten()?;
                Some((owner, cosine(fine, query)))
            })
            .collect();
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        best.truncate(most);
        best
    }
}

fn dot(row: &[i8], query: &[i8]) -> i32 {
    row.iter()
        .zip(query)
        .map(|(a, b)| i32::from(*a) * i32::from(*b))
        .sum()
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

/// A vector of length 1 as text: sixteen bits a component, little end first, in base 64. The error of a component is
/// at most 1.6e-5.
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

/// The components that [`encode_vector`] wrote; nothing when the text is something else.
pub fn decode_vector(text: &str) -> Option<Vec<i16>> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(text)
        .ok()?;
    let (pairs, rest) = bytes.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|pair| i16::from_le_bytes(*pair)).collect())
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
    fn a_vector_comes_back_and_damage_is_told() {
        let text = encode_vector(&[1.0, -1.0, 0.5, 0.0]);
        // Little end first: ff7f 0180 0040 0000.
        assert_eq!(text, "/38BgABAAAA");
        assert_eq!(decode_vector(&text), Some(vec![32767, -32767, 16384, 0]));
        assert_eq!(decode_vector("/38B"), None);
        assert_eq!(decode_vector("no base64!"), None);
    }

    #[test]
    fn vectors_of_another_size_are_left_out_and_owners_can_go() {
        let mut index = VectorIndex::new(2);
        assert!(!index.push(9, &[1, 2, 3]));
        assert!(index.push(0, &[32767, 0]) && index.push(1, &[0, 32767]));
        assert_eq!(index.nearest(&[1.0, 0.0, 0.0], 5, |_| true), []);
        assert_eq!(index.nearest(&[0.0, 1.0], 5, |owner| owner == 0), [(0, 0.0)]);
        index.forget(|owner| owner == 1);
        assert_eq!(
            (index.len(), index.nearest(&[0.0, 1.0], 1, |_| true)),
            (1, vec![(0, 0.0)])
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// The oracle is the plain search through all vectors in full precision.
        #[test]
        fn the_nearest_are_those_of_the_plain_search(seed in any::<u64>()) {
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((state >> 40) as f32 / (1u64 << 24) as f32) - 0.5
            };
            let vectors: Vec<Vec<f32>> = (0..400).map(|_| unit(&(0..32).map(|_| next()).collect::<Vec<_>>())).collect();
            let query = unit(&(0..32).map(|_| next()).collect::<Vec<_>>());
            let mut index = VectorIndex::new(32);
            for (owner, vector) in (0..).zip(&vectors) {
                prop_assert!(index.push(owner, &decode_vector(&encode_vector(vector)).unwrap()));
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
