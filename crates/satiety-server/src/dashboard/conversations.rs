//! Conversations: the list, and one with its curves, its claims by novelty, and why.

use std::collections::BTreeMap;

use satiety::dialogue::{Report, Restatement, Round};
use satiety::explanation::{Explanation, Relation};
use satiety_engine::conversations::{ConversationList, KeptConversation};

use super::shell::{badge, figure, frame, nothing, segment, signal, time};
use satiety_report::html::{
    Html, details, escape, joined, link, list, paragraph, section, table_of, verdict,
};
use satiety_report::series::{Lines, Series, Threshold, lines};

/// The conversations of the store.
pub(super) fn all(found: &ConversationList, next: Option<String>) -> String {
    if found.conversations.is_empty() {
        let hint = nothing("No conversation is kept yet.", "satiety score --record FILE");
        return frame("/conversations", "Conversations", &[hint]);
    }
    let rows = found.conversations.iter().map(|one| {
        let name = if one.topic.is_empty() {
            &one.conversation_id
        } else {
            &one.topic
        };
        vec![
            link(&format!("/conversations/{}", segment(&one.conversation_id)), name),
            signal(&one.signal),
            escape(&one.rounds.to_string()),
            escape(&figure(one.score)),
            escape(&one.profile),
            time(one.updated_at),
        ]
    });
    let header = [
        "conversation",
        "now",
        "rounds",
        "saturation",
        "profile",
        "last round (UTC)",
    ];
    let mut body = vec![table_of(&header, &[2, 3], rows)];
    body.extend(next.map(|to| Html(format!("<p>{}</p>", link(&to, "Earlier conversations")))));
    frame("/conversations", "Conversations", &body)
}

/// One conversation.
pub(super) fn one(kept: &KeptConversation, rounds: &[Round]) -> String {
    let title = if kept.topic.is_empty() {
        &kept.conversation_id
    } else {
        &kept.topic
    };
    let Some(report) = &kept.report else {
        return frame("/conversations", title, &[paragraph("Nothing was said yet.")]);
    };
    let stop = &report.stop_recommendation;
    let class = match stop.signal.to_string().as_str() {
        "SHIP" => "good",
        "STOP" => "bad",
        "ESCALATE" => "unsure",
        _ => "plain",
    };
    let live = format!("/v1/conversations/{}/events", segment(&kept.conversation_id));
    let mut body = vec![
        Html(format!(
            "<div data-live=\"{}\" data-rounds=\"{}\"></div>",
            escape(&live),
            kept.rounds.len()
        )),
        verdict(class, &format!("{}.", stop.signal), &report.hint),
        list(&report.reasons),
        curves(report),
    ];
    if !report.warnings.is_empty() {
        body.push(section(
            "What looks wrong",
            &report.warnings.iter().map(warning).collect::<Vec<_>>(),
        ));
    }
    body.push(section("Round by round", &round_parts(report, rounds)));
    body.push(section(
        "What it rests on",
        &[explained(&report.explanation, true)],
    ));
    body.push(paragraph(&format!(
        "Profile {}, scoring {}, levels {}, sentence model {}.",
        report.profile,
        report.scoring_version,
        report.levels.join(", "),
        report.embedder.as_deref().unwrap_or("none")
    )));
    frame("/conversations", title, &body)
}

fn curves(report: &Report) -> Html {
    let places: Vec<String> = report
        .novelty_by_round
        .iter()
        .map(|round| round.round.to_string())
        .collect();
    let of = |name: &str, values: Vec<Option<f64>>| Series::new(name, values);
    let novelty = report.novelty_by_round.iter().map(|round| round.novelty);
    let rate = report
        .novelty_by_round
        .iter()
        .map(|round| Some(round.novelty_rate));
    let readiness = report
        .readiness_by_round
        .iter()
        .map(|round| Some(round.action_readiness));
    lines(&Lines {
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
    })
}

/// What novelty and readiness were compared with, as the explanation has it.
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

fn warning(warning: &satiety::dialogue::Warning) -> Html {
    let evidence: Vec<String> = warning
        .evidence
        .iter()
        .map(|one| match (&one.against, one.against_round) {
            (Some(against), Some(round)) => format!("“{}” beside round {round}: “{against}”", one.text),
            (Some(against), None) => format!("“{}” beside “{against}”", one.text),
            _ => one.text.clone(),
        })
        .collect();
    details(
        &format!("Round {}: {}", warning.round, warning.message),
        &[list(&evidence)],
    )
}

fn round_parts(report: &Report, rounds: &[Round]) -> Vec<Html> {
    let mut parts = Vec::new();
    for (place, round) in rounds.iter().enumerate() {
        let (Some(novelty), Some(readiness)) = (
            report.novelty_by_round.get(place),
            report.readiness_by_round.get(place),
        ) else {
            continue;
        };
        let said = report
            .signal_by_round
            .get(place)
            .map(|one| one.signal.to_string());
        let who = round
            .agent
            .as_deref()
            .map(|agent| format!(", {agent}"))
            .unwrap_or_default();
        let told = format!(
            "Round {}{who}: {} of {} claims new, readiness {:.2}, {}",
            novelty.round,
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
            ("Open questions", &readiness.open_questions),
            ("Blockers", &readiness.blockers),
            ("Next actions", &round.outputs.next_actions),
        ] {
            if !items.is_empty() {
                inside.push(paragraph(&format!("{name}:")));
                inside.push(list(items));
            }
        }
        let last = place + 1 == rounds.len();
        parts.push(Html(format!(
            "<details{}><summary>{}</summary>{}</details>",
            if last { " open" } else { "" },
            escape(&told),
            joined(&inside)
        )));
    }
    parts
}

/// The claims of a round: new, said in other words, or said again.
fn claims(round: &Round, restated: &[Restatement], perhaps: &[Restatement]) -> Html {
    let items: Vec<Html> = round
        .outputs
        .claims
        .iter()
        .map(|claim| {
            let of = |list: &[Restatement]| list.iter().find(|one| one.claim == claim.text).cloned();
            let (class, word, source) = match (of(restated), of(perhaps)) {
                (Some(one), _) if one.level == "L0" => ("repeat", "repeat", Some(one)),
                (Some(one), _) => ("paraphrase", "paraphrase", Some(one)),
                (None, Some(one)) => ("novel", "new, perhaps a restatement", Some(one)),
                (None, None) => ("novel", "new", None),
            };
            let why = source.map(|one| {
                format!(
                    "<small>{} round {}: “{}” ({}, {:.2})</small>",
                    if class == "novel" { "near" } else { "of" },
                    one.of_round,
                    escape(&one.of),
                    escape(&one.level),
                    one.similarity
                )
            });
            Html(format!(
                "<li class=\"{class}\">{} {}{}</li>",
                escape(&claim.text),
                badge(badge_class(class), word),
                why.unwrap_or_default()
            ))
        })
        .collect();
    if items.is_empty() {
        return paragraph("No claim.");
    }
    Html(format!("<ul class=\"claims\">{}</ul>", joined(&items)))
}

fn badge_class(claim: &str) -> &'static str {
    match claim {
        "novel" => "good",
        "paraphrase" => "unsure",
        _ => "bad",
    }
}

/// A decision with what it rests on, as nested lists that open.
pub(super) fn explained(explanation: &Explanation, open: bool) -> Html {
    let numbers: Vec<String> = explanation
        .numbers
        .iter()
        .map(|number| {
            let value = match (number.value, &number.absent_because) {
                (Some(value), _) => format!("{value:.3}"),
                (None, Some(why)) => format!("absent ({why})"),
                (None, None) => "absent".into(),
            };
            let compared = number.compared.as_ref().map(|compared| {
                let held = if compared.holds { "holds" } else { "does not hold" };
                let relation = match compared.is {
                    Relation::Below => "below",
                    Relation::AtMost => "at most",
                    Relation::AtLeast => "at least",
                    Relation::Above => "above",
                };
                format!(", {relation} {:.3} {held}", compared.threshold)
            });
            format!("{}: {value}{}", number.name, compared.unwrap_or_default())
        })
        .collect();
    let mut parts = Vec::new();
    // The page has said the reasons of the whole already.
    if !open && !explanation.reasons.is_empty() {
        parts.push(list(&explanation.reasons));
    }
    if !numbers.is_empty() {
        parts.push(list(&numbers));
    }
    parts.extend(explanation.parts.iter().map(|part| explained(part, false)));
    let summary = format!("{}: {}", explanation.subject, explanation.decision);
    if open {
        return Html(joined(&parts));
    }
    details(&summary, &parts)
}
