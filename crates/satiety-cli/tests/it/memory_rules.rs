//! Restrictions for agents: they cannot create rules, reach other projects, or fill the database with long queries.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::Place;

/// Two repositories of one user with one database.
struct Desk {
    place: Place,
}

impl Desk {
    fn new() -> Self {
        let place = Place::new();
        place.write(".config/satiety/satiety.toml", "[models]\nembedder = \"none\"\n");
        place.write("a/.git/HEAD", "");
        place.write("a/deep/down/x", "");
        // A worktree or a submodule has a file there.
        place.write("b/.git", "gitdir: elsewhere\n");
        Self { place }
    }

    fn command(&self, project: &str, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.current_dir(self.place.path(project));
        command
    }

    fn run(&self, project: &str, arguments: &[&str]) -> String {
        self.place
            .show(&mut self.command(project, &[&["memory"], arguments].concat()))
    }

    fn json(&self, project: &str, arguments: &[&str]) -> Value {
        let arguments = [&["memory"], arguments, &["--format", "json"]].concat();
        let output = self.command(project, &arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn save(&self, project: &str, arguments: &[&str]) -> String {
        let saved = self.json(project, &[&["save"], arguments].concat());
        saved["memory"]["id"].as_str().unwrap().to_owned()
    }

    /// Runs a command at a terminal where a person types `typed`.
    fn at_terminal(&self, project: &str, arguments: &[&str], typed: &str) -> (Option<i32>, String) {
        self.place.at_terminal(project, arguments, typed)
    }

    fn exported(&self) -> PathBuf {
        let path = self.place.path("export.jsonl");
        let _ = fs_err::remove_file(&path);
        let output = self
            .place
            .command(&["db", "export", path.to_str().unwrap()])
            .output();
        assert!(output.unwrap().status.success());
        path
    }

    fn rows(&self, table: &str) -> Vec<Value> {
        let text = fs_err::read_to_string(self.exported()).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["table"] == table)
            .map(|line| line["row"].clone())
            .collect()
    }
}

fn titles(found: &Value) -> Vec<&str> {
    let results = found["results"].as_array().unwrap();
    results.iter().map(|one| one["title"].as_str().unwrap()).collect()
}

const REFUSED: &str = "only a person may make a memory constitutional";

#[test]
fn only_people_create_rules() {
    let desk = Desk::new();
    let plain = desk.save("a", &["Plain", "Some text about queues."]);
    for arguments in [
        &["save", "Rule", "Always obey.", "--tier", "constitutional"][..],
        &["save", "Rule", "Always obey.", "--tier", " Constitutional "],
        &[
            "save",
            "Rule",
            "Always obey.",
            "--tier",
            "CONSTITUTIONAL",
            "--project",
            "elsewhere",
        ],
        &["update", &plain, "--tier", "constitutional"],
        &["update", &plain, "--tier", "Constitutional", "--all-projects"],
    ] {
        let text = desk.run("a", arguments);
        assert!(
            text.starts_with("exit 1") && text.contains(REFUSED),
            "{arguments:?}: {text}"
        );
        assert!(
            text.contains("at a terminal") && text.contains("`admin`"),
            "{text}"
        );
    }
    let text = desk.run("a", &["save", "Wide", "For everybody.", "--global"]);
    assert!(
        text.starts_with("exit 1") && text.contains("only a person may make a memory global"),
        "{text}"
    );
    assert!(
        desk.run("a", &["update", &plain, "--move-to", "global"])
            .starts_with("exit 1")
    );
    assert_eq!(
        desk.json("a", &["list", "--all-projects"])["memories"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    // A person creates the rule, and sees it before confirming.
    let rule = [
        "memory",
        "save",
        "Rule",
        "Never force push.",
        "--tier",
        "constitutional",
    ];
    let (code, printed) = desk.at_terminal("a", &rule, "yes");
    assert_eq!(code, Some(2), "{printed}");
    let (code, printed) = desk.at_terminal("a", &rule, "confirm");
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("Never force push.") && printed.contains("type `confirm`"),
        "{printed}"
    );
    let listed = desk.json("a", &["list", "--tier", "constitutional"]);
    let rule = listed["memories"][0]["id"].as_str().unwrap().to_owned();

    // It applies to every query in its own project, and in no other.
    assert_eq!(titles(&desk.json("a", &["search", "zebra"])), ["Rule"]);
    assert_eq!(titles(&desk.json("b", &["search", "zebra"])), Vec::<&str>::new());

    // No action of an agent changes or removes it.
    for arguments in [
        &["update", &rule, "--content", "Always force push."][..],
        &["update", &rule, "--title", "Old rule"],
        &["update", &rule, "--tier", "temporary"],
        &["update", &rule, "--folder", "nowhere"],
        &["update", &rule, "--move-to", "elsewhere"],
        &["delete", &rule],
        &["delete", &plain, &rule],
    ] {
        let text = desk.run("a", arguments);
        assert!(
            text.starts_with("exit 1") && text.contains("only a person may change or forget"),
            "{arguments:?}: {text}"
        );
    }
    let read = desk.json("a", &["get", &rule]);
    assert_eq!(
        (&read["content"], &read["tier"]),
        (&json!("Never force push."), &json!("constitutional"))
    );
    assert_eq!(desk.json("a", &["list"])["memories"].as_array().unwrap().len(), 2);
    let (code, printed) = desk.at_terminal("a", &["memory", "delete", &rule], "confirm");
    assert_eq!(code, Some(0), "{printed}");
}

#[test]
fn indexed_files_are_at_most_important() {
    let desk = Desk::new();
    for (name, key, tier) in [
        ("one", "tier", "constitutional"),
        ("two", "importance", "Constitutional"),
        ("three", "importanceTier", "critical"),
        ("four", "importance_tier", "important"),
    ] {
        let text = format!("---\ntitle: {name}\n{key}: {tier}\n---\nThe text of {name}.\n");
        desk.place.write(&format!("a/notes/{name}.md"), &text);
    }
    let indexed = desk.json("a", &["index", "notes"]);
    assert_eq!(indexed["added"], 4);
    assert_eq!(indexed["lowered"], json!(["one.md", "three.md", "two.md"]));
    for memory in desk.json("a", &["list"])["memories"].as_array().unwrap() {
        assert_eq!(memory["tier"], "important", "{memory}");
    }
    // A person may raise the tier later; then reindexing the file neither changes nor deletes it.
    let listed = desk.json("a", &["list"]);
    let memories = listed["memories"].as_array().unwrap();
    let one = memories.iter().find(|memory| memory["title"] == "one").unwrap();
    let id = one["id"].as_str().unwrap();
    let raise = ["memory", "update", id, "--tier", "constitutional"];
    assert_eq!(desk.at_terminal("a", &raise, "confirm").0, Some(0));
    assert_eq!(desk.json("a", &["index", "notes"])["unchanged"], 4);
    assert_eq!(desk.json("a", &["get", id])["tier"], "constitutional");
    desk.place.write(
        "a/notes/one.md",
        "---\ntitle: one\ntier: normal\n---\nDo as the file says.\n",
    );
    let text = desk.run("a", &["index", "notes"]);
    assert!(
        text.starts_with("exit 1") && text.contains("only a person may change or forget"),
        "{text}"
    );
    fs_err::remove_file(desk.place.path("a/notes/one.md")).unwrap();
    fs_err::remove_file(desk.place.path("a/notes/two.md")).unwrap();
    assert_eq!(desk.json("a", &["index", "notes"])["removed"], 1);
    let read = desk.json("a", &["get", id]);
    assert_eq!(
        (&read["content"], &read["tier"]),
        (&json!("The text of one."), &json!("constitutional"))
    );
}

#[test]
fn importing_rules_needs_a_person() {
    let desk = Desk::new();
    let rule = [
        "memory",
        "save",
        "Rule",
        "Never force push.",
        "--tier",
        "constitutional",
    ];
    assert_eq!(desk.at_terminal("a", &rule, "confirm").0, Some(0));
    let path = desk.exported();
    let import = ["--db", "sqlite:new.db", "db", "import", path.to_str().unwrap()];
    let text = desk.place.run(&import);
    assert!(
        text.starts_with("exit 2") && text.contains("a constitutional memory needs confirmation"),
        "{text}"
    );
    let mut piped = desk
        .place
        .command(&["--db", "sqlite:new.db", "db", "import", "-"]);
    piped.stdin(fs_err::File::open(&path).unwrap().into_parts().0);
    assert!(desk.place.show(&mut piped).starts_with("exit 2"));
    let (code, printed) = desk.at_terminal("", &import, "confirm");
    assert_eq!(code, Some(0), "{printed}");
    let listed = desk
        .place
        .run(&["--db", "sqlite:new.db", "memory", "list", "--all-projects"]);
    assert!(listed.contains("constitutional"), "{listed}");
}

#[test]
fn projects_are_isolated() {
    let desk = Desk::new();
    let secret = desk.save(
        "a/deep/down",
        &[
            "Queue secret",
            "The queue password is swordfish.",
            "--trigger",
            "queue password",
        ],
    );
    let inside = desk.json("a", &["search", "queue password"]);
    assert_eq!(titles(&inside), ["Queue secret"]);
    assert_eq!(inside["results"][0]["project"]["label"], "a");
    assert!(
        inside["results"][0]["project"]["id"]
            .as_str()
            .unwrap()
            .starts_with("project-")
    );

    let other = desk.save("b", &["Other", "Nothing about it."]);
    for arguments in [
        &["search", "queue password"][..],
        &["context", "queue password", "--session", "s"],
        &["search", "queue password", "--mode", "deep"],
        &["preflight", "find the queue password"],
    ] {
        let found = desk.json("b", arguments);
        let found = found.get("context").unwrap_or(&found);
        assert!(
            !found["results"].to_string().contains("swordfish"),
            "{arguments:?}: {found}"
        );
        assert!(
            !found.to_string().contains("Queue secret"),
            "{arguments:?}: {found}"
        );
    }
    assert_eq!(
        desk.json("b", &["match", "the queue password"])["matches"],
        json!([])
    );
    assert_eq!(
        desk.json("a", &["match", "the queue password"])["matches"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(desk.json("b", &["list"])["memories"].as_array().unwrap().len(), 1);
    for arguments in [
        &["get", &secret][..],
        &["list", "--id", &secret],
        &["update", &secret, "--content", "overwritten"],
        &["delete", &secret],
        &["validate", &secret, "--useful"],
        &["link", &other, "caused", &secret],
        &["link", &secret, "caused", &other],
        &["postflight", "success", "--session", "s", "--useful", &secret],
    ] {
        let text = desk.run("b", arguments);
        assert!(text.starts_with("exit 2"), "{arguments:?}: {text}");
        assert!(
            !text.contains("swordfish") && !text.contains("Queue secret"),
            "{arguments:?}: {text}"
        );
    }
    assert_eq!(
        desk.json("a", &["get", &secret])["content"],
        "The queue password is swordfish."
    );

    // Explicitly requested.
    for wider in [
        &["--all-projects"][..],
        &["--project", "../a"],
        &["--project", "all"],
    ] {
        let found = desk.json("b", &[&["search", "queue password"], wider].concat());
        assert_eq!(titles(&found), ["Queue secret"], "{wider:?}");
    }
    // Memories that a person saves for all projects are visible everywhere.
    let wide = [
        "memory",
        "save",
        "Wide queue",
        "Queues are first in, first out.",
        "--global",
    ];
    let (code, printed) = desk.at_terminal("a", &wide, "confirm");
    assert_eq!(code, Some(0), "{printed}");
    let found = desk.json("b", &["search", "queues"]);
    assert_eq!(titles(&found), ["Wide queue"]);
    assert_eq!(found["results"][0]["project"], Value::Null);
    let wide = found["results"][0]["id"].as_str().unwrap();
    let text = desk.run("b", &["update", wide, "--move-to", "b"]);
    assert!(
        text.starts_with("exit 1") && text.contains("only a person"),
        "{text}"
    );
    // Links do not cross projects.
    let near = desk.save("b", &["Near", "The lighthouse keeper sleeps."]);
    let far = desk.save("b", &["Far", "Entirely different words."]);
    for (from, to) in [(&near, &secret), (&secret, &far)] {
        desk.json("b", &["link", from, "caused", to, "--all-projects"]);
    }
    let found = desk.json("b", &["search", "lighthouse keeper", "--mode", "deep"]);
    assert_eq!(titles(&found), ["Near"]);
    let read = desk.json("b", &["get", &near]);
    assert_eq!(read["links"], json!([]));
}

/// Filtering happens before the limit: memories of other projects do not crowd out those of this one.
#[test]
fn other_projects_do_not_crowd_out_results() {
    let desk = Desk::new();
    for number in 0..60 {
        let text = format!("# Lock {number}\nlock lock lock lock lock {number}\n");
        desk.place.write(&format!("a/notes/{number}.md"), &text);
    }
    desk.json("a", &["index", "notes"]);
    desk.save(
        "b",
        &[
            "Only",
            "There is one lock, among many other words that say nothing of the kind.",
        ],
    );
    let found = desk.json("b", &["search", "lock", "--mode", "quick", "--limit", "1"]);
    assert_eq!(titles(&found), ["Only"]);
}

#[test]
fn long_queries_are_refused_and_logged_truncated() {
    let desk = Desk::new();
    desk.save("a", &["Words", "lorem ipsum dolor"]);
    let huge = "lorem ".repeat(4_000);
    let long = "lorem ".repeat(2_000);
    for arguments in [
        &["search", huge.as_str()][..],
        &["context", huge.as_str()],
        &["preflight", huge.as_str()],
    ] {
        let text = desk.run("a", arguments);
        assert!(
            text.starts_with("exit 2") && text.contains("query too long: 24000 bytes (limit 16384)"),
            "{}",
            &text[..500.min(text.len())]
        );
    }
    for (arguments, what) in [
        (
            &["search", "x", "--session", huge.as_str()][..],
            "session name too long",
        ),
        (&["search", "x", "--folder", huge.as_str()], "folder too long"),
        (
            &["preflight", "x", "--task-id", huge.as_str()],
            "task id too long",
        ),
        (
            &["preflight", "x", "--gap", huge.as_str()],
            "list of knowledge gaps",
        ),
        (
            &["match", "x", "--session", huge.as_str()],
            "session name too long",
        ),
        (&["save", "t", "c", "--folder", huge.as_str()], "folder"),
        (&["save", "t", "c", "--kind", huge.as_str()], "kind is too long"),
        (
            &["save", "t", "c", "--project", huge.as_str()],
            "project name is too long",
        ),
    ] {
        let text = desk.run("a", arguments);
        assert!(
            text.starts_with("exit 2") && text.contains(what),
            "{what}: {}",
            &text[..500.min(text.len())]
        );
    }
    assert_eq!(desk.rows("eval_queries"), Vec::<Value>::new());
    desk.json("a", &["search", &long, "--session", "s"]);
    desk.json("a", &["preflight", &long, "--session", "s"]);
    let rows = desk.rows("eval_queries");
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["query"].as_str().unwrap().chars().count(), 513);
        let detail: Value = serde_json::from_str(row["detail"].as_str().unwrap()).unwrap();
        assert_eq!(detail["query_bytes"], 12_000);
        assert_eq!(detail["query_blake3"].as_str().unwrap().len(), 32);
        assert!(detail["project"].as_str().unwrap().starts_with("project-"));
    }
    let tasks = desk.rows("memory_tasks");
    assert_eq!(tasks[0]["task"].as_str().unwrap().chars().count(), 513);
    // The limit can be raised, within bounds.
    let mut command = desk.command("a", &["memory", "search", &huge]);
    command.env("SATIETY_MEMORY_MAX_QUERY_BYTES", "30000");
    assert!(desk.place.show(&mut command).starts_with("exit 0"));
    let mut command = desk.command("a", &["memory", "search", "x"]);
    command.env("SATIETY_MEMORY_MAX_QUERY_BYTES", "0");
    assert!(desk.place.show(&mut command).starts_with("exit 2"));
}

/// Answers of `satiety mcp`, started in a project, to these calls.
fn over_mcp(desk: &Desk, project: &str, flags: &[&str], calls: &[(&str, Value)]) -> Vec<Value> {
    let mut child = desk
        .command(project, &[&["mcp", "--profile", "full"], flags].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut send = |message: Value| writeln!(input, "{message}").unwrap();
    send(
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}}),
    );
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut answers = Vec::new();
    let mut read = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    read();
    for (number, (tool, arguments)) in (1..).zip(calls) {
        send(json!({"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}}));
        answers.push(read()["result"].clone());
    }
    drop(input);
    child.wait().unwrap();
    answers
}

#[test]
fn the_same_rules_apply_over_mcp() {
    let desk = Desk::new();
    let saved = over_mcp(
        &desk,
        "a/deep",
        &[],
        &[
            (
                "memory_save",
                json!({"title": "Queue", "content": "swordfish", "triggers": ["queue password"]}),
            ),
            (
                "memory_save",
                json!({"title": "Rule", "content": "Obey.", "tier": "constitutional"}),
            ),
            ("memory_search", json!({"query": "swordfish"})),
            ("memory_search", json!({"query": "x".repeat(20_000)})),
            (
                "memory_context",
                json!({"query": "x", "session": "x".repeat(20_000)}),
            ),
        ],
    );
    let id = saved[0]["structuredContent"]["memory"]["id"].clone();
    let text = |answer: &Value| {
        answer["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        saved[1]["isError"] == true && text(&saved[1]).contains(REFUSED),
        "{}",
        saved[1]
    );
    assert_eq!(saved[2]["structuredContent"]["results"][0]["project"], "a");
    assert!(text(&saved[3]).contains("limit 16384"), "{}", saved[3]);
    assert!(text(&saved[4]).contains("session name too long"), "{}", saved[4]);
    let outside = [
        ("memory_search", json!({"query": "swordfish"})),
        ("memory_context", json!({"query": "queue password"})),
        ("memory_match_triggers", json!({"text": "queue password"})),
        ("memory_list", json!({})),
        ("task_preflight", json!({"task": "queue password"})),
        ("memory_read", json!({"id": id})),
        ("memory_update", json!({"id": id, "content": "overwritten"})),
        ("memory_update", json!({"id": id, "tier": "constitutional"})),
        ("memory_delete", json!({"ids": [id]})),
        ("memory_validate", json!({"id": id, "useful": true})),
    ];
    for ((tool, _), answer) in outside.iter().zip(over_mcp(&desk, "b", &[], &outside)) {
        assert!(!answer.to_string().contains("swordfish"), "{tool}: {answer}");
        assert!(!answer.to_string().contains("\"Queue\""), "{tool}: {answer}");
    }
    assert_eq!(
        desk.json("a", &["get", id.as_str().unwrap()])["content"],
        "swordfish"
    );
    // Explicitly requested: by the flag, or by the argument.
    let ask = [("memory_search", json!({"query": "swordfish"}))];
    let found = over_mcp(&desk, "b", &["--project", "../a"], &ask);
    assert_eq!(found[0]["structuredContent"]["results"][0]["id"], id);
    let ask = [("memory_search", json!({"query": "swordfish", "project": "all"}))];
    assert_eq!(
        over_mcp(&desk, "b", &[], &ask)[0]["structuredContent"]["results"][0]["id"],
        id
    );
}

/// Without `--project`, a server uses the project of its directory; requests may name another.
#[test]
fn a_server_uses_the_project_of_its_directory() {
    let desk = Desk::new();
    desk.save("a", &["Queue", "swordfish"]);
    let server = crate::serve::start(&desk.place, &["--embedder", "none"]);
    let ask = |body: Value| crate::dashboard_seed::post(&server.address, "/v1/memory/search", &body);
    assert_eq!(ask(json!({"query": "swordfish"}))["results"], json!([]));
    let found = ask(json!({"query": "swordfish", "project": "all"}));
    assert_eq!(found["results"][0]["project"]["label"], "a");
    let id = found["results"][0]["project"]["id"].clone();
    assert_eq!(
        ask(json!({"query": "swordfish", "project": id}))["results"][0]["title"],
        "Queue"
    );
    assert_eq!(crate::serve::end(server), Some(0));
    let server = crate::serve::start(&desk.place, &["--embedder", "none", "--project", "./a"]);
    let found = crate::dashboard_seed::post(
        &server.address,
        "/v1/memory/search",
        &json!({"query": "swordfish"}),
    );
    assert_eq!(found["results"][0]["title"], "Queue");
    assert_eq!(crate::serve::end(server), Some(0));
}
