//! Results of tau-bench (`traj` with messages and a `reward`) and of tau2-bench (`simulations`).

use serde_json::Value;

use super::chat::Chat;
use super::value::{content_text, describe, first_string, string};
use super::{Output, Reader};

/// Whether a record is a result of tau-bench, or a document with simulations.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| {
        record.get("traj").is_some_and(Value::is_array)
            || simulations(record).is_some_and(|runs| runs.iter().any(is_simulation))
            || is_simulation(record)
    })
}

fn simulations(value: &Value) -> Option<&Vec<Value>> {
    value.get("simulations")?.as_array()
}

fn is_simulation(value: &Value) -> bool {
    value.get("messages").is_some_and(Value::is_array)
        && (value.get("reward_info").is_some() || value.get("termination_reason").is_some())
}

/// Reader of tau-bench results.
pub(super) struct TauBench;

impl Reader for TauBench {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let Some(runs) = simulations(value) else {
            run(value, line, out);
            return;
        };
        for value in runs {
            run(value, line, out);
            out.end_trajectory();
        }
    }
}

fn run(value: &Value, line: usize, out: &mut Output) {
    let messages = ["traj", "messages"]
        .iter()
        .find_map(|key| value.get(key)?.as_array());
    let Some(messages) = messages else {
        out.skip(line, format!("a run without messages: {}", describe(value)));
        return;
    };
    out.builder.id(id_of(value).as_deref());
    let reward = value
        .get("reward")
        .or_else(|| value.pointer("/reward_info/reward"));
    let solved = reward
        .and_then(Value::as_f64)
        .map(|reward| (reward - 1.0).abs() < REWARD_TOLERANCE);
    out.outcome(solved, string(value, "termination_reason"));
    // The agent of tau2-bench greets first; the task is still what the user asks for.
    let request = messages
        .iter()
        .find(|message| string(message, "role") == Some("user"))
        .and_then(|message| message.get("content"));
    out.builder.task(&request.map(content_text).unwrap_or_default());
    let mut chat = Chat::default();
    for message in messages {
        match message.get("tool_messages").and_then(Value::as_array) {
            Some(parts) => parts.iter().for_each(|part| add(part, &mut chat, line, out)),
            None => add(message, &mut chat, line, out),
        }
    }
}

/// Adds a message, unless it is the result of a call that the simulated user made.
fn add(message: &Value, chat: &mut Chat, line: usize, out: &mut Output) {
    let is_of_user = string(message, "role") == Some("tool") && string(message, "requestor") == Some("user");
    if !is_of_user {
        chat.message(message, line, out);
    }
}

/// The task and the trial, as in `12-0`.
fn id_of(value: &Value) -> Option<String> {
    let text = |key: &str| match value.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match (text("task_id"), text("trial")) {
        (Some(task), Some(trial)) => Some(format!("{task}-{trial}")),
        (task, _) => task.or_else(|| first_string(value, &["id"]).map(str::to_owned)),
    }
}

/// Rewards are products of floating-point numbers.
const REWARD_TOLERANCE: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::trajectory::{Log, LogFormat, ReadOptions, read};

    fn read(file: &Value) -> Log {
        let log = read::read(file.to_string().as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::TauBench);
        log
    }

    #[test]
    fn every_result_is_a_run_with_its_reward() {
        let log = read(&json!([
            {"task_id": 3, "trial": 1, "reward": 1.0, "info": {}, "traj": [
                {"role": "system", "content": "policy"},
                {"role": "user", "content": "Cancel my order."},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "function": {"name": "cancel_order", "arguments": "{\"id\": 1}"}}]},
                {"role": "tool", "tool_call_id": "c1", "name": "cancel_order", "content": "Error: unknown order"},
                {"content": "no role"},
                {"role": "assistant", "content": "It does not exist."}]},
            {"task_id": 4, "trial": 0, "reward": 0.0, "info": {}, "traj": [{"role": "assistant", "content": "Hello."}]}
        ]));
        assert_eq!(log.skipped.count, 1);
        let run = &log.trajectories[0];
        assert_eq!(run.id.as_deref(), Some("3-1"));
        assert_eq!(run.outcome.as_ref().unwrap().solved, Some(true));
        assert_eq!(run.steps.len(), 2);
        assert_eq!(
            run.steps[0].calls[0].result.as_ref().unwrap().content,
            "Error: unknown order"
        );
        assert_eq!(log.trajectories[1].outcome.as_ref().unwrap().solved, Some(false));
    }

    #[test]
    fn simulations_leave_out_what_the_user_calls() {
        let log = read(&json!({"info": {}, "tasks": [], "simulations": [
            {"id": "s", "task_id": "t", "trial": 0, "termination_reason": "user_stop", "reward_info": {"reward": 0.5}, "messages": [
                {"role": "assistant", "content": "How can I help?", "cost": 0.0},
                {"role": "user", "content": "My phone is broken."},
                {"role": "assistant", "content": null, "cost": 0.25, "tool_calls": [
                    {"id": "a", "name": "get_line", "arguments": {"n": 1}, "requestor": "assistant"},
                    {"id": "b", "name": "get_plan", "arguments": {}, "requestor": "assistant"}]},
                {"role": "tool", "tool_messages": [
                    {"role": "tool", "id": "a", "content": "failed", "requestor": "assistant", "error": true},
                    {"role": "tool", "id": "b", "content": "plan", "requestor": "assistant", "error": false}]},
                {"role": "assistant", "content": "Please reboot."},
                {"role": "user", "content": null, "tool_calls": [{"id": "u", "name": "reboot", "arguments": {}, "requestor": "user"}]},
                {"role": "tool", "id": "u", "content": "ok", "requestor": "user", "error": false},
                {"role": "user", "content": "###STOP###"}]}
        ]}));
        let run = &log.trajectories[0];
        assert_eq!(log.trajectories.len(), 1);
        assert_eq!(run.task.as_deref(), Some("My phone is broken."));
        assert_eq!(run.steps.len(), 3);
        assert_eq!(run.steps[1].usage.cost, Some(0.25));
        assert_eq!(run.steps[1].calls[0].result.as_ref().unwrap().error, Some(true));
        assert_eq!(run.steps[1].calls[1].result.as_ref().unwrap().error, Some(false));
        let outcome = run.outcome.as_ref().unwrap();
        assert_eq!(
            (outcome.solved, outcome.exit.as_deref()),
            (Some(false), Some("user_stop"))
        );
    }
}
