//! Page of all suites and runs.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use satiety_engine::bench::{AblationRecord, RunPage, RunSummary};
use satiety_report::document::{badge, link};
use satiety_report::html::{Html, escape, joined};
use satiety_report::series::sparkline;
use satiety_report::{Tone, row};
use serde_json::json;

use super::super::shell::{ago, count, empty_state, frame, percent, segment, short_id};
use super::super::table::{Address, Column, Filter, List, ListRow, number_column, text_column};
use super::ablation;
use crate::http::JobView;

const COLUMNS: [Column; 6] = [
    text_column("run"),
    text_column("suite"),
    text_column("started").sortable("time", true),
    number_column("pass rate").sortable("rate", true),
    text_column("target"),
    text_column("state"),
];

/// Intervals of pass rates by run id.
pub(in super::super) type PassIntervals = HashMap<String, (f64, f64)>;

/// The most recent runs of every suite, newest first within a suite.
pub(super) struct LatestRuns {
    pub(super) runs: Vec<RunSummary>,
    pub(super) intervals: PassIntervals,
}

/// What the page shows besides stored runs.
pub(super) struct MoreOfList {
    /// Whether the visitor may start runs of suites below the root of the server.
    pub(super) can_start: bool,
    /// Jobs of this server that have not ended.
    pub(super) running: Vec<JobView>,
}

impl MoreOfList {
    fn render(&self) -> Option<Html> {
        let mut parts: Vec<Html> = Vec::new();
        if !self.running.is_empty() {
            let items = self.running.iter().map(|job| {
                format!(
                    "<li><a href=\"/bench/jobs/{}\">{}</a></li>",
                    escape(&segment(&job.job_id)),
                    escape(&job.subject)
                )
            });
            parts.push(Html(format!(
                "<h2>Running now</h2><ul>{}</ul>",
                items.collect::<String>()
            )));
        }
        if self.can_start {
            parts.push(Html("<p><a href=\"/bench/start\">Start a run</a></p>".into()));
        }
        parts.push(Html(
            "<p><a href=\"/bench/jobs\">Jobs of this server</a></p>".into(),
        ));
        (parts.len() > 1).then(|| Html(format!("<section>{}</section>", joined(&parts))))
    }
}

/// Suites with their latest runs, all runs as a list, and ablations. `latest` has the most recent runs of every suite.
pub(super) fn page(
    address: &Address,
    page: &RunPage,
    latest: &LatestRuns,
    ablations: &[AblationRecord],
    more: &MoreOfList,
    now: Timestamp,
) -> String {
    if latest.runs.is_empty() {
        let hint = empty_state(
            "No runs yet. Create a small suite and run it:",
            "satiety bench init suites/first\nsatiety bench run suites/first",
        );
        let body: Vec<Html> = std::iter::once(hint).chain(more.render()).collect();
        return frame("/bench", "Bench", &body);
    }
    let mut suites: BTreeMap<&str, Vec<&RunSummary>> = BTreeMap::new();
    for run in &latest.runs {
        suites.entry(&run.suite_id).or_default().push(run);
    }
    let mut body = vec![suite_cards(&suites, &latest.intervals, now)];
    body.extend(more.render());
    body.push(runs(address, page, &suites, now));
    if !ablations.is_empty() {
        body.push(ablation::section(ablations, now));
    }
    frame("/bench", "Bench", &body)
}

/// One card per suite: the latest pass rate as a number, and its course if there is more than one run.
fn suite_cards(suites: &BTreeMap<&str, Vec<&RunSummary>>, intervals: &PassIntervals, now: Timestamp) -> Html {
    let cards = suites.iter().map(|(suite, runs)| {
        let course = trend(suite, runs.iter().rev().copied(), intervals).0;
        // Runs are newest first. An ablation has several targets and no pass rate of its own.
        let newest = runs.iter().find(|run| run.pass_rate.is_some()).or(runs.first());
        let state = newest.map_or_else(String::new, |run| {
            let when = satiety_report::html::line(&ago(run.started_at, now));
            format!(
                "<p><a href=\"/bench/runs/{}\">latest run</a>, {when}</p>",
                escape(&segment(&run.run_id))
            )
        });
        let compare = match newest {
            Some(run) if runs.len() > 1 => format!(
                "<p class=\"more\"><a href=\"/bench/compare?candidate={}\">What changed since its baseline?</a></p>",
                escape(&segment(&run.run_id))
            ),
            _ => String::new(),
        };
        let rate = newest.and_then(|run| run.pass_rate);
        format!(
            "<li class=\"card\"><h2><a href=\"/bench?suite={}\">{}</a></h2>\
             <p><span class=\"figure\">{}</span> <span class=\"of\">{}</span></p>{course}{state}{compare}</li>",
            escape(&segment(suite)),
            escape(suite),
            percent(rate),
            [
                newest.and_then(|run| intervals.get(&run.run_id)).map(interval_words),
                Some(count(runs.len(), "recent run", "recent runs")),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
        )
    });
    Html(format!("<ul class=\"cards\">{}</ul>", cards.collect::<String>()))
}

/// Interval of a pass rate in words.
fn interval_words((low, high): &(f64, f64)) -> String {
    format!("{:.0} to {:.0} %", 100.0 * low, 100.0 * high)
}

/// Course of the pass rate of a suite with the interval of each run, oldest first. A single run is a number, not a chart.
pub(in super::super) fn trend<'r>(
    suite: &str,
    oldest_first: impl Iterator<Item = &'r RunSummary>,
    intervals: &PassIntervals,
) -> Html {
    let runs: Vec<&RunSummary> = oldest_first.filter(|run| run.pass_rate.is_some()).collect();
    if runs.len() < 2 {
        return Html::default();
    }
    let rates: Vec<Option<f64>> = runs.iter().map(|run| run.pass_rate).collect();
    let ranges: Vec<Option<(f64, f64)>> = runs
        .iter()
        .map(|run| intervals.get(&run.run_id).copied())
        .collect();
    sparkline(
        &format!("Pass rate of {suite} over {} runs", runs.len()),
        &rates,
        &ranges,
    )
}

fn runs(
    address: &Address,
    page: &RunPage,
    suites: &BTreeMap<&str, Vec<&RunSummary>>,
    now: Timestamp,
) -> Html {
    let names = suites
        .keys()
        .map(|suite| ((*suite).to_owned(), (*suite).to_owned()));
    let states = [("complete", "complete"), ("incomplete", "incomplete")];
    let states = states.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let rows = page.runs.iter().map(|run| {
        let to = format!("/bench/runs/{}", segment(&run.run_id));
        // Only incomplete runs are marked.
        let state = match run.completed_at {
            Some(_) => "".into(),
            None => badge(Tone::Unsure, "incomplete"),
        };
        ListRow {
            cells: row![
                link(to, short_id(&run.run_id)),
                &run.suite_id,
                ago(run.started_at, now),
                percent(run.pass_rate),
                &run.target,
                state,
            ],
            value: Some(run.run_id.clone()),
        }
    });
    let next = page.next.as_ref().map(|place| json!(place).to_string());
    List {
        address,
        one: "run",
        label: "runs",
        columns: &COLUMNS,
        default_sort: "-time",
        filters: vec![
            Filter::Search("Search runs"),
            Filter::Choice("suite", "Suite", names.collect()),
            Filter::Choice("state", "State", states.into()),
            Filter::Number("below", "Pass rate up to, in %"),
        ],
        rows: rows.collect(),
        next,
        action: Some(("/bench/compare", "run", "Compare selected runs")),
    }
    .render()
}
