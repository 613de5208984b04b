//! Scopes: the contents of a context, stored in the database and cached, ranked, in memory. Changes use
//! optimistic concurrency: a change based on an outdated revision is retried on the current one.

use crate::handles::EvictionOperations;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use satiety::Hint;
use satiety::eviction::{
    ContextItem, EvictionFeedback, EvictionProposal, QUOTA, Resolution, ResolvedBy, Scope, Score, Weights,
    apply_resolution, resolve,
};
use satiety_store::eviction::{ProposalRow, ScopeChange, ScopeItemRow, ScopeSummaryRow};
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tokens::count_tokens;
use crate::EngineError;

/// Attempts to change a scope before giving up on concurrent writers.
const MAX_ATTEMPTS: u32 = 500;
/// Number of scopes that one statement reads for a complete list.
const SCOPES_PER_READ: u32 = 500;
/// Maximum number of ranked scopes cached in memory.
const MAX_CACHED: usize = 64;

/// Request to change the contents of a context.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateScopeRequest {
    /// Id of the scope; created with its first item.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub scope_id: String,
    /// Current turn; the last known one if absent.
    #[serde(default)]
    pub turn: Option<u64>,
    /// New goal of the agent.
    #[serde(default)]
    pub goal: Option<String>,
    /// Items to add. Without `token_count` the content is tokenized; without `created_turn` the current turn
    /// is used.
    #[serde(default)]
    pub add: Vec<Value>,
    /// Items used in this turn.
    #[serde(default, rename = "use")]
    pub uses: Vec<String>,
    /// Items that must never be evicted.
    #[serde(default)]
    pub pin: Vec<String>,
    /// Items that may be evicted again.
    #[serde(default)]
    pub unpin: Vec<String>,
    /// Items that the agent removed itself.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// State of a scope after a change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScopeUpdated {
    /// Id of the changed scope.
    pub scope_id: String,
    /// Current turn of the scope.
    pub turn: u64,
    /// Number of items in the context.
    pub items: usize,
    /// Total tokens of the items.
    pub tokens: u64,
    /// Ids of proposals that timed out and were therefore executed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timed_out: Vec<String>,
}

/// All scopes, or the items of one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScopeListing {
    /// Scopes with their size and open proposals.
    pub scopes: Vec<ScopeSummary>,
    /// Items of the requested scope in eviction order; items that must not be evicted are last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemSummary>,
}

/// Summary of a scope in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeSummary {
    /// Id of the listed scope.
    pub scope_id: String,
    /// Current turn of the scope.
    pub turn: i64,
    /// Number of items in the context.
    pub items: i64,
    /// Number of proposals without an answer.
    pub open_proposals: i64,
}

/// Summary of an item in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ItemSummary {
    /// Position in eviction order, from 1; absent for items that must not be evicted.
    pub rank: Option<usize>,
    /// Id of the context item.
    pub ctx_id: String,
    /// Zone that the item belongs to.
    pub zone: String,
    /// Kind of the item's content.
    pub kind: String,
    /// Size of the item in tokens.
    pub token_count: u64,
    /// Turns since the item's last use.
    pub age_turns: u64,
    /// Number of times the item was used.
    pub reference_count: u64,
    /// Whether the item is protected from eviction.
    pub pinned: bool,
    /// One line that identifies the content.
    pub snippet: String,
    /// Score of the item with its components.
    pub score: Score,
}

/// A scope in memory, as of a revision.
#[derive(Debug)]
pub(crate) struct LoadedScope {
    pub(super) scope_id: String,
    pub(super) revision: i64,
    pub(super) scope: Scope,
    pub(super) goal: Option<String>,
    pub(super) open: BTreeMap<String, EvictionProposal>,
    held: BTreeMap<String, String>,
}

/// An uncommitted change.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) change: ScopeChange,
    items: BTreeMap<String, ScopeItemRow>,
    pub(super) timed_out: Vec<String>,
}

impl EvictionOperations<'_> {
    /// Changes the contents of a context, atomically.
    pub async fn update(self, request: UpdateScopeRequest) -> Result<ScopeUpdated, EngineError> {
        let turn = match request.turn {
            Some(turn) => turn,
            None => self.load(&request.scope_id).await?.scope.turn(),
        };
        let mut add = Vec::with_capacity(request.add.len());
        for value in &request.add {
            let item = self
                .with_history(&request.scope_id, read_item(value, turn)?, turn)
                .await?;
            add.push(item);
        }
        self.change(&request.scope_id, |loaded, draft| {
            loaded.scope.advance(turn);
            if let Some(goal) = &request.goal
                && loaded.goal.as_ref() != Some(goal)
            {
                loaded.goal = Some(goal.clone());
                // Similarity to the old goal says nothing about the new one.
                for mut item in loaded.scope.items().cloned().collect::<Vec<_>>() {
                    if item.signals.semantic.take().is_some() {
                        loaded.put_back(item)?;
                    }
                }
                loaded.scope.set_goal(goal);
                loaded.keep_all(draft)?;
            }
            for item in &add {
                loaded.scope.add(item.clone())?;
                loaded.keep(&item.ctx_id, draft)?;
                for other in &item.references {
                    loaded.keep(other, draft)?;
                }
            }
            for ctx_id in &request.uses {
                loaded.scope.touch(ctx_id, turn)?;
                loaded.keep(ctx_id, draft)?;
            }
            for (ctx_id, pinned) in request
                .pin
                .iter()
                .map(|id| (id, true))
                .chain(request.unpin.iter().map(|id| (id, false)))
            {
                loaded.scope.pin(ctx_id, pinned)?;
                loaded.keep(ctx_id, draft)?;
            }
            for ctx_id in &request.remove {
                if loaded.scope.remove(ctx_id).is_none() {
                    return Err(satiety::eviction::EvictionError::NoItem {
                        ctx_id: ctx_id.clone(),
                    }
                    .into());
                }
                draft.items.remove(ctx_id);
                draft.change.forget.push(ctx_id.clone());
            }
            Ok(ScopeUpdated {
                scope_id: request.scope_id.clone(),
                turn: loaded.scope.turn(),
                items: loaded.scope.len(),
                tokens: loaded.scope.tokens(),
                timed_out: draft.timed_out.clone(),
            })
        })
        .await
    }

    /// Lists the scopes, or one of them and its items with their scores.
    pub async fn list(self, scope_id: Option<&str>) -> Result<ScopeListing, EngineError> {
        let Some(scope_id) = scope_id else {
            let mut scopes = Vec::new();
            loop {
                let last = scopes.last().map(|scope: &ScopeSummary| scope.scope_id.clone());
                let page = self.list_scopes(last.as_deref(), SCOPES_PER_READ).await?;
                let is_last = page.len() < SCOPES_PER_READ as usize;
                scopes.extend(page);
                if is_last {
                    break;
                }
            }
            return Ok(ScopeListing {
                scopes,
                items: Vec::new(),
            });
        };
        let store = self.engine.store().await?;
        let found = store.eviction().scope_summary(scope_id).await?;
        let scopes = vec![scope_summary(found.ok_or_else(|| scope_not_found(scope_id))?)];
        let loaded = self.load(scope_id).await?;
        let scope = &loaded.scope;
        let ranked: Vec<String> = scope.ranked().map(str::to_owned).collect();
        let rank: BTreeMap<&str, usize> = ranked.iter().map(String::as_str).zip(1..).collect();
        let mut items: Vec<ItemSummary> = scope
            .items()
            .filter_map(|item| {
                Some(ItemSummary {
                    rank: rank.get(item.ctx_id.as_str()).copied(),
                    ctx_id: item.ctx_id.clone(),
                    zone: item.zone.clone(),
                    kind: item.kind.clone(),
                    token_count: item.token_count,
                    age_turns: scope.age(item),
                    reference_count: item.reference_count,
                    pinned: item.pinned,
                    snippet: item.line(),
                    score: scope.score(&item.ctx_id)?,
                })
            })
            .collect();
        items.sort_by_key(|item| (item.rank.is_none(), item.rank));
        Ok(ScopeListing { scopes, items })
    }

    /// Lists scopes after an id, ordered by id.
    pub async fn list_scopes(
        self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScopeSummary>, EngineError> {
        let rows = self.engine.store().await?.eviction().scopes(after, limit).await?;
        Ok(rows.into_iter().map(scope_summary).collect())
    }

    /// Applies a change to the current revision and retries it on conflicts.
    pub(super) async fn change<T>(
        self,
        scope_id: &str,
        mut work: impl FnMut(&mut LoadedScope, &mut Draft) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let store = self.engine.store().await?;
        for attempt in 0..MAX_ATTEMPTS {
            let mut loaded = self.load(scope_id).await?;
            let mut draft = Draft::default();
            loaded.time_out(&mut draft)?;
            let answer = work(&mut loaded, &mut draft)?;
            draft.change.scope_id = scope_id.to_owned();
            draft.change.change_id = uuid::Uuid::now_v7().simple().to_string();
            draft.change.seen = loaded.revision;
            draft.change.turn = signed(loaded.scope.turn());
            draft.change.goal.clone_from(&loaded.goal);
            draft.change.items = draft.items.into_values().collect();
            if store.eviction().change_scope(&draft.change).await? {
                loaded.revision += 1;
                self.cache_scope(loaded);
                return Ok(answer);
            }
            // The other writer is at most a few milliseconds ahead; the jitter keeps two writers from
            // colliding again.
            let spread = uuid::Uuid::now_v7().as_u128() % 7;
            tokio::time::sleep(Duration::from_millis(
                u64::from(attempt.min(20)) + u64::try_from(spread).unwrap_or(0),
            ))
            .await;
        }
        Err(EngineError::Invalid {
            message: format!("too many concurrent changes to scope `{scope_id}`; nothing was changed"),
            hint: "try again, or use one scope for each agent".into(),
        })
    }

    /// Returns a scope at its current revision: from the cache if unchanged, else from the database.
    pub(super) async fn load(self, scope_id: &str) -> Result<LoadedScope, EngineError> {
        if scope_id.trim().is_empty() {
            return Err(EngineError::Invalid {
                message: "empty scope id".into(),
                hint: "name it after the agent or the session, such as `session-42`".into(),
            });
        }
        let store = self.engine.store().await?;
        let weights = self.active_weights().await?;
        let revision = store.eviction().revision(scope_id).await?;
        let remembered = self
            .engine
            .eviction
            .scopes
            .lock()
            .ok()
            .and_then(|mut scopes| scopes.remove(scope_id));
        if let Some(mut loaded) = remembered.filter(|loaded| loaded.revision == revision) {
            if *loaded.scope.weights() != weights {
                loaded.scope.set_weights(weights)?;
            }
            return Ok(loaded);
        }
        let row = store.eviction().scope(scope_id).await?;
        let mut scope = Scope::new(weights)?;
        let mut held = BTreeMap::new();
        let mut items: Vec<(ContextItem, Option<String>)> = Vec::with_capacity(row.items.len());
        for item in row.items {
            let what = || format!("item `{}` of scope `{scope_id}`", item.ctx_id);
            items.push((parse(&item.body, what)?, item.held_by));
        }
        // Items of earlier versions have no position; the turn in which they were added is the next best.
        items.sort_by_key(|(item, _)| (item.position, item.created_turn));
        for (item, held_by) in items {
            let ctx_id = item.ctx_id.clone();
            scope.insert(item)?;
            if let Some(proposal) = held_by {
                scope.hold(&ctx_id, true)?;
                held.insert(ctx_id, proposal);
            }
        }
        if let Some(goal) = &row.goal {
            scope.set_goal(goal);
        }
        scope.advance(u64::try_from(row.turn).unwrap_or(0));
        let mut open = BTreeMap::new();
        for proposal in row.open {
            open.insert(
                proposal.proposal_id.clone(),
                parse(&proposal.body, || proposal.proposal_id.clone())?,
            );
        }
        Ok(LoadedScope {
            scope_id: scope_id.to_owned(),
            revision: row.revision,
            scope,
            goal: row.goal,
            open,
            held,
        })
    }

    fn cache_scope(self, loaded: LoadedScope) {
        if let Ok(mut scopes) = self.engine.eviction.scopes.lock() {
            if scopes.len() >= MAX_CACHED {
                scopes.pop_first();
            }
            scopes.insert(loaded.scope_id.clone(), loaded);
        }
    }

    /// An item that returns after eviction keeps its age and its use count.
    async fn with_history(
        self,
        scope_id: &str,
        mut item: ContextItem,
        turn: u64,
    ) -> Result<ContextItem, EngineError> {
        let Some(row) = self
            .engine
            .store()
            .await?
            .eviction()
            .item(scope_id, &item.ctx_id)
            .await?
        else {
            return Ok(item);
        };
        if row.evicted_at.is_none() || item.reference_count > 0 {
            return Ok(item);
        }
        let old: ContextItem = parse(&row.body, || item.ctx_id.clone())?;
        item.created_turn = old.created_turn.min(turn);
        item.last_referenced_turn = old.last_referenced_turn.min(turn).max(item.created_turn);
        (item.reference_count, item.heat) = (old.reference_count, old.heat);
        item.touch(turn);
        Ok(item)
    }
}

impl LoadedScope {
    /// Adds the current state of an item to the change.
    pub(super) fn keep(&self, ctx_id: &str, draft: &mut Draft) -> Result<(), EngineError> {
        if let Some(item) = self.scope.item(ctx_id) {
            let row = ScopeItemRow {
                ctx_id: ctx_id.to_owned(),
                held_by: self.held.get(ctx_id).cloned(),
                evicted_at: None,
                body: serde_json::to_string(item)?,
            };
            draft.items.insert(ctx_id.to_owned(), row);
        }
        Ok(())
    }

    pub(super) fn keep_all(&self, draft: &mut Draft) -> Result<(), EngineError> {
        let ids: Vec<String> = self.scope.items().map(|item| item.ctx_id.clone()).collect();
        ids.iter().try_for_each(|id| self.keep(id, draft))
    }

    /// Replaces an item with a changed copy.
    pub(super) fn put_back(&mut self, item: ContextItem) -> Result<(), EngineError> {
        let ctx_id = item.ctx_id.clone();
        self.scope.insert(item)?;
        if self.held.contains_key(&ctx_id) {
            self.scope.hold(&ctx_id, true)?;
        }
        Ok(())
    }

    /// Registers a new proposal: its candidates are in no other proposal until it is answered.
    pub(super) fn open(&mut self, proposal: &EvictionProposal, draft: &mut Draft) -> Result<(), EngineError> {
        for candidate in &proposal.candidates {
            self.scope.hold(&candidate.ctx_id, true)?;
            self.held
                .insert(candidate.ctx_id.clone(), proposal.proposal_id.clone());
            self.keep(&candidate.ctx_id, draft)?;
        }
        draft.change.propose.push(row(proposal)?);
        self.open.insert(proposal.proposal_id.clone(), proposal.clone());
        Ok(())
    }

    /// Applies the outcome of a proposal.
    pub(super) fn close(
        &mut self,
        proposal: &EvictionProposal,
        feedback: &EvictionFeedback,
        draft: &mut Draft,
    ) -> Result<(), EngineError> {
        let second = feedback.second_pass.iter().map(|item| &item.ctx_id);
        for ctx_id in feedback.evicted.iter().chain(second) {
            if let Some(item) = self.scope.item(ctx_id) {
                let mut gone = item.clone();
                // The history of the item is kept, its content is not.
                (gone.content, gone.snippet) = (None, Some(item.line()));
                let row = ScopeItemRow {
                    ctx_id: ctx_id.clone(),
                    held_by: None,
                    evicted_at: Some(feedback.resolved_at.as_microsecond()),
                    body: serde_json::to_string(&gone)?,
                };
                draft.items.insert(ctx_id.clone(), row);
            }
        }
        apply_resolution(&mut self.scope, proposal, feedback);
        for candidate in &proposal.candidates {
            self.held.remove(&candidate.ctx_id);
            self.keep(&candidate.ctx_id, draft)?;
        }
        self.open.remove(&proposal.proposal_id);
        draft.change.resolve.push(ProposalRow {
            resolved_at: Some(feedback.resolved_at.as_microsecond()),
            resolved_by: Some(feedback.resolved_by.name().to_owned()),
            feedback: Some(serde_json::to_string(feedback)?),
            ..row(proposal)?
        });
        Ok(())
    }

    /// Applies proposals that have timed out.
    fn time_out(&mut self, draft: &mut Draft) -> Result<(), EngineError> {
        let now = now()?;
        let due: Vec<EvictionProposal> = self
            .open
            .values()
            .filter(|proposal| deadline(proposal) < now.as_microsecond())
            .cloned()
            .collect();
        for proposal in due {
            let resolution = Resolution {
                resolved_by: ResolvedBy::Timeout,
                exclude: Vec::new(),
                resolved_at: now,
                quota: QUOTA,
            };
            let feedback = resolve(&self.scope, &proposal, &resolution)?;
            self.close(&proposal, &feedback, draft)?;
            draft.timed_out.push(proposal.proposal_id);
        }
        Ok(())
    }
}

/// Returns the time when a proposal times out, in microseconds.
pub(super) fn deadline(proposal: &EvictionProposal) -> i64 {
    let timeout = signed(proposal.timeout_ms).saturating_mul(1000);
    proposal.proposed_at.as_microsecond().saturating_add(timeout)
}

pub(super) fn now() -> Result<Timestamp, EngineError> {
    Timestamp::from_microsecond(now_micros()).map_err(|error| EngineError::Invalid {
        message: format!("the system clock is out of range: {error}"),
        hint: "correct the system clock".into(),
    })
}

pub(crate) fn scope_summary(row: ScopeSummaryRow) -> ScopeSummary {
    ScopeSummary {
        scope_id: row.scope_id,
        turn: row.turn,
        items: row.items,
        open_proposals: row.open_proposals,
    }
}

pub(super) fn scope_not_found(scope_id: &str) -> EngineError {
    EngineError::NotFound {
        what: format!("scope `{scope_id}`"),
        hint: Hint::with_command(
            "a scope is created with its first item; list the scopes to see their names",
            "satiety evict list",
        ),
    }
}

/// Parses JSON from the database.
pub(super) fn parse<T: serde::de::DeserializeOwned>(
    text: &str,
    what: impl FnOnce() -> String,
) -> Result<T, EngineError> {
    serde_json::from_str(text).map_err(|error| EngineError::Invalid {
        message: format!("cannot parse {} from the database: {error}", what()),
        hint:
            "it was written by another version of satiety; `satiety db status --check` checks for corruption"
                .into(),
    })
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn row(proposal: &EvictionProposal) -> Result<ProposalRow, EngineError> {
    Ok(ProposalRow {
        proposal_id: proposal.proposal_id.clone(),
        scope_id: proposal.scope_id.clone(),
        turn_number: signed(proposal.turn_number),
        proposed_at: proposal.proposed_at.as_microsecond(),
        deadline_at: deadline(proposal),
        scorer_model: proposal.scorer_model.clone(),
        resolved_at: None,
        resolved_by: None,
        body: serde_json::to_string(proposal)?,
        feedback: None,
    })
}

/// Parses an item from a request; counts its tokens if it states no size.
fn read_item(value: &Value, turn: u64) -> Result<ContextItem, EngineError> {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        if !fields.contains_key("token_count")
            && let Some(content) = fields.get("content").and_then(Value::as_str)
        {
            let tokens = count_tokens(content);
            fields.insert("token_count".into(), tokens.into());
        }
        fields.entry("created_turn").or_insert_with(|| turn.into());
        let created = fields.get("created_turn").cloned().unwrap_or_default();
        fields.entry("last_referenced_turn").or_insert(created);
    }
    serde_path_to_error::deserialize(&value).map_err(|error| EngineError::Invalid {
        message: format!("cannot parse item: {error}"),
        hint: "an item needs ctx_id, zone, and content or token_count; docs/guides/eviction.md has the rest"
            .into(),
    })
}

/// Returns built-in weights by name, without a database.
pub(super) fn built_in_weights(name: &str) -> Option<Weights> {
    let heuristic = Weights::heuristic();
    (name == "heuristic" || name == "baseline" || name == heuristic.version).then_some(heuristic)
}
