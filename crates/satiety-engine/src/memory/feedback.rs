//! Feedback on search results: validation and links.

use crate::handles::MemoryOperations;
use std::collections::BTreeSet;

use satiety::memory::{
    Confidence, FeedbackKind, LinkKind, Scope, learn_from_selection, scroll_past, validate,
};
use satiety_store::memory::LinkRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::MemoryError;
use super::attribution::{MAX_QUERIES, attribution_metadata};
use super::read::learnable_query;
use crate::EngineError;

/// Request to record whether a memory was useful.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ValidateBody")]
pub struct ValidateRequest {
    /// Id of the memory.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Whether the memory helped.
    pub useful: bool,
    /// Session whose fitting query is judged.
    #[serde(default)]
    pub session: Option<String>,
    /// Project to search, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// State of a memory after a validation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ValidateResponse {
    /// Id of the validated memory.
    pub id: String,
    /// Updated confidence of the memory, 0 to 1.
    pub confidence: f64,
    /// Number of validations so far.
    pub validations: i64,
    /// Whether it may be promoted to a higher tier.
    pub promotion_eligible: bool,
    /// Id of the session's query that it fits, if any.
    pub query_id: Option<String>,
    /// Rank in the results of that query, from 1.
    pub rank_in_results: Option<i64>,
    /// Probability that the validation belongs to that query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Trigger phrase learned from this validation, if any.
    pub learnt_trigger: Option<String>,
}

/// Request to add or remove a causal link.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LinkBody")]
pub struct LinkRequest {
    /// Id of the source memory.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub from: String,
    /// Relation to the target memory.
    pub kind: LinkKind,
    /// Id of the target memory.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub to: String,
    /// Remove the link instead.
    #[serde(default)]
    pub remove: bool,
    /// Project to search, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// State of a causal link after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LinkResponse {
    /// Id of the source memory.
    pub from: String,
    /// Relation of the source to the target.
    pub kind: LinkKind,
    /// Id of the target memory.
    pub to: String,
    /// Whether the link exists now.
    pub linked: bool,
}

impl MemoryOperations<'_> {
    /// Records whether a memory was useful. Results ranked above it in the session's query count as passed
    /// over, and a useful memory learns the query's words as a trigger phrase, up to five.
    pub async fn validate(self, request: &ValidateRequest) -> Result<ValidateResponse, EngineError> {
        super::scope::check_names(request.session.as_deref(), None, None)?;
        let store = self.engine.store().await?;
        let mut row = self.visible_row(&request.id, request.scope.as_ref()).await?;
        let before = Confidence {
            value: row.confidence,
            validations: row.validations,
        };
        let after = validate(before, request.useful);
        let queries = match &request.session {
            Some(session) => self.past_queries(session, MAX_QUERIES).await?,
            None => Vec::new(),
        };
        let judged = std::slice::from_ref(&request.id);
        let uses = self.attribute_uses(&queries, judged, now_micros()).await?;
        let attribution = uses.get(&request.id).cloned().unwrap_or_default();
        let credit = attribution.credited.clone();
        let found = credit
            .as_ref()
            .and_then(|credit| queries.iter().find(|query| query.id == credit.query_id));
        let session = request.session.clone().unwrap_or_default();
        let event = |kind: FeedbackKind, memory: &str, metadata: Value| {
            let place = found.and_then(|query| {
                let at = query.results.iter().position(|result| result == memory)?;
                Some((query.id.as_str(), i64::try_from(at + 1).ok()?))
            });
            let metadata = attribution_metadata(&attribution, metadata);
            super::read::event(&session, kind, place, memory, metadata)
        };
        let kind = if request.useful {
            FeedbackKind::ValidateUseful
        } else {
            FeedbackKind::ValidateNotUseful
        };
        let mut events = vec![event(
            kind,
            &request.id,
            json!({"confidence": after.confidence.value}),
        )];
        let mut learnt_trigger = None;
        if let Some(query) = found.filter(|_| request.useful) {
            let used = BTreeSet::from([request.id.clone()]);
            let passed = scroll_past(&query.results, &used).iter();
            events.extend(passed.map(|id| event(FeedbackKind::ScrollPast, id, json!({}))));
            learnt_trigger = learnable_query(&queries, Some(&attribution))
                .and_then(|query| learn_from_selection(query, &row.triggers, &row.learnt));
        }
        row.learnt.extend(learnt_trigger.clone());
        row.confidence = after.confidence.value;
        row.validations = after.confidence.validations;
        row.updated_at = now_micros();
        store.memories().put(&row, None).await?;
        store.memories().put_feedback(&events).await?;
        Ok(ValidateResponse {
            id: row.memory_id,
            confidence: row.confidence,
            validations: row.validations,
            promotion_eligible: after.promotion_eligible,
            rank_in_results: credit.as_ref().map(|credit| credit.rank),
            probability: credit.as_ref().map(|credit| credit.probability),
            query_id: credit.map(|credit| credit.query_id),
            learnt_trigger,
        })
    }

    /// Adds or removes a causal link.
    pub async fn link(self, request: LinkRequest) -> Result<LinkResponse, EngineError> {
        if request.from == request.to {
            return Err(MemoryError::SelfLink(request.from).into());
        }
        let link = LinkRow {
            from_id: request.from.clone(),
            to_id: request.to.clone(),
            kind: request.kind.name().into(),
        };
        let store = self.engine.store().await?;
        let scope = request.scope.as_ref();
        if request.remove {
            // The database removes the links of deleted memories.
            for id in [&request.from, &request.to] {
                match self.visible_row(id, scope).await {
                    Ok(_) | Err(EngineError::Memory(MemoryError::NotFound(_))) => {}
                    Err(error) => return Err(error),
                }
            }
            store.memories().unlink(&link).await?;
        } else {
            self.visible_row(&request.from, scope).await?;
            self.visible_row(&request.to, scope).await?;
            if !store.memories().link(&link).await? {
                self.row(&request.from).await?;
                self.row(&request.to).await?;
            }
        }
        Ok(LinkResponse {
            from: request.from,
            kind: request.kind,
            to: request.to,
            linked: !request.remove,
        })
    }
}
