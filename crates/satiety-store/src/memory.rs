//! Memories: what an agent was told to remember, the pieces that are searched, their vectors, causal links, and what was
//! done with results. Searching by words is the engine's own full text; ranking is not decided here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{QueryBuilder, Row};

use crate::pool::{Pool, in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// Rows that go with one statement.
pub(crate) const BATCH: usize = 500;

/// A memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRow {
    /// `mem-` and a time-ordered UUID.
    pub memory_id: String,
    /// What it is called.
    pub title: String,
    /// What it says.
    pub content: String,
    /// How important it is.
    pub tier: String,
    /// Phrases that bring it back.
    pub triggers: Vec<String>,
    /// Phrases that selections taught.
    pub learnt: Vec<String>,
    /// Where it belongs.
    pub folder: String,
    /// What kind of thing it is.
    pub kind: String,
    /// The file that it comes from.
    pub origin: Option<String>,
    /// The hash of title and content.
    pub content_hash: String,
    /// How much it has proved itself.
    pub confidence: f64,
    /// How often somebody said whether it was useful.
    pub validations: i64,
    /// When it was first kept, in microseconds since 1970.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
    /// When it goes, if ever.
    pub expires_at: Option<i64>,
    /// The number of its last change; given by the store.
    pub change: i64,
    /// The id of the project that it belongs to; absent for one that every project sees.
    pub project: Option<String>,
    /// What people call that project.
    pub project_label: Option<String>,
}

/// A piece of a memory, as it is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkRow {
    /// The memory's title and the headings above the piece.
    pub title: String,
    /// What it says.
    pub body: String,
    /// The memory's trigger phrases.
    pub phrases: String,
    /// Its vector with the id of the model that made it.
    pub vector: Option<(String, String)>,
}

/// A piece as an index in memory needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PieceRow {
    /// The piece.
    pub doc: i64,
    /// Its memory.
    pub memory_id: String,
    /// Its place among the memory's pieces, from 0.
    pub position: i64,
    /// The memory's title and the headings above the piece.
    pub title: String,
    /// What it says.
    pub body: String,
    /// The memory's trigger phrases.
    pub phrases: String,
    /// Its vector as text with the id of the model that made it, where vectors were asked for.
    pub vector: Option<(String, String)>,
}

/// What an index in memory needs to know about a memory besides its pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadRow {
    /// The memory.
    pub memory_id: String,
    /// What it is called.
    pub title: String,
    /// How important it is.
    pub tier: String,
    /// Phrases that bring it back, with those that selections taught.
    pub phrases: Vec<String>,
    /// Where it belongs.
    pub folder: String,
    /// What kind of thing it is.
    pub kind: String,
    /// How much it has proved itself.
    pub confidence: f64,
    /// When it goes, if ever.
    pub expires_at: Option<i64>,
    /// The number of its last change.
    pub change: i64,
    /// Bytes of what it says.
    pub bytes: i64,
    /// The id of the project that it belongs to; absent for one that every project sees.
    pub project: Option<String>,
    /// What people call that project.
    pub project_label: Option<String>,
}

/// Something that was found by words.
#[derive(Debug, Clone, PartialEq)]
pub struct WordHit {
    /// The memory.
    pub memory_id: String,
    /// The piece.
    pub doc: i64,
    /// More is better.
    pub score: f64,
}

/// A causal link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRow {
    /// From which memory.
    pub from_id: String,
    /// To which.
    pub to_id: String,
    /// How the one bears on the other.
    pub kind: String,
}

/// What was done with a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackRow {
    /// `fb-` and a time-ordered UUID.
    pub feedback_id: String,
    /// What.
    pub event_type: String,
    /// In which session.
    pub session_id: String,
    /// After which query.
    pub query_id: Option<String>,
    /// With which memory.
    pub memory_id: Option<String>,
    /// Its rank among the results, from 1; absent when it is not from a search.
    pub rank_in_results: Option<i64>,
    /// What else is known.
    pub metadata: Value,
    /// When, in microseconds since 1970.
    pub created_at: i64,
}

/// How far a reader has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryState {
    /// The last piece.
    pub doc: i64,
    /// The last change of a memory.
    pub change: i64,
    /// How often memories were deleted; another number means that some are gone.
    pub deleted: i64,
}

const COLUMNS: &str = "memory_id, title, content, tier, triggers, learnt, folder, kind, origin, content_hash, confidence, \
     validations, created_at, updated_at, expires_at, change, project, project_label";

/// Adds to a counter and gives its new value, in the transaction of what it counts.
macro_rules! count {
    ($connection:expr, $name:expr, $by:expr) => {{
        let (value,): (i64,) = sqlx::query_as(
            "INSERT INTO memory_counters (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = memory_counters.value + excluded.value RETURNING value",
        )
        .bind($name)
        .bind($by)
        .fetch_one(&mut *$connection)
        .await?;
        value
    }};
}

/// Inserts events, each with its metadata as text; one that is there already is the same event.
macro_rules! insert_feedback {
    ($connection:expr, $rows:expr) => {
        for batch in $rows.chunks($crate::memory::BATCH) {
            let mut insert = sqlx::QueryBuilder::new(
                "INSERT INTO eval_feedback (feedback_id, event_type, session_id, query_id, memory_id,
                     rank_in_results, metadata, created_at) ",
            );
            insert.push_values(batch, |mut values, (row, metadata)| {
                values
                    .push_bind($crate::storable(&row.feedback_id))
                    .push_bind(&row.event_type)
                    .push_bind($crate::storable(&row.session_id))
                    .push_bind(row.query_id.as_deref().map($crate::storable))
                    .push_bind(row.memory_id.as_deref().map($crate::storable))
                    .push_bind(row.rank_in_results)
                    .push_bind(metadata.as_str())
                    .push_bind(row.created_at);
            });
            insert.push(" ON CONFLICT (feedback_id) DO NOTHING");
            insert.build().execute(&mut *$connection).await?;
        }
    };
}
pub(crate) use insert_feedback;

type PieceColumns = (
    i64,
    String,
    i64,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
);

fn select_pieces(vectors: bool) -> &'static str {
    if vectors {
        "SELECT doc, memory_id, position, title, body, phrases, embedder, vector FROM memory_chunks"
    } else {
        "SELECT doc, memory_id, position, title, body, phrases, CAST(NULL AS TEXT), CAST(NULL AS TEXT) FROM memory_chunks"
    }
}

fn piece((doc, memory_id, position, title, body, phrases, embedder, vector): PieceColumns) -> PieceRow {
    PieceRow {
        doc,
        memory_id,
        position,
        title,
        body,
        phrases,
        vector: embedder.zip(vector),
    }
}

/// A row with its lists still as text.
type Columns = (MemoryRow, String, String);

/// Reads rows of either engine; the columns are [`COLUMNS`].
macro_rules! columns {
    ($rows:expr) => {{
        let rows = $rows;
        let mut read: Vec<Columns> = Vec::with_capacity(rows.len());
        for row in &rows {
            let memory = MemoryRow {
                memory_id: row.try_get(0)?,
                title: row.try_get(1)?,
                content: row.try_get(2)?,
                tier: row.try_get(3)?,
                triggers: Vec::new(),
                learnt: Vec::new(),
                folder: row.try_get(6)?,
                kind: row.try_get(7)?,
                origin: row.try_get(8)?,
                content_hash: row.try_get(9)?,
                confidence: row.try_get(10)?,
                validations: row.try_get(11)?,
                created_at: row.try_get(12)?,
                updated_at: row.try_get(13)?,
                expires_at: row.try_get(14)?,
                change: row.try_get(15)?,
                project: row.try_get(16)?,
                project_label: row.try_get(17)?,
            };
            read.push((memory, row.try_get(4)?, row.try_get(5)?));
        }
        read
    }};
}

/// Memories with their chunks, links and feedback: [`Store::memories`].
#[derive(Debug, Clone, Copy)]
pub struct Memories<'s>(pub(crate) &'s Store);

impl Memories<'_> {
    /// Keeps a memory, over the one with the same id. With `chunks`, its pieces are replaced; without, they stay.
    pub async fn put(self, row: &MemoryRow, chunks: Option<&[ChunkRow]>) -> Result<(), StoreError> {
        self.put_all(&[(row.clone(), chunks.map(<[ChunkRow]>::to_vec))])
            .await
    }

    /// Keeps memories, all of them or none.
    pub async fn put_all(self, rows: &[(MemoryRow, Option<Vec<ChunkRow>>)]) -> Result<(), StoreError> {
        let (triggers, learnt): (Vec<String>, Vec<String>) = rows
            .iter()
            .map(|(row, _)| (list(&row.triggers), list(&row.learnt)))
            .unzip();
        in_transaction!(&self.0.pool, |connection| {
            for (at, (row, chunks)) in rows.iter().enumerate() {
                let change = count!(connection, "change", 1_i64);
                sqlx::query(
                    "INSERT INTO memories (memory_id, title, content, tier, triggers, learnt, folder, kind, origin,
                         content_hash, confidence, validations, created_at, updated_at, expires_at, change, project,
                         project_label)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
                     ON CONFLICT (memory_id) DO UPDATE SET title = excluded.title, content = excluded.content,
                         tier = excluded.tier, triggers = excluded.triggers, learnt = excluded.learnt,
                         folder = excluded.folder, kind = excluded.kind, origin = excluded.origin,
                         content_hash = excluded.content_hash, confidence = excluded.confidence,
                         validations = excluded.validations, updated_at = excluded.updated_at,
                         expires_at = excluded.expires_at, change = excluded.change, project = excluded.project,
                         project_label = excluded.project_label",
                )
                .bind(storable(&row.memory_id))
                .bind(storable(&row.title))
                .bind(storable(&row.content))
                .bind(&row.tier)
                .bind(storable(&triggers[at]))
                .bind(storable(&learnt[at]))
                .bind(storable(&row.folder))
                .bind(storable(&row.kind))
                .bind(row.origin.as_deref().map(storable))
                .bind(&row.content_hash)
                .bind(row.confidence)
                .bind(row.validations)
                .bind(row.created_at)
                .bind(row.updated_at)
                .bind(row.expires_at)
                .bind(change)
                .bind(row.project.as_deref().map(storable))
                .bind(row.project_label.as_deref().map(storable))
                .execute(&mut *connection)
                .await?;
                let Some(chunks) = chunks else { continue };
                // Readers follow a memory's change and look at its pieces again.
                sqlx::query("DELETE FROM memory_chunks WHERE memory_id = $1")
                    .bind(storable(&row.memory_id))
                    .execute(&mut *connection)
                    .await?;
                let pieces = i64::try_from(chunks.len()).unwrap_or(i64::MAX);
                let first = count!(connection, "doc", pieces) - pieces + 1;
                let numbered: Vec<(i64, &ChunkRow)> = (first..).zip(chunks).collect();
                for batch in numbered.chunks(BATCH) {
                    let mut insert = QueryBuilder::new(
                        "INSERT INTO memory_chunks (doc, memory_id, position, title, body, phrases, embedder, vector) ",
                    );
                    insert.push_values(batch, |mut values, (doc, chunk)| {
                        values
                            .push_bind(*doc)
                            .push_bind(storable(&row.memory_id))
                            .push_bind(doc - first)
                            .push_bind(storable(&chunk.title))
                            .push_bind(storable(&chunk.body))
                            .push_bind(storable(&chunk.phrases))
                            .push_bind(chunk.vector.as_ref().map(|(embedder, _)| embedder.as_str()))
                            .push_bind(chunk.vector.as_ref().map(|(_, vector)| vector.as_str()));
                    });
                    insert.build().execute(&mut *connection).await?;
                }
            }
        })
    }

    /// Forgets memories with their pieces and links; says how many were there.
    pub async fn remove(self, ids: &[String]) -> Result<u64, StoreError> {
        if ids.is_empty() {
            return Ok(0);
        }
        in_transaction!(&self.0.pool, |connection| {
            let mut removed = 0;
            for id in ids {
                let gone = sqlx::query("DELETE FROM memories WHERE memory_id = $1")
                    .bind(storable(id))
                    .execute(&mut *connection)
                    .await?;
                removed += gone.rows_affected();
            }
            if removed > 0 {
                count!(connection, "deleted", 1_i64);
            }
            removed
        })
    }

    /// Ids of memories whose time has come.
    ///
    /// In the order of expiry, so that the index on it is used: by id, `SQLite` looks through all memories.
    pub async fn expired(self, now: i64) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT memory_id FROM memories WHERE expires_at <= $1 ORDER BY expires_at LIMIT 10000"
        )
        .bind(now)
        .fetch_all(connection)
        .await?)?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// Memories by their ids, in the order of ids.
    pub async fn by_id(self, ids: &[String]) -> Result<Vec<MemoryRow>, StoreError> {
        let mut rows = Vec::with_capacity(ids.len());
        for batch in ids.chunks(BATCH) {
            let found: Vec<Columns> = reading!(&self.0.pool, |connection| {
                let mut select =
                    QueryBuilder::new(format!("SELECT {COLUMNS} FROM memories WHERE memory_id IN ("));
                let mut list = select.separated(", ");
                for id in batch {
                    list.push_bind(storable(id));
                }
                select.push(") ORDER BY memory_id");
                columns!(select.build().fetch_all(connection).await?)
            })?;
            rows.extend(found);
        }
        self.memory_rows(rows)
    }

    /// The memory that comes from a file.
    pub async fn by_origin(self, origin: &str) -> Result<Option<MemoryRow>, StoreError> {
        let found: Vec<Columns> = reading!(&self.0.pool, |connection| {
            let mut select = QueryBuilder::new(format!("SELECT {COLUMNS} FROM memories WHERE origin = "));
            select.push_bind(storable(origin));
            columns!(select.build().fetch_all(connection).await?)
        })?;
        Ok(self.memory_rows(found)?.pop())
    }

    /// Ids and files of the memories whose files begin so.
    pub async fn origins(self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        let end = format!("{prefix}\u{10FFFF}");
        reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT memory_id, origin FROM memories WHERE origin >= $1 AND origin < $2 ORDER BY origin"
        )
        .bind(storable(prefix))
        .bind(storable(&end))
        .fetch_all(connection)
        .await?)
    }

    /// Whether every piece of a memory has a vector of this model; with an empty name, always.
    pub async fn is_embedded(self, id: &str, embedder: &str) -> Result<bool, StoreError> {
        let (missing,): (i64,) = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT COUNT(*) FROM memory_chunks WHERE memory_id = $1 AND (embedder IS NULL OR embedder <> $2)"
        )
        .bind(storable(id))
        .bind(embedder)
        .fetch_one(connection)
        .await?
        })?;
        Ok(embedder.is_empty() || missing == 0)
    }

    /// Memories that changed after a number, oldest change first, a page at a time.
    pub async fn after(self, change: i64, limit: u32) -> Result<Vec<MemoryRow>, StoreError> {
        let found: Vec<Columns> = reading!(&self.0.pool, |connection| {
            let mut select = QueryBuilder::new(format!("SELECT {COLUMNS} FROM memories WHERE change > "));
            select.push_bind(change);
            select.push(" ORDER BY change LIMIT ");
            select.push_bind(i64::from(limit));
            columns!(select.build().fetch_all(connection).await?)
        })?;
        self.memory_rows(found)
    }

    /// What is to be known about memories that changed after a number, oldest change first, a page at a time.
    pub async fn headers_after(self, change: i64, limit: u32) -> Result<Vec<HeadRow>, StoreError> {
        type Found = (
            String,
            String,
            String,
            String,
            String,
            String,
            String,
            f64,
            Option<i64>,
            (i64, i64, Option<String>, Option<String>),
        );
        let rows: Vec<Found> = reading!(&self.0.pool, |connection| {
            let found = sqlx::query(
                "SELECT memory_id, title, tier, triggers, learnt, folder, kind, confidence, expires_at, change,
                     CAST(octet_length(content) AS BIGINT), project, project_label
                 FROM memories WHERE change > $1 ORDER BY change LIMIT $2",
            )
            .bind(change)
            .bind(i64::from(limit))
            .fetch_all(connection)
            .await?;
            let mut rows = Vec::with_capacity(found.len());
            for row in &found {
                rows.push((
                    row.try_get(0)?,
                    row.try_get(1)?,
                    row.try_get(2)?,
                    row.try_get(3)?,
                    row.try_get(4)?,
                    row.try_get(5)?,
                    row.try_get(6)?,
                    row.try_get(7)?,
                    row.try_get(8)?,
                    (
                        row.try_get(9)?,
                        row.try_get(10)?,
                        row.try_get(11)?,
                        row.try_get(12)?,
                    ),
                ));
            }
            rows
        })?;
        let head = |row: Found| {
            let (
                memory_id,
                title,
                tier,
                triggers,
                learnt,
                folder,
                kind,
                confidence,
                expires_at,
                (change, bytes, project, project_label),
            ) = row;
            let what = || format!("memory {memory_id}");
            let mut phrases = self.0.read_list(&triggers, what)?;
            phrases.extend(self.0.read_list(&learnt, what)?);
            Ok(HeadRow {
                memory_id,
                title,
                tier,
                phrases,
                folder,
                kind,
                confidence,
                expires_at,
                change,
                bytes,
                project,
                project_label,
            })
        };
        rows.into_iter().map(head).collect()
    }

    /// Pieces after a number, a page at a time, with or without their vectors.
    pub async fn chunks_after(
        self,
        doc: i64,
        limit: u32,
        vectors: bool,
    ) -> Result<Vec<PieceRow>, StoreError> {
        let rows: Vec<PieceColumns> = reading!(&self.0.pool, |connection| {
            let mut select = QueryBuilder::new(select_pieces(vectors));
            select.push(" WHERE doc > ").push_bind(doc);
            select.push(" ORDER BY doc LIMIT ").push_bind(i64::from(limit));
            select.build_query_as().fetch_all(connection).await?
        })?;
        Ok(rows.into_iter().map(piece).collect())
    }

    /// All pieces of these memories, in their order, with or without their vectors.
    pub async fn chunks_of(self, ids: &[String], vectors: bool) -> Result<Vec<PieceRow>, StoreError> {
        let mut all = Vec::new();
        for batch in ids.chunks(BATCH) {
            let rows: Vec<PieceColumns> = reading!(&self.0.pool, |connection| {
                let mut select = QueryBuilder::new(select_pieces(vectors));
                select.push(" WHERE memory_id IN (");
                let mut list = select.separated(", ");
                for id in batch {
                    list.push_bind(storable(id));
                }
                select.push(") ORDER BY memory_id, position");
                select.build_query_as().fetch_all(connection).await?
            })?;
            all.extend(rows.into_iter().map(piece));
        }
        Ok(all)
    }

    /// The ids of all memories.
    pub async fn ids(self) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT memory_id FROM memories ORDER BY memory_id"
        )
        .fetch_all(connection)
        .await?)?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// How far there is something to read.
    pub async fn state(self) -> Result<MemoryState, StoreError> {
        let rows: Vec<(String, i64)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT name, value FROM memory_counters"
        )
        .fetch_all(connection)
        .await?)?;
        let of = |name: &str| {
            rows.iter()
                .find(|(other, _)| other == name)
                .map_or(0, |(_, value)| *value)
        };
        Ok(MemoryState {
            doc: of("doc"),
            change: of("change"),
            deleted: of("deleted"),
        })
    }

    /// Pieces that have any of these words, best first. Words are alternatives, stemmed as English by both engines; on
    /// SQLite the score is BM25, on PostgreSQL its own density rank.
    pub async fn search_words(self, words: &[&str], limit: u32) -> Result<Vec<WordHit>, StoreError> {
        // Letters and digits only: nothing that either engine's query language could read as an operator.
        let words: Vec<String> = words
            .iter()
            .map(|word| {
                word.chars()
                    .filter(|character| character.is_alphanumeric())
                    .collect::<String>()
            })
            .filter(|word| !word.is_empty())
            .collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let limit = i64::from(limit);
        let rows: Vec<(String, i64, f64)> = match &self.0.pool {
            Pool::Sqlite { .. } => {
                let query: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                let query = query.join(" OR ");
                reading!(&self.0.pool, |connection| sqlx::query_as(
                    "SELECT c.memory_id, c.doc, f.score FROM
                         (SELECT rowid, -bm25(memory_fts) AS score FROM memory_fts WHERE memory_fts MATCH $1
                          ORDER BY bm25(memory_fts), rowid LIMIT $2) f
                     JOIN memory_chunks c ON c.doc = f.rowid ORDER BY f.score DESC, c.doc"
                )
                .bind(&query)
                .bind(limit)
                .fetch_all(connection)
                .await?)?
            }
            Pool::Postgres { .. } => {
                let query: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
                let query = query.join(" | ");
                reading!(&self.0.pool, |connection| {
                    sqlx::query_as(
                    "SELECT memory_id, doc, ts_rank(to_tsvector('english', title || ' ' || body || ' ' || phrases),
                         to_tsquery('english', $1), 1)::float8 AS score FROM memory_chunks
                     WHERE to_tsvector('english', title || ' ' || body || ' ' || phrases) @@ to_tsquery('english', $1)
                     ORDER BY score DESC, doc LIMIT $2"
                )
                .bind(&query)
                .bind(limit)
                .fetch_all(connection)
                .await?
                })?
            }
        };
        let hit = |(memory_id, doc, score)| WordHit {
            memory_id,
            doc,
            score,
        };
        Ok(rows.into_iter().map(hit).collect())
    }

    /// The title and text of pieces.
    pub async fn chunk_texts(self, docs: &[i64]) -> Result<Vec<(i64, String, String)>, StoreError> {
        let mut rows = Vec::with_capacity(docs.len());
        for batch in docs.chunks(BATCH) {
            let found: Vec<(i64, String, String)> = reading!(&self.0.pool, |connection| {
                let mut select =
                    QueryBuilder::new("SELECT doc, title, body FROM memory_chunks WHERE doc IN (");
                let mut list = select.separated(", ");
                for doc in batch {
                    list.push_bind(*doc);
                }
                select.push(")");
                select.build_query_as().fetch_all(connection).await?
            })?;
            rows.extend(found);
        }
        Ok(rows)
    }

    /// How many pieces there are, and how many of them have a vector of this model.
    pub async fn count_chunks(self, embedder: &str) -> Result<(i64, i64), StoreError> {
        reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT COUNT(*), COUNT(CASE WHEN embedder = $1 THEN 1 END) FROM memory_chunks"
        )
        .bind(embedder)
        .fetch_one(connection)
        .await?)
    }

    /// Links one memory to another; the same link twice is one. False when one of them is not there.
    pub async fn link(self, link: &LinkRow) -> Result<bool, StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            let (there,): (i64,) =
                sqlx::query_as("SELECT COUNT(*) FROM memories WHERE memory_id = $1 OR memory_id = $2")
                    .bind(storable(&link.from_id))
                    .bind(storable(&link.to_id))
                    .fetch_one(&mut *connection)
                    .await?;
            if there == 2 {
                sqlx::query(
                    "INSERT INTO memory_links (from_id, to_id, kind, created_at) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (from_id, to_id, kind) DO NOTHING",
                )
                .bind(storable(&link.from_id))
                .bind(storable(&link.to_id))
                .bind(&link.kind)
                .bind(now)
                .execute(&mut *connection)
                .await?;
            }
            there == 2
        })
    }

    /// Takes a link away; says whether it was there.
    pub async fn unlink(self, link: &LinkRow) -> Result<bool, StoreError> {
        let gone = in_transaction!(&self.0.pool, |connection| {
            sqlx::query("DELETE FROM memory_links WHERE from_id = $1 AND to_id = $2 AND kind = $3")
                .bind(storable(&link.from_id))
                .bind(storable(&link.to_id))
                .bind(&link.kind)
                .execute(&mut *connection)
                .await?
                .rows_affected()
        })?;
        Ok(gone > 0)
    }

    /// All links that begin or end at these memories.
    pub async fn links(self, ids: &[String]) -> Result<Vec<LinkRow>, StoreError> {
        let mut rows = Vec::new();
        for batch in ids.chunks(BATCH) {
            let found: Vec<(String, String, String)> = reading!(&self.0.pool, |connection| {
                let mut select =
                    QueryBuilder::new("SELECT from_id, to_id, kind FROM memory_links WHERE from_id IN (");
                let mut list = select.separated(", ");
                for id in batch {
                    list.push_bind(storable(id));
                }
                select.push(") OR to_id IN (");
                let mut list = select.separated(", ");
                for id in batch {
                    list.push_bind(storable(id));
                }
                select.push(") ORDER BY from_id, to_id, kind");
                select.build_query_as().fetch_all(connection).await?
            })?;
            rows.extend(
                found
                    .into_iter()
                    .map(|(from_id, to_id, kind)| LinkRow { from_id, to_id, kind }),
            );
        }
        rows.dedup();
        Ok(rows)
    }

    /// Keeps what was done with results.
    pub async fn put_feedback(self, rows: &[FeedbackRow]) -> Result<(), StoreError> {
        let rows: Vec<(&FeedbackRow, String)> =
            rows.iter().map(|row| (row, row.metadata.to_string())).collect();
        in_transaction!(&self.0.pool, |connection| {
            insert_feedback!(connection, rows);
        })
    }

    /// What was done in a session, newest first, with what is still waiting to be written.
    pub async fn feedback_of_session(
        self,
        session: &str,
        limit: u32,
    ) -> Result<Vec<FeedbackRow>, StoreError> {
        let waiting = self.0.query_log().waiting_queries(session);
        let mut rows = self.written_feedback(session, limit).await?;
        for event in waiting.iter().flat_map(|query| &query.events) {
            // It may have been written since we looked at what is waiting.
            if !rows.iter().any(|row| row.feedback_id == event.feedback_id) {
                rows.push(event.clone());
            }
        }
        rows.sort_by(|a, b| (b.created_at, &b.feedback_id).cmp(&(a.created_at, &a.feedback_id)));
        rows.truncate(limit as usize);
        Ok(rows)
    }

    async fn written_feedback(self, session: &str, limit: u32) -> Result<Vec<FeedbackRow>, StoreError> {
        type Found = (
            String,
            String,
            String,
            Option<String>,
            Option<String>,
            Option<i64>,
            String,
            i64,
        );
        let rows: Vec<Found> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT feedback_id, event_type, session_id, query_id, memory_id, rank_in_results, metadata, created_at
             FROM eval_feedback WHERE session_id = $1 ORDER BY created_at DESC, feedback_id DESC LIMIT $2"
        )
        .bind(storable(session))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?
        })?;
        rows.into_iter()
            .map(
                |(
                    feedback_id,
                    event_type,
                    session_id,
                    query_id,
                    memory_id,
                    rank_in_results,
                    metadata,
                    created_at,
                )| {
                    Ok(FeedbackRow {
                        metadata: self
                            .0
                            .parse_json(&metadata, || format!("feedback {feedback_id}"))?,
                        feedback_id,
                        event_type,
                        session_id,
                        query_id,
                        memory_id,
                        rank_in_results,
                        created_at,
                    })
                },
            )
            .collect()
    }

    fn memory_rows(self, rows: Vec<Columns>) -> Result<Vec<MemoryRow>, StoreError> {
        rows.into_iter()
            .map(|(mut row, triggers, learnt)| {
                let what = || format!("memory {}", row.memory_id);
                let (triggers, learnt) = (
                    self.0.read_list(&triggers, what)?,
                    self.0.read_list(&learnt, what)?,
                );
                (row.triggers, row.learnt) = (triggers, learnt);
                Ok(row)
            })
            .collect()
    }
}

fn list(values: &[String]) -> String {
    Value::from(values.to_vec()).to_string()
}
