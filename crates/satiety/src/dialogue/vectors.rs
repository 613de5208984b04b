//! Embeddings of a round: which texts to embed, and validation of the resulting vectors.
//! This module does not run a model; callers compute the vectors.

use thiserror::Error;

use super::Profile;
use super::wire::Round;

/// Errors in the vectors of a round.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum VectorError {
    /// The number of vectors differs from the number of texts.
    #[error("expected {expected} vectors, one per text of `texts_to_embed`, got {got}")]
    Count {
        /// Number of texts.
        expected: usize,
        /// Number of vectors.
        got: usize,
    },
    /// Vectors have different dimensions.
    #[error("expected vectors of {expected} dimensions, got one of {got}")]
    Length {
        /// Dimensions of the other vectors.
        expected: usize,
        /// Dimensions of this vector.
        got: usize,
    },
    /// A vector has no direction.
    #[error("vector {position} is zero or contains a value that is not finite")]
    NoDirection {
        /// Zero-based index of the vector.
        position: usize,
    },
    /// Rounds of one conversation were embedded with different models.
    #[error("cannot mix embedders: earlier rounds use `{first}`, this round uses `{now}`")]
    OtherEmbedder {
        /// Embedder of the earlier rounds.
        first: String,
        /// Embedder of this round.
        now: String,
    },
}

/// Returns the texts of a round to embed: claims, open questions, next actions and decisions, in this order.
pub fn texts_to_embed(round: &Round) -> Vec<String> {
    let outputs = &round.outputs;
    let claims = outputs.claims.iter().map(|claim| &claim.text);
    claims
        .chain(&outputs.open_questions)
        .chain(&outputs.next_actions)
        .chain(&outputs.decisions)
        .cloned()
        .collect()
}

/// Returns prototype sentences of implicit blockers. Embed them once and pass the vectors to
/// [`Conversation::with_blocker_prototypes`](super::Conversation::with_blocker_prototypes).
pub fn prototype_texts(profile: &Profile) -> Vec<String> {
    profile.blockers.prototypes.clone()
}

/// Normalized vectors of the texts of one round, grouped by kind.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundVectors {
    /// Name of the embedding model.
    pub(super) embedder: String,
    pub(super) claims: Vec<Vec<f32>>,
    pub(super) questions: Vec<Vec<f32>>,
    pub(super) actions: Vec<Vec<f32>>,
    pub(super) decisions: Vec<Vec<f32>>,
}

impl RoundVectors {
    /// Groups the vectors of [`texts_to_embed`] for this round and normalizes them.
    pub fn new(
        embedder: impl Into<String>,
        round: &Round,
        vectors: Vec<Vec<f32>>,
    ) -> Result<Self, VectorError> {
        let outputs = &round.outputs;
        let counts = [
            outputs.claims.len(),
            outputs.open_questions.len(),
            outputs.next_actions.len(),
            outputs.decisions.len(),
        ];
        let expected = counts.iter().sum();
        if vectors.len() != expected {
            return Err(VectorError::Count {
                expected,
                got: vectors.len(),
            });
        }
        let mut vectors = normalized(vectors)?.into_iter();
        let [claims, questions, actions, decisions] =
            counts.map(|count| vectors.by_ref().take(count).collect::<Vec<_>>());
        Ok(Self {
            embedder: embedder.into(),
            claims,
            questions,
            actions,
            decisions,
        })
    }

    /// Dimensions of the vectors; `None` for a round without texts.
    pub(super) fn dimensions(&self) -> Option<usize> {
        [&self.claims, &self.questions, &self.actions, &self.decisions]
            .into_iter()
            .find_map(|vectors| vectors.first())
            .map(Vec::len)
    }

    /// Checks that the number of vectors of each kind matches `round`.
    pub(super) fn check_counts(&self, round: &Round) -> Result<(), VectorError> {
        let outputs = &round.outputs;
        let expected = [&outputs.open_questions, &outputs.next_actions, &outputs.decisions].map(Vec::len);
        let got = [&self.questions, &self.actions, &self.decisions].map(Vec::len);
        if expected == got && self.claims.len() == outputs.claims.len() {
            return Ok(());
        }
        Err(VectorError::Count {
            expected: expected.iter().sum::<usize>() + outputs.claims.len(),
            got: got.iter().sum::<usize>() + self.claims.len(),
        })
    }
}

/// Normalizes every vector, so that the cosine similarity is the dot product.
pub(super) fn normalized(mut vectors: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, VectorError> {
    let expected = vectors.first().map_or(0, Vec::len);
    for (position, vector) in vectors.iter_mut().enumerate() {
        if vector.len() != expected {
            return Err(VectorError::Length {
                expected,
                got: vector.len(),
            });
        }
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !(norm.is_finite() && norm > 0.0) {
            return Err(VectorError::NoDirection { position });
        }
        for x in vector.iter_mut() {
            *x /= norm;
        }
    }
    Ok(vectors)
}

/// Cosine similarity of two normalized vectors.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    f64::from(a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>()).clamp(-1.0, 1.0)
}

/// Whether the [`cosine`] of two normalized vectors reaches a threshold. Most pairs are decided by the faster
/// approximation.
pub(super) fn is_similar(a: &[f32], b: &[f32], threshold: f64) -> bool {
    f64::from(approximate_product(a, b)) + margin(a.len()) >= threshold && cosine(a, b) >= threshold
}

/// Scalar product with independent partial sums, which the processor adds in parallel.
fn approximate_product(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    let mut sums = [0.0_f32; LANES];
    for (x, y) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Largest difference between [`approximate_product`] and the product in the order of the dimensions. The
/// rounding error of either is at most n·u·Σ|xᵢyᵢ| with u = 2⁻²⁴, and the sum is at most 1 for unit vectors
/// (Cauchy-Schwarz); twice that, as the bound is of first order and the vectors are normalized in `f32`.
fn margin(dimensions: usize) -> f64 {
    const UNIT_ROUNDOFF: f64 = 1.0 / 16_777_216.0;
    4.0 * dimensions as f64 * UNIT_ROUNDOFF
}

/// Exact search for similar vectors among all earlier ones, for claims.
#[derive(Debug, Clone, Default)]
pub(super) struct SimilaritySearch {
    dimensions: usize,
    /// Vectors one after the other.
    values: Vec<f32>,
    /// Index of the claim of each vector, ascending.
    claims: Vec<usize>,
}

/// Claims by similarity to a vector; earlier claims first on ties.
#[derive(Debug)]
pub(super) struct SimilarClaims {
    pub(super) nearest: Option<(usize, f64)>,
    /// The nearest claim of earlier rounds.
    pub(super) nearest_before: Option<(usize, f64)>,
    /// Claims that reach the threshold, nearest first.
    pub(super) similar: Vec<(usize, f64)>,
}

impl SimilaritySearch {
    /// Adds the normalized vector of a claim.
    pub(super) fn insert(&mut self, claim: usize, vector: &[f32]) {
        self.dimensions = vector.len();
        self.values.extend_from_slice(vector);
        self.claims.push(claim);
    }

    /// Compares a vector with those of the claims below `horizon`. `before` is the number of claims of earlier
    /// rounds. Claims that `is_refused` excludes are not listed as similar, except the nearest one.
    pub(super) fn search(
        &self,
        vector: &[f32],
        horizon: usize,
        before: usize,
        threshold: Option<f64>,
        is_refused: impl Fn(usize) -> bool,
    ) -> SimilarClaims {
        let rows = || {
            let vectors = self.values.chunks_exact(self.dimensions.max(1));
            self.claims.iter().copied().zip(vectors)
        };
        let rows = || rows().take_while(|(claim, _)| *claim < horizon);
        let margin = margin(self.dimensions);
        let approximate: Vec<f64> = rows()
            .map(|(_, other)| f64::from(approximate_product(vector, other)))
            .collect();
        // Whatever is below may not be nearest; similarities above 1 are rounding errors and count as 1.
        let (mut floor, mut floor_before) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for ((claim, _), similarity) in rows().zip(&approximate) {
            let least = (similarity - margin).min(1.0);
            floor = floor.max(least);
            if claim < before {
                floor_before = floor_before.max(least);
            }
        }
        let mut found = SimilarClaims {
            nearest: None,
            nearest_before: None,
            similar: Vec::new(),
        };
        let nearer = |best: Option<(usize, f64)>, next: (usize, f64)| match best {
            Some(best) if best.1 >= next.1 => Some(best),
            _ => Some(next),
        };
        for ((claim, other), similarity) in rows().zip(&approximate) {
            let most = similarity + margin;
            let may_be_nearest = most >= floor;
            let may_be_nearest_before = claim < before && most >= floor_before;
            let may_be_similar = threshold.is_some_and(|threshold| most >= threshold)
                && (may_be_nearest || !is_refused(claim));
            if !(may_be_nearest || may_be_nearest_before || may_be_similar) {
                continue;
            }
            let next = (claim, cosine(vector, other));
            if may_be_nearest {
                found.nearest = nearer(found.nearest, next);
            }
            if may_be_nearest_before {
                found.nearest_before = nearer(found.nearest_before, next);
            }
            if may_be_similar && threshold.is_some_and(|threshold| next.1 >= threshold) {
                found.similar.push(next);
            }
        }
        found
            .similar
            .sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::wire::Outputs;

    fn round() -> Round {
        Round::new(
            1,
            Outputs {
                claims: vec!["c".into()],
                open_questions: vec!["q".into()],
                decisions: vec!["d".into()],
                ..Outputs::default()
            },
        )
    }

    #[test]
    fn vectors_are_sorted_as_the_texts_were_given() {
        assert_eq!(texts_to_embed(&round()), ["c", "q", "d"]);
        let vectors = RoundVectors::new(
            "m",
            &round(),
            vec![vec![2.0, 0.0], vec![0.0, 1.0], vec![3.0, 4.0]],
        )
        .unwrap();
        assert_eq!(vectors.claims, [[1.0, 0.0]]);
        assert_eq!(vectors.questions, [[0.0, 1.0]]);
        assert_eq!(vectors.decisions, [[0.6, 0.8]]);
        assert!((cosine(&vectors.claims[0], &vectors.decisions[0]) - 0.6).abs() < 1e-7);
    }

    #[test]
    fn wrong_vectors_are_refused() {
        let new = |vectors| RoundVectors::new("m", &round(), vectors).unwrap_err();
        assert_eq!(new(vec![vec![1.0]]), VectorError::Count { expected: 3, got: 1 });
        assert_eq!(
            new(vec![vec![1.0], vec![1.0, 2.0], vec![1.0]]),
            VectorError::Length { expected: 1, got: 2 }
        );
        assert_eq!(
            new(vec![vec![1.0], vec![0.0], vec![1.0]]),
            VectorError::NoDirection { position: 1 }
        );
        assert_eq!(
            new(vec![vec![1.0], vec![f32::NAN], vec![1.0]]),
            VectorError::NoDirection { position: 1 }
        );
    }
}
