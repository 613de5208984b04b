//! Accepted baselines, and decisions of gates and ablations.

use serde_json::Value;

use super::Bench;
use super::runs::newest_first;
use crate::StoreError;
use crate::sql::{Row, Sql, columns, sql};

/// A run that was accepted as the baseline of its suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineRow {
    pub baseline_id: String,
    pub suite_id: String,
    pub run_id: String,
    pub accepted_by: String,
    pub reason: String,
    /// Time in microseconds since the Unix epoch.
    pub accepted_at: i64,
}

/// Decision of a regression gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRow {
    pub gate_id: String,
    pub suite_id: String,
    /// Run id of the baseline.
    pub baseline_run: String,
    /// Run id of the candidate.
    pub candidate_run: String,
    /// `pass`, `regression` or `inconclusive`.
    pub verdict: String,
    /// Person who accepted a regression, if any.
    pub accepted_by: Option<String>,
    /// Reason for accepting it.
    pub accepted_why: Option<String>,
    /// Time in microseconds since the Unix epoch.
    pub decided_at: i64,
    /// Full report; null in lists.
    pub report: Value,
}

/// Result of an ablation.
#[derive(Debug, Clone, PartialEq)]
pub struct AblationRow {
    pub ablation_id: String,
    /// Component that was changed.
    pub tag: String,
    /// Time in microseconds since the Unix epoch.
    pub decided_at: i64,
    /// Full report.
    pub report: Value,
}

impl Bench<'_> {
    /// Accepts a run as the baseline of its suite. Earlier baselines are kept as history.
    pub async fn put_baseline(self, row: &BaselineRow) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO bench_baselines (baseline_id, suite_id, run_id, accepted_by, reason, accepted_at)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (baseline_id) DO NOTHING";
            &row.baseline_id, &row.suite_id, &row.run_id, &row.accepted_by, &row.reason, row.accepted_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Returns the baselines of a suite, the active one first.
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

    /// Stores the decision of a gate.
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

    /// Lists gate decisions of a suite, or of all suites for `None`, newest first; without their reports, which are long.
    pub async fn gates(self, suite_id: Option<&str>, limit: u32) -> Result<Vec<GateRow>, StoreError> {
        let select = Sql::build(
            "SELECT gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at
             FROM bench_gates",
        );
        let select = newest_first(
            select,
            "suite_id",
            suite_id,
            "decided_at DESC, gate_id DESC",
            limit,
        );
        let rows = self.0.pool.rows(select).await?;
        let head = |row: &Row| {
            Ok(columns!(row => GateRow {
                gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at;
                report: Value::Null
            }))
        };
        rows.iter().map(head).collect()
    }

    /// Returns one gate decision.
    pub async fn gate(self, gate_id: &str) -> Result<Option<GateRow>, StoreError> {
        let select = sql!(
            "SELECT gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at, report
             FROM bench_gates WHERE gate_id = $1";
            gate_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(gate).transpose()
    }

    /// Stores the result of an ablation.
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

    /// Lists ablations of a component, newest first.
    pub async fn ablations(self, tag: Option<&str>, limit: u32) -> Result<Vec<AblationRow>, StoreError> {
        let select = Sql::build("SELECT ablation_id, tag, decided_at, report FROM bench_ablations");
        let select = newest_first(select, "tag", tag, "decided_at DESC, ablation_id DESC", limit);
        self.0.pool.rows(select).await?.iter().map(ablation).collect()
    }

    /// Returns one ablation.
    pub async fn ablation(self, ablation_id: &str) -> Result<Option<AblationRow>, StoreError> {
        let select = sql!(
            "SELECT ablation_id, tag, decided_at, report FROM bench_ablations WHERE ablation_id = $1";
            ablation_id
        );
        let row = self.0.pool.row(select).await?;
        row.as_ref().map(ablation).transpose()
    }

    /// Returns the report of an ablation as JSON.
    pub async fn ablation_report(self, ablation_id: &str) -> Result<Option<String>, StoreError> {
        let select = sql!("SELECT report FROM bench_ablations WHERE ablation_id = $1"; ablation_id);
        let found = self.0.pool.row(select).await?;
        found.map(|row| row.get(0)).transpose()
    }
}

fn ablation(row: &Row) -> Result<AblationRow, StoreError> {
    let id: String = row.get("ablation_id")?;
    let report = row.json("report", format_args!("the report of ablation {id}"))?;
    Ok(columns!(row => AblationRow { tag, decided_at; ablation_id: id, report }))
}

fn gate(row: &Row) -> Result<GateRow, StoreError> {
    let id: String = row.get("gate_id")?;
    let report = row.json("report", format_args!("the report of gate {id}"))?;
    Ok(columns!(row => GateRow {
        suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at;
        gate_id: id, report
    }))
}
