//! Sequential test against the baseline, which may stop a run after any result.

use std::collections::BTreeMap;

use satiety::bench::{self, BenchmarkResult, BenchmarkRun, Sequential, SequentialSettings};
use schemars::JsonSchema;
use serde::Serialize;

use super::suites::LoadedSuite;
use crate::EngineError;

/// Outcome of a sequential test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SequentialOutcome {
    /// Decision of the test, or that it is undecided.
    pub progress: bench::Progress,
    /// Number of pairs of results compared.
    pub pairs: u64,
    /// Evidence as an e-value; 20 decides at the default error rate.
    pub e_value: f64,
    /// Number of calls saved by stopping early.
    pub calls_saved: u64,
}

/// Pairs results with those of the baseline and detects when the test has decided.
pub(super) struct SequentialWatch {
    test: Sequential,
    before: BTreeMap<(String, u32), bool>,
}

impl SequentialWatch {
    pub(super) fn new(
        baseline: &BenchmarkRun,
        loaded: &LoadedSuite,
        repeats: Option<u32>,
    ) -> Result<Self, EngineError> {
        let before: BTreeMap<(String, u32), bool> = baseline
            .results
            .iter()
            .filter_map(|result| Some(((result.case_id.clone(), result.repeat), result.passed()?)))
            .collect();
        let suite = &loaded.suite;
        let most = suite
            .cases
            .iter()
            .map(|case| repeats.unwrap_or_else(|| suite.repeats_of(case)))
            .max();
        let settings = SequentialSettings {
            cases: suite.cases.len() as u64,
            max_repeats: u64::from(most.unwrap_or(1).max(1)),
            alpha: 0.05,
            calls_per_pair: 1,
            futility_margin: None,
        };
        let test = Sequential::new(settings).map_err(|problem| EngineError::Invalid {
            message: problem.to_string(),
            hint: "run without early stopping".into(),
        })?;
        Ok(Self { test, before })
    }

    pub(super) fn see(&mut self, result: &BenchmarkResult) {
        let key = (result.case_id.clone(), result.repeat);
        if let (Some(before), Some(now)) = (self.before.get(&key), result.passed()) {
            // The test rejects a repeated pair, so each pair counts once.
            let _ = self.test.observe(&key.0, key.1, *before, now);
        }
    }

    pub(super) fn decided(&self) -> bool {
        !matches!(self.test.progress(), bench::Progress::Continue)
    }

    pub(super) fn outcome(&self) -> SequentialOutcome {
        SequentialOutcome {
            progress: self.test.progress(),
            pairs: self.test.pairs(),
            e_value: self.test.e_value(),
            calls_saved: self.test.calls_saved(),
        }
    }
}
