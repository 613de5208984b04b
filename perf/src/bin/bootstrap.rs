//! Measures the cost of a bootstrap interval: the paired bootstrap of 10,000 pairs with 1,000 resamples,
//! percentile and `BCa`, in a separate process, compared (with `--python PATH`) with `scipy.stats.bootstrap`
//! on the same pairs. Only the call is timed on both sides, in CPU seconds; the sides alternate and the
//! median of five is reported. The resamples differ, so the intervals must agree within a tenth of their
//! width.
#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use cpu_time::ProcessTime;
use perf::rows::Row;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use satiety::stats::{BootstrapMethod, BootstrapSettings, bootstrap_paired_mean};
use serde::{Deserialize, Serialize};

const PAIRS: usize = 10_000;
const ROUNDS: usize = 5;
const METHODS: [&str; 2] = ["percentile", "BCa"];

#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    cpu_seconds: f64,
    megabytes: f64,
    low: f64,
    high: f64,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, method, path] = &arguments[..]
        && mode == "child"
    {
        println!("{}", serde_json::to_string(&ours(method, Path::new(path))?)?);
        return Ok(());
    }
    let python = match &arguments[..] {
        [] => None,
        [flag, python] if flag == "--python" => Some(python),
        _ => bail!("unknown arguments (expected: --python PATH)"),
    };
    let directory = tempfile::tempdir()?;
    let pairs = directory.path().join("pairs.txt");
    generate(&pairs)?;
    println!("{PAIRS} pairs, 1000 resamples; CPU seconds of the call, median of {ROUNDS}");
    let own: Vec<PathBuf> = vec![std::env::current_exe()?, "child".into()];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/bootstrap_peer.py");
    for method in METHODS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(run(&own, method, &pairs)?);
            if let Some(python) = python {
                theirs.push(run(&[python.into(), script.clone()], method, &pairs)?);
            }
        }
        let seconds = report("satiety", method, &ours)?;
        if theirs.is_empty() {
            println!("  skipped scipy: no --python PATH");
            continue;
        }
        let peer = report("scipy", method, &theirs)?;
        println!("  ratio {:.1}", peer / seconds);
        Row::cost(
            format!("paired bootstrap, {PAIRS} pairs, {method}"),
            "CPU-s",
            seconds,
        )
        .against("scipy", peer)
        .record()?;
        let (one, other) = (&ours[0], &theirs[0]);
        let apart = (one.low - other.low).abs().max((one.high - other.high).abs());
        let share = apart / (other.high - other.low);
        println!(
            "  intervals differ by at most {:.1} % of their width",
            100.0 * share
        );
        ensure!(share < 0.1, "{one:?} and {other:?}");
    }
    Ok(())
}

fn run(words: &[PathBuf], method: &str, pairs: &Path) -> Result<Outcome> {
    let (program, rest) = words.split_first().context("no program")?;
    let output = Command::new(program).args(rest).arg(method).arg(pairs).output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn report(name: &str, method: &str, outcomes: &[Outcome]) -> Result<f64> {
    let seconds: Vec<f64> = outcomes.iter().map(|outcome| outcome.cpu_seconds).collect();
    let seconds = satiety::stats::median(&seconds)?;
    let megabytes = outcomes
        .iter()
        .map(|outcome| outcome.megabytes)
        .fold(0.0, f64::max);
    println!("  {name:<8} {method:<10} {seconds:>8.4} s {megabytes:>6.0} MB");
    Ok(seconds)
}

fn ours(method: &str, path: &Path) -> Result<Outcome> {
    let text = fs_err::read_to_string(path)?;
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let treatment: Vec<f64> = numbers.iter().copied().step_by(2).collect();
    let control: Vec<f64> = numbers.iter().copied().skip(1).step_by(2).collect();
    let settings = BootstrapSettings {
        method: if method == "BCa" {
            BootstrapMethod::Bca
        } else {
            BootstrapMethod::Percentile
        },
        ..BootstrapSettings::default()
    };
    let start = ProcessTime::now();
    let found = bootstrap_paired_mean(&treatment, &control, &settings)?;
    let cpu_seconds = start.elapsed().as_secs_f64();
    Ok(Outcome {
        cpu_seconds,
        megabytes: peak_megabytes().unwrap_or(f64::NAN),
        low: found.interval.low,
        high: found.interval.high,
    })
}

fn peak_megabytes() -> Option<f64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

/// Pairs like the values of a measure: most are equal on both sides, some differ a lot.
fn generate(path: &Path) -> Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(20_261_115);
    let mut uniform = move || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut file = std::io::BufWriter::new(fs_err::File::create(path)?);
    for _ in 0..PAIRS {
        let control = uniform();
        let treatment = if uniform() < 0.6 {
            control
        } else {
            (uniform() * 1.02).min(1.0)
        };
        writeln!(file, "{treatment} {control}")?;
    }
    file.flush()?;
    Ok(())
}
