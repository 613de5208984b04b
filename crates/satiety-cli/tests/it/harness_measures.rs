//! Candidates that try to influence their own measurement: by failing in unusual ways, by reporting numbers, by choosing the
//! cases to run. docs/guides/harness.md lists what counts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::harness_support::Lab;

const THRESHOLDS: &str = "[thresholds]\n\"echoes/pass_rate\" = { value = 0.9, direction = \"higher\" }\n\"echoes/mean_score\" = { value = 0.9, direction = \"higher\" }\n";

/// A target that answers c00 to c02 and runs `attack` on every other case.
fn attack(lab: &Lab, attack: &str) {
    lab.place.write(
        "suites/echoes/agent.sh",
        &format!("g=$(cat)\ncase \"$g\" in c00|c01|c02) printf %s \"$g\";; *) {attack};; esac\n"),
    );
    lab.place.write(
        "suites/echoes/target.toml",
        "type = \"exec\"\ncommand = \"sh\"\nargs = [\"{{base}}/agent.sh\"]\nrequest = \"goal\"\nmax_output_bytes = 100000\n",
    );
}

fn threshold(status: &Value, name: &str) -> Value {
    status["thresholds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|threshold| threshold["name"] == name)
        .unwrap()
        .clone()
}

#[test]
fn every_kind_of_failure_counts_as_not_passed() {
    for (name, how) in [
        ("exit code", "exit 1"),
        ("asks to be tried again", "exit 75"),
        ("signal", "kill -9 $$"),
        (
            "claims a rate limit",
            r#"printf '{"error": {"kind": "rate_limit", "message": "m"}}'"#,
        ),
        (
            "claims an outage",
            r#"printf '{"error": {"kind": "infra", "message": "m"}}'; exit 3"#,
        ),
        (
            "claims to be busy",
            r#"printf '{"error": {"kind": "overloaded", "message": "m"}}'"#,
        ),
        (
            "refuses",
            r#"printf '{"error": {"kind": "refusal", "message": "m"}}'"#,
        ),
        ("no text", r"printf '\377\376'"),
        ("too much", "yes | head -c 300000"),
        ("too slow", "sleep 5"),
        ("the sandbox's words", "echo 'satiety sandbox: no' >&2; exit 71"),
        ("removes itself", r#"rm -f "$0"; exit 1"#),
        (
            "a negative cost",
            r#"printf '{"output": "%s", "cost_usd": -5}' "$g""#,
        ),
    ] {
        let lab = Lab::new(6);
        lab.place.write("suites/harness.toml", THRESHOLDS);
        attack(&lab, how);
        let ran = lab.run(&[
            "bench",
            "run",
            "suites/echoes",
            "--retries",
            "0",
            "--timeout",
            "1",
            "-j",
            "1",
            "--format",
            "json",
        ]);
        let run: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(run["summary"]["pass_rate"], 0.5, "{name}: {run:#}");
        assert_eq!(run["summary"]["mean_score"], 0.5, "{name}");
        let (out, _) = lab.expect(1, &["harness", "record"]);
        assert!(out.contains("missed"), "{name}: {out}");
        let status = lab.status();
        for metric in ["echoes/pass_rate", "echoes/mean_score"] {
            let found = threshold(&status, metric);
            assert_eq!(
                (&found["found"], &found["met"]),
                (&json!(0.5), &json!(false)),
                "{name}"
            );
        }
        assert_eq!(status["metrics"]["benchmark_ceiling_rate"], 0.0, "{name}");
        assert_eq!(status["measured"]["headroom"]["headroom"], 0.5, "{name}");
    }
}

#[test]
fn missing_http_answers_count_as_failures() {
    for answer in [
        "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 503 Busy\r\nretry-after: 100000\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 504 Late\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99\r\nconnection: close\r\n\r\n",
        "",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(6) {
                let mut stream = stream.unwrap();
                let mut seen = Vec::new();
                let mut part = [0; 4096];
                let whole = |seen: &[u8]| {
                    let text = String::from_utf8_lossy(seen).to_lowercase();
                    text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                        let length = head
                            .lines()
                            .find_map(|line| line.strip_prefix("content-length: "));
                        body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
                    })
                };
                while !whole(&seen) {
                    let read = stream.read(&mut part).unwrap();
                    assert!(read > 0);
                    seen.extend_from_slice(&part[..read]);
                }
                let text = String::from_utf8_lossy(&seen).into_owned();
                let easy = ["c00", "c01", "c02"].into_iter().find(|id| text.contains(*id));
                let reply = easy.map_or_else(
                    || answer.to_owned(),
                    |id| format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n{id}"),
                );
                let _ = stream.write_all(reply.as_bytes());
            }
        });
        let lab = Lab::new(6);
        lab.place.write("suites/harness.toml", THRESHOLDS);
        let target = format!("type = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\n");
        lab.place.write("suites/echoes/target.toml", &target);
        lab.run(&["bench", "run", "suites/echoes", "--retries", "0", "--quiet"]);
        lab.expect(1, &["harness", "record"]);
        assert_eq!(
            threshold(&lab.status(), "echoes/pass_rate")["found"],
            0.5,
            "{answer:?}"
        );
    }
}

#[test]
fn metrics_reported_by_the_target_are_marked_and_omitting_them_does_not_help() {
    let lab = Lab::new(4);
    lab.place.write(
        "suites/harness.toml",
        "[thresholds]\n\"echoes/total_cost_usd\" = { value = 1.0, direction = \"lower\" }\n\"echoes/total_token_cost\" = { value = 100, direction = \"lower\" }\n\"echoes/p95_latency_ms\" = { value = 60000, direction = \"lower\" }\n",
    );
    attack(&lab, "exit 1");
    lab.run(&["bench", "run", "suites/echoes", "--quiet"]);
    let (out, _) = lab.expect(1, &["harness", "record"]);
    assert!(out.contains("reported by the target"), "{out}");
    let status = lab.status();
    // No cost was reported, and the latency of a crash is ignored.
    for name in [
        "echoes/total_cost_usd",
        "echoes/total_token_cost",
        "echoes/p95_latency_ms",
    ] {
        assert_eq!(threshold(&status, name)["met"], false, "{name}");
    }
    assert_eq!(
        threshold(&status, "echoes/total_cost_usd")["reported_by_target"],
        true
    );
    assert_eq!(
        threshold(&status, "echoes/p95_latency_ms").get("reported_by_target"),
        None
    );
}

#[test]
fn latency_of_cached_answers_is_ignored() {
    let lab = Lab::new(3);
    lab.place.write(
        "suites/harness.toml",
        "[thresholds]\n\"echoes/mean_latency_ms\" = { value = 5, direction = \"lower\" }\n",
    );
    attack(&lab, "exit 1");
    lab.place.write("suites/echoes/agent.sh", "sleep 0.05; cat\n");
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet", "--cache"]);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet", "--cache"]);
    lab.expect(1, &["harness", "record"]);
}

/// Moves a case to the regression tier by editing the file.
fn graduate(lab: &Lab, id: &str) {
    let case = json!({"case_id": id, "tags": ["regression"], "input": {"goal": id}, "expected": {"mode": "exact", "value": id},
        "metadata": {"harder": [{"input": {"goal": format!("{id} again")}, "expected": {"value": format!("{id} again")}}]}});
    lab.place
        .write(&format!("suites/echoes/cases/{id}.json"), &format!("{case:#}\n"));
}

#[test]
fn graduating_needs_passed_runs() {
    let lab = Lab::new(6);
    attack(&lab, "exit 1");
    lab.run(&["bench", "run", "suites/echoes", "--quiet"]);
    lab.expect_one_of(&[0, 1], &["harness", "record"]);
    // A failing case cannot graduate.
    graduate(&lab, "c05");
    let (_, err) = lab.expect(1, &["harness", "record"]);
    assert!(
        err.contains("suites.echoes.c05") && err.contains("regression tier"),
        "{err}"
    );
    let (out, _) = lab.expect(1, &["harness", "verify"]);
    assert!(out.contains("echoes.c05"), "{out}");
    // A case that passes, but has too few runs.
    fs_err::write(
        lab.place.path("suites/echoes/cases/c05.json"),
        json!({"case_id": "c05", "input": {"goal": "c05"}, "expected": {"mode": "exact", "value": "c05"}})
            .to_string(),
    )
    .unwrap();
    graduate(&lab, "c00");
    let (_, err) = lab.expect(1, &["harness", "record"]);
    assert!(err.contains("1 of at least 3"), "{err}");
    // Runs of selected cases are not evidence.
    for _ in 0..3 {
        lab.run(&["bench", "run", "suites/echoes", "--case", "c00", "--quiet"]);
    }
    lab.expect(1, &["harness", "record"]);
    for _ in 0..2 {
        lab.run(&["bench", "run", "suites/echoes", "--quiet"]);
    }
    let (out, _) = lab.expect(0, &["harness", "record"]);
    assert!(out.contains("graduated"), "{out}");
}

#[test]
fn a_failing_regression_test_fails_the_gate_and_the_cycle() {
    let lab = Lab::new(6);
    graduate(&lab, "c05");
    attack(&lab, "printf wrong");
    lab.run(&["bench", "run", "suites/echoes", "--quiet"]);
    let before = lab.json(0, &["harness", "history"]);
    let (_, err) = lab.expect(1, &["harness", "record"]);
    assert!(
        err.contains("echoes/c05") && err.contains("regression tier"),
        "{err}"
    );
    assert_eq!(
        lab.json(0, &["harness", "history"]),
        before,
        "a cycle was recorded"
    );
    // The baseline failed it, too, so that nothing is worse than before.
    lab.expect(0, &["bench", "baseline", "latest", "--reason", "first"]);
    let (out, _) = lab.expect(1, &["bench", "run", "suites/echoes", "--gate"]);
    assert!(out.contains("c05 is in the regression tier"), "{out}");
    attack(&lab, "case $g in c05) printf c05;; *) printf wrong;; esac");
    lab.expect_one_of(&[0, 3], &["bench", "run", "suites/echoes", "--gate", "--quiet"]);
    lab.expect_one_of(&[0, 1], &["harness", "record"]);
    assert_eq!(lab.status()["cycles_tracked"], 1);
}

#[test]
fn apply_rejects_a_selection_of_cases() {
    let lab = Lab::new(4);
    lab.cycles(1);
    lab.propose(0, &[("n1", true)]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    let before = lab.files();
    for flags in [
        &["--case", "c00"][..],
        &["--repeats", "1"],
        &["--timeout", "1000"],
        &["--cache"],
        &["--seed", "7"],
        &["--target", "echo"],
    ] {
        let mut all = vec!["harness", "apply"];
        all.extend(flags);
        let (_, err) = lab.expect(2, &all);
        assert!(
            err.contains("does not accept selection flags") && err.contains(flags[0]),
            "{err}"
        );
    }
    assert_eq!(lab.files(), before);
    lab.expect(0, &["harness", "apply"]);
}

#[test]
fn numbers_in_a_file_never_lower_an_alarm() {
    let lab = Lab::new(8);
    lab.cycles(9);
    lab.place.write(
        "low.json",
        r#"{"benchmark_ceiling_rate": 0.0, "regression_pass_rate": 0.0}"#,
    );
    let before = lab.status();
    let recorded = lab.json(0, &["harness", "record", "--metrics", "low.json"]);
    assert_eq!(recorded["snapshot"]["unverified"], true);
    for name in ["consecutive_high_count", "consecutive_critical_count"] {
        let (was, is) = (
            &before["rolling_metrics"][name],
            &recorded["rolling_metrics"][name],
        );
        assert!(is.as_u64() >= was.as_u64(), "{name}: {was} {is}");
    }
    assert!(
        recorded["rolling_metrics"]["avg_saturation_score"].as_f64()
            >= before["rolling_metrics"]["avg_saturation_score"].as_f64()
    );
    // The tenth cycle: it does not undo nine measured ones.
    assert_eq!(
        (&recorded["action"], &recorded["urgency"]),
        (&json!("TRIGGER_EXPANSION_RESEARCH"), &json!("CRITICAL"))
    );
    let (history, _) = lab.expect(0, &["harness", "history"]);
    assert!(history.contains("unverified"), "{history}");
    let (status, _) = lab.expect(0, &["harness", "status"]);
    assert!(status.contains("unverified"), "{status}");
    for _ in 0..25 {
        lab.json(0, &["harness", "record", "--metrics", "low.json"]);
    }
    assert!(lab.status()["rolling_metrics"]["consecutive_critical_count"].as_u64() >= Some(9));
    lab.expect(0, &["harness", "verify"]);
}

#[test]
fn numbers_in_a_file_do_not_hide_a_run_or_stop_the_clock() {
    let lab = Lab::new(4);
    lab.cycles(1);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.place.write("low.json", r#"{"benchmark_ceiling_rate": 0.0}"#);
    lab.json(0, &["harness", "record", "--metrics", "low.json"]);
    // The previous run is still to be recorded.
    lab.json(0, &["harness", "record"]);
    lab.place.write(
        "late.json",
        r#"{"timestamp": "2099-01-01T00:00:00Z", "metrics": {"benchmark_ceiling_rate": 0.0}}"#,
    );
    let (_, err) = lab.expect(2, &["harness", "record", "--metrics", "late.json"]);
    assert!(err.contains("in the future"), "{err}");
    // The same run under another name is not a second cycle.
    lab.expect(2, &["harness", "record", "--cycle", "again"]);
    assert_eq!(lab.status()["cycles_tracked"], 3);
    // A changed harness starts its window with a run.
    lab.place.write(
        "suites/echoes/cases/new.json",
        r#"{"case_id": "new", "input": {"goal": "new"}, "expected": {"mode": "exact", "value": "new"}}"#,
    );
    let (_, err) = lab.expect(2, &["harness", "record", "--metrics", "low.json"]);
    assert!(err.contains("with metrics from a file"), "{err}");
    assert_eq!(lab.status()["recorded"], false);
}

#[test]
fn imported_runs_are_not_evidence() {
    let lab = Lab::new(3);
    attack(&lab, "printf wrong");
    lab.place.write("suites/harness.toml", THRESHOLDS);
    let sample = |id: &str| json!({"id": id, "epoch": 1, "input": id, "target": id, "output": {"completion": id}, "scores": {"match": {"value": 1.0}}});
    let log = json!({"version": 2, "status": "success", "eval": {"task": "echoes", "model": "m", "created": "2026-01-01T00:00:00+00:00", "run_id": "r", "task_id": "t"},
        "stats": {"started_at": "2026-01-01T00:00:00+00:00", "completed_at": "2026-01-01T00:01:00+00:00"},
        "samples": [sample("c00"), sample("c01"), sample("c02")]});
    lab.place.write("log.json", &log.to_string());
    lab.expect(0, &["bench", "import", "log.json"]);
    let status = lab.status();
    assert_eq!(status["suites"][0]["versions"], 0, "{status:#}");
}
