//! How measured runs are shown.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::retrieval::{Aggregate, MissingQueries, NoRelevant};
use satiety_engine::retrieval::{Evaluated, RunReport};

use super::words::{csv, figure, interval, markdown, queries};
use crate::printer::Render;
use crate::table::table;

impl Render for Evaluated {
    fn human(&self) -> String {
        let parts = self.runs().iter().map(|run| {
            let mut text = format!("{}\n{}", run.run.bold(), table(&HEADER, &[1, 3], rows(run)));
            let _ = write!(text, "\n\n{}", notes(run));
            for (title, header, numbers, rows) in further(run) {
                let _ = write!(text, "\n\n{}\n{}", title.bold(), table(&header, &numbers, rows));
            }
            if let Some((header, rows)) = query_rows(run) {
                let header: Vec<&str> = header.iter().map(String::as_str).collect();
                let numbers: Vec<usize> = (1..header.len()).collect();
                let _ = write!(text, "\n\n{}", table(&header, &numbers, rows));
            }
            text
        });
        parts.collect::<Vec<_>>().join("\n\n")
    }

    fn markdown(&self) -> String {
        let parts = self.runs().iter().map(|run| {
            let mut text = format!(
                "### {}\n\n{}\n\n{}",
                run.run,
                markdown(&HEADER, rows(run)),
                notes(run)
            );
            for (title, header, _, rows) in further(run) {
                let _ = write!(text, "\n\n{title}\n\n{}", markdown(&header, rows));
            }
            if let Some((header, rows)) = query_rows(run) {
                let header: Vec<&str> = header.iter().map(String::as_str).collect();
                let _ = write!(text, "\n\n{}", markdown(&header, rows));
            }
            text
        });
        parts.collect::<Vec<_>>().join("\n\n")
    }

    /// A row for every query and measure.
    fn csv(&self) -> Option<String> {
        let rows = self.runs().iter().flat_map(|run| {
            let queries = run.per_query.iter().flat_map(|queries| &queries.0);
            queries.flat_map(move |(query, values)| {
                let row = move |(name, value): &(String, f64)| {
                    vec![run.run.clone(), query.clone(), name.clone(), value.to_string()]
                };
                values.0.iter().map(row)
            })
        });
        Some(csv(&["run", "query", "metric", "value"], rows))
    }

    fn html(&self) -> Option<String> {
        Some(satiety_server::reports::retrieval_evaluation(self))
    }
}

const HEADER: [&str; 4] = ["metric", "mean", "95 % interval", "queries"];

fn rows(run: &RunReport) -> impl Iterator<Item = Vec<String>> {
    let row = |(name, found): &(String, Aggregate)| {
        vec![
            name.clone(),
            found.mean.map_or_else(|| "-".into(), figure),
            found.ci.map_or_else(|| "-".into(), interval),
            found.queries.to_string(),
        ]
    };
    run.metrics.0.iter().map(row)
}

fn query_rows(run: &RunReport) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let names: Vec<String> = run.metrics.0.iter().map(|(name, _)| name.clone()).collect();
    let rows = run.per_query.as_ref()?.0.iter().map(|(query, values)| {
        let value = |name: &String| values.0.iter().find(|(other, _)| other == name);
        let cells = names
            .iter()
            .map(|name| value(name).map_or_else(|| "-".into(), |(_, value)| figure(*value)));
        std::iter::once(query.clone()).chain(cells).collect()
    });
    let rows = rows.collect();
    Some((std::iter::once("query".into()).chain(names).collect(), rows))
}

fn notes(run: &RunReport) -> String {
    let threshold = run.options.relevance_threshold;
    let mut text = format!("{}; relevant from grade {threshold} on", queries(run.queries));
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            let _ = write!(text, "\n{} {what}", queries(count));
        }
    };
    add(
        run.missing_queries,
        match run.options.missing {
            MissingQueries::Zero => "without an answer in the run, counted as 0",
            MissingQueries::Skip => "without an answer in the run, left out",
        },
    );
    add(
        run.queries_without_relevant,
        match run.options.no_relevant {
            NoRelevant::Skip => "with nothing relevant to find, left out where relevance is asked for",
            NoRelevant::Zero => "with nothing relevant to find, counted as 0",
        },
    );
    add(
        run.unjudged_queries,
        "of the run are not judged and were not measured",
    );
    text
}

type Table<'a> = (String, Vec<&'a str>, Vec<usize>, Vec<Vec<String>>);

/// Tables beside the means, where there is something to show: groups, sessions, the pipeline.
fn further(run: &RunReport) -> Vec<Table<'_>> {
    let mean = |found: &Aggregate| found.mean.map_or_else(|| "-".into(), figure);
    let range = |found: &Aggregate| found.ci.map_or_else(|| "-".into(), interval);
    let mut tables = Vec::new();
    for (field, groups) in &run.by {
        let names = run.metrics.0.iter().map(|(name, _)| name.as_str());
        let header: Vec<&str> = [field.as_str(), "queries"].into_iter().chain(names).collect();
        let rows = groups.iter().map(|(value, group)| {
            let means = group.metrics.0.iter().map(|(_, found)| mean(found));
            [value.clone(), group.queries.to_string()]
                .into_iter()
                .chain(means)
                .collect()
        });
        let numbers = (1..header.len()).collect();
        tables.push((format!("by {field}"), header, numbers, rows.collect()));
    }
    let mut sessions = Vec::new();
    let mut add = |name: &str, found: &Aggregate| {
        if found.queries > 0 {
            sessions.push(vec![
                name.into(),
                mean(found),
                range(found),
                found.queries.to_string(),
            ]);
        }
    };
    if let Some(found) = &run.cold_start {
        add("mrr, first of a session", &found.cold);
        add("mrr, later", &found.warm);
    }
    if let Some(found) = &run.personalization_lift {
        add("mrr, gained by the session", found);
    }
    if let Some(found) = &run.pipeline {
        add("reordered by fusion", &found.fusion_reorder_rate);
        add("found by expansion only", &found.expansion_impact);
        if let Some(saved) = &found.dedup_tokens {
            add("tokens not sent again", &saved.per_query);
        }
    }
    if let Some(ratio) = run
        .cold_start
        .and_then(|found| Some((found.ratio?, found.ratio_ci)))
    {
        let range = ratio.1.map_or_else(|| "-".into(), interval);
        sessions.push(vec![
            "first over later".into(),
            figure(ratio.0),
            range,
            String::new(),
        ]);
    }
    if !sessions.is_empty() {
        let header = vec!["what", "mean", "95 % interval", "queries"];
        tables.push(("sessions and pipeline".into(), header, vec![1, 3], sessions));
    }
    let Some(pipeline) = &run.pipeline else {
        return tables;
    };
    if !pipeline.channels.is_empty() {
        let rows = pipeline.channels.iter().map(|(name, found)| {
            let (all, only) = (&found.contribution, &found.unique);
            vec![name.clone(), mean(all), range(all), mean(only), range(only)]
        });
        let header = vec![
            "channel",
            "share of results",
            "95 % interval",
            "found by it alone",
            "95 % interval",
        ];
        let title = format!("channels, among the first {}", pipeline.depth);
        tables.push((title, header, vec![1, 3], rows.collect()));
    }
    if !pipeline.latency_ms.is_empty() {
        let rows = pipeline.latency_ms.iter().map(|(stage, found)| {
            let times = [found.mean, found.p50, found.p95, found.p99].map(|time| format!("{time:.1}"));
            std::iter::once(stage.clone()).chain(times).collect()
        });
        let header = vec!["stage", "mean ms", "p50", "p95", "p99"];
        tables.push(("latency".into(), header, vec![1, 2, 3, 4], rows.collect()));
    }
    tables
}
