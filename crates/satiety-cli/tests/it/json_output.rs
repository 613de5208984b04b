//! Every command that needs no model, network or person prints the JSON that its published schema describes. The check
//! itself is in `support.rs` and also applies to all other tests.

use crate::support::{Place, example};

/// Runs `--format json`, which must print an object and exit with one of these codes.
fn check(place: &Place, command: &str, exits: &[u8]) -> String {
    let mut arguments: Vec<&str> = command.split(' ').collect();
    arguments.extend(["--format", "json"]);
    let shown = place.run(&arguments);
    let is_expected = exits
        .iter()
        .any(|exit| shown.starts_with(&format!("exit {exit}\n")));
    assert!(
        is_expected && shown.contains("----- stdout\n{"),
        "{command}: {shown}"
    );
    shown
}

/// Value of the first field with this name.
fn field(shown: &str, name: &str) -> String {
    let (_, rest) = shown.split_once(&format!("\"{name}\": \"")).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn maintenance_commands_print_the_documented_objects() {
    let place = Place::new();
    for command in [
        "config show",
        "models list",
        "models use builtin",
        "db migrate",
        "db status",
        "db retain --list",
        "db retain --dry-run",
        "db export all.jsonl",
        "db backup copy.db",
        "--db sqlite:second.db db import all.jsonl",
        "tenant create acme",
        "tenant list",
        "tenant set acme --requests-per-day 10",
        "tenant disable acme",
        "tenant show acme",
        "tenant delete acme --yes --delete-store",
        "token create ci --scope read",
        "token list",
        "token revoke ci",
        "token audit",
        "hook install --for claude --dry-run",
        "hook install --for claude,copilot",
        "hook uninstall --for claude,copilot",
        "hook status",
        "trust --show",
        "trust",
        "trust --list",
        "trust --revoke",
        "mcp --list --profile full",
        "memory health",
    ] {
        check(&place, command, &[0]);
    }
    check(&place, "doctor", &[0, 4]);
}

#[test]
fn memory_and_retrieval_commands_print_the_documented_objects() {
    let place = Place::new();
    check(&place, &format!("memory index {}", example("memory")), &[0]);
    place.write(
        "more.jsonl",
        "{\"content\": \"imported\"}\n{\"title\": \"no text\"}\n",
    );
    check(&place, "memory import more.jsonl", &[1]);
    check(&place, "memory embed", &[0]);
    let found = check(&place, "memory search database --session s1", &[0]);
    let id = field(&found, "id");
    let corpus = example("retrieval/corpus.jsonl");
    let run = example("retrieval/bm25.txt");
    for command in [
        "memory context database --session s1".to_owned(),
        "memory match database".into(),
        "memory list".into(),
        format!("memory list --id {id}"),
        format!("memory get {id} --session s1"),
        format!("memory validate {id} --useful --session s1"),
        "memory preflight work --session s1 --knowledge 40 --uncertainty 70 --context 50".into(),
        "memory postflight success --session s1 --knowledge 80 --uncertainty 30 --context 70".into(),
        "memory sessions".into(),
        "memory sessions s1".into(),
        format!("memory update {id} --title Changed"),
        format!("memory delete {id}"),
        "retrieval harvest".into(),
        "retrieval judge --from-feedback".into(),
        "retrieval runs".into(),
        format!("retrieval eval --qrels {corpus} --run {run}"),
        format!(
            "retrieval compare --qrels {corpus} --run {run} --run {}",
            example("retrieval/fusion.txt")
        ),
        format!("retrieval import {corpus}"),
        "retrieval export corpus".into(),
        "ab list".into(),
        format!("ab start --file {}", example("ab/better.toml")),
        "ab rollout critical-first --percent 20".into(),
        "ab pause critical-first".into(),
        "ab resume critical-first".into(),
        "ab reject critical-first --reason done".into(),
    ] {
        check(&place, &command, &[0]);
    }
    check(&place, &format!("retrieval corpus check {corpus}"), &[0, 1, 3]);
    check(&place, "retrieval agreement", &[3]);
    check(&place, "ab propose", &[1, 3]);
    check(&place, "retrieval run --memory", &[0, 3]);
}

#[test]
fn decisions_print_the_documented_objects() {
    let place = Place::new();
    let conversation = example("transcripts/checkout.json");
    for command in [
        format!("score {conversation}"),
        format!("watch {} --idle 1", example("transcripts/checkout.jsonl")),
        format!("sweep {}", example("calibration")),
        format!("progress {}", example("progress/looping.jsonl")),
        format!("score {}", example("progress/looping.jsonl")),
        format!("score {}", example("eviction/session.jsonl")),
        format!("watch {} --idle 1", example("progress/looping.jsonl")),
        format!("sweep {} --work", example("progress/runs.jsonl")),
        format!("gate {}", example("research/rounds.jsonl")),
        format!("evict add s1 {}", example("eviction/items.json")),
        "evict list".into(),
        "evict list s1 --explain".into(),
        "evict propose s1 --budget 24000".into(),
        "evict timeline s1".into(),
        "evict feedback".into(),
        "evict weights".into(),
        "evict weights heuristic-1".into(),
        format!("evict simulate {}", example("eviction/trace.jsonl")),
        "bench init suite".into(),
        "bench check suite".into(),
        "bench list".into(),
        "bench run suite --dry-run".into(),
        "bench run suite".into(),
        "bench list --runs".into(),
        "bench report latest".into(),
        "bench baseline latest --suite suite --reason first --by me".into(),
        "bench compare latest latest".into(),
        "harness lock --harness .".into(),
        "harness status --harness .".into(),
    ] {
        check(&place, &command, &[0]);
    }
}
