//! Attempts to make the harness easier, and their outcomes. docs/guides/harness.md lists the same.

use std::process::Stdio;
use std::time::Duration;

use satiety::harness::ledger;
use satiety_engine::harness::KeyFile;
use serde_json::json;

use crate::harness_support::{Lab, PASSPHRASE};

#[test]
fn editing_the_suites_by_hand() {
    let lab = Lab::new(4);
    lab.cycles(1);
    let easier =
        r#"{"case_id": "c00", "input": {"goal": "c00"}, "expected": {"mode": "contains", "value": "c"}}"#;
    lab.place.write("suites/echoes/cases/c00.json", easier);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    let (_, err) = lab.expect(1, &["harness", "record"]);
    assert!(
        err.contains("weaker than the recorded harness") && err.contains("suites.echoes.c00"),
        "{err}"
    );
    let (out, _) = lab.expect(1, &["harness", "verify"]);
    assert!(out.contains("weaker: suites.echoes.c00"), "{out}");
    let status = lab.status();
    assert_eq!(
        (&status["recorded"], &status["drift"]["admissible"]),
        (&json!(false), &json!(false))
    );
    // An expansion cannot be opened on top of it either.
    lab.propose(1, &[("n1", true)]);
}

#[test]
fn retiring_a_case_by_hand() {
    let lab = Lab::new(4);
    lab.cycles(1);
    let manifest: serde_json::Value =
        serde_json::from_str(&lab.expect(0, &["harness", "manifest"]).0).unwrap();
    let case = &manifest["suites"]["echoes"]["c00"];
    let (hash, input) = (
        case["hash"].as_str().unwrap(),
        case["input_hash"].as_str().unwrap(),
    );
    fs_err::remove_file(lab.place.path("suites/echoes/cases/c00.json")).unwrap();
    lab.place.write(
        "suites/echoes/cases/r.json",
        r#"{"case_id": "r", "input": {"goal": "r"}, "expected": {"mode": "exact", "value": "r"}}"#,
    );
    let rules = fs_err::read_to_string(lab.place.path("suites/harness.toml")).unwrap();
    lab.place.write("suites/harness.toml", &format!("{rules}\n[retired.{hash}]\nsuite = \"echoes\"\ncase_id = \"c00\"\ninput_hash = \"{input}\"\nreason = \"broken\"\naudited_by = \"an agent\"\nreplacement = \"r\"\n"));
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    let (_, err) = lab.expect(1, &["harness", "record"]);
    assert!(
        err.contains(
            "suites.echoes.c00: retired as broken (broken) by an agent, replaced by r; requires a signature"
        ),
        "{err}"
    );
}

#[test]
fn editing_the_store() {
    for (statement, says) in [
        (
            "UPDATE harness_ledger SET body = replace(body, 'CRITICAL', 'NORMAL') WHERE kind = 'cycle'",
            "its content was changed",
        ),
        (
            "UPDATE harness_ledger SET at = '2020-01-01T00:00:00Z' WHERE seq = 2",
            "its content was changed",
        ),
        (
            "DELETE FROM harness_ledger WHERE seq = 1",
            "its sequence number is 2 (expected 1)",
        ),
        (
            "UPDATE harness_ledger SET seq = CASE seq WHEN 1 THEN 1002 WHEN 2 THEN 1001 END WHERE seq IN (1, 2)",
            "its sequence number is",
        ),
        (
            "UPDATE records SET body = replace(body, 'CRITICAL', 'NORMAL') WHERE key LIKE '%/aggregate'",
            "the rolling window was modified",
        ),
        (
            "DELETE FROM records WHERE key LIKE '%/aggregate'",
            "the rolling window is missing",
        ),
        (
            "UPDATE records SET body = replace(body, '\"saturation_score\":0.', '\"saturation_score\":0.0') WHERE key LIKE '%/cycles/%'",
            "was modified",
        ),
        (
            "UPDATE harness_versions SET manifest = replace(manifest, '\"alpha\":0.05', '\"alpha\":0.5')",
            "was modified",
        ),
        // The complete state of an expansion, edited to look approved.
        (
            "UPDATE records SET body = replace(body, '\"phase\":\"awaiting_approval\"', '\"phase\":\"applying_thresholds\"') WHERE key LIKE '%/expansions/%'",
            "was modified",
        ),
    ] {
        let lab = Lab::new(3);
        lab.cycles(2);
        lab.propose(0, &[("n1", true)]);
        lab.sql(statement);
        let (out, _) = lab.expect(1, &["harness", "verify"]);
        assert!(out.contains(says), "{statement}: {out}");
        let before = lab.files();
        // The edited database does not lead to an apply.
        let applied = lab.run(&["harness", "apply"]);
        assert!(matches!(applied.status.code(), Some(1 | 2)), "{statement}");
        assert_eq!(lab.files(), before, "{statement}");
    }
}

#[test]
fn truncating_or_rewriting_the_log() {
    let lab = Lab::new(3);
    lab.cycles(3);
    let verified = lab.json(0, &["harness", "verify"]);
    let anchor = format!(
        "{}:{}",
        verified["last"]["seq"],
        verified["last"]["hash"].as_str().unwrap()
    );
    lab.expect(0, &["harness", "verify", "--anchor", &anchor]);
    // A rewritten log with valid hashes is consistent in itself, but does not match the anchor.
    let rows = lab.json(0, &["harness", "history", "--limit", "1000"]);
    let mut rewritten: Vec<ledger::Entry> = Vec::new();
    for row in rows["entries"].as_array().unwrap() {
        let entry: ledger::Entry = serde_json::from_value(row.clone()).unwrap();
        let mut body = entry.body.clone();
        body["forged"] = json!(true);
        rewritten.push(ledger::append(rewritten.last(), entry.at, entry.kind, body));
    }
    rewritten.push(ledger::append(
        rewritten.last(),
        jiff::Timestamp::now(),
        "note",
        json!({}),
    ));
    lab.sql("DELETE FROM harness_ledger");
    for entry in &rewritten {
        lab.sql(&format!(
            "INSERT INTO harness_ledger VALUES ({}, '{}', '{}', '{}', '{}', '{}', '{}')",
            entry.seq,
            entry.prev,
            entry.at,
            entry.kind,
            entry.body,
            entry.hash,
            lab.harness_id()
        ));
    }
    // Consistent in itself; only the anchor in the repository detects it.
    ledger::verify_chain(&rewritten).unwrap();
    lab.expect(1, &["harness", "verify"]);
    let (out, _) = lab.expect(1, &["harness", "verify", "--anchor", &anchor]);
    assert!(out.contains("differs from the anchored entry"), "{out}");
    // A truncated log is consistent, too; the window detects it, because it follows the log.
    lab.sql("DELETE FROM harness_ledger WHERE seq >= (SELECT max(seq) - 1 FROM harness_ledger)");
    let (out, _) = lab.expect(1, &["harness", "verify", "--anchor", &anchor]);
    assert!(out.contains("the chain ends before the anchored entry"), "{out}");
    lab.expect(2, &["harness", "verify", "--anchor", "nonsense"]);
}

#[test]
fn replaying_or_reusing_an_approval() {
    let lab = Lab::new(3);
    lab.cycles(1);
    lab.propose(0, &[("n1", true)]);
    let first = lab.signed(&lab.key, 0, 24);
    // Another proposal replaced it: the signature is not for the pending one.
    lab.propose(0, &[("n2", true)]);
    let err = lab.approve(1, &first);
    assert!(err.contains("belongs to another proposal"), "{err}");
    // A different hash in a signed statement breaks the signature.
    let second = lab.signed(&lab.key, 0, 24);
    let mut forged = first.clone();
    forged.statement.clone_from(&second.statement);
    let err = lab.approve(1, &forged);
    assert!(err.contains("does not match this approval"), "{err}");
    lab.approve(0, &second);
    let err = lab.approve(1, &second);
    assert!(err.contains("was already used"), "{err}");
    lab.json(0, &["harness", "apply"]);
    // Neither is valid for the next proposal.
    lab.propose(0, &[("n3", true)]);
    let mut carried = second;
    carried.statement.expansion_id = lab.status()["expansion"]["expansion_id"]
        .as_str()
        .unwrap()
        .to_owned();
    lab.approve(1, &carried);
    // The expansion that was approved is finished.
    lab.approve(2, &first);
}

#[test]
fn changing_the_clock() {
    let lab = Lab::new(3);
    lab.cycles(1);
    lab.propose(0, &[("n1", true)]);
    let old = lab.signed(&lab.key, -48, -24);
    assert!(lab.approve(1, &old).contains("expired at"));
    let future = lab.signed(&lab.key, 24, 48);
    assert!(lab.approve(1, &future).contains("dated in the future"));
    let endless = lab.signed(&lab.key, 0, 24 * 365);
    assert!(lab.approve(1, &endless).contains("at most 30 days"));
    // The log contains a later time than the clock: expired approvals stay expired.
    let soon = lab.signed(&lab.key, 0, 1);
    let rows = lab.json(0, &["harness", "history", "--limit", "1000"]);
    let last: ledger::Entry =
        serde_json::from_value(rows["entries"].as_array().unwrap().last().unwrap().clone()).unwrap();
    let later = jiff::Timestamp::now()
        .checked_add(jiff::SignedDuration::from_hours(2))
        .unwrap();
    let entry = ledger::append(Some(&last), later, "note", json!({}));
    lab.sql(&format!(
        "INSERT INTO harness_ledger VALUES ({}, '{}', '{}', '{}', '{}', '{}', '{}')",
        entry.seq,
        entry.prev,
        entry.at,
        entry.kind,
        entry.body,
        entry.hash,
        lab.harness_id()
    ));
    assert!(lab.approve(1, &soon).contains("expired at"));
}

#[test]
fn adding_a_key() {
    let lab = Lab::new(3);
    lab.cycles(1);
    lab.propose(0, &[("n1", true)]);
    let agent = KeyFile::generate("agent", PASSPHRASE).unwrap();
    let named_anna = KeyFile::generate("anna", PASSPHRASE).unwrap();
    assert!(
        lab.approve(1, &lab.signed(&agent, 0, 24))
            .contains("unknown approver `agent`")
    );
    assert!(
        lab.approve(1, &lab.signed(&named_anna, 0, 24))
            .contains("signature of `anna` does not match")
    );
    // No other file, variable or flag adds keys.
    let other = format!(
        "[harness]\nfolder = \"suites\"\n\n[[harness.approvers]]\nname = \"agent\"\npublic_key = \"{}\"\n",
        agent.public_key
    );
    lab.place.write("elsewhere/satiety.toml", &other);
    let signed = lab.signed(&agent, 0, 24);
    lab.place
        .write("approval.json", &serde_json::to_string(&signed).unwrap());
    let arguments = ["harness", "approve", "--signed", "approval.json"];
    let with_config = lab
        .command(&arguments)
        .env("SATIETY_CONFIG", lab.place.path("elsewhere/satiety.toml"))
        .output()
        .unwrap();
    assert_eq!(with_config.status.code(), Some(1));
    let with_flag = lab.run(&[
        "harness",
        "approve",
        "--signed",
        "approval.json",
        "--config",
        "elsewhere/satiety.toml",
    ]);
    assert_eq!(with_flag.status.code(), Some(1));
    let with_variable = lab
        .command(&arguments)
        .env("SATIETY_HARNESS_APPROVERS", &other)
        .output()
        .unwrap();
    assert_eq!(with_variable.status.code(), Some(1));
    // A key that is added to the repository's file counts only after a trusted key has signed it.
    lab.settings(&[&lab.key, &agent], "");
    assert!(
        lab.approve(1, &lab.signed(&agent, 0, 24))
            .contains("agent was added or changed")
    );
    lab.expect(1, &["harness", "keys"]);
    agent.write(&lab.place.path("agent.key")).unwrap();
    let accept = |key: &str| {
        lab.at_a_terminal(
            &[("to accept these keys: ", PASSPHRASE)],
            &["harness", "keys", "--accept", "--key", key],
        )
    };
    let (code, seen) = accept("agent.key");
    assert!(
        code == 2 && seen.contains("unknown approver `agent`"),
        "{code} {seen}"
    );
    let (code, seen) = accept("anna.key");
    assert!(
        code == 0 && seen.contains("the log has the same keys"),
        "{code} {seen}"
    );
    lab.approve(0, &lab.signed(&agent, 0, 24));
}

#[test]
fn concurrent_recording_keeps_the_chain_valid() {
    let lab = Lab::new(3);
    let children: Vec<_> = (0..6)
        .map(|number| {
            lab.place
                .write(&format!("m{number}.json"), r#"{"benchmark_ceiling_rate": 0.5}"#);
            lab.command(&[
                "harness",
                "record",
                "--metrics",
                &format!("m{number}.json"),
                "--cycle",
                &format!("cycle-{number}"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(lab.status()["cycles_tracked"], 6);
    lab.expect(0, &["harness", "verify"]);
}

/// Killed at any moment, the suites on disk are at least as rigorous, and a second apply finishes.
#[test]
fn kills_during_apply_leave_a_valid_harness() {
    let lab = Lab::new(5);
    lab.agent("cat\n");
    lab.cycles(1);
    lab.expect(0, &["bench", "baseline", "latest", "--reason", "first"]);
    lab.expect(0, &["harness", "lock"]);
    let before = fs_err::read_to_string(lab.place.path("suites/harness.lock")).unwrap();
    lab.place.write("before.lock", &before);
    let content = json!({"expansion_proposals": {
        "threshold_increases": [{"benchmark": "echoes/pass_rate", "current": 0.5, "proposed": 0.6, "rationale": "r"}],
        "new_benchmarks": [{"id": "extra", "name": "Extra", "purpose": "p", "expected_difficulty": "h",
            "cases": [{"case_id": "x1", "input": {"goal": "x1"}, "expected": {"mode": "exact", "value": "x1"}}]}],
        "new_edge_cases": (0..4).map(|n| json!({"category": "c", "description": "d", "expected_failure_mode": "f", "suite": "echoes",
            "case": {"case_id": format!("n{n}"), "input": {"goal": format!("n{n}")}, "expected": {"mode": "exact", "value": format!("n{n}")}}})).collect::<Vec<_>>(),
        "retirements": [{"suite": "echoes", "case_id": "c04", "reason": "broken", "audited_by": "anna",
            "replacement": {"case_id": "c04b", "input": {"goal": "c04b"}, "expected": {"mode": "exact", "value": "c04b"}}}],
    }});
    lab.place.write("p.json", &content.to_string());
    let proposed = lab.json(0, &["harness", "propose", "p.json"]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    // A slow target, so that the kill hits a running process.
    lab.agent("sleep 0.03; cat\n");
    let slow = lab.worker("slow", "import json,sys,time\nfor line in sys.stdin:\n    q = json.loads(line)\n    time.sleep(0.03)\n    print(json.dumps({'id': q.get('id'), 'output': q['input']['goal']}), flush=True)\n");
    // For the new suite, which does not define a target.
    let apply = ["harness", "apply", "--target", &slow];
    let mut kills = 0;
    for attempt in 0..20_u64 {
        let log = fs_err::File::create(lab.place.path("apply.log")).unwrap();
        let mut child = lab
            .command(&apply)
            .stdout(Stdio::null())
            .stderr(log.into_file())
            .spawn()
            .unwrap();
        // Kills at a different point each time.
        std::thread::sleep(Duration::from_millis(40 + attempt * 97 % 700));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let (out, _) = lab.expect_one_of(&[0, 1], &["harness", "check", "before.lock", "suites"]);
        // Between the record of a retirement and the signature in the repository nothing is weaker.
        assert!(!out.contains("weaker  "), "after {attempt}: {out}");
        if let Some(status) = ended {
            let log = fs_err::read_to_string(lab.place.path("apply.log")).unwrap();
            // A kill may hit between the last step and the end of the process.
            let done_before = log.contains("no expansion is open");
            assert!(
                status.success() || done_before,
                "apply failed after {attempt} kills: {log}"
            );
            break;
        }
        kills += 1;
    }
    assert!(kills >= 3, "only {kills} kills hit a running process");
    // One more apply finishes the rest; steps that are done are not an error.
    lab.expect_one_of(&[0, 2], &apply);
    let status = lab.status();
    assert_eq!(status["version"], proposed["diff"]["to"]);
    assert_eq!(status["expansion"], json!(null));
    lab.expect(0, &["harness", "verify"]);
    lab.expect(0, &["harness", "check", "before.lock", "suites"]);
    println!("{kills} kills");
}
