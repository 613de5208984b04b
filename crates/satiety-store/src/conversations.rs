//! Conversations that were scored, with their rounds and the verdict after each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::QueryBuilder;

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// A scored conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationRow {
    /// The id that its transcript gave, or one of ours.
    pub id: String,
    /// What it is about.
    pub topic: String,
    /// The profile it was scored with.
    pub profile: String,
    /// The sentence model, if one was used.
    pub embedder: Option<String>,
    /// The signal after its last round.
    pub signal: String,
    /// The score after its last round.
    pub score: Option<f64>,
    /// The whole report.
    pub report: Value,
}

/// One round of a conversation, and the verdict after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRow {
    /// Its place in the conversation, from 1.
    pub position: i64,
    /// Who spoke.
    pub agent: Option<String>,
    /// The signal after it.
    pub signal: String,
    /// Novelty rate of the round.
    pub novelty: Option<f64>,
    /// Action readiness after it.
    pub readiness: Option<f64>,
    /// The round as it came in.
    pub body: Value,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationSummaryRow {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub topic: String,
    /// The profile it was scored with.
    pub profile: String,
    /// The signal after its last round.
    pub signal: String,
    /// The score after its last round.
    pub score: Option<f64>,
    /// How many rounds it has.
    pub rounds: i64,
    /// When it was first written, in microseconds since 1970.
    pub created_at: i64,
    /// When it was last written.
    pub updated_at: i64,
}

/// Scored conversations: [`Store::conversations`].
#[derive(Debug, Clone, Copy)]
pub struct Conversations<'s>(pub(crate) &'s Store);

impl Conversations<'_> {
    /// Adds rounds behind the `expected` ones that are there, with the conversation as it is after them; returns the
    /// moment of the change. None when somebody else has added rounds meanwhile: then nothing is changed.
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
            // The row of the conversation is the lock: whoever changes it second sees what the first has added.
            let changed = sqlx::query(
                "UPDATE conversations SET embedder = $2, signal = $3, score = $4, report = $5, updated_at = $6
                 WHERE id = $1",
            )
            .bind(storable(&conversation.id))
            .bind(conversation.embedder.as_deref().map(storable))
            .bind(&conversation.signal)
            .bind(conversation.score)
            .bind(&report)
            .bind(now)
            .execute(&mut *connection)
            .await?
            .rows_affected();
            let (there,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM rounds WHERE conversation_id = $1")
                .bind(storable(&conversation.id))
                .fetch_one(&mut *connection)
                .await?;
            // A connection that was lost while it committed leaves open whether it did: then our own rounds are there.
            let done = attempts > 1 && !rounds.is_empty() && there == behind && {
                let stored: Vec<(String,)> = sqlx::query_as(
                    "SELECT body FROM rounds WHERE conversation_id = $1 AND position > $2 ORDER BY position",
                )
                .bind(storable(&conversation.id))
                .bind(expected)
                .fetch_all(&mut *connection)
                .await?;
                stored.iter().map(|(body,)| body).eq(&bodies)
            };
            let fits = changed == 1 && (there == expected || done);
            if fits && !done && !rounds.is_empty() {
                let mut insert = QueryBuilder::new(
                    "INSERT INTO rounds (conversation_id, position, agent, signal, novelty, readiness, body) ",
                );
                insert.push_values(rounds.iter().zip(&bodies), |mut row, (round, body)| {
                    row.push_bind(storable(&conversation.id))
                        .push_bind(round.position)
                        .push_bind(round.agent.as_deref().map(storable))
                        .push_bind(&round.signal)
                        .push_bind(round.novelty)
                        .push_bind(round.readiness)
                        .push_bind(body);
                });
                insert.build().execute(&mut *connection).await?;
            }
            if !fits {
                // Leaving here drops the transaction, which takes the update back.
                return Ok(None);
            }
            Some(now)
        })
    }

    /// Writes a conversation that has no rounds yet; says whether its id was free.
    pub async fn begin(self, conversation: &ConversationRow) -> Result<bool, StoreError> {
        let now = now_micros();
        let report = conversation.report.to_string();
        let written = in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO conversations (id, topic, profile, embedder, signal, score, report, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) ON CONFLICT (id) DO NOTHING",
            )
            .bind(storable(&conversation.id))
            .bind(storable(&conversation.topic))
            .bind(storable(&conversation.profile))
            .bind(conversation.embedder.as_deref().map(storable))
            .bind(&conversation.signal)
            .bind(conversation.score)
            .bind(&report)
            .bind(now)
            .execute(&mut *connection)
            .await?
            .rows_affected()
        })?;
        Ok(written == 1)
    }

    /// The moment a conversation was last written, and how many rounds it has.
    pub async fn state(self, id: &str) -> Result<Option<(i64, i64)>, StoreError> {
        reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT updated_at, (SELECT COUNT(*) FROM rounds WHERE conversation_id = conversations.id) FROM conversations WHERE id = $1"
        )
        .bind(storable(id))
        .fetch_optional(connection)
        .await?
        })
    }

    /// The rounds of a conversation behind the first `after` ones, in order.
    pub async fn rounds_after(self, id: &str, after: i64, limit: i64) -> Result<Vec<RoundRow>, StoreError> {
        let rounds: Vec<RoundColumns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT position, agent, signal, novelty, readiness, body FROM rounds
                 WHERE conversation_id = $1 AND position > $2 ORDER BY position LIMIT $3"
        )
        .bind(storable(id))
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await?)?;
        rounds
            .into_iter()
            .map(|columns| self.round(id, columns))
            .collect()
    }

    /// Conversations, the latest first, behind the one that was last written at this moment and has this id.
    pub async fn list_before(
        self,
        before: Option<(i64, &str)>,
        limit: i64,
    ) -> Result<Vec<ConversationSummaryRow>, StoreError> {
        let (at, id) = before.unwrap_or((i64::MAX, "\u{10FFFF}"));
        let rows: Vec<SummaryColumns> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT id, topic, profile, signal, score, (SELECT COUNT(*) FROM rounds WHERE conversation_id = conversations.id),
                    created_at, updated_at
             FROM conversations WHERE updated_at < $1 OR (updated_at = $1 AND id < $2)
             ORDER BY updated_at DESC, id DESC LIMIT $3"
        )
        .bind(at)
        .bind(storable(id))
        .bind(limit)
        .fetch_all(connection)
        .await?
        })?;
        let summary =
            |(id, topic, profile, signal, score, rounds, created_at, updated_at)| ConversationSummaryRow {
                id,
                topic,
                profile,
                signal,
                score,
                rounds,
                created_at,
                updated_at,
            };
        Ok(rows.into_iter().map(summary).collect())
    }

    /// Writes a conversation and all its rounds, over what was stored under its id.
    pub async fn put(self, conversation: &ConversationRow, rounds: &[RoundRow]) -> Result<(), StoreError> {
        let now = now_micros();
        let report = conversation.report.to_string();
        let bodies: Vec<String> = rounds.iter().map(|round| round.body.to_string()).collect();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO conversations (id, topic, profile, embedder, signal, score, report, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
                 ON CONFLICT (id) DO UPDATE SET topic = excluded.topic, profile = excluded.profile,
                     embedder = excluded.embedder, signal = excluded.signal, score = excluded.score,
                     report = excluded.report, updated_at = excluded.updated_at",
            )
            .bind(storable(&conversation.id))
            .bind(storable(&conversation.topic))
            .bind(storable(&conversation.profile))
            .bind(conversation.embedder.as_deref().map(storable))
            .bind(&conversation.signal)
            .bind(conversation.score)
            .bind(&report)
            .bind(now)
            .execute(&mut *connection)
            .await?;
            sqlx::query("DELETE FROM rounds WHERE conversation_id = $1")
                .bind(storable(&conversation.id))
                .execute(&mut *connection)
                .await?;
            for (rounds, bodies) in rounds.chunks(500).zip(bodies.chunks(500)) {
                let mut insert = QueryBuilder::new(
                    "INSERT INTO rounds (conversation_id, position, agent, signal, novelty, readiness, body) ",
                );
                insert.push_values(rounds.iter().zip(bodies), |mut row, (round, body)| {
                    row.push_bind(storable(&conversation.id))
                        .push_bind(round.position)
                        .push_bind(round.agent.as_deref().map(storable))
                        .push_bind(&round.signal)
                        .push_bind(round.novelty)
                        .push_bind(round.readiness)
                        .push_bind(body);
                });
                insert.build().execute(&mut *connection).await?;
            }
        })
    }

    /// A conversation with its rounds in order.
    pub async fn get(self, id: &str) -> Result<Option<(ConversationRow, Vec<RoundRow>)>, StoreError> {
        let row: Option<ConversationColumns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT id, topic, profile, embedder, signal, score, report FROM conversations WHERE id = $1"
        )
        .bind(storable(id))
        .fetch_optional(connection)
        .await?)?;
        let Some((id, topic, profile, embedder, signal, score, report)) = row else {
            return Ok(None);
        };
        let rounds: Vec<RoundColumns> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT position, agent, signal, novelty, readiness, body FROM rounds
                 WHERE conversation_id = $1 ORDER BY position"
        )
        .bind(&id)
        .fetch_all(connection)
        .await?)?;
        let report = self
            .0
            .parse_json(&report, || format!("the report of conversation {id}"))?;
        let rounds = rounds
            .into_iter()
            .map(|columns| self.round(&id, columns))
            .collect::<Result<_, StoreError>>()?;
        Ok(Some((
            ConversationRow {
                id,
                topic,
                profile,
                embedder,
                signal,
                score,
                report,
            },
            rounds,
        )))
    }

    fn round(self, id: &str, columns: RoundColumns) -> Result<RoundRow, StoreError> {
        let (position, agent, signal, novelty, readiness, body) = columns;
        let body = self
            .0
            .parse_json(&body, || format!("round {position} of conversation {id}"))?;
        Ok(RoundRow {
            position,
            agent,
            signal,
            novelty,
            readiness,
            body,
        })
    }
}

type ConversationColumns = (
    String,
    String,
    String,
    Option<String>,
    String,
    Option<f64>,
    String,
);
type SummaryColumns = (String, String, String, String, Option<f64>, i64, i64, i64);
type RoundColumns = (i64, Option<String>, String, Option<f64>, Option<f64>, String);
