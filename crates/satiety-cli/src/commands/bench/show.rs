//! Rendering of runs, comparisons and lists.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::bench::{BenchmarkRun, PowerStatement};
use satiety_engine::bench::suites::SuiteList;
use satiety_engine::bench::{
    AblationResponse, AcceptResponse, Budget, Cancelled, ComparedRuns, DistributedRunSummary,
    RunBenchResponse, RunSummary,
};
use satiety_report::document::percent;
use satiety_report::documents::bench::{RunReport, ablation, comparison, runs};
use satiety_report::{Block, Document, Finding, Tone};
use schemars::JsonSchema;
use serde::Serialize;

use crate::printer::Render;
use crate::table::table;

/// A run in full.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct FullRun(pub(super) BenchmarkRun);

impl Render for FullRun {
    fn document(&self) -> Document {
        runs(vec![RunReport::new(&self.0)])
    }
}

impl Render for RunBenchResponse {
    fn document(&self) -> Document {
        runs(vec![report(self)])
    }

    fn findings(&self) -> Option<Vec<Finding>> {
        Some(self.findings.clone())
    }
}

/// Runs of several suites.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct RunTable {
    /// One run per suite.
    pub(super) runs: Vec<RunBenchResponse>,
}

impl Render for RunTable {
    fn document(&self) -> Document {
        runs(self.runs.iter().map(report).collect())
    }

    fn findings(&self) -> Option<Vec<Finding>> {
        Some(self.runs.iter().flat_map(|ran| ran.findings.clone()).collect())
    }
}

pub(super) fn report(ran: &RunBenchResponse) -> RunReport<'_> {
    let mut more = Vec::new();
    more.extend(ran.warnings.iter().map(Block::note));
    if let Some(found) = &ran.sequential {
        more.push(Block::text(format!(
            "stopped early after {} pairs (e-value {:.1}); saved {} calls",
            found.pairs, found.e_value, found.calls_saved
        )));
    }
    if let Some(accepted) = &ran.accepted {
        more.push(accepted_regression(&accepted.by, &accepted.reason));
    }
    if ran.interrupted {
        let kept = format!(
            "{} results are stored; resume with --resume {}",
            ran.run.results.len(),
            ran.run.run_id
        );
        more.push(Block::Note(Tone::Unsure, "interrupted".into(), kept.into()));
    }
    RunReport {
        run: &ran.run,
        gate: ran.gate.as_ref(),
        baseline: ran.baseline.as_ref(),
        more,
    }
}

fn accepted_regression(by: &str, reason: &str) -> Block {
    Block::text(format!("regression accepted by {by}: {reason}"))
}

/// Detectable differences of a planned run, and its budget.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct PlannedRun {
    #[serde(flatten)]
    pub(super) power: PowerStatement,
    /// Budget of a run that is repeated until the gate decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<Budget>,
}

impl Render for PlannedRun {
    fn human(&self) -> String {
        match &self.budget {
            Some(budget) => format!("{}\nbudget: {}", self.power.text, budget.text),
            None => self.power.text.clone(),
        }
    }
}

impl Render for ComparedRuns {
    fn document(&self) -> Document {
        let mut document = comparison(&self.report, &self.runs.0, &self.runs.1);
        let accepted = self.accepted.as_ref();
        let accepted = accepted.map(|accepted| accepted_regression(&accepted.by, &accepted.reason));
        document.blocks.extend(accepted);
        document
    }
}

impl Render for AcceptResponse {
    fn human(&self) -> String {
        let mut text = format!(
            "{} is the baseline of {} ({} passed), accepted by {}: {}",
            self.run_id,
            self.suite_id,
            percent(self.pass_rate),
            self.accepted.by,
            self.accepted.reason
        );
        if let Some(file) = &self.file {
            let _ = write!(text, "\nwritten to {file}; commit it with the suite");
        }
        if let Some(before) = &self.replaces {
            let _ = write!(text, "\nprevious baseline: {before}");
        }
        text
    }
}

impl Render for AblationResponse {
    fn document(&self) -> Document {
        let mut document = ablation(&self.report, self.tag.as_deref());
        document
            .blocks
            .push(Block::text(format!("stored as {}", self.ablation_id)));
        document
    }
}

/// Validated suites.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Checked(pub(super) SuiteList);

impl Render for Checked {
    fn human(&self) -> String {
        let rows = self.0.suites.iter().map(|suite| {
            let state = match suite.problems.len() {
                0 => "ok".to_owned(),
                1 => "1 problem".to_owned(),
                count => format!("{count} problems"),
            };
            vec![
                suite.suite_id.clone().unwrap_or_else(|| "-".into()),
                suite.version.clone().unwrap_or_else(|| "-".into()),
                suite.cases.to_string(),
                suite.hard.to_string(),
                state,
                suite.file.clone(),
            ]
        });
        let header = ["suite", "version", "cases", "hard", "state", "file"];
        let mut text = table(&header, &[2, 3], rows);
        for problem in self.0.suites.iter().flat_map(|suite| &suite.problems) {
            let _ = write!(text, "\n{} {problem}", "error:".red());
        }
        for warning in self.0.suites.iter().flat_map(|suite| &suite.warnings) {
            let _ = write!(text, "\n{} {warning}", "note:".yellow());
        }
        for skill in &self.0.skills_without_benchmarks {
            let _ = write!(text, "\n{} skill {skill} has no benchmarks", "note:".yellow());
        }
        text
    }
}

/// Stored runs.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct RunList {
    /// Runs, newest first.
    pub(super) runs: Vec<RunSummary>,
}

impl Render for RunList {
    fn human(&self) -> String {
        let rows = self.runs.iter().map(|run| {
            vec![
                run.run_id.clone(),
                run.suite_id.clone(),
                run.target.clone(),
                run.started_at.strftime("%Y-%m-%d %H:%M").to_string(),
                match (run.completed_at, run.distributed) {
                    (Some(_), _) => percent(run.pass_rate),
                    (None, false) => "not finished".into(),
                    (None, true) => "not finished (distributed)".into(),
                },
            ]
        });
        table(&["run", "suite", "target", "started (UTC)", "passed"], &[4], rows)
    }
}

/// Runs queued for workers.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct QueuedRuns {
    /// One run per suite.
    pub(super) runs: Vec<DistributedRunSummary>,
}

impl Render for QueuedRuns {
    fn human(&self) -> String {
        let line = |run: &DistributedRunSummary| {
            format!(
                "{}  {}: {} cases queued for the workers",
                run.run_id,
                run.suite_id,
                run.planned - run.done.min(run.planned)
            )
        };
        let lines: Vec<String> = self.runs.iter().map(line).collect();
        lines.join("\n")
    }
}

impl Render for Cancelled {
    fn human(&self) -> String {
        format!("cancelled {}: {} queued cases dropped", self.run_id, self.dropped)
    }
}
