//! Inter-judge agreement beyond chance.

use crate::bench::run::JudgeOpinion;
use crate::stats::{AgreementLevel, krippendorff_alpha};

/// Krippendorff's alpha of the scores that several judges gave per result. Returns `None` when no result has
/// two judges, or when all scores are equal. A result with several rubrics lists each judge once per rubric,
/// in the order of the rubrics.
pub(crate) fn agreement_of<'a>(results: impl IntoIterator<Item = &'a [JudgeOpinion]>) -> Option<f64> {
    let mut units: Vec<Vec<f64>> = Vec::new();
    for opinions in results {
        let mut unit: Vec<&JudgeOpinion> = Vec::new();
        for opinion in opinions {
            // The same judge again belongs to the next rubric.
            if unit.iter().any(|before| before.judge == opinion.judge) {
                units.push(unit.drain(..).map(|opinion| opinion.score).collect());
            }
            unit.push(opinion);
        }
        units.push(unit.into_iter().map(|opinion| opinion.score).collect());
    }
    krippendorff_alpha(&units, AgreementLevel::Interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_of_results_with_several_rubrics() {
        let opinion = |judge: &str, score| JudgeOpinion {
            judge: judge.into(),
            score,
            reason: String::new(),
            criteria: Vec::new(),
        };
        // The judges agree within each rubric but not across rubrics.
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
}
