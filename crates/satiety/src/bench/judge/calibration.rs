//! Calibration of a judge against human labels of the same answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Interval, wilson};

/// Agreement of a judge with human labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Answers that both the judge and people pass.
    pub both_pass: u64,
    /// Answers that the judge passes and people fail; a gate would let these through.
    pub only_judge_passes: u64,
    /// Answers that the judge fails and people pass.
    pub only_human_passes: u64,
    /// Answers that both the judge and people fail.
    pub both_fail: u64,
    /// Fraction of answers on which they agree.
    pub agreement: f64,
    /// 95 % confidence interval of the agreement (Wilson).
    pub agreement_interval: Interval,
    /// Cohen's kappa, the agreement beyond chance; absent when either side gave only one kind of label.
    pub kappa: Option<f64>,
    /// Fraction of human passes that the judge passes.
    pub sensitivity: Option<f64>,
    /// Fraction of human failures that the judge fails.
    pub specificity: Option<f64>,
}

/// Compares `(judge passes, human passes)` pairs; returns `None` for an empty list.
pub fn calibrate(labels: &[(bool, bool)]) -> Option<Calibration> {
    let count =
        |judge: bool, human: bool| labels.iter().filter(|&&label| label == (judge, human)).count() as u64;
    let (both_pass, only_judge_passes) = (count(true, true), count(true, false));
    let (only_human_passes, both_fail) = (count(false, true), count(false, false));
    let n = labels.len() as u64;
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let agreement = share(both_pass + both_fail, n)?;
    let judge = share(both_pass + only_judge_passes, n)?;
    let human = share(both_pass + only_human_passes, n)?;
    let by_chance = judge * human + (1.0 - judge) * (1.0 - human);
    let varies = |rate: f64| rate > 0.0 && rate < 1.0;
    Some(Calibration {
        both_pass,
        only_judge_passes,
        only_human_passes,
        both_fail,
        agreement,
        agreement_interval: wilson(both_pass + both_fail, n, 0.95).ok()?,
        kappa: (varies(judge) && varies(human)).then(|| (agreement - by_chance) / (1.0 - by_chance)),
        sensitivity: share(both_pass, both_pass + only_human_passes),
        specificity: share(both_fail, both_fail + only_judge_passes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook table 20, 5, 10, 15: agreement .7, by chance .5, kappa .4.
    #[test]
    fn kappa_of_the_textbook_table() {
        let mut labels = vec![(true, true); 20];
        labels.extend(vec![(true, false); 5]);
        labels.extend(vec![(false, true); 10]);
        labels.extend(vec![(false, false); 15]);
        let found = calibrate(&labels).unwrap();
        assert!((found.agreement - 0.7).abs() < 1e-12);
        assert!((found.kappa.unwrap() - 0.4).abs() < 1e-12);
        assert!((found.sensitivity.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert!((found.specificity.unwrap() - 0.75).abs() < 1e-12);
        assert!(found.agreement_interval.contains(0.7));
        assert_eq!(calibrate(&[]), None);
        assert_eq!(calibrate(&[(true, true); 3]).unwrap().kappa, None);
    }
}
