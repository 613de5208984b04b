//! `satiety memory`, on the bundled notes and on invalid input.

use serde_json::Value;

use crate::support::{Place, example, json_of};

fn json(place: &Place, arguments: &[&str]) -> Value {
    json_of(place, &[&["memory"], arguments, &["--format", "json"]].concat())
}

fn save(place: &Place, title: &str, content: &str, more: &[&str]) -> String {
    let saved = json(place, &[&["save", title, content], more].concat());
    saved["memory"]["id"].as_str().unwrap().to_owned()
}

fn titles(found: &Value) -> Vec<&str> {
    let results = found["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| result["title"].as_str().unwrap())
        .collect()
}

/// No words in common: only the sentence model can find it.
#[test]
fn notes_are_indexed_once_and_found_by_words_meaning_and_triggers() {
    let place = Place::new();
    let notes = example("memory");
    assert_eq!(json(&place, &["index", &notes])["added"], 4);
    let again = json(&place, &["index", &notes]);
    assert_eq!(
        (&again["unchanged"], &again["added"], &again["changed"]),
        (&4.into(), &0.into(), &0.into())
    );

    let found = json(&place, &["search", "SQLite locked again"]);
    assert_eq!(titles(&found)[0], "SQLite runs in WAL mode");
    let channels = &found["results"][0]["channels"];
    assert!(
        channels["lexical"]["rank"] == 1 && channels["trigger"]["rank"] == 1,
        "{channels}"
    );
    assert!(channels["vector"]["score"].as_f64().unwrap() > 0.3, "{channels}");
    assert!(titles(&found)[..4].contains(&"Never delete without a backup"));
    assert_eq!(found["degraded"], Value::Null);
    assert_eq!(found["telemetry"]["stages"].as_array().unwrap().len(), 5);

    let found = json(&place, &["search", "erase customer records"]);
    assert_eq!(titles(&found)[0], "Never delete without a backup");
    assert!(found["results"][0]["channels"].get("lexical").is_none());
    let matched = json(&place, &["match", "the database is locked, what now"]);
    assert_eq!(matched["matches"].as_array().unwrap().len(), 1);
    // Every search is logged.
    let status = json_of(&place, &["db", "status", "--format", "json"]);
    let queries = status["tables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["name"] == "eval_queries")
        .unwrap();
    assert_eq!(queries["rows"], 2);
}

#[test]
fn without_a_model_search_uses_words_and_says_so() {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    save(&place, "Use WAL", "Readers never wait for the writer.", &[]);
    let text = place.run(&["memory", "search", "does a reader wait?"]);
    assert!(
        text.starts_with("exit 0") && text.contains("1. Use WAL"),
        "{text}"
    );
    assert!(text.contains("warning: no sentence model"), "{text}");
    let health = place.run(&["memory", "health"]);
    assert!(
        health.starts_with("exit 3") && health.contains("degraded:"),
        "{health}"
    );
}

#[test]
fn a_session_learns_and_does_not_repeat_results() {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    save(
        &place,
        "Lock order",
        "Take the store lock before the journal lock.",
        &[],
    );
    let id = save(
        &place,
        "Lock files",
        "A stale lock file is removed at the next start.",
        &[],
    );
    let rule = [
        "memory",
        "save",
        "Rule",
        "Never force push.",
        "--tier",
        "constitutional",
    ];
    assert_eq!(place.at_terminal("", &rule, "confirm").0, Some(0));
    let ask = ["context", "stale lock file", "--session", "s1"];
    let first = json(&place, &ask);
    assert_eq!(first["results"][0]["id"], id.as_str());
    assert!(titles(&first).contains(&"Rule"));
    let second = json(&place, &ask);
    assert_eq!(titles(&second), ["Rule"]);
    assert_eq!(second["already_shown"].as_array().unwrap().len(), 2);
    assert_eq!(second["telemetry"]["re_search_of"], first["query_id"]);

    let validated = json(&place, &["validate", &id, "--useful", "--session", "s1"]);
    assert_eq!(
        (&validated["confidence"], &validated["rank_in_results"]),
        (&0.6.into(), &1.into())
    );
    assert_eq!(validated["learnt_trigger"], "stale lock file");
    assert_eq!(
        json(&place, &["match", "a stale lock file"])["matches"][0]["id"],
        id.as_str()
    );
    json(&place, &["update", &id, "--unlearn", "stale lock file"]);
    assert_eq!(
        json(&place, &["match", "a stale lock file"])["matches"],
        serde_json::json!([])
    );
}

#[test]
fn links_changes_and_deletions_take_effect() {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    let cause = save(
        &place,
        "Importer",
        "The importer held readers up.",
        &["--folder", "store/import"],
    );
    let effect = save(&place, "Journal mode", "WAL it is.", &["--folder", "store"]);
    json(&place, &["link", &cause, "caused", &effect]);
    let found = json(&place, &["search", "importer"]);
    assert_eq!(titles(&found), ["Importer", "Journal mode"]);
    assert_eq!(found["results"][1]["channels"]["graph"]["rank"], 1);
    assert_eq!(
        titles(&json(&place, &["search", "importer", "--folder", "store/import"])),
        ["Importer"]
    );
    json(&place, &["update", &effect, "--title", "Zebra mode"]);
    assert_eq!(titles(&json(&place, &["search", "zebra"]))[0], "Zebra mode");
    json(&place, &["delete", &effect]);
    assert_eq!(titles(&json(&place, &["search", "zebra importer"])), ["Importer"]);
    assert_eq!(json(&place, &["list"])["memories"].as_array().unwrap().len(), 1);
}

#[test]
fn invalid_input_is_reported_and_changes_nothing() {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    place.write("notes/good.md", "# Good\ntext");
    place.write("notes/bad.md", "---\ntier: vital\n---\ntext");
    for (arguments, expected) in [
        (&["save", "t", "c", "--tier", "vital"][..], "unknown tier `vital`"),
        (&["save", " ", "c"], "title must not be empty"),
        (
            &["save", "t", "c", "--expires", "0"],
            "the number of days must be from 1",
        ),
        (&["search", "  "], "empty query"),
        (&["search", "x", "--usage", "7"], "must be from 0 to 1"),
        (&["search", "x", "--limit", "0"], "must be from 1 to 200"),
        (&["delete", "mem-0"], "memory `mem-0` not found"),
        (&["validate", "mem-0", "--useful"], "memory `mem-0` not found"),
        (&["validate", "mem-0"], "--useful"),
        (&["link", "a", "caused", "a"], "cannot link memory `a` to itself"),
        (&["link", "a", "causes", "b"], "unknown link kind `causes`"),
        (&["link", "a", "caused", "b"], "memory `a` not found"),
        (&["index", "nowhere"], "nowhere is not a directory"),
    ] {
        let text = place.run(&[&["memory"], arguments].concat());
        assert!(
            text.starts_with("exit 2") && text.contains(expected),
            "{arguments:?}\n{text}"
        );
    }
    assert_eq!(json(&place, &["list"])["memories"], serde_json::json!([]));
    let text = place.run(&["memory", "index", "notes"]);
    assert!(
        text.starts_with("exit 1") && text.contains("1 new") && text.contains("not indexed: bad.md"),
        "{text}"
    );
    fs_err::remove_file(place.path("notes/good.md")).unwrap();
    assert!(place.run(&["memory", "index", "notes"]).contains("1 deleted"));
}

#[test]
fn imports_are_repeatable_and_skipped_records_are_named() {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    place.write(
        "notes.jsonl",
        "{\"id\": 1, \"content\": \"the walrus sleeps\"}\n{broken\n{\"id\": 3, \"content\": \"the zebra runs\"}\n",
    );
    let dry = place.run(&["memory", "import", "notes.jsonl", "--dry-run"]);
    assert!(
        dry.contains("would import: 2 new, 0 changed, 0 unchanged, 1 skipped (jsonl)"),
        "{dry}"
    );
    let shown = place.run(&["memory", "import", "notes.jsonl"]);
    assert!(shown.starts_with("exit 1\n"), "{shown}");
    assert!(
        shown.contains("2 new, 0 changed, 0 unchanged, 1 skipped (jsonl)"),
        "{shown}"
    );
    assert!(shown.contains("skipped notes.jsonl:2: invalid JSON"), "{shown}");
    let again = place.run(&["memory", "import", "notes.jsonl"]);
    assert!(
        again.contains("0 new, 0 changed, 2 unchanged, 1 skipped"),
        "{again}"
    );
    assert_eq!(
        titles(&json(&place, &["search", "walrus"])),
        ["the walrus sleeps"]
    );
    let missing = place.run(&["memory", "import", "nowhere.jsonl"]);
    assert!(
        missing.starts_with("exit 2\n") && missing.contains("cannot read nowhere.jsonl"),
        "{missing}"
    );
    let unknown = place.run(&["memory", "import", "notes.jsonl", "--from", "xml"]);
    assert!(
        unknown.starts_with("exit 2\n") && unknown.contains("server-memory"),
        "{unknown}"
    );
    let graph = r#"{"type":"entity","name":"Ann","entityType":"person","observations":["likes tea"]}"#;
    place.write("memory.json", graph);
    let shown = place.run(&["memory", "import", "memory.json"]);
    assert!(
        shown.starts_with("exit 0\n") && shown.contains("(server-memory)"),
        "{shown}"
    );
}
