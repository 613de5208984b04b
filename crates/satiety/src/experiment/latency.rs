//! Paired comparison of the latency of two pipelines on the same queries.
//!
//! On a busy machine a 95th percentile is decided by a few disturbed measurements. Every query is therefore
//! measured several times with both pipelines in turn. A query counts as slower only if the treatment exceeds
//! the limit in every repetition: without a true slowdown that happens with probability 2⁻ʳ at most, whatever
//! the noise, as long as it affects both pipelines alike.

use serde::{Deserialize, Serialize};

use schemars::JsonSchema;

use super::GraduationLimits;
use crate::stats::distribution::binomial_sf_inclusive;
use crate::stats::{Alternative, quantile, sign_test};

/// Comparison of the latency of two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyComparison {
    /// Number of queries measured with both pipelines.
    pub queries: usize,
    /// Number of repetitions of each query.
    pub repetitions: usize,
    /// 95th percentile of the control in milliseconds, over the fastest repetition of each query.
    pub control_p95_ms: f64,
    /// 95th percentile of the treatment in milliseconds, over the fastest repetition of each query.
    pub treatment_p95_ms: f64,
    /// Median over the queries of the median relative increase, 0 for none.
    pub median_increase: f64,
    /// Number of queries that exceed the limit in every repetition.
    pub slower_queries: usize,
    /// P-value of so many slower queries if the treatment is within the limit.
    pub slower_p_value: f64,
    /// P-value of so many queries within the limit if the treatment exceeds it.
    pub within_p_value: f64,
}

/// Compares measurements in milliseconds: a row per query, a value per repetition, in the same order for both
/// pipelines. Returns `None` without a complete pair.
pub fn compare_latency(
    control: &[Vec<f64>],
    treatment: &[Vec<f64>],
    limits: &GraduationLimits,
) -> Option<LatencyComparison> {
    let exceeds = |before: f64, after: f64| {
        after > before * (1.0 + limits.latency_increase) && after - before >= limits.latency_floor_ms
    };
    let pairs: Vec<Vec<(f64, f64)>> = control
        .iter()
        .zip(treatment)
        .map(|(before, after)| before.iter().copied().zip(after.iter().copied()).collect())
        .filter(|pairs: &Vec<_>| !pairs.is_empty())
        .collect();
    let repetitions = pairs.iter().map(Vec::len).min()?;
    let slower = |pairs: &&Vec<(f64, f64)>| pairs.iter().all(|(before, after)| exceeds(*before, *after));
    let slower_queries = pairs.iter().filter(slower).count();
    let mut increases = Vec::with_capacity(pairs.len());
    let mut beyond = 0;
    for pairs in &pairs {
        let changes: Vec<f64> = pairs
            .iter()
            .map(|(before, after)| after.max(1e-6) / before.max(1e-6) - 1.0)
            .collect();
        increases.push(quantile(&changes, 0.5).ok()?);
        let often = pairs
            .iter()
            .filter(|(before, after)| exceeds(*before, *after))
            .count();
        beyond += u64::from(2 * often > pairs.len());
    }
    let fastest = |times: &[Vec<f64>]| -> Vec<f64> {
        let rows = times.iter().filter(|row| !row.is_empty());
        rows.map(|row| row.iter().copied().fold(f64::INFINITY, f64::min))
            .collect()
    };
    let chance = 0.5_f64.powi(i32::try_from(repetitions).unwrap_or(i32::MAX));
    Some(LatencyComparison {
        queries: pairs.len(),
        repetitions,
        control_p95_ms: quantile(&fastest(control), 0.95).ok()?,
        treatment_p95_ms: quantile(&fastest(treatment), 0.95).ok()?,
        median_increase: quantile(&increases, 0.5).ok()?,
        slower_queries,
        slower_p_value: binomial_sf_inclusive(slower_queries as u64, pairs.len() as u64, chance),
        within_p_value: sign_test(pairs.len() as u64 - beyond, beyond, Alternative::Greater),
    })
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::super::graduation::check_latency;
    use super::*;
    use crate::experiment::Check;

    struct Machine(ChaCha8Rng);

    impl Machine {
        fn chance(&mut self) -> f64 {
            (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// A measurement on a busy machine: noise of a few percent, and in a third of the cases another process runs.
        fn measure(&mut self, truth: f64) -> f64 {
            let noise = 1.0 + 0.1 * self.chance();
            let busy = if self.chance() < 0.33 {
                1.0 + 4.0 * self.chance()
            } else {
                1.0
            };
            truth * noise * busy
        }

        /// Measurements of both pipelines on 40 queries in five repetitions.
        fn compare(&mut self, slowdown: impl Fn(usize) -> f64) -> LatencyComparison {
            let mut times = [Vec::new(), Vec::new()];
            for query in 0..40 {
                let base = 4.0 + 8.0 * self.chance();
                for (arm, rows) in times.iter_mut().enumerate() {
                    let truth = if arm == 1 { base * slowdown(query) } else { base };
                    rows.push((0..5).map(|_| self.measure(truth)).collect());
                }
            }
            let [control, treatment] = &times;
            compare_latency(control, treatment, &GraduationLimits::default()).unwrap()
        }

        fn rates(&mut self, slowdown: impl Fn(usize) -> f64) -> [f64; 3] {
            let mut counts = [0.0; 3];
            for _ in 0..2000 {
                let check = check_latency(&self.compare(&slowdown), &GraduationLimits::default()).0;
                counts[match check {
                    Check::Pass => 0,
                    Check::Fail => 1,
                    Check::Undecided => 2,
                }] += 1.0 / 2000.0;
            }
            counts
        }
    }

    /// `cargo test -p satiety --lib experiment::latency -- --nocapture` prints the rates.
    #[test]
    fn equal_pipelines_pass_and_slow_ones_fail_on_a_busy_machine() {
        let mut machine = Machine(ChaCha8Rng::seed_from_u64(18));
        println!("| treatment | pass | fail | undecided |\n|---|---|---|---|");
        let mut row = |name: &str, slowdown: &dyn Fn(usize) -> f64| {
            let rates = machine.rates(slowdown);
            println!("| {name} | {:.3} | {:.3} | {:.3} |", rates[0], rates[1], rates[2]);
            rates
        };
        let [pass, fail, _] = row("equal", &|_| 1.0);
        assert!(fail < 0.01 && pass > 0.95, "{pass} {fail}");
        let [pass, fail, _] = row("10 % slower", &|_| 1.1);
        assert!(fail < 0.01 && pass > 0.9, "{pass} {fail}");
        let [pass, fail, _] = row("twice as slow", &|_| 2.0);
        assert!(fail > 0.95 && pass < 0.01, "{pass} {fail}");
        let [pass, fail, _] = row("every fifth query 20 times as slow", &|query| {
            if query % 5 == 0 { 20.0 } else { 1.0 }
        });
        assert!(fail > 0.95 && pass < 0.01, "{pass} {fail}");
    }

    #[test]
    fn nothing_is_concluded_without_pairs() {
        assert_eq!(compare_latency(&[], &[], &GraduationLimits::default()), None);
        assert_eq!(
            compare_latency(&[vec![]], &[vec![]], &GraduationLimits::default()),
            None
        );
    }
}
