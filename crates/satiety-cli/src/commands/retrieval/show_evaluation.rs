//! Rendering of evaluated runs.

use satiety::retrieval::{Aggregate, MissingQueries, NoRelevant};
use satiety_engine::retrieval::{EvaluateResponse, RunReport};
use satiety_report::charts::IntervalMark;
use satiety_report::document::{or_dash, strong};
use satiety_report::{Block, Chart, Document, Medium, Table, Text, row};

use super::format::{format_metric, interval, queries};
use crate::printer::Render;

impl Render for EvaluateResponse {
    fn document(&self) -> Document {
        document(self.runs())
    }
}

/// Document with one section per run.
pub(super) fn document(runs: &[RunReport]) -> Document {
    let mut document = Document::new("Retrieval evaluation", runs.iter().map(section).collect());
    document.data = Some(data(runs));
    document
}

/// CSV rows, one per query and measure.
fn data(runs: &[RunReport]) -> Table {
    let rows = runs.iter().flat_map(|run| {
        let queries = run.per_query.iter().flat_map(|queries| &queries.0);
        queries.flat_map(move |(query, values)| {
            values
                .0
                .iter()
                .map(move |(name, value)| row![&run.run, query, name, value.to_string()])
        })
    });
    Table::new(&["run", "query", "metric", "value"], &[], rows)
}

fn section(run: &RunReport) -> Block {
    let rows = run
        .metrics
        .0
        .iter()
        .map(|(name, found)| row![name, mean(found), range(found), found.queries]);
    let mut parts = vec![Block::Table(Table::new(&HEADER, &[1, 3], rows))];
    parts.extend(notes(run).into_iter().map(Block::text));
    parts.extend(groups(run));
    parts.extend(sessions(run));
    parts.extend(pipeline(run));
    if let Some(values) = &run.per_query {
        let names: Vec<&str> = run.metrics.0.iter().map(|(name, _)| name.as_str()).collect();
        let rows = values.0.iter().map(|(query, values)| {
            let value = |name: &&str| {
                values
                    .0
                    .iter()
                    .find(|(other, _)| other == name)
                    .map(|(_, value)| *value)
            };
            let mut row = row![query];
            row.extend(
                names
                    .iter()
                    .map(|name| Text::from(or_dash(value(name), format_metric))),
            );
            row
        });
        let header: Vec<&str> = std::iter::once("query").chain(names.iter().copied()).collect();
        let numbers: Vec<usize> = (1..header.len()).collect();
        parts.push(Block::Table(Table::new(&header, &numbers, rows)));
    }
    Block::Section(strong(&*run.run), parts)
}

const HEADER: [&str; 4] = ["metric", "mean", "95 % interval", "queries"];

fn mean(found: &Aggregate) -> String {
    or_dash(found.mean, format_metric)
}

fn range(found: &Aggregate) -> String {
    found.ci.map_or_else(|| "-".into(), interval)
}

fn notes(run: &RunReport) -> Vec<String> {
    let threshold = run.options.relevance_threshold;
    let mut lines = vec![format!(
        "{}; relevant from grade {threshold}",
        queries(run.queries)
    )];
    let missing = match run.options.missing {
        MissingQueries::Zero => "missing from the run, counted as 0",
        MissingQueries::Skip => "missing from the run, left out",
    };
    let nothing = match run.options.no_relevant {
        NoRelevant::Skip => "without relevant documents, left out of relevance metrics",
        NoRelevant::Zero => "without relevant documents, counted as 0",
    };
    for (count, what) in [
        (run.missing_queries, missing),
        (run.queries_without_relevant, nothing),
        (
            run.unjudged_queries,
            "of the run have no judgments and were not measured",
        ),
    ] {
        if count > 0 {
            lines.push(format!("{} {what}", queries(count)));
        }
    }
    lines
}

fn groups(run: &RunReport) -> Vec<Block> {
    let names: Vec<&str> = run.metrics.0.iter().map(|(name, _)| name.as_str()).collect();
    let mut parts = Vec::new();
    for (field, groups) in &run.by {
        let shares = groups.iter().filter_map(|(value, group)| {
            let (_, found) = group.metrics.0.first()?;
            Some(IntervalMark {
                label: format!("{value} ({})", group.queries),
                value: found.mean?,
                interval: found.ci.map(|ci| (ci.low, ci.high)),
                hint: queries(found.queries),
            })
        });
        let first = names.first().copied().unwrap_or_default();
        let title = format!("{first} by {field}, with 95 % intervals");
        parts.push(Block::Chart(Chart::Intervals(title, shares.collect())));
        let header: Vec<&str> = [field.as_str(), "queries"]
            .into_iter()
            .chain(names.iter().copied())
            .collect();
        let rows = groups.iter().map(|(value, group)| {
            let mut row = row![value, group.queries];
            row.extend(group.metrics.0.iter().map(|(_, found)| Text::from(mean(found))));
            row
        });
        let numbers: Vec<usize> = (1..header.len()).collect();
        let table = Block::Table(Table::new(&header, &numbers, rows));
        parts.push(Block::Only(
            Medium::Text,
            vec![Block::section(format!("by {field}"), vec![table])],
        ));
    }
    parts
}

fn sessions(run: &RunReport) -> Option<Block> {
    let pipeline = run.pipeline.as_ref();
    let named = [
        (
            "mrr, first query of a session",
            run.cold_start.as_ref().map(|found| &found.cold),
        ),
        (
            "mrr, later queries",
            run.cold_start.as_ref().map(|found| &found.warm),
        ),
        (
            "mrr, lift from session context",
            run.personalization_lift.as_ref(),
        ),
        (
            "reordered by fusion",
            pipeline.map(|found| &found.fusion_reorder_rate),
        ),
        (
            "found only by expansion",
            pipeline.map(|found| &found.expansion_impact),
        ),
        (
            "tokens saved by deduplication",
            pipeline.and_then(|found| Some(&found.dedup_tokens.as_ref()?.per_query)),
        ),
    ];
    let present = named
        .into_iter()
        .filter_map(|(name, found)| Some((name, found.filter(|found| found.queries > 0)?)));
    let mut rows: Vec<Vec<Text>> = present
        .map(|(name, found)| row![name, mean(found), range(found), found.queries])
        .collect();
    if let Some((ratio, ci)) = run
        .cold_start
        .and_then(|found| Some((found.ratio?, found.ratio_ci)))
    {
        let range = ci.map_or_else(|| "-".into(), interval);
        rows.push(row!["first/later ratio", format_metric(ratio), range, ""]);
    }
    let table = Table::new(&["metric", "mean", "95 % interval", "queries"], &[1, 3], rows);
    (!table.rows.is_empty()).then(|| Block::section("sessions and pipeline", vec![Block::Table(table)]))
}

fn pipeline(run: &RunReport) -> Vec<Block> {
    let Some(pipeline) = &run.pipeline else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    if !pipeline.channels.is_empty() {
        let rows = pipeline.channels.iter().map(|(name, found)| {
            let (all, only) = (&found.contribution, &found.unique);
            row![name, mean(all), range(all), mean(only), range(only)]
        });
        let header = [
            "channel",
            "share of results",
            "95 % interval",
            "unique",
            "95 % interval",
        ];
        let title = format!("channels, top {}", pipeline.depth);
        parts.push(Block::section(
            title,
            vec![Block::Table(Table::new(&header, &[1, 3], rows))],
        ));
    }
    if !pipeline.latency_ms.is_empty() {
        let rows = pipeline.latency_ms.iter().map(|(stage, found)| {
            let ms = |time: f64| format!("{time:.1}");
            row![stage, ms(found.mean), ms(found.p50), ms(found.p95), ms(found.p99)]
        });
        let header = ["stage", "mean ms", "p50", "p95", "p99"];
        let table = Table::new(&header, &[1, 2, 3, 4], rows);
        parts.push(Block::section("latency", vec![Block::Table(table)]));
    }
    parts
}
