//! Searching: the channels look, their findings become one list with its reasons, and the query is logged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use satiety::memory::{
    Candidate, Channel, Classified, Found, Fused, Hit, LinkSettings, Mode, ModeChoice, Pipeline, Stage,
    StageTrace, Weights, choose_mode, classify, estimate_tokens, fuse, in_folder, is_research,
    match_triggers, quality_proxy, query_terms, rank, session_attention, wants_depth,
};
use satiety::retrieval::Tier;
use satiety_models::Embedder;
use satiety_store::evaluation::EvalQueryRow;
use satiety_store::memory::{FeedbackRow, MemoryRow};
use satiety_store::now_micros;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::MemoryError;
use super::index::{Index, Known};
use crate::{Engine, EngineError};

/// What to search for.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// The question.
    pub query: String,
    /// How deep; absent for a choice by question and room.
    pub mode: Option<Mode>,
    /// Results at most, instead of the mode's.
    pub limit: Option<usize>,
    /// Tokens of all results, instead of the mode's.
    pub token_budget: Option<usize>,
    /// How full the asker's context is, from 0 to 1.
    pub token_usage: Option<f64>,
    /// Only this folder and below; constitutional memories from the folders above come along.
    pub folder: Option<String>,
    /// The session: its uses raise scores, and with `skip_shown` it gets nothing twice.
    pub session: Option<String>,
    /// Hold back what the session has already.
    pub skip_shown: bool,
    /// How the search goes.
    pub pipeline: Arc<Pipeline>,
    /// The tool that was asked, for the log.
    pub tool: &'static str,
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
            pipeline: Arc::default(),
            tool: "memory_search",
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Tokens that it would cost.
    pub tokens: usize,
}

/// How a search went, by the names of the specification.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatchedTriggers {
    /// Best first.
    pub matches: Vec<TriggerMatch>,
}

/// A memory whose phrase was said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggerMatch {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: Tier,
    /// How much of the text its phrase is, from 0.5 to 1.
    pub score: f64,
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

/// What the session did before.
#[derive(Default)]
struct Session {
    shown: BTreeSet<String>,
    attention: BTreeMap<String, f64>,
    research_of: Option<String>,
}

/// What a channel knows about the best piece of each memory.
type BestPieces = HashMap<String, (f64, i64)>;

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
    pub async fn memory_search_with(
        &self,
        pipeline: &Pipeline,
        request: &SearchRequest,
    ) -> Result<MemorySearch, EngineError> {
        check(request)?;
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
        let switches = pipeline.channels;
        let by_meaning = settings.vectors && switches.vector;
        let store = self.store().await?;
        let (embedder, problem) = self.memory_embedder().await;
        let described = embedder.map(|embedder| (embedder.id().to_string(), embedder.dimension()));
        let named = described
            .as_ref()
            .map(|(name, dimension)| (name.as_str(), *dimension));
        let index = Index::current(&self.memory, store, named).await?;
        let session = self.memory_session(request, pipeline).await?;
        let now = now_micros();
        let folder = request.folder.as_deref().unwrap_or_default();
        let alive = |known: &Known| known.expires_at.is_none_or(|at| at > now);
        let wanted = |known: &Known| alive(known) && in_folder(&known.folder, folder);

        // Candidates: a channel more than it needs, because what is elsewhere or expired goes.
        let terms = query_terms(&request.query, settings.expand);
        let words: Vec<&str> = terms.all().collect();
        let most = u32::try_from(settings.candidates * pipeline.candidates_over).unwrap_or(u32::MAX);
        let mut best: BestPieces = HashMap::new();
        let mut lexical = Vec::new();
        let found = if switches.lexical {
            store.search_memory_words(&words, most).await?
        } else {
            Vec::new()
        };
        for hit in found {
            best.entry(hit.memory_id.clone()).or_insert((hit.score, hit.doc));
            lexical.push(Hit::new(hit.memory_id, hit.score));
        }
        let mut vector = Vec::new();
        let mut embedding_ms = 0.0;
        if let Some(embedder) = embedder.filter(|_| by_meaning) {
            let began = Instant::now();
            let query = embedder.embed(&[request.query.as_str()]).await?;
            embedding_ms = began.elapsed().as_secs_f64() * 1000.0;
            let query = query.first().map(Vec::as_slice).unwrap_or_default();
            let owner = |piece: u32| {
                index
                    .pieces
                    .get(piece as usize)
                    .and_then(|(owner, _)| index.known.get(*owner as usize))
            };
            let near = index
                .vectors
                .nearest(query, most as usize, |piece| owner(piece).is_some_and(wanted));
            for (piece, cosine) in near {
                let Some((known, (_, doc))) = owner(piece).zip(index.pieces.get(piece as usize)) else {
                    continue;
                };
                best.entry(known.id.clone()).or_insert((cosine, *doc));
                vector.push(Hit::new(known.id.clone(), cosine));
            }
        }
        let phrases = index
            .known
            .iter()
            .filter(|known| switches.trigger && wanted(known) && !known.phrases.is_empty());
        let trigger = match_triggers(
            &request.query,
            phrases.map(|known| (known.id.as_str(), &known.phrases[..])),
        );
        let looked = lexical.len() + vector.len() + trigger.len();
        watch.lap(Stage::Candidate, index.known.len(), looked);

        let fits = |hit: &Hit| index.get(&hit.id).is_some_and(wanted);
        let [lexical, vector, trigger] =
            [lexical, vector, trigger].map(|list| once_each(list, settings.candidates, fits));
        watch.lap(
            Stage::Filter,
            looked,
            lexical.len() + vector.len() + trigger.len(),
        );

        let weights = pipeline.weights.of(intent.intent);
        let mut channels: Vec<(Channel, &[Hit])> = Vec::new();
        for (channel, hits, searched) in [
            (Channel::Lexical, &lexical, switches.lexical),
            (Channel::Vector, &vector, embedder.is_some() && by_meaning),
            (Channel::Trigger, &trigger, switches.trigger),
        ] {
            if searched {
                channels.push((channel, hits));
            }
        }
        let seeds = fuse(&channels, weights, pipeline.fusion);
        let graph = if switches.graph {
            self.memory_neighbours(&seeds, settings.hops, settings.candidates, pipeline.links)
                .await?
        } else {
            Vec::new()
        };
        let graph = once_each(graph, settings.candidates, fits);
        if switches.graph {
            channels.push((Channel::Graph, &graph));
        }
        let fused = fuse(&channels, weights, pipeline.fusion);
        watch.lap(Stage::Fusion, seeds.len(), fused.len());

        let mut kept: Vec<Fused> = fused.into_iter().take(settings.candidates).collect();
        let found: BTreeSet<String> = kept.iter().map(|one| one.id.clone()).collect();
        // What is constitutional for the folders above holds here, too.
        let rules = index.known.iter().filter(|known| {
            known.tier == Tier::Constitutional
                && alive(known)
                && (in_folder(&known.folder, folder) || in_folder(folder, &known.folder))
        });
        kept.extend(
            rules
                .filter(|known| !found.contains(&known.id))
                .map(|known| Fused {
                    id: known.id.clone(),
                    score: 0.0,
                    channels: BTreeMap::new(),
                }),
        );
        let rank_settings = pipeline.rank_settings(
            request.limit.unwrap_or(settings.limit),
            request.token_budget.unwrap_or(settings.token_budget),
        );
        let looked_at = (pipeline.rerank.per_result * rank_settings.limit).max(pipeline.rerank.least);
        let (head, tail) = kept.split_at(kept.len().min(looked_at));
        let rules = tail.iter().filter(|one| {
            index
                .get(&one.id)
                .is_some_and(|known| known.tier == Tier::Constitutional)
        });
        let head: Vec<Fused> = head.iter().chain(rules).cloned().collect();
        let described = self.described(&head, &best).await?;
        let candidates: Vec<Candidate> = described
            .iter()
            .map(|(one, row, excerpt)| Candidate {
                id: one.id.clone(),
                score: one.score,
                tier: super::index::tier(&row.tier),
                confidence: row.confidence,
                attention: session.attention.get(&one.id).copied().unwrap_or(0.0),
                tokens: estimate_tokens(excerpt) + estimate_tokens(&row.title),
                already_shown: request.skip_shown && session.shown.contains(&one.id),
            })
            .collect();
        let words: Vec<BTreeSet<String>> = described
            .iter()
            .map(|(_, _, excerpt)| satiety::text::Tokenization::Words.set(excerpt))
            .collect();
        let ranked = rank(&candidates, &rank_settings, |one, other| {
            satiety::text::jaccard(&words[one], &words[other])
        });
        watch.lap(Stage::Rerank, candidates.len(), ranked.chosen.len());

        let held = |positions: &[usize]| -> Vec<Held> {
            let rows = positions
                .iter()
                .filter_map(|at| described.get(*at).zip(candidates.get(*at)));
            rows.map(|((one, row, _), candidate)| Held {
                id: one.id.clone(),
                title: row.title.clone(),
                tokens: candidate.tokens,
            })
            .collect()
        };
        let results: Vec<MemoryResult> = ranked
            .chosen
            .iter()
            .enumerate()
            .filter_map(|(at, chosen)| {
                let (one, row, excerpt) = described.get(chosen.candidate)?;
                Some(MemoryResult {
                    rank: at + 1,
                    id: one.id.clone(),
                    title: row.title.clone(),
                    excerpt: excerpt.clone(),
                    partial: excerpt.len() < row.content.len(),
                    tier: super::index::tier(&row.tier),
                    folder: row.folder.clone(),
                    kind: row.kind.clone(),
                    score: chosen.score,
                    constitutional_only: chosen.lifted || one.channels.is_empty(),
                    channels: one.channels.clone(),
                    tokens: estimate_tokens(excerpt) + estimate_tokens(&row.title),
                })
            })
            .collect();
        let (already_shown, over_budget) = (held(&ranked.already_shown), held(&ranked.over_budget));
        watch.lap(Stage::FinalRank, ranked.chosen.len(), results.len());
        let total = watch.started.elapsed().as_secs_f64() * 1000.0;
        let scores: Vec<f64> = results.iter().map(|result| result.score).collect();
        let degraded = if by_meaning { problem } else { None };
        Ok(MemorySearch {
            query_id: satiety::ids::prefixed("eq", Uuid::now_v7()),
            query: request.query.clone(),
            tokens: results.iter().map(|result| result.tokens).sum(),
            intent,
            mode,
            already_shown,
            over_budget,
            degraded,
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

    /// Memories whose trigger phrases are said in a text.
    pub async fn memory_match_triggers(
        &self,
        text: &str,
        limit: usize,
    ) -> Result<MatchedTriggers, EngineError> {
        let store = self.store().await?;
        let (embedder, _) = self.memory_embedder().await;
        let described = embedder.map(|embedder| (embedder.id().to_string(), embedder.dimension()));
        let named = described
            .as_ref()
            .map(|(name, dimension)| (name.as_str(), *dimension));
        let index = Index::current(&self.memory, store, named).await?;
        let now = now_micros();
        let alive = index
            .known
            .iter()
            .filter(|known| known.expires_at.is_none_or(|at| at > now));
        let mut hits = match_triggers(text, alive.map(|known| (known.id.as_str(), &known.phrases[..])));
        hits.truncate(limit);
        let ids: Vec<String> = hits.iter().map(|hit| hit.id.clone()).collect();
        let rows = by_id(store.memories_by_id(&ids).await?);
        let matches = hits.into_iter().filter_map(|hit| {
            let row = rows.get(&hit.id)?;
            Some(TriggerMatch {
                title: row.title.clone(),
                tier: super::index::tier(&row.tier),
                id: hit.id,
                score: hit.score,
            })
        });
        Ok(MatchedTriggers {
            matches: matches.collect(),
        })
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

    async fn memory_session(
        &self,
        request: &SearchRequest,
        pipeline: &Pipeline,
    ) -> Result<Session, EngineError> {
        let Some(name) = &request.session else {
            return Ok(Session::default());
        };
        let store = self.store().await?;
        let look_back = pipeline.session.look_back;
        let queries = store.queries_of_session(name, look_back).await?;
        let events = store.feedback_of_session(name, look_back).await?;
        let used = events.iter().filter(|event| {
            matches!(
                event.event_type.as_str(),
                "read_after_search" | "reference" | "validate_useful"
            )
        });
        // How many queries were asked since the one that the use belongs to.
        let turns = |event: &FeedbackRow| {
            let at = queries
                .iter()
                .position(|(id, ..)| Some(id) == event.query_id.as_ref());
            u32::try_from(at.unwrap_or(0)).unwrap_or(look_back)
        };
        let used = used.filter_map(|event| Some((event.memory_id.as_deref()?, turns(event))));
        let again = queries
            .first()
            .filter(|(_, query, _)| is_research(&request.query, query));
        Ok(Session {
            attention: session_attention(used, pipeline.session.decay),
            shown: queries
                .iter()
                .flat_map(|(_, _, results)| results.iter().cloned())
                .collect(),
            research_of: again.map(|(id, ..)| id.clone()),
        })
    }

    /// Causal neighbours of the best of what was found, each with a share of the score of what led to it.
    async fn memory_neighbours(
        &self,
        seeds: &[Fused],
        hops: usize,
        most: usize,
        links: LinkSettings,
    ) -> Result<Vec<Hit>, EngineError> {
        let mut reached: BTreeMap<String, f64> = BTreeMap::new();
        let top = seeds
            .first()
            .map_or(1.0, |seed| seed.score)
            .max(f64::MIN_POSITIVE);
        let mut border: BTreeMap<String, f64> = seeds
            .iter()
            .take(links.seeds)
            .map(|seed| (seed.id.clone(), seed.score / top))
            .collect();
        for _ in 0..hops {
            let ids: Vec<String> = border.keys().cloned().collect();
            if ids.is_empty() {
                break;
            }
            let mut next: BTreeMap<String, f64> = BTreeMap::new();
            for link in self.store().await?.memory_links(&ids).await? {
                for (from, to) in [(&link.from_id, &link.to_id), (&link.to_id, &link.from_id)] {
                    let Some(score) = border.get(from) else { continue };
                    let share = score * links.share;
                    if reached.get(to).is_none_or(|known| *known < share) {
                        reached.insert(to.clone(), share);
                        next.insert(to.clone(), share);
                    }
                }
            }
            border = next;
        }
        let mut hits: Vec<Hit> = reached
            .into_iter()
            .map(|(id, score)| Hit::new(id, score))
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        hits.truncate(most);
        Ok(hits)
    }

    /// What is known about candidates, with the piece of each that fits best.
    async fn described(
        &self,
        fused: &[Fused],
        best: &BestPieces,
    ) -> Result<Vec<(Fused, MemoryRow, String)>, EngineError> {
        let store = self.store().await?;
        let ids: Vec<String> = fused.iter().map(|one| one.id.clone()).collect();
        let rows = by_id(store.memories_by_id(&ids).await?);
        let docs: Vec<i64> = ids
            .iter()
            .filter_map(|id| best.get(id).map(|(_, doc)| *doc))
            .collect();
        let pieces: HashMap<i64, String> = store
            .memory_pieces(&docs)
            .await?
            .into_iter()
            .map(|(doc, _, body)| (doc, body))
            .collect();
        let described = fused.iter().filter_map(|one| {
            let row = rows.get(&one.id)?.clone();
            let piece = best.get(&one.id).and_then(|(_, doc)| pieces.get(doc));
            let excerpt = piece.cloned().unwrap_or_else(|| opening(&row.content));
            Some((one.clone(), row, excerpt))
        });
        Ok(described.collect())
    }

    async fn log_search(&self, request: &SearchRequest, answer: &MemorySearch) -> Result<(), EngineError> {
        let mut contributions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for result in &answer.results {
            for channel in result.channels.keys() {
                contributions.entry(channel.name()).or_default().push(&result.id);
            }
        }
        let row = EvalQueryRow {
            query_id: answer.query_id.clone(),
            query: request.query.clone(),
            intent: answer.intent.intent.map(|intent| intent.name().to_owned()),
            mode: Some(answer.mode.selected_mode.name().into()),
            session_id: request.session.clone(),
            tool_name: request.tool.into(),
            result_ids: answer.results.iter().map(|result| result.id.clone()).collect(),
            channel_contributions: json!(contributions),
            total_latency_ms: Some(answer.telemetry.total_latency_ms),
            fusion_weights: Some(json!(answer.telemetry.weights)),
            quality_proxy_score: Some(answer.telemetry.quality_proxy_score),
            trace_id: Some(answer.telemetry.trace_id.clone()),
            is_eval_corpus: false,
            eval_category: None,
            detail: json!({"degraded": answer.degraded, "folder": request.folder}),
        };
        let store = self.store().await?;
        store.put_evaluation_corpus(&[row], &[]).await?;
        if let (Some(session), Some(earlier)) = (&request.session, &answer.telemetry.re_search_of) {
            let event = FeedbackRow {
                feedback_id: satiety::ids::prefixed("fb", Uuid::now_v7()),
                event_type: "re_search".into(),
                session_id: session.clone(),
                query_id: Some(earlier.clone()),
                memory_id: None,
                rank_in_results: None,
                metadata: json!({"asked_again_as": answer.query_id}),
                created_at: now_micros(),
            };
            store.put_feedback(&[event]).await?;
        }
        Ok(())
    }
}

fn check(request: &SearchRequest) -> Result<(), MemoryError> {
    if request.query.trim().is_empty() {
        return Err(MemoryError::EmptyQuery);
    }
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

/// The best hit of each memory that fits, in order.
fn once_each(hits: Vec<Hit>, most: usize, fits: impl Fn(&Hit) -> bool) -> Vec<Hit> {
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Hit> = hits
        .into_iter()
        .filter(|hit| fits(hit) && seen.insert(hit.id.clone()))
        .collect();
    kept.truncate(most);
    kept
}

fn by_id(rows: Vec<MemoryRow>) -> HashMap<String, MemoryRow> {
    rows.into_iter().map(|row| (row.memory_id.clone(), row)).collect()
}

/// The beginning of a text that no channel pointed into.
fn opening(content: &str) -> String {
    let pieces = satiety::memory::chunk(content, satiety::memory::ChunkSettings::default());
    pieces
        .into_iter()
        .next()
        .map(|piece| piece.body)
        .unwrap_or_default()
}
