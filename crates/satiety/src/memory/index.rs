//! In-memory search index: headers of all memories, and their lexical, vector and trigger indexes.
//!
//! An index is a value with copy-on-write clones. A process that follows a store clones the index, changes
//! the clone and publishes it. The clone shares unchanged data with the original, and running searches keep
//! the version that they started with.

mod image;

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use super::shared::{SharedMap, SharedVec};
use super::{
    LexicalIndex, MemoryFilter, Project, Provenance, Scope, TriggerIndex, VectorIndex, decode_vector,
    in_folder, resolved_dates, speaker,
};
use crate::retrieval::Tier;

/// Minimum number of removed chunks for a rebuild, which also requires that more chunks are removed than
/// live.
const MIN_REMOVED_FOR_REBUILD: usize = 10_000;
/// Words of a text by which memories are found that repeat it; the rarest ones.
const SHARED_WORDS: usize = 16;
/// Number of memories between two turns of one conversation, such as turns of other conversations at the same time.
const MAX_TURN_GAP: usize = 8;

/// A memory as input of the index.
#[derive(Debug, Clone)]
pub struct IndexedMemory {
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Importance tier of the memory.
    pub tier: Tier,
    /// Kind of the memory, such as `decision`, `bug` or `note`.
    pub kind: String,
    /// Confidence in the memory, from 0 to 1.
    pub confidence: f64,
    /// Expiry time in microseconds since 1970, if any.
    pub expires_at: Option<i64>,
    /// Size of the content in bytes.
    pub bytes: usize,
    /// Folder of the memory.
    pub folder: String,
    /// Project of the memory; `None` for a global memory that every project sees.
    pub project: Option<Project>,
    /// Trigger phrases, including learnt ones.
    pub phrases: Vec<String>,
    /// Author, tags and times of the memory.
    pub provenance: Provenance,
}

/// A chunk of a memory as input of the index.
#[derive(Debug, Clone, Copy)]
pub struct IndexedChunk<'a> {
    /// Number of the chunk in the store, by which its text is read.
    pub doc: i64,
    /// Title of the memory, followed by the heading of the chunk.
    pub title: &'a str,
    /// Trigger phrases of the memory.
    pub phrases: &'a str,
    /// Text of the chunk.
    pub body: &'a str,
    /// Name of the embedding model, and the vector as written by [`super::encode_vector`].
    pub vector: Option<(&'a str, &'a str)>,
}

/// A memory with a trigger phrase that occurs in a text.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TriggerMatch {
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Importance tier of the memory.
    pub tier: Tier,
    /// Fraction of the text that the phrase covers, from 0.5 to 1.
    pub score: f64,
    /// Project of the memory; null for a global memory that every project sees.
    pub project: Option<Project>,
}

/// Metadata of a memory that is available without the store.
#[derive(Debug, Clone)]
pub(super) struct MemoryHeader {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) tier: Tier,
    pub(super) kind: String,
    pub(super) confidence: f64,
    expires_at: Option<i64>,
    pub(super) bytes: usize,
    folder: u32,
    project: u32,
    /// Number of its author and of its set of tags; few memories differ in them.
    author: u32,
    tags: u32,
    recorded_at: i64,
    observed_at: Option<i64>,
    valid_from: Option<i64>,
    valid_until: Option<i64>,
    /// First of its chunks, which are contiguous.
    first: u32,
    chunks: u32,
    live: bool,
    /// Whether its text is one turn of a conversation.
    turn: bool,
}

/// Metadata of a chunk of a memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkEntry {
    pub(super) memory: u32,
    pub(super) doc: i64,
    pub(super) bytes: u32,
    /// Number of its vector, if the index's embedding model made one.
    pub(super) vector: Option<u32>,
    /// Whether it has a vector of another model, which is not comparable.
    other_model: bool,
}

/// Search index of all memories.
#[derive(Debug, Clone, Default)]
pub struct MemoryIndex {
    /// Embedding model of the vectors; empty without vectors.
    embedder: String,
    headers: SharedVec<MemoryHeader>,
    positions: SharedMap<String, u32>,
    chunks: SharedVec<ChunkEntry>,
    pub(super) lexical: LexicalIndex,
    pub(super) vectors: VectorIndex,
    pub(super) triggers: TriggerIndex,
    folders: Vec<String>,
    folder_numbers: HashMap<String, u32>,
    /// Projects by number; `None` for global memories.
    projects: Vec<Option<Project>>,
    project_numbers: HashMap<Option<Project>, u32>,
    authors: Vec<Option<String>>,
    author_numbers: HashMap<Option<String>, u32>,
    /// Distinct sets of tags.
    tag_sets: Vec<Vec<String>>,
    tag_set_numbers: HashMap<Vec<String>, u32>,
    constitutional: BTreeSet<u32>,
    expiring: BTreeSet<u32>,
    counts: ChunkCounts,
}

/// Chunks of all memories by the state of their vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ChunkCounts {
    all: usize,
    /// With a vector of the index's embedding model.
    embedded: usize,
    /// With a vector of another model.
    other_model: usize,
}

impl ChunkCounts {
    fn of<'a>(chunks: impl Iterator<Item = &'a ChunkEntry>) -> Self {
        let mut counts = Self::default();
        for chunk in chunks {
            counts.all += 1;
            counts.embedded += usize::from(chunk.vector.is_some());
            counts.other_model += usize::from(chunk.other_model);
        }
        counts
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.embedded += other.embedded;
        self.other_model += other.other_model;
    }

    fn subtract(&mut self, other: Self) {
        self.all = self.all.saturating_sub(other.all);
        self.embedded = self.embedded.saturating_sub(other.embedded);
        self.other_model = self.other_model.saturating_sub(other.other_model);
    }
}

impl MemoryIndex {
    /// Creates an empty index for vectors of this embedding model; an empty name disables vectors.
    pub fn new(embedder: impl Into<String>, dimension: usize) -> Self {
        Self {
            embedder: embedder.into(),
            vectors: VectorIndex::new(dimension),
            ..Self::default()
        }
    }

    /// Embedding model of the vectors; empty without vectors.
    pub fn embedder(&self) -> &str {
        &self.embedder
    }

    /// Number of components of a vector.
    pub fn dimension(&self) -> usize {
        self.vectors.dimension()
    }

    /// Number of memories in the index.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether the index has no memories.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ids of all memories, in arbitrary order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.positions.keys().map(String::as_str)
    }

    /// Number of constitutional memories.
    pub fn constitutional_count(&self) -> usize {
        self.constitutional.len()
    }

    /// Number of chunks with a vector of another model, which is not comparable.
    pub fn other_vectors(&self) -> usize {
        self.counts.other_model
    }

    /// Number of chunks of all memories.
    pub fn chunk_count(&self) -> usize {
        self.counts.all
    }

    /// Number of chunks with a vector of the index's embedding model.
    pub fn embedded_chunks(&self) -> usize {
        self.counts.embedded
    }

    /// Number of chunks without any vector.
    pub fn chunks_without_vector(&self) -> usize {
        let with_vector = self.counts.embedded + self.counts.other_model;
        self.counts.all.saturating_sub(with_vector)
    }

    /// Numbers in the store of chunks that need a vector of this index's model, newest first, each with the id
    /// of its memory. Those with a vector of another model are included on request.
    pub fn chunks_to_embed(&self, other_models: bool, most: usize) -> Vec<(i64, String)> {
        let missing = self.chunks_without_vector() + if other_models { self.counts.other_model } else { 0 };
        if missing == 0 || self.embedder.is_empty() {
            return Vec::new();
        }
        let chunks = (0..self.chunks.len()).rev().filter_map(|at| {
            let chunk = self.chunks.get(at)?;
            let header = self.get(chunk.memory)?;
            let own = header.first as usize..(header.first + header.chunks) as usize;
            let wanted = chunk.vector.is_none() && (other_models || !chunk.other_model);
            (own.contains(&at) && wanted).then(|| (chunk.doc, header.id.clone()))
        });
        chunks.take(most).collect()
    }

    /// Counts the chunks of all memories again.
    fn count_chunks(&mut self) {
        let all = self.positions.values().flat_map(|memory| self.chunks_of(*memory));
        self.counts = ChunkCounts::of(all);
    }

    /// Memory used by vectors, in bytes.
    pub fn vector_bytes(&self) -> usize {
        self.vectors.bytes()
    }

    /// Approximate memory used by the lexical index, in bytes.
    pub fn word_bytes(&self) -> usize {
        self.lexical.bytes()
    }

    /// Whether so many chunks were removed that the index should be rebuilt.
    pub fn needs_rebuild(&self) -> bool {
        let gone = self.lexical.gone();
        gone > MIN_REMOVED_FOR_REBUILD && gone > self.lexical.pieces() / 2
    }

    /// Adds a memory or updates its metadata; its chunks are kept.
    pub fn put(&mut self, memory: IndexedMemory) {
        let folder = intern(&mut self.folders, &mut self.folder_numbers, memory.folder);
        let project = intern(&mut self.projects, &mut self.project_numbers, memory.project);
        let about = memory.provenance;
        let author = intern(&mut self.authors, &mut self.author_numbers, about.author);
        let tags = intern(&mut self.tag_sets, &mut self.tag_set_numbers, about.tags);
        let at = self
            .position(&memory.id)
            .unwrap_or_else(|| to_u32(self.headers.len()));
        self.triggers.put(at, memory.phrases.iter().map(String::as_str));
        set_member(&mut self.constitutional, at, memory.tier == Tier::Constitutional);
        set_member(&mut self.expiring, at, memory.expires_at.is_some());
        let old = self.headers.get(at as usize);
        let header = MemoryHeader {
            id: memory.id,
            title: memory.title,
            tier: memory.tier,
            kind: memory.kind,
            confidence: memory.confidence,
            expires_at: memory.expires_at,
            bytes: memory.bytes,
            folder,
            project,
            author,
            tags,
            recorded_at: about.recorded_at,
            observed_at: about.observed_at,
            valid_from: about.valid_from,
            valid_until: about.valid_until,
            first: old.map_or(0, |old| old.first),
            chunks: old.map_or(0, |old| old.chunks),
            live: true,
            turn: old.is_some_and(|old| old.turn),
        };
        if let Some(place) = self.headers.get_mut(at as usize) {
            *place = header;
        } else {
            self.positions.insert(header.id.clone(), at);
            self.headers.push(header);
        }
    }

    /// Sets the chunks of a memory, or only their vectors if the chunks are the same. No effect if the memory
    /// is unknown.
    pub fn set_chunks(&mut self, id: &str, chunks: &[IndexedChunk<'_>]) {
        let Some(memory) = self.position(id).filter(|_| !chunks.is_empty()) else {
            return;
        };
        let same = self.chunks_of(memory).map(|chunk| chunk.doc);
        if same.eq(chunks.iter().map(|chunk| chunk.doc)) {
            self.add_vectors(memory, chunks);
            return;
        }
        self.remove_vectors(memory);
        self.counts.subtract(ChunkCounts::of(self.chunks_of(memory)));
        let header = self.get(memory);
        let title = header.map(|header| header.title.clone()).unwrap_or_default();
        let observed = header.and_then(|header| utc_date(header.observed_at?));
        let mut last_heading = "";
        let texts = chunks.iter().enumerate().map(|(at, chunk)| {
            // Every chunk repeats the title and phrases of its memory and the headings above it; index each
            // only once.
            let heading = chunk.title.strip_prefix(title.as_str()).unwrap_or(chunk.title);
            let new = heading != last_heading;
            last_heading = heading;
            let dates = resolved_dates(chunk.title, chunk.body, observed);
            match (at, new) {
                (0, _) => (format!("{} {} {dates}", chunk.title, chunk.phrases), chunk.body),
                (_, true) => (format!("{heading} {dates}"), chunk.body),
                (_, false) => (dates, chunk.body),
            }
        });
        let texts: Vec<(String, &str)> = texts.collect();
        self.lexical
            .put(memory, texts.iter().map(|(title, body)| (title.as_str(), *body)));
        let first = to_u32(self.chunks.len());
        for chunk in chunks {
            let number = to_u32(self.chunks.len());
            let vector = chunk.vector.and_then(|(embedder, text)| {
                let vector = (embedder == self.embedder).then(|| decode_vector(text)).flatten();
                self.vectors.push(number, &vector?)
            });
            self.chunks.push(ChunkEntry {
                memory,
                doc: chunk.doc,
                bytes: to_u32(chunk.body.len()),
                other_model: chunk.vector.is_some() && vector.is_none(),
                vector,
            });
        }
        if let Some(header) = self.headers.get_mut(memory as usize) {
            header.first = first;
            header.chunks = to_u32(chunks.len());
            header.turn = chunks.len() == 1 && chunks.iter().all(|chunk| speaker(chunk.body).is_some());
        }
        self.counts.add(ChunkCounts::of(self.chunks_of(memory)));
    }

    /// Adds vectors to chunks that had none of the index's model.
    fn add_vectors(&mut self, memory: u32, chunks: &[IndexedChunk<'_>]) {
        let first = self.headers.get(memory as usize).map_or(0, |header| header.first);
        for (at, chunk) in (first..).zip(chunks) {
            let Some((embedder, text)) = chunk.vector else {
                continue;
            };
            let lacks = |entry: &ChunkEntry| entry.vector.is_none();
            let (false, Some(entry)) = (
                self.embedder.is_empty(),
                self.chunks.get(at as usize).copied().filter(lacks),
            ) else {
                continue;
            };
            let vector = (embedder == self.embedder).then(|| decode_vector(text)).flatten();
            let vector = vector.and_then(|vector| self.vectors.push(at, &vector));
            let other_model = vector.is_none();
            if (vector, other_model) == (entry.vector, entry.other_model) {
                continue;
            }
            self.counts.embedded += usize::from(vector.is_some());
            self.counts.other_model += usize::from(other_model);
            self.counts.other_model = self
                .counts
                .other_model
                .saturating_sub(usize::from(entry.other_model));
            if let Some(place) = self.chunks.get_mut(at as usize) {
                (place.vector, place.other_model) = (vector, other_model);
            }
        }
    }

    /// Removes a memory from the index.
    pub fn remove(&mut self, id: &str) {
        let Some(at) = self.positions.remove(id) else {
            return;
        };
        self.remove_vectors(at);
        self.counts.subtract(ChunkCounts::of(self.chunks_of(at)));
        self.lexical.remove(at);
        self.triggers.remove(at);
        self.constitutional.remove(&at);
        self.expiring.remove(&at);
        if let Some(header) = self.headers.get_mut(at as usize) {
            header.live = false;
            header.chunks = 0;
        }
    }

    fn remove_vectors(&mut self, memory: u32) {
        let old: Vec<u32> = self.chunks_of(memory).filter_map(|chunk| chunk.vector).collect();
        for vector in old {
            self.vectors.remove(vector);
        }
    }

    /// Finds memories whose trigger phrases occur in a text, best first, among those visible in the scope at
    /// the given time (microseconds since 1970).
    pub fn match_triggers(&self, text: &str, scope: &Scope, now: i64, limit: usize) -> Vec<TriggerMatch> {
        let filter = self.filter("", scope, now);
        let hits = self.triggers.matches(text, |memory| filter.allows(self, memory));
        let mut matches: Vec<TriggerMatch> = hits
            .into_iter()
            .filter_map(|(memory, score)| {
                let header = self.get(memory)?;
                Some(TriggerMatch {
                    id: header.id.clone(),
                    title: header.title.clone(),
                    tier: header.tier,
                    score,
                    project: self.project(header).cloned(),
                })
            })
            .collect();
        matches.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        matches.truncate(limit);
        matches
    }

    /// Memories visible in the scope that share rare words with a text or are near its vector, which is written as
    /// by [`super::encode_vector`]: up to `most` per channel, each with the cosine if it is known.
    pub fn similar(
        &self,
        text: &str,
        vector: Option<&str>,
        scope: &Scope,
        now: i64,
        most: usize,
    ) -> Vec<(String, Option<f64>)> {
        let filter = self.filter("", scope, now);
        let terms = super::query_terms(text, false).weighed(1.0);
        let question = self.lexical.question_of_rare_words(&terms, SHARED_WORDS);
        let settings = super::Pipeline::default().lexical;
        let by_words = question.search(settings, most, |memory| filter.allows(self, memory));
        let vector = vector.and_then(super::read_vector);
        let mut found: Vec<(u32, Option<f64>)> = Vec::new();
        if let Some(vector) = &vector {
            let owner = |chunk: u32| self.chunk(chunk).map(|chunk| chunk.memory);
            let near = self.vectors.nearest(vector, 3 * most, |chunk| {
                owner(chunk).is_some_and(|memory| filter.allows(self, memory))
            });
            for (chunk, cosine) in near {
                if let Some(memory) = owner(chunk)
                    && found.len() < most
                    && found.iter().all(|(known, _)| *known != memory)
                {
                    found.push((memory, Some(cosine)));
                }
            }
        }
        for (memory, _) in by_words {
            if found.iter().all(|(known, _)| *known != memory) {
                let id = self.get(memory).map(|header| header.id.as_str());
                let cosine = vector
                    .as_ref()
                    .zip(id)
                    .and_then(|(vector, id)| self.cosine(id, vector));
                found.push((memory, cosine));
            }
        }
        let named = found.into_iter();
        named
            .filter_map(|(memory, cosine)| Some((self.get(memory)?.id.clone(), cosine)))
            .collect()
    }

    /// Cosine of a vector and the nearest chunk of a memory; `None` without vectors.
    pub fn cosine(&self, id: &str, vector: &[f32]) -> Option<f64> {
        let memory = self.position(id)?;
        let chunks = self.chunks_of(memory).filter_map(|chunk| chunk.vector);
        let cosines = chunks.filter_map(|chunk| self.vectors.cosine(chunk, vector));
        cosines.max_by(f64::total_cmp)
    }

    pub(super) fn get(&self, memory: u32) -> Option<&MemoryHeader> {
        self.headers.get(memory as usize).filter(|header| header.live)
    }

    pub(super) fn position(&self, id: &str) -> Option<u32> {
        self.positions.get(id).copied()
    }

    pub(super) fn chunk(&self, number: u32) -> Option<ChunkEntry> {
        self.chunks.get(number as usize).copied()
    }

    /// Chunks of a memory, in order.
    pub(super) fn chunks_of(&self, memory: u32) -> impl Iterator<Item = &ChunkEntry> + Clone {
        let header = self.headers.get(memory as usize);
        let range = header.map_or(0..0, |header| {
            header.first as usize..(header.first + header.chunks) as usize
        });
        range.filter_map(|at| self.chunks.get(at))
    }

    /// Whether the text of a memory is one turn of a conversation.
    pub(super) fn is_turn(&self, memory: u32) -> bool {
        self.get(memory).is_some_and(|header| header.turn)
    }

    /// The turn before (`false`) or after (`true`) a turn of the same conversation: the nearest turn that was saved in
    /// the same folder and project.
    pub(super) fn neighbor_turn(&self, memory: u32, after: bool) -> Option<u32> {
        let own = self.get(memory).filter(|header| header.turn)?;
        let same = |at: &u32| {
            self.get(*at).is_some_and(|header| {
                header.turn && (header.folder, header.project) == (own.folder, own.project)
            })
        };
        let gap = u32::try_from(MAX_TURN_GAP).unwrap_or(u32::MAX);
        if after {
            (memory.saturating_add(1)..=memory.saturating_add(gap)).find(same)
        } else {
            (memory.saturating_sub(gap)..memory).rev().find(same)
        }
    }

    pub(super) fn folder(&self, header: &MemoryHeader) -> &str {
        self.folders
            .get(header.folder as usize)
            .map_or("", String::as_str)
    }

    pub(super) fn project(&self, header: &MemoryHeader) -> Option<&Project> {
        self.projects.get(header.project as usize)?.as_ref()
    }

    /// Author, tags and times of a memory.
    pub(super) fn provenance(&self, header: &MemoryHeader) -> Provenance {
        Provenance {
            author: self.authors.get(header.author as usize).cloned().flatten(),
            tags: self
                .tag_sets
                .get(header.tags as usize)
                .cloned()
                .unwrap_or_default(),
            recorded_at: header.recorded_at,
            observed_at: header.observed_at,
            valid_from: header.valid_from,
            valid_until: header.valid_until,
        }
    }

    /// Filter for memories visible in a folder and scope at the given time, in microseconds since 1970.
    pub(super) fn filter(&self, folder: &str, scope: &Scope, now: i64) -> Filter {
        let everywhere = folder.trim_matches('/').is_empty();
        let sees =
            |project: &Option<Project>| scope.sees(project.as_ref().map(|project| project.id.as_str()));
        let is_expired = |at: &u32| self.get(*at)?.expires_at.filter(|at| *at <= now);
        let expiring = self.expiring.iter().copied();
        Filter {
            projects: (*scope != Scope::All).then(|| self.projects.iter().map(sees).collect()),
            folders: (!everywhere).then(|| self.folders.iter().map(|own| in_folder(own, folder)).collect()),
            expired: expiring.filter(|at| is_expired(at).is_some()).collect(),
            conditions: None,
        }
    }

    /// Restricts a filter to memories that satisfy the caller's conditions.
    pub(super) fn narrow(&self, filter: Filter, wanted: &MemoryFilter) -> Filter {
        if wanted.is_empty() {
            return filter;
        }
        let author = |author: &Option<String>| wanted.matches_author(author.as_deref());
        let only_tags = MemoryFilter {
            tags: wanted.tags.clone(),
            ..MemoryFilter::default()
        };
        let tags = |tags: &Vec<String>| {
            let about = Provenance {
                tags: tags.clone(),
                ..Provenance::default()
            };
            only_tags.matches("", Tier::Normal, &about)
        };
        let conditions = Conditions {
            authors: self.authors.iter().map(author).collect(),
            tag_sets: self.tag_sets.iter().map(tags).collect(),
            wanted: wanted.clone(),
        };
        Filter {
            conditions: Some(conditions),
            ..filter
        }
    }

    /// Constitutional memories that apply in a folder: its own and those of its parent folders.
    pub(super) fn rules(&self, filter: &Filter, folder: &str) -> BTreeSet<u32> {
        let holds = |at: &u32| {
            self.get(*at).is_some_and(|header| {
                let own = self.folder(header);
                filter.in_project(self, *at)
                    && filter.meets_conditions(self, *at)
                    && !filter.expired.contains(at)
                    && (in_folder(own, folder) || in_folder(folder, own))
            })
        };
        self.constitutional.iter().copied().filter(holds).collect()
    }
}

/// Visibility filter of a search.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Visible projects by number; `None` when all are visible.
    projects: Option<Vec<bool>>,
    /// Visible folders by number; `None` when all are visible.
    folders: Option<Vec<bool>>,
    expired: HashSet<u32>,
    /// Conditions of the caller, if any.
    conditions: Option<Conditions>,
}

/// A [`MemoryFilter`] resolved to the numbers of an index.
#[derive(Debug)]
struct Conditions {
    authors: Vec<bool>,
    tag_sets: Vec<bool>,
    wanted: MemoryFilter,
}

impl Filter {
    pub(super) fn allows(&self, index: &MemoryIndex, memory: u32) -> bool {
        let in_folder = self.folders.as_ref().is_none_or(|folders| {
            let folder = index.headers.get(memory as usize).map(|header| header.folder);
            folder.is_some_and(|folder| folders.get(folder as usize) == Some(&true))
        });
        in_folder
            && self.in_project(index, memory)
            && self.meets_conditions(index, memory)
            && (self.expired.is_empty() || !self.expired.contains(&memory))
    }

    /// Whether the memory satisfies the conditions of the caller.
    fn meets_conditions(&self, index: &MemoryIndex, memory: u32) -> bool {
        let Some(conditions) = &self.conditions else {
            return true;
        };
        let wanted = &conditions.wanted;
        index.headers.get(memory as usize).is_some_and(|header| {
            conditions.authors.get(header.author as usize) == Some(&true)
                && conditions.tag_sets.get(header.tags as usize) == Some(&true)
                && (wanted.tiers.is_empty() || wanted.tiers.contains(&header.tier))
                && wanted.in_time(
                    header.recorded_at,
                    header.observed_at.unwrap_or(header.recorded_at),
                )
                && wanted.matches_kind(&header.kind)
        })
    }

    /// Whether the memory is in a visible project and has not expired, whatever the caller filters by.
    pub(super) fn may_see(&self, index: &MemoryIndex, memory: u32) -> bool {
        self.in_project(index, memory) && !self.expired.contains(&memory)
    }

    /// Whether the memory belongs to a visible project or is global.
    pub(super) fn in_project(&self, index: &MemoryIndex, memory: u32) -> bool {
        self.projects.as_ref().is_none_or(|projects| {
            let project = index.headers.get(memory as usize).map(|header| header.project);
            project.is_some_and(|project| projects.get(project as usize) == Some(&true))
        })
    }
}

/// Date in UTC of a time in microseconds since 1970.
fn utc_date(micros: i64) -> Option<Date> {
    let time = Timestamp::from_microsecond(micros).ok()?;
    Some(TimeZone::UTC.to_datetime(time).date())
}

/// Returns the number of a value in a list of distinct values, adding it if missing.
fn intern<T: Clone + Eq + std::hash::Hash>(
    list: &mut Vec<T>,
    numbers: &mut HashMap<T, u32>,
    value: T,
) -> u32 {
    if let Some(number) = numbers.get(&value) {
        return *number;
    }
    let number = to_u32(list.len());
    list.push(value.clone());
    numbers.insert(value, number);
    number
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn set_member(set: &mut BTreeSet<u32>, at: u32, is: bool) {
    if is {
        set.insert(at);
    } else {
        set.remove(&at);
    }
}
