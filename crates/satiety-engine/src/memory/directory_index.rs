//! Directory index: keeps memories in sync with a directory of Markdown files. Only changed files are chunked
//! and embedded again; memories of deleted files are removed.

use crate::handles::MemoryOperations;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use satiety::memory::{
    Author, Draft, NeedsPerson, Project, Scope, content_hash, indexed_tier, read_markdown,
};
use satiety::retrieval::Tier;
use satiety_store::memory::MemoryRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MemoryError;
use super::memories::{SaveRequest, new_row};
use crate::EngineError;
use crate::root_path::BELOW_ROOT;

/// Memories written per transaction.
const BATCH: usize = 100;
/// Maximum file size in bytes; larger files are not notes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Request to index a directory of Markdown files.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IndexBody")]
pub struct IndexRequest {
    /// Directory to index; over HTTP below the server's root.
    #[schemars(length(min = 1), regex(pattern = BELOW_ROOT))]
    pub folder: PathBuf,
    /// Keep memories whose files were deleted.
    #[serde(default)]
    pub keep_missing: bool,
    /// Project to keep them in, by name or id, or `global` for all.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
    /// Author of the request.
    #[serde(skip)]
    pub author: Author,
}

/// Result of indexing a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexResponse {
    /// Number of new files.
    pub added: usize,
    /// Number of files that changed.
    pub changed: usize,
    /// Number of unchanged files.
    pub unchanged: usize,
    /// Number of memories removed because their file was deleted.
    pub removed: usize,
    /// Files that were rejected, with the reason; the others are indexed.
    pub refused: Vec<RefusedFile>,
    /// Files that request a tier above `important`, which they do not get.
    pub lowered: Vec<String>,
}

/// A file that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedFile {
    /// Path of the rejected file.
    pub file: String,
    /// Reason why the file was rejected.
    pub reason: String,
}

impl MemoryOperations<'_> {
    /// Synchronizes memories with a directory of Markdown files and its subdirectories.
    pub async fn index(self, request: &IndexRequest) -> Result<IndexResponse, EngineError> {
        if !request.folder.is_dir() {
            return Err(MemoryError::NoFolder(request.folder.display().to_string()).into());
        }
        let root = fs_err::canonicalize(&request.folder)
            .map_err(|cause| EngineError::file("read", &request.folder, cause))?;
        let project = self.project(request.scope.as_ref(), request.author)?;
        let files = markdown_files(&root)?;
        let store = self.engine.store().await?;
        let (embedder, _) = self.embedder().await;
        // Vectors that are made in the background do not make a file look changed.
        let embedder = embedder
            .filter(|_| !self.engine.memory.embedding.is_active())
            .map(|embedder| embedder.id().to_string())
            .unwrap_or_default();
        let mut indexed = IndexResponse::default();
        let mut origins = BTreeSet::new();
        let mut ready = Vec::new();
        for path in files {
            let shown = path.strip_prefix(&root).unwrap_or(&path).to_path_buf();
            let origin = format!("{}::{}", root.display(), shown.display());
            origins.insert(origin.clone());
            match read_file(&path, &shown, &origin, project.clone()) {
                Err(reason) => indexed.refused.push(RefusedFile {
                    file: shown.display().to_string(),
                    reason,
                }),
                Ok((mut new, asked)) => {
                    let old = store.memories().by_origin(&origin).await?;
                    let lowered = super::index::tier(&new.tier) < asked;
                    if let Some(rule) = old.as_ref().filter(|old| is_rule(old)) {
                        // It became a rule through a person, or before files were denied the tier; a file
                        // does not change that.
                        if rule.content_hash != new.content_hash {
                            indexed.refused.push(RefusedFile {
                                file: shown.display().to_string(),
                                reason: NeedsPerson::Rule.to_string(),
                            });
                            continue;
                        }
                        new.tier.clone_from(&rule.tier);
                    } else if lowered {
                        indexed.lowered.push(shown.display().to_string());
                    }
                    let Some(row) = self.changed(new, old.as_ref(), &embedder).await? else {
                        indexed.unchanged += 1;
                        continue;
                    };
                    *(if old.is_some() {
                        &mut indexed.changed
                    } else {
                        &mut indexed.added
                    }) += 1;
                    ready.push(row);
                }
            }
            if ready.len() >= BATCH {
                self.write_batch(std::mem::take(&mut ready)).await?;
            }
        }
        self.write_batch(ready).await?;
        if !request.keep_missing {
            let gone = self.missing(&format!("{}::", root.display()), &origins).await?;
            indexed.removed = gone.len();
            store.memories().remove(&gone).await?;
        }
        Ok(indexed)
    }

    /// Embeds and writes memories atomically.
    async fn write_batch(self, rows: Vec<MemoryRow>) -> Result<(), EngineError> {
        let (chunks, _) = self.chunks_of(&rows).await?;
        let rows: Vec<_> = rows.into_iter().zip(chunks.into_iter().map(Some)).collect();
        self.engine.store().await?.memories().put_all(&rows).await?;
        self.engine.memory.embedding.wake();
        Ok(())
    }

    /// Returns the new memory of a file, or `None` if it is unchanged and has vectors of the configured
    /// model.
    async fn changed(
        self,
        new: MemoryRow,
        old: Option<&MemoryRow>,
        embedder: &str,
    ) -> Result<Option<MemoryRow>, EngineError> {
        let Some(old) = old else { return Ok(Some(new)) };
        let same = new.content_hash == old.content_hash
            && (&new.tier, &new.triggers, &new.folder, &new.kind)
                == (&old.tier, &old.triggers, &old.folder, &old.kind);
        if same
            && self
                .engine
                .store()
                .await?
                .memories()
                .is_embedded(&old.memory_id, embedder)
                .await?
        {
            return Ok(None);
        }
        Ok(Some(MemoryRow {
            memory_id: old.memory_id.clone(),
            learnt: old.learnt.clone(),
            confidence: old.confidence,
            validations: old.validations,
            created_at: old.created_at,
            project: old.project.clone(),
            project_label: old.project_label.clone(),
            provenance: old.provenance.clone(),
            ..new
        }))
    }

    /// Returns memories of this directory whose files no longer exist.
    async fn missing(self, prefix: &str, there: &BTreeSet<String>) -> Result<Vec<String>, EngineError> {
        let store = self.engine.store().await?;
        let rows = store.memories().origins(prefix).await?;
        let gone = rows.into_iter().filter(|(_, origin)| !there.contains(origin));
        let gone: Vec<String> = gone.map(|(id, _)| id).collect();
        // A rule is not deleted with its file.
        let rows = store.memories().by_id(&gone).await?;
        Ok(rows
            .into_iter()
            .filter(|row| !is_rule(row))
            .map(|row| row.memory_id)
            .collect())
    }
}

fn is_rule(row: &MemoryRow) -> bool {
    super::index::tier(&row.tier) == Tier::Constitutional
}

/// Reads a Markdown file; its title and folder come from `shown` unless the file states them.
pub(super) fn read_note(path: &Path, shown: &Path) -> Result<Draft, String> {
    let size = fs_err::metadata(path)
        .map_err(|cause| cause.kind().to_string())?
        .len();
    if size > MAX_FILE_BYTES {
        return Err(format!("file too large: {size} bytes (limit {MAX_FILE_BYTES})"));
    }
    let bytes = fs_err::read(path).map_err(|cause| cause.kind().to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned())?;
    let name = shown.file_stem().and_then(|name| name.to_str()).unwrap_or("note");
    let folder = shown
        .parent()
        .and_then(|folder| folder.to_str())
        .unwrap_or_default();
    read_markdown(&text, name, folder).map_err(|problem| problem.to_string())
}

/// Parses a file as a memory with the tier that it requests.
fn read_file(
    path: &Path,
    shown: &Path,
    origin: &str,
    project: Option<Project>,
) -> Result<(MemoryRow, Tier), String> {
    let mut draft = read_note(path, shown)?;
    let asked = draft.tier;
    draft.tier = indexed_tier(asked);
    let request = SaveRequest {
        origin: Some(origin.to_owned()),
        ..draft.into()
    };
    let row = new_row(request, project, now_micros()).map_err(|problem| problem.to_string())?;
    debug_assert_eq!(row.content_hash, content_hash(&row.title, &row.content));
    Ok((row, asked))
}

/// Lists Markdown files below a directory in order; skips symbolic links out of it and hidden directories.
pub(super) fn markdown_files(root: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(folder) = directories.pop() {
        let failed = |cause| EngineError::file("read", &folder, cause);
        for entry in fs_err::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let markdown = [".md", ".markdown"]
                .iter()
                .any(|end| name.to_lowercase().ends_with(end));
            if kind.is_dir() && !name.starts_with('.') {
                directories.push(entry.path());
            } else if kind.is_file() && markdown {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
