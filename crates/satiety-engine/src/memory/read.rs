//! Reading a memory whole, and noticing that a text quotes one: what an agent does with results, without being asked.

use crate::handles::MemoryOperations;
use std::collections::BTreeSet;

use satiety::memory::{FeedbackKind, LinkKind, Scope, found_by, learn_from_selection, references};
use satiety_store::memory::FeedbackRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::memories::Memory;
use super::scope::{check_names, check_text};
use super::search::MatchedTriggers;
use crate::EngineError;

/// Queries of a session whose results a read or a quotation may belong to.
const LOOK_BACK: u32 = 50;
/// Results that a text is compared with, the latest first.
const COMPARED: usize = 60;
/// A text that is longer than this is compared by its beginning.
const LONGEST_TEXT: usize = 256 << 10;
/// Matches unless the request says otherwise.
const DEFAULT_MATCHES: usize = 5;

/// A memory to be read.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The memory's id.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// The session: when one of its searches found the memory, the read is recorded.
    #[serde(default)]
    pub session: Option<String>,
    /// The project to look in, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// A memory, whole.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReadMemory {
    /// The memory.
    #[serde(flatten)]
    pub memory: Memory,
    /// How it bears on others, and others on it.
    pub links: Vec<MemoryLink>,
    /// The query of the session that found it.
    pub query_id: Option<String>,
    /// Its rank there, from 1.
    pub rank_in_results: Option<i64>,
}

/// A link of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryLink {
    /// From which memory.
    pub from: String,
    /// How it bears on the other.
    pub kind: LinkKind,
    /// To which.
    pub to: String,
    /// The other memory's title.
    pub title: String,
}

/// A text in which trigger phrases may be said.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MatchBody")]
pub struct MatchRequest {
    /// The text.
    pub text: String,
    /// Maximum number of matches; 5 by default.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 200))]
    pub limit: Option<usize>,
    /// The session: its results that the text quotes count as used.
    #[serde(default)]
    pub session: Option<String>,
    /// The project, by name or id, or `all`. Global memories are included.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// A session's queries with what they found, newest first.
type Queries = Vec<(String, String, Vec<String>)>;

impl MemoryOperations<'_> {
    /// One memory, whole. When a search of the session found it, that it was read is remembered with query and rank.
    pub async fn read(self, request: &ReadRequest) -> Result<ReadMemory, EngineError> {
        check_names(request.session.as_deref(), None, None)?;
        let memory = self.get(&request.id, request.scope.as_ref()).await?;
        let scope = self.scope(request.scope.as_ref());
        let links = self.links_of(&request.id, &scope).await?;
        let (mut query_id, mut rank_in_results) = (None, None);
        if let Some(session) = &request.session {
            let queries = self
                .engine
                .store()
                .await?
                .query_log()
                .queries_of_session(session, LOOK_BACK)
                .await?;
            if let Some((query, _, rank)) = found_by(&queries, &request.id) {
                (query_id, rank_in_results) = (Some(query.to_owned()), Some(rank));
                let kind = FeedbackKind::ReadAfterSearch;
                self.remember_use(
                    session,
                    kind,
                    &queries,
                    std::slice::from_ref(&request.id),
                    &json!({}),
                )
                .await?;
            }
        }
        Ok(ReadMemory {
            memory,
            links,
            query_id,
            rank_in_results,
        })
    }

    /// Memories whose trigger phrases are said in a text; those that it quotes are remembered as used.
    pub async fn matching(self, request: &MatchRequest) -> Result<MatchedTriggers, EngineError> {
        check_text(&request.text)?;
        check_names(request.session.as_deref(), None, None)?;
        if let Some(session) = &request.session {
            self.notice(session, &request.text, None).await?;
        }
        let scope = self.scope(request.scope.as_ref());
        self.match_triggers(&request.text, request.limit.unwrap_or(DEFAULT_MATCHES), &scope)
            .await
    }

    /// Which of the session's latest results a text says again, word for word: they were used. Each is remembered once a
    /// query, and what was used learns the query's words. `except` is the memory that the text is of.
    pub(super) async fn notice(
        self,
        session: &str,
        text: &str,
        except: Option<&str>,
    ) -> Result<Vec<String>, EngineError> {
        check_names(Some(session), None, None)?;
        let store = self.engine.store().await?;
        let queries = store.query_log().queries_of_session(session, LOOK_BACK).await?;
        let mut seen = BTreeSet::new();
        let recent: Vec<String> = queries
            .iter()
            .flat_map(|(_, _, results)| results)
            .filter(|id| Some(id.as_str()) != except && seen.insert(id.as_str()))
            .take(COMPARED)
            .cloned()
            .collect();
        if recent.is_empty() {
            return Ok(Vec::new());
        }
        let rows = store.memories().by_id(&recent).await?;
        let contents = rows
            .iter()
            .map(|row| (row.memory_id.as_str(), row.content.as_str()));
        let quoted = references(beginning(text), contents);
        if !quoted.is_empty() {
            let kind = FeedbackKind::Reference;
            let new = self
                .remember_use(session, kind, &queries, &quoted, &json!({}))
                .await?;
            self.teach(&queries, &new).await?;
        }
        Ok(quoted)
    }

    /// Remembers a use of memories by the latest query that found each; what is remembered already is not again. Says
    /// what is new.
    pub(super) async fn remember_use(
        self,
        session: &str,
        kind: FeedbackKind,
        queries: &Queries,
        memories: &[String],
        metadata: &Value,
    ) -> Result<Vec<String>, EngineError> {
        let store = self.engine.store().await?;
        let known = store.memories().feedback_of_session(session, 1000).await?;
        let mut events = Vec::new();
        for memory in memories {
            let Some((query, _, rank)) = found_by(queries, memory) else {
                continue;
            };
            let again = known.iter().any(|event| {
                event.event_type == kind.name()
                    && event.query_id.as_deref() == Some(query)
                    && event.memory_id.as_deref() == Some(memory)
            });
            if !again {
                events.push(event(
                    session,
                    kind,
                    Some((query, rank)),
                    memory,
                    metadata.clone(),
                ));
            }
        }
        store.memories().put_feedback(&events).await?;
        Ok(events.into_iter().filter_map(|event| event.memory_id).collect())
    }

    /// Teaches memories the words of the query that found each, within the bounds of learning.
    pub(super) async fn teach(self, queries: &Queries, memories: &[String]) -> Result<(), EngineError> {
        for memory in memories {
            let Some((_, query, _)) = found_by(queries, memory) else {
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

/// An event, with the query and rank that it belongs to where there is one.
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

fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or(text)
}
