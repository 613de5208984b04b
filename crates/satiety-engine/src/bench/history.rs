//! Runs in the database and in files.

use crate::handles::BenchOperations;
use std::collections::BTreeMap;
use std::path::Path;

use satiety::Hint;
use satiety::bench::result_file::parse_run;
use satiety::bench::{BenchmarkResult, BenchmarkRun, summarize_run};
use satiety_store::Store;
use satiety_store::bench::{BenchRunRow, ResultKey};
use schemars::JsonSchema;
use serde::Serialize;

use super::distributed::DISTRIBUTED;
use crate::EngineError;

/// Results read per query.
const PAGE: u32 = 1000;

/// Benchmark run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunSummary {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Id of the suite.
    pub suite_id: String,
    /// Name of the target that was run.
    pub target: String,
    /// Time when the run started.
    pub started_at: jiff::Timestamp,
    /// Time when the run completed; absent while incomplete.
    pub completed_at: Option<jiff::Timestamp>,
    /// Share of cases that passed, from 0 to 1.
    pub pass_rate: Option<f64>,
    /// Whether workers ran the cases.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub distributed: bool,
}

/// Run that was accepted as a baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BaselineSummary {
    /// Id of the baseline.
    pub baseline_id: String,
    /// Id of the suite.
    pub suite_id: String,
    /// Id of the accepted run.
    pub run_id: String,
    /// Name of the person who accepted it.
    pub accepted_by: String,
    /// Reason for accepting the run.
    pub reason: String,
    /// Time of the acceptance.
    pub accepted_at: jiff::Timestamp,
}

/// Level of detail of loaded results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Full,
    /// Without outputs and attempts, which are most of the bytes and are not compared.
    Metrics,
}

impl BenchOperations<'_> {
    /// Lists runs of a suite, or of all suites, newest first.
    pub async fn runs(self, suite: Option<&str>, limit: u32) -> Result<Vec<RunSummary>, EngineError> {
        let store = self.engine.store().await?;
        let rows = store.bench().run_heads(suite, None, limit).await?;
        Ok(rows.into_iter().map(run_summary).collect())
    }

    /// Loads a complete run by id, by `latest` or `latest:SUITE`, or from a file.
    pub async fn run(self, named: &str) -> Result<BenchmarkRun, EngineError> {
        self.find_run(named, Detail::Full).await
    }

    pub async fn is_stored(self, run_id: &str) -> Result<bool, EngineError> {
        Ok(self.engine.store().await?.bench().run(run_id).await?.is_some())
    }

    /// Lists the accepted runs of a suite, newest first.
    pub async fn baselines(self, suite_id: &str, limit: u32) -> Result<Vec<BaselineSummary>, EngineError> {
        let rows = self
            .engine
            .store()
            .await?
            .bench()
            .baselines(suite_id, limit)
            .await?;
        Ok(rows
            .into_iter()
            .map(|row| BaselineSummary {
                baseline_id: row.baseline_id,
                suite_id: row.suite_id,
                run_id: row.run_id,
                accepted_by: row.accepted_by,
                reason: row.reason,
                accepted_at: time(row.accepted_at),
            })
            .collect())
    }

    pub(super) async fn find_run(self, named: &str, detail: Detail) -> Result<BenchmarkRun, EngineError> {
        let path = Path::new(named);
        if path.is_file() {
            return from_file(path);
        }
        let store = self.engine.store().await?;
        let latest = match named.split_once(':') {
            None if named == "latest" => Some(None),
            Some(("latest", suite)) => Some(Some(suite)),
            _ => None,
        };
        let row = match latest {
            Some(suite) => store.bench().runs(suite, 1).await?.into_iter().next(),
            None => store.bench().run(named).await?,
        };
        let row = row.ok_or_else(|| EngineError::NotFound {
            what: format!("run `{named}`"),
            hint: Hint::with_command(
                "a run in a file is named by its path; list the runs to see their ids",
                "satiety bench list --runs",
            ),
        })?;
        load(store, row, detail).await
    }
}

pub(super) fn run_summary(row: BenchRunRow) -> RunSummary {
    RunSummary {
        distributed: row.config_snapshot[DISTRIBUTED] == true,
        run_id: row.run_id,
        suite_id: row.suite_id,
        target: row.target,
        started_at: time(row.started_at),
        completed_at: row.completed_at.map(time),
        pass_rate: row.pass_rate,
    }
}

/// Loads a stored run with its results.
pub(crate) async fn load(
    store: &Store,
    row: BenchRunRow,
    detail: Detail,
) -> Result<BenchmarkRun, EngineError> {
    let mut results = Vec::new();
    each_result(store, &row.run_id, |mut result| {
        if detail == Detail::Metrics {
            trim(&mut result);
        }
        results.push(result);
    })
    .await?;
    let snapshot = row.config_snapshot.as_object().cloned().unwrap_or_default();
    let snapshot: BTreeMap<String, serde_json::Value> = snapshot.into_iter().collect();
    Ok(BenchmarkRun {
        run_id: row.run_id,
        suite_id: row.suite_id,
        suite_hash: Some(row.suite_hash),
        target: row.target,
        started_at: time(row.started_at),
        completed_at: row.completed_at.map(time),
        summary: Some(summarize_run(&results, &snapshot)),
        config_snapshot: snapshot,
        results,
    })
}

/// Streams the results of a run in order of case, variant and repeat.
pub(super) async fn each_result(
    store: &Store,
    run_id: &str,
    mut each: impl FnMut(BenchmarkResult),
) -> Result<(), EngineError> {
    let mut after: Option<ResultKey> = None;
    loop {
        let page = store.bench().result_bodies(run_id, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        after = Some(last.clone());
        for (_, body) in page {
            each(serde_json::from_str(&body)?);
        }
    }
}

/// Removes the fields that comparisons do not use.
pub(super) fn trim(result: &mut BenchmarkResult) {
    result.actual_output = None;
    result.attempts = Vec::new();
    for opinion in &mut result.judges {
        opinion.reason.clear();
    }
}

/// Reads a run in the format of `bench report --format json`.
pub(super) fn from_file(path: &Path) -> Result<BenchmarkRun, EngineError> {
    let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
    parse_run(&path.display().to_string(), &text).map_err(|error| EngineError::Invalid {
        message: error.to_string(),
        hint: Hint::with_command(
            "use the JSON report of a run",
            "satiety bench report RUN --format json",
        ),
    })
}

pub(super) fn time(micros: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(micros).unwrap_or_default()
}
