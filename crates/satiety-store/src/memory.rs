//! Memories: their content, searchable chunks, vectors, causal links, and feedback on results. Searching is
//! done elsewhere, on an index in memory that follows the log of changes.

use std::time::Duration;

use serde_json::Value;

use crate::pool::{Connection, in_transaction};
use crate::sql::{BATCH, Fault, Row, Sql, Value as Bound, columns, first_column, sql, values};
use crate::{Store, StoreError, now_micros};

/// A stored memory.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryRow {
    /// `mem-` and a time-ordered UUID.
    pub memory_id: String,
    pub title: String,
    pub content: String,
    pub tier: String,
    /// Trigger phrases set by the author.
    pub triggers: Vec<String>,
    /// Trigger phrases learned from selections.
    pub learnt: Vec<String>,
    /// Hierarchical path.
    pub folder: String,
    pub kind: String,
    /// Path of the source file, if any.
    pub origin: Option<String>,
    /// Hash of title and content.
    pub content_hash: String,
    /// Confidence from validations, 0 to 1.
    pub confidence: f64,
    /// Number of validations.
    pub validations: i64,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    pub updated_at: i64,
    pub expires_at: Option<i64>,
    /// Number of the last change; assigned by the store.
    pub change: i64,
    /// Id of its project; `None` for a global memory.
    pub project: Option<String>,
    /// Display name of the project.
    pub project_label: Option<String>,
    /// Author, tags and times besides those of the row.
    pub provenance: ProvenanceRow,
}

/// Author, tags and times of a memory. Times are in microseconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProvenanceRow {
    /// Person, agent or system that said or wrote it.
    pub author: Option<String>,
    pub tags: Vec<String>,
    /// Time when it was said or seen, if it is not that of recording.
    pub observed_at: Option<i64>,
    /// Bounds of its validity; the end is exclusive.
    pub valid_from: Option<i64>,
    pub valid_until: Option<i64>,
}

/// A searchable chunk of a memory.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkRow {
    /// Title of the memory and the headings above the chunk.
    pub title: String,
    pub body: String,
    /// Trigger phrases of the memory.
    pub phrases: String,
    /// Vector with the id of its model.
    pub vector: Option<(String, String)>,
}

/// A chunk for the in-memory index.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkTextRow {
    /// Id of the chunk.
    pub doc: i64,
    pub memory_id: String,
    /// Position among the memory's chunks, from 0.
    pub position: i64,
    /// Title of the memory and the headings above the chunk.
    pub title: String,
    pub body: String,
    /// Trigger phrases of the memory.
    pub phrases: String,
    /// Vector as text with the id of its model, if requested.
    pub vector: Option<(String, String)>,
}

/// Metadata of a memory for the in-memory index.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryHeaderRow {
    pub memory_id: String,
    pub title: String,
    pub tier: String,
    /// Trigger phrases, including learned ones.
    pub phrases: Vec<String>,
    /// Hierarchical path.
    pub folder: String,
    pub kind: String,
    /// Confidence from validations, 0 to 1.
    pub confidence: f64,
    pub expires_at: Option<i64>,
    /// Number of the last change.
    pub change: i64,
    /// Size of the content in bytes.
    pub bytes: i64,
    /// Id of its project; `None` for a global memory.
    pub project: Option<String>,
    /// Display name of the project.
    pub project_label: Option<String>,
    /// Time of recording in microseconds since the Unix epoch.
    pub created_at: i64,
    pub provenance: ProvenanceRow,
}

/// A causal link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRow {
    pub from_id: String,
    pub to_id: String,
    pub kind: String,
}

/// A feedback event on a result.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackRow {
    /// `fb-` and a time-ordered UUID.
    pub feedback_id: String,
    pub event_type: String,
    pub session_id: String,
    pub query_id: Option<String>,
    pub memory_id: Option<String>,
    /// Rank among the results, from 1; `None` if it is not from a search.
    pub rank_in_results: Option<i64>,
    pub metadata: Value,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
}

/// Counters that tell a reader what has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// Id of the last chunk.
    pub doc: i64,
    /// Number of the last change. Writers hold the counter until they commit, so that changes become visible
    /// in the order of their numbers, on both engines.
    pub change: i64,
}

/// What happened to a memory other than a new version of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAction {
    Deleted,
    /// Some of its chunks got vectors.
    Embedded,
}

/// A change that the row of a memory does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRow {
    /// Number of the change.
    pub change: i64,
    pub memory_id: String,
    pub action: ChangeAction,
}

/// A vector for an existing chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorRow {
    /// Id of the chunk.
    pub doc: i64,
    pub memory_id: String,
    /// Vector as text.
    pub vector: String,
}

/// Rows of the log of changes that are kept; a reader that is further behind reads everything again.
const KEPT_CHANGES: i64 = 200_000;
/// Interval of changes between two removals of old rows of the log.
const PRUNE_INTERVAL: i64 = 4096;
/// Memories per statement; a row has about twenty values.
const MEMORY_BATCH: usize = 200;

const COLUMNS: &str = "memory_id, title, content, tier, triggers, learnt, folder, kind, origin, content_hash, confidence, \
     validations, created_at, updated_at, expires_at, change, project, project_label, author, tags, observed_at, valid_from, \
     valid_until";

/// Increments a counter and returns its new value, in the transaction of the change.
async fn count(connection: &mut Connection, name: &str, by: i64) -> Result<i64, Fault> {
    let insert = sql!(
        "INSERT INTO memory_counters (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = memory_counters.value + excluded.value RETURNING value";
        name, by
    );
    let row = connection.one(insert).await?;
    Ok(row.get(0)?)
}

/// Takes `by` change numbers and returns the last one. Every transaction that changes memories calls this or
/// [`log_changes`], so that an index can be checked against the history.
async fn count_changes(connection: &mut Connection, by: i64) -> Result<i64, Fault> {
    let last = count(connection, "change", by).await?;
    let insert = sql!("INSERT INTO memory_changes (change, token) VALUES ($1, $2)"; last, random_token());
    connection.execute(insert).await?;
    prune_changes(connection, last, by).await?;
    Ok(last)
}

/// Adds a change of this kind for each memory.
async fn log_changes(connection: &mut Connection, ids: &[&str], action: &str) -> Result<(), Fault> {
    let by = i64::try_from(ids.len()).unwrap_or(i64::MAX);
    let last = count(connection, "change", by).await?;
    let rows: Vec<_> = (last - by + 1..)
        .zip(ids)
        .map(|(change, id)| values! { change, random_token(), *id, action })
        .collect();
    let head = "INSERT INTO memory_changes (change, token, memory_id, action) ";
    connection.insert(head, &rows, "").await?;
    prune_changes(connection, last, by).await
}

async fn prune_changes(connection: &mut Connection, last: i64, by: i64) -> Result<(), Fault> {
    if last / PRUNE_INTERVAL > (last - by) / PRUNE_INTERVAL {
        let delete = sql!("DELETE FROM memory_changes WHERE change <= $1"; last - KEPT_CHANGES);
        connection.execute(delete).await?;
    }
    Ok(())
}

/// Random number that identifies a change among all histories.
fn random_token() -> i64 {
    let (high, low) = uuid::Uuid::now_v7().as_u64_pair();
    (high.rotate_left(16) ^ low).cast_signed()
}

/// Inserts events; an existing id is the same event.
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

/// Values of one event for [`insert_feedback`].
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
        memory_id: id, triggers, learnt, provenance: provenance(row)?
    }))
}

fn provenance(row: &Row) -> Result<ProvenanceRow, StoreError> {
    let tags = row.optional_json("tags", format_args!("the tags of a memory"))?;
    let tags = tags.as_ref().and_then(Value::as_array).into_iter().flatten();
    let tags = tags.filter_map(|tag| tag.as_str().map(str::to_owned)).collect();
    Ok(columns!(row => ProvenanceRow { author, observed_at, valid_from, valid_until; tags: tags }))
}

fn header(row: &Row) -> Result<MemoryHeaderRow, StoreError> {
    let id: String = row.get("memory_id")?;
    let mut phrases = row.list("triggers", format_args!("memory {id}"))?;
    phrases.extend(row.list("learnt", format_args!("memory {id}"))?);
    Ok(columns!(row => MemoryHeaderRow {
        title, tier, folder, kind, confidence, expires_at, change, bytes, project, project_label, created_at;
        memory_id: id, phrases, provenance: provenance(row)?
    }))
}

/// Memories with their chunks, links and feedback: [`Store::memories`].
#[derive(Debug, Clone, Copy)]
pub struct Memories<'s>(pub(crate) &'s Store);

impl Memories<'_> {
    /// Stores a memory, replacing one with the same id. `Some` chunks replace the existing ones; `None` keeps
    /// them.
    pub async fn put(self, row: &MemoryRow, chunks: Option<&[ChunkRow]>) -> Result<(), StoreError> {
        self.put_all(&[(row.clone(), chunks.map(<[ChunkRow]>::to_vec))])
            .await
    }

    /// Stores memories atomically, in few statements.
    pub async fn put_all(self, rows: &[(MemoryRow, Option<Vec<ChunkRow>>)]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        in_transaction!(&self.0.pool, |connection| {
            let all = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            let first = count_changes(connection, all).await? - all + 1;
            for (batch, offset) in distinct_batches(rows) {
                let values: Vec<_> = (first + offset..)
                    .zip(batch)
                    .map(|(change, (row, _))| memory_values(row, change))
                    .collect();
                let insert = Sql::build(&format!("INSERT INTO memories ({COLUMNS}) "))
                    .push_values(values)
                    .push(UPDATE_ON_CONFLICT);
                connection.execute(insert).await?;
                put_chunks(connection, batch).await?;
            }
        })
    }

    /// Deletes memories with their chunks and links; returns how many existed.
    pub async fn remove(self, ids: &[String]) -> Result<u64, StoreError> {
        if ids.is_empty() {
            return Ok(0);
        }
        in_transaction!(&self.0.pool, |connection| {
            // The counter comes first in every transaction, or two of them could wait for each other.
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            log_changes(connection, &ids, "deleted").await?;
            let mut removed = 0;
            for batch in ids.chunks(BATCH) {
                let delete = Sql::build("DELETE FROM memories WHERE memory_id IN ")
                    .push_list(batch.iter().map(|id| (*id).into()));
                removed += connection.execute(delete).await?;
            }
            removed
        })
    }

    /// Returns ids of expired memories.
    ///
    /// Ordered by expiry, so that the index on it is used: ordered by id, `SQLite` scans all memories.
    pub async fn expired(self, now: i64) -> Result<Vec<String>, StoreError> {
        let select = sql!(
            "SELECT memory_id FROM memories WHERE expires_at <= $1 ORDER BY expires_at LIMIT 10000";
            now
        );
        let rows = self.0.pool.rows(select).await?;
        first_column(&rows)
    }

    /// Returns memories by id, ordered by id.
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

    /// Returns memories with this hash of title and content, oldest first.
    pub async fn by_hash(self, hash: &str, limit: u32) -> Result<Vec<MemoryRow>, StoreError> {
        let select = format!(
            "SELECT {COLUMNS} FROM memories WHERE content_hash = $1 ORDER BY created_at, memory_id LIMIT $2"
        );
        let rows = self.0.pool.rows(sql!(select; hash, limit)).await?;
        rows.iter().map(memory).collect()
    }

    /// Returns the memory of a source file.
    pub async fn by_origin(self, origin: &str) -> Result<Option<MemoryRow>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM memories WHERE origin = $1");
        let rows = self.0.pool.rows(sql!(select; origin)).await?;
        rows.last().map(memory).transpose()
    }

    /// Returns the memories of these source files or imported records, in any order.
    pub async fn by_origins(self, origins: &[&str]) -> Result<Vec<MemoryRow>, StoreError> {
        let mut all = Vec::new();
        for batch in origins.chunks(BATCH) {
            let select = Sql::build(&format!("SELECT {COLUMNS} FROM memories WHERE origin IN "))
                .push_list(batch.iter().map(|origin| (*origin).into()));
            let rows = self.0.pool.rows(select).await?;
            all.extend(rows.iter().map(memory).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// Returns ids and source files of the memories whose source file has this prefix.
    pub async fn origins(self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        let end = format!("{prefix}\u{10FFFF}");
        let select = sql!(
            "SELECT memory_id, origin FROM memories WHERE origin >= $1 AND origin < $2 ORDER BY origin";
            prefix, &end
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns true if every chunk of a memory has a vector of this model; always true for an empty name.
    pub async fn is_embedded(self, id: &str, embedder: &str) -> Result<bool, StoreError> {
        let select = sql!(
            "SELECT COUNT(*) FROM memory_chunks WHERE memory_id = $1 AND (embedder IS NULL OR embedder <> $2)";
            id, embedder
        );
        let missing = self.0.pool.one(select).await?;
        Ok(embedder.is_empty() || missing.get::<i64>(0)? == 0)
    }

    /// Returns memories that changed after a number, oldest change first, one page at a time.
    pub async fn after(self, change: i64, limit: u32) -> Result<Vec<MemoryRow>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM memories WHERE change > $1 ORDER BY change LIMIT $2");
        let rows = self.0.pool.rows(sql!(select; change, limit)).await?;
        rows.iter().map(memory).collect()
    }

    /// Returns metadata of memories that changed after a number, oldest change first, one page at a time.
    pub async fn headers_after(self, change: i64, limit: u32) -> Result<Vec<MemoryHeaderRow>, StoreError> {
        let select = sql!(
            "SELECT memory_id, title, tier, triggers, learnt, folder, kind, confidence, expires_at, change,
                 CAST(octet_length(content) AS BIGINT) AS bytes, project, project_label, created_at, author, tags,
                 observed_at, valid_from, valid_until
             FROM memories WHERE change > $1 ORDER BY change LIMIT $2";
            change, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(header).collect()
    }

    /// Returns chunks after an id, one page at a time, with or without their vectors.
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

    /// Returns all chunks of these memories in order, with or without their vectors.
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

    /// Returns the ids of all memories.
    pub async fn ids(self) -> Result<Vec<String>, StoreError> {
        let rows = self
            .0
            .pool
            .rows(sql!("SELECT memory_id FROM memories ORDER BY memory_id"))
            .await?;
        first_column(&rows)
    }

    /// Returns the number of memories.
    pub async fn count(self) -> Result<i64, StoreError> {
        self.0
            .pool
            .one(sql!("SELECT COUNT(*) FROM memories"))
            .await?
            .get(0)
    }

    /// Returns the current counters.
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
                _ => {}
            }
        }
        Ok(state)
    }

    /// Returns deletions and new vectors after a number, oldest first, one page at a time. `None` if the log
    /// no longer reaches back to this number: read everything again.
    pub async fn changes_after(self, change: i64, limit: u32) -> Result<Option<Vec<ChangeRow>>, StoreError> {
        // A row at or before the number shows that no later one was removed.
        let oldest = self
            .0
            .pool
            .one(sql!("SELECT MIN(change) FROM memory_changes"))
            .await?;
        if oldest
            .get::<Option<i64>>(0)?
            .is_some_and(|oldest| oldest > change && change > 0)
        {
            return Ok(None);
        }
        let select = sql!(
            "SELECT change, memory_id, action FROM memory_changes WHERE change > $1 AND action IS NOT NULL
             ORDER BY change LIMIT $2";
            change, limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            let action: String = row.get("action")?;
            Ok(columns!(row => ChangeRow {
                change, memory_id;
                action: if action == "deleted" { ChangeAction::Deleted } else { ChangeAction::Embedded }
            }))
        };
        rows.iter().map(row).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// Returns number and token of the latest logged change up to a number: they identify the history.
    pub async fn history_mark(self, change: i64) -> Result<Option<(i64, i64)>, StoreError> {
        let select = sql!(
            "SELECT change, token FROM memory_changes WHERE change <= $1 ORDER BY change DESC LIMIT 1";
            change
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
    }

    /// Returns true if some chunk has no vector; answered from an index of such chunks.
    pub async fn has_chunk_without_vector(self) -> Result<bool, StoreError> {
        let select = sql!("SELECT doc FROM memory_chunks WHERE embedder IS NULL ORDER BY doc LIMIT 1");
        Ok(self.0.pool.row(select).await?.is_some())
    }

    /// Claims chunks for embedding: of those that have no vector of this model and no valid claim of another process.
    /// Returns the claimed ones. A claim that is not released expires after `lease`.
    pub async fn claim_chunks(
        self,
        docs: &[i64],
        embedder: &str,
        holder: &str,
        lease: Duration,
    ) -> Result<Vec<i64>, StoreError> {
        if docs.is_empty() {
            return Ok(Vec::new());
        }
        let clock = self.0.pool.clock();
        let lease = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX / 4);
        in_transaction!(&self.0.pool, |connection| {
            let mut claimed = Vec::with_capacity(docs.len());
            for batch in docs.chunks(BATCH) {
                let insert = Sql::build(
                    "INSERT INTO embedding_claims (doc, embedder, holder, claimed_until) SELECT doc, ",
                )
                .push_bind(embedder)
                .push(", ")
                .push_bind(holder)
                .push(&format!(", {clock} + "))
                .push_bind(lease)
                .push(" FROM memory_chunks WHERE (embedder IS NULL OR embedder <> ")
                .push_bind(embedder)
                .push(") AND doc IN ")
                .push_list(batch.iter().map(|doc| (*doc).into()))
                .push(&format!(
                    " ON CONFLICT (doc, embedder) DO UPDATE
                         SET holder = excluded.holder, claimed_until = excluded.claimed_until
                         WHERE embedding_claims.claimed_until < {clock} RETURNING doc"
                ));
                claimed.extend(first_column::<i64>(&connection.rows(insert).await?)?);
            }
            claimed
        })
    }

    /// Releases claims of a process, after their chunks have a vector or could not be embedded.
    pub async fn release_chunks(self, docs: &[i64], embedder: &str, holder: &str) -> Result<(), StoreError> {
        for batch in docs.chunks(BATCH) {
            let delete = Sql::build("DELETE FROM embedding_claims WHERE embedder = ")
                .push_bind(embedder)
                .push(" AND holder = ")
                .push_bind(holder)
                .push(" AND doc IN ")
                .push_list(batch.iter().map(|doc| (*doc).into()));
            self.0.pool.execute(delete).await?;
        }
        Ok(())
    }

    /// Adds vectors of this model to existing chunks; a chunk that is gone is skipped.
    pub async fn put_vectors(self, embedder: &str, rows: &[VectorRow]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut ids: Vec<&str> = rows.iter().map(|row| row.memory_id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        in_transaction!(&self.0.pool, |connection| {
            log_changes(connection, &ids, "embedded").await?;
            for batch in rows.chunks(BATCH) {
                let values = batch
                    .iter()
                    .map(|row| values! { row.doc, &row.vector })
                    .collect::<Vec<_>>();
                let update = Sql::build("UPDATE memory_chunks SET embedder = ")
                    .push_bind(embedder)
                    .push(", vector = v.column2 FROM (")
                    .push_values(values)
                    .push(") AS v WHERE memory_chunks.doc = v.column1");
                connection.execute(update).await?;
            }
        })
    }

    /// Returns title and text of chunks.
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

    /// Returns the number of chunks, and how many of them have a vector of this model.
    pub async fn count_chunks(self, embedder: &str) -> Result<(i64, i64), StoreError> {
        let select = sql!(
            "SELECT COUNT(*), COUNT(CASE WHEN embedder = $1 THEN 1 END) FROM memory_chunks";
            embedder
        );
        let row = self.0.pool.one(select).await?;
        Ok((row.get(0)?, row.get(1)?))
    }

    /// Links one memory to another, idempotently; returns false if either does not exist.
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

    /// Removes a link; returns whether it existed.
    pub async fn unlink(self, link: &LinkRow) -> Result<bool, StoreError> {
        let delete = sql!(
            "DELETE FROM memory_links WHERE from_id = $1 AND to_id = $2 AND kind = $3";
            &link.from_id, &link.to_id, &link.kind
        );
        let gone = self.0.pool.execute(delete).await?;
        Ok(gone > 0)
    }

    /// Returns all links from or to these memories.
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

    /// Returns links after one, ordered by source, target and kind, one page at a time.
    pub async fn links_after(self, after: Option<&LinkRow>, limit: u32) -> Result<Vec<LinkRow>, StoreError> {
        let (from, to, kind) = after.map_or(("", "", ""), |link| (&link.from_id, &link.to_id, &link.kind));
        let select = sql!(
            "SELECT from_id, to_id, kind FROM memory_links
             WHERE from_id > $1 OR (from_id = $1 AND (to_id > $2 OR (to_id = $2 AND kind > $3)))
             ORDER BY from_id, to_id, kind LIMIT $4";
            from, to, kind, limit
        );
        let rows = self.0.pool.rows(select).await?;
        let link = |row: &Row| Ok(columns!(row => LinkRow { from_id, to_id, kind }));
        rows.iter().map(link).collect()
    }

    /// Stores feedback events.
    pub async fn put_feedback(self, rows: &[FeedbackRow]) -> Result<(), StoreError> {
        let rows: Vec<_> = rows.iter().map(feedback_values).collect();
        in_transaction!(&self.0.pool, |connection| insert_feedback(connection, &rows)
            .await?)
    }

    /// Returns the feedback of a session, newest first, including events that are not yet written.
    pub async fn feedback_of_session(
        self,
        session: &str,
        limit: u32,
    ) -> Result<Vec<FeedbackRow>, StoreError> {
        let waiting = self.0.query_log().waiting_queries(session);
        let mut rows = self.written_feedback(session, limit).await?;
        for event in waiting.iter().flat_map(|query| &query.events) {
            // It may have been written since the buffer was read.
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

/// What an insert does with a memory that exists: everything but its id and the time of its creation changes.
const UPDATE_ON_CONFLICT: &str = " ON CONFLICT (memory_id) DO UPDATE SET title = excluded.title,
     content = excluded.content, tier = excluded.tier, triggers = excluded.triggers, learnt = excluded.learnt,
     folder = excluded.folder, kind = excluded.kind, origin = excluded.origin,
     content_hash = excluded.content_hash, confidence = excluded.confidence,
     validations = excluded.validations, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
     change = excluded.change, project = excluded.project, project_label = excluded.project_label,
     author = excluded.author, tags = excluded.tags, observed_at = excluded.observed_at,
     valid_from = excluded.valid_from, valid_until = excluded.valid_until";

/// Values of [`COLUMNS`] for a memory.
fn memory_values(row: &MemoryRow, change: i64) -> Vec<Bound<'_>> {
    values! {
        &row.memory_id, &row.title, &row.content, &row.tier, list(&row.triggers), list(&row.learnt),
        &row.folder, &row.kind, row.origin.as_deref(), &row.content_hash, row.confidence, row.validations,
        row.created_at, row.updated_at, row.expires_at, change, row.project.as_deref(),
        row.project_label.as_deref(), row.provenance.author.as_deref(), list(&row.provenance.tags),
        row.provenance.observed_at, row.provenance.valid_from, row.provenance.valid_until
    }
}

type RowWithChunks = (MemoryRow, Option<Vec<ChunkRow>>);

/// Splits rows into batches of distinct memories, each with the number of rows before it: a statement cannot
/// change a row twice.
fn distinct_batches(rows: &[RowWithChunks]) -> Vec<(&[RowWithChunks], i64)> {
    let mut batches = Vec::new();
    let (mut start, mut seen) = (0, std::collections::HashSet::new());
    for (at, (row, _)) in rows.iter().enumerate() {
        if at - start == MEMORY_BATCH || !seen.insert(row.memory_id.as_str()) {
            batches.push((start, at));
            start = at;
            seen.clear();
            seen.insert(row.memory_id.as_str());
        }
    }
    batches.push((start, rows.len()));
    let batch = |(from, to): (usize, usize)| (&rows[from..to], i64::try_from(from).unwrap_or(i64::MAX));
    batches.into_iter().map(batch).collect()
}

/// Replaces the chunks of memories that have new ones. Readers follow the change of a memory and reload its
/// chunks.
async fn put_chunks(connection: &mut Connection, batch: &[RowWithChunks]) -> Result<(), Fault> {
    let replaced: Vec<(&str, &[ChunkRow])> = batch
        .iter()
        .filter_map(|(row, chunks)| Some((row.memory_id.as_str(), chunks.as_deref()?)))
        .collect();
    if replaced.is_empty() {
        return Ok(());
    }
    let delete = Sql::build("DELETE FROM memory_chunks WHERE memory_id IN ")
        .push_list(replaced.iter().map(|(id, _)| (*id).into()));
    connection.execute(delete).await?;
    let all: usize = replaced.iter().map(|(_, chunks)| chunks.len()).sum();
    if all == 0 {
        return Ok(());
    }
    let all = i64::try_from(all).unwrap_or(i64::MAX);
    let first = count(connection, "doc", all).await? - all + 1;
    let chunks = replaced.iter().flat_map(|(id, chunks)| {
        (0_i64..)
            .zip(*chunks)
            .map(move |(position, chunk)| (*id, position, chunk))
    });
    let rows: Vec<_> = (first..)
        .zip(chunks)
        .map(|(doc, (id, position, chunk))| {
            let (embedder, vector) = chunk
                .vector
                .as_ref()
                .map(|(embedder, vector)| (embedder.as_str(), vector.as_str()))
                .unzip();
            values! {
                doc, id, position, &chunk.title, &chunk.body, &chunk.phrases, embedder, vector
            }
        })
        .collect();
    let head =
        "INSERT INTO memory_chunks (doc, memory_id, position, title, body, phrases, embedder, vector) ";
    connection.insert(head, &rows, "").await
}

fn list(values: &[String]) -> String {
    Value::from(values.to_vec()).to_string()
}
