//! Evidence from stored runs for the regression tier: whether a case may enter it, and whether it still
//! passes.

use std::collections::BTreeSet;

use satiety::bench::by_case;
use satiety::harness::Manifest;
use satiety::harness::manifest::{CaseRecord, graduations};
use satiety::harness::sources::regression_cases;
use satiety_store::Store;

use super::directory::HarnessDirectory;
use super::measurement::complete_runs;
use crate::EngineError;

/// Maximum number of complete runs considered for a graduation.
const MAX_RUNS: u32 = 50;

/// Cases that moved from the measured tier to the regression tier.
#[derive(Debug, Default)]
pub(super) struct Graduations {
    /// Places in a harness comparison with enough runs of the case, all passed.
    pub(super) proven: BTreeSet<String>,
    /// Reasons why the others require a signature.
    pub(super) objections: Vec<String>,
}

/// Evaluates the cases that left the measured tier between `old` and the files, using stored runs.
pub(super) async fn weigh_graduations(
    store: &Store,
    old: &Manifest,
    folder: &HarnessDirectory,
) -> Result<Graduations, EngineError> {
    let mut weighed = Graduations::default();
    for graduation in graduations(old, &folder.manifest) {
        let mut record = CaseRecord::default();
        // Runs of the previous suite of the case, and of its current one.
        let mut suites = vec![graduation.suite.as_str(), graduation.new_suite.as_str()];
        suites.dedup();
        for suite in suites {
            let Some(loaded) = folder.suite(suite) else {
                continue;
            };
            for run in complete_runs(store, folder, loaded, MAX_RUNS).await? {
                let same = |hash: Option<&str>| hash == Some(graduation.hash.as_str());
                let results = run
                    .results
                    .iter()
                    .filter(|result| same(result.case_hash.as_deref()));
                let decided: Vec<bool> = results
                    .filter_map(satiety::bench::BenchmarkResult::passed)
                    .collect();
                if !decided.is_empty() {
                    record.decided += 1;
                    record.passed += usize::from(decided.iter().all(|passed| *passed));
                }
            }
        }
        if let Some(objection) = graduation.objection(record) {
            weighed.objections.push(objection);
        } else {
            let place = format!("suites.{}.{}.tier", graduation.suite, graduation.case_id);
            weighed.proven.insert(place);
        }
    }
    Ok(weighed)
}

/// Regression-tier cases that failed in the newest complete run of their suite, as `suite/case`.
pub(super) async fn failing_regressions(
    store: &Store,
    folder: &HarnessDirectory,
) -> Result<Vec<String>, EngineError> {
    let mut failing = Vec::new();
    for loaded in &folder.suites {
        let suite = &loaded.suite;
        let tests = regression_cases(suite);
        if tests.is_empty() {
            continue;
        }
        let runs = complete_runs(store, folder, loaded, 1).await?;
        let Some(newest) = runs.last() else {
            continue;
        };
        for (id, results) in by_case(&newest.results) {
            let failed = results.iter().any(|result| result.passed() == Some(false));
            if failed && tests.contains(id) {
                failing.push(format!("{}/{id}", suite.suite_id));
            }
        }
    }
    Ok(failing)
}
