//! Memories: what an agent was told to remember, the pieces that are searched, their vectors, causal links, and what was
//! done with results. Searching by words is the engine's own full text; ranking is not decided here.

use serde_json::Value;

use crate::pool::{Connection, in_transaction};
use crate::sql::{BATCH, Fault, Row, Sql, Value as Bound, columns, first_column, sql, values};
use crate::{Store, StoreError, now_micros};

/// A memory.
#[derive(Debug, Clone, PartialEq)]
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
pub struct ChunkTextRow {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRow {
    /// From which memory.
    pub from_id: String,
    /// To which.
    pub to_id: String,
    /// How the one bears on the other.
    pub kind: String,
}

/// What was done with a result.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
async fn count(connection: &mut Connection, name: &str, by: i64) -> Result<i64, Fault> {
    let insert = sql!(
        "INSERT INTO memory_counters (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = memory_counters.value + excluded.value RETURNING value";
        name, by
    );
    let row = connection.one(insert).await?;
    Ok(row.get(0)?)
}

/// Inserts events; one that is there already is the same event.
pub(crate) async fn insert_feedback(
    connection: &mut Connection,
    rows: &[Vec<Bound<'_>>],
) -> Result<(), Fault> {
    let head = "INSERT INTO eval_feedback (feedback_id, event_type, session_id, query_id, memory_id,
         rank_in_results, metadata, created_at) ";
    connection
        .insert(head, rows, " ON CONFLICT (feedback_id) DO NOTHING")
        .await
}

/// The values of one event for [`insert_feedback`].
pub(crate) fn feedback_values(row: &FeedbackRow) -> Vec<Bound<'_>> {
    values! {
        &row.feedback_id, &row.event_type, &row.session_id, &row.query_id, &row.memory_id,
        row.rank_in_results, row.metadata.to_string(), row.created_at
    }
}

pub(crate) fn feedback(row: &Row) -> Result<FeedbackRow, StoreError> {
    let id: String = row.get("feedback_id")?;
    let metadata = row.json("metadata", format_args!("feedback {id}"))?;
    Ok(columns!(row => FeedbackRow {
        event_type, session_id, query_id, memory_id, rank_in_results, created_at;
        feedback_id: id, metadata
    }))
}

fn select_chunks(vectors: bool) -> Sql<'static> {
    Sql::build(if vectors {
        "SELECT doc, memory_id, position, title, body, phrases, embedder, vector FROM memory_chunks"
    } else {
        "SELECT doc, memory_id, position, title, body, phrases, CAST(NULL AS TEXT) AS embedder,
             CAST(NULL AS TEXT) AS vector FROM memory_chunks"
    })
}

fn chunk(row: &Row) -> Result<ChunkTextRow, StoreError> {
    let vector = row.get::<Option<String>>("embedder")?.zip(row.get("vector")?);
    Ok(columns!(row => ChunkTextRow { doc, memory_id, position, title, body, phrases; vector }))
}

fn memory(row: &Row) -> Result<MemoryRow, StoreError> {
    let id: String = row.get("memory_id")?;
    let triggers = row.list("triggers", format_args!("memory {id}"))?;
    let learnt = row.list("learnt", format_args!("memory {id}"))?;
    Ok(columns!(row => MemoryRow {
        title, content, tier, folder, kind, origin, content_hash, confidence, validations, created_at,
        updated_at, expires_at, change, project, project_label;
        memory_id: id, triggers, learnt
    }))
}

fn header(row: &Row) -> Result<HeadRow, StoreError> {
    let id: String = row.get("memory_id")?;
    let mut phrases = row.list("triggers", format_args!("memory {id}"))?;
    phrases.extend(row.list("learnt", format_args!("memory {id}"))?);
    Ok(columns!(row => HeadRow {
        title, tier, folder, kind, confidence, expires_at, change, bytes, project, project_label;
        memory_id: id, phrases
    }))
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
        in_transaction!(&self.0.pool, |connection| {
            for (row, chunks) in rows {
                let change = count(connection, "change", 1).await?;
                let insert = sql!(
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
                         project_label = excluded.project_label";
                    &row.memory_id, &row.title, &row.content, &row.tier, list(&row.triggers),
                    list(&row.learnt), &row.folder, &row.kind, row.origin.as_deref(), &row.content_hash,
                    row.confidence, row.validations, row.created_at, row.updated_at, row.expires_at, change,
                    row.project.as_deref(), row.project_label.as_deref()
                );
                connection.execute(insert).await?;
                let Some(chunks) = chunks else { continue };
                // Readers follow a memory's change and look at its pieces again.
                let delete = sql!("DELETE FROM memory_chunks WHERE memory_id = $1"; &row.memory_id);
                connection.execute(delete).await?;
                let pieces = i64::try_from(chunks.len()).unwrap_or(i64::MAX);
                let first = count(connection, "doc", pieces).await? - pieces + 1;
                let rows: Vec<_> = (0_i64..)
                    .zip(chunks)
                    .map(|(position, chunk)| {
                        let (embedder, vector) = chunk
                            .vector
                            .as_ref()
                            .map(|(embedder, vector)| (embedder.as_str(), vector.as_str()))
                            .unzip();
                        values! {
                            first + position, &row.memory_id, position, &chunk.title, &chunk.body,
                            &chunk.phrases, embedder, vector
                        }
                    })
                    .collect();
                let head = "INSERT INTO memory_chunks (doc, memory_id, position, title, body, phrases, embedder, vector) ";
                connection.insert(head, &rows, "").await?;
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
                removed += connection
                    .execute(sql!("DELETE FROM memories WHERE memory_id = $1"; id))
                    .await?;
            }
            if removed > 0 {
                count(connection, "deleted", 1).await?;
            }
            removed
        })
    }

    /// Ids of memories whose time has come.
    ///
    /// In the order of expiry, so that the index on it is used: by id, `SQLite` looks through all memories.
    pub async fn expired(self, now: i64) -> Result<Vec<String>, StoreError> {
        let select = sql!(
            "SELECT memory_id FROM memories WHERE expires_at <= $1 ORDER BY expires_at LIMIT 10000";
            now
        );
        let rows = self.0.pool.rows(select).await?;
        first_column(&rows)
    }

    /// Memories by their ids, in the order of ids.
    pub async fn by_id(self, ids: &[String]) -> Result<Vec<MemoryRow>, StoreError> {
        let mut all = Vec::with_capacity(ids.len());
        for batch in ids.chunks(BATCH) {
            let select = Sql::build(&format!("SELECT {COLUMNS} FROM memories WHERE memory_id IN "))
                .push_list(batch.iter().map(Into::into))
                .push(" ORDER BY memory_id");
            let rows = self.0.pool.rows(select).await?;
            all.extend(rows.iter().map(memory).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// The memory that comes from a file.
    pub async fn by_origin(self, origin: &str) -> Result<Option<MemoryRow>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM memories WHERE origin = $1");
        let rows = self.0.pool.rows(sql!(select; origin)).await?;
        rows.last().map(memory).transpose()
    }

    /// Ids and files of the memories whose files begin so.
    pub async fn origins(self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        let end = format!("{prefix}\u{10FFFF}");
        let select = sql!(
            "SELECT memory_id, origin FROM memories WHERE origin >= $1 AND origin < $2 ORDER BY origin";
            prefix, &end
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Whether every piece of a memory has a vector of this model; with an empty name, always.
    pub async fn is_embedded(self, id: &str, embedder: &str) -> Result<bool, StoreError> {
        let select = sql!(
            "SELECT COUNT(*) FROM memory_chunks WHERE memory_id = $1 AND (embedder IS NULL OR embedder <> $2)";
            id, embedder
        );
        let missing = self.0.pool.one(select).await?;
        Ok(embedder.is_empty() || missing.get::<i64>(0)? == 0)
    }

    /// Memories that changed after a number, oldest change first, a page at a time.
    pub async fn after(self, change: i64, limit: u32) -> Result<Vec<MemoryRow>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM memories WHERE change > $1 ORDER BY change LIMIT $2");
        let rows = self.0.pool.rows(sql!(select; change, limit)).await?;
        rows.iter().map(memory).collect()
    }

    /// What is to be known about memories that changed after a number, oldest change first, a page at a time.
    pub async fn headers_after(self, change: i64, limit: u32) -> Result<Vec<HeadRow>, StoreError> {
        let select = sql!(
            "SELECT memory_id, title, tier, triggers, learnt, folder, kind, confidence, expires_at, change,
                 CAST(octet_length(content) AS BIGINT) AS bytes, project, project_label
             FROM memories WHERE change > $1 ORDER BY change LIMIT $2";
            change, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(header).collect()
    }

    /// Chunks after a number, a page at a time, with or without their vectors.
    pub async fn chunks_after(
        self,
        doc: i64,
        limit: u32,
        vectors: bool,
    ) -> Result<Vec<ChunkTextRow>, StoreError> {
        let select = select_chunks(vectors).push(" WHERE doc > ").push_bind(doc);
        let rows = self
            .0
            .pool
            .rows(select.push(" ORDER BY doc LIMIT ").push_bind(limit))
            .await?;
        rows.iter().map(chunk).collect()
    }

    /// All chunks of these memories, in their order, with or without their vectors.
    pub async fn chunks_of(self, ids: &[String], vectors: bool) -> Result<Vec<ChunkTextRow>, StoreError> {
        let mut all = Vec::new();
        for batch in ids.chunks(BATCH) {
            let select = select_chunks(vectors)
                .push(" WHERE memory_id IN ")
                .push_list(batch.iter().map(Into::into));
            let rows = self
                .0
                .pool
                .rows(select.push(" ORDER BY memory_id, position"))
                .await?;
            all.extend(rows.iter().map(chunk).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// The ids of all memories.
    pub async fn ids(self) -> Result<Vec<String>, StoreError> {
        let rows = self
            .0
            .pool
            .rows(sql!("SELECT memory_id FROM memories ORDER BY memory_id"))
            .await?;
        first_column(&rows)
    }

    /// How far there is something to read.
    pub async fn state(self) -> Result<MemoryState, StoreError> {
        let rows = self
            .0
            .pool
            .rows(sql!("SELECT name, value FROM memory_counters"))
            .await?;
        let mut state = MemoryState::default();
        for row in &rows {
            match row.get::<String>(0)?.as_str() {
                "doc" => state.doc = row.get(1)?,
                "change" => state.change = row.get(1)?,
                "deleted" => state.deleted = row.get(1)?,
                _ => {}
            }
        }
        Ok(state)
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
        let quoted = |quote: &str, separator: &str| {
            let words: Vec<String> = words.iter().map(|word| format!("{quote}{word}{quote}")).collect();
            words.join(separator)
        };
        let select = if self.0.pool.is_postgres() {
            sql!(
                "SELECT memory_id, doc, ts_rank(to_tsvector('english', title || ' ' || body || ' ' || phrases),
                     to_tsquery('english', $1), 1)::float8 AS score FROM memory_chunks
                 WHERE to_tsvector('english', title || ' ' || body || ' ' || phrases) @@ to_tsquery('english', $1)
                 ORDER BY score DESC, doc LIMIT $2";
                quoted("'", " | "), limit
            )
        } else {
            sql!(
                "SELECT c.memory_id AS memory_id, c.doc AS doc, f.score AS score FROM
                     (SELECT rowid, -bm25(memory_fts) AS score FROM memory_fts WHERE memory_fts MATCH $1
                      ORDER BY bm25(memory_fts), rowid LIMIT $2) f
                 JOIN memory_chunks c ON c.doc = f.rowid ORDER BY f.score DESC, c.doc";
                quoted("\"", " OR "), limit
            )
        };
        let hit = |row: &Row| Ok(columns!(row => WordHit { memory_id, doc, score }));
        self.0.pool.rows(select).await?.iter().map(hit).collect()
    }

    /// The title and text of chunks.
    pub async fn chunk_texts(self, docs: &[i64]) -> Result<Vec<(i64, String, String)>, StoreError> {
        let mut all = Vec::with_capacity(docs.len());
        for batch in docs.chunks(BATCH) {
            let select = Sql::build("SELECT doc, title, body FROM memory_chunks WHERE doc IN ");
            for row in self
                .0
                .pool
                .rows(select.push_list(batch.iter().map(|doc| (*doc).into())))
                .await?
            {
                all.push((row.get(0)?, row.get(1)?, row.get(2)?));
            }
        }
        Ok(all)
    }

    /// How many pieces there are, and how many of them have a vector of this model.
    pub async fn count_chunks(self, embedder: &str) -> Result<(i64, i64), StoreError> {
        let select = sql!(
            "SELECT COUNT(*), COUNT(CASE WHEN embedder = $1 THEN 1 END) FROM memory_chunks";
            embedder
        );
        let row = self.0.pool.one(select).await?;
        Ok((row.get(0)?, row.get(1)?))
    }

    /// Links one memory to another; the same link twice is one. False when one of them is not there.
    pub async fn link(self, link: &LinkRow) -> Result<bool, StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            let select = sql!(
                "SELECT COUNT(*) FROM memories WHERE memory_id = $1 OR memory_id = $2";
                &link.from_id, &link.to_id
            );
            let there = connection.one(select).await?;
            let there = there.get::<i64>(0)? == 2;
            if there {
                let insert = sql!(
                    "INSERT INTO memory_links (from_id, to_id, kind, created_at) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (from_id, to_id, kind) DO NOTHING";
                    &link.from_id, &link.to_id, &link.kind, now
                );
                connection.execute(insert).await?;
            }
            there
        })
    }

    /// Takes a link away; says whether it was there.
    pub async fn unlink(self, link: &LinkRow) -> Result<bool, StoreError> {
        let delete = sql!(
            "DELETE FROM memory_links WHERE from_id = $1 AND to_id = $2 AND kind = $3";
            &link.from_id, &link.to_id, &link.kind
        );
        let gone = self.0.pool.execute(delete).await?;
        Ok(gone > 0)
    }

    /// All links that begin or end at these memories.
    pub async fn links(self, ids: &[String]) -> Result<Vec<LinkRow>, StoreError> {
        let mut rows = Vec::new();
        for batch in ids.chunks(BATCH) {
            let select = Sql::build("SELECT from_id, to_id, kind FROM memory_links WHERE from_id IN ")
                .push_list(batch.iter().map(Into::into))
                .push(" OR to_id IN ")
                .push_list(batch.iter().map(Into::into))
                .push(" ORDER BY from_id, to_id, kind");
            for row in self.0.pool.rows(select).await? {
                rows.push(columns!(row => LinkRow { from_id, to_id, kind }));
            }
        }
        rows.dedup();
        Ok(rows)
    }

    /// Keeps what was done with results.
    pub async fn put_feedback(self, rows: &[FeedbackRow]) -> Result<(), StoreError> {
        let rows: Vec<_> = rows.iter().map(feedback_values).collect();
        in_transaction!(&self.0.pool, |connection| insert_feedback(connection, &rows)
            .await?)
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
        let select = sql!(
            "SELECT feedback_id, event_type, session_id, query_id, memory_id, rank_in_results, metadata, created_at
             FROM eval_feedback WHERE session_id = $1 ORDER BY created_at DESC, feedback_id DESC LIMIT $2";
            session, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(feedback).collect()
    }
}

fn list(values: &[String]) -> String {
    Value::from(values.to_vec()).to_string()
}
