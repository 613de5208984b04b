//! Statistical power of a design before it is run: "40 cases x 5 repeats can detect a difference of 9
//! points".
//!
//! The gate's test is exact, so its p-values are coarse in small designs: one repeat of 20 stable cases can show
//! that five of them broke, not four. Such designs are computed from the p-values that they can attain, larger ones
//! from the normal approximation.

use std::fmt::Write;

use rand_chacha::rand_core::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::power::normal_detectable;
use crate::stats::random::stream;
use crate::stats::{Alternative, StatsError};

use super::gate::stratified::{Stratum, suite_p_value};
use super::summary::CaseSummary;

/// Pass rate assumed when no noise was measured, with all variance due to chance.
const ASSUMED_PASS_RATE: f64 = 0.85;
/// Number of results of a run up to which its power is simulated.
const MAX_SIMULATED: u64 = 60;
const SIMULATIONS: u32 = 300;
const SEED: u64 = 16;

/// Size, noise and error level of a planned run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// Number of cases in the suite.
    pub cases: u64,
    /// Number of repeats per case, in both runs.
    pub repeats: u64,
    /// Mean over cases of `p (1 − p)`, the variance of one result; see [`estimate_noise`].
    pub noise: f64,
    /// False-alarm level between 0 and 1.
    pub alpha: f64,
    /// Required probability of detecting a difference.
    pub power: f64,
}

/// Smallest effects that a design can detect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerStatement {
    /// Design that the statement is about.
    pub design: Design,
    /// Smallest change of the pass rate that is detected with the required power, at most 1; absent when not
    /// even a change from 100 % to 0 % is.
    pub detectable: Option<f64>,
    /// Smallest p-value that a single case can reach when it stops passing.
    pub smallest_case_p: f64,
    /// Minimum number of repeats to detect one broken case in an otherwise stable suite.
    pub repeats_for_one_case: u64,
    /// Statement as a human-readable sentence.
    pub text: String,
}

impl Design {
    /// Creates a design with unknown noise, level 5 % and power 80 %.
    pub fn new(cases: u64, repeats: u64) -> Self {
        Self {
            cases,
            repeats,
            noise: ASSUMED_PASS_RATE * (1.0 - ASSUMED_PASS_RATE),
            alpha: 0.05,
            power: 0.8,
        }
    }
}

/// Noise of measured cases: the unbiased estimate of the mean of `p (1 − p)` over cases with repeats. Without
/// repeats, flaky cases cannot be distinguished from hard ones, and the variance of all results is the upper
/// bound.
pub fn estimate_noise(cases: &[CaseSummary]) -> Option<f64> {
    let repeated: Vec<f64> = cases
        .iter()
        .filter(|case| case.decided >= 2)
        .map(|case| {
            let (passes, tries) = (case.passes as f64, case.decided as f64);
            passes * (tries - passes) / (tries * (tries - 1.0))
        })
        .collect();
    if let Ok(noise) = crate::stats::mean(&repeated) {
        return Some(noise);
    }
    let rates: Vec<f64> = cases.iter().filter_map(|case| case.pass_rate).collect();
    crate::stats::mean(&rates).ok().map(|rate| rate * (1.0 - rate))
}

/// Computes what a design can detect.
pub fn statement(design: Design) -> Result<PowerStatement, StatsError> {
    let Design {
        cases,
        repeats,
        noise,
        alpha,
        power,
    } = design;
    if !(0.0..=0.25).contains(&noise) {
        return Err(StatsError::OutOfRange {
            what: "noise",
            value: noise,
            range: "[0, 0.25]",
        });
    }
    for (what, value) in [("cases", cases), ("repeats", repeats)] {
        if value == 0 {
            return Err(StatsError::OutOfRange {
                what,
                value: 0.0,
                range: "at least 1",
            });
        }
    }
    if !(alpha > 0.0 && alpha < 1.0) {
        return Err(StatsError::OutOfRange {
            what: "alpha",
            value: alpha,
            range: "(0, 1)",
        });
    }
    let smallest_case_p = inverse_central_binomial(repeats);
    // Broken cases multiply their p-values, as long as no other case varies.
    let broken = (1..=cases).find(|&broken| smallest_case_p.powf(broken as f64) <= alpha);
    let detectable = if noise == 0.0 {
        broken.map(|broken| broken as f64 / cases as f64)
    } else if cases.saturating_mul(repeats) <= MAX_SIMULATED {
        simulated_detectable(design)
    } else {
        // The mean of R results of a case has variance noise / R in each of the two runs.
        let spread = (2.0 * noise / repeats as f64).sqrt();
        let detectable = normal_detectable(spread, cases as f64, power, alpha, Alternative::Greater)?;
        (detectable <= 1.0).then_some(detectable)
    };
    let repeats_for_one_case = (1..=1_000)
        .find(|&repeats| inverse_central_binomial(repeats) < alpha)
        .unwrap_or(u64::MAX);
    let plural = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let shape = format!("{} x {}", plural(cases, "case"), plural(repeats, "repeat"));
    let mut text = match (detectable, broken) {
        (Some(difference), _) if noise > 0.0 => format!(
            "{shape} can detect a difference of {:.0} points (power {:.0} %)",
            (100.0 * difference).ceil(),
            100.0 * power
        ),
        (Some(difference), Some(broken)) => format!(
            "{shape} without noise can detect {} ({:.0} points)",
            plural(broken, "broken case"),
            100.0 * difference
        ),
        _ => format!("{shape} cannot detect any difference in the pass rate"),
    };
    if smallest_case_p >= alpha {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "; detecting a single broken case requires {repeats_for_one_case} repeats"
        );
    }
    Ok(PowerStatement {
        design,
        detectable,
        smallest_case_p,
        repeats_for_one_case,
        text,
    })
}

/// Smallest change of the pass rate, in whole points, that the exact test detects with the required power. All
/// cases have the rate that makes the noise; the same random numbers are used for every change.
fn simulated_detectable(design: Design) -> Option<f64> {
    let rate = f64::midpoint(1.0, (1.0 - 4.0 * design.noise).max(0.0).sqrt());
    let detects = |points: u32| {
        let now = (rate - f64::from(points) / 100.0).max(0.0);
        let mut random = stream(SEED, 0);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut passes = |rate: f64| (0..design.repeats).filter(|_| uniform() < rate).count() as u64;
        let found = (0..SIMULATIONS)
            .filter(|_| {
                let strata: Vec<Stratum> = (0..design.cases)
                    .map(|_| Stratum {
                        baseline_passes: passes(rate),
                        baseline_tries: design.repeats,
                        candidate_passes: passes(now),
                        candidate_tries: design.repeats,
                    })
                    .collect();
                suite_p_value(&strata) <= design.alpha
            })
            .count();
        found as f64 >= design.power * f64::from(SIMULATIONS)
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate from 0.5 to 1"
    )]
    let most = (100.0 * rate).floor() as u32;
    if !detects(most) {
        return None;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if detects(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(f64::from(high) / 100.0)
}

/// One over the number of ways to choose `n` of `2n`: the probability that all passes fall to one run.
fn inverse_central_binomial(n: u64) -> f64 {
    (1..=n.min(600)).fold(1.0, |p, k| p * k as f64 / (n + k) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sqrt(2 · .1275 / 5) · (1.644854 + 0.841621) / sqrt(40) = 0.08878
    #[test]
    fn forty_cases_of_five_repeats_detect_nine_points() {
        let found = statement(Design::new(40, 5)).unwrap();
        assert!((found.detectable.unwrap() - 0.08878).abs() < 1e-5);
        assert_eq!(
            found.text,
            "40 cases x 5 repeats can detect a difference of 9 points (power 80 %)"
        );
        let once = statement(Design::new(10, 1)).unwrap();
        // The sign test of ten pairs has power .793 at 64 points and .809 at 65, by enumeration.
        assert!((once.detectable.unwrap() - 0.65).abs() <= 0.02);
        assert!(
            once.text
                .ends_with(" points (power 80 %); detecting a single broken case requires 4 repeats")
        );
        assert!((found.smallest_case_p - 1.0 / 252.0).abs() < 1e-15);
    }

    /// The sign test needs five losses without a win: 1/32 is the first probability below 5 %.
    #[test]
    fn stable_suites_are_limited_by_the_attainable_p_values() {
        let design = |cases, repeats| Design {
            noise: 0.0,
            ..Design::new(cases, repeats)
        };
        let found = statement(design(20, 1)).unwrap();
        assert_eq!(found.detectable, Some(0.25));
        assert_eq!(
            found.text,
            "20 cases x 1 repeat without noise can detect 5 broken cases (25 points); detecting a single broken case \
             requires 4 repeats"
        );
        assert_eq!(statement(design(20, 4)).unwrap().detectable, Some(0.05));
        assert_eq!(statement(design(4, 1)).unwrap().detectable, None);
    }

    #[test]
    fn noise_is_estimated_from_repeats() {
        let case = |passes, decided| CaseSummary {
            case_id: String::new(),
            pass_rate: Some(passes as f64 / decided as f64),
            passes,
            decided,
            repeats: decided,
            mean_score: None,
            mean_latency_ms: None,
        };
        // 5/5 has none; 3/5 has 3 · 2 / (5 · 4) = .3.
        assert!((estimate_noise(&[case(5, 5), case(3, 5)]).unwrap() - 0.15).abs() < 1e-12);
        assert!((estimate_noise(&[case(1, 1), case(0, 1)]).unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(estimate_noise(&[]), None);
    }
}
