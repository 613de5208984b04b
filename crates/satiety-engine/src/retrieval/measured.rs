//! Measured runs: which there are, and the latest figures.

use std::collections::BTreeMap;

use satiety_store::golden::StoredResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{Engine, EngineError};

/// Runs that were measured or interrupted, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredRuns {
    /// Measured runs.
    pub runs: Vec<MeasuredRun>,
    /// Runs that were interrupted and can be taken up again.
    pub unfinished: Vec<UnfinishedRun>,
}

/// A measured run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredRun {
    /// Its id.
    pub run_id: String,
    /// Why it was measured: `full`, `regression`, `shadow` or `ab_test`.
    pub run_type: String,
    /// What was measured: a system, or a file.
    pub system: String,
    /// Queries that counted.
    pub queries: i64,
    /// Its figures, by the specification's names.
    pub figures: BTreeMap<String, f64>,
    /// What it was compared with.
    pub control_run_id: Option<String>,
    /// Whether the difference is significant.
    pub is_significant: Option<bool>,
    /// When.
    pub measured_at: String,
}

/// A run that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnfinishedRun {
    /// Its id.
    pub run_id: String,
    /// What was asked.
    pub system: String,
    /// Answers that it has.
    pub answers: i64,
}

/// What changed from one measured run to the next, query by query.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunChanges {
    /// The measure.
    pub measure: String,
    /// The query with its value before and now; what lost most comes first.
    pub queries: Vec<(String, f64, f64)>,
}

impl Engine {
    /// What changed between the two latest measured runs; nothing where one of them has no value for each query.
    pub async fn latest_changes(&self) -> Result<Option<RunChanges>, EngineError> {
        const MEASURE: &str = "ndcg@10";
        let store = self.store().await?;
        let [now, before] = &store.evaluation_results(2).await?[..] else {
            return Ok(None);
        };
        let old = store.evaluation_by_query(&before.run_id).await?;
        let new = store.evaluation_by_query(&now.run_id).await?;
        let (Some(Value::Object(old)), Some(Value::Object(new))) = (old, new) else {
            return Ok(None);
        };
        let of = |values: &Value| values.get(MEASURE).and_then(Value::as_f64);
        let mut queries: Vec<(String, f64, f64)> = new
            .iter()
            .filter_map(|(query, value)| Some((query.clone(), of(old.get(query)?)?, of(value)?)))
            .collect();
        queries.sort_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)).then_with(|| a.0.cmp(&b.0)));
        Ok((!queries.is_empty()).then(|| RunChanges {
            measure: MEASURE.into(),
            queries,
        }))
    }

    /// The latest runs.
    pub async fn measured_runs(&self, limit: u32) -> Result<MeasuredRuns, EngineError> {
        let store = self.store().await?;
        let runs = store.evaluation_results(limit).await?;
        let open = store
            .runs_with_answers(limit)
            .await?
            .into_iter()
            .filter(|(.., measured)| !measured);
        Ok(MeasuredRuns {
            runs: runs.into_iter().map(run).collect(),
            unfinished: open
                .map(|(run_id, system, answers, _)| UnfinishedRun {
                    run_id,
                    system,
                    answers,
                })
                .collect(),
        })
    }

    /// The figures of the latest measured run; nothing before the first.
    pub async fn latest_metrics(&self) -> Result<Option<MeasuredRun>, EngineError> {
        Ok(self.store().await?.evaluation_results(1).await?.pop().map(run))
    }
}

fn run(row: StoredResult) -> MeasuredRun {
    let told = |key: &str| row.report.get(key).and_then(Value::as_str).map(str::to_owned);
    MeasuredRun {
        system: told("system").or_else(|| told("run")).unwrap_or_default(),
        run_id: row.run_id,
        run_type: row.run_type,
        queries: row.query_count,
        figures: row.figures.into_iter().collect(),
        control_run_id: row.control_run_id,
        is_significant: row.is_significant,
        measured_at: jiff::Timestamp::from_microsecond(row.created_at)
            .map_or_else(|_| row.created_at.to_string(), |at| at.to_string()),
    }
}
