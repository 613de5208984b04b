//! The eval harness: its score over cycles, what is dead in it, and what waits for a person. Approving is signing with
//! a key on the person's own terminal; this page shows the command and has no button.

use satiety::harness::{Entry, Phase, Proposal};
use satiety_engine::harness::{HarnessStatus, History, changes};
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Tone, row};

use super::shell::{count, frame, moment, nothing};

/// Entries of the log that are shown at once.
const LATEST: usize = 6;

/// The page.
pub(super) fn page(status: &HarnessStatus, history: &History, proposal: Option<&Proposal>) -> String {
    let mut body = status.document().blocks;
    body.extend(waiting(status, proposal));
    body.push(Block::section("What happened", log(&history.entries)));
    frame("/harness", "Harness", &[blocks(&body)])
}

/// What stands where there is no harness.
pub(super) fn absent(why: &str) -> String {
    let body = [
        blocks(&[Block::text(why)]),
        nothing(
            "A folder of suites is a harness.",
            "satiety serve --harness FOLDER",
        ),
    ];
    frame("/harness", "Harness", &body)
}

fn waiting(status: &HarnessStatus, proposal: Option<&Proposal>) -> Option<Block> {
    let open = status.expansion.as_ref()?;
    let mut parts = vec![Block::text(format!("Why: {}.", open.trigger_reason))];
    if let Some(proposal) = proposal {
        parts.push(Block::text(format!(
            "Proposed by {}, {} UTC; hash `{}`.",
            proposal.author.words(),
            moment(proposal.created_at),
            proposal.hash().chars().take(12).collect::<String>()
        )));
        parts.push(changes(&proposal.diff.changes));
    }
    if open.phase == Phase::AwaitingApproval {
        let how =
            "Only a signature with a key that the repository names counts. Sign it on your own terminal:";
        parts.push(Block::verdict(Tone::Unsure, "This waits for a person.", how, &[]));
        parts.push(Block::Verbatim("satiety harness approve --key FILE".into()));
        parts.push(Block::Verbatim("satiety harness reject --reason \"…\"".into()));
    }
    Some(Block::section("An expansion is open", parts))
}

fn log(entries: &[Entry]) -> Vec<Block> {
    let newest_first: Vec<&Entry> = entries.iter().rev().collect();
    let (latest, earlier) = newest_first.split_at(newest_first.len().min(LATEST));
    let shown = |entries: &[&Entry]| {
        let rows = entries.iter().map(|entry| {
            let hash: String = entry.hash.chars().take(12).collect();
            row![entry.seq.to_string(), moment(entry.at), &entry.kind, hash]
        });
        Block::Table(Table::new(&["no.", "when (UTC)", "what", "hash"], &[0], rows))
    };
    let mut parts = vec![shown(latest)];
    if !earlier.is_empty() {
        let told = format!("Earlier: {}", count(earlier.len(), "entry", "entries"));
        parts.push(Block::details(told, vec![shown(earlier)]));
    }
    parts
}
