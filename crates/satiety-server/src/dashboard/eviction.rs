//! Context that was proposed to go: scopes, what was kept back, how well that was foretold.

use satiety::eviction::Timeline;
use satiety_engine::eviction::{Feedback, ScopeListing, Scorers};

use super::shell::{badge, figure, frame, nothing, segment, short_id};
use crate::html::{Html, escape, link, section, table_of};
use crate::reports::{feedback_parts, timeline_parts};

/// All scopes, with what was learned over them.
pub(super) fn all(scopes: &ScopeListing, feedback: &Feedback, scorers: &Scorers) -> String {
    if scopes.scopes.is_empty() {
        let hint = nothing("No context is kept yet.", "satiety evict add SCOPE …");
        return frame("/eviction", "Eviction", &[hint]);
    }
    let rows = scopes.scopes.iter().map(|scope| {
        vec![
            link(
                &format!("/eviction/{}", segment(&scope.scope_id)),
                &scope.scope_id,
            ),
            escape(&scope.turn.to_string()),
            escape(&scope.items.to_string()),
            escape(&scope.open_proposals.to_string()),
        ]
    });
    let scopes = table_of(&["scope", "turn", "items", "open proposals"], &[1, 2, 3], rows);
    let mut body = vec![
        section("Scopes", &[scopes]),
        section("Scorers", &[versions(scorers)]),
    ];
    body.push(section("What is kept back", &feedback_parts(feedback)));
    frame("/eviction", "Eviction", &body)
}

fn versions(scorers: &Scorers) -> Html {
    let rows = scorers.versions.iter().map(|one| {
        let state = if one.version == scorers.in_force {
            badge("good", "in force")
        } else {
            badge("plain", "not in force")
        };
        let gain = match one.gain_shown {
            Some(true) => "shown",
            Some(false) => "not shown",
            None => "–",
        };
        vec![
            escape(&short_id(&one.version)),
            state,
            escape(&one.variant),
            escape(&figure(one.auc)),
            escape(gain),
        ]
    });
    table_of(&["version", "state", "variant", "AUC", "gain"], &[3], rows)
}

/// The proposals of one scope.
pub(super) fn one(scope_id: &str, timeline: &Timeline) -> String {
    frame(
        "/eviction",
        &format!("Scope {scope_id}"),
        &timeline_parts(timeline),
    )
}
