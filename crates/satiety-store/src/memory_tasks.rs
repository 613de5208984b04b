//! Tasks that an agent began and closed, and what is known about its sessions.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::QueryBuilder;

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, storable};

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its id.
    pub task_id: String,
    /// The session it belongs to.
    pub session_id: String,
    /// Where it belongs.
    pub folder: String,
    /// What was to be done.
    pub task: String,
    /// The query that brought its context.
    pub query_id: Option<String>,
    /// What was known before.
    pub preflight: Value,
    /// How it went; absent while it is open.
    pub outcome: Option<String>,
    /// What was known afterwards.
    pub postflight: Option<Value>,
    /// What was learnt, in one figure.
    pub learning_index: Option<f64>,
    /// The session when it was closed.
    pub summary: Option<Value>,
    /// When it began, in microseconds since 1970.
    pub opened_at: i64,
    /// When it was closed.
    pub closed_at: Option<i64>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub session_id: String,
    /// Queries that were asked.
    pub queries: i64,
    /// When the first one was, in microseconds since 1970.
    pub first_at: i64,
    /// When the last one was.
    pub last_at: i64,
}

/// A query of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQueryRow {
    /// Its id.
    pub query_id: String,
    /// What was asked.
    pub query: String,
    /// What the asker was after.
    pub intent: Option<String>,
    /// What was found, best first.
    pub result_ids: Vec<String>,
    /// When, in microseconds since 1970.
    pub created_at: i64,
}

const COLUMNS: &str = "task_id, session_id, folder, task, query_id, preflight, outcome, postflight, learning_index, summary, \
     opened_at, closed_at";

type Columns = (
    String,
    String,
    String,
    String,
    Option<String>,
    String,
    Option<String>,
    Option<String>,
    Option<f64>,
    Option<String>,
    i64,
    Option<i64>,
);

/// The tasks and sessions of agents: [`Store::tasks`].
#[derive(Debug, Clone, Copy)]
pub struct Tasks<'s>(pub(crate) &'s Store);

impl Tasks<'_> {
    /// Writes a task, over the one with the same id, unless that one is closed; says whether it did.
    pub async fn put(self, row: &TaskRow) -> Result<bool, StoreError> {
        let preflight = row.preflight.to_string();
        let postflight = row.postflight.as_ref().map(ToString::to_string);
        let summary = row.summary.as_ref().map(ToString::to_string);
        let written = in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO memory_tasks (task_id, session_id, folder, task, query_id, preflight, outcome, postflight,
                     learning_index, summary, opened_at, closed_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
                 ON CONFLICT (task_id) DO UPDATE SET session_id = excluded.session_id, folder = excluded.folder,
                     task = excluded.task, query_id = excluded.query_id, preflight = excluded.preflight,
                     outcome = excluded.outcome, postflight = excluded.postflight,
                     learning_index = excluded.learning_index, summary = excluded.summary,
                     closed_at = excluded.closed_at
                 WHERE memory_tasks.closed_at IS NULL",
            )
            .bind(storable(&row.task_id))
            .bind(storable(&row.session_id))
            .bind(storable(&row.folder))
            .bind(storable(&row.task))
            .bind(row.query_id.as_deref().map(storable))
            .bind(storable(&preflight))
            .bind(&row.outcome)
            .bind(postflight.as_deref().map(storable))
            .bind(row.learning_index)
            .bind(summary.as_deref().map(storable))
            .bind(row.opened_at)
            .bind(row.closed_at)
            .execute(&mut *connection)
            .await?
            .rows_affected()
        })?;
        Ok(written > 0)
    }

    /// A task by its id.
    pub async fn get(self, task_id: &str) -> Result<Option<TaskRow>, StoreError> {
        let rows: Vec<Columns> = reading!(&self.0.pool, |connection| {
            let mut select =
                QueryBuilder::new(format!("SELECT {COLUMNS} FROM memory_tasks WHERE task_id = "));
            select.push_bind(storable(task_id));
            select.build_query_as().fetch_all(connection).await?
        })?;
        Ok(self.task_rows(rows)?.pop())
    }

    /// Tasks of a session, or of all, newest first.
    pub async fn list(self, session: Option<&str>, limit: u32) -> Result<Vec<TaskRow>, StoreError> {
        let rows: Vec<Columns> = reading!(&self.0.pool, |connection| {
            let mut select = QueryBuilder::new(format!("SELECT {COLUMNS} FROM memory_tasks"));
            if let Some(session) = session {
                select.push(" WHERE session_id = ").push_bind(storable(session));
            }
            select.push(" ORDER BY opened_at DESC, task_id DESC LIMIT ");
            select.push_bind(i64::from(limit));
            select.build_query_as().fetch_all(connection).await?
        })?;
        self.task_rows(rows)
    }

    fn task_rows(self, rows: Vec<Columns>) -> Result<Vec<TaskRow>, StoreError> {
        let json = |text: Option<String>, id: &str| {
            text.map(|text| self.0.parse_json(&text, || format!("task {id}")))
                .transpose()
        };
        rows.into_iter()
            .map(|row| {
                let (task_id, session_id, folder, task, query_id, preflight, outcome, postflight, ..) = row;
                let (learning_index, summary, opened_at, closed_at) = (row.8, row.9, row.10, row.11);
                Ok(TaskRow {
                    preflight: self.0.parse_json(&preflight, || format!("task {task_id}"))?,
                    postflight: json(postflight, &task_id)?,
                    summary: json(summary, &task_id)?,
                    task_id,
                    session_id,
                    folder,
                    task,
                    query_id,
                    outcome,
                    learning_index,
                    opened_at,
                    closed_at,
                })
            })
            .collect()
    }

    /// Sessions with queries or tasks, the latest first.
    pub async fn sessions(self, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        let rows: Vec<(String, i64, i64, i64)> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
                "SELECT session_id, CAST(SUM(asked) AS BIGINT), MIN(at), MAX(at) FROM (
                     SELECT session_id, 1 AS asked, created_at AS at FROM eval_queries WHERE session_id IS NOT NULL
                     UNION ALL SELECT session_id, 0, opened_at FROM memory_tasks) seen
                 GROUP BY session_id ORDER BY MAX(at) DESC, session_id DESC LIMIT $1",
            )
            .bind(i64::from(limit))
            .fetch_all(connection)
            .await?
        })?;
        let session = |(session_id, queries, first_at, last_at)| SessionRow {
            session_id,
            queries,
            first_at,
            last_at,
        };
        Ok(rows.into_iter().map(session).collect())
    }

    /// The queries of a session, newest first.
    pub async fn session_queries(
        self,
        session: &str,
        limit: u32,
    ) -> Result<Vec<SessionQueryRow>, StoreError> {
        let rows: Vec<(String, String, Option<String>, String, i64)> = reading!(
            &self.0.pool,
            |connection| {
                sqlx::query_as(
                "SELECT query_id, query, intent, result_ids, created_at FROM eval_queries WHERE session_id = $1
                 ORDER BY created_at DESC, query_id DESC LIMIT $2"
            )
            .bind(storable(session))
            .bind(i64::from(limit))
            .fetch_all(connection)
            .await?
            }
        )?;
        rows.into_iter()
            .map(|(query_id, query, intent, results, created_at)| {
                let results = self.0.parse_json(&results, || format!("query {query_id}"))?;
                let results = results.as_array().map(Vec::as_slice).unwrap_or_default();
                Ok(SessionQueryRow {
                    result_ids: results
                        .iter()
                        .filter_map(|id| Some(id.as_str()?.to_owned()))
                        .collect(),
                    query_id,
                    query,
                    intent,
                    created_at,
                })
            })
            .collect()
    }
}
