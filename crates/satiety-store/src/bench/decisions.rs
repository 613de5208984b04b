//! What was accepted, and what gates and ablations said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Bench;
use crate::pool::{in_transaction, reading};
use crate::{StoreError, storable};

/// A run that was accepted as the baseline of its suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO bench_baselines (baseline_id, suite_id, run_id, accepted_by, reason, accepted_at)
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (baseline_id) DO NOTHING",
            )
            .bind(&row.baseline_id)
            .bind(storable(&row.suite_id))
            .bind(storable(&row.run_id))
            .bind(storable(&row.accepted_by))
            .bind(storable(&row.reason))
            .bind(row.accepted_at)
            .execute(&mut *connection)
            .await?;
        })
    }

    /// The baselines of a suite, the one in force first.
    pub async fn baselines(self, suite_id: &str, limit: u32) -> Result<Vec<BaselineRow>, StoreError> {
        let rows: Vec<(String, String, String, String, String, i64)> =
            reading!(&self.0.pool, |connection| sqlx::query_as(
                "SELECT baseline_id, suite_id, run_id, accepted_by, reason, accepted_at FROM bench_baselines
                 WHERE suite_id = $1 ORDER BY accepted_at DESC, baseline_id DESC LIMIT $2"
            )
            .bind(storable(suite_id))
            .bind(i64::from(limit))
            .fetch_all(connection)
            .await?)?;
        let row = |(baseline_id, suite_id, run_id, accepted_by, reason, accepted_at)| BaselineRow {
            baseline_id,
            suite_id,
            run_id,
            accepted_by,
            reason,
            accepted_at,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Keeps what a gate said.
    pub async fn put_gate(self, row: &GateRow) -> Result<(), StoreError> {
        let report = row.report.to_string();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO bench_gates (gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by,
                     accepted_why, decided_at, report)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (gate_id) DO NOTHING",
            )
            .bind(&row.gate_id)
            .bind(storable(&row.suite_id))
            .bind(storable(&row.baseline_run))
            .bind(storable(&row.candidate_run))
            .bind(&row.verdict)
            .bind(row.accepted_by.as_deref().map(storable))
            .bind(row.accepted_why.as_deref().map(storable))
            .bind(row.decided_at)
            .bind(storable(&report))
            .execute(&mut *connection)
            .await?;
        })
    }

    /// What gates said about a suite, or about all where none is named, newest first.
    pub async fn gates(self, suite_id: Option<&str>, limit: u32) -> Result<Vec<GateRow>, StoreError> {
        let rows: Vec<GateColumns> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at, report
             FROM bench_gates WHERE $1 = '' OR suite_id = $1 ORDER BY decided_at DESC, gate_id DESC LIMIT $2"
        )
        .bind(storable(suite_id.unwrap_or_default()))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?
        })?;
        rows.into_iter().map(|row| self.gate_row(row)).collect()
    }

    /// What one gate said.
    pub async fn gate(self, gate_id: &str) -> Result<Option<GateRow>, StoreError> {
        let row: Option<GateColumns> = reading!(&self.0.pool, |connection| {
            sqlx::query_as(
            "SELECT gate_id, suite_id, baseline_run, candidate_run, verdict, accepted_by, accepted_why, decided_at, report
             FROM bench_gates WHERE gate_id = $1"
        )
        .bind(storable(gate_id))
        .fetch_optional(connection)
        .await?
        })?;
        row.map(|row| self.gate_row(row)).transpose()
    }

    fn gate_row(self, columns: GateColumns) -> Result<GateRow, StoreError> {
        let (gate_id, suite_id, baseline_run, candidate_run, verdict, by, why, decided_at, report) = columns;
        Ok(GateRow {
            report: self
                .0
                .parse_json(&report, || format!("the report of gate {gate_id}"))?,
            gate_id,
            suite_id,
            baseline_run,
            candidate_run,
            verdict,
            accepted_by: by,
            accepted_why: why,
            decided_at,
        })
    }

    /// Keeps what an ablation said.
    pub async fn put_ablation(self, row: &AblationRow) -> Result<(), StoreError> {
        let report = row.report.to_string();
        in_transaction!(&self.0.pool, |connection| {
            sqlx::query(
                "INSERT INTO bench_ablations (ablation_id, tag, decided_at, report) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (ablation_id) DO NOTHING",
            )
            .bind(&row.ablation_id)
            .bind(storable(&row.tag))
            .bind(row.decided_at)
            .bind(storable(&report))
            .execute(&mut *connection)
            .await?;
        })
    }

    /// What ablations of a component said, newest first.
    pub async fn ablations(self, tag: Option<&str>, limit: u32) -> Result<Vec<AblationRow>, StoreError> {
        let rows: Vec<(String, String, i64, String)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT ablation_id, tag, decided_at, report FROM bench_ablations
             WHERE $1 = '' OR tag = $1 ORDER BY decided_at DESC, ablation_id DESC LIMIT $2"
        )
        .bind(storable(tag.unwrap_or_default()))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?)?;
        let row = |(ablation_id, tag, decided_at, report): (String, String, i64, String)| {
            Ok(AblationRow {
                report: self
                    .0
                    .parse_json(&report, || format!("the report of ablation {ablation_id}"))?,
                ablation_id,
                tag,
                decided_at,
            })
        };
        rows.into_iter().map(row).collect()
    }

    /// The report of an ablation, as JSON.
    pub async fn ablation_report(self, ablation_id: &str) -> Result<Option<String>, StoreError> {
        let found: Option<(String,)> = reading!(&self.0.pool, |connection| sqlx::query_as(
            "SELECT report FROM bench_ablations WHERE ablation_id = $1"
        )
        .bind(storable(ablation_id))
        .fetch_optional(connection)
        .await?)?;
        Ok(found.map(|(report,)| report))
    }
}

type GateColumns = (
    String,
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    i64,
    String,
);
