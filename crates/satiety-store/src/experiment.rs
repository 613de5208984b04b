//! Features under test: the state of each test, its shadow runs, and the transaction that counts each
//! observation exactly once, even with concurrent counters.

use serde_json::Value;

use crate::partitions::time_of_id;
use crate::pool::in_transaction;
use crate::sql::{BATCH, Row, Sql, columns, sql, values};
use crate::{Store, StoreError, now_micros};

/// A feature and its test.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentRow {
    pub feature_id: String,
    /// `running`, `paused`, `graduated` or `rejected`.
    pub status: String,
    /// Evidence of the sequential test.
    pub log_likelihood_ratio: f64,
    /// Bound at which the treatment is accepted.
    pub upper_bound: f64,
    /// Bound at which the control is accepted.
    pub lower_bound: f64,
    /// Number of counted queries.
    pub sample_count: i64,
    /// Sum of the control's reciprocal ranks.
    pub control_mrr_sum: f64,
    /// Sum of the treatment's reciprocal ranks.
    pub treatment_mrr_sum: f64,
    /// Sum of the control's NDCG values.
    pub control_ndcg_sum: f64,
    /// Sum of the treatment's NDCG values.
    pub treatment_ndcg_sum: f64,
    /// Minimum number of samples for a decision.
    pub min_samples: i64,
    /// Required improvement.
    pub graduation_threshold: f64,
    /// Time in microseconds since the Unix epoch.
    pub started_at: i64,
    /// Time of the last change.
    pub updated_at: i64,
    pub graduated_at: Option<i64>,
    /// Decision of the test.
    pub decision: String,
    /// Reason given for the current state.
    pub reason: Option<String>,
    /// Feature definition as JSON.
    pub feature: Value,
    /// Test state as JSON.
    pub state: Value,
    /// Last evaluated checklist with its evidence.
    pub checklist: Option<Value>,
    /// Version for optimistic concurrency, incremented with each change.
    pub version: i64,
}

/// A shadow run.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowRunRow {
    pub run_id: String,
    pub query_id: String,
    pub feature_id: String,
    /// List shown to the caller: `control` or `treatment`.
    pub shown: String,
    pub control_result_ids: Vec<String>,
    pub treatment_result_ids: Vec<String>,
    /// Kendall's tau-b.
    pub rank_correlation: Option<f64>,
    /// Jaccard overlap.
    pub set_overlap: Option<f64>,
    pub top_result_changed: Option<bool>,
    /// Number of memories at a different rank.
    pub order_differences: Option<i64>,
    /// Change of the reciprocal rank, once known.
    pub mrr_delta: Option<f64>,
    /// Change of NDCG, once known.
    pub ndcg_delta: Option<f64>,
    pub control_latency_ms: Option<f64>,
    pub treatment_latency_ms: Option<f64>,
    /// `open`, `counted` or `failed`.
    pub outcome: String,
    /// Source of the grades: `judgments` or `use`.
    pub graded_by: Option<String>,
    /// Error of a failed run.
    pub failure: Option<String>,
    /// Details of the difference, with the query.
    pub difference: Value,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
}

/// A run whose lists were graded.
#[derive(Debug, Clone, PartialEq)]
pub struct GradedRun {
    pub run_id: String,
    /// Change of the reciprocal rank.
    pub mrr_delta: f64,
    /// Change of NDCG.
    pub ndcg_delta: f64,
    /// Source of the grades: `judgments` or `use`.
    pub graded_by: String,
}

/// Use of a query's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseRow {
    pub query_id: String,
    pub event_type: String,
    pub memory_id: String,
}

const TEST_COLUMNS: &str = "feature_id, status, log_likelihood_ratio, upper_bound, lower_bound, sample_count,
    control_mrr_sum, treatment_mrr_sum, control_ndcg_sum, treatment_ndcg_sum, min_samples, graduation_threshold,
    started_at, updated_at, graduated_at, decision, reason, feature, state, checklist, version";

const RUN_COLUMNS: &str = "run_id, query_id, feature_id, shown, control_result_ids, treatment_result_ids,
    rank_correlation, set_overlap, top_result_changed, order_differences, mrr_delta, ndcg_delta, control_latency_ms,
    treatment_latency_ms, outcome, graded_by, failure, difference, created_at";

/// The features under test and their shadow runs: [`Store::experiments`].
#[derive(Debug, Clone, Copy)]
pub struct Experiments<'s>(pub(crate) &'s Store);

impl Experiments<'_> {
    /// Starts a test; returns whether the feature is new. An existing one is left unchanged.
    pub async fn start(self, row: &ExperimentRow) -> Result<bool, StoreError> {
        let values = values! {
            &row.feature_id, &row.status, row.log_likelihood_ratio, row.upper_bound, row.lower_bound,
            row.sample_count, row.control_mrr_sum, row.treatment_mrr_sum, row.control_ndcg_sum,
            row.treatment_ndcg_sum, row.min_samples, row.graduation_threshold, row.started_at, row.updated_at,
            row.graduated_at, &row.decision, &row.reason, row.feature.to_string(), row.state.to_string(),
            row.checklist.as_ref().map(Value::to_string), row.version
        };
        let insert =
            Sql::build(&format!("INSERT INTO eval_ab_tests ({TEST_COLUMNS}) ")).push_values([values]);
        Ok(self
            .0
            .pool
            .execute(insert.push(" ON CONFLICT (feature_id) DO NOTHING"))
            .await?
            == 1)
    }

    /// Writes a test with its newly graded runs, atomically; returns false if the test has changed since
    /// `row` was read. `row.version` is the version that was read.
    pub async fn change(self, row: &ExperimentRow, graded: &[GradedRun]) -> Result<bool, StoreError> {
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            let update = sql!(
                "UPDATE eval_ab_tests SET status = $3, log_likelihood_ratio = $4, upper_bound = $5, lower_bound = $6,
                     sample_count = $7, control_mrr_sum = $8, treatment_mrr_sum = $9, control_ndcg_sum = $10,
                     treatment_ndcg_sum = $11, graduated_at = $12, decision = $13, reason = $14, feature = $15,
                     state = $16, checklist = $17, updated_at = $18, version = version + 1
                 WHERE feature_id = $1 AND version = $2";
                &row.feature_id, row.version, &row.status, row.log_likelihood_ratio, row.upper_bound,
                row.lower_bound, row.sample_count, row.control_mrr_sum, row.treatment_mrr_sum,
                row.control_ndcg_sum, row.treatment_ndcg_sum, row.graduated_at, &row.decision,
                row.reason.as_deref(), row.feature.to_string(), row.state.to_string(),
                row.checklist.as_ref().map(Value::to_string), now
            );
            let changed = connection.execute(update).await? == 1;
            if changed {
                for run in graded {
                    let update = sql!(
                        "UPDATE eval_shadow_runs SET outcome = 'counted', mrr_delta = $2, ndcg_delta = $3, graded_by = $4
                         WHERE run_id = $1";
                        &run.run_id, run.mrr_delta, run.ndcg_delta, &run.graded_by
                    );
                    connection.execute(update).await?;
                }
            }
            changed
        })
    }

    /// Returns the test of a feature.
    pub async fn get(self, feature_id: &str) -> Result<Option<ExperimentRow>, StoreError> {
        let select = format!("SELECT {TEST_COLUMNS} FROM eval_ab_tests WHERE feature_id = $1");
        let row = self.0.pool.row(sql!(select; feature_id)).await?;
        row.as_ref().map(test).transpose()
    }

    /// Lists all tests, oldest first.
    pub async fn list(self) -> Result<Vec<ExperimentRow>, StoreError> {
        let select = format!("SELECT {TEST_COLUMNS} FROM eval_ab_tests ORDER BY started_at, feature_id");
        self.0.pool.rows(sql!(select)).await?.iter().map(test).collect()
    }

    /// Returns a fingerprint that changes with every test: their number and the sum of their versions.
    pub async fn state(self) -> Result<(i64, i64), StoreError> {
        let select = sql!("SELECT COUNT(*), CAST(COALESCE(SUM(version), 0) AS BIGINT) FROM eval_ab_tests");
        let row = self.0.pool.one(select).await?;
        Ok((row.get(0)?, row.get(1)?))
    }

    /// Stores a shadow run; returns false if this query already has one for this feature.
    pub async fn put_shadow_run(self, row: &ShadowRunRow) -> Result<bool, StoreError> {
        let ids = |list: &[String]| Value::from(list.to_vec()).to_string();
        let values = values! {
            // The time of the query, so that it has one run for each feature over all partitions.
            time_of_id(&row.query_id),
            &row.run_id, &row.query_id, &row.feature_id, &row.shown, ids(&row.control_result_ids),
            ids(&row.treatment_result_ids), row.rank_correlation, row.set_overlap, row.top_result_changed,
            row.order_differences, row.mrr_delta, row.ndcg_delta, row.control_latency_ms,
            row.treatment_latency_ms, &row.outcome, &row.graded_by, &row.failure, row.difference.to_string(),
            row.created_at
        };
        let insert = Sql::build(&format!(
            "INSERT INTO eval_shadow_runs (partition_at, {RUN_COLUMNS}) "
        ))
        .push_values([values]);
        Ok(self
            .0
            .pool
            .execute(insert.push(" ON CONFLICT DO NOTHING"))
            .await?
            == 1)
    }

    /// Lists shadow runs of a feature, most recent first.
    pub async fn shadow_runs(self, feature_id: &str, limit: u32) -> Result<Vec<ShadowRunRow>, StoreError> {
        self.runs_where("feature_id = $1 AND created_at > $2", feature_id, i64::MIN, limit)
            .await
    }

    /// Lists ungraded shadow runs, most recent first.
    pub async fn open_shadow_runs(
        self,
        feature_id: &str,
        limit: u32,
    ) -> Result<Vec<ShadowRunRow>, StoreError> {
        let open = "feature_id = $1 AND outcome = 'open' AND created_at > $2";
        self.runs_where(open, feature_id, i64::MIN, limit).await
    }

    /// Lists ungraded shadow runs before a time whose results were used, most recent first.
    pub async fn used_shadow_runs(
        self,
        feature_id: &str,
        before: i64,
        limit: u32,
    ) -> Result<Vec<ShadowRunRow>, StoreError> {
        let used = "feature_id = $1 AND outcome = 'open' AND created_at < $2 AND EXISTS (SELECT 1 FROM eval_feedback
            WHERE eval_feedback.query_id = eval_shadow_runs.query_id AND eval_feedback.memory_id IS NOT NULL)";
        self.runs_where(used, feature_id, before, limit).await
    }

    async fn runs_where(
        self,
        condition: &str,
        feature_id: &str,
        time: i64,
        limit: u32,
    ) -> Result<Vec<ShadowRunRow>, StoreError> {
        let select = format!(
            "SELECT {RUN_COLUMNS} FROM eval_shadow_runs WHERE {condition} ORDER BY created_at DESC, run_id DESC LIMIT $3"
        );
        let rows = self.0.pool.rows(sql!(select; feature_id, time, limit)).await?;
        rows.iter().map(shadow_run).collect()
    }

    /// Counts the shadow runs of a feature by outcome: `open`, `counted` and `failed`.
    pub async fn count_shadow_runs(self, feature_id: &str) -> Result<[u64; 3], StoreError> {
        let select = sql!(
            "SELECT outcome, COUNT(*) FROM eval_shadow_runs WHERE feature_id = $1 GROUP BY outcome";
            feature_id
        );
        let rows = self.0.pool.rows(select).await?;
        let mut counts = [0; 3];
        for row in &rows {
            let outcome: String = row.get(0)?;
            if let Some(at) = ["open", "counted", "failed"]
                .iter()
                .position(|name| *name == outcome)
            {
                counts[at] = u64::try_from(row.get::<i64>(1)?).unwrap_or(0);
            }
        }
        Ok(counts)
    }

    /// Returns the uses of these queries' results, in chronological order.
    pub async fn use_of_queries(self, query_ids: &[String]) -> Result<Vec<UseRow>, StoreError> {
        let mut found = Vec::new();
        for ids in query_ids.chunks(BATCH) {
            let select = Sql::build(
                "SELECT query_id, event_type, memory_id FROM eval_feedback WHERE memory_id IS NOT NULL AND query_id IN ",
            );
            let select = select
                .push_list(ids.iter().map(Into::into))
                .push(" ORDER BY created_at, feedback_id");
            for row in self.0.pool.rows(select).await? {
                found.push(columns!(row => UseRow { query_id, event_type, memory_id }));
            }
        }
        Ok(found)
    }
}

fn test(row: &Row) -> Result<ExperimentRow, StoreError> {
    let id: String = row.get("feature_id")?;
    let feature = row.json("feature", format_args!("the feature of the test of {id}"))?;
    let state = row.json("state", format_args!("the state of the test of {id}"))?;
    let checklist = row.optional_json("checklist", format_args!("the checklist of the test of {id}"))?;
    Ok(columns!(row => ExperimentRow {
        status, log_likelihood_ratio, upper_bound, lower_bound, sample_count, control_mrr_sum,
        treatment_mrr_sum, control_ndcg_sum, treatment_ndcg_sum, min_samples, graduation_threshold,
        started_at, updated_at, graduated_at, decision, reason, version;
        feature_id: id, feature, state, checklist
    }))
}

fn shadow_run(row: &Row) -> Result<ShadowRunRow, StoreError> {
    let id: String = row.get("run_id")?;
    let control_result_ids = row.list("control_result_ids", format_args!("shadow run {id}"))?;
    let treatment_result_ids = row.list("treatment_result_ids", format_args!("shadow run {id}"))?;
    let difference = row.json("difference", format_args!("shadow run {id}"))?;
    Ok(columns!(row => ShadowRunRow {
        query_id, feature_id, shown, rank_correlation, set_overlap, top_result_changed, order_differences,
        mrr_delta, ndcg_delta, control_latency_ms, treatment_latency_ms, outcome, graded_by, failure,
        created_at;
        run_id: id, control_result_ids, treatment_result_ids, difference
    }))
}
