//! Reads memories, and detects that a text quotes one: implicit feedback on search results.

use crate::handles::MemoryOperations;
use std::collections::{BTreeMap, BTreeSet};

use satiety::memory::{
    Attribution, FeedbackKind, LinkKind, PastQuery, Scope, learn_from_selection, references,
};
use satiety_store::memory::FeedbackRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::attribution::{MAX_QUERIES, attribution_metadata};
use super::memories::Memory;
use super::scope::{check_names, check_text};
use super::search::MatchedTriggers;
use crate::EngineError;

/// Number of results that a text is compared with, most recent first.
const MAX_RESULTS: usize = 60;
/// Maximum bytes of a text that are compared; the rest is ignored.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// Default number of matches.
const DEFAULT_MATCHES: usize = 5;

/// Request to read a memory.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// Id of the memory.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Session; if one of its searches found the memory, the read is recorded.
    #[serde(default)]
    pub session: Option<String>,
    /// Project to search, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// A complete memory with its links.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReadMemory {
    /// The memory with its metadata.
    #[serde(flatten)]
    pub memory: Memory,
    /// Links from and to the memory.
    pub links: Vec<MemoryLink>,
    /// Id of the session's query that it fits, if any.
    pub query_id: Option<String>,
    /// Rank in the results of that query, from 1.
    pub rank_in_results: Option<i64>,
    /// Probability that the read belongs to that query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

/// A causal link of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryLink {
    /// Id of the source memory.
    pub from: String,
    /// Relation of the source to the target.
    pub kind: LinkKind,
    /// Id of the target memory.
    pub to: String,
    /// Title of the other memory.
    pub title: String,
}

/// Request to match trigger phrases in a text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MatchBody")]
pub struct MatchRequest {
    /// Text to match against.
    pub text: String,
    /// Maximum number of matches; 5 by default.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 200))]
    pub limit: Option<usize>,
    /// Session; its results quoted in the text count as used if the caller may write.
    #[serde(default)]
    pub session: Option<String>,
    /// Project, by name or id, or `all`. Global memories are included.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// Memories that were used, each with its attribution.
pub(super) type Uses = BTreeMap<String, Attribution>;

impl MemoryOperations<'_> {
    /// Returns a complete memory. If a search of the session found it, the read is recorded with query and
    /// rank.
    pub async fn read(self, request: &ReadRequest) -> Result<ReadMemory, EngineError> {
        check_names(request.session.as_deref(), None, None)?;
        let memory = self.get(&request.id, request.scope.as_ref()).await?;
        let scope = self.scope(request.scope.as_ref());
        let links = self.links_of(&request.id, &scope).await?;
        let mut credit = None;
        if let Some(session) = &request.session {
            let queries = self.past_queries(session, MAX_QUERIES).await?;
            let read = std::slice::from_ref(&request.id);
            let uses = self.attribute_uses(&queries, read, now_micros()).await?;
            let kind = FeedbackKind::ReadAfterSearch;
            self.record_use(session, kind, &uses, &json!({})).await?;
            credit = uses.into_values().next().and_then(|use_of| use_of.credited);
        }
        Ok(ReadMemory {
            memory,
            links,
            rank_in_results: credit.as_ref().map(|credit| credit.rank),
            probability: credit.as_ref().map(|credit| credit.probability),
            query_id: credit.map(|credit| credit.query_id),
        })
    }

    /// Returns memories whose trigger phrases occur in a text; memories that the text quotes are recorded as
    /// used.
    pub async fn matching(self, request: &MatchRequest) -> Result<MatchedTriggers, EngineError> {
        check_text(&request.text)?;
        check_names(request.session.as_deref(), None, None)?;
        if let Some(session) = &request.session {
            self.record_quoted(session, &request.text, None).await?;
        }
        let scope = self.scope(request.scope.as_ref());
        self.match_triggers(&request.text, request.limit.unwrap_or(DEFAULT_MATCHES), &scope)
            .await
    }

    /// Detects which of the session's latest results a text quotes verbatim: they were used. Each is recorded
    /// once per query, and learns the query's words. `except` is the memory that the text belongs to.
    pub(super) async fn record_quoted(
        self,
        session: &str,
        text: &str,
        except: Option<&str>,
    ) -> Result<Vec<String>, EngineError> {
        check_names(Some(session), None, None)?;
        let store = self.engine.store().await?;
        let queries = self.past_queries(session, MAX_QUERIES).await?;
        let mut seen = BTreeSet::new();
        let recent: Vec<String> = queries
            .iter()
            .flat_map(|query| &query.results)
            .filter(|id| Some(id.as_str()) != except && seen.insert(id.as_str()))
            .take(MAX_RESULTS)
            .cloned()
            .collect();
        if recent.is_empty() {
            return Ok(Vec::new());
        }
        let rows = store.memories().by_id(&recent).await?;
        let contents = rows
            .iter()
            .map(|row| (row.memory_id.as_str(), row.content.as_str()));
        let quoted = references(truncated(text), contents);
        if !quoted.is_empty() {
            let kind = FeedbackKind::Reference;
            let uses = self.attribute_uses(&queries, &quoted, now_micros()).await?;
            let new = self.record_use(session, kind, &uses, &json!({})).await?;
            self.learn_phrases(&queries, &uses, &new).await?;
        }
        Ok(quoted)
    }

    /// Records a use of memories for the query that each fits, without duplicates. Returns the new ones. A use
    /// that fits no query is recorded without one.
    pub(super) async fn record_use(
        self,
        session: &str,
        kind: FeedbackKind,
        uses: &Uses,
        metadata: &Value,
    ) -> Result<Vec<String>, EngineError> {
        let store = self.engine.store().await?;
        let known = store.memories().feedback_of_session(session, 1000).await?;
        let mut events = Vec::new();
        for (memory, attribution) in uses {
            let credit = attribution.credited.as_ref();
            let query = credit.map(|credit| credit.query_id.as_str());
            let again = known.iter().any(|event| {
                event.event_type == kind.name()
                    && event.query_id.as_deref() == query
                    && event.memory_id.as_deref() == Some(memory)
            });
            if !again {
                let metadata = attribution_metadata(attribution, metadata.clone());
                let place = credit.map(|credit| (credit.query_id.as_str(), credit.rank));
                events.push(event(session, kind, place, memory, metadata));
            }
        }
        store.memories().put_feedback(&events).await?;
        Ok(events.into_iter().filter_map(|event| event.memory_id).collect())
    }

    /// Adds the words of the query that each memory fits to its learned phrases, within the limits of
    /// learning and if the attribution is certain enough.
    pub(super) async fn learn_phrases(
        self,
        queries: &[PastQuery],
        uses: &Uses,
        memories: &[String],
    ) -> Result<(), EngineError> {
        for memory in memories {
            let Some(query) = learnable_query(queries, uses.get(memory)) else {
                continue;
            };
            let mut row = self.row(memory).await?;
            if let Some(phrase) = learn_from_selection(query, &row.triggers, &row.learnt) {
                row.learnt.push(phrase);
                row.updated_at = now_micros();
                self.engine.store().await?.memories().put(&row, None).await?;
            }
        }
        Ok(())
    }

    async fn links_of(self, id: &str, scope: &Scope) -> Result<Vec<MemoryLink>, EngineError> {
        let store = self.engine.store().await?;
        let links = store.memories().links(&[id.to_owned()]).await?;
        let others: Vec<String> = links
            .iter()
            .flat_map(|link| [&link.from_id, &link.to_id])
            .filter(|other| *other != id)
            .cloned()
            .collect();
        let rows = store.memories().by_id(&others).await?;
        let described = links.into_iter().filter_map(|link| {
            let other = if link.from_id == id {
                &link.to_id
            } else {
                &link.from_id
            };
            let row = rows.iter().find(|row| row.memory_id == *other)?;
            if !scope.sees(row.project.as_deref()) {
                return None;
            }
            Some(MemoryLink {
                kind: link.kind.parse().ok()?,
                title: row.title.clone(),
                from: link.from_id,
                to: link.to_id,
            })
        });
        Ok(described.collect())
    }
}

/// Text of the query whose words a memory may learn.
pub(super) fn learnable_query<'q>(
    queries: &'q [PastQuery],
    attribution: Option<&Attribution>,
) -> Option<&'q str> {
    let attribution = attribution.filter(|attribution| attribution.may_learn)?;
    let credited = attribution.credited.as_ref()?;
    let query = queries.iter().find(|query| query.id == credited.query_id)?;
    Some(&query.text)
}

/// Builds a feedback event, with its query and rank if known.
pub(super) fn event(
    session: &str,
    kind: FeedbackKind,
    found: Option<(&str, i64)>,
    memory: &str,
    metadata: Value,
) -> FeedbackRow {
    FeedbackRow {
        feedback_id: satiety::ids::prefixed("fb", Uuid::now_v7()),
        event_type: kind.name().into(),
        session_id: session.to_owned(),
        query_id: found.map(|(query, _)| query.to_owned()),
        memory_id: Some(memory.to_owned()),
        rank_in_results: found.map(|(_, rank)| rank),
        metadata,
        created_at: now_micros(),
    }
}

fn truncated(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES))
        .unwrap_or(text)
}
