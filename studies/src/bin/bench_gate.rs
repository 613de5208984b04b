//! Simulates how often the regression gate is wrong: unchanged flaky systems and real drops, compared with the literal
//! rule "any case that passed and now fails" and a paired t-test over cases.
//!
//! `cargo run --release --manifest-path studies/Cargo.toml --bin bench_gate [SIMULATIONS]`

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use satiety::bench::{BenchmarkResult, BenchmarkRun, GatePolicy, GateVerdict, Status, compare};
use satiety::stats::{Alternative, paired_t};

/// Pass rates of the cases before and after.
#[derive(Clone, Copy)]
enum World {
    /// Uniform between the first value and 1; all drop by the second value.
    Flaky(f64, f64),
    /// All 1; this many cases drop to 0.
    Stable(usize),
}

impl World {
    fn rates(self, cases: usize, random: &mut ChaCha8Rng) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Flaky(low, drop) => {
                let before: Vec<f64> = (0..cases).map(|_| random.random_range(low..1.0)).collect();
                let now = before.iter().map(|rate| rate - drop).collect();
                (before, now)
            }
            Self::Stable(broken) => {
                let now = (0..cases)
                    .map(|case| if case < broken { 0.0 } else { 1.0 })
                    .collect();
                (vec![1.0; cases], now)
            }
        }
    }
}

fn run(rates: &[f64], repeats: u32, random: &mut ChaCha8Rng) -> BenchmarkRun {
    let results = rates
        .iter()
        .enumerate()
        .flat_map(|(case, &rate)| (0..repeats).map(move |repeat| (case, rate, repeat)))
        .map(|(case, rate, repeat)| {
            let status = if random.random_bool(rate.clamp(0.0, 1.0)) {
                Status::Pass
            } else {
                Status::Fail
            };
            let mut result = BenchmarkResult::new(format!("case-{case:03}"), repeat, status);
            result.latency_ms = 400.0 * random.random_range(0.5..1.5_f64);
            result
        })
        .collect();
    BenchmarkRun {
        run_id: "run".to_owned(),
        suite_id: "suite".to_owned(),
        suite_hash: None,
        target: String::new(),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        completed_at: None,
        config_snapshot: BTreeMap::new(),
        results,
        summary: None,
    }
}

/// Pass rates of the cases, in order.
fn means(run: &BenchmarkRun, repeats: u32) -> Vec<f64> {
    run.results
        .chunks(repeats as usize)
        .map(|chunk| {
            chunk
                .iter()
                .filter(|result| result.status == Status::Pass)
                .count() as f64
                / f64::from(repeats)
        })
        .collect()
}

fn main() -> anyhow::Result<()> {
    let simulations: u64 = std::env::args().nth(1).map_or(Ok(1_000), |text| text.parse())?;
    println!("{simulations} simulations per row; shares of verdicts in percent\n");
    println!("| system | cases x repeats | regression | inconclusive | pass | literal rule | paired t |");
    println!("|---|---|---|---|---|---|---|");
    for (name, world, cases, repeats) in [
        ("unchanged, rates .7 to 1", World::Flaky(0.7, 0.0), 50, 1),
        ("unchanged, rates .7 to 1", World::Flaky(0.7, 0.0), 50, 5),
        ("unchanged, rates .7 to 1", World::Flaky(0.7, 0.0), 100, 1),
        ("unchanged, rates .7 to 1", World::Flaky(0.7, 0.0), 100, 5),
        ("unchanged, rates .8 to 1", World::Flaky(0.8, 0.0), 50, 5),
        ("unchanged, stable", World::Stable(0), 50, 5),
        (
            "90 % to 80 %, every case 10 points",
            World::Flaky(0.8, 0.1),
            50,
            5,
        ),
        (
            "85 % to 75 %, every case 10 points",
            World::Flaky(0.7, 0.1),
            50,
            1,
        ),
        (
            "85 % to 75 %, every case 10 points",
            World::Flaky(0.7, 0.1),
            50,
            5,
        ),
        (
            "85 % to 75 %, every case 10 points",
            World::Flaky(0.7, 0.1),
            100,
            5,
        ),
        (
            "85 % to 80 %, every case 5 points",
            World::Flaky(0.7, 0.05),
            50,
            5,
        ),
        (
            "85 % to 65 %, every case 20 points",
            World::Flaky(0.7, 0.2),
            50,
            1,
        ),
        (
            "85 % to 65 %, every case 20 points",
            World::Flaky(0.7, 0.2),
            50,
            5,
        ),
        ("stable, one of 50 cases broken", World::Stable(1), 50, 1),
        ("stable, one of 50 cases broken", World::Stable(1), 50, 5),
        ("stable, 5 of 50 cases broken", World::Stable(5), 50, 1),
        ("stable, 5 of 50 cases broken", World::Stable(5), 50, 5),
    ] {
        let mut verdicts = [0_u64; 3];
        let (mut literal, mut t_test) = (0_u64, 0_u64);
        for simulation in 0..simulations {
            let mut random = ChaCha8Rng::seed_from_u64(simulation);
            let (before, now) = world.rates(cases, &mut random);
            let (baseline, candidate) = (
                run(&before, repeats, &mut random),
                run(&now, repeats, &mut random),
            );
            let report = compare(&baseline, &candidate, &GatePolicy::default())?;
            verdicts[match report.verdict {
                GateVerdict::Regression => 0,
                GateVerdict::Inconclusive => 1,
                GateVerdict::Pass => 2,
            }] += 1;
            let flipped = baseline
                .results
                .iter()
                .zip(&candidate.results)
                .any(|(before, now)| before.status == Status::Pass && now.status == Status::Fail);
            literal += u64::from(flipped);
            let test = paired_t(
                &means(&candidate, repeats),
                &means(&baseline, repeats),
                Alternative::Less,
                0.95,
            );
            t_test += u64::from(test.is_ok_and(|test| test.p_value <= 0.05));
        }
        let share = |count: u64| 100.0 * count as f64 / simulations as f64;
        println!(
            "| {name} | {cases} x {repeats} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            share(verdicts[0]),
            share(verdicts[1]),
            share(verdicts[2]),
            share(literal),
            share(t_test)
        );
    }
    Ok(())
}
