//! Benchmarks: what comes in from other tools, from people and from life, who is told, and pages and tables.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use crate::support::{Place, json_of};

const SUITE: &str = "suite_id = \"greeter\"\nversion = \"1.0.0\"\n";

/// A suite whose target repeats what it is asked; `cases` as YAML.
fn suite(place: &Place, cases: &str) {
    place.write("greeter/suite.toml", SUITE);
    place.write("greeter/cases/all.yaml", cases);
    place.write("greeter/target.toml", "type = \"echo\"\n");
}

/// Runs with something on stdin.
fn piped(place: &Place, arguments: &[&str], input: &str) -> String {
    let file = place.write("stdin.txt", input);
    let mut command = place.command(arguments);
    command.stdin(Stdio::from(std::fs::File::open(file).unwrap()));
    place.show(&mut command)
}

fn result<'a>(run: &'a Value, case: &str) -> &'a Value {
    let results = run["results"].as_array().unwrap();
    results.iter().find(|result| result["case_id"] == case).unwrap()
}

const PROMPTFOO: &str = r#"
description: support desk
prompts:
  - "Answer: {{question}}"
providers: [openai:gpt-5]
tests:
  - description: greets
    vars: {question: hello}
    assert:
      - {type: contains, value: hello}
      - {type: latency, threshold: 60000}
  - description: runs code
    vars: {question: x}
    assert:
      - {type: javascript, value: "output.length > 3"}
      - {type: contains, value: x}
  - description: compares meaning
    vars: {question: y}
    assert: [{type: similar, value: y, threshold: 0.8}]
  - file://more.csv
"#;

#[test]
fn a_promptfoo_configuration_becomes_a_suite_that_runs() {
    let place = Place::new();
    place.write("pf/promptfooconfig.yaml", PROMPTFOO);
    place.write("pf/more.csv", "question,__expected\nbye,icontains: BYE\n");
    let import = ["bench", "import", "pf/promptfooconfig.yaml", "--output", "desk"];
    let shown = place.run(&import);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(
        shown.contains("desk: 2 cases can be run, 2 are skipped"),
        "{shown}"
    );
    for part in [
        "javascript",
        "similar",
        "runs code outside",
        "needs a sentence model",
        "desk/suite.json",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // Nothing is written over.
    let again = place.run(&import);
    assert!(
        again.starts_with("exit 2") && again.contains("desk/suite.json is there already"),
        "{again}"
    );

    let checked = place.run(&["bench", "check", "desk"]);
    assert!(checked.starts_with("exit 0"), "{checked}");
    let run = json_of(
        &place,
        &["bench", "run", "desk", "--target", "echo", "--format", "json"],
    );
    assert_eq!(run["summary"]["counts"]["pass"], 2, "{run:#}");
    assert_eq!(run["summary"]["counts"]["skipped"], 2);
    assert_eq!(result(&run, "runs code")["status"], "skipped");

    let report = json_of(
        &place,
        &[
            "bench",
            "import",
            "pf/promptfooconfig.yaml",
            "--output",
            "desk2",
            "--suite-id",
            "x",
            "--format",
            "json",
        ],
    );
    assert_eq!(report["kind"], "suite");
    assert_eq!(report["suite_id"], "x");
    assert_eq!(report["unsupported"], json!({"javascript": 1, "similar": 1}));
    assert_eq!(report["assertions"]["contains"], 2);
}

#[test]
fn what_is_no_configuration_is_told_with_file_and_field() {
    let place = Place::new();
    place.write("list.yaml", "- 1\n");
    place.write("broken.yaml", "prompts: [\n");
    place.write("none.eval", "not an archive");
    place.write(
        "log.json",
        r#"{"eval": {"task": "t", "created": "yesterday"}, "samples": []}"#,
    );
    place.write(
        "bare.json",
        r#"{"eval": {"created": "2026-08-01T10:00:00Z"}, "samples": []}"#,
    );
    for (file, expected) in [
        ("list.yaml", "list.yaml: the file: must be an object"),
        ("broken.yaml", "broken.yaml: "),
        ("none.eval", "none.eval cannot be decompressed"),
        ("log.json", "log.json: eval.created: is no time"),
        ("bare.json", "bare.json: eval.task: is missing"),
        ("absent.yaml", "cannot read absent.yaml"),
    ] {
        let shown = place.run(&["bench", "import", file, "--output", "out"]);
        assert!(
            shown.starts_with("exit 2") && shown.contains(expected),
            "{file}: {shown}"
        );
        assert!(!place.path("out").exists(), "{file}");
    }
    let shown = place.run(&["bench", "import", "list.yaml"]);
    assert!(shown.contains("name one with --output"), "{shown}");
}

fn inspect_header(id: &str) -> String {
    json!({
        "version": 2, "status": "success",
        "eval": {"task": "arithmetic", "eval_id": id, "created": "2026-08-01T10:00:00+00:00", "model": "mock/model"},
        "stats": {"started_at": "2026-08-01T10:00:01+00:00", "completed_at": "2026-08-01T10:05:00+00:00"},
    })
    .to_string()
}

/// Twenty samples, `right` of which are.
fn inspect_samples(right: usize) -> Value {
    (0..20)
        .map(|id| {
            let value = if id < right { "C" } else { "I" };
            json!({"id": id, "epoch": 1, "input": "q", "target": "a", "scores": {"match": {"value": value}}, "total_time": 1.0})
        })
        .collect()
}

fn archive(place: &Place, name: &str, method: CompressionMethod, members: &[(&str, &str)]) {
    let mut writer = zip::ZipWriter::new(std::fs::File::create(place.path(name)).unwrap());
    for (member, text) in members {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*member, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn logs_of_inspect_are_runs_that_can_be_compared() {
    let place = Place::new();
    archive(
        &place,
        "before.eval",
        CompressionMethod::Zstd,
        &[
            ("_journal/start.json", "{}"),
            ("samples/0_epoch_1.json", "{\"large\": true}"),
            ("summaries.json", &inspect_samples(20).to_string()),
            ("header.json", &inspect_header("before")),
        ],
    );
    let shown = place.run(&["bench", "import", "before.eval"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(
        shown.contains("run before of arithmetic (mock/model): 20 results, 100.0 % passed"),
        "{shown}"
    );
    let again = place.run(&["bench", "import", "before.eval"]);
    assert!(
        again.starts_with("exit 2") && again.contains("is in the store already"),
        "{again}"
    );

    let mut log: Value = serde_json::from_str(&inspect_header("after")).unwrap();
    log["samples"] = inspect_samples(4);
    place.write("after.json", &log.to_string());
    let imported = json_of(&place, &["bench", "import", "after.json", "--format", "json"]);
    assert_eq!(
        (&imported["kind"], &imported["pass_rate"]),
        (&json!("run"), &json!(0.2))
    );

    let compared = place.run(&["bench", "compare", "before", "after"]);
    assert!(
        compared.starts_with("exit 1") && compared.contains("REGRESSION"),
        "{compared}"
    );
    let report = json_of(
        &place,
        &["bench", "report", "latest:arithmetic", "--format", "json"],
    );
    assert_eq!(report["results"].as_array().unwrap().len(), 20);
    let listed = place.run(&["bench", "list", "--runs"]);
    assert!(listed.contains("20.0 %"), "{listed}");
}

#[test]
fn a_log_of_a_crash_has_only_its_journal() {
    let place = Place::new();
    let start = json!({"version": 2, "eval": {"task": "arithmetic", "eval_id": "crashed", "created": "2026-08-01T10:00:00Z", "model": "m"}});
    let sample = |id: u32| json!([{"id": id, "epoch": 1, "scores": {"match": {"value": 1}}}]).to_string();
    archive(
        &place,
        "crashed.eval",
        CompressionMethod::Deflated,
        &[
            ("_journal/start.json", &start.to_string()),
            ("_journal/summaries/1.json", &sample(1)),
            ("_journal/summaries/2.json", &sample(2)),
        ],
    );
    let shown = place.run(&["bench", "import", "crashed.eval"]);
    assert!(
        shown.contains("2 results") && shown.contains("not written to its end"),
        "{shown}"
    );
    let refused = place.run(&["bench", "baseline", "crashed", "--reason", "x", "--by", "me"]);
    assert!(refused.starts_with("exit 2"), "{refused}");

    let twice = format!("[{0},{0}]", json!({"id": 1, "epoch": 1, "scores": {}}));
    archive(
        &place,
        "twice.eval",
        CompressionMethod::Stored,
        &[
            ("header.json", &inspect_header("twice")),
            ("summaries.json", &twice),
        ],
    );
    let shown = place.run(&["bench", "import", "twice.eval"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("samples[1].id: `1` is there twice"),
        "{shown}"
    );
    assert!(
        place
            .run(&["bench", "report", "twice"])
            .contains("there is no run"),
        "half a run was kept"
    );
}

const HUMAN: &str = r#"
- {case_id: a, input: {goal: "say a"}, expected: {mode: human, reason: "is it friendly?"}}
- {case_id: b, input: {goal: "say b"}, expected: {mode: human}}
- {case_id: c, input: {goal: "say c"}, expected: [{mode: human}, {mode: contains, value: zebra}]}
- {case_id: d, input: {goal: "say d"}, expected: {mode: contains, value: d}}
"#;

#[test]
fn labels_from_the_terminal_settle_what_waits() {
    let place = Place::new();
    suite(&place, HUMAN);
    place.run(&["bench", "run", "greeter"]);
    let shown = piped(&place, &["bench", "label", "latest"], "perhaps\np\ns\n");
    assert!(shown.starts_with("exit 0"), "{shown}");
    for part in [
        "asked: say a",
        "note: is it friendly?",
        "`perhaps` is none of p, f, s and q",
        "1 label of run",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // What a check has failed waits for nobody, and is not asked about.
    assert!(!shown.contains("say c") && !shown.contains("say d"), "{shown}");
    let run = json_of(&place, &["bench", "report", "latest", "--format", "json"]);
    assert_eq!(
        (&result(&run, "a")["status"], &result(&run, "a")["human_label"]),
        (&json!("pass"), &json!("pass"))
    );
    assert_eq!(result(&run, "b")["status"], "pending");

    let shown = piped(&place, &["bench", "label", "latest"], "f\n");
    assert!(
        shown.contains("asked: say b") && !shown.contains("asked: say a"),
        "{shown}"
    );
    // One of two passes of people, one of two of checks; the list shows it without the results.
    let listed = place.run(&["bench", "list", "--runs"]);
    assert!(listed.contains("50.0 %"), "{listed}");
    let shown = piped(&place, &["bench", "label", "latest"], "");
    assert!(shown.contains("nothing waits for a person"), "{shown}");
    // A person may change their mind; q keeps what was said.
    let shown = piped(&place, &["bench", "label", "latest", "--all"], "f\nq\n");
    assert!(
        shown.contains("labelled pass before") && shown.contains("1 label of run"),
        "{shown}"
    );
    let run = json_of(&place, &["bench", "report", "latest", "--format", "json"]);
    assert_eq!(result(&run, "a")["status"], "fail");
    assert_eq!(result(&run, "d")["human_label"], Value::Null);
}

#[test]
fn labels_from_a_file_are_all_kept_or_none() {
    let place = Place::new();
    suite(&place, HUMAN);
    place.run(&["bench", "run", "greeter"]);
    for (line, expected) in [
        (
            r#"{"case_id": "b", "pass": "yes"}"#,
            "labels.jsonl:2: pass: invalid type",
        ),
        (
            r#"{"case_id": "zz", "pass": true}"#,
            "has no result of case `zz`, repeat 0",
        ),
        (
            r#"{"case_id": "b", "repeat": 4, "pass": true}"#,
            "case `b`, repeat 4",
        ),
    ] {
        place.write(
            "labels.jsonl",
            &format!("{{\"case_id\": \"a\", \"pass\": true}}\n{line}\n"),
        );
        let shown = place.run(&["bench", "label", "latest", "--file", "labels.jsonl"]);
        assert!(shown.starts_with("exit 2") && shown.contains(expected), "{shown}");
    }
    let run = json_of(&place, &["bench", "report", "latest", "--format", "json"]);
    assert_eq!(
        result(&run, "a")["human_label"],
        Value::Null,
        "a refused file left a label"
    );

    place.write(
        "labels.jsonl",
        "{\"case_id\": \"a\", \"pass\": true}\n\n{\"case_id\": \"b\", \"repeat\": 0, \"pass\": false}\n",
    );
    let answer = json_of(
        &place,
        &[
            "bench",
            "label",
            "latest",
            "--file",
            "labels.jsonl",
            "--format",
            "json",
        ],
    );
    assert_eq!(
        (&answer["labelled"], &answer["pending"], &answer["pass_rate"]),
        (&json!(2), &json!(0), &json!(0.5))
    );
    let shown = place.run(&["bench", "label", "latest", "--calibrate"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("both a judge's score and a label"),
        "{shown}"
    );
    let shown = place.run(&["bench", "label", "greeter/suite.toml"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("is a file"),
        "{shown}"
    );
}
