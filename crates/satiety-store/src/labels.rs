//! Labels of people: what the right signal for a conversation was, and whether an agent's run solved its task. They are
//! the ground truth that profiles are calibrated on.

use crate::sql::{Row, columns, sql};
use crate::{Store, StoreError};

/// Number of labels that are counted at most, so that the cost does not grow with their number.
const AGREEMENT_LABELS: i64 = 1000;

/// Label of a conversation by one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationLabelRow {
    pub conversation_id: String,
    pub annotator: String,
    /// Signal that would have been right after the last round.
    pub signal: String,
    /// Round after which the person would have stopped.
    pub stop_round: Option<i64>,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
}

/// Label of an agent's run by one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRunLabelRow {
    pub run_id: String,
    pub annotator: String,
    pub solved: bool,
    /// Step (from 1) at which the person noticed a loop.
    pub loop_step: Option<i64>,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
}

/// Labels of people: [`Store::labels`].
#[derive(Debug, Clone, Copy)]
pub struct Labels<'s>(pub(crate) &'s Store);

impl Labels<'_> {
    /// Stores the label of a conversation; replaces an earlier one of the same person.
    pub async fn put_conversation_label(self, label: &ConversationLabelRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO conversation_labels (conversation_id, annotator, signal, stop_round, created_at)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (conversation_id, annotator) DO UPDATE SET
             signal = excluded.signal, stop_round = excluded.stop_round, created_at = excluded.created_at";
            &label.conversation_id, &label.annotator, &label.signal, label.stop_round, label.created_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Removes the label of one person; returns whether there was one.
    pub async fn remove_conversation_label(self, id: &str, annotator: &str) -> Result<bool, StoreError> {
        let delete = sql!(
            "DELETE FROM conversation_labels WHERE conversation_id = $1 AND annotator = $2";
            id, annotator
        );
        Ok(self.0.pool.execute(delete).await? > 0)
    }

    /// Returns the labels of one conversation, or the latest of all conversations, newest first.
    pub async fn conversation_labels(
        self,
        id: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ConversationLabelRow>, StoreError> {
        const SELECT: &str =
            "SELECT conversation_id, annotator, signal, stop_round, created_at FROM conversation_labels";
        const ORDER: &str = " ORDER BY created_at DESC, conversation_id, annotator LIMIT ";
        let select = match id {
            Some(id) => sql!(format!("{SELECT} WHERE conversation_id = $1{ORDER}$2"); id, limit),
            None => sql!(format!("{SELECT}{ORDER}$1"); limit),
        };
        let rows = self.0.pool.rows(select).await?;
        let label = |row: &Row| {
            Ok(
                columns!(row => ConversationLabelRow { conversation_id, annotator, signal, stop_round, created_at }),
            )
        };
        rows.iter().map(label).collect()
    }

    /// Returns the number of labels of conversations, at most the latest 1,000, and how many of them agree with the signal
    /// of their conversation.
    pub async fn agreement(self) -> Result<(usize, usize), StoreError> {
        let select = sql!(
            "SELECT COUNT(*), COALESCE(SUM(CASE WHEN l.signal = c.signal THEN 1 ELSE 0 END), 0)
             FROM (SELECT conversation_id, signal FROM conversation_labels ORDER BY created_at DESC LIMIT $1) l
             CROSS JOIN conversations c WHERE c.id = l.conversation_id";
            AGREEMENT_LABELS
        );
        // `CROSS JOIN` makes SQLite begin with the labels; it would scan all conversations otherwise.
        let row = self.0.pool.one(select).await?;
        let count = |number: i64| usize::try_from(number).unwrap_or_default();
        Ok((count(row.get(0)?), count(row.get(1)?)))
    }

    /// Returns the number of labels of agents' runs, counted up to 1,000.
    pub async fn agent_run_label_count(self) -> Result<usize, StoreError> {
        let select = sql!(
            "SELECT COUNT(*) FROM (SELECT run_id FROM agent_run_labels LIMIT $1) l";
            AGREEMENT_LABELS
        );
        let row = self.0.pool.one(select).await?;
        let number: i64 = row.get(0)?;
        Ok(usize::try_from(number).unwrap_or_default())
    }

    /// Stores the label of an agent's run; replaces an earlier one of the same person.
    pub async fn put_agent_run_label(self, label: &AgentRunLabelRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO agent_run_labels (run_id, annotator, solved, loop_step, created_at)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run_id, annotator) DO UPDATE SET
             solved = excluded.solved, loop_step = excluded.loop_step, created_at = excluded.created_at";
            &label.run_id, &label.annotator, label.solved, label.loop_step, label.created_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Removes the label of one person; returns whether there was one.
    pub async fn remove_agent_run_label(self, id: &str, annotator: &str) -> Result<bool, StoreError> {
        let delete = sql!("DELETE FROM agent_run_labels WHERE run_id = $1 AND annotator = $2"; id, annotator);
        Ok(self.0.pool.execute(delete).await? > 0)
    }

    /// Returns the labels of one run, or the latest of all runs, newest first.
    pub async fn agent_run_labels(
        self,
        id: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AgentRunLabelRow>, StoreError> {
        const SELECT: &str = "SELECT run_id, annotator, solved, loop_step, created_at FROM agent_run_labels";
        const ORDER: &str = " ORDER BY created_at DESC, run_id, annotator LIMIT ";
        let select = match id {
            Some(id) => sql!(format!("{SELECT} WHERE run_id = $1{ORDER}$2"); id, limit),
            None => sql!(format!("{SELECT}{ORDER}$1"); limit),
        };
        let rows = self.0.pool.rows(select).await?;
        let label = |row: &Row| {
            Ok(columns!(row => AgentRunLabelRow { run_id, annotator, solved, loop_step, created_at }))
        };
        rows.iter().map(label).collect()
    }
}
