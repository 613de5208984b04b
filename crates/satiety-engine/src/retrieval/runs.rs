//! Measured runs: lists, latest metrics, and changes between runs.

use crate::handles::RetrievalOperations;
use std::collections::BTreeMap;

use satiety_store::golden::StoredResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::golden_error::GoldenError;
use crate::EngineError;

/// Default measure for changes.
const MEASURE: &str = "ndcg@10";
/// Run type of A/B tests.
const AB_TEST: &str = "ab_test";
/// Number of runs searched for the latest ones.
const MAX_LATEST: u32 = 100;
/// Number of runs searched for the previous one.
const MAX_LOOKBACK: u32 = 10_000;

/// Measured and interrupted runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredRuns {
    /// Measured runs, newest first.
    pub runs: Vec<MeasuredRun>,
    /// Interrupted runs that can be resumed.
    pub unfinished: Vec<UnfinishedRun>,
}

/// A measured run and its metrics.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredRun {
    /// Id of the measured run.
    pub run_id: String,
    /// Type of run: `full`, `regression`, `shadow` or `ab_test`.
    pub run_type: String,
    /// System or file that was measured.
    pub system: String,
    /// Number of queries in the metrics.
    pub queries: i64,
    /// Metrics by the names of the specification.
    pub figures: BTreeMap<String, f64>,
    /// Id of the run it was compared with, if any.
    pub control_run_id: Option<String>,
    /// Whether the difference to the control is significant.
    pub is_significant: Option<bool>,
    /// Time of the measurement.
    pub measured_at: String,
}

/// A run that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnfinishedRun {
    /// Id of the interrupted run.
    pub run_id: String,
    /// System that is measured.
    pub system: String,
    /// Number of answers so far.
    pub answers: i64,
}

/// A measured run with its values by query.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredRunDetail {
    /// The run and its metrics.
    #[serde(flatten)]
    pub run: MeasuredRun,
    /// All metrics with intervals, as originally reported.
    pub report: Value,
    /// Value of each measure by query; empty if not stored.
    pub by_query: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Changes between two measured runs, query by query.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunChanges {
    /// Measure that is compared, such as `ndcg@10`.
    pub measure: String,
    /// Id of the run compared with.
    pub before: String,
    /// Id of the examined run.
    pub now: String,
    /// Queries with a value in both runs; largest loss first.
    pub queries: Vec<QueryDelta>,
}

/// Values of a query in two runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueryDelta {
    /// Id of the query.
    pub query_id: String,
    /// Text of the query, if it is in the corpus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Value in the earlier run.
    pub before: f64,
    /// Value in the later run.
    pub now: f64,
}

impl QueryDelta {
    /// Returns the difference between the two values.
    pub fn change(&self) -> f64 {
        self.now - self.before
    }

    /// Returns the text of the query, or its id.
    pub fn words(&self) -> &str {
        self.query.as_deref().unwrap_or(&self.query_id)
    }
}

impl RetrievalOperations<'_> {
    /// Returns the changes between the two latest measured runs; `None` if either has no values by query.
    pub async fn latest_changes(self) -> Result<Option<RunChanges>, EngineError> {
        let runs = self.runs_over_time().await?;
        let [now, before, ..] = &runs[..] else {
            return Ok(None);
        };
        let changes = self.changes(&before.run_id, &now.run_id, MEASURE).await?;
        Ok((!changes.queries.is_empty()).then_some(changes))
    }

    /// Returns the changes of a run by a measure, relative to another run; by default its control, or else
    /// the run measured before it.
    pub async fn run_changes(
        self,
        run_id: &str,
        against: Option<&str>,
        measure: Option<&str>,
    ) -> Result<RunChanges, EngineError> {
        let now = self.stored_run(run_id).await?;
        let before = match (against, now.control_run_id) {
            (Some(other), _) => self.stored_run(other).await?.run_id,
            (None, Some(control)) => control,
            (None, None) => {
                let mut all = self
                    .engine
                    .store()
                    .await?
                    .evaluation()
                    .results(MAX_LOOKBACK)
                    .await?;
                all.retain(|row| row.run_id == run_id || is_over_time(row));
                let older = all.into_iter().skip_while(|row| row.run_id != run_id).nth(1);
                older
                    .ok_or_else(|| EngineError::NotFound {
                        what: format!("measured run before `{run_id}`"),
                        hint: "name the run to compare with".into(),
                    })?
                    .run_id
            }
        };
        self.changes(&before, run_id, measure.unwrap_or(MEASURE)).await
    }

    /// Returns a measured run with its values by query.
    pub async fn measured_run(self, run_id: &str) -> Result<MeasuredRunDetail, EngineError> {
        let row = self.stored_run(run_id).await?;
        let mut report = row.report.clone();
        if let Some(whole) = report.as_object_mut() {
            // Returned separately, in a form that does not depend on the request.
            whole.remove("per_query");
        }
        Ok(MeasuredRunDetail {
            by_query: self.by_query(run_id).await?,
            run: run(row),
            report,
        })
    }

    async fn stored_run(self, run_id: &str) -> Result<StoredResult, EngineError> {
        let found = self.engine.store().await?.evaluation().result(run_id).await?;
        found.ok_or_else(|| EngineError::NotFound {
            what: format!("measured run `{run_id}`"),
            hint: "list the runs to see their ids".into(),
        })
    }

    async fn by_query(self, run_id: &str) -> Result<BTreeMap<String, BTreeMap<String, f64>>, EngineError> {
        let Some(Value::Object(kept)) = self
            .engine
            .store()
            .await?
            .evaluation()
            .results_by_query(run_id)
            .await?
        else {
            return Ok(BTreeMap::new());
        };
        let figures = |values: &Value| {
            let values = values.as_object().into_iter().flatten();
            values
                .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
                .collect()
        };
        Ok(kept
            .iter()
            .map(|(query, values)| (query.clone(), figures(values)))
            .collect())
    }

    async fn changes(self, before: &str, now: &str, measure: &str) -> Result<RunChanges, EngineError> {
        let (old, new) = (self.by_query(before).await?, self.by_query(now).await?);
        let texts = self.query_texts().await?;
        let mut queries: Vec<QueryDelta> = new
            .iter()
            .filter_map(|(query_id, values)| {
                Some(QueryDelta {
                    query_id: query_id.clone(),
                    query: texts.get(query_id).cloned(),
                    before: *old.get(query_id)?.get(measure)?,
                    now: *values.get(measure)?,
                })
            })
            .collect();
        queries.sort_by(|a, b| {
            let by_change = a.change().total_cmp(&b.change());
            by_change.then_with(|| a.query_id.cmp(&b.query_id))
        });
        Ok(RunChanges {
            measure: measure.into(),
            before: before.into(),
            now: now.into(),
            queries,
        })
    }

    /// Returns the text of the corpus queries by id.
    async fn query_texts(self) -> Result<BTreeMap<String, String>, EngineError> {
        let corpus = match self.whole_corpus().await {
            Err(EngineError::Golden(GoldenError::EmptyCorpus)) => Vec::new(),
            corpus => corpus?,
        };
        let texts = corpus.into_iter().map(|(row, _)| (row.query_id, row.query));
        Ok(texts.filter(|(_, text)| !text.is_empty()).collect())
    }

    /// Lists the latest runs.
    pub async fn measured_runs(self, limit: u32) -> Result<MeasuredRuns, EngineError> {
        let store = self.engine.store().await?;
        let runs = store.evaluation().results(limit).await?;
        let open = store
            .evaluation()
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

    /// Returns the metrics of a measured run.
    pub async fn run_metrics(self, run_id: &str) -> Result<MeasuredRun, EngineError> {
        self.stored_run(run_id).await.map(run)
    }

    /// Returns the metrics of the latest measured run; `None` before the first.
    pub async fn latest_metrics(self) -> Result<Option<MeasuredRun>, EngineError> {
        let runs = self.runs_over_time().await?;
        Ok(runs.into_iter().next().map(run))
    }

    /// Returns the latest runs of a system over time, newest first, without those of A/B tests.
    async fn runs_over_time(self) -> Result<Vec<StoredResult>, EngineError> {
        let mut runs = self
            .engine
            .store()
            .await?
            .evaluation()
            .results(MAX_LATEST)
            .await?;
        runs.retain(is_over_time);
        Ok(runs)
    }
}

fn is_over_time(row: &StoredResult) -> bool {
    row.run_type != AB_TEST
}

fn run(row: StoredResult) -> MeasuredRun {
    let text = |key: &str| row.report.get(key).and_then(Value::as_str).map(str::to_owned);
    let system = match (row.run_type.as_str(), &row.control_run_id) {
        (AB_TEST, None) => Some("A/B test, control".to_owned()),
        (AB_TEST, Some(_)) => Some("A/B test, treatment".to_owned()),
        _ => text("system").or_else(|| text("run")),
    };
    MeasuredRun {
        system: system.unwrap_or_default(),
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
