//! Admission control: what a request will cost, whether that is too much, and what a caller has left.
//!
//! A cost is estimated from sizes alone, in one pass over the request, before anything is computed. Its unit is about one
//! millisecond of one processor core on a laptop. An estimate need not be right; it must grow with what the work grows with,
//! quadratic where the work is quadratic.

use crate::dialogue::Round;

/// Bytes of text that are read and split in a unit of cost.
const BYTES_PER_UNIT: u64 = 64 << 10;
/// Tokens that a sentence model on this machine embeds in a unit of cost.
const TOKENS_PER_UNIT: u64 = 4;
/// Pairs of texts compared by meaning in a unit of cost.
const VECTOR_PAIRS_PER_UNIT: u64 = 500;
/// Pairs of texts compared by their words in a unit of cost: an index leaves most pairs out.
const WORD_PAIRS_PER_UNIT: u64 = 5_000;
/// Bytes of an answer that are written in a unit of cost.
const OUTPUT_BYTES_PER_UNIT: u64 = 16 << 10;
/// Steps of a numerical method (a resample of one query, say) in a unit of cost.
const STEPS_PER_UNIT: u64 = 20_000;
/// A model reads no more of one text.
const MOST_TOKENS_OF_A_TEXT: u64 = 256;
/// Bytes of a token at least: invented words fall apart into pieces of two or three letters.
const BYTES_PER_TOKEN: u64 = 3;

/// The sizes that the cost of a request is estimated from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workload {
    /// Bytes of text that are read.
    pub bytes: u64,
    /// Texts that are embedded or compared, such as claims.
    pub texts: u64,
    /// Tokens that a sentence model reads.
    pub tokens: u64,
    /// Pairs of texts that may be compared with each other.
    pub pairs: u64,
    /// Bytes of the answer at most.
    pub output_bytes: u64,
    /// Steps of numerical methods.
    pub steps: u64,
}

/// What a sentence model costs this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelCost {
    /// The model computes here.
    Local,
    /// The model is an HTTP request away: comparing its vectors costs something, computing them does not.
    Remote,
    /// Texts are compared by their words only.
    None,
}

impl Workload {
    /// The workload of scoring `rounds` after a conversation that has `earlier` claims already.
    pub fn of_rounds(rounds: &[Round], earlier: u64) -> Self {
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
        // Claims with all claims before them, questions and actions with each other and with the claims that may answer
        // them, and each round with all rounds before it.
        work.pairs = claims
            .saturating_mul(earlier.saturating_add(claims / 2))
            .saturating_add(others.saturating_mul(others.saturating_add(claims)))
            .saturating_add(count.saturating_mul(count) / 2);
        // A finding quotes the text that it is about and the earlier one.
        work.output_bytes = work.texts.saturating_mul(longest).saturating_add(count * 512);
        work
    }

    /// The workload of embedding these texts.
    pub fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
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

    /// The estimated cost in units of about a millisecond.
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

/// Tokens of a text of so many bytes, as a model reads it.
fn tokens_of(bytes: u64) -> u64 {
    (bytes / BYTES_PER_TOKEN + 2).min(MOST_TOKENS_OF_A_TEXT)
}

/// What a caller may spend: a bucket that refills evenly. Times are seconds of any clock that does not run backwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Units that are left; negative after work that took longer than estimated.
    left: f64,
    /// When `left` was true.
    at: f64,
}

/// How much a budget holds and how fast it refills.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetRule {
    /// Units that a full budget holds, and that a minute brings back.
    pub units_per_minute: f64,
}

/// A budget that has too little left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverBudget {
    /// Units that are left now.
    pub left: f64,
    /// Seconds until the request can be paid for.
    pub wait_seconds: f64,
}

impl Budget {
    /// A full budget.
    pub fn full(rule: BudgetRule, now: f64) -> Self {
        Self {
            left: rule.units_per_minute,
            at: now,
        }
    }

    /// Takes `units` out, or says how long to wait. A request that costs more than a full budget holds is let through when
    /// the budget is full, and paid back afterwards: otherwise it could never be made.
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

    /// Gives back what was taken and not used; a negative number takes what was used beyond the estimate.
    pub fn give_back(&mut self, rule: BudgetRule, units: f64, now: f64) {
        self.refill(rule, now);
        self.left = (self.left + units).min(rule.units_per_minute);
    }

    /// Whether nothing would be lost by forgetting this budget.
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
    fn cost_grows_with_what_the_work_grows_with() {
        let units = |rounds: &[Round], earlier| Workload::of_rounds(rounds, earlier).units(ModelCost::Local);
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
            Workload::of_rounds(&rounds(190_000, 0, 0), 0).units(ModelCost::None) > 100_000,
            "rounds without a claim"
        );
        assert!(
            units(&rounds(1, 100, 1 << 20), 0) > 5_000,
            "claims that quote a megabyte each"
        );
        assert!(
            units(&rounds(1, 50, 60), 400_000) > 30_000,
            "a few claims after many"
        );
    }

    #[test]
    fn a_budget_refills_and_never_holds_more_than_a_minute() {
        let rule = BudgetRule {
            units_per_minute: 600.0,
        };
        let mut budget = Budget::full(rule, 0.0);
        assert_eq!(budget.take(rule, 500.0, 0.0), Ok(()));
        let over = budget.take(rule, 200.0, 0.0).unwrap_err();
        assert!((over.left - 100.0).abs() < 1e-9 && (over.wait_seconds - 10.0).abs() < 1e-9);
        assert_eq!(budget.take(rule, 200.0, 10.0), Ok(()));
        budget.give_back(rule, 150.0, 10.0);
        assert_eq!(budget.take(rule, 150.0, 10.0), Ok(()));
        assert!(budget.is_full(rule, 1000.0));
        // Dearer than a full budget: once, and then not for as long as it takes to pay it back.
        assert_eq!(budget.take(rule, 6000.0, 1000.0), Ok(()));
        let over = budget.take(rule, 1.0, 1000.0).unwrap_err();
        assert!(over.wait_seconds > 500.0);
    }

    #[test]
    fn a_clock_that_stands_still_brings_nothing() {
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
