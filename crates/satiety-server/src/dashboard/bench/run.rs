//! Page of one run: verdict, statistics, and its cases as a list.

use std::fmt::Write as _;

use jiff::Timestamp;
use satiety_engine::bench::{CaseLine, CaseListRequest, CaseOutcome, CasePage, RunHead};
use satiety_report::document::{badge, dim, link, or_dash};
use satiety_report::html::{Html, blocks};
use satiety_report::{Block, Table, Text, Tone, row};
use serde_json::json;

use super::super::shell::{ago, count, frame, percent, segment, short_id, trail};
use super::super::table::{Address, Column, Filter, List, number_column, text_column};

const COLUMNS: [Column; 7] = [
    text_column("case").sortable("case", false),
    text_column("outcome"),
    number_column("passed").sortable("passed", false),
    number_column("baseline"),
    number_column("score").sortable("score", false),
    number_column("latency").sortable("latency", true),
    number_column("tokens").sortable("tokens", true),
];

pub(super) fn page(
    head: &RunHead,
    address: &Address,
    page: &CasePage,
    request: &CaseListRequest,
    review: Option<Html>,
    now: Timestamp,
) -> String {
    let run = &head.run;
    let suite = format!("/bench?suite={}", segment(&run.suite_id));
    let title = format!("{}, {}", run.suite_id, short_id(&run.run_id));
    let mut body = vec![
        trail(&[("/bench", "Bench"), (&suite, &run.suite_id)]),
        blocks(&summary(head, now)),
        cases(head, address, page, request),
    ];
    body.extend(review);
    body.push(blocks(&[configuration(head)]));
    frame("/bench", &title, &body)
}

fn summary(head: &RunHead, now: Timestamp) -> Vec<Block> {
    let run = &head.run;
    let counts = &head.counts;
    let mut parts = Vec::new();
    if let Some(verdict) = &head.gate {
        let (tone, word) = match verdict.as_str() {
            "pass" => (Tone::Good, "Pass"),
            "regression" => (Tone::Bad, "Regression"),
            _ => (Tone::Unsure, "Inconclusive"),
        };
        parts.push(Block::verdict(tone, word, "verdict of the gate", &[]));
    }
    if run.completed_at.is_none() {
        parts.push(Block::note(format!(
            "this run is incomplete; `satiety bench run SUITE --resume {}` continues it",
            run.run_id
        )));
    }
    let decided = counts.pass + counts.fail + counts.timeout;
    let rate = head
        .statistics
        .as_ref()
        .map_or(run.pass_rate, |found| found.pass_rate);
    let interval = head
        .statistics
        .as_ref()
        .and_then(|found| found.pass_rate_interval);
    let interval = interval.map_or_else(String::new, |ci| {
        format!(", 95 % interval {:.1} to {:.1}", 100.0 * ci.low, 100.0 * ci.high)
    });
    let mut passed = format!("{} ({} of {decided}{interval})", percent(rate), counts.pass);
    for (number, what) in [
        (counts.error, "errors"),
        (counts.skipped, "skipped"),
        (counts.pending, "waiting for a judge or a person"),
    ] {
        if number > 0 {
            // Writing to a string cannot fail.
            let _ = write!(passed, ", {number} {what}");
        }
    }
    let statistics = head.statistics.as_ref();
    let filtered =
        |words: String, query: &str| link(format!("/bench/runs/{}?{query}", segment(&run.run_id)), words);
    let not_passed = counts.fail + counts.timeout + counts.error;
    parts.push(Block::fields([
        ("passed", Some(passed.into())),
        (
            "not passed",
            (not_passed > 0).then(|| filtered(count(not_passed, "result", "results"), "status=not_pass")),
        ),
        (
            "flaky",
            statistics
                .filter(|found| !found.flaky.is_empty())
                .map(|found| filtered(count(found.flaky.len(), "case", "cases"), "flaky=1")),
        ),
        (
            "compared with",
            head.baseline.as_ref().map(|baseline| {
                let to = format!(
                    "/bench/compare?baseline={}&candidate={}",
                    segment(&baseline.run_id),
                    segment(&run.run_id)
                );
                let kind = format!(" ({})", baseline.kind);
                link(to, short_id(&baseline.run_id)).then(kind)
            }),
        ),
        ("target", Some((&run.target).into())),
        ("started", Some(ago(run.started_at, now))),
        (
            "latency",
            statistics.and_then(|found| {
                Some(
                    format!(
                        "{:.0} ms mean, {:.0} ms p95",
                        found.mean_latency_ms?, found.p95_latency_ms?
                    )
                    .into(),
                )
            }),
        ),
        (
            "tokens",
            statistics
                .filter(|found| found.total_token_cost > 0)
                .map(|found| found.total_token_cost.into()),
        ),
        (
            "cost",
            statistics.and_then(|found| Some(format!("${:.4}", found.total_cost_usd?).into())),
        ),
        (
            "judge score",
            statistics.and_then(|found| Some(format!("{:.3}", found.mean_quality_score?).into())),
        ),
    ]));
    if let Some(found) = statistics.filter(|found| found.scores.len() > 1) {
        let number = |value: Option<f64>| or_dash(value, |value| format!("{value:.3}"));
        let rows = found.scores.iter().map(|score| {
            row![
                score.name.as_str(),
                number(score.mean),
                format!("{} to {}", number(score.min), number(score.max)),
                percent(score.pass_rate),
                if score.decides { "yes" } else { "" }
            ]
        });
        let header = ["score", "mean", "values", "passed", "decides"];
        let table = Block::Table(Table::new(&header, &[1, 3], rows).limit(20));
        parts.push(Block::details("Scores by name", vec![table]));
    }
    parts
}

fn cases(head: &RunHead, address: &Address, page: &CasePage, request: &CaseListRequest) -> Html {
    let statuses = [
        ("not_pass", "not passed"),
        ("pass", "passed"),
        ("fail", "failed"),
        ("error", "error"),
        ("timeout", "timeout"),
        ("pending", "pending"),
        ("skipped", "skipped"),
    ];
    let statuses = statuses.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let mut filters = vec![
        Filter::Search("Search cases"),
        Filter::Choice("status", "Status", statuses.into()),
        Filter::Text("tag", "Tag"),
        Filter::Number("min", "Score from"),
        Filter::Number("max", "to"),
        Filter::Flag("flaky", "flaky"),
    ];
    if let Some(baseline) = &head.baseline {
        let label = match baseline.kind {
            "previous run" => "changed since the previous run",
            _ => "changed since the baseline",
        };
        filters.push(Filter::Flag("changed", label));
    }
    let rows = page
        .cases
        .iter()
        .map(|case| case_row(&head.run.run_id, case).into());
    let next = page.next.as_ref();
    let next = next.map(|after| json!([after.value, after.case_id, after.variant]).to_string());
    List {
        address,
        one: "case",
        label: "cases",
        columns: &COLUMNS,
        default_sort: "case",
        filters,
        rows: rows.collect(),
        next: next.filter(|_| request.limit > 0),
        action: None,
    }
    .render()
}

fn case_row(run_id: &str, case: &CaseLine) -> Vec<Text> {
    let found = &case.outcome;
    let to = format!(
        "/bench/runs/{}/cases/{}",
        segment(run_id),
        segment(&found.case_id)
    );
    let mut name = link(to, &*found.case_id);
    if !found.variant.is_empty() {
        name = name.then(format!(" {}", found.variant));
    }
    if !case.title.is_empty() {
        name = name.then(" ").then(dim(&*case.title));
    }
    for tag in &case.tags {
        name = name.then(" ").then(badge(Tone::Plain, tag));
    }
    row![
        name,
        outcome(found),
        format!("{}/{}", found.passes, found.results),
        before(case),
        or_dash(found.score, |score| format!("{score:.2}")),
        format!("{:.0} ms", found.latency_ms),
        found.token_cost,
    ]
}

/// Outcome over all repeats in one word.
pub(in super::super) fn outcome(found: &CaseOutcome) -> Text {
    let (tone, word) = if found.passes == found.results {
        (Tone::Good, "passed")
    } else if found.passes > 0 && found.failures > 0 {
        (Tone::Unsure, "flaky")
    } else if found.failures > 0 {
        (Tone::Bad, "failed")
    } else if found.errors > 0 {
        (Tone::Bad, "error")
    } else {
        (Tone::Plain, "open")
    };
    badge(tone, word)
}

/// Outcome in the baseline, with the direction of the change.
fn before(case: &CaseLine) -> Text {
    let Some(before) = &case.before else {
        return "–".into();
    };
    let share = |row: &CaseOutcome| row.passes as f64 / row.results as f64;
    let change = share(&case.outcome) - share(before);
    let words: Text = format!("{}/{}", before.passes, before.results).into();
    // A share of a few repeats says nothing about significance, which is the gate's to decide.
    if change > 0.0 {
        words.then(" ").then(badge(Tone::Plain, "↑ higher"))
    } else if change < 0.0 {
        words.then(" ").then(badge(Tone::Plain, "↓ lower"))
    } else {
        words
    }
}

fn configuration(head: &RunHead) -> Block {
    let text = serde_json::to_string_pretty(&head.config_snapshot).unwrap_or_default();
    let report = format!("satiety bench report {}", head.run.run_id);
    Block::details(
        "Configuration of the run",
        vec![
            Block::text(format!("Run `{}`. Report: `{report}`", head.run.run_id)),
            Block::Verbatim(text),
        ],
    )
}
