//! SWE-agent `.traj` files: `trajectory` with `action`, `observation`, `response` and `thought` per step, the
//! messages in `history`, and `info`.

use serde_json::Value;

use super::value::{content_text, describe, first_string, string};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether the records are files with a `trajectory` of steps, or such steps.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| match record.get("trajectory") {
        Some(Value::Array(steps)) => steps.iter().take(super::DETECTION_RECORDS).any(is_step),
        _ => is_step(record),
    })
}

fn is_step(value: &Value) -> bool {
    value.get("action").is_some_and(Value::is_string)
        && value.get("observation").is_some()
        && ["response", "thought"].iter().any(|key| value.get(key).is_some())
}

/// Reader of `.traj` files.
pub(super) struct SweAgent;

impl Reader for SweAgent {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let Some(steps) = value.get("trajectory").and_then(Value::as_array) else {
            step(value, line, out);
            return;
        };
        let info = value.get("info").unwrap_or(&Value::Null);
        out.builder
            .id(string(value, "instance_id").or_else(|| string(info, "instance_id")));
        out.outcome(None, string(info, "exit_status"));
        let task = value
            .get("history")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|message| {
                string(message, "role") == Some("user")
                    && message.get("is_demo").and_then(Value::as_bool) != Some(true)
            });
        if let Some(content) = task.and_then(|message| message.get("content")) {
            out.builder.task(&content_text(content));
        }
        for value in steps {
            step(value, line, out);
        }
    }
}

fn step(value: &Value, line: usize, out: &mut Output) {
    if value.get("action").is_none() && value.get("response").is_none() {
        out.skip(line, format!("not a step of SWE-agent: {}", describe(value)));
        return;
    }
    out.builder.turn(None, TurnStart::New);
    out.builder
        .text(first_string(value, &["response", "thought"]).unwrap_or_default());
    let observation = value.get("observation").map(content_text).unwrap_or_default();
    match string(value, "action")
        .map(str::trim)
        .filter(|action| !action.is_empty())
    {
        Some(action) => {
            out.builder.call(None, "bash", Value::String(action.to_owned()));
            let result = CallResult {
                content: observation,
                ..CallResult::default()
            };
            out.builder.result(None, result);
        }
        None => out.builder.reply(None, &observation),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::trajectory::{LogFormat, ReadOptions, read};

    #[test]
    fn a_traj_file_has_a_step_per_action() {
        let file = json!({
            "environment": "main",
            "trajectory": [
                {"action": "ls\n", "observation": "a.py", "response": "Look.\n```\nls\n```", "thought": "Look.", "state": {}},
                {"note": "no step"},
                {"action": "", "observation": "Exit due to cost", "response": "Hm.", "thought": "Hm.", "state": "{}"},
                {"action": "submit", "observation": null, "response": "", "thought": "Done."}
            ],
            "history": [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": "demonstration", "is_demo": true},
                {"role": "user", "content": [{"type": "text", "text": "Fix the bug."}]}
            ],
            "info": {"exit_status": "submitted", "submission": "diff", "model_stats": {"api_calls": 3}}
        });
        let log = read::read(file.to_string().as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::SweAgent);
        assert_eq!(log.skipped.count, 1);
        let run = &log.trajectories[0];
        assert_eq!(run.task.as_deref(), Some("Fix the bug."));
        assert_eq!(run.outcome.as_ref().unwrap().exit.as_deref(), Some("submitted"));
        assert_eq!(run.steps.len(), 3);
        assert_eq!(run.steps[0].calls[0].command(), Some("ls"));
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().content, "a.py");
        assert!(run.steps[1].calls.is_empty());
        assert_eq!(run.steps[1].replies[0].text, "Exit due to cost");
        assert!(run.steps[2].finish && run.steps[2].text == "Done.");
    }
}
