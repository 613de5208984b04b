//! Research runs: the list, and one with its rounds, novelty curve and sources.

use satiety_engine::research::{ResearchSummary, StoredResearch};
use satiety_report::document::{badge, link};
use satiety_report::documents::research;
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Tone, row};

use super::shell::{frame, moment, nothing, segment};

/// The runs of the store.
pub(super) fn all(runs: &[ResearchSummary]) -> String {
    if runs.is_empty() {
        let hint = nothing(
            "Nothing was searched for yet.",
            "satiety research \"TASK\" --in FOLDER",
        );
        return frame("/research", "Research", &[hint]);
    }
    let rows = runs.iter().map(|run| {
        let reason = run.stop_reason.as_deref();
        row![
            link(format!("/research/{}", segment(&run.run_id)), &run.task),
            &run.source,
            run.rounds.to_string(),
            reason.map_or_else(|| badge(Tone::Unsure, "under way"), |why| badge(Tone::Plain, why)),
            moment(run.started_at),
        ]
    });
    let header = ["task", "source", "rounds", "stopped because", "begun (UTC)"];
    let table = Block::Table(Table::new(&header, &[2], rows));
    frame("/research", "Research", &[blocks(&[table])])
}

/// One run.
pub(super) fn one(kept: &StoredResearch) -> String {
    let report = kept.report.as_ref();
    let rounds = report.map_or(&kept.rounds, |report| &report.rounds);
    let mut body = vec![match report {
        Some(report) => Block::verdict(Tone::Good, "Stopped.", &*report.stop_words, &[]),
        None => Block::verdict(
            Tone::Unsure,
            "Under way",
            "or interrupted: `satiety research --resume` goes on",
            &[],
        ),
    }];
    body.push(Block::text(format!(
        "Source {}, begun {} UTC.",
        kept.source,
        moment(kept.started_at)
    )));
    body.push(research::novelty(rounds));
    body.extend(report.map(|report| Block::section("What was found", research::answers(report))));
    let told = rounds.iter().map(research::round).collect();
    body.push(Block::section("Round by round", told));
    if let Some(report) = report {
        body.push(Block::section("Sources", vec![research::sources(report)]));
        if !report.notes.is_empty() {
            body.push(Block::section("Notes", vec![Block::list(&report.notes)]));
        }
    }
    frame("/research", &kept.task, &[blocks(&body)])
}
