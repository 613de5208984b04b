//! First stage of a search: the channels find candidates, all candidates are scored by all channels, and their scores are
//! fused.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::super::fusion::fuse_standard_scores;
use super::super::index::MemoryIndex;
use super::super::pool::Scorer;
use super::super::{Channel, FusedHit, Fusion, Hit, Question, Stage, fuse, query_terms};
use super::SearchMachine;
use super::links::LinkWalk;

/// Number of best candidates of each channel that are compared by standard scores.
const POOL_SIZE: usize = 100;

/// Results of the channels, each list best first and without duplicate memories.
#[derive(Debug, Default)]
pub(super) struct ChannelHits {
    pub(super) lexical: Vec<Hit>,
    pub(super) vector: Vec<Hit>,
    pub(super) trigger: Vec<Hit>,
    pub(super) graph: Vec<Hit>,
    /// Number of results before deduplication by memory.
    pub(super) hits_before_dedup: usize,
    /// Nearest chunk of each memory, by number.
    pub(super) nearest: HashMap<u32, u32>,
    /// Index of the best lexical chunk of each memory with several chunks.
    pub(super) best_place: HashMap<u32, u32>,
}

impl SearchMachine {
    pub(super) fn scorer<'a>(&'a self, question: Option<&'a Question<'a>>) -> Scorer<'a> {
        Scorer {
            index: &self.index,
            question,
            settings: self.pipeline.lexical,
            vector: self.vector.as_deref(),
            filter: &self.filter,
            turns: self.pipeline.turns,
        }
    }

    /// Words of the query as a question to an index; absent if the lexical channel is off.
    pub(super) fn question<'a>(&self, index: &'a MemoryIndex) -> Option<Question<'a>> {
        self.pipeline.channels.lexical.then(|| {
            let terms = query_terms(&self.query.text, self.settings.expand);
            index
                .lexical
                .question(&terms.weighed(self.pipeline.lexical.expansion))
        })
    }

    /// Scores all candidates by all channels.
    pub(super) fn complete_pool(&mut self, question: Option<&Question<'_>>) {
        if self.pipeline.fusion != Fusion::ZScore {
            return;
        }
        let hits = &self.hits;
        let lists = [&hits.lexical, &hits.vector, &hits.trigger, &hits.graph];
        // More candidates than can be returned would only change the mean that all are compared with.
        let most = POOL_SIZE.max(2 * self.limit());
        let found = lists.into_iter().flat_map(|list| list.iter().take(most));
        let found = found.filter_map(|hit| self.index.position(&hit.id));
        let found: Vec<u32> = found.collect();
        let mut pool = std::mem::take(&mut self.pool);
        pool.add(&self.scorer(question), found);
        for hit in &self.hits.vector {
            if let Some(memory) = self.index.position(&hit.id) {
                pool.set_nearest(memory, hit.score);
            }
        }
        self.pool = pool;
    }

    /// Makes the neighbors of the best turns candidates.
    pub(super) fn add_neighbors(&mut self, question: Option<&Question<'_>>) {
        let seeds = self.fused.iter().take(self.pipeline.turns.seeds);
        let seeds: Vec<u32> = seeds.filter_map(|hit| self.index.position(&hit.id)).collect();
        let mut pool = std::mem::take(&mut self.pool);
        pool.add_neighbors(&self.scorer(question), seeds);
        self.pool = pool;
    }

    pub(super) fn search_channels(&mut self, elapsed_ms: &dyn Fn() -> f64) {
        let index = Arc::clone(&self.index);
        let question = self.question(&index);
        self.hits = self.search_all_channels(question.as_ref());
        let hits = &self.hits;
        let kept = hits.lexical.len() + hits.vector.len() + hits.trigger.len();
        let (all, hits_before_dedup) = (self.index.len(), hits.hits_before_dedup);
        self.end_stage(Stage::Candidate, all, hits_before_dedup, elapsed_ms());
        self.end_stage(Stage::Filter, hits_before_dedup, kept, elapsed_ms());
        self.complete_pool(question.as_ref());
        self.fused = self.fuse(false);
        if self.pipeline.fusion == Fusion::ZScore && self.pipeline.turns.are_used() {
            self.add_neighbors(question.as_ref());
            self.fused = self.fuse(false);
        }
        let seeds = self.fused.iter().take(self.pipeline.links.seeds);
        let top = self
            .fused
            .first()
            .map_or(1.0, |seed| seed.score)
            .max(f64::MIN_POSITIVE);
        self.links = LinkWalk {
            border: seeds.map(|seed| (seed.id.clone(), seed.score / top)).collect(),
            reached: BTreeMap::new(),
            hops_left: if self.pipeline.channels.graph {
                self.settings.hops
            } else {
                0
            },
        };
        self.phase = self.after_hop();
    }

    pub(super) fn search_all_channels(&self, question: Option<&Question<'_>>) -> ChannelHits {
        let (index, filter, most) = (&*self.index, &self.filter, self.settings.candidates);
        let (switches, settings) = (self.pipeline.channels, self.pipeline.lexical);
        let mut found = ChannelHits::default();
        let hit =
            |memory: u32, score: f64| index.get(memory).map(|header| Hit::new(header.id.clone(), score));
        let hits = |all: Vec<(u32, f64)>| -> Vec<Hit> {
            let hits = all.into_iter();
            hits.filter_map(|(memory, score)| hit(memory, score)).collect()
        };
        if let Some(question) = question {
            let all = question.search(settings, most, |memory| filter.allows(index, memory));
            found.hits_before_dedup += all.len();
            for (memory, _) in &all {
                if index.chunks_of(*memory).nth(1).is_some()
                    && let Some(place) = question.best_chunk(settings, *memory)
                {
                    found.best_place.insert(*memory, place);
                }
            }
            found.lexical = hits(all);
        }
        if let Some(vector) = &self.vector {
            // A memory has several chunks, of which more than one may be near.
            let chunks = most.saturating_mul(self.pipeline.candidates_over);
            let owner = |chunk: u32| index.chunk(chunk).map(|chunk| chunk.memory);
            let near = index.vectors.nearest(vector, chunks, |chunk| {
                owner(chunk).is_some_and(|memory| filter.allows(index, memory))
            });
            found.hits_before_dedup += near.len();
            for (chunk, cosine) in near {
                let Some(memory) = owner(chunk).filter(|_| found.vector.len() < most) else {
                    continue;
                };
                if let std::collections::hash_map::Entry::Vacant(place) = found.nearest.entry(memory) {
                    place.insert(chunk);
                    found.vector.extend(hit(memory, cosine));
                }
            }
        }
        if switches.trigger {
            let all = index
                .triggers
                .matches(&self.query.text, |memory| filter.allows(index, memory));
            found.hits_before_dedup += all.len();
            found.trigger = hits(all);
        }
        for list in [&mut found.lexical, &mut found.vector, &mut found.trigger] {
            // Ties are ordered by id, independently of the insertion order of the index.
            best_first(list);
            list.truncate(most);
        }
        found
    }

    pub(super) fn fuse(&self, with_graph: bool) -> Vec<FusedHit> {
        let switches = self.pipeline.channels;
        let lists = [
            (Channel::Lexical, &self.hits.lexical, switches.lexical),
            (Channel::Vector, &self.hits.vector, self.vector.is_some()),
            (Channel::Trigger, &self.hits.trigger, switches.trigger),
            (Channel::Graph, &self.hits.graph, with_graph),
        ];
        let searched = lists.into_iter().filter(|(.., searched)| *searched);
        let lists: Vec<(Channel, &[Hit])> = searched
            .map(|(channel, hits, _)| (channel, hits.as_slice()))
            .collect();
        if self.pipeline.fusion != Fusion::ZScore {
            return fuse(&lists, self.weights, self.pipeline.fusion);
        }
        let matched = self
            .hits
            .trigger
            .first()
            .map_or(0.0, |hit| self.weights.trigger * hit.score);
        let level = self.pool.level(self.weights, switches.lexical) + matched;
        let scores = self.pool.scores(&self.scorer(None), switches.lexical);
        fuse_standard_scores(&lists, &scores, self.weights, level.min(1.0))
    }
}

pub(super) fn best_first(hits: &mut [Hit]) {
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
}
