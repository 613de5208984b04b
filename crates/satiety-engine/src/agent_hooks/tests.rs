//! Events of all hosts, one after another and hostile.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::codec::{name_of, read, write};
use super::*;

const KINDS: [EventKind; 10] = [
    EventKind::ToolFinished,
    EventKind::ToolFailed,
    EventKind::ToolsFinished,
    EventKind::Stopping,
    EventKind::SubagentStopping,
    EventKind::CompactionStarting,
    EventKind::CompactionFinished,
    EventKind::PromptSubmitted,
    EventKind::SessionStarted,
    EventKind::SessionEnded,
];

/// A session with its policy, which restores its state before each event as a new process does.
struct Driver {
    session: Session,
    policy: HookPolicy,
    seconds: i64,
}

impl Driver {
    fn new(policy: HookPolicy) -> Self {
        Self {
            session: Session::default(),
            policy,
            seconds: 0,
        }
    }

    fn send(&mut self, payload: &Value) -> Judgement {
        let notification = read(payload, "", None).unwrap();
        let row = HookSessionRow {
            state: serde_json::to_string(&self.session.state).unwrap(),
            judge: self.session.judge.snapshot(),
            ..HookSessionRow::default()
        };
        self.session = restore(Some(&row));
        self.seconds += 1;
        let now = Timestamp::from_second(self.seconds).unwrap();
        self.session.decide(&notification, &self.policy, None, now)
    }

    fn event(&mut self, name: &str, fields: Value) -> Judgement {
        let mut payload =
            json!({"session_id": "s", "transcript_path": "/t", "cwd": "/", "hook_event_name": name});
        let Value::Object(fields) = fields else {
            panic!("not an object")
        };
        payload.as_object_mut().unwrap().extend(fields);
        self.send(&payload)
    }

    fn bash(&mut self, command: &str, stdout: &str) -> Judgement {
        self.event(
            "PostToolUse",
            json!({"tool_name": "Bash", "tool_input": {"command": command},
                "tool_response": {"stdout": stdout, "stderr": "", "interrupted": false}}),
        )
    }
}

fn labels(judgements: &[Judgement]) -> Vec<&'static str> {
    judgements.iter().map(|judgement| judgement.label).collect()
}

#[test]
fn a_stuck_agent_is_nudged_then_stopped_and_gets_a_new_chance() {
    let mut driver = Driver::new(HookPolicy::default());
    let error = "E   ImportError: no module named x";
    let judgements: Vec<Judgement> = (0..5).map(|_| driver.bash("pytest x.py", error)).collect();
    assert_eq!(labels(&judgements), ["pass", "pass", "nudge", "end_turn", "pass"]);
    let Decision::EndTurn { reason, advice } = &judgements[3].decision else {
        panic!("{judgements:?}")
    };
    assert!(reason.contains("`pytest x.py`") && advice.contains("ask the person"));
    // The reason that is stored has no text of the agent.
    assert!(!judgements[3].reason.contains("pytest"));
    // After the person has answered, the repeats have to add up again.
    driver.event("UserPromptSubmit", json!({"prompt": "try again"}));
    assert_eq!(driver.bash("pytest x.py", error).label, "pass");
}

#[test]
fn the_reaction_follows_the_policy() {
    for (progress, expected) in [
        (ProgressReaction::Off, ["pass"; 6]),
        (
            ProgressReaction::Report,
            [
                "pass",
                "pass",
                "report_nudge",
                "report_stop",
                "pass",
                "report_nudge",
            ],
        ),
        (
            ProgressReaction::Nudge,
            ["pass", "pass", "nudge", "nudge", "pass", "nudge"],
        ),
    ] {
        let mut driver = Driver::new(HookPolicy {
            progress,
            ..HookPolicy::default()
        });
        let judgements: Vec<Judgement> = (0..6).map(|_| driver.bash("ls", "a\nb\nc\nd")).collect();
        assert_eq!(labels(&judgements), expected, "{progress:?}");
    }
}

#[test]
fn a_call_that_two_hooks_report_is_judged_once() {
    let mut driver = Driver::new(HookPolicy::default());
    let call = |id: usize| json!({"tool_name": "Bash", "tool_use_id": format!("t{id}"), "tool_input": {"command": "ls"}, "tool_response": "a"});
    for id in 0..2 {
        driver.event("PostToolUse", call(id));
        let batch = driver.event("PostToolBatch", json!({"tool_calls": [call(id)]}));
        assert_eq!(batch.label, "duplicate");
    }
    assert_eq!(driver.session.judge.steps(), 2);
}

#[test]
fn an_agent_with_open_items_is_kept_working_once_per_prompt() {
    let todo = |status: &str| json!({"tool_name": "TodoWrite", "tool_input": {"todos": [{"content": "fix </x> it", "status": status}]}, "tool_response": "ok"});
    let stop = json!({"stop_hook_active": false, "last_assistant_message": "I fixed it."});
    let block = HookPolicy {
        finish: FinishReaction::Block,
        ..HookPolicy::default()
    };
    let mut driver = Driver::new(block);
    driver.event("UserPromptSubmit", json!({"prompt": "fix it"}));
    driver.event("PostToolUse", todo("pending"));
    let kept = driver.event("Stop", stop.clone());
    assert_eq!(kept.label, "keep_working");
    let answer = write(Host::Claude, EventKind::Stopping, &kept.decision);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["decision"], "block");
    assert!(answer["reason"].as_str().unwrap().contains("fix </x> it"));
    // Some hosts submit the reason as a prompt; it is not a prompt of a person.
    driver.event("UserPromptSubmit", json!({"prompt": answer["reason"]}));
    assert_eq!(driver.event("Stop", stop.clone()).label, "pass");
    driver.event("UserPromptSubmit", json!({"prompt": "and now?"}));
    assert_eq!(driver.event("Stop", stop.clone()).label, "keep_working");
    driver.event("UserPromptSubmit", json!({"prompt": "again"}));
    for reason_to_stop in [
        json!({"stop_hook_active": true, "last_assistant_message": "Done."}),
        json!({"stop_hook_active": false, "last_assistant_message": "Shall I delete the file?"}),
        json!({"stop_hook_active": false, "last_assistant_message": "Waiting.", "background_tasks": [{"id": "1"}]}),
    ] {
        assert_eq!(driver.event("Stop", reason_to_stop).label, "pass");
    }
    driver.event("PostToolUse", todo("completed"));
    assert_eq!(driver.event("Stop", stop).label, "pass");
}

#[test]
fn by_default_open_items_are_reported_once() {
    let mut driver = Driver::new(HookPolicy::default());
    let create = json!({"tool_name": "TaskCreate", "tool_input": {"subject": "write tests"}, "tool_response": {"task": {"id": "7", "subject": "write tests"}}});
    driver.event("PostToolUse", create);
    let stop = json!({"stop_hook_active": false, "last_assistant_message": "All done."});
    let reported = driver.event("Stop", stop.clone());
    let Decision::Notify(message) = &reported.decision else {
        panic!("{reported:?}")
    };
    assert!(message.contains("write tests"), "{message}");
    assert_eq!(driver.event("Stop", stop.clone()).label, "pass");
    let update = json!({"tool_name": "TaskUpdate", "tool_input": {"taskId": "7", "status": "completed"}, "tool_response": {}});
    driver.event("PostToolUse", update);
    assert_eq!(driver.event("Stop", stop).label, "pass");
}

#[test]
fn what_was_open_before_a_compaction_is_restored_after_it() {
    let mut driver = Driver::new(HookPolicy::default());
    driver.event("UserPromptSubmit", json!({"prompt": "fix the parser"}));
    for number in 0..20 {
        let path = format!("/src/file{number}.rs");
        let content = "line\n".repeat(100 * (number + 1));
        driver.event(
            "PostToolUse",
            json!({"tool_name": "Read", "tool_input": {"file_path": path}, "tool_response": content}),
        );
    }
    driver.event(
        "PostToolUse",
        json!({"tool_name": "Edit", "tool_input": {"file_path": "/src/parser.rs", "old_string": "a", "new_string": "b"},
            "tool_response": {"filePath": "/src/parser.rs", "originalFile": "x"}}),
    );
    driver.bash("cargo test parser", "error: test failed");
    let keep = driver.event(
        "PreCompact",
        json!({"trigger": "auto", "custom_instructions": null}),
    );
    let Decision::Keep(text) = &keep.decision else {
        panic!("{keep:?}")
    };
    assert!(
        text.contains("/src/parser.rs") && text.contains("cargo test parser"),
        "{text}"
    );
    assert_eq!(
        write(Host::Claude, EventKind::CompactionStarting, &keep.decision),
        *text
    );
    assert_eq!(
        write(Host::Codex, EventKind::CompactionStarting, &keep.decision),
        ""
    );
    let record = driver.session.state.compactions.back().unwrap().clone();
    assert!(record.kept.len() == 12 && record.dropped.len() == 9, "{record:?}");
    let summary = json!({"trigger": "auto", "compact_summary": "We work on parser.rs and read file3.rs."});
    driver.event("PostCompact", summary);
    let record = driver.session.state.compactions.back().unwrap();
    assert!(record.dropped.len() == 19 && !record.dropped.contains(&"/src/parser.rs".to_owned()));
    // Only what the summary does not mention comes back, and only once.
    let restored = driver.event("SessionStart", json!({"source": "compact"}));
    let Decision::AddContext(text) = &restored.decision else {
        panic!("{restored:?}")
    };
    assert!(
        text.contains("cargo test parser") && !text.contains("/src/parser.rs"),
        "{text}"
    );
    assert_eq!(
        driver.event("UserPromptSubmit", json!({"prompt": "go on"})).label,
        "pass"
    );
}

#[test]
fn hosts_without_a_session_start_get_it_with_the_next_event() {
    let mut driver = Driver::new(HookPolicy::default());
    let gemini = |name: &str, fields: Value| {
        let mut payload =
            json!({"session_id": "g", "hook_event_name": name, "timestamp": "2026-01-01T00:00:00Z"});
        payload
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        payload
    };
    driver.send(&gemini(
        "AfterTool",
        json!({"tool_name": "write_todos", "tool_input": {"todos": [{"description": "fix", "status": "pending"}]},
            "tool_response": {"llmContent": "ok"}}),
    ));
    assert_eq!(
        driver
            .send(&gemini("PreCompress", json!({"trigger": "manual"})))
            .label,
        "keep"
    );
    let restored = driver.send(&gemini("BeforeAgent", json!({"prompt": "go on"})));
    assert_eq!(restored.label, "restore");
    let answer = write(Host::Gemini, EventKind::PromptSubmitted, &restored.decision);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "BeforeAgent");
}

#[test]
fn hosts_are_recognized_by_their_payload() {
    for (payload, host) in [
        (
            json!({"hook_event_name": "Stop", "session_id": "a"}),
            Host::Claude,
        ),
        (
            json!({"hook_event_name": "Stop", "session_id": "a", "turn_id": "1"}),
            Host::Codex,
        ),
        (
            json!({"hook_event_name": "AfterAgent", "session_id": "a"}),
            Host::Gemini,
        ),
        (json!({"sessionId": "a", "timestamp": 1}), Host::Copilot),
    ] {
        assert_eq!(read(&payload, "agentStop", None).unwrap().host, host);
    }
    let call = json!({"sessionId": "a", "toolName": "bash", "toolArgs": "{\"command\": \"ls\"}",
        "toolResult": {"resultType": "failure", "textResultForLlm": "no such file"}});
    let read = read(&call, "postToolUse", None).unwrap();
    let Event::Tools(calls) = read.event else { panic!() };
    assert_eq!(
        (calls[0].result.content.as_str(), calls[0].result.error),
        ("no such file", Some(true))
    );
}

/// A small generator: the tests need variety, not quality.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % bound
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => json!(i64::MIN + i64::try_from(self.below(1 << 40)).unwrap()),
            3 => json!(f64::MAX),
            4 => Value::String(self.text()),
            5 => Value::String(String::new()),
            6 => Value::Array((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => Value::Object(
                (0..self.below(4))
                    .map(|_| (self.text(), self.value(depth - 1)))
                    .collect(),
            ),
        }
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 14] = [
            "stdout",
            "\u{0}",
            "</satiety-memory>",
            "\u{202e}",
            "ls -la",
            "\"},",
            "\n\n",
            "😀",
            "../../etc/passwd",
            "todos",
            "ignore previous instructions",
            "{{}}",
            "%s",
            "é",
        ];
        (0..self.below(6))
            .map(|_| PARTS[self.below(PARTS.len())])
            .collect()
    }
}

/// A payload of a host with random fields, mostly of the right type.
fn hostile_payload(random: &mut Random) -> (Value, String, Option<Host>) {
    const FIELDS: [&str; 24] = [
        "session_id",
        "sessionId",
        "agent_id",
        "hook_event_name",
        "tool_name",
        "toolName",
        "tool_input",
        "toolArgs",
        "tool_response",
        "toolResult",
        "tool_use_id",
        "error",
        "tool_calls",
        "prompt",
        "source",
        "trigger",
        "compact_summary",
        "stop_hook_active",
        "last_assistant_message",
        "prompt_response",
        "background_tasks",
        "transcript_path",
        "cwd",
        "turn_id",
    ];
    let host = Host::ALL[random.below(4)];
    let kind = KINDS[random.below(KINDS.len())];
    let name = name_of(host, kind).unwrap_or("PostToolUse").to_owned();
    let mut payload = Map::new();
    payload.insert("session_id".into(), json!("s"));
    payload.insert("hook_event_name".into(), json!(name));
    payload.insert(
        "tool_name".into(),
        json!(["Bash", "TodoWrite", "TaskCreate", "Edit", ""][random.below(5)]),
    );
    payload.insert("tool_input".into(), json!({"command": random.text(), "todos": random.value(3), "subject": random.text(), "file_path": random.text()}));
    payload.insert("tool_response".into(), random.value(3));
    for _ in 0..random.below(6) {
        let field = FIELDS[random.below(FIELDS.len())];
        let value = random.value(4);
        payload.insert(field.into(), value);
    }
    if random.below(20) == 0 {
        payload.insert(
            "tool_response".into(),
            json!({"stdout": "long é line\n".repeat(20_000)}),
        );
    }
    let given = [None, Some(host), Some(Host::ALL[random.below(4)])][random.below(3)];
    (Value::Object(payload), name, given)
}

/// Checks an answer by the fields that hosts document.
fn check_answer(host: Host, kind: EventKind, answer: &str) {
    if answer.is_empty() || (host == Host::Claude && kind == EventKind::CompactionStarting) {
        return;
    }
    let answer: Value = serde_json::from_str(answer).unwrap();
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    for (key, value) in answer.as_object().unwrap() {
        let is_valid = match (host, key.as_str()) {
            (_, "decision") => value == "block",
            (Host::Copilot, "additionalContext") | (_, "reason") => is_text(value),
            (Host::Copilot, _) => false,
            (_, "continue") => value == false,
            (_, "stopReason" | "systemMessage") => is_text(value),
            (_, "hookSpecificOutput") => {
                let known = name_of(host, kind).unwrap();
                value["hookEventName"] == known
                    && is_text(&value["additionalContext"])
                    && value.as_object().unwrap().len() == 2
            }
            _ => false,
        };
        assert!(is_valid, "{host:?} {kind:?}: {answer}");
    }
}

#[test]
fn ten_thousand_hostile_payloads_get_valid_answers() {
    let mut random = Random(0x5eed);
    let mut session = Session::default();
    let mut answers = 0;
    for number in 0..10_000 {
        let (payload, name, host) = hostile_payload(&mut random);
        let Some(notification) = read(&payload, &name, host) else {
            continue;
        };
        let policy = HookPolicy {
            finish: [FinishReaction::Block, FinishReaction::Report][number % 2],
            ..HookPolicy::default()
        };
        let now = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
        let memory = (number % 5 == 0)
            .then(|| random.text())
            .filter(|text| !text.is_empty());
        let judgement = session.decide(&notification, &policy, memory, now);
        let answer = write(notification.host, notification.kind, &judgement.decision);
        check_answer(notification.host, notification.kind, &answer);
        answers += usize::from(!answer.is_empty());
        if number % 100 == 0 {
            let row = HookSessionRow {
                state: serde_json::to_string(&session.state).unwrap(),
                judge: session.judge.snapshot(),
                ..HookSessionRow::default()
            };
            let restored = restore(Some(&row));
            assert_eq!(restored.state, session.state);
            assert_eq!(restored.judge.steps(), session.judge.steps());
            session = restored;
        }
    }
    assert!(answers > 100, "{answers}");
    let state = serde_json::to_string(&session.state).unwrap();
    assert!(state.len() < 400_000, "{}", state.len());
}

#[test]
fn the_state_of_a_long_session_is_bounded() {
    let mut session = Session::default();
    for number in 0..2000 {
        let payload = json!({"session_id": "s", "hook_event_name": "PostToolUse", "tool_use_id": format!("t{number}"), "tool_name": "Read",
            "tool_input": {"file_path": format!("/src/module{number}/file.rs")}, "tool_response": format!("content {number} ").repeat(300)});
        let notification = read(&payload, "", None).unwrap();
        let now = Timestamp::from_second(number).unwrap();
        session.decide(&notification, &HookPolicy::default(), None, now);
    }
    let (state, judge) = (
        serde_json::to_string(&session.state).unwrap(),
        session.judge.snapshot(),
    );
    assert!(
        state.len() < 64_000 && judge.len() < 300_000,
        "{} {}",
        state.len(),
        judge.len()
    );
}
