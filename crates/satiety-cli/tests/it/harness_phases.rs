//! Attacks between two phases: on a partly applied expansion, on the archive, on the stored history.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness_support::Lab;

/// Target that can be made unavailable.
fn agent(lab: &Lab, script: &str) {
    lab.agent(script);
}

/// An expansion in the phase `enabling`, because the target is unavailable.
fn half_applied() -> Lab {
    let lab = Lab::new(4);
    agent(&lab, "cat\n");
    lab.cycles(1);
    lab.propose(0, &[("n1", true), ("n2", true)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    agent(&lab, "exit 1\n");
    lab.expect(4, &["harness", "apply"]);
    assert_eq!(lab.status()["expansion"]["phase"], "enabling");
    lab
}

fn store(lab: &Lab, name: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("sqlite:{}", lab.place.path(name).display());
    let done = lab
        .command(arguments)
        .env("SATIETY_STORE_URL", url)
        .output()
        .unwrap();
    let printed = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
fn a_partly_applied_harness_is_compared_with_the_archive() {
    let lab = half_applied();
    lab.expect(0, &["harness", "verify"]);
    let rules = fs_err::read_to_string(lab.place.path("suites/harness.toml")).unwrap();
    let case = fs_err::read_to_string(lab.place.path("suites/echoes/cases/c00.json")).unwrap();
    for (file, weaker, says) in [
        ("suites/echoes/cases/c00.json", None, "suites.echoes.c00"),
        (
            "suites/harness.toml",
            Some("[thresholds]\n\"echoes/pass_rate\" = { value = 0.1, direction = \"higher\" }\n"),
            "thresholds.echoes/pass_rate",
        ),
    ] {
        match weaker {
            Some(text) => {
                lab.place.write(file, text);
            }
            None => fs_err::remove_file(lab.place.path(file)).unwrap(),
        }
        let (out, _) = lab.expect(1, &["harness", "verify"]);
        assert!(out.contains("weaker") && out.contains(says), "{out}");
        let (_, err) = lab.expect(1, &["harness", "record"]);
        assert!(err.contains(says), "{err}");
        let status = lab.status();
        assert_eq!(status["drift"]["admissible"], false);
        assert!(status["next"].as_str().unwrap().contains("weaker"), "{status}");
        agent(&lab, "cat\n");
        let (_, err) = lab.expect(1, &["harness", "apply"]);
        assert!(err.contains(says), "{err}");
        lab.place.write("suites/harness.toml", &rules);
        lab.place.write("suites/echoes/cases/c00.json", &case);
        lab.expect(0, &["harness", "verify"]);
    }
    lab.expect(0, &["harness", "apply"]);
    lab.expect(0, &["harness", "verify"]);
}

#[test]
fn only_the_signed_content_is_verified() {
    let lab = Lab::new(4);
    // While the baseline is verified, the target edits the new case and the threshold to be easy again.
    let script = "case \"$(cat)\" in c03) cat <<END > \"$(dirname \"$0\")/../harness.toml\"\n[thresholds]\n\"echoes/pass_rate\" = { value = 0.5, direction = \"higher\" }\nEND\n;; esac; printf x\n";
    agent(&lab, "cat\n");
    lab.cycles(1);
    let content = json!({"expansion_proposals": {
        "threshold_increases": [{"benchmark": "echoes/pass_rate", "current": 0.5, "proposed": 0.9, "rationale": "r"}]}});
    lab.place.write("p.json", &content.to_string());
    lab.expect(0, &["harness", "propose", "p.json"]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    agent(&lab, script);
    lab.expect(1, &["harness", "apply"]);
    let status = lab.status();
    assert_ne!(status["expansion"]["phase"], "done");
}

#[test]
fn the_anchor_is_written_with_every_version() {
    let lab = Lab::new(3);
    lab.cycles(1);
    let anchor = || -> Value {
        serde_json::from_str(&fs_err::read_to_string(lab.place.path("suites/.harness/anchor.json")).unwrap())
            .unwrap()
    };
    let first = anchor();
    assert!(
        first["harness_id"]
            .as_str()
            .is_some_and(|id| id.starts_with("harness-")),
        "{first}"
    );
    assert_eq!(first["version"], lab.status()["version"]);
    lab.place.write(
        "suites/echoes/cases/new.json",
        r#"{"case_id": "new", "input": {"goal": "new"}, "expected": {"mode": "exact", "value": "new"}}"#,
    );
    lab.cycles(1);
    let second = anchor();
    assert!(second["seq"].as_u64() > first["seq"].as_u64());
    assert_eq!(second["harness_id"], first["harness_id"]);
    lab.propose(0, &[("n1", true)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    lab.expect(0, &["harness", "apply"]);
    assert!(anchor()["seq"].as_u64() > second["seq"].as_u64());
    lab.expect(0, &["harness", "verify"]);
    // Without the anchor, or with another one, nothing is recorded.
    let text = fs_err::read_to_string(lab.place.path("suites/.harness/anchor.json")).unwrap();
    fs_err::remove_file(lab.place.path("suites/.harness/anchor.json")).unwrap();
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    let (_, err) = lab.expect(1, &["harness", "record"]);
    assert!(err.contains("anchor.json"), "{err}");
    lab.expect(1, &["harness", "verify"]);
    lab.place.write(
        "suites/.harness/anchor.json",
        &text.replace("\"hash\": \"", "\"hash\": \"0"),
    );
    lab.expect(1, &["harness", "record"]);
    lab.expect(1, &["harness", "verify"]);
    lab.place.write("suites/.harness/anchor.json", &text);
    lab.expect(0, &["harness", "record"]);
}

#[test]
fn an_edited_or_escaping_archive_is_not_restored() {
    let keys = |lab: &Lab| fs_err::read_to_string(lab.place.path("satiety.toml")).unwrap();
    for (statement, says) in [
        // The trusted keys, next to the harness.
        (
            "json_set(files, '$.\"../satiety.toml\"', json_object('text', 'x'))",
            "archive",
        ),
        (
            "json_set(files, '$.\"satiety.toml\"', json_object('text', 'x'))",
            "archive",
        ),
        (
            "json_set(files, '$.\"/tmp/satiety-escape\"', json_object('text', 'x'))",
            "archive",
        ),
        (
            "json_set(files, '$.\".git/hooks/pre-commit\"', json_object('text', 'x'))",
            "archive",
        ),
        (
            "json_set(files, '$.\".harness/anchor.json\"', json_object('text', '{}'))",
            "archive",
        ),
        (
            "json_set(files, '$.\"echoes/cases/c00.json\".text', replace(json_extract(files, '$.\"echoes/cases/c00.json\".text'), 'exact', 'contains'))",
            "archive",
        ),
        ("json_remove(files, '$.\"echoes/cases/c00.json\"')", "archive"),
    ] {
        let lab = half_applied();
        let (before, settings) = (lab.files(), keys(&lab));
        lab.sql(&format!(
            "UPDATE harness_versions SET files = {statement} WHERE files IS NOT NULL"
        ));
        let (out, _) = lab.expect(1, &["harness", "verify"]);
        assert!(out.contains(says), "{statement}: {out}");
        let (_, err) = lab.expect(1, &["harness", "rollback", "--reason", "r"]);
        assert!(err.contains(says), "{statement}: {err}");
        assert_eq!((lab.files(), keys(&lab)), (before, settings), "{statement}");
        assert!(!lab.place.path("suites/.git").exists());
        assert!(!std::path::Path::new("/tmp/satiety-escape").exists());
    }
}

#[cfg(unix)]
#[test]
fn an_archive_is_not_restored_through_a_link() {
    let lab = half_applied();
    lab.place.write("elsewhere/c00.json", "untouched");
    let cases = lab.place.path("suites/echoes/cases");
    fs_err::rename(&cases, lab.place.path("moved")).unwrap();
    std::os::unix::fs::symlink(lab.place.path("elsewhere"), &cases).unwrap();
    lab.expect(1, &["harness", "rollback", "--reason", "r"]);
    assert_eq!(
        fs_err::read_to_string(lab.place.path("elsewhere/c00.json")).unwrap(),
        "untouched"
    );
    fs_err::remove_file(&cases).unwrap();
    fs_err::rename(lab.place.path("moved"), &cases).unwrap();
    let c00 = cases.join("c00.json");
    fs_err::rename(&c00, lab.place.path("real.json")).unwrap();
    std::os::unix::fs::symlink(lab.place.path("real.json"), &c00).unwrap();
    lab.expect(1, &["harness", "rollback", "--reason", "r"]);
    fs_err::remove_file(&c00).unwrap();
    fs_err::rename(lab.place.path("real.json"), &c00).unwrap();
    lab.expect(0, &["harness", "rollback", "--reason", "r"]);
    lab.expect(0, &["harness", "verify"]);
}

#[test]
fn two_harnesses_in_one_database_are_separate() {
    let lab = Lab::new(3);
    lab.cycles(3);
    lab.place.write("other/hello/suite.json", r#"{"suite_id": "hello", "cases": [{"case_id": "h", "input": {"goal": "h"}, "expected": {"mode": "exact", "value": "h"}}]}"#);
    lab.place.write("other/hello/target.toml", "type = \"echo\"\n");
    lab.expect(0, &["bench", "run", "other/hello", "--quiet"]);
    let recorded = lab.json(0, &["harness", "record", "--harness", "other"]);
    assert_eq!(recorded["history"].as_array().unwrap().len(), 1);
    let status = lab.json(0, &["harness", "status", "--harness", "other"]);
    assert_eq!(
        (&status["cycles_tracked"], &status["recorded"]),
        (&json!(1), &json!(true))
    );
    let first = lab.status();
    assert_eq!(
        (&first["cycles_tracked"], &first["recorded"]),
        (&json!(3), &json!(true))
    );
    lab.expect(0, &["harness", "verify"]);
    lab.expect(0, &["harness", "verify", "--harness", "other"]);
    // Taking the other's name does not give access to its history.
    let anchor = fs_err::read_to_string(lab.place.path("other/.harness/anchor.json")).unwrap();
    lab.place.write("suites/.harness/anchor.json", &anchor);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.expect(1, &["harness", "record"]);
    lab.expect(1, &["harness", "verify"]);
}

#[test]
fn another_database_does_not_reset_the_history() {
    let lab = Lab::new(3);
    lab.cycles(2);
    let bench = ["bench", "run", "suites/echoes", "--quiet"];
    assert_eq!(store(&lab, "fresh.db", &bench).0, Some(0));
    // Weaker or not: a database without the history cannot continue it.
    let (code, printed) = store(&lab, "fresh.db", &["harness", "record"]);
    assert!(
        code == Some(1) && printed.contains("--new-history"),
        "{code:?} {printed}"
    );
    assert_eq!(store(&lab, "fresh.db", &["harness", "verify"]).0, Some(1));
    lab.place.write("proposals.json", r#"{"expansion_proposals": {"new_edge_cases": [{"category": "c", "description": "d", "expected_failure_mode": "f", "suite": "echoes", "case": {"case_id": "n", "input": {"goal": "n"}, "expected": {"mode": "exact", "value": "n"}}}]}}"#);
    assert_eq!(
        store(&lab, "fresh.db", &["harness", "propose", "proposals.json"]).0,
        Some(1)
    );
    assert_eq!(store(&lab, "fresh.db", &["harness", "apply"]).0, Some(1));
    let case = fs_err::read_to_string(lab.place.path("suites/echoes/cases/c00.json")).unwrap();
    // A new history starts with the version that the anchor names.
    let begin = [
        "harness",
        "record",
        "--new-history",
        "--by",
        "anna",
        "--why",
        "a store for builds",
    ];
    lab.place
        .write("suites/echoes/cases/c00.json", &case.replace("exact", "contains"));
    let (code, printed) = store(&lab, "fresh.db", &begin);
    assert!(
        code == Some(1) && printed.contains("version"),
        "{code:?} {printed}"
    );
    lab.place.write("suites/echoes/cases/c00.json", &case);
    let anchor = fs_err::read_to_string(lab.place.path("suites/.harness/anchor.json")).unwrap();
    assert_eq!(
        store(&lab, "fresh.db", &["harness", "record", "--new-history"]).0,
        Some(2)
    );
    let (code, printed) = store(&lab, "fresh.db", &begin);
    assert_eq!(code, Some(0), "{printed}");
    let (_, history) = store(&lab, "fresh.db", &["harness", "history"]);
    assert!(
        history.contains("history_begun") && history.contains("anna"),
        "{history}"
    );
    assert_eq!(store(&lab, "fresh.db", &["harness", "verify"]).0, Some(0));
    // It is a branch: the anchor stays that of the first database, which continues normally.
    assert_eq!(
        fs_err::read_to_string(lab.place.path("suites/.harness/anchor.json")).unwrap(),
        anchor
    );
    lab.cycles(1);
    lab.expect(0, &["harness", "verify"]);
    lab.place
        .write("suites/echoes/cases/c00.json", &case.replace("exact", "contains"));
    assert_eq!(store(&lab, "fresh.db", &bench).0, Some(0));
    assert_eq!(store(&lab, "fresh.db", &["harness", "record"]).0, Some(1));
}

#[test]
fn losing_the_identity_does_not_start_a_new_harness() {
    let lab = Lab::new(3);
    lab.cycles(2);
    fs_err::remove_dir_all(lab.place.path("suites/.harness")).unwrap();
    fs_err::remove_file(lab.place.path("suites/echoes/cases/c00.json")).unwrap();
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    let (_, err) = lab.expect(1, &["harness", "record"]);
    assert!(err.contains("anchor.json"), "{err}");
    lab.expect(1, &["harness", "verify"]);
    // Another name in the same place does not help either.
    lab.place
        .write("suites/echoes/suite.json", r#"{"suite_id": "renamed"}"#);
    lab.place.write("suites/harness.toml", "");
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.expect(1, &["harness", "record"]);
}

#[test]
fn a_stale_approval_does_not_undo_later_additions() {
    let lab = Lab::new(4);
    lab.cycles(1);
    let before: BTreeMap<String, String> = lab.files();
    lab.propose(0, &[("n1", true)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    // Meanwhile the harness got harder, and that version is active.
    lab.place.write(
        "suites/echoes/cases/hard.json",
        r#"{"case_id": "hard", "input": {"goal": "hard"}, "expected": {"mode": "exact", "value": "hard"}}"#,
    );
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.expect(0, &["harness", "record"]);
    // Applying the files that were signed would remove the hard case.
    fs_err::remove_file(lab.place.path("suites/echoes/cases/hard.json")).unwrap();
    for (name, text) in &before {
        if !name.contains(".harness") {
            fs_err::write(name, text).unwrap();
        }
    }
    let id = lab.json(0, &["harness", "history", "--limit", "100"])["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|entry| entry["body"]["expansion_id"].as_str().map(str::to_owned))
        .unwrap();
    let (_, err) = lab.expect(1, &["harness", "apply", "--expansion", &id]);
    assert!(err.contains("active version") || err.contains("weaker"), "{err}");
    assert!(!lab.place.path("suites/echoes/cases/n1.json").exists());
    lab.expect(1, &["harness", "verify"]);
}
