//! Memory search: a [`SearchMachine`] of the library decides; this executes its steps and logs the query.

use crate::handles::MemoryOperations;
use std::sync::Arc;
use std::time::Instant;

use satiety::memory::{
    Action, Link, MemoryFilter, MemorySearch, Mode, Observation, Scope, SearchMachine, SearchQuery,
    SessionHistory, TimePoint, TriggerMatch, ValidPipeline,
};
use satiety_models::{EmbedError, Embedder};
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::MemoryError;
use super::scope::check_names;
use crate::EngineError;

/// Maximum bytes that are scanned inline: up to about a tenth of a millisecond, a few times the cost of a
/// thread handoff.
const MAX_INLINE_BYTES: usize = 1 << 20;

/// Request to search memories.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SearchBody")]
pub struct SearchRequest {
    /// Query in plain words.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub query: String,
    /// Search depth; chosen by query and free context.
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
    /// Used share of your context, 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub token_usage: Option<f64>,
    /// Only this folder and below.
    #[serde(default)]
    pub folder: Option<String>,
    /// Session; memories it used before score higher.
    #[serde(default)]
    pub session: Option<String>,
    /// Omit results shown before.
    #[serde(default)]
    pub skip_shown: bool,
    /// Return results even if none is relevant.
    #[serde(default)]
    pub below_floor: bool,
    /// Also return stage telemetry.
    #[serde(default)]
    pub explain: bool,
    /// Conditions that all results satisfy.
    #[serde(default)]
    pub filter: MemoryFilter,
    /// Time to be true at; now by default.
    #[serde(default)]
    pub as_of: Option<TimePoint>,
    /// Search pipeline to use.
    #[serde(skip)]
    pub pipeline: Arc<ValidPipeline>,
    /// History to use instead of that of the session, to repeat an earlier search.
    #[serde(skip)]
    pub history: Option<Arc<SessionHistory>>,
    /// Calling tool, for the log.
    #[serde(skip, default = "default_tool")]
    pub tool: &'static str,
    /// Project, by name or id, or `all`. Global memories are included.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

fn default_tool() -> &'static str {
    "memory_search"
}

impl Default for SearchRequest {
    /// An empty query over everything, with the default pipeline.
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
            below_floor: false,
            explain: false,
            filter: MemoryFilter::default(),
            as_of: None,
            history: None,
            pipeline: Arc::clone(ValidPipeline::standard()),
            tool: default_tool(),
            scope: None,
        }
    }
}

/// Memories whose trigger phrases occur in a text.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MatchedTriggers {
    /// Matches in descending order of score.
    pub matches: Vec<TriggerMatch>,
}

impl<'e> MemoryOperations<'e> {
    /// Searches, and logs the query with its results unless the tenant has no storage left.
    pub async fn search(self, mut request: SearchRequest) -> Result<MemorySearch, EngineError> {
        let assignment = self.engine.experiments().assign(&mut request).await?;
        let (answer, vector) = self.search_embedded(&request.pipeline, &request).await?;
        // Searching does not let the store of a tenant grow beyond its quota.
        if self.engine.admit_storage().is_ok() {
            self.log_search(&request, &answer, vector.as_ref()).await?;
            self.engine.experiments().shadow(&assignment, &request, &answer);
        }
        Ok(answer)
    }

    /// Searches with this pipeline instead of the request's, without logging, so that a pipeline can be tried
    /// next to another.
    pub async fn search_with(
        self,
        pipeline: &Arc<ValidPipeline>,
        request: &SearchRequest,
    ) -> Result<MemorySearch, EngineError> {
        Ok(self.search_embedded(pipeline, request).await?.0)
    }

    /// Like `search_with`, and returns the vector of the query with its model, if it was embedded.
    #[tracing::instrument(name = "search memory", skip_all)]
    async fn search_embedded(
        self,
        pipeline: &Arc<ValidPipeline>,
        request: &SearchRequest,
    ) -> Result<(MemorySearch, Option<QueryVector>), EngineError> {
        check(request)?;
        self.check_query(&request.query)?;
        let began = Instant::now();
        let elapsed_ms = move || began.elapsed().as_secs_f64() * 1000.0;
        let query = SearchQuery {
            text: request.query.clone(),
            mode: request.mode,
            limit: request.limit,
            token_budget: request.token_budget,
            token_usage: request.token_usage,
            folder: request.folder.clone().unwrap_or_default(),
            scope: self.scope(request.scope.as_ref()),
            skip_shown: request.skip_shown,
            filter: request.filter.clone(),
            as_of: request.as_of,
            below_floor: request.below_floor,
        };
        let store = self.engine.store().await?;
        let mut machine = Box::new(SearchMachine::new(Arc::clone(pipeline), query));
        let (mut embedder, mut degraded) = (None, None);
        let mut query_vector: Option<QueryVector> = None;
        loop {
            let observation = match machine.next() {
                Action::EmbedQuery => {
                    (embedder, degraded) = self.embedder().await;
                    let from = elapsed_ms();
                    let vector = match embedder {
                        Some(embedder) => match embedder.embed(&[request.query.as_str()]).await {
                            Ok(mut vectors) => vectors.pop(),
                            Err(error) => {
                                degraded = Some(quota_problem(error)?);
                                None
                            }
                        },
                        None => None,
                    };
                    let took_ms = elapsed_ms() - from;
                    let model = embedder.map(|embedder| embedder.id().to_string());
                    query_vector = model.zip(vector.clone());
                    Observation::QueryVector { vector, took_ms }
                }
                Action::OpenIndex => {
                    let wanted = embedder.map(|embedder| (embedder.id().to_string(), embedder.dimension()));
                    let wanted = wanted
                        .as_ref()
                        .map(|(name, dimension)| (name.as_str(), *dimension));
                    let index = self.current_index(wanted).await?;
                    let history = if let Some(history) = &request.history {
                        SessionHistory::clone(history)
                    } else {
                        let vector = query_vector.as_ref();
                        self.session_history(request, vector, pipeline.session).await?
                    };
                    let now = now_micros();
                    Observation::Index { index, history, now }
                }
                Action::Compute { bytes } => {
                    let work = move || {
                        machine.compute(&elapsed_ms);
                        machine
                    };
                    machine = self.compute_bytes(bytes, work).await?;
                    continue;
                }
                Action::ReadLinks(ids) => {
                    let links = store.memories().links(&ids).await?.into_iter();
                    Observation::Links(links.filter_map(link_of).collect())
                }
                Action::ReadTexts(docs) => {
                    let rows = store.memories().chunk_texts(&docs).await?.into_iter();
                    Observation::Texts(rows.map(|(doc, _, body)| (doc, body)).collect())
                }
                Action::Done => break,
            };
            machine.observe(observation);
        }
        let id = |kind| satiety::ids::prefixed(kind, Uuid::now_v7());
        let found = machine.finish(id("eq"), id("trace"), degraded, elapsed_ms());
        Ok((found, query_vector))
    }

    /// Returns memories whose trigger phrases occur in a text.
    pub(super) async fn match_triggers(
        self,
        text: &str,
        limit: usize,
        scope: &Scope,
    ) -> Result<MatchedTriggers, EngineError> {
        let index = self.current_index(None).await?;
        let (text, scope, now) = (text.to_owned(), scope.clone(), now_micros());
        // Each word is normalised, split and looked up.
        let bytes = 64 * text.len();
        let work = move || index.match_triggers(&text, &scope, now, limit);
        let matches = self.compute_bytes(bytes, work).await?;
        Ok(MatchedTriggers { matches })
    }

    /// Runs work that scans this many bytes, on another thread unless they are few.
    pub(super) async fn compute_bytes<T: Send + 'static>(
        self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        if bytes < MAX_INLINE_BYTES {
            return Ok(work());
        }
        self.engine.compute_on_thread(move |_| Ok(work())).await
    }

    /// Returns the sentence model, or the reason why semantic search is unavailable.
    pub(super) async fn embedder(self) -> (Option<&'e dyn Embedder>, Option<String>) {
        match self.engine.embedder().await {
            Ok(Some(embedder)) => (Some(embedder), None),
            Ok(None) => (
                None,
                Some(
                    "no sentence model (`models.embedder` is `none`): words, triggers and links only".into(),
                ),
            ),
            Err(error) => (None, Some(format!("cannot use the sentence model: {error}"))),
        }
    }
}

/// Why a tenant without model tokens searches by words only; any other error fails the search.
fn quota_problem(error: EmbedError) -> Result<String, EngineError> {
    match EngineError::from(error) {
        exceeded @ EngineError::QuotaExceeded { .. } => {
            Ok(format!("cannot use the sentence model: {exceeded}"))
        }
        other => Err(other),
    }
}

/// Embedding model and vector of a query.
pub(super) type QueryVector = (String, Vec<f32>);

/// A link of the database; `None` for a kind of a newer version.
pub(crate) fn link_of(row: satiety_store::memory::LinkRow) -> Option<Link> {
    Some(Link {
        kind: row.kind.parse().ok()?,
        from: row.from_id,
        to: row.to_id,
    })
}

fn check(request: &SearchRequest) -> Result<(), MemoryError> {
    request.filter.check()?;
    if request.query.trim().is_empty() {
        return Err(MemoryError::EmptyQuery);
    }
    check_names(request.session.as_deref(), None, request.folder.as_deref())?;
    if let Some(usage) = request.token_usage.filter(|usage| !(0.0..=1.0).contains(usage)) {
        return Err(MemoryError::OutOfRange {
            what: "token_usage",
            range: "from 0 to 1",
            value: usage.to_string(),
        });
    }
    if let Some(limit) = request.limit.filter(|limit| !(1..=200).contains(limit)) {
        return Err(MemoryError::OutOfRange {
            what: "number of results",
            range: "from 1 to 200",
            value: limit.to_string(),
        });
    }
    Ok(())
}
