//! Scopes, their items and proposals. A scope changes as a whole: whoever changes it says which revision they have seen,
//! and a change on top of another one is refused, so that two callers can never drop the same item.

use super::Eviction;
use crate::pool::in_transaction;
use crate::sql::{Row, Sql, columns, sql, values};
use crate::{StoreError, now_micros};

/// A scope as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeRow {
    /// How often it was changed; 0 when it is not there.
    pub revision: i64,
    /// The present turn.
    pub turn: i64,
    /// What the agent is after.
    pub goal: Option<String>,
    /// What is in the context, by id.
    pub items: Vec<ScopeItemRow>,
    /// Proposals that nobody has answered, the oldest first.
    pub open: Vec<ProposalRow>,
}

/// An item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeItemRow {
    /// Its id in the scope.
    pub ctx_id: String,
    /// The open proposal that it is in.
    pub held_by: Option<String>,
    /// When it went, in microseconds; absent while it is in the context.
    pub evicted_at: Option<i64>,
    /// All of it, as JSON.
    pub body: String,
}

/// A proposal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProposalRow {
    /// Its id.
    pub proposal_id: String,
    /// The scope.
    pub scope_id: String,
    /// The turn it was made in.
    pub turn_number: i64,
    /// When, in microseconds.
    pub proposed_at: i64,
    /// When it times out, in microseconds.
    pub deadline_at: i64,
    /// The version of the scorer.
    pub scorer_model: String,
    /// When it was answered.
    pub resolved_at: Option<i64>,
    /// By whom.
    pub resolved_by: Option<String>,
    /// All of it, as JSON.
    pub body: String,
    /// What came of it, as JSON.
    pub feedback: Option<String>,
}

/// A scope in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeSummaryRow {
    /// The scope.
    pub scope_id: String,
    /// The present turn.
    pub turn: i64,
    /// Items in the context.
    pub items: i64,
    /// Proposals that nobody has answered.
    pub open_proposals: i64,
    /// When it was last changed, in microseconds.
    pub updated_at: i64,
}

/// A change of a scope: all of it happens, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeChange {
    /// The scope.
    pub scope_id: String,
    /// A name of its own: a change that is sent again after a lost connection is recognised by it.
    pub change_id: String,
    /// The revision that it builds on.
    pub seen: i64,
    /// The turn from now on.
    pub turn: i64,
    /// The goal from now on.
    pub goal: Option<String>,
    /// Items that are new or different.
    pub items: Vec<ScopeItemRow>,
    /// Items to be forgotten altogether.
    pub forget: Vec<String>,
    /// Proposals that are new.
    pub propose: Vec<ProposalRow>,
    /// Proposals that are answered.
    pub resolve: Vec<ProposalRow>,
}

const PROPOSAL: &str =
    "SELECT proposal_id, scope_id, turn_number, proposed_at, deadline_at, scorer_model, resolved_at,
    resolved_by, body, feedback FROM eviction_proposals";

impl Eviction<'_> {
    /// Changes a scope, unless somebody else has changed it since; says whether it was changed.
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

    /// A scope with what is in its context and its open proposals. The revision is read first, so a change that builds
    /// on something that was changed while reading is refused.
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

    /// The revision of a scope; 0 when it is not there.
    pub async fn revision(self, scope_id: &str) -> Result<i64, StoreError> {
        let select = sql!("SELECT revision FROM eviction_scopes WHERE scope_id = $1"; scope_id);
        let found = self.0.pool.row(select).await?;
        found.map_or(Ok(0), |row| row.get(0))
    }

    /// An item, also one that went.
    pub async fn item(self, scope_id: &str, ctx_id: &str) -> Result<Option<ScopeItemRow>, StoreError> {
        let select = sql!(
            "SELECT ctx_id, held_by, evicted_at, body FROM eviction_items WHERE scope_id = $1 AND ctx_id = $2";
            scope_id, ctx_id
        );
        let found = self.0.pool.row(select).await?;
        found.as_ref().map(item).transpose()
    }

    /// All scopes, by id.
    pub async fn scopes(self) -> Result<Vec<ScopeSummaryRow>, StoreError> {
        let select = sql!(
            "SELECT s.scope_id, s.turn,
                 (SELECT COUNT(*) FROM eviction_items i WHERE i.scope_id = s.scope_id AND i.evicted_at IS NULL) AS items,
                 (SELECT COUNT(*) FROM eviction_proposals p WHERE p.scope_id = s.scope_id AND p.resolved_at IS NULL) AS open_proposals,
                 s.updated_at
             FROM eviction_scopes s ORDER BY s.scope_id"
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            Ok(columns!(row => ScopeSummaryRow { scope_id, turn, items, open_proposals, updated_at }))
        };
        rows.iter().map(row).collect()
    }

    /// A proposal.
    pub async fn proposal(self, proposal_id: &str) -> Result<Option<ProposalRow>, StoreError> {
        let found = self
            .0
            .pool
            .row(sql!(format!("{PROPOSAL} WHERE proposal_id = $1"); proposal_id))
            .await?;
        found.as_ref().map(proposal).transpose()
    }

    /// Proposals of a scope, or of all where none is named, the oldest first, a page after the id given.
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
