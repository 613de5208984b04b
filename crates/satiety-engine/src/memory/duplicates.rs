//! Memories that a new one repeats or contradicts. The library compares; this finds what to compare with, in
//! the scope of the request, and applies the requested action. Nothing is deleted.

use crate::handles::MemoryOperations;
use satiety::memory::{
    Author, DuplicateKind, LinkKind, MemoryText, OnDuplicate, Project, Resemblance, Scope, compare_memories,
    duplicate_settings, merged_content, suggested_link,
};
use satiety_store::memory::{ChunkRow, MemoryRow};
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;

use super::MemoryError;
use super::memories::{SaveResponse, UpdateRequest};
use crate::EngineError;

/// Maximum number of memories of each list in a response.
const MAX_LISTED: usize = 5;

/// An existing memory that a new one repeats.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DuplicateMemory {
    /// Id of the existing memory.
    pub id: String,
    /// Title of the existing memory.
    pub title: String,
    /// Whether it is identical or near-identical.
    pub kind: DuplicateKind,
    /// Similarity from 0 to 1.
    pub similarity: f64,
    /// Value of `on_duplicate` that fits: `update` if the new text contains the old one, else `merge`.
    pub proposal: OnDuplicate,
}

/// An existing memory that a new one contradicts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConflictingMemory {
    /// Id of the existing memory.
    pub id: String,
    /// Title of the existing memory.
    pub title: String,
    /// Similarity from 0 to 1.
    pub similarity: f64,
    /// Differences in amounts, names or negation, with the words that show them.
    pub reasons: Vec<String>,
    /// Link from the new memory to this one that would resolve it: `supersedes` if the new one was observed
    /// later, else `contradicts`.
    pub suggested_link: LinkKind,
}

/// What happened to a memory that was to be saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaveAction {
    /// It was saved as a new memory.
    #[default]
    Saved,
    /// It replaced the text of an existing memory.
    Updated,
    /// It was added to an existing memory.
    Merged,
}

/// Existing memories that a new one repeats or contradicts, most similar first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) duplicates: Vec<DuplicateMemory>,
    pub(super) conflicts: Vec<ConflictingMemory>,
}

impl MemoryOperations<'_> {
    /// Compares a memory that is about to be saved with the nearest ones of its scope.
    pub(super) async fn compare_with_stored(
        self,
        row: &MemoryRow,
        chunks: &[ChunkRow],
        project: Option<&Project>,
    ) -> Result<Comparison, EngineError> {
        let settings = duplicate_settings();
        let store = self.engine.store().await?;
        let scope = project.cloned().map_or(Scope::Global, Scope::Project);
        // Vectors of another model are not comparable.
        let vector = chunks.first().and_then(|chunk| chunk.vector.clone());
        let model = vector
            .as_ref()
            .map(|(model, text)| (model.as_str(), text.len() * 3 / 8));
        let index = self.current_index(model).await?;
        let query = format!("{} {}", row.title, row.content);
        let (searched, now) = (scope.clone(), now_micros());
        let most = settings.candidates;
        let bytes = 64 * index.len() + index.vector_bytes() / 2;
        let near = self
            .compute_bytes(bytes, move || {
                let vector = vector.as_ref().map(|(_, vector)| vector.as_str());
                index.similar(&query, vector, &searched, now, most)
            })
            .await?;
        let ids: Vec<String> = near.iter().map(|(id, _)| id.clone()).collect();
        let mut rows = store.memories().by_id(&ids).await?;
        // Identical texts are found even if many memories share their words.
        for same in store.memories().by_hash(&row.content_hash, 20).await? {
            if scope.sees(same.project.as_deref())
                && rows.iter().all(|known| known.memory_id != same.memory_id)
            {
                rows.push(same);
            }
        }
        let mut found = Comparison::default();
        for old in rows.iter().filter(|old| old.memory_id != row.memory_id) {
            let cosine = near.iter().find(|(id, _)| *id == old.memory_id);
            let text = |row: &'_ MemoryRow| (row.title.clone(), row.content.clone());
            let ((new_title, new_content), (old_title, old_content)) = (text(row), text(old));
            let compared = compare_memories(
                MemoryText {
                    title: &new_title,
                    content: &new_content,
                },
                MemoryText {
                    title: &old_title,
                    content: &old_content,
                },
                cosine.and_then(|(_, cosine)| *cosine),
                settings,
            );
            match compared {
                Some(Resemblance::Duplicate {
                    kind,
                    similarity,
                    proposal,
                }) => {
                    found.duplicates.push(DuplicateMemory {
                        id: old.memory_id.clone(),
                        title: old.title.clone(),
                        kind,
                        similarity: rounded(similarity),
                        proposal,
                    });
                }
                Some(Resemblance::Conflict {
                    similarity,
                    differences,
                }) => {
                    let observed = |row: &MemoryRow| row.provenance.observed_at.unwrap_or(row.created_at);
                    found.conflicts.push(ConflictingMemory {
                        id: old.memory_id.clone(),
                        title: old.title.clone(),
                        similarity: rounded(similarity),
                        reasons: differences.iter().map(ToString::to_string).collect(),
                        suggested_link: suggested_link(observed(row), observed(old)),
                    });
                }
                None => {}
            }
        }
        found.duplicates.sort_by(|a, b| {
            let order = a.kind.cmp(&b.kind).then(b.similarity.total_cmp(&a.similarity));
            order.then_with(|| a.id.cmp(&b.id))
        });
        found.conflicts.sort_by(|a, b| {
            b.similarity
                .total_cmp(&a.similarity)
                .then_with(|| a.id.cmp(&b.id))
        });
        found.duplicates.truncate(MAX_LISTED);
        found.conflicts.truncate(MAX_LISTED);
        Ok(found)
    }

    /// Changes the existing memory instead of saving the new one; `None` if it is to be saved.
    pub(super) async fn apply_to_duplicate(
        self,
        row: &MemoryRow,
        found: &Comparison,
        on_duplicate: OnDuplicate,
        author: Author,
    ) -> Result<Option<SaveResponse>, EngineError> {
        let Some(existing) = found.duplicates.first() else {
            return Ok(None);
        };
        let action = match on_duplicate {
            OnDuplicate::Keep => return Ok(None),
            OnDuplicate::Reject => {
                return Err(MemoryError::Duplicate {
                    id: existing.id.clone(),
                    title: existing.title.clone(),
                    kind: existing.kind.name(),
                }
                .into());
            }
            OnDuplicate::Update => SaveAction::Updated,
            OnDuplicate::Merge => SaveAction::Merged,
        };
        let old = self.row(&existing.id).await?;
        let (title, content) = match action {
            SaveAction::Merged => (old.title.clone(), merged_content(&old.content, &row.content)),
            _ => (row.title.clone(), row.content.clone()),
        };
        let union = |own: &[String], new: &[String]| {
            let mut all = own.to_vec();
            all.extend(new.iter().filter(|value| !own.contains(value)).cloned());
            all
        };
        let request = UpdateRequest {
            id: old.memory_id.clone(),
            title: Some(title),
            content: Some(content),
            triggers: Some(union(&old.triggers, &row.triggers)),
            tags: Some(union(&old.provenance.tags, &row.provenance.tags)),
            observed_at: row
                .provenance
                .observed_at
                .map(satiety::memory::TimePoint::from_micros),
            valid_from: row
                .provenance
                .valid_from
                .map(satiety::memory::TimePoint::from_micros),
            valid_until: row
                .provenance
                .valid_until
                .map(satiety::memory::TimePoint::from_micros),
            scope: Some(Scope::All),
            author,
            ..UpdateRequest::default()
        };
        let updated = Box::pin(self.update(request)).await?;
        Ok(Some(SaveResponse {
            action,
            duplicates: found.duplicates.clone(),
            conflicts: found.conflicts.clone(),
            ..updated
        }))
    }
}

fn rounded(similarity: f64) -> f64 {
    (similarity * 1000.0).round() / 1000.0
}
