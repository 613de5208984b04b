//! Memory search: a [`SearchMachine`] of the library decides; this executes its steps and logs the query.

use crate::handles::MemoryOperations;
use std::sync::Arc;
use std::time::Instant;

use satiety::memory::{
    Action, MemorySearch, Mode, Observation, Scope, SearchMachine, SearchQuery, TriggerMatch, ValidPipeline,
};
use satiety_models::Embedder;
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
    /// Also return the telemetry of each stage.
    #[serde(default)]
    pub explain: bool,
    /// Search pipeline to use.
    #[serde(skip)]
    pub pipeline: Arc<ValidPipeline>,
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
            explain: false,
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
    /// Searches, and logs the query with its results.
    pub async fn search(self, mut request: SearchRequest) -> Result<MemorySearch, EngineError> {
        let assignment = self.engine.experiments().assign(&mut request).await?;
        let answer = self.search_with(&request.pipeline, &request).await?;
        self.log_search(&request, &answer).await?;
        self.engine.experiments().shadow(&assignment, &request, &answer);
        Ok(answer)
    }

    /// Searches with this pipeline instead of the request's, without logging, so that a pipeline can be tried
    /// next to another.
    #[tracing::instrument(name = "search memory", skip_all)]
    pub async fn search_with(
        self,
        pipeline: &Arc<ValidPipeline>,
        request: &SearchRequest,
    ) -> Result<MemorySearch, EngineError> {
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
        };
        let store = self.engine.store().await?;
        let mut machine = Box::new(SearchMachine::new(Arc::clone(pipeline), query));
        let (mut embedder, mut degraded) = (None, None);
        loop {
            let observation = match machine.next() {
                Action::EmbedQuery => {
                    (embedder, degraded) = self.embedder().await;
                    let from = elapsed_ms();
                    let vector = match embedder {
                        Some(embedder) => embedder.embed(&[request.query.as_str()]).await?.pop(),
                        None => None,
                    };
                    let took_ms = elapsed_ms() - from;
                    Observation::QueryVector { vector, took_ms }
                }
                Action::OpenIndex => {
                    let wanted = embedder.map(|embedder| (embedder.id().to_string(), embedder.dimension()));
                    let wanted = wanted
                        .as_ref()
                        .map(|(name, dimension)| (name.as_str(), *dimension));
                    let index = self.current_index(wanted).await?;
                    let history = self.session_history(request, pipeline.session).await?;
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
                    Observation::Links(links.map(|link| (link.from_id, link.to_id)).collect())
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
        Ok(machine.finish(id("eq"), id("trace"), degraded, elapsed_ms()))
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
    async fn compute_bytes<T: Send + 'static>(
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

fn check(request: &SearchRequest) -> Result<(), MemoryError> {
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
