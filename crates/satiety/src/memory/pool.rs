//! Candidates of one search with complete scores: a memory that only one channel found is scored by the other as well, and
//! a turn of a conversation is scored together with its neighbors.

use std::collections::{BTreeMap, BTreeSet};

use super::fusion::PoolScore;
use super::index::{Filter, MemoryIndex};
use super::{LexicalSettings, Question, TurnSettings, Weights};

/// Share of the mean over all chunks of a memory in its similarity; the nearest chunk has the rest. A memory that is about
/// the query as a whole is preferred to one that mentions it.
const MEAN_SHARE: f64 = 0.25;
/// Number of chunks of a memory that are compared with the query, besides the nearest one.
const MAX_CHUNKS: usize = 32;

/// Scores of all candidates.
#[derive(Debug, Default)]
pub(super) struct Pool {
    entries: BTreeMap<u32, Evidence>,
    candidates: BTreeSet<u32>,
}

/// What speaks for a memory as the answer to a query.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Evidence {
    /// BM25 score.
    pub(super) lexical: f64,
    /// Share of the query that its words cover, from 0 to 1.
    pub(super) coverage: f64,
    /// Cosine of the nearest chunk; absent without vectors.
    pub(super) cosine: Option<f64>,
    /// Cosine over all chunks.
    similarity: Option<f64>,
}

/// How memories are scored.
pub(super) struct Scorer<'a> {
    pub(super) index: &'a MemoryIndex,
    pub(super) question: Option<&'a Question<'a>>,
    pub(super) settings: LexicalSettings,
    pub(super) vector: Option<&'a [f32]>,
    pub(super) filter: &'a Filter,
    pub(super) turns: TurnSettings,
}

impl Scorer<'_> {
    fn evidence(&self, memory: u32) -> Evidence {
        let lexical = self
            .question
            .map_or(0.0, |question| question.score(self.settings, memory));
        let coverage = self
            .question
            .map_or(0.0, |question| question.coverage(self.settings, lexical));
        let (mut most, mut sum, mut count) = (f64::NEG_INFINITY, 0.0, 0_u32);
        if let Some(vector) = self.vector {
            let chunks = self.index.chunks_of(memory).take(MAX_CHUNKS);
            for number in chunks.filter_map(|chunk| chunk.vector) {
                if let Some(cosine) = self.index.vectors.cosine(number, vector) {
                    most = most.max(cosine);
                    sum += cosine;
                    count += 1;
                }
            }
        }
        let mean = sum / f64::from(count.max(1));
        Evidence {
            lexical,
            coverage,
            cosine: (count > 0).then_some(most),
            similarity: (count > 0).then_some((1.0 - MEAN_SHARE) * most + MEAN_SHARE * mean),
        }
    }

    /// Neighbors of a turn with their shares; none for other memories.
    fn neighbors(&self, memory: u32) -> Vec<(u32, f64)> {
        let mut found = Vec::new();
        if !self.turns.are_used() {
            return found;
        }
        let step = |from: Option<u32>, after: bool| {
            let next = from.and_then(|from| self.index.neighbor_turn(from, after));
            next.filter(|next| self.filter.allows(self.index, *next))
        };
        for (after, first_share) in [(false, self.turns.before), (true, self.turns.after)] {
            let first = step(Some(memory), after);
            let second = step(first, after);
            found.extend(first.map(|memory| (memory, first_share)));
            found.extend(second.map(|memory| (memory, self.turns.second)));
        }
        found
    }
}

impl Pool {
    /// Adds candidates, and scores their neighbors.
    pub(super) fn add(&mut self, scorer: &Scorer<'_>, memories: impl IntoIterator<Item = u32>) {
        for memory in memories {
            if self.candidates.insert(memory) {
                let around = scorer.neighbors(memory).into_iter().map(|(neighbor, _)| neighbor);
                for one in std::iter::once(memory).chain(around) {
                    self.entries.entry(one).or_insert_with(|| scorer.evidence(one));
                }
            }
        }
    }

    /// Makes the neighbors of these turns candidates as well.
    pub(super) fn add_neighbors(&mut self, scorer: &Scorer<'_>, seeds: impl IntoIterator<Item = u32>) {
        let neighbors: Vec<u32> = seeds
            .into_iter()
            .flat_map(|seed| scorer.neighbors(seed))
            .map(|(neighbor, _)| neighbor)
            .collect();
        self.add(scorer, neighbors);
    }

    pub(super) fn contains(&self, memory: u32) -> bool {
        self.candidates.contains(&memory)
    }

    /// Similarity of a memory that has more chunks than are compared: that of its nearest chunk, if it is known.
    pub(super) fn set_nearest(&mut self, memory: u32, cosine: f64) {
        if let Some(entry) = self.entries.get_mut(&memory)
            && entry.cosine.is_some_and(|known| known < cosine)
        {
            entry.cosine = Some(cosine);
            let similarity = (1.0 - MEAN_SHARE) * cosine + MEAN_SHARE * entry.similarity.unwrap_or(cosine);
            entry.similarity = Some(similarity);
        }
    }

    /// Evidence for a memory; none for a memory that is not a candidate. A turn of a conversation has its share of what
    /// speaks for its neighbors: an answer often shares no word with the question, but the turn before it does.
    pub(super) fn evidence(&self, scorer: &Scorer<'_>, memory: u32) -> Evidence {
        let mut evidence = self.entries.get(&memory).copied().unwrap_or_default();
        let neighbors = scorer.neighbors(memory);
        if neighbors.is_empty() {
            return evidence;
        }
        let mean = self.mean_similarity();
        for (neighbor, share) in neighbors {
            let Some(other) = self.entries.get(&neighbor) else {
                continue;
            };
            evidence.coverage = (evidence.coverage + share * other.coverage).min(1.0);
            if let (Some(cosine), Some(other)) = (&mut evidence.cosine, other.similarity) {
                *cosine = (*cosine + share * (other - mean).max(0.0)).min(1.0);
            }
        }
        evidence
    }

    /// Mean similarity of all candidates.
    fn mean_similarity(&self) -> f64 {
        let similarities = self
            .candidates
            .iter()
            .filter_map(|memory| self.entries.get(memory)?.similarity);
        let (sum, count) = similarities.fold((0.0, 0_u32), |(sum, count), one| (sum + one, count + 1));
        sum / f64::from(count.max(1))
    }

    /// Scores for the fusion. Neighbors of a turn contribute their share of what they score above the mean.
    /// `by_words` tells whether the lexical channel is searched.
    pub(super) fn scores(&self, scorer: &Scorer<'_>, by_words: bool) -> Vec<PoolScore> {
        let mean = self.mean_similarity();
        let scored = self.candidates.iter().filter_map(|memory| {
            let own = self.entries.get(memory)?;
            let (mut lexical, mut similarity) = (own.lexical, own.similarity);
            for (neighbor, share) in scorer.neighbors(*memory) {
                let Some(other) = self.entries.get(&neighbor) else {
                    continue;
                };
                lexical += share * other.lexical;
                if let (Some(similarity), Some(other)) = (&mut similarity, other.similarity) {
                    *similarity += share * (other - mean);
                }
            }
            Some(PoolScore {
                id: scorer.index.get(*memory)?.id.clone(),
                lexical: by_words.then_some(lexical),
                vector: similarity,
            })
        });
        scored.collect()
    }

    /// Relevance of the best candidate on an absolute scale from 0 to 1: the weighted mean of coverage and cosine.
    pub(super) fn level(&self, weights: Weights, by_words: bool) -> f64 {
        let lexical = if by_words { weights.lexical } else { 0.0 };
        let levels = self.candidates.iter().filter_map(|memory| {
            let one = self.entries.get(memory)?;
            let vector = if one.cosine.is_some() { weights.vector } else { 0.0 };
            let sum = lexical * one.coverage + vector * one.cosine.unwrap_or(0.0).max(0.0);
            Some(sum / (lexical + vector).max(f64::MIN_POSITIVE))
        });
        levels.fold(0.0, f64::max).min(1.0)
    }
}
