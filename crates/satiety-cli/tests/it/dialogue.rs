//! `satiety score`, `watch`, `sweep`, `models` and `calibrate`, with the real sentence model.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{Place, example, json_of};

#[test]
fn the_json_report_has_all_documented_keys() {
    let place = Place::new();
    let report = json_of(
        &place,
        &["score", &example("transcripts/checkout.json"), "--format", "json"],
    );
    for key in [
        "score",
        "components",
        "novelty_by_round",
        "readiness_by_round",
        "signal_by_round",
        "first_stop_round",
        "stop_recommendation",
        "hint",
        "warnings",
        "unseen",
        "profile",
        "scoring_version",
        "embedder",
    ] {
        assert!(report.get(key).is_some(), "no `{key}`");
    }
    for key in [
        "novelty_rate",
        "novelty_rate_L0",
        "novelty_rate_L1",
        "novelty_rate_L2",
        "action_readiness",
        "action_readiness_detail",
        "semantic_similarity",
        "structural_agreement",
    ] {
        assert!(report["components"].get(key).is_some(), "no `components.{key}`");
    }
    for key in [
        "signal",
        "novelty_classification",
        "readiness_classification",
        "k_consecutive_low_novelty",
        "rationale",
    ] {
        assert!(
            report["stop_recommendation"].get(key).is_some(),
            "no `stop_recommendation.{key}`"
        );
    }
    assert_eq!(report["first_stop_round"], 4);
    assert_eq!(
        report["signal_by_round"][0],
        json!({"round": 1, "signal": "CONTINUE"})
    );
    let rate = report["components"]["novelty_rate"].as_f64().unwrap();
    assert!((report["score"].as_f64().unwrap() - (1.0 - rate)).abs() < 1e-6);
    assert!(
        report["embedder"]
            .as_str()
            .unwrap()
            .starts_with("minilm-l6-v2-int8:")
    );
}

#[test]
fn exit_code_reports_the_signal_on_request() {
    let place = Place::new();
    for (name, code) in [
        ("high-novelty-low-readiness", 0),
        ("exact-repeat", 10),
        ("nothing-to-execute", 11),
        ("blocker-present", 12),
    ] {
        let file = example(&format!("calibration/{name}.json"));
        let status = place
            .command(&["score", &file, "--exit-code", "--quiet"])
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{name}");
        let status = place.command(&["score", &file, "--quiet"]).status().unwrap();
        assert_eq!(status.code(), Some(0), "{name} without --exit-code");
    }
}

#[test]
fn terminal_and_markdown_reports() {
    let place = Place::new();
    assert_snapshot!(
        "human",
        place.run(&["score", &example("calibration/blocker-present.json")])
    );
    assert_snapshot!(
        "markdown",
        place.run(&[
            "score",
            &example("calibration/blocker-present.json"),
            "--format",
            "markdown"
        ])
    );
}

#[test]
fn a_report_without_a_model_says_so() {
    let place = Place::new();
    let report = json_of(
        &place,
        &[
            "score",
            &example("transcripts/checkout.json"),
            "--embedder",
            "none",
            "--format",
            "json",
        ],
    );
    assert_eq!(
        (&report["embedder"], &report["components"]["novelty_rate_L2"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        place
            .run(&[
                "score",
                &example("transcripts/checkout.json"),
                "--embedder",
                "none"
            ])
            .contains("compared by words only")
    );
}

#[test]
fn trace_transcript_and_standard_input_score_equally() {
    let place = Place::new();
    let mut reports = Vec::new();
    for file in [
        example("transcripts/checkout.json"),
        example("transcripts/checkout.jsonl"),
    ] {
        reports.push(json_of(&place, &["score", &file, "--format", "json"]));
    }
    let mut child = place
        .command(&["score", "-", "--format", "json"])
        .stdin(
            fs_err::File::open(example("transcripts/checkout.json"))
                .unwrap()
                .into_parts()
                .0,
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    reports.push(serde_json::from_reader(child.stdout.take().unwrap()).unwrap());
    for report in &reports {
        assert_eq!(report["signal_by_round"], reports[0]["signal_by_round"]);
        assert_eq!(report["components"], reports[0]["components"]);
    }
}

#[test]
fn chat_logs_and_session_logs_become_rounds() {
    let place = Place::new();
    let chat = place.write(
        "chat.json",
        &json!([
            {"role": "user", "content": "Why does the nightly import take so long?"},
            {"role": "assistant", "name": "analyst", "content": "The import reads each file twice. The second read is only for the checksum. We should compute the checksum while parsing."},
            {"role": "user", "content": "How much would that save?"},
            {"role": "assistant", "name": "analyst", "content": "Reading once halves the time. Next step: compute the checksum while parsing in import.rs."},
        ])
        .to_string(),
    );
    let report = json_of(
        &place,
        &["score", &chat.display().to_string(), "--format", "json"],
    );
    assert_eq!(report["input_format"], "chat");
    assert!(
        report["novelty_by_round"].as_array().unwrap().len() >= 2,
        "{report:#}"
    );
    let session = place.write(
        "session.jsonl",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"Fix the flaky test.\"},\"uuid\":\"1\",\"timestamp\":\"2026-01-01T00:00:00Z\"}\n\
         {\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"The test waits for a fixed second. The server sometimes needs longer.\"}]},\"uuid\":\"2\",\"timestamp\":\"2026-01-01T00:00:05Z\"}\n",
    );
    let report = json_of(
        &place,
        &["score", &session.display().to_string(), "--format", "json"],
    );
    assert_eq!(report["input_format"], "agent-log");
}

#[test]
fn record_stores_the_conversation() {
    let place = Place::new();
    let report = json_of(
        &place,
        &[
            "score",
            &example("transcripts/checkout.json"),
            "--record",
            "--format",
            "json",
        ],
    );
    assert!(report["conversation_id"].is_string());
    let status = json_of(&place, &["db", "status", "--format", "json"]);
    let rows = |name: &str| {
        status["tables"]
            .as_array()
            .unwrap()
            .iter()
            .find(|table| table["name"] == name)
            .unwrap()["rows"]
            .clone()
    };
    assert_eq!(
        (rows("conversations"), rows("rounds"), rows("journal")),
        (json!(1), json!(6), json!(1))
    );
    // Without --record nothing is stored.
    let other = Place::new();
    json_of(
        &other,
        &["score", &example("transcripts/checkout.json"), "--format", "json"],
    );
    assert!(!other.path(".local").exists());
}

#[test]
fn invalid_input_names_file_and_line() {
    let place = Place::new();
    place.write("empty.json", "  \n");
    place.write("broken.json", "{\"rounds\": [\n  {\"round\": 1,}\n]}");
    place.write(
        "wrong.json",
        "{\"rounds\": [{\"round\": 1, \"outputs\": {\"claims\": [\"a\", 7]}}]}",
    );
    place.write("other.json", "{\"hello\": \"world\"}");
    place.write("no-rounds.json", "{\"rounds\": []}");
    place.write("mine.toml", "[novelty]\nsemantic_treshold = 0.7\n");
    let transcript = example("transcripts/checkout.json");
    let mut story = String::new();
    for arguments in [
        &["score", "missing.json"][..],
        &["score", "empty.json"],
        &["score", "broken.json"],
        &["score", "wrong.json"],
        &["score", "other.json"],
        &["score", "no-rounds.json"],
        &["score", &transcript, "--profile", "strict"],
        &["score", &transcript, "--profile", "mine.toml"],
        &["score", &transcript, "--embedder", "word2vec"],
        &["score", &transcript, "--embedder", "dir:nowhere"],
        &["sweep", "."],
        &[
            "sweep",
            &example("calibration"),
            "--embedder",
            "none",
            "--jaccard",
            "2",
        ],
        &["calibrate", "--embedder", "none"],
        &["watch", "missing.jsonl"],
    ] {
        let shown = place.run(arguments).replace(&example(""), "[examples]/");
        let line = arguments.join(" ").replace(&example(""), "[examples]/");
        story.push_str("$ satiety ");
        story.push_str(&line);
        story.push('\n');
        story.push_str(&shown);
        story.push_str("\n\n");
    }
    assert_snapshot!(story);
}

#[test]
fn watch_ends_at_the_stop_signal() {
    let place = Place::new();
    let lines: Vec<String> = fs_err::read_to_string(example("transcripts/checkout.jsonl"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    let path = place.write("trace.jsonl", "");
    let child = place
        .command(&[
            "watch",
            "trace.jsonl",
            "--format",
            "json",
            "--exit-code",
            "--idle",
            "60",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut file = fs_err::OpenOptions::new().append(true).open(&path).unwrap();
    for line in &lines {
        // Half a line first: the reader must handle it.
        let (first, second) = line.split_at(line.len() / 2);
        file.write_all(first.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(150));
        file.write_all(second.as_bytes()).unwrap();
        file.write_all(b"\n").unwrap();
    }
    let started = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(50),
        "watch waited for the idle limit"
    );
    assert_eq!(output.status.code(), Some(10));
    let verdicts: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let signals: Vec<&str> = verdicts
        .iter()
        .map(|verdict| verdict["signal"].as_str().unwrap())
        .collect();
    assert_eq!(signals, ["CONTINUE", "CONTINUE", "CONTINUE", "SHIP"]);
}

#[test]
fn a_sweep_counts_correct_signals() {
    let place = Place::new();
    let swept = json_of(
        &place,
        &[
            "sweep",
            &example("calibration"),
            "--k",
            "1",
            "--k",
            "2",
            "--format",
            "json",
        ],
    );
    let base = &swept["base"];
    assert_eq!(base["signals_right"], base["signals_labelled"]);
    assert_eq!(swept["cells"].as_array().unwrap().len(), 2);
    assert!(
        place
            .run(&["sweep", &example("calibration"), "--embedder", "none"])
            .contains("expected (rows)")
    );
}

#[test]
fn models_are_listed_checked_and_chosen() {
    let place = Place::new();
    assert_snapshot!("models", place.run(&["models", "list"]));
    assert!(place.run(&["models", "verify"]).starts_with("exit 0"));
    place.write(
        "satiety.toml",
        "# mine\n[output]\ncolor = \"never\" # no colours\n",
    );
    assert!(place.run(&["models", "use", "none"]).starts_with("exit 0"));
    let file = fs_err::read_to_string(place.path("satiety.toml")).unwrap();
    assert_eq!(
        file,
        "# mine\n[output]\ncolor = \"never\" # no colours\n\n[models]\nembedder = \"none\"\n"
    );
    assert!(place.run(&["models", "use", "gpt"]).starts_with("exit 2"));
}

#[test]
fn calibration_writes_a_valid_profile() {
    let place = Place::new();
    let calibrated = json_of(
        &place,
        &["calibrate", "--write", "fitted.toml", "--format", "json"],
    );
    let threshold = calibrated["with_guard"]["threshold"].as_f64().unwrap();
    assert!((0.5..0.95).contains(&threshold), "{calibrated:#}");
    assert!(
        calibrated["with_guard"]["recall"].as_f64().unwrap() > 0.4,
        "{calibrated:#}"
    );
    assert!(calibrated["edits_refused"].as_u64() > Some(0), "{calibrated:#}");
    let report = json_of(
        &place,
        &[
            "score",
            &example("transcripts/checkout.json"),
            "--profile",
            "fitted.toml",
            "--format",
            "json",
        ],
    );
    assert_eq!(report["profile"], "calibrated");
}

#[test]
fn the_demo_runs_to_the_end() {
    let place = Place::new();
    let shown = place.run(&["demo"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    for signal in ["CONTINUE", "SHIP", "STOP", "ESCALATE"] {
        assert!(shown.contains(signal), "no {signal} in\n{shown}");
    }
    assert!(!place.path(".local").exists(), "the demo left files behind");
}

#[test]
fn the_demo_runs_one_scene_and_keeps_results_on_request() {
    let place = Place::new();
    let shown = place.run(&["demo", "dialogue", "--keep=tour"]);
    assert!(
        shown.starts_with("exit 0") && !shown.contains("REGRESSION"),
        "{shown}"
    );
    let status = ["--db", "sqlite:tour/demo.db", "db", "status", "--format", "json"];
    let listed: String = place.run(&status).split_whitespace().collect();
    assert!(listed.contains(r#""name":"conversations","rows":5"#), "{listed}");
    let again = place.run(&["demo", "dialogue", "--keep=tour"]);
    assert!(
        again.starts_with("exit 2") && again.contains("tour already exists"),
        "{again}"
    );
}
