//! Agents at work in the demo: one that repeats a failing test, and one that fixes it.

use owo_colors::OwoColorize;
use satiety_engine::Engine;
use satiety_engine::progress::{AppendMessagesRequest, AppendedMessages};
use serde_json::Value;

use crate::failure::Failure;

/// Logs of the agents, by the id of the run.
const LOGS: [(&str, &str); 2] = [
    (
        "export-looping",
        include_str!("../../../../../examples/progress/looping.jsonl"),
    ),
    (
        "export-working",
        include_str!("../../../../../examples/progress/working.jsonl"),
    ),
];

/// Reports the messages of both agents, as a hook in their loop would.
pub(super) async fn report(engine: &Engine) -> Result<Vec<AppendedMessages>, Failure> {
    let mut runs = Vec::new();
    for (id, log) in LOGS {
        let messages: Result<Vec<Value>, _> = log.lines().map(serde_json::from_str).collect();
        let request = AppendMessagesRequest {
            conversation_id: id.into(),
            messages: messages.map_err(satiety_engine::EngineError::from)?,
        };
        runs.push(engine.progress().append_messages(request).await?);
    }
    Ok(runs)
}

pub(super) fn lines(runs: &[AppendedMessages]) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs {
        lines.push(format!("{}, {} steps", run.conversation_id, run.steps));
        lines.push(format!("  {}  {}", run.signal.as_str().bold(), run.reason));
        let warned = [
            run.first_nudge_step.map(|step| format!("NUDGE at step {step}")),
            run.first_stop_step
                .map(|step| format!("first stop at step {step}")),
        ];
        let warned: Vec<String> = warned.into_iter().flatten().collect();
        if !warned.is_empty() {
            lines.push(format!("  {}", warned.join(", ")));
        }
        lines.extend(run.nudge.iter().map(|nudge| format!("  tell it: {nudge}")));
    }
    lines
}
