//! Corpus commands: check, pool, import and export of queries and judgments.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::retrieval::{CategoryReport, CorpusSettings};
use satiety_engine::Engine;
use satiety_engine::retrieval::{
    CorpusCheck, CorpusRequest, CorpusTransfer, ExportCorpusRequest, ImportCorpusRequest, PoolRequest,
    PoolResponse,
};

use super::format::{format_metric, queries};
use crate::args::{CorpusCheckArgs, ExportCorpusArgs, ImportCorpusArgs, PoolArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::table::table;

pub(super) async fn check(
    arguments: CorpusCheckArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    if arguments.run.len() == 1 || arguments.run.len() > 2 {
        return Err(Failure::bad_input(
            "estimating the variance of differences needs two runs",
            "pass --run twice, or --sigma",
        ));
    }
    let checked = engine
        .retrieval()
        .check_corpus(CorpusRequest {
            corpus: arguments.corpus,
            queries: arguments.queries,
            documents: arguments.documents,
            runs: arguments.run,
            settings: CorpusSettings {
                relevance_threshold: arguments.relevance_threshold,
                sigma: arguments.sigma,
                difference: arguments.difference,
                near_duplicate: arguments.near_duplicate,
                ..CorpusSettings::default()
            },
        })
        .await?;
    printer.answer(&checked)?;
    Ok(if arguments.strict && !checked.report.findings.is_empty() {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

pub(super) async fn pool(arguments: PoolArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let pooled = engine
        .retrieval()
        .pool(PoolRequest {
            runs: arguments.run,
            depth: arguments.depth as usize,
            qrels: arguments.qrels,
            queries: arguments.queries,
            corpus: arguments.corpus,
            seed: arguments.seed,
            output: arguments.output,
        })
        .await?;
    printer.answer(&pooled)?;
    Ok(Exit::Done)
}

pub(super) async fn import(
    arguments: ImportCorpusArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = ImportCorpusRequest {
        corpus: arguments.corpus,
        queries: arguments.queries,
        source: super::replay::named(arguments.source),
    };
    printer.answer(&engine.retrieval().import_corpus(request).await?)?;
    Ok(Exit::Done)
}

pub(super) async fn export(
    arguments: ExportCorpusArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = ExportCorpusRequest {
        judgments: super::replay::filter(&arguments.source, arguments.min_confidence),
        output: arguments.output,
    };
    printer.answer(&engine.retrieval().export_corpus(request).await?)?;
    Ok(Exit::Done)
}

impl Render for CorpusCheck {
    fn human(&self) -> String {
        let report = &self.report;
        let mut text = format!(
            "{}\n{}, {} judgments of {} documents, {:.1} judged and {:.1} relevant per query",
            self.corpus.bold(),
            queries(report.queries),
            report.judgments,
            report.coverage.judged_documents,
            report.coverage.judged_per_query,
            report.coverage.relevant_per_query
        );
        let counts = |counts: Vec<(String, usize)>| {
            let counts = counts.into_iter().map(|(name, count)| format!("{name} {count}"));
            counts.collect::<Vec<_>>().join(", ")
        };
        let sources = report
            .sources
            .iter()
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        let grades = report
            .grades
            .iter()
            .map(|(grade, count)| (grade.to_string(), *count))
            .collect();
        let _ = write!(
            text,
            "\njudged by: {}; grades: {}",
            counts(sources),
            counts(grades)
        );
        for (title, groups) in [("category", &report.categories), ("intent", &report.intents)] {
            if !groups.is_empty() {
                let header = [title, "queries", "target", "detectable difference"];
                let _ = write!(
                    text,
                    "\n\n{}",
                    table(&header, &[1, 2, 3], groups.iter().map(group_row))
                );
            }
        }
        let settings = &report.settings;
        let _ = write!(
            text,
            "\n\nAll queries together detect a difference of {} with {:.0} % power (standard deviation {}, {}); {} needs {}.",
            report.power.detectable.map_or_else(|| "-".into(), format_metric),
            100.0 * settings.power,
            format_metric(settings.sigma),
            if self.sigma_measured {
                "measured"
            } else {
                "assumed"
            },
            settings.difference,
            queries(usize::try_from(report.power.needed).unwrap_or(usize::MAX))
        );
        for twin in report.near_duplicates.iter().take(5) {
            let _ = write!(
                text,
                "\n{} duplicates {} ({:.0} % of words in common)",
                twin.query_id,
                twin.like,
                100.0 * twin.similarity
            );
        }
        if report.findings.is_empty() {
            let _ = write!(text, "\n\n{}", "no findings".green());
        } else {
            let _ = write!(text, "\n\n{}", "to do".yellow().bold());
            for finding in &report.findings {
                let _ = write!(text, "\n- {finding}");
            }
        }
        text
    }
}

fn group_row(group: &CategoryReport) -> Vec<String> {
    vec![
        group.name.clone(),
        group.queries.to_string(),
        group
            .target
            .map_or_else(|| "-".into(), |target| target.to_string()),
        group.detectable.map_or_else(|| "-".into(), format_metric),
    ]
}

impl Render for PoolResponse {
    fn human(&self) -> String {
        let mut text = format!(
            "{} documents of {} need a judgment (top {} of each run; {} already judged)",
            self.documents,
            queries(self.queries),
            self.depth,
            self.judged
        );
        let rows = self
            .only_in
            .iter()
            .map(|found| vec![found.run.clone(), found.documents.to_string()]);
        let _ = write!(text, "\n\n{}", table(&["run", "unique"], &[1], rows));
        let _ = match &self.output {
            Some(path) => write!(text, "\n\nwritten to {path}"),
            None => write!(text, "\n\nuse --output pool.csv to write them for annotation"),
        };
        text
    }
}

impl Render for CorpusTransfer {
    fn human(&self) -> String {
        let mut text = format!(
            "{}: {}, {} judgments",
            self.file,
            queries(self.queries),
            self.judgments
        );
        if self.pending > 0 {
            let _ = write!(text, "; {} documents without a grade were left out", self.pending);
        }
        text
    }
}
