//! Import of memories from files, exports of other systems and other databases.
//!
//! A thread reads and parses, and batches are written as they arrive, so that memory is bounded. Every record
//! has an origin that is derived from the source and the record's key: a repeated or resumed import finds what
//! it stored before, and stores nothing twice. Text and words are stored; vectors follow
//! ([`super::embedding`]).

mod source;

use crate::handles::MemoryOperations;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use satiety::memory::{
    Author, ImportFormat, ImportRecord, LinkKind, Project, Scope, import_records, indexed_tier,
};
use satiety::retrieval::Tier;
use satiety_store::memory::{ChunkRow, LinkRow, MemoryRow};
use satiety_store::{Migrate, Store, StoreUrl, now_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::memories::{SaveRequest, new_row, split_chunks};
use crate::EngineError;

/// Memories per transaction.
const BATCH: usize = 500;
/// Maximum number of refused records that are listed; all are counted.
const MAX_LISTED: usize = 100;
/// Batches that wait to be written while the next one is read.
const READ_AHEAD: usize = 2;

/// Where to import from.
#[derive(Debug, Clone)]
pub enum ImportSource {
    /// A file, a ZIP archive of a data export, or a directory of Markdown files.
    Path(PathBuf),
    /// Another Satiety database.
    Database(StoreUrl),
}

/// Request to import memories from a file, a directory or another database.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    pub source: ImportSource,
    /// Format of the source; detected if absent.
    pub format: Option<ImportFormat>,
    /// Name of the source in the origins of its memories; its path by default. The same name finds memories of
    /// an earlier import again.
    pub name: Option<String>,
    /// Folder to put the memories into.
    pub folder: Option<String>,
    /// Project to keep them in.
    pub scope: Option<Scope>,
    pub author: Author,
    /// Reads and checks everything, and stores nothing.
    pub dry_run: bool,
    /// Also makes vectors for everything that has none, after the import.
    pub embed: bool,
}

/// Request to import records that are part of the request.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ImportBody")]
pub struct ImportRecordsRequest {
    /// Name of the source. Records with the same source and id are stored once and updated when they change.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub source: String,
    /// Records of one format, such as objects with `content` and optional `id`, `title`, `folder` and `kind`.
    #[schemars(length(min = 1, max = 1000))]
    pub records: Vec<Value>,
    /// Format of the records; detected by their fields.
    #[serde(default)]
    pub format: Option<ImportFormat>,
    /// Folder to put the memories into.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub folder: Option<String>,
    /// Check the records and store nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Project to keep them in, by name or id, or `global` for all (scope `admin`).
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
    /// Author of the request.
    #[serde(skip)]
    pub author: Author,
}

/// Result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportedMemories {
    /// Format of the source.
    pub format: Option<ImportFormat>,
    /// Number of new memories.
    pub added: usize,
    /// Number of memories that changed since an earlier import.
    pub changed: usize,
    /// Number of memories that an earlier import stored and that are unchanged.
    pub unchanged: usize,
    /// Number of causal links that were added.
    pub links: usize,
    /// Number of records that were skipped because they could not be imported.
    pub skipped: usize,
    /// The first 100 skipped records, with the reason.
    pub refused: Vec<RefusedRecord>,
    /// Number of memories that request a tier above `important`, which they do not get.
    pub lowered: usize,
    /// Number of chunks that got a vector after the import.
    pub embedded: usize,
    /// Number of chunks that wait for a vector; they are found by words.
    pub pending: usize,
    /// Whether the import was interrupted; repeat it to continue.
    pub interrupted: bool,
    /// Whether nothing was stored because only a check was requested.
    pub dry_run: bool,
}

/// A record that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedRecord {
    /// File and line, or the number of the record in a request.
    pub place: String,
    /// Reason why it was not imported.
    pub reason: String,
}

/// Progress of a running import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Whether everything was read, and vectors are made now.
    pub embedding: bool,
    /// Bytes, files or memories that were read, or chunks that were embedded, and their total.
    pub done: u64,
    pub total: u64,
    /// Number of memories that were read.
    pub memories: usize,
    /// Number of records that were skipped.
    pub skipped: usize,
}

/// A record as it was read: a memory, or the reason why there is none.
struct ReadRecord {
    place: String,
    record: Result<ImportRecord, String>,
}

/// Records that were read, with the progress of the reader.
struct ReadBatch {
    records: Vec<ReadRecord>,
    format: ImportFormat,
    done: u64,
    total: u64,
}

/// Settings and state of an import.
struct Import {
    source: String,
    folder: Option<String>,
    project: Option<Project>,
    dry_run: bool,
    response: ImportedMemories,
    /// Links between origins, stored at the end: their memories may come later.
    links: Vec<(String, LinkKind, String)>,
    seen: BTreeSet<[u8; 16]>,
}

impl MemoryOperations<'_> {
    /// Imports memories. `progress` is called after each batch and returns false to stop; what is stored is
    /// kept, and the same import continues later.
    pub async fn import(
        self,
        request: ImportRequest,
        mut progress: impl FnMut(ImportProgress) -> bool,
    ) -> Result<ImportedMemories, EngineError> {
        let project = self.project(request.scope.as_ref(), request.author)?;
        let mut import = Import::new(&request, project)?;
        let embed = request.embed && !request.dry_run;
        match request.source {
            ImportSource::Database(url) => self.import_database(&url, &mut import, &mut progress).await?,
            ImportSource::Path(path) => {
                let mut batches = source::read(path, request.format);
                while let Some(batch) = batches.recv().await {
                    let batch = batch?;
                    import.response.format = Some(batch.format);
                    self.import_batch(&mut import, batch.records).await?;
                    let seen = ImportProgress {
                        embedding: false,
                        done: batch.done,
                        total: batch.total,
                        memories: import.response.memories(),
                        skipped: import.response.skipped,
                    };
                    if !progress(seen) {
                        import.response.interrupted = true;
                        break;
                    }
                }
            }
        }
        let mut response = self.finish_import(import).await?;
        if embed && !response.interrupted {
            let read = ImportProgress {
                embedding: true,
                memories: response.memories(),
                skipped: response.skipped,
                ..ImportProgress::default()
            };
            let embedded = self
                .embed_all(|done, left| {
                    progress(ImportProgress {
                        done: done as u64,
                        total: (done + left) as u64,
                        ..read
                    })
                })
                .await?;
            (response.embedded, response.pending) = (embedded.embedded, embedded.pending);
            response.interrupted = embedded.pending > 0;
        }
        Ok(response)
    }

    /// Imports the records of a request.
    pub async fn import_records(
        self,
        request: ImportRecordsRequest,
    ) -> Result<ImportedMemories, EngineError> {
        let project = self.project(request.scope.as_ref(), request.author)?;
        let mut import = Import {
            source: request.source.trim().to_owned(),
            folder: request.folder,
            project,
            dry_run: request.dry_run,
            response: ImportedMemories::default(),
            links: Vec::new(),
            seen: BTreeSet::new(),
        };
        let mut records = Vec::new();
        for (number, value) in (1_usize..).zip(&request.records) {
            let place = format!("record {number}");
            let format = request.format.or_else(|| ImportFormat::detect(value));
            import.response.format = import.response.format.or(format);
            let read = match format {
                Some(format) => import_records(format, value),
                None => Err("unknown kind of record: it has no text".to_owned()),
            };
            match read {
                Err(reason) => records.push(ReadRecord {
                    place,
                    record: Err(reason),
                }),
                Ok(all) => records.extend(all.into_iter().map(|record| ReadRecord {
                    place: place.clone(),
                    record: Ok(record),
                })),
            }
        }
        for batch in in_batches(records) {
            self.import_batch(&mut import, batch).await?;
        }
        self.finish_import(import).await
    }

    async fn finish_import(self, mut import: Import) -> Result<ImportedMemories, EngineError> {
        let links = std::mem::take(&mut import.links);
        if !import.dry_run && !import.response.interrupted {
            for batch in links.chunks(BATCH) {
                import.response.links += self.import_links(batch).await?;
            }
        }
        self.engine.memory.embedding.wake();
        Ok(import.response)
    }

    /// Stores links whose memories exist; returns how many were added or existed.
    async fn import_links(self, links: &[(String, LinkKind, String)]) -> Result<usize, EngineError> {
        let store = self.engine.store().await?;
        let origins: BTreeSet<&str> = links
            .iter()
            .flat_map(|(from, _, to)| [from.as_str(), to.as_str()])
            .collect();
        let origins: Vec<&str> = origins.into_iter().collect();
        let rows = store.memories().by_origins(&origins).await?;
        let ids: HashMap<&str, &str> = rows
            .iter()
            .filter_map(|row| Some((row.origin.as_deref()?, row.memory_id.as_str())))
            .collect();
        let mut linked = 0;
        for (from, kind, to) in links {
            if let (Some(from_id), Some(to_id)) = (ids.get(from.as_str()), ids.get(to.as_str()))
                && from_id != to_id
            {
                let link = LinkRow {
                    from_id: (*from_id).to_owned(),
                    to_id: (*to_id).to_owned(),
                    kind: kind.to_string(),
                };
                linked += usize::from(store.memories().link(&link).await?);
            }
        }
        Ok(linked)
    }

    /// Stores a batch of at most [`BATCH`] records in one transaction.
    async fn import_batch(self, import: &mut Import, records: Vec<ReadRecord>) -> Result<(), EngineError> {
        let mut ready = Vec::new();
        for ReadRecord { place, record } in records {
            match record.and_then(|record| import.row(record)) {
                Ok(Some((row, lowered))) => ready.push((place, row, lowered)),
                Ok(None) => import.response.unchanged += 1,
                Err(reason) => import.response.refuse(place, reason),
            }
        }
        let store = self.engine.store().await?;
        let origins: Vec<&str> = ready
            .iter()
            .filter_map(|(_, row, _)| row.origin.as_deref())
            .collect();
        let known = store.memories().by_origins(&origins).await?;
        let known: HashMap<String, MemoryRow> = known
            .into_iter()
            .filter_map(|row| Some((row.origin.clone()?, row)))
            .collect();
        let mut rows: Vec<(MemoryRow, Option<Vec<ChunkRow>>)> = Vec::new();
        for (place, row, lowered) in ready {
            let old = row.origin.as_ref().and_then(|origin| known.get(origin));
            let Some(old) = old else {
                import.response.lowered += usize::from(lowered);
                import.response.added += 1;
                let chunks = split_chunks(&row);
                rows.push((row, Some(chunks)));
                continue;
            };
            if row.content_hash == old.content_hash && row.kind == old.kind && row.folder == old.folder {
                import.response.unchanged += 1;
            } else if super::index::tier(&old.tier) == Tier::Constitutional {
                let reason = satiety::memory::NeedsPerson::Rule.to_string();
                import.response.refuse(place, reason);
            } else {
                import.response.changed += 1;
                let row = MemoryRow {
                    title: row.title,
                    content: row.content,
                    content_hash: row.content_hash,
                    folder: row.folder,
                    kind: row.kind,
                    updated_at: row.updated_at,
                    ..old.clone()
                };
                let chunks = split_chunks(&row);
                rows.push((row, Some(chunks)));
            }
        }
        if !import.dry_run {
            store.memories().put_all(&rows).await?;
            self.engine.memory.embedding.wake();
        }
        Ok(())
    }

    /// Copies the memories of another database with their chunks, vectors and links.
    async fn import_database(
        self,
        url: &StoreUrl,
        import: &mut Import,
        progress: &mut impl FnMut(ImportProgress) -> bool,
    ) -> Result<(), EngineError> {
        import.response.format = Some(ImportFormat::Satiety);
        let other = Store::open_with(url, Migrate::Never).await?;
        let outcome = self.copy_memories(&other, import, progress).await;
        other.close().await;
        outcome
    }

    async fn copy_memories(
        self,
        other: &Store,
        import: &mut Import,
        progress: &mut impl FnMut(ImportProgress) -> bool,
    ) -> Result<(), EngineError> {
        let store = self.engine.store().await?;
        let total = u64::try_from(other.memories().count().await?).unwrap_or(0);
        let (mut after, mut done) = (0, 0);
        loop {
            let rows = other
                .memories()
                .after(after, u32::try_from(BATCH).unwrap_or(500))
                .await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.change;
            done += rows.len() as u64;
            let ids: Vec<String> = rows.iter().map(|row| row.memory_id.clone()).collect();
            let origins: Vec<String> = ids.iter().map(|id| import.origin(id)).collect();
            let borrowed: Vec<&str> = origins.iter().map(String::as_str).collect();
            let known: BTreeSet<String> = store
                .memories()
                .by_origins(&borrowed)
                .await?
                .into_iter()
                .filter_map(|row| row.origin)
                .collect();
            let taken: BTreeSet<String> = store
                .memories()
                .by_id(&ids)
                .await?
                .into_iter()
                .map(|row| row.memory_id)
                .collect();
            let mut chunks: HashMap<String, Vec<ChunkRow>> = HashMap::new();
            for chunk in other.memories().chunks_of(&ids, true).await? {
                chunks.entry(chunk.memory_id).or_default().push(ChunkRow {
                    title: chunk.title,
                    body: chunk.body,
                    phrases: chunk.phrases,
                    vector: chunk.vector,
                });
            }
            let mut copies = Vec::new();
            for (row, origin) in rows.into_iter().zip(origins) {
                if known.contains(&origin) || taken.contains(&row.memory_id) {
                    import.response.unchanged += 1;
                    continue;
                }
                let asked = super::index::tier(&row.tier);
                import.response.lowered += usize::from(indexed_tier(asked) < asked);
                import.response.added += 1;
                let own = chunks.remove(&row.memory_id).unwrap_or_default();
                let (project, label) = import
                    .project
                    .clone()
                    .map(|project| (project.id, project.label))
                    .unzip();
                let row = MemoryRow {
                    tier: indexed_tier(asked).name().into(),
                    origin: Some(origin),
                    folder: import.folder_of(&row.folder),
                    project,
                    project_label: label,
                    ..row
                };
                copies.push((row, Some(own)));
            }
            for link in other.memories().links(&ids).await? {
                if let (Ok(kind), true) = (link.kind.parse(), ids.contains(&link.from_id)) {
                    import
                        .links
                        .push((import.origin(&link.from_id), kind, import.origin(&link.to_id)));
                }
            }
            if !import.dry_run {
                store.memories().put_all(&copies).await?;
            }
            let seen = ImportProgress {
                embedding: false,
                done,
                total,
                memories: import.response.memories(),
                skipped: 0,
            };
            if !progress(seen) {
                import.response.interrupted = true;
                return Ok(());
            }
        }
    }
}

impl Import {
    fn new(request: &ImportRequest, project: Option<Project>) -> Result<Self, EngineError> {
        let source = match (&request.name, &request.source) {
            (Some(name), _) => name.trim().to_owned(),
            (None, ImportSource::Database(url)) => url.to_string(),
            (None, ImportSource::Path(path)) => fs_err::canonicalize(path)
                .map_err(|cause| EngineError::file("read", path, cause))?
                .display()
                .to_string(),
        };
        Ok(Self {
            source,
            folder: request.folder.clone(),
            project,
            dry_run: request.dry_run,
            response: ImportedMemories {
                dry_run: request.dry_run,
                ..ImportedMemories::default()
            },
            links: Vec::new(),
            seen: BTreeSet::new(),
        })
    }

    /// Origin of a record: the same in every import of the source.
    fn origin(&self, key: &str) -> String {
        format!("import:{}#{key}", self.source)
    }

    fn folder_of(&self, own: &str) -> String {
        match &self.folder {
            Some(folder) if own.is_empty() => folder.clone(),
            Some(folder) => format!("{}/{own}", folder.trim_end_matches('/')),
            None => own.to_owned(),
        }
    }

    /// Row of a record, and whether its tier was lowered; `None` if this import had the same record before.
    fn row(&mut self, record: ImportRecord) -> Result<Option<(MemoryRow, bool)>, String> {
        let ImportRecord { key, draft, at, link } = record;
        if let Some((from, kind, to)) = link {
            self.links.push((self.origin(&from), kind, self.origin(&to)));
        }
        let origin = self.origin(&key);
        let hash = blake3::hash(origin.as_bytes());
        if hash
            .as_bytes()
            .first_chunk()
            .is_some_and(|hash| !self.seen.insert(*hash))
        {
            return Ok(None);
        }
        let asked = draft.tier;
        let folder = self.folder_of(&draft.folder);
        let request = SaveRequest {
            origin: Some(origin),
            tier: Some(indexed_tier(asked)),
            folder,
            ..draft.into()
        };
        let now = now_micros();
        let mut row = new_row(request, self.project.clone(), now).map_err(|error| error.to_string())?;
        // The time in the source is when it was said; it is recorded now.
        row.provenance.observed_at = at.filter(|at| (0..=now).contains(at));
        Ok(Some((row, indexed_tier(asked) < asked)))
    }
}

impl ImportedMemories {
    fn memories(&self) -> usize {
        self.added + self.changed + self.unchanged
    }

    fn refuse(&mut self, place: String, reason: String) {
        self.skipped += 1;
        if self.refused.len() < MAX_LISTED {
            self.refused.push(RefusedRecord { place, reason });
        }
    }
}

/// Splits records into batches of at most [`BATCH`].
fn in_batches(records: Vec<ReadRecord>) -> impl Iterator<Item = Vec<ReadRecord>> {
    let mut rest = records.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<ReadRecord> = rest.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then_some(batch)
    })
}
