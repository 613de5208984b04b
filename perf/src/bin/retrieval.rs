//! Measures CPU time and memory from files on disk to the means of eight retrieval metrics. The engine runs
//! in a separate process, compared (with `--python PATH`) with those of `pytrec_eval`, `ir_measures` and ranx
//! that the interpreter has, with `trec_eval` if it is on the PATH, and with only reading and splitting the
//! same bytes, which is the lower bound.
//!
//! 10,000 queries of 100 results and about 30 judgments, seeded; `--large` adds 100,000. Programs alternate,
//! and the median of five (of one, when large) is reported. Means must agree to 1e-9 with those of
//! `pytrec_eval`.
#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cpu_time::ProcessTime;
use perf::rows::Row;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use satiety::retrieval::{EvaluationOptions, OrderOptions};
use satiety::stats::BootstrapSettings;
use satiety_engine::retrieval::{EvaluateRequest, FactFiles, Rankings};
use satiety_engine::{Engine, Settings, StoreUrl};
use serde::{Deserialize, Serialize};

const SEED: u64 = 20_261_115;
const MEASURES: [&str; 8] = [
    "ndcg_linear@5",
    "ndcg_linear@10",
    "ndcg_linear@20",
    "mrr@5",
    "mrr@10",
    "recall@5",
    "recall@10",
    "map",
];

#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    cpu_seconds: f64,
    megabytes: f64,
    means: BTreeMap<String, f64>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, qrels, run] = &arguments[..]
        && mode.starts_with("child-")
    {
        let outcome = child(mode, Path::new(qrels), Path::new(run))?;
        println!("{}", serde_json::to_string(&outcome)?);
        return Ok(());
    }
    let python = arguments
        .iter()
        .position(|argument| argument == "--python")
        .and_then(|at| arguments.get(at + 1));
    let large = arguments.iter().any(|argument| argument == "--large");
    measure(10_000, 5, python)?;
    if large {
        measure(100_000, 1, python)?;
    }
    Ok(())
}

/// Our own programs come first: the lower bound, without and with intervals.
const OWN: usize = 3;

fn measure(queries: usize, rounds: usize, python: Option<&String>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (qrels, run) = (
        directory.path().join("qrels.txt"),
        directory.path().join("run.txt"),
    );
    let bytes = generate(queries, &qrels, &run)?;
    println!(
        "{queries} queries, 100 results each; {:.1} MB of files; median of {rounds}",
        bytes as f64 / 1e6
    );
    let own = std::env::current_exe()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/retrieval_peer.py");
    let mut programs: Vec<(String, Vec<PathBuf>)> = ["child-read", "child-eval", "child-intervals"]
        .map(|mode| (mode.into(), vec![own.clone(), mode.into()]))
        .to_vec();
    if let Some(python) = python {
        for (peer, module) in [
            ("pytrec_eval", "pytrec_eval"),
            ("ir_measures", "ir_measures"),
            ("ranx", "ranx"),
        ] {
            let there = Command::new(python)
                .args(["-c", &format!("import {module}")])
                .output()?
                .status
                .success();
            if there {
                programs.push((peer.into(), vec![python.into(), script.clone(), peer.into()]));
            } else {
                println!("  skipped {peer}: not installed");
            }
        }
    } else {
        println!("  skipped peers: no --python PATH");
    }
    if Command::new("trec_eval").arg("--version").output().is_err() {
        println!("  skipped trec_eval: not on the PATH");
    } else if queries > 10_000 {
        println!("  skipped trec_eval: takes minutes at this size");
    } else {
        programs.push(("trec_eval".into(), vec![own.clone(), "child-trec_eval".into()]));
    }
    let mut outcomes: Vec<Vec<Outcome>> = programs.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((name, words), found) in programs.iter().zip(&mut outcomes) {
            let output = Command::new(&words[0])
                .args(&words[1..])
                .args([&qrels, &run])
                .output()?;
            ensure!(
                output.status.success(),
                "{name}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            found.push(serde_json::from_slice(&output.stdout).with_context(|| name.clone())?);
        }
    }
    let ours = median(&outcomes[1])?;
    println!("  {:<34} {:>9} {:>8} {:>9}", "", "CPU s", "MB", "x ours");
    for ((name, _), found) in programs.iter().zip(&outcomes) {
        let seconds = median(found)?;
        let megabytes = found.iter().map(|outcome| outcome.megabytes).fold(0.0, f64::max);
        let label = match name.as_str() {
            "child-read" => "reading and splitting only",
            "child-eval" => "satiety",
            "child-intervals" => "satiety, with intervals",
            other => other,
        };
        println!(
            "  {label:<34} {seconds:>9.3} {megabytes:>8.0} {:>9.1}",
            seconds / ours
        );
        let what = format!("8 retrieval metrics from files, {queries} queries x 100");
        match name.as_str() {
            "child-eval" => Row::cost("peak memory of that", "MB", megabytes).record()?,
            "child-intervals" => {}
            _ => Row::cost(what, "CPU-s", ours).against(label, seconds).record()?,
        }
    }
    let peers = programs.iter().zip(&outcomes).skip(OWN);
    let seconds: Vec<(f64, &str)> = peers
        .map(|((name, _), found)| Ok((median(found)?, name.as_str())))
        .collect::<Result<_>>()?;
    if let Some((fastest, name)) = seconds.iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
        println!("  {:.1} times the fastest peer, {name}", fastest / ours);
    }
    agree(&programs, &outcomes)
}

fn agree(programs: &[(String, Vec<PathBuf>)], outcomes: &[Vec<Outcome>]) -> Result<()> {
    let expected = &outcomes[1][0].means;
    for ((name, _), found) in programs.iter().zip(outcomes).skip(2) {
        let largest = expected
            .iter()
            .filter_map(|(measure, value)| Some((found[0].means.get(measure)? - value).abs()))
            .fold(0.0, f64::max);
        println!("  {name}: means differ by at most {largest:.1e}");
        // ir_measures breaks ties of reciprocal ranks in another order, ranx keeps that of the file.
        let same_ties = !["ir_measures", "ranx"].contains(&name.as_str());
        ensure!(!same_ties || largest < 1e-9, "{name} disagrees");
    }
    Ok(())
}

fn median(outcomes: &[Outcome]) -> Result<f64> {
    let seconds: Vec<f64> = outcomes.iter().map(|outcome| outcome.cpu_seconds).collect();
    Ok(satiety::stats::median(&seconds)?)
}

/// Entry point of a child process.
fn child(mode: &str, qrels: &Path, run: &Path) -> Result<Outcome> {
    if mode == "child-trec_eval" {
        return trec_eval(qrels, run);
    }
    let means = if mode == "child-read" {
        let fields = read_and_split(qrels)? + read_and_split(run)?;
        ensure!(fields > 0, "no fields were read");
        BTreeMap::new()
    } else {
        let resamples = if mode == "child-intervals" { 1000 } else { 0 };
        evaluate(qrels, run, resamples)?
    };
    Ok(Outcome {
        cpu_seconds: ProcessTime::now().as_duration().as_secs_f64(),
        megabytes: peak_megabytes().unwrap_or(f64::NAN),
        means,
    })
}

/// Runs `trec_eval` once; it has no reciprocal rank with a cutoff.
fn trec_eval(qrels: &Path, run: &Path) -> Result<Outcome> {
    let output = Command::new("trec_eval")
        .args(["-m", "ndcg_cut.5,10,20", "-m", "recall.5,10", "-m", "map"])
        .args([qrels, run])
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // It prints four digits, which cannot be compared to 1e-9.
    let [user, system] = children_seconds().context("no /proc/self/stat")?;
    Ok(Outcome {
        cpu_seconds: user + system,
        megabytes: f64::NAN,
        means: BTreeMap::new(),
    })
}

/// CPU seconds of terminated child processes, at a hundred ticks per second.
fn children_seconds() -> Option<[f64; 2]> {
    let stat = fs_err::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? / 100.0);
    Some([next()?, next()?])
}

fn evaluate(qrels: &Path, run: &Path, resamples: u64) -> Result<BTreeMap<String, f64>> {
    let engine = Engine::new(Settings {
        store: StoreUrl::sqlite("unused.db"),
        archive_folder: PathBuf::new(),
        embedder: "none".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    });
    let request = EvaluateRequest {
        rankings: Rankings {
            qrels: qrels.into(),
            runs: vec![run.into()],
            order: OrderOptions::default(),
            options: EvaluationOptions::trec(),
            measures: MEASURES
                .iter()
                .map(|name| name.parse())
                .collect::<Result<_, _>>()?,
            known: FactFiles::default(),
            by: Vec::new(),
        },
        bootstrap: BootstrapSettings {
            resamples,
            ..BootstrapSettings::default()
        },
        per_query: false,
        depth: 10,
        record: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let found = runtime.block_on(engine.retrieval().evaluate(request))?;
    let report = found.runs().first().context("no run")?;
    Ok(report
        .metrics
        .0
        .iter()
        .filter_map(|(name, found)| Some((name.clone(), found.mean?)))
        .collect())
}

fn read_and_split(path: &Path) -> Result<usize> {
    let mut file = fs_err::File::open(path)?;
    let mut buffer = vec![0; 1 << 18];
    let mut fields = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(fields);
        }
        fields += buffer[..count].split(|byte| matches!(byte, b' ' | b'\n')).count();
    }
}

fn peak_megabytes() -> Option<f64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

/// Writes judgments and a run; returns their size in bytes.
fn generate(queries: usize, qrels: &Path, run: &Path) -> Result<u64> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut below = move |bound: u64| random.next_u64() % bound;
    let mut qrels_file = std::io::BufWriter::new(fs_err::File::create(qrels)?);
    let mut run_file = std::io::BufWriter::new(fs_err::File::create(run)?);
    let mut line = String::new();
    for query in 0..queries {
        // A stride through the collection gives distinct documents.
        let (start, stride) = (below(1_000_000), 1 + 2 * below(5_000));
        let document = |index: u64| (start + index * stride) % 1_000_003;
        let mut score = 20_000_000 + below(5_000_000);
        for rank in 0..100 {
            score -= below(150_000);
            line.clear();
            let (whole, part) = (score / 1_000_000, score % 1_000_000);
            writeln!(
                line,
                "q{query:06} Q0 d{:07} {} {whole}.{part:06} run",
                document(rank),
                rank + 1
            )?;
            run_file.write_all(line.as_bytes())?;
        }
        for judged in 0..30 {
            // Half of the judged documents are among the results.
            let index = judged * 7;
            line.clear();
            writeln!(
                line,
                "q{query:06} 0 d{:07} {}",
                document(index),
                below(8).saturating_sub(4)
            )?;
            qrels_file.write_all(line.as_bytes())?;
        }
    }
    qrels_file.flush()?;
    run_file.flush()?;
    Ok(fs_err::metadata(qrels)?.len() + fs_err::metadata(run)?.len())
}
