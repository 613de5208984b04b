//! Search modes: how deep a search goes, and how many tokens its results may use.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Depth of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Lexical and trigger channels only, with few results.
    Quick,
    /// All channels are searched.
    Focused,
    /// All channels, with query expansion, two link hops and more results.
    Deep,
}

/// Limits and channels of a search mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct ModeSettings {
    /// Maximum number of results.
    pub limit: usize,
    /// Maximum number of candidates per channel.
    pub candidates: usize,
    /// Maximum number of tokens of all results.
    pub token_budget: usize,
    /// Whether the vector channel is searched.
    pub vectors: bool,
    /// Whether the query is expanded by synonyms.
    pub expand: bool,
    /// Maximum number of link hops from a result.
    pub hops: usize,
}

impl Mode {
    /// All modes, from shallow to deep.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Focused, Self::Deep];

    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Focused => "focused",
            Self::Deep => "deep",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("unknown mode `{text}` (expected one of: quick, focused, deep)"))
    }
}

/// The selected mode and why it was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModeChoice {
    /// Mode that the search uses.
    pub selected_mode: Mode,
    /// Whether context pressure replaced the requested mode by a shallower one.
    pub mode_override_applied: bool,
    /// Pressure on the caller's context.
    pub pressure_level: Pressure,
}

/// Pressure on the caller's context, by how full it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pressure {
    /// The caller did not report its context usage.
    Unknown,
    /// Enough capacity remains for any mode.
    None,
    /// No mode deeper than focused is used.
    Warning,
    /// No mode deeper than quick is used.
    Critical,
}

/// Context usage thresholds above which searches become shallower.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct PressureSettings {
    /// Context usage from 0 to 1 from which no mode deeper than focused is used.
    pub focused_from: f64,
    /// Context usage from 0 to 1 from which no mode deeper than quick is used.
    pub quick_from: f64,
}

/// Selects a mode: the requested one, or without one (auto) deep for intents that benefit from it and focused
/// for all others; but never deeper than the remaining context capacity allows.
///
/// `usage` is the used fraction of the caller's context, from 0 to 1, if known.
pub(crate) fn choose_mode(
    asked: Option<Mode>,
    usage: Option<f64>,
    wants_depth: bool,
    pressure: PressureSettings,
) -> ModeChoice {
    let pressure_level = match usage {
        None => Pressure::Unknown,
        Some(usage) if usage >= pressure.quick_from => Pressure::Critical,
        Some(usage) if usage >= pressure.focused_from => Pressure::Warning,
        Some(_) => Pressure::None,
    };
    // Deep mode costs three times the tokens, so it is used only if the capacity is known to suffice.
    let wanted = asked.unwrap_or(if wants_depth && pressure_level == Pressure::None {
        Mode::Deep
    } else {
        Mode::Focused
    });
    let deepest = match pressure_level {
        Pressure::Critical => Mode::Quick,
        Pressure::Warning => Mode::Focused,
        Pressure::None | Pressure::Unknown => Mode::Deep,
    };
    ModeChoice {
        selected_mode: wanted.min(deepest),
        mode_override_applied: asked.is_some() && wanted > deepest,
        pressure_level,
    }
}

/// Estimated number of tokens of a text: a quarter of its bytes, rounded up.
pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_makes_searches_shallower_and_never_deeper() {
        use Mode::{Deep, Focused, Quick};
        let pressure = crate::memory::Pipeline::default().pressure;
        for (asked, usage, depth, expected, overridden) in [
            (None, None, true, Focused, false),
            (None, Some(0.1), true, Deep, false),
            (None, Some(0.1), false, Focused, false),
            (None, Some(0.6), true, Focused, false),
            (None, Some(0.8), true, Quick, false),
            (Some(Deep), None, false, Deep, false),
            (Some(Deep), Some(0.7), false, Focused, true),
            (Some(Focused), Some(0.7), false, Focused, false),
            (Some(Focused), Some(0.95), false, Quick, true),
            (Some(Quick), Some(0.1), true, Quick, false),
        ] {
            let choice = choose_mode(asked, usage, depth, pressure);
            assert_eq!(choice.selected_mode, expected, "{asked:?} {usage:?} {depth}");
            assert_eq!(
                choice.mode_override_applied, overridden,
                "{asked:?} {usage:?} {depth}"
            );
        }
    }

    #[test]
    fn tokens_are_a_quarter_of_the_bytes() {
        assert_eq!(["", "a", "abcd", "abcde"].map(estimate_tokens), [0, 1, 1, 2]);
    }
}
