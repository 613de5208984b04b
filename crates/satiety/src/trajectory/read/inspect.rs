//! Inspect evaluation logs in JSON: one run per sample, with its messages, scores, error and limit.

use serde_json::Value;

use super::chat::Chat;
use super::value::{content_text, describe, string};
use super::{Output, Reader};
use crate::trajectory::step::CallResult;

/// Whether a record is an evaluation log with samples, or a sample.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| match samples(record) {
        Some(samples) => record.get("eval").is_some() || samples.iter().any(is_sample),
        None => is_sample(record),
    })
}

fn samples(value: &Value) -> Option<&Vec<Value>> {
    value.get("samples")?.as_array()
}

fn is_sample(value: &Value) -> bool {
    value.get("epoch").is_some_and(Value::is_number)
        && ["messages", "events"]
            .iter()
            .any(|key| value.get(key).is_some_and(Value::is_array))
}

/// Reader of Inspect logs.
pub(super) struct Inspect;

impl Reader for Inspect {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let Some(samples) = samples(value) else {
            sample(value, line, out);
            out.end_trajectory();
            return;
        };
        for value in samples {
            sample(value, line, out);
            out.end_trajectory();
        }
    }
}

fn sample(value: &Value, line: usize, out: &mut Output) {
    if !is_sample(value) {
        out.skip(line, format!("not a sample: {}", describe(value)));
        return;
    }
    out.builder.id(id_of(value).as_deref());
    match value.get("input") {
        Some(Value::String(input)) => out.builder.task(input),
        Some(Value::Array(messages)) => {
            let request = messages
                .iter()
                .find(|message| string(message, "role") == Some("user"));
            let content = request.and_then(|message| message.get("content"));
            out.builder.task(&content.map(content_text).unwrap_or_default());
        }
        _ => {}
    }
    let error = value.get("error").filter(|error| !error.is_null());
    let limit = value.get("limit").and_then(|limit| string(limit, "type"));
    let exit = match (error, limit) {
        (Some(_), _) => Some("error".to_owned()),
        (None, Some(limit)) => Some(format!("{limit}_limit")),
        (None, None) => value
            .get("output")
            .and_then(|output| string(output, "stop_reason"))
            .map(str::to_owned),
    };
    out.outcome(solved(value), exit.as_deref());
    let list = |key: &str| value.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut chat = Chat::default();
    for message in list("messages") {
        chat.message(message, line, out);
    }
    if out.builder.is_empty() {
        // Logs can be written without messages; the events have the same.
        for entry in list("events") {
            event(entry, &mut chat, out);
        }
    }
}

fn event(event: &Value, chat: &mut Chat, out: &mut Output) {
    match string(event, "event") {
        Some("model") => {
            if let Some(message) = event.pointer("/output/choices/0/message") {
                chat.assistant(message, None, out);
            }
        }
        Some("tool") => {
            let error = event.get("error").filter(|error| !error.is_null());
            let result = CallResult {
                content: error
                    .and_then(|error| error.get("message"))
                    .or_else(|| event.get("result"))
                    .map(content_text)
                    .unwrap_or_default(),
                error: Some(error.is_some()),
                exit_code: None,
            };
            out.builder.result(string(event, "id"), result);
        }
        _ => {}
    }
}

/// The sample and the epoch, as in `12-1`.
fn id_of(value: &Value) -> Option<String> {
    let id = match value.get("id")? {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    let epoch = value.get("epoch").and_then(Value::as_u64);
    Some(epoch.map_or(id.clone(), |epoch| format!("{id}-{epoch}")))
}

/// Whether the first score is the highest or the lowest value of its scale; values between are not clear.
fn solved(value: &Value) -> Option<bool> {
    let score = value
        .get("scores")
        .and_then(Value::as_object)
        .and_then(|scores| scores.values().next())
        .or_else(|| value.get("score"))?;
    match score.get("value")? {
        Value::Bool(value) => Some(*value),
        Value::String(text) => match text.as_str() {
            "C" => Some(true),
            "I" | "N" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_f64()? {
            1.0 => Some(true),
            0.0 => Some(false),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::trajectory::{LogFormat, ReadError, ReadOptions, read};

    #[test]
    fn every_sample_is_a_run() {
        let file = json!({"version": 2, "status": "success", "eval": {"task": "t"}, "samples": [
            {"id": 7, "epoch": 1, "input": "Find the flag.", "target": "x", "scores": {"match": {"value": "C", "answer": "x"}},
             "output": {"stop_reason": "stop"}, "messages": [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": "Find the flag."},
                {"role": "assistant", "id": "m1", "content": [{"type": "reasoning", "reasoning": "…"}, {"type": "text", "text": "Look."}],
                 "tool_calls": [{"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}, "type": "function"}]},
                {"role": "tool", "tool_call_id": "c1", "function": "bash", "content": "", "error": {"type": "timeout", "message": "timed out"}},
                {"role": "assistant", "id": "m2", "content": "", "tool_calls": [{"id": "c2", "function": "submit", "arguments": {"answer": "x"}}]}]},
            {"sample": "odd"},
            {"id": "b", "epoch": 2, "input": [{"role": "user", "content": "Go."}], "scores": {"s": {"value": 0.5}},
             "limit": {"type": "token", "limit": 5}, "messages": [], "events": [
                {"event": "sample_init"},
                {"event": "model", "output": {"choices": [{"message": {"role": "assistant", "content": "Go on.",
                    "tool_calls": [{"id": "c", "function": "bash", "arguments": {"cmd": "id"}}]}}]}},
                {"event": "tool", "id": "c", "function": "bash", "arguments": {"cmd": "id"}, "result": "root", "error": null}]}
        ]});
        let log = read::read(file.to_string().as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::Inspect);
        assert_eq!(log.skipped.count, 1);
        assert_eq!(log.trajectories.len(), 2);
        let run = &log.trajectories[0];
        assert_eq!(run.id.as_deref(), Some("7-1"));
        assert_eq!(run.steps.len(), 2);
        assert_eq!(run.steps[0].text, "Look.");
        let result = run.steps[0].calls[0].result.as_ref().unwrap();
        assert_eq!((result.content.as_str(), result.error), ("timed out", Some(true)));
        assert!(run.steps[1].finish);
        assert_eq!(run.outcome.as_ref().unwrap().solved, Some(true));
        let other = &log.trajectories[1];
        assert_eq!(other.task.as_deref(), Some("Go."));
        assert_eq!(other.steps[0].calls[0].result.as_ref().unwrap().content, "root");
        let outcome = other.outcome.as_ref().unwrap();
        assert_eq!(
            (outcome.solved, outcome.exit.as_deref()),
            (None, Some("token_limit"))
        );
    }

    #[test]
    fn an_archive_is_refused_with_a_hint() {
        let error = read::read(b"PK\x03\x04rest", ReadOptions::default()).unwrap_err();
        assert_eq!(error, ReadError::Archive);
        assert!(error.to_string().contains("inspect log convert"));
    }
}
