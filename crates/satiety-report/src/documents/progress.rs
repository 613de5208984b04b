//! Reports about agents at work: verdict, timeline, repeats, waste, and what to do next.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use satiety::progress::{
    EvidenceKind, LogKind, OpenEndKind, ProgressProfile, ProgressReport, ProgressSignal, RuleResult,
    StepVerdict, SweepPoint, Waste, WorkSweep, describe_call, has_failed, telling_line,
};
use satiety::stats::Interval;
use satiety::trajectory::{CallKind, LogFormat, Skipped, Step, Trajectory, classify};

use crate::document::{
    Block, Chart, Document, Medium, Table, Text, Tone, badge, count, dim, or_dash, strong,
};
use crate::row;
use crate::series::{Lines, Series};
use crate::timeline::{CellKind, Timeline, TimelineCell};

/// Number of repeats that a report lists.
const REPEATS: usize = 3;
/// Number of runs and steps that a terminal shows.
const ROWS: usize = 100;

/// Where runs were read from.
#[derive(Debug, Clone, Copy)]
pub struct LogSource<'a> {
    pub format: LogFormat,
    pub skipped: &'a Skipped,
}

/// Reports one run; with `every_step`, also each of its steps and the use of its tools.
pub fn run(
    report: &ProgressReport,
    trajectory: &Trajectory,
    source: LogSource<'_>,
    every_step: bool,
) -> Document {
    let mut blocks = Vec::new();
    if let Some(title) = title(trajectory) {
        blocks.push(Block::Only(
            Medium::Terminal,
            vec![Block::Text(strong(title)), Block::text(" ")],
        ));
    }
    blocks.extend(verdict(report));
    blocks.push(Block::Chart(Chart::Timeline(timeline(report, trajectory))));
    let repeats = repeats(report, trajectory);
    if !repeats.is_empty() {
        blocks.push(Block::section("Repeats", vec![Block::List(repeats)]));
    }
    blocks.push(Block::section("Cost", vec![cost(report)]));
    let open_ends = open_ends(report);
    if !open_ends.is_empty() {
        blocks.push(Block::section("Open", vec![Block::List(open_ends)]));
    }
    if every_step {
        let rows = report.steps.iter().map(|verdict| {
            let step = trajectory.steps.get(verdict.step - 1);
            step_row(verdict, step)
        });
        let header = ["step", "action", "outcome", "level", "signal", "finding"];
        let steps = Table::new(&header, &[0, 3], rows).limit(ROWS);
        blocks.push(Block::section("Steps", vec![Block::Table(steps)]));
        blocks.push(Block::section("Tools", vec![tools(report)]));
    }
    blocks.extend(skipped(source.skipped));
    blocks.push(Block::Text(dim(format!(
        "{} log, profile {}",
        source.format.name(),
        report.profile
    ))));
    let name = report.id.as_deref().unwrap_or("an agent");
    let mut document = Document::new(format!("Progress of {name}"), blocks);
    document.data = Some(data(report));
    document
}

/// Reports several runs, one per line. `names` are what the runs are called.
pub fn runs(reports: &[ProgressReport], names: &[String], source: LogSource<'_>) -> Document {
    let rows = reports.iter().zip(names).map(|(report, name)| {
        row![
            shorten(name, 40),
            report.steps.len(),
            report.kind.as_str(),
            badge(tone(report.signal), report.signal.as_str()),
            or_none(report.first_nudge_step),
            or_none(report.first_stop_step),
            report.wasted_steps,
            shorten(&report.reason, 70),
        ]
    });
    let header = [
        "run",
        "steps",
        "kind",
        "signal",
        "first nudge",
        "first stop",
        "wasted",
        "reason",
    ];
    let table = Table::new(&header, &[1, 4, 5, 6], rows).limit(ROWS);
    let counts: Vec<String> = SIGNALS
        .iter()
        .filter_map(|signal| {
            let count = reports.iter().filter(|report| report.signal == *signal).count();
            (count > 0).then(|| format!("{count} {signal}"))
        })
        .collect();
    let mut blocks = vec![
        Block::text(format!("{} runs: {}", reports.len(), counts.join(", "))),
        Block::Table(table.clone()),
    ];
    blocks.extend(skipped(source.skipped));
    blocks.push(Block::Text(dim(format!("{} log", source.format.name()))));
    let mut document = Document::new("Progress of several runs", blocks);
    document.data = Some(table);
    document
}

const SIGNALS: [ProgressSignal; 5] = [
    ProgressSignal::Escalate,
    ProgressSignal::Stop,
    ProgressSignal::Nudge,
    ProgressSignal::Continue,
    ProgressSignal::Ship,
];

/// Signal and reason, then what to do.
pub fn verdict(report: &ProgressReport) -> Vec<Block> {
    let word = report.signal.as_str();
    let tone = tone(report.signal);
    let line = badge(tone, word).then(format!(": {}", report.reason));
    vec![
        // A terminal shows verdicts last; here the timeline explains the verdict above it.
        Block::Only(Medium::Terminal, vec![Block::Text(line)]),
        Block::Only(
            Medium::Page,
            vec![Block::verdict(tone, word, &report.reason, &[])],
        ),
        Block::Note(Tone::Plain, "next".into(), next(report).into()),
    ]
}

/// What to do about the last signal.
fn next(report: &ProgressReport) -> String {
    let nudge = report.steps.last().and_then(|verdict| verdict.nudge.as_deref());
    match (report.signal, nudge) {
        (ProgressSignal::Continue, _) => "Let it go on.".to_owned(),
        (ProgressSignal::Ship, _) => "Accept the result.".to_owned(),
        (ProgressSignal::Nudge, Some(nudge)) => format!("Add to the agent's context: “{nudge}”"),
        (ProgressSignal::Nudge, None) => "Add a hint to the agent's context.".to_owned(),
        (ProgressSignal::Stop, None) => "End the run.".to_owned(),
        (ProgressSignal::Escalate, None) => "Pause the run for a person.".to_owned(),
        (ProgressSignal::Stop, Some(nudge)) => {
            format!("End the run, or give it a last chance with: “{nudge}”")
        }
        (ProgressSignal::Escalate, Some(nudge)) => {
            format!("Pause the run for a person. The agent can be told: “{nudge}”")
        }
    }
}

/// The steps of a run as characters.
pub fn timeline(report: &ProgressReport, trajectory: &Trajectory) -> Timeline {
    let cells = report.steps.iter().map(|verdict| {
        let step = trajectory.steps.get(verdict.step - 1);
        let action = step.map(action).unwrap_or_default();
        let finding = finding(verdict).unwrap_or_else(|| verdict.reason.clone());
        TimelineCell {
            kind: cell_kind(verdict, step),
            hint: format!("{action} {}: {finding}", verdict.signal),
        }
    });
    Timeline {
        title: "Steps".into(),
        cells: cells.collect(),
    }
}

fn cell_kind(verdict: &StepVerdict, step: Option<&Step>) -> CellKind {
    let kind = |symbol, name, tone| CellKind { symbol, name, tone };
    match verdict.signal {
        ProgressSignal::Stop => return kind('S', "stop", Tone::Bad),
        ProgressSignal::Escalate => return kind('!', "escalate", Tone::Bad),
        ProgressSignal::Nudge => return kind('n', "nudge", Tone::Unsure),
        ProgressSignal::Ship => return kind('✓', "ship", Tone::Good),
        ProgressSignal::Continue => {}
    }
    let repeats = verdict
        .evidence
        .iter()
        .any(|evidence| verb(evidence.kind).is_some());
    let calls = step.map_or(&[][..], |step| &step.calls);
    if repeats {
        kind('r', "repeat", Tone::Unsure)
    } else if calls
        .iter()
        .filter_map(|call| call.result.as_ref())
        .any(has_failed)
    {
        kind('✗', "failed", Tone::Plain)
    } else if calls.iter().any(|call| classify(call).kind == CallKind::Edit) {
        kind('e', "edit", Tone::Good)
    } else {
        kind('·', "new", Tone::Plain)
    }
}

/// How a step relates to the earlier one that it repeats, for one step and for several; `None` for findings
/// that are not repeats.
fn verb(kind: EvidenceKind) -> Option<[&'static str; 2]> {
    match kind {
        EvidenceKind::ExactRepeat | EvidenceKind::NearRepeat | EvidenceKind::RepeatedText => {
            Some(["repeats", "repeat"])
        }
        EvidenceKind::SameError => Some(["fails like", "fail like"]),
        EvidenceKind::Stagnation => Some(["brings the result of", "bring the result of"]),
        EvidenceKind::RepeatedQuestion => Some(["asks the question of", "ask the question of"]),
        EvidenceKind::Undo => Some(["takes back", "take back"]),
        EvidenceKind::Cycle
        | EvidenceKind::Revision
        | EvidenceKind::Reread
        | EvidenceKind::NoNewTarget
        | EvidenceKind::CostGrowth => None,
    }
}

/// Steps that repeat the same step in the same way, and the sum of their weights.
#[derive(Default)]
struct RepeatGroup {
    steps: Vec<usize>,
    weight: f64,
}

/// The strongest repeats: which steps repeat which one, and what it did.
fn repeats(report: &ProgressReport, trajectory: &Trajectory) -> Vec<Text> {
    // A repeat of a repeat repeats the first of them.
    let mut origins: BTreeMap<usize, usize> = BTreeMap::new();
    let mut groups: BTreeMap<(usize, [&str; 2]), RepeatGroup> = BTreeMap::new();
    for verdict in &report.steps {
        for evidence in &verdict.evidence {
            let (Some(verb), Some(earlier)) = (verb(evidence.kind), evidence.earlier_step) else {
                continue;
            };
            let origin = origins.get(&earlier).copied().unwrap_or(earlier);
            origins.entry(verdict.step).or_insert(origin);
            let group = groups.entry((origin, verb)).or_default();
            group.steps.push(verdict.step);
            group.weight += evidence.weight;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(_, left), (_, right)| right.weight.total_cmp(&left.weight));
    groups
        .into_iter()
        .take(REPEATS)
        .map(|((origin, verb), group)| {
            let (noun, verb) = match group.steps.len() {
                1 => ("step", verb[0]),
                _ => ("steps", verb[1]),
            };
            let what = trajectory.steps.get(origin - 1).map(summary);
            let what = what.map_or_else(String::new, |what| format!(": {what}"));
            format!("{noun} {} {verb} step {origin}{what}", ranges(&group.steps)).into()
        })
        .collect()
}

/// Ascending numbers with series in short: `3 to 6, 9`.
fn ranges(numbers: &[usize]) -> String {
    const MOST: usize = 8;
    let series: Vec<String> = numbers
        .chunk_by(|left, right| left + 1 == *right)
        .flat_map(|series| match series {
            [first, .., last] if series.len() > 2 => vec![format!("{first} to {last}")],
            few => few.iter().map(ToString::to_string).collect(),
        })
        .collect();
    if series.len() <= MOST {
        return series.join(", ");
    }
    let rest = series.len() - MOST;
    format!("{}, … ({rest} more)", series[..MOST].join(", "))
}

fn cost(report: &ProgressReport) -> Block {
    let at = |step: Option<usize>| step.map_or_else(|| "none".to_owned(), |step| format!("step {step}"));
    Block::fields([
        ("steps", Some(Text::from(report.steps.len()))),
        ("first nudge", Some(at(report.first_nudge_step).into())),
        ("first stop", Some(at(report.first_stop_step).into())),
        (
            "wasted",
            Some(match report.wasted_steps {
                0 => "none".into(),
                wasted => format!("{} brought nothing new", count(wasted, "step", "steps")).into(),
            }),
        ),
        (
            "expected",
            (report.expected_waste.steps > 0.0).then(|| expected(&report.expected_waste).into()),
        ),
        (
            "confidence",
            Some(format!("{:.0} %", 100.0 * report.confidence).into()),
        ),
    ])
}

fn expected(waste: &Waste) -> String {
    let mut text = format!("{:.1} more wasted steps if it goes on", waste.steps);
    let mut costs = Vec::new();
    costs.extend(waste.tokens.map(|tokens| format!("{tokens:.0} tokens")));
    costs.extend(waste.cost.map(|cost| format!("cost {cost:.2}")));
    if !costs.is_empty() {
        text = format!("{text} ({})", costs.join(", "));
    }
    text
}

fn open_ends(report: &ProgressReport) -> Vec<Text> {
    let words = |open: &satiety::progress::OpenEnd| {
        let at = open
            .step
            .map_or_else(String::new, |step| format!(" (step {step})"));
        match open.kind {
            OpenEndKind::PlanItem => format!("plan: {}{at}", open.text),
            OpenEndKind::FailedCheck => format!("failed check: `{}`{at}", open.text),
            OpenEndKind::Question => format!("question: {}{at}", open.text),
        }
    };
    report.open_ends.iter().map(|open| words(open).into()).collect()
}

fn skipped(skipped: &Skipped) -> Option<Block> {
    let first = skipped.first.first()?;
    let records = if skipped.count == 1 { "record" } else { "records" };
    Some(Block::note(format!(
        "{} {records} of the log skipped; the first in line {}: {}",
        skipped.count, first.line, first.reason
    )))
}

fn tools(report: &ProgressReport) -> Block {
    let rows = report
        .tools
        .iter()
        .map(|tool| row![name_of(&tool.tool), tool.calls, tool.failures, tool.repeats]);
    let header = ["tool", "calls", "failures", "repeats"];
    Block::Table(Table::new(&header, &[1, 2, 3], rows).limit(ROWS))
}

fn step_row(verdict: &StepVerdict, step: Option<&Step>) -> Vec<Text> {
    let words = |text: String| shorten(&text, 44);
    row![
        verdict.step,
        words(step.map(action).unwrap_or_default()),
        words(step.and_then(outcome).unwrap_or_default()),
        format!("{:.2}", verdict.level),
        badge(tone(verdict.signal), verdict.signal.as_str()),
        finding(verdict).unwrap_or_default(),
    ]
}

/// Rows for programs: one per step.
fn data(report: &ProgressReport) -> Table {
    let rows = report.steps.iter().map(|verdict| {
        let kinds: Vec<&str> = verdict.evidence.iter().map(|found| found.kind.as_str()).collect();
        row![
            verdict.step,
            verdict.signal.as_str(),
            format!("{:.4}", verdict.level),
            format!("{:.4}", verdict.confidence),
            format!("{:.4}", verdict.expected_waste.steps),
            kinds.join(" "),
            &verdict.reason,
        ]
    });
    let header = [
        "step",
        "signal",
        "level",
        "confidence",
        "expected_waste",
        "evidence",
        "reason",
    ];
    Table::new(&header, &[0, 2, 3, 4], rows)
}

fn finding(verdict: &StepVerdict) -> Option<String> {
    verdict
        .evidence
        .iter()
        .max_by(|left, right| left.weight.total_cmp(&right.weight))
        .map(satiety::progress::Evidence::describe)
}

/// What a step did and what came of it, such as "`pytest` → `ImportError`".
fn summary(step: &Step) -> String {
    let action = action(step);
    match outcome(step) {
        Some(outcome) => format!("{action} → {}", shorten(&outcome, 80)),
        None => action,
    }
}

/// What a step did: its calls, or its text.
pub fn action(step: &Step) -> String {
    match step.calls.as_slice() {
        [] => format!("“{}”", shorten(&step.text, 60)),
        [only] => describe_call(only),
        [first, rest @ ..] => format!("{} and {} more", describe_call(first), rest.len()),
    }
}

/// The line of a step's results that says most, of the first failed result if there is one.
fn outcome(step: &Step) -> Option<String> {
    let results = || step.calls.iter().filter_map(|call| call.result.as_ref());
    let result = results()
        .find(|result| has_failed(result))
        .or_else(|| results().next());
    let Some(result) = result else {
        return step.replies.first().map(|reply| shorten(&reply.text, 80));
    };
    let line = telling_line(result);
    Some(line.map_or_else(|| "no output".to_owned(), |line| shorten(line, 120)))
}

/// First line of the task, with the id of the run.
fn title(trajectory: &Trajectory) -> Option<String> {
    let task = trajectory
        .task
        .as_deref()
        .and_then(|task| task.lines().map(str::trim).find(|line| !line.is_empty()));
    let text = match (trajectory.id.as_deref(), task) {
        (Some(id), Some(task)) => format!("{id}: {task}"),
        (id, task) => id.or(task)?.to_owned(),
    };
    Some(shorten(&text, 96))
}

/// Tone in which a signal is shown.
pub fn tone(signal: ProgressSignal) -> Tone {
    match signal {
        ProgressSignal::Continue => Tone::Plain,
        ProgressSignal::Nudge => Tone::Unsure,
        ProgressSignal::Ship => Tone::Good,
        ProgressSignal::Stop | ProgressSignal::Escalate => Tone::Bad,
    }
}

fn name_of(tool: &str) -> &str {
    if tool.is_empty() { "(unnamed)" } else { tool }
}

fn or_none(step: Option<usize>) -> String {
    step.map_or_else(|| "-".into(), |step| step.to_string())
}

/// A text as one line of at most `longest` characters.
fn shorten(text: &str, longest: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        // A character has at most four bytes.
        if line.len() > longest * 4 {
            break;
        }
    }
    if line.chars().count() <= longest {
        return line;
    }
    let kept: String = line.chars().take(longest.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Reports a calibration: the judge over thresholds, compared with simple rules.
pub fn sweep(sweep: &WorkSweep) -> Document {
    let header = [
        "stop at",
        "waste saved",
        "solved runs cut",
        "loops missed",
        "median delay",
        "nudges per solved run",
    ];
    let numbers = [0, 1, 2, 3, 4, 5];
    let cells = |result: &RuleResult| -> Vec<Text> {
        row![
            interval(result.waste_saved, result.waste_saved_interval),
            interval(result.solved_cut_rate, result.solved_cut_interval),
            format!("{} of {}", result.loops_missed, sweep.loops),
            or_dash(result.median_delay, |delay| format!("{delay:.1}")),
            or_dash(result.nudges_per_solved, |nudges| format!("{nudges:.2}")),
        ]
    };
    let points = sweep.points.iter().map(|point| {
        let mut row = row![format!("{:.2}", point.stop)];
        row.extend(cells(&point.result));
        row
    });
    let points = Table::new(&header, &numbers, points);
    let mut current = row![format!("profile (stop {:.2})", sweep.profile.stop)];
    current.extend(cells(&sweep.profile.result));
    let rules = sweep.rules.iter().map(|rule| {
        let mut row = row![&rule.rule];
        row.extend(cells(rule));
        row
    });
    let mut rule_header = header;
    rule_header[0] = "rule";
    let compared = Table::new(&rule_header, &numbers[1..], std::iter::once(current).chain(rules));
    let places = sweep.points.iter().map(|point| format!("{:.2}", point.stop));
    let curve = |name: &str, value: fn(&RuleResult) -> Option<f64>| {
        Series::new(
            name,
            sweep.points.iter().map(|point| value(&point.result)).collect(),
        )
    };
    let chart = Lines::shares(
        "Waste saved and solved runs cut by threshold",
        "stop at",
        places.collect(),
        vec![
            curve("waste saved", |result| result.waste_saved),
            curve("solved runs cut", |result| result.solved_cut_rate),
        ],
    );
    let mut blocks = vec![
        Block::text(format!(
            "{} runs: {} solved, {} unsolved with a loop, {} steps wasted in loops",
            sweep.runs, sweep.solved, sweep.loops, sweep.wasted_steps
        )),
        Block::section(
            "Thresholds",
            vec![Block::Table(points.clone()), Block::Chart(Chart::Lines(chart))],
        ),
        Block::section("Compared with simple rules", vec![Block::Table(compared)]),
    ];
    let suggested = sweep
        .points
        .iter()
        .find(|point| sweep.loops > 0 && Some(point.stop) == sweep.suggested_stop);
    match suggested {
        Some(point) => {
            let next = format!(
                "{:.2} saves most among the thresholds that cut at most 2 % of the solved runs. To use it, write a profile:",
                point.stop
            );
            blocks.push(Block::Note(Tone::Plain, "next".into(), next.into()));
            blocks.push(Block::Verbatim(profile_snippet(point)));
        }
        None if sweep.loops == 0 => {
            blocks.push(Block::note(
                "no unsolved run has a loop, so no threshold is suggested",
            ));
        }
        None => blocks.push(Block::note(
            "no threshold is suggested: each of them cuts more than 2 % of the solved runs",
        )),
    }
    let mut document = Document::new("Calibration on recorded runs", blocks);
    document.data = Some(points);
    document
}

/// The keys of a profile that set a threshold, and with it the level of nudges as in the sweep.
fn profile_snippet(point: &SweepPoint) -> String {
    let mut text = format!("[decision]\nstop = {}\nnudge = {:.2}", point.stop, point.nudge);
    if point.stop > ProgressProfile::built_in().decision.ceiling {
        let _ = write!(text, "\nceiling = {}", point.stop);
    }
    text
}

/// A share with its interval, in percent.
fn interval(share: Option<f64>, interval: Option<Interval>) -> String {
    let Some(share) = share else { return "-".into() };
    match interval {
        Some(Interval { low, high, .. }) => format!(
            "{:.0} % ({:.0} to {:.0})",
            100.0 * share,
            100.0 * low,
            100.0 * high
        ),
        None => format!("{:.0} %", 100.0 * share),
    }
}

/// What a log shows, if the progress judge alone does not settle it.
pub fn kind_note(kind: LogKind) -> Option<&'static str> {
    match kind {
        LogKind::Work => None,
        LogKind::Deliberation => Some("no turn of this log calls a tool, so it shows a discussion"),
        LogKind::Mixed => Some("most turns of this log call no tool, so it shows a discussion as well"),
    }
}
