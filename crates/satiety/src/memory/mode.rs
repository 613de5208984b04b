//! How deep a search goes, and what it may cost the one who asks: tokens of the answer.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How deep a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Words and triggers only, few results.
    Quick,
    /// All channels.
    Focused,
    /// All channels, the query expanded, links followed twice, more results.
    Deep,
}

/// What a mode means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct ModeSettings {
    /// Results at most.
    pub limit: usize,
    /// Candidates that each channel may bring.
    pub candidates: usize,
    /// Tokens that the results may have.
    pub token_budget: usize,
    /// Whether meaning is compared.
    pub vectors: bool,
    /// Whether the query is expanded.
    pub expand: bool,
    /// How many links are followed.
    pub hops: usize,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Focused, Self::Deep];

    /// Its name, as it is written.
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
        found.ok_or_else(|| format!("`{text}` is no mode; there are quick, focused and deep"))
    }
}

/// A mode, and why it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModeChoice {
    /// The mode.
    pub selected_mode: Mode,
    /// Whether pressure on the context made it another than the one that was asked for.
    pub mode_override_applied: bool,
    /// How full the context is.
    pub pressure_level: Pressure,
}

/// How full the asker's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pressure {
    /// Nobody said.
    Unknown,
    /// Room enough.
    None,
    /// Nothing deeper than focused.
    Warning,
    /// Nothing deeper than quick.
    Critical,
}

/// Used shares of the asker's context from which on searches are shallower.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct PressureSettings {
    /// From here on nothing is deeper than focused.
    pub focused_from: f64,
    /// From here on nothing is deeper than quick.
    pub quick_from: f64,
}

/// Chooses a mode: the one that was asked for, or with none (auto) deep for questions that need it and focused for
/// others; but never deeper than the room that is left allows.
///
/// `usage` is the used share of the asker's context, from 0 to 1, where it is known.
pub fn choose_mode(
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
    // Depth costs three times the tokens: only where there is room for certain.
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

/// Tokens of a text, about: a quarter of its bytes, rounded up.
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
