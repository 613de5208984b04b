//! The sentences of a verdict: the reason for people, and the sentence that a host injects for the agent.

use super::evidence::{Evidence, EvidenceKind};
use super::finish::shorten;
use super::report::{OpenEnd, OpenEndKind, ProgressSignal};
use super::signature::{has_failed, telling_line};
use crate::trajectory::{Call, Step};

/// What the sentences are about.
pub(super) struct Situation<'a> {
    pub(super) signal: ProgressSignal,
    pub(super) step: &'a Step,
    pub(super) evidence: &'a [Evidence],
    pub(super) open_ends: &'a [OpenEnd],
    pub(super) episode_steps: usize,
    pub(super) failed: bool,
}

/// Why the judge decided as it did, in one sentence.
pub(super) fn reason(situation: &Situation<'_>) -> String {
    let main = strongest(situation.evidence);
    match situation.signal {
        ProgressSignal::Ship => "The agent ended by itself with nothing left open.".to_owned(),
        ProgressSignal::Nudge if !situation.open_ends.is_empty() => {
            format!("The agent ends, but {}.", describe_open_ends(situation.open_ends))
        }
        ProgressSignal::Continue => match main {
            Some(evidence) => format!("Not enough to act on: {}.", evidence.describe()),
            None => "The step brings something new.".to_owned(),
        },
        signal => {
            let what = main.map_or_else(|| "nothing new".to_owned(), Evidence::describe);
            let series = situation.episode_steps;
            match signal {
                ProgressSignal::Escalate
                    if main.is_some_and(|main| main.kind == EvidenceKind::RepeatedQuestion) =>
                {
                    format!("Stuck: {what}. Bring in a person who can answer it.")
                }
                ProgressSignal::Escalate => format!(
                    "Stuck: {what}; {series} steps in this series, most of them failed. Bring in a person or another approach."
                ),
                ProgressSignal::Stop => {
                    format!(
                        "Nothing new: {what}; {series} steps in this series. The budget is better spent elsewhere."
                    )
                }
                _ => format!("Repeating: {what}; {series} steps in this series."),
            }
        }
    }
}

/// A sentence for the agent: what it did, and what to do instead.
pub(super) fn sentence(situation: &Situation<'_>) -> String {
    if !situation.open_ends.is_empty() && situation.signal == ProgressSignal::Nudge {
        return format!(
            "You are about to finish, but {}. Finish these or say why they no longer apply.",
            describe_open_ends(situation.open_ends)
        );
    }
    let times = situation.episode_steps.max(2);
    let call = situation.step.calls.first().map(describe_call);
    let main = strongest(situation.evidence).map(|evidence| evidence.kind);
    match (main, call) {
        (Some(EvidenceKind::RepeatedQuestion), _) => {
            "You asked the same question before; use the answer you were given, or say what is still missing."
                .to_owned()
        }
        (Some(EvidenceKind::RepeatedText), _) | (_, None) => {
            "You wrote the same text before; take a concrete action or finish.".to_owned()
        }
        (Some(EvidenceKind::Undo), Some(call)) => {
            format!(
                "With {call} you take back an earlier change; decide between the two versions before you edit again."
            )
        }
        (Some(EvidenceKind::SameError), Some(call)) => format!(
            "{call} fails with an error that you have seen before{}; fix its cause instead of trying another call.",
            quoted_error(situation.step)
        ),
        (Some(EvidenceKind::Stagnation), Some(call)) => format!(
            "{call} brings the same result as your last calls; the answer is not there. Look somewhere else or finish with what you have."
        ),
        (Some(EvidenceKind::Cycle), Some(call)) => format!(
            "You are repeating the same steps, the last one {call}, with the same results; stop the cycle and change the approach."
        ),
        (_, Some(call)) if situation.failed => format!(
            "You ran {call} about {times} times with the same error{}; read the message or change the approach.",
            quoted_error(situation.step)
        ),
        (_, Some(call)) => format!(
            "You ran {call} about {times} times with the same result; it will not change. Use what you know or try something else."
        ),
    }
}

fn strongest(evidence: &[Evidence]) -> Option<&Evidence> {
    // A cycle says more than the single repeat that continues it.
    evidence
        .iter()
        .find(|evidence| evidence.kind == EvidenceKind::Cycle && evidence.period != Some(1))
        .or_else(|| {
            evidence
                .iter()
                .max_by(|left, right| left.weight.total_cmp(&right.weight))
        })
}

/// A call in short, between backticks: the first line of its command, or the tool with its arguments.
pub fn describe_call(call: &Call) -> String {
    match call.command() {
        Some(command) => format!(
            "`{}`",
            shorten(command.trim().lines().next().unwrap_or_default(), 80)
        ),
        None if call.arguments.is_null() => format!("`{}`", call.tool),
        None => format!(
            "`{}`",
            shorten(&format!("{}({})", call.tool, call.arguments), 100)
        ),
    }
}

/// The message of a failed result, as data in quotation marks.
fn quoted_error(step: &Step) -> String {
    let results = step.calls.iter().filter_map(|call| call.result.as_ref());
    let line = results.filter(|result| has_failed(result)).find_map(telling_line);
    line.map(|line| format!(" (“{}”)", shorten(line, 100)))
        .unwrap_or_default()
}

fn describe_open_ends(open_ends: &[OpenEnd]) -> String {
    let plan: Vec<&OpenEnd> = open_ends
        .iter()
        .filter(|open| open.kind == OpenEndKind::PlanItem)
        .collect();
    let mut parts = Vec::new();
    if let Some(first) = plan.first() {
        parts.push(match plan.len() {
            1 => format!("one item of the plan is open (“{}”)", first.text),
            count => format!("{count} items of the plan are open (the first: “{}”)", first.text),
        });
    }
    for open in open_ends {
        match open.kind {
            OpenEndKind::PlanItem => {}
            OpenEndKind::FailedCheck => parts.push(format!(
                "`{}` failed in step {} and did not pass since",
                open.text,
                open.step.unwrap_or_default()
            )),
            OpenEndKind::Question => parts.push(format!("a question is open (“{}”)", open.text)),
        }
    }
    parts.join(", and ")
}
