//! `satiety mcp` as seen by a client, and the commands that correspond to its tools.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Place, json_of};

/// The official Python SDK drives the server: both lifecycles, errors, pagination, cancellation, resources, prompts and
/// profiles.
#[test]
fn the_official_python_client_works() {
    let Some(python) = std::env::var_os("SATIETY_TEST_PYTHON") else {
        eprintln!("skipped: SATIETY_TEST_PYTHON is not set; `cargo xtask test` makes the environment");
        return;
    };
    let place = Place::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python/mcp_client.py");
    let output = Command::new(python)
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_satiety"))
        .arg(place.folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// With logging enabled, standard output has one message per line and nothing else.
#[test]
fn standard_output_has_only_protocol_messages() {
    let place = Place::new();
    place.write(
        "satiety.toml",
        "[models]\nembedder = \"none\"\n[log]\nlevel = \"trace\"\n",
    );
    let mut server = place
        .command(&["mcp", "--session", "s1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "memory_search",
            "arguments": {"query": "anything"}}}),
    ];
    let mut input = server.stdin.take().unwrap();
    for message in messages {
        writeln!(input, "{message}").unwrap();
    }
    drop(input);
    let output = server.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |id: i64| lines.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!(of(1)["result"]["serverInfo"]["name"], "satiety");
    assert_eq!(
        of(1)["result"]["serverInfo"]["version"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(of(2)["result"]["tools"].as_array().unwrap().len(), 9);
    assert_eq!(of(3)["result"]["isError"], false);
    // The search belongs to the named session.
    let sessions = json_of(&place, &["memory", "sessions", "--format", "json"]);
    assert_eq!(sessions["sessions"][0]["session_id"], "s1");
}

/// The entry for the MCP registry describes packages of this version, whose ownership the registry can verify.
#[test]
fn the_registry_entry_matches_the_packages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs_err::read_to_string(root.join(path)).unwrap();
    let entry: Value = serde_json::from_str(&read("server.json")).unwrap();
    let name = entry["name"].as_str().unwrap();
    let (namespace, server) = name.split_once('/').unwrap();
    assert!(
        namespace.split('.').count() > 2 && !server.contains('/'),
        "{name}"
    );
    let description = entry["description"].as_str().unwrap();
    assert!((1..=100).contains(&description.chars().count()), "{description}");
    assert_eq!(entry["repository"]["url"], env!("CARGO_PKG_REPOSITORY"));
    assert_eq!(entry["version"], env!("CARGO_PKG_VERSION"));
    let packages = entry["packages"].as_array().unwrap();
    let kinds: Vec<&Value> = packages.iter().map(|package| &package["registryType"]).collect();
    assert_eq!(kinds, ["npm", "pypi"]);
    for package in packages {
        assert_eq!(package["identifier"], "satiety");
        assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(package["transport"], json!({"type": "stdio"}));
        assert_eq!(
            package["packageArguments"],
            json!([{"type": "positional", "value": "mcp"}])
        );
    }
    let marker = format!("mcp-name: {name}");
    assert!(read("python/README.md").contains(&marker), "no `{marker}`");
}

#[test]
fn tools_are_listed_with_their_token_cost() {
    let place = Place::new();
    let listed = json_of(&place, &["mcp", "--list", "--format", "json"]);
    assert_eq!(listed["tools"].as_array().unwrap().len(), 9);
    let all = json_of(
        &place,
        &["mcp", "--list", "--profile", "full", "--format", "json"],
    );
    assert!(all["tokens"].as_u64() > listed["tokens"].as_u64());
    let text = place.run(&["mcp", "--list", "--tools", "gate, memory_search"]);
    assert!(text.starts_with("exit 0") && text.contains("2 tools"), "{text}");
    for (arguments, expected) in [
        (&["mcp", "--profile", "small"][..], "unknown profile `small`"),
        (&["mcp", "--tools", "memory_find"], "unknown tool `memory_find`"),
        (
            &["mcp", "--list", "--tools", "save"],
            "did you mean `memory_save`?",
        ),
    ] {
        let text = place.run(arguments);
        assert!(text.starts_with("exit 2") && text.contains(expected), "{text}");
    }
}

#[test]
fn a_task_is_opened_used_and_closed() {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    let memory =
        |arguments: &[&str]| json_of(&place, &[&["memory"], arguments, &["--format", "json"]].concat());
    let text = "Take the store lock before the journal lock, or two writers wait for each other.";
    let first = memory(&["save", "Lock order", text])["memory"]["id"].clone();
    let stale = memory(&[
        "save",
        "Lock files",
        "A stale lock file is removed at the next start.",
    ]);
    let stale = stale["memory"]["id"].clone();
    let begun = memory(&[
        "preflight",
        "why does the lock file stay",
        "--session",
        "s1",
        "--task-id",
        "t1",
        "--knowledge",
        "40",
        "--uncertainty",
        "70",
        "--context",
        "50",
        "--gap",
        "who removes it",
    ]);
    assert_eq!(
        (&begun["task_id"], &begun["session_id"]),
        (&json!("t1"), &json!("s1"))
    );
    let results = begun["context"]["results"].as_array().unwrap();
    let rank = |id: &Value| 1 + results.iter().position(|one| one["id"] == *id).unwrap();
    let (used, passed) = if rank(&first) > rank(&stale) {
        (&first, &stale)
    } else {
        (&stale, &first)
    };
    let read = memory(&["get", used.as_str().unwrap(), "--session", "s1"]);
    assert_eq!(read["rank_in_results"], rank(used));
    let closed = memory(&[
        "postflight",
        "success",
        "--session",
        "s1",
        "--knowledge",
        "80",
        "--uncertainty",
        "30",
        "--context",
        "70",
        "--text",
        read["content"].as_str().unwrap(),
        "--learnt",
        "Locks: who starts next removes a stale one.",
    ]);
    assert_eq!(closed["deltas"]["learning_index"], 35.0);
    assert_eq!(closed["referenced"], json!([used]));
    assert_eq!(closed["not_validated"][0]["id"], *used);
    let summary = memory(&["sessions", "s1"]);
    assert_eq!(summary["queries"][0]["selected_ids"], json!([used]));
    assert_eq!(summary["task_outcomes"][0]["outcome"], "success");
    assert_eq!(summary["aggregate_metrics"]["avg_selection_mrr"], 0.5);
    // The query fits the memory above better, so its words are not learned; that memory was passed over.
    let after = memory(&["get", used.as_str().unwrap()]);
    assert_eq!(after["learnt_triggers"], json!([]), "{after}");
    let exported = place.run(&["db", "export", "-"]);
    let events = |kind: &str, id: &Value| {
        let lines = exported
            .lines()
            .filter(|line| line.contains(&format!("\"{kind}\"")));
        lines.filter(|line| line.contains(id.as_str().unwrap())).count()
    };
    assert_eq!(
        (events("read_after_search", used), events("reference", used)),
        (1, 1)
    );
    assert_eq!(
        (events("scroll_past", passed), events("scroll_past", used)),
        (1, 0)
    );
    let health = place.run(&["memory", "health"]);
    assert!(
        health.contains("1 tasks closed, 0 open; 100 % succeeded"),
        "{health}"
    );
    for (arguments, expected) in [
        (
            &["postflight", "success", "--session", "s1"][..],
            "no open task in session `s1`",
        ),
        (
            &["postflight", "fine", "--session", "s1"],
            "unknown outcome `fine`",
        ),
        (
            &["postflight", "success", "--task-id", "t1"],
            "task `t1` is closed",
        ),
        (&["preflight", "x", "--task-id", "t1"], "task `t1` is closed"),
        (&["preflight", "x", "--knowledge", "140"], "must be from 0 to 100"),
        (&["sessions", "s9"], "session `s9` not found"),
        (&["get", "mem-0"], "memory `mem-0` not found"),
    ] {
        let text = place.run(&[&["memory"], arguments].concat());
        assert!(
            text.starts_with("exit 2") && text.contains(expected),
            "{arguments:?}\n{text}"
        );
    }
}
