//! What is held in memory: what is known about all memories, their words, their vectors and their trigger phrases. It
//! follows the store by its counters, whoever writes there: what changed is read again, and nothing else.

use std::collections::{BTreeSet, HashMap, HashSet};

use satiety::memory::{LexicalIndex, Project, Scope, TriggerIndex, VectorIndex, decode_vector, in_folder};
use satiety::retrieval::Tier;
use satiety_store::Store;
use satiety_store::memory::{HeadRow, MemoryState, PieceRow};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::EngineError;

/// Rows that are read at once.
const PAGE: u32 = 5000;
/// From so many pieces that are gone on, and more than those that are there, everything is read anew.
const MANY_GONE: usize = 10_000;

/// The one index of an engine. Searches share it; a change waits for those that are under way.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    index: RwLock<Index>,
    /// One at a time reads what is new.
    turn: Mutex<()>,
}

/// What is known about a memory without asking the store.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) tier: Tier,
    pub(super) kind: String,
    pub(super) confidence: f64,
    pub(super) expires_at: Option<i64>,
    /// Bytes of what it says.
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

/// Everything that is held.
#[derive(Debug, Default)]
pub(crate) struct Index {
    state: MemoryState,
    loaded: bool,
    /// The model whose vectors are held; empty when none are.
    embedder: String,
    pub(super) known: Vec<Known>,
    positions: HashMap<String, u32>,
    pub(super) pieces: Vec<Piece>,
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

/// The chosen sentence model: its id and its number of components.
pub(super) type Wanted<'a> = Option<(&'a str, usize)>;

impl Cache {
    /// The index as the store has it now, with vectors of this embedder, or with whatever vectors there are.
    pub(super) async fn current(
        &self,
        store: &Store,
        wanted: Wanted<'_>,
    ) -> Result<RwLockReadGuard<'_, Index>, EngineError> {
        let state = store.memories().state().await?;
        let index = self.index.read().await;
        if index.covers(state, wanted) {
            return Ok(index);
        }
        drop(index);
        let _turn = self.turn.lock().await;
        let index = self.index.read().await;
        if index.covers(state, wanted) {
            return Ok(index);
        }
        let mine = index.loaded && wanted.is_none_or(|(name, _)| name == index.embedder);
        if !mine || index.is_wasteful() {
            let embedder = wanted.map_or_else(
                || (index.embedder.clone(), index.vectors.dimension()),
                |(name, dimension)| (name.to_owned(), dimension),
            );
            drop(index);
            let next = Index::load(store, state, embedder).await?;
            let mut index = self.index.write().await;
            *index = next;
            return Ok(RwLockWriteGuard::downgrade(index));
        }
        let news = News::read(store, &index, state).await?;
        drop(index);
        // Nobody else writes while it is our turn.
        let mut index = self.index.write().await;
        index.follow(news);
        Ok(RwLockWriteGuard::downgrade(index))
    }
}

/// What changed since an index was last brought up to date.
struct News {
    state: MemoryState,
    heads: Vec<HeadRow>,
    pieces: HashMap<String, Vec<PieceRow>>,
    gone: Vec<String>,
}

impl News {
    async fn read(store: &Store, index: &Index, mut state: MemoryState) -> Result<Self, EngineError> {
        let mut heads: Vec<HeadRow> = Vec::new();
        let mut from = index.state.change;
        loop {
            let rows = store.memories().headers_after(from, PAGE).await?;
            let Some(last) = rows.last() else { break };
            from = last.change;
            heads.extend(rows);
        }
        state.change = state.change.max(from);
        let ids: Vec<String> = heads.iter().map(|head| head.memory_id.clone()).collect();
        let mut pieces: HashMap<String, Vec<PieceRow>> = HashMap::new();
        for row in store
            .memories()
            .chunks_of(&ids, !index.embedder.is_empty())
            .await?
        {
            pieces.entry(row.memory_id.clone()).or_default().push(row);
        }
        let mut gone = Vec::new();
        if index.state.deleted != state.deleted {
            let there: HashSet<String> = store.memories().ids().await?.into_iter().collect();
            gone = index
                .positions
                .keys()
                .filter(|id| !there.contains(*id))
                .cloned()
                .collect();
        }
        Ok(Self {
            state,
            heads,
            pieces,
            gone,
        })
    }
}

impl Index {
    fn covers(&self, state: MemoryState, wanted: Wanted<'_>) -> bool {
        self.loaded
            && self.state.change >= state.change
            && self.state.deleted == state.deleted
            && wanted.is_none_or(|(name, _)| name == self.embedder)
    }

    fn is_wasteful(&self) -> bool {
        let gone = self.lexical.gone();
        gone > MANY_GONE && gone > self.lexical.pieces() / 2
    }

    /// Reads everything.
    async fn load(
        store: &Store,
        state: MemoryState,
        (embedder, dimension): (String, usize),
    ) -> Result<Self, EngineError> {
        let mut index = Self {
            state,
            loaded: true,
            vectors: VectorIndex::new(dimension),
            embedder,
            ..Self::default()
        };
        let mut from = 0;
        loop {
            let rows = store.memories().headers_after(from, PAGE).await?;
            let Some(last) = rows.last() else { break };
            from = last.change;
            for row in rows {
                index.know(row);
            }
        }
        index.state.change = state.change.max(from);
        let mut after = 0;
        // The pieces of a memory were written together, so they stand in a row; a page may end among them.
        let mut own: Vec<PieceRow> = Vec::new();
        loop {
            let rows = store
                .memories()
                .chunks_after(after, PAGE, !index.embedder.is_empty())
                .await?;
            let Some(last) = rows.last() else { break };
            after = last.doc;
            for row in rows {
                if own.last().is_some_and(|last| last.memory_id != row.memory_id) {
                    index.set_pieces(&std::mem::take(&mut own));
                }
                own.push(row);
            }
        }
        index.set_pieces(&own);
        Ok(index)
    }

    fn follow(&mut self, news: News) {
        for id in &news.gone {
            self.forget(id);
        }
        let News {
            state,
            heads,
            mut pieces,
            ..
        } = news;
        for head in heads {
            let id = head.memory_id.clone();
            self.know(head);
            self.set_pieces(&pieces.remove(&id).unwrap_or_default());
        }
        self.state = state;
    }

    fn know(&mut self, row: HeadRow) {
        let folder = self.folder_number(row.folder);
        let project = row.project.map(|id| Project {
            label: row.project_label.unwrap_or_else(|| id.clone()),
            id,
        });
        let project = self.project_number(project);
        let at = self.positions.get(&row.memory_id).copied();
        let at = at.unwrap_or_else(|| u32::try_from(self.known.len()).unwrap_or(u32::MAX));
        self.triggers.put(at, row.phrases.iter().map(String::as_str));
        let known = Known {
            tier: tier(&row.tier),
            title: row.title,
            kind: row.kind,
            confidence: row.confidence,
            expires_at: row.expires_at,
            bytes: usize::try_from(row.bytes).unwrap_or(0),
            folder,
            project,
            first: 0,
            pieces: 0,
            here: true,
            id: row.memory_id,
        };
        mark(&mut self.constitutional, at, known.tier == Tier::Constitutional);
        mark(&mut self.expiring, at, known.expires_at.is_some());
        if let Some(place) = self.known.get_mut(at as usize) {
            let (first, pieces) = (place.first, place.pieces);
            *place = Known {
                first,
                pieces,
                ..known
            };
        } else {
            self.positions.insert(known.id.clone(), at);
            self.known.push(known);
        }
    }

    /// Sets the pieces of one memory; the same ones again change nothing.
    fn set_pieces(&mut self, rows: &[PieceRow]) {
        let Some(row) = rows.first() else { return };
        // Unknown: it came since memories were read, and the next time its change is seen.
        let Some(&memory) = self.positions.get(&row.memory_id) else {
            return;
        };
        let old = self.pieces_of(memory);
        if old
            .iter()
            .map(|piece| piece.doc)
            .eq(rows.iter().map(|row| row.doc))
        {
            return;
        }
        for vector in old.iter().filter_map(|piece| piece.vector).collect::<Vec<_>>() {
            self.vectors.remove(vector);
        }
        let title = self
            .known
            .get(memory as usize)
            .map(|known| known.title.clone())
            .unwrap_or_default();
        let mut last_heading = "";
        let texts = rows.iter().enumerate().map(|(at, row)| {
            // The memory's title and phrases are in every row, and a heading in every piece below it: each counts once.
            let heading = row.title.strip_prefix(title.as_str()).unwrap_or(&row.title);
            let new = heading != last_heading;
            last_heading = heading;
            match (at, new) {
                (0, _) => (format!("{} {}", row.title, row.phrases), row.body.as_str()),
                (_, true) => (heading.to_owned(), row.body.as_str()),
                (_, false) => (String::new(), row.body.as_str()),
            }
        });
        let texts: Vec<(String, &str)> = texts.collect();
        self.lexical
            .put(memory, texts.iter().map(|(title, body)| (title.as_str(), *body)));
        let first = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
        for row in rows {
            let number = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
            let vector = row.vector.as_ref().and_then(|(embedder, text)| {
                let vector = (*embedder == self.embedder)
                    .then(|| decode_vector(text))
                    .flatten();
                vector.and_then(|vector| self.vectors.push(number, &vector))
            });
            self.pieces.push(Piece {
                memory,
                doc: row.doc,
                bytes: u32::try_from(row.body.len()).unwrap_or(u32::MAX),
                other: row.vector.is_some() && vector.is_none(),
                vector,
            });
        }
        if let Some(known) = self.known.get_mut(memory as usize) {
            known.first = first;
            known.pieces = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        }
    }

    fn forget(&mut self, id: &str) {
        let Some(at) = self.positions.remove(id) else {
            return;
        };
        for vector in self
            .pieces_of(at)
            .iter()
            .filter_map(|piece| piece.vector)
            .collect::<Vec<_>>()
        {
            self.vectors.remove(vector);
        }
        self.lexical.remove(at);
        self.triggers.remove(at);
        self.constitutional.remove(&at);
        self.expiring.remove(&at);
        if let Some(known) = self.known.get_mut(at as usize) {
            known.here = false;
            known.pieces = 0;
        }
    }

    fn folder_number(&mut self, folder: String) -> u32 {
        if let Some(number) = self.folder_numbers.get(&folder) {
            return *number;
        }
        let number = u32::try_from(self.folders.len()).unwrap_or(u32::MAX);
        self.folders.push(folder.clone());
        self.folder_numbers.insert(folder, number);
        number
    }

    fn project_number(&mut self, project: Option<Project>) -> u32 {
        if let Some(number) = self.project_numbers.get(&project) {
            return *number;
        }
        let number = u32::try_from(self.projects.len()).unwrap_or(u32::MAX);
        self.projects.push(project.clone());
        self.project_numbers.insert(project, number);
        number
    }

    /// How many memories there are.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// How many of them are constitutional.
    pub(super) fn constitutional_count(&self) -> usize {
        self.constitutional.len()
    }

    /// Vectors of other models.
    pub(super) fn other_vectors(&self) -> usize {
        let all = self.positions.values().flat_map(|memory| self.pieces_of(*memory));
        all.filter(|piece| piece.other).count()
    }

    /// Bytes that words take, about.
    pub(super) fn lexical_bytes(&self) -> usize {
        self.lexical.bytes()
    }

    pub(super) fn get(&self, memory: u32) -> Option<&Known> {
        self.known.get(memory as usize).filter(|known| known.here)
    }

    pub(super) fn position(&self, id: &str) -> Option<u32> {
        self.positions.get(id).copied()
    }

    /// The pieces of a memory, in order.
    pub(super) fn pieces_of(&self, memory: u32) -> &[Piece] {
        let known = self.known.get(memory as usize);
        let range = known.map_or(0..0, |known| {
            known.first as usize..(known.first + known.pieces) as usize
        });
        self.pieces.get(range).unwrap_or_default()
    }

    /// Where a memory belongs.
    pub(super) fn folder(&self, known: &Known) -> &str {
        self.folders.get(known.folder as usize).map_or("", String::as_str)
    }

    /// The project that a memory belongs to.
    pub(super) fn project(&self, known: &Known) -> Option<&Project> {
        self.projects.get(known.project as usize)?.as_ref()
    }

    /// What is wanted by one who asks in this folder and scope now.
    pub(super) fn filter(&self, folder: &str, scope: &Scope, now: i64) -> Filter<'_> {
        let everywhere = folder.trim_matches('/').is_empty();
        let sees =
            |project: &Option<Project>| scope.sees(project.as_ref().map(|project| project.id.as_str()));
        Filter {
            index: self,
            projects: (*scope != Scope::All).then(|| self.projects.iter().map(sees).collect()),
            folders: (!everywhere).then(|| self.folders.iter().map(|own| in_folder(own, folder)).collect()),
            expired: self
                .expiring
                .iter()
                .copied()
                .filter(|at| {
                    self.get(*at)
                        .and_then(|known| known.expires_at)
                        .is_some_and(|at| at <= now)
                })
                .collect(),
        }
    }

    /// Constitutional memories that hold in a folder: its own and those of the folders above.
    pub(super) fn rules<'a>(
        &'a self,
        filter: &'a Filter<'_>,
        folder: &'a str,
    ) -> impl Iterator<Item = u32> + 'a {
        self.constitutional.iter().copied().filter(move |at| {
            self.get(*at).is_some_and(|known| {
                let own = self.folder(known);
                filter.in_project(*at)
                    && !filter.expired.contains(at)
                    && (in_folder(own, folder) || in_folder(folder, own))
            })
        })
    }
}

/// Which memories are wanted.
pub(super) struct Filter<'a> {
    index: &'a Index,
    /// By number of project; absent when all are.
    projects: Option<Vec<bool>>,
    /// By number of folder; absent when all are.
    folders: Option<Vec<bool>>,
    expired: HashSet<u32>,
}

impl Filter<'_> {
    pub(super) fn wants(&self, memory: u32) -> bool {
        let in_folder = self.folders.as_ref().is_none_or(|folders| {
            let folder = self
                .index
                .known
                .get(memory as usize)
                .map(|known| known.folder as usize);
            folder
                .and_then(|folder| folders.get(folder))
                .copied()
                .unwrap_or(false)
        });
        in_folder && self.in_project(memory) && (self.expired.is_empty() || !self.expired.contains(&memory))
    }

    /// Whether it belongs to a project that is asked about, or to all of them.
    pub(super) fn in_project(&self, memory: u32) -> bool {
        self.projects.as_ref().is_none_or(|projects| {
            let known = self.index.known.get(memory as usize);
            known
                .and_then(|known| projects.get(known.project as usize))
                .copied()
                .unwrap_or(false)
        })
    }
}

fn mark(set: &mut BTreeSet<u32>, at: u32, is: bool) {
    if is {
        set.insert(at);
    } else {
        set.remove(&at);
    }
}

/// A tier as the store has it; one that nobody knows counts as normal.
pub(super) fn tier(name: &str) -> Tier {
    satiety::memory::tier_named(name).unwrap_or(Tier::Normal)
}
