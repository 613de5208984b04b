//! Score of an item: expected number of uses times the cost of losing it, per token. This is the density by
//! which GreedyDual-Size-Frequency ranks, with a learned expectation in place of the plain use count.
//!
//! The log-odds `z` give the probability that an item is needed at all, `p = σ(z)`. Uses that occur at random
//! with rate `λ` happen at least once with probability `p = 1 − exp(−λ)`, so the expected number of uses is
//! `λ = −ln(1 − p) = ln(1 + e^z)`: an item that is certainly needed may be needed many times. Every score
//! lists its terms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::features::{Features, Term};
use super::weights::{Objective, Weights};

/// Score of an item, with its terms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// Probability that the item will be needed again: 0 irrelevant, 1 critical.
    pub relevance_score: f64,
    /// Expected loss if the item is evicted: expected uses times the cost of each.
    pub expected_loss: f64,
    /// Expected loss per token freed; the item with the lowest density is evicted first.
    pub density: f64,
    /// Terms of the log-odds, the largest contribution first.
    pub terms: Vec<ScoreTerm>,
}

/// Term of the log-odds of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreTerm {
    /// Name of the term, such as `recency` or `zone memory`.
    pub name: String,
    /// Value of the feature.
    pub value: f64,
    /// Weight of the feature.
    pub weight: f64,
    /// Contribution to the log-odds: value times weight.
    pub contribution: f64,
}

/// Weights in the form that the inner loop needs.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    bias: f64,
    terms: [f64; Term::ALL.len()],
    /// Expected uses that correspond to `Weights::floor`, the rate of unneeded exclusions.
    floor: f64,
    pub(super) objective: Objective,
}

/// ln(1 + e^z), without overflow.
fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

impl Compiled {
    pub(super) fn new(weights: &Weights) -> Self {
        Self {
            bias: weights.term("bias"),
            terms: Term::ALL.map(|term| weights.term(term.name())),
            floor: -(-weights.floor).ln_1p(),
            objective: weights.objective,
        }
    }

    /// Returns the log-odds that an item is needed.
    pub(super) fn log_odds(&self, values: &[f64; Term::ALL.len()], place: Place) -> f64 {
        let terms: f64 = self
            .terms
            .iter()
            .zip(values)
            .map(|(weight, value)| weight * value)
            .sum();
        self.bias + terms + place.offset + place.ageing * values[Term::Recency as usize]
    }

    /// Returns the expected loss, in total and per token.
    pub(super) fn loss(&self, log_odds: f64, loss: f64, tokens: u64) -> (f64, f64) {
        let tokens = tokens.max(1) as f64;
        let uses = softplus(log_odds);
        // Uses below the floor carry no evidence; a hundredth of them preserves the order.
        let uses = (uses - self.floor).max(0.0) + 0.01 * uses;
        match self.objective {
            Objective::Rereads => (uses * loss, uses * loss / tokens),
            Objective::RereadTokens => (uses * loss * tokens, uses * loss),
        }
    }
}

/// Contribution of zone and kind to the log-odds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) offset: f64,
    pub(super) ageing: f64,
}

impl Place {
    pub(super) fn new(weights: &Weights, zone: &str, kind: &str) -> Self {
        let zone = weights.zone(zone);
        Self {
            offset: zone.offset + weights.kinds.get(kind).copied().unwrap_or(0.0),
            ageing: zone.ageing,
        }
    }
}

/// Returns the probability that an item with these log-odds is needed again.
pub(super) fn probability(weights: &Weights, log_odds: f64) -> f64 {
    let raw = 1.0 / (1.0 + (-log_odds).exp());
    match &weights.isotonic {
        Some(isotonic) => isotonic.predict(raw),
        None => raw,
    }
}

/// Scores features and lists the terms of the score.
pub fn score(weights: &Weights, features: &Features, loss: f64, tokens: u64) -> Score {
    let compiled = Compiled::new(weights);
    let place = Place::new(weights, &features.zone, &features.kind);
    let log_odds = compiled.log_odds(&features.values, place);
    let (expected_loss, density) = compiled.loss(log_odds, loss, tokens);
    let relevance_score = probability(weights, log_odds);
    let term = |name: String, value: f64, weight: f64| ScoreTerm {
        name,
        value,
        weight,
        contribution: value * weight,
    };
    let mut terms = vec![term("bias".to_owned(), 1.0, compiled.bias)];
    let own = Term::ALL.iter().zip(features.values).zip(compiled.terms);
    terms.extend(own.map(|((name, value), weight)| term(name.name().to_owned(), value, weight)));
    let zone = weights.zone(&features.zone);
    terms.push(term(format!("zone {}", features.zone), 1.0, zone.offset));
    let recency = features.values[Term::Recency as usize];
    terms.push(term(
        format!("ageing of zone {}", features.zone),
        recency,
        zone.ageing,
    ));
    let kind = weights.kinds.get(&features.kind).copied().unwrap_or(0.0);
    terms.push(term(format!("kind {}", features.kind), 1.0, kind));
    terms.retain(|term| term.contribution != 0.0);
    terms.sort_by(|a, b| b.contribution.abs().total_cmp(&a.contribution.abs()));
    Score {
        relevance_score,
        expected_loss,
        density,
        terms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(text: &str) -> Weights {
        Weights::from_toml(&format!("version = 't'\n{text}")).unwrap()
    }

    fn features(recency: f64) -> Features {
        let mut values = [0.0; Term::ALL.len()];
        values[Term::Recency as usize] = recency;
        Features {
            zone: "memory".into(),
            kind: "fact".into(),
            values,
        }
    }

    #[test]
    fn the_terms_add_up_to_the_log_odds() {
        let weights = weights(
            "[terms]\nbias = 0.5\nrecency = -1.0\n[zones]\nmemory = { offset = 0.25, ageing = 0.5 }\n[kinds]\nfact = 1.0",
        );
        let score = score(&weights, &features(2.0), 3.0, 10);
        // 0.5 − 2 + 0.25 + 1 + 1 = 0.75
        let p = 1.0 / (1.0 + (-0.75_f64).exp());
        assert!((score.relevance_score - p).abs() < 1e-12);
        // ln(1 + e^0.75), plus a hundredth of it.
        let uses = 1.01 * 0.75_f64.exp().ln_1p();
        assert!((score.expected_loss - 3.0 * uses).abs() < 1e-12);
        assert!((score.density - 0.3 * uses).abs() < 1e-12);
        let sum: f64 = score.terms.iter().map(|term| term.contribution).sum();
        assert!((sum - 0.75).abs() < 1e-12);
        assert_eq!(score.terms[0].name, "recency");
    }

    #[test]
    fn the_objective_says_whether_size_matters() {
        let by_tokens = weights("objective = 'reread_tokens'\n[terms]\nrecency = -1.0");
        let small = score(&by_tokens, &features(0.0), 1.0, 10);
        let large = score(&by_tokens, &features(0.0), 1.0, 1000);
        assert!((small.density - large.density).abs() < 1e-12);
        assert!((large.expected_loss - 1010.0 * 2.0_f64.ln()).abs() < 1e-9);
        let by_count = weights("[terms]\nrecency = -1.0");
        assert!(
            score(&by_count, &features(0.0), 1.0, 10).density
                > score(&by_count, &features(0.0), 1.0, 11).density
        );
    }

    #[test]
    fn uses_below_the_floor_are_worth_little() {
        let plain = weights("[terms]\nrecency = -1.0");
        let noisy = weights("floor = 0.2\n[terms]\nrecency = -1.0");
        let worth =
            |weights: &Weights, recency: f64| score(weights, &features(recency), 1.0, 1).expected_loss;
        // At log-odds of -3 the plain scorer expects 0.05 uses, and the noisy one a hundredth of that.
        assert!(worth(&noisy, 3.0) < worth(&plain, 3.0) / 50.0);
        assert!(worth(&noisy, 0.0) > worth(&plain, 0.0) / 2.0);
        assert!(worth(&noisy, 3.0) > worth(&noisy, 4.0), "the order stays");
    }

    #[test]
    fn the_isotonic_mapping_changes_the_score_and_not_the_order() {
        let mapped = weights("[terms]\nrecency = -1.0\n[isotonic]\nx = [0.0, 1.0]\ny = [0.2, 0.4]");
        let found = score(&mapped, &features(0.0), 1.0, 1);
        assert!((found.relevance_score - 0.3).abs() < 1e-12);
        assert!((found.density - 1.01 * 2.0_f64.ln()).abs() < 1e-12);
    }
}
