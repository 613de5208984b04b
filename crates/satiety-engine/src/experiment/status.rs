//! Status of a feature: its test, its shadow runs and the checklist.

use crate::handles::ExperimentOperations;
use satiety::experiment::{
    Checklist, CorpusEvidence, Feature, GraduationEvidence, GraduationLimits, ShadowCounts, Standing,
    check_graduation,
};
use satiety::stats::quantiles;
use satiety_store::experiment::{ExperimentRow, ShadowRunRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::features::{feature_of, standing_of};
use crate::EngineError;

/// Number of shadow runs in the summary, most recent first.
const MAX_RUNS: u32 = 1000;

/// Status of a feature under test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentStatus {
    /// Definition of the feature.
    pub feature: Feature,
    /// State: `running`, `paused`, `graduated` or `rejected`.
    pub status: String,
    /// Reason given for the last change of state, if any.
    pub reason: Option<String>,
    /// Start time in microseconds since the Unix epoch.
    pub started_at: i64,
    /// Graduation time in microseconds since the Unix epoch.
    pub graduated_at: Option<i64>,
    /// State of the sequential test.
    pub test: Standing,
    /// Summary of the shadow runs.
    pub shadow: ShadowSummary,
    /// Graduation checklist; corpus metrics are from the last measurement.
    pub checklist: Checklist,
    /// Corpus metrics of both pipelines, as last measured.
    pub corpus: Option<CorpusEvidence>,
}

/// Summary of the latest thousand shadow runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowSummary {
    /// Number of runs by outcome.
    #[serde(flatten)]
    pub counts: ShadowCounts,
    /// Number of runs counted by the test.
    pub counted: u64,
    /// Mean rank correlation (Kendall's tau-b), −1 to 1.
    pub mean_rank_correlation: Option<f64>,
    /// Mean overlap of the result sets (Jaccard), 0 to 1.
    pub mean_set_overlap: Option<f64>,
    /// Share of runs with the same top result, 0 to 1.
    pub top_result_agreement: Option<f64>,
    /// Number of `identical`, `minor`, `major` and `incompatible` runs.
    pub classes: [u64; 4],
    /// Median and 95th percentile of the control's latency, in milliseconds.
    pub control_latency_ms: Option<[f64; 2]>,
    /// Median and 95th percentile of the treatment's latency, in milliseconds.
    pub treatment_latency_ms: Option<[f64; 2]>,
    /// Error of the latest failed run, if any.
    pub last_failure: Option<String>,
}

impl ExperimentOperations<'_> {
    /// Counts new observations and returns the status of a feature.
    pub async fn status(self, feature_id: &str) -> Result<ExperimentStatus, EngineError> {
        self.count_observations(feature_id).await?;
        let row = self.row(feature_id).await?;
        let corpus = row.checklist.as_ref().and_then(|kept| kept.get("corpus"));
        let corpus = corpus.and_then(|kept| serde_json::from_value(kept.clone()).ok());
        self.status_of(row, corpus).await
    }

    pub(super) async fn status_of(
        self,
        row: ExperimentRow,
        corpus: Option<CorpusEvidence>,
    ) -> Result<ExperimentStatus, EngineError> {
        let store = self.engine.store().await?;
        let [open, counted, failed] = store.experiments().count_shadow_runs(&row.feature_id).await?;
        let counts = ShadowCounts {
            runs: open + counted + failed,
            failed,
            open,
        };
        let runs = store.experiments().shadow_runs(&row.feature_id, MAX_RUNS).await?;
        let feature = feature_of(&row)?;
        let evidence = GraduationEvidence {
            standing: standing_of(&row)?,
            corpus,
            shadow: counts,
        };
        let limits = GraduationLimits {
            threshold: feature.graduation_threshold,
            ..GraduationLimits::default()
        };
        Ok(ExperimentStatus {
            checklist: check_graduation(&evidence, &limits),
            feature,
            status: row.status,
            reason: row.reason,
            started_at: row.started_at,
            graduated_at: row.graduated_at,
            test: evidence.standing,
            shadow: summary(counts, counted, &runs),
            corpus: evidence.corpus,
        })
    }
}

fn summary(counts: ShadowCounts, counted: u64, runs: &[ShadowRunRow]) -> ShadowSummary {
    let average =
        |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let of =
        |value: &dyn Fn(&ShadowRunRow) -> Option<f64>| runs.iter().filter_map(value).collect::<Vec<f64>>();
    let times = |values: Vec<f64>| {
        let found = quantiles(&values, &[0.5, 0.95]).ok()?;
        <[f64; 2]>::try_from(found).ok()
    };
    let class = |name: &str| {
        let has = |run: &&ShadowRunRow| {
            run.difference
                .pointer("/difference/class")
                .and_then(Value::as_str)
                == Some(name)
        };
        runs.iter().filter(has).count() as u64
    };
    ShadowSummary {
        counts,
        counted,
        mean_rank_correlation: average(of(&|run| run.rank_correlation)),
        mean_set_overlap: average(of(&|run| run.set_overlap)),
        top_result_agreement: average(of(&|run| {
            run.top_result_changed.map(|changed| f64::from(!changed))
        })),
        classes: ["identical", "minor", "major", "incompatible"].map(class),
        control_latency_ms: times(of(&|run| run.control_latency_ms)),
        treatment_latency_ms: times(of(&|run| run.treatment_latency_ms)),
        last_failure: runs.iter().find_map(|run| run.failure.clone()),
    }
}
