//! Search latency, time to the first search, cost of a change for the next search, and memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cpu_time::ProcessTime;
use satiety::memory::Mode;
use satiety_engine::Engine;
use satiety_engine::memory::{SearchRequest, UpdateRequest};
use satiety_models::minilm::MiniLm;
use serde::Deserialize;

use crate::corpus::{Corpus, stored};
use crate::{Times, engine, plain, resident};

/// Number of questions for the naive version and the peer.
const FEWER: usize = 30;
/// Largest number of memories for the naive version and the peers, which hold everything several times.
const MAX_PEER_SIZE: usize = 100_000;
/// Number of concurrent clients.
const CLIENTS: usize = 8;
/// Timer interval while they run.
const TICK: Duration = Duration::from_millis(1);
/// Ends the background tasks of the concurrency measurement.
static STOP: AtomicBool = AtomicBool::new(false);

/// Id of the built-in model, which stored vectors carry.
pub(crate) fn model_of() -> Result<String> {
    Ok(MiniLm::builtin_id()?.to_string())
}

/// Other systems to measure in the same run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peers<'a> {
    pub(crate) python: Option<&'a Path>,
    pub(crate) server_memory: Option<&'a str>,
}

pub(crate) async fn measure(size: usize, searches: usize, directory: &Path, peers: Peers<'_>) -> Result<()> {
    let corpus = Corpus::new(size, searches)?;
    let path = stored(&corpus, directory, &model_of()?).await?;
    println!("speed at {size} memories, {searches} searches, ms; without embedding the question");
    let without_file = crate::engine(&path, "builtin");
    remove_index_files(&path)?;
    // Opens the model, whose cost is not part of the measurement.
    MiniLm::builtin()?;
    first_search(&without_file, &corpus, "without an index file").await?;
    if !wait_for_index_file(&path).await? {
        println!("  no index file: too few memories");
    }
    without_file.close().await;
    drop(without_file);
    let engine = engine(&path, "builtin");
    let before = resident();
    first_search(&engine, &corpus, "with an index file").await?;
    println!(
        "  {:.0} MB more memory, {:.0} bytes a memory",
        resident() - before,
        (resident() - before) * 1e6 / size as f64
    );
    let health = engine.memory().health().await?;
    println!(
        "  of that vectors {:.0} MB, words {:.0} MB",
        health.vector_bytes as f64 / 1e6,
        health.word_bytes as f64 / 1e6
    );
    println!("  {:<34} {:>8} {:>8} {:>8} {:>8}", "", "p50", "p95", "p99", "CPU");
    for mode in [Mode::Quick, Mode::Focused, Mode::Deep] {
        let mut times = Times::default();
        let mut embedding = Times::default();
        let mut stages: BTreeMap<String, Times> = BTreeMap::new();
        let mut cpu = Times::default();
        for question in &corpus.questions {
            let found = search(&engine, question, mode).await?;
            times.0.push(found.wall);
            cpu.0.push(found.cpu);
            embedding.0.push(found.embedding);
            for (stage, time) in found.stages {
                stages.entry(stage).or_default().0.push(time);
            }
        }
        println!("  {:<34} {} {:>8.2}", mode.name(), times.line(), cpu.at(0.5));
        if mode == Mode::Focused {
            for (stage, times) in stages {
                println!("    {stage:<32} {}", times.line());
            }
            println!("    {:<32} {}", "(embedding the question)", embedding.line());
        }
    }
    changes(&engine, &corpus).await?;
    let engine = Arc::new(engine);
    for mode in [Mode::Quick, Mode::Focused] {
        concurrent(&engine, &corpus, mode).await?;
    }
    engine.close().await;
    if size > MAX_PEER_SIZE {
        println!("  skipped the naive version and the peers above {MAX_PEER_SIZE} memories\n");
        return Ok(());
    }
    naive(&corpus)?;
    match peers.python {
        Some(python) => {
            peer(&corpus, python)?;
            if let Some(command) = peers.server_memory {
                server_memory(&corpus, python, command)?;
            } else {
                println!("  skipped server-memory: no --server-memory COMMAND");
            }
        }
        None => println!("  skipped the peers: no --python PYTHON"),
    }
    println!("  skipped mem0: it needs a language model and an embedding service to save a memory\n");
    Ok(())
}

async fn first_search(engine: &Engine, corpus: &Corpus, how: &str) -> Result<()> {
    let (cold, cold_cpu) = (Instant::now(), ProcessTime::now());
    let found = search(engine, &corpus.questions[0], Mode::Focused).await?;
    let (wall, cpu) = (
        cold.elapsed().as_secs_f64() * 1e3,
        cold_cpu.elapsed().as_secs_f64() * 1e3,
    );
    let health = engine.memory().health().await?;
    println!(
        "  first search {how}: {:.0} ms, {:.0} ms CPU, without the model; index loaded in {:.0} ms ({} from the file)",
        wall - found.embedding,
        cpu - found.embedding,
        health.index.load_ms,
        health.index.loads_from_file
    );
    Ok(())
}

fn index_files(store: &Path) -> Result<Vec<std::path::PathBuf>> {
    let name = store
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut files = Vec::new();
    for entry in fs_err::read_dir(store.parent().context("a directory")?)? {
        let path = entry?.path();
        let own = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if own.starts_with(&format!("{name}.index-")) {
            files.push(path);
        }
    }
    Ok(files)
}

fn remove_index_files(store: &Path) -> Result<()> {
    Ok(index_files(store)?
        .into_iter()
        .try_for_each(fs_err::remove_file)?)
}

/// Waits for the file that is written in the background; returns false if there is none.
async fn wait_for_index_file(store: &Path) -> Result<bool> {
    for _ in 0..600 {
        let files = index_files(store)?;
        let writing = files
            .iter()
            .any(|path| path.extension().is_some_and(|end| end == "tmp"));
        if !writing && !files.is_empty() {
            return Ok(true);
        }
        if !writing && files.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if index_files(store)?.is_empty() {
                return Ok(false);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(false)
}

pub(crate) struct Search {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    embedding: f64,
    stages: Vec<(String, f64)>,
}

pub(crate) async fn search(engine: &Engine, question: &str, mode: Mode) -> Result<Search> {
    let request = SearchRequest {
        query: question.to_owned(),
        mode: Some(mode),
        // Made-up words are relevant to nothing, but ranking them costs as much.
        below_floor: true,
        ..SearchRequest::default()
    };
    let (began, cpu) = (Instant::now(), ProcessTime::now());
    let answer = engine.memory().search(request).await?;
    let (wall, cpu) = (
        began.elapsed().as_secs_f64() * 1e3,
        cpu.elapsed().as_secs_f64() * 1e3,
    );
    ensure!(!answer.results.is_empty(), "no results for {question}");
    let telemetry = answer.telemetry;
    let embedding = telemetry.embedding_latency_ms;
    let stages = telemetry.stages.iter().map(|stage| {
        // The first stage includes the embedding.
        let of_embedding = if stage.stage == satiety::memory::Stage::Candidate {
            embedding
        } else {
            0.0
        };
        (format!("{:?}", stage.stage), stage.duration_ms - of_embedding)
    });
    Ok(Search {
        wall: wall - embedding,
        // The built-in model runs in this process; its wall time approximates its CPU time.
        cpu: (cpu - embedding).max(0.0),
        embedding,
        stages: stages.collect(),
    })
}

/// Cost of the search after a change.
async fn changes(engine: &Engine, corpus: &Corpus) -> Result<()> {
    let mut times = Times::default();
    for (number, question) in corpus.questions.iter().take(FEWER).enumerate() {
        engine
            .memory()
            .update(UpdateRequest {
                id: format!("mem-{number:08}"),
                triggers: Some(vec![format!("phrase {number}")]),
                ..UpdateRequest::default()
            })
            .await?;
        times.0.push(search(engine, question, Mode::Focused).await?.wall);
    }
    println!("  {:<34} {}", "focused, after an update", times.line());
    Ok(())
}

/// Several concurrent clients while a writer changes memories; also measures how late timers fire, which
/// shows how long searches block the async threads.
async fn concurrent(engine: &Arc<Engine>, corpus: &Corpus, mode: Mode) -> Result<()> {
    let late = tokio::spawn(async {
        let mut late = Times::default();
        loop {
            let began = Instant::now();
            tokio::time::sleep(TICK).await;
            late.0
                .push((began.elapsed().as_secs_f64() - TICK.as_secs_f64()) * 1e3);
            if STOP.load(Ordering::Relaxed) {
                return late;
            }
        }
    });
    let writer = tokio::spawn({
        let engine = Arc::clone(engine);
        async move {
            for number in 0_usize.. {
                if STOP.load(Ordering::Relaxed) {
                    break;
                }
                let request = UpdateRequest {
                    id: format!("mem-{:08}", number % 100),
                    triggers: Some(vec![format!("phrase {number}")]),
                    ..UpdateRequest::default()
                };
                engine.memory().update(request).await?;
                tokio::time::sleep(20 * TICK).await;
            }
            anyhow::Ok(())
        }
    });
    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let engine = Arc::clone(engine);
        let own = corpus.questions.iter().skip(client).step_by(CLIENTS);
        let questions: Vec<String> = own.cloned().collect();
        clients.spawn(async move {
            let mut times = Vec::new();
            for question in questions {
                times.push(search(&engine, &question, mode).await?.wall);
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Times::default();
    while let Some(own) = clients.join_next().await {
        times.0.extend(own??);
    }
    let took = began.elapsed().as_secs_f64();
    STOP.store(true, Ordering::Relaxed);
    let late = late.await?;
    writer.await??;
    STOP.store(false, Ordering::Relaxed);
    println!(
        "  {:<34} {} {:>8.0} per second",
        format!("{}, {CLIENTS} clients, a writer", mode.name()),
        times.line(),
        times.0.len() as f64 / took
    );
    println!("    {:<32} {}", "timers late by", late.line());
    Ok(())
}

/// BM25 by its formula and a loop over all vectors, fused by ranks.
fn naive(corpus: &Corpus) -> Result<()> {
    let model = MiniLm::builtin()?;
    let texts: Vec<String> = corpus
        .texts
        .iter()
        .map(|(title, body)| format!("{title} {body}"))
        .collect();
    let words = plain::Bm25::new(texts.iter().map(String::as_str));
    let mut times = Times::default();
    let cpu = ProcessTime::now();
    for question in corpus.questions.iter().take(FEWER) {
        let vector = model
            .encode_on(&[question.as_str()], 1)
            .pop()
            .context("one vector")?;
        let began = Instant::now();
        let mut scores: BTreeMap<usize, f64> = BTreeMap::new();
        for (rank, at) in words.search(question, 100).into_iter().enumerate() {
            *scores.entry(at).or_default() += 1.0 / (61.0 + rank as f64);
        }
        for (rank, (at, _)) in plain::nearest(&corpus.vectors, &vector, 100)
            .into_iter()
            .enumerate()
        {
            *scores.entry(at).or_default() += 1.0 / (61.0 + rank as f64);
        }
        let mut best: Vec<(usize, f64)> = scores.into_iter().collect();
        best.sort_by(|a, b| b.1.total_cmp(&a.1));
        ensure!(!best.is_empty(), "no results");
        times.0.push(began.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "  {:<34} {} {:>8.2}",
        "naive: BM25 and f32, one by one",
        times.line(),
        cpu.elapsed().as_secs_f64() * 1e3 / FEWER as f64
    );
    Ok(())
}

/// Searches of the MCP server `@modelcontextprotocol/server-memory`, which finds entities that contain the query
/// as a substring.
fn server_memory(corpus: &Corpus, python: &Path, command: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let entities: Vec<_> = corpus
        .texts
        .iter()
        .enumerate()
        .map(|(number, (title, body))| {
            serde_json::json!({"type": "entity", "name": format!("{title} {number}"), "entityType": "note",
                "observations": [body]})
            .to_string()
        })
        .collect();
    fs_err::write(directory.path().join("memory.jsonl"), entities.join("\n"))?;
    let words: Vec<&str> = corpus
        .questions
        .iter()
        .take(FEWER)
        .filter_map(|question| question.split(' ').next())
        .collect();
    fs_err::write(directory.path().join("queries.json"), serde_json::to_vec(&words)?)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/server_memory_peer.py");
    let output = Command::new(python)
        .arg(script)
        .arg(directory.path())
        .arg(command)
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        println!(
            "  skipped server-memory: {}",
            said.lines().last().unwrap_or_default()
        );
        return Ok(());
    }
    let peer: Peer = serde_json::from_slice(&output.stdout).context("invalid output of the peer")?;
    println!(
        "  {:<34} {} {:>8.2}",
        peer.name,
        Times(peer.times).line(),
        peer.cpu
    );
    println!(
        "    first answer in {:.1} s, {:.0} MB; finds one word as a substring",
        peer.build_seconds, peer.megabytes
    );
    Ok(())
}

#[derive(Deserialize)]
struct Peer {
    name: String,
    times: Vec<f64>,
    cpu: f64,
    megabytes: f64,
    build_seconds: f64,
}

fn peer(corpus: &Corpus, python: &Path) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let write = |name: &str, bytes: Vec<u8>| fs_err::write(directory.path().join(name), bytes);
    let texts: Vec<String> = corpus
        .texts
        .iter()
        .map(|(title, body)| format!("{title} {body}"))
        .collect();
    write("texts.json", serde_json::to_vec(&texts)?)?;
    let flat = |vectors: &[Vec<f32>]| -> Vec<u8> {
        vectors
            .iter()
            .flatten()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    write("vectors.f32", flat(&corpus.vectors))?;
    let questions: Vec<&str> = corpus.questions.iter().take(FEWER).map(String::as_str).collect();
    write("questions.json", serde_json::to_vec(&questions)?)?;
    write(
        "questions.f32",
        flat(&MiniLm::builtin()?.encode_on(&questions, 2)),
    )?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/memory_peer.py");
    let output = Command::new(python).arg(script).arg(directory.path()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        println!("  skipped the peer: {}", said.lines().last().unwrap_or_default());
        return Ok(());
    }
    let peers: Vec<Peer> = serde_json::from_slice(&output.stdout).context("invalid output of the peer")?;
    for peer in peers {
        println!(
            "  {:<34} {} {:>8.2}",
            peer.name,
            Times(peer.times).line(),
            peer.cpu
        );
        println!(
            "    built in {:.1} s, {:.0} MB",
            peer.build_seconds, peer.megabytes
        );
    }
    Ok(())
}
