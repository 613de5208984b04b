//! Research pages: the list, one run with its novelty curve and sources, one round with its results, and one passage in
//! its page.

use jiff::Timestamp;
use satiety::research::{RoundOutcome, RoundRecord, StopReason};
use satiety_engine::lists::ResearchList;
use satiety_engine::research::StoredResearch;
use satiety_report::document::{badge, dim, link, or_dash};
use satiety_report::documents::research;
use satiety_report::html::{Html, blocks};
use satiety_report::{Block, Table, Text, Tone, row};
use serde_json::json;

use super::passage::{Passage, cited_sources};
use super::shell::{ago, count, empty_state, frame, neighbors, segment, trail};
use super::table::{Address, Column, Filter, List, number_column, text_column};

const COLUMNS: [Column; 5] = [
    text_column("task"),
    text_column("source"),
    number_column("rounds"),
    text_column("stop reason"),
    text_column("started"),
];

/// Maximum number of characters of a passage in a list.
const EXCERPT: usize = 160;

/// List of stored runs.
pub(super) fn list_page(address: &Address, found: &ResearchList, now: Timestamp) -> String {
    if found.runs.is_empty() && address.is_bare() {
        let hint = empty_state(
            "No runs yet. Search a directory:",
            "satiety research \"how do heat pumps cope with cold climates\" --in DIR",
        );
        return frame("/research", "Research", &[hint]);
    }
    let rows = found.runs.iter().map(|run| {
        let reason = run.stop_reason.as_deref();
        let cells = row![
            link(run_path(&run.run_id), &run.task),
            &run.source,
            run.rounds.to_string(),
            reason.map_or_else(
                || badge(Tone::Unsure, "in progress"),
                |why| stop_words(why).into()
            ),
            ago(run.started_at, now),
        ];
        cells.into()
    });
    let list = List {
        address,
        one: "run",
        label: "runs",
        columns: &COLUMNS,
        default_sort: "",
        filters: vec![Filter::Search("Search tasks")],
        rows: rows.collect(),
        next: found.next.as_ref().map(|(at, id)| json!([at, id]).to_string()),
        action: None,
    };
    frame("/research", "Research", &[list.render()])
}

/// Describes a stored stop reason; those of other versions stay as they are.
fn stop_words(reason: &str) -> String {
    let parsed: Result<StopReason, _> = serde_json::from_value(json!({"kind": reason}));
    parsed.map_or_else(|_| reason.replace('_', " "), |reason| reason.words().to_owned())
}

/// Address of a run.
pub(super) fn run_path(id: &str) -> String {
    format!("/research/{}", segment(id))
}

/// Rounds of a run: those of its report, or those so far.
pub(super) fn rounds(kept: &StoredResearch) -> &[RoundRecord] {
    kept.report.as_ref().map_or(&kept.rounds, |report| &report.rounds)
}

/// The round with a number; rounds count from 1.
pub(super) fn round_numbered(kept: &StoredResearch, number: u32) -> Option<&RoundRecord> {
    rounds(kept).iter().find(|round| round.round == number)
}

pub(super) fn detail_page(kept: &StoredResearch, now: Timestamp) -> String {
    let report = kept.report.as_ref();
    let rounds = rounds(kept);
    let mut body = vec![match report {
        Some(report) => Block::verdict(Tone::Good, "Stopped.", &*report.stop_words, &[]),
        None => Block::verdict(
            Tone::Unsure,
            "In progress",
            "or interrupted: resume with `satiety research --resume RUN`",
            &[],
        ),
    }];
    let started = Text::from(format!("Source: {}, started ", kept.source))
        .then(ago(kept.started_at, now))
        .then(".");
    body.push(Block::text(started));
    // A single round is a number, not a chart.
    if rounds.len() > 1 {
        body.push(research::novelty(rounds));
    }
    body.extend(report.map(|report| Block::section("Findings", research::answers(report))));
    body.push(Block::section("Rounds", vec![round_table(kept)]));
    if let Some(report) = report {
        body.push(Block::section("Sources", vec![source_table(kept)]));
        if !report.notes.is_empty() {
            body.push(Block::section("Notes", vec![Block::list(&report.notes)]));
        }
    }
    frame("/research", &kept.task, &[blocks(&body)])
}

fn round_table(kept: &StoredResearch) -> Block {
    let path = run_path(&kept.run_id);
    let rows = rounds(kept).iter().map(|round| {
        row![
            link(
                format!("{path}/rounds/{}", round.round),
                format!("Round {}", round.round)
            ),
            &round.query,
            round.results.len(),
            round.new_results,
            or_dash(round.verdict.novelty, |share| format!("{share:.2}")),
            round.verdict.words(),
        ]
    });
    let header = ["round", "query", "results", "kept", "novelty", "decision"];
    Block::Table(Table::new(&header, &[2, 3, 4], rows))
}

/// All sources, each with a link to its passage.
fn source_table(kept: &StoredResearch) -> Block {
    let sources = kept.report.iter().flat_map(|report| &report.sources);
    let rows = sources.map(|source| {
        let title = if source.title.trim().is_empty() {
            &source.url
        } else {
            &source.title
        };
        // The round that returned the source first has its passage.
        let place = round_numbered(kept, source.round)
            .and_then(|round| round.results.iter().position(|hit| hit.url == source.url));
        let title: Text = match place {
            Some(place) => link(passage_path(&kept.run_id, source.round, place + 1), title),
            None => title.into(),
        };
        let cited = if source.cited {
            badge(Tone::Good, "yes")
        } else {
            "".into()
        };
        row![source.number, title, &source.url, source.round, cited]
    });
    let header = ["no.", "title", "address", "round", "cited"];
    Block::Table(Table::new(&header, &[0, 3], rows))
}

/// Address of a result of a round; results count from 1.
pub(super) fn passage_path(run_id: &str, round: u32, number: usize) -> String {
    format!("{}/rounds/{round}/results/{number}", run_path(run_id))
}

/// One round: what was searched, what the search gate decided, and the results.
pub(super) fn round_page(kept: &StoredResearch, round: &RoundRecord) -> String {
    let path = run_path(&kept.run_id);
    let numbers: Vec<u32> = rounds(kept).iter().map(|round| round.round).collect();
    let outcome = match &round.outcome {
        RoundOutcome::Found => count(round.results.len(), "result", "results"),
        RoundOutcome::Empty => "no results".into(),
        RoundOutcome::Failed { error } => format!("failed: {error}"),
    };
    let share = |value: Option<f64>| value.map(|value| Text::from(format!("{value:.2}")));
    let facts = Block::fields([
        ("outcome", Some(outcome.into())),
        ("kept", Some(round.new_results.to_string().into())),
        ("novelty", share(round.verdict.novelty)),
        (
            "origin",
            Some(
                if round.planned {
                    "planned"
                } else {
                    "asked because of a gap"
                }
                .into(),
            ),
        ),
        ("unseen share", share(round.unseen.share)),
        (
            "model",
            (round.tokens > 0).then(|| format!("{} tokens, cost {:.4}", round.tokens, round.money).into()),
        ),
        ("duration", Some(format!("{:.1} s", round.seconds).into())),
    ]);
    let (tone, word) = if round.verdict.accepted {
        (Tone::Good, "Kept.")
    } else {
        (Tone::Plain, "Not kept.")
    };
    let mut body = vec![
        trail(&[("/research", "Research"), (&path, &kept.task)]),
        neighbors(
            "Rounds",
            &[
                previous(&numbers, round.round)
                    .map(|number| (format!("{path}/rounds/{number}"), "← Previous round", "k")),
                following(&numbers, round.round)
                    .map(|number| (format!("{path}/rounds/{number}"), "Next round →", "j")),
            ],
        ),
        blocks(&[Block::verdict(tone, word, round.verdict.words(), &[]), facts]),
    ];
    if !round.results.is_empty() {
        body.push(result_list(kept, round));
    }
    if !round.summary.trim().is_empty() {
        body.push(blocks(&[Block::section(
            "Summary after this round",
            vec![summary(&round.summary)],
        )]));
    }
    frame(
        "/research",
        &format!("Round {}: {}", round.round, round.query),
        &body,
    )
}

/// Summary of a round: a list if it is written as one.
fn summary(text: &str) -> Block {
    let items: Vec<Text> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .map(Text::from)
        .collect();
    if items.is_empty() {
        return Block::text(text);
    }
    Block::List(items)
}

fn result_list(kept: &StoredResearch, round: &RoundRecord) -> Html {
    let rows = round.results.iter().enumerate().map(|(place, hit)| {
        let title = if hit.title.trim().is_empty() {
            &hit.url
        } else {
            &hit.title
        };
        let cited: Vec<String> = cited_sources(kept, &hit.url)
            .map(|number| format!("[{number}]"))
            .collect();
        row![
            link(passage_path(&kept.run_id, round.round, place + 1), title),
            place + 1,
            // Addresses are shown, not linked: search results are untrusted, and a click would leave this machine.
            &hit.url,
            dim(excerpt(&hit.snippet)),
            cited.join(" "),
        ]
    });
    let header = ["passage", "rank", "address", "text", "cited"];
    blocks(&[Block::section(
        "Results",
        vec![Block::Table(Table::new(&header, &[1], rows))],
    )])
}

fn excerpt(text: &str) -> String {
    let mut letters = text.split_whitespace().flat_map(|word| word.chars().chain([' ']));
    let kept: String = letters.by_ref().take(EXCERPT).collect();
    if letters.next().is_some() {
        return format!("{}…", kept.trim_end());
    }
    kept.trim_end().to_owned()
}

/// One result of a round: its passage in the page that it is from.
pub(super) fn passage_page(kept: &StoredResearch, round: &RoundRecord, number: usize) -> Option<String> {
    let passage = Passage::find(kept, round, number)?;
    let path = run_path(&kept.run_id);
    let round_path = format!("{path}/rounds/{}", round.round);
    let at = |number: usize| passage_path(&kept.run_id, round.round, number);
    let before = (number > 1).then(|| (at(number - 1), "← Previous result", "k"));
    let after = (number < round.results.len()).then(|| (at(number + 1), "Next result →", "j"));
    let mut body = vec![
        trail(&[
            ("/research", "Research"),
            (&path, &kept.task),
            (&round_path, &format!("Round {}", round.round)),
        ]),
        neighbors("Results", &[before, after]),
    ];
    body.push(blocks(&passage.blocks()));
    Some(frame("/research", passage.title(), &body))
}

fn previous(numbers: &[u32], from: u32) -> Option<u32> {
    numbers.iter().copied().filter(|number| *number < from).max()
}

fn following(numbers: &[u32], from: u32) -> Option<u32> {
    numbers.iter().copied().filter(|number| *number > from).min()
}
