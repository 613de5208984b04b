//! From a query log to a golden corpus: harvested, judged by feedback and by people, replayed against this memory, an MCP
//! server and an HTTP endpoint; interrupted and resumed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Place, json_of};

fn retrieval(place: &Place, arguments: &[&str]) -> Value {
    json_of(
        place,
        &[&["retrieval"], arguments, &["--format", "json"]].concat(),
    )
}

fn memory(place: &Place, arguments: &[&str]) -> Value {
    json_of(place, &[&["memory"], arguments, &["--format", "json"]].concat())
}

const NOTES: [(&str, &str, &str); 5] = [
    (
        "WAL mode",
        "Readers never wait for the writer because the log is a separate file.",
        "store",
    ),
    (
        "Pool size",
        "The connection pool has twice as many connections as cores.",
        "store",
    ),
    (
        "Key rotation",
        "Signing keys of the gateway rotate every ninety days.",
        "security",
    ),
    (
        "Retry budget",
        "The payment client retries three times with a growing pause.",
        "payments",
    ),
    (
        "Release freeze",
        "Nothing is released between Christmas and the second week of January.",
        "process",
    ),
];

/// A memory with a log: three sessions, six queries, some feedback.
fn place() -> (Place, Vec<String>) {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    let ids: Vec<String> = NOTES
        .iter()
        .map(|(title, content, folder)| {
            let saved = memory(&place, &["save", title, content, "--folder", folder]);
            saved["memory"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    for (query, session) in [
        ("why do readers never wait for the writer", "s1"),
        ("Why do readers never wait for the writer", "s2"),
        ("how often do signing keys rotate", "s1"),
        ("retries of the payment client and pool connections", "s2"),
        ("when is nothing released", "s3"),
        ("unicorns", "s3"),
    ] {
        memory(&place, &["search", query, "--session", session]);
    }
    memory(&place, &["validate", &ids[0], "--useful", "--session", "s1"]);
    memory(&place, &["validate", &ids[0], "--useful", "--session", "s2"]);
    memory(&place, &["validate", &ids[2], "--useful", "--session", "s1"]);
    memory(&place, &["validate", &ids[1], "--not-useful", "--session", "s2"]);
    (place, ids)
}

fn rows(place: &Place, table: &str) -> u64 {
    let status = json_of(place, &["db", "status", "--format", "json"]);
    let tables = status["tables"].as_array().unwrap();
    let found = tables.iter().find(|one| one["name"] == table).unwrap();
    found["rows"].as_u64().unwrap()
}

/// Runs a command with typed lines.
fn typed(place: &Place, arguments: &[&str], keys: &str) -> (i32, String, String) {
    let mut child = place
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_log_becomes_a_corpus_once_and_feedback_becomes_judgments() {
    let (place, ids) = place();
    let text = place.run(&["retrieval", "run", "--memory"]);
    assert!(
        text.starts_with("exit 2") && text.contains("retrieval harvest"),
        "{text}"
    );
    let found = retrieval(&place, &["harvest", "--dry-run"]);
    assert_eq!(
        (&found["logged"], found["taken"].as_array().unwrap().len()),
        (&json!(6), 5)
    );
    assert_eq!(rows(&place, "eval_judgments"), 0);
    let found = retrieval(&place, &["harvest"]);
    let taken = found["taken"].as_array().unwrap();
    assert_eq!(taken.len(), 5);
    let readers = taken
        .iter()
        .find(|one| one["query"].as_str().unwrap().contains("readers"))
        .unwrap();
    assert_eq!(readers["stands_for"].as_array().unwrap().len(), 1);
    let unicorns = taken.iter().find(|one| one["query"] == "unicorns").unwrap();
    assert_eq!(
        (&unicorns["category"], &unicorns["because"]),
        (&json!("edge-case"), &json!("no results"))
    );
    // Again, and after a replay: nothing is left to harvest, and the log has not grown.
    retrieval_exit_3(&place, &["run", "--memory"]);
    let again = retrieval(&place, &["harvest"]);
    assert_eq!(
        (again["taken"].as_array().unwrap().len(), &again["corpus_before"]),
        (0, &json!(5))
    );
    assert_eq!(rows(&place, "eval_queries"), 6);

    let judged = retrieval(&place, &["judge", "--from-feedback"]);
    let all = judged["judgments"].as_array().unwrap();
    let of = |id: &str| all.iter().find(|one| one["memory_id"] == id).unwrap();
    // Both sessions count for the query that represents both.
    assert_eq!(
        (&of(&ids[0])["grade"], &of(&ids[0])["reasons"]),
        (&json!(3), &json!(["marked useful in 2 sessions"]))
    );
    assert_eq!(
        (&of(&ids[1])["grade"], &of(&ids[1])["outcome"]),
        (&json!(0), &json!("written"))
    );
    assert_eq!(
        rows(&place, "eval_judgments"),
        judged["written"].as_u64().unwrap()
    );
    let text = place.run(&["retrieval", "judge", "--from-feedback"]);
    assert!(text.contains("wrote") && text.contains("marked useful"), "{text}");
    assert_eq!(
        rows(&place, "eval_judgments"),
        judged["written"].as_u64().unwrap()
    );

    let run = retrieval(&place, &["run", "--memory", "--by", "category"]);
    assert_eq!(
        (&run["queries"], &run["answered"], &run["failed"]),
        (&json!(5), &json!(5), &json!([]))
    );
    assert_eq!(run["report"]["metrics"]["mrr@10"]["mean"], 1.0);
    assert!(run["latency_ms"]["p95"].as_f64().unwrap() > 0.0);
    assert!(run["report"].get("per_query").is_none());
    let text = place.run(&[
        "retrieval",
        "run",
        "--memory",
        "--baseline",
        "last",
        "--fail-if-worse",
        "0.01",
    ]);
    assert!(text.starts_with("exit ") && text.contains("vs. eval-"), "{text}");
    let runs = retrieval(&place, &["runs"]);
    // The first run was before any judgment.
    assert_eq!(runs["runs"].as_array().unwrap().len(), 3);
    assert_eq!(runs["unfinished"], json!([]));
    let health = memory_health(&place);
    assert_eq!(health["latest_metrics"]["run_id"], runs["runs"][0]["run_id"]);
    assert_eq!(runs["runs"][0]["run_type"], "regression");
    assert_eq!(runs["runs"][0]["control_run_id"], runs["runs"][1]["run_id"]);
    assert_eq!(runs["runs"][0]["figures"]["mrr_at_10"], 1.0);
}

/// Without a model the command exits with 3 and still answers.
fn memory_health(place: &Place) -> Value {
    let output = place
        .command(&["memory", "health", "--format", "json"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn retrieval_exit_3(place: &Place, arguments: &[&str]) {
    let text = place.run(&[&["retrieval"], arguments].concat());
    assert!(
        text.starts_with("exit 3") && text.contains("no judgments yet"),
        "{text}"
    );
}

#[test]
fn annotation_can_be_interrupted_and_resumed() {
    let (place, ids) = place();
    retrieval(&place, &["harvest"]);
    let annotate = |who: &'static str| {
        [
            "retrieval",
            "annotate",
            "--annotator",
            who,
            "--double",
            "1",
            "--format",
            "json",
        ]
    };
    let (code, out, err) = typed(&place, &annotate("ann"), "3\nx\n0\nu\n1\nq\n");
    let step: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &step["progress"]["yours"]), (0, &json!(2)), "{err}");
    assert!(
        err.contains("unknown answer `x`") && err.contains("undone:"),
        "{err}"
    );
    assert!(!err.contains("rank") && !err.contains("score"), "{err}");
    let total = step["progress"]["results"].as_u64().unwrap();
    // Resumes where it stopped, and ends with the input.
    let (_, out, _) = typed(
        &place,
        &annotate("ann"),
        &"2\n".repeat(usize::try_from(total).unwrap()),
    );
    let step: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&step["progress"]["yours"], &step["next"]),
        (&json!(total), &Value::Null)
    );
    assert_eq!(step["progress"]["judged"], 0);
    let text = place.run(&["retrieval", "agreement"]);
    assert!(
        text.starts_with("exit 3") && text.contains("no result was judged by two annotators"),
        "{text}"
    );
    let keys: String = (0..total)
        .map(|number| if number % 2 == 0 { "0\n" } else { "s\n" })
        .collect();
    let (_, out, _) = typed(&place, &annotate("bo"), &keys);
    let step: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(step["progress"]["skipped"].as_u64().unwrap(), total / 2);
    let found = retrieval(&place, &["agreement"]);
    assert_eq!(
        (&found["pairs"][0]["one"], &found["pairs"][0]["other"]),
        (&json!("ann"), &json!("bo"))
    );
    assert_eq!(found["results"].as_u64().unwrap(), total.div_ceil(2));

    // Annotations override feedback, and the report compares both.
    let judged = retrieval(&place, &["judge", "--from-feedback"]);
    assert_eq!(
        (&judged["written"], judged["by_people"].as_u64().unwrap() > 0),
        (&json!(0), true)
    );
    assert!(judged["beside_people"]["results"].as_u64().unwrap() > 0);

    // Exported as judgments and as a corpus, and imported again.
    let text = place.run(&[
        "retrieval",
        "export",
        "qrels.txt",
        "--source",
        "manual",
        "--min-confidence",
        "0.9",
    ]);
    assert!(text.starts_with("exit 0"), "{text}");
    let sure = fs_err::read_to_string(place.path("qrels.txt")).unwrap();
    assert!(sure.lines().all(|line| line.split(' ').count() == 4), "{sure}");
    // Two people disagree: the confidence is one half.
    assert_eq!(sure.lines().count() as u64, total / 2);
    retrieval(&place, &["export", "all.txt"]);
    let all = fs_err::read_to_string(place.path("all.txt")).unwrap();
    assert!(
        all.contains(&ids[0]) && all.lines().count() as u64 == total,
        "{all}"
    );
    place.run(&[
        "retrieval",
        "export",
        "bootstrapped.txt",
        "--source",
        "bootstrapped",
    ]);
    assert_eq!(
        fs_err::read_to_string(place.path("bootstrapped.txt")).unwrap(),
        ""
    );
    retrieval(&place, &["export", "corpus.jsonl"]);
    let corpus = fs_err::read_to_string(place.path("corpus.jsonl")).unwrap();
    let first: Value = serde_json::from_str(corpus.lines().next().unwrap()).unwrap();
    assert!(
        first["harvestedAt"].is_string() && first["sessionContext"]["turnNumber"].is_u64(),
        "{first}"
    );
    let other = Place::new();
    other.write("corpus.jsonl", &corpus);
    retrieval(&other, &["import", "corpus.jsonl"]);
    retrieval(&other, &["export", "again.jsonl"]);
    assert_eq!(fs_err::read_to_string(other.path("again.jsonl")).unwrap(), corpus);
}

/// Finds notes by words; `slow` times out, `broken` fails, `prose` answers with text.
const SERVER: &str = r#"
import json, sys, time
notes = json.load(open(sys.argv[1]))
count = 0
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    else:
        a = m["params"]["arguments"]
        words = set(a["question"].lower().split())
        scored = sorted(((len(words & set(n["text"].lower().split())), n) for n in notes), key=lambda p: -p[0])
        hits = [n for s, n in scored if s > 0][:a["k"]]
        if "unicorns" in words: r = {"content": [{"type": "text", "text": "broken"}], "isError": True}
        elif "released" in words: r = {"content": [{"type": "text", "text": "I remember:\n\n" + "\n".join("- " + n["text"] for n in hits)}]}
        else: r = {"content": [{"type": "text", "text": json.dumps({"hits": [{"key": n["id"], "body": n["text"]} for n in hits]})}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"#;

fn notes(ids: &[String], own_ids: bool) -> String {
    let notes: Vec<Value> = NOTES
        .iter()
        .zip(ids)
        .enumerate()
        .map(|(at, ((_, text, _), id))| json!({"id": if own_ids { format!("n{at}") } else { id.clone() }, "text": text}))
        .collect();
    json!(notes).to_string()
}

#[test]
fn an_mcp_server_is_evaluated_with_the_same_judgments() {
    let (place, ids) = place();
    retrieval(&place, &["harvest"]);
    retrieval(&place, &["judge", "--from-feedback"]);
    retrieval(&place, &["run", "--memory"]);
    place.write("server.py", SERVER);
    // The server has different ids: results are matched by text.
    place.write("notes.json", &notes(&ids, true));
    let run = [
        "run",
        "--mcp",
        "python3 -S server.py notes.json",
        "--tool",
        "recall",
        "--args",
        r#"{"question": "{{query}}", "k": "{{limit}}"}"#,
        "--id-path",
        "/hits/*/key",
        "--text-path",
        "/hits/*/body",
        "--baseline",
        "last",
    ];
    let found = retrieval(&place, &run);
    assert_eq!(
        (&found["queries"], &found["answered"], &found["prose"]),
        (&json!(5), &json!(4), &json!(1)),
        "{found}"
    );
    assert_eq!(found["failed"][0]["error"], "the tool failed: broken");
    assert_eq!(found["report"]["metrics"]["mrr@10"]["mean"], 1.0, "{found}");
    assert_eq!(found["comparison"]["comparisons"][0]["verdict"], "no_evidence");
    // A wrong path is an error of every query, not an empty ranking.
    let wrong: Vec<&str> = run
        .iter()
        .map(|part| {
            if *part == "/hits/*/key" {
                "/found/*/key"
            } else {
                *part
            }
        })
        .collect();
    let text = place.run(&[&["retrieval"], &wrong[..]].concat());
    assert!(text.contains("the answer has no value at `/found`"), "{text}");
    for (arguments, part) in [
        (vec!["run"], "--memory"),
        (
            vec!["run", "--memory", "--http", "http://x"],
            "cannot be used with",
        ),
        (vec!["run", "--mcp", "x"], "missing tool name"),
        (vec!["run", "--mcp", "x", "--preset", "unknown"], "server-memory"),
        (
            vec!["run", "--mcp", "x", "--tool", "t", "--args", "{}"],
            "{{query}}",
        ),
        (
            vec!["run", "--memory", "--baseline", "eval-7"],
            "run `eval-7` not found",
        ),
        (
            vec!["run", "--memory", "--resume", "eval-7"],
            "run `eval-7` not found",
        ),
        (vec!["run", "--memory", "--fail-if-worse", "0.1"], "--baseline"),
        (vec!["annotate", "--annotator", " "], "missing annotator name"),
        (vec!["harvest", "--share", "0"], "share of the targets"),
    ] {
        let text = place.run(&[&["retrieval"], &arguments[..]].concat());
        assert!(
            text.starts_with("exit 2") && text.contains(part),
            "{arguments:?}\n{text}"
        );
    }
}

/// Answers posts with the first note whose id is in the list, and closes the connection after some answers.
fn serve(ids: Vec<String>, answers: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/search", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().take(answers) {
            let mut stream = stream.unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 4096];
            while !String::from_utf8_lossy(&seen).contains("\"q\":") {
                let count = stream.read(&mut buffer).unwrap();
                if count == 0 {
                    break;
                }
                seen.extend_from_slice(&buffer[..count]);
            }
            let body = json!({"data": {"found": ids.iter().map(|id| json!({"doc": {"id": id}})).collect::<Vec<_>>()}}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

#[test]
fn an_http_endpoint_is_evaluated_and_missing_answers_are_reported() {
    let (place, ids) = place();
    retrieval(&place, &["harvest"]);
    retrieval(&place, &["judge", "--from-feedback"]);
    // The warm-up and three of five answers; then the server is gone.
    let url = serve(ids, 4);
    let run = [
        "run",
        "--http",
        &url,
        "--body",
        r#"{"q": "{{query}}"}"#,
        "--id-path",
        "/data/found/*/doc/id",
        "--timeout",
        "5",
    ];
    let found = retrieval(&place, &run);
    assert_eq!(
        (&found["answered"], found["failed"].as_array().unwrap().len()),
        (&json!(3), 2),
        "{found}"
    );
    assert!(found["report"]["queries"].as_u64().unwrap() <= 3);
    let text = place.run(&[&["retrieval"], &run[..]].concat());
    assert!(
        text.starts_with("exit 4") && text.contains("all 5 queries failed"),
        "{text}"
    );
    // Such a run can be resumed, but only with the same system.
    let runs = retrieval(&place, &["runs"]);
    let open = runs["unfinished"][0]["run_id"].as_str().unwrap().to_owned();
    let text = place.run(&["retrieval", "run", "--memory", "--resume", &open]);
    assert!(
        text.starts_with("exit 2") && text.contains("has changed from"),
        "{text}"
    );
}

/// The reference server without entities: every answer is empty.
const EMPTY_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    else:
        r = {"content": [{"type": "text", "text": json.dumps({"entities": [], "relations": []})}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"#;

#[test]
fn a_server_that_finds_nothing_counts_as_zero() {
    let (place, _) = place();
    retrieval(&place, &["harvest"]);
    retrieval(&place, &["judge", "--from-feedback"]);
    retrieval(&place, &["run", "--memory"]);
    place.write("server.py", EMPTY_SERVER);
    let run = [
        "run",
        "--mcp",
        "python3 -S server.py",
        "--preset",
        "server-memory",
        "--baseline",
        "last",
    ];
    let found = retrieval(&place, &run);
    assert_eq!(
        (&found["answered"], &found["failed"]),
        (&found["queries"], &json!([])),
        "{found}"
    );
    assert_eq!(found["report"]["metrics"]["mrr@10"]["mean"], 0.0, "{found}");
    assert!(
        found["comparison"]["comparisons"][0]["verdict"].is_string(),
        "{found}"
    );
}
