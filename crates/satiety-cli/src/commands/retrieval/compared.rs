//! How compared runs are shown.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::retrieval::{Gate, MeasureComparison, Verdict};
use satiety_engine::retrieval::{Compared, RunComparison};

use super::words::{csv, figure, markdown, probability, queries, signed};
use crate::printer::Render;
use crate::table::table;

impl Render for Compared {
    fn human(&self) -> String {
        let parts = self.comparisons.iter().map(|found| {
            let mut text = format!(
                "{} beside {}\n{}",
                found.treatment.bold(),
                self.control,
                table(&COMPARED, &[1, 2, 3, 5, 6, 7], compared_rows(found))
            );
            let _ = write!(text, "\n\n{}", details(found));
            for (field, rows) in group_rows(found) {
                let header = group_header(field);
                let _ = write!(text, "\n\n{}", table(&header, &[1, 2, 3, 4, 6], rows));
            }
            if let Some(rows) = query_rows(found) {
                let _ = write!(text, "\n\n{}", table(&PER_QUERY, &[1, 2, 3], rows));
            }
            let (word, rest) = verdict(found, self.fail_if_worse);
            let word = match found.comparison.verdict {
                Verdict::Better => word.green().bold().to_string(),
                Verdict::Worse => word.red().bold().to_string(),
                Verdict::NoEvidence => word.yellow().bold().to_string(),
            };
            let _ = write!(text, "\n\n{word}{rest}");
            text
        });
        parts.collect::<Vec<_>>().join("\n\n")
    }

    fn markdown(&self) -> String {
        let parts = self.comparisons.iter().map(|found| {
            let (word, rest) = verdict(found, self.fail_if_worse);
            let mut text = format!(
                "### {} beside {}\n\n**{word}**{rest}\n\n{}\n\n{}",
                found.treatment,
                self.control,
                markdown(&COMPARED, compared_rows(found)),
                details(found)
            );
            for (field, rows) in group_rows(found) {
                let _ = write!(text, "\n\n{}", markdown(&group_header(field), rows));
            }
            if let Some(rows) = query_rows(found) {
                let _ = write!(text, "\n\n{}", markdown(&PER_QUERY, rows));
            }
            text
        });
        parts.collect::<Vec<_>>().join("\n\n")
    }

    /// A row for every query.
    fn csv(&self) -> Option<String> {
        let rows = self.comparisons.iter().flat_map(|found| {
            let measure = found.comparison.measures.first();
            let measure = measure.map(|found| found.measure.to_string()).unwrap_or_default();
            found.per_query.iter().flatten().map(move |query| {
                vec![
                    found.treatment.clone(),
                    query.change.query.clone(),
                    measure.clone(),
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
        Some(csv(&header, rows))
    }

    fn html(&self) -> Option<String> {
        Some(satiety_server::reports::retrieval_comparison(self))
    }
}

const PER_QUERY: [&str; 5] = ["query", "control", "treatment", "change", "asked"];

fn query_rows(found: &RunComparison) -> Option<impl Iterator<Item = Vec<String>>> {
    let rows = found.per_query.as_ref()?.iter().map(|query| {
        vec![
            query.change.query.clone(),
            figure(query.change.control),
            figure(query.change.treatment),
            signed(query.change.difference),
            query.text.clone().unwrap_or_default(),
        ]
    });
    Some(rows)
}

fn group_header(field: &str) -> [&str; 7] {
    [
        field,
        "queries",
        "control",
        "treatment",
        "difference",
        "95 % interval",
        "p (Holm)",
    ]
}

/// By field, what the deciding measure does in each group.
fn group_rows(found: &RunComparison) -> impl Iterator<Item = (&str, Vec<Vec<String>>)> {
    found.by.iter().map(|(field, groups)| {
        let rows = groups.iter().map(|group| {
            let found = &group.comparison;
            vec![
                group.value.clone(),
                found.queries.to_string(),
                figure(found.control),
                figure(found.treatment),
                signed(found.difference),
                change_interval(found),
                probability(found.p_holm),
            ]
        });
        (field.as_str(), rows.collect())
    })
}

fn change_interval(found: &MeasureComparison) -> String {
    let range = found
        .ci
        .map(|ci| format!("{} to {}", signed(ci.low), signed(ci.high)));
    range.unwrap_or_else(|| "-".into())
}

const COMPARED: [&str; 9] = [
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

fn compared_rows(found: &RunComparison) -> impl Iterator<Item = Vec<String>> {
    found.comparison.measures.iter().map(|found| {
        vec![
            found.measure.to_string(),
            figure(found.control),
            figure(found.treatment),
            signed(found.difference),
            change_interval(found),
            probability(found.p_randomization),
            probability(found.p_holm),
            found
                .effect_size
                .map_or_else(|| "-".into(), |effect| format!("{effect:+.2}")),
            format!("{}/{}/{}", found.wins, found.losses, found.ties),
        ]
    })
}

fn details(found: &RunComparison) -> String {
    let counts = &found.comparison.differences;
    let mut text = format!(
        "{}; answered identically {}, with minor changes {}, major changes {}, incompatibly {}",
        queries(found.comparison.queries),
        counts.identical,
        counts.minor,
        counts.major,
        counts.incompatible
    );
    if let (Some(control), Some(treatment)) = (found.judged.control, found.judged.treatment) {
        let _ = write!(
            text,
            "\njudged among the first {}: control {:.0} %, treatment {:.0} %",
            found.judged.depth,
            100.0 * control,
            100.0 * treatment
        );
        if treatment < control - 0.05 {
            text.push_str(" - what was not judged counts as irrelevant, which is unfair to the treatment");
        }
    }
    if let (Some(first), false) = (
        found.comparison.measures.first(),
        found.comparison.regressions.is_empty(),
    ) {
        let worst = found.comparison.regressions.iter().map(|change| {
            format!(
                "{} ({} to {})",
                change.query,
                figure(change.control),
                figure(change.treatment)
            )
        });
        let _ = write!(
            text,
            "\nlost most by {}: {}",
            first.measure,
            worst.collect::<Vec<_>>().join(", ")
        );
    }
    text
}

/// The word, and the sentence that makes it something to act on.
fn verdict(found: &RunComparison, margin: Option<f64>) -> (&'static str, String) {
    let Some(first) = found.comparison.measures.first() else {
        return ("NO EVIDENCE", String::new());
    };
    let (word, mut rest) = match first.verdict {
        Verdict::Better => ("BETTER", format!(": {}", shown(first))),
        Verdict::Worse => ("WORSE", format!(": {}", shown(first))),
        Verdict::NoEvidence => (
            "NO EVIDENCE EITHER WAY",
            match first.detectable {
                None if first.difference == 0.0 => format!(": {} is the same for every query", first.measure),
                None => format!(": {} cannot show a difference", queries(first.queries)),
                Some(detectable) => format!(
                    ": {} differs by {}; {} would have shown a difference of {} or more (power .8)",
                    first.measure,
                    signed(first.difference),
                    queries(first.queries),
                    figure(detectable)
                ),
            },
        ),
    };
    if let (Some(gate), Some(margin)) = (found.gate, margin) {
        let _ = match gate {
            Gate::Pass => write!(
                rest,
                "\ngate: passed, a loss of more than {margin} can be excluded"
            ),
            Gate::Fail => write!(rest, "\ngate: failed, worse by more than {margin}"),
            Gate::Inconclusive => write!(
                rest,
                "\ngate: inconclusive, a loss of more than {margin} can be neither shown nor excluded"
            ),
        };
    }
    (word, rest)
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
