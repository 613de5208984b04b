//! Measured retrieval over time, and judging results one by one.

use satiety_engine::retrieval::{AnnotationStep, MeasuredRun, MeasuredRuns, RunChanges};

use satiety_report::charts::Mark;
use satiety_report::document::{badge, link, or_dash};
use satiety_report::html::{Html, blocks, escape, joined};
use satiety_report::series::{Lines, Series};
use satiety_report::{Block, Chart, Table, Tone, row};

use super::shell::{frame, nothing};

/// The figures that are drawn, with their names for people. The first is the one whose interval is kept.
const DRAWN: [(&str, &str); 3] = [
    ("mrr_at_5", "MRR@5"),
    ("ndcg_at_10", "nDCG@10"),
    ("recall_at_10", "recall@10"),
];

/// Runs over time.
pub(super) fn all(found: &MeasuredRuns, per_query: Option<&RunChanges>) -> String {
    let judge = Block::Text(link("/retrieval/annotate", "Judge results"));
    if found.runs.is_empty() {
        let hint = nothing("Nothing was measured yet.", "satiety retrieval run --memory");
        return frame("/retrieval", "Retrieval", &[blocks(&[judge]), hint]);
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
    let title = "Quality over runs, MRR@5 with its 95 % interval";
    let chart = Lines::shares(title, "run", places, series.into());
    let mut body = vec![
        judge,
        Block::Chart(Chart::Lines(chart)),
        Block::section("Runs", vec![Block::Table(runs(found))]),
    ];
    body.extend(per_query.map(differences));
    frame("/retrieval", "Retrieval", &[blocks(&body)])
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

fn runs(found: &MeasuredRuns) -> Table {
    let rows = found.runs.iter().map(|run| {
        let of = |key: &str| or_dash(run.figures.get(key).copied(), |value| format!("{value:.3}"));
        let interval =
            interval(run).map_or_else(String::new, |(low, high)| format!(" ({low:.3} to {high:.3})"));
        let compared = match run.is_significant {
            Some(true) => badge(Tone::Good, "differs"),
            Some(false) => badge(Tone::Plain, "no difference shown"),
            None => "".into(),
        };
        row![
            &run.system,
            when(run),
            run.queries.to_string(),
            of("ndcg_at_10"),
            of("recall_at_10"),
            format!("{}{interval}", of("mrr_at_5")),
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
    Table::new(&header, &[2, 3, 4, 5], rows)
}

fn differences(found: &RunChanges) -> Block {
    let marks = found.queries.iter().map(|moved| Mark {
        label: moved.words().to_owned(),
        value: moved.change(),
        hint: format!("{}: {:.3} to {:.3}", moved.words(), moved.before, moved.now),
    });
    let count = |is: fn(f64) -> bool| found.queries.iter().filter(|moved| is(moved.change())).count();
    let told = format!(
        "Of {} queries {} got better and {} got worse.",
        found.queries.len(),
        count(|change| change > 0.0),
        count(|change| change < 0.0)
    );
    let title = format!("Change of {} by query, worst first", found.measure);
    let chart = Block::Chart(Chart::Changes(title, marks.collect()));
    Block::section(
        "The latest two runs, query by query",
        vec![Block::text(told), chart],
    )
}

/// Who judges; asked once.
pub(super) fn annotator() -> String {
    let form = Html(
        "<form class=\"line\" action=\"/retrieval/annotate\" method=\"get\"><label>Your name\
         <input name=\"annotator\" required maxlength=\"64\" autocomplete=\"username\"></label><button class=\"primary\">Begin</button></form>"
            .into(),
    );
    let told = "Results are shown one by one, without ranks or systems. You can stop at any time and go on later, here or with `satiety retrieval annotate`.";
    let body = [blocks(&[Block::text(told)]), form];
    frame("/retrieval", "Judge results", &body)
}

/// The next result to be judged.
pub(super) fn annotate(annotator: &str, step: &AnnotationStep) -> String {
    let name = escape(annotator);
    let progress = &step.progress;
    let told = blocks(&[Block::text(format!(
        "{} judged by you, {} wait for you; {} of {} are done.",
        progress.yours, progress.waiting, progress.judged, progress.results
    ))]);
    let Some(next) = &step.next else {
        let done = Block::verdict(
            Tone::Good,
            "Nothing waits.",
            "Everything in the pool is judged.",
            &[],
        );
        return frame("/retrieval", "Judge results", &[blocks(&[done]), told]);
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
