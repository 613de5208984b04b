//! `satiety progress`: judge the log of an agent at work, with reasons.

use std::collections::HashSet;

use satiety::progress::{LogKind, ProgressReport, ProgressSignal};
use satiety::trajectory::{LogFormat, Skipped};
use satiety_engine::Engine;
use satiety_engine::progress::{JudgeLogRequest, JudgedLog};
use satiety_report::documents::progress::{self as documents, LogSource};
use satiety_report::{Block, Document};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::ProgressArgs;
use crate::commands::score::read_input;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};

pub(super) async fn run(
    arguments: ProgressArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let name = arguments.log.display().to_string();
    let exported =
        engine
            .progress()
            .judge_exported(&name, arguments.run.as_deref(), arguments.profile.as_deref());
    let judged = if let Some(judged) = exported.await? {
        judged
    } else {
        let request = JudgeLogRequest {
            name: name.clone(),
            bytes: read_input(&arguments.log)?,
            format: arguments.input,
            profile: arguments.profile,
        };
        let mut judged = engine.progress().judge_log(request).await?;
        if let Some(run) = &arguments.run {
            select_run(&mut judged, run, &name)?;
        }
        judged
    };
    let signal = overall_signal(&judged.runs);
    printer.answer(&ProgressOutput {
        name: &name,
        judged: &judged,
        judge: None,
        every_step: arguments.at_every_step,
    })?;
    Ok(if arguments.exit_code {
        Exit::of_progress_signal(signal)
    } else {
        Exit::Done
    })
}

/// Keeps the run with an id or, if no run has it, with a number.
fn select_run(judged: &mut JudgedLog, run: &str, name: &str) -> Result<(), Failure> {
    let by_number = || {
        let number: usize = run.parse().ok()?;
        number.checked_sub(1).filter(|index| *index < judged.runs.len())
    };
    let index = judged
        .runs
        .iter()
        .position(|report| report.id.as_deref() == Some(run))
        .or_else(by_number)
        .ok_or_else(|| {
            Failure::bad_input(
                format!("{name}: no run `{run}`"),
                format!(
                    "list the runs with `satiety progress {name}`, or pass a number from 1 to {}",
                    judged.runs.len()
                ),
            )
        })?;
    judged.runs = vec![judged.runs.swap_remove(index)];
    judged.trajectories = vec![judged.trajectories.swap_remove(index)];
    Ok(())
}

/// The signal of several runs: the first of ESCALATE, STOP, CONTINUE and SHIP that one of them has.
pub(super) fn overall_signal(runs: &[ProgressReport]) -> ProgressSignal {
    let severity = |signal: &ProgressSignal| match signal {
        ProgressSignal::Escalate => 3,
        ProgressSignal::Stop => 2,
        ProgressSignal::Continue | ProgressSignal::Nudge => 1,
        ProgressSignal::Ship => 0,
    };
    let signals = runs.iter().map(|report| report.signal);
    signals.max_by_key(severity).unwrap_or(ProgressSignal::Continue)
}

/// What runs are called: their ids, or their numbers if an id is missing or not unique.
fn run_names(runs: &[ProgressReport]) -> Vec<String> {
    let ids: HashSet<&str> = runs.iter().filter_map(|report| report.id.as_deref()).collect();
    let use_ids = ids.len() == runs.len();
    let names = runs
        .iter()
        .zip(1_usize..)
        .map(|(report, number)| match &report.id {
            Some(id) if use_ids => id.clone(),
            _ => number.to_string(),
        });
    names.collect()
}

/// Judgement of a log. A log with one run has its report at the top level of the JSON.
pub(super) struct ProgressOutput<'a> {
    pub(super) name: &'a str,
    pub(super) judged: &'a JudgedLog,
    /// Name of the judge, for commands with several.
    pub(super) judge: Option<&'static str>,
    pub(super) every_step: bool,
}

/// Judgement of a log. A log with one run has the fields of its report, a log with several has `runs`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProgressOutput")]
pub(super) struct ProgressJson<'a> {
    /// Name of the judge; absent if the command has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    judge: Option<&'static str>,
    /// Format that the log was read as.
    format: LogFormat,
    /// Records that were not understood.
    skipped: &'a Skipped,
    #[serde(flatten)]
    report: Option<&'a ProgressReport>,
    /// Reports of the runs, in the order of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<&'a [ProgressReport]>,
}

impl Serialize for ProgressOutput<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let runs = self.judged.runs.as_slice();
        let (report, runs) = match runs {
            [only] => (Some(only), None),
            several => (None, Some(several)),
        };
        ProgressJson {
            judge: self.judge,
            format: self.judged.format,
            skipped: &self.judged.skipped,
            report,
            runs,
        }
        .serialize(serializer)
    }
}

impl Render for ProgressOutput<'_> {
    fn document(&self) -> Document {
        let source = LogSource {
            format: self.judged.format,
            skipped: &self.judged.skipped,
        };
        if let ([report], [trajectory]) = (self.judged.runs.as_slice(), self.judged.trajectories.as_slice()) {
            let mut document = documents::run(report, trajectory, source, self.every_step);
            if let Some(note) = documents::kind_note(report.kind) {
                let advice = match report.kind {
                    LogKind::Mixed if self.judge.is_some() => String::new(),
                    _ => format!("; judge what is said with `satiety score {}`", self.name),
                };
                document.blocks.push(Block::note(format!("{note}{advice}")));
            }
            return document;
        }
        let names = run_names(&self.judged.runs);
        let mut document = documents::runs(&self.judged.runs, &names, source);
        let first = names.first().map_or("1", String::as_str);
        document.blocks.push(Block::note(format!(
            "see one run with `satiety progress {} --run {first}`",
            self.name
        )));
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(id: Option<&str>, signal: ProgressSignal) -> ProgressReport {
        let mut report = satiety::progress::judge(
            &satiety::trajectory::Trajectory::default(),
            satiety::progress::ProgressProfile::built_in(),
            |_| None::<Vec<f32>>,
        );
        report.id = id.map(str::to_owned);
        report.signal = signal;
        report
    }

    #[test]
    fn the_most_urgent_run_decides() {
        use ProgressSignal::{Continue, Escalate, Nudge, Ship, Stop};
        let overall = |signals: &[ProgressSignal]| {
            let runs: Vec<_> = signals.iter().map(|signal| report(None, *signal)).collect();
            Exit::of_progress_signal(overall_signal(&runs)).code()
        };
        assert_eq!(overall(&[Ship, Stop, Escalate, Continue]), 12);
        assert_eq!(overall(&[Ship, Stop, Nudge]), 11);
        assert_eq!(overall(&[Ship, Nudge]), 0);
        assert_eq!(overall(&[Ship, Ship]), 10);
        assert_eq!(overall(&[]), 0);
    }

    #[test]
    fn runs_without_unique_ids_are_numbered() {
        let runs = |ids: [Option<&str>; 2]| run_names(&ids.map(|id| report(id, ProgressSignal::Continue)));
        assert_eq!(runs([Some("a"), Some("b")]), ["a", "b"]);
        assert_eq!(runs([Some("a"), Some("a")]), ["1", "2"]);
        assert_eq!(runs([Some("a"), None]), ["1", "2"]);
    }
}
