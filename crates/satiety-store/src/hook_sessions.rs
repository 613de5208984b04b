//! Sessions of command-line agents that call hooks: the state between two calls, and counts of the calls.

use crate::pool::in_transaction;
use crate::sql::{Row, columns, sql};
use crate::{Store, StoreError, now_micros};

/// State of a session between two calls of hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookSessionRow {
    pub id: String,
    /// Program that calls the hooks, such as `claude`.
    pub host: String,
    /// State as JSON.
    pub state: String,
    /// Snapshot of the progress judge; empty if there is none.
    pub judge: String,
    /// Number of writes so far; 0 for a session that is not stored yet.
    pub revision: i64,
    /// Time in microseconds since the Unix epoch; set by the store.
    pub created_at: i64,
    /// Time of the last write, in microseconds since the Unix epoch; set by the store.
    pub updated_at: i64,
}

/// One call of a hook, to be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCall {
    pub event: String,
    pub decision: String,
    /// Reason of the decision in one sentence; may be empty.
    pub reason: String,
    /// Duration in microseconds.
    pub micros: i64,
}

/// Calls of a session with the same event and decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCallRow {
    pub session_id: String,
    pub host: String,
    pub event: String,
    pub decision: String,
    pub calls: i64,
    pub total_micros: i64,
    pub max_micros: i64,
    /// Reason of the latest of these decisions.
    pub reason: String,
    /// Time of the latest call, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

/// Sessions that call hooks: [`Store::hook_sessions`].
#[derive(Debug, Clone, Copy)]
pub struct HookSessions<'s>(pub(crate) &'s Store);

impl HookSessions<'_> {
    /// Returns the state of a session.
    pub async fn get(self, id: &str) -> Result<Option<HookSessionRow>, StoreError> {
        let select = sql!(
            "SELECT id, host, state, judge, revision, created_at, updated_at FROM hook_sessions WHERE id = $1";
            id
        );
        let row = self.0.pool.row(select).await?;
        row.map(|row| hook_session(&row)).transpose()
    }

    /// Writes the state after one call and counts the call. Returns false and changes nothing if the stored
    /// revision is not the row's, because another process has written meanwhile.
    pub async fn put(self, session: &HookSessionRow, call: &HookCall) -> Result<bool, StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            let write = if session.revision == 0 {
                sql!(
                    "INSERT INTO hook_sessions (id, host, state, judge, revision, created_at, updated_at)
                     VALUES ($1, $2, $3, $4, 1, $5, $5) ON CONFLICT (id) DO NOTHING";
                    &session.id, &session.host, &session.state, &session.judge, now
                )
            } else {
                sql!(
                    "UPDATE hook_sessions SET state = $1, judge = $2, revision = revision + 1, updated_at = $3
                     WHERE id = $4 AND revision = $5";
                    &session.state, &session.judge, now, &session.id, session.revision
                )
            };
            if connection.execute(write).await? == 0 {
                return Ok(false);
            }
            let count = sql!(
                "INSERT INTO hook_calls (session_id, event, decision, calls, total_micros, max_micros, reason,
                     updated_at)
                 VALUES ($1, $2, $3, 1, $4, $4, $5, $6)
                 ON CONFLICT (session_id, event, decision) DO UPDATE SET calls = hook_calls.calls + 1,
                     total_micros = hook_calls.total_micros + excluded.total_micros,
                     max_micros = CASE WHEN hook_calls.max_micros > excluded.max_micros
                         THEN hook_calls.max_micros ELSE excluded.max_micros END,
                     reason = excluded.reason, updated_at = excluded.updated_at";
                &session.id, &call.event, &call.decision, call.micros, &call.reason, now
            );
            connection.execute(count).await?;
            true
        })
    }

    /// Lists the counts of calls, the latest first.
    pub async fn calls(self, limit: i64) -> Result<Vec<HookCallRow>, StoreError> {
        let select = sql!(
            "SELECT hook_calls.session_id, hook_sessions.host, hook_calls.event, hook_calls.decision,
                    hook_calls.calls, hook_calls.total_micros, hook_calls.max_micros, hook_calls.reason,
                    hook_calls.updated_at
             FROM hook_calls JOIN hook_sessions ON hook_sessions.id = hook_calls.session_id
             ORDER BY hook_calls.updated_at DESC, hook_calls.session_id, hook_calls.event, hook_calls.decision
             LIMIT $1";
            limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(hook_call).collect()
    }

    /// Lists sessions, the most recently used first.
    pub async fn list(self, limit: i64) -> Result<Vec<HookSessionRow>, StoreError> {
        let select = sql!(
            "SELECT id, host, state, judge, revision, created_at, updated_at FROM hook_sessions
             ORDER BY updated_at DESC, id LIMIT $1";
            limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(hook_session).collect()
    }
}

fn hook_session(row: &Row) -> Result<HookSessionRow, StoreError> {
    Ok(columns!(row => HookSessionRow { id, host, state, judge, revision, created_at, updated_at }))
}

fn hook_call(row: &Row) -> Result<HookCallRow, StoreError> {
    Ok(columns!(row => HookCallRow {
        session_id, host, event, decision, calls, total_micros, max_micros, reason, updated_at
    }))
}
