//! Graduation: makes a feature the default if it passes every line of the checklist, measured now. There is
//! no override.

use crate::handles::ExperimentOperations;
use satiety::experiment::GraduationVerdict;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::ExperimentStatus;
use super::features::refused;
use crate::EngineError;

/// Result of checking a feature against the checklist.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentCheck {
    /// Verdict of the graduation checklist.
    pub verdict: GraduationVerdict,
    /// Whether the feature became the default.
    pub graduated: bool,
    /// State of the feature after the check.
    #[serde(flatten)]
    pub status: ExperimentStatus,
}

impl ExperimentOperations<'_> {
    /// Measures both pipelines on the corpus, evaluates the checklist and stores the result.
    pub async fn check(self, feature_id: &str) -> Result<ExperimentCheck, EngineError> {
        self.count_observations(feature_id).await?;
        let row = self.row(feature_id).await?;
        let feature = super::features::feature_of(&row)?;
        let corpus = self.measure_corpus(&feature).await?;
        let status = self.status_of(row, corpus).await?;
        let kept = json!({"at": now_micros(), "corpus": &status.corpus, "checklist": &status.checklist});
        self.change_test(feature_id, |row, _| {
            row.checklist = Some(kept.clone());
            Ok("ab.checked")
        })
        .await?;
        Ok(ExperimentCheck {
            verdict: status.checklist.verdict,
            graduated: false,
            status,
        })
    }

    /// Makes a feature the default of all searches if the checklist allows it.
    pub async fn graduate(
        self,
        feature_id: &str,
        reason: Option<String>,
    ) -> Result<ExperimentCheck, EngineError> {
        let row = self.row(feature_id).await?;
        if !matches!(row.status.as_str(), "running" | "paused") {
            return Err(refused(&row, "graduated").into());
        }
        let mut checked = self.check(feature_id).await?;
        if checked.verdict != GraduationVerdict::Graduate {
            return Ok(checked);
        }
        let at = now_micros();
        let changed = self
            .change_test(feature_id, |row, _| {
                // The feature may have been ended while it was measured.
                if !matches!(row.status.as_str(), "running" | "paused") {
                    return Err(refused(row, "graduated"));
                }
                row.status = "graduated".into();
                row.graduated_at = Some(at);
                row.reason.clone_from(&reason);
                Ok("ab.graduated")
            })
            .await?;
        checked.graduated = true;
        checked.status.status = changed.status;
        checked.status.reason = changed.reason;
        checked.status.graduated_at = Some(at);
        Ok(checked)
    }
}
