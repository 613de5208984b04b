//! `satiety retrieval`: evaluates rankings, compares systems, and builds and checks evaluation corpora.

mod annotate;
mod corpus;
pub(super) mod format;
mod golden;
mod replay;
mod show_comparison;
mod show_evaluation;

use satiety::retrieval::{
    ComparisonSettings, Dedup, EvaluationOptions, Gate, Measure, MissingQueries, NoRelevant, OrderOptions,
    Ties, Unjudged, decisive_measures, default_measures,
};
use satiety::stats::BootstrapSettings;
use satiety_engine::Engine;
use satiety_engine::retrieval::{CompareRequest, EvaluateRequest, FactFiles, Rankings};

use crate::args::{
    Compat, Corpus, DedupKeep, RankingArgs, Retrieval, RetrievalCompareArgs, RetrievalEvalArgs, TiesBy,
    UnjudgedAs, ZeroOrSkip,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Format;

pub(super) async fn run(command: Retrieval, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Retrieval::Eval(arguments) => eval(arguments, engine, printer).await,
        Retrieval::Compare(arguments) => compare(arguments, engine, printer).await,
        Retrieval::Corpus(Corpus::Check(arguments)) => corpus::check(arguments, engine, printer).await,
        Retrieval::Pool(arguments) => corpus::pool(arguments, engine, printer).await,
        Retrieval::Harvest(arguments) => golden::harvest(arguments, engine, printer).await,
        Retrieval::Judge(arguments) => golden::judge(arguments, engine, printer).await,
        Retrieval::Annotate(arguments) => annotate::run(arguments, engine, printer).await,
        Retrieval::Agreement(arguments) => golden::agreement(arguments, engine, printer).await,
        Retrieval::Run(arguments) => Box::pin(replay::run(*arguments, engine, printer)).await,
        Retrieval::Runs(arguments) => golden::runs(arguments, engine, printer).await,
        Retrieval::Import(arguments) => corpus::import(arguments, engine, printer).await,
        Retrieval::Export(arguments) => corpus::export(arguments, engine, printer).await,
    }
}

async fn eval(arguments: RetrievalEvalArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let request = EvaluateRequest {
        rankings: rankings(arguments.rankings, default_measures),
        bootstrap: BootstrapSettings {
            resamples: arguments.resamples,
            seed: arguments.seed,
            ..BootstrapSettings::default()
        },
        per_query: arguments.per_query || printer.format() == Format::Csv,
        depth: arguments.depth as usize,
        record: arguments.record,
    };
    printer.answer(&engine.retrieval().evaluate(request).await?)?;
    Ok(Exit::Done)
}

async fn compare(
    arguments: RetrievalCompareArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let defaults = ComparisonSettings::default();
    if arguments
        .fail_if_worse
        .is_some_and(|margin| margin.is_nan() || margin < 0.0)
    {
        return Err(Failure::bad_input(
            "--fail-if-worse must not be negative",
            "use 0.01 to tolerate a drop of 0.01 in the first metric",
        ));
    }
    let request = CompareRequest {
        rankings: rankings(arguments.rankings, decisive_measures),
        settings: ComparisonSettings {
            bootstrap: BootstrapSettings {
                resamples: arguments.resamples,
                seed: arguments.seed,
                ..defaults.bootstrap
            },
            ..defaults
        },
        fail_if_worse: arguments.fail_if_worse,
        // Pages plot the per-query values, and CSV is made from them.
        per_query: arguments.per_query || matches!(printer.format(), Format::Csv | Format::Html),
    };
    let compared = engine.retrieval().compare(request).await?;
    printer.answer(&compared)?;
    let gates = || compared.comparisons.iter().filter_map(|found| found.gate);
    Ok(if gates().any(|gate| gate == Gate::Fail) {
        Exit::CheckFailed
    } else if gates().any(|gate| gate == Gate::Inconclusive) {
        Exit::Inconclusive
    } else {
        Exit::Done
    })
}

fn rankings(arguments: RankingArgs, otherwise: impl FnOnce() -> Vec<Measure>) -> Rankings {
    let base = match arguments.compat {
        Some(Compat::Trec) => EvaluationOptions::trec(),
        None => EvaluationOptions::default(),
    };
    Rankings {
        qrels: arguments.qrels,
        runs: arguments.run,
        order: OrderOptions {
            ties: match arguments.ties {
                TiesBy::Trec => Ties::Trec,
                TiesBy::Rank => Ties::Rank,
            },
            dedup: match arguments.dedup {
                None => Dedup::Refuse,
                Some(DedupKeep::First) => Dedup::First,
            },
        },
        options: EvaluationOptions {
            relevance_threshold: arguments.relevance_threshold.unwrap_or(base.relevance_threshold),
            missing: match arguments.missing {
                None => base.missing,
                Some(ZeroOrSkip::Zero) => MissingQueries::Zero,
                Some(ZeroOrSkip::Skip) => MissingQueries::Skip,
            },
            no_relevant: match arguments.no_relevant {
                None => base.no_relevant,
                Some(ZeroOrSkip::Zero) => NoRelevant::Zero,
                Some(ZeroOrSkip::Skip) => NoRelevant::Skip,
            },
            unjudged: match arguments.unjudged {
                UnjudgedAs::Irrelevant => Unjudged::Irrelevant,
                UnjudgedAs::Condensed => Unjudged::Condensed,
            },
        },
        measures: if arguments.metrics.is_empty() {
            otherwise()
        } else {
            arguments.metrics
        },
        known: FactFiles {
            queries: arguments.queries,
            corpus: arguments.corpus,
        },
        by: arguments.by,
    }
}
