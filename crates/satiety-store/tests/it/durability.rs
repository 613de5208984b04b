//! An acknowledged write survives crashes of the process and the server; a partial write does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use satiety_store::Store;
use satiety_store::journal::Event;
use serde_json::json;
use xtask::postgres::{Cluster, Options};

/// Events per batch; a batch is stored completely or not at all.
const BATCH: usize = 7;
const KILLS: u32 = 50;

pub(crate) fn batch(writer: &str, number: i64) -> Vec<Event> {
    (0..BATCH)
        .map(|part| Event::now("test.batch", writer, json!({"batch": number, "part": part})))
        .collect()
}

/// Body of a writer process: appends batches and prints `ack N` after each acknowledged one. Run as an ordinary test,
/// without the variables that make it a writer, it does nothing.
#[tokio::test]
async fn writer_process() {
    let (Ok(url), Ok(writer)) = (
        std::env::var("SATIETY_TEST_WRITER_URL"),
        std::env::var("SATIETY_TEST_WRITER"),
    ) else {
        return;
    };
    let batches = std::env::var("SATIETY_TEST_WRITER_BATCHES").map_or(i64::MAX, |text| text.parse().unwrap());
    let store = Store::open(&url.parse().unwrap()).await.unwrap();
    for number in 0..batches {
        store.journal().append_all(batch(&writer, number)).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nack {number}").unwrap();
        out.flush().unwrap();
    }
}

/// Starts this test binary again as a writer process.
pub(crate) fn start_writer(url: &str, writer: &str, batches: Option<i64>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "durability::writer_process", "--nocapture"])
        .env("SATIETY_TEST_WRITER_URL", url)
        .env("SATIETY_TEST_WRITER", writer)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(batches) = batches {
        command.env("SATIETY_TEST_WRITER_BATCHES", batches.to_string());
    }
    command.spawn().unwrap()
}

/// Batches that a writer printed as acknowledged, until its output ends.
pub(crate) fn acknowledged(child: &mut Child) -> impl Iterator<Item = i64> + use<> {
    let out = child.stdout.take().unwrap();
    BufReader::new(out)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("ack ").and_then(|number| number.parse().ok()))
}

/// Stored parts of a writer, by batch.
pub(crate) async fn stored(store: &Store, writer: &str) -> BTreeMap<i64, BTreeSet<i64>> {
    let mut parts: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    let mut events = store.journal().latest("test.batch", i64::MAX).await.unwrap();
    events.retain(|event| event.subject == writer);
    for event in events {
        let field = |name: &str| event.body[name].as_i64().unwrap();
        assert!(
            parts.entry(field("batch")).or_default().insert(field("part")),
            "duplicate part"
        );
    }
    parts
}

pub(crate) fn assert_whole(stored: &BTreeMap<i64, BTreeSet<i64>>, acknowledged: &BTreeSet<i64>, what: &str) {
    for (number, parts) in stored {
        assert_eq!(parts.len(), BATCH, "{what}: batch {number} is incomplete");
    }
    for number in acknowledged {
        assert!(
            stored.contains_key(number),
            "{what}: acknowledged batch {number} is missing"
        );
    }
}

#[tokio::test]
async fn fifty_kills_lose_no_acknowledged_write_on_sqlite() {
    let fixture = crate::support::Fixture::sqlite();
    let mut chance = rand_chacha::ChaCha8Rng::seed_from_u64(50);
    let mut total = 0;
    for kill in 0..KILLS {
        let writer = format!("writer-{kill}");
        let mut child = start_writer(&fixture.url_text, &writer, None);
        let lines = acknowledged(&mut child);
        let delay = Duration::from_micros(chance.random_range(0..30_000));
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let (first, has_begun) = std::sync::mpsc::channel();
        let reader = std::thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                for number in lines {
                    seen.lock().unwrap().insert(number);
                    let _ = first.send(());
                }
            }
        });
        has_begun
            .recv_timeout(Duration::from_mins(1))
            .expect("the writer acknowledged nothing");
        std::thread::sleep(delay);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        reader.join().unwrap();
        let acknowledged = seen.lock().unwrap().clone();
        let store = fixture.open().await;
        assert_whole(&stored(&store, &writer).await, &acknowledged, &writer);
        total += acknowledged.len();
        store.close().await;
    }
    let store = fixture.open().await;
    store.check_integrity().await.unwrap();
    println!("{KILLS} kills, {total} acknowledged batches, none lost");
    assert!(total >= KILLS as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn immediate_shutdowns_lose_no_acknowledged_write_on_postgres() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let cluster = Arc::new(Cluster::start(Options::default()).unwrap());
    let url = cluster.create_database("durable").unwrap();
    let mut chance = rand_chacha::ChaCha8Rng::seed_from_u64(5);
    for crash in 0..5 {
        let store = Store::open(&url.parse().unwrap()).await.unwrap();
        let running = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let (store, running) = (store.clone(), Arc::clone(&running));
                tokio::spawn(async move {
                    let writer = format!("crash-{crash}-{number}");
                    let mut acknowledged = BTreeSet::new();
                    let mut number = 0;
                    while running.load(std::sync::atomic::Ordering::Relaxed) {
                        // An error is correct here: the batch may not be stored.
                        if store.journal().append_all(batch(&writer, number)).await.is_ok() {
                            acknowledged.insert(number);
                        }
                        number += 1;
                    }
                    (writer, acknowledged)
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(chance.random_range(50..400))).await;
        let server = Arc::clone(&cluster);
        tokio::task::spawn_blocking(move || {
            server.stop_immediately().unwrap();
            server.up().unwrap();
        })
        .await
        .unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        running.store(false, std::sync::atomic::Ordering::Relaxed);
        let mut total = 0;
        for writer in writers {
            let (writer, acknowledged) = writer.await.unwrap();
            assert_whole(&stored(&store, &writer).await, &acknowledged, &writer);
            total += acknowledged.len();
        }
        println!("crash {crash}: {total} acknowledged batches, none lost");
        assert!(total > 0);
        store.close().await;
    }
}
