//! Markdown for people: a verdict first, then what changed, then the figures.

use std::fmt::Write;

use crate::bench::gate::{GateReport, GateVerdict};
use crate::bench::markdown::cell;
use crate::bench::run::{BenchmarkRun, Status};
use crate::bench::sandbox::sandbox_note;
use crate::bench::summary::{BenchmarkSummary, leading, summarize};

/// How many changed cases are listed before the rest is only counted.
const MOST_ROWS: usize = 50;

/// A verdict for a pull request.
pub fn gate_markdown(report: &GateReport, baseline: &BenchmarkRun, candidate: &BenchmarkRun) -> String {
    let mut out = String::new();
    let verdict = match report.verdict {
        GateVerdict::Pass => "✅ Pass",
        GateVerdict::Regression => "❌ Regression",
        GateVerdict::Inconclusive => "❔ Inconclusive",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "## {verdict}: {}\n", cell(&candidate.suite_id));
    for reason in &report.reasons {
        let _ = writeln!(out, "- {}", cell(reason));
    }
    if let Some(note) = sandbox_note(candidate) {
        let _ = writeln!(out, "- {}", cell(&note));
    }
    let (before, now) = (
        summarize(leading(&baseline.results)),
        summarize(leading(&candidate.results)),
    );
    let _ = writeln!(
        out,
        "\n| | baseline `{}` | candidate `{}` |\n|---|---|---|",
        cell(&baseline.run_id),
        cell(&candidate.run_id)
    );
    for (name, value) in figures() {
        let _ = writeln!(out, "| {name} | {} | {} |", value(&before), value(&now));
    }
    if !report.changes.is_empty() {
        out.push_str("\n| | case | what | p |\n|---|---|---|---|\n");
        for change in report.changes.iter().take(MOST_ROWS) {
            let p = change
                .adjusted_p_value
                .map_or("–".to_owned(), |p| format!("{p:.4}"));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {p} |",
                if change.decides { "❌" } else { "" },
                cell(&change.case_id),
                cell(&change.reason)
            );
        }
        if let Some(more) = report
            .changes
            .len()
            .checked_sub(MOST_ROWS)
            .filter(|more| *more > 0)
        {
            let _ = writeln!(out, "\n… and {more} more.");
        }
        out.push_str("\n❌ decides by itself; p is the probability of so large a change anywhere in an unchanged suite.\n");
    }
    out
}

/// A run by itself.
pub fn run_markdown(run: &BenchmarkRun) -> String {
    let summary = summarize(leading(&run.results));
    let mut out = String::new();
    let _ = writeln!(
        out,
        "## {}: `{}`\n\n| figure | value |\n|---|---|",
        cell(&run.suite_id),
        cell(&run.run_id)
    );
    for (name, value) in figures() {
        let _ = writeln!(out, "| {name} | {} |", value(&summary));
    }
    if let Some(note) = sandbox_note(run) {
        let _ = writeln!(out, "| isolation | {} |", cell(&note));
    }
    if let Some(alpha) = summary.judge_agreement {
        let _ = writeln!(
            out,
            "| agreement of the judges (Krippendorff's alpha) | {alpha:.3} |"
        );
    }
    for entry in summary.reliability.iter().filter(|entry| entry.k > 1) {
        let _ = writeln!(
            out,
            "| pass@{k}, pass^{k} | {:.3}, {:.3} |",
            entry.pass_at_k,
            entry.pass_hat_k,
            k = entry.k
        );
    }
    let failing: Vec<_> = run
        .results
        .iter()
        .filter(|result| !matches!(result.status, Status::Pass))
        .collect();
    if !failing.is_empty() {
        out.push_str("\n| case | repeat | status | why |\n|---|---|---|---|\n");
        for result in failing.iter().take(MOST_ROWS) {
            let why = result.error.clone().unwrap_or_else(|| result.reasons.join("; "));
            let status = format!("{:?}", result.status).to_lowercase();
            let _ = writeln!(
                out,
                "| {} | {} | {status} | {} |",
                cell(&result.case_id),
                result.repeat,
                cell(&why)
            );
        }
        if let Some(more) = failing.len().checked_sub(MOST_ROWS).filter(|more| *more > 0) {
            let _ = writeln!(out, "\n… and {more} more.");
        }
    }
    out
}

type Shown = fn(&BenchmarkSummary) -> String;

fn figures() -> [(&'static str, Shown); 8] {
    fn or_dash(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
        value.map_or("–".to_owned(), shown)
    }
    [
        ("pass rate", |summary| {
            let range = summary.pass_rate_interval.map_or(String::new(), |interval| {
                format!(" ({:.1} to {:.1})", 100.0 * interval.low, 100.0 * interval.high)
            });
            or_dash(summary.pass_rate, |rate| format!("{:.1} %{range}", 100.0 * rate))
        }),
        ("cases, results", |summary| {
            format!("{}, {}", summary.cases, summary.counts.total())
        }),
        ("failed, timed out, errors", |summary| {
            format!(
                "{}, {}, {}",
                summary.counts.fail, summary.counts.timeout, summary.counts.error
            )
        }),
        ("skipped, pending", |summary| {
            format!("{}, {}", summary.counts.skipped, summary.counts.pending)
        }),
        ("judge score", |summary| {
            or_dash(summary.mean_quality_score, |score| format!("{score:.3}"))
        }),
        ("latency mean, p95", |summary| {
            let ms = |value| or_dash(value, |value| format!("{value:.0} ms"));
            format!("{}, {}", ms(summary.mean_latency_ms), ms(summary.p95_latency_ms))
        }),
        ("tokens", |summary| summary.total_token_cost.to_string()),
        ("cost", |summary| {
            or_dash(summary.total_cost_usd, |cost| format!("${cost:.4}"))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::gate::{GatePolicy, compare};
    use crate::bench::run::BenchmarkResult;

    fn run(status: Status) -> BenchmarkRun {
        let mut result = BenchmarkResult::new("a|b", 0, status);
        result.reasons.push("<script> is not `x`".into());
        result.deterministic = true;
        BenchmarkRun {
            run_id: "run-1".into(),
            suite_id: "planner".into(),
            suite_hash: None,
            target: "agent".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: std::collections::BTreeMap::new(),
            results: vec![result],
            summary: None,
        }
    }

    #[test]
    fn a_regression_reads_from_the_top() {
        let (before, now) = (run(Status::Pass), run(Status::Fail));
        let report = compare(&before, &now, &GatePolicy::default()).unwrap();
        let text = gate_markdown(&report, &before, &now);
        assert!(
            text.starts_with("## ❌ Regression: planner\n\n- a\\|b is declared deterministic"),
            "{text}"
        );
        assert!(
            text.contains("| pass rate | 100.0 % (20.7 to 100.0) | 0.0 % (0.0 to 79.3) |"),
            "{text}"
        );
        assert!(text.contains("| ❌ | a\\|b |"), "{text}");
        let alone = run_markdown(&now);
        assert!(
            alone.contains("| a\\|b | 0 | fail | &lt;script&gt; is not `x` |"),
            "{alone}"
        );
    }
}
