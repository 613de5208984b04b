//! The journal: an append-only log of events.

use serde_json::Value;
use uuid::Uuid;

use crate::pool::{Pool, in_transaction};
use crate::sql::{Row, columns, sql, values};
use crate::{Store, StoreError, now_micros};

/// An event of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// `evt-` and a time-ordered UUID.
    pub id: String,
    /// Time in microseconds since the Unix epoch.
    pub at: i64,
    /// Event type, `capability.event`: `dialogue.verdict`, `store.retained`.
    pub kind: String,
    /// Id of the subject: a conversation, a run, a rule.
    pub subject: String,
    pub body: Value,
}

impl Event {
    /// Creates an event with the current time.
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

/// The append-only journal: [`Store::journal`].
#[derive(Debug, Clone, Copy)]
pub struct Journal<'s>(pub(crate) &'s Store);

impl Journal<'_> {
    /// Appends one event; it is durable when this returns `Ok`.
    pub async fn append(self, event: Event) -> Result<(), StoreError> {
        self.append_all(vec![event]).await
    }

    /// Appends events atomically.
    pub async fn append_all(self, events: Vec<Event>) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        self.0.journal.append(&self.0.pool, events).await
    }

    /// Returns the latest events of a kind, newest first.
    pub async fn latest(self, kind: &str, limit: i64) -> Result<Vec<Event>, StoreError> {
        let select = sql!(
            "SELECT id, at, kind, subject, body FROM journal WHERE kind = $1 ORDER BY at DESC, id DESC LIMIT $2";
            kind, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(event).collect()
    }
}

fn event(row: &Row) -> Result<Event, StoreError> {
    let id: String = row.get("id")?;
    let body = row.json("body", format_args!("event {id}"))?;
    Ok(columns!(row => Event { at, kind, subject; id, body }))
}

/// Inserts events in one transaction. Skips existing ids: they were sent again after a connection was lost
/// during a commit.
pub(crate) async fn insert_events(pool: &Pool, events: &[Event]) -> Result<(), StoreError> {
    let rows: Vec<_> = events
        .iter()
        .map(|event| values! { &event.id, event.at, &event.kind, &event.subject, event.body.to_string() })
        .collect();
    let mut attempts = 0;
    in_transaction!(pool, |connection| {
        attempts += 1;
        let columns = "id, at, kind, subject, body";
        connection.append("journal", columns, &rows, attempts).await?;
    })
}
