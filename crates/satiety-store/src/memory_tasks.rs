//! Tasks and sessions of agents.

use serde_json::Value;

use crate::lists::WINDOW;
use crate::sql::{Row, Sql, Value as Bound, columns, first_column, sql};
use crate::{Store, StoreError};

/// A task of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRow {
    pub task_id: String,
    pub session_id: String,
    /// Hierarchical path.
    pub folder: String,
    /// Description of the task.
    pub task: String,
    /// Query that retrieved its context.
    pub query_id: Option<String>,
    /// Scores and gaps before the task.
    pub preflight: Value,
    /// Outcome; `None` while the task is open.
    pub outcome: Option<String>,
    /// Scores and gaps after the task.
    pub postflight: Option<Value>,
    pub learning_index: Option<f64>,
    /// Summary of the session when the task was closed.
    pub summary: Option<Value>,
    /// Time in microseconds since the Unix epoch.
    pub opened_at: i64,
    pub closed_at: Option<i64>,
}

/// Summary of a session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub session_id: String,
    /// Number of queries.
    pub queries: i64,
    /// Time of the first event, in microseconds since the Unix epoch.
    pub first_at: i64,
    /// Time of the last event.
    pub last_at: i64,
}

const COLUMNS: &str = "task_id, session_id, folder, task, query_id, preflight, outcome, postflight, learning_index, summary, \
     opened_at, closed_at";

/// The tasks and sessions of agents: [`Store::tasks`].
#[derive(Debug, Clone, Copy)]
pub struct Tasks<'s>(pub(crate) &'s Store);

impl Tasks<'_> {
    /// Writes a task, replacing an open one with the same id; returns false if that one is closed.
    pub async fn put(self, row: &TaskRow) -> Result<bool, StoreError> {
        let preflight = row.preflight.to_string();
        let postflight = row.postflight.as_ref().map(ToString::to_string);
        let summary = row.summary.as_ref().map(ToString::to_string);
        let insert = sql!(
            "INSERT INTO memory_tasks (task_id, session_id, folder, task, query_id, preflight, outcome, postflight,
                 learning_index, summary, opened_at, closed_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
             ON CONFLICT (task_id) DO UPDATE SET session_id = excluded.session_id, folder = excluded.folder,
                 task = excluded.task, query_id = excluded.query_id, preflight = excluded.preflight,
                 outcome = excluded.outcome, postflight = excluded.postflight,
                 learning_index = excluded.learning_index, summary = excluded.summary,
                 closed_at = excluded.closed_at
             WHERE memory_tasks.closed_at IS NULL";
            &row.task_id, &row.session_id, &row.folder, &row.task, row.query_id.as_deref(), &preflight,
            &row.outcome, postflight.as_deref(), row.learning_index, summary.as_deref(), row.opened_at,
            row.closed_at
        );
        let written = self.0.pool.execute(insert).await?;
        Ok(written > 0)
    }

    /// Returns a task by id.
    pub async fn get(self, task_id: &str) -> Result<Option<TaskRow>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM memory_tasks WHERE task_id = $1");
        let row = self.0.pool.row(sql!(select; task_id)).await?;
        row.as_ref().map(task).transpose()
    }

    /// Lists tasks of a session, or of all sessions, newest first.
    pub async fn list(self, session: Option<&str>, limit: u32) -> Result<Vec<TaskRow>, StoreError> {
        let mut select = Sql::build(&format!("SELECT {COLUMNS} FROM memory_tasks"));
        if let Some(session) = session {
            select = select.push(" WHERE session_id = ").push_bind(session);
        }
        let select = select
            .push(" ORDER BY opened_at DESC, task_id DESC LIMIT ")
            .push_bind(limit);
        self.0.pool.rows(select).await?.iter().map(task).collect()
    }

    /// Lists sessions among the latest [`WINDOW`] queries and tasks, most recent first.
    pub async fn sessions(self, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        // The latest rows name the sessions; only these are then counted, through indexes.
        let recent = sql!(
            "SELECT session_id FROM (
                 SELECT session_id, at FROM (SELECT session_id, created_at AS at FROM eval_queries
                     WHERE session_id IS NOT NULL ORDER BY created_at DESC LIMIT $2) asked
                 UNION ALL SELECT session_id, at FROM (SELECT session_id, opened_at AS at FROM memory_tasks
                     ORDER BY opened_at DESC LIMIT $2) opened) seen
             GROUP BY session_id ORDER BY MAX(at) DESC, session_id DESC LIMIT $1";
            limit, WINDOW
        );
        let recent: Vec<String> = first_column(&self.0.pool.rows(recent).await?)?;
        if recent.is_empty() {
            return Ok(Vec::new());
        }
        let ids = || recent.iter().map(|id| Bound::from(id.as_str()));
        let select = Sql::build(
            "SELECT session_id, CAST(SUM(asked) AS BIGINT) AS queries, MIN(at) AS first_at, MAX(at) AS last_at FROM (
                 SELECT session_id, 1 AS asked, created_at AS at FROM eval_queries WHERE session_id IN ",
        )
        .push_list(ids())
        .push(" UNION ALL SELECT session_id, 0, opened_at FROM memory_tasks WHERE session_id IN ")
        .push_list(ids())
        .push(") seen GROUP BY session_id ORDER BY MAX(at) DESC, session_id DESC");
        let rows = self.0.pool.rows(select).await?;
        let session = |row: &Row| Ok(columns!(row => SessionRow { session_id, queries, first_at, last_at }));
        rows.iter().map(session).collect()
    }
}

fn task(row: &Row) -> Result<TaskRow, StoreError> {
    let id: String = row.get("task_id")?;
    let preflight = row.json("preflight", format_args!("task {id}"))?;
    let postflight = row.optional_json("postflight", format_args!("task {id}"))?;
    let summary = row.optional_json("summary", format_args!("task {id}"))?;
    Ok(columns!(row => TaskRow {
        session_id, folder, task, query_id, outcome, learning_index, opened_at, closed_at;
        task_id: id, preflight, postflight, summary
    }))
}
