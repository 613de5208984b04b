//! Retrieval pages: metrics over time, and annotation of results.

use satiety::retrieval::{Agreement, AnnotationSettings};
use satiety_engine::retrieval::{AnnotationStep, MeasuredRun, MeasuredRuns, RunChanges};

use jiff::Timestamp;
use satiety_report::charts::Mark;
use satiety_report::document::{badge, link, or_dash};
use satiety_report::html::{Html, blocks, escape, joined};
use satiety_report::series::{Lines, Series};
use satiety_report::{Block, Chart, Table, Tone, row};

use super::shell::{ago_text, count, empty_state, frame, percent, segment, short_id, trail};
use super::table::{Address, Column, Filter, List, number_column, text_column};

/// Metrics in the chart, with their labels. The first one has a stored confidence interval.
const DRAWN: [(&str, &str); 3] = [
    ("mrr_at_5", "MRR@5"),
    ("ndcg_at_10", "nDCG@10"),
    ("recall_at_10", "recall@10"),
];

/// Runs over time.
pub(super) fn list_page(found: &MeasuredRuns, per_query: Option<&RunChanges>, now: Timestamp) -> String {
    let judge = Block::Text(link("/retrieval/annotate", "Judge results"));
    if found.runs.is_empty() {
        let hint = empty_state(
            "No runs yet. Import a judged query set and replay it against the memory:",
            "satiety retrieval import corpus.jsonl\nsatiety retrieval run --memory",
        );
        return frame("/retrieval", "Retrieval", &[blocks(&[judge]), hint]);
    }
    // Runs of experiments are comparisons, not points in time.
    let over_time = found.runs.iter().filter(|run| run.run_type != "ab_test");
    let oldest_first: Vec<&MeasuredRun> = over_time.rev().collect();
    let places: Vec<String> = oldest_first
        .iter()
        .map(|run| minute(run).chars().skip(5).collect())
        .collect();
    let mut series = DRAWN.map(|(key, name)| {
        let values = oldest_first.iter().map(|run| run.figures.get(key).copied());
        Series::new(name, values.collect())
    });
    let [first, ..] = &mut series;
    first.intervals = oldest_first.iter().map(|run| interval(run)).collect();
    let title = "Quality over runs, MRR@5 with 95 % interval";
    let chart = Lines::shares(title, "run", places, series.into());
    let about = "Each run replays the judged query set. Higher is better; 1 means that every relevant result is \
        found and ranked first.";
    let mut body = vec![Block::text(about), judge];
    // A single run is a number, not a chart.
    if oldest_first.len() > 1 {
        body.push(Block::Chart(Chart::Lines(chart)));
    }
    body.push(Block::section("Runs", vec![Block::Table(runs(found, now))]));
    body.extend(per_query.map(differences));
    frame("/retrieval", "Retrieval", &[blocks(&body)])
}

/// Time of the measurement to the minute, for the chart.
fn minute(run: &MeasuredRun) -> String {
    let minute: String = run.measured_at.chars().take(16).collect();
    minute.replace('T', " ")
}

/// Interval of the first metric. In experiments it is that of the difference, so it is not shown here.
fn interval(run: &MeasuredRun) -> Option<(f64, f64)> {
    let of = |key: &str| run.figures.get(key).copied();
    of("confidence_interval_lower")
        .zip(of("confidence_interval_upper"))
        .filter(|_| run.run_type != "ab_test")
}

fn runs(found: &MeasuredRuns, now: Timestamp) -> Table {
    let rows = found.runs.iter().map(|run| {
        let of = |key: &str| or_dash(run.figures.get(key).copied(), |value| format!("{value:.3}"));
        let interval =
            interval(run).map_or_else(String::new, |(low, high)| format!(" ({low:.3} to {high:.3})"));
        let compared = match run.is_significant {
            Some(true) => badge(Tone::Good, "differs"),
            Some(false) => badge(Tone::Plain, "no significant difference"),
            None => "".into(),
        };
        row![
            link(format!("/retrieval/runs/{}", segment(&run.run_id)), &run.system),
            ago_text(&run.measured_at, now),
            run.queries.to_string(),
            of("ndcg_at_10"),
            of("recall_at_10"),
            format!("{}{interval}", of("mrr_at_5")),
            compared,
        ]
    });
    let header = [
        "system",
        "measured",
        "queries",
        "nDCG@10",
        "recall@10",
        "MRR@5 (95 %)",
        "vs. baseline",
    ];
    Table::new(&header, &[2, 3, 4, 5], rows)
}

const QUERY_COLUMNS: [Column; 4] = [
    text_column("query"),
    number_column("before"),
    number_column("now"),
    number_column("change"),
];

/// Maximum number of queries on the page of a run.
const MAX_QUERIES: usize = 500;
/// Maximum number of queries drawn from each end, the largest losses and the largest gains.
const MAX_MARKS: usize = 100;

/// One run compared with another query by query, the largest loss first. `others` are the latest runs.
pub(super) fn run_page(
    run: &MeasuredRun,
    address: &Address,
    others: &MeasuredRuns,
    changes: Result<&RunChanges, &String>,
    now: Timestamp,
) -> String {
    let metrics = run
        .figures
        .iter()
        .map(|(name, value)| row![name.replace('_', " "), format!("{value:.3}")]);
    let mut body = vec![
        trail(&[("/retrieval", "Retrieval")]),
        blocks(&[
            Block::fields([
                ("system", Some((&run.system).into())),
                ("measured", Some(ago_text(&run.measured_at, now))),
                ("queries", Some(run.queries.to_string().into())),
            ]),
            Block::details(
                "All metrics",
                vec![Block::Table(Table::new(&["metric", "value"], &[1], metrics))],
            ),
        ]),
    ];
    match changes {
        Err(why) => body.push(blocks(&[Block::note(why.clone())])),
        Ok(found) => body.push(per_query(address, others, &run.run_id, found)),
    }
    frame(
        "/retrieval",
        &format!("Retrieval run {}", short_id(&run.run_id)),
        &body,
    )
}

fn per_query(address: &Address, runs: &MeasuredRuns, id: &str, found: &RunChanges) -> Html {
    let text = address.get("q").map(str::to_lowercase);
    let matches = |words: &str| {
        text.as_ref()
            .is_none_or(|text| words.to_lowercase().contains(text))
    };
    let matching: Vec<_> = found
        .queries
        .iter()
        .filter(|moved| matches(moved.words()))
        .collect();
    let rows = matching.iter().take(MAX_QUERIES).map(|moved| {
        let cells = row![
            moved.words(),
            format!("{:.3}", moved.before),
            format!("{:.3}", moved.now),
            format!("{:+.3}", moved.change()),
        ];
        cells.into()
    });
    let others = runs.runs.iter().filter(|run| run.run_id != id);
    let others = others.map(|run| {
        let when: String = run.measured_at.chars().take(16).collect();
        (run.run_id.clone(), format!("{}, {when}", run.system))
    });
    let measures = ["ndcg@10", "mrr@10", "recall@10"];
    let list = List {
        address,
        one: "query",
        label: "queries, largest loss first",
        columns: &QUERY_COLUMNS,
        default_sort: "",
        filters: vec![
            Filter::Search("Search queries"),
            Filter::Choice("against", "Compared with", others.collect()),
            Filter::words("measure", "Metric", &measures),
        ],
        rows: rows.collect(),
        next: None,
        action: None,
    };
    let mut words = format!("{} compared with {}.", found.measure, short_id(&found.before));
    if matching.len() > MAX_QUERIES {
        words = format!(
            "{words} The first {MAX_QUERIES} of {} queries are shown.",
            matching.len()
        );
    }
    Html(joined(&[blocks(&[Block::text(words)]), list.render()]))
}

fn differences(found: &RunChanges) -> Block {
    // The largest loss comes first.
    let (losses, others) = found.queries.split_at(found.queries.len().min(MAX_MARKS));
    let gains = &others[others.len().saturating_sub(MAX_MARKS)..];
    let marks = losses.iter().chain(gains).map(|moved| Mark {
        label: moved.words().to_owned(),
        value: moved.change(),
        hint: format!("{}: {:.3} to {:.3}", moved.words(), moved.before, moved.now),
    });
    let count = |is: fn(f64) -> bool| found.queries.iter().filter(|moved| is(moved.change())).count();
    let mut summary = format!(
        "{} queries: {} improved, {} got worse.",
        found.queries.len(),
        count(|change| change > 0.0),
        count(|change| change < 0.0)
    );
    if losses.len() + gains.len() < found.queries.len() {
        summary = format!("{summary} The {MAX_MARKS} at each end are drawn.");
    }
    let title = format!("Change of {} by query, worst first", found.measure);
    let chart = Block::Chart(Chart::Changes(title, marks.collect()));
    Block::section("Latest two runs by query", vec![Block::text(summary), chart])
}

/// Form for the annotator's name.
pub(super) fn annotator() -> String {
    let form = Html(
        "<form class=\"line\" action=\"/retrieval/annotate\" method=\"get\"><label>Your name\
         <input name=\"annotator\" required maxlength=\"64\" autocomplete=\"username\"></label>\
         <label>Judged by two people, in %<input name=\"double\" type=\"number\" min=\"0\" max=\"100\" value=\"10\"></label><button class=\"primary\">Start</button></form>"
            .into(),
    );
    let hint = "Results are shown one by one, without ranks or systems. You can stop at any time and continue later, here or with `satiety retrieval annotate`.";
    let body = [blocks(&[Block::text(hint)]), form];
    frame("/retrieval", "Judge results", &body)
}

/// Agreement of the people who judged the same results.
fn agreement(found: &Agreement) -> Block {
    if found.results == 0 {
        return Block::text("Agreement: no result is judged by two people yet.");
    }
    let alpha = or_dash(found.alpha, |alpha| format!("{alpha:.2}"));
    let rows = found.pairs.iter().map(|pair| {
        row![
            format!("{} and {}", pair.one, pair.other),
            pair.results,
            percent(Some(pair.same)),
            or_dash(pair.kappa, |kappa| format!("{kappa:.2}")),
            format!("{:+.2}", pair.shift),
        ]
    });
    let header = ["people", "results", "same grade", "kappa", "mean difference"];
    let summary = format!(
        "Agreement: Krippendorff's alpha {alpha} over {} judged by two or more people",
        count(found.results, "result", "results")
    );
    Block::details(
        summary,
        vec![
            Block::text(&found.verdict),
            Block::Table(Table::new(&header, &[1, 2, 3, 4], rows)),
        ],
    )
}

/// Next result to judge.
pub(super) fn annotate(settings: &AnnotationSettings, step: &AnnotationStep, agreed: &Agreement) -> String {
    let name = escape(&settings.annotator);
    let double = 100.0 * settings.double;
    let progress = &step.progress;
    let summary = blocks(&[
        Block::text(format!(
            "{} judged by you, {} pending; {} of {} judged in all.",
            progress.yours, progress.waiting, progress.judged, progress.results
        )),
        agreement(agreed),
    ]);
    let Some(next) = &step.next else {
        let done = Block::verdict(Tone::Good, "Done.", "All results in the pool are judged.", &[]);
        return frame("/retrieval", "Judge results", &[blocks(&[done]), summary]);
    };
    let grades = [
        ("0", "not relevant"),
        ("1", "marginal"),
        ("2", "relevant"),
        ("3", "highly relevant"),
    ];
    let buttons: Vec<Html> = grades
        .iter()
        .map(|(grade, words)| {
            Html(format!("<button name=\"grade\" value=\"{grade}\" data-key=\"{grade}\"><kbd>{grade}</kbd> {words}</button>"))
        })
        .collect();
    let form = Html(format!(
        "<form class=\"grades\" method=\"post\" action=\"/retrieval/annotate\">\
         <input type=\"hidden\" name=\"annotator\" value=\"{name}\"><input type=\"hidden\" name=\"double\" value=\"{double}\">\
         <input type=\"hidden\" name=\"query_id\" value=\"{}\"><input type=\"hidden\" name=\"memory_id\" value=\"{}\">\
         {}<button name=\"grade\" value=\"skip\" data-key=\"s\"><kbd>s</kbd> skip</button>\
         <button name=\"grade\" value=\"undo\" data-key=\"u\" formnovalidate><kbd>u</kbd> undo</button></form>",
        escape(&next.query_id),
        escape(&next.memory_id),
        joined(&buttons)
    ));
    let body = [
        Html(format!(
            "<p>Query: <strong>{}</strong> (result {} of {})</p>",
            escape(&next.query),
            next.position,
            next.of
        )),
        Html(format!(
            "<blockquote><strong>{}</strong><br>{}</blockquote>",
            escape(next.title.as_deref().unwrap_or(&next.memory_id)),
            escape(next.text.as_deref().unwrap_or("Text not available."))
        )),
        form,
        summary,
    ];
    frame("/retrieval", "Judge results", &body)
}

#[cfg(test)]
mod tests {
    use satiety_engine::retrieval::QueryDelta;

    use super::*;

    #[test]
    fn the_chart_of_many_queries_has_both_ends() {
        let changes = |queries: u32| RunChanges {
            measure: "ndcg@10".into(),
            before: "a".into(),
            now: "b".into(),
            queries: (0..queries)
                .map(|number| QueryDelta {
                    query_id: format!("q{number}-"),
                    query: None,
                    before: f64::from(queries),
                    now: f64::from(2 * number),
                })
                .collect(),
        };
        let few = blocks(&[differences(&changes(150))]).0;
        assert!(few.contains("q149-") && !few.contains("are drawn"), "{few}");
        let many = blocks(&[differences(&changes(5000))]).0;
        for (query, is_drawn) in [
            ("q0-", true),
            ("q99-", true),
            ("q100-", false),
            ("q4899-", false),
            ("q4900-", true),
        ] {
            assert_eq!(many.contains(query), is_drawn, "{query}");
        }
        assert!(many.contains("5000 queries: 2499 improved, 2500 got worse. The 100 at each end are drawn."));
    }
}
