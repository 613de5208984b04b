//! The eval harness: its score over cycles, what is dead in it, and what waits for a person. Approving is signing with
//! a key on the person's own terminal; this page shows the command and has no button.

use satiety::harness::{Entry, Phase, Proposal, Rigor, SignalSettings, Verdict};
use satiety_engine::harness::{HarnessStatus, History};

use super::shell::{badge, command, count, driver_word, figure, frame, moment, nothing, percent};
use satiety_report::html::{Html, escape, joined, list, paragraph, section, table, table_of, verdict};
use satiety_report::series::{Lines, Series, Threshold, lines};

/// Entries of the log that are shown at once.
const LATEST: usize = 6;
/// The names of the levels, in their order.
const LEVELS: [&str; 3] = ["elevated", "high", "critical"];

/// The page.
pub(super) fn page(status: &HarnessStatus, history: &History, proposal: Option<&Proposal>) -> String {
    let mut body = vec![standing(status)];
    body.push(curve(status));
    body.extend(waiting(status, proposal));
    body.push(section("Suites", &[suites(status)]));
    body.extend(dead(status));
    if !status.thresholds.is_empty() {
        body.push(section("Thresholds", &[thresholds(status)]));
    }
    body.push(section("What happened", &[log(&history.entries)]));
    frame("/harness", "Harness", &body)
}

/// What stands where there is no harness.
pub(super) fn absent(why: &str) -> String {
    let body = [
        paragraph(why),
        nothing(
            "A folder of suites is a harness.",
            "satiety serve --harness FOLDER",
        ),
    ];
    frame("/harness", "Harness", &body)
}

fn standing(status: &HarnessStatus) -> Html {
    let Some(measured) = &status.measured else {
        let why = status
            .not_measured
            .as_deref()
            .unwrap_or("there is nothing to measure yet");
        return verdict("unsure", "Not measured:", why);
    };
    let (class, word) = match measured.verdict {
        Verdict::Discriminates => ("good", "It still discriminates."),
        Verdict::Saturated => ("bad", "It is saturated."),
        Verdict::Underpowered => ("unsure", "It is underpowered."),
    };
    Html(format!(
        "{}{}{}",
        verdict(class, word, ""),
        list(&measured.reasons),
        paragraph(&format!("Next: {}", status.next))
    ))
}

fn curve(status: &HarnessStatus) -> Html {
    let places: Vec<String> = (1..=status.history.len())
        .map(|cycle| cycle.to_string())
        .collect();
    let levels = LEVELS.iter().zip(SignalSettings::default().levels);
    let levels: Vec<Threshold> = levels
        .map(|(name, value)| Threshold {
            name: (*name).into(),
            value,
        })
        .collect();
    lines(&Lines {
        title: format!("Saturation over cycles: {}", driver_word(status.driver)),
        axis: "cycle",
        places,
        series: vec![Series::new(
            "saturation",
            status.history.iter().map(|score| Some(*score)).collect(),
        )],
        thresholds: levels,
        range: Some((0.0, 1.0)),
    })
}

fn waiting(status: &HarnessStatus, proposal: Option<&Proposal>) -> Vec<Html> {
    let Some(open) = &status.expansion else {
        return Vec::new();
    };
    let mut parts = vec![paragraph(&format!("Why: {}.", open.trigger_reason))];
    if let Some(proposal) = proposal {
        parts.push(paragraph(&format!(
            "Proposed by {}, {} UTC; hash `{}`.",
            proposal.author.words(),
            moment(proposal.created_at),
            proposal.hash().chars().take(12).collect::<String>()
        )));
        let rows = proposal.diff.changes.iter().map(|change| {
            let mark = match change.rigor {
                Rigor::Harder => badge("good", "harder"),
                Rigor::Neutral => badge("plain", "as hard"),
                Rigor::Incomparable => badge("unsure", "not comparable"),
                Rigor::Weaker => badge("bad", "weaker"),
            };
            vec![escape(&change.place), mark, escape(&change.reason)]
        });
        parts.push(table_of(&["what changes", "rigor", "how"], &[], rows));
    }
    if open.phase == Phase::AwaitingApproval {
        parts.push(verdict(
            "unsure",
            "This waits for a person.",
            "Only a signature with a key that the repository names counts. Sign it on your own terminal:",
        ));
        parts.push(command("satiety harness approve --key FILE"));
        parts.push(command("satiety harness reject --reason \"…\""));
    }
    vec![section("An expansion is open", &parts)]
}

fn suites(status: &HarnessStatus) -> Html {
    let rows = status.suites.iter().map(|suite| {
        let said = match (&suite.measured, &suite.not_measured) {
            (Some(measured), _) => match measured.verdict {
                Verdict::Discriminates => badge("good", "discriminates"),
                Verdict::Saturated => badge("bad", "saturated"),
                Verdict::Underpowered => badge("unsure", "underpowered"),
            },
            (None, Some(why)) => escape(why),
            (None, None) => badge("plain", "not measured"),
        };
        vec![
            escape(&suite.suite_id),
            escape(&suite.cases.to_string()),
            escape(&percent(suite.pass_rate)),
            said,
        ]
    });
    table_of(&["suite", "cases", "pass rate", "verdict"], &[1, 2], rows)
}

fn dead(status: &HarnessStatus) -> Vec<Html> {
    let Some(measured) = &status.measured else {
        return Vec::new();
    };
    let items = &measured.items;
    let told = match items.dead_share {
        Some(_) => format!(
            "{} of the cases tell no two of the last {} versions apart.",
            percent(items.dead_share),
            items.versions
        ),
        None => format!("{} versions are too few to call a case dead.", items.versions),
    };
    let mut parts = vec![paragraph(&told)];
    for (name, cases) in [
        ("Always passed", &items.always_pass),
        ("Never passed", &items.never_pass),
        ("Flaky", &items.flaky),
    ] {
        if !cases.is_empty() {
            parts.push(satiety_report::html::details(
                &format!("{name}: {}", cases.len()),
                &[list(cases)],
            ));
        }
    }
    vec![section("Dead cases", &parts)]
}

fn thresholds(status: &HarnessStatus) -> Html {
    let rows = status.thresholds.iter().map(|one| {
        let met = match one.met {
            Some(true) => badge("good", "met"),
            Some(false) => badge("bad", "not met"),
            None => badge("plain", "not known"),
        };
        vec![
            escape(&one.name),
            escape(&format!("{:.3}", one.value)),
            escape(&figure(one.found)),
            met,
        ]
    });
    table_of(&["figure", "threshold", "found", "state"], &[1, 2], rows)
}

fn log(entries: &[Entry]) -> Html {
    if entries.is_empty() {
        return paragraph("Nothing yet.");
    }
    let newest_first: Vec<&Entry> = entries.iter().rev().collect();
    let (latest, earlier) = newest_first.split_at(newest_first.len().min(LATEST));
    let shown = |entries: &[&Entry]| {
        table(
            &["no.", "when (UTC)", "what", "hash"],
            &[0],
            entries.iter().map(|entry| {
                vec![
                    entry.seq.to_string(),
                    moment(entry.at),
                    entry.kind.clone(),
                    entry.hash.chars().take(12).collect(),
                ]
            }),
        )
    };
    let mut parts = vec![shown(latest)];
    if !earlier.is_empty() {
        let told = format!("Earlier: {}", count(earlier.len(), "entry", "entries"));
        parts.push(satiety_report::html::details(&told, &[shown(earlier)]));
    }
    Html(joined(&parts))
}
