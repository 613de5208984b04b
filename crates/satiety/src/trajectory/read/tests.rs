//! Helpers for the tests of the readers, and properties of all of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::trajectory::Step;

/// Reads a document.
pub(super) fn read_value(document: &Value) -> Log {
    read(document.to_string().as_bytes(), ReadOptions::default()).unwrap()
}

/// Reads JSON Lines.
pub(super) fn read_lines_of(records: &[Value]) -> Log {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    read(lines.join("\n").as_bytes(), ReadOptions::default()).unwrap()
}

/// The only run of a log.
pub(super) fn only_run(log: &Log) -> &Trajectory {
    assert_eq!(log.trajectories.len(), 1, "{log:#?}");
    &log.trajectories[0]
}

/// Steps that a feed returns after each record, and its trajectory.
pub(super) fn feed_values(records: &[Value]) -> (Vec<Step>, Trajectory) {
    let mut feed = Feed::new();
    let mut steps = Vec::new();
    for record in records {
        feed.push(record);
        steps.extend_from_slice(feed.take_steps());
    }
    (steps, feed.finish())
}

#[test]
fn a_feed_reads_chat_messages_one_by_one() {
    let call = json!({"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]});
    let mut feed = Feed::new();
    feed.push(&json!({"role": "system", "content": "policy"}));
    feed.push(&json!({"role": "user", "content": "go"}));
    assert!(feed.take_steps().is_empty() && feed.format().is_none());
    feed.push(&call);
    assert_eq!(feed.format(), Some(LogFormat::Chat));
    assert!(feed.take_steps().is_empty(), "the call has no result");
    feed.push(&json!({"role": "tool", "tool_call_id": "1", "content": "seen"}));
    assert_eq!(feed.take_steps().len(), 1);
    feed.push(&json!({"role": "assistant", "content": "done"}));
    assert_eq!(feed.take_steps()[0].text, "done");
    let run = feed.finish();
    assert_eq!(run.task.as_deref(), Some("go"));
    assert_eq!(run.steps.len(), 2);
}

#[test]
fn the_step_after_a_compaction_is_marked() {
    let said = |text: &str| json!({"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}});
    let asked =
        |text: &str| json!({"type": "user", "sessionId": "s", "message": {"role": "user", "content": text}});
    let mut summary = asked("This session continues an earlier one.");
    summary["isCompactSummary"] = json!(true);
    let log = read_lines_of(&[
        asked("go"),
        said("one"),
        asked("on"),
        said("two"),
        summary,
        said("three"),
    ]);
    let marks: Vec<bool> = only_run(&log).steps.iter().map(|step| step.compacted).collect();
    assert_eq!(marks, [false, false, true], "{log:#?}");

    let item = |text: &str| {
        json!({"type": "response_item", "payload": {"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}]}})
    };
    let user = json!({"type": "response_item", "payload": {"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "go on"}]}});
    let meta = json!({"type": "session_meta", "payload": {"id": "s"}});
    let compacted = json!({"type": "compacted", "payload": {"message": "summary"}});
    let log = read_lines_of(&[meta, user.clone(), item("one"), compacted, user, item("two")]);
    let marks: Vec<bool> = only_run(&log).steps.iter().map(|step| step.compacted).collect();
    assert_eq!(marks, [false, true], "{log:#?}");
}

#[test]
fn a_feed_keeps_records_until_the_format_is_known() {
    let mut feed = Feed::new();
    feed.push(&json!({"role": "user", "content": "go"}));
    feed.push(&json!({"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}));
    assert_eq!(feed.format(), Some(LogFormat::Responses));
    feed.push(&json!({"type": "function_call_output", "call_id": "1", "output": "seen"}));
    assert_eq!(feed.take_steps().len(), 1);
    assert_eq!(feed.finish().task.as_deref(), Some("go"));

    let mut feed = Feed::new();
    for _ in 0..DETECTION_RECORDS {
        feed.push(&json!({"odd": true}));
    }
    assert_eq!(feed.format(), Some(LogFormat::Chat));
    assert_eq!(feed.skipped().count, DETECTION_RECORDS);
}

#[test]
fn concatenated_documents_are_one_log() {
    let first = serde_json::to_string_pretty(&json!({"role": "user", "content": "go"})).unwrap();
    let second = serde_json::to_string_pretty(&json!({"role": "assistant", "content": "done"})).unwrap();
    let log = read(format!("{first}\n{second}\n").as_bytes(), ReadOptions::default()).unwrap();
    assert_eq!(only_run(&log).steps.len(), 1);
}

/// Words that readers look for, so that arbitrary values reach their branches.
const WORDS: &[&str] = &[
    "type",
    "role",
    "content",
    "message",
    "messages",
    "payload",
    "item",
    "id",
    "call_id",
    "name",
    "arguments",
    "input",
    "output",
    "user",
    "assistant",
    "model",
    "tool",
    "function_call",
    "function_call_output",
    "response_item",
    "event_msg",
    "token_count",
    "item.completed",
    "command_execution",
    "local_shell_call",
    "action",
    "command",
    "commands",
    "shell_call",
    "shell_call_output",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "toolUseResult",
    "isSidechain",
    "agentId",
    "gemini",
    "toolCalls",
    "sessionId",
    "projectHash",
    "$set",
    "$rewindTo",
    "parts",
    "functionCall",
    "functionResponse",
    "response",
    "mapping",
    "parent",
    "children",
    "author",
    "recipient",
    "current_node",
    "text",
    "resourceSpans",
    "scopeSpans",
    "spans",
    "attributes",
    "key",
    "value",
    "stringValue",
    "arrayValue",
    "values",
    "spanId",
    "traceId",
    "parentSpanId",
    "status",
    "code",
    "events",
    "gen_ai.operation.name",
    "chat",
    "execute_tool",
    "gen_ai.output.messages",
    "gen_ai.input.messages",
    "gen_ai.choice",
    "llm.output_messages.0.message.tool_calls.1.tool_call.function.name",
    "openinference.span.kind",
    "LLM",
    "{\"output\": \"\"}",
    "Exit code 1",
    "startTimeUnixNano",
    "trajectory",
    "steps",
    "calls",
    "tool_calls",
];

fn any_value() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(WORDS);
    let leaf = prop_oneof![
        3 => word.clone().prop_map(|word| json!(word)),
        1 => any::<Option<bool>>().prop_map(|value| json!(value)),
        1 => any::<i64>().prop_map(|value| json!(value)),
        1 => any::<f64>().prop_map(|value| json!(value)),
        1 => ".{0,6}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            proptest::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|fields| json!(std::collections::BTreeMap::from_iter(fields))),
        ]
    })
}

proptest! {
    #[test]
    fn no_reader_panics(records in proptest::collection::vec(any_value(), 0..6)) {
        for entry in FORMATS {
            for streams in [false, true] {
                let mut out = Output::default();
                let mut reader = (entry.reader)();
                if streams {
                    reader.stream();
                }
                for (index, record) in records.iter().enumerate() {
                    reader.record(record, index + 1, &mut out);
                    let _ = out.builder.take_complete(reader.splits_turns());
                }
                reader.end(&mut out);
                out.end_trajectory();
            }
        }
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        let _ = read(lines.join("\n").as_bytes(), ReadOptions::default());
        let _ = read(Value::Array(records.clone()).to_string().as_bytes(), ReadOptions::default());
        let _ = feed_values(&records);
    }
}

#[test]
fn commands_in_text_are_steps_once_they_are_answered() {
    let mut feed = Feed::new();
    let mut steps = Vec::new();
    for number in 0..3 {
        for message in [
            json!({"role": "assistant", "content": format!("I look at it.\n```bash\ncat {number}.txt\n```")}),
            json!({"role": "user", "content": "cat: no such file"}),
        ] {
            feed.push(&message);
            steps.push(feed.take_steps().to_vec());
        }
    }
    let counts: Vec<usize> = steps.iter().map(Vec::len).collect();
    assert_eq!(counts, [0, 1, 0, 1, 0, 1]);
    let call = &steps[3][0].calls[0];
    assert_eq!(call.command(), Some("cat 1.txt"));
    assert_eq!(call.result.as_ref().unwrap().content, "cat: no such file");
    // Code that is shown to a reader is part of the text.
    feed.push(&json!({"role": "assistant", "content": "```bash\nls\n```\nThis lists the files."}));
    assert!(!feed.take_steps()[0].has_calls());
}
