//! Filtered lists for people: conversations, runs of agents, and logged searches, newest first. A text is searched in
//! the latest [`WINDOW`] rows only, so that the cost of a page does not grow with the table.

use crate::agent_runs::{AgentRunRow, AgentRuns, agent_run};
use crate::bench::like_pattern;
use crate::conversations::{ConversationSummaryRow, Conversations};
use crate::evaluation::{EvalQueryRow, Evaluation, query};
use crate::memory::FeedbackRow;
use crate::partitions::{DAY, time_of_id};
use crate::sql::{Row, Sql, columns, sql, values};
use crate::{Store, StoreError, now_micros};

/// Maximum number of rows that a search for a text looks at for one page.
pub const WINDOW: i64 = 10_000;

/// Which rows to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Signal that the row has, such as `STOP`.
    pub signal: Option<String>,
    /// Text that the name contains, in any letter case.
    pub text: Option<String>,
}

/// A page of rows, and the place after which the next page starts.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage<T> {
    pub rows: Vec<T>,
    /// Time and id of the last row that was looked at; `None` at the end of the list.
    pub next: Option<(i64, String)>,
}

/// Table to list: columns, name, time column, key column, and columns that are searched.
struct Source {
    columns: &'static str,
    table: &'static str,
    time: &'static str,
    key: &'static str,
    searched: &'static [&'static str],
    /// Columns that identify a row without looking into every partition.
    identity: &'static str,
    /// The identity and the searched columns, each once.
    narrow: &'static str,
    /// Times of the partitions to read, besides the first; `None` reads all.
    within: Option<(i64, i64)>,
}

impl Source {
    /// Adds the place in the list, the filter and the partitions to a statement.
    fn narrowed(
        &self,
        select: Sql<'static>,
        filter: &ListFilter,
        before: Option<(i64, &str)>,
    ) -> Sql<'static> {
        let (at, id) = before.unwrap_or((i64::MAX, "\u{10FFFF}"));
        let mut select = select
            .push(&format!(" WHERE ({}, {}) < ", self.time, self.key))
            .push_list(values! { at, id.to_owned() });
        select = self.in_partitions(select);
        match &filter.signal {
            Some(signal) => select.push(" AND signal = ").push_bind(signal.clone()),
            None => select,
        }
    }

    fn in_partitions(&self, select: Sql<'static>) -> Sql<'static> {
        let Some((from, to)) = self.within else {
            return select;
        };
        select
            .push(" AND (partition_at = 0 OR (partition_at >= ")
            .push_bind(from)
            .push(" AND partition_at <= ")
            .push_bind(to)
            .push("))")
    }

    /// Returns the last row of the window that a search for a text looks at, if there are as many rows.
    async fn window_end(
        &self,
        store: &Store,
        filter: &ListFilter,
        before: Option<(i64, &str)>,
    ) -> Result<Option<(i64, String)>, StoreError> {
        let select = Sql::build(&format!(
            "SELECT {time} AS time, {key} AS id FROM {table}",
            time = self.time,
            key = self.key,
            table = self.table
        ));
        let end = self
            .narrowed(select, filter, before)
            .push(&self.order())
            .push_bind(1_i64)
            .push(" OFFSET ")
            .push_bind(WINDOW - 1);
        let end = store.pool.row(end).await?;
        end.map(|row| Ok((row.get("time")?, row.get("id")?))).transpose()
    }

    fn order(&self) -> String {
        format!(" ORDER BY {} DESC, {} DESC LIMIT ", self.time, self.key)
    }
}

/// Reads one page. Without a text, the page ends at its last row; with one, at the end of the window.
async fn read_page<T>(
    store: &Store,
    source: &Source,
    filter: &ListFilter,
    before: Option<(i64, &str)>,
    limit: u32,
    read: impl Fn(&Row) -> Result<T, StoreError>,
    place: impl Fn(&T) -> (i64, String),
) -> Result<ListPage<T>, StoreError> {
    let order = source.order();
    let narrowed = |select: Sql<'static>| source.narrowed(select, filter, before);
    let Some(text) = &filter.text else {
        let select = narrowed(Sql::build(&format!(
            "SELECT {} FROM {}",
            source.columns, source.table
        )));
        let select = select.push(&order).push_bind(limit + 1);
        let rows = store.pool.rows(select).await?;
        let mut rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next = rows.last().filter(|_| more).map(place);
        return Ok(ListPage { rows, next });
    };
    let pattern = like_pattern(text);
    // The window has only the columns that are searched; the large ones are read for the rows of the page.
    let mut select = narrowed(Sql::build(&format!(
        "SELECT {columns} FROM {table} WHERE ({identity}) IN (SELECT {identity} FROM (SELECT {time}, {narrow} FROM {table}",
        columns = source.columns,
        table = source.table,
        identity = source.identity,
        time = source.time,
        narrow = source.narrow,
    )))
    .push(&order)
    .push_bind(WINDOW)
    .push(") w WHERE (");
    for (number, column) in source.searched.iter().enumerate() {
        let or = if number == 0 { "" } else { " OR " };
        select = select
            .push(&format!("{or}LOWER(w.{column}) LIKE "))
            .push_bind(pattern.clone())
            .push(" ESCAPE '!'");
    }
    let select = select.push(")").push(&order).push_bind(limit + 1).push(")");
    let select = source.in_partitions(select).push(&order).push_bind(limit + 1);
    let rows = store.pool.rows(select).await?;
    let mut rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    if more {
        let next = rows.last().map(place);
        return Ok(ListPage { rows, next });
    }
    // The rest of the window does not match: the next page starts behind the window, if anything is there.
    let next = source.window_end(store, filter, before).await?;
    Ok(ListPage { rows, next })
}

impl Conversations<'_> {
    /// Lists conversations that match, most recent first.
    pub async fn list(
        self,
        filter: &ListFilter,
        before: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<ListPage<ConversationSummaryRow>, StoreError> {
        let source = Source {
            columns: "id, topic, profile, signal, score, created_at, updated_at",
            table: "conversations",
            time: "updated_at",
            key: "id",
            searched: &["topic", "id"],
            identity: "id",
            narrow: "id, topic",
            within: None,
        };
        let read = |row: &Row| {
            Ok(columns!(row => ConversationSummaryRow {
                id, topic, profile, signal, score, created_at, updated_at; rounds: 0
            }))
        };
        let place = |row: &ConversationSummaryRow| (row.updated_at, row.id.clone());
        let mut page = read_page(self.0, &source, filter, before, limit, read, place).await?;
        if page.rows.is_empty() {
            return Ok(page);
        }
        let counts = Sql::build("SELECT conversation_id, COUNT(*) FROM rounds WHERE conversation_id IN ")
            .push_list(page.rows.iter().map(|row| row.id.clone().into()))
            .push(" GROUP BY conversation_id");
        for row in self.0.pool.rows(counts).await? {
            let id: String = row.get(0)?;
            if let Some(conversation) = page.rows.iter_mut().find(|row| row.id == id) {
                conversation.rounds = row.get(1)?;
            }
        }
        Ok(page)
    }
}

impl AgentRuns<'_> {
    /// Lists runs that match, most recent first.
    pub async fn list(
        self,
        filter: &ListFilter,
        before: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<ListPage<AgentRunRow>, StoreError> {
        let source = Source {
            columns:
                "id, kind, signal, reason, messages, steps, wasted_steps, first_nudge_step, first_stop_step,
                created_at, updated_at",
            table: "agent_runs",
            time: "updated_at",
            key: "id",
            searched: &["id", "reason"],
            identity: "id",
            narrow: "id, reason",
            within: None,
        };
        let place = |row: &AgentRunRow| (row.updated_at, row.id.clone());
        read_page(self.0, &source, filter, before, limit, agent_run, place).await
    }
}

impl Evaluation<'_> {
    /// Lists logged searches that match, most recent first, each with its time.
    pub async fn recent_queries(
        self,
        filter: &ListFilter,
        before: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<ListPage<(EvalQueryRow, i64)>, StoreError> {
        self.0.query_log().flush().await;
        let mut source = Source {
            columns: QUERY_COLUMNS,
            table: "eval_queries",
            time: "created_at",
            key: "query_id",
            searched: &["query"],
            identity: "query_id, partition_at",
            narrow: "query_id, partition_at, query",
            within: None,
        };
        // Searches have no signal.
        let filter = ListFilter {
            signal: None,
            text: filter.text.clone(),
        };
        let read = |row: &Row| Ok((query(row)?, row.get("created_at")?));
        let place = |(row, at): &(EvalQueryRow, i64)| (*at, row.query_id.clone());
        if self.0.pool.is_postgres() {
            // The latest rows are in the latest partitions, mostly; if these have too few, all are read.
            let latest = before.map_or(i64::MAX, |(at, _)| at).min(now_micros());
            source.within = Some((latest - DAY, latest + DAY));
            let is_full = match &filter.text {
                Some(_) => source.window_end(self.0, &filter, before).await?.is_some(),
                None => true,
            };
            if is_full {
                let page = read_page(self.0, &source, &filter, before, limit, read, place).await?;
                if page.next.is_some() {
                    return Ok(page);
                }
            }
            source.within = None;
        }
        read_page(self.0, &source, &filter, before, limit, read, place).await
    }

    /// Returns a logged search with its time, and the feedback on its results in order.
    pub async fn logged_query(
        self,
        query_id: &str,
    ) -> Result<Option<(EvalQueryRow, i64, Vec<FeedbackRow>)>, StoreError> {
        self.0.query_log().flush().await;
        let select = Sql::build(&format!(
            "SELECT {QUERY_COLUMNS} FROM eval_queries WHERE query_id = "
        ))
        .push_bind(query_id)
        .push(" AND partition_at IN ")
        .push_list(values! { 0_i64, time_of_id(query_id) });
        let Some(row) = self.0.pool.row(select).await? else {
            return Ok(None);
        };
        let events = sql!(
            "SELECT feedback_id, event_type, session_id, query_id, memory_id, rank_in_results, metadata, created_at
             FROM eval_feedback WHERE query_id = $1 ORDER BY created_at, feedback_id LIMIT 200";
            query_id
        );
        let events = self.0.pool.rows(events).await?;
        let event = |row: &Row| {
            let metadata = row.json("metadata", format_args!("the feedback on query {query_id}"))?;
            Ok(columns!(row => FeedbackRow {
                feedback_id, event_type, session_id, query_id, memory_id, rank_in_results, created_at; metadata
            }))
        };
        let events = events.iter().map(event).collect::<Result<_, StoreError>>()?;
        Ok(Some((query(&row)?, row.get("created_at")?, events)))
    }
}

const QUERY_COLUMNS: &str = "query_id, query, intent, mode, session_id, tool_name, result_ids,
    channel_contributions, total_latency_ms, fusion_weights, quality_proxy_score, trace_id, is_eval_corpus,
    eval_category, detail, created_at";
