//! Simulates the gate that ends (`bench run --until-decided`): how often it is wrong, how often it stays undecided, and
//! how many calls it needs compared with the fixed design.
//!
//! `cargo run --release --manifest-path studies/Cargo.toml --bin bench_sequential [HISTORIES]`

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use satiety::bench::{
    BenchmarkResult, BenchmarkRun, GatePolicy, GateVerdict, SequentialDesign, SequentialGate, Status, compare,
};

/// Largest number of calls, as a multiple of those of the fixed design.
const TIMES: u32 = 4;

/// Pass rates of the cases in the baseline.
#[derive(Clone, Copy)]
enum Rates {
    /// All cases alike.
    Equal(f64),
    /// Uniform from this value to 1.
    Uniform(f64),
    /// Seven of ten cases always pass, the others half of the time.
    Mixed,
    /// All cases always pass.
    Stable,
}

/// What happened to the candidate.
#[derive(Clone, Copy)]
enum Change {
    /// Every rate fell by this much.
    Drop(f64),
    /// The first case never passes any more.
    DeadCase,
}

fn rates(rates: Rates, cases: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..cases)
        .map(|case| match rates {
            Rates::Equal(rate) => rate,
            Rates::Uniform(low) => random.random_range(low..1.0),
            Rates::Mixed if case % 10 < 7 => 1.0,
            Rates::Mixed => 0.5,
            Rates::Stable => 1.0,
        })
        .collect()
}

fn changed(rates: &[f64], change: Change) -> Vec<f64> {
    let after = |(case, rate): (usize, &f64)| match change {
        Change::Drop(drop) => (rate - drop).max(0.0),
        Change::DeadCase if case == 0 => 0.0,
        Change::DeadCase => *rate,
    };
    rates.iter().enumerate().map(after).collect()
}

/// A system that is called: results are added case by case.
struct System {
    rates: Vec<f64>,
    run: BenchmarkRun,
    repeats: Vec<u32>,
}

impl System {
    fn new(rates: Vec<f64>) -> Self {
        Self {
            repeats: vec![0; rates.len()],
            rates,
            run: BenchmarkRun {
                run_id: "run".to_owned(),
                suite_id: "suite".to_owned(),
                suite_hash: None,
                target: String::new(),
                started_at: jiff::Timestamp::UNIX_EPOCH,
                completed_at: None,
                config_snapshot: BTreeMap::new(),
                results: Vec::new(),
                summary: None,
            },
        }
    }

    /// Repeats a case until it has this many results; returns the number of calls.
    fn repeat(&mut self, case: usize, until: u32, random: &mut ChaCha8Rng) -> u64 {
        let calls = until.saturating_sub(self.repeats[case]);
        while self.repeats[case] < until {
            let passes = random.random_bool(self.rates[case]);
            let status = if passes { Status::Pass } else { Status::Fail };
            let mut result = BenchmarkResult::new(name(case), self.repeats[case], status);
            result.latency_ms = 400.0 * random.random_range(0.5..1.5_f64);
            self.run.results.push(result);
            self.repeats[case] += 1;
        }
        u64::from(calls)
    }

    fn repeat_all(&mut self, until: u32, random: &mut ChaCha8Rng) -> u64 {
        (0..self.rates.len())
            .map(|case| self.repeat(case, until, random))
            .sum()
    }
}

fn name(case: usize) -> String {
    format!("case-{case:03}")
}

struct Row {
    rates: Rates,
    change: Change,
    cases: usize,
    repeats: u32,
    repeats_baseline: bool,
}

/// Verdict of the sequential gate with its number of calls, and verdict of the fixed design.
fn history(row: &Row, gate: &SequentialGate, seed: u64) -> anyhow::Result<(GateVerdict, u64, GateVerdict)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let before = rates(row.rates, row.cases, &mut random);
    let mut baseline = System::new(before.clone());
    let mut candidate = System::new(changed(&before, row.change));
    baseline.repeat_all(row.repeats, &mut random);
    let mut fixed = System::new(candidate.rates.clone());
    fixed.repeat_all(row.repeats, &mut random);
    let once = compare(&baseline.run, &fixed.run, &GatePolicy::default())?.verdict;
    let mut calls = 0;
    let budget = u64::from(TIMES * row.repeats) * row.cases as u64 * if row.repeats_baseline { 2 } else { 1 };
    for round in 1..=TIMES * row.repeats {
        calls += candidate.repeat_all(round, &mut random);
        if row.repeats_baseline {
            calls += baseline.repeat_all(round.max(row.repeats), &mut random);
        }
        loop {
            let found = gate.look(&baseline.run, &candidate.run, round)?;
            if found.report.verdict != GateVerdict::Inconclusive {
                return Ok((found.report.verdict, calls, once));
            }
            if found.suspects.is_empty() || calls >= budget {
                break;
            }
            for suspect in found.suspects {
                let case = (0..row.cases)
                    .find(|&case| name(case) == suspect)
                    .unwrap_or_default();
                let until = (candidate.repeats[case] + 5).min(gate.case_tries());
                calls += candidate.repeat(case, until, &mut random);
            }
        }
        if calls >= budget {
            break;
        }
    }
    Ok((GateVerdict::Inconclusive, calls, once))
}

fn main() -> anyhow::Result<()> {
    let histories: u64 = std::env::args().nth(1).map_or(Ok(1_000), |text| text.parse())?;
    println!("{histories} histories per row; at most {TIMES} times the calls of the fixed design; verdicts in percent\n");
    println!(
        "| system | cases x repeats | baseline | regression | pass | undecided | median calls / fixed | fixed design: regression | undecided |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let systems = [
        ("80 %", Rates::Equal(0.8)),
        ("70 to 100 %", Rates::Uniform(0.7)),
        ("7 of 10 stable, others 50 %", Rates::Mixed),
        ("100 %", Rates::Stable),
    ];
    let changes = [
        ("unchanged", Change::Drop(0.0)),
        ("10 points less", Change::Drop(0.1)),
        ("15 points less", Change::Drop(0.15)),
        ("one case dead", Change::DeadCase),
    ];
    for (system, rates) in systems {
        for (what, change) in changes {
            for (cases, repeats) in [(20, 5), (50, 5), (50, 1)] {
                for repeats_baseline in [false, true] {
                    let row = Row {
                        rates,
                        change,
                        cases,
                        repeats,
                        repeats_baseline,
                    };
                    let design = SequentialDesign {
                        baseline_repeats: f64::from(repeats),
                        rounds: TIMES * repeats,
                        repeats_baseline,
                    };
                    let gate = SequentialGate::new(design, GatePolicy::default())?;
                    let found = (0..histories)
                        .map(|seed| history(&row, &gate, seed))
                        .collect::<anyhow::Result<Vec<_>>>()?;
                    let share = |verdict: GateVerdict| {
                        let count = found.iter().filter(|(is, ..)| *is == verdict).count();
                        100.0 * count as f64 / histories as f64
                    };
                    let fixed = |verdict: GateVerdict| {
                        let count = found.iter().filter(|(_, _, is)| *is == verdict).count();
                        100.0 * count as f64 / histories as f64
                    };
                    let mut calls: Vec<u64> = found.iter().map(|(_, calls, _)| *calls).collect();
                    calls.sort_unstable();
                    println!(
                        "| {system}, {what} | {cases} x {repeats} | {} | {:.1} | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} |",
                        if repeats_baseline { "repeated" } else { "recorded" },
                        share(GateVerdict::Regression),
                        share(GateVerdict::Pass),
                        share(GateVerdict::Inconclusive),
                        calls[calls.len() / 2] as f64 / (cases as f64 * f64::from(repeats)),
                        fixed(GateVerdict::Regression),
                        fixed(GateVerdict::Inconclusive),
                    );
                }
            }
        }
    }
    Ok(())
}
