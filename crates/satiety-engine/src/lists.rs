//! Filtered lists of conversations, runs of agents, contexts, research and logged searches, for pages that people
//! browse.

use satiety::Hint;
use satiety_store::lists::ListPage;
pub use satiety_store::lists::{ListFilter, ListOrder, ListSort, SortValue, SortedPage, WINDOW};

use crate::conversations::{ConversationSummary, conversation_summary};
use crate::eviction::{ScopeSummary, scope_summary};
use crate::handles::{
    DialogueOperations, EvictionOperations, MemoryOperations, ProgressOperations, ResearchOperations,
};
use crate::progress::{RunSummary, agent_run_summary};
use crate::research::ResearchSummary;
use crate::{EngineError, time};

/// Cursor of a page: time in microseconds and id of the last row.
pub type Before = Option<(i64, String)>;

/// Cursor of a page of a list that can be sorted: sort value and id of the last row.
pub type SortedPlace = Option<(SortValue, String)>;

/// Logged search of the memory.
#[derive(Debug, Clone)]
pub struct LoggedSearch {
    pub query_id: String,
    pub query: String,
    pub intent: Option<String>,
    pub mode: Option<String>,
    pub session: Option<String>,
    /// Tool that searched.
    pub tool: String,
    /// Ids of the results in order of their ranks.
    pub results: Vec<String>,
    /// Channels that found each result, with their ids of results.
    pub channels: Vec<(String, Vec<String>)>,
    /// Why each result was found, in order of their ranks; empty for searches of earlier versions.
    pub found: Vec<FoundResult>,
    /// Weights of the channels, as JSON.
    pub weights: Option<serde_json::Value>,
    pub latency_ms: Option<f64>,
    /// Estimate of the quality of the results, from 0 to 1.
    pub quality: Option<f64>,
    /// Why the search ran with less than all channels.
    pub degraded: Option<String>,
    pub at: jiff::Timestamp,
}

/// Why a search found a result.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundResult {
    /// Relevance score after ranking.
    pub score: Option<f64>,
    /// Calibrated probability from 0 to 1 that the result is relevant.
    pub confidence: Option<f64>,
    /// Rank in each channel that found it, from 1.
    pub ranks: Vec<(String, u64)>,
}

/// Page of logged searches, newest first.
#[derive(Debug, Clone)]
pub struct SearchLog {
    pub searches: Vec<LoggedSearch>,
    pub next: Before,
}

/// Page of contexts of agents, most recently changed first.
#[derive(Debug, Clone)]
pub struct ScopeList {
    pub scopes: Vec<ScopeSummary>,
    pub next: Before,
}

/// Page of research runs, newest first.
#[derive(Debug, Clone)]
pub struct ResearchList {
    pub runs: Vec<ResearchSummary>,
    pub next: Before,
}

/// Logged search with what happened afterwards.
#[derive(Debug, Clone)]
pub struct SearchDetail {
    pub search: LoggedSearch,
    /// Titles of the results that still exist, by id.
    pub titles: Vec<(String, String)>,
    pub events: Vec<SearchEvent>,
}

/// Feedback on a result of a search.
#[derive(Debug, Clone)]
pub struct SearchEvent {
    /// Kind of event, such as `read_after_search`.
    pub kind: String,
    pub memory_id: Option<String>,
    pub rank: Option<i64>,
    /// Query that followed, for a search that was repeated.
    pub followed_by: Option<String>,
    pub at: jiff::Timestamp,
}

impl DialogueOperations<'_> {
    /// Lists conversations that match.
    pub async fn find_conversations(
        self,
        filter: &ListFilter,
        after: &SortedPlace,
        limit: u32,
    ) -> Result<SortedPage<ConversationSummary>, EngineError> {
        let after = after.as_ref().map(|(value, id)| (*value, id.as_str()));
        let store = self.engine.reader().await?;
        let page = store.conversations().list(filter, after, limit).await?;
        Ok(SortedPage {
            rows: page.rows.into_iter().map(conversation_summary).collect(),
            next: page.next,
        })
    }
}

impl ProgressOperations<'_> {
    /// Lists runs of agents that match.
    pub async fn find_runs(
        self,
        filter: &ListFilter,
        after: &SortedPlace,
        limit: u32,
    ) -> Result<SortedPage<RunSummary>, EngineError> {
        let after = after.as_ref().map(|(value, id)| (*value, id.as_str()));
        let store = self.engine.reader().await?;
        let page = store.agent_runs().list(filter, after, limit).await?;
        Ok(SortedPage {
            rows: page.rows.into_iter().map(agent_run_summary).collect(),
            next: page.next,
        })
    }
}

impl EvictionOperations<'_> {
    /// Lists contexts whose id or goal contains a text, most recently changed first.
    pub async fn find_scopes(
        self,
        text: Option<&str>,
        before: &Before,
        limit: u32,
    ) -> Result<ScopeList, EngineError> {
        let before = before.as_ref().map(|(at, id)| (*at, id.as_str()));
        let store = self.engine.reader().await?;
        let ListPage { rows, next } = store.eviction().find_scopes(text, before, limit).await?;
        Ok(ScopeList {
            scopes: rows.into_iter().map(scope_summary).collect(),
            next,
        })
    }

    /// Returns the number of proposals without an answer, counted up to `limit`.
    pub async fn open_proposals(self, limit: u32) -> Result<i64, EngineError> {
        let store = self.engine.reader().await?;
        Ok(store.eviction().open_proposals(limit).await?)
    }
}

impl ResearchOperations<'_> {
    /// Lists research runs whose task contains a text, newest first.
    pub async fn find_runs(
        self,
        text: Option<&str>,
        before: &Before,
        limit: u32,
    ) -> Result<ResearchList, EngineError> {
        let before = before.as_ref().map(|(at, id)| (*at, id.as_str()));
        let store = self.engine.reader().await?;
        let ListPage { rows, next } = store.research().find_runs(text, before, limit).await?;
        let runs = rows.into_iter().map(|(row, rounds)| ResearchSummary {
            run_id: row.run_id,
            task: row.task,
            source: row.source,
            rounds,
            stop_reason: row.stop_reason,
            started_at: time(row.started_at),
            completed_at: row.completed_at.map(time),
        });
        Ok(ResearchList {
            runs: runs.collect(),
            next,
        })
    }
}

impl MemoryOperations<'_> {
    /// Lists logged searches that match, newest first.
    pub async fn search_log(
        self,
        filter: &ListFilter,
        before: &Before,
        limit: u32,
    ) -> Result<SearchLog, EngineError> {
        let before = before.as_ref().map(|(at, id)| (*at, id.as_str()));
        let store = self.engine.reader().await?;
        let ListPage { rows, next } = store.evaluation().recent_queries(filter, before, limit).await?;
        let searches = rows.into_iter().map(|(row, at)| logged_search(row, at)).collect();
        Ok(SearchLog { searches, next })
    }

    /// Returns a logged search with what happened afterwards.
    pub async fn logged_search(self, query_id: &str) -> Result<SearchDetail, EngineError> {
        let store = self.engine.reader().await?;
        let found = store.evaluation().logged_query(query_id).await?;
        let (row, at, events) = found.ok_or_else(|| EngineError::NotFound {
            what: format!("search `{query_id}`"),
            hint: Hint::from("choose one from the list of searches"),
        })?;
        let search = logged_search(row, at);
        // A deleted memory has no title any more.
        let found = store.memories().by_id(&search.results).await?;
        let titles = found.into_iter().map(|row| (row.memory_id, row.title)).collect();
        let events = events.into_iter().map(|event| SearchEvent {
            followed_by: event
                .metadata
                .get("asked_again_as")
                .and_then(|id| id.as_str().map(str::to_owned)),
            kind: event.event_type,
            memory_id: event.memory_id,
            rank: event.rank_in_results,
            at: time(event.created_at),
        });
        Ok(SearchDetail {
            events: events.collect(),
            search,
            titles,
        })
    }
}

fn logged_search(row: satiety_store::evaluation::EvalQueryRow, at: i64) -> LoggedSearch {
    let channels = row.channel_contributions.as_object().into_iter().flatten();
    let channels = channels.map(|(channel, ids)| {
        let ids = ids.as_array().into_iter().flatten();
        let ids = ids.filter_map(|id| id.as_str().map(str::to_owned));
        (channel.clone(), ids.collect())
    });
    let found = row.detail["found"].as_array().into_iter().flatten();
    let found = found.map(|result| FoundResult {
        score: result["score"].as_f64(),
        confidence: result["confidence"].as_f64(),
        ranks: result["ranks"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(channel, rank)| Some((channel.clone(), rank.as_u64()?)))
            .collect(),
    });
    LoggedSearch {
        found: found.collect(),
        channels: channels.collect(),
        degraded: row
            .detail
            .get("degraded")
            .and_then(|why| why.as_str().map(str::to_owned)),
        query_id: row.query_id,
        query: row.query,
        intent: row.intent,
        mode: row.mode,
        session: row.session_id,
        tool: row.tool_name,
        results: row.result_ids,
        weights: row.fusion_weights,
        latency_ms: row.total_latency_ms,
        quality: row.quality_proxy_score,
        at: time(at),
    }
}
