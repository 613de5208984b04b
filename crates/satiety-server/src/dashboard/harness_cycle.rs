//! A recorded cycle of the harness: its measurement, the cases by the versions that were measured, and one case with the
//! versions that passed it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::Html as HtmlPage;
use axum::routing::get;
use jiff::Timestamp;
use satiety_engine::bench::{CaseVersion, MatrixCell, MatrixRequest, MatrixRow, RunMatrix, RunSummary};
use satiety_engine::harness::{CycleDetail, CycleSuite};
use satiety_report::document::{badge, dim, link, or_dash};
use satiety_report::html::{Html, blocks, escape, joined, line};
use satiety_report::{Block, Table, Text, Tone, row};
use serde_json::json;

use super::bench::outcome;
use super::shell::{ago, count, frame, lead, neighbors, percent, segment, sentence_case, short_id, trail};
use super::table::Address;
use super::{ErrorPage, Page, Pairs, ROWS, cursor};
use crate::http::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/harness/cycles/{id}", get(one_cycle))
        .route("/harness/cases/{suite}/{case}", get(one_case))
}

/// Address of a cycle.
pub(super) fn cycle_path(cycle_id: &str) -> String {
    format!("/harness/cycles/{}", segment(cycle_id))
}

/// Address of a case of the harness, as a cycle measured it, or as it would be measured now.
pub(super) fn case_path(suite_id: &str, case_id: &str, cycle_id: Option<&str>) -> String {
    let cycle = cycle_id.map_or_else(String::new, |id| format!("?cycle={}", segment(id)));
    format!("/harness/cases/{}/{}{cycle}", segment(suite_id), segment(case_id))
}

/// Title of a cycle; generated ids name their kind.
fn cycle_name(cycle_id: &str) -> String {
    let short = short_id(cycle_id);
    sentence_case(if short.starts_with("cycle") {
        &short
    } else {
        cycle_id
    })
}

/// Level of saturation in its tone.
pub(super) fn level(level: &str) -> Text {
    let tone = match level {
        "NORMAL" => Tone::Good,
        "ELEVATED" => Tone::Unsure,
        "HIGH" | "CRITICAL" => Tone::Bad,
        _ => Tone::Plain,
    };
    badge(tone, level)
}

async fn one_cycle(State(at): State<Arc<App>>, Path(id): Path<String>, Query(pairs): Pairs) -> Page {
    let address = Address::new(cycle_path(&id), pairs);
    let found = at.engine.harness().cycle_detail(&at.folders.harness, &id).await?;
    let suite = match address.get("suite") {
        Some(name) => found.suites.iter().find(|suite| suite.suite_id == name),
        None => found
            .suites
            .iter()
            .find(|suite| !suite.runs.is_empty())
            .or(found.suites.first()),
    };
    let mut matrix = None;
    if let Some(suite) = suite {
        let runs = at.engine.bench().existing_runs(&suite.runs).await?;
        if !runs.is_empty() {
            let request = MatrixRequest {
                runs,
                unchanged: address.get("differ").is_none(),
                after: cursor(&address)?,
                limit: ROWS as usize,
            };
            matrix = Some(at.engine.bench().run_matrix(&request).await?);
        }
    }
    let page = CyclePage {
        address: &address,
        found: &found,
        suite,
        matrix: matrix.as_ref(),
    };
    Ok(HtmlPage(page.render(Timestamp::now())))
}

struct CyclePage<'a> {
    address: &'a Address,
    found: &'a CycleDetail,
    /// Suite whose cases are shown.
    suite: Option<&'a CycleSuite>,
    /// Its cases by version; `None` if no run is stored any more.
    matrix: Option<&'a RunMatrix>,
}

impl CyclePage<'_> {
    fn render(&self, now: Timestamp) -> String {
        let found = self.found;
        let to = |id: &Option<String>, words, key| id.as_ref().map(|id| (cycle_path(id), words, key));
        let mut body = vec![
            trail(&[("/harness", "Harness")]),
            neighbors(
                "Cycles",
                &[
                    to(&found.previous, "← Previous cycle", "k"),
                    to(&found.next, "Next cycle →", "j"),
                ],
            ),
            blocks(&[self.facts(now)]),
        ];
        if !found.audits.is_empty() {
            let items = found.audits.iter().map(|audit| {
                let word = if audit.accepts {
                    badge(Tone::Good, "accepts")
                } else {
                    badge(Tone::Bad, "rejects")
                };
                word.then(format!(" {}: {}", audit.auditor, audit.note))
            });
            body.push(blocks(&[Block::section(
                "Audits",
                vec![Block::List(items.collect())],
            )]));
        }
        body.push(self.cases());
        frame("/harness", &cycle_name(&found.head.cycle_id), &body)
    }

    fn facts(&self, now: Timestamp) -> Block {
        let head = &self.found.head;
        let snapshot = self.found.snapshot.as_ref();
        let measured = snapshot.and_then(|snapshot| snapshot.measured);
        let version: String = head.version.chars().take(12).collect();
        Block::fields([
            ("recorded", Some(ago(head.at, now))),
            ("harness version", Some(version.into())),
            (
                "saturation",
                head.score
                    .map(|score| Text::from(format!("{score:.2} ")).then(level(&head.level))),
            ),
            (
                "measured",
                measured.map(|found| {
                    format!(
                        "{}: an improvement would go undetected with probability {:.2}",
                        found.verdict, found.probability
                    )
                    .into()
                }),
            ),
            (
                "signals",
                snapshot.map(|snapshot| format!("{:.2}", snapshot.saturation_score).into()),
            ),
            (
                "action",
                Some(head.action.replace('_', " ").to_lowercase().into()),
            ),
            (
                "evidence",
                head.is_unverified.then(|| "metrics from a file, no runs".into()),
            ),
        ])
    }

    /// Choice of the suite, and its cases by version.
    fn cases(&self) -> Html {
        let mut parts = Vec::new();
        if self.found.suites.len() > 1 {
            let links = self.found.suites.iter().map(|suite| {
                let here = self.suite.is_some_and(|shown| shown.suite_id == suite.suite_id);
                let to = self.address.with("suite", Some(&suite.suite_id));
                let current = if here { " aria-current=\"true\"" } else { "" };
                format!(
                    "<a href=\"{}\"{current}>{}</a> ",
                    escape(&to),
                    escape(&suite.suite_id)
                )
            });
            parts.push(Html(format!(
                "<nav class=\"tools\" aria-label=\"Suites\">{}</nav>",
                links.collect::<String>()
            )));
        }
        match (self.suite, self.matrix) {
            (None, _) => parts.push(blocks(&[Block::text("This cycle measured no runs.")])),
            (Some(_), None) => parts.push(blocks(&[Block::text(
                "The runs of this cycle are no longer stored. Keep them longer with `satiety db retain --set`.",
            )])),
            (Some(suite), Some(matrix)) => {
                if !suite.is_recorded {
                    parts.push(lead(
                        "The cycle did not record its runs; these are the runs that had completed by then.",
                    ));
                }
                parts.push(self.table(suite, matrix));
            }
        }
        let title = self.suite.map_or_else(
            || "Cases".to_owned(),
            |suite| format!("Cases of {}", suite.suite_id),
        );
        Html(format!(
            "<section class=\"list\"><h2>{}</h2>{}</section>",
            escape(&title),
            joined(&parts)
        ))
    }

    fn table(&self, suite: &CycleSuite, matrix: &RunMatrix) -> Html {
        let only_differing = self.address.get("differ").is_some();
        let (to, words) = if only_differing {
            (self.address.with("differ", None), "Show all cases")
        } else {
            (
                self.address.with("differ", Some("1")),
                "Show only cases that versions differ on",
            )
        };
        let shown = if only_differing {
            count(
                matrix.rows.len(),
                "case that versions differ on",
                "cases that versions differ on",
            )
        } else {
            count(matrix.rows.len(), "case", "cases")
        };
        let mut parts = vec![Html(format!(
            "<p><span role=\"status\">{shown}, {}, oldest first.</span> <a href=\"{}\">{words}</a></p>",
            count(matrix.runs.len(), "version", "versions"),
            escape(&to)
        ))];
        let head: Vec<String> = (1..)
            .zip(&matrix.runs)
            .map(|(number, run)| {
                format!(
                    "<th scope=\"col\"><a href=\"/bench/runs/{}\" title=\"{}, {}\">v{number}</a></th>",
                    escape(&segment(&run.run_id)),
                    escape(&short_id(&run.run_id)),
                    escape(&run.target)
                )
            })
            .collect();
        let head = head.concat();
        let rows: Vec<String> = matrix
            .rows
            .iter()
            .map(|row| self.row(suite, matrix, row))
            .collect();
        if !rows.is_empty() {
            parts.push(Html(format!(
                "<div class=\"wide\" tabindex=\"0\"><table class=\"rows matrix stack\"><thead><tr><th scope=\"col\">case</th>                 <th scope=\"col\">passed by</th>{head}</tr></thead>\n<tbody>\n{}\n</tbody></table></div>",
                rows.join("\n")
            )));
        }
        if let Some((case, variant)) = &matrix.next {
            let cursor = json!([case, variant]).to_string();
            parts.push(Html(format!(
                "<nav class=\"pages\" aria-label=\"Pages of cases\"><a rel=\"next\" href=\"{}\">Next page</a></nav>",
                escape(&self.address.after(&cursor))
            )));
        }
        Html(joined(&parts))
    }

    fn row(&self, suite: &CycleSuite, matrix: &RunMatrix, row: &MatrixRow) -> String {
        let to = case_path(&suite.suite_id, &row.case_id, Some(&self.found.head.cycle_id));
        let mut name = link(to, &row.case_id);
        if !row.title.is_empty() {
            name = name.then(" ").then(dim(&row.title));
        }
        let ran = row.cells.iter().flatten().count();
        let passed = row
            .cells
            .iter()
            .flatten()
            .filter(|cell| cell.passes == cell.results)
            .count();
        let word = match (passed, ran) {
            (_, 0) => "–".into(),
            (passed, ran) if passed == ran => badge(Tone::Plain, "all"),
            (0, _) => badge(Tone::Bad, "none"),
            (passed, ran) => badge(Tone::Good, format!("{passed} of {ran}")),
        };
        format!(
            "<tr><td>{}</td><td data-label=\"passed by\">{}</td>{}</tr>",
            line(&name),
            line(&word),
            cells(matrix, row)
        )
    }
}

/// Cells of a case, one for each version, with links to the case in that run. They are narrow, as there may be many.
fn cells(matrix: &RunMatrix, row: &MatrixRow) -> String {
    let cell = |(number, (run, cell)): (usize, (&RunSummary, &MatrixCell))| {
        let Some(cell) = cell else {
            return format!("<td data-label=\"v{number}\">–</td>");
        };
        let (class, sign, words) = if cell.passes == cell.results {
            ("good", "✓", "passed")
        } else if cell.passes > 0 {
            ("unsure", "±", "flaky")
        } else {
            ("bad", "✗", "failed")
        };
        format!(
            "<td data-label=\"v{number}\"><a class=\"cell\" href=\"/bench/runs/{}/cases/{}\" title=\"{words}\">\
             <span class=\"badge {class}\">{sign} {}/{}</span></a></td>",
            escape(&segment(&run.run_id)),
            escape(&segment(&row.case_id)),
            cell.passes,
            cell.results
        )
    };
    (1..).zip(matrix.runs.iter().zip(&row.cells)).map(cell).collect()
}

async fn one_case(
    State(at): State<Arc<App>>,
    Path((suite_id, case_id)): Path<(String, String)>,
    Query(pairs): Pairs,
) -> Page {
    let address = Address::new(case_path(&suite_id, &case_id, None), pairs);
    let folder = &at.folders.harness;
    let harness = at.engine.harness();
    let cycle = address.get("cycle");
    let suites = match cycle {
        Some(id) => harness.cycle_detail(folder, id).await?.suites,
        None => harness.versions_until(folder, None).await?,
    };
    let not_found = |words: String| ErrorPage {
        status: axum::http::StatusCode::NOT_FOUND,
        words,
        hint: Some("choose a case from a cycle of the harness".into()),
    };
    let suite = suites.into_iter().find(|suite| suite.suite_id == suite_id);
    let suite = suite.ok_or_else(|| not_found(format!("the harness has no suite `{suite_id}`")))?;
    let versions = at.engine.bench().case_versions(&suite.runs, &case_id).await?;
    if versions.iter().all(|version| version.outcomes.is_empty()) {
        return Err(not_found(format!(
            "no measured run of suite `{suite_id}` has case `{case_id}`"
        )));
    }
    Ok(HtmlPage(case_page(
        &suite_id,
        &case_id,
        cycle,
        &versions,
        Timestamp::now(),
    )))
}

/// One case with the versions that passed it.
fn case_page(
    suite_id: &str,
    case_id: &str,
    cycle: Option<&str>,
    versions: &[CaseVersion],
    now: Timestamp,
) -> String {
    let path = cycle.map(|id| format!("{}?suite={}", cycle_path(id), segment(suite_id)));
    let name = cycle.map(cycle_name);
    let mut levels = vec![("/harness", "Harness")];
    levels.extend(path.as_deref().zip(name.as_deref()));
    let passed = |version: &CaseVersion| {
        let mut outcomes = version.outcomes.iter();
        !version.outcomes.is_empty() && outcomes.all(|found| found.passes == found.results)
    };
    let ran = versions.iter().filter(|version| !version.outcomes.is_empty());
    let (ran, all_passed) = (
        ran.count(),
        versions.iter().filter(|version| passed(version)).count(),
    );
    let (tone, word, why) = match all_passed {
        0 => (
            Tone::Bad,
            "Passed by none.",
            "Every version failed, so the case cannot tell them apart. It may be broken or too hard.",
        ),
        passed if passed == ran => (
            Tone::Unsure,
            "Passed by all.",
            "Every version passed, so the case cannot show an improvement.",
        ),
        _ => (
            Tone::Good,
            "Distinguishes versions.",
            "Some versions passed and some did not.",
        ),
    };
    let newest_hash = versions.last().and_then(|version| version.case_hash.as_deref());
    let rows = versions.iter().rev().flat_map(|version| {
        let run = &version.run;
        let changed = match (&version.case_hash, newest_hash) {
            (Some(hash), Some(newest)) if hash != newest => badge(Tone::Plain, "other content"),
            _ => "".into(),
        };
        let when = ago(run.started_at, now);
        let run_link = link(
            format!("/bench/runs/{}", segment(&run.run_id)),
            short_id(&run.run_id),
        );
        if version.outcomes.is_empty() {
            let absent = row![
                run_link,
                &run.target,
                when,
                "not run",
                "",
                "",
                percent(run.pass_rate),
                changed
            ];
            return vec![absent];
        }
        let line = |found: &satiety_engine::bench::CaseOutcome| {
            let to = format!("/bench/runs/{}/cases/{}", segment(&run.run_id), segment(case_id));
            let shown = link(to, format!("{}/{}", found.passes, found.results));
            row![
                run_link.clone(),
                &run.target,
                when.clone(),
                outcome(found),
                shown,
                or_dash(found.score, |score| format!("{score:.2}")),
                percent(run.pass_rate),
                changed.clone(),
            ]
        };
        version.outcomes.iter().map(line).collect()
    });
    let header = [
        "version",
        "target",
        "started",
        "outcome",
        "passed",
        "score",
        "whole suite",
        "",
    ];
    let title = versions.iter().rev().find_map(|version| version.title.as_deref());
    let mut body = vec![trail(&levels)];
    body.extend(title.filter(|title| !title.is_empty()).map(lead));
    body.push(blocks(&[
        Block::verdict(tone, word, why, &[]),
        Block::section(
            format!("Versions: {all_passed} of {ran} passed"),
            vec![Block::Table(Table::new(&header, &[4, 5, 6], rows))],
        ),
    ]));
    frame("/harness", &format!("Case {case_id}"), &body)
}
