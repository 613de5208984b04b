//! Rules of a harness: thresholds, gates, judges, significance levels, and the record of retired cases. A
//! repository stores them in `harness.toml`; together with the suites they form the [`Manifest`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::manifest::{JudgeEntry, Manifest, ManifestError, Retirement, Threshold};
use crate::bench::gate::GatePolicy;
use crate::bench::sandbox::SandboxRequirement;
use crate::bench::suite::BenchmarkSuite;

/// Hashes of file contents, by suite and by the file name used in cases.
pub type FileHashes = BTreeMap<String, BTreeMap<String, String>>;

/// Everything in a harness except its cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Significance level at which an improvement counts as shown, above 0 and at most 1.
    pub alpha: f64,
    /// Minimum agreement of a new judge with its predecessor, above 0 and at most 1.
    pub judge_agreement: f64,
    /// Required value of a metric, by `suite/metric`.
    pub thresholds: BTreeMap<String, Threshold>,
    /// Regression gates, by name of the gate.
    pub gates: BTreeMap<String, GatePolicy>,
    /// Judges, by name of the judge.
    pub judges: BTreeMap<String, JudgeEntry>,
    /// Retired cases, by their content hash.
    pub retired: BTreeMap<String, Retirement>,
    /// Whether targets must be sandboxed when the harness is run; part of the lock, not of the version.
    pub sandbox: SandboxRequirement,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            judge_agreement: 0.9,
            thresholds: BTreeMap::new(),
            gates: BTreeMap::new(),
            judges: BTreeMap::new(),
            retired: BTreeMap::new(),
            sandbox: SandboxRequirement::Require,
        }
    }
}

impl Rules {
    /// Builds the manifest of these rules and suites and checks it.
    pub fn manifest(&self, suites: &[BenchmarkSuite], files: &FileHashes) -> Result<Manifest, ManifestError> {
        let manifest = Manifest {
            alpha: self.alpha,
            judge_agreement: self.judge_agreement,
            thresholds: self.thresholds.clone(),
            gates: self.gates.clone(),
            judges: self.judges.clone(),
            retired: self.retired.clone(),
            ..Manifest::from_suites(suites, files)?
        };
        manifest.check()?;
        Ok(manifest)
    }
}

/// Metrics of a run that a threshold can refer to; [`super::thresholds`] computes their values.
pub const METRICS: [&str; 7] = [
    "pass_rate",
    "mean_score",
    "mean_quality_score",
    "mean_latency_ms",
    "p95_latency_ms",
    "total_token_cost",
    "total_cost_usd",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_part_of_the_version() {
        let suites = [BenchmarkSuite::new("s")];
        let plain = Rules::default().manifest(&suites, &FileHashes::new()).unwrap();
        assert_eq!(plain, Manifest::from_suites(&suites, &FileHashes::new()).unwrap());
        let strict = Rules {
            alpha: 0.01,
            ..Rules::default()
        };
        let strict = strict.manifest(&suites, &FileHashes::new()).unwrap();
        assert_ne!(strict.version(), plain.version());
        let wrong = Rules {
            alpha: 0.0,
            ..Rules::default()
        };
        assert!(wrong.manifest(&suites, &FileHashes::new()).is_err());
    }
}
