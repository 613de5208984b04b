//! The published dataset of SWE-agent runs: `trajectory` with `role` (`system`, `user`, `ai`) and `text`; an
//! agent's text ends with a command in a fence, and the next `user` record is its output.

use serde_json::Value;

use super::fence::last_fence;
use super::value::string;
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|document| {
        document
            .get("trajectory")
            .and_then(Value::as_array)
            .is_some_and(|records| records.iter().any(|record| string(record, "role") == Some("ai")))
    })
}

/// Reader of the dataset's records.
pub(super) struct SweAgentDataset;

impl Reader for SweAgentDataset {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let Some(records) = value.get("trajectory").and_then(Value::as_array) else {
            out.skip(line, "expected `trajectory`");
            return;
        };
        out.builder.id(string(value, "instance_id"));
        out.outcome(
            value.get("target").and_then(Value::as_bool),
            string(value, "exit_status"),
        );
        for record in records {
            let text = string(record, "text").unwrap_or_default();
            match string(record, "role") {
                Some("system") => {}
                Some("ai" | "assistant") => {
                    out.builder.turn(None, TurnStart::New);
                    out.builder.text(text);
                    if let Some((_, command)) = last_fence(text, |_| true) {
                        out.builder.call(None, "bash", Value::String(command.to_owned()));
                    }
                }
                Some("user") if out.builder.awaits_result() => {
                    let result = CallResult {
                        content: text.to_owned(),
                        ..CallResult::default()
                    };
                    out.builder.result(None, result);
                }
                Some("user") => out.builder.reply(None, text),
                _ => out.skip(line, "a record without a known role"),
            }
        }
    }
}
