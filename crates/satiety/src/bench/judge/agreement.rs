//! How far judges agree beyond chance: Krippendorff's alpha, for any number of judges and with missing answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bench::run::JudgeOpinion;

/// What a difference between two values means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgreementLevel {
    /// Same or not: pass and fail.
    Nominal,
    /// The squared distance: scores.
    Interval,
}

impl AgreementLevel {
    fn distance(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Nominal => f64::from(u8::from(left != right)),
            Self::Interval => (left - right) * (left - right),
        }
    }
}

/// Krippendorff's (2011) alpha: 1 is perfect agreement, 0 what chance gives, below it systematic disagreement. Each
/// unit has what the judges said about it; units with fewer than two answers say nothing. Absent when no unit is left
/// or all answers are the same, so that agreement cannot be told from having one answer only.
pub fn krippendorff_alpha(units: &[Vec<f64>], level: AgreementLevel) -> Option<f64> {
    let usable: Vec<&Vec<f64>> = units
        .iter()
        .filter(|unit| unit.len() >= 2 && unit.iter().all(|value| value.is_finite()))
        .collect();
    let all: Vec<f64> = usable.iter().flat_map(|unit| unit.iter().copied()).collect();
    let n = all.len() as f64;
    let pairs = |values: &[f64]| -> f64 {
        values
            .iter()
            .enumerate()
            .map(|(index, &left)| {
                values
                    .iter()
                    .skip(index + 1)
                    .map(|&right| 2.0 * level.distance(left, right))
                    .sum::<f64>()
            })
            .sum()
    };
    let observed: f64 = usable
        .iter()
        .map(|unit| pairs(unit) / (unit.len() as f64 - 1.0))
        .sum::<f64>()
        / n;
    let expected = all_pairs(&all, level) / (n * (n - 1.0));
    (expected > 0.0).then(|| 1.0 - observed / expected)
}

/// Alpha of the scores that several judges gave, result by result; absent where no result has two judges, or all gave
/// the same score throughout. A result with several rubrics has each judge once a rubric, in the order of the rubrics.
pub fn agreement_of<'a>(results: impl IntoIterator<Item = &'a [JudgeOpinion]>) -> Option<f64> {
    let mut units: Vec<Vec<f64>> = Vec::new();
    for opinions in results {
        let mut unit: Vec<&JudgeOpinion> = Vec::new();
        for opinion in opinions {
            // The same judge again: the next rubric.
            if unit.iter().any(|before| before.judge == opinion.judge) {
                units.push(unit.drain(..).map(|opinion| opinion.score).collect());
            }
            unit.push(opinion);
        }
        units.push(unit.into_iter().map(|opinion| opinion.score).collect());
    }
    krippendorff_alpha(&units, AgreementLevel::Interval)
}

/// The sum of distances over all ordered pairs, in one pass instead of a square of passes.
fn all_pairs(values: &[f64], level: AgreementLevel) -> f64 {
    let n = values.len() as f64;
    match level {
        AgreementLevel::Interval => {
            // Σ (a − b)² over ordered pairs is 2 n Σ (a − mean)².
            let centre = values.iter().sum::<f64>() / n.max(1.0);
            2.0 * n * values.iter().map(|value| (value - centre).powi(2)).sum::<f64>()
        }
        AgreementLevel::Nominal => {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let same: f64 = sorted
                .chunk_by(|a, b| a == b)
                .map(|group| (group.len() as f64).powi(2))
                .sum();
            n * n - same
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four
    /// observers, twelve units, missing answers. Published: nominal .743, interval .849.
    #[test]
    fn the_published_example() {
        let observers = [
            "1 2 3 3 2 1 4 1 2 . . .",
            "1 2 3 3 2 2 4 1 2 5 . 3",
            ". 3 3 3 2 3 4 2 2 5 1 .",
            "1 2 3 3 2 4 4 1 2 5 1 .",
        ]
        .map(|row| {
            row.split(' ')
                .map(|value| value.parse::<f64>().ok())
                .collect::<Vec<_>>()
        });
        let units: Vec<Vec<f64>> = (0..12)
            .map(|unit| observers.iter().filter_map(|row| row[unit]).collect())
            .collect();
        for (level, published) in [
            (AgreementLevel::Nominal, 0.743),
            (AgreementLevel::Interval, 0.849),
        ] {
            let alpha = krippendorff_alpha(&units, level).unwrap();
            assert!((alpha - published).abs() < 5e-4, "{level:?}: {alpha}");
        }
    }

    #[test]
    fn judges_of_results_with_several_rubrics() {
        let opinion = |judge: &str, score| JudgeOpinion {
            judge: judge.into(),
            score,
            reason: String::new(),
        };
        // Both agree within each rubric and not between them.
        let agreeing = [
            opinion("a", 1.0),
            opinion("b", 1.0),
            opinion("a", 0.0),
            opinion("b", 0.0),
        ];
        assert_eq!(agreement_of([&agreeing[..]]), Some(1.0));
        let at_odds = [
            opinion("a", 1.0),
            opinion("b", 0.0),
            opinion("a", 0.0),
            opinion("b", 1.0),
        ];
        assert!(agreement_of([&at_odds[..]]).unwrap() < 0.0);
        assert_eq!(agreement_of([&agreeing[..1], &agreeing[2..3]]), None);
    }

    #[test]
    fn the_ends_of_the_scale() {
        let nominal = |units: &[Vec<f64>]| krippendorff_alpha(units, AgreementLevel::Nominal);
        assert_eq!(nominal(&[vec![0.0, 0.0], vec![1.0, 1.0]]), Some(1.0));
        assert!(nominal(&[vec![0.0, 1.0], vec![1.0, 0.0]]).unwrap() < 0.0);
        assert_eq!(nominal(&[vec![1.0, 1.0], vec![1.0, 1.0]]), None);
        assert_eq!(nominal(&[vec![1.0], vec![0.0]]), None);
        assert_eq!(nominal(&[]), None);
    }
}
