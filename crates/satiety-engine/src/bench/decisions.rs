//! What gates and ablations said, as the store keeps it.

use crate::handles::BenchOperations;
use jiff::Timestamp;
use satiety::bench::AblationReport;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{EngineError, time};

/// What a gate said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GateDecision {
    /// Its id.
    pub gate_id: String,
    /// The suite.
    pub suite_id: String,
    /// The run that it was held against.
    pub baseline_run: String,
    /// The run that was looked at.
    pub candidate_run: String,
    /// `pass`, `regression` or `inconclusive`.
    pub verdict: String,
    /// Who took it all the same, where somebody did.
    pub accepted_by: Option<String>,
    /// When.
    pub decided_at: Timestamp,
}

/// What an ablation found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AblationRecord {
    /// Its id.
    pub ablation_id: String,
    /// What was taken away or changed.
    pub tag: String,
    /// When.
    pub decided_at: Timestamp,
    /// What was found.
    pub report: AblationReport,
}

impl BenchOperations<'_> {
    /// What gates said, newest first.
    pub async fn gates(self, suite: Option<&str>, limit: u32) -> Result<Vec<GateDecision>, EngineError> {
        let rows = self
            .engine
            .store()
            .await?
            .bench()
            .gates(suite, limit)
            .await?
            .into_iter();
        Ok(rows
            .map(|row| GateDecision {
                gate_id: row.gate_id,
                suite_id: row.suite_id,
                baseline_run: row.baseline_run,
                candidate_run: row.candidate_run,
                verdict: row.verdict,
                accepted_by: row.accepted_by,
                decided_at: time(row.decided_at),
            })
            .collect())
    }

    /// What ablations found, newest first.
    pub async fn ablations(self, limit: u32) -> Result<Vec<AblationRecord>, EngineError> {
        let rows = self
            .engine
            .store()
            .await?
            .bench()
            .ablations(None, limit)
            .await?
            .into_iter();
        rows.map(|row| {
            Ok(AblationRecord {
                ablation_id: row.ablation_id,
                tag: row.tag,
                decided_at: time(row.decided_at),
                report: serde_json::from_value(row.report)?,
            })
        })
        .collect()
    }
}
