//! `satiety retrieval`: how good search results are, and whether one system is better than another.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::retrieval::{
    Aggregate, ComparisonSettings, Dedup, EvaluationOptions, Gate, Kind, Measure, MeasureComparison,
    MissingQueries, NoRelevant, OrderOptions, Ties, Unjudged, Verdict, default_measures,
};
use satiety::stats::{BootstrapSettings, Interval};
use satiety_engine::Engine;
use satiety_engine::retrieval::{
    CompareRequest, Compared, EvaluateRequest, Evaluated, Rankings, RunComparison, RunReport,
};

use crate::args::{
    Compat, DedupKeep, RankingArgs, Retrieval, RetrievalCompareArgs, RetrievalEvalArgs, TiesBy, UnjudgedAs,
    ZeroOrSkip,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::table::table;

pub(super) async fn run(command: Retrieval, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Retrieval::Eval(arguments) => eval(arguments, engine, printer).await,
        Retrieval::Compare(arguments) => compare(arguments, engine, printer).await,
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
        per_query: arguments.per_query,
    };
    printer.answer(&engine.evaluate_retrieval(request).await?)?;
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
            "--fail-if-worse needs a margin from 0 up",
            "0.01 lets the first metric fall by a hundredth",
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
    };
    let compared = engine.compare_retrieval(request).await?;
    printer.answer(&compared)?;
    let gates = || compared.comparisons.iter().filter_map(|found| found.gate);
    Ok(if gates().any(|gate| gate == Gate::Fail) {
        Exit::GateSaysNo
    } else if gates().any(|gate| gate == Gate::Inconclusive) {
        Exit::Inconclusive
    } else {
        Exit::Done
    })
}

/// Few, because each one makes it harder for the others to show something.
fn decisive_measures() -> Vec<Measure> {
    [Kind::Ndcg, Kind::Mrr, Kind::Recall]
        .map(|kind| Measure {
            kind,
            cutoff: std::num::NonZeroUsize::new(10),
        })
        .to_vec()
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
    }
}

impl Render for Evaluated {
    fn human(&self) -> String {
        let parts = self.runs().iter().map(|run| {
            let mut text = format!("{}\n{}", run.run.bold(), table(&HEADER, &[1, 3], rows(run)));
            let _ = write!(text, "\n\n{}", notes(run));
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
            if let Some((header, rows)) = query_rows(run) {
                let header: Vec<&str> = header.iter().map(String::as_str).collect();
                let _ = write!(text, "\n\n{}", markdown(&header, rows));
            }
            text
        });
        parts.collect::<Vec<_>>().join("\n\n")
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
            format!(
                "### {} beside {}\n\n**{word}**{rest}\n\n{}\n\n{}",
                found.treatment,
                self.control,
                markdown(&COMPARED, compared_rows(found)),
                details(found)
            )
        });
        parts.collect::<Vec<_>>().join("\n\n")
    }
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
            found.ci.map_or_else(
                || "-".into(),
                |ci| format!("{} to {}", signed(ci.low), signed(ci.high)),
            ),
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

fn markdown(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines = vec![
        line(header.iter().map(ToString::to_string).collect()),
        format!("|{}", "---|".repeat(header.len())),
    ];
    lines.extend(rows.into_iter().map(line));
    lines.join("\n")
}

fn queries(count: usize) -> String {
    match count {
        1 => "1 query".into(),
        count => format!("{count} queries"),
    }
}

fn figure(value: f64) -> String {
    format!("{value:.4}")
}

fn signed(value: f64) -> String {
    format!("{value:+.4}")
}

fn interval(ci: Interval) -> String {
    format!("{} to {}", figure(ci.low), figure(ci.high))
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".into()
    } else {
        format!("{p:.4}")
    }
}
