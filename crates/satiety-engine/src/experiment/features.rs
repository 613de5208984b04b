//! Feature lifecycle: start, pause, resume, reject, roll back, and list.

use crate::handles::ExperimentOperations;
use std::path::Path;

use satiety::experiment::{Decision, Feature, Standing, Trial};
use satiety::memory::Pipeline;
use satiety_store::experiment::ExperimentRow;
use satiety_store::journal::Event;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ExperimentError;
use super::assignment::apply_change;
use crate::EngineError;

/// Attempts to change a test before giving up on concurrent writers.
pub(super) const TRIES: u32 = 50;

/// Request to start a feature.
#[derive(Debug, Clone)]
pub struct StartRequest {
    pub feature: Feature,
}

/// A feature after a change of its state.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentChange {
    /// Definition of the changed feature.
    pub feature: Feature,
    /// New state: `running`, `paused`, `graduated` or `rejected`.
    pub status: String,
    /// Reason given for the change, if any.
    pub reason: Option<String>,
}

/// Summary of a feature in the list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentFeature {
    /// Name of the feature, unique.
    pub feature_id: String,
    /// Description of the change under test.
    pub description: String,
    /// State: `running`, `paused`, `graduated` or `rejected`.
    pub status: String,
    /// Percentage of sessions that get the feature.
    pub rollout_percent: f64,
    /// Decision of the sequential test so far.
    pub decision: Decision,
    /// Number of queries compared so far.
    pub samples: u64,
    /// Mean difference of the reciprocal rank, treatment minus control.
    pub mrr_delta: Option<f64>,
}

/// All features and the pipeline that searches use.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentList {
    /// Features, in order of their start.
    pub features: Vec<ExperimentFeature>,
    /// Graduated features that are no longer valid, with the reason; searches skip them.
    pub unfit: Vec<(String, String)>,
    /// Default pipeline with all graduated features applied.
    pub pipeline: Pipeline,
}

/// Parses a feature from a file (TOML or JSON) or from JSON on the command line.
pub fn read_feature(name: &str, text: &str) -> Result<Feature, ExperimentError> {
    read(name, text)
}

/// Parses a pipeline change from a file (TOML or JSON) or from JSON on the command line.
pub(crate) fn read_change(name: &str, text: &str) -> Result<Map<String, Value>, ExperimentError> {
    read(name, text)
}

fn read<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, ExperimentError> {
    let is_toml = Path::new(name)
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    let unreadable = |problem: String| ExperimentError::Unreadable {
        name: name.into(),
        problem,
    };
    if is_toml {
        toml::from_str(text).map_err(|error| unreadable(error.to_string().trim_end().to_owned()))
    } else {
        serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))
    }
}

impl StartRequest {
    /// Parses a pipeline change given as JSON or as the path of a file.
    pub fn change(text: &str) -> Result<Map<String, Value>, EngineError> {
        if text.trim_start().starts_with('{') {
            return Ok(read_change("the pipeline", text)?);
        }
        let content = fs_err::read_to_string(text).map_err(|cause| EngineError::File {
            action: "read",
            path: text.into(),
            cause,
        })?;
        Ok(read_change(text, &content)?)
    }

    /// Reads a complete feature from a file.
    pub fn file(path: &Path) -> Result<Self, EngineError> {
        let name = path.display().to_string();
        let content = fs_err::read_to_string(path).map_err(|cause| EngineError::File {
            action: "read",
            path: name.clone(),
            cause,
        })?;
        Ok(Self {
            feature: read_feature(&name, &content)?,
        })
    }
}

impl ExperimentOperations<'_> {
    /// Starts a feature. An existing feature of the same name, in any state, is left unchanged.
    pub async fn start(self, request: StartRequest) -> Result<ExperimentChange, EngineError> {
        let feature = request.feature;
        feature.check().map_err(ExperimentError::from)?;
        self.invalidate_features().await;
        let live = self.live_features().await?;
        apply_change(&live.pipeline, &feature.feature_id, &feature.pipeline)?;
        let trial = Trial::new(feature.trial()).map_err(|problem| ExperimentError::Test {
            feature: feature.feature_id.clone(),
            problem,
        })?;
        let now = now_micros();
        let mut row = ExperimentRow {
            feature_id: feature.feature_id.clone(),
            status: "running".into(),
            log_likelihood_ratio: 0.0,
            upper_bound: 0.0,
            lower_bound: 0.0,
            sample_count: 0,
            control_mrr_sum: 0.0,
            treatment_mrr_sum: 0.0,
            control_ndcg_sum: 0.0,
            treatment_ndcg_sum: 0.0,
            min_samples: i64::try_from(feature.min_samples).unwrap_or(i64::MAX),
            graduation_threshold: feature.graduation_threshold,
            started_at: now,
            updated_at: now,
            graduated_at: None,
            decision: String::new(),
            reason: None,
            feature: serde_json::to_value(&feature)?,
            state: Value::Null,
            checklist: None,
            version: 0,
        };
        put_trial(&mut row, &trial)?;
        let store = self.engine.store().await?;
        if !store.experiments().start(&row).await? {
            return Err(ExperimentError::Exists(feature.feature_id).into());
        }
        self.invalidate_features().await;
        let body = json!({"feature": &feature});
        store
            .journal()
            .append(Event::now("ab.started", &row.feature_id, body))
            .await?;
        Ok(ExperimentChange {
            feature,
            status: row.status,
            reason: None,
        })
    }

    /// Pauses assignment and comparison until the feature is resumed.
    pub async fn pause(
        self,
        feature_id: &str,
        reason: Option<String>,
    ) -> Result<ExperimentChange, EngineError> {
        self.transition(feature_id, &["running"], "paused", "paused", reason)
            .await
    }

    /// Resumes a paused feature; its test continues where it stopped.
    pub async fn resume(
        self,
        feature_id: &str,
        reason: Option<String>,
    ) -> Result<ExperimentChange, EngineError> {
        self.transition(feature_id, &["paused"], "running", "resumed", reason)
            .await
    }

    /// Rejects a feature permanently. A graduated feature is removed from the default pipeline.
    pub async fn reject(
        self,
        feature_id: &str,
        reason: Option<String>,
    ) -> Result<ExperimentChange, EngineError> {
        let from = ["running", "paused", "graduated"];
        self.transition(feature_id, &from, "rejected", "rejected", reason)
            .await
    }

    /// Rolls back a graduated feature; its test and its record are kept.
    pub async fn rollback(
        self,
        feature_id: &str,
        reason: Option<String>,
    ) -> Result<ExperimentChange, EngineError> {
        self.transition(feature_id, &["graduated"], "paused", "rolled back", reason)
            .await
    }

    /// Changes the rollout percentage and the share of queries that are run as shadows.
    pub async fn rollout(
        self,
        feature_id: &str,
        rollout_percent: Option<f64>,
        shadow_percent: Option<f64>,
    ) -> Result<ExperimentChange, EngineError> {
        self.change_test(feature_id, |row, feature| {
            if !matches!(row.status.as_str(), "running" | "paused") {
                return Err(refused(row, "changed"));
            }
            feature.rollout_percent = rollout_percent.unwrap_or(feature.rollout_percent);
            feature.shadow_percent = shadow_percent.unwrap_or(feature.shadow_percent);
            feature.check()?;
            Ok("ab.rollout")
        })
        .await
    }

    /// Lists all features with the default pipeline.
    pub async fn list(self) -> Result<ExperimentList, EngineError> {
        let rows = self.engine.store().await?.experiments().list().await?;
        let live = super::ActiveFeatures::of(&rows);
        let mut features = Vec::with_capacity(rows.len());
        for row in &rows {
            let (feature, standing) = (feature_of(row)?, standing_of(row)?);
            features.push(ExperimentFeature {
                feature_id: feature.feature_id,
                description: feature.description,
                status: row.status.clone(),
                rollout_percent: feature.rollout_percent,
                decision: standing.decision,
                samples: standing.samples,
                mrr_delta: standing.mrr_delta,
            });
        }
        Ok(ExperimentList {
            features,
            unfit: live.unfit,
            pipeline: Pipeline::clone(&live.pipeline),
        })
    }

    async fn transition(
        self,
        feature_id: &str,
        from: &[&str],
        to: &str,
        action: &'static str,
        reason: Option<String>,
    ) -> Result<ExperimentChange, EngineError> {
        self.change_test(feature_id, |row, _| {
            if !from.contains(&row.status.as_str()) {
                return Err(refused(row, action));
            }
            row.status = to.into();
            row.reason.clone_from(&reason);
            row.graduated_at = None;
            Ok(match to {
                "rejected" => "ab.rejected",
                "running" => "ab.resumed",
                _ => "ab.paused",
            })
        })
        .await
    }

    /// Changes a test, retrying on concurrent changes, and records it in the journal.
    pub(super) async fn change_test(
        self,
        feature_id: &str,
        change: impl Fn(&mut ExperimentRow, &mut Feature) -> Result<&'static str, ExperimentError>,
    ) -> Result<ExperimentChange, EngineError> {
        let store = self.engine.store().await?;
        for _ in 0..TRIES {
            let mut row = self.row(feature_id).await?;
            let mut feature = feature_of(&row)?;
            let kind = change(&mut row, &mut feature)?;
            row.feature = serde_json::to_value(&feature)?;
            if store.experiments().change(&row, &[]).await? {
                self.invalidate_features().await;
                let body = json!({"status": row.status, "reason": row.reason, "rollout_percent": feature.rollout_percent});
                store.journal().append(Event::now(kind, feature_id, body)).await?;
                return Ok(ExperimentChange {
                    feature,
                    status: row.status,
                    reason: row.reason,
                });
            }
        }
        Err(ExperimentError::Contended(feature_id.into()).into())
    }

    pub(super) async fn row(self, feature_id: &str) -> Result<ExperimentRow, EngineError> {
        let row = self.engine.store().await?.experiments().get(feature_id).await?;
        Ok(row.ok_or_else(|| ExperimentError::NotFound(feature_id.into()))?)
    }
}

pub(super) fn refused(row: &ExperimentRow, action: &'static str) -> ExperimentError {
    ExperimentError::Status {
        feature: row.feature_id.clone(),
        status: row.status.clone(),
        action,
    }
}

pub(super) fn feature_of(row: &ExperimentRow) -> Result<Feature, ExperimentError> {
    serde_json::from_value(row.feature.clone()).map_err(|problem| unreadable(row, problem))
}

pub(super) fn trial_of(row: &ExperimentRow) -> Result<Trial, ExperimentError> {
    serde_json::from_value(row.state.clone()).map_err(|problem| unreadable(row, problem))
}

pub(super) fn standing_of(row: &ExperimentRow) -> Result<Standing, ExperimentError> {
    Ok(trial_of(row)?.standing())
}

fn unreadable(row: &ExperimentRow, problem: serde_json::Error) -> ExperimentError {
    ExperimentError::State {
        feature: row.feature_id.clone(),
        problem,
    }
}

pub(super) fn put_trial(row: &mut ExperimentRow, trial: &Trial) -> Result<(), EngineError> {
    let standing = trial.standing();
    let [control, treatment] = trial.sums();
    row.log_likelihood_ratio = standing.log_likelihood_ratio.unwrap_or(0.0);
    row.lower_bound = standing.lower_bound;
    row.upper_bound = standing.upper_bound;
    row.sample_count = i64::try_from(standing.samples).unwrap_or(i64::MAX);
    row.control_mrr_sum = control.mrr;
    row.treatment_mrr_sum = treatment.mrr;
    row.control_ndcg_sum = control.ndcg;
    row.treatment_ndcg_sum = treatment.ndcg;
    row.decision = standing.decision.name().into();
    row.state = serde_json::to_value(trial)?;
    Ok(())
}
