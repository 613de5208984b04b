//! The format of this library: an object with `steps`, or one step per line. A step may also be given in
//! short as `action` and `observation`.

use serde_json::Value;

use super::value::{first_string, string};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::{CallResult, RunOutcome, Step};

/// Whether the records are steps, or a document with `steps`.
pub(super) fn detect(first: &[&Value]) -> bool {
    let is_step = |value: &&&Value| {
        value.get("calls").is_some_and(Value::is_array)
            || value.get("observation").is_some_and(Value::is_string)
            || (value.get("action").is_some_and(Value::is_string) && value.get("text").is_some())
    };
    match first {
        [document]
            if document
                .get("steps")
                .and_then(Value::as_array)
                .is_some_and(|steps| {
                    steps
                        .iter()
                        .take(super::DETECTION_RECORDS)
                        .any(|step| is_step(&&step))
                }) =>
        {
            true
        }
        records => {
            records.iter().any(|record| is_step(&record))
                && records.iter().all(|record| record.get("role").is_none())
        }
    }
}

/// Reader of steps.
pub(super) struct Steps;

impl Reader for Steps {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        out.builder.keep_empty_steps();
        let Some(steps) = value.get("steps").and_then(Value::as_array) else {
            step(value, line, out);
            return;
        };
        out.builder
            .id(first_string(value, &["id", "run_id", "instance_id"]));
        if let Some(task) = first_string(value, &["task", "question"]) {
            out.builder.task(task);
        }
        let outcome = value
            .get("outcome")
            .cloned()
            .and_then(|outcome| serde_json::from_value::<RunOutcome>(outcome).ok());
        let position = |key: &str| {
            let number = value.get("loop")?.get(key)?.as_u64()?;
            usize::try_from(number).ok()
        };
        out.builder.trajectory_mut().outcome = Some(outcome.unwrap_or_else(|| {
            RunOutcome {
                solved: ["solved", "resolved"]
                    .iter()
                    .find_map(|key| value.get(key)?.as_bool()),
                exit: string(value, "exit").map(str::to_owned),
                loop_noticed_at: position("person_stops"),
                loop_starts_at: position("starts"),
            }
        }))
        .filter(|outcome| *outcome != RunOutcome::default());
        for value in steps {
            step(value, line, out);
        }
    }
}

fn step(value: &Value, line: usize, out: &mut Output) {
    if value.get("action").is_some() || value.get("observation").is_some() {
        out.builder
            .turn(first_string(value, &["agent", "name"]), TurnStart::New);
        out.builder.text(string(value, "text").unwrap_or_default());
        let observation = string(value, "observation").unwrap_or_default();
        match string(value, "action") {
            Some(action) => {
                let (tool, arguments) = call_of(action);
                out.builder.call(None, tool, arguments);
                let result = CallResult {
                    content: observation.to_owned(),
                    ..CallResult::default()
                };
                out.builder.result(None, result);
            }
            None => out.builder.reply(None, observation),
        }
        return;
    }
    match serde_json::from_value::<Step>(value.clone()) {
        Ok(parsed) => {
            let step = out.builder.turn(parsed.agent.as_deref(), TurnStart::New);
            let calls = parsed.calls;
            *step = Step {
                calls: Vec::new(),
                ..step_without_calls(value)
            };
            for call in calls {
                let edits = call.edits.clone();
                out.builder.call(call.id.as_deref(), &call.tool, call.arguments);
                let step = out.builder.turn(None, TurnStart::Continue);
                if let Some(added) = step.calls.last_mut() {
                    added.result = call.result;
                    if !edits.is_empty() {
                        added.edits = edits;
                    }
                }
            }
        }
        Err(error) => out.skip(line, format!("not a step: {error}")),
    }
}

fn step_without_calls(value: &Value) -> Step {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// An action as text: `tool({"key": …})`, `tool(text)`, or a command line.
pub(super) fn call_of(action: &str) -> (&str, Value) {
    let trimmed = action.trim();
    if let Some((tool, rest)) = trimmed.split_once('(')
        && let Some(inner) = rest.strip_suffix(')')
        && !tool.is_empty()
        && tool
            .chars()
            .all(|character| character.is_alphanumeric() || matches!(character, '_' | '-' | '.'))
        && let Ok(arguments @ Value::Object(_)) = serde_json::from_str::<Value>(inner)
    {
        return (tool, arguments);
    }
    match serde_json::from_str::<Value>(trimmed) {
        Ok(arguments @ Value::Object(_)) => ("", arguments),
        _ => ("", Value::String(action.to_owned())),
    }
}
