//! Measured and compared rankings as pages.

use satiety::retrieval::{Aggregate, MeasureComparison, Verdict};
use satiety_engine::retrieval::{Compared, Evaluated, RunComparison, RunReport};

use crate::charts::{Mark, Ranged, changes, intervals};
use crate::html::{Html, details, page, paragraph, section, table, verdict};

/// Runs that were compared, with a plot of what changed for every query.
pub fn retrieval_comparison(compared: &Compared) -> String {
    let body: Vec<Html> = compared
        .comparisons
        .iter()
        .map(|found| comparison(compared, found))
        .collect();
    page("Retrieval: is it better?", &body)
}

/// Runs that were measured.
pub fn retrieval_evaluation(evaluated: &Evaluated) -> String {
    let body: Vec<Html> = evaluated.runs().iter().map(run).collect();
    page("Retrieval: how good is it?", &body)
}

fn comparison(compared: &Compared, found: &RunComparison) -> Html {
    let measures = &found.comparison.measures;
    let mut parts = Vec::new();
    if let Some(first) = measures.first() {
        parts.push(decision(first));
    }
    parts.push(table(
        &[
            "metric",
            "control",
            "treatment",
            "difference",
            "95 % interval",
            "p (Holm)",
            "won/lost/same",
        ],
        &[1, 2, 3, 5],
        measures.iter().map(|found| {
            vec![
                found.measure.to_string(),
                format!("{:.4}", found.control),
                format!("{:.4}", found.treatment),
                format!("{:+.4}", found.difference),
                interval(found),
                probability(found.p_holm),
                format!("{}/{}/{}", found.wins, found.losses, found.ties),
            ]
        }),
    ));
    if let (Some(queries), Some(first)) = (&found.per_query, measures.first()) {
        let marks: Vec<Mark> = queries
            .iter()
            .map(|query| Mark {
                label: query.change.query.clone(),
                value: query.change.difference,
                hint: format!(
                    "{}{}: {:.3} to {:.3}",
                    query.change.query,
                    query
                        .text
                        .as_ref()
                        .map(|text| format!(" ({text})"))
                        .unwrap_or_default(),
                    query.change.control,
                    query.change.treatment
                ),
            })
            .collect();
        parts.push(changes(
            &format!("Change of {} by query, worst first", first.measure),
            &marks,
        ));
        parts.push(details(
            "Every query",
            &[table(
                &["query", "asked", "control", "treatment", "change"],
                &[2, 3, 4],
                queries.iter().map(|query| {
                    vec![
                        query.change.query.clone(),
                        query.text.clone().unwrap_or_default(),
                        format!("{:.4}", query.change.control),
                        format!("{:.4}", query.change.treatment),
                        format!("{:+.4}", query.change.difference),
                    ]
                }),
            )],
        ));
    }
    for (field, groups) in &found.by {
        let rows: Vec<Ranged> = groups
            .iter()
            .map(|group| Ranged {
                label: format!("{} ({})", group.value, group.comparison.queries),
                value: group.comparison.difference,
                interval: group.comparison.ci.map(|ci| (ci.low, ci.high)),
                hint: format!("p = {} after Holm", probability(group.comparison.p_holm)),
            })
            .collect();
        let measure = groups
            .first()
            .map(|group| group.comparison.measure.to_string())
            .unwrap_or_default();
        parts.push(intervals(
            &format!("Difference of {measure} by {field}, with 95 % intervals"),
            &rows,
        ));
    }
    let counts = &found.comparison.differences;
    parts.push(paragraph(&format!(
        "{} queries: answered identically {}, with minor changes {}, major changes {}, incompatibly {}. \
         Relevant from grade {} on.",
        found.comparison.queries,
        counts.identical,
        counts.minor,
        counts.major,
        counts.incompatible,
        compared.options.relevance_threshold
    )));
    section(
        &format!("{} beside {}", found.treatment, compared.control),
        &parts,
    )
}

fn decision(first: &MeasureComparison) -> Html {
    let difference = format!("{} {:+.4} ({})", first.measure, first.difference, interval(first));
    match first.verdict {
        Verdict::Better => verdict("good", "Better:", &difference),
        Verdict::Worse => verdict("bad", "Worse:", &difference),
        Verdict::NoEvidence => {
            let limit = first.detectable.map(|least| {
                format!(
                    "; {} queries would have shown a difference of {least:.4} or more",
                    first.queries
                )
            });
            verdict(
                "unsure",
                "No evidence either way:",
                &(difference + &limit.unwrap_or_default()),
            )
        }
    }
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".into()
    } else {
        format!("{p:.4}")
    }
}

fn interval(found: &MeasureComparison) -> String {
    found
        .ci
        .map_or_else(|| "-".into(), |ci| format!("{:+.4} to {:+.4}", ci.low, ci.high))
}

fn run(report: &RunReport) -> Html {
    let mut parts = vec![metrics(&report.metrics.0)];
    for (field, groups) in &report.by {
        let Some((name, _)) = report.metrics.0.first() else {
            break;
        };
        let rows: Vec<Ranged> = groups
            .iter()
            .filter_map(|(value, group)| {
                let (_, found) = group.metrics.0.first()?;
                Some(Ranged {
                    label: format!("{value} ({})", group.queries),
                    value: found.mean?,
                    interval: found.ci.map(|ci| (ci.low, ci.high)),
                    hint: format!("{} queries", found.queries),
                })
            })
            .collect();
        parts.push(intervals(
            &format!("{name} by {field}, with 95 % intervals"),
            &rows,
        ));
    }
    parts.push(paragraph(&format!(
        "{} queries; {} without an answer in the run, {} with nothing relevant to find. Relevant from grade {} on.",
        report.queries, report.missing_queries, report.queries_without_relevant, report.options.relevance_threshold
    )));
    section(&report.run, &parts)
}

fn metrics(metrics: &[(String, Aggregate)]) -> Html {
    table(
        &["metric", "mean", "95 % interval", "queries"],
        &[1, 3],
        metrics.iter().map(|(name, found)| {
            vec![
                name.clone(),
                found.mean.map_or_else(|| "-".into(), |mean| format!("{mean:.4}")),
                found
                    .ci
                    .map_or_else(|| "-".into(), |ci| format!("{:.4} to {:.4}", ci.low, ci.high)),
                found.queries.to_string(),
            ]
        }),
    )
}
