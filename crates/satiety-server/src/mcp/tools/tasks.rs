//! Tools around a task: what is known before it, what came of it.

use satiety_engine::memory::{Postflight, Preflight};

use super::super::registry::{Effect, Profile, Spec, Tool, ToolProfile};

pub(super) fn tools() -> Vec<Option<Tool>> {
    vec![
        Tool::of_operation(
            "task_preflight",
            Spec {
                name: "task_preflight",
                title: "Begin a task",
                about: "Begin a task: gives what memory knows about it, within the room you have. Call it before you start, with how much you know (scores from 0 to 100); close it with task_postflight.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &[
                    "context.results[].title",
                    "context.results[].excerpt",
                    "context.results[].folder",
                    "context.results[].kind",
                    "context.results[].project",
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
                about: "Close a task: how it went, how much you know now, which memories helped, what you produced and what you learnt. Call it at the end of every task that you began, also when it failed: this is how the memory learns what is worth finding.",
                profile: Profile::Core,
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
