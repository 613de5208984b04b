//! Research pages: the list, and one run with its rounds, novelty curve and sources.

use jiff::Timestamp;
use satiety::research::StopReason;
use satiety_engine::research::{ResearchSummary, StoredResearch};
use satiety_report::document::{badge, link};
use satiety_report::documents::research;
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Text, Tone, row};
use serde_json::json;

use super::shell::{ago, empty_state, frame, segment};

/// List of stored runs.
pub(super) fn list_page(runs: &[ResearchSummary], now: Timestamp) -> String {
    if runs.is_empty() {
        let hint = empty_state(
            "No runs yet. Search a directory:",
            "satiety research \"how do heat pumps cope with cold climates\" --in DIR",
        );
        return frame("/research", "Research", &[hint]);
    }
    let rows = runs.iter().map(|run| {
        let reason = run.stop_reason.as_deref();
        row![
            link(format!("/research/{}", segment(&run.run_id)), &run.task),
            &run.source,
            run.rounds.to_string(),
            reason.map_or_else(
                || badge(Tone::Unsure, "in progress"),
                |why| stop_words(why).into()
            ),
            ago(run.started_at, now),
        ]
    });
    let header = ["task", "source", "rounds", "stop reason", "started"];
    let table = Block::Table(Table::new(&header, &[2], rows));
    frame("/research", "Research", &[blocks(&[table])])
}

/// Describes a stored stop reason; those of other versions stay as they are.
fn stop_words(reason: &str) -> String {
    let parsed: Result<StopReason, _> = serde_json::from_value(json!({"kind": reason}));
    parsed.map_or_else(|_| reason.replace('_', " "), |reason| reason.words().to_owned())
}

pub(super) fn detail_page(kept: &StoredResearch, now: Timestamp) -> String {
    let report = kept.report.as_ref();
    let rounds = report.map_or(&kept.rounds, |report| &report.rounds);
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
    body.push(research::novelty(rounds));
    body.extend(report.map(|report| Block::section("Findings", research::answers(report))));
    let details = rounds.iter().map(research::round).collect();
    body.push(Block::section("Round by round", details));
    if let Some(report) = report {
        body.push(Block::section("Sources", vec![research::sources(report)]));
        if !report.notes.is_empty() {
            body.push(Block::section("Notes", vec![Block::list(&report.notes)]));
        }
    }
    frame("/research", &kept.task, &[blocks(&body)])
}
