//! Every input format, and the ways in which files can be broken.

use super::*;

const AUTO: ReadOptions = ReadOptions {
    format: None,
    growing: false,
};
const GROWING: ReadOptions = ReadOptions {
    format: None,
    growing: true,
};

fn parsed(text: &str) -> Input<Transcript> {
    parse(text.as_bytes(), AUTO).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn error(text: &str) -> String {
    parse(text.as_bytes(), AUTO).unwrap_err().to_string()
}

/// Agent, claims, questions and actions of every round as text, for comparison.
fn shape(transcript: &Transcript) -> Vec<String> {
    transcript
        .rounds
        .iter()
        .map(|round| {
            let claims: Vec<&str> = round
                .outputs
                .claims
                .iter()
                .map(|claim| claim.text.as_str())
                .collect();
            format!(
                "{} {}: {claims:?} {:?} {:?}",
                round.round,
                round.agent.as_deref().unwrap_or("-"),
                round.outputs.open_questions,
                round.outputs.next_actions
            )
        })
        .collect()
}

#[test]
fn a_transcript_is_preserved() {
    let input = parsed(
        r#"{"version":"0.1","rounds":[{"round":2,"outputs":{"claims":["b"]}},{"round":1,"agent":"x"}],"k":1}"#,
    );
    assert_eq!(input.format, InputFormat::Transcript);
    assert_eq!(input.content.extra["k"], 1);
    assert_eq!(
        shape(&input.content),
        ["1 x: [] [] []", r#"2 -: ["b"] [] []"#],
        "rounds are put in order"
    );
}

#[test]
fn rounds_that_share_a_number_keep_their_order() {
    let input =
        parsed(r#"{"rounds":[{"round":2,"agent":"a"},{"round":1,"agent":"b"},{"round":2,"agent":"c"}]}"#);
    let agents: Vec<_> = input
        .content
        .rounds
        .iter()
        .filter_map(|round| round.agent.as_deref())
        .collect();
    assert_eq!(agents, ["a", "b", "c"]);
}

#[test]
fn a_trace_ignores_what_it_does_not_know() {
    let input = parsed(
        "\u{feff}{\"type\":\"transcript_header\",\"version\":\"0.1\",\"topic\":\"t\",\"x\":2}\r\n\r\n\
         {\"type\":\"note\",\"text\":\"?\"}\r\n{\"type\":\"round\",\"round\":1,\"outputs\":{\"claims\":[\"a\"]}}\r\n",
    );
    assert_eq!(input.format, InputFormat::Trace);
    assert_eq!(input.content.topic.as_deref(), Some("t"));
    assert_eq!(input.content.extra["x"], 2);
    assert_eq!(shape(&input.content), [r#"1 -: ["a"] [] []"#]);
    assert!(!input.content.rounds[0].extra.contains_key("type"));
}

#[test]
fn chat_logs_in_both_interfaces_shapes() {
    let openai = parsed(
        r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"How do we speed it up?"},
        {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"search","arguments":"{}"}}]},
        {"role":"tool","content":"The result is long."},
        {"role":"assistant","content":"An index helps a lot. Add it on Friday."}]}"#,
    );
    assert_eq!(openai.format, InputFormat::Chat);
    assert_eq!(
        shape(&openai.content),
        [r#"1 assistant: ["An index helps a lot."] [] ["Add it on Friday."]"#]
    );
    assert_eq!(
        openai.content.rounds[0].inputs.extra["user"][0],
        "How do we speed it up?"
    );
    assert_eq!(
        openai.content.rounds[0].telemetry.extra["tool_calls"][0],
        "search"
    );

    let anthropic = parsed(
        r#"[{"role":"user","content":[{"type":"text","text":"Go on."}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hidden words stay hidden"},
        {"type":"text","text":"The queue is full."},{"type":"tool_use","name":"run","input":{"x":1}}]},
        {"role":"user","content":[{"type":"tool_result","content":"a result is not said"}]}]"#,
    );
    assert_eq!(
        shape(&anthropic.content),
        [r#"1 assistant: ["The queue is full."] [] []"#]
    );
}

#[test]
fn named_speakers_each_have_their_rounds() {
    let input = parsed(
        "{\"role\":\"user\",\"name\":\"critic\",\"content\":\"The plan ignores rollback.\"}\n\
         {\"role\":\"assistant\",\"name\":\"writer\",\"content\":\"Rollback takes two minutes.\"}\n\
         {\"role\":\"reviewer\",\"content\":\"Who tests it?\"}\n",
    );
    assert_eq!(
        shape(&input.content),
        [
            r#"1 critic: ["The plan ignores rollback."] [] []"#,
            r#"2 writer: ["Rollback takes two minutes."] [] []"#,
            r#"3 reviewer: [] ["Who tests it?"] []"#,
        ]
    );
}

#[test]
fn session_logs_of_coding_agents() {
    let first = parsed(concat!(
        r#"{"type":"summary","summary":"Fix the parser","leafUuid":"u"}"#,
        "\n",
        r#"{"type":"file-history-snapshot","snapshot":{}}"#,
        "\n",
        r#"{"type":"user","sessionId":"s1","uuid":"1","message":{"role":"user","content":"Fix it."},"timestamp":"2026-01-01T00:00:00Z"}"#,
        "\n",
        r#"{"type":"assistant","uuid":"2","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"The parser drops tabs."}]}}"#,
        "\n",
        r#"{"type":"assistant","uuid":"3","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","name":"TodoWrite","input":{"todos":[{"content":"Add a test","status":"pending"},{"content":"Read code","status":"completed"}]}}]}}"#,
        "\n",
        r#"{"type":"user","uuid":"4","message":{"role":"user","content":[{"type":"tool_result","content":"ok"}]}}"#,
        "\n",
        r#"{"type":"assistant","uuid":"5","isSidechain":true,"agentId":"a7","message":{"id":"m2","role":"assistant","content":"Tabs are dropped in lex.rs."}}"#,
        "\n",
    ));
    assert_eq!(first.format, InputFormat::AgentLog);
    assert_eq!(first.content.topic.as_deref(), Some("Fix the parser"));
    assert_eq!(first.content.conversation_id.as_deref(), Some("s1"));
    assert_eq!(
        shape(&first.content),
        [
            r#"1 assistant: ["The parser drops tabs."] [] ["Add a test"]"#,
            r#"2 a7: ["Tabs are dropped in lex.rs."] [] []"#,
        ]
    );

    let second = parsed(concat!(
        r#"{"timestamp":"t","type":"session_meta","payload":{"id":"c1"}}"#,
        "\n",
        r#"{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>..."}]}}"#,
        "\n",
        r#"{"timestamp":"t","type":"event_msg","payload":{"type":"agent_message","message":"The build is green now."}}"#,
        "\n",
        r#"{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"update_plan","arguments":"{\"plan\":[{\"step\":\"Ship it\",\"status\":\"pending\"}]}"}}"#,
        "\n",
        r#"{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"The build is green now."}]}}"#,
        "\n",
    ));
    assert_eq!(second.content.conversation_id.as_deref(), Some("c1"));
    assert_eq!(
        shape(&second.content),
        [
            r#"1 assistant: [] [] ["Ship it"]"#,
            r#"2 assistant: ["The build is green now."] [] []"#,
        ],
        "a message logged twice counts once"
    );
}

#[test]
fn events_count_where_there_are_no_items() {
    let log = parsed(concat!(
        r#"{"type":"event_msg","payload":{"type":"user_message","message":"Why?"}}"#,
        "\n",
        r#"{"type":"event_msg","payload":{"type":"agent_message","message":"The disk is full."}}"#,
        "\n",
    ));
    assert_eq!(
        shape(&log.content),
        [r#"1 assistant: ["The disk is full."] [] []"#]
    );
}

#[test]
fn errors_name_line_and_field() {
    let rounds = r#"{"rounds":[{"round":1},
        {"round":2,"outputs":{"claims":["a","b",3]}}]}"#;
    assert_eq!(
        error(rounds),
        "line 2: rounds[1].outputs.claims[2]: expected a claim: a string, or an object with `text` and optionally \
         `agent`, found integer `3`"
    );
    assert_eq!(
        error("{\"type\":\"transcript_header\"}\n{\"type\":\"round\",\"round\":\"one\"}\n"),
        "line 2: round: expected a whole number from 0 to 4294967295, found string \"one\""
    );
    assert_eq!(
        error(
            r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":5}]}]}"#
        ),
        "line 1: messages[1].content[0].text: expected a string, found a number"
    );
    assert_eq!(
        error("{\"role\":\"user\",\"content\":\"a\"}\n7\n"),
        "line 2: the line: expected a message with `role` and `content`, found a number"
    );
    assert_eq!(
        error("{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":true}}\n"),
        "line 1: message.content: expected a string or a list of parts, found a boolean"
    );
    assert_eq!(
        error(r#"{"rounds":7}"#),
        "line 1: rounds: expected a list, found integer `7`"
    );
    assert_eq!(
        error("{\"rounds\":[\n{]}"),
        "line 2, column 2: key must be a string"
    );
    assert_eq!(error(" \n "), "the input is empty");
    assert!(
        error(r#"{"turns":[]}"#).contains("found an object with `turns` (expected"),
        "{}",
        error(r#"{"turns":[]}"#)
    );
    assert!(error("[1,2]").contains("found a list that begins with a number (expected"));
    assert_eq!(
        parse(b"ab\n\xff", AUTO).unwrap_err(),
        InputError::NotUtf8 { line: 2 }
    );
}

#[test]
fn a_growing_file_may_end_in_the_middle() {
    let whole = "{\"type\":\"transcript_header\"}\n{\"type\":\"round\",\"round\":1}\n";
    let cut = format!("{whole}{{\"type\":\"round\",\"outputs\":{{\"claims\":[\"ä");
    let input = parse(cut.as_bytes(), GROWING).unwrap();
    assert_eq!(input.incomplete_line, Some(3));
    assert_eq!(input.content.rounds.len(), 1);
    // In the middle of a character.
    let input = parse(&cut.as_bytes()[..cut.len() - 1], GROWING).unwrap();
    assert_eq!(input.incomplete_line, Some(3));
    assert!(
        parse(cut.as_bytes(), AUTO).is_err(),
        "a finished file must be whole"
    );
    // A complete last line counts even without a line end.
    assert_eq!(
        parse(whole.trim_end().as_bytes(), GROWING)
            .unwrap()
            .content
            .rounds
            .len(),
        1
    );
}

#[test]
fn hostile_nesting_and_numbers_are_errors() {
    let deep = format!(
        "{{\"rounds\":[],\"x\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
    let deep_line = format!("{{\"role\":\"user\",\"content\":{}", "{\"a\":".repeat(50_000));
    assert!(parse(deep_line.as_bytes(), AUTO).is_err());
    assert!(error(r#"{"rounds":[{"round":1e999}]}"#).contains("number out of range"));
    assert!(error(r#"{"rounds":[{"round":99999999999}]}"#).contains("rounds[0].round"));
    assert!(error(r#"{"rounds":[{"round":-1}]}"#).contains("rounds[0].round"));
}

#[test]
fn an_explicit_format_disables_detection() {
    let forced = |format| ReadOptions {
        format: Some(format),
        growing: false,
    };
    let text = br#"{"role":"user","content":"a"}"#;
    assert!(parse(text, forced(InputFormat::Transcript)).is_err());
    assert_eq!(
        parse(text, forced(InputFormat::Trace))
            .unwrap()
            .content
            .rounds
            .len(),
        0
    );
}

/// Runs the seed corpus and all findings of the fuzzers through every parser.
#[test]
fn the_kept_corpus_passes_without_a_panic() {
    let corpus: [&[u8]; 12] = [
        include_bytes!("../../../../../fuzz/corpus-seeds/transcript/whole.json"),
        include_bytes!("../../../../../fuzz/corpus-seeds/transcript/wrong-number.json"),
        include_bytes!("../../../../../fuzz/corpus-seeds/transcript/byte-order-mark.json"),
        include_bytes!("../../../../../fuzz/corpus-seeds/transcript/chat.json"),
        include_bytes!("../../../../../fuzz/corpus-seeds/trace/whole.jsonl"),
        include_bytes!("../../../../../fuzz/corpus-seeds/trace/no-line-end.jsonl"),
        include_bytes!("../../../../../fuzz/corpus-seeds/trace/cut.jsonl"),
        include_bytes!("../../../../../fuzz/corpus-seeds/chat_log/openai.json"),
        include_bytes!("../../../../../fuzz/corpus-seeds/chat_log/lines.jsonl"),
        include_bytes!("../../../../../fuzz/corpus-seeds/chat_log/session.jsonl"),
        include_bytes!("../../../../../fuzz/corpus-seeds/chat_log/items.jsonl"),
        include_bytes!("../../../../../fuzz/corpus-seeds/sentences/markdown.md"),
    ];
    let formats = [
        InputFormat::Transcript,
        InputFormat::Trace,
        InputFormat::Chat,
        InputFormat::AgentLog,
    ];
    let formats: Vec<Option<InputFormat>> = std::iter::once(None).chain(formats.map(Some)).collect();
    let mut read = 0;
    for bytes in corpus {
        // Truncate at every position, too: files may be read while they are written.
        for end in 0..=bytes.len() {
            for format in &formats {
                for growing in [false, true] {
                    read += usize::from(
                        parse(
                            &bytes[..end],
                            ReadOptions {
                                format: *format,
                                growing,
                            },
                        )
                        .is_ok(),
                    );
                }
            }
        }
    }
    assert!(read > 100, "the corpus has files that can be read: {read}");
}
