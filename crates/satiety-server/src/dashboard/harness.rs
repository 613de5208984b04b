//! Harness page: saturation over cycles, non-discriminating cases, and pending approvals. Approving needs a
//! signature on the approver's own terminal; this page shows the command and has no button.

use jiff::Timestamp;
use satiety::harness::{Entry, Phase, Proposal};
use satiety_engine::harness::{CycleHead, HarnessStatus, History, changes};
use satiety_report::document::{link, or_dash};
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Text, Tone, row};

use super::harness_cycle::{case_path, cycle_path, level};
use super::shell::{ago, count, empty_state, frame, short_id};

/// Number of log entries shown at first.
const LATEST: usize = 6;

pub(super) fn page(
    status: &HarnessStatus,
    history: &History,
    proposal: Option<&Proposal>,
    now: Timestamp,
) -> String {
    let mut body = status.blocks(|case| linked_case(status, case));
    body.extend(open_expansion(status, proposal, now));
    body.extend(cycles(&history.entries, now));
    if !history.entries.is_empty() {
        body.push(Block::section("History", log(&history.entries, now)));
    }
    frame("/harness", "Harness", &[blocks(&body)])
}

/// Page of a server without a harness.
pub(super) fn absent(why: &str) -> String {
    let body = [
        blocks(&[Block::text(why)]),
        empty_state(
            "No harness configured. Start the server with the directory of your suites:",
            "SATIETY_HARNESS_FOLDER=DIR satiety serve",
        ),
    ];
    frame("/harness", "Harness", &body)
}

/// A case that the measurement names as `suite/case`, with a link to the versions that passed it.
fn linked_case(status: &HarnessStatus, name: &str) -> Text {
    // Ids of suites may contain slashes.
    let found = status.suites.iter().find_map(|suite| {
        let case = name.strip_prefix(&suite.suite_id)?.strip_prefix('/')?;
        Some(case_path(&suite.suite_id, case, None))
    });
    found.map_or_else(|| name.into(), |to| link(to, name))
}

/// Recorded cycles, newest first.
fn cycles(entries: &[Entry], now: Timestamp) -> Option<Block> {
    let newest_first: Vec<CycleHead> = entries.iter().rev().filter_map(CycleHead::from_entry).collect();
    if newest_first.is_empty() {
        return None;
    }
    let rows = newest_first.iter().map(|cycle| {
        row![
            link(cycle_path(&cycle.cycle_id), short_id(&cycle.cycle_id)),
            ago(cycle.at, now),
            or_dash(cycle.score, |score| format!("{score:.2}")),
            level(&cycle.level),
            cycle.action.replace('_', " ").to_lowercase(),
            if cycle.is_unverified {
                "metrics from a file"
            } else {
                ""
            },
        ]
    });
    let header = ["cycle", "recorded", "saturation", "level", "action", ""];
    let table = Table::new(&header, &[2], rows);
    let lead = "A cycle opens its cases, and a case the versions that passed it.";
    Some(Block::section(
        "Cycles",
        vec![Block::text(lead), Block::Table(table)],
    ))
}

fn open_expansion(status: &HarnessStatus, proposal: Option<&Proposal>, now: Timestamp) -> Option<Block> {
    let open = status.expansion.as_ref()?;
    let mut parts = vec![Block::text(format!("Reason: {}.", open.trigger_reason))];
    if let Some(proposal) = proposal {
        let hash: String = proposal.hash().chars().take(12).collect();
        let proposed = Text::from(format!("Proposed by {}, ", proposal.author.words()))
            .then(ago(proposal.created_at, now))
            .then(format!("; hash `{hash}`."));
        parts.push(Block::text(proposed));
        parts.push(changes(&proposal.diff.changes));
    }
    if open.phase == Phase::AwaitingApproval {
        let how = "It needs a signature with a key listed in the repository. Sign it on your own terminal:";
        parts.push(Block::verdict(Tone::Unsure, "Awaiting approval.", how, &[]));
        parts.push(Block::Verbatim("satiety harness approve --key FILE".into()));
        parts.push(Block::Verbatim("satiety harness reject --reason \"…\"".into()));
    }
    Some(Block::section("Open expansion", parts))
}

fn log(entries: &[Entry], now: Timestamp) -> Vec<Block> {
    let newest_first: Vec<&Entry> = entries.iter().rev().collect();
    let (latest, earlier) = newest_first.split_at(newest_first.len().min(LATEST));
    let table = |entries: &[&Entry]| {
        let rows = entries.iter().map(|entry| {
            let hash: String = entry.hash.chars().take(12).collect();
            row![entry.seq.to_string(), ago(entry.at, now), &entry.kind, hash]
        });
        Block::Table(Table::new(&["no.", "time", "event", "hash"], &[0], rows))
    };
    let mut parts = vec![table(latest)];
    if !earlier.is_empty() {
        let summary = format!("Earlier: {}", count(earlier.len(), "entry", "entries"));
        parts.push(Block::details(summary, vec![table(earlier)]));
    }
    parts
}
