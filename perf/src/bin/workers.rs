//! Measures the work queue: `cargo run --release -p perf --bin workers`.
//!
//! Leases per second with 1, 4 and 8 workers on SQLite and PostgreSQL while 1,000 and 1,000,000 cases wait in ten
//! runs of three priorities, the same with the storing of results, the cost of the size and age of the queue, and
//! permits of a shared rate limit per second. Each worker has its own connections, as a process has.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::time::{Duration, Instant};

use anyhow::Result;
use satiety::bench::Priority;
use satiety::bench::rate::RateLimit;
use satiety_store::bench::{BenchResultRow, BenchRunRow, LeaseHolder, ResultKey, StoredOutcome};
use satiety_store::rates::PermitRequest;
use satiety_store::{Store, StoreUrl};
use serde_json::json;
use xtask::postgres::{Cluster, Options};

const RUNS: usize = 10;
const SIZES: [usize; 2] = [1000, 1_000_000];
const WORKERS: [usize; 3] = [1, 4, 8];
/// Duration of each measurement of leases; a fixed number of leases would empty a small queue.
const DURATION: Duration = Duration::from_secs(2);
/// Cases that a worker with free slots takes at once.
const BATCHES: [usize; 2] = [1, 8];
const LEASE: Duration = Duration::from_mins(10);

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> Result<()> {
    println!(
        "{:<9} {:>9} {:>7} {:>5} {:>13} {:>18} {:>10}",
        "engine", "cases", "workers", "batch", "leases/s", "with results/s", "p95 ms"
    );
    let directory = tempfile::tempdir()?;
    for size in SIZES {
        let url = StoreUrl::sqlite(directory.path().join(format!("{size}.db"))).to_string();
        measure_queue("sqlite", &url, size).await?;
    }
    xtask::postgres::install()?;
    let cluster = Cluster::start(Options::default())?;
    for size in SIZES {
        let url = cluster.create_database(&format!("queue{size}"))?;
        measure_queue("postgres", &url, size).await?;
    }
    println!();
    println!(
        "{:<9} {:>7} {:>14} {:>14} {:>18}",
        "engine", "workers", "permits at once", "permits/s", "per permit µs"
    );
    let url = StoreUrl::sqlite(directory.path().join("limits.db")).to_string();
    measure_limits("sqlite", &url).await?;
    measure_limits("postgres", &cluster.create_database("limits")?).await
}

async fn open(url: &str) -> Result<Store> {
    Ok(Store::open(&url.parse()?).await?)
}

/// Fills a queue, and measures workers on it.
async fn measure_queue(engine: &str, url: &str, size: usize) -> Result<()> {
    let store = open(url).await?;
    let runs: Vec<String> = (0..RUNS).map(|number| format!("run-{number}")).collect();
    let began = Instant::now();
    for (number, run_id) in runs.iter().enumerate() {
        enqueue(&store, run_id, size / RUNS, Priority::ALL[number % 3]).await?;
    }
    let enqueued = began.elapsed();
    for workers in WORKERS {
        for batch in BATCHES {
            let (leases, p95) = work(url, &runs, workers, batch, false).await?;
            let (stored, _) = work(url, &runs, workers, batch, true).await?;
            println!(
                "{engine:<9} {size:>9} {workers:>7} {batch:>5} {leases:>13.0} {stored:>18.0} {p95:>10.2}"
            );
            perf::rows::Row::rate(
                format!("{engine}, {size} cases, {workers} workers, batch {batch}"),
                "leases/s",
                leases,
            )
            .record()?;
        }
    }
    let began = Instant::now();
    for _ in 0..20 {
        store.bench().work_depth().await?;
        store.bench().oldest_waiting().await?;
    }
    println!(
        "{engine:<9} {size:>9}: queued in {:.1} s; size and age of the queue {:.2} ms",
        enqueued.as_secs_f64(),
        began.elapsed().as_secs_f64() * 1000.0 / 20.0
    );
    store.close().await;
    Ok(())
}

async fn enqueue(store: &Store, run_id: &str, cases: usize, priority: Priority) -> Result<()> {
    let run = BenchRunRow {
        run_id: run_id.into(),
        suite_id: "perf".into(),
        suite_hash: "0".into(),
        target: "echo".into(),
        started_at: satiety_store::now_micros(),
        completed_at: None,
        config_snapshot: json!({}),
        summary: None,
        pass_rate: None,
    };
    let keys: Vec<ResultKey> = (0..cases)
        .map(|number| ResultKey {
            case_id: format!("case-{number:07}"),
            variant: String::new(),
            repeat: 0,
        })
        .collect();
    let plan = json!({"suite": "suites/perf", "note": "as long as a plan is ".repeat(30)});
    store
        .bench()
        .enqueue_run(&run, &plan, &keys, Some(priority))
        .await?;
    Ok(())
}

/// Lets workers take cases for a while; returns cases per second, and the 95th percentile of a lease in milliseconds.
/// Leases that are not stored are released afterwards.
async fn work(url: &str, runs: &[String], workers: usize, batch: usize, stores: bool) -> Result<(f64, f64)> {
    let mut tasks = Vec::new();
    let ready = std::sync::Arc::new(tokio::sync::Barrier::new(workers));
    for number in 0..workers {
        let (url, runs, ready) = (url.to_owned(), runs.to_vec(), ready.clone());
        tasks.push(tokio::spawn(async move {
            let store = open(&url).await?;
            let id = format!("worker-{number}");
            let holder = LeaseHolder {
                id: &id,
                name: &id,
                lease: LEASE,
            };
            let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
            ready.wait().await;
            let (began, mut count, mut times) = (Instant::now(), 0, Vec::new());
            while began.elapsed() < DURATION {
                let asked = Instant::now();
                let taken = store.bench().take_work(&runs, &holder, batch).await?;
                times.push(asked.elapsed().as_secs_f64() * 1000.0);
                let Some(first) = taken.first() else { break };
                count += taken.len();
                if stores {
                    let run_id = first.run_id.clone();
                    let results: Vec<StoredOutcome> = taken.into_iter().map(outcome).collect();
                    store.bench().settle_work(&run_id, &id, &results).await?;
                }
            }
            let elapsed = began.elapsed().as_secs_f64();
            store.bench().release_work(&id, None).await?;
            store.close().await;
            Ok::<_, anyhow::Error>((count as f64 / elapsed, times))
        }));
    }
    let (mut rate, mut times) = (0.0, Vec::new());
    for task in tasks {
        let (one, took) = task.await??;
        rate += one;
        times.extend(took);
    }
    times.sort_by(f64::total_cmp);
    let p95 = times.get(times.len() * 95 / 100).copied().unwrap_or(f64::NAN);
    Ok((rate, p95))
}

fn outcome(lease: satiety_store::bench::Lease) -> StoredOutcome {
    StoredOutcome {
        position: lease.position,
        takes: lease.takes,
        row: BenchResultRow {
            key: lease.key,
            status: "pass".into(),
            score: Some(1.0),
            latency_ms: 1.0,
            token_cost: 0,
            human_label: None,
            body: r#"{"status": "pass", "note": "as long as a result is"}"#.into(),
        },
    }
}

/// Permits per second of a limit that is too high to be reached.
async fn measure_limits(engine: &str, url: &str) -> Result<()> {
    open(url).await?.close().await;
    for workers in WORKERS {
        for batch in BATCHES {
            let mut tasks = Vec::new();
            for _ in 0..workers {
                let url = url.to_owned();
                tasks.push(tokio::spawn(async move {
                    let store = open(&url).await?;
                    let request = PermitRequest {
                        name: "target",
                        limit: RateLimit {
                            requests_per_minute: Some(u32::MAX),
                            tokens_per_minute: None,
                        },
                        count: batch,
                        tokens: 0.0,
                        owed_tokens: 0.0,
                    };
                    let (began, mut count) = (Instant::now(), 0);
                    while began.elapsed() < DURATION {
                        count += store.rates().reserve(&request).await?.reservation.permits.len();
                    }
                    store.close().await;
                    Ok::<_, anyhow::Error>(count as f64 / began.elapsed().as_secs_f64())
                }));
            }
            let mut rate = 0.0;
            for task in tasks {
                rate += task.await??;
            }
            println!(
                "{engine:<9} {workers:>7} {batch:>14} {rate:>14.0} {:>18.0}",
                1e6 / rate
            );
            perf::rows::Row::rate(
                format!("{engine} permits, {workers} workers, {batch} at once"),
                "permits/s",
                rate,
            )
            .record()?;
        }
    }
    Ok(())
}
