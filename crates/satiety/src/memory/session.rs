//! Summary of a session: its queries, the feedback on their results, and the outcomes of its tasks.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeedbackKind, Outcome, TaskDeltas};

const MICROS_PER_MINUTE: f64 = 60e6;

/// A logged query of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedQuery {
    /// Id of the query.
    pub query_id: String,
    /// Query text as logged.
    pub query: String,
    /// Detected intent of the query, if any.
    pub intent: Option<String>,
    /// Ids of the results, best first.
    pub result_ids: Vec<String>,
    /// Time of the query in microseconds since 1970.
    pub at: i64,
    /// Tokens of results that were omitted because the session had them; absent if they were not omitted.
    pub saved_tokens: Option<u64>,
}

/// A logged feedback event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Kind of feedback that was given.
    pub kind: FeedbackKind,
    /// Query that the feedback belongs to.
    pub query_id: Option<String>,
    /// Memory that the feedback is about.
    pub memory_id: Option<String>,
    /// For a repeated query, the id of the repetition.
    pub asked_again_as: Option<String>,
    /// Time of the event in microseconds since 1970.
    pub at: i64,
}

/// Summary of a session, with the field names of the specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEvalSummary {
    /// Id of the session.
    pub session_id: String,
    /// All queries, oldest first.
    pub queries: Vec<SessionQuery>,
    /// Outcomes of the session's tasks, oldest first.
    pub task_outcomes: Vec<TaskOutcome>,
    /// Aggregate metrics of the session.
    pub aggregate_metrics: SessionMetrics,
}

/// A query and the feedback on its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionQuery {
    /// Id of the query.
    pub query_id: String,
    /// Query text as logged.
    pub query: String,
    /// Detected intent of the query, if any.
    pub intent: Option<String>,
    /// Ids of the results, best first.
    pub result_ids: Vec<String>,
    /// Ids of results that were read or quoted.
    pub selected_ids: Vec<String>,
    /// Results that were judged useful or not useful.
    pub validated_ids: Vec<ValidatedId>,
    /// Whether it repeats an earlier query.
    pub re_search: bool,
}

/// A judgment about a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidatedId {
    /// Id of the memory.
    pub memory_id: String,
    /// Whether the memory was judged useful.
    pub was_useful: bool,
}

/// Outcome of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskOutcome {
    /// Folder of the task's specification.
    pub spec_folder: String,
    /// Id of the task.
    pub task_id: String,
    /// How the task ended.
    pub outcome: Outcome,
    /// Changes of the task scores.
    #[serde(flatten)]
    pub deltas: TaskDeltas,
}

/// Aggregate metrics of a session. Unknown values are absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMetrics {
    /// Number of queries in the session.
    pub total_searches: usize,
    /// Number of memories that were read, quoted or judged.
    pub total_memories_accessed: usize,
    /// Mean reciprocal rank of the first relevant result, over queries with judgments.
    pub avg_mrr: Option<f64>,
    /// Mean reciprocal rank of the first result that was read, quoted or judged useful, over queries with
    /// one.
    pub avg_selection_mrr: Option<f64>,
    /// Fraction of queries that repeat an earlier one.
    pub re_search_rate: Option<f64>,
    /// Fraction of queries with a result that was read, quoted or judged useful.
    pub used_rate: Option<f64>,
    /// Minutes from the first query to the last event.
    pub session_duration_minutes: Option<f64>,
    /// Tokens of results that were not returned again because the session already had them; absent if no
    /// query omits such results.
    #[serde(default)]
    pub dedup_tokens_saved: Option<u64>,
}

/// Summarizes a session. `queries` and `events` are in any order; `relevant` has the relevant memories of
/// judged queries.
pub fn session_summary(
    session: &str,
    mut queries: Vec<LoggedQuery>,
    events: &[LoggedEvent],
    task_outcomes: Vec<TaskOutcome>,
    relevant: &BTreeMap<String, BTreeSet<String>>,
) -> SessionEvalSummary {
    queries.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.query_id.cmp(&b.query_id)));
    let again: BTreeSet<&str> = events
        .iter()
        .filter(|event| event.kind == FeedbackKind::ReSearch)
        .filter_map(|event| event.asked_again_as.as_deref())
        .collect();
    let accessed: BTreeSet<&str> = events
        .iter()
        .filter(|event| is_access(event.kind))
        .filter_map(|event| event.memory_id.as_deref())
        .collect();
    let times = || {
        let asked = queries.iter().map(|query| query.at);
        asked.chain(events.iter().map(|event| event.at))
    };
    let duration = times().min().zip(times().max());
    let (mut judged, mut selected) = (Vec::new(), Vec::new());
    let mut shown = Vec::with_capacity(queries.len());
    for query in &queries {
        let of_query = |event: &&LoggedEvent| event.query_id.as_deref() == Some(query.query_id.as_str());
        let mut selected_ids: Vec<String> = Vec::new();
        let mut useful: BTreeSet<&str> = BTreeSet::new();
        let mut validated_ids: Vec<ValidatedId> = Vec::new();
        for event in events.iter().filter(of_query) {
            let Some(memory) = &event.memory_id else { continue };
            match event.kind {
                FeedbackKind::ReadAfterSearch | FeedbackKind::Reference => {
                    useful.insert(memory);
                    if !selected_ids.contains(memory) {
                        selected_ids.push(memory.clone());
                    }
                }
                FeedbackKind::ValidateUseful | FeedbackKind::ValidateNotUseful => {
                    let was_useful = event.kind == FeedbackKind::ValidateUseful;
                    if was_useful {
                        useful.insert(memory);
                    }
                    validated_ids.push(ValidatedId {
                        memory_id: memory.clone(),
                        was_useful,
                    });
                }
                FeedbackKind::ReSearch | FeedbackKind::ScrollPast => {}
            }
        }
        selected_ids.sort();
        validated_ids.sort_by(|a, b| a.memory_id.cmp(&b.memory_id));
        if !useful.is_empty() {
            selected.push(reciprocal_rank(&query.result_ids, |id| useful.contains(id)));
        }
        if let Some(relevant) = relevant.get(&query.query_id) {
            judged.push(reciprocal_rank(&query.result_ids, |id| relevant.contains(id)));
        }
        shown.push(SessionQuery {
            query_id: query.query_id.clone(),
            query: query.query.clone(),
            intent: query.intent.clone(),
            result_ids: query.result_ids.clone(),
            selected_ids,
            validated_ids,
            re_search: again.contains(query.query_id.as_str()),
        });
    }
    let total = shown.len();
    let share = |count: usize| (total > 0).then(|| count as f64 / total as f64);
    SessionEvalSummary {
        session_id: session.to_owned(),
        task_outcomes,
        aggregate_metrics: SessionMetrics {
            total_searches: total,
            total_memories_accessed: accessed.len(),
            avg_mrr: mean(&judged),
            avg_selection_mrr: mean(&selected),
            re_search_rate: share(shown.iter().filter(|query| query.re_search).count()),
            used_rate: share(selected.len()),
            session_duration_minutes: duration.map(|(from, to)| (to - from) as f64 / MICROS_PER_MINUTE),
            dedup_tokens_saved: queries
                .iter()
                .filter_map(|query| query.saved_tokens)
                .reduce(|a, b| a + b),
        },
        queries: shown,
    }
}

fn is_access(kind: FeedbackKind) -> bool {
    matches!(
        kind,
        FeedbackKind::ReadAfterSearch
            | FeedbackKind::Reference
            | FeedbackKind::ValidateUseful
            | FeedbackKind::ValidateNotUseful
    )
}

fn reciprocal_rank(results: &[String], wanted: impl Fn(&str) -> bool) -> f64 {
    let at = results.iter().position(|id| wanted(id));
    at.map_or(0.0, |at| 1.0 / (at + 1) as f64)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(id: &str, results: &[&str], at: i64) -> LoggedQuery {
        LoggedQuery {
            query_id: id.into(),
            query: format!("about {id}"),
            intent: None,
            result_ids: results.iter().map(ToString::to_string).collect(),
            at,
            saved_tokens: (id != "q3").then_some(10),
        }
    }

    fn event(kind: FeedbackKind, query: &str, memory: &str, at: i64) -> LoggedEvent {
        LoggedEvent {
            kind,
            query_id: Some(query.into()),
            memory_id: (!memory.is_empty()).then(|| memory.into()),
            asked_again_as: (kind == FeedbackKind::ReSearch).then(|| "q2".into()),
            at,
        }
    }

    /// Two of four queries were used, at ranks 2 and 1: (1/2 + 1) / 2. One was judged, its relevant result at rank 3.
    #[test]
    fn a_session_is_summarized() {
        let queries = vec![
            query("q2", &["c", "d"], 60_000_000),
            query("q1", &["a", "b", "c"], 0),
            query("q3", &[], 90_000_000),
            query("q4", &["e"], 100_000_000),
        ];
        let events = [
            event(FeedbackKind::ReadAfterSearch, "q1", "b", 1),
            event(FeedbackKind::ScrollPast, "q1", "a", 2),
            event(FeedbackKind::Reference, "q1", "b", 3),
            event(FeedbackKind::ReSearch, "q1", "", 4),
            event(FeedbackKind::ValidateUseful, "q2", "c", 120_000_000),
            event(FeedbackKind::ValidateNotUseful, "q4", "e", 110_000_000),
        ];
        let relevant = BTreeMap::from([("q1".to_owned(), BTreeSet::from(["c".to_owned()]))]);
        let summary = session_summary("s", queries, &events, Vec::new(), &relevant);
        let ids: Vec<&str> = summary
            .queries
            .iter()
            .map(|query| query.query_id.as_str())
            .collect();
        assert_eq!(ids, ["q1", "q2", "q3", "q4"]);
        assert_eq!(summary.queries[0].selected_ids, ["b"]);
        assert!(summary.queries[1].re_search && !summary.queries[0].re_search);
        assert!(!summary.queries[3].validated_ids[0].was_useful);
        let metrics = summary.aggregate_metrics;
        assert_eq!(metrics.total_searches, 4);
        assert_eq!(metrics.total_memories_accessed, 3);
        assert_eq!(metrics.avg_mrr, Some(1.0 / 3.0));
        assert_eq!(metrics.avg_selection_mrr, Some(0.75));
        assert_eq!(
            (metrics.re_search_rate, metrics.used_rate),
            (Some(0.25), Some(0.5))
        );
        assert_eq!(metrics.session_duration_minutes, Some(2.0));
        assert_eq!(metrics.dedup_tokens_saved, Some(30));
    }

    #[test]
    fn an_empty_session_has_no_metrics() {
        let summary = session_summary("s", Vec::new(), &[], Vec::new(), &BTreeMap::new());
        let metrics = summary.aggregate_metrics;
        assert_eq!((metrics.avg_mrr, metrics.re_search_rate), (None, None));
        assert_eq!(metrics.session_duration_minutes, None);
    }
}
