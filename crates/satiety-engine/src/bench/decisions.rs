//! Stored decisions of gates and ablations.

use crate::handles::BenchOperations;
use jiff::Timestamp;
use satiety::bench::AblationReport;
use satiety_store::bench::AblationRow;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{EngineError, time};

/// Stored verdict of a regression gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GateDecision {
    /// Id of the gate verdict.
    pub gate_id: String,
    /// Id of the suite.
    pub suite_id: String,
    /// Id of the baseline run.
    pub baseline_run: String,
    /// Id of the run that was judged.
    pub candidate_run: String,
    /// Verdict: `pass`, `regression` or `inconclusive`.
    pub verdict: String,
    /// Name of the person who accepted a regression, if any.
    pub accepted_by: Option<String>,
    /// Time of the decision.
    pub decided_at: Timestamp,
}

/// Stored result of an ablation study.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AblationRecord {
    /// Id of the ablation study.
    pub ablation_id: String,
    /// Tag of the changed component.
    pub tag: String,
    /// Time of the decision.
    pub decided_at: Timestamp,
    /// Comparison of the variants with the control.
    pub report: AblationReport,
}

impl BenchOperations<'_> {
    /// Lists gate verdicts, newest first.
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

    /// Lists ablation studies, newest first.
    pub async fn ablations(self, limit: u32) -> Result<Vec<AblationRecord>, EngineError> {
        let rows = self.engine.store().await?.bench().ablations(None, limit).await?;
        rows.into_iter().map(ablation_record).collect()
    }

    /// Returns one ablation study.
    pub async fn stored_ablation(self, ablation_id: &str) -> Result<AblationRecord, EngineError> {
        let row = self.engine.reader().await?.bench().ablation(ablation_id).await?;
        let row = row.ok_or_else(|| EngineError::NotFound {
            what: format!("ablation `{ablation_id}`"),
            hint: "choose one from the list of benchmarks".into(),
        })?;
        ablation_record(row)
    }
}

fn ablation_record(row: AblationRow) -> Result<AblationRecord, EngineError> {
    Ok(AblationRecord {
        ablation_id: row.ablation_id,
        tag: row.tag,
        decided_at: time(row.decided_at),
        report: serde_json::from_value(row.report)?,
    })
}
