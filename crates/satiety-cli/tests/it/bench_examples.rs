//! Runs the suites of `examples/bench` as their pages describe: passing, failing and blocked cases.
//!
//! Compares results with the baselines directly instead of with `--gate`, which also compares times: those of a busy
//! machine are not meaningful.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{Place, example};

/// Runs `satiety bench …` with a `PATH`, so that the example agent's interpreter is found.
fn bench(place: &Place, arguments: &[&str]) -> Output {
    let mut command = place.command(&["bench"]);
    command
        .args(arguments)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.output().unwrap()
}

#[track_caller]
fn json(output: &Output, exit: i32) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Result of each case.
fn statuses(run: &Value) -> BTreeMap<String, String> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let results = run["results"].as_array().unwrap().iter();
    results
        .map(|result| (word(&result["case_id"]), word(&result["status"])))
        .collect()
}

fn baseline(folder: &str) -> Value {
    let path = Path::new(folder).join("baseline.json");
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

fn can_fence() -> bool {
    #[cfg(target_os = "linux")]
    {
        {
            let program = std::path::Path::new(env!("CARGO_BIN_EXE_satiety"));
            satiety_engine::bench::sandbox::helper::use_program(program);
            let required = satiety::bench::SandboxRequirement::Require;
            satiety_engine::bench::sandbox::probe().chosen(required).is_ok()
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[test]
fn results_match_the_baselines() {
    for (suite, cases, failing) in [
        ("proxy", 10, "ambiguous-after-context"),
        ("planner", 8, "hidden-order"),
        ("scorer", 8, "superseded"),
    ] {
        let place = Place::new();
        let folder = example(&format!("bench/{suite}"));
        let run = json(&bench(&place, &["run", &folder, "--gate", "--format", "json"]), 0);
        let accepted = baseline(&folder);
        // A baseline of a different suite would not compare anything.
        assert_eq!(run["suite_hash"], accepted["suite_hash"], "{suite}");
        assert_eq!(statuses(&run), statuses(&accepted), "{suite}");
        assert_eq!(statuses(&run).len(), cases, "{suite}");
        let failed: Vec<String> = statuses(&run)
            .into_iter()
            .filter(|(_, status)| status != "pass")
            .map(|(case, _)| case)
            .collect();
        assert_eq!(failed, [failing], "{suite}");
    }
}

#[test]
fn the_sandbox_blocks_every_escape_attempt() {
    if !can_fence() {
        return;
    }
    let place = Place::new();
    let folder = example("bench/executor");
    let run = json(
        &bench(&place, &["run", &folder, "--sandbox", "--format", "json"]),
        0,
    );
    assert_eq!(run["suite_hash"], baseline(&folder)["suite_hash"]);
    let found = statuses(&run);
    assert_eq!(found.len(), 12);
    assert!(found.values().all(|status| status == "pass"), "{found:?}");
}

/// Counterpart: cases that pass without a sandbox would prove nothing about it.
#[test]
fn escape_attempts_succeed_without_the_sandbox() {
    let place = Place::new();
    let folder = example("bench/executor");
    let run = json(&bench(&place, &["run", &folder, "--format", "json"]), 0);
    let found = statuses(&run);
    for case in ["escape-write", "escape-link", "escape-fork"] {
        assert_eq!(found[case], "fail", "{case}");
    }
    for case in [
        "pipe",
        "python",
        "file",
        "error-recovery",
        "error-told",
        "verified",
    ] {
        assert_eq!(found[case], "pass", "{case}");
    }
    let left = fs_err::read_dir(example("bench")).unwrap();
    let left: Vec<_> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("escaped"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "the agent must clean up");
}

#[test]
fn a_flaky_target_is_reproducible_and_fails_the_gate() {
    let (suite, flaky) = (example("bench/planner"), example("bench/flaky.toml"));
    let run = |repeats: &str| {
        let place = Place::new();
        let arguments = [
            "run",
            &suite,
            "--target",
            &flaky,
            "--repeats",
            repeats,
            "--gate",
            "--format",
            "json",
        ];
        json(&bench(&place, &arguments), 1)
    };
    let (first, second) = (run("5"), run("5"));
    let outcomes = |run: &Value| -> Vec<(Value, Value, Value)> {
        let results = run["results"].as_array().unwrap().iter();
        let of = |result: &Value| {
            (
                result["case_id"].clone(),
                result["repeat"].clone(),
                result["status"].clone(),
            )
        };
        results.map(of).collect()
    };
    assert_eq!(outcomes(&first), outcomes(&second));
    assert_eq!(first["gate"]["verdict"], "regression");
    // The output that the page shows.
    assert_eq!(first["summary"]["counts"]["pass"], 31);
    assert_eq!(
        first["summary"]["flaky"],
        serde_json::json!(["fan-in", "fan-out", "under-specified", "well-formed"])
    );
}

#[test]
fn a_skill_is_compared_with_its_absence() {
    let place = Place::new();
    let folder = example("bench/skills/shell");
    let run = json(
        &bench(&place, &["run", &folder, "--without-skill", "--format", "json"]),
        0,
    );
    assert_eq!(run["variants"]["with_skill"]["pass_rate"], 1.0);
    assert_eq!(run["variants"]["without_skill"]["pass_rate"], 0.25);
    let alone = json(&bench(&place, &["run", &folder, "--format", "json"]), 0);
    let accepted = baseline(&format!("{folder}/benchmarks"));
    assert_eq!(alone["suite_hash"], accepted["suite_hash"]);
    assert_eq!(statuses(&alone), statuses(&accepted));
}

#[test]
fn prose_without_a_judge_stays_pending() {
    let place = Place::new();
    let folder = example("bench/skills/release-notes");
    let run = json(&bench(&place, &["run", &folder, "--format", "json"]), 3);
    let found = statuses(&run);
    assert_eq!(found.len(), 2);
    assert!(found.values().all(|status| status == "pending"), "{found:?}");
    let full = json(
        &bench(&place, &["report", "latest:release-notes", "--format", "json"]),
        0,
    );
    let output = full["results"][0]["actual_output"].as_str().unwrap();
    assert!(output.starts_with("### Added\n- Add a dark theme"), "{output}");
}

#[test]
fn all_examples_can_be_checked_and_listed() {
    let place = Place::new();
    let found = json(
        &bench(&place, &["check", &example("bench"), "--format", "json"]),
        0,
    );
    let suites = found["suites"].as_array().unwrap();
    assert_eq!(suites.len(), 6);
    assert!(
        suites
            .iter()
            .all(|suite| suite["problems"].as_array().unwrap().is_empty())
    );
    assert_eq!(found["skills_without_benchmarks"], serde_json::json!([]));
}
