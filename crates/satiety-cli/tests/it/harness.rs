//! `satiety harness` from cycles to a signed and applied expansion, and the requests it refuses.

use serde_json::json;

use crate::harness_support::{Lab, PASSPHRASE};

#[test]
fn a_saturated_suite_is_detected_expanded_signed_and_applied() {
    let lab = Lab::new(8);
    let (out, _) = lab.expect(0, &["harness", "status"]);
    assert!(out.contains("next: run the suites"), "{out}");
    lab.expect(2, &["harness", "record"]);
    let ninth = lab.cycles(9);
    assert_eq!(ninth["action"], "CONTINUE");
    assert_eq!(ninth["reason"], "Insufficient data: 9 cycles");
    // Repeating the check is not new evidence.
    let (_, err) = lab.expect(2, &["harness", "record"]);
    assert!(err.contains("no suite was run since cycle"), "{err}");
    let tenth = lab.cycles(1);
    assert_eq!(
        (&tenth["action"], &tenth["urgency"]),
        (&json!("TRIGGER_EXPANSION_RESEARCH"), &json!("CRITICAL"))
    );
    assert_eq!(tenth["measured"]["verdict"], "SATURATED");
    // The specification's own formula is shown next to ours: here 0.30 for the ceiling and 0.25 for the regression tier,
    // without its trend, which settled gains do not have.
    let status = lab.json(0, &["harness", "status"]);
    let literal = status["literal_score"].as_f64().unwrap();
    let newest = status["history"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .as_f64()
        .unwrap();
    assert!(
        (literal - 0.425).abs() < 1e-9 && newest > literal,
        "{literal} {newest}"
    );
    // One expansion per version, regardless of the number of cycles.
    let next = lab.cycles(1);
    assert_eq!(next["action"], "CONTINUE");
    assert_eq!(next["expansion_id"], tenth["expansion_id"]);

    // The brief is generated from the data.
    let (prompt, _) = lab.expect(0, &["harness", "status", "--prompt"]);
    assert!(
        prompt.contains("- echoes/c00") && prompt.contains("echoes/pass_rate: 0.5 could be 0.6667"),
        "{prompt}"
    );

    let (yaml, _) = lab.expect(0, &["harness", "expand", "--dry-run", "--yaml"]);
    assert!(yaml.starts_with("expansion_proposals:\n"), "{yaml}");
    lab.place.write("proposals.yaml", &yaml);
    lab.expect(2, &["harness", "apply"]);
    let proposed = lab.json(0, &["harness", "propose", "proposals.yaml"]);
    assert_eq!(proposed["diff"]["admissible"], true);
    let hash = proposed["proposal_hash"].as_str().unwrap();

    // Approval needs a person at a terminal.
    let (_, err) = lab.expect(2, &["harness", "approve", "--key", "anna.key"]);
    assert!(err.contains("cannot open the terminal"), "{err}");
    let asks = "hash to approve it: ";
    let (code, seen) = lab.at_a_terminal(
        &[(asks, "ffffffff")],
        &["harness", "approve", "--key", "anna.key"],
    );
    assert_eq!(code, 2, "{seen}");
    let wrong = [(asks, &hash[..8]), ("passphrase of anna", "incorrect horse")];
    let (code, seen) = lab.at_a_terminal(&wrong, &["harness", "approve", "--key", "anna.key"]);
    assert!(code == 2 && seen.contains("wrong passphrase"), "{code} {seen}");
    let right = [(asks, &hash[..8]), ("passphrase of anna", PASSPHRASE)];
    let (code, seen) = lab.at_a_terminal(&right, &["harness", "approve", "--key", "anna.key"]);
    assert!(
        code == 0 && seen.contains("was approved by anna"),
        "{code} {seen}"
    );
    assert!(
        seen.contains("thresholds.echoes/pass_rate: raised from 0.5 to 0.6667"),
        "{seen}"
    );

    let applied = lab.json(0, &["harness", "apply"]);
    assert_eq!(
        (&applied["phase"], applied["outcomes"].as_array().unwrap().len()),
        (&json!("done"), 8)
    );
    let rules = fs_err::read_to_string(lab.place.path("suites/harness.toml")).unwrap();
    assert!(
        rules.starts_with("# Kept by hand.\n") && rules.contains("0.6667"),
        "{rules}"
    );
    lab.expect(0, &["harness", "verify"]);
    // The new version starts a new window.
    let status = lab.status();
    assert_eq!(
        (&status["cycles_tracked"], &status["recorded"]),
        (&json!(0), &json!(true))
    );
    assert_eq!(lab.cycles(1)["rolling_metrics"]["consecutive_high_count"], 1);
    let (history, _) = lab.expect(0, &["harness", "history", "--limit", "100"]);
    for kind in [
        "adopted",
        "cycle",
        "triggered",
        "proposed",
        "approved",
        "archived",
        "enabled",
        "committed",
        "done",
    ] {
        assert!(history.contains(kind), "{kind}\n{history}");
    }
}

#[test]
fn a_too_hard_expansion_is_rolled_back_to_the_byte() {
    let lab = Lab::new(4);
    lab.settings(&[&lab.key], "notify_command = \"cat > told.json\"\n");
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    let before = lab.files();
    lab.propose(0, &[("n1", false), ("n2", true), ("n3", false)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    let applied = lab.json(1, &["harness", "apply"]);
    assert_eq!(applied["phase"], "rolled_back");
    let why = applied["ended"]["why"].as_str().unwrap();
    assert!(why.starts_with("2 of 3 new cases fail immediately"), "{why}");
    let mut after = lab.files();
    after.retain(|name, _| !name.contains(".harness"));
    assert_eq!(after, before);
    let told = fs_err::read_to_string(lab.place.path("told.json")).unwrap();
    assert!(
        told.contains("FLAG_FOR_REVIEW") && told.contains("harness_rollback"),
        "{told}"
    );
    let (history, _) = lab.expect(0, &["harness", "history"]);
    assert!(history.contains("restored"), "{history}");
    lab.expect(0, &["harness", "verify"]);
    // The expansion is finished; the next one may start.
    lab.propose(0, &[("n2", true)]);
}

#[test]
fn an_expansion_may_fail_half_of_the_new_tests() {
    let lab = Lab::new(4);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.propose(0, &[("n1", false), ("n2", true)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    let applied = lab.json(0, &["harness", "apply"]);
    assert_eq!(applied["phase"], "done");
}

#[test]
fn a_failing_baseline_rolls_the_expansion_back() {
    let lab = Lab::new(6);
    lab.agent("cat\n");
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.expect(0, &["bench", "baseline", "latest", "--reason", "first"]);
    lab.propose(0, &[("n1", true)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    // The system now answers the new cases correctly and the old ones wrong.
    lab.agent("g=$(cat); case $g in n1) printf n1;; *) printf no;; esac\n");
    let applied = lab.json(1, &["harness", "apply"]);
    let why = applied["ended"]["why"].as_str().unwrap();
    assert!(why.contains("no longer passes at baseline"), "{why}");
}

#[test]
fn a_new_suite_is_added_and_removed_atomically() {
    let lab = Lab::new(3);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    let case = |id: &str, answer: &str| json!({"case_id": id, "input": {"goal": id}, "expected": {"mode": "exact", "value": answer}});
    for (answer, code) in [("wrong", 1), ("x1", 0)] {
        let content = json!({"expansion_proposals": {"new_benchmarks": [
            {"id": "extra", "name": "Extra", "purpose": "p", "expected_difficulty": "harder", "cases": [case("x1", answer)]}]}});
        lab.place.write("p.json", &content.to_string());
        lab.expect(0, &["harness", "propose", "p.json"]);
        lab.approve(0, &lab.signed(&lab.key, 0, 24));
        lab.expect(code, &["harness", "apply", "--target", "echo"]);
        assert_eq!(lab.place.path("suites/extra/suite.json").exists(), code == 0);
        assert!(!lab.place.path("suites/.extra.partial").exists());
    }
}

#[test]
fn retiring_a_case_needs_a_signature_and_a_replacement() {
    let lab = Lab::new(4);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.json(0, &["harness", "record"]);
    lab.expect(0, &["harness", "lock"]);
    fs_err::copy(
        lab.place.path("suites/harness.lock"),
        lab.place.path("before.lock"),
    )
    .unwrap();
    let content = json!({"expansion_proposals": {"retirements": [{"suite": "echoes", "case_id": "c01",
        "reason": "its answer depends on the day", "audited_by": "anna",
        "replacement": {"case_id": "c01b", "input": {"goal": "c01b"}, "expected": {"mode": "exact", "value": "c01b"}}}]}});
    lab.place.write("p.json", &content.to_string());
    lab.expect(0, &["harness", "propose", "p.json"]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    lab.json(0, &["harness", "apply"]);
    assert!(!lab.place.path("suites/echoes/cases/c01.json").exists());
    // A build without the database sees the signature in the repository.
    let (out, _) = lab.expect(0, &["harness", "check", "before.lock", "suites"]);
    assert!(out.contains("retired as broken"), "{out}");
    fs_err::remove_dir_all(lab.place.path("suites/.harness/approvals")).unwrap();
    let (out, _) = lab.expect(1, &["harness", "check", "before.lock", "suites"]);
    assert!(out.contains("needs a signature: suites.echoes.c01"), "{out}");
}

#[test]
fn the_hook_records_a_cycle_after_a_gated_run() {
    let lab = Lab::new(4);
    lab.settings(&[&lab.key], "record = true\n");
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.expect(0, &["bench", "baseline", "latest", "--reason", "first"]);
    let (_, err) = lab.expect(0, &["bench", "run", "suites/echoes", "--gate"]);
    assert!(err.contains("harness: CRITICAL 1.00"), "{err}");
    let status = lab.status();
    assert_eq!(status["cycles_tracked"], 1);
    let metrics = &status["metrics"];
    assert_eq!(
        (&metrics["benchmark_ceiling_rate"], &metrics["proposal_pass_rate"]),
        (&json!(1.0), &json!(1.0))
    );
    // A threshold is checked, too.
    lab.place.write("suites/harness.toml", "[thresholds]\n\"echoes/pass_rate\" = { value = 0.5, direction = \"higher\" }\n\"echoes/mean_latency_ms\" = { value = -1.0, direction = \"lower\" }\n");
    lab.expect(1, &["bench", "run", "suites/echoes", "--gate"]);
}

#[test]
fn metrics_are_read_from_a_file_and_validated() {
    let lab = Lab::new(3);
    let snapshot = json!({"cycle_id": "cycle-1735600000000", "timestamp": "2025-12-30T15:00:00Z",
        "metrics": {"benchmark_ceiling_rate": 0.82, "regression_pass_rate": 1.0, "improvement_delta": 0.03,
            "proposal_pass_rate": 0.88, "auditor_unanimous_rate": 0.92},
        "saturation_score": 0.78, "saturation_level": "HIGH", "x-schema-version": "1.0"});
    lab.place.write("cycle.json", &snapshot.to_string());
    let recorded = lab.json(0, &["harness", "record", "--metrics", "cycle.json"]);
    // The value comes from the formula, not from the specification's example.
    assert!((recorded["snapshot"]["saturation_score"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    let key = "eval-harness/saturation/cycles/cycle-1735600000000";
    let kept: serde_json::Value =
        serde_json::from_str(&lab.expect(0, &["harness", "history", "--key", key]).0).unwrap();
    assert_eq!(
        (&kept["x-schema-version"], &kept["x-namespace"]),
        (&json!("1.0"), &json!(key))
    );
    // Recording the same run again changes nothing.
    lab.json(0, &["harness", "record", "--metrics", "cycle.json"]);
    assert_eq!(lab.status()["cycles_tracked"], 1);
    for (metrics, says) in [
        (
            r#"{"benchmark_ceiling_rate": 82}"#,
            "benchmark_ceiling_rate is 82 (expected",
        ),
        (
            r#"{"benchmark_ceiling_rate": "high"}"#,
            "metrics.benchmark_ceiling_rate",
        ),
        (r#"{"ceiling": 1}"#, "unknown field `ceiling`"),
        (
            r#"{"cycle_id": "../x", "metrics": {"benchmark_ceiling_rate": 1}}"#,
            "invalid id `",
        ),
        ("{", "m.json: EOF"),
    ] {
        lab.place.write("m.json", metrics);
        let (_, err) = lab.expect(2, &["harness", "record", "--metrics", "m.json"]);
        assert!(err.contains(says), "{err} has no {says}");
    }
    assert_eq!(lab.status()["cycles_tracked"], 1);
    lab.expect(0, &["harness", "audit", "add", "--auditor", "a", "--accept"]);
    lab.expect(
        0,
        &[
            "harness",
            "audit",
            "add",
            "--auditor",
            "b",
            "--reject",
            "--note",
            "no",
        ],
    );
    lab.expect(
        2,
        &[
            "harness",
            "audit",
            "add",
            "--auditor",
            "b",
            "--reject",
            "--cycle",
            "nope",
        ],
    );
    let (out, _) = lab.expect(0, &["harness", "audit", "list"]);
    assert!(
        out.contains("rejects") && out.contains("cycle-1735600000000"),
        "{out}"
    );
    assert_eq!(lab.status()["metrics"]["auditor_unanimous_rate"], 0.0);
}

#[test]
fn invalid_input_is_reported_and_changes_nothing() {
    let lab = Lab::new(3);
    lab.cycles(1);
    let edge = |case: &str| {
        format!(
            "expansion_proposals:\n  new_edge_cases:\n    - {{category: c, description: d, expected_failure_mode: f, suite: echoes, case: {case}}}\n"
        )
    };
    for (text, code, says) in [
        ("expansion_proposals:\n  threshold_increases:\n    - {benchmark: echoes/pass_rate, current: 0.5, proposed: 0.4, rationale: r}\n".to_owned(), 1, "lowered from 0.5 to 0.4"),
        ("expansion_proposals:\n  threshold_increases:\n    - {benchmark: echoes/pass_rate, current: 0.9, proposed: 0.95, rationale: r}\n".to_owned(), 2, "changes echoes/pass_rate from 0.9"),
        ("expansion_proposals:\n  threshold_increases: 3\n".to_owned(), 2, "threshold_increases"),
        (edge("{case_id: ../../evil, input: {goal: g}, expected: {mode: exact, value: x}}"), 2, "invalid file name"),
        (edge("{case_id: c00, input: {goal: g}, expected: {mode: exact, value: x}}"), 2, "already exists"),
        (edge("{case_id: new, input: {goal: g, files: [nowhere.txt]}, expected: {mode: exact, value: x}}"), 2, "nowhere.txt"),
        ("expansion_proposals:\n  new_benchmarks:\n    - {id: i, name: name, purpose: p, expected_difficulty: h}\n".to_owned(), 2, "changes nothing"),
    ] {
        lab.place.write("p.yaml", &text);
        let (_, err) = lab.expect(code, &["harness", "propose", "p.yaml"]);
        assert!(err.contains(says), "{err} has no {says}");
    }
    assert_eq!(lab.status()["expansion"], json!(null));
    let (_, err) = lab.expect(2, &["harness", "status", "--harness", "nowhere"]);
    assert!(err.contains("directory not found: nowhere"), "{err}");
    lab.place.write(
        "suites/harness.toml",
        "[thresholds]\n\"echoes/beauty\" = { value = 1, direction = \"higher\" }\n",
    );
    let (_, err) = lab.expect(2, &["harness", "status"]);
    assert!(err.contains("unknown threshold \"echoes/beauty\""), "{err}");
    lab.place.write("suites/harness.toml", "alpha = 7\n");
    let (_, err) = lab.expect(2, &["harness", "status"]);
    assert!(err.contains("alpha is 7 (expected"), "{err}");
    lab.place.write("suites/harness.toml", "alhpa = 0.1\n");
    let (_, err) = lab.expect(2, &["harness", "status"]);
    assert!(err.contains("alhpa"), "{err}");
}

#[test]
fn check_needs_no_database_and_reads_commits() {
    let lab = Lab::new(4);
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(arguments)
            .current_dir(lab.place.folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q"]);
    git(&["add", "suites", "satiety.toml"]);
    git(&["commit", "-qm", "suites"]);
    let store = lab.place.path("s.db");
    lab.expect(0, &["harness", "check", "git:HEAD", "suites"]);
    lab.place.write(
        "suites/echoes/cases/new.json",
        r#"{"case_id": "new", "input": {"goal": "n"}, "expected": {"mode": "exact", "value": "n"}}"#,
    );
    let (out, _) = lab.expect(0, &["harness", "check", "git:HEAD:suites", "suites"]);
    assert!(
        out.contains("at least as rigorous") && out.contains("suites.echoes.new: a new case"),
        "{out}"
    );
    fs_err::remove_file(lab.place.path("suites/echoes/cases/c00.json")).unwrap();
    lab.place.write("suites/echoes/cases/c01.json", r#"{"case_id": "c01", "skip": "later", "input": {"goal": "c01"}, "expected": {"mode": "exact", "value": "c01"}}"#);
    lab.place.write("suites/harness.toml", "alpha = 0.1\n");
    let found = lab.json(1, &["harness", "check", "git:HEAD", "suites"]);
    let weaker: Vec<&str> = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| change["rigor"] == "weaker")
        .map(|change| change["place"].as_str().unwrap())
        .collect();
    for place in [
        "alpha",
        "suites.echoes.c00",
        "suites.echoes.c01",
        "thresholds.echoes/pass_rate",
    ] {
        assert!(
            weaker.iter().any(|found| found.starts_with(place)),
            "{place}: {weaker:?}"
        );
    }
    let (markdown, _) = lab.expect(
        1,
        &["harness", "check", "git:HEAD", "suites", "--format", "markdown"],
    );
    assert!(markdown.starts_with("### Harness: weaker\n"), "{markdown}");
    let (_, err) = lab.expect(2, &["harness", "check", "git:nowhere", "suites"]);
    assert!(err.contains("nowhere"), "{err}");
    lab.expect(2, &["harness", "check", "git:--output=x", "suites"]);
    assert!(!store.exists(), "a database was created");
}

#[test]
fn a_proposal_can_be_rejected_and_the_archive_restored_until_the_commit() {
    let lab = Lab::new(4);
    lab.agent("cat\n");
    lab.cycles(1);
    lab.propose(0, &[("n1", true)]);
    lab.expect(2, &["harness", "reject"]);
    let rejected = lab.json(0, &["harness", "reject", "--reason", "not now", "--by", "anna"]);
    assert_eq!(
        (&rejected["phase"], &rejected["by"]),
        (&json!("rejected"), &json!("anna"))
    );
    assert_eq!(lab.status()["expansion"], json!(null));
    let (_, err) = lab.expect(2, &["harness", "rollback", "--reason", "r"]);
    assert!(err.contains("no expansion is open"), "{err}");

    let kept = |name: &String| !name.contains(".harness") && !name.ends_with("agent.sh");
    let mut before = lab.files();
    before.retain(|name, _| kept(name));
    lab.propose(0, &[("n1", true), ("n2", true)]);
    let (_, err) = lab.expect(2, &["harness", "rollback", "--reason", "r"]);
    assert!(err.contains("is not being applied"), "{err}");
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    // The target does not run: the case stays undecided, and nothing is lost.
    lab.agent("exit 1\n");
    let (_, err) = lab.expect(4, &["harness", "apply"]);
    assert!(
        err.contains("echoes/n1 was run without a decided result"),
        "{err}"
    );
    let (_, err) = lab.expect(2, &["harness", "record"]);
    assert!(err.contains("is being applied"), "{err}");
    assert_eq!(lab.status()["expansion"]["phase"], "enabling");
    let back = lab.json(
        0,
        &[
            "harness",
            "rollback",
            "--reason",
            "the target is down",
            "--by",
            "anna",
        ],
    );
    assert_eq!(
        (&back["phase"], &back["ended"]["by"]),
        (&json!("rolled_back"), &json!("anna"))
    );
    let mut after = lab.files();
    after.retain(|name, _| kept(name));
    assert_eq!(after, before);
    lab.expect(0, &["harness", "verify"]);
    lab.agent("cat\n");

    // Committed changes stay.
    lab.propose(0, &[("n1", true)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    lab.expect(0, &["harness", "apply"]);
    lab.expect(2, &["harness", "rollback", "--reason", "r"]);
}
