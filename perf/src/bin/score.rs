//! Measures the cost of scoring a conversation by step: reading, observing, reporting, writing; by words
//! only.
//!
//! `cargo run --release -p perf --bin score -- [--repeat 200] [FILE...]`; without files, the conversations of
//! examples/calibration, and one of 40 rounds of 8 claims.
//!
//! `--growth` measures conversations of 500 to 16,000 rounds that are nearly the same instead, and prints how
//! the cost grows: a doubling that costs 2 times as much is linear, 4 times is quadratic.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use perf::growth::HARD_INPUTS;
use perf::measure::cpu_time;
use perf::rows::Row;
use satiety::dialogue::input::{self, Content, InputFormat, ReadOptions};
use satiety::dialogue::{Conversation, Profile};

#[derive(Debug, Parser)]
struct Arguments {
    /// Number of times to score each conversation
    #[arg(long, default_value_t = 200)]
    repeat: u32,
    /// Measure how the cost grows with the number of rounds
    #[arg(long)]
    growth: bool,
    /// Numbers of rounds for --growth
    #[arg(long, value_delimiter = ',', default_values_t = [500, 1_000, 2_000, 4_000, 8_000, 16_000])]
    rounds: Vec<usize>,
    /// Kinds of input for --growth whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Transcripts to score [default: examples/calibration]
    files: Vec<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.growth {
        return measure_growth(&arguments);
    }
    let mut files = arguments.files;
    let is_bare = files.is_empty();
    if is_bare {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/calibration");
        for entry in fs_err::read_dir(directory)? {
            files.push(entry?.path());
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    }
    let texts = files.iter().map(fs_err::read).collect::<Result<Vec<_>, _>>()?;
    measure(&texts, arguments.repeat)?;
    if is_bare {
        let long = perf::conversations::long()["conversation"].to_string();
        measure(&[long.into_bytes()], arguments.repeat)?;
    }
    Ok(())
}

/// A size is skipped if the next smaller one took this many CPU seconds.
const TOO_SLOW: f64 = 30.0;

fn measure_growth(arguments: &Arguments) -> Result<()> {
    let sizes = &arguments.rounds;
    print!("CPU seconds for rounds");
    for size in sizes {
        print!(" {size:>8}");
    }
    println!("   last doubling");
    for input in &HARD_INPUTS {
        if arguments
            .only
            .as_ref()
            .is_some_and(|only| !input.name.contains(only.as_str()))
        {
            continue;
        }
        print!("{:<40}", input.name);
        let mut took: Vec<f64> = Vec::new();
        for &size in sizes {
            if took.last().is_some_and(|last| *last > TOO_SLOW) {
                print!("        -");
                continue;
            }
            let rounds: Vec<_> = (0..size).map(|at| input.round(at)).collect();
            let (result, time) = cpu_time(|| -> Result<usize> {
                let mut conversation = Conversation::new(Profile::default())?;
                for (round, vectors) in &rounds {
                    conversation.follow(round, vectors.as_ref())?;
                }
                Ok(conversation.report()?.novelty_by_round.len())
            });
            ensure!(result? == size, "a round is missing");
            took.push(time.as_secs_f64());
            print!(" {:>8.3}", time.as_secs_f64());
        }
        if let [.., before, last] = took[..] {
            println!("   {:>6.2} times", last / before);
            let size = sizes[took.len() - 1];
            let per_round = |at: usize| took[at] * 1e6 / sizes[at] as f64;
            Row::cost(
                format!("score, {}, a round of {size}", input.name),
                "CPU µs",
                per_round(took.len() - 1),
            )
            .against(&format!("ours, a round of {}", sizes[0]), per_round(0))
            .record()?;
        } else {
            println!();
        }
    }
    Ok(())
}

fn measure(texts: &[Vec<u8>], repeat: u32) -> Result<()> {
    let fresh = Conversation::new(Profile::default())?;
    let mut took = [Duration::ZERO; 4];
    let (mut claims, mut bytes) = (0, 0);
    for _ in 0..repeat {
        for text in texts {
            let mut clock = Instant::now();
            let mut lap = |step: usize| {
                took[step] += clock.elapsed();
                clock = Instant::now();
            };
            let options = ReadOptions {
                format: Some(InputFormat::Transcript),
                growing: false,
            };
            let Content::Rounds(transcript) = input::read(text, options)?.content else {
                continue;
            };
            lap(0);
            let mut conversation = fresh.clone();
            for round in &transcript.rounds {
                claims += round.outputs.claims.len();
                conversation.follow(round, None)?;
            }
            lap(1);
            let report = conversation.report().context("conversation without rounds")?;
            lap(2);
            bytes += serde_json::to_vec(&report)?.len();
            lap(3);
        }
    }
    let count = repeat * u32::try_from(texts.len())?;
    println!(
        "{count} conversations, {claims} claims, {} bytes per report",
        bytes / count as usize
    );
    for (name, time) in ["read", "observe", "report", "write"].into_iter().zip(took) {
        println!(
            "{name:8} {:8.1} µs per conversation",
            time.as_secs_f64() * 1e6 / f64::from(count)
        );
    }
    Ok(())
}
