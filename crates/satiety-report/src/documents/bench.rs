//! Reports of benchmark runs, comparisons and ablations.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use satiety::bench::{
    AblationReport, AblationVerdict, BenchmarkResult, BenchmarkRun, BenchmarkSummary, CaseSummary, Direction,
    ErrorOwner, GateReport, GateVerdict, MetricReport, PassComparison, Status, VariantReport, sandbox_note,
    summarize, summarize_run, summarize_system, systems,
};
use satiety::stats::wilson;

use crate::charts::{IntervalMark, MarginMark, Mark};
use crate::document::{
    Block, Chart, Document, Medium, Table, Text, Tone, badge, count, or_dash, percent, strong,
};
use crate::row;

/// Maximum number of cases in a plot; those with the lowest pass rates come first.
const MAX_PLOTTED: usize = 60;
/// Maximum number of cases and changes listed on a terminal.
const LISTED: usize = 10;
/// Maximum number of answers on a page, and of characters per answer.
const ANSWERS: usize = 50;
const LETTERS: usize = 4000;

/// A run with its gate report, if any.
#[derive(Debug, Clone)]
pub struct RunReport<'a> {
    pub run: &'a BenchmarkRun,
    pub gate: Option<&'a GateReport>,
    /// Baseline that the gate compared with.
    pub baseline: Option<&'a BenchmarkRun>,
    /// Additional blocks after the standard ones.
    pub more: Vec<Block>,
}

impl<'a> RunReport<'a> {
    /// Report of a run without a gate.
    pub fn new(run: &'a BenchmarkRun) -> Self {
        Self {
            run,
            gate: None,
            baseline: None,
            more: Vec::new(),
        }
    }
}

/// Reports runs, one section each.
pub fn runs(reports: Vec<RunReport<'_>>) -> Document {
    let data = result_data(reports.iter().map(|report| report.run));
    let sections = reports.into_iter().map(run_section).collect();
    let mut document = Document::new("Benchmark results", sections);
    document.data = Some(data);
    document
}

/// Compares two runs of a suite case by case.
pub fn comparison(report: &GateReport, baseline: &BenchmarkRun, candidate: &BenchmarkRun) -> Document {
    let (before, now) = (summary(baseline), summary(candidate));
    let title = strong(&*candidate.suite_id).then(format!(
        ": {} compared with {}",
        candidate.run_id, baseline.run_id
    ));
    let mut parts = vec![gate_verdict(report)];
    parts.extend(variant_verdicts(report));
    parts.extend(sandbox_note(candidate).map(Block::note));
    parts.extend(comparison_blocks(report, &before, &now));
    let mut document = Document::new("Benchmark comparison", vec![Block::Section(title, parts)]);
    document.data = Some(case_data(report, &before, &now));
    document
}

fn summary(run: &BenchmarkRun) -> BenchmarkSummary {
    summarize_run(&run.results, &run.config_snapshot)
}

fn run_section(report: RunReport<'_>) -> Block {
    let RunReport {
        run,
        gate,
        baseline,
        more,
    } = report;
    let found = summary(run);
    let title = strong(&*run.suite_id).then(format!(" {} ({})", run.run_id, run.target));
    let mut parts: Vec<Block> = gate.map(gate_verdict).into_iter().collect();
    parts.extend(gate.and_then(variant_verdicts));
    parts.extend(sandbox_note(run).map(Block::note));
    parts.extend(variant_table(run));
    let systems = systems(run);
    let systems_count = systems.len();
    if systems_count > 1 {
        for (name, results) in systems {
            let found = summarize_system(results, &run.config_snapshot);
            let mut blocks = headline_blocks(&found);
            blocks.extend(score_blocks(&found));
            parts.push(Block::Section(name.as_str().into(), blocks));
        }
    } else {
        parts.extend(headline_blocks(&found));
    }
    parts.push(Block::Only(
        Medium::Page,
        vec![Block::text(format!(
            "Started {}{}.",
            run.started_at.strftime("%Y-%m-%d %H:%M UTC"),
            if run.completed_at.is_some() {
                ""
            } else {
                "; incomplete"
            }
        ))],
    ));
    if systems_count == 1 {
        parts.extend(score_blocks(&found));
    }
    parts.extend(failures(run));
    if !found.flaky.is_empty() {
        let note =
            Block::text("These cases passed and failed without a change. The gate takes this into account.");
        let cases = Block::List(found.flaky.iter().map(|case| Text::from(case.as_str())).collect());
        let flaky = Block::Section("Flaky cases".into(), vec![note, cases]);
        parts.push(Block::Only(Medium::Page, vec![flaky]));
    }
    if let (Some(report), Some(baseline)) = (gate, baseline) {
        let compared = comparison_blocks(report, &summary(baseline), &found);
        parts.push(Block::Only(Medium::Page, compared));
    }
    parts.extend(more);
    Block::Section(title, parts)
}

/// Pass rate, errors and metrics of one target.
fn headline_blocks(found: &BenchmarkSummary) -> Vec<Block> {
    let mut parts = vec![headline(found)];
    for (owner, errors) in &found.errors_by_owner {
        parts.push(Block::text(format!(
            "{} caused by the {}",
            count(*errors, "error", "errors"),
            owner_name(*owner)
        )));
    }
    let fields = METRICS.iter().skip(HEADLINE).filter_map(|(name, value)| {
        let value = value(found)?;
        Some(((*name).to_owned(), Text::from(value)))
    });
    parts.push(Block::Fields(fields.collect()));
    parts
}

/// Scores by name, derived metrics and cases of one target.
fn score_blocks(found: &BenchmarkSummary) -> Vec<Block> {
    let blocks = [named_scores(found), derived_metrics(found), by_case(found)];
    blocks.into_iter().flatten().collect()
}

/// Summary of each variant; `None` if there is one.
fn variant_table(run: &BenchmarkRun) -> Option<Block> {
    let mut groups: BTreeMap<&str, Vec<&BenchmarkResult>> = BTreeMap::new();
    for result in &run.results {
        let name = result.variant.as_deref().unwrap_or_default();
        groups.entry(name).or_default().push(result);
    }
    if groups.len() < 2 {
        return None;
    }
    let rows = groups.into_iter().map(|(name, results)| {
        let summary = summarize(results);
        let latency = summary.mean_latency_ms.map(|ms| format!("{ms:.0} ms"));
        row![
            name,
            percent(summary.pass_rate),
            latency.unwrap_or_else(|| "-".into()),
            summary.total_token_cost,
        ]
    });
    let header = ["variant", "passed", "latency", "tokens"];
    Some(Block::Table(Table::new(&header, &[1, 2, 3], rows)))
}

/// Verdict of the gate about each variant; `None` if the run has one.
fn variant_verdicts(report: &GateReport) -> Option<Block> {
    let rows = report.variants.iter().map(|variant| {
        let (tone, word) = verdict_word(variant.verdict);
        let rate = |rate: fn(&PassComparison) -> f64| {
            or_dash(variant.pass.as_ref().map(rate), |rate| percent(Some(rate)))
        };
        row![
            variant.variant.as_str(),
            badge(tone, word),
            rate(|pass| pass.baseline),
            rate(|pass| pass.candidate),
            or_dash(
                variant.pass.as_ref().map(|pass| pass.difference),
                |change| format!("{:+.1} points", 100.0 * change)
            ),
        ]
    });
    let header = ["variant", "verdict", "baseline", "candidate", "change"];
    let table = Table::new(&header, &[2, 3, 4], rows);
    (!report.variants.is_empty()).then_some(Block::Table(table))
}

/// Metrics that the suite derives from its scores.
fn derived_metrics(summary: &BenchmarkSummary) -> Option<Block> {
    let rows = summary.derived.iter().map(|metric| {
        let name = match metric.prompt {
            Some(prompt) => format!("{} (prompt {prompt})", metric.name),
            None => metric.name.clone(),
        };
        let value = match (metric.value, &metric.problem) {
            (Some(value), _) => format!("{value:.4}"),
            (None, problem) => format!("not computed: {}", problem.as_deref().unwrap_or("no value")),
        };
        row![name, value]
    });
    let table = Table::new(&["derived metric", "value"], &[1], rows);
    (!summary.derived.is_empty()).then_some(Block::Table(table))
}

/// Scorers and criteria by name; `None` when a single score says the same as the pass rate.
fn named_scores(summary: &BenchmarkSummary) -> Option<Block> {
    let number = |value: f64| format!("{value:.3}");
    let rows = summary.scores.iter().map(|score| {
        row![
            score.name.as_str(),
            or_dash(score.mean, number),
            format!("{} to {}", or_dash(score.min, number), or_dash(score.max, number)),
            or_dash(score.pass_rate, |rate| percent(Some(rate))),
            if score.decides { "yes" } else { "" }
        ]
    });
    let header = ["score", "mean", "values", "passed", "decides"];
    let table = Table::new(&header, &[1, 3], rows).limit(2 * LISTED);
    (summary.scores.len() > 1).then_some(Block::Table(table))
}

/// Means of scorers and criteria in both runs by name; `None` when a single score says the same as the pass rate.
fn named_changes(before: &BenchmarkSummary, now: &BenchmarkSummary) -> Option<Block> {
    let mut names: Vec<&str> = Vec::new();
    for score in now.scores.iter().chain(&before.scores) {
        if !names.contains(&score.name.as_str()) {
            names.push(&score.name);
        }
    }
    let number = |value: f64| format!("{value:.3}");
    let rows = names.iter().map(|name| {
        let [old, new] = [before, now].map(|run| run.scores.iter().find(|score| score.name == **name));
        let [old_mean, new_mean] = [old, new].map(|score| score.and_then(|score| score.mean));
        let change = old_mean.zip(new_mean).map(|(old, new)| new - old);
        let decides = [old, new].into_iter().flatten().any(|score| score.decides);
        row![
            *name,
            or_dash(old_mean, number),
            or_dash(new_mean, number),
            or_dash(change, |change| format!("{change:+.3}")),
            if decides { "yes" } else { "" }
        ]
    });
    let header = ["score", "baseline", "candidate", "change", "decides"];
    let table = Table::new(&header, &[1, 2, 3], rows).limit(2 * LISTED);
    (names.len() > 1).then_some(Block::Table(table))
}

fn headline(summary: &BenchmarkSummary) -> Block {
    let counts = &summary.counts;
    let mut text = format!(
        "{} passed: {} of {} results, {}",
        interval(summary),
        counts.pass,
        counts.pass + counts.fail + counts.timeout,
        count(summary.cases, "case", "cases")
    );
    for (number, what) in [
        (counts.error, "errors"),
        (counts.skipped, "skipped"),
        (counts.pending, "waiting for a judge or a human label"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {number} {what}");
        }
    }
    let share = percent(summary.pass_rate);
    let rest = text.split_off(share.len());
    Block::Text(strong(share).then(rest))
}

/// Pass rate with its confidence interval.
fn interval(summary: &BenchmarkSummary) -> String {
    let range = summary.pass_rate_interval.map_or_else(String::new, |ci| {
        format!(" ({:.1} to {:.1})", 100.0 * ci.low, 100.0 * ci.high)
    });
    format!("{}{range}", percent(summary.pass_rate))
}

/// Formats a metric of a run; `None` when the run does not have it.
type Metric = fn(&BenchmarkSummary) -> Option<String>;

/// Number of leading metrics that the headline already contains.
const HEADLINE: usize = 4;

const METRICS: [(&str, Metric); 11] = [
    ("pass rate", |summary| Some(interval(summary))),
    ("cases, results", |summary| {
        Some(format!("{}, {}", summary.cases, summary.counts.total()))
    }),
    ("failed, timed out, errors", |summary| {
        let counts = summary.counts;
        Some(format!("{}, {}, {}", counts.fail, counts.timeout, counts.error))
    }),
    ("skipped, pending", |summary| {
        Some(format!("{}, {}", summary.counts.skipped, summary.counts.pending))
    }),
    ("pass@k, pass^k", |summary| {
        let most = summary
            .reliability
            .iter()
            .filter(|entry| entry.k > 1)
            .max_by_key(|entry| entry.k)?;
        Some(format!(
            "{}, {} (k = {})",
            percent(Some(most.pass_at_k)),
            percent(Some(most.pass_hat_k)),
            most.k
        ))
    }),
    ("flaky", |summary| {
        (!summary.flaky.is_empty()).then(|| summary.flaky.join(", "))
    }),
    ("judge score", |summary| {
        summary.mean_quality_score.map(|score| format!("{score:.3}"))
    }),
    ("judge agreement (Krippendorff's alpha)", |summary| {
        summary.judge_agreement.map(|alpha| format!("{alpha:.3}"))
    }),
    ("latency, p95", |summary| {
        Some(format!(
            "{:.1} ms, {:.1} ms",
            summary.mean_latency_ms?, summary.p95_latency_ms?
        ))
    }),
    ("tokens", |summary| Some(summary.total_token_cost.to_string())),
    ("cost", |summary| {
        summary.total_cost_usd.map(|cost| format!("${cost:.4}"))
    }),
];

fn by_case(summary: &BenchmarkSummary) -> Option<Block> {
    let mut cases: Vec<(&CaseSummary, f64)> = summary
        .per_case
        .iter()
        .filter_map(|case| Some((case, case.pass_rate?)))
        .collect();
    cases.sort_by(|(a, rate), (b, other)| rate.total_cmp(other).then_with(|| a.case_id.cmp(&b.case_id)));
    let rows: Vec<IntervalMark> = cases
        .iter()
        .take(MAX_PLOTTED)
        .map(|(case, value)| IntervalMark {
            label: case.case_id.clone(),
            value: *value,
            interval: wilson(case.passes, case.decided, 0.95)
                .ok()
                .map(|ci| (ci.low, ci.high)),
            hint: format!("{}: {} of {} passed", case.case_id, case.passes, case.decided),
        })
        .collect();
    let left = match summary.per_case.len() - rows.len() {
        0 => String::new(),
        left => format!("; {left} cases not shown"),
    };
    let title = format!("Pass rate by case, lowest first, with 95 % intervals (Wilson){left}");
    (!rows.is_empty()).then_some(Block::Chart(Chart::Shares(title, rows)))
}

/// Cases that did not always pass, each with its first failure, and the answers given.
fn failures(run: &BenchmarkRun) -> Vec<Block> {
    let mut cases: BTreeMap<String, (usize, usize, Option<&BenchmarkResult>)> = BTreeMap::new();
    for result in &run.results {
        let (passed, total, first) = cases.entry(case_name(result)).or_default();
        *total += 1;
        *passed += usize::from(result.status == Status::Pass);
        if first.is_none() && is_failure(result) {
            *first = Some(result);
        }
    }
    let rows: Vec<Vec<Text>> = cases
        .into_iter()
        .filter_map(|(name, (passed, total, first))| {
            let first = first?;
            let why = why(first);
            let why = why.lines().next().unwrap_or_default();
            Some(row![
                name,
                format!("{passed}/{total}"),
                status_name(first.status),
                why
            ])
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Block::Table(
        Table::new(&["case", "passed", "failure", "reason"], &[1], rows).limit(LISTED),
    )];
    let answered = run
        .results
        .iter()
        .filter(|result| is_failure(result))
        .filter_map(|result| Some((result, result.actual_output.as_deref()?)))
        .take(ANSWERS);
    let answers: Vec<Block> = answered
        .flat_map(|(result, output)| {
            let name = format!("{}, repeat {}: {}", case_name(result), result.repeat, why(result));
            [Block::text(name), Block::Verbatim(truncate(output))]
        })
        .collect();
    if !answers.is_empty() {
        parts.push(Block::details("Answers", answers));
    }
    parts
}

fn is_failure(result: &BenchmarkResult) -> bool {
    !matches!(result.status, Status::Pass | Status::Skipped)
}

fn verdict_word(verdict: GateVerdict) -> (Tone, &'static str) {
    match verdict {
        GateVerdict::Pass => (Tone::Good, "Pass"),
        GateVerdict::Regression => (Tone::Bad, "Regression"),
        GateVerdict::Inconclusive => (Tone::Unsure, "Inconclusive"),
    }
}

/// Verdict of a gate: the pass rates, their difference with its interval, and the reasons.
pub fn gate_verdict(report: &GateReport) -> Block {
    let (tone, word) = verdict_word(report.verdict);
    let sentence = report.pass.as_ref().map_or_else(
        || "no cases to compare".into(),
        |pass| {
            let range = pass.interval.map_or_else(String::new, |ci| {
                format!(
                    ", 90 % interval {:+.1} to {:+.1}",
                    100.0 * ci.low,
                    100.0 * ci.high
                )
            });
            let worse = report.changes.iter().filter(|change| change.decides).count();
            let although = match worse {
                _ if report.verdict != GateVerdict::Regression || pass.difference < 0.0 => String::new(),
                0 => String::new(),
                1 => "1 case got worse, although the pass rate did not fall: ".into(),
                worse => format!("{worse} cases got worse, although the pass rate did not fall: "),
            };
            format!(
                "{although}{} cases passed {} before and {} now ({:+.1} points{range})",
                pass.cases,
                percent(Some(pass.baseline)),
                percent(Some(pass.candidate)),
                100.0 * pass.difference
            )
        },
    );
    Block::verdict(tone, word, sentence, &report.reasons)
}

/// Evidence for the verdict.
fn comparison_blocks(report: &GateReport, before: &BenchmarkSummary, now: &BenchmarkSummary) -> Vec<Block> {
    let rows = METRICS.iter().filter_map(|(name, value)| {
        let cells = (value(before), value(now));
        // Omit a metric that neither run has.
        (cells != (None, None)).then(|| {
            let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
            row![*name, or_dash(cells.0), or_dash(cells.1)]
        })
    });
    let mut parts = vec![Block::Table(Table::new(
        &["metric", "baseline", "candidate"],
        &[1, 2],
        rows,
    ))];
    parts.extend(named_changes(before, now));
    let marks = differences(before, now);
    if !marks.is_empty() {
        parts.push(Block::Chart(Chart::Changes(
            "Change of the pass rate by case, worst first".into(),
            marks,
        )));
    }
    if !report.changes.is_empty() {
        let rows = report.changes.iter().map(|change| {
            row![
                &*change.case_id,
                &*change.reason,
                or_dash(change.adjusted_p_value, |p| format!("{p:.4}")),
                if change.decides {
                    badge(Tone::Bad, "yes")
                } else {
                    "".into()
                },
            ]
        });
        parts.push(Block::Table(
            Table::new(&["case", "change", "p", "decides"], &[2], rows).limit(2 * LISTED),
        ));
        parts.push(Block::text(
            "p is the probability of a change this large in any case of an unchanged suite.",
        ));
    }
    parts
}

/// Pass rates of each case in both runs.
fn paired_rates<'a>(
    before: &'a BenchmarkSummary,
    now: &'a BenchmarkSummary,
) -> BTreeMap<&'a str, (Option<&'a CaseSummary>, Option<&'a CaseSummary>)> {
    let mut cases: BTreeMap<&str, (Option<&CaseSummary>, Option<&CaseSummary>)> = BTreeMap::new();
    for case in &before.per_case {
        cases.entry(&case.case_id).or_default().0 = Some(case);
    }
    for case in &now.per_case {
        cases.entry(&case.case_id).or_default().1 = Some(case);
    }
    cases
}

fn rate(case: Option<&CaseSummary>) -> Option<f64> {
    case.and_then(|case| case.pass_rate)
}

fn differences(before: &BenchmarkSummary, now: &BenchmarkSummary) -> Vec<Mark> {
    let cases = paired_rates(before, now).into_iter();
    let mut marks: Vec<Mark> = cases
        .filter_map(|(id, (old, new))| {
            let (old, new) = (rate(old)?, rate(new)?);
            Some(Mark {
                label: id.to_owned(),
                value: new - old,
                hint: format!("{id}: {:.0} % to {:.0} %", 100.0 * old, 100.0 * new),
            })
        })
        .collect();
    marks.sort_by(|a, b| a.value.total_cmp(&b.value));
    marks
}

/// Lists every case of either run with its pass rates.
pub fn cases(baseline: &BenchmarkRun, candidate: &BenchmarkRun) -> Block {
    let (before, now) = (summary(baseline), summary(candidate));
    let rows = paired_rates(&before, &now).into_iter().map(|(id, (old, new))| {
        let word = match (rate(old), rate(new)) {
            (Some(old), Some(new)) if new > old => badge(Tone::Good, "better"),
            (Some(old), Some(new)) if new < old => badge(Tone::Bad, "worse"),
            (Some(_), Some(_)) => badge(Tone::Plain, "same"),
            _ => badge(Tone::Unsure, "only in one run"),
        };
        row![id, percent(rate(old)), percent(rate(new)), word]
    });
    Block::Table(Table::new(&["case", "baseline", "candidate", ""], &[1, 2], rows))
}

/// Compares variants with their control, with the margin of each metric.
pub fn ablation(report: &AblationReport, component: Option<&str>) -> Document {
    let mut blocks: Vec<Block> = component
        .map(|name| Block::text(format!("Component: {name}.")))
        .into_iter()
        .collect();
    blocks.extend(report.variants.iter().map(|found| variant(report, found)));
    blocks.push(Block::text(format!(
        "A variant ships when being worse by the margin is excluded for every metric; it is harmful when a metric is \
         significantly worse after Holm over all variants and metrics, at an error rate of {}. Intervals are {:.0} %, \
         so each bound alone holds at {:.0} %.",
        report.alpha,
        100.0 * (1.0 - 2.0 * report.alpha),
        100.0 * (1.0 - report.alpha)
    )));
    if let Some(metric) = report.variants.iter().flat_map(|variant| &variant.metrics).next() {
        let enough = if metric.smallest_p > report.alpha {
            "so no difference can be significant"
        } else {
            "which is low enough"
        };
        blocks.push(Block::text(format!(
            "Paired by case, repeats averaged; sign-flip test. With {} cases the smallest possible p is {:.2e}, {enough}.",
            metric.cases, metric.smallest_p
        )));
    }
    Document::new("Ablation: can the change ship?", blocks)
}

fn variant(report: &AblationReport, found: &VariantReport) -> Block {
    let word = match found.verdict {
        AblationVerdict::Ships => badge(Tone::Good, "SHIPS"),
        AblationVerdict::Harmful => badge(Tone::Bad, "HARMFUL"),
        AblationVerdict::Inconclusive => badge(Tone::Unsure, "INCONCLUSIVE"),
    };
    let title = word
        .then(" ")
        .then(format!("{} compared with {}", found.variant, report.control));
    let with_spread = |mean: f64, sd: Option<f64>| {
        let sd = sd.map_or_else(String::new, |sd| format!(" ± {}", digits(sd, mean)));
        format!("{}{sd}", plain(mean))
    };
    let rows = found.metrics.iter().map(|metric| {
        let control = report.control_metrics.get(&metric.metric);
        let range = metric
            .interval
            .map(|ci| format!("{} to {}", signed(ci.low), signed(ci.high)));
        row![
            &*metric.metric,
            control.map_or_else(
                || "-".into(),
                |control| with_spread(control.mean, control.standard_deviation)
            ),
            with_spread(metric.summary.mean, metric.summary.standard_deviation),
            signed(metric.difference),
            range.unwrap_or_else(|| "-".into()),
            format!("{:.4}", metric.p_holm),
            plain(metric.margin),
            metric.cases,
        ]
    });
    let header = [
        "metric",
        "control",
        "variant",
        "difference",
        "interval",
        "p (Holm)",
        "margin",
        "cases",
    ];
    let chart = format!(
        "Difference from {} with intervals, in units of each metric's margin; right of the line is better",
        report.control
    );
    let parts = vec![
        Block::list(&found.reasons),
        Block::Chart(Chart::Margins(
            chart,
            found.metrics.iter().map(margined).collect(),
        )),
        Block::Table(Table::new(&header, &[1, 2, 3, 5, 6, 7], rows)),
    ];
    Block::Section(title, parts)
}

/// Orients the difference so that right is better.
fn margined(metric: &MetricReport) -> MarginMark {
    let sign = match metric.direction {
        Direction::Higher => 1.0,
        Direction::Lower => -1.0,
    };
    let interval = metric.interval.map(|ci| {
        let (a, b) = (sign * ci.low, sign * ci.high);
        (a.min(b), a.max(b))
    });
    MarginMark {
        difference: IntervalMark {
            label: metric.metric.clone(),
            value: sign * metric.difference,
            interval,
            hint: format!(
                "{}: {} on {} cases; margin {}",
                metric.metric,
                signed(metric.difference),
                metric.cases,
                plain(metric.margin)
            ),
        },
        margin: metric.margin,
        formatted: signed(metric.difference),
    }
}

/// Formats with four digits for shares and fewer for milliseconds and tokens.
fn plain(value: f64) -> String {
    digits(value, value)
}

/// Formats a value with the precision used for `like`.
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

fn case_name(result: &BenchmarkResult) -> String {
    match &result.variant {
        Some(variant) => format!("{} ({variant})", result.case_id),
        None => result.case_id.clone(),
    }
}

fn why(result: &BenchmarkResult) -> String {
    result.error.clone().unwrap_or_else(|| result.reasons.join("; "))
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Name of the status in JSON.
fn status_name(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Fail => "fail",
        Status::Error => "error",
        Status::Timeout => "timeout",
        Status::Skipped => "skipped",
        Status::Pending => "pending",
    }
}

/// Name of the owner in JSON.
fn owner_name(owner: ErrorOwner) -> &'static str {
    match owner {
        ErrorOwner::Target => "target",
        ErrorOwner::Judge => "judge",
        ErrorOwner::Harness => "harness",
        ErrorOwner::Infra => "infra",
    }
}

/// One row per result.
fn result_data<'a>(runs: impl Iterator<Item = &'a BenchmarkRun>) -> Table {
    let header = [
        "run_id",
        "suite_id",
        "case_id",
        "variant",
        "repeat",
        "status",
        "score",
        "latency_ms",
        "tokens",
        "cost_usd",
        "judge_score",
        "human_label",
        "error_owner",
        "error_kind",
        "why",
    ];
    let rows = runs.flat_map(|run| {
        run.results.iter().map(move |result| {
            row![
                &*run.run_id,
                &*run.suite_id,
                &*result.case_id,
                result.variant.as_deref().unwrap_or_default(),
                result.repeat,
                status_name(result.status),
                number(result.score),
                result.latency_ms.to_string(),
                result.token_cost,
                number(result.cost_usd),
                number(result.llm_judge_score),
                result.human_label.as_deref().unwrap_or_default(),
                result.error_owner.map_or("", owner_name),
                result.error_kind.as_deref().unwrap_or_default(),
                why(result),
            ]
        })
    });
    Table::new(&header, &[], rows)
}

/// One row per case of either run.
fn case_data(report: &GateReport, before: &BenchmarkSummary, now: &BenchmarkSummary) -> Table {
    let header = [
        "case_id",
        "baseline_passes",
        "baseline_decided",
        "baseline_pass_rate",
        "candidate_passes",
        "candidate_decided",
        "candidate_pass_rate",
        "difference",
        "p_value",
        "adjusted_p_value",
        "decides",
        "change",
    ];
    let count = |case: Option<&CaseSummary>, of: fn(&CaseSummary) -> u64| {
        case.map_or_else(String::new, |case| of(case).to_string())
    };
    let rows = paired_rates(before, now).into_iter().map(|(id, (old, new))| {
        let changes: Vec<_> = report
            .changes
            .iter()
            .filter(|change| change.case_id == id)
            .collect();
        let reasons: Vec<&str> = changes.iter().map(|change| change.reason.as_str()).collect();
        row![
            id,
            count(old, |case| case.passes),
            count(old, |case| case.decided),
            number(rate(old)),
            count(new, |case| case.passes),
            count(new, |case| case.decided),
            number(rate(new)),
            number(rate(new).zip(rate(old)).map(|(new, old)| new - old)),
            number(changes.iter().find_map(|change| change.p_value)),
            number(changes.iter().find_map(|change| change.adjusted_p_value)),
            changes.iter().any(|change| change.decides).to_string(),
            reasons.join("; "),
        ]
    });
    Table::new(&header, &[], rows)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{csv, html, markdown, terminal};
    use satiety::bench::{AblationSettings, GatePolicy, compare};

    fn results(right: impl Fn(u32, u32) -> bool) -> Vec<BenchmarkResult> {
        let one = |case: u32, repeat: u32| {
            let status = if right(case, repeat) {
                Status::Pass
            } else {
                Status::Fail
            };
            let mut result = BenchmarkResult::new(format!("<case|{case}>"), repeat, status);
            result.latency_ms = 10.0;
            result.actual_output = Some("<script>alert(1)</script>".into());
            result
        };
        (0..70)
            .flat_map(|case| (0..3).map(move |repeat| (case, repeat)))
            .map(|(case, repeat)| one(case, repeat))
            .collect()
    }

    fn of(results: Vec<BenchmarkResult>) -> BenchmarkRun {
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

    fn gated(report: &GateReport, baseline: &BenchmarkRun, run: &BenchmarkRun) -> Document {
        let (gate, baseline) = (Some(report), Some(baseline));
        let more = Vec::new();
        runs(vec![RunReport {
            run,
            gate,
            baseline,
            more,
        }])
    }

    #[test]
    fn pages_list_the_worst_first_and_escape_untrusted_text() {
        let good = of(results(|_, _| true));
        let bad = of(results(|case, repeat| case > 3 || repeat == case));
        let report = compare(&good, &bad, &GatePolicy::default()).unwrap();
        let gated = gated(&report, &good, &bad);
        let text = html::render(&gated);
        assert!(text.contains("10 cases not shown"), "{text}");
        assert!(text.contains("<strong>Regression:</strong>"), "{text}");
        let place = |case: &str| text.find(&format!("&lt;case|{case}&gt;: ")).unwrap();
        assert!(place("3") < place("0"), "case 3 never passes, case 0 once");
        let study = satiety::bench::ablation(
            ("<control>", &good.results),
            &[("<variant>", &bad.results)],
            &AblationSettings::default(),
        );
        let study = ablation(&study.unwrap(), Some("<component>"));
        for document in [gated, comparison(&report, &good, &bad), study] {
            for page in [html::render(&document), markdown::render(&document)] {
                for sign in [
                    "<script>a",
                    "<case",
                    "<run>",
                    "<suite>",
                    "<target>",
                    "<control>",
                    "<variant>",
                    "NaN",
                ] {
                    // Answers are in a code block in Markdown, where markup has no effect.
                    assert!(
                        !page.replace("```text\n<script>", "").contains(sign),
                        "{sign}: {page}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_regression_is_first_on_a_page_and_last_on_a_terminal() {
        let good = of(results(|_, _| true));
        let bad = of(results(|case, _| case > 3));
        let report = compare(&good, &bad, &GatePolicy::default()).unwrap();
        let document = gated(&report, &good, &bad);
        let shown = terminal::render_in(&document, 100);
        let last = shown.rsplit("\n\n").next().unwrap();
        assert!(last.contains("REGRESSION") && last.contains("\n- "), "{shown}");
        let page = markdown::render(&document);
        assert!(
            page.contains("❌ **Regression**: 70 cases passed 100.0 % before"),
            "{page}"
        );
        assert!(page.contains("| pass rate | 100.0 % "), "{page}");
        assert!(page.contains("| &lt;case\\|0&gt; | 0/3 | fail |"), "{page}");
        let data = csv::render(&comparison(&report, &good, &bad)).unwrap();
        assert!(data.contains("<case|0>,3,3,1,0,3,0,-1,"), "{data}");
        assert_eq!(csv::render(&document).unwrap().lines().count(), 211);
    }

    #[test]
    fn right_is_better_for_both_metric_directions() {
        let mut slow = results(|_, _| true);
        for result in &mut slow {
            result.latency_ms = 14.0 + f64::from(result.repeat);
        }
        let fast = results(|_, _| true);
        let report =
            satiety::bench::ablation(("c", &fast), &[("v", &slow)], &AblationSettings::default()).unwrap();
        let metrics = &report.variants[0].metrics;
        let metric = metrics
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
        assert_eq!(row.formatted, "+5.0000");
        assert_eq!(
            (digits(0.0, 130.0), plain(12.0), plain(0.05)),
            ("0".into(), "12.00".into(), "0.0500".into())
        );
    }
}
