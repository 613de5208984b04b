//! Keeping memories: save, update, delete, list, and how the memory is.

use crate::handles::MemoryOperations;
use satiety::memory::{
    Author, ChunkSettings, Draft, NeedsPerson, Project, Scope, chunk, content_hash, encode_vector, in_folder,
    may_write,
};
use satiety::retrieval::Tier;
use satiety_store::memory::{ChunkRow, MemoryRow};
use satiety_store::{LogState, now_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::MemoryError;
use super::scope::{check_names, project_of};
use crate::EngineError;

/// How long a temporary memory stays when nobody says.
const TEMPORARY_DAYS: i64 = 7;
/// Pieces that are embedded at once.
const EMBEDDED_TOGETHER: usize = 256;
/// Memories on a page unless the request says otherwise.
const DEFAULT_PAGE: usize = 50;
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// A memory to save.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SaveBody")]
pub struct SaveRequest {
    /// The point of it in a line.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub title: String,
    /// What it says, and why; Markdown.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub content: String,
    /// Default `normal`; `constitutional` is for a person to set.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Phrases that bring it back when a text contains them.
    #[serde(default)]
    pub triggers: Vec<String>,
    /// Where it belongs, such as store/sqlite.
    #[serde(default)]
    pub folder: String,
    /// decision, bug, convention, preference, note.
    #[serde(default)]
    pub kind: Option<String>,
    /// Delete it after so many days.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 36500))]
    pub expires_in_days: Option<i64>,
    /// The file that it comes from.
    #[serde(skip)]
    pub origin: Option<String>,
    /// The project to keep it in, by name or id, or `global` for all (scope `admin`).
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
    /// The session: its results that the text quotes count as used.
    #[serde(default)]
    pub session: Option<String>,
    /// Who saves it.
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

/// A memory to show.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    /// The memory's id.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// The project to look in, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// What changes about a memory; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UpdateBody")]
pub struct UpdateRequest {
    /// The memory's id.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Its new title.
    #[serde(default)]
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub title: Option<String>,
    /// Its new text.
    #[serde(default)]
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    pub content: Option<String>,
    /// Its new tier.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Its new trigger phrases.
    #[serde(default)]
    pub triggers: Option<Vec<String>>,
    /// Its new folder.
    #[serde(default)]
    pub folder: Option<String>,
    /// Its new kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// Remove a phrase that the search learnt for it.
    #[serde(default)]
    pub unlearn: Option<String>,
    /// The project to look in, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
    /// Its new project, by name or id, or `global` for all (scope `admin`).
    #[serde(default)]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub move_to: Option<Scope>,
    /// The session: its results that the text quotes count as used.
    #[serde(default)]
    pub session: Option<String>,
    /// Who changes it.
    #[serde(skip)]
    pub author: Author,
}

/// Memories to delete.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Their ids.
    #[schemars(length(min = 1), inner(length(min = 1, max = 256)))]
    pub ids: Vec<String>,
    /// The project to look in, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// Which memories to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Only this folder and below.
    #[serde(default)]
    pub folder: Option<String>,
    /// Only this tier.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,18}$"))]
    pub cursor: Option<String>,
    /// Memories on a page; 50 by default.
    #[serde(default)]
    #[schemars(with = "Option<u32>", range(min = 1, max = 500))]
    pub limit: Option<usize>,
    /// The project, by name or id, or `all`. Global memories are included.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

impl ListRequest {
    /// The page after a change: [`Memories::next`] of the page before.
    #[must_use]
    pub fn after(change: i64) -> Self {
        Self {
            cursor: Some(change.to_string()),
            ..Self::default()
        }
    }
}

/// A memory as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Memory {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it says.
    pub content: String,
    /// Its tier.
    pub tier: Tier,
    /// Its trigger phrases.
    pub triggers: Vec<String>,
    /// Phrases that selections taught.
    pub learnt_triggers: Vec<String>,
    /// Where it belongs.
    pub folder: String,
    /// What kind of thing it is.
    pub kind: String,
    /// The file that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// How much it has proved itself.
    pub confidence: f64,
    /// How often somebody said whether it was useful.
    pub validations: i64,
    /// When it was kept.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
    /// When it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The project that it belongs to; null for one that every project sees.
    pub project: Option<Project>,
}

/// A memory that was kept.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SaveResponse {
    /// The memory.
    pub memory: Memory,
    /// Pieces that it is searched by.
    pub chunks: usize,
    /// The model that embedded them; absent without one, and then it is found by words and triggers alone.
    pub embedder: Option<String>,
}

/// Memories on a page, as clients read it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryPage {
    /// In the order of their last change.
    pub memories: Vec<ListResponse>,
    /// Where the next page begins; absent on the last one.
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

/// Memories.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Memories {
    /// Which, in the order of their last change.
    pub memories: Vec<ListResponse>,
    /// Where the next page begins; absent on the last one.
    pub next: Option<i64>,
}

/// A memory in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ListResponse {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: Tier,
    /// Where it belongs.
    pub folder: String,
    /// What kind of thing it is.
    pub kind: String,
    /// How much it has proved itself.
    pub confidence: f64,
    /// The project that it belongs to; null for one that every project sees.
    pub project: Option<Project>,
}

/// What was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeleteResponse {
    /// Which.
    pub deleted: Vec<String>,
}

/// How the memory is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryHealth {
    /// Where it is.
    pub store: String,
    /// How many memories there are.
    pub memories: usize,
    /// How many of them are constitutional.
    pub constitutional: usize,
    /// Pieces that are searched.
    pub chunks: i64,
    /// Pieces with a vector of the chosen model.
    pub embedded: i64,
    /// The chosen model; absent when there is none.
    pub embedder: Option<String>,
    /// Vectors of other models, which are not compared.
    pub vectors_of_other_models: usize,
    /// Bytes that vectors take in memory.
    pub vector_bytes: usize,
    /// Bytes that words take in memory, about.
    pub word_bytes: usize,
    /// How the log of searches is, as far as this process writes it.
    pub log: LogState,
    /// Whether meaning cannot be searched, wholly or in part, and why.
    pub degraded: Option<String>,
    /// Tasks that agents began and closed.
    pub tasks: super::TaskMetrics,
    /// The figures of the latest measured run; absent before the first.
    pub latest_metrics: Option<crate::retrieval::MeasuredRun>,
}

impl MemoryOperations<'_> {
    /// Keeps a memory; those that its text quotes were used by the session.
    #[tracing::instrument(name = "save memory", skip_all)]
    pub async fn save(self, request: SaveRequest) -> Result<SaveResponse, EngineError> {
        may_write(request.author, None, request.tier).map_err(MemoryError::from)?;
        let project = self.project(request.scope.as_ref(), request.author)?;
        let session = request.session.clone();
        check_names(session.as_deref(), None, None)?;
        let now = now_micros();
        let expired = self.engine.store().await?.memories().expired(now).await?;
        self.engine.store().await?.memories().remove(&expired).await?;
        let row = new_row(request, project, now)?;
        let (chunks, embedder) = self.chunks(&row).await?;
        self.engine
            .store()
            .await?
            .memories()
            .put(&row, Some(&chunks))
            .await?;
        self.note_quotes(session.as_deref(), &row).await?;
        Ok(SaveResponse {
            memory: shown(row),
            chunks: chunks.len(),
            embedder,
        })
    }

    /// Changes a memory; chunks and embeds again only when what is searched changed. Memories that a new text quotes were
    /// used by the session.
    pub async fn update(self, request: UpdateRequest) -> Result<SaveResponse, EngineError> {
        let session = request.session.filter(|_| request.content.is_some());
        check_names(session.as_deref(), None, None)?;
        let mut old = self.row_in(&request.id, request.scope.as_ref()).await?;
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
            // Every project sees it: taking it away from the others is not one agent's business.
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
        let row = MemoryRow {
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
        let searched = row.content_hash != old.content_hash || row.triggers != old.triggers;
        let (chunks, embedder) = if searched {
            self.chunks(&row).await?
        } else {
            (Vec::new(), None)
        };
        let replaced = searched.then_some(&chunks[..]);
        self.engine.store().await?.memories().put(&row, replaced).await?;
        self.note_quotes(session.as_deref(), &row).await?;
        Ok(SaveResponse {
            memory: shown(row),
            chunks: chunks.len(),
            embedder,
        })
    }

    async fn note_quotes(self, session: Option<&str>, row: &MemoryRow) -> Result<(), EngineError> {
        if let Some(session) = session {
            self.notice(session, &row.content, Some(&row.memory_id)).await?;
        }
        Ok(())
    }

    /// Forgets memories; one that is not there is an error, and then none is forgotten.
    pub async fn delete(
        self,
        ids: &[String],
        scope: Option<&Scope>,
        author: Author,
    ) -> Result<DeleteResponse, EngineError> {
        for id in ids {
            let row = self.row_in(id, scope).await?;
            may_write(author, Some(super::index::tier(&row.tier)), None).map_err(MemoryError::from)?;
        }
        self.engine.store().await?.memories().remove(ids).await?;
        Ok(DeleteResponse {
            deleted: ids.to_vec(),
        })
    }

    /// One memory, whole.
    pub async fn get(self, id: &str, scope: Option<&Scope>) -> Result<Memory, EngineError> {
        Ok(shown(self.row_in(id, scope).await?))
    }

    /// Memories, a page at a time.
    pub async fn list(self, request: &ListRequest) -> Result<Memories, EngineError> {
        let folder = request.folder.as_deref().unwrap_or_default();
        let scope = self.scope(request.scope.as_ref());
        let now = now_micros();
        let cursor = request.cursor.as_deref().unwrap_or("0");
        let mut after: i64 = cursor.parse().map_err(|_| MemoryError::OutOfRange {
            what: "the cursor",
            range: "one that a page gave out",
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
                let tier = super::index::tier(&row.tier);
                let expired = row.expires_at.is_some_and(|at| at <= now);
                let wanted = request.tier.is_none_or(|wanted| wanted == tier)
                    && in_folder(&row.folder, folder)
                    && scope.sees(row.project.as_deref());
                if wanted && !expired {
                    if memories.len() >= limit {
                        return Ok(Memories {
                            memories,
                            next: Some(after),
                        });
                    }
                    memories.push(ListResponse {
                        project: project_of(&row),
                        id: row.memory_id,
                        title: row.title,
                        tier,
                        folder: row.folder,
                        kind: row.kind,
                        confidence: row.confidence,
                    });
                }
                after = row.change;
            }
        }
    }

    /// How the memory is, channel by channel.
    pub async fn health(self) -> Result<MemoryHealth, EngineError> {
        let (embedder, problem) = self.embedder().await;
        let store = self.engine.store().await?;
        let described = embedder.map(|embedder| (embedder.id().to_string(), embedder.dimension()));
        let named = described
            .as_ref()
            .map(|(name, dimension)| (name.as_str(), *dimension));
        let index = self.engine.memory.current(store, named).await?;
        let name = named.map(|(name, _)| name.to_owned());
        let (chunks, embedded) = store
            .memories()
            .count_chunks(name.as_deref().unwrap_or_default())
            .await?;
        let missing = chunks - embedded;
        let degraded = problem.or_else(|| {
            (missing > 0).then(|| {
                format!("{missing} of {chunks} pieces have no vector of this model; save them again or run `satiety memory index`")
            })
        });
        Ok(MemoryHealth {
            store: store.place().into(),
            memories: index.len(),
            constitutional: index.constitutional_count(),
            chunks,
            embedded,
            embedder: name,
            vectors_of_other_models: index.other_vectors(),
            vector_bytes: index.vector_bytes(),
            word_bytes: index.word_bytes(),
            log: store.query_log().state(),
            degraded,
            tasks: self.task_figures().await?,
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
        Ok(rows.pop().ok_or_else(|| MemoryError::NotThere(id.into()))?)
    }

    /// The pieces of a memory with their vectors, and the model that made those.
    pub(super) async fn chunks(
        self,
        row: &MemoryRow,
    ) -> Result<(Vec<ChunkRow>, Option<String>), EngineError> {
        let (mut chunks, model) = self.chunks_of(std::slice::from_ref(row)).await?;
        Ok((chunks.pop().unwrap_or_default(), model))
    }

    /// The same for many memories: their pieces are embedded together, which costs less than one by one.
    pub(super) async fn chunks_of(
        self,
        rows: &[MemoryRow],
    ) -> Result<(Vec<Vec<ChunkRow>>, Option<String>), EngineError> {
        let mut chunks: Vec<Vec<ChunkRow>> = rows.iter().map(pieces_of).collect();
        // A model that is asked for and fails must not make a memory that half of the searches miss.
        let Some(embedder) = self.engine.embedder().await? else {
            return Ok((chunks, None));
        };
        let name = embedder.id().to_string();
        let mut all: Vec<&mut ChunkRow> = chunks.iter_mut().flatten().collect();
        for batch in all.chunks_mut(EMBEDDED_TOGETHER) {
            let texts: Vec<String> = batch
                .iter()
                .map(|chunk| format!("{}\n{}", chunk.title, chunk.body))
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

/// The pieces of a memory, without vectors.
fn pieces_of(row: &MemoryRow) -> Vec<ChunkRow> {
    let phrases = row.triggers.join(" ");
    let pieces = chunk(&row.content, ChunkSettings::default()).into_iter();
    pieces
        .map(|piece| ChunkRow {
            title: if piece.heading.is_empty() {
                row.title.clone()
            } else {
                format!("{} > {}", row.title, piece.heading)
            },
            body: piece.body,
            phrases: phrases.clone(),
            vector: None,
        })
        .collect()
}

/// A new row from what was asked.
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
    Ok(MemoryRow {
        project,
        project_label,
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

fn shown(row: MemoryRow) -> Memory {
    let time = |micros: i64| {
        jiff::Timestamp::from_microsecond(micros).map_or_else(|_| micros.to_string(), |at| at.to_string())
    };
    Memory {
        project: project_of(&row),
        tier: super::index::tier(&row.tier),
        created_at: time(row.created_at),
        updated_at: time(row.updated_at),
        expires_at: row.expires_at.map(time),
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
