//! Targets that misbehave: each has its status, and no process is left behind.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench_kill::{living, nothing_lives};
use crate::support::Place;

/// Each case's goal is a script that `sh` reads from stdin.
const SHELL: &str = "type = 'exec'\ncommand = '/bin/sh'\nrequest = 'goal'\n";

fn place(target: &str, cases: &[(&str, &str)]) -> Place {
    let place = Place::new();
    let cases: Vec<Value> = cases
        .iter()
        .map(|(id, goal)| {
            json!({"case_id": id, "input": {"goal": goal}, "expected": {"mode": "exact", "value": "ok"}})
        })
        .collect();
    let suite = json!({"suite_id": "nasty", "cases": cases});
    place.write("suite/suite.json", &suite.to_string());
    place.write("suite/target.toml", target);
    fs_err::create_dir(place.path("scratch")).unwrap();
    place
}

fn run(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(&["bench", "run", "suite", "--format", "json"]);
    command
        .args(arguments)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("TMPDIR", place.path("scratch"));
    command
}

/// By case: status, kind of error, and who is responsible.
fn outcomes(run: &Value) -> BTreeMap<String, (String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let results = run["results"].as_array().unwrap().iter();
    results
        .map(|result| {
            let parts = ["status", "error_kind", "error_owner"].map(|key| word(&result[key]));
            let [status, kind, owner] = parts;
            (word(&result["case_id"]), (status, kind, owner))
        })
        .collect()
}

#[test]
fn each_misbehavior_has_its_status_and_leaves_no_process() {
    let rows = [
        (
            "hangs",
            "trap '' TERM; sleep 60",
            ("timeout", "timeout", "target"),
        ),
        (
            "hangs-with-children",
            "sleep 61 & sleep 62 & sleep 63",
            ("timeout", "timeout", "target"),
        ),
        (
            "leaves-children",
            "sleep 64 & setsid sleep 65 & echo ok",
            ("pass", "-", "-"),
        ),
        (
            "prints-a-gigabyte",
            "head -c 1000000000 /dev/zero | tr '\\0' x",
            ("error", "too_large", "target"),
        ),
        ("no-text", "printf 'a\\377b'", ("error", "protocol", "target")),
        ("dies", "kill -SEGV $$", ("error", "exit", "target")),
        ("fails", "echo ok; exit 3", ("error", "exit", "target")),
        ("wrong", "echo no", ("fail", "-", "-")),
    ];
    let cases: Vec<(&str, &str)> = rows.iter().map(|(id, script, _)| (*id, *script)).collect();
    let place = place(SHELL, &cases);
    let output = run(&place, &["--timeout", "3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "no threshold is set");
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = outcomes(&run);
    for (id, _, (status, kind, owner)) in rows {
        assert_eq!(found[id], (status.into(), kind.into(), owner.into()), "{id}");
    }
    assert_eq!(living(place.folder.path()), Vec::<String>::new());
    let left = fs_err::read_dir(place.path("scratch")).unwrap().count();
    assert_eq!(left, 0, "working folders");
    // Every failure counts as not passed: one of eight.
    assert_eq!(run["summary"]["pass_rate"], 0.125);
    assert_eq!(run["summary"]["errors_by_owner"]["target"], 6);
}

#[test]
fn a_permanently_busy_service_is_inconclusive() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "type = 'http'\nurl = 'http://{}/'\n",
        listener.local_addr().unwrap()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(
                b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            );
        }
    });
    let place = place(&url, &[("busy", "hello"), ("busy-too", "hello")]);
    let started = Instant::now();
    let output = run(&place, &["--retries", "1", "--timeout", "10"])
        .output()
        .unwrap();
    // No case was answered.
    assert_eq!(output.status.code(), Some(3));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (case, outcome) in outcomes(&run) {
        assert_eq!(
            outcome,
            ("error".into(), "rate_limit".into(), "target".into()),
            "{case}"
        );
    }
    assert_eq!(run["results"][0]["retries"], 1);
    assert_eq!(run["summary"]["pass_rate"], 0.0);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_interrupt_kills_targets_and_keeps_finished_results() {
    let place = place(SHELL, &[("quick", "echo ok"), ("slow", "trap '' TERM; sleep 66")]);
    let child = run(&place, &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    // Wait until only the slow case runs and the result of the quick one is stored.
    let kept = |place: &Place| {
        let list = place
            .command(&["bench", "report", "latest:nasty", "--format", "json"])
            .output()
            .unwrap();
        serde_json::from_slice::<Value>(&list.stdout).is_ok_and(|run| {
            run["results"]
                .as_array()
                .is_some_and(|results| results.len() == 1)
        })
    };
    while !kept(&place) || living(&place.path("scratch")).is_empty() {
        assert!(Instant::now() < until, "the slow case did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["interrupted"], true);
    assert_eq!(outcomes(&run).keys().collect::<Vec<_>>(), ["quick"]);
    nothing_lives(&place.path("scratch"));
}
