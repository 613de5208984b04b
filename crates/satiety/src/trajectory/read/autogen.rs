//! Chat histories of AG2 and AutoGen 0.2, group chats, Magentic-One histories and Who&When files. Everybody
//! but the user and the executor of code is an agent, whatever the role: it depends on whose history it is.

use serde_json::Value;

use super::chat::{Chat, tool_message};
use super::fence::fences;
use super::value::{content_text, describe, first_string, string};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether the records are messages between agents, or documents with a history of them.
pub(super) fn detect(first: &[&Value]) -> bool {
    match first {
        [document] if history_of(document).is_some_and(|messages| is_history(messages)) => true,
        records => {
            let messages = || records.iter().copied().filter(|record| is_message(record));
            messages().count() * 2 > records.len()
                && (messages().any(is_typical) || has_several_names(messages()))
        }
    }
}

/// The history of a document. Any chat may be in `messages`; one between agents has typical senders.
fn history_of(value: &Value) -> Option<&Vec<Value>> {
    let history = ["history", "chat_history"]
        .iter()
        .find_map(|key| value.get(key)?.as_array());
    history.or_else(|| {
        let messages = value.get("messages")?.as_array()?;
        let mut first = messages.iter().take(super::DETECTION_RECORDS);
        first.any(is_typical).then_some(messages)
    })
}

fn is_history(messages: &[Value]) -> bool {
    messages.iter().take(super::DETECTION_RECORDS).any(is_message)
}

fn is_message(value: &Value) -> bool {
    (string(value, "role").is_some() || string(value, "name").is_some())
        && value.get("content").is_some()
        && value.get("type").is_none()
}

/// Whether a message has a role or sender that only these histories have.
fn is_typical(message: &Value) -> bool {
    let role = string(message, "role").unwrap_or_default();
    let name = string(message, "name").unwrap_or_default().to_ascii_lowercase();
    role.ends_with(" (thought)")
        || role.contains(" (->")
        || matches!(
            name.as_str(),
            "user_proxy" | "userproxy" | "chat_manager" | "computer_terminal" | "code_executor_agent"
        )
        || (role == "user" && string(message, "content").is_some_and(|text| exit_code_of(text).is_some()))
}

/// Whether at least three senders have a name.
fn has_several_names<'a>(messages: impl Iterator<Item = &'a Value>) -> bool {
    let mut names: Vec<&str> = messages
        .filter(|message| !matches!(string(message, "role"), Some("tool" | "function")))
        .filter_map(|message| string(message, "name"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.len() >= 3
}

/// Reader of chat histories between agents.
#[derive(Debug, Default)]
pub(super) struct Autogen {
    chat: Chat,
}

impl Reader for Autogen {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        out.builder.keep_empty_steps();
        let Some(messages) = history_of(value) else {
            self.message(value, line, out);
            return;
        };
        out.builder
            .id(first_string(value, &["question_ID", "task_id", "id", "chat_id"]));
        if let Some(task) = first_string(value, &["question", "task"]) {
            out.builder.task(task);
        }
        let solved = ["is_correct", "is_corrected"]
            .iter()
            .find_map(|key| value.get(key)?.as_bool());
        out.outcome(solved, None);
        for message in messages {
            self.message(message, line, out);
        }
    }
}

impl Autogen {
    fn message(&mut self, message: &Value, line: usize, out: &mut Output) {
        if !is_message(message) && message.get("tool_calls").is_none() {
            out.skip(line, format!("unknown message: {}", describe(message)));
            return;
        }
        let role = string(message, "role").unwrap_or_default();
        let name = string(message, "name");
        let text = message.get("content").map(content_text).unwrap_or_default();
        match role {
            "system" | "developer" => {}
            "tool" | "function" => {
                let responses = message.get("tool_responses").and_then(Value::as_array);
                match responses.filter(|responses| !responses.is_empty()) {
                    Some(responses) => responses.iter().for_each(|response| tool_message(response, out)),
                    None => tool_message(message, out),
                }
            }
            "user" | "assistant" | "" => match name {
                None if role == "user" => reply(None, &text, out),
                Some(name) if is_user(name) && message.get("tool_calls").is_none() => {
                    reply(Some(name), &text, out);
                }
                name => self.agent(name, message, &text, out),
            },
            speaker if is_user(speaker) => reply(name, &text, out),
            // Magentic-One: `Orchestrator (thought)`, `Orchestrator (-> WebSurfer)`, `WebSurfer`. Its terminal
            // is an agent, too: the orchestrator speaks between the code and its output.
            speaker => {
                let agent = speaker.split(" (").next().unwrap_or(speaker);
                self.turn(Some(agent), message, &text, out);
            }
        }
    }

    fn agent(&mut self, name: Option<&str>, message: &Value, text: &str, out: &mut Output) {
        if name.is_some_and(|name| executed_code(name, text, out)) || attach_code_result(text, out) {
            return;
        }
        self.turn(name, message, text, out);
    }

    fn turn(&mut self, name: Option<&str>, message: &Value, text: &str, out: &mut Output) {
        self.chat.assistant(message, name, out);
        let step = out.builder.turn(None, TurnStart::Continue);
        step.finish |= text.trim_end().ends_with("TERMINATE");
    }
}

/// Adds a message of the user, who may also be the one that runs the code.
fn reply(name: Option<&str>, text: &str, out: &mut Output) {
    if !attach_code_result(text, out) {
        out.builder.reply(name, text);
    }
}

/// Whether a sender stands for the human user.
pub(super) fn is_user(name: &str) -> bool {
    matches!(
        name.to_ascii_lowercase().replace(['_', '-', ' '], "").as_str(),
        "user" | "human" | "userproxy" | "userproxyagent" | "humanproxy" | "humanuser" | "admin" | "customer"
    )
}

/// Handles a message of an agent that only executes code: the result of the code in the latest step, or a
/// reply. Returns `false` if the sender is another agent.
pub(super) fn executed_code(name: &str, text: &str, out: &mut Output) -> bool {
    let name_in_lower_case = name.to_ascii_lowercase();
    if !name_in_lower_case.contains("terminal") && !name_in_lower_case.contains("executor") {
        return false;
    }
    if text.starts_with("There is no code") || text.starts_with("No code blocks found") {
        out.builder.reply(Some(name), text);
    } else if !attach_code_result(text, out) {
        let result = CallResult {
            content: text.to_owned(),
            ..CallResult::default()
        };
        if add_code_call(out) {
            out.builder.result(None, result);
        } else {
            out.builder.reply(Some(name), text);
        }
    }
    true
}

/// Attaches a text that begins with an exit code to the code in the latest step. Returns whether it did.
fn attach_code_result(text: &str, out: &mut Output) -> bool {
    let Some(exit_code) = exit_code_of(text) else {
        return false;
    };
    if !add_code_call(out) {
        return false;
    }
    let result = CallResult {
        content: text.to_owned(),
        error: Some(exit_code != 0),
        exit_code: Some(exit_code),
    };
    out.builder.result(None, result)
}

/// The code of `exitcode: 1 (execution failed)`.
fn exit_code_of(text: &str) -> Option<i64> {
    let rest = text.trim_start().strip_prefix("exitcode:")?.trim_start();
    let end = rest
        .find(|character: char| !character.is_ascii_digit() && character != '-')
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Adds the code blocks of the latest step as one call. Returns whether there is code without a result.
fn add_code_call(out: &mut Output) -> bool {
    let Some(step) = out.builder.trajectory_mut().steps.last() else {
        return false;
    };
    if step.has_calls() {
        return !step.is_complete();
    }
    let mut tool = None;
    let mut code = String::new();
    for (info, body) in fences(&step.text, |_| true) {
        tool.get_or_insert_with(|| match info.to_ascii_lowercase().as_str() {
            "" | "python" | "py" => "python".to_owned(),
            "sh" | "shell" | "bash" | "console" => "bash".to_owned(),
            other => other.to_owned(),
        });
        if !code.is_empty() {
            code.push_str("\n\n");
        }
        code.push_str(body);
    }
    match tool {
        Some(tool) => {
            out.builder.call(None, &tool, Value::String(code));
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::trajectory::{Log, LogFormat, ReadOptions, read};

    fn read(file: &Value) -> Log {
        let log = read::read(file.to_string().as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::Autogen);
        log
    }

    #[test]
    fn executed_code_is_a_call_of_its_author() {
        let log = read(&json!({
            "question": "How many?", "question_ID": "q", "is_correct": false, "mistake_step": "0",
            "history": [
                {"content": "You are given a task.", "role": "assistant", "name": "Counter"},
                {"content": "There is no code from the last 1 message for me to execute.", "role": "user", "name": "Computer_terminal"},
                {"content": "Run\n```python\nprint(1,)\nx\n```\nand\n```sh\nls\n```", "role": "assistant", "name": "Counter"},
                {"content": "exitcode: 1 (execution failed)\nCode output: NameError", "role": "user", "name": "Computer_terminal"},
                "odd",
                {"content": "", "role": "assistant", "name": "Counter"},
                {"content": "So it is 1. TERMINATE", "role": "user", "name": "Checker"}
            ]
        }));
        assert_eq!(log.skipped.count, 1);
        let run = &log.trajectories[0];
        assert_eq!(
            (run.id.as_deref(), run.task.as_deref()),
            (Some("q"), Some("How many?"))
        );
        assert_eq!(run.outcome.as_ref().unwrap().solved, Some(false));
        assert_eq!(run.steps.len(), 4, "an empty message is a turn, too");
        assert_eq!(run.steps[0].replies.len(), 1);
        let call = &run.steps[1].calls[0];
        assert_eq!(
            (call.tool.as_str(), call.command()),
            ("python", Some("print(1,)\nx\n\nls"))
        );
        let result = call.result.as_ref().unwrap();
        assert_eq!((result.exit_code, result.error), (Some(1), Some(true)));
        assert_eq!(run.steps[3].agent.as_deref(), Some("Checker"));
        assert!(run.steps[3].finish);
    }

    #[test]
    fn roles_do_not_matter_where_names_are_known() {
        // The history of the initiator: its own messages have the role `assistant`.
        let log = read(&json!([
            {"content": "Plot it.", "role": "assistant", "name": "user_proxy"},
            {"content": "```python\nplot()\n```", "role": "user", "name": "coder"},
            {"content": "exitcode: 0 (execution succeeded)\nCode output: ok", "role": "assistant", "name": "user_proxy"},
            {"content": null, "role": "user", "name": "coder", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "save", "arguments": "{}"}}]},
            {"content": "saved", "role": "tool", "name": "user_proxy", "tool_responses": [
                {"tool_call_id": "c", "role": "tool", "content": "saved"}]}
        ]));
        let run = &log.trajectories[0];
        assert_eq!(run.task.as_deref(), Some("Plot it."));
        assert_eq!(run.steps.len(), 2);
        assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().exit_code, Some(0));
        assert_eq!(run.steps[1].calls[0].result.as_ref().unwrap().content, "saved");
    }

    #[test]
    fn every_message_of_magentic_one_agents_is_a_step() {
        let log = read(&json!([
            {"content": "Find a shop.", "role": "human"},
            {"content": "Initial plan: …", "role": "Orchestrator (thought)"},
            {"content": "Please search.", "role": "Orchestrator (-> WebSurfer)"},
            {"content": "I typed 'shop'.", "role": "WebSurfer"},
            {"content": "```sh\nls\n```", "role": "Assistant"},
            {"content": "Next speaker ComputerTerminal", "role": "Orchestrator (thought)"},
            {"content": "The script ran, then exited with an error (POSIX exit code: 2)", "role": "ComputerTerminal"}
        ]));
        let run = &log.trajectories[0];
        assert_eq!(run.task.as_deref(), Some("Find a shop."));
        let agents: Vec<_> = run
            .steps
            .iter()
            .map(|step| step.agent.as_deref().unwrap())
            .collect();
        assert_eq!(
            agents,
            [
                "Orchestrator",
                "Orchestrator",
                "WebSurfer",
                "Assistant",
                "Orchestrator",
                "ComputerTerminal"
            ]
        );
    }
}
