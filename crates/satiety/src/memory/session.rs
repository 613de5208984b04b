//! A session as a whole: what was asked, what was done with the results, and what came of the task.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeedbackKind, Outcome, TaskDeltas};

const MICROS_A_MINUTE: f64 = 60e6;

/// A query of a session, as it was logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedQuery {
    /// Its id.
    pub query_id: String,
    /// What was asked.
    pub query: String,
    /// What the asker was after.
    pub intent: Option<String>,
    /// What was found, best first.
    pub result_ids: Vec<String>,
    /// When, in microseconds.
    pub at: i64,
}

/// Something that was done with a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvent {
    /// What.
    pub kind: FeedbackKind,
    /// After which query.
    pub query_id: Option<String>,
    /// With which memory.
    pub memory_id: Option<String>,
    /// For a repeated question, the query that asked it again.
    pub asked_again_as: Option<String>,
    /// When, in microseconds.
    pub at: i64,
}

/// A session, under the names of the specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEvalSummary {
    /// Which session.
    pub session_id: String,
    /// All queries, oldest first.
    pub queries: Vec<SessionQuery>,
    /// What came of its tasks, oldest first.
    pub task_outcomes: Vec<TaskOutcome>,
    /// The session in figures.
    pub aggregate_metrics: SessionMetrics,
}

/// A query, and what was done with its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionQuery {
    /// Its id.
    pub query_id: String,
    /// What was asked.
    pub query: String,
    /// What the asker was after.
    pub intent: Option<String>,
    /// What was found, best first.
    pub result_ids: Vec<String>,
    /// What of it was read or quoted.
    pub selected_ids: Vec<String>,
    /// What somebody said about it.
    pub validated_ids: Vec<ValidatedId>,
    /// Whether it asked again what was asked before.
    pub re_search: bool,
}

/// A judgment about a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidatedId {
    /// Which memory.
    pub memory_id: String,
    /// Whether it was useful.
    pub was_useful: bool,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskOutcome {
    /// Where it belongs.
    pub spec_folder: String,
    /// Which task.
    pub task_id: String,
    /// How it went.
    pub outcome: Outcome,
    /// What it changed.
    #[serde(flatten)]
    pub deltas: TaskDeltas,
}

/// A session in figures. What nothing is known about is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMetrics {
    /// Queries.
    pub total_searches: usize,
    /// Memories that were read, quoted or judged.
    pub total_memories_accessed: usize,
    /// The mean reciprocal rank of the first relevant result, over queries with judgments.
    pub avg_mrr: Option<f64>,
    /// The mean reciprocal rank of the first result that was read, quoted or judged useful, over queries with one.
    pub avg_selection_mrr: Option<f64>,
    /// The share of queries that asked again what was asked before.
    pub re_search_rate: Option<f64>,
    /// The share of queries of whose results something was read, quoted or judged useful.
    pub used_rate: Option<f64>,
    /// From the first query to the last thing that happened.
    pub session_duration_minutes: Option<f64>,
}

/// The latest query that found a memory, and its rank there from 1. `queries` are newest first.
pub fn found_by<'a>(
    queries: &'a [(String, String, Vec<String>)],
    memory: &str,
) -> Option<(&'a str, &'a str, i64)> {
    queries.iter().find_map(|(id, query, results)| {
        let at = results.iter().position(|result| result == memory)?;
        Some((id.as_str(), query.as_str(), i64::try_from(at + 1).ok()?))
    })
}

/// Sums a session up. `queries` and `events` are in any order; `relevant` has the relevant memories of queries that somebody
/// judged.
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
            session_duration_minutes: duration.map(|(from, to)| (to - from) as f64 / MICROS_A_MINUTE),
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
    fn a_session_is_summed_up() {
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
        let figures = summary.aggregate_metrics;
        assert_eq!(figures.total_searches, 4);
        assert_eq!(figures.total_memories_accessed, 3);
        assert_eq!(figures.avg_mrr, Some(1.0 / 3.0));
        assert_eq!(figures.avg_selection_mrr, Some(0.75));
        assert_eq!(
            (figures.re_search_rate, figures.used_rate),
            (Some(0.25), Some(0.5))
        );
        assert_eq!(figures.session_duration_minutes, Some(2.0));
    }

    #[test]
    fn a_session_without_anything_claims_nothing() {
        let summary = session_summary("s", Vec::new(), &[], Vec::new(), &BTreeMap::new());
        let figures = summary.aggregate_metrics;
        assert_eq!((figures.avg_mrr, figures.re_search_rate), (None, None));
        assert_eq!(figures.session_duration_minutes, None);
    }

    #[test]
    fn the_latest_query_that_found_it_counts() {
        let queries = [
            ("q2".to_owned(), "x".to_owned(), vec!["a".to_owned()]),
            (
                "q1".to_owned(),
                "y".to_owned(),
                vec!["b".to_owned(), "a".to_owned()],
            ),
        ];
        assert_eq!(found_by(&queries, "a"), Some(("q2", "x", 1)));
        assert_eq!(found_by(&queries, "b"), Some(("q1", "y", 1)));
        assert_eq!(found_by(&queries, "c"), None);
    }
}
