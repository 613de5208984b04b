//! The scorer's weights: data with a version, read from TOML, fitted by calibration, activated only through the gate.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;
use super::features::Term;
use crate::stats::Isotonic;

const HEURISTIC: &str = include_str!("heuristic.toml");

/// Everything that turns features into a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Its name; `heuristic-1` is built in.
    pub version: String,
    /// What is to be small.
    #[serde(default)]
    pub objective: Objective,
    /// The probability with which items are kept back that nobody needs.
    #[serde(default)]
    pub floor: f64,
    /// The weight of each feature; those that are not named weigh nothing.
    pub terms: BTreeMap<String, f64>,
    /// What zones add; unknown zones add nothing.
    #[serde(default)]
    pub zones: BTreeMap<String, ZoneWeights>,
    /// What kinds add; unknown kinds add nothing.
    #[serde(default)]
    pub kinds: BTreeMap<String, f64>,
    /// From the raw probability to the one that was observed; absent where nothing was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isotonic: Option<Isotonic>,
}

/// What a zone adds to the log-odds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneWeights {
    /// Always.
    #[serde(default)]
    pub offset: f64,
    /// Times ln(1 + age).
    #[serde(default)]
    pub ageing: f64,
}

/// What is to be small: what follows from a wrong eviction is reading the item again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The number of items that must be read again: large items go first.
    #[default]
    Rereads,
    /// The tokens that must be read again: size does not matter.
    RereadTokens,
}

impl Weights {
    /// The weights that Satiety starts with.
    pub fn heuristic() -> Self {
        // The file is part of the program, and a test reads it.
        Self::from_toml(HEURISTIC).unwrap_or_else(|_| Self {
            version: "heuristic-1".to_owned(),
            objective: Objective::default(),
            terms: BTreeMap::new(),
            zones: BTreeMap::new(),
            kinds: BTreeMap::new(),
            floor: 0.0,
            isotonic: None,
        })
    }

    /// Reads weights.
    pub fn from_toml(text: &str) -> Result<Self, EvictionError> {
        let weights: Self =
            toml::from_str(text).map_err(|error| EvictionError::Weights(error.to_string()))?;
        weights.check()?;
        Ok(weights)
    }

    /// Writes them so that [`Weights::from_toml`] reads them.
    pub fn to_toml(&self) -> String {
        // Strings, numbers and tables of them: nothing that TOML cannot hold.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Refuses weights with unknown features or figures that are no numbers.
    pub fn check(&self) -> Result<(), EvictionError> {
        let wrong = |reason: String| Err(EvictionError::Weights(reason));
        if self.version.trim().is_empty() {
            return wrong("the version is empty".into());
        }
        if let Some(name) = self.terms.keys().find(|name| Term::named(name).is_none()) {
            let known: Vec<&str> = Term::ALL.iter().map(|term| term.name()).collect();
            return wrong(format!(
                "there is no feature `{name}`; there are bias, {}",
                known.join(", ")
            ));
        }
        let zones = self.zones.values().flat_map(|zone| [zone.offset, zone.ageing]);
        let all = self
            .terms
            .values()
            .copied()
            .chain(zones)
            .chain(self.kinds.values().copied());
        if all.into_iter().any(|weight| !weight.is_finite()) {
            return wrong("a weight is not a finite number".into());
        }
        if !(0.0..1.0).contains(&self.floor) {
            return wrong(format!("the floor is {}, outside 0 to 1", self.floor));
        }
        if let Some(isotonic) = &self.isotonic {
            let rising = |values: &[f64]| values.windows(2).all(|pair| pair[0] <= pair[1]);
            let inside = isotonic.y.iter().all(|y| (0.0..=1.0).contains(y));
            if isotonic.x.len() != isotonic.y.len() || !rising(&isotonic.x) || !rising(&isotonic.y) || !inside
            {
                return wrong("the isotonic mapping does not rise from 0 to 1".into());
            }
        }
        Ok(())
    }

    /// The weight of a feature.
    pub fn term(&self, name: &str) -> f64 {
        self.terms.get(name).copied().unwrap_or(0.0)
    }

    /// What a zone adds.
    pub fn zone(&self, zone: &str) -> ZoneWeights {
        self.zones.get(zone).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_weights_are_read_and_written() {
        let weights = Weights::from_toml(HEURISTIC).unwrap();
        assert_eq!(weights, Weights::heuristic());
        assert!(weights.term("recency") < 0.0 && weights.term("frequency") > 0.0);
        assert_eq!(Weights::from_toml(&weights.to_toml()).unwrap(), weights);
    }

    #[test]
    fn wrong_weights_are_refused() {
        for (text, part) in [
            (
                "version = 'x'\n[terms]\nrecentness = 1.0",
                "no feature `recentness`",
            ),
            ("version = 'x'\n[terms]\nrecency = nan", "finite"),
            ("version = ' '\n[terms]", "version"),
            ("version = 'x'\n[terms]\n[more]", "unknown field"),
            (
                "version = 'x'\n[terms]\n[isotonic]\nx = [0.0, 1.0]\ny = [1.0, 0.5]",
                "rise",
            ),
        ] {
            let error = Weights::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
