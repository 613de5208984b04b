//! Page of one step of an agent's run, next to the earlier step that it repeats, with the differences marked.

use std::collections::HashSet;

use jiff::Timestamp;
use satiety::bench::{MarkKind, MarkedSpan, mark_difference};
use satiety::progress::StepVerdict;
use satiety::trajectory::Step;
use satiety_engine::progress::StoredRun;
use satiety_report::document::link;
use satiety_report::html::{Html, blocks, escape, joined, marked_as, paragraph};
use satiety_report::{Block, Text};

use super::progress::{action, arguments, failure, run_path};
use super::shell::{ago, count, frame, neighbors, run_tone, sentence_case, trail};

/// Maximum number of characters of one text, and of all texts of a step.
const MAX_TEXT: usize = 8000;
const MAX_STEP_TEXT: usize = 40_000;
/// Maximum number of earlier steps that the step is compared with.
const MAX_REPEATS: usize = 3;

/// `None` if the run has no such step; steps count from 1.
pub(super) fn page(run: &StoredRun, number: usize, now: Timestamp) -> Option<String> {
    let index = number.checked_sub(1)?;
    let verdict = run.report.steps.get(index)?;
    let step = run.actions.get(index)?;
    let path = run_path(&run.conversation_id);
    let signal = verdict.signal.as_str();
    let mut body = vec![
        trail(&[("/progress", "Agent runs"), (&path, &run.conversation_id)]),
        neighbors(
            "Steps",
            &[
                (number > 1).then(|| (format!("{path}/steps/{}", number - 1), "← Previous step", "k")),
                (number < run.report.steps.len())
                    .then(|| (format!("{path}/steps/{}", number + 1), "Next step →", "j")),
            ],
        ),
        blocks(&[Block::verdict(
            run_tone(signal),
            format!("{signal}."),
            &verdict.reason,
            &[],
        )]),
        blocks(&[facts(run, verdict, step, now)]),
    ];
    // The most important repeat first.
    let mut repeats: Vec<(f64, usize, String)> = verdict
        .evidence
        .iter()
        .filter_map(|found| Some((found.weight, found.earlier_step?, found.describe())))
        .collect();
    repeats.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut seen = HashSet::new();
    repeats.retain(|(_, earlier, _)| seen.insert(*earlier));
    repeats.truncate(MAX_REPEATS);
    if repeats.is_empty() {
        body.push(section("What the agent did", &[content(step, None)]));
    }
    for (_, earlier, words) in &repeats {
        let Some(before) = earlier.checked_sub(1).and_then(|index| run.actions.get(index)) else {
            continue;
        };
        let sides = [
            column(
                &format!("<a href=\"{}/steps/{earlier}\">Step {earlier}</a>", escape(&path)),
                &content(before, None),
            ),
            column(&format!("Step {number}"), &content(step, Some(before))),
        ];
        let legend = "Right: wavy parts are only in this step, struck parts only in the earlier one.";
        body.push(section(
            &sentence_case(words),
            &[
                paragraph(legend),
                Html(format!("<div class=\"sides\">{}</div>", joined(&sides))),
            ],
        ));
    }
    Some(frame(
        "/progress",
        &format!("Step {number}: {}", action(step)),
        &body,
    ))
}

fn section(title: &str, parts: &[Html]) -> Html {
    Html(format!(
        "<section>\n<h2>{}</h2>\n{}\n</section>",
        escape(title),
        joined(parts)
    ))
}

/// One side; the title is markup.
fn column(title: &str, content: &Html) -> Html {
    Html(format!("<div><h3>{title}</h3>{content}</div>"))
}

fn facts(run: &StoredRun, verdict: &StepVerdict, step: &Step, now: Timestamp) -> Block {
    let path = run_path(&run.conversation_id);
    let before: Vec<&Step> = run.actions.iter().take(verdict.step).collect();
    let tokens: u64 = before.iter().filter_map(|step| step.usage.tokens).sum();
    let cost: f64 = before
        .iter()
        .filter_map(|step| step.usage.cost.filter(|cost| cost.is_finite()))
        .sum();
    Block::fields([
        ("level", Some(format!("{:.2}", verdict.level).into())),
        ("confidence", Some(format!("{:.2}", verdict.confidence).into())),
        ("agent", step.agent.as_ref().map(Text::from)),
        (
            "tokens",
            step.usage
                .tokens
                .map(|own| format!("{own}, {tokens} so far").into()),
        ),
        (
            "cost",
            step.usage
                .cost
                .map(|own| format!("{own:.4}, {cost:.4} so far").into()),
        ),
        ("time", step.time.map(|at| ago(at, now))),
        ("nudge", verdict.nudge.as_ref().map(Text::from)),
        (
            "in the run",
            Some(link(
                format!("{path}#step-{}", verdict.step),
                "show among the other steps",
            )),
        ),
    ])
}

/// Texts of a step; compared with those of an earlier one, if given.
fn content(step: &Step, earlier: Option<&Step>) -> Html {
    let mut parts = Vec::new();
    let (mut remaining, mut hidden) = (MAX_STEP_TEXT, 0_usize);
    let mut push = |label: &str, text: &str, before: Option<&str>| {
        if text.trim().is_empty() {
            return;
        }
        if remaining == 0 {
            hidden += 1;
            return;
        }
        parts.push(Html(format!("<p><small>{}</small></p>", escape(label))));
        let text = start_of(text);
        // The label counts, too, so that thousands of tiny texts do not make a huge page.
        remaining = remaining.saturating_sub(text.len() + label.len());
        parts.push(match before {
            Some(before) => marked_as(
                &differences(start_of(before), text),
                "only in this step",
                "only in the earlier step",
            ),
            None => Html(format!("<pre tabindex=\"0\">{}</pre>", escape(text))),
        });
    };
    push("Text", &step.text, earlier.map(|earlier| earlier.text.as_str()));
    for (place, call) in step.calls.iter().enumerate() {
        let same = earlier.and_then(|earlier| earlier.calls.get(place));
        let before = same.map(arguments);
        push(
            &format!("Arguments of {}", call.tool),
            &arguments(call),
            before.as_deref(),
        );
        if let Some(result) = &call.result {
            let label = failure(result).map_or_else(|| "Result".into(), |words| format!("Result ({words})"));
            let before = same.and_then(|call| call.result.as_ref());
            push(
                &label,
                &result.content,
                before.map(|result| result.content.as_str()),
            );
        }
    }
    for (place, reply) in step.replies.iter().enumerate() {
        let before = earlier.and_then(|earlier| earlier.replies.get(place));
        push("Reply", &reply.text, before.map(|reply| reply.text.as_str()));
    }
    if hidden > 0 {
        let words = count(hidden, "more text is not shown.", "more texts are not shown.");
        parts.push(Html(format!("<p><small>{words}</small></p>")));
    }
    Html(joined(&parts))
}

/// Only what differs is marked: most of a repeated step is the same.
fn differences(earlier: &str, later: &str) -> Vec<MarkedSpan> {
    let mut spans = mark_difference(earlier, later);
    for span in &mut spans {
        if span.kind == MarkKind::Match {
            span.kind = MarkKind::Plain;
        }
    }
    spans
}

fn start_of(text: &str) -> &str {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}
