//! Measured runs: which there are, and the latest figures.

use crate::handles::RetrievalOperations;
use std::collections::BTreeMap;

use satiety_store::golden::StoredResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::golden_error::GoldenError;
use crate::EngineError;

/// What runs are looked at by, unless said otherwise.
const MEASURE: &str = "ndcg@10";
/// What an A/B test measures is marked with.
const AB_TEST: &str = "ab_test";
/// How far to look for the latest runs.
const LATEST: u32 = 100;
/// How far to look for the run before.
const LOOKED_BACK: u32 = 10_000;

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

/// A measured run with what it got for each query.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WholeRun {
    /// The run.
    #[serde(flatten)]
    pub run: MeasuredRun,
    /// All its figures with their intervals, as they were reported.
    pub report: Value,
    /// The value of each measure for each query; empty where that was not kept.
    pub by_query: BTreeMap<String, BTreeMap<String, f64>>,
}

/// What changed from one measured run to another, query by query.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunChanges {
    /// The measure.
    pub measure: String,
    /// The run that is compared with.
    pub before: String,
    /// The run that is looked at.
    pub now: String,
    /// Queries that both have a value for; what lost most comes first.
    pub queries: Vec<QueryDelta>,
}

/// A query in two runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueryDelta {
    /// Its id.
    pub query_id: String,
    /// What is asked, where the corpus has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Its value before.
    pub before: f64,
    /// Its value now.
    pub now: f64,
}

impl QueryDelta {
    /// How much it gained.
    pub fn change(&self) -> f64 {
        self.now - self.before
    }

    /// What is asked, or else its id.
    pub fn words(&self) -> &str {
        self.query.as_deref().unwrap_or(&self.query_id)
    }
}

impl RetrievalOperations<'_> {
    /// What changed between the two latest measured runs; nothing where one of them has no value for each query.
    pub async fn latest_changes(self) -> Result<Option<RunChanges>, EngineError> {
        let runs = self.runs_over_time().await?;
        let [now, before, ..] = &runs[..] else {
            return Ok(None);
        };
        let changes = self.changes(&before.run_id, &now.run_id, MEASURE).await?;
        Ok((!changes.queries.is_empty()).then_some(changes))
    }

    /// What changed from a run to another one, by a measure; without another, from what it was compared with, or else from
    /// the run that was measured before it.
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
                    .results(LOOKED_BACK)
                    .await?;
                all.retain(|row| row.run_id == run_id || is_over_time(row));
                let older = all.into_iter().skip_while(|row| row.run_id != run_id).nth(1);
                older
                    .ok_or_else(|| EngineError::NotThere {
                        what: format!("run that was measured before `{run_id}`"),
                        hint: "name the run to compare with".into(),
                    })?
                    .run_id
            }
        };
        self.changes(&before, run_id, measure.unwrap_or(MEASURE)).await
    }

    /// A measured run with what it got for each query.
    pub async fn measured_run(self, run_id: &str) -> Result<WholeRun, EngineError> {
        let row = self.stored_run(run_id).await?;
        let mut report = row.report.clone();
        if let Some(whole) = report.as_object_mut() {
            // It is said beside it, in a form that does not depend on what was asked for.
            whole.remove("per_query");
        }
        Ok(WholeRun {
            by_query: self.by_query(run_id).await?,
            run: run(row),
            report,
        })
    }

    async fn stored_run(self, run_id: &str) -> Result<StoredResult, EngineError> {
        let found = self.engine.store().await?.evaluation().result(run_id).await?;
        found.ok_or_else(|| EngineError::NotThere {
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

    /// What the queries of the corpus ask.
    async fn query_texts(self) -> Result<BTreeMap<String, String>, EngineError> {
        let corpus = match self.whole_corpus().await {
            Err(EngineError::Golden(GoldenError::EmptyCorpus)) => Vec::new(),
            corpus => corpus?,
        };
        let texts = corpus.into_iter().map(|(row, _)| (row.query_id, row.query));
        Ok(texts.filter(|(_, text)| !text.is_empty()).collect())
    }

    /// The latest runs.
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

    /// The figures of the latest measured run; nothing before the first.
    pub async fn latest_metrics(self) -> Result<Option<MeasuredRun>, EngineError> {
        let runs = self.runs_over_time().await?;
        Ok(runs.into_iter().next().map(run))
    }

    /// The latest runs of a system as it was, newest first: not those that an A/B test measured beside each other.
    async fn runs_over_time(self) -> Result<Vec<StoredResult>, EngineError> {
        let mut runs = self.engine.store().await?.evaluation().results(LATEST).await?;
        runs.retain(is_over_time);
        Ok(runs)
    }
}

fn is_over_time(row: &StoredResult) -> bool {
    row.run_type != AB_TEST
}

fn run(row: StoredResult) -> MeasuredRun {
    let told = |key: &str| row.report.get(key).and_then(Value::as_str).map(str::to_owned);
    let system = match (row.run_type.as_str(), &row.control_run_id) {
        (AB_TEST, None) => Some("A/B test, as it is".to_owned()),
        (AB_TEST, Some(_)) => Some("A/B test, with the feature".to_owned()),
        _ => told("system").or_else(|| told("run")),
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
