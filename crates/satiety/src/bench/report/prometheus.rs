//! Prometheus text exposition of the latest run of each suite and target.

use std::fmt::Write;

use crate::bench::gate::{GateReport, GateVerdict};
use crate::bench::run::BenchmarkRun;
use crate::bench::summary::{BenchmarkSummary, leading, summarize};

type Metric = (&'static str, &'static str, fn(&BenchmarkSummary) -> Option<f64>);

const METRICS: [Metric; 8] = [
    (
        "pass_rate",
        "Passed results divided by decided results.",
        |summary| summary.pass_rate,
    ),
    ("cases", "Cases with at least one result.", |summary| {
        Some(summary.cases as f64)
    }),
    ("flaky_cases", "Cases whose repeats disagree.", |summary| {
        Some(summary.flaky.len() as f64)
    }),
    (
        "latency_mean_ms",
        "Mean latency of answered results in milliseconds.",
        |summary| summary.mean_latency_ms,
    ),
    (
        "latency_p95_ms",
        "95th percentile of the latency in milliseconds.",
        |summary| summary.p95_latency_ms,
    ),
    ("tokens", "Tokens used by the run.", |summary| {
        Some(summary.total_token_cost as f64)
    }),
    ("cost_usd", "Cost of the run in US dollars.", |summary| {
        summary.total_cost_usd
    }),
    ("judge_score", "Mean judge score between 0 and 1.", |summary| {
        summary.mean_quality_score
    }),
];

/// Formats runs with their optional gate reports. Each pair of suite and target should occur once.
pub fn prometheus_text(runs: &[(&BenchmarkRun, Option<&GateReport>)]) -> String {
    let summaries: Vec<BenchmarkSummary> = runs
        .iter()
        .map(|(run, _)| summarize(leading(&run.results)))
        .collect();
    let mut out = String::new();
    // Writing to a string cannot fail.
    for (name, help, value) in METRICS {
        let _ = writeln!(
            out,
            "# HELP satiety_benchmark_{name} {help}\n# TYPE satiety_benchmark_{name} gauge"
        );
        for ((run, _), summary) in runs.iter().zip(&summaries) {
            // A value that could not be computed is omitted rather than reported as zero.
            if let Some(value) = value(summary) {
                let _ = writeln!(out, "satiety_benchmark_{name}{{{}}} {value}", labels(run));
            }
        }
    }
    out.push_str(
        "# HELP satiety_benchmark_results Results by status.\n# TYPE satiety_benchmark_results gauge\n",
    );
    for ((run, _), summary) in runs.iter().zip(&summaries) {
        let counts = &summary.counts;
        for (status, count) in [
            ("pass", counts.pass),
            ("fail", counts.fail),
            ("error", counts.error),
            ("timeout", counts.timeout),
            ("skipped", counts.skipped),
            ("pending", counts.pending),
        ] {
            let _ = writeln!(
                out,
                "satiety_benchmark_results{{{},status=\"{status}\"}} {count}",
                labels(run)
            );
        }
    }
    out.push_str(
        "# HELP satiety_benchmark_gate 1 for the latest gate verdict, 0 for the others.\n# TYPE satiety_benchmark_gate gauge\n",
    );
    for (run, report) in runs.iter().filter_map(|(run, report)| Some((run, (*report)?))) {
        for (name, verdict) in [
            ("pass", GateVerdict::Pass),
            ("regression", GateVerdict::Regression),
            ("inconclusive", GateVerdict::Inconclusive),
        ] {
            let _ = writeln!(
                out,
                "satiety_benchmark_gate{{{},verdict=\"{name}\"}} {}",
                labels(run),
                u8::from(report.verdict == verdict)
            );
        }
    }
    out
}

fn labels(run: &BenchmarkRun) -> String {
    format!(
        "suite=\"{}\",target=\"{}\"",
        escape(&run.suite_id),
        escape(&run.target)
    )
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::run::{BenchmarkResult, Status};

    #[test]
    fn metrics_have_labels_and_missing_values_are_omitted() {
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "plan\"ner".into(),
            suite_hash: None,
            target: "agent".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: std::collections::BTreeMap::new(),
            results: vec![
                BenchmarkResult::new("a", 0, Status::Pass),
                BenchmarkResult::new("b", 0, Status::Fail),
                BenchmarkResult::new("c", 0, Status::Skipped),
            ],
            summary: None,
        };
        let text = prometheus_text(&[(&run, None)]);
        assert!(
            text.contains("satiety_benchmark_pass_rate{suite=\"plan\\\"ner\",target=\"agent\"} 0.5\n"),
            "{text}"
        );
        assert!(text.contains("status=\"skipped\"} 1\n"), "{text}");
        assert!(!text.contains("satiety_benchmark_cost_usd{"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
