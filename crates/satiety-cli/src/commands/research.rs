//! `satiety research`: searches until results are no longer new, and reports the findings.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use owo_colors::OwoColorize as _;
use satiety::research::gate::Decision;
use satiety::research::report::Answer;
use satiety::research::settings::LookAhead;
use satiety::research::{
    Assessor, Budget, GateSettings, ResearchSettings, RoundOutcome, RoundRecord, StopRule, StopThreshold,
};
use satiety_engine::Engine;
use satiety_engine::bench::target::Environment;
use satiety_engine::research::fetch::FetchSettings;
use satiety_engine::research::sources::{SourceSettings, search_policy};
use satiety_engine::research::{Prices, ResearchProgress, ResearchRequest, ResearchResponse};
use satiety_report::document::{Block, strong};
use satiety_report::documents::research as documents;
use satiety_report::{Document, terminal};

use super::bench::stop_on_interrupt;
use crate::args::{GateOptions, NoveltyBy, ResearchArgs, StopBy};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;

pub(super) async fn run(
    arguments: ResearchArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let task = arguments.task.join(" ");
    let mut gate = gate_settings(&arguments.gate)?;
    let usual = ResearchRequest::new(task, settings.research_source.clone(), reach(settings));
    gate.seed = arguments.gate.seed.unwrap_or(usual.settings.gate.seed);
    let request = ResearchRequest {
        planned: arguments.query,
        settings: ResearchSettings {
            gate,
            results_per_search: arguments.results,
            enrich_pages: arguments.read_pages,
            budget: Budget {
                seconds: arguments.max_seconds,
                tokens: arguments.max_tokens,
                money: arguments.max_cost,
            },
            ..usual.settings
        },
        use_model: !arguments.no_model,
        prices: arguments
            .price
            .as_deref()
            .map(prices)
            .transpose()?
            .unwrap_or_default(),
        record: arguments.record,
        remember: usual.remember.filter(|_| !arguments.no_cache),
        resume: arguments.resume,
        fetch: FetchSettings {
            allow_private: arguments.allow_private,
            robots: !arguments.ignore_robots,
            ..usual.fetch
        },
        ..usual
    };
    let stop = stop_on_interrupt();
    let mut view = View::new(printer);
    let mut stream = AnswerStream::new(printer, &request.task);
    let researched = engine
        .research()
        .run(request, &stop, |seen| {
            view.show(seen);
            if let ResearchProgress::Answered(answer) = seen {
                view.finish();
                stream.print(answer);
            }
        })
        .await;
    view.finish();
    let researched = researched?;
    let exit = exit_of(&researched);
    if researched.interrupted {
        printer.note(&format!(
            "interrupted; resume with `satiety research --resume {}`",
            researched.report.run_id
        ));
    }
    stream.end(&researched)?;
    Ok(exit)
}

/// How sources are reached. API keys come only from the environment.
pub(super) fn reach(settings: &Settings) -> SourceSettings {
    SourceSettings {
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect::<Environment>(),
        api: search_policy(),
        scratch: std::env::temp_dir(),
        base_url: settings.research_base_url.clone(),
    }
}

/// Converts command-line options to gate settings.
pub(super) fn gate_settings(options: &GateOptions) -> Result<GateSettings, Failure> {
    let assessor = match options.novelty {
        NoveltyBy::Claims => Assessor::Claims,
        NoveltyBy::Seed => Assessor::Seed,
        NoveltyBy::Semantic => Assessor::Semantic,
        NoveltyBy::Model => Assessor::Model,
        NoveltyBy::Auto => Assessor::Auto,
    };
    let standard = GateSettings::default();
    let look_ahead = match (options.look_ahead, assessor) {
        // The specification has no look-ahead.
        (None, Assessor::Seed) => None,
        (None, _) => standard.look_ahead,
        (Some(share), _) => standard.look_ahead.map(|ahead| LookAhead {
            yield_below: share,
            ..ahead
        }),
    };
    Ok(GateSettings {
        stop: match options.stop {
            StopBy::Novelty => StopRule::Novelty,
            StopBy::Missed => StopRule::Missed,
            StopBy::Fixed => StopRule::Fixed,
        },
        max_missed: options.max_missed,
        assessor,
        // A fixed number of rounds may be smaller than the default minimum.
        min_rounds: match options.stop {
            StopBy::Fixed => options.min_rounds.min(options.max_rounds),
            _ => options.min_rounds,
        },
        max_rounds: options.max_rounds,
        threshold: threshold(&options.threshold)?,
        epsilon: options.epsilon,
        seed: options.seed.unwrap_or_default(),
        look_ahead,
        ..standard
    })
}

/// Parses a threshold: `3` is a score, `0.3` a share.
fn threshold(text: &str) -> Result<StopThreshold, Failure> {
    let wrong = || {
        Failure::bad_input(
            format!("--threshold {text}: expected a score from 0 to 10 or a share from 0 to 1"),
            "use 3 for the specified default, or 0.3 to compare the unrounded share",
        )
    };
    if text.contains('.') {
        return text.parse().map(StopThreshold::Share).map_err(|_| wrong());
    }
    text.parse().map(StopThreshold::Score).map_err(|_| wrong())
}

fn prices(text: &str) -> Result<Prices, Failure> {
    let parsed = text.split_once(',').and_then(|(input, output)| {
        let price = |text: &str| {
            text.trim()
                .parse::<f64>()
                .ok()
                .filter(|price| price.is_finite() && *price >= 0.0)
        };
        Some(Prices {
            input: price(input)?,
            output: price(output)?,
        })
    });
    parsed.ok_or_else(|| {
        Failure::bad_input(
            format!("--price {text}: expected two numbers separated by a comma"),
            "give the price per million input and output tokens, such as 0.25,1.25",
        )
    })
}

fn exit_of(researched: &ResearchResponse) -> Exit {
    let rounds = &researched.report.rounds;
    let failed = |record: &RoundRecord| matches!(record.outcome, RoundOutcome::Failed { .. });
    if researched.interrupted {
        Exit::Interrupted
    } else if !rounds.is_empty() && rounds.iter().all(failed) {
        Exit::Environment
    } else if researched.report.sources.is_empty() {
        Exit::Inconclusive
    } else {
        Exit::Done
    }
}

/// Progress of the rounds on stderr, if it is a terminal.
struct View(Option<ProgressBar>);

impl View {
    fn new(printer: &Printer) -> Self {
        if printer.is_quiet() || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(Some(bar))
    }

    fn show(&self, seen: &ResearchProgress<'_>) {
        let Some(bar) = &self.0 else { return };
        match seen {
            ResearchProgress::Begun { .. } | ResearchProgress::Answered(_) => {}
            ResearchProgress::Searching { round, query } => {
                bar.set_message(format!("search {round}: {query}"));
            }
            ResearchProgress::Reading { url } => bar.set_message(format!("reading {url}")),
            ResearchProgress::Decided(record) => bar.println(line(record)),
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// Prints every answer as soon as it is known, if people read the output. Other formats are one document, which is
/// printed at the end.
struct AnswerStream<'a> {
    printer: &'a Printer,
    task: String,
    printed: bool,
    problem: Option<Failure>,
}

impl<'a> AnswerStream<'a> {
    fn new(printer: &'a Printer, task: &str) -> Self {
        Self {
            printer,
            task: task.to_owned(),
            printed: false,
            problem: None,
        }
    }

    fn print(&mut self, answer: &Answer) {
        if !self.printer.streams() || self.problem.is_some() {
            return;
        }
        let mut parts = documents::answer(answer);
        if parts.is_empty() {
            return;
        }
        if *answer.coverage.question != *self.task {
            parts = vec![Block::Section(strong(&*answer.coverage.question), parts)];
        }
        if !self.printed {
            parts = vec![Block::Section(strong(&*self.task), parts)];
        }
        self.printed = true;
        self.problem = self
            .printer
            .text(&terminal::render(&Document::new("", parts)))
            .err();
    }

    /// Prints what the stream has not printed.
    fn end(self, researched: &ResearchResponse) -> Result<(), Failure> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if !self.printed {
            return self.printer.answer(researched);
        }
        self.printer.save(researched)?;
        self.printer.text("")?;
        let rest = Document::new("", documents::origin(&researched.report));
        self.printer.text(&terminal::render(&rest))
    }
}

/// One-line rendering of a round, with a novelty bar.
fn line(record: &RoundRecord) -> String {
    let share = record.verdict.novelty.unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share, so between 0 and 10"
    )]
    let filled = (share * 10.0).round().clamp(0.0, 10.0) as usize;
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(10 - filled));
    let words = record.verdict.words();
    let words = match (record.verdict.decision, record.verdict.accepted) {
        (Decision::Continue, _) => words.green().to_string(),
        (Decision::Stop, true) => words.cyan().to_string(),
        (Decision::Stop, false) => words.yellow().to_string(),
    };
    format!("{:>2}  {bar}  {words}  {}", record.round, record.query.dimmed())
}

impl Render for ResearchResponse {
    fn document(&self) -> Document {
        satiety_report::documents::research::report(&self.report)
    }
}
