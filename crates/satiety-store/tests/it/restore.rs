//! Restore drills: a backup that is made while writers write has every write that was acknowledged before it.
//!
//! The commands are those of docs/guides/backup.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use satiety::harness::ledger::{self, Entry};
use satiety_store::harness::{HarnessChange, LedgerRow};
use satiety_store::{SCHEMA_VERSION, Store};
use serde_json::json;
use xtask::postgres::{Cluster, Options};

use crate::durability::{assert_whole, batch, stored};
use crate::support::Fixture;

const WRITERS: usize = 3;
/// Longest time that a drill may take, on a busy machine.
const LIMIT: Duration = Duration::from_mins(5);

/// Writers that append batches to the journal, and one that appends to the log of a harness.
struct Writers {
    running: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<BTreeMap<String, BTreeSet<i64>>>>,
    entries: Arc<Mutex<Vec<Entry>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    fn start(store: &Store) -> Self {
        let mut writers = Self {
            running: Arc::new(AtomicBool::new(true)),
            acknowledged: Arc::default(),
            entries: Arc::default(),
            tasks: Vec::new(),
        };
        for number in 0..WRITERS {
            let (store, running) = (store.clone(), Arc::clone(&writers.running));
            let acknowledged = Arc::clone(&writers.acknowledged);
            writers.tasks.push(tokio::spawn(async move {
                let writer = format!("drill-{number}");
                let mut number = 0;
                while running.load(Ordering::Relaxed) {
                    store.journal().append_all(batch(&writer, number)).await.unwrap();
                    let mut acknowledged = acknowledged.lock().unwrap();
                    acknowledged.entry(writer.clone()).or_default().insert(number);
                    number += 1;
                }
            }));
        }
        let (store, running) = (store.clone(), Arc::clone(&writers.running));
        let entries = Arc::clone(&writers.entries);
        writers.tasks.push(tokio::spawn(async move {
            while running.load(Ordering::Relaxed) {
                let last = entries.lock().unwrap().last().cloned();
                let entry = ledger::append(
                    last.as_ref(),
                    jiff::Timestamp::now(),
                    "cycle",
                    json!({"score": 0.5}),
                );
                let change = HarnessChange {
                    harness_id: "harness-1".into(),
                    entries: vec![row(&entry)],
                    ..HarnessChange::default()
                };
                assert!(store.harness().commit(&change).await.unwrap());
                entries.lock().unwrap().push(entry);
            }
        }));
        writers
    }

    /// What has been acknowledged until now.
    fn acknowledged(&self) -> Acknowledged {
        Acknowledged {
            batches: self.acknowledged.lock().unwrap().clone(),
            entries: self.entries.lock().unwrap().clone(),
        }
    }

    /// Waits until every writer has had further batches acknowledged.
    async fn progress(&self) {
        let count = |writers: &Self| -> Vec<usize> {
            let acknowledged = writers.acknowledged();
            let mut counts: Vec<usize> = (0..WRITERS)
                .map(|number| {
                    let batches = acknowledged.batches.get(&format!("drill-{number}"));
                    batches.map_or(0, BTreeSet::len)
                })
                .collect();
            counts.push(acknowledged.entries.len());
            counts
        };
        let before = count(self);
        let began = Instant::now();
        while count(self)
            .iter()
            .zip(&before)
            .any(|(now, before)| *now < before + 5)
        {
            assert!(began.elapsed() < LIMIT / 2, "the writers make no progress");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn stop(self) {
        self.running.store(false, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

struct Acknowledged {
    batches: BTreeMap<String, BTreeSet<i64>>,
    entries: Vec<Entry>,
}

fn row(entry: &Entry) -> LedgerRow {
    LedgerRow {
        seq: i64::try_from(entry.seq).unwrap(),
        prev: entry.prev.clone(),
        at: entry.at.to_string(),
        kind: entry.kind.clone(),
        body: entry.body.to_string(),
        hash: entry.hash.clone(),
    }
}

/// The restored database is sound and has everything that was acknowledged before the backup.
async fn assert_restored(url: &str, before: &Acknowledged) -> BTreeMap<String, BTreeMap<i64, BTreeSet<i64>>> {
    let restored = Store::open_with(&url.parse().unwrap(), satiety_store::Migrate::Never)
        .await
        .unwrap();
    let status = restored.status().await.unwrap();
    assert_eq!(status.schema_version, SCHEMA_VERSION);
    restored.check_integrity().await.unwrap();
    let mut all = BTreeMap::new();
    for (writer, batches) in &before.batches {
        let found = stored(&restored, writer).await;
        assert_whole(&found, batches, writer);
        all.insert(writer.clone(), found);
    }
    let rows = restored.harness().ledger("harness-1", 0, 100_000).await.unwrap();
    let entries: Vec<Entry> = rows
        .into_iter()
        .map(|row| Entry {
            seq: u64::try_from(row.seq).unwrap(),
            prev: row.prev,
            at: row.at.parse().unwrap(),
            kind: row.kind,
            body: serde_json::from_str(&row.body).unwrap(),
            hash: row.hash,
        })
        .collect();
    ledger::verify_chain(&entries).unwrap();
    assert!(entries.starts_with(&before.entries));
    // A restored database is a working one.
    restored.check_writable().await.unwrap();
    restored.close().await;
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_sqlite_under_writes_is_restored_at_another_path() {
    let began = Instant::now();
    let fixture = Fixture::sqlite();
    let store = fixture.open().await;
    let writers = Writers::start(&store);
    writers.progress().await;
    let before = writers.acknowledged();
    let backup = fixture.folder.path().join("backup.db");
    store.backup(&backup).await.unwrap();
    writers.progress().await;
    writers.stop().await;
    let restored = fixture.folder.path().join("restored/satiety.db");
    fs_err::create_dir(restored.parent().unwrap()).unwrap();
    fs_err::copy(&backup, &restored).unwrap();
    assert_restored(&format!("sqlite:{}", restored.display()), &before).await;
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_of_postgres_under_writes_is_restored_into_another_database() {
    let Some(source) = Fixture::postgres().await else {
        return;
    };
    let Some(target) = Fixture::postgres().await else {
        return;
    };
    let began = Instant::now();
    let store = source.open().await;
    let writers = Writers::start(&store);
    writers.progress().await;
    let before = writers.acknowledged();
    let dump = source.folder.path().join("satiety.dump");
    run(program("pg_dump")
        .args(["--format", "custom", "--file"])
        .arg(&dump)
        .arg(&source.url_text));
    writers.progress().await;
    writers.stop().await;
    run(program("pg_restore")
        .args(["--exit-on-error", "--no-owner", "--dbname"])
        .arg(&target.url_text)
        .arg(&dump));
    assert_restored(&target.url_text, &before).await;
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_restored_to_a_time_between_a_base_backup_and_a_mistake() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let began = Instant::now();
    let cluster = Cluster::start(Options::default()).unwrap();
    let archive = cluster.create_directory("archive").unwrap();
    let archive = archive.display();
    cluster
        .configure(&format!(
            "archive_mode = on\narchive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'"
        ))
        .unwrap();
    cluster.stop().unwrap();
    cluster.up().unwrap();
    let url = cluster.create_database("satiety").unwrap();
    let store = Store::open(&url.parse().unwrap()).await.unwrap();
    let writers = Writers::start(&store);
    writers.progress().await;
    let copy = cluster.base_backup().unwrap();
    writers.progress().await;
    let before = writers.acknowledged();
    let target = cluster.sql("satiety", "SELECT clock_timestamp()").unwrap();
    // Batches that begin after this line are later than the target.
    let begun = writers.acknowledged();
    writers.progress().await;
    writers.stop().await;
    store.journal().append_all(batch("mistake", 0)).await.unwrap();
    store.close().await;
    let segment = cluster
        .sql("satiety", "SELECT pg_walfile_name(pg_current_wal_lsn())")
        .unwrap();
    cluster.sql("satiety", "SELECT pg_switch_wal()").unwrap();
    wait_for(Path::new(&format!("{archive}/{segment}")));
    copy.recover_from_archive(&format!(
        "archive_mode = off\nrestore_command = 'cp {archive}/%f %p'\nrecovery_target_time = '{target}'\n\
         recovery_target_action = 'promote'"
    ))
    .unwrap();
    let promoted = Instant::now();
    while copy.sql("satiety", "SELECT pg_is_in_recovery()").unwrap() != "f" {
        assert!(promoted.elapsed() < LIMIT / 2, "the copy stays in recovery");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let url = copy.url("satiety");
    let restored = assert_restored(&url, &before).await;
    for (writer, batches) in restored {
        let last_begun = begun.batches[&writer].last().copied().unwrap() + 1;
        let last = batches.keys().last().copied().unwrap();
        assert!(
            last <= last_begun,
            "{writer}: batch {last} was written after the target"
        );
    }
    let after = Store::open(&url.parse().unwrap()).await.unwrap();
    assert!(stored(&after, "mistake").await.is_empty());
    after.close().await;
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

/// Waits until the server has archived a file.
fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < LIMIT / 2, "{} was not archived", path.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn program(name: &str) -> Command {
    Command::new(xtask::postgres::find_programs().unwrap().join(name))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn rows_that_refer_to_missing_rows_are_found() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    fixture.open().await.close().await;
    let pool = sqlx::PgPool::connect(&fixture.url_text).await.unwrap();
    // As a restore without triggers leaves it.
    let mut connection = pool.acquire().await.unwrap();
    for statement in [
        "SET session_replication_role = replica",
        "INSERT INTO bench_plans (run_id, plan, enqueued_at) VALUES ('no-run', '{}', 1)",
    ] {
        sqlx::query(statement).execute(&mut *connection).await.unwrap();
    }
    drop(connection);
    let store = fixture.open().await;
    let error = store.check_integrity().await.unwrap_err().to_string();
    assert!(
        error.contains("bench_plans: 1 rows refer to missing rows of bench_runs"),
        "{error}"
    );
}

#[tokio::test]
async fn orphans_in_sqlite_are_found() {
    let fixture = Fixture::sqlite();
    fixture.open().await.close().await;
    let path = fixture.folder.path().join("store.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .foreign_keys(false);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("INSERT INTO bench_plans (run_id, plan, enqueued_at) VALUES ('no-run', '{}', 1)")
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    let store = fixture.open().await;
    let error = store.check_integrity().await.unwrap_err().to_string();
    assert!(
        error.contains("bench_plans: 1 rows refer to missing rows of bench_runs"),
        "{error}"
    );
}
