//! Novelty assessors: score how new results are, and measure how far the assessors agree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claims::Judged;
use super::literal;
use super::settings::{GateSettings, StopThreshold};

/// Method that scores how new results are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Assessor {
    /// Share of words that the summary does not contain, exactly as in the specification.
    Seed,
    /// Share of claims that no accepted claim matches by words.
    Claims,
    /// Embedding distance to the nearest accepted claim; needs vectors.
    Semantic,
    /// Score given by a chat model.
    Model,
    /// Claims and embeddings; a model scores only when those are near the threshold or disagree.
    Auto,
}

impl Assessor {
    /// All assessors, in order of cost.
    pub const ALL: [Self; 5] = [Self::Seed, Self::Claims, Self::Semantic, Self::Model, Self::Auto];

    /// Name as used in settings and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Claims => "claims",
            Self::Semantic => "semantic",
            Self::Model => "model",
            Self::Auto => "auto",
        }
    }

    /// Whether this assessor uses vectors of a sentence model.
    pub fn uses_vectors(self) -> bool {
        matches!(self, Self::Semantic | Self::Auto)
    }
}

/// Scores of one round by every assessor. A score that could not be computed is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Novelty {
    /// Share of new words, as the specification counts them.
    pub seed: Option<f64>,
    /// Share of new claims, from 0 to 1.
    pub claims: Option<f64>,
    /// Mean embedding distance to accepted claims, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<f64>,
    /// Score of the chat model, scaled to 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<f64>,
    /// Whether the model's answer contained no number, so that the neutral score 5 was used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub model_unparsable: bool,
    /// New and relevant content relative to the best accepted round: 1 for the first round, 0 when nothing
    /// new is relevant to the task.
    #[serde(default, rename = "yield", skip_serializing_if = "Option::is_none")]
    pub task_yield: Option<f64>,
    /// Number of distinct claims in the results.
    pub claims_seen: usize,
    /// Number of distinct claims that are new.
    pub claims_new: usize,
}

impl Novelty {
    /// Builds the scores from judged claims and the specification's share of new words.
    pub fn of(judged: &Judged, seed: f64) -> Self {
        Self {
            seed: Some(seed),
            claims: judged.share_new(),
            semantic: judged.mean_distance(),
            claims_seen: judged.standing.len(),
            claims_new: judged
                .standing
                .iter()
                .filter(|found| **found == super::claims::Standing::New)
                .count(),
            ..Self::default()
        }
    }

    /// Score of an assessor; falls back to the next cheaper assessor when the score is absent.
    pub fn by(&self, assessor: Assessor) -> Option<f64> {
        match assessor {
            Assessor::Seed => self.seed,
            Assessor::Claims => self.claims,
            Assessor::Semantic => self.semantic.or(self.claims),
            Assessor::Model => self.model.or_else(|| self.by(Assessor::Auto)),
            Assessor::Auto => self.model.or(match (self.claims, self.semantic) {
                (Some(claims), Some(semantic)) => Some(f64::midpoint(claims, semantic)),
                (one, other) => one.or(other),
            }),
        }
    }

    /// Whether a model has to be asked before deciding.
    pub fn needs_model(&self, settings: &GateSettings) -> bool {
        if self.model.is_some() || self.claims_seen == 0 {
            return false;
        }
        match settings.assessor {
            Assessor::Model => true,
            Assessor::Auto => {
                let below = |share: f64| settings.threshold.is_above(share);
                let near = self
                    .by(Assessor::Auto)
                    .is_some_and(|share| (share - settings.threshold.as_share()).abs() <= settings.grey_zone);
                let split =
                    matches!((self.claims, self.semantic), (Some(a), Some(b)) if below(a) != below(b));
                near || split
            }
            _ => false,
        }
    }

    /// Adds a model's score from 0 to 10.
    pub(crate) fn with_model(mut self, score: ModelScore) -> Self {
        self.model = Some(f64::from(score.score) / 10.0);
        self.model_unparsable = score.unparsable;
        self
    }
}

/// Score parsed from a model's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelScore {
    /// Score from 0 to 10.
    pub score: u8,
    /// Whether the answer contained no number, so that the neutral score 5 was used.
    pub unparsable: bool,
}

/// Parses the first number in a model's answer, with its sign, clamped to 0..=10; 5 when there is no number.
///
/// ```
/// use satiety::research::assess::model_score;
/// assert_eq!(model_score("Score: 7/10").score, 7);
/// assert_eq!(model_score("100").score, 10);
/// assert_eq!(model_score("-3").score, 0);
/// assert!(model_score("quite new").unparsable);
/// ```
pub fn model_score(answer: &str) -> ModelScore {
    let Some(start) = answer.find(|c: char| c.is_ascii_digit()) else {
        return ModelScore {
            score: 5,
            unparsable: true,
        };
    };
    let digits: String = answer[start..].chars().take_while(char::is_ascii_digit).collect();
    let before = answer[..start].chars().next_back();
    let negative = matches!(before, Some('-' | '\u{2212}'))
        // A dash between words is not a sign.
        && !answer[..start].chars().rev().nth(1).is_some_and(char::is_alphanumeric);
    // A number that overflows is above ten.
    let value = digits.parse::<u64>().unwrap_or(u64::MAX).min(10);
    ModelScore {
        score: if negative {
            0
        } else {
            u8::try_from(value).unwrap_or(10)
        },
        unparsable: false,
    }
}

/// Agreement of two assessors over the rounds that both scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AssessorAgreement")]
pub struct Agreement {
    /// First assessor of the pair.
    pub a: Assessor,
    /// Second assessor of the pair.
    pub b: Assessor,
    /// Number of rounds that both scored.
    pub rounds: usize,
    /// Number of rounds in which both scores were on the same side of the threshold.
    pub same_side: usize,
    /// Mean absolute difference of their shares.
    pub mean_difference: f64,
}

/// Agreement of every pair of assessors that scored at least one round together.
pub fn agreement(rounds: &[Novelty], threshold: StopThreshold) -> Vec<Agreement> {
    let own = |novelty: &Novelty, assessor| match assessor {
        Assessor::Seed => novelty.seed,
        Assessor::Claims => novelty.claims,
        Assessor::Semantic => novelty.semantic,
        Assessor::Model => novelty.model,
        Assessor::Auto => None,
    };
    let mut found = Vec::new();
    for (at, a) in Assessor::ALL.into_iter().enumerate() {
        for b in Assessor::ALL.into_iter().skip(at + 1) {
            let pairs: Vec<(f64, f64)> = rounds
                .iter()
                .filter_map(|novelty| Some((own(novelty, a)?, own(novelty, b)?)))
                .collect();
            if pairs.is_empty() {
                continue;
            }
            found.push(Agreement {
                a,
                b,
                rounds: pairs.len(),
                same_side: pairs
                    .iter()
                    .filter(|(a, b)| threshold.is_above(*a) == threshold.is_above(*b))
                    .count(),
                mean_difference: pairs.iter().map(|(a, b)| (a - b).abs()).sum::<f64>() / pairs.len() as f64,
            });
        }
    }
    found
}

/// Converts a share to the specification's score from 0 to 10.
pub fn score(share: f64) -> u8 {
    literal::score_of(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_answers_are_clamped_or_neutral() {
        for (answer, score, unparsable) in [
            ("7", 7, false),
            (" 10 ", 10, false),
            ("100", 10, false),
            ("-3", 0, false),
            ("\u{2212}4", 0, false),
            ("score-8", 8, false),
            ("0", 0, false),
            ("3.9", 3, false),
            ("99999999999999999999999", 10, false),
            ("", 5, true),
            ("none", 5, true),
        ] {
            assert_eq!(model_score(answer), ModelScore { score, unparsable }, "{answer}");
        }
    }

    #[test]
    fn auto_asks_a_model_only_when_uncertain() {
        let settings = GateSettings {
            assessor: Assessor::Auto,
            ..GateSettings::default()
        };
        let novelty = |claims, semantic| Novelty {
            claims: Some(claims),
            semantic,
            claims_seen: 9,
            ..Novelty::default()
        };
        assert!(!novelty(0.9, Some(0.8)).needs_model(&settings));
        assert!(!novelty(0.05, Some(0.0)).needs_model(&settings));
        assert!(novelty(0.35, None).needs_model(&settings), "near the threshold");
        assert!(
            novelty(0.9, Some(0.1)).needs_model(&settings),
            "on both sides of it"
        );
        let asked = novelty(0.35, None).with_model(model_score("1"));
        assert!(!asked.needs_model(&settings));
        assert!((asked.by(Assessor::Auto).unwrap() - 0.1).abs() < 1e-12);
        assert!(
            !novelty(0.3, None).needs_model(&GateSettings::default()),
            "claims never ask"
        );
    }

    #[test]
    fn agreement_counts_sides_and_distances() {
        let rounds: Vec<Novelty> = [(0.9, 0.8), (0.5, 0.1)]
            .into_iter()
            .map(|(seed, claims)| Novelty {
                seed: Some(seed),
                claims: Some(claims),
                ..Novelty::default()
            })
            .collect();
        let found = agreement(&rounds, StopThreshold::Score(3));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].a, found[0].b), (Assessor::Seed, Assessor::Claims));
        assert_eq!((found[0].rounds, found[0].same_side), (2, 1));
        assert!((found[0].mean_difference - 0.25).abs() < 1e-12);
    }
}
