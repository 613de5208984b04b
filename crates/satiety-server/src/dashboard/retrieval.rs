//! Measured retrieval over time, and judging results one by one.

use satiety_engine::retrieval::{AnnotationStep, MeasuredRun, MeasuredRuns, RunChanges};

use super::shell::{badge, figure, frame, nothing};
use satiety_report::charts::{Mark, changes};
use satiety_report::html::{Html, escape, joined, link, paragraph, section, table_of, verdict};
use satiety_report::series::{Lines, Series, lines};

/// The figures that are drawn, with their names for people. The first is the one whose interval is kept.
const DRAWN: [(&str, &str); 3] = [
    ("mrr_at_5", "MRR@5"),
    ("ndcg_at_10", "nDCG@10"),
    ("recall_at_10", "recall@10"),
];

/// Runs over time.
pub(super) fn all(found: &MeasuredRuns, per_query: Option<&RunChanges>) -> String {
    let mut body = vec![Html(format!(
        "<p>{}</p>",
        link("/retrieval/annotate", "Judge results")
    ))];
    if found.runs.is_empty() {
        body.push(nothing(
            "Nothing was measured yet.",
            "satiety retrieval run --memory",
        ));
        return frame("/retrieval", "Retrieval", &body);
    }
    // What an A/B test measured stands beside something, not after something.
    let over_time = found.runs.iter().filter(|run| run.run_type != "ab_test");
    let oldest_first: Vec<&MeasuredRun> = over_time.rev().collect();
    let places: Vec<String> = oldest_first
        .iter()
        .map(|run| when(run).chars().skip(5).collect())
        .collect();
    let mut series = DRAWN.map(|(key, name)| {
        let values = oldest_first.iter().map(|run| run.figures.get(key).copied());
        Series::new(name, values.collect())
    });
    let [first, ..] = &mut series;
    first.intervals = oldest_first.iter().map(|run| interval(run)).collect();
    body.push(lines(&Lines::shares(
        "Quality over runs, MRR@5 with its 95 % interval",
        "run",
        places,
        series.into(),
    )));
    body.push(section("Runs", &[runs(found)]));
    body.extend(per_query.map(differences));
    frame("/retrieval", "Retrieval", &body)
}

/// When it was measured, to the minute.
fn when(run: &MeasuredRun) -> String {
    let minute: String = run.measured_at.chars().take(16).collect();
    minute.replace('T', " ")
}

/// The interval of the first figure. With an A/B test it is that of the difference, which belongs elsewhere.
fn interval(run: &MeasuredRun) -> Option<(f64, f64)> {
    let of = |key: &str| run.figures.get(key).copied();
    of("confidence_interval_lower")
        .zip(of("confidence_interval_upper"))
        .filter(|_| run.run_type != "ab_test")
}

fn runs(found: &MeasuredRuns) -> Html {
    let rows = found.runs.iter().map(|run| {
        let of = |key: &str| run.figures.get(key).copied();
        let interval =
            interval(run).map_or_else(String::new, |(low, high)| format!(" ({low:.3} to {high:.3})"));
        let compared = match run.is_significant {
            Some(true) => badge("good", "differs"),
            Some(false) => badge("plain", "no difference shown"),
            None => escape(""),
        };
        vec![
            escape(&run.system),
            Html(format!("<time>{}</time>", escape(&when(run)))),
            escape(&run.queries.to_string()),
            escape(&figure(of("ndcg_at_10"))),
            escape(&figure(of("recall_at_10"))),
            escape(&format!("{}{interval}", figure(of("mrr_at_5")))),
            compared,
        ]
    });
    let header = [
        "what was asked",
        "when (UTC)",
        "queries",
        "nDCG@10",
        "recall@10",
        "MRR@5 (95 %)",
        "against its baseline",
    ];
    table_of(&header, &[2, 3, 4, 5], rows)
}

fn differences(found: &RunChanges) -> Html {
    let marks: Vec<Mark> = found
        .queries
        .iter()
        .map(|moved| Mark {
            label: moved.words().to_owned(),
            value: moved.change(),
            hint: format!("{}: {:.3} to {:.3}", moved.words(), moved.before, moved.now),
        })
        .collect();
    let (better, worse) = found.queries.iter().fold((0, 0), |(better, worse), moved| {
        let change = moved.change();
        (
            better + usize::from(change > 0.0),
            worse + usize::from(change < 0.0),
        )
    });
    section(
        "The latest two runs, query by query",
        &[
            paragraph(&format!(
                "Of {} queries {better} got better and {worse} got worse.",
                found.queries.len()
            )),
            changes(
                &format!("Change of {} by query, worst first", found.measure),
                &marks,
            ),
        ],
    )
}

/// Who judges; asked once.
pub(super) fn annotator() -> String {
    let form = Html(
        "<form class=\"line\" action=\"/retrieval/annotate\" method=\"get\"><label>Your name\
         <input name=\"annotator\" required maxlength=\"64\" autocomplete=\"username\"></label><button class=\"primary\">Begin</button></form>"
            .into(),
    );
    let body = [
        paragraph(
            "Results are shown one by one, without ranks or systems. You can stop at any time and go on later, here or with `satiety retrieval annotate`.",
        ),
        form,
    ];
    frame("/retrieval", "Judge results", &body)
}

/// The next result to be judged.
pub(super) fn annotate(annotator: &str, step: &AnnotationStep) -> String {
    let name = escape(annotator);
    let progress = &step.progress;
    let told = paragraph(&format!(
        "{} judged by you, {} wait for you; {} of {} are done.",
        progress.yours, progress.waiting, progress.judged, progress.results
    ));
    let Some(next) = &step.next else {
        let done = verdict("good", "Nothing waits.", "Everything in the pool is judged.");
        return frame("/retrieval", "Judge results", &[done, told]);
    };
    let grades = [
        ("0", "not relevant"),
        ("1", "touches it"),
        ("2", "relevant"),
        ("3", "exactly it"),
    ];
    let buttons: Vec<Html> = grades
        .iter()
        .map(|(grade, words)| {
            Html(format!("<button name=\"grade\" value=\"{grade}\" data-key=\"{grade}\"><kbd>{grade}</kbd> {words}</button>"))
        })
        .collect();
    let form = Html(format!(
        "<form class=\"grades\" method=\"post\" action=\"/retrieval/annotate\">\
         <input type=\"hidden\" name=\"annotator\" value=\"{name}\">\
         <input type=\"hidden\" name=\"query_id\" value=\"{}\"><input type=\"hidden\" name=\"memory_id\" value=\"{}\">\
         {}<button name=\"grade\" value=\"skip\" data-key=\"s\"><kbd>s</kbd> cannot say</button>\
         <button name=\"grade\" value=\"undo\" data-key=\"u\" formnovalidate><kbd>u</kbd> take back</button></form>",
        escape(&next.query_id),
        escape(&next.memory_id),
        joined(&buttons)
    ));
    let body = [
        Html(format!(
            "<p>Asked: <strong>{}</strong> (result {} of {})</p>",
            escape(&next.query),
            next.position,
            next.of
        )),
        Html(format!(
            "<blockquote><strong>{}</strong><br>{}</blockquote>",
            escape(next.title.as_deref().unwrap_or(&next.memory_id)),
            escape(next.text.as_deref().unwrap_or("Its text is not known here."))
        )),
        form,
        told,
    ];
    frame("/retrieval", "Judge results", &body)
}
