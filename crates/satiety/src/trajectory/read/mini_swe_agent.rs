//! mini-swe-agent trajectories: `messages` with one fenced command per turn (`mini-swe-agent-1`) or with tool
//! calls (version 2), replies with `<returncode>` and `<output>`, and `info`.

use serde_json::Value;

use super::chat::{Chat, tokens};
use super::fence::{is_shell, last_fence};
use super::value::{content_text, describe, string, time};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether a record is a trajectory of mini-swe-agent.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|document| {
        document.get("messages").is_some_and(Value::is_array)
            && (string(document, "trajectory_format").is_some_and(|name| name.starts_with("mini-swe-agent"))
                || document
                    .get("info")
                    .is_some_and(|info| info.get("mini_version").is_some()))
    })
}

/// Reader of mini-swe-agent trajectories.
#[derive(Debug, Default)]
pub(super) struct MiniSweAgent {
    chat: Chat,
}

impl Reader for MiniSweAgent {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let Some(messages) = value.get("messages").and_then(Value::as_array) else {
            out.skip(line, "expected `messages`");
            return;
        };
        out.builder.id(string(value, "instance_id"));
        for message in messages {
            self.message(message, line, out);
        }
        let exit = value.get("info").and_then(|info| string(info, "exit_status"));
        out.outcome(None, exit);
    }
}

impl MiniSweAgent {
    fn message(&mut self, message: &Value, line: usize, out: &mut Output) {
        match string(message, "role") {
            Some("system" | "developer") => {}
            Some("assistant") => self.assistant(message, out),
            Some("tool") => {
                out.builder
                    .result(string(message, "tool_call_id"), result_of(message));
            }
            Some("user") => answer(message, out),
            Some("exit") => {
                let exit = message
                    .get("extra")
                    .and_then(|extra| string(extra, "exit_status"));
                out.outcome(None, exit);
                answer(message, out);
            }
            _ if message.get("output").is_some_and(Value::is_array) => response(message, out),
            _ if string(message, "type") == Some("function_call_output") => {
                out.builder.result(string(message, "call_id"), result_of(message));
            }
            _ => out.skip(line, format!("unknown message: {}", describe(message))),
        }
    }

    fn assistant(&mut self, message: &Value, out: &mut Output) {
        self.chat.assistant(message, None, out);
        add_usage(message, out);
        let step = out.builder.turn(None, TurnStart::Continue);
        if step.has_calls() {
            return;
        }
        let text = std::mem::take(&mut step.text);
        let command = message
            .get("extra")
            .and_then(|extra| extra.get("actions")?.get(0))
            .and_then(|action| string(action, "command"))
            .or_else(|| last_fence(&text, is_shell).map(|(_, command)| command))
            .map(str::to_owned);
        step.text = text;
        if let Some(command) = command {
            out.builder.call(None, "bash", Value::String(command));
        }
    }
}

/// A turn as an object of the Responses API.
fn response(message: &Value, out: &mut Output) {
    out.builder.turn(None, TurnStart::New);
    for item in message
        .get("output")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        match string(item, "type") {
            Some("function_call") => out.builder.call(
                string(item, "call_id"),
                string(item, "name").unwrap_or_default(),
                item.get("arguments").cloned().unwrap_or_default(),
            ),
            Some("message") => {
                let content = item.get("content").map(content_text).unwrap_or_default();
                out.builder.text(&content);
            }
            _ => {}
        }
    }
    add_usage(message, out);
}

/// A message to the agent: the result of the command that waits for one, whether it ran or was refused for
/// its format, or otherwise a reply.
fn answer(message: &Value, out: &mut Output) {
    if out.builder.awaits_result() {
        out.builder.result(None, result_of(message));
    } else {
        let content = message.get("content").map(content_text).unwrap_or_default();
        out.builder.reply(None, &content);
    }
}

fn result_of(message: &Value) -> CallResult {
    let content = ["content", "output"].iter().find_map(|key| message.get(key));
    let content = content.map(content_text).unwrap_or_default();
    let extra = message.get("extra").unwrap_or(&Value::Null);
    let refused = string(extra, "interrupt_type") == Some("FormatError")
        || content.starts_with("Please always provide EXACTLY ONE action");
    let exit_code = extra.get("returncode").and_then(Value::as_i64).or_else(|| {
        let (code, _) = content
            .trim_start()
            .strip_prefix("<returncode>")?
            .split_once("</returncode>")?;
        code.trim().parse().ok()
    });
    CallResult {
        content,
        error: refused.then_some(true),
        exit_code,
    }
}

/// Sets tokens, cost and time of the current turn from `extra`.
fn add_usage(message: &Value, out: &mut Output) {
    let extra = message.get("extra").unwrap_or(&Value::Null);
    let response = extra.get("response").unwrap_or(&Value::Null);
    let usage = response
        .get("usage")
        .or_else(|| message.get("usage"))
        .unwrap_or(&Value::Null);
    let cost = extra.get("cost").or_else(|| usage.get("cost"));
    let step = out.builder.turn(None, TurnStart::Continue);
    step.usage.tokens = tokens(usage).or(step.usage.tokens);
    step.usage.cost = cost.and_then(Value::as_f64).or(step.usage.cost);
    let at = extra.get("timestamp").or_else(|| response.get("created"));
    step.time = step.time.or_else(|| at.and_then(time));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::trajectory::{Log, LogFormat, ReadOptions, read};

    fn read(file: &Value) -> Log {
        let log = read::read(file.to_string().as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::MiniSweAgent);
        log
    }

    #[test]
    fn fenced_commands_and_format_errors_have_results() {
        let log = read(&json!({
            "trajectory_format": "mini-swe-agent-1",
            "instance_id": "a-1",
            "info": {"exit_status": "Submitted", "submission": "diff"},
            "messages": [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": "Fix it."},
                {"role": "assistant", "content": "THOUGHT: two\n```bash\nls\n```\n```bash\npytest -q\n```",
                 "extra": {"response": {"created": 1763508910, "usage": {"total_tokens": 12, "cost": 0.5}}}},
                {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."},
                {"role": "assistant", "content": "THOUGHT: one\n```python\nx\n```\n```bash\npytest -q\n```"},
                {"role": "user", "content": "<returncode>1</returncode>\n<output>\nfailed\n</output>"},
                {"odd": true},
                {"role": "assistant", "content": "THOUGHT: no command"},
                {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks, found 0 actions."},
                {"role": "assistant", "content": "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\n```"},
                {"role": "user", "content": "diff"}
            ]
        }));
        assert_eq!(log.skipped.count, 1);
        let run = &log.trajectories[0];
        assert_eq!(run.id.as_deref(), Some("a-1"));
        assert_eq!(run.task.as_deref(), Some("Fix it."));
        assert_eq!(run.outcome.as_ref().unwrap().exit.as_deref(), Some("Submitted"));
        assert_eq!(run.steps.len(), 4);
        let first = &run.steps[0];
        assert_eq!(first.calls[0].command(), Some("pytest -q"));
        assert_eq!(first.calls[0].result.as_ref().unwrap().error, Some(true));
        assert_eq!((first.usage.tokens, first.usage.cost), (Some(12), Some(0.5)));
        assert!(first.time.is_some());
        let second = run.steps[1].calls[0].result.as_ref().unwrap();
        assert_eq!((second.error, second.exit_code), (None, Some(1)));
        assert!(run.steps[2].calls.is_empty() && run.steps[2].replies.len() == 1);
        assert!(run.steps[3].finish);
    }

    #[test]
    fn version_two_has_tool_calls_and_an_exit_message() {
        let log = read(&json!({
            "trajectory_format": "mini-swe-agent-1.1",
            "info": {"mini_version": "2.0.0", "exit_status": ""},
            "messages": [
                {"role": "user", "content": "Fix it."},
                {"role": "assistant", "content": null, "extra": {"cost": 0.25, "actions": [{"command": "ls", "tool_call_id": "c1"}]},
                 "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "<returncode>2</returncode>", "extra": {"returncode": 2}},
                {"object": "response", "output": [
                    {"type": "reasoning", "summary": []},
                    {"type": "message", "content": [{"type": "output_text", "text": "Submit."}]},
                    {"type": "function_call", "call_id": "c2", "name": "bash", "arguments": "{\"command\": \"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\"}"}
                ], "extra": {"cost": 0.5}},
                {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}}
            ]
        }));
        assert_eq!(log.skipped.count, 0);
        let run = &log.trajectories[0];
        assert_eq!(run.steps.len(), 2);
        assert_eq!(run.steps[0].calls.len(), 1);
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().exit_code, Some(2));
        assert_eq!(run.steps[0].usage.cost, Some(0.25));
        assert_eq!(run.steps[1].text, "Submit.");
        assert!(run.steps[1].finish);
        assert_eq!(run.steps[1].calls[0].result.as_ref().unwrap().content, "diff");
        assert_eq!(run.outcome.as_ref().unwrap().exit.as_deref(), Some("Submitted"));
    }
}
