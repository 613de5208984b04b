//! Deduplication of results by address, or by nearly identical text at another address.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::canonical_url;
use super::hit::Hit;
use crate::text::{JaccardIndex, ThresholdError, Tokenization};

/// Word similarity at which two results are the same page at two addresses.
const NEAR_DUPLICATE: f64 = 0.9;
/// Results with fewer words are only compared by address.
const FEWEST_WORDS: usize = 8;

/// A result that was kept, and its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// The search result itself.
    #[serde(flatten)]
    pub hit: Hit,
    /// Round that returned it first.
    pub round: u32,
    /// Zero-based position within that round.
    pub rank: usize,
    /// Other addresses at which the same text was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_at: Vec<String>,
    /// Whether it came with the final round, which was rejected as a whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub salvaged: bool,
}

/// Results of accepted rounds, deduplicated.
#[derive(Debug, Clone)]
pub struct Merged {
    kept: Vec<Kept>,
    by_address: BTreeMap<String, usize>,
    by_words: JaccardIndex,
    /// For each number in the index, the position of its result.
    indexed: Vec<usize>,
}

impl Merged {
    /// Creates an empty collection.
    pub fn new() -> Result<Self, ThresholdError> {
        Ok(Self {
            kept: Vec::new(),
            by_address: BTreeMap::new(),
            by_words: JaccardIndex::new(NEAR_DUPLICATE, Tokenization::Words)?,
            indexed: Vec::new(),
        })
    }

    /// Kept results in order.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Adds the results of a round and returns how many were not known before.
    pub fn add(&mut self, round: u32, results: &[Hit]) -> usize {
        self.add_as(round, results, false)
    }

    /// Adds the new results of the round that ended the search, because they were already paid for.
    pub(crate) fn salvage(&mut self, round: u32, results: &[Hit]) -> usize {
        self.add_as(round, results, true)
    }

    fn add_as(&mut self, round: u32, results: &[Hit], salvaged: bool) -> usize {
        let mut new = 0;
        for (rank, hit) in results.iter().enumerate() {
            if hit.is_blank() {
                continue;
            }
            let address = canonical_url(&hit.url);
            if !address.is_empty() && self.by_address.contains_key(&address) {
                continue;
            }
            let comparable = hit.snippet.split_whitespace().nth(FEWEST_WORDS - 1).is_some();
            let twin = comparable
                .then(|| self.by_words.best_match(&hit.snippet))
                .flatten()
                .and_then(|found| self.indexed.get(found.id as usize).copied());
            if let Some(twin) = twin
                && let Some(kept) = self.kept.get_mut(twin)
            {
                if !address.is_empty() {
                    kept.also_at.push(hit.url.clone());
                    self.by_address.insert(address, twin);
                }
                continue;
            }
            let number = self.kept.len();
            if !address.is_empty() {
                self.by_address.insert(address, number);
            }
            if comparable {
                self.by_words.insert(&hit.snippet);
                self.indexed.push(number);
            }
            self.kept.push(Kept {
                hit: hit.clone(),
                round,
                rank,
                also_at: Vec::new(),
                salvaged,
            });
            new += 1;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_by_address_or_words_are_merged() {
        let mut merged = Merged::new().unwrap();
        let long = "Heated wings bend upwards because the upper skin grows more than the lower";
        let first = [
            Hit::new("a", "https://example.org/a?utm_source=x", long),
            Hit::new("b", "https://example.org/b", "short text"),
        ];
        assert_eq!(merged.add(1, &first), 2);
        let second = [
            Hit::new("a again", "http://www.example.org/a/", "other words entirely"),
            Hit::new("mirror", "https://mirror.example.net/a", format!("{long}.")),
            Hit::new("c", "https://example.org/c", "short text"),
            Hit::default(),
        ];
        assert_eq!(merged.add(2, &second), 1, "short texts are not compared by words");
        let kept = merged.kept();
        assert_eq!(kept.len(), 3);
        assert_eq!(kept[0].also_at, ["https://mirror.example.net/a"]);
        assert_eq!((kept[2].round, kept[2].rank), (2, 2));
    }
}
