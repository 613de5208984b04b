//! Statistical power of a design before it is run: "40 cases x 5 repeats can detect a difference of 9
//! points".

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::power::normal_detectable;
use crate::stats::{Alternative, StatsError};

use super::summary::CaseSummary;

/// Pass rate assumed when no noise was measured, with all variance due to chance.
const ASSUMED_PASS_RATE: f64 = 0.85;

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
    // The mean of R results of a case has variance noise / R in each of the two runs.
    let spread = (2.0 * noise / repeats as f64).sqrt();
    let detectable = normal_detectable(spread, cases as f64, power, alpha, Alternative::Greater)?;
    let detectable = (detectable <= 1.0).then_some(detectable);
    let smallest_case_p = inverse_central_binomial(repeats);
    let repeats_for_one_case = (1..=1_000)
        .find(|&repeats| inverse_central_binomial(repeats) < alpha)
        .unwrap_or(u64::MAX);
    let plural = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let shape = format!("{} x {}", plural(cases, "case"), plural(repeats, "repeat"));
    let mut text = match detectable {
        Some(difference) if noise > 0.0 => format!(
            "{shape} can detect a difference of {:.0} points (power {:.0} %)",
            (100.0 * difference).ceil(),
            100.0 * power
        ),
        Some(_) => format!("{shape} without noise can detect any difference"),
        None => format!("{shape} cannot detect any difference in the pass rate"),
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
        assert_eq!(
            once.text,
            "10 cases x 1 repeat can detect a difference of 40 points (power 80 %); detecting a single broken case requires 4 repeats"
        );
        assert!((found.smallest_case_p - 1.0 / 252.0).abs() < 1e-15);
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
