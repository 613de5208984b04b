//! Activation of scorer versions. A version becomes active only with an ablation that shows no regression; a
//! rollback to the previous version needs none. Both are logged with author and reason.

use crate::handles::EvictionOperations;
use satiety::Hint;
use satiety::bench::AblationReport;
use satiety::eviction::Weights;
use satiety::eviction::gate::{Scorer, refusals};
use satiety::ids;
use satiety_store::eviction::ActivationRow;
use satiety_store::journal::Event;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::scopes::{built_in_weights, parse};
use crate::EngineError;

/// Maximum number of versions in a list.
const MAX_VERSIONS: u32 = 1000;

/// Request to activate a scorer version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivateRequest {
    /// Version of the scorer to activate.
    pub version: String,
    /// Id of the ablation that permits the activation.
    pub ablation_id: Option<String>,
    /// Name of the person who activates it.
    pub by: String,
    /// Reason for the activation, for the log.
    pub reason: String,
}

/// Request to return to the previously active version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// Name of the person who rolls back.
    pub by: String,
    /// Reason for the rollback, for the log.
    pub reason: String,
}

/// Result of an activation or a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActivateResponse {
    /// Activation that is active from now on.
    #[serde(flatten)]
    pub activation: ActivationRow,
}

/// All scorer versions and the activation log.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Scorers {
    /// Version of the active scorer.
    pub in_force: String,
    /// All versions, newest first; the built-in one is last.
    pub versions: Vec<ScorerSummary>,
    /// Activation log, most recent first.
    pub log: Vec<ActivationRow>,
}

/// Summary of a scorer version in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScorerSummary {
    /// Version of the scorer.
    pub version: String,
    /// Kind of scorer: `baseline`, `weights`, `prompt` or `online`.
    pub variant: String,
    /// Creation time in microseconds since the Unix epoch; absent for the built-in version.
    pub created_at: Option<i64>,
    /// AUC on held-out proposals, 0 to 1.
    pub auc: Option<f64>,
    /// Whether the fit showed a gain on held-out proposals.
    pub gain_shown: Option<bool>,
}

impl EvictionOperations<'_> {
    /// Lists all versions of the scorer.
    pub async fn scorers(self) -> Result<Scorers, EngineError> {
        let store = self.engine.store().await?;
        let mut versions: Vec<ScorerSummary> = store
            .eviction()
            .scorers(MAX_VERSIONS)
            .await?
            .into_iter()
            .map(|row| {
                let fit: Option<serde_json::Value> = row.fit.and_then(|fit| serde_json::from_str(&fit).ok());
                ScorerSummary {
                    version: row.version,
                    variant: row.variant,
                    created_at: Some(row.created_at),
                    auc: fit.as_ref().and_then(|fit| fit.pointer("/after/auc")?.as_f64()),
                    gain_shown: fit.as_ref().and_then(|fit| fit.pointer("/gain/shown")?.as_bool()),
                }
            })
            .collect();
        versions.push(ScorerSummary {
            version: Weights::heuristic().version,
            variant: "baseline".into(),
            created_at: None,
            auc: None,
            gain_shown: None,
        });
        Ok(Scorers {
            in_force: self.active_version().await?,
            versions,
            log: store.eviction().activations(MAX_VERSIONS).await?,
        })
    }

    /// Returns a version of the scorer.
    pub async fn scorer(self, version: &str) -> Result<Scorer, EngineError> {
        if built_in_weights(version).is_some() {
            return Ok(Scorer::baseline());
        }
        let row = self.engine.store().await?.eviction().scorer(version).await?;
        let row = row.ok_or_else(|| version_not_found(version))?;
        parse(&row.body, || format!("scorer `{version}`"))
    }

    /// Activates a version if an ablation permits it.
    pub async fn activate(self, request: ActivateRequest) -> Result<ActivateResponse, EngineError> {
        let scorer = self.scorer(&request.version).await?;
        let in_force = self.active_version().await?;
        if scorer.weights.version == in_force {
            return Err(EngineError::Conflict {
                message: format!("`{in_force}` is already active"),
                hint: Hint::with_command("list the weights to see their versions", "satiety evict weights"),
            });
        }
        let refused = |reasons: Vec<String>| EngineError::EvictRefused {
            version: request.version.clone(),
            reasons,
        };
        let Some(ablation_id) = &request.ablation_id else {
            return Err(refused(vec!["no ablation was given".into()]));
        };
        let report = self
            .engine
            .store()
            .await?
            .bench()
            .ablation_report(ablation_id)
            .await?;
        let Some(report) = report else {
            return Err(refused(vec![format!("ablation `{ablation_id}` not found")]));
        };
        let report: AblationReport = parse(&report, || format!("ablation `{ablation_id}`"))?;
        let reasons = refusals(&scorer.weights.version, &in_force, &report);
        if !reasons.is_empty() {
            return Err(refused(reasons));
        }
        self.store_activation(ActivationRow {
            activation_id: ids::prefixed("act", Uuid::now_v7()),
            version: scorer.weights.version,
            previous: in_force,
            action: "activate".into(),
            ablation_id: Some(ablation_id.clone()),
            activated_by: request.by,
            reason: request.reason,
            activated_at: now_micros(),
        })
        .await
    }

    /// Returns to the previously active version.
    pub async fn rollback(self, request: RollbackRequest) -> Result<ActivateResponse, EngineError> {
        let log = self.engine.store().await?.eviction().activations(1).await?;
        let Some(last) = log.into_iter().next() else {
            return Err(EngineError::Conflict {
                message: "cannot roll back: no version has been activated yet".into(),
                hint: Hint::with_command("list the weights to see their versions", "satiety evict weights"),
            });
        };
        self.store_activation(ActivationRow {
            activation_id: ids::prefixed("act", Uuid::now_v7()),
            version: last.previous,
            previous: last.version,
            action: "rollback".into(),
            ablation_id: None,
            activated_by: request.by,
            reason: request.reason,
            activated_at: now_micros(),
        })
        .await
    }

    async fn store_activation(self, activation: ActivationRow) -> Result<ActivateResponse, EngineError> {
        let store = self.engine.store().await?;
        let heuristic = Weights::heuristic().version;
        if !store.eviction().activate_scorer(&activation, &heuristic).await? {
            return Err(EngineError::Invalid {
                message: "another version was activated concurrently; nothing was changed".into(),
                hint: Hint::with_command(
                    "list the weights to see the active version",
                    "satiety evict weights",
                ),
            });
        }
        let body = json!({"version": activation.version, "previous": activation.previous, "by": activation.activated_by,
            "reason": activation.reason, "ablation_id": activation.ablation_id});
        store
            .journal()
            .append(Event::now(
                format!("eviction.{}", activation.action),
                &activation.version,
                body,
            ))
            .await?;
        Ok(ActivateResponse { activation })
    }

    pub(super) async fn active_scorer(self) -> Result<Scorer, EngineError> {
        let version = self.active_version().await?;
        self.scorer(&version).await
    }

    pub(super) async fn active_weights(self) -> Result<Weights, EngineError> {
        Ok(self.active_scorer().await?.weights)
    }

    async fn active_version(self) -> Result<String, EngineError> {
        let log = self.engine.store().await?.eviction().activations(1).await?;
        Ok(log
            .into_iter()
            .next()
            .map_or_else(|| Weights::heuristic().version, |row| row.version))
    }
}

pub(super) fn version_not_found(version: &str) -> EngineError {
    EngineError::NotFound {
        what: format!("scorer `{version}`"),
        hint: Hint::with_command(
            "`heuristic` is built in; list the weights to see the others",
            "satiety evict weights",
        ),
    }
}
