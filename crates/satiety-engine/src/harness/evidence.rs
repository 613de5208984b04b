//! What the store's runs prove about cases of the regression tier: that a case may enter it, and that it still passes.

use satiety::bench::by_case;
use satiety::harness::Manifest;
use satiety::harness::manifest::{CaseRecord, graduations};
use satiety::harness::sources::regression_cases;
use satiety_store::Store;

use super::folder::Folder;
use super::measuring::complete_runs;
use crate::EngineError;

/// Complete runs that are looked at for a graduation: every version that a store is likely to remember.
const MOST_RUNS: u32 = 50;

/// Cases that left the measure for the regression tier between `old` and the files, without the runs that a graduation
/// needs. Empty where there is none, or where every run that is known passed it, and enough did.
pub(super) async fn unproven_graduations(
    store: &Store,
    old: &Manifest,
    folder: &Folder,
) -> Result<Vec<String>, EngineError> {
    let mut objections = Vec::new();
    for graduation in graduations(old, &folder.manifest) {
        let mut record = CaseRecord::default();
        // Runs of the suite that it was in, and of the one that it is in now.
        let mut suites = vec![graduation.suite.as_str(), graduation.new_suite.as_str()];
        suites.dedup();
        for suite in suites {
            let Some(loaded) = folder.suite(suite) else {
                continue;
            };
            for run in complete_runs(store, &loaded.suite, &loaded.hash(), MOST_RUNS).await? {
                let same = |hash: Option<&str>| hash == Some(graduation.hash.as_str());
                let results = run
                    .results
                    .iter()
                    .filter(|result| same(result.case_hash.as_deref()));
                let decided: Vec<bool> = results.filter_map(|result| result.passed()).collect();
                if !decided.is_empty() {
                    record.decided += 1;
                    record.passed += usize::from(decided.iter().all(|passed| *passed));
                }
            }
        }
        objections.extend(graduation.objection(record));
    }
    Ok(objections)
}

/// Cases of the regression tier that the newest complete run of their suite failed, as `suite/case`.
pub(super) async fn failing_regressions(store: &Store, folder: &Folder) -> Result<Vec<String>, EngineError> {
    let mut failing = Vec::new();
    for loaded in &folder.suites {
        let suite = &loaded.suite;
        let tests = regression_cases(suite);
        if tests.is_empty() {
            continue;
        }
        let runs = complete_runs(store, suite, &loaded.hash(), 1).await?;
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
