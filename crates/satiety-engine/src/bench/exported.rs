//! Benchmark runs in a Parquet export.

use std::collections::BTreeMap;

use satiety::bench::{BenchmarkResult, BenchmarkRun, summarize_run};
use serde_json::{Map, Value};

use super::history::{Detail, trim};
use crate::EngineError;
use crate::database::stored_export::{ExportedName, StoredExport, micros_of};

/// Reads a run and its results.
pub(super) fn exported_run(name: &ExportedName, detail: Detail) -> Result<BenchmarkRun, EngineError> {
    let export = StoredExport::open(&name.directory)?;
    let missing = || export.not_found("bench_runs", "run_id", name.id.as_deref());
    let id = name.id.as_deref().ok_or_else(missing)?;
    let rows = export.rows_where("bench_runs", "run_id", id, None)?;
    let row = rows.first().ok_or_else(missing)?;
    let started = micros_of(row, "started_at").unwrap_or(0);
    let mut results = Vec::new();
    export.each_row("bench_results", Some(started), |result| {
        if text(&result, "run_id") == id {
            let mut result: BenchmarkResult = serde_json::from_str(text(&result, "body"))?;
            if detail == Detail::Metrics {
                trim(&mut result);
            }
            results.push(result);
        }
        Ok(())
    })?;
    let snapshot: BTreeMap<String, Value> = serde_json::from_str(text(row, "config_snapshot"))?;
    Ok(BenchmarkRun {
        run_id: id.to_owned(),
        suite_id: text(row, "suite_id").to_owned(),
        suite_hash: Some(text(row, "suite_hash").to_owned()),
        target: text(row, "target").to_owned(),
        started_at: crate::time(started),
        completed_at: micros_of(row, "completed_at").map(crate::time),
        summary: Some(summarize_run(&results, &snapshot)),
        config_snapshot: snapshot,
        results,
    })
}

fn text<'r>(row: &'r Map<String, Value>, column: &str) -> &'r str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}
