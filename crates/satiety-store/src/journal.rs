//! The journal: what happened, in order, never changed.

use serde_json::Value;
use uuid::Uuid;

use crate::pool::{Pool, in_transaction};
use crate::sql::{Row, columns, sql, values};
use crate::{Store, StoreError, now_micros};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// `evt-` and a time-ordered UUID.
    pub id: String,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// What kind of thing, `capability.what`: `dialogue.verdict`, `store.retained`.
    pub kind: String,
    /// What it is about: the id of a conversation, a run, a rule.
    pub subject: String,
    /// The rest.
    pub body: Value,
}

impl Event {
    /// An event that happens now.
    pub fn now(kind: impl Into<String>, subject: impl Into<String>, body: Value) -> Self {
        Self {
            id: satiety::ids::prefixed("evt", Uuid::now_v7()),
            at: now_micros(),
            kind: kind.into(),
            subject: subject.into(),
            body,
        }
    }
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only those about this subject.
    pub subject: Option<String>,
    /// Only those after this id: the last one of the page before.
    pub after: Option<String>,
    /// At most this many; 0 means 100.
    pub limit: i64,
}

/// The append-only journal: [`Store::journal`].
#[derive(Debug, Clone, Copy)]
pub struct Journal<'s>(pub(crate) &'s Store);

impl Journal<'_> {
    /// Appends one event; when this returns `Ok`, it is durable.
    pub async fn append(self, event: Event) -> Result<(), StoreError> {
        self.append_all(vec![event]).await
    }

    /// Appends events, all of them or none.
    pub async fn append_all(self, events: Vec<Event>) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        self.0.journal.append(&self.0.pool, events).await
    }

    /// Reads events, oldest first, a page at a time.
    pub async fn events(self, query: &Query) -> Result<Vec<Event>, StoreError> {
        let limit = if query.limit <= 0 { 100 } else { query.limit };
        let after = query.after.as_deref().unwrap_or("");
        let select = match &query.subject {
            Some(subject) => sql!(
                "SELECT id, at, kind, subject, body FROM journal WHERE subject = $1 AND id > $2 ORDER BY id LIMIT $3";
                subject, after, limit
            ),
            None => sql!(
                "SELECT id, at, kind, subject, body FROM journal WHERE id > $1 ORDER BY id LIMIT $2";
                after, limit
            ),
        };
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(event).collect()
    }

    /// The latest events of a kind, newest first.
    pub async fn latest(self, kind: &str, limit: i64) -> Result<Vec<Event>, StoreError> {
        let select = sql!(
            "SELECT id, at, kind, subject, body FROM journal WHERE kind = $1 ORDER BY id DESC LIMIT $2";
            kind, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(event).collect()
    }

    /// How many events there are.
    pub async fn count(self) -> Result<i64, StoreError> {
        let row = self.0.pool.one(sql!("SELECT COUNT(*) FROM journal")).await?;
        row.get(0)
    }
}

fn event(row: &Row) -> Result<Event, StoreError> {
    let id: String = row.get("id")?;
    let body = row.json("body", format_args!("event {id}"))?;
    Ok(columns!(row => Event { at, kind, subject; id, body }))
}

/// Inserts events in one transaction. An id that is already there is skipped: it is the same event, sent again after
/// a connection was lost in mid-commit.
pub(crate) async fn insert_events(pool: &Pool, events: &[Event]) -> Result<(), StoreError> {
    let rows: Vec<_> = events
        .iter()
        .map(|event| values! { &event.id, event.at, &event.kind, &event.subject, event.body.to_string() })
        .collect();
    in_transaction!(pool, |connection| {
        let head = "INSERT INTO journal (id, at, kind, subject, body) ";
        connection
            .insert(head, &rows, " ON CONFLICT (id) DO NOTHING")
            .await?;
    })
}
