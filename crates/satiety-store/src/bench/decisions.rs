//! What was accepted, and what gates and ablations said.

use serde_json::Value;

use super::Bench;
use crate::StoreError;
use crate::sql::{Row, columns, sql};

/// A run that was accepted as the baseline of its suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineRow {
    /// Its id.
    pub baseline_id: String,
    /// The suite.
    pub suite_id: String,
    /// The run.
    pub run_id: String,
    /// Who accepted it.
    pub accepted_by: String,
    /// Why.
    pub reason: String,
    /// When, in microseconds.
    pub accepted_at: i64,
}

/// What a gate said.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRow {
    /// Its id.
    pub gate_id: String,
    /// The suite.
    pub suite_id: String,
    /// The run that was accepted.
    pub baseline_run: String,
    /// The run that was judged.
    pub candidate_run: String,
    /// `pass`, `regression` or `inconclusive`.
    pub verdict: String,
    /// Who let it through all the same.
    pub accepted_by: Option<String>,
    /// Why.
    pub accepted_why: Option<String>,
    /// When, in microseconds.
    pub decided_at: i64,
    /// All of it.
    pub report: Value,
}

/// What an ablation said.
#[derive(Debug, Clone, PartialEq)]
pub struct AblationRow {
    /// Its id.
    pub ablation_id: String,
    /// The component that was changed.
    pub tag: String,
    /// When, in microseconds.
    pub decided_at: i64,
    /// All of it.
    pub report: Value,
}

impl Bench<'_> {
    /// Accepts a run as the baseline of its suite. Earlier ones stay as history.
    pub async fn put_baseline(self, row: &BaselineRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO bench_baselines (baseline_id, suite_id, run_id, accepted_by, reason, accepted_at)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (baseline_id) DO NOTHING";
            &row.baseline_id, &row.suite_id, &row.run_id, &row.accepted_by, &row.reason, row.accepted_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// The baselines of a suite, the one in force first.
    pub async fn baselines(self, suite_id: &str, limit: u32) -> Result<Vec<BaselineRow>, StoreError> {
        let select = sql!(
            "SELECT baseline_id, suite_id, run_id, accepted_by, reason, accepted_at FROM bench_baselines
             WHERE suite_id = $1 ORDER BY accepted_at DESC, baseline_id DESC LIMIT $2";
            suite_id, limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            Ok(columns!(row => BaselineRow {
                baseline_id, suite_id, run_id, accepted_by, reason, accepted_at
            }))
        };
        rows.iter().map(row).collect()
    }

    /// Keeps what a gate said.
    pub async fn put_gate(self, row: &GateRow) -> Result<(), StoreError> {
        let report = row.report.to_string();
        let insert = sql!(
            "INSERT INTO bench_gates (gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by,
                 accepted_why, decided_at, report)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (gate_id) DO NOTHING";
            &row.gate_id, &row.suite_id, &row.baseline_run, &row.candidate_run, &row.verdict,
            row.accepted_by.as_deref(), row.accepted_why.as_deref(), row.decided_at, &report
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// What gates said about a suite, or about all where none is named, newest first.
    pub async fn gates(self, suite_id: Option<&str>, limit: u32) -> Result<Vec<GateRow>, StoreError> {
        let select = sql!(
            "SELECT gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at, report
             FROM bench_gates WHERE $1 = '' OR suite_id = $1 ORDER BY decided_at DESC, gate_id DESC LIMIT $2";
            suite_id.unwrap_or_default(), limit
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(gate).collect()
    }

    /// What one gate said.
    pub async fn gate(self, gate_id: &str) -> Result<Option<GateRow>, StoreError> {
        let select = sql!(
            "SELECT gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at, report
             FROM bench_gates WHERE gate_id = $1";
            gate_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(gate).transpose()
    }

    /// Keeps what an ablation said.
    pub async fn put_ablation(self, row: &AblationRow) -> Result<(), StoreError> {
        let report = row.report.to_string();
        let insert = sql!(
            "INSERT INTO bench_ablations (ablation_id, tag, decided_at, report) VALUES ($1, $2, $3, $4)
             ON CONFLICT (ablation_id) DO NOTHING";
            &row.ablation_id, &row.tag, row.decided_at, &report
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// What ablations of a component said, newest first.
    pub async fn ablations(self, tag: Option<&str>, limit: u32) -> Result<Vec<AblationRow>, StoreError> {
        let select = sql!(
            "SELECT ablation_id, tag, decided_at, report FROM bench_ablations
             WHERE $1 = '' OR tag = $1 ORDER BY decided_at DESC, ablation_id DESC LIMIT $2";
            tag.unwrap_or_default(), limit
        );
        let rows = self.0.pool.rows(select).await?;
        let row = |row: &Row| {
            let id: String = row.get("ablation_id")?;
            let report = row.json("report", format_args!("the report of ablation {id}"))?;
            Ok(columns!(row => AblationRow { tag, decided_at; ablation_id: id, report }))
        };
        rows.iter().map(row).collect()
    }

    /// The report of an ablation, as JSON.
    pub async fn ablation_report(self, ablation_id: &str) -> Result<Option<String>, StoreError> {
        let select = sql!("SELECT report FROM bench_ablations WHERE ablation_id = $1"; ablation_id);
        let found = self.0.pool.row(select).await?;
        found.map(|row| row.get(0)).transpose()
    }
}

fn gate(row: &Row) -> Result<GateRow, StoreError> {
    let id: String = row.get("gate_id")?;
    let report = row.json("report", format_args!("the report of gate {id}"))?;
    Ok(columns!(row => GateRow {
        suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at;
        gate_id: id, report
    }))
}
