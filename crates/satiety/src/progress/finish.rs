//! What is unfinished when an agent ends: items of its plan, failed checks, questions.

use serde::{Deserialize, Serialize};

use super::report::{OpenEnd, OpenEndKind};
use super::signature::Signature;
use crate::trajectory::{CallKind, PlanItem, Step};

/// Words that mark a command as a check of the work.
const CHECK_WORDS: &[&str] = &[
    "test",
    "tests",
    "pytest",
    "tox",
    "nox",
    "unittest",
    "jest",
    "vitest",
    "mocha",
    "rspec",
    "ctest",
    "nextest",
    "check",
    "clippy",
    "lint",
    "eslint",
    "mypy",
    "tsc",
    "typecheck",
];

/// Follows plan, checks and questions of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Ending {
    plan: Vec<PlanItem>,
    failed_check: Option<(usize, String)>,
    question: Option<(usize, String)>,
}

impl Ending {
    pub(super) fn observe(&mut self, number: usize, step: &Step, signature: &Signature) {
        if let Some(plan) = &step.plan {
            self.plan.clone_from(plan);
        }
        for call in &step.calls {
            let (Some(command), Some(CallKind::Run)) = (call.command(), signature.kind) else {
                continue;
            };
            let is_check = command
                .split(|character: char| !character.is_alphanumeric())
                .any(|word| CHECK_WORDS.contains(&word.to_ascii_lowercase().as_str()));
            if is_check {
                let first_line = command.trim().lines().next().unwrap_or_default();
                self.failed_check = signature.failed.then(|| (number, shorten(first_line, 80)));
            }
        }
        self.question = None;
        if step.calls.is_empty() && step.replies.is_empty() {
            let last = step.text.trim().lines().last().unwrap_or_default().trim();
            if last.ends_with('?') {
                self.question = Some((number, shorten(last, 160)));
            }
        }
    }

    pub(super) fn open_ends(&self) -> Vec<OpenEnd> {
        let plan = self.plan.iter().filter(|item| !item.done).map(|item| OpenEnd {
            kind: OpenEndKind::PlanItem,
            step: None,
            text: shorten(&item.text, 160),
        });
        let check = self.failed_check.iter().map(|(step, text)| OpenEnd {
            kind: OpenEndKind::FailedCheck,
            step: Some(*step),
            text: text.clone(),
        });
        let question = self.question.iter().map(|(step, text)| OpenEnd {
            kind: OpenEndKind::Question,
            step: Some(*step),
            text: text.clone(),
        });
        plan.chain(check).chain(question).collect()
    }
}

/// Cuts a text to a number of characters and marks the cut.
pub(super) fn shorten(text: &str, longest: usize) -> String {
    let mut words = text.split_whitespace();
    let mut short = String::new();
    for word in words.by_ref() {
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
        if short.len() > longest * 4 {
            break;
        }
    }
    if short.chars().count() > longest {
        short = short.chars().take(longest.saturating_sub(1)).collect();
        short.push('…');
    }
    short
}
