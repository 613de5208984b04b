//! Memory management: save, update, delete, list, and health.

use crate::handles::MemoryOperations;
use satiety::memory::{
    Author, ChunkSettings, Draft, MemoryFilter, NeedsPerson, OnDuplicate, Project, Provenance, Scope,
    TimePoint, chunk, content_hash, encode_vector, in_folder, may_write,
};
use satiety::retrieval::Tier;
use satiety_store::memory::{ChunkRow, MemoryRow, ProvenanceRow};
use satiety_store::{LogState, now_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::MemoryError;
use super::duplicates::{Comparison, ConflictingMemory, DuplicateMemory, SaveAction};
use super::scope::{check_names, project_of};
use crate::EngineError;

/// Default lifetime of a temporary memory in days.
const TEMPORARY_DAYS: i64 = 7;
/// Chunks per embedding batch.
const EMBED_BATCH: usize = 256;
/// Default page size of lists.
const DEFAULT_PAGE: usize = 50;
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// Request to save a memory.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SaveBody")]
pub struct SaveRequest {
    /// Summary in one line.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub title: String,
    /// Statement and reasons; Markdown.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub content: String,
    /// Default `normal`; `constitutional` needs a person.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Phrases that recall it when a text contains them.
    #[serde(default)]
    pub triggers: Vec<String>,
    /// Hierarchical path, such as store/sqlite.
    #[serde(default)]
    pub folder: String,
    /// decision, bug, convention, preference, note.
    #[serde(default)]
    pub kind: Option<String>,
    /// Delete it after this many days.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 36500))]
    pub expires_in_days: Option<i64>,
    /// Labels to filter by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Who said or wrote it; `agent` or `person` by default.
    #[serde(default, rename = "author")]
    #[schemars(length(max = 100))]
    pub written_by: Option<String>,
    /// When it was said or seen, if not now: RFC 3339 or a date.
    #[serde(default)]
    pub observed_at: Option<TimePoint>,
    /// Holds from this time.
    #[serde(default)]
    pub valid_from: Option<TimePoint>,
    /// Holds until this time.
    #[serde(default)]
    pub valid_until: Option<TimePoint>,
    /// If a memory says the same: keep both, update or merge it, or reject.
    #[serde(default)]
    pub on_duplicate: OnDuplicate,
    /// Path of the source file.
    #[serde(skip)]
    pub origin: Option<String>,
    /// Project to keep it in, by name or id, or `global` for all (scope `admin`).
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
    /// Session; its results quoted in the text count as used.
    #[serde(default)]
    pub session: Option<String>,
    /// Author of the memory.
    #[serde(skip)]
    pub author: Author,
}

impl From<Draft> for SaveRequest {
    fn from(draft: Draft) -> Self {
        Self {
            title: draft.title,
            content: draft.content,
            tier: Some(draft.tier),
            triggers: draft.triggers,
            folder: draft.folder,
            kind: Some(draft.kind),
            ..Self::default()
        }
    }
}

/// Request for one memory by id.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    /// Id of the memory.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Project to search, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// Changes to a memory; absent fields stay.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UpdateBody")]
pub struct UpdateRequest {
    /// Id of the memory.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// New title, one line.
    #[serde(default)]
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub title: Option<String>,
    /// New content in Markdown.
    #[serde(default)]
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub content: Option<String>,
    /// Tier to change to.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// New trigger phrases, replacing all.
    #[serde(default)]
    pub triggers: Option<Vec<String>>,
    /// Folder to move to.
    #[serde(default)]
    pub folder: Option<String>,
    /// Kind to change to.
    #[serde(default)]
    pub kind: Option<String>,
    /// New tags, replacing all.
    #[serde(default)]
    pub tags: Option<Vec<String>>,
    /// When it was said or seen: RFC 3339 or a date.
    #[serde(default)]
    pub observed_at: Option<TimePoint>,
    /// Holds from this time.
    #[serde(default)]
    pub valid_from: Option<TimePoint>,
    /// Holds until this time.
    #[serde(default)]
    pub valid_until: Option<TimePoint>,
    /// Learned phrase to remove.
    #[serde(default)]
    pub unlearn: Option<String>,
    /// Project to search, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
    /// New project, by name or id, or `global` for all (scope `admin`).
    #[serde(default)]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub move_to: Option<Scope>,
    /// Session; its results quoted in the text count as used.
    #[serde(default)]
    pub session: Option<String>,
    /// Author of the change.
    #[serde(skip)]
    pub author: Author,
}

/// Request to delete memories.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Ids of the memories.
    #[schemars(length(min = 1), inner(length(min = 1, max = 256)))]
    pub ids: Vec<String>,
    /// Project to search, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// Filter and page of memories to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Only this folder and below.
    #[serde(default)]
    pub folder: Option<String>,
    /// Only memories of this tier.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Only memories of this kind.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub kind: Option<String>,
    /// Only memories with this tag.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub tag: Option<String>,
    /// Only memories of this author.
    #[serde(default, rename = "author")]
    #[schemars(length(max = 100))]
    pub written_by: Option<String>,
    /// Recorded at this time or later: RFC 3339 or a date.
    #[serde(default)]
    pub recorded_from: Option<TimePoint>,
    /// Recorded before this time.
    #[serde(default)]
    pub recorded_until: Option<TimePoint>,
    /// Observed at this time or later.
    #[serde(default)]
    pub observed_from: Option<TimePoint>,
    /// Observed before this time.
    #[serde(default)]
    pub observed_until: Option<TimePoint>,
    /// `next_cursor` of the previous page.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,18}$"))]
    pub cursor: Option<String>,
    /// Memories per page; 50 by default.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 500))]
    pub limit: Option<usize>,
    /// The project, by name or id, or `all`. Global memories are included.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

impl ListRequest {
    /// Conditions of the request as the filter of a search.
    pub fn filter(&self) -> MemoryFilter {
        MemoryFilter {
            kinds: self.kind.iter().cloned().collect(),
            tags: self.tag.iter().cloned().collect(),
            authors: self.written_by.iter().cloned().collect(),
            tiers: self.tier.into_iter().collect(),
            recorded_from: self.recorded_from,
            recorded_until: self.recorded_until,
            observed_from: self.observed_from,
            observed_until: self.observed_until,
        }
    }

    /// Requests the page after a change: [`Memories::next`] of the previous page.
    #[must_use]
    pub fn after(change: i64) -> Self {
        Self {
            cursor: Some(change.to_string()),
            ..Self::default()
        }
    }
}

/// A stored memory with its metadata.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Memory {
    /// Id of the memory.
    pub id: String,
    /// Summary in one line.
    pub title: String,
    /// Statement and reasons, in Markdown.
    pub content: String,
    /// Tier that sets its importance.
    pub tier: Tier,
    /// Trigger phrases set by its author.
    pub triggers: Vec<String>,
    /// Trigger phrases learned from selections.
    pub learnt_triggers: Vec<String>,
    /// Hierarchical path, such as store/sqlite.
    pub folder: String,
    /// Kind, such as decision or bug.
    pub kind: String,
    /// Path of the source file, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Confidence from validations, 0 to 1.
    pub confidence: f64,
    /// Number of validations so far.
    pub validations: i64,
    /// Time when it was saved.
    pub created_at: String,
    /// Time of the last change.
    pub updated_at: String,
    /// Time when it is deleted, if it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Project of the memory; null if it is global.
    pub project: Option<Project>,
    /// Person, agent or system that said or wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Labels for filters, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Time when it was said or seen, if it is not that of saving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<String>,
    /// Time from which it holds, if bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<String>,
    /// Time from which it no longer holds, if bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<String>,
}

/// Result of saving a memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SaveResponse {
    /// The saved memory without its content, which the caller has.
    pub memory: ListResponse,
    /// Number of searchable chunks.
    pub chunks: usize,
    /// Model that embedded the chunks; without one, the memory is found by words and triggers only.
    pub embedder: Option<String>,
    /// Whether it was saved as a new memory, or changed an existing one that says the same.
    pub action: SaveAction,
    /// Existing memories that say the same, most similar first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<DuplicateMemory>,
    /// Existing memories that say something different about the same, most similar first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ConflictingMemory>,
    /// Whether vectors are being made in the background; until then it is found by words and triggers.
    pub pending: bool,
}

/// A page of memories.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryPage {
    /// Memories in the order of their last change.
    pub memories: Vec<ListResponse>,
    /// Cursor of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl From<Memories> for MemoryPage {
    fn from(list: Memories) -> Self {
        Self {
            memories: list.memories,
            next_cursor: list.next.map(|next| next.to_string()),
        }
    }
}

/// A page of memories with its numeric cursor.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Memories {
    /// Memories in the order of their last change.
    pub memories: Vec<ListResponse>,
    /// Cursor of the next page; `None` on the last one.
    pub next: Option<i64>,
}

/// Summary of a memory in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ListResponse {
    /// Id of the memory.
    pub id: String,
    /// Summary in one line.
    pub title: String,
    /// Tier that sets its importance.
    pub tier: Tier,
    /// Hierarchical path, such as store/sqlite.
    pub folder: String,
    /// Kind, such as decision or bug.
    pub kind: String,
    /// Confidence from validations, 0 to 1.
    pub confidence: f64,
    /// Project of the memory; null if it is global.
    pub project: Option<Project>,
}

/// Result of deleting memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeleteResponse {
    /// Ids of the deleted memories.
    pub deleted: Vec<String>,
}

/// Health and size of the memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryHealth {
    /// URL or path of the database.
    pub store: String,
    /// Total number of memories.
    pub memories: usize,
    /// Number of constitutional memories.
    pub constitutional: usize,
    /// Number of searchable chunks.
    pub chunks: i64,
    /// Number of chunks with a vector of the configured model.
    pub embedded: i64,
    /// Configured sentence model; absent if there is none.
    pub embedder: Option<String>,
    /// Progress of vectors that are made in the background.
    pub embedding: super::EmbeddingProgress,
    /// Source of the index, and how it follows the database.
    pub index: super::IndexActivity,
    /// Number of vectors of other models, which are ignored.
    pub vectors_of_other_models: usize,
    /// Memory used by vectors, in bytes.
    pub vector_bytes: usize,
    /// Approximate memory used by the word index, in bytes.
    pub word_bytes: usize,
    /// State of this process's query log.
    pub log: LogState,
    /// Reason why semantic search is unavailable or incomplete; absent if it works.
    pub degraded: Option<String>,
    /// Statistics of the agents' tasks.
    pub tasks: super::TaskMetrics,
    /// Metrics of the latest measured run; absent before the first.
    pub latest_metrics: Option<crate::retrieval::MeasuredRun>,
}

impl MemoryOperations<'_> {
    /// Saves a memory. Memories that its text quotes count as used by the session.
    #[tracing::instrument(name = "save memory", skip_all)]
    pub async fn save(self, request: SaveRequest) -> Result<SaveResponse, EngineError> {
        may_write(request.author, None, request.tier).map_err(MemoryError::from)?;
        let project = self.project(request.scope.as_ref(), request.author)?;
        let session = request.session.clone();
        check_names(session.as_deref(), None, None)?;
        check_author(request.written_by.as_deref(), request.author)?;
        let (on_duplicate, author) = (request.on_duplicate, request.author);
        let now = now_micros();
        let expired = self.engine.store().await?.memories().expired(now).await?;
        self.engine.store().await?.memories().remove(&expired).await?;
        let row = new_row(request, project.clone(), now)?;
        let (chunks, embedder) = self.chunks(&row).await?;
        let found = self.compare_with_stored(&row, &chunks, project.as_ref()).await?;
        if let Some(changed) = self
            .apply_to_duplicate(&row, &found, on_duplicate, author)
            .await?
        {
            self.record_quotes(session.as_deref(), &row).await?;
            return Ok(changed);
        }
        self.engine
            .store()
            .await?
            .memories()
            .put(&row, Some(&chunks))
            .await?;
        self.record_quotes(session.as_deref(), &row).await?;
        Ok(self.saved(row, chunks.len(), embedder, SaveAction::Saved, found))
    }

    fn saved(
        self,
        row: MemoryRow,
        chunks: usize,
        embedder: Option<String>,
        action: SaveAction,
        found: Comparison,
    ) -> SaveResponse {
        let queue = &self.engine.memory.embedding;
        let pending = chunks > 0 && embedder.is_none() && queue.is_active();
        if pending {
            queue.wake();
        }
        SaveResponse {
            memory: to_summary(row),
            chunks,
            embedder,
            pending,
            action,
            duplicates: found.duplicates,
            conflicts: found.conflicts,
        }
    }

    /// Changes a memory; chunks and embeds it again only when searchable fields changed. Memories that the
    /// new text quotes count as used by the session.
    pub async fn update(self, request: UpdateRequest) -> Result<SaveResponse, EngineError> {
        let session = request.session.filter(|_| request.content.is_some());
        check_names(session.as_deref(), None, None)?;
        let mut old = self.visible_row(&request.id, request.scope.as_ref()).await?;
        if let Some(phrase) = request.unlearn
            && !satiety::memory::unlearn(&mut old.learnt, &phrase)
        {
            return Err(MemoryError::NotLearnt {
                id: request.id,
                phrase,
            }
            .into());
        }
        let project = match &request.move_to {
            None => project_of(&old),
            // Every project sees it: one agent must not remove it from the others.
            Some(_) if old.project.is_none() && request.author == Author::Agent => {
                return Err(MemoryError::from(NeedsPerson::Global).into());
            }
            Some(place) => self.project(Some(place), request.author)?,
        };
        let draft = Draft {
            title: request.title.unwrap_or_else(|| old.title.clone()),
            content: request.content.unwrap_or_else(|| old.content.clone()),
            tier: request.tier.unwrap_or_else(|| super::index::tier(&old.tier)),
            triggers: request.triggers.unwrap_or_else(|| old.triggers.clone()),
            folder: request.folder.unwrap_or_else(|| old.folder.clone()),
            kind: request.kind.unwrap_or_else(|| old.kind.clone()),
        };
        let draft = draft.checked().map_err(MemoryError::from)?;
        let before = super::index::tier(&old.tier);
        may_write(request.author, Some(before), Some(draft.tier)).map_err(MemoryError::from)?;
        let (project, project_label) = project.map(|project| (project.id, project.label)).unzip();
        let provenance = provenance_row(
            Provenance {
                author: old.provenance.author.clone(),
                tags: request.tags.unwrap_or_else(|| old.provenance.tags.clone()),
                recorded_at: old.created_at,
                observed_at: request
                    .observed_at
                    .map(TimePoint::micros)
                    .or(old.provenance.observed_at),
                valid_from: request
                    .valid_from
                    .map(TimePoint::micros)
                    .or(old.provenance.valid_from),
                valid_until: request
                    .valid_until
                    .map(TimePoint::micros)
                    .or(old.provenance.valid_until),
            }
            .checked()
            .map_err(MemoryError::from)?,
        );
        let row = MemoryRow {
            provenance,
            content_hash: content_hash(&draft.title, &draft.content),
            title: draft.title,
            content: draft.content,
            tier: draft.tier.name().into(),
            triggers: draft.triggers,
            folder: draft.folder,
            kind: draft.kind,
            updated_at: now_micros(),
            project,
            project_label,
            ..old.clone()
        };
        // Relative dates ("last Friday") are indexed as they were on the day of observation.
        let searched = row.content_hash != old.content_hash
            || row.triggers != old.triggers
            || row.provenance.observed_at != old.provenance.observed_at;
        let (chunks, embedder) = if searched {
            self.chunks(&row).await?
        } else {
            (Vec::new(), None)
        };
        let replaced = searched.then_some(&chunks[..]);
        self.engine.store().await?.memories().put(&row, replaced).await?;
        self.record_quotes(session.as_deref(), &row).await?;
        Ok(self.saved(
            row,
            chunks.len(),
            embedder,
            SaveAction::Updated,
            Comparison::default(),
        ))
    }

    async fn record_quotes(self, session: Option<&str>, row: &MemoryRow) -> Result<(), EngineError> {
        if let Some(session) = session {
            self.record_quoted(session, &row.content, Some(&row.memory_id))
                .await?;
        }
        Ok(())
    }

    /// Deletes memories; if one of them does not exist, none is deleted.
    pub async fn delete(
        self,
        ids: &[String],
        scope: Option<&Scope>,
        author: Author,
    ) -> Result<DeleteResponse, EngineError> {
        for id in ids {
            let row = self.visible_row(id, scope).await?;
            may_write(author, Some(super::index::tier(&row.tier)), None).map_err(MemoryError::from)?;
        }
        self.engine.store().await?.memories().remove(ids).await?;
        Ok(DeleteResponse {
            deleted: ids.to_vec(),
        })
    }

    /// Returns one memory.
    pub async fn get(self, id: &str, scope: Option<&Scope>) -> Result<Memory, EngineError> {
        Ok(to_memory(self.visible_row(id, scope).await?))
    }

    /// Lists memories, one page at a time.
    pub async fn list(self, request: &ListRequest) -> Result<Memories, EngineError> {
        let folder = request.folder.as_deref().unwrap_or_default();
        let scope = self.scope(request.scope.as_ref());
        let filter = request.filter();
        filter.check().map_err(MemoryError::from)?;
        let now = now_micros();
        let cursor = request.cursor.as_deref().unwrap_or("0");
        let mut after: i64 = cursor.parse().map_err(|_| MemoryError::OutOfRange {
            what: "the cursor",
            range: "the `next_cursor` of a page",
            value: cursor.to_owned(),
        })?;
        let limit = request.limit.unwrap_or(DEFAULT_PAGE);
        let mut memories = Vec::new();
        loop {
            let rows = self.engine.store().await?.memories().after(after, 500).await?;
            if rows.is_empty() {
                return Ok(Memories { memories, next: None });
            }
            for row in rows {
                let (tier, change) = (super::index::tier(&row.tier), row.change);
                let expired = row.expires_at.is_some_and(|at| at <= now);
                let about = super::index::provenance(row.provenance.clone(), row.created_at);
                let wanted = filter.matches(&row.kind, tier, &about)
                    && in_folder(&row.folder, folder)
                    && scope.sees(row.project.as_deref());
                if wanted && !expired {
                    if memories.len() >= limit {
                        return Ok(Memories {
                            memories,
                            next: Some(after),
                        });
                    }
                    memories.push(to_summary(row));
                }
                after = change;
            }
        }
    }

    /// Returns the health of the memory, channel by channel.
    pub async fn health(self) -> Result<MemoryHealth, EngineError> {
        let (embedder, problem) = self.embedder().await;
        let store = self.engine.store().await?;
        let described = embedder.map(|embedder| (embedder.id().to_string(), embedder.dimension()));
        let named = described
            .as_ref()
            .map(|(name, dimension)| (name.as_str(), *dimension));
        let index = self.current_index(named).await?;
        let name = named.map(|(name, _)| name.to_owned());
        let (chunks, embedded) = (index.chunk_count(), index.embedded_chunks());
        let embedding = self.engine.memory.embedding.progress(if named.is_some() {
            index.chunks_without_vector()
        } else {
            0
        });
        let (missing, pending) = (chunks - embedded, embedding.pending);
        let degraded = problem.or_else(|| match missing {
            0 => None,
            _ if embedding.active && missing == pending => Some(format!(
                "{missing} of {chunks} chunks have no vector yet; they are embedded in the background"
            )),
            _ => Some(format!(
                "{missing} of {chunks} chunks have no vector of this model; run `satiety memory embed`"
            )),
        });
        Ok(MemoryHealth {
            store: store.place().into(),
            memories: index.len(),
            constitutional: index.constitutional_count(),
            chunks: to_i64(chunks),
            embedded: to_i64(embedded),
            embedder: name,
            embedding,
            index: self.engine.memory.activity(),
            vectors_of_other_models: index.other_vectors(),
            vector_bytes: index.vector_bytes(),
            word_bytes: index.word_bytes(),
            log: store.query_log().state(),
            degraded,
            tasks: self.task_metrics().await?,
            latest_metrics: self.engine.retrieval().latest_metrics().await?,
        })
    }

    pub(super) async fn row(self, id: &str) -> Result<MemoryRow, EngineError> {
        let mut rows = self
            .engine
            .store()
            .await?
            .memories()
            .by_id(&[id.to_owned()])
            .await?;
        Ok(rows.pop().ok_or_else(|| MemoryError::NotFound(id.into()))?)
    }

    /// Returns the chunks of a memory with their vectors, and the model of the vectors.
    pub(super) async fn chunks(
        self,
        row: &MemoryRow,
    ) -> Result<(Vec<ChunkRow>, Option<String>), EngineError> {
        let (mut chunks, model) = self.chunks_of(std::slice::from_ref(row)).await?;
        Ok((chunks.pop().unwrap_or_default(), model))
    }

    /// Like `chunks`, for many memories: batches the embedding, which costs less.
    pub(super) async fn chunks_of(
        self,
        rows: &[MemoryRow],
    ) -> Result<(Vec<Vec<ChunkRow>>, Option<String>), EngineError> {
        let mut chunks: Vec<Vec<ChunkRow>> = rows.iter().map(split_chunks).collect();
        if self.engine.memory.embedding.is_active() {
            return Ok((chunks, None));
        }
        // If the configured model fails, saving fails: the memory would be invisible to semantic search.
        let Some(embedder) = self.engine.embedder().await? else {
            return Ok((chunks, None));
        };
        let name = embedder.id().to_string();
        let mut all: Vec<&mut ChunkRow> = chunks.iter_mut().flatten().collect();
        for batch in all.chunks_mut(EMBED_BATCH) {
            let texts: Vec<String> = batch
                .iter()
                .map(|chunk| super::embedding::embedded_text(&chunk.title, &chunk.body))
                .collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let vectors = embedder.embed(&texts).await?;
            for (chunk, vector) in batch.iter_mut().zip(&vectors) {
                chunk.vector = Some((name.clone(), encode_vector(vector)));
            }
        }
        Ok((chunks, Some(name)))
    }
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Splits a memory into chunks without vectors.
pub(super) fn split_chunks(row: &MemoryRow) -> Vec<ChunkRow> {
    let phrases = row.triggers.join(" ");
    let chunks = chunk(&row.content, ChunkSettings::default()).into_iter();
    chunks
        .map(|chunk| ChunkRow {
            title: if chunk.heading.is_empty() {
                row.title.clone()
            } else {
                format!("{} > {}", row.title, chunk.heading)
            },
            body: chunk.body,
            phrases: phrases.clone(),
            vector: None,
        })
        .collect()
}

/// Builds a new row from a request.
pub(super) fn new_row(
    request: SaveRequest,
    project: Option<Project>,
    now: i64,
) -> Result<MemoryRow, MemoryError> {
    let draft = Draft {
        title: request.title,
        content: request.content,
        tier: request.tier.unwrap_or(Tier::Normal),
        triggers: request.triggers,
        folder: request.folder,
        kind: request.kind.unwrap_or_default(),
    };
    let draft = draft.checked()?;
    let days = request
        .expires_in_days
        .or((draft.tier == Tier::Temporary).then_some(TEMPORARY_DAYS));
    if let Some(days) = days.filter(|days| !(1..=36_500).contains(days)) {
        return Err(MemoryError::OutOfRange {
            what: "the number of days",
            range: "from 1 to 36500",
            value: days.to_string(),
        });
    }
    let (project, project_label) = project.map(|project| (project.id, project.label)).unzip();
    let author = request.written_by.unwrap_or_else(|| request.author.name().into());
    let provenance = Provenance {
        author: Some(author),
        tags: request.tags,
        recorded_at: now,
        observed_at: request.observed_at.map(TimePoint::micros),
        valid_from: request.valid_from.map(TimePoint::micros),
        valid_until: request.valid_until.map(TimePoint::micros),
    };
    Ok(MemoryRow {
        project,
        project_label,
        provenance: provenance_row(provenance.checked()?),
        memory_id: satiety::ids::prefixed("mem", Uuid::now_v7()),
        content_hash: content_hash(&draft.title, &draft.content),
        title: draft.title,
        content: draft.content,
        tier: draft.tier.name().into(),
        triggers: draft.triggers,
        learnt: Vec::new(),
        folder: draft.folder,
        kind: draft.kind,
        origin: request.origin,
        confidence: 0.5,
        validations: 0,
        created_at: now,
        updated_at: now,
        expires_at: days.map(|days| now + days * DAY),
        change: 0,
    })
}

/// Rejects an author that claims to be a person.
fn check_author(written_by: Option<&str>, author: Author) -> Result<(), MemoryError> {
    let claims_person =
        written_by.is_some_and(|name| name.trim().eq_ignore_ascii_case(Author::Person.name()));
    if claims_person && author != Author::Person {
        return Err(MemoryError::OutOfRange {
            what: "the author",
            range: "the name of an agent, a system or a speaker",
            value: Author::Person.name().into(),
        });
    }
    Ok(())
}

fn provenance_row(provenance: Provenance) -> ProvenanceRow {
    ProvenanceRow {
        author: provenance.author,
        tags: provenance.tags,
        observed_at: provenance.observed_at,
        valid_from: provenance.valid_from,
        valid_until: provenance.valid_until,
    }
}

fn to_summary(row: MemoryRow) -> ListResponse {
    ListResponse {
        project: project_of(&row),
        tier: super::index::tier(&row.tier),
        id: row.memory_id,
        title: row.title,
        folder: row.folder,
        kind: row.kind,
        confidence: row.confidence,
    }
}

fn to_memory(row: MemoryRow) -> Memory {
    let time = |micros: i64| {
        jiff::Timestamp::from_microsecond(micros).map_or_else(|_| micros.to_string(), |at| at.to_string())
    };
    Memory {
        project: project_of(&row),
        tier: super::index::tier(&row.tier),
        created_at: time(row.created_at),
        updated_at: time(row.updated_at),
        expires_at: row.expires_at.map(time),
        author: row.provenance.author,
        tags: row.provenance.tags,
        observed_at: row.provenance.observed_at.map(time),
        valid_from: row.provenance.valid_from.map(time),
        valid_until: row.provenance.valid_until.map(time),
        id: row.memory_id,
        title: row.title,
        content: row.content,
        triggers: row.triggers,
        learnt_triggers: row.learnt,
        folder: row.folder,
        kind: row.kind,
        origin: row.origin,
        confidence: row.confidence,
        validations: row.validations,
    }
}
