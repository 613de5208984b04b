//! Estimates what a search loop has missed: the share of the relevant results of ten searches that the searches
//! so far did not return. The estimate uses how the results of different queries overlap (capture-recapture):
//! results that only one query returned suggest that other queries would return more.
//!
//! The coefficients were fitted on recorded searches with known relevant documents; `studies` prints how well
//! the estimate is calibrated on questions and collections that were not used for fitting.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::canonical_url;
use super::hit::Hit;
use crate::text::normalize;

/// Number of searches that the estimate refers to.
pub const HORIZON: u32 = 10;
/// Share of loops in which the bound holds.
pub const CONFIDENCE: f64 = 0.9;

/// Step between two shares for which the model has a probability.
const STEP: f64 = 0.1;
/// Proportional odds model of the missed share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MissedModel {
    /// Log odds that more than 0, 10, …, 90 % is missed if every feature is zero.
    pub cuts: [f64; 10],
    /// Change of the log odds per unit of the logarithm of the number of searches.
    pub log_searches: f64,
    /// Change of the log odds per unit of [`Discovery::once_share`].
    pub once_share: f64,
    /// Change of the log odds per unit of [`Discovery::new_share`].
    pub new_share: f64,
}

/// Estimate of what the searches so far have missed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MissedEstimate")]
pub struct Missed {
    /// Expected share of the relevant results of ten searches that was not returned yet, from 0 to 1.
    pub share: f64,
    /// Share that is exceeded in one of ten loops, in steps of 0.1.
    pub bound: f64,
}

impl Missed {
    /// Describes the estimate as a clause.
    pub fn words(&self) -> String {
        let share = 100.0 * self.share;
        if self.bound >= 1.0 {
            return format!("an estimated {share:.0} % of what {HORIZON} searches find is missed");
        }
        format!(
            "an estimated {share:.0} % of what {HORIZON} searches find is missed (more than {:.0} % in one loop of ten)",
            100.0 * self.bound
        )
    }
}

/// How the results of the searches so far overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Discovery {
    /// Number of searches with results.
    pub searches: u32,
    /// Share of returned results that only one search returned (Good-Turing), from 0 to 1.
    pub once_share: f64,
    /// Share of results that no earlier search returned, mean of the last two searches, from 0 to 1.
    pub new_share: f64,
}

impl MissedModel {
    /// Model fitted on all questions of three collections, each collection with the same weight. The study
    /// `stopping` prints the coefficients.
    pub const BUILT_IN: Self = Self {
        cuts: [
            -0.569, -0.816, -1.492, -1.889, -2.433, -3.191, -3.398, -3.727, -3.776, -3.818,
        ],
        log_searches: -0.660,
        once_share: 0.726,
        new_share: 0.647,
    };

    /// Estimates what is missed; `None` before the first search with results.
    pub fn estimate(&self, discovery: &Discovery) -> Option<Missed> {
        if discovery.searches == 0 {
            return None;
        }
        // The model was not fitted beyond the horizon.
        let searches = f64::from(discovery.searches.min(HORIZON));
        let log_odds = self.log_searches * searches.ln()
            + self.once_share * discovery.once_share.clamp(0.0, 1.0)
            + self.new_share * discovery.new_share.clamp(0.0, 1.0);
        let above = self.cuts.map(|cut| 1.0 / (1.0 + (-(cut + log_odds)).exp()));
        // Area under the probabilities: between 0 and the first step the mean share is half a step.
        let [first, rest @ ..] = above;
        let share = STEP * (first / 2.0 + rest.iter().sum::<f64>());
        let steps = above
            .iter()
            .take_while(|above| **above > 1.0 - CONFIDENCE)
            .count();
        Some(Missed {
            share: share.clamp(0.0, 1.0),
            bound: (steps as f64 * STEP).min(1.0),
        })
    }
}

/// Estimates what is missed with the built-in model.
pub fn missed(discovery: &Discovery) -> Option<Missed> {
    MissedModel::BUILT_IN.estimate(discovery)
}

/// Counts how many searches returned each result.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryCounts {
    /// For each result, the number of searches that returned it.
    returned: FxHashMap<String, u32>,
    /// Overlap of the searches counted so far.
    current: Discovery,
    /// Number of results of all searches, each once per search.
    total: u64,
    /// Number of results that exactly one search returned.
    once: u64,
    /// Share of new results of the last search.
    last_new: Option<f64>,
}

impl DiscoveryCounts {
    /// Overlap after another search with these results, without counting it. A search without results is not
    /// evidence and changes nothing.
    pub fn preview(&self, results: &[Hit]) -> Discovery {
        let keys = keys(results);
        if keys.is_empty() {
            return self.current;
        }
        self.after(&keys).0
    }

    /// Overlap of the searches counted so far.
    pub fn current(&self) -> Discovery {
        self.current
    }

    /// Counts a search.
    pub fn add(&mut self, results: &[Hit]) {
        let keys = keys(results);
        if keys.is_empty() {
            return;
        }
        let (discovery, total, once, new) = self.after(&keys);
        self.current = discovery;
        (self.total, self.once, self.last_new) = (total, once, Some(new));
        for key in keys {
            *self.returned.entry(key).or_default() += 1;
        }
    }

    /// Overlap, number of results, number of results returned once, and share of new results.
    fn after(&self, keys: &BTreeSet<String>) -> (Discovery, u64, u64, f64) {
        let (mut new, mut again) = (0_u64, 0_u64);
        for key in keys {
            match self.returned.get(key) {
                None => new += 1,
                Some(1) => again += 1,
                Some(_) => {}
            }
        }
        let total = self.total + keys.len() as u64;
        let once = self.once + new - again;
        let new = new as f64 / keys.len().max(1) as f64;
        let discovery = Discovery {
            searches: self.current.searches.saturating_add(1),
            once_share: once as f64 / total.max(1) as f64,
            new_share: self.last_new.map_or(new, |last| f64::midpoint(last, new)),
        };
        (discovery, total, once, new)
    }
}

/// Distinct results of a search, by canonical address, or by text without one.
fn keys(results: &[Hit]) -> BTreeSet<String> {
    results
        .iter()
        .filter(|hit| !hit.is_blank())
        .map(|hit| {
            if hit.url.trim().is_empty() {
                normalize(&hit.whole())
            } else {
                canonical_url(&hit.url)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hits(ids: &[u32]) -> Vec<Hit> {
        ids.iter()
            .map(|id| Hit::new("", format!("https://example.org/{id}"), format!("text {id}")))
            .collect()
    }

    #[test]
    fn overlap_counts_each_result_once_per_search() {
        let mut counts = DiscoveryCounts::default();
        assert_eq!(missed(&counts.preview(&[])), None, "nothing was searched");
        counts.add(&hits(&[1, 2, 2, 3]));
        let second = counts.preview(&hits(&[2, 3, 4, 5]));
        assert_eq!(second.searches, 2);
        // Results 1, 4 and 5 of seven were returned once; half of the second search is new.
        assert!((second.once_share - 3.0 / 7.0).abs() < 1e-12);
        assert!((second.new_share - 0.75).abs() < 1e-12);
        counts.add(&hits(&[2, 3, 4, 5]));
        assert_eq!(counts.preview(&[]), second, "an empty search is not evidence");
        counts.add(&[]);
        let third = counts.preview(&hits(&[2]));
        assert_eq!(third.searches, 3);
        assert!((third.new_share - 0.25).abs() < 1e-12);
        let same = hits(&[1]);
        let mut tracked = same.clone();
        tracked[0].url = "http://www.example.org/1/?utm_source=x".into();
        let mut counts = DiscoveryCounts::default();
        counts.add(&same);
        assert!(counts.preview(&tracked).once_share.abs() < 1e-12, "one page");
        let texts = [Hit::new("", "", "One text."), Hit::new("", "", "one text")];
        assert_eq!(keys(&texts).len(), 1, "without an address the text counts");
    }

    #[test]
    fn words_name_the_bound_only_if_there_is_one() {
        let words = Missed {
            share: 0.124,
            bound: 0.3,
        }
        .words();
        assert_eq!(
            words,
            "an estimated 12 % of what 10 searches find is missed (more than 30 % in one loop of ten)"
        );
        assert!(
            !Missed {
                share: 0.5,
                bound: 1.0
            }
            .words()
            .contains("ten)")
        );
    }

    proptest! {
        /// More overlap and more searches never raise the estimate, and the bound is never below zero or above one.
        #[test]
        fn estimates_are_monotone_shares(
            searches in 1_u32..30,
            once in 0.0_f64..=1.0,
            new in 0.0_f64..=1.0,
            less in 0.0_f64..=1.0,
        ) {
            let at = |searches, once_share, new_share| missed(&Discovery { searches, once_share, new_share }).unwrap();
            let here = at(searches, once, new);
            prop_assert!((0.0..=1.0).contains(&here.share) && (0.0..=1.0).contains(&here.bound));
            for other in [at(searches + 1, once, new), at(searches, once * less, new), at(searches, once, new * less)] {
                prop_assert!(other.share <= here.share + 1e-12);
                prop_assert!(other.bound <= here.bound + 1e-12);
            }
        }

        /// Counting incrementally equals counting from the list of all searches.
        #[test]
        fn counts_equal_a_recount(searches in proptest::collection::vec(proptest::collection::vec(0_u32..12, 1..8), 1..6)) {
            let mut counts = DiscoveryCounts::default();
            let mut last = None;
            for ids in &searches {
                last = Some(counts.preview(&hits(ids)));
                counts.add(&hits(ids));
            }
            let sets: Vec<std::collections::BTreeSet<u32>> = searches.iter().map(|ids| ids.iter().copied().collect()).collect();
            let total: usize = sets.iter().map(std::collections::BTreeSet::len).sum();
            let once = (0..12).filter(|id| sets.iter().filter(|set| set.contains(id)).count() == 1).count();
            let found = last.unwrap();
            prop_assert_eq!(found.searches as usize, sets.len());
            prop_assert!((found.once_share - once as f64 / total as f64).abs() < 1e-12);
        }
    }
}
