//! `satiety research` and `satiety gate` end to end.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Place, example, json_of};

const TASK: [&str; 7] = ["how", "do", "heat", "pumps", "cope", "with", "cold"];

fn research<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["research"], &TASK[..], more].concat()
}

#[test]
fn a_directory_is_researched_without_key_or_network() {
    let place = Place::new();
    let folder = example("research/heat-pumps");
    let report = json_of(
        &place,
        &research(&[
            "--in",
            &folder,
            "--results",
            "3",
            "--epsilon",
            "0",
            "--format",
            "json",
        ]),
    );
    assert_eq!(report["schema"], "satiety.research/1");
    assert_eq!(report["task"], "how do heat pumps cope with cold");
    let findings = report["answers"][0]["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        let number = usize::try_from(finding["source"].as_u64().unwrap()).unwrap();
        let url = report["sources"][number - 1]["url"].as_str().unwrap();
        let file = url.split('#').next().unwrap();
        let text = fs_err::read_to_string(std::path::Path::new(&folder).join(file)).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let quoted = finding["text"].as_str().unwrap();
        let quoted = quoted.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&quoted), "{finding}");
    }
    let again = json_of(
        &place,
        &research(&[
            "--in",
            &folder,
            "--results",
            "3",
            "--epsilon",
            "0",
            "--format",
            "json",
        ]),
    );
    assert_eq!(
        again["answers"], report["answers"],
        "the same directory and task must give the same result"
    );
    let status = json_of(&place, &["db", "status", "--format", "json"]);
    let rows = |table: &str| {
        let tables = status["tables"].as_array().unwrap();
        tables.iter().find(|row| row["name"] == table).unwrap()["rows"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(rows("research_runs"), 2);
    assert_eq!(rows("research_rounds"), 2 * report["searches"].as_u64().unwrap());
}

#[test]
fn the_html_report_has_numbered_sources() {
    let place = Place::new();
    let folder = example("research/heat-pumps");
    let shown = place.run(&research(&["--in", &folder, "--format", "markdown"]));
    assert!(shown.starts_with("exit 0\n"), "{shown}");
    for part in [
        "# how do heat pumps cope with cold",
        "## Sources",
        "## How this was found",
        "| round | query |",
        "Stopped because",
    ] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
}

#[test]
fn invalid_requests_get_a_hint() {
    let place = Place::new();
    for (arguments, exit, parts) in [
        (vec!["research"], 2, vec!["required"]),
        (
            research(&["--in", "nowhere"]),
            2,
            vec!["invalid source `nowhere`", "hint: use a directory"],
        ),
        (
            research(&["--in", "brave"]),
            2,
            vec!["BRAVE_API_KEY is not set", "hint: set BRAVE_API_KEY"],
        ),
        (
            research(&["--in", "."]),
            2,
            vec!["no Markdown, text, HTML or PDF file"],
        ),
        (
            research(&["--threshold", "x"]),
            2,
            vec!["--threshold x: expected a score"],
        ),
        (
            research(&["--threshold", "11"]),
            2,
            vec!["threshold must be between 0 and 10"],
        ),
        (
            research(&["--epsilon", "2"]),
            2,
            vec!["epsilon must be between 0 and 1"],
        ),
        (
            research(&["--price", "cheap"]),
            2,
            vec!["--price cheap: expected two numbers"],
        ),
        (
            research(&["--novelty", "model"]),
            2,
            vec!["needs a chat model", "SATIETY_MODELS_CHAT"],
        ),
        (
            vec!["research", "--resume", "last"],
            2,
            vec!["no unfinished research `last`"],
        ),
        (
            vec!["gate", "nowhere.jsonl"],
            2,
            vec!["cannot read nowhere.jsonl"],
        ),
        (
            vec!["gate", "-", "--novelty", "auto"],
            2,
            vec!["has no sentence model"],
        ),
    ] {
        let folder = example("research/heat-pumps");
        let mut arguments = arguments;
        // A valid source, for errors that are not about the source.
        if arguments.first() == Some(&"research") && !arguments.contains(&"--in") && arguments.len() > 3 {
            arguments.extend(["--in", &folder]);
        }
        let shown = place.run(&arguments);
        assert!(
            shown.starts_with(&format!("exit {exit}\n")),
            "{arguments:?}: {shown}"
        );
        for part in parts {
            assert!(
                shown.contains(part),
                "{arguments:?}: {part} is missing in {shown}"
            );
        }
    }
}

#[test]
fn no_results_are_inconclusive_and_a_dead_server_is_an_environment_error() {
    let place = Place::new();
    let folder = example("research/heat-pumps");
    let shown = place.run(&["research", "zyzzyva quokka", "--in", &folder]);
    assert!(shown.starts_with("exit 3\n"), "{shown}");
    assert!(
        shown.contains("not found in these sources (no source has: zyzzyva, quokka)"),
        "{shown}"
    );
    let tape = place.write(
        "searches.jsonl",
        "{\"source\":\"x\",\"query\":\"other\",\"count\":1,\"results\":[]}\n",
    );
    let shown = place.run(&[
        "research",
        "zyzzyva quokka",
        "--in",
        &format!("replay:{}", tape.display()),
    ]);
    assert!(shown.starts_with("exit 4\n"), "{shown}");
    assert!(shown.contains("search 1 failed"), "{shown}");
}

#[test]
fn the_gate_answers_line_by_line() {
    let place = Place::new();
    let rounds = example("research/rounds.jsonl");
    let output = place
        .command(&[
            "gate",
            &rounds,
            "--epsilon",
            "0",
            "--look-ahead",
            "0",
            "--format",
            "json",
        ])
        .output()
        .unwrap();
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<(&str, u64, &str, &str)> = lines
        .iter()
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap();
            (
                text("run"),
                line["round"].as_u64().unwrap(),
                text("decision"),
                text("reason"),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("repeats", 1, "continue", "first_rounds"),
            ("repeats", 2, "continue", "first_rounds"),
            ("repeats", 3, "stop", "saturated"),
            ("broken", 1, "continue", "first_rounds"),
            ("broken", 2, "continue", "failed"),
            ("broken", 3, "continue", "empty"),
            ("broken", 4, "continue", "novel"),
        ]
    );
    assert_eq!(lines[2]["accepted"], false);
    assert_eq!(lines[2]["propensity"], 1.0);
}

#[test]
fn the_stop_rule_can_be_chosen() {
    let place = Place::new();
    let round = |pages: std::ops::Range<u32>| {
        let results: Vec<Value> = pages
            .map(|page| json!({"url": format!("https://example.org/{page}"), "snippet": format!("Wing {page} bends.")}))
            .collect();
        json!({"results": results}).to_string()
    };
    let rounds = [round(0..5), round(0..5), round(0..5), round(5..10)].join("\n");
    let file = place.write("rounds.jsonl", &rounds);
    let decisions = |rule: &[&str]| {
        let file = file.to_str().unwrap();
        let arguments: Vec<&str> = ["gate", file, "--format", "json"]
            .iter()
            .chain(rule)
            .copied()
            .collect();
        let output = place.command(&arguments).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        lines
    };
    let fixed = decisions(&["--stop", "fixed", "--max-rounds", "1"]);
    assert_eq!(
        (fixed[0]["decision"].as_str(), fixed[0]["reason"].as_str()),
        (Some("stop"), Some("cap"))
    );
    let missed = decisions(&["--stop", "missed", "--max-missed", "0.1"]);
    assert_eq!(missed[0]["reason"], "first_rounds");
    assert_eq!(missed[1]["reason"], "few_missed", "{}", missed[1]);
    assert!(missed[1]["missed"]["share"].as_f64().unwrap() <= 0.1);
    assert!(
        missed[1]["words"]
            .as_str()
            .unwrap()
            .contains("of what 10 searches find is missed")
    );
    let never = decisions(&["--stop", "missed", "--max-missed", "0"]);
    assert_eq!(never[3]["reason"], "many_missed");
    let wrong = place.command(&["gate", "--max-missed", "2"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&wrong.stderr)
            .contains("maximum missed share must be between 0 and 1, not 2")
    );
}

#[test]
fn a_stop_rule_is_recommended_for_recorded_loops() {
    let place = Place::new();
    let mut lines = Vec::new();
    for run in 0..24_u32 {
        for round in 1..=4_u32 {
            // All rounds from the second on return the same page.
            let page = 100 * run + round.min(2);
            let url = format!("https://example.org/{page}");
            let results = [json!({"url": url, "snippet": format!("Fact {page} is number {page}.")})];
            lines.push(json!({"run": run, "results": results, "relevant": [url]}).to_string());
        }
    }
    let file = place.write("loops.jsonl", &lines.join("\n"));
    let file = file.to_str().unwrap();
    let found = json_of(&place, &["gate", file, "--recommend", "--format", "json"]);
    assert_eq!(found["options"], "--stop fixed --max-rounds 2", "{found}");
    assert_eq!(
        (found["loops"].as_u64(), found["rounds"].as_u64()),
        (Some(24), Some(4))
    );
    let shown = place.run(&["gate", file, "--recommend"]);
    assert!(
        shown.starts_with("exit 0\n") && shown.contains("Recommended: --stop fixed --max-rounds 2"),
        "{shown}"
    );
    let shown = place.run(&["gate", &example("research/rounds.jsonl"), "--recommend"]);
    assert!(
        shown.starts_with("exit 2\n") && shown.contains("no result is marked as useful"),
        "{shown}"
    );
}

#[test]
fn the_gate_reads_standard_input_and_can_set_the_exit_code() {
    let place = Place::new();
    let round = |words: &str| {
        format!(
            "{{\"results\": [{{\"href\": \"u\", \"body\": \"{words}\"}}], \"knowledge_state\": \"a b c\"}}\n"
        )
    };
    let run = |input: String| {
        let mut child = place
            .command(&[
                "gate",
                "--novelty",
                "seed",
                "--epsilon",
                "0",
                "--exit-code",
                "--quiet",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().status.code()
    };
    assert_eq!(run([round("x"), round("a"), round("a b")].concat()), Some(11));
    assert_eq!(run([round("x"), round("a"), round("x y")].concat()), Some(0));
    let mut bad = place
        .command(&["gate"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    bad.stdin
        .take()
        .unwrap()
        .write_all(b"{\"results\": []}\nnot json\n")
        .unwrap();
    let output = bad.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("standard input:2: "), "{stderr}");
}
