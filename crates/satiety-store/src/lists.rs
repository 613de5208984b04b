//! Filtered lists for people: conversations, runs of agents, benchmark runs, contexts, research and logged searches, newest
//! first unless another order is chosen. Conditions without an index are checked for [`WINDOW`] rows only, so that the
//! cost of a page does not grow with the table.

use serde::{Deserialize, Serialize};

use crate::agent_runs::{AgentRunRow, AgentRuns, agent_run};
use crate::bench::{Bench, BenchRunRow, RunFilter, like_pattern, run_head};
use crate::conversations::{ConversationSummaryRow, Conversations};
use crate::evaluation::{EvalQueryRow, Evaluation, query};
use crate::eviction::{Eviction, ScopeSummaryRow};
use crate::memory::FeedbackRow;
use crate::partitions::{DAY, time_of_id};
use crate::research::{Research, ResearchRunRow};
use crate::sql::{Column, EngineRow, Index, Row, Sql, Value, columns, sql, values};
use crate::{Store, StoreError, now_micros};

/// Maximum number of rows that are looked at for one page of a filtered list.
pub const WINDOW: i64 = 10_000;

/// Which rows to list, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Signal that the row has, such as `STOP`.
    pub signal: Option<String>,
    /// Text that the name contains, in any letter case.
    pub text: Option<String>,
    pub order: ListOrder,
}

/// Order of a list; by default the latest rows come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListOrder {
    pub sort: ListSort,
    pub ascending: bool,
}

/// What a list is sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListSort {
    /// Time of the last change, or of the start of a benchmark run.
    #[default]
    Time,
    /// Score of conversations, wasted steps of agents, pass rate of benchmark runs. Rows without a value are the lowest.
    Measure,
}

/// Value that a list is sorted by, in a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SortValue {
    Integer(i64),
    Float(f64),
}

impl From<SortValue> for Value<'_> {
    fn from(value: SortValue) -> Self {
        match value {
            SortValue::Integer(number) => number.into(),
            SortValue::Float(number) => number.into(),
        }
    }
}

impl Column for SortValue {
    fn read(row: &EngineRow, index: Index<'_>) -> Result<Self, sqlx::Error> {
        match i64::read(row, index) {
            Ok(number) => Ok(Self::Integer(number)),
            Err(_) => f64::read(row, index).map(Self::Float),
        }
    }
}

/// A page of rows, and the place after which the next page starts.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage<T, V = i64> {
    pub rows: Vec<T>,
    /// Sort value, by default a time, and id of the last row that was looked at; `None` at the end of the list.
    pub next: Option<(V, String)>,
}

/// Page of a list that can be sorted by other values than times.
pub type SortedPage<T> = ListPage<T, SortValue>;

/// Table to list.
struct Source {
    columns: &'static str,
    table: &'static str,
    /// Expression that the rows are sorted by before their key, and the column that it reads.
    sort: (&'static str, &'static str),
    ascending: bool,
    key: &'static str,
    /// Columns that are searched for a text.
    searched: &'static [&'static str],
    /// Columns that identify a row without looking into every partition.
    identity: &'static str,
    /// The identity, and the columns of conditions without an index, each once and without that of the sort.
    narrow: &'static str,
    /// Times of the partitions to read, besides the first; `None` reads all.
    within: Option<(i64, i64)>,
}

/// Conditions on listed rows.
#[derive(Default)]
struct Conditions<'f> {
    /// Column with an index, and its value.
    exact: Option<(&'static str, &'f str)>,
    /// Text that a searched column contains.
    text: Option<&'f str>,
    /// Conditions on columns of the window `w`, which may end with a number.
    further: Vec<(&'static str, Option<f64>)>,
}

impl Conditions<'_> {
    /// Whether an index finds the rows, so that no window is needed.
    fn is_indexed(&self) -> bool {
        self.text.is_none() && self.further.is_empty()
    }
}

/// Place in a list: sort value and key of the last row before it.
type Place<'p> = Option<(SortValue, &'p str)>;

impl Source {
    /// Adds the place in the list, the exact condition and the partitions to a statement.
    fn narrowed(&self, select: Sql<'static>, conditions: &Conditions<'_>, after: Place<'_>) -> Sql<'static> {
        let mut select = select.push(" WHERE 1 = 1");
        if let Some((value, id)) = after {
            let (sort, column) = self.sort;
            let beyond = if self.ascending { ">" } else { "<" };
            if sort != column {
                // SQLite starts at the place in an index of an expression only with a condition on it alone.
                select = select.push(&format!(" AND {sort} {beyond}= ")).push_bind(value);
            }
            select = select
                .push(&format!(" AND ({sort}, {}) {beyond} ", self.key))
                .push_list(values! { value, id.to_owned() });
        }
        select = self.in_partitions(select);
        match conditions.exact {
            Some((column, value)) => select
                .push(&format!(" AND {column} = "))
                .push_bind(value.to_owned()),
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

    /// Returns the last row of the window that conditions are checked for, if there are as many rows.
    async fn window_end(
        &self,
        store: &Store,
        conditions: &Conditions<'_>,
        after: Place<'_>,
    ) -> Result<Option<(SortValue, String)>, StoreError> {
        let select = Sql::build(&format!(
            "SELECT {sort} AS sorted_by, {key} AS id FROM {table}",
            sort = self.sort.0,
            key = self.key,
            table = self.table
        ));
        let end = self
            .narrowed(select, conditions, after)
            .push(&self.order())
            .push_bind(1_i64)
            .push(" OFFSET ")
            .push_bind(WINDOW - 1);
        let end = store.pool.row(end).await?;
        end.map(|row| Ok((row.get("sorted_by")?, row.get("id")?)))
            .transpose()
    }

    fn order(&self) -> String {
        let direction = if self.ascending { "" } else { " DESC" };
        let (sort, _) = self.sort;
        format!(" ORDER BY {sort}{direction}, {}{direction} LIMIT ", self.key)
    }
}

/// Reads one page. If an index finds the rows, the page ends at its last row, otherwise at the end of the window.
async fn read_page<T>(
    store: &Store,
    source: &Source,
    conditions: &Conditions<'_>,
    after: Place<'_>,
    limit: u32,
    read: impl Fn(&Row) -> Result<T, StoreError>,
    place: impl Fn(&T) -> (SortValue, String),
) -> Result<SortedPage<T>, StoreError> {
    let order = source.order();
    let narrowed = |select: Sql<'static>| source.narrowed(select, conditions, after);
    let select = if conditions.is_indexed() {
        narrowed(Sql::build(&format!(
            "SELECT {} FROM {}",
            source.columns, source.table
        )))
    } else {
        // The window has only the columns of the conditions; the large ones are read for the rows of the page.
        let mut select = narrowed(Sql::build(&format!(
            "SELECT {columns} FROM {table} WHERE ({identity}) IN (SELECT {identity} FROM (SELECT {column}, {narrow} FROM {table}",
            columns = source.columns,
            table = source.table,
            identity = source.identity,
            column = source.sort.1,
            narrow = source.narrow,
        )))
        .push(&order)
        .push_bind(WINDOW)
        .push(") w WHERE 1 = 1");
        for (condition, number) in &conditions.further {
            select = select.push(" AND ").push(condition);
            if let Some(number) = number {
                select = select.push_bind(*number);
            }
        }
        if let Some(text) = conditions.text {
            let pattern = like_pattern(text);
            let mut before = " AND (";
            for column in source.searched {
                select = select
                    .push(&format!("{before}LOWER(w.{column}) LIKE "))
                    .push_bind(pattern.clone())
                    .push(" ESCAPE '!'");
                before = " OR ";
            }
            select = select.push(")");
        }
        let select = select.push(&order).push_bind(limit + 1).push(")");
        source.in_partitions(select)
    };
    let select = select.push(&order).push_bind(limit + 1);
    let rows = store.pool.rows(select).await?;
    let mut rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = match rows.last() {
        Some(last) if more => Some(place(last)),
        _ if conditions.is_indexed() => None,
        // The rest of the window does not match: the next page starts behind the window, if anything is there.
        _ => source.window_end(store, conditions, after).await?,
    };
    Ok(ListPage { rows, next })
}

/// Place in a list that is sorted by time.
fn after_time(before: Option<(i64, &str)>) -> Place<'_> {
    before.map(|(at, id)| (SortValue::Integer(at), id))
}

/// Page of a list that is sorted by time.
fn timed<T>(page: SortedPage<T>) -> ListPage<T> {
    let next = page.next.and_then(|(value, id)| match value {
        SortValue::Integer(at) => Some((at, id)),
        SortValue::Float(_) => None,
    });
    ListPage {
        rows: page.rows,
        next,
    }
}

impl ListFilter {
    fn conditions(&self) -> Conditions<'_> {
        Conditions {
            exact: self.signal.as_deref().map(|signal| ("signal", signal)),
            text: self.text.as_deref(),
            further: Vec::new(),
        }
    }
}

impl Conversations<'_> {
    /// Lists conversations that match.
    pub async fn list(
        self,
        filter: &ListFilter,
        after: Option<(SortValue, &str)>,
        limit: u32,
    ) -> Result<SortedPage<ConversationSummaryRow>, StoreError> {
        let sort = filter.order.sort;
        let source = Source {
            columns: "id, topic, profile, signal, score, created_at, updated_at",
            table: "conversations",
            sort: match sort {
                ListSort::Time => ("updated_at", "updated_at"),
                ListSort::Measure => ("COALESCE(score, -1.0)", "score"),
            },
            ascending: filter.order.ascending,
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
        let place = |row: &ConversationSummaryRow| {
            let value = match sort {
                ListSort::Time => SortValue::Integer(row.updated_at),
                ListSort::Measure => SortValue::Float(row.score.unwrap_or(-1.0)),
            };
            (value, row.id.clone())
        };
        let conditions = filter.conditions();
        let mut page = read_page(self.0, &source, &conditions, after, limit, read, place).await?;
        if page.rows.is_empty() {
            return Ok(page);
        }
        let counts = Sql::build(
            "SELECT id, (SELECT COUNT(*) FROM rounds r WHERE r.conversation_id = conversations.id
                 AND r.partition_at = conversations.partition_at) FROM conversations WHERE id IN ",
        )
        .push_list(page.rows.iter().map(|row| row.id.clone().into()));
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
    /// Lists runs that match.
    pub async fn list(
        self,
        filter: &ListFilter,
        after: Option<(SortValue, &str)>,
        limit: u32,
    ) -> Result<SortedPage<AgentRunRow>, StoreError> {
        let sort = filter.order.sort;
        let source = Source {
            columns:
                "id, kind, signal, reason, messages, steps, wasted_steps, first_nudge_step, first_stop_step,
                created_at, updated_at",
            table: "agent_runs",
            sort: match sort {
                ListSort::Time => ("updated_at", "updated_at"),
                ListSort::Measure => ("wasted_steps", "wasted_steps"),
            },
            ascending: filter.order.ascending,
            key: "id",
            searched: &["id", "reason"],
            identity: "id",
            narrow: "id, reason",
            within: None,
        };
        let place = |row: &AgentRunRow| {
            let value = match sort {
                ListSort::Time => row.updated_at,
                ListSort::Measure => row.wasted_steps,
            };
            (SortValue::Integer(value), row.id.clone())
        };
        let conditions = filter.conditions();
        read_page(self.0, &source, &conditions, after, limit, agent_run, place).await
    }
}

impl Bench<'_> {
    /// Lists runs that match, without their summaries.
    pub async fn list_runs(
        self,
        filter: &RunFilter,
        order: ListOrder,
        after: Option<(SortValue, &str)>,
        limit: u32,
    ) -> Result<SortedPage<BenchRunRow>, StoreError> {
        let (sort, narrow) = match order.sort {
            ListSort::Time => (
                ("started_at", "started_at"),
                "run_id, suite_id, target, completed_at, pass_rate",
            ),
            ListSort::Measure => (
                ("COALESCE(pass_rate, -1.0)", "pass_rate"),
                "run_id, suite_id, target, completed_at",
            ),
        };
        let source = Source {
            columns: "run_id, suite_id, suite_hash, target, started_at, completed_at, config_snapshot, pass_rate",
            table: "bench_runs",
            sort,
            ascending: order.ascending,
            key: "run_id",
            searched: &["suite_id", "target", "run_id"],
            identity: "run_id",
            narrow,
            within: None,
        };
        let complete = filter.complete.map(|complete| {
            let condition = if complete {
                "w.completed_at IS NOT NULL"
            } else {
                "w.completed_at IS NULL"
            };
            (condition, None)
        });
        let below = filter.max_pass_rate.map(|max| ("w.pass_rate <= ", Some(max)));
        let conditions = Conditions {
            exact: filter.suite_id.as_deref().map(|suite| ("suite_id", suite)),
            text: filter.text.as_deref(),
            further: complete.into_iter().chain(below).collect(),
        };
        let place = |row: &BenchRunRow| {
            let value = match order.sort {
                ListSort::Time => SortValue::Integer(row.started_at),
                ListSort::Measure => SortValue::Float(row.pass_rate.unwrap_or(-1.0)),
            };
            (value, row.run_id.clone())
        };
        read_page(self.0, &source, &conditions, after, limit, run_head, place).await
    }
}

impl Eviction<'_> {
    /// Lists scopes whose id or goal contains a text, most recently changed first.
    pub async fn find_scopes(
        self,
        text: Option<&str>,
        before: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<ListPage<ScopeSummaryRow>, StoreError> {
        let source = Source {
            columns: "scope_id, turn, updated_at",
            table: "eviction_scopes",
            sort: ("updated_at", "updated_at"),
            ascending: false,
            key: "scope_id",
            searched: &["scope_id", "goal"],
            identity: "scope_id",
            narrow: "scope_id, goal",
            within: None,
        };
        let conditions = Conditions {
            text,
            ..Conditions::default()
        };
        let read = |row: &Row| {
            Ok(columns!(row => ScopeSummaryRow { scope_id, turn, updated_at; items: 0, open_proposals: 0 }))
        };
        let place = |row: &ScopeSummaryRow| (SortValue::Integer(row.updated_at), row.scope_id.clone());
        let after = after_time(before);
        let page = read_page(self.0, &source, &conditions, after, limit, read, place).await?;
        let mut page = timed(page);
        if page.rows.is_empty() {
            return Ok(page);
        }
        let ids: Vec<String> = page.rows.iter().map(|row| row.scope_id.clone()).collect();
        let count = |table: &str, open: &str| {
            Sql::build(&format!(
                "SELECT scope_id, COUNT(*) FROM {table} WHERE {open} IS NULL AND scope_id IN "
            ))
            .push_list(ids.iter().map(|id| id.clone().into()))
            .push(" GROUP BY scope_id")
        };
        for row in self.0.pool.rows(count("eviction_items", "evicted_at")).await? {
            let id: String = row.get(0)?;
            if let Some(scope) = page.rows.iter_mut().find(|scope| scope.scope_id == id) {
                scope.items = row.get(1)?;
            }
        }
        for row in self
            .0
            .pool
            .rows(count("eviction_proposals", "resolved_at"))
            .await?
        {
            let id: String = row.get(0)?;
            if let Some(scope) = page.rows.iter_mut().find(|scope| scope.scope_id == id) {
                scope.open_proposals = row.get(1)?;
            }
        }
        Ok(page)
    }
}

impl Research<'_> {
    /// Lists runs whose task contains a text, newest first, each with the number of its rounds; without their reports.
    pub async fn find_runs(
        self,
        text: Option<&str>,
        before: Option<(i64, &str)>,
        limit: u32,
    ) -> Result<ListPage<(ResearchRunRow, i64)>, StoreError> {
        let source = Source {
            columns: "run_id, task, source, started_at, completed_at, stop_reason",
            table: "research_runs",
            sort: ("started_at", "started_at"),
            ascending: false,
            key: "run_id",
            searched: &["task"],
            identity: "run_id",
            narrow: "run_id, task",
            within: None,
        };
        let conditions = Conditions {
            text,
            ..Conditions::default()
        };
        let read = |row: &Row| {
            let run = columns!(row => ResearchRunRow {
                run_id, task, source, started_at, completed_at, stop_reason;
                settings: serde_json::Value::Null, report: None
            });
            Ok((run, 0))
        };
        let place =
            |(row, _): &(ResearchRunRow, i64)| (SortValue::Integer(row.started_at), row.run_id.clone());
        let after = after_time(before);
        let page = read_page(self.0, &source, &conditions, after, limit, read, place).await?;
        let mut page = timed(page);
        if page.rows.is_empty() {
            return Ok(page);
        }
        let counts = Sql::build("SELECT run_id, COUNT(*) FROM research_rounds WHERE run_id IN ")
            .push_list(page.rows.iter().map(|(row, _)| row.run_id.clone().into()))
            .push(" GROUP BY run_id");
        for row in self.0.pool.rows(counts).await? {
            let id: String = row.get(0)?;
            if let Some((_, rounds)) = page.rows.iter_mut().find(|(run, _)| run.run_id == id) {
                *rounds = row.get(1)?;
            }
        }
        Ok(page)
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
            sort: ("created_at", "created_at"),
            ascending: false,
            key: "query_id",
            searched: &["query"],
            identity: "query_id, partition_at",
            narrow: "query_id, partition_at, query",
            within: None,
        };
        let conditions = Conditions {
            text: filter.text.as_deref(),
            ..Conditions::default()
        };
        let read = |row: &Row| Ok((query(row)?, row.get("created_at")?));
        let place = |(row, at): &(EvalQueryRow, i64)| (SortValue::Integer(*at), row.query_id.clone());
        let after = after_time(before);
        if self.0.pool.is_postgres() {
            // The latest rows are in the latest partitions, mostly; if these have too few, all are read.
            let latest = before.map_or(i64::MAX, |(at, _)| at).min(now_micros());
            source.within = Some((latest - DAY, latest + DAY));
            let is_full = match &filter.text {
                Some(_) => source.window_end(self.0, &conditions, after).await?.is_some(),
                None => true,
            };
            if is_full {
                let page = read_page(self.0, &source, &conditions, after, limit, read, place).await?;
                if page.next.is_some() {
                    return Ok(timed(page));
                }
            }
            source.within = None;
        }
        let page = read_page(self.0, &source, &conditions, after, limit, read, place).await?;
        Ok(timed(page))
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
