//! Research runs: the list, and one with its rounds, novelty curve and sources.

use satiety::research::{Report, RoundOutcome, RoundRecord};
use satiety_engine::research::{KeptResearch, ListedResearch};

use super::shell::{badge, count, frame, moment, nothing, segment, time};
use satiety_report::html::{
    Html, details, escape, joined, link, list, paragraph, section, table, table_of, verdict,
};
use satiety_report::series::{Lines, Series, lines};

/// The runs of the store.
pub(super) fn all(runs: &[ListedResearch]) -> String {
    if runs.is_empty() {
        let hint = nothing(
            "Nothing was searched for yet.",
            "satiety research \"TASK\" --in FOLDER",
        );
        return frame("/research", "Research", &[hint]);
    }
    let rows = runs.iter().map(|run| {
        vec![
            link(&format!("/research/{}", segment(&run.run_id)), &run.task),
            escape(&run.source),
            escape(&run.rounds.to_string()),
            run.stop_reason
                .as_deref()
                .map_or_else(|| badge("unsure", "under way"), |why| badge("plain", why)),
            time(run.started_at),
        ]
    });
    let header = ["task", "source", "rounds", "stopped because", "begun (UTC)"];
    frame("/research", "Research", &[table_of(&header, &[2], rows)])
}

/// One run.
pub(super) fn one(kept: &KeptResearch) -> String {
    let rounds = kept.report.as_ref().map_or(&kept.rounds, |report| &report.rounds);
    let mut body = vec![match &kept.report {
        Some(report) => verdict("good", "Stopped.", &report.stop_words),
        None => verdict(
            "unsure",
            "Under way,",
            "or interrupted: `satiety research --resume` goes on.",
        ),
    }];
    body.push(paragraph(&format!(
        "Source {}, begun {} UTC.",
        kept.source,
        moment(kept.started_at)
    )));
    body.push(curve(rounds));
    if let Some(report) = &kept.report {
        body.push(section("What was found", &answers(report)));
    }
    body.push(section(
        "Round by round",
        &rounds.iter().map(round).collect::<Vec<_>>(),
    ));
    if let Some(report) = &kept.report {
        body.push(section("Sources", &[sources(report)]));
        if !report.notes.is_empty() {
            body.push(section("Notes", &[list(&report.notes)]));
        }
    }
    frame("/research", &kept.task, &body)
}

fn curve(rounds: &[RoundRecord]) -> Html {
    let places: Vec<String> = rounds.iter().map(|round| round.round.to_string()).collect();
    let values = rounds.iter().map(|round| round.verdict.novelty).collect();
    lines(&Lines::shares(
        "How much of each round was new",
        "round",
        places,
        vec![Series::new("novelty", values)],
    ))
}

fn round(record: &RoundRecord) -> Html {
    let outcome = match &record.outcome {
        RoundOutcome::Found => format!(
            "{}, {} of them kept",
            count(record.results.len(), "result", "results"),
            record.new_results
        ),
        RoundOutcome::Empty => "nothing found".into(),
        RoundOutcome::Failed { error } => format!("failed: {error}"),
    };
    let hits = record
        .results
        .iter()
        .map(|hit| vec![hit.title.clone(), hit.url.clone()]);
    details(
        &format!(
            "Round {}: “{}”, {outcome}; {}",
            record.round,
            record.query,
            record.verdict.words()
        ),
        &[
            paragraph(&record.summary),
            table(&["title", "address"], &[], hits),
        ],
    )
}

fn answers(report: &Report) -> Vec<Html> {
    let mut parts = Vec::new();
    for answer in &report.answers {
        let state = if answer.open {
            badge("unsure", "open")
        } else {
            badge("good", "answered")
        };
        parts.push(Html(format!(
            "<p><strong>{}</strong> {state}</p>",
            escape(&answer.coverage.question)
        )));
        let findings: Vec<String> = answer
            .findings
            .iter()
            .map(|finding| format!("{} [{}]", finding.text, finding.source))
            .collect();
        parts.push(list(&findings));
    }
    if parts.is_empty() {
        parts.push(paragraph(&report.summary));
    }
    parts
}

fn sources(report: &Report) -> Html {
    // Addresses are shown, not linked: what a search brought back is data, and a click would leave this machine.
    Html(joined(&[table(
        &["no.", "title", "address", "round", "cited"],
        &[0, 3],
        report.sources.iter().map(|source| {
            vec![
                source.number.to_string(),
                source.title.clone(),
                source.url.clone(),
                source.round.to_string(),
                if source.cited { "yes".into() } else { String::new() },
            ]
        }),
    )]))
}
