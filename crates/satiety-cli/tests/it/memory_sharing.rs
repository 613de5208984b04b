//! Concurrent processes that write and read one database: nothing is lost, and no lock error is visible.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Place, json_of};

const WRITERS: usize = 3;
const READERS: usize = 2;

/// Duration in seconds; set `SATIETY_SHARING_SECONDS=60` for a minute.
fn duration() -> Duration {
    let asked = std::env::var("SATIETY_SHARING_SECONDS").ok();
    Duration::from_secs(asked.and_then(|text| text.parse().ok()).unwrap_or(8))
}

#[test]
fn concurrent_processes_lose_nothing_and_see_no_lock_errors() {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    let until = Instant::now() + duration();
    let (saved, searched, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let run = |arguments: &[&str]| -> Value {
        let output = place.command(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || stderr.contains("lock") || stderr.contains("busy") {
            failed.store(true, Ordering::SeqCst);
            panic!("{arguments:?}: {stderr}");
        }
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let going = || Instant::now() < until && !failed.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (run, saved) = (&run, &saved);
            scope.spawn(move || {
                let mut number = 0;
                while number < 3 || going() {
                    let title = format!("note {writer} {number}");
                    let content = format!("word{writer}x{number} of the database");
                    let kept = run(&["memory", "save", &title, &content, "--format", "json"]);
                    let id = kept["memory"]["id"].as_str().unwrap();
                    // An acknowledged write is found at once by another process.
                    let word = format!("word{writer}x{number}");
                    let found = run(&["memory", "search", &word, "--mode", "quick", "--format", "json"]);
                    assert_eq!(found["results"][0]["id"], id, "{found}");
                    run(&["memory", "update", id, "--tier", "important", "--format", "json"]);
                    saved.fetch_add(1, Ordering::SeqCst);
                    number += 1;
                }
            });
        }
        for reader in 0..READERS {
            let (run, searched) = (&run, &searched);
            scope.spawn(move || {
                let session = format!("reader-{reader}");
                let mut number = 0;
                while number < 3 || going() {
                    let asked = [
                        "memory",
                        "search",
                        "database",
                        "--session",
                        &session,
                        "--format",
                        "json",
                    ];
                    assert!(run(&asked)["results"].as_array().unwrap().len() <= 10);
                    searched.fetch_add(1, Ordering::SeqCst);
                    number += 1;
                }
            });
        }
    });
    let (saved, searched) = (saved.into_inner(), searched.into_inner());
    assert!(saved >= 3 * WRITERS && searched >= 3 * READERS);
    let health = place.run(&["memory", "health"]);
    assert!(health.contains(&format!("{saved} memories")), "{health}");
    let status = json_of(&place, &["db", "status", "--format", "json"]);
    let tables = status["tables"].as_array().unwrap();
    let rows = |name: &str| {
        tables.iter().find(|table| table["name"] == name).unwrap()["rows"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(rows("memories"), saved as u64);
    // Writers search once per save, and every search is logged.
    assert_eq!(rows("eval_queries"), (saved + searched) as u64);
}
