//! `satiety bench label`: human verdicts on answers, interactively or from a file.

use std::fmt::Write as _;
use std::io::{BufRead, Write as _};

use owo_colors::OwoColorize;
use satiety::bench::judge::Calibration;
use satiety_engine::Engine;
use satiety_engine::bench::{LabelResponse, LabelSession, UnlabelledCase, read_labels};
use satiety_report::document::percent;

use crate::args::BenchLabelArgs;
use crate::exit::Exit;
use crate::failure::{Failure, to_stderr};
use crate::printer::{Printer, Render};

/// Maximum number of characters shown of an answer.
const MAX_SHOWN: usize = 4000;

pub(super) async fn run(
    arguments: BenchLabelArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let mut labelling = engine
        .bench()
        .open_label_session(&arguments.run, arguments.suite.as_deref())
        .await?;
    if let Some(file) = &arguments.file {
        labelling.label_all(&read_labels(file)?).await?;
    } else if arguments.all || !arguments.calibrate {
        ask(&mut labelling, arguments.all).await?;
    }
    let labelled = labelling.outcome();
    let nothing = arguments.calibrate && labelled.calibration.is_none();
    printer.answer(&labelled)?;
    if nothing {
        return Err(Failure::bad_input(
            format!(
                "cannot calibrate run {}: no answer has both a judge's score and a label",
                labelled.run_id
            ),
            "run with --judge, then label the judged answers with `satiety bench label RUN --all`",
        ));
    }
    Ok(Exit::Done)
}

/// Asks about one result after the other; every label is stored before the next question.
async fn ask(labelling: &mut LabelSession, all: bool) -> Result<(), Failure> {
    let places = labelling.results(all);
    if places.is_empty() {
        to_stderr(if all {
            "no answers to label"
        } else {
            "no answers need a human verdict; use --all to label decided ones, too"
        });
    }
    let mut lines = std::io::stdin().lock().lines();
    for (number, place) in places.iter().enumerate() {
        let Some(shown) = labelling.show(*place) else {
            continue;
        };
        to_stderr(&question(&shown, number + 1, places.len()));
        match answer(&mut lines)? {
            Answer::Label(pass) => labelling.label(*place, pass).await?,
            Answer::Skip => {}
            Answer::Quit => break,
        }
    }
    Ok(())
}

enum Answer {
    Label(bool),
    Skip,
    Quit,
}

fn answer(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Result<Answer, Failure> {
    loop {
        let mut err = anstream::stderr();
        // If the prompt cannot be shown, piped input still answers it.
        let _ = write!(err, "{} ", "[p]ass, [f]ail, [s]kip, [q]uit?".bold());
        let _ = err.flush();
        // End of input ends the session.
        let Some(line) = lines.next() else {
            to_stderr("");
            return Ok(Answer::Quit);
        };
        let line = line.map_err(|error| {
            Failure::bad_input(
                format!("cannot read standard input: {error}"),
                "labels so far are stored; run it again to continue",
            )
        })?;
        match line.trim().to_lowercase().as_str() {
            "p" | "pass" => return Ok(Answer::Label(true)),
            "f" | "fail" => return Ok(Answer::Label(false)),
            "s" | "skip" | "" => return Ok(Answer::Skip),
            "q" | "quit" => return Ok(Answer::Quit),
            other => to_stderr(&format!(
                "unknown answer `{}` (expected one of: p, f, s, q)",
                other.escape_debug()
            )),
        }
    }
}

fn question(shown: &UnlabelledCase, number: usize, of: usize) -> String {
    let mut text = format!(
        "\n{} {}",
        format!("{number}/{of}").dimmed(),
        printable(&shown.case_id).bold()
    );
    if shown.repeat > 0 {
        let _ = write!(text, ", repeat {}", shown.repeat);
    }
    if let Some(variant) = &shown.variant {
        let _ = write!(text, ", {}", printable(variant));
    }
    if let Some(label) = &shown.human_label {
        let _ = write!(text, " (labelled {} earlier)", printable(label));
    }
    let goal = shown.goal.as_deref().unwrap_or("unknown without the suite");
    let _ = write!(text, "\n{} {}", "asked:".cyan(), printable(goal));
    if let Some(note) = &shown.note {
        let _ = write!(text, "\n{} {}", "note:".cyan(), printable(note));
    }
    let _ = write!(text, "\n{}\n{}", "answer:".cyan(), printable(&shown.output));
    text
}

/// Target output must not control the annotator's terminal.
fn printable(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(MAX_SHOWN)
        .map(|letter| match letter {
            '\n' | '\t' => letter,
            letter if letter.is_control() => '\u{fffd}',
            letter => letter,
        })
        .collect();
    let left = text.chars().count().saturating_sub(MAX_SHOWN);
    if left > 0 {
        let _ = write!(out, "\n… and {left} more characters");
    }
    out
}

impl Render for LabelResponse {
    fn human(&self) -> String {
        let mut text = format!(
            "{} {} for run {}; {} passed, {} pending",
            self.labelled,
            if self.labelled == 1 { "label" } else { "labels" },
            self.run_id,
            percent(self.pass_rate),
            self.pending
        );
        if let Some(found) = &self.calibration {
            let _ = write!(text, "\n{}", calibration(found));
        }
        for warning in &self.warnings {
            let _ = write!(text, "\n{} {warning}", "note:".yellow());
        }
        text
    }
}

fn calibration(found: &Calibration) -> String {
    let count = found.both_pass + found.both_fail + found.only_judge_passes + found.only_human_passes;
    let ci = found.agreement_interval;
    let mut text = format!(
        "the judge agrees with people on {} of {count} answers: {} ({:.1} to {:.1})",
        found.both_pass + found.both_fail,
        percent(Some(found.agreement)),
        100.0 * ci.low,
        100.0 * ci.high
    );
    if let Some(kappa) = found.kappa {
        let _ = write!(text, ", kappa {kappa:.2}");
    }
    let _ = write!(
        text,
        "\nthe judge passes {} that people fail, and fails {} that people pass",
        found.only_judge_passes, found.only_human_passes
    );
    text
}
