//! Scopes, their items and proposals. A scope changes atomically with optimistic concurrency: a change names
//! the revision it is based on and is refused if that is outdated, so two callers can never evict the same
//! item.

use super::Eviction;
use crate::pool::in_transaction;
use crate::sql::{Row, Sql, columns, sql, values};
use crate::{StoreError, now_micros};

/// Current state of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeRow {
    /// Number of changes; 0 if the scope does not exist.
    pub revision: i64,
    pub turn: i64,
    pub goal: Option<String>,
    /// Items in the context, ordered by id.
    pub items: Vec<ScopeItemRow>,
    /// Open proposals, oldest first.
    pub open: Vec<ProposalRow>,
}

/// An item of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeItemRow {
    /// Id within the scope.
    pub ctx_id: String,
    /// Open proposal that includes the item.
    pub held_by: Option<String>,
    /// Time of eviction in microseconds since the Unix epoch; `None` while it is in the context.
    pub evicted_at: Option<i64>,
    /// Complete item as JSON.
    pub body: String,
}

/// An eviction proposal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProposalRow {
    pub proposal_id: String,
    pub scope_id: String,
    pub turn_number: i64,
    /// Time in microseconds since the Unix epoch.
    pub proposed_at: i64,
    /// Time when it times out, in microseconds since the Unix epoch.
    pub deadline_at: i64,
    /// Version of the scorer.
    pub scorer_model: String,
    pub resolved_at: Option<i64>,
    pub resolved_by: Option<String>,
    /// Complete proposal as JSON.
    pub body: String,
    /// Feedback as JSON, once resolved.
    pub feedback: Option<String>,
}

/// Summary of a scope in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeSummaryRow {
    pub scope_id: String,
    pub turn: i64,
    /// Number of items in the context.
    pub items: i64,
    /// Number of open proposals.
    pub open_proposals: i64,
    /// Time of the last change, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

/// An atomic change of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeChange {
    pub scope_id: String,
    /// Unique id: identifies a change that is sent again after a lost connection.
    pub change_id: String,
    /// Revision that it is based on.
    pub seen: i64,
    /// New turn.
    pub turn: i64,
    /// New goal.
    pub goal: Option<String>,
    /// New or changed items.
    pub items: Vec<ScopeItemRow>,
    /// Items to delete completely.
    pub forget: Vec<String>,
    /// New proposals.
    pub propose: Vec<ProposalRow>,
    /// Resolved proposals.
    pub resolve: Vec<ProposalRow>,
}

const SUMMARY: &str = "SELECT s.scope_id, s.turn,
    (SELECT COUNT(*) FROM eviction_items i WHERE i.scope_id = s.scope_id AND i.evicted_at IS NULL) AS items,
    (SELECT COUNT(*) FROM eviction_proposals p WHERE p.scope_id = s.scope_id AND p.resolved_at IS NULL)
        AS open_proposals,
    s.updated_at FROM eviction_scopes s";

const PROPOSAL: &str =
    "SELECT proposal_id, scope_id, turn_number, proposed_at, deadline_at, scorer_model, resolved_at,
    resolved_by, body, feedback FROM eviction_proposals";

impl Eviction<'_> {
    /// Changes a scope; returns false if it was changed concurrently.
    pub async fn change_scope(self, change: &ScopeChange) -> Result<bool, StoreError> {
        let scope_id = &change.scope_id;
        let items: Vec<_> = change
            .items
            .iter()
            .map(|row| values! { scope_id, &row.ctx_id, &row.held_by, row.evicted_at, &row.body })
            .collect();
        in_transaction!(&self.0.pool, |connection| {
            let goal = change.goal.as_deref();
            let mine = if change.seen == 0 {
                let insert = sql!(
                    "INSERT INTO eviction_scopes (scope_id, revision, last_change, turn, goal, updated_at)
                     VALUES ($1, 1, $2, $3, $4, $5) ON CONFLICT (scope_id) DO NOTHING";
                    scope_id, &change.change_id, change.turn, goal, now_micros()
                );
                connection.execute(insert).await?
            } else {
                let update = sql!(
                    "UPDATE eviction_scopes SET revision = revision + 1, last_change = $2, turn = $3, goal = $4,
                     updated_at = $5 WHERE scope_id = $1 AND revision = $6";
                    scope_id, &change.change_id, change.turn, goal, now_micros(), change.seen
                );
                connection.execute(update).await?
            };
            if mine == 1 {
                let head = "INSERT INTO eviction_items (scope_id, ctx_id, held_by, evicted_at, body) ";
                let tail = " ON CONFLICT (scope_id, ctx_id) DO UPDATE SET held_by = excluded.held_by,
                     evicted_at = excluded.evicted_at, body = excluded.body";
                connection.insert(head, &items, tail).await?;
                for ctx_id in &change.forget {
                    let delete = sql!(
                        "DELETE FROM eviction_items WHERE scope_id = $1 AND ctx_id = $2";
                        scope_id, ctx_id
                    );
                    connection.execute(delete).await?;
                }
                for row in &change.propose {
                    let insert = sql!(
                        "INSERT INTO eviction_proposals (proposal_id, scope_id, turn_number, proposed_at, deadline_at,
                         scorer_model, body) VALUES ($1, $2, $3, $4, $5, $6, $7)";
                        &row.proposal_id, scope_id, row.turn_number, row.proposed_at, row.deadline_at,
                        &row.scorer_model, &row.body
                    );
                    connection.execute(insert).await?;
                }
                for row in &change.resolve {
                    let update = sql!(
                        "UPDATE eviction_proposals SET resolved_at = $2, resolved_by = $3, feedback = $4
                         WHERE proposal_id = $1 AND resolved_at IS NULL";
                        &row.proposal_id, row.resolved_at, &row.resolved_by, row.feedback.as_deref()
                    );
                    connection.execute(update).await?;
                }
                true
            } else {
                let select = sql!("SELECT last_change FROM eviction_scopes WHERE scope_id = $1"; scope_id);
                let last = connection.row(select).await?;
                match last {
                    Some(row) => row.get::<String>(0)? == change.change_id,
                    None => false,
                }
            }
        })
    }

    /// Returns a scope with its items and open proposals. Reads the revision first, so a change based on data
    /// that changed while reading is refused.
    pub async fn scope(self, scope_id: &str) -> Result<ScopeRow, StoreError> {
        let select = sql!("SELECT revision, turn, goal FROM eviction_scopes WHERE scope_id = $1"; scope_id);
        let head = self.0.pool.row(select).await?;
        let Some(head) = head else {
            return Ok(ScopeRow::default());
        };
        let select = sql!(
            "SELECT ctx_id, held_by, evicted_at, body FROM eviction_items
             WHERE scope_id = $1 AND evicted_at IS NULL ORDER BY ctx_id";
            scope_id
        );
        let items = self.0.pool.rows(select).await?;
        let open = format!(
            "{PROPOSAL} WHERE scope_id = $1 AND resolved_at IS NULL ORDER BY proposed_at, proposal_id"
        );
        let open = self.0.pool.rows(sql!(open; scope_id)).await?;
        Ok(columns!(head => ScopeRow {
            revision, turn, goal;
            items: items.iter().map(item).collect::<Result<_, _>>()?,
            open: open.iter().map(proposal).collect::<Result<_, _>>()?
        }))
    }

    /// Returns the revision of a scope; 0 if it does not exist.
    pub async fn revision(self, scope_id: &str) -> Result<i64, StoreError> {
        let select = sql!("SELECT revision FROM eviction_scopes WHERE scope_id = $1"; scope_id);
        let found = self.0.pool.row(select).await?;
        found.map_or(Ok(0), |row| row.get(0))
    }

    /// Returns an item, including an evicted one.
    pub async fn item(self, scope_id: &str, ctx_id: &str) -> Result<Option<ScopeItemRow>, StoreError> {
        let select = sql!(
            "SELECT ctx_id, held_by, evicted_at, body FROM eviction_items WHERE scope_id = $1 AND ctx_id = $2";
            scope_id, ctx_id
        );
        let found = self.0.pool.row(select).await?;
        found.as_ref().map(item).transpose()
    }

    /// Lists scopes after an id, ordered by id.
    pub async fn scopes(self, after: Option<&str>, limit: u32) -> Result<Vec<ScopeSummaryRow>, StoreError> {
        let select = Sql::build(SUMMARY)
            .push(" WHERE s.scope_id > ")
            .push_bind(after.unwrap_or_default())
            .push(" ORDER BY s.scope_id LIMIT ")
            .push_bind(limit);
        self.0.pool.rows(select).await?.iter().map(summary).collect()
    }

    /// Returns the summary of one scope.
    pub async fn scope_summary(self, scope_id: &str) -> Result<Option<ScopeSummaryRow>, StoreError> {
        let select = sql!(format!("{SUMMARY} WHERE s.scope_id = $1"); scope_id);
        self.0.pool.row(select).await?.as_ref().map(summary).transpose()
    }

    /// Returns a proposal.
    pub async fn proposal(self, proposal_id: &str) -> Result<Option<ProposalRow>, StoreError> {
        let found = self
            .0
            .pool
            .row(sql!(format!("{PROPOSAL} WHERE proposal_id = $1"); proposal_id))
            .await?;
        found.as_ref().map(proposal).transpose()
    }

    /// Lists proposals of a scope, or of all scopes for `None`, oldest first, one page after the given id.
    pub async fn proposals(
        self,
        scope_id: Option<&str>,
        after: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<Vec<ProposalRow>, StoreError> {
        let (time, id) = after.unwrap_or((i64::MIN, ""));
        let mut select = Sql::build(PROPOSAL)
            .push(" WHERE (proposed_at > ")
            .push_bind(time)
            .push(" OR (proposed_at = ")
            .push_bind(time)
            .push(" AND proposal_id > ")
            .push_bind(id)
            .push("))");
        if let Some(scope_id) = scope_id {
            select = select.push(" AND scope_id = ").push_bind(scope_id);
        }
        let select = select
            .push(" ORDER BY proposed_at, proposal_id LIMIT ")
            .push_bind(limit);
        self.0.pool.rows(select).await?.iter().map(proposal).collect()
    }

    /// Returns the latest proposals of a scope, or of all scopes for `None`, oldest first.
    pub async fn latest_proposals(
        self,
        scope_id: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ProposalRow>, StoreError> {
        let mut select = Sql::build(PROPOSAL);
        if let Some(scope_id) = scope_id {
            select = select.push(" WHERE scope_id = ").push_bind(scope_id);
        }
        let select = select
            .push(" ORDER BY proposed_at DESC, proposal_id DESC LIMIT ")
            .push_bind(limit);
        let rows = self.0.pool.rows(select).await?;
        rows.iter().rev().map(proposal).collect()
    }

    /// Returns the number of proposals without an answer, counted up to `limit`.
    pub async fn open_proposals(self, limit: u32) -> Result<i64, StoreError> {
        let select = sql!(
            "SELECT COUNT(*) FROM (SELECT scope_id FROM eviction_proposals WHERE resolved_at IS NULL LIMIT $1) o";
            limit
        );
        self.0.pool.one(select).await?.get(0)
    }
}

fn summary(row: &Row) -> Result<ScopeSummaryRow, StoreError> {
    Ok(columns!(row => ScopeSummaryRow { scope_id, turn, items, open_proposals, updated_at }))
}

fn item(row: &Row) -> Result<ScopeItemRow, StoreError> {
    Ok(columns!(row => ScopeItemRow { ctx_id, held_by, evicted_at, body }))
}

fn proposal(row: &Row) -> Result<ProposalRow, StoreError> {
    Ok(columns!(row => ProposalRow {
        proposal_id, scope_id, turn_number, proposed_at, deadline_at, scorer_model, resolved_at, resolved_by,
        body, feedback
    }))
}
