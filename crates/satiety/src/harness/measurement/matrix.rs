//! Results of the versions of a system on the cases of a suite: passes among decided repeats, by version.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MeasureError;
use crate::bench::gate::Tally;
use crate::bench::run::{BenchmarkResult, BenchmarkRun};
use crate::bench::summary::by_case;

/// Matrix of results: cases by versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// Number of versions, oldest first; the last is the accepted one.
    pub versions: usize,
    /// Cases that the accepted version decided, sorted by id.
    pub cases: Vec<CaseHistory>,
}

/// Results of one case over the versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseHistory {
    /// Id of the case.
    pub case_id: String,
    /// Name of a cluster of correlated cases, such as variants of one template; absent for an independent
    /// case.
    pub cluster: Option<String>,
    /// Passes among decided repeats for each version; absent if the version did not decide the current
    /// content of the case.
    pub tallies: Vec<Option<Tally>>,
}

impl Matrix {
    /// Builds the matrix from runs of one suite, oldest version first. Cases are those of the last run; a
    /// result of an earlier run counts only if the hash of the case is the same. `clusters` maps cases to
    /// clusters.
    pub fn from_runs(
        runs: &[&BenchmarkRun],
        clusters: &BTreeMap<String, String>,
    ) -> Result<Self, MeasureError> {
        let Some((accepted, _)) = runs.split_last() else {
            return Err(MeasureError::NoRuns);
        };
        for run in runs {
            let variants: BTreeSet<_> = run.results.iter().map(|result| &result.variant).collect();
            if variants.len() > 1 {
                return Err(MeasureError::SeveralVariants {
                    run_id: run.run_id.clone(),
                });
            }
            if run.suite_id != accepted.suite_id {
                return Err(MeasureError::SeveralSuites {
                    run_id: run.run_id.clone(),
                    suite_id: run.suite_id.clone(),
                    expected: accepted.suite_id.clone(),
                });
            }
        }
        let grouped: Vec<_> = runs.iter().map(|run| by_case(&run.results)).collect();
        let cases: Vec<CaseHistory> = by_case(&accepted.results)
            .into_iter()
            .filter_map(|(case_id, now)| {
                tally(&now, None)?;
                let hash = now.iter().find_map(|result| result.case_hash.as_deref());
                Some(CaseHistory {
                    case_id: case_id.to_owned(),
                    cluster: clusters.get(case_id).cloned(),
                    tallies: grouped
                        .iter()
                        .map(|run| run.get(case_id).and_then(|results| tally(results, hash)))
                        .collect(),
                })
            })
            .collect();
        if cases.is_empty() {
            return Err(MeasureError::NothingDecided {
                run_id: accepted.run_id.clone(),
            });
        }
        Ok(Self {
            versions: runs.len(),
            cases,
        })
    }

    /// Returns the pass rates of the cases that every version decided: rows are cases, columns versions.
    pub(super) fn complete(&self) -> Vec<Vec<f64>> {
        self.cases
            .iter()
            .filter_map(|case| case.tallies.iter().map(|tally| tally.map(rate)).collect())
            .collect()
    }
}

/// Returns passes over tries.
pub(super) fn rate(tally: Tally) -> f64 {
    tally.passes as f64 / tally.tries.max(1) as f64
}

fn tally(results: &[&BenchmarkResult], hash: Option<&str>) -> Option<Tally> {
    let same = |result: &&&BenchmarkResult| match (hash, result.case_hash.as_deref()) {
        (Some(wanted), Some(found)) => wanted == found,
        _ => true,
    };
    let decided: Vec<bool> = results
        .iter()
        .filter(same)
        .filter_map(|result| result.passed())
        .collect();
    (!decided.is_empty()).then(|| Tally {
        passes: decided.iter().filter(|&&passed| passed).count() as u64,
        tries: decided.len() as u64,
    })
}
