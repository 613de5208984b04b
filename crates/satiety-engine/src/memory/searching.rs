//! Searching: the channels look, their findings become one list with its reasons, and the query is logged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use satiety::memory::{
    Candidate, Channel, Classified, Found, Fused, Hit, Mode, ModeChoice, Pipeline, Project, Scope, Stage,
    StageTrace, Weights, choose_mode, classify, estimate_tokens, fuse, quality_proxy, rank, wants_depth,
};
use satiety::retrieval::Tier;
use satiety::text::{Tokenization, jaccard};
use satiety_models::Embedder;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::MemoryError;
use super::channels::{Asked, Looking, look};
use super::index::{Known, Piece};
use super::scope::check_names;
use crate::{Engine, EngineError};

/// What to search for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SearchBody")]
pub struct SearchRequest {
    /// What to look for, in words.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub query: String,
    /// How deep; chosen by query and free context.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Maximum number of results.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 200))]
    pub limit: Option<usize>,
    /// Maximum tokens of all results.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 1_000_000))]
    pub token_budget: Option<usize>,
    /// How full your context is, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub token_usage: Option<f64>,
    /// Only this folder and below.
    #[serde(default)]
    pub folder: Option<String>,
    /// The session: what it used before scores higher.
    #[serde(default)]
    pub session: Option<String>,
    /// Leave out what the session was given before.
    #[serde(default)]
    pub skip_shown: bool,
    /// Also return the telemetry of each stage.
    #[serde(default)]
    pub explain: bool,
    /// How the search goes.
    #[serde(skip)]
    pub pipeline: Arc<Pipeline>,
    /// The tool that was asked, for the log.
    #[serde(skip, default = "default_tool")]
    pub tool: &'static str,
    /// The project, by name or id, or `all`. Global memories are included.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

fn default_tool() -> &'static str {
    "memory_search"
}

impl Default for SearchRequest {
    /// Asks nothing yet, for everything, with the default pipeline.
    fn default() -> Self {
        Self {
            query: String::new(),
            mode: None,
            limit: None,
            token_budget: None,
            token_usage: None,
            folder: None,
            session: None,
            skip_shown: false,
            explain: false,
            pipeline: Arc::default(),
            tool: default_tool(),
            scope: None,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemorySearch {
    /// The query in the log.
    pub query_id: String,
    /// The question.
    pub query: String,
    /// What the asker is after.
    #[serde(flatten)]
    pub intent: Classified,
    /// How deep it went.
    #[serde(flatten)]
    pub mode: ModeChoice,
    /// Best first.
    pub results: Vec<MemoryResult>,
    /// What the session has already and is not sent again.
    pub already_shown: Vec<Held>,
    /// What fits and had no room in the budget.
    pub over_budget: Vec<Held>,
    /// Tokens of the results.
    pub tokens: usize,
    /// Whether a channel could not be used, and why.
    pub degraded: Option<String>,
    /// How it went.
    pub telemetry: SearchTelemetry,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryResult {
    /// From 1.
    pub rank: usize,
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The piece of it that fits best.
    pub excerpt: String,
    /// Whether there is more of it.
    pub partial: bool,
    /// Its tier.
    pub tier: Tier,
    /// Where it belongs.
    pub folder: String,
    /// What kind of thing it is.
    pub kind: String,
    /// The project that it belongs to; null for one that every project sees.
    pub project: Option<Project>,
    /// How well it fits.
    pub score: f64,
    /// Whether it is here only because it is constitutional.
    pub constitutional_only: bool,
    /// Which channels found it, and where.
    pub channels: BTreeMap<Channel, Found>,
    /// Tokens of the excerpt.
    pub tokens: usize,
}

/// A result that was held back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Held {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Tokens that it would cost.
    pub tokens: usize,
}

/// How a search went, by the names of the specification.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SearchTelemetry {
    /// What tells this trace from others.
    pub trace_id: String,
    /// Stage by stage.
    pub stages: Vec<StageTrace>,
    /// All of it.
    pub total_latency_ms: f64,
    /// Of that, turning the question into a vector.
    pub embedding_latency_ms: f64,
    /// How much each channel counted.
    pub weights: Weights,
    /// Results.
    pub result_count: usize,
    /// Their mean score.
    pub avg_relevance_score: f64,
    /// The best score.
    pub top_result_score: f64,
    /// How much the session changed the mean.
    pub boost_impact_delta: f64,
    /// The specification's figure of health.
    pub quality_proxy_score: f64,
    /// Whether this asks again what the session asked before.
    pub re_search_of: Option<String>,
}

/// What is said in a text that memories wait for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MatchedTriggers {
    /// Best first.
    pub matches: Vec<TriggerMatch>,
}

/// A memory whose phrase was said.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TriggerMatch {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: Tier,
    /// How much of the text its phrase is, from 0.5 to 1.
    pub score: f64,
    /// The project that it belongs to; null for one that every project sees.
    pub project: Option<Project>,
}

/// Stages as they happen.
struct Watch {
    started: Instant,
    last: Instant,
    stages: Vec<StageTrace>,
}

impl Watch {
    fn start() -> Self {
        let now = Instant::now();
        Self {
            started: now,
            last: now,
            stages: Vec::new(),
        }
    }

    fn lap(&mut self, stage: Stage, input_count: usize, output_count: usize) {
        let now = Instant::now();
        self.stages.push(StageTrace {
            stage,
            input_count,
            output_count,
            duration_ms: (now - self.last).as_secs_f64() * 1000.0,
        });
        self.last = now;
    }
}

/// A candidate with what is known about it.
struct Looked<'a> {
    fused: Fused,
    known: &'a Known,
    /// The piece that is shown.
    piece: Piece,
}

impl Looked<'_> {
    fn tokens(&self) -> usize {
        // As `estimate_tokens` of the piece and of the title.
        (self.piece.bytes as usize).div_ceil(4) + estimate_tokens(&self.known.title)
    }
}

impl Engine {
    /// Searches, logs the query with what was found, and says how it went.
    pub async fn memory_search(&self, mut request: SearchRequest) -> Result<MemorySearch, EngineError> {
        let deal = self.deal(&mut request).await?;
        let answer = self.memory_search_with(&request.pipeline, &request).await?;
        self.log_search(&request, &answer).await?;
        self.shadow(&deal, &request, &answer);
        Ok(answer)
    }

    /// Searches as this pipeline says, whatever the request's own is, and leaves no trace: nothing is logged, so that a
    /// pipeline can be tried beside another.
    #[tracing::instrument(name = "search memory", skip_all)]
    pub async fn memory_search_with(
        &self,
        pipeline: &Pipeline,
        request: &SearchRequest,
    ) -> Result<MemorySearch, EngineError> {
        check(request)?;
        self.check_question(&request.query)?;
        pipeline.check().map_err(MemoryError::from)?;
        let mut watch = Watch::start();
        let intent = classify(&request.query);
        let mode = choose_mode(
            request.mode,
            request.token_usage,
            wants_depth(intent.intent),
            pipeline.pressure,
        );
        let settings = pipeline.modes.of(mode.selected_mode);
        let by_meaning = settings.vectors && pipeline.channels.vector;
        let store = self.store().await?;
        let (embedder, problem) = if by_meaning {
            self.memory_embedder().await
        } else {
            (None, None)
        };
        let began = Instant::now();
        let (mut vector, mut named) = (None, None);
        if let Some(embedder) = embedder {
            named = Some((embedder.id().to_string(), embedder.dimension()));
            vector = embedder.embed(&[request.query.as_str()]).await?.pop();
        }
        let embedding_ms = began.elapsed().as_secs_f64() * 1000.0;
        let wanted = named
            .as_ref()
            .map(|(name, dimension)| (name.as_str(), *dimension));
        let index = self.memory.current(store, wanted).await?;
        let session = self.memory_session(request, pipeline).await?;
        let folder = request.folder.as_deref().unwrap_or_default();
        let scope = self.memory_scope(request.scope.as_ref());
        let filter = index.filter(folder, &scope, now_micros());

        let looking = Looking {
            query: &request.query,
            vector: vector.as_deref(),
            pipeline,
            mode: settings,
        };
        let asked = Asked::new(&index, &looking);
        let found = look(&index, &filter, &asked, &looking);
        watch.lap(Stage::Candidate, index.len(), found.looked_at);
        let kept = found.lexical.len() + found.vector.len() + found.trigger.len();
        watch.lap(Stage::Filter, found.looked_at, kept);

        let weights = pipeline.weights.of(intent.intent);
        let mut channels: Vec<(Channel, &[Hit])> = Vec::new();
        for (channel, hits, searched) in [
            (Channel::Lexical, &found.lexical, pipeline.channels.lexical),
            (Channel::Vector, &found.vector, vector.is_some()),
            (Channel::Trigger, &found.trigger, pipeline.channels.trigger),
        ] {
            if searched {
                channels.push((channel, hits));
            }
        }
        let mut fused = fuse(&channels, weights, pipeline.fusion);
        let seeds = fused.len();
        if pipeline.channels.graph {
            let mut graph = self
                .memory_neighbours(&fused, settings.hops, pipeline.links, |id| {
                    index.position(id).is_some_and(|memory| filter.in_project(memory))
                })
                .await?;
            graph.retain(|hit| index.position(&hit.id).is_some_and(|memory| filter.wants(memory)));
            graph.truncate(settings.candidates);
            channels.push((Channel::Graph, &graph));
            fused = fuse(&channels, weights, pipeline.fusion);
        }
        watch.lap(Stage::Fusion, seeds, fused.len());

        let rank_settings = pipeline.rank_settings(
            request.limit.unwrap_or(settings.limit),
            request.token_budget.unwrap_or(settings.token_budget),
        );
        let looked_at = (pipeline.rerank.per_result * rank_settings.limit).max(pipeline.rerank.least);
        fused.truncate(settings.candidates);
        let rules: BTreeSet<u32> = index.rules(&filter, folder).collect();
        let mut head = Vec::new();
        for (at, one) in fused.into_iter().enumerate() {
            let Some(memory) = index.position(&one.id) else {
                continue;
            };
            if at < looked_at || rules.contains(&memory) {
                head.push((memory, one));
            }
        }
        // What is constitutional for the folders above holds here, too, whether anybody found it or not.
        let there: BTreeSet<u32> = head.iter().map(|(memory, _)| *memory).collect();
        for memory in rules.difference(&there) {
            let Some(known) = index.get(*memory) else { continue };
            let one = Fused {
                id: known.id.clone(),
                score: 0.0,
                channels: BTreeMap::new(),
            };
            head.push((*memory, one));
        }
        let head: Vec<Looked<'_>> = head
            .into_iter()
            .filter_map(|(memory, one)| {
                let by_words = one.channels.contains_key(&Channel::Lexical);
                Some(Looked {
                    piece: found.piece(&index, &asked, memory, by_words)?,
                    known: index.get(memory)?,
                    fused: one,
                })
            })
            .collect();
        let candidates: Vec<Candidate> = head
            .iter()
            .map(|one| Candidate {
                id: one.known.id.clone(),
                score: one.fused.score,
                tier: one.known.tier,
                confidence: one.known.confidence,
                attention: session.attention.get(&one.known.id).copied().unwrap_or(0.0),
                tokens: one.tokens(),
                already_shown: request.skip_shown && session.shown.contains(&one.known.id),
            })
            .collect();
        let mut bodies = HashMap::new();
        // By meaning only when this search compares it: whether vectors happen to be held must not decide.
        let by_words = |one: &Looked<'_>| vector.is_none() || one.piece.vector.is_none();
        self.read_bodies(&mut bodies, head.iter().filter(|one| by_words(one)))
            .await?;
        let words: Vec<BTreeSet<String>> = head
            .iter()
            .map(|one| {
                bodies
                    .get(&one.piece.doc)
                    .map(|body: &String| Tokenization::Words.set(body))
            })
            .map(Option::unwrap_or_default)
            .collect();
        let ranked = rank(&candidates, &rank_settings, |one, other| {
            let vectors = head[one].piece.vector.zip(head[other].piece.vector);
            let vectors = vectors.filter(|_| vector.is_some());
            let cosine = vectors.and_then(|(one, other)| index.vectors.likeness(one, other));
            match cosine {
                Some(cosine) => pipeline.diversity.by_meaning(cosine),
                None => pipeline.diversity.by_words(jaccard(&words[one], &words[other])),
            }
        });
        watch.lap(Stage::Rerank, candidates.len(), ranked.chosen.len());

        let held = |positions: &[usize]| -> Vec<Held> {
            let held = positions.iter().filter_map(|at| head.get(*at));
            held.map(|one| Held {
                id: one.known.id.clone(),
                title: one.known.title.clone(),
                tokens: one.tokens(),
            })
            .collect()
        };
        let chosen = ranked
            .chosen
            .iter()
            .filter_map(|chosen| head.get(chosen.candidate));
        self.read_bodies(&mut bodies, chosen).await?;
        let mut results: Vec<MemoryResult> = Vec::with_capacity(ranked.chosen.len());
        for chosen in &ranked.chosen {
            let Some(one) = head.get(chosen.candidate) else {
                continue;
            };
            // Somebody changed or deleted it while we were looking.
            let Some(excerpt) = bodies.remove(&one.piece.doc) else {
                continue;
            };
            results.push(MemoryResult {
                rank: results.len() + 1,
                id: one.known.id.clone(),
                title: one.known.title.clone(),
                partial: excerpt.len() < one.known.bytes,
                tier: one.known.tier,
                folder: index.folder(one.known).to_owned(),
                kind: one.known.kind.clone(),
                project: index.project(one.known).cloned(),
                score: chosen.score,
                constitutional_only: chosen.lifted || one.fused.channels.is_empty(),
                channels: one.fused.channels.clone(),
                tokens: one.tokens(),
                excerpt,
            });
        }
        let (already_shown, over_budget) = (held(&ranked.already_shown), held(&ranked.over_budget));
        watch.lap(Stage::FinalRank, ranked.chosen.len(), results.len());
        let total = watch.started.elapsed().as_secs_f64() * 1000.0;
        let scores: Vec<f64> = results.iter().map(|result| result.score).collect();
        Ok(MemorySearch {
            query_id: satiety::ids::prefixed("eq", Uuid::now_v7()),
            query: request.query.clone(),
            tokens: results.iter().map(|result| result.tokens).sum(),
            intent,
            mode,
            already_shown,
            over_budget,
            degraded: problem,
            telemetry: SearchTelemetry {
                trace_id: satiety::ids::prefixed("trace", Uuid::now_v7()),
                stages: watch.stages,
                total_latency_ms: total,
                embedding_latency_ms: embedding_ms,
                weights,
                result_count: results.len(),
                avg_relevance_score: scores.iter().sum::<f64>() / scores.len().max(1) as f64,
                top_result_score: scores.iter().copied().fold(0.0, f64::max),
                boost_impact_delta: ranked.boost_delta,
                quality_proxy_score: quality_proxy(&scores, total),
                re_search_of: session.research_of,
            },
            results,
        })
    }

    /// Reads the texts of pieces that are not there yet.
    async fn read_bodies<'a>(
        &self,
        bodies: &mut HashMap<i64, String>,
        wanted: impl Iterator<Item = &'a Looked<'a>>,
    ) -> Result<(), EngineError> {
        let docs: Vec<i64> = wanted
            .map(|one| one.piece.doc)
            .filter(|doc| !bodies.contains_key(doc))
            .collect();
        let rows = self.store().await?.memories().chunk_texts(&docs).await?;
        bodies.extend(rows.into_iter().map(|(doc, _, body)| (doc, body)));
        Ok(())
    }

    /// Memories whose trigger phrases are said in a text.
    pub(super) async fn memory_match_triggers(
        &self,
        text: &str,
        limit: usize,
        scope: &Scope,
    ) -> Result<MatchedTriggers, EngineError> {
        let store = self.store().await?;
        let index = self.memory.current(store, None).await?;
        let filter = index.filter("", scope, now_micros());
        let hits = index.triggers.matches(text, |memory| filter.wants(memory));
        let mut matches: Vec<TriggerMatch> = hits
            .into_iter()
            .filter_map(|(memory, score)| {
                let known = index.get(memory)?;
                Some(TriggerMatch {
                    id: known.id.clone(),
                    title: known.title.clone(),
                    tier: known.tier,
                    score,
                    project: index.project(known).cloned(),
                })
            })
            .collect();
        matches.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        matches.truncate(limit);
        Ok(MatchedTriggers { matches })
    }

    /// The sentence model, or why meaning cannot be searched: never silently.
    pub(super) async fn memory_embedder(&self) -> (Option<&dyn Embedder>, Option<String>) {
        match self.embedder().await {
            Ok(Some(embedder)) => (Some(embedder), None),
            Ok(None) => (
                None,
                Some(
                    "no sentence model (`models.embedder` is `none`): words, triggers and links only".into(),
                ),
            ),
            Err(error) => (None, Some(format!("the sentence model cannot be used: {error}"))),
        }
    }
}

fn check(request: &SearchRequest) -> Result<(), MemoryError> {
    if request.query.trim().is_empty() {
        return Err(MemoryError::EmptyQuery);
    }
    check_names(request.session.as_deref(), None, request.folder.as_deref())?;
    if let Some(usage) = request.token_usage.filter(|usage| !(0.0..=1.0).contains(usage)) {
        return Err(MemoryError::OutOfRange {
            what: "the used share of the context",
            range: "from 0 to 1",
            value: usage.to_string(),
        });
    }
    if let Some(limit) = request.limit.filter(|limit| !(1..=200).contains(limit)) {
        return Err(MemoryError::OutOfRange {
            what: "the number of results",
            range: "from 1 to 200",
            value: limit.to_string(),
        });
    }
    Ok(())
}
