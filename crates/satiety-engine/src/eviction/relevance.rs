//! Slow relevance signals, computed outside the agent's critical path: similarity of items to the goal by the
//! sentence model, and ratings by a cheap chat model. Run it in the background; proposals use the signals
//! available by then.

use crate::handles::EvictionOperations;
use std::time::Instant;

use satiety::eviction::Signals;
use satiety_models::chat::{Chat, ChatMessage, ChatRequest, JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::embedding_cache::EmbeddingCache;
use crate::{EngineError, extraction};

const SYSTEM: &str = include_str!("../prompts/score_context.system.md");
/// Items rated per call: those that would be evicted first.
const MAX_RATED: usize = 32;
/// Characters of an item that are sent to the model.
const MAX_ITEM_CHARS: usize = 4000;
const MAX_TOKENS: u32 = 64;

/// Result of refreshing the relevance signals of a scope.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RefreshResponse {
    /// Id of the refreshed scope.
    pub scope_id: String,
    /// Items whose similarity to the goal is now known.
    pub embedded: usize,
    /// Items sent to the scorer model.
    pub asked: usize,
    /// Items whose rating was already cached.
    pub cached: usize,
    /// Requests to the scorer model that failed.
    pub failed: usize,
    /// Scorer model; absent if none is configured.
    pub model: Option<String>,
    /// Whether the circuit breaker is open after repeated failures.
    pub breaker_open: bool,
}

#[derive(Deserialize)]
struct Rating {
    relevance: f64,
}

impl EvictionOperations<'_> {
    /// Computes the slow relevance signals of a scope's items and re-ranks them.
    pub async fn refresh(self, scope_id: &str) -> Result<RefreshResponse, EngineError> {
        let loaded = self.load(scope_id).await?;
        if loaded.revision == 0 {
            return Err(super::scopes::scope_not_found(scope_id));
        }
        let goal = loaded.goal.clone();
        let mut refreshed = RefreshResponse {
            scope_id: scope_id.to_owned(),
            ..RefreshResponse::default()
        };
        let mut found: Vec<(String, Signals)> = Vec::new();
        if let (Some(goal), Some(embedder)) = (&goal, self.engine.embedder().await?) {
            let texts: Vec<(String, String)> = loaded
                .scope
                .items()
                .filter(|item| item.signals.semantic.is_none())
                .filter_map(|item| Some((item.ctx_id.clone(), item.content.clone()?)))
                .collect();
            let pairs: Vec<(String, String)> = texts
                .iter()
                .map(|(_, text)| (goal.clone(), text.clone()))
                .collect();
            let cosines = EmbeddingCache::new(embedder).cosines(&pairs).await?;
            for ((ctx_id, _), cosine) in texts.into_iter().zip(cosines) {
                let semantic = Some(cosine.clamp(0.0, 1.0));
                found.push((
                    ctx_id,
                    Signals {
                        semantic,
                        ..Signals::default()
                    },
                ));
                refreshed.embedded += 1;
            }
        }
        if self.engine.settings.chat.is_some() {
            let ranked: Vec<(String, String)> = loaded
                .scope
                .ranked()
                .filter_map(|id| loaded.scope.item(id))
                .filter(|item| item.signals.model.is_none())
                .filter_map(|item| Some((item.ctx_id.clone(), item.content.clone()?)))
                .take(MAX_RATED)
                .collect();
            self.rate_items(
                ranked,
                goal.as_deref().unwrap_or_default(),
                &mut found,
                &mut refreshed,
            )
            .await?;
        }
        if !found.is_empty() {
            self.change(scope_id, |loaded, draft| {
                for (ctx_id, signals) in &found {
                    // Items that were evicted in the meantime need no rating.
                    if loaded.scope.item(ctx_id).is_some() {
                        loaded.scope.inform(ctx_id, *signals)?;
                        loaded.keep(ctx_id, draft)?;
                    }
                }
                Ok(())
            })
            .await?;
        }
        Ok(refreshed)
    }

    async fn rate_items(
        self,
        items: Vec<(String, String)>,
        goal: &str,
        found: &mut Vec<(String, Signals)>,
        refreshed: &mut RefreshResponse,
    ) -> Result<(), EngineError> {
        let prompt = self
            .active_scorer()
            .await?
            .prompt
            .unwrap_or_else(|| SYSTEM.to_owned());
        let model = self
            .engine
            .settings
            .chat
            .clone()
            .ok_or(EngineError::NoChatModel)?;
        let chat = extraction::open_chat(&model, self.engine)?;
        refreshed.model = Some(model.clone());
        let store = self.engine.store().await?;
        for (ctx_id, content) in items {
            let key = blake3::hash(format!("{model}\0{prompt}\0{goal}\0{content}").as_bytes())
                .to_hex()
                .to_string();
            let opinion = |relevance| Signals {
                model: Some(relevance),
                ..Signals::default()
            };
            if let Some(relevance) = store.eviction().opinion(&key).await? {
                found.push((ctx_id, opinion(relevance)));
                refreshed.cached += 1;
                continue;
            }
            let closed = self
                .engine
                .eviction
                .breaker
                .lock()
                .is_ok_and(|mut breaker| breaker.is_closed(Instant::now()));
            if !closed {
                refreshed.breaker_open = true;
                break;
            }
            refreshed.asked += 1;
            match rate_item(chat.as_ref(), &prompt, goal, &content).await {
                Ok(relevance) => {
                    if let Ok(mut breaker) = self.engine.eviction.breaker.lock() {
                        breaker.succeeded();
                    }
                    store.eviction().put_opinion(&key, &model, relevance).await?;
                    found.push((ctx_id, opinion(relevance)));
                }
                Err(problem) => {
                    tracing::warn!(model, problem, "the scorer model returned no rating");
                    refreshed.failed += 1;
                    if let Ok(mut breaker) = self.engine.eviction.breaker.lock() {
                        breaker.failed(Instant::now());
                    }
                }
            }
        }
        Ok(())
    }
}

async fn rate_item(chat: &dyn Chat, prompt: &str, goal: &str, content: &str) -> Result<f64, String> {
    // Untrusted text cannot know the marker, so it cannot close its own section.
    let marker = uuid::Uuid::now_v7().simple().to_string();
    let content: String = content.chars().take(MAX_ITEM_CHARS).collect();
    let user =
        format!("<goal-{marker}>\n{goal}\n</goal-{marker}>\n<item-{marker}>\n{content}\n</item-{marker}>");
    let request = ChatRequest {
        messages: vec![ChatMessage::system(prompt), ChatMessage::user(user.as_str())],
        temperature: Some(0.0),
        max_tokens: MAX_TOKENS,
        schema: Some(JsonSchema {
            name: "opinion",
            schema: json!({"type": "object", "properties": {"relevance": {"type": "number", "minimum": 0, "maximum": 1}},
                "required": ["relevance"], "additionalProperties": false}),
        }),
    };
    let reply = chat.complete(request).await.map_err(|error| error.to_string())?;
    let opinion: Rating = serde_json::from_str(&reply.text).map_err(|error| error.to_string())?;
    if (0.0..=1.0).contains(&opinion.relevance) {
        Ok(opinion.relevance)
    } else {
        Err(format!("{} is not between 0 and 1", opinion.relevance))
    }
}
