//! Sans-I/O search state machine: [`SearchMachine::next`] returns the next action, [`SearchMachine::observe`]
//! takes its result, and [`SearchMachine::compute`] does CPU work on a thread of the caller's choice.
//!
//! Channels find candidates, their lists are fused, causal links add neighbours, constitutional memories of
//! the folder are added, the best candidates are ranked, and results within limit and token budget are
//! returned.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::fusion::fuse_standard_scores;
use super::index::{ChunkEntry, Filter, MemoryHeader, MemoryIndex};
use super::pool::{Evidence, Pool, Scorer};
use super::{
    Candidate, Channel, ChannelRank, Classified, FusedHit, Fusion, Hit, Mode, ModeChoice, ModeSettings,
    Project, Question, Ranking, Scope, SearchOutcome, SessionSettings, Stage, StageTrace, ValidPipeline,
    Weights, choose_mode, classify, estimate_tokens, fuse, is_research, quality_proxy, query_terms, rank,
    session_attention, truncate_query, wants_depth,
};
use crate::retrieval::Tier;
use crate::text::language::{Language, Script};
use crate::text::{Tokenization, jaccard};

/// Number of best candidates of each channel that are compared by standard scores.
const POOL_SIZE: usize = 100;

/// Parameters of a search request.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    /// Query text in natural language.
    pub text: String,
    /// Search mode; chosen by intent and context usage when absent.
    pub mode: Option<Mode>,
    /// Maximum number of results; defaults to that of the mode.
    pub limit: Option<usize>,
    /// Maximum number of tokens of all results; defaults to that of the mode.
    pub token_budget: Option<usize>,
    /// Used fraction of the caller's context, from 0 to 1.
    pub token_usage: Option<f64>,
    /// Restricts the search to this folder and below, plus constitutional memories of its parent folders.
    /// Empty for all folders.
    pub folder: String,
    /// Scope of visible projects.
    pub scope: Scope,
    /// Whether to exclude results that the session has already received.
    pub skip_shown: bool,
    /// Whether to return results even if none reaches the relevance floor.
    pub below_floor: bool,
}

/// Earlier queries and feedback of the session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionHistory {
    shown: BTreeSet<String>,
    attention: BTreeMap<String, f64>,
    research_of: Option<String>,
}

impl SessionHistory {
    /// `queries` are those of the session with id, text and results, newest first. `used` are memories that
    /// were read, quoted or judged useful, each with the query that found it.
    pub fn new<'a>(
        asked: &str,
        queries: &[(String, String, Vec<String>)],
        used: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
        settings: SessionSettings,
    ) -> Self {
        // Number of queries since the one that the use belongs to.
        let turns = |query: Option<&str>| {
            let at = queries.iter().position(|(id, ..)| Some(id.as_str()) == query);
            u32::try_from(at.unwrap_or(0)).unwrap_or(settings.look_back)
        };
        let used = used.into_iter().map(|(memory, query)| (memory, turns(query)));
        let again = queries
            .first()
            .filter(|(_, query, _)| is_research(&truncate_query(asked), query));
        Self {
            attention: session_attention(used, settings.decay),
            shown: queries
                .iter()
                .flat_map(|(_, _, results)| results.iter().cloned())
                .collect(),
            research_of: again.map(|(id, ..)| id.clone()),
        }
    }
}

/// Next action that a search requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Embed the query; answered by [`Observation::QueryVector`].
    EmbedQuery,
    /// Load the index and the session history; answered by [`Observation::Index`].
    OpenIndex,
    /// Do CPU work: call [`SearchMachine::compute`].
    Compute {
        /// Approximate number of bytes to process, as an estimate of the duration.
        bytes: usize,
    },
    /// Read all links that start or end at these memories; answered by [`Observation::Links`].
    ReadLinks(Vec<String>),
    /// Read the texts of these chunks; answered by [`Observation::Texts`].
    ReadTexts(Vec<i64>),
    /// The search is complete: call [`SearchMachine::finish`].
    Done,
}

/// Result of an [`Action`].
#[derive(Debug, Clone)]
pub enum Observation {
    /// Vector of the query; absent without a model, in which case the vector channel is not used.
    QueryVector {
        /// Vector of length 1.
        vector: Option<Vec<f32>>,
        /// Duration of the embedding in milliseconds.
        took_ms: f64,
    },
    /// Index snapshot for the whole search.
    Index {
        /// Index with vectors of the model that embedded the query.
        index: Arc<MemoryIndex>,
        /// Session history of the caller.
        history: SessionHistory,
        /// Current time in microseconds since 1970.
        now: i64,
    },
    /// Links, each from one memory to another.
    Links(Vec<(String, String)>),
    /// Texts by chunk number. A missing one was changed or deleted in the meantime.
    Texts(Vec<(i64, String)>),
}

/// State of a search: the awaited observation or the next computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Embed,
    Open,
    Channels,
    Links,
    Fuse,
    CompareTexts,
    Rank,
    ResultTexts,
    Results,
    Done,
}

/// A running memory search.
#[derive(Debug)]
pub struct SearchMachine {
    pipeline: Arc<ValidPipeline>,
    query: SearchQuery,
    intent: Classified,
    mode: ModeChoice,
    settings: ModeSettings,
    weights: Weights,
    /// Factor of the vector weight for the language of the query.
    language_factor: f64,
    phase: Phase,
    vector: Option<Vec<f32>>,
    embedding_ms: f64,
    index: Arc<MemoryIndex>,
    history: SessionHistory,
    filter: Filter,
    hits: ChannelHits,
    pool: Pool,
    fused: Vec<FusedHit>,
    links: LinkWalk,
    head: Vec<Head>,
    candidates: Vec<Candidate>,
    /// Chunks whose texts are awaited.
    wanted: Vec<i64>,
    texts: HashMap<i64, String>,
    ranked: Ranking,
    results: Vec<MemoryResult>,
    outcome: SearchOutcome,
    below_floor: Vec<WeakResult>,
    stages: Vec<StageTrace>,
    stage_began: f64,
}

/// Results of the channels, each list best first and without duplicate memories.
#[derive(Debug, Default)]
struct ChannelHits {
    lexical: Vec<Hit>,
    vector: Vec<Hit>,
    trigger: Vec<Hit>,
    graph: Vec<Hit>,
    /// Number of results before deduplication by memory.
    hits_before_dedup: usize,
    /// Nearest chunk of each memory, by number.
    nearest: HashMap<u32, u32>,
    /// Index of the best lexical chunk of each memory with several chunks.
    best_place: HashMap<u32, u32>,
}

/// Traversal of causal links from the best results: each neighbour inherits a fraction of the score.
#[derive(Debug, Default)]
struct LinkWalk {
    reached: BTreeMap<String, f64>,
    border: BTreeMap<String, f64>,
    hops_left: usize,
}

/// A candidate that is reranked.
#[derive(Debug)]
struct Head {
    memory: u32,
    fused: FusedHit,
    /// Chunk to return as excerpt.
    chunk: ChunkEntry,
    tokens: usize,
}

impl SearchMachine {
    /// Starts a search with a validated pipeline.
    pub fn new(pipeline: Arc<ValidPipeline>, query: SearchQuery) -> Self {
        let intent = classify(&query.text);
        let mode = choose_mode(
            query.mode,
            query.token_usage,
            wants_depth(intent.intent),
            pipeline.pressure,
        );
        let settings = pipeline.modes.of(mode.selected_mode);
        let by_meaning = settings.vectors && pipeline.channels.vector;
        Self {
            weights: pipeline.weights.of(intent.intent),
            language_factor: 1.0,
            phase: if by_meaning { Phase::Embed } else { Phase::Open },
            pipeline,
            query,
            intent,
            mode,
            settings,
            vector: None,
            embedding_ms: 0.0,
            index: Arc::default(),
            history: SessionHistory::default(),
            filter: Filter::default(),
            hits: ChannelHits::default(),
            pool: Pool::default(),
            fused: Vec::new(),
            links: LinkWalk::default(),
            head: Vec::new(),
            candidates: Vec::new(),
            wanted: Vec::new(),
            texts: HashMap::new(),
            ranked: Ranking::default(),
            results: Vec::new(),
            outcome: SearchOutcome::default(),
            below_floor: Vec::new(),
            stages: Vec::new(),
            stage_began: 0.0,
        }
    }

    /// Returns the next required action.
    pub fn next(&self) -> Action {
        match self.phase {
            Phase::Embed => Action::EmbedQuery,
            Phase::Open => Action::OpenIndex,
            Phase::Links => Action::ReadLinks(self.links.border.keys().cloned().collect()),
            Phase::CompareTexts | Phase::ResultTexts => Action::ReadTexts(self.wanted.clone()),
            Phase::Channels | Phase::Fuse | Phase::Rank | Phase::Results => Action::Compute {
                bytes: self.next_work_bytes(),
            },
            Phase::Done => Action::Done,
        }
    }

    /// Takes the result of the action that [`SearchMachine::next`] returned; other observations are ignored.
    pub fn observe(&mut self, observation: Observation) {
        match (self.phase, observation) {
            (Phase::Embed, Observation::QueryVector { vector, took_ms }) => {
                (self.vector, self.embedding_ms) = (vector, took_ms);
                self.phase = Phase::Open;
            }
            (Phase::Open, Observation::Index { index, history, now }) => {
                self.filter = index.filter(&self.query.folder, &self.query.scope, now);
                (self.index, self.history) = (index, history);
                self.language_factor = self.factor_of_language();
                self.weights.vector *= self.language_factor;
                self.phase = Phase::Channels;
            }
            (Phase::Links, Observation::Links(links)) => {
                self.follow_links(&links);
                self.phase = self.after_hop();
            }
            (Phase::CompareTexts, Observation::Texts(texts)) => {
                self.texts.extend(texts);
                self.phase = Phase::Rank;
            }
            (Phase::ResultTexts, Observation::Texts(texts)) => {
                self.texts.extend(texts);
                self.phase = Phase::Results;
            }
            _ => {}
        }
    }

    /// Does the work that [`Action::Compute`] announced. `elapsed_ms` returns the time since the search
    /// started, for the trace.
    pub fn compute(&mut self, elapsed_ms: &dyn Fn() -> f64) {
        match self.phase {
            Phase::Channels => self.search_channels(elapsed_ms),
            Phase::Fuse => self.choose_head(elapsed_ms),
            Phase::Rank => self.rank_head(elapsed_ms),
            Phase::Results => self.collect_results(elapsed_ms),
            Phase::Embed
            | Phase::Open
            | Phase::Links
            | Phase::CompareTexts
            | Phase::ResultTexts
            | Phase::Done => {}
        }
    }

    /// Approximate number of bytes that the next computation processes.
    fn next_work_bytes(&self) -> usize {
        match self.phase {
            Phase::Channels => {
                let vectors = self.vector.as_ref().map_or(0, Vec::len) * self.index.vectors.len();
                vectors + 64 * self.index.len()
            }
            Phase::Fuse => 256 * self.fused.len(),
            // Texts are split into word sets, which are compared pairwise.
            Phase::Rank => 64 * self.texts.values().map(String::len).sum::<usize>(),
            _ => 0,
        }
    }

    fn end_stage(&mut self, stage: Stage, input_count: usize, output_count: usize, now_ms: f64) {
        self.stages.push(StageTrace {
            stage,
            input_count,
            output_count,
            duration_ms: now_ms - self.stage_began,
        });
        self.stage_began = now_ms;
    }

    /// Factor of the vector weight for the language of the query: an English model knows little of other languages.
    fn factor_of_language(&self) -> f64 {
        if !is_english_model(self.index.embedder()) {
            return 1.0;
        }
        match (
            Script::detect(&self.query.text),
            Language::detect(&self.query.text),
        ) {
            (Script::Latin, Language::English) => 1.0,
            (Script::Latin, _) => self.pipeline.languages.latin,
            _ => self.pipeline.languages.other,
        }
    }

    fn scorer<'a>(&'a self, question: Option<&'a Question<'a>>) -> Scorer<'a> {
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
    fn question<'a>(&self, index: &'a MemoryIndex) -> Option<Question<'a>> {
        self.pipeline.channels.lexical.then(|| {
            let terms = query_terms(&self.query.text, self.settings.expand);
            index
                .lexical
                .question(&terms.weighed(self.pipeline.lexical.expansion))
        })
    }

    /// Scores all candidates by all channels.
    fn complete_pool(&mut self, question: Option<&Question<'_>>) {
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
    fn add_neighbors(&mut self, question: Option<&Question<'_>>) {
        let seeds = self.fused.iter().take(self.pipeline.turns.seeds);
        let seeds: Vec<u32> = seeds.filter_map(|hit| self.index.position(&hit.id)).collect();
        let mut pool = std::mem::take(&mut self.pool);
        pool.add_neighbors(&self.scorer(question), seeds);
        self.pool = pool;
    }

    fn search_channels(&mut self, elapsed_ms: &dyn Fn() -> f64) {
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

    fn search_all_channels(&self, question: Option<&Question<'_>>) -> ChannelHits {
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

    fn fuse(&self, with_graph: bool) -> Vec<FusedHit> {
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

    fn after_hop(&self) -> Phase {
        if self.links.hops_left == 0 || self.links.border.is_empty() {
            Phase::Fuse
        } else {
            Phase::Links
        }
    }

    /// Follows links for one hop, only through memories of visible projects.
    fn follow_links(&mut self, links: &[(String, String)]) {
        let may_pass = |id: &str| {
            let memory = self.index.position(id);
            memory.is_some_and(|memory| self.filter.in_project(&self.index, memory))
        };
        let walk = &mut self.links;
        let mut next: BTreeMap<String, f64> = BTreeMap::new();
        for (one, other) in links {
            for (from, to) in [(one, other), (other, one)] {
                let Some(score) = walk.border.get(from).filter(|_| may_pass(to)) else {
                    continue;
                };
                let share = score * self.pipeline.links.share;
                if walk.reached.get(to).is_none_or(|known| *known < share) {
                    walk.reached.insert(to.clone(), share);
                    next.insert(to.clone(), share);
                }
            }
        }
        walk.border = next;
        walk.hops_left -= 1;
    }

    /// Fuses again, including graph results, and selects the candidates to rerank.
    fn choose_head(&mut self, elapsed_ms: &dyn Fn() -> f64) {
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
            let (Some(chunk), Some(header)) = (self.excerpt_chunk(memory, &fused), self.index.get(memory))
            else {
                continue;
            };
            // Equals `estimate_tokens` of the chunk and of the title.
            let tokens = (chunk.bytes as usize).div_ceil(4) + estimate_tokens(&header.title);
            self.candidates.push(Candidate {
                id: header.id.clone(),
                score: fused.score,
                tier: header.tier,
                confidence: header.confidence,
                attention: self.history.attention.get(&header.id).copied().unwrap_or(0.0),
                tokens,
                already_shown: self.query.skip_shown && self.history.shown.contains(&header.id),
            });
            self.head.push(Head {
                memory,
                fused,
                chunk,
                tokens,
            });
        }
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

    fn limit(&self) -> usize {
        self.query.limit.unwrap_or(self.settings.limit)
    }

    /// Chunk to return for a memory: the best lexical one, else the nearest, else the first.
    fn excerpt_chunk(&self, memory: u32, fused: &FusedHit) -> Option<ChunkEntry> {
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

    fn rank_head(&mut self, elapsed_ms: &dyn Fn() -> f64) {
        let words: Vec<BTreeSet<String>> = self
            .head
            .iter()
            .map(|head| self.texts.get(&head.chunk.doc))
            .map(|text| text.map(|text| Tokenization::Words.set(text)).unwrap_or_default())
            .collect();
        let diversity = self.pipeline.diversity;
        let budget = self.query.token_budget.unwrap_or(self.settings.token_budget);
        let settings = self.pipeline.rank_settings(self.limit(), budget);
        self.ranked = rank(&self.candidates, &settings, |one, other| {
            let vectors = self.head[one].chunk.vector.zip(self.head[other].chunk.vector);
            let vectors = vectors.filter(|_| self.vector.is_some());
            let cosine = vectors.and_then(|(one, other)| self.index.vectors.similarity(one, other));
            match cosine {
                Some(cosine) => diversity.by_meaning(cosine),
                None => diversity.by_words(jaccard(&words[one], &words[other])),
            }
        });
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

    fn collect_results(&mut self, elapsed_ms: &dyn Fn() -> f64) {
        let found = self.head.iter().filter(|head| !head.fused.channels.is_empty());
        let best = found
            .map(|head| self.relevance(head))
            .filter(|(_, relevant)| *relevant);
        let best = best.map(|(confidence, _)| confidence).max_by(f64::total_cmp);
        for chosen in &self.ranked.chosen {
            let Some(head) = self.head.get(chosen.candidate) else {
                continue;
            };
            // A missing text was changed or deleted during the search.
            let text = self.texts.remove(&head.chunk.doc);
            let (Some(excerpt), Some(header)) = (text, self.index.get(head.memory)) else {
                continue;
            };
            let (mut confidence, mut relevant) = self.relevance(head);
            // Somebody linked it to a relevant memory.
            if let (Some(link), Some(best)) = (head.fused.channels.get(&Channel::Graph), best) {
                confidence = confidence.max(link.score * best);
                relevant = true;
            }
            self.results.push(MemoryResult {
                rank: self.results.len() + 1,
                id: header.id.clone(),
                title: header.title.clone(),
                partial: excerpt.len() < header.bytes,
                tier: header.tier,
                folder: self.index.folder(header).to_owned(),
                kind: header.kind.clone(),
                project: self.index.project(header).cloned(),
                score: chosen.score,
                confidence,
                relevant,
                constitutional_only: chosen.lifted
                    || (head.fused.channels.is_empty() && header.tier == Tier::Constitutional),
                channels: head.fused.channels.clone(),
                tokens: head.tokens,
                excerpt,
            });
        }
        if best.is_none() {
            self.outcome = SearchOutcome::NothingRelevant;
            self.drop_weak_results();
        }
        let (chosen, shown) = (self.ranked.chosen.len(), self.results.len());
        self.end_stage(Stage::FinalRank, chosen, shown, elapsed_ms());
        self.phase = Phase::Done;
    }

    /// Confidence that a candidate is relevant, and whether it reaches the floor.
    fn relevance(&self, head: &Head) -> (f64, bool) {
        let Evidence { coverage, cosine, .. } = self.pool.evidence(head.memory);
        let settings = self.pipeline.relevance;
        let is_calibrated = is_english_model(self.index.embedder()) && self.language_factor >= 1.0;
        let (calibration, floor) = match cosine {
            Some(_) if is_calibrated && self.pipeline.channels.lexical => {
                (settings.fused, settings.fused.floor)
            }
            Some(_) if is_calibrated => (settings.vector, settings.vector.floor),
            // A memory without a vector, or with one of a model or in a language whose cosines are not calibrated: only
            // its words are evidence, and their lack is not evidence of the contrary.
            Some(_) => (settings.lexical, 0.0),
            None if self.vector.is_some() => (settings.lexical, 0.0),
            None => (settings.lexical, settings.lexical.floor),
        };
        let confidence = calibration.confidence(coverage, cosine.unwrap_or(0.0));
        // The author of a trigger phrase, or an agent that used the memory, has said that it answers such a query.
        let trigger = head
            .fused
            .channels
            .get(&Channel::Trigger)
            .map_or(0.0, |found| found.score);
        let known = self.pipeline.fusion == Fusion::ZScore;
        (
            confidence.max(trigger),
            !known || trigger > 0.0 || confidence >= floor,
        )
    }

    /// Keeps only constitutional memories, unless the caller wants what is below the floor.
    fn drop_weak_results(&mut self) {
        if self.query.below_floor {
            return;
        }
        let results = std::mem::take(&mut self.results);
        for mut result in results {
            if result.constitutional_only || result.tier == Tier::Constitutional {
                result.rank = self.results.len() + 1;
                self.results.push(result);
            } else {
                self.below_floor.push(WeakResult {
                    id: result.id,
                    title: result.title,
                    confidence: result.confidence,
                });
            }
        }
    }

    /// Returns the result. The caller adds the ids, the reason if a channel was unavailable, and the total
    /// duration.
    pub fn finish(
        self,
        query_id: String,
        trace_id: String,
        degraded: Option<String>,
        total_ms: f64,
    ) -> MemorySearch {
        let held = |positions: &[usize]| -> Vec<ExcludedResult> {
            let held = positions.iter().filter_map(|at| self.head.get(*at));
            let held = held.filter_map(|head| Some((head, self.index.get(head.memory)?)));
            held.map(|(head, header): (&Head, &MemoryHeader)| ExcludedResult {
                id: header.id.clone(),
                title: header.title.clone(),
                tokens: head.tokens,
            })
            .collect()
        };
        let scores: Vec<f64> = self.results.iter().map(|result| result.score).collect();
        MemorySearch {
            query_id,
            tokens: self.results.iter().map(|result| result.tokens).sum(),
            intent: self.intent,
            mode: self.mode,
            already_shown: held(&self.ranked.already_shown),
            over_budget: held(&self.ranked.over_budget),
            outcome: self.outcome,
            below_floor: self.below_floor,
            degraded,
            telemetry: SearchTelemetry {
                trace_id,
                stages: self.stages,
                total_latency_ms: total_ms,
                embedding_latency_ms: self.embedding_ms,
                weights: self.weights,
                result_count: self.results.len(),
                avg_relevance_score: scores.iter().sum::<f64>() / scores.len().max(1) as f64,
                top_result_score: scores.iter().copied().fold(0.0, f64::max),
                boost_impact_delta: self.ranked.boost_delta,
                quality_proxy_score: quality_proxy(&scores, total_ms),
                re_search_of: self.history.research_of,
            },
            query: self.query.text,
            results: self.results,
        }
    }
}

/// Whether the cosines of an embedding model are calibrated, and it knows only English.
fn is_english_model(embedder: &str) -> bool {
    embedder.starts_with("minilm-l6-v2")
}

fn best_first(hits: &mut [Hit]) {
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
}

/// Result of a memory search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemorySearch {
    /// Id of the query in the query log.
    pub query_id: String,
    /// Query text in natural language.
    pub query: String,
    /// Detected intent of the query.
    #[serde(flatten)]
    pub intent: Classified,
    /// Search mode that was used.
    #[serde(flatten)]
    pub mode: ModeChoice,
    /// Whether anything relevant was found.
    pub outcome: SearchOutcome,
    /// Results of the search, best first. If nothing relevant was found, only constitutional memories.
    pub results: Vec<MemoryResult>,
    /// What was found but does not reach the relevance floor, if nothing does; best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below_floor: Vec<WeakResult>,
    /// Results that the session has already received; not returned again.
    pub already_shown: Vec<ExcludedResult>,
    /// Results that exceed the token budget.
    pub over_budget: Vec<ExcludedResult>,
    /// Total number of tokens of the results.
    pub tokens: usize,
    /// Reason why a channel was unavailable; absent otherwise.
    pub degraded: Option<String>,
    /// Timings and statistics of the search.
    pub telemetry: SearchTelemetry,
}

/// One result of a memory search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryResult {
    /// Rank of the result, from 1.
    pub rank: usize,
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Best matching chunk of the memory.
    pub excerpt: String,
    /// Whether the memory has more text than the excerpt.
    pub partial: bool,
    /// Importance tier of the memory.
    pub tier: Tier,
    /// Folder of the memory.
    pub folder: String,
    /// Kind of the memory, such as `decision`, `bug` or `note`.
    pub kind: String,
    /// Project of the memory; null for a global memory that every project sees.
    pub project: Option<Project>,
    /// Relevance score after ranking.
    pub score: f64,
    /// Calibrated probability from 0 to 1 that the result is relevant.
    pub confidence: f64,
    /// Whether the confidence reaches the relevance floor.
    pub relevant: bool,
    /// Whether it is included only because it is constitutional.
    pub constitutional_only: bool,
    /// Rank and score in each channel that found it.
    pub channels: BTreeMap<Channel, ChannelRank>,
    /// Number of tokens of the excerpt.
    pub tokens: usize,
}

/// A result below the relevance floor.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WeakResult {
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Calibrated probability from 0 to 1 that it is relevant.
    pub confidence: f64,
}

/// A result that was excluded from the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Held")]
pub struct ExcludedResult {
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Number of tokens of the result.
    pub tokens: usize,
}

/// Telemetry of a search, with the field names of the specification.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SearchTelemetry {
    /// Unique id of this trace.
    pub trace_id: String,
    /// Trace of each stage, in order.
    pub stages: Vec<StageTrace>,
    /// Total duration in milliseconds.
    pub total_latency_ms: f64,
    /// Duration of embedding the query, in milliseconds.
    pub embedding_latency_ms: f64,
    /// Weight of each channel in the fusion.
    pub weights: Weights,
    /// Number of results returned.
    pub result_count: usize,
    /// Mean score of the results.
    pub avg_relevance_score: f64,
    /// Score of the best result.
    pub top_result_score: f64,
    /// Change of the mean score by session attention.
    pub boost_impact_delta: f64,
    /// Health score from 0 to 1 as defined by the specification.
    pub quality_proxy_score: f64,
    /// Id of the earlier query that this one repeats, if any.
    pub re_search_of: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::{IndexedChunk, IndexedMemory, Pipeline, encode_vector};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const WORDS: [&str; 8] = [
        "database", "locked", "cache", "login", "deploy", "rollback", "index", "retry",
    ];
    const FOLDERS: [&str; 4] = ["", "store", "store/sqlite", "web"];

    /// Test fixture of a caller: an index, chunk texts and links.
    #[derive(Default)]
    struct World {
        index: MemoryIndex,
        texts: HashMap<i64, String>,
        links: Vec<(String, String)>,
    }

    impl World {
        fn add(&mut self, id: &str, bodies: &[&str], tier: Tier, folder: &str) {
            self.index.put(IndexedMemory {
                id: id.into(),
                title: id.into(),
                tier,
                kind: String::new(),
                confidence: 0.5,
                expires_at: None,
                bytes: bodies.iter().map(|body| body.len()).sum(),
                folder: folder.into(),
                project: None,
                phrases: Vec::new(),
            });
            let first = i64::try_from(self.texts.len()).unwrap();
            let vectors: Vec<String> = bodies.iter().map(|body| encode_vector(&embed(body))).collect();
            let chunks = bodies
                .iter()
                .zip(&vectors)
                .zip(first..)
                .map(|((body, vector), doc)| IndexedChunk {
                    doc,
                    title: id,
                    phrases: "",
                    body,
                    vector: Some(("letters", vector)),
                });
            self.index.set_chunks(id, &chunks.collect::<Vec<_>>());
            self.texts
                .extend((first..).zip(bodies.iter().map(ToString::to_string)));
        }

        /// Runs a search to completion and returns the actions it took.
        fn search(&self, mut machine: SearchMachine) -> (MemorySearch, Vec<Action>) {
            let index = Arc::new(self.index.clone());
            let mut actions = Vec::new();
            loop {
                let action = machine.next();
                actions.push(action.clone());
                match action {
                    Action::EmbedQuery => machine.observe(Observation::QueryVector {
                        vector: (!self.index.embedder().is_empty()).then(|| embed(&machine.query.text)),
                        took_ms: 1.0,
                    }),
                    Action::OpenIndex => machine.observe(Observation::Index {
                        index: Arc::clone(&index),
                        history: SessionHistory::default(),
                        now: 0,
                    }),
                    Action::Compute { .. } => machine.compute(&|| 0.0),
                    Action::ReadLinks(ids) => {
                        let at = |id: &String| ids.contains(id);
                        let links = self.links.iter().filter(|(from, to)| at(from) || at(to));
                        machine.observe(Observation::Links(links.cloned().collect()));
                    }
                    Action::ReadTexts(docs) => {
                        let text = |doc: &i64| Some((*doc, self.texts.get(doc)?.clone()));
                        machine.observe(Observation::Texts(docs.iter().filter_map(text).collect()));
                    }
                    Action::Done => return (machine.finish("q".into(), "t".into(), None, 2.0), actions),
                }
            }
        }
    }

    /// Letter frequencies of a text as a vector of length 1.
    fn embed(text: &str) -> Vec<f32> {
        let mut vector = [0.01_f32; 26];
        for letter in text.bytes().filter(u8::is_ascii_lowercase) {
            vector[usize::from(letter - b'a')] += 1.0;
        }
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        vector.iter().map(|value| value / length).collect()
    }

    fn query(text: &str, mode: Mode) -> SearchQuery {
        SearchQuery {
            text: text.into(),
            mode: Some(mode),
            limit: None,
            token_budget: None,
            token_usage: None,
            folder: String::new(),
            scope: Scope::All,
            skip_shown: false,
            below_floor: false,
        }
    }

    fn standard(query: SearchQuery) -> SearchMachine {
        SearchMachine::new(Arc::clone(ValidPipeline::standard()), query)
    }

    fn world() -> World {
        let mut world = World {
            index: MemoryIndex::new("letters", 26),
            ..World::default()
        };
        world.add(
            "a",
            &["the database is locked", "the cache is cold"],
            Tier::Normal,
            "store",
        );
        world.add("b", &["rollback of a deploy"], Tier::Normal, "web");
        world.add("c", &["never log secrets"], Tier::Constitutional, "");
        world.links = vec![("a".into(), "b".into()), ("b".into(), "c".into())];
        world
    }

    fn kinds(actions: &[Action]) -> Vec<&'static str> {
        let kind = |action: &Action| match action {
            Action::EmbedQuery => "embed",
            Action::OpenIndex => "open",
            Action::Compute { .. } => "compute",
            Action::ReadLinks(_) => "links",
            Action::ReadTexts(_) => "texts",
            Action::Done => "done",
        };
        actions.iter().map(kind).collect()
    }

    #[test]
    fn each_mode_requests_only_required_actions() {
        let world = world();
        let (found, actions) = world.search(standard(query("cold cache", Mode::Focused)));
        assert_eq!(
            kinds(&actions),
            [
                "embed", "open", "compute", "links", "compute", "compute", "texts", "compute", "done"
            ]
        );
        assert_eq!(
            found.results[0].excerpt, "the cache is cold",
            "the chunk with the matching words is returned"
        );
        assert!(found.results[0].partial && found.results[0].rank == 1);
        assert_eq!(found.telemetry.stages.len(), 5);
        // Without vectors there is no embedding, texts are compared by words, and no link is followed.
        let (found, actions) = world.search(standard(query("cold cache", Mode::Quick)));
        assert_eq!(
            kinds(&actions),
            [
                "open", "compute", "compute", "texts", "compute", "compute", "done"
            ]
        );
        let ids: Vec<&str> = found.results.iter().map(|result| result.id.as_str()).collect();
        assert_eq!(ids, ["a", "c"]);
        assert!(found.results[1].constitutional_only);
        // Two hops, the second starting from results of the first.
        let (_, actions) = world.search(standard(query("locked database", Mode::Deep)));
        assert_eq!(kinds(&actions).iter().filter(|kind| **kind == "links").count(), 2);
    }

    #[test]
    fn an_unexpected_observation_is_ignored() {
        let mut machine = standard(query("cold cache", Mode::Focused));
        machine.compute(&|| 0.0);
        machine.observe(Observation::Links(Vec::new()));
        machine.observe(Observation::Texts(Vec::new()));
        assert_eq!(machine.next(), Action::EmbedQuery);
    }

    #[test]
    fn deleted_memories_are_omitted_and_a_failed_model_disables_only_vectors() {
        let mut world = world();
        world.texts.remove(&2);
        let (found, _) = world.search(standard(query("rollback", Mode::Quick)));
        assert!(found.results.iter().all(|result| result.id != "b"));
        assert_eq!(found.results[0].rank, 1);
        world.index = MemoryIndex::new("", 0);
        world.add("d", &["rollback again"], Tier::Normal, "");
        let (found, actions) = world.search(standard(query("rollback", Mode::Focused)));
        assert_eq!(actions[0], Action::EmbedQuery);
        assert_eq!(found.results[0].id, "d");
    }

    #[test]
    fn links_are_followed_within_the_mode_and_share() {
        let mut world = world();
        world.add("d", &["zzz"], Tier::Normal, "web");
        world.links.push(("b".into(), "d".into()));
        let changes = json!({"channels": {"vector": false}, "modes": {"focused": {"hops": 2}}});
        let pipeline = Arc::new(Pipeline::with(&changes).unwrap());
        let (found, _) = world.search(SearchMachine::new(pipeline, query("locked", Mode::Focused)));
        let graph = |id: &str| {
            let result = found.results.iter().find(|result| result.id == id).unwrap();
            result.channels.get(&Channel::Graph).map(|found| found.score)
        };
        let close = |found: Option<f64>, score: f64| (found.unwrap() - score).abs() < 1e-12;
        assert!(close(graph("b"), 0.6) && close(graph("d"), 0.36) && close(graph("a"), 0.36));
    }

    fn words() -> impl Strategy<Value = String> {
        proptest::collection::vec(0..WORDS.len(), 1..8).prop_map(|words| {
            words
                .iter()
                .map(|word| WORDS[*word])
                .collect::<Vec<_>>()
                .join(" ")
        })
    }

    fn memories() -> impl Strategy<Value = Vec<(String, usize, usize)>> {
        proptest::collection::vec((words(), 0..5_usize, 0..FOLDERS.len()), 0..20)
    }

    fn filled(memories: &[(String, usize, usize)]) -> World {
        let mut world = World {
            index: MemoryIndex::new("letters", 26),
            ..World::default()
        };
        let tiers = [
            Tier::Temporary,
            Tier::Normal,
            Tier::Important,
            Tier::Critical,
            Tier::Constitutional,
        ];
        for (number, (text, tier, folder)) in memories.iter().enumerate() {
            world.add(&format!("m{number:02}"), &[text], tiers[*tier], FOLDERS[*folder]);
        }
        let ids: Vec<String> = world.index.ids().map(str::to_owned).collect();
        world.links = ids
            .iter()
            .zip(ids.iter().skip(1))
            .map(|(a, b)| (a.clone(), b.clone()))
            .collect();
        world
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Limits hold, ranks are consecutive, no memory occurs twice, up to five constitutional memories of
        /// the folder are included, no other memory is from another folder, and equal observations give equal
        /// results.
        #[test]
        fn every_search_keeps_its_invariants(
            memories in memories(), text in words(), mode in 0..3_usize, folder in 0..FOLDERS.len(),
            limit in 5..12_usize, budget in 1..300_usize,
        ) {
            let world = filled(&memories);
            let asked = SearchQuery {
                limit: Some(limit),
                token_budget: Some(budget),
                folder: FOLDERS[folder].into(),
                ..query(&text, Mode::ALL[mode])
            };
            let (found, _) = world.search(standard(asked.clone()));
            prop_assert!(found.results.len() <= limit);
            let ids: BTreeSet<&str> = found.results.iter().map(|result| result.id.as_str()).collect();
            prop_assert_eq!(ids.len(), found.results.len());
            for (at, result) in found.results.iter().enumerate() {
                prop_assert_eq!(result.rank, at + 1);
                let inside = crate::memory::in_folder(&result.folder, FOLDERS[folder]);
                prop_assert!(inside || result.tier == Tier::Constitutional);
            }
            let filter = world.index.filter(FOLDERS[folder], &Scope::All, 0);
            let rules = world.index.rules(&filter, FOLDERS[folder]);
            let first = found.results.iter().take(5).filter(|result| result.tier == Tier::Constitutional);
            prop_assert!(first.count() >= rules.len().min(5));
            let paid = found.results.iter().filter(|result| result.tier != Tier::Constitutional);
            let paid: Vec<usize> = paid.map(|result| result.tokens).collect();
            prop_assert!(paid.iter().sum::<usize>() <= budget || found.results.len() == 1);
            prop_assert_eq!(&found, &world.search(standard(asked)).0);
        }

        /// A search keeps its index snapshot: changing a clone has no effect.
        #[test]
        fn a_snapshot_does_not_change(memories in memories(), others in memories(), text in words()) {
            let mut world = filled(&memories);
            let before = world.index.clone();
            let expected = world.search(standard(query(&text, Mode::Focused))).0;
            for (number, (text, ..)) in others.iter().enumerate() {
                world.add(&format!("m{:02}", number * 2), &[text, "another chunk"], Tier::Important, "new");
                world.index.remove(&format!("m{:02}", number * 2 + 1));
            }
            world.index = before;
            prop_assert_eq!(world.search(standard(query(&text, Mode::Focused))).0, expected);
        }
    }
}
