//! Conversation pages: the list, and one conversation with its curves, claims and explanation.

use std::collections::BTreeMap;
use std::ops::Range;

use satiety::dialogue::{Report, Restatement, Round};
use satiety::explanation::{Explanation, Relation};
use satiety_engine::conversations::{ConversationSummary, StoredConversation};
use satiety_engine::lists::SortedPage;

use jiff::Timestamp;
use satiety_report::document::{badge, dim, link, or_dash};
use satiety_report::html::{Html, blocks, escape};
use satiety_report::series::{Lines, Series, Threshold};
use satiety_report::{Block, Chart, Text, Tone, row};

use serde_json::json;

use super::shell::{ago, empty_state, frame, lead, segment, signal_tone};
use super::table::{Address, Column, Filter, List, number_column, text_column};

/// Maximum number of rounds on a page.
const MAX_ROUNDS: usize = 200;
/// Maximum number of warnings on a page; the latest are shown.
const MAX_WARNINGS: usize = 100;

const COLUMNS: [Column; 6] = [
    text_column("conversation"),
    text_column("signal"),
    number_column("rounds"),
    number_column("saturation").sortable("score", true),
    text_column("profile"),
    text_column("last round").sortable("time", true),
];

/// List of stored conversations.
pub(super) fn list_page(
    address: &Address,
    found: &SortedPage<ConversationSummary>,
    now: Timestamp,
) -> String {
    if found.rows.is_empty() && address.is_bare() {
        let hint = empty_state(
            "No conversations yet. Score one and keep it:",
            "satiety score --record FILE",
        );
        return frame("/conversations", "Conversations", &[hint]);
    }
    let rows = found.rows.iter().map(|one| {
        let name = if one.topic.is_empty() {
            &one.conversation_id
        } else {
            &one.topic
        };
        let cells = row![
            link(format!("/conversations/{}", segment(&one.conversation_id)), name),
            badge(signal_tone(&one.signal), &one.signal),
            one.rounds.to_string(),
            or_dash(one.score, |score| format!("{score:.3}")),
            &one.profile,
            ago(one.updated_at, now),
        ];
        cells.into()
    });
    let list = List {
        address,
        one: "conversation",
        label: "conversations",
        columns: &COLUMNS,
        default_sort: "-time",
        filters: vec![
            Filter::Search("Search topics"),
            Filter::words("signal", "Signal", &["CONTINUE", "SHIP", "STOP", "ESCALATE"]),
        ],
        rows: rows.collect(),
        next: found.next.as_ref().map(|place| json!(place).to_string()),
        action: None,
    };
    let lead = lead(
        "Conversations with the latest recommendation. Saturation is the share of claims in the last rounds that \
         were not new, from 0 to 1.",
    );
    frame("/conversations", "Conversations", &[lead, list.render()])
}

/// Page of one conversation; `from` is the first round shown, the last rounds if `None`.
pub(super) fn detail_page(
    kept: &StoredConversation,
    rounds: &[Round],
    from: Option<usize>,
    labels: Html,
) -> String {
    let title = if kept.topic.is_empty() {
        &kept.conversation_id
    } else {
        &kept.topic
    };
    let Some(report) = &kept.report else {
        let hint = "No rounds yet. Add one with `POST /v1/conversations/{id}/rounds`.";
        return frame("/conversations", title, &[blocks(&[Block::text(hint)])]);
    };
    let signal = report.stop_recommendation.signal.to_string();
    let live = format!("/v1/conversations/{}/events", segment(&kept.conversation_id));
    let live = Html(format!(
        "<div data-live=\"{}\" data-rounds=\"{}\"></div>",
        escape(&live),
        kept.rounds.len()
    ));
    let word = format!("{signal}.");
    let total = report.novelty_by_round.len();
    let start = match from {
        Some(from) => from.saturating_sub(1).min(total.saturating_sub(1)),
        None => total.saturating_sub(MAX_ROUNDS),
    };
    let shown = start..total.min(start.saturating_add(MAX_ROUNDS));
    let mut body = vec![Block::verdict(
        signal_tone(&signal),
        word,
        &report.hint,
        &report.reasons,
    )];
    body.extend(other_rounds(&kept.conversation_id, &shown, total));
    body.push(curves(report, &shown));
    if !report.warnings.is_empty() {
        let earlier = report.warnings.len().saturating_sub(MAX_WARNINGS);
        let warnings = report.warnings.iter().skip(earlier).map(warning).collect();
        body.push(Block::section("Warnings", warnings));
    }
    body.push(Block::section(
        "Round by round",
        round_parts(report, rounds, &shown),
    ));
    body.push(Block::section("Explanation", explained(&report.explanation)));
    let levels: Vec<&str> = report.levels.iter().map(|level| level_name(level)).collect();
    body.push(Block::text(format!(
        "Profile `{}`, scoring version {}. Claims are compared by {}{}.",
        report.profile,
        report.scoring_version,
        levels.join(", "),
        report.embedder.as_ref().map_or_else(
            || " (no sentence model)".to_owned(),
            |model| format!(" (`{model}`)")
        )
    )));
    frame("/conversations", title, &[live, blocks(&body), labels])
}

/// Which rounds are shown, with links to the others; `None` if all are.
fn other_rounds(id: &str, shown: &Range<usize>, total: usize) -> Option<Block> {
    if shown.len() == total {
        return None;
    }
    let page = |from: usize, words: &str| link(format!("/conversations/{}?from={from}", segment(id)), words);
    let mut text = Text::from(format!("Rounds {} to {} of {total}.", shown.start + 1, shown.end));
    if shown.start > 0 {
        let from = shown.start.saturating_sub(MAX_ROUNDS) + 1;
        text = text.then(" ").then(page(from, "Earlier rounds"));
    }
    if shown.end < total {
        text = text.then(" ").then(page(shown.end + 1, "Later rounds"));
    }
    Some(Block::Text(text))
}

fn curves(report: &Report, shown: &Range<usize>) -> Block {
    let told = report.novelty_by_round.get(shown.clone()).unwrap_or_default();
    let ready = report.readiness_by_round.get(shown.clone()).unwrap_or_default();
    let places: Vec<String> = told.iter().map(|round| round.round.to_string()).collect();
    let of = |name: &str, values: Vec<Option<f64>>| Series::new(name, values);
    let novelty = told.iter().map(|round| round.novelty);
    let rate = told.iter().map(|round| Some(round.novelty_rate));
    let readiness = ready.iter().map(|round| Some(round.action_readiness));
    Block::Chart(Chart::Lines(Lines {
        title: "Novelty and readiness".into(),
        axis: "round",
        places,
        series: vec![
            of("novelty", novelty.collect()),
            of("readiness", readiness.collect()),
            of("novelty rate", rate.collect()),
        ],
        thresholds: thresholds(&report.explanation),
        range: Some((0.0, 1.0)),
    }))
}

/// Thresholds of novelty and readiness, from the explanation.
fn thresholds(explanation: &Explanation) -> Vec<Threshold> {
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    let mut open = vec![explanation];
    while let Some(one) = open.pop() {
        for number in &one.numbers {
            if let Some(compared) = &number.compared
                && (0.0..=1.0).contains(&compared.threshold)
                && matches!(number.name.as_str(), "novelty_rate" | "action_readiness")
            {
                found
                    .entry(number.name.replace('_', " "))
                    .or_insert(compared.threshold);
            }
        }
        open.extend(&one.parts);
    }
    let named = found.into_iter();
    named.map(|(name, value)| Threshold { name, value }).collect()
}

fn warning(warning: &satiety::dialogue::Warning) -> Block {
    let evidence = warning
        .evidence
        .iter()
        .map(|one| match (&one.against, one.against_round) {
            (Some(against), Some(round)) => format!("“{}” vs. round {round}: “{against}”", one.text),
            (Some(against), None) => format!("“{}” vs. “{against}”", one.text),
            _ => one.text.clone(),
        });
    let evidence = Block::list(&evidence.collect::<Vec<_>>());
    Block::details(
        format!("Round {}: {}", warning.round, warning.message),
        vec![evidence],
    )
}

fn round_parts(report: &Report, rounds: &[Round], shown: &Range<usize>) -> Vec<Block> {
    let mut parts = Vec::new();
    let told = report.novelty_by_round.iter().zip(&report.readiness_by_round);
    let all = rounds.iter().zip(told).enumerate();
    for (place, (round, (novelty, readiness))) in all.skip(shown.start).take(shown.len()) {
        let said = report
            .signal_by_round
            .get(place)
            .map(|one| one.signal.to_string());
        let who = round.agent.as_ref().map(|agent| format!(", {agent}"));
        let summary = format!(
            "Round {}{}: {} of {} claims new, readiness {:.2}, {}",
            novelty.round,
            who.unwrap_or_default(),
            novelty.new_claims,
            novelty.claims,
            readiness.action_readiness,
            said.unwrap_or_default()
        );
        let mut inside = vec![claims(
            round,
            &novelty.restatements,
            &novelty.possible_restatements,
        )];
        for (name, items) in [
            ("Open questions:", &readiness.open_questions),
            ("Blockers:", &readiness.blockers),
            ("Next actions:", &round.outputs.next_actions),
        ] {
            if !items.is_empty() {
                inside.push(Block::text(name));
                inside.push(Block::list(items));
            }
        }
        parts.push(Block::Details {
            summary: summary.into(),
            open: place + 1 == rounds.len(),
            blocks: inside,
        });
    }
    parts
}

/// Claims of a round: new, paraphrased or repeated.
fn claims(round: &Round, restated: &[Restatement], perhaps: &[Restatement]) -> Block {
    let items = round.outputs.claims.iter().map(|claim| {
        let of = |list: &[Restatement]| list.iter().find(|one| one.claim == claim.text).cloned();
        let (tone, word, near, source) = match (of(restated), of(perhaps)) {
            (Some(one), _) if one.level == "L0" => (Tone::Bad, "repeat", "of", Some(one)),
            (Some(one), _) => (Tone::Unsure, "paraphrase", "of", Some(one)),
            (None, Some(one)) => (Tone::Good, "new, possibly a restatement", "near", Some(one)),
            (None, None) => (Tone::Good, "new", "", None),
        };
        let text = Text::from(&claim.text).then(" ").then(badge(tone, word));
        match source {
            None => text,
            Some(one) => text.then(dim(format!(
                " {near} round {}: “{}” ({}, similarity {:.2})",
                one.of_round,
                one.of,
                level_name(&one.level),
                one.similarity
            ))),
        }
    });
    let items: Vec<Text> = items.collect();
    if items.is_empty() {
        return Block::text("No claims.");
    }
    Block::List(items)
}

/// What a level compares; see the glossary.
fn level_name(level: &str) -> &str {
    match level {
        "L0" => "text",
        "L1" => "words",
        "L2" => "meaning",
        other => other,
    }
}

/// Explanation of a decision: its numbers, and its parts as collapsible lists.
fn explained(explanation: &Explanation) -> Vec<Block> {
    let numbers = explanation.numbers.iter().map(|number| {
        let value = match (number.value, &number.absent_because) {
            (Some(value), _) => format!("{value:.3}"),
            (None, Some(why)) => format!("unknown ({why})"),
            (None, None) => "unknown".into(),
        };
        let compared = number.compared.as_ref().map(|compared| {
            let held = if compared.holds { "yes" } else { "no" };
            let relation = match compared.is {
                Relation::Below => "below",
                Relation::AtMost => "at most",
                Relation::AtLeast => "at least",
                Relation::Above => "above",
            };
            format!(" ({relation} {:.3}: {held})", compared.threshold)
        });
        format!("{}: {value}{}", number.name, compared.unwrap_or_default())
    });
    let numbers: Vec<String> = numbers.collect();
    let mut parts = Vec::new();
    if !numbers.is_empty() {
        parts.push(Block::list(&numbers));
    }
    parts.extend(explanation.parts.iter().map(|part| {
        let mut inside: Vec<Block> = Vec::new();
        if !part.reasons.is_empty() {
            inside.push(Block::list(&part.reasons));
        }
        inside.extend(explained(part));
        Block::details(format!("{}: {}", part.subject, part.decision), inside)
    }));
    parts
}
