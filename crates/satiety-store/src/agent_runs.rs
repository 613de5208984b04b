//! Runs of agents at work: their messages and the latest verdict.

use serde_json::Value;

use crate::pool::in_transaction;
use crate::sql::{Row, columns, first_column, sql, values};
use crate::{Store, StoreError, now_micros};

/// Latest verdict about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRunRow {
    pub id: String,
    /// What the run shows: `work`, `deliberation` or `mixed`.
    pub kind: String,
    pub signal: String,
    pub reason: String,
    /// Number of stored messages.
    pub messages: i64,
    /// Number of judged steps.
    pub steps: i64,
    /// Number of steps that brought nothing new.
    pub wasted_steps: i64,
    pub first_nudge_step: Option<i64>,
    pub first_stop_step: Option<i64>,
    /// Time in microseconds since the Unix epoch; set by the store.
    pub created_at: i64,
    /// Time of the last write, in microseconds since the Unix epoch; set by the store.
    pub updated_at: i64,
}

/// Runs of agents: [`Store::agent_runs`].
#[derive(Debug, Clone, Copy)]
pub struct AgentRuns<'s>(pub(crate) &'s Store);

impl AgentRuns<'_> {
    /// Appends messages after the `expected` existing ones and updates the verdict, creating the run if there
    /// is none. Returns false and changes nothing if another process has appended messages meanwhile.
    pub async fn append(
        self,
        run: &AgentRunRow,
        expected: i64,
        messages: &[Value],
    ) -> Result<bool, StoreError> {
        let now = now_micros();
        let bodies: Vec<String> = messages.iter().map(ToString::to_string).collect();
        let behind = expected + i64::try_from(messages.len()).unwrap_or(i64::MAX);
        let mut attempts = 0;
        in_transaction!(&self.0.pool, |connection| {
            attempts += 1;
            // The run's row is the lock: the second writer sees the messages of the first.
            let upsert = sql!(
                "INSERT INTO agent_runs (id, kind, signal, reason, messages, steps, wasted_steps, first_nudge_step,
                     first_stop_step, created_at, updated_at, partition_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $10)
                 ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, signal = excluded.signal,
                     reason = excluded.reason, messages = excluded.messages, steps = excluded.steps,
                     wasted_steps = excluded.wasted_steps, first_nudge_step = excluded.first_nudge_step,
                     first_stop_step = excluded.first_stop_step, updated_at = excluded.updated_at
                 RETURNING partition_at";
                &run.id, &run.kind, &run.signal, &run.reason, behind, run.steps, run.wasted_steps,
                run.first_nudge_step, run.first_stop_step, now
            );
            let place: i64 = connection.one(upsert).await?.get(0)?;
            let select = sql!(
                "SELECT COUNT(*) FROM agent_messages WHERE run_id = $1 AND partition_at = $2";
                &run.id, place
            );
            let there: i64 = connection.one(select).await?.get(0)?;
            // After a connection loss during the commit, our own messages may already be there.
            let done = attempts > 1 && !bodies.is_empty() && there == behind && {
                let select = sql!(
                    "SELECT body FROM agent_messages WHERE run_id = $1 AND position > $2 AND partition_at = $3
                     ORDER BY position";
                    &run.id, expected, place
                );
                first_column::<String>(&connection.rows(select).await?)? == bodies
            };
            if there != expected && !done {
                // Dropping the transaction rolls the update back.
                return Ok(false);
            }
            if !done && !bodies.is_empty() {
                let rows: Vec<_> = (expected + 1..)
                    .zip(&bodies)
                    .map(|(position, body)| values! { &run.id, position, body, place })
                    .collect();
                let head = "INSERT INTO agent_messages (run_id, position, body, partition_at) ";
                connection.insert(head, &rows, "").await?;
            }
            true
        })
    }

    /// Returns the latest verdict about a run.
    pub async fn get(self, id: &str) -> Result<Option<AgentRunRow>, StoreError> {
        let select = sql!(
            "SELECT id, kind, signal, reason, messages, steps, wasted_steps, first_nudge_step, first_stop_step,
                    created_at, updated_at
             FROM agent_runs WHERE id = $1";
            id
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| agent_run(&row)).transpose()
    }

    /// Returns the messages of a run in order.
    pub async fn messages(self, id: &str) -> Result<Vec<Value>, StoreError> {
        let select = sql!(
            "SELECT body FROM agent_messages WHERE run_id = $1
             AND partition_at = (SELECT partition_at FROM agent_runs WHERE id = $1) ORDER BY position";
            id
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter()
            .map(|row| row.json("body", format_args!("a message of run {id}")))
            .collect()
    }

    /// Lists runs, most recent first, after the given cursor (time of the last write, id).
    pub async fn list_before(
        self,
        before: Option<(i64, &str)>,
        limit: i64,
    ) -> Result<Vec<AgentRunRow>, StoreError> {
        let (at, id) = before.unwrap_or((i64::MAX, "\u{10FFFF}"));
        let select = sql!(
            "SELECT id, kind, signal, reason, messages, steps, wasted_steps, first_nudge_step, first_stop_step,
                    created_at, updated_at
             FROM agent_runs WHERE updated_at < $1 OR (updated_at = $1 AND id < $2)
             ORDER BY updated_at DESC, id DESC LIMIT $3";
            at, id, limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(agent_run).collect()
    }
}

pub(crate) fn agent_run(row: &Row) -> Result<AgentRunRow, StoreError> {
    Ok(columns!(row => AgentRunRow {
        id, kind, signal, reason, messages, steps, wasted_steps, first_nudge_step, first_stop_step, created_at,
        updated_at
    }))
}
