//! An ablation as Markdown: a table a person reads, and under it why each variant ships or not.

use std::fmt::Write;

use super::ablation::{AblationReport, AblationVerdict, MetricReport, MetricSummary};
use super::markdown::cell;

/// The study as Markdown.
pub fn ablation_markdown(report: &AblationReport) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "| variant | metric | control | variant | difference | interval | p (Holm) | margin | non-inferior |"
    );
    out.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for variant in &report.variants {
        for metric in &variant.metrics {
            let control = report
                .control_metrics
                .get(&metric.metric)
                .map_or("–".to_owned(), shown);
            let interval = metric.interval.map_or("–".to_owned(), |interval| {
                format!("{} to {}", figure(interval.low), figure(interval.high))
            });
            let _ = writeln!(
                out,
                "| {} | {} | {control} | {} | {}{} | {interval} | {:.4} | {} | {} |",
                cell(&variant.variant),
                cell(&metric.metric),
                shown(&metric.summary),
                if metric.difference > 0.0 { "+" } else { "" },
                figure(metric.difference),
                metric.p_holm,
                figure(metric.margin),
                if metric.non_inferior { "yes" } else { "no" },
            );
        }
    }
    out.push('\n');
    for variant in &report.variants {
        let verdict = match variant.verdict {
            AblationVerdict::Ships => "ships",
            AblationVerdict::Harmful => "harmful",
            AblationVerdict::Inconclusive => "inconclusive",
        };
        let _ = writeln!(
            out,
            "- **{}: {verdict}.** {}",
            cell(&variant.variant),
            cell(&variant.reasons.join("; "))
        );
    }
    if let Some(metric) = report.variants.iter().flat_map(|variant| &variant.metrics).next() {
        let _ = writeln!(out, "\n{}", floor(metric, report.alpha));
    }
    out
}

fn floor(metric: &MetricReport, alpha: f64) -> String {
    let verdict = if metric.smallest_p > alpha {
        "so no difference can be significant"
    } else {
        "which is low enough"
    };
    format!(
        "Paired by case, repeats averaged; sign-flip test, Holm over variants and metrics at {alpha}. {} cases can reach \
         p = {:.2e} at best, {verdict}.",
        metric.cases, metric.smallest_p
    )
}

fn shown(summary: &MetricSummary) -> String {
    match summary.standard_deviation {
        Some(deviation) => format!("{} ± {}", figure(summary.mean), figure(deviation)),
        None => figure(summary.mean),
    }
}

/// Four significant places for small figures, whole numbers for large ones.
fn figure(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::ablation::{AblationSettings, Margin, ablation};
    use crate::bench::run::{BenchmarkResult, Status};
    use AblationVerdict::{Harmful, Inconclusive, Ships};
    use std::collections::BTreeMap;

    /// `passes` of each case among `repeats`, and a latency.
    fn results(passes: &[u32], repeats: u32, latency: f64) -> Vec<BenchmarkResult> {
        passes
            .iter()
            .enumerate()
            .flat_map(|(case, &passes)| (0..repeats).map(move |repeat| (case, passes, repeat)))
            .map(|(case, passes, repeat)| {
                let status = if repeat < passes {
                    Status::Pass
                } else {
                    Status::Fail
                };
                let mut result = BenchmarkResult::new(format!("c{case}"), repeat, status);
                result.latency_ms = latency + f64::from(repeat) + case as f64;
                result
            })
            .collect()
    }

    fn settings() -> AblationSettings {
        AblationSettings {
            metrics: BTreeMap::from([
                ("pass".to_owned(), Margin::Absolute(0.05)),
                ("latency_ms".to_owned(), Margin::Relative(0.2)),
            ]),
            ..AblationSettings::default()
        }
    }

    #[test]
    fn the_three_verdicts_and_their_table() {
        let control = results(&[5; 12], 5, 400.0);
        let same = results(&[5; 12], 5, 404.0);
        let worse = results(&[2; 12], 5, 404.0);
        let slower = results(&[5; 12], 5, 800.0);
        let mut mixed = [5; 12];
        mixed[0] = 3;
        let unclear = results(&mixed, 5, 404.0);
        let variants: Vec<(&str, &[BenchmarkResult])> = vec![
            ("same", &same),
            ("worse", &worse),
            ("slower", &slower),
            ("unclear", &unclear),
        ];
        let report = ablation(("control", &control), &variants, &settings()).unwrap();
        let verdicts: Vec<AblationVerdict> = report.variants.iter().map(|variant| variant.verdict).collect();
        assert_eq!(verdicts, [Ships, Harmful, Harmful, Inconclusive], "{report:#?}");
        assert!(
            report.variants[3].reasons[0].contains("cases would show it"),
            "{:?}",
            report.variants[3].reasons
        );
        // All twelve differ: 2 / 2^12, times eight comparisons.
        let pass = report.variants[1]
            .metrics
            .iter()
            .find(|metric| metric.metric == "pass")
            .unwrap();
        assert!((pass.p_value - 2.0 / 4096.0).abs() < 1e-12);
        assert!((pass.p_holm - 8.0 * 2.0 / 4096.0).abs() < 1e-12);

        let table = ablation_markdown(&report);
        assert!(
            table.contains("| worse | pass | 1.000 ± 0.000 | 0.400 ± 0.548 | -0.600 |"),
            "{table}"
        );
        assert!(
            table.contains("- **same: ships.** non-inferior in every metric"),
            "{table}"
        );
        assert!(
            table.contains("12 cases can reach p = 4.88e-4 at best, which is low enough"),
            "{table}"
        );
    }

    #[test]
    fn few_cases_never_ship_and_say_so() {
        let control = results(&[5; 3], 5, 400.0);
        let report = ablation(("control", &control), &[("same", &control)], &settings()).unwrap();
        assert_eq!(report.variants[0].verdict, AblationVerdict::Inconclusive);
        assert!(
            report.variants[0].reasons[0].contains("at least 5 cases are needed"),
            "{report:?}"
        );
        let nothing = ablation(("control", &control), &[("none", &[])], &settings()).unwrap();
        assert_eq!(nothing.variants[0].verdict, AblationVerdict::Inconclusive);
    }
}
