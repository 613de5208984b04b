//! Measures server throughput and latency of conversation scoring and memory search.
//!
//! `cargo build --release && cargo run --release -p perf --bin server -- --python PYTHON [--db postgres://…]
//! [--duration 60]`
//!
//! wrk (a Debian package) drives 64 connections on loopback. The peer is a `FastAPI` endpoint that implements
//! the specification's scoring (`perf/peers/server_peer.py`), with one worker per core, in the same run. The
//! interpreter needs fastapi and uvicorn. Memory is the server's resident set before and after: a leak shows
//! as growth.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use perf::rows::Row;
use perf::server::Server;
use serde_json::{Value, json};

#[derive(Debug, Parser)]
struct Arguments {
    /// Path of the satiety binary [default: next to this one]
    #[arg(long)]
    satiety: Option<PathBuf>,
    /// Python interpreter with fastapi and uvicorn; without it the peer is skipped
    #[arg(long)]
    python: Option<PathBuf>,
    /// Empty PostgreSQL database to measure in addition to SQLite
    #[arg(long)]
    db: Option<String>,
    /// Duration of each measurement in seconds
    #[arg(long, default_value_t = 10)]
    duration: u64,
    /// Number of concurrent connections
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// Number of memories to search
    #[arg(long, default_value_t = 1000)]
    memories: usize,
    /// Run only measurements whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Port of the peer server
    #[arg(long, default_value_t = 18787)]
    peer_port: u16,
}

/// Request without work: the cost of the protocol alone, and the upper bound of all throughput.
const NO_WORK: &str = "no work (`/healthz`)";

/// Results reported by wrk.
struct Load {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    errors: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        Command::new("wrk")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok(),
        "wrk not found\nhint: apt-get install wrk"
    );
    let directory = tempfile::tempdir()?;
    let place = |name: &str, content: String| -> Result<PathBuf> {
        let path = directory.path().join(name);
        fs_err::write(&path, content)?;
        Ok(path)
    };
    let short = place("short.lua", script("/v1/score", &examples()?))?;
    let long = place("long.lua", script("/v1/score", &[perf::conversations::long()]))?;
    let short_by_spec = place("short-spec.lua", script("/v1/score", &by_spec(examples()?)))?;
    let long_by_spec = place(
        "long-spec.lua",
        script("/v1/score", &by_spec(vec![perf::conversations::long()])),
    )?;
    let unseen = place("unseen.lua", unseen("/v1/score", &examples()?))?;
    let search = place("search.lua", searches())?;
    let nothing = place(
        "nothing.lua",
        format!("request = function() return wrk.format('GET', '/healthz') end\n{DONE}"),
    )?;
    println!(
        "{} connections, {} s each\n",
        arguments.connections, arguments.duration
    );
    println!("| server | what | per second | p50 ms | p99 ms | errors | MB before | MB after |");
    println!("|---|---|---|---|---|---|---|---|");
    let scores = [
        ("score, short conversations", &short),
        ("score, 40 rounds of 8 claims", &long),
    ];
    let mut peers = Vec::new();
    if let Some(python) = &arguments.python {
        let server = peer(python, arguments.peer_port)?;
        measure(&arguments, &server, "FastAPI", NO_WORK, &nothing)?;
        for (what, script) in scores {
            peers.push(measure(&arguments, &server, "FastAPI", what, script)?);
        }
    }
    let mut ratios = Vec::new();
    let sqlite = format!("sqlite:{}", directory.path().join("perf.db").display());
    let stores = [
        Some(("SQLite", sqlite)),
        arguments.db.clone().map(|url| ("PostgreSQL", url)),
    ];
    for (name, url) in stores.into_iter().flatten() {
        let server = satiety(&arguments, &url, "none")?;
        let bound = measure(&arguments, &server, name, NO_WORK, &nothing)?;
        for (number, (what, script)) in scores.into_iter().enumerate() {
            let ours = measure(&arguments, &server, name, what, script)?;
            if let (Some(ours), Some(bound)) = (ours, bound) {
                Row::rate(format!("server on {name}, {what}"), "requests/s", ours)
                    .against("ours, requests without work", bound)
                    .record()?;
            }
            let spec = [&short_by_spec, &long_by_spec][number];
            let by_spec = measure(&arguments, &server, name, &format!("{what}, profile spec"), spec)?;
            if let (Some(Some(peer)), Some(ours), Some(by_spec)) = (peers.get(number), ours, by_spec) {
                Row::rate(format!("server, {what}"), "requests/s", ours)
                    .against("FastAPI", *peer)
                    .record()?;
                ratios.push(format!(
                    "{name}, {what}: {:.1}, with the specification's own rules {:.1}",
                    ours / peer,
                    by_spec / peer
                ));
            }
        }
        fill(&server, arguments.memories)?;
        measure(&arguments, &server, name, "memory search by words", &search)?;
        drop(server);
        let server = satiety(&arguments, &url, "builtin")?;
        let what = "score by meaning, texts seen before";
        measure(&arguments, &server, name, what, &short)?;
        measure(
            &arguments,
            &server,
            name,
            "score by meaning, texts unseen",
            &unseen,
        )?;
        let what = "memory search by words and meaning";
        measure(&arguments, &server, name, what, &search)?;
    }
    if !ratios.is_empty() {
        println!("\nratio of ours to the peer, both by words:");
    }
    for ratio in ratios {
        println!("- {ratio}");
    }
    Ok(())
}

/// Starts our server on a free port.
fn satiety(arguments: &Arguments, store: &str, embedder: &str) -> Result<Server> {
    let program = match &arguments.satiety {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("satiety"),
    };
    let mut command = Command::new(program);
    command.args(["--db", store, "--format", "json", "serve"]);
    command.args(["--listen", "127.0.0.1:0", "--embedder", embedder]);
    Server::start(command)
}

fn peer(python: &Path, port: u16) -> Result<Server> {
    let cores = std::thread::available_parallelism()?.to_string();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
    let child = Command::new(python)
        .args([
            "-m",
            "uvicorn",
            "--app-dir",
            directory,
            "server_peer:app",
            "--port",
        ])
        .args([&port.to_string(), "--workers", &cores, "--log-level", "warning"])
        .spawn()
        .context("cannot start the peer")?;
    let server = Server {
        child,
        url: format!("http://127.0.0.1:{port}"),
    };
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(
            started.elapsed() < Duration::from_secs(30),
            "the peer does not accept connections"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(server)
}

/// Measures once after a second of warm-up, prints a line and returns requests per second; `None` if filtered
/// out.
fn measure(
    arguments: &Arguments,
    server: &Server,
    name: &str,
    what: &str,
    script: &Path,
) -> Result<Option<f64>> {
    if arguments.only.as_ref().is_some_and(|only| !what.contains(only)) {
        return Ok(None);
    }
    wrk(arguments, &server.url, script, 1)?;
    let before = megabytes(server.child.id());
    let load = wrk(arguments, &server.url, script, arguments.duration)?;
    let after = megabytes(server.child.id());
    println!(
        "| {name} | {what} | {:.0} | {:.1} | {:.1} | {} | {before:.0} | {after:.0} |",
        load.per_second, load.p50_ms, load.p99_ms, load.errors
    );
    Ok(Some(load.per_second))
}

fn wrk(arguments: &Arguments, url: &str, script: &Path, seconds: u64) -> Result<Load> {
    let output = Command::new("wrk")
        .args([
            "--threads",
            "1",
            "--latency",
            "--connections",
            &arguments.connections.to_string(),
        ])
        .args([
            "--timeout",
            "30s",
            "--duration",
            &format!("{seconds}s"),
            "--script",
        ])
        .arg(script)
        .arg(url)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "wrk failed: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("JSON "))
        .with_context(|| format!("no results from wrk: {text}"))?;
    let found: Value = serde_json::from_str(line)?;
    let metric = |name: &str| {
        found[name]
            .as_f64()
            .with_context(|| format!("wrk has no {name}: {line}"))
    };
    Ok(Load {
        per_second: metric("per_second")?,
        p50_ms: metric("p50_ms")?,
        p99_ms: metric("p99_ms")?,
        errors: found["errors"].as_u64().unwrap_or_default(),
    })
}

/// Script that makes wrk print its results as a line of JSON.
const DONE: &str = r#"
done = function(summary, latency, requests)
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
  print(string.format('JSON {"per_second": %f, "p50_ms": %f, "p99_ms": %f, "errors": %d}',
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1000, latency:percentile(99) / 1000, errors))
end
"#;

/// Cycles through requests that are built once, to keep the load of wrk low.
fn script(path: &str, bodies: &[Value]) -> String {
    let list: Vec<String> = bodies.iter().map(|body| format!("[==[{body}]==],\n")).collect();
    let list = list.concat();
    format!(
        "wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nlocal bodies = {{\n{list}}}\n\
         local made, number = {{}}, 0\n\
         request = function()\n  number = number % #bodies + 1\n  \
         made[number] = made[number] or wrk.format(nil, '{path}', nil, bodies[number])\n  return made[number]\nend\n{DONE}"
    )
}

/// The same with a unique number in each claim, so that no vector is cached.
fn unseen(path: &str, bodies: &[Value]) -> String {
    let marked: Vec<String> = bodies
        .iter()
        .map(|body| {
            let mut body = body.clone();
            for round in body["conversation"]["rounds"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                for claim in round["outputs"]["claims"].as_array_mut().into_iter().flatten() {
                    *claim = json!(format!("{} (note @@@@)", claim.as_str().unwrap_or_default()));
                }
            }
            format!("[==[{body}]==],\n")
        })
        .collect();
    format!(
        "wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nlocal bodies = {{\n{}}}\nlocal number = 0\n\
         request = function()\n  number = number + 1\n  \
         local body = string.gsub(bodies[number % #bodies + 1], '@@@@', tostring(number + os.time() * 1000000))\n  \
         return wrk.format(nil, '{path}', nil, body)\nend\n{DONE}",
        marked.concat()
    )
}

/// Distinct queries, so that none is answered from a cache.
fn searches() -> String {
    format!(
        "wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nlocal number = 0\n\
         request = function()\n  number = number + 1\n  \
         local body = string.format('{{\"query\": \"why was part %d of the queue moved\", \"mode\": \"quick\"}}', number % 500)\n  \
         return wrk.format(nil, '/v1/memory/search', nil, body)\nend\n{DONE}"
    )
}

/// The same, scored exactly by the specification, as the peer does.
fn by_spec(bodies: Vec<Value>) -> Vec<Value> {
    bodies
        .into_iter()
        .map(|mut body| {
            body["profile"] = json!("spec");
            body
        })
        .collect()
}

/// Example conversations of the repository.
fn examples() -> Result<Vec<Value>> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/calibration");
    let mut files: Vec<PathBuf> = fs_err::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
        .iter()
        .map(|path| {
            let read: Value = serde_json::from_str(&fs_err::read_to_string(path)?)?;
            Ok(json!({"conversation": {"rounds": read["rounds"]}}))
        })
        .collect()
}

fn fill(server: &Server, count: usize) -> Result<()> {
    use std::io::{Read as _, Write as _};
    let address = server.url.trim_start_matches("http://");
    for number in 0..count {
        let body = json!({"title": format!("Part {number}"), "content":
            format!("Part {number} of the queue was moved to another table because it grew by {number} rows a minute.")});
        let body = body.to_string();
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "POST /v1/memories HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(
            answer.starts_with("HTTP/1.1 201") || answer.starts_with("HTTP/1.1 409"),
            "{answer}"
        );
    }
    Ok(())
}

/// Resident set of a process and its children in megabytes.
fn megabytes(id: u32) -> f64 {
    let own = fs_err::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let kilobytes = own.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    let children = fs_err::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    kilobytes.unwrap_or(0.0) / 1000.0 + children.map(megabytes).sum::<f64>()
}
