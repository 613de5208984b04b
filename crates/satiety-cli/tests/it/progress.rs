//! `satiety progress`, and `score`, `watch` and `sweep` on logs of agents at work.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::bench_more::archive;
use crate::support::{Place, example, json_of};

/// A chat log in which an agent runs each command and gets each result.
fn chat_log(steps: &[(&str, &str)]) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": "Make the build pass."})];
    for (number, (command, result)) in steps.iter().enumerate() {
        let id = format!("call_{number}");
        messages.push(
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": "bash", "arguments": json!({"command": command}).to_string()}}]}),
        );
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
    }
    messages
}

fn lines(messages: &[Value]) -> String {
    let lines: Vec<String> = messages.iter().map(ToString::to_string).collect();
    lines.join("\n") + "\n"
}

const FAILING: (&str, &str) = ("make", "make: *** No rule to make target 'all'.  Stop.");

#[test]
fn help_and_reports() {
    let place = Place::new();
    let run = |arguments: &[&str]| place.run(arguments).replace(&example(""), "[examples]/");
    let looping = example("progress/looping.jsonl");
    let working = example("progress/working.jsonl");
    let runs = example("progress/runs.jsonl");
    assert_snapshot!("progress_help", run(&["progress", "-h"]));
    assert_snapshot!("looping", run(&["progress", &looping]));
    assert_snapshot!("looping_steps", run(&["progress", &looping, "--at-every-step"]));
    assert_snapshot!(
        "looping_markdown",
        run(&["progress", &looping, "--format", "markdown"])
    );
    assert_snapshot!("working", run(&["progress", &working]));
    assert_snapshot!("runs", run(&["progress", &runs]));
    assert_snapshot!("one_run", run(&["progress", &runs, "--run", "unsolved-3"]));
    assert_snapshot!("work_sweep", run(&["sweep", &runs]));
    let page = run(&["progress", &looping, "--format", "html"]);
    assert!(page.starts_with("exit 0") && page.contains("<svg"), "{page}");
    let table = run(&["progress", &looping, "--format", "csv"]);
    assert!(
        table.contains("step,signal,level,confidence,expected_waste"),
        "{table}"
    );
}

#[test]
fn every_sample_of_a_packed_inspect_log_is_a_run() {
    let place = Place::new();
    let sample = |id: &str, steps: &[(&str, &str)]| {
        let sample =
            json!({"id": id, "epoch": 1, "input": "Make the build pass.", "messages": chat_log(steps)});
        serde_json::to_string_pretty(&sample).unwrap()
    };
    let looping = sample("looping", &[FAILING; 6]);
    let working = sample(
        "working",
        &[
            ("ls", "Makefile"),
            ("cat Makefile", "all: x"),
            ("make x", "cc x.c"),
        ],
    );
    let members = [
        ("header.json", "{\"version\": 2, \"eval\": {}}"),
        ("samples/2_epoch_1.json", "{\"damaged\": "),
        ("samples/0_epoch_1.json", &looping),
        ("samples/1_epoch_1.json", &working),
    ];
    archive(&place, "log.eval", zip::CompressionMethod::Zstd, &members);
    let report = json_of(&place, &["progress", "log.eval", "--format", "json"]);
    let runs: Vec<_> = report["runs"].as_array().unwrap().iter().collect();
    let stops = |run: &Value| run["first_stop_step"].is_number();
    assert_eq!(runs.len(), 2, "{report}");
    assert!(stops(runs[0]) && !stops(runs[1]), "{report}");
    assert_eq!(report["skipped"]["count"], 1, "{report}");
    place.write("cut.eval", "PK\u{3}\u{4} and nothing else");
    let text = place.run(&["progress", "cut.eval"]);
    assert!(text.contains("exit 2") && text.contains("cut.eval"), "{text}");
}

#[test]
fn the_json_of_one_run_has_its_report_at_the_top() {
    let place = Place::new();
    let report = json_of(
        &place,
        &["progress", &example("progress/looping.jsonl"), "--format", "json"],
    );
    for key in [
        "format",
        "skipped",
        "kind",
        "signal",
        "reason",
        "signal_by_step",
        "first_nudge_step",
        "first_stop_step",
        "confidence",
        "expected_waste",
        "expected_waste_tokens",
        "wasted_steps",
        "open_ends",
        "tools",
        "profile",
        "steps",
    ] {
        assert!(report.get(key).is_some(), "no `{key}`");
    }
    assert_eq!(report["kind"], "work");
    assert!(report.get("runs").is_none() && report.get("judge").is_none());
    let several = json_of(
        &place,
        &["progress", &example("progress/runs.jsonl"), "--format", "json"],
    );
    assert_eq!(several["runs"].as_array().unwrap().len(), 13);
    assert!(several["runs"][0]["signal_by_step"].is_array());
    let one = json_of(
        &place,
        &[
            "progress",
            &example("progress/runs.jsonl"),
            "--run",
            "13",
            "--format",
            "json",
        ],
    );
    assert_eq!(one["id"], "unsolved-5");
}

#[test]
fn exit_codes_report_the_signal_on_request() {
    let place = Place::new();
    let stagnating: Vec<_> = (0..12).map(|_| ("ls", "a.c\nb.c\nc.c\nd.c")).collect();
    let nudged: Vec<_> = (0..3).map(|_| FAILING).collect();
    for (name, steps, code) in [
        ("failing.jsonl", vec![FAILING; 12], 12),
        ("stagnating.jsonl", stagnating, 11),
        ("nudged.jsonl", nudged, 0),
    ] {
        place.write(name, &lines(&chat_log(&steps)));
        for command in ["progress", "score"] {
            let exit = |arguments: &[&str]| place.command(arguments).status().unwrap().code();
            assert_eq!(
                exit(&[command, name, "--exit-code", "--quiet"]),
                Some(code),
                "{command} {name}"
            );
            assert_eq!(exit(&[command, name, "--quiet"]), Some(0), "{command} {name}");
        }
    }
    let working = example("progress/working.jsonl");
    let status = place
        .command(&["progress", &working, "--exit-code", "--quiet"])
        .status();
    assert_eq!(status.unwrap().code(), Some(10));
}

#[test]
fn standard_input_is_read() {
    let place = Place::new();
    let file = fs_err::File::open(example("progress/looping.jsonl")).unwrap();
    let output = place
        .command(&["progress", "-", "--format", "json"])
        .stdin(file.into_parts().0)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["signal"], "ESCALATE");
}

#[test]
fn bad_input_names_the_file_and_the_reason() {
    let place = Place::new();
    place.write("empty.jsonl", " \n");
    place.write("text.log", "INFO agent started\nINFO agent stopped\n");
    place.write("other.json", "{\"hello\": \"world\"}");
    place.write("results.json", "[{\"role\": \"tool\", \"content\": \"ok\"}]");
    place.write("wrong.toml", "[decision]\nstop = 0.1\n");
    place.write("discussion.json", &json!([
        {"role": "user", "content": "Which database should we use?"},
        {"role": "assistant", "content": "SQLite is enough for one writer. PostgreSQL is better for several."},
    ]).to_string());
    fs_err::write(
        place.path("binary.bin"),
        [0x7f, b'E', b'L', b'F', 0, 0xff, 0xfe, b'\n', 0],
    )
    .unwrap();
    let looping = example("progress/looping.jsonl");
    let runs = example("progress/runs.jsonl");
    let mut story = String::new();
    for arguments in [
        &["progress", "missing.jsonl"][..],
        &["progress", "empty.jsonl"],
        &["progress", "text.log"],
        &["progress", "binary.bin"],
        &["progress", "other.json"],
        &["progress", "results.json"],
        &["progress", "discussion.json"],
        &["progress", &looping, "--profile", "wrong.toml"],
        &["progress", &runs, "--run", "14"],
        &["score", "results.json"],
        &["sweep", &looping],
        &["sweep", &runs, "--stop", "0"],
    ] {
        let shown = place.run(arguments).replace(&example(""), "[examples]/");
        let line = arguments.join(" ").replace(&example(""), "[examples]/");
        story.extend(["$ satiety ", &line, "\n", &shown, "\n\n"]);
    }
    assert_snapshot!(story);
    let unknown = place.run(&["progress", &looping, "--input", "csv"]);
    assert!(
        unknown.starts_with("exit 2") && unknown.contains("chat") && unknown.contains("steps"),
        "{unknown}"
    );
}

#[test]
fn an_odd_line_is_skipped_and_reported() {
    let place = Place::new();
    let mut messages = lines(&chat_log(&[FAILING; 12]));
    messages.push_str("{\"role\": \"assis");
    let middle = messages.find('\n').unwrap();
    messages.insert_str(middle + 1, "Segmentation fault\n");
    place.write("odd.jsonl", &messages);
    let shown = place.run(&["progress", "odd.jsonl"]);
    assert!(
        shown.contains("2 records of the log skipped; the first in line 2: invalid JSON"),
        "{shown}"
    );
    let report = json_of(&place, &["score", "odd.jsonl", "--format", "json"]);
    assert_eq!(report["skipped"]["count"], 2);
    assert_eq!(report["signal"], "ESCALATE");
}

#[test]
fn score_chooses_the_judge() {
    let place = Place::new();
    let score = |name: &str, arguments: &[&str]| {
        let mut all = vec!["score", name, "--format", "json"];
        all.extend(arguments);
        json_of(&place, &all)
    };
    // Twelve identical failing calls, as one document and as lines.
    place.write("failing.json", &json!(chat_log(&[FAILING; 12])).to_string());
    place.write("failing.jsonl", &lines(&chat_log(&[FAILING; 12])));
    for name in ["failing.json", "failing.jsonl"] {
        let report = score(name, &[]);
        assert_eq!(
            (&report["judge"], &report["signal"]),
            (&json!("progress"), &json!("ESCALATE")),
            "{name}"
        );
    }
    // Nothing is said in this log, so the dialogue judge has nothing to judge.
    let forced = place.run(&["score", "failing.jsonl", "--judge", "dialogue"]);
    assert!(
        forced.starts_with("exit 2") && forced.contains("no rounds"),
        "{forced}"
    );
    // Rounds stay conversations.
    let report = score(&example("transcripts/checkout.json"), &[]);
    assert_eq!(report["judge"], "dialogue");
    assert_eq!(report["stop_recommendation"]["signal"], "SHIP");
    // A discussion with one lookup is judged by both; the dialogue judge decides.
    let mut mixed = chat_log(&[("grep -rn retries src", "src/client.rs:40: let retries = 3;")]);
    for text in [
        "The client retries three times without a delay. The server needs ten seconds to restart.",
        "A delay of one second that doubles each time covers ten seconds. The client should use it.",
        "The number of retries should be five. Next step: change retries in src/client.rs to five.",
    ] {
        mixed.push(json!({"role": "assistant", "content": text}));
        mixed.push(json!({"role": "user", "content": "Go on."}));
    }
    place.write("mixed.json", &json!(mixed).to_string());
    let report = score("mixed.json", &[]);
    assert_eq!(report["judge"], "dialogue");
    assert!(report["stop_recommendation"].is_object());
    assert_eq!(report["progress"]["kind"], "mixed");
    let shown = place.run(&["score", "mixed.json"]);
    assert!(
        shown.contains("the dialogue judge decides, because only 1 of 4 turns call tools"),
        "{shown}"
    );
    let report = score("mixed.json", &["--judge", "progress"]);
    assert_eq!(
        (&report["judge"], &report["kind"]),
        (&json!("progress"), &json!("mixed"))
    );
}

#[test]
fn a_stuck_agent_in_a_discussion_decides() {
    let place = Place::new();
    let mut messages = chat_log(&[FAILING; 8]);
    let thoughts = [
        "The linker needs a newer version of glibc.",
        "Half of the targets were renamed last spring.",
        "A generated header is missing from the repository.",
        "Windows builds use another toolchain file.",
        "Our cache key ignores environment variables.",
        "Documentation is built by a separate job.",
        "The release branch pins an older compiler.",
        "Static analysis runs before any unit test.",
        "Two modules include each other by accident.",
        "Packaging expects the binary under dist.",
    ];
    let mut talk: Vec<Value> = thoughts
        .iter()
        .map(|thought| json!({"role": "assistant", "content": thought}))
        .collect();
    talk.append(&mut messages.split_off(1));
    messages.extend(talk);
    place.write("stuck.json", &json!(messages).to_string());
    let shown = place.run(&["score", "stuck.json", "--exit-code"]);
    assert!(
        shown.starts_with("exit 12") && shown.contains("the progress judge decides"),
        "{shown}"
    );
}

/// Writes lines one by one while `watch` follows; returns exit code and printed lines.
fn watch_growing(place: &Place, lines: &[String], arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let path = place.write("session.jsonl", "");
    let mut all = vec!["watch", "session.jsonl"];
    all.extend(arguments);
    let child = place
        .command(&all)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut file = fs_err::OpenOptions::new().append(true).open(&path).unwrap();
    for line in lines {
        // Half a line first: the reader must handle it.
        let (first, second) = line.split_at(line.len() / 2);
        file.write_all(first.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        file.write_all(second.as_bytes()).unwrap();
        file.write_all(b"\n").unwrap();
    }
    let started = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(50));
    let printed = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), printed.lines().map(str::to_owned).collect())
}

#[test]
fn watch_ends_when_the_agent_is_stuck() {
    let place = Place::new();
    let log = fs_err::read_to_string(example("progress/looping.jsonl")).unwrap();
    let log: Vec<String> = log.lines().map(str::to_owned).collect();
    let (code, printed) = watch_growing(&place, &log, &["--format", "json", "--exit-code", "--idle", "60"]);
    assert_eq!(code, Some(12), "{printed:?}");
    let verdicts: Vec<Value> = printed
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let signals: Vec<_> = verdicts.iter().map(|verdict| &verdict["signal"]).collect();
    assert_eq!(signals, ["NUDGE", "ESCALATE"]);
    // The same steps as in the whole log.
    let whole = json_of(
        &place,
        &["progress", &example("progress/looping.jsonl"), "--format", "json"],
    );
    assert_eq!(verdicts[0]["step"], whole["first_nudge_step"]);
    assert_eq!(verdicts[1]["step"], whole["first_stop_step"]);
}

#[test]
fn watch_judges_the_answer_when_the_log_stops_growing() {
    let place = Place::new();
    let log = fs_err::read_to_string(example("progress/working.jsonl")).unwrap();
    let log: Vec<String> = log.lines().map(str::to_owned).collect();
    let (code, printed) = watch_growing(&place, &log, &["--exit-code", "--idle", "2", "--at-every-step"]);
    assert_eq!(code, Some(10), "{printed:?}");
    assert_eq!(printed.len(), 13, "{printed:?}");
    assert!(printed[12].contains("SHIP"), "{printed:?}");
}

#[test]
fn a_sweep_of_runs_compares_thresholds_with_rules() {
    let place = Place::new();
    place.write(
        "runs/a.jsonl",
        &fs_err::read_to_string(example("progress/runs.jsonl")).unwrap(),
    );
    place.write("runs/notes.json", "{\"hello\": \"world\"}");
    for arguments in [
        &["sweep", "runs", "--stop", "3", "--stop", "2", "--format", "json"][..],
        &[
            "sweep", "runs", "--work", "--stop", "2", "--stop", "3", "--format", "json",
        ],
    ] {
        let swept = json_of(&place, arguments);
        assert_eq!((&swept["runs"], &swept["solved"]), (&json!(13), &json!(8)));
        let points = swept["points"].as_array().unwrap();
        assert_eq!(points.len(), 2);
        assert!(points[0]["stop"].as_f64() < points[1]["stop"].as_f64());
        assert!(!swept["rules"].as_array().unwrap().is_empty());
        assert!(swept["suggested_stop"].is_number());
    }
    // The suggested profile is valid.
    let shown = place.run(&["sweep", "runs"]);
    let (_, snippet) = shown.split_once("[decision]").unwrap();
    let keys: Vec<&str> = snippet
        .lines()
        .skip(1)
        .take_while(|line| line.contains(" = "))
        .collect();
    place.write("mine.toml", &format!("[decision]\n{}\n", keys.join("\n")));
    let judged = place.run(&[
        "progress",
        &example("progress/looping.jsonl"),
        "--profile",
        "mine.toml",
    ]);
    assert!(judged.starts_with("exit 0"), "{judged}");
}
