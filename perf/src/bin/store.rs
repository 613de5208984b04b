//! Measures write throughput of the store compared with the databases' own tools: `cargo run --release -p
//! perf --bin store`.
//!
//! Three kinds of writes: single durable inserts, a batch of rows, and four concurrent processes. The peers
//! are the `sqlite3` shell and `pgbench`/`psql`, with the same table, indexes and durability. Results are
//! rows per second, the median of three passes that alternate between ours and the peer's.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use satiety_store::journal::Event;
use satiety_store::{Store, StoreUrl};
use serde_json::json;
use xtask::postgres::{Cluster, Options};

const SINGLES: usize = 1000;
const BATCH: usize = 100_000;
const PROCESSES: usize = 4;
const PASSES: usize = 3;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => runtime.block_on(measure()),
        ["--writer", url, rows] => runtime.block_on(write_singles(url, rows.parse()?)),
        _ => anyhow::bail!("usage: store"),
    }
}

struct Row {
    engine: &'static str,
    what: &'static str,
    ours: f64,
    peer: f64,
    peer_name: &'static str,
}

async fn measure() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut rows = Vec::new();
    if Command::new("sqlite3").arg("--version").output().is_ok() {
        rows.extend(sqlite(directory.path()).await?);
    } else {
        println!("sqlite3 is not installed: no SQLite peer (Debian: apt-get install sqlite3)");
    }
    xtask::postgres::install()?;
    rows.extend(postgres(directory.path()).await?);
    println!(
        "{:<9} {:<28} {:>12} {:>12}  {:<22} {:>6}",
        "engine", "writes", "ours rows/s", "peer rows/s", "peer", "ratio"
    );
    for Row {
        engine,
        what,
        ours,
        peer,
        peer_name,
    } in rows
    {
        println!(
            "{engine:<9} {what:<28} {ours:>12.0} {peer:>12.0}  {peer_name:<22} {:>6.2}",
            ours / peer
        );
        perf::rows::Row::rate(format!("{engine} writes, {what}"), "rows/s", ours)
            .against(peer_name, peer)
            .record()?;
    }
    Ok(())
}

async fn sqlite(directory: &Path) -> Result<Vec<Row>> {
    let mut singles = Pair::default();
    let mut batches = Pair::default();
    let mut crowds = Pair::default();
    for pass in 0..PASSES {
        let path = |name: &str| directory.join(format!("{name}-{pass}.db"));
        let url = |name: &str| StoreUrl::sqlite(path(name)).to_string();
        for name in ["ours", "plain", "ours4", "plain4"] {
            open(&url(name)).await?.close().await;
        }
        singles
            .ours
            .push(rate(SINGLES, || async { write_singles(&url("ours"), SINGLES).await }).await?);
        singles.peer.push(rate_of(SINGLES, || {
            shell(&path("plain"), &single_inserts(SINGLES))
        })?);
        batches
            .ours
            .push(rate(BATCH, || async { write_batch(&url("ours"), BATCH).await }).await?);
        let batch = format!("BEGIN;\n{}COMMIT;\n", single_inserts(BATCH));
        batches
            .peer
            .push(rate_of(BATCH, || shell(&path("plain"), &batch))?);
        let each = SINGLES / 2;
        crowds
            .ours
            .push(rate_of(PROCESSES * each, || writers(&url("ours4"), each))?);
        crowds
            .peer
            .push(rate_of(PROCESSES * each, || shells(&path("plain4"), each))?);
    }
    Ok(vec![
        singles.row("sqlite", "durable, one at a time", "sqlite3 shell"),
        batches.row("sqlite", "batch of 100,000", "sqlite3, 1 transaction"),
        crowds.row("sqlite", "durable, 4 processes", "4 sqlite3 shells"),
    ])
}

async fn postgres(directory: &Path) -> Result<Vec<Row>> {
    let cluster = Cluster::start(Options::default())?;
    let mut singles = Pair::default();
    let mut batches = Pair::default();
    let mut crowds = Pair::default();
    for pass in 0..PASSES {
        let ours = cluster.create_database(&format!("ours{pass}"))?;
        let plain = format!("plain{pass}");
        let plain_url = cluster.create_database(&plain)?;
        open(&ours).await?.close().await;
        open(&plain_url).await?.close().await;
        singles
            .ours
            .push(rate(SINGLES, || async { write_singles(&ours, SINGLES).await }).await?);
        singles
            .peer
            .push(pgbench(&cluster, directory, &plain, 1, SINGLES)?);
        batches
            .ours
            .push(rate(BATCH, || async { write_batch(&ours, BATCH).await }).await?);
        let file = directory.join("batch.sql");
        fs_err::write(&file, format!("BEGIN;\n{}COMMIT;\n", single_inserts(BATCH)))?;
        batches
            .peer
            .push(rate_of(BATCH, || psql(&cluster, &plain, &file))?);
        let each = SINGLES / 2;
        crowds
            .ours
            .push(rate_of(PROCESSES * each, || writers(&ours, each))?);
        crowds
            .peer
            .push(pgbench(&cluster, directory, &plain, PROCESSES, each)?);
    }
    Ok(vec![
        singles.row("postgres", "durable, one at a time", "pgbench, 1 client"),
        batches.row("postgres", "batch of 100,000", "psql, 1 transaction"),
        crowds.row("postgres", "durable, 4 processes", "pgbench, 4 clients"),
    ])
}

/// Rates of ours and of the peer, by pass.
#[derive(Default)]
struct Pair {
    ours: Vec<f64>,
    peer: Vec<f64>,
}

impl Pair {
    fn row(mut self, engine: &'static str, what: &'static str, peer_name: &'static str) -> Row {
        Row {
            engine,
            what,
            ours: median(&mut self.ours),
            peer: median(&mut self.peer),
            peer_name,
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn rate(rows: usize, work: impl AsyncFnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work().await?;
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}

fn rate_of(rows: usize, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}

async fn open(url: &str) -> Result<Store> {
    Ok(Store::open(&url.parse()?).await?)
}

fn event(number: usize) -> Event {
    Event::now(
        "perf.write",
        format!("subject-{}", number % 100),
        json!({"number": number, "note": "as long as a note is"}),
    )
}

async fn write_singles(url: &str, rows: usize) -> Result<()> {
    let store = open(url).await?;
    for number in 0..rows {
        store.journal().append(event(number)).await?;
    }
    store.close().await;
    Ok(())
}

async fn write_batch(url: &str, rows: usize) -> Result<()> {
    let store = open(url).await?;
    store.journal().append_all((0..rows).map(event).collect()).await?;
    store.close().await;
    Ok(())
}

/// Runs four of our processes, each writing single rows.
fn writers(url: &str, each: usize) -> Result<()> {
    let program = std::env::current_exe()?;
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(&program)
                .args(["--writer", url, &each.to_string()])
                .spawn()
        })
        .collect::<Result<_, _>>()?;
    for mut child in children {
        ensure!(child.wait()?.success(), "a writer failed");
    }
    Ok(())
}

/// The same rows as SQL, one statement each.
fn single_inserts(rows: usize) -> String {
    let mut sql = String::new();
    for Event {
        id,
        at,
        kind,
        subject,
        body,
    } in (0..rows).map(event)
    {
        sql.push_str("INSERT INTO journal (id, at, kind, subject, body) VALUES ");
        // Writing to a string cannot fail.
        let _ = writeln!(sql, "('{id}', {at}, '{kind}', '{subject}', '{body}');");
    }
    sql
}

/// Feeds SQL to the shell, with the durability settings of the store.
fn shell(database: &Path, sql: &str) -> Result<()> {
    let mut child = start_shell(database)?;
    let mut input = child.stdin.take().context("no pipe to sqlite3")?;
    input.write_all(format!("PRAGMA synchronous=FULL;\n{sql}").as_bytes())?;
    drop(input);
    ensure!(child.wait()?.success(), "sqlite3 failed");
    Ok(())
}

fn shells(database: &Path, each: usize) -> Result<()> {
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        let mut child = start_shell(database)?;
        let mut input = child.stdin.take().context("no pipe to sqlite3")?;
        let sql = format!(
            ".timeout 30000\nPRAGMA synchronous=FULL;\n{}",
            single_inserts(each)
        );
        children.push((child, std::thread::spawn(move || input.write_all(sql.as_bytes()))));
    }
    for (mut child, feeding) in children {
        ensure!(feeding.join().is_ok(), "cannot feed sqlite3");
        ensure!(child.wait()?.success(), "sqlite3 failed");
    }
    Ok(())
}

fn start_shell(database: &Path) -> Result<std::process::Child> {
    Command::new("sqlite3")
        .arg("-bail")
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot run sqlite3")
}

/// Rows per second as reported by pgbench.
fn pgbench(cluster: &Cluster, directory: &Path, database: &str, clients: usize, each: usize) -> Result<f64> {
    let script: PathBuf = directory.join("insert.sql");
    fs_err::write(
        &script,
        "INSERT INTO journal (id, at, kind, subject, body) VALUES ('evt-' || gen_random_uuid()::text, 1, 'perf.write', \
         'subject-1', '{\"note\":\"as long as a note is\",\"number\":1}');\n",
    )?;
    let (clients, each) = (clients.to_string(), each.to_string());
    let output = Command::new(cluster.program_path("pgbench"))
        .args([
            "--no-vacuum",
            "--protocol=prepared",
            "--client",
            &clients,
            "--transactions",
            &each,
            "--file",
        ])
        .arg(&script)
        .arg(cluster.url(database))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .and_then(|rest| rest.split(' ').next());
    rate.and_then(|rate| rate.parse().ok())
        .with_context(|| format!("pgbench: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn psql(cluster: &Cluster, database: &str, file: &Path) -> Result<()> {
    let status = Command::new(cluster.program_path("psql"))
        .arg(cluster.url(database))
        .args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file"])
        .arg(file)
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "psql failed");
    Ok(())
}
