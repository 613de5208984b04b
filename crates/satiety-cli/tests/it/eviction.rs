//! `satiety evict`, as used by an agent's harness and its user.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Place, example, json_of};

const ITEMS: &str = r#"[
  {"ctx_id": "rules", "zone": "system", "kind": "instruction", "content": "Answer briefly.", "pinned": true},
  {"ctx_id": "log", "zone": "workspace", "kind": "tool_result", "token_count": 900, "snippet": "cargo test output"},
  {"ctx_id": "plan", "zone": "workspace", "kind": "plan", "token_count": 200, "snippet": "three steps"},
  {"ctx_id": "chat", "zone": "chronicle", "token_count": 300, "snippet": "small talk"}
]"#;

fn json_whatever_exit(place: &Place, arguments: &[&str]) -> Value {
    let output = place.command(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_context_is_filled_flushed_and_reported() {
    let place = Place::new();
    place.write("items.json", ITEMS);
    let shown = place.run(&[
        "evict",
        "add",
        "s",
        "items.json",
        "--turn",
        "1",
        "--goal",
        "make the tests pass",
    ]);
    assert!(
        shown.starts_with("exit 0") && shown.contains("s: 4 items, 1403 tokens, turn 1"),
        "{shown}"
    );
    let shown = place.run(&["evict", "add", "s", "--turn", "5", "--use", "plan"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    let listed = place.run(&["evict", "list", "s", "--explain"]);
    assert!(
        listed.contains("pinned") && listed.contains("recency"),
        "{listed}"
    );
    let proposed = json_of(
        &place,
        &[
            "evict",
            "propose",
            "s",
            "--budget",
            "600",
            "--timeout-ms",
            "600000",
            "--exploration",
            "0",
            "--format",
            "json",
        ],
    );
    assert_eq!(proposed["view"][0]["ctx_id"], "log");
    let id = proposed["proposal_id"].as_str().unwrap().to_owned();
    let refused = place.run(&["evict", "resolve", &id, "--exclude", "missing"]);
    assert!(
        refused.starts_with("exit 2") && refused.contains("no candidate `missing`; nothing was changed"),
        "{refused}"
    );
    let resolved = place.run(&["evict", "resolve", &id, "--exclude", "log=still failing"]);
    assert!(
        resolved.starts_with("exit 0") && resolved.contains("freed"),
        "{resolved}"
    );
    let again = place.run(&["evict", "resolve", &id]);
    assert!(
        again.starts_with("exit 2") && again.contains("already resolved"),
        "{again}"
    );
    let story = place.run(&["evict", "timeline", "s"]);
    assert!(story.contains("llm"), "{story}");
    let page = place.run(&["evict", "timeline", "s", "--format", "html"]);
    assert!(page.contains("<svg") && page.contains("still failing"), "{page}");
    assert!(place.run(&["evict", "feedback"]).contains("1 proposal answered"));
    let export = place.run(&["evict", "export"]);
    assert!(
        export.contains("\"kept_back\":true") && !export.contains("still failing"),
        "{export}"
    );
    let impossible = place.run(&["evict", "propose", "s", "--budget", "0"]);
    assert!(
        impossible.starts_with("exit 1") && impossible.contains("rules (3 tokens) is pinned"),
        "{impossible}"
    );
    let nothing = place.run(&["evict", "propose", "elsewhere", "--budget", "0"]);
    assert!(
        nothing.starts_with("exit 2") && nothing.contains("scope `elsewhere` not found"),
        "{nothing}"
    );
}

#[test]
fn eight_processes_evict_nothing_twice() {
    let place = Place::new();
    let mut stores = vec!["sqlite:shared.db".to_owned()];
    stores.extend(std::env::var("SATIETY_TEST_POSTGRES"));
    for (number, store) in stores.iter().enumerate() {
        let scope = format!("shared-{number}-{}", std::process::id());
        let items: Vec<Value> = (0..60)
            .map(|item| serde_json::json!({"ctx_id": format!("i{item}"), "zone": "memory", "token_count": 100}))
            .collect();
        place.write("many.json", &Value::from(items).to_string());
        json_of(
            &place,
            &[
                "--db",
                store,
                "evict",
                "add",
                &scope,
                "many.json",
                "--format",
                "json",
            ],
        );
        let gone: Vec<String> = std::thread::scope(|threads| {
            let workers: Vec<_> = (0..8)
                .map(|_| {
                    threads.spawn(|| {
                        let mut gone = Vec::new();
                        for _ in 0..2 {
                            let asked = [
                                "--db",
                                store,
                                "evict",
                                "propose",
                                &scope,
                                "--free",
                                "150",
                                "--timeout-ms",
                                "600000",
                                "--exploration",
                                "0",
                                "--format",
                                "json",
                            ];
                            let proposed = json_whatever_exit(&place, &asked);
                            let id = proposed["proposal_id"].as_str().unwrap();
                            let keep = proposed["view"][0]["ctx_id"].as_str().unwrap();
                            let answer = [
                                "--db",
                                store,
                                "evict",
                                "resolve",
                                id,
                                "--exclude",
                                keep,
                                "--quota",
                                "0.6",
                                "--format",
                                "json",
                            ];
                            let feedback = json_of(&place, &answer);
                            let ids = |key: &str| feedback[key].as_array().unwrap().clone();
                            gone.extend(ids("evicted").iter().map(|id| id.as_str().unwrap().to_owned()));
                            gone.extend(
                                ids("second_pass")
                                    .iter()
                                    .map(|item| item["ctx_id"].as_str().unwrap().to_owned()),
                            );
                        }
                        gone
                    })
                })
                .collect();
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap())
                .collect()
        });
        assert_eq!(
            gone.iter().collect::<BTreeSet<_>>().len(),
            gone.len(),
            "{store}: an item was evicted twice"
        );
        let feedback = json_of(
            &place,
            &["--db", store, "evict", "feedback", &scope, "--format", "json"],
        );
        assert_eq!(feedback["answered"], 16, "{store}");
        let left = json_of(
            &place,
            &["--db", store, "evict", "list", &scope, "--format", "json"],
        );
        assert_eq!(
            left["items"].as_array().unwrap().len() + gone.len(),
            60,
            "{store}"
        );
    }
}

#[test]
fn a_version_goes_live_only_through_an_ablation() {
    let place = Place::new();
    let trace = place
        .command(&["evict", "generate", "--sessions", "1", "--turns", "40"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&trace.stdout).starts_with("{\"session\":\"session-0000\",\"turn\":0"));
    place.write("prompt.md", "Answer with JSON.");
    let made = json_of(
        &place,
        &["evict", "calibrate", "--prompt", "prompt.md", "--format", "json"],
    );
    let version = made["version"].as_str().unwrap().to_owned();
    assert_eq!(made["variant"], "prompt");
    let refused = place.run(&["evict", "activate", &version, "--reason", "try", "--by", "me"]);
    assert!(
        refused.starts_with("exit 1") && refused.contains("no ablation was given"),
        "{refused}"
    );
    let written = place.run(&["evict", "variants", &version, "--out", "study"]);
    assert!(
        written.starts_with("exit 0") && written.contains("satiety bench ablation"),
        "{written}"
    );
    let (control, variant) = ("study/baseline.toml", format!("study/{version}.toml"));
    let ablated = json_of(
        &place,
        &[
            "bench",
            "ablation",
            control,
            &variant,
            "--suite",
            "study",
            "--tag",
            "eviction",
            "--runs",
            "1",
            "--metric",
            "retained_relevance=0.01",
            "--metric",
            "tokens_per_use=2%",
            "--metric",
            "task_results=0.02",
            "--format",
            "json",
        ],
    );
    let id = ablated["ablation_id"].as_str().unwrap();
    let live = place.run(&[
        "evict",
        "activate",
        &version,
        "--ablation",
        id,
        "--reason",
        "no harm",
        "--by",
        "me",
    ]);
    assert!(live.starts_with("exit 0") && live.contains("is active"), "{live}");
    let back = place.run(&["evict", "rollback", "--reason", "enough", "--by", "me"]);
    assert!(back.contains("heuristic-1 is active"), "{back}");
    let listed = place.run(&["evict", "weights"]);
    assert!(
        listed.contains("rollback") && listed.contains("no harm"),
        "{listed}"
    );
    assert!(place.run(&["evict", "weights", "heuristic"]).contains("recency"));
}

#[test]
fn traces_are_simulated_and_logs_converted() {
    let place = Place::new();
    let shown = place.run(&[
        "evict",
        "simulate",
        &example("eviction/trace.jsonl"),
        "--budget",
        "25%",
        "--resamples",
        "200",
    ]);
    assert!(
        shown.starts_with("exit 0") && shown.contains("belady-size") && shown.contains("gdsf"),
        "{shown}"
    );
    let page = place.run(&[
        "evict",
        "simulate",
        &example("eviction/trace.jsonl"),
        "--policy",
        "heuristic",
        "--policy",
        "lru",
        "--format",
        "html",
    ]);
    assert!(page.contains("<svg"), "{page}");
    let log = example("eviction/session.jsonl");
    let converted = place.command(&["evict", "convert", &log]).output().unwrap();
    assert!(converted.status.success());
    let mut command = place.command(&["evict", "simulate", "-", "--budget", "60%", "--format", "json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &converted.stdout).unwrap();
    let output = child.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["uses"].as_u64().unwrap() > 0, "{found}");
    for (arguments, part) in [
        (&["evict", "simulate", &log, "--budget", "25%"][..], "line 1: "),
        (
            &["evict", "simulate", &log, "--budget", "lots"],
            "cannot parse budget",
        ),
        (&["evict", "simulate", "nowhere.jsonl"], "nowhere.jsonl"),
        (
            &[
                "evict",
                "simulate",
                &example("eviction/trace.jsonl"),
                "--policy",
                "nonsense",
            ],
            "scorer `nonsense` not found",
        ),
    ] {
        let shown = place.run(arguments);
        assert!(shown.starts_with("exit 2") && shown.contains(part), "{shown}");
    }
}

#[test]
fn what_does_not_pay_is_not_proposed() {
    let place = Place::new();
    place.write(
        "items.json",
        r#"[{"ctx_id": "old", "zone": "workspace", "token_count": 100},
            {"ctx_id": "rules", "zone": "system", "token_count": 8000, "pinned": true}]"#,
    );
    assert!(
        place
            .run(&["evict", "add", "s", "items.json", "--turn", "1"])
            .starts_with("exit 0")
    );
    let propose = |more: &[&str]| {
        let mut arguments = vec!["evict", "propose", "s", "--turn", "60", "--exploration", "0"];
        arguments.extend_from_slice(more);
        place.run(&arguments)
    };
    let waits = propose(&["--remaining-turns", "2"]);
    assert!(
        waits.starts_with("exit 0") && waits.contains("Nothing is proposed: below break-even"),
        "{waits}"
    );
    let within = propose(&["--remaining-turns", "2", "--free", "50", "--window", "200000"]);
    assert!(within.contains("below break-even"), "{within}");
    let unknown = propose(&["--provider", "acme"]);
    assert!(
        unknown.starts_with("exit 2") && unknown.contains("unknown provider `acme`"),
        "{unknown}"
    );
    // An expired cache is written again anyway.
    let cold = propose(&["--remaining-turns", "2", "--idle", "400"]);
    assert!(cold.contains("Pays for itself") && cold.contains("old"), "{cold}");
}

#[test]
fn a_scorer_is_judged_on_the_sessions_of_the_user() {
    let place = Place::new();
    place.write("prompt.md", "Answer with JSON.");
    let made = json_of(
        &place,
        &["evict", "calibrate", "--prompt", "prompt.md", "--format", "json"],
    );
    let version = made["version"].as_str().unwrap();
    let log = example("eviction/session.jsonl");
    let written = place.run(&["evict", "variants", version, "--trace", &log, "--out", "study"]);
    assert!(
        written.starts_with("exit 0") && written.contains("trace.jsonl"),
        "{written}"
    );
    let mut command = place.command(&[
        "evict",
        "target",
        "study/baseline.json",
        "--trace",
        "study/trace.jsonl",
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request =
        r#"{"case_id": "c", "input": {"config_overrides": {"session": "session", "budget_share": 0.5}}}"#;
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), request.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        answer["metrics"]["retained_relevance"].as_f64().is_some(),
        "{answer}"
    );
}
