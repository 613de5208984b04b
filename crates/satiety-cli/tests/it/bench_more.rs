//! Benchmarks: imports from other tools, labels, production cases, alerts, and HTML and CSV reports.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use crate::sandbox::means;
use crate::support::{Place, json_of};

const SUITE: &str = "suite_id = \"greeter\"\nversion = \"1.0.0\"\n";

/// Suite whose target echoes the goal; `cases` is YAML.
fn suite(place: &Place, cases: &str) {
    place.write("greeter/suite.toml", SUITE);
    place.write("greeter/cases/all.yaml", cases);
    place.write("greeter/target.toml", "type = \"echo\"\n");
}

/// Runs a command with standard input.
fn piped(place: &Place, arguments: &[&str], input: &str) -> String {
    let file = place.write("stdin.txt", input);
    let mut command = place.command(arguments);
    command.stdin(Stdio::from(fs_err::File::open(file).unwrap().into_parts().0));
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
    assert: [{type: perplexity, threshold: 5}]
  - file://more.csv
"#;

#[test]
fn a_promptfoo_configuration_becomes_a_suite_that_runs() {
    let place = Place::new();
    place.write("pf/promptfooconfig.yaml", PROMPTFOO);
    place.write("pf/more.csv", "question,__expected\nbye,icontains: BYE\n");
    let import = ["bench", "import", "pf/promptfooconfig.yaml", "--output", "desk"];
    let shown = place.run(&import);
    // Exit code 3: an assertion that decides was lost.
    assert!(shown.starts_with("exit 3"), "{shown}");
    assert!(shown.contains("desk: 3 runnable cases, 1 skipped"), "{shown}");
    for part in [
        "javascript",
        "lost: tests[2].assert[0]: perplexity: requires token probabilities",
        "desk/suite.json",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // Existing files are not overwritten.
    let again = place.run(&import);
    assert!(
        again.starts_with("exit 2") && again.contains("desk/suite.json: file exists"),
        "{again}"
    );

    let checked = place.run(&["bench", "check", "desk"]);
    assert!(checked.starts_with("exit 0"), "{checked}");
    let run = json_of(
        &place,
        &["bench", "run", "desk", "--target", "echo", "--format", "json"],
    );
    assert_eq!(run["summary"]["counts"]["pass"], 3, "{run:#}");
    assert_eq!(run["summary"]["counts"]["skipped"], 1);
    assert_eq!(result(&run, "runs code")["status"], "pass");

    let again = [
        &import[..3],
        &["--output", "desk2", "--suite-id", "x", "--format", "json"],
    ]
    .concat();
    let printed = place.command(&again).output().unwrap();
    assert_eq!(printed.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(report["kind"], "suite");
    assert_eq!(report["suite_id"], "x");
    assert_eq!(report["unsupported"], json!({"perplexity": 1}));
    assert_eq!(report["assertions"]["contains"], 2);
}

const IN_PLACE: &str = r#"
prompts: ["prompts/*.txt"]
providers: [echo]
defaultTest:
  options: {transform: "output.trim()"}
tests:
  - description: expression
    vars: {q: hello}
    assert:
      - {type: javascript, value: "const words = output.split(' '); words.includes(context.vars.q)", metric: words}
      - {type: not-javascript, value: "output.length > 100"}
      - {type: regex, value: "(?<=say )hello"}
      - {type: contains, value: hello}
  - description: function body
    vars: {q: bye}
    assert:
      - type: javascript
        value: |
          const score = output.includes('bye') ? 0.8 : 0;
          return {pass: score >= context.config.least, score, reason: 'scored ' + score};
        config: {least: 0.9}
  - description: file
    vars: {q: json}
    assert: [{type: javascript, value: "file://checks/grade.js:grade"}]
  - description: throws
    vars: {q: x}
    assert: [{type: javascript, value: "JSON.parse(output).a === 1"}]
  - description: invalid
    vars: {q: x}
    assert: [{type: javascript, value: "output ==="}]
"#;

#[test]
fn promptfoo_configurations_run_in_place_with_their_code() {
    let place = Place::new();
    place.write("pf/promptfooconfig.yaml", IN_PLACE);
    place.write("pf/prompts/one.txt", " say {{q}} \n");
    place.write(
        "pf/checks/grade.js",
        "const {wanted} = require('./wanted.js');\nconsole.log('noise');\n\
         module.exports = {grade: async (output, context) => output.includes(wanted) && context.vars.q === 'json'};\n",
    );
    place.write("pf/checks/wanted.js", "module.exports = {wanted: 'say'};\n");
    let run = json_of(
        &place,
        &["bench", "run", "pf/promptfooconfig.yaml", "--format", "json"],
    );
    let expression = result(&run, "expression");
    assert_eq!(expression["status"], "pass", "{run:#}");
    assert_eq!(
        (
            &expression["scores"][0]["name"],
            &expression["scores"][0]["value"]
        ),
        (&json!("words"), &json!(1.0))
    );
    let body = result(&run, "function body");
    assert_eq!(
        (&body["status"], &body["reasons"][0]),
        (&json!("fail"), &json!("scored 0.8"))
    );
    assert_eq!(result(&run, "file")["status"], "pass", "{run:#}");
    let thrown = result(&run, "throws");
    assert_eq!(thrown["status"], "fail");
    assert!(
        thrown["reasons"][0].as_str().unwrap().contains("SyntaxError"),
        "{thrown}"
    );
    // A check that cannot be compiled says nothing about the target.
    let invalid = result(&run, "invalid");
    assert_eq!(
        (&invalid["status"], &invalid["error_owner"]),
        (&json!("error"), &json!("harness"))
    );

    let mut command = place.command(&["bench", "run", "pf/promptfooconfig.yaml"]);
    let without = place.show(command.env("PATH", place.path("empty")));
    assert!(
        without.starts_with("exit 2")
            && without.contains("`node` not found in PATH")
            && without.contains("install Node.js"),
        "{without}"
    );
}

#[test]
fn code_of_a_configuration_reads_nothing_outside_of_its_directory() {
    if means().is_empty() {
        return;
    }
    let place = Place::new();
    let secret = place.write("secret.txt", "s3cret");
    let code = format!(
        "process.mainModule.require('node:fs').readFileSync('{}', 'utf8') === 's3cret'",
        secret.display()
    );
    let config = json!({"prompts": ["say"], "providers": ["echo"], "tests": [
        {"description": "steal", "assert": [{"type": "javascript", "value": code}]}
    ]});
    place.write("pf/promptfooconfig.yaml", &config.to_string());
    let run = ["bench", "run", "pf/promptfooconfig.yaml", "--format", "json"];
    let confined = json_of(&place, &run);
    let stolen = result(&confined, "steal");
    assert_eq!(stolen["status"], "fail", "{confined:#}");
    assert!(
        stolen["reasons"][0].as_str().unwrap().contains("ENOENT"),
        "{stolen}"
    );
    let open = json_of(&place, &[&run[..], &["--no-sandbox"]].concat());
    assert_eq!(result(&open, "steal")["status"], "pass", "{open:#}");
}

#[test]
fn promptfoo_results_become_a_run() {
    let place = Place::new();
    let row = |test: u32, success: bool| {
        json!({"testIdx": test, "promptIdx": 0, "provider": {"id": "echo"}, "success": success, "score": u8::from(success),
            "failureReason": u8::from(!success), "gradingResult": {"pass": success, "reason": "because"}, "latencyMs": 3})
    };
    let results = json!({"evalId": "eval-1", "config": {"description": "desk"}, "results": {
        "timestamp": "2026-08-01T10:00:00Z", "version": 3, "results": [row(0, true), row(1, false)]}});
    place.write("out.json", &results.to_string());
    let shown = place.run(&["bench", "import", "out.json"]);
    assert!(
        shown.starts_with("exit 0") && shown.contains("run eval-1 of desk (echo): 2 results, 50.0 % passed"),
        "{shown}"
    );
}

#[test]
fn several_scorers_of_a_log_need_a_choice() {
    let place = Place::new();
    let mut log: Value = serde_json::from_str(&inspect_header("several")).unwrap();
    log["samples"] = json!([
        {"id": 1, "epoch": 1, "scores": {"suspicion": {"value": 7}, "match": {"value": "I"}}},
        {"id": 2, "epoch": 1, "scores": {"suspicion": {"value": 3}, "match": {"value": "C"}}}
    ]);
    log["results"] = json!({"total_samples": 2, "scores": [
        {"name": "suspicion", "scorer": "suspicion", "metrics": {"mean": {"value": 5}}},
        {"name": "match", "scorer": "match", "metrics": {"accuracy": {"value": 0.5}}}
    ]});
    place.write("log.json", &log.to_string());
    for (flags, expected) in [
        (&[][..], "expected one of: suspicion (3 to 7), match (0 to 1))"),
        (&["--scorer", "nosuch"][..], "unknown scorer `nosuch`"),
        (&["--scorer", "suspicion"][..], "threshold: is required"),
    ] {
        let shown = place.run(&[&["bench", "import", "log.json"], flags].concat());
        assert!(shown.starts_with("exit 2") && shown.contains(expected), "{shown}");
        assert!(shown.contains("hint: "), "{shown}");
    }
    let flags = [
        "--scorer",
        "suspicion",
        "--range",
        "1..10",
        "--threshold",
        "5",
        "--lower-is-better",
    ];
    let shown = place.run(&[&["bench", "import", "log.json"][..], &flags].concat());
    assert!(
        shown.starts_with("exit 0") && shown.contains("50.0 % passed"),
        "{shown}"
    );
    let report = json_of(&place, &["bench", "report", "several", "--format", "json"]);
    assert_eq!(result(&report, "1")["status"], "fail");
    assert_eq!(result(&report, "2")["scores"][1]["label"], "C");
    assert_eq!(report["summary"]["scores"][0]["mean"], 5.0);
}

#[test]
fn invalid_promptfoo_configurations_name_file_and_field() {
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
        ("list.yaml", "list.yaml: top level: must be an object"),
        ("broken.yaml", "broken.yaml: "),
        ("none.eval", "cannot decompress none.eval"),
        ("log.json", "log.json: eval.created: is not a valid timestamp"),
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
    assert!(
        shown.contains("name a directory; it is created: `--output DIR`"),
        "{shown}"
    );
}

fn inspect_header(id: &str) -> String {
    json!({
        "version": 2, "status": "success",
        "eval": {"task": "arithmetic", "eval_id": id, "created": "2026-08-01T10:00:00+00:00", "model": "mock/model"},
        "stats": {"started_at": "2026-08-01T10:00:01+00:00", "completed_at": "2026-08-01T10:05:00+00:00"},
    })
    .to_string()
}

/// Twenty samples, of which `right` are correct.
fn inspect_samples(right: usize) -> Value {
    (0..20)
        .map(|id| {
            let value = if id < right { "C" } else { "I" };
            json!({"id": id, "epoch": 1, "input": "q", "target": "a", "scores": {"match": {"value": value}}, "total_time": 1.0})
        })
        .collect()
}

pub(crate) fn archive(place: &Place, name: &str, method: CompressionMethod, members: &[(&str, &str)]) {
    let mut writer = zip::ZipWriter::new(fs_err::File::create(place.path(name)).unwrap());
    for (member, text) in members {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*member, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn inspect_logs_become_comparable_runs() {
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
        again.starts_with("exit 2") && again.contains("already exists"),
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
fn the_journal_of_a_crashed_inspect_run_is_read() {
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
        shown.contains("2 results") && shown.contains("the log is incomplete"),
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
        shown.starts_with("exit 2") && shown.contains("samples[1].id: duplicate sample `1`"),
        "{shown}"
    );
    assert!(
        place
            .run(&["bench", "report", "twice"])
            .contains("run `twice` not found"),
        "a partial run was stored"
    );
}

const HUMAN: &str = r#"
- {case_id: a, input: {goal: "say a"}, expected: {mode: human, reason: "is it friendly?"}}
- {case_id: b, input: {goal: "say b"}, expected: {mode: human}}
- {case_id: c, input: {goal: "say c"}, expected: [{mode: human}, {mode: contains, value: zebra}]}
- {case_id: d, input: {goal: "say d"}, expected: {mode: contains, value: d}}
"#;

#[test]
fn terminal_labels_decide_pending_results() {
    let place = Place::new();
    suite(&place, HUMAN);
    place.run(&["bench", "run", "greeter"]);
    let shown = piped(&place, &["bench", "label", "latest"], "perhaps\np\ns\n");
    assert!(shown.starts_with("exit 0"), "{shown}");
    for part in [
        "asked: say a",
        "note: is it friendly?",
        "unknown answer `perhaps` (expected one of: p, f, s, q)",
        "1 label for run",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // A result that already failed a check does not need a label.
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
    // One of two passes by people, one of two by checks; the list shows it without the results.
    let listed = place.run(&["bench", "list", "--runs"]);
    assert!(listed.contains("50.0 %"), "{listed}");
    let shown = piped(&place, &["bench", "label", "latest"], "");
    assert!(shown.contains("no answers need a human verdict"), "{shown}");
    // A person can change a label; `q` keeps the labels so far.
    let shown = piped(&place, &["bench", "label", "latest", "--all"], "f\nq\n");
    assert!(
        shown.contains("labelled pass earlier") && shown.contains("1 label for run"),
        "{shown}"
    );
    let run = json_of(&place, &["bench", "report", "latest", "--format", "json"]);
    assert_eq!(result(&run, "a")["status"], "fail");
    assert_eq!(result(&run, "d")["human_label"], Value::Null);
}

#[test]
fn labels_from_a_file_are_stored_atomically() {
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
            "has no result for case `zz`, repeat 0",
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

/// Server on loopback that answers every request with `answer(path, body)` until the test ends. Returns its address.
fn serve(answer: impl Fn(&str, &Value) -> (u16, Value) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length:")?
                        .trim()
                        .parse()
                        .ok()
                })
                .unwrap_or(0);
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, answer) = answer(&path, &serde_json::from_slice(&body).unwrap_or_default());
            let answer = answer.to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            stream.get_mut().write_all((head + &answer).as_bytes()).unwrap();
        }
    });
    address
}

/// A strict judge passes texts with `good`; a lenient one also those with `fair`.
fn judges() -> String {
    serve(|_, body| {
        let text = body["messages"].to_string();
        let good = text.contains("good") || body["model"] == "kind" && text.contains("fair");
        let judgement = json!({"score": u8::from(good), "reason": "because"}).to_string();
        (
            200,
            json!({"message": {"content": judgement}, "done_reason": "stop"}),
        )
    })
}

#[test]
fn judges_are_compared_with_each_other_and_with_people() {
    let place = Place::new();
    let case = |id: &str, goal: &str| {
        format!(
            "- {{case_id: {id}, input: {{goal: {goal}}}, expected: {{mode: llm_judge, value: is it right, threshold: 0.5}}}}\n"
        )
    };
    suite(
        &place,
        &[
            case("a", "good"),
            case("b", "fair"),
            case("c", "bad"),
            case("d", "good"),
        ]
        .concat(),
    );
    let url = judges();
    let (kind, strict) = (format!("ollama:kind@{url}"), format!("ollama:strict@{url}"));
    place.run(&["bench", "run", "greeter", "--judge", &kind]);
    let alone = place.run(&["bench", "report", "latest"]);
    assert!(
        !alone.contains("Krippendorff"),
        "agreement needs two judges: {alone}"
    );
    let labels = "{\"case_id\": \"a\", \"pass\": true}\n{\"case_id\": \"b\", \"pass\": false}\n{\"case_id\": \"c\", \"pass\": false}\n";
    place.write("labels.jsonl", labels);
    let shown = place.run(&["bench", "label", "latest", "--file", "labels.jsonl"]);
    assert!(
        shown.contains("agrees with people on 2 of 3 answers: 66.7 %"),
        "{shown}"
    );
    assert!(
        shown.contains("the judge passes 1 that people fail, and fails 0 that people pass"),
        "{shown}"
    );
    // The judge's verdict stays; the label is stored separately.
    let run = json_of(&place, &["bench", "report", "latest", "--format", "json"]);
    assert_eq!(
        (&result(&run, "b")["status"], &result(&run, "b")["human_label"]),
        (&json!("pass"), &json!("fail"))
    );
    let found = json_of(
        &place,
        &["bench", "label", "latest", "--calibrate", "--format", "json"],
    );
    assert_eq!(
        (&found["calibration"]["both_pass"], &found["labelled"]),
        (&json!(1), &json!(0))
    );

    // Scores 11, 10, 00, 11: observed disagreement 1/4, expected 30/56, so alpha is 1 - 14/30.
    place.run(&["bench", "run", "greeter", "--judge", &kind, "--judge", &strict]);
    let run = json_of(&place, &["bench", "report", "latest", "--format", "json"]);
    let alpha = run["summary"]["judge_agreement"].as_f64().unwrap();
    assert!((alpha - (1.0 - 14.0 / 30.0)).abs() < 1e-9, "{alpha}");
    for format in ["human", "markdown", "html"] {
        let shown = place.run(&["bench", "report", "latest", "--format", format]);
        assert!(
            shown.contains("Krippendorff") && shown.contains("0.533"),
            "{shown}"
        );
    }
}

#[test]
fn a_failure_is_converted_to_a_case_once() {
    let place = Place::new();
    suite(
        &place,
        "- {case_id: a, input: {goal: x}, expected: {mode: exact, value: x}}\n",
    );
    place.write(
        "record.json",
        r#"{"id": "req-7", "prompt": "Mail alice@example.org", "error": {"kind": "Tool Timeout"}, "expected": "sent"}"#,
    );
    let make = ["bench", "from-failure", "record.json", "--suite", "greeter"];
    let made = json_of(&place, &[&make[..], &["--format", "json"]].concat());
    assert_eq!(made["tags"], json!(["regression", "tool-timeout"]));
    assert_eq!(
        (&made["scrubbed"]["replaced"]["email"], &made["needs_expectation"]),
        (&json!(1), &json!(false))
    );
    let text = fs_err::read_to_string(place.path(made["file"].as_str().unwrap())).unwrap();
    assert!(
        text.contains("Mail [EMAIL-1]") && !text.contains("alice"),
        "{text}"
    );
    assert!(place.run(&["bench", "check", "greeter"]).starts_with("exit 0"));

    let again = place.run(&make);
    assert!(
        again.starts_with("exit 2") && again.contains("already exists in greeter"),
        "{again}"
    );
    for (record, expected) in [
        ("{", "record.json: EOF"),
        ("[]", "must be a JSON object"),
        ("{}", "the record has no question"),
    ] {
        place.write("record.json", record);
        let shown = place.run(&make);
        assert!(shown.starts_with("exit 2") && shown.contains(expected), "{shown}");
    }
    let shown = place.run(&["bench", "from-failure", "record.json", "--suite", "nowhere"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("no suite found at nowhere"),
        "{shown}"
    );
    assert_eq!(fs_err::read_dir(place.path("greeter/cases")).unwrap().count(), 2);
}

#[test]
fn sessions_are_collected_with_consent_and_scrubbed() {
    let place = Place::new();
    place.write(
        "one.jsonl",
        "{\"goal\": \"write to bob@example.org\", \"outcome\": \"sent to bob@example.org\"}\n",
    );
    place.write("two.jsonl", "\n{\"goal\": \"open /home/carol/x\", \"outcome\": {\"ok\": true}}\n{\"goal\": \"add\", \"outcome\": 4}\n");
    let scrub = [
        "bench",
        "scrub",
        "one.jsonl",
        "two.jsonl",
        "--output",
        "organic.jsonl",
    ];
    let refused = place.run(&scrub);
    assert!(
        refused.starts_with("exit 2") && refused.contains("--i-have-consent"),
        "{refused}"
    );
    assert!(!place.path("organic.jsonl").exists());

    let agreed = [&scrub[..], &["--i-have-consent"]].concat();
    let shown = place.run(&agreed);
    assert!(
        shown.contains("wrote 3 records to organic.jsonl; 2 changed: redacted: 2 email, 1 home folder"),
        "{shown}"
    );
    assert!(shown.contains("review the file before sharing it"), "{shown}");
    let text = fs_err::read_to_string(place.path("organic.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(!text.contains("bob") && !text.contains("carol"), "{text}");
    assert!(place.run(&agreed).contains("organic.jsonl already exists"));

    for (line, expected) in [
        ("{\"outcome\": 1}", "two.jsonl:1: goal: must be a string"),
        ("{\"goal\": \"x\"}", "two.jsonl:1: outcome: is missing"),
        ("nothing", "two.jsonl:1: expected"),
    ] {
        place.write("two.jsonl", line);
        let shown = place.run(&[
            "bench",
            "scrub",
            "one.jsonl",
            "two.jsonl",
            "--output",
            "new.jsonl",
            "--i-have-consent",
        ]);
        assert!(shown.starts_with("exit 2") && shown.contains(expected), "{shown}");
        assert!(!place.path("new.jsonl").exists());
    }
}

const STEADY: &str = r#"
- {case_id: a, deterministic: true, input: {goal: "one"}, expected: {mode: contains, value: one}}
- {case_id: b, deterministic: true, input: {goal: "two"}, expected: {mode: contains, value: two}}
"#;

/// Accepts the baseline of a correct target, and writes `worse.toml`, a target that fails the second case.
fn regressed(place: &Place) {
    suite(place, STEADY);
    let worse = "type = \"exec\"\ncommand = \"sh\"\nargs = [\"-c\", \"cat > /dev/null; echo one\"]\nenv = [\"PATH\"]\n";
    place.write("worse.toml", worse);
    place.run(&["bench", "run", "greeter"]);
    place.run(&[
        "bench", "baseline", "latest", "--suite", "greeter", "--reason", "first", "--by", "me",
    ]);
}

#[test]
fn a_regression_alerts_the_configured_hooks() {
    let place = Place::new();
    regressed(&place);
    let (sender, alerts) = mpsc::channel();
    let url = serve(move |_, body| {
        sender.send(body.clone()).unwrap();
        (200, json!({}))
    });
    let gate = ["bench", "run", "greeter", "--gate", "--target", "worse.toml"];
    let show = |arguments: &[&str], command: &str, url: &str| {
        let mut run = place.command(arguments);
        run.env("PATH", "/usr/bin:/bin")
            .env("SATIETY_BENCH_ALERT_COMMAND", command)
            .env("SATIETY_BENCH_ALERT_WEBHOOK", url);
        place.show(&mut run)
    };
    let shown = show(&gate, "cat > told.json", &url);
    assert!(
        shown.starts_with("exit 1") && !shown.contains("warning"),
        "{shown}"
    );
    let on_stdin: Value =
        serde_json::from_str(&fs_err::read_to_string(place.path("told.json")).unwrap()).unwrap();
    assert_eq!(
        (&on_stdin["verdict"], &on_stdin["suite_id"]),
        (&json!("regression"), &json!("greeter"))
    );
    assert_eq!(alerts.recv_timeout(Duration::from_secs(10)).unwrap(), on_stdin);

    // A failing hook is a warning; the verdict stays.
    let compare = ["bench", "compare", "greeter/baseline.json", "latest"];
    let shown = show(
        &compare,
        "echo the pager is off >&2; exit 7",
        "http://127.0.0.1:9/",
    );
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert!(
        shown.contains("warning: bench.alert_command: exit status: 7: the pager is off"),
        "{shown}"
    );
    assert!(shown.contains("warning: bench.alert_webhook: "), "{shown}");

    // No alert for a pass, or for an accepted regression.
    fs_err::remove_file(place.path("told.json")).unwrap();
    let passes = show(&["bench", "run", "greeter", "--gate"], "cat > told.json", &url);
    assert!(passes.starts_with("exit 0"), "{passes}");
    let accepted = [&gate[..], &["--accept-regression", "known", "--by", "me"]].concat();
    let shown = show(&accepted, "cat > told.json", &url);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(!place.path("told.json").exists() && alerts.try_recv().is_err());
}

#[test]
fn runs_comparisons_and_ablations_render_as_html_and_csv() {
    let place = Place::new();
    regressed(&place);
    let mut worse = place.command(&[
        "bench",
        "run",
        "greeter",
        "--target",
        "worse.toml",
        "--gate",
        "--format",
        "html",
    ]);
    let page = place.show(worse.env("PATH", "/usr/bin:/bin"));
    for part in [
        "exit 1",
        "<strong>Regression:</strong>",
        "Change of the pass rate by case",
        "Pass rate by case, lowest first",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let page = place.run(&["bench", "report", "latest", "--format", "html"]);
    assert!(
        page.contains("b: 0 of 1 passed") && page.contains("Answers"),
        "{page}"
    );
    let page = place.run(&[
        "bench",
        "compare",
        "greeter/baseline.json",
        "latest",
        "--format",
        "html",
    ]);
    assert!(
        page.contains("exit 1") && page.contains("Regression:") && !page.contains("<script"),
        "{page}"
    );
    let mut ablation = place.command(&[
        "bench",
        "ablation",
        "greeter/target.toml",
        "worse.toml",
        "--suite",
        "greeter",
        "--runs",
        "2",
        "--format",
        "html",
    ]);
    let page = place.show(ablation.env("PATH", "/usr/bin:/bin"));
    assert!(
        page.contains("worse compared with target") && page.contains("in units of each metric"),
        "{page}"
    );

    let table = place.run(&["bench", "report", "greeter/baseline.json", "--format", "csv"]);
    assert!(
        table.contains("run_id,suite_id,case_id,variant,repeat,status,score,latency_ms"),
        "{table}"
    );
    assert_eq!(table.matches(",greeter,").count(), 2, "{table}");
    let latest = ["bench", "list", "--runs", "--format", "json"];
    let runs = json_of(&place, &latest);
    let candidate = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|run| run["pass_rate"] == 0.5)
        .unwrap();
    let id = candidate["run_id"].as_str().unwrap();
    let table = place.run(&["bench", "compare", "greeter/baseline.json", id, "--format", "csv"]);
    assert!(table.contains("a,1,1,1,1,1,1,0,"), "{table}");
    assert!(table.contains("b,1,1,1,0,1,0,-1,"), "{table}");
}

#[test]
fn doctor_reports_sandbox_backends() {
    let place = Place::new();
    let found = place.command(&["doctor", "--format", "json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let findings = found["findings"].as_array().unwrap();
    let sandbox = findings
        .iter()
        .find(|finding| finding["part"] == "sandbox")
        .unwrap();
    assert_ne!(sandbox["health"], "bad", "{sandbox}");
}

/// Lines that a terminal of 80 columns shows: redraws end with a carriage return, and escape sequences take no space.
fn drawn_lines(screen: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut letters = screen.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.next_if_eq(&'[');
            while letters.next().is_some_and(|letter| !letter.is_ascii_alphabetic()) {}
        } else {
            plain.push(letter);
        }
    }
    plain.split(['\r', '\n']).map(str::to_owned).collect()
}

#[test]
fn the_progress_line_fits_80_columns() {
    let place = Place::new();
    let cases: Vec<serde_json::Value> = (0..1200)
        .map(|index| {
            serde_json::json!({"case_id": format!("c{index}"), "input": {"goal": "g"},
                "expected": {"mode": "exact", "value": if index % 2 == 0 { "g" } else { "h" }}})
        })
        .collect();
    let suite = serde_json::json!({"suite_id": "wide", "cases": cases});
    place.write("s/suite.json", &suite.to_string());
    place.write(
        "s/target.toml",
        "type = \"worker\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"while read -r line; do sleep 0.002; echo '{\\\"output\\\": \\\"g\\\"}'; done\"]\n",
    );
    let line = format!(
        "stty cols 80 rows 24; {} bench run s -n 2 --no-sandbox",
        env!("CARGO_BIN_EXE_satiety")
    );
    let shown = std::process::Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(place.folder.path())
        .env_clear()
        .env("HOME", place.folder.path())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let screen = String::from_utf8_lossy(&shown.stdout).into_owned();
    let lines = drawn_lines(&screen);
    let progress: Vec<&String> = lines.iter().filter(|line| line.contains("/2400")).collect();
    assert!(!progress.is_empty(), "{screen}");
    assert!(
        progress.iter().any(|line| line.contains("passed, ")),
        "{progress:?}"
    );
    for line in progress {
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
}

#[test]
fn git_names_the_person_who_accepts_a_baseline() {
    let place = Place::new();
    place.write(
        "s/suite.json",
        r#"{"suite_id": "one", "cases": [{"case_id": "a", "input": {"goal": "g"}, "expected": {"mode": "exact", "value": "g"}}]}"#,
    );
    place.write("s/target.toml", "type = \"echo\"\n");
    assert!(place.command(&["bench", "run", "s"]).status().unwrap().success());
    let accept = [
        "bench", "baseline", "latest", "--reason", "first", "--format", "json",
    ];
    let accept = |place: &Place| {
        let mut command = place.command(&accept);
        command.env("PATH", "/usr/bin:/bin").output().unwrap()
    };
    let nameless = accept(&place);
    assert_eq!(nameless.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nameless.stderr).contains("a name is required"));
    place.write(".gitconfig", "[user]\n\tname = Grace Hopper\n");
    let named = accept(&place);
    let answer: serde_json::Value = serde_json::from_slice(&named.stdout).unwrap();
    assert_eq!(answer["by"], "Grace Hopper", "{answer}");
}
