//! Benchmark pages: suites over time, one run, and two runs compared case by case.

use std::collections::BTreeMap;

use jiff::Timestamp;
use satiety::bench::BenchmarkRun;
use satiety_engine::bench::{AblationRecord, ComparedRuns, RunSummary};
use satiety_report::document::{badge, link, percent};
use satiety_report::documents::bench::{self, RunReport};
use satiety_report::html::{Html, blocks, escape, joined};
use satiety_report::series::{Lines, Series};
use satiety_report::{Block, Chart, Table, Text, Tone, row};

use super::shell::{ago, empty_state, frame, moment, segment, short_id};

/// Suites with their runs, and a form to compare two.
pub(super) fn list_page(runs: &[RunSummary], ablations: &[AblationRecord], now: Timestamp) -> String {
    if runs.is_empty() {
        let hint = empty_state(
            "No runs yet. Create a small suite and run it:",
            "satiety bench init suites/first\nsatiety bench run suites/first",
        );
        return frame("/bench", "Bench", &[hint]);
    }
    let mut suites: BTreeMap<&str, Vec<&RunSummary>> = BTreeMap::new();
    for run in runs {
        suites.entry(&run.suite_id).or_default().push(run);
    }
    let mut body: Vec<Block> = suites
        .into_iter()
        .map(|(suite, runs)| over_time(suite, &runs, now))
        .collect();
    if !ablations.is_empty() {
        let found = ablations.iter().map(|one| {
            let name = if one.tag.is_empty() {
                short_id(&one.ablation_id)
            } else {
                one.tag.clone()
            };
            let report = bench::ablation(&one.report, None);
            let summary = Text::from(format!("{name}, ")).then(ago(one.decided_at, now));
            Block::details(summary, report.blocks)
        });
        body.push(Block::section("Ablations", found.collect()));
    }
    frame("/bench", "Bench", &[compare_form(runs), blocks(&body)])
}

/// Runs of a suite over time.
fn over_time(suite: &str, runs: &[&RunSummary], now: Timestamp) -> Block {
    let oldest_first = || runs.iter().rev();
    let places = oldest_first().map(|run| run.started_at.strftime("%m-%d %H:%M").to_string());
    let rates = oldest_first().map(|run| run.pass_rate.map(|rate| 100.0 * rate));
    let chart = Lines {
        range: Some((0.0, 100.0)),
        ..Lines::shares(
            "Pass rate over runs, in %",
            "run",
            places.collect(),
            vec![Series::new("pass rate", rates.collect())],
        )
    };
    let rows = runs.iter().map(|run| {
        let to = format!("/bench/runs/{}", segment(&run.run_id));
        // Only incomplete runs are marked.
        let state = match run.completed_at {
            Some(_) => "".into(),
            None => badge(Tone::Unsure, "incomplete"),
        };
        row![
            link(to, short_id(&run.run_id)),
            ago(run.started_at, now),
            percent(run.pass_rate),
            &run.target,
            state,
        ]
    });
    let header = ["run", "started", "pass rate", "target", ""];
    let table = Table::new(&header, &[2], rows);
    Block::section(
        suite,
        vec![Block::Chart(Chart::Lines(chart)), Block::Table(table)],
    )
}

fn compare_form(runs: &[RunSummary]) -> Html {
    let options = |chosen: Option<&str>| -> String {
        let options: Vec<Html> = runs
            .iter()
            .map(|run| {
                Html(format!(
                    "<option value=\"{id}\"{selected}>{suite}, {at}, {rate} ({short})</option>",
                    id = escape(&run.run_id),
                    selected = if chosen == Some(run.run_id.as_str()) {
                        " selected"
                    } else {
                        ""
                    },
                    suite = escape(&run.suite_id),
                    at = moment(run.started_at),
                    short = escape(&short_id(&run.run_id)),
                    rate = percent(run.pass_rate)
                ))
            })
            .collect();
        joined(&options)
    };
    let newest = runs.first();
    let before = newest.and_then(|newest| runs.iter().skip(1).find(|run| run.suite_id == newest.suite_id));
    Html(format!(
        "<form class=\"line\" action=\"/bench/compare\" method=\"get\">\
         <label>Baseline<select name=\"baseline\">{}</select></label>\
         <label>Candidate<select name=\"candidate\">{}</select></label>\
         <button>Compare</button></form>",
        options(before.map(|run| run.run_id.as_str())),
        options(newest.map(|run| run.run_id.as_str()))
    ))
}

pub(super) fn detail_page(run: &BenchmarkRun) -> String {
    let report = bench::runs(vec![RunReport::new(run)]);
    let title = format!("Bench {}", short_id(&run.run_id));
    frame("/bench", &title, &[blocks(&report.blocks)])
}

/// Comparison of two runs.
pub(super) fn comparison_page(found: &ComparedRuns) -> String {
    let (baseline, candidate) = &found.runs;
    let mut body = bench::comparison(&found.report, baseline, candidate).blocks;
    body.push(Block::section(
        "Case by case",
        vec![bench::cases(baseline, candidate)],
    ));
    frame("/bench", "Comparison of two runs", &[blocks(&body)])
}
