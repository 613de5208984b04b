//! How runs, comparisons and lists are shown.

use std::collections::BTreeMap;
use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::bench::report::{gate_markdown, run_markdown};
use satiety::bench::{
    AblationVerdict, BenchmarkResult, BenchmarkRun, BenchmarkSummary, GateReport, GateVerdict,
    PowerStatement, Status, ablation_markdown, leading, sandbox_note, summarize,
};
use satiety_engine::bench::suites::SuiteList;
use satiety_engine::bench::{Ablated, Accepted, BenchRan, Cancelled, ComparedRuns, ListedRun, SpreadRun};
use satiety_server::reports::{RunPage, bench_ablation, bench_comparison, bench_run};
use serde::Serialize;

use super::spreadsheet;
use crate::printer::Render;
use crate::table::table;

/// How many cases that did not pass are shown to a person.
const FAILURES: usize = 10;

/// A run with everything.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Shown(pub(super) BenchmarkRun);

impl Render for Shown {
    fn human(&self) -> String {
        let summary = summarize(leading(&self.0.results));
        let mut text = heading(&self.0);
        let _ = write!(text, "\n{}", figures(&summary));
        failures(&mut text, &self.0);
        text
    }

    fn markdown(&self) -> String {
        run_markdown(&self.0)
    }

    fn csv(&self) -> Option<String> {
        Some(spreadsheet::results([&self.0]))
    }

    fn html(&self) -> Option<String> {
        Some(bench_run(&[RunPage::new(&self.0)]))
    }
}

impl Render for BenchRan {
    fn human(&self) -> String {
        let mut text = heading(&self.run);
        if let Some(summary) = &self.run.summary {
            let _ = write!(text, "\n{}", figures(summary));
        }
        if !self.variants.is_empty() {
            let rows = self.variants.iter().map(|(name, summary)| {
                vec![
                    name.clone(),
                    share(summary.pass_rate),
                    summary
                        .mean_latency_ms
                        .map_or_else(|| "-".into(), |ms| format!("{ms:.0} ms")),
                    summary.total_token_cost.to_string(),
                ]
            });
            let header = ["variant", "passed", "latency", "tokens"];
            let _ = write!(text, "\n\n{}", table(&header, &[1, 2, 3], rows));
        }
        failures(&mut text, &self.run);
        for warning in &self.warnings {
            let _ = write!(text, "\n{} {warning}", "note:".yellow());
        }
        if let Some(found) = &self.sequential {
            let _ = write!(
                text,
                "\n\nstopped looking after {} pairs (evidence {:.1}); {} calls were not needed",
                found.pairs, found.e_value, found.calls_saved
            );
        }
        if let Some(report) = &self.gate {
            let _ = write!(text, "\n\n{}", verdict(report));
        }
        if let Some(accepted) = &self.accepted {
            let _ = write!(text, "\nlet through by {}: {}", accepted.by, accepted.reason);
        }
        if self.interrupted {
            let _ = write!(
                text,
                "\n\n{} {} results are kept; go on with --resume {}",
                "interrupted:".yellow().bold(),
                self.run.results.len(),
                self.run.run_id
            );
        }
        text
    }

    fn markdown(&self) -> String {
        match (&self.gate, &self.baseline) {
            (Some(report), Some(baseline)) => gate_markdown(report, baseline, &self.run),
            _ => run_markdown(&self.run),
        }
    }

    fn csv(&self) -> Option<String> {
        Some(spreadsheet::results([&self.run]))
    }

    fn html(&self) -> Option<String> {
        Some(bench_run(&[page_of(self)]))
    }
}

/// Runs of several suites.
#[derive(Serialize)]
pub(super) struct Several {
    pub(super) runs: Vec<BenchRan>,
}

impl Render for Several {
    fn human(&self) -> String {
        let parts: Vec<String> = self.runs.iter().map(Render::human).collect();
        parts.join("\n\n")
    }

    fn markdown(&self) -> String {
        let parts: Vec<String> = self.runs.iter().map(Render::markdown).collect();
        parts.join("\n\n")
    }

    fn csv(&self) -> Option<String> {
        Some(spreadsheet::results(self.runs.iter().map(|ran| &ran.run)))
    }

    fn html(&self) -> Option<String> {
        let pages: Vec<RunPage<'_>> = self.runs.iter().map(page_of).collect();
        Some(bench_run(&pages))
    }
}

/// What a run could show.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Power(pub(super) PowerStatement);

impl Render for Power {
    fn human(&self) -> String {
        self.0.text.clone()
    }
}

impl Render for ComparedRuns {
    fn human(&self) -> String {
        let mut text = format!(
            "{} beside {}",
            self.report.candidate_run, self.report.baseline_run
        );
        if let Some(pass) = &self.report.pass {
            let _ = write!(
                text,
                "\n{} cases: passed {} before, {} now ({:+.1} points)",
                pass.cases,
                share(Some(pass.baseline)),
                share(Some(pass.candidate)),
                100.0 * pass.difference
            );
        }
        let rows: Vec<Vec<String>> = self
            .report
            .changes
            .iter()
            .take(20)
            .map(|change| {
                let p = change
                    .adjusted_p_value
                    .map_or_else(|| "-".into(), |p| format!("{p:.4}"));
                vec![change.case_id.clone(), p, change.reason.clone()]
            })
            .collect();
        if !rows.is_empty() {
            let _ = write!(text, "\n\n{}", table(&["case", "p", "what"], &[1], rows));
        }
        let _ = write!(text, "\n\n{}", verdict(&self.report));
        if let Some(accepted) = &self.accepted {
            let _ = write!(text, "\nlet through by {}: {}", accepted.by, accepted.reason);
        }
        text
    }

    fn markdown(&self) -> String {
        gate_markdown(&self.report, &self.runs.0, &self.runs.1)
    }

    fn csv(&self) -> Option<String> {
        Some(spreadsheet::comparison(self))
    }

    fn html(&self) -> Option<String> {
        Some(bench_comparison(&self.report, &self.runs.0, &self.runs.1))
    }
}

impl Render for Accepted {
    fn human(&self) -> String {
        let mut text = format!(
            "{} is the baseline of {} ({} passed), accepted by {}: {}",
            self.run_id,
            self.suite_id,
            share(self.pass_rate),
            self.accepted.by,
            self.accepted.reason
        );
        if let Some(file) = &self.file {
            let _ = write!(text, "\nwritten to {file}; commit it with the suite");
        }
        if let Some(before) = &self.replaces {
            let _ = write!(text, "\nbefore it was {before}");
        }
        text
    }
}

impl Render for Ablated {
    fn human(&self) -> String {
        let mut text = String::new();
        for variant in &self.report.variants {
            let word = match variant.verdict {
                AblationVerdict::Ships => "SHIPS".green().bold().to_string(),
                AblationVerdict::Harmful => "HARMFUL".red().bold().to_string(),
                AblationVerdict::Inconclusive => "INCONCLUSIVE".yellow().bold().to_string(),
            };
            let _ = write!(
                text,
                "{word} {} beside {}",
                variant.variant.bold(),
                self.report.control
            );
            let rows = variant.metrics.iter().map(|metric| {
                let sd = metric.summary.standard_deviation;
                vec![
                    metric.metric.clone(),
                    format!(
                        "{:.4}{}",
                        metric.summary.mean,
                        sd.map_or_else(String::new, |sd| format!(" ± {sd:.4}"))
                    ),
                    format!("{:+.4}", metric.difference),
                    metric
                        .interval
                        .map_or_else(|| "-".into(), |ci| format!("{:+.4} to {:+.4}", ci.low, ci.high)),
                    format!("{:.4}", metric.p_holm),
                    format!("{:.4}", metric.margin),
                    metric.cases.to_string(),
                ]
            });
            let header = [
                "metric",
                "mean",
                "difference",
                "interval",
                "p (Holm)",
                "may lose",
                "cases",
            ];
            let _ = write!(text, "\n{}", table(&header, &[1, 2, 4, 5, 6], rows));
            for reason in &variant.reasons {
                let _ = write!(text, "\n- {reason}");
            }
            text.push_str("\n\n");
        }
        let _ = write!(text, "kept as {}", self.ablation_id);
        text
    }

    fn markdown(&self) -> String {
        ablation_markdown(&self.report)
    }

    fn html(&self) -> Option<String> {
        Some(bench_ablation(&self.report, self.tag.as_deref()))
    }
}

/// Suites that were looked at.
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

/// Runs of the store.
#[derive(Serialize)]
pub(super) struct Runs {
    pub(super) runs: Vec<ListedRun>,
}

impl Render for Runs {
    fn human(&self) -> String {
        let rows = self.runs.iter().map(|run| {
            vec![
                run.run_id.clone(),
                run.suite_id.clone(),
                run.target.clone(),
                run.started_at.strftime("%Y-%m-%d %H:%M").to_string(),
                match (run.completed_at, run.distributed) {
                    (Some(_), _) => share(run.pass_rate),
                    (None, false) => "not finished".into(),
                    (None, true) => "not finished (workers)".into(),
                },
            ]
        });
        table(&["run", "suite", "target", "began (UTC)", "passed"], &[4], rows)
    }
}

/// Runs that are with the workers.
#[derive(Serialize)]
pub(super) struct Detached {
    pub(super) runs: Vec<SpreadRun>,
}

impl Render for Detached {
    fn human(&self) -> String {
        let line = |run: &SpreadRun| {
            format!(
                "{}  {}: {} cases are left to the workers",
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
        format!("{}: {} cases are not run", self.run_id, self.dropped)
    }
}

/// A run with what the gate said about it.
fn page_of(ran: &BenchRan) -> RunPage<'_> {
    RunPage {
        run: &ran.run,
        gate: ran.gate.as_ref().zip(ran.baseline.as_ref()),
    }
}

fn heading(run: &BenchmarkRun) -> String {
    let mut text = format!("{} {} ({})", run.suite_id.bold(), run.run_id, run.target);
    if let Some(note) = sandbox_note(run) {
        let _ = write!(text, "\n{}", note.yellow());
    }
    text
}

fn figures(summary: &BenchmarkSummary) -> String {
    let counts = &summary.counts;
    let range = summary.pass_rate_interval.map_or_else(String::new, |ci| {
        format!(" ({:.1} to {:.1})", 100.0 * ci.low, 100.0 * ci.high)
    });
    let mut text = format!(
        "{}{range} passed: {} of {} results, {} cases",
        share(summary.pass_rate).bold(),
        counts.pass,
        counts.pass + counts.fail + counts.timeout,
        summary.cases
    );
    for (count, what) in [
        (counts.error, "errors"),
        (counts.skipped, "skipped"),
        (counts.pending, "waiting for a judge or a person"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    for (owner, count) in &summary.errors_by_owner {
        let owner = serde_json::to_value(owner)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned));
        let _ = write!(text, "\n{count} errors of the {}", owner.unwrap_or_default());
    }
    for entry in summary.reliability.iter().filter(|entry| entry.k > 1) {
        let _ = write!(
            text,
            "\npass@{k} {}, pass^{k} {}",
            share(Some(entry.pass_at_k)),
            share(Some(entry.pass_hat_k)),
            k = entry.k
        );
    }
    if let (Some(mean), Some(p95)) = (summary.mean_latency_ms, summary.p95_latency_ms) {
        let _ = write!(
            text,
            "\nlatency {mean:.1} ms, p95 {p95:.1} ms; {} tokens",
            summary.total_token_cost
        );
    }
    if let Some(alpha) = summary.judge_agreement {
        let _ = write!(
            text,
            "\nagreement of the judges (Krippendorff's alpha) {alpha:.3}"
        );
    }
    if !summary.flaky.is_empty() {
        let _ = write!(text, "\nflaky: {}", summary.flaky.join(", "));
    }
    text
}

/// Cases that did not always pass, each once, with what the first such result says.
fn failures(text: &mut String, run: &BenchmarkRun) {
    let mut cases: BTreeMap<(&str, Option<&str>), Failed<'_>> = BTreeMap::new();
    for result in &run.results {
        let case = cases
            .entry((&result.case_id, result.variant.as_deref()))
            .or_default();
        case.results += 1;
        case.passed += usize::from(result.status == Status::Pass);
        if case.first.is_none() && !matches!(result.status, Status::Pass | Status::Skipped) {
            case.first = Some(result);
        }
    }
    let failed: Vec<_> = cases
        .iter()
        .filter_map(|((case, variant), found)| Some((case, variant, found, found.first?)))
        .collect();
    if failed.is_empty() {
        return;
    }
    let rows = failed.iter().take(FAILURES).map(|(case, variant, found, first)| {
        let name = variant.map_or_else(|| (**case).to_owned(), |variant| format!("{case} ({variant})"));
        let status = serde_json::to_value(first.status).ok();
        let status = status
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default();
        let reason = first.error.as_ref().or_else(|| first.reasons.first());
        let reason = reason
            .and_then(|reason| reason.lines().next())
            .unwrap_or_default();
        vec![
            name,
            format!("{}/{}", found.passed, found.results),
            status,
            reason.to_owned(),
        ]
    });
    let _ = write!(
        text,
        "\n\n{}",
        table(&["case", "passed", "then", "why"], &[1], rows)
    );
    if failed.len() > FAILURES {
        let _ = write!(text, "\n… and {} more cases", failed.len() - FAILURES);
    }
}

/// A case over its repeats.
#[derive(Default)]
struct Failed<'a> {
    results: usize,
    passed: usize,
    first: Option<&'a BenchmarkResult>,
}

fn verdict(report: &GateReport) -> String {
    let word = match report.verdict {
        GateVerdict::Pass => "PASS".green().bold().to_string(),
        GateVerdict::Regression => "REGRESSION".red().bold().to_string(),
        GateVerdict::Inconclusive => "INCONCLUSIVE".yellow().bold().to_string(),
    };
    let mut text = word;
    for reason in &report.reasons {
        let _ = write!(text, "\n- {reason}");
    }
    text
}

pub(super) fn share(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".into(), |rate| format!("{:.1} %", 100.0 * rate))
}
