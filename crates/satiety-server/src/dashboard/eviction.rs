//! Context that was proposed to go: scopes, what was kept back, how well that was foretold.

use satiety::eviction::Timeline;
use satiety_engine::eviction::{Feedback, ScopeListing, Scorers};
use satiety_report::document::{badge, link, or_dash};
use satiety_report::documents::eviction;
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Tone, row};

use super::shell::{frame, nothing, segment, short_id};

/// All scopes, with what was learned over them.
pub(super) fn all(scopes: &ScopeListing, feedback: &Feedback, scorers: &Scorers) -> String {
    if scopes.scopes.is_empty() {
        let hint = nothing("No context is kept yet.", "satiety evict add SCOPE …");
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
    let scopes = Table::new(&["scope", "turn", "items", "open proposals"], &[1, 2, 3], rows);
    let report = feedback.report.as_ref();
    let learned = eviction::feedback(feedback.answered, feedback.timed_out, feedback.open, report);
    let body = [
        Block::section("Scopes", vec![Block::Table(scopes)]),
        Block::section("Scorers", vec![Block::Table(versions(scorers))]),
        Block::section("What is kept back", learned.blocks),
    ];
    frame("/eviction", "Eviction", &[blocks(&body)])
}

fn versions(scorers: &Scorers) -> Table {
    let rows = scorers.versions.iter().map(|one| {
        let state = if one.version == scorers.in_force {
            badge(Tone::Good, "in force")
        } else {
            badge(Tone::Plain, "not in force")
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

/// The proposals of one scope.
pub(super) fn one(scope_id: &str, timeline: &Timeline) -> String {
    let story = eviction::timeline(scope_id, timeline);
    frame(
        "/eviction",
        &format!("Scope {scope_id}"),
        &[blocks(&story.blocks)],
    )
}
