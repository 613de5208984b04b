//! Results of other tools as runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::Loss;
use super::run::{BenchmarkResult, BenchmarkRun};
use super::summary::score_summaries;

/// Results of another tool as a run, with a report of what was read.
#[derive(Debug, Clone, PartialEq)]
pub struct RunImport {
    /// The run, with one result per case, variant and repeat.
    pub run: BenchmarkRun,
    /// All scores of the file, in its own order.
    pub scores: Vec<ImportedScore>,
    /// Parts of the file that the run does not have.
    pub losses: Vec<Loss>,
}

/// A named score of an imported run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedScore {
    /// Name of the score: the scorer, or `SCORER/KEY` for a scorer that returns several values.
    pub name: String,
    /// Whether this score decides which results pass.
    pub decides: bool,
    /// Mean over cases of the mean over repeats; absent without numeric values.
    pub mean: Option<f64>,
    /// Mean or accuracy that the file itself states, if any.
    pub log_mean: Option<f64>,
    /// Smallest numeric value.
    pub min: Option<f64>,
    /// Largest numeric value.
    pub max: Option<f64>,
    /// Number of results with a numeric value.
    pub scored: u64,
    /// Number of results whose value is missing or not a number.
    pub unscored: u64,
}

/// Summarizes the scores of imported results; `stated` gives the mean that the file itself states.
pub(super) fn imported_scores(
    results: &[BenchmarkResult],
    stated: impl Fn(&str) -> Option<f64>,
) -> Vec<ImportedScore> {
    score_summaries(results)
        .into_iter()
        .map(|summary| ImportedScore {
            log_mean: stated(&summary.name),
            decides: summary.decides,
            mean: summary.mean,
            min: summary.min,
            max: summary.max,
            scored: summary.scored,
            unscored: summary.unscored,
            name: summary.name,
        })
        .collect()
}
