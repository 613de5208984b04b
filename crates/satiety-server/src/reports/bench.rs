//! Runs of benchmarks, comparisons and ablations as pages.

use std::collections::BTreeMap;

use satiety::bench::{
    AblationReport, AblationVerdict, BenchmarkResult, BenchmarkRun, BenchmarkSummary, CaseSummary, Direction,
    GateReport, GateVerdict, MetricReport, Status, VariantReport, leading, summarize,
};
use satiety::stats::wilson;

use crate::charts::{Margined, Mark, Ranged, changes, margins, shares};
use crate::html::{Html, details, list, page, paragraph, section, table, verbatim, verdict};

/// Cases that a plot shows; the ones that pass least come first.
const PLOTTED: usize = 60;
/// Results and changes that a page lists.
const LISTED: usize = 200;
/// Answers that a page shows, and how much of each.
const ANSWERS: usize = 50;
const ANSWER: usize = 4000;

/// A run, and what a gate said about it.
#[derive(Debug, Clone, Copy)]
pub struct RunPage<'a> {
    /// The run.
    pub run: &'a BenchmarkRun,
    /// The gate's report and the run it was judged by.
    pub gate: Option<(&'a GateReport, &'a BenchmarkRun)>,
}

impl<'a> RunPage<'a> {
    /// A run by itself.
    pub fn new(run: &'a BenchmarkRun) -> Self {
        Self { run, gate: None }
    }
}

/// Runs: figures, pass rates by case with intervals, and what went wrong.
pub fn bench_run(pages: &[RunPage<'_>]) -> String {
    let mut body = Vec::new();
    for one in pages {
        if let Some((report, baseline)) = one.gate {
            body.push(comparison(report, baseline, one.run));
        }
        body.push(run_section(one.run));
    }
    page("Benchmark: how good is it?", &body)
}

/// Two runs, compared.
pub fn bench_comparison(report: &GateReport, baseline: &BenchmarkRun, candidate: &BenchmarkRun) -> String {
    page(
        "Benchmark: is it worse than before?",
        &[comparison(report, baseline, candidate)],
    )
}

/// Variants beside their control, with a plot of differences, their intervals and what may be lost.
pub fn bench_ablation(report: &AblationReport, component: Option<&str>) -> String {
    page(
        "Ablation: does the change ship?",
        &ablation_parts(report, component),
    )
}

/// An ablation as parts of a page.
pub(crate) fn ablation_parts(report: &AblationReport, component: Option<&str>) -> Vec<Html> {
    let mut body = Vec::new();
    if let Some(component) = component {
        body.push(paragraph(&format!("Component: {component}.")));
    }
    body.extend(report.variants.iter().map(|found| variant(report, found)));
    body.push(paragraph(&format!(
        "A variant ships when being worse by the margin is excluded for every metric; it is harmful when a metric is \
         significantly worse after Holm over all variants and metrics, at an error rate of {}. Intervals are {:.0} %, \
         so that each side holds at {:.0} %.",
        report.alpha,
        100.0 * (1.0 - 2.0 * report.alpha),
        100.0 * (1.0 - report.alpha)
    )));
    body
}

/// A run as part of a page.
pub(crate) fn run_section(run: &BenchmarkRun) -> Html {
    let summary = summarize(leading(&run.results));
    let mut parts = vec![
        paragraph(&format!(
            "Run {} against {}, begun {}{}.",
            run.run_id,
            if run.target.is_empty() {
                "its target"
            } else {
                &run.target
            },
            run.started_at.strftime("%Y-%m-%d %H:%M UTC"),
            if run.completed_at.is_some() {
                ""
            } else {
                "; not complete"
            }
        )),
        figures(&[("value", &summary)]),
    ];
    parts.push(by_case(&summary));
    let failed: Vec<&BenchmarkResult> = run
        .results
        .iter()
        .filter(|result| result.status != Status::Pass)
        .collect();
    if !failed.is_empty() {
        // Repeats that ended alike are one line.
        let mut alike: BTreeMap<(String, &str, String), usize> = BTreeMap::new();
        for result in &failed {
            let key = (name(result), status(result.status), why(result));
            *alike.entry(key).or_default() += 1;
        }
        let rows = alike.iter().take(LISTED);
        parts.push(table(
            &["case", "status", "times", "why"],
            &[2],
            rows.map(|((case, status, why), times)| {
                vec![case.clone(), (*status).to_owned(), times.to_string(), why.clone()]
            }),
        ));
        parts.extend(more(alike.len(), LISTED));
        let answers: Vec<Html> = failed
            .iter()
            .filter_map(|result| Some((result, result.actual_output.as_deref()?)))
            .take(ANSWERS)
            .flat_map(|(result, output)| {
                [
                    paragraph(&format!(
                        "{}, repeat {}: {}",
                        name(result),
                        result.repeat,
                        why(result)
                    )),
                    verbatim(&shortened(output)),
                ]
            })
            .collect();
        if !answers.is_empty() {
            parts.push(details("What was answered", &answers));
        }
    }
    section(&run.suite_id, &parts)
}

fn by_case(summary: &BenchmarkSummary) -> Html {
    let mut cases: Vec<&CaseSummary> = summary.per_case.iter().collect();
    cases.sort_by(|a, b| {
        rate(a)
            .total_cmp(&rate(b))
            .then_with(|| a.case_id.cmp(&b.case_id))
    });
    let rows: Vec<Ranged> = cases
        .iter()
        .filter_map(|case| {
            let value = case.pass_rate?;
            let interval = wilson(case.passes, case.decided, 0.95).ok();
            Some(Ranged {
                label: case.case_id.clone(),
                value,
                interval: interval.map(|ci| (ci.low, ci.high)),
                hint: format!("{}: {} of {} passed", case.case_id, case.passes, case.decided),
            })
        })
        .take(PLOTTED)
        .collect();
    if rows.is_empty() {
        return paragraph("Nothing was decided yet.");
    }
    let left = summary.per_case.len().saturating_sub(rows.len());
    let left = if left > 0 {
        format!("; {left} cases are not shown")
    } else {
        String::new()
    };
    shares(
        &format!("Pass rate by case, lowest first, with 95 % intervals (Wilson){left}"),
        &rows,
    )
}

fn rate(case: &CaseSummary) -> f64 {
    case.pass_rate.unwrap_or(2.0)
}

/// A figure as it is shown, where there is one.
type Figure<'a> = &'a dyn Fn(&BenchmarkSummary) -> Option<String>;

/// Figures of one run, or of several side by side.
fn figures(runs: &[(&str, &BenchmarkSummary)]) -> Html {
    let ms = |value: Option<f64>| value.map(|ms| format!("{ms:.1} ms"));
    let rows: [(&str, Figure<'_>); 11] = [
        ("pass rate", &|summary| {
            let range = summary.pass_rate_interval.map_or_else(String::new, |ci| {
                format!(" ({:.1} to {:.1})", 100.0 * ci.low, 100.0 * ci.high)
            });
            summary
                .pass_rate
                .map(|rate| format!("{:.1} %{range}", 100.0 * rate))
        }),
        ("cases, results", &|summary| {
            Some(format!("{}, {}", summary.cases, summary.counts.total()))
        }),
        ("passed, failed, timed out", &|summary| {
            let counts = summary.counts;
            Some(format!("{}, {}, {}", counts.pass, counts.fail, counts.timeout))
        }),
        ("errors, skipped, waiting", &|summary| {
            let counts = summary.counts;
            Some(format!(
                "{}, {}, {}",
                counts.error, counts.skipped, counts.pending
            ))
        }),
        ("all repeats pass (pass^k)", &|summary| {
            let most = summary
                .reliability
                .iter()
                .filter(|entry| entry.k > 1)
                .max_by_key(|entry| entry.k)?;
            Some(format!("{:.1} % (k = {})", 100.0 * most.pass_hat_k, most.k))
        }),
        ("flaky cases", &|summary| {
            (!summary.flaky.is_empty()).then(|| summary.flaky.len().to_string())
        }),
        ("judge score", &|summary| {
            summary.mean_quality_score.map(|score| format!("{score:.3}"))
        }),
        ("agreement of the judges (Krippendorff's alpha)", &|summary| {
            summary.judge_agreement.map(|alpha| format!("{alpha:.3}"))
        }),
        ("latency", &|summary| ms(summary.mean_latency_ms)),
        ("latency, 95th percentile", &|summary| ms(summary.p95_latency_ms)),
        ("tokens", &|summary| {
            let cost = summary
                .total_cost_usd
                .map_or_else(String::new, |cost| format!(" (${cost:.4})"));
            Some(format!("{}{cost}", summary.total_token_cost))
        }),
    ];
    let mut header = vec!["figure"];
    header.extend(runs.iter().map(|(name, _)| *name));
    let numbers: Vec<usize> = (1..header.len()).collect();
    let rows = rows.iter().filter_map(|(name, value)| {
        let cells: Vec<Option<String>> = runs.iter().map(|(_, summary)| value(summary)).collect();
        // What no run has is no row.
        cells.iter().any(Option::is_some).then(|| {
            let mut row = vec![(*name).to_owned()];
            row.extend(cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into())));
            row
        })
    });
    table(&header, &numbers, rows)
}

/// A comparison as part of a page.
pub(crate) fn comparison(report: &GateReport, baseline: &BenchmarkRun, candidate: &BenchmarkRun) -> Html {
    let (class, word) = match report.verdict {
        GateVerdict::Pass => ("good", "Pass:"),
        GateVerdict::Regression => ("bad", "Regression:"),
        GateVerdict::Inconclusive => ("unsure", "Inconclusive:"),
    };
    let sentence = report.pass.as_ref().map_or_else(
        || "there is no case to compare".into(),
        |pass| {
            let range = pass.interval.map_or_else(String::new, |ci| {
                format!(
                    ", 90 % interval {:+.1} to {:+.1}",
                    100.0 * ci.low,
                    100.0 * ci.high
                )
            });
            format!(
                "{} cases passed {:.1} % before and {:.1} % now ({:+.1} points{range})",
                pass.cases,
                100.0 * pass.baseline,
                100.0 * pass.candidate,
                100.0 * pass.difference
            )
        },
    );
    let (before, now) = (
        summarize(leading(&baseline.results)),
        summarize(leading(&candidate.results)),
    );
    let mut parts = vec![verdict(class, word, &sentence), list(&report.reasons)];
    parts.push(figures(&[("baseline", &before), ("candidate", &now)]));
    parts.push(paragraph(&format!(
        "The baseline is run {}, the candidate run {}.",
        baseline.run_id, candidate.run_id
    )));
    let marks = differences(&before, &now);
    if !marks.is_empty() {
        parts.push(changes("Change of the pass rate by case, worst first", &marks));
    }
    if !report.changes.is_empty() {
        parts.push(table(
            &["case", "what", "p", "decides"],
            &[2],
            report.changes.iter().take(LISTED).map(|change| {
                vec![
                    change.case_id.clone(),
                    change.reason.clone(),
                    change
                        .adjusted_p_value
                        .map_or_else(|| "-".into(), |p| format!("{p:.4}")),
                    if change.decides {
                        "yes".into()
                    } else {
                        String::new()
                    },
                ]
            }),
        ));
        parts.extend(more(report.changes.len(), LISTED));
        parts.push(paragraph(
            "p is the probability of so large a change anywhere in an unchanged suite.",
        ));
    }
    section(&format!("{} beside its baseline", candidate.suite_id), &parts)
}

/// What changed, for every case that both decided.
fn differences(before: &BenchmarkSummary, now: &BenchmarkSummary) -> Vec<Mark> {
    let known: BTreeMap<&str, f64> = before
        .per_case
        .iter()
        .filter_map(|case| Some((case.case_id.as_str(), case.pass_rate?)))
        .collect();
    let mut marks: Vec<Mark> = now
        .per_case
        .iter()
        .filter_map(|case| {
            let (old, new) = (*known.get(case.case_id.as_str())?, case.pass_rate?);
            Some(Mark {
                label: case.case_id.clone(),
                value: new - old,
                hint: format!("{}: {:.0} % to {:.0} %", case.case_id, 100.0 * old, 100.0 * new),
            })
        })
        .collect();
    marks.sort_by(|a, b| a.value.total_cmp(&b.value));
    marks
}

fn variant(report: &AblationReport, found: &VariantReport) -> Html {
    let (class, word) = match found.verdict {
        AblationVerdict::Ships => ("good", "Ships:"),
        AblationVerdict::Harmful => ("bad", "Harmful:"),
        AblationVerdict::Inconclusive => ("unsure", "Inconclusive:"),
    };
    let (first, others) = match found.reasons.split_first() {
        Some((first, others)) => (first.as_str(), others),
        None => ("", &[][..]),
    };
    let mut parts = vec![verdict(class, word, first)];
    if !others.is_empty() {
        parts.push(list(others));
    }
    let rows: Vec<Margined> = found.metrics.iter().map(margined).collect();
    parts.push(margins(
        &format!(
            "Difference from {} with intervals, in units of what each metric may lose; right of the line is better",
            report.control
        ),
        &rows,
    ));
    parts.push(table(
        &[
            "metric",
            "control",
            "variant",
            "difference",
            "interval",
            "p (Holm)",
            "may lose",
            "cases",
        ],
        &[1, 2, 3, 5, 6, 7],
        found.metrics.iter().map(|metric| {
            let with_spread = |mean: f64, sd: Option<f64>| {
                let sd = sd.map_or_else(String::new, |sd| format!(" ± {}", digits(sd, mean)));
                format!("{}{sd}", plain(mean))
            };
            let control = report.control_metrics.get(&metric.metric);
            vec![
                metric.metric.clone(),
                control.map_or_else(
                    || "-".into(),
                    |control| with_spread(control.mean, control.standard_deviation),
                ),
                with_spread(metric.summary.mean, metric.summary.standard_deviation),
                signed(metric.difference),
                metric.interval.map_or_else(
                    || "-".into(),
                    |ci| format!("{} to {}", signed(ci.low), signed(ci.high)),
                ),
                format!("{:.4}", metric.p_holm),
                plain(metric.margin),
                metric.cases.to_string(),
            ]
        }),
    ));
    section(&format!("{} beside {}", found.variant, report.control), &parts)
}

/// Turned so that right is better.
fn margined(metric: &MetricReport) -> Margined {
    let sign = match metric.direction {
        Direction::Higher => 1.0,
        Direction::Lower => -1.0,
    };
    let interval = metric.interval.map(|ci| {
        let (a, b) = (sign * ci.low, sign * ci.high);
        (a.min(b), a.max(b))
    });
    Margined {
        difference: Ranged {
            label: metric.metric.clone(),
            value: sign * metric.difference,
            interval,
            hint: format!(
                "{}: {} on {} cases; it may lose {}",
                metric.metric,
                signed(metric.difference),
                metric.cases,
                plain(metric.margin)
            ),
        },
        margin: metric.margin,
        shown: signed(metric.difference),
    }
}

/// Four digits for shares, fewer for milliseconds and tokens.
fn plain(value: f64) -> String {
    digits(value, value)
}

/// A value with as many digits as another is shown with.
fn digits(value: f64, like: f64) -> String {
    match like.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", plain(value.abs()))
}

fn name(result: &BenchmarkResult) -> String {
    match &result.variant {
        Some(variant) => format!("{} ({variant})", result.case_id),
        None => result.case_id.clone(),
    }
}

fn why(result: &BenchmarkResult) -> String {
    result.error.clone().unwrap_or_else(|| result.reasons.join("; "))
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Fail => "fail",
        Status::Error => "error",
        Status::Timeout => "timeout",
        Status::Skipped => "skipped",
        Status::Pending => "waiting",
    }
}

fn more(count: usize, listed: usize) -> Option<Html> {
    (count > listed).then(|| paragraph(&format!("… and {} more.", count - listed)))
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= ANSWER {
        return text.into();
    }
    let kept: String = text.chars().take(ANSWER).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use satiety::bench::{AblationSettings, GatePolicy, ablation, compare};

    fn results(right: impl Fn(u32, u32) -> bool) -> Vec<BenchmarkResult> {
        let one = |case: u32, repeat: u32| {
            let status = if right(case, repeat) {
                Status::Pass
            } else {
                Status::Fail
            };
            let mut result = BenchmarkResult::new(format!("<case {case}>"), repeat, status);
            result.latency_ms = 10.0;
            result.actual_output = Some("<script>alert(1)</script>".into());
            result
        };
        (0..70)
            .flat_map(|case| (0..3).map(move |repeat| (case, repeat)))
            .map(|(case, repeat)| one(case, repeat))
            .collect()
    }

    fn run(results: Vec<BenchmarkResult>) -> BenchmarkRun {
        BenchmarkRun {
            run_id: "<run>".into(),
            suite_id: "<suite>".into(),
            suite_hash: None,
            target: "<target>".into(),
            started_at: "2026-08-01T10:00:00Z".parse().unwrap(),
            completed_at: None,
            config_snapshot: BTreeMap::new(),
            results,
            summary: None,
        }
    }

    #[test]
    fn pages_show_the_worst_first_and_nothing_from_outside_acts() {
        let (good, bad) = (
            run(results(|_, _| true)),
            run(results(|case, repeat| case > 3 || repeat == case)),
        );
        let report = compare(&good, &bad, &GatePolicy::default()).unwrap();
        let text = bench_run(&[RunPage {
            run: &bad,
            gate: Some((&report, &good)),
        }]);
        assert!(text.contains("10 cases are not shown"), "{text}");
        let place = |case: &str| text.find(&format!("&lt;case {case}&gt;: ")).unwrap();
        assert!(place("3") < place("0"), "case 3 never passes, case 0 once");
        for page in [
            text.clone(),
            bench_comparison(&report, &good, &bad),
            bench_ablation(
                &ablation(
                    ("<control>", &good.results),
                    &[("<variant>", &bad.results)],
                    &AblationSettings::default(),
                )
                .unwrap(),
                Some("<component>"),
            ),
        ] {
            for sign in [
                "<script",
                "<case",
                "<run>",
                "<suite>",
                "<target>",
                "<control>",
                "<variant>",
                "<component>",
                "NaN",
            ] {
                assert!(!page.contains(sign), "{sign}");
            }
        }
    }

    #[test]
    fn right_is_better_whichever_way_a_metric_counts() {
        let mut slow = results(|_, _| true);
        for result in &mut slow {
            result.latency_ms = 14.0 + f64::from(result.repeat);
        }
        let fast = results(|_, _| true);
        let report = ablation(("c", &fast), &[("v", &slow)], &AblationSettings::default()).unwrap();
        let metric = report.variants[0]
            .metrics
            .iter()
            .find(|metric| metric.metric == "latency_ms")
            .unwrap();
        let row = margined(metric);
        assert!(metric.difference > 0.0 && row.difference.value < 0.0);
        assert!(
            row.difference
                .interval
                .is_none_or(|(low, high)| low <= high && high < 0.0)
        );
        assert_eq!(row.shown, "+5.0000");
        assert_eq!(
            (digits(0.0, 130.0), plain(12.0), plain(0.05)),
            ("0".into(), "12.00".into(), "0.0500".into())
        );
    }
}
