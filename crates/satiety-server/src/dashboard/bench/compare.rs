//! Page that compares runs case by case: the verdict of the gate, and a matrix of cases and runs.

use jiff::Timestamp;
use satiety::bench::GateReport;
use satiety_engine::bench::{ComparedRuns, MatrixRow, RunMatrix};
use satiety_report::document::{badge, dim, link};
use satiety_report::documents::bench;
use satiety_report::html::{Html, blocks, escape, joined, line, paragraph};
use satiety_report::{Block, Text, Tone};
use serde_json::json;

use super::super::shell::{ago, command, count, frame, lead, percent, segment, short_id, trail};
use super::super::table::Address;
use super::run::outcome;

/// Page for a database that has nothing to compare.
pub(super) fn nothing(why: &str) -> String {
    let parts = [
        paragraph(&format!("{why} Run the suite again to compare:")),
        command("satiety bench run SUITE"),
    ];
    let empty = Html(format!("<div class=\"empty\">{}</div>", joined(&parts)));
    frame("/bench", "Comparison of runs", &[empty])
}

/// `statistics` has one entry per run after the first: the report of the gate, or the number of results that make it slow.
pub(super) fn page(
    address: &Address,
    matrix: &RunMatrix,
    statistics: &[Result<ComparedRuns, u64>],
    now: Timestamp,
) -> String {
    let mut body = vec![
        trail(&[("/bench", "Bench")]),
        lead("The first run is the baseline. A cell opens the case in that run."),
        runs(matrix, now),
    ];
    for (found, run) in statistics.iter().zip(matrix.runs.iter().skip(1)) {
        match found {
            Ok(found) => {
                if statistics.len() > 1 {
                    body.push(blocks(&[Block::text(format!("{}:", short_id(&run.run_id)))]));
                }
                body.push(blocks(&[bench::gate_verdict(&found.report)]));
            }
            Err(results) => body.push(Html(format!(
                "<p>The statistics of the gate need all {results} results and take a while. \
                 <a href=\"{}\">Compute them</a></p>",
                escape(&address.with("statistics", Some("1")))
            ))),
        }
    }
    let last = statistics.last().and_then(|found| found.as_ref().ok());
    body.push(table(address, matrix, last.map(|found| &found.report)));
    let details = statistics
        .iter()
        .filter_map(|found| found.as_ref().ok())
        .map(|found| {
            let (baseline, candidate) = &found.runs;
            let report = bench::comparison(&found.report, baseline, candidate);
            let title = format!("All statistics of {}", short_id(&candidate.run_id));
            Block::details(title, report.blocks)
        });
    body.push(blocks(&details.collect::<Vec<_>>()));
    frame("/bench", "Comparison of runs", &body)
}

/// The compared runs, with a link that makes each the baseline.
fn runs(matrix: &RunMatrix, now: Timestamp) -> Html {
    let ids: Vec<&str> = matrix.runs.iter().map(|run| run.run_id.as_str()).collect();
    let rows = matrix.runs.iter().enumerate().map(|(place, run)| {
        let to = format!("/bench/runs/{}", segment(&run.run_id));
        let role: Text = if place == 0 {
            badge(Tone::Plain, "baseline")
        } else {
            // As `baseline` and `candidate`, the order of the address counts.
            let others = ids.iter().filter(|id| **id != run.run_id);
            let others: Vec<String> = others.map(|id| format!("candidate={}", segment(id))).collect();
            let to = format!(
                "/bench/compare?baseline={}&{}",
                segment(&run.run_id),
                others.join("&")
            );
            link(to, "use as baseline")
        };
        vec![
            link(to, short_id(&run.run_id)),
            (&run.suite_id).into(),
            (&run.target).into(),
            ago(run.started_at, now),
            percent(run.pass_rate).into(),
            role,
        ]
    });
    let header = ["run", "suite", "target", "started", "pass rate", ""];
    blocks(&[Block::Table(satiety_report::Table::new(&header, &[4], rows))])
}

/// `report` has the statistics of the last run, if they were computed.
fn table(address: &Address, matrix: &RunMatrix, report: Option<&GateReport>) -> Html {
    let all = address.get("all").is_some();
    let mut rows: Vec<&MatrixRow> = matrix.rows.iter().collect();
    let is_complete = matrix.next.is_none() && address.get("after").is_none();
    if !all && is_complete {
        // The largest loss first, as long as all changes are on the page.
        rows.sort_by(|a, b| change(a).total_cmp(&change(b)));
    }
    let head: Vec<String> = matrix
        .runs
        .iter()
        .enumerate()
        .map(|(place, run)| {
            let role = if place == 0 { "baseline " } else { "" };
            format!(
                "<th scope=\"col\"><a href=\"/bench/runs/{}\">{role}{}</a></th>",
                escape(&segment(&run.run_id)),
                escape(&short_id(&run.run_id))
            )
        })
        .collect();
    let lines: Vec<String> = rows.iter().map(|row| matrix_line(matrix, row, report)).collect();
    let toggle = if all {
        format!(
            "<a href=\"{}\">Show only changes</a>",
            escape(&address.with("all", None))
        )
    } else {
        format!(
            "<a href=\"{}\">Show all cases</a>",
            escape(&address.with("all", Some("1")))
        )
    };
    let what = if all {
        count(rows.len(), "case", "cases")
    } else {
        format!(
            "{} of {} compared",
            count(rows.len(), "case changed", "cases changed"),
            matrix.compared
        )
    };
    let mut parts = vec![Html(format!(
        "<p><span role=\"status\">{what}.</span> {toggle}</p>"
    ))];
    if !rows.is_empty() {
        parts.push(Html(format!(
            "<div class=\"wide\" tabindex=\"0\"><table class=\"rows matrix stack\"><thead><tr><th scope=\"col\">case</th>{}\
             <th scope=\"col\">change</th></tr></thead>\n<tbody>\n{}\n</tbody></table></div>",
            head.concat(),
            lines.join("\n")
        )));
    }
    if let Some((case, variant)) = &matrix.next {
        let cursor = json!([case, variant]).to_string();
        parts.push(Html(format!(
            "<nav class=\"pages\" aria-label=\"Pages of cases\"><a rel=\"next\" href=\"{}\">Next page</a></nav>",
            escape(&address.after(&cursor))
        )));
    }
    Html(format!(
        "<section class=\"list\"><h2>Case by case</h2>{}</section>",
        joined(&parts)
    ))
}

/// A case that passed less often, which may be chance.
fn lower(p_value: Option<f64>) -> Text {
    let word = badge(Tone::Plain, "↓ lower");
    match p_value {
        Some(p) => word.then(" ").then(dim(format!("p = {p:.2}"))),
        None => word,
    }
}

/// Change of the last run against the baseline; cases that one of them lacks come last.
fn change(row: &MatrixRow) -> f64 {
    let last = row.cells.len().saturating_sub(1);
    row.share(last)
        .zip(row.share(0))
        .map_or(f64::INFINITY, |(now, before)| now - before)
}

/// Cells of a case, one for each run, with links to the case in that run.
fn matrix_cells(matrix: &RunMatrix, row: &MatrixRow) -> String {
    let cells = matrix.runs.iter().zip(&row.cells).map(|(run, cell)| {
        let label = escape(&short_id(&run.run_id));
        let Some(cell) = cell else {
            return format!("<td data-label=\"{label}\">–</td>");
        };
        let to = format!(
            "/bench/runs/{}/cases/{}",
            segment(&run.run_id),
            segment(&row.case_id)
        );
        let share = format!(" {}/{}", cell.passes, cell.results);
        let score = cell
            .score
            .map_or_else(String::new, |score| format!(", score {score:.2}"));
        let words = line(&outcome(cell).then(share).then(score));
        format!(
            "<td data-label=\"{label}\"><a class=\"cell\" href=\"{}\">{words}</a></td>",
            escape(&to)
        )
    });
    cells.collect()
}

fn matrix_line(matrix: &RunMatrix, row: &MatrixRow, report: Option<&GateReport>) -> String {
    let mut name = Text::from(&row.case_id);
    if !row.variant.is_empty() {
        name = name.then(format!(" {}", row.variant));
    }
    if !row.title.is_empty() {
        name = name.then(" ").then(dim(&row.title));
    }
    let cells = matrix_cells(matrix, row);
    let tested = report.and_then(|report| {
        report.changes.iter().find(|change| {
            change.case_id == row.case_id && change.variant.as_deref().unwrap_or_default() == row.variant
        })
    });
    let word = match (change(row), tested) {
        (change, _) if !change.is_finite() => badge(Tone::Unsure, "only in some runs"),
        // Only the statistics of the gate can say that a case got worse.
        (change, Some(tested)) if change < 0.0 && tested.decides => badge(Tone::Bad, "worse"),
        (change, Some(tested)) if change < 0.0 => lower(tested.adjusted_p_value),
        (change, None) if change < 0.0 => lower(None),
        (change, _) if change > 0.0 => badge(Tone::Plain, "↑ higher"),
        _ => badge(Tone::Plain, "same"),
    };
    format!(
        "<tr><td>{}</td>{cells}<td data-label=\"change\">{}</td></tr>",
        line(&name),
        line(&word)
    )
}
