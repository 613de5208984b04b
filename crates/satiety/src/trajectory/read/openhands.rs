//! OpenHands: events of version 0 (`source` with `action` or `observation`), events of the SDK (`kind`), and
//! evaluation outputs with a `history` of either.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::value::{content_text, describe, first_string, string, time};
use super::{Output, Reader};
use crate::trajectory::builder::TurnStart;
use crate::trajectory::step::CallResult;

/// Whether the records are events, or documents with events.
pub(super) fn detect(first: &[&Value]) -> bool {
    first.iter().any(|record| match events_of(record) {
        Some(events) => events
            .iter()
            .take(super::DETECTION_RECORDS)
            .flat_map(pair_elements)
            .any(is_event),
        None => is_event(record),
    })
}

fn is_event(value: &Value) -> bool {
    if is_sdk_event(value) {
        return true;
    }
    let is_action = value.get("action").is_some_and(Value::is_string);
    let is_observation = value.get("observation").is_some_and(Value::is_string);
    is_action != is_observation
        && (string(value, "source").is_some()
            || value.get("args").is_some_and(Value::is_object)
            || value.get("extras").is_some_and(Value::is_object))
}

fn is_sdk_event(value: &Value) -> bool {
    string(value, "kind").is_some_and(|kind| {
        kind.ends_with("Event") || kind.starts_with("Condensation") || kind == "UserRejectObservation"
    })
}

/// The events of a document: an evaluation output, or an exported conversation.
fn events_of(value: &Value) -> Option<&Vec<Value>> {
    ["history", "trajectory", "events"]
        .iter()
        .find_map(|key| value.get(key)?.as_array())
}

/// Old evaluation outputs group an action and its observation in a list.
fn pair_elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(pair) => pair,
        other => std::slice::from_ref(other),
    }
}

/// Reader of OpenHands events.
#[derive(Debug, Default)]
pub(super) struct Openhands {
    /// Id of the model response of the current step: all its calls are one turn.
    response: Option<String>,
    /// Ids of calls by the ids of their action events.
    calls: FxHashMap<i64, String>,
}

impl Reader for Openhands {
    fn record(&mut self, value: &Value, line: usize, out: &mut Output) {
        let Some(events) = events_of(value) else {
            self.event(value, line, out);
            return;
        };
        out.builder
            .id(first_string(value, &["instance_id", "conversation_id", "id"]));
        if let Some(task) = string(value, "instruction") {
            out.builder.task(task);
        }
        for event in events.iter().flat_map(pair_elements) {
            self.event(event, line, out);
        }
        let solved = [
            Some(value),
            value.get("report"),
            value.pointer("/test_result/report"),
        ]
        .into_iter()
        .flatten()
        .find_map(|report| report.get("resolved")?.as_bool());
        out.outcome(solved, string(value, "error"));
    }
}

impl Openhands {
    fn event(&mut self, event: &Value, line: usize, out: &mut Output) {
        if is_sdk_event(event) {
            self.sdk_event(event, line, out);
        } else if let Some(action) = string(event, "action") {
            self.action(action, event, out);
        } else if let Some(observation) = string(event, "observation") {
            self.observation(observation, event, out);
        } else {
            out.skip(line, format!("unknown event: {}", describe(event)));
        }
    }

    /// Begins a turn, or continues it if the event comes from the same model response.
    fn turn(&mut self, response: Option<&str>, event: &Value, out: &mut Output) {
        let start = if response.is_some() && response == self.response.as_deref() {
            TurnStart::Continue
        } else {
            TurnStart::New
        };
        self.response = response.map(str::to_owned);
        let step = out.builder.turn(None, start);
        step.time = step.time.or_else(|| time(event.get("timestamp")?));
    }

    fn action(&mut self, action: &str, event: &Value, out: &mut Output) {
        let null = Value::Null;
        let arguments = event.get("args").unwrap_or(&null);
        if action == "message" {
            let content = string(arguments, "content").unwrap_or_default();
            if string(event, "source") == Some("agent") {
                self.turn(None, event, out);
                out.builder.text(content);
            } else {
                out.builder.reply(None, content);
            }
            return;
        }
        let is_noise = matches!(
            action,
            "system"
                | "recall"
                | "change_agent_state"
                | "null"
                | "condensation"
                | "condensation_request"
                | "start"
                | "initialize"
                | "summarize"
                | "pause"
                | "resume"
                | "stop"
                | "loop_recovery"
        );
        if is_noise || matches!(string(event, "source"), Some("user" | "environment")) {
            return;
        }
        let metadata = event.get("tool_call_metadata").unwrap_or(&null);
        let response = metadata.get("model_response").unwrap_or(&null);
        let id = string(metadata, "tool_call_id");
        let event_id = event.get("id").and_then(Value::as_i64);
        let call_id = id
            .map(str::to_owned)
            .or_else(|| Some(event_id?.to_string()))
            .unwrap_or_default();
        if let Some(event_id) = event_id {
            self.calls.insert(event_id, call_id.clone());
        }
        self.turn(string(response, "id"), event, out);
        if action != "think" {
            let thought = first_string(arguments, &["thought", "final_thought"]);
            out.builder.text(thought.unwrap_or_default());
        }
        let tool = string(metadata, "function_name").unwrap_or(match action {
            "run" => "bash",
            "run_ipython" => "python",
            "call_tool_mcp" | "mcp" => string(arguments, "name").unwrap_or(action),
            other => other,
        });
        let arguments = original_arguments(response, id).unwrap_or_else(|| own_arguments(arguments, action));
        out.builder.call(Some(&call_id), tool, arguments);
        if matches!(action, "finish" | "reject") {
            out.builder.turn(None, TurnStart::Continue).finish = true;
        }
    }

    fn observation(&mut self, observation: &str, event: &Value, out: &mut Output) {
        let null = Value::Null;
        let extras = event.get("extras").unwrap_or(&null);
        match observation {
            "agent_state_changed" => {
                let state = string(extras, "agent_state")
                    .filter(|state| matches!(*state, "finished" | "rejected" | "error" | "stopped"));
                out.outcome(None, state);
                return;
            }
            "null" | "recall" | "condense" | "microagent" | "workspace_context" | "chat" | "system" => return,
            _ => {}
        }
        let content = event.get("content").map(content_text).unwrap_or_default();
        let failed = matches!(observation, "error" | "user_rejected")
            || extras.get("error").and_then(Value::as_bool) == Some(true);
        let exit_code = extras
            .pointer("/metadata/exit_code")
            .or_else(|| extras.get("exit_code"))
            .and_then(Value::as_i64)
            // The runtime reports -1 while the command is still running.
            .filter(|code| *code >= 0);
        let id = event
            .get("tool_call_metadata")
            .and_then(|metadata| string(metadata, "tool_call_id"))
            .or_else(|| {
                let cause = event.get("cause")?.as_i64()?;
                self.calls.get(&cause).map(String::as_str)
            });
        let result = CallResult {
            content,
            error: failed.then_some(true),
            exit_code,
        };
        answer(id, result, out);
    }

    fn sdk_event(&mut self, event: &Value, line: usize, out: &mut Output) {
        let null = Value::Null;
        match string(event, "kind").unwrap_or_default() {
            "MessageEvent" => {
                let content = event.pointer("/llm_message/content").unwrap_or(&null);
                let content = content_text(content);
                if string(event, "source") == Some("agent") {
                    self.turn(string(event, "llm_response_id"), event, out);
                    out.builder.text(&content);
                } else {
                    out.builder.reply(string(event, "sender"), &content);
                }
            }
            "ActionEvent" => {
                self.turn(string(event, "llm_response_id"), event, out);
                out.builder
                    .text(&event.get("thought").map(content_text).unwrap_or_default());
                let call = event.get("tool_call").unwrap_or(&null);
                let arguments = call
                    .get("arguments")
                    .or_else(|| call.pointer("/function/arguments"))
                    .cloned()
                    .unwrap_or_else(|| own_arguments(event.get("action").unwrap_or(&null), ""));
                let tool = string(event, "tool_name").or_else(|| string(call, "name"));
                out.builder
                    .call(string(event, "tool_call_id"), tool.unwrap_or_default(), arguments);
            }
            "ObservationEvent" => {
                let observation = event.get("observation").unwrap_or(&null);
                let content = ["content", "output"].iter().find_map(|key| observation.get(key));
                let exit_code = observation
                    .get("exit_code")
                    .filter(|code| !code.is_null())
                    .or_else(|| observation.pointer("/metadata/exit_code"))
                    .and_then(Value::as_i64)
                    .filter(|code| *code >= 0);
                let result = CallResult {
                    content: content.map(content_text).unwrap_or_default(),
                    error: observation.get("is_error").and_then(Value::as_bool),
                    exit_code,
                };
                answer(string(event, "tool_call_id"), result, out);
            }
            "AgentErrorEvent" | "UserRejectObservation" => {
                let reason = first_string(event, &["error", "rejection_reason"]).unwrap_or_default();
                let result = CallResult {
                    content: reason.to_owned(),
                    error: Some(true),
                    exit_code: None,
                };
                answer(string(event, "tool_call_id"), result, out);
            }
            "ConversationErrorEvent" => out.outcome(None, string(event, "code")),
            "ConversationStateUpdateEvent" => {
                let key = string(event, "key");
                let status = string(event, "value").filter(|status| {
                    key == Some("execution_status") && matches!(*status, "finished" | "error" | "stuck")
                });
                out.outcome(None, status);
            }
            "SystemPromptEvent"
            | "PauseEvent"
            | "InterruptEvent"
            | "TokenEvent"
            | "StreamingDeltaEvent"
            | "LLMCompletionLogEvent"
            | "HookExecutionEvent" => {}
            kind if kind.starts_with("Condensation") => {}
            kind => out.skip(line, format!("unknown event `{kind}`")),
        }
    }
}

/// Attaches a result to its call; one without a call is a message to the agent.
fn answer(id: Option<&str>, result: CallResult, out: &mut Output) {
    if id.is_none() && !out.builder.awaits_result() {
        out.builder.reply(Some("environment"), &result.content);
    } else {
        out.builder.result(id, result);
    }
}

/// The arguments as the model wrote them, from the response that an action carries.
fn original_arguments(response: &Value, id: Option<&str>) -> Option<Value> {
    let id = id?;
    response
        .pointer("/choices/0/message/tool_calls")?
        .as_array()?
        .iter()
        .find(|call| string(call, "id") == Some(id))?
        .pointer("/function/arguments")
        .cloned()
}

/// The arguments of an action without the fields of the runtime.
fn own_arguments(arguments: &Value, action: &str) -> Value {
    let Some(object) = arguments.as_object() else {
        return arguments.clone();
    };
    let kept: Map<String, Value> = object
        .iter()
        .filter(|(key, value)| {
            let is_runtime = matches!(
                key.as_str(),
                "is_input"
                    | "blocking"
                    | "hidden"
                    | "cwd"
                    | "is_static"
                    | "confirmation_state"
                    | "security_risk"
                    | "impl_source"
                    | "kernel_init_code"
                    | "include_extra"
                    | "translated_ipython_code"
                    | "kind"
            ) || (key.as_str() == "thought" && action != "think");
            !is_runtime && !value.is_null()
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::trajectory::{Log, LogFormat, ReadOptions, read};

    fn read(text: &str) -> Log {
        let log = read::read(text.as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.format, LogFormat::Openhands);
        log
    }

    fn events() -> Value {
        let metadata = |id: &str| {
            json!({"function_name": "execute_bash", "tool_call_id": id, "model_response": {"id": "r1", "choices": [
                {"message": {"tool_calls": [
                    {"id": "t1", "function": {"name": "execute_bash", "arguments": "{\"command\": \"ls\"}"}},
                    {"id": "t2", "function": {"name": "execute_bash", "arguments": "{\"command\": \"make\"}"}}]}}]}})
        };
        json!([
            {"id": 0, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {"agent_state": "running"}},
            {"id": 1, "source": "user", "action": "message", "args": {"content": "Build it."}},
            {"id": 2, "source": "user", "action": "recall", "args": {"query": "Build it."}},
            {"id": 3, "source": "agent", "action": "run", "timestamp": "2025-01-20T20:29:35.040676",
             "args": {"command": "ls", "thought": "Look."}, "tool_call_metadata": metadata("t1")},
            {"id": 4, "source": "agent", "observation": "run", "cause": 3, "content": "a", "tool_call_metadata": metadata("t1"),
             "extras": {"metadata": {"exit_code": 0}}},
            {"id": 5, "source": "agent", "action": "run", "args": {"command": "make"}, "tool_call_metadata": metadata("t2")},
            {"id": 6, "source": "agent", "observation": "run", "cause": 5, "content": "no rule", "extras": {"metadata": {"exit_code": 2}}},
            {"odd": 1},
            {"id": 7, "source": "agent", "action": "edit", "args": {"path": "/a", "new_str": "x", "thought": "Edit."}},
            {"id": 8, "source": "agent", "observation": "error", "cause": 7, "content": "no such file"},
            {"id": 9, "source": "agent", "action": "finish", "args": {"final_thought": "Done.", "outputs": {}}},
            {"id": 10, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {"agent_state": "finished"}}
        ])
    }

    #[test]
    fn calls_of_one_response_are_one_step() {
        let log = read(&events().to_string());
        assert_eq!(log.skipped.count, 1);
        let run = &log.trajectories[0];
        assert_eq!(run.task.as_deref(), Some("Build it."));
        assert_eq!(run.steps.len(), 3);
        assert_eq!(run.steps[0].text, "Look.");
        assert!(run.steps[0].time.is_some());
        assert_eq!(run.steps[0].calls[1].command(), Some("make"));
        let results: Vec<_> = run.steps[0]
            .calls
            .iter()
            .map(|call| call.result.as_ref().unwrap().exit_code)
            .collect();
        assert_eq!(results, [Some(0), Some(2)]);
        assert_eq!(run.steps[1].calls[0].edits[0].path, "/a");
        assert_eq!(run.steps[1].calls[0].result.as_ref().unwrap().error, Some(true));
        assert!(run.steps[2].finish);
        assert_eq!(run.outcome.as_ref().unwrap().exit.as_deref(), Some("finished"));
    }

    #[test]
    fn evaluation_outputs_have_a_run_per_line() {
        let events = events();
        let pairs = json!([[events[1], events[2]], [events[3], events[4]]]);
        let lines = format!(
            "{}\n{}\n",
            json!({"instance_id": "i-1", "instruction": "Task.", "history": events, "report": {"resolved": true}}),
            json!({"instance_id": "i-2", "history": pairs, "error": "AgentStuckInLoopError"})
        );
        let log = read(&lines);
        assert_eq!(log.trajectories.len(), 2);
        let first = log.trajectories[0].outcome.as_ref().unwrap();
        assert_eq!(first.solved, Some(true));
        assert_eq!(log.trajectories[0].task.as_deref(), Some("Task."));
        assert_eq!(log.trajectories[1].steps.len(), 1);
        assert_eq!(log.trajectories[1].id.as_deref(), Some("i-2"));
    }

    #[test]
    fn sdk_events_are_read() {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let action = |response: &str, id: &str, tool: &str, arguments: &str| {
            json!({"kind": "ActionEvent", "source": "agent", "thought": text("Think."), "tool_name": tool, "tool_call_id": id,
                   "tool_call": {"id": id, "name": tool, "arguments": arguments}, "llm_response_id": response})
        };
        let lines = [
            json!({"kind": "SystemPromptEvent", "source": "agent", "system_prompt": text("rules")}),
            json!({"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": text("Build it.")}}),
            action("r1", "c1", "terminal", "{\"command\": \"make\"}"),
            action("r1", "c2", "terminal", "{\"command\": \"ls\"}"),
            json!({"kind": "ObservationEvent", "source": "environment", "tool_name": "terminal", "tool_call_id": "c1",
                   "observation": {"content": text("failed"), "is_error": false, "exit_code": 2}}),
            json!({"kind": "AgentErrorEvent", "source": "agent", "tool_name": "terminal", "tool_call_id": "c2", "error": "bad arguments"}),
            json!({"kind": "Condensation", "summary": "…"}),
            json!({"kind": "FutureEvent"}),
            action("r2", "c3", "finish", "{\"message\": \"Done.\"}"),
            json!({"kind": "ConversationStateUpdateEvent", "key": "execution_status", "value": "finished"}),
        ];
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let log = read(&lines.join("\n"));
        assert_eq!(log.skipped.count, 1);
        assert_eq!(log.skipped.first[0].line, 8);
        let run = &log.trajectories[0];
        assert_eq!(run.task.as_deref(), Some("Build it."));
        assert_eq!(run.steps.len(), 2);
        let results: Vec<_> = run.steps[0]
            .calls
            .iter()
            .map(|call| call.result.as_ref().unwrap())
            .collect();
        assert_eq!((results[0].exit_code, results[1].error), (Some(2), Some(true)));
        assert!(run.steps[1].finish);
        assert_eq!(run.outcome.as_ref().unwrap().exit.as_deref(), Some("finished"));
    }
}
