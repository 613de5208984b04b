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

/// Rows that are multiplied at the same time.
const LANES: usize = 8;

/// The [`cosine`] of a vector with several others, equal to the last bit: each sum adds in the order of the
/// dimensions. An addition takes several cycles, so that independent sums side by side are faster.
fn cosines(a: &[f32], rows: &[&[f32]; LANES]) -> [f64; LANES] {
    // The sum of no numbers is −0, as in the standard library.
    let mut sums = [-0.0_f32; LANES];
    let dimensions = rows.iter().map(|row| row.len()).fold(a.len(), usize::min);
    let (a, rows) = (&a[..dimensions], rows.map(|row| &row[..dimensions]));
    for (dimension, x) in a.iter().enumerate() {
        for (sum, row) in sums.iter_mut().zip(&rows) {
            *sum += x * row[dimension];
        }
    }
    sums.map(|sum| f64::from(sum).clamp(-1.0, 1.0))
}

/// Search for similar vectors among all earlier ones.
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

    /// The first claim below `horizon` whose similarity reaches a threshold.
    pub(super) fn first_similar(&self, vector: &[f32], horizon: usize, threshold: f64) -> Option<usize> {
        let mut found = None;
        self.for_each(vector, horizon, |claim, similarity| {
            if similarity >= threshold {
                found = Some(claim);
            }
            found.is_none()
        });
        found
    }

    /// Calls `each` with the claims below `horizon` and their similarity, until it returns `false`.
    fn for_each(&self, vector: &[f32], horizon: usize, mut each: impl FnMut(usize, f64) -> bool) {
        let count = self.claims.partition_point(|claim| *claim < horizon);
        let row = |at: usize| &self.values[at * self.dimensions..(at + 1) * self.dimensions];
        for start in (0..count).step_by(LANES) {
            let lanes = LANES.min(count - start);
            // The last rows are repeated to fill the lanes.
            let rows = std::array::from_fn(|lane| row(start + lane.min(lanes - 1)));
            let similarities = cosines(vector, &rows);
            for (lane, similarity) in similarities.into_iter().enumerate().take(lanes) {
                if !each(self.claims[start + lane], similarity) {
                    return;
                }
            }
        }
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
        let mut found = SimilarClaims {
            nearest: None,
            nearest_before: None,
            similar: Vec::new(),
        };
        let nearer = |best: Option<(usize, f64)>, next: (usize, f64)| match best {
            Some(best) if best.1 >= next.1 => Some(best),
            _ => Some(next),
        };
        self.for_each(vector, horizon, |claim, similarity| {
            found.nearest = nearer(found.nearest, (claim, similarity));
            if claim < before {
                found.nearest_before = nearer(found.nearest_before, (claim, similarity));
            }
            if threshold.is_some_and(|threshold| similarity >= threshold) && !is_refused(claim) {
                found.similar.push((claim, similarity));
            }
            true
        });
        // The nearest is listed in any case: it is the one that is reported as different.
        if let Some(nearest) = found.nearest
            && threshold.is_some_and(|threshold| nearest.1 >= threshold)
            && !found.similar.contains(&nearest)
        {
            found.similar.push(nearest);
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
    fn rows_side_by_side_give_the_same_bits() {
        let mut state = 3_u64;
        let mut vector = |size: usize| -> Vec<f32> {
            (0..size)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    f32::from(u16::try_from(state >> 48).unwrap()) / 32_768.0 - 1.0
                })
                .collect()
        };
        for (size, count) in [(384, 21), (1, 8), (7, 1), (3, 0)] {
            let mut search = SimilaritySearch::default();
            let vectors: Vec<Vec<f32>> = (0..count).map(|_| vector(size)).collect();
            for (claim, vector) in vectors.iter().enumerate() {
                search.insert(claim, vector);
            }
            let own = vector(size);
            let mut found = Vec::new();
            search.for_each(&own, usize::MAX, |claim, similarity| {
                found.push((claim, similarity.to_bits()));
                true
            });
            let expected = vectors.iter().map(|other| cosine(&own, other).to_bits());
            assert_eq!(found, expected.enumerate().collect::<Vec<_>>());
        }
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
