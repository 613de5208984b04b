//! Verdict of the gate as findings at the cases of the suite.

use std::path::Path;

use satiety::bench::{ChangeKind, GateReport, GateVerdict};
use satiety_report::finding::{Finding, Level, Rule};

use super::suites;
use crate::source_line::{SourceLine, case_line};

/// Findings of a gated run; none if it passed. Cases that are worse without deciding the verdict are warnings.
pub(super) fn findings(report: &GateReport, suite_id: &str, suite: &Path) -> Vec<Finding> {
    let (rule, level) = match report.verdict {
        GateVerdict::Pass => return Vec::new(),
        GateVerdict::Regression => (Rule::BenchRegression, Level::Error),
        GateVerdict::Inconclusive => (Rule::BenchInconclusive, Level::Warning),
    };
    let file = suites::suite_file(suite).unwrap_or_else(|| suite.to_path_buf());
    let mut findings: Vec<Finding> = report
        .changes
        .iter()
        .filter(|change| change.decides || is_worse(change.kind))
        .map(|change| {
            let line = case_line(&file, &change.case_id, None);
            let level = if change.decides { level } else { Level::Warning };
            let place = format!("{suite_id}/{}", change.case_id);
            line.finding(rule, level, &place, change.reason.clone(), None)
        })
        .collect();
    // A verdict about the whole suite has no case to point at.
    if !report.changes.iter().any(|change| change.decides) {
        let reason = report.reasons.first().cloned().unwrap_or_default();
        let line = SourceLine { path: file, line: 1 };
        findings.insert(0, line.finding(rule, level, suite_id, reason, None));
    }
    findings
}

fn is_worse(kind: ChangeKind) -> bool {
    matches!(
        kind,
        ChangeKind::Removed
            | ChangeKind::Skipped
            | ChangeKind::Worse
            | ChangeKind::ScoreDrop
            | ChangeKind::Slower
            | ChangeKind::Lost
    )
}
