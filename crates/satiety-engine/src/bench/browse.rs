//! Reads runs level by level: a run, its cases, one result. Each read costs as much as the page it fills, not as much
//! as the run.

use std::collections::{BTreeMap, HashMap};

use satiety::Hint;
use satiety::bench::{
    BenchmarkCase, BenchmarkResult, BenchmarkSuite, MarkedAnswer, ScoreSummary, StatusCounts, mark_answer,
};
use satiety::stats::Interval;
use satiety_store::Store;
use satiety_store::bench::{
    CaseCursor, CaseFilter, CaseOutcomeRow, CaseSort, ResultKey, RunCaseRow, RunFilter, case_cursor,
};
use satiety_store::lists::{ListOrder, SortValue};
use serde::Deserialize;
use serde_json::Value;

use super::history::{RunSummary, run_summary};
use crate::EngineError;
use crate::handles::BenchOperations;

/// Maximum number of characters of a case's title.
const TITLE: usize = 160;
/// Maximum number of repeats that a page of a case lists.
const REPEATS: u32 = 500;
/// Cases read per query while two runs are compared, and maximum number of cases compared for one page.
const MATRIX_BATCH: u32 = 1000;
const MATRIX_SCAN: usize = 20_000;

/// Stores the cases of a run as they are now, so that pages can show them after the suite has changed.
pub(super) async fn keep_cases(
    store: &Store,
    run_id: &str,
    suite: &BenchmarkSuite,
    hashes: &[String],
) -> Result<(), EngineError> {
    let rows = suite.cases.iter().zip(hashes).map(|(case, hash)| {
        Ok(RunCaseRow {
            case_id: case.case_id.clone(),
            case_hash: hash.clone(),
            title: title_of(case),
            tags: case.tags.clone(),
            body: Some(serde_json::to_string(case)?),
        })
    });
    let rows = rows.collect::<Result<Vec<_>, EngineError>>()?;
    store.bench().put_run_cases(run_id, &rows).await?;
    Ok(())
}

/// First line of the description or the goal.
fn title_of(case: &BenchmarkCase) -> String {
    let text = if case.description.trim().is_empty() {
        &case.input.goal
    } else {
        &case.description
    };
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(TITLE).collect()
}

/// A run without its results.
#[derive(Debug, Clone)]
pub struct RunHead {
    pub run: RunSummary,
    pub config_snapshot: BTreeMap<String, Value>,
    /// Number of results by status.
    pub counts: StatusCounts,
    /// Statistics of a complete run.
    pub statistics: Option<RunStatistics>,
    /// Verdict of the latest gate about this run.
    pub gate: Option<String>,
    /// Run to compare with: that of the gate, the accepted baseline, or the previous complete run.
    pub baseline: Option<ComparedWith>,
}

/// Run that another run is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedWith {
    pub run_id: String,
    /// Why this run: `gate`, `baseline` or `previous run`.
    pub kind: &'static str,
}

/// Statistics of a complete run, without those of single cases.
#[derive(Debug, Clone, Deserialize)]
pub struct RunStatistics {
    pub pass_rate: Option<f64>,
    pub pass_rate_interval: Option<Interval>,
    pub mean_latency_ms: Option<f64>,
    pub p95_latency_ms: Option<f64>,
    pub total_token_cost: u64,
    pub total_cost_usd: Option<f64>,
    pub mean_quality_score: Option<f64>,
    #[serde(default)]
    pub judge_agreement: Option<f64>,
    pub cases: u64,
    pub flaky: Vec<String>,
    #[serde(default)]
    pub scores: Vec<ScoreSummary>,
}

/// Page of runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunListRequest {
    pub filter: RunFilter,
    pub order: ListOrder,
    /// Cursor of the previous page: sort value and id.
    pub after: Option<(SortValue, String)>,
    pub limit: u32,
}

/// Page of runs.
#[derive(Debug, Clone)]
pub struct RunPage {
    pub runs: Vec<RunSummary>,
    pub next: Option<(SortValue, String)>,
}

/// Page of cases to list.
#[derive(Debug, Clone, Default)]
pub struct CaseListRequest {
    pub run_id: String,
    pub filter: CaseFilter,
    pub sort: CaseSort,
    pub descending: bool,
    pub after: Option<CaseCursor>,
    /// Run whose outcomes are shown next to those of the listed one.
    pub baseline: Option<String>,
    pub limit: u32,
}

/// Page of cases with their outcomes.
#[derive(Debug, Clone)]
pub struct CasePage {
    pub cases: Vec<CaseLine>,
    pub next: Option<CaseCursor>,
}

/// Case of a run with its outcome.
#[derive(Debug, Clone)]
pub struct CaseLine {
    pub outcome: CaseOutcomeRow,
    /// What the case asks, in one line; empty if it was not stored.
    pub title: String,
    pub tags: Vec<String>,
    /// Outcome in the baseline; `None` if it has no such case.
    pub before: Option<CaseOutcomeRow>,
}

/// One case of a run, and one of its results.
#[derive(Debug, Clone)]
pub struct CaseDetail {
    pub run: RunSummary,
    /// Case as it was when it ran; `None` if it was not stored.
    pub case: Option<BenchmarkCase>,
    /// All results of the case.
    pub results: Vec<ResultOutcome>,
    /// Result that is shown.
    pub result: BenchmarkResult,
    /// Its answer with the matching and differing parts marked.
    pub marked: Option<MarkedAnswer>,
    /// Ids of the cases before and after, in order of their ids.
    pub neighbors: (Option<String>, Option<String>),
}

pub use satiety_store::bench::ResultOutcomeRow as ResultOutcome;

/// Runs to compare case by case; the first is the baseline.
#[derive(Debug, Clone, Default)]
pub struct MatrixRequest {
    pub runs: Vec<String>,
    /// Whether to list cases whose outcome is the same in all runs.
    pub unchanged: bool,
    /// Case after which the list continues: id and variant.
    pub after: Option<(String, String)>,
    pub limit: usize,
}

/// Outcomes of several runs, case by case.
#[derive(Debug, Clone)]
pub struct RunMatrix {
    pub runs: Vec<RunSummary>,
    pub rows: Vec<MatrixRow>,
    /// Case after which the list continues.
    pub next: Option<(String, String)>,
    /// Number of cases compared for this page.
    pub compared: usize,
}

/// Case with its outcome in each run.
#[derive(Debug, Clone)]
pub struct MatrixRow {
    pub case_id: String,
    pub variant: String,
    pub title: String,
    /// One cell per run; `None` if the run has no result of the case.
    pub cells: Vec<MatrixCell>,
}

pub type MatrixCell = Option<CaseOutcomeRow>;

impl MatrixRow {
    /// Share of passed results in one run.
    pub fn share(&self, run: usize) -> Option<f64> {
        let cell = self.cells.get(run)?.as_ref()?;
        Some(cell.passes as f64 / cell.results as f64)
    }

    /// Whether not all runs have the same share of passed results.
    fn is_changed(&self) -> bool {
        let first = self.share(0);
        (1..self.cells.len()).any(|run| self.share(run) != first)
    }
}

impl BenchOperations<'_> {
    /// Lists runs page by page.
    pub async fn run_page(self, request: &RunListRequest) -> Result<RunPage, EngineError> {
        let store = self.engine.reader().await?;
        let after = request.after.as_ref().map(|(value, id)| (*value, id.as_str()));
        let page = store
            .bench()
            .list_runs(&request.filter, request.order, after, request.limit)
            .await?;
        Ok(RunPage {
            next: page.next,
            runs: page.rows.into_iter().map(run_summary).collect(),
        })
    }

    /// Returns a run without its results.
    pub async fn run_head(self, run_id: &str) -> Result<RunHead, EngineError> {
        let store = self.engine.reader().await?;
        let row = store.bench().run_head(run_id).await?;
        let row = row.ok_or_else(|| not_found(&format!("run `{run_id}`")))?;
        let (counts, summary, gate) = tokio::try_join!(
            store.bench().result_counts(run_id),
            store.bench().summary_json(run_id),
            store.bench().gate_about(run_id),
        )?;
        // The summary of another version may not be readable; the counts are shown without it.
        let statistics = summary.and_then(|text| serde_json::from_str(&text).ok());
        let mut baseline = None;
        if let Some((_, judged_against, _)) = &gate
            && store.bench().run_head(judged_against).await?.is_some()
        {
            baseline = Some((judged_against.clone(), "gate"));
        }
        if baseline.is_none() {
            let accepted = store
                .bench()
                .baselines(&row.suite_id, 1)
                .await?
                .into_iter()
                .next();
            let accepted = accepted.map(|accepted| accepted.run_id);
            // A baseline may have been accepted from a file, and the run itself may be the baseline.
            if let Some(accepted) = accepted.filter(|accepted| accepted != run_id)
                && store.bench().run_head(&accepted).await?.is_some()
            {
                baseline = Some((accepted, "baseline"));
            }
        }
        if baseline.is_none() {
            let previous = store.bench().previous_run(&row.suite_id, row.started_at).await?;
            baseline = previous.map(|previous| (previous, "previous run"));
        }
        let snapshot = row.config_snapshot.as_object().cloned().unwrap_or_default();
        Ok(RunHead {
            config_snapshot: snapshot.into_iter().collect(),
            counts: status_counts(&counts),
            statistics,
            gate: gate.map(|(_, _, verdict)| verdict),
            baseline: baseline.map(|(run_id, kind)| ComparedWith { run_id, kind }),
            run: run_summary(row),
        })
    }

    /// Lists cases of a run page by page.
    pub async fn case_page(self, request: &CaseListRequest) -> Result<CasePage, EngineError> {
        let store = self.engine.reader().await?;
        let order = (request.sort, request.descending);
        let mut rows = store
            .bench()
            .case_outcomes(
                &request.run_id,
                &request.filter,
                order,
                request.after.as_ref(),
                request.limit + 1,
            )
            .await?;
        let more = rows.len() > request.limit as usize;
        rows.truncate(request.limit as usize);
        let next = rows
            .last()
            .filter(|_| more)
            .map(|row| case_cursor(request.sort, row));
        let ids: Vec<&str> = rows.iter().map(|row| row.case_id.as_str()).collect();
        let described = store.bench().run_cases(&request.run_id, &ids).await?;
        let mut described: HashMap<String, RunCaseRow> = described
            .into_iter()
            .map(|case| (case.case_id.clone(), case))
            .collect();
        let before = match &request.baseline {
            Some(baseline) => store.bench().outcomes_of(baseline, &ids).await?,
            None => Vec::new(),
        };
        let mut before: HashMap<(String, String), CaseOutcomeRow> = before
            .into_iter()
            .map(|row| ((row.case_id.clone(), row.variant.clone()), row))
            .collect();
        let cases = rows.into_iter().map(|outcome| {
            let described = described.get_mut(&outcome.case_id);
            let (title, tags) =
                described.map_or_else(Default::default, |case| (case.title.clone(), case.tags.clone()));
            CaseLine {
                before: before.remove(&(outcome.case_id.clone(), outcome.variant.clone())),
                outcome,
                title,
                tags,
            }
        });
        Ok(CasePage {
            cases: cases.collect(),
            next,
        })
    }

    /// Returns one result of a case with the case; by default the first result that did not pass.
    pub async fn case_detail(
        self,
        run_id: &str,
        case_id: &str,
        chosen: Option<(&str, i64)>,
    ) -> Result<CaseDetail, EngineError> {
        let store = self.engine.reader().await?;
        let row = store.bench().run_head(run_id).await?;
        let row = row.ok_or_else(|| not_found(&format!("run `{run_id}`")))?;
        let (results, case, neighbors) = tokio::try_join!(
            store.bench().case_results(run_id, case_id, REPEATS),
            store.bench().run_case(run_id, case_id),
            store.bench().neighbor_cases(run_id, case_id),
        )?;
        let shown = match chosen {
            Some((variant, repeat)) => Some(ResultKey {
                case_id: case_id.to_owned(),
                variant: variant.to_owned(),
                repeat,
            }),
            None => results
                .iter()
                .find(|result| result.status != "pass")
                .or(results.first())
                .map(|result| result.key.clone()),
        };
        let body = match &shown {
            Some(key) => store.bench().result_body(run_id, key).await?,
            None => None,
        };
        let body = body.ok_or_else(|| not_found(&format!("result of case `{case_id}` in run `{run_id}`")))?;
        let result: BenchmarkResult = serde_json::from_str(&body)?;
        // A case of a later version may not be readable; the result is shown without it.
        let case: Option<BenchmarkCase> = case
            .and_then(|case| case.body)
            .and_then(|body| serde_json::from_str(&body).ok());
        let marked = case
            .as_ref()
            .zip(result.actual_output.as_deref())
            .map(|(case, output)| mark_answer(&case.expected, output));
        Ok(CaseDetail {
            run: run_summary(row),
            case,
            results,
            result,
            marked,
            neighbors,
        })
    }

    /// Compares runs case by case; lists only cases whose outcome differs, unless asked for all.
    pub async fn run_matrix(self, request: &MatrixRequest) -> Result<RunMatrix, EngineError> {
        let store = self.engine.reader().await?;
        let mut runs = Vec::new();
        for run_id in &request.runs {
            let row = store.bench().run_head(run_id).await?;
            runs.push(run_summary(
                row.ok_or_else(|| not_found(&format!("run `{run_id}`")))?,
            ));
        }
        let mut rows: Vec<MatrixRow> = Vec::new();
        let mut compared = 0;
        let mut after = request.after.clone();
        let mut next = None;
        // If every case is listed, one more than the page is enough.
        let size = match u32::try_from(request.limit) {
            Ok(limit) if request.unchanged => limit.saturating_add(1).min(MATRIX_BATCH),
            _ => MATRIX_BATCH,
        };
        'pages: while compared < MATRIX_SCAN {
            let (batch, last) = matrix_batch(&store, &request.runs, after.as_ref(), size).await?;
            for (key, cells) in batch {
                let row = MatrixRow {
                    case_id: key.0.clone(),
                    variant: key.1.clone(),
                    title: String::new(),
                    cells,
                };
                compared += 1;
                if !request.unchanged && !row.is_changed() {
                    continue;
                }
                if rows.len() == request.limit {
                    next = rows.last().map(|row| (row.case_id.clone(), row.variant.clone()));
                    break 'pages;
                }
                rows.push(row);
            }
            let Some(last) = last else { break };
            if compared >= MATRIX_SCAN {
                next = Some(last.clone());
            }
            after = Some(last);
        }
        let ids: Vec<&str> = rows.iter().map(|row| row.case_id.as_str()).collect();
        let mut titles: HashMap<String, String> = HashMap::new();
        for run_id in &request.runs {
            for case in store.bench().run_cases(run_id, &ids).await? {
                titles.insert(case.case_id, case.title);
            }
        }
        for row in &mut rows {
            row.title = titles.get(&row.case_id).cloned().unwrap_or_default();
        }
        Ok(RunMatrix {
            runs,
            rows,
            next,
            compared,
        })
    }

    /// Returns the latest runs of every suite, newest first within a suite; at most `suites` suites.
    pub async fn runs_by_suite(self, suites: u32, runs: u32) -> Result<Vec<RunSummary>, EngineError> {
        let store = self.engine.reader().await?;
        let mut found = Vec::new();
        for suite_id in store.bench().suite_ids(suites).await? {
            let rows = store.bench().run_heads(Some(&suite_id), None, runs).await?;
            found.extend(rows.into_iter().map(run_summary));
        }
        Ok(found)
    }

    /// Which of these runs are still stored, in the same order.
    pub async fn existing_runs(self, runs: &[String]) -> Result<Vec<String>, EngineError> {
        let ids: Vec<&str> = runs.iter().map(String::as_str).collect();
        let found = self.engine.store().await?.bench().existing_runs(&ids).await?;
        Ok(runs.iter().filter(|id| found.contains(id)).cloned().collect())
    }

    /// Intervals of the pass rates of runs by run id; runs of earlier versions have none.
    pub async fn pass_intervals(
        self,
        runs: &[RunSummary],
    ) -> Result<HashMap<String, (f64, f64)>, EngineError> {
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        let found = self.engine.store().await?.bench().pass_intervals(&ids).await?;
        Ok(found
            .into_iter()
            .map(|(run_id, low, high)| (run_id, (low, high)))
            .collect())
    }

    /// Outcomes of one case in several runs, in the order of the runs.
    pub async fn case_versions(
        self,
        runs: &[String],
        case_id: &str,
    ) -> Result<Vec<CaseVersion>, EngineError> {
        let store = self.engine.store().await?;
        let mut versions = Vec::new();
        for run_id in runs {
            let Some(row) = store.bench().run_head(run_id).await? else {
                continue;
            };
            let described = store.bench().run_cases(run_id, &[case_id]).await?;
            let described = described.into_iter().next();
            versions.push(CaseVersion {
                run: run_summary(row),
                outcomes: store.bench().outcomes_of(run_id, &[case_id]).await?,
                title: described.as_ref().map(|case| case.title.clone()),
                case_hash: described.map(|case| case.case_hash),
            });
        }
        Ok(versions)
    }

    /// Number of results of a run.
    pub async fn result_total(self, run_id: &str) -> Result<u64, EngineError> {
        let counts = self.engine.reader().await?.bench().result_counts(run_id).await?;
        Ok(counts
            .iter()
            .map(|(_, count)| u64::try_from(*count).unwrap_or(0))
            .sum())
    }
}

/// One case in one run of its suite.
#[derive(Debug, Clone)]
pub struct CaseVersion {
    pub run: RunSummary,
    /// Outcome of each variant; empty if the run has no result of the case.
    pub outcomes: Vec<CaseOutcomeRow>,
    /// What the case asked in this run, if its content is stored.
    pub title: Option<String>,
    /// Content hash of the case in this run.
    pub case_hash: Option<String>,
}

type MatrixKey = (String, String);

/// Reads the next cases of all runs, merged by key, and the key after which the next batch starts.
async fn matrix_batch(
    store: &Store,
    runs: &[String],
    after: Option<&MatrixKey>,
    size: u32,
) -> Result<(BTreeMap<MatrixKey, Vec<MatrixCell>>, Option<MatrixKey>), EngineError> {
    let cursor = after.map(|(case_id, variant)| CaseCursor {
        value: 0.0,
        case_id: case_id.clone(),
        variant: variant.clone(),
    });
    let mut merged: BTreeMap<MatrixKey, Vec<MatrixCell>> = BTreeMap::new();
    // A batch ends at the smallest last key of the runs that have more: beyond it, cells could be incomplete.
    let mut end: Option<MatrixKey> = None;
    for (place, run_id) in runs.iter().enumerate() {
        let order = (CaseSort::Case, false);
        let rows = store
            .bench()
            .case_outcomes(run_id, &CaseFilter::default(), order, cursor.as_ref(), size)
            .await?;
        if rows.len() == size as usize
            && let Some(last) = rows.last()
        {
            let last = (last.case_id.clone(), last.variant.clone());
            end = Some(end.map_or_else(|| last.clone(), |end| end.min(last.clone())));
        }
        for row in rows {
            let cells = merged
                .entry((row.case_id.clone(), row.variant.clone()))
                .or_insert_with(|| vec![None; runs.len()]);
            if let Some(cell) = cells.get_mut(place) {
                *cell = Some(row);
            }
        }
    }
    if let Some(end) = &end {
        merged.retain(|key, _| key <= end);
    }
    Ok((merged, end))
}

fn status_counts(counts: &[(String, i64)]) -> StatusCounts {
    let of = |status: &str| {
        let found = counts.iter().find(|(name, _)| name == status);
        found.map_or(0, |(_, count)| u64::try_from(*count).unwrap_or(0))
    };
    StatusCounts {
        pass: of("pass"),
        fail: of("fail"),
        error: of("error"),
        timeout: of("timeout"),
        skipped: of("skipped"),
        pending: of("pending"),
    }
}

fn not_found(what: &str) -> EngineError {
    EngineError::NotFound {
        what: what.to_owned(),
        hint: Hint::with_command("list the runs to see their ids", "satiety bench list --runs"),
    }
}
