//! Features under test: where each test stands, what its shadow runs found, and the one transaction that counts an
//! observation exactly once, whoever else is counting.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{QueryBuilder, Row};

use crate::pool::{in_transaction, reading};
use crate::{Store, StoreError, now_micros, storable};

/// A feature and its test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbTestRow {
    /// The feature.
    pub feature_id: String,
    /// `running`, `paused`, `graduated` or `rejected`.
    pub status: String,
    /// The evidence.
    pub log_likelihood_ratio: f64,
    /// Where the treatment is accepted.
    pub upper_bound: f64,
    /// Where the control is.
    pub lower_bound: f64,
    /// Queries that counted.
    pub sample_count: i64,
    /// Reciprocal ranks of the control, summed.
    pub control_mrr_sum: f64,
    /// Of the treatment.
    pub treatment_mrr_sum: f64,
    /// Gains of the control, summed.
    pub control_ndcg_sum: f64,
    /// Of the treatment.
    pub treatment_ndcg_sum: f64,
    /// No decision before so many.
    pub min_samples: i64,
    /// The improvement that is asked for.
    pub graduation_threshold: f64,
    /// When it was started, in microseconds.
    pub started_at: i64,
    /// When anything about it changed last.
    pub updated_at: i64,
    /// When it became the default.
    pub graduated_at: Option<i64>,
    /// What the test says.
    pub decision: String,
    /// Why it is in this state, by whoever put it there.
    pub reason: Option<String>,
    /// All of the feature.
    pub feature: Value,
    /// All of the test.
    pub state: Value,
    /// The checklist as it was gone through last, with its evidence.
    pub checklist: Option<Value>,
    /// Counts up with each change.
    pub version: i64,
}

/// What a run in the shadow found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShadowRunRow {
    /// Its id.
    pub run_id: String,
    /// The query.
    pub query_id: String,
    /// The feature.
    pub feature_id: String,
    /// Which list the asker got: `control` or `treatment`.
    pub shown: String,
    /// The list without the feature.
    pub control_result_ids: Vec<String>,
    /// The list with it.
    pub treatment_result_ids: Vec<String>,
    /// Kendall's tau-b.
    pub rank_correlation: Option<f64>,
    /// Jaccard's overlap.
    pub set_overlap: Option<f64>,
    /// Whether another memory comes first.
    pub top_result_changed: Option<bool>,
    /// Memories in another place.
    pub order_differences: Option<i64>,
    /// The change of the reciprocal rank, once it is known.
    pub mrr_delta: Option<f64>,
    /// The change of the gain.
    pub ndcg_delta: Option<f64>,
    /// How long the control took.
    pub control_latency_ms: Option<f64>,
    /// How long the treatment took.
    pub treatment_latency_ms: Option<f64>,
    /// `open`, `counted` or `failed`.
    pub outcome: String,
    /// What told the worth of the lists: `judgments` or `use`.
    pub graded_by: Option<String>,
    /// Why there is no answer from the shadow.
    pub failure: Option<String>,
    /// Everything about the difference, with the question.
    pub difference: Value,
    /// When, in microseconds.
    pub created_at: i64,
}

/// A run whose lists were graded.
#[derive(Debug, Clone, PartialEq)]
pub struct GradedRun {
    /// The run.
    pub run_id: String,
    /// The change of the reciprocal rank.
    pub mrr_delta: f64,
    /// The change of the gain.
    pub ndcg_delta: f64,
    /// What told it: `judgments` or `use`.
    pub graded_by: String,
}

/// Something that was done with a result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseRow {
    /// The query.
    pub query_id: String,
    /// What.
    pub event_type: String,
    /// With which memory.
    pub memory_id: String,
}

const TEST_COLUMNS: &str = "feature_id, status, log_likelihood_ratio, upper_bound, lower_bound, sample_count,
    control_mrr_sum, treatment_mrr_sum, control_ndcg_sum, treatment_ndcg_sum, min_samples, graduation_threshold,
    started_at, updated_at, graduated_at, decision, reason, feature, state, checklist, version";

const RUN_COLUMNS: &str = "run_id, query_id, feature_id, shown, control_result_ids, treatment_result_ids,
    rank_correlation, set_overlap, top_result_changed, order_differences, mrr_delta, ndcg_delta, control_latency_ms,
    treatment_latency_ms, outcome, graded_by, failure, difference, created_at";

/// A row of one engine as what both have; JSON is read later, because its errors are not the engine's.
macro_rules! test_columns {
    ($row:expr) => {{
        let row = $row;
        let (feature, state): (String, String) = (row.try_get(17)?, row.try_get(18)?);
        let checklist: Option<String> = row.try_get(19)?;
        let columns = AbTestRow {
            feature_id: row.try_get(0)?,
            status: row.try_get(1)?,
            log_likelihood_ratio: row.try_get(2)?,
            upper_bound: row.try_get(3)?,
            lower_bound: row.try_get(4)?,
            sample_count: row.try_get(5)?,
            control_mrr_sum: row.try_get(6)?,
            treatment_mrr_sum: row.try_get(7)?,
            control_ndcg_sum: row.try_get(8)?,
            treatment_ndcg_sum: row.try_get(9)?,
            min_samples: row.try_get(10)?,
            graduation_threshold: row.try_get(11)?,
            started_at: row.try_get(12)?,
            updated_at: row.try_get(13)?,
            graduated_at: row.try_get(14)?,
            decision: row.try_get(15)?,
            reason: row.try_get(16)?,
            feature: Value::Null,
            state: Value::Null,
            checklist: None,
            version: row.try_get(20)?,
        };
        (columns, feature, state, checklist)
    }};
}

/// The features under test and their shadow runs: [`Store::experiments`].
#[derive(Debug, Clone, Copy)]
pub struct Experiments<'s>(pub(crate) &'s Store);

impl Experiments<'_> {
    /// Starts a test; says whether the feature is new. One that is there stays as it is.
    pub async fn start(self, row: &AbTestRow) -> Result<bool, StoreError> {
        let text = Texts::of(row);
        in_transaction!(&self.0.pool, |connection| {
            let mut insert = QueryBuilder::new(format!("INSERT INTO eval_ab_tests ({TEST_COLUMNS}) "));
            insert.push_values([row], |mut values, row| {
                values
                    .push_bind(storable(&row.feature_id))
                    .push_bind(&row.status)
                    .push_bind(row.log_likelihood_ratio)
                    .push_bind(row.upper_bound)
                    .push_bind(row.lower_bound)
                    .push_bind(row.sample_count)
                    .push_bind(row.control_mrr_sum)
                    .push_bind(row.treatment_mrr_sum)
                    .push_bind(row.control_ndcg_sum)
                    .push_bind(row.treatment_ndcg_sum)
                    .push_bind(row.min_samples)
                    .push_bind(row.graduation_threshold)
                    .push_bind(row.started_at)
                    .push_bind(row.updated_at)
                    .push_bind(row.graduated_at)
                    .push_bind(&row.decision)
                    .push_bind(row.reason.as_deref().map(storable))
                    .push_bind(&text.feature)
                    .push_bind(&text.state)
                    .push_bind(text.checklist.as_deref())
                    .push_bind(row.version);
            });
            insert.push(" ON CONFLICT (feature_id) DO NOTHING");
            insert.build().execute(&mut *connection).await?.rows_affected() == 1
        })
    }

    /// Writes a test as it is now, with everything that was graded for it, or nothing at all when somebody else has
    /// changed the test since `row` was read; says which. `row.version` is the version that was read.
    pub async fn change(self, row: &AbTestRow, graded: &[GradedRun]) -> Result<bool, StoreError> {
        let text = Texts::of(row);
        let now = now_micros();
        in_transaction!(&self.0.pool, |connection| {
            let changed = sqlx::query(
                "UPDATE eval_ab_tests SET status = $3, log_likelihood_ratio = $4, upper_bound = $5, lower_bound = $6,
                     sample_count = $7, control_mrr_sum = $8, treatment_mrr_sum = $9, control_ndcg_sum = $10,
                     treatment_ndcg_sum = $11, graduated_at = $12, decision = $13, reason = $14, feature = $15,
                     state = $16, checklist = $17, updated_at = $18, version = version + 1
                 WHERE feature_id = $1 AND version = $2",
            )
            .bind(storable(&row.feature_id))
            .bind(row.version)
            .bind(&row.status)
            .bind(row.log_likelihood_ratio)
            .bind(row.upper_bound)
            .bind(row.lower_bound)
            .bind(row.sample_count)
            .bind(row.control_mrr_sum)
            .bind(row.treatment_mrr_sum)
            .bind(row.control_ndcg_sum)
            .bind(row.treatment_ndcg_sum)
            .bind(row.graduated_at)
            .bind(&row.decision)
            .bind(row.reason.as_deref().map(storable))
            .bind(&text.feature)
            .bind(&text.state)
            .bind(text.checklist.as_deref())
            .bind(now)
            .execute(&mut *connection)
            .await?
            .rows_affected()
                == 1;
            if changed {
                for run in graded {
                    sqlx::query(
                        "UPDATE eval_shadow_runs SET outcome = 'counted', mrr_delta = $2, ndcg_delta = $3, graded_by = $4
                         WHERE run_id = $1",
                    )
                    .bind(&run.run_id)
                    .bind(run.mrr_delta)
                    .bind(run.ndcg_delta)
                    .bind(&run.graded_by)
                    .execute(&mut *connection)
                    .await?;
                }
            }
            changed
        })
    }

    /// A feature's test.
    pub async fn get(self, feature_id: &str) -> Result<Option<AbTestRow>, StoreError> {
        let select = format!("SELECT {TEST_COLUMNS} FROM eval_ab_tests WHERE feature_id = $1");
        let found = reading!(&self.0.pool, |connection| {
            let row = sqlx::query(sqlx::AssertSqlSafe(select.as_str()))
                .bind(storable(feature_id))
                .fetch_optional(connection)
                .await?;
            match row {
                Some(row) => Some(test_columns!(row)),
                None => None,
            }
        })?;
        found.map(|columns| self.ab_test_row(columns)).transpose()
    }

    /// All tests, the oldest first.
    pub async fn list(self) -> Result<Vec<AbTestRow>, StoreError> {
        let select = format!("SELECT {TEST_COLUMNS} FROM eval_ab_tests ORDER BY started_at, feature_id");
        let found = reading!(&self.0.pool, |connection| {
            let rows = sqlx::query(sqlx::AssertSqlSafe(select.as_str()))
                .fetch_all(connection)
                .await?;
            let mut found = Vec::with_capacity(rows.len());
            for row in rows {
                found.push(test_columns!(row));
            }
            found
        })?;
        found
            .into_iter()
            .map(|columns| self.ab_test_row(columns))
            .collect()
    }

    /// Something that changes whenever a test does: how many there are, and the sum of their versions.
    pub async fn state(self) -> Result<(i64, i64), StoreError> {
        reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT COUNT(*), CAST(COALESCE(SUM(version), 0) AS BIGINT) FROM eval_ab_tests"
        )
        .fetch_one(connection)
        .await?)
    }

    fn ab_test_row(
        self,
        (row, feature, state, checklist): (AbTestRow, String, String, Option<String>),
    ) -> Result<AbTestRow, StoreError> {
        let parse = |text: &str, what: &str| {
            self.0
                .parse_json(text, || format!("{what} of the test of {}", row.feature_id))
        };
        Ok(AbTestRow {
            feature: parse(&feature, "the feature")?,
            state: parse(&state, "the state")?,
            checklist: checklist.map(|text| parse(&text, "the checklist")).transpose()?,
            ..row
        })
    }

    /// Keeps what a shadow run found; says whether this query had none for this feature.
    pub async fn put_shadow_run(self, row: &ShadowRunRow) -> Result<bool, StoreError> {
        let ids = |list: &[String]| storable(&Value::from(list.to_vec()).to_string()).into_owned();
        let (control, treatment) = (ids(&row.control_result_ids), ids(&row.treatment_result_ids));
        let difference = storable(&row.difference.to_string()).into_owned();
        in_transaction!(&self.0.pool, |connection| {
            let mut insert = QueryBuilder::new(format!("INSERT INTO eval_shadow_runs ({RUN_COLUMNS}) "));
            insert.push_values([row], |mut values, row| {
                values
                    .push_bind(storable(&row.run_id))
                    .push_bind(storable(&row.query_id))
                    .push_bind(storable(&row.feature_id))
                    .push_bind(&row.shown)
                    .push_bind(&control)
                    .push_bind(&treatment)
                    .push_bind(row.rank_correlation)
                    .push_bind(row.set_overlap)
                    .push_bind(row.top_result_changed)
                    .push_bind(row.order_differences)
                    .push_bind(row.mrr_delta)
                    .push_bind(row.ndcg_delta)
                    .push_bind(row.control_latency_ms)
                    .push_bind(row.treatment_latency_ms)
                    .push_bind(&row.outcome)
                    .push_bind(row.graded_by.as_deref())
                    .push_bind(row.failure.as_deref().map(storable))
                    .push_bind(&difference)
                    .push_bind(row.created_at);
            });
            insert.push(" ON CONFLICT DO NOTHING");
            insert.build().execute(&mut *connection).await?.rows_affected() == 1
        })
    }

    /// Shadow runs of a feature, the latest first.
    pub async fn shadow_runs(self, feature_id: &str, limit: u32) -> Result<Vec<ShadowRunRow>, StoreError> {
        self.runs_where("feature_id = $1 AND created_at > $2", feature_id, i64::MIN, limit)
            .await
    }

    /// Those whose lists were not graded yet, the latest first.
    pub async fn open_shadow_runs(
        self,
        feature_id: &str,
        limit: u32,
    ) -> Result<Vec<ShadowRunRow>, StoreError> {
        let open = "feature_id = $1 AND outcome = 'open' AND created_at > $2";
        self.runs_where(open, feature_id, i64::MIN, limit).await
    }

    /// Those of them from before a time with whose results something was done, the latest first.
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
        let found = reading!(&self.0.pool, |connection| {
            // Not user input: one of the conditions above.
            let rows = sqlx::query(sqlx::AssertSqlSafe(select.as_str()))
                .bind(storable(feature_id))
                .bind(time)
                .bind(i64::from(limit))
                .fetch_all(connection)
                .await?;
            let mut found = Vec::with_capacity(rows.len());
            for row in rows {
                let texts: [String; 3] = [row.try_get(4)?, row.try_get(5)?, row.try_get(17)?];
                let columns = ShadowRunRow {
                    run_id: row.try_get(0)?,
                    query_id: row.try_get(1)?,
                    feature_id: row.try_get(2)?,
                    shown: row.try_get(3)?,
                    control_result_ids: Vec::new(),
                    treatment_result_ids: Vec::new(),
                    rank_correlation: row.try_get(6)?,
                    set_overlap: row.try_get(7)?,
                    top_result_changed: row.try_get(8)?,
                    order_differences: row.try_get(9)?,
                    mrr_delta: row.try_get(10)?,
                    ndcg_delta: row.try_get(11)?,
                    control_latency_ms: row.try_get(12)?,
                    treatment_latency_ms: row.try_get(13)?,
                    outcome: row.try_get(14)?,
                    graded_by: row.try_get(15)?,
                    failure: row.try_get(16)?,
                    difference: Value::Null,
                    created_at: row.try_get(18)?,
                };
                found.push((columns, texts));
            }
            found
        })?;
        let read = |(row, [control, treatment, difference]): (ShadowRunRow, [String; 3])| {
            let parse = |text: &str| self.0.parse_json(text, || format!("shadow run {}", row.run_id));
            let ids = |text: &str| -> Result<Vec<String>, StoreError> {
                let list = parse(text)?;
                let ids = list.as_array().into_iter().flatten();
                Ok(ids.filter_map(|id| id.as_str().map(Into::into)).collect())
            };
            Ok(ShadowRunRow {
                control_result_ids: ids(&control)?,
                treatment_result_ids: ids(&treatment)?,
                difference: parse(&difference)?,
                ..row
            })
        };
        found.into_iter().map(read).collect()
    }

    /// How many shadow runs of a feature there are of each outcome: `open`, `counted` and `failed`.
    pub async fn count_shadow_runs(self, feature_id: &str) -> Result<[u64; 3], StoreError> {
        let rows: Vec<(String, i64)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT outcome, COUNT(*) FROM eval_shadow_runs WHERE feature_id = $1 GROUP BY outcome"
        )
        .bind(storable(feature_id))
        .fetch_all(connection)
        .await?)?;
        let of = |name: &str| {
            let found = rows.iter().find(|(outcome, _)| outcome == name);
            found.map_or(0, |(_, count)| u64::try_from(*count).unwrap_or(0))
        };
        Ok([of("open"), of("counted"), of("failed")])
    }

    /// What was done with results of these queries, in the order in which it was done.
    pub async fn use_of_queries(self, query_ids: &[String]) -> Result<Vec<UseRow>, StoreError> {
        let mut found = Vec::new();
        for ids in query_ids.chunks(500) {
            let rows: Vec<(String, String, String)> = reading!(&self.0.pool, |connection| {
                let mut select = QueryBuilder::new(
                    "SELECT query_id, event_type, memory_id FROM eval_feedback WHERE memory_id IS NOT NULL AND query_id IN (",
                );
                let mut list = select.separated(", ");
                for id in ids {
                    list.push_bind(storable(id));
                }
                select.push(") ORDER BY created_at, feedback_id");
                select.build_query_as().fetch_all(connection).await?
            })?;
            found.extend(rows.into_iter().map(|(query_id, event_type, memory_id)| UseRow {
                query_id,
                event_type,
                memory_id,
            }));
        }
        Ok(found)
    }
}

/// What goes into columns of JSON.
struct Texts {
    feature: String,
    state: String,
    checklist: Option<String>,
}

impl Texts {
    fn of(row: &AbTestRow) -> Self {
        let text = |value: &Value| storable(&value.to_string()).into_owned();
        Self {
            feature: text(&row.feature),
            state: text(&row.state),
            checklist: row.checklist.as_ref().map(text),
        }
    }
}
