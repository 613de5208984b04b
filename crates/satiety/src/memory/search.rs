//! Sans-I/O search state machine: [`SearchMachine::next`] returns the next action, [`SearchMachine::observe`]
//! takes its result, and [`SearchMachine::compute`] does CPU work on a thread of the caller's choice.
//!
//! Channels find candidates, their lists are fused, causal links add neighbours, constitutional memories of
//! the folder are added, the best candidates are ranked, and results within limit and token budget are
//! returned.

mod candidates;
mod currency;
#[cfg(test)]
mod currency_tests;
mod head;
mod links;
mod response;
mod results;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use candidates::ChannelHits;
use currency::Currency;
use head::Head;
use links::LinkWalk;
pub use response::{ExcludedResult, MemoryResult, MemorySearch, SearchTelemetry, WeakResult};

use super::index::{Filter, MemoryIndex};
use super::pool::Pool;
use super::{
    Candidate, Classified, FusedHit, Link, MemoryFilter, Mode, ModeChoice, ModeSettings, PastQuery, Ranking,
    Scope, SearchOutcome, SessionSettings, Stage, StageTrace, TimePoint, ValidPipeline, Weights, choose_mode,
    classify, estimate_tokens, repeated_query, session_attention, wants_depth,
};
use crate::text::language::{Language, Script};

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
    /// Conditions that all results satisfy, including constitutional memories.
    pub filter: MemoryFilter,
    /// Time at which results should hold; the time of the search if absent.
    pub as_of: Option<TimePoint>,
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
    /// `asked` is the query of this search with its vector, `queries` are the earlier ones of the session,
    /// newest first. `used` are memories that were read, quoted or judged useful, each with the query that
    /// found it.
    pub fn new<'a>(
        asked: &PastQuery,
        queries: &[PastQuery],
        used: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
        settings: SessionSettings,
    ) -> Self {
        // Number of queries since the one that the use belongs to.
        let turns = |query: Option<&str>| {
            let at = queries.iter().position(|past| Some(past.id.as_str()) == query);
            u32::try_from(at.unwrap_or(0)).unwrap_or(settings.look_back)
        };
        let used = used.into_iter().map(|(memory, query)| (memory, turns(query)));
        Self {
            attention: session_attention(used, settings.decay),
            shown: queries
                .iter()
                .flat_map(|past| past.results.iter().cloned())
                .collect(),
            research_of: repeated_query(asked, queries).map(|past| past.id.clone()),
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
    /// Links of the memories.
    Links(Vec<Link>),
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
    Currency,
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
    currency: Currency,
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
            currency: Currency::default(),
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
            Phase::Currency => Action::ReadLinks(self.currency.wanted.iter().cloned().collect()),
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
                let visible = index.filter(&self.query.folder, &self.query.scope, now);
                self.filter = index.narrow(visible, &self.query.filter);
                self.currency = Currency::new(self.query.as_of.map_or(now, TimePoint::micros));
                (self.index, self.history) = (index, history);
                self.language_factor = self.factor_of_language();
                self.weights.vector *= self.language_factor;
                self.phase = Phase::Channels;
            }
            (Phase::Links, Observation::Links(links)) => {
                let read: Vec<String> = self.links.border.keys().cloned().collect();
                self.take_links(read, &links);
                self.follow_links(&links);
                self.phase = self.after_hop();
            }
            (Phase::Currency, Observation::Links(links)) => {
                let read: Vec<String> = self.currency.wanted.iter().cloned().collect();
                self.take_links(read, &links);
                self.end_head();
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
            | Phase::Currency
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
}

/// Whether the cosines of an embedding model are calibrated, and it knows only English.
fn is_english_model(embedder: &str) -> bool {
    embedder.starts_with("minilm-l6-v2")
}
