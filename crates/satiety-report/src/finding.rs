//! Findings: problems at a line of a file, for code-scanning services and annotations in CI.

use schemars::JsonSchema;
use serde::Serialize;

/// Problem at a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CheckFinding")]
pub struct Finding {
    /// Rule that the change violates.
    pub rule: Rule,
    /// How serious the finding is.
    pub level: Level,
    /// What changed, such as `suites.planner.c1.repeats`; identifies the finding from run to run.
    pub place: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// File with the problem, relative to the top of the repository.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FindingLevel")]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The check fails because of it.
    Error,
    /// It does not decide the check.
    Warning,
}

impl Level {
    /// Name in SARIF and in workflow commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Rule that a finding violates: the parts of the ratchet, and the regression gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(rename = "FindingRule")]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A case is removed, disabled, or expects less.
    WeakerCase,
    /// A threshold is removed or lowered.
    WeakerThreshold,
    /// A regression gate is removed or detects less.
    WeakerGate,
    /// A judge is replaced or has fewer votes.
    WeakerJudge,
    /// A baseline is removed or lowered.
    WeakerBaseline,
    /// A general rule of the harness is less strict.
    WeakerRules,
    /// The description of a target is not the same.
    ChangedTarget,
    /// The trusted keys are not the same.
    ChangedKeys,
    /// The lock file is missing or does not match.
    InvalidLock,
    /// A benchmark is worse than its baseline.
    BenchRegression,
    /// A benchmark cannot be compared with its baseline.
    BenchInconclusive,
}

impl Rule {
    /// Identifier, the same as in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Self::WeakerCase => "weaker-case",
            Self::WeakerThreshold => "weaker-threshold",
            Self::WeakerGate => "weaker-gate",
            Self::WeakerJudge => "weaker-judge",
            Self::WeakerBaseline => "weaker-baseline",
            Self::WeakerRules => "weaker-rules",
            Self::ChangedTarget => "changed-target",
            Self::ChangedKeys => "changed-keys",
            Self::InvalidLock => "invalid-lock",
            Self::BenchRegression => "bench-regression",
            Self::BenchInconclusive => "bench-inconclusive",
        }
    }

    /// What the rule demands, in one sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::WeakerCase => "Cases of an eval harness must not be removed, disabled or made easier.",
            Self::WeakerThreshold => "Thresholds of an eval harness must not be removed or lowered.",
            Self::WeakerGate => "Regression gates of an eval harness must not be removed or detect less.",
            Self::WeakerJudge => "Judges of an eval harness must not be replaced or get fewer votes.",
            Self::WeakerBaseline => "Baselines of an eval harness must not be removed or lowered.",
            Self::WeakerRules => "Rules of an eval harness must not become less strict.",
            Self::ChangedTarget => "The target of an eval harness must stay the same.",
            Self::ChangedKeys => "Keys that approve changes of an eval harness need a signature to change.",
            Self::InvalidLock => "The lock file of an eval harness must describe its files.",
            Self::BenchRegression => "A benchmark must not be worse than its baseline.",
            Self::BenchInconclusive => {
                "A benchmark must have enough results to compare it with its baseline."
            }
        }
    }

    /// What to do about a violation.
    pub fn advice(self) -> &'static str {
        match self {
            Self::InvalidLock => "Run `satiety harness lock` and commit the lock file.",
            Self::BenchRegression => {
                "Fix the target, or accept the regression with `--accept-regression REASON`."
            }
            Self::BenchInconclusive => "Run more repeats, or add cases.",
            _ => "Restore it, or have an approver of the base sign the change: `satiety harness transition`.",
        }
    }
}

impl Finding {
    /// Message with the place and with what to do.
    pub fn text(&self) -> String {
        let message = self.message.trim_end_matches('.');
        format!("{}: {message}. {}", self.place, self.rule.advice())
    }
}
