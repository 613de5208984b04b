//! The journal: what happened, in order, never changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::pool::{Pool, in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        let rows: Vec<(String, i64, String, String, String)> = match &query.subject {
            Some(subject) => reading!(&self.0.pool, |connection| {
                sqlx::query_as(
                "SELECT id, at, kind, subject, body FROM journal WHERE subject = $1 AND id > $2 ORDER BY id LIMIT $3"
            )
            .bind(storable(subject))
            .bind(storable(after))
            .bind(limit)
            .fetch_all(connection)
            .await?
            })?,
            None => reading!(&self.0.pool, |connection| sqlx::query_as(
                "SELECT id, at, kind, subject, body FROM journal WHERE id > $1 ORDER BY id LIMIT $2"
            )
            .bind(storable(after))
            .bind(limit)
            .fetch_all(connection)
            .await?)?,
        };
        rows.into_iter().map(|row| self.event(row)).collect()
    }

    /// The latest events of a kind, newest first.
    pub async fn latest(self, kind: &str, limit: i64) -> Result<Vec<Event>, StoreError> {
        let rows: Vec<(String, i64, String, String, String)> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
                "SELECT id, at, kind, subject, body FROM journal WHERE kind = $1 ORDER BY id DESC LIMIT $2",
            )
            .bind(storable(kind))
            .bind(limit)
            .fetch_all(connection)
            .await?
        })?;
        rows.into_iter().map(|row| self.event(row)).collect()
    }

    fn event(self, row: (String, i64, String, String, String)) -> Result<Event, StoreError> {
        let (id, at, kind, subject, body) = row;
        let body = self.0.parse_json(&body, || format!("event {id}"))?;
        Ok(Event {
            id,
            at,
            kind,
            subject,
            body,
        })
    }

    /// How many events there are.
    pub async fn count(self) -> Result<i64, StoreError> {
        let (count,): (i64,) = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT COUNT(*) FROM journal"
        )
        .fetch_one(connection)
        .await?)?;
        Ok(count)
    }
}

/// Rows in one statement: the engines' limits on bound values are 32,766 and 65,535.
const ROWS_PER_STATEMENT: usize = 500;

/// Inserts events in one transaction. An id that is already there is skipped: it is the same event, sent again after
/// a connection was lost in mid-commit.
pub(crate) async fn insert_events(pool: &Pool, events: &[Event]) -> Result<(), StoreError> {
    let bodies: Vec<String> = events.iter().map(|event| event.body.to_string()).collect();
    in_transaction!(pool, |connection| {
        for (events, bodies) in events
            .chunks(ROWS_PER_STATEMENT)
            .zip(bodies.chunks(ROWS_PER_STATEMENT))
        {
            let mut insert = QueryBuilder::new("INSERT INTO journal (id, at, kind, subject, body) ");
            insert.push_values(events.iter().zip(bodies), |mut row, (event, body)| {
                row.push_bind(storable(&event.id))
                    .push_bind(event.at)
                    .push_bind(storable(&event.kind))
                    .push_bind(storable(&event.subject))
                    .push_bind(body);
            });
            insert.push(" ON CONFLICT (id) DO NOTHING");
            insert.build().execute(&mut *connection).await?;
        }
    })
}
