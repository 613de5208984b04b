//! Weights of the scorer: versioned data, read from TOML, fitted by calibration, activated only through the
//! gate.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;
use super::features::Term;
use crate::stats::Isotonic;

const HEURISTIC: &str = include_str!("heuristic.toml");

/// Weights that turn features into a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Version name of the weights; `heuristic-1` is built in.
    pub version: String,
    /// Quantity that eviction minimizes.
    #[serde(default)]
    pub objective: Objective,
    /// Probability that an agent excludes an item that it does not need, from 0 to below 1.
    #[serde(default)]
    pub floor: f64,
    /// Weight of each feature by name, plus `bias`; absent features have weight 0.
    pub terms: BTreeMap<String, f64>,
    /// Weights of each zone; unknown zones contribute nothing.
    #[serde(default)]
    pub zones: BTreeMap<String, ZoneWeights>,
    /// Weight of each kind; unknown kinds contribute nothing.
    #[serde(default)]
    pub kinds: BTreeMap<String, f64>,
    /// Mapping from raw to observed probabilities; absent without enough observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isotonic: Option<Isotonic>,
}

/// Contribution of a zone to the log-odds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneWeights {
    /// Constant added to the log-odds.
    #[serde(default)]
    pub offset: f64,
    /// Weight of ln(1 + age) in addition to `recency`.
    #[serde(default)]
    pub ageing: f64,
}

/// Quantity that eviction minimizes: the cost of a wrong eviction is reading the item again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Number of items that must be read again; favors evicting large items.
    #[default]
    Rereads,
    /// Number of tokens that must be read again; independent of item size.
    RereadTokens,
}

impl Weights {
    /// Returns the built-in weights.
    pub fn heuristic() -> Self {
        // The file is compiled in, and a test parses it.
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

    /// Parses weights from TOML and checks them.
    pub fn from_toml(text: &str) -> Result<Self, EvictionError> {
        let weights: Self =
            toml::from_str(text).map_err(|error| EvictionError::Weights(error.to_string()))?;
        weights.check()?;
        Ok(weights)
    }

    /// Serializes the weights to TOML that [`Weights::from_toml`] parses.
    pub fn to_toml(&self) -> String {
        // Strings, numbers and tables of them always serialize.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Checks that all features are known and all numbers are valid.
    pub fn check(&self) -> Result<(), EvictionError> {
        let wrong = |reason: String| Err(EvictionError::Weights(reason));
        if self.version.trim().is_empty() {
            return wrong("`version` must not be empty".into());
        }
        if let Some(name) = self.terms.keys().find(|name| !Term::is_weight(name)) {
            let known: Vec<&str> = Term::ALL.iter().map(|term| term.name()).collect();
            return wrong(format!(
                "unknown feature `{name}` (expected one of: bias, {})",
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
            return wrong("weights must be finite numbers".into());
        }
        if !(0.0..1.0).contains(&self.floor) {
            return wrong(format!("`floor` is {} (expected 0 to below 1)", self.floor));
        }
        if let Some(isotonic) = &self.isotonic {
            let rising = |values: &[f64]| values.windows(2).all(|pair| pair[0] <= pair[1]);
            let inside = isotonic.y.iter().all(|y| (0.0..=1.0).contains(y));
            if isotonic.x.len() != isotonic.y.len() || !rising(&isotonic.x) || !rising(&isotonic.y) || !inside
            {
                return wrong("the isotonic mapping must rise from 0 to 1".into());
            }
        }
        Ok(())
    }

    /// Returns the weight of a feature; 0 if it is absent.
    pub fn term(&self, name: &str) -> f64 {
        self.terms.get(name).copied().unwrap_or(0.0)
    }

    /// Returns the weights of a zone; zeros if it is unknown.
    pub fn zone(&self, zone: &str) -> ZoneWeights {
        self.zones.get(zone).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_weights_round_trip() {
        let weights = Weights::from_toml(HEURISTIC).unwrap();
        assert_eq!(weights, Weights::heuristic());
        assert!(weights.term("recency") < 0.0 && weights.term("frequency") > 0.0);
        assert_eq!(Weights::from_toml(&weights.to_toml()).unwrap(), weights);
    }

    #[test]
    fn invalid_weights_are_rejected() {
        for (text, part) in [
            (
                "version = 'x'\n[terms]\nrecentness = 1.0",
                "unknown feature `recentness`",
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
