//! Scopes, their items and proposals. A scope changes as a whole: whoever changes it says which revision they have seen,
//! and a change on top of another one is refused, so that two callers can never drop the same item.

use sqlx::QueryBuilder;

use super::Eviction;
use crate::pool::{in_transaction, reading};
use crate::{StoreError, now_micros, storable};

/// Rows in one statement: the engines' limits on bound values are 32,766 and 65,535.
const ROWS_PER_STATEMENT: usize = 500;

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

type ProposalColumns = (
    String,
    String,
    i64,
    i64,
    i64,
    String,
    Option<i64>,
    Option<String>,
    String,
    Option<String>,
);

const PROPOSAL: &str =
    "SELECT proposal_id, scope_id, turn_number, proposed_at, deadline_at, scorer_model, resolved_at,
    resolved_by, body, feedback FROM eviction_proposals";

impl Eviction<'_> {
    /// Changes a scope, unless somebody else has changed it since; says whether it was changed.
    pub async fn change_scope(self, change: &ScopeChange) -> Result<bool, StoreError> {
        let scope_id = storable(&change.scope_id);
        in_transaction!(&self.0.pool, |connection| {
            let goal = change.goal.as_deref().map(storable);
            let mine = if change.seen == 0 {
                sqlx::query(
                    "INSERT INTO eviction_scopes (scope_id, revision, last_change, turn, goal, updated_at)
                     VALUES ($1, 1, $2, $3, $4, $5) ON CONFLICT (scope_id) DO NOTHING",
                )
                .bind(&scope_id)
                .bind(&change.change_id)
                .bind(change.turn)
                .bind(&goal)
                .bind(now_micros())
                .execute(&mut *connection)
                .await?
                .rows_affected()
            } else {
                sqlx::query(
                    "UPDATE eviction_scopes SET revision = revision + 1, last_change = $2, turn = $3, goal = $4,
                         updated_at = $5 WHERE scope_id = $1 AND revision = $6",
                )
                .bind(&scope_id)
                .bind(&change.change_id)
                .bind(change.turn)
                .bind(&goal)
                .bind(now_micros())
                .bind(change.seen)
                .execute(&mut *connection)
                .await?
                .rows_affected()
            };
            if mine == 1 {
                for rows in change.items.chunks(ROWS_PER_STATEMENT) {
                    let mut insert = QueryBuilder::new(
                        "INSERT INTO eviction_items (scope_id, ctx_id, held_by, evicted_at, body) ",
                    );
                    insert.push_values(rows, |mut values, row| {
                        values
                            .push_bind(&scope_id)
                            .push_bind(storable(&row.ctx_id))
                            .push_bind(&row.held_by)
                            .push_bind(row.evicted_at)
                            .push_bind(storable(&row.body));
                    });
                    insert.push(
                        " ON CONFLICT (scope_id, ctx_id) DO UPDATE SET held_by = excluded.held_by,
                             evicted_at = excluded.evicted_at, body = excluded.body",
                    );
                    insert.build().execute(&mut *connection).await?;
                }
                for ctx_id in &change.forget {
                    sqlx::query("DELETE FROM eviction_items WHERE scope_id = $1 AND ctx_id = $2")
                        .bind(&scope_id)
                        .bind(storable(ctx_id))
                        .execute(&mut *connection)
                        .await?;
                }
                for row in &change.propose {
                    sqlx::query(
                        "INSERT INTO eviction_proposals (proposal_id, scope_id, turn_number, proposed_at, deadline_at,
                             scorer_model, body) VALUES ($1, $2, $3, $4, $5, $6, $7)",
                    )
                    .bind(storable(&row.proposal_id))
                    .bind(&scope_id)
                    .bind(row.turn_number)
                    .bind(row.proposed_at)
                    .bind(row.deadline_at)
                    .bind(storable(&row.scorer_model))
                    .bind(storable(&row.body))
                    .execute(&mut *connection)
                    .await?;
                }
                for row in &change.resolve {
                    sqlx::query(
                        "UPDATE eviction_proposals SET resolved_at = $2, resolved_by = $3, feedback = $4
                         WHERE proposal_id = $1 AND resolved_at IS NULL",
                    )
                    .bind(storable(&row.proposal_id))
                    .bind(row.resolved_at)
                    .bind(&row.resolved_by)
                    .bind(row.feedback.as_deref().map(storable))
                    .execute(&mut *connection)
                    .await?;
                }
                true
            } else {
                let last: Option<(String,)> =
                    sqlx::query_as("SELECT last_change FROM eviction_scopes WHERE scope_id = $1")
                        .bind(&scope_id)
                        .fetch_optional(&mut *connection)
                        .await?;
                last.is_some_and(|(last,)| last == change.change_id)
            }
        })
    }

    /// A scope with what is in its context and its open proposals. The revision is read first, so a change that builds
    /// on something that was changed while reading is refused.
    pub async fn scope(self, scope_id: &str) -> Result<ScopeRow, StoreError> {
        let scope_id = storable(scope_id);
        let head: Option<(i64, i64, Option<String>)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT revision, turn, goal FROM eviction_scopes WHERE scope_id = $1"
        )
        .bind(&scope_id)
        .fetch_optional(connection)
        .await?)?;
        let Some((revision, turn, goal)) = head else {
            return Ok(ScopeRow::default());
        };
        let items: Vec<(String, Option<String>, String)> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT ctx_id, held_by, body FROM eviction_items WHERE scope_id = $1 AND evicted_at IS NULL ORDER BY ctx_id"
        )
        .bind(&scope_id)
        .fetch_all(connection)
        .await?
        })?;
        let open: Vec<ProposalColumns> = reading!(&self.0.pool, |connection| {
            let mut query = QueryBuilder::new(PROPOSAL);
            query.push(" WHERE scope_id = ").push_bind(&scope_id);
            query.push(" AND resolved_at IS NULL ORDER BY proposed_at, proposal_id");
            query.build_query_as().fetch_all(connection).await?
        })?;
        let item = |(ctx_id, held_by, body)| ScopeItemRow {
            ctx_id,
            held_by,
            evicted_at: None,
            body,
        };
        Ok(ScopeRow {
            revision,
            turn,
            goal,
            items: items.into_iter().map(item).collect(),
            open: open.into_iter().map(proposal).collect(),
        })
    }

    /// The revision of a scope; 0 when it is not there.
    pub async fn revision(self, scope_id: &str) -> Result<i64, StoreError> {
        let found: Option<(i64,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT revision FROM eviction_scopes WHERE scope_id = $1"
        )
        .bind(storable(scope_id))
        .fetch_optional(connection)
        .await?)?;
        Ok(found.map_or(0, |(revision,)| revision))
    }

    /// An item, also one that went.
    pub async fn item(self, scope_id: &str, ctx_id: &str) -> Result<Option<ScopeItemRow>, StoreError> {
        let found: Option<(Option<String>, Option<i64>, String)> =
            reading!(&self.0.pool, |connection| sqlx::query_as(
                "SELECT held_by, evicted_at, body FROM eviction_items WHERE scope_id = $1 AND ctx_id = $2"
            )
            .bind(storable(scope_id))
            .bind(storable(ctx_id))
            .fetch_optional(connection)
            .await?)?;
        Ok(found.map(|(held_by, evicted_at, body)| ScopeItemRow {
            ctx_id: ctx_id.to_owned(),
            held_by,
            evicted_at,
            body,
        }))
    }

    /// All scopes, by id.
    pub async fn scopes(self) -> Result<Vec<ScopeSummaryRow>, StoreError> {
        let rows: Vec<(String, i64, i64, i64, i64)> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT s.scope_id, s.turn,
                 (SELECT COUNT(*) FROM eviction_items i WHERE i.scope_id = s.scope_id AND i.evicted_at IS NULL),
                 (SELECT COUNT(*) FROM eviction_proposals p WHERE p.scope_id = s.scope_id AND p.resolved_at IS NULL),
                 s.updated_at
             FROM eviction_scopes s ORDER BY s.scope_id"
        )
        .fetch_all(connection)
        .await?
        })?;
        let row = |(scope_id, turn, items, open_proposals, updated_at)| ScopeSummaryRow {
            scope_id,
            turn,
            items,
            open_proposals,
            updated_at,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// A proposal.
    pub async fn proposal(self, proposal_id: &str) -> Result<Option<ProposalRow>, StoreError> {
        let found: Option<ProposalColumns> = reading!(&self.0.pool, |connection| {
            let mut query = QueryBuilder::new(PROPOSAL);
            query
                .push(" WHERE proposal_id = ")
                .push_bind(storable(proposal_id));
            query.build_query_as().fetch_optional(connection).await?
        })?;
        Ok(found.map(proposal))
    }

    /// Proposals of a scope, or of all where none is named, the oldest first, a page after the id given.
    pub async fn proposals(
        self,
        scope_id: Option<&str>,
        after: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<Vec<ProposalRow>, StoreError> {
        let (time, id) = after.unwrap_or((i64::MIN, ""));
        let rows: Vec<ProposalColumns> = reading!(&self.0.pool, |connection| {
            let mut query = QueryBuilder::new(PROPOSAL);
            query.push(" WHERE (proposed_at > ").push_bind(time);
            query.push(" OR (proposed_at = ").push_bind(time);
            query
                .push(" AND proposal_id > ")
                .push_bind(storable(id))
                .push("))");
            if let Some(scope_id) = scope_id {
                query.push(" AND scope_id = ").push_bind(storable(scope_id));
            }
            query
                .push(" ORDER BY proposed_at, proposal_id LIMIT ")
                .push_bind(i64::from(limit));
            query.build_query_as().fetch_all(connection).await?
        })?;
        Ok(rows.into_iter().map(proposal).collect())
    }
}

fn proposal(columns: ProposalColumns) -> ProposalRow {
    let (
        proposal_id,
        scope_id,
        turn_number,
        proposed_at,
        deadline_at,
        scorer_model,
        resolved_at,
        resolved_by,
        body,
        feedback,
    ) = columns;
    ProposalRow {
        proposal_id,
        scope_id,
        turn_number,
        proposed_at,
        deadline_at,
        scorer_model,
        resolved_at,
        resolved_by,
        body,
        feedback,
    }
}
