//! Measures the cost of judging an agent at work, without a sentence model: CPU time per step in runs of 1,000
//! and of 10,000 steps, and reading and judging a generated session log of 50 MB.
//!
//! `cargo run --release -p perf --bin progress -- [--megabytes 50]`

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use clap::Parser;
use cpu_time::ProcessTime;
use perf::rows::Row;
use satiety::progress::{Progress, ProgressProfile, judge};
use satiety::trajectory::{Call, ReadOptions, Step, read};
use serde_json::json;

#[derive(Debug, Parser)]
struct Arguments {
    /// Size of the generated log
    #[arg(long, default_value_t = 50)]
    megabytes: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    println!("CPU time per step, without a sentence model");
    let mut costs = Vec::new();
    for steps in [1_000, 10_000] {
        for (name, period) in [("all new", usize::MAX), ("half repeated", 2), ("loop of 4", 4)] {
            let cost = cost_per_step(steps, period);
            println!("  {steps:>6} steps, {name:<14} {:8.2} µs", cost * 1e6);
            costs.push(cost);
        }
    }
    let (short, long) = costs.split_at(costs.len() / 2);
    for (short, long) in short.iter().zip(long) {
        println!(
            "  10,000 steps cost {:.2} times as much per step as 1,000",
            long / short
        );
        Row::cost("judging a step of 10,000", "CPU µs", long * 1e6)
            .against("ours, a step of 1,000", short * 1e6)
            .record()?;
    }
    measure_log(arguments.megabytes << 20)
}

/// CPU seconds per step of a run. A part of its steps repeats the step `period` before.
fn cost_per_step(count: usize, period: usize) -> f64 {
    const MEASURED: usize = 20_000;
    let steps: Vec<Step> = (0..count)
        .map(|number| {
            let number = match period {
                usize::MAX => number,
                2 => number / 2,
                period => number % period,
            };
            step(number)
        })
        .collect();
    let repeats = MEASURED.div_ceil(count);
    let start = ProcessTime::now();
    for _ in 0..repeats {
        let mut progress = Progress::default();
        for step in &steps {
            std::hint::black_box(progress.observe(step));
        }
    }
    start.elapsed().as_secs_f64() / (repeats * count) as f64
}

/// A call with a result of about 2 kB.
fn step(number: usize) -> Step {
    let command = format!("sed -n {},{}p src/module_{}.py", number, number + 40, number % 97);
    Step {
        calls: vec![Call::new("bash", json!({ "command": command })).with_result(output(number))],
        ..Step::default()
    }
}

fn output(number: usize) -> String {
    let mut text = String::new();
    for line in 0..40 {
        let value = number * 40 + line;
        let _ = writeln!(text, "{line:>4}  value_{value} = compute({number}, rate_{line})");
    }
    text
}

/// Reads and judges a log of chat messages of about `size` bytes.
fn measure_log(size: usize) -> Result<()> {
    let mut log = String::with_capacity(size + 4096);
    let mut count = 0;
    while log.len() < size {
        let call = json!({"role": "assistant", "content": "I will look at the next part.", "tool_calls": [
            {"id": format!("call_{count}"), "type": "function", "function": {
                "name": "bash",
                "arguments": json!({"command": format!("cat part_{count}.py")}).to_string()}}]});
        let result =
            json!({"role": "tool", "tool_call_id": format!("call_{count}"), "content": output(count)});
        let _ = writeln!(log, "{call}\n{result}");
        count += 1;
    }
    println!(
        "\nA session log of {:.1} MB with {count} steps",
        log.len() as f64 / 1e6
    );
    let start = ProcessTime::now();
    let read = read::read(log.as_bytes(), ReadOptions::default())?;
    let reading = start.elapsed().as_secs_f64();
    let [run] = read.trajectories.as_slice() else {
        anyhow::bail!("expected one run, found {}", read.trajectories.len());
    };
    ensure!(
        run.steps.len() == count,
        "expected {count} steps, found {}",
        run.steps.len()
    );
    let start = ProcessTime::now();
    let report = judge(run, ProgressProfile::built_in(), |_| None::<Vec<f32>>);
    let judging = start.elapsed().as_secs_f64();
    std::hint::black_box(report);
    Row::cost("reading a session log of 50 MB", "CPU-s", reading).record()?;
    println!("  read   {reading:6.2} CPU seconds");
    println!("  judge  {judging:6.2} CPU seconds");
    Ok(())
}
