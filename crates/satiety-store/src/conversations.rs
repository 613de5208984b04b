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

impl Store {
    /// Writes a conversation and all its rounds, over what was stored under its id.
    pub async fn put_conversation(
        &self,
        conversation: &ConversationRow,
        rounds: &[RoundRow],
    ) -> Result<(), StoreError> {
        let now = now_micros();
        let report = conversation.report.to_string();
        let bodies: Vec<String> = rounds.iter().map(|round| round.body.to_string()).collect();
        in_transaction!(&self.pool, |connection| {
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
    pub async fn conversation(
        &self,
        id: &str,
    ) -> Result<Option<(ConversationRow, Vec<RoundRow>)>, StoreError> {
        let row: Option<ConversationColumns> = reading!(&self.pool, |connection| sqlx::query_as(
            "SELECT id, topic, profile, embedder, signal, score, report FROM conversations WHERE id = $1"
        )
        .bind(storable(id))
        .fetch_optional(connection)
        .await?)?;
        let Some((id, topic, profile, embedder, signal, score, report)) = row else {
            return Ok(None);
        };
        let rounds: Vec<RoundColumns> = reading!(&self.pool, |connection| sqlx::query_as(
            "SELECT position, agent, signal, novelty, readiness, body FROM rounds
                 WHERE conversation_id = $1 ORDER BY position"
        )
        .bind(&id)
        .fetch_all(connection)
        .await?)?;
        let report = self.parse_json(&report, || format!("the report of conversation {id}"))?;
        let rounds = rounds
            .into_iter()
            .map(|(position, agent, signal, novelty, readiness, body)| {
                let body = self.parse_json(&body, || format!("round {position} of conversation {id}"))?;
                Ok(RoundRow {
                    position,
                    agent,
                    signal,
                    novelty,
                    readiness,
                    body,
                })
            })
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
type RoundColumns = (i64, Option<String>, String, Option<f64>, Option<f64>, String);
