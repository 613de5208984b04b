//! Second stage of a search: the best candidates are selected, completed with constitutional memories, and reranked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::index::ChunkEntry;
use super::super::{Channel, FusedHit, Hit, Stage};
use super::candidates::best_first;
use super::{Phase, SearchMachine};
use crate::text::{Tokenization, jaccard};

/// A candidate that is reranked.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) memory: u32,
    pub(super) fused: FusedHit,
    /// Chunk to return as excerpt.
    pub(super) chunk: ChunkEntry,
    pub(super) tokens: usize,
}

impl SearchMachine {
    /// Fuses again, including graph results, and selects the candidates to rerank.
    pub(super) fn choose_head(&mut self, elapsed_ms: &dyn Fn() -> f64) {
        let seeds = self.fused.len();
        if self.pipeline.channels.graph {
            let reached = std::mem::take(&mut self.links.reached).into_iter();
            let mut graph: Vec<Hit> = reached.map(|(id, score)| Hit::new(id, score)).collect();
            best_first(&mut graph);
            graph.retain(|hit| {
                let memory = self.index.position(&hit.id);
                memory.is_some_and(|memory| self.filter.allows(&self.index, memory))
            });
            graph.truncate(self.settings.candidates);
            self.hits.graph = graph;
            let index = Arc::clone(&self.index);
            let is_new = |hit: &Hit| {
                !index
                    .position(&hit.id)
                    .is_some_and(|memory| self.pool.contains(memory))
            };
            if self.hits.graph.iter().any(is_new) {
                self.complete_pool(self.question(&index).as_ref());
            }
            self.fused = self.fuse(true);
        }
        self.end_stage(Stage::Fusion, seeds, self.fused.len(), elapsed_ms());

        let rerank = self.pipeline.rerank;
        let rerank_count = (rerank.per_result * self.limit()).max(rerank.least);
        let rules = self.index.rules(&self.filter, &self.query.folder);
        let mut head = Vec::new();
        let fused = std::mem::take(&mut self.fused).into_iter();
        for (at, fused) in fused.take(self.settings.candidates).enumerate() {
            let Some(memory) = self.index.position(&fused.id) else {
                continue;
            };
            if at < rerank_count || rules.contains(&memory) {
                head.push((memory, fused));
            }
        }
        // Constitutional memories of parent folders also apply, whether a channel found them or not.
        let there: BTreeSet<u32> = head.iter().map(|(memory, _)| *memory).collect();
        for memory in rules.difference(&there) {
            let Some(header) = self.index.get(*memory) else {
                continue;
            };
            let fused = FusedHit {
                id: header.id.clone(),
                score: 0.0,
                channels: BTreeMap::new(),
            };
            head.push((*memory, fused));
        }
        for (memory, fused) in head {
            self.push_candidate(memory, fused);
        }
        self.want_links();
        self.end_head();
    }

    /// Completes the candidates once all their links are known.
    pub(super) fn end_head(&mut self) {
        if self.needs_links() {
            self.phase = Phase::Currency;
            return;
        }
        self.settle_currency();
        // Vector similarity is used only if this search uses the vector channel, regardless of the vectors in
        // the index.
        let by_words = |head: &&Head| self.vector.is_none() || head.chunk.vector.is_none();
        self.wanted = self
            .head
            .iter()
            .filter(by_words)
            .map(|head| head.chunk.doc)
            .collect();
        self.phase = if self.wanted.is_empty() {
            Phase::Rank
        } else {
            Phase::CompareTexts
        };
    }

    pub(super) fn limit(&self) -> usize {
        self.query.limit.unwrap_or(self.settings.limit)
    }

    /// Chunk to return for a memory: the best lexical one, else the nearest, else the first.
    pub(super) fn excerpt_chunk(&self, memory: u32, fused: &FusedHit) -> Option<ChunkEntry> {
        let by_words = fused.channels.contains_key(&Channel::Lexical);
        let place = self.hits.best_place.get(&memory).filter(|_| by_words);
        let mut own = self.index.chunks_of(memory);
        if let Some(place) = place {
            return own.nth(*place as usize).copied();
        }
        let nearest = self
            .hits
            .nearest
            .get(&memory)
            .and_then(|chunk| self.index.chunk(*chunk));
        nearest.or_else(|| own.next().copied())
    }

    pub(super) fn rank_head(&mut self, elapsed_ms: &dyn Fn() -> f64) {
        let words: Vec<BTreeSet<String>> = self
            .head
            .iter()
            .map(|head| self.texts.get(&head.chunk.doc))
            .map(|text| text.map(|text| Tokenization::Words.set(text)).unwrap_or_default())
            .collect();
        let diversity = self.pipeline.diversity;
        let budget = self.query.token_budget.unwrap_or(self.settings.token_budget);
        let settings = self.pipeline.rank_settings(self.limit(), budget);
        let currency = &self.currency;
        self.ranked = currency.rank_current(&self.candidates, &settings, |one, other| {
            let vectors = self.head[one].chunk.vector.zip(self.head[other].chunk.vector);
            let vectors = vectors.filter(|_| self.vector.is_some());
            let cosine = vectors.and_then(|(one, other)| self.index.vectors.similarity(one, other));
            match cosine {
                Some(cosine) => diversity.by_meaning(cosine),
                None => diversity.by_words(jaccard(&words[one], &words[other])),
            }
        });
        currency.attach(&self.candidates, &settings, &mut self.ranked);
        let (all, chosen) = (self.candidates.len(), self.ranked.chosen.len());
        self.end_stage(Stage::Rerank, all, chosen, elapsed_ms());
        let chosen = self.ranked.chosen.iter();
        let docs = chosen.filter_map(|chosen| Some(self.head.get(chosen.candidate)?.chunk.doc));
        self.wanted = docs.filter(|doc| !self.texts.contains_key(doc)).collect();
        self.phase = if self.wanted.is_empty() {
            Phase::Results
        } else {
            Phase::ResultTexts
        };
    }
}
