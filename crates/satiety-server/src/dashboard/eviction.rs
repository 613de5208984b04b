//! Eviction pages: contexts, exclusions, and how well they were predicted.

use jiff::Timestamp;
use satiety::eviction::features::Term;
use satiety::eviction::{EvictionCandidate, EvictionExclusion, EvictionFeedback, EvictionProposal, Timeline};
use satiety_engine::eviction::{Feedback, RECENT_PROPOSALS, Scorers};
use satiety_engine::lists::ScopeList;
use satiety_report::document::{badge, link, or_dash};
use satiety_report::documents::eviction;
use satiety_report::html::blocks;
use satiety_report::{Block, Table, Text, Tone, row};

use serde_json::json;

use super::shell::{ago, count, empty_state, frame, lead, segment, short_id, trail};
use super::table::{Address, Column, Filter, List, number_column, text_column};

const COLUMNS: [Column; 4] = [
    text_column("context"),
    number_column("turn"),
    number_column("items"),
    number_column("open proposals"),
];

/// Contexts, scorer versions and feedback.
pub(super) fn list_page(
    address: &Address,
    found: &ScopeList,
    feedback: &Feedback,
    scorers: &Scorers,
) -> String {
    if found.scopes.is_empty() && address.is_bare() {
        let hint = empty_state(
            "No contexts yet. Add items, then propose what to drop:",
            "satiety evict add NAME items.json\nsatiety evict propose NAME --budget TOKENS",
        );
        return frame("/eviction", "Eviction", &[hint]);
    }
    let rows = found.scopes.iter().map(|scope| {
        let cells = row![
            link(scope_path(&scope.scope_id), &scope.scope_id),
            scope.turn.to_string(),
            scope.items.to_string(),
            scope.open_proposals.to_string(),
        ];
        cells.into()
    });
    let list = List {
        address,
        one: "context",
        label: "contexts",
        columns: &COLUMNS,
        default_sort: "",
        filters: vec![Filter::Search("Search contexts")],
        rows: rows.collect(),
        next: found.next.as_ref().map(|(at, id)| json!([at, id]).to_string()),
        action: None,
    };
    let report = feedback.report.as_ref();
    let learned = eviction::feedback(feedback.answered, feedback.timed_out, feedback.open, report);
    let proposals = feedback.answered + feedback.timed_out + feedback.open;
    let exclusions = latest_only(proposals).into_iter().chain(learned.blocks);
    let body = [
        Block::section("Scorers", vec![Block::Table(versions(scorers))]),
        Block::section("Exclusions", exclusions.collect()),
    ];
    let lead = lead(
        "Contexts of agents, the scorers that choose what to drop, and how often agents excluded an item from eviction.",
    );
    frame("/eviction", "Eviction", &[lead, list.render(), blocks(&body)])
}

/// Says that older proposals are left out; `None` if there are none.
fn latest_only(proposals: usize) -> Option<Block> {
    let is_full = u32::try_from(proposals).is_ok_and(|proposals| proposals >= RECENT_PROPOSALS);
    is_full.then(|| Block::text(format!("The latest {RECENT_PROPOSALS} proposals.")))
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
    let document = eviction::timeline(scope_id, timeline);
    let path = scope_path(scope_id);
    let links = timeline.rows.iter().rev().map(|row| {
        let to = format!("{path}/proposals/{}", segment(&row.proposal_id));
        let words = format!(
            "turn {}, {}",
            row.turn_number,
            count(row.items.len(), "item", "items")
        );
        link(to, words)
    });
    let links: Vec<Text> = links.collect();
    let mut body: Vec<Block> = latest_only(timeline.rows.len()).into_iter().collect();
    body.extend(document.blocks);
    if !links.is_empty() {
        body.push(Block::details(
            "Why each item was proposed",
            vec![Block::List(links)],
        ));
    }
    frame(
        "/eviction",
        &format!("Context {scope_id}"),
        &[trail(&[("/eviction", "Eviction")]), blocks(&body)],
    )
}

fn scope_path(scope_id: &str) -> String {
    format!("/eviction/{}", segment(scope_id))
}

/// One proposal: its items, what became of them, and the values that the scorer saw.
pub(super) fn proposal_page(
    proposal: &EvictionProposal,
    feedback: Option<&EvictionFeedback>,
    now: Timestamp,
) -> String {
    let path = scope_path(&proposal.scope_id);
    let state = feedback.map_or_else(
        || badge(Tone::Unsure, "open"),
        |feedback| badge(Tone::Plain, feedback.resolved_by.name().replace('_', " ")),
    );
    let facts = Block::fields([
        ("turn", Some(proposal.turn_number.to_string().into())),
        ("proposed", Some(ago(proposal.proposed_at, now))),
        ("resolved by", Some(state)),
        ("tokens to free", Some(proposal.need_tokens.to_string().into())),
        (
            "tokens freed",
            feedback.map(|feedback| feedback.freed_tokens.to_string().into()),
        ),
        ("scorer", Some((&proposal.scorer_model).into())),
        (
            "share chosen at random",
            (proposal.exploration > 0.0).then(|| format!("{:.2}", proposal.exploration).into()),
        ),
        (
            "tokens missing",
            proposal
                .shortfall
                .as_ref()
                .map(|shortfall| shortfall.missing_tokens.to_string().into()),
        ),
    ]);
    let items = proposal.candidates.iter().map(|item| candidate(item, feedback));
    let about = "The least relevant items per token are proposed first. Relevance is the probability that an item is needed \
        again, from the values below.";
    let body = [
        trail(&[("/eviction", "Eviction"), (&path, &proposal.scope_id)]),
        blocks(&[
            facts,
            Block::section(
                "Items",
                std::iter::once(Block::text(about)).chain(items).collect(),
            ),
        ]),
    ];
    let title = format!("Proposal {}", short_id(&proposal.proposal_id));
    frame("/eviction", &title, &body)
}

fn candidate(item: &EvictionCandidate, feedback: Option<&EvictionFeedback>) -> Block {
    let exclusion = |list: &[EvictionExclusion]| {
        let found = list.iter().find(|one| one.ctx_id == item.ctx_id);
        found.map(|one| one.exclude_reason.clone().unwrap_or_default())
    };
    let (tone, fate, reason) = match feedback {
        None => (Tone::Unsure, "proposed", None),
        Some(feedback) => {
            if let Some(reason) = exclusion(&feedback.excluded) {
                (Tone::Good, "excluded", Some(reason))
            } else if let Some(reason) = exclusion(&feedback.overruled) {
                (Tone::Unsure, "evicted although excluded", Some(reason))
            } else if feedback.pinned_since.contains(&item.ctx_id) {
                (Tone::Good, "pinned since", None)
            } else {
                (Tone::Plain, "evicted", None)
            }
        }
    };
    let reason = reason.filter(|reason| !reason.is_empty());
    let summary = Text::from(&item.ctx_id)
        .then(format!(
            ", {} {}, {} tokens, relevance {:.2} ",
            item.zone, item.kind, item.token_count, item.relevance_score
        ))
        .then(badge(tone, fate));
    let mut parts = vec![Block::text(&item.snippet)];
    parts.extend(reason.map(|reason| Block::text(format!("Reason of the exclusion: {reason}"))));
    let rows = Term::ALL
        .iter()
        .zip(item.features)
        .map(|(term, value)| row![term.name().replace('_', " "), format!("{value:.3}")]);
    parts.push(Block::text(format!(
        "Unused for {} turns; in the proposal with probability {:.2}.",
        item.age_turns, item.propensity
    )));
    parts.push(Block::Table(Table::new(&["value", ""], &[1], rows)));
    Block::details(summary, parts)
}
