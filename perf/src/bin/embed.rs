//! Measures the built-in sentence model: throughput in batches of 32 and one by one, cold start, memory, the share
//! of the tokenizer, and the deviation of its cosines from the reference.
//!
//! `cargo run --release -p perf --bin embed -- --python PYTHON --model DIR` measures the built-in model with
//! every instruction set of the processor, and sentence-transformers and ONNX Runtime, the latter also with a
//! dynamically quantized model (`perf/peers/minilm_peer.py`), on the same claims in the same run; DIR contains the
//! f32 model. Without `--python`, only our own results are printed. Throughput is per CPU-second, so that a busy
//! machine and the number of threads do not affect it. Linux only: it reads /proc.
#![expect(clippy::print_stdout, reason = "prints the measurements")]
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Parser;
use satiety_models::minilm::MiniLm;
use serde::{Deserialize, Serialize};

#[derive(Parser)]
struct Arguments {
    /// Python interpreter with sentence-transformers, onnx and onnxruntime
    #[arg(long, requires = "model")]
    python: Option<PathBuf>,
    /// Directory with the f32 all-MiniLM-L6-v2
    #[arg(long)]
    model: Option<PathBuf>,
    /// Number of claims to embed in batches; a quarter of them is also embedded one by one
    #[arg(long, default_value_t = 1000)]
    claims: usize,
    /// Peers to measure
    #[arg(long, value_delimiter = ',', default_value = "torch,onnx,onnx-int8")]
    peers: Vec<String>,
    /// Minimum seconds for each rate
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// File with texts, one per line, whose tokens are compared with those of the reference tokenizer
    #[arg(long, requires = "python")]
    texts: Option<PathBuf>,
    /// Embed one sentence and exit, which the parent process times as a cold start
    #[arg(long, hide = true)]
    cold: bool,
    /// Print the measurements of this instruction set as JSON; the parent process reads them
    #[arg(long, hide = true)]
    own: bool,
}

/// Measurements of one side.
#[derive(Deserialize, Serialize)]
struct Measurements {
    /// Sentences per CPU-second and per second, in batches of 32.
    batch_cpu: f64,
    batch_wall: f64,
    /// The same, one by one.
    single_cpu: f64,
    single_wall: f64,
    /// Seconds from process start to the first vector.
    cold_start: f64,
    /// Peak resident memory in megabytes.
    memory: f64,
    /// Share of the tokenizer in the CPU time of batches; only for the built-in model.
    tokenizer: Option<f64>,
    /// Vectors of the first 400 claims.
    vectors: Vec<Vec<f32>>,
}

/// Number of claims whose pairwise cosines are compared.
const COMPARED: usize = 400;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if arguments.cold {
        MiniLm::builtin()?.encode_on(&["a cold start ends with a vector"], 1);
        return Ok(());
    }
    ensure!(
        arguments.claims >= COMPARED,
        "at least {COMPARED} claims are needed"
    );
    let claims = claims(arguments.claims);
    if arguments.own {
        let found = measure_own(&claims, arguments.seconds)?;
        println!("{}", serde_json::to_string(&found)?);
        return Ok(());
    }
    let words =
        claims.iter().map(|claim| claim.split(' ').count()).sum::<usize>() as f64 / claims.len() as f64;
    println!("{} claims of {words:.1} words on average", claims.len());
    println!(
        "{:<28}{:>12}{:>12}{:>12}{:>12}{:>12}{:>10}{:>12}",
        "", "b32/CPU-s", "b32/s", "b1/CPU-s", "b1/s", "cold s", "RSS MB", "tokenizer"
    );
    let own = measure_sets(&arguments)?;
    let work = tempfile::tempdir()?;
    let mut peers = Vec::new();
    if let (Some(python), Some(model)) = (&arguments.python, &arguments.model) {
        for peer in &arguments.peers {
            let output = run_peer(python, peer, model, work.path(), &claims)?;
            let found: Measurements = serde_json::from_slice(&output)?;
            print_measurements(peer, &found);
            peers.push((peer, found));
        }
    }
    for (peer, theirs) in &peers {
        for (set, ours) in &own {
            println!(
                "{set} to {peer}: b32 per CPU-second {:.2}, b1 per CPU-second {:.2}, cold start {:.4}, memory {:.3}",
                ours.batch_cpu / theirs.batch_cpu,
                ours.single_cpu / theirs.single_cpu,
                ours.cold_start / theirs.cold_start,
                ours.memory / theirs.memory,
            );
        }
    }
    if let Some(directory) = &arguments.model {
        let exact = encode_all(&MiniLm::from_directory(directory)?, &claims[..COMPARED], 32);
        for (name, found) in own
            .iter()
            .map(|(set, found)| (*set, found))
            .chain(peers.iter().map(|(peer, found)| (peer.as_str(), found)))
        {
            println!(
                "cosines of {name} against f32: {}",
                errors(&found.vectors, &exact)
            );
        }
    }
    let is_identical = own.iter().all(|(_, found)| found.vectors == own[0].1.vectors);
    println!(
        "vectors of all instruction sets: {}",
        if is_identical { "identical" } else { "different" }
    );
    if let (Some(python), Some(model), Some(texts)) = (&arguments.python, &arguments.model, &arguments.texts)
    {
        compare_tokens(python, model, work.path(), texts)?;
    }
    Ok(())
}

/// Measures every instruction set that this processor has, each in its own process.
fn measure_sets(arguments: &Arguments) -> anyhow::Result<Vec<(&'static str, Measurements)>> {
    let program = std::env::current_exe()?;
    let mut found = Vec::new();
    for set in ["vnni", "avxvnni", "avx512", "avx2", "neon", "portable"] {
        let output = Command::new(&program)
            .args(["--own", "--claims", &arguments.claims.to_string()])
            .args(["--seconds", &arguments.seconds.to_string()])
            .env("SATIETY_CPU", set)
            .stderr(Stdio::null())
            .output()?;
        if output.status.success() {
            let measured: Measurements = serde_json::from_slice(&output.stdout)?;
            print_measurements(&format!("built-in, {set}"), &measured);
            found.push((set, measured));
        } else {
            println!("built-in, {set}: this processor lacks the instructions");
        }
    }
    ensure!(!found.is_empty(), "the built-in model cannot be measured");
    Ok(found)
}

fn print_measurements(name: &str, f: &Measurements) {
    let tokenizer = f
        .tokenizer
        .map_or_else(String::new, |share| format!("{:.2} %", 100.0 * share));
    println!(
        "{name:<28}{:>12.1}{:>12.1}{:>12.1}{:>12.1}{:>12.3}{:>10.0}{tokenizer:>12}",
        f.batch_cpu, f.batch_wall, f.single_cpu, f.single_wall, f.cold_start, f.memory
    );
}

fn measure_own(claims: &[String], seconds: f64) -> anyhow::Result<Measurements> {
    let cold_start = cold_start()?;
    let model = MiniLm::builtin()?;
    // Warm-up: pages in the weights.
    encode_all(&model, &claims[..32], 32);
    let singles = &claims[..claims.len() / 4];
    let (batch_cpu, batch_wall, vectors) = speed(claims.len(), seconds, || encode_all(&model, claims, 32))?;
    let (single_cpu, single_wall, _) = speed(singles.len(), seconds, || encode_all(&model, singles, 1))?;
    let (tokens_cpu, _, ()) = speed(100 * claims.len(), 1.0, || {
        for _ in 0..100 {
            for claim in claims {
                std::hint::black_box(model.tokens(claim));
            }
        }
    })?;
    Ok(Measurements {
        batch_cpu,
        batch_wall,
        single_cpu,
        single_wall,
        cold_start,
        memory: peak_memory()?,
        tokenizer: Some(batch_cpu / tokens_cpu),
        vectors: vectors.into_iter().take(COMPARED).collect(),
    })
}

fn encode_all(model: &MiniLm, claims: &[String], batch: usize) -> Vec<Vec<f32>> {
    let texts: Vec<&str> = claims.iter().map(String::as_str).collect();
    texts
        .chunks(batch)
        .flat_map(|texts| model.encode(texts))
        .collect()
}

/// Returns sentences per CPU-second, sentences per second and the result. Repeats for at least this many seconds
/// and reports the best round, because other processes can only slow it down.
fn speed<T>(sentences: usize, seconds: f64, mut work: impl FnMut() -> T) -> anyhow::Result<(f64, f64, T)> {
    let (mut best_cpu, mut best_wall) = (0.0f64, 0.0f64);
    let begin = Instant::now();
    loop {
        let (wall, cpu) = (Instant::now(), cpu_time::ProcessTime::try_now()?);
        let result = work();
        best_cpu = best_cpu.max(sentences as f64 / cpu.try_elapsed()?.as_secs_f64());
        best_wall = best_wall.max(sentences as f64 / wall.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() >= seconds {
            return Ok((best_cpu, best_wall, result));
        }
    }
}

/// Median of seven starts of this program.
fn cold_start() -> anyhow::Result<f64> {
    let program = std::env::current_exe()?;
    let mut times = (0..7)
        .map(|_| {
            let begin = Instant::now();
            ensure!(
                Command::new(&program).arg("--cold").status()?.success(),
                "cold start failed"
            );
            Ok(begin.elapsed().as_secs_f64())
        })
        .collect::<anyhow::Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn peak_memory() -> anyhow::Result<f64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM in /proc/self/status")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}

/// Runs the peer's script on these texts and returns what it prints.
fn run_peer(
    python: &Path,
    peer: &str,
    model: &Path,
    work: &Path,
    texts: &[String],
) -> anyhow::Result<Vec<u8>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/minilm_peer.py");
    let mut child = Command::new(python)
        .arg(script)
        .arg(peer)
        .args([model, work])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", python.display()))?;
    child
        .stdin
        .take()
        .context("no stdin")?
        .write_all(&serde_json::to_vec(texts)?)?;
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{peer} failed; run perf/peers/minilm_peer.py manually to see the error"
    );
    Ok(output.stdout)
}

/// Compares our tokens with those of the reference tokenizer and prints the first differences.
fn compare_tokens(python: &Path, model: &Path, work: &Path, file: &Path) -> anyhow::Result<()> {
    let texts: Vec<String> = fs_err::read_to_string(file)?.lines().map(str::to_owned).collect();
    let expected: Vec<Vec<u32>> = serde_json::from_slice(&run_peer(python, "tokens", model, work, &texts)?)?;
    let own = MiniLm::builtin()?;
    let differing: Vec<&String> = texts
        .iter()
        .zip(&expected)
        .filter(|(text, expected)| own.tokens(text) != **expected)
        .map(|(text, _)| text)
        .collect();
    println!(
        "tokens: {} of {} texts differ from the reference tokenizer",
        differing.len(),
        texts.len()
    );
    for text in differing.iter().take(5) {
        println!("  {text:?}");
    }
    Ok(())
}

/// Maximum and 99th percentile of the differences between the pairwise cosines of two sets.
fn errors(a: &[Vec<f32>], b: &[Vec<f32>]) -> String {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    let mut differences = Vec::new();
    for i in 0..a.len().min(b.len()) {
        for j in 0..i {
            differences.push((dot(&a[i], &a[j]) - dot(&b[i], &b[j])).abs());
        }
    }
    differences.sort_by(f64::total_cmp);
    let at = |share: usize| differences[(differences.len() - 1) * share / 100];
    format!(
        "{} pairs, largest difference {:.4}, 99 % below {:.4}",
        differences.len(),
        at(100),
        at(99)
    )
}

/// Claims as an agent might make them, combined from parts in a fixed order.
fn claims(count: usize) -> Vec<String> {
    const SUBJECTS: [&str; 23] = [
        "The payment service",
        "Our search index",
        "A nightly backup job",
        "The second reviewer",
        "The Berlin office",
        "Roughly half of the trial users",
        "The new caching layer",
        "An unsigned firmware image",
        "The compiler",
        "Every message in the queue",
        "The quarterly forecast",
        "A small glacier in Norway",
        "The migration script",
        "The customer's procurement team",
        "One of the three replicas",
        "The antibody study",
        "Our oldest API client",
        "The train from Lyon",
        "The learned ranking model",
        "A retired schoolteacher",
        "The load balancer",
        "The court's ruling",
        "The open-source maintainer",
    ];
    const VERBS: [&str; 19] = [
        "fails when",
        "was rewritten because",
        "costs more than planned since",
        "no longer needs manual steps now that",
        "should be delayed until",
        "became 40 % faster after",
        "loses data whenever",
        "was praised because",
        "cannot be verified while",
        "depends on the assumption that",
        "returned 17 errors in an hour as",
        "is cheaper than expected because",
        "must be approved again if",
        "shows no improvement although",
        "was stopped in March 2024 when",
        "contradicts the claim that",
        "doubled its output once",
        "will be replaced before",
        "rarely recovers if",
    ];
    const REASONS: [&str; 29] = [
        "two requests arrive within the same millisecond",
        "the certificate expires on a Sunday",
        "nobody owns the configuration file any more",
        "the disk fills above 90 percent",
        "interest rates rose by a quarter point",
        "the test suite takes 48 minutes",
        "a sensor drifted during the heat wave",
        "the vendor changed its licence terms",
        "the prompt contains more than 8,000 tokens",
        "users in Japan switched to the mobile version",
        "the patients received a placebo first",
        "the index is rebuilt without locking the table",
        "the committee lacks a quorum",
        "snow blocked the mountain road for three days",
        "retries are not idempotent",
        "the embedding model was quantised",
        "its author left the company last year",
        "the contract excludes weekend support",
        "the sample was smaller than 30 people",
        "both teams measured latency at different percentiles",
        "the password policy was relaxed",
        "an intern found the missing semicolon",
        "the harvest was the worst in a decade",
        "the cache keys include a timestamp",
        "the documentation describes an older release",
        "the budget was cut to 1.2 million euros",
        "the queue is drained by a single worker",
        "the translation dropped every negation",
        "the battery is charged below freezing",
    ];
    const ENDINGS: [&str; 7] = [
        "",
        ", according to the latest report",
        ", which nobody had noticed before",
        " and the fix is already merged",
        ", so the rollout should wait",
        ", as the logs from Tuesday show",
        " in two of five regions",
    ];
    // The lengths are coprime, so the parts keep forming new combinations.
    (0..count)
        .map(|i| {
            let (subject, verb) = (SUBJECTS[i % SUBJECTS.len()], VERBS[i % VERBS.len()]);
            format!(
                "{subject} {verb} {}{}.",
                REASONS[i % REASONS.len()],
                ENDINGS[i % ENDINGS.len()]
            )
        })
        .collect()
}
