//! Benchmark runs: suites over time, one run, two runs case by case.

use std::collections::BTreeMap;

use satiety::bench::{BenchmarkRun, leading, summarize};
use satiety_engine::bench::{ComparedRuns, KeptAblation, ListedRun};

use super::shell::{badge, frame, moment, nothing, percent, segment, short_id, time};
use crate::html::{Html, details, escape, joined, link, list, paragraph, section, table_of};
use crate::reports::{ablation_parts, comparison_part, run_part};
use crate::series::{Lines, Series, lines};

/// Suites with their runs, and a form to compare two.
pub(super) fn all(runs: &[ListedRun], ablations: &[KeptAblation]) -> String {
    if runs.is_empty() {
        let hint = nothing("No run is kept yet.", "satiety bench run SUITE --target …");
        return frame("/bench", "Bench", &[hint]);
    }
    let mut suites: BTreeMap<&str, Vec<&ListedRun>> = BTreeMap::new();
    for run in runs {
        suites.entry(&run.suite_id).or_default().push(run);
    }
    let mut body = vec![compare_form(runs)];
    for (suite, runs) in suites {
        let oldest_first: Vec<&&ListedRun> = runs.iter().rev().collect();
        let places: Vec<String> = oldest_first
            .iter()
            .map(|run| run.started_at.strftime("%m-%d %H:%M").to_string())
            .collect();
        let chart = lines(&Lines {
            title: "Pass rate over runs",
            axis: "run",
            places: &places,
            series: &[Series::new(
                "pass rate",
                oldest_first.iter().map(|run| run.pass_rate).collect(),
            )],
            thresholds: &[],
            range: Some((0.0, 1.0)),
        });
        let rows = runs.iter().map(|run| {
            vec![
                link(
                    &format!("/bench/runs/{}", segment(&run.run_id)),
                    &short_id(&run.run_id),
                ),
                time(run.started_at),
                escape(&percent(run.pass_rate)),
                escape(&run.target),
                // Only what is not as it should be is marked.
                if run.completed_at.is_some() {
                    escape("")
                } else {
                    badge("unsure", "not complete")
                },
            ]
        });
        let table = table_of(&["run", "begun (UTC)", "pass rate", "target", ""], &[2], rows);
        body.push(section(suite, &[chart, table]));
    }
    if !ablations.is_empty() {
        let found = ablations.iter().map(|one| {
            let name = if one.tag.is_empty() {
                short_id(&one.ablation_id)
            } else {
                one.tag.clone()
            };
            let told = format!("{name}, {}", moment(one.decided_at));
            details(&told, &ablation_parts(&one.report, None))
        });
        body.push(section("Ablations", &found.collect::<Vec<_>>()));
    }
    frame("/bench", "Bench", &body)
}

fn compare_form(runs: &[ListedRun]) -> Html {
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

/// One run.
pub(super) fn one(run: &BenchmarkRun) -> String {
    let summary = summarize(leading(&run.results));
    let mut body = vec![run_part(run)];
    if !summary.flaky.is_empty() {
        body.push(section(
            "Flaky cases",
            &[
                paragraph("These passed and failed without a change; the gate knows it."),
                list(&summary.flaky),
            ],
        ));
    }
    frame("/bench", &format!("Bench {}", short_id(&run.run_id)), &body)
}

/// Two runs, case by case.
pub(super) fn two(found: &ComparedRuns) -> String {
    let (baseline, candidate) = &found.runs;
    let body = [
        comparison_part(&found.report, baseline, candidate),
        cases(baseline, candidate),
    ];
    frame("/bench", "Two runs compared", &body)
}

fn cases(baseline: &BenchmarkRun, candidate: &BenchmarkRun) -> Html {
    let rates = |run: &BenchmarkRun| -> BTreeMap<String, Option<f64>> {
        let cases = summarize(leading(&run.results)).per_case.into_iter();
        cases.map(|case| (case.case_id, case.pass_rate)).collect()
    };
    let (before, now) = (rates(baseline), rates(candidate));
    let mut names: Vec<&String> = before.keys().chain(now.keys()).collect();
    names.sort();
    names.dedup();
    let rows = names.into_iter().map(|name| {
        let (old, new) = (
            before.get(name).copied().flatten(),
            now.get(name).copied().flatten(),
        );
        let word = match (old, new) {
            (Some(old), Some(new)) if new > old => badge("good", "better"),
            (Some(old), Some(new)) if new < old => badge("bad", "worse"),
            (Some(_), Some(_)) => badge("plain", "same"),
            (None, Some(_)) => badge("plain", "new"),
            _ => badge("unsure", "not decided"),
        };
        vec![escape(name), escape(&percent(old)), escape(&percent(new)), word]
    });
    section(
        "Case by case",
        &[Html(joined(&[table_of(
            &["case", "baseline", "candidate", ""],
            &[1, 2],
            rows,
        )]))],
    )
}
