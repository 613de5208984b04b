//! Commands in the text of an agent: a fenced block, or a line `Action:`. The reply that follows is the
//! result. Only logs without tool calls whose turns mostly contain a command are converted.

use serde_json::Value;

use crate::trajectory::classify::{CallKind, classify};
use crate::trajectory::step::{Call, CallResult, Step, Trajectory};

/// Turns commands in texts into calls, if the log has no calls and at least half of its turns have a command
/// that was answered.
pub(super) fn extract_calls(trajectory: &mut Trajectory) {
    let steps = &mut trajectory.steps;
    if steps.iter().any(Step::has_calls) {
        return;
    }
    let answered = |step: &&Step| command_in(&step.text).is_some() && !step.replies.is_empty();
    if steps.is_empty() || steps.iter().filter(answered).count() * 2 < steps.len() {
        return;
    }
    for step in steps.iter_mut() {
        extract(step);
    }
}

/// Whether a turn without calls ends with a command, as the turns of agents that speak in text do.
pub(in crate::trajectory) fn ends_with_command(step: &Step) -> bool {
    !step.has_calls() && command_in(&step.text).is_some_and(|command| command.rest.trim().is_empty())
}

/// Turns the command at the end of a text into a call, if it was answered.
pub(in crate::trajectory) fn convert_answered_command(step: &mut Step) {
    if !step.replies.is_empty() && ends_with_command(step) {
        extract(step);
    }
}

/// Turns the command of one step into a call with the first reply as its result.
fn extract(step: &mut Step) {
    let Some(command) = command_in(&step.text) else {
        return;
    };
    let mut call = Call::new(command.tool, Value::String(command.text.to_owned()));
    if !step.replies.is_empty() {
        let reply = step.replies.remove(0);
        call.result = Some(result_of(reply.text));
    }
    let class = classify(&call);
    step.finish |= class.kind == CallKind::Finish;
    call.edits = class.edits;
    step.calls.push(call);
}

/// A result with its return code, where the text begins with one (`<returncode>1</returncode>`).
fn result_of(text: String) -> CallResult {
    let exit_code = text
        .trim_start()
        .strip_prefix("<returncode>")
        .and_then(|rest| rest.split_once("</returncode>"))
        .and_then(|(code, _)| code.trim().parse().ok());
    CallResult {
        content: text,
        error: None,
        exit_code,
    }
}

struct CommandText<'a> {
    tool: &'static str,
    text: &'a str,
    /// What follows the command.
    rest: &'a str,
}

/// The last fenced block of a text that is a command, or the last line `Action: …`.
fn command_in(text: &str) -> Option<CommandText<'_>> {
    if let Some((info, body, rest)) = last_fence(text) {
        let tool = match info.trim().to_ascii_lowercase().as_str() {
            "" | "bash" | "sh" | "shell" | "console" | "mswea_bash_command" | "zsh" | "cmd"
            | "powershell" => "bash",
            "python" | "py" | "ipython" => "python",
            _ => return None,
        };
        let body = body.trim_matches('\n');
        return (!body.trim().is_empty()).then_some(CommandText {
            tool,
            text: body,
            rest,
        });
    }
    let position = text
        .rfind("\nAction:")
        .map(|at| at + 1)
        .or_else(|| text.starts_with("Action:").then_some(0))?;
    let action = text[position + "Action:".len()..].trim();
    (!action.is_empty()).then_some(CommandText {
        tool: "action",
        text: action,
        rest: "",
    })
}

/// Info string and body of the last complete fence, and the text after it.
fn last_fence(text: &str) -> Option<(&str, &str, &str)> {
    let mut last = None;
    let mut open: Option<(&str, usize)> = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let Some(info) = trimmed.strip_prefix("```") {
            match open.take() {
                Some((info, begin)) => {
                    last = Some((info, &text[begin..offset], &text[offset + line.len()..]));
                }
                None => open = Some((info, offset + line.len())),
            }
        }
        offset += line.len();
    }
    last
}
