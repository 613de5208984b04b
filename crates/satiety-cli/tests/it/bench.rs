//! `satiety bench`: from the first suite to a gate, an ablation and a report, and errors on invalid input.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Place, json_of, until};

/// Suite of ten cases for a shell script that answers from a file, so that tests control the answers.
fn suite(place: &Place) {
    let cases: Vec<String> = (0..10)
        .map(|n| {
            format!(
                "[[cases]]\ncase_id = \"c{n}\"\ninput.goal = \"number {n}\"\nexpected = {{ mode = \"contains\", value = \"{n}\" }}\n"
            )
        })
        .collect();
    place.write(
        "s/suite.toml",
        &format!(
            "suite_id = \"numbers\"\ntarget = \"script\"\nversion = \"1.0.0\"\n{}",
            cases.concat()
        ),
    );
    place.write(
        "s/target.toml",
        "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"{{base}}/agent.sh\"]\n",
    );
    place.write("s/agent.sh", GOAL);
}

/// Script of a target that answers with the goal.
const GOAL: &str = "sed 's/.*\"goal\":\"\\([^\"]*\\)\".*/\\1/'\n";

fn run(place: &Place, more: &[&str]) -> Value {
    json_of(
        place,
        &[&["bench", "run", "s", "--format", "json"], more].concat(),
    )
}

fn code(place: &Place, arguments: &[&str]) -> Option<i32> {
    place.command(arguments).output().unwrap().status.code()
}

#[test]
fn a_generated_suite_runs() {
    let place = Place::new();
    let text = place.run(&["bench", "init", "suites/greeter"]);
    assert!(text.starts_with("exit 0"), "{text}");
    let found = json_of(&place, &["bench", "run", "suites/greeter", "--format", "json"]);
    assert_eq!(found["summary"]["pass_rate"], 1.0);
    assert_eq!(found["summary"]["cases"], 3);
    let text = place.run(&["bench", "init", "suites/greeter"]);
    assert!(
        text.starts_with("exit 2") && text.contains("already exists"),
        "{text}"
    );
    let text = place.run(&["bench", "check", "suites"]);
    assert!(text.starts_with("exit 0") && text.contains("greeter"), "{text}");
}

#[test]
fn the_gate_passes_fails_or_is_inconclusive() {
    let place = Place::new();
    suite(&place);
    let text = place.run(&["bench", "run", "s", "--gate"]);
    assert!(
        text.starts_with("exit 2") && text.contains("cannot gate numbers: it has no baseline"),
        "{text}"
    );

    let first = run(&place, &["-n", "5"]);
    assert_eq!(first["summary"]["counts"]["pass"], 50);
    assert_eq!(first["results"].as_array().unwrap().len(), 50);
    assert!(
        first["power"]["text"]
            .as_str()
            .unwrap()
            .starts_with("10 cases x 5 repeats"),
        "{}",
        first["power"]
    );
    let id = first["run_id"].as_str().unwrap();
    let accepted = json_of(
        &place,
        &[
            "bench", "baseline", id, "--suite", "s", "--reason", "first", "--by", "ann", "--format", "json",
        ],
    );
    assert_eq!(
        (accepted["by"].as_str(), accepted["reason"].as_str()),
        (Some("ann"), Some("first"))
    );
    assert!(place.path("s/baseline.json").is_file());

    assert_eq!(code(&place, &["bench", "run", "s", "-n", "5", "--gate"]), Some(0));
    // Three of ten cases break permanently.
    place.write(
        "s/agent.sh",
        &format!("{} | sed 's/number [123]/nothing/'\n", GOAL.trim_end()),
    );
    let text = place.run(&[
        "bench",
        "run",
        "s",
        "-n",
        "5",
        "--gate",
        "--junit",
        "j.xml",
        "--markdown",
        "pr.md",
        "--prometheus",
        "m.prom",
    ]);
    assert!(
        text.starts_with("exit 1") && text.contains("REGRESSION"),
        "{text}"
    );
    let read = |name| fs_err::read_to_string(place.path(name)).unwrap();
    assert!(read("pr.md").contains("Regression"), "{}", read("pr.md"));
    assert!(read("j.xml").contains("<failure"), "{}", read("j.xml"));
    assert!(
        read("m.prom").contains("satiety_benchmark_pass_rate{"),
        "{}",
        read("m.prom")
    );
    // Accepted explicitly, with a name.
    let why = ["--accept-regression", "known, see 12", "--by", "bo"];
    let text = place.run(&[&["bench", "run", "s", "-n", "5", "--gate"], &why[..]].concat());
    assert!(
        text.starts_with("exit 0") && text.contains("regression accepted by bo: known, see 12"),
        "{text}"
    );
    // One repeat of one broken case is within random variation.
    place.write(
        "s/agent.sh",
        &format!("{} | sed 's/number 1/nothing/'\n", GOAL.trim_end()),
    );
    assert_eq!(code(&place, &["bench", "run", "s", "-n", "1", "--gate"]), Some(3));
    let compare = ["bench", "compare", "s/baseline.json", "latest:numbers"];
    assert_eq!(code(&place, &compare), Some(3));
    let text = place.run(&[&compare[..], &["--format", "markdown"]].concat());
    assert!(text.contains("Inconclusive"), "{text}");
}

#[test]
fn removed_cases_are_regressions_and_edited_cases_are_not() {
    let place = Place::new();
    suite(&place);
    let first = run(&place, &["-n", "2"]);
    let id = first["run_id"].as_str().unwrap();
    place.run(&[
        "bench", "baseline", id, "--suite", "s", "--reason", "r", "--by", "a",
    ]);
    let text = fs_err::read_to_string(place.path("s/suite.toml")).unwrap();
    place.write(
        "s/suite.toml",
        &text.replace("number 3", "number three, that is 3"),
    );
    let text = place.run(&["bench", "run", "s", "-n", "2", "--gate", "--format", "json"]);
    assert!(
        text.starts_with("exit 0") && text.contains("c3 was edited since the baseline"),
        "{text}"
    );
    let only_nine = fs_err::read_to_string(place.path("s/suite.toml")).unwrap();
    let cut = only_nine.find("[[cases]]\ncase_id = \"c9\"").unwrap();
    place.write("s/suite.toml", &only_nine[..cut]);
    let text = place.run(&["bench", "run", "s", "-n", "2", "--gate"]);
    assert!(text.starts_with("exit 1") && text.contains("c9"), "{text}");
}

#[test]
fn an_interrupted_run_resumes() {
    let place = Place::new();
    suite(&place);
    let calls = place.path("calls");
    place.write(
        "s/slow.toml",
        &format!(
            "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo >> '{}'; sleep 0.3; cat\"]\n",
            calls.display()
        ),
    );
    let mut child = place
        .command(&["bench", "run", "s", "--target", "s/slow.toml", "-j", "1"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // The first results are stored when the fourth call begins.
    until("four calls", Duration::from_mins(1), || {
        fs_err::read(&calls).is_ok_and(|lines| lines.len() >= 4)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let found = run(&place, &["--target", "s/slow.toml", "-j", "4", "--resume"]);
    let resumed = found["resumed"].as_u64().unwrap();
    assert!((1..10).contains(&resumed), "{resumed}");
    assert_eq!(found["summary"]["counts"]["pass"], 10);
    let runs = json_of(&place, &["bench", "list", "--runs", "--format", "json"]);
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
    // Different input starts a different run.
    let text = place.run(&["bench", "run", "s", "--target", "echo", "--resume"]);
    assert!(
        text.starts_with("exit 2") && text.contains("`target_hash` has changed"),
        "{text}"
    );
}

/// Accepts a run of the suite with this many repeats.
fn accept(place: &Place, repeats: &str) {
    let found = run(place, &["-n", repeats]);
    let id = found["run_id"].as_str().unwrap();
    let text = place.run(&[
        "bench", "baseline", id, "--suite", "s", "--reason", "r", "--by", "a",
    ]);
    assert!(text.starts_with("exit 0"), "{text}");
}

#[test]
fn a_run_is_repeated_until_the_gate_decides() {
    let place = Place::new();
    suite(&place);
    accept(&place, "5");
    let until = ["-n", "5", "--until-decided"];
    let found = run(&place, &until);
    assert_eq!(found["gate"]["verdict"], "pass", "{}", found["gate"]);
    let round = found["gate"]["look"]["round"].as_u64().unwrap();
    assert!((1..20).contains(&round), "{round} rounds");
    assert_eq!(found["results"].as_array().unwrap().len() as u64, 10 * round);
    assert_eq!(found["budget"]["max_calls"], 200);
    // The baseline is repeated as well once the candidate has as many results, which takes more rounds here.
    let both = [
        "-n",
        "5",
        "--until-decided=2",
        "--baseline-target",
        "s/target.toml",
        "--margin",
        "0.04",
        "--dry-run",
    ];
    let planned = run(&place, &both);
    assert_eq!(planned["budget"]["max_calls"], 200);
    assert!(planned["budget"]["text"].as_str().unwrap().contains("10 rounds"));
    let text = place.run(&["bench", "run", "s", "--until-decided", "--max-calls", "9"]);
    assert!(
        text.starts_with("exit 2")
            && text.contains("a budget of 9 calls is too small for a round of 10 cases"),
        "{text}"
    );
    place.write("s/agent.sh", "echo no\n");
    let text = place.run(&["bench", "run", "s", "-n", "5", "--until-decided"]);
    assert!(
        text.starts_with("exit 1") && text.contains("REGRESSION"),
        "{text}"
    );
}

#[test]
fn one_dead_case_with_a_small_baseline_stays_inconclusive() {
    let place = Place::new();
    suite(&place);
    accept(&place, "1");
    place.write(
        "s/agent.sh",
        "sed 's/.*\"goal\":\"\\([^\"]*\\)\".*/\\1/; s/3/three/'\n",
    );
    let gated = ["bench", "run", "s", "--until-decided"];
    let text = place.run(&gated);
    assert!(text.starts_with("exit 3") && text.contains("c3"), "{text}");
    for (what, exit) in [("fail", 1), ("pass", 0), ("report", 3)] {
        let arguments = [&gated[..], &["--on-inconclusive", what]].concat();
        assert_eq!(code(&place, &arguments), Some(exit), "{what}");
    }
    let repeat = ["bench", "run", "s", "--on-inconclusive", "repeat", "--dry-run"];
    let text = place.run(&repeat);
    assert!(text.contains("budget: up to 40 calls"), "{text}");
}

#[test]
fn a_command_can_judge() {
    let place = Place::new();
    place.write(
        "s/suite.yaml",
        "suite_id: prose\ntarget: t\nversion: 1.0.0\ncases:\n- {case_id: a, input: {goal: a good text}, expected: {mode: llm_judge, value: is it good, threshold: 0.5}}\n- {case_id: b, input: {goal: a bad text}, expected: {mode: llm_judge, value: is it good, threshold: 0.5}}\n",
    );
    // Like an agent's command line: the question on stdin, prose and a fenced object on stdout.
    place.write(
        "judge.sh",
        "if grep -q 'a good text'; then score=1; else score=0; fi\nprintf 'Here it is:\\n```json\\n{\"score\": %s, \"reason\": \"because\"}\\n```\\n' $score\n",
    );
    let judge = format!("exec:/bin/sh {}", place.path("judge.sh").display());
    let found = run(&place, &["--target", "echo", "--judge", &judge]);
    let counts = &found["summary"]["counts"];
    assert_eq!(
        (&counts["pass"], &counts["fail"]),
        (&1.into(), &1.into()),
        "{counts}"
    );
    // A judge that fails says nothing about the target.
    let text = place.run(&[
        "bench",
        "run",
        "s",
        "--target",
        "echo",
        "--judge",
        "exec:/bin/false",
    ]);
    assert!(
        text.starts_with("exit 3") && text.contains("the command failed"),
        "{text}"
    );
    let text = place.run(&["bench", "run", "s", "--target", "echo", "--judge", "exec:"]);
    assert!(
        text.starts_with("exit 2") && text.contains("has no command"),
        "{text}"
    );
}

/// A stand-in for a command-line agent: it takes the same flags, reads the goal on stdin, and finds the skill where the
/// real one looks for it.
#[test]
fn a_command_line_agent_gets_the_skill_without_its_evals() {
    let place = Place::new();
    place.write(
        "skills/tidy/SKILL.md",
        "---\nname: tidy\ndescription: Tidies.\n---\nSay tidy.\n",
    );
    place.write(
        "skills/tidy/evals/evals.json",
        r#"{"skill_name": "tidy", "evals": [{"id": 1, "prompt": "Clean up.", "expected_output": "tidy", "expectations": ["says tidy"]}]}"#,
    );
    place.write(
        "bin/claude",
        "#!/bin/sh\n[ \"$1 $2 $3\" = '-p --permission-mode bypassPermissions' ] || exit 9\nread -r goal\nls .claude/skills/tidy | tr '\\n' ' '\necho \"$goal\"\n",
    );
    let script = place.path("bin/claude");
    fs_err::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.write(
        "judge.sh",
        "if grep -q 'SKILL.md Clean up'; then met=true; else met=false; fi\nprintf '{\"criteria\": [{\"number\": 1, \"met\": %s, \"reason\": \"r\"}, {\"number\": 2, \"met\": %s, \"reason\": \"r\"}]}' $met $met\n",
    );
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = root.join("examples/bench/targets/claude-code.toml");
    let path = format!(
        "{}:{}",
        place.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let judge = format!("exec:/bin/sh {}", place.path("judge.sh").display());
    let output = place
        .command(&[
            "bench",
            "run",
            "skills/tidy",
            "--format",
            "json",
            "--judge",
            &judge,
            "--target",
        ])
        .arg(target)
        .env("PATH", path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|_| {
        panic!("{text}{}", String::from_utf8_lossy(&output.stderr));
    });
    assert_eq!(found["summary"]["counts"]["pass"], 1, "{found}");
}

#[test]
fn the_start_of_a_worker_is_not_the_latency_of_its_first_case() {
    let place = Place::new();
    suite(&place);
    place.write(
        "s/worker.sh",
        "sleep 0.7\nwhile read -r line; do echo '{\"output\": \"0123456789\"}'; done\n",
    );
    place.write(
        "s/worker.toml",
        "type = \"worker\"\ncommand = \"/bin/sh\"\nargs = [\"{{base}}/worker.sh\"]\nworkers = 1\n",
    );
    let found = run(&place, &["--target", "s/worker.toml"]);
    assert_eq!(found["summary"]["counts"]["pass"], 10);
    for result in found["results"].as_array().unwrap() {
        let latency = result["latency_ms"].as_f64().unwrap();
        assert!(latency < 600.0, "{result}");
    }
}

#[test]
fn an_ablation_is_not_a_baseline() {
    let place = Place::new();
    suite(&place);
    place.write("s/other.toml", "type = \"echo\"\n");
    let arguments = [
        "bench",
        "ablation",
        "s/target.toml",
        "s/other.toml",
        "--suite",
        "s",
        "-n",
        "1",
    ];
    place.run(&arguments);
    let accept = [
        "bench",
        "baseline",
        "latest:numbers",
        "--reason",
        "r",
        "--by",
        "a",
    ];
    let text = place.run(&accept);
    assert!(
        text.starts_with("exit 2") && text.contains("it is an ablation of several targets"),
        "{text}"
    );
}

#[test]
fn an_ablation_ships_a_harmless_change() {
    let place = Place::new();
    suite(&place);
    for (name, script) in [
        ("control", "cat"),
        ("same", "cat; true"),
        ("worse", "sed s/number/x/; echo"),
    ] {
        let text = format!("type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"{script}\"]\n");
        place.write(&format!("{name}.toml"), &text);
    }
    place.write(
        "worse.toml",
        "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo no\"]\n",
    );
    let base = ["bench", "ablation", "control.toml"];
    let more = ["--suite", "s", "-n", "2", "--metric", "pass=0.05"];
    let text = place.run(&[&base[..], &["same.toml"], &more].concat());
    assert!(
        text.starts_with("exit 0") && text.contains("SHIPS same compared with control"),
        "{text}"
    );
    let text = place.run(&[&base[..], &["worse.toml", "same.toml"], &more].concat());
    assert!(
        text.starts_with("exit 1") && text.contains("HARMFUL worse"),
        "{text}"
    );
    let text = place.run(&[&base[..], &["same.toml"], &more, &["--format", "markdown"]].concat());
    assert!(text.contains("| "), "{text}");
    let text = place.run(&[&base[..], &["same.toml", "--suite", "s", "--metric", "pass"]].concat());
    assert!(
        text.starts_with("exit 2") && text.contains("cannot parse margin"),
        "{text}"
    );
    let text = place.run(&[
        "bench",
        "ablation",
        "control.toml",
        "control.toml",
        "--suite",
        "s",
    ]);
    assert!(
        text.starts_with("exit 2") && text.contains("duplicate target"),
        "{text}"
    );
}

#[test]
fn answers_are_cached_per_repeat() {
    let place = Place::new();
    suite(&place);
    // Every answer contains the number of answers so far.
    place.write("s/agent.sh", "echo x >> \"$COUNT\"; cat; wc -l < \"$COUNT\"\n");
    let count = place.path("count");
    let target = format!(
        "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"{{{{base}}}}/agent.sh\"]\n[set_env]\nCOUNT = \"{}\"\n",
        count.display()
    );
    place.write("s/target.toml", &target);
    let lines = || fs_err::read_to_string(&count).unwrap().lines().count();
    run(&place, &["-n", "2", "--cache"]);
    assert_eq!(lines(), 20);
    run(&place, &["-n", "3", "--cache"]);
    assert_eq!(lines(), 30);
    run(&place, &["-n", "3"]);
    assert_eq!(lines(), 60);
}

#[test]
fn errors_name_file_and_field() {
    let place = Place::new();
    suite(&place);
    place.write("typo/suite.json", "{\"suite_id\": \"t\", \"target\": \"x\", \"version\": \"1.0.0\", \"cases\": [{\"case_id\": \"a\", \"input\": {\"goal\": \"g\"}, \"expected\": {\"mode\": \"contians\", \"value\": \"x\"}}]}");
    place.write("odd.toml", "type = \"exec\"\ncomand = \"x\"\n");
    place.write(
        "odd/suite.toml",
        "suite_id = \"o\"\ntarget = \"x\"\nversion = \"1.0.0\"\n[[cases]]\ninput.goal = 3\ncase_id = \"a\"\nexpected = { mode = \"exact\", value = \"x\" }\n",
    );
    for (arguments, message) in [
        (&["bench", "run", "nowhere"][..], "no suite found at nowhere"),
        (&["bench", "run", "typo"], "cases[0].expected.mode"),
        (&["bench", "check", "typo"], "did you mean `contains`"),
        (&["bench", "run", "s", "--target", "odd.toml"], "odd.toml:2: "),
        (
            &["bench", "check", "odd"],
            "odd/suite.toml:5: cases[0].input.goal",
        ),
        (
            &["bench", "run", "s", "--target", "fax:123"],
            "not a short form of a target",
        ),
        (
            &["bench", "run", "s", "--case", "c99"],
            "case `c99` not found in numbers",
        ),
        (
            &["bench", "run", "s", "--target", "echo", "--sandbox"],
            "it starts no process",
        ),
        (&["bench", "report", "run-none"], "run `run-none` not found"),
        (
            &["bench", "compare", "typo/suite.json", "latest"],
            "cannot read typo/suite.json: it has no results of a known tool",
        ),
        (
            &["bench", "run", "s", "--without-skill"],
            "is not the suite of a skill",
        ),
    ] {
        let text = place.run(arguments);
        assert!(
            text.starts_with("exit 2") && text.contains(message),
            "{arguments:?}: {text}"
        );
    }
    // A missing program is a harness error, not a failure of the target, and nothing is decided.
    let text = place.run(&["bench", "run", "s", "--target", "exec:/no/such/program"]);
    assert!(
        text.starts_with("exit 3") && text.contains("errors caused by the harness"),
        "{text}"
    );
    assert_eq!(
        code(&place, &["bench", "run", "s", "--fail-under", "0.9"]),
        Some(0)
    );
    place.write("s/agent.sh", "echo no\n");
    assert_eq!(
        code(&place, &["bench", "run", "s", "--fail-under", "0.9"]),
        Some(1)
    );
}
