//! Pages of logged memory searches: the list, and one search with its results, channels and what was read afterwards.

use jiff::Timestamp;
use satiety_engine::lists::{LoggedSearch, SearchDetail, SearchLog};
use satiety_report::document::{badge, link, or_dash};
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Text, Tone, row};
use serde_json::{Value, json};

use super::shell::{ago, empty_state, frame, lead, segment, trail};
use super::table::{Address, Column, Filter, List, number_column, text_column};

const COLUMNS: [Column; 7] = [
    text_column("search"),
    number_column("results"),
    text_column("channels"),
    number_column("quality"),
    number_column("latency"),
    text_column("session"),
    text_column("asked"),
];

fn search_path(id: &str) -> String {
    format!("/memory/queries/{}", segment(id))
}

pub(super) fn list_page(address: &Address, found: &SearchLog, now: Timestamp) -> String {
    let trail = trail(&[("/memory", "Memory")]);
    if found.searches.is_empty() && address.is_bare() {
        let hint = empty_state(
            "No searches yet. Search the memory:",
            "satiety memory search \"deploys\"",
        );
        return frame("/memory", "Memory searches", &[trail, hint]);
    }
    let rows = found.searches.iter().map(|search| {
        let channels: Vec<&str> = search.channels.iter().map(|(name, _)| name.as_str()).collect();
        let cells = row![
            link(search_path(&search.query_id), &*search.query),
            search.results.len(),
            channels.join(", "),
            or_dash(search.quality, |quality| format!("{quality:.2}")),
            or_dash(search.latency_ms, |latency| format!("{latency:.1} ms")),
            search.session.as_deref().unwrap_or_default(),
            ago(search.at, now),
        ];
        cells.into()
    });
    let list = List {
        address,
        one: "search",
        label: "searches",
        columns: &COLUMNS,
        default_sort: "",
        filters: vec![Filter::Search("Search words")],
        rows: rows.collect(),
        next: found.next.as_ref().map(|(at, id)| json!([at, id]).to_string()),
        action: None,
    };
    let lead = lead("Searches of the memory, newest first. Quality is an estimate from 0 to 1.");
    frame("/memory", "Memory searches", &[trail, lead, list.render()])
}

pub(super) fn detail_page(found: &SearchDetail, now: Timestamp) -> String {
    let search = &found.search;
    let mut body = Vec::new();
    if let Some(why) = &search.degraded {
        body.push(Block::verdict(Tone::Unsure, "Degraded", why, &[]));
    }
    if search.results.is_empty() {
        body.push(Block::verdict(
            Tone::Unsure,
            "No results",
            "no memory was found",
            &[],
        ));
    } else {
        body.push(Block::section("Results", vec![results(found)]));
    }
    body.push(Block::section("Afterwards", vec![afterwards(found, now)]));
    body.push(Block::section("The search", vec![facts(search, now)]));
    let trail = trail(&[("/memory", "Memory"), ("/memory/queries", "Searches")]);
    frame("/memory", &search.query, &[trail, blocks(&body)])
}

fn memory_link(found: &SearchDetail, id: &str) -> Text {
    let title = found.titles.iter().find(|(known, _)| known == id);
    match title {
        Some((_, title)) => link(format!("/memory/{}", segment(id)), title),
        None => Text::from(format!("{id} (deleted)")),
    }
}

/// Results by rank, with the channels that found each and whether it was read.
fn results(found: &SearchDetail) -> Block {
    let rows = found.search.results.iter().enumerate().map(|(place, id)| {
        let channels = found
            .search
            .channels
            .iter()
            .filter(|(_, ids)| ids.contains(id))
            .map(|(name, _)| name.as_str());
        let channels: Vec<&str> = channels.collect();
        let why = found.search.found.get(place);
        // Searches of earlier versions have no ranks.
        let channels = match why {
            Some(why) => {
                let ranks = why.ranks.iter();
                let ranks: Vec<String> = ranks
                    .map(|(channel, rank)| format!("{channel} rank {rank}"))
                    .collect();
                ranks.join(", ")
            }
            None => channels.join(", "),
        };
        let number = |value: Option<f64>, digits: usize| or_dash(value, |value| format!("{value:.digits$}"));
        let was = |kind: &str| {
            let events = &mut found.events.iter();
            events.any(|event| event.kind == kind && event.memory_id.as_deref() == Some(id))
        };
        let used: Text = if was("read_after_search") || was("reference") || was("validate_useful") {
            badge(Tone::Good, "used")
        } else if was("validate_not_useful") {
            badge(Tone::Bad, "not useful")
        } else {
            "".into()
        };
        row![
            place + 1,
            memory_link(found, id),
            channels,
            number(why.and_then(|why| why.score), 3),
            number(why.and_then(|why| why.confidence), 2),
            used
        ]
    });
    let header = ["rank", "memory", "found by", "score", "confidence", ""];
    Block::Table(Table::new(&header, &[0, 3, 4], rows))
}

fn afterwards(found: &SearchDetail, now: Timestamp) -> Block {
    if found.events.is_empty() {
        return Block::text("No feedback yet: no result was read, and the search was not repeated.");
    }
    let rows = found.events.iter().map(|event| {
        let words = match event.kind.as_str() {
            "read_after_search" => "read",
            "re_search" => "searched again",
            "scroll_past" => "skipped",
            "reference" => "referenced",
            "validate_useful" => "marked useful",
            "validate_not_useful" => "marked not useful",
            other => other,
        };
        let what = match (&event.memory_id, &event.followed_by) {
            (Some(id), _) => memory_link(found, id),
            (None, Some(query)) => link(search_path(query), "next search"),
            (None, None) => "".into(),
        };
        let rank = event.rank.map_or_else(String::new, |rank| rank.to_string());
        row![words, what, rank, ago(event.at, now)]
    });
    Block::Table(Table::new(&["event", "memory", "rank", "when"], &[2], rows))
}

fn facts(search: &LoggedSearch, now: Timestamp) -> Block {
    let weights = search.weights.as_ref().and_then(Value::as_object).map(|weights| {
        let weights: Vec<String> = weights
            .iter()
            .map(|(channel, weight)| format!("{channel} {weight}"))
            .collect();
        Text::from(weights.join(", "))
    });
    Block::fields([
        ("intent", search.intent.as_ref().map(Text::from)),
        ("mode", search.mode.as_ref().map(Text::from)),
        ("weights", weights),
        (
            "quality",
            search
                .quality
                .map(|quality| format!("{quality:.3} (0 to 1, estimated)").into()),
        ),
        (
            "latency",
            search.latency_ms.map(|latency| format!("{latency:.1} ms").into()),
        ),
        ("asked by", Some((&search.tool).into())),
        ("session", search.session.as_ref().map(Text::from)),
        ("asked", Some(ago(search.at, now))),
    ])
}
