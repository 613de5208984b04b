//! Which version of the scorer is in force. A version comes into force only with an ablation that shows it does no harm;
//! going back to what was in force before needs none. Both are kept, with who and why.

use crate::handles::EvictionOperations;
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

use super::scopes::{heuristic_named, parse};
use crate::EngineError;

/// Versions that are listed.
const LISTED: u32 = 1000;

/// Puts a version into force.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivateRequest {
    /// The version.
    pub version: String,
    /// The ablation that permits it.
    pub ablation_id: Option<String>,
    /// Who does it.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// Goes back to what was in force before.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// Who does it.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What is in force now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActivateResponse {
    /// What is in force from now on.
    #[serde(flatten)]
    pub activation: ActivationRow,
}

/// All versions, and what was put into force.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Scorers {
    /// What is in force.
    pub in_force: String,
    /// All versions, the newest first; the built-in one is last.
    pub versions: Vec<ScorerSummary>,
    /// What was put into force, the latest first.
    pub log: Vec<ActivationRow>,
}

/// A version in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScorerSummary {
    /// Its name.
    pub version: String,
    /// What it changes.
    pub variant: String,
    /// When it was made, in microseconds; absent for the built-in one.
    pub created_at: Option<i64>,
    /// AUC on proposals that its fit has not seen.
    pub auc: Option<f64>,
    /// Whether its fit showed a gain there.
    pub gain_shown: Option<bool>,
}

impl EvictionOperations<'_> {
    /// All versions of the scorer.
    pub async fn scorers(self) -> Result<Scorers, EngineError> {
        let store = self.engine.store().await?;
        let mut versions: Vec<ScorerSummary> = store
            .eviction()
            .scorers(LISTED)
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
            in_force: self.version_in_force().await?,
            versions,
            log: store.eviction().activations(LISTED).await?,
        })
    }

    /// A version of the scorer.
    pub async fn scorer(self, version: &str) -> Result<Scorer, EngineError> {
        if heuristic_named(version).is_some() {
            return Ok(Scorer::baseline());
        }
        let row = self.engine.store().await?.eviction().scorer(version).await?;
        let row = row.ok_or_else(|| no_version(version))?;
        parse(&row.body, || format!("scorer `{version}`"))
    }

    /// Puts a version into force, if an ablation permits it.
    pub async fn activate(self, request: ActivateRequest) -> Result<ActivateResponse, EngineError> {
        let scorer = self.scorer(&request.version).await?;
        let in_force = self.version_in_force().await?;
        if scorer.weights.version == in_force {
            return Err(EngineError::Conflict {
                message: format!("`{in_force}` is in force already"),
                hint: "`satiety evict weights` shows all versions".into(),
            });
        }
        let refused = |reasons: Vec<String>| EngineError::EvictRefused {
            version: request.version.clone(),
            reasons,
        };
        let Some(ablation_id) = &request.ablation_id else {
            return Err(refused(vec!["there is no ablation".into()]));
        };
        let report = self
            .engine
            .store()
            .await?
            .bench()
            .ablation_report(ablation_id)
            .await?;
        let Some(report) = report else {
            return Err(refused(vec![format!(
                "there is no ablation `{ablation_id}` in the store"
            )]));
        };
        let report: AblationReport = parse(&report, || format!("ablation `{ablation_id}`"))?;
        let reasons = refusals(&scorer.weights.version, &in_force, &report);
        if !reasons.is_empty() {
            return Err(refused(reasons));
        }
        self.put_into_force(ActivationRow {
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

    /// Goes back to what was in force before.
    pub async fn rollback(self, request: RollbackRequest) -> Result<ActivateResponse, EngineError> {
        let log = self.engine.store().await?.eviction().activations(1).await?;
        let Some(last) = log.into_iter().next() else {
            return Err(EngineError::Conflict {
                message: "nothing was put into force yet, so there is nothing to go back to".into(),
                hint: "`satiety evict weights` shows all versions".into(),
            });
        };
        self.put_into_force(ActivationRow {
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

    async fn put_into_force(self, activation: ActivationRow) -> Result<ActivateResponse, EngineError> {
        let store = self.engine.store().await?;
        let heuristic = Weights::heuristic().version;
        if !store.eviction().activate_scorer(&activation, &heuristic).await? {
            return Err(EngineError::Invalid {
                message: "somebody else has put another version into force just now; nothing was changed"
                    .into(),
                hint: "`satiety evict weights` shows what is in force".into(),
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

    pub(super) async fn scorer_in_force(self) -> Result<Scorer, EngineError> {
        let version = self.version_in_force().await?;
        self.scorer(&version).await
    }

    pub(super) async fn weights_in_force(self) -> Result<Weights, EngineError> {
        Ok(self.scorer_in_force().await?.weights)
    }

    async fn version_in_force(self) -> Result<String, EngineError> {
        let log = self.engine.store().await?.eviction().activations(1).await?;
        Ok(log
            .into_iter()
            .next()
            .map_or_else(|| Weights::heuristic().version, |row| row.version))
    }
}

pub(super) fn no_version(version: &str) -> EngineError {
    EngineError::NotThere {
        what: format!("scorer `{version}`"),
        hint: "`satiety evict weights` shows all versions; `heuristic` is built in".into(),
    }
}
