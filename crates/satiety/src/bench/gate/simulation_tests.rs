//! Simulated error rates of the gate: unchanged flaky systems must rarely raise an alarm, and real drops must
//! be detected. `cargo run --release --manifest-path studies/Cargo.toml --bin bench_gate` prints the full
//! table.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::tests::run_of;
use super::{GatePolicy, GateVerdict, compare};
use crate::bench::run::{BenchmarkResult, Status};

pub(super) fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

pub(super) fn results(rates: &[f64], repeats: u32, random: &mut ChaCha8Rng) -> Vec<BenchmarkResult> {
    rates
        .iter()
        .enumerate()
        .flat_map(|(case, &rate)| (0..repeats).map(move |repeat| (case, rate, repeat)))
        .map(|(case, rate, repeat)| {
            let status = if uniform(random) < rate {
                Status::Pass
            } else {
                Status::Fail
            };
            let mut result = BenchmarkResult::new(format!("case-{case:03}"), repeat, status);
            // Latencies vary by half of their value; they must not add false alarms.
            result.latency_ms = 400.0 * (0.5 + uniform(random));
            result
        })
        .collect()
}

/// Fraction of simulations with verdict regression. Baseline pass rates are uniform between .7 and 1.
fn alarms(cases: usize, repeats: u32, drop: f64, simulations: u64) -> u64 {
    (0..simulations)
        .filter(|&simulation| {
            let mut random = ChaCha8Rng::seed_from_u64(simulation);
            let rates: Vec<f64> = (0..cases).map(|_| 0.7 + 0.3 * uniform(&mut random)).collect();
            let now: Vec<f64> = rates.iter().map(|rate| (rate - drop).max(0.0)).collect();
            let baseline = run_of(results(&rates, repeats, &mut random));
            let candidate = run_of(results(&now, repeats, &mut random));
            compare(&baseline, &candidate, &GatePolicy::default())
                .unwrap()
                .verdict
                == GateVerdict::Regression
        })
        .count() as u64
}

/// 100 simulations each keep this fast. At a true rate of 5 %, more than 12 alarms have probability .001.
#[test]
fn an_unchanged_flaky_system_rarely_raises_an_alarm() {
    for (cases, repeats) in [(50, 1), (50, 5), (100, 1)] {
        let found = alarms(cases, repeats, 0.0, 100);
        assert!(found <= 12, "{cases} x {repeats}: {found} of 100");
    }
}

/// At a true rate of 90 %, fewer than 80 of 100 have probability .001.
#[test]
fn a_drop_of_ten_points_on_fifty_cases_of_five_repeats_is_detected() {
    let found = alarms(50, 5, 0.1, 100);
    assert!(found >= 80, "{found} of 100");
}
