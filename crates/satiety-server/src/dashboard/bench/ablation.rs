//! Ablations as a matrix: variants by metrics, each cell with the difference from the control and its interval.

use std::fmt::Write as _;

use jiff::Timestamp;
use satiety::bench::{AblationReport, AblationVerdict, Direction, MetricReport, VariantReport};
use satiety_engine::bench::AblationRecord;
use satiety_report::document::badge;
use satiety_report::documents::bench;
use satiety_report::html::{Html, blocks, escape, joined, line};
use satiety_report::{Block, Text, Tone};

use super::super::shell::{ago, frame, lead, segment, sentence_case, short_id, trail};

const WIDTH: f64 = 132.0;
const HEIGHT: f64 = 22.0;

fn name(record: &AblationRecord) -> String {
    if record.tag.is_empty() {
        short_id(&record.ablation_id)
    } else {
        record.tag.clone()
    }
}

/// All ablations, each as a matrix with a link to its report.
pub(super) fn section(records: &[AblationRecord], now: Timestamp) -> Html {
    let parts: Vec<Html> = records
        .iter()
        .map(|record| {
            Html(format!(
                "<h3><a href=\"/bench/ablations/{}\">{}</a> <span class=\"of\">{}</span></h3>{}",
                escape(&segment(&record.ablation_id)),
                escape(&name(record)),
                line(&ago(record.decided_at, now)),
                matrix(&record.report)
            ))
        })
        .collect();
    Html(format!(
        "<section>\n<h2>Ablations</h2>\n{}\n</section>",
        joined(&parts)
    ))
}

/// One ablation: the matrix, and the complete report.
pub(super) fn page(record: &AblationRecord, now: Timestamp) -> String {
    let report = bench::ablation(&record.report, None);
    let about = "A bar is the interval of the difference from the control, drawn so that right is better; the dashed line \
        is the margin that must be excluded.";
    let decided = Text::from("Decided ").then(ago(record.decided_at, now)).then(".");
    let body = [
        trail(&[("/bench", "Bench")]),
        lead(about),
        Html(format!(
            "<section>\n<h2>Difference from {}</h2>\n{}\n</section>",
            escape(&record.report.control),
            matrix(&record.report)
        )),
        blocks(&report.blocks),
        blocks(&[Block::Text(decided)]),
    ];
    let title = if record.tag.is_empty() {
        sentence_case(&name(record))
    } else {
        format!("Ablation of {}", record.tag)
    };
    frame("/bench", &title, &body)
}

/// Metrics of all variants, in the order of the first variant that has them.
fn metrics(report: &AblationReport) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for metric in report.variants.iter().flat_map(|variant| &variant.metrics) {
        if !names.contains(&metric.metric.as_str()) {
            names.push(&metric.metric);
        }
    }
    names
}

fn matrix(report: &AblationReport) -> Html {
    let names = metrics(report);
    let of = |variant: &'_ VariantReport, name: &str| -> Option<MetricReport> {
        let mut metrics = variant.metrics.iter();
        metrics.find(|metric| metric.metric == name).cloned()
    };
    // One scale for each metric, so that variants can be compared.
    let scales: Vec<f64> = names
        .iter()
        .map(|name| {
            let found = report.variants.iter().filter_map(|variant| of(variant, name));
            found.map(|metric| extent(&metric)).fold(0.0, f64::max)
        })
        .collect();
    let mut head = String::from("<th scope=\"col\">variant</th><th scope=\"col\">verdict</th>");
    for name in &names {
        let unit = report.control_metrics.get(*name);
        let control = unit.map_or_else(String::new, |metric| {
            format!(" <small>control {}</small>", number(metric.mean))
        });
        // Writing to a string cannot fail.
        let _ = write!(
            head,
            "<th scope=\"col\">{}{control}</th>",
            escape(&name.replace('_', " "))
        );
    }
    let rows: Vec<String> = report
        .variants
        .iter()
        .map(|variant| {
            let cells: Vec<String> = names
                .iter()
                .zip(&scales)
                .map(|(name, scale)| {
                    let label = escape(&name.replace('_', " "));
                    match of(variant, name) {
                        Some(metric) => format!(
                            "<td data-label=\"{label}\">{}</td>",
                            cell(&metric, *scale, report.alpha)
                        ),
                        None => format!("<td data-label=\"{label}\">–</td>"),
                    }
                })
                .collect();
            format!(
                "<tr><th scope=\"row\">{}</th><td data-label=\"verdict\">{}</td>{}</tr>\n",
                escape(&variant.variant),
                line(&verdict(variant.verdict)),
                cells.concat()
            )
        })
        .collect();
    Html(format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"stack ablation\"><thead><tr>{head}</tr></thead>\n<tbody>\n{}</tbody></table></div>",
        rows.concat()
    ))
}

fn verdict(verdict: AblationVerdict) -> Text {
    match verdict {
        AblationVerdict::Ships => badge(Tone::Good, "ships"),
        AblationVerdict::Harmful => badge(Tone::Bad, "harmful"),
        AblationVerdict::Inconclusive => badge(Tone::Unsure, "inconclusive"),
    }
}

/// The largest distance from no difference that a cell draws.
fn extent(metric: &MetricReport) -> f64 {
    let interval = metric
        .interval
        .map_or(0.0, |interval| interval.low.abs().max(interval.high.abs()));
    let all = [metric.difference.abs(), metric.margin.abs(), interval];
    all.into_iter()
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max)
}

/// Difference with its interval, as a drawing and as text.
fn cell(metric: &MetricReport, scale: f64, alpha: f64) -> Html {
    let sign = match metric.direction {
        Direction::Higher => 1.0,
        Direction::Lower => -1.0,
    };
    let x = |value: f64| {
        let share = if scale > 0.0 { sign * value / scale } else { 0.0 };
        WIDTH / 2.0 + share.clamp(-1.0, 1.0) * (WIDTH / 2.0 - 6.0)
    };
    let class = if metric.non_inferior {
        "good"
    } else if metric.p_holm < alpha && sign * metric.difference < 0.0 {
        "bad"
    } else {
        "unsure"
    };
    let middle = HEIGHT / 2.0;
    let range = metric.interval.map_or_else(String::new, |interval| {
        format!(
            "<line class=\"range {class}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>",
            x(interval.low),
            x(interval.high)
        )
    });
    let interval = metric.interval.map_or_else(
        || "no interval".to_owned(),
        |interval| format!("{} to {}", signed(interval.low), signed(interval.high)),
    );
    Html(format!(
        "<svg class=\"effect\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" aria-hidden=\"true\">\
         <line class=\"zero\" x1=\"{zero}\" x2=\"{zero}\" y1=\"1\" y2=\"{bottom}\"/>\
         <line class=\"margin\" x1=\"{margin:.1}\" x2=\"{margin:.1}\" y1=\"1\" y2=\"{bottom}\"/>{range}\
         <circle class=\"dot-{class}\" cx=\"{:.1}\" cy=\"{middle}\" r=\"4\"/></svg>\
         <small>{} <span class=\"of\">({interval})</span></small>",
        x(metric.difference),
        signed(metric.difference),
        zero = WIDTH / 2.0,
        bottom = HEIGHT - 1.0,
        margin = x(-sign * metric.margin),
    ))
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", number(value.abs()))
}

#[cfg(test)]
mod tests {
    use satiety::bench::MetricSummary;
    use satiety::stats::Interval;

    use super::*;

    fn metric(name: &str, difference: f64, direction: Direction) -> MetricReport {
        MetricReport {
            metric: name.into(),
            direction,
            summary: MetricSummary {
                mean: 1.0,
                standard_deviation: None,
            },
            cases: 10,
            difference,
            interval: Some(Interval {
                low: difference - 0.1,
                high: difference + 0.1,
                confidence: 0.9,
            }),
            p_value: 0.01,
            p_holm: 0.01,
            smallest_p: 0.001,
            margin: 0.05,
            non_inferior: false,
            cases_needed: None,
        }
    }

    #[test]
    fn a_matrix_has_a_cell_for_each_variant_and_metric() {
        let variant = |name: &str, metrics: Vec<MetricReport>| VariantReport {
            variant: name.into(),
            verdict: AblationVerdict::Harmful,
            reasons: Vec::new(),
            metrics,
        };
        let report = AblationReport {
            control: "base".into(),
            control_metrics: [(
                "pass".to_owned(),
                MetricSummary {
                    mean: 0.9,
                    standard_deviation: None,
                },
            )]
            .into(),
            variants: vec![
                variant("<a>", vec![metric("pass", -0.3, Direction::Higher)]),
                variant(
                    "b",
                    vec![
                        metric("pass", 0.2, Direction::Higher),
                        metric("latency_ms", 0.2, Direction::Lower),
                    ],
                ),
            ],
            alpha: 0.05,
        };
        let html = matrix(&report).0;
        assert_eq!(html.matches("<svg").count(), 3, "{html}");
        assert!(
            html.contains("−0.300 <span class=\"of\">(−0.400 to −0.200)"),
            "{html}"
        );
        assert!(html.contains("&lt;a&gt;") && !html.contains("<a>"), "{html}");
        assert!(
            html.contains(">–</td>") && html.contains("control 0.900"),
            "{html}"
        );
        // Slower is worse: the dot is left of the middle, as that of a lower pass rate.
        assert_eq!(html.matches("dot-bad").count(), 2, "{html}");
    }
}
