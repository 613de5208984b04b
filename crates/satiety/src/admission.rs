//! Admission control: estimates the cost of a request and enforces a budget per caller.
//!
//! The cost is estimated from sizes alone, in one pass over the request, before anything is computed. One
//! unit is about one millisecond of one laptop core. An estimate may be inaccurate, but it must scale like
//! the work does, quadratically where the work is quadratic.

use crate::dialogue::Round;

/// Bytes of text read and split per unit of cost.
const BYTES_PER_UNIT: u64 = 64 << 10;
/// Tokens that a local sentence model embeds per unit of cost, with instructions for products of small integers.
const TOKENS_PER_UNIT: u64 = 10;
/// Pairs of vectors compared per unit of cost.
const VECTOR_PAIRS_PER_UNIT: u64 = 500;
/// Pairs of texts compared by words per unit of cost. The index prunes most pairs.
const WORD_PAIRS_PER_UNIT: u64 = 5_000;
/// Bytes of response written per unit of cost.
const OUTPUT_BYTES_PER_UNIT: u64 = 16 << 10;
/// Steps of a numerical method (one resample of one query, for example) per unit of cost.
const STEPS_PER_UNIT: u64 = 20_000;
/// Models truncate each text to this many tokens.
const MOST_TOKENS_OF_A_TEXT: u64 = 256;
/// Lower bound of bytes per token: unknown words split into subwords of two or three letters.
const BYTES_PER_TOKEN: u64 = 3;

/// Sizes from which the cost of a request is estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workload {
    /// Bytes of text to read.
    pub bytes: u64,
    /// Number of texts to embed or compare, such as claims.
    pub texts: u64,
    /// Tokens that a sentence model has to encode.
    pub tokens: u64,
    /// Upper bound of text pairs to compare.
    pub pairs: u64,
    /// Upper bound of the response size in bytes.
    pub output_bytes: u64,
    /// Number of steps of numerical methods.
    pub steps: u64,
}

/// Where the sentence model runs, which decides who pays for its computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelCost {
    /// The model runs in this process.
    Local,
    /// The model is called over HTTP: comparing vectors costs CPU time here, computing them does not.
    Remote,
    /// No model: texts are compared by words only.
    None,
}

impl Workload {
    /// Workload of scoring `rounds` after a conversation that already has `earlier` claims.
    pub fn for_rounds(rounds: &[Round], earlier: u64) -> Self {
        let mut work = Self::default();
        let (mut claims, mut others, mut longest) = (0_u64, 0_u64, 0_u64);
        for round in rounds {
            let outputs = &round.outputs;
            let mut add = |text: &str| {
                let length = text.len() as u64;
                longest = longest.max(length);
                work.bytes += length;
                work.texts += 1;
                work.tokens += tokens_of(length);
            };
            outputs.claims.iter().for_each(|claim| add(&claim.text));
            claims += outputs.claims.len() as u64;
            for list in [&outputs.open_questions, &outputs.next_actions, &outputs.decisions] {
                for text in list {
                    add(text);
                }
                others += list.len() as u64;
            }
        }
        let count = rounds.len() as u64;
        // Claims are compared with all earlier claims, questions and actions with each other and with the
        // claims that may answer them, and each round with all earlier rounds.
        work.pairs = claims
            .saturating_mul(earlier.saturating_add(claims / 2))
            .saturating_add(others.saturating_mul(others.saturating_add(claims)))
            .saturating_add(count.saturating_mul(count) / 2);
        // A finding quotes its own text and the earlier one.
        work.output_bytes = work.texts.saturating_mul(longest).saturating_add(count * 512);
        work
    }

    /// Workload of embedding these texts.
    pub fn for_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        texts.into_iter().fold(Self::default(), |work, text| {
            let length = text.len() as u64;
            Self {
                bytes: work.bytes + length,
                texts: work.texts + 1,
                tokens: work.tokens + tokens_of(length),
                ..work
            }
        })
    }

    /// Estimated cost in units of about one millisecond.
    pub fn units(&self, model: ModelCost) -> u64 {
        let (tokens, pairs) = match model {
            ModelCost::Local => (self.tokens / TOKENS_PER_UNIT, self.pairs / VECTOR_PAIRS_PER_UNIT),
            ModelCost::Remote => (0, self.pairs / VECTOR_PAIRS_PER_UNIT),
            ModelCost::None => (0, self.pairs / WORD_PAIRS_PER_UNIT),
        };
        [
            self.bytes / BYTES_PER_UNIT,
            self.texts / 100,
            tokens,
            pairs,
            self.output_bytes / OUTPUT_BYTES_PER_UNIT,
            self.steps / STEPS_PER_UNIT,
        ]
        .iter()
        .fold(1, |sum: u64, part| sum.saturating_add(*part))
    }
}

/// Estimated tokens in a text of `bytes` bytes, after truncation by the model.
fn tokens_of(bytes: u64) -> u64 {
    (bytes / BYTES_PER_TOKEN + 2).min(MOST_TOKENS_OF_A_TEXT)
}

/// Token bucket that limits what a caller may spend. Times are seconds of any monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Remaining units; negative after work that took longer than estimated.
    left: f64,
    /// Time at which `left` was computed.
    at: f64,
}

/// Capacity and refill rate of a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetRule {
    /// Capacity in units, which is also the refill per minute.
    pub units_per_minute: f64,
}

/// Error of a budget with too few units left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverBudget {
    /// Units left at the time of the request.
    pub left: f64,
    /// Seconds until the request would be admitted.
    pub wait_seconds: f64,
}

impl Budget {
    /// Creates a full budget.
    pub fn full(rule: BudgetRule, now: f64) -> Self {
        Self {
            left: rule.units_per_minute,
            at: now,
        }
    }

    /// Withdraws `units`, or returns how long to wait. A request that costs more than the capacity is
    /// admitted when the budget is full and leaves it negative; otherwise it could never run.
    pub fn take(&mut self, rule: BudgetRule, units: f64, now: f64) -> Result<(), OverBudget> {
        self.refill(rule, now);
        let needed = units.min(rule.units_per_minute);
        if self.left < needed {
            let missing = needed - self.left;
            return Err(OverBudget {
                left: self.left.max(0.0),
                wait_seconds: missing * 60.0 / rule.units_per_minute,
            });
        }
        self.left -= units;
        Ok(())
    }

    /// Returns units that were withdrawn and not used. A negative number withdraws usage beyond the estimate.
    pub fn refund(&mut self, rule: BudgetRule, units: f64, now: f64) {
        self.refill(rule, now);
        self.left = (self.left + units).min(rule.units_per_minute);
    }

    /// Whether the budget is full and its state can be dropped.
    pub fn is_full(&mut self, rule: BudgetRule, now: f64) -> bool {
        self.refill(rule, now);
        self.left >= rule.units_per_minute
    }

    fn refill(&mut self, rule: BudgetRule, now: f64) {
        let passed = (now - self.at).max(0.0);
        self.left = (self.left + passed * rule.units_per_minute / 60.0).min(rule.units_per_minute);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::{Claim, Outputs};

    fn rounds(rounds: u32, claims: usize, length: usize) -> Vec<Round> {
        (1..=rounds)
            .map(|number| {
                let claim = Claim::from("x".repeat(length));
                Round::new(
                    number,
                    Outputs {
                        claims: vec![claim; claims],
                        ..Outputs::default()
                    },
                )
            })
            .collect()
    }

    #[test]
    fn cost_scales_with_the_work() {
        let units = |rounds: &[Round], earlier| Workload::for_rounds(rounds, earlier).units(ModelCost::Local);
        assert!(
            units(&rounds(3, 5, 80), 0) < 200,
            "an everyday conversation is cheap"
        );
        assert!(
            units(&rounds(1, 9000, 60), 0) > 100_000,
            "many claims in one round"
        );
        assert!(
            units(&rounds(9000, 1, 60), 0) > 100_000,
            "the same claims over rounds"
        );
        assert!(
            Workload::for_rounds(&rounds(190_000, 0, 0), 0).units(ModelCost::None) > 100_000,
            "rounds without a claim"
        );
        assert!(
            units(&rounds(1, 100, 1 << 20), 0) > 2_000,
            "claims that quote a megabyte each"
        );
        assert!(
            units(&rounds(1, 50, 60), 400_000) > 30_000,
            "a few claims after many"
        );
    }

    #[test]
    fn a_budget_refills_up_to_its_capacity() {
        let rule = BudgetRule {
            units_per_minute: 600.0,
        };
        let mut budget = Budget::full(rule, 0.0);
        assert_eq!(budget.take(rule, 500.0, 0.0), Ok(()));
        let over = budget.take(rule, 200.0, 0.0).unwrap_err();
        assert!((over.left - 100.0).abs() < 1e-9 && (over.wait_seconds - 10.0).abs() < 1e-9);
        assert_eq!(budget.take(rule, 200.0, 10.0), Ok(()));
        budget.refund(rule, 150.0, 10.0);
        assert_eq!(budget.take(rule, 150.0, 10.0), Ok(()));
        assert!(budget.is_full(rule, 1000.0));
        // More expensive than a full budget: admitted once, then rejected until the debt is repaid.
        assert_eq!(budget.take(rule, 6000.0, 1000.0), Ok(()));
        let over = budget.take(rule, 1.0, 1000.0).unwrap_err();
        assert!(over.wait_seconds > 500.0);
    }

    #[test]
    fn a_stopped_clock_does_not_refill() {
        let rule = BudgetRule {
            units_per_minute: 60.0,
        };
        let mut budget = Budget::full(rule, 5.0);
        assert_eq!(budget.take(rule, 60.0, 5.0), Ok(()));
        assert!(budget.take(rule, 1.0, 4.0).is_err());
        assert!(budget.take(rule, 1.0, 5.0).is_err());
        assert_eq!(budget.take(rule, 1.0, 6.0), Ok(()));
    }
}
