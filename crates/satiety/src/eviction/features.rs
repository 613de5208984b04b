//! Features of the scorer. Every feature is cheap to keep up to date: time-dependent features change only
//! when the age of an item enters the next band, so a new turn touches only the items that cross a band.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::ContextItem;

/// Feature with its own weight; zones and kinds have weights in addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// ln(1 + turns since the last use), by age bands.
    Recency,
    /// ln(1 + uses).
    Frequency,
    /// ln(1 + heat).
    Heat,
    /// ln(turns since the last use / mean gap between uses), at least 0; 0 for items that were never used.
    Overdue,
    /// Share of the goal's words that occur in the item.
    GoalOverlap,
    /// Semantic similarity of the item to the goal.
    Semantic,
    /// ln(1 + tokens).
    Size,
    /// Share of the item's words that another item repeats.
    Redundancy,
    /// Log-odds of the scorer model's relevance.
    Model,
    /// ln(1 + items that refer to it).
    Dependents,
}

impl Term {
    /// All features, in the order of [`Features::values`].
    pub const ALL: [Self; 10] = [
        Self::Recency,
        Self::Frequency,
        Self::Heat,
        Self::Overdue,
        Self::GoalOverlap,
        Self::Semantic,
        Self::Size,
        Self::Redundancy,
        Self::Model,
        Self::Dependents,
    ];

    /// Returns the name used in weight files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recency => "recency",
            Self::Frequency => "frequency",
            Self::Heat => "heat",
            Self::Overdue => "overdue",
            Self::GoalOverlap => "goal_overlap",
            Self::Semantic => "semantic",
            Self::Size => "size",
            Self::Redundancy => "redundancy",
            Self::Model => "model",
            Self::Dependents => "dependents",
        }
    }

    /// Whether weights may have a value of this name: a feature or `bias`.
    pub(super) fn is_weight(name: &str) -> bool {
        name == "bias" || Self::ALL.iter().any(|term| term.name() == name)
    }
}

/// Feature values of an item in the current turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Features {
    /// Zone of the item.
    pub zone: String,
    /// Kind of the item.
    pub kind: String,
    /// Feature values, one for each of [`Term::ALL`].
    pub values: [f64; Term::ALL.len()],
}

/// Bound of the log-odds of a model's relevance: a relevance of 0 or 1 is not certainty.
const MAX_LOG_ODDS: f64 = 4.0;

/// Returns the features of an item `age` turns after its last use, with `dependents` items that refer to it.
pub(super) fn values(item: &ContextItem, age: u64, dependents: u32) -> [f64; Term::ALL.len()] {
    let age = band_start(age);
    let uses = item.reference_count as f64;
    let gap = if item.reference_count == 0 {
        0.0
    } else {
        (item.last_referenced_turn - item.created_turn.min(item.last_referenced_turn)) as f64 / uses
    };
    let overdue = if item.reference_count == 0 {
        0.0
    } else {
        ((1.0 + age as f64) / (1.0 + gap)).ln().max(0.0)
    };
    let opinion = item
        .signals
        .model
        .map_or(0.0, |p| (p / (1.0 - p)).ln().clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS));
    [
        (age as f64).ln_1p(),
        uses.ln_1p(),
        item.heat_after(age).ln_1p(),
        overdue,
        item.signals.goal_overlap.unwrap_or(0.0),
        item.signals.semantic.unwrap_or(0.0),
        (item.token_count as f64).ln_1p(),
        item.signals.redundancy.unwrap_or(0.0),
        opinion,
        f64::from(dependents).ln_1p(),
    ]
}

/// Returns the first age of the band that contains `age`: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, … (two per
/// doubling).
pub(crate) fn band_start(age: u64) -> u64 {
    if age < 4 {
        return age;
    }
    let octave = 1_u64 << age.ilog2();
    let middle = octave + octave / 2;
    if age >= middle { middle } else { octave }
}

/// Returns the first age of the next band.
pub(crate) fn next_band(age: u64) -> u64 {
    if age < 4 {
        return age + 1;
    }
    let octave = 1_u64 << age.ilog2();
    let middle = octave + octave / 2;
    if age >= middle {
        octave.saturating_mul(2)
    } else {
        middle
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bands_grow_with_age() {
        let mut starts = vec![0];
        while starts.len() < 14 {
            starts.push(next_band(starts[starts.len() - 1]));
        }
        assert_eq!(starts, [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96]);
    }

    #[test]
    fn features_follow_their_formulas() {
        let mut item = ContextItem::new("a", "memory", 99);
        item.touch(4);
        item.touch(8);
        item.signals.model = Some(1.0);
        item.signals.goal_overlap = Some(0.25);
        let found = values(&item, 15, 1);
        // Last use in turn 8, so heat 1 + 2^(-4/8); the band of 15 begins at 12; uses at 4 and 8 make a gap of 4.
        let heat = (1.0 + (-0.5_f64).exp2()) * (-1.5_f64).exp2();
        let expected = [
            13.0_f64.ln(),
            3.0_f64.ln(),
            heat.ln_1p(),
            (13.0_f64 / 5.0).ln(),
            0.25,
            0.0,
            100.0_f64.ln(),
            0.0,
            4.0,
            2.0_f64.ln(),
        ];
        for ((found, expected), term) in found.iter().zip(expected).zip(Term::ALL) {
            assert!(
                (found - expected).abs() < 1e-12,
                "{}: {found} {expected}",
                term.name()
            );
        }
    }

    proptest! {
        #[test]
        fn every_age_is_in_one_band(age in 0_u64..1 << 40) {
            let start = band_start(age);
            prop_assert!(start <= age && age < next_band(start));
            prop_assert_eq!(next_band(age), next_band(start));
        }
    }
}
