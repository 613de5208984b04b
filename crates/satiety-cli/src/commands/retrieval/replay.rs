//! Corpus replay: converts arguments to a request and renders the response.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use satiety::memory::{Mode, Pipeline, ValidPipeline};
use satiety::retrieval::{
    AnswerPaths, ComparisonSettings, EvaluationOptions, Gate, JudgmentSource, decisive_measures,
};
use satiety::stats::BootstrapSettings;
use satiety_engine::Engine;
use satiety_engine::retrieval::{
    JudgmentFilter, ReplayRequest, ReplayResponse, SystemContext, SystemSpec, ToolCall,
};
use satiety_report::{Block, Document};

use super::super::bench::stop_on_interrupt;
use super::format::queries;
use super::show_evaluation;
use crate::args::{MemoryMode, RunArgs, Source};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Format;

/// Maximum number of failed queries shown.
const MAX_SHOWN: usize = 5;

pub(super) async fn run(arguments: RunArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let gated = arguments.fail_if_worse.is_some();
    let request = request(arguments, printer)?;
    let stop = stop_on_interrupt();
    let bar = bar(printer);
    let replayed = engine
        .retrieval()
        .replay_corpus(request, &stop, |seen| {
            bar.set_length(seen.planned as u64);
            bar.set_position(seen.done as u64);
            bar.set_message(format!("{} failed", seen.failed));
        })
        .await;
    bar.finish_and_clear();
    let replayed = replayed?;
    printer.answer(&replayed)?;
    if replayed.interrupted {
        printer.note(&format!(
            "interrupted; resume with the same command and --resume {}",
            replayed.run_id
        ));
        return Ok(Exit::Interrupted);
    }
    let gate = replayed
        .comparison
        .as_ref()
        .and_then(|compared| compared.comparisons.first()?.gate);
    let fine = match gate {
        Some(gate) => gate == Gate::Pass,
        None => !gated && replayed.report.is_some(),
    };
    Ok(if gate == Some(Gate::Fail) {
        Exit::CheckFailed
    } else if fine {
        Exit::Done
    } else {
        Exit::Inconclusive
    })
}

/// Progress bar on stderr, if it is a terminal.
fn bar(printer: &Printer) -> ProgressBar {
    if printer.is_quiet() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {per_sec}  {eta} left  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn request(arguments: RunArgs, printer: &Printer) -> Result<ReplayRequest, Failure> {
    if arguments
        .fail_if_worse
        .is_some_and(|margin| margin.is_nan() || margin < 0.0)
    {
        return Err(Failure::bad_input(
            "--fail-if-worse must not be negative",
            "use 0.01 to tolerate a drop of 0.01 in the first metric",
        ));
    }
    let timeout = Duration::try_from_secs_f64(arguments.timeout)
        .ok()
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| Failure::bad_input("--timeout must be positive", "use seconds such as 30"))?;
    let standard = ComparisonSettings::default();
    let bootstrap = BootstrapSettings {
        resamples: arguments.resamples,
        seed: arguments.seed,
        ..BootstrapSettings::default()
    };
    Ok(ReplayRequest {
        context: SystemContext {
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            scratch: std::env::temp_dir(),
            timeout,
        },
        depth: arguments.depth as usize,
        judgments: filter(&arguments.source, arguments.min_confidence),
        documents: arguments.documents.clone(),
        measures: arguments.metrics.clone(),
        options: EvaluationOptions {
            relevance_threshold: arguments.relevance_threshold,
            ..EvaluationOptions::default()
        },
        bootstrap,
        by: arguments.by.clone(),
        per_query: arguments.per_query || matches!(printer.format(), Format::Csv | Format::Html),
        baseline: arguments.baseline.clone(),
        comparison: ComparisonSettings {
            bootstrap: BootstrapSettings {
                resamples: arguments.resamples.max(1),
                ..bootstrap
            },
            ..standard
        },
        decisive: decisive_measures(),
        fail_if_worse: arguments.fail_if_worse,
        resume: arguments.resume.clone(),
        system: system(arguments)?,
    })
}

/// Filter of the judgments to use.
pub(super) fn filter(sources: &[Source], min_confidence: f64) -> JudgmentFilter {
    JudgmentFilter {
        sources: sources.iter().map(|source| named(*source)).collect(),
        min_confidence,
    }
}

pub(super) fn named(source: Source) -> JudgmentSource {
    match source {
        Source::Manual => JudgmentSource::Manual,
        Source::Implicit => JudgmentSource::Implicit,
        Source::Bootstrapped => JudgmentSource::Bootstrapped,
        Source::Validated => JudgmentSource::Validated,
    }
}

fn system(arguments: RunArgs) -> Result<SystemSpec, Failure> {
    let paths = AnswerPaths {
        id_path: arguments.id_path,
        text_path: arguments.text_path,
    };
    let call = ToolCall {
        preset: arguments.preset,
        tool: arguments.tool,
        arguments: arguments.args,
        paths: paths.clone(),
    };
    // The argument group guarantees that exactly one is set.
    Ok(match (arguments.mcp, arguments.mcp_url, arguments.http) {
        (Some(command), _, _) => SystemSpec::McpCommand {
            command,
            env: arguments.env,
            call,
        },
        (None, Some(url), _) => SystemSpec::McpUrl {
            url,
            token_env: arguments.token_env,
            call,
        },
        (None, None, Some(url)) => SystemSpec::Http {
            url,
            body: arguments.body,
            headers: pairs(&arguments.header, ':', "--header")?,
            secret_headers: pairs(&arguments.secret_header, '=', "--secret-header")?,
            paths,
        },
        (None, None, None) => SystemSpec::Memory {
            mode: match arguments.mode {
                MemoryMode::Auto => None,
                MemoryMode::Quick => Some(Mode::Quick),
                MemoryMode::Focused => Some(Mode::Focused),
                MemoryMode::Deep => Some(Mode::Deep),
            },
            token_budget: arguments.budget,
            pipeline: match &arguments.pipeline {
                Some(path) => Arc::new(pipeline(path)?),
                None => Arc::default(),
            },
        },
    })
}

fn pairs(texts: &[String], between: char, what: &str) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| {
        let (name, value) = text.split_once(between)?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    texts
        .iter()
        .map(|text| {
            pair(text).ok_or_else(|| {
                Failure::bad_input(
                    format!("{what} `{text}` has no `{between}`"),
                    "use --header 'x-team: evals' or --secret-header authorization=TOKEN",
                )
            })
        })
        .collect()
}

/// Merges changed pipeline settings over the defaults.
fn pipeline(path: &Path) -> Result<ValidPipeline, Failure> {
    let bad = |reason: String| {
        Failure::bad_input(
            format!("{}: {reason}", path.display()),
            "docs/guides/memory.md lists every pipeline setting",
        )
    };
    let text = fs_err::read_to_string(path).map_err(|error| bad(error.kind().to_string()))?;
    let value: serde_json::Value = if path.extension().is_some_and(|extension| extension == "json") {
        serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?
    } else {
        toml::from_str(&text).map_err(|error| bad(error.to_string()))?
    };
    Pipeline::with(&value).map_err(|error| bad(error.to_string()))
}

impl Render for ReplayResponse {
    fn document(&self) -> Document {
        let mut document = self.report.as_ref().map_or_else(Document::default, |report| {
            show_evaluation::document(std::slice::from_ref(report))
        });
        if let Some(compared) = &self.comparison {
            let compared = compared.document();
            document.title = compared.title;
            document.blocks.extend(compared.blocks);
        }
        let told = summary(self);
        document.blocks.insert(0, Block::section(&self.system, told));
        document
    }
}

/// Summary of the replay, before any metric.
fn summary(replayed: &ReplayResponse) -> Vec<Block> {
    let mut text = format!(
        "{} answered, {} failed and left out",
        queries(replayed.answered),
        replayed.failed.len()
    );
    if let Some(latency) = &replayed.latency_ms {
        let _ = write!(
            text,
            "; {:.1} ms at p50, {:.1} ms at p95",
            latency.p50, latency.p95
        );
    }
    let mut lines = vec![text];
    if replayed.prose > 0 {
        lines.push(format!("{} answers were prose, matched by text", replayed.prose));
    }
    let failed = replayed.failed.iter().take(MAX_SHOWN);
    lines.extend(failed.map(|failed| format!("  {}: {}", failed.query_id, failed.error)));
    if replayed.report.is_none() && !replayed.interrupted {
        lines.push("no judgments yet; judge the results with `satiety retrieval annotate`".into());
    }
    lines.into_iter().map(Block::text).collect()
}
