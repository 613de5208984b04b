//! Scored conversations with their rounds and verdicts.

use serde_json::Value;

use crate::pool::in_transaction;
use crate::sql::{Row, Value as Bound, columns, first_column, sql, values};
use crate::{Store, StoreError, now_micros};

/// A scored conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationRow {
    /// Id from the transcript, or a generated one.
    pub id: String,
    pub topic: String,
    pub profile: String,
    /// Sentence model, if one was used.
    pub embedder: Option<String>,
    /// Signal after the last round.
    pub signal: String,
    /// Score after the last round.
    pub score: Option<f64>,
    /// Full report.
    pub report: Value,
}

/// A round of a conversation and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundRow {
    /// Position in the conversation, from 1.
    pub position: i64,
    pub agent: Option<String>,
    pub signal: String,
    /// Novelty rate of the round, 0 to 1.
    pub novelty: Option<f64>,
    /// Action readiness after the round, 0 to 1.
    pub readiness: Option<f64>,
    /// The round as it was submitted.
    pub body: Value,
}

/// Summary of a conversation in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationSummaryRow {
    pub id: String,
    pub topic: String,
    pub profile: String,
    /// Signal after the last round.
    pub signal: String,
    /// Score after the last round.
    pub score: Option<f64>,
    pub rounds: i64,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the last write, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

/// Scored conversations: [`Store::conversations`].
#[derive(Debug, Clone, Copy)]
pub struct Conversations<'s>(pub(crate) &'s Store);

impl Conversations<'_> {
    /// Appends rounds after the `expected` existing ones and updates the conversation; returns the time of
    /// the change. Returns `None` and changes nothing if another process has appended rounds meanwhile.
    pub async fn extend(
        self,
        conversation: &ConversationRow,
        expected: i64,
        rounds: &[RoundRow],
    ) -> Result<Option<i64>, StoreError> {
        let now = now_micros();
        let report = conversation.report.to_string();
        let bodies: Vec<String> = rounds.iter().map(|round| round.body.to_string()).collect();
        let behind = expected + i64::try_from(rounds.len()).unwrap_or(i64::MAX);
        let mut attempts = 0;
        in_transaction!(&self.0.pool, |connection| {
            attempts += 1;
            // The conversation's row is the lock: the second writer sees the rounds of the first.
            let update = sql!(
                "UPDATE conversations SET embedder = $2, signal = $3, score = $4, report = $5, updated_at = $6
                 WHERE id = $1 RETURNING partition_at";
                &conversation.id, conversation.embedder.as_deref(), &conversation.signal, conversation.score,
                &report, now
            );
            let Some(changed) = connection.row(update).await? else {
                return Ok(None);
            };
            let place: i64 = changed.get(0)?;
            let select = sql!(
                "SELECT COUNT(*) FROM rounds WHERE conversation_id = $1 AND partition_at = $2";
                &conversation.id, place
            );
            let there = connection.one(select).await?;
            let there: i64 = there.get(0)?;
            // After a connection loss during the commit, our own rounds may already be there.
            let done = attempts > 1
                && !rounds.is_empty()
                && there == behind
                && {
                    let select = sql!(
                        "SELECT body FROM rounds WHERE conversation_id = $1 AND position > $2 AND partition_at = $3
                         ORDER BY position";
                        &conversation.id, expected, place
                    );
                    let stored = connection.rows(select).await?;
                    first_column::<String>(&stored)? == bodies
                };
            if there != expected && !done {
                // Dropping the transaction rolls the update back.
                return Ok(None);
            }
            if !done && !rounds.is_empty() {
                let rows = round_values(&conversation.id, place, rounds, &bodies);
                connection.insert(INSERT_ROUNDS, &rows, "").await?;
            }
            Some(now)
        })
    }

    /// Inserts a conversation without rounds; returns false if its id is taken.
    pub async fn begin(self, conversation: &ConversationRow) -> Result<bool, StoreError> {
        let now = now_micros();
        let report = conversation.report.to_string();
        let insert = sql!(
            "INSERT INTO conversations (id, topic, profile, embedder, signal, score, report, created_at, updated_at,
                 partition_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8) ON CONFLICT (id) DO NOTHING";
            &conversation.id, &conversation.topic, &conversation.profile, conversation.embedder.as_deref(),
            &conversation.signal, conversation.score, &report, now
        );
        let written = self.0.pool.execute(insert).await?;
        Ok(written == 1)
    }

    /// Returns the time of the last write and the number of rounds.
    pub async fn state(self, id: &str) -> Result<Option<(i64, i64)>, StoreError> {
        let select = sql!(
            "SELECT updated_at, (SELECT COUNT(*) FROM rounds r WHERE r.conversation_id = conversations.id
                 AND r.partition_at = conversations.partition_at)
             FROM conversations WHERE id = $1";
            id
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
    }

    /// Returns the rounds of a conversation after the first `after`, in order.
    pub async fn rounds_after(self, id: &str, after: i64, limit: i64) -> Result<Vec<RoundRow>, StoreError> {
        let select = sql!(
            "SELECT position, agent, signal, novelty, readiness, body FROM rounds
             WHERE conversation_id = $1 AND position > $2
             AND partition_at = (SELECT partition_at FROM conversations WHERE id = $1)
             ORDER BY position LIMIT $3";
            id, after, limit
        );
        let rounds = self.0.pool.rows(select).await?;
        rounds.iter().map(|row| round(id, row)).collect()
    }

    /// Lists conversations, most recent first, after the given cursor (time of the last write, id).
    pub async fn list_before(
        self,
        before: Option<(i64, &str)>,
        limit: i64,
    ) -> Result<Vec<ConversationSummaryRow>, StoreError> {
        let (at, id) = before.unwrap_or((i64::MAX, "\u{10FFFF}"));
        let select = sql!(
            "SELECT id, topic, profile, signal, score,
                    (SELECT COUNT(*) FROM rounds r WHERE r.conversation_id = conversations.id
                     AND r.partition_at = conversations.partition_at) AS rounds, created_at, updated_at
             FROM conversations WHERE updated_at < $1 OR (updated_at = $1 AND id < $2)
             ORDER BY updated_at DESC, id DESC LIMIT $3";
            at, id, limit
        );
        let rows = self.0.pool.rows(select).await?;
        let summary = |row: &Row| {
            Ok(columns!(row => ConversationSummaryRow {
                id, topic, profile, signal, score, rounds, created_at, updated_at
            }))
        };
        rows.iter().map(summary).collect()
    }

    /// Writes a conversation and all its rounds, replacing an existing one.
    pub async fn put(self, conversation: &ConversationRow, rounds: &[RoundRow]) -> Result<(), StoreError> {
        let now = now_micros();
        let report = conversation.report.to_string();
        let bodies: Vec<String> = rounds.iter().map(|round| round.body.to_string()).collect();
        in_transaction!(&self.0.pool, |connection| {
            let insert = sql!(
                "INSERT INTO conversations (id, topic, profile, embedder, signal, score, report, created_at, updated_at,
                     partition_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8)
                 ON CONFLICT (id) DO UPDATE SET topic = excluded.topic, profile = excluded.profile,
                     embedder = excluded.embedder, signal = excluded.signal, score = excluded.score,
                     report = excluded.report, updated_at = excluded.updated_at
                 RETURNING partition_at";
                &conversation.id, &conversation.topic, &conversation.profile,
                conversation.embedder.as_deref(), &conversation.signal, conversation.score, &report, now
            );
            let place: i64 = connection.one(insert).await?.get(0)?;
            let delete = sql!(
                "DELETE FROM rounds WHERE conversation_id = $1 AND partition_at = $2";
                &conversation.id, place
            );
            connection.execute(delete).await?;
            let rows = round_values(&conversation.id, place, rounds, &bodies);
            connection.insert(INSERT_ROUNDS, &rows, "").await?;
        })
    }

    /// Returns a conversation with its rounds in order.
    pub async fn get(self, id: &str) -> Result<Option<(ConversationRow, Vec<RoundRow>)>, StoreError> {
        let select = sql!(
            "SELECT id, topic, profile, embedder, signal, score, report FROM conversations WHERE id = $1";
            id
        );
        let row = self.0.pool.row(select).await?;
        let Some(row) = row else { return Ok(None) };
        let select = sql!(
            "SELECT position, agent, signal, novelty, readiness, body FROM rounds
             WHERE conversation_id = $1 AND partition_at = (SELECT partition_at FROM conversations WHERE id = $1)
             ORDER BY position";
            id
        );
        let rounds = self.0.pool.rows(select).await?;
        let report = row.json("report", format_args!("the report of conversation {id}"))?;
        let rounds = rounds
            .iter()
            .map(|row| round(id, row))
            .collect::<Result<_, _>>()?;
        let conversation =
            columns!(row => ConversationRow { id, topic, profile, embedder, signal, score; report });
        Ok(Some((conversation, rounds)))
    }
}

const INSERT_ROUNDS: &str =
    "INSERT INTO rounds (conversation_id, position, agent, signal, novelty, readiness, body, partition_at) ";

/// Values of [`INSERT_ROUNDS`]; `place` is the time that assigns the conversation to a partition.
fn round_values<'a>(
    id: &'a str,
    place: i64,
    rounds: &'a [RoundRow],
    bodies: &'a [String],
) -> Vec<Vec<Bound<'a>>> {
    let row = |(round, body): (&'a RoundRow, &'a String)| {
        values! {
            id, round.position, &round.agent, &round.signal, round.novelty, round.readiness, body, place
        }
    };
    rounds.iter().zip(bodies).map(row).collect()
}

fn round(id: &str, row: &Row) -> Result<RoundRow, StoreError> {
    let position: i64 = row.get("position")?;
    let body = row.json("body", format_args!("round {position} of conversation {id}"))?;
    Ok(columns!(row => RoundRow { agent, signal, novelty, readiness; position, body }))
}
