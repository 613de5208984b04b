//! Reports of research: findings with numbered sources, and how they were obtained.

use satiety::research::recommend::Recommendation;
use satiety::research::report::Answer;
use satiety::research::{AnswerState, Report, RoundOutcome, RoundRecord};
use satiety::stats::Interval;

use crate::document::{Block, Chart, Document, Medium, Table, Text, Tone, count, dim, or_dash, strong};
use crate::row;
use crate::series::{Lines, Series};

/// Reports a finished research run.
pub fn report(report: &Report) -> Document {
    let mut parts = answers(report);
    parts.extend(origin(report));
    Document::new(&*report.task, vec![Block::Section(strong(&*report.task), parts)])
}

/// Sources, and how the findings were obtained: what a report has behind its answers.
pub fn origin(report: &Report) -> Vec<Block> {
    let mut parts = Vec::new();
    let cited = report.sources.iter().filter(|source| source.cited);
    let cited: Vec<Text> = cited
        .map(|source| {
            let name = if source.title.trim().is_empty() {
                source.url.as_str()
            } else {
                source.title.trim()
            };
            let place = dim(format!(", {} (round {})", source.url, source.round));
            Text::from(format!("[{}] {name}", source.number)).then(place)
        })
        .collect();
    if !cited.is_empty() {
        parts.push(Block::section("Sources", vec![Block::List(cited)]));
    }
    parts.push(Block::section("How this was found", history(report)));
    parts
}

/// Findings by question.
pub fn answers(report: &Report) -> Vec<Block> {
    if report.sources.is_empty() {
        return vec![Block::text("No findings.")];
    }
    let mut parts = Vec::new();
    for one in &report.answers {
        if report.answers.len() > 1 {
            parts.push(Block::Section(strong(&*one.coverage.question), answer(one)));
        } else {
            parts.extend(answer(one));
        }
    }
    parts
}

/// The answer to one question: what a model wrote, what the sources say, and whether it is open.
pub fn answer(answer: &Answer) -> Vec<Block> {
    let mut parts = Vec::new();
    let written = answer.written.iter().flat_map(|written| &written.sentences);
    let written: Vec<(&str, Vec<usize>)> = written
        .map(|sentence| {
            let sources = sentence.quotes.iter().map(|quote| quote.source);
            (sentence.text.as_str(), sources.collect())
        })
        .collect();
    if let (Some(model), false) = (&answer.written, written.is_empty()) {
        push_statements(&written, &mut parts);
        parts.push(Block::Text(dim(format!(
            "Written by {}; every sentence was checked against its source.",
            model.by
        ))));
    }
    let quoted: Vec<(&str, Vec<usize>)> = answer
        .findings
        .iter()
        .map(|finding| (finding.text.as_str(), vec![finding.source]))
        .collect();
    push_statements(&quoted, &mut parts);
    if answer.open {
        let missing = match answer.coverage.missing.as_slice() {
            [] => String::new(),
            missing => format!(" (no source has: {})", missing.join(", ")),
        };
        let note = match answer.state {
            AnswerState::Related => format!(
                "the sources are about this, but none has what is asked for: {}{missing}",
                answer.kind.words()
            ),
            _ => format!("not found in these sources{missing}"),
        };
        parts.push(Block::Note(Tone::Unsure, "open".into(), note.into()));
    }
    for removed in answer.written.iter().flat_map(|written| &written.removed) {
        let note = format!("“{}”: {}", removed.text, removed.reason);
        parts.push(Block::Note(Tone::Unsure, "removed".into(), note.into()));
    }
    parts
}

/// Statements with the numbers of their sources: sentences as a list, lists, tables and code as they are.
fn push_statements(statements: &[(&str, Vec<usize>)], parts: &mut Vec<Block>) {
    let mut sentences: Vec<Text> = Vec::new();
    for (text, sources) in statements {
        let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
        let sources = sources.join(", ");
        if text.contains('\n') {
            if !sentences.is_empty() {
                parts.push(Block::List(std::mem::take(&mut sentences)));
            }
            parts.push(Block::text(format!("[{sources}]")));
            parts.push(Block::Verbatim((*text).to_owned()));
        } else {
            sentences.push(format!("{text} [{sources}]").into());
        }
    }
    if !sentences.is_empty() {
        parts.push(Block::List(sentences));
    }
}

/// Reports which stop rule pays on recorded loops, and why.
pub fn recommendation(found: &Recommendation) -> Document {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let range = |interval: Interval| format!("{} to {}", percent(interval.low), percent(interval.high));
    let rules = found.rules.iter().map(|rule| {
        let above = match (rule.above_fixed, rule.above_fixed_interval) {
            (Some(above), Some(interval)) => format!("{:+.1} ({})", 100.0 * above, range(interval)),
            _ => "-".to_owned(),
        };
        row![
            &rule.options,
            format!("{:.2}", rule.searches),
            format!("{} ({})", percent(rule.recall), range(rule.recall_interval)),
            above,
        ]
    });
    let gains = found.gains.iter().map(|gain| {
        row![
            gain.after.to_string(),
            percent(gain.mean),
            percent(gain.without),
            percent(gain.explained),
        ]
    });
    let rules = Table::new(
        &[
            "rule",
            "searches",
            "recall, %",
            "minus fixed at the same cost, points",
        ],
        &[1],
        rules,
    );
    let gains = Table::new(
        &[
            "after searches",
            "next gain, points",
            "loops without gain, %",
            "variance explained, %",
        ],
        &[0, 1, 2, 3],
        gains,
    );
    let parts = vec![
        Block::text(format!("Because {}.", found.reason)),
        Block::Table(rules),
        Block::Table(gains),
        Block::text(format!(
            "{} loops of up to {} searches, {} left out because none of their results was useful. With hindsight, {:.2} searches find as much as the recommended number.",
            found.loops, found.rounds, found.left_out, found.hindsight_searches
        )),
    ];
    let title = format!("Recommended: {}", found.options);
    Document::new(&*title, vec![Block::Section(strong(&*title), parts)])
}

fn history(report: &Report) -> Vec<Block> {
    let rows = report.rounds.iter().map(|record| {
        row![
            record.round.to_string(),
            &record.query,
            record.results.len(),
            record.new_results.to_string(),
            or_dash(record.verdict.novelty, |share| format!("{share:.2}")),
            record.verdict.words(),
        ]
    });
    let header = ["round", "query", "results", "kept", "novelty", "decision"];
    let mut parts = vec![
        Block::Table(Table::new(&header, &[0, 2, 3, 4], rows)),
        novelty(&report.rounds),
    ];
    match (report.unseen.share, &report.unseen.absent_because) {
        (Some(share), _) => parts.push(Block::text(format!(
            "About {:.0} % of the statements that these searches could return are still unseen (Good-Turing).",
            100.0 * share
        ))),
        (None, Some(reason)) => parts.push(Block::text(format!("Unseen share: {reason}."))),
        (None, None) => {}
    }
    if let Some(missed) = report
        .rounds
        .iter()
        .rev()
        .find_map(|record| record.verdict.missed)
    {
        parts.push(Block::text(format!("After these searches, {}.", missed.words())));
    }
    for record in &report.rounds {
        if let RoundOutcome::Failed { error } = &record.outcome {
            let warning = format!("search {} failed: {error}", record.round);
            parts.push(Block::Note(Tone::Unsure, "warning".into(), warning.into()));
        }
    }
    for page in &report.pages {
        parts.push(if let Some(reason) = &page.why_not {
            Block::text(format!("not read: {} ({reason})", page.url))
        } else {
            let read = format!("read: {} ({} characters)", page.url, page.chars.unwrap_or(0));
            Block::Only(Medium::Page, vec![Block::text(read)])
        });
    }
    parts.extend(report.notes.iter().map(|note| Block::Text(dim(note))));
    parts.push(Block::text(format!("Stopped because {}.", report.stop_words)));
    parts.push(Block::text(format!(
        "{} in {}, {} kept; {}",
        count(report.searches, "search", "searches"),
        report.source,
        report.rounds_accepted,
        count(report.sources.len(), "result", "results")
    )));
    parts
}

/// Line chart of the novelty of each round.
pub fn novelty(rounds: &[RoundRecord]) -> Block {
    let places = rounds.iter().map(|round| round.round.to_string()).collect();
    let values = rounds.iter().map(|round| round.verdict.novelty).collect();
    let series = vec![Series::new("novelty", values)];
    Block::Chart(Chart::Lines(Lines::shares(
        "Novelty by round",
        "round",
        places,
        series,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{html, markdown};
    use satiety::research::{Hit, Research, ResearchSettings, Spent, StopReason};

    fn researched(task: &str, results: Vec<Hit>) -> Document {
        let mut research = Research::new(task, Vec::new(), ResearchSettings::default()).unwrap();
        if !results.is_empty() {
            let assessment = research.assess(&results, None);
            let (verdict, novelty) = research.decide(assessment, None);
            let summary = Some(research.extracted_summary(&results));
            let found = RoundOutcome::Found;
            let record = research.record(task.into(), true, found, results, verdict, novelty, summary);
            research.apply(record, None, true);
        }
        report(&Report::new(
            &research,
            StopReason::Cap,
            Vec::new(),
            Spent::default(),
        ))
    }

    #[test]
    fn findings_have_numbered_sources_and_open_questions_are_listed() {
        let results = vec![
            Hit::new(
                "Wings",
                "https://a.example/",
                "Heated wings bend\nupwards. Bread rises. Do wings bend?",
            ),
            Hit::new(
                "Alloys <b>",
                "https://b.example/",
                "Wings of this alloy bend least.",
            ),
        ];
        let document = researched("How do heated wings bend? Which paint is cheapest?", results);
        let page = markdown::render(&document);
        for part in [
            "- Heated wings bend upwards. [1]",
            "[1] Wings, https://a.example/ (round 1)",
            "**open:** not found in these sources (no source has: paint, cheapest)",
            "## How this was found",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!html::render(&document).contains("<b>"));
    }

    #[test]
    fn empty_research_reports_no_findings() {
        let document = researched("anything <at> all", Vec::new());
        assert!(markdown::render(&document).contains("No findings."));
        assert!(!html::render(&document).contains("<at>"));
    }
}
