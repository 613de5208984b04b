//! Task tools: preflight and postflight.

use satiety_engine::memory::{Postflight, Preflight};

use super::super::registry::{Effect, Profile, Spec, Tool, ToolProfile};

pub(super) fn tools() -> Vec<Option<Tool>> {
    vec![
        Tool::of_operation(
            "task_preflight",
            Spec {
                name: "task_preflight",
                title: "Start a task",
                about: "Start a task: returns what memory knows about it, within your context budget. Call it before you start, with your self-assessment (scores from 0 to 100); close it with task_postflight.",
                profile: Profile::Memory,
                effect: Effect::Adds,
                data: &[
                    "context.results[].title",
                    "context.results[].excerpt",
                    "context.results[].folder",
                    "context.results[].kind",
                    "context.results[].project",
                    "context.below_floor[].title",
                    "context.already_shown[].title",
                    "context.over_budget[].title",
                ],
            },
            ToolProfile {
                hidden: &["project"],
                view: Some(&Preflight::AGENT_VIEW),
                ..ToolProfile::default()
            },
        ),
        Tool::of_operation(
            "task_postflight",
            Spec {
                name: "task_postflight",
                title: "Close a task",
                about: "Close a task: outcome, what you know now, which memories helped, what you produced and learned. Call it at the end of every task that you started, also when it failed: this is how the memory learns what is worth finding.",
                profile: Profile::Memory,
                effect: Effect::Adds,
                data: &["not_validated[].title"],
            },
            ToolProfile {
                hidden: &["project"],
                view: Some(&Postflight::AGENT_VIEW),
                ..ToolProfile::default()
            },
        ),
    ]
}
