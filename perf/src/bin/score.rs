//! Measures the cost of scoring a conversation by step: reading, observing, reporting, writing; by words
//! only.
//!
//! `cargo run --release -p perf --bin score -- [--repeat 200] [FILE...]`; without files, the conversations of
//! examples/calibration, and one of 40 rounds of 8 claims.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use satiety::dialogue::input::{self, Content, InputFormat, ReadOptions};
use satiety::dialogue::{Conversation, Profile};

#[derive(Debug, Parser)]
struct Arguments {
    /// Number of times to score each conversation
    #[arg(long, default_value_t = 200)]
    repeat: u32,
    /// Transcripts to score [default: examples/calibration]
    files: Vec<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
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
