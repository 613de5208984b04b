//! Rendering of run comparisons.

use std::fmt::Write;

use satiety::retrieval::{Gate, MeasureComparison, Verdict};
use satiety_engine::retrieval::{CompareResponse, RunComparison};
use satiety_report::charts::{IntervalMark, Mark};
use satiety_report::document::{or_dash, strong};
use satiety_report::{Block, Chart, Document, Medium, Table, Tone, row};

use super::format::{format_metric, probability, queries, signed};
use crate::printer::Render;

impl Render for CompareResponse {
    fn document(&self) -> Document {
        let sections = self
            .comparisons
            .iter()
            .map(|found| section(self, found))
            .collect();
        let mut document = Document::new("Retrieval comparison", sections);
        document.data = Some(data(self));
        document
    }
}

/// CSV rows, one per query.
fn data(compared: &CompareResponse) -> Table {
    let rows = compared.comparisons.iter().flat_map(|found| {
        let measure = found.comparison.measures.first();
        let measure = measure.map(|found| found.measure.to_string()).unwrap_or_default();
        found.per_query.iter().flatten().map(move |query| {
            row![
                &found.treatment,
                &query.change.query,
                &measure,
                query.change.control.to_string(),
                query.change.treatment.to_string(),
                query.change.difference.to_string(),
            ]
        })
    });
    let header = [
        "treatment_run",
        "query",
        "metric",
        "control",
        "treatment",
        "difference",
    ];
    Table::new(&header, &[], rows)
}

fn section(compared: &CompareResponse, found: &RunComparison) -> Block {
    let rows = found.comparison.measures.iter().map(|found| {
        row![
            found.measure.to_string(),
            format_metric(found.control),
            format_metric(found.treatment),
            signed(found.difference),
            change_interval(found),
            probability(found.p_randomization),
            probability(found.p_holm),
            or_dash(found.effect_size, |effect| format!("{effect:+.2}")),
            format!("{}/{}/{}", found.wins, found.losses, found.ties),
        ]
    });
    let header = [
        "metric",
        "control",
        "treatment",
        "difference",
        "95 % interval",
        "p",
        "p (Holm)",
        "effect",
        "won/lost/same",
    ];
    let mut parts = vec![
        verdict(found, compared.fail_if_worse),
        Block::Table(Table::new(&header, &[1, 2, 3, 5, 6, 7], rows)),
    ];
    parts.extend(details(found).into_iter().map(Block::text));
    for (field, groups) in &found.by {
        let shares = groups.iter().map(|group| IntervalMark {
            label: format!("{} ({})", group.value, group.comparison.queries),
            value: group.comparison.difference,
            interval: group.comparison.ci.map(|ci| (ci.low, ci.high)),
            hint: format!("p = {} after Holm", probability(group.comparison.p_holm)),
        });
        let measure = groups
            .first()
            .map(|group| group.comparison.measure.to_string())
            .unwrap_or_default();
        let title = format!("Difference of {measure} by {field}, with 95 % intervals");
        parts.push(Block::Chart(Chart::Intervals(title, shares.collect())));
        let rows = groups.iter().map(|group| {
            let found = &group.comparison;
            row![
                &group.value,
                found.queries,
                format_metric(found.control),
                format_metric(found.treatment),
                signed(found.difference),
                change_interval(found),
                probability(found.p_holm),
            ]
        });
        let header = [
            field,
            "queries",
            "control",
            "treatment",
            "difference",
            "95 % interval",
            "p (Holm)",
        ];
        let table = Table::new(&header, &[1, 2, 3, 4, 6], rows);
        parts.push(Block::Only(Medium::Text, vec![Block::Table(table)]));
    }
    parts.extend(per_query(found));
    let title = strong(&*found.treatment).then(format!(" vs. {}", compared.control));
    Block::Section(title, parts)
}

fn per_query(found: &RunComparison) -> Vec<Block> {
    let (Some(changed), Some(first)) = (&found.per_query, found.comparison.measures.first()) else {
        return Vec::new();
    };
    let marks = changed.iter().map(|query| {
        let change = &query.change;
        let asked = query
            .text
            .as_ref()
            .map(|text| format!(" ({text})"))
            .unwrap_or_default();
        Mark {
            label: change.query.clone(),
            value: change.difference,
            hint: format!(
                "{}{asked}: {:.3} to {:.3}",
                change.query, change.control, change.treatment
            ),
        }
    });
    let rows = changed.iter().map(|query| {
        row![
            &query.change.query,
            format_metric(query.change.control),
            format_metric(query.change.treatment),
            signed(query.change.difference),
            query.text.as_deref().unwrap_or_default(),
        ]
    });
    let header = ["query", "control", "treatment", "change", "asked"];
    let table = Block::Table(Table::new(&header, &[1, 2, 3], rows));
    let title = format!("Change of {} by query, worst first", first.measure);
    vec![
        Block::Chart(Chart::Changes(title, marks.collect())),
        Block::Only(Medium::Text, vec![table]),
    ]
}

fn change_interval(found: &MeasureComparison) -> String {
    let range = found
        .ci
        .map(|ci| format!("{} to {}", signed(ci.low), signed(ci.high)));
    range.unwrap_or_else(|| "-".into())
}

fn details(found: &RunComparison) -> Vec<String> {
    let counts = &found.comparison.differences;
    let mut lines = vec![format!(
        "{}; identical answers {}, minor changes {}, major changes {}, incompatible {}",
        queries(found.comparison.queries),
        counts.identical,
        counts.minor,
        counts.major,
        counts.incompatible
    )];
    if let (Some(control), Some(treatment)) = (found.judged.control, found.judged.treatment) {
        let unfair = if treatment < control - 0.05 {
            " - unjudged results count as irrelevant, which penalizes the treatment"
        } else {
            ""
        };
        lines.push(format!(
            "judged in the top {}: control {:.0} %, treatment {:.0} %{unfair}",
            found.judged.depth,
            100.0 * control,
            100.0 * treatment
        ));
    }
    if let (Some(first), false) = (
        found.comparison.measures.first(),
        found.comparison.regressions.is_empty(),
    ) {
        let worst = found.comparison.regressions.iter().map(|change| {
            let (control, treatment) = (format_metric(change.control), format_metric(change.treatment));
            format!("{} ({control} to {treatment})", change.query)
        });
        let worst = worst.collect::<Vec<_>>().join(", ");
        lines.push(format!("largest losses in {}: {worst}", first.measure));
    }
    lines
}

/// Verdict, its explanation, and the result of the gate.
fn verdict(found: &RunComparison, margin: Option<f64>) -> Block {
    let Some(first) = found.comparison.measures.first() else {
        return Block::verdict(Tone::Unsure, "No evidence", "", &[]);
    };
    let (tone, word, sentence) = match first.verdict {
        Verdict::Better => (Tone::Good, "BETTER", shown(first)),
        Verdict::Worse => (Tone::Bad, "WORSE", shown(first)),
        Verdict::NoEvidence => (
            Tone::Unsure,
            "No evidence either way",
            match first.detectable {
                None if first.difference == 0.0 => format!("{} is the same for every query", first.measure),
                None => format!("{} cannot detect a difference", queries(first.queries)),
                Some(detectable) => format!(
                    "{} differs by {}; {} can detect a difference of {} or more (power 0.8)",
                    first.measure,
                    signed(first.difference),
                    queries(first.queries),
                    format_metric(detectable)
                ),
            },
        ),
    };
    let gate = found.gate.zip(margin).map(|(gate, margin)| match gate {
        Gate::Pass => format!("gate: passed, a loss of more than {margin} is ruled out"),
        Gate::Fail => format!("gate: failed, worse by more than {margin}"),
        Gate::Inconclusive => {
            format!("gate: inconclusive, a loss of more than {margin} is neither shown nor ruled out")
        }
    });
    Block::verdict(tone, word, sentence, gate.as_slice())
}

fn shown(found: &MeasureComparison) -> String {
    let mut text = format!("{} by {}", found.measure, signed(found.difference));
    if let Some(ci) = found.ci {
        let _ = write!(text, " ({} to {})", signed(ci.low), signed(ci.high));
    }
    let _ = write!(
        text,
        " over {}, p = {} after Holm",
        queries(found.queries),
        probability(found.p_holm)
    );
    text
}
