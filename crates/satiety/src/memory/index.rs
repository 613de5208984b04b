//! What searches look at: headers of all memories, their words, their vectors and their trigger phrases, in memory.
//!
//! An index is a value. Whoever follows a store clones it, changes the clone and publishes it; a clone shares with the
//! original what did not change, and searches under way keep the version that they began with.

use std::collections::{BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::shared::{SharedMap, SharedVec};
use super::{LexicalIndex, Project, Scope, TriggerIndex, VectorIndex, decode_vector, in_folder};
use crate::retrieval::Tier;

/// From so many removed pieces on, and more than those that are there, building the index anew pays.
const MANY_GONE: usize = 10_000;

/// A memory as the index takes it.
#[derive(Debug, Clone)]
pub struct IndexedMemory {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: Tier,
    /// What kind of thing it is.
    pub kind: String,
    /// How much it has proved itself, from 0 to 1.
    pub confidence: f64,
    /// When it expires, in microseconds since 1970.
    pub expires_at: Option<i64>,
    /// Bytes of its content.
    pub bytes: usize,
    /// Where it belongs.
    pub folder: String,
    /// The project that it belongs to; none for one that every project sees.
    pub project: Option<Project>,
    /// Its trigger phrases, those that were learnt included.
    pub phrases: Vec<String>,
}

/// A piece of a memory as the index takes it.
#[derive(Debug, Clone, Copy)]
pub struct IndexedChunk<'a> {
    /// Its number in the store, by which its text is read.
    pub doc: i64,
    /// The memory's title with the piece's heading.
    pub title: &'a str,
    /// The memory's trigger phrases.
    pub phrases: &'a str,
    /// Its text.
    pub body: &'a str,
    /// The embedder that made its vector, and the vector as [`super::encode_vector`] writes it.
    pub vector: Option<(&'a str, &'a str)>,
}

/// A memory whose phrase was said.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TriggerMatch {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: Tier,
    /// How much of the text its phrase is, from 0.5 to 1.
    pub score: f64,
    /// The project that it belongs to; null for one that every project sees.
    pub project: Option<Project>,
}

/// What is known about a memory without asking the store.
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
    /// Its pieces stand in a row.
    first: u32,
    pieces: u32,
    here: bool,
}

/// A piece of a memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) memory: u32,
    pub(super) doc: i64,
    pub(super) bytes: u32,
    /// The number of its vector, when the chosen model made one.
    pub(super) vector: Option<u32>,
    /// Whether it has a vector of another model, which cannot be compared.
    other: bool,
}

/// All memories, ready to be searched.
#[derive(Debug, Clone, Default)]
pub struct MemoryIndex {
    /// The model whose vectors are held; empty when none are.
    embedder: String,
    headers: SharedVec<MemoryHeader>,
    positions: SharedMap<String, u32>,
    pieces: SharedVec<Piece>,
    pub(super) lexical: LexicalIndex,
    pub(super) vectors: VectorIndex,
    pub(super) triggers: TriggerIndex,
    folders: Vec<String>,
    folder_numbers: HashMap<String, u32>,
    /// Projects by number; none for memories that every project sees.
    projects: Vec<Option<Project>>,
    project_numbers: HashMap<Option<Project>, u32>,
    constitutional: BTreeSet<u32>,
    expiring: BTreeSet<u32>,
}

impl MemoryIndex {
    /// No memories yet, with vectors of this embedder; an empty name for none.
    pub fn new(embedder: impl Into<String>, dimension: usize) -> Self {
        Self {
            embedder: embedder.into(),
            vectors: VectorIndex::new(dimension),
            ..Self::default()
        }
    }

    /// The model whose vectors are held; empty when none are.
    pub fn embedder(&self) -> &str {
        &self.embedder
    }

    /// Components of a vector.
    pub fn dimension(&self) -> usize {
        self.vectors.dimension()
    }

    /// How many memories there are.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ids of all memories, in no order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.positions.keys().map(String::as_str)
    }

    /// How many memories are constitutional.
    pub fn constitutional_count(&self) -> usize {
        self.constitutional.len()
    }

    /// Pieces with a vector of another model, which cannot be compared.
    pub fn other_vectors(&self) -> usize {
        let all = self.positions.values().flat_map(|memory| self.pieces_of(*memory));
        all.filter(|piece| piece.other).count()
    }

    /// Bytes that vectors take.
    pub fn vector_bytes(&self) -> usize {
        self.vectors.bytes()
    }

    /// Bytes that words take, about.
    pub fn word_bytes(&self) -> usize {
        self.lexical.bytes()
    }

    /// Whether so much was removed that the index should be built anew.
    pub fn is_wasteful(&self) -> bool {
        let gone = self.lexical.gone();
        gone > MANY_GONE && gone > self.lexical.pieces() / 2
    }

    /// Adds a memory or changes what is known about it; its pieces stay.
    pub fn put(&mut self, memory: IndexedMemory) {
        let folder = number(&mut self.folders, &mut self.folder_numbers, memory.folder);
        let project = number(&mut self.projects, &mut self.project_numbers, memory.project);
        let at = self
            .position(&memory.id)
            .unwrap_or_else(|| small(self.headers.len()));
        self.triggers.put(at, memory.phrases.iter().map(String::as_str));
        mark(&mut self.constitutional, at, memory.tier == Tier::Constitutional);
        mark(&mut self.expiring, at, memory.expires_at.is_some());
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
            first: old.map_or(0, |old| old.first),
            pieces: old.map_or(0, |old| old.pieces),
            here: true,
        };
        if let Some(place) = self.headers.get_mut(at as usize) {
            *place = header;
        } else {
            self.positions.insert(header.id.clone(), at);
            self.headers.push(header);
        }
    }

    /// Sets the pieces of a memory; the same ones again change nothing, and neither do those of an unknown memory.
    pub fn set_pieces(&mut self, id: &str, pieces: &[IndexedChunk<'_>]) {
        let Some(memory) = self.position(id).filter(|_| !pieces.is_empty()) else {
            return;
        };
        let same = self.pieces_of(memory).map(|piece| piece.doc);
        if same.eq(pieces.iter().map(|piece| piece.doc)) {
            return;
        }
        self.remove_vectors(memory);
        let title = self
            .get(memory)
            .map(|header| header.title.clone())
            .unwrap_or_default();
        let mut last_heading = "";
        let texts = pieces.iter().enumerate().map(|(at, piece)| {
            // The memory's title and phrases are in every piece, and a heading in every piece below it: each counts once.
            let heading = piece.title.strip_prefix(title.as_str()).unwrap_or(piece.title);
            let new = heading != last_heading;
            last_heading = heading;
            match (at, new) {
                (0, _) => (format!("{} {}", piece.title, piece.phrases), piece.body),
                (_, true) => (heading.to_owned(), piece.body),
                (_, false) => (String::new(), piece.body),
            }
        });
        let texts: Vec<(String, &str)> = texts.collect();
        self.lexical
            .put(memory, texts.iter().map(|(title, body)| (title.as_str(), *body)));
        let first = small(self.pieces.len());
        for piece in pieces {
            let number = small(self.pieces.len());
            let vector = piece.vector.and_then(|(embedder, text)| {
                let vector = (embedder == self.embedder).then(|| decode_vector(text)).flatten();
                self.vectors.push(number, &vector?)
            });
            self.pieces.push(Piece {
                memory,
                doc: piece.doc,
                bytes: small(piece.body.len()),
                other: piece.vector.is_some() && vector.is_none(),
                vector,
            });
        }
        if let Some(header) = self.headers.get_mut(memory as usize) {
            header.first = first;
            header.pieces = small(pieces.len());
        }
    }

    /// Removes a memory.
    pub fn remove(&mut self, id: &str) {
        let Some(at) = self.positions.remove(id) else {
            return;
        };
        self.remove_vectors(at);
        self.lexical.remove(at);
        self.triggers.remove(at);
        self.constitutional.remove(&at);
        self.expiring.remove(&at);
        if let Some(header) = self.headers.get_mut(at as usize) {
            header.here = false;
            header.pieces = 0;
        }
    }

    fn remove_vectors(&mut self, memory: u32) {
        let old: Vec<u32> = self.pieces_of(memory).filter_map(|piece| piece.vector).collect();
        for vector in old {
            self.vectors.remove(vector);
        }
    }

    /// Memories whose trigger phrases are said in a text, best first, of those that a scope sees at a time.
    pub fn match_triggers(&self, text: &str, scope: &Scope, now: i64, limit: usize) -> Vec<TriggerMatch> {
        let filter = self.filter("", scope, now);
        let hits = self.triggers.matches(text, |memory| filter.wants(self, memory));
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

    pub(super) fn get(&self, memory: u32) -> Option<&MemoryHeader> {
        self.headers.get(memory as usize).filter(|header| header.here)
    }

    pub(super) fn position(&self, id: &str) -> Option<u32> {
        self.positions.get(id).copied()
    }

    pub(super) fn piece(&self, number: u32) -> Option<Piece> {
        self.pieces.get(number as usize).copied()
    }

    /// The pieces of a memory, in order.
    pub(super) fn pieces_of(&self, memory: u32) -> impl Iterator<Item = &Piece> + Clone {
        let header = self.headers.get(memory as usize);
        let range = header.map_or(0..0, |header| {
            header.first as usize..(header.first + header.pieces) as usize
        });
        range.filter_map(|at| self.pieces.get(at))
    }

    pub(super) fn folder(&self, header: &MemoryHeader) -> &str {
        self.folders
            .get(header.folder as usize)
            .map_or("", String::as_str)
    }

    pub(super) fn project(&self, header: &MemoryHeader) -> Option<&Project> {
        self.projects.get(header.project as usize)?.as_ref()
    }

    /// Which memories a search in this folder and scope may find at this time, in microseconds since 1970.
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
        }
    }

    /// Constitutional memories that hold in a folder: its own and those of the folders above.
    pub(super) fn rules(&self, filter: &Filter, folder: &str) -> BTreeSet<u32> {
        let holds = |at: &u32| {
            self.get(*at).is_some_and(|header| {
                let own = self.folder(header);
                filter.in_project(self, *at)
                    && !filter.expired.contains(at)
                    && (in_folder(own, folder) || in_folder(folder, own))
            })
        };
        self.constitutional.iter().copied().filter(holds).collect()
    }
}

/// Which memories may be found.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// By number of project; absent when all are.
    projects: Option<Vec<bool>>,
    /// By number of folder; absent when all are.
    folders: Option<Vec<bool>>,
    expired: HashSet<u32>,
}

impl Filter {
    pub(super) fn wants(&self, index: &MemoryIndex, memory: u32) -> bool {
        let in_folder = self.folders.as_ref().is_none_or(|folders| {
            let folder = index.headers.get(memory as usize).map(|header| header.folder);
            folder.is_some_and(|folder| folders.get(folder as usize) == Some(&true))
        });
        in_folder
            && self.in_project(index, memory)
            && (self.expired.is_empty() || !self.expired.contains(&memory))
    }

    /// Whether it belongs to a project that is searched, or to all of them.
    pub(super) fn in_project(&self, index: &MemoryIndex, memory: u32) -> bool {
        self.projects.as_ref().is_none_or(|projects| {
            let project = index.headers.get(memory as usize).map(|header| header.project);
            project.is_some_and(|project| projects.get(project as usize) == Some(&true))
        })
    }
}

/// The number of a value in a list that holds each value once.
fn number<T: Clone + Eq + std::hash::Hash>(
    list: &mut Vec<T>,
    numbers: &mut HashMap<T, u32>,
    value: T,
) -> u32 {
    if let Some(number) = numbers.get(&value) {
        return *number;
    }
    let number = small(list.len());
    list.push(value.clone());
    numbers.insert(value, number);
    number
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn mark(set: &mut BTreeSet<u32>, at: u32, is: bool) {
    if is {
        set.insert(at);
    } else {
        set.remove(&at);
    }
}
