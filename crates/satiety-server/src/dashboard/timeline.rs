//! Timeline of an agent's run: the level after each step as a bar, a letter for what was found, arcs between repeated steps,
//! and marks where the context was compacted or items were proposed for eviction.

use std::fmt::Write;

use satiety::progress::{DecisionLimits, EvidenceKind, ProgressSignal, StepVerdict};
use satiety_engine::progress::{ContextChange, ContextEvent};
use satiety_report::document::{badge, link};
use satiety_report::html::{Html, blocks, escape, joined};
use satiety_report::{Block, Table, Text, Tone, row};

use super::shell::{count, segment, sentence_case};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 54.0;
/// Height above the bars, for the labels of the first nudge and the first stop.
const TOP: f64 = 36.0;
const HEIGHT: f64 = 130.0;
/// Height of the row of letters.
const STRIP: f64 = 18.0;
/// Height below the letters, for the arcs between repeated steps.
const ARCS: f64 = 44.0;
/// Minimum width of a letter.
const LETTER: f64 = 10.0;
/// Half the width of the mark of a context event.
const EVENT: f64 = 5.0;

/// Steps to draw, with the levels and steps at which the judge acts.
pub(super) struct Timeline<'a> {
    pub(super) verdicts: &'a [StepVerdict],
    pub(super) limits: DecisionLimits,
    pub(super) first_nudge: Option<usize>,
    pub(super) first_stop: Option<usize>,
    /// Changes of the agent's context, in order.
    pub(super) events: &'a [ContextEvent],
}

/// Name of a change of the context, which is also its CSS class.
fn event_name(event: &ContextEvent) -> &'static str {
    match event.kind {
        ContextChange::Compaction => "compaction",
        ContextChange::Eviction { .. } => "eviction",
    }
}

/// List of the changes of an agent's context, each with its step; `total` is the number of steps of the run.
pub(super) fn event_list(
    events: &[ContextEvent],
    total: usize,
    step: impl Fn(usize) -> Text,
) -> Option<Block> {
    /// Maximum number of events in the list.
    const MOST: usize = 100;
    if events.is_empty() {
        return None;
    }
    let mut items: Vec<Text> = events
        .iter()
        .take(MOST)
        .map(|event| {
            let words = if event.detail.is_empty() {
                String::new()
            } else {
                format!(": {}", event.detail)
            };
            let name = badge(Tone::Plain, event_name(event));
            let text = if event.step > total {
                name.then(" after ").then(step(total))
            } else {
                name.then(" before ").then(step(event.step))
            };
            let text = text.then(words);
            match &event.kind {
                ContextChange::Compaction => text,
                ContextChange::Eviction {
                    scope_id,
                    proposal_id,
                } => {
                    let to = format!(
                        "/eviction/{}/proposals/{}",
                        segment(scope_id),
                        segment(proposal_id)
                    );
                    text.then(" ").then(link(to, "See the items and why"))
                }
            }
        })
        .collect();
    let hidden = events.len() - items.len();
    items.extend((hidden > 0).then(|| format!("… and {hidden} more.").into()));
    Some(Block::section("Changes of the context", vec![Block::List(items)]))
}

/// The finding with the greatest weight, which the letter stands for.
fn main_finding(verdict: &StepVerdict) -> Option<EvidenceKind> {
    let found = verdict.evidence.iter();
    found
        .max_by(|one, other| one.weight.total_cmp(&other.weight))
        .map(|one| one.kind)
}

/// Letter and meaning of a step's main finding.
fn letter(verdict: &StepVerdict) -> (char, &'static str) {
    match main_finding(verdict) {
        None if verdict.signal == ProgressSignal::Ship => ('F', "finished"),
        None => ('·', "something new"),
        Some(EvidenceKind::ExactRepeat) => ('R', "same action and outcome"),
        Some(EvidenceKind::NearRepeat) => ('N', "similar action and outcome"),
        Some(EvidenceKind::Cycle) => ('C', "cycle"),
        Some(EvidenceKind::SameError) => ('E', "same error"),
        Some(EvidenceKind::Stagnation) => ('S', "other action, same result"),
        Some(EvidenceKind::Revision) => ('V', "revised edit"),
        Some(EvidenceKind::Undo) => ('U', "undone edit"),
        Some(EvidenceKind::Reread) => ('A', "already read"),
        Some(EvidenceKind::NoNewTarget) => ('T', "no new file, query or result"),
        Some(EvidenceKind::CostGrowth) => ('G', "growing cost"),
        Some(EvidenceKind::RepeatedQuestion) => ('Q', "same question"),
        Some(EvidenceKind::RepeatedText) => ('W', "same text"),
    }
}

/// CSS class of a step, by its signal.
fn class(verdict: &StepVerdict) -> &'static str {
    match verdict.signal {
        ProgressSignal::Continue if !verdict.evidence.is_empty() => "step plain",
        ProgressSignal::Continue | ProgressSignal::Ship => "step good",
        ProgressSignal::Nudge => "step unsure",
        ProgressSignal::Stop | ProgressSignal::Escalate => "step bad",
    }
}

impl Timeline<'_> {
    /// Draws the timeline with a legend and its values as a table.
    pub(super) fn figure(&self) -> Html {
        let width = (WIDTH - LEFT) / self.verdicts.len().max(1) as f64;
        let mut inside = String::new();
        self.draw_steps(&mut inside, width);
        self.draw_letters(&mut inside, width);
        self.draw_scale(&mut inside);
        self.draw_marks(&mut inside, width);
        self.draw_events(&mut inside, width);
        let arcs = self.draw_arcs(&mut inside, width);
        let bottom = TOP + HEIGHT + STRIP + if arcs { ARCS } else { 0.0 };
        for (index, anchor, x) in [
            (0, "start", LEFT),
            (self.verdicts.len().saturating_sub(1), "end", WIDTH - 2.0),
        ] {
            if let Some(verdict) = self.verdicts.get(index) {
                let _ = write!(
                    inside,
                    "<text x=\"{x}\" y=\"{:.0}\" text-anchor=\"{anchor}\">step {}</text>",
                    bottom + 18.0,
                    verdict.step
                );
            }
        }
        Html(format!(
            "<figure class=\"chart timeline\"><figcaption>Level by step: repeats raise it, new results lower it</figcaption>\
             <div class=\"drawing\" tabindex=\"0\" role=\"group\" aria-label=\"Chart: level by step\">\
             <svg role=\"img\" aria-label=\"Level by step\" viewBox=\"0 0 {WIDTH} {:.0}\" width=\"{WIDTH}\">{inside}</svg></div>\
             {}\n{}</figure>",
            bottom + 24.0,
            self.legend(),
            self.table()
        ))
    }

    fn y(&self, level: f64) -> f64 {
        let most = self.limits.ceiling.max(f64::MIN_POSITIVE);
        TOP + HEIGHT * (1.0 - (level / most).clamp(0.0, 1.0))
    }

    fn draw_steps(&self, inside: &mut String, width: f64) {
        for (index, verdict) in self.verdicts.iter().enumerate() {
            let top = self.y(verdict.level);
            let hint = format!(
                "Step {}: {}, level {:.2}, {}",
                verdict.step,
                verdict.signal,
                verdict.level,
                letter(verdict).1
            );
            // Writing to a string cannot fail.
            let _ = write!(
                inside,
                "<g class=\"{}\"><title>{}</title><rect x=\"{x:.2}\" y=\"{top:.1}\" width=\"{w:.2}\" height=\"{:.1}\"/>\
                 <rect class=\"cell\" x=\"{x:.2}\" y=\"{:.1}\" width=\"{w:.2}\" height=\"{STRIP}\"/></g>",
                class(verdict),
                escape(&hint),
                // A level of 0 is a thin line, so that every step can be pointed at.
                (TOP + HEIGHT - top).max(1.0),
                TOP + HEIGHT + 2.0,
                x = LEFT + index as f64 * width,
                w = (width * 0.9).max(0.2),
            );
        }
    }

    /// One letter for each step, or for each series of equal steps where steps are too narrow.
    fn draw_letters(&self, inside: &mut String, width: f64) {
        let same = |one: &StepVerdict, other: &StepVerdict| {
            width < LETTER && letter(one) == letter(other) && class(one) == class(other)
        };
        let mut index = 0;
        for series in self.verdicts.chunk_by(same) {
            let wide = series.len() as f64 * width;
            if let (true, Some(first)) = (wide >= LETTER, series.first()) {
                let _ = write!(
                    inside,
                    "<text class=\"letter {}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    class(first),
                    LETTER.mul_add(-0.05, LEFT + index as f64 * width + wide / 2.0),
                    TOP + HEIGHT + 15.0,
                    letter(first).0
                );
            }
            index += series.len();
        }
    }

    /// An arc from each repeated step to the step that it repeats, deeper for a longer way back. Returns whether there
    /// is any.
    fn draw_arcs(&self, inside: &mut String, width: f64) -> bool {
        let first = self.verdicts.first().map_or(1, |verdict| verdict.step);
        let y = TOP + HEIGHT + STRIP + 3.0;
        let mut any = false;
        for (index, verdict) in self.verdicts.iter().enumerate() {
            let earlier = verdict.evidence.iter().filter_map(|one| one.earlier_step);
            let Some(earlier) = earlier.filter(|step| (first..verdict.step).contains(step)).max() else {
                continue;
            };
            let from = LEFT + (index as f64 + 0.45) * width;
            let to = LEFT + ((earlier - first) as f64 + 0.45) * width;
            let depth = ((from - to) / 3.0).clamp(6.0, 2.0 * (ARCS - 6.0));
            any = true;
            let _ = write!(
                inside,
                "<path class=\"arc\" d=\"M{from:.1} {y:.1} Q{:.1} {:.1} {to:.1} {y:.1}\"><title>Step {} repeats step {earlier}</title></path>",
                f64::midpoint(from, to),
                y + depth,
                verdict.step
            );
        }
        any
    }

    fn draw_scale(&self, inside: &mut String) {
        for level in [0.0, self.limits.ceiling] {
            let _ = write!(
                inside,
                "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{level:.1}</text>",
                LEFT - 6.0,
                self.y(level) + 4.0,
                at = self.y(level)
            );
        }
        for (name, level) in [("nudge", self.limits.nudge), ("stop", self.limits.stop)] {
            let _ = write!(
                inside,
                "<line class=\"limit {name}\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"limit {name}\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                LEFT - 6.0,
                self.y(level) + 4.0,
                at = self.y(level)
            );
        }
    }

    /// Marks the first nudge and the first stop, if they are among the steps drawn.
    fn draw_marks(&self, inside: &mut String, width: f64) {
        for (name, step, y) in [("nudge", self.first_nudge, 12.0), ("stop", self.first_stop, 28.0)] {
            let mut verdicts = self.verdicts.iter().enumerate();
            let Some((index, verdict)) = verdicts.find(|(_, verdict)| Some(verdict.step) == step) else {
                continue;
            };
            let x = LEFT + (index as f64 + 0.45) * width;
            let (anchor, beside) = if x > WIDTH / 2.0 {
                ("end", -5.0)
            } else {
                ("start", 5.0)
            };
            let _ = write!(
                inside,
                "<line class=\"limit {name}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{:.1}\"/>\
                 <text class=\"limit {name}\" x=\"{:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">first {name}: step {}</text>",
                y - 10.0,
                TOP + HEIGHT,
                x + beside,
                verdict.step
            );
        }
    }

    /// Marks the changes of the context between two steps: a triangle above the bars, and a line through them.
    fn draw_events(&self, inside: &mut String, width: f64) {
        let Some(first) = self.verdicts.first().map(|verdict| verdict.step) else {
            return;
        };
        let shown = first..=first + self.verdicts.len();
        for event in self.events.iter().filter(|event| shown.contains(&event.step)) {
            let x = LEFT + (event.step - first) as f64 * width - width * 0.05;
            let name = event_name(event);
            // A change after the last step is drawn behind it.
            let place = match event.step.checked_sub(1) {
                Some(step) if event.step == *shown.end() => format!("after step {step}"),
                _ => format!("before step {}", event.step),
            };
            let detail = if event.detail.is_empty() {
                String::new()
            } else {
                format!(": {}", event.detail)
            };
            let _ = write!(
                inside,
                "<g class=\"event {name}\"><title>{} {place}{}</title>\
                 <line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <path d=\"M{:.1} {:.1} L{:.1} {:.1} L{x:.1} {:.1} Z\"/></g>",
                sentence_case(name),
                escape(&detail),
                TOP + HEIGHT + STRIP + 2.0,
                x - EVENT,
                TOP - 2.0 * EVENT,
                x + EVENT,
                TOP - 2.0 * EVENT,
                TOP,
            );
        }
    }

    /// The letters in the order of their first use, with their meaning and number of steps.
    fn legend(&self) -> Html {
        let mut used: Vec<((char, &str), usize)> = Vec::new();
        for found in self.verdicts.iter().map(letter) {
            match used.iter_mut().find(|(known, _)| *known == found) {
                Some((_, steps)) => *steps += 1,
                None => used.push((found, 1)),
            }
        }
        let mut entries: Vec<Html> = used
            .iter()
            .map(|((letter, meaning), steps)| {
                Html(format!(
                    "<li><kbd>{letter}</kbd> {meaning} <small>({})</small></li>",
                    count(*steps, "step", "steps")
                ))
            })
            .collect();
        for name in ["compaction", "eviction"] {
            let events = self.events.iter().filter(|event| event_name(event) == name);
            let number = events.count();
            if number > 0 {
                entries.push(Html(format!(
                    "<li><span class=\"event {name}\" aria-hidden=\"true\">▼</span> {name} <small>({number})</small></li>"
                )));
            }
        }
        Html(format!("<ul class=\"letters\">{}</ul>", joined(&entries)))
    }

    /// What changed in the context before a step, for the table.
    fn events_before(&self, step: usize) -> String {
        let names = self
            .events
            .iter()
            .filter(|event| event.step == step)
            .map(event_name);
        names.collect::<Vec<_>>().join(", ")
    }

    fn table(&self) -> Html {
        let rows = self.verdicts.iter().map(|verdict| {
            row![
                verdict.step,
                format!("{:.2}", verdict.level),
                verdict.signal.as_str(),
                letter(verdict).1,
                self.events_before(verdict.step),
            ]
        });
        let header = ["step", "level", "signal", "finding", "context before"];
        let table = Table::new(&header, &[0, 1], rows);
        blocks(&[Block::details("As a table", vec![Block::Table(table)])])
    }
}
