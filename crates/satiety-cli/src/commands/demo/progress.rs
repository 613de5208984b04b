//! Agents at work in the demo: one that repeats a failing test, and one that fixes it.

use owo_colors::OwoColorize;
use satiety_engine::Engine;
use satiety_engine::progress::{AppendMessagesRequest, StoredRun};
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
pub(super) async fn report(engine: &Engine) -> Result<Vec<StoredRun>, Failure> {
    let mut runs = Vec::new();
    for (id, log) in LOGS {
        let messages: Result<Vec<Value>, _> = log.lines().map(serde_json::from_str).collect();
        let request = AppendMessagesRequest {
            conversation_id: id.into(),
            messages: messages.map_err(satiety_engine::EngineError::from)?,
        };
        engine.progress().append_messages(request).await?;
        runs.push(engine.progress().run(id).await?);
    }
    Ok(runs)
}

pub(super) fn lines(runs: &[StoredRun]) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs {
        let report = &run.report;
        let warned = [
            report
                .first_nudge_step
                .map(|step| format!(", NUDGE at step {step}")),
            report
                .first_stop_step
                .map(|step| format!(", stuck at step {step}")),
        ];
        let warned: String = warned.into_iter().flatten().collect();
        lines.push(format!(
            "{}: {} steps{warned}",
            run.conversation_id,
            report.steps.len()
        ));
        lines.push(format!("  {}  {}", report.signal.as_str().bold(), report.reason));
        let nudge = report.steps.last().and_then(|step| step.nudge.as_ref());
        lines.extend(nudge.map(|nudge| format!("  tell it: {nudge}")));
    }
    lines
}
