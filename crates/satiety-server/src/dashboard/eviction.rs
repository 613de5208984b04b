//! Eviction pages: contexts, exclusions, and how well they were predicted.

use satiety::eviction::Timeline;
use satiety_engine::eviction::{Feedback, ScopeListing, Scorers};
use satiety_report::document::{badge, link, or_dash};
use satiety_report::documents::eviction;
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Tone, row};

use super::shell::{empty_state, frame, lead, segment, short_id};

/// All contexts, scorer versions and feedback.
pub(super) fn list_page(scopes: &ScopeListing, feedback: &Feedback, scorers: &Scorers) -> String {
    if scopes.scopes.is_empty() {
        let hint = empty_state(
            "No contexts yet. Add items, then propose what to drop:",
            "satiety evict add NAME items.json\nsatiety evict propose NAME --budget TOKENS",
        );
        return frame("/eviction", "Eviction", &[hint]);
    }
    let rows = scopes.scopes.iter().map(|scope| {
        let to = format!("/eviction/{}", segment(&scope.scope_id));
        row![
            link(to, &scope.scope_id),
            scope.turn.to_string(),
            scope.items.to_string(),
            scope.open_proposals.to_string(),
        ]
    });
    let scopes = Table::new(&["context", "turn", "items", "open proposals"], &[1, 2, 3], rows);
    let report = feedback.report.as_ref();
    let learned = eviction::feedback(feedback.answered, feedback.timed_out, feedback.open, report);
    let body = [
        Block::section("Contexts", vec![Block::Table(scopes)]),
        Block::section("Scorers", vec![Block::Table(versions(scorers))]),
        Block::section("Exclusions", learned.blocks),
    ];
    let lead = lead(
        "Contexts of agents, the scorers that choose what to drop, and how often agents excluded an item from eviction.",
    );
    frame("/eviction", "Eviction", &[lead, blocks(&body)])
}

fn versions(scorers: &Scorers) -> Table {
    let rows = scorers.versions.iter().map(|one| {
        let state = if one.version == scorers.in_force {
            badge(Tone::Good, "active")
        } else {
            badge(Tone::Plain, "inactive")
        };
        let gain = match one.gain_shown {
            Some(true) => "shown",
            Some(false) => "not shown",
            None => "-",
        };
        row![
            short_id(&one.version),
            state,
            &one.variant,
            or_dash(one.auc, |auc| format!("{auc:.3}")),
            gain,
        ]
    });
    Table::new(&["version", "state", "variant", "AUC", "gain"], &[3], rows)
}

/// Proposals of one context.
pub(super) fn detail_page(scope_id: &str, timeline: &Timeline) -> String {
    let timeline = eviction::timeline(scope_id, timeline);
    frame(
        "/eviction",
        &format!("Context {scope_id}"),
        &[blocks(&timeline.blocks)],
    )
}
