//! Where a feature stands: its test, its shadow runs and the checklist.

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

/// Shadow runs that the summary looks at, the latest.
const LOOKED_AT: u32 = 1000;

/// Where a feature stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentStatus {
    /// The feature.
    pub feature: Feature,
    /// `running`, `paused`, `graduated` or `rejected`.
    pub status: String,
    /// Why, by whoever did it last.
    pub reason: Option<String>,
    /// When it was started, in microseconds since 1970.
    pub started_at: i64,
    /// When it became the default.
    pub graduated_at: Option<i64>,
    /// Its test.
    pub test: Standing,
    /// Its shadow runs.
    pub shadow: ShadowSummary,
    /// What it takes to become the default. What needs the corpus is as it was measured last.
    pub checklist: Checklist,
    /// Both pipelines on the corpus, as measured last.
    pub corpus: Option<CorpusEvidence>,
}

/// What shadow runs found, over the latest thousand.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowSummary {
    /// How many there are, and how they went.
    #[serde(flatten)]
    pub counts: ShadowCounts,
    /// Of these: counted by the test.
    pub counted: u64,
    /// Kendall's tau-b, on average.
    pub mean_rank_correlation: Option<f64>,
    /// Jaccard's overlap, on average.
    pub mean_set_overlap: Option<f64>,
    /// How often both had the same first result.
    pub top_result_agreement: Option<f64>,
    /// How many were `identical`, `minor`, `major` and `incompatible`.
    pub classes: [u64; 4],
    /// The middle and the 95th percentile of the control's time, in milliseconds.
    pub control_latency_ms: Option<[f64; 2]>,
    /// Of the treatment's.
    pub treatment_latency_ms: Option<[f64; 2]>,
    /// Why the latest run failed, if one did.
    pub last_failure: Option<String>,
}

impl ExperimentOperations<'_> {
    /// Counts what has become known, and says where a feature stands.
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
        let runs = store
            .experiments()
            .shadow_runs(&row.feature_id, LOOKED_AT)
            .await?;
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
